//! Taking a legacy folder over into a store: once, again, after changes on either side, and broken off.
#![expect(clippy::disallowed_methods, reason = "makes and looks at a legacy folder, which is no store")]

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use foldlog::event::{Field, Item, Patch, Value};
use foldlog::legacy::{Found, ImportReport, Outcome, Source, import};
use foldlog::log::Durability;
use foldlog::task::{TaskStore, Tasks};
use foldlog::vfs::os::Os;
use foldlog::{Options, Place};

use super::task_rules::id;

fn read(dir: &Path) -> Found {
    Source::find(&Os, dir).unwrap().read(&Os, &mut |_| ControlFlow::Continue(())).unwrap()
}

fn write(dir: &Path, id: &str, record: &str) {
    let folder = dir.join("tasks").join(id);
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("history_item.json"), record).unwrap();
}

fn take(store: &TaskStore, home: &Tasks, dir: &Path) -> ImportReport {
    import(store, home, &read(dir), false, &mut |_, _| ControlFlow::Continue(())).unwrap()
}

fn json(home: &Tasks, id: &str) -> String {
    home.get(id).unwrap().unwrap().task.item.to_json()
}

fn state(home: &Tasks) -> (blake3::Hash, u64) {
    home.read(|state, _| (state.hash(), state.last().0)).unwrap()
}

fn fixtures() -> Option<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/fixtures/legacy");
    dir.join("tasks").is_dir().then_some(dir)
}

#[test]
fn real_histories_are_taken_over_whole_and_once() {
    let Some(dir) = fixtures() else {
        println!("no real histories here; the made-up ones are tested all the same");
        return;
    };
    let scratch = tempfile::tempdir().unwrap();
    let store = TaskStore::open(scratch.path().join("store"), Options::default()).unwrap();
    let home = store.home(&Place::None).unwrap();
    let report = take(&store, &home, &dir);
    assert_eq!((report.tasks, report.created, report.verified, report.failed), (10, 10, 10, 0), "{report:?}");
    let text = |path: &str| std::fs::read_to_string(dir.join("tasks").join(path)).unwrap();
    let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    let index = value(&text("_index.json"));
    for entry in std::fs::read_dir(dir.join("tasks")).unwrap().map(|entry| entry.unwrap()) {
        let name = entry.file_name().into_string().unwrap();
        if !entry.path().join("history_item.json").exists() {
            continue;
        }
        let mut chosen = value(&text(&format!("{name}/history_item.json")));
        if name.starts_with("019fb786") {
            let entries = index["entries"].as_array().unwrap();
            chosen = entries.iter().find(|entry| entry["id"] == *name).unwrap().clone();
            let kept = home.history(&id(&name)).unwrap();
            let evidence = kept.iter().filter(|change| change.revision.0 == 0);
            assert!(evidence.count() > 0, "the worse file is kept as evidence");
        }
        assert_eq!(value(&json(&home, &name)), chosen, "{name}");
    }
    let before = state(&home);
    let again = take(&store, &home, &dir);
    assert_eq!((again.unchanged, again.events), (10, 0));
    assert_eq!(state(&home), before, "a second import appends nothing");
}

#[test]
fn rehearsal_writes_nothing_and_says_what_would_be_done() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "a", r#"{"id":"a","ts":1784332598169,"task":"x"}"#);
    let store = TaskStore::memory(Options::default()).unwrap();
    let home = store.home(&Place::None).unwrap();
    let before = state(&home);
    let report =
        import(&store, &home, &read(dir.path()), true, &mut |_, _| ControlFlow::Continue(())).unwrap();
    assert_eq!((report.dry_run, report.created, report.events), (true, 1, 0));
    assert_eq!(state(&home), before);
}

#[test]
fn changes_of_both_sides_are_joined_field_by_field() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "a", r#"{"id":"a","ts":1784332598169,"task":"x","mode":"code","gone":1,"tokensIn":5}"#);
    let store = TaskStore::memory(Options::default()).unwrap();
    let home = store.home(&Place::None).unwrap();
    let _ = take(&store, &home, dir.path());
    let patch = Patch::new().set(Field::Mode, "ask").set(Field::of("own"), true);
    let _ = home.patch(&id("a"), patch, Durability::Buffered).unwrap();
    write(dir.path(), "a", r#"{"id":"a","ts":1784332598170,"task":"x","mode":"plan","tokensIn":7}"#);
    write(dir.path(), "b", r#"{"id":"b","ts":1784332598171,"task":"y"}"#);
    let report = take(&store, &home, dir.path());
    assert_eq!((report.created, report.updated), (1, 1));
    let taken = report.outcomes.iter().find(|taken| taken.id == "a").unwrap();
    assert_eq!((taken.outcome, &taken.kept[..]), (Outcome::Updated, &["mode".to_owned()][..]));
    assert_eq!(
        json(&home, "a"),
        r#"{"id":"a","ts":1784332598170,"task":"x","mode":"ask","tokensIn":7,"own":true}"#
    );
    assert_eq!(take(&store, &home, dir.path()).events, 0, "what was decided once stays decided");
}

#[test]
fn deleted_tasks_and_tasks_of_ones_own_are_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["deleted", "own", "elsewhere", "deleted-elsewhere"] {
        write(dir.path(), name, &format!(r#"{{"id":"{name}","ts":1784332598169,"task":"x"}}"#));
    }
    let store = TaskStore::memory(Options::default()).unwrap();
    let home = store.home(&Place::None).unwrap();
    let _ = home.create(Item::new(&id("own")), Durability::Buffered).unwrap();
    let _ = home.create(Item::new(&id("deleted")), Durability::Buffered).unwrap();
    let _ = home.remove(&[id("deleted")], false, Durability::Buffered).unwrap();
    let other = store.home(&Place::Key("other".into())).unwrap();
    let _ = other.create(Item::new(&id("elsewhere")), Durability::Buffered).unwrap();
    let _ = other.create(Item::new(&id("deleted-elsewhere")), Durability::Buffered).unwrap();
    let _ = other.remove(&[id("deleted-elsewhere")], false, Durability::Buffered).unwrap();
    let report = take(&store, &home, dir.path());
    assert_eq!((report.own, report.deleted, report.elsewhere, report.events), (1, 2, 1, 0), "{report:?}");
    assert!(home.get("deleted-elsewhere").unwrap().is_none(), "wherever it was deleted");
    assert!(home.get("deleted").unwrap().is_none(), "a deleted task does not come back from its old folder");
    assert_eq!(json(&home, "own"), r#"{"id":"own"}"#);
}

/// The index has the true record and the file a placeholder; once imported, an index that cannot be read for a while
/// must not let the worse record win.
#[test]
fn what_cannot_be_read_makes_nothing_worse() {
    let dir = tempfile::tempdir().unwrap();
    let bad = r#"{"id":"a","ts":1784332598170,"task":"Task #1 (Incomplete)","tokensIn":0}"#;
    write(dir.path(), "a", bad);
    let index = dir.path().join("tasks/_index.json");
    let good = r#"{"id":"a","ts":1784332598169,"task":"x","tokensIn":5}"#;
    std::fs::write(&index, format!("[{good}]")).unwrap();
    let store = TaskStore::memory(Options::default()).unwrap();
    let home = store.home(&Place::None).unwrap();
    assert_eq!(take(&store, &home, dir.path()).created, 1);
    assert_eq!(json(&home, "a"), good);
    // A folder in its place is a list that cannot be read.
    std::fs::remove_file(&index).unwrap();
    std::fs::create_dir(&index).unwrap();
    write(dir.path(), "b", r#"{"id":"b","ts":1784332598170,"task":"y"}"#);
    let report = take(&store, &home, dir.path());
    assert_eq!((report.unread, report.updated, report.created), (1, 0, 1), "{report:?}");
    assert_eq!(json(&home, "a"), good);
}

/// The same where the list that had the true record is deleted for good: a stand-in never replaces what stands here.
#[test]
fn lost_source_takes_nothing_back() {
    let dir = tempfile::tempdir().unwrap();
    let stub = r#"{"id":"a","ts":1784332598170,"task":"Task #1 (Incomplete)","tokensIn":0,"mode":"ask"}"#;
    write(dir.path(), "a", stub);
    let index = dir.path().join("tasks/_index.json");
    std::fs::write(&index, r#"[{"id":"a","ts":1784332598169,"task":"x","tokensIn":5,"mode":"code"}]"#)
        .unwrap();
    let store = TaskStore::memory(Options::default()).unwrap();
    let home = store.home(&Place::None).unwrap();
    let _ = take(&store, &home, dir.path());
    std::fs::remove_file(&index).unwrap();
    let report = take(&store, &home, dir.path());
    let kept = &report.outcomes[0].kept;
    assert_eq!((report.updated, kept.join(" ")), (1, "ts task tokensIn".into()), "{report:?}");
    assert_eq!(json(&home, "a"), r#"{"id":"a","ts":1784332598169,"task":"x","tokensIn":5,"mode":"ask"}"#);
    assert_eq!(take(&store, &home, dir.path()).events, 0);
    // Once the file is better, it is taken.
    write(dir.path(), "a", r#"{"id":"a","ts":1784332598171,"task":"x, done","tokensIn":9,"mode":"ask"}"#);
    let report = take(&store, &home, dir.path());
    assert_eq!(
        json(&home, "a"),
        r#"{"id":"a","ts":1784332598171,"task":"x, done","tokensIn":9,"mode":"ask"}"#,
        "{report:?}"
    );
}

#[test]
fn broken_off_import_goes_on_where_it_was() {
    let dir = tempfile::tempdir().unwrap();
    for n in 0..500 {
        write(
            dir.path(),
            &format!("t{n:03}"),
            &format!(r#"{{"id":"t{n:03}","ts":1784332598169,"task":"x"}}"#),
        );
    }
    let store = TaskStore::memory(Options::default()).unwrap();
    let home = store.home(&Place::None).unwrap();
    let found = read(dir.path());
    let mut stop_at_200 = |done, total| {
        assert_eq!(total, 500);
        if done >= 200 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let first = import(&store, &home, &found, false, &mut stop_at_200).unwrap();
    assert_eq!((first.cancelled, first.created), (true, 200));
    let second = take(&store, &home, dir.path());
    assert_eq!((second.created, second.unchanged, second.cancelled), (300, 200, false));
}

#[test]
fn large_values_are_taken_over_and_not_written_twice() {
    let dir = tempfile::tempdir().unwrap();
    let title = "x".repeat(5 << 20);
    write(dir.path(), "a", &format!(r#"{{"id":"a","ts":1784332598169,"task":"{title}"}}"#));
    let store = TaskStore::memory(Options::default()).unwrap();
    let home = store.home(&Place::None).unwrap();
    assert_eq!(take(&store, &home, dir.path()).verified, 1);
    assert_eq!(home.get("a").unwrap().unwrap().task.item.get(&Field::Task), Some(&Value::text(title)));
    assert_eq!(take(&store, &home, dir.path()).unchanged, 1);
}

#[test]
fn record_that_fits_no_frame_costs_the_others_nothing_and_is_told() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "a", r#"{"id":"a","ts":1784332598169,"task":"x"}"#);
    let store = TaskStore::memory(Options::default()).unwrap();
    let home = store.home(&Place::None).unwrap();
    let _ = take(&store, &home, dir.path());
    // Names of fields are kept in no blob.
    let fields: String = (0..4_000).map(|n| format!(r#","{}{n}":1"#, "n".repeat(1_200))).collect();
    write(dir.path(), "b", &format!(r#"{{"id":"b","ts":1784332598169,"task":"x"{fields}}}"#));
    let report = take(&store, &home, dir.path());
    assert_eq!((report.unchanged, report.failed, report.created), (1, 1, 0), "alone in its commit");
    let failed = report.outcomes.iter().find(|taken| taken.id == "b").unwrap();
    assert!(failed.detail.as_ref().unwrap().contains("bytes"), "{failed:?}");
}
