//! The file system of the writer that is killed: the next write to a segment stops in its middle.
//!
//! A kill that comes from outside hits a write of a few hundred bytes once in a very long time. Here the process writes the
//! first part of the frame, and is then as good as dead: it holds the write lock, and does nothing until it is killed.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use foldlog::vfs::os::Os;
use foldlog::vfs::{
    Entry, Existing, FileSystem, Mapped, Open, Process, Stat, Vfs, VfsFile, Words, write_full,
};

/// What is to happen at the next write to a segment.
#[derive(Debug)]
pub(super) struct Trap {
    /// How many bytes of it are written; 0 = all.
    cut: AtomicU64,
    /// What is done then. It must not return.
    dead: fn(u64, u64),
}

impl Trap {
    /// One that is not set.
    pub(super) fn new(dead: fn(u64, u64)) -> Arc<Self> {
        Arc::new(Trap { cut: AtomicU64::new(0), dead })
    }

    /// Sets it.
    pub(super) fn set(&self, cut: u64) {
        self.cut.store(cut, Ordering::Release);
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Tearing(pub(super) Arc<Trap>);

impl Vfs for Tearing {
    fn open(&self, path: &Path, how: Open) -> io::Result<Box<dyn VfsFile>> {
        let file = Os.open(path, how)?;
        let segment = path.extension().is_some_and(|end| end == "seg");
        Ok(match how {
            Open::Write | Open::Create if segment => Box::new(Torn { file, trap: Arc::clone(&self.0) }),
            _ => file,
        })
    }
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        Os.create_dir(path)
    }
    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        Os.remove_dir(path)
    }
    fn rename(&self, from: &Path, to: &Path, existing: Existing) -> io::Result<()> {
        Os.rename(from, to, existing)
    }
    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        Os.link(from, to)
    }
    fn unlink(&self, path: &Path) -> io::Result<()> {
        Os.unlink(path)
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<Entry>> {
        Os.list(dir)
    }
    fn stat(&self, path: &Path) -> io::Result<Stat> {
        Vfs::stat(&Os, path)
    }
    fn keep_access(&self, of: &Path, on: &Path) -> io::Result<()> {
        Os.keep_access(of, on)
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        Os.sync_dir(dir)
    }
    fn canonicalize(&self, path: &Path) -> io::Result<PathBuf> {
        Os.canonicalize(path)
    }
    fn file_system(&self, path: &Path) -> io::Result<FileSystem> {
        Os.file_system(path)
    }
    fn now(&self) -> u64 {
        Os.now()
    }
    fn monotonic(&self) -> Duration {
        Os.monotonic()
    }
    fn sleep(&self, time: Duration) {
        Os.sleep(time);
    }
    fn tells_all_of_failed_sync(&self) -> bool {
        Os.tells_all_of_failed_sync()
    }
    fn boot_id(&self) -> Option<u128> {
        Os.boot_id()
    }
    fn random(&self, buf: &mut [u8]) -> io::Result<()> {
        Os.random(buf)
    }
    fn process(&self) -> Process {
        Os.process()
    }
    fn forks(&self) -> u64 {
        Os.forks()
    }
}

/// A segment that may be torn.
#[derive(Debug)]
struct Torn {
    file: Box<dyn VfsFile>,
    trap: Arc<Trap>,
}

impl VfsFile for Torn {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buf, offset)
    }
    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        let cut = self.trap.cut.swap(0, Ordering::AcqRel);
        let start = usize::try_from(cut).ok().filter(|cut| *cut > 0).and_then(|cut| buf.get(..cut));
        if let Some(start) = start.filter(|start| start.len() < buf.len()) {
            write_full(&*self.file, start, offset).map_err(|(_, e)| e)?;
            (self.trap.dead)(cut, buf.len() as u64);
        }
        self.file.write_at(buf, offset)
    }
    fn append(&self, buf: &[u8]) -> io::Result<usize> {
        self.file.append(buf)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }
    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }
    fn stat(&self) -> io::Result<Stat> {
        self.file.stat()
    }
    fn try_lock(&self) -> io::Result<bool> {
        self.file.try_lock()
    }
    fn unlock(&self) -> io::Result<()> {
        self.file.unlock()
    }
    fn map(&self, len: usize) -> io::Result<Box<dyn Words>> {
        self.file.map(len)
    }

    fn map_bytes(&self) -> io::Result<Box<dyn Mapped>> {
        self.file.map_bytes()
    }
}
