//! Sessions: one process's open of a store, alive exactly as long as the OS lock on its file is held.
//!
//! `sessions/<pid>-<random>.lock` is empty and locked for life; `.info` beside it says who it is and which logs it has
//! taken part in. Liveness is the lock and nothing else: no pid, no time, no heartbeat. `format-spec/format.md`,
//! section *Session*.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Context as _, Error, ErrorKind, Result};
use crate::vfs::threads::Mutex;
use crate::vfs::{Existing, Open, Vfs, VfsFile, sync_name, write_full};

mod info;
mod liveness;
mod probe;

pub use info::{Info, Listing};
pub(crate) use liveness::is_listed_by_others;
pub use liveness::{Entry, Liveness, Probe, all, find, has_witness, live, name_holders, sweep};

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
                owns: Vec::new(),
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

    /// Says that it may own something in a log from now on, durably: what is said to be this session's must find the proof of
    /// its end after a power cut too, and whoever removes that must know where to look first.
    ///
    /// # Errors
    /// [`ErrorKind::StoreReplaced`] if its file has gone: such a session can own nothing. System errors.
    ///
    /// # Blocking
    /// Three syncs, the first time for each log.
    pub fn will_own(&self, log: [u8; 16]) -> Result<()> {
        if !self.stands() {
            let what = "the session's file has gone, so that others cannot see that it lives".into();
            return Err(Error::new(ErrorKind::StoreReplaced { what }, "own anything in", &self.dir));
        }
        let mut info = self.info.lock();
        if info.owns.contains(&log) {
            return Ok(());
        }
        let mut next = info.clone();
        next.owns.push(log);
        self.write_info(&next)?;
        for end in ["info", "lock"] {
            let path = self.dir.join(format!("{}.{end}", self.name));
            sync_name(&*self.vfs, &path).context("make durable", &path)?;
        }
        *info = next;
        Ok(())
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

/// Leaves the proof, durable but for its names, that a session is dead which has never been here: of a store that was made
/// from another's files, so that what was that session's is not its own for ever.
///
/// # Errors
/// System errors.
pub(crate) fn prove_dead(vfs: &dyn Vfs, dir: &Path, info: &Info) -> Result<()> {
    let name = format!("{}-{:016x}", info.pid, info.session);
    write_new(vfs, &dir.join(format!("{name}.info")), &info.encode())?;
    write_new(vfs, &dir.join(format!("{name}.dead")), &[])
}

fn write_new(vfs: &dyn Vfs, path: &Path, bytes: &[u8]) -> Result<()> {
    let file = vfs.open(path, Open::Create).context("create", path)?;
    write_full(&*file, bytes, 0).map_err(|(_, e)| Error::io(e, "write", path))?;
    file.sync_data().context("sync", path)
}

impl Drop for Session {
    /// Ends the session. Where it may own something, `.dead` stays as the proof of its end, and `.info` says whose.
    fn drop(&mut self) {
        if self.vfs.forks() != self.forks {
            return; // the parent's; its descriptor was closed by the fork handler
        }
        let named = |end: &str| self.dir.join(format!("{}.{end}", self.name));
        let may_own = !self.info.lock().owns.is_empty();
        // Names first: an opener must never find the file free under its name while nothing proves it dead.
        if may_own {
            let _ = self.vfs.rename(&named("lock"), &named("dead"), Existing::Keep);
        } else {
            let _ = self.vfs.unlink(&named("lock"));
            let _ = self.vfs.unlink(&named("info"));
        }
        let _ = self.lock.unlock();
    }
}
