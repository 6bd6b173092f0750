//! `foldlog selftest DIR`: does this file system do what foldlog relies on?
//!
//! First each thing alone: locks, visibility, rename, sync, between handles and between processes. Then all of it at
//! once: [`writers`] are killed while they write one log. A [`worker`] is this very program, started again.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use foldlog::vfs::os::Os;
use foldlog::vfs::{Existing, FileKind, FileSystem, Open, Vfs as _, VfsFile, read_full, write_full};
use foldlog_requests::Failure;
use serde::Serialize;

use crate::args::{Selftest, Task};
use crate::exit::Exit;
use crate::interrupt;
use crate::out::Out;

pub(crate) mod worker;
mod writers;

use crate::process::{Child, PATIENCE};
use worker::words;

/// What one check gave.
#[derive(Debug, Serialize)]
struct Outcome {
    check: &'static str,
    ok: bool,
    message: String,
    remedy: Option<&'static str>,
}

/// A check's answer: what was seen, or what went wrong.
type Seen = Result<String, String>;

/// Runs the verb.
pub(crate) fn run(verb: &Selftest, out: &mut Out) -> Result<Exit, Failure> {
    let dir = new_folder(&verb.dir, "selftest")?;
    interrupt::leaves(Some(dir.clone()));
    let mut failed = 0;
    let mut say = |check, remedy, seen: Seen| -> Result<(), Failure> {
        let (ok, message) = match seen {
            Ok(message) => (true, message),
            Err(message) => (false, message),
        };
        failed += usize::from(!ok);
        let outcome = Outcome { check, ok, message, remedy: (!ok).then_some(remedy) };
        let line = match (out.json, outcome.remedy) {
            (true, _) => serde_json::to_string(&outcome).unwrap_or_default(),
            (false, None) => format!("ok      {check}: {}", outcome.message),
            (false, Some(remedy)) => format!("FAILED  {check}: {}\n  what to do: {remedy}", outcome.message),
        };
        out.line(&line)?;
        out.flush()
    };
    const LOCKS: &str = "do not keep a store here: processes would overwrite each other; use a local disk";
    const SHOWS: &str =
        "do not keep a store here: processes would not see each other's events; use a local disk";
    const SYNCS: &str = "do not keep a store here if events must survive a power cut; use a local disk";
    say("file-system", "use a local disk; other machines' locks cannot be seen here", file_system(&dir))?;
    say("write-shows-in-another-handle", SHOWS, shows_in_handle(&dir))?;
    say("write-shows-in-another-process", SHOWS, shows_in_process(&dir))?;
    say("lock-excludes-another-handle", LOCKS, excludes_handle(&dir))?;
    say("lock-excludes-another-process", LOCKS, excludes_process(&dir))?;
    say("lock-is-freed-by-kill", LOCKS, freed_by_kill(&dir))?;
    say("rename-keeps-what-is-there", LOCKS, rename_keeps(&dir))?;
    say("sync", SYNCS, sync(&dir))?;
    let lost =
        "do not keep a store here; if it is a local disk, this is a bug worth reporting, with this folder";
    say("writers-under-kill", lost, writers::run(&dir.join("store"), verb.writers, verb.kills))?;
    if failed == 0 {
        remove(&dir).map_err(|e| Failure::io("remove", &dir, &e))?;
        interrupt::leaves(None);
        return Ok(Exit::Fine);
    }
    Err(Failure::Own {
        code: "selftest-failed",
        message: format!("{failed} check(s) failed on {}", verb.dir.display()),
        remedy: format!("keep the store elsewhere; {} has what was tried and may be deleted", dir.display()),
        file: Some(verb.dir.clone()),
    })
}

/// Makes a folder with a new name.
pub(crate) fn new_folder(parent: &Path, verb: &str) -> Result<PathBuf, Failure> {
    let mut random = [0; 8];
    Os.random(&mut random).map_err(|e| Failure::io("draw a name in", parent, &e))?;
    let dir = parent.join(format!("foldlog-{verb}-{:016x}", u64::from_le_bytes(random)));
    Os.create_dir(&dir).map_err(|e| Failure::io("create", &dir, &e))?;
    Ok(dir)
}

/// Removes a folder that this run has made, with all that is in it.
pub(crate) fn remove(dir: &Path) -> io::Result<()> {
    for entry in Os.list(dir)? {
        let path = dir.join(&entry.name);
        if entry.kind == FileKind::Dir { remove(&path)? } else { Os.unlink(&path)? }
    }
    Os.remove_dir(dir)
}

fn told<T>(what: &str, result: io::Result<T>) -> Result<T, String> {
    result.map_err(|e| format!("{what}: {e}"))
}

fn new_file(path: &Path) -> Result<Box<dyn VfsFile>, String> {
    told("create a file", Os.open(path, Open::Create))
}

fn file_system(dir: &Path) -> Seen {
    match told("look at the file system", Os.file_system(dir))? {
        FileSystem::Local(name) => Ok(format!("{name}, seen by this machine alone")),
        FileSystem::Shared(name) => Err(format!("{name} may be shared with another machine")),
    }
}

fn shows_in_handle(dir: &Path) -> Seen {
    let path = dir.join("shows");
    let writer = new_file(&path)?;
    let reader = told("open it again", Os.open(&path, Open::Read))?;
    for (at, text) in [(0, b"first"), (5, b"secnd")] {
        told("write", write_full(&*writer, text, at).map_err(|(_, e)| e))?;
        let mut seen = [0; 5];
        let n = told("read", read_full(&*reader, &mut seen, at))?;
        if seen.get(..n) != Some(text.as_slice()) {
            return Err(format!("wrote {text:?} at {at}, another handle read {:?}", seen.get(..n)));
        }
    }
    Ok("at once".into())
}

fn shows_in_process(dir: &Path) -> Seen {
    let path = dir.join("shows-there");
    let writer = new_file(&path)?;
    told("write", write_full(&*writer, b"bytes", 0).map_err(|(_, e)| e))?;
    match Child::ask(words(Task::Show, &path, ""))?.as_str() {
        "shows 6279746573" => Ok("at once".into()),
        other => Err(format!("wrote the 5 letters of bytes, another process says: {other}")),
    }
}

fn excludes_handle(dir: &Path) -> Seen {
    let path = dir.join("lock");
    drop(new_file(&path)?);
    let first = told("open", Os.open(&path, Open::Lock))?;
    let second = told("open", Os.open(&path, Open::Lock))?;
    match (told("lock", first.try_lock())?, told("lock", second.try_lock())?) {
        (true, false) => {}
        (false, _) => return Err("nobody has the lock, and yet it is taken".into()),
        (true, true) => return Err("two handles have the lock at once".into()),
    }
    told("unlock", first.unlock())?;
    if !told("lock", second.try_lock())? {
        return Err("the lock is taken although it was released".into());
    }
    told("unlock", second.unlock())?;
    Ok("taken once, free again after its release".into())
}

fn excludes_process(dir: &Path) -> Seen {
    let path = dir.join("lock-there");
    drop(new_file(&path)?);
    let ours = told("open", Os.open(&path, Open::Lock))?;
    if !told("lock", ours.try_lock())? {
        return Err("nobody has the lock, and yet it is taken".into());
    }
    match Child::ask(words(Task::Try, &path, ""))?.as_str() {
        "taken" => {}
        other => return Err(format!("the lock is held here, another process says: {other}")),
    }
    told("unlock", ours.unlock())?;
    match Child::ask(words(Task::Try, &path, ""))?.as_str() {
        "free" => Ok("taken there while held here, free there afterwards".into()),
        other => Err(format!("the lock was released here, another process says: {other}")),
    }
}

fn freed_by_kill(dir: &Path) -> Seen {
    let path = dir.join("lock-of-the-dead");
    drop(new_file(&path)?);
    let mut holder = Child::start(words(Task::Hold, &path, ""))?;
    match holder.next()?.as_str() {
        "held" => {}
        other => return Err(format!("another process should hold the lock, and says: {other}")),
    }
    let ours = told("open", Os.open(&path, Open::Lock))?;
    if told("lock", ours.try_lock())? {
        return Err("the lock is held there, and free here".into());
    }
    holder.kill()?;
    let start = Os.monotonic();
    while !told("lock", ours.try_lock())? {
        if Os.monotonic().saturating_sub(start) > PATIENCE {
            return Err(format!("still taken {} s after its holder was killed", PATIENCE.as_secs()));
        }
        Os.sleep(Duration::from_millis(1));
    }
    told("unlock", ours.unlock())?;
    Ok(format!("within {} ms", Os.monotonic().saturating_sub(start).as_millis()))
}

fn rename_keeps(dir: &Path) -> Seen {
    let (from, to) = (dir.join("from"), dir.join("to"));
    for (path, text) in [(&from, b"new"), (&to, b"old")] {
        told("write", write_full(&*new_file(path)?, text, 0).map_err(|(_, e)| e))?;
    }
    match Os.rename(&from, &to, Existing::Keep) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
        Err(e) => return Err(format!("a refusal was expected: {e}")),
        Ok(()) => return Err("a file was replaced that should have been kept".into()),
    }
    told("remove", Os.unlink(&to))?;
    told("rename", Os.rename(&from, &to, Existing::Keep))?;
    Ok("refused where the name is taken, done where it is free".into())
}

fn sync(dir: &Path) -> Seen {
    const ROUNDS: u32 = 16;
    let file = new_file(&dir.join("sync"))?;
    let start = Os.monotonic();
    for round in 0..ROUNDS {
        told("write", write_full(&*file, &[1; 4096], 4096 * u64::from(round)).map_err(|(_, e)| e))?;
        told("sync the file", file.sync_data())?;
    }
    let each = Os.monotonic().saturating_sub(start) / ROUNDS;
    told("sync the folder", Os.sync_dir(dir))?;
    let doubt =
        if each < Duration::from_micros(20) { ", so fast that it may not reach a device" } else { "" };
    Ok(format!("{} µs each{doubt}", each.as_micros()))
}
