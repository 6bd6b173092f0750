//! Recovery from a failed sync: cut off at every call, failing at every call, beside others that write and read, and
//! where the bytes cannot be read again.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test, all of it")]

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use foldlog::log::control_frame::Control;
use foldlog::vfs::Vfs as _;
use foldlog::vfs::sim::{
    Boundary, DiskState, Effect, End, Fault, Kill, Op, Plan, Profile, Program, Rng, SimMachine, SimProcess,
};
use foldlog::{Cursor, Durability, ErrorKind, Options, Seq, State, Status, Workspace};

use super::simulated::{
    Item, bodies, folder, last, log_of, machine_with, open_on, options, paths, put, quick, segments,
};

const D: Durability = Durability::Durable;
const B: Durability = Durability::Buffered;

fn text(n: u64) -> String {
    // Over more than one page together, so that a failed sync drops whole pages.
    format!("{n}{}", "-".repeat(700))
}

fn commit(workspace: &Workspace, n: u64, level: Durability) -> foldlog::Result<Seq> {
    put(workspace, level, "k", &text(n)).map(|receipt| receipt.first)
}

/// Events 1 to 8, of which the first four are durable; the sync of the others fails, and its pages are dropped.
/// `size`: of a segment. A small one is full by then, and it is the sync of a sealed segment that fails.
fn poisoned(profile: Profile, seed: u64, size: u64) -> SimMachine {
    let machine = machine_with(profile, seed, &[]);
    let process = machine.process("loses");
    let (_store, workspace) = open_on(&process, options().segment_size(size)).unwrap();
    for n in 1..=4 {
        assert_eq!(commit(&workspace, n, D).unwrap(), Seq(n));
    }
    for n in 5..=7 {
        let _ = commit(&workspace, n, B).unwrap();
    }
    machine.fault(Fault::on(Op::Sync, Effect::DropsPages).path("/log/0"));
    let error = commit(&workspace, 8, D).unwrap_err();
    assert_eq!(error.code(), "durability-lost", "{error}");
    machine.clear_faults();
    machine.kill(&process);
    machine
}

const SIZES: [u64; 2] = [1 << 20, 4096];

/// 1, 2, 3 … as far as the log goes: nothing missing in between, nothing twice.
fn whole(machine: &SimMachine) -> Result<u64, String> {
    let process = machine.process("auditor");
    let (items, walk) = log_of(&process).map_err(|e| e.to_string())?;
    if let Some(damage) = walk.damage {
        return Err(format!("{damage}"));
    }
    let mut next = 1;
    for (seq, item) in items {
        let Item::Commit(events) = item else { continue };
        if seq != next || events[0].body != text(next) {
            return Err(format!("event {seq} stands where {next} should"));
        }
        next += events.len() as u64;
    }
    Ok(next - 1)
}

fn healthy(machine: &SimMachine, label: &str, options: Options) -> Result<(), String> {
    let process = machine.process(label);
    let (_store, workspace) = open_on(&process, options).map_err(|e| e.to_string())?;
    let health = workspace.health();
    if health.status != Status::Healthy {
        return Err(format!("{health:?}"));
    }
    if process.stat(&paths(&process).poison()).is_ok() {
        return Err("POISON is left".into());
    }
    let n = last(&workspace).0;
    let next = commit(&workspace, n + 1, D).map_err(|e| e.to_string())?;
    if next != Seq(n + 1) { Err(format!("{next:?} behind {n}")) } else { Ok(()) }
}

/// The power goes, or the process dies, at any call of the recovery; then again at any call of the next one. Nothing
/// that was acknowledged as durable is lost, nothing is there twice, and the log is never called damaged.
#[test]
fn crash_at_any_call_of_a_recovery_and_of_the_next_one() {
    let mut crashes = 0;
    let mut rng = Rng::new(5);
    let depth = if quick() { 2 } else { 12 };
    for (profile, size) in
        [Profile::Linux, Profile::Mac, Profile::Windows].into_iter().flat_map(|p| SIZES.map(|s| (p, s)))
    {
        let before = poisoned(profile, 1, size).disk();
        // What the failed sync has dropped may be gone before anybody recovers.
        let starts: Vec<DiskState> =
            before.crash_states(depth, &mut rng).chain([before.process_kill()]).collect();
        for (i, start) in starts.into_iter().enumerate() {
            let why =
                |what: &str, e: String| format!("{profile:?} {size} from {} {what}: {e}", start.origin());
            let machine = SimMachine::from_disk(&start, 40 + i as u64);
            let there = whole(&machine).unwrap_or_else(|e| panic!("{}", why("before", e)));
            assert!(there >= 4, "{}", why("before", there.to_string()));
            machine.record();
            healthy(&machine, "recovers", options().segment_size(size))
                .unwrap_or_else(|e| panic!("{}", why("first", e)));
            let record = machine.take_record();
            machine.kill_all();
            assert_eq!(whole(&machine), Ok(there + 1), "{}", why("after", String::new()));
            for cut in machine.disk().crash_states(depth, &mut rng) {
                let cut = SimMachine::from_disk(&cut, 3);
                assert_eq!(whole(&cut), Ok(there + 1), "{}", why("what was durable after it", String::new()));
            }
            for (b, boundary) in record.boundaries.iter().enumerate() {
                let kill = boundary.disk.process_kill();
                for disk in boundary.disk.crash_states(depth, &mut rng).chain([kill]) {
                    crashes += 1;
                    let why = |e: String| why(&format!("at {:?}, {}", boundary.call, disk.origin()), e);
                    let machine = SimMachine::from_disk(&disk, 900 + crashes);
                    let now = whole(&machine).unwrap_or_else(|e| panic!("{}", why(e)));
                    let least = if disk.boots() > start.boots() { 4 } else { there };
                    assert!(now >= least && now <= there + 1, "{}", why(format!("{now} of {there}")));
                    machine.record();
                    healthy(&machine, "next", options().segment_size(size))
                        .unwrap_or_else(|e| panic!("{}", why(e)));
                    let record = machine.take_record();
                    if b % 4 != 0 {
                        continue;
                    }
                    for boundary in &record.boundaries {
                        for disk in boundary.disk.crash_states(2, &mut rng) {
                            crashes += 1;
                            let machine = SimMachine::from_disk(&disk, 7);
                            let why = |e: String| {
                                why(format!("again at {:?}, {}: {e}", boundary.call, disk.origin()))
                            };
                            let now = whole(&machine).unwrap_or_else(|e| panic!("{}", why(e)));
                            assert!(now >= 4, "{}", why(now.to_string()));
                            healthy(&machine, "last", options().segment_size(size))
                                .unwrap_or_else(|e| panic!("{}", why(e)));
                        }
                    }
                }
            }
        }
    }
    println!("{crashes} crashes in recoveries");
    assert!(crashes > if quick() { 1000 } else { 5000 }, "{crashes}");
}

/// A process that knows nothing of the failed sync commits `Buffered` while a recovery dies at any of its calls: what
/// it was told stands is in the log that the next one makes (CE 7).
#[test]
fn writer_that_knows_nothing_loses_nothing_to_a_recovery_that_dies() {
    let mut kills = 0;
    for size in SIZES {
        for nth in 1.. {
            let machine = machine_with(Profile::Linux, nth, &[]);
            let options = || options().segment_size(size);
            let (_store, other) = open_on(&machine.process("other"), options()).unwrap();
            assert_eq!(commit(&other, 1, B).unwrap(), Seq(1));
            let loser = machine.process("loses");
            {
                let (_store, workspace) = open_on(&loser, options()).unwrap();
                assert_eq!(commit(&workspace, 2, D).unwrap(), Seq(2));
                machine.fault(Fault::on(Op::Sync, Effect::DropsPages).path("/log/0"));
                commit(&workspace, 3, D).unwrap_err();
                machine.kill(&loser);
            }
            let plan = Plan::new().kill("victim", nth, Kill::After);
            let victim = Program::new("victim", move |process| drop(open_on(&process, options())));
            let run = machine.run(nth, vec![victim], &plan);
            let mut n = 3;
            for _ in 0..3 {
                match commit(&other, n + 1, B) {
                    Ok(seq) => assert_eq!(seq, Seq(n + 1), "{run}"),
                    Err(e) => {
                        assert!(matches!(e.kind(), ErrorKind::DurabilityLost { .. }), "{run}: {e}");
                        continue;
                    }
                }
                n += 1;
            }
            let hash = other.read(State::hash).unwrap();
            let (_store, next) = open_on(&machine.process("next"), options()).unwrap();
            assert_eq!(next.health().status, Status::Healthy, "{run}");
            assert_eq!(whole(&machine), Ok(n), "{run}");
            assert_eq!(commit(&other, n + 1, D).unwrap(), Seq(n + 1), "{run}");
            assert_eq!(commit(&next, n + 2, D).unwrap(), Seq(n + 2), "{run}");
            assert_eq!(other.read(State::hash).unwrap(), next.read(State::hash).unwrap(), "{run}");
            assert_ne!(hash, next.read(State::hash).unwrap());
            assert_eq!(whole(&super::counterexamples::worst_power_cut(&machine)), Ok(n + 2), "{run}");
            if matches!(run.ends[0].1, End::Returned) {
                break;
            }
            kills += 1;
        }
    }
    println!("{kills} kills");
    assert!(kills > 60, "{kills}");
}

/// Each call of the recovery fails once: the workspace stays poisoned and says why, or is well; a later try succeeds.
#[test]
fn call_that_fails_in_a_recovery_is_survived() {
    let (mut faults, mut refused) = (0, 0);
    let ops = [
        Op::Open,
        Op::Create,
        Op::Rename,
        Op::Unlink,
        Op::List,
        Op::Stat,
        Op::SyncDir,
        Op::Read,
        Op::Write,
        Op::Sync,
        Op::SetLen,
    ];
    for (size, op) in SIZES.into_iter().flat_map(|size| ops.map(|op| (size, op))) {
        for effect in [
            Effect::Eio,
            Effect::Fail(io::ErrorKind::StorageFull),
            Effect::DoneButFails,
            Effect::Short(30),
            Effect::DropsPages,
        ] {
            for nth in 1.. {
                let machine = poisoned(Profile::Linux, 1, size);
                let options = || options().segment_size(size);
                let why = format!("{size} {op:?} {effect:?} at {nth}");
                machine.fault(Fault::on(op, Effect::Eio).process("recovers").path("/POISON").nth(u64::MAX));
                let before = machine.calls(op);
                machine.fault(Fault::on(op, effect).process("recovers").nth(nth));
                let process = machine.process("recovers");
                let opened = open_on(&process, options());
                let met = machine.calls(op) - before >= nth;
                machine.clear_faults();
                faults += u64::from(met);
                if let Ok((_store, workspace)) = &opened {
                    if workspace.health().status == Status::DurabilityLost {
                        refused += 1;
                        let told = workspace.health().findings;
                        assert!(
                            told.iter().any(|f| f.code == "not-recovered" || f.code == "poisoned"),
                            "{why}: {told:?}"
                        );
                        assert_eq!(
                            last(workspace),
                            Seq(8 - u64::from(size == 4096 && last(workspace) < Seq(8))),
                            "{why}"
                        );
                    }
                    machine.advance(Duration::from_secs(2));
                    let n = last(workspace).0;
                    assert_eq!(
                        commit(workspace, n + 1, D).unwrap_or_else(|e| panic!("{why}: {e}")),
                        Seq(n + 1)
                    );
                    assert_eq!(workspace.health().status, Status::Healthy, "{why}");
                    assert_eq!(whole(&machine), Ok(n + 1), "{why}");
                }
                drop(opened);
                machine.kill(&process);
                let after = super::counterexamples::worst_power_cut(&machine);
                healthy(&after, "later", options()).unwrap_or_else(|e| panic!("{why}: {e}"));
                assert!(whole(&after).unwrap() >= 5, "{why}");
                if !met {
                    break;
                }
            }
        }
    }
    println!("{faults} faults, {refused} kept the workspace poisoned");
    assert!(faults > 300 && refused > 60, "{faults} {refused}");
}

/// One loses a sync, another recovers, a third follows, a fourth reads only: one history for all, and each is well
/// again by itself.
#[test]
fn processes_that_live_on_follow_and_write_again() {
    for (profile, size) in
        [Profile::Linux, Profile::Mac, Profile::Windows].into_iter().flat_map(|p| SIZES.map(|s| (p, s)))
    {
        let what = format!("{profile:?} {size}");
        let machine = machine_with(profile, 3, &[]);
        let options = || options().segment_size(size);
        let open = |label: &str| open_on(&machine.process(label), options()).unwrap();
        let (loser, healer, third) = (open("loses"), open("heals"), open("third"));
        let reader = open_on(&machine.process("reads"), options().read_only(true)).unwrap();
        for n in 1..=4 {
            let _ = commit(&[&loser, &healer, &third][n as usize % 3].1, n, D).unwrap();
        }
        let cursor = third.1.read(State::cursor).unwrap();
        machine.fault(Fault::on(Op::Sync, Effect::DropsPages).path("/log/0"));
        let lost = commit(&loser.1, 5, D).unwrap_err();
        assert!(matches!(lost.kind(), ErrorKind::DurabilityLost { .. }), "{what}: {lost}");
        assert_eq!(last(&third.1), Seq(5), "{what}: it stands, and everybody sees it");
        let ignorant = open_on(&machine.process("opened poisoned"), options().read_only(true)).unwrap();
        assert_eq!(ignorant.1.health().status, Status::DurabilityLost, "{what}");
        // Where it would have had to rotate first, it finds out before anything of it stands.
        let next = commit(&healer.1, 6, D).or_else(|_| commit(&healer.1, 6, D));
        assert_eq!(next.unwrap(), Seq(6), "{what}: it recovers and goes on");
        let hash = healer.1.read(State::hash).unwrap();
        for (who, status) in [
            (&third, Status::Healthy),
            (&reader, Status::ReadOnly),
            (&ignorant, Status::ReadOnly),
            (&loser, Status::Healthy),
        ] {
            assert_eq!(who.1.read(State::hash).unwrap(), hash, "{what}");
            assert_eq!(who.1.health().status, status, "{what}");
        }
        assert_eq!(
            third.1.read(|s| s.resolve(cursor)).unwrap(),
            Ok(Seq(4)),
            "{what}: what was durable is no other history"
        );
        assert_eq!(commit(&loser.1, 7, D).unwrap(), Seq(7), "{what}");
        assert_eq!(commit(&third.1, 8, B).unwrap(), Seq(8), "{what}");
        assert_eq!(whole(&machine), Ok(8), "{what}");
        let process = machine.process("x");
        assert!(process.stat(&paths(&process).poison()).is_err(), "{what}");
        let copies = |machine: &SimMachine| {
            segments(&machine.process("x")).iter().filter(|s| s.to_string_lossy().contains("-g1-")).count()
        };
        assert_eq!(copies(&machine), 1, "{what}: nobody copied again");
    }
}

/// The dropped pages have gone from memory too: history ends where it can be read, everybody's view is rebuilt, stored
/// cursors beyond say so, and the numbers are given out again in a new epoch.
#[test]
fn frames_that_cannot_be_read_again_end_the_history() {
    for (evict, mine) in [(true, true), (true, false), (false, true), (false, false)] {
        let what = format!("evicted {evict}, by the process that had seen them {mine}");
        let machine = machine_with(Profile::Linux, 1, &[]);
        let open = |label: &str| open_on(&machine.process(label), options()).unwrap();
        let (first, second) = (open("first"), open("second"));
        for n in 1..=4 {
            assert_eq!(commit(&first.1, n, D).unwrap(), Seq(n));
        }
        for n in 5..=30 {
            let _ = commit(&first.1, n, B).unwrap();
        }
        let old: Cursor = second.1.read(State::cursor).unwrap();
        let four = second.1.read(|s| s.cursor_at(Seq(4))).unwrap();
        assert_eq!(old.seq, Seq(30));
        machine.fault(Fault::on(Op::Sync, Effect::DropsPages).path("/log/0"));
        commit(&first.1, 31, D).unwrap_err();
        if evict {
            machine.evict();
        } else {
            machine.fault(Fault::on(Op::Read, Effect::Eio).path("/log/0000000001").covering(12_000).always());
        }
        let third;
        let healer = if mine {
            &second
        } else {
            third = open("third");
            &third
        };
        // A process that has read more than there is finds out, and recovers at its next write.
        let again = commit(&healer.1, 1000, D).or_else(|e| {
            assert_eq!(e.code(), "durability-lost", "{what}: {e}");
            commit(&healer.1, 1000, D)
        });
        let again = again.unwrap_or_else(|e| panic!("{what}: {e}"));
        assert!((5..=30).contains(&again.0), "{what}: {again:?}");
        for (who, workspace) in [("first", &first.1), ("second", &second.1)] {
            assert_eq!(workspace.read(|s| s.resolve(old)).unwrap(), Err(Seq(again.0 - 1)), "{what}: {who}");
            assert_eq!(workspace.read(|s| s.resolve(four)).unwrap(), Ok(Seq(4)), "{what}: {who}");
            assert_eq!(last(workspace), again, "{what}: {who}");
            assert_eq!(workspace.health().status, Status::Healthy, "{what}: {who}");
        }
        machine.clear_faults();
        assert_eq!(commit(&first.1, 1001, D).unwrap(), Seq(again.0 + 1), "{what}");
        let hash = first.1.read(State::hash).unwrap();
        assert_eq!(second.1.read(State::hash).unwrap(), hash, "{what}");
        let process = machine.process("x");
        let (items, walk) = log_of(&process).unwrap();
        assert_eq!(walk.damage, None, "{what}");
        let mark = items.iter().find_map(|(seq, item)| match item {
            Item::Control(Control::RecoveryMark(mark)) if !mark.note.is_empty() => Some((*seq, mark.clone())),
            _ => None,
        });
        if mine || !evict {
            let (seq, mark) = mark.expect("a RecoveryMark says so");
            assert_eq!((seq, mark.first_seq), (again.0, again.0), "{what}");
            assert!(process.stat(&paths(&process).quarantine().join(&mark.note)).is_ok(), "{what}");
        }
        let all = bodies(&process);
        assert_eq!(all.len() as u64, again.0 + 1, "{what}");
        assert_eq!(bodies(&super::counterexamples::worst_power_cut(&machine).process("x")), all, "{what}");
    }
}

/// A commit whose frame went behind what can be read no more is cut by the recovery that its own acknowledgement makes:
/// it is not called durable because positions beyond it are.
#[test]
fn commit_that_a_recovery_has_cut_is_not_acknowledged() {
    let machine = machine_with(Profile::Linux, 1, &[]);
    let open = |label: &str| open_on(&machine.process(label), options()).unwrap();
    let (first, second) = (open("first"), open("second"));
    for n in 1..=4 {
        assert_eq!(commit(&first.1, n, D).unwrap(), Seq(n));
    }
    for n in 5..=12 {
        let _ = commit(&second.1, n, D).unwrap();
    }
    for n in 13..=30 {
        let _ = commit(&second.1, n, B).unwrap();
    }
    machine.fault(Fault::on(Op::Sync, Effect::DropsPages).path("/log/0"));
    first.1.flush().unwrap_err();
    machine.evict();
    // Small enough for the recovery's own frames to reach beyond its place.
    let error = put(&second.1, D, "k", "x").unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::DurabilityLost { .. }), "{error}");
    let there = bodies(&machine.process("x"));
    assert!(there.len() >= 12 && !there.contains(&"x".to_owned()), "{there:?}");
    let again = put(&second.1, D, "k", "y").or_else(|_| put(&second.1, D, "k", "y")).unwrap();
    assert_eq!(again.first.0, there.len() as u64 + 1);
}

/// What was acknowledged as durable and cannot be read now is not cut: the workspace stays as it is until it can.
#[test]
fn durable_frames_that_cannot_be_read_are_waited_for() {
    let machine = machine_with(Profile::Linux, 1, &[]);
    let (_store, workspace) = open_on(&machine.process("w"), options()).unwrap();
    for n in 1..=20 {
        let _ = commit(&workspace, n, D).unwrap();
    }
    machine.fault(Fault::on(Op::Sync, Effect::DropsPages).path("/log/0"));
    commit(&workspace, 21, D).unwrap_err();
    machine.fault(Fault::on(Op::Read, Effect::Eio).path("/log/0000000001").covering(6_000).always());
    let refused = commit(&workspace, 22, D).unwrap_err();
    assert!(matches!(refused.kind(), ErrorKind::DurabilityLost { from: Seq(21) }), "{refused}");
    assert!(refused.to_string().contains("recovery: "), "{refused}");
    machine.clear_faults();
    machine.advance(Duration::from_secs(2));
    assert_eq!(commit(&workspace, 22, D).unwrap(), Seq(22));
    assert_eq!(whole(&machine), Ok(22));
}

/// A disk without room, and one that fails every sync: the workspace stays poisoned and readable, says why, is not
/// copied again and again, and goes on when it can.
#[test]
fn tries_are_bounded_and_a_later_one_succeeds() {
    for full in [true, false] {
        let machine = machine_with(Profile::Linux, 1, &[]);
        let (_store, workspace) = open_on(&machine.process("w"), options()).unwrap();
        assert_eq!(commit(&workspace, 1, D).unwrap(), Seq(1));
        machine.fault(Fault::on(Op::Sync, Effect::DropsPages).path("/log/0"));
        commit(&workspace, 2, D).unwrap_err();
        let fail = || {
            if full {
                machine.set_capacity(Some(machine.used()));
            } else {
                machine.fault(Fault::on(Op::Sync, Effect::Eio).always());
            }
        };
        fail();
        let creates = |f: &dyn Fn()| {
            let before = machine.calls(Op::Create);
            f();
            machine.calls(Op::Create) - before
        };
        let refused = || {
            let e = commit(&workspace, 3, B).unwrap_err();
            assert!(matches!(e.kind(), ErrorKind::DurabilityLost { from: Seq(2) }), "{e}");
            assert!(e.to_string().contains(if full { "no space" } else { "simulated" }), "{e}");
        };
        assert!(creates(&refused) > 0);
        assert_eq!(creates(&refused), 0, "not twice within a second");
        let health = workspace.health();
        assert_eq!(health.status, Status::DurabilityLost);
        assert!(health.findings.iter().any(|f| f.code == "not-recovered"), "{health:?}");
        assert_eq!(last(&workspace), Seq(2), "it can be read");
        for _ in 0..20 {
            machine.advance(Duration::from_secs(2));
            let _ = creates(&refused);
        }
        machine.advance(Duration::from_secs(60));
        assert_eq!(creates(&refused), 0, "given up");
        assert!(workspace.health().findings.iter().any(|f| f.message.contains("tries no more")));
        let left = machine.process("x").list(&paths(&machine.process("x")).log()).unwrap();
        assert_eq!(left.len(), 1, "nothing is left of the tries: {left:?}");
        workspace.log().repair().unwrap_err();
        machine.clear_faults();
        machine.set_capacity(None);
        let report = workspace.log().repair().unwrap();
        assert_eq!(report.steps, []);
        assert_eq!(commit(&workspace, 3, D).unwrap(), Seq(3));
        assert_eq!(workspace.health().status, Status::Healthy);
        assert_eq!(whole(&machine), Ok(3));
        assert!(folder(&machine.process("x")).join("quarantine").as_os_str().len() > 1);
    }
}

/// Damage below what was durable, in a poisoned workspace: nothing is cut by itself; repair mends both.
#[test]
fn damaged_and_poisoned_is_left_to_repair() {
    let machine = poisoned(Profile::Linux, 1, 1 << 20);
    let path = machine.disk().tree().into_iter().find(|(p, ..)| p.ends_with(".seg")).unwrap().0;
    machine.with_disk(|disk| disk.mutate(&path, |bytes| bytes[700] ^= 1)).unwrap();
    let (_store, workspace) = open_on(&machine.process("w"), options()).unwrap();
    assert_ne!(workspace.health().status, Status::Healthy);
    let refused = commit(&workspace, 9, D).unwrap_err();
    assert!(matches!(refused.kind(), ErrorKind::DurabilityLost { .. }), "{refused}");
    assert_eq!(machine.disk().read(&path).unwrap()[700] & 1, machine.disk().read(&path).unwrap()[700] & 1);
    let report = workspace.log().repair().unwrap();
    assert_eq!(report.steps.len(), 1);
    assert_eq!(workspace.health().status, Status::Healthy);
    assert!(put(&workspace, D, "k", "on").unwrap().first.0 >= 9);
}

/// A reader that opened in the middle of a recovery had listed the copy's predecessor, read it, and gone over its Seal into
/// the successor, which was live by then: what the copy says more, an Epoch, it never saw. Wherever it is
/// stopped meanwhile, it ends with the state that everybody has.
#[test]
fn reader_that_opens_beside_a_recovery_sees_what_everybody_sees() {
    let mut ran = 0;
    let machine = SimMachine::from_disk(&poisoned(Profile::Linux, 1, 1 << 20).disk().process_kill(), 40);
    machine.record();
    healthy(&machine, "recovers", options()).unwrap();
    let record = machine.take_record();
    let copied =
        |b: &Boundary| b.call.as_ref().is_some_and(|c| c.op == Op::Rename && c.to_string().contains("-g1-"));
    // The copy stands, and the successor is not taken into use yet.
    let behind_the_copy = record.boundaries.iter().skip_while(|b| !copied(b)).nth(1).unwrap();
    let start = behind_the_copy.disk.process_kill();
    for call in 1..60 {
        let machine = SimMachine::from_disk(&start, 7);
        // As on Windows, where somebody has it open: what was copied cannot be removed.
        machine.fault(
            Fault::on(Op::Unlink, Effect::Fail(io::ErrorKind::PermissionDenied)).path("-g1-").times(99),
        );
        let (done, seen) = (AtomicBool::new(false), std::sync::Mutex::new(None));
        let state =
            |workspace: &Workspace| workspace.read(|s| (s.last(), s.epochs().to_vec(), s.hash())).unwrap();
        let reads = |process: SimProcess| {
            let (_store, workspace) = open_on(&process, options().read_only(true)).unwrap();
            let _ = state(&workspace);
            while !done.load(Ordering::Acquire) {
                process.sleep(Duration::from_millis(1));
            }
            *seen.lock().unwrap() = Some(state(&workspace));
        };
        let recovers = |process: SimProcess| {
            let (_store, workspace) = open_on(&process, options()).unwrap();
            let n = last(&workspace).0;
            let _ = commit(&workspace, n + 1, D).unwrap();
            done.store(true, Ordering::Release);
        };
        let programs = vec![Program::new("reads", reads), Program::new("recovers", recovers)];
        let run = machine.run(3, programs, &Plan::new().stall("reads", call, Some(100_000)));
        let what = format!("the reader was stopped before its call {call}");
        assert_eq!(run.panics(), Vec::<&str>::new(), "{what}");
        let (_store, everybody) = open_on(&machine.process("everybody"), options()).unwrap();
        assert_eq!(seen.lock().unwrap().take(), Some(state(&everybody)), "{what}");
        ran += 1;
    }
    assert_eq!(ran, 59);
}
