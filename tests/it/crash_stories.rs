//! Single schedules that once broke the engine, each with its story, and the counterexamples of crash, rotation and
//! recovery.

use std::time::Duration;

use foldlog::vfs::sim::{DiskState, Effect, Fault, Op, Profile, Rng, SimMachine};
use foldlog::{Draft, Durability, ErrorKind, Key, Result, Seq, State, Status, Store, Workspace};

use super::commit_basics::{note, options};
use super::crash_oracle::{Program, Ran, Size, Snapshot, Spec, Step, examine, installed, open, run};

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
    run(&Program { fresh: false, segment_size: 4096, steps }, Profile::Linux, 1)
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

/// What the record of a program holds before a call.
fn before(ran: &Ran, call: &str) -> DiskState {
    let found = ran.record.boundaries.iter().find(|b| b.call.as_ref().is_some_and(|c| c.to_string() == call));
    found.unwrap_or_else(|| panic!("no {call}")).disk.clone()
}

fn fresh() -> Ran {
    run(
        &Program { fresh: true, segment_size: 4096, steps: vec![spec(Size::Tiny, Durability::Durable)] },
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
