//! One log, opened: what all its users in this process share.
//!
//! Order of locks: `writer` (the in-process mutex), then LOCK, then `view`, then the sync lane. Readers take `view`
//! alone; nobody waits for LOCK while holding it, and for nothing while holding the lane.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use super::batch::Batch;
use super::blobs::Folders;
use super::classify::Verdict;
use super::commit::{Queue, Spare};
use super::control::{Block, ControlBlock, ControlUse, Mapping};
use super::control_frame::Control;
use super::envelope::Commit;
use super::finding::{Finding, Severity};
use super::format::{WORD_DIRTY, WORD_HOLDER, WORD_POISON};
use super::forward::Forward;
use super::health::{Health, OpenReport, Status};
use super::keep::{Keeping, Kept};
use super::lanes::Lanes;
use super::lock::{LockFile, Rank};
use super::meta::WorkspaceMeta;
use super::paths::Paths;
use super::reader::Walk;
use super::reads::{Whole, read_whole};
use super::settings::{Recovery, Settings};
use super::snapshot::Snapshots;
use super::subscribe::Followers;
use super::sync::Durable;
use super::view::{Active, View};
use super::{LogId, Seq};
use crate::error::{Context as _, Error, ErrorKind, Result};
use crate::session::{self, Listing, Session};
use crate::vfs::Vfs;
use crate::vfs::threads::{FairMutex, Mutex, RwLock};

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
    pub(super) listed: bool,
    pub(super) paths_checked: Option<Duration>,
    /// When the commit at hand, or the last one, took LOCK or took it up.
    pub(super) entered: Duration,
    /// The same of the commit before.
    pub(super) before: Duration,
    /// When LOCK was taken from the system.
    pub(super) since: Duration,
    /// When the files under LOCK were last looked at.
    pub(super) looked: Duration,
    /// A look at both clocks: [`Vfs::monotonic`] and [`Vfs::now`].
    pub(super) clocks: Option<(Duration, u64)>,
    pub(super) kept: Option<Kept>,
    /// Whether LOCK was last given back because somebody wanted it.
    pub(super) gave_way: bool,
    /// The control block that this process goes by under LOCK.
    pub(super) block: Option<Arc<Block>>,
    /// When it was last compared with its path.
    pub(super) block_looked: Option<Duration>,
    /// What its tail word holds, or should.
    pub(super) tail: u64,
    /// Whether a successor may have to be prepared before the next commit.
    pub(super) nearly_full: bool,
    pub(super) prepared: Option<super::rotate::Prepared>,
    /// Whether this process has looked for what the dead have left.
    pub(super) swept: bool,
    /// Whether whoever commits now waits for nothing: where something is to be synced or mended first, it gives up.
    pub(super) hurries: bool,
    pub(super) spare: Spare,
}

impl Writer {
    /// The control block, where its per-commit words are used.
    pub(super) fn words(&self, log: &Log) -> Option<&Arc<Block>> {
        self.block.as_ref().filter(|_| log.uses_words())
    }
}

/// See the module.
#[derive(Debug)]
pub struct Log {
    pub(super) vfs: Arc<dyn Vfs>,
    pub(super) paths: Paths,
    pub(super) meta: WorkspaceMeta,
    pub(super) settings: Settings,
    pub(super) sessions: PathBuf,
    pub(super) session: Option<Arc<Session>>,
    /// Why this handle must not write although it has a session.
    barrier: Option<String>,
    pub(super) lock: Option<Arc<LockFile>>,
    pub(super) control: ControlBlock,
    pub(super) keeping: Keeping,
    /// The tail word at which the view stands; 0 = the view has to be asked.
    pub(super) seen: AtomicU64,
    /// When this process last compared its view with the bytes, in nanoseconds.
    pub(super) looked_at: AtomicU64,
    pub(super) writer: FairMutex<Writer>,
    pub(super) queue: Queue,
    pub(super) view: RwLock<View>,
    pub(super) still: super::still::Still,
    pub(super) durable: Durable,
    pub(super) lanes: Lanes,
    pub(super) reserve: super::reserve::Reserving,
    pub(super) blob_folders: Folders,
    pub(super) forward: Forward,
    pub(super) snapshots: Snapshots,
    /// The ordinal up to which compaction has looked and found nothing to be gained.
    pub(super) compacted_in_vain: Arc<AtomicU64>,
    findings: Mutex<Vec<Finding>>,
    untold: Mutex<Vec<Finding>>,
    /// Whether there is any, to be looked at without the lock.
    has_untold: AtomicBool,
    forks: u64,
    /// Subscriptions, whose waiting ends with this.
    pub(super) followers: Followers,
    /// Whether the housekeeping thread was told of this log, and whether it is there for it now.
    pub(super) adopted: AtomicBool,
    pub(super) looked_after: AtomicBool,
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
        let (whole, unread) = match read_whole(&vfs, &paths, meta.log_id, &settings, session.is_some(), &[]) {
            Ok(whole) => (whole, None),
            // A failed sync may have cost what cannot be read; recovery says whether that was vouched for.
            Err(e) if session.is_some() && matches!(e.kind(), ErrorKind::Io) => {
                (Whole { view: View::empty(settings.fold), walk: Walk::default(), snapshot: None }, Some(e))
            }
            Err(e) => return Err(e),
        };
        let Whole { view, walk, snapshot } = whole;
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
            before: Duration::ZERO,
            since: Duration::ZERO,
            looked: Duration::ZERO,
            clocks: None,
            kept: None,
            gave_way: false,
            block: None,
            block_looked: None,
            tail: 0,
            nearly_full: true,
            prepared: None,
            swept: false,
            hurries: false,
            spare: Spare::default(),
        };
        let by_calls = match (settings.mapping, &session) {
            (Mapping::Off, _) => Some("mapping is off".to_owned()),
            // Who only reads asks the bytes once a second, whatever a map shows.
            (Mapping::Auto, None) => None,
            (Mapping::Auto, Some(session)) => session.maps_show_writes().err(),
        };
        let control = ControlBlock::open(&vfs, &paths, meta.log_id, session.is_some(), by_calls);
        // Where no file could be made, the control block may have kept the word.
        let word = control.with(|block| block.believed(WORD_POISON, 0)).flatten();
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
            control,
            keeping: Keeping::default(),
            seen: AtomicU64::new(0),
            looked_at: AtomicU64::new(0),
            writer: FairMutex::new(writer),
            queue: Queue::default(),
            view: RwLock::new(view),
            still: super::still::Still::default(),
            durable,
            lanes: Lanes::new(),
            reserve: super::reserve::Reserving::default(),
            blob_folders: Folders::default(),
            forward: Forward::default(),
            snapshots: Snapshots::default(),
            compacted_in_vain: Arc::default(),
            findings: Mutex::new(Vec::new()),
            untold: Mutex::new(Vec::new()),
            has_untold: AtomicBool::new(false),
            forks,
            followers: Followers::default(),
            adopted: AtomicBool::new(false),
            looked_after: AtomicBool::new(false),
        });
        log.note_snapshot(snapshot);
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
            let control = ControlUse::None { why: e.to_string() };
            return Health { status: Status::ReadOnly, control, findings: vec![finding] };
        }
        self.note_background();
        Health {
            status: self.status(),
            control: self.control.usage(),
            findings: self.findings.lock().clone(),
        }
    }

    pub(super) fn status(&self) -> Status {
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

    pub(super) fn check_fork(&self) -> Result<()> {
        if self.vfs.forks() == self.forks {
            Ok(())
        } else {
            Err(Error::new(ErrorKind::Forked, "use", self.paths.dir()))
        }
    }

    /// Refuses what this handle cannot do anyway, before any lock is taken, and recovers from a failed sync.
    pub(super) fn check_writable(&self) -> Result<&Arc<LockFile>> {
        self.check_fork()?;
        if self.lock.is_some() && self.barrier.is_none() {
            self.recover_if_poisoned()?;
        }
        self.may_write()
    }

    /// The same with the in-process mutex held.
    pub(super) fn may_write(&self) -> Result<&Arc<LockFile>> {
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
        let _ = self.control.with(|block| block.store(super::format::WORD_BOOT, u64::from_le_bytes(word)));
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
        let words = writer.words(self).map(Arc::clone);
        if let Some(block) = &words {
            block.store(WORD_DIRTY, writer.tail.max(1));
        }
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
        if written.whole > 0 {
            self.tell_tail(writer, view);
        }
        if written.restored
            && let Some(block) = &words
        {
            block.store(WORD_DIRTY, 0);
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
        let block = self.control.make_sure(&self.vfs, &self.paths, self.meta.log_id, self.lock.as_ref())?;
        Ok(Listing { log: self.meta.log_id.0, control: block.id() })
    }

    /// Puts the names of the live sessions into a `Busy`.
    pub(super) fn name_holder(&self, error: Error) -> Error {
        let ErrorKind::Busy { waited_ms, .. } = error.kind() else { return error };
        let live = session::live(&*self.vfs, &self.sessions, session::Probe::Look).unwrap_or_default();
        let except = self.session.as_ref().map_or(0, |session| session.id());
        let named = self.control.with(|block| block.load(WORD_HOLDER[0])).filter(|_| self.uses_words());
        let holder = match live.iter().find(|info| Some(info.session) == named && info.session != except) {
            Some(holder) => holder.to_string(),
            None => session::name_holders(&live, &self.meta.log_id.0, except),
        };
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
        self.note_background();
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

fn report(view: &View, walk: &Walk) -> OpenReport {
    OpenReport {
        seq: view.state.last(),
        events: view.state.events(),
        commits: view.state.commits(),
        segments: view.chain.len(),
        verdict: walk.last().map(|last| last.verdict),
        vouched: Seq(walk.vouched),
        findings: walk.findings.clone(),
    }
}
