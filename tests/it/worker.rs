//! Real processes for the `process_*` tests: the test binary runs itself, as a worker that one role is named to.
//!
//! ```text
//!   test                                  worker::entry in another process
//!   Worker::start(role, args)  ── env ──▶ the role's function
//!   tell(line)                 ── stdin ─▶ Stage::hear
//!   expect / next              ◀─ stdout ─ Stage::say, each line marked, so that the harness' own are left out
//! ```
//! Order comes from lines alone, never from sleeping, and every wait has a bound ([`BOUND`]). A worker whose test has
//! gone ends at the end of its stdin. Without a role in its environment, `entry` is a test that passes at once.
#![cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "some of this only Linux' tests use"))]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests look at the disk behind the engine's back"
)]

use std::io::{BufRead as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use foldlog::log::envelope::Envelope;
use foldlog::log::reader::{self, Reach, Walk};
use foldlog::log::scan::Content;
use foldlog::vfs::os::Os;
use foldlog::{
    Durability, Housekeeping, Key, NewEvent, Options, Place, Receipt, Result, Seq, State, Store, Vocabulary,
    Workspace,
};

/// The longest that anything is waited for: far above what it takes, since two busy cores may be all there is.
pub(crate) const BOUND: Duration = Duration::from_secs(120);
const ROLE: &str = "FOLDLOG_TEST_ROLE";
const ARGS: &str = "FOLDLOG_TEST_ARGS";
/// What each of a worker's own lines starts with.
const MARK: &str = "@@";

/// The event kind of these tests.
pub(crate) const NOTE: u16 = 100;

/// Something a worker can be: its name, and what it does.
pub(crate) type Role = (&'static str, fn(&mut Stage));

fn role(name: &str) -> Option<fn(&mut Stage)> {
    let portable: &[Role] = &[
        ("writer", crate::process_kill::writer),
        ("poller", crate::process_kill::poller),
        ("opener", crate::process_create::opener),
        ("tasker", crate::task_processes::writer),
        ("task_poller", crate::task_processes::poller),
        ("burster", crate::process_burst::burster),
        ("pusher", crate::process_subscribe::pusher),
        ("follower", crate::process_subscribe::follower),
        ("sleeper", crate::process_subscribe::sleeper),
        ("owner", crate::process_owner::owner),
        ("documenter", crate::process_documents::documenter),
        ("backup_writer", crate::process_backup::writer),
        ("stepper", crate::process_compact::stepper),
        ("compactor", crate::process_compact::compactor),
        ("watcher", crate::process_compact::watcher),
        ("idler", crate::idle::idler),
        ("actor", actor),
    ];
    #[cfg(target_os = "linux")]
    let linux: &[Role] = crate::linux_only::ROLES;
    #[cfg(not(target_os = "linux"))]
    let linux: &[Role] = &[];
    portable.iter().chain(linux).find(|(known, _)| *known == name).map(|(_, run)| *run)
}

/// Where a worker starts. A test like any other, which has nothing to do unless a role is set.
#[test]
fn entry() {
    let Ok(name) = std::env::var(ROLE) else { return };
    let args = std::env::var(ARGS).unwrap_or_default().split('\u{1f}').map(str::to_owned).collect();
    let mut stage = Stage { args };
    // The harness has begun a line of its own.
    println!();
    let run = role(&name).unwrap_or_else(|| panic!("no role {name}"));
    let ran = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run(&mut stage)));
    say(if ran.is_ok() { "end" } else { "panicked" });
    // Not back into the harness: it would print a result that is no test's.
    std::process::exit(if ran.is_ok() { 0 } else { 101 });
}

/// A worker's side of its pipes.
pub(crate) struct Stage {
    args: Vec<String>,
}

impl Stage {
    pub(crate) fn arg(&self, i: usize) -> &str {
        self.args.get(i).unwrap_or_else(|| panic!("argument {i} is missing"))
    }

    pub(crate) fn path(&self, i: usize) -> PathBuf {
        self.arg(i).into()
    }

    pub(crate) fn number(&self, i: usize) -> u64 {
        self.arg(i).parse().unwrap()
    }

    pub(crate) fn say(&self, line: &str) {
        say(line);
    }

    pub(crate) fn hear(&mut self) -> String {
        hear()
    }
}

/// Prints a line for the test; one `write`, so that a kill never leaves half of it.
pub(crate) fn say(line: &str) {
    let line = line.replace('\n', " / ");
    let mut out = std::io::stdout().lock();
    if out.write_all(format!("{MARK}{line}\n").as_bytes()).and_then(|()| out.flush()).is_err() {
        std::process::exit(3); // the test has gone
    }
}

/// The test's next line; ends the process if there is none.
pub(crate) fn hear() -> String {
    let mut line = String::new();
    match std::io::stdin().read_line(&mut line) {
        Ok(n) if n > 0 => line.trim_end().to_owned(),
        _ => std::process::exit(3),
    }
}

/// Starts a process. Wine, under load, has refused to with `ERROR_INTERNAL_ERROR`: that is what its `CreateProcess` says
/// where the new process has gone before it came to its own code, so none of a worker has run and another try is no second
/// worker. It is tried again a few times; no other failure is, and none on another system.
fn spawn(command: &mut Command) -> std::io::Result<Child> {
    const INTERNAL_ERROR: i32 = 1359;
    let mut tries = 0;
    loop {
        match command.spawn() {
            Err(e) if cfg!(windows) && e.raw_os_error() == Some(INTERNAL_ERROR) && tries < 5 => tries += 1,
            started => return started,
        }
    }
}

/// The test's side: a process that is killed at the latest when this is dropped.
pub(crate) struct Worker {
    pub(crate) name: String,
    child: Child,
    lines: Receiver<String>,
}

impl Worker {
    pub(crate) fn start(role: &str, args: &[&str]) -> Worker {
        Worker::wrapped(&[], role, args)
    }

    /// Started by another program (`unshare …`, `strace …`), whose arguments end where a command is expected.
    pub(crate) fn wrapped(wrapper: &[&str], role: &str, args: &[&str]) -> Worker {
        let exe = std::env::current_exe().unwrap();
        let mut words: Vec<std::ffi::OsString> = wrapper.iter().map(Into::into).collect();
        words.push(exe.into());
        let name = format!("{role} {}", args.join(" "));
        let mut command = Command::new(&words[0]);
        command
            .args(&words[1..])
            .args(["--exact", "worker::entry", "--nocapture", "--test-threads=1"])
            .env(ROLE, role)
            .env(ARGS, args.join("\u{1f}"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child =
            spawn(&mut command).unwrap_or_else(|e| panic!("cannot start {name} by {words:?}: {e}"));
        let (send, lines) = channel();
        let out = std::io::BufReader::new(child.stdout.take().unwrap());
        // Ends with the pipe; bytes after the last whole line are a killed worker's.
        std::thread::spawn(move || {
            for line in out.lines().map_while(Result::ok) {
                if let Some(line) = line.strip_prefix(MARK)
                    && send.send(line.to_owned()).is_err()
                {
                    break;
                }
            }
        });
        Worker { name, child, lines }
    }

    /// Sends a line. A worker that has gone does not hear it, which its next answer will show.
    pub(crate) fn tell(&mut self, line: &str) {
        if let Some(input) = &mut self.child.stdin {
            let _ = input.write_all(format!("{line}\n").as_bytes());
        }
    }

    /// Its next line within a time; `Ok(None)` = it prints no more.
    pub(crate) fn next_within(&self, bound: Duration) -> Result<Option<String>, RecvTimeoutError> {
        match self.lines.recv_timeout(bound) {
            Ok(line) => Ok(Some(line)),
            Err(RecvTimeoutError::Disconnected) => Ok(None),
            Err(timeout) => Err(timeout),
        }
    }

    /// A line that is there by now.
    pub(crate) fn try_next(&self) -> Option<String> {
        self.lines.try_recv().ok()
    }

    pub(crate) fn next(&self) -> Option<String> {
        self.next_within(BOUND).unwrap_or_else(|_| panic!("{} is silent", self.name))
    }

    /// Its next line, which must start with this; returns the rest.
    pub(crate) fn expect(&self, start: &str) -> String {
        let line = self.next();
        match line.as_deref().and_then(|line| line.strip_prefix(start)) {
            Some(rest) => rest.trim().to_owned(),
            None => panic!("{}: expected {start:?}, got {line:?}", self.name),
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Kill −9.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    #[cfg(unix)]
    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_raw(i32::try_from(self.pid()).unwrap()).unwrap();
        let _ = rustix::process::kill_process(pid, signal);
    }

    /// Waits for its end; the rest of its lines and how it ended.
    pub(crate) fn finish(mut self) -> (Vec<String>, ExitStatus) {
        drop(self.child.stdin.take());
        let mut rest = Vec::new();
        while let Some(line) = self.next() {
            rest.push(line);
        }
        (rest, self.child.wait().unwrap())
    }

    /// Waits for a good end, with nothing more to say.
    pub(crate) fn ended(self) {
        let name = self.name.clone();
        let (rest, status) = self.finish();
        assert!(status.success() && rest == ["end"], "{name}: {status}, {rest:?}");
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Numbers that a seed decides. A failing seed is printed by the test that uses it.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Dice {
        Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % n
    }
}

/// The seed of this run: `FOLDLOG_SEED`, else a fixed one.
pub(crate) fn seed() -> u64 {
    let seed = std::env::var("FOLDLOG_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(1);
    println!("FOLDLOG_SEED={seed}");
    seed
}

/// Whether budgets are to be small.
pub(crate) fn quick() -> bool {
    std::env::var_os("FOLDLOG_QUICK").is_some()
}

/// Says, past the harness' capture, that something was not proven here, and why.
pub(crate) fn not_run(what: &str, why: &str) {
    let _ = writeln!(std::io::stderr(), "\nnot run: {what}: {why}");
}

pub(crate) fn options() -> Options {
    Options::default().vocabulary(Vocabulary::new([(NOTE, 1)])).housekeeping(Housekeeping::Off)
}

pub(crate) fn place() -> Place {
    Place::Key("processes".into())
}

pub(crate) fn open(root: &Path, options: Options) -> (Store, Workspace) {
    let store = Store::open(root, options).unwrap();
    let workspace = store.workspace(&place()).unwrap();
    (store, workspace)
}

/// A commit as it stands in the log.
#[derive(Debug)]
pub(crate) struct Landed {
    pub(crate) first: Seq,
    /// Key and body of each event.
    pub(crate) events: Vec<(String, Vec<u8>)>,
}

/// Every commit of a workspace, read from the bytes without its engine.
pub(crate) fn landed(workspace: &Workspace) -> (Vec<Landed>, Walk) {
    let mut all = Vec::new();
    let walk =
        reader::walk(&Os, workspace.log().paths(), workspace.log().id(), None, Reach::Intact, &mut |v| {
            if let Content::Commit(commit) = &v.located.content {
                let event = |e: Envelope<'_>| (e.key.to_owned(), e.body.to_vec());
                all.push(Landed {
                    first: Seq(v.located.frame.header.seq),
                    events: commit.events().map(event).collect(),
                });
            }
        })
        .unwrap();
    (all, walk)
}

/// Everything under a folder with its kind, bytes and time of change, to compare two looks.
pub(crate) fn bytes_of(dir: &Path) -> Vec<(PathBuf, std::time::SystemTime, Option<Vec<u8>>)> {
    let mut all = Vec::new();
    let mut folders = vec![dir.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let meta = std::fs::symlink_metadata(&path).unwrap();
            if meta.is_dir() {
                folders.push(path.clone());
            }
            let bytes = meta.is_file().then(|| std::fs::read(&path).unwrap());
            all.push((path, meta.modified().unwrap(), bytes));
        }
    }
    all.sort();
    all
}

/// Role: opens a store and does what it is told, a line at a time. Its first line tells whether it could open.
///
/// Arguments: the store, its label, `lock_timeout` in ms, `segment_size`, `rw`, `ro`, or `grow`: `rw` without reserve.
pub(crate) fn actor(stage: &mut Stage) {
    let options = options()
        .label(stage.arg(1))
        .lock_timeout(Duration::from_millis(stage.number(2)))
        .segment_size(stage.number(3))
        .reserve(stage.arg(4) != "grow")
        .read_only(stage.arg(4) == "ro");
    let open = || -> Result<Workspace> { Store::open(stage.path(0), options.clone())?.workspace(&place()) };
    let mut ws = match open() {
        Ok(ws) => ws,
        Err(e) => return say(&format!("err {} {e}", e.code())),
    };
    say(&format!("open {}", ws.open_report().seq));
    loop {
        let line = hear();
        let mut words = line.split(' ');
        let mut word = || words.next().unwrap_or_default().to_owned();
        let answer = match word().as_str() {
            "commit" => receipt(commit(&ws, &word(), &word(), durability(&word()))),
            // Stands inside the commit's closure, under LOCK, until it is told to go on.
            "hold" => {
                let key = word();
                receipt(ws.commit(durability(&word()), move |_, draft| {
                    say("inside");
                    hear();
                    draft.push(NewEvent::state(NOTE, 1, Key::task(&key), b"held"));
                    Ok(())
                }))
            }
            "read" => {
                let key = Key::task(&word());
                match ws.read(|state| state.get(&key)) {
                    Ok(Some(known)) => format!("value {}", String::from_utf8_lossy(&known.body)),
                    Ok(None) => "absent".into(),
                    Err(e) => format!("err {} {e}", e.code()),
                }
            }
            "last" => answer(ws.read(State::last)),
            "hash" => answer(ws.read(State::hash)),
            "epochs" => answer(ws.read(|state| state.epochs().len())),
            "flush" => answer(ws.flush().map(|()| "flushed")),
            "mark" => answer(ws.clone().close().map(|()| "marked")),
            "status" => ws.health().status.as_str().to_owned(),
            "findings" => format!("{:?}", ws.health().findings),
            "reopen" => match open() {
                Ok(again) => {
                    ws = again;
                    format!("open {}", ws.open_report().seq)
                }
                Err(e) => format!("err {} {e}", e.code()),
            },
            "quit" => return,
            other => panic!("what is {other:?}?"),
        };
        say(&answer);
    }
}

fn answer<T: std::fmt::Display>(result: Result<T>) -> String {
    result.map_or_else(|e| format!("err {} {e}", e.code()), |value| format!("ok {value}"))
}

fn receipt(result: Result<Receipt>) -> String {
    answer(
        result
            .map(|receipt| format!("{} {}", receipt.first, if receipt.durable { "durable" } else { "seen" })),
    )
}

fn durability(word: &str) -> Durability {
    match word {
        "durable" => Durability::Durable,
        "buffered" => Durability::Buffered,
        _ => panic!("no durability {word:?}"),
    }
}

/// One event on one task.
pub(crate) fn commit(ws: &Workspace, key: &str, text: &str, durability: Durability) -> Result<Receipt> {
    let event = NewEvent::state(NOTE, 1, Key::task(key), text.as_bytes());
    ws.commit(durability, move |_, draft| {
        draft.push(event);
        Ok(())
    })
}

/// An [`actor`] that has opened its store.
pub(crate) fn an_actor(root: &Path, label: &str, lock_timeout_ms: u32) -> Worker {
    let actor = start_actor(&[], root, label, lock_timeout_ms, 8 << 20, "rw");
    actor.expect("open");
    actor
}

pub(crate) fn start_actor(
    wrapper: &[&str],
    root: &Path,
    label: &str,
    lock_timeout_ms: u32,
    segment: u64,
    mode: &str,
) -> Worker {
    let (timeout, segment) = (lock_timeout_ms.to_string(), segment.to_string());
    Worker::wrapped(wrapper, "actor", &[root.to_str().unwrap(), label, &timeout, &segment, mode])
}

impl Worker {
    /// Tells it something and returns its answer.
    pub(crate) fn ask(&mut self, line: &str) -> String {
        self.tell(line);
        self.next().unwrap_or_else(|| panic!("{} has ended instead of answering {line:?}", self.name))
    }
}
