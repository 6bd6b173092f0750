//! Subscriptions: whole commits, in order, as they come, from any process. `format-spec/format.md`, *Control block*.
//!
//! ```text
//! mod.rs       what is handed out, and the subscription: next, try_next, iterator
//! follower.rs  where it stands in the bytes, and reading on from there
//! waiting.rs   sleeping until there is something new, and who may end that
//! feed.rs      a thread that feeds a channel
//! ```
//! The log's view says how far one may read and which files make the log up; the follower reads those files by itself,
//! so that any number of subscriptions cost the commits nothing. What a subscription hands out is therefore never more
//! than what a read of this process has seen.

mod feed;
mod follower;
mod waiting;

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

pub use feed::Feed;
pub(crate) use waiting::Followers;
pub use waiting::{Waker, Wakings};

use self::follower::Follower;
use self::waiting::{Slept, Waiting};
use super::engine::Log;
use super::envelope::{Envelope, Operation, Preamble};
use super::health::Status;
use super::{BlobId, Cursor, Key, OpId, Revision, Seq};
use crate::error::Result;

/// Where a subscription starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Since {
    /// With the first commit there is.
    Beginning,
    /// With the first commit that is not there yet.
    #[default]
    Now,
    /// Behind a cursor: what [`Delivery::cursor`], [`crate::Receipt::cursor`] or [`crate::State::cursor`] gave. One that
    /// lies inside a commit stands for the whole of it, since nobody has ever seen a part of one.
    Cursor(Cursor),
    /// Behind the event of this number in the history as it is now. Not for numbers that were stored: use their cursors.
    After(Seq),
}

/// One commit, whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The number of its first event.
    pub first: Seq,
    /// The place behind it: what to store, to go on from here later.
    pub cursor: Cursor,
    /// When it was committed, µs since 1970 UTC, by the writer's clock.
    pub time: u64,
    /// The writer's session; 0 = none.
    pub session: u64,
    /// The request it answered, if that was named.
    pub op_id: Option<OpId>,
    /// Its events, in order. Those that compaction has dropped are not among them; a commit that has lost all of them is
    /// not handed out.
    pub events: Vec<DeliveredEvent>,
    /// Everything up to this event was known to be durable when this was read. A later look may know more.
    pub durable: Seq,
    /// The numbers just before this commit that a repair could not save, if there are any.
    pub lost_before: Option<(Seq, Seq)>,
}

impl Delivery {
    /// As what stands before its events. What its request was, and had seen, is not told.
    pub fn preamble(&self) -> Preamble {
        let operation = |op_id| Operation { op_id, request_hash: [0; 16], seen: Seq(0) };
        Preamble { time: self.time, session: self.session, operation: self.op_id.map(operation) }
    }

    /// The number of its last event, dropped ones included.
    pub fn last(&self) -> Seq {
        self.cursor.seq
    }

    /// Whether it was known to survive a power cut when it was read.
    pub fn is_durable(&self) -> bool {
        self.last() <= self.durable
    }
}

/// One event of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveredEvent {
    /// Its number.
    pub seq: Seq,
    /// Its kind.
    pub kind: u16,
    /// Version of that kind's body.
    pub version: u8,
    /// Whether a reader that does not know its kind and version may skip it.
    pub ignorable: bool,
    /// What it is about.
    pub key: Key,
    /// The key's revision after it; 0 = it changes no state.
    pub revision: Revision,
    /// The blobs its body refers to by index.
    pub blobs: Vec<BlobId>,
    /// Its body.
    pub body: Box<[u8]>,
}

impl DeliveredEvent {
    /// As the event stands in the log, to be decoded.
    pub fn with_envelope<T>(&self, look: impl FnOnce(&Envelope<'_>) -> T) -> T {
        let blobs: Vec<u8> = self.blobs.iter().flat_map(|blob| blob.0).collect();
        look(&Envelope {
            seq: self.seq,
            takes: 1,
            kind: self.kind,
            version: self.version,
            ignorable: self.ignorable,
            key_kind: self.key.kind,
            key: &self.key.name,
            revision: self.revision,
            blobs: &blobs,
            body: &self.body,
        })
    }
}

/// What came of waiting.
#[derive(Debug)]
pub(crate) enum Waited {
    /// A commit.
    Found(Delivery),
    /// Nothing in all the time.
    TimeOver,
    /// Somebody has ended the wait.
    Called,
}

/// A stream of a log's commits, from any process, whole and in order, none left out and none twice.
///
/// It goes on over new segments, healed tails, repairs and recoveries. Numbers that no event has (dropped by compaction,
/// lost to a repair) are passed over. It takes no lock of the store and writes nothing to it but, where the
/// handle may write, two words of the control block, by which writers wake it.
///
/// It does not keep the log open: when its workspace is closed, waiting ends.
///
/// # Errors
/// An error changes nothing: the subscription stays where it was and may be asked again. [`ErrorKind::Trimmed`] and
/// [`ErrorKind::Rewound`] say that this history does not go on from here: see [`Subscription::go_on_from`].
/// [`ErrorKind::Damaged`] and [`ErrorKind::TooNew`] come behind the last commit that can be read, as long as that is so.
///
/// # Concurrency
/// A subscription is one thread's at a time; its [`Waker`] is everybody's.
///
/// [`ErrorKind::Trimmed`]: crate::ErrorKind::Trimmed
/// [`ErrorKind::Rewound`]: crate::ErrorKind::Rewound
/// [`ErrorKind::Damaged`]: crate::ErrorKind::Damaged
/// [`ErrorKind::TooNew`]: crate::ErrorKind::TooNew
pub struct Subscription {
    log: Weak<Log>,
    follower: Follower,
    waiting: Arc<Waiting>,
    wakings: Wakings,
    pause: Duration,
    /// Whether the iterator has handed out an error: it ends there, so that no loop spins on one.
    failed: bool,
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription").field("cursor", &self.cursor()).finish_non_exhaustive()
    }
}

impl Log {
    /// Streams the log's commits from some place on.
    ///
    /// # Errors
    /// [`ErrorKind::Trimmed`](crate::ErrorKind::Trimmed) if commits behind that place have been dropped,
    /// [`ErrorKind::Rewound`](crate::ErrorKind::Rewound) if it lies in a history that has ended, or beyond the end;
    /// system errors.
    ///
    /// # Blocking
    /// Not for LOCK, nor for any other process; reads at most one segment to find the place.
    pub fn subscribe(self: &Arc<Self>, since: Since) -> Result<Subscription> {
        self.subscribe_with(since, &self.followers)
    }

    /// The same; waiting ends with these followers.
    pub(crate) fn subscribe_with(
        self: &Arc<Self>,
        since: Since,
        followers: &Followers,
    ) -> Result<Subscription> {
        self.check_fork()?;
        let follower = Follower::start(self, since)?;
        let waiting = Arc::new(Waiting::new(&self.vfs));
        followers.add(&waiting);
        Ok(Subscription {
            log: Arc::downgrade(self),
            follower,
            waiting,
            wakings: Wakings::default(),
            pause: waiting::FIRST_PAUSE,
            failed: false,
        })
    }
}

impl Log {
    /// What can be done with it now, as far as its own files and words tell: a failed sync of another process too.
    fn status_as_told(&self) -> Status {
        // What it says is in the status.
        let _ = self.check_poison_word();
        self.status()
    }
}

impl Subscription {
    /// Hands out a commit only once it is known to survive a power cut: for mirrors, exports and whatever must not tell
    /// of what may be gone tomorrow.
    #[must_use]
    pub fn durable_only(mut self) -> Self {
        self.follower.hand_out_durable_only();
        self
    }

    /// The place behind what was handed out so far: what to store, to go on from here later.
    pub fn cursor(&self) -> Cursor {
        self.follower.cursor()
    }

    /// The next commit, if it is there; never waits.
    ///
    /// # Errors
    /// See [`Subscription`].
    pub fn try_next(&mut self) -> Result<Option<Delivery>> {
        if self.waiting.is_stopped() {
            return Ok(None);
        }
        match self.log.upgrade() {
            Some(log) => self.look(&log),
            None => Ok(None),
        }
    }

    fn look(&mut self, log: &Log) -> Result<Option<Delivery>> {
        let found = self.follower.next(log)?;
        if found.is_some() {
            self.pause = waiting::FIRST_PAUSE;
        }
        Ok(found)
    }

    /// The next commit, waited for at most this long. `None` = none came, or waiting was ended
    /// ([`Subscription::is_stopped`] tells which).
    ///
    /// # Errors
    /// See [`Subscription`].
    ///
    /// # Blocking
    /// On Linux and Windows woken by the commit itself, of whatever process. On macOS, and where the control block is not
    /// mapped or the store was opened for reading only, it looks again after 1, 2, 4 … 500 ms. Asleep it wakes twice a second.
    pub fn next_within(&mut self, time: Duration) -> Result<Option<Delivery>> {
        match self.wait(time)? {
            Waited::Found(found) => Ok(Some(found)),
            Waited::TimeOver | Waited::Called => Ok(None),
        }
    }

    /// The same, and says why nothing came.
    pub(crate) fn wait(&mut self, time: Duration) -> Result<Waited> {
        let vfs = Arc::clone(&self.waiting.vfs);
        let until = vfs.monotonic().saturating_add(time);
        let mut looks = true;
        loop {
            let left = until.saturating_sub(vfs.monotonic());
            // Who has slept to the end of a pause looks when it says again that it sleeps: once, not twice.
            if (looks || left.is_zero())
                && let Some(found) = self.try_next()?
            {
                return Ok(Waited::Found(found));
            }
            if self.is_stopped() || self.waiting.take_call() {
                return Ok(Waited::Called);
            }
            if left.is_zero() {
                return Ok(Waited::TimeOver);
            }
            match self.sleep(left)? {
                Slept::Found(found) => return Ok(Waited::Found(found)),
                Slept::LooksAgain => looks = false,
                Slept::Roused => looks = true,
            }
        }
    }

    /// Whether nothing will come any more: it was stopped, or its workspace is closed.
    pub fn is_stopped(&self) -> bool {
        self.waiting.is_stopped() || self.log.strong_count() == 0
    }

    /// What other threads can end the waiting with.
    pub fn waker(&self) -> Waker {
        Waker::of(&self.waiting)
    }

    /// How often it slept, and what ended that.
    pub fn wakings(&self) -> Wakings {
        self.wakings
    }

    /// Goes on from another place: [after](Since::After) the event that [`crate::ErrorKind::Rewound`] names, from the one
    /// that [`crate::ErrorKind::Trimmed`] names, or from now.
    ///
    /// # Errors
    /// As [`Log::subscribe`].
    pub fn go_on_from(&mut self, since: Since) -> Result<()> {
        if let Some(log) = self.log.upgrade() {
            self.follower = self.follower.restarted(&log, since)?;
            self.failed = false;
        }
        Ok(())
    }

    /// What can be done with the log now; `None` = nobody has it open any more.
    pub(crate) fn status(&self) -> Option<(Status, Arc<Log>)> {
        let log = self.log.upgrade()?;
        Some((log.status_as_told(), log))
    }

    /// Has a thread feed a channel that holds so many commits.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub fn into_feed(self, capacity: usize) -> std::io::Result<Feed> {
        Feed::start(self, capacity)
    }
}

/// Waits for each commit; ends when waiting is stopped, or behind the first error.
impl Iterator for Subscription {
    type Item = Result<Delivery>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.failed && !self.is_stopped() {
            match self.next_within(Duration::from_secs(3600)) {
                Ok(Some(found)) => return Some(Ok(found)),
                Ok(None) => {}
                Err(error) => {
                    self.failed = true;
                    return Some(Err(error));
                }
            }
        }
        None
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.waiting.stop();
    }
}
