//! A store, as one JavaScript environment has it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use foldlog::task::TaskStore;
use foldlog::{Options, Recovery};
use foldlog_requests::json::array;
use foldlog_requests::perform::Subject;
use foldlog_requests::{Failure, Request, place, sessions};
use napi_derive::napi;

use crate::home::{Home, closed};
use crate::wire::{Bridge, Job, Wire, lock};
use crate::{pool, thrown};

/// See the module.
#[napi]
pub struct Store {
    wire: Arc<Wire>,
    /// `None` until it is open, and once it is closed.
    store: Arc<Mutex<Option<TaskStore>>>,
}

/// How a store is to be opened; what is left out is as in the library.
#[napi(object)]
pub struct OpenOptions {
    /// Only look.
    pub read_only: Option<bool>,
    /// Make it where it is absent.
    pub create: Option<bool>,
    /// What the session calls itself.
    pub label: Option<String>,
    /// How long a commit waits for the lock.
    pub lock_timeout_ms: Option<f64>,
    /// `default`, `strict` or `salvage`.
    pub recovery: Option<String>,
    /// At which length a segment is sealed.
    pub segment_size: Option<f64>,
    /// Open it on a file system that may be shared with other machines.
    pub trust_shared_fs: Option<bool>,
}

impl OpenOptions {
    fn to_library(&self) -> Result<Options, Failure> {
        let mut options = Options::default();
        if let Some(read_only) = self.read_only {
            options = options.read_only(read_only);
            if read_only {
                options = options.create(false);
            }
        }
        if let Some(create) = self.create {
            options = options.create(create);
        }
        if let Some(label) = &self.label {
            options = options.label(label.clone());
        }
        if let Some(ms) = self.lock_timeout_ms {
            let timeout = Duration::try_from_secs_f64(ms / 1000.0);
            options =
                options.lock_timeout(timeout.map_err(|e| Failure::invalid(format!("lockTimeoutMs: {e}")))?);
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "saturates; the library judges it"
        )]
        if let Some(size) = self.segment_size {
            options = options.segment_size(size as u64);
        }
        if let Some(trust) = self.trust_shared_fs {
            options = options.trust_shared_fs(trust);
        }
        match self.recovery.as_deref() {
            None | Some("default") => Ok(options),
            Some("strict") => Ok(options.recovery(Recovery::Strict)),
            Some("salvage") => Ok(options.recovery(Recovery::Salvage)),
            Some(other) => {
                Err(Failure::invalid(format!("recovery is to be default, strict or salvage, not {other:?}")))
            }
        }
    }
}

impl Store {
    pub(crate) fn wire(&self) -> &Arc<Wire> {
        &self.wire
    }

    pub(crate) fn opened(&self) -> napi::Result<TaskStore> {
        lock(&self.store).clone().ok_or_else(|| thrown(closed("store")))
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        if let Some(store) = lock(&self.store).take() {
            pool::drop_there(store);
        }
    }
}

#[napi]
impl Store {
    /// One that is to be opened.
    #[napi(constructor, catch_unwind)]
    pub fn new(bridge: &Bridge) -> Self {
        Store { wire: Arc::clone(&bridge.wire), store: Arc::default() }
    }

    /// Opens it in a folder, or in memory if that is none.
    #[napi(catch_unwind)]
    pub fn open(
        &self,
        job: f64,
        path: Option<String>,
        options: OpenOptions,
        cancellable: bool,
    ) -> napi::Result<()> {
        let options = options.to_library().map_err(thrown)?;
        let place = Arc::clone(&self.store);
        pool::run(Job::of(&self.wire, job, cancellable), move || {
            let store = match path {
                Some(path) => TaskStore::open(path, options)?,
                None => TaskStore::memory(options)?,
            };
            *lock(&place) = Some(store);
            Ok("null".into())
        });
        Ok(())
    }

    /// Opens one in memory at once.
    #[napi(catch_unwind)]
    pub fn open_memory(&self, options: OpenOptions) -> napi::Result<()> {
        let store = TaskStore::memory(options.to_library().map_err(thrown)?).map_err(thrown)?;
        *lock(&self.store) = Some(store);
        Ok(())
    }

    /// Opens a workspace, made if it is absent and the store may create; answers its name.
    #[napi(catch_unwind)]
    pub fn workspace(&self, job: f64, text: String, cancellable: bool) -> napi::Result<()> {
        let store = self.opened()?;
        pool::run(Job::of(&self.wire, job, cancellable), move || {
            let home = place::named_or_new(&store, &text)?;
            Ok(quoted(home.workspace().name()))
        });
        Ok(())
    }

    /// Has documents of a kind judged by one of JavaScript's validators before anything of them is written through this store.
    #[napi(catch_unwind)]
    pub fn validate(&self, kind: String, validator: u32) -> napi::Result<()> {
        let wire = Arc::clone(&self.wire);
        self.opened()?.validate_documents(&kind, move |name, value| {
            wire.ask(validator, name.as_str(), &value.to_json())
        });
        Ok(())
    }

    /// A workspace that has been opened, by its name.
    #[napi(catch_unwind)]
    pub fn home(&self, name: String) -> napi::Result<Home> {
        Ok(Home::of(&self.wire, self.opened()?.named(&name).map_err(thrown)?))
    }

    /// The name of the workspace that a task is at home in.
    #[napi(catch_unwind)]
    pub fn home_of(&self, job: f64, id: String, cancellable: bool) -> napi::Result<()> {
        let store = self.opened()?;
        pool::run(Job::of(&self.wire, job, cancellable), move || {
            Ok(quoted(store.home_of(&foldlog::TaskId::new(&id)?)?.workspace().name()))
        });
        Ok(())
    }

    /// The name of the store's global home, made if it is absent and the store may create.
    #[napi(catch_unwind)]
    pub fn global(&self, job: f64, cancellable: bool) -> napi::Result<()> {
        let store = self.opened()?;
        pool::run(Job::of(&self.wire, job, cancellable), move || {
            Ok(quoted(store.global()?.workspace().name()))
        });
        Ok(())
    }

    /// Answers a request as `foldlog pipe` does.
    #[napi(catch_unwind)]
    pub fn request(&self, job: f64, text: String, cancellable: bool) -> napi::Result<()> {
        let subject = Subject { store: self.opened()?, workspace: None };
        pool::run(Job::of(&self.wire, job, cancellable), move || {
            let request = Request::parse(&text)?;
            let answer = subject.perform(&request)?;
            answer.ok_or_else(|| Failure::invalid(format!("{:?} is no operation", request.op)))
        });
        Ok(())
    }

    /// All workspaces, as `foldlog pipe` answers `workspaces`.
    #[napi(catch_unwind)]
    pub fn workspaces(&self, job: f64, cancellable: bool) -> napi::Result<()> {
        let subject = Subject { store: self.opened()?, workspace: None };
        pool::run(Job::of(&self.wire, job, cancellable), move || {
            let request = Request::parse(r#"{"op":"workspaces"}"#)?;
            Ok(subject.perform(&request)?.unwrap_or_default())
        });
        Ok(())
    }

    /// All sessions, as `foldlog who --json` prints them.
    #[napi(catch_unwind)]
    pub fn sessions(&self, job: f64, cancellable: bool) -> napi::Result<()> {
        let store = self.opened()?;
        pool::run(Job::of(&self.wire, job, cancellable), move || {
            let homes: foldlog::Result<Vec<_>> = store.homes()?.into_iter().map(|(_, home)| home).collect();
            Ok(array(&sessions::lines(&store, &homes?)?))
        });
        Ok(())
    }

    /// Ends it. Its session ends with the last of its workspaces.
    #[napi(catch_unwind)]
    pub fn close(&self, job: f64) {
        let store = lock(&self.store).take();
        pool::run(Job::of(&self.wire, job, false), move || {
            drop(store);
            Ok("null".into())
        });
    }
}

/// A string as JSON.
fn quoted(text: &str) -> String {
    let mut out = String::new();
    foldlog::event::json::write_string(text, &mut out);
    out
}
