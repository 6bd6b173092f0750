//! Several processes write one log while they are killed. Nothing acknowledged may be lost, no commit seen by half,
//! and every process must read the same state.

use std::collections::HashMap;
use std::io::BufRead as _;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use foldlog::log::scan::Content;
use foldlog::store::inspect;
use foldlog::vfs::Vfs as _;
use foldlog::vfs::os::Os;
use foldlog::{Severity, State, Store};

use super::Seen;
use super::worker::{self, words};
use crate::args::Task;
use crate::process::{Child, PATIENCE, Running};

/// What a writer has been told it may rely on: the key, and the number it was given.
type Acknowledged = Arc<Mutex<Vec<(String, u64)>>>;

/// One writer at work.
struct Writer {
    running: Running,
    heard: Acknowledged,
    listener: JoinHandle<Result<(), String>>,
}

/// See the module.
pub(super) fn run(root: &Path, count: u32, kills: u32) -> Seen {
    let mut acknowledged = Vec::new();
    let mut writers = Vec::new();
    for slot in 0..count {
        writers.push(start(root, &format!("w{slot}"))?);
    }
    for kill in 0..kills {
        let mut random = [0; 2];
        Os.random(&mut random).map_err(|e| format!("draw a number: {e}"))?;
        let [slot, more] = random;
        let slot = usize::from(slot) % writers.len();
        let victim = writers.swap_remove(slot);
        // Not after a time, but after work: it dies somewhere behind its first acknowledgement.
        wait_for(&victim, 1 + usize::from(more % 64))?;
        victim.running.kill()?;
        acknowledged.extend(last_words(victim.heard, victim.listener)?);
        writers.push(start(root, &format!("k{kill}"))?);
    }
    for writer in &writers {
        wait_for(writer, 16)?;
    }
    for writer in writers {
        writer.running.end()?;
        acknowledged.extend(last_words(writer.heard, writer.listener)?);
    }
    let events = check(root, &acknowledged)?;
    Ok(format!(
        "{count} processes, {kills} kills, {} commits acknowledged and {events} events read: none lost, one state hash",
        acknowledged.len()
    ))
}

fn start(root: &Path, name: &str) -> Result<Writer, String> {
    let (running, mut lines) = Child::start(words(Task::Write, root, name))?.split();
    let heard = Acknowledged::default();
    let (told, name) = (Arc::clone(&heard), name.to_owned());
    let listener = std::thread::spawn(move || {
        let mut line = String::new();
        loop {
            line.clear();
            lines.read_line(&mut line).map_err(|e| format!("hear from {name}: {e}"))?;
            // A line without its end was cut by the kill: nobody was told of that commit.
            let Some(whole) = line.strip_suffix('\n') else { return Ok(()) };
            let parsed = whole.strip_prefix("ack ").and_then(|rest| rest.split_once(' '));
            let numbers = parsed.and_then(|(n, seq)| Some((n.parse().ok()?, seq.parse().ok()?)));
            let Some((n, seq)) = numbers else { return Err(format!("{name} says: {whole}")) };
            told.lock().unwrap_or_else(PoisonError::into_inner).push((worker::key(&name, n), seq));
        }
    });
    Ok(Writer { running, heard, listener })
}

fn wait_for(writer: &Writer, acknowledged: usize) -> Result<(), String> {
    let start = Os.monotonic();
    while writer.heard.lock().unwrap_or_else(PoisonError::into_inner).len() < acknowledged {
        if writer.listener.is_finished() {
            return Ok(()); // it has ended; its last words say why
        }
        if Os.monotonic().saturating_sub(start) > PATIENCE {
            return Err(format!("a writer got no {acknowledged} commits done in {} s", PATIENCE.as_secs()));
        }
        Os.sleep(Duration::from_millis(1));
    }
    Ok(())
}

fn last_words(
    heard: Acknowledged,
    listener: JoinHandle<Result<(), String>>,
) -> Result<Vec<(String, u64)>, String> {
    listener.join().map_err(|_| "a listener panicked".to_owned())??;
    Ok(std::mem::take(&mut *heard.lock().unwrap_or_else(PoisonError::into_inner)))
}

/// Returns how many events the log has.
fn check(root: &Path, acknowledged: &[(String, u64)]) -> Result<u64, String> {
    let store = Store::open(root, worker::options("check").read_only(true)).map_err(|e| e.to_string())?;
    let name = store.find_workspace(&worker::place()).map_err(|e| e.to_string())?;
    let name = name.ok_or("the log is gone")?;
    let (mut by_seq, mut halves) = (HashMap::new(), 0);
    let found = inspect::workspace(&Os, &store.workspace_dir(&name), &mut |visit| {
        if let Content::Commit(commit) = &visit.located.content {
            let events: Vec<_> = commit.events().collect();
            halves += usize::from(events.len() != 2);
            by_seq.extend(events.first().map(|event| (event.seq.0, event.key.to_owned())));
        }
    });
    let found = found.map_err(|e| e.to_string())?;
    if let Some(damage) = found.findings.iter().find(|finding| finding.severity == Severity::Damage) {
        return Err(format!("a kill became damage: {damage}"));
    }
    if halves > 0 {
        return Err(format!("{halves} commit(s) are there by half"));
    }
    let lost: Vec<_> = acknowledged.iter().filter(|(key, seq)| by_seq.get(seq) != Some(key)).collect();
    if let Some((key, seq)) = lost.first() {
        return Err(format!("{} acknowledged commit(s) lost, among them {key}, event {seq}", lost.len()));
    }
    if !store.live_sessions().map_err(|e| e.to_string())?.is_empty() {
        return Err("the session of a process that has ended counts as alive".into());
    }
    let workspace = store.workspace_named(&name).map_err(|e| e.to_string())?;
    let ours = workspace
        .read(|state| format!("hash {} {}", state.last(), State::hash(state).to_hex()))
        .map_err(|e| e.to_string())?;
    for _ in 0..3 {
        let theirs = Child::ask(words(Task::Hash, root, ""))?;
        if theirs != ours {
            return Err(format!("one process reads {ours}, another {theirs}"));
        }
    }
    Ok(workspace.open_report().events)
}
