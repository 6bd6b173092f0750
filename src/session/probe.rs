//! What the file system under a store does, found out by trying it: do locks exclude, do maps show writes. A session
//! asks once; a read-only open has no session and does not ask, because the answer takes a write.

use std::path::Path;

use crate::error::{Context as _, Result};
use crate::vfs::{Open, Vfs, VfsFile, read_full, write_full};

/// A file of two words: one is stored through the mapping, the other written by a call.
const WORDS: [u64; 2] = [0, 8];
const LEN: usize = 16;

/// Whether a second handle on a locked file is kept from locking it.
pub(super) fn locks_exclude(vfs: &dyn Vfs, locked: &Path) -> Result<bool> {
    let second = vfs.open(locked, Open::ProbeLock).context("probe the lock of", locked)?;
    let both = second.try_lock().context("probe the lock of", locked)?;
    if both {
        second.unlock().context("probe the lock of", locked)?;
    }
    Ok(!both)
}

/// Whether what is stored through a mapping is read by a call of another handle, and what that writes is seen in the
/// mapping; if not, why. `name`: the session's.
///
/// The file stands for a moment. What a process that was killed then has left is removed by the next that asks.
pub(super) fn maps_show_writes(
    vfs: &dyn Vfs,
    dir: &Path,
    name: &str,
    word: u64,
) -> std::result::Result<(), String> {
    sweep(vfs, dir);
    let path = dir.join(format!(".new-{name}.probe"));
    let tried = (|| -> std::io::Result<bool> {
        let file = vfs.open(&path, Open::Create)?;
        write_full(&*file, &[0; LEN], 0).map_err(|(_, e)| e)?;
        let other = vfs.open(&path, Open::Write)?;
        agree(&*file, &*other, word)
    })();
    // A name that stays is the next one's to remove.
    let _ = vfs.unlink(&path);
    match tried {
        Ok(true) => Ok(()),
        Ok(false) => Err("maps and calls do not see each other's writes".into()),
        Err(e) => Err(format!("files cannot be mapped: {e}")),
    }
}

fn agree(file: &dyn VfsFile, other: &dyn VfsFile, word: u64) -> std::io::Result<bool> {
    let [stored, written] = WORDS;
    let map = file.map(LEN)?;
    // Looked at first, so that a copy made at the first look stands out.
    if map.load(stored) != 0 || map.load(written) != 0 {
        return Ok(false);
    }
    map.store(stored, word);
    let mut bytes = [0; 8];
    let n = read_full(other, &mut bytes, stored)?;
    write_full(other, &(!word).to_le_bytes(), written).map_err(|(_, e)| e)?;
    Ok(n == bytes.len() && u64::from_le_bytes(bytes) == word && map.load(written) == !word)
}

/// Removes the files of sessions whose lock files have gone: nobody is at them any more.
fn sweep(vfs: &dyn Vfs, dir: &Path) {
    let Ok(entries) = vfs.list(dir) else { return };
    for entry in &entries {
        let Some(name) = entry.name.strip_prefix(".new-").and_then(|name| name.strip_suffix(".probe")) else {
            continue;
        };
        let lock = format!("{name}.lock");
        if !entries.iter().any(|other| other.name == lock) {
            let _ = vfs.unlink(&dir.join(&entry.name));
        }
    }
}
