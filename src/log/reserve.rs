//! The reserve: zeros written ahead behind the frames, so that a sync has no new blocks and no new length to commit.
//!
//! ```text
//! frames │ zeros, on the device │ end of file      an append here makes no metadata: its sync costs half
//! ```
//! Whoever syncs for its commits extends it, just before a sync that is due anyway, and without LOCK: so only through
//! a handle that can do nothing but append. One that is stopped half-way and goes on later, when others have used the
//! reserve up, or have sealed the file, adds zeros behind whatever is there then. Zeros behind the frames mean nothing,
//! behind a Seal too, so every failure here is harmless. It goes again, under LOCK, with the Seal and at a clean close.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use super::bytes::all_zero;
use super::draft::Durability;
use super::engine::Log;
use super::lock::same;
use super::view::{Active, View};
use crate::session;
use crate::vfs::threads::Mutex;
use crate::vfs::{FileSystem, Open, Vfs, VfsFile, read_full};

/// The first extension of a file by a process, and the largest; each is twice the one before. Larger ones would spare
/// little, some 40 bytes of the file system's journal a commit, and what is left unused at the end was written as well.
const CHUNK: (u64, u64) = (64 << 10, 256 << 10);
/// An extension is due when less than this part of it is left.
const LEFT: u64 = 8;
/// How much one call writes; the file is locked in the kernel meanwhile, for those who commit too.
const PIECE: usize = 64 << 10;

/// File systems that write elsewhere whatever is written, or not at all: zeros written ahead gain nothing there.
const NO_GAIN: &[&str] = &["apfs", "bcachefs", "btrfs", "nilfs2", "refs", "zfs", "tmpfs", "ramfs", "memory"];

/// What one log knows of its reserve.
#[derive(Debug, Default)]
pub(super) struct Reserving {
    /// Whether a commit has asked for a sync since the last one.
    wanted: AtomicBool,
    /// Whether the file system gains by it: not asked yet, yes, no.
    pays: AtomicU8,
}

/// What one process does about the reserve of one segment.
#[derive(Debug)]
pub(super) struct Extender {
    state: Mutex<Extending>,
}

#[derive(Debug)]
struct Extending {
    /// Can do nothing but append.
    file: Option<Box<dyn VfsFile>>,
    chunk: u64,
    /// The last try failed; the next segment is another chance.
    failed: bool,
}

impl Default for Extender {
    fn default() -> Self {
        Extender { state: Mutex::new(Extending { file: None, chunk: CHUNK.0, failed: false }) }
    }
}

impl Reserving {
    /// A commit asks for this; a log that nobody syncs but at its quiet moments gains nothing by a reserve.
    pub(super) fn note(&self, durability: Durability) {
        if durability != Durability::Buffered {
            self.wanted.store(true, Ordering::Release);
        }
    }

    fn pays(&self, vfs: &dyn Vfs, dir: &std::path::Path) -> bool {
        match self.pays.load(Ordering::Acquire) {
            0 => {
                let pays = vfs.file_system(dir).is_ok_and(|found| {
                    let (FileSystem::Local(name) | FileSystem::Shared(name)) = found;
                    !NO_GAIN.contains(&name.to_ascii_lowercase().as_str())
                });
                self.pays.store(if pays { 1 } else { 2 }, Ordering::Release);
                pays
            }
            known => known == 1,
        }
    }
}

impl Log {
    /// Extends the reserve if little of it is left behind the frames. A sync follows. Neither LOCK nor a lane is held: no
    /// positioned write, no truncation here, nor anywhere outside LOCK.
    pub(super) fn extend_reserve(&self, active: &Active) {
        if !self.reserve.wanted.swap(false, Ordering::AcqRel) || !self.settings.reserve {
            return;
        }
        let mut extending = active.extender.state.lock();
        let Ok(stat) = active.file.stat() else { return };
        let end = active.header.offset(self.view.read().end_lpos());
        // Enough for the batch that finds the segment not quite full.
        let most = self.settings.segment_size + CHUNK.0 / LEFT;
        let until = (stat.len.max(end) + extending.chunk).min(most);
        let left = stat.len.saturating_sub(end);
        if left >= extending.chunk / LEFT || until <= stat.len || stat.links == 0 || extending.failed {
            return;
        }
        if !self.reserve.pays(&*self.vfs, self.paths.dir()) {
            extending.failed = true;
            return;
        }
        // The sync goes on without, whatever failed; a part of the zeros is as good as none.
        extending.failed = self.append_zeros(&mut extending, active, until - stat.len).is_err();
        extending.chunk = (extending.chunk * 2).min(CHUNK.1);
    }

    fn append_zeros(
        &self,
        extending: &mut Extending,
        active: &Active,
        mut len: u64,
    ) -> crate::error::Result<()> {
        use crate::error::{Context as _, Error};
        let path = &active.path;
        let file = match extending.file.take() {
            Some(file) => file,
            None => self.vfs.open(path, Open::Append).context("open", path)?,
        };
        // Another file in its place would take the zeros, and no harm, but they would be no use.
        if file.stat().context("look at", path)?.id != active.file.stat().context("look at", path)?.id {
            return Err(super::view::replaced(active, "another file stands in its place"));
        }
        let zeros = vec![0; PIECE];
        while len > 0 {
            let piece = zeros.get(..usize::try_from(len).unwrap_or(PIECE).min(PIECE)).unwrap_or_default();
            match file.append(piece).context("extend", path)? {
                0 => return Err(Error::io(std::io::ErrorKind::WriteZero.into(), "extend", path)),
                n => len = len.saturating_sub(n as u64),
            }
        }
        extending.file = Some(file);
        Ok(())
    }

    /// Cuts the reserve off behind the frames. LOCK is held, and the view stands at their end.
    ///
    /// Nothing but zeros is ever cut off; whatever fails leaves the reserve where it was, which is as good.
    pub(super) fn trim_reserve(&self, view: &View, active: &Active) {
        let Ok(stat) = active.file.stat() else { return };
        let reserve = stat.len.saturating_sub(view.at.offset);
        if reserve == 0 || stat.links == 0 || !same(&*self.vfs, &*active.file, &active.path).unwrap_or(false)
        {
            return;
        }
        let mut bytes = vec![0; usize::try_from(reserve).unwrap_or(0)];
        if read_full(&*active.file, &mut bytes, view.at.offset).is_ok() && all_zero(&bytes) {
            let _ = active.file.set_len(view.at.offset);
        }
    }

    /// At a clean close: who has written takes the reserve away, whoever made it, if LOCK is free and nobody else is
    /// here, whose next sync would only make it anew.
    pub(super) fn trim_reserve_at_close(&self) {
        let Some(mut writer) = self.writer.try_lock() else { return };
        let has_reserve = || {
            let view = self.view.read();
            let len =
                view.active.as_ref().and_then(|active| active.file.stat().ok()).map_or(0, |stat| stat.len);
            len > view.at.offset
        };
        if !writer.listed || !has_reserve() || self.someone_else_is_here() {
            return;
        }
        if let Ok((_held, view, _)) = self.enter(&mut writer, std::time::Duration::ZERO)
            && let Some(active) = &view.active
            && view.sealed.is_none()
        {
            self.trim_reserve(&view, active);
        }
    }

    fn someone_else_is_here(&self) -> bool {
        let except = self.session.as_ref().map_or(0, |session| session.id());
        session::is_listed_by_others(&*self.vfs, &self.sessions, &self.meta.log_id.0, except).unwrap_or(true)
    }
}
