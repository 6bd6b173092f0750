//! The simulator's own promises, one by one.

use std::collections::{BTreeSet, HashSet};
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use super::*;
use crate::vfs::{Existing, Open, Vfs, VfsFile, write_full};

fn p(path: &str) -> &Path {
    Path::new(path)
}

fn linux() -> (SimMachine, SimProcess) {
    let machine = SimMachine::new(Profile::Linux, 1);
    let process = machine.process("one");
    (machine, process)
}

fn put(process: &SimProcess, path: &str, bytes: &[u8]) -> Box<dyn VfsFile> {
    let file = process.open(p(path), Open::Create).unwrap();
    write_full(file.as_ref(), bytes, 0).unwrap();
    file
}

/// A file that is on the disk, with its name.
fn put_synced(process: &SimProcess, path: &str, bytes: &[u8]) -> Box<dyn VfsFile> {
    let file = put(process, path, bytes);
    file.sync_data().unwrap();
    process.sync_dir(p("/")).unwrap();
    file
}

fn all(disk: &DiskState, model: &CrashModel) -> Vec<DiskState> {
    let states = disk.crash_states_with(model, 1 << 16, &mut Rng::new(7));
    assert!(states.is_exhaustive());
    states.collect()
}

fn kind<T>(result: io::Result<T>) -> Option<ErrorKind> {
    result.err().map(|e| e.kind())
}

fn model() -> CrashModel {
    Profile::Linux.crash_model()
}

// ---- power cuts ----

#[test]
fn hole_with_valid_frames_behind_it_is_a_crash_state() {
    let (machine, process) = linux();
    let zeros = vec![0; 64 << 10];
    let file = put_synced(&process, "/log", &zeros);
    for i in 0..40u8 {
        write_full(file.as_ref(), &[i + 1; 1000], u64::from(i) * 1000).unwrap();
    }
    let hole_then_valid = |disk: DiskState| {
        let bytes = disk.read("/log").unwrap();
        assert_eq!(bytes.len(), zeros.len());
        let whole = |i: u8| bytes[usize::from(i) * 1000..][..1000] == [i + 1; 1000];
        let bad = (0..40).find(|&i| !whole(i)).unwrap_or(40);
        (bad..40).any(whole)
    };
    for model in [model(), model().with_piece(Piece::Page4K)] {
        let states = machine.disk().crash_states_with(&model, 200, &mut Rng::new(1));
        assert!(!states.is_exhaustive());
        let found = states.filter(|s| hole_then_valid(s.clone())).count();
        assert!(found > 50, "{found}");
    }
}

#[test]
fn grown_file_may_be_all_zeros_or_garbage_or_short() {
    let (machine, process) = linux();
    let file = put_synced(&process, "/log", &[1; 100]);
    write_full(file.as_ref(), &[2; 9000], 100).unwrap();
    let states = all(&machine.disk(), &model().with_piece(Piece::Page4K));
    let found: HashSet<Vec<u8>> = states.iter().filter_map(|s| s.read("/log")).collect();
    let mut nul = vec![1; 100];
    nul.resize(9100, 0);
    assert!(found.contains(&nul), "length without contents");
    assert!(found.contains(&vec![1; 100]), "nothing");
    nul.truncate(8192);
    assert!(found.contains(&nul), "a length in between");
    let garbage = model().with_piece(Piece::Page4K).with_fill(Fill::Garbage);
    let strange = |b: &Vec<u8>| b.len() == 9100 && b[8192..].iter().any(|b| *b != 0 && *b != 2);
    assert!(all(&machine.disk(), &garbage).iter().filter_map(|s| s.read("/log")).any(|b| strange(&b)));
    assert!(!found.iter().any(strange));
}

#[test]
fn failed_sync_drops_pages_that_no_later_sync_writes() {
    let (machine, process) = linux();
    let file = put_synced(&process, "/log", &[0; 4096]);
    let other = process.open(p("/log"), Open::Write).unwrap();
    write_full(file.as_ref(), &[1; 4096], 0).unwrap();
    machine.fault(Fault::on(Op::Sync, Effect::DropsPages));
    assert!(file.sync_data().is_err());
    let late = process.open(p("/log"), Open::Write).unwrap();
    file.sync_data().unwrap();
    late.sync_data().unwrap();
    assert!(other.sync_data().is_err(), "told once");
    other.sync_data().unwrap();
    assert_eq!(machine.disk().read("/log").unwrap(), [1; 4096], "still in the page cache");
    for disk in all(&machine.disk(), &model()) {
        assert_eq!(disk.read("/log").unwrap(), [0; 4096], "and nowhere else");
    }
    machine.evict();
    assert_eq!(machine.disk().read("/log").unwrap(), [0; 4096]);
    // Written again, in place, the same bytes reach the disk.
    write_full(late.as_ref(), &[1; 4096], 0).unwrap();
    late.sync_data().unwrap();
    assert_eq!(all(&machine.disk(), &model())[0].read("/log").unwrap(), [1; 4096]);
}

#[test]
fn page_dirtied_again_carries_what_a_failed_sync_dropped() {
    let (machine, process) = linux();
    let file = put_synced(&process, "/log", &[0; 8192]);
    write_full(file.as_ref(), &[1; 8192], 0).unwrap();
    machine.fault(Fault::on(Op::Sync, Effect::DropsPages));
    assert!(file.sync_data().is_err());
    write_full(file.as_ref(), &[2; 10], 0).unwrap();
    machine.evict();
    let cached = machine.disk().read("/log").unwrap();
    assert_eq!((cached[0], cached[10], cached[4095], cached[4096]), (2, 1, 1, 0));
    file.sync_data().unwrap();
    assert_eq!(all(&machine.disk(), &model())[0].read("/log").unwrap(), cached);
}

#[test]
fn failed_sync_is_told_to_one_caller_on_mac() {
    let machine = SimMachine::new(Profile::Mac, 1);
    let process = machine.process("one");
    let file = put_synced(&process, "/log", b"a");
    let other = process.open(p("/log"), Open::Write).unwrap();
    write_full(file.as_ref(), b"b", 0).unwrap();
    machine.fault(Fault::on(Op::Sync, Effect::DropsPages));
    assert!(file.sync_data().is_err());
    other.sync_data().unwrap();
}

#[test]
fn rename_may_be_lost_and_may_come_without_contents() {
    let (machine, process) = linux();
    put_synced(&process, "/head", b"old");
    put(&process, "/head.tmp", b"new");
    process.rename(p("/head.tmp"), p("/head"), Existing::Replace).unwrap();
    let states = all(&machine.disk(), &model());
    let found: BTreeSet<_> = states.iter().map(|s| (s.read("/head"), s.read("/head.tmp"))).collect();
    let b = |s: &str| Some(s.as_bytes().to_vec());
    let wanted = [
        (b("old"), None),
        (b("old"), b("")),
        (b("old"), b("\0\0\0")),
        (b("old"), b("new")),
        (b(""), None),
        (b("\0\0\0"), None),
        (b("new"), None),
    ];
    assert_eq!(found, BTreeSet::from(wanted));
}

#[test]
fn names_of_a_file_keep_their_order_and_different_names_do_not() {
    let (machine, process) = linux();
    put_synced(&process, "/old", b"1");
    put(&process, "/new", b"2").sync_data().unwrap();
    process.unlink(p("/old")).unwrap();
    let has = |order: NameOrder| {
        let states = all(&machine.disk(), &model().with_names(order));
        states.iter().map(|s| (s.read("/old").is_some(), s.read("/new").is_some())).collect::<BTreeSet<_>>()
    };
    assert!(has(NameOrder::Any).contains(&(false, false)), "unlinked before its replacement was there");
    assert!(!has(NameOrder::Folder).contains(&(false, false)));
    assert_eq!(has(NameOrder::Journal), has(NameOrder::Folder));
    process.sync_dir(p("/")).unwrap();
    assert_eq!(has(NameOrder::Any), BTreeSet::from([(false, true)]));
}

#[test]
fn names_in_an_unsynced_folder_go_with_it() {
    let (machine, process) = linux();
    process.create_dir(p("/new")).unwrap();
    let file = put(&process, "/new/a", b"x");
    file.sync_data().unwrap();
    process.sync_dir(p("/new")).unwrap();
    process.rename(p("/new"), p("/final"), Existing::Keep).unwrap();
    let trees: BTreeSet<Vec<String>> = all(&machine.disk(), &model())
        .iter()
        .map(|s| s.tree().into_iter().map(|(path, ..)| path).collect())
        .collect();
    let whole = |top: &str| vec![top.to_owned(), format!("{top}/a")];
    assert_eq!(trees, BTreeSet::from([vec![], whole("/new"), whole("/final")]));
}

/// Two sectors of 512 bytes written once each over synced bytes, the first of them a second time: 3 x 2 contents, one
/// length. One created and then renamed file of no length: none, first name, second name. 3 x 2 x 3 = 18.
#[test]
fn exhaustive_count_is_what_the_hand_counts() {
    let (machine, process) = linux();
    let file = put_synced(&process, "/log", &[9; 1024]);
    write_full(file.as_ref(), &[1; 1024], 0).unwrap();
    write_full(file.as_ref(), &[2; 100], 0).unwrap();
    put(&process, "/a", b"");
    process.rename(p("/a"), p("/b"), Existing::Replace).unwrap();
    let disk = machine.disk();
    let states = disk.crash_states(18, &mut Rng::new(1));
    assert_eq!((states.is_exhaustive(), states.combinations()), (true, Some(18)));
    assert_eq!(states.map(|s| s.content_hash()).collect::<HashSet<_>>().len(), 18);
    let sample = disk.crash_states(17, &mut Rng::new(1));
    assert!(!sample.is_exhaustive());
    assert!((12..=17).contains(&sample.count()));
    // Torn at words, sector 1 has 63 more contents between its two, and sector 0 has 63, and 12 where the second
    // write goes only so far (100 bytes end within the 13th word): (3 + 63 + 12) x (2 + 63) x 3.
    let torn = model().with_torn(Torn::Words);
    let states = disk.crash_states_with(&torn, 1 << 20, &mut Rng::new(1));
    assert_eq!(states.combinations(), Some(78 * 65 * 3));
}

#[test]
fn what_was_synced_is_in_every_crash_state() {
    for seed in 0..20 {
        let mut rng = Rng::new(seed);
        let (machine, process) = linux();
        let file = put_synced(&process, "/log", &[]);
        let (mut end, mut synced) = (0u64, 0u64);
        for _ in 0..40 {
            let len = 1 + rng.index(3000);
            let fill = u8::try_from(rng.below(255)).unwrap() + 1;
            write_full(file.as_ref(), &vec![fill; len], end).unwrap();
            end += len as u64;
            if rng.chance(1, 6) {
                file.sync_data().unwrap();
                synced = end;
            }
        }
        let live = machine.disk().read("/log").unwrap();
        let adversary = CrashModel::adversarial();
        for disk in machine.disk().crash_states_with(&adversary, 300, &mut rng) {
            let bytes = disk.read("/log").unwrap();
            let synced = usize::try_from(synced).unwrap();
            assert_eq!(bytes[..synced], live[..synced], "seed {seed} {}", disk.origin());
            // And a second cut takes nothing that the first one left.
            assert_eq!(disk.crash_states(10, &mut rng).next().unwrap().content_hash(), disk.content_hash());
        }
    }
}

#[test]
fn a_lying_sync_makes_nothing_durable() {
    let (machine, process) = linux();
    let file = put_synced(&process, "/log", b"a");
    write_full(file.as_ref(), b"b", 0).unwrap();
    machine.fault(Fault::on(Op::Sync, Effect::Lies));
    file.sync_data().unwrap();
    assert_eq!(all(&machine.disk(), &model()).len(), 2);
}

#[test]
fn boundaries_show_the_disk_before_each_mutating_call_and_the_marks() {
    let (machine, process) = linux();
    machine.record();
    let file = put(&process, "/log", b"abc");
    machine.mark("written");
    file.sync_data().unwrap();
    let record = machine.take_record();
    let ops: Vec<_> = record.boundaries.iter().map(|b| b.call.as_ref().map(|c| c.op)).collect();
    assert_eq!(ops, [Some(Op::Create), Some(Op::Write), Some(Op::Sync), None]);
    let contents: Vec<_> = record.boundaries.iter().map(|b| b.disk.read("/log")).collect();
    let abc = Some(b"abc".to_vec());
    assert_eq!(contents, [None, Some(vec![]), abc.clone(), abc]);
    assert_eq!(record.marks_at(&record.boundaries[1]), [""; 0]);
    assert_eq!(record.marks_at(&record.boundaries[2]), ["written"]);
}

#[test]
fn boot_changes_with_the_power_and_not_with_a_kill() {
    let (machine, process) = linux();
    let boot = |disk: &DiskState| SimMachine::from_disk(disk, 5).process("x").boot_id();
    let before = process.boot_id();
    assert_eq!(boot(&machine.disk().process_kill()), before);
    assert_ne!(boot(&machine.disk().all_synced()), before);
}

#[test]
fn failed_write_back_is_told_to_descriptors_of_its_time_only() {
    let (machine, process) = linux();
    let file = put_synced(&process, "/log", &[0; 512]);
    write_full(file.as_ref(), &[1; 512], 0).unwrap();
    machine.fail_writeback("/log").unwrap();
    let late = process.open(p("/log"), Open::Write).unwrap();
    late.sync_data().unwrap();
    assert_eq!(all(&machine.disk(), &model())[0].read("/log").unwrap(), [0; 512], "believed, and wrong");
    assert!(file.sync_data().is_err());
    assert!(late.sync_data().is_ok());
}

#[test]
fn length_outlives_a_failed_sync_and_contents_do_not() {
    let (machine, process) = linux();
    let file = put_synced(&process, "/log", b"a");
    write_full(file.as_ref(), b"bc", 1).unwrap();
    machine.fault(Fault::on(Op::Sync, Effect::DropsPages));
    assert!(file.sync_data().is_err());
    let found = |machine: &SimMachine| {
        let states = all(&machine.disk(), &model());
        states.iter().map(|s| s.read("/log").unwrap()).collect::<BTreeSet<_>>()
    };
    assert_eq!(found(&machine), BTreeSet::from([b"a".to_vec(), b"a\0\0".to_vec()]));
    file.sync_data().unwrap();
    assert_eq!(found(&machine), BTreeSet::from([b"a\0\0".to_vec()]));
}

#[test]
fn memory_machine_loses_nothing_keeps_nothing_and_takes_the_hosts_clocks() {
    let (host_machine, host) = linux();
    let machine = SimMachine::memory(std::sync::Arc::new(host.clone()));
    let process = machine.process("store");
    host_machine.advance(Duration::from_secs(5));
    assert!(process.monotonic() >= Duration::from_secs(5));
    assert_eq!(process.process(), host.process());
    assert_eq!(process.boot_id(), host.boot_id());
    let file = put(&process, "/a", &[1; 5000]);
    assert_ne!(file.stat().unwrap().id.device, host_machine.process("x").stat(p("/")).unwrap().id.device);
    let states: Vec<_> = machine.disk().crash_states(10, &mut Rng::new(1)).collect();
    assert_eq!(states.len(), 1);
    assert_eq!(states[0].read("/a").unwrap(), [1; 5000]);
    process.unlink(p("/a")).unwrap();
    drop(file);
    assert_eq!(machine.disk().files().count(), 0);
}

// ---- names, locks, limits ----

#[test]
fn files_that_nothing_can_lead_to_take_no_memory() {
    let (machine, process) = linux();
    for i in 0..20 {
        let name = format!("/{i}");
        let file = put(&process, &name, b"x");
        if i % 2 == 0 {
            process.sync_dir(p("/")).unwrap();
        }
        process.unlink(p(&name)).unwrap();
        if i % 3 == 0 {
            process.sync_dir(p("/")).unwrap();
        }
        drop(file);
    }
    process.sync_dir(p("/")).unwrap();
    assert_eq!(machine.disk().files().count(), 0);
}

#[test]
fn open_handles_survive_unlink_and_rename() {
    let (_machine, process) = linux();
    let file = put(&process, "/a", b"abc");
    process.link(p("/a"), p("/b")).unwrap();
    assert_eq!(file.stat().unwrap().links, 2);
    assert_eq!(process.stat(p("/b")).unwrap().id, file.stat().unwrap().id);
    process.rename(p("/a"), p("/c"), Existing::Keep).unwrap();
    process.unlink(p("/b")).unwrap();
    process.unlink(p("/c")).unwrap();
    assert_eq!(file.stat().unwrap().links, 0);
    let mut buf = [0; 8];
    assert_eq!(file.read_at(&mut buf, 1).unwrap(), 2);
    assert_eq!(kind(process.stat(p("/c"))), Some(ErrorKind::NotFound));
}

#[test]
fn errors_of_names_are_those_of_the_real_system() {
    let (machine, process) = linux();
    put(&process, "/f", b"");
    process.create_dir(p("/d")).unwrap();
    put(&process, "/d/x", b"");
    assert_eq!(kind(process.open(p("/f"), Open::Create)), Some(ErrorKind::AlreadyExists));
    assert_eq!(kind(process.open(p("/d"), Open::Read)), Some(ErrorKind::InvalidInput));
    assert_eq!(kind(process.open(p("/f/x"), Open::Read)), Some(ErrorKind::NotADirectory));
    assert_eq!(kind(process.open(p("/no/x"), Open::Create)), Some(ErrorKind::NotFound));
    assert_eq!(kind(process.remove_dir(p("/d"))), Some(ErrorKind::DirectoryNotEmpty));
    assert_eq!(kind(process.rename(p("/f"), p("/d/x"), Existing::Keep)), Some(ErrorKind::AlreadyExists));
    assert_eq!(kind(process.rename(p("/d"), p("/d/y"), Existing::Keep)), Some(ErrorKind::InvalidInput));
    machine.with_disk(|disk| disk.plant_symlink("/s", "/d")).unwrap();
    assert_eq!(process.canonicalize(p("/s/../s/x")).unwrap(), p("/d/x"));
    assert_eq!(kind(process.open(p("/s"), Open::Read)), Some(ErrorKind::InvalidInput));
    machine.set_read_only(true);
    assert_eq!(kind(process.create_dir(p("/e"))), Some(ErrorKind::ReadOnlyFilesystem));
    assert_eq!(kind(process.open(p("/f"), Open::Write)), Some(ErrorKind::ReadOnlyFilesystem));
    process.open(p("/f"), Open::Read).unwrap();
}

#[test]
fn locks_belong_to_one_open_handle() {
    let (machine, one) = linux();
    let two = machine.process("two");
    put(&one, "/LOCK", b"");
    let a = one.open(p("/LOCK"), Open::Lock).unwrap();
    let b = one.open(p("/LOCK"), Open::Lock).unwrap();
    let c = two.open(p("/LOCK"), Open::Lock).unwrap();
    assert!(a.try_lock().unwrap());
    assert!(!b.try_lock().unwrap() && !c.try_lock().unwrap());
    b.unlock().unwrap();
    assert!(!c.try_lock().unwrap(), "unlocking what one doesn't hold does nothing");
    drop(a);
    assert!(c.try_lock().unwrap());
    machine.kill(&two);
    assert!(b.try_lock().unwrap());
    assert!(c.stat().is_err());
}

#[test]
fn forked_child_shares_handles_and_can_unlock_but_not_free_by_closing() {
    let (machine, one) = linux();
    let two = machine.process("two");
    let a = put(&one, "/LOCK", b"");
    let b = two.open(p("/LOCK"), Open::Lock).unwrap();
    let again = one.open(p("/LOCK"), Open::Lock).unwrap();
    assert!(a.try_lock().unwrap());
    let before = one.process();
    one.become_forked_child();
    let after = one.process();
    assert_eq!((after.domain, after.forks), (before.domain, before.forks + 1));
    assert_ne!(after.pid, before.pid);
    drop(a);
    assert!(!b.try_lock().unwrap(), "the parent has it");
    machine.kill(&one);
    assert!(b.try_lock().unwrap());
    drop(again);
}

#[test]
fn lock_of_a_killed_process_may_linger() {
    let (machine, one) = linux();
    let two = machine.process("two");
    let a = put(&one, "/LOCK", b"");
    let b = two.open(p("/LOCK"), Open::Lock).unwrap();
    machine.set_lock_linger(2);
    assert!(a.try_lock().unwrap());
    machine.kill(&one);
    assert_eq!([(); 3].map(|()| b.try_lock().unwrap()), [false, false, true]);
}

#[test]
fn full_disk_shortens_then_refuses() {
    let (machine, process) = linux();
    machine.set_capacity(Some(8192));
    let file = put(&process, "/log", &[1; 100]);
    assert_eq!(file.write_at(&[2; 10_000], 100).unwrap(), 8092);
    assert_eq!(kind(file.write_at(b"x", 8192)), Some(ErrorKind::StorageFull));
    assert_eq!(file.write_at(b"x", 0).unwrap(), 1, "in place");
    process.unlink(p("/log")).unwrap();
    assert_eq!(machine.used(), 8192, "still open");
    drop(file);
    assert_eq!(machine.used(), 0);
}

#[test]
fn faults_hit_the_call_they_name() {
    let (machine, process) = linux();
    let log = put(&process, "/a.seg", &[0; 100]);
    machine.fault(Fault::on(Op::Write, Effect::Short(3)).path(".seg").nth(2));
    machine.fault(Fault::on(Op::Read, Effect::Eio).covering(50).always());
    assert_eq!(log.write_at(b"hello", 0).unwrap(), 5);
    assert_eq!(put(&process, "/b", b"hello").stat().unwrap().len, 5);
    assert_eq!(log.write_at(b"hello", 0).unwrap(), 3);
    assert_eq!(log.write_at(b"hello", 0).unwrap(), 5);
    let mut buf = [0; 20];
    assert_eq!(log.read_at(&mut buf, 0).unwrap(), 20);
    assert!(log.read_at(&mut buf, 45).is_err());
    machine.clear_faults();
    assert_eq!(log.read_at(&mut buf, 45).unwrap(), 20);
    machine.fault(Fault::on(Op::Unlink, Effect::DoneButFails));
    assert!(process.unlink(p("/b")).is_err());
    assert_eq!(kind(process.stat(p("/b"))), Some(ErrorKind::NotFound));
}

#[test]
fn windows_refuses_what_windows_refuses() {
    let machine = SimMachine::new(Profile::Windows, 1);
    let process = machine.process("one");
    let denied = Some(ErrorKind::PermissionDenied);
    drop(put(&process, "/LOCK", b""));
    let lock = process.open(p("/LOCK"), Open::Lock).unwrap();
    assert_eq!(kind(process.unlink(p("/LOCK"))), denied);
    assert_eq!(kind(process.rename(p("/LOCK"), p("/L"), Existing::Keep)), denied);
    assert!(lock.try_lock().unwrap());
    assert!(!lock.try_lock().unwrap(), "no second time");

    let reader = put(&process, "/head", b"old");
    drop(put(&process, "/head.tmp", b"new"));
    assert_eq!(kind(process.rename(p("/head.tmp"), p("/head"), Existing::Replace)), denied);
    process.unlink(p("/head")).unwrap();
    assert_eq!(process.list(p("/")).unwrap().len(), 3, "the name stays");
    assert_eq!(kind(process.open(p("/head"), Open::Read)), denied);
    assert_eq!(kind(process.open(p("/head"), Open::Create)), Some(ErrorKind::AlreadyExists));
    drop(reader);
    process.rename(p("/head.tmp"), p("/head"), Existing::Keep).unwrap();

    process.create_dir(p("/d")).unwrap();
    let inside = put(&process, "/d/x", b"");
    assert_eq!(kind(process.rename(p("/d"), p("/e"), Existing::Keep)), denied);
    drop(inside);
    process.rename(p("/d"), p("/e"), Existing::Keep).unwrap();
}

#[test]
fn windows_names_survive_in_order_and_by_the_next_sync() {
    let machine = SimMachine::new(Profile::Windows, 1);
    let process = machine.process("one");
    let log = put(&process, "/log", b"");
    for name in ["/a", "/b", "/c"] {
        put(&process, name, b"");
        process.sync_dir(p("/")).unwrap();
    }
    let names = |disk: &DiskState| {
        let states = disk.crash_states(100, &mut Rng::new(1));
        states.map(|s| s.tree().len()).collect::<Vec<_>>()
    };
    assert_eq!(names(&machine.disk()), [0, 1, 2, 3, 4]);
    log.sync_data().unwrap();
    assert_eq!(names(&machine.disk()), [4]);
}

// ---- schedules ----

/// Three processes that take turns under a lock, appending their number.
fn contenders(machine: &SimMachine, seed: u64, plan: &Plan) -> Run {
    let programs = ["a", "b", "c"].map(|label| {
        Program::new(label, move |process: SimProcess| {
            let lock = process.open(p("/LOCK"), Open::Lock).unwrap();
            let log = process.open(p("/log"), Open::Write).unwrap();
            for _ in 0..5 {
                while !lock.try_lock().unwrap() {
                    process.sleep(Duration::from_micros(50));
                }
                let end = log.stat().unwrap().len;
                write_full(log.as_ref(), label.as_bytes(), end).unwrap();
                lock.unlock().unwrap();
            }
        })
    });
    machine.run(seed, programs.into(), plan)
}

fn contended(seed: u64, plan: &Plan) -> (SimMachine, Run) {
    let (machine, process) = linux();
    put(&process, "/LOCK", b"");
    put(&process, "/log", b"");
    let run = contenders(&machine, seed, plan);
    (machine, run)
}

#[test]
fn schedule_follows_from_its_seed() {
    let plan = Plan::new();
    let traces: Vec<_> = (0..8).map(|seed| contended(seed, &plan).1.trace).collect();
    for (seed, trace) in traces.iter().enumerate() {
        assert_eq!(&contended(seed as u64, &plan).1.trace, trace);
    }
    assert_eq!(traces.iter().collect::<HashSet<_>>().len(), 8, "and differs from seed to seed");
    let (machine, run) = contended(3, &plan);
    assert_eq!(run.outcome, Outcome::Done);
    assert_eq!(machine.disk().read("/log").unwrap().len(), 15);
    let mut orders = HashSet::new();
    for seed in 0..50 {
        orders.insert(contended(seed, &plan).0.disk().read("/log").unwrap());
    }
    assert!(orders.len() > 25, "{}", orders.len());
}

#[test]
fn killed_process_has_no_last_words_and_frees_its_lock() {
    struct LastWords<'a>(&'a SimProcess, Box<dyn VfsFile>);
    impl Drop for LastWords<'_> {
        fn drop(&mut self) {
            assert!(write_full(self.1.as_ref(), b"oops", 0).is_err());
            assert!(self.1.unlock().is_err());
            assert!(self.0.unlink(p("/log")).is_err());
        }
    }
    for (when, left) in [(Kill::Before, 0), (Kill::After, 10), (Kill::Half, 1)] {
        let (machine, process) = linux();
        put(&process, "/log", b"");
        let seen = Mutex::new(None);
        let victim = Program::new("victim", |process: SimProcess| {
            let log = process.open(p("/log"), Open::Lock).unwrap();
            assert!(log.try_lock().unwrap());
            let words = LastWords(&process, log);
            write_full(words.1.as_ref(), &[7; 10], 0).unwrap();
            unreachable!("killed at its third call");
        });
        let heir = Program::new("heir", |process: SimProcess| {
            let log = process.open(p("/log"), Open::Lock).unwrap();
            process.sleep(Duration::from_millis(1));
            while !log.try_lock().unwrap() {
                process.sleep(Duration::from_millis(1));
            }
            *seen.lock().unwrap() = Some(process.stat(p("/log")).unwrap().len);
        });
        let plan = Plan::new().kill("victim", 3, when);
        let run = machine.run(4, vec![victim, heir], &plan);
        assert_eq!(run.ends[0].1, End::Killed, "{run}");
        assert_eq!(run.ends[1].1, End::Returned, "{run}");
        // The heir can come first; then it saw nothing yet, but the disk still tells what the victim did.
        assert!(seen.into_inner().unwrap().is_some());
        let len = machine.disk().read("/log").unwrap().len();
        assert!(if when == Kill::Half { (1..10).contains(&len) } else { len == left }, "{when:?} {len}");
    }
}

#[test]
fn successor_starts_when_its_predecessor_is_dead() {
    let (machine, process) = linux();
    drop(put(&process, "/LOCK", b""));
    let hold = |process: SimProcess| {
        let lock = process.open(p("/LOCK"), Open::Lock).unwrap();
        assert!(lock.try_lock().unwrap(), "nobody else is there");
        process.sleep(Duration::from_secs(1));
    };
    let programs = vec![Program::new("second", hold).after("first"), Program::new("first", hold)];
    let run = machine.run(1, programs, &Plan::new().kill("first", 3, Kill::Before));
    assert_eq!(run.ends[0].1, End::Returned, "{run}");
    assert_eq!(run.ends[1].1, End::Killed, "{run}");
    let programs = vec![Program::new("second", hold).after("first"), Program::new("first", hold)];
    let run = machine.run(1, programs, &Plan::new().stall("first", 2, None));
    assert_eq!(run.outcome, Outcome::Stopped);
}

#[test]
fn stalled_process_keeps_its_lock_and_comes_back() {
    let run = contended(1, &Plan::new().stall("a", 5, Some(200))).1;
    assert_eq!(run.outcome, Outcome::Done);
    assert!(run.ends.iter().all(|(_, end)| *end == End::Returned), "{run}");
    // Stopped for good, at times while it holds the lock: then the others wait for ever.
    let stopped = Plan::new().stall("a", 5, None).step_limit(5_000);
    let outcomes: HashSet<_> = (0..20).map(|seed| contended(seed, &stopped).1.outcome).collect();
    assert_eq!(outcomes, HashSet::from([Outcome::Stopped, Outcome::StepLimit]));
}

#[test]
fn power_cut_kills_all_at_once() {
    let (machine, run) = contended(1, &Plan::new().power_cut(20));
    assert_eq!((run.outcome, run.steps), (Outcome::PowerCut, 20));
    assert!(run.ends.iter().all(|(_, end)| *end == End::Killed), "{run}");
    assert!(machine.disk().crash_states(100, &mut Rng::new(1)).count() > 1);
}

#[test]
fn panic_of_a_program_is_reported_not_passed_on() {
    let (machine, _) = linux();
    let run = machine.run(1, vec![Program::new("a", |_| panic!("on purpose"))], &Plan::new());
    assert_eq!(run.panics(), ["on purpose"]);
}

#[test]
fn seeded_plans_reach_every_kind_of_end() {
    let mut outcomes = HashSet::new();
    let mut ends = HashSet::new();
    for seed in 0..40 {
        let plan = Plan::seeded(seed, &["a", "b", "c"], 40);
        let run = contended(seed, &plan).1;
        assert!(run.panics().is_empty(), "{run}");
        outcomes.insert(format!("{:?}", run.outcome));
        ends.extend(run.ends.into_iter().map(|(_, end)| format!("{end:?}")));
    }
    assert!(outcomes.len() >= 2 && ends.len() == 2, "{outcomes:?} {ends:?}");
}

// ---- contents against a plain vector ----

#[test]
fn file_reads_like_a_vector_of_bytes() {
    for seed in 0..30 {
        let mut rng = Rng::new(seed);
        let (machine, process) = linux();
        let file = put(&process, "/f", b"");
        let mut model: Vec<u8> = Vec::new();
        let mut snapshots = Vec::new();
        for _ in 0..200 {
            let at = rng.index(20_000);
            match rng.below(8) {
                0 => {
                    model.resize(at, 0);
                    file.set_len(at as u64).unwrap();
                }
                1 => file.sync_data().unwrap(),
                2 => snapshots.push((machine.disk(), model.clone())),
                _ => {
                    let fill = if rng.chance(1, 3) { 0 } else { u8::try_from(rng.below(256)).unwrap() };
                    let bytes = vec![fill; rng.index(9000)];
                    if !bytes.is_empty() {
                        model.resize(model.len().max(at + bytes.len()), 0);
                        model[at..at + bytes.len()].copy_from_slice(&bytes);
                    }
                    write_full(file.as_ref(), &bytes, at as u64).unwrap();
                }
            }
            assert_eq!(machine.disk().read("/f").unwrap(), model, "seed {seed}");
        }
        file.sync_data().unwrap();
        process.sync_dir(p("/")).unwrap();
        let states = all(&machine.disk(), &CrashModel::adversarial());
        assert_eq!(states.len(), 1, "seed {seed}");
        assert_eq!(states[0].read("/f").unwrap(), model, "seed {seed}");
        for (disk, model) in snapshots {
            assert_eq!(disk.read("/f").unwrap(), model, "snapshots don't change");
        }
    }
}

#[test]
fn file_in_use_is_free_when_its_last_user_is_dead() {
    let (machine, one) = linux();
    let two = machine.process("two");
    put(&one, "/f", b"x");
    let (a, b) = (one.open(p("/f"), Open::InUse).unwrap(), two.open(p("/f"), Open::InUse).unwrap());
    assert!(a.try_lock().unwrap() && b.try_lock().unwrap());
    a.unlock().unwrap();
    let probe = one.open(p("/f"), Open::ProbeLock).unwrap();
    assert!(!probe.try_lock().unwrap(), "the other process uses it");
    machine.kill(&two);
    assert!(probe.try_lock().unwrap() && !a.try_lock().unwrap());
    assert!(a.write_at(b"y", 0).is_err());
}
