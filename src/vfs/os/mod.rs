//! The real system.
//!
//! [`Os`] is [`Vfs`] over `std::fs`, `fs4`, rustix and windows-sys: no other code in foldlog names any of them.
//!
//! | file | holds |
//! | --- | --- |
//! | `mod.rs` | what both kinds of system share: locks, clocks, names of file systems |
//! | `unix.rs` | Linux and macOS; `flock`, which belongs to the open file description |
//! | `fork.rs` | Unix: a forked child must not keep its parent's locks alive |
//! | `windows.rs` | Windows 10 and later; `LockFileEx`, share modes, bounded retries |
//! | `words.rs` | mapped words |
//! | `tests.rs` | one set of tests for all of them |
//!
//! Locks go through `fs4`, called by its full path: since Rust 1.89 `file.try_lock()` is std's own method, whose
//! `unlock` fails under Wine (WineHQ 59711). Neither retries `EINTR`; this module does.

#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "this is the one folder that talks to the system; clippy.toml keeps everybody else out"
)]

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::{Entry, Existing, FileKind, FileSystem, Open, Process, Stat, Vfs, VfsFile};

#[cfg(windows)]
mod bell;
#[cfg(unix)]
mod fork;
mod mapped;
#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;
mod words;

#[cfg(unix)]
use unix as system;
#[cfg(windows)]
use windows as system;

#[cfg(test)]
mod tests;

/// The real system: files, locks, clocks and randomness of the machine this process runs on.
///
/// # Concurrency
/// A process that forks keeps its locks to itself: lock handles ([`Open::is_lock`]) are closed in the child, where
/// every call on them fails, and [`Process::forks`] tells the two apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Os;

impl Vfs for Os {
    fn open(&self, path: &Path, how: Open) -> io::Result<Box<dyn VfsFile>> {
        Ok(Box::new(system::open(path, how)?))
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        system::create_dir(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        system::remove_dir(path)
    }

    fn rename(&self, from: &Path, to: &Path, existing: Existing) -> io::Result<()> {
        match existing {
            Existing::Replace => system::rename_replacing(from, to),
            Existing::Keep => system::rename_keeping(from, to),
        }
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        system::link(from, to)
    }

    fn unlink(&self, path: &Path) -> io::Result<()> {
        system::unlink(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<Entry>> {
        let mut entries = Vec::new();
        for entry in retry_interrupted(|| std::fs::read_dir(dir))? {
            let entry = entry?;
            // Where the folder doesn't say what a name is, this is a stat, and the name may have gone meanwhile.
            let kind = match retry_interrupted(|| entry.file_type()) {
                Ok(kind) => file_kind(kind),
                Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
                Err(e) => return Err(e),
            };
            entries.push(Entry { name: entry.file_name().to_string_lossy().into_owned(), kind });
        }
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    fn stat(&self, path: &Path) -> io::Result<Stat> {
        system::stat(path)
    }

    fn keep_access(&self, of: &Path, on: &Path) -> io::Result<()> {
        system::keep_access(of, on)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        system::sync_dir(dir)
    }

    fn canonicalize(&self, path: &Path) -> io::Result<PathBuf> {
        retry_interrupted(|| std::fs::canonicalize(path))
    }

    fn file_system(&self, path: &Path) -> io::Result<FileSystem> {
        system::file_system(path)
    }

    fn now(&self) -> u64 {
        // A clock before 1970 reads as 1970: this is data for people, nothing is decided by it.
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
    }

    fn monotonic(&self) -> Duration {
        system::monotonic()
    }

    fn monotonic_coarse(&self) -> Duration {
        system::monotonic_coarse()
    }

    fn sleep(&self, time: Duration) {
        if time.is_zero() {
            std::thread::yield_now();
        } else {
            std::thread::sleep(time);
        }
    }

    fn doze(&self, time: Duration) {
        std::thread::park_timeout(time);
    }

    fn tells_all_of_failed_sync(&self) -> bool {
        cfg!(target_os = "linux")
    }

    fn boot_id(&self) -> Option<u128> {
        system::boot_id()
    }

    fn random(&self, buf: &mut [u8]) -> io::Result<()> {
        getrandom::fill(buf).map_err(|e| match e.raw_os_error() {
            Some(code) => io::Error::from_raw_os_error(code),
            None => io::Error::other(e.to_string()),
        })
    }

    fn process(&self) -> Process {
        Process { pid: std::process::id(), domain: 0, forks: system::forks() }
    }

    fn forks(&self) -> u64 {
        system::forks()
    }
}

/// Repeats a call for as long as a signal interrupts it.
fn retry_interrupted<T>(mut act: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match act() {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

/// Takes the OS lock on a whole file if it is free.
fn try_lock(file: &File) -> io::Result<bool> {
    retry_interrupted(|| match fs4::FileExt::try_lock(file) {
        Ok(()) => Ok(true),
        Err(fs4::TryLockError::WouldBlock) => Ok(false),
        Err(fs4::TryLockError::Error(e)) => Err(e),
    })
}

/// Takes the OS lock on a whole file shared, if nobody has it to himself.
fn try_lock_shared(file: &File) -> io::Result<bool> {
    retry_interrupted(|| match fs4::FileExt::try_lock_shared(file) {
        Ok(()) => Ok(true),
        Err(fs4::TryLockError::WouldBlock) => Ok(false),
        Err(fs4::TryLockError::Error(e)) => Err(e),
    })
}

/// Releases the OS lock on a whole file.
fn unlock(file: &File) -> io::Result<()> {
    retry_interrupted(|| fs4::FileExt::unlock(file))
}

/// What opening anything but a regular file answers.
fn not_regular(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("not a regular file: {what}"))
}

/// What locking a handle answers that was not opened for it: it would not be closed in a forked child, and Windows
/// would keep everybody else from reading the bytes.
fn not_for_locking() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "not opened as a lock target")
}

fn file_kind(kind: std::fs::FileType) -> FileKind {
    if kind.is_symlink() {
        FileKind::Symlink
    } else if kind.is_dir() {
        FileKind::Dir
    } else if kind.is_file() {
        FileKind::File
    } else {
        FileKind::Other
    }
}

/// File systems that another kernel may write to, by the names that Linux, macOS and Windows have for them. Names
/// that start with `nfs` or `fuse.` are of this kind as well.
const SHARED: &[&str] = &[
    // Network.
    "cifs",
    "smb2",
    "smb3",
    "smbfs",
    "afpfs",
    "webdav",
    "ncpfs",
    "coda",
    "afs",
    // Cluster: one disk or one name space under many kernels.
    "acfs",
    "beegfs",
    "ceph",
    "gfs2",
    "glusterfs",
    "gpfs",
    "lustre",
    "ocfs2",
    "orangefs",
    "pvfs2",
    // The host's folders inside a virtual machine or container, Windows' inside WSL.
    "9p",
    "applevirtiofs",
    "drvfs",
    "fakeowner",
    "grpcfuse",
    "hgfs",
    "osxfs",
    "prl_fs",
    "vboxsf",
    "virtiofs",
    "vmhgfs",
    // User space: a program answers, and nobody knows where it has the bytes from.
    "fuse",
    "fusefs",
    "macfuse",
    "osxfuse",
    "osxfusefs",
];

/// Whether a file system of this name is seen by one kernel or by several.
///
/// `fuseblk` is local although it is FUSE: it drives a block device of this machine (NTFS, exFAT).
fn classify(name: String) -> FileSystem {
    let lower = name.to_ascii_lowercase();
    let shared = SHARED.contains(&lower.as_str())
        || lower.starts_with("nfs")
        || lower.starts_with("fuse.")
        || lower.starts_with("fuse-");
    if shared { FileSystem::Shared(name) } else { FileSystem::Local(name) }
}
