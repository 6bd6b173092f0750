//! The rules of tasks, verb by verb, through the public calls.

use foldlog::event::{Event, Field, Item, Patch, Status, StatusTable, TaskId, Value, session_key};
use foldlog::log::Durability;
use foldlog::task::{CommitOptions, Op, TaskExpect, TaskStore, Tasks, Token};
use foldlog::view::{Query, Sort};
use foldlog::{ErrorKind, OpId, Options, Place, Revision, Seq};

pub(super) fn id(id: &str) -> TaskId {
    TaskId::new(id).unwrap()
}

pub(super) fn item(text: &str) -> Item {
    Item::parse(text).unwrap()
}

fn open() -> Tasks {
    TaskStore::memory(Options::default()).unwrap().home(&Place::None).unwrap()
}

fn with(ids: &[&str]) -> Tasks {
    let tasks = open();
    for id in ids {
        let _ = tasks.create(item(&format!(r#"{{"id":"{id}"}}"#)), Durability::Buffered).unwrap();
    }
    tasks
}

fn json(tasks: &Tasks, id: &str) -> String {
    tasks.get(id).unwrap().unwrap().task.item.to_json()
}

fn code<T: std::fmt::Debug>(result: foldlog::Result<T>) -> &'static str {
    result.unwrap_err().code()
}

#[test]
fn patches_touch_what_they_name_and_nothing_else() {
    let tasks = open();
    let text = r#"{"id":"t","zeta":1.50,"ts":1,"big":18446744073709551616,"s":"\ud83d","childIds":["a"]}"#;
    let made = tasks.create(item(text), Durability::Durable).unwrap();
    assert!(made.durable);
    assert_eq!(json(&tasks, "t"), text);
    let patch =
        Patch::parse(r#"{"set":{"ts":2,"mode":"code","childIds":["b","a"]},"unset":["zeta","absent"]}"#);
    let done = tasks.patch(&id("t"), patch.unwrap(), Durability::Buffered).unwrap();
    assert_eq!(
        json(&tasks, "t"),
        r#"{"id":"t","ts":2,"big":18446744073709551616,"s":"\ud83d","childIds":["a","b"],"mode":"code"}"#
    );
    assert_eq!(done.token(&id("t")).unwrap().revision, Revision(2));
    let again = Patch::new()
        .set(Field::Ts, 2_i64)
        .set(Field::ChildIds, Value::strings(["b"]))
        .unset(Field::of("zeta"));
    assert_eq!(
        tasks.patch(&id("t"), again, Durability::Buffered).unwrap().count,
        0,
        "nothing changes: nothing is written"
    );
    let drop = Patch::new().drop_children(["a", "x"]);
    let _ = tasks.patch(&id("t"), drop, Durability::Buffered).unwrap();
    assert_eq!(tasks.get("t").unwrap().unwrap().task.child_ids(), ["b".into()]);
}

#[test]
fn ruled_fields_cannot_be_saved() {
    let tasks = with(&["t", "p"]);
    for field in [
        "id",
        "status",
        "parentTaskId",
        "rootTaskId",
        "delegatedToId",
        "awaitingChildId",
        "completedByChildId",
    ] {
        let patch = Patch::new().set(Field::of(field), "p");
        assert_eq!(code(tasks.patch(&id("t"), patch, Durability::Buffered)), "ruled-field", "{field}");
    }
    assert_eq!(
        code(tasks.patch(&id("t"), Patch::new().unset(Field::Id), Durability::Buffered)),
        "ruled-field"
    );
    let same = Patch::new().set(Field::Id, "t").set(Field::Mode, "m");
    assert_eq!(
        tasks.patch(&id("t"), same, Durability::Buffered).unwrap().count,
        1,
        "as it is already: a whole item saved"
    );
}

#[test]
fn status_follows_the_table() {
    use Status::{Active, Completed, Delegated, Interrupted};
    let tasks = with(&["t"]);
    let set = |status| tasks.set_status(&id("t"), status, Durability::Buffered);
    assert_eq!(set(Active).unwrap().count, 0, "absent is active");
    assert_eq!(code(set(Delegated)), "ruled-field");
    let _ = set(Interrupted).unwrap();
    assert_eq!(set(Interrupted).unwrap().count, 0);
    let refused = set(Active).unwrap_err();
    assert!(refused.to_string().contains("resume"), "{refused}");
    let _ = tasks.resume(&id("t"), Durability::Buffered).unwrap();
    assert_eq!(tasks.resume(&id("t"), Durability::Buffered).unwrap().count, 0);
    let _ = set(Completed).unwrap();
    for status in [Active, Interrupted] {
        assert_eq!(code(set(status)), "status-refused");
    }
    assert_eq!(code(tasks.resume(&id("t"), Durability::Buffered)), "status-refused");
    assert_eq!(json(&tasks, "t"), r#"{"id":"t","status":"completed"}"#);
}

#[test]
fn table_is_the_workspaces_and_every_process_reads_it() {
    let dir = tempfile::tempdir().unwrap();
    let tasks = TaskStore::open(dir.path(), Options::default()).unwrap().home(&Place::None).unwrap();
    let _ = tasks.set_rules(StatusTable::zoo_3_78(), Durability::Durable).unwrap();
    assert_eq!(tasks.set_rules(StatusTable::zoo_3_78(), Durability::Durable).unwrap().count, 0);
    let _ = tasks.create(item(r#"{"id":"t","status":"interrupted"}"#), Durability::Buffered).unwrap();
    let other = TaskStore::open(dir.path(), Options::default().read_only(true)).unwrap();
    let table = other.home(&Place::None).unwrap().read(|_, index| index.rules().name().to_owned());
    assert_eq!(table.unwrap(), "zoo-3.78");
    assert_eq!(code(tasks.resume(&id("t"), Durability::Buffered)), "status-refused");
    let _ = tasks.complete(&id("t"), None, Durability::Buffered).unwrap();
}

#[test]
fn delegation_and_return_are_one_commit_each() {
    let tasks = open();
    let _ = tasks.create(item(r#"{"id":"p","workspace":"/w"}"#), Durability::Buffered).unwrap();
    let done = tasks.delegate(&id("p"), item(r#"{"id":"c","task":"sub"}"#), Durability::Buffered).unwrap();
    assert_eq!((done.count, done.tasks.len()), (2, 2));
    assert_eq!(
        json(&tasks, "c"),
        r#"{"id":"c","task":"sub","parentTaskId":"p","rootTaskId":"p","workspace":"/w"}"#
    );
    assert_eq!(
        json(&tasks, "p"),
        r#"{"id":"p","workspace":"/w","status":"delegated","delegatedToId":"c","awaitingChildId":"c","childIds":["c"]}"#
    );
    let busy = tasks.delegate(&id("p"), item(r#"{"id":"d"}"#), Durability::Buffered);
    assert!(busy.unwrap_err().to_string().contains("waits for c"));
    let wrong = tasks.set_status(&id("c"), Status::Completed, Durability::Buffered).unwrap_err();
    assert!(wrong.to_string().contains("use `complete`"), "{wrong}");
    let done = tasks.complete(&id("c"), Some("did it"), Durability::Buffered).unwrap();
    assert_eq!(done.tasks.len(), 2);
    assert_eq!(
        json(&tasks, "p"),
        r#"{"id":"p","workspace":"/w","status":"active","childIds":["c"],"completedByChildId":"c","completionResultSummary":"did it"}"#
    );
    assert_eq!(tasks.get("c").unwrap().unwrap().task.status(), Status::Completed);
    assert_eq!(tasks.complete(&id("c"), Some("late"), Durability::Buffered).unwrap().count, 0);
    assert!(tasks.check().unwrap().is_empty());
}

#[test]
fn result_for_a_parent_that_waits_no_more_is_refused() {
    let tasks = with(&["p"]);
    let _ = tasks.delegate(&id("p"), item(r#"{"id":"c"}"#), Durability::Buffered).unwrap();
    let _ = tasks.set_status(&id("p"), Status::Active, Durability::Buffered).unwrap();
    assert_eq!(json(&tasks, "p"), r#"{"id":"p","status":"active","childIds":["c"]}"#);
    assert_eq!(code(tasks.complete(&id("c"), None, Durability::Buffered)), "not-waiting");
    let _ = tasks.set_status(&id("c"), Status::Completed, Durability::Buffered).unwrap();
}

#[test]
fn redelegation_waits_for_the_old_child_to_stop() {
    let tasks = with(&["p"]);
    let _ = tasks.delegate(&id("p"), item(r#"{"id":"a"}"#), Durability::Buffered).unwrap();
    assert_eq!(code(tasks.delegate(&id("p"), item(r#"{"id":"b"}"#), Durability::Buffered)), "status-refused");
    let _ = tasks.set_status(&id("a"), Status::Interrupted, Durability::Buffered).unwrap();
    let done = tasks.delegate(&id("p"), item(r#"{"id":"b"}"#), Durability::Buffered).unwrap();
    assert_eq!(done.tasks.len(), 2);
    let parent = tasks.get("p").unwrap().unwrap().task;
    assert_eq!((parent.awaiting().as_deref(), parent.child_ids().len()), (Some("b"), 2));
}

#[test]
fn no_task_comes_above_itself() {
    let tasks = with(&["a"]);
    let _ = tasks.delegate(&id("a"), item(r#"{"id":"b"}"#), Durability::Buffered).unwrap();
    assert_eq!(code(tasks.delegate(&id("b"), item(r#"{"id":"a"}"#), Durability::Buffered)), "cycle");
    assert_eq!(code(tasks.delegate(&id("b"), item(r#"{"id":"b"}"#), Durability::Buffered)), "cycle");
    assert_eq!(code(tasks.create(item(r#"{"id":"x","parentTaskId":"x"}"#), Durability::Buffered)), "no-task");
}

#[test]
fn deleted_tasks_stay_deleted() {
    let tasks = with(&["t"]);
    let _ = tasks.remove(&[id("t")], false, Durability::Buffered).unwrap();
    let late = Patch::new().set(Field::Mode, "x");
    let e = tasks.patch(&id("t"), late, Durability::Buffered).unwrap_err();
    assert!(matches!(e.kind(), ErrorKind::TaskDeleted { .. }), "{e}");
    assert!(tasks.get("t").unwrap().is_none());
    assert_eq!(code(tasks.create(item(r#"{"id":"t"}"#), Durability::Buffered)), "task-deleted");
    assert_eq!(code(tasks.remove(&[id("t")], false, Durability::Buffered)), "task-deleted");
    let again = Op::Create { item: item(r#"{"id":"t"}"#), again: true };
    let made = tasks.commit(vec![again], Durability::Buffered).unwrap();
    assert_eq!(made.token(&id("t")).unwrap().revision, Revision(3), "revisions are never given out again");
    assert_eq!(code(tasks.create(item(r#"{"id":"t"}"#), Durability::Buffered)), "task-exists");
}

#[test]
fn cascade_takes_all_below_in_one_commit_and_frees_who_waited() {
    let tasks = with(&["r"]);
    for (parent, child) in [("r", "a"), ("a", "b")] {
        let child = item(&format!(r#"{{"id":"{child}"}}"#));
        let _ = tasks.delegate(&id(parent), child, Durability::Buffered).unwrap();
    }
    assert_eq!(code(tasks.remove(&[id("a")], false, Durability::Buffered)), "refused");
    let done = tasks.remove(&[id("a")], true, Durability::Buffered).unwrap();
    assert_eq!(done.count, 3, "two deletions and the parent's return");
    let root = tasks.get("r").unwrap().unwrap().task;
    assert_eq!((root.status(), root.awaiting(), root.child_ids().len()), (Status::Active, None, 1));
    assert!(tasks.get("b").unwrap().is_none());
    assert!(tasks.check().unwrap().is_empty());
}

#[test]
fn expectations_name_the_state_that_holds_instead() {
    let tasks = with(&["t"]);
    let before = tasks.get("t").unwrap().unwrap().token;
    let parsed: Token = before.to_string().parse().unwrap();
    let expecting = |expect| CommitOptions::from(Durability::Buffered).expect(&id("t"), expect);
    let patch = |n: i64| Patch::new().set(Field::of("n"), n);
    let _ = tasks.patch(&id("t"), patch(1), expecting(TaskExpect::At(parsed))).unwrap();
    let e = tasks.patch(&id("t"), patch(2), expecting(TaskExpect::At(parsed))).unwrap_err();
    let ErrorKind::Conflict(conflicts) = e.kind() else { panic!("{e}") };
    let current = conflicts[0].current.as_ref().unwrap();
    assert_eq!(current.folded.as_deref(), Some(r#"{"id":"t","n":1}"#));
    assert_eq!(
        code(tasks.patch(&id("t"), patch(2), expecting(TaskExpect::Revision(Revision(1))))),
        "conflict"
    );
    let _ = tasks.patch(&id("t"), patch(2), expecting(TaskExpect::Revision(Revision(2)))).unwrap();
    let _ = tasks.remove(&[id("t")], false, Durability::Buffered).unwrap();
    assert_eq!(code(tasks.patch(&id("t"), patch(2), expecting(TaskExpect::Exists))), "task-deleted");
}

/// Who merges what a conflict tells with its own and saves that must not save a stand-in for a large value.
#[test]
fn conflict_leaves_large_values_out() {
    let tasks = with(&["t"]);
    let large = Patch::new().set(Field::Task, "x".repeat(70_000).as_str()).set(Field::Mode, "m");
    let _ = tasks.patch(&id("t"), large, Durability::Buffered).unwrap();
    let options =
        CommitOptions::from(Durability::Buffered).expect(&id("t"), TaskExpect::Revision(Revision(1)));
    let e = tasks.rename(&id("t"), "y", options).unwrap_err();
    let ErrorKind::Conflict(conflicts) = e.kind() else { panic!("{e}") };
    assert_eq!(conflicts[0].current.as_ref().unwrap().folded.as_deref(), Some(r#"{"id":"t","mode":"m"}"#));
}

/// The key of the event names the session, not the commit that brings it: events that were set aside come back in others'.
#[test]
fn writer_is_known_by_the_key_of_its_word() {
    let tasks = open();
    let started = || Event::SessionStarted { label: "earlier".into(), version: "0".into(), pid: 1 };
    let _ = tasks
        .workspace()
        .commit(Durability::Buffered, move |_, draft| {
            draft.push(started().to_new(session_key(7)));
            Ok(())
        })
        .unwrap();
    let label = tasks.read(|_, index| index.writer(7).map(|writer| writer.label.clone())).unwrap();
    assert_eq!(label.as_deref(), Some("earlier"));
}

#[test]
fn request_is_applied_once_and_answered_alike() {
    let tasks = open();
    let options = || CommitOptions::from(Durability::Buffered).op_id(OpId([7; 16]));
    let first = tasks.create(item(r#"{"id":"t","n":1}"#), options()).unwrap();
    let second = tasks.create(item(r#"{"id":"t","n":1}"#), options()).unwrap();
    assert!(!first.again && second.again);
    assert_eq!((&second.tasks, second.first, second.cursor), (&first.tasks, first.first, first.cursor));
    assert_eq!(code(tasks.create(item(r#"{"id":"t","n":2}"#), options())), "op-id-reused");
}

/// A request older than the memory of op ids is not applied, and the answer has what stands now, refused or not.
#[test]
fn forgotten_request_is_answered_with_the_present_state() {
    let tasks = with(&["t"]);
    let filler = |n: u32| {
        let mut op_id = [1; 16];
        op_id[..4].copy_from_slice(&n.to_le_bytes());
        CommitOptions::from(Durability::Buffered).op_id(OpId(op_id))
    };
    for n in 0..65_600 {
        let _ = tasks.patch(&id("t"), Patch::new().set(Field::of("n"), i64::from(n)), filler(n)).unwrap();
    }
    let late = CommitOptions { seen: Some(Seq(1)), ..filler(0) };
    for op in [
        Op::Patch { id: id("t"), patch: Patch::new().set(Field::of("n"), 0_i64) },
        Op::Create { item: item(r#"{"id":"t"}"#), again: false },
    ] {
        let e = tasks.commit(vec![op], late.clone()).unwrap_err();
        let ErrorKind::OutcomeUnknown { current, .. } = e.kind() else { panic!("{e}") };
        assert_eq!(current[0].folded.as_deref(), Some(r#"{"id":"t","n":65599}"#));
    }
}

#[test]
fn operations_of_one_commit_build_on_each_other() {
    let tasks = open();
    let ops = vec![
        Op::Create { item: item(r#"{"id":"p"}"#), again: false },
        Op::Delegate { parent: id("p"), child: item(r#"{"id":"c"}"#) },
        Op::Patch { id: id("c"), patch: Patch::new().set(Field::TokensIn, 5_i64) },
        Op::Complete { id: id("c"), summary: Some("ok".into()) },
    ];
    let done = tasks.commit(ops, Durability::Buffered).unwrap();
    assert_eq!(done.token(&id("p")).unwrap().revision, Revision(3));
    assert_eq!(tasks.get("p").unwrap().unwrap().token, done.token(&id("p")).unwrap());
    assert_eq!(tasks.get("c").unwrap().unwrap().task.status(), Status::Completed);
    let half = vec![
        Op::Patch { id: id("p"), patch: Patch::new().set(Field::Mode, "x") },
        Op::Patch { id: id("nobody"), patch: Patch::new().set(Field::Mode, "x") },
    ];
    assert_eq!(code(tasks.commit(half, Durability::Buffered)), "no-task");
    assert!(tasks.get("p").unwrap().unwrap().task.item.get(&Field::Mode).is_none(), "all or nothing");
}

#[test]
fn lists_are_ordered_paged_and_summed() {
    let tasks = open();
    for n in 0..10_i64 {
        let text = format!(
            r#"{{"id":"t{n}","ts":{},"totalCost":0.{n},"tokensIn":{n},"background":{}}}"#,
            n % 5,
            n % 2 == 0
        );
        let _ = tasks.create(item(&text), Durability::Buffered).unwrap();
    }
    let names = |query: &Query| {
        let listing = tasks.list(query).unwrap();
        let ids: Vec<String> = listing.tasks.iter().map(|s| s.task.id.to_string()).collect();
        (ids, listing.total, listing.next)
    };
    let mut query = Query { limit: Some(4), ..Query::default() };
    let (mut all, mut pages) = (Vec::new(), 0);
    loop {
        let (ids, total, next) = names(&query);
        assert_eq!(total, 10);
        all.extend(ids);
        pages += 1;
        match next {
            Some(next) => query.after = Some(next),
            None => break,
        }
    }
    assert_eq!((pages, all.join(" ")), (3, "t4 t9 t3 t8 t2 t7 t1 t6 t0 t5".into()));
    let cost = Query { sort: Sort::Cost, limit: Some(2), background: Some(true), ..Query::default() };
    assert_eq!(names(&cost).0, ["t8", "t6"]);
    let _ = tasks
        .delegate(
            &id("t0"),
            item(r#"{"id":"c","tokensIn":100,"totalCost":1.5,"size":7}"#),
            Durability::Buffered,
        )
        .unwrap();
    let totals = tasks.totals("t0").unwrap();
    assert_eq!((totals.tasks, totals.tokens_in, totals.cost, totals.size), (2, 100, 1.5, 7));
    assert_eq!(names(&Query { parent: Some("t0".into()), ..Query::default() }).0, ["c"]);
    assert_eq!(names(&Query { root: Some("t0".into()), ..Query::default() }).1, 2);
}

#[test]
fn history_says_when_who_and_from_what_to_what() {
    let tasks = with(&["t"]);
    let _ = tasks.rename(&id("t"), "New", Durability::Buffered).unwrap();
    let _ = tasks.set_status(&id("t"), Status::Completed, Durability::Buffered).unwrap();
    let changes = tasks.history(&id("t")).unwrap();
    let told: Vec<String> = changes
        .iter()
        .map(|change| {
            let fields = change.fields.iter().map(|f| {
                let show = |v: &Option<Value>| v.as_ref().map_or("-".into(), Value::to_json);
                format!("{}: {} > {}", f.field, show(&f.from), show(&f.to))
            });
            format!(
                "{} {}",
                foldlog::event::kinds::name(change.kind).unwrap(),
                fields.collect::<Vec<_>>().join(", ")
            )
        })
        .collect();
    assert_eq!(
        told,
        [r#"created id: - > "t""#, r#"renamed task: - > "New""#, r#"status-changed status: - > "completed""#]
    );
    let who = tasks.read(|_, index| index.writer(changes[0].session).unwrap().label.clone()).unwrap();
    assert_eq!(who, "foldlog");
    assert_eq!(code(tasks.history(&id("nobody"))), "no-task");
}

/// A restore tool put the workspace's files back from a copy: told once, and the store goes on with what stands there.
#[test]
#[cfg(unix)]
fn replaced_workspace_is_opened_anew() {
    let dir = tempfile::tempdir().unwrap();
    let store = TaskStore::open(dir.path(), Options::default()).unwrap();
    let (home, _) = store.create(&Place::None, item(r#"{"id":"t"}"#), Durability::Durable).unwrap();
    let folder = store.store().workspace_dir(home.workspace().name());
    let copied = |from: &std::path::Path, to: &std::path::Path| {
        let status = std::process::Command::new("cp").arg("-r").args([from, to]).status();
        assert!(status.unwrap().success());
    };
    let aside = dir.path().join("aside");
    copied(&folder, &aside);
    let gone = std::process::Command::new("rm").arg("-r").arg(&folder).status();
    assert!(gone.unwrap().success());
    copied(&aside, &folder);
    let patch = || vec![Op::Patch { id: id("t"), patch: Patch::new().set(Field::Mode, "x") }];
    assert_eq!(code(store.commit(patch(), Durability::Durable)), "store-replaced");
    drop(home);
    let _ = store.commit(patch(), Durability::Durable).unwrap();
    assert_eq!(store.get("t").unwrap().len(), 1);
}

#[test]
fn fold_is_the_same_after_reopening_whatever_happened() {
    let dir = tempfile::tempdir().unwrap();
    let store = TaskStore::open(dir.path(), Options::default()).unwrap();
    let tasks = store.home(&Place::None).unwrap();
    for n in 0..20 {
        let _ = tasks.create(item(&format!(r#"{{"id":"p{n}","x":1e5}}"#)), Durability::Buffered).unwrap();
        let child = item(&format!(r#"{{"id":"c{n}"}}"#));
        let _ = tasks.delegate(&id(&format!("p{n}")), child, Durability::Buffered).unwrap();
    }
    let _ = tasks.remove(&[id("p3")], true, Durability::Buffered).unwrap();
    let hash = tasks.read(|state, _| state.hash()).unwrap();
    let other = TaskStore::open(dir.path(), Options::default().read_only(true)).unwrap();
    let other = other.home(&Place::None).unwrap();
    assert_eq!(other.read(|state, _| state.hash()).unwrap(), hash);
    assert_eq!(other.read(|_, index| index.len()).unwrap(), 38);
    let _ = tasks.rename(&id("p1"), "x", Durability::Buffered).unwrap();
    assert_ne!(tasks.read(|state, _| state.hash()).unwrap(), hash);
}

#[test]
fn tasks_have_one_home_and_commits_touch_one() {
    let store = TaskStore::memory(Options::default()).unwrap();
    let (a, b) = (Place::Key("a".into()), Place::Key("b".into()));
    let _ = store.create(&a, item(r#"{"id":"x"}"#), Durability::Buffered).unwrap();
    let _ = store.create(&b, item(r#"{"id":"y"}"#), Durability::Buffered).unwrap();
    assert_eq!(code(store.create(&b, item(r#"{"id":"x"}"#), Durability::Buffered)), "task-exists");
    let (home, _) = store.create(&b, item(r#"{"id":"z","parentTaskId":"x"}"#), Durability::Buffered).unwrap();
    assert_eq!(
        home.workspace().name(),
        store.home(&a).unwrap().workspace().name(),
        "a child is at home with its parent"
    );
    let both = ["x", "y"].map(|task| Op::Patch { id: id(task), patch: Patch::new().set(Field::Mode, "m") });
    assert_eq!(code(store.commit(both.to_vec(), Durability::Buffered)), "cross-workspace");
    assert!(store.get("x").unwrap()[0].found.task.item.get(&Field::Mode).is_none());
    assert_eq!(store.get("y").unwrap().len(), 1);
    // Made in both without asking the store: both are shown.
    let _ = store.home(&b).unwrap().create(item(r#"{"id":"x"}"#), Durability::Buffered).unwrap();
    assert_eq!(store.get("x").unwrap().len(), 2);
    assert_eq!(code(store.home_of(&id("x"))), "cross-workspace");
}

/// A store looked for the living before it asked the log, so that the second sending of a deletion was refused.
#[test]
fn deletion_sent_twice_through_the_store_is_answered_alike() {
    let store = TaskStore::memory(Options::default()).unwrap();
    let _ = store.create(&Place::None, item(r#"{"id":"t"}"#), Durability::Buffered).unwrap();
    let remove = || {
        let ops = vec![Op::Remove { ids: vec![id("t")], cascade: false }];
        store.commit(ops, CommitOptions::from(Durability::Buffered).op_id(OpId([7; 16]))).unwrap().1
    };
    let (first, second) = (remove(), remove());
    assert_eq!((first.again, second.again), (false, true));
    assert_eq!((first.first, first.tasks), (second.first, second.tasks));
    let ops = vec![Op::Remove { ids: vec![id("t")], cascade: false }];
    assert_eq!(code(store.commit(ops, Durability::Buffered)), "task-deleted");
}

#[test]
fn task_that_comes_back_does_so_where_it_was() {
    let store = TaskStore::memory(Options::default()).unwrap();
    let (here, there) = (Place::Key("here".into()), Place::Key("there".into()));
    let text = r#"{"id":"t"}"#;
    let (home, _) = store.create(&there, item(text), Durability::Buffered).unwrap();
    let _ = home.remove(&[id("t")], false, Durability::Buffered).unwrap();
    assert_eq!(code(store.create(&here, item(text), Durability::Buffered)), "task-deleted");
    let (back, done) = store.create_again(&here, item(text), Durability::Buffered).unwrap();
    assert_eq!(back.workspace().name(), home.workspace().name());
    assert_eq!(done.token(&id("t")).unwrap().revision, Revision(3));
    assert_eq!(code(store.create_again(&here, item(text), Durability::Buffered)), "task-exists");
    let (home, _) = store.create_again(&here, item(r#"{"id":"new"}"#), Durability::Buffered).unwrap();
    assert!(home.workspace().name().starts_with("here-"));
}
