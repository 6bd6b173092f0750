//! `foldlog compact`: old segments are written anew, without what later events have overwritten.

use std::ops::ControlFlow;

use foldlog::log::CompactReport;
use foldlog_requests::{Failure, compact};

use crate::args::Global;
use crate::exit::Exit;
use crate::homes;
use crate::interrupt;
use crate::out::Out;

/// Runs the verb, for the workspaces that `--workspace` names, else for all.
pub(crate) fn run(global: &Global, out: &mut Out) -> Result<Exit, Failure> {
    let mut homes = homes::look(global, out)?;
    let names: Vec<String> = homes.all.iter().map(|home| home.workspace().name().to_owned()).collect();
    homes.all.clear();
    let store = homes::open(global, "compact", false)?;
    interrupt::gently();
    for name in &names {
        let home = store.named(name)?;
        let mut progress = out.progress();
        let report = home.workspace().compact(&mut |done, total| {
            progress.show("bytes", done, total);
            if interrupt::asked() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        drop(progress);
        match report {
            Ok(report) => print(name, report.as_ref(), out)?,
            Err(_) if interrupt::asked() => {
                out.talk("interrupted; what was done stands, and the rest is as it was");
                return Ok(Exit::Interrupted);
            }
            Err(error) => {
                let failure = Failure::Library(error);
                homes.exit = homes.exit.worse(Exit::of(&failure));
                out.error(&failure);
            }
        }
        home.workspace().clone().close()?;
    }
    homes::tell_unread(&mut homes, out);
    Ok(homes.exit)
}

fn print(workspace: &str, report: Option<&CompactReport>, out: &mut Out) -> Result<(), Failure> {
    if out.json {
        return out.line(&compact::report(workspace, report));
    }
    let Some(CompactReport { segments, bytes_before, bytes_after, dropped, horizon, .. }) = report else {
        return out.line(&format!("{workspace}: nothing to gain"));
    };
    out.line(&format!(
        "{workspace}: {segments} segments of {bytes_before} bytes are one of {bytes_after}; {dropped} events that later ones overwrite are gone, all of them up to event {horizon}"
    ))
}
