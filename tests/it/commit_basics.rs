//! One process, one store, no faults: what a commit does and what is there afterwards.

use foldlog::vfs::sim::{Op, Profile};
use foldlog::vfs::{Vfs as _, os::Os};
use foldlog::{
    Consistency, Draft, Durability, ErrorKind, Expect, Housekeeping, Key, NewEvent, OpId, Options, Place,
    Result, Revision, Seq, State, Store, Vocabulary, Workspace,
};

use super::simulated;

/// The event kinds of these tests.
pub(crate) const NOTE: u16 = 100;

pub(crate) fn options() -> Options {
    Options::default().vocabulary(Vocabulary::new([(NOTE, 1)])).housekeeping(Housekeeping::Off)
}

pub(crate) fn note(task: &str, text: &str) -> NewEvent {
    NewEvent::state(NOTE, 1, Key::task(task), text.as_bytes())
}

fn push(
    task: &'static str,
    text: &'static str,
) -> impl FnOnce(&State, &mut Draft) -> Result<()> + Send + 'static {
    move |_, draft| {
        draft.push(note(task, text));
        Ok(())
    }
}

fn place() -> Place {
    Place::Key("tests".into())
}

fn body(workspace: &Workspace, task: &str) -> Option<Vec<u8>> {
    workspace.read(|state| state.get(&Key::task(task)).map(|k| k.body.to_vec())).unwrap()
}

#[test]
fn commits_are_there_after_reopening() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("a/b/store");
    let hash = {
        let store = Store::open(&root, options()).unwrap();
        let ws = store.workspace(&place()).unwrap();
        assert_eq!(ws.open_report().seq, Seq(0));
        let one = ws.commit(Durability::Durable, push("a", "one")).unwrap();
        assert_eq!((one.first, one.count, one.durable), (Seq(1), 1, true));
        assert_eq!(one.revisions, [Revision(1)]);
        let two = ws.commit(Durability::Buffered, push("a", "two")).unwrap();
        assert_eq!((two.first, two.revisions[0], two.durable), (Seq(2), Revision(2), false));
        assert_eq!(body(&ws, "a").unwrap(), b"two");
        let hash = ws.read(State::hash).unwrap();
        ws.close().unwrap();
        hash
    };
    let store = Store::open(&root, options().create(false)).unwrap();
    let ws = store.workspace(&place()).unwrap();
    assert_eq!((ws.open_report().seq, ws.open_report().vouched), (Seq(2), Seq(2)));
    assert_eq!(ws.read(State::hash).unwrap(), hash);
    assert_eq!(ws.read(|s| s.epochs().len()).unwrap(), 1, "an open that appends nothing starts no epoch");
}

#[test]
fn expectations_decide() {
    let store = Store::memory(options()).unwrap();
    let ws = store.workspace(&place()).unwrap();
    let _ = ws.commit(Durability::Durable, push("a", "one")).unwrap();
    let expecting = |expected: Expect| {
        ws.commit(Durability::Durable, move |_, draft| {
            draft.expect(Key::task("a"), expected).push(note("b", "x"));
            Ok(())
        })
    };
    let error = expecting(Expect::Absent).unwrap_err();
    let ErrorKind::Conflict(conflicts) = error.kind() else { panic!("{error}") };
    assert_eq!(conflicts[0].current.as_ref().unwrap().revision, Revision(1));
    assert_eq!(conflicts[0].current.as_ref().unwrap().body.as_ref(), b"one");
    assert!(expecting(Expect::Revision(Revision(2))).is_err());
    assert!(expecting(Expect::AtMostSeq(Seq(0))).is_err());
    assert_eq!(body(&ws, "b"), None, "a refused commit leaves nothing");
    assert_eq!(expecting(Expect::Revision(Revision(1))).unwrap().first, Seq(2));
}

#[test]
fn same_operation_is_applied_once() {
    let store = Store::memory(options()).unwrap();
    let ws = store.workspace(&place()).unwrap();
    let send = |id: u8, request: &'static str| {
        ws.commit(Durability::Durable, move |state, draft| {
            draft.operation(OpId([id; 16]), request.as_bytes(), state.last()).push(note("a", request));
            Ok(())
        })
    };
    let first = send(7, "set").unwrap();
    let again = send(7, "set").unwrap();
    assert_eq!((again.first, again.revisions.clone(), again.again), (first.first, first.revisions, true));
    assert_eq!(ws.read(State::last).unwrap(), Seq(1));
    let error = send(7, "other").unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::OpIdReused { seq: Seq(1), .. }), "{error}");
}

#[test]
fn commit_from_inside_a_closure_is_refused_and_panics_cost_nothing() {
    let store = Store::memory(options()).unwrap();
    let ws = store.workspace(&place()).unwrap();
    let inner = ws.clone();
    let error = ws
        .commit(Durability::Durable, move |_, _| inner.commit(Durability::Durable, push("x", "y")).map(drop))
        .unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Reentrant), "{error}");
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        ws.commit(Durability::Durable, |_, _| std::panic::panic_any("the host's own fault"))
    }));
    assert!(panicked.is_err());
    assert_eq!(ws.commit(Durability::Durable, push("a", "b")).unwrap().first, Seq(1));
}

#[test]
fn segments_rotate_and_read_back() {
    let dir = tempfile::tempdir().unwrap();
    let small = || options().segment_size(4096);
    let hash = {
        let store = Store::open(dir.path(), small()).unwrap();
        let ws = store.workspace(&place()).unwrap();
        for i in 0..300 {
            let durability = if i % 7 == 0 { Durability::Durable } else { Durability::Buffered };
            let receipt = ws
                .commit(durability, move |_, draft| {
                    draft.push(note(&format!("t{}", i % 10), &"x".repeat(100 + i)));
                    Ok(())
                })
                .unwrap();
            assert_eq!(receipt.first, Seq(i as u64 + 1));
        }
        ws.read(State::hash).unwrap()
    };
    let store = Store::open(dir.path(), small()).unwrap();
    let ws = store.workspace(&place()).unwrap();
    assert!(ws.open_report().segments > 8, "{:?}", ws.open_report());
    assert_eq!((ws.open_report().seq, ws.open_report().findings.as_slice()), (Seq(300), &[][..]));
    assert_eq!(ws.read(State::hash).unwrap(), hash);
}

#[test]
fn threads_share_writes_and_lose_nothing() {
    let store = Store::memory(options()).unwrap();
    let ws = store.workspace(&place()).unwrap();
    std::thread::scope(|scope| {
        for t in 0..8 {
            let ws = ws.clone();
            scope.spawn(move || {
                for i in 0..200 {
                    let _ = ws
                        .commit(Durability::Buffered, move |_, draft| {
                            draft.push(note(&format!("t{t}"), &i.to_string()));
                            Ok(())
                        })
                        .unwrap();
                }
            });
        }
    });
    assert_eq!(ws.read(State::last).unwrap(), Seq(1600));
    for t in 0..8 {
        assert_eq!(body(&ws, &format!("t{t}")).unwrap(), b"199");
    }
}

/// A successor was prepared and the handle closed before it was full: the file stayed, one for each such run.
#[test]
fn unused_successor_goes_with_its_preparer() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), options().segment_size(4096)).unwrap();
    let ws = store.workspace(&place()).unwrap();
    let log = ws.log().paths().log();
    let segments = || Os.list(&log).unwrap().len();
    while segments() < 2 {
        let _ = ws.commit(Durability::Buffered, push("a", "some text that takes room")).unwrap();
    }
    assert_eq!(ws.health().findings, []);
    ws.close().unwrap();
    assert_eq!(segments(), 1);
    drop(store);
    let store = Store::open(dir.path(), options().segment_size(4096)).unwrap();
    let ws = store.workspace(&place()).unwrap();
    for _ in 0..100 {
        let _ = ws.commit(Durability::Buffered, push("a", "some text that takes room")).unwrap();
    }
    assert!(ws.read(|s| s.last()).unwrap() > Seq(100));
}

/// A ticket is waited for after many commits were made; a read says how new it must be.
#[test]
fn tickets_and_reads_of_any_age() {
    let machine = simulated::machine_with(Profile::Linux, 1, &[]);
    let (_a_store, a) = simulated::open_on(&machine.process("a"), simulated::options()).unwrap();
    let (_b_store, b) = simulated::open_on(&machine.process("b"), simulated::options()).unwrap();
    let patience = std::time::Duration::from_secs(1);
    let tickets: Vec<_> =
        (0..5).map(|n| simulated::put(&a, Durability::Buffered, "a", &n.to_string()).unwrap()).collect();
    assert!(tickets.iter().all(|ticket| !ticket.durable));
    assert!(tickets.windows(2).all(|pair| pair[0].behind < pair[1].behind));
    let syncs = machine.calls(Op::Sync);
    a.wait_durable(&tickets[4], patience).unwrap();
    let made = machine.calls(Op::Sync);
    assert!(made > syncs);
    for ticket in &tickets {
        a.wait_durable(ticket, patience).unwrap();
    }
    assert_eq!(machine.calls(Op::Sync), made, "one sync has covered them all");
    let last = tickets[4].last();
    assert_eq!(b.read_at(Consistency::Cached, State::last).unwrap(), Seq(0), "nobody has looked");
    assert_eq!(b.read_at(Consistency::AtLeast(last), State::last).unwrap(), last);
    let more = simulated::put(&a, Durability::Buffered, "a", "more").unwrap().last();
    let reads = machine.calls(Op::Read);
    assert_eq!(b.read_at(Consistency::AtLeast(last), State::last).unwrap(), last, "that is enough");
    assert_eq!(machine.calls(Op::Read), reads);
    assert_eq!(b.read_at(Consistency::Latest, State::last).unwrap(), more);
    let error = b.read_at(Consistency::AtLeast(Seq(more.0 + 1)), State::last).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::NotYet), "{error}");
}
