//! The body of a commit frame: a preamble and the events' envelopes. `format-spec/format.md`, section *Commit*.
//!
//! What routing, expectations, the state hash, compaction and the blob sweep need stands in the envelope, so that
//! they work on kinds they do not know. What an event *means* is in its body, which this module never opens.

use std::fmt;
use std::sync::Arc;

use super::bytes::Bytes;
use super::format::{EVENT_BLOBS, EVENT_ELIDED, EVENT_IGNORABLE, EVENT_NOTHING, MAX_COUNT, PREAMBLE_OP_ID};
use super::{BlobId, OpId, Revision, Seq};

/// What a key names. Open set: unknown numbers are carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyKind(pub u8);

impl KeyKind {
    /// No key.
    pub const NONE: KeyKind = KeyKind(0);
    /// A task.
    pub const TASK: KeyKind = KeyKind(1);
    /// A document.
    pub const DOCUMENT: KeyKind = KeyKind(2);
    /// A path.
    pub const PATH: KeyKind = KeyKind(3);
    /// A session.
    pub const SESSION: KeyKind = KeyKind(4);
}

/// What an event is about: a kind and a name in it. Ordered by kind, then by the name's bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// What the name names.
    pub kind: KeyKind,
    /// The name, UTF-8; empty exactly where the kind is [`KeyKind::NONE`].
    pub name: Arc<str>,
}

impl Key {
    /// No key: an event about the log as a whole.
    pub fn none() -> Self {
        Key { kind: KeyKind::NONE, name: "".into() }
    }

    /// A task's key.
    pub fn task(id: &str) -> Self {
        Key { kind: KeyKind::TASK, name: id.into() }
    }

    /// A document's key.
    pub fn document(name: &str) -> Self {
        Key { kind: KeyKind::DOCUMENT, name: name.into() }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.kind {
            KeyKind::NONE => return f.write_str("(no key)"),
            KeyKind::TASK => "task",
            KeyKind::DOCUMENT => "document",
            KeyKind::PATH => "path",
            KeyKind::SESSION => "session",
            KeyKind(n) => return write!(f, "key kind {n} {}", self.name),
        };
        write!(f, "{what} {}", self.name)
    }
}

/// What stands before a commit's events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Preamble {
    /// When it was committed, µs since 1970 UTC, by the writer's clock.
    pub time: u64,
    /// The writer's session, 0 = none.
    pub session: u64,
    /// The request it answers, if its caller named one.
    pub operation: Option<Operation>,
}

/// Identity of a request, by which a retry is recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// Chosen by the caller, once per request.
    pub op_id: OpId,
    /// BLAKE3 of the request, cut to 128 bits.
    pub request_hash: [u8; 16],
    /// The highest event number the caller had seen.
    pub seen: Seq,
}

/// One event as it stands in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope<'a> {
    /// Its number.
    pub seq: Seq,
    /// How many numbers it takes: 1, or what an elided run says.
    pub takes: u16,
    /// Kind.
    pub kind: u16,
    /// Version of that kind's body.
    pub version: u8,
    /// Whether a reader that does not know (kind, version) may skip it.
    pub ignorable: bool,
    /// What its key names.
    pub key_kind: KeyKind,
    /// Its key's name.
    pub key: &'a str,
    /// The key's revision after this event; 0 = no state event.
    pub revision: Revision,
    /// Names of the blobs its body refers to by index, 32 bytes each.
    pub blobs: &'a [u8],
    /// Its body.
    pub body: &'a [u8],
}

impl<'a> Envelope<'a> {
    /// The blobs it names, in order.
    pub fn blob_ids(&self) -> impl Iterator<Item = BlobId> + use<'a> {
        self.blobs.as_chunks::<32>().0.iter().map(|id| BlobId(*id))
    }

    /// Its key, owned.
    pub fn to_key(&self) -> Key {
        Key { kind: self.key_kind, name: self.key.into() }
    }

    /// Appends the envelope to a commit's body. Lengths are within the format's, which the caller has checked.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let blobs = u16::try_from(self.blobs.len() / 32).unwrap_or(u16::MAX);
        let flags = u8::from(self.ignorable) * EVENT_IGNORABLE + u8::from(blobs > 0) * EVENT_BLOBS;
        let [kind_0, kind_1] = self.kind.to_le_bytes();
        let [len_0, len_1] = u16::try_from(self.key.len()).unwrap_or(u16::MAX).to_le_bytes();
        out.reserve(Envelope::encoded_len(self.key.len(), blobs.into(), self.body.len()));
        out.extend_from_slice(&[kind_0, kind_1, self.version, flags, self.key_kind.0, len_0, len_1]);
        out.extend_from_slice(self.key.as_bytes());
        out.extend_from_slice(&self.revision.0.to_le_bytes());
        if blobs > 0 {
            out.extend_from_slice(&blobs.to_le_bytes());
            out.extend_from_slice(self.blobs);
        }
        out.extend_from_slice(&u32::try_from(self.body.len()).unwrap_or(u32::MAX).to_le_bytes());
        out.extend_from_slice(self.body);
    }

    /// Length of the encoding of an event with these parts.
    pub fn encoded_len(key_len: usize, blobs: usize, body_len: usize) -> usize {
        19 + key_len + body_len + if blobs > 0 { 2 + 32 * blobs } else { 0 }
    }
}

impl Preamble {
    /// Appends the preamble to a commit's body.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(if self.operation.is_some() { PREAMBLE_OP_ID } else { 0 });
        out.extend_from_slice(&self.time.to_le_bytes());
        out.extend_from_slice(&self.session.to_le_bytes());
        if let Some(operation) = &self.operation {
            out.extend_from_slice(&operation.op_id.0);
            out.extend_from_slice(&operation.request_hash);
            out.extend_from_slice(&operation.seen.0.to_le_bytes());
        }
    }
}

/// Why a commit frame's body is not one, although its CRC checks: a faulty writer, or a newer format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadCommit {
    /// A flag bit that this release does not know; such bits are must-understand.
    Flags(u8),
    /// Anything else.
    Rule(&'static str),
}

impl fmt::Display for BadCommit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadCommit::Flags(bits) => write!(f, "unknown flag bits {bits:#04x}"),
            BadCommit::Rule(rule) => f.write_str(rule),
        }
    }
}

/// A commit frame's body, checked whole before the first event is handed out.
#[derive(Clone, Copy, Debug)]
pub struct Commit<'a> {
    /// Its preamble.
    pub preamble: Preamble,
    /// Most commits have but one event, and all who look at a commit look at that.
    first: Option<Envelope<'a>>,
    rest: &'a [u8],
}

impl<'a> Commit<'a> {
    /// Reads and checks the body of a commit frame that starts at `seq` and takes `count` numbers.
    ///
    /// # Errors
    /// [`BadCommit`].
    #[inline]
    pub fn decode(seq: u64, count: u16, body: &'a [u8]) -> Result<Self, BadCommit> {
        const CUT: BadCommit = BadCommit::Rule("commit ends inside a field");
        let mut b = Bytes(body);
        let flags = b.u8().ok_or(CUT)?;
        if flags & !PREAMBLE_OP_ID != 0 {
            return Err(BadCommit::Flags(flags & !PREAMBLE_OP_ID));
        }
        let time = b.u64().ok_or(CUT)?;
        let session = b.u64().ok_or(CUT)?;
        let operation = if flags & PREAMBLE_OP_ID == 0 {
            None
        } else {
            Some(Operation {
                op_id: OpId(b.array().ok_or(CUT)?),
                request_hash: b.array().ok_or(CUT)?,
                seen: Seq(b.u64().ok_or(CUT)?),
            })
        };
        let mut commit = Commit { preamble: Preamble { time, session, operation }, first: None, rest: &[] };
        if seq.checked_add(count.into()).is_none() {
            return Err(BadCommit::Rule("event numbers overflow"));
        }
        let mut numbers = 0u32;
        let mut rest = b;
        while !rest.is_empty() {
            let event = event(&mut rest, seq + u64::from(numbers))?;
            numbers += u32::from(event.takes);
            if commit.first.is_none() {
                (commit.first, commit.rest) = (Some(event), rest.0);
            }
            if numbers > u32::from(count) {
                return Err(BadCommit::Rule("more event numbers than the frame's count"));
            }
        }
        if numbers < u32::from(count) {
            return Err(BadCommit::Rule("fewer event numbers than the frame's count"));
        }
        Ok(commit)
    }

    /// The first of them.
    pub(crate) fn first(&self) -> Option<&Envelope<'a>> {
        self.first.as_ref()
    }

    /// Its events, in order, elided runs included.
    pub fn events(&self) -> impl Iterator<Item = Envelope<'a>> + use<'a> {
        let mut rest = Bytes(self.rest);
        let mut seq = self.first.map_or(0, |first| first.seq.0 + u64::from(first.takes));
        let others = std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            let event = event(&mut rest, seq).ok()?;
            seq += u64::from(event.takes);
            Some(event)
        });
        self.first.into_iter().chain(others)
    }
}

#[inline]
fn event<'a>(b: &mut Bytes<'a>, seq: u64) -> Result<Envelope<'a>, BadCommit> {
    const CUT: BadCommit = BadCommit::Rule("commit ends inside an event");
    let kind = b.u16().ok_or(CUT)?;
    let version = b.u8().ok_or(CUT)?;
    let flags = b.u8().ok_or(CUT)?;
    let unknown = flags & !(EVENT_IGNORABLE | EVENT_BLOBS);
    if unknown != 0 {
        return Err(BadCommit::Flags(unknown));
    }
    let key_kind = KeyKind(b.u8().ok_or(CUT)?);
    let key_len = b.u16().ok_or(CUT)?;
    let key = str::from_utf8(b.take(key_len.into()).ok_or(CUT)?)
        .map_err(|_| BadCommit::Rule("key is not UTF-8"))?;
    if (key_kind == KeyKind::NONE) != key.is_empty() {
        return Err(BadCommit::Rule("a key without a kind, or a kind without a key"));
    }
    let revision = Revision(b.u64().ok_or(CUT)?);
    if key_kind == KeyKind::NONE && revision.0 != 0 {
        return Err(BadCommit::Rule("a revision without a key"));
    }
    let blobs = if flags & EVENT_BLOBS == 0 {
        &[]
    } else {
        let count = usize::from(b.u16().ok_or(CUT)?);
        if count == 0 {
            return Err(BadCommit::Rule("blob flag without blobs"));
        }
        b.take(32 * count).ok_or(CUT)?
    };
    let body_len = b.u32().ok_or(CUT)?;
    let body = b.take(body_len as usize).ok_or(CUT)?;
    let takes = match kind {
        EVENT_ELIDED => elided(version, body)?,
        EVENT_NOTHING if version == 1 && !body.is_empty() => {
            return Err(BadCommit::Rule("an event of kind nothing has a body"));
        }
        _ => 1,
    };
    Ok(Envelope {
        seq: Seq(seq),
        takes,
        kind,
        version,
        ignorable: flags & EVENT_IGNORABLE != 0,
        key_kind,
        key,
        revision,
        blobs,
        body,
    })
}

fn elided(version: u8, body: &[u8]) -> Result<u16, BadCommit> {
    let mut b = Bytes(body);
    match b.u16() {
        Some(n @ 1..=MAX_COUNT) if version == 1 && b.is_empty() => Ok(n),
        _ => Err(BadCommit::Rule("an elided run must say 1 to 4096 numbers, in version 1")),
    }
}

#[cfg(test)]
mod tests;
