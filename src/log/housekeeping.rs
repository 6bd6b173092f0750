//! The one thread a process may have: interval syncs and Marks when they are due. Nothing above `Buffered` but
//! `Interval` depends on its being timely, and it never holds up an exit.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use super::Lpos;
use super::engine::Log;
use crate::vfs::threads::{Bell, Mutex, MutexGuard, PerImage};

/// Whether a process may have the thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Housekeeping {
    /// One thread for all logs of the process, named `foldlog`, started at the first write.
    #[default]
    Thread,
    /// None; the host calls `tick()`.
    Off,
}

/// The thread never waits for less.
const SHORTEST: Duration = Duration::from_micros(50);

struct Shared {
    logs: Mutex<Logs>,
    changed: Bell,
}

impl Shared {
    const fn new() -> Self {
        let logs = Logs { all: Vec::new(), running_in: None, news: 0 };
        Shared { logs: Mutex::new(logs), changed: Bell::new() }
    }

    /// Has the thread look again, whatever it is doing now.
    fn ring(&self, mut logs: MutexGuard<'_, Logs>) {
        logs.news += 1;
        drop(logs);
        self.changed.ring();
    }
}

struct Logs {
    all: Vec<Weak<Log>>,
    /// The fork count of the process the thread runs in; a forked child has no thread.
    running_in: Option<u64>,
    /// Counts what the thread was told of, so that nothing told while it is at work is lost.
    news: u64,
}

/// Of this process image: in a forked child there is no thread, and its parent's may have held any of this.
fn shared(forks: u64) -> &'static Shared {
    static SHARED: PerImage<Shared> = PerImage::new([const { Shared::new() }; 8]);
    SHARED.of(forks)
}

/// Has the thread look after a log from its first write on, and tells it that something may be due.
pub(super) fn look_after(log: &Arc<Log>, end: Lpos) {
    if log.settings.housekeeping == Housekeeping::Off {
        return;
    }
    if !log.adopted.load(Ordering::Acquire) && !log.adopted.swap(true, Ordering::AcqRel) {
        adopt(log);
    } else if log.durable.take_news() | log.keeping.take_news() | log.snapshots.take_news(end.0) {
        let shared = shared(log.vfs.forks());
        shared.ring(shared.logs.lock());
    }
}

fn adopt(log: &Arc<Log>) {
    let forks = log.vfs.forks();
    let shared = shared(forks);
    let mut logs = shared.logs.lock();
    logs.all.retain(|known| known.strong_count() > 0);
    logs.all.push(Arc::downgrade(log));
    if logs.running_in != Some(forks) {
        let spawned = std::thread::Builder::new().name("foldlog".into()).spawn(move || run(shared));
        // Without a thread the host may still tick; commits do not depend on it.
        logs.running_in = spawned.is_ok().then_some(forks);
    }
    shared.ring(logs);
}

fn run(shared: &Shared) {
    loop {
        let (logs, news) = {
            let logs = shared.logs.lock();
            (logs.all.iter().filter_map(Weak::upgrade).collect::<Vec<Arc<Log>>>(), logs.news)
        };
        // A sync may hang; no log's lock is kept meanwhile, since nobody is there to give it back.
        if logs.iter().any(|log| log.is_sync_due()) {
            logs.iter().for_each(|log| log.look_after(false));
        }
        let mut pause = Duration::from_secs(3600);
        for log in &logs {
            // What failed stays due and is tried again; the log's health tells of it.
            let next = log.tick().unwrap_or_else(|_| Some(log.vfs.monotonic() + Duration::from_secs(1)));
            if let Some(next) = next {
                pause = pause.min(next.saturating_sub(log.vfs.monotonic()));
            }
        }
        // It syncs, and so takes its time.
        if logs.iter().any(|log| log.is_snapshot_due()) {
            logs.iter().for_each(|log| log.look_after(false));
            logs.iter().for_each(|log| log.snapshot_beside());
        }
        logs.iter().for_each(|log| log.look_after(true));
        drop(logs);
        let logs = shared.logs.lock();
        if logs.news == news {
            shared.changed.wait(logs, pause.max(SHORTEST));
        }
    }
}
