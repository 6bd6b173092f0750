//! `foldlog purge` and `foldlog retention`.

use std::path::{Path, PathBuf};

use foldlog::event::{Field, Patch, TaskId};
use foldlog::{Durability, Item, Place, TaskStore, Tasks};

use crate::support::{Fixture, options};

const SECRET: &str = "hunter2 and nothing else";

fn home(fixture: &Fixture) -> Tasks {
    let store = TaskStore::open(fixture.root(), options().segment_size(8 << 10)).unwrap();
    store.home(&Place::Key("one".into())).unwrap()
}

fn stepped(fixture: &Fixture) -> Tasks {
    let home = home(fixture);
    for id in ["a", "b"] {
        let item = Item::parse(&format!(r#"{{"id":"{id}","ts":1,"task":"{SECRET}","tokensIn":0}}"#)).unwrap();
        let _ = home.create(item, Durability::Buffered).unwrap();
    }
    for step in 0..400_i64 {
        let patch = Patch::new().set(Field::Ts, step).set(Field::TokensIn, step);
        let _ = home.patch(&TaskId::new("b").unwrap(), patch, Durability::Buffered).unwrap();
    }
    let patch = Patch::new().set(Field::Task, "harmless");
    let _ = home.patch(&TaskId::new("b").unwrap(), patch, Durability::Durable).unwrap();
    home
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
    entries
        .flat_map(|entry| match entry.file_type().unwrap().is_dir() {
            true => files(&entry.path()),
            false => vec![entry.path()],
        })
        .collect()
}

fn holding(fixture: &Fixture) -> Vec<PathBuf> {
    let part = &SECRET.as_bytes()[..12];
    let has = |path: &PathBuf| std::fs::read(path).unwrap().windows(part.len()).any(|bytes| bytes == part);
    files(&fixture.root()).into_iter().filter(has).collect()
}

#[test]
fn nothing_goes_before_it_is_asked_for_and_everything_then() {
    let fixture = Fixture::empty();
    stepped(&fixture).workspace().clone().close().unwrap();
    assert!(!holding(&fixture).is_empty());
    let plan = fixture.look(&["purge", "a", "b"]).ends(1).out;
    assert!(plan.contains("to be purged: a, b"), "{plan}");
    let told = fixture.run(&["purge", "a", "b", "--apply", "--json"]).ends(0).json();
    assert_eq!(told[0]["tasks"], serde_json::json!(["a", "b"]));
    assert_eq!(told[0]["pending"], serde_json::json!([]));
    assert_eq!(holding(&fixture), Vec::<PathBuf>::new());
    let gone = fixture.look(&["show", "a"]);
    assert!(gone.code == Some(3) && gone.err.contains("was deleted"), "{}", gone.err);
    fixture.look(&["verify"]).ends(0);
    let dumped = fixture.look(&["dump", "--json", "--decode"]).ends(0).out;
    assert!(dumped.contains("\"purged\"") && !dumped.contains("hunter2"), "{dumped}");
    // Again there is nothing left to do.
    let again = fixture.run(&["purge", "a", "--apply"]).ends(0).out;
    assert!(again.contains("0 events of 0 segments"), "{again}");
    assert_eq!(fixture.look(&["purge", "nobody"]).code, Some(3));
}

#[test]
fn whoever_still_uses_a_file_is_named_until_it_lets_go() {
    let fixture = Fixture::empty();
    let home = stepped(&fixture);
    let _ = home.workspace().snapshot().unwrap();
    let name = home.workspace().name().to_owned();
    home.workspace().clone().close().unwrap();
    drop(home);
    // It stands on the snapshot, and does not read on.
    let user =
        TaskStore::open(fixture.root(), options().label("editor window")).unwrap().named(&name).unwrap();
    assert!(user.get("a").unwrap().is_some());
    let first = fixture.run(&["purge", "a", "--apply"]).ends(5);
    assert!(first.out.contains("still there: ") && first.out.contains("editor window"), "{}", first.out);
    assert!(user.get("a").unwrap().is_none());
    drop(user);
    let last = fixture.run(&["purge", "a", "b", "--apply"]).ends(0).out;
    assert!(!last.contains("still there"), "{last}");
    assert_eq!(holding(&fixture), Vec::<PathBuf>::new());
}

#[test]
fn backups_are_named_and_not_touched() {
    let fixture = Fixture::empty();
    stepped(&fixture).workspace().clone().close().unwrap();
    let target = fixture.root().with_extension("backup");
    fixture.run(&["backup", fixture.root().to_str().unwrap(), target.to_str().unwrap()]).ends(0);
    let told = fixture.run(&["purge", "a", "b", "--apply"]).ends(0).out;
    // Its folders are told as terminals may be shown them.
    let name = target.file_name().unwrap().to_string_lossy().into_owned();
    assert!(told.contains("not touched: the backup in") && told.contains(&name), "{told}");
    assert!(
        files(&target).iter().any(|path| std::fs::read(path).unwrap().windows(7).any(|b| b == b"hunter2"))
    );
    assert_eq!(holding(&fixture), Vec::<PathBuf>::new(), "no link of the backup's keeps it here");
    std::fs::remove_dir_all(&target).unwrap();
}

#[test]
fn what_is_kept_is_said_shown_and_kept_to() {
    let fixture = Fixture::empty();
    stepped(&fixture).workspace().clone().close().unwrap();
    let at = ["--workspace", "key:one"];
    let run = |words: &[&str]| fixture.run(&[words, &at].concat());
    let shown = || fixture.look(&["retention", "--json"]).ends(0).json()[0].clone();
    assert_eq!(shown()["workspace"], serde_json::Value::Null);
    run(&["retention", "--age", "30d", "--count", "5", "--bytes", "64K"]).ends(0);
    let limits = serde_json::json!({"age_ms": 2_592_000_000_u64, "count": 5, "bytes": 65_536});
    assert_eq!(shown()["workspace"], limits);
    run(&["retention", "a", "--none"]).ends(0);
    run(&["retention", "b", "--pin"]).ends(0);
    assert_eq!(shown()["pinned"], serde_json::json!(["b"]));
    let history = || fixture.look(&["history", "b", "--json"]).ends(0).json().len();
    let before = history();
    fixture.run(&["compact"]).ends(0);
    assert_eq!(history(), before, "it is pinned");
    run(&["retention", "b", "--unpin"]).ends(0);
    run(&["retention", "b", "--count", "50"]).ends(0);
    fixture.run(&["compact"]).ends(0);
    let left = history();
    assert!((51..before / 2).contains(&left), "{left} of {before}");
    let told = fixture.look(&["history", "b"]).ends(0);
    assert!(told.err.contains("changes that later ones have overwritten may be gone"), "{}", told.err);
    run(&["retention", "--none"]).ends(0);
    assert_eq!(
        (shown()["workspace"].clone(), shown()["tasks"]["b"]["count"].clone()),
        (serde_json::Value::Null, 50.into())
    );
    for bad in [
        &["--age", "30"][..],
        &["--age", "x"],
        &["--bytes", "1T"],
        &["--pin"],
        &["b", "--pin", "--unpin"],
        &["--none", "--count", "1"],
    ] {
        let refused = run(&[&["retention"], bad].concat());
        assert!(refused.code == Some(2) && !refused.err.is_empty(), "{bad:?}: {}", refused.err);
    }
}
