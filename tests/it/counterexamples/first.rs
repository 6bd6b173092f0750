//! The first series.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use foldlog::log::control_frame::Control;
use foldlog::log::frame::{FrameHeader, FrameKind, encode};
use foldlog::log::segment::SegmentHeader;
use foldlog::log::{LogId, Recovery, control, format};
use foldlog::vfs::sim::{Call, Effect, Fault, Kill, Op, Plan, Profile, Program, Rng, SimMachine};
use foldlog::vfs::{Existing, FileKind, Open, Vfs, write_full};
use foldlog::{Cursor, Durability, ErrorKind, Expect, Key, NewEvent, Seq, State, Status, Vocabulary};

use super::{calls_of, kill_at};
use crate::simulated::{
    Item, NOTE, ROOT, bodies, body, file, last, log_of, machine_with, note, open_on, options, paths, put,
    segments,
};

fn long(text: &str) -> String {
    format!("{text}{}", "-".repeat(400))
}

fn is_write_to_segment(call: &Call) -> bool {
    call.op == Op::Write && call.path.extension().is_some_and(|e| e == "seg")
}

/// After a power cut now: every disk there may be, at most `limit` of them.
fn power_cuts(machine: &SimMachine, limit: usize) -> Vec<SimMachine> {
    machine.disk().crash_states(limit, &mut Rng::new(5)).map(|disk| SimMachine::from_disk(&disk, 6)).collect()
}

/// The one that loses everything un-synced.
fn worst_power_cut(machine: &SimMachine) -> SimMachine {
    machine.kill_all();
    power_cuts(machine, 1).remove(0)
}

fn control_words(machine: &SimMachine, path: &Path, durable: u64) {
    machine
        .with_disk(|disk| {
            disk.mutate(path, |bytes| {
                let log = LogId(bytes[16..32].try_into().unwrap());
                let at = usize::try_from(format::WORD_DURABLE).unwrap();
                bytes[at..at + 8].copy_from_slice(&control::position_word(log, durable).to_le_bytes());
            })
        })
        .unwrap();
}

#[test]
fn preparer_stopped_anywhere_wipes_nothing_when_it_goes_on() {
    // Whoever prepared the next segment was stopped half-way; others took the file into use; then it zeroed their frames.
    let mut rotations = 0;
    for stop in 1..=160 {
        let machine = machine_with(Profile::Linux, stop, &[]);
        let program = |label: &'static str| {
            Program::new(label, move |process| {
                let patient = options().segment_size(4096).lock_timeout(Duration::from_secs(60));
                let (_store, workspace) = open_on(&process, patient).unwrap();
                for n in 0..8 {
                    let _ =
                        put(&workspace, Durability::Durable, label, &long(&format!("{label}{n}"))).unwrap();
                }
            })
        };
        let plan = Plan::new().stall("p", stop, Some(700));
        let run = machine.run(stop, vec![program("p"), program("r")], &plan);
        assert_eq!(run.panics(), [""; 0], "{run}");
        let after = worst_power_cut(&machine);
        let auditor = after.process("auditor");
        let mut found = bodies(&auditor);
        found.sort();
        let mut sent: Vec<_> =
            ["p", "r"].iter().flat_map(|l| (0..8).map(move |n| long(&format!("{l}{n}")))).collect();
        sent.sort();
        assert_eq!(found, sent, "{run}");
        rotations += segments(&auditor).len() - 1;
    }
    assert!(rotations > 160, "{rotations} rotations in 160 runs");
}

#[test]
fn replaced_control_block_makes_no_second_tail() {
    // Somebody deleted the control block; the next one made a new one, and two processes appended at two ends.
    let machine = machine_with(Profile::Linux, 1, &["0"]);
    let (_a_store, a) = open_on(&machine.process("a"), options()).unwrap();
    let _ = put(&a, Durability::Buffered, "a", "1").unwrap();
    let somebody = machine.process("somebody");
    somebody.unlink(&paths(&somebody).control()).unwrap();
    let (_c_store, c) = open_on(&machine.process("c"), options()).unwrap();
    for n in 2..6 {
        let _ = put(if n % 2 == 0 { &c } else { &a }, Durability::Durable, "a", &n.to_string()).unwrap();
    }
    assert_eq!(bodies(&somebody), ["0", "1", "2", "3", "4", "5"]);
    assert_eq!((body(&a, "a"), body(&c, "a")), (Some("5".into()), Some("5".into())));
}

#[test]
fn left_over_of_a_long_frame_is_set_aside_before_a_short_one_is_appended() {
    // A holder died in the middle of a long write; the next one wrote a shorter frame, and its end was rubbish.
    for part in 0..24 {
        let machine = machine_with(Profile::Linux, part, &["before"]);
        kill_at(&machine, &[], Kill::Half, 1, is_write_to_segment, |process| {
            let (_store, workspace) = open_on(&process, options()).unwrap();
            let _ = put(&workspace, Durability::Buffered, "a", &long("unfinished"));
        });
        let (_store, workspace) = open_on(&machine.process("next"), options()).unwrap();
        let _ = put(&workspace, Durability::Durable, "a", "short").unwrap();
        let auditor = machine.process("auditor");
        let (items, walk) = log_of(&auditor).unwrap();
        assert!(walk.is_clean(), "{walk:?}");
        assert_eq!(bodies(&auditor), ["before", "short"]);
        let bytes = file(&auditor, &segments(&auditor)[0]);
        let end = usize::try_from(walk.last().unwrap().summary.end.offset).unwrap();
        assert!(bytes[end..].iter().all(|b| *b == 0), "rubbish behind the end");
        let marks =
            items.iter().filter(|(_, i)| matches!(i, Item::Control(Control::RecoveryMark(_)))).count();
        assert_eq!(marks, 1, "what was cut is told once");
    }
}

#[test]
fn rotation_finished_by_another_syncs_the_sealed_file_first() {
    // Killed between Seal and sync; the next one filled the new header without it. A power cut then took durable events.
    let start = machine_with(Profile::Linux, 1, &[]);
    let rotate = |process| {
        let (_store, workspace) = open_on(&process, options().segment_size(4096)).unwrap();
        for n in 0..11 {
            let _ = put(&workspace, Durability::Buffered, "a", &long(&n.to_string())).unwrap();
        }
    };
    let calls = calls_of(&start, rotate);
    let mut sealed = 0;
    for at in calls / 2..=calls {
        let machine = SimMachine::from_disk(&start.disk(), 1_000 + at);
        let plan = Plan::new().kill("r", at, if at % 2 == 0 { Kill::Before } else { Kill::After });
        let run = machine.run(1, vec![Program::new("r", rotate)], &plan);
        let (_store, workspace) = open_on(&machine.process("next"), options()).unwrap();
        sealed += usize::from(segments(&machine.process("x")).len() > 1);
        let _ = put(&workspace, Durability::Durable, "b", "durable").unwrap();
        let there = bodies(&machine.process("auditor"));
        for after in power_cuts(&machine, 24) {
            let (_store, workspace) = open_on(&after.process("later"), options()).unwrap();
            assert_eq!(workspace.health().status, Status::Healthy, "{run}");
            assert_eq!(bodies(&after.process("auditor")), there, "{run}");
        }
    }
    assert!(sealed > 10, "the kills miss the rotation: {sealed}");
}

#[test]
fn seal_without_its_successor_is_damage_and_makes_no_file() {
    // A Seal whose successor was missing was taken for an unfinished rotation, and an empty segment was made for it.
    let machine = machine_with(Profile::Linux, 1, &[]);
    let (store, workspace) = open_on(&machine.process("w"), options().segment_size(4096)).unwrap();
    for n in 0..12 {
        let _ = put(&workspace, Durability::Durable, "a", &long(&n.to_string())).unwrap();
    }
    workspace.close().unwrap();
    drop(store);
    let somebody = machine.process("somebody");
    let all = segments(&somebody);
    assert_eq!(all.len(), 2);
    somebody.unlink(&all[1]).unwrap();
    let (_store, workspace) = open_on(&machine.process("next"), options()).unwrap();
    let health = workspace.health();
    assert_eq!(health.status, Status::Damaged);
    assert!(health.findings.iter().any(|f| f.code == "missing-segment"), "{health:?}");
    let refused = put(&workspace, Durability::Durable, "a", "no").unwrap_err();
    assert!(matches!(refused.kind(), ErrorKind::Damaged(_)), "{refused}");
    assert_eq!(segments(&somebody), all[..1]);
}

#[test]
fn bad_bit_in_a_seal_cuts_no_live_segment() {
    // No number stands in a Seal, so nothing vouched for it: one bad bit there, and the segments behind it were cut off.
    let machine = machine_with(Profile::Linux, 1, &[]);
    let (store, workspace) = open_on(&machine.process("w"), options().segment_size(4096)).unwrap();
    for n in 0..12 {
        let _ = put(&workspace, Durability::Buffered, "a", &long(&n.to_string())).unwrap();
    }
    machine.kill_all();
    drop((workspace, store));
    let first = segments(&machine.process("x"))[0].clone();
    let bytes = file(&machine.process("x"), &first);
    let seal = bytes.len() - 80;
    for at in seal..bytes.len() {
        let machine = SimMachine::from_disk(&machine.disk(), 2);
        machine.with_disk(|disk| disk.mutate(&first, |b| b[at] ^= 1)).unwrap();
        let before = machine.disk().content_hash();
        let reader = open_on(&machine.process("r"), options().read_only(true)).unwrap().1;
        assert_eq!(reader.health().status, Status::Damaged, "byte {at}");
        assert_eq!(machine.disk().content_hash(), before, "looking writes nothing");
        let (_store, workspace) = open_on(&machine.process("w"), options()).unwrap();
        assert!(put(&workspace, Durability::Durable, "a", "no").is_err(), "byte {at}");
        let auditor = machine.process("auditor");
        assert_eq!(segments(&auditor).len(), 2);
        let mut kept = file(&auditor, &first);
        kept[at] ^= 1;
        assert_eq!(kept, bytes, "byte {at}");
    }
}

#[test]
fn group_cut_short_keeps_the_whole_frames_and_takes_nothing_back() {
    // Three and a half of eight frames landed on a full disk and were read by others; then all eight were taken back.
    let machine = machine_with(Profile::Linux, 1, &["0"]);
    let (_store, workspace) =
        open_on(&machine.process("w"), options().lock_timeout(Duration::from_secs(1 << 30))).unwrap();
    let _ = put(&workspace, Durability::Buffered, "a", "first").unwrap();
    let segment = segments(&machine.process("x"))[0].clone();
    let end = file(&machine.process("x"), &segment).len();
    let _ = put(&workspace, Durability::Buffered, "a", "again").unwrap();
    let frame = file(&machine.process("x"), &segment).len() - end;
    let other = machine.process("other");
    let lock = other.open(&paths(&other).lock(), Open::Lock).unwrap();
    assert!(lock.try_lock().unwrap());
    let (queued, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for n in 0..8 {
            let (workspace, queued, done) = (workspace.clone(), &queued, &done);
            scope.spawn(move || {
                queued.fetch_add(1, Ordering::SeqCst);
                match put(&workspace, Durability::Buffered, "a", &format!("grp-{n}")) {
                    Ok(_) => drop(done.fetch_add(1, Ordering::SeqCst)),
                    Err(e) => assert!(matches!(e.kind(), ErrorKind::NoSpace), "{e}"),
                }
            });
        }
        while queued.load(Ordering::SeqCst) < 8 {
            std::thread::yield_now();
        }
        for _ in 0..2_000 {
            other.sleep(Duration::from_micros(1));
        }
        machine.fault(Fault::on(Op::Write, Effect::Short(3 * frame + frame / 2)).path(".seg"));
        machine.fault(Fault::on(Op::Write, Effect::Fail(std::io::ErrorKind::StorageFull)).path(".seg"));
        lock.unlock().unwrap();
    });
    let done = done.into_inner();
    assert!((3..8).contains(&done), "{done} of 8 stand");
    let (_store, reader) = open_on(&machine.process("reader"), options().read_only(true)).unwrap();
    assert_eq!(last(&reader), Seq(3 + done as u64));
    assert_eq!(put(&workspace, Durability::Durable, "a", "later").unwrap().first, Seq(4 + done as u64));
    assert_eq!(body(&reader, "a"), Some("later".into()));
    let (_, walk) = log_of(&machine.process("auditor")).unwrap();
    assert!(walk.is_clean(), "{walk:?}");
}

#[test]
fn newcomer_does_not_believe_a_sync_over_what_an_earlier_one_lost() {
    // A failed sync was forgotten with its process: the next one's sync succeeded, and vouched for pages never written.
    let machine = machine_with(Profile::Linux, 1, &["0"]);
    let fault = Fault::on(Op::Sync, Effect::DropsPages).path(".seg");
    let is_poison = |call: &Call| call.path.ends_with("POISON") && call.op == Op::Create;
    kill_at(&machine, &[fault], Kill::Before, 1, is_poison, |process| {
        let (_store, workspace) = open_on(&process, options()).unwrap();
        let _ = put(&workspace, Durability::Buffered, "a", "1").unwrap();
        let _ = workspace.flush();
    });
    let (_store, workspace) = open_on(&machine.process("next"), options()).unwrap();
    assert!(put(&workspace, Durability::Durable, "a", "2").unwrap().durable);
    for after in power_cuts(&machine, 40) {
        let (_store, workspace) = open_on(&after.process("later"), options()).unwrap();
        assert_eq!(workspace.health().status, Status::Healthy);
        assert_eq!(bodies(&after.process("auditor")), ["0", "1", "2"]);
    }
}

#[test]
fn sync_beside_a_failing_one_counts_for_nobody() {
    // One process had the error and had not yet said so; another's sync, on the same pages, succeeded and was believed.
    for profile in [Profile::Mac, Profile::Windows, Profile::Linux] {
        let mut poisoned = 0;
        for seed in 0..150 {
            let machine = machine_with(profile, seed, &["0"]);
            machine.fault(Fault::on(Op::Sync, Effect::DropsPages).path(".seg").nth(1 + seed % 5));
            let acks = parking_lot::Mutex::new(Vec::new());
            let program = |label: &'static str| {
                let acks = &acks;
                Program::new(label, move |process| {
                    let (_store, workspace) = open_on(&process, options()).unwrap();
                    for n in 0..3 {
                        let text = format!("{label}{n}");
                        match put(&workspace, Durability::Durable, label, &text) {
                            Ok(_) => acks.lock().push(text),
                            Err(e) => assert!(matches!(e.kind(), ErrorKind::DurabilityLost { .. }), "{e}"),
                        }
                    }
                })
            };
            let run = machine.run(seed, vec![program("a"), program("b")], &Plan::new());
            assert_eq!(run.panics(), [""; 0], "{run}");
            let process = machine.process("x");
            poisoned += usize::from(process.stat(&paths(&process).poison()).is_ok());
            let there = bodies(&worst_power_cut(&machine).process("auditor"));
            for ack in acks.into_inner() {
                assert!(there.contains(&ack), "{profile:?}: {ack} was durable, there are {there:?}; {run}");
            }
        }
        assert!(poisoned > 100, "{profile:?}: {poisoned} of 150 schedules met the fault");
    }
}

#[test]
fn control_block_of_any_contents_changes_no_answer() {
    // Acknowledgements and the verdict on a tail depended on a word: a random or restored one gave durability for nothing.
    let start = machine_with(Profile::Linux, 1, &["0", "1", "2"]);
    let block = paths(&start.process("x")).control();
    let mut rng = Rng::new(3);
    for variant in 0..24 {
        let machine = SimMachine::from_disk(&start.disk(), variant);
        let mut random = vec![0; 4096];
        rng.fill(&mut random);
        match variant {
            0 => machine.process("x").unlink(&block).unwrap(),
            1 => machine.with_disk(|d| d.mutate(&block, |b| b.fill(0))).unwrap(),
            2 => machine.with_disk(|d| d.mutate(&block, |b| b.fill(0xFF))).unwrap(),
            3 => machine.with_disk(|d| d.mutate(&block, |b| b.truncate(100))).unwrap(),
            4..12 => {
                machine.with_disk(|d| d.mutate(&block, |b| b[64..].copy_from_slice(&random[64..]))).unwrap()
            }
            _ => machine.with_disk(|d| d.mutate(&block, |b| b.copy_from_slice(&random))).unwrap(),
        }
        let (_store, workspace) = open_on(&machine.process("w"), options()).unwrap();
        assert_eq!(
            (workspace.health().status, last(&workspace)),
            (Status::Healthy, Seq(3)),
            "variant {variant}"
        );
        for n in 3..6 {
            let syncs = machine.calls(Op::Sync);
            assert!(put(&workspace, Durability::Durable, "a", &n.to_string()).unwrap().durable);
            assert!(machine.calls(Op::Sync) > syncs, "variant {variant}: durable without a sync");
        }
        let after = worst_power_cut(&machine);
        assert_eq!(bodies(&after.process("auditor")), ["0", "1", "2", "3", "4", "5"], "variant {variant}");
    }
}

#[test]
fn log_restored_older_than_its_control_block_is_missing_its_tail() {
    // A backup of the log was put back under a control block that knew better: the next commits returned unsynced.
    let machine = machine_with(Profile::Linux, 1, &["0", "1"]);
    let x = machine.process("x");
    let segment = segments(&x)[0].clone();
    let old = file(&x, &segment);
    let (store, workspace) = open_on(&machine.process("w"), options()).unwrap();
    let _ = put(&workspace, Durability::Durable, "a", "2").unwrap();
    workspace.close().unwrap();
    drop(store);
    machine.with_disk(|disk| disk.mutate(&segment, |b| *b = old.clone())).unwrap();
    let (_store, workspace) = open_on(&machine.process("next"), options()).unwrap();
    let health = workspace.health();
    assert_eq!((health.status, last(&workspace)), (Status::Damaged, Seq(2)));
    assert!(health.findings.iter().any(|f| f.code == "missing-tail"), "{health:?}");
    let refused = put(&workspace, Durability::Durable, "a", "no").unwrap_err();
    assert!(matches!(refused.kind(), ErrorKind::Damaged(_)), "{refused}");
    assert_eq!(file(&x, &segment), old);
    // The same where somebody else's word, which passes its check, claims more than there is, under a living process.
    let machine = machine_with(Profile::Linux, 1, &["0"]);
    let (_store, workspace) = open_on(&machine.process("w"), options()).unwrap();
    control_words(&machine, &paths(&machine.process("x")).control(), 10 << 20);
    assert!(put(&workspace, Durability::Durable, "a", "no").is_err());
    assert_eq!(bodies(&machine.process("auditor")), ["0"]);
}

#[test]
fn boot_id_decides_nothing() {
    // The same boot id after a volume was pulled made every torn tail damage; another one, in a container, reset the block.
    let machine = machine_with(Profile::Linux, 1, &["0"]);
    machine.set_boot_id(Some(7));
    kill_at(&machine, &[], Kill::Half, 1, is_write_to_segment, |process| {
        let (_store, workspace) = open_on(&process, options()).unwrap();
        let _ = put(&workspace, Durability::Durable, "a", &long("torn"));
    });
    for after in power_cuts(&machine, 40) {
        after.set_boot_id(Some(7));
        let (_store, workspace) = open_on(&after.process("next"), options()).unwrap();
        assert_eq!(workspace.health().status, Status::Healthy);
        let _ = put(&workspace, Durability::Durable, "a", "1").unwrap();
        assert_eq!(bodies(&after.process("auditor")), ["0", "1"]);
    }
    let machine = machine_with(Profile::Linux, 1, &["0"]);
    let (_a_store, a) = open_on(&machine.process("host"), options()).unwrap();
    let _ = put(&a, Durability::Durable, "a", "1").unwrap();
    let epochs = a.read(|s| s.epochs().len()).unwrap();
    machine.set_boot_id(Some(99));
    let (_b_store, b) = open_on(&machine.process("container"), options()).unwrap();
    let _ = put(&b, Durability::Durable, "a", "2").unwrap();
    assert_eq!(
        a.read(|s| s.epochs().len()).unwrap(),
        epochs,
        "a live witness is a witness under any boot id"
    );
    // A failed sync is remembered for all of them.
    machine.fault(Fault::on(Op::Sync, Effect::DropsPages).path(".seg"));
    assert!(put(&a, Durability::Durable, "a", "3").is_err());
    machine.set_boot_id(Some(100));
    let refused = put(&b, Durability::Durable, "a", "4").unwrap_err();
    assert!(matches!(refused.kind(), ErrorKind::DurabilityLost { .. }), "{refused}");
}

#[test]
fn starting_session_keeps_its_file_beside_a_cleaner() {
    // The cleaner opened a session's file before its owner had locked it, found it free, and removed a live session.
    for seed in 0..250 {
        let machine = machine_with(Profile::Linux, seed, &[]);
        let starter = |label: &'static str| {
            Program::new(label, move |process| {
                for _ in 0..3 {
                    let (store, _workspace) = open_on(&process, options().label(label)).unwrap();
                    let names = process.list(&Path::new(ROOT).join("sessions")).unwrap();
                    let pid = process.process().pid;
                    let mine = |end: &str| {
                        names.iter().any(|e| e.name.starts_with(&format!("{pid}-")) && e.name.ends_with(end))
                    };
                    assert!(mine(".lock") && !mine(".dead"), "{label} is alive: {names:?}");
                    assert!(
                        store
                            .live_sessions()
                            .unwrap()
                            .iter()
                            .any(|info| info.pid == pid && info.label == label)
                    );
                }
            })
        };
        let cleaner = Program::new("cleaner", |process| {
            for _ in 0..12 {
                foldlog::session::live(
                    &process,
                    &Path::new(ROOT).join("sessions"),
                    foldlog::session::Probe::MarkDead,
                )
                .unwrap();
            }
        });
        let run = machine.run(seed, vec![starter("a"), starter("b"), cleaner], &Plan::new());
        assert_eq!(run.panics(), [""; 0], "{run}");
    }
}

#[test]
fn emptied_folder_of_sessions_is_unknown_and_costs_an_epoch() {
    // Somebody emptied sessions/: every live owner was absent, and absent was taken for dead.
    let machine = machine_with(Profile::Linux, 1, &["0"]);
    let (a_store, a) = open_on(&machine.process("a"), options()).unwrap();
    let _ = put(&a, Durability::Durable, "a", "1").unwrap();
    let epochs = a.read(|s| s.epochs().len()).unwrap();
    let somebody = machine.process("somebody");
    let sessions = Path::new(ROOT).join("sessions");
    for entry in somebody.list(&sessions).unwrap() {
        somebody.unlink(&sessions.join(entry.name)).unwrap();
    }
    let (_b_store, b) = open_on(&machine.process("b"), options()).unwrap();
    let _ = put(&b, Durability::Durable, "a", "2").unwrap();
    assert_eq!(b.read(|s| s.epochs().len()).unwrap(), epochs + 1, "who cannot be found proves nothing");
    let _ = put(&a, Durability::Durable, "a", "3").unwrap();
    assert_eq!(bodies(&somebody), ["0", "1", "2", "3"]);
    assert!(somebody.list(&sessions).unwrap().iter().all(|e| !e.name.ends_with(".dead")), "nobody has died");
    // Its owner, opening again, makes itself known anew.
    let again =
        foldlog::Store::open_on(std::sync::Arc::new(machine.process("a")), Path::new(ROOT), options())
            .unwrap();
    assert!(!again.live_sessions().unwrap().is_empty());
    drop(a_store);
}

#[test]
fn forked_child_neither_uses_nor_frees_what_its_parent_holds() {
    // A forked child that never called foldlog kept the parent's lock; one that did call wrote under it.
    let machine = machine_with(Profile::Linux, 1, &["0"]);
    let parent = machine.process("parent");
    let (store, workspace) = open_on(&parent, options()).unwrap();
    let _ = put(&workspace, Durability::Durable, "a", "1").unwrap();
    let names = || machine.process("x").list(&Path::new(ROOT).join("sessions")).unwrap();
    let before = names();
    parent.become_forked_child();
    let refused = put(&workspace, Durability::Durable, "a", "no").unwrap_err();
    assert!(matches!(refused.kind(), ErrorKind::Forked), "{refused}");
    assert!(workspace.read(State::last).is_err());
    let (child_store, child) = open_on(&parent, options()).unwrap();
    let _ = put(&child, Durability::Durable, "a", "child").unwrap();
    drop((workspace, store));
    let session = &before.iter().find(|e| e.name.ends_with(".lock")).unwrap().name;
    assert!(names().iter().any(|e| e.name == *session), "the parent's session was not the child's to end");
    assert_eq!(child_store.live_sessions().unwrap().len(), 2, "parent and child");
    assert_eq!(bodies(&machine.process("x")), ["0", "1", "child"]);
}

#[test]
fn racing_creators_end_in_one_workspace() {
    // Two processes made the same new workspace; the second META replaced the first, whose frames then were rubbish.
    for seed in 0..300 {
        let machine =
            SimMachine::new([Profile::Linux, Profile::Windows][usize::try_from(seed % 2).unwrap()], seed);
        let acks = parking_lot::Mutex::new(Vec::new());
        let program = |label: &'static str| {
            let acks = &acks;
            Program::new(label, move |process| {
                let (_store, workspace) = open_on(&process, options()).unwrap();
                for n in 0..2 {
                    let text = format!("{label}{n}");
                    let _ = put(&workspace, Durability::Durable, label, &text).unwrap();
                    acks.lock().push(text);
                }
            })
        };
        let mut plan = Plan::new();
        if seed % 3 > 0 {
            plan = plan.kill(
                "b",
                1 + seed * 7 % 120,
                [Kill::Before, Kill::Half, Kill::After][usize::try_from(seed % 3).unwrap()],
            );
        }
        let run = machine.run(seed, vec![program("a"), program("b"), program("c")], &plan);
        assert_eq!(run.panics(), [""; 0], "{run}");
        let auditor = machine.process("auditor");
        let folders = auditor.list(&Path::new(ROOT).join("workspaces")).unwrap();
        assert_eq!(folders.iter().filter(|e| !e.name.starts_with('.')).count(), 1, "{folders:?}; {run}");
        let there = bodies(&auditor);
        for ack in acks.into_inner() {
            assert!(there.contains(&ack), "{ack} of {there:?}; {run}");
        }
    }
}

/// Events 5..10 are seen, stored and lost; then other events take their numbers.
fn rewound(mark_first: bool) -> (SimMachine, Cursor, Cursor) {
    let machine = machine_with(Profile::Linux, 1, &["1", "2", "3"]);
    let (_store, workspace) = open_on(&machine.process("a"), options()).unwrap();
    let fourth = put(&workspace, Durability::Durable, "a", "4").unwrap().cursor;
    if mark_first {
        machine.advance(Duration::from_millis(1_100));
        workspace.tick().unwrap();
    }
    for n in 5..=10 {
        let _ = put(&workspace, Durability::Buffered, "a", &n.to_string()).unwrap();
    }
    let tenth = workspace.read(State::cursor).unwrap();
    assert_eq!(tenth.seq, Seq(10));
    (worst_power_cut(&machine), fourth, tenth)
}

#[test]
fn stored_numbers_of_a_lost_history_match_nothing() {
    // After a power cut numbers 5 to 10 meant other events, and a stored cursor or revision silently matched those.
    for mark_first in [false, true] {
        let (machine, fourth, tenth) = rewound(mark_first);
        let (_store, workspace) = open_on(&machine.process("b"), options()).unwrap();
        assert_eq!(workspace.open_report().seq, Seq(4));
        assert!(
            workspace.open_report().findings.is_empty(),
            "nothing was cut, so nothing shows that they ever were"
        );
        for n in 5..=10 {
            let _ = put(&workspace, Durability::Durable, "a", &format!("new {n}")).unwrap();
        }
        let fifth = Cursor { seq: Seq(5), ..tenth };
        workspace
            .read(|state| {
                assert_eq!(state.resolve(tenth), Err(Seq(4)));
                assert_eq!(
                    state.resolve(fifth),
                    Err(Seq(4)),
                    "the first event of the next epoch is another one too"
                );
                assert_eq!(state.resolve(fourth), Ok(Seq(4)));
                assert_eq!(
                    state.resolve(Cursor { seq: Seq(1), epoch: 12345 }),
                    Err(Seq(0)),
                    "an unknown epoch"
                );
            })
            .unwrap();
        for expected in [Expect::RevisionAt(crate::simulated::revision(10), tenth), Expect::AtMost(tenth)] {
            let error = workspace
                .commit(Durability::Durable, move |_, draft| {
                    draft.expect(Key::task("a"), expected).push(note("a", "no"));
                    Ok(())
                })
                .unwrap_err();
            let ErrorKind::Conflict(conflicts) = error.kind() else { panic!("{error}") };
            assert_eq!(conflicts[0].rewound_to, Some(Seq(4)), "{error}");
        }
    }
}

#[test]
fn event_that_must_be_understood_stops_writing_before_any_closure_runs() {
    // An old process folded past what it did not know, validated on a wrong state and wrote.
    for newer in [NewEvent::state(77, 1, Key::task("n"), "x"), NewEvent::state(NOTE, 2, Key::task("n"), "x")]
    {
        let machine = machine_with(Profile::Linux, 1, &["0"]);
        let (_old_store, old) = open_on(&machine.process("old"), options()).unwrap();
        let _ = put(&old, Durability::Durable, "a", "1").unwrap();
        let vocabulary = Vocabulary::new([(NOTE, 2), (77, 1)]);
        let (_new_store, new) = open_on(&machine.process("new"), options().vocabulary(vocabulary)).unwrap();
        let ignorable = NewEvent::record(88, 9, Key::task("n"), "may be skipped").ignorable();
        let push = |event: NewEvent| {
            new.commit(Durability::Durable, move |_, draft| {
                draft.push(event);
                Ok(())
            })
        };
        let _ = push(ignorable).unwrap();
        let _ = put(&old, Durability::Durable, "a", "2").unwrap();
        let _ = push(newer).unwrap();
        static RAN: AtomicBool = AtomicBool::new(false);
        RAN.store(false, Ordering::SeqCst);
        let refused = old
            .commit(Durability::Buffered, |_, draft| {
                RAN.store(true, Ordering::SeqCst);
                draft.push(note("a", "no"));
                Ok(())
            })
            .unwrap_err();
        assert!(matches!(refused.kind(), ErrorKind::UnknownEvent { seq: Seq(5), .. }), "{refused}");
        assert!(!RAN.load(Ordering::SeqCst), "no closure runs on a state that is not understood");
        assert_eq!(
            (old.health().status, body(&old, "a")),
            (Status::TooNew, Some("2".into())),
            "reading goes on"
        );
        let (_store, fresh) = open_on(&machine.process("old again"), options()).unwrap();
        assert!(put(&fresh, Durability::Buffered, "a", "no").is_err());
        let _ = put(&new, Durability::Durable, "a", "3").unwrap();
        assert_eq!(
            bodies(&machine.process("x")),
            ["0", "1", "may be skipped", "2", "x", "3"],
            "all is carried"
        );
    }
}

#[test]
fn unknown_frames_are_skipped_only_if_they_say_so() {
    // Whether a newer release's frame may be skipped was nowhere said, so it was cut, or everything stopped.
    for (kind, skipped) in [
        (FrameKind(0x8777), true),
        (FrameKind(0xC777), true),
        (FrameKind(0x0777), false),
        (FrameKind(0x4777), false),
    ] {
        let machine = machine_with(Profile::Linux, 1, &["0"]);
        let x = machine.process("x");
        let segment = segments(&x)[0].clone();
        let (_, walk) = log_of(&x).unwrap();
        let walked = walk.last().unwrap();
        let end = walked.summary.end;
        let header = FrameHeader {
            seq: end.seq,
            link: end.link,
            kind,
            count: u16::from(!kind.is_control()),
            durable_lag: format::LAG_NONE,
            writer: 1,
        };
        machine
            .with_disk(|disk| {
                disk.mutate(&segment, |bytes| {
                    bytes.truncate(usize::try_from(end.offset).unwrap());
                    encode(bytes, &walked.header.salt(), &header, b"from the future");
                })
            })
            .unwrap();
        let before = file(&x, &segment);
        let (_store, workspace) = open_on(&machine.process("w"), options()).unwrap();
        let committed = put(&workspace, Durability::Durable, "a", "1");
        if skipped {
            let _ = committed.unwrap();
            assert!(file(&x, &segment).starts_with(&before), "carried as it was");
        } else {
            assert_eq!(workspace.health().status, Status::TooNew, "{kind:?}");
            assert!(matches!(committed.unwrap_err().kind(), ErrorKind::TooNew { .. }));
            assert_eq!(file(&x, &segment), before, "{kind:?}");
        }
    }
}

#[test]
fn store_replaced_underneath_takes_no_write_into_an_orphan() {
    // A sync tool replaced the segment by rename; LOCK was untouched, and commits went on into the unlinked file.
    for durable in [false, true] {
        for target in ["seg", "LOCK"] {
            let machine = machine_with(Profile::Linux, 1, &["0"]);
            let (_store, workspace) = open_on(&machine.process("w"), options()).unwrap();
            let _ = put(&workspace, Durability::Durable, "a", "1").unwrap();
            let x = machine.process("x");
            let path = if target == "seg" { segments(&x)[0].clone() } else { paths(&x).lock() };
            let copy = x.open(&path.with_extension("copy"), Open::Create).unwrap();
            write_full(&*copy, &file(&x, &path), 0).unwrap();
            x.rename(&path.with_extension("copy"), &path, Existing::Replace).unwrap();
            if !durable {
                machine.advance(Duration::from_millis(150));
            }
            let level = if durable { Durability::Durable } else { Durability::Buffered };
            let error = put(&workspace, level, "a", "2").unwrap_err();
            assert!(
                matches!(error.kind(), ErrorKind::StoreReplaced { .. } | ErrorKind::NotDurable { .. }),
                "{target}: {error}"
            );
            let gone = Vec::from([format!("{error}")]);
            assert!(gone[0].contains("replaced"), "{error}");
        }
    }
    // Deleted outright: not one commit more.
    for target in ["seg", "LOCK"] {
        let machine = machine_with(Profile::Linux, 1, &["0"]);
        let (_store, workspace) = open_on(&machine.process("w"), options()).unwrap();
        let _ = put(&workspace, Durability::Durable, "a", "1").unwrap();
        let x = machine.process("x");
        x.unlink(&if target == "seg" { segments(&x)[0].clone() } else { paths(&x).lock() }).unwrap();
        let error = put(&workspace, Durability::Buffered, "a", "2").unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::StoreReplaced { .. }), "{target}: {error}");
    }
}

#[test]
fn windows_frees_a_dead_holders_locks_late_and_keeps_lock_targets_in_place() {
    // Windows promises no bound for freeing a dead process' lock; and LOCK, opened as files are by default, could be deleted.
    let machine = machine_with(Profile::Windows, 1, &["0"]);
    machine.set_lock_linger(40);
    kill_at(&machine, &[], Kill::After, 1, is_write_to_segment, |process| {
        let (_store, workspace) = open_on(&process, options()).unwrap();
        let _ = put(&workspace, Durability::Buffered, "a", "1");
    });
    let (_store, workspace) = open_on(&machine.process("next"), options()).unwrap();
    assert_eq!(put(&workspace, Durability::Durable, "a", "2").unwrap().first, Seq(3));
    let x = machine.process("x");
    assert!(x.unlink(&paths(&x).lock()).is_err(), "a lock target that is open cannot be deleted");
    assert!(x.rename(&paths(&x).lock(), &paths(&x).dir().join("else"), Existing::Keep).is_err());
    // A stuck holder is named by the sessions that live.
    let lock = x.open(&paths(&x).lock(), Open::Lock).unwrap();
    assert!(lock.try_lock().unwrap());
    let (_other_store, other) = open_on(&machine.process("other"), options().label("window 2")).unwrap();
    let busy = put(&workspace, Durability::Buffered, "a", "no").unwrap_err();
    let ErrorKind::Busy { holder, .. } = busy.kind() else { panic!("{busy}") };
    assert!(holder.contains("window 2"), "{busy}");
    drop(other);
}

/// A machine on which a writer was killed in the middle of a frame.
fn torn(seed: u64) -> SimMachine {
    let machine = machine_with(Profile::Linux, seed, &["0"]);
    kill_at(&machine, &[], Kill::Half, 1, is_write_to_segment, |process| {
        let (_store, workspace) = open_on(&process, options()).unwrap();
        let _ = put(&workspace, Durability::Buffered, "a", &long("torn"));
    });
    machine
}

#[test]
fn crash_at_any_call_of_healing_ends_in_one_mark_for_each_note() {
    // Cut, synced, killed: the second run found a clean end, and no mark ever said that something had been cut.
    let start = torn(3);
    let heal = |process| {
        let (_store, workspace) = open_on(&process, options()).unwrap();
        let _ = put(&workspace, Durability::Durable, "a", "1");
    };
    for at in 1..=calls_of(&start, heal) {
        for when in [Kill::Before, Kill::Half, Kill::After] {
            let machine = SimMachine::from_disk(&start.disk(), 1_000 + at);
            let run = machine.run(1, vec![Program::new("h", heal)], &Plan::new().kill("h", at, when));
            let mut machines = power_cuts(&machine, 4);
            machines.push(machine);
            for machine in machines {
                let (_store, workspace) = open_on(&machine.process("next"), options()).unwrap();
                let _ = put(&workspace, Durability::Durable, "a", "2").unwrap();
                let x = machine.process("x");
                let (items, walk) = log_of(&x).unwrap();
                assert!(walk.is_clean(), "{run}");
                let mut named: Vec<String> = items
                    .into_iter()
                    .filter_map(|(_, i)| {
                        if let Item::Control(Control::RecoveryMark(m)) = i { Some(m.note) } else { None }
                    })
                    .collect();
                named.sort();
                let mut notes: Vec<String> =
                    x.list(&paths(&x).quarantine()).unwrap().into_iter().map(|e| e.name).collect();
                notes.retain(|name| name.ends_with(".note") && !name.starts_with('.'));
                assert_eq!(named, notes, "{run}");
            }
        }
    }
}

#[test]
fn full_disk_lets_readers_in_and_cuts_nothing() {
    // With the disk full the copy to quarantine failed: no writer could start, and reading went with it.
    let machine = torn(3);
    machine.set_capacity(Some(machine.used()));
    let x = machine.process("x");
    let segment = segments(&x)[0].clone();
    let before = file(&x, &segment);
    let (_store, reader) = open_on(&machine.process("r"), options().read_only(true)).unwrap();
    assert_eq!(body(&reader, "a"), Some("0".into()));
    machine.set_capacity(Some(machine.used() + 8192));
    let (_store, writer) = open_on(&machine.process("w"), options()).unwrap();
    machine.set_capacity(Some(machine.used()));
    let refused = put(&writer, Durability::Buffered, "a", "no").unwrap_err();
    assert!(matches!(refused.kind(), ErrorKind::NoSpace), "{refused}");
    assert_eq!((file(&x, &segment), body(&writer, "a")), (before, Some("0".into())));
    machine.set_capacity(None);
    let _ = put(&writer, Durability::Durable, "a", "1").unwrap();
    assert_eq!(bodies(&x), ["0", "1"]);
}

#[test]
fn processes_past_the_damage_write_on_and_newcomers_only_read() {
    // A newcomer found damage in an old segment; whether the others, long past it, might go on was nowhere said.
    let machine = machine_with(Profile::Linux, 1, &[]);
    let (_a_store, a) = open_on(&machine.process("a"), options().segment_size(4096)).unwrap();
    for n in 0..12 {
        let _ = put(&a, Durability::Durable, "a", &long(&n.to_string())).unwrap();
    }
    let x = machine.process("x");
    let first = segments(&x)[0].clone();
    machine.with_disk(|disk| disk.mutate(&first, |b| b[700] ^= 4)).unwrap();
    let damaged = file(&x, &first);
    let (_b_store, b) = open_on(&machine.process("b"), options()).unwrap();
    assert_eq!(b.health().status, Status::Damaged);
    assert!(put(&b, Durability::Durable, "b", "no").is_err());
    let strict = open_on(&machine.process("c"), options().recovery(Recovery::Strict)).unwrap_err();
    assert!(matches!(strict.kind(), ErrorKind::Damaged(_)), "{strict}");
    assert_eq!(put(&a, Durability::Durable, "a", "on").unwrap().first, Seq(13));
    let (_d_store, d) = open_on(&machine.process("d"), options().recovery(Recovery::Salvage)).unwrap();
    assert_eq!(body(&d, "a"), Some("on".into()), "what is readable behind the damage can be read");
    assert_eq!(file(&x, &first), damaged, "evidence stays");
}

/// Flips a byte in the body of the n-th frame from the end of the last segment.
fn rot(machine: &SimMachine, from_end: usize) {
    let x = machine.process("x");
    let segment = segments(&x).pop().unwrap();
    let bytes = file(&x, &segment);
    let header = SegmentHeader::decode(&bytes).unwrap();
    let mut starts = Vec::new();
    let summary = foldlog::log::scan::segment(&bytes, &header, &header.salt(), |l| starts.push(l.offset));
    assert!(summary.frames > 0);
    let at = usize::try_from(starts[starts.len() - from_end]).unwrap() + 40;
    machine.with_disk(|disk| disk.mutate(&segment, |b| b[at] ^= 8)).unwrap();
}

#[test]
fn what_is_not_promised_is_exactly_this() {
    // Between an acknowledgement and the next frame nothing in the log vouches for it, and nothing ever said so.
    let level_and_mark =
        [(Durability::Durable, false), (Durability::Buffered, false), (Durability::Buffered, true)];
    for (level, mark) in level_and_mark {
        for control_kept in [true, false] {
            let machine = machine_with(Profile::Linux, 1, &["0"]);
            let (store, workspace) = open_on(&machine.process("w"), options()).unwrap();
            for n in 1..5 {
                let _ = put(&workspace, level, "a", &n.to_string()).unwrap();
            }
            if mark {
                machine.advance(Duration::from_millis(1_100));
                workspace.tick().unwrap();
            }
            machine.kill_all();
            drop((workspace, store));
            // The last commit: the last frame, or the one before the Mark.
            rot(&machine, if mark { 2 } else { 1 });
            let x = machine.process("x");
            if !control_kept {
                x.unlink(&paths(&x).control()).unwrap();
            }
            let (_store, workspace) = open_on(&machine.process("next"), options()).unwrap();
            let damaged = workspace.health().status == Status::Damaged;
            // A Mark vouches for good; without one, the control block's word does, for what was synced.
            assert_eq!(
                damaged,
                mark || (level == Durability::Durable && control_kept),
                "{level:?}, {mark}, {control_kept}"
            );
            if !damaged {
                let kept = x.list(&paths(&x).quarantine()).unwrap();
                assert!(
                    kept.iter().any(|e| e.kind == FileKind::File && e.name.ends_with(".bin")),
                    "what is cut is kept"
                );
                assert_eq!(bodies(&x), ["0", "1", "2", "3"]);
            }
        }
    }
    // Buffered commits that nothing vouches for: one bad bit takes all behind it, to quarantine.
    let machine = machine_with(Profile::Linux, 1, &["0"]);
    let (store, workspace) = open_on(&machine.process("w"), options()).unwrap();
    for n in 1..9 {
        let _ = put(&workspace, Durability::Buffered, "a", &n.to_string()).unwrap();
    }
    machine.kill_all();
    drop((workspace, store));
    rot(&machine, 8);
    let (_store, workspace) = open_on(&machine.process("next"), options()).unwrap();
    assert_eq!((workspace.health().status, body(&workspace, "a")), (Status::Healthy, Some("0".into())));
    let told = workspace.health().findings;
    assert!(told.iter().any(|f| f.code == "healed" && f.severity == foldlog::Severity::Error), "{told:?}");
}
