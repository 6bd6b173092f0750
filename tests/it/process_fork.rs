//! A forked child must not keep its dead parent's locks (counterexample 11), nor use what it inherited.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests look at clock and disk themselves"
)]

use std::time::{Duration, Instant};

use foldlog::{Durability, Housekeeping, Store};

use crate::worker::{Stage, Worker, an_actor, commit, open, options, place, say};

/// `fork(2)`; in the child, `act` and then an exit without unwinding.
fn fork(act: impl FnOnce()) -> i32 {
    #[expect(unsafe_code, reason = "what a host such as Python's multiprocessing does")]
    // SAFETY: glibc keeps its allocator usable in the child; the child runs `act`, which touches what this process
    // made for it, and never returns.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        act();
        std::process::exit(0);
    }
    assert!(pid > 0, "fork failed");
    pid
}

/// Ends this process after so many seconds, whatever it waits for.
fn end_in(seconds: u32) {
    #[expect(unsafe_code, reason = "a bound that needs no thread")]
    // SAFETY: no handler is installed: the signal ends the process.
    unsafe {
        libc::alarm(seconds);
    }
}

fn wait(pid: i32) -> bool {
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    let (_, status) =
        rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty()).unwrap().unwrap();
    status.exit_status() == Some(0)
}

/// Role: forks in one of several situations.
pub(crate) fn forker(stage: &mut Stage) {
    let root = stage.path(0);
    match stage.arg(1) {
        "idle child" => idle_child(&root),
        "owner" => owner(&root),
        "inherited handle" => inherited_handle(&root),
        "while opening" => while_opening(&root),
        "interval in the child" => interval_in_the_child(&root),
        other => panic!("{other}"),
    }
}

/// A thread stands inside a commit, under LOCK; the main thread forks a child that never calls foldlog.
fn idle_child(root: &std::path::Path) {
    let (_store, ws) = open(root, options().label("parent"));
    let _ = commit(&ws, "a", "one", Durability::Durable).unwrap();
    let (enter, entered) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        ws.commit(Durability::Durable, move |_, _| {
            enter.send(()).unwrap();
            loop {
                std::thread::park();
            }
        })
    });
    entered.recv().unwrap();
    fork(|| {
        end_in(60);
        say(&format!("child {}", std::process::id()));
        // Not until its input ends: that goes with the parent. The test ends it.
        loop {
            std::thread::park();
        }
    });
    loop {
        std::thread::park();
    }
}

/// Runs a task, and forks a child that never calls foldlog.
fn owner(root: &std::path::Path) {
    let (_store, tasks) = crate::process_owner::open(root, "parent").unwrap();
    let fence = crate::process_owner::delegate(&tasks, "p", "c").unwrap();
    fork(|| {
        end_in(60);
        say(&format!("child {}", std::process::id()));
        loop {
            std::thread::park();
        }
    });
    say(&format!("fence {fence}"));
    loop {
        std::thread::park();
    }
}

fn inherited_handle(root: &std::path::Path) {
    let (_store, ws) = open(root, options().label("parent"));
    let _ = commit(&ws, "a", "one", Durability::Durable).unwrap();
    let child = fork(|| {
        for durability in [Durability::Buffered, Durability::Durable] {
            assert_eq!(commit(&ws, "a", "two", durability).unwrap_err().code(), "forked");
        }
        assert_eq!(ws.read(|_| ()).unwrap_err().code(), "forked");
        assert_eq!(ws.flush().unwrap_err().code(), "forked");
        let (_store, mine) = open(root, options().label("child"));
        assert_eq!(commit(&mine, "a", "from the child", Durability::Durable).unwrap().first.0, 2);
        say("child done");
    });
    assert!(wait(child), "the child failed");
    assert_eq!(commit(&ws, "a", "parent again", Durability::Durable).unwrap().first.0, 3);
    say("parent done");
}

/// Other threads open and close stores all the time, so that a fork meets every lock of the library's own held.
fn while_opening(root: &std::path::Path) {
    let begun = Instant::now();
    for i in 0..3 {
        let root = root.join(format!("{i}"));
        std::thread::spawn(move || {
            loop {
                let (_store, ws) = open(&root, options().housekeeping(Housekeeping::Thread));
                let _ = commit(&ws, "a", "again", Durability::Buffered).unwrap();
            }
        });
    }
    let mine = root.join("child");
    let mut forks = 0;
    while begun.elapsed() < Duration::from_secs(2) {
        let mine = &mine;
        let child = fork(move || {
            end_in(20); // if it waits for a thread that it does not have
            let store = Store::open(mine, options()).unwrap();
            let ws = store.workspace(&place()).unwrap();
            let _ = commit(&ws, "child", "here", Durability::Buffered).unwrap();
        });
        assert!(wait(child), "the child of fork {forks} hangs or failed");
        forks += 1;
    }
    say(&format!("forked {forks}"));
}

/// The housekeeping thread is gone in the child, and must be started again: `Interval` promises a sync there too.
fn interval_in_the_child(root: &std::path::Path) {
    let with_thread = || options().housekeeping(Housekeeping::Thread);
    let (_store, ws) = open(root, with_thread());
    let _ = commit(&ws, "a", "one", Durability::Interval(1)).unwrap();
    synced(&ws);
    let child = fork(|| {
        let (_store, ws) = open(root, with_thread());
        // Several times: the first rings the bell that a thread of the parent's was waiting for.
        for _ in 0..3 {
            let _ = commit(&ws, "a", "two", Durability::Interval(1)).unwrap();
            synced(&ws);
        }
        say("child synced");
    });
    assert!(wait(child));
    let _ = commit(&ws, "a", "three", Durability::Interval(1)).unwrap();
    synced(&ws);
    say("parent synced");
}

/// Waits until an empty commit says that all before it is durable.
fn synced(ws: &foldlog::Workspace) {
    let begun = Instant::now();
    while !ws.commit(Durability::Buffered, |_, _| Ok(())).unwrap().durable {
        assert!(begun.elapsed() < Duration::from_secs(10), "nobody syncs");
        std::thread::yield_now();
    }
}

fn run(situation: &str) -> (tempfile::TempDir, Worker) {
    let dir = tempfile::tempdir().unwrap();
    let worker = Worker::start("forker", &[dir.path().to_str().unwrap(), situation]);
    (dir, worker)
}

#[test]
fn idle_child_does_not_keep_its_dead_parents_locks() {
    let (dir, mut parent) = run("idle child");
    let child: i32 = parent.expect("child").parse().unwrap();
    let mut other = an_actor(dir.path(), "other", 200);
    assert!(other.ask("commit a two buffered").starts_with("err busy"), "the parent holds LOCK");
    let sessions = || {
        let store = Store::open(dir.path(), options().read_only(true)).unwrap();
        store.live_sessions().unwrap().into_iter().map(|info| info.label).collect::<Vec<_>>()
    };
    assert!(sessions().contains(&"parent".to_owned()));
    parent.kill();
    assert_eq!(other.ask("commit a two durable"), "ok 2 durable", "LOCK outlives its holder");
    assert_eq!(sessions(), ["other"], "a session outlives its process");
    let child = rustix::process::Pid::from_raw(child).unwrap();
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.as_raw_nonzero())).unwrap();
    assert!(!stat.contains(") Z "), "the child is to be alive still: {stat}");
    rustix::process::kill_process(child, rustix::process::Signal::KILL).unwrap();
}

/// What a dead process was at is mended although its child lives on, with a copy of everything it had open.
#[test]
fn idle_child_does_not_keep_its_dead_parents_tasks() {
    use foldlog::event::Status;
    let (dir, mut parent) = run("owner");
    let mut said = [parent.next().unwrap(), parent.next().unwrap()];
    said.sort();
    let child: i32 = said[0].strip_prefix("child ").unwrap().parse().unwrap();
    let statuses = || {
        let (_store, tasks) = crate::process_owner::open(dir.path(), "other").unwrap();
        ["p", "c"].map(|task| tasks.get(task).unwrap().unwrap().task.status())
    };
    assert_eq!(statuses(), [Status::Delegated, Status::Active], "the parent lives");
    parent.kill();
    assert_eq!(statuses(), [Status::Active, Status::Interrupted], "a session outlives its process");
    let child = rustix::process::Pid::from_raw(child).unwrap();
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.as_raw_nonzero())).unwrap();
    assert!(!stat.contains(") Z "), "the child is to be alive still: {stat}");
    rustix::process::kill_process(child, rustix::process::Signal::KILL).unwrap();
}

#[test]
fn inherited_handle_says_forked_and_a_fresh_one_works() {
    let (_dir, worker) = run("inherited handle");
    worker.expect("child done");
    worker.expect("parent done");
    worker.ended();
}

#[test]
fn child_forked_while_threads_open_stores_does_not_hang() {
    let (_dir, worker) = run("while opening");
    let forks: u32 = worker.expect("forked").parse().unwrap();
    assert!(forks > 10, "{forks}");
    worker.ended();
}

#[test]
fn interval_syncs_go_on_in_a_forked_child() {
    let (_dir, worker) = run("interval in the child");
    worker.expect("child synced");
    worker.expect("parent synced");
    worker.ended();
}
