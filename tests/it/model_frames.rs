//! Frames against a Vec: whatever is encoded comes back exactly so, in order, and nothing else does.

use foldlog::log::control_frame::Control;
use foldlog::log::envelope::{Commit, Envelope, KeyKind, Operation, Preamble};
use foldlog::log::format::LAG_NONE;
use foldlog::log::frame::FrameKind;
use foldlog::log::scan::{self, Content, Stop};
use foldlog::log::{OpId, Revision, Seq};
use proptest::prelude::*;

use crate::built_segment::Built;

/// An event without its number.
#[derive(Clone, Debug)]
struct Event {
    kind: u16,
    version: u8,
    ignorable: bool,
    key: (u8, String),
    revision: u64,
    blobs: Vec<[u8; 32]>,
    body: Vec<u8>,
    elided: Option<u16>,
}

#[derive(Clone, Debug)]
enum Write {
    Commit(u32, Preamble, Vec<Event>),
    Epoch(u32, u64),
    Mark(u32, u64),
    Gap(u32, u64),
    Unknown(u16, Vec<u8>),
}

fn event() -> impl Strategy<Value = Event> {
    let key = prop_oneof![Just((0, String::new())), (1..=255u8, "[a-zä-ü]{1,20}")];
    let blobs = prop::collection::vec(any::<[u8; 32]>(), 0..3);
    let body = prop::collection::vec(any::<u8>(), 0..200);
    let elided = prop::option::weighted(0.2, 1..=4096u16);
    (1..=u16::MAX, any::<(u8, bool, u64)>(), key, blobs, body, elided).prop_map(
        |(kind, (version, ignorable, revision), key, blobs, body, elided)| {
            let revision = if key.0 == 0 { 0 } else { revision };
            Event { kind, version, ignorable, key, revision, blobs, body, elided }
        },
    )
}

fn preamble() -> impl Strategy<Value = Preamble> {
    let operation = prop::option::of(any::<([u8; 16], [u8; 16], u64)>());
    (any::<u64>(), any::<u64>(), operation).prop_map(|(time, session, operation)| Preamble {
        time,
        session,
        operation: operation.map(|(op_id, request_hash, seen)| Operation {
            op_id: OpId(op_id),
            request_hash,
            seen: Seq(seen),
        }),
    })
}

fn write() -> impl Strategy<Value = Write> {
    let lag = || prop_oneof![Just(LAG_NONE), any::<u32>(), 0..9u32];
    prop_oneof![
        6 => (lag(), preamble(), prop::collection::vec(event(), 1..5)).prop_map(|(l, p, e)| Write::Commit(l, p, e)),
        1 => (lag(), any::<u64>()).prop_map(|(l, n)| Write::Epoch(l, n)),
        1 => (lag(), any::<u64>()).prop_map(|(l, n)| Write::Mark(l, n)),
        1 => (lag(), 0..1u64 << 40).prop_map(|(l, n)| Write::Gap(l, n)),
        1 => (1..=4096u16, prop::collection::vec(any::<u8>(), 1..99)).prop_map(|(n, b)| Write::Unknown(n, b)),
    ]
}

/// The envelope of an event at `seq`; `elided` lends the bytes of an elided run's body.
fn envelope<'a>(event: &'a Event, seq: u64, elided: &'a [u8; 2]) -> Envelope<'a> {
    let run = event.elided.is_some();
    Envelope {
        seq: Seq(seq),
        takes: event.elided.unwrap_or(1),
        kind: if run { 0 } else { event.kind },
        version: if run { 1 } else { event.version },
        ignorable: event.ignorable,
        key_kind: KeyKind(event.key.0),
        key: &event.key.1,
        revision: Revision(event.revision),
        blobs: event.blobs.as_flattened(),
        body: if run { elided } else { &event.body },
    }
}

/// The events that fit one frame together, and how many numbers they take.
fn fitting(events: &[Event]) -> (Vec<&Event>, u16) {
    let (mut fit, mut numbers) = (Vec::new(), 0);
    for event in events {
        let takes = event.elided.unwrap_or(1);
        if numbers + takes <= 4096 {
            numbers += takes;
            fit.push(event);
        }
    }
    (fit, numbers)
}

fn commit_body(seq: u64, preamble: &Preamble, events: &[&Event]) -> Vec<u8> {
    let mut out = Vec::new();
    preamble.encode(&mut out);
    let mut at = seq;
    for event in events {
        let elided = event.elided.unwrap_or(1).to_le_bytes();
        envelope(event, at, &elided).encode(&mut out);
        at += u64::from(event.elided.unwrap_or(1));
    }
    out
}

fn check_commit(
    seq: u64,
    found: &Commit<'_>,
    preamble: &Preamble,
    events: &[&Event],
) -> Result<(), TestCaseError> {
    prop_assert_eq!(&found.preamble, preamble);
    let mut at = seq;
    let mut read = found.events();
    for event in events {
        let elided = event.elided.unwrap_or(1).to_le_bytes();
        prop_assert_eq!(read.next(), Some(envelope(event, at, &elided)));
        at += u64::from(event.elided.unwrap_or(1));
    }
    prop_assert_eq!(read.next(), None);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_is_read_in_order_and_nothing_else(
        first_seq in 1..1u64 << 48,
        writes in prop::collection::vec(write(), 0..20),
        reserve in 0..200usize,
    ) {
        let mut built = Built::new(first_seq);
        for write in &writes {
            let next = built.next();
            built = match write {
                Write::Commit(lag, preamble, events) => {
                    let (events, numbers) = fitting(events);
                    built.frame(FrameKind::COMMIT, numbers, *lag, commit_body(next, preamble, &events))
                }
                Write::Epoch(lag, epoch) => built.control(*lag, &Control::Epoch { epoch: *epoch }),
                Write::Mark(lag, time) => built.control(*lag, &Control::Mark { time: *time }),
                Write::Gap(lag, n) => built.control(*lag, &Control::Gap { from: next, to: next + n }),
                Write::Unknown(n, body) => built.frame(FrameKind(0x8123), *n, LAG_NONE, body.clone()),
            };
        }
        let built = built.reserve(reserve);
        let salt = built.salt();
        let mut located = Vec::new();
        let summary = scan::segment(&built.bytes, &built.header, &salt, |it| located.push(it.clone()));

        prop_assert!(matches!(summary.stop, Stop::NotAFrame(_)));
        prop_assert_eq!(summary.end.offset, built.end() as u64);
        prop_assert_eq!(summary.end.seq, built.next());
        prop_assert_eq!((summary.beyond.frames, summary.beyond.content_end), (0, summary.end.offset));
        prop_assert_eq!(summary.vouched, built.frames.iter().map(|f| f.vouches()).max().unwrap_or(0));
        prop_assert_eq!(located.len(), built.frames.len());
        for ((found, noted), write) in located.iter().zip(&built.frames).zip(&writes) {
            prop_assert_eq!(found.offset, noted.start as u64);
            prop_assert_eq!(found.frame.len(), noted.end - noted.start);
            let header = &found.frame.header;
            prop_assert_eq!((header.seq, header.count), (noted.seq, noted.count));
            prop_assert_eq!((header.durable_lag, header.kind), (noted.lag, noted.kind));
            prop_assert_eq!(found.frame.body, &noted.body[..]);
            match (&found.content, write) {
                (Content::Commit(commit), Write::Commit(_, preamble, events)) => {
                    check_commit(noted.seq, commit, preamble, &fitting(events).0)?;
                }
                (Content::Control(Control::Epoch { epoch }), Write::Epoch(_, n)) => prop_assert_eq!(epoch, n),
                (Content::Control(Control::Mark { time }), Write::Mark(_, n)) => prop_assert_eq!(time, n),
                (Content::Control(Control::Gap { from, to }), Write::Gap(_, n)) => prop_assert_eq!(to - from, *n),
                (Content::Ignored, Write::Unknown(..)) => {}
                (found, write) => prop_assert!(false, "{found:?} was written as {write:?}"),
            }
        }
    }
}
