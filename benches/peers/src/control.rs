//! The side that starts workers and listens to them.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::Result;
use crate::disk::Trace;
use crate::job::{Answer, Job, Role};
use crate::peer::Contender;
use crate::sys::now;

/// From GO to the start: long enough for every worker to have read it.
const LEAD_NS: u64 = 5_000_000;

/// A running worker; killed when dropped.
pub struct Worker {
    child: Child,
    said: BufReader<ChildStdout>,
    ears: ChildStdin,
}

impl Worker {
    pub fn start(job: &Job, trace: Option<&Trace>) -> Result<Self> {
        let program = std::env::current_exe()?;
        let mut command = trace.map_or_else(|| Command::new(&program), |trace| trace.command(&program));
        command.arg("--worker").arg(serde_json::to_string(job)?).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let (said, ears) = (child.stdout.take(), child.stdin.take());
        let (said, ears) = (BufReader::new(said.ok_or("no pipe")?), ears.ok_or("no pipe")?);
        Ok(Worker { child, said, ears })
    }

    /// The rest of its next line, which must begin so.
    pub fn hear(&mut self, begin: &str) -> Result<String> {
        let mut line = String::new();
        self.said.read_line(&mut line)?;
        match line.trim_end().strip_prefix(begin) {
            Some(rest) => Ok(rest.trim_start().to_owned()),
            // Its own last words are on the error output.
            None if line.is_empty() => Err("a worker died".into()),
            None => Err(format!("a worker said {line:?} instead of {begin}").into()),
        }
    }

    pub fn tell(&mut self, line: &str) -> Result<()> {
        Ok(writeln!(self.ears, "{line}")?)
    }

    /// Its answer, when it has ended.
    pub fn answer(&mut self) -> Result<Answer> {
        let answer = serde_json::from_str(&self.hear("ANSWER")?)?;
        let status = self.child.wait()?;
        if status.success() { Ok(answer) } else { Err(format!("a worker ended with {status}").into()) }
    }

    /// Kills it with SIGKILL: the time before, and when it was known to be dead.
    pub fn kill(&mut self) -> Result<(u64, u64)> {
        let before = now();
        self.child.kill()?;
        self.child.wait()?;
        Ok((before, now()))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // Fails where it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// When workers that are READY begin; told to all of them.
pub fn go(workers: &mut [Worker]) -> Result<u64> {
    let at = now() + LEAD_NS;
    workers.iter_mut().try_for_each(|worker| worker.tell(&format!("GO {at}")))?;
    Ok(at)
}

/// A job without bounds.
pub fn job(contender: &Contender, dir: &Path, role: Role, worker: usize) -> Job {
    Job {
        role,
        peer: contender.name.into(),
        level: contender.level,
        dir: dir.into(),
        worker,
        seconds: 0.0,
        commits: 0,
        batch: 1,
    }
}

/// Makes a store in a folder, with room for so many steps.
pub fn create(contender: &Contender, dir: &Path, room: u64) -> Result<()> {
    let job = Job { commits: room, ..job(contender, dir, Role::Create, 0) };
    Worker::start(&job, None)?.answer().map(drop)
}

/// What a fresh process finds in it.
pub fn count(contender: &Contender, dir: &Path) -> Result<u64> {
    Ok(Worker::start(&job(contender, dir, Role::Count, 0), None)?.answer()?.found)
}
