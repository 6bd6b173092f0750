//! `foldlog purge`: says what would be removed for good, and with `--apply` removes it.

use std::ops::ControlFlow;
use std::path::Path;

use foldlog::task::PurgeReceipt;
use foldlog::{TaskId, Tasks};
use foldlog_requests::{Failure, purge};

use crate::args::{Global, Purge};
use crate::escape;
use crate::exit::Exit;
use crate::homes;
use crate::interrupt;
use crate::out::Out;

/// Runs the verb.
pub(crate) fn run(global: &Global, verb: &Purge, out: &mut Out) -> Result<Exit, Failure> {
    let ids: Vec<TaskId> = verb.ids.iter().map(|id| TaskId::new(id)).collect::<Result<_, _>>()?;
    let looked = homes::look(global, out)?;
    let mut home = None;
    for id in &ids {
        let mine = looked.store.known_home_of(id)?;
        match &home {
            None => home = Some(mine),
            Some(first) if first.workspace().name() == mine.workspace().name() => {}
            Some(_) => {
                let message = "the tasks named are not of one workspace".into();
                let remedy = "purge those of each workspace by themselves".into();
                return Err(Failure::Own { code: "cross-workspace", message, remedy, file: None });
            }
        }
    }
    let Some(home) = home else { return Ok(Exit::Fine) };
    let plan = home.plan_purge(&ids, verb.cascade).map_err(name_cascade)?;
    let name = home.workspace().name().to_owned();
    if !verb.apply {
        print(&name, &plan, false, out)?;
        out.talk("nothing was changed; give --apply to do it. It cannot be undone.");
        return Ok(Exit::Findings);
    }
    drop((home, looked));
    let store = homes::open(global, "purge", false)?;
    let home = store.named(&name)?;
    interrupt::gently();
    let mut progress = out.progress();
    let done = home.purge(&ids, verb.cascade, &mut |done, total| {
        progress.show("bytes", done, total);
        if interrupt::asked() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    drop(progress);
    match done {
        Ok(receipt) => {
            print(&name, &receipt, true, out)?;
            close(&home)?;
            if receipt.is_complete() {
                return Ok(Exit::Fine);
            }
            out.talk(
                "say the same again once they have let go of these files: they still hold what was purged",
            );
            Ok(Exit::Busy)
        }
        Err(_) if interrupt::asked() => {
            out.talk("interrupted: the tasks are deleted, and files may still hold them; say the same again");
            Ok(Exit::Interrupted)
        }
        Err(error) => Err(name_cascade(error)),
    }
}

fn close(home: &Tasks) -> Result<(), Failure> {
    Ok(home.workspace().clone().close()?)
}

/// The library does not know what this program calls it.
fn name_cascade(error: foldlog::Error) -> Failure {
    match error.code() {
        "refused" => Failure::Own {
            code: "refused",
            message: error.to_string(),
            remedy: "where it is for its children, give --cascade to purge all below it too".into(),
            file: None,
        },
        _ => Failure::Library(error),
    }
}

fn print(workspace: &str, receipt: &PurgeReceipt, done: bool, out: &mut Out) -> Result<(), Failure> {
    if out.json {
        return out.line(&purge::receipt(workspace, receipt));
    }
    let ids: Vec<String> = receipt.tasks.iter().map(|id| escape::text(id.as_str())).collect();
    out.line(&format!("{workspace}: {} {}", if done { "purged" } else { "to be purged:" }, ids.join(", ")))?;
    if done {
        let PurgeReceipt { segments, events, blobs, snapshots, .. } = receipt;
        out.line(&format!(
            "  {events} events of {segments} segments, {} blobs and {} snapshots are gone",
            blobs.len(),
            snapshots.len()
        ))?;
    }
    let shown = |path: &Path| escape::text(&path.display().to_string());
    let what = if done {
        "removed, since it may have held them"
    } else {
        "to be removed whole, since it may hold them"
    };
    receipt.quarantine.iter().try_for_each(|path| out.line(&format!("  {what}: {}", shown(path))))?;
    receipt.pending.iter().try_for_each(|file| {
        out.line(&format!("  still there: {}, in use by {}", shown(&file.path), escape::text(&file.holder)))
    })?;
    receipt.backups.iter().try_for_each(|backup| {
        out.line(&format!("  not touched: the backup in {}", escape::text(&backup.target)))
    })
}
