//! What idle workspaces take on disk, and what the dead leave: both stay small.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests look at the disk behind the engine's back"
)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use foldlog::event::{Field, Item, Patch, TaskId};
use foldlog::task::TaskStore;
use foldlog::vfs::sim::{Effect, Fault, Op, Profile, SimMachine};
use foldlog::vfs::{FileKind, Vfs as _};
use foldlog::{Durability, Housekeeping, Options, Place, Store};

use crate::simulated::ROOT;
use crate::worker::{Stage, Worker, quick};

/// What an idle workspace of a few tasks may take, all of it: control block, folders, reserve, snapshots.
const EACH_MAX: u64 = 100 << 10;
const TASKS: usize = 5;

fn place(n: usize) -> Place {
    Place::Key(format!("idle {n}"))
}

/// Works a little in so many workspaces, and has all of them open.
fn work(root: &Path, count: usize, from: usize) -> (TaskStore, Vec<foldlog::Tasks>) {
    let store = TaskStore::open(root, Options::default().label("idler")).unwrap();
    let homes: Vec<_> = (0..count).map(|n| store.home(&place(n)).unwrap()).collect();
    for home in &homes {
        let id = |n: usize| TaskId::new(&format!("task{n}")).unwrap();
        let item = |n| Item::new(&id(n)).with(Field::Ts, 1_i64).with(Field::Task, "A title as they are.");
        let made = (from..from + TASKS).map(|n| foldlog::Op::Create { item: item(n), again: false });
        let _ = home.commit(made.collect(), Durability::Durable).unwrap();
        for n in from..from + TASKS {
            let patch = Patch::new().set(Field::TokensIn, 5_i64);
            let _ = home.patch(&id(n), patch, Durability::Buffered).unwrap();
        }
    }
    (store, homes)
}

/// Role: works in many workspaces and says so, then waits to be killed. Arguments: root, how many, its first task.
pub(crate) fn idler(stage: &mut Stage) {
    let _open = work(&stage.path(0), to_index(stage.number(1)), to_index(stage.number(2)));
    stage.say("idle");
    stage.hear();
}

fn to_index(n: u64) -> usize {
    usize::try_from(n).unwrap()
}

/// Bytes of blocks, where the system tells; else lengths, a block for each file at least.
fn allocated(meta: &std::fs::Metadata) -> u64 {
    #[cfg(unix)]
    let bytes = std::os::unix::fs::MetadataExt::blocks(meta) * 512;
    #[cfg(not(unix))]
    let bytes = meta.len().next_multiple_of(4096);
    bytes
}

fn below(dir: &Path, all: &mut Vec<(PathBuf, u64)>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        let meta = entry.metadata().unwrap();
        all.push((entry.path(), allocated(&meta)));
        if meta.is_dir() {
            below(&entry.path(), all);
        }
    }
}

/// What each workspace takes; the largest is at most what it may be.
fn check_sizes(root: &Path, count: usize, when: &str) {
    let mut sizes = BTreeMap::new();
    for entry in std::fs::read_dir(root.join("workspaces")).unwrap() {
        let dir = entry.unwrap().path();
        let mut all = Vec::new();
        below(&dir, &mut all);
        sizes.insert(dir, all);
    }
    assert_eq!(sizes.len(), count, "{when}");
    let sum = |all: &[(PathBuf, u64)]| all.iter().map(|(_, bytes)| bytes).sum::<u64>();
    let largest = sizes.values().max_by_key(|all| sum(all)).unwrap();
    println!(
        "{when}: {} KiB each at most, {} KiB in all",
        sum(largest) >> 10,
        sizes.values().map(|all| sum(all)).sum::<u64>() >> 10
    );
    assert!(sum(largest) <= EACH_MAX, "{when}: {} KiB, {largest:?}", sum(largest) >> 10);
}

fn count() -> usize {
    if quick() { 20 } else { 300 }
}

#[test]
fn many_idle_workspaces_take_little_room() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("store");
    drop(work(&root, count(), 0));
    check_sizes(&root, count(), "closed");
    drop(work(&root, count(), TASKS));
    check_sizes(&root, count(), "closed again");
}

#[test]
fn killed_ones_take_little_room_once_somebody_has_opened_and_closed_them() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("store");
    let (path, many) = (root.to_str().unwrap().to_owned(), count().to_string());
    let mut worker = Worker::start("idler", &[&path, &many, "0"]);
    worker.expect("idle");
    worker.kill();
    {
        let store = TaskStore::open(&root, Options::default()).unwrap();
        for n in 0..count() {
            let tasks = store.home(&place(n)).unwrap();
            assert_eq!(tasks.list(&foldlog::view::Query::default()).unwrap().total, TASKS);
        }
    }
    check_sizes(&root, count(), "killed, opened, closed");
    let left: Vec<_> =
        std::fs::read_dir(root.join("sessions")).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert!(left.is_empty(), "{left:?}");
}

/// Everything of this machine that has a temporary name, or is an info whose session has no lock file under any name.
fn leftovers(machine: &SimMachine) -> Vec<String> {
    let all: Vec<String> = machine.disk().tree().into_iter().map(|(path, ..)| path).collect();
    let is_orphan = |path: &str| {
        let Some((dir, name)) = path.strip_suffix(".info").and_then(|stem| stem.rsplit_once('/')) else {
            return false;
        };
        let locks =
            [format!("{dir}/.new-{name}"), format!("{dir}/{name}.lock"), format!("{dir}/{name}.dead")];
        !name.starts_with('.') && !locks.iter().any(|lock| all.contains(lock))
    };
    all.iter().filter(|path| path.contains("/.new-") || is_orphan(path)).cloned().collect()
}

fn options() -> Options {
    TaskStore::options(Options::default().housekeeping(Housekeeping::Off)).segment_size(4 << 10)
}

fn open(machine: &SimMachine, label: &str, key: &str) -> foldlog::Result<foldlog::Tasks> {
    let store = Store::open_on(Arc::new(machine.process(label)), Path::new(ROOT), options())?;
    TaskStore::of(store).home(&Place::Key(key.into()))
}

/// Enough to rotate several times.
fn fill(tasks: &foldlog::Tasks) {
    for n in 0..60 {
        let id = TaskId::new(&format!("t{n}")).unwrap();
        let item = Item::new(&id).with(Field::Task, "x".repeat(300).as_str());
        let _ = tasks.commit(vec![foldlog::Op::Create { item, again: true }], Durability::Durable);
    }
}

/// A process that is killed at any call of its life leaves nothing under a temporary name that the next ones do not remove.
#[test]
fn whatever_the_killed_have_left_half_made_is_removed_by_the_next() {
    let whole = {
        let machine = SimMachine::new(Profile::Linux, 5);
        fill(&open(&machine, "founder", "a").unwrap());
        machine.calls(Op::Rename)
    };
    let mut seen = BTreeMap::new();
    // A rename is where something that is whole under its temporary name gets its own; the kill comes instead.
    for nth in 1..=whole {
        let machine = SimMachine::new(Profile::Linux, 5);
        machine.fault(Fault::on(Op::Rename, Effect::Eio).nth(nth).deadly());
        let life = || open(&machine, "founder", "a").map(|tasks| fill(&tasks));
        let killed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(life));
        assert!(killed.is_err(), "it lived through rename {nth}");
        machine.kill_all();
        machine.clear_faults();
        for path in leftovers(&machine) {
            let kind = path.split('/').nth_back(1).unwrap_or_default().to_owned();
            *seen.entry(kind).or_insert(0) += 1;
        }
        // The same workspace, and another one.
        for key in ["a", "b"] {
            let tasks = open(&machine, "next", key).unwrap();
            fill(&tasks);
        }
        let left = leftovers(&machine);
        let half_made: Vec<_> = left.iter().filter(|path| !is_spared(path)).collect();
        assert!(half_made.is_empty(), "killed at rename {nth}: {half_made:?}");
    }
    println!("{seen:?}");
    assert!(seen.len() > 1, "too tame: {seen:?}");
}

/// What has no lock by which its maker's death could be proven, and takes a block each.
fn is_spared(path: &str) -> bool {
    path.contains("/sessions/.new-") || path.contains("/.new-META-") || path.ends_with("/.new-control")
}

/// Beside the living nothing is removed: they may be making it at this very moment.
#[test]
fn half_made_segment_stays_while_another_session_lives() {
    let machine = SimMachine::new(Profile::Linux, 6);
    let other = open(&machine, "other window", "a").unwrap();
    let log = other.workspace().log().paths().dir().join("log");
    let half = log.join(".new-00000000000000aa");
    let orphan = Path::new(ROOT).join("sessions/77-00000000000000bb.info");
    for path in [&half, &orphan] {
        machine.with_disk(|disk| disk.plant(path, b"half").unwrap());
    }
    let tasks = open(&machine, "window", "a").unwrap();
    fill(&tasks);
    let there = |path: &Path| machine.process("x").stat(path).is_ok_and(|stat| stat.kind == FileKind::File);
    assert!(there(&half), "another session lives and may be making it");
    assert!(!there(&orphan), "its lock file has gone under every name");
    drop((tasks, other));
    machine.advance(Duration::from_secs(1));
    let tasks = open(&machine, "last window", "a").unwrap();
    fill(&tasks);
    assert!(!there(&half), "nobody else lives");
}

/// Whoever waits for BIND while another makes a workspace finds it half made, and must not touch it.
#[test]
fn half_made_workspace_of_the_living_is_whole_in_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("store");
    drop(TaskStore::open(&root, Options::default()).unwrap());
    let dead = root.join("workspaces/.new-00aa");
    std::fs::create_dir_all(dead.join("log")).unwrap();
    std::fs::write(dead.join("META"), b"half").unwrap();
    let path = root.to_str().unwrap().to_owned();
    // All at once, all the same twenty workspaces.
    let mut workers: Vec<_> =
        (0..4).map(|n| Worker::start("idler", &[&path, "20", &(n * 100).to_string()])).collect();
    for worker in &mut workers {
        worker.expect("idle");
    }
    assert!(!dead.exists(), "what the dead have left");
    drop(workers);
    let store = TaskStore::open(&root, Options::default()).unwrap();
    assert_eq!(store.store().workspace_names().unwrap().len(), 20);
    for n in 0..20 {
        let tasks = store.home(&place(n)).unwrap();
        assert_eq!(tasks.list(&foldlog::view::Query::default()).unwrap().total, 4 * TASKS);
    }
}
