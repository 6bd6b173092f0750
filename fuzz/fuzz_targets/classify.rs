//! Any frames with any hints: no panic, a verdict always, and raising W never turns damage into torn.
#![no_main]

use arbitrary::Arbitrary;
use foldlog::log::classify::Hints;
use foldlog::log::control_frame::Seal;
use foldlog::log::frame::NotAFrame;
use foldlog::log::scan::{Beyond, Position, Stop, Summary, segment};
use foldlog::log::{LogId, SegmentId, control};
use libfuzzer_sys::fuzz_target;

/// A summary that no bytes need to exist for: every combination of its fields must have a verdict.
#[derive(Arbitrary, Debug)]
struct Made {
    end: u16,
    seq: u16,
    stop: u8,
    vouched: u64,
    beyond_vouched: u16,
    beyond_frames: u8,
    beyond_first: u16,
    content: u16,
    zeros: u16,
    cut_short: bool,
}

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    vouched: [u64; 3],
    durable: [Option<u64>; 3],
    word: u64,
    made: Made,
    data: &'a [u8],
}

fuzz_target!(|input: Input<'_>| {
    let log = LogId([0x10; 16]);
    if let Some(position) = control::position(log, input.word) {
        assert_eq!(control::position_word(log, position), input.word);
    }
    let mut hints: Vec<Hints> = input
        .vouched
        .iter()
        .zip(input.durable)
        .flat_map(|(vouched, durable)| {
            [*vouched, *vouched % 64].into_iter().flat_map(move |vouched| {
                [durable, durable.map(|d| d % 4096)].map(|durable_offset| Hints { vouched, durable_offset })
            })
        })
        .collect();
    hints.push(Hints { vouched: 0, durable_offset: control::position(log, input.word) });
    foldlog_fuzz::check_verdicts(&made(&input.made), &hints);

    let (header, bytes) = foldlog_fuzz::segment(input.data);
    let salt = header.salt();
    let summary = segment(&bytes, &header, &salt, |_| {});
    let end = summary.end;
    for vouched in [end.seq.saturating_sub(1), end.seq] {
        for durable_offset in [None, Some(end.offset), Some(end.offset + 1)] {
            hints.push(Hints { vouched, durable_offset });
        }
    }
    foldlog_fuzz::check_verdicts(&summary, &hints);
});

fn made(made: &Made) -> Summary {
    let end = Position { offset: made.end.into(), seq: made.seq.into(), link: 0 };
    let seal = Seal {
        next_segment_id: SegmentId(1),
        next_first_seq: end.seq,
        next_base_lpos: 0,
        segment_id: SegmentId(2),
        last_seq: 0,
        last_crc: 0,
    };
    let stop = match made.stop % 10 {
        0 => Stop::NotAFrame(NotAFrame::End),
        1 => Stop::NotAFrame(NotAFrame::Zero),
        2 => Stop::NotAFrame(NotAFrame::Short),
        3 => Stop::NotAFrame(NotAFrame::Length(u32::MAX)),
        4 => Stop::NotAFrame(NotAFrame::Crc { computed: 1, stored: 2 }),
        5 => Stop::NotAFrame(NotAFrame::Rule("rule")),
        6 => Stop::Link { expected: 1, found: 2 },
        7 => Stop::Body("rule"),
        8 => Stop::TooNew { what: "frame kind", number: 2 },
        _ => Stop::Sealed { seal, crc: 1 },
    };
    let content_end = end.offset + u64::from(made.content);
    let frames = u32::from(made.beyond_frames);
    Summary {
        end,
        stop,
        frames: 1,
        vouched: made.vouched,
        beyond: Beyond {
            frames,
            first: (frames > 0).then(|| (end.offset + u64::from(made.beyond_first), end.seq)),
            frames_end: content_end,
            vouched: made.beyond_vouched.into(),
            content_end,
            cut_short: made.cut_short,
        },
        len: content_end + u64::from(made.zeros),
    }
}
