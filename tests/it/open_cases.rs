//! What users of other tools found on their disks, tried on this log: torn and spliced tails, zeros where data was,
//! disks that fill up and come back, syncs that fail, files cut to nothing.
//!
//! What needs real processes is in `process_*.rs` (lock holders that are killed or stopped, inherited descriptors, lock
//! files deleted under contention, read-only mounts). What needs tasks, files, snapshots or the import of older layouts
//! belongs to their parts: damaged snapshots, compaction over damage, legacy files, checkpoints, guarded writes.

use std::path::{Path, PathBuf};
use std::time::Duration;

use foldlog::log::Recovery;
use foldlog::log::segment::SegmentHeader;
use foldlog::vfs::sim::{Effect, Fault, Op, Plan, Profile, Program, SimMachine};
use foldlog::vfs::{Open, Vfs};
use foldlog::{Durability, ErrorKind, Key, OpId, Seq, State, Status};

use crate::simulated::{
    bodies, body, file, last, log_of, machine_with, note, open_on, options, paths, put, segments, store_on,
};

fn segment(machine: &SimMachine) -> PathBuf {
    segments(&machine.process("x")).pop().unwrap()
}

fn change(machine: &SimMachine, path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    machine.with_disk(|disk| disk.mutate(path, change)).unwrap();
}

/// A closed log of buffered commits that nothing vouches for, and where each frame starts; the last offset is the end.
fn unvouched(texts: &[&str]) -> (SimMachine, PathBuf, Vec<usize>) {
    let machine = machine_with(Profile::Linux, 1, &[]);
    let (store, workspace) = open_on(&machine.process("w"), options()).unwrap();
    for text in texts {
        let _ = put(&workspace, Durability::Buffered, "a", text).unwrap();
    }
    machine.kill_all();
    drop((workspace, store));
    let path = segment(&machine);
    let starts = offsets(&machine, &path);
    (machine, path, starts)
}

fn offsets(machine: &SimMachine, path: &Path) -> Vec<usize> {
    let bytes = file(&machine.process("x"), path);
    let header = SegmentHeader::decode(&bytes).unwrap();
    let mut starts = Vec::new();
    let summary = foldlog::log::scan::segment(&bytes, &header, &header.salt(), |l| starts.push(l.offset));
    starts.push(summary.end.offset);
    starts.into_iter().map(|at| usize::try_from(at).unwrap()).collect()
}

/// Opens, commits twice, opens twice more: the given events and those two are there each time, and nothing changes.
fn goes_on(machine: &SimMachine, before: &[&str], what: &str) {
    let (store, workspace) = open_on(&machine.process("w"), options()).unwrap();
    assert_eq!(workspace.health().status, Status::Healthy, "{what}: {:?}", workspace.health());
    let _ = put(&workspace, Durability::Buffered, "a", "C").unwrap();
    let _ = put(&workspace, Durability::Durable, "a", "D").unwrap();
    workspace.close().unwrap();
    drop(store);
    let expected: Vec<&str> = before.iter().copied().chain(["C", "D"]).collect();
    let bytes = file(&machine.process("x"), &segment(machine));
    for _ in 0..2 {
        let (_store, workspace) = open_on(&machine.process("again"), options()).unwrap();
        assert_eq!(
            (bodies(&machine.process("x")), workspace.health().status),
            (expected.iter().map(|s| (*s).to_owned()).collect(), Status::Healthy),
            "{what}"
        );
        assert_eq!(file(&machine.process("x"), &segment(machine)), bytes, "{what}: opening changes nothing");
    }
}

#[test]
fn stub_of_a_record_takes_no_later_record_with_it() {
    // A writer died in the middle of a record; days later the next record was glued to the stub, and both were lost.
    let (machine, path, starts) = unvouched(&["A", "B"]);
    let (b, end) = (starts[starts.len() - 2], starts[starts.len() - 1]);
    let whole = file(&machine.process("x"), &path);
    for cut in b + 1..end {
        let machine = SimMachine::from_disk(&machine.disk(), 2);
        change(&machine, &path, |bytes| bytes.truncate(cut));
        goes_on(&machine, &["A"], &format!("cut at {cut}"));
    }
    for stray in [&[0x41_u8][..], &[0; 1], &[0xFF; 7], b"{\"half\": tr"] {
        let machine = SimMachine::from_disk(&machine.disk(), 2);
        change(&machine, &path, |bytes| bytes.extend_from_slice(stray));
        goes_on(&machine, &["A", "B"], &format!("stray {stray:?}"));
    }
    // A cut record followed by its own whole retry: the stub goes, and nothing is there twice.
    let machine = SimMachine::from_disk(&machine.disk(), 2);
    change(&machine, &path, |bytes| {
        bytes.truncate(b + 24);
        bytes.extend_from_slice(&whole[b..end]);
    });
    goes_on(&machine, &["A"], "prefix and retry");
}

#[test]
fn zeros_where_the_tail_was_cost_only_the_tail() {
    // After a power cut the file was long and full of zeros: "corrupted", "not found", or repaired only if cut short.
    let (start, path, starts) = unvouched(&["A", "B"]);
    for zeros in [1, 7, 8, 31, 32, 33, 511, 512, 1_206, 1_728, 4_096, 8_192] {
        let machine = SimMachine::from_disk(&start.disk(), 2);
        change(&machine, &path, |bytes| bytes.resize(bytes.len() + zeros, 0));
        goes_on(&machine, &["A", "B"], &format!("{zeros} zeros"));
        let machine = SimMachine::from_disk(&start.disk(), 2);
        change(&machine, &path, |bytes| {
            bytes.truncate(starts[starts.len() - 2] + 40);
            bytes.resize(bytes.len() + zeros, 0);
        });
        goes_on(&machine, &["A"], &format!("half a record and {zeros} zeros"));
    }
    // A long record of which single sectors were lost.
    let long = "B".repeat(3_000);
    let (machine, path, starts) = unvouched(&["A", &long]);
    let (b, end) = (starts[starts.len() - 2], starts[starts.len() - 1]);
    for sector in b / 512..=(end - 1) / 512 {
        let machine = SimMachine::from_disk(&machine.disk(), 2);
        let (from, to) = ((sector * 512).max(b), ((sector + 1) * 512).min(end));
        change(&machine, &path, |bytes| bytes[from..to].fill(0));
        if to - from > 8 {
            goes_on(&machine, &["A"], &format!("sector {sector}"));
        }
    }
}

#[test]
fn record_cut_short_by_a_full_disk_is_gone_before_the_next_is_written() {
    // The disk filled in the middle of a record, the process lived on, and 41 hours later the next one was fused to it.
    for bytes in 1..150 {
        let machine = machine_with(Profile::Linux, 1, &["0"]);
        let (_store, workspace) = open_on(&machine.process("w"), options()).unwrap();
        let _ = put(&workspace, Durability::Buffered, "a", "1").unwrap();
        machine.fault(Fault::on(Op::Write, Effect::Short(bytes)).path(".seg"));
        machine.fault(Fault::on(Op::Write, Effect::Fail(std::io::ErrorKind::StorageFull)).path(".seg"));
        let failed = put(&workspace, Durability::Buffered, "a", &"2".repeat(80));
        let landed = failed.is_ok();
        if let Err(e) = failed {
            assert!(matches!(e.kind(), ErrorKind::NoSpace), "{e}");
        }
        machine.clear_faults();
        let next = put(&workspace, Durability::Durable, "a", "3").unwrap();
        assert_eq!(next.first, Seq(3 + u64::from(landed)), "{bytes} bytes");
        let (_, walk) = log_of(&machine.process("x")).unwrap();
        assert!(walk.is_clean() && walk.findings.is_empty(), "{walk:?}");
        assert_eq!(last(&workspace), next.first);
    }
}

#[test]
fn failed_write_leaves_nothing_an_acknowledged_commit_could_hide_behind() {
    // A batch failed half-way, the next was acknowledged with a full sync, and lay unreachable behind the failed one.
    for (effect, times) in [
        (Effect::Eio, 1),
        (Effect::Eio, 2),
        (Effect::Short(50), 1),
        (Effect::DoneButFails, 1),
        (Effect::DoneButFails, 3),
    ] {
        for undo_fails in [false, true] {
            let machine = machine_with(Profile::Linux, 1, &["0"]);
            let (_store, workspace) = open_on(&machine.process("w"), options()).unwrap();
            let _ = put(&workspace, Durability::Buffered, "a", "1").unwrap();
            machine.fault(Fault::on(Op::Write, effect).path(".seg").times(times));
            if undo_fails {
                machine.fault(Fault::on(Op::Write, Effect::Eio).path(".seg").times(2));
                machine.fault(Fault::on(Op::SetLen, Effect::Eio).path(".seg"));
            }
            let second = put(&workspace, Durability::Buffered, "a", "2").is_ok();
            machine.clear_faults();
            let _ = put(&workspace, Durability::Durable, "a", "3").unwrap();
            machine.kill_all();
            let after = SimMachine::from_disk(&machine.disk(), 3);
            let (_store, again) = open_on(&after.process("again"), options()).unwrap();
            let expected: &[&str] = if second { &["0", "1", "2", "3"] } else { &["0", "1", "3"] };
            assert_eq!(bodies(&after.process("x")), expected, "{effect:?} {times} {undo_fails}");
            assert_eq!(again.health().status, Status::Healthy);
        }
    }
}

#[test]
fn bad_byte_in_the_middle_shortens_no_history_in_silence() {
    // One byte was flipped: 24 rows became 6, and the integrity check said that all was well.
    let texts: Vec<String> = (0..24).map(|n| format!("row {n}")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let machine = machine_with(Profile::Linux, 1, &texts);
    let path = segment(&machine);
    let starts = offsets(&machine, &path);
    let bytes = file(&machine.process("x"), &path);
    for at in (starts[0]..starts[starts.len() - 1]).step_by(3) {
        let machine = SimMachine::from_disk(&machine.disk(), 2);
        change(&machine, &path, |b| b[at] ^= 0x10);
        let rotten = file(&machine.process("x"), &path);
        let (_store, workspace) = open_on(&machine.process("w"), options()).unwrap();
        let health = workspace.health();
        assert_eq!(health.status, Status::Damaged, "byte {at}");
        assert!(health.findings.iter().any(|f| f.offset.is_some() && f.file == path), "{health:?}");
        assert!(put(&workspace, Durability::Durable, "a", "no").is_err());
        let (_s, salvaging) =
            open_on(&machine.process("s"), options().read_only(true).recovery(Recovery::Salvage)).unwrap();
        assert!(salvaging.read(State::events).unwrap() >= 23, "byte {at}");
        assert_eq!(file(&machine.process("x"), &path), rotten, "nothing is cut while valid records follow");
        assert_eq!(rotten.len(), bytes.len());
    }
}

#[test]
fn damage_in_an_old_file_costs_no_newer_one() {
    // One bad bit, and the repair threw away everything newer than the damage, later files and all.
    let machine = machine_with(Profile::Linux, 1, &[]);
    let (store, workspace) = open_on(&machine.process("w"), options().segment_size(4096)).unwrap();
    let text = |n: usize| format!("{n}:{}", "x".repeat(500));
    for n in 0..30 {
        let _ = put(&workspace, Durability::Durable, "a", &text(n)).unwrap();
    }
    workspace.close().unwrap();
    drop(store);
    let first = segments(&machine.process("x"))[0].clone();
    let count = segments(&machine.process("x")).len();
    assert!(count >= 4, "{count} segments");
    change(&machine, &first, |b| b[1_500] ^= 1);
    let rotten = file(&machine.process("x"), &first);
    let (_store, workspace) = open_on(&machine.process("repairer"), options()).unwrap();
    let _ = workspace.log().repair().unwrap();
    let there = bodies(&machine.process("x"));
    assert_eq!(there.len(), 29, "one record is lost");
    assert!(there.iter().all(|t| (0..30).any(|n| *t == text(n))));
    let x = machine.process("x");
    let quarantine = paths(&x).quarantine();
    let kept = x.list(&quarantine).unwrap();
    assert!(
        kept.iter().any(|e| file(&x, &quarantine.join(&e.name)) == rotten),
        "copied aside as it was: {kept:?}"
    );
    assert_eq!(put(&workspace, Durability::Durable, "a", "on").unwrap().first, Seq(31));
}

#[test]
fn hole_between_files_is_named_by_its_numbers() {
    // An earlier file was cut at a record's end and replayed as if nothing were missing; an empty last one stopped all.
    let build = || {
        let machine = machine_with(Profile::Linux, 1, &[]);
        let (store, workspace) = open_on(&machine.process("w"), options().segment_size(4096)).unwrap();
        for n in 0..30 {
            let _ = put(&workspace, Durability::Durable, "a", &format!("{n}:{}", "x".repeat(500))).unwrap();
        }
        workspace.close().unwrap();
        drop(store);
        let all = segments(&machine.process("x"));
        (machine, all)
    };
    let (machine, all) = build();
    let cut = offsets(&machine, &all[1])[3];
    let first = SegmentHeader::decode(&file(&machine.process("x"), &all[1])).unwrap().first_seq;
    change(&machine, &all[1], |b| b.truncate(cut));
    let (_store, workspace) = open_on(&machine.process("w"), options()).unwrap();
    let health = workspace.health();
    assert_eq!((health.status, last(&workspace)), (Status::Damaged, Seq(first + 2)));
    assert!(health.findings.iter().any(|f| f.file == all[1] && f.seq == Some(first + 3)), "{health:?}");
    // One that may not be read is an error with its name, never skipped.
    let (machine, all) = build();
    machine.fault(
        Fault::on(Op::Open, Effect::Fail(std::io::ErrorKind::PermissionDenied))
            .path(all[1].to_string_lossy())
            .always(),
    );
    let error = open_on(&machine.process("w"), options()).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Permission) && error.path() == all[1], "{error}");
    // An empty file that a full disk left as the next one.
    let (machine, all) = build();
    let name = all[all.len() - 1].file_name().unwrap().to_string_lossy().into_owned();
    let next = format!("{:010}-{:010}-g0-00000000000000aa.seg", all.len() + 1, all.len() + 1);
    machine.with_disk(|d| d.plant(all[0].with_file_name(&next), b"")).unwrap();
    let (_store, workspace) = open_on(&machine.process("w"), options()).unwrap();
    assert_eq!((workspace.health().status, last(&workspace)), (Status::Healthy, Seq(30)), "{name}");
    let _ = put(&workspace, Durability::Durable, "a", "on").unwrap();
}

#[test]
fn stated_length_is_never_trusted() {
    // A damaged length asked for gigabytes, or swallowed the good records behind it.
    let machine = machine_with(Profile::Linux, 1, &["A", "B", "C"]);
    let path = segment(&machine);
    let starts = offsets(&machine, &path);
    let bytes = file(&machine.process("x"), &path);
    for (i, start) in starts[..starts.len() - 1].iter().enumerate() {
        let len = u32::from_le_bytes(bytes[*start..*start + 4].try_into().unwrap());
        let rest = u32::try_from(bytes.len() - start).unwrap();
        for wrong in [0, 1, len - 1, len + 1, (1 << 31) - 1, u32::MAX, rest + 1, 4 << 20] {
            let machine = SimMachine::from_disk(&machine.disk(), 2);
            change(&machine, &path, |b| b[*start..*start + 4].copy_from_slice(&wrong.to_le_bytes()));
            let (_store, reader) =
                open_on(&machine.process("r"), options().read_only(true).recovery(Recovery::Salvage))
                    .unwrap();
            let known = reader.read(State::events).unwrap();
            assert!(known >= 2, "frame {i} says {wrong}: {known} events");
        }
    }
}

#[test]
fn first_record_that_never_was_leaves_an_empty_log() {
    // The only entry was rolled back, and "empty after repair" was neither new nor recovered.
    let (machine, path, starts) = unvouched(&["first"]);
    for cut in starts[0] + 1..starts[starts.len() - 1] {
        let machine = SimMachine::from_disk(&machine.disk(), 2);
        change(&machine, &path, |bytes| bytes.truncate(cut));
        let (_store, workspace) = open_on(&machine.process("w"), options()).unwrap();
        assert_eq!((last(&workspace), workspace.health().status), (Seq(0), Status::Healthy), "cut at {cut}");
        let healed = workspace.health().findings.iter().filter(|f| f.code == "healed").count();
        assert_eq!(healed, usize::from(!starts.contains(&cut)), "cut at {cut}: one report");
        assert_eq!(put(&workspace, Durability::Durable, "a", "first").unwrap().first, Seq(1));
    }
}

#[test]
fn panic_of_the_host_is_an_unclean_stop_and_nothing_worse() {
    // A panic in the process was taken for a clean shutdown, or recovery itself panicked on every later start.
    let machine = machine_with(Profile::Linux, 1, &["0"]);
    let panicking = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let (_store, workspace) = open_on(&machine.process("w"), options()).unwrap();
        let _ = put(&workspace, Durability::Buffered, "a", "1").unwrap();
        let _ = workspace.commit(Durability::Durable, |_, draft| {
            draft.push(note("a", "never"));
            std::panic::panic_any("the host's own fault")
        });
    }));
    assert!(panicking.is_err());
    goes_on(&machine, &["0", "1"], "after a panic");
}

#[test]
fn opener_leaves_alone_what_another_is_writing() {
    // A second process opened the log, saw half a record that the first was just writing, and cut it off.
    let machine = machine_with(Profile::Linux, 1, &["0"]);
    let writer = machine.process("w");
    let path = segment(&machine);
    let lock = writer.open(&paths(&writer).lock(), Open::Lock).unwrap();
    assert!(lock.try_lock().unwrap());
    let half = writer.open(&path, Open::Write).unwrap();
    let end = half.stat().unwrap().len;
    foldlog::vfs::write_full(&*half, &[0x55; 20], end).unwrap();
    let before = file(&writer, &path);
    for read_only in [true, false] {
        let (_store, workspace) = open_on(&machine.process("other"), options().read_only(read_only)).unwrap();
        assert_eq!(
            body(&workspace, "a"),
            Some("0".into()),
            "an unfinished record is not there yet, and no error"
        );
        assert_ne!(workspace.health().status, Status::Damaged);
        if !read_only {
            let busy = put(&workspace, Durability::Buffered, "a", "no").unwrap_err();
            assert!(matches!(busy.kind(), ErrorKind::Busy { .. }), "{busy}");
        }
        assert_eq!(file(&writer, &path), before);
    }
}

#[test]
fn failed_sync_says_what_is_known_and_a_retry_is_one_event() {
    // The sync failed, memory was rolled back, and the record came back from the disk at the next start.
    let machine = machine_with(Profile::Linux, 1, &["0"]);
    let (store, workspace) = open_on(&machine.process("w"), options()).unwrap();
    let send = |workspace: &foldlog::Workspace| {
        workspace.commit(Durability::Durable, |state, draft| {
            draft.operation(OpId([5; 16]), b"save", state.last()).push(note("a", "1"));
            Ok(())
        })
    };
    machine.fault(Fault::on(Op::Sync, Effect::Eio).path(".seg"));
    let lost = send(&workspace).unwrap_err();
    assert!(matches!(lost.kind(), ErrorKind::DurabilityLost { from: Seq(2) }), "{lost}");
    assert_eq!(body(&workspace, "a"), Some("1".into()), "it stands, and says so");
    // A clean close does not hide it, and removes nothing.
    let closed = workspace.close().unwrap_err();
    assert!(matches!(closed.kind(), ErrorKind::DurabilityLost { .. }), "{closed}");
    drop(store);
    assert_eq!(bodies(&machine.process("x")), ["0", "1"]);
    // The power goes; whether it was there or not, the retry makes it one.
    for disk in machine.disk().crash_states(20, &mut foldlog::vfs::sim::Rng::new(1)) {
        let after = SimMachine::from_disk(&disk, 9);
        let (_store, workspace) = open_on(&after.process("again"), options()).unwrap();
        if workspace.health().status == Status::DurabilityLost {
            continue;
        }
        let receipt = send(&workspace).unwrap();
        assert_eq!((receipt.first, bodies(&after.process("x"))), (Seq(2), vec!["0".into(), "1".into()]));
    }
}

#[test]
fn file_cut_to_nothing_or_zeroed_is_told_apart_from_one_that_never_was() {
    // A zero-length or zero-filled state file stopped every later start, or the store started empty over it.
    let start = machine_with(Profile::Linux, 1, &["0", "1"]);
    let files: Vec<String> = start
        .disk()
        .tree()
        .into_iter()
        .filter(|(_, kind, _)| *kind == foldlog::vfs::FileKind::File)
        .map(|(path, ..)| path)
        .collect();
    assert!(files.len() >= 8, "{files:?}");
    for path in &files {
        for zeroed in [false, true] {
            let machine = SimMachine::from_disk(&start.disk(), 2);
            change(&machine, Path::new(path), |b| if zeroed { b.fill(0) } else { b.clear() });
            let before = machine.disk().content_hash();
            match open_on(&machine.process("w"), options()) {
                Ok((_store, workspace)) => {
                    let health = workspace.health();
                    let healthy = health.status == Status::Healthy;
                    assert_eq!(healthy, !path.ends_with(".seg"), "{path}: {health:?}");
                    assert_eq!(put(&workspace, Durability::Durable, "a", "2").is_ok(), healthy, "{path}");
                    if healthy {
                        assert_eq!(bodies(&machine.process("x")), ["0", "1", "2"], "{path}");
                    }
                }
                Err(e) => {
                    assert!(path.ends_with("META"), "{path}: {e}");
                    assert!(
                        matches!(e.kind(), ErrorKind::Damaged(_) | ErrorKind::Foreign { .. }),
                        "{path}: {e}"
                    );
                    assert_eq!(machine.disk().content_hash(), before, "nothing is made anew over it");
                }
            }
        }
    }
}

#[test]
fn rotation_resumes_by_itself_when_space_is_back() {
    // Rotation failed on a full disk; space was freed, and nothing was written until somebody restarted the service.
    let machine = machine_with(Profile::Linux, 1, &[]);
    let (_store, workspace) = open_on(&machine.process("w"), options().segment_size(4096)).unwrap();
    for n in 0..5 {
        let _ = put(&workspace, Durability::Durable, "a", &format!("{n}{}", "x".repeat(500))).unwrap();
    }
    for call in [Op::Create, Op::Write, Op::Rename] {
        machine.fault(Fault::on(call, Effect::Fail(std::io::ErrorKind::StorageFull)).path(".new-").always());
    }
    for n in 5..12 {
        let _ = put(&workspace, Durability::Durable, "a", &format!("{n}{}", "x".repeat(500))).unwrap();
    }
    assert_eq!(segments(&machine.process("x")).len(), 1, "it grows beyond its size rather than refuse");
    assert!(workspace.health().findings.iter().any(|f| f.code == "not-rotated"));
    machine.clear_faults();
    for n in 12..14 {
        let _ = put(&workspace, Durability::Durable, "a", &format!("{n}{}", "x".repeat(500))).unwrap();
    }
    assert_eq!(segments(&machine.process("x")).len(), 2);
    assert_eq!(bodies(&machine.process("x")).len(), 14);
}

#[test]
fn five_causes_get_five_answers() {
    // One message for every cause, and "not found" for a disk that failed: the store was replaced by an empty one.
    let kinds = [
        (Effect::Fail(std::io::ErrorKind::PermissionDenied), "permission"),
        (Effect::Eio, "io"),
        (Effect::Fail(std::io::ErrorKind::StorageFull), "no-space"),
        (Effect::Fail(std::io::ErrorKind::OutOfMemory), "io"),
    ];
    for (effect, code) in kinds {
        for op in [Op::Open, Op::Read] {
            let machine = machine_with(Profile::Linux, 1, &["0"]);
            let before = machine.disk().content_hash();
            machine.fault(Fault::on(op, effect).path("/store/META").always());
            let error = store_on(&machine.process("w"), options()).unwrap_err();
            assert_eq!(error.code(), code, "{error}");
            assert_eq!(machine.disk().content_hash(), before);
        }
    }
    let machine = SimMachine::new(Profile::Linux, 1);
    let absent = store_on(&machine.process("w"), options().create(false)).unwrap_err();
    assert_eq!(absent.code(), "not-found");
}

#[test]
fn strange_files_beside_the_log_are_neither_data_nor_swept() {
    // Temporary and "conflicted copy" files in the folder were read as data, or removed as leftovers.
    let machine = machine_with(Profile::Linux, 1, &["0"]);
    let path = segment(&machine);
    let bytes = file(&machine.process("x"), &path);
    let names = ["x.tmp", "a.bak", "notes~", ".DS_Store", "desktop.ini", "0000000001 (conflicted copy).seg"];
    for name in names {
        machine.with_disk(|d| d.plant(path.with_file_name(name), &bytes)).unwrap();
    }
    goes_on(&machine, &["0"], "strangers");
    for name in names {
        assert_eq!(file(&machine.process("x"), &path.with_file_name(name)), bytes, "{name}");
    }
}

#[test]
fn wall_clock_decides_nothing() {
    // The clock jumped by hours, or started in 1970 at every boot: an order was scrambled, a file rotated each time.
    let machine = machine_with(Profile::Linux, 1, &["0"]);
    let counts = || {
        (
            segments(&machine.process("x")).len(),
            machine.process("x").list(&paths(&machine.process("x")).quarantine()).unwrap().len(),
        )
    };
    let before = counts();
    for n in 1..30_u64 {
        let (_store, workspace) = open_on(&machine.process("w"), options()).unwrap();
        assert_eq!(put(&workspace, Durability::Durable, "a", &n.to_string()).unwrap().first, Seq(n + 1));
        machine.advance(Duration::from_secs(11 * 3600));
    }
    assert_eq!(counts(), before);
}

#[test]
fn old_handle_that_closes_last_writes_nothing_old() {
    // Two windows; the one opened first and never refreshed closed last, and wrote its old list over the other's.
    let machine = machine_with(Profile::Linux, 1, &[]);
    let (old_store, old) = open_on(&machine.process("old"), options()).unwrap();
    let (_store, new) = open_on(&machine.process("new"), options()).unwrap();
    for n in 1..=10 {
        let _ = put(&new, Durability::Durable, &n.to_string(), &n.to_string()).unwrap();
    }
    let _ = put(&old, Durability::Durable, "11", "11").unwrap();
    old.close().unwrap();
    drop(old_store);
    assert_eq!(new.read(State::keys).unwrap(), 11);
    assert!(new.read(|s| (1..=11).all(|n: u32| s.get(&Key::task(&n.to_string())).is_some())).unwrap());
}

#[test]
fn counter_of_six_writers_counts_every_step() {
    // A lock was taken, but the value had been read before it: 49 of 60 updates vanished.
    for seed in 0..20 {
        let machine = machine_with(Profile::Linux, seed, &[]);
        let programs = (0..6).map(|n| {
            Program::new(format!("w{n}"), |process| {
                let (_store, workspace) =
                    open_on(&process, options().lock_timeout(Duration::from_secs(60))).unwrap();
                for _ in 0..10 {
                    let _ = workspace
                        .commit(Durability::Buffered, |state, draft| {
                            let known = state
                                .get(&Key::task("counter"))
                                .map(|k| String::from_utf8(k.body.to_vec()).unwrap());
                            let value: u32 = known.map_or(0, |v| v.parse().unwrap());
                            draft.push(note("counter", &(value + 1).to_string()));
                            Ok(())
                        })
                        .unwrap();
                }
            })
        });
        let run = machine.run(seed, programs.collect(), &Plan::new());
        assert_eq!(run.panics(), [""; 0], "{run}");
        let (_store, workspace) = open_on(&machine.process("r"), options().read_only(true)).unwrap();
        assert_eq!(body(&workspace, "counter"), Some("60".into()), "{run}");
    }
}
