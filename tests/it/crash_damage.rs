//! Bytes flipped under a closed or killed store, end to end: what is vouched for is called damage and never touched,
//! what is not is cut and kept. And repair, with a crash at every call.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "a test, all of it"
)]

use std::collections::BTreeMap;
use std::path::Path;

use foldlog::vfs::Vfs;
use foldlog::vfs::sim::{DiskState, Profile, Rng, SimMachine};
use foldlog::{Durability, ErrorKind, Recovery, Seq, State, Status, Store, Workspace};

use super::commit_basics::{note, options};
use super::crash_enumeration::scale;
use super::crash_oracle::{Program, Size, Spec, Step, contents, open, run, set_aside};

fn small() -> foldlog::Options {
    options().segment_size(4096)
}

fn commit(size: Size, durability: Durability) -> Step {
    Step::Commit(Spec { size, durability, op: false, events: 1, conditional: false })
}

/// A frame as this model reads it from a segment's bytes.
#[derive(Clone, Copy, Debug)]
struct Frame {
    segment: usize,
    offset: usize,
    end: usize,
    seq: u64,
    count: u64,
    /// What it vouches for.
    durable: u64,
}

fn word(bytes: &[u8], at: usize, len: usize) -> u64 {
    bytes[at..at + len].iter().rev().fold(0, |n, b| n << 8 | u64::from(*b))
}

fn segments(disk: &DiskState) -> Vec<(String, Vec<u8>)> {
    let mut all: Vec<_> = contents(disk)
        .into_iter()
        .filter_map(|(path, bytes)| Some((path, bytes?)))
        // Live ones: a prepared successor is no part of the log.
        .filter(|(path, bytes)| path.ends_with(".seg") && bytes.len() >= 256 && bytes[12] == 2)
        .collect();
    all.sort();
    all
}

fn frames(segments: &[(String, Vec<u8>)]) -> Vec<Frame> {
    let mut found = Vec::new();
    for (segment, (_, bytes)) in segments.iter().enumerate() {
        let mut at = 256;
        while at + 32 <= bytes.len() && word(bytes, at, 4) != 0 {
            let end = at + 32 + (word(bytes, at, 4) as usize).next_multiple_of(8);
            let (seq, lag) = (word(bytes, at + 8, 8), word(bytes, at + 24, 4));
            let durable = if lag == 0xFFFF_FFFF { 0 } else { seq.saturating_sub(lag) };
            found.push(Frame { segment, offset: at, end, seq, count: word(bytes, at + 22, 2), durable });
            at = end;
        }
    }
    found
}

/// Whether a flip inside frame `hit` is damage, by what remains: other frames, the chain, and the durable word.
fn is_damage(all: &[Frame], segments: &[(String, Vec<u8>)], hit: usize, durable_lpos: u64) -> bool {
    let frame = all[hit];
    if frame.segment + 1 < segments.len() {
        return true;
    }
    let header = &segments[frame.segment].1;
    let (first_seq, base_lpos) = (word(header, 80, 8), word(header, 88, 8));
    let remaining = all.iter().enumerate().filter(|(i, _)| *i != hit).map(|(_, f)| f.durable).max();
    let chain = if frame.segment > 0 { first_seq.saturating_sub(1) } else { 0 };
    let vouched = remaining.unwrap_or(0).max(chain);
    frame.seq <= vouched || durable_lpos > base_lpos + (frame.offset - 256) as u64
}

fn control_path(disk: &DiskState) -> String {
    disk.tree().into_iter().map(|(path, ..)| path).find(|path| path.ends_with("/control")).unwrap()
}

fn durable_lpos(disk: &DiskState) -> u64 {
    disk.read(control_path(disk)).filter(|b| b.len() == 4096).map_or(0, |b| word(&b, 192, 8) >> 16)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Control {
    Kept,
    Deleted,
    /// As it was when the store was made.
    Stale,
}

fn with_control(disk: &DiskState, control: Control) -> DiskState {
    let path = control_path(disk);
    let machine = SimMachine::from_disk(disk, 1);
    match control {
        Control::Kept => {}
        Control::Deleted => machine.process("somebody").unlink(path.as_ref()).unwrap(),
        Control::Stale => machine.with_disk(|disk| disk.mutate(&path, |b| b[192..200].fill(0)).unwrap()),
    }
    machine.disk().all_synced()
}

fn last(workspace: &Workspace) -> Seq {
    workspace.read(State::last).unwrap()
}

fn try_commit(workspace: &Workspace) -> foldlog::Result<foldlog::Receipt> {
    workspace.commit(Durability::Durable, |_, draft| {
        draft.push(note("after", "x"));
        Ok(())
    })
}

/// Opens over a flip in frame `hit` and says what must follow.
fn flipped(
    disk: &DiskState,
    all: &[Frame],
    hit: usize,
    damage: bool,
    path: &str,
    at: usize,
    bit: u8,
) -> Result<(), String> {
    let mut disk = disk.clone();
    disk.mutate(path, |bytes| bytes[at] ^= 1 << bit).unwrap();
    let machine = SimMachine::from_disk(&disk, 77);
    let before = contents(&disk);
    // Everything in front of the flip is read, whatever it is; nothing behind it is.
    let readable = Seq(all[hit].seq - 1);
    {
        let (_store, reader) =
            open(&machine.process("reads"), small().read_only(true)).map_err(|e| e.to_string())?;
        let status = if damage { Status::Damaged } else { Status::ReadOnly };
        if reader.health().status != status || last(&reader) != readable {
            return Err(format!("a reader: {:?}, last {}", reader.health(), last(&reader)));
        }
    }
    let (_store, workspace) = open(&machine.process("writes"), small()).map_err(|e| e.to_string())?;
    let receipt = try_commit(&workspace);
    if damage {
        if workspace.health().status != Status::Damaged {
            return Err(format!("{:?}, {receipt:?}", workspace.health()));
        }
        let finding =
            workspace.open_report().findings.iter().find(|f| f.severity == foldlog::Severity::Damage);
        let placed =
            finding.is_some_and(|f| f.file == Path::new(path) && f.offset == Some(all[hit].offset as u64));
        if !placed {
            return Err(format!("not its place: {finding:?}"));
        }
        match receipt.as_ref().map_err(foldlog::Error::kind) {
            Err(ErrorKind::Damaged(_)) => {}
            other => return Err(format!("a commit on damage: {other:?}")),
        }
        if contents(&machine.disk()) != before {
            return Err("something was changed".into());
        }
        return Ok(());
    }
    let receipt = receipt.map_err(|e| e.to_string())?;
    if receipt.first != Seq(readable.0 + 1) || workspace.health().status != Status::Healthy {
        return Err(format!("{receipt:?} {:?}", workspace.health()));
    }
    set_aside(&disk, &machine.disk())
}

/// Programs, and whether everything acknowledged is vouched for at their end, by what remains whatever is flipped.
fn programs() -> Vec<(Vec<Step>, bool)> {
    let (b, d) = (Durability::Buffered, Durability::Durable);
    vec![
        (vec![commit(Size::Tiny, d)], false),
        (vec![commit(Size::Tiny, d), commit(Size::Sector, d)], false),
        (vec![commit(Size::Sector, b), commit(Size::Tiny, d), commit(Size::Tiny, b)], false),
        (vec![commit(Size::Sector, b), commit(Size::Tiny, b)], false),
        (vec![commit(Size::Tiny, b), Step::Quiet], true),
        (vec![commit(Size::Sector, b), commit(Size::Tiny, d), Step::Quiet], true),
        (vec![commit(Size::Sector, b), commit(Size::Tiny, b), Step::Close], true),
        (vec![commit(Size::Page, b), commit(Size::Tiny, b)], false),
        (vec![commit(Size::Page, d), commit(Size::Pages, b), commit(Size::Tiny, b), Step::Close], true),
    ]
}

#[test]
fn flipped_bytes_are_damage_where_vouched_for_and_cut_where_not() {
    let step = ((23.0 / scale()) as usize).max(1);
    let (mut damages, mut cuts) = (0, 0);
    for (p, (steps, sure)) in programs().into_iter().enumerate() {
        let ran = run(
            &Program { fresh: false, segment_size: 4096, reserve: true, steps },
            Profile::Linux,
            p as u64,
        );
        let end = ran.record.boundaries.last().unwrap().disk.all_synced();
        for control in [Control::Kept, Control::Deleted, Control::Stale] {
            let disk = with_control(&end, control);
            let segments = segments(&disk);
            let all = frames(&segments);
            let word = if control == Control::Kept { durable_lpos(&disk) } else { 0 };
            for (hit, frame) in all.iter().enumerate() {
                let damage = is_damage(&all, &segments, hit, word);
                let is_last_mark = frame.count == 0 && hit + 1 == all.len();
                if sure && !is_last_mark {
                    assert!(damage, "{p}: {frame:?} with {control:?} is vouched for by nothing");
                }
                let (path, bytes) = &segments[frame.segment];
                // The whole header, and some of the body.
                let places = (frame.offset..frame.offset + 32).step_by(step.min(5));
                for at in places.chain((frame.offset + 32..frame.end).step_by(step * 3)) {
                    // A flip may make the zero length of "the log ends here", which it must not.
                    let bit = (at % 8) as u8;
                    let result = flipped(&disk, &all, hit, damage, path, at, bit);
                    if let Err(why) = result {
                        panic!(
                            "program {p}, control {control:?}, {frame:?} of {}, byte {at} bit {bit} ({:#x}), damage {damage}: {why}",
                            all.len(),
                            bytes[at]
                        );
                    }
                    *(if damage { &mut damages } else { &mut cuts }) += 1;
                }
            }
        }
    }
    println!("{damages} flips were damage, {cuts} were cut");
    let least = |n: usize| (n as f64 * scale().min(1.0)) as usize;
    assert!(damages >= least(400) && cuts >= least(40), "fewer than recorded");
}

/// Every body by its key, with everything that salvage can read.
fn salvaged(machine: &SimMachine) -> BTreeMap<String, Vec<u8>> {
    let options = small().read_only(true).recovery(Recovery::Salvage);
    let (_store, workspace) = open(&machine.process("salvages"), options).unwrap();
    workspace.read(|s| s.iter().map(|k| (k.key.to_string(), k.body.to_vec())).collect()).unwrap()
}

fn repair(machine: &SimMachine, label: &str) -> (Store, Workspace) {
    let opened = open(&machine.process(label), small()).unwrap();
    let _ = opened.1.log().repair().unwrap();
    assert_eq!(opened.1.health().status, Status::Healthy, "{:?}", opened.1.health());
    opened
}

/// What a repaired store must be, compared between repairs: the state, less the random numbers of epochs.
type Shape = (Vec<(String, u64, Vec<u8>)>, Seq, Vec<(Seq, Seq)>);

fn shape(workspace: &Workspace) -> Shape {
    let shape = |s: &State| {
        let keys = s.iter().map(|k| (k.key.to_string(), k.last.seq.0, k.body.to_vec())).collect();
        (keys, s.last(), s.gaps().to_vec())
    };
    workspace.read(shape).unwrap()
}

#[test]
fn repair_survives_a_crash_at_every_call() {
    let (b, d) = (Durability::Buffered, Durability::Durable);
    let steps = vec![
        commit(Size::Sector, d),
        commit(Size::Page, d),
        commit(Size::Sector, d),
        commit(Size::Tiny, b),
        commit(Size::Page, d),
        commit(Size::Tiny, d),
        commit(Size::Sector, d),
        Step::Close,
    ];
    let ran = run(&Program { fresh: false, segment_size: 4096, reserve: true, steps }, Profile::Linux, 4);
    let end = ran.record.boundaries.last().unwrap().disk.all_synced();
    let all = segments(&end);
    assert_eq!(all.len(), 3);
    let frame = |segment: usize, nth: usize| {
        let found =
            frames(&all).into_iter().filter(|f| f.segment == segment && f.count > 0).nth(nth).unwrap();
        (segment, found.offset + 40)
    };
    // A flipped commit in each segment, a flipped header, a lost file, and several at once.
    let mut cases: Vec<(&str, DiskState)> = Vec::new();
    let flips = |places: &[(usize, usize)]| {
        let mut disk = end.clone();
        for (segment, at) in places {
            disk.mutate(&all[*segment].0, |bytes| bytes[*at] ^= 0x10).unwrap();
        }
        disk
    };
    cases.push(("first segment", flips(&[frame(0, 0)])));
    cases.push(("middle segment", flips(&[frame(1, 1)])));
    cases.push(("last segment", flips(&[frame(2, 0)])));
    cases.push(("header of the middle", flips(&[(1, 90)])));
    cases.push(("everywhere", flips(&[frame(0, 1), (1, 90), frame(2, 0)])));
    let machine = SimMachine::from_disk(&end, 3);
    machine.process("somebody").unlink(all[1].0.as_ref()).unwrap();
    cases.push(("lost middle", machine.disk().all_synced()));
    let (mut states, mut boundaries) = (0, 0);
    for (name, disk) in cases {
        let machine = SimMachine::from_disk(&disk, 9);
        let readable = salvaged(&machine);
        machine.record();
        let opened = repair(&machine, "repairs");
        machine.mark("repaired");
        let whole = shape(&opened.1);
        drop(opened);
        let record = machine.take_record();
        assert!(opened_again(&machine), "{name}: repair(repair(x)) is not repair(x)");
        let mut rng = Rng::new(8);
        for boundary in &record.boundaries {
            boundaries += 1;
            let done = !record.marks_at(boundary).is_empty();
            let mut disks: Vec<_> = boundary.disk.crash_states(3, &mut rng).collect();
            disks.push(boundary.disk.process_kill());
            for disk in disks {
                states += 1;
                let why = format!("{name}, crash before {:?}, {}", boundary.call, disk.origin());
                let machine = SimMachine::from_disk(&disk, 10);
                let left = salvaged(&machine);
                for (key, body) in &readable {
                    assert_eq!(left.get(key), Some(body), "{why}: {key} was readable");
                }
                if done {
                    let (_store, workspace) =
                        open(&machine.process("looks"), small().read_only(true)).unwrap();
                    assert_eq!(
                        workspace.health().status,
                        Status::ReadOnly,
                        "{why}: {:?}",
                        workspace.health()
                    );
                }
                let opened = repair(&machine, "repairs again");
                let now = shape(&opened.1);
                assert_eq!((&now.0, &now.2), (&whole.0, &whole.2), "{why}");
                drop(opened);
                assert!(opened_again(&machine), "{why}: a third repair finds something to do");
            }
        }
    }
    println!("{states} crashes of repair at {boundaries} calls");
    assert!(states >= 300, "{states}");
}

/// Whether one more repair has nothing to do, changes nothing, and the store opens without a finding.
fn opened_again(machine: &SimMachine) -> bool {
    let before = contents(&machine.disk());
    let (_store, workspace) = open(&machine.process("once more"), small()).unwrap();
    let steps = workspace.log().repair().unwrap().steps;
    let clean = workspace.open_report().findings.iter().all(|f| f.severity < foldlog::Severity::Error);
    let same = contents(&machine.disk()) == before;
    if !(steps.is_empty() && clean && same) {
        println!("{steps:?} {:?} same = {same}", workspace.open_report().findings);
    }
    steps.is_empty() && clean && same
}
