//! Sleeping until there is something new, and who may end that.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::thread::Thread;
use std::time::Duration;

use super::super::control::Block;
use super::super::engine::Log;
use super::super::format::WORD_RING;
use super::{Delivery, Subscription};
use crate::error::Result;
use crate::vfs::Vfs;
use crate::vfs::threads::Mutex;

/// For how long one sleeps at most before one looks: what a ring that got lost may cost.
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
/// Where nobody can ring: how long one waits before the second look.
pub(super) const FIRST_PAUSE: Duration = Duration::from_millis(1);

/// How often a subscription has slept, by what ended it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wakings {
    /// Somebody rang: a writer, a sync, a [`Waker`], or a writer that meant somebody else.
    pub by_ring: u64,
    /// The pause was over: it was the end of the time, or the look that makes up for lost rings.
    pub by_time: u64,
    /// How often it was about to sleep and found that there was something.
    pub not_slept: u64,
}

/// What a subscription shares with those who may end its waiting.
pub(crate) struct Waiting {
    pub(super) vfs: Arc<dyn Vfs>,
    forks: u64,
    stopped: AtomicBool,
    called: AtomicBool,
    asleep: Mutex<Asleep>,
}

/// Where the subscription sleeps, or is about to.
enum Asleep {
    No,
    /// On the ring of this block.
    OnRing(Arc<Block>),
    /// By itself.
    Alone(Thread),
}

impl fmt::Debug for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiting").field("stopped", &self.stopped).finish_non_exhaustive()
    }
}

impl Waiting {
    pub(super) fn new(vfs: &Arc<dyn Vfs>) -> Self {
        Waiting {
            vfs: Arc::clone(vfs),
            forks: vfs.forks(),
            stopped: AtomicBool::new(false),
            called: AtomicBool::new(false),
            asleep: Mutex::new(Asleep::No),
        }
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    /// Whether the present wait was to be ended.
    pub(super) fn take_call(&self) -> bool {
        self.called.load(Ordering::Acquire) && self.called.swap(false, Ordering::AcqRel)
    }

    fn is_called(&self) -> bool {
        self.called.load(Ordering::Acquire) || self.is_stopped()
    }

    pub(super) fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        self.rouse();
    }

    fn call(&self) {
        self.called.store(true, Ordering::Release);
        self.rouse();
    }

    /// Whoever calls has said so before; whoever sleeps says where, and then looks whether it was called.
    fn rouse(&self) {
        // In a forked child nobody sleeps, and a thread of the parent's may have held the lock.
        if self.vfs.forks() != self.forks {
            return;
        }
        match &*self.asleep.lock() {
            Asleep::No => {}
            Asleep::OnRing(block) => block.ring_anyway(),
            Asleep::Alone(thread) => thread.unpark(),
        }
    }
}

/// Ends a subscription's waiting, from any thread. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Waker(Weak<Waiting>);

impl Waker {
    pub(super) fn of(waiting: &Arc<Waiting>) -> Self {
        Waker(Arc::downgrade(waiting))
    }

    /// Ends the present wait, or the next one: it answers that nothing came.
    pub fn wake(&self) {
        if let Some(waiting) = self.0.upgrade() {
            waiting.call();
        }
    }

    /// Ends the subscription: nothing comes any more.
    pub fn stop(&self) {
        if let Some(waiting) = self.0.upgrade() {
            waiting.stop();
        }
    }
}

/// The subscriptions that end with something.
#[derive(Debug, Default)]
pub(crate) struct Followers(Mutex<Vec<Weak<Waiting>>>);

impl Followers {
    pub(super) fn add(&self, waiting: &Arc<Waiting>) {
        let mut all = self.0.lock();
        all.retain(|known| known.strong_count() > 0);
        all.push(Arc::downgrade(waiting));
    }

    /// Ends them all.
    pub(crate) fn stop(&self) {
        let all = std::mem::take(&mut *self.0.lock());
        all.iter().filter_map(Weak::upgrade).for_each(|waiting| waiting.stop());
    }
}

impl Drop for Followers {
    fn drop(&mut self) {
        let all = std::mem::take(self.0.get_mut());
        all.iter().filter_map(Weak::upgrade).for_each(|waiting| waiting.stop());
    }
}

/// How a sleep ended.
pub(super) enum Slept {
    /// Before it began: there was a commit.
    Found(Delivery),
    /// By the clock; the look before the next sleep is the one that makes up for lost rings.
    LooksAgain,
    /// Somebody wants it to look, or a pause was over where nobody can ring.
    Roused,
}

impl Subscription {
    /// Sleeps until there may be something new; what it finds just before it would have is returned. The log is not kept
    /// open meanwhile.
    pub(super) fn sleep(&mut self, time: Duration) -> Result<Slept> {
        let Some(log) = self.log.upgrade() else { return Ok(Slept::Roused) };
        let bell = log.bell();
        *self.waiting.asleep.lock() = match &bell {
            Some(block) => Asleep::OnRing(Arc::clone(block)),
            None => Asleep::Alone(std::thread::current()),
        };
        let slept = match &bell {
            Some(block) => self.sleep_on(block, log, time),
            None => {
                drop(log);
                self.sleep_alone(time);
                Ok(Slept::Roused)
            }
        };
        *self.waiting.asleep.lock() = Asleep::No;
        slept
    }

    fn sleep_on(&mut self, block: &Block, log: Arc<Log>, time: Duration) -> Result<Slept> {
        let value = block.announce_sleep();
        let found = if self.waiting.is_called() { Ok(None) } else { self.look(&log) };
        drop(log);
        if let Some(found) = found? {
            self.wakings.not_slept += 1;
            return Ok(Slept::Found(found));
        }
        if self.waiting.is_called() {
            self.wakings.not_slept += 1;
            return Ok(Slept::Roused);
        }
        block.wait(WORD_RING, value, time.min(LONGEST_PAUSE));
        if block.load(WORD_RING) == value {
            self.wakings.by_time += 1;
            Ok(Slept::LooksAgain)
        } else {
            self.wakings.by_ring += 1;
            Ok(Slept::Roused)
        }
    }

    /// Where nobody can ring, the look before was as good as one now.
    fn sleep_alone(&mut self, time: Duration) {
        if self.waiting.is_called() {
            self.wakings.not_slept += 1;
            return;
        }
        self.waiting.vfs.doze(time.min(self.pause));
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        match self.waiting.is_called() {
            true => self.wakings.by_ring += 1,
            false => self.wakings.by_time += 1,
        }
    }

    /// Waits where looking has just failed, and would again.
    pub(crate) fn pause(&mut self, time: Duration) {
        *self.waiting.asleep.lock() = Asleep::Alone(std::thread::current());
        if !self.waiting.is_called() {
            self.waiting.vfs.doze(time.min(LONGEST_PAUSE));
            self.wakings.by_time += 1;
        }
        *self.waiting.asleep.lock() = Asleep::No;
    }
}
