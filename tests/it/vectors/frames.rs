//! Segments with a frame that is cut, torn, flipped, out of place or unknown.

use foldlog::log::control_frame::Control;
use foldlog::log::frame::{FrameHeader, FrameKind};
use foldlog::log::segment::{SegmentHeader, SegmentState};
use foldlog::log::{LogId, SegmentId};

use super::build::{HEADER, Seg, commit_body, event, header, mend, plain, vector};
use super::valid::{crc_zero_segment, seal};
use super::{Vector, Want};

/// Offset of the third frame of [`Seg::three`]; each frame is 80 bytes long, with a body of 43 and a pad of 5.
const THIRD: u64 = 256 + 160;
const T: usize = 256 + 160;

pub(super) fn vectors() -> Vec<Vector> {
    let mut all = cuts();
    all.extend(bits());
    all.extend(rules());
    all.extend(places());
    all.extend(behind());
    all
}

fn at_third(name: &str, bytes: Vec<u8>, code: &'static str) -> Vector {
    vector(name, bytes, Want::Refused { at: THIRD, code })
}

fn cuts() -> Vec<Vector> {
    let whole = Seg::three().bytes;
    let cut = |name: &str, len: usize| at_third(name, whole[..T + len].to_vec(), "short");
    let mut huge = Seg::three();
    huge.bytes[T..T + 4].copy_from_slice(&4096u32.to_le_bytes());
    let small = SegmentHeader { max_body: 64, ..header() };
    let over = commit_body(plain(), &[event(256, "t", 1, &[7; 65 - 17 - 20])]);
    let mut most = Seg::three();
    most.bytes[T..T + 4].copy_from_slice(&[255; 4]);
    vec![
        cut("frame-cut-after-1-byte", 1),
        cut("frame-cut-in-length", 3),
        cut("frame-cut-in-header", 31),
        cut("frame-cut-behind-header", 32),
        cut("frame-cut-in-body", 50),
        cut("frame-cut-in-pad", 79),
        at_third("frame-length-beyond-file", huge.bytes, "short"),
        Seg::with(small).frame(FrameKind::COMMIT, 1, &over).refused(
            "frame-length-over-max-body",
            HEADER,
            "length",
        ),
        at_third("frame-length-all-ones", most.bytes, "length"),
    ]
}

fn bits() -> Vec<Vector> {
    let whole = Seg::three().bytes;
    let flip = |name: &str, at: usize, bit: u8| {
        let mut bytes = whole.clone();
        bytes[T + at] ^= bit;
        at_third(name, bytes, "crc")
    };
    let torn = |name: &str, from: usize, to: usize, code| {
        let mut bytes = whole.clone();
        bytes[T + from..T + to].fill(0);
        at_third(name, bytes, code)
    };
    let mut zero_crc = crc_zero_segment();
    zero_crc.bytes[260..264].fill(0);
    let mut first = Seg::three();
    first.bytes[256 + 40] ^= 1;
    vec![
        flip("flip-in-length", 0, 8),
        flip("flip-in-crc", 7, 0x80),
        flip("flip-in-seq", 8, 1),
        flip("flip-in-link", 16, 1),
        flip("flip-in-kind", 20, 2),
        flip("flip-in-count", 22, 2),
        flip("flip-in-durable-lag", 24, 1),
        flip("flip-in-writer", 31, 1),
        flip("flip-in-body", 40, 4),
        flip("flip-in-pad", 79, 1),
        first.refused("flip-in-first-frame", HEADER, "crc"),
        torn("torn-body", 40, 80, "crc"),
        torn("torn-header-length-kept", 4, 32, "crc"),
        torn("torn-header-length-lost", 0, 8, "not-zero"),
        zero_crc.refused("crc-stored-as-zero", HEADER, "crc"),
    ]
}

fn rules() -> Vec<Vector> {
    let body = commit_body(plain(), &[event(256, "t", 3, b"sample")]);
    let made = |name: &str, change: fn(&mut FrameHeader)| {
        let mut seg = Seg::three();
        seg.bytes.truncate(T);
        (seg.seq, seg.link) = (3, u32::from_le_bytes(seg.bytes[340..344].try_into().unwrap()));
        let mut header = seg.frame_header(FrameKind::COMMIT, 1);
        change(&mut header);
        at_third(name, seg.raw(header, &body).bytes.clone(), "frame-rule")
    };
    let mut pad = Seg::three().bytes;
    pad[T + 79] = 1;
    mend(&mut pad[T..]);
    vec![
        at_third("pad-not-zero", pad, "frame-rule"),
        made("count-0", |h| h.count = 0),
        made("count-4097", |h| h.count = 4097),
        made("count-in-control-frame", |h| h.kind = FrameKind::MARK),
        made("count-in-unknown-ignorable-control-frame", |h| h.kind = FrameKind(0xFFFF)),
        made("event-numbers-overflow", |h| h.seq = u64::MAX),
    ]
}

fn places() -> Vec<Vector> {
    let mut link = Seg::three();
    link.link ^= 1;
    link.commit(plain(), &[event(256, "t", 4, b"")]);
    let stepped = |name: &str, seq: u64| {
        let mut seg = Seg::three();
        seg.seq = seq;
        seg.commit(plain(), &[event(256, "t", 4, b"")]).refused(name, 496, "seq")
    };
    let mut twice = Seg::three();
    let third = twice.bytes[T..].to_vec();
    twice.bytes.extend_from_slice(&third);
    // Another history of the same segment: cut at its second event, continued, and an old third frame left over.
    let mut stale = Seg::new();
    stale
        .commit(plain(), &[event(256, "t", 1, b"sample")])
        .commit(plain(), &[event(256, "t", 2, b"rewritten")]);
    let at = stale.end();
    stale.bytes.extend_from_slice(&third);
    let other = |name: &str, header: SegmentHeader| {
        let (mut seg, mut other) = (Seg::three(), Seg::with(header));
        (other.seq, other.link) = (seg.seq, seg.link);
        other.commit(plain(), &[event(256, "t", 4, b"")]);
        seg.bytes.extend_from_slice(&other.bytes[256..]);
        seg.refused(name, 496, "crc")
    };
    let mut gap = Seg::three();
    gap.control(&Control::Gap { from: 4, to: 9 });
    gap.seq = 4;
    gap.commit(plain(), &[event(256, "t", 4, b"")]);
    let unknown = |name: &str, kind: u16, count: u16| {
        Seg::three().frame(FrameKind(kind), count, b"x").refused(name, 496, "unknown-kind")
    };
    let mut start = header();
    start.prev_last_crc = 1;
    let mut first_link = Seg::with(start);
    first_link.link = 2;
    first_link.commit(plain(), &[event(256, "t", 1, b"")]);
    vec![
        link.refused("link-differs", 496, "link"),
        first_link.refused("link-of-first-frame-differs-from-header", HEADER, "link"),
        stepped("seq-skips-one", 5),
        stepped("seq-repeats", 3),
        twice.refused("same-frame-twice", 496, "link"),
        stale.refused("stale-frame", at, "link"),
        other("frame-of-another-log", SegmentHeader { log_id: LogId([9; 16]), ..header() }),
        other("frame-of-another-segment", SegmentHeader { segment_id: SegmentId(9), ..header() }),
        gap.refused("seq-behind-gap-not-skipped", 544, "seq"),
        unknown("unknown-frame-kind", 0x0002, 1),
        unknown("unknown-control-kind", 0x4006, 0),
    ]
}

fn behind() -> Vec<Vector> {
    let mut hole = Seg::three();
    hole.bytes[T..].fill(0);
    hole.commit(plain(), &[event(256, "t", 4, b"behind the hole")]);
    let mut far = Seg::three();
    far.zeros(1024).bytes.push(1);
    let mut sealed = Seg::three();
    sealed.control(&Control::Seal(seal(3, 0)));
    let mut rubbish = Seg::three();
    rubbish.control(&Control::Seal(seal(3, 0))).zeros(8).bytes.push(1);
    let prepared = SegmentHeader { state: SegmentState::Prepared, ..header() };
    vec![
        at_third("hole-then-valid-frame", hole.bytes, "not-zero"),
        far.refused("one-byte-far-behind", 496, "not-zero"),
        sealed.commit(plain(), &[event(256, "t", 4, b"")]).refused("frame-behind-seal", 576, "after-seal"),
        rubbish.refused("rubbish-behind-seal", 576, "after-seal"),
        Seg::with(prepared).commit(plain(), &[event(256, "t", 1, b"")]).refused(
            "frame-in-prepared-segment",
            HEADER,
            "not-zero",
        ),
    ]
}
