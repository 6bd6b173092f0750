//! `foldlog import`: a history of the older JSON layouts, taken over into one workspace.

use std::ops::ControlFlow;
use std::path::Path;

use foldlog::legacy::{
    Confidence, Found, ImportReport, Outcome, Phase, Source, SourceReport, TaskReport, import,
};
use foldlog::task::TaskStore;
use foldlog::vfs::os::Os;
use foldlog::{ErrorKind, Housekeeping, Options, Place, Tasks};
use foldlog_requests::{Failure, place};
use serde::Serialize;

use crate::args::{Global, Import};
use crate::escape;
use crate::exit::Exit;
use crate::homes;
use crate::interrupt;
use crate::out::Out;
use crate::progress::Progress;
use crate::target;

/// How many lines of one kind people are shown; `--json` has all.
const LINES_MAX: usize = 20;

/// The answer as `--json` prints it.
#[derive(Serialize)]
struct Line<'a> {
    /// What the workspace is bound to, as `stats` has it.
    bound_to: Option<String>,
    source: &'a SourceReport<'a>,
    import: &'a ImportReport,
}

/// Where the tasks are to be at home.
struct Goal {
    store: TaskStore,
    home: Tasks,
    /// A rehearsal for a workspace that is not there yet has an empty one in memory.
    _memory: Option<TaskStore>,
}

/// Runs the verb.
pub(crate) fn run(global: &Global, verb: &Import, out: &mut Out) -> Result<Exit, Failure> {
    interrupt::gently();
    let mut source = Source::find(&Os, &verb.dir)?;
    for file in &verb.state {
        source = source.global_state(file);
    }
    let found = read(&source, &mut out.progress())?;
    let goal = goal(global, &source, verb.dry_run)?;
    let mut progress = out.progress();
    let report = import(&goal.store, &goal.home, &found, verb.dry_run, &mut |done, total| {
        progress.show("taking", done, total);
        go_on()
    })?;
    drop(progress);
    let told = found.report();
    if out.json {
        let bound_to = target::bound_json(Some(goal.home.workspace().log().meta()));
        let line = Line { bound_to, source: &told, import: &report };
        out.line(&serde_json::to_string(&line).unwrap_or_default())?;
    } else {
        people(&goal, &told, &report).iter().try_for_each(|line| out.line(line))?;
    }
    out.flush()?;
    if !verb.dry_run {
        goal.home.workspace().clone().close()?;
    }
    if report.cancelled {
        return Err(interrupted(format!(
            "interrupted: {} of {} tasks were looked at; what was taken over stands",
            report.outcomes.len(),
            report.tasks
        )));
    }
    Ok(verdict(&found, &report))
}

fn go_on() -> ControlFlow<()> {
    if interrupt::asked() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}

fn interrupted(message: String) -> Failure {
    let remedy = "run it again: it goes on, and takes nothing twice".into();
    Failure::Own { code: "interrupted", message, remedy, file: None }
}

fn read(source: &Source, progress: &mut Progress) -> Result<Found, Failure> {
    let read = source.read(&Os, &mut |at| {
        let what = match at.phase {
            Phase::Reading => "reading",
            Phase::Deciding => "deciding",
        };
        progress.show(what, at.done, at.total);
        go_on()
    });
    match read {
        Err(e) if interrupt::asked() && matches!(e.kind(), ErrorKind::Refused(_)) => {
            Err(interrupted("interrupted while reading; nothing was written".into()))
        }
        read => Ok(read?),
    }
}

/// The folder that holds `tasks/`: its tasks share one workspace. A tasks folder of another name stands for itself.
fn place(folder: &Path) -> Result<Place, Failure> {
    let root = match folder.parent() {
        Some(parent) if folder.file_name().is_some_and(|name| name == "tasks") => parent,
        _ => folder,
    };
    root.to_str().map(|root| Place::Path(root.to_owned())).ok_or_else(|| {
        Failure::usage(
            format!("the path {} is not Unicode", root.display()),
            "name a workspace with --workspace key:NAME",
        )
    })
}

fn goal(global: &Global, source: &Source, dry_run: bool) -> Result<Goal, Failure> {
    let of_store = |store: TaskStore, home: Tasks| Goal { store, home, _memory: None };
    if !dry_run {
        let store = homes::open(global, "import", true)?;
        let home = match &global.workspace {
            Some(text) => place::named_or_new(&store, text)?,
            None => store.home(&place(source.folder())?)?,
        };
        return Ok(of_store(store, home));
    }
    // A rehearsal makes nothing: neither the store nor the workspace.
    let options = || Options::default().create(false).read_only(true).housekeeping(Housekeeping::Off);
    let store = match TaskStore::open(target::root(global)?, options()) {
        Err(e) if matches!(e.kind(), ErrorKind::NotFound { .. }) => None,
        store => Some(store?),
    };
    let place = match &global.workspace {
        Some(text) => {
            let named = store.as_ref().map(|store| place::find(store.store(), text));
            if let (Some(store), Some(Ok(name))) = (&store, named) {
                return Ok(of_store(store.clone(), store.named(&name)?));
            }
            place::place(text)?
        }
        None => place(source.folder())?,
    };
    if let Some(store) = &store
        && let Some(name) = store.store().find_workspace(&place)?
    {
        return Ok(of_store(store.clone(), store.named(&name)?));
    }
    let memory = TaskStore::memory(Options::default().housekeeping(Housekeeping::Off))?;
    let home = memory.home(&place)?;
    Ok(Goal { store: store.unwrap_or_else(|| memory.clone()), home, _memory: Some(memory) })
}

/// 1 if anything is not as it should be: it was taken over all the same, but for what was set aside or failed.
fn verdict(found: &Found, report: &ImportReport) -> Exit {
    let fine =
        found.complete && found.set_aside.is_empty() && found.findings.is_empty() && report.failed == 0;
    if fine { Exit::Fine } else { Exit::Findings }
}

/// What a name is in JSON.
fn name(value: &impl Serialize) -> String {
    serde_json::to_value(value).ok().and_then(|value| Some(value.as_str()?.to_owned())).unwrap_or_default()
}

fn people(goal: &Goal, source: &SourceReport<'_>, report: &ImportReport) -> Vec<String> {
    let counts: Vec<String> = [
        (report.created, "created"),
        (report.updated, "updated"),
        (report.unchanged, "unchanged"),
        (report.own, "made here, not touched"),
        (report.deleted, "deleted here, left so"),
        (report.elsewhere, "at home in another workspace, left there"),
        (report.unread, "left as they are, because something could not be read"),
        (report.failed, "FAILED"),
    ]
    .iter()
    .filter(|(count, _)| *count > 0)
    .map(|(count, what)| format!("{count} {what}"))
    .collect();
    let mut lines = vec![
        format!("{} task(s) in {}", report.tasks, escape::text(&source.tasks_folder)),
        format!(
            "  {} {} ({})",
            if report.dry_run { "would go into " } else { "into          " },
            report.workspace,
            escape::text(&target::bound_to(Some(goal.home.workspace().log().meta())))
        ),
        format!(
            "  {} {}",
            if report.dry_run { "would be      " } else { "outcome       " },
            if counts.is_empty() { "nothing to do".into() } else { counts.join(", ") }
        ),
    ];
    if !report.dry_run {
        lines.push(format!(
            "  log            {} event(s) appended, {} task(s) read back and the same",
            report.events, report.verified
        ));
    }
    if !source.complete {
        lines.push("  NOT ALL could be read: what is missing here may be there".into());
    }
    let taken = |wanted: fn(&foldlog::legacy::Taken) -> Option<String>| -> Vec<String> {
        report.outcomes.iter().filter_map(wanted).collect()
    };
    list(
        &mut lines,
        "failed",
        taken(|taken| {
            let why = taken.detail.as_deref().unwrap_or("");
            (taken.outcome == Outcome::Failed).then(|| format!("{}: {why}", taken.id))
        }),
    );
    list(
        &mut lines,
        "in another workspace",
        taken(|taken| {
            let other = taken.detail.as_deref().unwrap_or("");
            (taken.outcome == Outcome::Elsewhere).then(|| format!("{}: {other}", taken.id))
        }),
    );
    list(
        &mut lines,
        "changed on both sides, this side's value stands",
        taken(|taken| (!taken.kept.is_empty()).then(|| format!("{}: {}", taken.id, taken.kept.join(", ")))),
    );
    let aside = source.set_aside.iter();
    let aside = aside.map(|aside| format!("{} in {}: {}", aside.id, aside.source, aside.why));
    list(&mut lines, "set aside, not taken over", aside.collect());
    let findings = source.findings.iter().map(|finding| {
        let detail = if finding.detail.is_empty() { String::new() } else { format!(" ({})", finding.detail) };
        format!("{}: {}{detail}", finding.source, name(&finding.what))
    });
    list(&mut lines, "found", findings.collect());
    list(
        &mut lines,
        "records that differ; chosen, and why",
        source.tasks.iter().filter_map(chosen).collect(),
    );
    let debris = source.debris.iter().map(|debris| format!("{}: {}", debris.name, name(&debris.kind)));
    list(&mut lines, "belongs to no task", debris.collect());
    if source.totals.dangling_children > 0 {
        lines.push(format!(
            "  {} child(ren) that tasks name are not in the folder; that is normal for deleted ones",
            source.totals.dangling_children
        ));
    }
    lines
}

/// Why a task's record is what it is, where that needed a decision.
fn chosen(task: &TaskReport<'_>) -> Option<String> {
    if task.fields.is_empty() && task.kept.is_empty() {
        return None;
    }
    let mut text = format!("{}: {} ({})", task.id, task.base, name(&task.why));
    for field in &task.fields {
        text += &match field.from {
            Some(from) => format!("; {} from {from} ({})", field.field, name(&field.why)),
            None => format!("; without {} ({})", field.field, name(&field.why)),
        };
    }
    if task.confidence != Confidence::High {
        text += &format!("; confidence {}", name(&task.confidence));
    }
    if !task.kept.is_empty() {
        text += &format!("; kept beside it: {}", task.kept.join(", "));
    }
    Some(text)
}

fn list(lines: &mut Vec<String>, head: &str, entries: Vec<String>) {
    if entries.is_empty() {
        return;
    }
    lines.push(format!("  {head}: {}", entries.len()));
    lines.extend(entries.iter().take(LINES_MAX).map(|entry| format!("    {}", escape::text(entry))));
    if entries.len() > LINES_MAX {
        lines.push(format!("    {} more; --json has all", entries.len() - LINES_MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn home_is_the_folder_that_holds_tasks() {
        assert_eq!(place(Path::new("/a/b/tasks")).unwrap(), Place::Path("/a/b".into()));
        assert_eq!(place(Path::new("/a/b")).unwrap(), Place::Path("/a/b".into()));
    }

    #[test]
    fn long_lists_say_how_much_they_leave_out() {
        let mut lines = Vec::new();
        list(&mut lines, "found", (0..23).map(|n| format!("{n}\x1b")).collect());
        assert_eq!((lines.len(), &*lines[0]), (22, "  found: 23"));
        assert_eq!((&*lines[1], &*lines[21]), ("    0\\u{1b}", "    3 more; --json has all"));
        list(&mut lines, "nothing", Vec::new());
        assert_eq!(lines.len(), 22);
    }
}
