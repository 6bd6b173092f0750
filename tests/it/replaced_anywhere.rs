//! The store's folder, or the workspace's, is moved away, deleted, or replaced by an older copy before any one call of
//! a short life: whatever a host then does, nothing panics or waits for ever, a copy is continued or left alone, and what
//! was called durable is somewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use foldlog::store::inspect;
use foldlog::vfs::sim::{DiskState, Op, Profile, SimMachine, SimProcess};
use foldlog::vfs::{Existing, FileKind, Open, Vfs, read_full, write_full};
use foldlog::{Durability, Error, ErrorKind, Options, Severity, State, Store, Workspace};

use crate::hooked::Hooked;
use crate::simulated::{ROOT, file, folder, machine_with, open_on, place, put, quick};

/// More calls than any life makes: who makes more waits for something that never comes.
const CALLS_MAX: u64 = 20_000;
const AWAY: &str = "/away";
const OLDER: &str = "/older";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Blow {
    Moved,
    Deleted,
    Replaced,
}

/// What is struck.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    Store,
    Workspace,
}

/// How a host lives: whether the 100 ms within which a folder that was moved is noticed pass between its calls.
#[derive(Clone, Copy, Debug)]
struct Life {
    slow: bool,
    target: Target,
    blow: Blow,
}

/// A commit that was acknowledged.
#[derive(Debug)]
struct Ack {
    text: String,
    seq: u64,
    /// The calls between which it was made.
    calls: (u64, u64),
    /// The last look at the paths in it.
    looked: u64,
}

#[derive(Default)]
struct Seen {
    acks: Vec<Ack>,
    errors: Vec<(&'static str, Error)>,
    calls: u64,
}

fn options() -> Options {
    crate::simulated::options().segment_size(4096)
}

fn copy_tree(process: &SimProcess, from: &Path, to: &Path) {
    process.create_dir(to).unwrap();
    for entry in process.list(from).unwrap() {
        let (from, to) = (from.join(&entry.name), to.join(&entry.name));
        if entry.kind == FileKind::Dir {
            copy_tree(process, &from, &to);
            continue;
        }
        let source = process.open(&from, Open::Read).unwrap();
        let mut bytes = vec![0; usize::try_from(source.stat().unwrap().len).unwrap()];
        read_full(&*source, &mut bytes, 0).unwrap();
        write_full(&*process.open(&to, Open::Create).unwrap(), &bytes, 0).unwrap();
    }
}

fn delete_tree(process: &SimProcess, dir: &Path) {
    for entry in process.list(dir).unwrap() {
        let path = dir.join(&entry.name);
        if entry.kind == FileKind::Dir { delete_tree(process, &path) } else { process.unlink(&path).unwrap() }
    }
    process.remove_dir(dir).unwrap();
}

/// A store with four commits, and beside it copies of the store and its workspace from when it had two.
fn stage() -> (DiskState, PathBuf) {
    let machine = machine_with(Profile::Linux, 1, &["one", "two"]);
    let keeper = machine.process("keeper");
    let workspace = folder(&keeper);
    copy_tree(&keeper, Path::new(ROOT), &older(Target::Store));
    copy_tree(&keeper, &workspace, &older(Target::Workspace));
    let (store, ws) = open_on(&machine.process("founder"), crate::simulated::options()).unwrap();
    for body in ["three", "four"] {
        let _ = put(&ws, Durability::Durable, "a", body).unwrap();
    }
    ws.close().unwrap();
    drop(store);
    (machine.disk(), workspace)
}

fn older(target: Target) -> PathBuf {
    PathBuf::from(format!("{OLDER}-{target:?}"))
}

impl Blow {
    fn strike(self, process: &SimProcess, path: &Path, older: &Path) {
        // Before there is one, or after it was made anew elsewhere, there is nothing to be taken away.
        if process.stat(path).is_err() {
            return;
        }
        match self {
            Blow::Moved => process.rename(path, Path::new(AWAY), Existing::Keep).unwrap(),
            Blow::Deleted => delete_tree(process, path),
            Blow::Replaced => {
                process.rename(path, Path::new(AWAY), Existing::Keep).unwrap();
                process.rename(older, path, Existing::Keep).unwrap();
            }
        }
    }
}

/// What a host may be told: each names where, and what to do.
fn is_told_well(error: &Error) -> bool {
    let fine = matches!(
        error.kind(),
        ErrorKind::StoreReplaced { .. }
            | ErrorKind::NotFound { .. }
            | ErrorKind::Io
            | ErrorKind::NotDurable { .. }
    );
    fine && !error.path().as_os_str().is_empty()
}

struct Host<'a> {
    machine: &'a SimMachine,
    life: Life,
    vfs: Arc<Hooked>,
    calls: Arc<AtomicU64>,
    looked: Arc<AtomicU64>,
    seen: Seen,
}

impl Host<'_> {
    fn pass(&self) {
        if self.life.slow {
            self.machine.advance(Duration::from_millis(150));
        }
    }

    fn note<T>(&mut self, act: &'static str, answer: foldlog::Result<T>) -> Option<T> {
        answer.map_err(|error| self.seen.errors.push((act, error))).ok()
    }

    fn commit(&mut self, ws: &Workspace, level: Durability, text: &str) {
        self.pass();
        let before = self.calls.load(Ordering::Relaxed);
        let answer = put(ws, level, "k", text);
        let after = self.calls.load(Ordering::Relaxed);
        let looked = self.looked.load(Ordering::Relaxed);
        if let Some(receipt) = self.note("commit", answer) {
            assert!(receipt.durable || level != Durability::Durable);
            self.seen.acks.push(Ack {
                text: text.to_owned(),
                seq: receipt.first.0,
                calls: (before, after),
                looked,
            });
        }
    }

    fn open(&mut self) -> Option<(Store, Workspace)> {
        let store = Store::open_on(Arc::clone(&self.vfs) as Arc<dyn Vfs>, Path::new(ROOT), options());
        let store = self.note("open", store)?;
        let ws = store.workspace(&place());
        Some((store, self.note("open", ws)?))
    }

    /// Open, buffered and durable commits, reads, a rotation, a flush, and the close.
    fn live(&mut self) {
        self.pass();
        let Some((store, ws)) = self.open() else { return };
        self.commit(&ws, Durability::Buffered, "buffered");
        self.commit(&ws, Durability::Durable, "durable");
        self.pass();
        let read = ws.read(State::last);
        self.note("read", read);
        let view = ws.view(foldlog::Consistency::Latest);
        self.note("read", view);
        for n in 0..5 {
            let level = if n % 2 == 0 { Durability::Buffered } else { Durability::Durable };
            self.commit(&ws, level, &format!("{n} {}", "x".repeat(1500)));
        }
        self.pass();
        let flushed = ws.flush();
        self.note("flush", flushed);
        self.pass();
        let closed = ws.close();
        self.note("close", closed);
        drop(store);
    }
}

/// The commits of a log that stands somewhere, which must be whole.
fn commits_in(machine: &SimMachine, dir: &Path, what: &str) -> BTreeMap<u64, String> {
    let process = machine.process("auditor");
    let found = inspect::workspace(&process, dir, &mut |_| {}).unwrap_or_else(|e| panic!("{what}: {e}"));
    assert!(found.worst() <= Some(Severity::Warning), "{what}: {:?}", found.findings);
    let mut all = BTreeMap::new();
    let meta = foldlog::log::WorkspaceMeta::decode(&file(&process, &dir.join("META"))).unwrap();
    let paths = foldlog::log::Paths::new(dir);
    foldlog::log::reader::walk(
        &process,
        &paths,
        meta.log_id,
        None,
        foldlog::log::reader::Reach::Intact,
        &mut |v| {
            if let foldlog::log::scan::Content::Commit(commit) = &v.located.content {
                all.extend(commit.events().map(|e| (e.seq.0, String::from_utf8_lossy(e.body).into_owned())));
            }
        },
    )
    .unwrap();
    all
}

/// One life, struck before its `k`-th call. Returns how many calls it made.
fn run(disk: &DiskState, workspace: &Path, life: Life, k: u64) -> Seen {
    let what = format!("{life:?} before call {k}");
    let machine = SimMachine::from_disk(disk, k);
    let process = machine.process("p");
    let striker = machine.process("striker");
    let (calls, looked) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let path = if life.target == Target::Store { PathBuf::from(ROOT) } else { workspace.to_path_buf() };
    let hook = {
        let (calls, looked, path) = (Arc::clone(&calls), Arc::clone(&looked), path.clone());
        move |op: Op, at: &Path| {
            let n = calls.fetch_add(1, Ordering::Relaxed) + 1;
            assert!(n < CALLS_MAX, "it waits for ever");
            if n == k {
                life.blow.strike(&striker, &path, &older(life.target));
            }
            if op == Op::Stat && at.ends_with("LOCK") {
                looked.store(n, Ordering::Relaxed);
            }
        }
    };
    let vfs = Hooked::new(Arc::new(process), hook);
    let mut host =
        Host { machine: &machine, life, vfs, calls: Arc::clone(&calls), looked, seen: Seen::default() };
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| host.live())) {
        let why = panic.downcast_ref::<String>().cloned().unwrap_or_else(|| "a panic".into());
        panic!("{what}: {why}");
    }
    let mut seen = host.seen;
    seen.calls = calls.load(Ordering::Relaxed);
    for (act, error) in &seen.errors {
        assert!(is_told_well(error), "{what}: {act}: {error} ({:?})", error.kind());
    }
    judge(&machine, workspace, life, k, &seen, &what);
    seen
}

fn judge(machine: &SimMachine, workspace: &Path, life: Life, k: u64, seen: &Seen, what: &str) {
    let process = machine.process("auditor");
    let below = workspace.strip_prefix(ROOT).unwrap();
    let away = if life.target == Target::Store { Path::new(AWAY).join(below) } else { AWAY.into() };
    let is_there = |dir: &Path| process.stat(dir).is_ok();
    let mut places: Vec<(&str, BTreeMap<u64, String>)> = Vec::new();
    for (name, dir) in [("what was moved away", away.as_path()), ("what stands", workspace)] {
        if is_there(dir) {
            let commits = commits_in(machine, dir, &format!("{what}: {name}"));
            // Made anew where the old one was gone, it begins with what was committed then.
            let begins: Vec<&str> = commits.values().take(2).map(String::as_str).collect();
            let fresh = commits.values().next().is_none_or(|first| !["one", "two"].contains(&first.as_str()));
            assert!(fresh || begins == ["one", "two"], "{what}: {name}: {commits:?}");
            places.push((name, commits));
        }
    }
    for ack in &seen.acks {
        let stands = places.iter().any(|(_, commits)| commits.get(&ack.seq) == Some(&ack.text));
        // In what was deleted nobody can look. Nothing is acknowledged there whose commit looked at its files afterwards.
        let detectable = k <= ack.calls.0 || k <= ack.looked && k <= ack.calls.1;
        let gone = life.blow == Blow::Deleted && !detectable;
        let gone = gone || life.blow == Blow::Deleted && k > ack.calls.1;
        assert!(stands || gone, "{what}: {ack:?} is nowhere: {:?}", seen.errors);
    }
    // A restored copy holds what it held, and behind that what was acknowledged, or failed without an answer.
    let tried: BTreeSet<&str> = seen.acks.iter().map(|ack| ack.text.as_str()).collect();
    for (name, commits) in &places {
        let strange: Vec<_> = commits
            .values()
            .filter(|text| {
                !["one", "two", "three", "four"].contains(&text.as_str()) && !tried.contains(text.as_str())
            })
            .collect();
        assert!(strange.len() <= seen.errors.len(), "{what}: {name}: {strange:?}");
    }
    // Who comes next finds a store, or makes one, and goes on.
    if life.blow != Blow::Replaced && life.target == Target::Workspace && !is_there(workspace) {
        return;
    }
    let (_store, ws) = open_on(&machine.process("next"), options()).unwrap_or_else(|e| panic!("{what}: {e}"));
    let receipt = put(&ws, Durability::Durable, "k", "next").unwrap_or_else(|e| panic!("{what}: {e}"));
    assert!(receipt.durable, "{what}");
}

fn every_call(target: Target, slow: bool) {
    let (disk, workspace) = stage();
    let mut lives = 0;
    for blow in [Blow::Moved, Blow::Deleted, Blow::Replaced] {
        let life = Life { slow, target, blow };
        let (mut refused, mut k) = (0, 1);
        loop {
            let seen = run(&disk, &workspace, life, k);
            refused += u64::from(!seen.errors.is_empty());
            lives += 1;
            if k > seen.calls {
                assert_eq!(seen.acks.len(), 7, "{life:?}: struck by nothing, {:?}", seen.errors);
                break;
            }
            k += if quick() { 5 } else { 1 };
        }
        println!("{life:?}: {k} calls, {refused} lives met an error");
        assert!(refused > 0, "{life:?}");
    }
    assert!(lives > if quick() { 50 } else { 300 }, "{lives}");
}

#[test]
fn store_struck_before_any_call_of_a_quick_life() {
    every_call(Target::Store, false);
}

#[test]
fn store_struck_before_any_call_of_a_slow_life() {
    every_call(Target::Store, true);
}

#[test]
fn workspace_struck_before_any_call_of_a_quick_life() {
    every_call(Target::Workspace, false);
}

#[test]
fn workspace_struck_before_any_call_of_a_slow_life() {
    every_call(Target::Workspace, true);
}
