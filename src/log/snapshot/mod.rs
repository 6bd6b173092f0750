//! Snapshots: a log's state at one event, in a file, so that opening need not read what came before. Always replaceable.
//!
//! [`mod@file`] is the file as such, [`base`] what lies in it, [`save`] writes and loads it; here is when one is written,
//! which one is used, and which are removed. `format-spec/snapshot.md` has the same in prose.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use super::compact::Worth;
use super::engine::Log;
use super::finding::{Finding, Severity};
use super::fold::FoldKind;
use super::lock::{Held, LockFile, Rank};
use super::publish::give_name;
use super::reader::{self, Reach, Walk};
use super::rotate::writer_version;
use super::settings::{Recovery, Settings};
use super::state::{State, Vocabulary};
use super::sync::Proof;
use super::view::View;
use super::{LogId, Lpos, Mapping, Paths, Seq};
use crate::error::{Context as _, Error, ErrorKind, Result};
use crate::vfs::Vfs;
use crate::vfs::threads::Mutex;

pub(crate) mod base;
pub(crate) mod file;
mod names;
mod save;

pub use base::Base;
pub(crate) use file::{Anchor, Header};
pub use file::{SnapshotFile, SnapshotWriter, Span, Spoiled};
use names::{SnapshotName, TEMPORARY, list};
pub(super) use names::{oldest_ordinal, remove_spent, spend_all, unfinished, vouched, vouched_to_readers};
pub use save::SaveFold;

/// For how long the copy of the state waits for this process's commits.
const PATIENCE: Duration = Duration::from_millis(10);
/// Of the snapshot's own length, how much of the log must be new before another is written.
const SHARE: u64 = 4;
/// At a clean close this part of what is due otherwise is enough.
const CLOSE_SHARE: u64 = 4;

/// What was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotReport {
    /// The last event that it covers.
    pub seq: Seq,
    /// Where in the log it ends.
    pub end: Lpos,
    /// Its file.
    pub file: PathBuf,
    /// Its length in bytes.
    pub bytes: u64,
}

/// When the next snapshot is due.
#[derive(Debug, Default)]
pub(super) struct Snapshots {
    /// lpos at which the newest one ends, as far as this process knows.
    end: AtomicU64,
    /// How long it is.
    len: Arc<AtomicU64>,
    /// lpos from which on the housekeeping thread is to look whether one is due.
    ring_at: AtomicU64,
    /// Whether one is being written by this process.
    under_way: Arc<AtomicBool>,
    /// Those that turned out to be spoiled.
    shunned: Mutex<Vec<PathBuf>>,
    /// The thread that writes one, and whether it is to end what it does behind that.
    thread: Mutex<Option<std::thread::JoinHandle<()>>>,
    closing: Arc<AtomicBool>,
    /// What came to nothing in it, to be told by whoever comes by.
    failed: Arc<Failed>,
}

#[derive(Debug, Default)]
struct Failed {
    is_any: AtomicBool,
    all: Mutex<Vec<Finding>>,
}

impl Failed {
    fn note(&self, finding: Finding) {
        self.all.lock().push(finding);
        self.is_any.store(true, Ordering::Release);
    }

    fn take(&self) -> Vec<Finding> {
        if !self.is_any.swap(false, Ordering::AcqRel) {
            return Vec::new();
        }
        std::mem::take(&mut *self.all.lock())
    }
}

impl Snapshots {
    fn note(&self, end: u64, len: u64, after: u64) {
        self.end.store(end, Ordering::Relaxed);
        self.len.store(len, Ordering::Relaxed);
        self.ring_at.store(self.due_at(after), Ordering::Relaxed);
    }

    /// lpos from which on the next one is due.
    fn due_at(&self, after: u64) -> u64 {
        let len = self.len.load(Ordering::Relaxed);
        self.end.load(Ordering::Relaxed).saturating_add(after.max(len / SHARE))
    }

    /// Whether the housekeeping thread is to look, now that the log ends there.
    pub(super) fn take_news(&self, end: u64) -> bool {
        let ring_at = self.ring_at.load(Ordering::Relaxed);
        if ring_at == 0 || end < ring_at {
            return false;
        }
        // Should nothing come of it, not before as much is new once more.
        let next = end.saturating_add(ring_at.saturating_sub(self.end.load(Ordering::Relaxed)));
        self.ring_at.compare_exchange(ring_at, next, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

/// A log folded from a snapshot and what came behind it.
pub(super) struct Opened {
    pub(super) view: View,
    pub(super) walk: Walk,
    /// How long the snapshot is.
    len: u64,
    /// lpos at which it ends.
    end: u64,
}

/// Folds a log from the newest snapshot that can be used; `None` = there is none. Says in `findings` why one was not used.
///
/// # Errors
/// As [`reader::walk`].
pub(super) fn open(
    vfs: &Arc<dyn Vfs>,
    paths: &Paths,
    log: LogId,
    settings: &Settings,
    shunned: &[PathBuf],
    findings: &mut Vec<Finding>,
) -> Result<Option<Opened>> {
    if settings.recovery == Recovery::Salvage || !settings.can_be_saved() {
        return Ok(None);
    }
    let mut all = match list(&**vfs, paths) {
        Ok((all, _)) => all,
        // The log has it all.
        Err(e) => {
            findings.push(unlisted(&e));
            return Ok(None);
        }
    };
    // Another process may be writing anew what one of these stands on, with newer ones in their place.
    let mut listed_again = false;
    loop {
        let before = findings.len();
        for name in &all {
            let path = paths.snapshots().join(name.to_string());
            if shunned.contains(&path) {
                continue;
            }
            match open_one(vfs, paths, log, settings, *name, path.clone()) {
                Ok(Ok(opened)) => return Ok(Some(opened)),
                Ok(Err(Unfit::Spoiled(why))) => findings.push(unused(path, *name, &why.to_string())),
                Ok(Err(Unfit::Foreign)) => {}
                // Removed since, or on its way out: a newer one has come.
                Err(e) if e.path() == path && !matches!(e.kind(), ErrorKind::Io) => {}
                Err(e) if e.path() == path => findings.push(unused(path, *name, &e.to_string())),
                Err(e) => return Err(e),
            }
        }
        if !listed_again && findings.len() > before {
            listed_again = true;
            if let Ok((now, _)) = list(&**vfs, paths)
                && now != all
            {
                findings.truncate(before);
                all = now;
                continue;
            }
        }
        return Ok(None);
    }
}

fn unlisted(why: &Error) -> Finding {
    Finding {
        severity: Severity::Warning,
        code: "snapshots-unreadable",
        file: why.path().into(),
        offset: None,
        seq: None,
        message: format!("no snapshot is used, and the whole log is read at every open: {why}"),
        remedy: "nothing is lost; let this user read and write the folder `snapshots` of the workspace",
    }
}

/// A snapshot, or what follows one, that came to nothing in the background.
fn unwritten(file: PathBuf, what: &str, why: &Error) -> Finding {
    Finding {
        severity: Severity::Warning,
        code: "snapshot-failed",
        file,
        offset: None,
        seq: None,
        message: format!("{what}: {why}"),
        remedy: "nothing is lost; it is tried again once more is new, and until then the next open reads more of the log",
    }
}

/// Why a snapshot is passed over.
enum Unfit {
    Spoiled(Spoiled),
    /// It is for programs with another fold, or that know more kinds of events.
    Foreign,
}

impl From<Spoiled> for Unfit {
    fn from(why: Spoiled) -> Self {
        Unfit::Spoiled(why)
    }
}

/// A walk that is to be taken as it is.
fn nothing_said() -> Walk {
    Walk { in_motion: true, ..Walk::default() }
}

fn unused(file: PathBuf, name: SnapshotName, why: &str) -> Finding {
    Finding {
        severity: Severity::Notice,
        code: "snapshot-unused",
        file,
        offset: None,
        seq: Some(name.seq),
        message: format!("a snapshot is not used: {why}"),
        remedy: "nothing to do: the log has it all, and the next snapshot takes its place",
    }
}

fn open_one(
    vfs: &Arc<dyn Vfs>,
    paths: &Paths,
    log: LogId,
    settings: &Settings,
    name: SnapshotName,
    path: PathBuf,
) -> Result<Result<Opened, Unfit>> {
    let file = match SnapshotFile::open(&**vfs, &path, settings.mapping == Mapping::Auto)? {
        Ok(file) => file,
        Err(why) => return Ok(Err(why.into())),
    };
    let header = *file.header();
    let unfit = |why: &str| Ok(Err(Unfit::Spoiled(file::spoiled(why))));
    if header.log_id != log || header.seq != name.seq {
        return unfit("it is another log's, or has another one's name");
    }
    if header.fold != save::fold_word(settings.fold) {
        return Ok(Err(Unfit::Foreign));
    }
    let len = file.len();
    let replay = Replayer {
        vfs: Arc::clone(vfs),
        paths: paths.clone(),
        log,
        settings: settings.clone(),
        seq: header.seq,
    };
    let base = match Base::of(file, Box::new(move || replay.state())) {
        Ok(base) => Arc::new(base),
        Err(why) => return Ok(Err(why.into())),
    };
    if !save::is_for(&base, settings.fold, &settings.vocabulary) {
        return Ok(Err(Unfit::Foreign));
    }
    let (mut bound, mut fault) = (false, None);
    let (opened, walk) = reader::stable(paths, || {
        let durable = reader::durable_word(&**vfs, paths, log);
        let mut view = match save::load(&base, settings.fold) {
            Ok(state) => View::above(state, &header),
            Err(why) => {
                fault = Some(why);
                return Ok((None, nothing_said()));
            }
        };
        let walk = reader::walk_behind(&**vfs, paths, log, durable, &header, &mut |visit| {
            view.visit(visit, &settings.vocabulary);
        })?;
        bound = walk.is_some();
        // What is not bound to the log is said below.
        Ok(walk.map_or_else(|| (None, nothing_said()), |walk| (Some(view), walk)))
    })?;
    if let Some(why) = fault {
        return Ok(Err(why.into()));
    }
    let Some(view) = opened.filter(|_| bound) else {
        return unfit("the log does not have the frame at which it ends");
    };
    if walk.damage.is_some() || walk.too_new.is_some() {
        return unfit("what follows in the log is damaged or of a newer release");
    }
    Ok(Ok(Opened { view, walk, len, end: header.anchor.events_end_lpos }))
}

/// Reads a log again up to one event.
struct Replayer {
    vfs: Arc<dyn Vfs>,
    paths: Paths,
    log: LogId,
    settings: Settings,
    seq: u64,
}

impl Replayer {
    fn state(&self) -> Result<State> {
        // What was overwritten only behind the event may be missing in what has been written anew since.
        let mut trimmed = false;
        let (state, _) = reader::stable(&self.paths, || {
            let mut view = View::empty(self.settings.fold);
            let walk = reader::walk(&*self.vfs, &self.paths, self.log, None, Reach::Intact, &mut |visit| {
                trimmed |= visit.header.horizon > self.seq && visit.header.first_seq <= self.seq;
                if visit.located.frame.header.seq <= self.seq {
                    view.visit(visit, &self.settings.vocabulary);
                }
            })?;
            Ok((view.state, walk))
        })?;
        if state.last().0 == self.seq && !trimmed {
            return Ok(state);
        }
        Err(Error::new(ErrorKind::NotYet, "read again", &self.paths.log()))
    }
}

/// A state to be written, and all that takes; no lock of the log's is needed any more.
pub(super) struct Job {
    vfs: Arc<dyn Vfs>,
    paths: Paths,
    log: LogId,
    fold: Option<FoldKind>,
    vocabulary: Vocabulary,
    state: State,
    anchor: Anchor,
    _compacting: Held,
    _under_way: UnderWay,
}

/// Cleared when the writing has ended, however it does.
struct UnderWay(Arc<AtomicBool>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl Log {
    /// Writes a snapshot of all there is, so that the next open need not read it again. `None` = there is nothing that the
    /// newest one has not, or another process is writing one.
    ///
    /// # Errors
    /// As [`Log::flush`]; [`ErrorKind::Damaged`] and [`ErrorKind::TooNew`] where the log is not understood to its end.
    /// A failure leaves what was there.
    ///
    /// # Durability
    /// All it covers is durable before it gets its name, and so is its file when this returns.
    ///
    /// # Blocking
    /// For a sync, and for as long as it takes to write all tasks that were ever changed. Commits and reads go on; those of
    /// this process wait for a copy of the tables.
    pub fn snapshot(&self) -> Result<Option<SnapshotReport>> {
        match self.start_snapshot()? {
            Some(job) => job.run().map(|report| {
                self.snapshots.note(report.end.0, report.bytes, self.settings.snapshot_after);
                Some(report)
            }),
            None => Ok(None),
        }
    }

    /// Whether so much of the log is new since the newest snapshot that another is worth its while.
    pub(super) fn is_snapshot_due(&self) -> bool {
        self.is_snapshot_due_after(self.settings.snapshot_after)
    }

    fn is_snapshot_due_after(&self, after: u64) -> bool {
        if self.session.is_none() || !self.settings.can_be_saved() {
            return false;
        }
        let view = self.view.read();
        let end = view.end_lpos();
        if end < self.snapshots.due_at(after) {
            return false;
        }
        // A segment that has just begun has no frame yet to bind one to; the next commit brings it.
        let is_bound = view.anchor().is_some();
        if !is_bound {
            self.snapshots.ring_at.store(end.saturating_add(1), Ordering::Relaxed);
        }
        is_bound
    }

    /// Writes the snapshot that is due, in a thread of its own: it may take seconds, and others need the housekeeping thread.
    pub(super) fn snapshot_beside(&self) {
        if !self.is_snapshot_due() || self.snapshots.under_way.load(Ordering::Acquire) {
            return;
        }
        let end = self.view.read().end_lpos();
        let started = self.start_snapshot();
        // Should it come to nothing, it is not tried again before as much is new once more.
        let len = self.snapshots.len.load(Ordering::Relaxed);
        self.snapshots.note(end, len, self.settings.snapshot_after);
        let failed = Arc::clone(&self.snapshots.failed);
        let job = match started {
            Ok(Some(job)) => job,
            Ok(None) => return,
            Err(e) => return failed.note(unwritten(self.paths.snapshots(), "no snapshot was written", &e)),
        };
        let (len, closing) = (Arc::clone(&self.snapshots.len), Arc::clone(&self.snapshots.closing));
        let (compactor, dir) = (self.compactor(), self.paths.snapshots());
        let go_on = move || match closing.load(Ordering::Acquire) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        };
        let write = move || {
            match job.run() {
                Ok(report) => len.store(report.bytes, Ordering::Relaxed),
                Err(e) => return failed.note(unwritten(dir, "no snapshot was written", &e)),
            }
            // Now that there is a newer one, more lies below the older.
            if go_on().is_continue()
                && let Err(e) = compactor.run(Worth::ItsWhile, &mut |_, _| go_on())
                && go_on().is_continue()
            {
                failed.note(unwritten(e.path().into(), "old segments were not written anew", &e));
            }
        };
        let spawned = std::thread::Builder::new().name("foldlog-snapshot".into()).spawn(write);
        *self.snapshots.thread.lock() = spawned.ok();
    }

    /// What came to nothing in the background since the last call.
    pub(super) fn note_background(&self) {
        self.snapshots.failed.take().into_iter().for_each(|finding| self.note(finding));
    }

    /// Waits for the snapshot that is being written, and has nothing begun behind it: whoever closes a log leaves nothing at work.
    pub(super) fn end_background(&self) {
        self.snapshots.closing.store(true, Ordering::Release);
        let thread = self.snapshots.thread.lock().take();
        // That it panicked is told where it did.
        let _ = thread.map(std::thread::JoinHandle::join);
    }

    /// At a clean close: whoever opens next is to find little to read.
    pub(super) fn snapshot_at_close(&self) {
        let after = self.settings.snapshot_after;
        if after < u64::MAX && self.is_snapshot_due_after(after / CLOSE_SHARE) {
            // Nobody is left to be told; the next opener reads the log.
            let _ = self.snapshot();
        }
    }

    /// The state as it stands, all of it durable, and COMPACT to write it under.
    fn start_snapshot(&self) -> Result<Option<Job>> {
        self.check_writable()?;
        if self.snapshots.under_way.swap(true, Ordering::AcqRel) {
            return Ok(None);
        }
        let under_way = UnderWay(Arc::clone(&self.snapshots.under_way));
        self.look_at_bytes()?;
        let mut writer = self.writer.try_lock_for(PATIENCE);
        if let Some(writer) = &mut writer {
            self.end_keeping(writer);
        }
        let (state, anchor, end) = {
            let view = self.view.read();
            view.check_all_was_read("write a snapshot of it")?;
            let known = |(kind, version): &(u16, u8)| self.settings.vocabulary.knows(*kind, *version);
            // Nobody could use one who knows no more than this program.
            let is_known = view.state.kinds.all().iter().all(known) && !view.state.is_in_trouble();
            let Some(anchor) = view.anchor().filter(|_| is_known) else { return Ok(None) };
            (view.state.copy_whole(), anchor, view.end_lpos())
        };
        drop(writer);
        // What vouches on disk rests on a sync that this process has seen.
        self.make_durable_by(end, state.last().0, None, Proof::Own)?;
        // A recovery may have cut what was copied.
        self.still_stands(state.cursor())?;
        // Only now: a sync may hang, and others wait for COMPACT.
        let compact = LockFile::open(&self.vfs, self.paths.compact(), Rank::Compact)?;
        let Some(compacting) = compact.try_acquire()? else { return Ok(None) };
        // Something may have been purged since the copy was made, which still has it.
        self.look_at_bytes()?;
        if self.view.read().state.purges() != state.purges() {
            return Ok(None);
        }
        let fold = save::fold_word(self.settings.fold);
        let kept = names::kept(&*self.vfs, &self.paths, self.meta.log_id)?;
        let mut own = kept.iter().filter(|(_, header)| header.fold == fold);
        if own.any(|(name, _)| name.seq >= state.last().0) || state.last() == Seq(0) {
            let len = self.snapshots.len.load(Ordering::Relaxed);
            self.snapshots.note(end, len, self.settings.snapshot_after);
            return Ok(None);
        }
        Ok(Some(Job {
            vfs: Arc::clone(&self.vfs),
            paths: self.paths.clone(),
            log: self.meta.log_id,
            fold: self.settings.fold,
            vocabulary: self.settings.vocabulary.clone(),
            state,
            anchor,
            _compacting: compacting.park(),
            _under_way: under_way,
        }))
    }

    /// Folds the log anew, without the snapshot that it stands on, if that is spoiled.
    ///
    /// # Errors
    /// As [`Log::open`].
    pub(super) fn leave_spoiled_snapshot(&self) -> Result<()> {
        let mut view = self.view.write();
        let Some(trouble) = view.state.trouble() else { return Ok(()) };
        let Some(path) = view.state.base.as_ref().map(|base| base.file().path().to_path_buf()) else {
            return Ok(());
        };
        let name = path.file_name().and_then(|name| SnapshotName::parse(name.to_str()?));
        {
            let mut shunned = self.snapshots.shunned.lock();
            if !shunned.contains(&path) {
                shunned.push(path.clone());
            }
        }
        let mut finding =
            unused(path, name.unwrap_or(SnapshotName { seq: 0, random: 0 }), &trouble.spoiled.0);
        finding.severity = Severity::Warning;
        self.note(finding);
        self.rebuild(&mut view)?.into_iter().for_each(|finding| self.note(finding));
        Ok(())
    }

    /// The highest event number that anything but the bytes at the end vouches for: frames that were read (`by_frames`), syncs that
    /// this process has seen, snapshots.
    pub(super) fn vouched_beside(&self, by_frames: u64) -> Result<u64> {
        let by_snapshot = vouched(&*self.vfs, &self.paths, self.meta.log_id)?;
        Ok(by_frames.max(self.durable.seq()).max(by_snapshot))
    }

    /// Snapshots that turned out to be spoiled.
    pub(super) fn shunned(&self) -> Vec<PathBuf> {
        self.snapshots.shunned.lock().clone()
    }

    /// Notes where the snapshot ends that a view was made of.
    pub(super) fn note_snapshot(&self, opened: Option<(u64, u64)>) {
        let (end, len) = opened.unwrap_or_default();
        self.snapshots.note(end, len, self.settings.snapshot_after);
    }
}

impl Opened {
    /// Where the snapshot ends, and how long it is.
    pub(super) fn extent(&self) -> (u64, u64) {
        (self.end, self.len)
    }
}

impl Job {
    fn run(self) -> Result<SnapshotReport> {
        let dir = self.paths.snapshots();
        match self.vfs.create_dir(&dir) {
            Ok(()) => self.vfs.sync_dir(self.paths.dir()).context("sync", self.paths.dir())?,
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(e) => return Err(Error::io(e, "create", &dir)),
        }
        let (_, unfinished) = list(&*self.vfs, &self.paths)?;
        // COMPACT is held: whoever began these is dead.
        unfinished.iter().for_each(|path| drop(self.vfs.unlink(path)));
        let mut random = [0; 8];
        self.vfs.random(&mut random).context("draw a name in", &dir)?;
        let name = SnapshotName { seq: self.state.last().0, random: u64::from_le_bytes(random) };
        let temporary = dir.join(format!("{TEMPORARY}{:016x}", name.random));
        let path = dir.join(name.to_string());
        let written = self.write(&temporary);
        let bytes = match written {
            Ok(bytes) => bytes,
            Err(e) => {
                let _ = self.vfs.unlink(&temporary);
                return Err(e);
            }
        };
        give_name(&*self.vfs, &temporary, &path)?;
        // Only now: they vouch for what the log may not have, until there is one that does.
        let _ = remove_spent(&*self.vfs, &self.paths);
        names::remove_older(&*self.vfs, &self.paths, self.log)?;
        Ok(SnapshotReport { seq: Seq(name.seq), end: Lpos(self.anchor.events_end_lpos), file: path, bytes })
    }

    /// Writes the file and reads it again.
    fn write(&self, path: &std::path::Path) -> Result<u64> {
        let unusable = |why: Spoiled| file::unusable(path, &why);
        let mut out = SnapshotWriter::create(&*self.vfs, path)?;
        save::save(&self.state, self.fold, &mut out).map_err(unusable)?;
        let header = Header {
            fold: save::fold_word(self.fold),
            log_id: self.log,
            seq: self.state.last().0,
            anchor: self.anchor,
            created: self.vfs.now(),
            writer_version: writer_version(),
        };
        let len = out.finish(&header)?;
        let file = SnapshotFile::open(&*self.vfs, path, false)?.map_err(unusable)?;
        file.check_all().map_err(unusable)?;
        let lost = || Err(Error::new(ErrorKind::NotYet, "read again", std::path::Path::new("")));
        let base = Base::of(file, Box::new(lost)).map(Arc::new).map_err(unusable)?;
        let state = save::load(&base, self.fold).map_err(unusable)?;
        if !save::is_for(&base, self.fold, &self.vocabulary)
            || !state.is_at_the_place_of(&self.state)
            || state.keys() != self.state.keys()
        {
            return Err(unusable(file::spoiled("what was read again is not what was meant")));
        }
        if cfg!(debug_assertions) {
            let hash = state.hash();
            match state.trouble() {
                Some(trouble) => return Err(unusable(trouble.spoiled)),
                None => debug_assert_eq!(hash, self.state.hash(), "what was written is what was meant"),
            }
        }
        Ok(len)
    }
}
