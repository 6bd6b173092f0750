//! `foldlog import`.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::support::{Fixture, Run, tree};

/// A store that is not there yet, with a history beside it.
fn with_history() -> (Fixture, PathBuf) {
    let fixture = Fixture::empty();
    let root = fixture.dir.path().join("old");
    let task = |id: &str, title: &str, tokens: u32, ts: u64| json!({"id": id, "number": 1, "ts": ts, "task": title, "tokensIn": tokens, "tokensOut": 1, "totalCost": 0.5});
    write(&root.join("tasks/a/history_item.json"), &task("a", "A", 10, 1_786_000_000_000).to_string());
    // A host that had lost the messages wrote this one over what the index still has.
    let lost = task("b", "Task #1 (Incomplete)", 0, 1_786_000_900_000).to_string();
    write(&root.join("tasks/b/history_item.json"), &lost);
    let index = json!({"version": 1, "entries": [
        task("b", "B", 20, 1_786_000_500_000),
        task("../up", "C", 1, 1_786_000_000_000),
    ]});
    write(&root.join("tasks/_index.json"), &index.to_string());
    write(&root.join("tasks/c/history_item.json"), "{\"id\":\"c\",");
    fs::create_dir(root.join("tasks/empty")).unwrap();
    (fixture, root)
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// The one JSON line of an import that ends with this code.
#[track_caller]
fn report(run: Run, code: i32) -> Value {
    let run = run.ends(code);
    assert_eq!(run.out.lines().count(), 1, "{}", run.out);
    run.json().remove(0)
}

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

#[test]
fn history_is_taken_over_once_and_its_folder_left_alone() {
    let (fixture, root) = with_history();
    let before = tree(&root);
    let dir = root.to_str().unwrap();
    let first = report(fixture.run(&["import", dir, "--json"]), 1);
    assert_eq!(tree(&root), before, "importing changed the history");
    let (source, import) = (&first["source"], &first["import"]);
    assert_eq!(
        (&import["created"], &import["verified"], &import["failed"]),
        (&json!(2), &json!(2), &json!(0)),
        "{first}"
    );
    assert_eq!(source["set_aside"].as_array().unwrap().len(), 1);
    assert_eq!(source["set_aside"][0]["id"], "../up");
    assert_eq!(source["findings"][0]["what"], "not-json");
    let b = source["tasks"].as_array().unwrap().iter().find(|task| task["id"] == "b").unwrap();
    assert_eq!((&b["base"], &b["why"]), (&json!("_index.json"), &json!("title")));
    assert_eq!(b["kept"], json!(["b/history_item.json"]));
    let item = &fixture.look(&["show", "b", "--json"]).ends(0).json()[0]["item"];
    assert_eq!((&item["task"], &item["tokensIn"]), (&json!("B"), &json!(20)));
    // Named by its tasks folder it is the same history, in the same workspace.
    let before = tree(&fixture.root().join("workspaces"));
    let tasks = root.join("tasks");
    let second = report(fixture.run(&["import", tasks.to_str().unwrap(), "--json"]), 1);
    assert_eq!((&second["import"]["unchanged"], &second["import"]["events"]), (&json!(2), &json!(0)));
    assert_eq!(second["bound_to"], first["bound_to"]);
    let logs = |tree: std::collections::BTreeMap<PathBuf, (std::time::SystemTime, Vec<u8>)>| {
        tree.into_iter().filter(|(path, _)| path.extension().is_some_and(|e| e == "seg")).collect::<Vec<_>>()
    };
    let (before, after) = (logs(before), logs(tree(&fixture.root().join("workspaces"))));
    assert!(!before.is_empty() && before == after, "a second import appends nothing");
    assert_eq!(fixture.look(&["stats", "--json"]).ends(0).json().len(), 2, "one workspace, and the total");
}

#[test]
fn report_has_these_keys() {
    let (fixture, root) = with_history();
    let line = report(fixture.run(&["import", root.to_str().unwrap(), "--json"]), 1);
    assert_eq!(keys(&line), ["bound_to", "import", "source"]);
    assert_eq!(
        keys(&line["import"]),
        [
            "cancelled",
            "created",
            "deleted",
            "dry_run",
            "elsewhere",
            "events",
            "failed",
            "outcomes",
            "own",
            "tasks",
            "unchanged",
            "unread",
            "updated",
            "verified",
            "workspace",
        ]
    );
    assert_eq!(
        keys(&line["source"]),
        ["complete", "debris", "findings", "looks", "set_aside", "tasks", "tasks_folder", "totals"]
    );
    assert_eq!(line["import"]["outcomes"][0], json!({"id": "a", "outcome": "created"}));
}

#[test]
fn people_are_told_what_was_chosen_and_what_was_not_taken() {
    let (fixture, root) = with_history();
    let run = fixture.run(&["import", root.to_str().unwrap()]).ends(1);
    for part in [
        "2 task(s) in ",
        "2 created",
        " event(s) appended, 2 task(s) read back and the same",
        "set aside, not taken over: 1\n    ../up in _index.json: ",
        "c/history_item.json: not-json",
        "    b: _index.json (title); kept beside it: b/history_item.json\n",
        "belongs to no task: 1\n    empty: empty\n",
    ] {
        assert!(run.out.contains(part), "{part:?} is not in\n{}", run.out);
    }
    assert_eq!(run.err, "", "no bar where nobody looks");
}

#[test]
fn rehearsal_makes_no_store_and_changes_none() {
    let (fixture, root) = with_history();
    let dir = root.to_str().unwrap();
    let line = report(fixture.look(&["import", dir, "--dry-run", "--json"]), 1);
    assert_eq!((&line["import"]["dry_run"], &line["import"]["created"]), (&json!(true), &json!(2)));
    assert!(!fixture.root().exists());
    // A store that has no such workspace yet, and one that has.
    fixture.run(&["create", "other", "task=x", "--workspace", "key:other"]).ends(0);
    let line = report(fixture.look(&["import", dir, "--dry-run", "--json"]), 1);
    assert_eq!(line["import"]["created"], 2);
    let named = line["import"]["workspace"].clone();
    let line = report(fixture.run(&["import", dir, "--json"]), 1);
    assert_eq!(line["import"]["workspace"], named, "a rehearsal names the workspace that will be");
    let line = report(fixture.look(&["import", dir, "--dry-run", "--json"]), 1);
    assert_eq!(line["import"]["unchanged"], 2);
    let run = fixture.look(&["import", dir, "--dry-run"]).ends(1);
    assert!(run.out.contains("would be       2 unchanged\n"), "{}", run.out);
}

#[test]
fn tasks_at_home_in_another_workspace_stay_there() {
    let (fixture, root) = with_history();
    let dir = root.to_str().unwrap();
    fixture.run(&["create", "a", "task=mine", "--workspace", "key:other"]).ends(0);
    for words in [&["import", dir, "--json", "--dry-run"][..], &["import", dir, "--json"]] {
        let line = report(fixture.run(words), 1);
        assert_eq!((&line["import"]["elsewhere"], &line["import"]["created"]), (&json!(1), &json!(1)));
    }
    assert_eq!(fixture.look(&["show", "a", "--json"]).ends(0).json()[0]["item"]["task"], "mine");
}

#[test]
fn workspace_and_saved_state_may_be_named() {
    let fixture = Fixture::empty();
    let root = fixture.dir.path().join("old");
    write(&root.join("tasks/a/history_item.json"), r#"{"id":"a","ts":1786000000000,"task":"A"}"#);
    let state = fixture.dir.path().join("saved.json");
    write(&state, r#"{"taskHistory":[{"id":"s","ts":1786000000000,"task":"S"}]}"#);
    let (dir, state) = (root.to_str().unwrap(), state.to_str().unwrap());
    let words = ["import", dir, "--state", state, "--workspace", "key:mine", "--json"];
    let line = report(fixture.run(&words), 0);
    assert_eq!((&line["import"]["created"], &line["bound_to"]), (&json!(2), &json!("key:mine")));
    fixture.look(&["show", "s"]).ends(0);
    assert_eq!(report(fixture.run(&words), 0)["import"]["events"], 0);
    let absent = format!("{state}.absent");
    fixture.run(&["import", dir, "--state", &absent, "--json"]).fails(3, "not-found");
}

#[test]
fn what_cannot_be_read_has_codes_of_its_own_and_makes_no_store() {
    let fixture = Fixture::empty();
    let dir = fixture.dir.path();
    let at = |name: &str| dir.join(name).to_str().unwrap().to_owned();
    fixture.run(&["import", &at("absent"), "--json"]).fails(3, "not-found");
    fs::create_dir(dir.join("none")).unwrap();
    fixture.run(&["import", &at("none"), "--json"]).fails(3, "not-found");
    // A host that has emptied its index and not filled it yet looks like this.
    write(&dir.join("emptied/tasks/_index.json"), "");
    fixture.run(&["import", &at("emptied"), "--json"]).fails(5, "unstable");
    assert!(!fixture.root().exists());
    crate::support::foldlog(["import", "--json", &at("none")]).fails(3, "not-found");
}

/// Ctrl-C while a batch waits: that batch is made, the next is not, and another run goes on.
#[cfg(target_os = "linux")]
#[test]
fn ctrl_c_stops_between_batches_and_the_next_run_goes_on() {
    use std::io::BufRead as _;
    use std::process::{Command, Stdio};
    use std::sync::mpsc;

    use foldlog::task::TaskStore;
    use foldlog::{Durability, Options, Place};

    const TASKS: usize = 450;
    let fixture = Fixture::empty();
    let root = fixture.dir.path().join("old");
    let all: Vec<Value> = (0..TASKS)
        .map(|n| json!({"id": format!("t{n:04}"), "ts": 1_786_000_000_000_u64, "task": format!("task {n}")}))
        .collect();
    write(&root.join("tasks/_index.json"), &json!({"version": 1, "entries": all}).to_string());
    let store = TaskStore::open(fixture.root(), Options::default().label("test")).unwrap();
    let home = store.home(&Place::Key("mine".into())).unwrap();
    // The write lock is held until the import has been told to stop.
    let (locked, is_locked) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    let log = std::sync::Arc::clone(home.workspace().log());
    let holder = std::thread::spawn(move || {
        let held = log.commit(Durability::Buffered, move |_, _| {
            locked.send(()).unwrap();
            released.recv().unwrap();
            Ok(())
        });
        drop(held);
    });
    is_locked.recv().unwrap();
    let mut command = crate::support::command();
    command.arg("--store").arg(fixture.root()).args(["import", "--workspace", "key:mine"]).arg(&root);
    let mut child = crate::support::spawn(command.stdout(Stdio::piped()).stderr(Stdio::piped()));
    let begun = std::time::Instant::now();
    while !store.store().live_sessions().unwrap().iter().any(|info| info.label.contains("import")) {
        assert!(begun.elapsed().as_secs() < 60, "the import never opened the store");
        std::thread::yield_now();
    }
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let mut errors = std::io::BufReader::new(child.stderr.take().unwrap()).lines();
    let heard = errors.find(|line| line.as_ref().unwrap().contains("stopping at the next whole piece"));
    assert!(heard.is_some());
    release.send(()).unwrap();
    holder.join().unwrap();
    let rest: Vec<String> = errors.map(Result::unwrap).collect();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{rest:?}");
    let rest = rest.join("\n");
    assert!(rest.contains("of 450 tasks were looked at; what was taken over stands"), "{rest}");
    assert!(rest.contains("run it again"), "{rest}");
    let there = home.read(|_, index| index.list(&foldlog::view::Query::default()).total).unwrap();
    assert!(there <= 200, "one batch at most: {there}");
    let again = fixture.run(&["import", "--workspace", "key:mine", root.to_str().unwrap(), "--json"]);
    let again = report(again, 0);
    assert_eq!(again["import"]["created"], TASKS - there);
    assert_eq!(home.read(|_, index| index.list(&foldlog::view::Query::default()).total).unwrap(), TASKS);
}

/// The folder from real use, where it is present; it is not part of the project.
#[test]
fn folder_from_real_use_is_taken_over_whole() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/fixtures/legacy");
    if !dir.join("tasks").is_dir() {
        println!("not run: the folder of legacy histories is not beside the checkout");
        return;
    }
    let dir = dir.to_str().unwrap();
    let fixture = Fixture::empty();
    let line = report(fixture.run(&["import", dir, "--json"]), 1);
    let import = &line["import"];
    assert_eq!(
        (&import["tasks"], &import["created"], &import["verified"]),
        (&json!(10), &json!(10), &json!(10))
    );
    let value = |path: PathBuf| serde_json::from_str::<Value>(&fs::read_to_string(path).unwrap()).unwrap();
    let tasks = Path::new(dir).join("tasks");
    let index = value(tasks.join("_index.json"));
    for outcome in import["outcomes"].as_array().unwrap() {
        let id = outcome["id"].as_str().unwrap();
        let chosen = match id.starts_with("019fb786") {
            true => index["entries"].as_array().unwrap().iter().find(|e| e["id"] == id).unwrap().clone(),
            false => value(tasks.join(id).join("history_item.json")),
        };
        assert_eq!(fixture.look(&["show", id, "--json"]).ends(0).json()[0]["item"], chosen, "{id}");
    }
    assert_eq!(report(fixture.run(&["import", dir, "--json"]), 1)["import"]["events"], 0);
    fixture.look(&["verify"]).ends(0);
}
