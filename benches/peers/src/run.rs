//! One run of one peer in one row.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::Result;
use crate::control::{Worker, count, create, go, job};
use crate::disk::{Device, Trace, settle};
use crate::hist::Hist;
use crate::job::{ACKED, Job, Role};
use crate::peer::{Contender, Level};
use crate::peers::STEPS_MAX;
use crate::sys::Words;

/// How much is done.
#[derive(Clone, Debug, Serialize)]
pub struct Plan {
    pub rounds: usize,
    pub seconds: f64,
    /// Commits of a run, of all its processes; `None` = as many as fit into the time.
    pub commits: Option<u64>,
    pub kills: usize,
    pub sights: u64,
}

/// A row of commits.
pub struct Row {
    pub name: &'static str,
    pub level: Level,
    pub processes: usize,
    pub batch: usize,
    /// The bare loop that it is measured against.
    pub raw: &'static str,
}

pub const ROWS: &[Row] = &[
    Row { name: "buffered-1", level: Level::Buffered, processes: 1, batch: 1, raw: "raw-flock" },
    Row { name: "buffered-4", level: Level::Buffered, processes: 4, batch: 1, raw: "raw-flock" },
    Row { name: "buffered-8", level: Level::Buffered, processes: 8, batch: 1, raw: "raw-flock" },
    Row { name: "durable-1", level: Level::Durable, processes: 1, batch: 1, raw: "raw-zeroed" },
    Row { name: "durable-4", level: Level::Durable, processes: 4, batch: 1, raw: "raw-group" },
    Row { name: "durable-8", level: Level::Durable, processes: 8, batch: 1, raw: "raw-group" },
    Row { name: "pipelined-64", level: Level::Durable, processes: 1, batch: 64, raw: "raw-zeroed" },
];

/// What a run of commits came to.
#[derive(Clone, Debug, Serialize)]
pub struct Commits {
    pub per_second: f64,
    pub p50_ns: u64,
    pub p99_ns: u64,
    pub max_ns: u64,
    /// The slowest process's rate by the mean of all.
    pub slowest: f64,
    pub acked: u64,
    pub found: u64,
    /// Per acknowledged commit: bytes and flushes of the device, bytes by the kernel's account of the processes.
    pub device_bytes: Option<f64>,
    pub flushes: Option<f64>,
    pub written: f64,
}

/// A store that was made for one run.
struct Fresh {
    dir: tempfile::TempDir,
}

impl Fresh {
    fn new(contender: &Contender, parent: &Path, room: u64) -> Result<Self> {
        let dir = tempfile::Builder::new().prefix("peers-").tempdir_in(parent)?;
        create(contender, dir.path(), room)?;
        // What making it left behind is not to be paid for by the run.
        settle(dir.path())?;
        Ok(Fresh { dir })
    }
}

/// The same job for every process of a row.
fn start(
    row: &Row,
    contender: &Contender,
    dir: &Path,
    bounds: (f64, u64),
    traces: &[Trace],
) -> Result<Vec<Worker>> {
    let each = bounds.1 / row.processes as u64;
    let worker = |n: usize| {
        let job = Job {
            seconds: bounds.0,
            commits: each - each % row.batch as u64,
            batch: row.batch,
            ..job(contender, dir, Role::Commit, n)
        };
        Worker::start(&job, traces.get(n))
    };
    let mut workers = (0..row.processes).map(worker).collect::<Result<Vec<_>>>()?;
    workers.iter_mut().try_for_each(|worker| worker.hear("READY").map(drop))?;
    Ok(workers)
}

/// Runs a row's processes, and counts what they leave.
pub fn commits(row: &Row, contender: &Contender, parent: &Path, plan: &Plan) -> Result<Commits> {
    // A bounded run still ends, if it cannot make its commits.
    let (seconds, most) = match (plan.commits, row.level) {
        (Some(commits), _) => (60.0, commits.max((row.batch * row.processes) as u64)),
        (None, Level::Buffered) => (plan.seconds, u64::MAX),
        (None, Level::Durable) => (plan.seconds, STEPS_MAX),
    };
    let fresh = Fresh::new(contender, parent, most)?;
    let dir = fresh.dir.path();
    let device = Device::of(dir);
    let mut workers = start(row, contender, dir, (seconds, most), &[])?;
    let before = device.as_ref().and_then(Device::counts);
    let begin = go(&mut workers)?;
    let answers = workers.iter_mut().map(Worker::answer).collect::<Result<Vec<_>>>()?;
    let flushes =
        device.as_ref().and_then(Device::counts).zip(before).map(|(after, before)| after.1 - before.1);
    // Bytes count once they are on the device, also those of stores that leave it to the kernel when.
    settle(dir)?;
    let bytes =
        device.as_ref().and_then(Device::counts).zip(before).map(|(after, before)| after.0 - before.0);

    let deadline = begin + (seconds * 1e9) as u64;
    let took = |end: u64| (end.min(deadline) - begin).max(1) as f64 / 1e9;
    let rates: Vec<f64> = answers.iter().map(|answer| answer.in_time as f64 / took(answer.end)).collect();
    let last = answers.iter().map(|answer| answer.end).max().unwrap_or(begin);
    let mut latencies = Hist::default();
    answers.iter().for_each(|answer| latencies.merge(&answer.latencies));
    let acked: u64 = answers.iter().map(|answer| answer.acked).sum();
    let per_commit = |n: u64| n as f64 / acked.max(1) as f64;
    Ok(Commits {
        per_second: answers.iter().map(|answer| answer.in_time).sum::<u64>() as f64 / took(last),
        p50_ns: latencies.quantile(0.5),
        p99_ns: latencies.quantile(0.99),
        max_ns: latencies.max(),
        slowest: rates.iter().copied().fold(f64::INFINITY, f64::min) * rates.len() as f64
            / rates.iter().sum::<f64>().max(f64::MIN_POSITIVE),
        acked,
        found: count(contender, dir)?,
        device_bytes: bytes.map(per_commit),
        flushes: flushes.map(per_commit),
        written: per_commit(answers.iter().map(|answer| answer.written).sum()),
    })
}

/// Syncs per acknowledged commit, counted with strace in a short run of its own.
pub fn syncs(row: &Row, contender: &Contender, parent: &Path) -> Result<f64> {
    let most = (200 * row.batch) as u64;
    let fresh = Fresh::new(contender, parent, most)?;
    let notes = tempfile::Builder::new().prefix("peers-trace-").tempdir_in(parent)?;
    let traces: Vec<_> = (0..row.processes).map(|n| Trace::into(notes.path().join(n.to_string()))).collect();
    let mut workers = start(row, contender, fresh.dir.path(), (10.0, most), &traces)?;
    go(&mut workers)?;
    let (mut calls, mut acked) = (0, 0);
    for (worker, trace) in workers.iter_mut().zip(&traces) {
        let answer = worker.answer()?;
        acked += answer.acked;
        calls += trace.count(answer.wall.0, answer.wall.1)?;
    }
    Ok(calls as f64 / acked.max(1) as f64)
}

/// How long others are kept waiting by a death.
#[derive(Clone, Debug, Serialize)]
pub struct TakeOver {
    /// From the signal until a commit returned that returned after the death, ms, one for each.
    pub ms: Vec<f64>,
    pub acked: u64,
    pub found: u64,
}

/// Kills committing processes one after the other, while another one goes on.
pub fn take_over(contender: &Contender, parent: &Path, plan: &Plan) -> Result<TakeOver> {
    let fresh = Fresh::new(contender, parent, 0)?;
    let dir = fresh.dir.path();
    let words = Words::open(&dir.join(ACKED))?;
    let mut heir = [Worker::start(&job(contender, dir, Role::Heir, 0), None)?];
    heir[0].hear("READY")?;
    go(&mut heir)?;
    let mut ms = Vec::new();
    for kill in 0..plan.kills {
        let mut doomed = [Worker::start(&job(contender, dir, Role::Doomed, kill + 1), None)?];
        doomed[0].hear("READY")?;
        let before = words.word(0).load(Ordering::Acquire);
        go(&mut doomed)?;
        // It is in full swing, and is hit anywhere.
        let patience = Instant::now();
        while words.word(0).load(Ordering::Acquire) < before + 10
            && patience.elapsed() < Duration::from_secs(5)
        {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_micros(3000 + kill as u64 * 1237 % 5000));
        let (signal, dead) = doomed[0].kill()?;
        heir[0].tell(&format!("DEAD {dead}"))?;
        let after: u64 = heir[0].hear("AFTER")?.parse()?;
        ms.push((after - signal) as f64 / 1e6);
    }
    heir[0].tell("STOP")?;
    let acked = heir[0].answer()?.acked + words.word(0).load(Ordering::Acquire);
    Ok(TakeOver { ms, acked, found: count(contender, dir)? })
}

/// When another process sees a commit.
#[derive(Clone, Debug, Serialize)]
pub struct Sight {
    /// After its return, and after its begin, µs. It may be seen before it returns.
    pub after_return: Vec<f64>,
    pub after_begin: Vec<f64>,
    /// A poll that finds nothing new.
    pub idle_ns: f64,
}

pub fn sight(contender: &Contender, parent: &Path, plan: &Plan) -> Result<Sight> {
    let fresh = Fresh::new(contender, parent, 0)?;
    let mut workers = Vec::new();
    // The teller is ready, and silent, before the watcher measures polls that find nothing.
    for role in [Role::Tell, Role::Watch] {
        let job = Job { commits: plan.sights, ..job(contender, fresh.dir.path(), role, 0) };
        let mut worker = Worker::start(&job, None)?;
        worker.hear("READY")?;
        workers.push(worker);
    }
    go(&mut workers)?;
    let [told, seen] = [workers[0].answer()?, workers[1].answer()?];
    let pairs = || told.times.iter().zip(&seen.times);
    let micros = |seen: u64, told: u64| (seen as i64 - told as i64) as f64 / 1e3;
    Ok(Sight {
        after_return: pairs().map(|(told, seen)| micros(seen.0, told.1)).collect(),
        after_begin: pairs().map(|(told, seen)| micros(seen.0, told.0)).collect(),
        idle_ns: seen.idle_ns,
    })
}

impl TakeOver {
    /// Whether nothing is missing; a doomed process may die between a commit and the word that counts it.
    pub fn is_whole(&self) -> bool {
        (self.acked..=self.acked + self.ms.len() as u64).contains(&self.found)
    }
}
