//! Power cuts and kills at every call of storing blobs and naming them.
//!
//! What a call has returned is durable; what a commit names is there if the commit is; and under a blob's name there is
//! never anything but all of its bytes.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test, all of it")]

use foldlog::vfs::sim::{Call, CrashModel, DiskState, Fill, Op, Profile, Record, Rng, SimMachine};
use foldlog::{BlobId, Durability, Status, Workspace};

use super::blobs::{commit, content};
use super::simulated::{machine_with, open_on, options};

/// One step: contents to store, by number, and then perhaps a commit that names them.
type Step = (&'static [usize], Option<Durability>);

/// The contents of these tests. 0 and 3 go into one sub-folder.
fn contents() -> Vec<Vec<u8>> {
    let first = content(1_300, 1);
    let neighbour = (0..=u16::MAX)
        .map(|n| n.to_le_bytes().to_vec())
        .find(|c| BlobId::of(c).0[0] == BlobId::of(&first).0[0])
        .unwrap();
    vec![first, content(5_000, 2), Vec::new(), neighbour]
}

fn slices<'a>(all: &'a [Vec<u8>], which: &[usize]) -> Vec<&'a [u8]> {
    which.iter().map(|&i| all[i].as_slice()).collect()
}

/// Runs the steps in one process; marks say what has been promised.
fn go(machine: &SimMachine, workspace: &Workspace, steps: &[Step]) {
    let all = contents();
    for (which, level) in steps {
        let ids = workspace.put_blobs(&slices(&all, which)).unwrap();
        which.iter().for_each(|i| machine.mark(format!("stored {i}")));
        if let Some(level) = level {
            let receipt =
                commit(workspace, *level, &which.iter().map(|i| format!("{i}-")).collect::<String>(), ids);
            if receipt.unwrap().durable {
                machine.mark("committed");
            }
        }
    }
}

/// What must hold of a disk, after whatever it was; `Ok` = how many events name blobs.
fn examine(disk: &DiskState, marks: &[String]) -> Result<usize, String> {
    let machine = SimMachine::from_disk(disk, 77);
    let (_store, workspace) =
        open_on(&machine.process("next"), options().create(false)).map_err(|e| format!("opening: {e}"))?;
    if workspace.health().status != Status::Healthy {
        return Err(format!("{:?}", workspace.health()));
    }
    for (i, content) in contents().iter().enumerate() {
        let stored = marks.contains(&format!("stored {i}"));
        match workspace.blob(&BlobId::of(content)) {
            Ok(bytes) if bytes == *content => {}
            Ok(_) => return Err(format!("content {i} is something else")),
            Err(e) if e.code() == "blob-missing" && !stored => {}
            Err(e) => return Err(format!("content {i}, stored: {stored}: {e}")),
        }
    }
    let keys: Vec<String> =
        workspace.read(|state| state.iter().map(|key| key.key.name.to_string()).collect()).unwrap();
    let keys: Vec<&String> = keys.iter().filter(|key| key.ends_with('-')).collect();
    for key in &keys {
        for i in key.split_terminator('-') {
            let content = &contents()[i.parse::<usize>().unwrap()];
            let there = workspace.blob(&BlobId::of(content));
            there.map_err(|e| format!("the commit is there, what it names is not: {e}"))?;
        }
    }
    let committed = marks.iter().filter(|mark| *mark == "committed").count();
    if keys.len() < committed {
        return Err(format!("{committed} commits were durable, {} are there", keys.len()));
    }
    // What a crash left is no obstacle.
    let all = contents();
    let ids = workspace.put_blobs(&slices(&all, &[0, 1, 2, 3])).map_err(|e| format!("storing again: {e}"))?;
    let _ = commit(&workspace, Durability::Durable, "after", ids)
        .map_err(|e| format!("committing again: {e}"))?;
    Ok(keys.len())
}

fn crash_everywhere(record: &Record, model: CrashModel, limit: usize, told: &mut Told) -> Result<(), String> {
    let mut rng = Rng::new(9);
    let mut seen = std::collections::HashSet::new();
    for boundary in &record.boundaries {
        let marks = record.marks_at(boundary);
        let call = || boundary.call.as_ref().map(Call::to_string);
        told.boundaries += 1;
        let mut cuts = boundary.disk.crash_states_with(&model, limit, &mut rng);
        told.exhaustive += usize::from(cuts.is_exhaustive());
        for disk in cuts.by_ref().chain([boundary.disk.process_kill()]) {
            if !seen.insert((disk.content_hash(), disk.boots(), marks.len())) {
                continue;
            }
            let named = examine(&disk, marks)
                .map_err(|why| format!("{why}\n  before {:?}, {}, marks {marks:?}", call(), disk.origin()))?;
            told.states += 1;
            told.with_commits += usize::from(named > 0);
        }
    }
    Ok(())
}

#[derive(Debug, Default)]
struct Told {
    boundaries: usize,
    exhaustive: usize,
    states: usize,
    with_commits: usize,
}

const MODELS: [(Profile, fn() -> CrashModel); 4] = [
    (Profile::Linux, CrashModel::adversarial),
    (Profile::Linux, || Profile::Linux.crash_model()),
    (Profile::Mac, || Profile::Mac.crash_model().with_fill(Fill::Garbage)),
    (Profile::Windows, || Profile::Windows.crash_model()),
];

/// Steps of one process, from a workspace without any blob.
const STEPS: [&[Step]; 6] = [
    &[(&[0], None), (&[3], None)],
    &[(&[0], Some(Durability::Buffered))],
    &[(&[0], Some(Durability::Durable)), (&[3], Some(Durability::Durable))],
    &[(&[1, 2], Some(Durability::Buffered)), (&[1], Some(Durability::Durable))],
    &[(&[0, 3, 1], Some(Durability::Durable)), (&[2, 0], Some(Durability::Buffered))],
    &[(&[2], None), (&[2, 1], Some(Durability::Buffered))],
];

fn limit() -> usize {
    if super::simulated::quick() { 20 } else { 80 }
}

#[test]
fn every_crash_of_storing_and_naming() {
    let mut told = Told::default();
    for (i, steps) in STEPS.iter().enumerate() {
        for (profile, model) in MODELS {
            let machine = machine_with(profile, 3, &["0"]);
            let machine = SimMachine::from_disk(&machine.disk().all_synced(), 4);
            let process = machine.process("writer");
            let (_store, workspace) = open_on(&process, options()).unwrap();
            // What the open has left un-synced would multiply the states, and blobs have nothing to do with it.
            machine.sync_all();
            machine.record();
            go(&machine, &workspace, steps);
            machine.kill(&process);
            let record = machine.take_record();
            let done = crash_everywhere(&record, model(), limit(), &mut told);
            done.unwrap_or_else(|why| panic!("{why}\n  steps {i} {steps:?} on {profile:?}"));
        }
    }
    println!("{told:?}");
    let quick = super::simulated::quick();
    let least = if quick { 800 } else { 3_000 };
    assert!(told.states > least && told.with_commits > least / 10, "{told:?}");
    assert!(quick || told.exhaustive * 4 > told.boundaries, "{told:?}");
}

/// Somebody was killed at any call of storing a blob; the machine lives on. The next process finds what that one left,
/// which may be a name, or a folder, that is not durable, stores the same contents, names them, and the power goes.
#[test]
fn what_another_process_left_is_made_durable() {
    let (mut told, mut seen) = (Told::default(), 0);
    for (profile, model) in MODELS {
        let machine = machine_with(profile, 3, &["0"]);
        let machine = SimMachine::from_disk(&machine.disk().all_synced(), 4);
        let process = machine.process("killed");
        let (_store, workspace) = open_on(&process, options()).unwrap();
        machine.record();
        go(&machine, &workspace, &[(&[0, 1], None)]);
        machine.kill(&process);
        for (i, boundary) in machine.take_record().boundaries.iter().enumerate() {
            let machine = SimMachine::from_disk(&boundary.disk.process_kill(), 5);
            let process = machine.process("next");
            let (_store, workspace) = open_on(&process, options()).unwrap();
            seen += usize::from(workspace.blob(&BlobId::of(&contents()[0])).is_ok());
            machine.record();
            go(&machine, &workspace, &[(&[0, 3], Some(Durability::Buffered))]);
            machine.kill(&process);
            let mut record = machine.take_record();
            // The calls in between are the first test's.
            record.boundaries.drain(..record.boundaries.len() - 2);
            let done = crash_everywhere(&record, model(), limit(), &mut told);
            done.unwrap_or_else(|why| {
                panic!("{why}\n  killed at {i}, before {:?}, on {profile:?}", boundary.call)
            });
        }
    }
    println!("{told:?}, {seen} blobs seen before they were durable");
    assert!(told.states > 400 && told.with_commits > 100 && seen > 20, "{told:?} {seen}");
}

/// A folder's sync has failed once: its names count only once a sync has worked, in the same process too.
#[test]
fn failed_sync_of_a_folder_is_made_up_for() {
    use foldlog::vfs::sim::{Effect, Fault};
    let mut failed = 0;
    for nth in 1..=4 {
        let machine = machine_with(Profile::Linux, 3, &["0"]);
        let machine = SimMachine::from_disk(&machine.disk().all_synced(), 4);
        let process = machine.process("writer");
        let (_store, workspace) = open_on(&process, options()).unwrap();
        machine.fault(Fault::on(Op::SyncDir, Effect::Eio).path("/workspaces/").nth(nth));
        let all = contents();
        failed += usize::from(workspace.put_blobs(&slices(&all, &[0])).is_err());
        machine.clear_faults();
        machine.record();
        go(&machine, &workspace, &[(&[0], Some(Durability::Durable))]);
        machine.kill(&process);
        let record = machine.take_record();
        crash_everywhere(&record, CrashModel::adversarial(), limit(), &mut Told::default()).unwrap();
    }
    assert_eq!(failed, 3, "the sub-folder, `blobs` and the workspace");
}
