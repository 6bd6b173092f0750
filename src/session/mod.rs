//! Sessions: one process's open of a store, alive exactly as long as the OS lock on its file is held.
//!
//! `sessions/<pid>-<random>.lock` is empty and locked for life; `.info` beside it says who it is and which logs it has
//! taken part in. Liveness is the lock and nothing else: no pid, no time, no heartbeat. `format-spec/format.md`,
//! section *Session*.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Context as _, Error, ErrorKind, Result};
use crate::vfs::threads::Mutex;
use crate::vfs::{Existing, Open, Vfs, VfsFile, read_full, write_full};

mod info;
mod probe;

pub use info::{Info, Listing};

/// How often a taken lock is asked again before its session counts as alive, and how long in between.
const ASK_AGAIN: [Duration; 3] =
    [Duration::from_millis(1), Duration::from_millis(2), Duration::from_millis(4)];
/// A session's info is never longer.
const INFO_LEN_MAX: usize = 64 << 10;

/// The live session of this process in one store.
#[derive(Debug)]
pub struct Session {
    vfs: Arc<dyn Vfs>,
    dir: PathBuf,
    name: String,
    lock: Box<dyn VfsFile>,
    info: Mutex<Info>,
    /// Whether maps show writes, once it has been asked.
    maps: Mutex<Option<std::result::Result<(), String>>>,
    id: u64,
    forks: u64,
}

impl Session {
    /// Starts a session in `dir` (`<store>/sessions`), which must exist.
    ///
    /// The lock is taken under a temporary name and renamed into place, so nobody ever finds the file free while its
    /// owner lives; if the path then holds another file, the start is repeated under a new name.
    ///
    /// # Errors
    /// [`ErrorKind::LocksDoNotExclude`] if a second handle gets the lock as well; system errors.
    pub fn start(vfs: Arc<dyn Vfs>, dir: &Path, label: &str) -> Result<Self> {
        let process = vfs.process();
        for _ in 0..8 {
            let mut random = [0; 8];
            vfs.random(&mut random).context("draw a session id", dir)?;
            let id = u64::from_le_bytes(random).max(1);
            let name = format!("{}-{id:016x}", process.pid);
            let info = Info {
                pid: process.pid,
                session: id,
                started: vfs.now(),
                version: env!("CARGO_PKG_VERSION").into(),
                label: label.chars().take(200).collect(),
                listings: Vec::new(),
            };
            let (temporary, path) = (dir.join(format!(".new-{name}")), dir.join(format!("{name}.lock")));
            let lock =
                vfs.open(&temporary, Open::CreateLock).context("create the session file", &temporary)?;
            if !lock.try_lock().context("lock the session file", &temporary)? {
                continue; // somebody probes temporary names; they must not, but it costs only a new name
            }
            let session = Session {
                vfs: Arc::clone(&vfs),
                dir: dir.into(),
                name,
                lock,
                info: Mutex::new(info),
                maps: Mutex::new(None),
                id,
                forks: process.forks,
            };
            let published = session.write_info(&session.info.lock()).and_then(|()| {
                vfs.rename(&temporary, &path, Existing::Keep).context("name the session file", &path)
            });
            if let Err(error) = published {
                // On a full disk, say: whoever could not start leaves nothing behind.
                let _ = vfs.unlink(&dir.join(format!(".new-{}.info", session.name)));
                let _ = vfs.unlink(&temporary);
                return Err(error);
            }
            let here = session.lock.stat().context("look at the session file", &path)?;
            if vfs.stat(&path).is_ok_and(|there| there.id == here.id) {
                if !probe::locks_exclude(&*vfs, &path)? {
                    return Err(Error::new(ErrorKind::LocksDoNotExclude, "write", dir));
                }
                return Ok(session);
            }
        }
        Err(Error::new(
            ErrorKind::StoreReplaced { what: "session files vanish as soon as they are made".into() },
            "start a session in",
            dir,
        ))
    }

    /// Its random number, as commits name it.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// What it calls itself.
    pub fn label(&self) -> String {
        self.info.lock().label.clone()
    }

    /// The process it belongs to, for people.
    pub fn pid(&self) -> u32 {
        self.info.lock().pid
    }

    /// Whether its file still stands under its name; a session whose file has gone proves nothing to others.
    pub fn stands(&self) -> bool {
        let path = self.dir.join(format!("{}.lock", self.name));
        matches!((self.lock.stat(), self.vfs.stat(&path)), (Ok(here), Ok(there)) if here.id == there.id)
    }

    /// Whether maps of the store's files show what calls write, and the other way round; if not, why. Tried once.
    ///
    /// # Errors
    /// The reason, for people.
    pub fn maps_show_writes(&self) -> std::result::Result<(), String> {
        let probe = || probe::maps_show_writes(&*self.vfs, &self.dir, &self.name, self.id);
        self.maps.lock().get_or_insert_with(probe).clone()
    }

    /// Lists a log, so that others may take this session as a witness of it. Only under that log's LOCK.
    pub fn list(&self, listing: Listing) -> Result<()> {
        let mut info = self.info.lock();
        if info.listings.contains(&listing) {
            return Ok(());
        }
        let mut next = info.clone();
        next.listings.retain(|old| old.log != listing.log);
        next.listings.push(listing);
        self.write_info(&next)?;
        *info = next;
        Ok(())
    }

    fn write_info(&self, info: &Info) -> Result<()> {
        let (temporary, path) =
            (self.dir.join(format!(".new-{}.info", self.name)), self.dir.join(format!("{}.info", self.name)));
        let bytes = info.encode();
        match self.vfs.unlink(&temporary) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                return Err(Error::io(e, "replace", &temporary));
            }
            _ => {}
        }
        let file = self.vfs.open(&temporary, Open::Create).context("create", &temporary)?;
        write_full(&*file, &bytes, 0).map_err(|(_, e)| Error::io(e, "write", &temporary))?;
        drop(file);
        self.vfs.rename(&temporary, &path, Existing::Replace).context("publish", &path)
    }
}

impl Drop for Session {
    /// Ends the session. Where it has taken part in a log, `.dead` stays as the proof of its end.
    fn drop(&mut self) {
        if self.vfs.forks() != self.forks {
            return; // the parent's; its descriptor was closed by the fork handler
        }
        let named = |end: &str| self.dir.join(format!("{}.{end}", self.name));
        let took_part = !self.info.lock().listings.is_empty();
        // Names first: an opener must never find the file free under its name while nothing proves it dead.
        let _ = if took_part {
            self.vfs.rename(&named("lock"), &named("dead"), Existing::Keep)
        } else {
            self.vfs.unlink(&named("lock"))
        };
        let _ = self.vfs.unlink(&named("info"));
        let _ = self.lock.unlock();
    }
}

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
        match is_free(vfs, dir, name, probe) {
            Ok(true) => {}
            // What cannot be probed is not dead.
            Err(e) if !matches!(e.kind(), ErrorKind::Permission) => return Err(e),
            Ok(false) | Err(_) => live.push(read_info(vfs, dir, name)),
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
        match is_free(vfs, dir, name, Probe::MarkDead) {
            Ok(false) => return Ok(true),
            Ok(true) => {}
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

fn read_info(vfs: &dyn Vfs, dir: &Path, name: &str) -> Info {
    let read = || -> std::io::Result<Option<Info>> {
        let file = vfs.open(&dir.join(format!("{name}.info")), Open::Read)?;
        let len = usize::try_from(file.stat()?.len).unwrap_or(usize::MAX).min(INFO_LEN_MAX);
        let mut bytes = vec![0; len];
        let n = read_full(&*file, &mut bytes, 0)?;
        bytes.truncate(n);
        Ok(Info::decode(&bytes))
    };
    // Somebody lives there even if it cannot say who it is.
    read().ok().flatten().unwrap_or_else(|| Info::unreadable(name))
}

/// Whether nobody holds the session's lock; then it is dead, and may be marked so while the lock is held here.
fn is_free(vfs: &dyn Vfs, dir: &Path, name: &str, probe: Probe) -> Result<bool> {
    let path = dir.join(format!("{name}.lock"));
    let file = match vfs.open(&path, Open::ProbeLock) {
        Ok(file) => file,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(true),
        Err(e) => return Err(Error::io(e, "probe the session file", &path)),
    };
    let mut taken = !file.try_lock().context("probe the session file", &path)?;
    for pause in ASK_AGAIN {
        if !taken {
            break;
        }
        vfs.sleep(pause);
        taken = !file.try_lock().context("probe the session file", &path)?;
    }
    if taken {
        return Ok(false);
    }
    if probe == Probe::MarkDead && same_file(vfs, &*file, &path) {
        // Failing to mark costs the next prober the same look; the lock has said what counts.
        let _ = vfs.rename(&path, &dir.join(format!("{name}.dead")), Existing::Keep);
    }
    file.unlock().context("release the session file", &path)?;
    Ok(true)
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
