//! What a process of these rows does, and what it answers: JSON both, the job its one argument, the answer its last line.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use foldlog::{Durability, Field, Options, Patch, Place, TaskId, TaskStore, Tasks};
use serde::{Deserialize, Serialize};

use super::rows::Model;
use super::stores::{self, Way, Whole};
use crate::Result;
use crate::hist::Hist;

/// How many a list shows.
pub const PAGE: usize = 50;
/// How often each task is changed in a long life.
const CHANGED: usize = 5;
/// Changes of one transaction.
const TOGETHER: usize = 500;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Role {
    /// Makes the store and its tasks, and closes it.
    Make,
    /// Changes tasks so many times and ends without closing.
    Tail(usize),
    /// Changes tasks so many times and closes.
    Change(usize),
    /// Makes the tasks and changes them five times over, in so many steps, and waits for a line after each.
    Live(usize),
    /// Opens and lists the newest, once.
    Open,
    /// Looks so many times: by id, newest, children.
    Look(usize),
    /// Opens a log without a snapshot: ours folds it all, others read it all, or fold it too.
    Replay(bool),
    /// Changes tasks, each change a commit, and times each, until it is told to stop or has made so many.
    Commit(usize),
    /// Snapshots, and compacts when it is told to.
    Compact,
    /// Snapshots and compacts once.
    CompactOnce,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Job {
    pub role: Role,
    pub store: String,
    pub dir: PathBuf,
    pub tasks: usize,
    /// How often tasks were changed before.
    pub changes: usize,
}

#[derive(Default, Serialize, Deserialize)]
pub struct Answer {
    /// Opening, and the first list, µs.
    pub open_us: f64,
    pub list_us: f64,
    /// How long it was on a processor for that, µs: a busy machine makes all else longer.
    pub cpu_us: f64,
    /// Medians of a look, µs, by its name.
    pub looks: BTreeMap<String, f64>,
    /// Memory of its own and the most it ever had in all, KiB.
    pub anon_kib: u64,
    pub peak_kib: u64,
    /// Bytes of log, and bytes that were handed to the kernel.
    pub log_bytes: u64,
    pub wrote: u64,
    pub latencies: Hist,
    pub commits: usize,
    /// Bytes of log that are gone by it.
    pub compacted: u64,
}

/// A number of KiB in /proc/self/status.
fn status(name: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).unwrap_or(0)
}

/// Bytes that this process has handed to the kernel with calls that write.
fn wrote() -> u64 {
    let text = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("wchar:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|n| n.parse().ok()).unwrap_or(0)
}

/// How long this thread has been on a processor, µs.
pub fn on_processor_us() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split_whitespace().next().and_then(|ns| ns.parse::<f64>().ok()).map_or(0.0, |ns| ns / 1e3)
}

fn micros(since: Instant) -> f64 {
    since.elapsed().as_nanos() as f64 / 1e3
}

fn check(what: &str, found: &[Whole], wanted: &[(String, i64)]) -> Result<()> {
    let found = found.iter().map(Whole::id_and_ts).collect::<Result<Vec<_>>>()?;
    if found == wanted {
        return Ok(());
    }
    let at = found.iter().zip(wanted).position(|(a, b)| a != b).unwrap_or(found.len().min(wanted.len()));
    let (a, b) = (found.get(at), wanted.get(at));
    Err(format!("{what}: {} tasks instead of {}; at {at} {a:?} instead of {b:?}", found.len(), wanted.len())
        .into())
}

/// Does a job and prints what came of it.
pub fn run(job: &str) -> Result<()> {
    let job: Job = serde_json::from_str(job)?;
    let answer = match &job.role {
        Role::Make => make(&job)?,
        Role::Tail(count) => change(&job, *count, &Way::Plain)?,
        Role::Change(count) => change(&job, *count, &Way::Write)?,
        Role::Live(steps) => live(&job, *steps)?,
        Role::Open => open(&job)?,
        Role::Look(count) => look(&job, *count)?,
        Role::Replay(folds) => super::replay::read(&job, *folds)?,
        Role::Commit(count) => commit(&job, *count)?,
        Role::Compact => compact(&job)?,
        Role::CompactOnce => compact_once(&job)?,
    };
    println!("{}", serde_json::to_string(&answer)?);
    if matches!(job.role, Role::Tail(_)) {
        // Nothing is closed.
        std::process::exit(0);
    }
    Ok(())
}

fn make(job: &Job) -> Result<Answer> {
    let before = wrote();
    let mut store = stores::open(&job.store, &job.dir, &Way::Write)?;
    Model::new(job.tasks).batches().try_for_each(|rows| store.create(&rows))?;
    let log_bytes = store.log_bytes();
    store.close()?;
    Ok(Answer { log_bytes, wrote: wrote() - before, ..Answer::default() })
}

fn change(job: &Job, count: usize, way: &Way) -> Result<Answer> {
    let before = wrote();
    let mut store = stores::open(&job.store, &job.dir, way)?;
    let mut model = Model::after(job.tasks, job.changes);
    let mut left = count;
    while left > 0 {
        let (rows, changes) = model.change(left.min(TOGETHER));
        left -= rows.len();
        store.change(&rows, &changes)?;
    }
    let (log_bytes, wrote) = (store.log_bytes(), wrote() - before);
    if matches!(way, Way::Plain) {
        // As a process that is killed leaves it.
        std::mem::forget(store);
    } else {
        store.close()?;
    }
    Ok(Answer { log_bytes, wrote, ..Answer::default() })
}

/// What a process says that waits after a step: changes so far, bytes of log, bytes handed to the kernel.
#[derive(Serialize, Deserialize)]
pub struct Step {
    pub changes: usize,
    pub log_bytes: u64,
    pub wrote: u64,
}

fn live(job: &Job, steps: usize) -> Result<Answer> {
    let before = wrote();
    let mut store = stores::open(&job.store, &job.dir, &Way::Write)?;
    let mut model = Model::new(job.tasks);
    model.batches().try_for_each(|rows| store.create(&rows))?;
    let mut changes = 0;
    for step in 0..=steps {
        while changes < job.tasks * CHANGED * step / steps {
            let (rows, new) = model.change(TOGETHER.min(job.tasks * CHANGED * step / steps - changes));
            changes += rows.len();
            store.change(&rows, &new)?;
        }
        let step = Step { changes, log_bytes: store.log_bytes(), wrote: wrote() - before };
        say(&serde_json::to_string(&step)?)?;
        hear()?;
    }
    let log_bytes = store.log_bytes();
    store.close()?;
    Ok(Answer { log_bytes, wrote: wrote() - before, ..Answer::default() })
}

fn open(job: &Job) -> Result<Answer> {
    let before = on_processor_us();
    let begin = Instant::now();
    let store = stores::open(&job.store, &job.dir, &Way::Read)?;
    let open_us = micros(begin);
    let found = store.newest(PAGE)?;
    let list_us = micros(begin) - open_us;
    let cpu_us = on_processor_us() - before;
    let (anon_kib, peak_kib) = (status("RssAnon"), status("VmHWM"));
    // The model of the check is not to be counted.
    check("newest", &found, &Model::after(job.tasks, job.changes).newest(PAGE))?;
    Ok(Answer { open_us, list_us, cpu_us, anon_kib, peak_kib, ..Answer::default() })
}

fn look(job: &Job, count: usize) -> Result<Answer> {
    let store = stores::open(&job.store, &job.dir, &Way::Read)?;
    let model = Model::after(job.tasks, job.changes);
    let mut random = 0x9E37_79B9_7F4A_7C15_u64;
    let mut any = || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random >> 11) as usize % model.len()
    };
    let mut looks = BTreeMap::new();
    let mut note = |name: &str, hist: &Hist| looks.insert(name.to_owned(), hist.quantile(0.5) as f64 / 1e3);
    // Once untimed: each reader begins with pages and caches as they are after a while.
    for timed in [false, true] {
        let (mut by_id, mut newest, mut children) = (Hist::default(), Hist::default(), Hist::default());
        for n in 0..count {
            let task = any();
            let (id, ts) = model.task(task);
            let begin = Instant::now();
            let found = store.get(&id)?;
            by_id.add(begin.elapsed().as_nanos() as u64);
            if n % 64 == 0 {
                check("by id", found.as_slice(), &[(id, ts)])?;
            }
        }
        let wanted = model.newest(PAGE);
        for n in 0..count.div_ceil(20) {
            let begin = Instant::now();
            let found = store.newest(PAGE)?;
            newest.add(begin.elapsed().as_nanos() as u64);
            if n % 64 == 0 {
                check("newest", &found, &wanted)?;
            }
        }
        for n in 0..count.div_ceil(5) {
            let task = any();
            let parent = Model::parent(task).unwrap_or(task);
            let (id, _) = model.task(parent);
            let begin = Instant::now();
            let found = store.children(&id)?;
            children.add(begin.elapsed().as_nanos() as u64);
            if n % 64 == 0 {
                check("children", &found, &model.children(parent))?;
            }
        }
        if timed {
            note("by id", &by_id);
            note("newest 50", &newest);
            note("children", &children);
        }
    }
    Ok(Answer { looks, ..Answer::default() })
}

fn say(line: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    Ok(out.flush()?)
}

fn hear() -> Result<String> {
    let mut line = String::new();
    if std::io::stdin().read_line(&mut line)? == 0 {
        return Err("who started this has gone".into());
    }
    Ok(line)
}

fn commit(job: &Job, count: usize) -> Result<Answer> {
    // Who measures commits does nothing else in the background.
    let mut store = stores::open(&job.store, &job.dir, &Way::Plain)?;
    let mut model = Model::after(job.tasks, job.changes);
    let mut answer = Answer::default();
    say("READY")?;
    hear()?;
    let stop = Arc::new(AtomicBool::new(false));
    std::thread::spawn({
        let stop = Arc::clone(&stop);
        move || {
            let _ = hear();
            stop.store(true, Ordering::Release);
        }
    });
    let mut left = count;
    while left > 0 && !stop.load(Ordering::Acquire) {
        let (rows, changes) = model.change(left.min(TOGETHER));
        left -= rows.len();
        answer.commits += rows.len();
        for n in 0..rows.len() {
            let begin = Instant::now();
            store.change(&rows[n..=n], &changes[n..=n])?;
            answer.latencies.add(begin.elapsed().as_nanos() as u64);
        }
    }
    store.close()?;
    Ok(answer)
}

fn compactor(job: &Job) -> Result<(TaskStore, Tasks)> {
    // Only what it is told to.
    let options = Options::default().label("compactor").snapshot_after(u64::MAX);
    let store = TaskStore::open(job.dir.join("store"), options)?;
    let tasks = store.home(&Place::Key("views".into()))?;
    Ok((store, tasks))
}

/// The two snapshots below which it compacts are made before.
fn compact(job: &Job) -> Result<Answer> {
    let (_store, tasks) = compactor(job)?;
    let id = TaskId::new(&crate::data::id(0))?;
    for n in 0..2 {
        let _ = tasks.patch(&id, Patch::new().set(Field::Size, i64::from(n)), Durability::Durable)?;
        tasks.workspace().snapshot()?;
    }
    say("READY")?;
    hear()?;
    let report = tasks.workspace().compact(&mut |_, _| ControlFlow::Continue(()))?;
    let gone = report.map_or(0, |report| report.bytes_before - report.bytes_after);
    Ok(Answer { compacted: gone, ..Answer::default() })
}

fn compact_once(job: &Job) -> Result<Answer> {
    let (_store, tasks) = compactor(job)?;
    tasks.workspace().snapshot()?;
    let report = tasks.workspace().compact(&mut |_, _| ControlFlow::Continue(()))?;
    Ok(Answer {
        compacted: report.map_or(0, |report| report.bytes_before - report.bytes_after),
        ..Answer::default()
    })
}

/// A process at work, and its pipes.
pub struct Running {
    child: Child,
    hands: ChildStdin,
    lines: std::io::Lines<BufReader<ChildStdout>>,
}

impl Running {
    pub fn start(job: &Job) -> Result<Self> {
        let mut child = start(job)?;
        let hands = child.stdin.take().ok_or("no way in")?;
        let lines = BufReader::new(child.stdout.take().ok_or("no way out")?).lines();
        Ok(Running { child, hands, lines })
    }

    pub fn hear(&mut self) -> Result<String> {
        Ok(self.lines.next().ok_or("it ended too soon")??)
    }

    /// One that has ended by itself has not heard it.
    pub fn tell(&mut self) {
        let _ = writeln!(self.hands, "on");
    }

    pub fn answer(mut self) -> Result<Answer> {
        let answer = serde_json::from_str(&self.hear()?)?;
        let status = self.child.wait()?;
        if status.success() { Ok(answer) } else { Err(format!("it failed as it closed: {status}").into()) }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// This program again, with a job.
fn start(job: &Job) -> Result<Child> {
    let me = std::env::current_exe()?;
    let text = serde_json::to_string(job)?;
    Ok(Command::new(me)
        .args(["--views-worker", &text])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?)
}

/// Runs a [`Role::Live`], and looks after each of its steps.
pub fn watched(job: &Job, mut look: impl FnMut(&Step) -> Result<()>) -> Result<Answer> {
    let Role::Live(steps) = job.role else { return Err("it takes no steps".into()) };
    let mut running = Running::start(job)?;
    for _ in 0..=steps {
        look(&serde_json::from_str(&running.hear()?)?)?;
        running.tell();
    }
    running.answer()
}

pub fn done(job: &Job) -> Result<Answer> {
    let out = start(job)?.wait_with_output()?;
    if !out.status.success() {
        return Err(format!("{:?} failed: {}", job.role, out.status).into());
    }
    let text = String::from_utf8(out.stdout)?;
    Ok(serde_json::from_str(text.lines().last().unwrap_or_default())?)
}

/// Bytes on disk below a folder, each file once.
pub fn disk_bytes(dir: &Path) -> Result<u64> {
    use std::os::unix::fs::MetadataExt;
    let mut sum = 0;
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        let meta = entry.metadata()?;
        sum += if meta.is_dir() { disk_bytes(&entry.path())? } else { meta.blocks() * 512 };
    }
    Ok(sum)
}
