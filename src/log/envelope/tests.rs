use super::*;

const EVENT: Envelope<'static> = Envelope {
    seq: Seq(5),
    takes: 1,
    kind: 0x0203,
    version: 4,
    ignorable: false,
    key_kind: KeyKind::TASK,
    key: "t1",
    revision: Revision(6),
    blobs: &[],
    body: b"abc",
};

const OPERATION: Operation =
    Operation { op_id: OpId([0x11; 16]), request_hash: [0x22; 16], seen: Seq(0x3334_3536_3738_393A) };

fn elided_run(n: u16) -> Envelope<'static> {
    let body: &'static [u8] = Box::leak(Box::new(n.to_le_bytes()));
    Envelope {
        takes: n,
        kind: EVENT_ELIDED,
        version: 1,
        key_kind: KeyKind::NONE,
        key: "",
        revision: Revision(0),
        body,
        ..EVENT
    }
}

fn commit(preamble: Preamble, events: &[Envelope<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    preamble.encode(&mut out);
    for event in events {
        event.encode(&mut out);
    }
    out
}

fn one(event: Envelope<'_>) -> Vec<u8> {
    commit(Preamble::default(), &[event])
}

fn refusal(count: u16, body: &[u8]) -> BadCommit {
    Commit::decode(5, count, body).map(|_| ()).unwrap_err()
}

/// Where the first event starts if the preamble has no operation.
const AT: usize = 17;

#[test]
fn preamble_stands_where_the_format_says() {
    let plain = Preamble { time: 0x0102_0304_0506_0708, session: 0x1112_1314_1516_1718, operation: None };
    let bytes = commit(plain, &[]);
    assert_eq!(bytes.len(), 17);
    assert_eq!(bytes[0], 0);
    assert_eq!(bytes[1..9], plain.time.to_le_bytes());
    assert_eq!(bytes[9..17], plain.session.to_le_bytes());
    let bytes = commit(Preamble { operation: Some(OPERATION), ..plain }, &[]);
    assert_eq!(bytes.len(), 57);
    assert_eq!(bytes[0], 1);
    assert_eq!(bytes[17..33], OPERATION.op_id.0);
    assert_eq!(bytes[33..49], OPERATION.request_hash);
    assert_eq!(bytes[49..57], OPERATION.seen.0.to_le_bytes());
}

#[test]
fn event_stands_where_the_format_says() {
    let blobs = [0xBB; 64];
    let event = Envelope { ignorable: true, blobs: &blobs, ..EVENT };
    let bytes = &one(event)[AT..];
    assert_eq!(bytes[..5], [3, 2, 4, 3, 1], "kind, version, flags, key kind");
    assert_eq!(bytes[5..9], [2, 0, b't', b'1']);
    assert_eq!(bytes[9..17], 6u64.to_le_bytes());
    assert_eq!(bytes[17..19], [2, 0], "blobs");
    assert_eq!(bytes[19..83], blobs);
    assert_eq!(bytes[83..], [3, 0, 0, 0, b'a', b'b', b'c']);
    assert_eq!(bytes.len(), Envelope::encoded_len(2, 2, 3));
    assert_eq!(one(EVENT).len() - AT, Envelope::encoded_len(2, 0, 3));
}

#[test]
fn commit_reads_back() {
    let blobs = [0xBB; 32];
    let preamble = Preamble { time: 1, session: 2, operation: Some(OPERATION) };
    let events = [
        EVENT,
        Envelope { seq: Seq(6), ignorable: true, blobs: &blobs, ..EVENT },
        Envelope { seq: Seq(7), ..elided_run(4) },
        Envelope {
            seq: Seq(11),
            key_kind: KeyKind::NONE,
            key: "",
            revision: Revision(0),
            body: b"",
            ..EVENT
        },
        Envelope { seq: Seq(12), key_kind: KeyKind(200), key: "ключ", ..EVENT },
    ];
    let bytes = commit(preamble, &events);
    let found = Commit::decode(5, 8, &bytes).unwrap();
    assert_eq!(found.preamble, preamble);
    assert_eq!(found.events().collect::<Vec<_>>(), events);
}

#[test]
fn count_is_the_sum_of_what_events_and_elided_runs_take() {
    let bytes = commit(Preamble::default(), &[EVENT, elided_run(3), EVENT]);
    let numbers: Vec<u64> = Commit::decode(5, 5, &bytes).unwrap().events().map(|e| e.seq.0).collect();
    assert_eq!(numbers, [5, 6, 9]);
    assert_eq!(refusal(4, &bytes), BadCommit::Rule("more event numbers than the frame's count"));
    assert_eq!(refusal(6, &bytes), BadCommit::Rule("fewer event numbers than the frame's count"));
    assert_eq!(
        refusal(1, &commit(Preamble::default(), &[])),
        BadCommit::Rule("fewer event numbers than the frame's count")
    );
}

#[test]
fn elided_runs_take_1_to_4096_numbers() {
    for n in [1, 4096] {
        assert!(Commit::decode(5, n, &one(elided_run(n))).is_ok(), "{n}");
    }
    let rule = BadCommit::Rule("an elided run must say 1 to 4096 numbers, in version 1");
    for n in [0, 4097, u16::MAX] {
        assert_eq!(refusal(n, &one(elided_run(n))), rule, "{n}");
    }
    assert_eq!(refusal(1, &one(Envelope { version: 2, ..elided_run(1) })), rule);
    assert_eq!(refusal(1, &one(Envelope { body: &[1], ..elided_run(1) })), rule);
    assert_eq!(refusal(1, &one(Envelope { body: &[1, 0, 0], ..elided_run(1) })), rule);
}

#[test]
fn an_elided_event_of_a_remembered_request_keeps_key_and_revision() {
    let kept = Envelope { key_kind: KeyKind::TASK, key: "t1", revision: Revision(6), ..elided_run(1) };
    let bytes = commit(Preamble { operation: Some(OPERATION), ..Preamble::default() }, &[kept]);
    let found = Commit::decode(5, 1, &bytes).unwrap().events().next().unwrap();
    assert_eq!((found.key, found.revision), ("t1", Revision(6)));
}

#[test]
fn unknown_flag_bits_must_be_understood() {
    let good = one(EVENT);
    for bit in 1..8 {
        let mut bytes = good.clone();
        bytes[0] = 1 << bit;
        assert_eq!(refusal(1, &bytes), BadCommit::Flags(1 << bit), "of the preamble");
    }
    for bit in 2..8 {
        let mut bytes = good.clone();
        bytes[AT + 3] = 1 << bit;
        assert_eq!(refusal(1, &bytes), BadCommit::Flags(1 << bit), "of an event");
    }
}

#[test]
fn key_and_kind_come_together() {
    let rule = BadCommit::Rule("a key without a kind, or a kind without a key");
    assert_eq!(refusal(1, &one(Envelope { key_kind: KeyKind::NONE, ..EVENT })), rule);
    assert_eq!(refusal(1, &one(Envelope { key: "", ..EVENT })), rule);
    let keyless = Envelope { key_kind: KeyKind::NONE, key: "", ..EVENT };
    assert_eq!(refusal(1, &one(keyless)), BadCommit::Rule("a revision without a key"));
}

#[test]
fn a_key_is_utf8() {
    let mut bytes = one(EVENT);
    bytes[AT + 7] = 0xFF;
    assert_eq!(refusal(1, &bytes), BadCommit::Rule("key is not UTF-8"));
}

#[test]
fn the_blob_flag_comes_with_blobs() {
    let mut bytes = one(Envelope { blobs: &[0xBB; 32], ..EVENT });
    bytes[AT + 17] = 0;
    assert_eq!(refusal(1, &bytes), BadCommit::Rule("blob flag without blobs"));
}

#[test]
fn a_commit_cut_anywhere_is_refused() {
    let preamble = Preamble { operation: Some(OPERATION), ..Preamble::default() };
    let bytes = commit(preamble, &[EVENT, Envelope { blobs: &[0xBB; 64], ..EVENT }]);
    let first = commit(preamble, &[EVENT]).len();
    for len in 0..bytes.len() {
        let rule = match len {
            _ if len < 57 => "commit ends inside a field",
            _ if len == 57 || len == first => "fewer event numbers than the frame's count",
            _ => "commit ends inside an event",
        };
        assert_eq!(refusal(2, &bytes[..len]), BadCommit::Rule(rule), "cut to {len}");
    }
}

#[test]
fn nothing_is_left_over() {
    let mut bytes = one(EVENT);
    bytes.push(0);
    assert_eq!(refusal(1, &bytes), BadCommit::Rule("commit ends inside an event"));
}

/// Lengths from disk reach past the end, and past any memory; they are compared, never allocated.
#[test]
fn lengths_that_reach_past_the_end_are_refused() {
    let cut = BadCommit::Rule("commit ends inside an event");
    let good = one(EVENT);
    for len in [4u32, 1 << 31, u32::MAX] {
        let mut bytes = good.clone();
        bytes[AT + 17..AT + 21].copy_from_slice(&len.to_le_bytes());
        assert_eq!(refusal(1, &bytes), cut, "body of {len}");
    }
    let mut bytes = good;
    bytes[AT + 5..AT + 7].copy_from_slice(&u16::MAX.to_le_bytes());
    assert_eq!(refusal(1, &bytes), cut, "key");
    let mut bytes = one(Envelope { blobs: &[0xBB; 32], ..EVENT });
    bytes[AT + 17..AT + 19].copy_from_slice(&u16::MAX.to_le_bytes());
    assert_eq!(refusal(1, &bytes), cut, "blobs");
}

/// `Commit::decode` added up numbers before anything had bounded them: at the end of their range it overflowed.
#[test]
fn event_numbers_that_overflow_are_refused() {
    let bytes = commit(Preamble::default(), &[EVENT, EVENT]);
    let overflow = BadCommit::Rule("event numbers overflow");
    assert_eq!(Commit::decode(u64::MAX - 1, 2, &bytes).map(|_| ()), Err(overflow));
    let last: Vec<u64> = Commit::decode(u64::MAX - 2, 2, &bytes).unwrap().events().map(|e| e.seq.0).collect();
    assert_eq!(last, [u64::MAX - 2, u64::MAX - 1]);
}

#[test]
fn the_largest_commit_reads_back() {
    let events = vec![EVENT; 4096];
    let bytes = commit(Preamble::default(), &events);
    assert_eq!(Commit::decode(5, 4096, &bytes).unwrap().events().count(), 4096);
}

#[test]
fn keys_order_by_kind_then_bytes_and_show_what_they_name() {
    let mut keys = [Key::document("a"), Key::task("b"), Key::task("B"), Key::none()];
    keys.sort();
    let shown: Vec<String> = keys.iter().map(Key::to_string).collect();
    assert_eq!(shown, ["(no key)", "task B", "task b", "document a"]);
    assert_eq!(EVENT.to_key(), Key::task("t1"));
    assert_eq!(Key { kind: KeyKind(9), name: "x".into() }.to_string(), "key kind 9 x");
}
