//! What of the history is kept, and what becomes of requests when their events go.

#![expect(clippy::unwrap_used, reason = "a test, all of it")]

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use foldlog::event::{Field, Item, Patch, Retention, TaskId};
use foldlog::log::CompactReport;
use foldlog::task::{CommitOptions, Op, TaskStore, Tasks};
use foldlog::vfs::sim::{Profile, SimMachine};
use foldlog::{DocumentName, Durability, Housekeeping, OpId, Options, Recovery, Seq, Value};

use crate::simulated::tasks::{hash, open, open_with, options, replayed};

fn id(n: usize) -> TaskId {
    TaskId::new(&format!("t{n}")).unwrap()
}

fn step(tasks: &Tasks, n: usize, step: i64, options: CommitOptions) {
    let patch = Patch::new().set(Field::Ts, 1_784_000_000_000 + step).set(Field::TokensIn, step);
    let _ = tasks.patch(&id(n), patch, options).unwrap();
}

/// Three tasks with a hundred steps each, a second apart.
fn worked(machine: &SimMachine) -> Tasks {
    let tasks = open(machine);
    for n in 0..3 {
        let item = Item::new(&id(n)).with(Field::Ts, 1_i64).with(Field::TokensIn, 0_i64);
        let _ = tasks.create(item, Durability::Buffered).unwrap();
    }
    for s in 0..300 {
        machine.advance(Duration::from_secs(1));
        step(&tasks, usize::try_from(s % 3).unwrap(), s, Durability::Buffered.into());
    }
    tasks
}

/// Compacts all but the last few steps.
fn compact(tasks: &Tasks) -> Option<CompactReport> {
    let _ = tasks.workspace().snapshot().unwrap();
    step(tasks, 0, 9_999, Durability::Buffered.into());
    let _ = tasks.workspace().snapshot().unwrap();
    tasks.workspace().compact(&mut |_, _| ControlFlow::Continue(())).unwrap()
}

fn histories(tasks: &Tasks) -> [usize; 3] {
    [0, 1, 2].map(|n| tasks.history(&id(n)).unwrap().len())
}

fn limits(age: Option<u64>, count: Option<u64>, bytes: Option<u64>) -> Option<Retention> {
    Some(Retention::Limits { age: age.map(Duration::from_secs), count, bytes })
}

fn in_range(found: usize, from: usize, to: usize) -> bool {
    (from..=to).contains(&found)
}

#[test]
fn as_much_is_kept_as_is_said() {
    let none = Durability::Buffered;
    // What is said of the workspace and of the second task, and how much of each is left of a hundred and more.
    type Case = (Option<Retention>, Option<Retention>, [(usize, usize); 3]);
    let cases: [Case; 8] = [
        (None, None, [(2, 20), (2, 20), (2, 20)]),
        (Some(Retention::KeepAll), None, [(100, 103), (100, 103), (100, 103)]),
        (limits(None, Some(20), None), None, [(21, 40), (21, 40), (21, 40)]),
        (limits(Some(60), None, None), None, [(20, 40), (20, 40), (20, 40)]),
        // What comes first counts.
        (limits(Some(60), Some(5), None), None, [(6, 25), (6, 25), (6, 25)]),
        // About 64 bytes each, of all tasks together.
        (limits(None, None, Some(2_000)), None, [(8, 35), (8, 35), (8, 35)]),
        (None, limits(None, Some(50), None), [(2, 20), (51, 70), (2, 20)]),
        (Some(Retention::KeepAll), limits(None, Some(0), None), [(100, 103), (2, 20), (100, 103)]),
    ];
    for (at, (whole, own, left)) in cases.into_iter().enumerate() {
        let machine = SimMachine::new(Profile::Linux, at as u64);
        let tasks = worked(&machine);
        let _ = tasks.set_retention(None, whole, none).unwrap();
        let _ = tasks.set_retention(Some(&id(1)), own, none).unwrap();
        let again = tasks.set_retention(Some(&id(1)), own, none).unwrap();
        assert_eq!(again.count, 0, "said already");
        let right = hash(&tasks);
        let report = compact(&tasks);
        assert_eq!(report.is_some(), left.iter().any(|(from, _)| *from < 100), "case {at}: {report:?}");
        let found = histories(&tasks);
        for (n, (from, to)) in left.into_iter().enumerate() {
            assert!(in_range(found[n], from, to), "case {at}, task {n}: {} is not {from}..={to}", found[n]);
        }
        assert_ne!(hash(&tasks), right, "a step came since");
        for other in [open(&machine), replayed(&machine)] {
            assert_eq!(hash(&other), hash(&tasks), "case {at}");
            other
                .read(|_, index| {
                    assert_eq!((index.retention().workspace(), index.retention().task("t1")), (whole, own));
                })
                .unwrap();
        }
        // What is left is the newest.
        let history = tasks.history(&id(2)).unwrap();
        assert_eq!(history.last().unwrap().seq, tasks.get("t2").unwrap().unwrap().task.seq);
        // The same again finds nothing, and taking it back does.
        assert_eq!(compact(&tasks), None, "case {at}");
    }
}

#[test]
fn what_is_pinned_stays_whatever_is_said_and_is_forgotten_with_its_task() {
    let machine = SimMachine::new(Profile::Linux, 20);
    let tasks = worked(&machine);
    let none = Durability::Buffered;
    let _ = tasks.set_retention(Some(&id(1)), limits(None, Some(0), None), none).unwrap();
    let _ = tasks.pin(&id(1), true, none).unwrap();
    // Said by another process, and heard of only by compacting.
    let other = open(&machine);
    assert!(histories(&other)[2] > 100);
    let _ = tasks.pin(&id(2), true, none).unwrap();
    assert!(compact(&other).is_some());
    let left = histories(&tasks);
    assert!(left[0] < 20 && left[1] > 100 && left[2] > 100, "{left:?}");
    let _ = tasks.pin(&id(2), false, none).unwrap();
    let _ = tasks.remove(&[id(1)], false, none).unwrap();
    for tasks in [&tasks, &replayed(&machine)] {
        let empty = tasks.read(|_, index| index.retention().is_empty()).unwrap();
        assert!(empty, "nothing is left of what was said");
    }
    assert_eq!(tasks.pin(&id(1), true, none).unwrap_err().code(), "task-deleted");
    assert_eq!(tasks.pin(&id(9), true, none).unwrap_err().code(), "no-task");
    assert_eq!(hash(&tasks), hash(&replayed(&machine)));
}

#[test]
fn less_may_be_kept_of_what_was_compacted_before() {
    let machine = SimMachine::new(Profile::Linux, 22);
    let tasks = worked(&machine);
    let _ = tasks.set_retention(Some(&id(1)), Some(Retention::KeepAll), Durability::Buffered).unwrap();
    let first = compact(&tasks).unwrap();
    assert!(histories(&tasks)[1] > 100 && first.dropped > 100);
    let _ = tasks.set_retention(Some(&id(1)), limits(None, Some(3), None), Durability::Buffered).unwrap();
    let again = compact(&tasks).expect("much may go by now, and nothing of it is new");
    assert!(again.dropped > 50 && histories(&tasks)[1] < 30, "{again:?}");
    assert_eq!(hash(&tasks), hash(&replayed(&machine)));
}

#[test]
fn one_commit_may_say_it_twice() {
    let machine = SimMachine::new(Profile::Linux, 21);
    let tasks = worked(&machine);
    let pin = |pinned| Op::Pin { id: id(1), pinned };
    let done = tasks.commit(vec![pin(true), pin(true), pin(false)], Durability::Buffered).unwrap();
    assert_eq!(done.count, 2);
    assert!(tasks.read(|_, index| index.retention().is_empty()).unwrap());
    let long = Retention::Limits { age: Some(Duration::MAX), count: None, bytes: None };
    let _ = tasks.set_retention(None, Some(long), Durability::Buffered).unwrap();
    let said = replayed(&machine).read(|_, index| index.retention().workspace()).unwrap();
    assert_eq!(said, Some(long.settled()), "as others read it");
}

fn named(n: u64) -> CommitOptions {
    let id = OpId(u128::from(n).to_le_bytes());
    CommitOptions::from(Durability::Buffered).op_id(id)
}

#[test]
fn request_that_may_come_again_is_answered_although_its_events_are_gone() {
    let machine = SimMachine::new(Profile::Linux, 30);
    let tasks = open(&machine);
    let item = Item::new(&id(0)).with(Field::Ts, 1_i64).with(Field::TokensIn, 0_i64);
    let _ = tasks.create(item, Durability::Buffered).unwrap();
    let doc = DocumentName::new("d").unwrap();
    for n in 1..200_u64 {
        step(&tasks, 0, i64::try_from(n).unwrap(), named(n));
        let put = Op::PutDocument { name: doc.clone(), kind: None, value: Value::from(n), again: false };
        let _ = tasks.commit(vec![put], named(1_000 + n)).unwrap();
    }
    let answer = |tasks: &Tasks, n: u64| {
        let patch = Patch::new()
            .set(Field::Ts, 1_784_000_000_000 + i64::try_from(n).unwrap())
            .set(Field::TokensIn, i64::try_from(n).unwrap());
        let seen = named(n).seen(Seq(1));
        let done = tasks.patch(&id(0), patch, seen).unwrap();
        assert!(done.again, "{n}");
        (done.first, done.count, done.tasks)
    };
    let before: Vec<_> = [1, 50, 150].map(|n| answer(&tasks, n)).into();
    let report = compact(&tasks).unwrap();
    assert!(report.dropped > 300, "{report:?}");
    for tasks in [&tasks, &open(&machine), &open_with(&machine.process("other"), options()).unwrap()] {
        let after: Vec<_> = [1, 50, 150].map(|n| answer(tasks, n)).into();
        assert_eq!(after, before);
    }
    assert_eq!(hash(&tasks), hash(&replayed(&machine)));
}

#[test]
fn requests_that_are_forgotten_leave_nothing_but_the_knowledge_that_they_are() {
    // More requests than are remembered, and a process that folds all of it from what compaction has left.
    let machine = SimMachine::memory(Arc::new(foldlog::vfs::os::Os));
    let big =
        || TaskStore::options(Options::default().housekeeping(Housekeeping::Off)).snapshot_after(u64::MAX);
    let tasks = open_with(&machine.process("writer"), big().segment_size(64 << 10)).unwrap();
    let item = Item::new(&id(0)).with(Field::Ts, 1_i64).with(Field::TokensIn, 0_i64);
    let _ = tasks.create(item, Durability::Buffered).unwrap();
    let count = 140_000;
    for n in 1..count {
        step(&tasks, 0, i64::try_from(n).unwrap(), named(n));
    }
    let again = |tasks: &Tasks, n: u64| {
        let patch = Patch::new().set(Field::Mode, "late");
        tasks.patch(&id(0), patch, named(n).seen(Seq(n))).unwrap_err().code()
    };
    assert_eq!((again(&tasks, 5), again(&tasks, count - 1)), ("outcome-unknown", "op-id-reused"));
    let report = compact(&tasks).unwrap();
    assert!(report.dropped > 130_000, "{report:?}");
    assert!(report.bytes_after * 2 < report.bytes_before, "{report:?}");
    let next = open_with(&machine.process("next"), big()).unwrap();
    for tasks in [&tasks, &next] {
        assert_eq!((again(tasks, 5), again(tasks, count - 1)), ("outcome-unknown", "op-id-reused"));
    }
    let other =
        open_with(&machine.process("replayer"), big().read_only(true).recovery(Recovery::Salvage)).unwrap();
    assert_eq!(hash(&other), hash(&tasks));
}
