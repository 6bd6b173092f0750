//! A JSON state file that other programs write, without a lock that could be asked: looking at it, and replacing it.

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::{Context as _, Error, ErrorKind, Result};
use crate::event::{ITEM_LEN_MAX, Value};
use crate::log::publish::{publish, write_new};
use crate::vfs::{Existing, FileKind, Open, Vfs, read_full, sync_name};

/// Longest file. A value may have 64 MiB; the rest is for the space around it.
const LEN_MAX: u64 = ITEM_LEN_MAX + (1 << 20);
/// How often a file is looked at before it counts as unstable.
const LOOKS_MAX: u32 = 100;
/// How many looks in a row must agree before a file counts as malformed, or as not there: who writes it may have emptied or
/// removed it first.
const LOOKS_BAD: u32 = 20;
const LOOKS_ABSENT: u32 = 3;
/// Between two of them.
const PAUSE: Duration = Duration::from_millis(10);

/// BLAKE3 of a file's bytes.
pub(super) type Hash = [u8; 32];

pub(super) fn hash(bytes: &[u8]) -> Hash {
    *blake3::hash(bytes).as_bytes()
}

/// What a file held.
#[derive(Debug)]
pub(super) enum Seen {
    Absent,
    /// Nothing that could be taken: empty, cut short, or no JSON.
    Bad {
        hash: Hash,
        bytes: Vec<u8>,
        why: String,
    },
    Good {
        hash: Hash,
        bytes: Vec<u8>,
        value: Value,
    },
}

impl Seen {
    /// The hash of what it held; `None` = it was not there.
    pub(super) fn hash(&self) -> Option<Hash> {
        match self {
            Seen::Absent => None,
            Seen::Bad { hash, .. } | Seen::Good { hash, .. } => Some(*hash),
        }
    }
}

/// The file, by a path that all processes spell alike.
#[derive(Clone, Debug)]
pub(super) struct StateFile {
    path: PathBuf,
    name: String,
}

impl StateFile {
    /// The file of that path, which need not be there; its folder must. A symbolic link is followed once, now.
    ///
    /// # Errors
    /// System errors; [`ErrorKind::Invalid`] for a path that is not Unicode, or names no file.
    pub(super) fn new(vfs: &dyn Vfs, path: &Path) -> Result<Self> {
        let invalid =
            |why: &str| Error::new(ErrorKind::Invalid { what: "state file", why: why.into() }, "find", path);
        let is_link = vfs.stat(path).is_ok_and(|stat| stat.kind == FileKind::Symlink);
        let path = if is_link { vfs.canonicalize(path).context("follow", path)? } else { path.to_path_buf() };
        let file = path.file_name().ok_or_else(|| invalid("the path names no file"))?;
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let parent = vfs.canonicalize(parent).context("find", parent)?;
        let path = parent.join(file);
        match (path.to_str(), file.to_str()) {
            (Some(_), Some(name)) => Ok(StateFile { name: name.into(), path: path.clone() }),
            _ => Err(invalid("the path is not Unicode")),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Looks until it holds still.
    ///
    /// # Errors
    /// [`ErrorKind::Unstable`], [`ErrorKind::TooLarge`], system errors: of none of them anything can be concluded.
    pub(super) fn look(&self, vfs: &dyn Vfs) -> Result<Seen> {
        let (mut before, mut agreed) = (None, 0);
        for _ in 0..LOOKS_MAX {
            let seen = self.look_once(vfs)?;
            let now = (std::mem::discriminant(&seen), seen.hash());
            agreed = if before == Some(now) { agreed + 1 } else { 1 };
            before = Some(now);
            let enough = match seen {
                Seen::Good { .. } => 2,
                Seen::Absent => LOOKS_ABSENT,
                Seen::Bad { .. } => LOOKS_BAD,
            };
            if agreed >= enough {
                return Ok(seen);
            }
            if !matches!(seen, Seen::Good { .. }) {
                vfs.sleep(PAUSE);
            }
        }
        let what = self.path.display().to_string();
        Err(Error::new(ErrorKind::Unstable { what }, "read", &self.path))
    }

    fn look_once(&self, vfs: &dyn Vfs) -> Result<Seen> {
        let Some(bytes) = self.bytes(vfs)? else { return Ok(Seen::Absent) };
        let hash = hash(&bytes);
        Ok(match value(&bytes) {
            Ok(value) => Seen::Good { hash, bytes, value },
            Err(why) => Seen::Bad { hash, bytes, why },
        })
    }

    fn bytes(&self, vfs: &dyn Vfs) -> Result<Option<Vec<u8>>> {
        let file = match vfs.open(&self.path, Open::Read) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(Error::io(e, "open", &self.path)),
        };
        let len = file.stat().context("look at", &self.path)?.len;
        if len > LEN_MAX {
            let kind = ErrorKind::TooLarge { what: "a state file's bytes", len, max: LEN_MAX };
            return Err(Error::new(kind, "read", &self.path));
        }
        // One more than it has, to see that it ends there.
        let mut bytes = vec![0; usize::try_from(len).unwrap_or(0) + 1];
        let n = read_full(&*file, &mut bytes, 0).context("read", &self.path)?;
        bytes.truncate(n);
        Ok(Some(bytes))
    }

    /// The name under which contents are written before they get the file's own. From the contents alone, so that who comes
    /// after a crash finds what was left.
    fn temporary(&self, content: &Hash) -> PathBuf {
        let mut name = format!(".{}.foldlog-", self.name);
        for byte in content.iter().take(8) {
            let _ = write!(name, "{byte:02x}"); // into memory
        }
        self.path.with_file_name(name)
    }

    /// Replaces what was seen; `false` = something else stands there by now, and nothing was done. What was left behind of
    /// `others`, contents that were to be written here before, is removed.
    ///
    /// Between the last look and the renaming another program may still write: what it wrote then is lost, as between any
    /// two programs that replace a file without a lock.
    pub(super) fn replace(
        &self,
        vfs: &dyn Vfs,
        seen: Option<Hash>,
        bytes: &[u8],
        others: &[Hash],
    ) -> Result<bool> {
        let content = hash(bytes);
        let temporary = self.temporary(&content);
        for left in others.iter().map(|other| self.temporary(other)).chain([temporary.clone()]) {
            match vfs.unlink(&left) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(Error::io(e, "remove", &left)),
                _ => {}
            }
        }
        write_new(vfs, &temporary, bytes)?;
        if self.bytes(vfs)?.as_deref().map(hash) != seen {
            let _ = vfs.unlink(&temporary);
            return Ok(false);
        }
        let existing = if seen.is_some() { Existing::Replace } else { Existing::Keep };
        match vfs.rename(&temporary, &self.path, existing) {
            Ok(()) => sync_name(vfs, &self.path).context("sync", &self.path).map(|()| true),
            Err(e) => {
                let _ = vfs.unlink(&temporary);
                match e.kind() {
                    // Somebody made the file, or took our name for a leftover: both look again.
                    io::ErrorKind::AlreadyExists | io::ErrorKind::NotFound => Ok(false),
                    _ => Err(Error::io(e, "publish", &self.path)),
                }
            }
        }
    }

    /// Keeps a copy of contents in a quarantine, once for each; says where, and whether it is new there.
    pub(super) fn set_aside(
        &self,
        vfs: &dyn Vfs,
        quarantine: &Path,
        bytes: &[u8],
        why: &str,
    ) -> Result<(PathBuf, bool)> {
        let content = blake3::hash(bytes).to_hex();
        let stem = format!("state-{}", content.get(..32).unwrap_or_default());
        let (copy, note) = (quarantine.join(format!("{stem}.bin")), quarantine.join(format!("{stem}.note")));
        match vfs.stat(&note) {
            Ok(_) => return Ok((copy, false)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(Error::io(e, "look at", &note)),
        }
        match vfs.create_dir(quarantine) {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => {
                return Err(Error::io(e, "create", quarantine));
            }
            _ => {}
        }
        let mut random = [0; 8];
        vfs.random(&mut random).context("draw a name in", quarantine)?;
        let temporary = quarantine.join(format!(".new-{stem}-{:016x}", u64::from_le_bytes(random)));
        let text = format!(
            "cause: state file\nfile: {}\nbytes: {}\nblake3: {content}\nwhy: {}\ntime: {}\n",
            self.path.display(),
            bytes.len(),
            why.replace(['\n', '\r'], " "),
            vfs.now(),
        );
        // The bytes come first: a note always has what it speaks of. Whoever else is at it keeps the same bytes.
        for (path, bytes) in [(&copy, bytes), (&note, text.as_bytes())] {
            match publish(vfs, &temporary, path, bytes) {
                Err(e) if e.io_error().is_some_and(|e| e.kind() == io::ErrorKind::AlreadyExists) => {}
                done => done?,
            }
        }
        if let Some(parent) = quarantine.parent() {
            vfs.sync_dir(parent).context("sync", parent)?;
        }
        Ok((copy, true))
    }
}

/// The value that a file's bytes are, or what they are instead.
fn value(bytes: &[u8]) -> Result<Value, String> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    if bytes.is_empty() {
        return Err("it is empty".into());
    }
    if bytes.trim_ascii().is_empty() {
        return Err("it holds nothing but space".into());
    }
    if matches!(bytes, [0xff, 0xfe, ..] | [0xfe, 0xff, ..]) {
        return Err("it is UTF-16".into());
    }
    let text = std::str::from_utf8(bytes).map_err(|e| format!("it is not UTF-8: {e}"))?;
    Value::parse(text).map_err(|bad| format!("it is no JSON value: {bad}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_json_is_a_value() {
        for good in ["{}", " {\"a\":1}\n", "\u{feff}[1]", "null", "7"] {
            assert!(value(good.as_bytes()).is_ok(), "{good:?}");
        }
        let whole = "{\"a\": [1, \"x\\n\"]}";
        for len in 0..whole.len() {
            assert!(value(&whole.as_bytes()[..len]).is_err(), "cut at {len}");
        }
        for bad in ["", " \n", "\u{feff}", "NaN", "{\"a\":1}{", "{\"a\":1,\"a\":2}", "<html>", "\0\0\0\0"] {
            assert!(value(bad.as_bytes()).is_err(), "{bad:?}");
        }
        assert!(value(b"\xff\xfe{\0}\0").is_err() && value(b"\"\xff\"").is_err());
    }
}
