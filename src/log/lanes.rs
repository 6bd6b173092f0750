//! Which sync may be believed: two lanes that await each other, and what a sync that never ended leaves behind.
//!
//! A failed sync may be told to one caller only: on macOS and Windows always, on Linux where the flush of the device
//! failed. If that caller is killed before POISON stands, nobody will ever know. So each lane, and LOCK for the syncs
//! made under it, has a word in the control block that counts the syncs begun there and the ones that ended well:
//!
//! - Who has synced says so in its lane's word, and then looks at the others'. A sync that is under way there may meet a
//!   failure that concerns the same bytes: it is awaited. Nobody waits for anybody in a circle, since each has said that
//!   its own ended before it waits.
//! - A sync that began and never ended well, with nobody in its lane, is *suspect*: it may have failed. Whoever finds it
//!   writes all bytes that are not vouched for again, under LOCK, through its own descriptor, and syncs again.
//! - A word that is missing, zeroed or overwritten is suspect too. So losing the block costs time, and nothing else.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::Seq;
use super::control::Block;
use super::engine::Log;
use super::format::{WORD_LANES, WORD_TARGETS};
use super::lock::{Held, LockFile, Rank};
use crate::error::{Error, ErrorKind, Result};
use crate::vfs::threads::Mutex;

/// The place of LOCK's word among the lanes'.
pub(super) const UNDER_LOCK: usize = 2;
/// How often a sync that is under way elsewhere is looked at, where nobody wakes who waits for it.
const POLL: Duration = Duration::from_micros(100);
/// After this time it is not waited for where all are told of a failure.
const HANGS: Duration = Duration::from_millis(250);
/// A count takes half of a position word's 48 bits.
const COUNT: u64 = (1 << 24) - 1;
/// No lane word.
const NONE: u64 = u64::MAX;

/// This process's side of the lanes.
#[derive(Debug)]
pub(super) struct Lanes {
    /// SYNC0 and SYNC1, open since they were first tried.
    files: [Mutex<Option<Arc<LockFile>>>; 2],
    /// The same through other descriptors, to look whether somebody is in a lane: another thread of this process may be,
    /// and would share its descriptor's lock. Held for a moment only.
    probes: [Mutex<Option<Arc<LockFile>>>; 2],
    /// The suspect word of each lane after which this process has written its bytes again.
    settled: [AtomicU64; 3],
    /// The word of a sync that was under way for too long to be waited for.
    hanging: [AtomicU64; 3],
}

/// Whether a sync that succeeded may be believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Belief {
    Yes,
    /// Another one may have failed on the same bytes: they are to be written and synced again.
    Suspect,
}

/// A sync that is under way.
#[derive(Debug)]
pub(super) struct Begun {
    block: Option<Arc<Block>>,
    lane: usize,
    count: u64,
}

impl Lanes {
    pub(super) fn new() -> Lanes {
        Lanes {
            files: [Mutex::new(None), Mutex::new(None)],
            probes: [Mutex::new(None), Mutex::new(None)],
            settled: [const { AtomicU64::new(NONE) }; 3],
            hanging: [const { AtomicU64::new(NONE) }; 3],
        }
    }

    fn is_settled(&self, lane: usize, word: u64) -> bool {
        self.settled.get(lane).is_some_and(|settled| settled.load(Ordering::Acquire) == word)
    }
}

fn word_at(lane: usize) -> u64 {
    WORD_LANES.get(lane).copied().unwrap_or_default()
}

/// A lane's word, and what it says: how many syncs have begun there, and which was the last to end well.
#[derive(Clone, Copy, Debug)]
struct Seen {
    word: u64,
    counts: Option<(u64, u64)>,
}

impl Seen {
    fn of(block: &Block, lane: usize) -> Seen {
        let word = block.load(word_at(lane));
        Seen { word, counts: block.value_of(word).map(|counts| (counts >> 24, counts & COUNT)) }
    }

    fn is_well(&self) -> bool {
        self.counts.is_some_and(|(begun, well)| begun == well)
    }

    /// Whether the sync that is the last one to have begun by `earlier` has ended well, or one behind it, whoever made
    /// that has written everything again first.
    fn is_past(&self, earlier: &Seen) -> bool {
        match (self.counts, earlier.counts) {
            (Some((_, well)), Some((begun, _))) => well.wrapping_sub(begun) & COUNT < COUNT / 2,
            _ => false,
        }
    }
}

impl Begun {
    /// It has succeeded; this is said before anybody else is awaited.
    pub(super) fn ended_well(&self) {
        self.set(self.count);
        if let (Some(block), Some(at)) = (&self.block, WORD_TARGETS.get(self.lane)) {
            block.store(*at, 0);
        }
        if let Some(block) = &self.block {
            block.wake(word_at(self.lane), u32::MAX >> 1);
        }
    }

    /// Says up to where it reaches, so that who is covered by it waits for it and begins no other.
    pub(super) fn reaches(&self, end: u64) {
        if let (Some(block), Some(at)) = (&self.block, WORD_TARGETS.get(self.lane)) {
            block.store(*at, block.word_of(end));
        }
    }

    fn set(&self, well: u64) {
        if let Some(block) = &self.block {
            block.set_value(word_at(self.lane), self.count << 24 | well);
        }
    }
}

impl Log {
    /// A lane, if one is free: the first, or `any`.
    pub(super) fn try_lane(&self, any: bool) -> Result<Option<(usize, Held)>> {
        for lane in 0..if any { self.lanes.files.len() } else { 1 } {
            if let Some(held) = self.lane_file(&self.lanes.files, lane)?.try_acquire()? {
                return Ok(Some((lane, held)));
            }
        }
        Ok(None)
    }

    fn lane_file(&self, files: &[Mutex<Option<Arc<LockFile>>>; 2], lane: usize) -> Result<Arc<LockFile>> {
        let path = if lane == 0 { self.paths.sync0() } else { self.paths.sync1() };
        let open = || LockFile::open(&self.vfs, path, Rank::Lane);
        let Some(mut file) = files.get(lane).map(Mutex::lock) else { return open() };
        match &*file {
            Some(file) => Ok(Arc::clone(file)),
            None => Ok(Arc::clone(file.insert(open()?))),
        }
    }

    /// Whether a sync is said to be under way that reaches this far. A hint: whoever said so may have died.
    pub(super) fn is_under_way(&self, lpos: u64) -> bool {
        let reaches = |block: &Block| WORD_TARGETS.iter().any(|at| block.believed(*at, lpos).is_some());
        self.control.with(reaches) == Some(true)
    }

    /// Whether a lane's last sync is suspect to this process. The lane, or LOCK for its own word, is held.
    ///
    /// That is asked of the block that the others have now: what a dead one counted in a block that was deleted since,
    /// nobody could tell them.
    pub(super) fn is_suspect(&self, lane: usize) -> bool {
        if self.control.look_for_another(&self.vfs, &self.paths, self.meta.log_id, self.lock.as_ref()) {
            // What was settled speaks of the words of another block.
            self.lanes.settled.iter().for_each(|settled| settled.store(NONE, Ordering::Release));
        }
        let look = |block: &Block| {
            let seen = Seen::of(block, lane);
            !seen.is_well() && !self.lanes.is_settled(lane, seen.word)
        };
        self.control.with(look) == Some(true)
    }

    /// Says that a sync begins. The lane, or LOCK, is held.
    pub(super) fn begin_sync(&self, lane: usize) -> Begun {
        let block = self.control.get();
        let (begun, well) =
            block.as_deref().and_then(|block| Seen::of(block, lane).counts).unwrap_or_default();
        let begun = Begun { block, lane, count: (begun + 1) & COUNT };
        begun.set(well);
        begun
    }

    /// After a sync that [ended well](Begun::ended_well): whether it may be believed. No lane is held; waits for the
    /// syncs that are under way elsewhere.
    ///
    /// # Errors
    /// [`ErrorKind::DurabilityLost`] if one of them failed, [`ErrorKind::NotDurable`] if one hangs.
    pub(super) fn believe(&self, begun: &Begun) -> Result<Belief> {
        let Some(block) = &begun.block else { return self.check_poison().map(|()| Belief::Yes) };
        for lane in (0..=UNDER_LOCK).filter(|lane| *lane != begun.lane) {
            let first = Seen::of(block, lane);
            if !first.is_well()
                && !self.lanes.is_settled(lane, first.word)
                && !self.await_lane(block, lane, first)?
            {
                return Ok(Belief::Suspect);
            }
        }
        self.check_poison().map(|()| Belief::Yes)
    }

    /// Waits until the sync that a lane's word tells of has ended; `false` = nobody can say how.
    fn await_lane(&self, block: &Block, lane: usize, first: Seen) -> Result<bool> {
        let start = self.vfs.monotonic();
        loop {
            self.check_poison_word()?;
            let has_ended_well = || {
                let now = Seen::of(block, lane);
                now.is_well() || now.is_past(&first)
            };
            if has_ended_well() {
                return Ok(true);
            }
            // Who has LOCK may hold it for long; whoever asks for it itself, to write again, will see.
            if lane == UNDER_LOCK || self.is_lane_free(lane)? {
                // It says how it ended before it leaves the lane.
                return Ok(has_ended_well());
            }
            let waited = self.vfs.monotonic().saturating_sub(start);
            if waited >= HANGS && self.vfs.tells_all_of_failed_sync() {
                // Stopped, say. If it met a failure, this process's next sync will hear of it as well, or, of a failed
                // flush of the device, meet it itself.
                if let Some(hanging) = self.lanes.hanging.get(lane) {
                    hanging.store(Seen::of(block, lane).word, Ordering::Release);
                }
                return Ok(false);
            }
            if waited >= self.settings.lock_timeout {
                let why = format!("a sync of another process hangs (lane {lane})");
                let seq = Seq(self.durable.seq() + 1);
                return Err(Error::new(ErrorKind::NotDurable { seq, why }, "wait for", &self.paths.log()));
            }
            block.wait(word_at(lane), Seen::of(block, lane).word, POLL);
        }
    }

    fn is_lane_free(&self, lane: usize) -> Result<bool> {
        Ok(self.lane_file(&self.lanes.probes, lane)?.try_acquire()?.is_some())
    }

    /// Before this process writes its bytes again: which suspect syncs that will have settled. LOCK is held.
    ///
    /// One that is under way is none of them: it may still fail, on the very bytes that are written now.
    pub(super) fn settle_suspects(&self) -> Result<()> {
        let Some(block) = self.control.get() else { return Ok(()) };
        for lane in 0..=UNDER_LOCK {
            let seen = Seen::of(&block, lane);
            let hangs =
                self.lanes.hanging.get(lane).is_some_and(|word| word.load(Ordering::Acquire) == seen.word);
            if !seen.is_well()
                && (lane == UNDER_LOCK || hangs || self.is_lane_free(lane)?)
                && let Some(settled) = self.lanes.settled.get(lane)
            {
                settled.store(seen.word, Ordering::Release);
            }
        }
        Ok(())
    }
}
