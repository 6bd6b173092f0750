//! Every call of every kind fails once: nothing acknowledged is lost, a commit stands whole or not at all, the live
//! handle goes on once the fault is over, and a failed sync is believed.

use std::io;
use std::path::Path;

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
        let before = workspace.log().cached(State::last);
        let receipt = workspace.commit(durability, move |_, draft| {
            draft.expect(key(i), Expect::Absent);
            draft.push(note(&format!("c{i}"), &"y".repeat(len))).push(note(&format!("c{i}+"), "second"));
            Ok(())
        });
        match receipt {
            Ok(receipt) => told.commits.push(Ok((receipt.first, receipt.durable))),
            Err(e) => {
                has_a_place(&e)?;
                told.lost |= workspace.health().status == Status::DurabilityLost;
                told.commits.push(Err(e.code()));
                if told.lost && !matches!(e.kind(), ErrorKind::DurabilityLost { .. }) {
                    return Err(format!("a sync failed, and commit {i} says {e}"));
                }
                let after = workspace.log().cached(State::last);
                if e.code() != "durability-lost" && after != before {
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
            Err(code) if *code != "durability-lost" && one.is_some() => {
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
    let status = if told.lost { Status::DurabilityLost } else { Status::Healthy };
    {
        let (_store, reader) = open(&machine.process("reads"), small().read_only(true)).map_err(text)?;
        check(&reader, told, |_| true)?;
        let odd = reader.health().findings.into_iter().find(|f| f.code != "poisoned");
        if let Some(odd) = odd {
            return Err(format!("bytes that do not belong there: {odd}"));
        }
    }
    if poison(&machine.disk()) != told.lost {
        return Err(format!("POISON is {}, a sync failed: {}", poison(&machine.disk()), told.lost));
    }
    let mut disks = vec![(machine.disk().process_kill(), false)];
    disks.extend(machine.disk().crash_states(3, &mut Rng::new(seed)).map(|disk| (disk, true)));
    for (disk, power_cut) in disks {
        let why = |e: String| format!("{}: {e}", disk.origin());
        let machine = SimMachine::from_disk(&disk, seed + 1_000_000);
        let (_store, workspace) = open(&machine.process("later"), small()).map_err(|e| why(text(e)))?;
        check(&workspace, told, |durable| durable || !power_cut).map_err(why)?;
        let health = workspace.health();
        // What a failed sync has lost may show as damage; what was not acknowledged after it is nobody's loss.
        if health.status != status && !(told.lost && power_cut) {
            return Err(why(format!("{:?}: {:?}", health.status, health.findings)));
        }
        let next = workspace.commit(Durability::Durable, |_, d| {
            d.push(note("next", "x"));
            Ok(())
        });
        if next.is_ok() == told.lost {
            return Err(why(format!("lost = {}, the next commit: {next:?}", told.lost)));
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
