//! Blobs that nothing names any more, and half-made ones of the dead, are removed.
//!
//! A blob goes only under LOCK, where every commit looks whether those that it names are there. What names one is in the log:
//! in what was there when the sweep began, which is read without a lock, or in what came since, which the state notes as it
//! folds it.

use std::collections::HashSet;
use std::path::PathBuf;

use super::Seq;
use super::blobs::BlobId;
use super::engine::Log;
use crate::error::{Context as _, Error, ErrorKind, Result};
use crate::session::{self, Liveness};
use crate::vfs::FileKind;

/// How many blobs are removed while LOCK is held.
const AT_ONCE: usize = 32;
/// How often the log may be folded anew while it is looked through.
const TRIES: u32 = 4;

/// What a sweep has come to.
#[derive(Debug, Default)]
pub(super) struct Swept {
    pub(super) removed: Vec<BlobId>,
    /// Files that could not be removed.
    pub(super) left: Vec<PathBuf>,
}

impl Log {
    /// Removes every blob that no event of the log names. COMPACT is held.
    pub(super) fn sweep_blobs(&self) -> Result<Swept> {
        let mut swept = Swept::default();
        self.sweep_unfinished_blobs(&mut swept)?;
        for _ in 0..TRIES {
            // Whoever names one from here on is noted.
            self.view.write().state.named = Some(HashSet::new());
            let there = self.all_blobs()?;
            let named = self.replay(HashSet::new, |named: &mut HashSet<BlobId>, _: Seq, commit| {
                named.extend(commit.events().flat_map(|event| event.blob_ids()));
            })?;
            let mut going: Vec<BlobId> = there.into_iter().filter(|id| !named.contains(id)).collect();
            let done = self.remove_unnamed(&mut going, &mut swept);
            self.view.write().state.named = None;
            if done? {
                return Ok(swept);
            }
        }
        Err(Error::new(ErrorKind::NotYet, "sweep", &self.paths.blobs()))
    }

    /// `false` = the state was folded anew meanwhile, and what it had noted is gone.
    fn remove_unnamed(&self, going: &mut Vec<BlobId>, swept: &mut Swept) -> Result<bool> {
        while !going.is_empty() {
            let mut writer = self.writer.lock();
            let entered = self.enter(&mut writer, self.settings.lock_timeout);
            let (held, view, _) = entered.map_err(|e| self.name_holder(e))?;
            let Some(named) = &view.state.named else { return Ok(false) };
            going.retain(|id| !named.contains(id));
            let now = going.split_off(going.len().saturating_sub(AT_ONCE));
            drop(view);
            let mut folders: Vec<PathBuf> = Vec::new();
            for id in now {
                let path = self.paths.blob(&id);
                match self.vfs.unlink(&path) {
                    Ok(()) => {
                        swept.removed.push(id);
                        folders.extend(path.parent().map(PathBuf::from));
                    }
                    Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
                    Err(_) => swept.left.push(path),
                }
            }
            drop(held);
            drop(writer);
            folders.sort_unstable();
            folders.dedup();
            folders.iter().try_for_each(|dir| self.vfs.sync_dir(dir).context("sync", dir))?;
        }
        Ok(true)
    }

    /// What sessions that are dead had begun to write as blobs.
    fn sweep_unfinished_blobs(&self, swept: &mut Swept) -> Result<()> {
        for dir in self.blob_folders()? {
            let mut going = Vec::new();
            for entry in self.vfs.list(&dir).context("list", &dir)? {
                let Some(name) = entry.name.strip_prefix(".new-") else { continue };
                let maker =
                    name.split_once('-').and_then(|(session, _)| u64::from_str_radix(session, 16).ok());
                let liveness = match maker {
                    Some(maker) => session::find(&*self.vfs, &self.sessions, maker, session::Probe::Look)?.0,
                    None => Liveness::Unknown,
                };
                let path = dir.join(&entry.name);
                // Who lives may be about to name it.
                if liveness == Liveness::Dead { going.push(path) } else { swept.left.push(path) }
            }
            swept.left.extend(self.remove_all(&dir, going)?.1);
        }
        Ok(())
    }

    fn blob_folders(&self) -> Result<Vec<PathBuf>> {
        let dir = self.paths.blobs();
        match self.vfs.list(&dir) {
            Ok(entries) => {
                let folders = entries.iter().filter(|entry| entry.kind == FileKind::Dir);
                Ok(folders.map(|entry| dir.join(&entry.name)).collect())
            }
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(e) => Err(Error::io(e, "list", &dir)),
        }
    }

    /// Every blob there is.
    fn all_blobs(&self) -> Result<Vec<BlobId>> {
        let mut all = Vec::new();
        for dir in self.blob_folders()? {
            let entries = self.vfs.list(&dir).context("list", &dir)?;
            let names = entries.iter().filter_map(|entry| blake3::Hash::from_hex(&entry.name).ok());
            all.extend(names.map(|hash| BlobId(hash.into())));
        }
        // What does not lie where it would be looked for is not ours to remove.
        all.retain(|id| self.vfs.stat(&self.paths.blob(id)).is_ok_and(|stat| stat.kind == FileKind::File));
        Ok(all)
    }
}
