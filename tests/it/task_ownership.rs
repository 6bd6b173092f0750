//! Who runs a task: fences, dead and living owners, and the repair of what the dead have left.

use std::path::Path;
use std::sync::Arc;

use foldlog::event::{Event, Fence, Field, Patch, Status, TaskId};
use foldlog::log::{Durability, Seq};
use foldlog::session::Liveness;
use foldlog::task::{CommitOptions, Fault, ImportRecord, Op, TaskStore, Tasks};
use foldlog::vfs::Vfs;
use foldlog::vfs::sim::{
    CrashModel, DiskState, Effect, Fault as Broken, Op as Call, Profile, Rng, SimMachine, SimProcess,
};
use foldlog::{ErrorKind, OpId, Store};

use super::simulated::{ROOT, folder, options, place};
use super::task_rules::{id, item};

const BUFFERED: Durability = Durability::Buffered;

/// A process that has the store open, with its tasks.
struct Window {
    process: SimProcess,
    store: TaskStore,
    tasks: Tasks,
}

fn window(machine: &SimMachine, label: &str) -> Window {
    let process = machine.process(label);
    let options = TaskStore::options(options().label(label));
    let store = Store::open_on(Arc::new(process.clone()), Path::new(ROOT), options).unwrap();
    let store = TaskStore::of(store);
    let tasks = store.home(&place()).unwrap();
    Window { process, store, tasks }
}

impl Window {
    fn create(&self, text: &str) {
        let _ = self.tasks.create(item(text), BUFFERED).unwrap();
    }

    fn attach(&self, task: &str) -> Fence {
        self.tasks.attach(&id(task), BUFFERED).unwrap().0
    }

    fn item(&self, task: &str) -> String {
        self.tasks.get(task).unwrap().unwrap().task.item.to_json()
    }

    fn status(&self, task: &str) -> Status {
        self.tasks.get(task).unwrap().unwrap().task.status()
    }

    fn owner(&self, task: &str) -> Option<Fence> {
        self.tasks.get(task).unwrap().unwrap().task.owner()
    }

    fn last(&self) -> Seq {
        self.tasks.read(|state, _| state.last()).unwrap()
    }

    fn session(&self) -> u64 {
        self.tasks.workspace().log().session().unwrap().id()
    }
}

/// A parent that waits for a child, both run by this window.
fn delegating(machine: &SimMachine, label: &str) -> (Window, Fence, Fence) {
    let window = window(machine, label);
    window.create(r#"{"id":"p"}"#);
    let parent = window.attach("p");
    let ops =
        vec![Op::Delegate { parent: id("p"), child: item(r#"{"id":"c"}"#) }, Op::Attach { id: id("c") }];
    let child = window.tasks.commit(ops, BUFFERED).unwrap().fence(&id("c")).unwrap();
    (window, parent, child)
}

fn machine() -> SimMachine {
    SimMachine::new(Profile::Linux, 7)
}

fn with(task: &str, fence: Fence) -> CommitOptions {
    CommitOptions::from(BUFFERED).fence(&id(task), fence)
}

fn code<T: std::fmt::Debug>(result: foldlog::Result<T>) -> &'static str {
    result.unwrap_err().code()
}

#[test]
fn fence_grows_each_time_a_task_changes_hands_and_older_ones_are_refused() {
    let machine = machine();
    let a = window(&machine, "a");
    a.create(r#"{"id":"t"}"#);
    assert_eq!(a.owner("t"), None);
    let first = a.attach("t");
    assert_eq!((first.number, first.session, a.owner("t")), (1, a.session(), Some(first)));
    let mode = |mode: &str| Patch::new().set(Field::Mode, mode);
    let _ = a.tasks.patch(&id("t"), mode("code"), with("t", first)).unwrap();
    let second = a.attach("t");
    assert_eq!(second.number, 2, "an instance that ran before in the same process is somebody else");
    let before = a.last();
    let error = a.tasks.patch(&id("t"), mode("ask"), with("t", first)).unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::Fenced { id, fence, current }
            if id == "t" && *fence == first.to_string() && current.contains(&second.to_string())),
        "{error}"
    );
    assert_eq!(code(a.tasks.detach(&id("t"), first, BUFFERED)), "fenced");
    assert_eq!(a.last(), before, "nothing was written");
    // Same number, another session: not the holder.
    let forged = Fence { session: second.session ^ 1, ..second };
    assert_eq!(code(a.tasks.patch(&id("t"), mode("ask"), with("t", forged))), "fenced");
    let _ = a.tasks.detach(&id("t"), second, BUFFERED).unwrap();
    assert_eq!(a.owner("t"), None);
    assert_eq!(code(a.tasks.patch(&id("t"), mode("ask"), with("t", second))), "fenced");
    assert_eq!(a.attach("t").number, 3);
    // A deletion is a change of hands too, and what comes to life under the id goes on counting.
    let _ = a.tasks.remove(&[id("t")], false, BUFFERED).unwrap();
    assert_eq!(code(a.tasks.patch(&id("t"), mode("ask"), with("t", second))), "task-deleted");
    assert_eq!(code(a.tasks.attach(&id("t"), BUFFERED)), "task-deleted");
    let _ = a.tasks.commit(vec![Op::Create { item: item(r#"{"id":"t"}"#), again: true }], BUFFERED).unwrap();
    assert_eq!((a.owner("t"), a.attach("t").number), (None, 5));
    assert_eq!(code(a.tasks.attach(&id("absent"), BUFFERED)), "no-task");
    assert_eq!(code(a.tasks.commit(vec![], with("absent", second))), "no-task");
}

#[test]
fn task_of_a_living_session_is_not_taken_over_and_of_a_dead_one_is() {
    let machine = machine();
    let (a, _, fence) = delegating(&machine, "window a");
    let b = window(&machine, "window b");
    let error = b.tasks.attach(&id("c"), BUFFERED).unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::Owned { id, session, owner, liveness: "alive" }
            if id == "c" && *session == a.session() && owner.contains("window a")),
        "{error}"
    );
    assert_eq!(b.store.store().liveness(a.session()).unwrap().0, Liveness::Alive);
    // Another process may commit on the owner's behalf, with its fence.
    let _ = b.tasks.patch(&id("c"), Patch::new().set(Field::Mode, "code"), with("c", fence)).unwrap();
    machine.kill(&a.process);
    let taken = b.attach("c");
    assert_eq!(taken, Fence { number: fence.number + 1, session: b.session() });
    assert_eq!(b.store.store().liveness(a.session()).unwrap().0, Liveness::Dead);
}

#[test]
fn paused_owner_that_comes_back_is_refused_and_its_child_stays_abandoned() {
    let machine = machine();
    let (a, _, fence) = delegating(&machine, "a");
    let b = window(&machine, "b");
    let done = b.tasks.abandon(&id("c"), BUFFERED).unwrap();
    assert_eq!(done.count, 4, "b says who it is; the child's status and hands, the parent's status");
    assert_eq!(b.item("c"), r#"{"id":"c","status":"interrupted"}"#);
    assert_eq!(b.item("p"), r#"{"id":"p","status":"active","childIds":["c"]}"#);
    // What a had in flight comes late.
    let save = Patch::new().set(Field::TokensIn, 7_i64);
    assert_eq!(code(a.tasks.patch(&id("c"), save.clone(), with("c", fence))), "fenced");
    assert_eq!(code(a.tasks.complete(&id("c"), Some("done"), with("c", fence))), "fenced");
    // Even without its fence no save puts the link back.
    let link = Patch::new().set(Field::ParentTaskId, "p");
    assert_eq!(code(a.tasks.patch(&id("c"), link, BUFFERED)), "ruled-field");
    let _ = a.tasks.patch(&id("c"), save, BUFFERED).unwrap();
    assert_eq!(a.item("c"), r#"{"id":"c","status":"interrupted","tokensIn":7}"#);
    assert_eq!(a.tasks.tree("p").unwrap().len(), 1, "it is nobody's child");
    // The parent's own fence was not touched.
    assert!(a.owner("p").is_some() && a.owner("c").is_none());
}

#[test]
fn second_window_repairs_nothing_that_lives_and_the_next_open_all_that_is_dead_once() {
    let machine = machine();
    let (a, _, fence) = delegating(&machine, "a");
    let last = a.last();
    for n in 0..20 {
        let b = window(&machine, &format!("b{n}"));
        assert_eq!((b.status("p"), b.status("c"), b.last()), (Status::Delegated, Status::Active, last));
        assert_eq!(b.tasks.orphans().unwrap(), []);
        assert_eq!(b.tasks.mend_orphans(true, BUFFERED).unwrap(), [], "not even where it is asked for");
    }
    machine.kill(&a.process);
    let first = window(&machine, "first");
    assert_eq!((first.status("p"), first.status("c")), (Status::Active, Status::Interrupted));
    assert_eq!(first.item("p"), r#"{"id":"p","status":"active","childIds":["c"]}"#);
    assert_eq!(
        first.item("c"),
        r#"{"id":"c","parentTaskId":"p","rootTaskId":"p","status":"interrupted"}"#,
        "the link stays: it can be resumed"
    );
    assert_eq!((first.owner("p"), first.owner("c")), (None, None));
    let last = first.last();
    let second = window(&machine, "second");
    assert_eq!((second.last(), second.tasks.orphans().unwrap()), (last, vec![]), "once");
    let causes: Vec<_> = second
        .tasks
        .history(&id("c"))
        .unwrap()
        .iter()
        .filter_map(|change| match &change.event {
            Some(Event::StatusChanged { cause, .. }) => Some(cause.name()),
            Some(Event::Abandoned { session, fence: number, severed }) => {
                assert_eq!((*session, *number, *severed), (fence.session, fence.number + 1, false));
                Some("abandoned")
            }
            _ => None,
        })
        .collect();
    assert_eq!(causes, ["orphaned", "abandoned"]);
    // Delegated anew while interrupted: one commit.
    let again = second.tasks.delegate(&id("p"), item(r#"{"id":"d"}"#), BUFFERED).unwrap();
    assert!(again.count > 0);
}

#[test]
fn of_a_chain_the_innermost_is_repaired_and_nothing_more_by_later_opens() {
    let machine = machine();
    let (a, ..) = delegating(&machine, "a");
    let ops =
        vec![Op::Delegate { parent: id("c"), child: item(r#"{"id":"g"}"#) }, Op::Attach { id: id("g") }];
    let _ = a.tasks.commit(ops, BUFFERED).unwrap();
    machine.kill(&a.process);
    for n in 0..3 {
        let b = window(&machine, &format!("b{n}"));
        let statuses = ["p", "c", "g"].map(|task| b.status(task));
        assert_eq!(statuses, [Status::Delegated, Status::Active, Status::Interrupted], "open {n}");
    }
}

/// The runners of a chain were two, both dead: the first open freed the middle and left its dead owner, so that the second open
/// took the middle for another orphan.
#[test]
fn of_a_chain_with_many_dead_runners_the_innermost_is_repaired_and_nothing_more_by_later_opens() {
    let machine = machine();
    let top = window(&machine, "top");
    top.create(r#"{"id":"p"}"#);
    let _ = top.tasks.delegate(&id("p"), item(r#"{"id":"c"}"#), BUFFERED).unwrap();
    let (middle, innermost) = (window(&machine, "middle"), window(&machine, "innermost"));
    middle.attach("c");
    let _ = middle.tasks.delegate(&id("c"), item(r#"{"id":"g"}"#), BUFFERED).unwrap();
    innermost.attach("g");
    machine.kill(&middle.process);
    machine.kill(&innermost.process);
    for n in 0..3 {
        let b = window(&machine, &format!("b{n}"));
        let statuses = ["p", "c", "g"].map(|task| b.status(task));
        assert_eq!(statuses, [Status::Delegated, Status::Active, Status::Interrupted], "open {n}");
        assert_eq!(["p", "c", "g"].map(|task| b.owner(task)), [None; 3]);
    }
}

/// A parent as an older layout may have left it, and what it comes to.
#[test]
fn every_case_of_an_old_layout_is_mended_on_request_alone() {
    let texts = [
        r#"{"id":"nobody","status":"delegated"}"#,
        r#"{"id":"empty","status":"delegated","awaitingChildId":"","delegatedToId":"x"}"#,
        r#"{"id":"missing","status":"delegated","awaitingChildId":"gone","delegatedToId":"gone"}"#,
        r#"{"id":"orphaned","status":"delegated","awaitingChildId":"running","delegatedToId":"running","childIds":["running"]}"#,
        r#"{"id":"running","parentTaskId":"orphaned"}"#,
        r#"{"id":"done","status":"delegated","awaitingChildId":"ready","delegatedToId":"ready"}"#,
        r#"{"id":"ready","status":"completed","completionResultSummary":"all green"}"#,
        r#"{"id":"done2","status":"delegated","awaitingChildId":"ready2","delegatedToId":"ready2"}"#,
        r#"{"id":"ready2","status":"completed"}"#,
        r#"{"id":"waits","status":"delegated","awaitingChildId":"paused","delegatedToId":"paused"}"#,
        r#"{"id":"paused","status":"interrupted"}"#,
        r#"{"id":"top","status":"delegated","awaitingChildId":"waits","delegatedToId":"waits"}"#,
    ];
    let machine = machine();
    let a = window(&machine, "a");
    for text in texts {
        let item = item(text);
        let id = TaskId::new(&item.text(&Field::Id).unwrap()).unwrap();
        let record = ImportRecord { id, item, source: "old".into(), weak: vec![], evidence: vec![] };
        let _ = a.tasks.commit(vec![Op::Import(record)], BUFFERED).unwrap();
    }
    let last = a.last();
    let b = window(&machine, "b");
    let found: Vec<_> = b.tasks.orphans().unwrap();
    let told: Vec<_> = found.iter().map(|o| (o.parent.as_str(), o.fault.code(), o.owner, o.dead)).collect();
    assert_eq!(
        told,
        [
            ("done", "child-done", None, false),
            ("done2", "child-done", None, false),
            ("empty", "nobody-awaited", None, false),
            ("missing", "child-missing", None, false),
            ("nobody", "nobody-awaited", None, false),
            ("orphaned", "child-orphaned", None, false),
        ]
    );
    assert_eq!(b.tasks.mend_orphans(false, BUFFERED).unwrap(), []);
    assert_eq!(b.last(), last, "nobody asked");
    assert_eq!(b.tasks.mend_orphans(true, BUFFERED).unwrap(), found);
    let right = [
        r#"{"id":"nobody","status":"active"}"#,
        r#"{"id":"empty","status":"active"}"#,
        r#"{"id":"missing","status":"active"}"#,
        r#"{"id":"orphaned","status":"active","childIds":["running"]}"#,
        r#"{"id":"running","parentTaskId":"orphaned","status":"interrupted"}"#,
        r#"{"id":"done","status":"active","completedByChildId":"ready","completionResultSummary":"all green","childIds":["ready"]}"#,
        texts[6],
        r#"{"id":"done2","status":"active","completedByChildId":"ready2","completionResultSummary":"Task completed (recovered after interruption)","childIds":["ready2"]}"#,
        texts[8],
        texts[9],
        texts[10],
        texts[11],
    ];
    for text in right {
        let id = item(text).text(&Field::Id).unwrap().into_owned();
        assert_eq!(b.item(&id), text);
    }
    let last = b.last();
    assert_eq!(b.tasks.mend_orphans(true, BUFFERED).unwrap(), [], "once");
    assert_eq!(b.last(), last);
}

#[test]
fn faults_of_a_parent_are_mended_once_its_own_session_is_dead() {
    let machine = machine();
    let a = window(&machine, "a");
    for text in
        [r#"{"id":"p","status":"delegated","awaitingChildId":"c"}"#, r#"{"id":"c","status":"completed"}"#]
    {
        let item = item(text);
        let id = TaskId::new(&item.text(&Field::Id).unwrap()).unwrap();
        let record = ImportRecord { id, item, source: "old".into(), weak: vec![], evidence: vec![] };
        let _ = a.tasks.commit(vec![Op::Import(record)], BUFFERED).unwrap();
    }
    let _ = a.attach("p");
    let b = window(&machine, "b");
    assert_eq!(b.tasks.mend_orphans(true, BUFFERED).unwrap(), [], "its owner lives");
    machine.kill(&a.process);
    let found = b.tasks.orphans().unwrap();
    assert_eq!((found[0].fault.clone(), found[0].dead), (Fault::ChildDone(id("c")), true));
    let c = window(&machine, "c");
    assert_eq!((c.status("p"), c.owner("p")), (Status::Active, None));
    assert_eq!(b.tasks.mend_orphans(false, BUFFERED).unwrap(), []);
}

#[test]
fn owner_whose_files_are_gone_is_unknown_and_keeps_what_it_owns_until_it_is_abandoned() {
    let machine = machine();
    let (a, ..) = delegating(&machine, "a");
    let session = a.session();
    machine.kill(&a.process);
    let sweeper = machine.process("somebody");
    for entry in sweeper.list(&Path::new(ROOT).join("sessions")).unwrap() {
        sweeper.unlink(&Path::new(ROOT).join("sessions").join(entry.name)).unwrap();
    }
    let b = window(&machine, "b");
    assert_eq!(b.store.store().liveness(session).unwrap().0, Liveness::Unknown);
    assert_eq!((b.status("p"), b.status("c")), (Status::Delegated, Status::Active));
    let found = b.tasks.orphans().unwrap();
    assert_eq!((found.len(), found[0].dead, found[0].owner.unwrap().session), (1, false, session));
    assert_eq!(b.tasks.mend_orphans(true, BUFFERED).unwrap(), []);
    let error = b.tasks.attach(&id("c"), BUFFERED).unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::Owned { liveness: "unknown", owner, .. } if owner.contains("a (pid")),
        "what it said when it began to write: {error}"
    );
    let _ = b.tasks.abandon(&id("c"), BUFFERED).unwrap();
    assert_eq!(
        (b.status("p"), b.status("c"), b.attach("c").session),
        (Status::Active, Status::Interrupted, b.session())
    );
}

/// What is owned after a power cut finds the proof of its owner's death, wherever the cut was.
#[test]
fn every_power_cut_leaves_owners_that_are_proven_dead() {
    let (mut states, mut mended) = (0, 0);
    for (profile, model) in [
        (Profile::Linux, CrashModel::adversarial as fn() -> CrashModel),
        (Profile::Linux, || Profile::Linux.crash_model()),
        (Profile::Windows, || Profile::Windows.crash_model()),
    ] {
        let machine = SimMachine::new(profile, 3);
        let founder = window(&machine, "founder");
        founder.create(r#"{"id":"p"}"#);
        drop(founder);
        machine.sync_all();
        machine.record();
        let (process, a) = {
            let a = window(&machine, "a");
            let _ = a.attach("p");
            let delegate = Op::Delegate { parent: id("p"), child: item(r#"{"id":"c"}"#) };
            let ops = vec![delegate, Op::Attach { id: id("c") }];
            let _ = a.tasks.commit(ops, Durability::Durable).unwrap();
            machine.mark("delegated");
            (a.process.clone(), a)
        };
        machine.kill(&process);
        drop(a);
        let record = machine.take_record();
        let mut rng = Rng::new(5);
        let limit = if super::simulated::quick() { 12 } else { 60 };
        for boundary in &record.boundaries {
            let marked = record.marks_at(boundary).iter().any(|mark| mark == "delegated");
            for disk in boundary.disk.crash_states_with(&model(), limit, &mut rng) {
                states += 1;
                mended += usize::from(after_cut(&disk, marked, &format!("{profile:?} {:?}", boundary.call)));
            }
        }
    }
    assert!(states > 300 && mended > 40, "{states} states, {mended} mended");
}

/// Whether there was anything to mend.
fn after_cut(disk: &DiskState, marked: bool, what: &str) -> bool {
    let machine = SimMachine::from_disk(disk, 9);
    let b = window(&machine, "b");
    let there = b.tasks.get("c").unwrap().is_some();
    assert!(there || !marked, "{what}: the durable delegation is lost");
    assert_eq!(b.tasks.orphans().unwrap(), [], "{what}: {}", disk.origin());
    assert_eq!(b.status("p"), Status::Active, "{what}: {}", disk.origin());
    if there {
        assert_eq!(b.status("c"), Status::Interrupted, "{what}: {}", disk.origin());
    }
    let _ = b.attach("p");
    there
}

#[test]
fn attach_sent_twice_gives_the_same_fence() {
    let machine = machine();
    let a = window(&machine, "a");
    a.create(r#"{"id":"t"}"#);
    let once = CommitOptions::from(BUFFERED).op_id(OpId([7; 16]));
    let (first, _) = a.tasks.attach(&id("t"), once.clone()).unwrap();
    let (again, committed) = a.tasks.attach(&id("t"), once).unwrap();
    assert_eq!((first, committed.again), (again, true));
    assert_eq!(a.owner("t"), Some(first));
}

#[test]
fn files_of_the_dead_stay_while_anything_is_theirs_and_go_then() {
    let dead = |process: &SimProcess| {
        let entries = process.list(&Path::new(ROOT).join("sessions")).unwrap();
        entries.iter().filter(|entry| entry.name.ends_with(".dead")).count()
    };
    let machine = machine();
    let a = window(&machine, "a");
    a.create(r#"{"id":"t"}"#);
    let _ = a.attach("t");
    let session = a.session();
    drop((a.tasks, a.store));
    // A clean end is an end like any other: what it runs has no owner that lives.
    let b = window(&machine, "b");
    assert_eq!(dead(&b.process), 1);
    assert_eq!(b.store.store().liveness(session).unwrap().0, Liveness::Dead);
    let all = b.store.store().sessions().unwrap();
    let told: Vec<_> = all.iter().map(|entry| (entry.info.label.as_str(), entry.liveness)).collect();
    assert_eq!(told, [("a", Liveness::Dead), ("b", Liveness::Alive)]);
    assert_eq!(b.tasks.owned_by(session).unwrap(), [id("t")]);
    let _ = b.attach("t");
    // A power cut could give it back to a.
    let other = window(&machine, "other");
    assert_eq!(dead(&other.process), 1);
    drop((other.tasks, other.store));
    b.tasks.workspace().flush().unwrap();
    machine.kill(&b.process);
    // The next open finds that nothing is a's any more; t is b's.
    let c = window(&machine, "c");
    assert_eq!(dead(&c.process), 1);
    assert_eq!(c.store.store().liveness(session).unwrap().0, Liveness::Unknown);
    assert_eq!(c.store.store().liveness(b.session()).unwrap().0, Liveness::Dead);
    let _ = c.tasks.abandon(&id("t"), Durability::Durable).unwrap();
    let d = window(&machine, "d");
    assert_eq!(dead(&d.process), 0);
}

/// A task was given away by a commit that was not durable, and the files of its dead owner were removed: a power cut took back
/// the one and not the other, and nobody could ever prove that the owner was dead.
#[test]
fn proof_of_death_goes_no_earlier_than_what_made_it_needless_is_durable() {
    let machine = machine();
    let a = window(&machine, "a");
    a.create(r#"{"id":"t"}"#);
    let fence = a.attach("t");
    a.tasks.workspace().flush().unwrap();
    machine.kill(&a.process);
    machine.sync_all();
    let b = window(&machine, "b");
    let _ = b.tasks.abandon(&id("t"), BUFFERED).unwrap();
    drop(window(&machine, "c"));
    let (mut rng, mut given_back) = (Rng::new(1), 0);
    for disk in machine.disk().crash_states_with(&CrashModel::adversarial(), 200, &mut rng) {
        let machine = SimMachine::from_disk(&disk, 2);
        let d = window(&machine, "d");
        if d.owner("t").is_some() {
            given_back += 1;
            assert_eq!(d.owner("t"), Some(fence));
            let liveness = d.store.store().liveness(fence.session).unwrap().0;
            assert_eq!(liveness, Liveness::Dead, "{}", disk.origin());
        }
        let _ = d.attach("t");
    }
    assert!(given_back > 0, "the cut took nothing back");
}

/// The owner was killed between writing its attachment and telling of it; somebody who believed the tail word found nothing
/// that was the dead one's, and removed the proof of its end.
#[test]
fn proof_of_death_stays_for_an_attachment_that_nobody_was_told_of() {
    let machine = machine();
    let a = window(&machine, "a");
    a.create(r#"{"id":"t"}"#);
    a.tasks.workspace().flush().unwrap();
    let b = window(&machine, "b");
    let session = a.session();
    machine.fault(Broken::on(Call::Write, Effect::DoneButFails).path(".seg").process("a").deadly());
    let killed =
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| a.tasks.attach(&id("t"), BUFFERED)));
    assert!(killed.is_err() && !a.process.is_alive());
    // Another workspace is opened, and the files of the dead are looked through.
    let _ = b.store.home(&foldlog::Place::Key("another".into())).unwrap();
    b.create(r#"{"id":"u"}"#);
    assert_eq!(b.owner("t").map(|fence| fence.session), Some(session), "it stands in the log");
    assert_eq!(b.store.store().liveness(session).unwrap().0, Liveness::Dead);
    let _ = b.attach("t");
}

/// A session that could not list itself as a witness ended, and left nothing by which anybody could tell that it had.
#[test]
fn owner_that_ends_without_having_listed_itself_leaves_the_proof_of_its_end() {
    let machine = machine();
    window(&machine, "founder").create(r#"{"id":"t"}"#);
    let a = window(&machine, "a");
    // Its info is written once more before it may own anything, and then when it lists itself.
    machine.fault(Broken::on(Call::Rename, Effect::Eio).path(".info").process("a").nth(2).always());
    let fence = a.attach("t");
    drop((a.tasks, a.store));
    machine.clear_faults();
    let b = window(&machine, "b");
    assert_eq!(b.store.store().liveness(fence.session).unwrap().0, Liveness::Dead);
    let _ = b.attach("t");
}

#[test]
fn request_of_a_session_that_is_dead_gives_its_fence_to_nobody_else() {
    let machine = machine();
    let a = window(&machine, "a");
    a.create(r#"{"id":"t"}"#);
    let once = CommitOptions::from(BUFFERED).op_id(OpId([7; 16]));
    let _ = a.tasks.attach(&id("t"), once.clone()).unwrap();
    machine.kill(&a.process);
    let b = window(&machine, "b");
    assert_eq!(code(b.tasks.attach(&id("t"), once)), "refused", "whoever holds it is dead");
    assert_eq!(b.attach("t").session, b.session());
}

#[test]
fn open_does_not_wait_for_the_lock_and_what_was_left_is_mended_by_the_next_commit() {
    let machine = machine();
    let (a, ..) = delegating(&machine, "a");
    machine.kill(&a.process);
    let holder = machine.process("holder");
    let lock = holder.open(&folder(&holder).join("LOCK"), foldlog::vfs::Open::Lock).unwrap();
    assert!(lock.try_lock().unwrap());
    let sleeps = machine.calls(Call::Sleep);
    let b = window(&machine, "b");
    let slept = machine.calls(Call::Sleep) - sleeps;
    assert!(slept < 12, "{slept} sleeps: it waited for somebody");
    assert_eq!((b.status("p"), b.status("c")), (Status::Delegated, Status::Active));
    lock.unlock().unwrap();
    b.create(r#"{"id":"new"}"#);
    assert_eq!((b.status("p"), b.status("c")), (Status::Active, Status::Interrupted));
}

#[test]
fn abandon_of_a_task_for_which_nobody_waits_takes_it_away_and_no_more() {
    let machine = machine();
    let a = window(&machine, "a");
    a.create(r#"{"id":"t","mode":"code"}"#);
    let fence = a.attach("t");
    let b = window(&machine, "b");
    let _ = b.tasks.abandon(&id("t"), BUFFERED).unwrap();
    assert_eq!(b.item("t"), r#"{"id":"t","mode":"code"}"#);
    assert_eq!(code(a.tasks.detach(&id("t"), fence, BUFFERED)), "fenced");
    assert_eq!(b.attach("t").number, fence.number + 2);
}

/// Whose file has been deleted lives, and nobody can see it: it may own nothing until it has a new one.
#[test]
fn session_whose_file_was_deleted_owns_nothing_new_until_the_store_is_opened_again() {
    let machine = machine();
    let a = window(&machine, "a");
    a.create(r#"{"id":"t"}"#);
    let held = a.attach("t");
    let sessions = Path::new(ROOT).join("sessions");
    let other = machine.process("somebody");
    for entry in other.list(&sessions).unwrap() {
        other.unlink(&sessions.join(entry.name)).unwrap();
    }
    assert_eq!(code(a.tasks.attach(&id("t"), BUFFERED)), "store-replaced");
    // What it holds it still holds, for all others too: unknown is not dead.
    let _ = a.tasks.patch(&id("t"), Patch::new().set(Field::Mode, "code"), with("t", held)).unwrap();
    let b = window(&machine, "b");
    assert_eq!(code(b.tasks.attach(&id("t"), BUFFERED)), "owned");
    let process = a.process.clone();
    drop((a.tasks, a.store));
    let options = TaskStore::options(options().label("a again"));
    let store = TaskStore::of(Store::open_on(Arc::new(process), Path::new(ROOT), options).unwrap());
    let again = store.home(&place()).unwrap();
    assert_eq!(
        code(again.attach(&id("t"), BUFFERED)),
        "owned",
        "by the session it was, of which nobody knows"
    );
    let _ = again.abandon(&id("t"), BUFFERED).unwrap();
    let (fence, _) = again.attach(&id("t"), BUFFERED).unwrap();
    assert!(fence.session != held.session && fence.number == held.number + 2);
}

#[test]
fn commits_that_fail_leave_the_owner_as_it_was() {
    let machine = machine();
    let a = window(&machine, "a");
    a.create(r#"{"id":"t"}"#);
    let fence = a.attach("t");
    let hash = || a.tasks.read(|state, _| state.hash()).unwrap();
    let before = hash();
    machine.fault(Broken::on(Call::Write, Effect::Fail(std::io::ErrorKind::StorageFull)).path(".seg").nth(1));
    assert_eq!(code(a.tasks.attach(&id("t"), BUFFERED)), "no-space");
    machine.clear_faults();
    assert_eq!((a.owner("t"), hash()), (Some(fence), before));
    let b = window(&machine, "b");
    assert_eq!(b.tasks.read(|state, _| state.hash()).unwrap(), before, "and as others read it");
    let _ = a.tasks.patch(&id("t"), Patch::new().set(Field::Mode, "code"), with("t", fence)).unwrap();
}
