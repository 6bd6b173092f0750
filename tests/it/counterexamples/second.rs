//! The second series.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use foldlog::log::control_frame::{Control, Seal};
use foldlog::log::envelope::{Commit, Envelope, KeyKind, Preamble};
use foldlog::log::frame::{FrameHeader, FrameKind, Salt, encode};
use foldlog::log::reader::{self, Reach};
use foldlog::log::scan::{Content, Position, Scanner};
use foldlog::log::segment::{SegmentHeader, SegmentState};
use foldlog::log::{Binding, SegmentId, WorkspaceMeta, format};
use foldlog::store::{folder_name, hash, normalise};
use foldlog::vfs::sim::{Effect, Fault, Kill, Op, Plan, Profile, Program, SimMachine, SimProcess};
use foldlog::vfs::{Open, Vfs};
use foldlog::{
    Cursor, Durability, ErrorKind, Key, NewEvent, OpId, Place, Revision, Seq, State, Status, Store,
    Vocabulary,
};

use super::{calls_of, is_write_to_segment, kill_at, long, power_cuts, worst_power_cut};
use crate::simulated::{
    Item, NOTE, ROOT, bodies, body, file, last, log_of, machine_with, note, open_on, options, paths, put,
    segments, store_on,
};

fn epochs(process: &SimProcess) -> usize {
    let (items, _) = log_of(process).unwrap();
    items.iter().filter(|(_, item)| matches!(item, Item::Control(Control::Epoch { .. }))).count()
}

fn change(machine: &SimMachine, path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    machine.with_disk(|disk| disk.mutate(path, change)).unwrap();
}

#[test]
fn two_openers_after_a_power_cut_are_no_proof_for_each_other() {
    // Two windows restarted together, each found the other alive and took that for proof that no power had been lost.
    let machine = machine_with(Profile::Linux, 1, &["1", "2"]);
    kill_at(&machine, &[], Kill::Half, 1, is_write_to_segment, |process| {
        let (_store, workspace) = open_on(&process, options()).unwrap();
        let _ = put(&workspace, Durability::Buffered, "a", &long("torn"));
    });
    for after in power_cuts(&machine, 40) {
        let before = epochs(&after.process("x"));
        let (a_store, a) = open_on(&after.process("a"), options()).unwrap();
        let (_b_store, b) = open_on(&after.process("b"), options()).unwrap();
        assert_eq!((a.health().status, b.health().status), (Status::Healthy, Status::Healthy));
        let old = Cursor { seq: Seq(3), ..a.read(State::cursor).unwrap() };
        let third = put(&b, Durability::Durable, "a", "3'").unwrap();
        let _ = put(&a, Durability::Durable, "a", "4'").unwrap();
        assert_eq!(third.first, Seq(3));
        assert_eq!(epochs(&after.process("x")), before + 1, "one new history, whoever is first");
        if old.epoch != third.cursor.epoch {
            assert_eq!(a.read(|s| s.resolve(old)).unwrap(), Err(Seq(2)), "3 is not 3'");
        }
        drop(a_store);
    }
    // A session that has only opened the store says nothing about this workspace.
    let machine = machine_with(Profile::Linux, 1, &["1"]);
    let before = epochs(&machine.process("x"));
    let (_idle_store, _idle) = open_on(&machine.process("idle"), options()).unwrap();
    let (_w_store, w) = open_on(&machine.process("w"), options()).unwrap();
    let _ = put(&w, Durability::Durable, "a", "2").unwrap();
    assert_eq!(epochs(&machine.process("x")), before + 1);
}

/// The frames of a segment, for writing them elsewhere: header, body.
fn frames(bytes: &[u8]) -> (SegmentHeader, Vec<(FrameHeader, Vec<u8>)>) {
    let header = SegmentHeader::decode(bytes).unwrap();
    let salt = header.salt();
    let mut scanner = Scanner::new(bytes, 0, &salt, header.max_body, Position::start_of(&header));
    let mut frames = Vec::new();
    while let Ok(located) = scanner.next_frame() {
        frames.push((located.frame.header, located.frame.body.to_vec()));
    }
    (header, frames)
}

#[test]
fn rewritten_segments_answer_for_the_first_they_replace() {
    // Rewritten files had new ids: a reader coming over the Seal before them found nothing, on a healthy store.
    let machine = machine_with(Profile::Linux, 1, &[]);
    let small = || options().segment_size(4096);
    let (_store, writer) = open_on(&machine.process("w"), small()).unwrap();
    let (_r_store, behind) = open_on(&machine.process("r"), small().read_only(true)).unwrap();
    assert_eq!(last(&behind), Seq(0));
    for n in 0..45 {
        let _ = put(&writer, Durability::Durable, "a", &long(&n.to_string())).unwrap();
    }
    let x = machine.process("x");
    let all = segments(&x);
    assert!(all.len() >= 5, "{all:?}");
    let ((first, mut content), (second, more)) = (frames(&file(&x, &all[1])), frames(&file(&x, &all[2])));
    let (seal, _) = (content.pop().unwrap(), assert_eq!(more.last().unwrap().0.kind, FrameKind::SEAL));
    assert_eq!(seal.0.kind, FrameKind::SEAL);
    content.extend(more);
    let merged = SegmentHeader {
        generation: 1,
        segment_id: SegmentId(0xABCD),
        stands_for: first.segment_id,
        ordinal_b: second.ordinal_b,
        ..first
    };
    let mut bytes = merged.encode().to_vec();
    let mut link = merged.prev_last_crc;
    for (header, mut body) in content {
        if header.kind == FrameKind::SEAL {
            let Some(Control::Seal(seal)) = Control::decode(header.kind, header.seq, &body) else { panic!() };
            let successor = SegmentHeader::decode(&file(&x, &all[3])).unwrap();
            let known = Seal { last_crc: successor.prev_last_crc, ..seal };
            body.clear();
            Control::Seal(known).encode(&mut body);
        }
        link = encode(&mut bytes, &merged.salt(), &FrameHeader { link, ..header }, &body);
    }
    let there = bodies(&x);
    let path = paths(&x).segment(&merged.file_name());
    machine.with_disk(|d| d.plant(path, &bytes)).unwrap();
    for old in &all[1..3] {
        x.unlink(old).unwrap();
    }
    assert_eq!(bodies(&x), there);
    assert_eq!(last(&behind), Seq(45), "a reader that stood before it passes through");
    let (_n_store, newcomer) = open_on(&machine.process("n"), small()).unwrap();
    assert_eq!(newcomer.health().status, Status::Healthy);
    for workspace in [&newcomer, &writer] {
        let _ = put(workspace, Durability::Durable, "a", "on").unwrap();
    }
    assert_eq!(newcomer.read(State::hash).unwrap(), writer.read(State::hash).unwrap());
    assert_eq!(behind.read(State::hash).unwrap(), writer.read(State::hash).unwrap());
}

#[test]
fn look_without_the_lock_invents_no_damage() {
    // verify read to the end, writers went on and synced, verify read the durable word: damage, on a healthy log.
    let mut looks = 0;
    for seed in 0..200 {
        let machine = machine_with(
            [Profile::Linux, Profile::Windows][usize::try_from(seed % 2).unwrap()],
            seed,
            &["0"],
        );
        let writer = |label: &'static str| {
            Program::new(label, move |process| {
                let (_store, workspace) = open_on(&process, options().segment_size(4096)).unwrap();
                for n in 0..8 {
                    let _ = put(&workspace, Durability::Durable, label, &long(&n.to_string())).unwrap();
                }
            })
        };
        let looked = std::sync::atomic::AtomicU64::new(0);
        let verify = Program::new("verify", |process| {
            for _ in 0..6 {
                match log_of(&process) {
                    Ok((_, walk)) => assert_eq!(walk.damage, None),
                    Err(e) => assert!(matches!(e.kind(), ErrorKind::NotYet), "{e}"),
                }
                let (_store, workspace) = open_on(&process, options().read_only(true)).unwrap();
                assert_eq!(workspace.health().status, Status::ReadOnly);
                looked.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            }
        });
        let run = machine.run(seed, vec![writer("a"), writer("b"), verify], &Plan::new());
        assert_eq!(run.panics(), [""; 0], "{run}");
        looks += looked.into_inner();
    }
    assert_eq!(looks, 1_200);
}

#[test]
fn read_that_fails_is_an_error_with_its_place_and_no_verdict() {
    // A failing read was taken for an invalid frame, and the good data behind it was cut.
    let machine = machine_with(Profile::Linux, 1, &["0", "1", "2"]);
    let segment = segments(&machine.process("x"))[0].clone();
    let before = file(&machine.process("x"), &segment);
    for effect in [Effect::Eio, Effect::Fail(std::io::ErrorKind::PermissionDenied)] {
        for read_only in [true, false] {
            for nth in 1..=3 {
                machine.fault(Fault::on(Op::Read, effect).path(".seg").nth(nth));
                match open_on(&machine.process("w"), options().read_only(read_only)) {
                    Ok((_store, workspace)) => {
                        if let Err(e) = put(&workspace, Durability::Buffered, "a", "no") {
                            assert!(
                                matches!(
                                    e.kind(),
                                    ErrorKind::Io | ErrorKind::Permission | ErrorKind::ReadOnly { .. }
                                ),
                                "{e}"
                            );
                        }
                    }
                    Err(e) => {
                        assert!(matches!(e.kind(), ErrorKind::Io | ErrorKind::Permission), "{e}");
                        assert_eq!(e.path(), segment, "{e}");
                    }
                }
                machine.clear_faults();
                assert!(file(&machine.process("x"), &segment).starts_with(&before));
            }
        }
    }
    let (_store, workspace) = open_on(&machine.process("w"), options()).unwrap();
    assert_eq!(workspace.health().status, Status::Healthy);
}

#[test]
fn envelope_carries_what_later_parts_rest_on() {
    // Blob references stood in bodies that an old process cannot read, and the op id on an event that might go.
    let machine = machine_with(Profile::Linux, 1, &[]);
    let newer = options().vocabulary(Vocabulary::new([(900, 3)]));
    let (_store, workspace) = open_on(&machine.process("new"), newer).unwrap();
    let blobs = workspace.put_blobs(&[b"seven", b"nine"]).unwrap();
    let names: Vec<u8> = blobs.iter().flat_map(|blob| blob.0).collect();
    let event = NewEvent::state(900, 3, Key::document("plan"), "opaque").ignorable().blobs(blobs);
    let task = NewEvent::state(900, 3, Key::task("plan"), "another thing of the same name");
    let _ = workspace
        .commit(Durability::Durable, move |state, draft| {
            draft.operation(OpId([3; 16]), b"request", state.last()).push(event).push(task);
            Ok(())
        })
        .unwrap();
    let x = machine.process("x");
    let meta = WorkspaceMeta::decode(&file(&x, &paths(&x).meta())).unwrap();
    let mut commits = 0;
    let _ = reader::walk(&x, &paths(&x), meta.log_id, None, Reach::Intact, &mut |visit| {
        let Content::Commit(commit) = &visit.located.content else { return };
        commits += 1;
        let operation = commit.preamble.operation.unwrap();
        assert_eq!((operation.op_id, operation.seen), (OpId([3; 16]), Seq(0)));
        assert_ne!(commit.preamble.session, 0, "who it was can be told");
        let events: Vec<_> = commit.events().collect();
        assert_eq!(events[0].blobs, names);
        assert_eq!((events[0].ignorable, events[1].ignorable), (true, false));
        assert_ne!(events[0].to_key(), events[1].to_key());
    })
    .unwrap();
    assert_eq!(commits, 1);
}

#[test]
fn commit_that_fits_no_frame_is_refused_before_anything_is_written() {
    // A record within all limits made a frame over max_body; one developer raised the limit, another split the commit.
    let machine = machine_with(Profile::Linux, 1, &["0"]);
    let (_store, workspace) = open_on(&machine.process("w"), options()).unwrap();
    let segment = segments(&machine.process("x"))[0].clone();
    let before = file(&machine.process("x"), &segment);
    for (events, size) in [(100, 60 << 10), (4_097, 1), (1, (4 << 20) - 60)] {
        let refused = workspace
            .commit(Durability::Durable, move |_, draft| {
                for _ in 0..events {
                    draft.push(note("a", &"x".repeat(size)));
                }
                Ok(())
            })
            .unwrap_err();
        assert!(matches!(refused.kind(), ErrorKind::TooLarge { .. }), "{refused}");
    }
    assert_eq!(file(&machine.process("x"), &segment), before, "nothing was written");
    let largest = (4 << 20) - 57 - 19 - 1;
    let _ = put(&workspace, Durability::Durable, "a", &"x".repeat(largest)).unwrap();
    assert_eq!(bodies(&machine.process("x"))[1].len(), largest);
}

fn envelope(seq: u64, kind: u16, body: &[u8]) -> Vec<u8> {
    let (key_kind, key) = if kind == NOTE { (KeyKind::TASK, "a") } else { (KeyKind::NONE, "") };
    let mut out = Vec::new();
    Envelope {
        seq: Seq(seq),
        takes: 1,
        kind,
        version: 1,
        ignorable: false,
        key_kind,
        key,
        revision: Revision(u64::from(kind == NOTE)),
        blobs: &[],
        body,
    }
    .encode(&mut out);
    out
}

#[test]
fn elided_runs_and_gaps_take_the_numbers_they_say() {
    // A run of 10,000 numbers had no place in a count, and a Gap's numbers made the repaired file look corrupt.
    let machine = machine_with(Profile::Linux, 1, &[]);
    let x = machine.process("x");
    let segment = segments(&x)[0].clone();
    let (header, _) = frames(&file(&x, &segment));
    let mut bytes = header.encode().to_vec();
    let mut at = Position::start_of(&header);
    let salt: Salt = header.salt();
    let mut frame = |kind: FrameKind, count: u16, takes: u64, body: &[u8]| {
        let head =
            FrameHeader { seq: at.seq, link: at.link, kind, count, durable_lag: format::LAG_NONE, writer: 1 };
        at.link = encode(&mut bytes, &salt, &head, body);
        at.seq += takes;
    };
    let commit = |seq: u64, events: &[(u16, Vec<u8>)]| {
        let mut body = Vec::new();
        Preamble::default().encode(&mut body);
        events.iter().for_each(|(kind, event)| body.extend(envelope(seq, *kind, event)));
        body
    };
    let elided = |n: u16| (format::EVENT_ELIDED, n.to_le_bytes().to_vec());
    // 1 was dropped, 2 stays, 3 to 5 were dropped: "2 events" that take five numbers.
    frame(FrameKind::COMMIT, 5, 5, &commit(1, &[elided(1), (NOTE, b"two".to_vec()), elided(3)]));
    frame(FrameKind::COMMIT, 4_096, 4_096, &commit(6, &[elided(4_096)]));
    frame(FrameKind::COMMIT, 100, 100, &commit(4_102, &[elided(100)]));
    let mut gap = Vec::new();
    Control::Gap { from: 4_202, to: 9_999 }.encode(&mut gap);
    frame(FrameKind::GAP, 0, 9_999 - 4_202 + 1, &gap);
    frame(FrameKind::COMMIT, 1, 1, &commit(10_000, &[(NOTE, b"behind".to_vec())]));
    change(&machine, &segment, |b| *b = bytes);
    let (_store, workspace) = open_on(&machine.process("w"), options()).unwrap();
    assert_eq!((workspace.health().status, last(&workspace)), (Status::Healthy, Seq(10_000)));
    workspace
        .read(|state| {
            assert_eq!(state.gaps(), [(Seq(4_202), Seq(9_999))]);
            assert_eq!(state.events(), 2);
        })
        .unwrap();
    assert_eq!(put(&workspace, Durability::Durable, "a", "next").unwrap().first, Seq(10_001));
    // One number more than the frame says, or less, is no frame of ours.
    assert!(Commit::decode(1, 6, &commit(1, &[elided(5)])).is_err());
    assert!(Commit::decode(1, 4, &commit(1, &[elided(5)])).is_err());
}

#[test]
fn repair_writes_over_nothing_valid_and_gives_no_number_out_again() {
    // "Rotate" put the Seal where the damage began, over whole frames; and lost numbers came back under old cursors.
    let machine = machine_with(Profile::Linux, 1, &["1", "2", "3"]);
    let (store, workspace) = open_on(&machine.process("w"), options()).unwrap();
    for n in 4..=8 {
        let _ = put(&workspace, Durability::Durable, "a", &n.to_string()).unwrap();
    }
    let eighth = workspace.read(State::cursor).unwrap();
    workspace.close().unwrap();
    drop(store);
    let x = machine.process("x");
    let segment = segments(&x)[0].clone();
    let bytes = file(&x, &segment);
    let at = bytes
        .windows(8)
        .position(|w| w == b"\x01\0\0\x003\0\0\0" || w[..6] == *b"\x01\0\0\x003\0")
        .map(|p| p + 4);
    let at = at.expect("the body of event 3 is found");
    change(&machine, &segment, |b| b[at] ^= 1);
    let (_store, workspace) = open_on(&machine.process("repairer"), options()).unwrap();
    assert_eq!(workspace.health().status, Status::Damaged);
    let report = workspace.log().repair().unwrap();
    assert_eq!(report.steps.len(), 1, "{report:?}");
    assert_eq!(bodies(&x), ["1", "2", "4", "5", "6", "7", "8"]);
    assert_eq!(workspace.read(|s| s.gaps().to_vec()).unwrap(), [(Seq(3), Seq(3))]);
    assert_eq!(put(&workspace, Durability::Durable, "a", "9").unwrap().first, Seq(9));
    assert_eq!(workspace.read(|s| s.resolve(eighth)).unwrap(), Ok(Seq(8)), "8 is still 8");
    // The whole tail is gone: its numbers stay gone.
    let machine = machine_with(Profile::Linux, 1, &["1", "2", "3", "4"]);
    let (_store, workspace) = open_on(&machine.process("r"), options().read_only(true)).unwrap();
    let fourth = workspace.read(State::cursor).unwrap();
    let x = machine.process("x");
    let segment = segments(&x)[0].clone();
    let (header, _) = frames(&file(&x, &segment));
    let bytes = file(&x, &segment);
    let mut ends = Vec::new();
    let _ = foldlog::log::scan::segment(&bytes, &header, &header.salt(), |l| {
        ends.push(usize::try_from(l.offset).unwrap() + l.frame.len());
    });
    change(&machine, &segment, |b| b.truncate(ends[2]));
    let (_store, workspace) = open_on(&machine.process("repairer"), options()).unwrap();
    assert_eq!((workspace.health().status, last(&workspace)), (Status::Damaged, Seq(2)));
    let report = workspace.log().repair().unwrap();
    assert_eq!(report.steps.len(), 1, "{report:?}");
    let next = put(&workspace, Durability::Durable, "a", "next").unwrap().first;
    assert!(next > Seq(4), "{next} was given out before");
    assert!(workspace.read(|s| s.get(&Key::task("a")).is_some()).unwrap());
    let resolved = workspace.read(|s| s.resolve(fourth)).unwrap();
    assert!(
        resolved.is_err() || workspace.read(|s| s.gaps().to_vec()).unwrap()[0].0 == Seq(3),
        "{resolved:?}"
    );
}

#[test]
fn store_comes_into_being_where_a_folder_stands_and_is_finished_by_the_next() {
    // An existing empty folder, a mount point, a second try: each made a rename fail, and a half-made store was damaged.
    let ready = |process: SimProcess| {
        let (_store, workspace) = open_on(&process, options()).unwrap();
        let _ = put(&workspace, Durability::Durable, "a", "1").unwrap();
    };
    for lost_and_found in [false, true] {
        let machine = SimMachine::new(Profile::Linux, 1);
        let process = machine.process("user");
        process.create_dir(Path::new(ROOT)).unwrap();
        if lost_and_found {
            process.create_dir(&Path::new(ROOT).join("lost+found")).unwrap();
        }
        ready(machine.process("w"));
        assert_eq!(bodies(&process), ["1"]);
    }
    for profile in [Profile::Linux, Profile::Windows] {
        let start = SimMachine::new(profile, 1);
        let calls = calls_of(&start, ready);
        for at in 1..=calls {
            let machine = SimMachine::new(profile, 1_000 + at);
            let when = [Kill::Before, Kill::Half, Kill::After][usize::try_from(at % 3).unwrap()];
            let run =
                machine.run(1, vec![Program::new("founder", ready)], &Plan::new().kill("founder", at, when));
            let mut machines = power_cuts(&machine, 6);
            machines.push(machine);
            for machine in machines {
                ready(machine.process("next"));
                let there = bodies(&machine.process("x"));
                assert_eq!(there.last().map(String::as_str), Some("1"), "{run}");
            }
        }
    }
    // Whatever else stands there is somebody else's.
    let machine = SimMachine::new(Profile::Linux, 1);
    machine.with_disk(|d| d.plant(format!("{ROOT}/thesis.txt"), b"forty thousand words")).unwrap();
    let before = machine.disk().content_hash();
    let refused = store_on(&machine.process("w"), options()).unwrap_err();
    assert!(matches!(refused.kind(), ErrorKind::Foreign { .. }), "{refused}");
    assert_eq!(machine.disk().content_hash(), before);
}

#[test]
fn hard_links_to_a_stores_files_stop_nobody() {
    // "The link count must be 1": a hard-linking backup, and every commit answered that the store had been replaced.
    let machine = machine_with(Profile::Linux, 1, &["0"]);
    let x = machine.process("backup");
    let copy = Path::new("/backup");
    x.create_dir(copy).unwrap();
    x.link(&segments(&x)[0], &copy.join("1.seg")).unwrap();
    x.link(&paths(&x).lock(), &copy.join("LOCK")).unwrap();
    let (_store, workspace) = open_on(&machine.process("w"), options()).unwrap();
    for level in [Durability::Buffered, Durability::Durable] {
        machine.advance(Duration::from_millis(200));
        let _ = put(&workspace, level, "a", "1").unwrap();
    }
    assert_eq!(bodies(&x), ["0", "1", "1"]);
}

#[test]
fn newer_format_arrives_with_a_rotation_and_is_left_alone() {
    // META was looked at by nobody after open, so an upgrade was met by chance; and what it wrote might be overwritten.
    for (ro, incompat) in [(0, 1 << 20), (1 << 20, 0)] {
        let machine = machine_with(Profile::Linux, 1, &["0"]);
        let (_store, workspace) = open_on(&machine.process("old"), options()).unwrap();
        let _ = put(&workspace, Durability::Durable, "a", "1").unwrap();
        let x = machine.process("newer release");
        let segment = segments(&x)[0].clone();
        let (_, walk) = log_of(&x).unwrap();
        let (header, end) = (walk.last().unwrap().header.clone(), walk.last().unwrap().summary.end);
        let next = SegmentHeader {
            ro_compat: ro,
            incompat,
            segment_id: SegmentId(77),
            stands_for: SegmentId(77),
            ordinal_a: 2,
            ordinal_b: 2,
            first_seq: end.seq,
            base_lpos: header.lpos(end.offset + 80),
            prev_segment_id: header.segment_id,
            prev_last_seq: end.seq - 1,
            ..header.clone()
        };
        let seal = Seal {
            next_segment_id: next.segment_id,
            next_first_seq: end.seq,
            next_base_lpos: next.base_lpos,
            segment_id: header.segment_id,
            last_seq: end.seq - 1,
            last_crc: 0,
        };
        let (mut content, mut crc) = (Vec::new(), 0);
        Control::Seal(seal).encode(&mut content);
        change(&machine, &segment, |bytes| {
            bytes.truncate(usize::try_from(end.offset).unwrap());
            let frame = FrameHeader {
                seq: end.seq,
                link: end.link,
                kind: FrameKind::SEAL,
                count: 0,
                durable_lag: format::LAG_NONE,
                writer: 1,
            };
            crc = encode(bytes, &header.salt(), &frame, &content);
        });
        let next = SegmentHeader { prev_last_crc: crc, state: SegmentState::Live, ..next };
        let path = paths(&x).segment(&next.file_name());
        let mut bytes = next.encode().to_vec();
        bytes.extend_from_slice(&[0xEE; 512][..if incompat > 0 { 512 } else { 0 }]);
        machine.with_disk(|d| d.plant(&path, &bytes)).unwrap();
        let refused = put(&workspace, Durability::Durable, "a", "no").unwrap_err();
        assert!(matches!(refused.kind(), ErrorKind::TooNew { .. }), "{refused}");
        assert_eq!(file(&x, &path), bytes, "what a newer release wrote stays");
        assert_eq!(body(&workspace, "a"), Some("1".into()), "reading what is understood goes on");
        assert_eq!(workspace.health().status, Status::TooNew);
        let (_store, fresh) = open_on(&machine.process("old again"), options()).unwrap();
        let refused = put(&fresh, Durability::Durable, "a", "no").unwrap_err();
        assert!(matches!(refused.kind(), ErrorKind::TooNew { .. }), "{refused}");
        assert_eq!(file(&x, &path), bytes);
    }
}

#[test]
fn readers_have_no_session_and_write_nothing() {
    // A reader on a read-only mount failed at its session's file; one that probed kept a starting session from its own.
    let machine = machine_with(Profile::Linux, 1, &["0"]);
    let (_store, workspace) = open_on(&machine.process("dies"), options()).unwrap();
    let _ = put(&workspace, Durability::Durable, "a", "1").unwrap();
    machine.kill_all();
    let writes: Vec<Op> =
        vec![Op::Create, Op::CreateDir, Op::Rename, Op::Unlink, Op::Write, Op::SetLen, Op::Sync, Op::SyncDir];
    let count = || writes.iter().map(|op| machine.calls(*op)).sum::<u64>();
    for read_only_medium in [false, true] {
        machine.set_read_only(read_only_medium);
        let (before, disk) = (count(), machine.disk().content_hash());
        let (store, reader) = open_on(&machine.process("reader"), options().read_only(true)).unwrap();
        assert_eq!(body(&reader, "a"), Some("1".into()));
        let health = reader.health();
        assert_eq!(health.status, Status::ReadOnly, "{health:?}");
        let living = store.live_sessions();
        if !read_only_medium {
            assert!(living.unwrap().is_empty());
        }
        let refused = put(&reader, Durability::Buffered, "a", "no").unwrap_err();
        assert!(matches!(refused.kind(), ErrorKind::ReadOnly { .. }), "{refused}");
        reader.close().unwrap();
        assert_eq!((count(), machine.disk().content_hash()), (before, disk), "a reader changes nothing");
    }
}

#[test]
fn one_folder_is_one_workspace_however_it_is_spelled() {
    // The slug came from the spelling: two spellings, one hash, two folders, two logs; and a key collided with a path.
    for (a, b) in [
        ("/Users/x/Proj", "/Users/x/../x/./Proj//"),
        (r"C:\Code\App", r"c:/code/APP/"),
        (r"\\?\C:\Code\App", r"C:\Code\App\."),
        (r"\\?\UNC\server\share\p", r"\\SERVER\share\P"),
    ] {
        assert_eq!(normalise(a), normalise(b), "{a} and {b}");
        let name = |text: &str| folder_name(&Binding::Path(normalise(text).unwrap()));
        assert_eq!(name(a), name(b));
    }
    assert_ne!(normalise("/users/x/Proj"), normalise("/Users/x/Proj"), "where case counts");
    let text = "/Users/x/Proj".to_owned();
    assert_ne!(hash(&Binding::Path(text.clone())), hash(&Binding::Key(text)));
    for seed in 0..150 {
        let machine = SimMachine::new(Profile::Linux, seed);
        machine.with_disk(|d| d.plant("/home/x/proj/readme", b"")).unwrap();
        machine.with_disk(|d| d.plant_symlink("/link", "/home/x/proj")).unwrap();
        let names = parking_lot::Mutex::new(Vec::new());
        let open = |label: &'static str, place: Place| {
            let names = &names;
            Program::new(label, move |process: SimProcess| {
                let store = Store::open_on(Arc::new(process), Path::new(ROOT), options()).unwrap();
                let workspace = store.workspace(&place).unwrap();
                let _ = put(&workspace, Durability::Durable, label, label).unwrap();
                names.lock().push(workspace.name().to_owned());
            })
        };
        let programs = vec![
            open("plain", Place::Path("/home/x/proj".into())),
            open("dotted", Place::Path("/home/./x/proj/".into())),
            open("linked", Place::Path("/link".into())),
        ];
        let run = machine.run(seed, programs, &Plan::new());
        assert_eq!(run.panics(), [""; 0], "{run}");
        let names = names.into_inner();
        assert!(names.iter().all(|name| *name == names[0]), "{names:?}; {run}");
        assert_eq!(bodies(&machine.process("x")).len(), 3);
    }
}

#[test]
fn quiet_second_syncs_before_it_vouches() {
    // A Mark after buffered commits vouched for nothing, or for what had never been synced; or nobody woke to write it.
    let machine = machine_with(Profile::Linux, 1, &["0"]);
    let (_store, workspace) = open_on(&machine.process("w"), options()).unwrap();
    let _ = put(&workspace, Durability::Buffered, "a", "1").unwrap();
    let syncs = machine.calls(Op::Sync);
    machine.advance(Duration::from_millis(500));
    workspace.tick().unwrap();
    assert_eq!(machine.calls(Op::Sync), syncs, "not yet");
    let _ = put(&workspace, Durability::Buffered, "a", "2").unwrap();
    machine.advance(Duration::from_millis(700));
    workspace.tick().unwrap();
    assert_eq!(machine.calls(Op::Sync), syncs, "each commit starts the second anew");
    machine.advance(Duration::from_millis(400));
    assert_eq!(workspace.tick().unwrap(), None);
    let x = machine.process("x");
    let marks = || {
        let (items, walk) = log_of(&x).unwrap();
        (items.iter().filter(|(_, i)| matches!(i, Item::Control(Control::Mark { .. }))).count(), walk.vouched)
    };
    let (before, vouched) = marks();
    assert_eq!(vouched, 3, "the Mark vouches for the last commit");
    machine.advance(Duration::from_secs(5));
    workspace.tick().unwrap();
    workspace.close().unwrap();
    assert_eq!(marks().0, before, "no Mark behind a Mark");
    assert_eq!(bodies(&worst_power_cut(&machine).process("x")), ["0", "1", "2"]);
    // Interval: within its time, whoever ticks.
    let machine = machine_with(Profile::Linux, 1, &["0"]);
    let (_store, workspace) = open_on(&machine.process("w"), options()).unwrap();
    assert!(!put(&workspace, Durability::Interval(50), "a", "1").unwrap().durable);
    machine.advance(Duration::from_millis(60));
    workspace.tick().unwrap();
    assert_eq!(bodies(&worst_power_cut(&machine).process("x")), ["0", "1"]);
}

#[test]
fn poison_that_cannot_be_left_keeps_its_process_from_writing_and_is_tried_again() {
    // The file system turned read-only with the failing sync, no POISON could be made, and the next one went on.
    let machine = machine_with(Profile::Linux, 1, &["0"]);
    let (_store, workspace) = open_on(&machine.process("w"), options()).unwrap();
    machine.fault(Fault::on(Op::Sync, Effect::DropsPages).path(".seg"));
    machine.fault(
        Fault::on(Op::Create, Effect::Fail(std::io::ErrorKind::ReadOnlyFilesystem)).path("POISON").times(2),
    );
    // Nor is there room for a copy of the log.
    let full = Effect::Fail(std::io::ErrorKind::StorageFull);
    machine.fault(Fault::on(Op::Create, full).path("/log/.new-").always());
    let lost = put(&workspace, Durability::Durable, "a", "1").unwrap_err();
    assert!(matches!(lost.kind(), ErrorKind::DurabilityLost { from: Seq(2) }), "{lost}");
    let health = workspace.health();
    assert_eq!(health.status, Status::DurabilityLost);
    assert!(
        health.findings.iter().any(|f| f.code == "poisoned" && f.message.contains("could not be left")),
        "{health:?}"
    );
    let x = machine.process("x");
    let poison = paths(&x).poison();
    let is_there = || x.stat(&poison).is_ok();
    for there in [false, true] {
        let refused = put(&workspace, Durability::Buffered, "a", "no").unwrap_err();
        assert!(matches!(refused.kind(), ErrorKind::DurabilityLost { .. }), "{refused}");
        assert_eq!(is_there(), there, "every try to write tries that first");
    }
    let (_store, next) = open_on(&machine.process("next"), options()).unwrap();
    assert_eq!(next.health().status, Status::DurabilityLost);
    assert!(put(&next, Durability::Buffered, "a", "no").is_err() && next.flush().is_err());
    assert_eq!(body(&next, "a"), Some("1".into()), "reading goes on");
    // Nothing clears it but copying forward, which repair tries at once.
    let refused = next.log().repair().unwrap_err();
    assert!(matches!(refused.kind(), ErrorKind::DurabilityLost { .. }), "{refused}");
    assert!(is_there());
    machine.clear_faults();
    let _ = next.log().repair().unwrap();
    assert!(!is_there());
    assert!(put(&next, Durability::Durable, "a", "yes").unwrap().durable);
    machine.advance(Duration::from_secs(2));
    assert!(put(&workspace, Durability::Durable, "a", "again").unwrap().durable);
}

#[test]
fn unknown_codec_is_refused_and_left_alone() {
    // A second codec was promised and described nowhere: half of one would have been frozen into the first format.
    let machine = machine_with(Profile::Linux, 1, &["0"]);
    let x = machine.process("x");
    let meta = paths(&x).meta();
    let decoded = WorkspaceMeta::decode(&file(&x, &meta)).unwrap();
    change(&machine, &meta, |b| *b = WorkspaceMeta { codec: 1, ..decoded.clone() }.encode());
    let before = machine.disk().content_hash();
    let error = open_on(&machine.process("w"), options()).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::TooNew { .. }), "{error}");
    change(&machine, &meta, |b| *b = decoded.encode());
    let segment: PathBuf = segments(&x)[0].clone();
    change(&machine, &segment, |b| {
        let header = SegmentHeader { incompat: 1, ..SegmentHeader::decode(b).unwrap() };
        b[..256].copy_from_slice(&header.encode());
    });
    let disk = machine.disk().content_hash();
    assert_ne!(disk, before);
    let (_store, reader) = open_on(&machine.process("r"), options().read_only(true)).unwrap();
    assert_eq!(reader.health().status, Status::TooNew);
    let (_store, writer) = open_on(&machine.process("w"), options()).unwrap();
    assert!(put(&writer, Durability::Buffered, "a", "no").is_err());
    assert!(x.open(&segment, Open::Read).is_ok());
}
