//! A store as Python holds it.

use std::collections::{HashMap, VecDeque};
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use foldlog::{ErrorKind, Housekeeping, Mapping, Options, TaskStore, Tasks, Value};
use foldlog_requests::perform::Subject;
use foldlog_requests::{Failure as Why, Request, health, place};
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use serde::Deserialize;

use crate::backup::copied;
use crate::home::Home;
use crate::waiting::{Answer, Pace, Pending, apart, guarded, raise};

/// How a store is to be opened, as `foldlog.open_store` spells it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Wishes {
    create: bool,
    read_only: bool,
    label: String,
    lock_timeout_ms: u64,
    segment_size: Option<u64>,
    mapping: bool,
    housekeeping: bool,
    trust_shared_fs: bool,
}

impl Default for Wishes {
    fn default() -> Self {
        Wishes {
            create: true,
            read_only: false,
            label: "python".into(),
            lock_timeout_ms: 10_000,
            segment_size: None,
            mapping: true,
            housekeeping: true,
            trust_shared_fs: false,
        }
    }
}

impl Wishes {
    fn options(self, news: &Arc<News>) -> Options {
        let news = Arc::clone(news);
        let mut options = Options::default()
            .create(self.create)
            .read_only(self.read_only)
            .label(self.label)
            .lock_timeout(Duration::from_millis(self.lock_timeout_ms))
            .trust_shared_fs(self.trust_shared_fs)
            .mapping(if self.mapping { Mapping::Auto } else { Mapping::Off })
            .housekeeping(if self.housekeeping { Housekeeping::Thread } else { Housekeeping::Off })
            .on_event(move |finding| news.tell(health::finding(finding)));
        if let Some(bytes) = self.segment_size {
            options = options.segment_size(bytes);
        }
        options
    }
}

/// Findings that the logger has not been told of yet. They come on any thread, at times under locks of the engine, so
/// nothing is asked of the interpreter there.
#[derive(Debug, Default)]
pub(crate) struct News {
    any: AtomicBool,
    all: Mutex<VecDeque<String>>,
}

/// Of findings that nobody asks for, so many are kept.
const NEWS_MAX: usize = 1_000;

impl News {
    fn tell(&self, finding: String) {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() < NEWS_MAX {
            all.push_back(finding);
        }
        self.any.store(true, Ordering::Release);
    }

    /// Tells the logger what it has not been told of. What goes wrong with that is no matter of the call that is over;
    /// only an interrupt ends it, and what is left is told next time.
    fn log(&self, py: Python<'_>) -> PyResult<()> {
        if !self.any.load(Ordering::Acquire) {
            return Ok(());
        }
        self.any.store(false, Ordering::Release);
        while let Some(finding) = self.next() {
            let told =
                py.import("foldlog._log").and_then(|log| log.getattr("log")?.call1((finding,)).map(drop));
            match told {
                Err(error) if error.is_instance_of::<PyException>(py) => error.write_unraisable(py, None),
                Err(interrupt) => {
                    self.any.store(true, Ordering::Release);
                    return Err(interrupt);
                }
                Ok(()) => {}
            }
        }
        Ok(())
    }

    fn next(&self) -> Option<String> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }
}

/// An open store, until it is closed.
pub(crate) struct Opened {
    subject: Subject,
    homes: Mutex<HashMap<String, Arc<Tasks>>>,
}

/// What a store and its workspaces share.
pub(crate) struct Shared {
    opened: RwLock<Option<Arc<Opened>>>,
    pub(crate) news: Arc<News>,
    pub(crate) pace: Pace,
    /// The process that opened it. A forked child asks nothing of its locks, which threads of the parent's may have held.
    process: u32,
}

/// The same as an object of Python's holds it. The last one that is collected closes the store, which takes a sync: the
/// interpreter is let go of meanwhile.
pub(crate) struct Kept(Option<Arc<Shared>>);

impl Kept {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Kept(Some(shared))
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        self.0.as_ref().expect("it is taken when this is dropped only")
    }
}

impl Deref for Kept {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        self.shared()
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        if let Some(last) = self.0.take().and_then(Arc::into_inner) {
            // Not while the interpreter ends: nobody waits for it then.
            let _ = Python::try_attach(|py| py.detach(|| drop(last)));
        }
    }
}

impl Shared {
    /// What a call comes to, for Python: its text, or the exception. What was found meanwhile is logged; an interrupt that
    /// comes before it is told has it.
    pub(crate) fn told(&self, py: Python<'_>, answer: Answer) -> PyResult<String> {
        match self.heard(py) {
            Ok(()) => answer.map_err(|json| raise(py, &json)),
            Err(interrupt) => Err(Pending::ended(answer).carried_by(py, interrupt)),
        }
    }

    /// What is left to do once a call is over: what was found meanwhile is logged.
    ///
    /// An interrupt that has come meanwhile is raised here, where it can carry what the call came to: the interpreter would
    /// raise it in the next moment, and drop that.
    pub(crate) fn heard(&self, py: Python<'_>) -> PyResult<()> {
        self.news.log(py)?;
        py.check_signals()
    }

    /// The store, if it is open, and this is the process that opened it.
    pub(crate) fn opened(&self) -> Result<Arc<Opened>, Why> {
        if self.process != std::process::id() {
            return Err(Why::Own {
                code: ErrorKind::Forked.code(),
                message: "the store was opened before this process was forked".into(),
                remedy: ErrorKind::Forked.remedy().into(),
                file: None,
            });
        }
        let opened = self.opened.read().unwrap_or_else(PoisonError::into_inner).clone();
        opened.ok_or_else(|| Why::Own {
            code: "closed",
            message: "the store has been closed".into(),
            remedy: "open it again".into(),
            file: None,
        })
    }
}

impl Opened {
    pub(crate) fn home(&self, name: &str) -> Result<Arc<Tasks>, Why> {
        let homes = || self.homes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(home) = homes().get(name) {
            return Ok(Arc::clone(home));
        }
        // To open a workspace may take long: those who ask for others need not wait for it.
        let home = Arc::new(self.subject.store.named(name)?);
        Ok(Arc::clone(homes().entry(name.to_owned()).or_insert(home)))
    }

    pub(crate) fn perform(&self, text: &str) -> Result<String, Why> {
        let request = Request::parse(text)?;
        let answer = self.subject.perform(&request)?;
        answer.ok_or_else(|| Why::invalid(format!("{:?} is no operation", request.op)))
    }
}

/// An open store.
#[pyclass(frozen)]
pub(crate) struct Store {
    shared: Kept,
}

/// Opens the store in a folder, or one in memory; `options` is JSON text.
///
/// # Errors
/// As JSON text, of the library's codes.
#[pyfunction]
pub(crate) fn open(py: Python<'_>, path: Option<PathBuf>, options: String) -> PyResult<Store> {
    let news = Arc::new(News::default());
    let store = Arc::new(Mutex::new(None));
    let (made, hears) = (Arc::clone(&store), Arc::clone(&news));
    let done = apart(py, move || {
        guarded(|| {
            let wishes: Wishes =
                serde_json::from_str(&options).map_err(|e| Why::invalid(format!("options: {e}")))?;
            let options = wishes.options(&hears);
            let store = match path {
                Some(path) => TaskStore::open(path, options)?,
                None => TaskStore::memory(options)?,
            };
            let opened = Opened { subject: Subject { store, workspace: None }, homes: Mutex::default() };
            *made.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(opened));
            Ok(String::new())
        })
    })?;
    let opened = store.lock().unwrap_or_else(PoisonError::into_inner).take();
    let (opened, pace) = (RwLock::new(opened), Pace::default());
    let shared = Kept::new(Arc::new(Shared { opened, news, pace, process: std::process::id() }));
    shared.told(py, done)?;
    Ok(Store { shared })
}

/// Says what is wrong with a text that is to be one JSON value.
#[pyfunction]
pub(crate) fn check_value(py: Python<'_>, text: &str) -> PyResult<()> {
    match Value::parse(text) {
        Ok(_) => Ok(()),
        Err(bad) => Err(raise(py, &Why::invalid(format!("no JSON value for Raw: {bad}")).json_with_data())),
    }
}

/// The stable names of all errors of the library.
#[pyfunction]
pub(crate) fn codes() -> Vec<&'static str> {
    ErrorKind::CODES.to_vec()
}

#[pymethods]
impl Store {
    /// Does what a request asks for; see `docs/pipe.md`.
    fn request(&self, py: Python<'_>, text: String) -> PyResult<String> {
        let shared = Arc::clone(self.shared.shared());
        let answer = apart(py, move || guarded(|| shared.opened()?.perform(&text)))?;
        self.shared.told(py, answer)
    }

    /// A workspace by its folder, by `key:NAME` or by its own name; `create`: made where it is absent.
    fn home(&self, py: Python<'_>, text: String, create: bool) -> PyResult<Home> {
        let shared = Arc::clone(self.shared.shared());
        let name = apart(py, move || {
            guarded(|| {
                let opened = shared.opened()?;
                let store = &opened.subject.store;
                let name = match create {
                    true => place::named_or_new(store, &text)?.workspace().name().to_owned(),
                    false => place::find(store.store(), &text)?,
                };
                opened.home(&name)?;
                Ok(name)
            })
        })?;
        Ok(Home::new(Arc::clone(self.shared.shared()), self.shared.told(py, name)?))
    }

    /// The store's global home; `create`: made if it is absent.
    fn global_home(&self, py: Python<'_>, create: bool) -> PyResult<Option<Home>> {
        let shared = Arc::clone(self.shared.shared());
        let name = apart(py, move || {
            guarded(|| {
                let opened = shared.opened()?;
                let store = &opened.subject.store;
                let home = if create { Some(store.global()?) } else { store.global_if_there()? };
                let Some(home) = home else { return Ok(String::new()) };
                let name = home.workspace().name().to_owned();
                opened.home(&name)?;
                Ok(name)
            })
        })?;
        let name = self.shared.told(py, name)?;
        Ok((!name.is_empty()).then(|| Home::new(Arc::clone(self.shared.shared()), name)))
    }

    /// Has documents of a kind judged: `validator(name, text)` returns why not, or `None`. In this process, from now on.
    fn validate_documents(&self, py: Python<'_>, kind: &str, validator: Py<PyAny>) -> PyResult<()> {
        let answer = guarded(|| {
            let opened = self.shared.opened()?;
            opened.subject.store.validate_documents(kind, move |name, value| {
                // The log's locks are held, and no thread that holds the interpreter waits for them: it lets go first.
                Python::attach(|py| judge(py, &validator, name.as_str(), &value.to_json()))
            });
            Ok(String::new())
        });
        self.shared.told(py, answer).map(drop)
    }

    /// Makes a copy of the store in a folder; the report as JSON text.
    fn backup(
        &self,
        py: Python<'_>,
        target: PathBuf,
        wishes: String,
        on_progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<String> {
        let shared = Arc::clone(self.shared.shared());
        let store = move || Ok(shared.opened()?.subject.store.clone());
        let answer =
            copied(py, wishes, on_progress, store, move |store, options| store.backup(target, options))?;
        self.shared.told(py, answer)
    }

    /// Whether it has been closed.
    fn is_closed(&self) -> bool {
        self.shared.opened().is_err()
    }

    /// Makes everything durable and closes it; subscriptions end. What other threads are at is finished first, by them.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        if self.shared.opened().is_err() {
            return Ok(());
        }
        let opened = self.shared.opened.write().unwrap_or_else(PoisonError::into_inner).take();
        let Some(opened) = opened else { return Ok(()) };
        let done: Answer = apart(py, move || {
            guarded(|| {
                let homes: Vec<_> = opened
                    .homes
                    .lock()
                    .map(|mut homes| homes.drain().map(|(_, home)| home).collect())
                    .unwrap_or_default();
                let flushed: Vec<_> = homes.iter().map(|home| home.workspace().flush()).collect();
                drop((homes, opened));
                match flushed.into_iter().find_map(|done| done.err().filter(is_worth_telling)) {
                    Some(error) => Err(error.into()),
                    None => Ok(String::new()),
                }
            })
        })?;
        self.shared.told(py, done).map(drop)
    }
}

fn judge(py: Python<'_>, validator: &Py<PyAny>, name: &str, text: &str) -> Result<(), String> {
    let answer = validator.call1(py, (name, text)).and_then(|why| why.extract::<Option<String>>(py));
    match answer {
        Ok(None) => Ok(()),
        Ok(Some(why)) => Err(why),
        Err(error) => Err(format!("the validator failed: {error}")),
    }
}

/// Whoever only reads has nothing to make durable.
fn is_worth_telling(error: &foldlog::Error) -> bool {
    !matches!(error.kind(), ErrorKind::ReadOnly { .. })
}
