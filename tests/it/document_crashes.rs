//! Power cuts and kills at every call of commits that hold documents and tasks, a large document patched among them, and of
//! a bridge between a document and a state file.

#![expect(clippy::unwrap_used, reason = "a test, all of it")]

use std::collections::HashSet;
use std::path::Path;

use foldlog::document::{Bridge, Documents};
use foldlog::event::{Field, Item, Patch};
use foldlog::task::{DocumentExpect, Op};
use foldlog::vfs::sim::{CrashModel, DiskState, Profile, Rng, SimMachine, SimProcess};
use foldlog::vfs::{Existing, Open, Vfs as _, write_full};
use foldlog::{Durability, Options};

use super::documents::{name, on, options, text, value};
use super::simulated::quick;
use super::task_rules::id;

const FILE: &str = "/state.json";

fn base() -> SimMachine {
    let machine = SimMachine::new(Profile::Linux, 3);
    let all = on(&machine, "founder", options());
    for (at, text) in [("count", "{\"n\":0}"), ("large", &large("", 0)), ("gone", "1")] {
        let _ = all.put(&name(at), None, value(text), DocumentExpect::Absent, Durability::Durable).unwrap();
    }
    all.tasks().workspace().clone().close().unwrap();
    drop(all);
    SimMachine::from_disk(&machine.disk().all_synced(), 4)
}

fn large(more: &str, n: u64) -> String {
    format!("{{\"text\":\"{}\",\"n\":{n}{more}}}", "x".repeat(70_000))
}

/// Every state of a record's disk, each once, with the marks that were given out before it.
fn every_state(
    machine: &SimMachine,
    model: &CrashModel,
    mut examine: impl FnMut(&DiskState, &[String]) -> Result<(), String>,
) -> usize {
    let record = machine.take_record();
    let limit = if quick() { 4 } else { 16 };
    let (mut rng, mut seen) = (Rng::new(1), HashSet::new());
    for boundary in &record.boundaries {
        let marks = record.marks_at(boundary);
        let cuts = boundary.disk.crash_states_with(model, limit, &mut rng);
        for disk in cuts.chain([boundary.disk.process_kill()]) {
            if seen.insert((disk.content_hash(), disk.boots(), marks.len())) {
                examine(&disk, marks).unwrap_or_else(|why| {
                    panic!("{why}\n  before {:?}, {}, marks {marks:?}", boundary.call, disk.origin())
                });
            }
        }
    }
    seen.len()
}

fn number(all: &Documents, at: &str) -> Result<u64, String> {
    let found = all.get(at).map_err(|e| format!("{at}: {e}"))?.ok_or(format!("{at} is lost"))?;
    let json: serde_json::Value =
        serde_json::from_str(&found.document.value.to_json()).map_err(|e| e.to_string())?;
    json.get("n").and_then(serde_json::Value::as_u64).ok_or(format!("{at} has no number"))
}

#[test]
fn every_crash_of_commits_with_documents_leaves_whole_ones() {
    for (model, level) in [
        (CrashModel::adversarial(), Durability::Durable),
        (CrashModel::adversarial(), Durability::Buffered),
        (Profile::Linux.crash_model(), Durability::Durable),
    ] {
        let machine = base();
        let process = machine.process("writer");
        let all = on_process(&process, options());
        machine.record();
        for n in 1..=3_u64 {
            let set =
                |at: &str| Op::PatchDocument { name: name(at), patch: Patch::new().set(Field::of("n"), n) };
            let mut ops = vec![
                set("count"),
                Op::Create { item: Item::new(&id(&format!("t{n}"))), again: false },
                set("large"),
            ];
            if n == 2 {
                ops.push(Op::DeleteDocument { name: name("gone") });
            }
            if all.tasks().commit(ops, level).unwrap().durable {
                machine.mark(n.to_string());
            }
        }
        machine.kill(&process);
        let mut counts = HashSet::new();
        let states = every_state(&machine, &model, |disk, marks| {
            let machine = SimMachine::from_disk(disk, 77);
            let all = on(&machine, "next", options().create(false));
            let n = number(&all, "count")?;
            let (large, gone) = (number(&all, "large")?, text(&all, "gone"));
            let tasks =
                (1..=3).filter(|n| all.tasks().get(&format!("t{n}")).unwrap().is_some()).count() as u64;
            if (large, tasks, gone.is_none()) != (n, n, n >= 2) {
                return Err(format!("half of a commit: {n}, {large}, {tasks} tasks, {gone:?}"));
            }
            if n < marks.len() as u64 {
                return Err(format!("{} were acknowledged, {n} are there", marks.len()));
            }
            let after = all.patch(
                &name("large"),
                Patch::new().set(Field::of("on"), true),
                DocumentExpect::Any,
                Durability::Durable,
            );
            counts.insert(n);
            after.map(|_| ()).map_err(|e| format!("going on: {e}"))
        });
        println!("{states} states, {counts:?}");
        assert!(states > 30 && counts.len() > 2, "{states} states, {counts:?}");
    }
}

fn on_process(process: &SimProcess, options: Options) -> Documents {
    use foldlog::task::TaskStore;
    let store = foldlog::Store::open_on(
        std::sync::Arc::new(process.clone()),
        Path::new(super::simulated::ROOT),
        TaskStore::options(options),
    );
    TaskStore::of(store.unwrap()).home(&foldlog::Place::Key("project".into())).unwrap().documents()
}

/// As another program saves: whole, by renaming.
fn save(process: &SimProcess, text: &str) {
    let temporary = Path::new("/state.json.tmp");
    let file = process.open(temporary, Open::Create).unwrap();
    write_full(&*file, text.as_bytes(), 0).unwrap();
    file.sync_data().unwrap();
    process.rename(temporary, Path::new(FILE), Existing::Replace).unwrap();
    process.sync_dir(Path::new("/")).unwrap();
}

/// An edit of the file and one of the document, both taken up; a crash anywhere is completed by the next call, and neither
/// edit is lost or taken back.
#[test]
fn every_crash_of_a_bridge_is_completed_by_the_next() {
    let machine = base();
    let process = machine.process("writer");
    let all = on_process(&process, options());
    save(&process, "{ \"a\": 1,\n \"b\": 1 }\n");
    let bridge = Bridge::new(all.clone(), name("s"), FILE).unwrap();
    let _ = bridge.sync().unwrap();
    let both = |n: u64| {
        let mine = Patch::new().set(Field::of("a"), n);
        let _ = all.patch(&name("s"), mine, DocumentExpect::Any, Durability::Durable).unwrap();
        save(&process, &format!("{{\"a\":{},\"b\":{n}}}", n - 1));
    };
    both(2);
    machine.sync_all();
    machine.record();
    let _ = bridge.sync().unwrap();
    machine.mark("first");
    both(3);
    let _ = bridge.sync().unwrap();
    machine.mark("second");
    // The document's side alone.
    let _ = all
        .patch(&name("s"), Patch::new().set(Field::of("c"), 1_u64), DocumentExpect::Any, Durability::Durable)
        .unwrap();
    let _ = bridge.sync().unwrap();
    machine.mark("third");
    machine.kill(&process);
    let mut told = HashSet::new();
    let states = every_state(&machine, &CrashModel::adversarial(), |disk, marks| {
        let machine = SimMachine::from_disk(disk, 77);
        let process = machine.process("next");
        let all = on_process(&process, options().create(false));
        let bridge = Bridge::new(all.clone(), name("s"), FILE).map_err(|e| e.to_string())?;
        // What the file may have got before the crash is no edit, also where the document has gone on meanwhile.
        let on = Patch::new().set(Field::of("c"), 9_u64);
        let _ =
            all.patch(&name("s"), on, DocumentExpect::Any, Durability::Durable).map_err(|e| e.to_string())?;
        let synced = bridge.sync().map_err(|e| format!("sync: {e}"))?;
        // Whether a file that holds the old contents was written and undone since, nobody can tell: a copy, and no more.
        if !synced.kept.is_empty() || synced.findings.iter().any(|found| found.code != "state-file-unsure") {
            return Err(format!("{synced:?}"));
        }
        let file = String::from_utf8(super::simulated::file(&process, Path::new(FILE))).unwrap();
        let document = text(&all, "s").unwrap();
        let right = ["{\"a\":2,\"b\":2,\"c\":9}", "{\"a\":3,\"b\":2,\"c\":9}", "{\"a\":3,\"b\":3,\"c\":9}"];
        if file != document
            || !right.get([0, 0, 2, 2][marks.len()]..).unwrap_or_default().contains(&file.as_str())
        {
            return Err(format!("document {document}, file {file}"));
        }
        let again = bridge.sync().map_err(|e| format!("sync: {e}"))?;
        if again.imported || again.exported {
            return Err(format!("it does not come to rest: {again:?}"));
        }
        let left: Vec<_> = process
            .list(Path::new("/"))
            .unwrap()
            .into_iter()
            .filter(|e| e.name.contains("foldlog"))
            .collect();
        told.insert(file);
        if left.is_empty() { Ok(()) } else { Err(format!("left behind: {left:?}")) }
    });
    println!("{states} states, {told:?}");
    assert!(states > 30 && told.len() == 3, "{states} states, {told:?}");
}
