//! `foldlog history`: a task's changes, oldest first.

use foldlog::event::{Cause, Event, kinds};
use foldlog::view::{Change, FieldChange};
use foldlog::{TaskId, Tasks, Value};

use crate::args::Global;
use crate::escape;
use crate::event_json::rfc3339;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::homes;
use crate::out::Out;
use crate::show::{absent, shown};
use crate::table;
use crate::task_args::History;
use crate::task_json;

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
        for change in home.history(&id)? {
            if out.json {
                out.line(&json(home, &change)?)?;
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

/// `{"seq","time","workspace","session","writer","op_id","kind","revision","live","changes":[{"field","from","to"}]}`;
/// `from` or `to` is left out where the field was, or is, absent.
pub(crate) fn json(home: &Tasks, change: &Change) -> Result<String, Failure> {
    let mut line = String::from("{");
    task_json::raw("seq", change.seq, &mut line);
    task_json::text("time", &rfc3339(change.time), &mut line);
    task_json::text("workspace", home.workspace().name(), &mut line);
    match change.session {
        0 => task_json::raw("session", "null", &mut line),
        session => task_json::text("session", &format!("{session:016x}"), &mut line),
    }
    match home.read(|_, index| index.writer(change.session).cloned())? {
        Some(writer) => {
            let mut who = String::from("{");
            task_json::text("label", &writer.label, &mut who);
            task_json::raw("pid", writer.pid, &mut who);
            task_json::text("version", &writer.version, &mut who);
            task_json::raw("writer", who + "}", &mut line);
        }
        None => task_json::raw("writer", "null", &mut line),
    }
    match change.op_id {
        Some(op_id) => task_json::text("op_id", &op_id.to_string(), &mut line),
        None => task_json::raw("op_id", "null", &mut line),
    }
    match kinds::name(change.kind) {
        Some(name) => task_json::text("kind", name, &mut line),
        None => task_json::raw("kind", change.kind, &mut line),
    }
    task_json::raw("revision", change.revision, &mut line);
    task_json::raw("live", change.live, &mut line);
    let mut changes = Vec::with_capacity(change.fields.len());
    for FieldChange { field, from, to } in &change.fields {
        let mut one = String::from("{");
        task_json::text("field", field.name(), &mut one);
        for (name, value) in [("from", from), ("to", to)] {
            if let Some(value) = value {
                task_json::value(name, &home.value(value)?, &mut one);
            }
        }
        changes.push(one + "}");
    }
    task_json::raw("changes", format_args!("[{}]", changes.join(",")), &mut line);
    Ok(line + "}")
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
