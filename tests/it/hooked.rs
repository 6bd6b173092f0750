//! A [`Vfs`] that asks before each call: at any of them something else may happen first, or be waited for.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use foldlog::vfs::sim::Op;
use foldlog::vfs::{Entry, Existing, FileSystem, Mapped, Open, Process, Stat, Vfs, VfsFile, Words};

/// Called before each call but clocks, randomness and identity, which fail never and wait for nobody.
pub(crate) type Hook = Arc<dyn Fn(Op, &Path) + Send + Sync>;

#[derive(Clone)]
pub(crate) struct Hooked {
    inner: Arc<dyn Vfs>,
    hook: Hook,
}

impl Hooked {
    pub(crate) fn new(inner: Arc<dyn Vfs>, hook: impl Fn(Op, &Path) + Send + Sync + 'static) -> Arc<Hooked> {
        Arc::new(Hooked { inner, hook: Arc::new(hook) })
    }
}

impl fmt::Debug for Hooked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hooked({:?})", self.inner)
    }
}

impl Vfs for Hooked {
    fn open(&self, path: &Path, how: Open) -> io::Result<Box<dyn VfsFile>> {
        (self.hook)(if how == Open::Create { Op::Create } else { Op::Open }, path);
        let file = self.inner.open(path, how)?;
        Ok(Box::new(HookedFile { file, path: path.into(), hook: Arc::clone(&self.hook) }))
    }
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        (self.hook)(Op::CreateDir, path);
        self.inner.create_dir(path)
    }
    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        (self.hook)(Op::RemoveDir, path);
        self.inner.remove_dir(path)
    }
    fn rename(&self, from: &Path, to: &Path, existing: Existing) -> io::Result<()> {
        (self.hook)(Op::Rename, from);
        self.inner.rename(from, to, existing)
    }
    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        (self.hook)(Op::Link, from);
        self.inner.link(from, to)
    }
    fn unlink(&self, path: &Path) -> io::Result<()> {
        (self.hook)(Op::Unlink, path);
        self.inner.unlink(path)
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<Entry>> {
        (self.hook)(Op::List, dir);
        self.inner.list(dir)
    }
    fn stat(&self, path: &Path) -> io::Result<Stat> {
        (self.hook)(Op::Stat, path);
        self.inner.stat(path)
    }
    fn keep_access(&self, of: &Path, on: &Path) -> io::Result<()> {
        (self.hook)(Op::Access, on);
        self.inner.keep_access(of, on)
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        (self.hook)(Op::SyncDir, dir);
        self.inner.sync_dir(dir)
    }
    fn canonicalize(&self, path: &Path) -> io::Result<PathBuf> {
        (self.hook)(Op::Resolve, path);
        self.inner.canonicalize(path)
    }
    fn file_system(&self, path: &Path) -> io::Result<FileSystem> {
        (self.hook)(Op::Resolve, path);
        self.inner.file_system(path)
    }
    fn now(&self) -> u64 {
        self.inner.now()
    }
    fn monotonic(&self) -> Duration {
        self.inner.monotonic()
    }
    fn sleep(&self, time: Duration) {
        (self.hook)(Op::Sleep, Path::new(""));
        self.inner.sleep(time);
    }
    fn tells_all_of_failed_sync(&self) -> bool {
        self.inner.tells_all_of_failed_sync()
    }
    fn boot_id(&self) -> Option<u128> {
        self.inner.boot_id()
    }
    fn random(&self, buf: &mut [u8]) -> io::Result<()> {
        self.inner.random(buf)
    }
    fn process(&self) -> Process {
        self.inner.process()
    }
    fn forks(&self) -> u64 {
        self.inner.forks()
    }
}

struct HookedFile {
    file: Box<dyn VfsFile>,
    path: Arc<Path>,
    hook: Hook,
}

impl fmt::Debug for HookedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HookedFile({:?})", self.file)
    }
}

impl VfsFile for HookedFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        (self.hook)(Op::Read, &self.path);
        self.file.read_at(buf, offset)
    }
    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        (self.hook)(Op::Write, &self.path);
        self.file.write_at(buf, offset)
    }
    fn append(&self, buf: &[u8]) -> io::Result<usize> {
        (self.hook)(Op::Append, &self.path);
        self.file.append(buf)
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        (self.hook)(Op::SetLen, &self.path);
        self.file.set_len(len)
    }
    fn sync_data(&self) -> io::Result<()> {
        (self.hook)(Op::Sync, &self.path);
        self.file.sync_data()
    }
    fn stat(&self) -> io::Result<Stat> {
        (self.hook)(Op::Stat, &self.path);
        self.file.stat()
    }
    fn try_lock(&self) -> io::Result<bool> {
        (self.hook)(Op::Lock, &self.path);
        self.file.try_lock()
    }
    fn unlock(&self) -> io::Result<()> {
        (self.hook)(Op::Unlock, &self.path);
        self.file.unlock()
    }
    fn map(&self, len: usize) -> io::Result<Box<dyn Words>> {
        (self.hook)(Op::Map, &self.path);
        let words = self.file.map(len)?;
        Ok(Box::new(HookedWords { words, path: Arc::clone(&self.path), hook: Arc::clone(&self.hook) }))
    }

    fn map_bytes(&self) -> io::Result<Box<dyn Mapped>> {
        (self.hook)(Op::Map, &self.path);
        self.file.map_bytes()
    }
}

struct HookedWords {
    words: Box<dyn Words>,
    path: Arc<Path>,
    hook: Hook,
}

impl fmt::Debug for HookedWords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HookedWords({:?})", self.words)
    }
}

impl Words for HookedWords {
    fn load(&self, at: u64) -> u64 {
        (self.hook)(Op::Load, &self.path);
        self.words.load(at)
    }
    fn store(&self, at: u64, word: u64) {
        (self.hook)(Op::Store, &self.path);
        self.words.store(at, word);
    }
    fn raise(&self, at: u64, word: u64) {
        (self.hook)(Op::Store, &self.path);
        self.words.raise(at, word);
    }
    fn wait(&self, at: u64, word: u64, time: Duration) {
        (self.hook)(Op::Sleep, &self.path);
        self.words.wait(at, word, time);
    }
    fn wakes(&self, at: u64) -> bool {
        self.words.wakes(at)
    }
    fn wake(&self, at: u64, count: u32) -> Option<usize> {
        self.words.wake(at, count)
    }
}
