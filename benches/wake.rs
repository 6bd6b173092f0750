//! How soon a sleeping subscriber of another process has a commit, and what sleeping costs. Linux only.
//!
//! ```text
//! cargo bench --bench wake                     both tables
//! FOLDLOG_BENCH_COMMITS=2000 …                 how many commits are timed, default 2000
//! FOLDLOG_BENCH_SECONDS=10 …                   how long it sleeps without a commit, default 10
//! ```
//! This program starts itself as the subscriber, with its own handle on the same store. Commits are buffered and 2 ms
//! apart, so that it sleeps before each. The clock is the system's real one, which both processes share.
#![expect(clippy::disallowed_methods, clippy::unwrap_used, reason = "it measures time, and reads /proc")]

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use foldlog::{Durability, Housekeeping, Key, NewEvent, Options, Place, Since, Store, Vocabulary, Workspace};

const KIND: u16 = 200;

fn main() {
    match std::env::var("FOLDLOG_WAKE_CHILD") {
        Ok(root) => subscribe(Path::new(&root)),
        Err(_) => measure(),
    }
}

fn open(root: &Path, housekeeping: Housekeeping) -> (Store, Workspace) {
    let options = Options::default().vocabulary(Vocabulary::new([(KIND, 1)])).housekeeping(housekeeping);
    let store = Store::open(root, options).unwrap();
    let workspace = store.workspace(&Place::Key("wake".into())).unwrap();
    (store, workspace)
}

fn nanos() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos()).unwrap()
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|n| n.parse().ok()).unwrap_or(default)
}

/// Nanoseconds on a processor, of all threads of this process.
fn busy() -> u64 {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let of = |path: std::path::PathBuf| {
        let text = std::fs::read_to_string(path.join("schedstat")).unwrap_or_default();
        text.split(' ').next().and_then(|n| n.parse::<u64>().ok()).unwrap_or(0)
    };
    tasks.map(|task| of(task.unwrap().path())).sum()
}

/// The subscriber: a line for each commit, when it had it and what was in it; `idle` tells what sleeping costs.
fn subscribe(root: &Path) {
    let (_store, workspace) = open(root, Housekeeping::Thread);
    let mut subscription = workspace.subscribe(Since::Now).unwrap();
    let mut out = std::io::stdout().lock();
    busy(); // the first look costs more than the others
    let (before, slept) = (busy(), subscription.wakings());
    let idle = Duration::from_secs(number("FOLDLOG_BENCH_SECONDS", 10));
    assert!(subscription.next_within(idle).unwrap().is_none());
    let now = subscription.wakings();
    let wakes = now.by_time + now.by_ring - slept.by_time - slept.by_ring;
    writeln!(out, "{} {wakes}", busy() - before).unwrap();
    out.flush().unwrap();
    loop {
        let delivery = subscription.next_within(Duration::from_secs(60)).unwrap();
        let at = nanos();
        let Some(delivery) = delivery else { return };
        let event = delivery.events.first().unwrap();
        if event.body.is_empty() {
            let w = subscription.wakings();
            writeln!(out, "end {} {}", w.by_ring, w.by_time).unwrap();
            return;
        }
        let sent = u64::from_le_bytes(event.body.first_chunk().copied().unwrap());
        writeln!(out, "{} {}", at.saturating_sub(sent), delivery.first).unwrap();
        out.flush().unwrap();
    }
}

fn put(workspace: &Workspace, timed: bool) {
    let committed = workspace.commit(Durability::Buffered, move |_, draft| {
        let body = if timed { nanos().to_le_bytes().to_vec() } else { Vec::new() };
        draft.push(NewEvent::record(KIND, 1, Key::none(), body));
        Ok(())
    });
    let _ = committed.unwrap();
}

fn measure() {
    let folder = std::env::var_os("FOLDLOG_BENCH_DIR").unwrap_or_else(|| env!("CARGO_TARGET_TMPDIR").into());
    let dir = tempfile::tempdir_in(folder).unwrap();
    let (_store, workspace) = open(dir.path(), Housekeeping::Off);
    put(&workspace, true);
    let mut child = Command::new(std::env::current_exe().unwrap())
        .env("FOLDLOG_WAKE_CHILD", dir.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let idle = lines.next().unwrap();
    let (cpu, wakes) = idle.split_once(' ').unwrap();
    let seconds = number("FOLDLOG_BENCH_SECONDS", 10);
    let cpu = Duration::from_nanos(cpu.parse().unwrap());
    println!("| asleep for {seconds} s | {cpu:.2?} on a processor, {wakes} wake-ups |");
    let mut took = Vec::new();
    for _ in 0..number("FOLDLOG_BENCH_COMMITS", 2000) {
        std::thread::sleep(Duration::from_millis(2));
        put(&workspace, true);
        took.push(lines.next().unwrap().split(' ').next().unwrap().parse::<u64>().unwrap());
    }
    put(&workspace, false);
    let end = lines.next().unwrap();
    took.sort_unstable();
    let at = |part: usize| Duration::from_nanos(took.get(took.len() * part / 1000).copied().unwrap_or(0));
    println!(
        "| woken by another process's commit, {} of them | p50 {:.1?}, p90 {:.1?}, p99 {:.1?}; {end} |",
        took.len(),
        at(500),
        at(900),
        at(990)
    );
    child.wait().unwrap();
}
