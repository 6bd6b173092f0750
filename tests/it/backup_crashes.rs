//! Backup and restore on the simulated disk: power cuts and kills at every call, every call failing, no space, a source that
//! was left in the middle of anything, and a source that others change at every call.
//!
//! Whatever happens, the target is a whole copy that was read back, or no store at all, and the source is as it was.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test, all of it")]

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use foldlog::store::inspect;
use foldlog::vfs::sim::{
    CrashModel, DiskState, Effect, Fault, Fill, Op, Profile, Rng, SimMachine, SimProcess,
};
use foldlog::vfs::{Existing, FileKind, Open, Vfs, write_full};
use foldlog::{
    BlobId, CopyOptions, CopyReport, Durability, Link, Options, Result, Seq, Status, Store, Workspace,
};

use super::blobs::{commit, content};
use super::hooked::Hooked;
use super::simulated::{ROOT, folder, open_on, options, place, put, quick, segments};

const BACKUP: &str = "/away/backup";
const RESTORED: &str = "/away/restored";

fn small() -> Options {
    options().segment_size(4096)
}

/// A machine with a store of a few segments and a blob, durable, and nobody who has it open.
fn machine(profile: Profile) -> SimMachine {
    let machine = SimMachine::new(profile, 3);
    let process = machine.process("founder");
    let (store, workspace) = open_on(&process, small()).unwrap();
    let ids = workspace.put_blobs(&[&content(9000, 1)]).unwrap();
    let _ = commit(&workspace, Durability::Durable, "with a blob", ids).unwrap();
    for i in 0..10 {
        let _ = put(&workspace, Durability::Durable, &format!("k{i}"), &"x".repeat(900)).unwrap();
    }
    workspace.close().unwrap();
    drop(store);
    process.create_dir(Path::new("/away")).unwrap();
    assert!(segments(&process).len() > 2);
    SimMachine::from_disk(&machine.disk().all_synced(), 4)
}

fn at(process: &SimProcess, root: &str, options: Options) -> Result<(Store, Workspace)> {
    let store = Store::open_on(Arc::new(process.clone()), Path::new(root), options)?;
    let workspace = store.workspace(&place())?;
    Ok((store, workspace))
}

fn reader(process: &SimProcess, root: &str) -> Result<Store> {
    Store::open_on(Arc::new(process.clone()), Path::new(root), small().read_only(true))
}

fn back_up(process: &SimProcess, options: &CopyOptions) -> Result<CopyReport> {
    reader(process, ROOT)?.backup(BACKUP, options)
}

fn restore(process: &SimProcess) -> Result<CopyReport> {
    reader(process, BACKUP)?.restore_to(RESTORED, &CopyOptions::default())
}

/// Everything below a folder with its bytes.
fn below(disk: &DiskState, root: &str) -> Vec<(String, Option<Vec<u8>>)> {
    let inside = format!("{root}/");
    disk.tree()
        .into_iter()
        .filter(|(path, ..)| path.starts_with(&inside))
        .map(|(path, ..)| {
            let bytes = disk.read(&path);
            (path, bytes)
        })
        .collect()
}

fn state(process: &SimProcess, root: &str) -> Result<(Seq, blake3::Hash)> {
    at(process, root, small().read_only(true))?.1.read(|state| (state.last(), state.hash()))
}

/// What stands in a folder where a copy was to be made; `Ok(true)` = a whole one.
fn examine(disk: &DiskState, root: &str, expected: (Seq, blake3::Hash)) -> std::result::Result<bool, String> {
    let machine = SimMachine::from_disk(disk, 77);
    let process = machine.process("next");
    let has_meta = process.stat(&Path::new(root).join("META")).is_ok();
    match state(&process, root) {
        Ok(found) if found == expected => {}
        Ok(found) => return Err(format!("a copy that is not whole opens: {found:?}, not {expected:?}")),
        Err(e) if has_meta => return Err(format!("a copy that is finished does not open: {e}")),
        Err(e) => {
            let entries = process.list(Path::new(root)).unwrap_or_default();
            let says = entries.iter().any(|entry| entry.name == "UNFINISHED") && e.code() == "foreign";
            if !(entries.is_empty() && e.code() == "not-found" || says) {
                return Err(format!("neither a copy nor nothing nor a sign: {e}, {entries:?}"));
            }
            // Nor is a store made of it by whoever opens it for writing.
            if says && at(&process, root, small()).map(|_| ()).unwrap_err().code() != "foreign" {
                return Err("an unfinished copy is taken for a store".into());
            }
            return Ok(false);
        }
    }
    let (_store, workspace) = at(&process, root, small()).map_err(|e| e.to_string())?;
    if workspace.health().status != Status::Healthy || !workspace.health().findings.is_empty() {
        return Err(format!("{:?}", workspace.health()));
    }
    if workspace.blob(&BlobId::of(&content(9000, 1))).map_err(|e| e.to_string())? != content(9000, 1) {
        return Err("the blob is something else".into());
    }
    // And it is a store like any other.
    let receipt = put(&workspace, Durability::Durable, "after", "it").map_err(|e| e.to_string())?;
    if receipt.first.0 != expected.0.0 + 1 {
        return Err(format!("{receipt:?} behind {expected:?}"));
    }
    Ok(true)
}

const MODELS: [(Profile, fn() -> CrashModel); 4] = [
    (Profile::Linux, CrashModel::adversarial),
    (Profile::Linux, || Profile::Linux.crash_model()),
    (Profile::Mac, || Profile::Mac.crash_model().with_fill(Fill::Garbage)),
    (Profile::Windows, || Profile::Windows.crash_model()),
];

#[derive(Debug, Default)]
struct Told {
    states: usize,
    whole: usize,
    nothing: usize,
}

/// Crashes at every call of what `act` does, which marks when it has returned.
fn crash_everywhere(act: fn(&SimProcess) -> Result<CopyReport>, prepared: fn(&SimProcess), target: &str) {
    let mut told = Told::default();
    for (profile, model) in MODELS {
        let machine = machine(profile);
        let process = machine.process("copier");
        prepared(&process);
        let machine = SimMachine::from_disk(&machine.disk().all_synced(), 5);
        let process = machine.process("copier");
        let expected = state(&process, ROOT).unwrap();
        let before = below(&machine.disk(), ROOT);
        machine.record();
        let _ = act(&process).unwrap();
        machine.mark("returned");
        machine.kill(&process);
        let record = machine.take_record();
        assert!(below(&machine.disk(), ROOT) == before, "the source has changed");
        let mut rng = Rng::new(9);
        let mut seen = std::collections::HashSet::new();
        for boundary in &record.boundaries {
            let returned = !record.marks_at(boundary).is_empty();
            let cuts = boundary.disk.crash_states_with(&model(), if quick() { 12 } else { 60 }, &mut rng);
            for disk in cuts.chain([boundary.disk.process_kill()]) {
                if !seen.insert((disk.content_hash(), disk.boots(), returned)) {
                    continue;
                }
                let told_of = || format!("before {:?}, {}, {profile:?}", boundary.call, disk.origin());
                let whole =
                    examine(&disk, target, expected).unwrap_or_else(|why| panic!("{why}\n  {}", told_of()));
                assert!(whole || !returned, "it had returned, and is gone\n  {}", told_of());
                assert!(below(&disk, ROOT) == before, "the source has changed\n  {}", told_of());
                told.states += 1;
                *if whole { &mut told.whole } else { &mut told.nothing } += 1;
            }
        }
    }
    println!("{told:?}");
    let least = if quick() { 300 } else { 900 };
    assert!(told.states > least && told.whole > 20 && told.nothing > least / 2, "{told:?}");
}

#[test]
fn every_crash_of_a_backup() {
    crash_everywhere(|process| back_up(process, &CopyOptions::default()), |_| {}, BACKUP);
}

#[test]
fn every_crash_of_a_backup_without_links() {
    crash_everywhere(|process| back_up(process, &CopyOptions::default().link(Link::Never)), |_| {}, BACKUP);
}

#[test]
fn every_crash_of_a_restore() {
    let prepared = |process: &SimProcess| drop(back_up(process, &CopyOptions::default()).unwrap());
    crash_everywhere(restore, prepared, RESTORED);
}

const OPS: [Op; 12] = [
    Op::Open,
    Op::Create,
    Op::CreateDir,
    Op::Rename,
    Op::Link,
    Op::Unlink,
    Op::List,
    Op::Stat,
    Op::SyncDir,
    Op::Read,
    Op::Write,
    Op::Sync,
];

/// Every call of every kind fails once in each way: what is told is true, and the next try, elsewhere, comes to a copy.
fn fail_everywhere(act: fn(&SimProcess) -> Result<CopyReport>, target: &str, profile: Profile) {
    let base = machine(profile);
    if target == RESTORED {
        let _ = back_up(&base.process("copier"), &CopyOptions::default()).unwrap();
    }
    let base = base.disk().all_synced();
    let (mut failed, mut passed) = (0, 0);
    for op in OPS {
        for effect in [Effect::Eio, Effect::Fail(io::ErrorKind::StorageFull), Effect::DoneButFails] {
            for nth in 1.. {
                let machine = SimMachine::from_disk(&base, 6);
                let process = machine.process("copier");
                let expected = state(&process, ROOT).unwrap();
                let before = below(&machine.disk(), ROOT);
                let counted = machine.calls(op);
                machine.fault(Fault::on(op, effect).nth(nth));
                let done = act(&process);
                let reached = machine.calls(op) - counted >= nth;
                machine.clear_faults();
                let about = || format!("{op:?} {nth} {effect:?} on {profile:?}");
                assert!(below(&machine.disk(), ROOT) == before, "the source has changed: {}", about());
                let whole = examine(&machine.disk(), target, expected)
                    .unwrap_or_else(|why| panic!("{why}\n  {}\n  {done:?}", about()));
                match &done {
                    Ok(report) => {
                        assert!(whole && report.is_whole(), "{}: {report:?}", about());
                        passed += 1;
                    }
                    Err(e) => {
                        assert!(!e.act().is_empty() && !e.path().as_os_str().is_empty(), "{e:?}");
                        // What could not be finished may be finished but for its sign; it is never half of anything.
                        failed += 1;
                    }
                }
                if done.is_err()
                    && !whole
                    && !matches!(op, Op::Unlink | Op::List)
                    && effect != Effect::DoneButFails
                {
                    let left = process.list(Path::new(target)).map_or(0, |entries| entries.len());
                    assert_eq!(left, 0, "what had been made is still there: {}", about());
                }
                if !reached {
                    break;
                }
            }
        }
    }
    println!("{failed} failed, {passed} did not mind");
    assert!(failed > 100 && passed > 20, "{failed} failed, {passed} did not mind");
}

#[test]
fn every_call_of_a_backup_fails_once() {
    fail_everywhere(|process| back_up(process, &CopyOptions::default()), BACKUP, Profile::Linux);
    fail_everywhere(
        |process| back_up(process, &CopyOptions::default().link(Link::Never)),
        BACKUP,
        Profile::Windows,
    );
}

#[test]
fn every_call_of_a_restore_fails_once() {
    fail_everywhere(restore, RESTORED, Profile::Linux);
}

/// The room runs out anywhere: nothing is left, and the same call does once there is room.
#[test]
fn disk_that_is_full_anywhere_leaves_nothing() {
    let base = machine(Profile::Linux);
    let _ = back_up(&base.process("copier"), &CopyOptions::default()).unwrap();
    let base = base.disk().all_synced();
    let mut full = 0;
    for room in 0.. {
        let machine = SimMachine::from_disk(&base, 6);
        let process = machine.process("copier");
        let expected = state(&process, ROOT).unwrap();
        machine.set_capacity(Some(machine.used() + room * 4096));
        let done = restore(&process);
        if done.is_ok() {
            assert!(examine(&machine.disk(), RESTORED, expected).unwrap());
            break;
        }
        assert_eq!(done.unwrap_err().code(), "no-space");
        assert!(process.stat(Path::new(RESTORED)).is_err(), "left behind with room for {room} pages");
        machine.set_capacity(None);
        let _ = restore(&process).unwrap();
        full += 1;
    }
    assert!(full > 5, "{full}");
}

/// Where the source's disk is full, or cannot be written at all, it is backed up all the same.
#[test]
fn source_that_cannot_be_written_is_backed_up() {
    let machine = machine(Profile::Linux);
    let process = machine.process("copier");
    let expected = state(&process, ROOT).unwrap();
    for op in [Op::Write, Op::Create, Op::CreateDir, Op::Unlink, Op::Sync, Op::Append, Op::SetLen, Op::Lock] {
        machine
            .fault(Fault::on(op, Effect::Fail(io::ErrorKind::StorageFull)).path(format!("{ROOT}/")).always());
    }
    // The source lies on another disk, too.
    machine.fault(Fault::on(Op::Link, Effect::Fail(io::ErrorKind::CrossesDevices)).always());
    let links = machine.calls(Op::Link);
    let report = back_up(&process, &CopyOptions::default()).unwrap();
    assert_eq!(machine.calls(Op::Link) - links, 1, "one answer is enough");
    assert_eq!((report.workspaces[0].linked.files, report.workspaces[0].seq()), (0, expected.0));
    machine.clear_faults();
    assert!(examine(&machine.disk(), BACKUP, expected).unwrap());
}

/// A segment that the disk does not give: refused with its place, or copied up to there if that is asked for.
#[test]
fn segment_that_cannot_be_read_is_named_and_the_rest_copied_as_it_is() {
    let machine = machine(Profile::Linux);
    let process = machine.process("copier");
    let bad = segments(&process)[1].clone();
    let name = bad.file_name().unwrap().to_str().unwrap().to_owned();
    machine.fault(
        Fault::on(Op::Read, Effect::Eio).path(format!("{ROOT}/")).path(name.clone()).covering(1024).always(),
    );
    let refused = back_up(&process, &CopyOptions::default()).unwrap_err();
    assert!(refused.code() == "io" && refused.path() == bad, "{refused}");
    assert!(process.stat(Path::new(BACKUP)).is_err());
    // The same name in the target is another file on the disk, and reads.
    machine.clear_faults();
    machine.fault(Fault::on(Op::Read, Effect::Eio).path(bad.to_str().unwrap()).covering(1024).always());
    let report = back_up(&process, &CopyOptions::default().as_it_is(true)).unwrap();
    let copy = &report.workspaces[0];
    assert!(!report.is_whole() && copy.linked.files <= 1, "{copy:?}");
    assert!(
        copy.findings.iter().any(|finding| finding.code == "unreadable" && finding.file == bad),
        "{copy:?}"
    );
    machine.clear_faults();
    let copied = |path: &Path| process.stat(path).map(|stat| stat.len).ok();
    for path in segments(&process) {
        let there = Path::new(BACKUP).join(path.strip_prefix(ROOT).unwrap());
        assert_eq!(path == bad, copied(&there) < copied(&path), "{path:?}");
    }
}

/// A file with too many names, somebody else's file, a file system without links: that one is copied.
#[test]
fn file_that_cannot_be_linked_is_copied() {
    for error in [io::ErrorKind::TooManyLinks, io::ErrorKind::PermissionDenied, io::ErrorKind::Unsupported] {
        let machine = machine(Profile::Linux);
        let process = machine.process("copier");
        let expected = state(&process, ROOT).unwrap();
        machine.fault(Fault::on(Op::Link, Effect::Fail(error)).nth(2));
        let report = back_up(&process, &CopyOptions::default()).unwrap();
        let copy = &report.workspaces[0];
        assert!(copy.linked.files > 0 && copy.copied.files == 2, "{copy:?}");
        assert!(examine(&machine.disk(), BACKUP, expected).unwrap());
    }
}

/// A writer is killed, or the power goes, at any call: whatever it left, a rotation begun or a frame half written, a backup of
/// it has what a reader sees there.
#[test]
fn source_left_in_the_middle_of_anything_is_backed_up() {
    let machine = machine(Profile::Linux);
    let process = machine.process("writer");
    let (store, workspace) = open_on(&process, small()).unwrap();
    machine.sync_all();
    machine.record();
    for i in 0..8 {
        let level = if i % 2 == 0 { Durability::Durable } else { Durability::Buffered };
        let _ = put(&workspace, level, &format!("more{i}"), &"y".repeat(1200)).unwrap();
    }
    let boundaries = machine.take_record().boundaries;
    machine.kill(&process);
    drop((workspace, store));
    let mut rng = Rng::new(1);
    let (mut torn, mut rotating, mut seen) = (0, 0, std::collections::HashSet::new());
    for boundary in &boundaries {
        let limit = if quick() { 8 } else { 20 };
        let cuts = boundary.disk.crash_states_with(&CrashModel::adversarial(), limit, &mut rng);
        for disk in cuts.chain([boundary.disk.process_kill()]) {
            if !seen.insert(disk.content_hash()) {
                continue;
            }
            let machine = SimMachine::from_disk(&disk, 8);
            let process = machine.process("copier");
            let found = inspect::workspace(&process, &folder(&process), &mut |_| {}).unwrap();
            torn += usize::from(!found.walk.is_clean());
            rotating += usize::from(found.walk.unfinished.is_some());
            let expected = state(&process, ROOT).unwrap();
            let before = below(&machine.disk(), ROOT);
            let report = back_up(&process, &CopyOptions::default())
                .unwrap_or_else(|e| panic!("{e}: before {:?}, {}", boundary.call, disk.origin()));
            assert_eq!((report.workspaces[0].seq(), report.workspaces[0].state_hash), expected);
            let whole = examine(&machine.disk(), BACKUP, expected);
            assert_eq!(whole, Ok(true), "before {:?}, {}", boundary.call, disk.origin());
            assert!(below(&machine.disk(), ROOT) == before, "the source has changed");
        }
    }
    println!("{} sources, {torn} torn, {rotating} in a rotation", seen.len());
    assert!(torn > 5 && rotating > 5, "{torn} {rotating}");
}

/// Before any one call of the backup another process commits, and seals segments; a copy has all that was there before.
#[test]
fn writer_that_rotates_at_any_call_gets_nothing_lost() {
    let reached = interrupted_everywhere(|process| {
        let (_store, workspace) = open_on(process, small()).unwrap();
        for i in 0..6 {
            let _ = put(&workspace, Durability::Durable, &format!("late{i}"), &"z".repeat(900)).unwrap();
        }
        workspace.close().unwrap();
    });
    assert!(reached > 50, "{reached}");
}

/// The same while another process repairs the log: every file that was looked at may have gone.
#[test]
fn repair_at_any_call_ends_in_one_consistent_copy() {
    let reached = interrupted_everywhere(|process| {
        // Damaged and mended within one call of the backup: to that it looks like a segment that was replaced by a newer one.
        let (store, workspace) = open_on(process, small()).unwrap();
        let damaged = &segments(process)[1];
        let mut bytes = super::simulated::file(process, damaged);
        bytes[700] ^= 1;
        // A file of its own: what goes bad in place goes bad in a copy that shares it, too.
        let beside = damaged.with_extension("tmp");
        let file = process.open(&beside, Open::Create).unwrap();
        write_full(&*file, &bytes, 0).unwrap();
        process.rename(&beside, damaged, Existing::Replace).unwrap();
        drop((file, workspace, store));
        let (_store, workspace) = open_on(process, small()).unwrap();
        assert_eq!(workspace.log().repair().unwrap().steps.len(), 1);
        workspace.close().unwrap();
    });
    assert!(reached > 50, "{reached}");
}

/// Runs a backup once for each of its calls, and `other` before that call; returns how many calls there were.
fn interrupted_everywhere(other: fn(&SimProcess)) -> u64 {
    let base = machine(Profile::Linux).disk().all_synced();
    let step = if quick() { 5 } else { 1 };
    let mut nth = 1;
    loop {
        let machine = SimMachine::from_disk(&base, 6);
        let process = machine.process("copier");
        let (calls, reached) = (AtomicU64::new(0), Arc::new(AtomicU64::new(0)));
        let (for_hook, seen) = (machine.clone(), Arc::clone(&reached));
        let hooked = Hooked::new(Arc::new(process.clone()), move |_, _| {
            if calls.fetch_add(1, Ordering::Relaxed) + 1 == nth {
                seen.store(1, Ordering::Relaxed);
                other(&for_hook.process("other"));
            }
        });
        let before = state(&process, ROOT).unwrap();
        let store = Store::open_on(hooked, Path::new(ROOT), small().read_only(true)).unwrap();
        let report = match store.backup(BACKUP, &CopyOptions::default()) {
            Ok(report) => report,
            // Damage that came and went: it was met by a look, twice, or on the way into the copy.
            Err(e) => panic!("before call {nth}: {e}"),
        };
        let copy = &report.workspaces[0];
        assert!(copy.seq() >= before.0 && report.is_whole(), "before call {nth}: {copy:?}");
        let copied = state(&process, BACKUP).unwrap();
        assert_eq!(copied, (copy.seq(), copy.state_hash), "before call {nth}");
        // The same as the source came to at that event, by a fold of its own; or as it was before it was mended, with all that
        // was lost then.
        let hashes = hashes_at(&process, copy.seq());
        assert!(copied == before || hashes.contains(&copy.state_hash), "before call {nth}");
        assert_eq!(examine(&machine.disk(), BACKUP, copied), Ok(true), "before call {nth}");
        if reached.load(Ordering::Relaxed) == 0 {
            return nth;
        }
        nth += step;
    }
}

/// The state hashes of the source at an event, one for each epoch that began behind it, by a look at all its frames that
/// shares nothing with the backup.
fn hashes_at(process: &SimProcess, seq: Seq) -> Vec<blake3::Hash> {
    let (items, _) = super::simulated::log_of(process).unwrap();
    let all = super::simulated::prefix_hashes(&items);
    all.iter().filter(|((last, _), _)| *last == seq.0).map(|(_, hash)| *hash).collect()
}

/// Two at once into one folder: one makes it, the other is told.
#[test]
fn two_copies_into_one_folder_are_one_and_a_refusal() {
    let base = machine(Profile::Linux).disk().all_synced();
    let (mut lost, mut nth) = (0, 1);
    loop {
        let machine = SimMachine::from_disk(&base, 6);
        let process = machine.process("first");
        let expected = state(&process, ROOT).unwrap();
        let calls = AtomicU64::new(0);
        let second = Arc::new(std::sync::Mutex::new(None));
        let (for_hook, answer) = (machine.clone(), Arc::clone(&second));
        let hooked = Hooked::new(Arc::new(process.clone()), move |_, _| {
            if calls.fetch_add(1, Ordering::Relaxed) + 1 == nth {
                let done = back_up(&for_hook.process("second"), &CopyOptions::default());
                *answer.lock().unwrap() = Some(done.map(|_| ()).map_err(|e| e.code()));
            }
        });
        let store = Store::open_on(hooked, Path::new(ROOT), small().read_only(true)).unwrap();
        let first = store.backup(BACKUP, &CopyOptions::default()).map(|_| ()).map_err(|e| e.code());
        let second = second.lock().unwrap().take();
        match (&first, &second) {
            (Ok(()), None) => break,
            (Ok(()), Some(Err("occupied"))) => {}
            (Err("occupied"), Some(Ok(()))) => lost += 1,
            other => panic!("before call {nth}: {other:?}"),
        }
        assert_eq!(examine(&machine.disk(), BACKUP, expected), Ok(true), "before call {nth}");
        nth += 1;
    }
    assert!(lost > 2 && nth > 50, "{lost} of {nth}");
}

/// A backup that is mended writes into no file of the store, on every system: where an open file is not replaced, it is let go
/// of first.
#[test]
fn repair_of_a_backup_parts_it_from_the_store_on_every_system() {
    let damages: [fn(&SimMachine, &[std::path::PathBuf]); 2] = [
        |machine, all| machine.with_disk(|disk| disk.mutate(all.last().unwrap(), |b| b[40] ^= 1)).unwrap(),
        |machine, all| {
            // What both share is damaged, and the backup has lost all behind it.
            machine.with_disk(|disk| disk.mutate(&all[0], |b| b[700] ^= 1)).unwrap();
            all[1..].iter().for_each(|path| machine.process("somebody").unlink(path).unwrap());
        },
    ];
    for profile in [Profile::Linux, Profile::Mac, Profile::Windows] {
        for damage in damages {
            let machine = machine(profile);
            let process = machine.process("copier");
            let report = back_up(&process, &CopyOptions::default()).unwrap();
            assert!(report.workspaces[0].linked.files > 2);
            let all = segments(&process);
            let log = Path::new(BACKUP).join(all[0].parent().unwrap().strip_prefix(ROOT).unwrap());
            let there: Vec<_> =
                process.list(&log).unwrap().into_iter().map(|entry| log.join(entry.name)).collect();
            damage(&machine, &there);
            let before = below(&machine.disk(), ROOT);
            let (_store, workspace) = at(&process, BACKUP, small()).unwrap();
            let mended = workspace.log().repair().unwrap_or_else(|e| panic!("{profile:?}: {e}"));
            assert!(!mended.steps.is_empty());
            let _ = put(&workspace, Durability::Durable, "after", "it").unwrap();
            assert_eq!(workspace.health().status, Status::Healthy);
            assert!(below(&machine.disk(), ROOT) == before, "the store has changed on {profile:?}");
        }
    }
}

/// Under Windows' rules too a folder gets its name with all its handles closed.
#[test]
fn backup_and_restore_on_every_system() {
    for profile in [Profile::Linux, Profile::Mac, Profile::Windows] {
        let machine = machine(profile);
        let process = machine.process("copier");
        let expected = state(&process, ROOT).unwrap();
        let (_store, _workspace) = open_on(&process, small()).unwrap();
        let report = back_up(&process, &CopyOptions::default()).unwrap();
        assert_eq!(report.workspaces[0].state_hash, expected.1);
        let _ = restore(&process).unwrap();
        assert!(examine(&machine.disk(), RESTORED, expected).unwrap());
        let tree = machine.disk().tree();
        assert!(
            tree.iter().any(|(path, kind, _)| path.ends_with(".dead") && *kind == FileKind::File),
            "{tree:?}"
        );
    }
}
