//! A valid log, then edits: whatever is read was written, in its order, and what was vouched for is never cut.
#![no_main]

use arbitrary::Arbitrary;
use foldlog::log::classify::{Hints, Place, classify};
use foldlog::log::control_frame::Control;
use foldlog::log::envelope::{Envelope, KeyKind, Preamble};
use foldlog::log::format::LAG_NONE;
use foldlog::log::frame::{FrameHeader, FrameKind, encode};
use foldlog::log::scan::{Position, segment};
use foldlog::log::{Revision, Seq};
use foldlog_fuzz::{header, salt};
use libfuzzer_sys::fuzz_target;

#[derive(Arbitrary, Debug)]
enum Write {
    Commit { lag: Option<u8>, bodies: Vec<u8> },
    Epoch(u64),
    Mark { lag: u8 },
    Gap(u32),
    Unknown(u8),
}

#[derive(Arbitrary, Debug)]
enum Edit {
    Flip { at: u16, pattern: u8 },
    Set { at: u16, word: u32 },
    Zero { at: u16, len: u16 },
    Copy { from: u16, to: u16, len: u16 },
    Cut { at: u16 },
    Extend { byte: u8, len: u8 },
}

#[derive(Arbitrary, Debug)]
struct Input {
    writes: Vec<Write>,
    edits: Vec<Edit>,
    durable_frames: u8,
}

struct Written {
    bytes: std::ops::Range<usize>,
    seq: u64,
    next: u64,
    vouches: u64,
}

fuzz_target!(|input: Input| {
    let (mut bytes, written) = write(&input.writes);
    let original = bytes.clone();
    for edit in input.edits.iter().take(8) {
        apply(edit, &mut bytes);
    }

    let (header, salt) = (header(), salt());
    let mut read = Vec::new();
    let summary = segment(&bytes, &header, &salt, |located| {
        let start = usize::try_from(located.offset).unwrap();
        read.push((located.frame.header.seq, start..start + located.frame.len()));
    });
    // The frames read are the first ones written, unchanged and in their places.
    assert!(read.len() <= written.len());
    for ((seq, range), written) in read.iter().zip(&written) {
        assert_eq!((*seq, range), (written.seq, &written.bytes));
        assert_eq!(bytes[range.clone()], original[range.clone()]);
    }
    // And all of them up to the first that was changed.
    let whole = |frame: &&Written| bytes.get(frame.bytes.clone()) == original.get(frame.bytes.clone());
    let unchanged = written.iter().take_while(whole).count();
    assert_eq!(read.len(), unchanged);

    let word = written.get(usize::from(input.durable_frames)).map(|frame| frame.bytes.end as u64);
    for durable_offset in [None, word] {
        let verdict = classify(&summary, Place::Last, Hints { vouched: 0, durable_offset });
        let expected = written[..unchanged].last().map_or(1, |frame| frame.next);
        assert_eq!(summary.end.seq, expected);
        let vouched = written.iter().filter(whole).map(|frame| frame.vouches).max().unwrap_or(0);
        let below = durable_offset.is_some_and(|durable| durable > summary.end.offset);
        if expected <= vouched || below {
            assert!(verdict.is_damage(), "{verdict}: {expected} is vouched for, up to {vouched}");
        }
        if verdict.is_damage() {
            assert!(unchanged < written.len(), "{verdict} although nothing is wrong");
        }
        if unchanged == written.len() && bytes.len() == original.len() {
            assert!(!verdict.is_torn());
        }
    }
});

fn write(writes: &[Write]) -> (Vec<u8>, Vec<Written>) {
    let (header, salt) = (header(), salt());
    let mut bytes = header.encode().to_vec();
    let mut at = Position::start_of(&header);
    let mut written = Vec::new();
    for write in writes.iter().take(24) {
        let (kind, count, lag, body) = frame(write, at.seq);
        let start = bytes.len();
        // A writer vouches for what it has seen durable, never for its own frame.
        let durable_lag = lag.map_or(LAG_NONE, |lag| 1 + u32::from(lag));
        let head = FrameHeader { seq: at.seq, link: at.link, kind, count, durable_lag, writer: 1 };
        let link = encode(&mut bytes, &salt, &head, &body);
        let next = match write {
            Write::Gap(n) => at.seq + u64::from(*n) + 1,
            _ => at.seq + u64::from(count),
        };
        let vouches = head.vouches_for().unwrap_or(0);
        written.push(Written { bytes: start..bytes.len(), seq: at.seq, next, vouches });
        at = Position { offset: bytes.len() as u64, seq: next, link };
    }
    (bytes, written)
}

fn frame(write: &Write, seq: u64) -> (FrameKind, u16, Option<u8>, Vec<u8>) {
    let mut body = Vec::new();
    match write {
        Write::Commit { lag, bodies } => {
            Preamble::default().encode(&mut body);
            let count = bodies.len().clamp(1, 4);
            for i in 0..count {
                let len = bodies.get(i).copied().unwrap_or(0);
                Envelope {
                    seq: Seq(seq),
                    takes: 1,
                    kind: 9,
                    version: 1,
                    ignorable: false,
                    key_kind: KeyKind::TASK,
                    key: "t",
                    revision: Revision(seq),
                    blobs: &[],
                    body: &vec![len; len.into()],
                }
                .encode(&mut body);
            }
            (FrameKind::COMMIT, count as u16, *lag, body)
        }
        // A cursor uses 0 for "before the first", so no epoch is 0.
        Write::Epoch(epoch) => control(&Control::Epoch { epoch: (*epoch).max(1) }, None),
        Write::Mark { lag } => control(&Control::Mark { time: 7 }, Some(*lag)),
        Write::Gap(n) => control(&Control::Gap { from: seq, to: seq + u64::from(*n) }, None),
        Write::Unknown(len) => {
            body.resize(usize::from(*len) + 1, *len);
            (FrameKind(0x8077), u16::from(*len) + 1, None, body)
        }
    }
}

fn control(control: &Control, lag: Option<u8>) -> (FrameKind, u16, Option<u8>, Vec<u8>) {
    let mut body = Vec::new();
    control.encode(&mut body);
    (control.kind(), 0, lag, body)
}

/// Edits reach the bytes behind the header only; the header has its own CRC and its own tests.
fn apply(edit: &Edit, bytes: &mut Vec<u8>) {
    let room = bytes.len() - 256;
    let place = |at: u16| 256 + usize::from(at) % room.max(1);
    match *edit {
        Edit::Extend { byte, len } => bytes.resize(bytes.len() + usize::from(len), byte),
        _ if room == 0 => {}
        Edit::Flip { at, pattern } => bytes[place(at)] ^= pattern,
        Edit::Set { at, word } => {
            for (to, from) in bytes[place(at)..].iter_mut().zip(word.to_le_bytes()) {
                *to = from;
            }
        }
        Edit::Zero { at, len } => {
            let from = place(at);
            let to = (from + usize::from(len)).min(bytes.len());
            bytes[from..to].fill(0);
        }
        Edit::Copy { from, to, len } => {
            let piece: Vec<u8> = bytes[place(from)..].iter().take(len.into()).copied().collect();
            for (to, from) in bytes[place(to)..].iter_mut().zip(piece) {
                *to = from;
            }
        }
        Edit::Cut { at } => bytes.truncate(place(at)),
    }
}
