//! Compaction: what is written anew comes to the same, for whoever is there, however it ends.

#![expect(clippy::unwrap_used, reason = "a test, all of it")]

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use foldlog::event::{Field, Item, Patch, TaskId};
use foldlog::log::CompactReport;
use foldlog::task::{Op, Tasks};
use foldlog::vfs::FileKind;
use foldlog::vfs::sim::{CrashModel, DiskState, Effect, Fault, Op as Call, Profile, Rng, SimMachine};
use foldlog::{Consistency, Durability, ErrorKind, Mapping, Seq, Since, Status as Health};

use crate::simulated::quick;
use crate::simulated::tasks::{hash, open, open_with, options, replayed};

fn id(n: usize) -> TaskId {
    TaskId::new(&format!("t{n}")).unwrap()
}

fn commit(tasks: &Tasks, op: Op) {
    let _ = tasks.commit(vec![op], Durability::Buffered).unwrap();
}

fn create(tasks: &Tasks, n: usize) {
    let item =
        Item::new(&id(n)).with(Field::Ts, 1_i64).with(Field::Task, "a title").with(Field::TokensIn, 0_i64);
    commit(tasks, Op::Create { item, again: false });
}

fn usage(tasks: &Tasks, n: usize, step: i64) {
    let patch = Patch::new().set(Field::Ts, 1_784_000_000_000 + step).set(Field::TokensIn, step);
    commit(tasks, Op::Patch { id: id(n), patch });
}

/// Five tasks, and so many steps of theirs.
fn work(tasks: &Tasks, from: i64, to: i64) {
    if from == 0 {
        (0..5).for_each(|n| create(tasks, n));
    }
    for step in from..to {
        usage(tasks, usize::try_from(step % 5).unwrap(), step);
        if step % 40 == 7 {
            let patch = Patch::new().set(Field::Mode, format!("mode {step}").as_str());
            commit(tasks, Op::Patch { id: id(1), patch });
        }
    }
}

fn compact(tasks: &Tasks) -> Option<CompactReport> {
    tasks.workspace().compact(&mut |_, _| ControlFlow::Continue(())).unwrap()
}

fn find(disk: &DiskState, part: &str) -> Vec<PathBuf> {
    let files = disk.tree().into_iter().filter(|(_, kind, _)| *kind == FileKind::File);
    files
        .map(|(path, ..)| path)
        .filter(|path| path.contains(part))
        .map(|path| Path::new("/").join(path))
        .collect()
}

fn log_len(machine: &SimMachine) -> usize {
    find(&machine.disk(), ".seg").iter().map(|path| machine.disk().read(path).unwrap().len()).sum()
}

/// Written so that there is much to drop below the older snapshot.
fn worked(machine: &SimMachine, steps: i64) -> Tasks {
    let tasks = open(machine);
    work(&tasks, 0, steps);
    let _ = tasks.workspace().snapshot().unwrap().unwrap();
    work(&tasks, steps, steps + 40);
    tasks
}

#[test]
fn what_later_steps_overwrite_goes_and_all_else_stays() {
    let machine = SimMachine::new(Profile::Linux, 1);
    let tasks = worked(&machine, 2_000);
    let (before, right) = (log_len(&machine), hash(&tasks));
    let histories =
        |tasks: &Tasks| -> Vec<usize> { (0..5).map(|n| tasks.history(&id(n)).unwrap().len()).collect() };
    let all = histories(&tasks);
    let report = compact(&tasks).expect("there is much to drop");
    assert!(report.segments > 5 && report.dropped > 1_500, "{report:?}");
    assert!(report.bytes_after * 10 < report.bytes_before, "{report:?}");
    assert!(log_len(&machine) * 3 < before);
    // Everybody comes to the same: who was there, who opens by a snapshot, who replays.
    for other in [&tasks, &open(&machine), &replayed(&machine)] {
        assert_eq!(hash(other), right);
        let left = histories(other);
        assert!(left.iter().zip(&all).all(|(left, all)| left < all && *left > 1), "{left:?} of {all:?}");
        assert_eq!(
            other.workspace().health().status,
            if other.workspace().log().session().is_some() { Health::Healthy } else { Health::ReadOnly }
        );
    }
    // Again: nothing is new below.
    assert_eq!(compact(&tasks), None);
    work(&tasks, 2_040, 4_000);
    let _ = tasks.workspace().snapshot().unwrap();
    work(&tasks, 4_000, 4_010);
    let again = compact(&tasks).expect("more is below now");
    assert!(again.horizon > report.horizon);
    assert_eq!(hash(&tasks), hash(&replayed(&machine)));
    assert_eq!(
        find(&machine.disk(), "-g").iter().filter(|path| !path.to_string_lossy().contains("-g0-")).count(),
        1
    );
}

#[test]
fn order_of_fields_and_deletions_are_kept() {
    let machine = SimMachine::new(Profile::Linux, 2);
    let tasks = open(&machine);
    // A first value gives the field its place; it must not go, although others follow.
    commit(&tasks, Op::Create { item: Item::new(&id(0)), again: false });
    for step in 0..300 {
        usage(&tasks, 0, step);
        let field = Field::of(["a", "b", "c"][usize::try_from(step % 3).unwrap()]);
        commit(&tasks, Op::Patch { id: id(0), patch: Patch::new().set(field, step) });
        if step % 50 == 20 {
            commit(&tasks, Op::Patch { id: id(0), patch: Patch::new().unset(Field::TokensIn) });
        }
        if step % 90 == 80 {
            commit(&tasks, Op::Remove { ids: vec![id(0)], cascade: false });
            commit(&tasks, Op::Create { item: Item::new(&id(0)), again: true });
        }
    }
    let _ = tasks.workspace().snapshot().unwrap();
    usage(&tasks, 0, 999);
    let right = (hash(&tasks), tasks.get("t0").unwrap().unwrap().task.item.to_json());
    let report = compact(&tasks).unwrap();
    assert!(report.dropped > 100, "{report:?}");
    let plain = replayed(&machine);
    assert_eq!((hash(&plain), plain.get("t0").unwrap().unwrap().task.item.to_json()), right);
}

#[test]
fn whoever_stands_in_what_is_gone_finds_the_rest() {
    let machine = SimMachine::new(Profile::Linux, 3);
    let writer = worked(&machine, 100);
    let early = open(&machine);
    let reader = open_with(&machine.process("reader"), options().read_only(true)).unwrap();
    let still = reader.view(Consistency::Latest).unwrap();
    let then = hash(&reader);
    assert_eq!(hash(&early), then);
    work(&writer, 140, 3_000);
    let _ = writer.workspace().snapshot().unwrap();
    work(&writer, 3_000, 3_010);
    let report = compact(&writer).unwrap();
    let first = report.file.clone();
    // They have stood still in a segment that is no more.
    assert_eq!(hash(&reader), hash(&writer));
    usage(&early, 0, 5_000);
    assert_eq!(hash(&early), hash(&writer));
    assert_eq!(still.state().hash(), then, "a view never changes");
    // Ten more, with readers that go on.
    for round in 0..10 {
        let from = 5_000 + round * 500;
        work(&early, from + 1, from + 400);
        let _ = early.workspace().snapshot().unwrap();
        work(&writer, from + 400, from + 410);
        let _ = compact(&writer);
        assert_eq!(hash(&reader), hash(&early), "round {round}");
    }
    assert_eq!(hash(&replayed(&machine)), hash(&writer));
    assert_ne!(find(&machine.disk(), "-g").first(), Some(&first));
}

#[test]
fn snapshot_below_the_horizon_is_not_answered_for_by_what_is_left() {
    let machine = SimMachine::new(Profile::Linux, 8);
    let writer = open(&machine);
    work(&writer, 0, 500);
    let early = writer.workspace().snapshot().unwrap().unwrap();
    // It reads what it needs of the snapshot when it needs it.
    let slow = machine.process("slow");
    let reader = open_with(&slow, options().read_only(true).mapping(Mapping::Off)).unwrap();
    let base = reader.read(|state, _| state.snapshot().map(Path::to_path_buf)).unwrap();
    assert_eq!(base, Some(early.file));
    let then = reader.view(Consistency::Cached).unwrap();
    assert!(then.get(&id(3)).is_some());
    work(&writer, 500, 1_500);
    let _ = writer.workspace().snapshot().unwrap();
    work(&writer, 1_500, 1_600);
    let _ = writer.workspace().snapshot().unwrap();
    let report = compact(&writer).unwrap();
    assert!(report.horizon > early.seq);
    machine.fault(
        Fault::on(Call::Read, Effect::Fail(std::io::ErrorKind::Other)).path(".snap").process("slow").always(),
    );
    // What is left of the log below the horizon does not say what was then.
    assert!(then.get(&id(3)).is_none() && then.check().is_err(), "it says so");
    let now = (0..3).find_map(|_| reader.get("t3").ok()).flatten().unwrap();
    assert_eq!(now.task.item, writer.get("t3").unwrap().unwrap().task.item);
    machine.clear_faults();
    assert_eq!(hash(&reader), hash(&writer));
}

#[test]
fn subscription_below_the_horizon_is_told_and_one_at_the_end_goes_on() {
    let machine = SimMachine::new(Profile::Linux, 4);
    let tasks = worked(&machine, 1_000);
    let mut old = tasks.workspace().subscribe(Since::Beginning).unwrap();
    assert!(old.try_next().unwrap().is_some());
    let mut new = tasks.workspace().subscribe(Since::Now).unwrap();
    let report = compact(&tasks).unwrap();
    work(&tasks, 1_040, 1_400);
    let mut seen = 0;
    while new.try_next().unwrap().is_some() {
        seen += 1;
    }
    assert!(seen >= 360, "{seen}");
    let again = tasks.workspace().subscribe(Since::Beginning).map(drop);
    let told = again.unwrap_err();
    assert!(
        matches!(told.kind(), ErrorKind::Trimmed { first_available } if *first_available == Seq(report.horizon.0 + 1)),
        "{told}"
    );
}

#[test]
fn broken_off_or_failing_it_leaves_everything_as_it_was() {
    let mut failed = 0;
    for call in [
        Call::Create,
        Call::Write,
        Call::Sync,
        Call::Rename,
        Call::Open,
        Call::Read,
        Call::List,
        Call::SyncDir,
        Call::Unlink,
    ] {
        for nth in [0, 1, 2, 3, 5, 8, 13, 21] {
            let machine = SimMachine::new(Profile::Linux, 5);
            let tasks = worked(&machine, 300);
            let _ = tasks.workspace().snapshot().unwrap();
            let right = hash(&tasks);
            machine
                .fault(Fault::on(call, Effect::Fail(std::io::ErrorKind::StorageFull)).path("/log").nth(nth));
            let made = tasks.workspace().log().compact(&mut |_, _| ControlFlow::Continue(()));
            machine.clear_faults();
            failed += usize::from(made.is_err());
            for other in [&tasks, &open(&machine), &replayed(&machine)] {
                assert_eq!(hash(other), right, "{call:?} {nth}");
            }
            let _ = compact(&tasks);
            assert!(find(&machine.disk(), "log/.compact-").is_empty(), "{call:?} {nth}: swept by the next");
            usage(&tasks, 0, 9_999);
            assert_eq!(hash(&open(&machine)), hash(&replayed(&machine)));
        }
    }
    assert!(failed > 20, "{failed}");
    let machine = SimMachine::new(Profile::Linux, 6);
    let tasks = worked(&machine, 300);
    let _ = tasks.workspace().snapshot().unwrap();
    let (mut told, before) = (Vec::new(), find(&machine.disk(), "/log/"));
    let stop = tasks.workspace().log().compact(&mut |done, all| {
        told.push((done, all));
        if told.len() == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert_eq!(stop.unwrap_err().code(), "refused");
    assert!(told.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 == pair[1].1), "{told:?}");
    assert_eq!(find(&machine.disk(), "/log/"), before);
}

#[derive(Debug, Default)]
struct Told {
    states: usize,
    old: usize,
    new: usize,
    both: usize,
}

fn examine(disk: &DiskState, marks: &[String], right: blake3::Hash, told: &mut Told) -> Result<(), String> {
    let machine = SimMachine::from_disk(disk, 77);
    let tasks =
        open_with(&machine.process("next"), options().create(false)).map_err(|e| format!("opening: {e}"))?;
    if tasks.workspace().health().status != Health::Healthy {
        return Err(format!("{:?}", tasks.workspace().health()));
    }
    for other in [&tasks, &replayed(&machine)] {
        if hash(other) != right {
            return Err("it comes to something else".into());
        }
    }
    let names = find(disk, ".seg");
    let of = |new: bool| names.iter().filter(|path| path.to_string_lossy().contains("-g0-") != new).count();
    let (old, new) = (of(false), of(true));
    told.states += 1;
    told.old += usize::from(new == 0);
    told.new += usize::from(new > 0 && old < 3);
    told.both += usize::from(new > 0 && old > 3);
    if marks.iter().any(|mark| mark == "compacted") && new == 0 {
        return Err("what was said to be done is not there".into());
    }
    // The next one goes on from whatever this one left.
    let _ = compact(&tasks);
    usage(&tasks, 0, 9_999);
    if hash(&tasks) != hash(&replayed(&machine)) || !find(&machine.disk(), "log/.compact-").is_empty() {
        return Err("going on is something else".into());
    }
    Ok(())
}

#[test]
fn every_crash_leaves_the_old_or_the_new() {
    let models: [(Profile, CrashModel); 3] = [
        (Profile::Linux, CrashModel::adversarial()),
        (Profile::Mac, Profile::Mac.crash_model()),
        (Profile::Windows, Profile::Windows.crash_model()),
    ];
    let mut told = Told::default();
    for (m, (profile, model)) in models.into_iter().enumerate() {
        let machine = SimMachine::new(profile, 3);
        let tasks = worked(&machine, 250);
        let _ = tasks.workspace().snapshot().unwrap();
        let right = hash(&tasks);
        tasks.workspace().clone().close().unwrap();
        drop(tasks);
        let machine = SimMachine::from_disk(&machine.disk().all_synced(), 4);
        let process = machine.process("compactor");
        let tasks = open_with(&process, options()).unwrap();
        machine.record();
        let report = tasks.workspace().log().compact(&mut |_, _| ControlFlow::Continue(())).unwrap();
        assert!(report.is_some());
        machine.mark("compacted");
        machine.kill(&process);
        let record = machine.take_record();
        let limit = if quick() { 2 } else { 12 };
        let (mut rng, mut seen) = (Rng::new(m as u64), std::collections::HashSet::new());
        for boundary in &record.boundaries {
            let marks = record.marks_at(boundary);
            let cuts = boundary.disk.crash_states_with(&model, limit, &mut rng);
            for disk in cuts.chain([boundary.disk.process_kill()]) {
                if !seen.insert((disk.content_hash(), disk.boots(), marks.len())) {
                    continue;
                }
                examine(&disk, marks, right, &mut told).unwrap_or_else(|why| {
                    panic!(
                        "{why}\n  on {profile:?}, before {:?}, {}, {marks:?}",
                        boundary.call,
                        disk.origin()
                    )
                });
            }
        }
    }
    println!("{told:?}");
    let Told { states, old, new, both } = told;
    assert!(states > 40 && old > 5 && new > 0 && both > 0, "{states} {old} {new} {both}");
}
