//! `foldlog repair --orphans`: delegations that nobody alive will bring to an end.

use foldlog::log::Durability;
use foldlog::task::{Fault, Orphan};
use foldlog::{TaskStore, Tasks};
use foldlog_requests::Failure;
use foldlog_requests::orphans;
use foldlog_requests::orphans::owner;

use crate::args::Global;
use crate::escape;
use crate::exit::Exit;
use crate::homes;
use crate::out::Out;

/// Runs the verb, for the workspaces that `--workspace` names, else for all.
pub(crate) fn run(global: &Global, apply: bool, out: &mut Out) -> Result<Exit, Failure> {
    let mut homes = homes::look(global, out)?;
    let mut plan: Vec<(Tasks, Vec<Orphan>)> = Vec::new();
    for home in &homes.all {
        plan.push((home.clone(), home.orphans()?));
    }
    let unknown = |orphan: &Orphan| !orphan.dead && orphan.owner.is_some();
    let (mut left, mut to_do) = (0, 0);
    let mut writing: Option<TaskStore> = None;
    for (home, orphans) in &plan {
        let name = home.workspace().name();
        if apply && orphans.iter().any(|orphan| !unknown(orphan)) {
            let store = match &writing {
                Some(store) => store.clone(),
                None => writing.insert(homes::open(global, "repair", false)?).clone(),
            };
            // Opening it has mended what the dead have left; this does the rest.
            let home = store.named(name)?;
            let _ = home.mend_orphans(true, Durability::Durable)?;
            let still = home.orphans()?;
            home.workspace().clone().close()?;
            for orphan in orphans {
                let mended = !still.iter().any(|other| other.parent == orphan.parent);
                print(name, orphan, mended, out)?;
                left += usize::from(!mended);
            }
        } else {
            for orphan in orphans {
                print(name, orphan, false, out)?;
                if unknown(orphan) { left += 1 } else { to_do += 1 }
            }
        }
    }
    out.flush()?;
    if plan.iter().all(|(_, orphans)| orphans.is_empty()) && !out.json {
        out.line("no delegation is left without an end")?;
    }
    if to_do > 0 {
        out.talk("nothing was changed; to do it: foldlog repair --orphans --apply");
    }
    if left > 0 {
        out.talk("of a session whose files are gone nobody knows whether it lives; if it does not: foldlog abandon CHILD");
    }
    homes::tell_unread(&mut homes, out);
    Ok(homes.exit.worse(if left + to_do > 0 { Exit::Findings } else { Exit::Fine }))
}

fn print(workspace: &str, orphan: &Orphan, mended: bool, out: &mut Out) -> Result<(), Failure> {
    if out.json {
        return out.line(&orphans::orphan(workspace, orphan, mended));
    }
    let parent = escape::text(orphan.parent.as_str());
    let child = orphan.fault.child().map(|child| escape::text(child.as_str())).unwrap_or_default();
    let what = match &orphan.fault {
        Fault::NobodyAwaited => "waits for nobody".to_owned(),
        Fault::ChildMissing(_) => format!("waits for {child}, which is not there"),
        Fault::ChildDone(_) => format!("waits for {child}, which is completed"),
        Fault::ChildOrphaned(_) => match owner(orphan) {
            "unowned" => format!("waits for {child}, which is active and which nobody runs"),
            "dead" => format!("waits for {child}, whose session is dead"),
            _ => format!("waits for {child}, whose session has left no trace"),
        },
    };
    let done = if mended { "mended: " } else { "" };
    out.line(&format!("{done}{workspace}: {parent} {what}"))
}
