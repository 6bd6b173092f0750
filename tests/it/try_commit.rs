//! Commits for threads that must not wait: they are made at once, or not at all, and then nothing has been done.

#![expect(clippy::unwrap_used, reason = "a test, all of it")]

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::channel;

use foldlog::event::{Field, Item, Patch};
use foldlog::task::{CommitOptions, DocumentExpect, Op, TaskStore, Tasks};
use foldlog::vfs::Vfs as _;
use foldlog::vfs::sim::{Effect, Fault, Op as Call, Profile, SimMachine};
use foldlog::{DocumentName, Durability, Housekeeping, OpId, Options, Place, State, Store};

use super::simulated::ROOT;
use super::task_rules::id;

const BUFFERED: Durability = Durability::Buffered;

fn on(machine: &SimMachine, label: &str, options: Options) -> Tasks {
    let process = Arc::new(machine.process(label));
    let options = TaskStore::options(options.housekeeping(Housekeeping::Off));
    TaskStore::of(Store::open_on(process, Path::new(ROOT), options).unwrap()).home(&Place::None).unwrap()
}

fn patch(text: &str) -> Vec<Op> {
    vec![Op::Patch { id: id("t"), patch: Patch::new().set(Field::Mode, text) }]
}

fn last(tasks: &Tasks) -> u64 {
    tasks.read(|state, _| state.last().0).unwrap()
}

/// A handle that has committed, so that nothing is left to be done first.
fn ready(machine: &SimMachine, options: Options) -> Tasks {
    let tasks = on(machine, "w", options);
    let _ = tasks.create(Item::new(&id("t")), BUFFERED).unwrap();
    tasks
}

fn syncs(machine: &SimMachine) -> u64 {
    [Call::Sync, Call::SyncDir].map(|call| machine.calls(call)).into_iter().sum()
}

#[test]
fn what_needs_no_waiting_is_done_at_once_and_syncs_nothing() {
    let machine = SimMachine::new(Profile::Linux, 1);
    let fresh = on(&machine, "w", Options::default());
    let create = vec![Op::Create { item: Item::new(&id("t")), again: false }];
    let before = machine.disk().content_hash();
    assert_eq!(
        fresh.try_commit(create.clone(), BUFFERED).unwrap(),
        None,
        "a first commit finds out who was here"
    );
    assert_eq!(machine.disk().content_hash(), before);
    let _ = fresh.commit(create, BUFFERED).unwrap();
    let before = syncs(&machine);
    for n in 1..100_u64 {
        let done = fresh.try_commit(patch(&n.to_string()), BUFFERED).unwrap();
        let done = done.unwrap_or_else(|| panic!("commit {n} was left"));
        assert_eq!((done.count, done.token(&id("t")).unwrap().revision.0), (1, n + 1));
    }
    assert_eq!(syncs(&machine), before);
    // What is to be synced later has to be written so that a sync counts: the first time, that takes one.
    let soon = Durability::Interval(1000);
    assert_eq!(fresh.try_commit(patch("soon"), soon).unwrap(), None);
    let _ = fresh.commit(patch("now"), Durability::Durable).unwrap();
    let before = syncs(&machine);
    let _ = fresh.try_commit(patch("soon"), soon).unwrap().unwrap();
    assert_eq!(syncs(&machine), before);
    let reader = on(&machine, "r", Options::default().read_only(true).create(false));
    assert_eq!(reader.get("t").unwrap().unwrap().token.revision.0, 102);
    // The rules judge as always.
    assert_eq!(
        fresh
            .try_commit(
                patch("x"),
                CommitOptions::from(BUFFERED)
                    .expect(&id("t"), foldlog::TaskExpect::Revision(foldlog::Revision(1)))
            )
            .unwrap_err()
            .code(),
        "conflict"
    );
}

#[test]
fn what_would_wait_is_not_begun() {
    let machine = SimMachine::new(Profile::Linux, 1);
    let tasks = ready(&machine, Options::default());
    let (before, calls) = (last(&tasks), syncs(&machine));
    let disk = machine.disk().content_hash();
    let name = DocumentName::new("d").unwrap();
    let big = vec![Op::Rename { id: id("t"), title: "x".repeat(70_000).as_str().into() }];
    for (ops, options) in [
        (patch("a"), CommitOptions::from(Durability::Durable)),
        (patch("a"), CommitOptions::from(BUFFERED).op_id(OpId([1; 16]))),
        (big, CommitOptions::from(BUFFERED)),
        (vec![Op::Attach { id: id("t") }], CommitOptions::from(BUFFERED)),
        (
            vec![Op::PutDocument { name: name.clone(), kind: None, value: 1_i64.into(), again: false }],
            BUFFERED.into(),
        ),
        (vec![Op::DeleteDocument { name }], BUFFERED.into()),
        (vec![Op::Mend { parent: id("t"), unowned: true }], CommitOptions::from(BUFFERED)),
    ] {
        assert_eq!(tasks.try_commit(ops, options).unwrap(), None);
    }
    assert_eq!((last(&tasks), syncs(&machine), machine.disk().content_hash()), (before, calls, disk));
}

/// A commit that rests on a document changes none.
#[test]
fn expectations_of_documents_are_heeded() {
    let tasks = ready(&SimMachine::new(Profile::Linux, 1), Options::default());
    let name = DocumentName::new("d").unwrap();
    let options = || CommitOptions::from(BUFFERED).expect_document(&name, DocumentExpect::Exists);
    let refused = tasks.try_commit(patch("a"), options()).unwrap_err();
    assert_eq!(refused.code(), "conflict");
    let _ = tasks.documents().put(&name, None, 1_i64.into(), DocumentExpect::Absent, BUFFERED).unwrap();
    let _ = tasks.try_commit(patch("a"), options()).unwrap().unwrap();
}

#[test]
fn lock_that_is_held_is_not_waited_for_whoever_holds_it() {
    let machine = SimMachine::new(Profile::Linux, 1);
    let tasks = ready(&machine, Options::default());
    for holder in [tasks.clone(), on(&machine, "other", Options::default())] {
        let (inside, is_inside) = channel();
        let (go, may_go) = channel::<()>();
        let workspace = holder.workspace().clone();
        let thread = std::thread::spawn(move || {
            workspace.commit(BUFFERED, move |_: &State, _| {
                inside.send(()).unwrap();
                may_go.recv().unwrap();
                Ok(())
            })
        });
        is_inside.recv().unwrap();
        let clock = machine.process("clock");
        let before = clock.monotonic();
        // What may be given back within 100 µs is tried for so long; the simulated clock counts a few for the calls.
        let soon = std::time::Duration::from_micros(150);
        assert_eq!(tasks.try_commit(patch("a"), BUFFERED).unwrap(), None);
        assert!(clock.monotonic() - before < soon, "it waited");
        go.send(()).unwrap();
        let _ = thread.join().unwrap().unwrap();
        let _ = tasks.try_commit(patch("b"), BUFFERED).unwrap().unwrap();
    }
}

#[test]
fn full_segment_is_left_to_whoever_may_wait() {
    let machine = SimMachine::new(Profile::Linux, 1);
    let tasks = ready(&machine, Options::default().segment_size(4096));
    let (mut made, mut left) = (0, 0);
    for n in 0..200_u64 {
        let before = syncs(&machine);
        match tasks.try_commit(patch(&n.to_string()), BUFFERED).unwrap() {
            Some(_) => made += 1,
            None => {
                left += 1;
                assert_eq!(tasks.get("t").unwrap().unwrap().token.revision.0, n + 1, "nothing was done");
            }
        }
        assert_eq!(syncs(&machine), before);
        if tasks.get("t").unwrap().unwrap().token.revision.0 == n + 1 {
            let _ = tasks.commit(patch(&n.to_string()), BUFFERED).unwrap();
        }
    }
    assert!(made > 150 && (4..50).contains(&left), "{made} made, {left} left");
    let segments = on(&machine, "r", Options::default().read_only(true).create(false));
    assert!(segments.workspace().open_report().segments > 2);
}

#[test]
fn torn_tail_is_left_to_whoever_may_wait() {
    let machine = SimMachine::new(Profile::Linux, 1);
    let tasks = ready(&machine, Options::default());
    let segment = {
        let dir = tasks.workspace().log().paths().log();
        let files = machine.process("looker").list(&dir).unwrap();
        dir.join(&files.iter().find(|file| file.name.ends_with(".seg")).unwrap().name)
    };
    let log = tasks.workspace().log();
    let end = usize::try_from(log.cached(State::last).unwrap().0).unwrap();
    assert!(end > 0);
    // What a writer leaves that is killed in the middle of a frame: a length, and nothing behind it.
    machine
        .with_disk(|disk| {
            disk.mutate(&segment, |bytes| {
                let len = bytes.len();
                let at = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |at| (at + 8) / 8 * 8);
                if at + 8 > len {
                    bytes.resize(at + 8, 0);
                }
                bytes[at] = 40;
            })
        })
        .unwrap();
    let before = (syncs(&machine), machine.disk().content_hash());
    assert_eq!(tasks.try_commit(patch("a"), BUFFERED).unwrap(), None);
    assert_eq!((syncs(&machine), machine.disk().content_hash()), before, "it was not mended");
    let _ = tasks.commit(patch("a"), BUFFERED).unwrap();
    let _ = tasks.try_commit(patch("b"), BUFFERED).unwrap().unwrap();
    assert_eq!(tasks.get("t").unwrap().unwrap().token.revision.0, 3);
}

/// Recovery copies a segment and syncs it, and waits for LOCK.
#[test]
fn failed_sync_is_recovered_from_by_whoever_may_wait() {
    let machine = SimMachine::new(Profile::Linux, 1);
    let tasks = ready(&machine, Options::default());
    machine.fault(Fault::on(Call::Sync, Effect::DropsPages).path("/log/0"));
    let lost = tasks.commit(patch("a"), Durability::Durable).unwrap_err();
    assert_eq!(lost.code(), "durability-lost");
    machine.clear_faults();
    let before = (syncs(&machine), machine.disk().content_hash());
    assert_eq!(tasks.try_commit(patch("b"), BUFFERED).unwrap(), None);
    assert_eq!((syncs(&machine), machine.disk().content_hash()), before, "it was not recovered from");
    let _ = tasks.commit(patch("c"), BUFFERED).unwrap();
    let _ = tasks.try_commit(patch("d"), BUFFERED).unwrap().unwrap();
}
