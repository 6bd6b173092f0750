//! Which workspace a folder or key is: normalised text, its hash, and a name for people.
//!
//! Pure text, but for what the caller has asked the file system. `format-spec/format.md`, section *Workspace names*.

use crate::error::{Error, ErrorKind, Result};
use crate::log::Binding;
use crate::vfs::Vfs;
use std::path::Path;

/// What a workspace is looked up by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A project's folder, as the host spells it; it need not exist.
    Path(String),
    /// An opaque key of the host's choosing (virtual folders, worktrees that share a log).
    Key(String),
    /// Tasks that belong to no folder.
    None,
}

impl Place {
    /// The binding it computes to: normalised text, with symbolic links resolved where the folder exists.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for an empty or over-long text, or a relative path to a folder that does not exist.
    pub fn binding(&self, vfs: &dyn Vfs) -> Result<Binding> {
        let invalid = |why: &str, text: &str| {
            Err(Error::new(
                ErrorKind::Invalid { what: "workspace", why: why.into() },
                "find the workspace of",
                Path::new(text),
            ))
        };
        match self {
            Place::None => Ok(Binding::None),
            Place::Key(key) if key.is_empty() => invalid("an empty key", key),
            Place::Key(key) if key.len() > usize::from(u16::MAX) => invalid("a key of over 65,535 bytes", ""),
            Place::Key(key) => Ok(Binding::Key(key.clone())),
            Place::Path(path) if path.is_empty() => invalid("an empty path", path),
            Place::Path(path) if path.len() > 32_768 => invalid("a path of over 32,768 bytes", ""),
            Place::Path(path) => {
                let resolved =
                    vfs.canonicalize(Path::new(path)).ok().and_then(|p| p.to_str().map(str::to_owned));
                let text = resolved.as_deref().unwrap_or(path);
                match normalise(text) {
                    Some(text) => Ok(Binding::Path(text)),
                    None => invalid("a relative path to a folder that does not exist", path),
                }
            }
        }
    }
}

/// Normalises an absolute path: separators, `.` and `..`, trailing separators; a Windows path by Windows' rules on
/// every system (prefixes `\\?\` dropped, case folded). `None` if it is not absolute.
pub fn normalise(path: &str) -> Option<String> {
    if let Some((root, rest)) = windows_root(path) {
        let parts = components(rest, |c| c == '\\' || c == '/');
        let mut out = root;
        for (i, part) in parts.iter().enumerate() {
            if i > 0 || !out.ends_with('\\') {
                out.push('\\');
            }
            // A trailing dot or space is dropped by Windows when a name is opened.
            out.push_str(part.trim_end_matches(['.', ' ']));
        }
        return Some(out.to_lowercase());
    }
    let rest = path.strip_prefix('/')?;
    Some(format!("/{}", components(rest, |c| c == '/').join("/")))
}

/// The root of a Windows path, with its separators normalised, and what follows it.
fn windows_root(path: &str) -> Option<(String, &str)> {
    let is_separator = |c: char| c == '\\' || c == '/';
    let plain = path.strip_prefix(r"\\?\").or_else(|| path.strip_prefix(r"\\.\")).unwrap_or(path);
    let unc = match plain.get(..4) {
        Some(prefix) if plain.len() < path.len() && prefix.eq_ignore_ascii_case(r"UNC\") => plain.get(4..),
        // Two slashes are a root of their own on Unix too, so only back slashes make a UNC path.
        _ if plain.len() == path.len() => path.strip_prefix(r"\\"),
        _ => None,
    };
    if let Some(unc) = unc {
        let mut parts = unc.splitn(3, is_separator);
        let (server, share) = (parts.next()?, parts.next().unwrap_or(""));
        return Some((format!(r"\\{server}\{share}"), parts.next().unwrap_or("")));
    }
    let mut chars = plain.chars();
    let (drive, colon, separator) = (chars.next()?, chars.next()?, chars.next());
    if !drive.is_ascii_alphabetic() || colon != ':' || !separator.is_none_or(is_separator) {
        return None;
    }
    Some((format!("{drive}:\\"), plain.get(3..).unwrap_or("")))
}

fn components(rest: &str, is_separator: impl Fn(char) -> bool) -> Vec<&str> {
    let mut parts = Vec::new();
    for part in rest.split(is_separator) {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts
}

/// The first 128 bits of BLAKE3 over kind, a zero byte and the text, in lower-case hex.
pub fn hash(binding: &Binding) -> String {
    let (kind, text) = match binding {
        Binding::Path(path) => ("path", path.as_str()),
        Binding::Key(key) => ("key", key.as_str()),
        Binding::None => ("none", ""),
    };
    let mut hasher = blake3::Hasher::new();
    hasher.update(kind.as_bytes()).update(&[0]).update(text.as_bytes());
    hasher.finalize().to_hex().chars().take(32).collect()
}

/// The folder's name: at most 40 characters for people, and the hash.
pub fn folder_name(binding: &Binding) -> String {
    let last = match binding {
        Binding::Path(path) => path.rsplit(['/', '\\']).next().unwrap_or(""),
        Binding::Key(key) => key.as_str(),
        Binding::None => "none",
    };
    let mut slug = String::new();
    for c in last.to_lowercase().chars() {
        match c {
            'a'..='z' | '0'..='9' => slug.push(c),
            _ if !slug.is_empty() && !slug.ends_with('-') => slug.push('-'),
            _ => {}
        }
        if slug.len() >= 40 {
            break;
        }
    }
    let slug = slug.trim_end_matches('-');
    format!("{}-{}", if slug.is_empty() { "workspace" } else { slug }, hash(binding))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_one_folder_are_one_text() {
        for (spelling, text) in [
            ("/home/u/p", "/home/u/p"),
            ("/home/u/p/", "/home/u/p"),
            ("/home//u/./x/../p", "/home/u/p"),
            ("/..", "/"),
            ("/", "/"),
            (r"C:\Users\U\Proj", r"c:\users\u\proj"),
            (r"c:/Users/U/Proj/", r"c:\users\u\proj"),
            (r"\\?\C:\Users\U\Proj", r"c:\users\u\proj"),
            (r"C:\Users\U\Proj. ", r"c:\users\u\proj"),
            (r"C:", r"c:\"),
            (r"C:\", r"c:\"),
            (r"\\Server\Share\Dir", r"\\server\share\dir"),
            (r"\\?\UNC\Server\Share\Dir\", r"\\server\share\dir"),
            (r"\\wsl.localhost\Ubuntu\home", r"\\wsl.localhost\ubuntu\home"),
        ] {
            assert_eq!(normalise(spelling).as_deref(), Some(text), "{spelling}");
            assert_eq!(normalise(text).as_deref(), Some(text), "normalising twice: {spelling}");
        }
        for relative in ["", "a/b", ".", "~/x", "C:x", "1:\\x"] {
            assert_eq!(normalise(relative), None, "{relative}");
        }
    }

    #[test]
    fn unix_case_counts_and_windows_case_does_not() {
        assert_ne!(normalise("/A"), normalise("/a"));
        assert_eq!(normalise(r"D:\A"), normalise(r"d:\a"));
    }

    #[test]
    fn key_equal_to_a_path_is_another_workspace() {
        let path = Binding::Path("/x".into());
        let key = Binding::Key("/x".into());
        assert_ne!(hash(&path), hash(&key));
        assert_eq!(hash(&path).len(), 32);
    }

    #[test]
    fn names_are_safe_and_short() {
        let name = folder_name(&Binding::Path(format!("/tmp/{}", "Ünsafe: näme ".repeat(20))));
        assert!(
            name.len() <= 40 + 1 + 32
                && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        );
        assert!(folder_name(&Binding::Path("/".into())).starts_with("workspace-"));
        assert!(folder_name(&Binding::Path(r"c:\users\proj".into())).starts_with("proj-"));
    }
}
