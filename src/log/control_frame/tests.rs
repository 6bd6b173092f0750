use super::*;

fn all() -> Vec<(u64, Control)> {
    vec![
        (1, Control::Epoch { epoch: 0x0102_0304_0506_0708 }),
        (
            9,
            Control::Seal(Seal {
                next_segment_id: SegmentId(0x11),
                next_first_seq: 9,
                next_base_lpos: 0x22,
                segment_id: SegmentId(0x33),
                last_seq: 8,
                last_crc: 0,
            }),
        ),
        (9, Control::Mark { time: 1_700_000_000_000_000 }),
        (
            5,
            Control::RecoveryMark(RecoveryMark {
                at_lpos: 100,
                bytes: 48,
                frames: 2,
                first_seq: 5,
                verdict: 3,
                note: "0000000001-100-deadbeef.txt".into(),
            }),
        ),
        (7, Control::Gap { from: 7, to: 9 }),
    ]
}

fn body(control: &Control) -> Vec<u8> {
    let mut out = Vec::new();
    control.encode(&mut out);
    out
}

#[test]
fn every_kind_reads_back() {
    for (seq, control) in all() {
        assert_eq!(Control::decode(control.kind(), seq, &body(&control)), Some(control));
    }
}

#[test]
fn every_kind_has_its_number() {
    let kinds: Vec<u16> = all().iter().map(|(_, control)| control.kind().0).collect();
    assert_eq!(kinds, [0x4001, 0x4002, 0xC003, 0x4004, 0x4005]);
}

#[test]
fn fields_stand_in_the_order_of_the_format() {
    let lengths: Vec<usize> = all().iter().map(|(_, control)| body(control).len()).collect();
    assert_eq!(lengths, [8, 44, 8, 32 + 27, 16]);
    let seal = body(&all()[1].1);
    let longs: Vec<u64> =
        seal[..40].chunks(8).map(|chunk| u64::from_le_bytes(chunk.try_into().unwrap())).collect();
    assert_eq!(longs, [0x11, 9, 0x22, 0x33, 8]);
    let mark = body(&all()[3].1);
    assert_eq!(mark[..32], {
        let mut expected = [0; 32];
        expected[0] = 100;
        expected[8] = 48;
        expected[16] = 2;
        expected[20] = 5;
        expected[28] = 3;
        expected[30] = 27;
        expected
    });
}

#[test]
fn a_body_cut_anywhere_or_with_a_byte_too_many_is_refused() {
    for (seq, control) in all() {
        let mut bytes = body(&control);
        for len in 0..bytes.len() {
            assert_eq!(Control::decode(control.kind(), seq, &bytes[..len]), None, "{control:?} cut to {len}");
        }
        bytes.push(0);
        assert_eq!(Control::decode(control.kind(), seq, &bytes), None, "{control:?} and a byte more");
    }
}

#[test]
fn a_gap_starts_at_its_frame_and_ends_where_a_next_number_exists() {
    let gap = |seq, from: u64, to: u64| {
        let bytes = [from.to_le_bytes(), to.to_le_bytes()].concat();
        Control::decode(FrameKind::GAP, seq, &bytes).is_some()
    };
    assert!(gap(7, 7, 7) && gap(7, 7, u64::MAX - 1));
    assert!(!gap(7, 8, 9), "from is not the frame's seq");
    assert!(!gap(7, 7, 6), "it ends before it starts");
    assert!(!gap(7, 7, u64::MAX), "no number could follow");
}

#[test]
fn a_note_that_is_not_utf8_is_refused() {
    let (seq, control) = &all()[3];
    let mut bytes = body(control);
    bytes[32] = 0xFF;
    assert_eq!(Control::decode(control.kind(), *seq, &bytes), None);
}

#[test]
fn a_note_may_be_empty() {
    let mark =
        RecoveryMark { at_lpos: 0, bytes: 0, frames: 0, first_seq: 1, verdict: 2, note: String::new() };
    let control = Control::RecoveryMark(mark);
    assert_eq!(Control::decode(control.kind(), 1, &body(&control)), Some(control));
}

#[test]
fn other_kinds_are_not_control_frames() {
    for kind in [0, 1, 0x4000, 0x4003, 0x4006, 0xC001, 0xFFFF] {
        assert_eq!(Control::decode(FrameKind(kind), 1, &[0; 8]), None, "{kind:#x}");
    }
}
