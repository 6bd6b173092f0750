//! Sessions and one task that changes hands, a system call or a commit a step.
//!
//! LOCK and the log are taken as proven ([`crate::protocol`]): a commit is one step. Everything else, files, names and
//! session locks, is a step for each call. A process that is stopped is one that takes no step.

use std::fmt;

use crate::protocol::checker::Model;

pub(super) const PROCS: usize = 3;
/// How often a process may be started.
pub(super) const LIVES: usize = 2;
const SESSIONS: usize = PROCS * LIVES;

/// What a process does, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Op {
    Start,
    /// Delegates to the task if nobody waits for it, and attaches to it.
    Attach,
    /// A commit with the newest fence it was given.
    Write,
    /// The same by an earlier instance, with the fence before that.
    WriteOld,
    Detach,
    Abandon,
    Delete,
    Recreate,
    /// Looks for an orphan and mends it.
    Mend,
    /// Removes the files of a session that is dead and owns nothing.
    Sweep,
    /// Makes the log durable.
    Sync,
    End,
}

/// One step done otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Mutation {
    None,
    TemporaryNamesProbed,
    UnlinkedInPlaceOfRenamed,
    MarkedWithoutTheLock,
    AbsentTakenForDead,
    OwnsNotDurable,
    SweptWithoutALookAtTheLog,
    SweptByListings,
    SweptByTailWord,
    SweptBeforeDurable,
    EndedByListings,
    VerdictUsedForAnyOwner,
    MendLooksAtNoOwner,
    MendLooksAtNothing,
    AbandonKeepsTheOwner,
    AbandonDoesNotRaise,
    AttachAgainDoesNotRaise,
    DeletionForgetsTheFence,
    DeletionDoesNotRaise,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Config {
    pub(super) mutation: Mutation,
    /// For each process, what it does in each of its lives.
    pub(super) lives: [&'static [&'static [Op]]; PROCS],
    pub(super) kills: u8,
    pub(super) cuts: u8,
    /// How many sessions cannot list themselves.
    pub(super) unlisted: u8,
    /// How often somebody removes a session's files behind everybody's back.
    pub(super) vandals: u8,
}

/// The promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Broken {
    /// A session could not start because somebody probed it.
    StartFailed,
    /// Somebody found a session dead that lives.
    LiveCalledDead,
    /// A session lives, and its files do not stand.
    LiveLostFile,
    /// What a living session runs was repaired.
    LiveRepaired,
    /// What a living session runs was given to another.
    LiveRobbed,
    /// A delegation was repaired that had been brought to an end before.
    RepairedTwice,
    /// A commit with a fence that holds no more was accepted.
    StaleAccepted,
    /// Whoever holds a task was refused.
    HolderRefused,
    /// One session was given the same fence twice.
    FenceTwice,
    /// A session owns something, and nothing is left by which its death could be proven.
    ProofLost,
    /// Everybody has gone, and an open mends not what they left.
    NotMended,
    Stuck,
}

/// A name on its way from nothing to nothing; a power cut may take it back, as far as it was not synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Name {
    None,
    Temporary,
    Lock,
    Dead,
    Gone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Info {
    None,
    Plain,
    Owns,
    Gone,
}

const NAMES: [Name; 5] = [Name::None, Name::Temporary, Name::Lock, Name::Dead, Name::Gone];
const INFOS: [Info; 4] = [Info::None, Info::Plain, Info::Owns, Info::Gone];

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Files {
    name: Name,
    info: Info,
    /// What stands on the disk for certain.
    synced: (Name, Info),
    listed: bool,
    /// Somebody removed them who must not.
    vandalised: bool,
    /// Which process holds its lock.
    lock: Option<usize>,
}

/// The task as an event leaves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Task {
    exists: bool,
    /// Its parent waits for it.
    delegated: bool,
    fence: u8,
    owner: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Verdict {
    Alive,
    Dead,
    Unknown,
}

/// A fence that an instance has in hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Held {
    number: u8,
    /// Whether the task has changed hands since.
    lost: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Process {
    runs: bool,
    life: usize,
    /// Which operation, and how far.
    op: usize,
    at: u8,
    held: [Option<Held>; 2],
    /// The session that is asked about, and what was found.
    asked: Option<usize>,
    verdict: Verdict,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct State {
    processes: [Process; PROCS],
    sessions: [Files; SESSIONS],
    /// Every state a power cut may go back to; the last is the present one.
    log: Vec<Task>,
    /// What the tail word tells of.
    told: Task,
    /// The fences each session was given, a bit each.
    given: [u8; SESSIONS],
    kills: u8,
    cuts: u8,
    unlisted: u8,
    vandals: u8,
    broken: Option<Broken>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    who: usize,
    what: &'static str,
    own: bool,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", ["A", "B", "C"].get(self.who).unwrap_or(&"-"), self.what)
    }
}

/// Where the steps of a probe lie in an operation, and what comes behind them.
const PROBE: u8 = 10;
const PROBED: u8 = 14;
/// The commit of an operation, or what else it does at last.
const ACT: u8 = 20;

impl State {
    fn task(&self) -> Task {
        *self.log.last().unwrap()
    }

    fn session(&self, p: usize) -> usize {
        p * LIVES + self.processes[p].life
    }
}

impl Config {
    fn is(&self, mutation: Mutation) -> bool {
        self.mutation == mutation
    }

    fn op(&self, s: &State, p: usize) -> Option<Op> {
        let process = &s.processes[p];
        self.lives[p].get(process.life)?.get(process.op).copied()
    }

    /// Whether a session has started and not begun to end.
    fn lives(&self, s: &State, session: usize) -> bool {
        let p = session / LIVES;
        let process = &s.processes[p];
        process.runs && process.life == session % LIVES && process.op > 0 && self.op(s, p) != Some(Op::End)
    }

    fn next_op(s: &mut State, p: usize) {
        let process = &mut s.processes[p];
        (process.op, process.at, process.asked, process.verdict) =
            (process.op + 1, 0, None, Verdict::Unknown);
    }

    /// The process is gone; its next life begins, if it has one.
    fn ends(&self, s: &mut State, p: usize) {
        for files in &mut s.sessions {
            if files.lock == Some(p) {
                files.lock = None;
            }
        }
        let life = s.processes[p].life + 1;
        s.processes[p] = new(life.min(LIVES), life < self.lives[p].len());
    }

    fn commit(s: &mut State, task: Task) {
        s.log.push(task);
    }

    /// The task changes hands: whoever held it holds it no more.
    fn revoke(s: &mut State) {
        let held = s.processes.iter_mut().flat_map(|process| process.held.iter_mut().flatten());
        held.for_each(|held| held.lost = true);
    }

    fn found(&self, s: &mut State, p: usize, verdict: Verdict) {
        let asked = s.processes[p].asked.unwrap();
        if verdict == Verdict::Dead && self.lives(s, asked) {
            s.broken = Some(Broken::LiveCalledDead);
        }
        (s.processes[p].verdict, s.processes[p].at) = (verdict, PROBED);
    }

    /// One step of looking at the session that is asked about.
    fn probe(&self, s: &mut State, p: usize) -> &'static str {
        let asked = s.processes[p].asked.unwrap();
        match s.processes[p].at - PROBE {
            0 => {
                match s.sessions[asked].name {
                    Name::Dead => self.found(s, p, Verdict::Dead),
                    Name::Lock => s.processes[p].at += 1,
                    Name::Temporary if self.is(Mutation::TemporaryNamesProbed) => s.processes[p].at += 1,
                    _ if self.is(Mutation::AbsentTakenForDead) => self.found(s, p, Verdict::Dead),
                    _ => self.found(s, p, Verdict::Unknown),
                }
                "opens the session's file"
            }
            1 => {
                let files = &mut s.sessions[asked];
                if self.is(Mutation::MarkedWithoutTheLock) && files.name == Name::Lock {
                    files.name = Name::Dead;
                }
                if files.lock.is_some() {
                    self.found(s, p, Verdict::Alive);
                } else {
                    files.lock = Some(p);
                    s.processes[p].at += 1;
                }
                "tries its lock"
            }
            2 => {
                let files = &mut s.sessions[asked];
                if matches!(files.name, Name::Lock | Name::Temporary) {
                    let unlinked = self.is(Mutation::UnlinkedInPlaceOfRenamed);
                    files.name = if unlinked { Name::Gone } else { Name::Dead };
                }
                s.processes[p].at += 1;
                "renames it to .dead"
            }
            _ => {
                s.sessions[asked].lock = None;
                self.found(s, p, Verdict::Dead);
                "unlocks it"
            }
        }
    }

    fn start(&self, s: &mut State, p: usize) -> &'static str {
        let files = &mut s.sessions[p * LIVES + s.processes[p].life];
        let at = s.processes[p].at;
        s.processes[p].at += 1;
        match at {
            0 => {
                files.name = Name::Temporary;
                "makes its file under a temporary name"
            }
            1 => {
                match files.lock {
                    None => files.lock = Some(p),
                    Some(_) => s.broken = Some(Broken::StartFailed),
                }
                "locks it"
            }
            2 => {
                files.info = Info::Plain;
                "publishes its info"
            }
            3 => {
                match files.name {
                    Name::Temporary => files.name = Name::Lock,
                    _ => s.broken = Some(Broken::StartFailed),
                }
                "renames its file"
            }
            _ => {
                if files.name != Name::Lock {
                    s.broken = Some(Broken::StartFailed);
                }
                Self::next_op(s, p);
                "compares handle and path"
            }
        }
    }

    fn attach(&self, s: &mut State, p: usize) -> &'static str {
        let me = s.session(p);
        match s.processes[p].at {
            0 => {
                s.sessions[me].info = Info::Owns;
                s.processes[p].at = if self.is(Mutation::OwnsNotDurable) { 3 } else { 1 };
                "says that it may own something"
            }
            1 => {
                s.sessions[me].synced.1 = s.sessions[me].info;
                s.processes[p].at = 2;
                "syncs its info"
            }
            2 => {
                s.sessions[me].synced.0 = s.sessions[me].name;
                s.processes[p].at = 3;
                "syncs its lock file's name"
            }
            3 => {
                match s.task().owner.filter(|owner| *owner != me) {
                    Some(owner) => (s.processes[p].asked, s.processes[p].at) = (Some(owner), PROBE),
                    None => s.processes[p].at = ACT,
                }
                "looks who owns the task"
            }
            PROBED => {
                s.processes[p].at = ACT;
                "takes LOCK to attach"
            }
            ACT => {
                let (task, process) = (s.task(), s.processes[p]);
                let dead = |owner| {
                    let same = process.asked == Some(owner) || self.is(Mutation::VerdictUsedForAnyOwner);
                    process.verdict == Verdict::Dead && same
                };
                if !task.exists || !task.owner.is_none_or(|owner| owner == me || dead(owner)) {
                    Self::next_op(s, p);
                    return "is refused to attach";
                }
                if task.owner.is_some_and(|owner| owner != me && self.lives(s, owner)) {
                    s.broken = Some(Broken::LiveRobbed);
                }
                let again = task.owner == Some(me) && self.is(Mutation::AttachAgainDoesNotRaise);
                let number = if again { task.fence } else { task.fence + 1 };
                if s.given[me] & (1 << number) != 0 {
                    s.broken = Some(Broken::FenceTwice);
                }
                s.given[me] |= 1 << number;
                Self::revoke(s);
                let before = s.processes[p].held[0];
                s.processes[p].held = [Some(Held { number, lost: false }), before];
                Self::commit(s, Task { delegated: true, fence: number, owner: Some(me), ..task });
                s.processes[p].at += 1;
                "attaches"
            }
            _ => {
                s.told = s.task();
                s.sessions[me].listed = true;
                Self::next_op(s, p);
                "publishes the tail, and lists itself"
            }
        }
    }

    fn write(&self, s: &mut State, p: usize, which: usize) -> Option<Task> {
        let (task, me) = (s.task(), s.session(p));
        let held = s.processes[p].held[which]?;
        let accepted = task.exists && task.owner == Some(me) && task.fence == held.number;
        if accepted == held.lost {
            s.broken = Some(if accepted { Broken::StaleAccepted } else { Broken::HolderRefused });
        }
        accepted.then_some(task)
    }

    fn mend(&self, s: &mut State, p: usize) -> &'static str {
        match s.processes[p].at {
            0 => {
                let (task, me) = (s.task(), s.session(p));
                match task.owner.filter(|owner| task.delegated && *owner != me) {
                    Some(owner) => (s.processes[p].asked, s.processes[p].at) = (Some(owner), PROBE),
                    None => Self::next_op(s, p),
                }
                "looks for orphans"
            }
            PROBED => {
                let task = s.task();
                let process = s.processes[p];
                let looked = match self.mutation {
                    Mutation::MendLooksAtNothing => true,
                    Mutation::MendLooksAtNoOwner => task.delegated,
                    _ => task.delegated && task.owner == process.asked,
                };
                Self::next_op(s, p);
                if process.verdict != Verdict::Dead || !looked || !task.exists {
                    return "has nothing to mend";
                }
                if task.owner.is_some_and(|owner| self.lives(s, owner)) {
                    s.broken = Some(Broken::LiveRepaired);
                } else if !task.delegated {
                    s.broken = Some(Broken::RepairedTwice);
                }
                Self::revoke(s);
                Self::commit(s, Task { delegated: false, fence: task.fence + 1, owner: None, ..task });
                s.told = s.task();
                "mends"
            }
            _ => unreachable!("the probe is the caller's"),
        }
    }

    /// Which sessions a sweep may look at now.
    fn may_sweep(&self, s: &State, p: usize) -> Vec<usize> {
        let is_there = |files: &Files| match files.name {
            Name::Lock | Name::Dead => true,
            Name::Temporary => self.is(Mutation::TemporaryNamesProbed),
            Name::None | Name::Gone => false,
        };
        (0..SESSIONS).filter(|&session| session != s.session(p) && is_there(&s.sessions[session])).collect()
    }

    fn sweep(&self, s: &mut State, p: usize) -> &'static str {
        let asked = s.processes[p].asked.unwrap();
        match s.processes[p].at {
            PROBED => {
                let files = s.sessions[asked];
                let owns = match self.mutation {
                    Mutation::SweptByListings => files.listed,
                    _ => files.info == Info::Owns,
                };
                let known = matches!(files.info, Info::Plain | Info::Owns);
                if s.processes[p].verdict != Verdict::Dead || !known {
                    Self::next_op(s, p);
                } else {
                    let look = owns && !self.is(Mutation::SweptWithoutALookAtTheLog);
                    s.processes[p].at = if look { ACT } else { ACT + 1 };
                }
                "reads the info of the dead"
            }
            ACT => {
                let by_word = self.is(Mutation::SweptByTailWord);
                let task = if by_word { s.told } else { s.task() };
                let durable = s.log.len() == 1 || by_word || self.is(Mutation::SweptBeforeDurable);
                if task.owner == Some(asked) || !durable {
                    Self::next_op(s, p);
                } else {
                    s.processes[p].at += 1;
                }
                "reads the log"
            }
            at if at == ACT + 1 => {
                s.sessions[asked].info = Info::Gone;
                s.processes[p].at += 1;
                "removes the info of the dead"
            }
            _ => {
                if s.sessions[asked].name == Name::Dead {
                    s.sessions[asked].name = Name::Gone;
                }
                Self::next_op(s, p);
                "removes .dead"
            }
        }
    }

    fn end(&self, s: &mut State, p: usize) -> &'static str {
        let me = s.session(p);
        let files = &mut s.sessions[me];
        if s.processes[p].at == 0 {
            let owns = files.info == Info::Owns && !self.is(Mutation::EndedByListings);
            if files.listed || owns {
                files.name = Name::Dead;
            } else {
                (files.name, files.info) = (Name::Gone, Info::Gone);
            }
            s.processes[p].at = 1;
            return "ends: its file gets its last name";
        }
        self.ends(s, p);
        "unlocks, and is gone"
    }

    /// The next step of a process.
    fn act(&self, s: &mut State, p: usize, op: Op) -> &'static str {
        if (PROBE..PROBED).contains(&s.processes[p].at) {
            return self.probe(s, p);
        }
        let at_once = |s: &mut State, task: Option<Task>, what| {
            if let Some(task) = task {
                Self::commit(s, task);
                s.told = s.task();
            }
            Self::next_op(s, p);
            what
        };
        let task = s.task();
        match op {
            Op::Start => self.start(s, p),
            Op::Attach => self.attach(s, p),
            Op::Mend => self.mend(s, p),
            Op::Sweep => self.sweep(s, p),
            Op::End => self.end(s, p),
            Op::Write | Op::WriteOld => {
                let _ = self.write(s, p, usize::from(op == Op::WriteOld));
                at_once(s, None, "commits with its fence")
            }
            Op::Detach => {
                let after = self.write(s, p, 0).map(|task| Task { owner: None, ..task });
                if after.is_some() {
                    Self::revoke(s);
                }
                at_once(s, after, "detaches")
            }
            Op::Abandon => {
                let raised = u8::from(!self.is(Mutation::AbandonDoesNotRaise));
                let after = if self.is(Mutation::AbandonKeepsTheOwner) {
                    Task { delegated: false, ..task }
                } else {
                    Task { delegated: false, owner: None, fence: task.fence + raised, ..task }
                };
                Self::revoke(s);
                at_once(s, task.exists.then_some(after), "abandons the task")
            }
            Op::Delete => {
                let fence = match self.mutation {
                    Mutation::DeletionForgetsTheFence => 0,
                    Mutation::DeletionDoesNotRaise => task.fence,
                    _ => task.fence + 1,
                };
                Self::revoke(s);
                let after = Task { exists: false, delegated: false, owner: None, fence };
                at_once(s, task.exists.then_some(after), "deletes the task")
            }
            Op::Recreate => {
                let after = Task { exists: true, ..task };
                at_once(s, (!task.exists).then_some(after), "creates it again")
            }
            Op::Sync => {
                s.log = vec![task];
                at_once(s, None, "syncs the log")
            }
        }
    }

    /// Everything that a power cut may leave.
    fn cut(&self, s: &State, out: &mut Vec<(Step, State)>) {
        let mut dead = s.clone();
        dead.cuts -= 1;
        (0..PROCS).filter(|&p| s.processes[p].runs).for_each(|p| self.ends(&mut dead, p));
        let mut left = vec![dead];
        for session in 0..SESSIONS {
            let files = s.sessions[session];
            let names = NAMES.into_iter().filter(|name| (files.synced.0..=files.name).contains(name));
            let infos = || INFOS.into_iter().filter(|info| (files.synced.1..=files.info).contains(info));
            let all: Vec<(Name, Info)> =
                names.flat_map(|name| infos().map(move |info| (name, info))).collect();
            let with = |state: &State, (name, info)| {
                let mut state = state.clone();
                state.sessions[session] = Files { name, info, synced: (name, info), lock: None, ..files };
                state
            };
            left = left.iter().flat_map(|state| all.iter().map(move |now| with(state, *now))).collect();
        }
        for state in left {
            for task in &s.log {
                let state = State { log: vec![*task], told: *task, ..state.clone() };
                out.push((Step { who: PROCS, what: "the power goes", own: false }, state));
            }
        }
    }
}

fn new(life: usize, runs: bool) -> Process {
    Process { runs, life, op: 0, at: 0, held: [None; 2], asked: None, verdict: Verdict::Unknown }
}

impl Model for Config {
    type State = State;
    type Step = Step;
    type Broken = Broken;
    const STUCK: Broken = Broken::Stuck;

    fn start(&self) -> State {
        let files = Files {
            name: Name::None,
            info: Info::None,
            synced: (Name::None, Info::None),
            listed: false,
            vandalised: false,
            lock: None,
        };
        let task = Task { exists: true, delegated: false, fence: 0, owner: None };
        State {
            processes: std::array::from_fn(|p| new(0, !self.lives[p].is_empty())),
            sessions: [files; SESSIONS],
            log: vec![task],
            told: task,
            given: [0; SESSIONS],
            kills: self.kills,
            cuts: self.cuts,
            unlisted: self.unlisted,
            vandals: self.vandals,
            broken: None,
        }
    }

    fn steps(&self, s: &State, out: &mut Vec<(Step, State)>) {
        for p in (0..PROCS).filter(|&p| s.processes[p].runs) {
            let step = |what| Step { who: p, what, own: true };
            match self.op(s, p) {
                None => {
                    // It has nothing more to do, and goes on living.
                }
                Some(Op::Sweep) if s.processes[p].asked.is_none() => {
                    for session in self.may_sweep(s, p) {
                        let mut n = s.clone();
                        (n.processes[p].asked, n.processes[p].at) = (Some(session), PROBE);
                        out.push((step("looks for the files of the dead"), n));
                    }
                    let mut n = s.clone();
                    Self::next_op(&mut n, p);
                    out.push((step("sweeps nothing"), n));
                }
                Some(op) => {
                    let mut n = s.clone();
                    let what = self.act(&mut n, p, op);
                    if what == "publishes the tail, and lists itself" && s.unlisted > 0 {
                        let mut unlisted = n.clone();
                        unlisted.sessions[s.session(p)].listed = s.sessions[s.session(p)].listed;
                        unlisted.unlisted -= 1;
                        out.push((step("publishes the tail, and cannot list itself"), unlisted));
                    }
                    out.push((step(what), n));
                }
            }
            if s.kills > 0 {
                let mut n = s.clone();
                n.kills -= 1;
                self.ends(&mut n, p);
                out.push((Step { who: p, what: "is killed", own: false }, n));
            }
        }
        for session in (0..SESSIONS).filter(|&session| s.vandals > 0 && self.lives(s, session)) {
            let mut n = s.clone();
            n.vandals -= 1;
            let files = &mut n.sessions[session];
            (files.name, files.info, files.vandalised) = (Name::Gone, Info::Gone, true);
            out.push((Step { who: session / LIVES, what: "loses its files to a vandal", own: false }, n));
        }
        if s.cuts > 0 {
            self.cut(s, out);
        }
    }

    fn broken(&self, s: &State) -> Option<Broken> {
        if s.broken.is_some() {
            return s.broken;
        }
        let files_of = |session: usize| s.sessions[session];
        for session in (0..SESSIONS).filter(|&session| self.lives(s, session)) {
            let files = files_of(session);
            let stand = files.name == Name::Lock && matches!(files.info, Info::Plain | Info::Owns);
            if !stand && !files.vandalised {
                return Some(Broken::LiveLostFile);
            }
        }
        let task = s.task();
        let owner = task.owner?;
        let files = files_of(owner);
        if files.vandalised {
            return None; // nobody will ever know
        }
        if !matches!(files.name, Name::Lock | Name::Dead) {
            return Some(Broken::ProofLost);
        }
        // Whoever opens the store now must find the lock free.
        let left = self.is_at_rest(s) && task.delegated && !self.lives(s, owner);
        (left && files.name == Name::Lock && files.lock.is_some()).then_some(Broken::NotMended)
    }

    fn is_at_rest(&self, s: &State) -> bool {
        (0..PROCS).all(|p| !s.processes[p].runs || self.op(s, p).is_none())
    }

    fn is_own(&self, step: Step) -> bool {
        step.own
    }
}
