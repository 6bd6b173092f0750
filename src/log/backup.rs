//! Copying a log while others write it: sealed segments by a second name, the segment at the end up to a whole frame.
//!
//! Takes no lock and writes nothing where the log is. That a copy is of one moment follows from three things: a look
//! without the lock says which files make up the log and where its last whole frame ends; a sealed segment is never
//! written again, and whoever rewrites one makes a file of another name; and what comes of it is walked and folded, and
//! must come to the state that the look came to. Where a file has gone meanwhile, all is looked at anew.
//! `format-spec/backup.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::blobs::{self, BlobId};
use super::finding::{Finding, Severity};
use super::fold::FoldKind;
use super::paths::Paths;
use super::publish::write_new;
use super::reader::{self, Reach, Visit, Walk};
use super::scan::{Content, Stop};
use super::state::{State, Vocabulary};
use super::view::{View, too_new};
use super::{LogId, control_frame::Control};
use crate::error::{Context as _, Error, ErrorKind, Result};
use crate::vfs::{FileKind, Open, Vfs, read_full, write_full};

/// How often a log is looked at anew because what the look named has gone, or the copy came to something else.
const TRIES: usize = 8;
/// How long after a look that met damage the next one is taken: a writer may have been stopped in mid-write.
const SECOND_LOOK: Duration = Duration::from_millis(50);
/// How much is copied at a time; in between, who has cancelled is heard.
const PIECE: usize = 1 << 20;

/// Whether files that are never written again may be shared with the copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Link {
    /// They get a second name where the file system can do that, else they are copied.
    #[default]
    Auto,
    /// Every byte is copied: such a copy outlives the disk blocks of the original.
    Never,
}

/// What a copy is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The log is read and folded.
    Reading,
    /// Its files are linked and copied.
    Copying,
    /// What came of it is read and folded.
    Verifying,
}

impl Phase {
    /// Its name for people and programs.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Reading => "reading",
            Phase::Copying => "copying",
            Phase::Verifying => "verifying",
        }
    }
}

/// How far a copy has come, told whenever it goes on to another file, and within large ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Name of the workspace's folder.
    pub workspace: String,
    /// What is done with it.
    pub phase: Phase,
    /// Bytes that have come through this phase.
    pub done: u64,
    /// How many there will be; 0 while that is not known.
    pub total: u64,
}

/// Whom to tell how far a copy is.
type OnProgress = Arc<dyn Fn(&Progress) + Send + Sync>;

/// Whom to tell of a copy's progress, and who may end it.
#[derive(Clone, Default)]
pub(crate) struct Watch {
    pub(crate) cancel: Option<Arc<AtomicBool>>,
    pub(crate) on_progress: Option<OnProgress>,
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("cancel", &self.cancel).finish_non_exhaustive()
    }
}

impl Watch {
    /// Tells how far it is.
    ///
    /// # Errors
    /// [`ErrorKind::Cancelled`], if it is to end.
    fn at(&self, workspace: &str, phase: Phase, done: u64, total: u64, path: &Path) -> Result<()> {
        if self.cancel.as_ref().is_some_and(|cancel| cancel.load(Ordering::Acquire)) {
            return Err(Error::new(ErrorKind::Cancelled, "copy", path));
        }
        if let Some(on_progress) = &self.on_progress {
            on_progress(&Progress { workspace: workspace.into(), phase, done, total });
        }
        Ok(())
    }
}

/// How a log is to be copied.
#[derive(Clone, Debug)]
pub(crate) struct Copying {
    pub(crate) link: Link,
    pub(crate) quarantine: bool,
    /// Damage and all, byte for byte.
    pub(crate) as_it_is: bool,
    pub(crate) fold: Option<FoldKind>,
    pub(crate) watch: Watch,
}

/// Files and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Volume {
    /// How many files.
    pub files: u64,
    /// How many bytes they have.
    pub bytes: u64,
}

impl Volume {
    fn add(&mut self, bytes: u64) {
        self.files += 1;
        self.bytes += bytes;
    }
}

/// A copy of a log that was read back and holds what the log held.
#[derive(Debug)]
pub(crate) struct LogCopy {
    /// Its fold, at the last event that is in it.
    pub(crate) state: State,
    /// Its state hash without any fold of the program's.
    pub(crate) log_hash: blake3::Hash,
    pub(crate) segments: usize,
    pub(crate) blobs: usize,
    /// Files that are the same as the log's own.
    pub(crate) linked: Volume,
    pub(crate) copied: Volume,
    /// What was found wrong with the log, or with the copy.
    pub(crate) findings: Vec<Finding>,
    /// Whether the log is damaged, so that the copy is too.
    pub(crate) damaged: bool,
    /// Every session that has committed something, whatever came of it.
    pub(crate) writers: BTreeSet<u64>,
}

/// A log, read and folded.
#[derive(Debug)]
pub(crate) struct Look {
    view: View,
    /// The same without a fold of the program's, where there is one.
    plain: Option<View>,
    /// Each blob that an event names, and the first event that does.
    blobs: BTreeMap<BlobId, u64>,
    writers: BTreeSet<u64>,
    /// Where the last frame begins, if that is a Seal.
    seal_at: Option<u64>,
    walk: Walk,
}

/// Why a copy came to nothing.
enum Trouble {
    /// The log has changed underneath; another look may do.
    Again(Error),
    /// It would come to nothing again.
    Final(Error),
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Trouble::Final(error)
    }
}

/// Reads and folds a log, up to its last whole frame, without a lock.
///
/// # Errors
/// [`ErrorKind::Damaged`] and [`ErrorKind::TooNew`], unless `as_it_is`; [`ErrorKind::NotYet`]; system errors.
pub(crate) fn look(
    vfs: &dyn Vfs,
    paths: &Paths,
    log: LogId,
    fold: Option<FoldKind>,
    as_it_is: bool,
) -> Result<Look> {
    let reach = if as_it_is { Reach::Salvage } else { Reach::Intact };
    let all = Vocabulary::all();
    let once = || {
        reader::stable(paths, || {
            let durable = reader::durable_word(vfs, paths, log);
            let mut seen = Seen {
                view: View::empty(fold),
                plain: fold.map(|_| View::empty(None)),
                blobs: BTreeMap::new(),
                writers: BTreeSet::new(),
                seal_at: None,
            };
            let walk = reader::walk(vfs, paths, log, durable, reach, &mut |visit| seen.visit(visit, &all))?;
            Ok((seen, walk))
        })
    };
    let (mut seen, mut walk) = once()?;
    if walk.damage.is_some() || walk.too_new.is_some() {
        vfs.sleep(SECOND_LOOK);
        (seen, walk) = once()?;
    }
    if !as_it_is {
        if let Some(finding) = &walk.too_new {
            return Err(too_new(finding, "copy"));
        }
        if let Some(finding) = &walk.damage {
            return Err(Error::new(ErrorKind::Damaged(Box::new(finding.clone())), "copy", &finding.file));
        }
    }
    let Seen { view, plain, blobs, writers, seal_at } = seen;
    Ok(Look { view, plain, blobs, writers, seal_at, walk })
}

/// A segment to copy.
struct File {
    path: PathBuf,
    /// How many of its bytes.
    end: u64,
    /// Whether it has a live successor, so that nobody writes it any more.
    sealed: bool,
}

/// What a walk of a look has met so far.
struct Seen {
    view: View,
    plain: Option<View>,
    blobs: BTreeMap<BlobId, u64>,
    writers: BTreeSet<u64>,
    seal_at: Option<u64>,
}

impl Seen {
    fn visit(&mut self, visit: &Visit<'_, '_>, vocabulary: &Vocabulary) {
        self.seal_at = match &visit.located.content {
            Content::Control(Control::Seal(_)) => Some(visit.located.offset),
            _ => None,
        };
        if let Content::Commit(commit) = &visit.located.content {
            self.writers.extend(Some(commit.preamble.session).filter(|session| *session != 0));
            for event in commit.events() {
                for name in event.blobs.as_chunks().0 {
                    self.blobs.entry(BlobId(*name)).or_insert(event.seq.0);
                }
            }
        }
        if !visit.salvaged {
            self.view.visit(visit, vocabulary);
            if let Some(plain) = &mut self.plain {
                plain.visit(visit, vocabulary);
            }
        }
    }
}

impl Look {
    /// The state hash of the log alone, which does not depend on what the program makes of its events.
    fn log_hash(&self) -> blake3::Hash {
        self.plain.as_ref().unwrap_or(&self.view).state.hash()
    }

    /// Reads every blob that an event names.
    ///
    /// # Errors
    /// Of the first that is not there, whole.
    pub(crate) fn check_blobs(&self, vfs: &dyn Vfs, paths: &Paths) -> Result<()> {
        self.blobs.keys().try_for_each(|id| blobs::read(vfs, paths, id).map(drop))
    }

    /// The files to copy.
    fn files(&self) -> Vec<File> {
        let last = self.walk.segments.len().saturating_sub(1);
        let files = self.walk.segments.iter().enumerate().map(|(i, walked)| {
            let end = match (walked.summary.stop, self.seal_at) {
                // A rotation that is not finished: its successor is nobody's yet, and the Seal that names it stays behind.
                (Stop::Sealed { .. }, Some(seal_at)) if i == last => seal_at,
                _ => walked.summary.end.offset,
            };
            File { path: walked.path.clone(), end, sealed: i < last }
        });
        files.collect()
    }
}

/// Copies a log into a folder that is its own, `to`, which holds nothing but an empty folder `quarantine`, and reads it back.
///
/// # Errors
/// As [`look`]; [`ErrorKind::BlobMissing`] where an event names a blob that is not there; [`ErrorKind::NotYet`] if files
/// have come and gone too often; [`ErrorKind::Cancelled`]; [`ErrorKind::NoSpace`] and system errors. What was made by then
/// is left to the caller.
///
/// # Durability
/// All it makes is durable when this returns, but for the names right in `to`.
pub(crate) fn copy(
    vfs: &dyn Vfs,
    workspace: &str,
    from: &Paths,
    to: &Paths,
    log: LogId,
    how: &Copying,
) -> Result<LogCopy> {
    let mut last: Option<Error> = None;
    for _ in 0..TRIES {
        if last.is_some() {
            [to.log(), to.blobs(), to.quarantine()].iter().try_for_each(|dir| discard(vfs, dir))?;
            folder(vfs, &to.quarantine())?;
        }
        let attempt = Attempt {
            vfs,
            workspace,
            from,
            to,
            log,
            how,
            can_link: how.link == Link::Auto,
            done: 0,
            total: 0,
        };
        match attempt.run() {
            Ok(copy) => return Ok(copy),
            Err(Trouble::Final(error)) => return Err(error),
            // A blob may have gone with the last event that named it, and then nothing names it at the next look.
            Err(Trouble::Again(error)) if is_missing(&error) && last.as_ref().is_some_and(is_missing) => {
                return Err(error);
            }
            Err(Trouble::Again(error)) => last = Some(error),
        }
    }
    Err(match last {
        Some(error) if !matches!(error.kind(), ErrorKind::NotFound { .. }) => error,
        _ => Error::new(ErrorKind::NotYet, "copy", &from.log()),
    })
}

fn is_missing(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::BlobMissing { .. })
}

/// Removes a folder that nobody else knows of, with all that is in it; that it is absent is fine.
///
/// # Errors
/// System errors.
pub(crate) fn discard(vfs: &dyn Vfs, dir: &Path) -> Result<()> {
    let entries = match vfs.list(dir) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries.context("list", dir)?,
    };
    for entry in entries {
        let path = dir.join(&entry.name);
        match entry.kind {
            FileKind::Dir => discard(vfs, &path)?,
            _ => vfs.unlink(&path).context("remove", &path)?,
        }
    }
    vfs.remove_dir(dir).context("remove", dir)
}

fn folder(vfs: &dyn Vfs, dir: &Path) -> Result<()> {
    match vfs.create_dir(dir) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => Err(Error::io(e, "create", dir)),
        _ => Ok(()),
    }
}

fn is_absent(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
}

struct Attempt<'a> {
    vfs: &'a dyn Vfs,
    workspace: &'a str,
    from: &'a Paths,
    to: &'a Paths,
    log: LogId,
    how: &'a Copying,
    can_link: bool,
    done: u64,
    total: u64,
}

impl Attempt<'_> {
    fn run(mut self) -> Result<LogCopy, Trouble> {
        self.at(Phase::Reading)?;
        let look = look(self.vfs, self.from, self.log, self.how.fold, self.how.as_it_is)?;
        let mut copy = LogCopy {
            state: State::default(),
            log_hash: look.log_hash(),
            segments: 0,
            blobs: look.blobs.len(),
            linked: Volume::default(),
            copied: Volume::default(),
            findings: look.walk.findings.clone(),
            damaged: look.walk.findings.iter().any(|finding| finding.severity == Severity::Damage),
            writers: look.writers.clone(),
        };
        if self.vfs.stat(&self.from.poison()).is_ok() {
            copy.findings.push(super::poison_finding(self.from, look.walk.vouched));
        }
        self.total = look.files().iter().map(|file| file.end).sum();
        folder(self.vfs, &self.to.log())?;
        let compares =
            if copy.damaged { self.files_as_they_are(&mut copy)? } else { self.files(&look, &mut copy)? };
        self.blobs(&look, &mut copy)?;
        if self.how.quarantine {
            self.quarantine(&mut copy)?;
        }
        for dir in [self.to.log(), self.to.quarantine()] {
            self.vfs.sync_dir(&dir).context("sync", &dir)?;
        }
        self.verify(&look, &mut copy, compares)?;
        Ok(copy)
    }

    fn at(&self, phase: Phase) -> Result<()> {
        let (done, total) =
            if phase == Phase::Copying { (self.done, self.total.max(self.done)) } else { (0, 0) };
        self.how.watch.at(self.workspace, phase, done, total, self.to.dir())
    }

    fn moved(&mut self, bytes: u64) -> Result<()> {
        self.done += bytes;
        self.at(Phase::Copying)
    }

    /// The segments of a log that is whole.
    fn files(&mut self, look: &Look, copy: &mut LogCopy) -> Result<bool, Trouble> {
        for file in look.files() {
            let to = self.to.log().join(file.path.file_name().unwrap_or_default());
            copy.segments += 1;
            if file.sealed && self.link(&file.path, &to, &mut copy.linked)? {
                continue;
            }
            if self.copy_file(&file.path, &to, file.end)? < file.end {
                let what = "it is shorter than what was read from it".into();
                return Err(Trouble::Again(Error::new(
                    ErrorKind::StoreReplaced { what },
                    "copy",
                    &file.path,
                )));
            }
            copy.copied.add(file.end);
        }
        Ok(true)
    }

    /// Gives a file that is never written again a second name; `false` = it is to be copied.
    fn link(&mut self, from: &Path, to: &Path, linked: &mut Volume) -> Result<bool, Trouble> {
        if !self.can_link {
            return Ok(false);
        }
        match self.vfs.link(from, to) {
            Ok(()) => {
                let len = self.vfs.stat(to).context("look at", to)?.len;
                linked.add(len);
                self.moved(len)?;
                Ok(true)
            }
            Err(e) if is_absent(&e) => Err(Trouble::Again(Error::io(e, "link", from))),
            Err(e) if matches!(e.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) => {
                Err(Trouble::Final(Error::io(e, "link", to)))
            }
            // Another disk, a file system without links, a file with too many of them, somebody else's file: all the same.
            Err(e) => {
                self.can_link = e.kind() != io::ErrorKind::CrossesDevices;
                Ok(false)
            }
        }
    }

    /// Copies a file up to a place, synced; returns how many bytes there were.
    fn copy_file(&mut self, from: &Path, to: &Path, end: u64) -> Result<u64, Trouble> {
        let source = match self.vfs.open(from, Open::Read) {
            // On Windows a name whose file others still have open cannot be opened.
            Err(e) if is_absent(&e) || e.kind() == io::ErrorKind::PermissionDenied => {
                return Err(Trouble::Again(Error::io(e, "copy", from)));
            }
            source => source.context("copy", from)?,
        };
        let target = self.vfs.open(to, Open::Create).context("create", to)?;
        let mut piece = vec![0; usize::try_from(end).unwrap_or(PIECE).min(PIECE)];
        let mut at = 0;
        while at < end {
            let wanted = usize::try_from(end - at).unwrap_or(PIECE).min(piece.len());
            let n =
                read_full(&*source, piece.get_mut(..wanted).unwrap_or_default(), at).context("read", from)?;
            let read = piece.get(..n).unwrap_or_default();
            write_full(&*target, read, at).map_err(|(_, e)| Error::io(e, "write", to))?;
            at += n as u64;
            self.moved(n as u64)?;
            if n < wanted {
                break;
            }
        }
        target.sync_data().context("sync", to)?;
        Ok(at)
    }

    /// Every segment's file of a damaged log, byte for byte as far as it can be read; `false` = not all could be.
    fn files_as_they_are(&mut self, copy: &mut LogCopy) -> Result<bool, Trouble> {
        let dir = self.from.log();
        let mut all = true;
        for entry in self.vfs.list(&dir).context("list", &dir)? {
            if entry.kind != FileKind::File || entry.name.starts_with('.') {
                continue;
            }
            let (from, to) = (dir.join(&entry.name), self.to.log().join(&entry.name));
            copy.segments += 1;
            if let Some(finding) = self.copy_readable(&from, &to, &mut copy.copied)? {
                copy.findings.push(finding);
                all = false;
            }
        }
        Ok(all)
    }

    /// Copies what can be read of a file; says where it could not be read on.
    fn copy_readable(&mut self, from: &Path, to: &Path, copied: &mut Volume) -> Result<Option<Finding>> {
        let unreadable = |at: u64, e: &io::Error| Finding {
            severity: Severity::Damage,
            code: "unreadable",
            file: from.into(),
            offset: Some(at),
            seq: None,
            message: format!("it cannot be read from here on, and was copied up to here: {e}"),
            remedy: "check permissions and the disk; nothing was changed",
        };
        let source = match self.vfs.open(from, Open::Read) {
            Ok(source) => source,
            Err(e) => return Ok(Some(unreadable(0, &e))),
        };
        let target = self.vfs.open(to, Open::Create).context("create", to)?;
        let (mut piece, mut at) = (vec![0; PIECE], 0);
        let fault = loop {
            match source.read_at(&mut piece, at) {
                Ok(0) => break None,
                Ok(n) => {
                    write_full(&*target, piece.get(..n).unwrap_or_default(), at)
                        .map_err(|(_, e)| Error::io(e, "write", to))?;
                    at += n as u64;
                    self.moved(n as u64)?;
                }
                Err(e) => break Some(unreadable(at, &e)),
            }
        };
        target.sync_data().context("sync", to)?;
        copied.add(at);
        Ok(fault)
    }

    /// Every blob that an event names.
    fn blobs(&mut self, look: &Look, copy: &mut LogCopy) -> Result<(), Trouble> {
        let mut folders = BTreeSet::new();
        for (id, seq) in &look.blobs {
            let (from, to) = (self.from.blob(id), self.to.blob(id));
            if let Some(dir) = to.parent()
                && folders.insert(dir.to_path_buf())
            {
                folder(self.vfs, &self.to.blobs())?;
                folder(self.vfs, dir)?;
            }
            let missing = || Error::new(ErrorKind::BlobMissing { blob: *id }, "copy", &from);
            match self.link(&from, &to, &mut copy.linked) {
                Ok(true) => continue,
                Ok(false) => {}
                Err(Trouble::Again(_)) if self.how.as_it_is => {
                    copy.findings.push(blobs::finding(&missing(), *seq));
                    continue;
                }
                Err(Trouble::Again(_)) => return Err(Trouble::Again(missing())),
                Err(e) => return Err(e),
            }
            match blobs::read(self.vfs, self.from, id) {
                Ok(bytes) => {
                    write_new(self.vfs, &to, &bytes)?;
                    copy.copied.add(bytes.len() as u64);
                    self.moved(bytes.len() as u64)?;
                }
                // As it is: whatever stands there goes along.
                Err(e) if self.how.as_it_is => {
                    copy.findings.push(blobs::finding(&e, *seq));
                    if matches!(e.kind(), ErrorKind::Damaged(_)) {
                        copy.findings.extend(self.copy_readable(&from, &to, &mut copy.copied)?);
                    }
                }
                Err(e) if is_missing(&e) => return Err(Trouble::Again(missing())),
                Err(e) => return Err(Trouble::Final(e)),
            }
        }
        for dir in folders.into_iter().chain((copy.blobs > 0).then(|| self.to.blobs())) {
            self.vfs.sync_dir(&dir).context("sync", &dir)?;
        }
        Ok(())
    }

    /// The bytes that were set aside, with their notes. What is being set aside right now may come as far as it has got.
    fn quarantine(&mut self, copy: &mut LogCopy) -> Result<(), Trouble> {
        let dir = self.from.quarantine();
        let entries = match self.vfs.list(&dir) {
            Err(e) if is_absent(&e) => return Ok(()),
            entries => entries.context("list", &dir)?,
        };
        for entry in
            entries.iter().filter(|entry| entry.kind == FileKind::File && !entry.name.starts_with('.'))
        {
            let (from, to) = (dir.join(&entry.name), self.to.quarantine().join(&entry.name));
            match self.link(&from, &to, &mut copy.linked) {
                Ok(true) | Err(Trouble::Again(_)) => continue,
                Ok(false) => {}
                Err(e) => return Err(e),
            }
            match self.copy_file(&from, &to, u64::MAX) {
                Ok(bytes) => copy.copied.add(bytes),
                Err(Trouble::Again(e)) if matches!(e.kind(), ErrorKind::NotFound { .. }) => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Reads the copy back: it must fold to what the log folded to, and have every blob.
    fn verify(&self, before: &Look, copy: &mut LogCopy, compares: bool) -> Result<(), Trouble> {
        self.at(Phase::Verifying)?;
        // What keeps the copy from being read may be that the log changed while it was copied.
        let after = look(self.vfs, self.to, self.log, self.how.fold, copy.damaged).map_err(Trouble::Again)?;
        let (is, was) = (&after.view.state, &before.view.state);
        let log_hash = after.log_hash();
        let same = is.last() == was.last() && is.epochs() == was.epochs() && is.hash() == was.hash();
        if compares && !(same && log_hash == copy.log_hash) {
            let finding = Finding {
                severity: Severity::Damage,
                code: "copy-differs",
                file: self.to.log(),
                offset: None,
                seq: Some(was.last().0),
                message: format!(
                    "what was copied up to event {} comes to something else at event {}",
                    was.last(),
                    is.last()
                ),
                remedy: "check the disk that was copied to, and copy again",
            };
            return Err(Trouble::Again(Error::new(
                ErrorKind::Damaged(Box::new(finding)),
                "copy",
                &self.to.log(),
            )));
        }
        for id in before.blobs.keys() {
            self.at(Phase::Verifying)?;
            match blobs::read(self.vfs, self.to, id) {
                Ok(_) => {}
                Err(_) if self.how.as_it_is => {
                    // Told already if it was read; a file that was linked is looked at here first.
                    if let Err(e) = blobs::read(self.vfs, self.from, id)
                        && !copy.findings.iter().any(|finding| finding.file == e.path())
                    {
                        copy.findings.push(blobs::finding(&e, before.blobs.get(id).copied().unwrap_or(0)));
                    }
                }
                // The same file may stand behind both names: it is the one that the log has that matters.
                Err(e) => {
                    return Err(Trouble::Final(blobs::read(self.vfs, self.from, id).err().unwrap_or(e)));
                }
            }
        }
        copy.damaged |= copy.findings.iter().any(|finding| finding.severity == Severity::Damage);
        (copy.state, copy.log_hash) = (after.view.state, log_hash);
        Ok(())
    }
}
