//! Entering: LOCK is taken or taken up, the files under it are looked at, the bytes are read to their end, and what a
//! dead holder left is mended. Behind that the view stands where the next frame goes.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::classify::{Hints, Place, Verdict, classify};
use super::control::Block;
use super::engine::{Log, Writer};
use super::format::{CONTROL_WORDS, WORD_DIRTY, WORD_DURABLE, WORD_HOLDER, WORD_TAIL};
use super::lock::{Held, LockFile, same};
use super::reader;
use super::scan;
use super::view::{Active, Tail, View, replaced};
use crate::error::{Context as _, Error, ErrorKind, Result};
use crate::session::Listing;
use crate::vfs::read_full;
use crate::vfs::threads::RwLockWriteGuard;

/// Who waits for LOCK for longer makes sure that it says so in the right block.
const LOST_FOR: Duration = Duration::from_millis(10);
/// How old a comparison of open files with their paths may be.
const PATHS_CHECKED_FOR: Duration = Duration::from_millis(100);

/// LOCK, the view, and the length of the active file, whose frames end where the view stands.
pub(super) type Entered<'a> = (Held, RwLockWriteGuard<'a, View>, u64);

/// For how long who must not wait tries again: mostly others hold LOCK for a few microseconds, and to hand the commit to another
/// thread costs more than that.
const HURRY: Duration = Duration::from_micros(100);

impl Log {
    /// Takes LOCK and reads on to the very end, mending what a dead holder left. The caller holds the in-process mutex.
    ///
    /// `patience`: how long to wait for LOCK; zero tries once.
    pub(super) fn enter<'a>(&'a self, writer: &mut Writer, patience: Duration) -> Result<Entered<'a>> {
        self.enter_as(writer, patience, true)
    }

    /// The same for repair, which works on bytes and need not understand them.
    pub(super) fn enter_to_repair<'a>(
        &'a self,
        writer: &mut Writer,
        patience: Duration,
    ) -> Result<Entered<'a>> {
        self.enter_as(writer, patience, false)
    }

    fn enter_as<'a>(
        &'a self,
        writer: &mut Writer,
        patience: Duration,
        understanding: bool,
    ) -> Result<Entered<'a>> {
        let lock = self.may_write()?;
        let now = self.vfs.monotonic();
        writer.before = std::mem::replace(&mut writer.entered, now);
        if understanding {
            if let Some((held, file_len)) = writer.take_up(now) {
                return Ok((held, self.view.write(), file_len));
            }
        } else {
            writer.let_go();
        }
        let held = match writer.take_up_to_look(now) {
            Some(held) => held,
            None => {
                self.keeping.is_over();
                self.take_lock(lock, writer, patience)?
            }
        };
        if lock.is_deleted()? {
            return Err(Error::new(
                ErrorKind::StoreReplaced { what: "LOCK was deleted".into() },
                "lock",
                lock.path(),
            ));
        }
        self.take_block(writer)?;
        // A word left by a holder that died in the middle of a write: there may be something behind the end.
        let dirty = writer.words(self).is_some_and(|block| block.load(WORD_DIRTY) != 0);
        let mut view = self.view.write();
        self.take_up_repair(&mut view)?;
        // Most of what is new, for one call; where it ends is looked for below.
        self.read_told(&mut view);
        let mut rounds = 0;
        let file_len = loop {
            if view.damage.is_some() {
                view.check_all_was_read("write")?;
            }
            rounds += 1;
            if rounds > 64 {
                return Err(Error::new(ErrorKind::NotYet, "settle the end of", &self.paths.log()));
            }
            let tail = self.follow(&mut view)?;
            if understanding {
                self.check_understood(&view)?;
            }
            match tail {
                Tail::Clean { len }
                    if writer.listed && !dirty && !self.is_behind_durable_word(&view)
                        || self.is_zero_to_the_end(&view, len, dirty)? =>
                {
                    break len;
                }
                Tail::Clean { .. } | Tail::Broken => {
                    self.may_wait(writer)?;
                    self.mend(writer, &mut view)?;
                }
                Tail::Sealed { .. } if view.too_new.is_some() => break 0,
                Tail::Sealed { seal, last_crc } => {
                    self.may_wait(writer)?;
                    self.finish_rotation(writer, &mut view, &seal, last_crc)?
                }
            }
        };
        let newer = view.active.as_ref().filter(|active| active.header.ro_compat != 0).map(|active| {
            let what = format!("writing needs unknown features {:#x}", active.header.ro_compat);
            super::view::newer(&active.path, active.header.first_seq, &what)
        });
        if let Some(finding) = view.too_new.as_ref().or(newer.as_ref()) {
            return Err(super::view::too_new(finding, "write"));
        }
        self.check_paths(writer, &view, PATHS_CHECKED_FOR).map_err(|e| self.lost_or(e))?;
        self.tell_tail(writer, &view);
        if dirty && let Some(block) = writer.words(self) {
            block.store(WORD_DIRTY, 0);
        }
        Ok((held, view, file_len))
    }

    /// Whether something may be synced or mended now.
    pub(super) fn may_wait(&self, writer: &Writer) -> Result<()> {
        if !writer.hurries {
            return Ok(());
        }
        let busy = ErrorKind::Busy { holder: String::new(), waited_ms: 0 };
        Err(Error::new(busy, "commit to", self.paths.dir()))
    }

    /// Takes LOCK from the system, and says whose it is.
    fn take_lock(&self, lock: &Arc<LockFile>, writer: &mut Writer, patience: Duration) -> Result<Held> {
        self.give_way(writer);
        let held = if patience.is_zero() {
            let busy =
                || Error::new(ErrorKind::Busy { holder: String::new(), waited_ms: 0 }, "lock", lock.path());
            let mut held = lock.try_acquire()?;
            if held.is_none() && writer.hurries {
                let start = self.vfs.monotonic();
                while held.is_none() && self.vfs.monotonic().saturating_sub(start) < HURRY {
                    self.vfs.sleep(Duration::ZERO);
                    held = lock.try_acquire()?;
                }
            }
            held.ok_or_else(busy)?
        } else {
            let mut block: Option<Arc<Block>> = None;
            let mut announced = false;
            lock.acquire_by(patience, |waited, pause| {
                if !self.uses_words() {
                    self.vfs.sleep(pause);
                    return false;
                }
                if block.is_none() || waited > LOST_FOR {
                    self.control.look_again(&self.vfs, &self.paths, self.meta.log_id, self.lock.as_ref());
                    block = self.control.get();
                }
                match &block {
                    Some(block) => self.want_lock(block, pause, &mut announced),
                    None => {
                        self.vfs.sleep(pause);
                        false
                    }
                }
            })?
        };
        writer.since = self.vfs.monotonic();
        // Having to wait does not end a burst.
        writer.before += writer.since.saturating_sub(writer.entered);
        writer.entered = writer.since;
        Ok(held)
    }

    /// The control block of this acquisition; with the per-commit words in use there must be one. LOCK is held.
    ///
    /// It has a time of its own, apart from the other paths': a lock that is kept all the time must not keep a block that
    /// the others have left, in which they would call in vain.
    pub(super) fn take_block(&self, writer: &mut Writer) -> Result<()> {
        let now = writer.entered;
        let is_recent = |then: Duration| now.saturating_sub(then) < PATHS_CHECKED_FOR;
        let known = writer.block.is_some() || !self.uses_words();
        if !known || !writer.block_looked.is_some_and(is_recent) {
            writer.block_looked = Some(now);
            writer.block = if self.uses_words() {
                let block =
                    self.control.make_sure(&self.vfs, &self.paths, self.meta.log_id, self.lock.as_ref())?;
                let listing = Listing { log: self.meta.log_id.0, control: block.id() };
                if writer.listed
                    && let Some(session) = &self.session
                {
                    session.list(listing)?;
                }
                Some(block)
            } else {
                self.control.look_again(&self.vfs, &self.paths, self.meta.log_id, self.lock.as_ref());
                self.control.get()
            };
        }
        let id = self.session.as_ref().map_or(0, |session| session.id());
        if let Some(block) = writer.words(self)
            && block.load(WORD_HOLDER[0]) != id
        {
            block.store(WORD_HOLDER[0], id);
            block.store(WORD_HOLDER[1], self.vfs.now());
        }
        Ok(())
    }

    /// Whether META says that the control block's per-commit words are kept by every writer of this log.
    pub(super) fn uses_words(&self) -> bool {
        self.meta.control == CONTROL_WORDS
    }

    /// Tells others where the log ends. LOCK is held.
    pub(super) fn tell_tail(&self, writer: &mut Writer, view: &View) {
        if let Some(block) = writer.words(self) {
            let tail = block.word_of(view.end_lpos());
            if block.load(WORD_TAIL) != tail {
                block.store(WORD_TAIL, tail);
            }
            writer.tail = tail;
            self.seen.store(tail, Ordering::Release);
        }
    }

    /// Reads on to what others have appended, where the view's lock is held already.
    pub(super) fn look_on(&self, view: &mut View) -> Result<()> {
        if view.is_whole() && !self.read_told(view) {
            self.follow(view)?;
        }
        Ok(())
    }

    /// An event that must be understood and is not makes the log read-only for this process.
    fn check_understood(&self, view: &View) -> Result<()> {
        let Some(super::state::Unknown { seq, kind, version }) = view.state.unknown() else { return Ok(()) };
        Err(Error::new(ErrorKind::UnknownEvent { seq, kind, version }, "write", self.paths.dir()))
    }

    /// An opener without a witness looks on to the end of the file.
    fn is_zero_to_the_end(&self, view: &View, len: u64, dirty: bool) -> Result<bool> {
        let Some(active) = &view.active else { return Ok(false) };
        // What was zero when the log was opened has not been written since but from the end of the frames on, or by a
        // holder that died at it.
        let from = if dirty { view.at.offset } else { view.at.offset.max(view.zeros_end) };
        let mut rest = vec![0; usize::try_from(len.saturating_sub(from)).unwrap_or(0)];
        read_full(&*active.file, &mut rest, from).context("read", &active.path)?;
        Ok(!self.is_behind_durable_word(view) && super::bytes::all_zero(&rest))
    }

    /// Whether the log ends before what was acknowledged as durable.
    fn is_behind_durable_word(&self, view: &View) -> bool {
        let beyond = view.end_lpos() + 1;
        self.control.with(|block| block.believed(WORD_DURABLE, beyond)).flatten().is_some()
    }

    /// The control block's durable word, if it says anything.
    pub(super) fn durable_word(&self) -> Option<u64> {
        self.control.with(|block| block.believed(WORD_DURABLE, 0)).flatten()
    }

    /// Compares LOCK's and the active segment's handle with their paths, if the last time is longer ago than this.
    pub(super) fn check_paths(&self, writer: &mut Writer, view: &View, older_than: Duration) -> Result<()> {
        let now = self.vfs.monotonic();
        writer.looked = now;
        if writer.paths_checked.is_some_and(|then| now.saturating_sub(then) < older_than) {
            return Ok(());
        }
        let Some(active) = &view.active else { return Ok(()) };
        self.files_stand(active)?;
        view.last_stands(active)?;
        writer.paths_checked = Some(now);
        Ok(())
    }

    /// Whether LOCK and the active segment are still what their paths lead to.
    pub(super) fn files_stand(&self, active: &Active) -> Result<()> {
        if let Some(lock) = &self.lock
            && !lock.stands()?
        {
            let what = "another file stands in LOCK's place".into();
            return Err(Error::new(ErrorKind::StoreReplaced { what }, "lock", lock.path()));
        }
        if !same(&*self.vfs, &*active.file, &active.path)? {
            return Err(replaced(active, "another file, or none, stands in its place"));
        }
        Ok(())
    }

    /// Says what is at the end, and heals it if it is torn. LOCK is held.
    fn mend(&self, writer: &mut Writer, view: &mut RwLockWriteGuard<'_, View>) -> Result<()> {
        let Some(active) = view.active.clone() else {
            let what = "no segment of this log can be read".into();
            return Err(Error::new(ErrorKind::NotFound { what }, "write", &self.paths.log()));
        };
        // What is read by the path below is judged, and mended, as what is open.
        self.files_stand(&active).map_err(|e| self.lost_or(e))?;
        let bytes = reader::read_file(&*self.vfs, &active.path).context("read", &active.path)?;
        let summary = scan::segment(&bytes, &active.header, &active.salt, |_| {});
        let durable = self.durable_word();
        let hints = Hints {
            vouched: self.vouched_beside(view.vouched)?,
            durable_offset: durable.map(|lpos| active.header.offset(lpos)),
        };
        let verdict = classify(&summary, Place::Last, hints);
        if summary.end.offset != view.at.offset {
            return Err(replaced(&active, "its frames are not the ones that were read"));
        }
        match verdict {
            v if v.is_torn() => self.heal(writer, view, &active, &bytes, &summary, verdict),
            Verdict::CleanEnd | Verdict::NulTail => Ok(()),
            _ => {
                let finding =
                    reader::describe(&active.path, &active.header, &summary, verdict, hints.vouched);
                if let Some(finding) = finding {
                    self.note(finding.clone());
                    *(if verdict == Verdict::TooNew { &mut view.too_new } else { &mut view.damage }) =
                        Some(finding.clone());
                    if verdict == Verdict::TooNew {
                        let have = super::format::LEVEL.into();
                        let kind = ErrorKind::TooNew { what: finding.message, need: have + 1, have };
                        return Err(Error::new(kind, "write", &active.path));
                    }
                    return Err(Error::new(ErrorKind::Damaged(Box::new(finding)), "write", &active.path));
                }
                Ok(())
            }
        }
    }

    /// Mends at open if the lock happens to be free.
    pub(super) fn try_mend(&self) -> Result<()> {
        if self.session.is_none() {
            return Ok(());
        }
        let Some(mut writer) = self.writer.try_lock() else { return Ok(()) };
        self.enter(&mut writer, Duration::ZERO).map(drop)
    }
}
