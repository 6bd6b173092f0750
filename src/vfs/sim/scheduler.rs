//! Many processes, one at a time: each call is a step, and a seed decides who takes the next one.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, MutexGuard};

use super::faults::{Act, Call, Op};
use super::machine::{SimMachine, World, dead};
use super::process::SimProcess;
use super::rng::Rng;

/// Steps after which a schedule is given up, by default.
const STEPS_MAX: u64 = 100_000;
/// A thread that makes no call for this long is reported on stderr.
const SILENCE: Duration = Duration::from_secs(10);

/// What one simulated process does.
pub struct Program<'a> {
    label: String,
    after: Option<String>,
    main: Box<dyn FnOnce(SimProcess) + Send + 'a>,
}

impl fmt::Debug for Program<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Program({})", self.label)
    }
}

impl<'a> Program<'a> {
    /// A process of this name that runs `main` and then exits, which closes what it left open.
    pub fn new(label: impl Into<String>, main: impl FnOnce(SimProcess) + Send + 'a) -> Self {
        Program { label: label.into(), after: None, main: Box::new(main) }
    }

    /// Starts only when the program of that name has ended, by whatever cause: the successor of one that is killed.
    #[must_use]
    pub fn after(self, label: impl Into<String>) -> Self {
        Program { after: Some(label.into()), ..self }
    }
}

/// When, with regard to a call, a process is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kill {
    /// The call has no effect.
    Before,
    /// A write has written a part, chosen by the seed; any other call is as [`Kill::After`].
    Half,
    /// The call has its effect, but never returns.
    After,
}

/// What happens to the processes of a schedule from outside. Calls are counted from 1, for each process.
#[derive(Clone, Debug)]
pub struct Plan {
    kills: BTreeMap<(String, u64), Kill>,
    stalls: BTreeMap<(String, u64), Option<u64>>,
    power_cut: Option<u64>,
    step_limit: u64,
    trace: bool,
}

impl Default for Plan {
    fn default() -> Self {
        let (kills, stalls) = (BTreeMap::new(), BTreeMap::new());
        Plan { kills, stalls, power_cut: None, step_limit: STEPS_MAX, trace: true }
    }
}

impl Plan {
    /// Nothing happens; at most 100,000 steps.
    pub fn new() -> Self {
        Plan::default()
    }

    /// A random plan that is a function of its arguments alone: about half of the processes are killed or stopped
    /// at one of their first `calls` calls, and one plan in four cuts the power.
    pub fn seeded(seed: u64, labels: &[&str], calls: u64) -> Self {
        let mut rng = Rng::new(seed ^ 0x706c_616e);
        let mut plan = Plan::new();
        for label in labels {
            let at = 1 + rng.below(calls);
            plan = match rng.below(8) {
                0 => plan.kill(*label, at, Kill::Before),
                1 => plan.kill(*label, at, Kill::Half),
                2 => plan.kill(*label, at, Kill::After),
                3 => plan.stall(*label, at, Some(1 + rng.below(calls * 2))),
                _ => plan,
            };
        }
        if rng.chance(1, 4) { plan.power_cut(1 + rng.below(calls * labels.len() as u64)) } else { plan }
    }

    /// Kills a process at its `call`-th call.
    #[must_use]
    pub fn kill(mut self, label: impl Into<String>, call: u64, when: Kill) -> Self {
        self.kills.insert((label.into(), call), when);
        self
    }

    /// Stops a process before its `call`-th call, as SIGSTOP does, for this many steps of the others; `None` = for
    /// good.
    #[must_use]
    pub fn stall(mut self, label: impl Into<String>, call: u64, steps: Option<u64>) -> Self {
        self.stalls.insert((label.into(), call), steps);
        self
    }

    /// Kills all processes at once at this step. What is then on the disk is up to
    /// [`crash_states`](super::DiskState::crash_states) of the machine's disk.
    #[must_use]
    pub fn power_cut(mut self, step: u64) -> Self {
        self.power_cut = Some(step);
        self
    }

    /// Keeps no [`Run::trace`]: a schedule takes a third less time.
    #[must_use]
    pub fn without_trace(mut self) -> Self {
        self.trace = false;
        self
    }

    /// Gives up after this many steps.
    #[must_use]
    pub fn step_limit(mut self, steps: u64) -> Self {
        self.step_limit = steps;
        self
    }
}

/// How a schedule ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Every process returned, panicked, or was killed by plan.
    Done,
    /// The plan cut the power.
    PowerCut,
    /// The step limit was reached: the processes wait for each other, or the limit is too low.
    StepLimit,
    /// Everybody left is stopped for good, or waits for one who is.
    Stopped,
}

/// How a process ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// It returned.
    Returned,
    /// It was killed.
    Killed,
    /// It panicked, with this message.
    Panicked(String),
}

/// What happened in a schedule. Displayed, it says how to get it again.
#[must_use]
#[derive(Clone, Debug)]
pub struct Run {
    /// The seed it follows from.
    pub seed: u64,
    /// How it ended.
    pub outcome: Outcome,
    /// How each process ended, in the order of the programs.
    pub ends: Vec<(String, End)>,
    /// Every call that was made, in order, unless the plan is [without](Plan::without_trace).
    pub trace: Vec<Call>,
    /// How many steps were taken.
    pub steps: u64,
    plan: Plan,
}

impl Run {
    /// The messages of the processes that panicked.
    pub fn panics(&self) -> Vec<&str> {
        let ends = self.ends.iter().map(|(_, end)| end);
        ends.filter_map(|end| if let End::Panicked(m) = end { Some(m.as_str()) } else { None }).collect()
    }
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Run { seed, outcome, ends, steps, plan, .. } = self;
        write!(f, "seed {seed}: {outcome:?} after {steps} steps, {ends:?}, {plan:?}")
    }
}

/// The schedule in progress.
pub(crate) struct Sched {
    slots: Vec<Slot>,
    current: Option<usize>,
    rng: Rng,
    /// How often, out of 64, somebody else goes on.
    switch: u64,
    steps: u64,
    trace: Vec<Call>,
    plan: Plan,
    outcome: Option<Outcome>,
}

struct Slot {
    process: usize,
    label: Arc<str>,
    state: State,
    calls: u64,
    turn: Arc<Condvar>,
    end: Option<End>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Ready,
    /// Until the clock says so.
    Asleep(u64),
    /// Until that step.
    Stopped(Option<u64>),
    /// Until that slot is gone.
    Waiting(usize),
    Gone,
}

/// What a call may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    Go,
    /// Nothing: the process is dead.
    Killed,
    /// Run, or write only so many bytes, and then die.
    KilledAfter(Option<usize>),
}

/// The payload that unwinds a killed process.
struct Killed;

/// Ends the calling thread's process, or, where a destructor is calling, just says that it is dead.
pub(crate) fn die<T>() -> io::Result<T> {
    if std::thread::panicking() { Err(dead()) } else { resume_unwind(Box::new(Killed)) }
}

impl SimMachine {
    /// Runs programs as processes of this machine, one call at a time, until all have ended.
    ///
    /// Each runs on a thread of its own, but only one at a time: at every call (clocks and randomness excepted) the
    /// seed decides who goes on. Everything that happens follows from the seed, the plan, the programs, and the
    /// state and seed of the machine. A sleeper is woken when nobody else can run, and now and then before.
    ///
    /// # Blocking
    /// Programs must wait for each other by calls only. A mutex that two of them share must not be held over a
    /// call: the schedule would hang, which is reported on stderr after ten seconds. Threads that a program starts
    /// may make calls, but then the schedule is not a function of the seed.
    ///
    /// # Panics
    /// If another schedule is running on this machine, or a program comes [after](Program::after) none of these.
    pub fn run(&self, seed: u64, programs: Vec<Program<'_>>, plan: &Plan) -> Run {
        let mut rng = Rng::new(seed);
        let switch = [6, 20, 48].get(rng.index(3)).copied().unwrap_or(16);
        let processes: Vec<SimProcess> = programs.iter().map(|p| self.process(&p.label)).collect();
        let first = |program: &Program<'_>| match &program.after {
            None => State::Ready,
            Some(label) => {
                let slot = programs.iter().position(|p| p.label == *label);
                State::Waiting(slot.unwrap_or_else(|| panic!("no program {label} to come after")))
            }
        };
        let slots = processes.iter().zip(&programs).map(|(p, program)| Slot {
            process: p.id,
            label: p.label(),
            state: first(program),
            calls: 0,
            turn: Arc::default(),
            end: None,
        });
        let slots = slots.collect();
        {
            let mut world = self.inner.world.lock();
            assert!(world.sched.is_none(), "one schedule at a time");
            let (trace, plan) = (Vec::new(), plan.clone());
            world.sched =
                Some(Sched { slots, current: None, rng, switch, steps: 0, trace, plan, outcome: None });
            pass_on(&mut world);
        }
        std::thread::scope(|scope| {
            for (slot, (program, process)) in programs.into_iter().zip(&processes).enumerate() {
                scope.spawn(move || thread(slot, program, process.clone()));
            }
            self.watch();
        });
        let mut world = self.inner.world.lock();
        #[expect(clippy::expect_used, reason = "set above, and only taken here")]
        let sched = world.sched.take().expect("the schedule is there until its end");
        Run {
            seed,
            outcome: sched.outcome.unwrap_or(Outcome::Done),
            ends: sched
                .slots
                .into_iter()
                .map(|s| (s.label.to_string(), s.end.unwrap_or(End::Killed)))
                .collect(),
            trace: sched.trace,
            steps: sched.steps,
            plan: sched.plan,
        }
    }

    /// From here on nothing happens from outside: nobody is killed or stopped by the plan, the power is not cut, and
    /// whoever is stopped goes on.
    pub fn calm(&self) {
        let mut world = self.inner.world.lock();
        let Some(sched) = &mut world.sched else { return };
        sched.plan.kills.clear();
        sched.plan.stalls.clear();
        sched.plan.power_cut = None;
        for slot in &mut sched.slots {
            if let State::Stopped(until) = &mut slot.state {
                *until = Some(sched.steps);
            }
        }
    }

    /// How many steps the schedule in progress has taken, and how many of them were calls of this process.
    pub fn steps(&self, process: &SimProcess) -> (u64, u64) {
        let world = self.inner.world.lock();
        let Some(sched) = &world.sched else { return (0, 0) };
        let own = sched.slots.iter().find(|slot| slot.process == process.id).map_or(0, |slot| slot.calls);
        (sched.steps, own)
    }

    /// Waits for the end of all programs; complains if nothing moves.
    fn watch(&self) {
        let mut world = self.inner.world.lock();
        let mut before = u64::MAX;
        loop {
            let Some(sched) = &world.sched else { return };
            let Some(running) = sched.slots.iter().find(|s| s.end.is_none()) else { return };
            let steps = sched.steps;
            let current = sched.current.and_then(|c| sched.slots.get(c)).unwrap_or(running);
            let label = Arc::clone(&current.label);
            if self.inner.ended.wait_for(&mut world, SILENCE).timed_out() && steps == before {
                eprintln!(
                    "simulated process {label} has made no call for a while (step {steps}); does it wait for a lock that another one holds over a call?"
                );
            }
            before = steps;
        }
    }
}

fn thread(slot: usize, program: Program<'_>, process: SimProcess) {
    let machine = process.machine.clone();
    let id = process.id;
    let ended = catch_unwind(AssertUnwindSafe(|| {
        let mut world = machine.inner.world.lock();
        let alive = wait(&mut world, slot, id);
        drop(world);
        if alive {
            (program.main)(process);
        } else {
            resume_unwind(Box::new(Killed));
        }
    }));
    let end = match ended {
        Ok(()) => End::Returned,
        Err(payload) if payload.is::<Killed>() => End::Killed,
        Err(payload) => End::Panicked(message(payload.as_ref())),
    };
    let mut world = machine.inner.world.lock();
    // Who returned exits, which closes what it left open.
    world.kill(id);
    let Some(sched) = &mut world.sched else { return };
    if let Some(slot) = sched.slots.get_mut(slot) {
        slot.state = State::Gone;
        slot.end = Some(end);
    }
    if sched.current == Some(slot) {
        pass_on(&mut world);
    }
    machine.inner.ended.notify_all();
}

fn message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|s| (*s).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without text".to_owned())
}

/// Waits for the slot's turn; `false` = the process was killed meanwhile.
fn wait(world: &mut MutexGuard<'_, World>, slot: usize, process: usize) -> bool {
    loop {
        let Some(sched) = &world.sched else { return world.is_alive(process) };
        if !world.is_alive(process) {
            return false;
        }
        if sched.current == Some(slot) {
            return true;
        }
        let Some(turn) = sched.slots.get(slot).map(|s| Arc::clone(&s.turn)) else { return false };
        turn.wait(world);
    }
}

/// Lets somebody go on who can; ends the schedule if nobody ever will.
fn pass_on(world: &mut World) {
    let clock = world.clock;
    let Some(sched) = &mut world.sched else { return };
    let Some((next, clock)) = sched.pick(clock) else {
        sched.current = None;
        if sched.slots.iter().any(|s| s.state != State::Gone) {
            stop(world, Outcome::Stopped);
        }
        return;
    };
    sched.current = Some(next);
    if let Some(slot) = sched.slots.get(next) {
        slot.turn.notify_all();
    }
    world.clock = clock;
}

/// Kills everybody.
fn stop(world: &mut World, outcome: Outcome) {
    let Some(sched) = &mut world.sched else { return };
    sched.outcome = sched.outcome.or(Some(outcome));
    sched.current = None;
    let mut processes = Vec::new();
    for slot in &mut sched.slots {
        slot.state = State::Gone;
        slot.turn.notify_all();
        processes.push(slot.process);
    }
    for process in processes {
        world.kill(process);
    }
}

/// Takes the calling process out of the schedule, dead.
pub(crate) fn leave(world: &mut World, process: usize) {
    world.kill(process);
    let Some(sched) = &mut world.sched else { return };
    if let Some(slot) = sched.slots.iter_mut().find(|s| s.process == process) {
        slot.state = State::Gone;
    }
    pass_on(world);
}

/// Ends the sleep of a process.
pub(crate) fn rouse(world: &mut World, process: usize) {
    let Some(sched) = &mut world.sched else { return };
    let slot = sched.slots.iter_mut().find(|slot| slot.process == process);
    if let Some(slot) = slot.filter(|slot| matches!(slot.state, State::Asleep(_))) {
        slot.state = State::Ready;
    }
}

/// The step before a call.
pub(crate) fn enter(world: &mut MutexGuard<'_, World>, process: usize, act: &Act<'_>) -> Turn {
    let clock = world.clock;
    let alive = world.is_alive(process);
    let Some(sched) = &mut world.sched else { return Turn::Go };
    let Some(index) = sched.slots.iter().position(|s| s.process == process) else { return Turn::Go };
    if !alive {
        return Turn::Killed;
    }
    sched.steps += 1;
    let steps = sched.steps;
    if steps > sched.plan.step_limit {
        stop(world, Outcome::StepLimit);
        return Turn::Killed;
    }
    if sched.plan.power_cut == Some(steps) {
        stop(world, Outcome::PowerCut);
        return Turn::Killed;
    }
    let Some(slot) = sched.slots.get_mut(index) else { return Turn::Killed };
    slot.calls += 1;
    let (stall, kill) = if sched.plan.stalls.is_empty() && sched.plan.kills.is_empty() {
        (None, None)
    } else {
        let key = (slot.label.to_string(), slot.calls);
        (sched.plan.stalls.get(&key).copied(), sched.plan.kills.get(&key).copied())
    };
    slot.state = match stall {
        Some(steps_long) => State::Stopped(steps_long.map(|n| steps + n)),
        None if act.op == Op::Sleep => State::Asleep(clock.saturating_add(act.offset)),
        None => State::Ready,
    };
    let rng = &mut sched.rng;
    if slot.state != State::Ready || rng.chance(sched.switch, 64) {
        pass_on(world);
    }
    if !wait(world, index, process) {
        return Turn::Killed;
    }
    world.clock += 1;
    let Some(sched) = &mut world.sched else { return Turn::Go };
    if let Some(slot) = sched.slots.get_mut(index) {
        slot.state = State::Ready;
        if sched.plan.trace {
            let call = act.owned(&slot.label);
            sched.trace.push(call);
        }
    }
    match kill {
        None => Turn::Go,
        Some(Kill::Before) => {
            leave(world, process);
            Turn::Killed
        }
        Some(Kill::After) => Turn::KilledAfter(None),
        Some(Kill::Half) => {
            let part = 1 + sched.rng.index(act.len.saturating_sub(1));
            Turn::KilledAfter(Some(part.min(act.len)))
        }
    }
}

impl Sched {
    /// Who goes next, and what the clock then shows.
    fn pick(&mut self, clock: u64) -> Option<(usize, u64)> {
        for i in 0..self.slots.len() {
            let ready = match self.slots.get(i).map(|slot| slot.state) {
                Some(State::Stopped(Some(step))) => step <= self.steps,
                Some(State::Waiting(other)) => self.slots.get(other).is_some_and(|s| s.state == State::Gone),
                _ => false,
            };
            if ready && let Some(slot) = self.slots.get_mut(i) {
                slot.state = State::Ready;
            }
        }
        let mut ready = Vec::new();
        let mut sleeper: Option<(u64, usize)> = None;
        for (i, slot) in self.slots.iter().enumerate() {
            match slot.state {
                State::Ready => ready.push(i),
                State::Asleep(until) if until <= clock && self.current != Some(i) => ready.push(i),
                State::Asleep(until) => sleeper = Some(sleeper.unwrap_or((u64::MAX, i)).min((until, i))),
                State::Stopped(_) | State::Waiting(_) | State::Gone => {}
            }
        }
        if let Some((until, i)) = sleeper
            && (ready.is_empty() || self.rng.chance(1, 4))
        {
            return Some((i, clock.max(until)));
        }
        if let Some(&next) = ready.get(self.rng.index(ready.len())) {
            return Some((next, clock));
        }
        // Only the stopped are left: the first to be continued is.
        let mut stopped: Vec<(u64, usize)> = Vec::new();
        for (i, slot) in self.slots.iter().enumerate() {
            if let State::Stopped(Some(step)) = slot.state {
                stopped.push((step, i));
            }
        }
        stopped.into_iter().min().map(|(_, i)| (i, clock))
    }
}
