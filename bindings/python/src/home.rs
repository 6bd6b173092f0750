//! A workspace as Python holds it.

use std::sync::Arc;
use std::time::Duration;

use foldlog::task::{CommitOptions, Committed, Op};
use foldlog::{Durability, ErrorKind, Tasks};
use foldlog_requests::{Failure as Why, Request, changes, receipt, task};
use pyo3::prelude::*;

use crate::changes::Changes;
use crate::open::Shared;
use crate::waiting::{Answer, SLICE, apart, guarded, raise};

/// A workspace of an open store.
#[pyclass(frozen)]
pub(crate) struct Home {
    shared: Arc<Shared>,
    name: String,
}

impl Home {
    pub(crate) fn new(shared: Arc<Shared>, name: String) -> Self {
        Home { shared, name }
    }

    fn tasks(&self) -> Result<Arc<Tasks>, Why> {
        self.shared.opened()?.home(&self.name)
    }
}

/// How a commit ended that was tried without waiting.
enum Tried {
    /// It would have had to wait; nothing was done.
    Waits,
    Answered(Answer),
    /// It stands; it is to be made durable.
    Stands(Box<Committed>, Arc<Tasks>),
}

#[pymethods]
impl Home {
    /// Its own name.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// Does what a request asks for, in this workspace; see `docs/pipe.md`.
    fn request(&self, py: Python<'_>, text: String) -> PyResult<String> {
        let shared = Arc::clone(&self.shared);
        let answer = apart(py, move || guarded(|| shared.opened()?.perform(&text)))?;
        self.shared.told(py, answer)
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

    /// Makes one change, or those of `commit`, and answers with the receipt. Where nothing stands in the way it does so at
    /// once; else it waits on another thread, so that Ctrl-C is heard.
    fn commit(&self, py: Python<'_>, text: String) -> PyResult<String> {
        match py.detach(|| self.try_commit(&text)) {
            Tried::Answered(answer) => self.shared.told(py, answer),
            Tried::Stands(done, tasks) => self.make_durable(py, &done, &tasks),
            Tried::Waits => {
                let (shared, name) = (Arc::clone(&self.shared), self.name.clone());
                let answer = apart(py, move || {
                    guarded(|| {
                        let tasks = shared.opened()?.home(&name)?;
                        let (ops, options) = read(&text)?;
                        let done = tasks.commit(ops, options)?;
                        Ok(receipt::with_ticket(&tasks, &done))
                    })
                });
                self.shared.told(py, answer?)
            }
        }
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

impl Home {
    fn try_commit(&self, text: &str) -> Tried {
        let mut stands = None;
        let mut waits = false;
        let answer = guarded(|| {
            let tasks = self.tasks()?;
            let (ops, options) = read(text)?;
            let durable = options.durability == Durability::Durable;
            // A durable commit is one that stands, and is then waited for.
            let now = if durable { options.durability(Durability::Buffered) } else { options };
            match tasks.try_commit(ops, now)? {
                None => waits = true,
                Some(done) if durable && !done.durable => stands = Some((Box::new(done), tasks)),
                Some(done) => return Ok(receipt::with_ticket(&tasks, &done)),
            }
            Ok(String::new())
        });
        match stands {
            Some((done, tasks)) if answer.is_ok() => Tried::Stands(done, tasks),
            _ if waits && answer.is_ok() => Tried::Waits,
            _ => Tried::Answered(answer),
        }
    }

    fn make_durable(&self, py: Python<'_>, done: &Committed, tasks: &Arc<Tasks>) -> PyResult<String> {
        match wait(py, tasks, done, Duration::MAX) {
            Ok(Ok(_)) => {
                let done = Committed { durable: true, ..done.clone() };
                Ok(receipt::with_ticket(tasks, &done))
            }
            Ok(Err(json)) => self.shared.told(py, Err(json)),
            Err(interrupt) => {
                // It stands, and may be waited for: whoever is interrupted is not left without its receipt.
                let _ = interrupt.value(py).setattr("receipt", receipt::with_ticket(tasks, done));
                Err(interrupt)
            }
        }
    }
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

fn read(text: &str) -> Result<(Vec<Op>, CommitOptions), Why> {
    let request = Request::parse(text)?;
    let ops = match request.change()? {
        Some(op) => vec![op],
        None if request.op == "commit" => request.changes()?,
        None => return Err(Why::invalid(format!("{:?} is no change", request.op))),
    };
    Ok((ops, request.options()?))
}
