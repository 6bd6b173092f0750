//! Views that stand still: whole, unchanging, shared while nothing changes, and gone with their last holder.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use foldlog::event::{Field, Patch};
use foldlog::vfs::sim::{Op, Profile, SimMachine, SimProcess};
use foldlog::view::Query;
use foldlog::{
    Consistency, Durability, ErrorKind, Key, Options, Place, Seq, State, Store, TaskStore, Tasks, Workspace,
};

use crate::simulated::{
    log_of, machine_with, open_on, options, patient, place, prefix_hashes, put, store_on,
};
use crate::task_rules::{id, item};

const BUFFERED: Durability = Durability::Buffered;
const LATEST: Consistency = Consistency::Latest;

fn opened(machine: &SimMachine, label: &str) -> (SimProcess, Store, Workspace) {
    let process = machine.process(label);
    let (store, ws) = open_on(&process, options()).unwrap();
    (process, store, ws)
}

fn all(state: &State) -> Vec<(Key, u64, Vec<u8>)> {
    state.iter().map(|known| (known.key, known.revision.0, known.body.into_vec())).collect()
}

/// Commits of this process and of another, a rotation, and a recovery of the whole log from a failed sync go on while
/// a view is looked at: it stays what it was, to the last byte.
#[test]
fn view_stays_as_it_was_whoever_commits() {
    let machine = machine_with(Profile::Linux, 1, &["one", "two"]);
    let (process, _store, ours) = opened(&machine, "ours");
    let (_, _store2, theirs) = opened(&machine, "theirs");
    let mut views = Vec::new();
    for n in 0..20 {
        let view = ours.view(LATEST).unwrap();
        let (seq, hash) = ours.read(|state| (state.last(), state.hash())).unwrap();
        assert_eq!((view.last(), view.hash()), (seq, hash));
        views.push((seq, hash, all(&view), view.cursor(), view));
        for (ws, key) in [(&ours, "a"), (&theirs, "b"), (&ours, "c")] {
            let _ = put(ws, BUFFERED, key, &format!("{n} {}", "x".repeat(n * 200))).unwrap();
        }
    }
    let (items, walk) = log_of(&process).unwrap();
    assert_eq!(walk.damage, None);
    let hashes = prefix_hashes(&items);
    for (seq, hash, keys, cursor, view) in &views {
        assert_eq!(
            (view.last(), view.hash(), all(view), view.cursor()),
            (*seq, *hash, keys.clone(), *cursor)
        );
        assert_eq!(
            hashes.get(&(seq.0, view.epochs().to_vec())),
            Some(hash),
            "as the log's first {seq} events say"
        );
        assert_eq!(view.get(&Key::task("a")).map(|known| known.last.seq <= *seq), Some(true));
    }
    assert_eq!(views.iter().map(|view| view.0).collect::<BTreeSet<_>>().len(), 20, "each is of its own time");
}

#[test]
fn view_is_shared_until_something_changes() {
    let machine = machine_with(Profile::Linux, 2, &["one"]);
    let (_, _store, ours) = opened(&machine, "ours");
    let (_, _store2, theirs) = opened(&machine, "theirs");
    let first = ours.view(LATEST).unwrap();
    for consistency in [LATEST, Consistency::Cached, Consistency::AtLeast(Seq(1))] {
        assert!(Arc::ptr_eq(&first, &ours.view(consistency).unwrap()), "{consistency:?}");
    }
    let _ = put(&theirs, BUFFERED, "b", "two").unwrap();
    assert!(Arc::ptr_eq(&first, &ours.view(Consistency::Cached).unwrap()), "not looked at");
    assert!(Arc::ptr_eq(&first, &ours.view(Consistency::AtLeast(Seq(1))).unwrap()), "new enough");
    let second = ours.view(Consistency::AtLeast(Seq(2))).unwrap();
    assert_eq!((first.last(), second.last()), (Seq(1), Seq(2)));
    assert!(!Arc::ptr_eq(&first, &second) && Arc::ptr_eq(&second, &ours.view(LATEST).unwrap()));
    let missing = ours.view(Consistency::AtLeast(Seq(9))).unwrap_err();
    assert!(matches!(missing.kind(), ErrorKind::NotYet), "{missing}");
    let _ = put(&ours, BUFFERED, "b", "three").unwrap();
    assert_eq!(ours.view(Consistency::Cached).unwrap().last(), Seq(3), "a process knows its own commits");
}

/// An Epoch and no event: the state hash is another, so the view is.
#[test]
fn view_of_another_epoch_is_another() {
    let machine = machine_with(Profile::Linux, 3, &["one"]);
    let (_, _store, reader) = opened(&machine, "reader");
    let before = reader.view(LATEST).unwrap();
    let (_, store, writer) = opened(&machine, "writer");
    let _ = put(&writer, BUFFERED, "a", "two").unwrap();
    drop((writer, store));
    let after = reader.view(LATEST).unwrap();
    assert!(after.epoch() != before.epoch() && after.hash() != before.hash());
    assert_eq!(reader.read(State::hash).unwrap(), after.hash());
}

/// Nothing of a view stays when nobody has it, and the next one is as new as asked for.
#[test]
fn view_is_gone_with_its_last_holder() {
    let machine = machine_with(Profile::Linux, 4, &["one"]);
    let (_, _store, ws) = opened(&machine, "ours");
    let view = ws.view(LATEST).unwrap();
    let (known, other) = (Arc::downgrade(&view), ws.view(LATEST).unwrap());
    drop(view);
    assert!(known.upgrade().is_some(), "somebody has it still");
    drop(other);
    assert!(known.upgrade().is_none(), "the log keeps a copy");
    let _ = put(&ws, BUFFERED, "a", "two").unwrap();
    assert_eq!(ws.view(Consistency::Cached).unwrap().last(), Seq(2));
}

/// Whoever takes a view while its process keeps LOCK gives that back first: others do not wait for the copy.
#[test]
fn view_is_not_copied_under_a_kept_lock() {
    let machine = machine_with(Profile::Linux, 5, &[]);
    let process = machine.process("keeper");
    let (_store, keeper) = open_on(&process, options().keep_lock(foldlog::KeepLock::UntilTick)).unwrap();
    let (_, _store2, other) = opened(&machine, "other");
    let _ = put(&other, BUFFERED, "b", "is known as a witness").unwrap();
    for n in 0..4 {
        let _ = put(&keeper, BUFFERED, "a", &n.to_string()).unwrap();
    }
    let locks = machine.calls(Op::Lock);
    let _ = put(&keeper, BUFFERED, "a", "kept").unwrap();
    assert_eq!(machine.calls(Op::Lock), locks, "LOCK is kept");
    let view = keeper.view(Consistency::Cached).unwrap();
    let _ = put(&other, BUFFERED, "b", "at once").unwrap();
    assert_eq!(machine.calls(Op::Lock), locks + 1, "at the first try");
    assert_eq!((view.last(), keeper.view(LATEST).unwrap().last()), (Seq(6), Seq(7)));
}

fn tasks_on(process: &SimProcess) -> Tasks {
    let store = store_on(process, TaskStore::options(patient())).unwrap();
    TaskStore::of(store).home(&place()).unwrap()
}

/// Pages of one view are one list, and those of another never mix into it, while two processes create, change, finish
/// and remove tasks all the time.
#[test]
fn pages_of_one_view_are_one_list_whoever_writes() {
    const TASKS: usize = 120;
    let machine = SimMachine::new(Profile::Linux, 6);
    let reader = tasks_on(&machine.process("reader"));
    for n in 0..TASKS {
        let text = format!(r#"{{"id":"t{n}","ts":{n},"task":"before"}}"#);
        let _ = reader.create(item(&text), BUFFERED).unwrap();
    }
    let writers = ["w1", "w2"].map(|label| tasks_on(&machine.process(label)));
    let (stop, rounds) = (AtomicBool::new(false), 12);
    std::thread::scope(|scope| {
        for (w, tasks) in writers.iter().enumerate() {
            let stop = &stop;
            scope.spawn(move || {
                for n in 0.. {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    let text = format!(r#"{{"id":"new{w}-{n}","ts":{}}}"#, n * 7 % TASKS);
                    let _ = tasks.create(item(&text), BUFFERED).unwrap();
                    let patch = Patch::new().set(Field::Ts, i64::try_from(n * 13 % TASKS).unwrap());
                    let _ = tasks.patch(&id(&format!("t{}", n % TASKS)), patch, BUFFERED).unwrap();
                    if n > 3 {
                        let _ = tasks.remove(&[id(&format!("new{w}-{}", n - 3))], false, BUFFERED).unwrap();
                    }
                }
            });
        }
        let mut seen = BTreeSet::new();
        let mut round = 0;
        while round < rounds || seen.len() < 3 {
            round += 1;
            let view = reader.view(LATEST).unwrap();
            let again = reader.view(Consistency::Cached).unwrap();
            assert!(view.seq() <= again.seq());
            let hash = view.state().hash();
            seen.insert(view.seq());
            let whole = view.list(&Query::default());
            let mut pages = Vec::new();
            let mut query = Query { limit: Some(7), ..Query::default() };
            loop {
                let page = view.list(&query);
                assert_eq!(page.total, whole.total);
                pages.extend(page.tasks);
                match page.next {
                    Some(next) => query.after = Some(next),
                    None => break,
                }
            }
            let named = |all: &[foldlog::Snapshot]| -> Vec<_> {
                all.iter().map(|s| (s.task.id.clone(), s.task.revision, s.token)).collect()
            };
            assert_eq!(named(&pages), named(&whole.tasks));
            assert_eq!(view.iter().count(), whole.total);
            assert_eq!((view.state().hash(), view.index().len()), (hash, whole.total));
        }
        stop.store(true, Ordering::Relaxed);
    });
    let (last, view) = (reader.read(|state, _| state.hash()).unwrap(), reader.view(LATEST).unwrap());
    assert_eq!(last, view.state().hash());
    let others = writers[0].view(LATEST).unwrap();
    assert_eq!(last, others.state().hash());
}

/// A task that a view holds is changed and removed in the log, and not in the view.
#[test]
fn tasks_of_a_view_share_what_has_not_changed() {
    let tasks = TaskStore::memory(Options::default()).unwrap().home(&Place::None).unwrap();
    let _ = tasks.create(item(r#"{"id":"p"}"#), BUFFERED).unwrap();
    for name in ["a", "b"] {
        let text = format!(r#"{{"id":"{name}","parentTaskId":"p","task":"old"}}"#);
        let _ = tasks.create(item(&text), BUFFERED).unwrap();
    }
    let before = tasks.view(LATEST).unwrap();
    assert!(Arc::ptr_eq(before.state(), tasks.view(LATEST).unwrap().state()));
    let _ = tasks.patch(&id("a"), Patch::new().set(Field::Task, "new"), BUFFERED).unwrap();
    let _ = tasks.remove(&[id("b")], false, BUFFERED).unwrap();
    let after = tasks.view(LATEST).unwrap();
    let title = |view: &foldlog::TasksView, name| {
        view.get(&id(name)).map(|found| found.task.text(&Field::Task).unwrap().into_owned())
    };
    assert_eq!((title(&before, "a"), title(&before, "b")), (Some("old".into()), Some("old".into())));
    assert_eq!((title(&after, "a"), title(&after, "b")), (Some("new".into()), None));
    assert_eq!((before.index().children("p").count(), after.index().children("p").count()), (2, 1));
    assert_eq!((before.tree("a").len(), before.totals("a").tasks), (1, 1));
    let _ = tasks.create(item(r#"{"id":"c"}"#), BUFFERED).unwrap();
    let later = tasks.view(LATEST).unwrap();
    let task = |view: &foldlog::TasksView| view.get(&id("a")).unwrap().task;
    assert!(Arc::ptr_eq(&task(&after), &task(&later)), "one task, in both views");
    let held = Arc::downgrade(&task(&before));
    drop(before);
    assert!(held.upgrade().is_none(), "what only the view had is freed with it");
}
