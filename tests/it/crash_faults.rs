//! Every call of every kind fails once: nothing acknowledged is lost, a commit stands whole or not at all, the live
//! handle goes on once the fault is over, and a failed sync is believed.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test, all of it")]

use std::io;
use std::path::Path;
use std::time::Duration;

use foldlog::vfs::sim::{DiskState, Effect, Fault, Op, Profile, Rng, SimMachine};
use foldlog::{Durability, Error, ErrorKind, Expect, Key, Seq, Severity, State, Status, Workspace};

use super::commit_basics::{note, options};
use super::crash_oracle::{contents, installed, open};

fn small() -> foldlog::Options {
    options().segment_size(4096)
}

/// Length and durability of each commit. The fourth and the seventh rotate.
const COMMITS: [(usize, Durability); 8] = [
    (20, Durability::Durable),
    (3900, Durability::Buffered),
    (30, Durability::Durable),
    (900, Durability::Buffered),
    (3500, Durability::Durable),
    (10, Durability::Buffered),
    (700, Durability::Interval(5)),
    (10, Durability::Durable),
];

fn key(i: usize) -> Key {
    Key::task(&format!("c{i}"))
}

/// What the caller was told of each commit.
#[derive(Debug, Default)]
struct Told {
    /// Number and whether durable; the error's code otherwise.
    commits: Vec<Result<(Seq, bool), &'static str>>,
    opens_failed: usize,
    lost: bool,
}

fn has_a_place(error: &Error) -> Result<(), String> {
    if error.act().is_empty() || error.path().as_os_str().is_empty() || error.to_string().is_empty() {
        return Err(format!("an error without a place: {error:?}"));
    }
    Ok(())
}

/// Opens and commits, going on after every error as a host would.
fn work(machine: &SimMachine, label: &str, mut between: impl FnMut(usize)) -> Result<Told, String> {
    let process = machine.process(label);
    let mut told = Told::default();
    let mut opened = None;
    for _ in 0..3 {
        match open(&process, small()) {
            Ok(ok) => {
                opened = Some(ok);
                break;
            }
            Err(e) => {
                has_a_place(&e)?;
                told.opens_failed += 1;
            }
        }
    }
    let Some((_store, workspace)) = opened else {
        return Err("does not open although the fault is over".into());
    };
    for (i, (len, durability)) in COMMITS.into_iter().enumerate() {
        between(i);
        let before = workspace.log().cached(State::last).unwrap();
        let receipt = workspace.commit(durability, move |_, draft| {
            draft.expect(key(i), Expect::Absent);
            draft.push(note(&format!("c{i}"), &"y".repeat(len))).push(note(&format!("c{i}+"), "second"));
            Ok(())
        });
        match receipt {
            Ok(receipt) => told.commits.push(Ok((receipt.first, receipt.durable))),
            Err(e) => {
                has_a_place(&e)?;
                let lost = workspace.health().status == Status::DurabilityLost;
                told.lost |= lost;
                told.commits.push(Err(e.code()));
                if lost != matches!(e.kind(), ErrorKind::DurabilityLost { .. }) {
                    return Err(format!("a sync failed: {lost}, and commit {i} says {e}"));
                }
                let after = workspace.log().cached(State::last).unwrap();
                if !matches!(e.code(), "durability-lost" | "not-durable") && after != before {
                    return Err(format!("commit {i} failed ({e}), and stands: event {before} -> {after}"));
                }
            }
        }
    }
    machine.clear_faults();
    check(&workspace, &told, |_| true)?;
    machine.kill(&process);
    Ok(told)
}

/// Every commit that must be there is, whole; every one that failed is not.
fn check(workspace: &Workspace, told: &Told, must: impl Fn(bool) -> bool) -> Result<(), String> {
    for (i, outcome) in told.commits.iter().enumerate() {
        let (one, two) = workspace
            .read(|s| (s.get(&key(i)), s.get(&Key::task(&format!("c{i}+")))))
            .map_err(|e| e.to_string())?;
        if one.is_some() != two.is_some() {
            return Err(format!("half of commit {i}"));
        }
        match outcome {
            Ok((seq, durable)) => match one {
                Some(one) if one.last.seq != *seq => return Err(format!("commit {i} is {one:?}")),
                None if must(*durable) => return Err(format!("commit {i} is lost: {told:?}")),
                _ => {}
            },
            Err(code) if !matches!(*code, "durability-lost" | "not-durable") && one.is_some() => {
                return Err(format!("commit {i} failed ({code}), and is there"));
            }
            Err(_) => {}
        }
    }
    Ok(())
}

fn poison(disk: &DiskState) -> bool {
    disk.tree().iter().any(|(path, ..)| path.ends_with("/POISON"))
}

/// What must hold afterwards, for others and after crashes.
fn afterwards(machine: &SimMachine, told: &Told, seed: u64) -> Result<(), String> {
    let text = |e: Error| e.to_string();
    {
        let (_store, reader) = open(&machine.process("reads"), small().read_only(true)).map_err(text)?;
        check(&reader, told, |_| true)?;
        let odd = reader.health().findings.into_iter().find(|f| f.code != "poisoned");
        if let Some(odd) = odd {
            return Err(format!("bytes that do not belong there: {odd}"));
        }
    }
    // It stands until somebody writes, and the last commit may have been the one whose sync failed.
    if poison(&machine.disk()) != (told.commits.last() == Some(&Err("durability-lost"))) {
        return Err(format!("POISON is {}: {told:?}", poison(&machine.disk())));
    }
    let mut disks = vec![(machine.disk().process_kill(), false)];
    disks.extend(machine.disk().crash_states(3, &mut Rng::new(seed)).map(|disk| (disk, true)));
    for (disk, power_cut) in disks {
        let why = |e: String| format!("{}: {e}", disk.origin());
        let machine = SimMachine::from_disk(&disk, seed + 1_000_000);
        let (_store, workspace) = open(&machine.process("later"), small()).map_err(|e| why(text(e)))?;
        check(&workspace, told, |durable| durable || !power_cut).map_err(why)?;
        let health = workspace.health();
        if health.status != Status::Healthy {
            return Err(why(format!("{:?}: {:?}", health.status, health.findings)));
        }
        let next = workspace.commit(Durability::Durable, |_, d| {
            d.push(note("next", "x"));
            Ok(())
        });
        if let Err(e) = next {
            return Err(why(format!("the next commit: {e}")));
        }
    }
    Ok(())
}

fn effects(op: Op) -> Vec<Effect> {
    let fail = |kinds: &[io::ErrorKind]| kinds.iter().map(|k| Effect::Fail(*k)).collect::<Vec<_>>();
    let (denied, full) = (io::ErrorKind::PermissionDenied, io::ErrorKind::StorageFull);
    let mut all = vec![Effect::Eio];
    match op {
        Op::Write => {
            all.extend(fail(&[full, io::ErrorKind::ReadOnlyFilesystem]));
            all.extend([Effect::DoneButFails, Effect::Short(1), Effect::Short(40), Effect::Short(300)]);
        }
        Op::Create | Op::CreateDir => all.extend(fail(&[full, denied])),
        Op::Read => all.extend([Effect::Short(1), Effect::Short(16)]),
        Op::Sync => all.push(Effect::DropsPages),
        Op::Rename | Op::Unlink => all.extend(fail(&[denied])),
        Op::Open | Op::List | Op::Stat | Op::Lock => all.extend(fail(&[denied])),
        _ => {}
    }
    all
}

const OPS: [Op; 15] = [
    Op::Open,
    Op::Create,
    Op::CreateDir,
    Op::Rename,
    Op::Unlink,
    Op::List,
    Op::Stat,
    Op::SyncDir,
    Op::Resolve,
    Op::Read,
    Op::Write,
    Op::SetLen,
    Op::Sync,
    Op::Lock,
    Op::Unlock,
];
/// Faults that the run had looked at when this was written.
const FAULTS_MIN: usize = 500;

#[test]
fn every_call_fails_once() {
    let quiet = installed(Profile::Linux, 1, small());
    let before = OPS.map(|op| quiet.calls(op));
    let told = work(&quiet, "works", |_| {}).unwrap();
    assert!(told.commits.iter().all(Result::is_ok), "{told:?}");
    afterwards(&quiet, &told, 1).unwrap();
    let calls = OPS.map(|op| quiet.calls(op));
    let (mut faults, mut failed, mut lost) = (0, 0, 0);
    let mut wrong = Vec::new();
    for (i, op) in OPS.into_iter().enumerate() {
        for effect in effects(op) {
            for nth in 1..=calls[i] - before[i] + 2 {
                let machine = installed(Profile::Linux, 1, small());
                machine.fault(Fault::on(op, effect).process("works").nth(nth));
                let result = work(&machine, "works", |_| {}).and_then(|told| {
                    failed += usize::from(told.commits.iter().any(Result::is_err));
                    lost += usize::from(told.lost);
                    machine.clear_faults();
                    afterwards(&machine, &told, nth)
                });
                faults += 1;
                if let Err(why) = result {
                    wrong.push(format!("{op:?} {effect:?} at {nth}: {why}"));
                }
            }
        }
    }
    println!("{faults} faults, {failed} of which failed commits, {lost} durability");
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(faults >= FAULTS_MIN && failed > faults / 20 && lost > 5, "fewer faults than recorded");
}

fn text_commit(
    workspace: &Workspace,
    key: &'static str,
    len: usize,
    durability: Durability,
) -> foldlog::Result<Seq> {
    let receipt = workspace.commit(durability, move |_, draft| {
        draft.push(note(key, &"z".repeat(len)));
        Ok(())
    });
    receipt.map(|receipt| receipt.first)
}

/// The disk runs full at any point, or turns read-only for a while: what was acknowledged stands, what failed does
/// not, and writing resumes by itself.
#[test]
fn full_and_read_only_disks_are_survived() {
    let (mut failed, mut runs) = (0, 0);
    for pages in 0..14_u64 {
        for read_only in [false, true] {
            let machine = installed(Profile::Linux, 1, small());
            let used = machine.used();
            let mut tries = 0;
            let result = work(&machine, "works", |i| {
                // Room for so many pages until commit 5; everything after.
                let full = (1..5).contains(&i);
                if read_only {
                    machine.set_read_only(full && !(i as u64 + pages).is_multiple_of(3));
                } else {
                    machine.set_capacity(full.then_some(used + pages * 4096));
                }
                tries += 1;
            });
            let told = result.unwrap_or_else(|e| panic!("{pages} pages, read-only {read_only}: {e}"));
            failed += told.commits.iter().filter(|c| c.is_err()).count();
            assert!(told.commits[5..].iter().all(Result::is_ok), "{pages}: {told:?}");
            runs += 1;
            afterwards(&machine, &told, pages).unwrap_or_else(|e| panic!("{pages} pages, {read_only}: {e}"));
        }
    }
    println!("{runs} runs, {failed} commits failed");
    assert!(failed >= 30, "{failed}");
}

/// A write that fails half-way inside a file that is longer than its frames (zeros that a power cut left, or a reserve)
/// must leave zeros there again: the next, shorter frame would else stand before the stub of the longer one.
#[test]
fn half_a_write_into_zeros_is_zeroed_again() {
    for whole in [1, 39, 40, 100, 700] {
        let machine = installed(Profile::Linux, 1, small());
        let process = machine.process("works");
        let (_store, workspace) = open(&process, small()).unwrap();
        let _ = text_commit(&workspace, "a", 10, Durability::Durable).unwrap();
        workspace.close().unwrap();
        machine.kill(&process);
        let path = machine.disk().tree().into_iter().find(|(p, ..)| p.ends_with(".seg")).unwrap().0;
        let was = machine.disk().read(&path).unwrap().len();
        machine.with_disk(|disk| disk.mutate(&path, |bytes| bytes.resize(was + 8192, 0))).unwrap();
        let (_store, workspace) = open(&machine.process("goes on"), small()).unwrap();
        machine.fault(Fault::on(Op::Write, Effect::Short(whole)).path(".seg"));
        machine.fault(Fault::on(Op::Write, Effect::Fail(io::ErrorKind::StorageFull)).path(".seg"));
        let error = text_commit(&workspace, "b", 900, Durability::Buffered).unwrap_err();
        assert_eq!(error.code(), "no-space", "{error}");
        let bytes = machine.disk().read(&path).unwrap();
        // The Epoch may stand whole; of the commit nothing does.
        let stands = was + if whole < 40 { 0 } else { 40 };
        assert!(bytes[stands..].iter().all(|b| *b == 0), "{whole}: a stub is left");
        assert_eq!(text_commit(&workspace, "c", 10, Durability::Durable).unwrap(), Seq(2));
        let (_store, reader) = open(&machine.process("reads"), small().read_only(true)).unwrap();
        assert_eq!(
            (reader.health().findings, reader.read(State::last).unwrap()),
            (vec![], Seq(2)),
            "{whole}"
        );
    }
}

/// Where a sync has failed and no file can be made (the disk turned read-only with the error), the process stays
/// poisoned, tries again whenever it is asked to write, and the control block tells openers (CE 6, II.18).
#[test]
fn poison_without_a_file_is_kept_and_retried() {
    let machine = installed(Profile::Linux, 1, small());
    let process = machine.process("works");
    let (_store, workspace) = open(&process, small()).unwrap();
    assert_eq!(text_commit(&workspace, "a", 10, Durability::Durable).unwrap(), Seq(1));
    machine.fault(
        Fault::on(Op::Create, Effect::Fail(io::ErrorKind::ReadOnlyFilesystem)).path("POISON").always(),
    );
    machine.fault(Fault::on(Op::Sync, Effect::DropsPages).path(".seg"));
    let error = text_commit(&workspace, "b", 10, Durability::Durable).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::DurabilityLost { from: Seq(2) }), "{error}");
    machine.set_read_only(true);
    let told = workspace.health();
    assert!(told.findings.iter().any(|f| f.message.contains("POISON could not be left")), "{told:?}");
    for durability in [Durability::Buffered, Durability::Durable] {
        let error = text_commit(&workspace, "c", 10, durability).unwrap_err();
        assert_eq!(error.code(), "durability-lost");
    }
    assert!(!poison(&machine.disk()));
    // Another opener, here and after a kill, reads it in the control block.
    for machine in [machine.clone(), SimMachine::from_disk(&machine.disk().process_kill(), 77)] {
        machine.set_read_only(false);
        machine.fault(Fault::on(Op::Create, Effect::Eio).path("/log/").always());
        let (_store, other) = open(&machine.process("other"), small()).unwrap();
        assert_eq!(other.health().status, Status::DurabilityLost);
        assert_eq!(text_commit(&other, "d", 10, Durability::Buffered).unwrap_err().code(), "durability-lost");
        assert_eq!(other.read(State::last).unwrap(), Seq(2), "reading goes on");
    }
    machine.clear_faults();
    machine.set_read_only(false);
    let _ = text_commit(&workspace, "e", 10, Durability::Buffered).unwrap_err();
    assert!(poison(&machine.disk()), "the next try leaves the file");
    machine.advance(Duration::from_secs(2));
    assert_eq!(text_commit(&workspace, "e", 10, Durability::Durable).unwrap(), Seq(3));
    assert!(!poison(&machine.disk()));
}

/// A failed sync at the rotation: the header of the successor is not filled, and everybody is told.
#[test]
fn failed_sync_of_a_sealed_segment_poisons() {
    let machine = installed(Profile::Linux, 1, small());
    let (_store, workspace) = open(&machine.process("works"), small()).unwrap();
    let _ = text_commit(&workspace, "a", 4000, Durability::Buffered).unwrap();
    machine.fault(Fault::on(Op::Sync, Effect::DropsPages).path("/0000000001-"));
    let error = text_commit(&workspace, "b", 10, Durability::Buffered).unwrap_err();
    assert_eq!(error.code(), "durability-lost");
    assert!(poison(&machine.disk()));
    let next = machine.disk().tree().into_iter().find(|(path, ..)| path.contains("/0000000002-")).unwrap().0;
    assert_eq!(machine.disk().read(next).unwrap()[12], 1, "still prepared");
}

/// A Mark was written, its process killed before the sync, and the background write of its page failed with nobody
/// there to be told. The next process appended and was killed; the one after it took everything before that frame for
/// durable, the Mark included, and did not write it again: after a power cut the Mark was a hole, below frames that
/// were acknowledged as durable.
#[test]
fn control_frames_behind_the_last_durable_event_are_not_taken_for_durable() {
    // Without reserve, whose zeros share the Mark's page.
    let big = || options().segment_size(1 << 20).reserve(false);
    let until_the_mark = |len: usize| {
        let machine = installed(Profile::Linux, 1, big());
        let process = machine.process("a");
        let (store, workspace) = open(&process, big()).unwrap();
        let _ = text_commit(&workspace, "a", len, Durability::Durable).unwrap();
        machine.record();
        workspace.close().unwrap();
        machine.kill(&process);
        drop(store);
        let record = machine.take_record();
        let synced = record.boundaries.iter().rposition(|b| {
            b.call.as_ref().is_some_and(|c| c.op == Op::Sync && c.path.to_string_lossy().ends_with(".seg"))
        });
        record.boundaries[synced.unwrap()].disk.process_kill()
    };
    let segment = |disk: &DiskState| disk.tree().into_iter().find(|(p, ..)| p.ends_with(".seg")).unwrap();
    // So long that the Mark's page is not touched by what follows it.
    let spare = 8192 - usize::try_from(segment(&until_the_mark(8)).2).unwrap();
    let disk = until_the_mark(8 + spare);
    let (path, _, len) = segment(&disk);
    assert_eq!(len, 8192);
    let machine = SimMachine::from_disk(&disk, 50);
    machine.fail_writeback(&path).unwrap();
    for (label, durability) in [("b", Durability::Buffered), ("c", Durability::Durable)] {
        let process = machine.process(label);
        let (_store, workspace) = open(&process, big()).unwrap();
        let _ = text_commit(&workspace, "next", 10, durability).unwrap();
        machine.kill(&process);
    }
    for disk in machine.disk().crash_states(20, &mut Rng::new(1)) {
        let (_store, workspace) = open(&SimMachine::from_disk(&disk, 60).process("looks"), big()).unwrap();
        assert_eq!(workspace.health().status, Status::Healthy, "{:?}", workspace.health());
        assert_eq!(workspace.read(State::last).unwrap(), Seq(3));
    }
}

/// A disk whose last segment ends in half a frame, with a hole and a whole frame behind it.
fn torn() -> DiskState {
    let machine = installed(Profile::Linux, 1, small());
    let process = machine.process("works");
    let (_store, workspace) = open(&process, small()).unwrap();
    let _ = text_commit(&workspace, "a", 10, Durability::Durable).unwrap();
    let _ = text_commit(&workspace, "b", 900, Durability::Buffered).unwrap();
    let _ = text_commit(&workspace, "c", 900, Durability::Buffered).unwrap();
    machine.kill(&process);
    let mut disk = machine.disk().all_synced();
    let path = disk.tree().into_iter().find(|(p, ..)| p.ends_with(".seg")).unwrap().0;
    disk.mutate(&path, |bytes| bytes[900..1000].fill(0)).unwrap();
    disk
}

/// Healing is interrupted by every fault, once: nothing is cut that quarantine does not have, readers read on, and
/// the next try ends as the first would have (CE 29).
#[test]
fn every_fault_in_healing_is_survived() {
    let mut faults = 0;
    for op in OPS {
        for effect in effects(op) {
            for nth in 1..60 {
                let machine = SimMachine::from_disk(&torn(), 500);
                let before = machine.calls(op);
                machine.fault(Fault::on(op, effect).process("heals").nth(nth));
                let why = |what: &str| format!("{op:?} {effect:?} at {nth}: {what}");
                let process = machine.process("heals");
                if let Ok((_store, workspace)) = open(&process, small()) {
                    machine.clear_faults();
                    // A failed sync is recovered from at the next write.
                    let next = text_commit(&workspace, "d", 10, Durability::Durable);
                    assert!(next.is_ok(), "{}", why(&format!("{next:?}")));
                }
                machine.clear_faults();
                machine.kill(&process);
                faults += 1;
                let (_store, workspace) = open(&machine.process("next"), small()).unwrap();
                let health = workspace.health();
                assert_eq!(health.status, Status::Healthy, "{}", why(&format!("{health:?}")));
                drop((_store, workspace));
                super::crash_oracle::set_aside(&torn(), &machine.disk())
                    .unwrap_or_else(|e| panic!("{}", why(&e)));
                super::crash_oracle::every_note_is_named(&machine).unwrap_or_else(|e| panic!("{}", why(&e)));
                if machine.calls(op) - before < nth {
                    break;
                }
            }
        }
    }
    println!("{faults} faults in healing");
    assert!(faults >= 200, "{faults}");
}

/// No room for the copy: `NoSpace` for writers, readers work, nothing is cut; with room again all goes on.
#[test]
fn full_quarantine_stops_writers_alone() {
    let machine = SimMachine::from_disk(&torn(), 500);
    let before = contents(&machine.disk());
    let process = machine.process("heals");
    machine.fault(Fault::on(Op::Write, Effect::Fail(io::ErrorKind::StorageFull)).path("quarantine").always());
    let (_store, workspace) = open(&process, small()).unwrap();
    assert_eq!(workspace.read(State::last).unwrap(), Seq(1));
    let error = text_commit(&workspace, "d", 10, Durability::Durable).unwrap_err();
    assert_eq!(error.code(), "no-space", "{error}");
    assert!(error.path().starts_with(Path::new("/store")));
    let health = workspace.health();
    assert!(health.findings.iter().all(|f| f.severity < Severity::Damage), "{health:?}");
    assert_eq!(contents(&machine.disk()), before, "nothing is cut, and nothing is left in quarantine");
    machine.clear_faults();
    assert_eq!(text_commit(&workspace, "d", 10, Durability::Durable).unwrap(), Seq(2));
    super::crash_oracle::set_aside(&torn(), &machine.disk()).unwrap();
}
