//! Who lives: the probe of a session's lock, and what follows from it.
//!
//! A lock that is held is a session that lives; one that is found free is a session that is dead for ever. Nothing else
//! counts. `format-spec/locks.md`, section *Sessions*.

use std::path::Path;
use std::time::Duration;

use super::{INFO_LEN_MAX, Info, Listing};
use crate::error::{Context as _, Error, ErrorKind, Result};
use crate::vfs::{Existing, Open, Vfs, VfsFile, read_full};

/// How often a taken lock is asked again before its session counts as alive, and how long in between: who asks holds it for
/// a moment too.
const ASK_AGAIN: [Duration; 3] =
    [Duration::from_millis(1), Duration::from_millis(2), Duration::from_millis(4)];

/// Whether a probe may rename the files of dead sessions to `.dead`, the proof of death.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probe {
    /// Change nothing (read-only opens).
    Look,
    /// Mark the dead.
    MarkDead,
}

/// The sessions that are alive now, those of this process included.
///
/// # Blocking
/// A few milliseconds for each live session: a taken lock is asked again three times, since a prober holds it too.
pub fn live(vfs: &dyn Vfs, dir: &Path, probe: Probe) -> Result<Vec<Info>> {
    let mut live = Vec::new();
    for entry in vfs.list(dir).context("list", dir)? {
        let Some(name) = entry.name.strip_suffix(".lock").filter(|name| !name.starts_with('.')) else {
            continue;
        };
        match look_at(vfs, dir, name, probe) {
            Ok(Lock::Free | Lock::Gone) => {}
            // What cannot be probed is not dead.
            Err(e) if !matches!(e.kind(), ErrorKind::Permission) => return Err(e),
            Ok(Lock::Taken) | Err(_) => live.push(read_info(vfs, dir, name)),
        }
    }
    Ok(live)
}

/// Whether some live session lists this log with this control block: proof that the page cache has lived on.
pub fn has_witness(vfs: &dyn Vfs, dir: &Path, listing: Listing, except: u64) -> Result<bool> {
    for entry in vfs.list(dir).context("list", dir)? {
        let Some(name) = entry.name.strip_suffix(".lock").filter(|name| !name.starts_with('.')) else {
            continue;
        };
        let info = read_info(vfs, dir, name);
        if info.session == except || !info.listings.contains(&listing) {
            continue;
        }
        match look_at(vfs, dir, name, Probe::MarkDead) {
            Ok(Lock::Taken) => return Ok(true),
            Ok(Lock::Free | Lock::Gone) => {}
            // Another user's, or on Windows one that is being deleted: what cannot be probed proves nothing.
            Err(e) if matches!(e.kind(), ErrorKind::Permission) => {}
            Err(e) => return Err(e),
        }
    }
    Ok(false)
}

/// Whether some session but `except` lists this log and seems to be alive. A quick look: one that is wrong must cost
/// nothing but time.
pub(crate) fn is_listed_by_others(vfs: &dyn Vfs, dir: &Path, log: &[u8; 16], except: u64) -> Result<bool> {
    for entry in vfs.list(dir).context("list", dir)? {
        let Some(name) = entry.name.strip_suffix(".lock").filter(|name| !name.starts_with('.')) else {
            continue;
        };
        let info = read_info(vfs, dir, name);
        if info.session == except || !info.listings.iter().any(|listing| &listing.log == log) {
            continue;
        }
        let path = dir.join(&entry.name);
        let taken = vfs.open(&path, Open::ProbeLock).and_then(|file| {
            let free = file.try_lock()?;
            if free { file.unlock().map(|()| false) } else { Ok(true) }
        });
        if taken.unwrap_or(true) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether a session lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Liveness {
    /// Its lock is held.
    Alive,
    /// Its lock was found free, now or earlier: it never lives again.
    Dead,
    /// Its files are absent, or cannot be probed. It owns what it owned until a person says otherwise.
    Unknown,
}

impl Liveness {
    /// Its name for people and programs.
    pub fn name(self) -> &'static str {
        match self {
            Liveness::Alive => "alive",
            Liveness::Dead => "dead",
            Liveness::Unknown => "unknown",
        }
    }
}

/// A session whose files are there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Who it is.
    pub info: Info,
    /// Whether it lives.
    pub liveness: Liveness,
}

/// All sessions that left files here, by name: living ones, and dead ones whose proof still stands.
///
/// # Errors
/// System errors.
///
/// # Blocking
/// As [`live`].
pub fn all(vfs: &dyn Vfs, dir: &Path, probe: Probe) -> Result<Vec<Entry>> {
    let mut all = Vec::new();
    for entry in vfs.list(dir).context("list", dir)? {
        let Some((name, end)) = entry.name.rsplit_once('.').filter(|(name, _)| !name.starts_with('.')) else {
            continue;
        };
        let liveness = match end {
            "dead" => Liveness::Dead,
            "lock" => match look_at(vfs, dir, name, probe) {
                Ok(Lock::Taken) => Liveness::Alive,
                Ok(Lock::Free) => Liveness::Dead,
                // It ended while this look went on; it may stand under its other name, which was listed or not.
                Ok(Lock::Gone) if vfs.stat(&dir.join(format!("{name}.dead"))).is_ok() => Liveness::Dead,
                Ok(Lock::Gone) => continue,
                Err(e) if matches!(e.kind(), ErrorKind::Permission) => Liveness::Unknown,
                Err(e) => return Err(e),
            },
            _ => continue,
        };
        let info = read_info(vfs, dir, name);
        if !all.iter().any(|known: &Entry| known.info.session == info.session) {
            all.push(Entry { info, liveness });
        }
    }
    Ok(all)
}

/// Whether the session of this number lives, and who it is if its files are there.
///
/// Death is proven by its lock found free, or by the file that whoever found it so has left. No pid, no clock and no
/// heartbeat has a say in it.
///
/// # Errors
/// System errors.
///
/// # Blocking
/// A few milliseconds for a live session.
pub fn find(vfs: &dyn Vfs, dir: &Path, session: u64, probe: Probe) -> Result<(Liveness, Option<Info>)> {
    let suffix = format!("-{session:016x}");
    // Between the list and the look it may end and change its name, never more than once; and a list that is made while
    // it does may have neither name.
    for _ in 0..3 {
        let entries = vfs.list(dir).context("list", dir)?;
        let named = |end: &str| {
            let mut names = entries.iter().filter_map(|entry| entry.name.strip_suffix(end));
            names.find(|name| name.ends_with(&suffix) && !name.starts_with('.'))
        };
        if let Some(name) = named(".dead") {
            return Ok((Liveness::Dead, Some(read_info(vfs, dir, name))));
        }
        let Some(name) = named(".lock") else { continue };
        let liveness = match look_at(vfs, dir, name, probe) {
            Ok(Lock::Taken) => Liveness::Alive,
            Ok(Lock::Free) => Liveness::Dead,
            Ok(Lock::Gone) => continue,
            Err(e) if matches!(e.kind(), ErrorKind::Permission) => Liveness::Unknown,
            Err(e) => return Err(e),
        };
        return Ok((liveness, Some(read_info(vfs, dir, name))));
    }
    Ok((Liveness::Unknown, None))
}

/// Whether an info is of a session that has no lock file any more, under none of its names. It was under the first of them
/// before there was an info, and goes from one to the next, never back: looked for in that order it cannot slip by.
fn is_nobodys(vfs: &dyn Vfs, dir: &Path, name: &str) -> bool {
    let names = [format!(".new-{name}"), format!("{name}.lock"), format!("{name}.dead")];
    names
        .iter()
        .all(|name| matches!(vfs.stat(&dir.join(name)), Err(e) if e.kind() == std::io::ErrorKind::NotFound))
}

/// Removes what dead sessions have left, but for those that must be kept because something is still theirs; of those whose
/// info cannot be read nobody knows. An info whose lock file has gone says nothing to anybody, and goes too. Returns how many went.
///
/// # Errors
/// System errors; what was removed before stays so.
pub fn sweep(vfs: &dyn Vfs, dir: &Path, mut keep: impl FnMut(Option<&Info>) -> bool) -> Result<usize> {
    let mut swept = 0;
    for entry in vfs.list(dir).context("list", dir)? {
        let Some((name, end)) = entry.name.rsplit_once('.').filter(|(name, _)| !name.starts_with('.')) else {
            continue;
        };
        // One quick look: who seems to live for want of a second one is swept another time.
        let is_dead = match end {
            "dead" => true,
            "lock" => look_once(vfs, dir, name, Probe::MarkDead).is_ok_and(|lock| lock == Lock::Free),
            _ => false,
        };
        if end == "info" && is_nobodys(vfs, dir, name) {
            swept += usize::from(vfs.unlink(&dir.join(&entry.name)).is_ok());
        }
        if !is_dead || keep(try_read_info(vfs, dir, name).as_ref()) {
            continue;
        }
        // The proof goes last: an info without it could be a session's that is about to begin.
        for end in ["info", "dead"] {
            let path = dir.join(format!("{name}.{end}"));
            match vfs.unlink(&path) {
                Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                    return Err(Error::io(e, "remove", &path));
                }
                _ => {}
            }
        }
        swept += 1;
    }
    Ok(swept)
}

fn read_info(vfs: &dyn Vfs, dir: &Path, name: &str) -> Info {
    // Somebody lives there even if it cannot say who it is.
    try_read_info(vfs, dir, name).unwrap_or_else(|| Info::unreadable(name))
}

fn try_read_info(vfs: &dyn Vfs, dir: &Path, name: &str) -> Option<Info> {
    let read = || -> std::io::Result<Option<Info>> {
        let file = vfs.open(&dir.join(format!("{name}.info")), Open::Read)?;
        let len = usize::try_from(file.stat()?.len).unwrap_or(usize::MAX).min(INFO_LEN_MAX);
        let mut bytes = vec![0; len];
        let n = read_full(&*file, &mut bytes, 0)?;
        bytes.truncate(n);
        Ok(Info::decode(&bytes))
    };
    read().ok().flatten()
}

/// What a look at a session's lock finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lock {
    /// Nobody holds it: the session is dead, and was marked so if that was asked for.
    Free,
    /// Somebody does, the session or another prober.
    Taken,
    /// There is no file of this name any more.
    Gone,
}

/// A look that asks again before it says taken.
fn look_at(vfs: &dyn Vfs, dir: &Path, name: &str, probe: Probe) -> Result<Lock> {
    look(vfs, dir, name, probe, &ASK_AGAIN)
}

fn look_once(vfs: &dyn Vfs, dir: &Path, name: &str, probe: Probe) -> Result<Lock> {
    look(vfs, dir, name, probe, &[])
}

fn look(vfs: &dyn Vfs, dir: &Path, name: &str, probe: Probe, ask_again: &[Duration]) -> Result<Lock> {
    let path = dir.join(format!("{name}.lock"));
    let file = match vfs.open(&path, Open::ProbeLock) {
        Ok(file) => file,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Lock::Gone),
        Err(e) => return Err(Error::io(e, "probe the session file", &path)),
    };
    let mut taken = !file.try_lock().context("probe the session file", &path)?;
    for pause in ask_again {
        if !taken {
            break;
        }
        vfs.sleep(*pause);
        taken = !file.try_lock().context("probe the session file", &path)?;
    }
    if taken {
        return Ok(Lock::Taken);
    }
    if probe == Probe::MarkDead && same_file(vfs, &*file, &path) {
        // Failing to mark costs the next prober the same look; the lock has said what counts.
        let _ = vfs.rename(&path, &dir.join(format!("{name}.dead")), Existing::Keep);
    }
    file.unlock().context("release the session file", &path)?;
    Ok(Lock::Free)
}

fn same_file(vfs: &dyn Vfs, file: &dyn VfsFile, path: &Path) -> bool {
    matches!((file.stat(), vfs.stat(path)), (Ok(here), Ok(there)) if here.id == there.id)
}

/// Names the sessions for an error: which of them holds a lock is not known, so all that could are named.
pub fn name_holders(live: &[Info], log: &[u8; 16], except: u64) -> String {
    let mut named: Vec<String> = live
        .iter()
        .filter(|info| info.session != except && info.listings.iter().any(|l| &l.log == log))
        .map(ToString::to_string)
        .collect();
    if named.is_empty() {
        // A holder that has not appended yet is not listed.
        named = live.iter().filter(|info| info.session != except).map(ToString::to_string).collect();
    }
    match named.len() {
        0 => "another process".into(),
        1 => named.remove(0),
        _ => format!("one of: {}", named.join("; ")),
    }
}
