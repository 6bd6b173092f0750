//! Many processes that take tasks over, delegate, complete, abandon and die, one call at a time in an order that a seed
//! decides: killed, stopped and gone on, with power cuts between. What was acknowledged is held against the log, which is
//! read and folded here anew ([`audit`]); and what a survivor finds in the end.
//!
//! A failing seed prints the command that runs it alone. `FOLDLOG_SIM_SCHEDULES` sets how many schedules are run, from
//! seed `FOLDLOG_SIM_FIRST` on; `FOLDLOG_SIM_SEED` runs one, and prints every call.

mod audit;
mod window;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use foldlog::event::{Event, Fence, TaskId};
use foldlog::log::{Durability, Seq};
use foldlog::session::{Info, Liveness};
use foldlog::task::{Op, TaskStore, Tasks};
use foldlog::vfs::Vfs;
use foldlog::vfs::sim::{CrashModel, End, Outcome, Plan, Profile, Program, Rng, SimMachine, SimProcess};
use foldlog::view::Index;
use foldlog::{Result, Store};
use parking_lot::Mutex;

use crate::sim_processes::{number, stay_on};
use crate::simulated::{ROOT, budget, file, options, place, quick};
use crate::task_rules::{id, item};
use audit::{Ledger, audit};
use window::window;

/// Schedules run by default, and fewest that say anything.
const SCHEDULES: u64 = 2_400;
const SCHEDULES_MIN: u64 = 200;

/// The tasks that are there from the beginning: parents, and what everybody wants to run.
const PARENTS: [&str; 2] = ["p0", "p1"];
const SHARED: [&str; 3] = ["t0", "t1", "t2"];

/// How often what happened.
#[derive(Clone, Copy, Default)]
pub(crate) struct Sum {
    kills: u64,
    cuts: u64,
    commits: u64,
    fenced: u64,
    owned: u64,
    attached: u64,
    taken_over: u64,
    repaired: u64,
    abandoned: u64,
    survived: u64,
}

impl Sum {
    fn add(&mut self, other: Sum) {
        self.kills += other.kills;
        self.cuts += other.cuts;
        self.commits += other.commits;
        self.fenced += other.fenced;
        self.owned += other.owned;
        self.attached += other.attached;
        self.taken_over += other.taken_over;
        self.repaired += other.repaired;
        self.abandoned += other.abandoned;
        self.survived += other.survived;
    }
}

/// What the processes have been told, for as long as no power is cut.
#[derive(Default)]
pub(crate) struct Book {
    /// For each session, up to which event it has seen the log while it was alive.
    pub(crate) seen: BTreeMap<u64, u64>,
    pub(crate) acks: Vec<Ack>,
    pub(crate) sum: Sum,
}

/// An accepted commit of somebody who held a task.
#[derive(Clone, Debug)]
pub(crate) struct Ack {
    pub(crate) first: Seq,
    pub(crate) task: TaskId,
    pub(crate) fence: Fence,
    /// What it wrote, where that can be told from anybody else's.
    pub(crate) token: Option<String>,
}

type Notes = Mutex<Book>;

fn open(process: &SimProcess, label: &str) -> Result<(TaskStore, Tasks)> {
    let options = TaskStore::options(options().label(label));
    let store = TaskStore::of(Store::open_on(Arc::new(process.clone()), Path::new(ROOT), options)?);
    let tasks = store.home(&place())?;
    Ok((store, tasks))
}

fn session_of(tasks: &Tasks) -> u64 {
    tasks.workspace().log().session().unwrap().id()
}

fn founded(profile: Profile, seed: u64) -> SimMachine {
    let machine = SimMachine::new(profile, seed);
    let (store, tasks) = open(&machine.process("founder"), "founder").unwrap();
    let create = |name: &&str| Op::Create { item: item(&format!("{{\"id\":\"{name}\"}}")), again: false };
    let _ = tasks.commit(PARENTS.iter().chain(&SHARED).map(create).collect(), Durability::Durable).unwrap();
    drop((tasks, store));
    machine.sync_all();
    machine
}

#[derive(Default)]
struct Told {
    story: Vec<String>,
    sum: Sum,
}

fn schedule(seed: u64, told: &mut Told) -> std::result::Result<(), String> {
    let mut rng = Rng::new(seed);
    let profile = [Profile::Linux, Profile::Linux, Profile::Mac, Profile::Windows][rng.index(4)];
    let model = if rng.chance(1, 2) && profile != Profile::Windows {
        CrashModel::adversarial()
    } else {
        profile.crash_model()
    };
    let windows = profile == Profile::Windows;
    let mut machine = founded(profile, seed);
    let notes = Notes::default();
    let book = &notes;
    told.story.push(format!("{profile:?}"));
    let traced = std::env::var_os("FOLDLOG_SIM_SEED").is_some();
    for phase in 0..1 + rng.below(3) {
        if windows && rng.chance(1, 2) {
            machine.set_lock_linger(u32::try_from(rng.below(20)).unwrap());
        }
        let names: Vec<String> = (0..2 + rng.below(3)).map(|i| format!("{phase}-{i}")).collect();
        let labels: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut plan = Plan::seeded(rng.next_u64(), &labels, [150, 500, 1500][rng.index(3)]);
        if !traced {
            plan = plan.without_trace();
        }
        let programs = names.iter().enumerate().map(|(i, name)| {
            let (seed, after) = (rng.next_u64(), i > 1 && rng.chance(1, 3));
            let program = Program::new(name.clone(), move |process| window(book, &process, seed, windows));
            // Some come when another has gone, however it went.
            if after { program.after(names[i - 1].clone()) } else { program }
        });
        let programs = programs.collect();
        let run = machine.run(rng.next_u64(), programs, &plan);
        book.lock().sum.kills += run.ends.iter().filter(|(_, end)| *end == End::Killed).count() as u64;
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
        machine.kill_all();
        let ledger = Ledger::read(&machine.process("auditor"))?;
        audit(&ledger, &mut book.lock())?;
        if run.outcome == Outcome::PowerCut || rng.chance(1, 4) {
            let states: Vec<_> =
                machine.disk().crash_states_with(&model, 1 + rng.index(12), &mut rng).collect();
            let disk = &states[rng.index(states.len())];
            told.story.push(disk.origin().to_owned());
            machine = SimMachine::from_disk(disk, rng.next_u64());
            // What comes now may have the numbers of what is gone.
            let mut book = book.lock();
            book.sum.cuts += 1;
            book.seen.clear();
            book.acks.clear();
        }
    }
    machine.set_lock_linger(0);
    // A session's lock that lingers proves nothing, and LOCK that lingers is waited for by a commit only: it is the next open
    // that mends then.
    for n in 0..if windows { 6 } else { 0 } {
        let early = open(&machine.process("early"), "early").map_err(|e| format!("open {n}: {e}"))?;
        // Each question counts, and each try.
        let _ = early.1.commit(Vec::new(), Durability::Buffered);
        let _ = early.0.store().live_sessions().map_err(|e| format!("open {n}: {e}"))?;
    }
    survive(&machine, book)?;
    told.sum = book.lock().sum;
    Ok(())
}

/// Nobody lives but one newcomer, and later another: everything is mended by having opened, once; all can be taken over; and
/// of the dead nothing is left that is not needed.
fn survive(machine: &SimMachine, book: &Notes) -> std::result::Result<(), String> {
    let said = |e: foldlog::Error| e.to_string();
    let (store, tasks) = open(&machine.process("survivor"), "survivor").map_err(said)?;
    let orphans = tasks.orphans().map_err(said)?;
    if orphans.iter().any(|orphan| orphan.dead) {
        return Err(format!("the open has not mended {orphans:?}"));
    }
    let owned = |index: &Index| -> Vec<(TaskId, Fence)> {
        index.tasks().filter_map(|task| Some((task.id.clone(), task.owner()?))).collect()
    };
    let owners = tasks.read(|_, index| owned(index)).map_err(said)?;
    for (task, owner) in &owners {
        let liveness = store.store().liveness(owner.session).map_err(said)?.0;
        if liveness != Liveness::Dead {
            return Err(format!("{task} is held by {owner}, which is {}", liveness.name()));
        }
    }
    let ledger = Ledger::read(&machine.process("auditor"))?;
    if let Some((task, child)) = ledger.waiting().find(|(_, child)| ledger.owner(child).is_some()) {
        return Err(format!("{task} still waits for {child}, which is {:?}'s", ledger.owner(child)));
    }
    book.lock().sum.survived += ledger.tasks();
    let look = |tasks: &Tasks| tasks.read(|state, _| (state.last(), state.hash())).map_err(said);
    let (next, again) = open(&machine.process("next"), "next").map_err(said)?;
    if look(&tasks)? != look(&again)? {
        return Err("the next open has another state, or has mended something more".into());
    }
    drop((again, next));
    for (task, owner) in owners {
        let (fence, _) = tasks.attach(&task, Durability::Buffered).map_err(said)?;
        if fence.session != session_of(&tasks) || fence.number <= owner.number {
            return Err(format!("{task} went from {owner} to {fence}"));
        }
    }
    tasks.workspace().flush().map_err(said)?;
    // All is the survivor's, durably: whoever went before it is forgotten by the next open.
    let last = open(&machine.process("last"), "last").map_err(said)?;
    let process = machine.process("janitor");
    let dir = Path::new(ROOT).join("sessions");
    for entry in process.list(&dir).map_err(|e| e.to_string())? {
        let Some(name) = entry.name.strip_suffix(".dead") else { continue };
        let path = dir.join(format!("{name}.info"));
        // Of one whose info is lost nobody knows what it owned.
        let info = process.stat(&path).ok().and_then(|_| Info::decode(&file(&process, &path)));
        if let Some(info) = info {
            return Err(format!("{info} owns nothing, and its files stand"));
        }
    }
    drop(last);
    let findings = tasks.check().map_err(said)?;
    if findings.is_empty() { Ok(()) } else { Err(format!("{findings:?}")) }
}

/// What an event says of who runs a task, and what a repair looks like.
fn is_repair(event: &Event) -> bool {
    matches!(event, Event::StatusChanged { cause, .. } if ["orphaned", "mended"].contains(&cause.name()))
}

fn reproduce(seed: u64) -> String {
    format!("FOLDLOG_SIM_SEED={seed} cargo test --profile sim --test it sim_ownership -- --nocapture")
}

fn run_seed(seed: u64) -> (Told, Option<String>) {
    let mut told = Told::default();
    let failed = match catch_unwind(AssertUnwindSafe(|| schedule(seed, &mut told))) {
        Ok(answer) => answer.err(),
        Err(payload) => Some(payload.downcast_ref::<String>().cloned().unwrap_or_else(|| "a panic".into())),
    };
    (told, failed)
}

#[test]
fn tasks_have_one_owner_whoever_dies() {
    if let Some(seed) = number("FOLDLOG_SIM_SEED") {
        let (told, failed) = run_seed(seed);
        println!("{}", told.story.join("\n"));
        assert_eq!(failed, None, "{}", reproduce(seed));
        return;
    }
    let (schedules, first) = (budget(SCHEDULES), number("FOLDLOG_SIM_FIRST").unwrap_or(1));
    let failures_max = number("FOLDLOG_SIM_FAILURES").unwrap_or(3) as usize;
    let total = Mutex::new((Sum::default(), Vec::<u64>::new(), 0));
    let run = |cpu| {
        stay_on(cpu);
        loop {
            let seed = {
                let mut total = total.lock();
                if total.2 == schedules || total.1.len() >= failures_max {
                    return;
                }
                total.2 += 1;
                first + total.2 - 1
            };
            let (told, failed) = run_seed(seed);
            let mut total = total.lock();
            total.0.add(told.sum);
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
    let (sum, failed, ran) = total.into_inner();
    let Sum { kills, cuts, commits, fenced, owned, attached, taken_over, repaired, abandoned, survived } =
        sum;
    println!(
        "{ran} schedules: {kills} kills, {cuts} power cuts, {commits} commits acknowledged, {attached} attached, {taken_over} of them taken from the dead, {repaired} repairs, {abandoned} abandoned, {fenced} late commits fenced, {owned} refused because the owner lives, {survived} tasks in the end"
    );
    assert!(failed.is_empty(), "seeds {failed:?}; {}", reproduce(failed[0]));
    let least = if quick() { SCHEDULES_MIN / 4 } else { SCHEDULES_MIN };
    assert!(ran >= least, "only {ran} schedules were run, {least} are the least that says anything");
    // A test in which nothing changes hands proves nothing.
    assert!(kills > ran / 2 && cuts > ran / 8 && commits > ran * 4, "the schedules have become tame");
    assert!(
        taken_over > ran / 4
            && repaired > ran / 4
            && fenced > ran / 4
            && owned > ran / 4
            && abandoned > ran / 4,
        "the schedules have become tame"
    );
}

fn task(name: &str) -> TaskId {
    id(name)
}
