//! Many processes on one store, one call at a time in an order that a seed decides: killed, stopped, starved of space,
//! with failing syncs, power cuts and scrambled control blocks, several crashes in a row. In the calm that follows all
//! commits get through, and then a survivor looks at what is there.
//!
//! A failing seed prints the command that runs it alone. `FOLDLOG_SIM_SCHEDULES` sets how many schedules are run, from
//! seed `FOLDLOG_SIM_FIRST` on; `FOLDLOG_SIM_SEED` runs one, and prints every call.

mod book;
mod programs;
mod weather;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use foldlog::log::{KeepLock, Mapping};
use foldlog::vfs::sim::{
    CrashModel, End, Kill, Outcome, Plan, Profile, Program, Rng, SimMachine, SimProcess,
};
use foldlog::vfs::{Vfs, os::Os};
use foldlog::{Durability, Options, Recovery, State, Status};
use parking_lot::Mutex;

use crate::simulated::{budget, log_of, open_on, options, paths, put, quick};
use book::{Notes, audit};
use programs::{Session, Setup, enter, level, look, reader, writer};
use weather::{Climate, clear};

/// Schedules run by default, and fewest that the test may come down to, whatever becomes of the budgets.
const SCHEDULES: u64 = 6_000;
const SCHEDULES_MIN: u64 = 200;
/// What a survivor may take to open the store and commit at every level.
const SURVIVOR_STEPS: u64 = 3_000;

/// What a schedule was, for its failure's message, and how much of it there was.
#[derive(Default)]
struct Told {
    story: Vec<String>,
    sum: Sum,
}

#[derive(Default)]
struct Sum {
    steps: u64,
    kills: u64,
    cuts: u64,
    recut: u64,
    calms: u64,
    commits: u64,
    recovered: u64,
    rotations: u64,
    healed: u64,
    snapshots: u64,
    by_snapshot: u64,
    /// The most calls of a commit in the calm, buffered and synced, at any time, and the most steps of a survivor.
    calls: [u64; 4],
}

impl Sum {
    fn add(&mut self, other: &Sum) {
        self.steps += other.steps;
        self.kills += other.kills;
        self.cuts += other.cuts;
        self.recut += other.recut;
        self.calms += other.calms;
        self.commits += other.commits;
        self.recovered += other.recovered;
        self.rotations += other.rotations;
        self.healed += other.healed;
        self.snapshots += other.snapshots;
        self.by_snapshot += other.by_snapshot;
        for (most, now) in self.calls.iter_mut().zip(other.calls) {
            *most = now.max(*most);
        }
    }
}

/// How each process of a schedule opens the store.
struct Ways {
    segment_size: u64,
    reserve: bool,
    maps: u64,
    keeps: bool,
    patience: Duration,
}

impl Ways {
    fn draw(rng: &mut Rng) -> Ways {
        Ways {
            segment_size: if rng.chance(1, 2) { 4096 } else { 1 << 20 },
            reserve: rng.chance(1, 2),
            maps: rng.below(4),
            keeps: rng.chance(1, 2),
            // Others sleep for a second at a time, and the clock goes with them: few tries fit into five.
            patience: Duration::from_millis(if rng.chance(1, 4) { 200 } else { 60_000 }),
        }
    }

    fn setup(&self, rng: &mut Rng) -> Setup {
        let keeps = self.keeps && rng.chance(3, 4);
        let mapping = if self.maps == 1 && rng.chance(1, 2) { Mapping::Off } else { Mapping::Auto };
        let options = options()
            .segment_size(self.segment_size)
            .reserve(self.reserve && rng.chance(3, 4))
            .mapping(mapping)
            .keep_lock(if keeps { KeepLock::UntilTick } else { KeepLock::Never })
            .lock_timeout(self.patience);
        Setup { options, keeps }
    }
}

/// Kills and power cuts within the first calls, where those who come after a power cut mend what it left.
fn during_recovery(rng: &mut Rng, labels: &[&str]) -> Plan {
    let calls = [30, 80, 160][rng.index(3)];
    let mut plan = Plan::new();
    for label in labels {
        let when = [Kill::Before, Kill::Half, Kill::After][rng.index(3)];
        if rng.chance(1, 2) {
            plan = plan.kill(*label, 1 + rng.below(calls), when);
        }
    }
    if rng.chance(1, 2) { plan.power_cut(1 + rng.below(calls * 2)) } else { plan }
}

fn schedule(seed: u64, told: &mut Told) -> Result<(), String> {
    let mut rng = Rng::new(seed);
    let profile =
        [Profile::Linux, Profile::Linux, Profile::Linux, Profile::Mac, Profile::Windows][rng.index(5)];
    let model = if rng.chance(1, 3) && profile != Profile::Windows {
        CrashModel::adversarial()
    } else {
        profile.crash_model()
    };
    let ways = Ways::draw(&mut rng);
    let words = rng.chance(1, 3);
    let climate = Climate {
        disk: rng.chance(1, 3),
        syncs: rng.chance(1, 3),
        words,
        beyond: words && rng.chance(1, 16),
        told_to_one: profile != Profile::Linux,
        windows: profile == Profile::Windows,
    };
    let mut machine = SimMachine::new(profile, seed);
    machine.set_maps(ways.maps != 2);
    let notes = Notes::default();
    let book = &notes;
    book.lock().windows = climate.windows;
    book.lock().many_syncs = climate.syncs;
    book.lock().impatient = ways.patience < Duration::from_secs(5);
    told.story.push(format!("{profile:?}, {climate:?}, {:?}", ways.setup(&mut rng.clone()).options));
    let traced = std::env::var_os("FOLDLOG_SIM_SEED").is_some();
    let mut cut_before = false;
    for phase in 0..1 + rng.below(4) {
        book.lock().calm = false;
        if rng.chance(1, 2)
            && let Some(fault) = climate.disk_fault(book, &machine, &mut rng)
        {
            told.story.push(fault);
        }
        if rng.chance(1, 8) {
            machine.set_lock_linger(u32::try_from(rng.below(20)).unwrap());
            book.lock().linger = true;
        }
        let names: Vec<String> = (0..2 + rng.below(3)).map(|i| format!("{phase}-{i}")).collect();
        let labels: Vec<&str> = names.iter().map(String::as_str).collect();
        let recovering = cut_before && rng.chance(1, 2);
        let mut plan = Plan::new();
        if recovering {
            told.sum.recut += 1;
            plan = during_recovery(&mut rng, &labels);
        } else if rng.chance(7, 8) {
            plan = Plan::seeded(rng.next_u64(), &labels, [60, 150, 400][rng.index(3)]);
        }
        if !traced {
            plan = plan.without_trace();
        }
        let ends_calm = rng.chance(1, 2);
        let mut programs = Vec::new();
        for (i, name) in names.iter().enumerate() {
            let (seed, reads) = (rng.next_u64(), i > 0 && rng.chance(1, 3));
            let setup = ways.setup(&mut rng);
            programs.push(Program::new(name.clone(), move |process| match reads {
                true => reader(book, &process, seed, &setup),
                false => writer(book, &process, seed, &setup, ends_calm),
            }));
        }
        if ends_calm || (climate.words || climate.syncs || climate.disk) && rng.chance(3, 4) {
            let seed = rng.next_u64();
            let storm = move |process: SimProcess| climate.storm(book, &process, seed, ends_calm);
            programs.push(Program::new(format!("{phase}-storm"), storm));
        }
        let run = machine.run(rng.next_u64(), programs, &plan);
        told.sum.steps += run.steps;
        told.sum.kills += run.ends.iter().filter(|(_, end)| *end == End::Killed).count() as u64;
        told.sum.calms += u64::from(book.lock().calm);
        if traced {
            told.story.extend(run.trace.iter().map(|call| format!("  {call}")));
        }
        told.story.push(run.to_string());
        if let Some(panic) = run.panics().first() {
            return Err((*panic).to_owned());
        }
        if run.outcome == Outcome::StepLimit {
            return Err("somebody waits for ever".into());
        }
        // A process's session, and one lock beside it: nothing is synced in a lane under LOCK, but by a recovery, which
        // keeps everybody out of both lanes.
        if machine.locks_at_sync() > 2 && machine.locks_at_sync() != 4 {
            return Err(format!("{} locks were held at a sync", machine.locks_at_sync()));
        }
        let cut_anyway = rng.chance(if climate.syncs { 2 } else { 1 }, 4);
        cut_before = run.outcome == Outcome::PowerCut || cut_anyway;
        if cut_before {
            let states: Vec<_> =
                machine.disk().crash_states_with(&model, 1 + rng.index(12), &mut rng).collect();
            let disk = &states[rng.index(states.len())];
            told.story.push(disk.origin().to_owned());
            told.sum.cuts += 1;
            machine.kill_all();
            machine = SimMachine::from_disk(disk, rng.next_u64());
            machine.set_maps(ways.maps != 2);
            book.lock().boot += 1;
        }
        clear(&machine);
        book.lock().faults = false;
    }
    survive(&machine, book, &ways.setup(&mut rng), told)
}

/// Everything is well again: a newcomer opens, commits at every level in few steps, and all that was promised is there.
fn survive(machine: &SimMachine, book: &Notes, setup: &Setup, told: &mut Told) -> Result<(), String> {
    machine.set_lock_linger(0);
    book.lock().calm = true;
    let program = Program::new("survivor", |process| {
        let who = "survivor";
        enter(book, who, &process);
        let (_store, workspace) = open_on(&process, setup.options.clone()).unwrap();
        let mut last = 0;
        look(book, who, &workspace, &mut last);
        if book.lock().beyond {
            return;
        }
        // Whatever sync has failed before, opening has copied the log forward, unless a dead process's lock lingered.
        if workspace.health().status == Status::DurabilityLost {
            workspace.flush().unwrap();
        }
        assert_eq!(workspace.health().status, Status::Healthy, "{:?}", workspace.health());
        let mut rng = Rng::new(1);
        let mut session =
            Session { book, process: &process, who, workspace: &workspace, tickets: Vec::new() };
        for n in 0..6 {
            let level = level(book, &mut rng);
            session.commit(n, level, &mut rng);
        }
        let _ = put(&workspace, Durability::Durable, "end", "end").unwrap();
        look(book, who, &workspace, &mut last);
        workspace.close().unwrap();
    });
    let run = machine.run(0, vec![program], &Plan::new().step_limit(SURVIVOR_STEPS));
    if let Some(panic) = run.panics().first() {
        return Err((*panic).to_owned());
    }
    if run.outcome != Outcome::Done {
        return Err(format!("the survivor does not get through: {run}"));
    }
    let process = machine.process("auditor");
    let hash = |options: Options| {
        let (_store, workspace) = open_on(&process, options.read_only(true)).map_err(|e| e.to_string())?;
        workspace.read(State::hash).map_err(|e| e.to_string())
    };
    // By the newest snapshot, if there is one, and by none.
    if !book.lock().beyond
        && hash(setup.options.clone())? != hash(setup.options.clone().recovery(Recovery::Salvage))?
    {
        return Err("the snapshot says something else than the log".into());
    }
    let (items, walk) = log_of(&process).map_err(|e| e.to_string())?;
    told.sum.recovered += walk.segments.iter().filter(|s| s.header.generation > 0).count() as u64;
    told.sum.rotations += walk.segments.len() as u64 - 1;
    told.sum.healed += process.list(&paths(&process).quarantine()).map_err(|e| e.to_string())?.len() as u64;
    let book = book.lock();
    told.sum.commits += book.acks.len() as u64;
    told.sum.snapshots += book.snapshots;
    told.sum.by_snapshot += book.by_snapshot;
    told.sum.calls = [book.calm_calls[0], book.calm_calls[1], book.calls, run.steps];
    if let Some(damage) = walk.damage.or(walk.too_new).filter(|_| !book.beyond) {
        return Err(format!("crashes alone have left damage: {damage}"));
    }
    audit(&book, &items)
}

fn reproduce(seed: u64) -> String {
    format!("FOLDLOG_SIM_SEED={seed} cargo test --profile sim --test it sim_processes -- --nocapture")
}

fn run_seed(seed: u64) -> (Told, Option<String>) {
    let mut told = Told::default();
    let failed = match catch_unwind(AssertUnwindSafe(|| schedule(seed, &mut told))) {
        Ok(answer) => answer.err(),
        Err(payload) => Some(payload.downcast_ref::<String>().cloned().unwrap_or_else(|| "a panic".into())),
    };
    (told, failed)
}

/// Seeds that have found something, run before all others. What they find again follows from the calls that are made, and these
/// change: the tests of their own are in `crash_forward`, `control_losses` and `recovery_beside`.
const FOUND: [u64; 6] = [606_416, 671_155, 672_723, 177_149, 4_025_616, 10_053_703];

pub(crate) fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

/// Keeps this thread, and all that it starts, on one processor: of a schedule's threads only one ever runs, and handing
/// over costs a third where nobody has to be woken elsewhere. Where that cannot be had, only time is lost.
pub(crate) fn stay_on(nth: usize) {
    #[cfg(target_os = "linux")]
    if let Ok(allowed) = rustix::thread::sched_getaffinity(None) {
        let mut cpus = (0..rustix::thread::CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu));
        if let Some(cpu) = cpus.nth(nth) {
            let mut one = rustix::thread::CpuSet::new();
            one.set(cpu);
            let _ = rustix::thread::sched_setaffinity(None, &one);
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = nth;
}

#[test]
fn killed_stopped_and_cut_off_processes_keep_every_promise() {
    if let Some(seed) = number("FOLDLOG_SIM_SEED") {
        let (told, failed) = run_seed(seed);
        println!("{}", told.story.join("\n"));
        assert_eq!(failed, None, "{}", reproduce(seed));
        return;
    }
    let schedules = budget(SCHEDULES);
    let first = number("FOLDLOG_SIM_FIRST").unwrap_or(1);
    // Of a campaign with many failures every one is wanted.
    let failures_max = number("FOLDLOG_SIM_FAILURES").unwrap_or(3) as usize;
    let start = Os.monotonic();
    let total = Mutex::new((Sum::default(), Vec::<u64>::new()));
    let next = Mutex::new(0_u64);
    let run = |cpu| {
        stay_on(cpu);
        loop {
            let seed = {
                let mut next = next.lock();
                if *next == schedules || total.lock().1.len() >= failures_max {
                    return;
                }
                *next += 1;
                let nth = usize::try_from(*next - 1).unwrap_or(usize::MAX);
                FOUND.get(nth).copied().unwrap_or(first + *next - 1)
            };
            let (told, failed) = run_seed(seed);
            let mut total = total.lock();
            total.0.add(&told.sum);
            if let Some(why) = failed {
                eprintln!("{why}\n  {}\n  {}", told.story.join("\n  "), reproduce(seed));
                total.1.push(seed);
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| run(1));
        scope.spawn(|| run(0));
    });
    let (sum, failed) = total.into_inner();
    let seconds = Os.monotonic().saturating_sub(start).as_secs_f64();
    let ran = next.into_inner();
    let Sum {
        steps,
        kills,
        cuts,
        recut,
        calms,
        commits,
        recovered,
        rotations,
        healed,
        snapshots,
        by_snapshot,
        calls,
    } = sum;
    println!(
        "{ran} schedules in {seconds:.0} s ({:.0}/s): {steps} steps, {kills} kills, {cuts} power cuts and {recut} recoveries under fire, {calms} calms, {commits} commits acknowledged, {recovered} recoveries, {rotations} rotations, {healed} files in quarantine, {snapshots} snapshots and {by_snapshot} opened by one; most calls of a commit in the calm {} buffered, {} synced, {} at any time; {} of a survivor",
        ran as f64 / seconds,
        calls[0],
        calls[1],
        calls[2],
        calls[3],
    );
    assert!(failed.is_empty(), "seeds {failed:?}; {}", reproduce(failed[0]));
    let least = if quick() { SCHEDULES_MIN / 4 } else { SCHEDULES_MIN };
    assert!(ran >= least, "only {ran} schedules were run, {least} are the least that says anything");
    // A test that kills nobody proves nothing.
    assert!(kills * 2 > ran && cuts * 4 > ran && commits > ran * 4, "the schedules have become tame");
    assert!(
        rotations * 8 > ran
            && recovered * 100 > ran
            && healed > 0
            && calms * 4 > ran
            && recut * 16 > ran
            && snapshots * 4 > ran
            && by_snapshot * 8 > ran,
        "the schedules have become tame"
    );
}
