//! `foldlog show`: all of one task.

use foldlog::task::Snapshot;
use foldlog::{ErrorKind, TaskId, Tasks, Value, store};
use foldlog_requests::{Failure, task};

use crate::args::Global;
use crate::escape;
use crate::exit::Exit;
use crate::homes::{self, Homes};
use crate::out::Out;
use crate::task_args::Show;

/// Runs the verb.
pub(crate) fn run(global: &Global, verb: &Show, out: &mut Out) -> Result<Exit, Failure> {
    let mut homes = homes::look(global, out)?;
    let mut found = Vec::new();
    for home in &homes.all {
        if let Some(snapshot) = home.get(&verb.id)? {
            found.push((home.clone(), snapshot));
        }
    }
    if found.is_empty() {
        let absent = absent(&homes, &TaskId::new(&verb.id)?)?;
        return Err(homes.nowhere(absent));
    }
    for (at, (home, snapshot)) in found.iter().enumerate() {
        if out.json {
            out.line(&task::task(snapshot, home.workspace().name(), None))?;
            continue;
        }
        if at > 0 {
            out.line("")?;
        }
        people(home, snapshot, verb.full).iter().try_for_each(|line| out.line(line))?;
    }
    out.flush()?;
    if found.len() > 1 {
        out.talk(&format!(
            "the id is in {} workspaces; name one with --workspace to change its task",
            found.len()
        ));
        homes.exit = homes.exit.worse(Exit::Findings);
    }
    homes::tell_unread(&mut homes, out);
    Ok(homes.exit)
}

/// Why no workspace has a task: it was deleted, or never was.
pub(crate) fn absent(homes: &Homes, id: &TaskId) -> Result<foldlog::Error, Failure> {
    let mut answer = None;
    for home in &homes.all {
        match home.require(id) {
            Err(error) if matches!(error.kind(), ErrorKind::TaskDeleted { .. }) => return Ok(error),
            Err(error) => answer = Some(error),
            Ok(_) => {}
        }
    }
    answer.ok_or_else(|| {
        Failure::not_found(
            "the store has no workspace yet",
            "create a task, or check which store is meant with --store",
        )
    })
}

fn people(home: &Tasks, found: &Snapshot, full: bool) -> Vec<String> {
    let workspace = home.workspace();
    let bound: Vec<String> =
        workspace.log().meta().bindings.iter().map(|bound| escape::text(&store::show(bound))).collect();
    let mut lines = vec![
        format!("task {}", escape::text(found.task.id.as_str())),
        format!("  workspace  {} ({})", workspace.name(), bound.join(", ")),
        format!("  revision   {}, event {}, token {}", found.token.revision, found.token.at.seq, found.token),
    ];
    if let Some(fence) = found.task.owner() {
        lines.push(format!("  held by    session {:016x}, fence {fence}; see `foldlog who`", fence.session));
    }
    let name = |field: &foldlog::Field| escape::text(field.name());
    let fields = found.task.item.fields();
    let wide = fields.iter().map(|(field, _)| name(field).chars().count()).max().unwrap_or(0);
    // One name that is very long does not push all the values out of sight.
    let wide = wide.min(32);
    lines.extend(
        fields.iter().map(|(field, value)| format!("  {:wide$}  {}", name(field), shown(value, full))),
    );
    lines
}

/// A value for people: its JSON text, shortened unless `full`.
pub(crate) fn shown(value: &Value, full: bool) -> String {
    match value {
        Value::Blob { len, .. } => format!("({len} bytes)"),
        value => {
            let json = value.to_json();
            let bytes = json.len() as u64;
            escape::short(escape::json(&json), bytes, full)
        }
    }
}
