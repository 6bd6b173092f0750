//! What is explored: which processes, on which system, with which faults, and with which step done wrong.

use super::PROCS;

/// A step of the protocol done wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Mutation {
    None,
    PublishBeforeWrite,
    TailReadAfterSync,
    LaneStolen,
    PoisonForgotten,
    PoisonAfterLane,
    DirtyClearedEarly,
    TornEndNotHealed,
    AppendAtTailWord,
    OwnBytesSkipped,
    OwnBytesUnread,
    SyncRetried,
    UnlockBeforeWrite,
    NoEpoch,
    AnybodyIsWitness,
    HintBelieved,
    KeptWithoutTimer,
    CutFromDirty,
    WholeFramesUndone,
    LaneKeptWaitingForLock,
    PoisonNotLookedAt,
    PoisonNotLookedAtAgain,
    DirtyClearedEarlyOnly,
    WordBelieved,
    OverlapNotAwaited,
    EndNotReadAgain,
}

/// What tells the next holder of a lane that the one before it died inside a sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Marker {
    None,
    /// A word that is set while a sync is under way.
    UnderWay,
    /// A word that is set once a sync has ended well, and cleared before the next one.
    EndedWell,
    /// Two counters: syncs begun, and the last one that ended well. Whoever has synced in one lane counts it only once
    /// the sync that was under way in the other has ended well too.
    Counted,
}

/// What can become of the words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Words {
    /// Zeroed, or stale: a position fails its check or is one that was true once.
    Checked,
    /// Anything but a durable word, or one that says a sync ended well, which passes its check.
    Any,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum TailFrom {
    Word,
    Bytes,
}

/// How often what may go wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(in super::super) struct Faults {
    pub(in super::super) kills: u8,
    pub(in super::super) cuts: u8,
    pub(in super::super) fails: u8,
    pub(in super::super) scrambles: u8,
    pub(in super::super) full: u8,
    pub(in super::super) restarts: u8,
}

#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Config {
    pub(in super::super) mutation: Mutation,
    /// How many commits each process makes; nobody with none is more than a reader.
    pub(in super::super) commits: [u8; PROCS],
    pub(in super::super) durable: [bool; PROCS],
    pub(in super::super) long: [bool; PROCS],
    /// All commits of a process in one write.
    pub(in super::super) batch: bool,
    pub(in super::super) procs: usize,
    /// A failed sync is told to one caller only.
    pub(in super::super) one_caller: bool,
    /// A sync can also fail in the flush of the device, which is told to one caller everywhere.
    pub(in super::super) flush_fails: bool,
    /// Processes 0 and 1 are threads that sync through one descriptor.
    pub(in super::super) one_descriptor: bool,
    pub(in super::super) lanes: usize,
    pub(in super::super) marker: Marker,
    pub(in super::super) tail: TailFrom,
    pub(in super::super) words: Words,
    /// LOCK may be kept between commits while nobody has announced itself.
    pub(in super::super) keep: bool,
    /// The kernel may drop clean pages whose sync failed.
    pub(in super::super) forgets: bool,
    pub(in super::super) faults: Faults,
}
