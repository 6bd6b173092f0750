//! The sessions of a store, which live and which are dead, and what they hold.

use std::sync::Arc;

use foldlog::event::Fence;
use foldlog::session::{Entry, Liveness};
use foldlog::view::Writer;
use foldlog::{TaskId, TaskStore, Tasks};

use crate::event_json::rfc3339;
use crate::json;

/// A task that a session holds.
#[derive(Debug)]
pub struct Held {
    /// Its workspace.
    pub workspace: String,
    /// The task.
    pub id: TaskId,
    /// By what it is held.
    pub fence: Fence,
    /// Its status.
    pub status: &'static str,
}

/// A session as it is told.
#[derive(Debug)]
pub struct Told {
    /// Its number.
    pub session: u64,
    /// Whether it lives.
    pub liveness: Liveness,
    /// What it calls itself; `None` = its file cannot be read.
    pub label: Option<String>,
    /// Its process.
    pub pid: Option<u32>,
    /// Its release.
    pub version: Option<String>,
    /// µs since 1970.
    pub started: Option<u64>,
    /// What it runs.
    pub holds: Vec<Held>,
}

/// The sessions as `--json` prints them.
///
/// # Errors
/// As [`foldlog::Store::sessions`] and [`Tasks::read`].
pub fn lines(store: &TaskStore, homes: &[Tasks]) -> foldlog::Result<Vec<String>> {
    Ok(told(store, homes)?.iter().map(session).collect())
}

/// The living first, then those of which nobody knows, then the dead.
///
/// # Errors
/// As [`foldlog::Store::sessions`] and [`Tasks::read`].
pub fn told(store: &TaskStore, homes: &[Tasks]) -> foldlog::Result<Vec<Told>> {
    let mut all: Vec<Told> = store.store().sessions()?.into_iter().map(Told::of).collect();
    for home in homes {
        let name = home.workspace().name();
        let held = home.read(|_, index| {
            let owned = index.tasks().filter_map(|task| Some((task.owner()?, task)));
            let mut held: Vec<(Held, Option<Arc<Writer>>)> = owned
                .map(|(fence, task)| {
                    let held = Held {
                        workspace: name.to_owned(),
                        id: task.id.clone(),
                        fence,
                        status: task.status().name(),
                    };
                    (held, index.writer(fence.session).cloned())
                })
                .collect();
            held.sort_unstable_by(|a, b| a.0.id.cmp(&b.0.id));
            held
        })?;
        for (held, writer) in held {
            let at = all.iter().position(|told| told.session == held.fence.session);
            let at = at.unwrap_or_else(|| {
                all.push(Told::without_files(held.fence.session, writer.as_deref()));
                all.len() - 1
            });
            if let Some(told) = all.get_mut(at) {
                told.holds.push(held);
            }
        }
    }
    all.sort_by_key(|told| match told.liveness {
        Liveness::Alive => 0,
        Liveness::Unknown => 1,
        Liveness::Dead => 2,
    });
    Ok(all)
}

impl Told {
    fn of(entry: Entry) -> Told {
        let info = entry.info;
        let readable = info.started != 0;
        Told {
            session: info.session,
            liveness: entry.liveness,
            label: readable.then_some(info.label),
            pid: Some(info.pid),
            version: readable.then_some(info.version),
            started: readable.then_some(info.started),
            holds: Vec::new(),
        }
    }

    /// What it said when it began to write is all that is left of it.
    fn without_files(session: u64, said: Option<&Writer>) -> Told {
        Told {
            session,
            liveness: Liveness::Unknown,
            label: said.map(|said| said.label.clone()),
            pid: said.map(|said| said.pid),
            version: said.map(|said| said.version.clone()),
            started: None,
            holds: Vec::new(),
        }
    }
}

/// `{"session","state","label","pid","version","started","holds":[{"workspace","id","fence","status"}]}`.
#[must_use]
pub fn session(told: &Told) -> String {
    let mut line = String::from("{");
    let or_null = |value: Option<String>| value.unwrap_or_else(|| "null".into());
    let string = |text: &String| serde_json::to_string(text).unwrap_or_default();
    json::text("session", &format!("{:016x}", told.session), &mut line);
    json::text("state", told.liveness.name(), &mut line);
    json::raw("label", or_null(told.label.as_ref().map(string)), &mut line);
    json::raw("pid", or_null(told.pid.map(|pid| pid.to_string())), &mut line);
    json::raw("version", or_null(told.version.as_ref().map(string)), &mut line);
    json::raw("started", or_null(told.started.map(|at| string(&rfc3339(at)))), &mut line);
    let holds: Vec<String> = told
        .holds
        .iter()
        .map(|held| {
            let mut one = String::from("{");
            json::text("workspace", &held.workspace, &mut one);
            json::text("id", held.id.as_str(), &mut one);
            json::text("fence", &held.fence.to_string(), &mut one);
            json::text("status", held.status, &mut one);
            one + "}"
        })
        .collect();
    json::raw("holds", format_args!("[{}]", holds.join(",")), &mut line);
    line + "}"
}
