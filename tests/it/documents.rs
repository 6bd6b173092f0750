//! Documents: what may follow what, values bit for bit, validators, commits that hold tasks and documents, where one is found.

#![expect(clippy::unwrap_used, reason = "a test, all of it")]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use foldlog::document::{DocumentSnapshot, Documents, GLOBAL_KEY, Whence};
use foldlog::event::{Field, Item, Patch, Value};
use foldlog::task::{CommitOptions, DocumentExpect, Op, TaskStore, TaskUpdate, Tasks, VALUE_INLINE_MAX};
use foldlog::vfs::sim::{Op as Call, Profile, SimMachine};
use foldlog::view::DocumentQuery;
use foldlog::{
    DocumentName, Durability, ErrorKind, Housekeeping, OpId, Options, Place, Revision, Since, Store,
};

use super::hooked::Hooked;
use super::simulated::ROOT;
use super::task_rules::id;

const BUFFERED: Durability = Durability::Buffered;
const ANY: DocumentExpect = DocumentExpect::Any;

pub(crate) fn name(name: &str) -> DocumentName {
    DocumentName::new(name).unwrap()
}

pub(crate) fn value(text: &str) -> Value {
    Value::parse(text).unwrap()
}

pub(crate) fn options() -> Options {
    Options::default().housekeeping(Housekeeping::Off)
}

pub(crate) fn store(machine: &SimMachine, label: &str, options: Options) -> TaskStore {
    let process = Arc::new(machine.process(label));
    TaskStore::of(Store::open_on(process, Path::new(ROOT), TaskStore::options(options)).unwrap())
}

pub(crate) fn on(machine: &SimMachine, label: &str, options: Options) -> Documents {
    store(machine, label, options).home(&Place::Key("project".into())).unwrap().documents()
}

fn open() -> (SimMachine, Documents) {
    let machine = SimMachine::new(Profile::Linux, 1);
    let all = on(&machine, "p", options());
    (machine, all)
}

pub(crate) fn text(all: &Documents, name: &str) -> Option<String> {
    all.get(name).unwrap().map(|found| found.document.value.to_json())
}

fn put(all: &Documents, at: &str, text: &str) -> foldlog::Result<foldlog::Committed> {
    all.put(&name(at), None, value(text), ANY, BUFFERED)
}

fn get(all: &Documents, name: &str) -> DocumentSnapshot {
    all.get(name).unwrap().unwrap()
}

fn code<T: std::fmt::Debug>(result: foldlog::Result<T>) -> &'static str {
    result.unwrap_err().code()
}

fn last(tasks: &Tasks) -> u64 {
    tasks.read(|state, _| state.last().0).unwrap()
}

fn hash(all: &Documents) -> blake3::Hash {
    all.read(|state, _| state.hash()).unwrap()
}

#[test]
fn document_is_written_changed_deleted_and_told() {
    let (machine, all) = open();
    assert_eq!((text(&all, "a"), code(all.require(&name("a")))), (None, "no-document"));
    let done = all.put(&name("a"), Some("settings"), value(r#"{ "x": 1 }"#), ANY, BUFFERED).unwrap();
    let found = get(&all, "a");
    assert_eq!(done.document(&name("a")), Some(found.token));
    assert_eq!((found.document.revision, found.document.kind.as_deref()), (Revision(1), Some("settings")));
    // As it is already: a success that writes nothing, and says at which revision that is.
    let again = put(&all, "a", r#"{ "x": 1 }"#).unwrap();
    assert_eq!((again.count, again.document(&name("a"))), (0, Some(found.token)));
    let patch = Patch::new().set(Field::of("y"), 2_i64).unset(Field::of("no"));
    let done = all.patch(&name("a"), patch.clone(), ANY, BUFFERED).unwrap();
    assert_eq!((text(&all, "a").as_deref(), done.count), (Some(r#"{"x":1,"y":2}"#), 1));
    assert_eq!(all.patch(&name("a"), patch, ANY, BUFFERED).unwrap().count, 0);
    // The kind stays until another is named, also where the value is not.
    let _ = put(&all, "a", "[1]").unwrap();
    assert_eq!(get(&all, "a").document.kind.as_deref(), Some("settings"));
    let _ = all.put(&name("a"), Some("list"), value("[1]"), ANY, BUFFERED).unwrap();
    assert_eq!(
        (get(&all, "a").document.kind.as_deref(), get(&all, "a").token.revision),
        (Some("list"), Revision(4))
    );
    let created = get(&all, "a").document.created;
    assert_eq!(
        all.delete(&name("a"), ANY, BUFFERED).unwrap().document(&name("a")).unwrap().revision,
        Revision(5)
    );
    assert_eq!((text(&all, "a"), code(all.require(&name("a")))), (None, "document-deleted"));
    let _ = all.put(&name("a"), None, value("7"), DocumentExpect::Absent, BUFFERED).unwrap();
    let reborn = get(&all, "a");
    assert_eq!((reborn.token.revision, reborn.document.kind.as_deref()), (Revision(6), None));
    assert!(reborn.document.created > created);
    let told: Vec<_> = all
        .history(&name("a"))
        .unwrap()
        .iter()
        .map(|c| (c.revision.0, c.lived, c.document.as_ref().map(|d| d.value.to_json())))
        .collect();
    let step = |revision, lived, text: Option<&str>| (revision, lived, text.map(str::to_owned));
    assert_eq!(
        told,
        [
            step(1, false, Some(r#"{ "x": 1 }"#)),
            step(2, true, Some(r#"{"x":1,"y":2}"#)),
            step(3, true, Some("[1]")),
            step(4, true, Some("[1]")),
            step(5, true, None),
            step(6, false, Some("7")),
        ]
    );
    assert_eq!(code(all.history(&name("b"))), "no-document");
    let reader = on(&machine, "r", options().read_only(true));
    assert_eq!((hash(&reader), text(&reader, "a")), (hash(&all), Some("7".into())));
    assert_eq!(all.tasks().check().unwrap(), []);
}

#[test]
fn expectation_decides_and_a_conflict_has_what_stands() {
    let (_machine, all) = open();
    let at = |token| DocumentExpect::At(token);
    let try_put = |expect, text: &str| all.put(&name("a"), None, value(text), expect, BUFFERED);
    assert_eq!(code(try_put(DocumentExpect::Exists, "1")), "conflict");
    assert_eq!(code(try_put(DocumentExpect::Revision(Revision(1)), "1")), "conflict");
    let first = try_put(DocumentExpect::Absent, "1").unwrap().document(&name("a")).unwrap();
    let second = try_put(at(first), "2").unwrap().document(&name("a")).unwrap();
    for expect in [DocumentExpect::Absent, at(first), DocumentExpect::Revision(Revision(1))] {
        let error = try_put(expect, "3").unwrap_err();
        let ErrorKind::Conflict(conflicts) = error.kind() else { panic!("{error}") };
        let current = conflicts[0].current.as_ref().unwrap();
        assert_eq!((current.revision, current.last), (second.revision, second.at));
        assert_eq!(current.folded.as_deref(), Some("2"), "{expect:?}");
    }
    // What is only rested upon decides as well, and is judged as it stood before the commit.
    let both = vec![
        Op::PutDocument { name: name("b"), kind: None, value: value("1"), again: false },
        Op::DeleteDocument { name: name("a") },
    ];
    let resting = |token| CommitOptions::from(BUFFERED).expect_document(&name("a"), at(token));
    assert_eq!(code(all.tasks().commit(both.clone(), resting(first))), "conflict");
    assert_eq!(text(&all, "b"), None);
    let _ = all.tasks().commit(both, resting(second)).unwrap();
    // Whoever is late brings nothing back.
    let patch = || Patch::new().set(Field::of("x"), 1_i64);
    for expect in [ANY, DocumentExpect::Exists, at(second), DocumentExpect::Revision(Revision(3))] {
        assert_eq!(code(try_put(expect, "9")), "document-deleted", "{expect:?}");
        assert_eq!(code(all.patch(&name("a"), patch(), expect, BUFFERED)), "document-deleted");
        assert_eq!(code(all.delete(&name("a"), expect, BUFFERED)), "document-deleted");
    }
    assert_eq!(code(all.patch(&name("c"), patch(), ANY, BUFFERED)), "no-document");
    assert_eq!(code(all.delete(&name("c"), ANY, BUFFERED)), "no-document");
    assert_eq!(code(all.patch(&name("b"), patch(), ANY, BUFFERED)), "invalid");
    assert_eq!(code(all.put(&name("b"), Some("a\nb"), value("1"), ANY, BUFFERED)), "invalid");
    assert_eq!(text(&all, "b").as_deref(), Some("1"));
}

#[test]
fn tasks_and_documents_change_together_or_not_at_all() {
    let (machine, all) = open();
    let tasks = all.tasks();
    let ops = |task: &str| {
        vec![
            Op::PutDocument { name: name("a"), kind: None, value: value(r#"{"n":1}"#), again: false },
            Op::PatchDocument { name: name("a"), patch: Patch::new().set(Field::of("m"), 2_i64) },
            Op::Create { item: Item::new(&id(task)), again: false },
        ]
    };
    let op = CommitOptions::from(BUFFERED).op_id(OpId([7; 16]));
    let first = tasks.commit(ops("t"), op.clone()).unwrap();
    assert_eq!(text(&all, "a").as_deref(), Some(r#"{"n":1,"m":2}"#));
    assert_eq!(first.document(&name("a")).unwrap(), get(&all, "a").token);
    let again = tasks.commit(ops("t"), op).unwrap();
    assert!(again.again && again.documents == first.documents && again.tasks == first.tasks);
    let before = (last(tasks), hash(&all));
    let mut refused = ops("t");
    refused.insert(0, Op::DeleteDocument { name: name("a") });
    assert_eq!(code(tasks.commit(refused, BUFFERED)), "document-deleted");
    assert_eq!(code(tasks.commit(ops("t"), BUFFERED)), "task-exists");
    assert_eq!((last(tasks), hash(&all)), before);
    assert_eq!(tasks.judge(&ops("u")).unwrap().events, 3);
    // Subscribers get the whole of it, and documents that change alone.
    let mut changes = tasks.changes(Since::Now).unwrap();
    let _ = tasks.commit(ops("u"), BUFFERED).unwrap();
    let other = on(&machine, "q", options());
    let _ = put(&other, "b", "true").unwrap();
    let mut told = Vec::new();
    while let Some(TaskUpdate::Commit(commit)) = changes.try_next().unwrap() {
        let names =
            |c: &foldlog::view::DocumentChange| (c.name.to_string(), c.revision.0, c.document.is_some());
        told.push((commit.changes.len(), commit.documents.iter().map(names).collect::<Vec<_>>()));
    }
    let a = |revision| ("a".to_owned(), revision, true);
    assert_eq!(told, [(1, vec![a(3), a(4)]), (0, vec![("b".into(), 1, true)])]);
    assert_eq!(changes.documents().get("a").unwrap().value.to_json(), r#"{"n":1,"m":2}"#);
    // From the past it is told alike.
    let mut changes = tasks.changes(Since::Beginning).unwrap();
    let mut revisions = Vec::new();
    while let Some(TaskUpdate::Commit(commit)) = changes.try_next().unwrap() {
        revisions.extend(commit.documents.iter().map(|c| (c.name.to_string(), c.revision.0)));
    }
    let expected = [("a", 1), ("a", 2), ("a", 3), ("a", 4), ("b", 1)].map(|(name, n)| (name.to_owned(), n));
    assert_eq!(revisions, expected);
}

#[test]
fn every_value_comes_back_bit_for_bit() {
    let (machine, all) = open();
    let texts = super::task_values::texts();
    for (n, given) in texts.iter().enumerate() {
        let at = format!("v{n}");
        let _ = put(&all, &at, given).unwrap();
        let _ = all
            .patch(&name("members"), Patch::new().set(Field::of(&at), value(given)), ANY, BUFFERED)
            .or_else(|_| put(&all, "members", &format!("{{\"{at}\":{given}}}")))
            .unwrap();
        assert!(text(&all, &at).as_deref() == Some(given), "{given:.60}");
    }
    let members: Vec<String> = texts.iter().enumerate().map(|(n, text)| format!("\"v{n}\":{text}")).collect();
    let whole = format!("{{{}}}", members.join(","));
    assert!(text(&all, "members").unwrap() == whole);
    let reader = on(&machine, "r", options().read_only(true));
    assert!(text(&reader, "members").unwrap() == whole);
    for (n, given) in texts.iter().enumerate() {
        let at = format!("v{n}");
        assert!(text(&reader, &at).as_deref() == Some(given), "reopened: {given:.60}");
        let history = reader.history(&name(&at)).unwrap();
        let value = reader.tasks().value(&history[0].document.as_ref().unwrap().value).unwrap();
        assert!(value.to_json() == *given && history.len() == 1, "history: {given:.60}");
        let blob = value.json_len() > VALUE_INLINE_MAX;
        let kept = reader.read(|_, all| matches!(all.get(&at).unwrap().value, Value::Blob { .. })).unwrap();
        assert_eq!(kept, blob, "{given:.60}");
    }
    assert_eq!(hash(&reader), hash(&all));
    let large = value(&format!("\"{}\"", "x".repeat(65 << 20)));
    let before = last(all.tasks());
    assert_eq!(code(all.put(&name("large"), None, large, ANY, BUFFERED)), "too-large");
    assert_eq!(last(all.tasks()), before);
}

/// A large document is patched as a whole value, made ready before the lock; whoever was quicker is not overwritten.
#[test]
fn patch_of_a_large_document_outlives_others_that_come_between() {
    let machine = SimMachine::new(Profile::Linux, 1);
    let other = on(&machine, "q", options());
    let large = "x".repeat(100_000);
    let _ = put(&other, "a", &format!("{{\"large\":\"{large}\"}}")).unwrap();
    let _ = put(&other, "small", r#"{"n":0}"#).unwrap();
    let rounds = Arc::new(AtomicUsize::new(0));
    let (counted, beside) = (Arc::clone(&rounds), other.clone());
    // Each time a blob is about to be stored another process is quicker, three times over.
    let vfs = Hooked::new(Arc::new(machine.process("p")), move |op, path| {
        if op == Call::Create
            && path.to_string_lossy().contains("blobs")
            && counted.fetch_add(1, Ordering::Relaxed) < 3
        {
            let n = counted.load(Ordering::Relaxed);
            let patch = Patch::new().set(Field::of(&format!("q{n}")), n as u64);
            let _ = beside.patch(&name("a"), patch, ANY, BUFFERED).unwrap();
        }
    });
    let store = TaskStore::of(Store::open_on(vfs, Path::new(ROOT), TaskStore::options(options())).unwrap());
    let mine = store.home(&Place::Key("project".into())).unwrap().documents();
    let done = mine.patch(&name("a"), Patch::new().set(Field::of("p"), 7_i64), ANY, BUFFERED).unwrap();
    assert_eq!(done.document(&name("a")).unwrap().revision, Revision(5));
    let whole = format!("{{\"large\":\"{large}\",\"q1\":1,\"q2\":2,\"q3\":3,\"p\":7}}");
    assert!(text(&other, "a").unwrap() == whole);
    // Grown over the limit, shrunk below it, several operations in one commit.
    let grow = Patch::new().set(Field::of("g"), large.as_str());
    let ops = vec![
        Op::PatchDocument { name: name("small"), patch: grow },
        Op::PatchDocument { name: name("small"), patch: Patch::new().set(Field::of("n"), 1_i64) },
        Op::PatchDocument { name: name("a"), patch: Patch::new().unset(Field::of("large")) },
        Op::PatchDocument { name: name("a"), patch: Patch::new().unset(Field::of("q1")) },
    ];
    let _ = mine.tasks().commit(ops, BUFFERED).unwrap();
    assert!(text(&other, "small").unwrap() == format!("{{\"n\":1,\"g\":\"{large}\"}}"));
    assert_eq!(text(&other, "a").as_deref(), Some(r#"{"q2":2,"q3":3,"p":7}"#));
    assert!(other.read(|_, all| matches!(all.get("a").unwrap().value, Value::Raw(_))).unwrap());
    let _ = put(&other, "list", &format!("[\"{large}\"]")).unwrap();
    assert_eq!(
        code(mine.patch(&name("list"), Patch::new().set(Field::of("n"), 1_i64), ANY, BUFFERED)),
        "invalid"
    );
    assert_eq!(hash(&other), hash(&mine));
}

#[test]
fn validator_judges_what_would_stand_before_anything_is_written() {
    let machine = SimMachine::new(Profile::Linux, 1);
    let store = store(&machine, "p", options());
    let all = store.home(&Place::Key("project".into())).unwrap().documents();
    let _ = put(&all, "old", r#"{"n":-1}"#).unwrap();
    store.validate_documents("count", |name, value| match value.to_json() {
        text if text.contains("-1") => Err(format!("{name} is below zero")),
        _ => Ok(()),
    });
    let large = "x".repeat(100_000);
    let _ = all.put(&name("a"), Some("count"), value(r#"{"n":1}"#), ANY, BUFFERED).unwrap();
    let before = (last(all.tasks()), hash(&all));
    let patch = |text: &str| Patch::parse(&format!("{{\"set\":{text}}}")).unwrap();
    let put_as = |at: &str, kind, text: &str| all.put(&name(at), kind, value(text), ANY, BUFFERED);
    let bad_large = format!(r#"{{"large":"{large}","n":-1}}"#);
    assert_eq!(code(put_as("a", None, r#"{"n":-1}"#)), "document-refused");
    assert_eq!(code(put_as("a", None, &bad_large)), "document-refused");
    assert_eq!(code(put_as("b", Some("count"), r#"{"n":-1}"#)), "document-refused");
    assert_eq!(code(put_as("old", Some("count"), r#"{"n":-1}"#)), "document-refused");
    assert_eq!(code(all.patch(&name("a"), patch(r#"{"n":-1}"#), ANY, BUFFERED)), "document-refused");
    assert_eq!(code(all.patch(&name("a"), patch(&bad_large), ANY, BUFFERED)), "document-refused");
    let with_task = vec![
        Op::Create { item: Item::new(&id("t")), again: false },
        Op::PatchDocument { name: name("a"), patch: patch(r#"{"n":-1}"#) },
    ];
    assert_eq!(code(all.tasks().judge(&with_task)), "document-refused");
    let error = all.tasks().commit(with_task, BUFFERED).unwrap_err();
    let ErrorKind::DocumentRefused { name: of, kind, why } = error.kind() else { panic!("{error}") };
    assert_eq!((of.as_str(), kind.as_str(), why.as_str()), ("a", "count", "a is below zero"));
    assert_eq!((last(all.tasks()), hash(&all)), before);
    // Other kinds, other programs and what stands already are not its business.
    let _ = put_as("b", Some("other"), r#"{"n":-1}"#).unwrap();
    let _ = put_as("a", None, &format!(r#"{{"large":"{large}","n":1}}"#)).unwrap();
    assert_eq!(code(all.patch(&name("a"), patch(r#"{"n":-1}"#), ANY, BUFFERED)), "document-refused");
    let other = on(&machine, "q", options());
    let _ = other.patch(&name("a"), patch(r#"{"n":-1}"#), ANY, BUFFERED).unwrap();
    assert!(text(&all, "a").unwrap().contains("-1"));
    let global = store.global().unwrap().documents();
    assert_eq!(code(global.put(&name("g"), Some("count"), value("-1"), ANY, BUFFERED)), "document-refused");
}

#[test]
fn lists_come_in_pages_by_prefix_and_kind() {
    let (_machine, all) = open();
    for at in ["b/1", "a", "b/3", "b", "b/2", "c", "ü", "b/4"] {
        let kind = at.ends_with(['1', '2', '4']).then_some("leaf");
        let _ = all.put(&name(at), kind, value("1"), ANY, BUFFERED).unwrap();
    }
    let _ = all.delete(&name("b/2"), ANY, BUFFERED).unwrap();
    let names = |query: &DocumentQuery| {
        let page = all.list(query).unwrap();
        let names: Vec<String> = page.documents.iter().map(|found| found.document.name.to_string()).collect();
        (names.join(" "), page.next.map(|next| next.to_string()))
    };
    let query = |prefix: &str, kind: Option<&str>, after: Option<&str>, limit| DocumentQuery {
        prefix: prefix.into(),
        kind: kind.map(Into::into),
        after: after.map(name),
        limit,
    };
    assert_eq!(names(&DocumentQuery::default()), ("a b b/1 b/3 b/4 c ü".into(), None));
    assert_eq!(names(&query("b/", None, None, None)), ("b/1 b/3 b/4".into(), None));
    assert_eq!(names(&query("b/", Some("leaf"), None, Some(1))), ("b/1".into(), Some("b/1".into())));
    assert_eq!(names(&query("b/", Some("leaf"), Some("b/1"), Some(1))), ("b/4".into(), None));
    assert_eq!(names(&query("b/", None, Some("a"), Some(2))), ("b/1 b/3".into(), Some("b/3".into())));
    assert_eq!(names(&query("b/", None, Some("b/2"), None)), ("b/3 b/4".into(), None));
    assert_eq!(names(&query("b/", None, Some("c"), None)), (String::new(), None));
    assert_eq!(
        (all.read(|_, all| all.len()).unwrap(), names(&query("x", None, None, Some(0)))),
        (7, (String::new(), None))
    );
}

#[test]
fn workspace_comes_before_the_global_home_and_says_so() {
    let machine = SimMachine::new(Profile::Linux, 1);
    let store = store(&machine, "p", options());
    let local = store.home(&Place::Key("project".into())).unwrap();
    let found = |at: &str| {
        store.resolve(at, &local).unwrap().map(|(found, whence)| (found.document.value.to_json(), whence))
    };
    assert_eq!(found("a"), None);
    assert!(store.global_if_there().unwrap().is_none(), "looking makes nothing");
    let _ = put(&store.global().unwrap().documents(), "a", "1").unwrap();
    assert_eq!(found("a"), Some(("1".into(), Whence::Global)));
    let _ = put(&local.documents(), "a", "2").unwrap();
    assert_eq!(found("a"), Some(("2".into(), Whence::Workspace)));
    let _ = local.documents().delete(&name("a"), ANY, BUFFERED).unwrap();
    assert_eq!(found("a"), Some(("1".into(), Whence::Global)));
    assert_eq!(
        text(&store.home(&Place::Key(GLOBAL_KEY.into())).unwrap().documents(), "a").as_deref(),
        Some("1")
    );
    assert_eq!(text(&store.home(&Place::None).unwrap().documents(), "a"), None);
}

/// A commit that fails at the disk is taken back whole.
#[test]
fn commit_that_fails_leaves_documents_as_they_were() {
    let (machine, all) = open();
    let _ = put(&all, "a", r#"{"n":1}"#).unwrap();
    let before = (text(&all, "a"), hash(&all));
    machine.set_capacity(Some(machine.used()));
    let ops = || {
        vec![
            Op::PatchDocument { name: name("a"), patch: Patch::new().set(Field::of("n"), 2_i64) },
            Op::DeleteDocument { name: name("a") },
            Op::PutDocument {
                name: name("b"),
                kind: None,
                value: value(&format!("\"{}\"", "y".repeat(60_000))),
                again: false,
            },
        ]
    };
    assert_eq!(code(all.tasks().commit(ops(), BUFFERED)), "no-space");
    assert_eq!((text(&all, "a"), hash(&all), all.read(|_, all| all.len()).unwrap()), (before.0, before.1, 1));
    machine.set_capacity(None);
    let _ = all.tasks().commit(ops(), BUFFERED).unwrap();
    assert_eq!((text(&all, "a"), all.read(|_, all| all.len()).unwrap()), (None, 1));
    assert_eq!(hash(&on(&machine, "r", options().read_only(true))), hash(&all));
}

#[test]
fn validator_may_read_the_store_and_is_asked_again_where_others_were_quicker() {
    let machine = SimMachine::new(Profile::Linux, 1);
    let mine = on(&machine, "p", options());
    let other = on(&machine, "q", options());
    let _ = mine.put(&name("a"), Some("count"), value(r#"{"n":1}"#), ANY, BUFFERED).unwrap();
    let seen: Arc<std::sync::Mutex<Vec<String>>> = Arc::default();
    let (reads, told, asked) = (mine.clone(), Arc::clone(&seen), AtomicUsize::new(0));
    mine.tasks().validate_documents("count", move |name, value| {
        told.lock().unwrap().push(value.to_json());
        // It looks at what stands, which under the lock would wait for itself, and somebody else changes just that.
        assert!(reads.get(name.as_str()).unwrap().is_some());
        if asked.fetch_add(1, Ordering::SeqCst) == 0 {
            let patch = Patch::new().set(Field::of("other"), 7_i64);
            let _ = other.patch(name, patch, ANY, BUFFERED).unwrap();
        }
        match value.to_json().contains("bad") {
            true => Err("bad".into()),
            false => Ok(()),
        }
    });
    let _ = mine.patch(&name("a"), Patch::new().set(Field::of("n"), 2_i64), ANY, BUFFERED).unwrap();
    assert_eq!(text(&mine, "a").unwrap(), r#"{"n":2,"other":7}"#);
    assert_eq!(*seen.lock().unwrap(), [r#"{"n":2}"#, r#"{"n":2,"other":7}"#], "what then stood was judged");
    // What becomes of this kind meanwhile is judged too, and what is no longer is not refused by an old judgement.
    assert_eq!(
        code(mine.patch(&name("a"), Patch::new().set(Field::of("n"), "bad"), ANY, BUFFERED)),
        "document-refused"
    );
    assert_eq!(text(&mine, "a").unwrap(), r#"{"n":2,"other":7}"#);
}

#[test]
fn refusal_of_a_large_patch_is_told_behind_the_expectation_and_behind_the_first_answer() {
    let machine = SimMachine::new(Profile::Linux, 1);
    let (mine, other) = (on(&machine, "p", options()), on(&machine, "q", options()));
    let large = format!(r#"["{}"]"#, "x".repeat(100_000));
    let first = put(&mine, "a", r#"{"n":1}"#).unwrap();
    let patch = || Patch::new().set(Field::of("n"), 2_i64);
    let op_id = OpId([7; 16]);
    let named = || CommitOptions { op_id: Some(op_id), ..CommitOptions::from(BUFFERED) };
    let ops = || vec![Op::PatchDocument { name: name("a"), patch: patch() }];
    let done = mine.tasks().commit(ops(), named()).unwrap();
    // Somebody makes an array of it, and one that no event holds.
    let _ = put(&other, "a", &large).unwrap();
    let again = mine.tasks().commit(ops(), named()).unwrap();
    assert_eq!((again.again, again.first), (true, done.first), "what was applied has its first answer");
    let stale = DocumentExpect::At(first.document(&name("a")).unwrap());
    assert_eq!(code(mine.patch(&name("a"), patch(), stale, BUFFERED)), "conflict");
    assert_eq!(code(mine.patch(&name("a"), patch(), ANY, BUFFERED)), "invalid");
    assert_eq!(text(&mine, "a").unwrap(), large);
}

#[test]
fn what_several_patches_of_a_large_document_would_come_to_can_be_asked() {
    let (_machine, all) = open();
    let large = format!(r#"{{"a":"{}","n":1}}"#, "x".repeat(100_000));
    let _ = put(&all, "a", &large).unwrap();
    let patch =
        |field: &str| Op::PatchDocument { name: name("a"), patch: Patch::new().set(Field::of(field), 2_i64) };
    let judged = all.tasks().judge(&[patch("n"), patch("m"), patch("a")]).unwrap();
    assert_eq!(judged.events, 3);
    assert_eq!(text(&all, "a").unwrap(), large);
    let done = all.tasks().commit(vec![patch("n"), patch("m"), patch("a")], BUFFERED).unwrap();
    assert_eq!(done.count, 3);
    assert_eq!(text(&all, "a").unwrap(), r#"{"a":2,"n":2,"m":2}"#);
}
