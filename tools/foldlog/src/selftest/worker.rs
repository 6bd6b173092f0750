//! A process of a selftest: what it does, and how the selftest talks to it. It says one line for each thing done.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use foldlog::store::Place;
use foldlog::vfs::os::Os;
use foldlog::vfs::{Open, Vfs as _, read_full};
use foldlog::{Durability, Housekeeping, Key, NewEvent, Options, State, Store, Vocabulary};

use crate::args::{Task, Worker};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::out::Out;

/// Kind of the events that a selftest writes.
const KIND: u16 = 0xFF00;
/// What the selftest's log is bound to.
const PLACE: &str = "foldlog selftest";

/// How a selftest opens its store.
pub(super) fn options(label: &str) -> Options {
    Options::default()
        .label(format!("foldlog selftest {label}"))
        .vocabulary(Vocabulary::new([(KIND, 1)]))
        .housekeeping(Housekeeping::Off)
        .segment_size(64 << 10)
        // Whether the file system is shared is a check of its own.
        .trust_shared_fs(true)
}

/// The workspace that a selftest writes.
pub(super) fn place() -> Place {
    Place::Key(PLACE.into())
}

/// The key of a worker's n-th event.
pub(super) fn key(worker: &str, n: u64) -> String {
    format!("{worker}-{n}")
}

/// Runs the hidden verb.
pub(crate) fn run(verb: &Worker, out: &mut Out) -> Result<Exit, Failure> {
    match task(verb, out) {
        Ok(()) => Ok(Exit::Fine),
        Err(failure) => {
            out.line(&format!("error {}: {}", failure.code(), failure.message()))?;
            Ok(failure.exit())
        }
    }
}

fn task(verb: &Worker, out: &mut Out) -> Result<(), Failure> {
    let path = &verb.path;
    let failed = |act| move |e: std::io::Error| Failure::io(act, path, &e);
    match verb.task {
        Task::Try => {
            let file = Os.open(path, Open::Lock).map_err(failed("open"))?;
            let free = file.try_lock().map_err(failed("lock"))?;
            if free {
                file.unlock().map_err(failed("unlock"))?;
            }
            out.line(if free { "free" } else { "taken" })
        }
        Task::Hold => {
            let file = Os.open(path, Open::Lock).map_err(failed("open"))?;
            let held = file.try_lock().map_err(failed("lock"))?;
            out.line(if held { "held" } else { "taken" })?;
            out.flush()?;
            let _ = std::io::stdin().read_to_end(&mut Vec::new());
            file.unlock().map_err(failed("unlock"))
        }
        Task::Show => {
            let file = Os.open(path, Open::Read).map_err(failed("open"))?;
            let mut bytes = [0; 64];
            let n = read_full(&*file, &mut bytes, 0).map_err(failed("read"))?;
            let hex: String = bytes.iter().take(n).map(|b| format!("{b:02x}")).collect();
            out.line(&format!("shows {hex}"))
        }
        Task::Write => write(verb, out),
        Task::Hash => {
            let store = Store::open(path, options("reader").read_only(true))?;
            let (seq, hash) = store.workspace(&place())?.read(|state| (state.last(), State::hash(state)))?;
            out.line(&format!("hash {seq} {}", hash.to_hex()))
        }
    }
}

fn write(verb: &Worker, out: &mut Out) -> Result<(), Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&stop);
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        told.store(true, Ordering::Release);
    });
    let store = Store::open(&verb.path, options(&verb.name))?;
    let workspace = store.workspace(&place())?;
    let mut n = 0u64;
    while !stop.load(Ordering::Acquire) {
        let durability = if n.is_multiple_of(8) { Durability::Durable } else { Durability::Buffered };
        let name = key(&verb.name, n);
        let receipt = workspace.commit(durability, move |_, draft| {
            // Two events: a commit that is seen by half would show.
            draft.push(NewEvent::state(KIND, 1, Key::task(&name), name.as_bytes()));
            draft.push(NewEvent::record(KIND, 1, Key::task(&name), *b"second"));
            Ok(())
        })?;
        out.line(&format!("ack {n} {}", receipt.first))?;
        out.flush()?;
        n += 1;
    }
    Ok(workspace.close()?)
}

/// A worker as the selftest holds it.
#[derive(Debug)]
pub(super) struct Child {
    process: std::process::Child,
    stdin: Option<ChildStdin>,
    lines: BufReader<std::process::ChildStdout>,
}

impl Child {
    /// Starts this program again.
    pub(super) fn start(task: Task, path: &Path, name: &str) -> Result<Child, String> {
        use clap::ValueEnum as _;
        let program = std::env::current_exe().map_err(|e| format!("find this program: {e}"))?;
        let task = task.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
        let mut process = Command::new(program)
            .arg("selftest-worker")
            .arg(task)
            .arg(path)
            .arg(name)
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
    pub(super) fn ask(task: Task, path: &Path) -> Result<String, String> {
        let mut child = Child::start(task, path, "")?;
        let line = child.next()?;
        child.end()?;
        Ok(line)
    }

    /// The next line; empty if there is no whole one any more.
    pub(super) fn next(&mut self) -> Result<String, String> {
        let mut line = String::new();
        self.lines.read_line(&mut line).map_err(|e| format!("hear from a process: {e}"))?;
        Ok(line.strip_suffix('\n').unwrap_or("").to_owned())
    }

    /// Takes its output away, to be read by another thread.
    pub(super) fn split(self) -> (Running, BufReader<std::process::ChildStdout>) {
        (Running { process: self.process, stdin: self.stdin }, self.lines)
    }

    /// Kills it (SIGKILL, TerminateProcess) and waits until it is gone.
    pub(super) fn kill(self) -> Result<(), String> {
        self.split().0.kill()
    }

    /// Lets it end by itself.
    fn end(self) -> Result<(), String> {
        self.split().0.end()
    }
}

/// A worker whose output somebody else reads.
#[derive(Debug)]
pub(super) struct Running {
    process: std::process::Child,
    stdin: Option<ChildStdin>,
}

impl Running {
    /// As [`Child::kill`].
    pub(super) fn kill(mut self) -> Result<(), String> {
        self.process.kill().map_err(|e| format!("kill a process: {e}"))?;
        self.process.wait().map(drop).map_err(|e| format!("wait for a killed process: {e}"))
    }

    /// Closes its input, which ends it, and waits for that; what takes too long is killed.
    pub(super) fn end(mut self) -> Result<(), String> {
        drop(self.stdin.take());
        let start = Os.monotonic();
        loop {
            match self.process.try_wait().map_err(|e| format!("wait for a process: {e}"))? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => return Err(format!("a process ended with {status}")),
                None if Os.monotonic().saturating_sub(start) > super::PATIENCE => {
                    self.kill()?;
                    return Err(format!("a process did not end within {} s", super::PATIENCE.as_secs()));
                }
                None => Os.sleep(std::time::Duration::from_millis(1)),
            }
        }
    }
}
