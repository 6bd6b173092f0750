use std::cell::Cell;

use super::*;
use crate::log::format::{MAX_BODY, MAX_BODY_CAP};

thread_local! {
    /// Bytes that CRCs were computed over on this thread: work, counted rather than timed.
    pub(crate) static CRC_BYTES: Cell<usize> = const { Cell::new(0) };
}

const HEADER: FrameHeader =
    FrameHeader { seq: 7, link: 0xAABB_CCDD, kind: FrameKind::COMMIT, count: 2, durable_lag: 3, writer: 9 };

fn salt() -> Salt {
    Salt::new(LogId([7; 16]), SegmentId(0x1122_3344_5566_7788))
}

fn frame(header: FrameHeader, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    encode(&mut out, &salt(), &header, body);
    out
}

/// Puts a CRC that checks over whatever the bytes now say.
fn seal_crc(bytes: &mut [u8]) {
    let crc = salt().crc(bytes);
    put(bytes, 4, &crc.to_le_bytes());
}

fn read(bytes: &[u8]) -> Result<Frame<'_>, NotAFrame> {
    decode(bytes, &salt(), MAX_BODY)
}

#[test]
fn every_field_stands_where_the_format_says() {
    let bytes = frame(HEADER, b"hello");
    assert_eq!(bytes.len(), 40);
    assert_eq!(bytes[0..4], 5u32.to_le_bytes());
    assert_eq!(bytes[8..16], 7u64.to_le_bytes());
    assert_eq!(bytes[16..20], 0xAABB_CCDDu32.to_le_bytes());
    assert_eq!(bytes[20..22], 1u16.to_le_bytes());
    assert_eq!(bytes[22..24], 2u16.to_le_bytes());
    assert_eq!(bytes[24..28], 3u32.to_le_bytes());
    assert_eq!(bytes[28..32], 9u32.to_le_bytes());
    assert_eq!(&bytes[32..], b"hello\0\0\0");
}

#[test]
fn crc_is_over_salt_header_without_crc_body_and_pad() {
    let bytes = frame(HEADER, b"hello");
    let mut covered = vec![7; 16];
    covered.extend_from_slice(&0x1122_3344_5566_7788u64.to_le_bytes());
    covered.extend_from_slice(&bytes[..4]);
    covered.extend_from_slice(&bytes[8..]);
    assert_eq!(bytes[4..8], crc32fast::hash(&covered).to_le_bytes());
}

#[test]
fn every_length_reads_back_and_ends_on_a_multiple_of_8() {
    for len in (1..=70).chain([4095, 4096, 4097, 65_535, 65_536, 65_537, 1 << 20, MAX_BODY as usize]) {
        let body: Vec<u8> = (1..=255).cycle().step_by(7).take(len).collect();
        let bytes = frame(HEADER, &body);
        assert_eq!(bytes.len() % 8, 0);
        assert_eq!(bytes.len(), frame_len(len));
        let found = read(&bytes).unwrap();
        assert_eq!((found.header, found.body, found.len()), (HEADER, &body[..], bytes.len()));
        assert_eq!(found.crc.to_le_bytes(), bytes[4..8]);
    }
}

#[test]
fn bytes_behind_a_frame_are_not_looked_at() {
    let mut bytes = frame(HEADER, b"hello");
    let alone = bytes.clone();
    bytes.extend_from_slice(&[0xEE; 100]);
    assert_eq!(read(&bytes), read(&alone));
}

#[test]
fn frames_follow_one_another_in_one_buffer() {
    let mut out = frame(HEADER, b"first");
    let at = out.len();
    let crc =
        encode_with(&mut out, &salt(), &FrameHeader { seq: 9, ..HEADER }, |out| out.extend(b"second one"));
    let second = read(&out[at..]).unwrap();
    assert_eq!((second.header.seq, second.body, second.crc), (9, &b"second one"[..], crc));
    assert_eq!(read(&out).unwrap().body, b"first");
}

#[test]
fn the_end_of_the_bytes_is_no_frame() {
    assert_eq!(read(&[]), Err(NotAFrame::End));
}

#[test]
fn fewer_bytes_than_a_header_are_zero_or_short() {
    for len in 1..FRAME_HEADER_LEN {
        let mut bytes = vec![0; len];
        assert_eq!(read(&bytes), Err(NotAFrame::Zero), "{len}");
        bytes[len - 1] = 1;
        assert_eq!(read(&bytes), Err(NotAFrame::Short), "{len}");
    }
}

#[test]
fn length_0_ends_the_log_whatever_follows() {
    let mut bytes = frame(HEADER, b"hello");
    put(&mut bytes, 0, &[0; 4]);
    assert_eq!(read(&bytes), Err(NotAFrame::Zero));
    assert_eq!(read(&[0; 64]), Err(NotAFrame::Zero));
}

#[test]
fn length_over_max_body_is_refused_before_anything_else() {
    let mut bytes = frame(HEADER, b"hello");
    for len in [MAX_BODY + 1, MAX_BODY_CAP, 0x7FFF_FFFF, u32::MAX] {
        put(&mut bytes, 0, &len.to_le_bytes());
        assert_eq!(read(&bytes), Err(NotAFrame::Length(len)));
    }
    put(&mut bytes, 0, &MAX_BODY.to_le_bytes());
    assert_eq!(read(&bytes), Err(NotAFrame::Short));
}

#[test]
fn max_body_is_the_callers() {
    let bytes = frame(HEADER, b"hello");
    assert!(decode(&bytes, &salt(), 5).is_ok());
    assert_eq!(decode(&bytes, &salt(), 4), Err(NotAFrame::Length(5)));
}

#[test]
fn every_cut_inside_a_frame_is_short() {
    let bytes = frame(HEADER, b"hello, this has a pad");
    for len in 1..bytes.len() {
        assert_eq!(read(&bytes[..len]), Err(NotAFrame::Short), "cut to {len}");
    }
}

#[test]
fn a_pad_that_is_cut_off_is_short() {
    let bytes = frame(HEADER, b"1");
    assert_eq!(read(&bytes[..33]), Err(NotAFrame::Short));
}

#[test]
fn every_flipped_bit_is_seen() {
    let good = frame(HEADER, b"hello");
    for bit in 0..good.len() * 8 {
        let mut bytes = good.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert!(read(&bytes).is_err(), "bit {bit}");
    }
}

/// A CRC that leaves the length out takes `hello` for `hello\0`: the pad is zeros, so all bytes it covers are the same.
#[test]
fn a_length_that_moves_within_the_pad_is_seen() {
    let mut bytes = frame(HEADER, b"hello");
    put(&mut bytes, 0, &6u32.to_le_bytes());
    assert!(matches!(read(&bytes), Err(NotAFrame::Crc { .. })));
}

#[test]
fn another_log_or_segment_never_checks() {
    let bytes = frame(HEADER, b"hello");
    for other in [
        Salt::new(LogId([8; 16]), SegmentId(0x1122_3344_5566_7788)),
        Salt::new(LogId([7; 16]), SegmentId(0x1122_3344_5566_7789)),
    ] {
        assert!(matches!(decode(&bytes, &other, MAX_BODY), Err(NotAFrame::Crc { .. })));
    }
}

/// Solves for the 4 bytes of `writer` that make the CRC's register 0, then sees it stored as all ones.
#[test]
fn crc_0_is_stored_as_all_ones() {
    let mut bytes = frame(FrameHeader { writer: 0, ..HEADER }, b"hello");
    // A CRC is affine in its input: crc(w) = crc(0) ^ columns·w. Gauss over the 32 bits of `writer`.
    let crc_with = |bytes: &mut [u8], writer: u32| {
        put(bytes, 28, &writer.to_le_bytes());
        let mut hasher = salt().0;
        hasher.update(&bytes[..4]);
        hasher.update(&bytes[8..]);
        hasher.finalize()
    };
    let base = crc_with(&mut bytes, 0);
    let mut rows: Vec<(u32, u32)> = Vec::new();
    for bit in 0..32 {
        let (mut column, mut mask) = (crc_with(&mut bytes, 1 << bit) ^ base, 1u32 << bit);
        for (c, m) in &rows {
            if column ^ c < column {
                (column, mask) = (column ^ c, mask ^ m);
            }
        }
        if column != 0 {
            rows.push((column, mask));
            rows.sort_by_key(|row| std::cmp::Reverse(row.0));
        }
    }
    let (mut rest, mut writer) = (base, 0);
    for (c, m) in &rows {
        if rest ^ c < rest {
            (rest, writer) = (rest ^ c, writer ^ m);
        }
    }
    assert_eq!((rest, crc_with(&mut bytes, writer)), (0, 0), "the solution makes the plain CRC 0");

    let mut bytes = Vec::new();
    let crc = encode(&mut bytes, &salt(), &FrameHeader { writer, ..HEADER }, b"hello");
    assert_eq!((crc, &bytes[4..8]), (u32::MAX, &[0xFF; 4][..]));
    assert_eq!(read(&bytes).unwrap().crc, u32::MAX);
    put(&mut bytes, 4, &[0; 4]);
    assert_eq!(read(&bytes), Err(NotAFrame::Crc { computed: u32::MAX, stored: 0 }));
}

#[test]
fn a_pad_that_is_not_zero_breaks_the_rules_even_if_the_crc_checks() {
    for at in 37..40 {
        let mut bytes = frame(HEADER, b"hello");
        bytes[at] = 1;
        seal_crc(&mut bytes);
        assert_eq!(read(&bytes), Err(NotAFrame::Rule("pad is not zero")), "pad byte {at}");
    }
}

#[test]
fn counts_are_1_to_4096_and_0_in_control_frames() {
    let of = |kind, count| {
        let mut bytes = frame(HEADER, b"hello");
        put(&mut bytes, 20, &u16::to_le_bytes(kind));
        put(&mut bytes, 22, &u16::to_le_bytes(count));
        seal_crc(&mut bytes);
        read(&bytes).map(|frame| frame.header.count)
    };
    for count in [1, 2, 4095, 4096] {
        assert_eq!(of(1, count), Ok(count));
        assert_eq!(of(0x8002, count), Ok(count), "an unknown ignorable kind takes numbers too");
        assert!(matches!(of(0x4001, count), Err(NotAFrame::Rule(_))));
        assert!(matches!(of(0xC003, count), Err(NotAFrame::Rule(_))));
    }
    for count in [0, 4097, u16::MAX] {
        assert!(matches!(of(1, count), Err(NotAFrame::Rule(_))), "{count}");
    }
    assert_eq!(of(0x4001, 0), Ok(0));
    assert_eq!(of(0xC003, 0), Ok(0));
}

#[test]
fn event_numbers_that_overflow_break_the_rules() {
    let of = |seq, count| read(&frame(FrameHeader { seq, count, ..HEADER }, b"x")).map(|f| f.header.seq);
    assert_eq!(of(u64::MAX - 2, 2), Ok(u64::MAX - 2));
    assert_eq!(of(u64::MAX - 1, 2), Err(NotAFrame::Rule("event numbers overflow")));
    assert_eq!(of(u64::MAX, 1), Err(NotAFrame::Rule("event numbers overflow")));
}

#[test]
fn kinds_know_their_bits() {
    for kind in [FrameKind::EPOCH, FrameKind::SEAL, FrameKind::RECOVERY_MARK, FrameKind::GAP] {
        assert!(kind.is_known() && kind.is_control() && !kind.is_ignorable(), "{kind:?}");
    }
    assert!(FrameKind::MARK.is_known() && FrameKind::MARK.is_control() && FrameKind::MARK.is_ignorable());
    assert!(
        FrameKind::COMMIT.is_known() && !FrameKind::COMMIT.is_control() && !FrameKind::COMMIT.is_ignorable()
    );
    assert!(!FrameKind(0x8001).is_known() && FrameKind(0x8001).is_ignorable());
}

#[test]
fn a_lag_tells_what_a_frame_vouches_for() {
    let vouches = |seq, durable_lag| FrameHeader { seq, durable_lag, ..HEADER }.vouches_for();
    assert_eq!(vouches(10, 1), Some(9));
    assert_eq!(vouches(10, 10), Some(0));
    assert_eq!(vouches(10, 11), Some(0), "a lag beyond the first event vouches for none");
    assert_eq!(vouches(10, LAG_NONE), None);
    assert_eq!(vouches(u64::MAX, LAG_NONE - 1), Some(u64::MAX - u64::from(LAG_NONE) + 1));
}

#[test]
fn a_lag_too_large_for_its_field_vouches_for_nothing() {
    assert_eq!(durable_lag(10, 9), 1);
    assert_eq!(durable_lag(10, 0), 10);
    assert_eq!(durable_lag(u64::from(u32::MAX) - 1, 0), LAG_NONE - 1);
    assert_eq!(durable_lag(u64::from(u32::MAX), 0), LAG_NONE);
    assert_eq!(durable_lag(u64::MAX, 0), LAG_NONE);
}
