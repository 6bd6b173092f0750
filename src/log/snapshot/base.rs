//! The layer below: what a snapshot has of a log's state, looked up where it lies.
//!
//! A snapshot is never the truth. Where a block of it turns out to be spoiled, the log is read again up to the very event it
//! covers, and answers from then on ([`Base::look`]); where that cannot be, the state is [lost](Base::trouble) and whoever
//! asked is told so instead of being given an answer.

use std::borrow::Cow;
use std::cmp::Ordering as Order;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::{Deserialize, Serialize};

use super::file::{SnapshotFile, Span, Spoiled, spoiled};
use crate::error::{Error, Result};
use crate::log::bytes::Bytes;
use crate::log::envelope::KeyKind;
use crate::log::state::{Known, Remembered, State};
use crate::log::{OpId, Revision, Seq};
use crate::vfs::threads::Mutex;

/// Section: what the log knows beside keys and op ids.
pub(super) const FACTS: u32 = 1;
/// Section: names, bodies, and what the fold has of each key.
pub(super) const HEAP: u32 = 2;
/// Section: a row for each key, in key order.
pub(super) const KEYS: u32 = 3;
/// Section: the keys by hash.
pub(super) const HASH: u32 = 4;
/// Section: a row for each op id, in their order.
pub(super) const OPERATIONS: u32 = 5;
/// Section: the places of the op ids in the order in which they were used.
pub(super) const OPERATION_ORDER: u32 = 6;
/// Section: the revisions that op ids gave.
pub(super) const REVISIONS: u32 = 7;

pub(super) const KEY_LEN: u64 = 48;
pub(super) const SLOT_LEN: u64 = 8;
pub(super) const OPERATION_LEN: u64 = 56;

/// After so many slots that are somebody else's the sorted keys are searched: names can be made to have one hash.
const PROBES_MAX: u32 = 32;

/// By what a key is found.
pub(super) fn hash_of(kind: KeyKind, name: &str) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&[kind.0]);
    hasher.update(name.as_bytes());
    hasher.finalize()
}

/// What the log knows beside keys and op ids, as it stands in a snapshot.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(in crate::log) struct Facts {
    /// Which fold it has, and in which version; empty = none.
    pub(in crate::log) fold: String,
    pub(in crate::log) fold_version: u32,
    /// Every kind of event that was folded, with its version.
    pub(in crate::log) kinds: Vec<(u16, u8)>,
    pub(in crate::log) epochs: Vec<(u64, u64)>,
    pub(in crate::log) notes: Vec<String>,
    pub(in crate::log) gaps: Vec<(u64, u64)>,
    pub(in crate::log) last: u64,
    pub(in crate::log) events: u64,
    pub(in crate::log) commits: u64,
    pub(in crate::log) window_start: u64,
    /// Kind of key, its first row, and how many it has.
    pub(in crate::log) ranges: Vec<(u8, u32, u32)>,
}

/// What reads the log again up to where a snapshot ends.
pub(super) type Replay = Box<dyn Fn() -> Result<State> + Send + Sync>;

/// See the module.
pub struct Base {
    file: SnapshotFile,
    facts: Facts,
    keys: Span,
    count: u32,
    hash: Span,
    heap: Span,
    operations: Span,
    operation_order: Span,
    revisions: Span,
    replay: Replay,
    fell: AtomicBool,
    /// What the log says where the snapshot does not, and why.
    instead: Mutex<Option<Instead>>,
}

#[derive(Clone)]
struct Instead {
    state: Arc<State>,
    spoiled: Spoiled,
    /// Why the log could not be read either.
    lost: Option<Arc<Error>>,
}

impl fmt::Debug for Base {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Base")
            .field("file", &self.file.path())
            .field("keys", &self.count)
            .finish_non_exhaustive()
    }
}

/// What has become of a snapshot that others rely on.
#[derive(Clone, Debug)]
pub(crate) struct Trouble {
    /// What is wrong with it.
    pub(crate) spoiled: Spoiled,
    /// Why the log could not be read in its place.
    pub(crate) lost: Option<Arc<Error>>,
}

impl Base {
    pub(super) fn of(file: SnapshotFile, replay: Replay) -> Result<Self, Spoiled> {
        let facts = file.bytes(file.section(FACTS)?)?;
        let facts: Facts = match postcard::take_from_bytes(&facts) {
            Ok((facts, [])) => facts,
            _ => return Err(spoiled("its facts do not decode")),
        };
        let (keys, hash) = (file.section(KEYS)?, file.section(HASH)?);
        let count = u32::try_from(keys.len / KEY_LEN).map_err(|_| spoiled("it has too many keys"))?;
        let slots = hash.len / SLOT_LEN;
        if keys.len % KEY_LEN != 0 || hash.len % SLOT_LEN != 0 || !slots.is_power_of_two() {
            return Err(spoiled("a table of it is cut"));
        }
        let mut next = 0;
        for (_, first, len) in &facts.ranges {
            if *first != next {
                return Err(spoiled("its kinds of keys do not follow each other"));
            }
            next = first.checked_add(*len).ok_or_else(|| spoiled("it has too many keys"))?;
        }
        if next != count {
            return Err(spoiled("its kinds of keys are not all"));
        }
        Ok(Base {
            heap: file.section(HEAP)?,
            operations: file.section(OPERATIONS)?,
            operation_order: file.section(OPERATION_ORDER)?,
            revisions: file.section(REVISIONS)?,
            file,
            facts,
            keys,
            count,
            hash,
            replay,
            fell: AtomicBool::new(false),
            instead: Mutex::new(None),
        })
    }

    /// The file.
    pub fn file(&self) -> &SnapshotFile {
        &self.file
    }

    pub(in crate::log) fn facts(&self) -> &Facts {
        &self.facts
    }

    /// What `look` finds here; where that is spoiled, or something was before, what `instead` finds in the same state as
    /// the log has it.
    pub fn look<T>(
        &self,
        look: impl FnOnce(&Base) -> Result<T, Spoiled>,
        instead: impl FnOnce(&State) -> T,
    ) -> T {
        if !self.fell() {
            match look(self) {
                Ok(found) => return found,
                Err(spoiled) => self.fall(spoiled),
            }
        }
        match self.instead() {
            Some(state) => instead(&state),
            None => instead(&State::default()),
        }
    }

    /// The same state as the log has it, where this answers no more.
    pub(crate) fn instead(&self) -> Option<Arc<State>> {
        if !self.fell() {
            return None;
        }
        self.instead.lock().as_ref().map(|known| Arc::clone(&known.state))
    }

    /// Whether it answers no more.
    pub(crate) fn fell(&self) -> bool {
        self.fell.load(Ordering::Acquire)
    }

    /// What has become of it, if something has.
    pub(crate) fn trouble(&self) -> Option<Trouble> {
        if !self.fell() {
            return None;
        }
        let known = self.instead.lock();
        known.as_ref().map(|known| Trouble { spoiled: known.spoiled.clone(), lost: known.lost.clone() })
    }

    /// Has the log answer from now on.
    pub(crate) fn fall(&self, spoiled: Spoiled) {
        let mut known = self.instead.lock();
        if known.is_some() {
            return;
        }
        let (state, lost) = match (self.replay)() {
            Ok(state) => (state, None),
            Err(e) => (State::default(), Some(Arc::new(e))),
        };
        *known = Some(Instead { state: Arc::new(state), spoiled, lost });
        self.fell.store(true, Ordering::Release);
    }

    /// How many keys it has.
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// The rows of the keys of a kind: the first, and how many.
    pub fn range(&self, kind: KeyKind) -> (u32, u32) {
        let found = self.facts.ranges.iter().find(|(known, ..)| *known == kind.0);
        found.map_or((0, 0), |(_, first, len)| (*first, *len))
    }

    /// Some of what the fold has written beside a key: by its place in the section.
    ///
    /// # Errors
    /// [`Spoiled`].
    pub fn heap(&self, offset: u64, len: u64) -> Result<Cow<'_, [u8]>, Spoiled> {
        self.file.bytes(self.heap_span(offset, len)?)
    }

    /// Where in the file these bytes are.
    ///
    /// # Errors
    /// [`Spoiled`].
    pub fn heap_span(&self, offset: u64, len: u64) -> Result<Span, Spoiled> {
        self.heap.part(offset, len).ok_or_else(|| spoiled("it points outside of its heap"))
    }

    /// The same as text.
    ///
    /// # Errors
    /// [`Spoiled`].
    pub fn heap_text(&self, offset: u64, len: u64) -> Result<Cow<'_, str>, Spoiled> {
        text(self.heap(offset, len)?)
    }

    fn key_row(&self, row: u32) -> Result<KeyRow, Spoiled> {
        let span = self.keys.row(row, KEY_LEN).ok_or_else(|| spoiled("it points behind its last key"))?;
        KeyRow::decode(&self.file.bytes(span)?).ok_or_else(|| spoiled("a row of it is cut"))
    }

    /// The name of a key.
    ///
    /// # Errors
    /// [`Spoiled`].
    pub fn name(&self, row: u32) -> Result<Cow<'_, str>, Spoiled> {
        let KeyRow { name, name_len, .. } = self.key_row(row)?;
        self.heap_text(name, name_len.into())
    }

    /// A key's row; `None` = it has none.
    ///
    /// # Errors
    /// [`Spoiled`].
    pub fn find(&self, kind: KeyKind, name: &str) -> Result<Option<u32>, Spoiled> {
        let (wanted, mask) = (hash_of(kind, name), (self.hash.len / SLOT_LEN).saturating_sub(1));
        for probe in 0..PROBES_MAX {
            let at = (u64::from(wanted) + u64::from(probe)) & mask;
            let span = self.hash.part(at * SLOT_LEN, SLOT_LEN).ok_or_else(|| spoiled("it has no slots"))?;
            let slot = self.file.bytes(span)?;
            let mut slot = Bytes(&slot);
            let (Some(hash), Some(row)) = (slot.u32(), slot.u32()) else {
                return Err(spoiled("a slot is cut"));
            };
            let Some(row) = row.checked_sub(1) else { return Ok(None) };
            if hash == wanted && self.compare(row, kind, name)? == Order::Equal {
                return Ok(Some(row));
            }
        }
        self.search(kind, name)
    }

    /// How a key stands to another.
    fn compare(&self, row: u32, kind: KeyKind, name: &str) -> Result<Order, Spoiled> {
        let found = self.key_row(row)?;
        let known = self.heap(found.name, found.name_len.into())?;
        Ok(found.kind.cmp(&kind).then_with(|| (*known).cmp(name.as_bytes())))
    }

    fn search(&self, kind: KeyKind, name: &str) -> Result<Option<u32>, Spoiled> {
        let (mut from, mut to) = (0, self.count);
        while from < to {
            let middle = from + (to - from) / 2;
            match self.compare(middle, kind, name)? {
                Order::Equal => return Ok(Some(middle)),
                Order::Less => from = middle + 1,
                Order::Greater => to = middle,
            }
        }
        Ok(None)
    }

    /// What is known of a key.
    pub(in crate::log) fn known(&self, kind: KeyKind, name: &str) -> Option<Known> {
        let here = |base: &Base| match base.find(kind, name)? {
            Some(row) => Ok(Some(base.known_at(row)?.1)),
            None => Ok(None),
        };
        self.look(here, |state| state.known(kind, name))
    }

    /// Whether it has a key.
    pub(in crate::log) fn has(&self, kind: KeyKind, name: &str) -> bool {
        self.look(|base| Ok(base.find(kind, name)?.is_some()), |state| state.known(kind, name).is_some())
    }

    /// The key of a row, and what is known of it.
    pub(in crate::log) fn known_at(&self, row: u32) -> Result<((KeyKind, Cow<'_, str>), Known), Spoiled> {
        let found = self.key_row(row)?;
        let body = self.heap(found.body, found.body_len.into())?;
        let known = Known {
            revision: found.revision,
            seq: found.seq,
            kind: found.event_kind,
            version: found.version,
            body: (!body.is_empty()).then(|| Arc::from(&*body)),
        };
        Ok(((found.kind, self.heap_text(found.name, found.name_len.into())?), known))
    }

    /// How many op ids it remembers.
    pub(in crate::log) fn operations(&self) -> u32 {
        u32::try_from(self.operations.len / OPERATION_LEN).unwrap_or(u32::MAX)
    }

    /// What is remembered of an op id, and the how-manieth it was.
    pub(in crate::log) fn operation(&self, op_id: OpId) -> Result<Option<(u32, Remembered)>, Spoiled> {
        let (mut from, mut to) = (0, self.operations());
        while from < to {
            let middle = from + (to - from) / 2;
            let (found, order, remembered) = self.operation_row(middle)?;
            match found.cmp(&op_id) {
                Order::Equal => return Ok(Some((order, remembered))),
                Order::Less => from = middle + 1,
                Order::Greater => to = middle,
            }
        }
        Ok(None)
    }

    /// The op id that was the how-manieth, and what is remembered of it.
    pub(in crate::log) fn operation_at(&self, order: u32) -> Result<(OpId, Remembered), Spoiled> {
        let span = self.operation_order.row(order, 4).ok_or_else(|| spoiled("it has not so many op ids"))?;
        let row = Bytes(&self.file.bytes(span)?).u32().ok_or_else(|| spoiled("an op id is cut"))?;
        let (op_id, _, remembered) = self.operation_row(row)?;
        Ok((op_id, remembered))
    }

    fn operation_row(&self, row: u32) -> Result<(OpId, u32, Remembered), Spoiled> {
        let span =
            self.operations.row(row, OPERATION_LEN).ok_or_else(|| spoiled("it has not so many op ids"))?;
        let bytes = self.file.bytes(span)?;
        let mut b = Bytes(&bytes);
        let mut fields =
            || Some((OpId(b.array()?), b.array()?, b.u64()?, b.u64()?, b.u32()?, b.u16()?, b.u16()?));
        let Some((op_id, request_hash, first, offset, order, count, revisions)) = fields() else {
            return Err(spoiled("an op id is cut"));
        };
        let span = self.revisions.part(offset, u64::from(revisions) * 8);
        let bytes = self.file.bytes(span.ok_or_else(|| spoiled("an op id's answer lies outside of it"))?)?;
        let mut b = Bytes(&bytes);
        let revisions = std::iter::from_fn(|| b.u64()).map(Revision).collect();
        Ok((op_id, order, Remembered { request_hash, first: Seq(first), count, revisions }))
    }
}

fn text(bytes: Cow<'_, [u8]>) -> Result<Cow<'_, str>, Spoiled> {
    let bad = |_| spoiled("a text of it is no UTF-8");
    match bytes {
        Cow::Borrowed(bytes) => str::from_utf8(bytes).map(Cow::Borrowed).map_err(bad),
        Cow::Owned(bytes) => String::from_utf8(bytes).map(Cow::Owned).map_err(|e| bad(e.utf8_error())),
    }
}

/// A key as it stands in a snapshot.
pub(super) struct KeyRow {
    pub(super) name: u64,
    pub(super) body: u64,
    pub(super) revision: Revision,
    pub(super) seq: Seq,
    pub(super) body_len: u32,
    pub(super) event_kind: u16,
    pub(super) name_len: u16,
    pub(super) kind: KeyKind,
    pub(super) version: u8,
}

impl KeyRow {
    /// Of words of 8 bytes, all at once: this is what every look costs.
    fn decode(bytes: &[u8]) -> Option<Self> {
        let (words, _) = bytes.as_chunks::<8>();
        let words: &[[u8; 8]; 6] = words.try_into().ok()?;
        let [name, body, revision, seq, lens, kinds] = words.map(u64::from_le_bytes);
        let [a, b, c, d, e, f, g, h] = lens.to_le_bytes();
        let [kind, version, ..] = kinds.to_le_bytes();
        Some(KeyRow {
            name,
            body,
            revision: Revision(revision),
            seq: Seq(seq),
            body_len: u32::from_le_bytes([a, b, c, d]),
            event_kind: u16::from_le_bytes([e, f]),
            name_len: u16::from_le_bytes([g, h]),
            kind: KeyKind(kind),
            version,
        })
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.name.to_le_bytes());
        out.extend_from_slice(&self.body.to_le_bytes());
        out.extend_from_slice(&self.revision.0.to_le_bytes());
        out.extend_from_slice(&self.seq.0.to_le_bytes());
        out.extend_from_slice(&self.body_len.to_le_bytes());
        out.extend_from_slice(&self.event_kind.to_le_bytes());
        out.extend_from_slice(&self.name_len.to_le_bytes());
        out.extend_from_slice(&[self.kind.0, self.version, 0, 0, 0, 0, 0, 0]);
    }
}
