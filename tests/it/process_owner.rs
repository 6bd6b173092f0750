//! Who runs a task, among real processes: two windows of which one dies, is stopped or forks; what opens the store beside it.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests look at clock and disk themselves"
)]

use std::path::Path;
use std::time::{Duration, Instant};

use foldlog::event::{Event, Fence, Field, Item, Patch, Status};
use foldlog::session::Liveness;
use foldlog::task::{CommitOptions, Op, TaskStore, Tasks};
use foldlog::{Durability, Housekeeping, Options, Place, Result};

use super::task_rules::id;
use crate::worker::{BOUND, Stage, Worker, quick};

pub(crate) fn open(root: &Path, label: &str) -> Result<(TaskStore, Tasks)> {
    let options = Options::default().label(label).housekeeping(Housekeeping::Off).lock_timeout(BOUND);
    let store = TaskStore::open(root, options)?;
    let tasks = store.home(&Place::Key("owners".into()))?;
    Ok((store, tasks))
}

fn status(tasks: &Tasks, task: &str) -> Status {
    tasks.get(task).unwrap().unwrap().task.status()
}

fn session(tasks: &Tasks) -> u64 {
    tasks.workspace().log().session().unwrap().id()
}

fn told<T: std::fmt::Display>(result: Result<T>) -> String {
    result.map_or_else(|e| format!("err {} {e}", e.code()), |value| format!("ok {value}"))
}

/// Delegates and runs both, in one commit.
pub(crate) fn delegate(tasks: &Tasks, parent: &str, child: &str) -> Result<Fence> {
    let mut ops = Vec::new();
    if tasks.get(parent)?.is_none() {
        ops.push(Op::Create { item: Item::new(&id(parent)), again: false });
    }
    ops.push(Op::Attach { id: id(parent) });
    ops.push(Op::Delegate { parent: id(parent), child: Item::new(&id(child)) });
    ops.push(Op::Attach { id: id(child) });
    let done = tasks.commit(ops, Durability::Buffered)?;
    Ok(done.fence(&id(child)).unwrap())
}

fn late(task: &str, fence: &str) -> CommitOptions {
    CommitOptions::from(Durability::Buffered).fence(&id(task), fence.parse().unwrap())
}

/// Role: does what it is told, a line at a time.
pub(crate) fn owner(stage: &mut Stage) {
    let (root, label) = (stage.path(0), stage.arg(1).to_owned());
    let mut opened: Option<(TaskStore, Tasks)> = None;
    stage.say("ready");
    loop {
        let line = stage.hear();
        let words: Vec<&str> = line.split(' ').collect();
        let tasks = || &opened.as_ref().unwrap().1;
        let answer = match words[..] {
            ["open"] => match open(&root, &label) {
                Ok(now) => format!("ok {:016x}", session(&opened.insert(now).1)),
                Err(e) => format!("err {} {e}", e.code()),
            },
            ["close"] => {
                opened = None;
                "ok".into()
            }
            ["delegate", parent, child] => told(delegate(tasks(), parent, child)),
            ["save", task, fence] => {
                let patch = Patch::new().set(Field::Mode, "late");
                told(tasks().patch(&id(task), patch, late(task, fence)).map(|done| done.count))
            }
            ["complete", task, fence] => {
                told(tasks().complete(&id(task), Some("late"), late(task, fence)).map(|done| done.count))
            }
            ["churn", times] => told(churn(&root, &label, times.parse().unwrap())),
            ["quit"] => return,
            _ => panic!("what is {line:?}?"),
        };
        stage.say(&answer);
    }
}

/// Comes and goes; each time it is alive to itself.
fn churn(root: &Path, label: &str, times: u64) -> Result<u64> {
    for _ in 0..times {
        let (store, tasks) = open(root, label)?;
        assert_eq!(store.store().liveness(session(&tasks))?.0, Liveness::Alive);
    }
    Ok(times)
}

fn start(root: &Path, label: &str) -> Worker {
    let worker = Worker::start("owner", &[root.to_str().unwrap(), label]);
    worker.expect("ready");
    worker
}

impl Worker {
    fn done(&mut self, line: &str) -> String {
        self.tell(line);
        self.expect("ok")
    }
}

/// How often an orphan was interrupted.
fn repairs(tasks: &Tasks, child: &str) -> usize {
    let is_repair =
        |event: &Event| matches!(event, Event::StatusChanged { cause, .. } if cause.name() == "orphaned");
    let history = tasks.history(&id(child)).unwrap();
    history.iter().filter(|change| change.event.as_ref().is_some_and(is_repair)).count()
}

/// Opens again until a dead owner is seen to be dead: at once, but on Windows, where its lock is freed when the system likes.
fn open_until_mended(root: &Path, child: &str) -> Tasks {
    let begun = Instant::now();
    loop {
        let (_store, tasks) = open(root, "next").unwrap();
        if status(&tasks, child) == Status::Interrupted {
            return tasks;
        }
        assert!(cfg!(windows) && begun.elapsed() < BOUND, "{child} is {}", status(&tasks, child));
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A second window's start ended the delegation that the first was at (the old store's start-up repair).
#[test]
fn window_that_opens_changes_nothing_while_the_owner_lives_and_mends_once_when_it_is_dead() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("store");
    let mut a = start(&root, "a");
    a.done("open");
    a.done("delegate p c0");
    let last = |tasks: &Tasks| tasks.read(|state, _| state.last()).unwrap();
    let before = last(&open(&root, "look").unwrap().1);
    for n in 0..if quick() { 20 } else { 100 } {
        let (_store, tasks) = open(&root, "b").unwrap();
        assert_eq!(
            (status(&tasks, "p"), status(&tasks, "c0"), last(&tasks)),
            (Status::Delegated, Status::Active, before),
            "open {n}"
        );
        assert_eq!(tasks.orphans().unwrap(), []);
    }
    for round in 0..if quick() { 2 } else { 8 } {
        let (child, next) = (format!("c{round}"), format!("c{}", round + 1));
        let mut two = [start(&root, "b1"), start(&root, "b2")];
        a.kill();
        two.iter_mut().for_each(|worker| worker.tell("open"));
        let sessions = two.each_ref().map(|worker| worker.expect("ok"));
        assert_ne!(sessions[0], sessions[1]);
        let tasks = open_until_mended(&root, &child);
        assert_eq!((status(&tasks, "p"), repairs(&tasks, &child)), (Status::Active, 1), "round {round}");
        drop(tasks);
        let [mut one, mut other] = two;
        one.done(&format!("delegate p {next}"));
        other.done("close");
        a = one;
    }
}

/// A stopped process is alive. What it was at is taken from it by a person alone, and then it comes too late.
///
/// `FOLDLOG_STOP_SECONDS` makes it stand still for so long, while others open the store.
#[cfg(unix)]
#[test]
fn stopped_owner_is_alive_and_its_late_commits_are_fenced() {
    use rustix::process::Signal;
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("store");
    let mut a = start(&root, "a");
    let lives = u64::from_str_radix(&a.done("open"), 16).unwrap();
    let fence = a.done("delegate p c");
    a.signal(Signal::STOP);
    let stopped = Instant::now();
    let seconds = std::env::var("FOLDLOG_STOP_SECONDS").ok().and_then(|n| n.parse().ok()).unwrap_or(0);
    loop {
        let (store, tasks) = open(&root, "b").unwrap();
        assert_eq!(store.store().liveness(lives).unwrap().0, Liveness::Alive);
        assert_eq!((status(&tasks, "p"), status(&tasks, "c")), (Status::Delegated, Status::Active));
        let error = tasks.attach(&id("c"), Durability::Buffered).unwrap_err();
        assert_eq!(error.code(), "owned", "{error}");
        if stopped.elapsed() >= Duration::from_secs(seconds) {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let (_store, tasks) = open(&root, "b").unwrap();
    let _ = tasks.abandon(&id("c"), Durability::Durable).unwrap();
    a.signal(Signal::CONT);
    for late in ["save", "complete"] {
        let answer = a.ask(&format!("{late} c {fence}"));
        assert!(answer.starts_with("err fenced"), "{answer}");
    }
    assert_eq!((status(&tasks, "p"), status(&tasks, "c")), (Status::Active, Status::Interrupted));
    assert_eq!(repairs(&tasks, "c"), 0, "it was abandoned, not repaired");
}

/// The number of a process says nothing: the same process opens again, and whoever it was before is dead.
#[test]
fn session_of_the_same_process_is_another() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("store");
    let (store, tasks) = open(&root, "first").unwrap();
    let fence = delegate(&tasks, "p", "c").unwrap();
    drop((tasks, store));
    let (store, tasks) = open(&root, "second").unwrap();
    assert_ne!(session(&tasks), fence.session);
    let (liveness, info) = store.store().liveness(fence.session).unwrap();
    assert_eq!((liveness, info.unwrap().pid), (Liveness::Dead, std::process::id()));
    assert_eq!((status(&tasks, "p"), status(&tasks, "c")), (Status::Active, Status::Interrupted));
    assert_eq!(tasks.complete(&id("c"), None, late("c", &fence.to_string())).unwrap_err().code(), "fenced");
    assert!(tasks.attach(&id("c"), Durability::Buffered).unwrap().0.number > fence.number);
}

/// Sessions come and go while others ask who lives: nobody who does is ever called dead, and nobody fails to come.
#[test]
fn who_lives_is_alive_to_everybody_while_others_come_and_go() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("store");
    let mut a = start(&root, "a");
    let lives = u64::from_str_radix(&a.done("open"), 16).unwrap();
    a.done("delegate p c");
    let times = if quick() { 60 } else { 500 };
    let mut churners = [start(&root, "one"), start(&root, "two")];
    churners.iter_mut().for_each(|worker| worker.tell(&format!("churn {times}")));
    let (store, tasks) = open(&root, "asks").unwrap();
    let (mut running, mut asked, begun) = (churners.len(), 0, Instant::now());
    while running > 0 {
        assert!(begun.elapsed() < BOUND * 4, "{running} churners are still at it");
        asked += 1;
        assert_eq!(store.store().liveness(lives).unwrap().0, Liveness::Alive, "asked {asked} times");
        for entry in store.store().sessions().unwrap() {
            let known = [lives, session(&tasks)].contains(&entry.info.session);
            assert!(!known || entry.liveness == Liveness::Alive, "{entry:?}");
        }
        for worker in &churners {
            if let Some(line) = worker.try_next() {
                assert_eq!(line, format!("ok {times}"));
                running -= 1;
            }
        }
    }
    println!("asked {asked} times beside {} opens", 2 * times);
    assert_eq!((status(&tasks, "p"), status(&tasks, "c")), (Status::Delegated, Status::Active));
}

/// Whoever mends is killed at any call: the repair stands whole or not at all, and the next open ends it.
#[cfg(target_os = "linux")]
#[test]
fn mender_killed_at_any_call_leaves_all_or_nothing() {
    const CALLS: &str = "openat,flock,pwrite64,rename,renameat,renameat2,unlink,unlinkat,fdatasync,fsync";
    let (mut k, mut killed, mut mended) = (1, 0, 0);
    loop {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("store");
        let mut a = start(&root, "a");
        a.done("open");
        a.done("delegate p c");
        a.kill();
        let inject = format!("inject={CALLS}:signal=KILL:when={k}");
        let trace = format!("trace={CALLS}");
        let wrapper =
            ["strace", "-f", "-qq", "-o", "/dev/null", "-e", &trace, "-e", &inject, "-e", "signal=none"];
        let mut worker = Worker::wrapped(&wrapper, "owner", &[root.to_str().unwrap(), "mender"]);
        worker.tell("open");
        worker.tell("quit");
        let ended = {
            let (lines, _) = worker.finish();
            lines.iter().any(|line| line == "end")
        };
        killed += u32::from(!ended);
        let options = Options::default().read_only(true);
        let look = TaskStore::open(&root, options).unwrap().home(&Place::Key("owners".into())).unwrap();
        let half =
            (status(&look, "p"), status(&look, "c"), look.get("c").unwrap().unwrap().task.owner().is_some());
        match half {
            (Status::Delegated, Status::Active, true) => {
                assert!(!ended, "the open at call {k} mended nothing")
            }
            (Status::Active, Status::Interrupted, false) => mended += 1,
            _ => panic!("half a repair at call {k}: {half:?}"),
        }
        let tasks = open_until_mended(&root, "c");
        assert_eq!((status(&tasks, "p"), repairs(&tasks, "c")), (Status::Active, 1), "call {k}");
        if ended {
            break;
        }
        k += if quick() { 5 } else { 1 };
    }
    println!("killed at {killed} calls, {mended} of them behind the repair");
    assert!(killed > 2 && mended > 0, "strace is missing, or kills nobody");
}
