//! Two bridges between one document and one file, a step at a time in many orders, killed at every call; and a power cut at
//! every call of a bridge that sets contents aside.

#![expect(clippy::unwrap_used, reason = "a test, all of it")]

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use foldlog::document::Bridge;
use foldlog::task::DocumentExpect;
use foldlog::vfs::sim::{CrashModel, DiskState, Kill, Plan, Profile, Program, Rng, SimMachine, SimProcess};
use foldlog::vfs::{Existing, Vfs as _};
use foldlog::{Durability, Store};

use super::bridge_faults::{FILE, codes, copies, documents_on, patch, save};
use super::documents::{name, text, value};
use super::simulated::{file, quick};

/// A document and a file in step, all durable.
fn base(contents: &str) -> DiskState {
    let machine = SimMachine::new(Profile::Linux, 3);
    let process = machine.process("founder");
    process.create_dir(Path::new("/home")).unwrap();
    let all = documents_on(Arc::new(process.clone()));
    let put = value(contents);
    let _ = all.put(&name("state"), Some("state"), put, DocumentExpect::Absent, Durability::Durable).unwrap();
    let _ = Bridge::new(all.clone(), name("state"), FILE).unwrap().sync().unwrap();
    all.tasks().workspace().clone().close().unwrap();
    machine.disk().all_synced()
}

fn left_over(process: &SimProcess) -> Vec<String> {
    let all = process.list(Path::new("/home")).unwrap().into_iter().map(|entry| entry.name);
    all.filter(|name| name.contains("foldlog")).collect()
}

/// Each changes members of its own and syncs. Nobody edits the file: nothing may ever be taken for an edit.
fn bridging(process: SimProcess, member: &'static str) {
    let label = process.label();
    let all = documents_on(Arc::new(process));
    let bridge = Bridge::new(all.clone(), name("state"), FILE).unwrap();
    for n in 1..=2 {
        patch(&all, "state", member, n);
        let synced = bridge.sync().unwrap();
        assert!(!synced.imported && synced.kept.is_empty(), "{label}: {synced:?}");
        assert!(codes(&synced).iter().all(|code| *code == "state-file-unsure"), "{label}: {synced:?}");
    }
}

/// Who comes next finds all that was acknowledged, and brings it to rest.
fn check(machine: &SimMachine, wanted: &[&str], told: &dyn std::fmt::Display) {
    let process = machine.process("next");
    let all = documents_on(Arc::new(process.clone()));
    let bridge = Bridge::new(all.clone(), name("state"), FILE).unwrap();
    let synced = bridge.sync().unwrap_or_else(|e| panic!("{e}: {told}"));
    assert!(!synced.imported && synced.kept.is_empty(), "{synced:?}: {told}");
    assert!(codes(&synced).iter().all(|code| *code == "state-file-unsure"), "{synced:?}: {told}");
    let document = text(&all, "state").unwrap();
    assert!(wanted.contains(&document.as_str()), "{document}: {told}");
    assert_eq!(file(&process, Path::new(FILE)), document.as_bytes(), "{told}");
    let again = bridge.sync().unwrap();
    assert!(!again.imported && !again.exported && again.findings.is_empty(), "{again:?}: {told}");
    assert_eq!(left_over(&process), Vec::<String>::new(), "{told}");
}

#[test]
fn two_bridges_in_any_order_take_nothing_of_their_own_for_an_edit() {
    let disk = base(r#"{"a":0,"b":0}"#);
    for seed in 0..if quick() { 60 } else { 1_000 } {
        let machine = SimMachine::from_disk(&disk, seed);
        let programs = [("p", "a"), ("q", "b")]
            .map(|(label, member)| Program::new(label, move |process| bridging(process, member)));
        let run = machine.run(seed, programs.into(), &Plan::new().without_trace());
        assert!(run.panics().is_empty(), "{run}");
        check(&machine, &[r#"{"a":2,"b":2}"#], &run);
    }
}

#[test]
fn bridge_killed_at_any_call_beside_another_leaves_what_the_next_completes() {
    let disk = base(r#"{"a":0,"b":0}"#);
    let (step, mut calls) = (if quick() { 17 } else { 1 }, 0);
    // Behind the opening of the store, which other tests kill at every call.
    for call in (60..).step_by(step) {
        let machine = SimMachine::from_disk(&disk, call);
        let programs = [("p", "a"), ("q", "b")]
            .map(|(label, member)| Program::new(label, move |process| bridging(process, member)));
        let kill = [Kill::Before, Kill::After, Kill::Half][usize::try_from(call % 3).unwrap()];
        let run = machine.run(call, programs.into(), &Plan::new().kill("p", call, kill).without_trace());
        assert!(run.panics().is_empty(), "{run}");
        let all = [r#"{"a":0,"b":2}"#, r#"{"a":1,"b":2}"#, r#"{"a":2,"b":2}"#];
        check(&machine, &all, &run);
        if run.ends.iter().all(|(_, end)| *end == foldlog::vfs::sim::End::Returned) {
            break;
        }
        calls += 1;
    }
    assert!(calls > 10, "{calls}");
}

/// Power cuts and kills at every call of a bridge that meets contents of which nothing can be taken, or not all: the next
/// completes it, a copy is there, and then there is rest.
#[test]
fn every_crash_while_contents_are_set_aside_is_completed_by_the_next() {
    for (theirs, model, wanted) in [
        ("", CrashModel::adversarial(), r#"{"a":2,"b":0}"#),
        ("{\"a\":", Profile::Linux.crash_model(), r#"{"a":2,"b":0}"#),
        (r#"{"a":"bad","b":0}"#, CrashModel::adversarial(), r#"{"a":2,"b":0}"#),
        (r#"{"a":7,"b":1}"#, CrashModel::adversarial(), r#"{"a":2,"b":1}"#),
        (r#"{"a":7,"b":0}"#, CrashModel::adversarial(), r#"{"a":2,"b":0}"#),
    ] {
        let validate = |all: &foldlog::document::Documents| {
            all.tasks().validate_documents("state", |_, value| match value.to_json().contains("bad") {
                true => Err("it is bad".into()),
                false => Ok(()),
            });
        };
        let machine = SimMachine::from_disk(&base(r#"{"a":1,"b":0}"#), 5);
        let process = machine.process("writer");
        let all = documents_on(Arc::new(process.clone()));
        validate(&all);
        let bridge = Bridge::new(all.clone(), name("state"), FILE).unwrap();
        patch(&all, "state", "a", 2);
        save(&process, FILE, theirs.as_bytes());
        machine.sync_all();
        machine.record();
        let synced = bridge.sync().unwrap();
        assert!(synced.exported && synced.findings.len() == 1, "{synced:?}");
        machine.mark("done");
        let _ = bridge.sync().unwrap();
        machine.kill(&process);
        let record = machine.take_record();
        let (mut rng, mut seen) = (Rng::new(1), HashSet::new());
        for boundary in &record.boundaries {
            let is_done = !record.marks_at(boundary).is_empty();
            let cuts = boundary.disk.crash_states_with(&model, if quick() { 3 } else { 12 }, &mut rng);
            for disk in cuts.chain([boundary.disk.process_kill()]) {
                if !seen.insert((disk.content_hash(), disk.boots(), is_done)) {
                    continue;
                }
                let told = format!("{theirs:?} before {:?}, {}", boundary.call, disk.origin());
                let machine = SimMachine::from_disk(&disk, 77);
                let process = machine.process("next");
                let all = documents_on(Arc::new(process.clone()));
                validate(&all);
                let bridge = Bridge::new(all.clone(), name("state"), FILE).unwrap();
                let synced = bridge.sync().unwrap_or_else(|e| panic!("{e}: {told}"));
                let document = text(&all, "state").unwrap();
                assert_eq!(document, wanted, "{synced:?}: {told}");
                assert_eq!(file(&process, Path::new(FILE)), wanted.as_bytes(), "{synced:?}: {told}");
                assert!(copies(&process).contains(&theirs.to_owned()), "{told}");
                let again = bridge.sync().unwrap();
                assert!(!again.imported && !again.exported && again.findings.is_empty(), "{again:?}: {told}");
                // An earlier attempt's file beside goes at the latest with the next writing.
                patch(&all, "state", "c", 1);
                assert!(bridge.sync().unwrap().exported);
                assert_eq!(left_over(&process), Vec::<String>::new(), "{told}");
            }
        }
        println!("{theirs:?}: {} states", seen.len());
        assert!(seen.len() > 20, "{}", seen.len());
    }
}

/// A save that nobody has synced is taken in: no power cut brings the older file back as an edit against it.
#[test]
fn what_was_taken_in_is_not_undone_by_the_file_that_a_power_cut_brings_back() {
    for by_renaming in [false, true] {
        for theirs in [r#"{"a":1}"#, r#"{"a":1,"b":5}"#] {
            let machine = SimMachine::from_disk(&base(r#"{"a":0,"b":0}"#), 5);
            let process = machine.process("writer");
            let all = documents_on(Arc::new(process.clone()));
            let bridge = Bridge::new(all.clone(), name("state"), FILE).unwrap();
            if by_renaming {
                save(&process, "/home/mine", theirs.as_bytes());
                process.rename(Path::new("/home/mine"), Path::new(FILE), Existing::Replace).unwrap();
            } else {
                save(&process, FILE, theirs.as_bytes());
            }
            assert!(bridge.sync().unwrap().imported);
            let mut rng = Rng::new(1);
            let mut states = 0;
            for disk in machine.disk().crash_states_with(&CrashModel::adversarial(), 64, &mut rng) {
                let machine = SimMachine::from_disk(&disk, 77);
                let process = machine.process("next");
                let all = documents_on(Arc::new(process.clone()));
                let _ = Bridge::new(all.clone(), name("state"), FILE).unwrap().sync().unwrap();
                assert_eq!(text(&all, "state").as_deref(), Some(theirs), "{}", disk.origin());
                assert_eq!(file(&process, Path::new(FILE)), theirs.as_bytes(), "{}", disk.origin());
                states += 1;
            }
            assert!(states > 0);
        }
    }
}

/// The lock files of paths are a part of a store: one that has lost its META is damaged, and not somebody else's folder.
#[test]
fn store_with_locks_of_paths_and_without_meta_is_damaged() {
    let disk = base("1");
    assert!(disk.tree().iter().any(|(path, ..)| path.starts_with("/store/paths/")));
    let machine = SimMachine::from_disk(&disk, 1);
    let process = machine.process("p");
    process.unlink(Path::new("/store/META")).unwrap();
    let error =
        Store::open_on(Arc::new(process), Path::new("/store"), super::documents::options()).unwrap_err();
    assert_eq!(error.code(), "damaged", "{error}");
}
