//! A program's own fold over a log's events, kept by the log beside its own state.

use std::any::{Any, TypeId};
use std::fmt;

use std::sync::Arc;

use super::compact::Effect;
use super::draft::NewEvent;
use super::envelope::{Commit, Envelope, Key};
use super::snapshot::{Base, SaveFold, Spoiled};

/// What a program makes of a log's events.
///
/// The log calls it for every commit, in order, in every process alike, so it must be a function of the commits alone:
/// no clock, no randomness, no system call. It never validates and never fails; what it cannot make sense of it leaves
/// out, and says so in findings of its own.
///
/// # Concurrency
/// Changed by one thread at a time, under the lock of the log's view; looked at by many.
pub trait Fold: Any + fmt::Debug + Send + Sync {
    /// Takes up a commit. With `remember` it may be taken back before anything else happens. `meanings` spares reading
    /// the bodies of events that this process has just written itself.
    fn apply(&mut self, commit: &Commit<'_>, meanings: Meanings<'_>, remember: bool);

    /// Takes the last remembered commit back; called in the reverse order of [`Fold::apply`].
    fn take_back(&mut self);

    /// Forgets how to take anything back: it all stands.
    fn stands(&mut self);

    /// A copy for readers, to be looked at for long: what can be taken back need not be in it. Entries are best shared, so
    /// that it costs no more than its tables.
    fn copy(&self) -> Box<dyn Fold>;

    /// Adds what compaction may not lose to the state hash, in a canonical order.
    fn hash(&self, hasher: &mut blake3::Hasher);

    /// What it knows of a key, as JSON, for the error that tells a caller what holds instead of what was expected.
    fn describe(&self, key: &Key) -> Option<String>;

    /// How many events it has taken up that have something removed for good: whoever stands on a snapshot from before one lets go
    /// of it.
    fn purges(&self) -> u64 {
        0
    }

    /// What of the history compaction is to keep for its own sake.
    fn retention(&self) -> Keeps {
        Box::new(|_| Keep::Nothing)
    }

    /// Writes all it is into a snapshot. Only asked of a fold that has a [version](FoldKind::version).
    fn save(&self) -> Box<dyn SaveFold + '_>;

    /// Takes its place above a snapshot: from now on it is what that has, and what is applied since. Asked of a fold to which
    /// nothing has been applied; the snapshot is of the same [version](FoldKind::version).
    ///
    /// # Errors
    /// [`Spoiled`]: then it is thrown away.
    fn load(&mut self, base: &Arc<Base>) -> Result<(), Spoiled>;
}

/// What of a key's history is kept for its own sake: of those events whose every effect later ones have overwritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// None of it.
    Nothing,
    /// All.
    All,
    /// What is within every limit that is given.
    Within {
        /// In µs, against the newest commit that is compacted with it.
        age: Option<u64>,
        /// Events of the key.
        count: Option<u64>,
        /// Bytes of log.
        bytes: Option<u64>,
        /// Whether the bytes are those of all keys for which this is so, together.
        together: bool,
    },
}

/// Says what is kept of each key's history.
pub type Keeps = Box<dyn Fn(&Key) -> Keep + Send + Sync>;

/// An event as the program that writes it has it in hand: see [`super::NewEvent::meaning`].
pub type Meaning = Box<dyn Any + Send + Sync>;

/// What the events of a commit mean, by their place in it, where this process has just written them.
#[derive(Debug, Default)]
pub struct Meanings<'a>(Option<&'a mut [NewEvent]>);

impl<'a> Meanings<'a> {
    /// Of a commit that was read.
    pub fn unknown() -> Self {
        Meanings(None)
    }

    pub(super) fn of(events: &'a mut [NewEvent]) -> Self {
        Meanings(Some(events))
    }

    /// Takes out what an event means, if that is known.
    pub fn take(&mut self, place: usize) -> Option<Meaning> {
        self.0.as_mut()?.get_mut(place)?.take_meaning()
    }
}

/// Which fold a program has.
#[derive(Clone, Copy)]
pub struct FoldKind {
    id: TypeId,
    name: &'static str,
    version: u32,
    effect: fn(&Envelope<'_>) -> Effect,
    make: fn() -> Box<dyn Fold>,
}

impl FoldKind {
    /// The fold of this type; it starts from its default. It is folded from the whole log at every open.
    pub fn of<F: Fold + Default>() -> Self {
        let (id, name) = (TypeId::of::<F>(), std::any::type_name::<F>());
        FoldKind { id, name, version: 0, effect: |_| Effect::default(), make: || Box::<F>::default() }
    }

    /// The same, and snapshots have it: under this name, in this version. Whatever changes what the same events come to, or
    /// how it is written, is another version, and never goes by the snapshots of this one.
    pub fn saved<F: Fold + Default>(name: &'static str, version: u32) -> Self {
        FoldKind { name, version, ..FoldKind::of::<F>() }
    }

    /// The same, and compaction knows what events overwrite: what this says of each state event of a known kind. Without it
    /// every event stays, as it does for a program without a fold.
    #[must_use]
    pub fn compacted(self, effect: fn(&Envelope<'_>) -> Effect) -> Self {
        FoldKind { effect, ..self }
    }

    pub(super) fn effect(self, event: &Envelope<'_>) -> Effect {
        (self.effect)(event)
    }

    /// In which version snapshots have it; 0 = they do not.
    pub fn version(self) -> u32 {
        self.version
    }

    pub(crate) fn name(self) -> &'static str {
        self.name
    }

    pub(crate) fn make(self) -> Box<dyn Fold> {
        (self.make)()
    }
}

impl PartialEq for FoldKind {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl fmt::Debug for FoldKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}
