//! What a log says without understanding its events: the last state event of each key, epochs, op ids.
//!
//! A pure fold of frames. It decides expectations, and its hash is equal in all processes that have read the same log.
//! A program's own [`Fold`] stands beside it, always at the same event.

use std::any::Any;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use super::control_frame::Control;
use super::envelope::{Commit, Envelope, Key, KeyKind, Operation};
use super::fold::{Fold, FoldKind, Meanings};
use super::format::{EVENT_ELIDED, EVENT_NOTHING, OP_ID_WINDOW};
use super::keys::Keys;
use super::snapshot::base::{Base, Trouble};
use super::snapshot::file::Spoiled;
use super::{BlobId, Conflict, Cursor, Expect, KeyState, OpId, Revision, Seq};

/// The event kinds a program understands; all others are carried, and stop it from writing unless marked ignorable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Vocabulary {
    known: Vec<(u16, u8)>,
    all: bool,
}

impl Vocabulary {
    /// The log's own kinds and these: kind and highest version understood.
    pub fn new(kinds: impl IntoIterator<Item = (u16, u8)>) -> Self {
        let mut known: Vec<_> = kinds.into_iter().collect();
        known.sort_unstable();
        Vocabulary { known, all: false }
    }

    /// Every kind and version, for programs that move events without reading a meaning into them (a repair tool).
    /// Whoever commits events of its own must say what it understands instead.
    pub fn all() -> Self {
        Vocabulary { known: Vec::new(), all: true }
    }

    /// Whether events of this kind and version are understood.
    pub fn knows(&self, kind: u16, version: u8) -> bool {
        match kind {
            EVENT_ELIDED | EVENT_NOTHING => version == 1,
            _ if self.all => true,
            _ => self
                .known
                .binary_search_by_key(&kind, |(k, _)| *k)
                .is_ok_and(|i| self.known.get(i).is_some_and(|(_, newest)| (1..=*newest).contains(&version))),
        }
    }
}

/// What is known of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) revision: Revision,
    pub(super) seq: Seq,
    pub(super) kind: u16,
    pub(super) version: u8,
    /// Shared with the copies that readers hold; `None` = empty, as it is where a fold keeps what the events say.
    pub(super) body: Option<Arc<[u8]>>,
}

impl Known {
    pub(super) fn body(&self) -> &[u8] {
        self.body.as_deref().unwrap_or_default()
    }
}

/// What is remembered of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Remembered {
    pub(super) request_hash: [u8; 16],
    pub(super) first: Seq,
    pub(super) count: u16,
    pub(super) revisions: Box<[Revision]>,
}

/// An event that must be understood and is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unknown {
    /// Its number.
    pub seq: Seq,
    /// Its kind.
    pub kind: u16,
    /// Its version.
    pub version: u8,
}

/// The fold. See the module.
#[derive(Debug, Default)]
pub struct State {
    pub(super) fold: Option<Box<dyn Fold>>,
    /// What a snapshot has; all else here is what was folded since, and stands above it.
    pub(super) base: Option<Arc<Base>>,
    pub(super) keys: Keys<Known>,
    /// How many of these keys the snapshot has too.
    covered: usize,
    pub(super) epochs: Vec<(Seq, u64)>,
    pub(super) operations: HashMap<OpId, Remembered>,
    pub(super) operation_order: VecDeque<(Seq, OpId)>,
    /// How many of the snapshot's op ids are forgotten, the oldest ones.
    pub(super) operations_passed: u32,
    /// op ids at or before this are forgotten.
    pub(super) window_start: Seq,
    pub(super) notes: Vec<String>,
    pub(super) gaps: Vec<(Seq, Seq)>,
    pub(super) last: Seq,
    pub(super) events: u64,
    pub(super) commits: u64,
    pub(super) unknown: Option<Unknown>,
    pub(super) kinds: Kinds,
    /// The blobs that were named since somebody began to look for those that nothing names.
    pub(super) named: Option<HashSet<BlobId>>,
    /// What [`State::purges`] was where the snapshot ends.
    pub(super) purges_below: u64,
}

/// Every kind of event that was folded, with its version. What was taken back stays in it: it only makes a snapshot ask more of
/// whoever wants to use it.
#[derive(Clone, Debug, Default)]
pub(super) struct Kinds {
    last: (u16, u8),
    all: Vec<(u16, u8)>,
}

impl Kinds {
    fn add(&mut self, kind: (u16, u8)) {
        if kind == self.last {
            return;
        }
        self.last = kind;
        if let Err(at) = self.all.binary_search(&kind) {
            self.all.insert(at, kind);
        }
    }

    pub(super) fn all(&self) -> &[(u16, u8)] {
        &self.all
    }

    pub(super) fn of(all: &[(u16, u8)]) -> Self {
        let mut kinds = Kinds::default();
        all.iter().for_each(|kind| kinds.add(*kind));
        kinds
    }
}

/// What [`State::apply`] replaced, to take a commit back that did not reach the disk.
#[derive(Debug, Default)]
pub(crate) struct Undo {
    /// What was known before of the key of the first state event, and of the others', in the commit's order.
    first: Option<Option<Known>>,
    others: Vec<Option<Known>>,
    operation: Option<OpId>,
    forgotten: Option<Forgotten>,
    last: Seq,
    events: u64,
    commits: u64,
    unknown: Option<Unknown>,
}

/// Which op id made room for another, and where the memory began before.
#[derive(Debug)]
enum Forgotten {
    Here(Seq, OpId, Remembered, Seq),
    Below(Seq),
}

/// How a request relates to what is remembered.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Recall {
    /// Never seen, and it would be remembered if it had been: apply it.
    New,
    /// Applied before; the first result.
    Again { first: Seq, count: u16, revisions: Box<[Revision]> },
    /// The op id was another request's.
    Reused { seq: Seq },
    /// Older than the memory.
    Forgotten { window_start: Seq },
}

impl State {
    /// An empty state, with an empty fold of the program's.
    pub(crate) fn with_fold(kind: Option<FoldKind>) -> Self {
        State { fold: kind.map(FoldKind::make), ..State::default() }
    }

    /// A copy for readers: all tables, their entries shared. What only commits ask, the memory of op ids, stays behind.
    pub(super) fn copy(&self) -> Self {
        State {
            fold: self.fold.as_ref().map(|fold| fold.copy()),
            base: self.base.clone(),
            keys: self.keys.clone(),
            covered: self.covered,
            epochs: self.epochs.clone(),
            operations: HashMap::new(),
            operation_order: VecDeque::new(),
            operations_passed: self.operations_passed,
            window_start: self.window_start,
            notes: self.notes.clone(),
            gaps: self.gaps.clone(),
            last: self.last,
            events: self.events,
            commits: self.commits,
            unknown: self.unknown,
            kinds: self.kinds.clone(),
            named: None,
            purges_below: self.purges_below,
        }
    }

    /// The same with all there is.
    pub(super) fn copy_whole(&self) -> Self {
        State {
            operations: self.operations.clone(),
            operation_order: self.operation_order.clone(),
            ..self.copy()
        }
    }

    /// How many of its events have something removed for good.
    pub(super) fn purges(&self) -> u64 {
        self.fold.as_ref().map_or(0, |fold| fold.purges())
    }

    /// Whether the snapshot it stands on has what was to be removed since.
    pub(super) fn stands_on_what_was_purged(&self) -> bool {
        self.base.is_some() && self.purges() != self.purges_below
    }

    /// What has become of the snapshot it stands on, if something has.
    pub(crate) fn trouble(&self) -> Option<Trouble> {
        self.base.as_ref()?.trouble()
    }

    /// Why nothing that was found here may be believed, if that is so.
    pub(crate) fn lost(&self) -> Option<Arc<crate::error::Error>> {
        self.trouble()?.lost
    }

    /// Whether the snapshot it stands on answers no more.
    pub(crate) fn is_in_trouble(&self) -> bool {
        self.base.as_ref().is_some_and(|base| base.fell())
    }

    /// Whether nothing has been folded, or rewound, between the two.
    pub(super) fn is_at_the_place_of(&self, other: &Self) -> bool {
        let place = |state: &State| (state.last, state.events, state.commits, state.notes.len());
        place(self) == place(other) && self.epochs == other.epochs && self.gaps == other.gaps
    }

    /// The program's own fold, if it is of this type.
    pub fn folded<F: Fold>(&self) -> Option<&F> {
        let fold: &dyn Any = &**self.fold.as_ref()?;
        fold.downcast_ref()
    }

    /// Whatever was applied before stands; only what is applied from now on can be taken back.
    pub(crate) fn stands(&mut self) {
        if let Some(fold) = &mut self.fold {
            fold.stands();
        }
    }

    /// The snapshot that it was folded from, if it was.
    pub fn snapshot(&self) -> Option<&std::path::Path> {
        self.base.as_ref().map(|base| base.file().path())
    }

    /// The last event number taken; 0 = none.
    pub fn last(&self) -> Seq {
        self.last
    }

    /// How many events were folded, elided and ignored ones not counted.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// How many commits were folded.
    pub fn commits(&self) -> u64 {
        self.commits
    }

    /// How many keys are known.
    pub fn keys(&self) -> usize {
        self.keys.len() - self.covered + self.base.as_ref().map_or(0, |base| base.count() as usize)
    }

    /// The current epoch; 0 = before the first.
    pub fn epoch(&self) -> u64 {
        self.epochs.last().map_or(0, |(_, epoch)| *epoch)
    }

    /// All epochs: the first event number of each, and its random number.
    pub fn epochs(&self) -> &[(Seq, u64)] {
        &self.epochs
    }

    /// Number ranges that repair could not save.
    pub fn gaps(&self) -> &[(Seq, Seq)] {
        &self.gaps
    }

    /// Names of quarantine notes that RecoveryMarks in the log name.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The first event that must be understood and is not.
    pub fn unknown(&self) -> Option<Unknown> {
        self.unknown
    }

    /// What to store to come back to the present place later.
    pub fn cursor(&self) -> Cursor {
        self.cursor_at(self.last)
    }

    /// The same for an earlier event.
    pub fn cursor_at(&self, seq: Seq) -> Cursor {
        let epoch = self.epochs.iter().rev().find(|(first, _)| *first <= seq).map_or(0, |(_, epoch)| *epoch);
        Cursor { seq, epoch }
    }

    /// Whether a stored cursor still speaks of this history.
    ///
    /// # Errors
    /// The last event number that both share, where a power cut ended the cursor's history earlier than it says.
    pub fn resolve(&self, cursor: Cursor) -> Result<Seq, Seq> {
        let next = if cursor.epoch == 0 {
            self.epochs.first()
        } else {
            match self.epochs.iter().position(|(_, epoch)| *epoch == cursor.epoch) {
                Some(at) => self.epochs.get(at + 1),
                // An epoch that is not in the table never was in this history: only the empty beginning is shared.
                None => return Err(Seq(0)),
            }
        };
        match next {
            Some((first, _)) if cursor.seq >= *first => Err(Seq(first.0.saturating_sub(1))),
            _ => Ok(cursor.seq),
        }
    }

    /// What is known of a key.
    pub fn get(&self, key: &Key) -> Option<KeyState> {
        self.known(key.kind, &key.name).map(|known| self.key_state(key.clone(), &known))
    }

    /// The number of state events of a key; 0 = none.
    pub fn revision(&self, key: &Key) -> Revision {
        self.known(key.kind, &key.name).map_or(Revision(0), |known| known.revision)
    }

    pub(super) fn known(&self, kind: KeyKind, name: &str) -> Option<Known> {
        self.keys.get(kind, name).cloned().or_else(|| self.base.as_ref()?.known(kind, name))
    }

    /// The keys whose last state event is of this kind, each with that event.
    pub fn keys_ending_in(&self, kind: u16) -> Vec<(Key, Seq)> {
        self.each_key_surely(Vec::new, |all, key_kind, name, known| {
            if known.kind == kind {
                all.push((Key { kind: key_kind, name: name.into() }, known.seq));
            }
        })
    }

    /// Everything known, in key order.
    pub fn iter(&self) -> impl Iterator<Item = KeyState> + '_ {
        let start = || Vec::with_capacity(self.keys());
        let all = self.each_key_surely(start, |all, kind, name, known| {
            all.push((Key { kind, name: name.into() }, known.clone()));
        });
        all.into_iter().map(|(key, known)| self.key_state(key, &known))
    }

    /// Hands out everything known, in key order.
    ///
    /// # Errors
    /// [`Spoiled`] if the snapshot below is: then not all of it was handed out, and the next call goes by the log.
    pub(super) fn each_key(&self, each: &mut dyn FnMut(KeyKind, &str, &Known)) -> Result<(), Spoiled> {
        let mut above = self.keys.sorted().into_iter().peekable();
        if let Some(base) = &self.base {
            let mut below = |kind: KeyKind, name: &str, known: &Known| {
                while let Some((key, over)) = above.next_if(|(key, _)| (key.kind, &*key.name) < (kind, name))
                {
                    each(key.kind, &key.name, over);
                }
                match above.next_if(|(key, _)| (key.kind, &*key.name) == (kind, name)) {
                    Some((key, over)) => each(key.kind, &key.name, over),
                    None => each(kind, name, known),
                }
            };
            match base.instead() {
                Some(state) => state.each_key(&mut below)?,
                None => (0..base.count())
                    .try_for_each(|row| {
                        let ((kind, name), known) = base.known_at(row)?;
                        below(kind, &name, &known);
                        Ok(())
                    })
                    .inspect_err(|spoiled: &Spoiled| base.fall(spoiled.clone()))?,
            }
        }
        above.for_each(|(key, over)| each(key.kind, &key.name, over));
        Ok(())
    }

    /// [`State::each_key`] into something that is made anew where the snapshot below turns out to be spoiled.
    fn each_key_surely<T>(
        &self,
        start: impl Fn() -> T,
        mut each: impl FnMut(&mut T, KeyKind, &str, &Known),
    ) -> T {
        loop {
            let mut all = start();
            if self.each_key(&mut |kind, name, known| each(&mut all, kind, name, known)).is_ok() {
                return all;
            }
        }
    }

    fn key_state(&self, key: Key, known: &Known) -> KeyState {
        KeyState {
            revision: known.revision,
            last: self.cursor_at(known.seq),
            kind: known.kind,
            version: known.version,
            body: known.body().into(),
            folded: self.fold.as_ref().and_then(|fold| fold.describe(&key)),
            key,
        }
    }

    /// BLAKE3 over what the log must never lose; `format-spec/format.md`, section *State hash*.
    pub fn hash(&self) -> blake3::Hash {
        let start = || {
            let mut hasher = blake3::Hasher::new();
            hasher.update(&(self.epochs.len() as u64).to_le_bytes());
            for (first, epoch) in &self.epochs {
                hasher.update(&first.0.to_le_bytes()).update(&epoch.to_le_bytes());
            }
            hasher
        };
        let mut hasher = self.each_key_surely(start, |hasher, kind, name, known| {
            let name_len = u32::try_from(name.len()).unwrap_or(u32::MAX);
            hasher.update(&[kind.0]).update(&name_len.to_le_bytes()).update(name.as_bytes());
            hasher.update(&known.revision.0.to_le_bytes()).update(&known.seq.0.to_le_bytes());
            hasher.update(&known.kind.to_le_bytes()).update(&[known.version]);
            hasher.update(&(known.body().len() as u64).to_le_bytes()).update(known.body());
        });
        if let Some(fold) = &self.fold {
            fold.hash(&mut hasher);
        }
        hasher.finalize()
    }

    /// Checks one expectation.
    ///
    /// # Errors
    /// What holds instead.
    pub fn check(&self, key: &Key, expected: Expect) -> Result<(), Box<Conflict>> {
        let known = self.known(key.kind, &key.name);
        let revision = known.as_ref().map_or(Revision(0), |k| k.revision);
        let last = known.as_ref().map_or(Seq(0), |k| k.seq);
        let mut rewound_to = None;
        let mut still = |cursor| match self.resolve(cursor) {
            Ok(_) => true,
            Err(to) => {
                rewound_to = Some(to);
                false
            }
        };
        let holds = match expected {
            Expect::Any => true,
            Expect::Absent => revision.0 == 0,
            Expect::Exists => revision.0 > 0,
            Expect::Revision(wanted) => revision == wanted,
            Expect::RevisionAt(wanted, cursor) => still(cursor) && revision == wanted,
            Expect::AtMostSeq(seq) => last <= seq,
            Expect::AtMost(cursor) => still(cursor) && last <= cursor.seq,
        };
        if holds {
            Ok(())
        } else {
            Err(Box::new(Conflict { key: key.clone(), expected, current: self.get(key), rewound_to }))
        }
    }

    /// Looks a request up in the memory of op ids.
    pub(crate) fn recall(&self, operation: &Operation) -> Recall {
        match self.remembered(operation.op_id) {
            Some(known) if known.request_hash == operation.request_hash => {
                Recall::Again { first: known.first, count: known.count, revisions: known.revisions }
            }
            Some(known) => Recall::Reused { seq: known.first },
            None if operation.seen < self.window_start => {
                Recall::Forgotten { window_start: self.window_start }
            }
            None => Recall::New,
        }
    }

    fn remembered(&self, op_id: OpId) -> Option<Remembered> {
        if let Some(known) = self.operations.get(&op_id) {
            return Some(known.clone());
        }
        let base = self.base.as_ref()?;
        let here = |base: &Base| {
            let found = base.operation(op_id)?;
            Ok(found.filter(|(order, _)| *order >= self.operations_passed).map(|(_, known)| known))
        };
        base.look(here, |state| {
            // The oldest ones were forgotten since.
            state.operations.get(&op_id).filter(|known| known.first > self.window_start).cloned()
        })
    }

    /// Folds one commit that may have to be taken back. Never validates: rules may tighten, old logs still open.
    pub(crate) fn apply(
        &mut self,
        commit: &Commit<'_>,
        count: u16,
        vocabulary: &Vocabulary,
        meanings: Meanings<'_>,
    ) -> Undo {
        let mut undo = Undo {
            last: self.last,
            events: self.events,
            commits: self.commits,
            unknown: self.unknown,
            ..Undo::default()
        };
        self.fold_into(commit, count, vocabulary, meanings, Some(&mut undo));
        undo
    }

    /// Looks at what commits are about to change: the processor waits for many such looks at a time, and would for each
    /// change by itself.
    pub(crate) fn touch<'a>(&self, commits: impl Iterator<Item = &'a Commit<'a>>) {
        let known = commits.filter_map(|commit| {
            let event = commit.first()?;
            self.keys.get(event.key_kind, event.key)
        });
        std::hint::black_box(known.fold(0, |any, known| {
            let body = known.body().iter().step_by(64).fold(0, |any, byte| any ^ byte);
            any ^ known.revision.0 ^ u64::from(body)
        }));
    }

    /// [`State::apply`] for a commit that stands on disk: keeps nothing of what it replaces.
    pub(crate) fn take_up(&mut self, commit: &Commit<'_>, count: u16, vocabulary: &Vocabulary) {
        self.fold_into(commit, count, vocabulary, Meanings::unknown(), None);
    }

    fn fold_into(
        &mut self,
        commit: &Commit<'_>,
        count: u16,
        vocabulary: &Vocabulary,
        meanings: Meanings<'_>,
        mut undo: Option<&mut Undo>,
    ) {
        let mut first = None;
        let mut revisions = Vec::new();
        for event in commit.events() {
            first.get_or_insert(event.seq);
            self.last = Seq(event.seq.0 + u64::from(event.takes) - 1);
            if commit.preamble.operation.is_some() {
                revisions.push(event.revision);
            }
            if event.kind == EVENT_ELIDED {
                continue;
            }
            self.events += 1;
            self.kinds.add((event.kind, event.version));
            if let Some(named) = self.named.as_mut().filter(|_| !event.blobs.is_empty()) {
                named.extend(event.blob_ids());
            }
            if self.unknown.is_none() && !event.ignorable && !vocabulary.knows(event.kind, event.version) {
                self.unknown = Some(Unknown { seq: event.seq, kind: event.kind, version: event.version });
            }
            if event.revision != Revision(0) {
                let old = self.put(&event, undo.is_some());
                if let Some(undo) = &mut undo {
                    match undo.first {
                        None => undo.first = Some(old),
                        Some(_) => undo.others.push(old),
                    }
                }
            }
        }
        if let Some(fold) = &mut self.fold {
            fold.apply(commit, meanings, undo.is_some());
        }
        self.commits += 1;
        if let (Some(operation), Some(first)) = (commit.preamble.operation, first) {
            let remembered = Remembered {
                request_hash: operation.request_hash,
                first,
                count,
                revisions: revisions.into_boxed_slice(),
            };
            self.operations.insert(operation.op_id, remembered);
            self.operation_order.push_back((first, operation.op_id));
            if let Some(undo) = &mut undo {
                undo.operation = Some(operation.op_id);
            }
            let forgotten = self.forget_oldest();
            if let Some(undo) = &mut undo {
                undo.forgotten = forgotten;
            }
        }
    }

    /// Forgets the oldest op id if there are too many.
    fn forget_oldest(&mut self) -> Option<Forgotten> {
        let below = self.base.as_ref().map_or(0, |base| base.operations() - self.operations_passed);
        if self.operation_order.len() + below as usize <= OP_ID_WINDOW {
            return None;
        }
        let before = self.window_start;
        if let Some(base) = self.base.as_ref().filter(|_| below > 0) {
            let passed = self.operations_passed;
            let oldest = |state: &State| state.operation_order.get(passed as usize).map(|(seq, _)| *seq);
            let first = base.look(|base| Ok(Some(base.operation_at(passed)?.1.first)), oldest);
            self.window_start = first.unwrap_or(before);
            self.operations_passed += 1;
            return Some(Forgotten::Below(before));
        }
        let (seq, op_id) = self.operation_order.pop_front()?;
        let gone = self.operations.remove(&op_id)?;
        self.window_start = seq;
        Some(Forgotten::Here(seq, op_id, gone, before))
    }

    /// Makes a state event its key's last one; returns what was known before, if that is to be `kept`.
    fn put(&mut self, event: &Envelope<'_>, kept: bool) -> Option<Known> {
        // A fold keeps what the events say, so their bodies need not be kept here.
        let body = if self.fold.is_some() { &[] } else { event.body };
        let known = |body| Known {
            revision: event.revision,
            seq: event.seq,
            kind: event.kind,
            version: event.version,
            body,
        };
        let share = |bytes: &[u8]| (!bytes.is_empty()).then(|| Arc::from(bytes));
        match self.keys.get_mut(event.key_kind, event.key) {
            // In the memory that is there, unless a reader's copy shares it.
            Some(place) if !kept => {
                let mut memory = place.body.take();
                match memory.as_mut().and_then(Arc::get_mut) {
                    Some(bytes) if bytes.len() == body.len() => bytes.copy_from_slice(body),
                    _ => memory = share(body),
                }
                *place = known(memory);
                None
            }
            Some(place) => Some(std::mem::replace(place, known(share(body)))),
            None => {
                self.covered += self.covers(event.key_kind, event.key);
                self.keys.insert(event.key_kind, event.key, known(share(body)))
            }
        }
    }

    /// 1 if the snapshot below has this key.
    fn covers(&self, kind: KeyKind, name: &str) -> usize {
        usize::from(self.base.as_ref().is_some_and(|base| base.has(kind, name)))
    }

    /// Takes the last applied commit back. Commits are taken back in the reverse order of their application.
    pub(crate) fn undo(&mut self, commit: &Commit<'_>, undo: Undo) {
        if let Some(fold) = &mut self.fold {
            fold.take_back();
        }
        let was_put = |event: &Envelope<'_>| event.kind != EVENT_ELIDED && event.revision != Revision(0);
        let keys: Vec<Key> = commit.events().filter(was_put).map(|event| event.to_key()).collect();
        let before: Vec<_> = undo.first.into_iter().chain(undo.others).collect();
        for (key, old) in keys.into_iter().zip(before).rev() {
            match old {
                Some(known) => self.keys.insert(key.kind, &key.name, known),
                None => {
                    self.covered -= self.covers(key.kind, &key.name);
                    self.keys.remove(key.kind, &key.name)
                }
            };
        }
        if let Some(op_id) = undo.operation {
            self.operations.remove(&op_id);
            self.operation_order.pop_back();
        }
        match undo.forgotten {
            Some(Forgotten::Here(seq, op_id, remembered, window_start)) => {
                self.operations.insert(op_id, remembered);
                self.operation_order.push_front((seq, op_id));
                self.window_start = window_start;
            }
            Some(Forgotten::Below(window_start)) => {
                self.operations_passed -= 1;
                self.window_start = window_start;
            }
            None => {}
        }
        self.last = undo.last;
        self.events = undo.events;
        self.commits = undo.commits;
        self.unknown = undo.unknown;
    }

    /// Folds a frame that may be ignored: its numbers are taken all the same.
    pub(crate) fn pass_over(&mut self, seq: u64, count: u16) {
        if count > 0 {
            self.last = self.last.max(Seq(seq + u64::from(count) - 1));
        }
    }

    /// Folds one control frame.
    pub(crate) fn apply_control(&mut self, seq: u64, control: &Control) {
        match control {
            Control::Epoch { epoch } => self.epochs.push((Seq(seq), *epoch)),
            // Without a name it says that a failed sync was recovered from, and nothing was cut.
            Control::RecoveryMark(mark) if mark.note.is_empty() => {}
            Control::RecoveryMark(mark) => self.notes.push(mark.note.clone()),
            Control::Gap { from, to } => {
                self.gaps.push((Seq(*from), Seq(*to)));
                self.last = Seq(*to);
            }
            Control::Seal(_) | Control::Mark { .. } => {}
        }
    }

    /// Takes the last applied control frame back.
    pub(crate) fn undo_control(&mut self, control: &Control) {
        match control {
            Control::Epoch { .. } => drop(self.epochs.pop()),
            Control::RecoveryMark(mark) if mark.note.is_empty() => {}
            Control::RecoveryMark(_) => drop(self.notes.pop()),
            // Repair alone writes Gaps, into files of its own; the others change nothing.
            Control::Gap { .. } | Control::Seal(_) | Control::Mark { .. } => {}
        }
    }
}
