//! One log, opened: what all its users in this process share.
//!
//! Order of locks: `writer` (the in-process mutex), then LOCK, then `view`, then the sync lane. Readers take `view`
//! alone; nobody waits for LOCK while holding it, and for nothing while holding the lane.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, RwLockWriteGuard};
use std::time::Duration;

use super::batch::Batch;
use super::blobs::Folders;
use super::classify::{Hints, Place, Verdict, classify};
use super::commit::{Queue, Spare};
use super::control_frame::Control;
use super::envelope::Commit;
use super::finding::{Finding, Severity};
use super::forward::Forward;
use super::health::{Health, OpenReport, Status};
use super::lock::{Held, LockFile, Rank, same};
use super::meta::WorkspaceMeta;
use super::paths::Paths;
use super::reader::{self, Reach, Walk};
use super::scan;
use super::settings::{Recovery, Settings};
use super::state::State;
use super::sync::Durable;
use super::view::{Active, Tail, View, replaced};
use super::{LogId, Seq};
use crate::error::{Context as _, Error, ErrorKind, Result};
use crate::session::{self, Listing, Session};
use crate::vfs::threads::{FairMutex, Mutex, RwLock};
use crate::vfs::{Existing, Open, Vfs, read_full};

/// How old a comparison of open files with their paths may be.
const PATHS_CHECKED_FOR: Duration = Duration::from_millis(100);

/// How to take a frame back from the state if it does not reach the file.
#[derive(Debug)]
pub(super) enum Undoing {
    Control(Control),
    Commit(super::state::Undo),
    Nothing,
}

impl Undoing {
    pub(super) fn is_epoch(&self) -> bool {
        matches!(self, Undoing::Control(Control::Epoch { .. }))
    }
}

/// What only the holder of the in-process mutex touches.
#[derive(Debug)]
pub(super) struct Writer {
    /// Random per handle, in every frame it writes.
    pub(super) id: u32,
    /// Whether this session lists the log: it has found a witness or appended an Epoch.
    listed: bool,
    paths_checked: Option<Duration>,
    /// When LOCK was last taken.
    pub(super) entered: Duration,
    /// Whether a successor may have to be prepared before the next commit.
    pub(super) nearly_full: bool,
    pub(super) prepared: Option<super::rotate::Prepared>,
    pub(super) spare: Spare,
}

/// LOCK, the view, and the length of the active file, whose frames end where the view stands.
type Entered<'a> = (Held<'a>, RwLockWriteGuard<'a, View>, u64);

/// See the module.
#[derive(Debug)]
pub struct Log {
    pub(super) vfs: Arc<dyn Vfs>,
    pub(super) paths: Paths,
    pub(super) meta: WorkspaceMeta,
    pub(super) settings: Settings,
    sessions: PathBuf,
    pub(super) session: Option<Arc<Session>>,
    /// Why this handle must not write although it has a session.
    barrier: Option<String>,
    pub(super) lock: Option<LockFile>,
    pub(super) writer: FairMutex<Writer>,
    pub(super) queue: Queue,
    pub(super) view: RwLock<View>,
    pub(super) durable: Durable,
    pub(super) blob_folders: Folders,
    pub(super) forward: Forward,
    findings: Mutex<Vec<Finding>>,
    untold: Mutex<Vec<Finding>>,
    /// Whether there is any, to be looked at without the lock.
    has_untold: AtomicBool,
    forks: u64,
    /// Whether the housekeeping thread looks after this log.
    pub(super) adopted: AtomicBool,
}

impl Log {
    /// Opens a log for reading, and with a session for writing. Never waits for LOCK; a read-only open writes nothing.
    ///
    /// # Errors
    /// System errors with their place; [`ErrorKind::Damaged`] with [`Recovery::Strict`]; [`ErrorKind::NotYet`] if the
    /// log was written so busily that no two looks agreed.
    pub fn open(
        vfs: Arc<dyn Vfs>,
        paths: Paths,
        meta: WorkspaceMeta,
        settings: Settings,
        sessions: PathBuf,
        session: Option<Arc<Session>>,
        barrier: Option<String>,
    ) -> Result<(Arc<Log>, OpenReport)> {
        let barrier = barrier.or_else(|| meta.write_barrier().map(|bad| bad.to_string()));
        let session = session.filter(|_| barrier.is_none());
        let (view, walk, unread) = match read_whole(&*vfs, &paths, meta.log_id, &settings, session.is_some())
        {
            Ok((view, walk)) => (view, walk, None),
            // A failed sync may have cost what cannot be read; recovery says whether that was vouched for.
            Err(e) if session.is_some() && matches!(e.kind(), ErrorKind::Io) => {
                (View::empty(settings.fold), Walk::default(), Some(e))
            }
            Err(e) => return Err(e),
        };
        let mut report = report(&view, &walk);
        if settings.recovery == Recovery::Strict
            && let Some(finding) = &walk.damage
        {
            return Err(Error::new(ErrorKind::Damaged(Box::new(finding.clone())), "open", &finding.file));
        }
        let lock = match &session {
            Some(_) => Some(LockFile::open(&vfs, paths.lock(), Rank::Lock)?),
            None => None,
        };
        let mut id = [0; 4];
        vfs.random(&mut id).context("draw a writer id for", paths.dir())?;
        let writer = Writer {
            id: u32::from_le_bytes(id),
            listed: false,
            paths_checked: None,
            entered: Duration::ZERO,
            nearly_full: true,
            prepared: None,
            spare: Spare::default(),
        };
        // Where no file could be made, the control block may have kept the word.
        let word = reader::control_word(&*vfs, &paths, meta.log_id, super::format::WORD_POISON);
        let poisoned = super::sync::is_poisoned(&*vfs, &paths)? || word.is_some();
        let durable = Durable::new(view.vouched, poisoned);
        if poisoned {
            report.findings.push(super::sync::poison_finding(&paths, view.vouched));
        }
        let forks = vfs.forks();
        let log = Arc::new(Log {
            vfs,
            paths,
            meta,
            settings,
            sessions,
            session,
            barrier,
            lock,
            writer: FairMutex::new(writer),
            queue: Queue::default(),
            view: RwLock::new(view),
            durable,
            blob_folders: Folders::default(),
            forward: Forward::default(),
            findings: Mutex::new(Vec::new()),
            untold: Mutex::new(Vec::new()),
            has_untold: AtomicBool::new(false),
            forks,
            adopted: AtomicBool::new(false),
        });
        for finding in &report.findings {
            log.note(finding.clone());
        }
        if poisoned && log.recover_at_open() {
            report = OpenReport { verdict: Some(Verdict::CleanEnd), ..log.report() };
            report.findings.retain(|finding| finding.code != "poisoned" && finding.code != "recovered");
            report.findings.extend(log.untold.lock().iter().filter(|f| f.code == "recovered").cloned());
        } else if let Some(e) = unread {
            return Err(e);
        } else if !walk.is_clean() || walk.unfinished.is_some() {
            let healed = log.try_mend();
            report.findings.extend(log.untold.lock().iter().filter(|f| f.code == "healed").cloned());
            match healed {
                Ok(()) => {}
                Err(e) if matches!(e.kind(), ErrorKind::Busy { .. }) => {}
                // Opening is for readers too: what keeps a writer out is told when it writes.
                Err(e) => log.note(Finding {
                    severity: Severity::Warning,
                    code: "not-healed",
                    file: e.path().to_path_buf(),
                    offset: None,
                    seq: None,
                    message: e.to_string(),
                    remedy: e.kind().remedy(),
                }),
            }
        }
        log.tell();
        Ok((log, report))
    }

    /// What an opener who shares this engine is told: the present state.
    pub(crate) fn report(&self) -> OpenReport {
        let view = self.view.read();
        OpenReport {
            seq: view.state.last(),
            events: view.state.events(),
            commits: view.state.commits(),
            segments: view.chain.len(),
            verdict: None,
            vouched: Seq(view.vouched),
            findings: self.findings.lock().clone(),
        }
    }

    /// The log's identity.
    pub fn id(&self) -> LogId {
        self.meta.log_id
    }

    /// Its META as read at open.
    pub fn meta(&self) -> &WorkspaceMeta {
        &self.meta
    }

    /// The session it writes as; `None` = it reads only.
    pub fn session(&self) -> Option<&Session> {
        self.session.as_deref()
    }

    /// How it was opened.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Where its files are.
    pub fn paths(&self) -> &Paths {
        &self.paths
    }

    /// What can be done with it, and what was found.
    pub fn health(&self) -> Health {
        if let Err(e) = self.check_fork() {
            // The parent's locks may be held by threads that do not exist here; none of them is touched.
            let finding = Finding {
                severity: Severity::Error,
                code: e.code(),
                file: self.paths.dir().to_path_buf(),
                offset: None,
                seq: None,
                message: e.to_string(),
                remedy: e.kind().remedy(),
            };
            return Health { status: Status::ReadOnly, findings: vec![finding] };
        }
        Health { status: self.status(), findings: self.findings.lock().clone() }
    }

    fn status(&self) -> Status {
        let view = self.view.read();
        self.forget_poison(&view);
        if self.durable.is_poisoned() {
            Status::DurabilityLost
        } else if view.damage.is_some() {
            Status::Damaged
        } else if view.too_new.is_some()
            || view.state.unknown().is_some()
            || self.barrier.is_some()
            || view.active.as_ref().is_some_and(|active| active.header.ro_compat != 0)
        {
            Status::TooNew
        } else if self.session.is_none() {
            Status::ReadOnly
        } else {
            Status::Healthy
        }
    }

    /// Reads on to what others have committed, without the lock, and hands out the state.
    ///
    /// # Errors
    /// [`ErrorKind::StoreReplaced`], system errors. Bytes in motion are no error: the state is then as of before them.
    pub fn read<T>(&self, look: impl FnOnce(&State) -> T) -> Result<T> {
        self.refresh()?;
        Ok(look(&self.view.read().state))
    }

    /// The state as of the last read or commit of this process; makes no system call.
    ///
    /// # Errors
    /// [`ErrorKind::Forked`].
    pub fn cached<T>(&self, look: impl FnOnce(&State) -> T) -> Result<T> {
        self.check_fork()?;
        Ok(look(&self.view.read().state))
    }

    /// Reads on to what others have committed.
    ///
    /// # Errors
    /// As [`Log::read`].
    pub fn refresh(&self) -> Result<()> {
        self.check_fork()?;
        {
            let view = self.view.read();
            if view.too_new.is_some() {
                return Ok(());
            }
            if view.damage.is_none() && view.is_at_end()? {
                return Ok(());
            }
        }
        let mut view = self.view.write();
        self.take_up_repair(&mut view)?;
        if view.damage.is_none() {
            self.follow(&mut view)?;
        }
        Ok(())
    }

    /// Follows the bytes; rebuilds the view where repair has replaced what it was folded from.
    fn follow(&self, view: &mut View) -> Result<Tail> {
        let (epochs, segments) = (view.state.epochs().len(), view.chain.len());
        let tail = view.catch_up(
            &*self.vfs,
            &self.paths,
            self.meta.log_id,
            &self.settings.vocabulary,
            open_for(self.session.is_some()),
        );
        // A copy of the segment may stand in its place, and the file itself be gone.
        let forward = matches!(&tail, Err(e) if matches!(e.kind(), ErrorKind::StoreReplaced { .. }))
            && self.went_forward(view);
        if !forward && let Err(e) = tail {
            return Err(self.lost_or(e));
        }
        let moved = view.state.epochs().len() != epochs || view.chain.len() != segments || forward;
        if moved && view.chain_is_replaced(&*self.vfs, &self.paths)? {
            let writing = self.session.is_some();
            let (fresh, walk) =
                read_whole(&*self.vfs, &self.paths, self.meta.log_id, &self.settings, writing)?;
            *view = fresh;
            self.forget_poison(view);
            walk.findings.into_iter().for_each(|finding| self.note(finding));
            return view.catch_up(
                &*self.vfs,
                &self.paths,
                self.meta.log_id,
                &self.settings.vocabulary,
                open_for(writing),
            );
        }
        tail
    }

    /// Folds the log from its first event.
    pub(super) fn read_whole(&self) -> Result<(View, Walk)> {
        read_whole(&*self.vfs, &self.paths, self.meta.log_id, &self.settings, self.session.is_some())
    }

    /// A damaged log that somebody has repaired since is read anew.
    fn take_up_repair(&self, view: &mut View) -> Result<()> {
        if view.damage.is_some() && view.chain_is_replaced(&*self.vfs, &self.paths)? {
            self.rebuild(view)?.into_iter().for_each(|finding| self.note(finding));
        }
        Ok(())
    }

    pub(super) fn check_fork(&self) -> Result<()> {
        if self.vfs.forks() == self.forks {
            Ok(())
        } else {
            Err(Error::new(ErrorKind::Forked, "use", self.paths.dir()))
        }
    }

    /// Refuses what this handle cannot do anyway, before any lock is taken, and recovers from a failed sync.
    pub(super) fn check_writable(&self) -> Result<&LockFile> {
        self.check_fork()?;
        if self.lock.is_some() && self.barrier.is_none() {
            self.recover_if_poisoned()?;
        }
        self.may_write()
    }

    /// The same with the in-process mutex held.
    pub(super) fn may_write(&self) -> Result<&LockFile> {
        self.check_fork()?;
        let refuse = |kind| Err(Error::new(kind, "write", self.paths.dir()));
        if let Some(reason) = &self.barrier {
            return refuse(ErrorKind::ReadOnly { reason: reason.clone() });
        }
        let Some(lock) = &self.lock else {
            return refuse(ErrorKind::ReadOnly { reason: "the store was opened for reading only".into() });
        };
        if self.durable.is_poisoned() {
            self.durable.retry_poison_file(self);
            return refuse(ErrorKind::DurabilityLost { from: Seq(self.durable.seq() + 1) });
        }
        Ok(lock)
    }

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
        let held = if patience.is_zero() {
            let busy =
                || Error::new(ErrorKind::Busy { holder: String::new(), waited_ms: 0 }, "lock", lock.path());
            lock.try_acquire()?.ok_or_else(busy)?
        } else {
            lock.acquire(patience)?
        };
        if lock.is_deleted()? {
            return Err(Error::new(
                ErrorKind::StoreReplaced { what: "LOCK was deleted".into() },
                "lock",
                lock.path(),
            ));
        }
        let mut view = self.view.write();
        self.take_up_repair(&mut view)?;
        let mut rounds = 0;
        let file_len = loop {
            if let Some(finding) = &view.damage {
                return Err(Error::new(
                    ErrorKind::Damaged(Box::new(finding.clone())),
                    "write",
                    &finding.file,
                ));
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
                Tail::Clean { len } if writer.listed || self.is_zero_to_the_end(&view, len)? => break len,
                Tail::Clean { .. } | Tail::Broken => self.mend(writer, &mut view)?,
                Tail::Sealed { .. } if view.too_new.is_some() => break 0,
                Tail::Sealed { seal, last_crc } => {
                    self.finish_rotation(writer, &mut view, &seal, last_crc)?
                }
            }
        };
        let newer = view.active.as_ref().filter(|active| active.header.ro_compat != 0).map(|active| {
            let what = format!("writing needs unknown features {:#x}", active.header.ro_compat);
            super::view::newer(&active.path, active.header.first_seq, &what)
        });
        if let Some(finding) = view.too_new.as_ref().or(newer.as_ref()) {
            let (what, need) = (finding.message.clone(), u64::from(super::format::LEVEL) + 1);
            let kind = ErrorKind::TooNew { what, need, have: super::format::LEVEL.into() };
            return Err(Error::new(kind, "write", &finding.file));
        }
        self.check_paths(writer, &view, PATHS_CHECKED_FOR).map_err(|e| self.lost_or(e))?;
        Ok((held, view, file_len))
    }

    /// An event that must be understood and is not makes the log read-only for this process.
    fn check_understood(&self, view: &View) -> Result<()> {
        let Some(super::state::Unknown { seq, kind, version }) = view.state.unknown() else { return Ok(()) };
        Err(Error::new(ErrorKind::UnknownEvent { seq, kind, version }, "write", self.paths.dir()))
    }

    /// An opener without a witness looks on to the end of the file.
    fn is_zero_to_the_end(&self, view: &View, len: u64) -> Result<bool> {
        let Some(active) = &view.active else { return Ok(false) };
        let behind_durable = reader::durable_word(&*self.vfs, &self.paths, self.meta.log_id)
            .is_none_or(|durable| durable <= view.end_lpos());
        let mut rest = vec![0; usize::try_from(len.saturating_sub(view.at.offset)).unwrap_or(0)];
        read_full(&*active.file, &mut rest, view.at.offset).context("read", &active.path)?;
        Ok(behind_durable && super::bytes::all_zero(&rest))
    }

    /// Compares LOCK's and the active segment's handle with their paths, if the last time is longer ago than this.
    pub(super) fn check_paths(&self, writer: &mut Writer, view: &View, older_than: Duration) -> Result<()> {
        let now = self.vfs.monotonic();
        writer.entered = now;
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
    fn mend(&self, writer: &mut Writer, view: &mut View) -> Result<()> {
        let Some(active) = view.active.clone() else {
            let what = "no segment of this log can be read".into();
            return Err(Error::new(ErrorKind::NotFound { what }, "write", &self.paths.log()));
        };
        let bytes = reader::read_file(&*self.vfs, &active.path).context("read", &active.path)?;
        let summary = scan::segment(&bytes, &active.header, &active.salt, |_| {});
        let durable = reader::durable_word(&*self.vfs, &self.paths, self.meta.log_id);
        let hints = Hints {
            vouched: view.vouched.max(self.durable.seq()),
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
    fn try_mend(&self) -> Result<()> {
        if self.session.is_none() {
            return Ok(());
        }
        let Some(mut writer) = self.writer.try_lock() else { return Ok(()) };
        self.enter(&mut writer, Duration::ZERO).map(drop)
    }

    /// Starts a batch at the end, with whatever must come before anything this session appends. LOCK is held.
    ///
    /// The first append of a session that finds no witness is preceded by an Epoch, which is folded at once, so that
    /// expectations are judged in the history they will land in. [`Log::write_batch`] writes it, or takes it back.
    pub(super) fn start_batch<'a>(
        &self,
        writer: &mut Writer,
        view: &mut View,
        active: &'a Active,
    ) -> Result<(Batch<'a>, Vec<Undoing>)> {
        let mut controls = Vec::new();
        if !writer.listed {
            let listing = self.listing()?;
            let except = self.session.as_ref().map_or(0, |session| session.id());
            if !session::has_witness(&*self.vfs, &self.sessions, listing, except)? {
                controls.push(self.new_epoch()?);
                self.write_boot_word();
            }
            controls.extend(super::heal::unnamed_notes(self, &view.state)?);
        }
        self.durable.raise_seq(view.vouched);
        let mut batch = Batch::new(
            active,
            view.at,
            self.durable.seq(),
            writer.id,
            std::mem::take(&mut writer.spare.batch),
        );
        let mut undoing = std::mem::take(&mut writer.spare.undoing);
        for control in controls {
            let placed = batch.put_control(&control);
            view.state.apply_control(placed.seq, &control);
            undoing.push(Undoing::Control(control));
        }
        Ok((batch, undoing))
    }

    /// Leaves this boot's mark in the control block, for reports. A hint: whatever goes wrong is harmless.
    fn write_boot_word(&self) {
        let Some(boot_id) = self.vfs.boot_id() else { return };
        let hash = blake3::hash(&boot_id.to_le_bytes());
        let word = hash.as_bytes().first_chunk::<8>().copied().unwrap_or_default();
        if let Ok(file) = self.vfs.open(&self.paths.control(), Open::Write) {
            let _ = crate::vfs::write_full(&*file, &word, super::format::WORD_BOOT);
        }
    }

    pub(super) fn new_epoch(&self) -> Result<Control> {
        let mut epoch = [0; 8];
        self.vfs.random(&mut epoch).context("draw an epoch for", self.paths.dir())?;
        Ok(Control::Epoch { epoch: u64::from_le_bytes(epoch).max(1) })
    }

    /// Puts an Epoch into a batch and folds it.
    pub(super) fn put_epoch(&self, view: &mut View, batch: &mut Batch<'_>) -> Result<Undoing> {
        let control = self.new_epoch()?;
        let placed = batch.put_control(&control);
        view.state.apply_control(placed.seq, &control);
        Ok(Undoing::Control(control))
    }

    /// Writes a batch; what did not land whole is taken back from the state. `undoing` has an entry for each frame.
    ///
    /// Returns how many frames stand, and the error that kept the others out. LOCK is held.
    pub(super) fn write_batch(
        &self,
        writer: &mut Writer,
        view: &mut View,
        active: &Active,
        batch: Batch<'_>,
        mut undoing: Vec<Undoing>,
        file_len: u64,
    ) -> (usize, Option<Error>) {
        let written = batch.write(file_len);
        let lost = batch.frames().get(written.whole..).unwrap_or_default();
        for (placed, undo) in lost.iter().zip(undoing.drain(written.whole.min(undoing.len())..)).rev() {
            match undo {
                Undoing::Control(control) => view.state.undo_control(&control),
                Undoing::Commit(undo) => {
                    let count = u16::try_from(placed.behind.seq - placed.seq).unwrap_or(u16::MAX);
                    let commit = Commit::decode(placed.seq, count, batch.body(placed));
                    debug_assert!(commit.is_ok(), "it was read back when it was put");
                    if let Ok(commit) = commit {
                        view.state.undo(&commit, undo);
                    }
                }
                Undoing::Nothing => {}
            }
        }
        for placed in batch.frames().iter().take(written.whole) {
            let len = (placed.range.1 - placed.range.0) as u64;
            view.stand_behind(placed.behind.offset - len, len, placed.kind, placed.crc, placed.seq);
            view.at = placed.behind;
        }
        undoing.clear();
        view.state.stands();
        (writer.spare.undoing, writer.spare.batch) = (undoing, batch.into_memory());
        if written.whole > 0 {
            self.appended(writer);
        }
        if !written.restored {
            self.note(Finding {
                severity: Severity::Warning,
                code: "half-write-left",
                file: active.path.clone(),
                offset: Some(view.at.offset),
                seq: Some(view.at.seq),
                message: "a failed write could not be undone; the next writer sets it aside".into(),
                remedy: "free space or check the disk; nothing acknowledged is affected",
            });
        }
        (written.whole, written.error.map(|e| Error::io(e, "append to", &active.path)))
    }

    /// After the first whole frame of a session has been written: it lists itself as a witness. LOCK is held.
    pub(super) fn appended(&self, writer: &mut Writer) {
        if writer.listed {
            return;
        }
        // A failure costs another Epoch at the next append, no more.
        if let (Some(session), Ok(listing)) = (&self.session, self.listing()) {
            writer.listed = session.list(listing).is_ok();
        }
    }

    /// This log and the identity of its control block, which is made anew if it is missing or not this log's.
    fn listing(&self) -> Result<Listing> {
        let path = self.paths.control();
        let mut block = vec![0; super::format::CONTROL_LEN + 1];
        let found = self.vfs.open(&path, Open::Read).and_then(|file| {
            let n = read_full(&*file, &mut block, 0)?;
            Ok((n, file.stat()?.id))
        });
        match found {
            Ok((n, id))
                if super::control::is_block_of(block.get(..n).unwrap_or_default(), self.meta.log_id) =>
            {
                return Ok(Listing { log: self.meta.log_id.0, control: id });
            }
            Ok(_) => {}
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
            Err(e) => return Err(Error::io(e, "read", &path)),
        }
        let mut random = [0; 8];
        self.vfs.random(&mut random).context("draw a name for", &path)?;
        let temporary = self.paths.dir().join(format!(".new-control-{:016x}", u64::from_le_bytes(random)));
        let file = self.vfs.open(&temporary, Open::Create).context("create", &temporary)?;
        crate::vfs::write_full(&*file, &super::control::encode(self.meta.log_id), 0)
            .map_err(|(_, e)| Error::io(e, "write", &temporary))?;
        let id = file.stat().context("look at", &temporary)?.id;
        drop(file);
        self.vfs.rename(&temporary, &path, Existing::Replace).context("publish", &path)?;
        Ok(Listing { log: self.meta.log_id.0, control: id })
    }

    /// Puts the names of the live sessions into a `Busy`.
    pub(super) fn name_holder(&self, error: Error) -> Error {
        let ErrorKind::Busy { waited_ms, .. } = error.kind() else { return error };
        let live = session::live(&*self.vfs, &self.sessions, session::Probe::Look).unwrap_or_default();
        let except = self.session.as_ref().map_or(0, |session| session.id());
        let holder = session::name_holders(&live, &self.meta.log_id.0, except);
        Error::new(ErrorKind::Busy { holder, waited_ms: *waited_ms }, "lock", error.path())
    }

    /// Keeps a finding for `health()` and for the callback, which is told by [`Log::tell`].
    pub(super) fn note(&self, finding: Finding) {
        let mut findings = self.findings.lock();
        if findings.len() >= 64 {
            findings.remove(0);
        }
        findings.push(finding.clone());
        self.untold.lock().push(finding);
        self.has_untold.store(true, Ordering::Release);
    }

    /// Tells the callback what it has not been told. No lock of the engine is held.
    pub(super) fn tell(&self) {
        if !self.has_untold.load(Ordering::Acquire) {
            return;
        }
        self.has_untold.store(false, Ordering::Release);
        let untold = std::mem::take(&mut *self.untold.lock());
        if let Some(on_event) = &self.settings.on_event {
            untold.iter().for_each(|finding| on_event(finding));
        }
    }
}

fn open_for(writing: bool) -> Open {
    if writing { Open::Write } else { Open::Read }
}

/// Folds a log from its first event.
fn read_whole(
    vfs: &dyn Vfs,
    paths: &Paths,
    log: LogId,
    settings: &Settings,
    writing: bool,
) -> Result<(View, Walk)> {
    let reach = if settings.recovery == Recovery::Salvage { Reach::Salvage } else { Reach::Intact };
    let (mut view, walk) = reader::stable(paths, || {
        // Hints are read before the bytes: a word raised meanwhile speaks of bytes not yet looked at.
        let durable = reader::durable_word(vfs, paths, log);
        let mut view = View::empty(settings.fold);
        let walk = reader::walk(vfs, paths, log, durable, reach, &mut |visit| {
            view.visit(visit, &settings.vocabulary)
        })?;
        Ok((view, walk))
    })?;
    // Only now: what a single look made of bytes in motion may have been taken back.
    view.adopt(vfs, &walk, open_for(writing))?;
    Ok((view, walk))
}

fn report(view: &View, walk: &Walk) -> OpenReport {
    OpenReport {
        seq: view.state.last(),
        events: view.state.events(),
        commits: view.state.commits(),
        segments: walk.segments.len(),
        verdict: walk.last().map(|last| last.verdict),
        vouched: Seq(walk.vouched),
        findings: walk.findings.clone(),
    }
}
