//! `foldlog who`: the sessions of a store, which live and which are dead, and what they hold.

use std::sync::Arc;

use foldlog::event::Fence;
use foldlog::session::{Entry, Liveness};
use foldlog::view::Writer;
use foldlog::{TaskId, TaskStore, Tasks};

use crate::args::Global;
use crate::escape;
use crate::event_json::rfc3339;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::homes;
use crate::out::Out;
use crate::table;
use crate::task_json;

/// A task that a session holds.
struct Held {
    workspace: String,
    id: TaskId,
    fence: Fence,
    status: &'static str,
}

/// A session as it is told.
struct Told {
    session: u64,
    liveness: Liveness,
    label: Option<String>,
    pid: Option<u32>,
    version: Option<String>,
    /// µs since 1970.
    started: Option<u64>,
    holds: Vec<Held>,
}

/// Runs the verb.
pub(crate) fn run(global: &Global, out: &mut Out) -> Result<Exit, Failure> {
    let mut homes = homes::look(global, out)?;
    let told = told(&homes.store, &homes.all)?;
    if out.json {
        told.iter().try_for_each(|told| out.line(&json(told)))?;
    } else {
        people(&told, homes.several(), out)?;
    }
    out.flush()?;
    homes::tell_unread(&mut homes, out);
    Ok(homes.exit)
}

/// The sessions as `--json` prints them.
///
/// # Errors
/// As [`foldlog::Store::sessions`] and [`Tasks::read`].
pub(crate) fn lines(store: &TaskStore, homes: &[Tasks]) -> Result<Vec<String>, Failure> {
    Ok(told(store, homes)?.iter().map(json).collect())
}

/// The living first, then those of which nobody knows, then the dead.
fn told(store: &TaskStore, homes: &[Tasks]) -> Result<Vec<Told>, Failure> {
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
fn json(told: &Told) -> String {
    let mut line = String::from("{");
    let or_null = |value: Option<String>| value.unwrap_or_else(|| "null".into());
    let string = |text: &String| serde_json::to_string(text).unwrap_or_default();
    task_json::text("session", &format!("{:016x}", told.session), &mut line);
    task_json::text("state", told.liveness.name(), &mut line);
    task_json::raw("label", or_null(told.label.as_ref().map(string)), &mut line);
    task_json::raw("pid", or_null(told.pid.map(|pid| pid.to_string())), &mut line);
    task_json::raw("version", or_null(told.version.as_ref().map(string)), &mut line);
    task_json::raw("started", or_null(told.started.map(|at| string(&rfc3339(at)))), &mut line);
    let holds: Vec<String> = told
        .holds
        .iter()
        .map(|held| {
            let mut one = String::from("{");
            task_json::text("workspace", &held.workspace, &mut one);
            task_json::text("id", held.id.as_str(), &mut one);
            task_json::text("fence", &held.fence.to_string(), &mut one);
            task_json::text("status", held.status, &mut one);
            one + "}"
        })
        .collect();
    task_json::raw("holds", format_args!("[{}]", holds.join(",")), &mut line);
    line + "}"
}

fn people(all: &[Told], several: bool, out: &mut Out) -> Result<(), Failure> {
    if all.is_empty() {
        out.talk("no session has left a trace");
    }
    for told in all {
        let label = told.label.as_deref().map_or_else(|| "(unreadable)".into(), escape::text);
        let mut line = format!("{:<7}  {label}", told.liveness.name());
        if let Some(pid) = told.pid {
            line += &format!(", pid {pid}");
        }
        if let Some(version) = &told.version {
            line += &format!(", foldlog {}", escape::text(version));
        }
        if let Some(started) = told.started {
            line += &format!(", since {}", table::local(i128::from(started), true));
        }
        out.line(&format!("{line}, session {:016x}", told.session))?;
        for held in &told.holds {
            let place = if several { format!(" in {}", held.workspace) } else { String::new() };
            let id = escape::text(held.id.as_str());
            out.line(&format!("         holds {id} ({}){place}, fence {}", held.status, held.fence))?;
        }
    }
    Ok(())
}
