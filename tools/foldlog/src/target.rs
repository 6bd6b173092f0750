//! Which store and which workspaces a verb is about.

use std::path::{Path, PathBuf};

use foldlog::log::{Binding, WorkspaceMeta};
use foldlog::store::{self, Place};
use foldlog::vfs::os::Os;
use foldlog::vfs::{FileKind, Vfs as _};
use foldlog::{Options, Store};
use foldlog_requests::Failure;
use foldlog_requests::place::{find, place};

use crate::args::Global;

const NO_STORE: &str = "no store was named, and there is no default";
const NAME_ONE: &str = "give --store DIR, or set FOLDLOG_STORE";

/// What a path turned out to be.
#[derive(Debug)]
pub(crate) enum What {
    /// A store's folder.
    Store(PathBuf),
    /// A workspace's folder.
    Workspace(PathBuf),
    /// A file, to be read as a segment.
    File(PathBuf),
}

/// One workspace to look at.
#[derive(Debug)]
pub(crate) struct Subject {
    /// Name of its folder.
    pub(crate) name: String,
    /// Its folder.
    pub(crate) dir: PathBuf,
}

/// The store that `--store` or FOLDLOG_STORE names.
///
/// # Errors
/// A usage error if neither does.
pub(crate) fn root(global: &Global) -> Result<PathBuf, Failure> {
    let named = global.store.as_ref().filter(|dir| !dir.as_os_str().is_empty());
    named.cloned().ok_or_else(|| Failure::usage(NO_STORE, NAME_ONE))
}

/// Opens a store for reading.
///
/// # Errors
/// As [`Store::open`].
pub(crate) fn open(root: &Path) -> Result<Store, Failure> {
    Ok(Store::open(root, Options::default().read_only(true).create(false))?)
}

/// The workspaces of a store that `--workspace` names; all of them if it is not given.
///
/// # Errors
/// If the one that is named does not exist.
pub(crate) fn subjects(store: &Store, global: &Global) -> Result<Vec<Subject>, Failure> {
    let names = match &global.workspace {
        Some(text) => vec![find(store, text)?],
        None => store.workspace_names()?,
    };
    Ok(names.into_iter().map(|name| Subject { dir: store.workspace_dir(&name), name }).collect())
}

/// The workspace of the current folder: what a verb that writes takes if none is named.
///
/// # Errors
/// If the store has none for it.
pub(crate) fn find_here(store: &Store) -> Result<String, Failure> {
    let Place::Path(here) = place(".")? else { return find(store, ".") };
    store.find_workspace(&Place::Path(here.clone()))?.ok_or_else(|| {
        Failure::not_found(
            format!("the store has no workspace for the current folder, {here}"),
            "name one with --workspace; `foldlog stats` lists them",
        )
    })
}

/// Looks at what a path on the command line is.
///
/// # Errors
/// If it is nothing, or nothing that could be looked into.
pub(crate) fn what(path: &Path) -> Result<What, Failure> {
    let mut path = path.to_path_buf();
    let mut stat = Os.stat(&path).map_err(|e| Failure::io("look at", &path, &e))?;
    if stat.kind == FileKind::Symlink {
        path = Os.canonicalize(&path).map_err(|e| Failure::io("follow", &path, &e))?;
        stat = Os.stat(&path).map_err(|e| Failure::io("look at", &path, &e))?;
    }
    Ok(match stat.kind {
        FileKind::File => What::File(path),
        FileKind::Dir => {
            let is = |name: &str, kind| Os.stat(&path.join(name)).is_ok_and(|stat| stat.kind == kind);
            // Only a workspace has these; its META may be missing or damaged, and it can be looked into all the same.
            if is("log", FileKind::Dir) && is("LOCK", FileKind::File) {
                What::Workspace(path)
            } else {
                What::Store(path)
            }
        }
        FileKind::Symlink | FileKind::Other => {
            return Err(Failure::Own {
                code: "foreign",
                message: format!("{} is neither a file nor a folder", path.display()),
                remedy: "give a store, a workspace's folder or a segment's file".into(),
                file: Some(path),
            });
        }
    })
}

/// The name of a folder, for people.
pub(crate) fn name_of(dir: &Path) -> String {
    let whole = std::path::absolute(dir).unwrap_or_else(|_| dir.to_path_buf());
    whole.file_name().unwrap_or(whole.as_os_str()).to_string_lossy().into_owned()
}

/// What a workspace is bound to, for people.
pub(crate) fn bound_to(meta: Option<&WorkspaceMeta>) -> String {
    let all: Vec<String> = meta.into_iter().flat_map(|meta| &meta.bindings).map(store::show).collect();
    if all.is_empty() { "unknown, META cannot be read".into() } else { all.join(", ") }
}

/// The newest binding as JSON has it: a path, or `key:NAME`; `None` if it is bound to nothing, or unknown.
pub(crate) fn bound_json(meta: Option<&WorkspaceMeta>) -> Option<String> {
    match meta?.bindings.last()? {
        Binding::None => None,
        Binding::Path(path) => Some(path.clone()),
        Binding::Key(key) => Some(format!("key:{key}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_is_told_by_its_prefix_and_a_path_is_made_whole() {
        assert_eq!(place("key:a/b").unwrap(), Place::Key("a/b".into()));
        let Place::Path(path) = place("x").unwrap() else { panic!("a path") };
        assert!(Path::new(&path).is_absolute(), "{path}");
    }

    #[test]
    fn no_store_is_a_usage_error_with_its_remedy() {
        for store in [None, Some(PathBuf::new())] {
            let failure = root(&Global { store, ..Global::default() }).unwrap_err();
            assert_eq!((failure.code(), failure.remedy()), ("usage", NAME_ONE));
        }
    }
}
