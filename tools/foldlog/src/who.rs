//! `foldlog who`: the sessions of a store, which live and which are dead, and what they hold.

use foldlog_requests::Failure;
use foldlog_requests::sessions::{self, Told};

use crate::args::Global;
use crate::escape;
use crate::exit::Exit;
use crate::homes;
use crate::out::Out;
use crate::table;

/// Runs the verb.
pub(crate) fn run(global: &Global, out: &mut Out) -> Result<Exit, Failure> {
    let mut homes = homes::look(global, out)?;
    let told = sessions::told(&homes.store, &homes.all)?;
    if out.json {
        told.iter().try_for_each(|told| out.line(&sessions::session(told)))?;
    } else {
        people(&told, homes.several(), out)?;
    }
    out.flush()?;
    homes::tell_unread(&mut homes, out);
    Ok(homes.exit)
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
