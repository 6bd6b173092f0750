//! Legacy folders on the real file system: that reading leaves them alone, and what a folder from real use holds.
#![expect(clippy::disallowed_methods, reason = "looks at the folder with other eyes than the library's")]

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use foldlog::event::{Field, Item};
use foldlog::legacy::{Confidence, DebrisKind, Found, Source, What, Why};
use foldlog::vfs::os::Os;

use crate::worker::bytes_of;

fn read(dir: &Path) -> Found {
    let source = Source::find(&Os, dir).unwrap();
    source.read(&Os, &mut |_| ControlFlow::Continue(())).unwrap()
}

fn item(id: &str, title: &str) -> String {
    format!(r#"{{"id":"{id}","number":1,"ts":1786000000000,"task":"{title}","tokensIn":1,"totalCost":0.1}}"#)
}

#[test]
fn folder_is_the_same_afterwards_with_its_times() {
    let dir = tempfile::tempdir().unwrap();
    let tasks = dir.path().join("tasks");
    for (name, file, text) in [
        ("a", "history_item.json", item("a", "Task #1 (Incomplete)")),
        ("b", "history_item.json", item("b", "b")),
        ("b", ".history_item.json.bak_1_2.tmp", item("b", "another")),
        ("c", "history_item.json", "damaged".into()),
        ("c", "ui_messages.json", r#"[{"ts":1786000000000,"type":"say","say":"text","text":"c"}]"#.into()),
    ] {
        fs::create_dir_all(tasks.join(name)).unwrap();
        fs::write(tasks.join(name).join(file), text).unwrap();
    }
    fs::create_dir(tasks.join("empty")).unwrap();
    fs::create_dir(tasks.join("b/history_item.json.lock")).unwrap();
    fs::write(tasks.join("_index.json"), format!("[{}]", item("a", "a"))).unwrap();
    let before = bytes_of(dir.path());
    let found = read(dir.path());
    let titles: Vec<_> =
        found.tasks.iter().map(|t| t.item().text(&Field::Task).unwrap().into_owned()).collect();
    assert_eq!(titles.len(), 3);
    assert_eq!((&*titles[0], &*titles[2]), ("a", "c"));
    assert_eq!(bytes_of(dir.path()), before);
}

#[test]
fn folder_that_is_not_there_or_cannot_be_listed_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let of = |path: &Path| Source::find(&Os, path).unwrap_err().code();
    assert_eq!(of(&dir.path().join("none")), "not-found");
    assert_eq!(of(dir.path()), "not-found");
    fs::write(dir.path().join("tasks"), "a file").unwrap();
    assert_eq!(of(dir.path()), "not-found");
}

/// The folder from real use, where it is present; it is not part of the project.
fn fixture() -> Option<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/fixtures/legacy");
    if dir.join("tasks").is_dir() {
        return Some(dir);
    }
    println!("not run: the folder of legacy histories is not beside the checkout");
    None
}

#[test]
fn folder_from_real_use_is_read_whole() {
    let Some(dir) = fixture() else { return };
    let before = bytes_of(&dir);
    let found = read(&dir);
    assert_eq!(bytes_of(&dir), before);
    assert!(found.complete && found.looks == 1 && found.set_aside.is_empty(), "{found:?}");
    assert_eq!(found.tasks.len(), 10);
    let debris: Vec<_> = found.debris.iter().map(|d| (&d.name[..8], d.kind)).collect();
    assert_eq!(debris, [("019ede5a", DebrisKind::Empty)]);

    let tasks = dir.join("tasks");
    let index: serde_json::Value =
        serde_json::from_slice(&fs::read(tasks.join("_index.json")).unwrap()).unwrap();
    for task in &found.tasks {
        let id = task.id.as_str();
        let file = fs::read_to_string(tasks.join(id).join("history_item.json")).unwrap();
        let entry = index["entries"].as_array().unwrap().iter().find(|entry| entry["id"] == *id);
        assert_eq!(entry.is_none(), id.starts_with("019fde29"));
        let chosen: serde_json::Value = serde_json::from_str(&task.item().to_json()).unwrap();
        let as_file = Item::parse(&file).unwrap() == *task.item();
        match &id[..8] {
            // The older entry is right, and the newer file is what a host wrote that had lost the messages.
            "019fb786" => {
                assert_eq!(Some(&chosen), entry);
                assert_eq!((task.source(), task.decision.why), ("_index.json", Why::Title));
                assert_eq!((task.kept.len(), task.confidence), (1, Confidence::High));
                assert_eq!(task.kept[0].record.to_json(), file);
                assert!(!as_file);
            }
            // They differ in the size of the folder alone, which the entry does not know.
            "019fdcf5" => {
                assert!(as_file);
                assert_eq!((task.decision.why, task.kept.len()), (Why::Size, 1));
            }
            _ => {
                assert!(as_file, "{id}");
                assert_eq!((task.decision.why, task.kept.len()), (Why::Only, 0), "{id}");
            }
        }
    }
    let placeholders: Vec<_> = found.findings.iter().map(|f| (&f.source[..8], f.what)).collect();
    assert_eq!(placeholders, [("019f0f12", What::NoTitle), ("019fdc9c", What::NoTitle)]);
    let report = serde_json::to_value(found.report()).unwrap();
    // All eight children of one task and 58 of the 61 of another were deleted; two more tasks are children elsewhere.
    assert_eq!(report["totals"]["made_of_messages"], 0);
    assert!(report["totals"]["dangling_children"].as_u64().unwrap() >= 66, "{}", report["totals"]);
}
