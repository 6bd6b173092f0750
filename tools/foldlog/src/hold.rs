//! `foldlog attach`: holds a task as long as a command runs, or until stdin ends.

use std::io::Read as _;
use std::process::Command;
use std::sync::mpsc;
use std::time::Duration;

use foldlog::event::Fence;
use foldlog::task::{CommitOptions, Op};
use foldlog::{ErrorKind, TaskId, Tasks};
use foldlog_requests::{Failure, receipt};

use crate::args::Global;
use crate::exit::Exit;
use crate::interrupt;
use crate::out::Out;
use crate::target;
use crate::task_args::Attach;
use crate::write;

/// How long after a Ctrl-C the task is given back at the latest.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Runs the verb.
pub(crate) fn run(global: &Global, verb: &Attach, out: &mut Out) -> Result<Exit, Failure> {
    let id = TaskId::new(&verb.id)?;
    let (home, done) =
        write::commit(global, "attach", Op::Attach { id: id.clone() }, CommitOptions::default())?;
    let fence = done.fence(&id).ok_or_else(|| Failure::Own {
        code: "refused",
        message: format!("the commit gave no fence for {id}"),
        remedy: "try again".into(),
        file: None,
    })?;
    interrupt::gently();
    out.line(&if out.json { receipt::committed(&done) } else { format!("{id}: held by the fence {fence}") })?;
    out.flush()?;
    let ended = match verb.command.split_first() {
        Some((program, words)) => {
            let mut command = Command::new(program);
            command
                .args(words)
                .env("FOLDLOG_STORE", target::root(global)?)
                .env("FOLDLOG_TASK", id.as_str())
                .env("FOLDLOG_FENCE", fence.to_string());
            // It gets the same Ctrl-C, and says how it ends.
            command.status().map(Exit::of_command).map_err(|e| Failure::io("run", program.as_ref(), &e))
        }
        None => {
            out.talk("until stdin ends, or Ctrl-C");
            Ok(wait())
        }
    };
    let back = give_back(&home, &id, fence);
    home.workspace().clone().close()?;
    match (ended, back) {
        (Err(failure), _) | (Ok(_), Err(failure)) => Err(failure),
        (Ok(exit), Ok(())) => Ok(exit),
    }
}

/// Waits until stdin ends.
fn wait() -> Exit {
    let (ended, end) = mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = [0; 4096];
        while std::io::stdin().read(&mut bytes).is_ok_and(|n| n > 0) {}
        // Nobody waits any more after a Ctrl-C.
        let _ = ended.send(());
    });
    loop {
        match end.recv_timeout(LOOK_EVERY) {
            Err(mpsc::RecvTimeoutError::Timeout) if interrupt::asked() => return Exit::Interrupted,
            Err(mpsc::RecvTimeoutError::Timeout) => {}
            Ok(()) | Err(mpsc::RecvTimeoutError::Disconnected) => return Exit::Fine,
        }
    }
}

fn give_back(home: &Tasks, id: &TaskId, fence: Fence) -> Result<(), Failure> {
    match home.detach(id, fence, CommitOptions::default()) {
        Ok(_) => Ok(()),
        // What is gone need not be given back.
        Err(e) if matches!(e.kind(), ErrorKind::TaskDeleted { .. }) => Ok(()),
        Err(e) => Err(e.into()),
    }
}
