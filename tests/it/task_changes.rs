//! What changes in tasks, as it is told to a user interface.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::sync::Arc;
use std::time::Duration;

use foldlog::task::{TaskChange, TaskChanges, TaskCommit, TaskUpdate};
use foldlog::vfs::sim::{Effect, Fault, Op, Profile, SimMachine, SimProcess};
use foldlog::{
    Durability, Field, Item, Options, Patch, Place, Since, Status, Store, TaskId, TaskStatus, TaskStore,
    Tasks, Value,
};

use crate::simulated::ROOT;

fn open_on(process: &SimProcess, read_only: bool) -> (TaskStore, Tasks) {
    let options = Options::default()
        .housekeeping(foldlog::Housekeeping::Off)
        .lock_timeout(Duration::from_millis(200))
        .read_only(read_only);
    let store =
        Store::open_on(Arc::new(process.clone()), std::path::Path::new(ROOT), TaskStore::options(options));
    let store = TaskStore::of(store.unwrap());
    let tasks = store.home(&Place::Key("project".into())).unwrap();
    (store, tasks)
}

fn item(id: &str) -> Item {
    Item::parse(&format!(r#"{{"id":"{id}","task":"{id}","tokensIn":1}}"#)).unwrap()
}

fn id(text: &str) -> TaskId {
    TaskId::new(text).unwrap()
}

fn commits(changes: &mut TaskChanges) -> Vec<TaskCommit> {
    let mut all = Vec::new();
    while let Some(update) = changes.try_next().unwrap() {
        match update {
            TaskUpdate::Commit(commit) => all.push(commit),
            other => panic!("{other:?}"),
        }
    }
    all
}

fn of<'a>(commit: &'a TaskCommit, wanted: &str) -> &'a TaskChange {
    commit.changes.iter().find(|change| change.id.as_str() == wanted).unwrap()
}

/// From now, from the beginning and from the middle the same is told, with what was before.
#[test]
fn changes_are_told_with_what_was_before() {
    let machine = SimMachine::new(Profile::Linux, 1);
    let (_a, writer) = open_on(&machine.process("writer"), false);
    let _ = writer.create(item("old"), Durability::Buffered).unwrap();
    let (_b, reader) = open_on(&machine.process("reader"), false);
    let mut now = reader.changes(Since::Now).unwrap();
    let begin = now.cursor();
    assert_eq!(now.task("old").unwrap().status(), TaskStatus::Active);

    let _ = writer
        .patch(&id("old"), Patch::new().set(Field::TokensIn, Value::from(5_u64)), Durability::Buffered)
        .unwrap();
    let _ = writer.delegate(&id("old"), item("child"), Durability::Buffered).unwrap();
    let _ = writer.complete(&id("child"), Some("done"), Durability::Buffered).unwrap();
    let _ = writer.set_status(&id("old"), TaskStatus::Interrupted, Durability::Buffered).unwrap();
    let _ = writer.remove(&[id("child")], false, Durability::Buffered).unwrap();

    let told = commits(&mut now);
    let [patched, delegated, completed, interrupted, removed] = &told[..] else { panic!("{told:#?}") };
    let field = &of(patched, "old").change.fields[0];
    assert_eq!(
        (&field.field, &field.from, &field.to),
        (&Field::TokensIn, &Some(Value::from(1_u64)), &Some(Value::from(5_u64)))
    );
    assert_eq!(of(delegated, "old").status(), Some((TaskStatus::Active, TaskStatus::Delegated)));
    assert!(of(delegated, "child").is_creation());
    assert!(of(completed, "child").status().is_some_and(|(_, to)| to == TaskStatus::Completed));
    assert_eq!(of(completed, "old").status(), Some((TaskStatus::Delegated, TaskStatus::Active)));
    assert_eq!(of(interrupted, "old").status(), Some((TaskStatus::Active, TaskStatus::Interrupted)));
    assert!(of(removed, "child").is_deletion());
    assert!(now.task("child").is_none());

    let text =
        |all: &[TaskCommit]| all.iter().map(|commit| format!("{:?}", commit.changes)).collect::<Vec<_>>();
    let mut again = reader.changes(Since::Cursor(begin)).unwrap();
    assert_eq!(text(&commits(&mut again)), text(&told), "from a place in the past");
    let all = commits(&mut reader.changes(Since::Beginning).unwrap());
    assert_eq!(text(&all[all.len() - told.len()..]), text(&told));
    assert!(of(&all[0], "old").is_creation());
    // Each task's changes are those of its history.
    for task in ["old", "child"] {
        let mine = all.iter().flat_map(|commit| &commit.changes).filter(|change| change.id.as_str() == task);
        let mine: Vec<_> = mine.map(|change| change.change.clone()).collect();
        assert_eq!(mine, reader.history(&id(task)).unwrap());
    }
}

fn health(changes: &mut TaskChanges) -> Status {
    loop {
        match changes.next_within(Duration::from_secs(5)).unwrap() {
            Some(TaskUpdate::Health(health)) => return health.status,
            Some(_) => {}
            None => panic!("no word of it"),
        }
    }
}

#[test]
fn health_is_told_when_it_turns() {
    let machine = SimMachine::new(Profile::Linux, 1);
    let loser = machine.process("loser");
    let (_a, writer) = open_on(&loser, false);
    let _ = writer.create(item("a"), Durability::Durable).unwrap();
    let (_b, reader) = open_on(&machine.process("reader"), false);
    let mut changes = reader.changes(Since::Now).unwrap();
    assert!(changes.try_next().unwrap().is_none(), "healthy at the start is nothing to tell");
    let (_c, looker) = open_on(&machine.process("looker"), true);
    let mut looks = looker.changes(Since::Now).unwrap();
    assert_eq!(health(&mut looks), Status::ReadOnly);

    machine.fault(Fault::on(Op::Sync, Effect::DropsPages).path("/log/0"));
    assert!(writer.create(item("b"), Durability::Durable).is_err());
    machine.clear_faults();
    assert_eq!(health(&mut changes), Status::DurabilityLost);
    assert_eq!(health(&mut looks), Status::DurabilityLost);
    machine.kill(&loser);
    let (_d, heir) = open_on(&machine.process("heir"), false);
    let _ = heir.create(item("c"), Durability::Durable).unwrap();
    assert_eq!(health(&mut changes), Status::Healthy);
    assert_eq!(health(&mut looks), Status::ReadOnly);
    assert!(changes.task("c").is_some());
}

/// Damage is no error here: it is told once, and waiting for better times takes its time.
#[test]
fn damage_is_told_once_and_so_is_its_repair() {
    let machine = SimMachine::new(Profile::Linux, 1);
    let (store, writer) = open_on(&machine.process("writer"), false);
    for n in 0..9 {
        let _ = writer.create(item(&format!("task{n}")), Durability::Durable).unwrap();
    }
    drop((store, writer));
    let path = crate::simulated::segments(&machine.process("p")).remove(0);
    let bytes = crate::simulated::file(&machine.process("p"), &path);
    let at = bytes.windows(5).position(|bytes| bytes == b"task5").unwrap();
    machine.with_disk(|disk| disk.mutate(&path, |bytes| bytes[at] ^= 1)).unwrap();
    let (_a, reader) = open_on(&machine.process("reader"), false);
    let mut changes = reader.changes(Since::Beginning).unwrap();
    let mut told = 0;
    let found = loop {
        match changes.try_next().unwrap() {
            Some(TaskUpdate::Commit(_)) => told += 1,
            other => break other,
        }
    };
    assert!(matches!(found, Some(TaskUpdate::Health(health)) if health.status == Status::Damaged));
    assert!(told >= 5, "{told}");
    assert!(changes.next_within(Duration::from_secs(3)).unwrap().is_none());
    assert!(changes.wakings().by_time <= 8, "it does not spin: {:?}", changes.wakings());
    let (_b, mender) = open_on(&machine.process("mender"), false);
    let _ = mender.workspace().log().repair().unwrap();
    let _ = mender.create(item("new"), Durability::Durable).unwrap();
    assert_eq!(health(&mut changes), Status::Healthy);
    assert!(changes.task("new").is_some() && changes.task("task8").is_some());
}
