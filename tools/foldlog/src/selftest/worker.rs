//! A process of a selftest: what it does, and how the selftest talks to it. It says one line for each thing done.

use std::ffi::OsString;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use foldlog::store::Place;
use foldlog::vfs::os::Os;
use foldlog::vfs::{Open, Vfs as _, read_full};
use foldlog::{Durability, Housekeeping, Key, NewEvent, Options, State, Store, Vocabulary};
use foldlog_requests::Failure;

use crate::args::{Task, Worker};
use crate::exit::Exit;
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
            Ok(Exit::of(&failure))
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

/// The command line of a worker.
pub(super) fn words(task: Task, path: &Path, name: &str) -> [OsString; 4] {
    use clap::ValueEnum as _;
    let task = task.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
    ["selftest-worker".into(), task.into(), path.into(), name.into()]
}
