//! Backup and restore: on a thread of their own, told of on the caller's, ended by Ctrl-C or by whoever is told.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use foldlog::{CopyOptions, CopyReport, Options, TaskStore};
use foldlog_requests::{Failure as Why, backup};
use pyo3::prelude::*;

use crate::waiting::{Answer, SLICE, guarded, raise};

/// What comes from the thread that makes the copy.
enum News {
    Step(String),
    End(Answer),
}

/// Has a copy made. `on_progress` is called with JSON text; what it raises ends the copy, as Ctrl-C does, and is raised once
/// what had been made is removed. The second Ctrl-C does not wait for that.
pub(crate) fn copied(
    py: Python<'_>,
    wishes: String,
    on_progress: Option<&Bound<'_, PyAny>>,
    store: impl FnOnce() -> Result<TaskStore, Why> + Send + 'static,
    make: impl FnOnce(&TaskStore, &CopyOptions) -> foldlog::Result<CopyReport> + Send + 'static,
) -> PyResult<Answer> {
    let (send, news) = channel();
    let cancel = Arc::new(AtomicBool::new(false));
    let (ends, tells) = (Arc::clone(&cancel), on_progress.is_some());
    let job = move || {
        let steps = send.clone();
        let answer = guarded(|| {
            let store = store()?;
            let options = watched(backup::options(&store, &wishes)?.cancel(ends), tells.then_some(steps));
            Ok(backup::report(&make(&store, &options)?))
        });
        let _ = send.send(News::End(answer)); // nobody may be left to hear it
    };
    let thread = std::thread::Builder::new().name("foldlog-copy".into());
    if let Err(error) = thread.spawn(job) {
        return Ok(Err(Why::io("start a thread for", &PathBuf::from("the copy"), &error).json_with_data()));
    }
    let news = Mutex::new(news);
    let mut stopped: Option<PyErr> = None;
    loop {
        let told = py.detach(|| news.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(SLICE));
        let heard = match told {
            Ok(News::End(answer)) => return stopped.map_or(Ok(answer), Err),
            Ok(News::Step(_)) if stopped.is_some() => Ok(()),
            Ok(News::Step(text)) => on_progress.map_or(Ok(()), |tell| tell.call1((text,)).map(drop)),
            Err(RecvTimeoutError::Timeout) => Ok(()),
            Err(RecvTimeoutError::Disconnected) => {
                return Ok(Err(Why::panicked("a copy ended without an answer").json_with_data()));
            }
        };
        if let Err(raised) = heard.and_then(|()| py.check_signals()) {
            cancel.store(true, Ordering::Release);
            if stopped.is_some() {
                return Err(raised);
            }
            stopped = Some(raised);
        }
    }
}

fn watched(options: CopyOptions, tell: Option<Sender<News>>) -> CopyOptions {
    let Some(tell) = tell else { return options };
    let steps = Mutex::new((backup::Steps::default(), tell));
    options.on_progress(move |at| {
        let mut steps = steps.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(text) = steps.0.tell(at) {
            let _ = steps.1.send(News::Step(text)); // whoever was told has gone
        }
    })
}

/// Makes a store of a backup in a folder; the report as JSON text.
///
/// # Errors
/// As JSON text, of the library's codes.
#[pyfunction]
pub(crate) fn restore(
    py: Python<'_>,
    backup: PathBuf,
    target: PathBuf,
    wishes: String,
    on_progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<String> {
    let open = || Ok(TaskStore::open(backup, Options::default().read_only(true))?);
    let make = move |store: &TaskStore, options: &CopyOptions| store.restore_to(target, options);
    copied(py, wishes, on_progress, open, make)?.map_err(|json| raise(py, &json))
}
