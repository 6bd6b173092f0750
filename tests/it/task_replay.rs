//! Logs as today's rules would never have let them become: they open, say what is wrong, and fold alike in every reader.
//! And the fold of a process whose write failed: as if the write had never been tried.

#![expect(clippy::unwrap_used, reason = "a test, all of it")]

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::channel;

use foldlog::event::{Cause, Event, Field, Item, Patch, Status, StatusTable, TaskId, Value, kinds};
use foldlog::task::{CommitOptions, ImportRecord, Op, TaskExpect, TaskStore, Tasks};
use foldlog::vfs::Vfs as _;
use foldlog::vfs::os::Os;
use foldlog::vfs::sim::{Profile, SimMachine};
use foldlog::{
    Durability, Housekeeping, Key, NewEvent, Options, Place, State, Status as Health, Store, Vocabulary,
};

use super::simulated::ROOT;
use super::task_rules::{id, item};

const BUFFERED: Durability = Durability::Buffered;

fn options() -> Options {
    TaskStore::options(Options::default().housekeeping(Housekeeping::Off))
}

fn on(machine: &SimMachine, label: &str, options: Options) -> Tasks {
    let process = Arc::new(machine.process(label));
    let store = Store::open_on(process, Path::new(ROOT), options).unwrap();
    TaskStore::of(store).home(&Place::None).unwrap()
}

fn hash(tasks: &Tasks) -> blake3::Hash {
    tasks.read(|state, _| state.hash()).unwrap()
}

/// One commit, past all rules.
fn push(tasks: &Tasks, events: Vec<NewEvent>) {
    let done = tasks.workspace().commit(BUFFERED, move |_: &State, draft| {
        for event in events {
            draft.push(event);
        }
        Ok(())
    });
    let _ = done.unwrap();
}

fn on_task(name: &str, event: Event) -> NewEvent {
    event.to_new(Key::task(name))
}

fn created(name: &str, status: Option<&str>) -> NewEvent {
    let made = Item::new(&id(name));
    let item = status.into_iter().fold(made, |item, status| item.with(Field::Status, status));
    on_task(name, Event::Created { item, again: false })
}

fn moved(from: Status, to: Status) -> Event {
    Event::StatusChanged { from, to, cause: Cause::Set }
}

fn set(field: Field, text: &str) -> Event {
    Event::Patched(Patch::new().set(field, text))
}

/// Events on one log, what the fold and the checks say of them, and what they come to.
type Story =
    (&'static str, Vec<NewEvent>, &'static [&'static str], Vec<(&'static str, Option<&'static str>)>);

fn stories() -> Vec<Story> {
    use Status::{Active, Completed, Delegated, Interrupted};
    let deleted = || on_task("t", Event::Deleted { with: None });
    let linked =
        |name: &str, parent: &str| on_task(name, Event::Linked { parent: id(parent), root: id(parent) });
    vec![
        (
            "status jumps",
            vec![
                created("t", Some("completed")),
                on_task("t", moved(Completed, Active)),
                on_task("t", moved(Interrupted, Completed)),
            ],
            &["illegal-status", "status-from"],
            vec![("t", Some(r#"{"id":"t","status":"completed"}"#))],
        ),
        (
            "late events",
            vec![
                created("t", None),
                deleted(),
                on_task("t", set(Field::Mode, "late")),
                created("t", None),
                on_task("t", Event::Finished { summary: None }),
            ],
            &["event-after-delete", "event-after-delete", "event-after-delete"],
            vec![("t", None)],
        ),
        (
            "again after all",
            vec![
                created("t", None),
                deleted(),
                on_task("t", Event::Created { item: item(r#"{"id":"t","n":1}"#), again: true }),
            ],
            &[],
            vec![("t", Some(r#"{"id":"t","n":1}"#))],
        ),
        (
            "early events",
            vec![on_task("t", set(Field::Mode, "early")), created("t", Some("active"))],
            &["event-before-create", "created-twice"],
            vec![("t", Some(r#"{"mode":"early","id":"t","status":"active"}"#))],
        ),
        (
            "created twice",
            vec![
                on_task("t", Event::Created { item: item(r#"{"id":"t","a":1,"b":1}"#), again: false }),
                on_task("t", Event::Created { item: item(r#"{"id":"t","b":2,"c":2}"#), again: false }),
            ],
            &["created-twice"],
            vec![("t", Some(r#"{"id":"t","a":1,"b":2,"c":2}"#))],
        ),
        (
            "ruled fields patched",
            vec![
                created("t", None),
                on_task("t", set(Field::Status, "paused")),
                on_task("t", set(Field::Id, "other")),
                on_task("t", set(Field::AwaitingChildId, "c")),
            ],
            &[
                "ruled-field-patched",
                "ruled-field-patched",
                "ruled-field-patched",
                "unknown-status",
                "id-differs",
                "waits-undelegated",
            ],
            vec![("t", Some(r#"{"id":"other","status":"paused","awaitingChildId":"c"}"#))],
        ),
        (
            "bodies that do not decode",
            vec![
                created("t", None),
                NewEvent::state(kinds::PATCHED, 1, Key::task("t"), b"\xff\xff\xff"),
                NewEvent::state(kinds::CREATED, 1, Key::task("never"), []),
                NewEvent::state(kinds::STATUS_CHANGED, 1, Key::task("t"), [1, 9, 0]),
                NewEvent::state(kinds::STATUS_CHANGED, 1, Key::task("t"), [1, 3, 0, 0]),
                NewEvent::record(kinds::RULES_SET, 1, Key::none(), [200]),
            ],
            &["bad-body", "bad-body", "bad-body", "bad-body", "bad-body"],
            vec![("t", Some(r#"{"id":"t"}"#)), ("never", None)],
        ),
        (
            "a cycle",
            vec![
                created("t", None),
                created("u", None),
                created("v", None),
                linked("t", "u"),
                linked("u", "t"),
                linked("v", "v"),
            ],
            &["cycle", "cycle", "cycle"],
            vec![("t", Some(r#"{"id":"t","parentTaskId":"u","rootTaskId":"u"}"#))],
        ),
        (
            "a child that returns unasked",
            vec![
                created("t", Some("interrupted")),
                on_task("t", Event::ChildReturned { child: id("c"), summary: Some("odd".into()) }),
            ],
            &["not-waiting"],
            vec![(
                "t",
                Some(
                    r#"{"id":"t","status":"active","completedByChildId":"c","completionResultSummary":"odd","childIds":["c"]}"#,
                ),
            )],
        ),
        (
            "waiting for what is not there, and done",
            vec![
                created("t", None),
                on_task("t", Event::Delegated { child: id("gone") }),
                created("p", None),
                created("c", Some("completed")),
                on_task("p", Event::Delegated { child: id("c") }),
                created("q", Some("delegated")),
                created("x", None),
                on_task("r", Event::Delegated { child: id("x") }),
            ],
            &[
                "event-before-create",
                "child-done",
                "delegated-to-nobody",
                "child-of-another",
                "child-missing",
            ],
            vec![("q", Some(r#"{"id":"q","status":"delegated"}"#))],
        ),
        (
            "kinds of a newer release that may be passed over",
            vec![
                created("t", None),
                NewEvent::state(200, 1, Key::task("t"), b"?").ignorable(),
                NewEvent::record(201, 1, Key::none(), b"?").ignorable(),
                NewEvent::state(kinds::PATCHED, 2, Key::task("t"), b"?").ignorable(),
            ],
            &[],
            vec![("t", Some(r#"{"id":"t"}"#))],
        ),
        (
            "a table of nothing",
            vec![
                created("t", None),
                Event::RulesSet(StatusTable::new("none", [])).to_new(Key::none()),
                on_task("t", moved(Active, Completed)),
                on_task("t", moved(Completed, Delegated)),
            ],
            &["illegal-status", "illegal-status", "delegated-to-nobody"],
            vec![("t", Some(r#"{"id":"t","status":"delegated"}"#))],
        ),
        (
            "delegated without a word",
            vec![created("t", Some("completed")), on_task("t", Event::Delegated { child: id("t") })],
            &["illegal-status", "child-of-another"],
            vec![(
                "t",
                Some(
                    r#"{"id":"t","status":"delegated","delegatedToId":"t","awaitingChildId":"t","childIds":["t"]}"#,
                ),
            )],
        ),
        (
            "nothing",
            vec![created("t", Some("delegated")), on_task("t", moved(Delegated, Completed))],
            &["illegal-status"],
            vec![],
        ),
    ]
}

#[test]
fn logs_that_break_the_rules_open_and_say_so() {
    for (name, events, findings, items) in stories() {
        let machine = SimMachine::new(Profile::Linux, 1);
        let writer = on(&machine, "w", options());
        // One by one, in one commit, and with a change of today's behind them.
        for event in &events {
            push(&writer, vec![event.clone()]);
        }
        let whole = SimMachine::new(Profile::Linux, 2);
        let other = on(&whole, "w", options());
        push(&other, events);
        let readers = [
            writer.clone(),
            on(&machine, "r", options().read_only(true)),
            on(&machine, "r2", options().read_only(true)),
            other,
        ];
        for (n, tasks) in readers.iter().enumerate() {
            let said: Vec<&str> = tasks.check().unwrap().iter().map(|finding| finding.code).collect();
            let mut sorted = (said.clone(), findings.to_vec());
            sorted.0.sort_unstable();
            sorted.1.sort_unstable();
            assert_eq!(sorted.0, sorted.1, "{name}, reader {n}");
            for (id, json) in &items {
                let found = tasks.get(id).unwrap().map(|s| s.task.item.to_json());
                assert_eq!(found.as_deref(), *json, "{name}, reader {n}");
            }
            assert!(
                matches!(tasks.workspace().health().status, Health::Healthy | Health::ReadOnly),
                "{name}"
            );
            for (id, _) in &items {
                let _ = (tasks.tree(id).unwrap(), tasks.totals(id).unwrap());
                let _ = tasks.history(&TaskId::new(id).unwrap()).unwrap();
            }
        }
        assert_eq!(hash(&readers[1]), hash(&readers[0]), "{name}");
        assert_eq!(hash(&readers[2]), hash(&readers[0]), "{name}");
        // It is written on, and a look at a task is still what a commit can rest on.
        let made = writer.create(item(r#"{"id":"new"}"#), BUFFERED).unwrap();
        assert_eq!(made.tasks.len(), 1, "{name}");
        for id in ["t", "u", "p", "q", "c"] {
            let Some(found) = writer.get(id).unwrap() else { continue };
            let expect = CommitOptions::from(BUFFERED).expect(&found.task.id, TaskExpect::At(found.token));
            let patch = Patch::new().set(Field::of("later"), 1_i64);
            let done =
                writer.patch(&found.task.id, patch, expect).unwrap_or_else(|e| panic!("{name}, {id}: {e}"));
            assert_eq!(done.token(&found.task.id).unwrap().revision.0, found.token.revision.0 + 1, "{name}");
        }
        assert_eq!(hash(&readers[1]), hash(&writer), "{name}");
    }
}

/// An event of a kind that must be understood makes the log read-only here, and everything before and behind it readable.
#[test]
fn unknown_kind_that_must_be_understood_stops_writing_alone() {
    let machine = SimMachine::new(Profile::Linux, 1);
    let newer = on(&machine, "newer", options().vocabulary(Vocabulary::all()));
    let old = on(&machine, "old", options());
    let _ = old.create(item(r#"{"id":"t","n":1}"#), BUFFERED).unwrap();
    push(&newer, vec![NewEvent::state(999, 1, Key::task("t"), b"?")]);
    push(&newer, vec![on_task("t", set(Field::Mode, "behind"))]);
    for tasks in [&old, &on(&machine, "later", options())] {
        let refused = tasks.patch(&id("t"), Patch::new().set(Field::of("n"), 2_i64), BUFFERED).unwrap_err();
        assert_eq!(refused.code(), "unknown-event", "{refused}");
        assert_eq!(tasks.workspace().health().status, Health::TooNew);
        let found = tasks.get("t").unwrap().unwrap();
        assert_eq!(
            (found.task.item.to_json().as_str(), found.token.revision.0),
            (r#"{"id":"t","n":1,"mode":"behind"}"#, 3)
        );
        assert_eq!(hash(tasks), hash(&newer));
    }
    let _ = newer.patch(&id("t"), Patch::new().set(Field::of("n"), 2_i64), BUFFERED).unwrap();
}

/// Every kind of operation, each on tasks of its own, with values that fill a few blocks together.
fn ops(filler: &str) -> Vec<Op> {
    let filled = |name: &str| Item::new(&id(name)).with(Field::of("filler"), filler);
    let import = |id_: &str, text: &str| {
        let record = item(text).with(Field::of("filler"), filler);
        let evidence = vec![("other".to_owned(), Value::from(filler))];
        Op::Import(ImportRecord { id: id(id_), item: record, source: "s".into(), weak: vec![], evidence })
    };
    vec![
        Op::Create { item: filled("made"), again: false },
        Op::Create { item: filled("dead"), again: true },
        Op::Patch { id: id("patched"), patch: Patch::new().set(Field::Mode, filler).unset(Field::of("n")) },
        Op::Rename { id: id("renamed"), title: filler.into() },
        Op::SetStatus { id: id("moved"), status: Status::Interrupted },
        Op::Resume { id: id("resumed") },
        Op::Delegate { parent: id("p1"), child: filled("c1") },
        Op::Delegate { parent: id("p2"), child: Item::new(&id("c2")) },
        Op::Complete { id: id("c3"), summary: Some(filler.into()) },
        Op::Remove { ids: vec![id("c4")], cascade: true },
        import("imported", r#"{"id":"imported","n":2}"#),
        import("new", r#"{"id":"new","n":2}"#),
        // It allows all that the default does: which commit comes first is nobody's choice.
        Op::SetRules(StatusTable::new("other", StatusTable::default().rows().iter().copied())),
    ]
}

fn prepared() -> SimMachine {
    let machine = SimMachine::new(Profile::Linux, 1);
    let tasks = on(&machine, "founder", options().reserve(false));
    let create = |name: &str| Op::Create { item: item(&format!(r#"{{"id":"{name}","n":1}}"#)), again: false };
    let mut all: Vec<Op> =
        ["dead", "patched", "renamed", "moved", "p1", "p2", "c2", "p3", "p4"].map(create).into();
    all.push(Op::Create { item: item(r#"{"id":"resumed","status":"interrupted"}"#), again: false });
    all.push(Op::Delegate { parent: id("p3"), child: Item::new(&id("c3")) });
    all.push(Op::Delegate { parent: id("p4"), child: Item::new(&id("c4")) });
    all.push(Op::Delegate { parent: id("c4"), child: Item::new(&id("c5")) });
    all.push(Op::Remove { ids: vec![id("dead")], cascade: false });
    let record = item(r#"{"id":"imported","n":1,"gone":1}"#);
    all.push(Op::Import(ImportRecord {
        id: id("imported"),
        item: record,
        source: "s".into(),
        weak: Vec::new(),
        evidence: vec![],
    }));
    let _ = tasks.commit(all, Durability::Durable).unwrap();
    tasks.workspace().clone().close().unwrap();
    SimMachine::from_disk(&machine.disk().all_synced(), 2)
}

/// Many threads' commits share a write, and the disk is full in the middle of it: those that do not fit leave nothing
/// behind in the process either, and come again when there is room.
#[test]
fn failed_write_leaves_the_fold_as_a_fresh_reader_has_it() {
    // Without reserve: there would be room in it for all of them.
    let options = || options().reserve(false);
    let base = prepared();
    let filler = "f".repeat(1_500);
    let (mut failed, mut stood, mut mixed) = (0, 0, 0);
    for blocks in 0..12_u64 {
        let machine = SimMachine::from_disk(&base.disk(), 3);
        let tasks = on(&machine, "w", options());
        let (inside, is_inside) = channel();
        let (go, may_go) = channel::<()>();
        let (ready, is_ready) = channel();
        let all = ops(&filler);
        let (count, holder) = (all.len(), tasks.workspace().clone());
        let outcomes: Vec<(Op, foldlog::Result<_>)> = std::thread::scope(|scope| {
            scope.spawn(move || {
                let _ = holder.commit(BUFFERED, move |_: &State, _| {
                    inside.send(()).unwrap();
                    may_go.recv().unwrap();
                    Ok(())
                });
            });
            is_inside.recv().unwrap();
            let threads: Vec<_> = all
                .into_iter()
                .map(|op| {
                    let (tasks, ready) = (tasks.clone(), ready.clone());
                    scope.spawn(move || {
                        ready.send(()).unwrap();
                        let done = tasks.commit(vec![op.clone()], BUFFERED);
                        (op, done)
                    })
                })
                .collect();
            (0..count).for_each(|_| is_ready.recv().unwrap());
            // Most of them queue up by now, which makes batches; nothing rests on it.
            (0..2_000).for_each(|_| std::thread::yield_now());
            machine.set_capacity(Some(machine.used() + blocks * 4096));
            go.send(()).unwrap();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let bad = outcomes.iter().filter(|(_, done)| done.is_err()).count();
        for (op, done) in &outcomes {
            assert!(
                done.as_ref().is_ok_and(|done| done.count > 0)
                    || done.as_ref().is_err_and(|e| e.code() == "no-space"),
                "{op:?}: {done:?}"
            );
        }
        (failed, stood) = (failed + bad, stood + count - bad);
        mixed += usize::from(bad > 0 && bad < count);
        let fresh = || on(&machine, "fresh", options().read_only(true));
        assert_eq!(hash(&tasks), hash(&fresh()), "{blocks} blocks, {bad} failed");
        let look = |tasks: &Tasks| {
            let children = |index: &foldlog::view::Index| {
                let of = |id: &str| index.children(id).map(|task| task.id.to_string()).collect::<Vec<_>>();
                (["p1", "p2", "p3", "p4", "c4"].map(of), index.len(), index.rules().name().to_owned())
            };
            let known = |index: &foldlog::view::Index| (index.bindings().len(), index.findings_seen());
            tasks.read(|_, index| (children(index), known(index))).unwrap()
        };
        assert_eq!(look(&tasks), look(&fresh()), "{blocks} blocks, {bad} failed");
        machine.set_capacity(None);
        for (op, done) in outcomes {
            if done.is_err() {
                assert!(tasks.commit(vec![op.clone()], BUFFERED).unwrap().count > 0, "{op:?}");
            }
        }
        assert_eq!(hash(&tasks), hash(&fresh()), "{blocks} blocks");
        assert!(tasks.check().unwrap().is_empty());
        assert_eq!(look(&tasks), look(&fresh()));
    }
    println!("{failed} commits failed, {stood} stood, both in {mixed} rounds");
    assert!(failed > 20 && stood > 20 && mixed >= 3, "{failed} {stood} {mixed}");
}

/// What a commit is refused for must stand: where the commit before it in the batch does not reach the disk, nobody is
/// told that its task exists already.
#[test]
fn refusal_that_rests_on_a_failed_write_is_that_failure() {
    let machine = SimMachine::new(Profile::Linux, 1);
    let tasks = on(&machine, "w", options());
    let _ = tasks.create(Item::new(&id("first")), BUFFERED).unwrap();
    let (inside, is_inside) = channel();
    let (go, may_go) = channel::<()>();
    let (ready, is_ready) = channel();
    let holder = tasks.workspace().clone();
    let made = Item::new(&id("t")).with(Field::Mode, &*"m".repeat(60_000));
    let codes: Vec<_> = std::thread::scope(|scope| {
        scope.spawn(move || {
            let _ = holder.commit(BUFFERED, move |_: &State, _| {
                inside.send(()).unwrap();
                may_go.recv().unwrap();
                Ok(())
            });
        });
        is_inside.recv().unwrap();
        let threads: Vec<_> = (0..8)
            .map(|_| {
                let (tasks, ready, made) = (tasks.clone(), ready.clone(), made.clone());
                scope.spawn(move || {
                    ready.send(()).unwrap();
                    tasks.create(made, BUFFERED).map(|_| ()).map_err(|e| e.code())
                })
            })
            .collect();
        (0..8).for_each(|_| is_ready.recv().unwrap());
        // Most of them queue up by now, which makes one batch of them; nothing rests on it.
        (0..2_000).for_each(|_| std::thread::yield_now());
        machine.set_capacity(Some(machine.used()));
        go.send(()).unwrap();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(codes, vec![Err("no-space"); 8]);
    machine.set_capacity(None);
    let _ = tasks.create(made, BUFFERED).unwrap();
}

#[test]
fn long_chains_are_checked_in_the_time_of_one_walk() {
    let machine = SimMachine::new(Profile::Linux, 1);
    let tasks = on(&machine, "w", options());
    let name = |n: usize| format!("t{n:05}");
    for all in (0..40_000).collect::<Vec<_>>().chunks(4_000) {
        let made = |n: &usize| {
            let item = Item::new(&id(&name(*n)));
            let item = if *n == 0 { item } else { item.with(Field::ParentTaskId, &*name(n - 1)) };
            on_task(&name(*n), Event::Created { item, again: false })
        };
        push(&tasks, all.iter().map(made).collect());
    }
    let started = Os.monotonic();
    assert_eq!(tasks.check().unwrap(), []);
    // A new task at its end: nothing is below that.
    let last = Item::new(&id("last")).with(Field::ParentTaskId, &*name(39_999));
    let _ = tasks.create(last, BUFFERED).unwrap();
    let took = Os.monotonic().saturating_sub(started);
    assert!(took.as_secs() < 20, "{took:?}");
    // Who hangs below a cycle is not in it.
    let up =
        |n: usize, parent: &str| on_task(&name(n), Event::Linked { parent: id(parent), root: id(parent) });
    push(&tasks, vec![up(0, &name(2))]);
    let found: Vec<_> =
        tasks.check().unwrap().into_iter().map(|finding| (finding.code, finding.message)).collect();
    let cycle = |n: usize| ("cycle", format!("{} is above itself", name(n)));
    assert_eq!(found, [cycle(0), cycle(1), cycle(2)]);
}

#[test]
fn lengths_of_blobs_that_no_sum_can_hold_are_folded() {
    let machine = SimMachine::new(Profile::Linux, 1);
    let tasks = on(&machine, "w", options());
    let blob = *tasks.workspace().put_blobs(&[b"1"]).unwrap().first().unwrap();
    let endless = || Value::Blob { id: blob, len: u64::MAX };
    let made = Item::new(&id("t")).with(Field::Mode, endless()).with(Field::of("x"), endless());
    push(&tasks, vec![on_task("t", Event::Created { item: made, again: false })]);
    let _ = tasks.patch(&id("t"), Patch::new().set(Field::Number, Value::Int(1)), BUFFERED).unwrap();
    let _ = tasks.patch(&id("t"), Patch::new().unset(Field::Mode).unset(Field::of("x")), BUFFERED).unwrap();
    let json = tasks.get("t").unwrap().unwrap().task.item.to_json();
    assert_eq!(json, r#"{"id":"t","number":1}"#);
}
