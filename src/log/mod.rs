//! The engine: bytes, not tasks. Frames in segments, what an end means, commits, healing, repair.
//!
//! From the bytes up: [`mod@format`] has every number; [`frame`], [`control_frame`], [`envelope`] and [`segment`] encode
//! and decode; [`scan`] walks a segment's bytes; [`classify`] says what the end of a log is.

use std::fmt;

pub(crate) mod backup;
mod batch;
pub(crate) mod blobs;
pub(crate) mod bytes;
pub mod classify;
mod commit;
mod compact;
pub mod control;
pub mod control_frame;
mod draft;
mod engine;
mod enter;
pub mod envelope;
pub mod finding;
pub mod fold;
pub mod format;
mod forward;
pub mod frame;
mod heal;
mod health;
mod housekeeping;
mod keep;
mod keys;
mod lanes;
mod lock;
pub mod meta;
mod paths;
pub(crate) mod publish;
mod purge;
mod quarantine;
pub mod reader;
mod reads;
mod repair;
mod replay;
mod reserve;
mod ring;
pub(crate) mod rotate;
pub mod scan;
pub mod segment;
mod settings;
pub(crate) mod snapshot;
mod state;
mod still;
mod subscribe;
mod sweep;
mod sync;
mod view;

pub use backup::{Link, Phase, Progress, Volume};
pub use blobs::BlobId;
pub use compact::{CompactProgress, CompactReport, Effect};
pub use control::{ControlUse, Mapping};
pub use draft::{Draft, Durability, NewEvent, Receipt};
pub use engine::Log;
pub use fold::Keep;
pub use health::{Health, OpenReport, Status};
pub use housekeeping::Housekeeping;
pub use keep::KeepLock;
pub(crate) use lock::{Held, LockFile, Rank as LockRank};
pub use meta::{BadMeta, Binding, WorkspaceMeta};
pub use paths::Paths;
pub use purge::{PendingFile, PurgeReport};
pub use repair::{RepairReport, RepairStep};
pub use settings::{OnEvent, Recovery, Settings};
pub use snapshot::{Base, SaveFold, SnapshotFile, SnapshotReport, SnapshotWriter, Span, Spoiled};
pub use state::{State, Unknown, Vocabulary};
pub use subscribe::{DeliveredEvent, Delivery, Feed, Since, Subscription, Waker, Wakings};
pub(crate) use subscribe::{Followers, Waited};
pub(crate) use sync::poison_finding;

pub use envelope::{Key, KeyKind};

/// An event's number in its log: 1, 2, 3 …; 0 stands for "before the first".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Seq(pub u64);

/// A byte position in the log as a whole, segment headers not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Lpos(pub u64);

/// How new the state must be that a read is given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Consistency {
    /// Every commit that had returned, in any process, before the read began.
    #[default]
    Latest,
    /// At least this event: what this process knows if that is enough, else the latest.
    AtLeast(Seq),
    /// What this process has read so far, without a look at the log.
    Cached,
}

/// How many state events a key has had; 0 = none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Revision(pub u64);

/// A log's identity: random, for ever.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LogId(pub [u8; 16]);

/// A segment's identity: random, never used again.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SegmentId(pub u64);

/// A caller's name for one request.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OpId(pub [u8; 16]);

macro_rules! show {
    ($($name:ident: $style:literal => |$it:ident| $($value:expr),+;)+) => {$(
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let $it = self;
                write!(f, $style, $($value),+)
            }
        }
    )+};
}

show! {
    Seq: "{}" => |it| it.0;
    Lpos: "{}" => |it| it.0;
    Revision: "{}" => |it| it.0;
    LogId: "{:032x}" => |it| u128::from_be_bytes(it.0);
    SegmentId: "{:016x}" => |it| it.0;
    OpId: "{:032x}" => |it| u128::from_be_bytes(it.0);
}

macro_rules! debug_as_display {
    ($($name:ident)+) => {$(
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({self})", stringify!($name))
            }
        }
    )+};
}

debug_as_display!(LogId SegmentId OpId);

/// A place in one history: an event number together with the epoch it was seen in.
///
/// After a power cut numbers that were never durable are given out again, in a new epoch; a stored number alone
/// could then mean something else. This is what to store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Cursor {
    /// The event number.
    pub seq: Seq,
    /// The epoch that was current there; 0 = before the first.
    pub epoch: u64,
}

/// What a log knows of one key without understanding its events. "Event" is one that changed the key's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyState {
    /// The key.
    pub key: Key,
    /// How many state events it has had.
    pub revision: Revision,
    /// Its last event, with the epoch.
    pub last: Cursor,
    /// Kind of its last event.
    pub kind: u16,
    /// Version of its last event.
    pub version: u8,
    /// Body of its last event; empty where a fold of the program's keeps what the events say.
    pub body: Box<[u8]>,
    /// What the program's fold knows of it, as JSON.
    pub folded: Option<String>,
}

/// What a commit expects of a key, written by it or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// Nothing.
    Any,
    /// The key has had no state event.
    Absent,
    /// The key has had a state event.
    Exists,
    /// The key has had exactly this many state events.
    Revision(Revision),
    /// The same, for a revision that was stored: it counts only in the history it was seen in.
    RevisionAt(Revision, Cursor),
    /// Nothing has happened to the key after this event.
    AtMostSeq(Seq),
    /// The same, for a number that was stored.
    AtMost(Cursor),
}

/// An expectation that does not hold, with what holds instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The key.
    pub key: Key,
    /// What was expected.
    pub expected: Expect,
    /// What is known of the key now; `None` = nothing.
    pub current: Option<KeyState>,
    /// Set if the expectation speaks of a history that a power cut has ended: the last event both share.
    pub rewound_to: Option<Seq>,
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: expected ", self.key)?;
        match self.expected {
            Expect::Any => f.write_str("anything")?,
            Expect::Absent => f.write_str("absent")?,
            Expect::Exists => f.write_str("present")?,
            Expect::Revision(r) | Expect::RevisionAt(r, _) => write!(f, "revision {r}")?,
            Expect::AtMostSeq(s) | Expect::AtMost(Cursor { seq: s, .. }) => {
                write!(f, "nothing after event {s}")?
            }
        }
        match &self.current {
            None => f.write_str(", found absent")?,
            Some(now) => write!(f, ", found revision {} at event {}", now.revision, now.last.seq)?,
        }
        match self.rewound_to {
            Some(to) => write!(f, " (history was rewound to event {to} by a power cut)"),
            None => Ok(()),
        }
    }
}
