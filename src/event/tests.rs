use super::*;
use crate::log::{Revision, Seq};

fn envelope<'a>(kind: u16, body: &'a [u8], blobs: &'a [u8]) -> Envelope<'a> {
    Envelope {
        seq: Seq(1),
        takes: 1,
        kind,
        version: 1,
        ignorable: false,
        key_kind: KeyKind::TASK,
        key: "t",
        revision: Revision(1),
        blobs,
        body,
    }
}

/// One event of each shape there is.
fn samples() -> Vec<Event> {
    let id = |id: &str| TaskId::new(id).unwrap();
    let item = Item::parse(
        r#"{"id":"t","number":1,"ts":1784332598169,"task":"Title","tokensIn":18446744073709551615,"totalCost":0.15695351000000002,"childIds":["a","b"],"x":{"k": [1]},"flag":true,"off":false,"nil":null,"odd":"\u0041"}"#,
    )
    .unwrap()
    .with(Field::of("big"), Value::Blob { id: BlobId([7; 32]), len: 70_000 });
    let set = vec![(Field::Mode, Value::from("code")), (Field::of("own"), Value::from(-1_i64))];
    vec![
        Event::Created { item, again: false },
        Event::Created { item: Item::new(&id("t")), again: true },
        Event::Patched(Patch {
            set: set.clone(),
            unset: vec![Field::Background, Field::of("q")],
            drop_children: vec!["a".into()],
        }),
        Event::Patched(
            Patch::new().set(Field::Ts, 5_u64).set(Field::TotalCost, Value::parse("1.25").unwrap()),
        ),
        Event::Patched(Patch::new().set(Field::Size, 4096_u64)),
        Event::Renamed { title: Value::from("A better title") },
        Event::StatusChanged { from: Status::Active, to: Status::Interrupted, cause: Cause::Set },
        Event::StatusChanged { from: Status::Interrupted, to: Status::Active, cause: Cause::Resumed },
        Event::StatusChanged { from: Status::Delegated, to: Status::Active, cause: Cause::ChildDeleted },
        Event::StatusChanged { from: Status::Active, to: Status::Interrupted, cause: Cause::Orphaned },
        Event::StatusChanged { from: Status::Delegated, to: Status::Active, cause: Cause::Abandoned },
        Event::StatusChanged { from: Status::Delegated, to: Status::Active, cause: Cause::Mended },
        Event::Delegated { child: id("c") },
        Event::Linked { parent: id("p"), root: id("r") },
        Event::Finished { summary: Some(Value::from("done")) },
        Event::Finished { summary: None },
        Event::ChildReturned {
            child: id("c"),
            summary: Some(Value::Blob { id: BlobId([9; 32]), len: 65_537 }),
        },
        Event::Deleted { with: None },
        Event::Deleted { with: Some(id("p")) },
        Event::Imported(Imported {
            source: "history_item.json".into(),
            record: [3; 32],
            set,
            unset: vec![Field::AwaitingChildId],
            kept: vec![(Field::Task, 77), (Field::of("gone"), 0)],
        }),
        Event::SourceKept { source: "_index.json".into(), record: Value::parse("{\"id\":\"t\" }").unwrap() },
        Event::RulesSet(StatusTable::default()),
        Event::WorkspaceBound(Binding::None),
        Event::WorkspaceBound(Binding::Path("/home/me/p".into())),
        Event::WorkspaceBound(Binding::Key("intellij".into())),
        Event::RetentionSet(None),
        Event::RetentionSet(Some(Retention::KeepAll)),
        Event::RetentionSet(Some(Retention::Limits {
            age: Some(Duration::from_hours(720)),
            count: None,
            bytes: Some(1 << 26),
        })),
        Event::Pinned(true),
        Event::Purged { fence: 300 },
        Event::BackedUp { target: "/media/backup/2026-11-30".into(), covers: Seq(300) },
        Event::SessionStarted { label: "VS Code".into(), version: "0.1.0".into(), pid: 7 },
        Event::Attached(Fence { number: 3, session: 0x0123_4567_89AB_CDEF }),
        Event::Detached { fence: 3 },
        Event::Abandoned { session: 0x0123_4567_89AB_CDEF, fence: 4, severed: false },
        Event::Abandoned { session: 0, fence: 300, severed: true },
        Event::DocumentPut { kind: None, value: Value::parse("{\"a\": [1 ]}").unwrap(), again: false },
        Event::DocumentPut {
            kind: Some("settings".into()),
            value: Value::Blob { id: BlobId([5; 32]), len: 70_000 },
            again: true,
        },
        Event::DocumentPatched(
            Patch::new()
                .set(Field::Mode, "code")
                .set(Field::of("é"), Value::parse("1.50").unwrap())
                .unset(Field::of("gone")),
        ),
        Event::DocumentDeleted,
        Event::DocumentMirrored(Mirrored {
            file: "/home/me/state.json".into(),
            content: [1; 32],
            note: MirrorNote::Seen,
            revision: Revision(300),
            whole: 7,
            members: Some(vec![("a".into(), 0xFFFF_FFFF_FFFF_FFFF), ("".into(), 1)]),
        }),
        Event::DocumentMirrored(Mirrored {
            file: "C:\\state.json".into(),
            content: [2; 32],
            note: MirrorNote::Withdrawn,
            ..Mirrored::default()
        }),
    ]
}

fn parts(event: &Event) -> (u16, Vec<u8>, Vec<u8>) {
    let new = event.to_new(TaskId::new("t").unwrap().key());
    (new.kind(), new.body().to_vec(), new.blob_names().flat_map(|id| id.0).collect())
}

#[test]
fn every_event_comes_back() {
    for event in samples() {
        let (kind, body, blobs) = parts(&event);
        assert_eq!(Event::decode(&envelope(kind, &body, &blobs)), Ok(Some(event)));
    }
}

/// The bytes of every kind and version are frozen: a line that differs is a new version, not a new golden file.
#[test]
fn encodings_are_the_golden_ones() {
    let lines = samples().into_iter().map(|event| {
        let (kind, body, blobs) = parts(&event);
        let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
        let line = format!("{kind} {} 1 {} {}", kinds::name(kind).unwrap(), hex(&body), hex(&blobs));
        format!("{}\n", line.trim_end())
    });
    let now: String = lines.collect();
    assert_eq!(now, include_str!("golden.txt"), "the bytes that would be written now:\n{now}");
    let covered = |kind: &u16| samples().iter().any(|event| event.kind() == *kind);
    let written = kinds::KINDS.iter().filter(|(_, version, _)| *version > 0);
    assert!(written.map(|(kind, ..)| kind).all(covered), "a kind without a sample");
}

#[test]
fn every_cut_and_every_added_byte_is_refused() {
    for event in samples() {
        let (kind, body, blobs) = parts(&event);
        for len in 0..body.len() {
            let cut = Event::decode(&envelope(kind, &body[..len], &blobs));
            assert!(cut.is_err(), "{event:?} cut at {len}: {cut:?}");
        }
        let longer = [&body[..], &[0]].concat();
        assert!(Event::decode(&envelope(kind, &longer, &blobs)).is_err());
        if !blobs.is_empty() {
            assert!(Event::decode(&envelope(kind, &body, &[])).is_err());
        }
    }
}

#[test]
fn forms_that_spell_the_same_are_read_as_one() {
    let body = encode(&SetV1 {
        set: vec![
            FieldV1 { number: 0, name: "ts", value: ValueV1::Raw("5") },
            FieldV1 { number: 0, name: "s", value: ValueV1::Raw("\"x\"") },
            FieldV1 { number: 0, name: "u", value: ValueV1::UInt(1) },
            FieldV1 { number: 0, name: "e", value: ValueV1::Strings(vec![]) },
        ],
    });
    let Ok(Some(Event::Patched(patch))) = Event::decode(&envelope(kinds::USAGE, &body, &[])) else {
        panic!("not a patch");
    };
    let expected = Patch::new()
        .set(Field::Ts, 5_i64)
        .set(Field::of("s"), "x")
        .set(Field::of("u"), 1_i64)
        .set(Field::of("e"), Value::parse("[]").unwrap());
    assert_eq!(patch, expected);
}

#[test]
fn hash_of_a_value_tells_spellings_apart_and_blobs_from_nothing() {
    let text = Value::from("x");
    assert_ne!(value_hash(&Value::parse("1").unwrap()), value_hash(&Value::parse("1.0").unwrap()));
    let blob = Value::Blob { id: BlobId::of(text.to_json().as_bytes()), len: 3 };
    assert_eq!(value_hash(&text), value_hash(&blob), "where a value is kept makes no difference");
    assert_ne!(value_hash(&text), 0);
}
