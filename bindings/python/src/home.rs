//! A workspace as Python holds it.

use std::sync::Arc;
use std::time::Duration;

use foldlog::task::{CommitOptions, Committed, Op};
use foldlog::{Durability, ErrorKind, Patch, TaskId, Tasks};
use foldlog_requests::{Failure as Why, Request, changes, receipt, task, words};
use pyo3::prelude::*;

use crate::changes::Changes;
use crate::open::Shared;
use crate::waiting::{Answer, SLICE, apart, guarded, raise};

/// A workspace of an open store.
#[pyclass(frozen)]
pub(crate) struct Home {
    shared: Arc<Shared>,
    name: Arc<str>,
}

impl Home {
    pub(crate) fn new(shared: Arc<Shared>, name: String) -> Self {
        Home { shared, name: name.into() }
    }

    fn tasks(&self) -> Result<Arc<Tasks>, Why> {
        self.shared.opened()?.home(&self.name)
    }
}

/// How a commit ended that was tried without waiting.
enum Tried {
    /// It would have had to wait; nothing was done.
    Waits,
    Failed(String),
    Stands(Box<Committed>),
}

/// What a commit came to. Its text is made when it is asked for.
#[pyclass(frozen)]
pub(crate) struct Done {
    done: Committed,
    workspace: Arc<str>,
}

#[pymethods]
impl Done {
    /// The receipt, as JSON text.
    fn json(&self) -> String {
        receipt::of(&self.workspace, &self.done)
    }
}

#[pymethods]
impl Home {
    /// Its own name.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// The task as JSON text, or `None`.
    fn get(&self, py: Python<'_>, id: &str) -> PyResult<Option<String>> {
        let answer = py.detach(|| {
            guarded(|| {
                let tasks = self.tasks()?;
                let found = tasks.get(id)?.map(|found| tasks.load(found)).transpose()?;
                Ok(found.map_or_else(String::new, |found| task::task(&found, &self.name, None)))
            })
        });
        self.shared.told(py, answer).map(|text| Some(text).filter(|text| !text.is_empty()))
    }

    /// The task's item, exactly as the log spells it, or `None`.
    fn text(&self, py: Python<'_>, id: &str) -> PyResult<Option<String>> {
        let answer = py.detach(|| {
            guarded(|| {
                let tasks = self.tasks()?;
                let found = tasks.get(id)?.map(|found| tasks.load(found)).transpose()?;
                Ok(found.map_or_else(String::new, |found| task::item(&found)))
            })
        });
        self.shared.told(py, answer).map(|text| Some(text).filter(|text| !text.is_empty()))
    }

    /// Makes one change, or those of `commit`. Where nothing stands in the way it does so at once; else it waits on another
    /// thread, so that Ctrl-C is heard.
    fn commit(&self, py: Python<'_>, text: String) -> PyResult<Done> {
        self.make(py, move || read(&text))
    }

    /// The most frequent change, without a request around it: fields of one task, as JSON text.
    fn patch(&self, py: Python<'_>, id: String, set: String, durability: Option<String>) -> PyResult<Done> {
        self.make(py, move || {
            let mut options = CommitOptions::default();
            if let Some(text) = &durability {
                options.durability = words::parse_durability(text).map_err(Why::invalid)?;
            }
            let patch = Patch::parse(&format!(r#"{{"set":{set}}}"#))?;
            Ok((vec![Op::Patch { id: TaskId::new(&id)?, patch }], options))
        })
    }

    /// Waits until a commit is durable: the ticket of its receipt.
    fn wait_durable(&self, py: Python<'_>, ticket: &str, seconds: f64) -> PyResult<()> {
        let read = receipt::read_ticket(ticket)
            .ok_or_else(|| Why::invalid(format!("{ticket:?} is no ticket of a receipt")));
        let done = read.and_then(|ticket| Ok((ticket, self.tasks()?)));
        let (ticket, tasks) = done.map_err(|why| raise(py, &why.json_with_data()))?;
        let time = Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX);
        let answer = wait(py, &tasks, &ticket, time)?;
        self.shared.told(py, answer).map(drop)
    }

    /// The changes from `from` on: `now`, `start` or a cursor.
    fn subscribe(&self, py: Python<'_>, from: &str, durable: bool) -> PyResult<Changes> {
        let mut made = None;
        let answer = py.detach(|| {
            guarded(|| {
                let tasks = self.tasks()?;
                let stream = tasks.changes(changes::since(Some(from))?)?;
                made = Some((if durable { stream.durable_only() } else { stream }, tasks));
                Ok(String::new())
            })
        });
        self.shared.told(py, answer)?;
        let (stream, tasks) =
            made.ok_or_else(|| raise(py, &Why::invalid("nothing was begun").json_with_data()))?;
        Ok(Changes::new(stream, &tasks, Arc::clone(&self.shared)))
    }
}

/// Changes, and how they are to be committed.
type Asked = Result<(Vec<Op>, CommitOptions), Why>;

impl Home {
    fn make(&self, py: Python<'_>, ask: impl Fn() -> Asked + Send + Sync + 'static) -> PyResult<Done> {
        let mut durable = false;
        let done = match py.detach(|| self.try_commit(&ask, &mut durable)) {
            Tried::Failed(json) => return self.shared.told(py, Err(json)).and_then(|_| Err(nothing())),
            Tried::Stands(done) if durable && !done.durable => self.make_durable(py, *done)?,
            Tried::Stands(done) => *done,
            Tried::Waits => self.commit_apart(py, ask)?,
        };
        self.shared.told(py, Ok(String::new()))?;
        Ok(self.receipt(done))
    }

    fn receipt(&self, done: Committed) -> Done {
        Done { done, workspace: Arc::clone(&self.name) }
    }

    /// `durable` says then whether it is to be made durable.
    fn try_commit(&self, ask: &impl Fn() -> Asked, durable: &mut bool) -> Tried {
        let mut stands = None;
        let answer = guarded(|| {
            let tasks = self.tasks()?;
            let (ops, options) = ask()?;
            // A durable commit is one that stands, and is then waited for.
            *durable = options.durability == Durability::Durable;
            let now = if *durable { options.durability(Durability::Buffered) } else { options };
            stands = tasks.try_commit(ops, now)?;
            Ok(String::new())
        });
        match (answer, stands) {
            (Err(json), _) => Tried::Failed(json),
            (Ok(_), Some(done)) => Tried::Stands(Box::new(done)),
            (Ok(_), None) => Tried::Waits,
        }
    }

    fn commit_apart(&self, py: Python<'_>, ask: impl Fn() -> Asked + Send + 'static) -> PyResult<Committed> {
        let (shared, name) = (Arc::clone(&self.shared), Arc::clone(&self.name));
        let (send, made) = std::sync::mpsc::channel();
        let answer = apart(py, move || {
            guarded(|| {
                let tasks = shared.opened()?.home(&name)?;
                let (ops, options) = ask()?;
                let done = tasks.commit(ops, options)?;
                let text = receipt::of(&name, &done);
                // Nobody waits for it who was interrupted; they have the text.
                let _ = send.send(done);
                Ok(text)
            })
        })?;
        self.shared.told(py, answer)?;
        made.try_recv().map_err(|_| nothing())
    }

    fn make_durable(&self, py: Python<'_>, done: Committed) -> PyResult<Committed> {
        let tasks = self.tasks().map_err(|why| raise(py, &why.json_with_data()))?;
        match wait(py, &tasks, &done, Duration::MAX) {
            Ok(answer) => {
                self.shared.told(py, answer)?;
                Ok(Committed { durable: true, ..done })
            }
            Err(interrupt) => {
                // It stands, and may be waited for: whoever is interrupted is not left without its receipt.
                let told = Py::new(py, self.receipt(done)).and_then(|done| receipt_of(py, done));
                if let Ok(told) = told {
                    let _ = interrupt.value(py).setattr("receipt", told);
                }
                Err(interrupt)
            }
        }
    }
}

fn receipt_of(py: Python<'_>, done: Py<Done>) -> PyResult<Bound<'_, PyAny>> {
    py.import("foldlog._store")?.getattr("Receipt")?.call1((done,))
}

fn nothing() -> PyErr {
    pyo3::exceptions::PyRuntimeError::new_err("a call of foldlog ended without an answer")
}

/// Waits for a commit to be durable, and looks now and then whether Ctrl-C was pressed.
fn wait(py: Python<'_>, tasks: &Arc<Tasks>, done: &Committed, time: Duration) -> PyResult<Answer> {
    let mut left = time;
    loop {
        let step = left.min(SLICE);
        let mut late = false;
        let answer = py.detach(|| {
            guarded(|| {
                let waited = tasks.wait_durable(done, step);
                late = matches!(&waited, Err(e) if matches!(e.kind(), ErrorKind::NotDurable { .. }));
                Ok(waited.map(|()| String::new())?)
            })
        });
        if !late || left <= step {
            return Ok(answer);
        }
        left -= step;
        py.check_signals()?;
    }
}

fn read(text: &str) -> Asked {
    let request = Request::parse(text)?;
    let ops = match request.change()? {
        Some(op) => vec![op],
        None if request.op == "commit" => request.changes()?,
        None => return Err(Why::invalid(format!("{:?} is no change", request.op))),
    };
    Ok((ops, request.options()?))
}
