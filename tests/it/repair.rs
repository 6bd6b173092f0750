//! Repair: what still checks is kept, what is lost is named, nothing is given out twice.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use foldlog::vfs::Vfs;
use foldlog::vfs::sim::{Profile, SimMachine};
use foldlog::{Durability, ErrorKind, Key, Options, Place, Recovery, Seq, State, Status, Store, Workspace};

use crate::commit_basics::{note, options};

const ROOT: &str = "/store";

fn small() -> Options {
    options().segment_size(4096)
}

fn open(machine: &SimMachine, options: Options) -> Workspace {
    let store = Store::open_on(Arc::new(machine.process("test")), Path::new(ROOT), options).unwrap();
    store.workspace(&Place::Key("w".into())).unwrap()
}

fn commit(ws: &Workspace, i: u64) -> Seq {
    ws.commit(Durability::Durable, move |_, draft| {
        draft.push(note(&format!("t{i}"), &format!("{i}:{}", "x".repeat(200))));
        Ok(())
    })
    .unwrap()
    .first
}

/// A closed store with so many commits of one event each, in segments of about 4 KiB.
fn filled(commits: u64) -> SimMachine {
    let machine = SimMachine::new(Profile::Linux, 1);
    let ws = open(&machine, small());
    for i in 1..=commits {
        assert_eq!(commit(&ws, i), Seq(i));
    }
    ws.close().unwrap();
    machine
}

fn segments(machine: &SimMachine) -> Vec<PathBuf> {
    let mut all: Vec<_> = machine.disk().tree().into_iter().map(|(path, ..)| PathBuf::from(path)).collect();
    all.retain(|path| path.extension().is_some_and(|e| e == "seg"));
    all.sort();
    all
}

fn flip(machine: &SimMachine, path: &Path, at: usize) {
    machine.with_disk(|disk| disk.mutate(path, |bytes| bytes[at] ^= 0x40)).unwrap();
}

fn remove(machine: &SimMachine, path: &Path) {
    machine.process("somebody").unlink(path).unwrap();
}

fn tasks(ws: &Workspace) -> Vec<u64> {
    let mut all: Vec<u64> =
        ws.read(|state| state.iter().map(|key| key.key.name[1..].parse().unwrap()).collect()).unwrap();
    all.sort_unstable();
    all
}

/// Damage is met, writing refused, and repair leaves a log that is whole again; returns what is left and what is lost.
fn repaired(machine: &SimMachine, commits: u64) -> (Vec<u64>, Vec<(u64, u64)>) {
    let ws = open(machine, small());
    assert_eq!(ws.health().status, Status::Damaged, "{:?}", ws.open_report());
    let error = ws.commit(Durability::Durable, |_, draft| {
        draft.push(note("never", "written"));
        Ok(())
    });
    assert!(matches!(error.as_ref().unwrap_err().kind(), ErrorKind::Damaged(_)), "{error:?}");
    let planned = ws.log().plan_repair().unwrap();
    let report = ws.log().repair().unwrap();
    assert_eq!(planned.steps.len(), report.steps.len(), "{planned:?}\n{report:?}");
    for (plan, done) in planned.steps.iter().zip(&report.steps) {
        assert_eq!((plan.verdict, plan.salvaged, &plan.lost), (done.verdict, done.salvaged, &done.lost));
    }
    assert_eq!(ws.health().status, Status::Healthy);
    let lost: Vec<_> = report.steps.iter().flat_map(|step| step.lost.clone()).collect();
    let first_free = lost.iter().map(|(_, to)| to + 1).chain([commits + 1]).max().unwrap();
    assert_eq!(commit(&ws, 9999), Seq(first_free), "no number is given out again");
    assert!(ws.read(|s| s.epochs().len()).unwrap() >= 2);
    assert!(ws.log().repair().unwrap().steps.is_empty(), "repair of a repaired log does nothing");
    let hash = ws.read(State::hash).unwrap();
    ws.close().unwrap();
    let again = open(machine, small());
    assert_eq!(again.open_report().findings, [], "a repaired log opens clean");
    assert_eq!(again.read(State::hash).unwrap(), hash);
    let mut left = tasks(&again);
    assert_eq!(left.pop(), Some(9999));
    (left, lost)
}

#[test]
fn flipped_bit_in_an_old_segment_costs_one_commit() {
    let machine = filled(60);
    let first = segments(&machine)[0].clone();
    flip(&machine, &first, 256 + 40 + 300 * 4);
    let (left, lost) = repaired(&machine, 60);
    assert_eq!(lost.len(), 1);
    assert_eq!(lost[0].0, lost[0].1, "one number: {lost:?}");
    let expected: Vec<_> = (1..=60).filter(|i| *i != lost[0].0).collect();
    assert_eq!(left, expected);
}

#[test]
fn flipped_bit_in_the_active_segment_costs_one_commit() {
    let machine = filled(8);
    assert_eq!(segments(&machine).len(), 1);
    flip(&machine, &segments(&machine)[0].clone(), 256 + 40 + 300 * 3);
    let (left, lost) = repaired(&machine, 8);
    assert_eq!((left.len(), lost.len()), (7, 1));
}

#[test]
fn missing_segment_in_the_middle_is_named_by_its_numbers() {
    let machine = filled(60);
    let all = segments(&machine);
    assert!(all.len() >= 4, "{all:?}");
    remove(&machine, &all[1]);
    let (left, lost) = repaired(&machine, 60);
    assert_eq!(lost.len(), 1);
    let expected: Vec<_> = (1..=60).filter(|i| !(lost[0].0..=lost[0].1).contains(i)).collect();
    assert_eq!(left, expected);
    assert!(lost[0].1 > lost[0].0);
}

#[test]
fn missing_last_segment_gives_no_number_out_again() {
    let machine = filled(60);
    let all = segments(&machine);
    remove(&machine, all.last().unwrap());
    let ws = open(&machine, small());
    assert_eq!(ws.health().status, Status::Damaged);
    let report = ws.log().repair().unwrap();
    assert_eq!(ws.health().status, Status::Healthy);
    assert!(commit(&ws, 9999) > Seq(60), "{report:?}");
}

#[test]
fn tail_cut_below_what_was_durable_is_missing_and_gives_no_number_out_again() {
    let machine = filled(8);
    let path = segments(&machine)[0].clone();
    machine.with_disk(|disk| disk.mutate(&path, |bytes| bytes.truncate(256 + 40 + 290 * 3))).unwrap();
    let ws = open(&machine, small());
    assert_eq!(ws.health().status, Status::Damaged, "{:?}", ws.open_report());
    let report = ws.log().repair().unwrap();
    assert!(commit(&ws, 9999) > Seq(8), "{report:?}");
    ws.close().unwrap();
    assert_eq!(open(&machine, small()).health().findings, []);
}

#[test]
fn damaged_header_costs_no_commit() {
    for nth in [0, 1] {
        let machine = filled(60);
        flip(&machine, &segments(&machine)[nth].clone(), 90);
        assert_eq!(repaired(&machine, 60), ((1..=60).collect(), vec![]), "segment {nth}");
    }
    let machine = filled(8);
    flip(&machine, &segments(&machine)[0].clone(), 90);
    assert_eq!(repaired(&machine, 8), ((1..=8).collect(), vec![]), "the only segment");
    let machine = filled(60);
    flip(&machine, &segments(&machine).last().unwrap().clone(), 90);
    assert_eq!(repaired(&machine, 60), ((1..=60).collect(), vec![]), "the last segment");
}

#[test]
fn several_damaged_places_are_mended_in_one_call() {
    let machine = filled(100);
    let all = segments(&machine);
    assert!(all.len() >= 6, "{all:?}");
    flip(&machine, &all[0].clone(), 256 + 700);
    remove(&machine, &all[2]);
    flip(&machine, &all[3].clone(), 20);
    flip(&machine, &all.last().unwrap().clone(), 256 + 41);
    let ws = open(&machine, small().recovery(Recovery::Salvage));
    let salvaged = tasks(&ws);
    drop(ws);
    let (left, lost) = repaired(&machine, 100);
    assert_eq!(left, salvaged, "what salvage can read, repair keeps");
    let counted: u64 = lost.iter().map(|(from, to)| to - from + 1).sum();
    assert_eq!(left.len() as u64 + counted, 100, "a damaged header alone costs nothing: {lost:?}");
}

#[test]
fn live_process_takes_up_the_repair_of_another() {
    let machine = filled(60);
    let first = segments(&machine)[0].clone();
    let past = open(&machine, small());
    flip(&machine, &first, 256 + 40 + 300 * 4);
    let degraded = open(&machine, small());
    let third = open(&machine, small());
    assert_eq!((past.health().status, degraded.health().status), (Status::Healthy, Status::Damaged));
    assert_eq!(
        commit(&past, 61),
        Seq(61),
        "a process that is past the damage may go on until it is repaired"
    );
    let _ = third.log().repair().unwrap();
    assert_eq!(commit(&degraded, 62), Seq(62));
    let hashes: Vec<_> = [&past, &degraded, &third].iter().map(|ws| ws.read(State::hash).unwrap()).collect();
    assert!(hashes.iter().all(|hash| hash == &hashes[0]), "one state in all processes");
    assert!(past.read(|s| s.get(&Key::task("t1")).is_some()).unwrap());
}

#[test]
fn quarantine_holds_the_damaged_bytes_as_they_were() {
    let machine = filled(8);
    let path = segments(&machine)[0].clone();
    flip(&machine, &path, 256 + 40 + 300 * 3);
    let before = machine.disk().read(&path).unwrap();
    let ws = open(&machine, small());
    let report = ws.log().repair().unwrap();
    let note = report.steps[0].quarantined.clone().unwrap();
    let kept =
        machine.disk().read(ws.log().paths().quarantine().join(note.replace(".note", ".bin"))).unwrap();
    assert_eq!(kept, before);
}

/// A tool that knows none of the program's event kinds could plan a repair, but not end it: the closing Epoch was
/// refused like a commit.
#[test]
fn repair_needs_no_understanding_of_the_events() {
    let machine = filled(8);
    flip(&machine, &segments(&machine)[0].clone(), 256 + 40 + 300 * 3);
    let ws = open(&machine, small().vocabulary(foldlog::Vocabulary::default()));
    assert_eq!(ws.log().repair().unwrap().steps.len(), 1);
    assert_eq!(ws.health().status, Status::TooNew, "it still must not write");
    ws.close().unwrap();
    assert_eq!(open(&machine, small()).health().status, Status::Healthy);
}
