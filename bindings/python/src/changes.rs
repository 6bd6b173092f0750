//! A subscription as Python holds it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use foldlog::Tasks;
use foldlog::log::{Cursor, Waker};
use foldlog::task::{TaskChanges, TaskUpdate};
use foldlog_requests::changes as as_json;
use foldlog_requests::health::health;
use foldlog_requests::json::splice;
use pyo3::prelude::*;

use crate::open::{Kept, Shared};
use crate::waiting::{SLICE, guarded, raise};

/// How long a thread sleeps at a stretch that need not look after Ctrl-C; what it waits for wakes it earlier.
const STRETCH: Duration = Duration::from_secs(3600);

/// What a workspace brings, commit by commit.
#[pyclass(frozen)]
pub(crate) struct Changes {
    /// Dropped with its open files once it has ended.
    stream: Mutex<Option<TaskChanges>>,
    /// Behind what was handed out last; beside the stream, whose lock is held by who waits.
    cursor: Mutex<Cursor>,
    /// What came together with an interrupt, which took its place, and where to go on behind it.
    kept: Mutex<Option<(String, Cursor)>>,
    waker: Waker,
    /// Who listens keeps nothing open.
    tasks: Weak<Tasks>,
    shared: Kept,
}

impl Changes {
    pub(crate) fn new(stream: TaskChanges, tasks: Weak<Tasks>, shared: Arc<Shared>) -> Self {
        let waker = stream.waker();
        let cursor = Mutex::new(stream.cursor());
        let kept = Mutex::default();
        Changes { stream: Mutex::new(Some(stream)), cursor, kept, waker, tasks, shared: Kept::new(shared) }
    }
}

#[pymethods]
impl Changes {
    /// The next update as JSON text, `{"commit":…}` or `{"health":…}`; `None` if there is none within `seconds`, or ever
    /// again. One thread at a time. `heeds`: whether it is the thread that Ctrl-C is for, which looks after it now and then.
    fn next(&self, py: Python<'_>, seconds: f64, heeds: bool) -> PyResult<Option<String>> {
        if let Some((text, behind)) = lock(&self.kept).take() {
            *lock(&self.cursor) = behind;
            return Ok(Some(text));
        }
        let time = Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX);
        let mut left = time;
        loop {
            let step = left.min(if heeds { SLICE } else { STRETCH });
            let (mut found, mut ended) = (None, false);
            let answer = py.detach(|| {
                guarded(|| {
                    let mut place = lock(&self.stream);
                    let Some(stream) = &mut *place else {
                        ended = true;
                        return Ok(String::new());
                    };
                    let mut line = String::from("{");
                    match (stream.next_within(step)?, self.tasks.upgrade()) {
                        (Some(TaskUpdate::Commit(commit)), Some(tasks)) => {
                            splice("commit", &as_json::commit(&tasks, &commit)?, &mut line);
                        }
                        (Some(TaskUpdate::Health(_)), Some(tasks)) => {
                            splice("health", &health(&tasks), &mut line);
                        }
                        (_, tasks) => {
                            ended = tasks.is_none() || stream.is_stopped();
                            if ended {
                                *place = None;
                            }
                            return Ok(String::new());
                        }
                    }
                    found = Some(stream.cursor());
                    Ok(line + "}")
                })
            });
            if let Err(interrupt) = self.shared.heard(py) {
                *lock(&self.kept) = answer.ok().zip(found);
                return Err(interrupt);
            }
            let text = answer.map_err(|json| raise(py, &json))?;
            if let Some(behind) = found {
                *lock(&self.cursor) = behind;
                return Ok(Some(text));
            }
            if ended || left <= step {
                return Ok(None);
            }
            left -= step;
        }
    }

    /// Where to go on from, later or in another process.
    fn cursor(&self) -> String {
        as_json::cursor(*lock(&self.cursor))
    }

    /// Ends it, from any thread; whoever waits is told that nothing came.
    fn stop(&self) {
        self.waker.stop();
        // Whoever is waiting lets go of it.
        if let Ok(mut stream) = self.stream.try_lock() {
            *stream = None;
        }
    }
}

fn lock<T>(place: &Mutex<T>) -> MutexGuard<'_, T> {
    place.lock().unwrap_or_else(PoisonError::into_inner)
}
