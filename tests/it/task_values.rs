//! Values: what comes back bit for bit, whatever it is and wherever it is kept, and what is refused with nothing written.

#![expect(clippy::unwrap_used, reason = "a test, all of it")]

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::channel;

use foldlog::event::{Field, Item, Patch, Status, TaskId, Value};
use foldlog::task::{
    CommitOptions, ImportRecord, Op as TaskOp, TaskExpect, TaskStore, Tasks, VALUE_INLINE_MAX,
};
use foldlog::vfs::Vfs as _;
use foldlog::vfs::os::Os;
use foldlog::vfs::sim::{Op, Profile, SimMachine};
use foldlog::view::Query;
use foldlog::{BlobId, Durability, ErrorKind, Housekeeping, OpId, Options, Place, State, Store};

use super::simulated::{ROOT, paths};
use super::task_rules::{id, item};

const BUFFERED: Durability = Durability::Buffered;

fn options() -> Options {
    Options::default().housekeeping(Housekeeping::Off)
}

fn store_on(machine: &SimMachine, label: &str, options: Options) -> TaskStore {
    let process = Arc::new(machine.process(label));
    TaskStore::of(Store::open_on(process, Path::new(ROOT), TaskStore::options(options)).unwrap())
}

fn on(machine: &SimMachine, label: &str, options: Options) -> Tasks {
    store_on(machine, label, options).home(&Place::None).unwrap()
}

fn machine() -> (SimMachine, Tasks) {
    let machine = SimMachine::new(Profile::Linux, 1);
    let tasks = on(&machine, "w", options());
    (machine, tasks)
}

fn json(tasks: &Tasks, id: &str) -> String {
    tasks.get(id).unwrap().unwrap().task.item.to_json()
}

fn last(tasks: &Tasks) -> u64 {
    tasks.read(|state, _| state.last().0).unwrap()
}

fn code<T: std::fmt::Debug>(result: foldlog::Result<T>) -> &'static str {
    result.unwrap_err().code()
}

/// Whether a field is kept in a blob.
fn in_blob(tasks: &Tasks, id: &str, field: &Field) -> bool {
    tasks.read(|_, index| matches!(index.get(id).unwrap().item.get(field), Some(Value::Blob { .. }))).unwrap()
}

pub(crate) fn texts() -> Vec<String> {
    let mut texts: Vec<String> = [
        "0",
        "-0",
        "-1",
        "1.0",
        "1",
        "1.50",
        "1E+2",
        "1e5",
        "1e400",
        "-1e-400",
        "5e-324",
        "2.2250738585072011e-308",
        "0.1000000000000000055511151231257827",
        "0.123456789012345678901234567890",
        "9007199254740993",
        "9223372036854775807",
        "9223372036854775808",
        "18446744073709551615",
        "18446744073709551616",
        "-9223372036854775808",
        "-9223372036854775809",
        "340282366920938463463374607431768211456",
        "null",
        "true",
        "false",
        "\"\"",
        "[]",
        "{}",
        "[ ]",
        "{\"b\":1,\"a\":2}",
        "{\"b\" : [1 ,2 ] }",
        "[\"a\", \"b\"]",
        "[\"a\",\"b\"]",
        "[\"a\",1]",
        "[[\"a\"]]",
        "\"\\u0041\"",
        "\"\\/\"",
        "\"\\u001f\\u0000\"",
        "\"\\u001F\"",
        "\"\\ud83d\"",
        "\"\\udc00x\"",
        "[\"\\ud83d\"]",
        "{\"k\":\"\\ud83d\"}",
        "\"\\ud83d\\ude00\"",
        "\"😀\u{2028}\u{2029}\u{7f}\u{feff}\"",
        "\"\u{10ffff}\u{1d11e}é e\u{301}\"",
        "1161888007138312192",
    ]
    .map(str::to_owned)
    .to_vec();
    for depth in [127, 128, 1_000, 100_000] {
        texts.push(format!("{}1{}", "[".repeat(depth), "]".repeat(depth)));
        texts.push(format!("{}1{}", "{\"k\":".repeat(depth), "}".repeat(depth)));
    }
    texts.push(format!("\"{}\"", "t".repeat(10_000)));
    texts.push(format!("\"{}\"", "ü\\n".repeat(1 << 20)));
    texts.push(format!("[{}]", (0..5_000).map(|n| format!("\"child-{n}\"")).collect::<Vec<_>>().join(",")));
    texts.push(format!("[{}]", (0..5_000).map(|n| format!("{n}.0")).collect::<Vec<_>>().join(", ")));
    for len in [VALUE_INLINE_MAX as usize - 2, VALUE_INLINE_MAX as usize - 1, VALUE_INLINE_MAX as usize] {
        texts.push(format!("\"{}\"", "x".repeat(len)));
    }
    texts
}

#[test]
fn every_value_comes_back_bit_for_bit() {
    let dir = tempfile::tempdir().unwrap();
    let tasks = TaskStore::open(dir.path(), options()).unwrap().home(&Place::None).unwrap();
    let texts = texts();
    let mut expected = Vec::new();
    for (n, text) in texts.iter().enumerate() {
        let name = format!("v{n}");
        let first =
            item(&format!("{{\"id\":\"{name}\",\"x\":{text},\"totalCost\":{n}.10,\"ü\\u0041\":{n}}}"));
        let _ = tasks.create(first, BUFFERED).unwrap();
        let patch = Patch::parse(&format!("{{\"set\":{{\"y\":{text}}}}}")).unwrap();
        let title = TaskOp::Rename { id: id(&name), title: Value::parse(text).unwrap() };
        let _ = tasks.commit(vec![TaskOp::Patch { id: id(&name), patch }, title], BUFFERED).unwrap();
        expected.push(format!(
            "{{\"id\":\"{name}\",\"x\":{text},\"totalCost\":{n}.10,\"üA\":{n},\"y\":{text},\"task\":{text}}}"
        ));
        assert!(json(&tasks, &name) == expected[n], "{name}: {:.60}", text);
        let blob = Value::parse(text).unwrap().json_len() > VALUE_INLINE_MAX;
        assert_eq!(in_blob(&tasks, &name, &Field::of("y")), blob, "{name}: {:.60}", text);
    }
    let large = format!("{{\"id\":\"large\",\"x\":\"{}\"}}", "z".repeat(30 << 20));
    let _ = tasks.create(item(&large), BUFFERED).unwrap();
    let again = TaskStore::open(dir.path(), options().read_only(true)).unwrap().home(&Place::None).unwrap();
    for (n, expected) in expected.iter().enumerate() {
        assert!(json(&again, &format!("v{n}")) == *expected, "reopened: {:.60}", texts[n]);
    }
    assert!(json(&again, "large") == large);
    assert_eq!(again.list(&Query::default()).unwrap().total, texts.len() + 1);
    for n in [5, 8, texts.len() - 1] {
        let history = again.history(&id(&format!("v{n}"))).unwrap();
        assert_eq!(history.len(), 3);
        for (change, name) in history.iter().zip(["x", "y", "task"]) {
            let to = change.fields.iter().find(|f| f.field.name() == name).unwrap().to.clone().unwrap();
            assert!(again.value(&to).unwrap().to_json() == texts[n], "history of {:.60}", texts[n]);
        }
    }
    let hash = |tasks: &Tasks| tasks.read(|state, _| state.hash()).unwrap();
    assert_eq!(hash(&again), hash(&tasks));
}

/// The largest values go to blobs where a commit would not fit its frame: the small ones count too.
#[test]
fn commit_that_is_too_large_for_a_frame_spills() {
    let (machine, tasks) = machine();
    let filled = |name: &str, all: &[(usize, usize)]| {
        let mut made = Item::new(&id(name));
        for (f, len) in all.iter().flat_map(|&(count, len)| std::iter::repeat_n(len, count)).enumerate() {
            made.set(Field::of(&format!("f{f}")), format!("{f}").repeat(len / 4).as_str());
        }
        made
    };
    let many = [
        filled("mixed", &[(60, 59_000), (2_000, 640), (500, 700)]),
        // What is too short to spill alone fills the frame's half.
        filled("short", &[(3_800, 440), (55, 58_000)]),
    ];
    for made in many {
        let _ = tasks.create(made.clone(), BUFFERED).unwrap();
        let name = made.text(&Field::Id).unwrap();
        assert!(json(&tasks, &name) == made.to_json(), "{name}");
    }
    // A summary stands in two events.
    let ops = (0..50).flat_map(|n| {
        let (parent, child) = (id(&format!("p{n}")), Item::new(&id(&format!("c{n}"))));
        let summary = Some(Value::from(format!("{n}").repeat(29_000).as_str()));
        [
            TaskOp::Create { item: Item::new(&parent), again: false },
            TaskOp::Delegate { parent, child },
            TaskOp::Complete { id: id(&format!("c{n}")), summary },
        ]
    });
    let _ = tasks.commit(ops.collect(), BUFFERED).unwrap();
    let reader = on(&machine, "r", options().read_only(true));
    for name in ["mixed", "short", "p7", "c7", "p39"] {
        assert!(json(&reader, name) == json(&tasks, name), "{name}");
    }
    let summary = reader.get("p39").unwrap().unwrap().task;
    assert_eq!(summary.text(&Field::CompletionResultSummary).unwrap().len(), 58_000);
}

#[test]
fn commit_of_4096_changes_is_the_largest() {
    let (machine, tasks) = machine();
    let ops = |count: usize, mark: &str| -> Vec<TaskOp> {
        let make = |n| TaskOp::Create { item: Item::new(&id(&format!("{mark}{n}"))), again: false };
        (0..count).map(make).collect()
    };
    let written = || {
        let tree = machine.disk().tree();
        let names =
            tree.iter().map(|(path, ..)| path).filter(|p| p.contains("/log/") || p.contains("/blobs/"));
        names.map(|path| (path.clone(), machine.disk().read(path))).collect::<Vec<_>>()
    };
    let before = written();
    let e = tasks.commit(ops(4_097, "a"), BUFFERED).unwrap_err();
    assert!(matches!(e.kind(), ErrorKind::TooLarge { len: 4_097, max: 4_096, .. }), "{e}");
    assert_eq!((written(), last(&tasks)), (before, 0));
    // As the first commit of its session, which has something to say for itself.
    let done = tasks.commit(ops(4_096, "a"), BUFFERED).unwrap();
    assert_eq!((done.count, done.tasks.len()), (4_096, 4_096));
    let done = tasks.commit(ops(1, "b"), BUFFERED).unwrap();
    assert_eq!(done.count, 3, "which it says with the next");
    assert_eq!(on(&machine, "r", options().read_only(true)).list(&Query::default()).unwrap().total, 4_097);
}

#[test]
fn what_is_no_json_is_refused_at_the_door() {
    let dup = format!("{{\"id\":\"t\",\"x\":{}{{\"k\":1,\"k\":2}}{}}}", "[".repeat(5_000), "]".repeat(5_000));
    for text in [
        "{\"id\":\"t\",\"x\":NaN}",
        "{\"id\":\"t\",\"x\":Infinity}",
        "{\"id\":\"t\",\"x\":-Infinity}",
        "{\"id\":\"t\",\"x\":[1,NaN]}",
        "{\"id\":\"t\",\"id\":\"t\"}",
        "{\"id\":\"t\",\"x\":{\"a\":[{\"b\":1,\"\\u0062\":1}]}}",
        &dup,
        "{\"id\":\"t\",\"\\ud83d\":1}",
        "{\"id\":\"t\",}",
        "[]",
        "",
        "{\"id\":\"t\"",
        "{\"id\":\"t\"} x",
        "{\"id\":\"t\",\"x\":\"\t\"}",
        "{\"id\":\"t\",\"x\":01}",
    ] {
        let e = Item::parse(text).unwrap_err();
        assert!(e.code() == "invalid" && e.to_string().len() > 20, "{text:.60}: {e}");
        let patch = format!("{{\"set\":{text}}}");
        assert_eq!(code(Patch::parse(&patch)), "invalid", "{patch:.60}");
    }
    assert!(
        Value::parse("NaN").is_err() && Value::parse("\"\\ud83d\"").is_ok() && Value::parse("1 2").is_err()
    );
}

#[test]
fn what_is_too_large_is_refused_and_nothing_is_written() {
    let (machine, tasks) = machine();
    let _ = tasks.create(item(r#"{"id":"t"}"#), BUFFERED).unwrap();
    let before = (machine.disk().content_hash(), last(&tasks));
    let large = "x".repeat(100 << 20);
    assert_eq!(code(Item::parse(&format!("{{\"id\":\"u\",\"task\":\"{large}\"}}"))), "too-large");
    assert_eq!(code(Patch::parse(&format!("{{\"set\":{{\"task\":\"{large}\"}}}}"))), "too-large");
    assert_eq!(code(tasks.rename(&id("t"), &large, BUFFERED)), "too-large");
    assert_eq!(code(tasks.complete(&id("t"), Some(&large), BUFFERED)), "too-large");
    let titled = Item::new(&id("u")).with(Field::Task, large.as_str());
    assert_eq!(code(tasks.create(titled.clone(), BUFFERED)), "too-large");
    assert_eq!(code(tasks.delegate(&id("t"), titled, BUFFERED)), "too-large");
    assert_eq!(
        code(tasks.patch(&id("t"), Patch::new().set(Field::Task, large.as_str()), BUFFERED)),
        "too-large"
    );
    drop(large);
    // Each small enough, all together not.
    let part = "y".repeat(30 << 20);
    let parts =
        |item: Item| ["a", "b", "c"].iter().fold(item, |item, f| item.with(Field::of(f), part.as_str()));
    assert_eq!(code(tasks.create(parts(Item::new(&id("u"))), BUFFERED)), "too-large");
    let record = ImportRecord {
        id: id("u"),
        item: parts(Item::new(&id("u"))),
        source: "s".into(),
        weak: vec![],
        evidence: vec![],
    };
    assert_eq!(code(tasks.commit(vec![TaskOp::Import(record)], BUFFERED)), "too-large");
    let fields = |count: usize| {
        (0..count).fold(Patch::new(), |patch, n| patch.set(Field::of(&format!("f{n}")), n as u64))
    };
    assert_eq!(code(tasks.patch(&id("t"), fields(4_096), BUFFERED)), "too-large");
    let many =
        fields(4_096).sets().iter().fold(Item::new(&id("u")), |item, (f, v)| item.with(f.clone(), v.clone()));
    assert_eq!(code(tasks.create(many, BUFFERED)), "too-large");
    assert_eq!((machine.disk().content_hash(), last(&tasks)), before);
    // A task that is full can go on: what is there may change, shrink, and give way to other fields.
    let _ = tasks.patch(&id("t"), fields(4_095), BUFFERED).unwrap();
    let _ = tasks.set_status(&id("t"), Status::Interrupted, BUFFERED).unwrap();
    let _ = tasks.patch(&id("t"), Patch::new().set(Field::of("f1"), "changed"), BUFFERED).unwrap();
    assert_eq!(
        code(tasks.patch(&id("t"), Patch::new().set(Field::of("more"), 1_i64), BUFFERED)),
        "too-large"
    );
    assert_eq!(code(tasks.rename(&id("t"), "a field more", BUFFERED)), "too-large");
    let swap = ["f2", "f3"].iter().fold(Patch::new().set(Field::Task, "t"), |p, f| p.unset(Field::of(f)));
    let _ = tasks.patch(&id("t"), swap, BUFFERED).unwrap();
    let _ = tasks.rename(&id("t"), "now it is there", BUFFERED).unwrap();
    let _ = tasks.complete(&id("t"), None, BUFFERED).unwrap();
}

#[test]
fn child_ids_that_are_no_array_of_strings_are_refused() {
    let (_machine, tasks) = machine();
    let _ = tasks.create(item(r#"{"id":"t","childIds":7}"#), BUFFERED).unwrap();
    for text in ["1", "\"a\"", "[1]", "[\"a\",null]", "{}", "null"] {
        let patch = Patch::new().set(Field::ChildIds, Value::parse(text).unwrap());
        assert_eq!(code(tasks.patch(&id("t"), patch, BUFFERED)), "invalid", "{text}");
    }
    let same = Patch::new().set(Field::ChildIds, 7_i64);
    assert_eq!(tasks.patch(&id("t"), same, BUFFERED).unwrap().count, 0, "as it is already");
    let odd = Patch::new().set(Field::ChildIds, Value::parse("[ \"\\u0061\" ]").unwrap());
    let _ = tasks.patch(&id("t"), odd, BUFFERED).unwrap();
    assert_eq!(json(&tasks, "t"), r#"{"id":"t","childIds":["a"]}"#);
}

#[test]
fn unsafe_ids_are_refused_by_every_verb() {
    let (_machine, tasks) = machine();
    let store = TaskStore::memory(options()).unwrap();
    let _ = tasks.create(item(r#"{"id":"t"}"#), BUFFERED).unwrap();
    let before = last(&tasks);
    let long = "x".repeat(300);
    for bad in [
        "../x", "CON", "com1.txt", "_a", ".b", "a/b", "a\\b", "a:b", "a.", "a ", "a\0b", "a\nb", "", "..",
        "a|b", &long,
    ] {
        assert_eq!(code(TaskId::new(bad)), "invalid", "{bad:?}");
        let made = |field: Field| Item::new(&id("u")).with(field, bad);
        assert_eq!(code(tasks.create(made(Field::Id), BUFFERED)), "invalid", "{bad:?}");
        assert_eq!(code(tasks.create(made(Field::ParentTaskId), BUFFERED)), "invalid", "{bad:?}");
        assert_eq!(code(tasks.delegate(&id("t"), made(Field::Id), BUFFERED)), "invalid", "{bad:?}");
        assert_eq!(code(store.create(&Place::None, made(Field::Id), BUFFERED)), "invalid", "{bad:?}");
        let ops = vec![
            TaskOp::Patch { id: id("t"), patch: Patch::new().set(Field::Mode, "m") },
            TaskOp::Create { item: made(Field::Id), again: false },
        ];
        assert_eq!(code(tasks.commit(ops, BUFFERED)), "invalid", "{bad:?}");
        assert!(tasks.get(bad).unwrap().is_none() && store.get(bad).unwrap().is_empty(), "{bad:?}");
        if !bad.is_empty() {
            assert_eq!(
                code(store.create(&Place::None, made(Field::ParentTaskId), BUFFERED)),
                "invalid",
                "{bad:?}"
            );
        }
    }
    for bad in [r#"{"x":1}"#, r#"{"id":7}"#, r#"{"id":null}"#, r#"{"id":"\ud83d"}"#] {
        assert_eq!(code(tasks.create(item(bad), BUFFERED)), "invalid", "{bad}");
    }
    assert_eq!(last(&tasks), before);
}

/// A blob that is gone, or is not what it was: the task says so and names it; all others, and what needs no values, go on.
#[test]
fn lost_blob_is_told_and_hurts_nobody_else() {
    let (machine, tasks) = machine();
    let process = machine.process("vandal");
    let big = |c: &str| c.repeat(100_000);
    for (name, c) in [("gone", "g"), ("bent", "b"), ("fine", "f")] {
        let made = Item::new(&id(name)).with(Field::Task, big(c).as_str());
        let _ = tasks.create(made, BUFFERED).unwrap();
    }
    let blob = |c: &str| BlobId::of(format!("\"{}\"", big(c)).as_bytes());
    process.unlink(&paths(&process).blob(&blob("g"))).unwrap();
    let bent = paths(&process).blob(&blob("b"));
    machine.with_disk(|disk| disk.mutate(&bent, |bytes| bytes[500] ^= 1)).unwrap();
    for (who, tasks) in [("writer", tasks.clone()), ("reader", on(&machine, "r", options().read_only(true)))]
    {
        let e = tasks.get("gone").unwrap_err();
        assert!(matches!(e.kind(), ErrorKind::BlobMissing { blob: b } if *b == blob("g")), "{who}: {e}");
        assert!(e.to_string().contains(&blob("g").to_string()), "{who}: {e}");
        let e = tasks.get("bent").unwrap_err();
        assert!(e.code() == "damaged" && e.to_string().contains(&blob("b").to_string()), "{who}: {e}");
        assert_eq!(json(&tasks, "fine"), format!(r#"{{"id":"fine","task":"{}"}}"#, big("f")), "{who}");
        assert_eq!(tasks.list(&Query::default()).unwrap().tasks.len(), 3, "{who}");
        assert_eq!(tasks.history(&id("gone")).unwrap().len(), 1, "{who}");
        assert_eq!(tasks.totals("bent").unwrap().tasks, 1);
    }
    // What names no lost value can be changed, by whoever looks for the task's home too.
    let store = store_on(&machine, "s", options());
    let elsewhere = Place::Key("elsewhere".into());
    let made = store.create(&elsewhere, item(r#"{"id":"gone"}"#), BUFFERED);
    assert_eq!(made.unwrap_err().code(), "task-exists", "an id is taken where its values are lost");
    let _ = store.home(&elsewhere).unwrap().create(item(r#"{"id":"other"}"#), BUFFERED).unwrap();
    for name in ["gone", "bent"] {
        let patch = TaskOp::Patch { id: id(name), patch: Patch::new().set(Field::Mode, "m") };
        let (home, _) = store.commit(vec![patch], BUFFERED).unwrap();
        assert_eq!(home.workspace().name(), tasks.workspace().name());
        let mended = TaskOp::Rename { id: id(name), title: "short".into() };
        let _ = store.commit(vec![mended], BUFFERED).unwrap();
        assert_eq!(json(&tasks, name), format!(r#"{{"id":"{name}","task":"short","mode":"m"}}"#));
    }
}

/// An expectation that something is absent names no home.
#[test]
fn expecting_absence_needs_no_task() {
    let store = TaskStore::memory(options()).unwrap();
    let _ = store.create(&Place::None, item(r#"{"id":"t"}"#), BUFFERED).unwrap();
    let patch = || vec![TaskOp::Patch { id: id("t"), patch: Patch::new().set(Field::Mode, "m") }];
    let absent = |name: &str| CommitOptions::from(BUFFERED).expect(&id(name), TaskExpect::Absent);
    let _ = store.commit(patch(), absent("u")).unwrap();
    assert_eq!(code(store.commit(patch(), absent("t"))), "conflict");
}

/// A blob that is swept between being stored and being named under LOCK is stored again, and the commit repeated.
#[test]
fn blob_swept_before_the_lock_is_stored_again() {
    let (machine, tasks) = machine();
    let process = machine.process("sweeper");
    let title = "t".repeat(70_000);
    let text = format!("\"{title}\"");
    let blob = paths(&process).blob(&BlobId::of(text.as_bytes()));
    // What storing it takes, on a machine alike: the sync of a folder comes last.
    let syncs = {
        let (machine, tasks) = self::machine();
        let before = machine.calls(Op::SyncDir);
        tasks.workspace().put_blobs(&[text.as_bytes()]).unwrap();
        machine.calls(Op::SyncDir) - before
    };
    let before = machine.calls(Op::SyncDir);
    let (inside, is_inside) = channel();
    let (go, may_go) = channel::<()>();
    let holder = tasks.workspace().clone();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let _ = holder.commit(BUFFERED, move |_: &State, _| {
                inside.send(()).unwrap();
                may_go.recv().unwrap();
                Ok(())
            });
        });
        is_inside.recv().unwrap();
        let made = Item::new(&id("t")).with(Field::Task, title.as_str());
        let commit = scope.spawn(|| tasks.create(made, BUFFERED));
        // It stores its blob before it asks for the lock, which is taken.
        while machine.calls(Op::SyncDir) < before + syncs {
            std::thread::yield_now();
        }
        process.unlink(&blob).unwrap();
        go.send(()).unwrap();
        assert_eq!(commit.join().unwrap().unwrap().tasks.len(), 1);
    });
    let reader = on(&machine, "r", options().read_only(true));
    assert_eq!(json(&reader, "t"), format!(r#"{{"id":"t","task":{text}}}"#));
}

/// All of a request counts for whether it is the same: where a record came from, and what was not chosen, too.
#[test]
fn request_is_the_same_only_if_all_of_it_is() {
    let (_machine, tasks) = machine();
    let send = |source: &str, evidence: &str| {
        let evidence = vec![("b".to_owned(), Value::parse(evidence).unwrap())];
        let record = ImportRecord {
            id: id("t"),
            item: item(r#"{"id":"t"}"#),
            source: source.into(),
            weak: vec![],
            evidence,
        };
        tasks.commit(vec![TaskOp::Import(record)], CommitOptions::from(BUFFERED).op_id(OpId([1; 16])))
    };
    assert!(!send("a", "1").unwrap().again);
    assert!(send("a", "1").unwrap().again);
    assert_eq!(code(send("z", "1")), "op-id-reused");
    assert_eq!(code(send("a", "2")), "op-id-reused");
}

/// What the packages of other languages read too.
#[test]
fn corpus_that_all_languages_share_comes_back_byte_for_byte() {
    let (machine, tasks) = machine();
    let corpus = |text: &str| serde_json::from_str::<Vec<String>>(text).unwrap();
    let values = corpus(include_str!("../../bindings/corpus/values.json"));
    assert!(values.len() > 30);
    for (n, text) in values.iter().enumerate() {
        let whole = format!(r#"{{"id":"t{n}","v":{text}}}"#);
        let _ = tasks.create(item(&whole), BUFFERED).unwrap();
        let reader = on(&machine, "r", options().read_only(true));
        assert_eq!((json(&tasks, &format!("t{n}")), json(&reader, &format!("t{n}"))), (whole.clone(), whole));
    }
    let before = last(&tasks);
    for text in corpus(include_str!("../../bindings/corpus/refused.json")) {
        let patch = Patch::parse(&format!(r#"{{"set":{{"v":{text}}}}}"#));
        assert_eq!(code(patch), "invalid", "{text}");
    }
    assert_eq!(last(&tasks), before);
}

/// Two features of serde_json change what a number or an object comes to for everybody in a program: this crate must not
/// turn them on for its users, and keeps its promises without them.
#[test]
fn features_that_change_json_for_everybody_are_off() {
    let manifests = [
        include_str!("../../Cargo.toml"),
        include_str!("../../bindings/requests/Cargo.toml"),
        include_str!("../../tools/foldlog/Cargo.toml"),
        include_str!("../../fuzz/Cargo.toml"),
    ];
    for manifest in manifests {
        for feature in ["arbitrary_precision", "preserve_order", "float_roundtrip", "unbounded_depth"] {
            assert!(!manifest.contains(feature), "{feature}");
        }
    }
    let line = manifests[0].lines().find(|line| line.starts_with("serde_json")).unwrap();
    assert_eq!(line, r#"serde_json = { version = "1", features = ["raw_value"] }"#);
    // Nor does a dependency: this binary has them all.
    let parsed: serde_json::Value = serde_json::from_str(r#"{"b":1,"a":18446744073709551616}"#).unwrap();
    let text = parsed.to_string();
    assert!(text.starts_with(r#"{"a":1.8446744073709552e"#) && text.ends_with(r#","b":1}"#), "{text}");
}

/// The variants are open to everybody. What a caller puts together comes back to every process as one thing, or is refused;
/// it must not be acknowledged and then be unreadable, and a known name spelled out must not pass by the rules.
#[test]
fn values_and_fields_put_together_by_hand_are_what_others_read() {
    let (machine, tasks) = machine();
    let _ = tasks.create(Item::new(&id("t")), BUFFERED).unwrap();
    let other = |name: &str| Field::Other(name.into());
    let patch = |field, value: Value| Patch::new().set(field, value);
    for (value, text) in [
        (Value::Raw("1".into()), "1"),
        (Value::Raw("[\"a\"]".into()), "[\"a\"]"),
        (Value::UInt(5), "5"),
        (Value::Strings(Arc::new([])), "[]"),
    ] {
        let _ = tasks.patch(&id("t"), patch(Field::of("v"), value.clone()), BUFFERED).unwrap();
        assert_eq!(json(&tasks, "t"), format!(r#"{{"id":"t","v":{text}}}"#));
        let again = tasks.patch(&id("t"), patch(Field::of("v"), value), BUFFERED).unwrap();
        assert_eq!(again.count, 0, "{text}: it is there");
    }
    let before = last(&tasks);
    for value in ["{", "", "NaN", "1 2", r#"{"a":1,"a":2}"#] {
        let raw = Value::Raw(value.into());
        assert_eq!(
            code(tasks.patch(&id("t"), patch(Field::Mode, raw.clone()), BUFFERED)),
            "invalid",
            "{value}"
        );
        let made = Item::new(&id("u")).with(Field::Mode, raw.clone());
        assert_eq!(code(tasks.create(made, BUFFERED)), "invalid", "{value}");
        let op = || TaskOp::Complete { id: id("t"), summary: Some(raw.clone()) };
        assert_eq!(code(tasks.commit(vec![op()], BUFFERED)), "invalid", "{value}");
        assert_eq!(code(tasks.judge(&[op()])), "invalid", "{value}");
    }
    let endless = Value::Blob { id: BlobId([7; 32]), len: u64::MAX };
    assert_eq!(code(tasks.patch(&id("t"), patch(Field::Mode, endless), BUFFERED)), "invalid");
    assert_eq!(
        code(tasks.patch(&id("t"), patch(other("status"), "completed".into()), BUFFERED)),
        "ruled-field"
    );
    assert_eq!(code(tasks.patch(&id("t"), Patch::new().unset(other("id")), BUFFERED)), "ruled-field");
    let twice = patch(Field::Ts, Value::Int(1)).set(other("ts"), Value::Int(2));
    assert_eq!(code(tasks.patch(&id("t"), twice, BUFFERED)), "invalid");
    assert_eq!(last(&tasks), before, "nothing was written");
    let _ = tasks.patch(&id("t"), patch(other("ts"), Value::Int(3)), BUFFERED).unwrap();
    assert_eq!(tasks.get("t").unwrap().unwrap().task.ts().to_bits(), 3_f64.to_bits());
    let fresh = on(&machine, "fresh", options().read_only(true));
    let hash = |tasks: &Tasks| tasks.read(|state, _| state.hash()).unwrap();
    assert_eq!(hash(&tasks), hash(&fresh));
    assert!(fresh.check().unwrap().is_empty());
}

/// Everybody else waits while a commit is judged.
#[test]
fn time_under_the_lock_grows_with_what_is_asked_for_and_no_faster() {
    let (_machine, tasks) = machine();
    let ids = |from: usize, to: usize| Value::strings((from..to).map(|n| format!("child-{n:06}")));
    let _ = tasks.create(Item::new(&id("t")), BUFFERED).unwrap();
    let started = Os.monotonic();
    for n in 0..3 {
        let all = Patch::new().set(Field::ChildIds, ids(n * 50_000, (n + 2) * 50_000));
        let _ = tasks.patch(&id("t"), all, BUFFERED).unwrap();
    }
    let dropped = (0..150_000).map(|n| format!("child-{n:06}"));
    let _ = tasks.patch(&id("t"), Patch::new().drop_children(dropped), BUFFERED).unwrap();
    assert_eq!(tasks.get("t").unwrap().unwrap().task.child_ids().len(), 50_000);
    let took = Os.monotonic().saturating_sub(started);
    assert!(took.as_secs() < 20, "{took:?}");
}
