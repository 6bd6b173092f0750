//! The first series, up to 11.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use foldlog::log::control_frame::Control;
use foldlog::log::{LogId, control, format};
use foldlog::vfs::sim::{Call, Effect, Fault, Kill, Op, Plan, Profile, Program, Rng, SimMachine};
use foldlog::vfs::{Open, Vfs};
use foldlog::{Durability, ErrorKind, Seq, State, Status};

use super::{calls_of, is_write_to_segment, kill_at, long, power_cuts, worst_power_cut};
use crate::simulated::{
    Item, ROOT, bodies, body, file, last, log_of, machine_with, open_on, options, paths, put, segments,
};

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
    // Who only reads looks once a second whether its block is still the one that the others have.
    machine.advance(Duration::from_secs(1));
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
    // A page that is written again is on the disk after all; this takes pages that are not.
    let several_pages = "1".repeat(20_000);
    let fault = Fault::on(Op::Sync, Effect::DropsPages).path(".seg");
    let is_sync = |call: &Call| call.op == Op::Sync && call.path.extension().is_some_and(|e| e == "seg");
    kill_at(&machine, &[fault], Kill::After, 1, is_sync, |process| {
        let (_store, workspace) = open_on(&process, options()).unwrap();
        let _ = put(&workspace, Durability::Buffered, "a", &several_pages).unwrap();
        let _ = workspace.flush();
    });
    let (_store, workspace) = open_on(&machine.process("next"), options()).unwrap();
    assert!(put(&workspace, Durability::Durable, "a", "2").unwrap().durable);
    for after in power_cuts(&machine, 40) {
        let (_store, workspace) = open_on(&after.process("later"), options()).unwrap();
        assert_eq!(workspace.health().status, Status::Healthy);
        assert_eq!(bodies(&after.process("auditor")), ["0", several_pages.as_str(), "2"]);
    }
}

#[test]
fn sync_beside_a_failing_one_counts_for_nobody() {
    // One process had the error and had not yet said so; another's sync, on the same pages, succeeded and was believed.
    for profile in [Profile::Mac, Profile::Windows, Profile::Linux] {
        let mut recovered = 0;
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
            let (_store, workspace) = open_on(&machine.process("y"), options()).unwrap();
            let _ = put(&workspace, Durability::Durable, "y", "last").unwrap();
            let process = machine.process("x");
            assert!(process.stat(&paths(&process).poison()).is_err(), "the next commit recovers: {run}");
            recovered += usize::from(segments(&process).iter().any(|s| s.to_string_lossy().contains("-g1-")));
            let there = bodies(&worst_power_cut(&machine).process("auditor"));
            for ack in acks.into_inner() {
                assert!(there.contains(&ack), "{profile:?}: {ack} was durable, there are {there:?}; {run}");
            }
        }
        assert!(recovered > 50, "{profile:?}: {recovered} of 150 schedules met the fault");
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
    assert!(put(&b, Durability::Durable, "a", "4").unwrap().durable, "it has copied the log forward");
    assert_eq!(bodies(&worst_power_cut(&machine).process("auditor")), ["0", "1", "2", "3", "4"]);
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
