//! Backup and restore, which are told of while they go on, and can be ended.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use foldlog::task::TaskStore;
use foldlog::{CopyOptions, CopyReport, Options};
use foldlog_requests::{Failure, backup};
use napi_derive::napi;

use crate::pool;
use crate::store::Store;
use crate::wire::{Bridge, Job, Wire, lock};

/// A copy that is being made, as JavaScript holds it.
#[napi]
pub struct Copying {
    cancel: Arc<AtomicBool>,
    /// Whether it is to be told how far it is.
    tells: bool,
}

#[napi]
impl Copying {
    /// One that is to be begun.
    #[napi(constructor, catch_unwind)]
    pub fn new(tells: bool) -> Self {
        Copying { cancel: Arc::default(), tells }
    }

    /// Ends it; what had been made is removed.
    #[napi(catch_unwind)]
    pub fn cancel(&self) {
        self.cancel.store(true, Ordering::Release);
    }
}

/// Has a copy made on another thread.
fn run(
    wire: &Arc<Wire>,
    job: Job,
    copying: &Copying,
    wishes: String,
    store: impl FnOnce() -> Result<TaskStore, Failure> + Send + 'static,
    make: impl FnOnce(&TaskStore, &CopyOptions) -> foldlog::Result<CopyReport> + Send + 'static,
) {
    let (cancel, tells, id, wire) = (Arc::clone(&copying.cancel), copying.tells, job.id(), Arc::clone(wire));
    pool::run(job, move || {
        let store = store()?;
        let mut options = backup::options(&store, &wishes)?.cancel(cancel);
        if tells {
            let steps = Mutex::new(backup::Steps::default());
            options = options.on_progress(move |at| {
                if let Some(text) = lock(&steps).tell(at) {
                    wire.progress(id, text);
                }
            });
        }
        Ok(backup::report(&make(&store, &options)?))
    });
}

#[napi]
impl Store {
    /// Makes a copy of the store in a folder; answers the report.
    #[napi(catch_unwind)]
    pub fn backup(
        &self,
        job: f64,
        copying: &Copying,
        target: String,
        options: String,
        cancellable: bool,
    ) -> napi::Result<()> {
        let store = self.opened()?;
        let job = Job::of(self.wire(), job, cancellable);
        run(
            self.wire(),
            job,
            copying,
            options,
            || Ok(store),
            move |store, options| store.backup(target, options),
        );
        Ok(())
    }
}

/// Makes a store of a backup in a folder; answers the report.
#[napi(catch_unwind)]
pub fn restore(
    bridge: &Bridge,
    job: f64,
    copying: &Copying,
    backup: String,
    target: String,
    options: String,
    cancellable: bool,
) {
    let job = Job::of(&bridge.wire, job, cancellable);
    let open = || Ok(TaskStore::open(backup, Options::default().read_only(true))?);
    run(&bridge.wire, job, copying, options, open, move |store, options| store.restore_to(target, options));
}
