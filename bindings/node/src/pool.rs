//! A few threads for what takes its time and has no order: opening, closing, histories, flushes.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use foldlog_requests::Failure;

use crate::wire::{Job, lock};

/// At most so many threads work.
const WORKERS_MAX: usize = 4;
/// At most so many threads wait for something to become durable: they cost nothing, and nothing else waits for them.
const WAITERS_MAX: usize = 64;
/// A thread that has had nothing to do for so long ends.
const IDLE: Duration = Duration::from_secs(5);

type Work = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Waiting {
    work: VecDeque<Work>,
    threads: usize,
    idle: usize,
}

/// Threads that do what comes, in any order.
pub(crate) struct Pool {
    waiting: Mutex<Waiting>,
    more: Condvar,
    threads_max: usize,
}

/// Those that work.
pub(crate) static WORKERS: Pool = Pool::of(WORKERS_MAX);
/// Those that wait.
pub(crate) static WAITERS: Pool = Pool::of(WAITERS_MAX);

/// Has a job done.
pub(crate) fn run(job: Job, work: impl FnOnce() -> Result<String, Failure> + Send + 'static) {
    WORKERS.run(job, work);
}

/// Has something dropped: the last handle of a log syncs it.
pub(crate) fn drop_there(thing: impl Send + 'static) {
    WORKERS.give(Box::new(move || {
        let _ = crate::wire::caught(|| {
            drop(thing);
            Ok(())
        });
    }));
}

impl Pool {
    const fn of(threads_max: usize) -> Self {
        let waiting = Mutex::new(Waiting { work: VecDeque::new(), threads: 0, idle: 0 });
        Pool { waiting, more: Condvar::new(), threads_max }
    }

    /// Has a job done.
    pub(crate) fn run(
        &'static self,
        job: Job,
        work: impl FnOnce() -> Result<String, Failure> + Send + 'static,
    ) {
        self.give(Box::new(move || job.run(work)));
    }

    fn give(&'static self, work: Work) {
        let mut waiting = lock(&self.waiting);
        waiting.work.push_back(work);
        if waiting.work.len() > waiting.idle && waiting.threads < self.threads_max {
            let thread = std::thread::Builder::new().name("foldlog-pool".into()).spawn(|| self.serve());
            waiting.threads += usize::from(thread.is_ok());
        }
        let none = waiting.threads == 0;
        drop(waiting);
        if none {
            // No thread can be had: better late than never.
            while let Some(work) = self.next() {
                work();
            }
        }
        self.more.notify_one();
    }

    fn next(&self) -> Option<Work> {
        lock(&self.waiting).work.pop_front()
    }

    fn serve(&self) {
        let mut waiting = lock(&self.waiting);
        loop {
            if let Some(work) = waiting.work.pop_front() {
                drop(waiting);
                work();
                waiting = lock(&self.waiting);
                continue;
            }
            waiting.idle += 1;
            let (still, late) =
                self.more.wait_timeout(waiting, IDLE).unwrap_or_else(std::sync::PoisonError::into_inner);
            waiting = still;
            waiting.idle -= 1;
            if late.timed_out() && waiting.work.is_empty() {
                waiting.threads -= 1;
                return;
            }
        }
    }
}
