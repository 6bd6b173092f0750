//! What a caller puts into a commit, and what comes back.

use std::collections::HashMap;
use std::path::Path;

use super::blobs::BlobId;
use super::envelope::{Envelope, Key, KeyKind, Operation};
use super::fold::{Meaning, Meanings};
use super::format::{EVENT_NOTHING, MAX_COUNT};
use super::state::{State, Vocabulary};
use super::{Cursor, Expect, Lpos, OpId, Revision, Seq};
use crate::error::{Error, ErrorKind, Result};

/// How long an acknowledged commit survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Durability {
    /// A kill of the process. A power cut may take it.
    Buffered,
    /// The same at once; a power cut from this many milliseconds later, if this process lives that long.
    Interval(u32),
    /// A power cut: the call returns after a sync that covers the commit.
    #[default]
    Durable,
}

/// A new event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewEvent {
    kind: u16,
    version: u8,
    ignorable: bool,
    key: Key,
    state: bool,
    blobs: Vec<[u8; 32]>,
    body: Vec<u8>,
    meaning: InHand,
}

/// A meaning; it is no part of what the event is, and does not go with its copies.
#[derive(Debug, Default)]
struct InHand(Option<Meaning>);

impl Clone for InHand {
    fn clone(&self) -> Self {
        InHand(None)
    }
}

impl PartialEq for InHand {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for InHand {}

impl NewEvent {
    /// An event about `key` that changes its state: its revision grows by one.
    pub fn state(kind: u16, version: u8, key: Key, body: impl Into<Vec<u8>>) -> Self {
        NewEvent {
            kind,
            version,
            ignorable: false,
            key,
            state: true,
            blobs: Vec::new(),
            body: body.into(),
            meaning: InHand(None),
        }
    }

    /// An event that changes no state and leaves the revision alone (journal entries, facts about the whole log).
    pub fn record(kind: u16, version: u8, key: Key, body: impl Into<Vec<u8>>) -> Self {
        NewEvent { state: false, ..Self::state(kind, version, key, body) }
    }

    /// Lets readers that do not know (kind, version) skip it.
    #[must_use]
    pub fn ignorable(mut self) -> Self {
        self.ignorable = true;
        self
    }

    /// Names the blobs its body refers to by index. Each must have been stored, or stand in an event already: a commit
    /// that names one which is not there fails with [`ErrorKind::BlobMissing`].
    ///
    /// Whoever was not told by [`put_blobs`](super::Log::put_blobs) that a blob is stored stores it again, which is
    /// cheap where it is there: what can merely be seen may not survive a power cut.
    #[must_use]
    pub fn blobs(mut self, blobs: impl IntoIterator<Item = BlobId>) -> Self {
        self.blobs = blobs.into_iter().map(|blob| blob.0).collect();
        self
    }

    /// Hands the program's [fold](super::fold::Fold) in this process what it would otherwise read from the body. It must
    /// be what every other process reads there.
    #[must_use]
    pub fn meaning(mut self, meaning: Meaning) -> Self {
        self.meaning = InHand(Some(meaning));
        self
    }

    pub(super) fn take_meaning(&mut self) -> Option<Meaning> {
        self.meaning.0.take()
    }

    /// Its kind, its version, the blobs it names, and its body.
    pub(crate) fn parts(&self) -> (u16, u8, &[[u8; 32]], &[u8]) {
        (self.kind, self.version, &self.blobs, &self.body)
    }

    /// Its kind.
    pub fn kind(&self) -> u16 {
        self.kind
    }

    /// Its body.
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// The blobs it names.
    pub fn blob_names(&self) -> impl Iterator<Item = BlobId> + '_ {
        self.blobs.iter().copied().map(BlobId)
    }

    /// How many bytes it takes in a commit.
    pub fn encoded_len(&self) -> usize {
        Envelope::encoded_len(self.key.name.len(), self.blobs.len(), self.body.len())
    }
}

/// A commit in the making: events, and what they rest on.
#[derive(Clone, Debug, Default)]
pub struct Draft {
    events: Vec<NewEvent>,
    expectations: Vec<(Key, Expect)>,
    operation: Option<Operation>,
}

impl Draft {
    /// Empties it; its memory stays.
    pub(crate) fn clear(&mut self) {
        self.events.clear();
        self.expectations.clear();
        self.operation = None;
    }

    /// Adds an event.
    pub fn push(&mut self, event: NewEvent) -> &mut Self {
        self.events.push(event);
        self
    }

    /// Adds an expectation about any key, written by this commit or not.
    pub fn expect(&mut self, key: Key, expected: Expect) -> &mut Self {
        self.expectations.push((key, expected));
        self
    }

    /// Names the request: the same id with the same `request` bytes is applied once, however often it is sent.
    ///
    /// `seen` is the highest event number the caller knew when it made the request.
    pub fn operation(&mut self, op_id: OpId, request: &[u8], seen: Seq) -> &mut Self {
        let mut request_hash = [0; 16];
        if let Some(cut) = blake3::hash(request).as_bytes().first_chunk::<16>() {
            request_hash = *cut;
        }
        self.operation = Some(Operation { op_id, request_hash, seen });
        self
    }

    pub(crate) fn request(&self) -> Option<Operation> {
        self.operation
    }

    /// Takes its first events out again.
    pub(crate) fn retract(&mut self, count: usize) {
        self.events.drain(..count.min(self.events.len()));
    }

    /// What its events mean, to be taken out.
    pub(crate) fn meanings(&mut self) -> Meanings<'_> {
        Meanings::of(&mut self.events)
    }

    pub(crate) fn count(&self) -> usize {
        self.events.len()
    }

    /// Blobs its events name.
    pub(crate) fn blobs(&self) -> impl Iterator<Item = BlobId> {
        self.events.iter().flat_map(|event| &event.blobs).map(|blob| BlobId(*blob))
    }

    /// Keys this draft names, for a report of their present state.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &Key> {
        self.expectations.iter().map(|(key, _)| key).chain(self.events.iter().map(|event| &event.key))
    }

    /// Checks limits and expectations against the latest state; gives a commit that only leaves its op id its event.
    pub(crate) fn settle(&mut self, state: &State, vocabulary: &Vocabulary, max_body: u32) -> Result<()> {
        let invalid =
            |what, why: String| Error::new(ErrorKind::Invalid { what, why }, "commit", Path::new(""));
        let too_large = |what, len: usize, max: u64| {
            Error::new(ErrorKind::TooLarge { what, len: len as u64, max }, "commit", Path::new(""))
        };
        if self.events.len() > usize::from(MAX_COUNT) {
            return Err(too_large("a commit's number of events", self.events.len(), MAX_COUNT.into()));
        }
        for event in &self.events {
            let (kind, version) = (event.kind, event.version);
            if kind <= EVENT_NOTHING {
                return Err(invalid("event kind", format!("{kind} is the log's own")));
            }
            if !event.ignorable && !vocabulary.knows(kind, version) {
                return Err(invalid(
                    "event kind",
                    format!("{kind} version {version} is not in this store's vocabulary"),
                ));
            }
            if (event.key.kind == KeyKind::NONE) != event.key.name.is_empty() {
                return Err(invalid("key", "a name without a kind, or a kind without a name".into()));
            }
            if event.state && event.key.kind == KeyKind::NONE {
                return Err(invalid("event", "a state event needs a key".into()));
            }
            if event.key.name.len() > usize::from(u16::MAX) {
                return Err(too_large("a key's bytes", event.key.name.len(), u16::MAX.into()));
            }
            if event.blobs.len() > usize::from(u16::MAX) {
                return Err(too_large("an event's blobs", event.blobs.len(), u16::MAX.into()));
            }
        }
        let len = 57 + self.events.iter().map(NewEvent::encoded_len).sum::<usize>();
        if len > max_body as usize {
            return Err(too_large("a commit's bytes", len, max_body.into()));
        }
        let failed = self.expectations.iter().filter_map(|(key, expected)| state.check(key, *expected).err());
        let conflicts: Vec<_> = failed.map(|conflict| *conflict).collect();
        if !conflicts.is_empty() {
            return Err(Error::new(ErrorKind::Conflict(conflicts), "commit", Path::new("")));
        }
        if self.events.is_empty() && self.operation.is_some() {
            self.events.push(NewEvent::record(EVENT_NOTHING, 1, Key::none(), []));
        }
        Ok(())
    }

    /// Appends the events' envelopes; returns the revision of each.
    pub(crate) fn encode(&self, state: &State, first: Seq, out: &mut Vec<u8>) -> Vec<Revision> {
        let mut revisions: Vec<Revision> = Vec::with_capacity(self.events.len());
        // An earlier event of this very commit may have raised a key's revision already.
        let mut raised: Option<HashMap<&Key, Revision, foldhash::fast::RandomState>> =
            (self.events.len() > 1).then(HashMap::default);
        for (i, event) in self.events.iter().enumerate() {
            let revision = if event.state {
                let before = raised.as_ref().and_then(|raised| raised.get(&event.key).copied());
                let revision = Revision(before.unwrap_or_else(|| state.revision(&event.key)).0 + 1);
                if let Some(raised) = &mut raised {
                    raised.insert(&event.key, revision);
                }
                revision
            } else {
                Revision(0)
            };
            revisions.push(revision);
            let envelope = Envelope {
                seq: Seq(first.0 + i as u64),
                takes: 1,
                kind: event.kind,
                version: event.version,
                ignorable: event.ignorable,
                key_kind: event.key.kind,
                key: &event.key.name,
                revision,
                blobs: event.blobs.as_flattened(),
                body: &event.body,
            };
            envelope.encode(out);
        }
        revisions
    }
}

/// What an accepted commit became.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct Receipt {
    /// Number of its first event; if `count` is 0, of the last event before it.
    pub first: Seq,
    /// How many events it has; 0 = nothing was to be done, and nothing was written.
    pub count: u16,
    /// The revision of each event's key after it (0: no state event).
    pub revisions: Vec<Revision>,
    /// Its last event with the epoch: what to store.
    pub cursor: Cursor,
    /// Where the log stood behind it: what [`Log::wait_durable`](super::Log::wait_durable) waits for. If nothing was
    /// written, where it stood when that was found.
    pub behind: Lpos,
    /// Whether it is known to survive a power cut.
    pub durable: bool,
    /// Whether the same request had been applied before, and this is that first result.
    pub again: bool,
}

impl Receipt {
    /// Number of its last event.
    pub fn last(&self) -> Seq {
        self.cursor.seq
    }
}
