//! New files: written whole and synced before anybody can find them under their name.

use std::path::Path;

use crate::error::{Context as _, Error, Result};
use crate::vfs::{Existing, Open, Vfs, sync_name, write_full};

/// Makes a file with these contents and syncs it; its name is not durable yet. Nothing stays of a failure: half a file
/// is worth nothing, and on a full disk it takes room.
pub(crate) fn write_new(vfs: &dyn Vfs, path: &Path, bytes: &[u8]) -> Result<()> {
    let file = vfs.open(path, Open::Create).context("create", path)?;
    let written = write_full(&*file, bytes, 0)
        .map_err(|(_, e)| Error::io(e, "write", path))
        .and_then(|()| file.sync_data().context("sync", path));
    drop(file);
    if written.is_err() {
        let _ = vfs.unlink(path);
    }
    written
}

/// [`write_new`] under a temporary name, then its name, which must be free; all durable when this returns.
pub(crate) fn publish(vfs: &dyn Vfs, temporary: &Path, path: &Path, bytes: &[u8]) -> Result<()> {
    write_new(vfs, temporary, bytes)?;
    give_name(vfs, temporary, path)
}

/// Gives a file that is whole and synced its name, which must be free; durable when this returns. Nothing stays of a failure.
pub(crate) fn give_name(vfs: &dyn Vfs, temporary: &Path, path: &Path) -> Result<()> {
    if let Err(e) = vfs.rename(temporary, path, Existing::Keep) {
        let _ = vfs.unlink(temporary);
        return Err(Error::io(e, "publish", path));
    }
    sync_name(vfs, path).context("sync", path)
}
