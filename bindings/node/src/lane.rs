//! Commits that have to wait, in the order they were asked for, on a thread of their workspace's own.
//!
//! All that wait when the thread comes are taken together: they are committed one behind the other, and one sync makes
//! them all durable. A commit that finds the lane empty may be made on JavaScript's thread; one that does not goes behind
//! the others, so that the order of calls is the order of commits.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use foldlog::task::{Committed, Op};
use foldlog::{CommitOptions, Durability, Tasks};
use foldlog_requests::settle::settle;
use foldlog_requests::{Failure, Request, receipt};

use crate::wire::{Job, caught, lock};

/// A thread that has had nothing to commit for so long ends.
const IDLE: Duration = Duration::from_secs(2);
/// For how long what was committed is waited for to be durable: a sync that hangs for so long hangs for ever.
const PATIENCE: Duration = Duration::from_secs(24 * 3600);

/// Changes, and how they are to be committed.
type Asked = (Vec<Op>, CommitOptions);

/// What a job waits for.
enum Work {
    /// A request, to be committed.
    Commit(String),
    /// What stands already is to be durable.
    Settle(Committed),
}

#[derive(Default)]
struct Waiting {
    jobs: Vec<(Job, Work)>,
    /// How many have come, and how many of them are answered.
    taken: u64,
    answered: u64,
    /// Whether a thread is at it, and whether it waits for more.
    served: bool,
    idle: bool,
    /// How many threads still hold the workspace: one that ends makes room for another before it lets go.
    holders: usize,
    /// Whether none is to wait for more.
    closed: bool,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Lane {
    waiting: Mutex<Waiting>,
    /// How many were asked for and are not committed yet.
    unanswered: AtomicUsize,
    less: Condvar,
    more: Condvar,
}

/// The changes and options that a request's text spells.
pub(crate) fn read(text: &str) -> Result<(Vec<Op>, CommitOptions), Failure> {
    let request = Request::parse(text)?;
    let ops = match &*request.op {
        "commit" => request.changes()?,
        op => {
            vec![request.change()?.ok_or_else(|| Failure::invalid(format!("there is no change {op:?}")))?]
        }
    };
    Ok((ops, request.options()?))
}

impl Lane {
    /// Whether nothing is before a commit that is asked for now.
    pub(crate) fn is_empty(&self) -> bool {
        self.unanswered.load(Ordering::Acquire) == 0
    }

    /// Has changes committed behind all that were asked for before.
    pub(crate) fn commit(self: &Arc<Self>, home: &Tasks, job: Job, request: String) {
        self.unanswered.fetch_add(1, Ordering::AcqRel);
        self.take(home, job, Work::Commit(request));
    }

    /// Has a job whose changes stand answered once they are durable.
    pub(crate) fn settle(self: &Arc<Self>, home: &Tasks, job: Job, committed: Committed) {
        job.begin();
        self.take(home, job, Work::Settle(committed));
    }

    fn take(self: &Arc<Self>, home: &Tasks, job: Job, work: Work) {
        let mut waiting = lock(&self.waiting);
        waiting.jobs.push((job, work));
        waiting.taken += 1;
        if waiting.served {
            let idle = waiting.idle;
            drop(waiting);
            if idle {
                self.more.notify_one();
            }
            return;
        }
        waiting.served = true;
        waiting.holders += 1;
        drop(waiting);
        let holder = Holder { lane: Arc::clone(self), home: Some(home.clone()) };
        let thread = std::thread::Builder::new().name("foldlog-lane".into());
        if let Err(error) = thread.spawn(move || holder.serve()) {
            let mut waiting = lock(&self.waiting);
            let jobs = std::mem::take(&mut waiting.jobs);
            waiting.served = false;
            waiting.answered = waiting.taken;
            drop(waiting);
            for (job, work) in jobs {
                job.end(Err(match work {
                    Work::Commit(_) => {
                        self.unanswered.fetch_sub(1, Ordering::AcqRel);
                        Failure::io("start a thread for", std::path::Path::new("commit"), &error)
                    }
                    Work::Settle(done) => not_durable(&done, "the system gives no thread to sync on"),
                }));
            }
        }
    }

    /// Ends the thread once all that was asked for is answered, without waiting for it.
    pub(crate) fn close(&self) {
        lock(&self.waiting).closed = true;
        self.more.notify_all();
    }

    /// Waits until all that has been asked for so far is answered.
    pub(crate) fn drain(&self) {
        let mut waiting = lock(&self.waiting);
        let taken = waiting.taken;
        while waiting.answered < taken {
            waiting = self.less.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Ends the thread, and waits until no thread holds anything of the workspace.
    pub(crate) fn end(&self) {
        self.close();
        let mut waiting = lock(&self.waiting);
        while waiting.holders > 0 {
            waiting = self.less.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn serve(&self, home: &Tasks) {
        let mut waiting = lock(&self.waiting);
        loop {
            let jobs = std::mem::take(&mut waiting.jobs);
            if !jobs.is_empty() {
                drop(waiting);
                let many = jobs.len() as u64;
                self.commit_all(home, jobs);
                waiting = lock(&self.waiting);
                waiting.answered += many;
                self.less.notify_all();
                continue;
            }
            if waiting.closed {
                waiting.served = false;
                return;
            }
            waiting.idle = true;
            let (still, late) = self.more.wait_timeout(waiting, IDLE).unwrap_or_else(PoisonError::into_inner);
            waiting = still;
            waiting.idle = false;
            if waiting.jobs.is_empty() && late.timed_out() {
                waiting.served = false;
                return;
            }
        }
    }

    fn commit_all(&self, home: &Tasks, jobs: Vec<(Job, Work)>) {
        let mut unsynced: Vec<(Job, Committed)> = Vec::new();
        let mut asked = Vec::with_capacity(jobs.len());
        for (job, work) in jobs {
            match work {
                Work::Settle(done) => unsynced.push((job, done)),
                Work::Commit(request) => {
                    let read = if job.begin() { caught(|| read(&request)).map(Some) } else { Ok(None) };
                    asked.push((job, read));
                }
            }
        }
        let is_durable = |(_, read): &(Job, Result<Option<Asked>, Failure>)| matches!(read, Ok(Some((_, options))) if options.durability == Durability::Durable);
        let last = asked.iter().rposition(is_durable);
        for (at, (job, read)) in asked.into_iter().enumerate() {
            let done = match read {
                // It was called off.
                Ok(None) => {
                    self.unanswered.fetch_sub(1, Ordering::AcqRel);
                    continue;
                }
                Err(failure) => Err(failure),
                Ok(Some((ops, mut options))) => {
                    // The last durable one syncs for those before it.
                    let waits = options.durability == Durability::Durable && Some(at) != last;
                    if waits {
                        options.durability = Durability::Buffered;
                    }
                    caught(|| Ok(home.commit(ops, options)?)).map(|done| (done, waits))
                }
            };
            if Some(at) == last {
                self.answer(home, std::mem::take(&mut unsynced));
            }
            self.unanswered.fetch_sub(1, Ordering::AcqRel);
            match done {
                Ok((done, true)) if !done.durable => unsynced.push((job, done)),
                Ok((done, _)) => job.end(caught(|| Ok(receipt::with_ticket(home, &done)))),
                Err(failure) => job.end(Err(failure)),
            }
        }
        self.answer(home, unsynced);
    }

    /// Answers commits that stand, once they are durable.
    fn answer(&self, home: &Tasks, all: Vec<(Job, Committed)>) {
        for (job, mut done) in all {
            let settled = settle(home, &mut done, PATIENCE);
            job.end(settled.and_then(|()| caught(|| Ok(receipt::with_ticket(home, &done)))));
        }
    }
}

/// A thread's hold on a workspace. However it ends, who waits for it is told.
struct Holder {
    lane: Arc<Lane>,
    /// `None` once it is let go of.
    home: Option<Tasks>,
}

impl Holder {
    fn serve(self) {
        if let Some(home) = &self.home {
            self.lane.serve(home);
        }
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        // The last handle syncs; not under the lock.
        drop(self.home.take());
        let mut waiting = lock(&self.lane.waiting);
        waiting.holders -= 1;
        if std::thread::panicking() {
            // Those that were being committed have answered as they were dropped; so do those behind them now.
            waiting.served = false;
            waiting.answered = waiting.taken;
            self.lane.unanswered.store(0, Ordering::Release);
            waiting.jobs.clear();
        }
        self.lane.less.notify_all();
    }
}

/// What is said of a commit that stands and could not be made durable.
fn not_durable(done: &Committed, why: &str) -> Failure {
    Failure::Own {
        code: "not-durable",
        message: format!("committed up to event {}, but not known to be durable: {why}", done.last()),
        remedy: "do not send it again; make it durable with a flush once the reason is gone".into(),
        file: None,
    }
}
