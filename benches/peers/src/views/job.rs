//! What a process of these rows does, and what it answers: JSON both, the job its one argument, the answer its last line.

use std::collections::BTreeMap;
use std::io::{BufRead, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use foldlog::{Consistency, Options, Place, TaskStore};
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
    /// Opens a log without a snapshot: folds it all, or reads it all.
    Replay,
    /// Changes so many times, each change a commit, and times each.
    Commit(usize),
    /// Snapshots and compacts until it is killed.
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
    /// Medians of a look, µs, by its name.
    pub looks: BTreeMap<String, f64>,
    /// Memory of its own and the most it ever had in all, KiB.
    pub anon_kib: u64,
    pub peak_kib: u64,
    /// Bytes of log, and bytes that were handed to the kernel.
    pub log_bytes: u64,
    pub wrote: u64,
    pub latencies: Hist,
    pub compactions: u64,
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
        Role::Replay => super::replay::read(&job)?,
        Role::Commit(count) => commit(&job, *count)?,
        Role::Compact => compact(&job, true)?,
        Role::CompactOnce => compact(&job, false)?,
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
        println!("{}", serde_json::to_string(&step)?);
        let mut line = String::new();
        if std::io::stdin().read_line(&mut line)? == 0 {
            return Err("who started this has gone".into());
        }
    }
    let log_bytes = store.log_bytes();
    store.close()?;
    Ok(Answer { log_bytes, wrote: wrote() - before, ..Answer::default() })
}

fn open(job: &Job) -> Result<Answer> {
    let begin = Instant::now();
    let store = stores::open(&job.store, &job.dir, &Way::Read)?;
    let open_us = micros(begin);
    let found = store.newest(PAGE)?;
    let list_us = micros(begin) - open_us;
    let (anon_kib, peak_kib) = (status("RssAnon"), status("VmHWM"));
    // The model of the check is not to be counted.
    check("newest", &found, &Model::after(job.tasks, job.changes).newest(PAGE))?;
    Ok(Answer { open_us, list_us, anon_kib, peak_kib, ..Answer::default() })
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

fn commit(job: &Job, count: usize) -> Result<Answer> {
    let mut store = stores::open(&job.store, &job.dir, &Way::Write)?;
    let mut model = Model::after(job.tasks, job.changes);
    let mut answer = Answer::default();
    let mut left = count;
    while left > 0 {
        let (rows, changes) = model.change(left.min(TOGETHER));
        left -= rows.len();
        for n in 0..rows.len() {
            let begin = Instant::now();
            store.change(&rows[n..=n], &changes[n..=n])?;
            answer.latencies.add(begin.elapsed().as_nanos() as u64);
        }
    }
    store.close()?;
    Ok(answer)
}

fn compact(job: &Job, again: bool) -> Result<Answer> {
    let store = TaskStore::open(job.dir.join("store"), Options::default().label("compactor"))?;
    let tasks = store.home(&Place::Key("views".into()))?;
    let mut compactions = 0;
    loop {
        // What a view has not read, it cannot save.
        drop(tasks.view(Consistency::Latest)?);
        tasks.workspace().snapshot()?;
        compactions += u64::from(tasks.workspace().compact(&mut |_, _| ControlFlow::Continue(()))?.is_some());
        if !again {
            return Ok(Answer { compactions, ..Answer::default() });
        }
        // Its maker reads how often, and kills it.
        std::fs::write(job.dir.join("compactions"), compactions.to_string())?;
    }
}

/// This program again, with a job.
pub fn start(job: &Job) -> Result<Child> {
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
    let mut child = start(job)?;
    let mut hands = child.stdin.take().ok_or("no way in")?;
    let mut lines = std::io::BufReader::new(child.stdout.take().ok_or("no way out")?).lines();
    let mut hear = || -> Result<String> { Ok(lines.next().ok_or("it ended too soon")??) };
    let mut all = || -> Result<Answer> {
        for _ in 0..=steps {
            look(&serde_json::from_str(&hear()?)?)?;
            writeln!(hands, "on")?;
        }
        Ok(serde_json::from_str(&hear()?)?)
    };
    let answer = all();
    if answer.is_err() {
        child.kill()?;
    }
    let status = child.wait()?;
    let answer = answer?;
    if status.success() { Ok(answer) } else { Err(format!("it failed as it closed: {status}").into()) }
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
