//! Durability: who has synced what, the watermark, Marks, and what a failed sync means.
//!
//! A sync counts only for bytes that went through the very descriptor it is called on (or were vouched for before):
//! an earlier failure may have been reported to another descriptor, and forgotten. See [`Log::own_bytes`].

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use super::control_frame::Control;
use super::engine::{Log, Undoing};
use super::finding::{Finding, Severity};
use super::format::{CONTROL_LEN, WORD_DURABLE, WORD_POISON};
use super::lock::{LockFile, Rank};
use super::paths::Paths;
use super::view::{Active, View};
use super::{Seq, control};
use crate::error::{Context as _, Error, ErrorKind, Result};
use crate::vfs::threads::Mutex;
use crate::vfs::{Open, Vfs, read_full, write_full};

/// How long a log must be quiet before its end is vouched for by a Mark.
pub(super) const QUIET: Duration = Duration::from_secs(1);

/// What this process knows to be durable.
#[derive(Debug)]
pub(super) struct Durable {
    lpos: AtomicU64,
    seq: AtomicU64,
    /// One sync at a time in this process; whoever waits here is covered by the next one.
    gate: Mutex<()>,
    poisoned: AtomicBool,
    poison_unwritten: AtomicBool,
    /// When an `Interval` commit is to be synced.
    sync_at: Deadline,
    /// When the quiet second ends.
    mark_at: Deadline,
    /// Whether something came due earlier than the housekeeping thread was told.
    news: AtomicBool,
    /// Whether the folders that lead to the log have been synced by this process.
    names_synced: AtomicBool,
}

/// A time of [`crate::vfs::Vfs::monotonic`] in nanoseconds, or none (0). Set by every commit, so without a lock.
#[derive(Debug, Default)]
struct Deadline(AtomicU64);

impl Deadline {
    fn word(at: Duration) -> u64 {
        u64::try_from(at.as_nanos()).unwrap_or(u64::MAX).max(1)
    }

    fn get(&self) -> Option<Duration> {
        Some(self.0.load(Ordering::Acquire)).filter(|at| *at != 0).map(Duration::from_nanos)
    }

    fn is_over(&self, now: Duration) -> bool {
        self.get().is_some_and(|at| at <= now)
    }

    /// Sets it; returns whether there was none.
    fn set(&self, at: Duration) -> bool {
        self.0.swap(Self::word(at), Ordering::AcqRel) == 0
    }

    /// Sets it unless there is an earlier one; returns whether it did.
    fn set_earlier(&self, at: Duration) -> bool {
        let at = Self::word(at);
        let lower = |now| (now == 0 || at < now).then_some(at);
        self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, lower).is_ok()
    }

    /// Clears it, unless it has been set anew since it was `seen`.
    fn clear(&self, seen: Option<Duration>) {
        if let Some(seen) = seen {
            let _ = self.0.compare_exchange(Self::word(seen), 0, Ordering::AcqRel, Ordering::Acquire);
        }
    }
}

impl Durable {
    pub(super) fn new(seq: u64, poisoned: bool) -> Self {
        Durable {
            lpos: AtomicU64::new(0),
            seq: AtomicU64::new(seq),
            gate: Mutex::new(()),
            poisoned: AtomicBool::new(poisoned),
            poison_unwritten: AtomicBool::new(false),
            sync_at: Deadline::default(),
            mark_at: Deadline::default(),
            news: AtomicBool::new(false),
            names_synced: AtomicBool::new(false),
        }
    }

    pub(super) fn seq(&self) -> u64 {
        self.seq.load(Ordering::Acquire)
    }

    pub(super) fn covers(&self, lpos: u64) -> bool {
        self.lpos.load(Ordering::Acquire) >= lpos
    }

    pub(super) fn raise_seq(&self, seq: u64) {
        if self.seq() >= seq {
            return;
        }
        self.seq.fetch_max(seq, Ordering::AcqRel);
    }

    pub(super) fn raise(&self, lpos: u64, seq: u64) {
        self.seq.fetch_max(seq, Ordering::AcqRel);
        self.lpos.fetch_max(lpos, Ordering::AcqRel);
    }

    pub(super) fn is_poisoned(&self) -> bool {
        self.poisoned.load(Ordering::Acquire)
    }

    /// Somebody's sync has failed.
    pub(super) fn find_poison(&self) {
        self.poisoned.store(true, Ordering::Release);
    }

    /// A recovery has made everything durable that can be read.
    pub(super) fn clear_poison(&self) {
        self.poison_unwritten.store(false, Ordering::Release);
        self.poisoned.store(false, Ordering::Release);
    }

    /// Asks for a sync within so many milliseconds.
    pub(super) fn want_within(&self, now: Duration, ms: u32) {
        if self.sync_at.set_earlier(now + Duration::from_millis(ms.into())) {
            self.news.store(true, Ordering::Release);
        }
    }

    pub(super) fn take_news(&self) -> bool {
        self.news.load(Ordering::Acquire) && self.news.swap(false, Ordering::AcqRel)
    }

    /// Starts the quiet second anew.
    pub(super) fn note_append(&self, now: Duration) {
        // The thread need not hear of a second that starts anew: it finds out when it comes for the old one.
        if self.mark_at.set(now + QUIET) {
            self.news.store(true, Ordering::Release);
        }
    }

    /// When something is to be done next.
    pub(super) fn next_due(&self) -> Option<Duration> {
        self.sync_at.get().into_iter().chain(self.mark_at.get()).min()
    }

    /// A process that could not leave POISON tries again whenever it is asked to write.
    pub(super) fn retry_poison_file(&self, log: &Log) {
        if self.poison_unwritten.load(Ordering::Acquire)
            && write_poison(log, "an earlier failed sync").is_ok()
        {
            self.poison_unwritten.store(false, Ordering::Release);
        }
    }
}

impl Log {
    /// Makes everything committed so far durable, whoever committed it.
    ///
    /// # Errors
    /// [`ErrorKind::DurabilityLost`] and system errors.
    ///
    /// # Blocking
    /// For a sync, and shortly for LOCK if this process has not written to the segment before.
    pub fn flush(&self) -> Result<()> {
        self.check_writable()?;
        let due = self.durable.sync_at.get();
        self.refresh()?;
        let (end, seq) = {
            let view = self.view.read();
            (view.end_lpos(), view.state.last().0)
        };
        self.make_durable(end, seq)?;
        self.durable.sync_at.clear(due);
        Ok(())
    }

    /// Returns once everything up to `lpos` (events up to `seq`) is durable, unless the log moves to another file
    /// meanwhile ([`Log::make_durable`]). No lock of the engine is held.
    pub(super) fn sync_up_to(&self, lpos: u64, seq: u64) -> Result<()> {
        if self.durable.covers(lpos) {
            return Ok(());
        }
        let _gate = self.durable.gate.lock();
        if self.durable.covers(lpos) {
            return Ok(());
        }
        self.check_poison()?;
        let (active, end, last) = loop {
            let (active, end, last, sealed) = {
                let view = self.view.read();
                (view.active.clone(), view.end_lpos(), view.state.last().0, view.durable_before())
            };
            // Whatever lies before a live segment was synced before that segment's header was written.
            self.durable.raise(sealed.0, sealed.1);
            if self.durable.covers(lpos) {
                return Ok(());
            }
            if end < lpos {
                return Err(self.lost()); // a recovery could not read it again
            }
            if let Some(active) = active.filter(|active| active.owns_bytes()) {
                break (active, end, last);
            }
            let mut writer = self.writer.lock();
            let (_held, view, _) =
                self.enter(&mut writer, self.settings.lock_timeout).map_err(|e| self.name_holder(e))?;
            if let Some(active) = view.active.clone() {
                self.own_bytes(&view, &active)?;
            }
        };
        self.files_stand(&active)?;
        debug_assert!(last >= seq, "the tail lies behind what was to be synced");
        self.sync_alone(&active, end, last)
    }

    /// Syncs the segment in the lane, so that a failure, which some systems report to one caller only, is in POISON
    /// before anybody else's sync counts.
    fn sync_alone(&self, active: &Active, end: u64, last: u64) -> Result<()> {
        let lane = LockFile::open(&self.vfs, self.paths.sync0(), Rank::Lane)?;
        let _held = lane.acquire(self.settings.lock_timeout)?;
        self.check_poison()?;
        if self.is_superseded(active)? {
            return Err(Error::new(ErrorKind::NotYet, "sync", &active.path));
        }
        if let Err(source) = active.file.sync_data() {
            self.forward.failed_in(active);
            self.poison(&source.to_string());
            return Err(self.lost());
        }
        self.durable.raise(end, last);
        self.raise_word(WORD_DURABLE, end);
        Ok(())
    }

    pub(super) fn lost(&self) -> Error {
        let from = Seq(self.durable.seq() + 1);
        Error::new(ErrorKind::DurabilityLost { from }, "sync", &self.paths.log())
    }

    /// Whether a sync has failed in any process.
    fn check_poison(&self) -> Result<()> {
        if self.durable.is_poisoned() || is_poisoned(&*self.vfs, &self.paths)? {
            self.durable.find_poison();
            return Err(self.lost());
        }
        Ok(())
    }

    /// Writes everything not yet vouched for again in place, the same bytes, through this process's own descriptor.
    /// LOCK is held.
    pub(super) fn own_bytes(&self, view: &View, active: &Active) -> Result<()> {
        if active.owns_bytes() {
            return Ok(());
        }
        let word = super::reader::durable_word(&*self.vfs, &self.paths, self.meta.log_id).unwrap_or(0);
        let vouched = self.durable.lpos.load(Ordering::Acquire).max(view.vouched_lpos).max(word);
        // At the very start the header may not be durable either.
        let from = if vouched > active.header.base_lpos { active.header.offset(vouched) } else { 0 };
        if from < view.at.offset {
            let mut bytes = vec![0; usize::try_from(view.at.offset - from).unwrap_or(0)];
            let n = read_full(&*active.file, &mut bytes, from)
                .context("read again", &active.path)
                .map_err(|e| self.lost_or(e))?;
            let bytes = bytes.get(..n).unwrap_or_default();
            write_full(&*active.file, bytes, from)
                .map_err(|(_, e)| Error::io(e, "write again", &active.path))?;
        }
        self.own_names()?;
        active.owns_bytes.store(true, Ordering::Release);
        Ok(())
    }

    /// A name that can be seen is not yet durable: whoever published it may have been killed before it synced the
    /// folder. So the folders on the way to the log are synced before anything in it counts as durable.
    fn own_names(&self) -> Result<()> {
        if self.durable.names_synced.load(Ordering::Acquire) {
            return Ok(());
        }
        let log = self.paths.log();
        for dir in log.ancestors().take(4) {
            if !dir.as_os_str().is_empty() {
                self.vfs.sync_dir(dir).context("sync", dir)?;
            }
        }
        self.durable.names_synced.store(true, Ordering::Release);
        Ok(())
    }

    /// Syncs the active segment under LOCK, for rotation and healing.
    pub(super) fn sync_active(&self, view: &View, active: &Active) -> Result<()> {
        self.sync_alone(active, view.end_lpos(), view.state.last().0)
    }

    /// A failed sync, the lane still held: nothing written since the last good one may survive, and no later sync proves otherwise.
    fn poison(&self, why: &str) {
        self.durable.poisoned.store(true, Ordering::Release);
        self.raise_word(WORD_POISON, self.durable.lpos.load(Ordering::Acquire) + 1);
        let written = write_poison(self, why);
        self.durable.poison_unwritten.store(written.is_err(), Ordering::Release);
        let mut finding = poison_finding(&self.paths, self.durable.seq());
        finding.message = format!("{}: {why}", finding.message);
        if let Err(e) = written {
            finding.message = format!("{}; POISON could not be left for others: {e}", finding.message);
        }
        self.note(finding);
    }

    /// Raises a position word of the control block. The lane is held. A hint: whatever goes wrong is harmless.
    pub(super) fn raise_word(&self, word: u64, position: u64) {
        let raise = || -> Result<()> {
            let path = self.paths.control();
            let file = self.vfs.open(&path, Open::Write).context("open", &path)?;
            let mut block = vec![0; CONTROL_LEN + 1];
            let n = read_full(&*file, &mut block, 0).context("read", &path)?;
            let block = block.get(..n).unwrap_or_default();
            if !control::is_block_of(block, self.meta.log_id) {
                return Ok(());
            }
            let at = usize::try_from(word).unwrap_or(usize::MAX);
            let now = block.get(at..).and_then(|b| b.first_chunk()).map_or(0, |b| u64::from_le_bytes(*b));
            if control::position(self.meta.log_id, now).is_none_or(|known| known < position) {
                let new = control::position_word(self.meta.log_id, position).to_le_bytes();
                write_full(&*file, &new, word).map_err(|(_, e)| Error::io(e, "write", &path))?;
            }
            Ok(())
        };
        // Only a weaker verdict can follow from a word that stays behind.
        let _ = raise();
    }

    /// Does what is due: interval syncs, and a Mark after a quiet second. Returns when to come again, as a time of
    /// [`crate::vfs::Vfs::monotonic`]; `None` = not before the next commit.
    ///
    /// For hosts that forbid threads, and for tests; otherwise the housekeeping thread calls it.
    ///
    /// # Errors
    /// As [`Log::flush`]; what is due stays due.
    pub fn tick(&self) -> Result<Option<Duration>> {
        self.check_fork()?;
        let now = self.vfs.monotonic();
        if self.durable.mark_at.is_over(now) {
            let due = self.durable.mark_at.get();
            self.mark()?;
            self.durable.mark_at.clear(due);
        } else if self.durable.sync_at.is_over(now) {
            if self.durable.is_poisoned() {
                return Err(self.lost());
            }
            self.flush()?;
        }
        self.tell();
        Ok(self.durable.next_due())
    }

    /// Syncs, and says so behind the last frame, so that the log itself vouches for all of it.
    ///
    /// Nothing is written if a Mark stands there already, or if somebody else is writing: then the log is not quiet.
    pub(super) fn mark(&self) -> Result<()> {
        if self.durable.is_poisoned() {
            return Err(self.lost()); // recovery is for whoever has something to write
        }
        self.flush()?;
        let mut writer = self.writer.lock();
        let entered = self.enter(&mut writer, Duration::ZERO);
        let (held, mut view, file_len) = match entered {
            Ok(entered) => entered,
            Err(e) if matches!(e.kind(), ErrorKind::Busy { .. }) => return Ok(()),
            Err(e) => return Err(e),
        };
        if view.ends_with_mark || !self.durable.covers(view.end_lpos()) {
            return Ok(());
        }
        let Some(active) = view.active.clone() else { return Ok(()) };
        let (mut batch, mut undoing) = self.start_batch(&mut writer, &mut view, &active)?;
        batch.put_control(&Control::Mark { time: self.vfs.now() });
        undoing.push(Undoing::Nothing);
        let (_, error) = self.write_batch(&mut writer, &mut view, &active, batch, undoing, file_len);
        let (end, seq) = (view.end_lpos(), view.state.last().0);
        drop(view);
        drop(held);
        drop(writer);
        match error {
            Some(error) => Err(error),
            None => self.make_durable(end, seq),
        }
    }
}

impl Log {
    /// Syncs and vouches for the end, if this process has appended anything that is not vouched for.
    ///
    /// # Errors
    /// As [`Log::flush`].
    pub fn settle(&self) -> Result<()> {
        if self.durable.next_due().is_none() || self.session.is_none() {
            return Ok(());
        }
        let due = self.durable.mark_at.get();
        self.mark()?;
        self.durable.mark_at.clear(due);
        Ok(())
    }
}

impl Drop for Log {
    /// A clean close, if nothing is in its way.
    fn drop(&mut self) {
        if self.check_fork().is_err() {
            return; // the parent's: its locks may be held by threads that this process does not have
        }
        // Nobody is left to be told; the next opener sees what is missing.
        let _ = self.settle();
        self.drop_unused_successor();
    }
}

/// Whether somebody's sync has failed, as the file POISON says.
pub(super) fn is_poisoned(vfs: &dyn Vfs, paths: &Paths) -> Result<bool> {
    let path = paths.poison();
    match vfs.stat(&path) {
        Ok(_) => Ok(true),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(Error::io(e, "look for", &path)),
    }
}

pub(super) fn write_poison(log: &Log, why: &str) -> Result<()> {
    let path = log.paths.poison();
    let text = format!(
        "A sync of this log failed: {why}.\nEvents after {} may be lost by a power cut. See format-spec/recovery.md.\n\
         session: {:016x}\ntime: {}\n",
        log.durable.seq(),
        log.session.as_ref().map_or(0, |session| session.id()),
        log.vfs.now(),
    );
    let file = match log.vfs.open(&path, Open::Create) {
        Ok(file) => file,
        Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => return Ok(()),
        Err(e) => return Err(Error::io(e, "create", &path)),
    };
    write_full(&*file, text.as_bytes(), 0).map_err(|(_, e)| Error::io(e, "write", &path))?;
    file.sync_data().context("sync", &path)?;
    log.vfs.sync_dir(log.paths.dir()).context("sync", log.paths.dir())
}

pub(crate) fn poison_finding(paths: &Paths, durable: u64) -> Finding {
    Finding {
        severity: Severity::Damage,
        code: "poisoned",
        file: paths.poison(),
        offset: None,
        seq: Some(durable + 1),
        message:
            "a sync failed: what was appended since may not survive a power cut, although it can be read"
                .into(),
        remedy: "check the disk; the next writer copies the log forward into fresh blocks, or run `foldlog repair --apply`",
    }
}
