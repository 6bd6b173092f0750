//! A workspace as Python holds it.

use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

use foldlog::task::{CommitOptions, Committed, Op};
use foldlog::{Durability, Item, Patch, TaskId, Tasks};
use foldlog_requests::json::splice;
use foldlog_requests::settle::settle;
use foldlog_requests::{Failure as Why, Request, changes, receipt, task, words};
use pyo3::prelude::*;

use crate::changes::Changes;
use crate::open::{Kept, Shared};
use crate::waiting::{Answer, Pending, SLICE, apart, guarded, now, raise};

/// A workspace of an open store.
#[pyclass(frozen)]
pub(crate) struct Home {
    shared: Kept,
    name: Arc<str>,
}

impl Home {
    pub(crate) fn new(shared: Arc<Shared>, name: String) -> Self {
        Home { shared: Kept::new(shared), name: name.into() }
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
    /// It stands. If it is to be made durable, then by this: the handle that it was made through, though the store be closed
    /// meanwhile.
    Stands(Box<Committed>, Option<Arc<Tasks>>),
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
            let patch = Patch::from(Item::parse(&set)?);
            Ok((vec![Op::Patch { id: TaskId::new(&id)?, patch }], options))
        })
    }

    /// Waits until a commit is durable: the ticket of its receipt.
    fn wait_durable(&self, py: Python<'_>, ticket: &str, seconds: f64) -> PyResult<()> {
        let Some(done) = receipt::read_ticket(ticket) else {
            let why = Why::invalid(format!("{ticket:?} is no ticket of a receipt"));
            return Err(raise(py, &why.json_with_data()));
        };
        let time = Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX);
        let (shared, name) = (Arc::clone(self.shared.shared()), Arc::clone(&self.name));
        let answer = self.wait(py, time, move |step| {
            guarded(|| {
                let tasks = shared.opened()?.home(&name)?;
                tasks.wait_durable(&done, step)?;
                Ok(String::new())
            })
        })?;
        self.shared.told(py, answer).map(drop)
    }

    /// The changes from `from` on: `now`, `start` or a cursor.
    fn subscribe(&self, py: Python<'_>, from: String, durable: bool) -> PyResult<Changes> {
        let (shared, name) = (Arc::clone(self.shared.shared()), Arc::clone(&self.name));
        let (send, made) = mpsc::channel();
        // It reads what lies between.
        let answer = apart(py, move || {
            guarded(|| {
                let tasks = shared.opened()?.home(&name)?;
                let stream = tasks.changes(changes::since(Some(&from))?)?;
                let stream = if durable { stream.durable_only() } else { stream };
                // Nobody waits for it who was interrupted.
                let _ = send.send((stream, Arc::downgrade(&tasks)));
                Ok(String::new())
            })
        })?;
        self.shared.told(py, answer)?;
        let (stream, tasks) = made.try_recv().map_err(|_| nothing())?;
        Ok(Changes::new(stream, tasks, Arc::clone(self.shared.shared())))
    }
}

/// Changes, and how they are to be committed.
type Asked = Result<(Vec<Op>, CommitOptions), Why>;

impl Home {
    fn make(&self, py: Python<'_>, ask: impl Fn() -> Asked + Send + Sync + 'static) -> PyResult<Done> {
        let done = match py.detach(|| self.try_commit(&ask)) {
            Tried::Failed(json) => return self.shared.told(py, Err(json)).and_then(|_| Err(nothing())),
            Tried::Stands(done, None) => *done,
            Tried::Stands(done, Some(tasks)) => self.make_durable(py, *done, tasks)?,
            Tried::Waits => self.commit_apart(py, ask)?,
        };
        match self.shared.heard(py) {
            Ok(()) => Ok(self.receipt(done)),
            Err(interrupt) => Err(self.with_receipt(py, interrupt, done)),
        }
    }

    fn receipt(&self, done: Committed) -> Done {
        Done { done, workspace: Arc::clone(&self.name) }
    }

    /// It stands: whoever is interrupted is not left without its receipt.
    fn with_receipt(&self, py: Python<'_>, interrupt: PyErr, done: Committed) -> PyErr {
        let told = Py::new(py, self.receipt(done)).and_then(|done| receipt_of(py, done));
        if let Ok(told) = told {
            let _ = interrupt.value(py).setattr("receipt", told);
        }
        interrupt
    }

    fn try_commit(&self, ask: &impl Fn() -> Asked) -> Tried {
        let (mut stands, mut durable) = (None, false);
        let answer = guarded(|| {
            let tasks = self.tasks()?;
            let (ops, options) = ask()?;
            stands = tasks.try_commit(ops, buffered(options, &mut durable))?.map(|done| (done, tasks));
            Ok(String::new())
        });
        match (answer, stands) {
            (Err(json), _) => Tried::Failed(json),
            (Ok(_), Some((done, tasks))) => {
                let tasks = (durable && !done.durable).then_some(tasks);
                Tried::Stands(Box::new(done), tasks)
            }
            (Ok(_), None) => Tried::Waits,
        }
    }

    fn commit_apart(&self, py: Python<'_>, ask: impl Fn() -> Asked + Send + 'static) -> PyResult<Committed> {
        let (shared, name) = (Arc::clone(self.shared.shared()), Arc::clone(&self.name));
        let place = Arc::new(Mutex::new(None));
        let made = Arc::clone(&place);
        let answer = apart(py, move || {
            let mut standing = None;
            let answer = guarded(|| {
                let tasks = shared.opened()?.home(&name)?;
                let (ops, options) = ask()?;
                let mut durable = false;
                let done = tasks.commit(ops, buffered(options, &mut durable))?;
                standing = Some((done, tasks, durable));
                Ok(String::new())
            });
            let Some((mut done, tasks, durable)) = standing else { return answer };
            let tell = |done: &Committed| {
                *made.lock().unwrap_or_else(PoisonError::into_inner) = Some(done.clone());
            };
            tell(&done);
            if durable && !done.durable {
                let text = settled(&name, &mut done, |done| settle(&tasks, done, Duration::MAX))?;
                tell(&done);
                return Ok(text);
            }
            Ok(receipt::of(&name, &done))
        });
        let done = place.lock().unwrap_or_else(PoisonError::into_inner).take();
        match (answer, done) {
            (Ok(Ok(_)), Some(done)) => Ok(done),
            (Ok(answer), _) => self.shared.told(py, answer).and_then(|_| Err(nothing())),
            (Err(interrupt), Some(done)) => Err(self.with_receipt(py, interrupt, done)),
            (Err(interrupt), None) => Err(interrupt),
        }
    }

    fn make_durable(&self, py: Python<'_>, done: Committed, tasks: Arc<Tasks>) -> PyResult<Committed> {
        let (name, waited) = (Arc::clone(&self.name), done.clone());
        let answer = self.wait(py, Duration::MAX, move |step| {
            settled(&name, &mut waited.clone(), |done| settle(&tasks, done, step))
        });
        match answer {
            Ok(Ok(_)) => Ok(Committed { durable: true, ..done }),
            Ok(Err(json)) => match self.shared.heard(py) {
                Ok(()) => Err(raise(py, &json)),
                Err(interrupt) => {
                    Err(self.with_receipt(py, Pending::ended(Err(json)).carried_by(py, interrupt), done))
                }
            },
            Err(interrupt) => Err(self.with_receipt(py, interrupt, done)),
        }
    }

    /// Waits for what takes a sync, at most for so long: `job` for at most the time that it is given.
    ///
    /// Where syncs come thick and fast this thread makes them itself: nobody could hear of an interrupt before they are
    /// over, and a thread for each would cost a tenth of it. Else a thread of its own does it.
    fn wait(
        &self,
        py: Python<'_>,
        time: Duration,
        job: impl Fn(Duration) -> Answer + Send + Sync + 'static,
    ) -> PyResult<Answer> {
        let mut left = time;
        if self.shared.pace.is_brisk() {
            let step = left.min(SLICE);
            let begun = now();
            let answer = py.detach(|| job(step));
            self.shared.pace.ended(begun);
            if answer.is_ok() || left <= step || begun.elapsed() < step {
                // The job goes with what it holds, which may be the last of a log.
                py.detach(|| drop(job));
                return Ok(answer);
            }
            left = left.saturating_sub(begun.elapsed());
        }
        let shared = Arc::clone(self.shared.shared());
        apart(py, move || {
            let begun = now();
            let answer = job(left);
            shared.pace.ended(begun);
            answer
        })
    }
}

/// A durable commit is one that stands, and is then waited for.
fn buffered(options: CommitOptions, durable: &mut bool) -> CommitOptions {
    *durable = options.durability == Durability::Durable;
    if *durable { options.durability(Durability::Buffered) } else { options }
}

/// The receipt of a commit that stands once it is durable; of an error, `receipt` is a member.
fn settled(
    name: &str,
    done: &mut Committed,
    settle: impl FnOnce(&mut Committed) -> Result<(), Why>,
) -> Answer {
    match settle(done) {
        Ok(()) => Ok(receipt::of(name, done)),
        Err(why) => {
            let mut line = why.json_with_data();
            line.pop();
            splice("receipt", &receipt::of(name, done), &mut line);
            Err(line + "}")
        }
    }
}

fn receipt_of(py: Python<'_>, done: Py<Done>) -> PyResult<Bound<'_, PyAny>> {
    py.import("foldlog._store")?.getattr("Receipt")?.call1((done,))
}

fn nothing() -> PyErr {
    pyo3::exceptions::PyRuntimeError::new_err("a call of foldlog ended without an answer")
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
