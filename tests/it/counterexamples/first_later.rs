//! The first series, from 13 on.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use foldlog::log::control_frame::Control;
use foldlog::log::frame::{FrameHeader, FrameKind, encode};
use foldlog::log::segment::SegmentHeader;
use foldlog::log::{Recovery, format};
use foldlog::vfs::sim::{Kill, Plan, Profile, Program, SimMachine};
use foldlog::vfs::{Existing, FileKind, Open, Vfs, write_full};
use foldlog::{Cursor, Durability, ErrorKind, Expect, Key, NewEvent, Seq, State, Status, Vocabulary};

use super::{calls_of, is_write_to_segment, kill_at, long, power_cuts, worst_power_cut};
use crate::simulated::{
    Item, NOTE, ROOT, bodies, body, file, log_of, machine_with, note, open_on, options, paths, put, segments,
};

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
        // Moved aside, the old file is still whole and has its name somewhere; replaced, it has none.
        for (target, aside) in [("seg", false), ("LOCK", false), ("seg", true), ("LOCK", true)] {
            let machine = machine_with(Profile::Linux, 1, &["0"]);
            let (_store, workspace) = open_on(&machine.process("w"), options()).unwrap();
            let _ = put(&workspace, Durability::Durable, "a", "1").unwrap();
            let x = machine.process("x");
            let path = if target == "seg" { segments(&x)[0].clone() } else { paths(&x).lock() };
            let bytes = file(&x, &path);
            if aside {
                x.rename(&path, &path.with_extension("aside"), Existing::Keep).unwrap();
            }
            let copy = x.open(&path.with_extension("copy"), Open::Create).unwrap();
            write_full(&*copy, &bytes, 0).unwrap();
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
