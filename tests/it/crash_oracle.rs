//! Programs that commit on a recording machine, and the oracle that says what a store must be after a crash.
//!
//! Every event has a key of its own, so the state after *n* commits tells which commits are there, whole and in order;
//! a run keeps it for every *n*, and a recovered store must equal one of them: at least what was acknowledged as
//! durable (after a mere kill: as anything), at most what was tried.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::too_many_arguments,
    reason = "a test, all of it"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use foldlog::vfs::sim::{DiskState, Op, Profile, Record, Rng, SimMachine, SimProcess};
use foldlog::{
    Cursor, Draft, Durability, Error, ErrorKind, Expect, Health, Key, KeyState, OpId, Options, Place,
    Receipt, Revision, Seq, Severity, State, Status, Store, Workspace,
};

use super::commit_basics::{note, options};

pub(crate) const ROOT: &str = "/store";

/// How much a commit's first event holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Size {
    Tiny,
    /// The frame is about one sector.
    Sector,
    /// The frame reaches over a page, and in a small segment makes the next commit rotate.
    Page,
    Pages,
}

impl Size {
    pub(crate) const ALL: [Size; 4] = [Size::Tiny, Size::Sector, Size::Page, Size::Pages];

    fn bytes(self) -> usize {
        match self {
            Size::Tiny => 20,
            Size::Sector => 420,
            Size::Page => 3900,
            Size::Pages => 9100,
        }
    }
}

/// One commit of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spec {
    pub(crate) size: Size,
    pub(crate) durability: Durability,
    pub(crate) op: bool,
    /// 0 = a commit that only leaves its op id.
    pub(crate) events: usize,
    pub(crate) conditional: bool,
}

/// One step of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Commit(Spec),
    /// Time passes until what is due is due, and the host ticks.
    Quiet,
    /// A clean close; later steps open anew.
    Close,
    /// The process is killed; later steps go on in another one.
    Kill,
}

#[derive(Clone, Debug)]
pub(crate) struct Program {
    /// Whether store and workspace come into being in the recorded part.
    pub(crate) fresh: bool,
    pub(crate) segment_size: u64,
    /// Whether the file has a reserve once something was synced, or grows with every commit.
    pub(crate) reserve: bool,
    pub(crate) steps: Vec<Step>,
}

/// What is known of a store after so many commits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Snapshot {
    keys: Vec<KeyState>,
    last: Seq,
    events: u64,
    commits: u64,
}

impl Snapshot {
    pub(crate) fn of(state: &State) -> Snapshot {
        Snapshot {
            keys: state.iter().collect(),
            last: state.last(),
            events: state.events(),
            commits: state.commits(),
        }
    }
}

/// A program that has run.
pub(crate) struct Ran {
    pub(crate) program: Program,
    pub(crate) record: Record,
    /// The state after 0, 1, 2 … commits.
    pub(crate) after: Vec<Snapshot>,
    pub(crate) receipts: Vec<Receipt>,
}

pub(crate) fn place() -> Place {
    Place::Key("crash".into())
}

pub(crate) fn open(process: &SimProcess, options: Options) -> foldlog::Result<(Store, Workspace)> {
    let store = Store::open_on(Arc::new(process.clone()), Path::new(ROOT), options)?;
    let workspace = store.workspace(&place())?;
    Ok((store, workspace))
}

pub(crate) fn op_id(i: usize) -> OpId {
    OpId([i as u8 + 1; 16])
}

fn body(i: usize, j: usize, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    Rng::new((i * 64 + j) as u64 + 1).fill(&mut bytes);
    bytes
}

/// What commit `i` of a program does; `before` = conditional commits before it.
pub(crate) fn draft(i: usize, spec: Spec, before: u64, draft: &mut Draft) {
    for j in 0..spec.events {
        let len = if j == 0 { spec.size.bytes() } else { 17 };
        let event = foldlog::NewEvent::state(
            super::commit_basics::NOTE,
            1,
            Key::task(&format!("t{i}-{j}")),
            body(i, j, len),
        );
        draft.push(event);
    }
    if spec.conditional {
        draft.expect(Key::task("shared"), Expect::Revision(Revision(before)));
        draft.push(note("shared", &i.to_string()));
    }
    if spec.op {
        draft.operation(op_id(i), &[i as u8], Seq(0));
    }
}

/// A machine on whose disk a store and its empty workspace stand, all of it durable.
pub(crate) fn installed(profile: Profile, seed: u64, options: Options) -> SimMachine {
    let machine = SimMachine::new(profile, seed);
    let opened = open(&machine.process("installer"), options).unwrap();
    drop(opened);
    SimMachine::from_disk(&machine.disk().all_synced(), seed + 1)
}

pub(crate) fn small(program: &Program) -> Options {
    options().segment_size(program.segment_size).reserve(program.reserve)
}

/// Runs a program to its end on a recording machine.
pub(crate) fn run(program: &Program, profile: Profile, seed: u64) -> Ran {
    let machine =
        if program.fresh { SimMachine::new(profile, seed) } else { installed(profile, seed, small(program)) };
    machine.record();
    let mut process = machine.process("writer");
    let mut opened = None;
    let mut ran =
        Ran { program: program.clone(), record: Record::default(), after: Vec::new(), receipts: Vec::new() };
    let (mut conditional, mut tried) = (0, 0);
    for step in &program.steps {
        let (store, workspace) = match opened.take() {
            Some(opened) => opened,
            None => {
                let opened = open(&process, small(program)).unwrap();
                machine.mark("made");
                opened
            }
        };
        if ran.after.is_empty() {
            ran.after.push(workspace.read(Snapshot::of).unwrap());
        }
        match *step {
            Step::Commit(spec) => {
                let (i, before) = (tried, conditional);
                machine.mark(format!("try {}", i + 1));
                let receipt = workspace.commit(spec.durability, move |_, d| {
                    draft(i, spec, before, d);
                    Ok(())
                });
                let receipt = receipt.unwrap();
                machine.mark(format!("ack {}", i + 1));
                if receipt.durable {
                    machine.mark(format!("durable {}", i + 1));
                }
                ran.receipts.push(receipt);
                ran.after.push(workspace.log().cached(Snapshot::of).unwrap());
                tried += 1;
                conditional += u64::from(spec.conditional);
                opened = Some((store, workspace));
            }
            Step::Quiet => {
                machine.advance(Duration::from_millis(1001));
                workspace.tick().unwrap();
                machine.mark(format!("durable {tried}"));
                opened = Some((store, workspace));
            }
            Step::Close => {
                workspace.close().unwrap();
                machine.mark(format!("durable {tried}"));
                drop(store);
            }
            Step::Kill => {
                machine.kill(&process);
                drop((store, workspace));
                process = machine.process("next writer");
            }
        }
    }
    // A program that does not close ends by a kill: nothing of what dropping does may count.
    if opened.is_some() {
        machine.kill(&process);
    }
    ran.record = machine.take_record();
    drop(opened);
    ran
}

/// What marks say must and may be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    made: bool,
    least: usize,
    most: usize,
}

impl Told {
    pub(crate) fn by(marks: &[String], power_cut: bool) -> Told {
        let mut told = Told { made: false, least: 0, most: 0 };
        for mark in marks {
            let (word, n) = mark.split_once(' ').unwrap_or((mark, "0"));
            let n: usize = n.parse().unwrap();
            match word {
                "made" => told.made = true,
                "try" => told.most = n,
                "ack" if !power_cut => told.least = n,
                "durable" => told.least = told.least.max(n),
                _ => {}
            }
        }
        told
    }
}

/// Which commits of the program are there, and how many others.
fn find(found: &Snapshot, ran: &Ran, told: Told) -> Result<(usize, u64), String> {
    let ours = |k: &&KeyState| !k.key.name.starts_with("after");
    let keys: Vec<&KeyState> = found.keys.iter().filter(ours).collect();
    let only_ours = keys.len() == found.keys.len();
    let fits: Vec<usize> = (0..ran.after.len())
        .filter(|&i| {
            let commits = ran.after[i].commits;
            let counts = if only_ours { commits == found.commits } else { commits < found.commits };
            counts && ran.after[i].keys.iter().collect::<Vec<_>>() == keys
        })
        .collect();
    // A commit that leaves its op id alone cannot be told by keys, once others follow.
    let n = fits.iter().copied().filter(|n| *n <= told.most).max().or(fits.first().copied());
    let Some(n) = n else {
        let list = |keys: &[&KeyState]| -> Vec<String> {
            keys.iter().map(|k| format!("{}@{}:{}", k.key, k.last.seq, k.revision)).collect()
        };
        return Err(format!("{:?} ({} commits) is no state of the program", list(&keys), found.commits));
    };
    if n < told.least {
        return Err(format!("{} commits were acknowledged for this, {n} are there", told.least));
    }
    if n > told.most {
        return Err(format!("{} commits were tried, {n} are there", told.most));
    }
    let whole = &ran.after[n];
    if only_ours && (found.last, found.events, found.commits) != (whole.last, whole.events, whole.commits) {
        return Err(format!("counts differ: {found:?}, not {whole:?}"));
    }
    Ok((n, found.commits - whole.commits))
}

fn text<T>(what: &str, result: foldlog::Result<T>) -> Result<T, String> {
    result.map_err(|e| format!("{what}: {e}"))
}

fn no_damage(what: &str, health: &Health, status: Status) -> Result<(), String> {
    if let Some(finding) = health.findings.iter().find(|f| f.severity >= Severity::Damage) {
        return Err(format!("{what}: a crash is called damage: {finding}"));
    }
    if let Some(finding) = health.findings.iter().find(|f| f.code == "not-healed") {
        return Err(format!("{what}: {finding}"));
    }
    if health.status == status { Ok(()) } else { Err(format!("{what}: {:?}", health.status)) }
}

/// Every file but those of sessions.
pub(crate) fn contents(disk: &DiskState) -> BTreeMap<String, Option<Vec<u8>>> {
    let is_hint = |path: &str| path.starts_with("/store/sessions/") || path.ends_with("/control");
    let files = disk.tree().into_iter().filter(|(path, ..)| !is_hint(path));
    files.map(|(path, ..)| (path.clone(), disk.read(&path))).collect()
}

fn absent(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound { .. })
}

/// Looks without writing; `None` = there is no store, or no workspace, and none was promised.
pub(crate) fn look(machine: &SimMachine, ran: &Ran, told: Told) -> Result<Option<(usize, u64)>, String> {
    let before = machine.disk().content_hash();
    let calls = || {
        [Op::Lock, Op::Write, Op::Store, Op::Append, Op::Create, Op::Rename, Op::Unlink, Op::SetLen]
            .map(|op| machine.calls(op))
    };
    let made = calls();
    let found = match open(&machine.process("looks"), small(&ran.program).read_only(true)) {
        Ok((_store, workspace)) => {
            no_damage("looking", &workspace.health(), Status::ReadOnly)?;
            Some(text("reading", workspace.read(Snapshot::of))?)
        }
        Err(e) if absent(&e) && !told.made => None,
        Err(e) => return Err(format!("looking: {e}")),
    };
    if machine.disk().content_hash() != before || calls() != made {
        return Err("looking changed something, or took a lock".into());
    }
    found.map(|found| find(&found, ran, told)).transpose()
}

/// The notes in quarantine: name to (file, offset, bytes set aside).
fn notes(disk: &DiskState) -> BTreeMap<String, (String, usize, Vec<u8>)> {
    let mut found = BTreeMap::new();
    for (path, ..) in disk.tree() {
        let Some(stem) = path.strip_suffix(".note").filter(|_| path.contains("/quarantine/")) else {
            continue;
        };
        let text = String::from_utf8(disk.read(&path).unwrap_or_default()).unwrap_or_default();
        let field = |key: &str| text.lines().find_map(|l| l.strip_prefix(key)).unwrap_or_default().to_owned();
        let len: usize = field("bytes: ").parse().unwrap_or(0);
        let bytes = disk.read(format!("{stem}.bin")).unwrap_or_else(|| vec![0; len]);
        found.insert(path.clone(), (field("file: "), field("offset: ").parse().unwrap_or(0), bytes));
    }
    found
}

/// What a heal cut must be in quarantine, byte for byte, and nothing else may have changed in a segment but what was
/// written where the cut was.
pub(crate) fn set_aside(before: &DiskState, after: &DiskState) -> Result<(), String> {
    let old = notes(before);
    let fresh: Vec<_> = notes(after).into_iter().filter(|(name, _)| !old.contains_key(name)).collect();
    for (path, now) in contents(after).into_iter().filter(|(path, _)| path.ends_with(".seg")) {
        let (Some(was), Some(now)) = (before.read(&path), now) else { continue };
        let from = was.iter().zip(&now).position(|(a, b)| a != b).unwrap_or(was.len().min(now.len()));
        // A prepared header that is filled in is no loss.
        let lost: Vec<u8> = was[from..].to_vec();
        if lost.iter().all(|b| *b == 0) || from < 256 {
            continue;
        }
        let file = path.rsplit('/').next().unwrap_or_default();
        let kept = fresh.iter().find(|(_, (name, offset, bytes))| {
            name == file
                && *offset <= from
                && was.get(*offset..*offset + bytes.len()) == Some(bytes)
                && was[*offset + bytes.len()..].iter().all(|b| *b == 0)
        });
        if kept.is_none() {
            return Err(format!("{path} was cut at {from}, and quarantine does not have it"));
        }
    }
    Ok(())
}

/// Everything that must hold after a crash that left `disk`. `depth`: how many crashes inside recovery to look at.
pub(crate) fn examine(
    disk: &DiskState,
    ran: &Ran,
    marks: &[String],
    power_cut: bool,
    seed: u64,
    depth: usize,
) -> Result<(), String> {
    let (told, by_then) = (Told::by(marks, power_cut), Told::by(marks, true));
    let machine = SimMachine::from_disk(disk, seed ^ 0x5eed);
    let seen = look(&machine, ran, told)?;
    let sure = match seen {
        Some((n, _)) => Told { made: true, least: n, most: n },
        None => Told { made: false, ..told },
    };
    if depth > 0 {
        machine.record();
    }
    // The first writer heals.
    let before = machine.disk();
    let healer = machine.process("heals");
    let opened = text("opening for writing", open(&healer, small(&ran.program)))?;
    machine.mark("made");
    no_damage("healing", &opened.1.health(), Status::Healthy)?;
    let healed = text("reading the healed", opened.1.read(Snapshot::of))?;
    let (n, others) = find(&healed, ran, sure)?;
    if seen.is_some_and(|seen| seen != (n, others)) {
        return Err(format!("a look found {seen:?}, healing {:?}", (n, others)));
    }
    let hash = text("reading", opened.1.read(State::hash))?;
    drop(opened);
    set_aside(&before, &machine.disk())?;
    let first = contents(&machine.disk());
    // The second one finds nothing to do.
    let process = machine.process("goes on");
    let (store, workspace) = text("opening again", open(&process, small(&ran.program)))?;
    no_damage("opening again", &workspace.health(), Status::Healthy)?;
    if contents(&machine.disk()) != first {
        return Err("opening again changed something".into());
    }
    if text("reading", workspace.read(State::hash))? != hash {
        return Err("opening again gives another state".into());
    }
    // What was lost is given out again, and whoever has seen it is told.
    let epochs: BTreeSet<u64> = ran.receipts.iter().map(|r| r.cursor.epoch).collect();
    let lost: Vec<Cursor> =
        ran.receipts.iter().map(|r| r.cursor).filter(|c| c.seq > ran.after[n].last).collect();
    for cursor in &lost {
        let cursor = *cursor;
        let stale = workspace.commit(Durability::Buffered, move |_, draft| {
            draft.expect(Key::task("after"), Expect::AtMost(cursor)).push(note("after", "stale"));
            Ok(())
        });
        match stale.as_ref().map_err(Error::kind) {
            Err(ErrorKind::Conflict(all)) if all.iter().all(|c| c.rewound_to.is_some()) => {}
            other => return Err(format!("an expectation at lost {cursor:?} gave {other:?}")),
        }
    }
    let last = text("reading", workspace.read(State::last))?;
    let next = workspace.commit(Durability::Durable, |_, draft| {
        draft.push(note("after-first", "goes on"));
        Ok(())
    });
    let next = text("committing after recovery", next)?;
    machine.mark("more");
    if next.first != Seq(last.0 + 1) || !next.durable {
        return Err(format!("after event {last} came {next:?}"));
    }
    if epochs.contains(&next.cursor.epoch) || next.cursor.epoch == 0 {
        return Err("numbers are given out again in an old epoch".into());
    }
    for cursor in ran.receipts.iter().map(|r| r.cursor) {
        let gone = lost.contains(&cursor);
        match workspace.log().cached(|state| state.resolve(cursor)).unwrap() {
            Ok(seq) if !gone && seq == cursor.seq => {}
            Err(to) if gone && to <= ran.after[n].last => {}
            other => return Err(format!("{cursor:?}, lost = {gone}, resolves to {other:?}")),
        }
    }
    let record = (depth > 0).then(|| machine.take_record());
    // A power cut that takes all it may leaves everything that was synced.
    let mut rng = Rng::new(seed);
    let now = workspace.log().cached(Snapshot::of).unwrap();
    for cut in machine.disk().crash_states(2, &mut rng) {
        let later = SimMachine::from_disk(&cut, seed + 7);
        let why = |e| format!("a power cut after recovery and a durable commit, {}: {e}", cut.origin());
        let (_store, workspace) =
            text("looking", open(&later.process("looks"), small(&ran.program).read_only(true)))
                .map_err(why)?;
        no_damage("looking", &workspace.health(), Status::ReadOnly).map_err(why)?;
        if text("reading", workspace.read(Snapshot::of)).map_err(why)? != now {
            return Err(why("something durable is not there".to_owned()));
        }
    }
    // Requests that are sent again are applied once.
    let commits = ran.program.steps.iter().filter_map(|step| match step {
        Step::Commit(spec) => Some(*spec),
        _ => None,
    });
    for (i, _) in commits.enumerate().filter(|(_, spec)| spec.op) {
        let again = workspace.commit(Durability::Buffered, move |_, draft| {
            draft.operation(op_id(i), &[i as u8], Seq(0)).push(note("after-again", &i.to_string()));
            Ok(())
        });
        let again = text("sending again", again)?;
        let first = ran.receipts.get(i).map(|r| (r.first, r.revisions.clone()));
        if again.again != (i < n) || (i < n && first != Some((again.first, again.revisions))) {
            return Err(format!("request {i} of {n} that are there, sent again: again = {}", again.again));
        }
    }
    machine.kill(&process);
    drop((store, workspace));
    match record {
        Some(record) => crashes_in_recovery(&record, ran, sure, by_then, n, power_cut, seed, depth),
        None => Ok(()),
    }
}

/// Every crash inside a recovery ends where the recovery would have ended.
fn crashes_in_recovery(
    record: &Record,
    ran: &Ran,
    sure: Told,
    by_then: Told,
    n: usize,
    power_cut: bool,
    seed: u64,
    depth: usize,
) -> Result<(), String> {
    let mut rng = Rng::new(seed ^ 77);
    for (i, boundary) in record.boundaries.iter().enumerate() {
        let marks = record.marks_at(boundary);
        let made = by_then.made || marks.iter().any(|m| m == "made");
        let more = marks.iter().any(|m| m == "more");
        // After a mere kill the page cache it booted with may go now, all but what the recovery has made durable.
        let mut disks: Vec<(DiskState, Told)> = Vec::new();
        let whole = Told { made, least: sure.least, most: n };
        for disk in boundary.disk.crash_states(depth, &mut rng) {
            let told = if power_cut || more {
                whole
            } else {
                Told { made: made && by_then.made, most: n, ..by_then }
            };
            disks.push((disk, told));
        }
        if !power_cut || i % 3 == 0 {
            disks.push((boundary.disk.process_kill(), whole));
        }
        for (disk, told) in disks {
            let why = |e: String| {
                format!("a second crash, before {:?} of recovery, {}: {e}", boundary.call, disk.origin())
            };
            let machine = SimMachine::from_disk(&disk, seed ^ 0xabcd);
            let seen = look(&machine, ran, told).map_err(why)?;
            if more && seen.is_none_or(|(_, others)| others == 0) {
                return Err(why("a durable commit after recovery is lost".into()));
            }
            let process = machine.process("heals again");
            let opened = text("opening for writing", open(&process, small(&ran.program))).map_err(why)?;
            no_damage("healing again", &opened.1.health(), Status::Healthy).map_err(why)?;
            let now = text("reading", opened.1.read(Snapshot::of)).map_err(why)?;
            find(&now, ran, told).map_err(why)?;
            drop(opened);
            every_note_is_named(&machine).map_err(why)?;
        }
    }
    Ok(())
}

/// Whatever is in quarantine with a note must be told of by a RecoveryMark in the log (CE 29), once somebody appends.
pub(crate) fn every_note_is_named(machine: &SimMachine) -> Result<(), String> {
    let before = notes(&machine.disk());
    if before.is_empty() {
        return Ok(());
    }
    let process = machine.process("appends");
    let (_store, workspace) = text("opening", open(&process, options()))?;
    let next = workspace.commit(Durability::Buffered, |_, draft| {
        draft.push(note("after-note", "x"));
        Ok(())
    });
    let _ = text("committing", next)?;
    let named: Vec<String> = workspace.log().cached(|state| state.notes().to_vec()).unwrap();
    for note in before.keys() {
        let name = note.rsplit('/').next().unwrap_or_default();
        match named.iter().filter(|n| *n == name).count() {
            1 => {}
            count => return Err(format!("{count} RecoveryMarks name {name}: {named:?}")),
        }
    }
    Ok(())
}
