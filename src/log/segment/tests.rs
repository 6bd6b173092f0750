use super::*;
use crate::log::format::MAX_BODY;

fn header() -> SegmentHeader {
    SegmentHeader {
        state: SegmentState::Live,
        compat: 0x0102_0304,
        ro_compat: 0x1112_1314,
        incompat: 0,
        generation: 3,
        log_id: LogId(*b"0123456789abcdef"),
        segment_id: SegmentId(0x2122_2324_2526_2728),
        stands_for: SegmentId(0x3132_3334_3536_3738),
        ordinal_a: 41,
        ordinal_b: 44,
        first_seq: 0x5152_5354_5556_5758,
        base_lpos: 0x6162_6364_6566_6768,
        prev_segment_id: SegmentId(0x7172_7374_7576_7778),
        prev_last_seq: 0x8182_8384_8586_8788,
        prev_last_crc: 0x9192_9394,
        max_body: MAX_BODY,
        horizon: 0xA1A2_A3A4_A5A6_A7A8,
        created: 0xB1B2_B3B4_B5B6_B7B8,
        writer_version: *b"foldlog 0.1.0\0\0\0",
    }
}

/// The header's bytes with some of them replaced and the CRC made to check again.
fn edited(at: usize, bytes: &[u8]) -> [u8; HEADER_LEN] {
    let mut out = header().encode();
    put(&mut out, at, bytes);
    let crc = crc32fast::hash(&out[..SEGMENT_CRC_AT]);
    put(&mut out, SEGMENT_CRC_AT, &crc.to_le_bytes());
    out
}

#[test]
fn every_field_stands_where_the_format_says() {
    let (h, out) = (header(), header().encode());
    let word = |at: usize| u32::from_le_bytes(out[at..at + 4].try_into().unwrap());
    let long = |at: usize| u64::from_le_bytes(out[at..at + 8].try_into().unwrap());
    assert_eq!(out[..8], [0x89, b'F', b'L', b'G', 13, 10, 26, 10]);
    assert_eq!(word(8), 256 | 1 << 16, "header_len, format");
    assert_eq!(word(12), 2, "state and 0");
    assert_eq!([word(16), word(20), word(24), word(28)], [h.compat, h.ro_compat, 0, 3]);
    assert_eq!(out[32..48], h.log_id.0);
    assert_eq!([long(48), long(56)], [h.segment_id.0, h.stands_for.0]);
    assert_eq!([long(64), long(72), long(80), long(88)], [41, 44, h.first_seq, h.base_lpos]);
    assert_eq!([long(96), long(104)], [h.prev_segment_id.0, h.prev_last_seq]);
    assert_eq!([word(112), word(116)], [h.prev_last_crc, MAX_BODY]);
    assert_eq!([long(120), long(128)], [h.horizon, h.created]);
    assert_eq!(out[136..152], h.writer_version);
    assert!(out[152..252].iter().all(|b| *b == 0));
    assert_eq!(word(252), crc32fast::hash(&out[..252]));
}

#[test]
fn header_reads_back() {
    let prepared = SegmentHeader { state: SegmentState::Prepared, first_seq: 0, ..header() };
    for header in [header(), prepared] {
        assert_eq!(SegmentHeader::decode(&header.encode()), Ok(header));
    }
}

#[test]
fn every_flipped_bit_of_a_header_is_seen() {
    let good = header().encode();
    for bit in 0..HEADER_LEN * 8 {
        let mut bytes = good;
        bytes[bit / 8] ^= 1 << (bit % 8);
        let found = SegmentHeader::decode(&bytes);
        match bit / 8 {
            0..8 => assert_eq!(found, Err(BadHeader::Magic)),
            10..12 => assert!(matches!(found, Err(BadHeader::Format(_)))),
            _ => assert!(matches!(found, Err(BadHeader::Crc { .. })), "bit {bit}: {found:?}"),
        }
    }
}

#[test]
fn a_header_cut_anywhere_is_short() {
    let good = header().encode();
    for len in 0..HEADER_LEN {
        assert_eq!(SegmentHeader::decode(&good[..len]), Err(BadHeader::Short), "{len}");
    }
}

/// A copy in text mode turns `0D 0A` into `0A`; the magic is made to show it, as PNG's is.
#[test]
fn a_text_mode_copy_is_told_apart() {
    let mut bytes = header().encode().to_vec();
    bytes.remove(4);
    bytes.push(0);
    assert_eq!(SegmentHeader::decode(&bytes), Err(BadHeader::Magic));
}

#[test]
fn rules_hold_even_if_the_crc_checks() {
    let rule = |at, bytes: &[u8]| match SegmentHeader::decode(&edited(at, bytes)) {
        Err(BadHeader::Rule(rule)) => rule,
        other => panic!("at {at}: {other:?}"),
    };
    assert_eq!(rule(8, &[255, 0]), "header_len is not 256");
    for state in [0u16, 3, u16::MAX] {
        assert_eq!(rule(12, &state.to_le_bytes()), "unknown state");
    }
    assert_eq!(rule(14, &[1, 0]), "reserved bytes are not zero");
    assert_eq!(rule(152, &[1]), "reserved bytes are not zero");
    assert_eq!(rule(251, &[1]), "reserved bytes are not zero");
    for max_body in [0, MAX_BODY_CAP + 1, u32::MAX] {
        assert_eq!(rule(116, &max_body.to_le_bytes()), "max_body out of range");
    }
    assert_eq!(rule(64, &0u64.to_le_bytes()), "ordinals out of range");
    assert_eq!(rule(64, &45u64.to_le_bytes()), "ordinals out of range");
    assert_eq!(rule(80, &0u64.to_le_bytes()), "first_seq is 0");
}

#[test]
fn the_largest_bodies_are_allowed() {
    for max_body in [1, MAX_BODY_CAP] {
        let found = SegmentHeader::decode(&edited(116, &max_body.to_le_bytes())).unwrap();
        assert_eq!(found.max_body, max_body);
    }
}

#[test]
fn newer_formats_and_features_are_named() {
    for format in [0u16, 2, u16::MAX] {
        // Where a newer format keeps its CRC is not ours to know.
        let mut bytes = header().encode();
        put(&mut bytes, 10, &format.to_le_bytes());
        assert_eq!(SegmentHeader::decode(&bytes), Err(BadHeader::Format(format)));
    }
    assert_eq!(SegmentHeader::decode(&edited(24, &[1, 0, 0, 0x80])), Err(BadHeader::Incompat(0x8000_0001)));
    assert!(
        SegmentHeader::decode(&edited(16, &[0xFF; 8])).is_ok(),
        "compat and ro_compat bits bar no reader"
    );
}

#[test]
fn lpos_and_offset_are_each_others_inverse() {
    let header = SegmentHeader { base_lpos: 1000, ..header() };
    assert_eq!((header.lpos(256), header.offset(1000)), (1000, 256));
    assert_eq!((header.lpos(296), header.offset(1040)), (1040, 296));
}

/// An lpos is a number from disk. One near the end of its range made `offset` overflow.
#[test]
fn no_lpos_or_offset_overflows() {
    let header = SegmentHeader { base_lpos: 0, ..header() };
    assert_eq!(header.offset(u64::MAX), u64::MAX);
    assert_eq!(SegmentHeader { base_lpos: u64::MAX, ..header }.lpos(u64::MAX), u64::MAX);
}

#[test]
fn names_read_back() {
    let names = [
        (1, 1, 0, 0, "0000000001-0000000001-g0-0000000000000000.seg"),
        (41, 44, 3, 0x2122_2324_2526_2728, "0000000041-0000000044-g3-2122232425262728.seg"),
        (
            u64::MAX,
            u64::MAX,
            u32::MAX,
            u64::MAX,
            "18446744073709551615-18446744073709551615-g4294967295-ffffffffffffffff.seg",
        ),
    ];
    for (ordinal_a, ordinal_b, generation, id, text) in names {
        let name = SegmentName { ordinal_a, ordinal_b, generation, id: SegmentId(id) };
        assert_eq!(name.to_string(), text);
        assert_eq!(SegmentName::parse(text), Some(name));
    }
    assert_eq!(header().file_name().to_string(), "0000000041-0000000044-g3-2122232425262728.seg");
}

#[test]
fn other_spellings_of_a_name_are_refused() {
    for name in [
        "",
        ".seg",
        "0000000001-0000000001-g0-0000000000000000",
        "0000000001-0000000001-g0-0000000000000000.SEG",
        "0000000001-0000000001-g0-0000000000000000.seg.tmp",
        "0000000001-0000000001-g0-0000000000000000 .seg",
        "1-1-g0-0000000000000000.seg",
        "00000000001-0000000001-g0-0000000000000000.seg",
        "+000000001-0000000001-g0-0000000000000000.seg",
        "-000000001-0000000001-g0-0000000000000000.seg",
        "0000000001-0000000001-0-0000000000000000.seg",
        "0000000001-0000000001-g00-0000000000000000.seg",
        "0000000001-0000000001-g+0-0000000000000000.seg",
        "0000000001-0000000001-G0-0000000000000000.seg",
        "0000000001-0000000001-g0-000000000000000.seg",
        "0000000001-0000000001-g0-00000000000000000.seg",
        "0000000001-0000000001-g0-00000000000000AB.seg",
        "0000000001-0000000001-g0-+00000000000000a.seg",
        "0000000001-0000000001-g4294967296-0000000000000000.seg",
        "18446744073709551616-0000000001-g0-0000000000000000.seg",
        "0000000001-0000000001-g0-0000000000000000-1.seg",
        "0000000001-0000000001-g0.seg",
        "000000000\u{661}-0000000001-g0-0000000000000000.seg",
    ] {
        assert_eq!(SegmentName::parse(name), None, "{name}");
    }
}

#[test]
fn names_sort_as_segments_follow() {
    let of = |text| SegmentName::parse(text).unwrap();
    let first = of("0000000002-0000000002-g0-ffffffffffffffff.seg");
    let second = of("0000000010-0000000010-g0-0000000000000000.seg");
    let later = of("10000000000-10000000000-g0-0000000000000000.seg");
    assert!(first < second && second < later);
}
