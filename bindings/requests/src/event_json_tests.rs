use foldlog::log::envelope::{Commit, Envelope, KeyKind, Operation, Preamble};
use foldlog::log::{OpId, Revision, Seq};

use crate::event_json::{event_line, rfc3339};

fn event<'a>(kind: u16, key_kind: KeyKind, key: &'a str, body: &'a [u8]) -> Envelope<'a> {
    let revision = Revision(u64::from(key_kind != KeyKind::NONE));
    Envelope {
        seq: Seq(0),
        takes: 1,
        kind,
        version: 1,
        ignorable: false,
        key_kind,
        key,
        revision,
        blobs: &[],
        body,
    }
}

fn lines(preamble: Preamble, count: u16, events: &[Envelope<'_>]) -> Vec<String> {
    let mut body = Vec::new();
    preamble.encode(&mut body);
    events.iter().for_each(|event| event.encode(&mut body));
    let commit = Commit::decode(7, count, &body).expect("a commit");
    commit.events().map(|event| event_line("w", &commit.preamble, 7, count, &event)).collect()
}

#[test]
fn event_line_has_every_key_in_order() {
    let operation = Operation { op_id: OpId([0xAB; 16]), request_hash: [1; 16], seen: Seq(3) };
    let preamble =
        Preamble { time: 1_700_000_000_000_001, session: 0x1234_5678_9ABC_DEF0, operation: Some(operation) };
    assert_eq!(
        lines(preamble, 1, &[event(300, KeyKind::TASK, "a\"\u{1}é", &[0, 255])]),
        [concat!(
            r#"{"seq":7,"commit":{"first":7,"count":1},"time":"2023-11-14T22:13:20.000001Z","workspace":"w","#,
            r#""task":"a\"\u0001é","kind":300,"version":1,"revision":1,"op_id":"abababababababababababababababab","#,
            r#""session":"123456789abcdef0","body":{"hex":"00ff"}}"#
        )]
    );
}

#[test]
fn event_line_of_elided_and_nothing_and_other_keys() {
    let events = [
        event(0, KeyKind::NONE, "", &[3, 0]),
        event(1, KeyKind::NONE, "", &[]),
        event(9, KeyKind::DOCUMENT, "d", &[]),
    ];
    let head = |seq| {
        format!(
            r#"{{"seq":{seq},"commit":{{"first":7,"count":5}},"time":"1970-01-01T00:00:00.000000Z","workspace":"w","task":null,"#
        )
    };
    let tail = r#""op_id":null,"session":null,"body":"#;
    assert_eq!(
        lines(Preamble::default(), 5, &events),
        [
            format!(r#"{}"kind":"elided","version":1,"revision":0,{tail}{{"n":3}}}}"#, head(7)),
            format!(r#"{}"kind":"nothing","version":1,"revision":0,{tail}{{}}}}"#, head(10)),
            format!(
                r#"{}"key":{{"kind":2,"name":"d"}},"kind":9,"version":1,"revision":1,{tail}{{"hex":""}}}}"#,
                head(11)
            ),
        ]
    );
}

#[test]
fn event_line_is_json() {
    for line in lines(Preamble::default(), 1, &[event(2, KeyKind::TASK, "\u{7f}\u{2028}\\/", b"x")]) {
        serde_json::from_str::<serde_json::Value>(&line).expect("JSON");
    }
}

#[test]
fn time_agrees_with_jiff() {
    let mut seed = 1u64;
    let last = 253_402_300_799_999_999; // the last microsecond of the year 9999
    let edges =
        [0, 1, 951_782_399_999_999, 951_782_400_000_000, 4_107_542_400_000_000, 13_574_563_200_000_000];
    let random = std::iter::repeat_with(|| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        seed % last
    });
    // jiff's own range ends a little before the year does, so that every time zone fits.
    for micros in edges.into_iter().chain(random.take(20_000)).filter(|m| *m < last - 200_000_000_000) {
        let stamp =
            jiff::Timestamp::from_microsecond(micros.try_into().expect("in range")).expect("in range");
        assert_eq!(rfc3339(micros), format!("{stamp:.6}"), "{micros}");
    }
    assert_eq!(rfc3339(last), "9999-12-31T23:59:59.999999Z");
    assert_eq!(rfc3339(last + 1), "10000-01-01T00:00:00.000000Z");
    assert_eq!(rfc3339(u64::MAX), "586524-01-19T08:01:49.551615Z");
}
