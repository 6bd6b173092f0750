//! The one thread a process may have: interval syncs and Marks when they are due. Nothing above `Buffered` but
//! `Interval` depends on its being timely, and it never holds up an exit.

use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::engine::Log;

/// Whether a process may have the thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Housekeeping {
    /// One thread for all logs of the process, named `foldlog`, started at the first write.
    #[default]
    Thread,
    /// None; the host calls `tick()`.
    Off,
}

#[derive(Default)]
struct Shared {
    logs: Mutex<Logs>,
    changed: Condvar,
}

#[derive(Default)]
struct Logs {
    all: Vec<Weak<Log>>,
    /// The fork count of the process the thread runs in; a forked child has no thread.
    running_in: Option<u64>,
}

fn shared() -> &'static Shared {
    static SHARED: OnceLock<Shared> = OnceLock::new();
    SHARED.get_or_init(Shared::default)
}

/// Has the thread look after a log from its first write on, and tells it that something may be due.
pub(super) fn look_after(log: &Arc<Log>) {
    if log.settings.housekeeping == Housekeeping::Off {
        return;
    }
    if !log.adopted.swap(true, Ordering::AcqRel) {
        adopt(log);
    } else if log.durable.take_news() {
        shared().changed.notify_one();
    }
}

fn adopt(log: &Arc<Log>) {
    let shared = shared();
    let mut logs = shared.logs.lock();
    logs.all.retain(|known| known.strong_count() > 0);
    logs.all.push(Arc::downgrade(log));
    let forks = log.vfs.forks();
    if logs.running_in != Some(forks) {
        let spawned = std::thread::Builder::new().name("foldlog".into()).spawn(run);
        // Without a thread the host may still tick; commits do not depend on it.
        logs.running_in = spawned.is_ok().then_some(forks);
    }
    drop(logs);
    shared.changed.notify_one();
}

fn run() {
    let shared = shared();
    loop {
        let logs: Vec<Arc<Log>> = shared.logs.lock().all.iter().filter_map(Weak::upgrade).collect();
        let mut pause = Duration::from_secs(3600);
        for log in &logs {
            // What failed stays due and is tried again; the log's health tells of it.
            let next = log.tick().unwrap_or_else(|_| Some(log.vfs.monotonic() + Duration::from_secs(1)));
            if let Some(next) = next {
                pause = pause.min(next.saturating_sub(log.vfs.monotonic()));
            }
        }
        drop(logs);
        let mut guard = shared.logs.lock();
        shared.changed.wait_for(&mut guard, pause.max(Duration::from_millis(1)));
    }
}
