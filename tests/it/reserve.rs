//! The reserve: when it is there, and that nothing which can happen to it costs anybody a commit.

use std::path::Path;

use foldlog::vfs::sim::{
    Call, Effect, End, Fault, Fill, Kill, Op, Plan, Profile, Program, Rng, SimMachine, SimProcess,
};
use foldlog::vfs::{FileSystem, Open, Vfs, write_full};
use foldlog::{Durability, Options, Seq, State, Status, Workspace};

use super::commit_basics::{note, options};
use super::crash_oracle::{installed, open, set_aside};

const DURABLE: Durability = Durability::Durable;
const BUFFERED: Durability = Durability::Buffered;
/// A frame may end in a few zeros of its own.
const RESERVE_MIN: usize = 32;

fn commit(ws: &Workspace, key: &str, len: usize, durability: Durability) -> foldlog::Result<Seq> {
    let (key, text) = (key.to_owned(), "x".repeat(len));
    let receipt = ws.commit(durability, move |_, draft| {
        draft.push(note(&key, &text));
        Ok(())
    });
    receipt.map(|receipt| receipt.first)
}

fn segments(machine: &SimMachine) -> Vec<String> {
    let tree = machine.disk().tree();
    tree.into_iter().map(|(path, ..)| path).filter(|path| path.ends_with(".seg")).collect()
}

/// Length of a segment, and how much of it is zeros at the end.
fn shape(machine: &SimMachine, at: usize) -> (usize, usize) {
    let bytes = machine.disk().read(segments(machine).get(at).unwrap()).unwrap();
    let content = bytes.iter().rposition(|b| *b != 0).unwrap() + 1;
    (bytes.len(), bytes.len() - content)
}

fn reserve_of(machine: &SimMachine) -> usize {
    Some(shape(machine, 0).1).filter(|zeros| *zeros >= RESERVE_MIN).unwrap_or(0)
}

/// Everything is there for whoever looks, whoever goes on, and whoever verifies.
fn whole(machine: &SimMachine, events: u64) {
    for read_only in [true, false] {
        let process = machine.process("checks");
        let (_store, ws) = open(&process, options().read_only(read_only)).unwrap();
        let status = if read_only { Status::ReadOnly } else { Status::Healthy };
        assert_eq!((ws.health().status, ws.health().findings), (status, vec![]));
        assert_eq!(ws.read(|state| (state.last(), state.events())).unwrap(), (Seq(events), events));
    }
}

#[test]
fn reserve_is_there_for_who_syncs_and_gone_after_a_clean_close() {
    let machine = installed(Profile::Linux, 1, options());
    let process = machine.process("a");
    let (store, ws) = open(&process, options()).unwrap();
    let _ = commit(&ws, "a", 100, BUFFERED).unwrap();
    machine.advance(std::time::Duration::from_secs(2));
    let _ = ws.tick().unwrap();
    assert_eq!(reserve_of(&machine), 0, "a Mark's sync makes none");
    let _ = commit(&ws, "a", 100, DURABLE).unwrap();
    assert_eq!(reserve_of(&machine) & !7, 64 << 10);
    let len = shape(&machine, 0).0;
    // Nothing is extended until little is left, and then by twice as much.
    let _ = commit(&ws, "a", 40 << 10, DURABLE).unwrap();
    assert_eq!(shape(&machine, 0).0, len);
    let _ = commit(&ws, "a", 20 << 10, DURABLE).unwrap();
    assert_eq!(shape(&machine, 0).0, len + (128 << 10));
    // Another process reads and appends in it.
    let other = machine.process("b");
    let (other_store, other_ws) = open(&other, options()).unwrap();
    assert_eq!(commit(&other_ws, "b", 100, BUFFERED).unwrap(), Seq(5));
    assert_eq!(ws.read(State::last).unwrap(), Seq(5));
    assert_eq!(shape(&machine, 0).0, len + (128 << 10));
    drop((ws, store));
    assert!(reserve_of(&machine) > 0, "somebody else is still here");
    let _ = commit(&other_ws, "b", 120 << 10, DURABLE).unwrap();
    drop((other_ws, other_store));
    assert_eq!(reserve_of(&machine), 0);
    whole(&machine, 6);
}

#[test]
fn reserve_is_there_for_who_waits_for_what_it_committed_buffered() {
    let machine = installed(Profile::Linux, 1, options());
    let (_store, ws) = open(&machine.process("a"), options()).unwrap();
    let buffered = ws.commit(BUFFERED, |_, draft| {
        draft.push(note("k", "one"));
        Ok(())
    });
    assert_eq!(reserve_of(&machine), 0);
    ws.wait_durable(&buffered.unwrap(), std::time::Duration::from_secs(1)).unwrap();
    assert_eq!(reserve_of(&machine) & !7, 64 << 10);
}

#[test]
fn reserve_is_for_file_systems_that_gain_by_it_and_can_be_declined() {
    let shape_of = |file_system: Option<&str>, options: Options| {
        let machine = installed(Profile::Linux, 1, options.clone());
        if let Some(name) = file_system {
            machine.set_file_system(FileSystem::Local(name.into()));
        }
        let (_store, ws) = open(&machine.process("a"), options).unwrap();
        let _ = commit(&ws, "a", 100, DURABLE).unwrap();
        reserve_of(&machine)
    };
    assert!(shape_of(Some("ext4"), options()) > 0);
    for name in ["btrfs", "zfs", "ZFS", "apfs", "refs", "bcachefs", "tmpfs"] {
        assert_eq!(shape_of(Some(name), options()), 0, "{name}");
    }
    assert_eq!(shape_of(None, options().reserve(false)), 0);
}

#[test]
fn reserve_never_goes_far_beyond_a_segment_and_ends_with_its_seal() {
    let small = || options().segment_size(8192);
    let machine = installed(Profile::Linux, 1, small());
    let (_store, ws) = open(&machine.process("a"), small()).unwrap();
    for _ in 0..4 {
        let _ = commit(&ws, "a", 3000, DURABLE).unwrap();
        assert!(shape(&machine, 0).0 <= 16 << 10, "{:?}", shape(&machine, 0));
    }
    assert!(segments(&machine).len() > 1);
    assert!(shape(&machine, 0).1 < RESERVE_MIN, "cut off before the sealed file was synced");
    whole(&machine, 4);
}

/// The disk is full, or there is a quota, or the disk says nothing sensible: the commit knows nothing of it.
#[test]
fn extension_that_fails_fails_nobody() {
    let full = std::io::ErrorKind::StorageFull;
    for effect in [
        Effect::Fail(full),
        Effect::Fail(std::io::ErrorKind::QuotaExceeded),
        Effect::Eio,
        Effect::DoneButFails,
        Effect::Short(0),
        Effect::Short(5000),
    ] {
        let machine = installed(Profile::Linux, 1, options());
        machine.fault(Fault::on(Op::Append, effect));
        let (store, ws) = open(&machine.process("a"), options()).unwrap();
        for n in 1..4 {
            assert_eq!(commit(&ws, "a", 100, DURABLE).unwrap(), Seq(n));
        }
        assert_eq!(ws.health().findings, vec![]);
        for cut in machine.disk().crash_states(20, &mut Rng::new(1)) {
            whole(&SimMachine::from_disk(&cut, 77), 3);
        }
        drop((ws, store));
        whole(&machine, 3);
    }
    // Really full, after a part of it.
    let machine = installed(Profile::Linux, 1, options());
    let (_store, ws) = open(&machine.process("a"), options()).unwrap();
    let _ = commit(&ws, "a", 100, BUFFERED).unwrap();
    machine.set_capacity(Some(machine.used() + 3 * 4096));
    assert_eq!(commit(&ws, "a", 100, DURABLE).unwrap(), Seq(2));
    assert!((1..=4 * 4096).contains(&reserve_of(&machine)), "{}", reserve_of(&machine));
    assert_eq!(commit(&ws, "a", 100, DURABLE).unwrap(), Seq(3), "in the part that there is");
    machine.set_capacity(None);
    whole(&machine, 3);
}

/// What a process does that may be killed or stopped at its extension: two commits, the second one durable.
fn extends(process: SimProcess, options: Options) {
    let (_store, ws) = open(&process, options).unwrap();
    let _ = commit(&ws, "f", 100, BUFFERED).unwrap();
    process.machine().mark("buffered");
    let _ = commit(&ws, "f", 100, DURABLE).unwrap();
    process.machine().mark("durable");
}

/// The number of the call with which a process extends the file, when it is alone.
fn call_of_extension(seed: u64, options: &Options) -> u64 {
    let machine = installed(Profile::Linux, seed, options.clone());
    let run =
        machine.run(seed, vec![Program::new("f", |process| extends(process, options.clone()))], &Plan::new());
    // By its size, so that it is found too when somebody writes the zeros by other means.
    let is_it = |call: &Call| matches!(call.op, Op::Append | Op::Write) && call.len > 4000;
    let at = run.trace.iter().position(is_it).expect("it extends");
    at as u64 + 1
}

#[test]
fn killed_before_within_and_after_the_extension() {
    let call = call_of_extension(1, &options());
    for (kill, reserve) in [(Kill::Before, false), (Kill::Half, true), (Kill::After, true)] {
        let machine = installed(Profile::Linux, 1, options());
        let first = Program::new("f", |process| extends(process, options()));
        let run = machine.run(1, vec![first], &Plan::new().kill("f", call, kill));
        assert_eq!(run.ends[0].1, End::Killed, "{run}");
        assert_eq!(machine.marks(), ["buffered"]);
        assert_eq!(reserve_of(&machine) > 0, reserve, "{kill:?}");
        // Killed alone: both commits stand. With the power cut: whatever is left is no damage.
        let adversary = Profile::Linux.crash_model().with_fill(Fill::Garbage);
        for cut in machine.disk().crash_states_with(&adversary, 60, &mut Rng::new(3)) {
            let after = SimMachine::from_disk(&cut, 5);
            let (_store, ws) = open(&after.process("heals"), options()).unwrap();
            assert_eq!(ws.health().status, Status::Healthy, "{}", cut.origin());
            let last = ws.read(State::last).unwrap();
            assert_eq!(commit(&ws, "next", 10, DURABLE).unwrap(), Seq(last.0 + 1));
            set_aside(&cut, &after.disk()).unwrap();
        }
        let (_store, ws) = open(&machine.process("next"), options()).unwrap();
        assert_eq!(commit(&ws, "next", 100, DURABLE).unwrap(), Seq(3));
        whole(&machine, 3);
    }
}

/// A process decided to extend the file and was stopped, as a lid stops it; others used the reserve up, appended past
/// it and were told that it is durable; then it went on (CE 1). Positioned zeros would lie over their commits.
///
/// `small`: they also sealed the file meanwhile, and cut its reserve off.
fn late_extension(segment_size: u64) -> SimMachine {
    let small = || options().segment_size(segment_size);
    let call = call_of_extension(1, &small());
    let machine = installed(Profile::Linux, 1, small());
    let late = Program::new("f", |process| extends(process, small()));
    // Begins when the other stands still, for good as far as it can tell: it has the disk to itself.
    let others = Program::new("w", |process: SimProcess| {
        while !process.machine().marks().iter().any(|mark| mark == "buffered") {
            process.sleep(std::time::Duration::from_millis(1));
        }
        process.sleep(std::time::Duration::from_millis(100));
        let (_store, ws) = open(&process, small()).unwrap();
        for _ in 0..6 {
            let _ = commit(&ws, "w", 1500, DURABLE).unwrap();
        }
        process.machine().mark("others");
        // Nothing is cut off at a close: the one who is stopped lists the log.
    });
    let plan = Plan::new().stall("f", call, Some(4000));
    let run = machine.run(1, vec![late, others], &plan);
    assert!(run.panics().is_empty(), "{run}");
    assert_eq!(machine.marks(), ["buffered", "others", "durable"], "the order that this is about: {run}");
    machine
}

#[test]
fn extension_that_comes_late_wipes_nothing() {
    let machine = late_extension(1 << 20);
    whole(&machine, 8);
    for cut in machine.disk().crash_states(40, &mut Rng::new(1)) {
        whole(&SimMachine::from_disk(&cut, 77), 8);
    }
}

#[test]
fn extension_that_comes_behind_a_seal_is_nothing() {
    let machine = late_extension(4096);
    let sealed = (0..segments(&machine).len()).find(|at| shape(&machine, *at).1 >= RESERVE_MIN);
    assert_eq!(sealed, Some(0), "zeros behind the Seal of the first segment");
    assert!(segments(&machine).len() > 1);
    whole(&machine, 8);
    for cut in machine.disk().crash_states(40, &mut Rng::new(1)) {
        whole(&SimMachine::from_disk(&cut, 77), 8);
    }
    // Nor for who verifies, who looks at that file alone, and who repairs.
    let process = machine.process("inspects");
    let path = segments(&machine).remove(0);
    let found = foldlog::store::inspect::segment(&process, Path::new(&path), &mut |_| {}).unwrap();
    assert_eq!(found.walk.findings, vec![]);
    let (_store, ws) = open(&process, options().segment_size(4096)).unwrap();
    let report = ws.log().repair().unwrap();
    assert!(report.steps.is_empty(), "{report:?}");
}

/// A file that was replaced underneath is neither extended nor cut.
#[test]
fn replaced_file_is_left_alone() {
    let machine = installed(Profile::Linux, 1, options());
    let (store, ws) = open(&machine.process("a"), options()).unwrap();
    let _ = commit(&ws, "a", 100, DURABLE).unwrap();
    let path = segments(&machine).remove(0);
    let copy = machine.disk().read(&path).unwrap();
    machine.with_disk(|disk| disk.plant(&path, &copy)).unwrap();
    drop((ws, store));
    assert_eq!(machine.disk().read(&path).unwrap(), copy);
}

/// Half of a commit landed in the reserve, then the disk failed: what landed is zero again, and the reserve as long as
/// it was.
#[test]
fn half_a_batch_in_the_reserve_is_zeroed() {
    let machine = installed(Profile::Linux, 1, options());
    let (_store, ws) = open(&machine.process("a"), options()).unwrap();
    let _ = commit(&ws, "a", 100, DURABLE).unwrap();
    let before = machine.disk().read(&segments(&machine)[0]).unwrap();
    machine.fault(Fault::on(Op::Write, Effect::Short(700)).path(".seg"));
    machine.fault(Fault::on(Op::Write, Effect::Eio).path(".seg"));
    let error = commit(&ws, "b", 3000, DURABLE).unwrap_err();
    assert_eq!(error.code(), "io");
    assert_eq!(machine.disk().read(&segments(&machine)[0]).unwrap(), before);
    assert_eq!(commit(&ws, "c", 3000, DURABLE).unwrap(), Seq(2));
    whole(&machine, 2);
}

/// The handle that extends can do nothing else, whatever it is asked.
#[test]
fn handle_for_appending_only_appends() {
    fn check(vfs: &dyn Vfs, path: &Path) {
        let file = vfs.open(path, Open::Create).unwrap();
        write_full(&*file, b"frames", 0).map_err(|(_, e)| e).unwrap();
        let appends = vfs.open(path, Open::Append).unwrap();
        write_full(&*file, b" more", 6).map_err(|(_, e)| e).unwrap();
        assert_eq!(appends.append(b"00").unwrap(), 2);
        assert!(appends.write_at(b"x", 0).is_err());
        assert!(appends.set_len(0).is_err());
        assert!(appends.read_at(&mut [0], 0).is_err());
        assert!(appends.sync_data().is_err());
        assert!(file.append(b"x").is_err());
        assert_eq!(appends.stat().unwrap().id, file.stat().unwrap().id);
        let mut all = [0; 20];
        let n = file.read_at(&mut all, 0).unwrap();
        assert_eq!(&all[..n], b"frames more00");
        assert!(vfs.open(&path.with_file_name("absent"), Open::Append).is_err());
    }
    let dir = tempfile::tempdir().unwrap();
    check(&foldlog::vfs::os::Os, &dir.path().join("file"));
    check(&SimMachine::new(Profile::Windows, 1).process("p"), Path::new("/file"));
    check(&SimMachine::new(Profile::Linux, 1).process("p"), Path::new("/file"));
}
