//! Durability: who has synced what, the watermark, Marks, and what a failed sync means.
//!
//! A sync counts only for bytes that went through the very descriptor it is called on (or were vouched for before):
//! an earlier failure may have been reported to another descriptor, and forgotten. See [`Log::own_bytes`].

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use super::Seq;
use super::control_frame::Control;
use super::draft::{Durability, Receipt};
use super::engine::{Log, Undoing};
use super::finding::{Finding, Severity};
use super::format::{WORD_DURABLE, WORD_POISON};
use super::lanes::{Belief, UNDER_LOCK};
use super::lock::Held;
use super::paths::Paths;
use super::segment::HEADER_LEN;
use super::state::State;
use super::view::{Active, View};
use crate::error::{Context as _, Error, ErrorKind, Result};
use crate::vfs::threads::{FairMutex, RwLockWriteGuard};
use crate::vfs::{Open, Vfs, read_full, write_full};

/// How long a log must be quiet before its end is vouched for by a Mark.
pub(super) const QUIET: Duration = Duration::from_secs(1);

/// How often who waits for another process's sync looks whether it was enough, where nobody wakes it.
const POLL: Duration = Duration::from_micros(200);

/// For how many such looks a sync that is under way is waited for, before another one is begun beside it. A device that
/// takes one at a time has more commits in each of them so.
const UNDER_WAY: u32 = 5;

/// What is needed to call something durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Proof {
    /// A sync of this process, or the shared word.
    Any,
    /// A sync of this process: a frame is to vouch for it, on disk and for ever.
    Own,
}

/// What this process knows to be durable.
#[derive(Debug)]
pub(super) struct Durable {
    lpos: AtomicU64,
    seq: AtomicU64,
    /// One thread at a time sees to it that something is durable; whoever waits here is covered by the next sync.
    gate: FairMutex<()>,
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
            gate: FairMutex::new(()),
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

    /// After a sync, or for what a frame or a header vouches for.
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
    /// [`ErrorKind::DurabilityLost`] and system errors. [`ErrorKind::Damaged`] and [`ErrorKind::TooNew`] where the log
    /// cannot be read to its end: what can be read is durable then, and there may be more.
    ///
    /// # Blocking
    /// For a sync, and shortly for LOCK if this process has not written to the segment before.
    pub fn flush(&self) -> Result<()> {
        self.check_writable()?;
        let due = self.durable.sync_at.get();
        self.make_all_durable(Proof::Any)?;
        self.durable.sync_at.clear(due);
        Ok(())
    }

    /// What [`Log::flush`] promises. `proof`: [`Proof::Own`] if this process is to vouch for it.
    fn make_all_durable(&self, proof: Proof) -> Result<()> {
        // Not by the tail word: it may be behind, and "everything" means what stands in the file.
        self.look_at_bytes()?;
        let (end, seq, all) = {
            let view = self.view.read();
            (view.end_lpos(), view.state.last().0, view.check_all_was_read("make all of it durable"))
        };
        self.make_durable_by(end, seq, None, proof)?;
        all
    }

    /// Hands out the state as the bytes have it now, whatever the tail word says, if all of it is known to be durable
    /// already; waits for nobody to make it so.
    ///
    /// # Errors
    /// As [`Log::read`].
    pub(crate) fn read_durable<T>(&self, look: impl FnOnce(&State) -> T) -> Result<Option<T>> {
        self.check_fork()?;
        self.look_at_bytes()?;
        let (end, vouched, all) = {
            let view = self.view.read();
            let all = view.damage.is_none() && view.too_new.is_none();
            (view.end_lpos(), view.vouched >= view.state.last().0, all)
        };
        if !all {
            return Ok(None);
        }
        if self.check_poison_word().is_err()
            || !(vouched || self.durable.covers(end) || self.is_told_durable(end)?)
        {
            return Ok(None);
        }
        let view = self.view.read();
        // Somebody may have committed meanwhile.
        let still = if vouched { view.end_lpos() == end } else { self.durable.covers(view.end_lpos()) };
        Ok(still.then(|| look(&view.state)))
    }

    /// Waits until a commit is durable, whoever makes it so: the ticket of a commit that was made `Buffered`.
    ///
    /// Many commits may be made before the first of them is waited for; one sync then covers them all.
    ///
    /// # Errors
    /// [`ErrorKind::NotDurable`] if it is not within `patience` (it may be later), [`ErrorKind::DurabilityLost`],
    /// [`ErrorKind::StoreReplaced`], system errors.
    ///
    /// # Blocking
    /// For a sync, of this process or of another one; at most about `patience`, but for a system call that hangs.
    pub fn wait_durable(&self, receipt: &Receipt, patience: Duration) -> Result<()> {
        self.check_writable()?;
        let until = self.vfs.monotonic().saturating_add(patience);
        // Whoever waits for commits one after the other gains by a reserve as those do that sync in the commit.
        self.reserve.note(Durability::Durable);
        self.make_durable_by(receipt.behind.0, receipt.last().0, Some(until), Proof::Any)?;
        self.still_stands(receipt.cursor)
    }

    /// Returns once everything up to `lpos` (events up to `seq`) is durable, unless the log moves to another file
    /// meanwhile ([`Log::make_durable`]). No lock of the engine is held.
    ///
    /// One thread of a process at a time sees to it: it tries for a lane, and looks meanwhile whether the sync of some
    /// other process was enough. The others are covered by what it achieves, or come next.
    pub(super) fn sync_up_to(
        &self,
        lpos: u64,
        seq: u64,
        until: Option<Duration>,
        proof: Proof,
    ) -> Result<()> {
        let is_done = || self.durable.covers(lpos) && (proof == Proof::Any || self.durable.seq() >= seq);
        if is_done() {
            return Ok(());
        }
        self.let_go();
        let late = || {
            Error::new(
                ErrorKind::NotDurable { seq: Seq(seq), why: "timed out".into() },
                "wait for",
                &self.paths.log(),
            )
        };
        let _gate = match until {
            None => self.durable.gate.lock(),
            Some(until) => {
                let left = until.saturating_sub(self.vfs.monotonic());
                self.durable.gate.try_lock_for(left).ok_or_else(late)?
            }
        };
        // How often a sync that is under way is waited for, before it is believed to hang.
        let mut patience = if proof == Proof::Any { UNDER_WAY } else { 0 };
        loop {
            // Before anything is asked: who raises it behind that ends the wait below.
            let seen = self.control.with(|block| block.load(WORD_DURABLE));
            if is_done() {
                return Ok(());
            }
            self.check_poison_word()?;
            if proof == Proof::Any && self.is_told_durable(lpos)? {
                return Ok(());
            }
            let Some(active) = self.syncable(lpos, &is_done)? else { continue };
            self.own_names()?;
            self.extend_reserve(&active);
            if patience > 0 && self.is_under_way(lpos) {
                patience -= 1;
                self.await_sync(seen);
                continue;
            }
            match self.try_lane(patience == 0)? {
                Some((lane, held)) => {
                    if self.sync_in_lane(lane, held, &active, lpos, proof)? {
                        return Ok(());
                    }
                }
                None if until.is_some_and(|until| self.vfs.monotonic() >= until) => return Err(late()),
                None => {
                    patience = patience.saturating_sub(1);
                    self.await_sync(seen);
                }
            }
        }
    }

    /// Waits for some other process's sync, at most until the durable word is not this any more.
    fn await_sync(&self, seen: Option<u64>) {
        match (self.control.get(), seen) {
            (Some(block), Some(word)) => block.wait(WORD_DURABLE, word, POLL),
            _ => self.vfs.sleep(POLL),
        }
    }

    /// The segment with the end of the log, everything in which has been written through this process's descriptor or
    /// vouched for; `None` if what is wanted was found meanwhile to lie in an earlier one.
    fn syncable(&self, lpos: u64, is_done: &dyn Fn() -> bool) -> Result<Option<Arc<Active>>> {
        loop {
            let (active, sealed, end) = {
                let view = self.view.read();
                (view.active.clone(), view.durable_before(), view.end_lpos())
            };
            // Whatever lies before a live segment was synced before that segment's header was written.
            self.durable.raise(sealed.0, sealed.1);
            if is_done() {
                return Ok(None);
            }
            if end < lpos {
                return Err(self.lost()); // a recovery could not read it again
            }
            if let Some(active) = active.filter(|active| active.owns_bytes()) {
                return Ok(Some(active));
            }
            let mut writer = self.writer.lock();
            let (_held, view, _) =
                self.enter(&mut writer, self.settings.lock_timeout).map_err(|e| self.name_holder(e))?;
            if let Some(active) = view.active.clone() {
                self.own_bytes(&view, &active)?;
            }
        }
    }

    /// Whether a sync of some process is known to cover `lpos`, by the word that all share.
    ///
    /// A word beyond the end of the log speaks of another log, or is somebody's rubbish: it says nothing. And the
    /// frames that this process knows must still stand in the file: else what was synced there is something else.
    fn is_told_durable(&self, lpos: u64) -> Result<bool> {
        let Some(word) = self.durable_word().filter(|word| *word >= lpos) else { return Ok(false) };
        if self.view.read().end_lpos() < word {
            self.refresh()?;
        }
        let view = self.view.read();
        let Some(active) = view.active.clone().filter(|_| view.end_lpos() >= word) else { return Ok(false) };
        view.last_stands(&active)?;
        drop(view);
        self.files_stand(&active)?;
        self.durable.lpos.fetch_max(word, Ordering::AcqRel);
        Ok(true)
    }

    /// Syncs the segment; a lane is held. Returns whether `lpos` is durable now; if not, its bytes are to be written
    /// again, or the segment is another one by now.
    fn sync_in_lane(
        &self,
        lane: usize,
        held: Held,
        active: &Arc<Active>,
        lpos: u64,
        proof: Proof,
    ) -> Result<bool> {
        self.check_poison()?;
        if self.is_suspect(lane) {
            active.owns_bytes.store(false, Ordering::Release);
            return Ok(false);
        }
        // What others have appended meanwhile goes with it, as far as it can be had without waiting.
        let Some((end, last)) = self.end_of(active) else { return Ok(false) };
        self.files_stand(active)?;
        if proof == Proof::Any && self.durable_word().is_some_and(|word| (lpos..=end).contains(&word)) {
            return Ok(false); // somebody has synced since this process looked: the caller looks again
        }
        let begun = self.begin_sync(lane);
        begun.reaches(end);
        if let Err(source) = active.file.sync_data() {
            self.forward.failed_in(active);
            self.poison(&source.to_string());
            return Err(self.lost());
        }
        begun.ended_well();
        drop(held);
        let belief = self.believe(&begun)?;
        if belief == Belief::Suspect {
            active.owns_bytes.store(false, Ordering::Release);
            return Ok(false);
        }
        self.durable.raise(end, last);
        let _ = self.control.with(|block| {
            block.raise_position(WORD_DURABLE, end);
            block.wake(WORD_DURABLE, u32::MAX >> 1)
        });
        self.ring_durable();
        Ok(self.durable.covers(lpos))
    }

    /// Where the log ends, lpos and seq, if that is this segment still. A lane is held, so nothing is waited for:
    /// `None` also if it cannot be said now.
    fn end_of(&self, active: &Arc<Active>) -> Option<(u64, u64)> {
        if let Some(mut view) = self.view.try_write() {
            // What cannot be read now is synced by whoever wrote it.
            let _ = self.look_on(&mut view);
        }
        let view = self.view.try_read()?;
        let same = view.active.as_ref().is_some_and(|now| Arc::ptr_eq(now, active));
        same.then(|| (view.end_lpos(), view.state.last().0))
    }

    /// Syncs the active segment under LOCK, for rotation and healing. Nothing is appended meanwhile, and this process's
    /// readers look at the view as it stands.
    pub(super) fn sync_active(&self, view: &mut RwLockWriteGuard<'_, View>, active: &Active) -> Result<()> {
        let (end, seq) = (view.end_lpos(), view.state.last().0);
        loop {
            self.check_poison()?;
            if self.is_suspect(UNDER_LOCK) {
                active.owns_bytes.store(false, Ordering::Release);
            }
            self.own_bytes(view, active)?;
            let belief = RwLockWriteGuard::unlocked(view, || {
                self.own_names()?;
                let begun = self.begin_sync(UNDER_LOCK);
                if let Err(source) = active.file.sync_data() {
                    self.forward.failed_in(active);
                    self.poison(&source.to_string());
                    return Err(self.lost());
                }
                begun.ended_well();
                self.believe(&begun)
            })?;
            if belief == Belief::Yes {
                break;
            }
            active.owns_bytes.store(false, Ordering::Release);
        }
        if (view.end_lpos(), view.state.last().0) != (end, seq) {
            return Err(super::view::replaced(active, "the log became another while it was synced"));
        }
        self.durable.raise(end, seq);
        let _ = self.control.with(|block| block.raise_position(WORD_DURABLE, end));
        Ok(())
    }

    pub(super) fn lost(&self) -> Error {
        let from = Seq(self.durable.seq() + 1);
        Error::new(ErrorKind::DurabilityLost { from }, "sync", &self.paths.log())
    }

    /// Whether a sync has failed in any process, as far as this one or the control block knows.
    pub(super) fn check_poison_word(&self) -> Result<()> {
        let word = self.control.with(|block| block.believed(WORD_POISON, 0)).flatten();
        if self.durable.is_poisoned() || word.is_some() {
            self.durable.find_poison();
            return Err(self.lost());
        }
        Ok(())
    }

    /// Whether a sync has failed in any process.
    pub(super) fn check_poison(&self) -> Result<()> {
        self.check_poison_word()?;
        if is_poisoned(&*self.vfs, &self.paths)? {
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
        self.settle_suspects()?;
        // One beyond the end says nothing, here as in `is_told_durable`.
        let word = self.durable_word().filter(|word| *word <= view.end_lpos()).unwrap_or(0);
        let vouched = self.durable.lpos.load(Ordering::Acquire).max(view.vouched_lpos).max(word);
        // At the very start the header may not be durable either.
        let from = if vouched > active.header.base_lpos { active.header.offset(vouched) } else { 0 };
        if from < view.at.offset
            && !self.write_again(view, active, from)?
            && (from == 0 || !self.write_again(view, active, 0)?)
        {
            let gone = super::view::replaced(active, "the frames that were read from it are no longer there");
            return Err(self.lost_or(gone));
        }
        active.owns_bytes.store(true, Ordering::Release);
        Ok(())
    }

    /// Writes the bytes from an offset on again; `false` if they are not the frames that this process has read, so that
    /// nothing was written: a system that has lost pages to a failed sync reads something else from the disk.
    fn write_again(&self, view: &View, active: &Active, from: u64) -> Result<bool> {
        let mut bytes = vec![0; usize::try_from(view.at.offset - from).unwrap_or(0)];
        let n = read_full(&*active.file, &mut bytes, from)
            .context("read again", &active.path)
            .map_err(|e| self.lost_or(e))?;
        let frames = if from == 0 { HEADER_LEN } else { 0 };
        let chain = bytes
            .get(frames..n)
            .and_then(|bytes| super::frame::last_crc_of_chain(bytes, &active.salt, active.header.max_body));
        if n < bytes.len() || chain.is_none_or(|crc| view.at.link != crc.unwrap_or(view.at.link)) {
            return Ok(false);
        }
        write_full(&*active.file, &bytes, from)
            .map_err(|(_, e)| Error::io(e, "write again", &active.path))?;
        Ok(true)
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

    /// A failed sync, the lane still held: nothing written since the last good one may survive, and no later sync proves otherwise.
    fn poison(&self, why: &str) {
        self.durable.poisoned.store(true, Ordering::Release);
        let from = self.durable.lpos.load(Ordering::Acquire) + 1;
        let _ = self.control.with(|block| block.raise_position(WORD_POISON, from));
        let written = write_poison(self, why);
        self.durable.poison_unwritten.store(written.is_err(), Ordering::Release);
        let mut finding = poison_finding(&self.paths, self.durable.seq());
        finding.message = format!("{}: {why}", finding.message);
        if let Err(e) = written {
            finding.message = format!("{}; POISON could not be left for others: {e}", finding.message);
        }
        self.note(finding);
    }

    /// Whether [`Log::tick`] would sync.
    pub(super) fn is_sync_due(&self) -> bool {
        let now = self.vfs.monotonic();
        self.durable.mark_at.is_over(now) || self.durable.sync_at.is_over(now)
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
        let kept = self.let_go_if_idle(now);
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
        Ok(self.durable.next_due().into_iter().chain(kept).min())
    }

    /// Syncs, and says so behind the last frame, so that the log itself vouches for all of it.
    ///
    /// Nothing is written if a Mark stands there already, or if somebody else is writing: then the log is not quiet.
    pub(super) fn mark(&self) -> Result<()> {
        if self.durable.is_poisoned() {
            return Err(self.lost()); // recovery is for whoever has something to write
        }
        self.refresh()?;
        let marked = self.view.read().ends_with_mark;
        if marked {
            return self.flush();
        }
        self.check_writable()?;
        self.make_all_durable(Proof::Own)?;
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
        self.check_fork()?;
        self.let_go();
        if self.session.is_none() {
            return Ok(());
        }
        if self.durable.next_due().is_some() {
            let due = self.durable.mark_at.get();
            self.mark()?;
            self.durable.mark_at.clear(due);
        }
        self.snapshot_at_close();
        Ok(())
    }
}

impl Drop for Log {
    /// A clean close, if nothing is in its way.
    fn drop(&mut self) {
        if self.check_fork().is_err() {
            return; // the parent's: its locks may be held by threads that this process does not have
        }
        self.end_background();
        // Nobody is left to be told; the next opener sees what is missing.
        let _ = self.settle();
        self.trim_reserve_at_close();
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
