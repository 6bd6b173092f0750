use std::cell::Cell;

use super::*;
use crate::log::classify::{Hints, Place, Verdict, classify};
use crate::log::envelope::{Envelope, KeyKind, Preamble};
use crate::log::format::{LAG_NONE, MAX_BODY};
use crate::log::frame::tests::CRC_BYTES;
use crate::log::frame::{FrameHeader, encode};
use crate::log::segment::SegmentState;
use crate::log::{LogId, Revision, SegmentId, Seq};

fn header() -> SegmentHeader {
    SegmentHeader {
        state: SegmentState::Live,
        compat: 0,
        ro_compat: 0,
        incompat: 0,
        generation: 0,
        log_id: LogId([1; 16]),
        segment_id: SegmentId(2),
        stands_for: SegmentId(2),
        ordinal_a: 1,
        ordinal_b: 1,
        first_seq: 10,
        base_lpos: 0,
        prev_segment_id: SegmentId(0),
        prev_last_seq: 9,
        prev_last_crc: 0x77,
        max_body: MAX_BODY,
        horizon: 0,
        created: 0,
        writer_version: [0; 16],
    }
}

/// A segment that grows frame by frame, each in its place unless told otherwise.
struct Log {
    bytes: Vec<u8>,
    at: Position,
}

impl Log {
    fn new() -> Self {
        Log { bytes: header().encode().to_vec(), at: Position::start_of(&header()) }
    }

    fn put(&mut self, kind: FrameKind, count: u16, durable_lag: u32, body: &[u8]) -> u64 {
        let (at, Position { seq, link, .. }) = (self.at.offset, self.at);
        let header = FrameHeader { seq, link, kind, count, durable_lag, writer: 5 };
        let crc = encode(&mut self.bytes, &salt(), &header, body);
        self.at = Position { offset: self.bytes.len() as u64, seq: seq + u64::from(count), link: crc };
        at
    }

    fn commit(&mut self, events: u16, durable_lag: u32) -> u64 {
        let body = commit_body(events);
        self.put(FrameKind::COMMIT, events, durable_lag, &body)
    }

    fn control(&mut self, control: &Control, durable_lag: u32) -> u64 {
        let mut body = Vec::new();
        control.encode(&mut body);
        let at = self.put(control.kind(), 0, durable_lag, &body);
        if let Control::Gap { to, .. } = control {
            self.at.seq = to + 1;
        }
        at
    }

    fn scan(&self) -> Summary {
        segment(&self.bytes, &header(), &salt(), |_| {})
    }
}

fn salt() -> Salt {
    header().salt()
}

fn commit_body(events: u16) -> Vec<u8> {
    let mut body = Vec::new();
    Preamble::default().encode(&mut body);
    for _ in 0..events {
        Envelope {
            seq: Seq(0),
            takes: 1,
            kind: 2,
            version: 1,
            ignorable: false,
            key_kind: KeyKind::TASK,
            key: "t",
            revision: Revision(1),
            blobs: &[],
            body: b"12345",
        }
        .encode(&mut body);
    }
    body
}

fn seal() -> Seal {
    Seal {
        next_segment_id: SegmentId(3),
        next_first_seq: 13,
        next_base_lpos: 0,
        segment_id: SegmentId(2),
        last_seq: 12,
        last_crc: 0,
    }
}

#[test]
fn frames_come_out_in_order_with_what_they_hold() {
    let mut log = Log::new();
    log.control(&Control::Epoch { epoch: 1 }, LAG_NONE);
    log.commit(2, 1);
    log.put(FrameKind(0x8009), 3, LAG_NONE, b"from the future");
    log.control(&Control::Gap { from: 15, to: 1_000_000 }, LAG_NONE);
    log.commit(1, 5);
    log.control(&Control::Mark { time: 1 }, 1);
    let mut seen = Vec::new();
    let summary = segment(&log.bytes, &header(), &salt(), |located| {
        let what = match &located.content {
            Content::Commit(commit) => format!("commit of {}", commit.events().count()),
            Content::Control(control) => format!("{:x}", control.kind().0),
            Content::Ignored => "ignored".to_owned(),
        };
        seen.push((located.frame.header.seq, what));
    });
    let seen: Vec<(u64, &str)> = seen.iter().map(|(seq, what)| (*seq, what.as_str())).collect();
    assert_eq!(
        seen,
        [
            (10, "4001"),
            (10, "commit of 2"),
            (12, "ignored"),
            (15, "4005"),
            (1_000_001, "commit of 1"),
            (1_000_002, "c003"),
        ]
    );
    assert_eq!(summary.stop, Stop::NotAFrame(NotAFrame::End));
    assert_eq!((summary.end, summary.frames), (log.at, 6));
    assert_eq!(summary.vouched, 1_000_001);
}

#[test]
fn the_first_frame_links_to_the_segment_before() {
    let mut log = Log::new();
    log.at.link = 0x78;
    log.commit(1, 1);
    assert_eq!(log.scan().stop, Stop::Link { expected: 0x77, found: 0x78 });
}

#[test]
fn a_frame_with_another_link_or_number_does_not_belong() {
    let mut log = Log::new();
    log.commit(1, 1);
    let good = log.at;
    log.at.link ^= 1;
    log.commit(1, 1);
    assert_eq!(log.scan().stop, Stop::Link { expected: good.link, found: good.link ^ 1 });
    for seq in [good.seq - 1, good.seq + 1] {
        log.bytes.truncate(usize::try_from(good.offset).unwrap());
        log.at = Position { seq, ..good };
        log.commit(1, 1);
        assert_eq!(log.scan().stop, Stop::Seq { expected: good.seq, found: seq });
    }
}

#[test]
fn a_stop_stays() {
    let log = Log::new();
    let salt = salt();
    let mut scanner = Scanner::new(&log.bytes, 0, &salt, MAX_BODY, log.at);
    for _ in 0..3 {
        assert_eq!(scanner.next_frame().unwrap_err(), Stop::NotAFrame(NotAFrame::End));
        assert_eq!(scanner.position(), log.at);
    }
}

#[test]
fn a_seal_ends_the_segment_whatever_follows() {
    let mut log = Log::new();
    log.commit(3, 1);
    log.control(&Control::Seal(seal()), 1);
    let (end, link) = (log.at, log.at.link);
    log.commit(1, 1);
    let summary = log.scan();
    assert_eq!(summary.stop, Stop::Sealed { seal: seal(), crc: link });
    assert_eq!((summary.end, summary.frames, summary.beyond.frames), (end, 2, 0));
}

#[test]
fn bodies_that_break_the_format_stop_the_scan() {
    let stop = |kind, count, body: &[u8]| {
        let mut log = Log::new();
        log.put(kind, count, 1, body);
        log.scan().stop
    };
    assert!(matches!(stop(FrameKind::COMMIT, 1, b"\0no commit"), Stop::Body(_)));
    assert!(matches!(stop(FrameKind::COMMIT, 2, &commit_body(1)), Stop::Body(_)));
    assert!(matches!(stop(FrameKind::SEAL, 0, b"no seal"), Stop::Body(_)));
    assert!(
        matches!(stop(FrameKind::MARK, 0, b"no mark"), Stop::Body(_)),
        "known, so checked although ignorable"
    );
    let mut gap = Vec::new();
    Control::Gap { from: 11, to: 12 }.encode(&mut gap);
    assert!(matches!(stop(FrameKind::GAP, 0, &gap), Stop::Body(_)), "a Gap that does not start here");
}

#[test]
fn what_a_newer_release_wrote_is_named_unless_it_may_be_ignored() {
    let stop = |kind, count, body: &[u8]| {
        let mut log = Log::new();
        log.put(FrameKind(kind), count, 1, body);
        log.scan().stop
    };
    assert_eq!(stop(2, 1, b"x"), Stop::TooNew { what: "frame kind", number: 2 });
    assert_eq!(stop(0x4006, 0, b"x"), Stop::TooNew { what: "frame kind", number: 0x4006 });
    assert_eq!(stop(0xC006, 0, b"x"), Stop::NotAFrame(NotAFrame::End));
    assert_eq!(stop(0x8002, 1, b"x"), Stop::NotAFrame(NotAFrame::End));
    let mut flagged = commit_body(1);
    flagged[0] = 0x40;
    assert_eq!(stop(1, 1, &flagged), Stop::TooNew { what: "flag bits", number: 0x40 });
}

#[test]
fn a_scan_may_start_anywhere_in_a_part_of_the_file() {
    let mut log = Log::new();
    log.commit(1, 1);
    let middle = log.at;
    log.commit(2, 1);
    let salt = salt();
    for origin in [0, 256, middle.offset] {
        let part = &log.bytes[usize::try_from(origin).unwrap()..];
        let mut scanner = Scanner::new(part, origin, &salt, MAX_BODY, middle);
        assert_eq!(scanner.next_frame().unwrap().offset, middle.offset);
        assert_eq!(scanner.position(), log.at);
        let behind = beyond(part, origin, &salt, MAX_BODY, middle);
        assert_eq!(behind.first, Some((middle.offset, middle.seq)));
        assert_eq!((behind.frames, behind.frames_end), (1, log.at.offset));
    }
}

#[test]
fn frames_behind_a_hole_are_found_and_vouch() {
    let mut log = Log::new();
    log.commit(1, 1);
    let hole = log.commit(4, 1);
    let first = log.commit(1, 2);
    log.commit(1, LAG_NONE);
    log.control(&Control::Mark { time: 1 }, 2);
    let end = log.at.offset;
    log.bytes[usize::try_from(hole).unwrap() + 20] ^= 1;
    log.bytes.resize(log.bytes.len() + 100, 0);
    let Summary { end: at, beyond, .. } = log.scan();
    assert_eq!((at.offset, at.seq), (hole, 11));
    assert_eq!((beyond.frames, beyond.first, beyond.frames_end), (3, Some((first, 15)), end));
    assert_eq!(beyond.vouched, 15, "the Mark's word, the highest");
    assert!(beyond.content_end > end - 8 && beyond.content_end <= end);
    assert!(!beyond.cut_short);
}

#[test]
fn frames_from_before_the_number_expected_do_not_count_behind_the_end() {
    let mut log = Log::new();
    log.commit(5, 1);
    let end = log.at;
    log.bytes.resize(log.bytes.len() + 64, 0xEE);
    log.at.seq = 12;
    log.commit(1, 1);
    assert_eq!(log.scan().end, end);
    assert_eq!(log.scan().beyond.frames, 0);
}

#[test]
fn a_body_of_zeros_behind_a_hole_is_read_past_the_last_byte_of_content() {
    let mut log = Log::new();
    let hole = log.commit(1, LAG_NONE);
    log.put(FrameKind(0x8009), 1, 1, &[0; 40]);
    log.bytes[usize::try_from(hole).unwrap()] ^= 1;
    assert_eq!(log.scan().beyond.vouched, 10);
}

/// The resync scan took numbers for implausible that were further on than the bytes left could count. A Gap counts
/// further: damage to the Gap of a repaired file hid every frame behind it, and what they vouched for would have
/// been cut as a torn tail.
#[test]
fn frames_behind_a_damaged_gap_are_found() {
    for hole_is_gap in [true, false] {
        let mut log = Log::new();
        let before = log.commit(1, LAG_NONE);
        let gap = log.control(&Control::Gap { from: 11, to: 300_000 }, LAG_NONE);
        log.commit(1, 1);
        let hole = if hole_is_gap { gap } else { before };
        log.bytes[usize::try_from(hole).unwrap() + 33] ^= 1;
        assert_eq!(log.scan().beyond.vouched, 300_000, "hole in the gap itself: {hole_is_gap}");
    }
}

#[test]
fn numbers_out_of_all_reach_are_not_believed() {
    let mut log = Log::new();
    let hole = log.commit(1, LAG_NONE);
    log.at.seq += 2 << 40;
    log.commit(1, 1);
    log.bytes[usize::try_from(hole).unwrap()] ^= 1;
    assert_eq!(log.scan().beyond.frames, 0);
}

/// A buffer in which every multiple of 16 is the header of a frame at `seq` that would reach to the end.
fn plausible_everywhere(len: usize, seq: u64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(len);
    while bytes.len() < len {
        let rest = u32::try_from((len - bytes.len()).saturating_sub(32).min(MAX_BODY as usize)).unwrap();
        // Once body_len and CRC, and 16 bytes before that link, kind and count.
        bytes.extend_from_slice(&rest.to_le_bytes());
        bytes.extend_from_slice(&[1, 0, 1, 0]);
        bytes.extend_from_slice(&seq.to_le_bytes());
    }
    bytes
}

/// Work is counted in bytes that a CRC was computed over: a clock would only tell how fast this machine is today.
#[test]
fn a_buffer_of_plausible_headers_costs_no_more_than_the_bound() {
    let mut log = Log::new();
    let forged = plausible_everywhere(8 << 20, 10);
    let end = log.at;
    let candidates =
        (0..forged.len()).step_by(8).filter(|at| plausible(&forged[*at..], MAX_BODY, 10).is_some()).count();
    assert!(candidates > forged.len() / 20, "the forgery is good: {candidates} candidates");
    log.bytes.extend_from_slice(&forged);
    CRC_BYTES.with(|n| n.set(0));
    let found = beyond(&log.bytes, 0, &salt(), MAX_BODY, end);
    let work = CRC_BYTES.with(Cell::get);
    assert!(work > 8 << 20 && work <= CRC_BUDGET * (8 << 20), "CRCs over {work} bytes");
    assert!(found.cut_short && found.frames == 0);
}

/// Where the bound was met the scan stopped and said nothing, and frames behind that place could not vouch any more:
/// bytes that somebody chose could have what was acknowledged taken for a torn tail, and cut.
#[test]
fn a_forged_body_that_hides_the_frames_behind_it_is_told() {
    let mut log = Log::new();
    let hole = log.put(FrameKind(0x8009), 1, LAG_NONE, &plausible_everywhere(4 << 20, 10));
    log.commit(1, 1);
    log.control(&Control::Mark { time: 1 }, 1);
    log.bytes[usize::try_from(hole).unwrap() + 4] ^= 1;
    let summary = log.scan();
    assert!(summary.beyond.cut_short);
    assert_eq!(classify(&summary, Place::Last, Hints::default()), Verdict::Corrupt);
}

/// Seventeen candidates that reach to the end of 64 KiB are one more than the bound allows; the short frame behind
/// them still fits.
#[test]
fn a_candidate_that_no_longer_fits_is_passed_over_alone() {
    let mut log = Log::new();
    let mut body = plausible_everywhere(64 << 10, 10);
    body[17 * 16..].fill(0);
    let hole = log.put(FrameKind(0x8009), 1, LAG_NONE, &body);
    log.commit(1, 1);
    log.bytes[usize::try_from(hole).unwrap() + 4] ^= 1;
    let beyond = log.scan().beyond;
    assert!(beyond.cut_short);
    assert_eq!((beyond.frames, beyond.vouched), (1, 10));
}

#[test]
fn resync_goes_from_whole_frame_to_whole_frame() {
    let mut log = Log::new();
    let holes = [log.commit(1, 1), log.commit(1, 1)];
    let good = log.at;
    log.commit(1, 1);
    let hole = log.commit(1, 1);
    let last = log.at;
    log.commit(1, 1);
    for hole in [holes[0], holes[1], hole] {
        log.bytes[usize::try_from(hole).unwrap() + 33] ^= 1;
    }
    let mut budget = resync_budget(log.bytes.len());
    let mut next = |from| resync(&log.bytes, &salt(), MAX_BODY, from, &mut budget);
    assert_eq!(next(Position::start_of(&header())), Some(good));
    assert_eq!(next(Position { offset: good.offset + 8, ..good }), Some(last));
    assert_eq!(next(Position { seq: last.seq + 1, ..last }), None, "numbers from before do not count");
    assert_eq!(next(Position { offset: last.offset + 8, ..last }), None);
}

/// Each call had a bound of its own: frames that do not follow one another, with forged headers between them, made
/// the search over a damaged segment quadratic.
#[test]
fn a_whole_search_by_resync_costs_no_more_than_the_bound() {
    let mut log = Log::new();
    let start = log.at;
    for _ in 0..8 {
        log.bytes.extend_from_slice(&plausible_everywhere(1 << 20, 20));
        log.at.seq = 20;
        log.commit(1, 1);
    }
    let mut budget = resync_budget(log.bytes.len());
    CRC_BYTES.with(|n| n.set(0));
    let mut from = start;
    while let Some(found) = resync(&log.bytes, &salt(), MAX_BODY, from, &mut budget) {
        from = Position { offset: found.offset + 8, ..found };
    }
    let work = CRC_BYTES.with(Cell::get);
    assert!(work <= CRC_BUDGET * log.bytes.len(), "CRCs over {work} bytes");
}

#[test]
fn nothing_but_zeros_behind_the_end_is_no_content() {
    let mut log = Log::new();
    log.commit(1, 1);
    for zeros in [0, 1, 7, 8, 31, 32, 33, 8192] {
        log.bytes.resize(usize::try_from(log.at.offset).unwrap() + zeros, 0);
        let Summary { end, beyond, len, .. } = log.scan();
        assert_eq!(end, log.at);
        assert_eq!((beyond.content_end, beyond.frames), (end.offset, 0));
        assert_eq!(len, end.offset + zeros as u64);
    }
}

#[test]
fn is_zero_from_looks_at_the_rest_only() {
    assert!(is_zero_from(&[1, 0, 0], 1) && is_zero_from(&[1], 1) && is_zero_from(&[1], 99));
    assert!(!is_zero_from(&[1, 0, 2], 1));
}
