//! A few threads for what takes its time and has no order: opening, closing, histories, flushes.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use foldlog_requests::Failure;

use crate::wire::{Job, lock};

/// At most so many threads.
const THREADS_MAX: usize = 4;
/// A thread that has had nothing to do for so long ends.
const IDLE: Duration = Duration::from_secs(5);

type Work = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Waiting {
    work: VecDeque<Work>,
    threads: usize,
    idle: usize,
}

static WAITING: Mutex<Waiting> = Mutex::new(Waiting { work: VecDeque::new(), threads: 0, idle: 0 });
static MORE: Condvar = Condvar::new();

/// Has a job done.
pub(crate) fn run(job: Job, work: impl FnOnce() -> Result<String, Failure> + Send + 'static) {
    give(Box::new(move || job.run(work)));
}

/// Has something dropped: the last handle of a log syncs it.
pub(crate) fn drop_there(thing: impl Send + 'static) {
    give(Box::new(move || {
        let _ = crate::wire::caught(|| {
            drop(thing);
            Ok(())
        });
    }));
}

fn give(work: Work) {
    let mut waiting = lock(&WAITING);
    waiting.work.push_back(work);
    if waiting.work.len() > waiting.idle && waiting.threads < THREADS_MAX {
        let thread = std::thread::Builder::new().name("foldlog-pool".into()).spawn(serve);
        waiting.threads += usize::from(thread.is_ok());
    }
    let none = waiting.threads == 0;
    drop(waiting);
    if none {
        // No thread can be had: better late than never.
        while let Some(work) = lock(&WAITING).work.pop_front() {
            work();
        }
    }
    MORE.notify_one();
}

fn serve() {
    let mut waiting = lock(&WAITING);
    loop {
        if let Some(work) = waiting.work.pop_front() {
            drop(waiting);
            work();
            waiting = lock(&WAITING);
            continue;
        }
        waiting.idle += 1;
        let (still, late) =
            MORE.wait_timeout(waiting, IDLE).unwrap_or_else(std::sync::PoisonError::into_inner);
        waiting = still;
        waiting.idle -= 1;
        if late.timed_out() && waiting.work.is_empty() {
            waiting.threads -= 1;
            return;
        }
    }
}
