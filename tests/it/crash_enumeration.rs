//! Every crash of every small program: at every call, whatever a power cut may leave, and a mere kill.

#![expect(clippy::indexing_slicing, clippy::cast_possible_truncation, reason = "a test, all of it")]

use std::path::Path;

use foldlog::Durability;
use foldlog::vfs::sim::{CrashModel, DiskState, Fill, Piece, Profile, Rng, SimMachine, Torn};
use foldlog::vfs::{Open, Vfs as _};

use super::crash_oracle::{Program, ROOT, Size, Spec, Step, examine, run};

/// How much to do: 1 in the default run, less with FOLDLOG_QUICK, more with FOLDLOG_CRASH_STATES (states, roughly) or
/// FOLDLOG_SIM_SCHEDULES (2000 there is 4 here).
pub(crate) fn scale() -> f64 {
    let number = |name: &str| std::env::var(name).ok().and_then(|v| v.parse::<f64>().ok());
    if let Some(states) = number("FOLDLOG_CRASH_STATES") {
        return states / STATES_MIN as f64;
    }
    if let Some(schedules) = number("FOLDLOG_SIM_SCHEDULES") {
        return (schedules / 500.0).max(1.0);
    }
    if std::env::var_os("FOLDLOG_QUICK").is_some() { 0.1 } else { 1.0 }
}

/// Programs and states that the default run looked at when this was written (a little fewer, as calls come and go).
const PROGRAMS_MIN: usize = 298;
const STATES_MIN: usize = 16_000;
/// The same for FOLDLOG_QUICK.
const QUICK_MIN: (usize, usize) = (25, 1_300);

fn specs() -> Vec<Spec> {
    let mut specs = Vec::new();
    let durabilities = [Durability::Buffered, Durability::Durable, Durability::Interval(50)];
    for size in Size::ALL {
        for durability in durabilities {
            let i = specs.len();
            specs.push(Spec {
                size,
                durability,
                op: i % 2 == 0,
                events: 1 + usize::from(i % 3 == 0) * 2,
                conditional: i % 4 == 1,
            });
        }
    }
    for durability in [Durability::Buffered, Durability::Durable] {
        specs.push(Spec { size: Size::Tiny, durability, op: true, events: 0, conditional: false });
    }
    specs
}

/// Programs of one, two and three commits: all of one and two, and a seeded part of those of three.
fn programs(rng: &mut Rng, threes: usize) -> Vec<Program> {
    let specs = specs();
    let commit = |i: usize| Step::Commit(specs[i]);
    let mut programs = Vec::new();
    let mut add = |fresh: bool, steps: Vec<Step>| {
        let reserve = programs.len() % 2 == 0;
        programs.push(Program { fresh, segment_size: 4096, reserve, steps });
    };
    for i in 0..specs.len() {
        add(i % 5 == 0, vec![commit(i)]);
        add(false, vec![commit(i), Step::Quiet]);
        add(false, vec![commit(i), Step::Close]);
        for j in 0..specs.len() {
            let between = [None, Some(Step::Quiet), Some(Step::Close), Some(Step::Kill)][(i * 3 + j) % 4];
            let mut steps = vec![commit(i)];
            steps.extend(between.filter(|_| (i + j) % 3 != 0));
            steps.push(commit(j));
            add((i + j) % 29 == 0, steps);
        }
    }
    for _ in 0..threes {
        let mut steps = Vec::new();
        for _ in 0..3 {
            steps.push(commit(rng.index(specs.len())));
            match rng.index(8) {
                0 => steps.push(Step::Quiet),
                1 => steps.push(Step::Close),
                2 => steps.push(Step::Kill),
                _ => {}
            }
        }
        add(false, steps);
    }
    programs
}

#[test]
fn every_crash_recovers() {
    let scale = scale();
    let times = |n: usize| ((n as f64 * scale) as usize).max(1);
    let mut rng = Rng::new(2024);
    let mut programs = programs(&mut rng, times(60));
    if scale < 1.0 {
        let step = (1.0 / scale) as usize;
        programs = programs.into_iter().step_by(step).collect();
    }
    let worst = CrashModel::adversarial();
    let linux = Profile::Linux.crash_model();
    let others = [
        (Profile::Linux, linux),
        (Profile::Linux, linux.with_piece(Piece::Page4K).with_torn(Torn::Sectors)),
        (Profile::Linux, linux.with_fill(Fill::Garbage)),
        (Profile::Mac, Profile::Mac.crash_model()),
        (Profile::Windows, Profile::Windows.crash_model()),
        (Profile::Windows, Profile::Windows.crash_model().with_torn(Torn::Words).with_fill(Fill::Garbage)),
    ];
    let (mut states, mut kills, mut exhaustive, mut boundaries) = (0, 0, 0, 0);
    for (p, program) in programs.iter().enumerate() {
        let (profile, model) =
            if p % 3 == 2 { others[p / 3 % others.len()] } else { (Profile::Linux, worst) };
        let ran = run(program, profile, p as u64);
        let mut seen = std::collections::HashSet::new();
        for (b, boundary) in ran.record.boundaries.iter().enumerate() {
            boundaries += 1;
            let marks = ran.record.marks_at(boundary);
            let mut left = boundary.disk.crash_states_with(&model, times(3).max(3), &mut rng);
            exhaustive += usize::from(left.is_exhaustive());
            let mut go = |disk: &foldlog::vfs::sim::DiskState, power_cut: bool| {
                if !seen.insert((disk.content_hash(), disk.boots(), marks.len())) {
                    return false;
                }
                let seed = (p * 1000 + b) as u64;
                let depth = usize::from((p + b) % 16 == 0 || (program.fresh && !power_cut));
                if let Err(why) = examine(disk, &ran, marks, power_cut, seed, depth) {
                    panic!(
                        "{why}\n  program {p} {program:?}\n  on {profile:?} with {model:?}\n  crash before {:?}, {}\n  marks {marks:?}",
                        boundary.call,
                        disk.origin()
                    );
                }
                true
            };
            for disk in left.by_ref() {
                states += usize::from(go(&disk, true));
            }
            if (p + b) % 4 == 0 {
                kills += usize::from(go(&boundary.disk.process_kill(), false));
            }
        }
    }
    println!(
        "{} programs x {states} power cuts + {kills} kills at {boundaries} calls ({exhaustive} exhaustively)",
        programs.len()
    );
    let (programs_min, states_min) = if scale < 1.0 { QUICK_MIN } else { (PROGRAMS_MIN, STATES_MIN) };
    assert!(programs.len() >= programs_min, "{} programs, fewer than recorded", programs.len());
    assert!(states + kills >= states_min, "{} states, fewer than recorded", states + kills);
}

/// The smallest programs whole: at every call, every subset of pieces and names that a power cut may leave.
///
/// One, two and three commits of one small event each, in every combination of durabilities, 512-byte pieces.
#[test]
fn every_crash_of_the_smallest_programs_recovers() {
    const CHOICES_MAX: usize = 1 << 16;
    const MIN: (usize, usize, usize) = (39, 6_000, 3_000);
    let spec = |durability| Spec { size: Size::Tiny, durability, op: false, events: 1, conditional: false };
    let commits =
        [Durability::Buffered, Durability::Durable, Durability::Interval(50)].map(|d| Step::Commit(spec(d)));
    let mut programs: Vec<Vec<Step>> = vec![vec![]];
    let mut all = Vec::new();
    for _ in 0..3 {
        programs =
            programs.iter().flat_map(|p| commits.map(|c| p.iter().copied().chain([c]).collect())).collect();
        all.extend(programs.iter().cloned());
    }
    let quick = scale() < 1.0;
    let model = Profile::Linux.crash_model().with_piece(Piece::B512).with_torn(Torn::Never);
    let mut rng = Rng::new(7);
    let (mut choices, mut states, mut calls, mut ran_programs) = (0, 0, 0, 0);
    for (p, steps) in all.into_iter().enumerate().filter(|(p, _)| !quick || p % 4 == 0) {
        let program = Program { fresh: false, segment_size: 4096, reserve: p % 2 == 0, steps };
        let ran = run(&program, Profile::Linux, p as u64);
        ran_programs += 1;
        let mut seen = std::collections::HashSet::new();
        for (b, boundary) in ran.record.boundaries.iter().enumerate() {
            calls += 1;
            let marks = ran.record.marks_at(boundary);
            let left = with_sessions_settled(&boundary.disk).crash_states_with(&model, CHOICES_MAX, &mut rng);
            assert!(left.is_exhaustive(), "program {p}, call {b}: {:?} choices", left.combinations());
            for disk in left {
                choices += 1;
                if !seen.insert((log_hash(&disk), marks.len())) {
                    continue;
                }
                states += 1;
                if let Err(why) = examine(&disk, &ran, marks, true, (p * 1000 + b) as u64, 0) {
                    panic!(
                        "{why}\n  program {p} {program:?}\n  crash before {:?}, {}",
                        boundary.call,
                        disk.origin()
                    );
                }
            }
        }
    }
    println!(
        "{ran_programs} smallest programs x {choices} power cuts ({states} logs) at {calls} calls: all there are"
    );
    assert!(quick || (ran_programs >= MIN.0 && choices >= MIN.1 && states >= MIN.2), "fewer than recorded");
}

/// The disk with everything in `sessions/` durable: who was alive is over after a power cut, so states that differ there
/// alone count as one, and there would be a great many.
fn with_sessions_settled(disk: &DiskState) -> DiskState {
    let machine = SimMachine::from_disk(disk, 1);
    let process = machine.process("settler");
    let dir = Path::new(ROOT).join("sessions");
    for entry in process.list(&dir).unwrap_or_default() {
        // A file that goes on being locked is not written either.
        let _ = process.open(&dir.join(&entry.name), Open::Write).and_then(|file| file.sync_data());
    }
    let _ = process.sync_dir(&dir);
    machine.disk()
}

/// A hash of all names and contents but those of the sessions.
fn log_hash(disk: &DiskState) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new();
    for (path, _, len) in disk.tree() {
        if !path.contains("/sessions/") {
            hasher
                .update(path.as_bytes())
                .update(&len.to_le_bytes())
                .update(&disk.read(&path).unwrap_or_default());
        }
    }
    hasher.finalize()
}
