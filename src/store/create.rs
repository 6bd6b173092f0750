//! Making stores and workspaces. A store comes into being by its META, put in place last; a workspace by one rename of
//! a complete folder. Whoever is killed in between leaves nothing that could be taken for either.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::meta::StoreMeta;
use super::{bad_meta, place, read_small};
use crate::error::{Context as _, Error, ErrorKind, Result};
use crate::log::finding::{Finding, Severity};
use crate::log::format::STORE_META_LEN;
use crate::log::publish::write_new;
use crate::log::rotate::{new_segment_id, plain_header, writer_version};
use crate::log::segment::SegmentState;
use crate::log::{Binding, LockFile, LockRank, LogId, Paths, WorkspaceMeta, control};
use crate::vfs::{Existing, FileKind, Open, Vfs};

/// What a folder is.
pub(super) enum Found {
    /// A store.
    Store(StoreMeta),
    /// Absent or empty.
    Nothing,
    /// Parts of a store that was never finished.
    Unfinished,
}

const FOLDERS: [&str; 2] = ["sessions", "workspaces"];
/// Made when it is first needed.
const LATER: &str = "paths";
const LOCKS: [&str; 1] = ["BIND"];
/// Lock targets of a workspace.
const WORKSPACE_LOCKS: [&str; 4] = ["LOCK", "SYNC0", "SYNC1", "COMPACT"];

/// What a workspace's folder is called until it is whole.
const HALF_MADE: &str = ".new-";

/// Stands in a copy of a store that is being made: first of all, and it goes last, behind META.
pub(super) const UNFINISHED: &str = "UNFINISHED";

/// Looks at a folder that should be, or become, a store.
pub(super) fn look(vfs: &dyn Vfs, root: &Path) -> Result<Found> {
    let path = root.join("META");
    loop {
        let found = look_once(vfs, root, &path);
        // While this looked around, another process may have finished the store: that is no folder without META.
        let surprised = match &found {
            Ok(Found::Store(_)) => false,
            Ok(_) => true,
            Err(e) => {
                matches!(e.kind(), ErrorKind::Foreign { .. } | ErrorKind::Damaged(_)) && e.path() != path
            }
        };
        if !(surprised && vfs.stat(&path).is_ok()) {
            return found;
        }
    }
}

fn look_once(vfs: &dyn Vfs, root: &Path, path: &Path) -> Result<Found> {
    match read_small(vfs, path, STORE_META_LEN) {
        Ok(bytes) => {
            return StoreMeta::decode(&bytes).map(Found::Store).map_err(|bad| bad_meta(bad, path, "store"));
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => {}
        Err(e) if e.kind() == io::ErrorKind::NotADirectory => {
            let why = "a file, not a folder".into();
            return Err(Error::new(ErrorKind::Foreign { what: "store", why }, "open", root));
        }
        Err(e) => return Err(Error::io(e, "read", path)),
    }
    let entries = match vfs.list(root) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Found::Nothing),
        // What listing a file answers differs between systems; what it is does not.
        Err(e)
            if e.kind() == io::ErrorKind::NotADirectory
                || vfs.stat(root).is_ok_and(|stat| stat.kind == FileKind::File) =>
        {
            let why = "a file, not a folder".into();
            return Err(Error::new(ErrorKind::Foreign { what: "store", why }, "open", root));
        }
        Err(e) => return Err(Error::io(e, "list", root)),
    };
    if entries.iter().any(|entry| entry.name == UNFINISHED) {
        let why =
            "a copy of a store that is being made, or was never finished; if nobody is making it, remove it"
                .into();
        return Err(Error::new(ErrorKind::Foreign { what: "store", why }, "open", root));
    }
    let mut any = false;
    for entry in &entries {
        let ours = match entry.kind {
            FileKind::Dir => FOLDERS.contains(&entry.name.as_str()) || entry.name == LATER,
            FileKind::File => LOCKS.contains(&entry.name.as_str()) || entry.name.starts_with(".new-META-"),
            _ => false,
        };
        // A fresh volume has this folder of its own; it says nothing about who uses the volume.
        if entry.name == "lost+found" && entry.kind == FileKind::Dir {
            continue;
        }
        if !ours {
            let why = format!("no META, and something else is there: {}", entry.name);
            return Err(Error::new(ErrorKind::Foreign { what: "store", why }, "open", root));
        }
        any = true;
    }
    let workspaces = root.join("workspaces");
    if let Some(lost) = any
        .then(|| vfs.list(&workspaces).unwrap_or_default())
        .and_then(|all| all.into_iter().find(|entry| !entry.name.starts_with('.')))
    {
        return Err(Error::new(
            ErrorKind::Damaged(Box::new(Finding {
                severity: Severity::Damage,
                code: "bad-meta",
                file: path.into(),
                offset: None,
                seq: None,
                message: format!("the store's META is missing, although it has workspaces ({})", lost.name),
                remedy: "bring META back from a copy; the workspaces are untouched",
            })),
            "open",
            root,
        ));
    }
    Ok(if any { Found::Unfinished } else { Found::Nothing })
}

/// Makes a store, or finishes one; answers with the winner's META if another process was quicker.
pub(super) fn store(vfs: &dyn Vfs, root: &Path) -> Result<StoreMeta> {
    folder_and_parents(vfs, root)?;
    parts(vfs, root)?;
    let mut store_id = [0; 16];
    vfs.random(&mut store_id).context("draw an id for", root)?;
    match put_meta(vfs, root, &StoreMeta::new(store_id, vfs.now(), writer_version())) {
        // Another process was quicker.
        Err(e) if e.io_error().is_some_and(|e| e.kind() == io::ErrorKind::AlreadyExists) => {
            settle_name(vfs, root, &root.join("META"))?;
        }
        put => put?,
    }
    match look(vfs, root)? {
        Found::Store(meta) => Ok(meta),
        _ => Err(Error::new(ErrorKind::StoreReplaced { what: "META vanished".into() }, "create", root)),
    }
}

/// What a store has besides its META, empty.
pub(super) fn parts(vfs: &dyn Vfs, root: &Path) -> Result<()> {
    for name in FOLDERS {
        folder(vfs, &root.join(name))?;
    }
    for name in LOCKS {
        empty_file(vfs, &root.join(name))?;
    }
    vfs.sync_dir(root).context("sync", root)
}

/// Makes a folder that has all its parts a store: META comes last, durably, and never over another.
pub(super) fn put_meta(vfs: &dyn Vfs, root: &Path, meta: &StoreMeta) -> Result<()> {
    let mut random = [0; 8];
    vfs.random(&mut random).context("draw a name in", root)?;
    let (temporary, path) =
        (root.join(format!(".new-META-{:016x}", u64::from_le_bytes(random))), root.join("META"));
    write_new(vfs, &temporary, &meta.encode())?;
    if let Err(e) = vfs.rename(&temporary, &path, Existing::Keep) {
        let _ = vfs.unlink(&temporary);
        return Err(Error::io(e, "publish", &path));
    }
    settle_name(vfs, root, &path)
}

/// The lock targets of a workspace, new and empty.
pub(super) fn lock_targets(vfs: &dyn Vfs, dir: &Path) -> Result<()> {
    WORKSPACE_LOCKS.iter().try_for_each(|name| write_new(vfs, &dir.join(name), &[]))
}

/// Makes a folder and what is missing above it, durably. Whoever made a part that is there already may have been killed
/// before it synced the name, so every name on the way is synced, whoever made it.
pub(super) fn folder_and_parents(vfs: &dyn Vfs, dir: &Path) -> Result<()> {
    match vfs.create_dir(dir) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            match dir.parent().filter(|p| !p.as_os_str().is_empty()) {
                Some(parent) => {
                    folder_and_parents(vfs, parent)?;
                    folder(vfs, dir)?;
                }
                None => return Err(Error::io(e, "create", dir)),
            }
        }
        // Whoever made it may have been killed before the name was durable.
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
        Err(e) => return Err(Error::io(e, "create", dir)),
        Ok(()) => {}
    }
    // Far above are folders that nobody here made and that may refuse to be synced.
    for above in dir.ancestors().skip(2).filter(|above| !above.as_os_str().is_empty()) {
        let _ = vfs.sync_dir(above);
    }
    sync_parent(vfs, dir)
}

fn sync_parent(vfs: &dyn Vfs, dir: &Path) -> Result<()> {
    match dir.parent().filter(|p| !p.as_os_str().is_empty()) {
        // A parent that may be entered but not read cannot be synced; it is not ours to demand more of.
        Some(parent) => match vfs.sync_dir(parent) {
            Err(e) if e.kind() != io::ErrorKind::PermissionDenied => Err(Error::io(e, "sync", parent)),
            _ => Ok(()),
        },
        None => Ok(()),
    }
}

/// Makes a new name in a folder durable. Where folders cannot be synced (Windows), the sync of any file's data writes
/// the journal that names are in.
fn settle_name(vfs: &dyn Vfs, dir: &Path, file: &Path) -> Result<()> {
    vfs.sync_dir(dir).context("sync", dir)?;
    vfs.open(file, Open::Write).and_then(|file| file.sync_data()).context("sync", file)
}

fn folder(vfs: &dyn Vfs, dir: &Path) -> Result<()> {
    match vfs.create_dir(dir) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => Err(Error::io(e, "create", dir)),
        _ => Ok(()),
    }
}

fn empty_file(vfs: &dyn Vfs, path: &Path) -> Result<()> {
    match vfs.open(path, Open::Create) {
        Ok(_) => Ok(()),
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(e) => Err(Error::io(e, "create", path)),
    }
}

/// Makes a workspace under the store's BIND lock, unless `find` finds it by then; returns its folder's name.
pub(super) fn workspace(
    vfs: &Arc<dyn Vfs>,
    root: &Path,
    binding: &Binding,
    patience: Duration,
    find: &dyn Fn() -> Result<Option<String>>,
) -> Result<String> {
    let bind = LockFile::open(vfs, root.join("BIND"), LockRank::Bind)?;
    let _held = bind.acquire(patience)?;
    if let Some(name) = find()? {
        return Ok(name);
    }
    let vfs = &**vfs;
    // Whoever made the store may have been killed before META's name was durable, and a workspace without it is damage.
    vfs.sync_dir(root).context("sync", root)?;
    let dir = root.join("workspaces");
    sweep_half_made(vfs, &dir);
    let name = place::folder_name(binding);
    let mut random = [0; 24];
    vfs.random(&mut random).context("draw ids for", &dir)?;
    let (log_id, tail) =
        random.split_first_chunk::<16>().map_or(([0; 16], &[][..]), |(id, tail)| (*id, tail));
    let suffix: String = tail.iter().map(|b| format!("{b:02x}")).collect();
    let temporary = dir.join(format!("{HALF_MADE}{suffix}"));
    let built = complete_folder(vfs, &temporary, LogId(log_id), binding).and_then(|()| {
        match vfs.rename(&temporary, &dir.join(&name), Existing::Keep) {
            Ok(()) => settle_name(vfs, &dir, &dir.join(&name).join("META")).map(|()| true),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(e) => Err(Error::io(e, "publish", &dir.join(&name))),
        }
    });
    if !matches!(built, Ok(true)) {
        throw_away(vfs, &temporary);
    }
    built.map(|_| name)
}

/// META, lock targets, control block and first segment, all synced and closed.
fn complete_folder(vfs: &dyn Vfs, dir: &Path, log_id: LogId, binding: &Binding) -> Result<()> {
    let paths = Paths::new(dir);
    vfs.create_dir(dir).context("create", dir)?;
    let now = vfs.now();
    write_new(
        vfs,
        &paths.meta(),
        &WorkspaceMeta::new(log_id, now, writer_version(), binding.clone()).encode(),
    )?;
    lock_targets(vfs, dir)?;
    write_new(vfs, &paths.control(), &control::encode(log_id))?;
    vfs.create_dir(&paths.log()).context("create", &paths.log())?;
    let id = new_segment_id(vfs).context("draw a segment id for", dir)?;
    let mut header = plain_header(log_id, id, 1, now);
    header.state = SegmentState::Live;
    header.first_seq = 1;
    write_new(vfs, &paths.segment(&header.file_name()), &header.encode())?;
    vfs.create_dir(&paths.quarantine()).context("create", &paths.quarantine())?;
    for folder in [&paths.log(), &paths.quarantine(), dir] {
        vfs.sync_dir(folder).context("sync", folder)?;
    }
    Ok(())
}

/// Removes what the dead have left of workspaces that they were making. BIND is held, as it is by whoever makes one, so
/// nobody is at any of them. What cannot be removed stays for the next.
fn sweep_half_made(vfs: &dyn Vfs, dir: &Path) {
    for entry in vfs.list(dir).unwrap_or_default() {
        if entry.kind == FileKind::Dir && entry.name.starts_with(HALF_MADE) {
            throw_away(vfs, &dir.join(&entry.name));
        }
    }
}

/// Removes a folder that never became a workspace: only files and folders that [`complete_folder`] makes.
fn throw_away(vfs: &dyn Vfs, dir: &Path) {
    for sub in ["log", "quarantine", ""] {
        let sub = dir.join(sub);
        for entry in vfs.list(&sub).unwrap_or_default().iter().filter(|entry| entry.kind == FileKind::File) {
            let _ = vfs.unlink(&sub.join(&entry.name));
        }
        let _ = vfs.remove_dir(&sub);
    }
}

/// A workspace that has META but lacks another part is damaged, never new.
pub(super) fn missing_part(vfs: &dyn Vfs, paths: &Paths) -> Result<Option<Finding>> {
    for name in WORKSPACE_LOCKS.into_iter().chain(["log"]) {
        let path = paths.dir().join(name);
        match vfs.stat(&path) {
            Ok(stat) if stat.kind == if name == "log" { FileKind::Dir } else { FileKind::File } => {}
            Ok(stat) => {
                let why = format!("{:?} where {name} should be", stat.kind);
                return Err(Error::new(ErrorKind::Foreign { what: "workspace", why }, "open", &path));
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                return Ok(Some(Finding {
                    severity: Severity::Damage,
                    code: "incomplete-workspace",
                    file: path,
                    offset: None,
                    seq: None,
                    message: format!("{name} is missing from the workspace's folder"),
                    remedy: "bring it back from a copy; an empty file does for a lock target, if no process has the store open",
                }));
            }
            Err(e) => return Err(Error::io(e, "look at", &path)),
        }
    }
    Ok(None)
}
