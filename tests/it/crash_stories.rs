//! Single schedules that once broke the engine, each with its story, and the counterexamples of crash, rotation and
//! recovery.

#![expect(clippy::unwrap_used, reason = "a test, all of it")]

use foldlog::vfs::Vfs;
use foldlog::vfs::sim::{DiskState, Effect, Fault, Op, Profile, Record, Rng, SimMachine};
use foldlog::{Draft, Durability, ErrorKind, Result, Seq, State, Status, Workspace};

use super::commit_basics::{note, options};
use super::crash_oracle::{Program, Ran, Size, Spec, Step, installed, open, run};

fn push(key: &'static str, len: usize) -> impl FnOnce(&State, &mut Draft) -> Result<()> + Send + 'static {
    move |_, draft| {
        draft.push(note(key, &"x".repeat(len)));
        Ok(())
    }
}

fn spec(size: Size, durability: Durability) -> Step {
    Step::Commit(Spec { size, durability, op: false, events: 1, conditional: false })
}

/// Two commits, the second of which rotates first; recorded.
fn rotating() -> Ran {
    let steps = vec![spec(Size::Page, Durability::Buffered), spec(Size::Tiny, Durability::Durable)];
    run(&Program { fresh: false, segment_size: 4096, reserve: true, steps }, Profile::Linux, 1)
}

fn segments(disk: &DiskState) -> Vec<String> {
    disk.tree().into_iter().map(|(path, ..)| path).filter(|path| path.ends_with(".seg")).collect()
}

/// The disk just before the sealed file is synced: its Seal is there, the successor is prepared.
fn sealed() -> (Ran, DiskState) {
    let ran = rotating();
    let live = ran
        .record
        .boundaries
        .iter()
        .find(|b| {
            let call = b.call.as_ref().map(ToString::to_string).unwrap_or_default();
            call.contains("Write") && call.contains("/0000000002-") && call.contains("[0, +256]")
        })
        .unwrap();
    let disk = live.disk.all_synced();
    assert_eq!(segments(&disk).len(), 2);
    (ran, disk)
}

fn small() -> foldlog::Options {
    options().segment_size(4096)
}

fn number(workspace: &Workspace) -> u64 {
    workspace.read(State::last).unwrap().0
}

/// A power cut came between the Seal and the successor's header. The opener stood behind the Seal, found the file to
/// end there, took that for the end of the log, and appended its commit behind the Seal, where no reader ever looks;
/// the next open called it a missing segment.
#[test]
fn an_opener_finishes_a_rotation_before_it_appends() {
    let (_, disk) = sealed();
    let machine = SimMachine::from_disk(&disk, 9);
    let (_store, workspace) = open(&machine.process("writer"), small()).unwrap();
    let receipt = workspace.commit(Durability::Durable, push("after", 10)).unwrap();
    assert_eq!(receipt.first, Seq(2));
    let (_store, reader) = open(&machine.process("reader"), small().read_only(true)).unwrap();
    assert_eq!((number(&reader), reader.open_report().segments), (2, 2));
    assert_eq!(reader.health().findings, []);
}

/// The same for a live follower: it read on to the Seal while the rotating process could not fill the header, and at
/// its own next commit took the end of the file for the end of the log.
#[test]
fn a_follower_that_has_read_a_seal_does_not_append_behind_it() {
    let machine = installed(Profile::Linux, 3, small());
    let (_a_store, a) = open(&machine.process("a"), small()).unwrap();
    let _ = a.commit(Durability::Buffered, push("a", 4000)).unwrap();
    let (_b_store, b) = open(&machine.process("b"), small()).unwrap();
    machine.fault(Fault::on(Op::Write, Effect::Eio).path("/0000000002-"));
    let error = a.commit(Durability::Buffered, push("a", 10)).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Io), "{error}");
    assert_eq!((number(&b), number(&b)), (1, 1), "looked twice, behind the Seal now");
    assert_eq!(b.commit(Durability::Buffered, push("b", 10)).unwrap().first, Seq(2));
    assert_eq!(a.commit(Durability::Durable, push("a", 10)).unwrap().first, Seq(3));
    let (_store, reader) = open(&machine.process("reader"), small().read_only(true)).unwrap();
    assert_eq!((number(&reader), reader.open_report().segments, reader.health().findings), (3, 2, vec![]));
    assert_eq!(number(&b), 3);
}

/// Windows has no sync of folders: a store that was made, and a workspace in it, were lost by a power cut although the
/// call that made them had promised them. Any sync of a file's data writes the journal that the names are in.
#[test]
fn what_was_made_is_durable_where_folders_cannot_be_synced() {
    let machine = SimMachine::new(Profile::Windows, 3);
    drop(open(&machine.process("makes"), small()).unwrap());
    for cut in machine.disk().crash_states(20, &mut Rng::new(1)) {
        let opened = open(&SimMachine::from_disk(&cut, 6).process("looks"), small().create(false));
        assert!(opened.is_ok(), "{}: {:?}", cut.origin(), opened.err());
    }
}

/// Pages reach the disk out of order: zeros stand where the first lost frame was, and whole frames behind them. Who
/// looks at the next 32 bytes alone takes that for the end, and appends in front of what is left over (CE 2c).
#[test]
fn zeros_at_the_end_hide_no_frames_behind_them() {
    let machine = installed(Profile::Linux, 3, small());
    let process = machine.process("a");
    let (_store, workspace) = open(&process, small()).unwrap();
    let _ = workspace.commit(Durability::Durable, push("a", 10)).unwrap();
    let path = segments(&machine.disk()).remove(0);
    // Of the frames, not of the reserve behind them.
    let end = || {
        let bytes = machine.disk().read(&path).unwrap();
        bytes.iter().rposition(|b| *b != 0).unwrap().next_multiple_of(8)
    };
    let start = end();
    let _ = workspace.commit(Durability::Buffered, push("b", 600)).unwrap();
    let hole = start..end();
    let _ = workspace.commit(Durability::Buffered, push("c", 600)).unwrap();
    machine.kill(&process);
    let mut disk = machine.disk().all_synced();
    disk.mutate(&path, |bytes| bytes[hole].fill(0)).unwrap();
    let machine = SimMachine::from_disk(&disk, 9);
    let (_store, workspace) = open(&machine.process("next"), small()).unwrap();
    assert_eq!(workspace.commit(Durability::Durable, push("d", 10)).unwrap().first, Seq(2));
    super::crash_oracle::set_aside(&disk, &machine.disk()).unwrap();
    let (_store, reader) = open(&machine.process("looks"), small().read_only(true)).unwrap();
    assert_eq!((number(&reader), reader.health().findings), (2, vec![]));
}

/// What the record of a program holds before a call.
fn before(ran: &Ran, call: &str) -> DiskState {
    let found = ran.record.boundaries.iter().find(|b| b.call.as_ref().is_some_and(|c| c.to_string() == call));
    found.unwrap_or_else(|| panic!("no {call}")).disk.clone()
}

fn fresh() -> Ran {
    run(
        &Program {
            fresh: true,
            segment_size: 4096,
            reserve: true,
            steps: vec![spec(Size::Tiny, Durability::Durable)],
        },
        Profile::Linux,
        2,
    )
}

/// A process made the store's folder and was killed before it synced the folder above. The next one found it, made
/// the store in it, acknowledged a commit as durable, and a power cut took the folder with everything in it.
#[test]
fn a_folder_that_another_process_made_is_made_durable() {
    let machine = SimMachine::from_disk(&before(&fresh(), "writer: SyncDir /").process_kill(), 5);
    let (_store, workspace) = open(&machine.process("next"), small()).unwrap();
    let _ = workspace.commit(Durability::Durable, push("a", 10)).unwrap();
    let cut = machine.disk().crash_states(1, &mut Rng::new(1)).next().unwrap();
    let (_store, workspace) = open(&SimMachine::from_disk(&cut, 6).process("looks"), small()).unwrap();
    assert_eq!(number(&workspace), 1);
}

/// A process gave a workspace its name and was killed before it synced the folder. The next one opened it and
/// acknowledged a commit as durable; its own sync of the file said nothing about the name.
#[test]
fn names_that_another_process_published_are_made_durable_before_an_acknowledgement() {
    let machine =
        SimMachine::from_disk(&before(&fresh(), "writer: SyncDir /store/workspaces").process_kill(), 5);
    let (_store, workspace) = open(&machine.process("next"), small()).unwrap();
    let _ = workspace.commit(Durability::Durable, push("a", 10)).unwrap();
    for cut in machine.disk().crash_states(20, &mut Rng::new(1)) {
        let machine = SimMachine::from_disk(&cut, 6);
        let (_store, workspace) = open(&machine.process("looks"), small().create(false)).unwrap();
        assert_eq!(number(&workspace), 1, "{}", cut.origin());
    }
}

/// A process put the store's META in place and was killed before it synced the folder. The next one took the store
/// for made, made a workspace in it, and a power cut left the workspace without META, which is called damage.
#[test]
fn no_workspace_outlives_the_stores_meta() {
    let ran = fresh();
    let published = ran.record.boundaries.iter().position(|b| b.disk.read("/store/META").is_some()).unwrap();
    let machine = SimMachine::from_disk(&ran.record.boundaries[published].disk.process_kill(), 5);
    machine.record();
    drop(open(&machine.process("next"), small()).unwrap());
    let record = machine.take_record();
    for (boundary, _, disk) in record.power_cuts(Profile::Linux.crash_model(), 40, 1) {
        let opened = open(&SimMachine::from_disk(&disk, 6).process("looks"), small());
        assert!(opened.is_ok(), "{:?} {}: {:?}", boundary.call, disk.origin(), opened.err());
    }
}

/// Half-done rotations are finished with the sync first (CE 3): the sealed file may never have been synced, and once
/// the header is there nobody syncs it again.
#[test]
fn a_half_done_rotation_is_finished_with_the_sync_first() {
    let ran = rotating();
    let header =
        |call: &str| call.contains("Write") && call.contains("/0000000002-") && call.contains("[0, +256]");
    let sync = |call: &str| call.contains("Sync") && call.contains("/0000000001-");
    let calls = |record: &Record| -> Vec<String> {
        record.boundaries.iter().filter_map(|b| b.call.as_ref().map(ToString::to_string)).collect()
    };
    let whole = calls(&ran.record);
    let filled = whole.iter().position(|call| header(call)).unwrap();
    let sealed =
        whole[..filled].iter().rposition(|call| call.contains("Write") && call.contains("/0000000001-"));
    assert!(whole[sealed.unwrap()..filled].iter().any(|call| sync(call)), "{whole:#?}");
    // Killed between Seal and sync: the Seal is in the page cache alone.
    let disk = ran.record.boundaries[sealed.unwrap() + 1].disk.process_kill();
    for (what, disk) in [("killed", disk.clone()), ("power cut", disk.all_synced())] {
        let machine = SimMachine::from_disk(&disk, 9);
        machine.record();
        let (_store, workspace) = open(&machine.process("next"), small()).unwrap();
        let _ = workspace.commit(Durability::Durable, push("after", 10)).unwrap();
        let calls = calls(&machine.take_record());
        let filled = calls.iter().position(|call| header(call)).unwrap();
        let synced = calls.iter().position(|call| sync(call)).unwrap_or(usize::MAX);
        assert!(synced < filled, "{what}: {calls:#?}");
        for cut in machine.disk().crash_states(50, &mut Rng::new(3)) {
            let (_store, workspace) =
                open(&SimMachine::from_disk(&cut, 6).process("looks"), small()).unwrap();
            assert_eq!(workspace.health().status, Status::Healthy, "{what}, {}", cut.origin());
            assert_eq!(number(&workspace), 2, "{what}, {}", cut.origin());
        }
    }
}

/// Opens, finds damage of this kind, refuses to write, and changes nothing.
fn is_damage(disk: &DiskState, code: &str) {
    let machine = SimMachine::from_disk(disk, 9);
    let before = super::crash_oracle::contents(disk);
    for read_only in [true, false] {
        let (_store, workspace) = open(&machine.process("looks"), small().read_only(read_only)).unwrap();
        let health = workspace.health();
        assert_eq!(health.status, Status::Damaged, "{health:?}");
        assert!(health.findings.iter().any(|f| f.code == code), "{code}: {health:?}");
        let refused = workspace.commit(Durability::Durable, push("after", 10)).unwrap_err();
        let kind = refused.kind();
        assert!(matches!(kind, ErrorKind::Damaged(_) | ErrorKind::ReadOnly { .. }), "{refused}");
        let _ = workspace.tick();
    }
    assert!(super::crash_oracle::contents(&machine.disk()) == before, "damage was touched");
}

fn without(disk: &DiskState, path: &str) -> DiskState {
    let machine = SimMachine::from_disk(disk, 4);
    machine.process("somebody").unlink(path.as_ref()).unwrap();
    machine.disk().all_synced()
}

/// A Seal without a successor's file is no crash: the name was durable before the Seal was written. Never is the file
/// made anew.
#[test]
fn a_seal_whose_successor_is_not_there_is_a_missing_segment() {
    let (ran, prepared) = sealed();
    let live = ran.record.boundaries.last().unwrap().disk.all_synced();
    for disk in [&prepared, &live] {
        is_damage(&without(disk, &segments(disk)[1]), "missing-segment");
    }
}

/// One bad bit in a Seal, whose number nothing in the young successor vouches for, cut the Seal and a whole live
/// segment (CE 4): anything invalid before the end of an earlier segment is damage, whatever vouches.
#[test]
fn a_damaged_seal_with_a_live_successor_is_damage() {
    let ran = rotating();
    for b in &ran.record.boundaries {
        // From the moment the header is filled on, nothing vouched behind it.
        let disk = b.disk.all_synced();
        let all = segments(&disk);
        if all.len() < 2 || disk.read(&all[1]).unwrap()[12] != 2 {
            continue;
        }
        let len = disk.read(&all[0]).unwrap().len();
        for at in [len - 80, len - 76, len - 60, len - 12] {
            let mut flipped = disk.clone();
            flipped.mutate(&all[0], |bytes| bytes[at] ^= 4).unwrap();
            is_damage(&flipped, "corrupt");
        }
    }
}

/// Two windows restart together after a power cut, and each finds the other alive (CE II.1): neither is proof of the
/// page cache, so the first append starts an epoch, the second does not, and old cursors are told.
#[test]
fn two_openers_after_a_power_cut_are_no_proof_for_each_other() {
    let machine = installed(Profile::Linux, 3, small());
    let process = machine.process("a");
    let (_store, before) = open(&process, small()).unwrap();
    for durability in [Durability::Durable, Durability::Buffered, Durability::Buffered] {
        let _ = before.commit(durability, push("a", 600)).unwrap();
    }
    let seen = before.read(State::cursor).unwrap();
    machine.kill(&process);
    for disk in machine.disk().crash_states(40, &mut Rng::new(2)) {
        let machine = SimMachine::from_disk(&disk, 8);
        let (_a_store, a) = open(&machine.process("a"), small()).unwrap();
        let (_b_store, b) = open(&machine.process("b"), small()).unwrap();
        let last = number(&a);
        assert_eq!(number(&b), last);
        assert!((1..=3).contains(&last));
        // All that was lost is given out again, and more, before anybody asks.
        let first = b.commit(Durability::Buffered, push("b", 10)).unwrap();
        let second = a.commit(Durability::Durable, push("a", 10)).unwrap();
        let _ = a.commit(Durability::Durable, push("a", 10)).unwrap();
        assert_eq!((first.first, second.first), (Seq(last + 1), Seq(last + 2)), "{}", disk.origin());
        assert_ne!(first.cursor.epoch, seen.epoch);
        assert_eq!(second.cursor.epoch, first.cursor.epoch, "the first is the second one's witness");
        for workspace in [&a, &b] {
            let resolved = workspace.read(|s| s.resolve(seen)).unwrap();
            assert_eq!(resolved, if last == 3 { Ok(Seq(3)) } else { Err(Seq(last)) }, "{}", disk.origin());
            assert_eq!(workspace.health().status, Status::Healthy);
        }
    }
}

/// Two processes prepare a successor of the same segment; one rotates into its own while the other, which has gone on
/// to be stopped, comes back (CE 1). A preparer never writes to a file that has its final name.
#[test]
fn a_late_preparer_harms_nobody() {
    let machine = installed(Profile::Linux, 3, small());
    let (_a_store, a) = open(&machine.process("a"), small()).unwrap();
    let (_b_store, b) = open(&machine.process("b"), small()).unwrap();
    let _ = a.commit(Durability::Durable, push("a", 3400)).unwrap();
    machine.record();
    // Both see a segment that is nearly full, and prepare; the second one rotates into its own.
    assert_eq!(number(&b), 1);
    let _ = a.commit(Durability::Buffered, push("a", 10)).unwrap();
    let _ = b.commit(Durability::Buffered, push("b", 700)).unwrap();
    assert_eq!(segments(&machine.disk()).len(), 3, "two prepared successors");
    let _ = b.commit(Durability::Durable, push("b", 10)).unwrap();
    let _ = a.commit(Durability::Durable, push("a", 3000)).unwrap();
    let _ = a.commit(Durability::Durable, push("a", 3000)).unwrap();
    let record = machine.take_record();
    assert_eq!((number(&a), number(&b)), (6, 6));
    let mut named: Vec<String> = Vec::new();
    for call in record.boundaries.iter().filter_map(|b| b.call.as_ref()) {
        let path = call.path.display().to_string();
        if call.op == Op::Rename && path.contains("/log/.new-") {
            named.push(call.to.as_ref().unwrap().display().to_string());
        }
        if call.op == Op::Write && call.len == 256 && named.contains(&path) {
            let id = path.clone();
            assert!(
                segments(&machine.disk()).contains(&id),
                "a header was written into {path}, which is not in use"
            );
        }
    }
    let (_store, reader) = open(&machine.process("looks"), small().read_only(true)).unwrap();
    assert_eq!((number(&reader), reader.health().findings), (6, vec![]));
}
