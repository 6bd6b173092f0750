//! LOCK: the one writer at a time. Tried, never waited for in the kernel, never stolen.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Context as _, Error, ErrorKind, Result};
#[cfg(debug_assertions)]
use crate::vfs::threads::thread_local;
use crate::vfs::{Open, Vfs, VfsFile};

/// Tries that only yield in between; together about as long as a commit takes.
const QUICK_TRIES: u32 = 16;
/// The first pause after those, the longest one while it may be a matter of hand-over, and the longest one.
const PAUSE: [Duration; 3] =
    [Duration::from_micros(50), Duration::from_micros(200), Duration::from_millis(2)];
/// How long a wait may be a matter of hand-over: many processes that keep the lock for a burst each.
const HANDOVER: Duration = Duration::from_millis(50);

/// The order in which a thread may take locks; `format-spec/locks.md`. Asserted in debug builds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rank {
    Bind,
    /// Of a file's path.
    Path,
    Compact,
    Lock,
    Lane,
}

#[cfg(debug_assertions)]
thread_local! {
    /// What this thread holds, in the order it was taken.
    static HELD: std::cell::RefCell<Vec<Rank>> = const { std::cell::RefCell::new(Vec::new()) };
}

#[cfg(debug_assertions)]
fn forget(rank: Rank) {
    HELD.with(|held| {
        let mut held = held.borrow_mut();
        if let Some(at) = held.iter().rposition(|other| *other == rank) {
            held.remove(at);
        }
    });
}

/// A lock target that stays open.
#[derive(Debug)]
pub(crate) struct LockFile {
    vfs: Arc<dyn Vfs>,
    file: Box<dyn VfsFile>,
    path: PathBuf,
    forks: u64,
    #[cfg_attr(
        not(debug_assertions),
        expect(dead_code, reason = "the order of locks is asserted in debug builds")
    )]
    rank: Rank,
}

impl LockFile {
    pub(crate) fn open(vfs: &Arc<dyn Vfs>, path: PathBuf, rank: Rank) -> Result<Arc<Self>> {
        let file = vfs.open(&path, Open::Lock).context("open the lock file", &path)?;
        Ok(Arc::new(LockFile { vfs: Arc::clone(vfs), file, path, forks: vfs.forks(), rank }))
    }

    /// Takes the lock if it is free.
    pub(crate) fn try_acquire(self: &Arc<Self>) -> Result<Option<Held>> {
        let taken = self.file.try_lock().context("lock", &self.path)?;
        Ok(taken.then(|| Held { lock: Arc::clone(self), parked: true }.resume()))
    }

    /// Takes the lock within `patience`: 32 quick tries, then polling with growing, jittered pauses.
    ///
    /// # Errors
    /// [`ErrorKind::Busy`], its holder still to be named.
    pub(crate) fn acquire(self: &Arc<Self>, patience: Duration) -> Result<Held> {
        let sleep = |pause| {
            self.vfs.sleep(pause);
            false
        };
        self.acquire_by(patience, |_, pause| sleep(pause))
    }

    /// The same; after each try that fails, `pause` is told how long this has been waiting, and how long to pause. It
    /// answers whether the lock has been given back for a moment since it was asked before: then it is worth trying often.
    ///
    /// # Errors
    /// As [`LockFile::acquire`].
    pub(crate) fn acquire_by(
        self: &Arc<Self>,
        patience: Duration,
        mut pause_for: impl FnMut(Duration, Duration) -> bool,
    ) -> Result<Held> {
        for _ in 0..QUICK_TRIES {
            if let Some(held) = self.try_acquire()? {
                return Ok(held);
            }
            pause_for(Duration::ZERO, Duration::ZERO);
        }
        let [mut pause, in_handover, longest] = PAUSE;
        let start = self.vfs.monotonic();
        let mut handover = HANDOVER;
        loop {
            let waited = self.vfs.monotonic().saturating_sub(start);
            if waited >= patience {
                let waited_ms = u64::try_from(waited.as_millis()).unwrap_or(u64::MAX);
                return Err(Error::new(
                    ErrorKind::Busy { holder: String::new(), waited_ms },
                    "lock",
                    &self.path,
                ));
            }
            let mut jitter = [0; 1];
            self.vfs.random(&mut jitter).context("draw a pause for", &self.path)?;
            if pause_for(waited, (pause / 2 + pause * u32::from(jitter[0]) / 256).min(patience - waited)) {
                handover = waited + HANDOVER;
                pause = pause.min(in_handover);
            }
            pause = (pause * 2).min(if waited < handover { in_handover } else { longest });
            if let Some(held) = self.try_acquire()? {
                return Ok(held);
            }
        }
    }

    /// Whether the file has been deleted while open. Cheap: asked at every acquisition.
    pub(crate) fn is_deleted(&self) -> Result<bool> {
        Ok(self.file.stat().context("look at", &self.path)?.links == 0)
    }

    /// Whether the path still leads to this file.
    pub(crate) fn stands(&self) -> Result<bool> {
        same(&*self.vfs, &*self.file, &self.path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// Whether a path leads to the file that is open; a path that leads nowhere does not.
pub(crate) fn same(vfs: &dyn Vfs, file: &dyn VfsFile, path: &Path) -> Result<bool> {
    let here = file.stat().context("look at", path)?;
    match vfs.stat(path) {
        Ok(there) => Ok(there.id == here.id),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(Error::io(e, "look at", path)),
    }
}

/// The lock, held. Dropping it releases it.
#[derive(Debug)]
#[must_use]
pub(crate) struct Held {
    lock: Arc<LockFile>,
    /// Whether no thread is at work under it.
    parked: bool,
}

impl Held {
    /// Held on, but by no thread in particular.
    pub(crate) fn park(mut self) -> Held {
        #[cfg(debug_assertions)]
        forget(self.lock.rank);
        self.parked = true;
        self
    }

    /// Taken up by this thread, which must be allowed to take the lock now.
    pub(crate) fn resume(mut self) -> Held {
        #[cfg(debug_assertions)]
        HELD.with(|held| {
            let mut held = held.borrow_mut();
            let rank = self.lock.rank;
            // A lane may be probed beside another: it is never waited for.
            let may = |other: &Rank| *other < rank || rank == Rank::Lane && *other == rank;
            debug_assert!(held.iter().all(may), "{rank:?} is taken while {held:?} are held");
            held.push(rank);
        });
        self.parked = false;
        self
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        #[cfg(debug_assertions)]
        if !self.parked {
            forget(self.lock.rank);
        }
        if self.lock.vfs.forks() != self.lock.forks {
            return; // the parent's: an unlock here would free it there
        }
        // A failure here cannot be told to anyone; the OS frees the lock with the descriptor at the latest.
        let _ = self.lock.file.unlock();
    }
}

#[cfg(test)]
mod tests;
