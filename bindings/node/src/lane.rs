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
use foldlog_requests::{Failure, Request, receipt};

use crate::wire::{Job, caught, lock};

/// A thread that has had nothing to commit for so long ends.
const IDLE: Duration = Duration::from_secs(2);
/// For how long what was committed is waited for to be durable: a sync that hangs for so long hangs for ever.
const PATIENCE: Duration = Duration::from_secs(24 * 3600);

/// Changes, and how they are to be committed.
pub(crate) type Asked = (Vec<Op>, CommitOptions);

#[derive(Default)]
struct Waiting {
    jobs: Vec<(Job, Asked)>,
    /// Whether a thread is at it, or on its way.
    running: bool,
    /// Whether there is one that waits for more.
    idle: bool,
    /// Whether none is to wait for more.
    closed: bool,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Lane {
    waiting: Mutex<Waiting>,
    /// How many were asked for and are not committed yet.
    unanswered: AtomicUsize,
    empty: Condvar,
    more: Condvar,
}

/// The changes and options that a request's text spells.
pub(crate) fn read(text: &str) -> Result<Asked, Failure> {
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
    pub(crate) fn commit(self: &Arc<Self>, home: &Tasks, job: Job, asked: Asked) {
        self.unanswered.fetch_add(1, Ordering::AcqRel);
        let mut waiting = lock(&self.waiting);
        waiting.jobs.push((job, asked));
        if waiting.running {
            return;
        }
        waiting.running = true;
        if waiting.idle {
            drop(waiting);
            self.more.notify_one();
            return;
        }
        drop(waiting);
        let (lane, home) = (Arc::clone(self), home.clone());
        let thread = std::thread::Builder::new().name("foldlog-lane".into());
        if thread.spawn(move || lane.serve(&home)).is_err() {
            let jobs = {
                let mut waiting = lock(&self.waiting);
                waiting.running = false;
                std::mem::take(&mut waiting.jobs)
            };
            for (job, _) in jobs {
                self.unanswered.fetch_sub(1, Ordering::AcqRel);
                job.end(Err(Failure::Own {
                    code: "io",
                    message: "the system gives no thread to commit on".into(),
                    remedy: "end some of the process's threads, then retry; nothing was written".into(),
                    file: None,
                }));
            }
        }
    }

    /// Ends the thread once all that was asked for is answered.
    pub(crate) fn close(&self) {
        lock(&self.waiting).closed = true;
        self.more.notify_all();
    }

    /// Waits until all that was asked for is answered.
    pub(crate) fn drain(&self) {
        let mut waiting = lock(&self.waiting);
        while waiting.running {
            waiting = self.empty.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn serve(&self, home: &Tasks) {
        let mut waiting = lock(&self.waiting);
        loop {
            let jobs = std::mem::take(&mut waiting.jobs);
            if !jobs.is_empty() {
                drop(waiting);
                self.commit_all(home, jobs);
                waiting = lock(&self.waiting);
                continue;
            }
            waiting.running = false;
            self.empty.notify_all();
            if waiting.closed {
                return;
            }
            waiting.idle = true;
            let (still, late) = self.more.wait_timeout(waiting, IDLE).unwrap_or_else(PoisonError::into_inner);
            waiting = still;
            waiting.idle = false;
            if waiting.jobs.is_empty() && (late.timed_out() || waiting.closed) {
                return;
            }
            waiting.running = true;
        }
    }

    fn commit_all(&self, home: &Tasks, jobs: Vec<(Job, Asked)>) {
        let is_durable = |(_, (_, options)): &(Job, Asked)| options.durability == Durability::Durable;
        let last = jobs.iter().rposition(is_durable);
        let mut unsynced: Vec<(Job, Committed)> = Vec::new();
        for (at, (job, (ops, mut options))) in jobs.into_iter().enumerate() {
            if !job.begin() {
                self.unanswered.fetch_sub(1, Ordering::AcqRel);
                continue;
            }
            // The last durable one syncs for those before it.
            let waits = options.durability == Durability::Durable && Some(at) != last;
            if waits {
                options.durability = Durability::Buffered;
            }
            let done = caught(|| Ok(home.commit(ops, options)?));
            if Some(at) == last {
                self.settle(home, std::mem::take(&mut unsynced));
            }
            self.unanswered.fetch_sub(1, Ordering::AcqRel);
            match done {
                Ok(done) if waits && !done.durable => unsynced.push((job, done)),
                Ok(done) => job.end(Ok(receipt::with_ticket(home, &done))),
                Err(failure) => job.end(Err(failure)),
            }
        }
        self.settle(home, unsynced);
    }

    /// Answers commits that stand, once they are durable.
    fn settle(&self, home: &Tasks, all: Vec<(Job, Committed)>) {
        for (job, mut done) in all {
            let synced = caught(|| Ok(home.wait_durable(&done, PATIENCE)?));
            job.end(match synced {
                Ok(()) => {
                    done.durable = true;
                    Ok(receipt::with_ticket(home, &done))
                }
                Err(failure)
                    if matches!(failure.code(), "store-replaced" | "durability-lost" | "not-durable") =>
                {
                    Err(failure)
                }
                // Every other error of a commit says that nothing of it stands.
                Err(failure) => Err(Failure::Own {
                    code: "not-durable",
                    message: format!(
                        "committed up to event {}, but not known to be durable: {}",
                        done.last(),
                        failure.message()
                    ),
                    remedy: "do not send it again; make it durable with a flush once the reason is gone"
                        .into(),
                    file: None,
                }),
            });
        }
    }
}
