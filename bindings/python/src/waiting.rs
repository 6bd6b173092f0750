//! Waiting without the interpreter, and so that Ctrl-C ends it.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;

use foldlog_requests::Failure as Why;
use pyo3::prelude::*;

/// How long nothing is asked of the interpreter; what Ctrl-C may take.
pub(crate) const SLICE: Duration = Duration::from_millis(50);

/// What a call comes to: JSON text, or an error as JSON text.
pub(crate) type Answer = Result<String, String>;

/// Does it, and makes an error of a panic.
pub(crate) fn guarded(job: impl FnOnce() -> Result<String, Why>) -> Answer {
    match catch_unwind(AssertUnwindSafe(job)) {
        Ok(done) => done.map_err(|why| why.json_with_data()),
        Err(payload) => Err(panicked(&*payload).json_with_data()),
    }
}

fn panicked(payload: &(dyn Any + Send)) -> Why {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message");
    Why::Own {
        code: "internal",
        message: format!("foldlog has met a fault of its own: {text}"),
        remedy: "close the store and open it again; what was acknowledged is in the log; please report it"
            .into(),
        file: None,
    }
}

/// The exception for an error.
pub(crate) fn raise(py: Python<'_>, json: &str) -> PyErr {
    let made = py.import("foldlog._errors").and_then(|errors| errors.getattr("raised_by")?.call1((json,)));
    made.map_or_else(|error| error, PyErr::from_value)
}

/// A call that goes on without its caller, who was interrupted.
#[pyclass(frozen)]
#[derive(Debug)]
pub(crate) struct Pending(Mutex<Receiver<Answer>>);

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
    let thread = std::thread::Builder::new().name("foldlog-call".into());
    let _detached = thread.spawn(move || drop(send.send(job())))?;
    let receive = Mutex::new(receive);
    loop {
        let got = py.detach(|| receive_from(&receive, SLICE));
        match got {
            Ok(answer) => return Ok(answer),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                return Ok(Err(panicked(&"a call ended without an answer").json_with_data()));
            }
        }
        if let Err(interrupt) = py.check_signals() {
            let _ = interrupt.value(py).setattr("pending", Py::new(py, Pending(receive))?);
            return Err(interrupt);
        }
    }
}
