//! Waiting without the interpreter, and so that Ctrl-C ends it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use foldlog_requests::Failure as Why;
use foldlog_requests::failure::said;
use pyo3::prelude::*;

/// How long nothing is asked of the interpreter; what Ctrl-C may take.
pub(crate) const SLICE: Duration = Duration::from_millis(50);

/// What a call comes to: JSON text, or an error as JSON text.
pub(crate) type Answer = Result<String, String>;

/// Does it, and makes an error of a panic.
pub(crate) fn guarded(job: impl FnOnce() -> Result<String, Why>) -> Answer {
    match catch_unwind(AssertUnwindSafe(job)) {
        Ok(done) => done.map_err(|why| why.json_with_data()),
        Err(payload) => Err(Why::panicked(said(&*payload)).json_with_data()),
    }
}

/// The exception for an error.
pub(crate) fn raise(py: Python<'_>, json: &str) -> PyErr {
    let made = py.import("foldlog._errors").and_then(|errors| errors.getattr("raised_by")?.call1((json,)));
    made.map_or_else(|error| error, PyErr::from_value)
}

/// A call that goes on without its caller, who was interrupted, or has ended meanwhile.
#[pyclass(frozen)]
#[derive(Debug)]
pub(crate) struct Pending(Mutex<Receiver<Answer>>);

impl Pending {
    /// One that has ended.
    pub(crate) fn ended(answer: Answer) -> Self {
        let (send, receive) = mpsc::sync_channel(1);
        let _ = send.send(answer); // there is room for it
        Pending(Mutex::new(receive))
    }

    /// Has an interrupt carry it.
    pub(crate) fn carried_by(self, py: Python<'_>, interrupt: PyErr) -> PyErr {
        // What takes no attribute is raised without.
        let _ = Py::new(py, self).and_then(|pending| interrupt.value(py).setattr("pending", pending));
        interrupt
    }
}

#[pymethods]
impl Pending {
    /// Waits for the answer; the error is raised as by the call itself. `None` if it is not there within `seconds`.
    fn result(&self, py: Python<'_>, seconds: f64) -> PyResult<Option<String>> {
        let mut left = Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX);
        loop {
            let step = left.min(SLICE);
            let got = py.detach(|| receive_from(&self.0, step));
            match got {
                Ok(answer) => return answer.map(Some).map_err(|json| raise(py, &json)),
                Err(RecvTimeoutError::Timeout) if left > step => left -= step,
                Err(_) => return Ok(None),
            }
            py.check_signals()?;
        }
    }
}

fn receive_from(slot: &Mutex<Receiver<Answer>>, time: Duration) -> Result<Answer, RecvTimeoutError> {
    slot.lock().map_err(|_| RecvTimeoutError::Disconnected)?.recv_timeout(time)
}

/// Does on a thread of its own what may wait for long. If Ctrl-C comes meanwhile, its exception is raised within [`SLICE`]
/// and has the call as `pending`, which goes on.
pub(crate) fn apart(py: Python<'_>, job: impl FnOnce() -> Answer + Send + 'static) -> PyResult<Answer> {
    let (send, receive) = mpsc::sync_channel(1);
    let place = Arc::new(Mutex::new(Some(job)));
    let takes = Arc::clone(&place);
    let thread = std::thread::Builder::new().name("foldlog-call".into());
    let spawned = thread.spawn(move || {
        if let Some(job) = taken(&takes) {
            let _ = send.send(job()); // there is room for it
        }
    });
    if spawned.is_err()
        && let Some(job) = taken(&place)
    {
        // The system gives no thread: it is done all the same, and only Ctrl-C is heard later.
        return Ok(py.detach(job));
    }
    let receive = Mutex::new(receive);
    loop {
        let got = py.detach(|| receive_from(&receive, SLICE));
        match got {
            Ok(answer) => return Ok(answer),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                return Ok(Err(Why::panicked("a call ended without an answer").json_with_data()));
            }
        }
        if let Err(interrupt) = py.check_signals() {
            return Err(Pending(receive).carried_by(py, interrupt));
        }
    }
}

fn taken<T>(place: &Mutex<Option<T>>) -> Option<T> {
    place.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// The time by which waits are measured.
#[expect(
    clippy::disallowed_methods,
    reason = "no time is told here, and no clock of the library's is at hand"
)]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// How syncs have gone of late. A sync is one system call that no signal ends, and whoever makes it hears of none; a thread
/// that makes it in one's place costs some µs, which are much only where syncs come thick and fast.
#[derive(Debug, Default)]
pub(crate) struct Pace(Mutex<Syncs>);

#[derive(Debug, Default)]
struct Syncs {
    /// How many one after the other were quick, up to [`HABIT`].
    quick: u32,
    last: Option<Instant>,
}

/// A sync that takes no longer is quick: well below what Ctrl-C may take.
const QUICK: Duration = Duration::from_millis(30);
/// So many quick ones are a habit.
const HABIT: u32 = 8;
/// What is over for longer says nothing of the next one.
const FRESH: Duration = Duration::from_millis(100);

impl Pace {
    fn syncs(&self) -> MutexGuard<'_, Syncs> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the next sync may be expected to be over before anybody could press Ctrl-C, and comes right behind others.
    pub(crate) fn is_brisk(&self) -> bool {
        let syncs = self.syncs();
        syncs.quick == HABIT && syncs.last.is_some_and(|last| last.elapsed() <= FRESH)
    }

    /// One that began then is over. Of a habit one slow one is forgiven, once a quick one comes behind it: on a busy machine
    /// now and then one is.
    pub(crate) fn ended(&self, begun: Instant) {
        let is_quick = begun.elapsed() <= QUICK;
        let mut syncs = self.syncs();
        // Its own time is none that passed between two.
        let goes_on = syncs.last.is_some_and(|last| begun.saturating_duration_since(last) <= FRESH);
        syncs.quick = match (is_quick, syncs.quick) {
            _ if !goes_on => u32::from(is_quick),
            (true, quick) => HABIT.min(quick + 1),
            (false, HABIT) => HABIT - 1,
            (false, _) => 0,
        };
        syncs.last = Some(now());
    }
}
