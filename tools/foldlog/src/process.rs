//! This very program, started again: as a worker that is talked to, or to its end.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use foldlog::vfs::Vfs as _;
use foldlog::vfs::os::Os;

/// How long anything is waited for before it counts as not happening.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

fn command() -> Result<Command, String> {
    std::env::current_exe().map(Command::new).map_err(|e| format!("find this program: {e}"))
}

/// What a process that has ended leaves.
#[derive(Debug)]
pub(crate) struct Ended {
    /// Its exit code; -1 if it has none.
    pub(crate) code: i32,
    /// What it printed.
    pub(crate) out: String,
    /// What it said on stderr.
    pub(crate) err: String,
}

/// Runs this program to its end. `columns` is how wide a terminal it is to think of.
///
/// # Errors
/// If it cannot be started.
pub(crate) fn run<S: AsRef<OsStr>>(
    words: impl IntoIterator<Item = S>,
    columns: Option<usize>,
) -> Result<Ended, String> {
    let mut command = command()?;
    command.args(words).stdin(Stdio::null()).env_remove("COLUMNS");
    if let Some(columns) = columns {
        command.env("COLUMNS", columns.to_string());
    }
    let output = command.output().map_err(|e| format!("start another process: {e}"))?;
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let code = output.status.code().unwrap_or(-1);
    Ok(Ended { code, out: text(output.stdout), err: text(output.stderr) })
}

/// A worker as the one holds it who has started it.
#[derive(Debug)]
pub(crate) struct Child {
    process: std::process::Child,
    stdin: Option<ChildStdin>,
    lines: BufReader<ChildStdout>,
}

impl Child {
    /// Starts this program again.
    pub(crate) fn start<S: AsRef<OsStr>>(words: impl IntoIterator<Item = S>) -> Result<Child, String> {
        let mut process = command()?
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|e| format!("start another process: {e}"))?;
        let stdin = process.stdin.take();
        let lines = BufReader::new(process.stdout.take().ok_or("a process without output")?);
        Ok(Child { process, stdin, lines })
    }

    /// The one line of a worker that does one thing.
    pub(crate) fn ask<S: AsRef<OsStr>>(words: impl IntoIterator<Item = S>) -> Result<String, String> {
        let mut child = Child::start(words)?;
        let line = child.next()?;
        child.end()?;
        Ok(line)
    }

    /// The next line; empty if there is no whole one any more.
    pub(crate) fn next(&mut self) -> Result<String, String> {
        let mut line = String::new();
        self.lines.read_line(&mut line).map_err(|e| format!("hear from a process: {e}"))?;
        Ok(line.strip_suffix('\n').unwrap_or("").to_owned())
    }

    /// Takes its output away, to be read by another thread.
    pub(crate) fn split(self) -> (Running, BufReader<ChildStdout>) {
        (Running { process: self.process, stdin: self.stdin }, self.lines)
    }

    /// Kills it (SIGKILL, TerminateProcess) and waits until it is gone.
    pub(crate) fn kill(self) -> Result<(), String> {
        self.split().0.kill()
    }

    /// Lets it end by itself.
    fn end(self) -> Result<(), String> {
        self.split().0.end()
    }
}

/// A worker whose output somebody else reads.
#[derive(Debug)]
pub(crate) struct Running {
    process: std::process::Child,
    stdin: Option<ChildStdin>,
}

impl Running {
    /// Says a line to it.
    pub(crate) fn tell(&mut self, line: &str) -> Result<(), String> {
        let stdin = self.stdin.as_mut().ok_or("a process without input")?;
        writeln!(stdin, "{line}").map_err(|e| format!("speak to a process: {e}"))
    }

    /// As [`Child::kill`].
    pub(crate) fn kill(mut self) -> Result<(), String> {
        self.process.kill().map_err(|e| format!("kill a process: {e}"))?;
        self.process.wait().map(drop).map_err(|e| format!("wait for a killed process: {e}"))
    }

    /// Closes its input, which ends it, and waits for that; what takes too long is killed.
    pub(crate) fn end(mut self) -> Result<(), String> {
        drop(self.stdin.take());
        let start = Os.monotonic();
        loop {
            match self.process.try_wait().map_err(|e| format!("wait for a process: {e}"))? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => return Err(format!("a process ended with {status}")),
                None if Os.monotonic().saturating_sub(start) > PATIENCE => {
                    self.kill()?;
                    return Err(format!("a process did not end within {} s", PATIENCE.as_secs()));
                }
                None => Os.sleep(Duration::from_millis(1)),
            }
        }
    }
}
