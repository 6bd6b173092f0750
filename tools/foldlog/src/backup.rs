//! `foldlog backup` and `foldlog restore`: a verified copy of a store that others write, and a store of such a copy.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use foldlog::{CopyOptions, CopyReport, ErrorKind, Housekeeping, Link, Options, TaskStore, WorkspaceCopy};
use foldlog_requests::{Failure, backup as json, place};

use crate::args::{Backup, Copied, Global, Restore};
use crate::exit::Exit;
use crate::interrupt;
use crate::out::Out;

/// Runs `backup`.
pub(crate) fn back_up(global: &Global, verb: &Backup, out: &mut Out) -> Result<Exit, Failure> {
    let link = if verb.copy { Link::Never } else { Link::Auto };
    let reader = open(&verb.dir)?;
    let options = options(global, &reader, &verb.what, out)?.link(link);
    let mut report = ended(reader.backup(&verb.target, &options))?;
    drop(options);
    if !verb.no_note {
        note(&verb.dir, &mut report, out);
    }
    told("backed up", &report, out)
}

/// Runs `restore`.
pub(crate) fn restore(global: &Global, verb: &Restore, out: &mut Out) -> Result<Exit, Failure> {
    let backup = open(&verb.backup)?;
    let options = options(global, &backup, &verb.what, out)?;
    let report = ended(backup.restore_to(&verb.target, &options))?;
    drop(options);
    told("restored", &report, out)
}

/// Reads only, so that a store is copied whatever state its disk is in.
fn open(dir: &Path) -> Result<TaskStore, Failure> {
    Ok(TaskStore::open(dir, Options::default().read_only(true).create(false))?)
}

fn options(global: &Global, store: &TaskStore, what: &Copied, out: &Out) -> Result<CopyOptions, Failure> {
    interrupt::gently();
    let cancel = Arc::new(AtomicBool::new(false));
    let (set, progress) = (Arc::clone(&cancel), Mutex::new(out.progress()));
    let options = CopyOptions::default()
        .quarantine(!what.no_quarantine)
        .as_it_is(what.as_it_is)
        .cancel(cancel)
        .on_progress(move |at| {
            if interrupt::asked() {
                set.store(true, Ordering::Release);
            }
            if let Ok(mut progress) = progress.lock() {
                progress.show(at.phase.name(), at.done, at.total);
            }
        });
    match &global.workspace {
        Some(text) => Ok(options.workspace(place::find(store.store(), text)?)),
        None => Ok(options),
    }
}

fn ended(copied: foldlog::Result<CopyReport>) -> Result<CopyReport, Failure> {
    match copied {
        Err(e) if matches!(e.kind(), ErrorKind::Cancelled) => Err(Failure::Own {
            code: "interrupted",
            message: "interrupted; what had been made was removed".into(),
            remedy: "run it again".into(),
            file: None,
        }),
        copied => Ok(copied?),
    }
}

/// Has the store note where the backup is. A store that cannot be written has been backed up all the same.
fn note(dir: &Path, report: &mut CopyReport, out: &mut Out) {
    let options = Options::default().create(false).label("foldlog backup").housekeeping(Housekeeping::Off);
    match TaskStore::open(dir, options) {
        Ok(store) => store.record_backup(report),
        Err(e) => out.talk(&format!("the store does not note the backup: {e}")),
    }
    for copy in &report.workspaces {
        if let Some(Err(e)) = &copy.recorded {
            out.talk(&format!("{}: the store does not note the backup: {e}", copy.name));
        }
    }
}

fn told(done: &str, report: &CopyReport, out: &mut Out) -> Result<Exit, Failure> {
    if out.json {
        out.line(&json::report(report))?;
    } else {
        for copy in &report.workspaces {
            copy.findings.iter().for_each(|finding| out.tell(finding));
            out.line(&line(copy))?;
        }
        let dead = match report.dead_sessions {
            0 => String::new(),
            n => format!("; {n} session(s) of the old store that held something are dead here"),
        };
        out.line(&format!("{done} to {} in {} ms{dead}", report.target.display(), report.took.as_millis()))?;
    }
    Ok(if report.is_whole() { Exit::of_severity(report.worst()) } else { Exit::Damaged })
}

fn line(copy: &WorkspaceCopy) -> String {
    let noted = match &copy.recorded {
        Some(Ok(seq)) => format!("; noted as event {seq}"),
        _ => String::new(),
    };
    format!(
        "{}: {} to event {}, {} segment(s), {} blob(s): {} file(s) linked ({} bytes), {} copied ({} bytes); state {}{noted}",
        copy.name,
        if copy.whole { "whole" } else { "DAMAGED" },
        copy.seq(),
        copy.segments,
        copy.blobs,
        copy.linked.files,
        copy.linked.bytes,
        copy.copied.files,
        copy.copied.bytes,
        copy.log_hash.to_hex(),
    )
}
