//! Files taken away or replaced under an open store: never a write into an orphan, never a Durable that isn't; and what
//! only looks like it (hard links) stops nobody. Counterexamples 17 and II.9.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests change the disk behind the engine's back"
)]

use std::path::{Path, PathBuf};

use foldlog::{Durability, ErrorKind, Seq, State, Workspace};

use crate::worker::{BOUND, commit, landed, open, options};

fn log_folder(ws: &Workspace) -> PathBuf {
    ws.log().paths().log()
}

fn segment(ws: &Workspace) -> PathBuf {
    let mut all: Vec<_> = std::fs::read_dir(log_folder(ws)).unwrap().map(|e| e.unwrap().path()).collect();
    all.sort();
    all.pop().unwrap()
}

/// Commits until the engine notices, as it must within its 100 ms for a folder that was moved; what was acknowledged
/// Durable by then is counted.
fn commit_until_refused(ws: &Workspace, durability: Durability) -> (usize, foldlog::Error) {
    let begun = std::time::Instant::now();
    for acknowledged in 0.. {
        assert!(begun.elapsed() < BOUND, "never noticed");
        if let Err(error) = commit(ws, "a", "late", durability) {
            return (acknowledged, error);
        }
    }
    unreachable!()
}

fn is_replaced(error: &foldlog::Error) {
    assert!(matches!(error.kind(), ErrorKind::StoreReplaced { .. }), "{error:?}");
    assert!(error.kind().remedy().contains("open the store again"));
}

fn copy_tree(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            copy_tree(&entry.path(), &to.join(entry.file_name()));
        } else {
            std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
}

/// A hard-linking backup (`cp -al`, rsnapshot) makes the link count 2. Deletion is what counts, and that is 0.
#[test]
fn hard_links_stop_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let (_store, ws) = open(&dir.path().join("s"), options());
    let _ = commit(&ws, "a", "one", Durability::Durable).unwrap();
    let backup = dir.path().join("backup");
    std::fs::create_dir(&backup).unwrap();
    std::fs::hard_link(ws.log().paths().lock(), backup.join("LOCK")).unwrap();
    std::fs::hard_link(segment(&ws), backup.join("segment")).unwrap();
    assert_eq!(commit(&ws, "a", "two", Durability::Durable).unwrap().first, Seq(2));
    drop(std::fs::remove_dir_all(&backup));
    assert_eq!(commit(&ws, "a", "three", Durability::Durable).unwrap().first, Seq(3));
}

/// On Windows none of the following can be done to files in use; there the refusal itself is the promise.
#[cfg(windows)]
#[test]
fn files_in_use_cannot_be_taken_away() {
    let dir = tempfile::tempdir().unwrap();
    let (_store, ws) = open(dir.path(), options());
    let _ = commit(&ws, "a", "one", Durability::Durable).unwrap();
    assert!(std::fs::remove_file(ws.log().paths().lock()).is_err(), "LOCK was deleted while in use");
    assert_eq!(commit(&ws, "a", "two", Durability::Durable).unwrap().first, Seq(2));
}

#[cfg(unix)]
#[test]
fn lock_deleted_refuses_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let (_store, ws) = open(dir.path(), options());
    let _ = commit(&ws, "a", "one", Durability::Durable).unwrap();
    std::fs::remove_file(ws.log().paths().lock()).unwrap();
    is_replaced(&commit(&ws, "a", "two", Durability::Buffered).unwrap_err());
    assert_eq!(landed(&ws).0.len(), 1);
    assert_eq!(ws.read(State::last).unwrap(), Seq(1), "reading what is there goes on");
}

/// Two locks for one log (CE 17, BR-084): the one who has the new file and the one who has the old never both write.
#[cfg(unix)]
#[test]
fn lock_replaced_is_noticed_before_a_durable_answer() {
    let dir = tempfile::tempdir().unwrap();
    let (_store, ws) = open(dir.path(), options());
    let _ = commit(&ws, "a", "one", Durability::Durable).unwrap();
    let keep = dir.path().join("old-lock");
    std::fs::rename(ws.log().paths().lock(), &keep).unwrap();
    std::fs::write(ws.log().paths().lock(), b"").unwrap();
    let (acknowledged, error) = commit_until_refused(&ws, Durability::Durable);
    is_replaced(&error);
    assert_eq!(acknowledged, 0, "Durable was said with a lock that excludes nobody");
}

#[cfg(unix)]
#[test]
fn segment_deleted_or_replaced_takes_no_write() {
    for replace in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let (_store, ws) = open(dir.path(), options());
        let _ = commit(&ws, "a", "one", Durability::Durable).unwrap();
        let path = segment(&ws);
        let orphan = std::fs::File::open(&path).unwrap();
        let len = orphan.metadata().unwrap().len();
        if replace {
            std::fs::copy(&path, dir.path().join("restored")).unwrap();
            std::fs::rename(dir.path().join("restored"), &path).unwrap();
        } else {
            std::fs::remove_file(&path).unwrap();
        }
        is_replaced(&commit(&ws, "a", "two", Durability::Buffered).unwrap_err());
        is_replaced(&commit(&ws, "a", "two", Durability::Durable).unwrap_err());
        assert_eq!(orphan.metadata().unwrap().len(), len, "an orphan was written");
        if !replace {
            // A reader must not call an empty history what is a deleted one.
            is_replaced(&ws.read(State::last).unwrap_err());
        }
    }
}

/// A folder that was moved may take Buffered commits for 100 ms, and nothing Durable; one that was deleted takes none.
#[cfg(unix)]
#[test]
fn folder_moved_away_acknowledges_nothing_durable() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("s");
    for durability in [Durability::Durable, Durability::Buffered] {
        let (store, ws) = open(&root, options());
        let before = commit(&ws, "a", "one", Durability::Durable).unwrap().first.0;
        let moved = dir.path().join(format!("moved-{durability:?}"));
        std::fs::rename(&root, &moved).unwrap();
        let (acknowledged, error) = commit_until_refused(&ws, durability);
        is_replaced(&error);
        if durability == Durability::Durable {
            assert_eq!(acknowledged, 0);
        }
        drop((store, ws));
        // What was acknowledged Buffered is in the folder that was moved.
        let (_store, there) = open(&moved, options());
        let last = there.read(State::last).unwrap().0;
        assert!(last >= before + acknowledged as u64, "{last} {before} {acknowledged}");
        assert_eq!(landed(&there).1.damage, None);
    }
}

#[cfg(unix)]
#[test]
fn folder_deleted_takes_no_commit() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("s");
    let (_store, ws) = open(&root, options());
    let _ = commit(&ws, "a", "one", Durability::Durable).unwrap();
    std::fs::remove_dir_all(&root).unwrap();
    is_replaced(&commit(&ws, "a", "two", Durability::Buffered).unwrap_err());
    is_replaced(&commit(&ws, "a", "two", Durability::Durable).unwrap_err());
    assert!(ws.flush().is_err());
    drop(ws);
    assert!(!root.exists(), "a deleted store came back");
}

/// `log/` is put back as it was some commits ago, under a live handle, by copying over the bytes or by other files.
#[cfg(unix)]
#[test]
fn log_restored_underneath_is_not_continued() {
    for in_place in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let (_store, ws) = open(&dir.path().join("s"), options());
        let _ = commit(&ws, "a", "one", Durability::Durable).unwrap();
        let (old, log) = (dir.path().join("old"), log_folder(&ws));
        copy_tree(&log, &old);
        let _ = commit(&ws, "a", "two", Durability::Durable).unwrap();
        let _ = commit(&ws, "a", "three", Durability::Durable).unwrap();
        let path = segment(&ws);
        if in_place {
            std::fs::write(&path, std::fs::read(old.join(path.file_name().unwrap())).unwrap()).unwrap();
        } else {
            std::fs::rename(&log, dir.path().join("newer")).unwrap();
            copy_tree(&old, &log);
        }
        let restored = std::fs::read(&path).unwrap();
        let (acknowledged, error) = commit_until_refused(&ws, Durability::Durable);
        is_replaced(&error);
        assert_eq!(acknowledged, 0);
        assert_eq!(std::fs::read(&path).unwrap(), restored, "the restored log was written to");
    }
}
