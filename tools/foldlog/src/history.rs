//! `foldlog history`: a task's changes, oldest first.

use foldlog::event::{Cause, Event, kinds};
use foldlog::view::{Change, FieldChange};
use foldlog::{TaskId, Tasks, Value};
use foldlog_requests::Failure;
use foldlog_requests::history;

use crate::args::Global;
use crate::escape;
use crate::exit::Exit;
use crate::homes;
use crate::out::Out;
use crate::show::{absent, shown};
use crate::table;
use crate::task_args::History;

/// Runs the verb.
pub(crate) fn run(global: &Global, verb: &History, out: &mut Out) -> Result<Exit, Failure> {
    let id = TaskId::new(&verb.id)?;
    let mut homes = homes::look(global, out)?;
    let mut found = Vec::new();
    for home in &homes.all {
        if home.read(|_, index| index.entry(id.as_str()).is_some())? {
            found.push(home.clone());
        }
    }
    if found.is_empty() {
        let absent = absent(&homes, &id)?;
        return Err(homes.nowhere(absent));
    }
    for home in &found {
        if found.len() > 1 && !out.json {
            out.line(&format!("workspace {}", home.workspace().name()))?;
        }
        let changes = home.history(&id)?;
        // Behind that: what is compacted meanwhile may have been read either way.
        let horizon = home.workspace().log().horizon()?;
        if changes.first().is_some_and(|first| first.seq <= horizon) {
            out.talk(&format!("up to event {horizon} changes that later ones have overwritten may be gone"));
        }
        for change in changes {
            if out.json {
                out.line(&history::change(home, &change)?)?;
            } else {
                people(home, &change, verb.full)?.iter().try_for_each(|line| out.line(line))?;
            }
        }
    }
    out.flush()?;
    if found.len() > 1 {
        out.talk(&format!("the id is in {} workspaces", found.len()));
        homes.exit = homes.exit.worse(Exit::Findings);
    }
    homes::tell_unread(&mut homes, out);
    Ok(homes.exit)
}

/// A kind's name, or its number where this release has no name for it.
fn kind(change: &Change) -> String {
    kinds::name(change.kind).map_or_else(|| format!("kind {}", change.kind), str::to_owned)
}

/// What an event says that shows in no field.
fn beside_fields(change: &Change) -> String {
    match &change.event {
        Some(Event::StatusChanged { cause, .. }) if *cause != Cause::Set => format!(" ({})", cause.name()),
        Some(Event::Attached(fence)) => format!(" (by the fence {fence})"),
        Some(Event::Detached { fence }) => format!(" (fence {fence})"),
        Some(Event::Abandoned { session: 0, fence, .. }) => format!(" (fence {fence})"),
        Some(Event::Abandoned { session, fence, .. }) => {
            format!(" (held by session {session:016x}, fence {fence})")
        }
        _ => String::new(),
    }
}

fn people(home: &Tasks, change: &Change, full: bool) -> Result<Vec<String>, Failure> {
    let revision = match change.revision.0 {
        0 => String::new(),
        n => format!("  revision {n}"),
    };
    let mut lines = vec![format!(
        "{}  event {}{revision}  {}",
        table::local(i128::from(change.time), true),
        change.seq,
        kind(change) + &beside_fields(change)
    )];
    let writer = home.read(|_, index| index.writer(change.session).cloned())?;
    let who = writer
        .map(|w| format!("{} (pid {}, foldlog {})", escape::text(&w.label), w.pid, escape::text(&w.version)));
    lines.push(match (who, change.session) {
        (_, 0) => "  by nobody who said so".into(),
        (Some(who), session) => format!("  by {who}, session {session:016x}"),
        (None, session) => format!("  by session {session:016x}"),
    });
    if let Some(op_id) = change.op_id {
        lines.push(format!("  as request {op_id}"));
    }
    for FieldChange { field, from, to } in &change.fields {
        let text = |value: &Option<Value>| -> Result<String, Failure> {
            match value {
                Some(value) if full => Ok(shown(&home.value(value)?, true)),
                Some(value) => Ok(shown(value, false)),
                None => Ok("(absent)".into()),
            }
        };
        // Of a new task, and of one that goes, only one side has anything to say.
        lines.push(match (from, to) {
            (None, Some(_)) => format!("  {}: {}", escape::text(field.name()), text(to)?),
            _ => format!("  {}: {} → {}", escape::text(field.name()), text(from)?, text(to)?),
        });
    }
    Ok(lines)
}
