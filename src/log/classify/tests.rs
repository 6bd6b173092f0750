use super::*;
use crate::log::SegmentId;
use crate::log::control_frame::Seal;
use crate::log::scan::{Beyond, Position};

const END: u64 = 1000;
const N: u64 = 50;
const SHORT: Stop = Stop::NotAFrame(NotAFrame::Short);
const CRC: Stop = Stop::NotAFrame(NotAFrame::Crc { computed: 1, stored: 2 });
const ZERO: Stop = Stop::NotAFrame(NotAFrame::Zero);
const EOF: Stop = Stop::NotAFrame(NotAFrame::End);
const LINK: Stop = Stop::Link { expected: 1, found: 2 };
const SEQ: Stop = Stop::Seq { expected: N, found: 51 };
const BODY: Stop = Stop::Body("wrong");
const RULE: Stop = Stop::NotAFrame(NotAFrame::Rule("wrong"));
const TOO_NEW: Stop = Stop::TooNew { what: "frame kind", number: 2 };
const SEALED: Stop = Stop::Sealed {
    seal: Seal {
        next_segment_id: SegmentId(3),
        next_first_seq: N,
        next_base_lpos: 0,
        segment_id: SegmentId(2),
        last_seq: N - 1,
        last_crc: 0,
    },
    crc: 9,
};
const FITS: Place = Place::Earlier { successor_fits: true };
const MISFIT: Place = Place::Earlier { successor_fits: false };
const STOPS: [Stop; 11] = [
    SHORT,
    CRC,
    ZERO,
    EOF,
    LINK,
    SEQ,
    BODY,
    RULE,
    TOO_NEW,
    SEALED,
    Stop::NotAFrame(NotAFrame::Length(u32::MAX)),
];
const PLACES: [Place; 4] = [Place::Last, FITS, MISFIT, Place::SuccessorMissing];

/// Frames end at END with N expected, vouched up to N − 1; nothing lies behind.
fn scan(stop: Stop) -> Summary {
    Summary {
        end: Position { offset: END, seq: N, link: 0 },
        stop,
        frames: 3,
        vouched: N - 1,
        beyond: Beyond { content_end: END, frames_end: END, ..Beyond::default() },
        len: END,
    }
}

/// The same with bytes behind the end.
fn with_rest(stop: Stop) -> Summary {
    let clean = scan(stop);
    Summary { beyond: Beyond { content_end: END + 40, ..clean.beyond }, len: END + 64, ..clean }
}

/// The same with a whole frame behind the end, `gap` bytes on, that vouches for `vouched`.
fn with_frame(stop: Stop, gap: u64, vouched: u64) -> Summary {
    let rest = with_rest(stop);
    let beyond = Beyond { frames: 1, first: Some((END + gap, N + 3)), vouched, ..rest.beyond };
    Summary { beyond, ..rest }
}

fn last(scan: &Summary) -> Verdict {
    classify(scan, Place::Last, Hints::default())
}

fn durable(offset: u64) -> Hints {
    Hints { vouched: 0, durable_offset: Some(offset) }
}

#[test]
fn a_log_that_ends_with_its_last_frame_is_clean() {
    assert_eq!(last(&scan(EOF)), Verdict::CleanEnd);
}

#[test]
fn only_zeros_behind_the_end_are_a_nul_tail() {
    assert_eq!(last(&Summary { len: END + 1, ..scan(ZERO) }), Verdict::NulTail);
    assert_eq!(last(&Summary { len: END + 8192, ..scan(ZERO) }), Verdict::NulTail);
}

#[test]
fn bytes_that_nothing_vouches_for_are_torn() {
    assert_eq!(last(&with_rest(SHORT)), Verdict::ShortFrame);
    assert_eq!(last(&with_rest(CRC)), Verdict::TornFrame);
    assert_eq!(last(&with_rest(ZERO)), Verdict::TornFrame, "a frame whose first sector is zeros");
    assert_eq!(last(&with_rest(Stop::NotAFrame(NotAFrame::Length(1 << 30)))), Verdict::TornFrame);
    assert_eq!(last(&with_rest(LINK)), Verdict::StaleForeign);
    assert_eq!(last(&with_rest(SEQ)), Verdict::StaleForeign);
}

#[test]
fn whole_frames_behind_a_hole_are_told() {
    for stop in [SHORT, CRC, ZERO] {
        assert_eq!(last(&with_frame(stop, 16, N - 1)), Verdict::HoleThenValid);
    }
    assert_eq!(last(&with_frame(LINK, 0, N - 1)), Verdict::StaleForeign, "no hole before it");
}

#[test]
fn n_up_to_w_is_damage_and_above_it_is_torn() {
    for (vouched, damage) in [(N - 1, false), (N, true), (N + 1, true), (u64::MAX, true)] {
        let hint = Hints { vouched, durable_offset: None };
        let frames_before = Summary { vouched, ..with_rest(CRC) };
        assert_eq!(last(&frames_before).is_damage(), damage, "frames before the end, W = {vouched}");
        assert_eq!(last(&with_frame(CRC, 16, vouched)).is_damage(), damage, "behind it, W = {vouched}");
        assert_eq!(classify(&with_rest(CRC), Place::Last, hint).is_damage(), damage, "hint, W = {vouched}");
    }
}

#[test]
fn an_end_below_the_durable_word_is_damage_and_at_it_is_not() {
    for (offset, damage) in [(0, false), (END - 8, false), (END, false), (END + 8, true), (u64::MAX, true)] {
        assert_eq!(classify(&with_rest(CRC), Place::Last, durable(offset)).is_damage(), damage, "{offset}");
        assert_eq!(classify(&scan(EOF), Place::Last, durable(offset)).is_damage(), damage, "{offset}");
    }
}

#[test]
fn damage_with_nothing_left_is_a_missing_tail_and_else_corrupt() {
    let hints = durable(END + 8);
    assert_eq!(classify(&scan(EOF), Place::Last, hints), Verdict::MissingTail);
    assert_eq!(classify(&Summary { len: END + 64, ..scan(ZERO) }, Place::Last, hints), Verdict::MissingTail);
    assert_eq!(classify(&with_rest(CRC), Place::Last, hints), Verdict::Corrupt);
    assert_eq!(classify(&with_frame(CRC, 16, N), Place::Last, Hints::default()), Verdict::Corrupt);
}

#[test]
fn a_frame_that_checks_but_breaks_the_format_is_never_cut() {
    for stop in [BODY, RULE] {
        assert_eq!(last(&with_rest(stop)), Verdict::Corrupt);
        assert_eq!(last(&with_frame(stop, 0, N - 1)), Verdict::Corrupt);
    }
}

#[test]
fn a_newer_releases_frame_is_too_new_wherever_it_stands() {
    for place in PLACES {
        assert_eq!(classify(&with_rest(TOO_NEW), place, durable(END + 8)), Verdict::TooNew);
    }
    assert!(!Verdict::TooNew.is_torn() && !Verdict::TooNew.is_damage());
}

#[test]
fn a_seal_is_a_clean_end_if_its_successor_is_what_it_names() {
    assert_eq!(last(&scan(SEALED)), Verdict::CleanEnd);
    assert_eq!(classify(&scan(SEALED), FITS, Hints::default()), Verdict::CleanEnd);
    assert_eq!(classify(&scan(SEALED), MISFIT, Hints::default()), Verdict::Corrupt);
    assert_eq!(classify(&scan(SEALED), Place::SuccessorMissing, Hints::default()), Verdict::MissingSegment);
}

#[test]
fn an_earlier_segment_vouches_for_its_successor_by_nothing_that_makes_it_damaged() {
    let later = Hints { vouched: N + 100, durable_offset: Some(END + 100) };
    assert_eq!(classify(&scan(SEALED), FITS, later), Verdict::CleanEnd);
}

/// The last segment is sealed, its successor was never taken into use, and yet something is known to have been
/// durable behind the Seal. It was called a clean end; whoever went on would have given those numbers out again.
#[test]
fn a_sealed_end_below_what_was_durable_is_a_missing_tail() {
    assert_eq!(classify(&scan(SEALED), Place::Last, durable(END + 8)), Verdict::MissingTail);
    let hint = Hints { vouched: N, durable_offset: None };
    assert_eq!(classify(&scan(SEALED), Place::Last, hint), Verdict::MissingTail);
    assert_eq!(classify(&scan(SEALED), Place::Last, durable(END)), Verdict::CleanEnd);
}

/// One bad bit in a Seal: nothing in the log vouches for a control frame by its number, so "n > W" alone would cut
/// the Seal and the whole segment behind it. An earlier segment is never torn.
#[test]
fn an_earlier_segment_is_never_torn() {
    for place in [FITS, MISFIT, Place::SuccessorMissing] {
        for stop in
            STOPS.into_iter().filter(|stop| !matches!(stop, Stop::TooNew { .. } | Stop::Sealed { .. }))
        {
            assert_eq!(classify(&with_rest(stop), place, Hints::default()), Verdict::Corrupt, "{stop:?}");
            assert_eq!(classify(&scan(stop), place, Hints::default()), Verdict::MissingTail, "{stop:?}");
        }
    }
}

#[test]
fn a_search_cut_short_never_ends_in_a_cut() {
    for stop in STOPS {
        let rest = with_rest(stop);
        let summary = Summary { beyond: Beyond { cut_short: true, ..rest.beyond }, ..rest };
        assert!(!last(&summary).is_torn(), "{stop:?}");
    }
}

/// Every stop, place and rest, with W raised step by step: once damage, always damage, and never torn again.
#[test]
fn raising_w_never_turns_damage_into_torn() {
    for stop in STOPS {
        for place in PLACES {
            for scan in [scan(stop), with_rest(stop), with_frame(stop, 0, 0), with_frame(stop, 16, 0)] {
                let mut damaged = false;
                for vouched in [0, N - 1, N, N + 1] {
                    for durable_offset in [None, Some(END - 1), Some(END), Some(END + 1)] {
                        let verdict = classify(&scan, place, Hints { vouched, durable_offset });
                        let raised = vouched >= N || durable_offset == Some(END + 1);
                        damaged |= verdict.is_damage() && !raised;
                        assert!(!(damaged || raised) || !verdict.is_torn(), "{stop:?} {place:?} {verdict}");
                    }
                }
            }
        }
    }
}

#[test]
fn verdicts_have_stable_names_and_numbers() {
    let all = [
        (Verdict::CleanEnd, "clean-end"),
        (Verdict::NulTail, "nul-tail"),
        (Verdict::ShortFrame, "short-frame"),
        (Verdict::TornFrame, "torn-frame"),
        (Verdict::HoleThenValid, "hole-then-valid"),
        (Verdict::StaleForeign, "stale-foreign"),
        (Verdict::Corrupt, "corrupt"),
        (Verdict::MissingSegment, "missing-segment"),
        (Verdict::MissingTail, "missing-tail"),
        (Verdict::TooNew, "too-new"),
    ];
    for (code, (verdict, name)) in all.into_iter().enumerate() {
        assert_eq!((verdict.code() as usize, verdict.to_string().as_str()), (code, name));
        assert!(!(verdict.is_torn() && verdict.is_damage()));
    }
}
