//! LOCK kept over a burst of commits, as long as nobody else wants it.
//!
//! Taking and releasing a lock are two system calls, and two more look whether the files under it still stand. A
//! process that commits again within microseconds, and only what need not be synced, keeps the lock in between:
//!
//! - Who waits for LOCK says so in the control block (`WORD_WANTED`) after each try that fails. The keeper looks at the
//!   word after every commit, gives way once it has had its turn, and then leaves the lock alone for a moment.
//! - An idle keeper is no hindrance: the housekeeping thread, or the host's `tick()`, gives the lock back. Without
//!   either it is never kept, nor while that thread is busy with syncs, which may hang.
//! - The word is a hint. If it is lost, a waiter waits for the next burst to end, or for the keeper's look at its files,
//!   ten times a second, when it gives way to whoever there may be.
//! - The lock is never kept over a sync, and a process that is killed or forked off while it keeps the lock is like one
//!   that is killed or forked off under it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use super::control::Block;
use super::engine::{Log, Writer};
use super::format::WORD_WANTED;
use super::lock::Held;
use super::view::View;
use crate::vfs::Vfs;

/// A commit this soon after the one before is part of a burst.
const BURST: Duration = Duration::from_micros(100);
/// How long a keeper goes on although somebody waits: a hand-over costs tens of microseconds.
const TURN: Duration = Duration::from_micros(500);
/// For how long a keeper leaves the lock alone after it gave way.
const GIVE_WAY: Duration = Duration::from_micros(100);
/// How old the look at the files under the lock may be.
const LOOKED_FOR: Duration = Duration::from_micros(50);
/// How long a lock is kept at most.
const KEPT_FOR: Duration = Duration::from_millis(100);
/// A keeper that has not committed for so long gives the lock back.
const IDLE: Duration = Duration::from_micros(100);

/// Whether a process may keep LOCK between two commits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeepLock {
    /// Never.
    Never,
    /// In a burst of buffered commits, for as long as the housekeeping thread is there to give it back.
    #[default]
    InBursts,
    /// Also without that thread: the host calls `tick()` at least as often as others may be made to wait.
    UntilTick,
}

/// LOCK between two commits of a burst.
#[derive(Debug)]
pub(super) struct Kept {
    held: Held,
    /// Length of the active file when the lock was parked; it may have grown by zeros since.
    pub(super) file_len: u64,
}

/// What those who do not hold the in-process mutex know of it.
#[derive(Debug, Default)]
pub(super) struct Keeping {
    /// When the lock was parked last, in nanoseconds; 0 = nothing to look after.
    parked: AtomicU64,
    /// The housekeeping thread has not heard of it yet.
    news: AtomicBool,
    /// Whether a lock may be kept now; if not, the in-process mutex need not be waited for to give it back.
    kept: AtomicBool,
}

impl Keeping {
    pub(super) fn take_news(&self) -> bool {
        self.news.load(Ordering::Acquire) && self.news.swap(false, Ordering::AcqRel)
    }

    /// No lock is kept: it has been given back, or is about to be taken from the system.
    pub(super) fn is_over(&self) {
        self.kept.store(false, Ordering::SeqCst);
    }

    /// When it is to be looked at next.
    pub(super) fn due(&self) -> Option<Duration> {
        match self.parked.load(Ordering::Acquire) {
            0 => None,
            at => Some(Duration::from_nanos(at) + IDLE),
        }
    }
}

impl Writer {
    /// The lock that was kept, if it may be taken up without another look at the files under it.
    pub(super) fn take_up(&mut self, now: Duration) -> Option<(Held, u64)> {
        if now.saturating_sub(self.looked) >= LOOKED_FOR {
            return None;
        }
        self.kept.take().map(|Kept { held, file_len }| (held.resume(), file_len))
    }

    /// The lock that was kept, if it may be kept on.
    pub(super) fn take_up_to_look(&mut self, now: Duration) -> Option<Held> {
        let kept = self.kept.take()?;
        if now.saturating_sub(self.since) < KEPT_FOR {
            return Some(kept.held.resume());
        }
        // Whoever waits unheard shall have a chance.
        self.gave_way = true;
        None
    }

    /// The wall clock when LOCK was taken, or taken up; in a burst reckoned from a look that is as old as that at the
    /// files may be.
    pub(super) fn wall(&mut self, vfs: &dyn Vfs) -> u64 {
        if let Some((then, wall)) = self.clocks {
            let since = self.entered.saturating_sub(then);
            if since < LOOKED_FOR {
                return wall + u64::try_from(since.as_micros()).unwrap_or(0);
            }
        }
        let wall = vfs.now();
        self.clocks = Some((self.entered, wall));
        wall
    }

    /// Gives back a lock that was kept.
    pub(super) fn let_go(&mut self) {
        self.kept = None;
    }
}

impl Log {
    /// Says that LOCK is wanted, and waits until it is given back, at most as long as the pause. Returns whether it has been
    /// given back, to somebody, since this was said before.
    pub(super) fn want_lock(&self, block: &Block, pause: Duration, announced: &mut bool) -> bool {
        let mine = self.session.as_ref().map_or(1, |session| session.id());
        match block.load(WORD_WANTED) {
            // It may have been given back before this was said: one more try before any waiting.
            0 => {
                block.store(WORD_WANTED, mine);
                self.vfs.sleep(Duration::ZERO);
                std::mem::replace(announced, true)
            }
            word if !pause.is_zero() => {
                // What the others have committed has to be read anyway: better now than under LOCK. Whatever goes wrong
                // is told to whoever reads or commits.
                let _ = self.refresh();
                block.wait(WORD_WANTED, word, pause);
                false
            }
            _ => {
                self.vfs.sleep(Duration::ZERO);
                false
            }
        }
    }

    /// Lets others go first if this process has just given way.
    pub(super) fn give_way(&self, writer: &mut Writer) {
        if std::mem::take(&mut writer.gave_way)
            && let Some(block) = &writer.block
        {
            block.wait(WORD_WANTED, block.load(WORD_WANTED), GIVE_WAY);
        }
    }

    /// Keeps the lock for the next commit of a burst, or gives it back. The view's lock has been released.
    pub(super) fn leave(&self, writer: &mut Writer, held: Held, file_len: Option<u64>) {
        let wanted = self.is_wanted(writer);
        let over = wanted && writer.entered.saturating_sub(writer.since) >= TURN;
        match file_len.filter(|_| !over) {
            Some(file_len) => {
                writer.kept = Some(Kept { held: held.park(), file_len });
                let now = u64::try_from(writer.entered.as_nanos()).unwrap_or(u64::MAX).max(1);
                // Changed by the holder of the in-process mutex alone, so two steps are as good as one.
                let before = self.keeping.parked.load(Ordering::Relaxed);
                self.keeping.parked.store(now, Ordering::Release);
                if before == 0 {
                    self.keeping.news.store(true, Ordering::Release);
                }
                // In this order: whoever stops looking after this log looks at the one behind the other.
                self.keeping.kept.store(true, Ordering::SeqCst);
                if !self.is_looked_after() {
                    self.end_keeping(writer);
                }
            }
            None => {
                self.keeping.is_over();
                drop(held);
                if wanted {
                    writer.gave_way = self.pass_on(writer);
                }
            }
        }
    }

    /// Wakes one who waits for LOCK, which has been given back; returns whether somebody may take it.
    fn pass_on(&self, writer: &Writer) -> bool {
        let Some(block) = &writer.block else { return false };
        match block.wake(WORD_WANTED, 1) {
            // More may wait behind that one, so the word stays.
            Some(1..) => true,
            Some(0) => {
                block.store(WORD_WANTED, 0);
                false
            }
            None => {
                block.store(WORD_WANTED, 0);
                true
            }
        }
    }

    fn is_wanted(&self, writer: &Writer) -> bool {
        writer.block.as_ref().is_some_and(|block| self.uses_words() && block.load(WORD_WANTED) != 0)
    }

    /// Whether the lock may be kept behind a commit that needs no sync: in a burst, where others can make themselves
    /// heard.
    pub(super) fn may_keep(&self, writer: &Writer, view: &View) -> bool {
        self.is_looked_after()
            && self.uses_words()
            && writer.block.as_ref().is_some_and(|block| block.is_mapped())
            && writer.entered.saturating_sub(writer.before) < BURST
            && view.is_whole()
    }

    /// Whether somebody gives the lock back if no more commits come.
    fn is_looked_after(&self) -> bool {
        match self.settings.keep_lock {
            KeepLock::Never => false,
            KeepLock::InBursts => self.looked_after.load(Ordering::SeqCst),
            KeepLock::UntilTick => true,
        }
    }

    /// The housekeeping thread is there for this log from now on, or is busy for a while.
    pub(crate) fn look_after(&self, present: bool) {
        self.looked_after.store(present, Ordering::SeqCst);
        if !present {
            self.let_go();
        }
    }

    /// Gives back a kept lock, if there is one, to whoever waits for it.
    pub(super) fn end_keeping(&self, writer: &mut Writer) {
        if writer.kept.is_some() {
            writer.let_go();
            if self.is_wanted(writer) {
                self.pass_on(writer);
            }
        }
        self.keeping.is_over();
    }

    /// Gives back a kept lock, before this process waits for anything but the next commit.
    pub(super) fn let_go(&self) {
        if self.keeping.kept.load(Ordering::SeqCst) {
            self.end_keeping(&mut self.writer.lock());
        }
    }

    /// Gives back a kept lock if the burst is over. Returns when to look again.
    pub(super) fn let_go_if_idle(&self, now: Duration) -> Option<Duration> {
        let due = self.keeping.due()?;
        if now < due {
            return Some(due);
        }
        // Who is at it right now will park it anew, or has given it back.
        let Some(mut writer) = self.writer.try_lock() else { return Some(now + IDLE) };
        if self.keeping.due().is_some_and(|due| now < due) {
            return self.keeping.due();
        }
        self.end_keeping(&mut writer);
        self.keeping.parked.store(0, Ordering::Release);
        None
    }
}
