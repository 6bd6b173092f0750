//! Every system call foldlog makes, as one small trait with two implementations.
//!
//! [`os`] is the real thing: the only place that names `std::fs`, `fs4` or a platform. [`sim`] is a simulated
//! disk with simulated processes and faults; it also backs stores that live in memory. All other code reaches
//! files, clocks, locks and randomness through [`Vfs`] and [`VfsFile`] and can therefore be crashed at any call.
//!
//! Paths are absolute or relative to the process; a path is never interpreted here. Each call is one system call
//! as far as the platform allows, or says otherwise. `EINTR` is retried inside and never seen by callers.

use std::fmt::Debug;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub mod os;
pub mod sim;
pub(crate) mod threads;

/// How [`Vfs::open`] opens a file. The variants are the only ways foldlog ever opens one.
///
/// All of them refuse anything but a regular file ([`io::ErrorKind::InvalidInput`]) without blocking on it, never
/// follow a final symbolic link, and are not inherited by child processes that `exec`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Open {
    /// An existing file, for reading only. Others may rename, replace or delete it meanwhile.
    Read,
    /// An existing file, for reading and positioned writing; never truncated, never in append mode.
    Write,
    /// An existing file, for [`VfsFile::append`] and [`VfsFile::stat`] alone: whoever goes on after a long stop cannot
    /// write over what has come meanwhile. `O_APPEND`; `FILE_APPEND_DATA` without `FILE_WRITE_DATA`.
    Append,
    /// A file that must not exist yet ([`io::ErrorKind::AlreadyExists`]), for reading and writing; private (0600).
    Create,
    /// An existing lock target that is never renamed or deleted while in use (Windows: no `FILE_SHARE_DELETE`).
    Lock,
    /// A new, empty lock file that will be renamed while it is locked (session files).
    CreateLock,
    /// An existing lock file of somebody else, to be probed, perhaps renamed or deleted while it is held.
    ProbeLock,
    /// An existing file that nobody writes any more, for reading; its lock is taken *shared*: it says that the file is in
    /// use, and whoever takes the lock of a [`Open::ProbeLock`] handle knows that it is not.
    InUse,
}

impl Open {
    /// Whether the handle exists to carry an OS lock. A forked child closes these (never unlocks them).
    pub fn is_lock(self) -> bool {
        matches!(self, Open::Lock | Open::CreateLock | Open::ProbeLock | Open::InUse)
    }
}

/// What a handle for appending answers to every other call, and every other handle to [`VfsFile::append`].
fn not_opened_so() -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, "the file was not opened for this")
}

/// What [`Vfs::rename`] does when the new name exists already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// Replace it, atomically. On Windows this fails while somebody has it open without sharing delete.
    Replace,
    /// Fail with [`io::ErrorKind::AlreadyExists`] and change nothing; atomic too.
    ///
    /// Files: `renameat2(RENAME_NOREPLACE)` or, where the file system lacks it, link + unlink (a kill in between
    /// leaves both names). Folders: the same flag, or `rename`, which never replaces a folder that has anything in it.
    Keep,
}

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A folder.
    Dir,
    /// A symbolic link (not followed), or another reparse point on Windows.
    Symlink,
    /// FIFO, socket, device.
    Other,
}

/// Identity of a file on this machine: device and inode, or volume serial and file id. Equal for all hard links.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId {
    /// Device or volume.
    pub device: u64,
    /// Inode or 128-bit file id.
    pub inode: u128,
}

/// Answer of [`Vfs::stat`] and [`VfsFile::stat`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Which file this is.
    pub id: FileId,
    /// How many names it has; 0 = deleted while open.
    pub links: u64,
    /// Length in bytes.
    pub len: u64,
    /// What it is.
    pub kind: FileKind,
    /// Whether nobody is to write it: it has no permission to write at all (Unix), or its read-only attribute (Windows,
    /// where an open file is not asked for it).
    pub read_only: bool,
}

/// One name in a folder, from [`Vfs::list`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The name; names that are not Unicode come with replacement characters (foldlog creates none).
    pub name: String,
    /// What it is, without following links.
    pub kind: FileKind,
}

/// Whether a path lies on a file system that another kernel may write to at the same time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileSystem {
    /// Only this kernel sees it; OS locks exclude everybody. The payload is its name (`ext4`, `apfs`, `ntfs`).
    Local(String),
    /// Network, 9p, virtiofs, fuse and the like: locks of other kernels may not be seen. The payload is its name.
    Shared(String),
}

/// The process a call is made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Process {
    /// Process id, for people to read; nothing is ever decided by it.
    pub pid: u32,
    /// One value per process as the rest of the world sees it: 0 for the real one, its own for each simulated one.
    /// Keys the in-process registry of open logs.
    pub domain: u64,
    /// How many times this process image has been forked off since it started; differs between parent and child.
    pub forks: u64,
}

/// The system calls on names, the clocks and randomness.
///
/// # Concurrency
/// All methods may be called from any thread. None but [`Vfs::sleep`] and [`Vfs::doze`] waits for another process.
pub trait Vfs: Debug + Send + Sync {
    /// Opens a file as `how` says.
    fn open(&self, path: &Path, how: Open) -> io::Result<Box<dyn VfsFile>>;
    /// Makes one folder, private to the user (0700); its parent must exist.
    fn create_dir(&self, path: &Path) -> io::Result<()>;
    /// Removes an empty folder.
    fn remove_dir(&self, path: &Path) -> io::Result<()>;
    /// Renames a file or folder within one file system.
    fn rename(&self, from: &Path, to: &Path, existing: Existing) -> io::Result<()>;
    /// Gives a file a second name; fails if the name exists.
    fn link(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file's name.
    fn unlink(&self, path: &Path) -> io::Result<()>;
    /// The names in a folder, sorted by name, without `.` and `..`.
    fn list(&self, dir: &Path) -> io::Result<Vec<Entry>>;
    /// What a name stands for, without following a final symbolic link.
    fn stat(&self, path: &Path) -> io::Result<Stat>;
    /// Gives a file the access rights of another, before it takes its place: its permissions and, as far as that is
    /// permitted, its owner and group; a group that it cannot have hands its permissions to no other. Does nothing on Windows, where a file has the rights of its folder.
    fn keep_access(&self, of: &Path, on: &Path) -> io::Result<()>;
    /// Makes the names in a folder durable. Does nothing on Windows, where NTFS journals them.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    /// The absolute path with all symbolic links resolved; the path must exist.
    fn canonicalize(&self, path: &Path) -> io::Result<PathBuf>;
    /// Which kind of file system an existing path lies on.
    fn file_system(&self, path: &Path) -> io::Result<FileSystem>;
    /// Wall clock, in microseconds since 1970 UTC. Data only; nothing is ordered or decided by it.
    fn now(&self) -> u64;
    /// A clock that never goes back, from an arbitrary start.
    fn monotonic(&self) -> Duration;
    /// The same, perhaps some milliseconds behind, where that can be had for less.
    fn monotonic_coarse(&self) -> Duration {
        self.monotonic()
    }
    /// Lets other threads and processes run for about this long; zero = yield.
    fn sleep(&self, time: Duration);
    /// As [`Vfs::sleep`], but ends early when this thread is unparked, or has been.
    fn doze(&self, time: Duration) {
        self.sleep(time);
    }
    /// Whether a failed sync is reported, once, to every descriptor of the file that was open when it failed. Where it
    /// is not, only the caller that met it knows.
    fn tells_all_of_failed_sync(&self) -> bool;
    /// Identity of this boot of the machine, where the system tells it. For reports only.
    fn boot_id(&self) -> Option<u128>;
    /// Fills `buf` from the system's cryptographic generator.
    fn random(&self, buf: &mut [u8]) -> io::Result<()>;
    /// The process this is called from.
    fn process(&self) -> Process;
    /// [`Process::forks`] alone, which every operation compares: no system call where that can be had without.
    fn forks(&self) -> u64 {
        self.process().forks
    }
}

/// The system calls on an open file. Closing is dropping; a lock must be released with [`VfsFile::unlock`] first.
pub trait VfsFile: Debug + Send + Sync {
    /// Reads at an offset; may be short; 0 = at or past the end.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes at an offset; may be short, then only a prefix has been written.
    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize>;
    /// Writes at the end of the file, wherever that is when the call is made; may be short. [`Open::Append`] only.
    fn append(&self, buf: &[u8]) -> io::Result<usize>;
    /// Cuts or extends (with zeros) to this length.
    fn set_len(&self, len: u64) -> io::Result<()>;
    /// Makes contents and length durable, down to the device (macOS `F_FULLFSYNC`, Windows `FlushFileBuffers`).
    ///
    /// A failure must never be retried and believed: the system may have dropped the pages.
    fn sync_data(&self) -> io::Result<()>;
    /// Identity, link count and length of what is open now.
    fn stat(&self) -> io::Result<Stat>;
    /// Takes the exclusive whole-file OS lock if it is free; `false` = somebody holds it. Never waits. Of a file opened as
    /// [`Open::InUse`] it takes the shared one, which excludes the exclusive one only.
    ///
    /// A second handle excludes the first even within one process. Whether the *same* handle may take the lock twice
    /// differs between systems, so callers never do.
    fn try_lock(&self) -> io::Result<bool>;
    /// Releases the lock.
    fn unlock(&self) -> io::Result<()>;
    /// Maps the first `len` bytes as [`Words`], shared with everybody who maps the file; the file must be that long,
    /// and must never be cut. [`io::ErrorKind::Unsupported`] where that cannot be. Of a file opened for reading they
    /// can be read only.
    fn map(&self, len: usize) -> io::Result<Box<dyn Words>>;
    /// Maps all there is of a file that nobody ever writes or cuts again (a snapshot), to be read only.
    /// [`io::ErrorKind::Unsupported`] where that cannot be; an empty file is [`io::ErrorKind::UnexpectedEof`].
    fn map_bytes(&self) -> io::Result<Box<dyn Mapped>>;
}

/// A whole file as bytes in memory, for as long as this lives. On Windows the file cannot be removed meanwhile.
pub trait Mapped: Debug + Send + Sync {
    /// The bytes.
    fn bytes(&self) -> &[u8];
}

/// The start of a file as 64-bit little-endian words in memory that all its processes share.
///
/// Each word by itself is read and written atomically; a load that sees a store sees all that was done before it.
/// Nothing here is ever made durable on purpose, and no call fails or waits. `at` is an offset in bytes, a multiple of
/// 8; outside the mapping a load gives 0 and a store does nothing, as it does where the file was opened for reading.
pub trait Words: Debug + Send + Sync {
    /// The word.
    fn load(&self, at: u64) -> u64;
    /// Sets the word.
    fn store(&self, at: u64, word: u64);
    /// Sets the word to the larger of itself and this.
    fn raise(&self, at: u64, word: u64);
    /// Waits until the word is [woken](Words::wake), at most about so long; returns at once if it is not this any more,
    /// and may return early for no reason. Where nobody can be woken it just takes the time.
    fn wait(&self, at: u64, word: u64, time: Duration);
    /// Whether those who wait for this word can be woken. Both sides ask before they wait or wake: on Windows that
    /// opens what they are woken by, for the one word of a mapping that was asked for first. It must be a word that
    /// each waker raises by one.
    fn wakes(&self, at: u64) -> bool;
    /// Wakes up to so many of those, of all processes, who wait for the word; returns how many, `None` where the system
    /// has no means for it, or does not tell. On Windows it wakes all.
    fn wake(&self, at: u64, count: u32) -> Option<usize>;
}

/// Makes the name that a file has just been given durable, before anything that relies on it is written.
///
/// Where folders cannot be synced (Windows), names go through one journal, which syncing any file flushes.
///
/// # Errors
/// The first error of any of the calls.
pub fn sync_name(vfs: &dyn Vfs, path: &Path) -> io::Result<()> {
    vfs.open(path, Open::Write)?.sync_data()?;
    path.parent().map_or(Ok(()), |dir| vfs.sync_dir(dir))
}

/// Reads until `buf` is full or the file ends; returns how many bytes were read.
///
/// # Errors
/// The first error of [`VfsFile::read_at`].
pub fn read_full(file: &dyn VfsFile, buf: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut done = 0;
    while let Some(rest) = buf.get_mut(done..).filter(|r| !r.is_empty()) {
        let n = file.read_at(rest, offset + done as u64)?;
        if n == 0 {
            break;
        }
        done += n;
    }
    Ok(done)
}

/// Writes all of `buf`, however many calls that takes.
///
/// # Errors
/// The first error of [`VfsFile::write_at`], with how many bytes had been written by then; a call that writes
/// nothing is [`io::ErrorKind::WriteZero`].
pub fn write_full(file: &dyn VfsFile, buf: &[u8], offset: u64) -> Result<(), (usize, io::Error)> {
    let mut done = 0;
    while let Some(rest) = buf.get(done..).filter(|r| !r.is_empty()) {
        match file.write_at(rest, offset + done as u64) {
            Ok(0) => return Err((done, io::ErrorKind::WriteZero.into())),
            Ok(n) => done += n,
            Err(e) => return Err((done, e)),
        }
    }
    Ok(())
}
