//! Segments that read to their end.

use foldlog::log::control_frame::{Control, RecoveryMark, Seal};
use foldlog::log::envelope::{Envelope, KeyKind, Preamble};
use foldlog::log::frame::{FrameKind, durable_lag};
use foldlog::log::segment::{SegmentHeader, SegmentState};
use foldlog::log::{Revision, SegmentId};

use super::Vector;
use super::build::{
    HEADER, SEGMENT, Seg, TIME, commit_body, elided, event, frame_crc, header, plain, with_operation,
};

pub(super) fn vectors() -> Vec<Vector> {
    let mut all = ends();
    all.extend(commits());
    all.extend(elisions());
    all.extend(controls());
    all.extend(segments());
    all
}

fn ends() -> Vec<Vector> {
    let (mut reserve, mut three) = (Seg::new(), Seg::three());
    reserve.zeros(4096);
    let end = three.end();
    vec![
        Seg::new().reads("empty-live", HEADER, "end", 0),
        reserve.reads("empty-live-with-reserve", HEADER, "zero", 0),
        Seg::new().commit(plain(), &[event(256, "task-1", 1, b"hello")]).reads("one-commit", 336, "end", 1),
        three.zeros(512).reads("three-commits-with-reserve", end, "zero", 3),
        Seg::three().zeros(1).reads("one-zero-byte-behind", end, "zero", 3),
        Seg::three().zeros(31).reads("less-than-a-header-of-zeros-behind", end, "zero", 3),
    ]
}

fn commits() -> Vec<Vector> {
    let kinds: Vec<_> = [(1, "t"), (2, "d"), (3, "/p"), (4, "s"), (9, "new"), (255, "x")]
        .map(|(kind, key)| Envelope { key_kind: KeyKind(kind), ..event(300, key, 1, b"k") })
        .into_iter()
        .chain([event(300, "", 0, b"no key")])
        .collect();
    let texts =
        ["\"quoted\\\"", "tab\tline\nreturn\r\u{8}\u{c}\u{0}\u{1f}", "\u{7f}", "/", "äöü→𝄞", "\u{2028}"];
    let texts: Vec<_> = texts.iter().map(|key| event(301, key, 1, b"")).collect();
    let names: Vec<u8> = (0..64).collect();
    let unknown = [
        Envelope { version: 255, ..event(65535, "t", 1, &[255; 3]) },
        Envelope { ignorable: true, version: 0, ..event(2, "t", 0, b"skip me") },
        Envelope { ignorable: true, blobs: &names, ..event(3, "t", 2, &[0, 0, 1, 0]) },
        Envelope { version: 2, ..event(1, "", 0, b"a later nothing") },
    ];
    let mut pads = Seg::new();
    for n in 0..8 {
        pads.commit(plain(), &[event(256, "t", n + 1, &b"1234567"[..usize::try_from(n).unwrap()])]);
    }
    let big = SegmentHeader { first_seq: (1 << 53) + 1, prev_last_seq: 1 << 53, ..header() };
    let big_times = Preamble { time: u64::MAX, session: u64::MAX, operation: None };
    let mut big = Seg::with(big);
    big.commit(big_times, &[event(256, "t", u64::MAX, b"")]);
    big.commit(Preamble { time: 0, ..plain() }, &[event(256, "t", (1 << 53) + 1, b"")]);
    let long = "k".repeat(65_535);
    vec![
        one(
            "several-events",
            plain(),
            &[event(256, "a", 1, b"1"), event(256, "b", 1, b""), event(257, "a", 2, b"3")],
        ),
        one("key-kinds", plain(), &kinds),
        one("key-texts", plain(), &texts),
        one("longest-key", plain(), &[event(256, &long, 1, b"")]),
        one("op-id-and-session", with_operation(), &[event(256, "t", 1, b"x")]),
        one("session-without-op-id", Preamble { session: 15, ..plain() }, &[event(256, "t", 1, b"x")]),
        one("nothing", with_operation(), &[event(1, "", 0, b"")]),
        one("nothing-about-a-task", with_operation(), &[event(1, "t", 0, b"")]),
        one("blobs", plain(), &[Envelope { blobs: &names, ..event(256, "t", 1, &[0, 1]) }]),
        one("unknown-event-kinds", plain(), &unknown),
        pads.reads("every-pad-length", pads.end(), "end", 8),
        big.reads("numbers-over-53-bits", big.end(), "end", 2),
        crc_zero("crc-would-be-zero"),
    ]
}

fn one(name: &str, preamble: Preamble, events: &[Envelope<'_>]) -> Vector {
    let mut seg = Seg::new();
    seg.commit(preamble, events);
    seg.reads(name, seg.end(), "end", events.len())
}

fn elisions() -> Vec<Vector> {
    let kept = Envelope { key_kind: KeyKind::TASK, key: "t", revision: Revision(1), ..elided(&[1, 0]) };
    let mut run = Seg::new();
    run.commit(Preamble::default(), &[elided(&[0, 16])]);
    run.commit(plain(), &[event(256, "t", 9, b"after 4096 numbers")]);
    vec![
        one("elided-one-of-two", plain(), &[elided(&[1, 0]), event(256, "t", 2, b"kept")]),
        one(
            "elided-run-between-events",
            plain(),
            &[event(256, "a", 1, b""), elided(&[7, 0]), event(256, "b", 1, b"")],
        ),
        one("elided-with-key-and-op-id", with_operation(), &[kept]),
        run.reads("merged-run-of-the-largest-count", run.end(), "end", 2),
    ]
}

pub(super) fn seal(last_seq: u64, last_crc: u32) -> Seal {
    Seal {
        next_segment_id: SegmentId(0x99AA_BBCC_DDEE_FF00),
        next_first_seq: last_seq + 1,
        next_base_lpos: 640,
        segment_id: SEGMENT,
        last_seq,
        last_crc,
    }
}

fn recovery_mark(note: &str) -> Control {
    let mark =
        RecoveryMark { at_lpos: 88, bytes: 176, frames: 2, first_seq: 2, verdict: 4, note: note.into() };
    Control::RecoveryMark(mark)
}

fn controls() -> Vec<Vector> {
    let mut every = Seg::new();
    every.control(&Control::Epoch { epoch: 0x0123_4567_89AB_CDEF });
    every.commit(plain(), &[event(256, "t", 1, b"one")]);
    every.lag = durable_lag(every.seq, 1);
    every.control(&Control::Mark { time: TIME + 1_000_000 });
    every.control(&recovery_mark("1122334455667788-0000000000000058-0102030405060708.note"));
    every.control(&Control::Gap { from: 2, to: 10 });
    every.commit(plain(), &[event(256, "t", 3, b"eleven")]);
    every.control(&Control::Seal(seal(11, 0)));
    let mut gaps = Seg::new();
    gaps.control(&Control::Gap { from: 1, to: 1 }).control(&Control::Gap { from: 2, to: 1 << 40 });
    gaps.commit(plain(), &[event(256, "t", 1, b"")]);
    let mut ignorable = Seg::three();
    ignorable.frame(FrameKind(0x8002), 3, b"three events that only a newer release reads");
    ignorable.commit(plain(), &[event(256, "t", 7, b"seven")]);
    let mut ignorable_control = Seg::three();
    ignorable_control.frame(FrameKind(0xFFFF), 0, b"x").commit(plain(), &[event(256, "t", 4, b"four")]);
    let mut early = Seg::three();
    early.control(&Control::Seal(seal(2, 0x0102_0304)));
    vec![
        every.reads("every-control-frame", every.end(), "sealed", 2),
        Seg::new().control(&Control::Epoch { epoch: 1 }).reads("epoch-only", 296, "end", 0),
        Seg::new().control(&recovery_mark("")).reads("recovery-mark-without-note", 320, "end", 0),
        gaps.reads("gaps", gaps.end(), "end", 1),
        ignorable.reads("ignorable-frame-kind-with-numbers", ignorable.end(), "end", 4),
        ignorable_control.reads("ignorable-control-kind", ignorable_control.end(), "end", 4),
        Seg::three().control(&Control::Seal(seal(3, 0))).zeros(256).reads(
            "sealed-with-reserve",
            576,
            "sealed",
            3,
        ),
        early.reads("seal-that-names-an-earlier-end", early.end(), "sealed", 3),
    ]
}

fn segments() -> Vec<Vector> {
    let next = SegmentHeader {
        segment_id: SegmentId(7),
        stands_for: SegmentId(7),
        ordinal_a: 2,
        ordinal_b: 2,
        first_seq: 1000,
        base_lpos: 8 << 20,
        prev_segment_id: SEGMENT,
        prev_last_seq: 999,
        prev_last_crc: 0xDEAD_BEEF,
        ..header()
    };
    let compacted = SegmentHeader {
        generation: 3,
        stands_for: SegmentId(0x0102_0304_0506_0708),
        ordinal_a: 4,
        ordinal_b: 9,
        horizon: 2000,
        ..next.clone()
    };
    let prepared =
        SegmentHeader { state: SegmentState::Prepared, first_seq: 0, ordinal_a: 2, ordinal_b: 2, ..header() };
    let small = SegmentHeader { max_body: 64, ..header() };
    let full = commit_body(plain(), &[event(256, "t", 1, &[7; 64 - 17 - 20])]);
    let mut prepared = Seg::with(prepared);
    vec![
        continued("second-segment", next.clone()),
        continued("compacted", compacted),
        continued("compat-bits", SegmentHeader { compat: 0x8000_0001, ..next.clone() }),
        continued("ro-compat-bits", SegmentHeader { ro_compat: 1, ..next }),
        prepared.reads("prepared", HEADER, "prepared", 0),
        prepared.zeros(1000).reads("prepared-with-zeros", HEADER, "prepared", 0),
        Seg::with(small).frame(FrameKind::COMMIT, 1, &full).reads(
            "body-of-the-largest-length",
            352,
            "end",
            1,
        ),
    ]
}

fn continued(name: &str, header: SegmentHeader) -> Vector {
    let mut seg = Seg::with(header);
    seg.lag = durable_lag(seg.seq, seg.seq - 1);
    seg.commit(plain(), &[event(256, "t", 1, b"a")]);
    seg.lag = 2;
    seg.commit(plain(), &[event(256, "t", 2, b"b"), event(256, "t", 3, b"c")]);
    seg.reads(name, seg.end(), "end", 3)
}

/// A commit whose checksum comes out as 0, so that FFFFFFFF is stored.
pub(super) fn crc_zero_segment() -> Seg {
    // CRC-32 is affine over GF(2): flipping bit i of the event's last four bytes always flips the same bits.
    let attempt = |tail: u32| {
        let mut seg = Seg::new();
        seg.commit(plain(), &[event(256, "t", 1, &[&b"1234567"[..], &tail.to_le_bytes()].concat())]);
        seg
    };
    let crc = |tail: u32| frame_crc(super::build::LOG, SEGMENT, &attempt(tail).bytes[256..]);
    let base = crc(0);
    let mut rows: Vec<(u32, u32)> = (0..32).map(|bit| (crc(1 << bit) ^ base, 1 << bit)).collect();
    let mut left = (base, 0);
    for bit in 0..32 {
        let pivot =
            rows.iter().position(|(effect, _)| effect >> bit & 1 == 1).expect("the map is one to one");
        let (effect, input) = rows.swap_remove(pivot);
        for row in rows.iter_mut().chain([&mut left]).filter(|(e, _)| e >> bit & 1 == 1) {
            *row = (row.0 ^ effect, row.1 ^ input);
        }
    }
    attempt(left.1)
}

fn crc_zero(name: &str) -> Vector {
    let seg = crc_zero_segment();
    assert_eq!(seg.bytes[260..264], [255; 4]);
    seg.reads(name, seg.end(), "end", 1)
}
