//! One lock for each path outside the store that several processes write: `paths/<00..ff>`, made when it is first asked for.

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::Workspace;
use crate::error::{Context as _, Error, ErrorKind, Result};
use crate::log::{Held, LockFile, LockRank};
use crate::vfs::Open;

/// How often a lock file is opened anew that somebody has deleted or replaced.
const TRIES: usize = 8;

impl Workspace {
    /// Takes the lock of a path, whose folder must be there and free of links. All who spell the path differently and mean
    /// the same file take the same lock; others may share it. It comes before every lock of a workspace.
    ///
    /// # Errors
    /// [`ErrorKind::Busy`] if another process holds it for the whole time-out; system errors.
    pub(crate) fn lock_path(&self, path: &Path) -> Result<Held> {
        let vfs = &self.store.vfs;
        let folder = self.store.root.join("paths");
        let lock = folder.join(format!("{:02x}", self.number_of(path)?));
        let patience = self.log.settings().lock_timeout;
        for _ in 0..TRIES {
            let file = match LockFile::open(vfs, lock.clone(), LockRank::Path) {
                Err(e) if e.io_error().is_some_and(|e| e.kind() == io::ErrorKind::NotFound) => {
                    match vfs.create_dir(&folder) {
                        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => {
                            return Err(Error::io(e, "create", &folder));
                        }
                        _ => {}
                    }
                    match vfs.open(&lock, Open::Create) {
                        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => {
                            return Err(Error::io(e, "create", &lock));
                        }
                        _ => continue,
                    }
                }
                opened => opened?,
            };
            let held = file.acquire(patience).map_err(|e| match e.kind() {
                ErrorKind::Busy { waited_ms, .. } => {
                    let holder = format!("another process that is writing {}", path.display());
                    Error::new(ErrorKind::Busy { holder, waited_ms: *waited_ms }, "lock", &lock)
                }
                _ => e,
            })?;
            if Arc::clone(&file).stands()? {
                return Ok(held);
            }
        }
        let what = "a lock file is replaced again and again".into();
        Err(Error::new(ErrorKind::StoreReplaced { what }, "lock", &lock))
    }

    /// Of the folder's identity, and of the name as no file system tells two names apart that are one.
    fn number_of(&self, path: &Path) -> Result<u8> {
        let dir = path.parent().unwrap_or(path);
        let id = self.store.vfs.stat(dir).context("look at", dir)?.id;
        let mut hasher = blake3::Hasher::new();
        hasher.update(&id.device.to_le_bytes()).update(&id.inode.to_le_bytes());
        let name = path.file_name().unwrap_or_default().as_encoded_bytes();
        // What folding and composing make of other letters differs between file systems: those share one lock a folder.
        if name.is_ascii() {
            hasher.update(&name.to_ascii_lowercase());
        }
        Ok(hasher.finalize().as_bytes()[0])
    }
}
