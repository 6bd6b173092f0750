//! Damage, byte by byte: every flip and every cut of small segments gets the verdict that a model of the rule gives.
//!
//! The model knows what was written where, and judges by comparing bytes; it calls neither scan nor classify. What
//! nothing vouches for is legitimately *torn*: a rotten last frame that no later frame, Mark or durable word speaks
//! for is cut. Everything that something vouches for is damage, and stays.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a panic is how a test fails")]

use foldlog::log::SegmentId;
use foldlog::log::classify::{Hints, Place, Verdict, classify};
use foldlog::log::control_frame::{Control, RecoveryMark, Seal};
use foldlog::log::format::{LAG_NONE, MAX_BODY};
use foldlog::log::frame::{self, FrameHeader, FrameKind, NotAFrame};
use foldlog::log::scan::{self, Position, Stop, Summary};
use foldlog::log::segment::{BadHeader, SegmentHeader};
use proptest::prelude::*;

use crate::built_segment::{Built, HEADER, commit_body};

/// What the model says of a segment's bytes.
#[derive(Debug, PartialEq)]
struct Judgement {
    verdict: Verdict,
    end: usize,
    n: u64,
    frames: usize,
}

/// The rule, over notes instead of bytes. `at_last`: the segment is the last live one.
fn judge(built: &Built, bytes: &[u8], at_last: bool, hints: Hints) -> Judgement {
    let whole = |i: usize| {
        let frame = &built.frames[i];
        bytes.get(frame.start..frame.end) == built.bytes.get(frame.start..frame.end)
    };
    let frames = (0..built.frames.len()).find(|i| !whole(*i)).unwrap_or(built.frames.len());
    let end = if frames == 0 { HEADER } else { built.frames[frames - 1].end };
    let n = if frames == 0 { built.header.first_seq } else { built.frames[frames - 1].next };
    let behind: Vec<usize> = (frames + 1..built.frames.len()).filter(|i| whole(*i)).collect();

    let speak = (0..frames).chain(behind.iter().copied());
    let w = speak.map(|i| built.frames[i].vouches()).max().unwrap_or(0).max(hints.vouched);
    let acknowledged = n <= w || hints.durable_offset.is_some_and(|durable| durable > end as u64);
    let rest = bytes.get(end..).unwrap_or_default();
    let nothing = rest.iter().all(|b| *b == 0);
    let sealed = frames > 0 && built.frames[frames - 1].kind == FrameKind::SEAL;
    let verdict = match () {
        () if sealed => Verdict::CleanEnd,
        () if (acknowledged || !at_last) && nothing => Verdict::MissingTail,
        () if acknowledged || !at_last => Verdict::Corrupt,
        () if rest.is_empty() => Verdict::CleanEnd,
        () if nothing => Verdict::NulTail,
        () if !behind.is_empty() => Verdict::HoleThenValid,
        () if ends_inside_a_frame(rest, built.header.max_body) => Verdict::ShortFrame,
        () => Verdict::TornFrame,
    };
    Judgement { verdict, end, n, frames }
}

fn ends_inside_a_frame(rest: &[u8], max_body: u32) -> bool {
    let Some(head) = rest.get(..32) else { return true };
    let len = u32::from_le_bytes([head[0], head[1], head[2], head[3]]);
    len <= max_body && len > 0 && 32 + (len as usize).div_ceil(8) * 8 > rest.len()
}

fn look(built: &Built, bytes: &[u8], place: Place, hints: Hints) -> (Judgement, Summary) {
    let summary = scan::segment(bytes, &built.header, &built.salt(), |_| {});
    let found = Judgement {
        verdict: classify(&summary, place, hints),
        end: usize::try_from(summary.end.offset).unwrap(),
        n: summary.end.seq,
        frames: usize::try_from(summary.frames).unwrap(),
    };
    (found, summary)
}

/// Compares code and model for these bytes under every state of the durable word that `words` lists, and checks what
/// must hold whatever the model says.
fn compare(what: &str, built: &Built, bytes: &[u8], words: &[Option<u64>]) {
    for durable_offset in words {
        let hints = Hints { vouched: 0, durable_offset: *durable_offset };
        let (found, _) = look(built, bytes, Place::Last, hints);
        let expected = judge(built, bytes, true, hints);
        assert_eq!(found, expected, "{what}, durable word {durable_offset:?}");
        if found.verdict.is_torn() {
            let w = built.frames[..found.frames].iter().map(|frame| frame.vouches()).max().unwrap_or(0);
            assert!(found.n > w, "{what}: event {} is vouched for and would be cut", found.n);
            assert!(durable_offset.unwrap_or(0) <= found.end as u64, "{what}: durable bytes would be cut");
        }
        let earlier = look(built, bytes, Place::Earlier { successor_fits: true }, hints).0;
        assert_eq!(earlier, judge(built, bytes, false, hints), "{what}, in an earlier segment");
        assert!(!earlier.verdict.is_torn(), "{what}: an earlier segment is never torn");
    }
}

/// The durable word kept, stale, or absent.
fn words(built: &Built) -> Vec<Option<u64>> {
    let ends = built.frames.iter().map(|frame| Some(frame.end as u64));
    [None, Some(HEADER as u64)].into_iter().chain(ends).collect()
}

fn recovery_mark(first_seq: u64) -> Control {
    let note = "0000000003-296.txt".into();
    Control::RecoveryMark(RecoveryMark { at_lpos: 4136, bytes: 80, frames: 1, first_seq, verdict: 3, note })
}

fn seal(next_first_seq: u64) -> Control {
    Control::Seal(Seal {
        next_segment_id: SegmentId(0x99),
        next_first_seq,
        next_base_lpos: 5000,
        segment_id: SegmentId(0x0123_4567_89AB_CDEF),
        last_seq: next_first_seq - 1,
        last_crc: 0,
    })
}

fn mark() -> Control {
    Control::Mark { time: 1_700_000_000_000_000 }
}

/// Small segments of every make: nobody vouches, each frame vouches for all before it, some lag behind.
fn segments() -> Vec<(&'static str, Built)> {
    let new = || Built::new(20);
    let buffered = new().commit(LAG_NONE, &[5]).commit(LAG_NONE, &[3, 0, 9]).commit(LAG_NONE, &[16]);
    let durable = new().commit(1, &[5]).commit(1, &[3, 9]).commit(1, &[1]).commit(1, &[7, 7]);
    let lagging = new()
        .control(LAG_NONE, &Control::Epoch { epoch: 0xE1 })
        .commit(LAG_NONE, &[4])
        .commit(2, &[1, 2])
        .commit(3, &[8])
        .commit(2, &[2, 2, 2])
        .commit(5, &[6]);
    let marked = new().commit(LAG_NONE, &[5]).commit(LAG_NONE, &[2, 9]).control(1, &mark());
    let gone_on = marked.clone().commit(LAG_NONE, &[3]).commit(LAG_NONE, &[12]);
    let half_vouched = new().commit(LAG_NONE, &[1]).commit(LAG_NONE, &[1, 1, 1, 1]).commit(3, &[5]);
    let repaired = new()
        .commit(1, &[5])
        .control(1, &Control::Gap { from: 21, to: 5_000 })
        .commit(LAG_NONE, &[3])
        .control(LAG_NONE, &recovery_mark(5_002))
        .frame(FrameKind(0x8044), 2, LAG_NONE, b"of a newer release".to_vec())
        .frame(FrameKind(0xC044), 0, 1, b"too".to_vec())
        .commit(2, &[1]);
    let sealed = new().commit(1, &[4]).commit(2, &[1, 1]);
    let next = sealed.next();
    vec![
        ("empty", new()),
        ("buffered", buffered.clone()),
        ("buffered, with reserve", buffered.reserve(64)),
        ("durable", durable.clone()),
        ("durable, with reserve", durable.reserve(64)),
        ("lagging", lagging),
        ("marked", marked),
        ("marked and gone on", gone_on.reserve(24)),
        ("half of a commit vouched for", half_vouched),
        ("repaired", repaired),
        ("sealed", sealed.control(1, &seal(next))),
    ]
}

#[test]
fn undamaged_segments_are_clean() {
    for (name, built) in segments() {
        let words = if name == "sealed" { vec![None] } else { words(&built) };
        compare(name, &built, &built.bytes, &words);
        let (found, _) = look(&built, &built.bytes, Place::Last, Hints::default());
        assert!(matches!(found.verdict, Verdict::CleanEnd | Verdict::NulTail), "{name}: {found:?}");
        assert_eq!(found.frames, built.frames.len());
    }
}

#[test]
fn every_flipped_bit_gets_the_models_verdict() {
    for (name, built) in segments() {
        let words = words(&built);
        for at in HEADER..built.bytes.len() {
            let mut bytes = built.bytes.clone();
            for pattern in (0..8).map(|bit| 1 << bit).chain([0xFF, 0x55]) {
                bytes[at] = built.bytes[at] ^ pattern;
                compare(&format!("{name}, byte {at} ^ {pattern:#x}"), &built, &bytes, &words);
            }
        }
    }
}

#[test]
fn every_cut_gets_the_models_verdict() {
    for (name, built) in segments() {
        let words = words(&built);
        for len in HEADER..=built.bytes.len() {
            compare(&format!("{name}, cut to {len}"), &built, &built.bytes[..len], &words);
        }
    }
}

#[test]
fn every_zeroed_rest_gets_the_models_verdict() {
    for (name, built) in segments() {
        let words = words(&built);
        for from in HEADER..built.bytes.len() {
            let mut bytes = built.bytes.clone();
            bytes[from..].fill(0);
            compare(&format!("{name}, zeros from {from}"), &built, &bytes, &words);
        }
    }
}

#[test]
fn every_zeroed_frame_and_pair_of_holes_gets_the_models_verdict() {
    for (name, built) in segments() {
        let words = words(&built);
        for (i, first) in built.frames.iter().enumerate() {
            for second in &built.frames[i..] {
                let mut bytes = built.bytes.clone();
                bytes[first.start..first.end].fill(0);
                bytes[second.end - 1] ^= 0x80;
                compare(
                    &format!("{name}, holes at {} and {}", first.start, second.start),
                    &built,
                    &bytes,
                    &words,
                );
            }
        }
    }
}

/// What the model says, said without it: the promise in the words of the promise.
#[test]
fn a_flip_up_to_w_is_damage_and_above_it_cuts_behind_the_last_whole_frame() {
    let built =
        Built::new(20).commit(LAG_NONE, &[5]).commit(1, &[3, 9]).commit(2, &[1]).commit(LAG_NONE, &[7]);
    // 20 | 21 22 | 23 | 24; the third frame vouches up to 21, nothing for more.
    let verdicts: Vec<Verdict> = built
        .frames
        .iter()
        .map(|frame| {
            let mut bytes = built.bytes.clone();
            bytes[frame.start + 33] ^= 4;
            let (found, _) = look(&built, &bytes, Place::Last, Hints::default());
            assert_eq!(found.end, frame.start);
            found.verdict
        })
        .collect();
    assert_eq!(
        verdicts,
        [Verdict::Corrupt, Verdict::Corrupt, Verdict::HoleThenValid, Verdict::TornFrame],
        "20 and 21 are vouched for, 23 and 24 are not"
    );
}

#[test]
fn a_cut_below_a_kept_durable_word_is_a_missing_tail() {
    let built = Built::new(20).commit(LAG_NONE, &[5]).commit(LAG_NONE, &[6]).commit(LAG_NONE, &[7]);
    let hints = Hints { vouched: 0, durable_offset: Some(built.end() as u64) };
    for frame in &built.frames {
        let cut = &built.bytes[..frame.start];
        assert_eq!(look(&built, cut, Place::Last, hints).0.verdict, Verdict::MissingTail);
        let mut zeroed = built.bytes.clone();
        zeroed[frame.start..].fill(0);
        assert_eq!(look(&built, &zeroed, Place::Last, hints).0.verdict, Verdict::MissingTail);
    }
}

#[test]
fn a_cut_between_frames_that_nobody_vouches_for_is_a_clean_end() {
    let built = Built::new(20).commit(LAG_NONE, &[5]).commit(LAG_NONE, &[6]).commit(LAG_NONE, &[7]);
    for frame in &built.frames {
        let cut = &built.bytes[..frame.start];
        assert_eq!(look(&built, cut, Place::Last, Hints::default()).0.verdict, Verdict::CleanEnd);
    }
}

/// The Mark is what turns the last second's frames from "torn" into "damage".
#[test]
fn a_mark_vouches_for_what_stands_before_it() {
    let unmarked = Built::new(20).commit(1, &[5]).commit(1, &[6]);
    let marked = unmarked.clone().control(1, &mark());
    let last = unmarked.frames[1].start;
    for (built, verdict) in [(&unmarked, Verdict::TornFrame), (&marked, Verdict::Corrupt)] {
        let mut bytes = built.bytes.clone();
        bytes[last + 40] ^= 1;
        assert_eq!(look(built, &bytes, Place::Last, Hints::default()).0.verdict, verdict);
    }
}

/// A snapshot, or another segment, vouches by number alone.
#[test]
fn hints_from_elsewhere_vouch_by_number() {
    let built = Built::new(20).commit(LAG_NONE, &[5]).commit(LAG_NONE, &[6, 6]);
    let mut bytes = built.bytes.clone();
    bytes[built.frames[1].start] ^= 1;
    for (vouched, damage) in [(0, false), (20, false), (21, true), (22, true), (u64::MAX, true)] {
        let hints = Hints { vouched, durable_offset: None };
        let (found, _) = look(&built, &bytes, Place::Last, hints);
        assert_eq!(found, judge(&built, &bytes, true, hints));
        assert_eq!(found.verdict.is_damage(), damage, "vouched up to {vouched}");
    }
}

/// One bad bit in the Seal of a segment whose successor lives: no number is lost, nothing is vouched for, and a rule
/// by numbers alone would cut the Seal and all of the successor.
#[test]
fn a_bad_bit_in_a_seal_before_a_live_segment_is_damage() {
    let built = Built::new(20).commit(LAG_NONE, &[4]);
    let built = built.clone().control(LAG_NONE, &seal(built.next()));
    for at in built.frames[1].start..built.end() {
        let mut bytes = built.bytes.clone();
        bytes[at] ^= 1;
        let (found, _) = look(&built, &bytes, Place::Earlier { successor_fits: true }, Hints::default());
        assert_eq!((found.verdict, found.n), (Verdict::Corrupt, 21), "byte {at}");
    }
}

#[test]
fn no_flipped_bit_or_cut_of_a_segment_header_goes_unseen() {
    let built = Built::new(20);
    for bit in 0..HEADER * 8 {
        let mut bytes = built.bytes.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert!(SegmentHeader::decode(&bytes).is_err(), "bit {bit}");
    }
    for len in 0..HEADER {
        assert_eq!(SegmentHeader::decode(&built.bytes[..len]), Err(BadHeader::Short));
    }
}

/// After a hard reboot the last sectors are zeros. Other stores know one shape of tail only, and one says it can only
/// repair an unexpected end of file: a tail of zeros, a record with a good head and zeros, sectors zeroed one by one.
#[test]
fn tails_of_zeros_and_zeroed_sectors_heal() {
    let before = Built::new(20).commit(LAG_NONE, &[100]).commit(LAG_NONE, &[700]);
    for zeros in 1..=8192 {
        let bytes = before.clone().reserve(zeros).bytes;
        let (found, _) = look(&before, &bytes, Place::Last, Hints::default());
        assert_eq!(
            (found.verdict, found.end, found.frames),
            (Verdict::NulTail, before.end(), 2),
            "{zeros} zeros"
        );
    }
    let built = before.clone().commit(LAG_NONE, &[3000]);
    let (start, end) = (before.end(), built.end());
    for sector in start / 512..=(end - 1) / 512 {
        let mut bytes = built.bytes.clone();
        bytes[(sector * 512).max(start)..(sector * 512 + 512).min(end)].fill(0);
        let (found, _) = look(&built, &bytes, Place::Last, Hints::default());
        assert_eq!(found, judge(&built, &bytes, true, Hints::default()));
        assert_eq!((found.verdict, found.end), (Verdict::TornFrame, start), "sector {sector}");
    }
    for half in start + 1..end {
        let mut bytes = built.bytes.clone();
        bytes[half..].fill(0);
        bytes.resize(end + 512, 0);
        let (found, _) = look(&built, &bytes, Place::Last, Hints::default());
        let whole = bytes[..end] == built.bytes[..];
        assert_eq!(
            found.verdict,
            if whole { Verdict::NulTail } else { Verdict::TornFrame },
            "zeros from {half}"
        );
        assert_eq!(found.end, if whole { end } else { start });
    }
}

/// A damaged length asked for gigabytes elsewhere, or swallowed the good records behind it. Here it is compared with
/// the bound and with what is there, the frame's body is a part of the bytes given, and the next frames are found.
#[test]
fn a_damaged_length_loses_its_own_frame_only() {
    let built = Built::new(20).commit(1, &[50]).commit(1, &[60, 60]).commit(1, &[70]).commit(1, &[80]);
    for (i, hit) in built.frames.iter().enumerate() {
        let len = u32::try_from(hit.body.len()).unwrap();
        let left = u32::try_from(built.bytes.len() - hit.start).unwrap();
        let huge = [left - 32 + 1, MAX_BODY, MAX_BODY + 1, (1 << 31) - 1, u32::MAX];
        for wrong in [0, 1, len - 1, len + 1, left - 32].into_iter().chain(huge) {
            if wrong == len {
                continue;
            }
            let mut bytes = built.bytes.clone();
            bytes[hit.start..hit.start + 4].copy_from_slice(&wrong.to_le_bytes());
            let (found, summary) = look(&built, &bytes, Place::Last, Hints::default());
            assert_eq!(found, judge(&built, &bytes, true, Hints::default()), "frame {i}, length {wrong}");
            assert_eq!(found.frames, i);
            let next = built.frames.get(i + 1).map(|next| (next.start as u64, next.seq));
            assert_eq!(summary.beyond.first, next, "frame {i}, length {wrong}");
            assert_eq!(summary.beyond.frames as usize, built.frames.len() - i - 1);
            let stop = frame::decode(&bytes[hit.start..], &built.salt(), MAX_BODY).unwrap_err();
            if wrong > MAX_BODY {
                assert_eq!(stop, NotAFrame::Length(wrong));
            } else if wrong > left - 32 {
                assert_eq!(stop, NotAFrame::Short);
            }
        }
    }
}

/// One flipped byte in the middle silently cut history elsewhere: 24 rows became 6, and the check still said ok.
#[test]
fn one_bad_byte_in_a_log_of_24_costs_one_record_and_is_reported() {
    let built = (0..24).fold(Built::new(1), |built, i| built.commit(1, &[i]));
    for at in HEADER..built.bytes.len() {
        let mut bytes = built.bytes.clone();
        bytes[at] ^= 0x10;
        let (found, summary) = look(&built, &bytes, Place::Last, Hints::default());
        assert_eq!(found.frames + summary.beyond.frames as usize, 23, "byte {at}");
        let last = at >= built.frames[23].start;
        assert_eq!((found.verdict.is_damage(), found.verdict.is_torn()), (!last, last), "byte {at}");
    }
}

/// Elsewhere a torn tail was tolerated and not cut: what was appended behind it with a sync never came back. Here
/// record B is cut at every byte, healed to zeros from the end on, and C and D are appended in its place.
#[test]
fn what_is_appended_after_a_heal_comes_back_whatever_was_torn() {
    let a = Built::new(1).commit(LAG_NONE, &[9]);
    let b = a.clone().commit(LAG_NONE, &[33]);
    let healed = a.clone().control(LAG_NONE, &recovery_mark(2)).commit(LAG_NONE, &[1]).commit(LAG_NONE, &[2]);
    for len in a.end() + 1..b.end() {
        let torn = &b.bytes[..len];
        let (found, summary) = look(&a, torn, Place::Last, Hints::default());
        assert!(found.verdict.is_torn(), "{len}");
        // Cut: from the end to the end of the file. Then append where the scan stands.
        let mut bytes = torn.to_vec();
        bytes[found.end..].fill(0);
        let appended = &healed.bytes[a.end()..];
        assert_eq!((found.end, summary.end.seq), (a.end(), 2));
        bytes.resize(bytes.len().max(healed.end()), 0);
        bytes[found.end..healed.end()].copy_from_slice(appended);
        let (found, _) = look(&healed, &bytes, Place::Last, Hints::default());
        assert_eq!((found.frames, found.end), (4, healed.end()));
        assert!(matches!(found.verdict, Verdict::CleanEnd | Verdict::NulTail), "{len}: {found:?}");
    }
}

/// A whole frame of this segment that does not follow what stands before it: left over from a longer, older tail.
#[test]
fn a_left_over_frame_is_stale_and_not_history() {
    let old = Built::new(20).commit(LAG_NONE, &[40]).commit(LAG_NONE, &[8]);
    let new = Built::new(20).commit(LAG_NONE, &[41]);
    let (hole, frame) = (new.end(), &old.frames[1]);
    assert_eq!(hole, frame.start, "both first frames are padded to one length");
    let bytes = [&new.bytes[..], &old.bytes[frame.start..frame.end]].concat();
    let (found, summary) = look(&new, &bytes, Place::Last, Hints::default());
    assert!(matches!(summary.stop, Stop::Link { .. }));
    assert_eq!((found.verdict, found.end, found.n), (Verdict::StaleForeign, hole, 21));
}

/// Frames of another segment, byte for byte whole, are no frames here: their CRC starts from other ids.
#[test]
fn frames_of_another_segment_vouch_for_nothing_here() {
    let built = Built::new(20).commit(LAG_NONE, &[5]);
    let mut foreign = Built::new(21);
    foreign.header.segment_id = SegmentId(7);
    let foreign = foreign.commit(1, &[5]).control(0, &mark());
    let bytes = [&built.bytes[..], &foreign.bytes[HEADER..]].concat();
    let (found, summary) = look(&built, &bytes, Place::Last, Hints::default());
    assert_eq!((found.verdict, found.end), (Verdict::TornFrame, built.end()));
    assert_eq!((summary.beyond.frames, summary.beyond.vouched), (0, 0));
}

/// A writer that is wrong about the format, not an accident: the CRC checks. It is never cut.
#[test]
fn a_whole_frame_with_a_malformed_body_is_kept() {
    let good = Built::new(20).commit(LAG_NONE, &[5]);
    for body in [commit_body(21, &[1, 1]), vec![0; 3]] {
        let built = good.clone().frame(FrameKind::COMMIT, 1, LAG_NONE, body);
        let (found, summary) = look(&built, &built.bytes, Place::Last, Hints::default());
        assert!(matches!(summary.stop, Stop::Body(_)));
        assert_eq!((found.verdict, found.end), (Verdict::Corrupt, good.end()));
    }
}

/// CRC-32 one bit at a time, as format.md describes it.
fn crc_by_hand(parts: &[&[u8]]) -> u32 {
    let mut crc = u32::MAX;
    for byte in parts.concat() {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0xEDB8_8320 } else { crc >> 1 };
        }
    }
    !crc
}

/// The bytes themselves, read by hand: what the model is told is what stands on disk, and the CRC covers all of it.
#[test]
fn the_notes_are_true_of_the_bytes() {
    for (name, built) in segments() {
        let mut link = built.header.prev_last_crc;
        for frame in &built.frames {
            let bytes = &built.bytes[frame.start..frame.end];
            let u32_at = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
            let u16_at = |at: usize| u16::from_le_bytes(bytes[at..at + 2].try_into().unwrap());
            assert_eq!(u32_at(0) as usize, frame.body.len(), "{name}");
            assert_eq!(u64::from_le_bytes(bytes[8..16].try_into().unwrap()), frame.seq);
            assert_eq!((u32_at(16), u16_at(20), u16_at(22)), (link, frame.kind.0, frame.count));
            assert_eq!(u32_at(24), frame.lag);
            assert_eq!(bytes[32..32 + frame.body.len()], frame.body);
            assert!(bytes[32 + frame.body.len()..].iter().all(|b| *b == 0));
            let segment = built.header.segment_id.0.to_le_bytes();
            let crc = crc_by_hand(&[&built.header.log_id.0, &segment, &bytes[..4], &bytes[8..]]);
            assert_eq!(u32_at(4), crc, "{name}, frame at {}", frame.start);
            link = crc;
        }
    }
}

/// A hole and a number: frames found behind the end must not be older than what is expected there.
#[test]
fn an_old_frame_behind_the_end_vouches_for_nothing() {
    let built = Built::new(20).commit(LAG_NONE, &[5]).commit(LAG_NONE, &[5]);
    let mut bytes = built.bytes.clone();
    bytes.extend_from_slice(&[0xEE; 40]);
    let old = FrameHeader { seq: 21, link: 0, kind: FrameKind::COMMIT, count: 1, durable_lag: 0, writer: 1 };
    frame::encode(&mut bytes, &built.salt(), &old, &commit_body(21, &[1]));
    let (found, summary) = look(&built, &bytes, Place::Last, Hints::default());
    assert_eq!(summary.end, Position { offset: built.end() as u64, seq: 22, link: summary.end.link });
    assert_eq!((summary.beyond.frames, found.verdict), (0, Verdict::TornFrame));
}

#[derive(Clone, Debug)]
enum Edit {
    Flip(usize, u8),
    Zero(usize, usize),
    Cut(usize),
    Extend(usize),
}

fn edit() -> impl Strategy<Value = Edit> {
    prop_oneof![
        (any::<usize>(), 1..=255u8).prop_map(|(at, pattern)| Edit::Flip(at, pattern)),
        (any::<usize>(), 1..400usize).prop_map(|(at, len)| Edit::Zero(at, len)),
        any::<usize>().prop_map(Edit::Cut),
        (1..300usize).prop_map(Edit::Extend),
    ]
}

fn commits() -> impl Strategy<Value = Built> {
    let lag = prop_oneof![3 => 1..6u32, 1 => Just(LAG_NONE), 1 => Just(1)];
    let commit = (lag, prop::collection::vec(0..60usize, 1..4), any::<bool>());
    prop::collection::vec(commit, 1..9).prop_map(|commits| {
        commits.iter().fold(Built::new(10), |built, (lag, bodies, marked)| {
            let built = built.commit(*lag, bodies);
            if *marked { built.control(1, &mark()) } else { built }
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    /// Any number of edits anywhere: still the model's verdict, and nothing vouched for is cut.
    #[test]
    fn any_edits_get_the_models_verdict(built in commits(), edits in prop::collection::vec(edit(), 1..5)) {
        let mut bytes = built.bytes.clone();
        for edit in &edits {
            let room = bytes.len() - HEADER;
            match *edit {
                Edit::Flip(at, pattern) if room > 0 => bytes[HEADER + at % room] ^= pattern,
                Edit::Zero(at, len) if room > 0 => {
                    let from = HEADER + at % room;
                    let to = (from + len).min(bytes.len());
                    bytes[from..to].fill(0);
                }
                Edit::Cut(at) if room > 0 => bytes.truncate(HEADER + at % room),
                Edit::Extend(zeros) => bytes.resize(bytes.len() + zeros, 0),
                _ => {}
            }
        }
        compare("edited", &built, &bytes, &words(&built));
    }
}
