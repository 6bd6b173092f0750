//! Recovery from a failed sync: the log goes on in fresh blocks. `format-spec/recovery.md`, D4 to D6.
//!
//! After a failed sync nothing written since the last good one may be on the device, and no later sync of that file
//! proves otherwise. So its whole segment is copied: same numbers, same positions, into a new file of the next
//! generation, which stands for the old one. The header of the old file may be as doubtful as its frames; that is why
//! the copy begins at the segment's start and not at the last durable frame.
//!
//! ```text
//!  under LOCK and the lane    POISON stands (made if it could not be made before)
//!    1  .new-G        the frames of K, an Epoch, a Seal naming X → sync → read again, compare
//!    2  X             the successor, prepared → sync → name, folder
//!    3  K             the Seal behind its last frame, not synced: nobody appends to K from here on
//!    4  .new-G → G    renamed, folder synced: from here on the log is durable without K
//!    5  X             live header → sync; the log is read whole again
//!    6  K             removed, so that handles which still have it open find out
//!    7  POISON        removed → folder; the poison word
//! ```
//! A crash before 7 leaves POISON, and the next recovery begins anew with whatever the log is then. A crash before 4
//! leaves K, sealed or not, with a prepared successor; one after 4 leaves G in its place.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::classify::{Hints, Place, Verdict, classify};
use super::control_frame::{Control, RecoveryMark, Seal};
use super::engine::{Log, Writer};
use super::finding::{Finding, Severity};
use super::format::{LAG_NONE, WORD_DURABLE, WORD_POISON};
use super::frame::{FrameHeader, encode_with, frame_len};
use super::lock::{Held, LockFile, Rank};
use super::publish::{publish, write_new};
use super::quarantine::{Cause, Note, heal_notes, set_aside};
use super::reader::{self, Reach, Walk};
use super::rotate::{new_segment_id, plain_header, writer_version};
use super::scan::{self, Content, Position, Scanner, Stop, Summary};
use super::segment::{HEADER_LEN, SegmentHeader, SegmentName, SegmentState};
use super::sync::Proof;
use super::view::{Active, View};
use super::{Cursor, SegmentId, Seq};
use crate::error::{Context as _, Error, ErrorKind, Result};
use crate::vfs::threads::Mutex;
use crate::vfs::{Existing, Open, read_full, sync_name, write_full};

/// A process tries no more often than this, so that a disk which fails every sync is not kept busy with copies.
const PAUSE: Duration = Duration::from_secs(1);
/// After so many failures for one reason a process leaves it to `repair`, or to another process.
const TRIES_MAX: u32 = 5;
/// How often a read that fails is repeated before what it covers counts as lost.
const READS: u32 = 3;
/// The unit in which a file is read where reading it whole fails.
const PAGE: usize = 4096;
/// How often a sync starts over because the log has moved to another file meanwhile.
const MOVES_MAX: usize = 16;

/// What a process knows of a failed sync of its own, and of its tries to recover.
#[derive(Debug, Default)]
pub(super) struct Forward {
    /// The segment whose sync failed here; 0 = none.
    failed: AtomicU64,
    tries: Mutex<Tries>,
}

#[derive(Debug, Default)]
struct Tries {
    last: Option<Duration>,
    /// How often the same has failed in a row.
    count: u32,
    error: Option<Error>,
}

impl Forward {
    /// Notes whose sync failed, before anybody is told.
    pub(super) fn failed_in(&self, active: &Active) {
        self.failed.store(active.header.segment_id.0, Ordering::Release);
    }

    fn failed(&self) -> Option<SegmentId> {
        Some(SegmentId(self.failed.load(Ordering::Acquire))).filter(|id| id.0 != 0)
    }
}

/// The segment to be copied, as it can be read now.
struct Old {
    path: PathBuf,
    header: SegmentHeader,
    bytes: Vec<u8>,
    summary: Summary,
    verdict: Verdict,
    /// Whether part of the file cannot be read at all.
    unreadable: bool,
    /// Names of notes that RecoveryMarks of the log name.
    notes: Vec<String>,
    /// Files that play no part any more.
    leftovers: Vec<PathBuf>,
}

/// What a recovery did.
struct Done {
    path: PathBuf,
    offset: u64,
    seq: u64,
    /// The note about bytes that were cut.
    cut: Option<String>,
}

impl Log {
    /// Recovers from a failed sync, this process's or another's, if there was one. No lock of the engine is held.
    ///
    /// # Errors
    /// [`ErrorKind::DurabilityLost`] with the reason; [`ErrorKind::Busy`]; [`ErrorKind::StoreReplaced`].
    pub(super) fn recover_if_poisoned(&self) -> Result<()> {
        if !self.durable.is_poisoned() {
            return Ok(());
        }
        self.recover(&mut self.writer.lock(), self.settings.lock_timeout)
    }

    /// At open: only if the locks happen to be free. Returns whether all is well.
    pub(super) fn recover_at_open(&self) -> bool {
        let Some(mut writer) = self.writer.try_lock() else { return false };
        self.session.is_some() && self.recover(&mut writer, Duration::ZERO).is_ok()
    }

    /// Repair may try as often as it is asked to; where damage is in the way, that is mended first.
    pub(super) fn check_to_repair(&self) -> Result<&Arc<LockFile>> {
        self.forget_tries();
        match (self.check_writable(), &self.lock) {
            (Err(e), Some(lock)) if matches!(e.kind(), ErrorKind::DurabilityLost { .. }) => Ok(lock),
            (checked, _) => checked,
        }
    }

    /// Lets the next try be made at once.
    pub(super) fn forget_tries(&self) {
        *self.forward.tries.lock() = Tries::default();
    }

    /// Recovers, within the bounds on tries. The in-process mutex is held.
    pub(super) fn recover(&self, writer: &mut Writer, patience: Duration) -> Result<()> {
        if !self.durable.is_poisoned() {
            return Ok(()); // another thread has done it
        }
        let mut tries = self.forward.tries.lock();
        let now = self.vfs.monotonic();
        let too_soon = tries.last.is_some_and(|last| now.saturating_sub(last) < PAUSE);
        if let Some(error) = tries.error.as_ref().filter(|_| too_soon || tries.count >= TRIES_MAX) {
            self.durable.retry_poison_file(self);
            return Err(self.still_lost(error));
        }
        let error = match self.copy_forward(writer, patience) {
            Ok(done) => {
                *tries = Tries::default();
                if let Some(done) = done {
                    self.note(recovered(&done));
                }
                return Ok(());
            }
            Err(e) => match e.kind() {
                ErrorKind::Busy { .. } | ErrorKind::StoreReplaced { .. } => return Err(e),
                _ => e,
            },
        };
        let again = tries.error.as_ref().is_some_and(|known| known.code() == error.code());
        tries.count = if again { tries.count + 1 } else { 1 };
        tries.last = Some(now);
        let gives_up = tries.count >= TRIES_MAX;
        if !again || gives_up {
            self.note(Finding {
                severity: Severity::Error,
                code: "not-recovered",
                file: error.path().to_path_buf(),
                offset: None,
                seq: Some(self.durable.seq() + 1),
                message: format!(
                    "the log could not be copied forward after a failed sync: {error}{}",
                    if gives_up { "; this process tries no more" } else { "" }
                ),
                remedy: "mend the cause (disk, space, permissions); the next writer tries again, and so does `foldlog repair --apply`",
            });
        }
        let lost = self.still_lost(&error);
        tries.error = Some(error);
        Err(lost)
    }

    fn still_lost(&self, why: &Error) -> Error {
        let from = Seq(self.durable.seq() + 1);
        let why = std::io::Error::other(format!("recovery: {why}"));
        Error::with_source(ErrorKind::DurabilityLost { from }, "write", self.paths.dir(), why)
    }

    /// Makes everything up to `lpos` (events up to `seq`) durable, over recoveries by others. No lock of the engine is held.
    pub(super) fn make_durable(&self, lpos: u64, seq: u64) -> Result<()> {
        self.make_durable_by(lpos, seq, None, Proof::Any)
    }

    /// The same, by a time, and on a certain kind of proof.
    pub(super) fn make_durable_by(
        &self,
        lpos: u64,
        seq: u64,
        until: Option<Duration>,
        proof: Proof,
    ) -> Result<()> {
        for _ in 0..MOVES_MAX {
            let error = match self.sync_up_to(lpos, seq, until, proof) {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            match error.kind() {
                // Another process's sync has failed: all that stands, this commit too, is copied.
                ErrorKind::DurabilityLost { .. }
                    if self.durable.is_poisoned() && self.forward.failed().is_none() =>
                {
                    self.recover_if_poisoned()?;
                }
                // A file that was removed because a copy stands for it, or taken away: a look at the folder tells.
                ErrorKind::StoreReplaced { .. } => {
                    let view = self.view.read();
                    if !self.went_forward(&view) {
                        return Err(error);
                    }
                    drop(view);
                    self.look_at_bytes()?;
                }
                _ => return Err(error),
            }
        }
        Err(Error::new(ErrorKind::NotYet, "sync", &self.paths.log()))
    }

    /// Whether a commit is still in the history: a recovery that could not read it again has ended that before it.
    pub(super) fn still_stands(&self, cursor: Cursor) -> Result<()> {
        match self.view.read().state.resolve(cursor) {
            Ok(_) => Ok(()),
            Err(to) => {
                let from = Seq(to.0 + 1);
                Err(Error::new(ErrorKind::DurabilityLost { from }, "sync", &self.paths.log()))
            }
        }
    }

    /// Whether a file that the view does not know stands for one that it was folded from.
    pub(super) fn went_forward(&self, view: &View) -> bool {
        let new = |name: &SegmentName| view.chain.iter().any(|mine| stands_for(name, mine));
        self.vfs.list(&self.paths.log()).is_ok_and(|all| {
            all.iter().filter_map(|entry| SegmentName::parse(&entry.name)).any(|name| new(&name))
        })
    }

    /// What was read from a file and is not there any more, or cannot be read, may have been dropped by a failed sync:
    /// then the next write recovers, and nobody has replaced anything.
    pub(super) fn lost_or(&self, error: Error) -> Error {
        let lost = matches!(error.kind(), ErrorKind::StoreReplaced { .. } | ErrorKind::Io);
        if lost && super::sync::is_poisoned(&*self.vfs, &self.paths).unwrap_or(false) {
            self.durable.find_poison();
            return self.lost();
        }
        error
    }

    /// Clears this process's own word of a failed sync, once nothing speaks of it any more: neither POISON nor the
    /// control block, and the segment whose sync failed *here* is no part of the log (it is never used again).
    pub(super) fn forget_poison(&self, view: &View) {
        if !self.durable.is_poisoned() {
            return;
        }
        let file = super::sync::is_poisoned(&*self.vfs, &self.paths).unwrap_or(true);
        let part = |id: SegmentId| view.chain.iter().any(|name| name.id == id);
        if !file && !self.has_poison_word() && !self.forward.failed().is_some_and(part) {
            self.heal_word();
        }
    }

    fn heal_word(&self) {
        self.forward.failed.store(0, Ordering::Release);
        self.durable.clear_poison();
    }

    fn has_poison_word(&self) -> bool {
        self.control.with(|block| block.believed(WORD_POISON, 0)).flatten().is_some()
    }

    /// See the module. `None` = somebody else has done it.
    fn copy_forward(&self, writer: &mut Writer, patience: Duration) -> Result<Option<Done>> {
        self.check_fork()?;
        let refuse = |reason: &str| {
            Error::new(ErrorKind::ReadOnly { reason: reason.into() }, "recover", self.paths.dir())
        };
        let lock = self.lock.as_ref().ok_or_else(|| refuse("the store was opened for reading only"))?;
        writer.let_go();
        let _held = if patience.is_zero() {
            let busy = ErrorKind::Busy { holder: String::new(), waited_ms: 0 };
            lock.try_acquire()?.ok_or_else(|| Error::new(busy, "lock", lock.path()))?
        } else {
            lock.acquire(patience).map_err(|e| self.name_holder(e))?
        };
        if lock.is_deleted()? || !lock.stands()? {
            let what = "LOCK was deleted or replaced".into();
            return Err(Error::new(ErrorKind::StoreReplaced { what }, "lock", lock.path()));
        }
        // Whoever syncs now says what came of it before the lane is free; afterwards nobody does until all is done.
        let lanes = [self.paths.sync0(), self.paths.sync1()];
        let lanes = lanes.map(|path| -> Result<Held> {
            LockFile::open(&self.vfs, path, Rank::Lane)?.acquire(self.settings.lock_timeout)
        });
        for lane in &lanes {
            lane.as_ref().map_err(Error::duplicate)?;
        }
        self.take_block(writer)?;
        let stands = super::sync::is_poisoned(&*self.vfs, &self.paths)?;
        if !stands && !self.has_poison_word() {
            let mut view = self.view.write();
            self.rebuild(&mut view)?;
            self.forget_poison(&view);
            if !self.durable.is_poisoned() {
                return Ok(None);
            }
        }
        if !stands {
            // Without it, others would take up what this leaves if it is interrupted.
            super::sync::write_poison(self, "a recovery is under way")?;
        }
        let old = self.look_again()?;
        let (done, next) = self.copy(&old)?;
        let fresh = self.check_copy(&old, &next)?;
        let obsolete = |path: &PathBuf| {
            let name = path.file_name().and_then(|name| SegmentName::parse(&name.to_string_lossy()));
            name.is_some_and(|mine| fresh.chain.iter().any(|name| stands_for(name, &mine)))
        };
        for path in old.leftovers.iter().chain([&old.path]).filter(|path| obsolete(path)) {
            // Where it cannot be removed it is sealed, and plays no part.
            let _ = self.vfs.unlink(path);
        }
        self.remove_other_successors(&next.file_name());
        writer.prepared = None;
        self.durable.raise(fresh.end_lpos(), done.seq - 1);
        let _ = self.control.with(|block| block.raise_position(WORD_DURABLE, fresh.end_lpos()));
        self.tell_tail(writer, &fresh);
        *self.view.write() = fresh;
        let poison = self.paths.poison();
        self.vfs.unlink(&poison).context("remove", &poison)?;
        self.vfs.sync_dir(self.paths.dir()).context("sync", self.paths.dir())?;
        let _ = self.control.with(|block| block.store(WORD_POISON, 0));
        self.heal_word();
        // An Epoch of this process stands in the log now.
        self.appended(writer);
        Ok(Some(done))
    }

    /// Reads the last segment as it is now. LOCK is held.
    fn look_again(&self) -> Result<Old> {
        let durable = self.durable_word();
        let mut notes = Vec::new();
        let walked =
            reader::walk(&*self.vfs, &self.paths, self.meta.log_id, durable, Reach::Intact, &mut |visit| {
                if let Content::Control(Control::RecoveryMark(mark)) = &visit.located.content {
                    notes.push(mark.note.clone());
                }
            });
        let old = match walked {
            Ok(walk) => self.last_of(walk, notes)?,
            Err(e) if matches!(e.kind(), ErrorKind::Io) => self.what_can_be_read(e, durable, notes)?,
            Err(e) => return Err(e),
        };
        if old.header.ro_compat != 0 {
            let have = super::format::LEVEL.into();
            let what = format!("writing needs unknown features {:#x}", old.header.ro_compat);
            return Err(Error::new(ErrorKind::TooNew { what, need: have + 1, have }, "recover", &old.path));
        }
        Ok(old)
    }

    fn last_of(&self, walk: Walk, notes: Vec<String>) -> Result<Old> {
        if let Some(finding) = walk.too_new {
            let have = super::format::LEVEL.into();
            let kind = ErrorKind::TooNew { what: finding.message, need: have + 1, have };
            return Err(Error::new(kind, "recover", &finding.file));
        }
        if let Some(finding) = walk.damage {
            let path = finding.file.clone();
            return Err(Error::new(ErrorKind::Damaged(Box::new(finding)), "recover", &path));
        }
        let Some(last) = walk.segments.into_iter().next_back() else {
            let what = "no segment of this log can be read".into();
            return Err(Error::new(ErrorKind::NotFound { what }, "recover", &self.paths.log()));
        };
        let bytes = reader::read_file(&*self.vfs, &last.path).context("read", &last.path)?;
        let (path, header, summary, verdict) = (last.path, last.header, last.summary, last.verdict);
        let leftovers = walk.leftovers;
        Ok(Old { path, header, bytes, summary, verdict, unreadable: false, notes, leftovers })
    }

    /// The last segment up to the first page that cannot be read, if nothing behind that is vouched for.
    fn what_can_be_read(&self, error: Error, durable: Option<u64>, mut notes: Vec<String>) -> Result<Old> {
        let path = error.path().to_path_buf();
        let bytes = self.read_prefix(&path)?;
        let named = path.file_name().and_then(|name| SegmentName::parse(&name.to_string_lossy()));
        let header = SegmentHeader::decode(&bytes).ok().filter(|header| {
            header.state == SegmentState::Live
                && header.log_id == self.meta.log_id
                && Some(header.file_name()) == named
        });
        let Some(header) = header else { return Err(error) };
        if self.has_live_behind(&header)? {
            return Err(error);
        }
        let salt = header.salt();
        let summary = scan::segment(&bytes, &header, &salt, |located| {
            if let Content::Control(Control::RecoveryMark(mark)) = &located.content {
                notes.push(mark.note.clone());
            }
        });
        let vouched = self.vouched_beside(self.view.read().vouched)?;
        let hints = Hints { vouched, durable_offset: durable.map(|lpos| header.offset(lpos)) };
        let verdict = classify(&summary, Place::Last, hints);
        if verdict.is_damage() || verdict == Verdict::TooNew {
            return Err(error); // what was acknowledged as durable may be there: never cut
        }
        Ok(Old { path, header, bytes, summary, verdict, unreadable: true, notes, leftovers: Vec::new() })
    }

    fn has_live_behind(&self, header: &SegmentHeader) -> Result<bool> {
        let dir = self.paths.log();
        for entry in self.vfs.list(&dir).context("list", &dir)? {
            let Some(name) = SegmentName::parse(&entry.name).filter(|n| n.ordinal_a > header.ordinal_b)
            else {
                continue;
            };
            let path = self.paths.segment(&name);
            let mut head = [0; HEADER_LEN];
            let file = self.vfs.open(&path, Open::Read).context("open", &path)?;
            let n = read_full(&*file, &mut head, 0).context("read", &path)?;
            let found = SegmentHeader::decode(head.get(..n).unwrap_or_default());
            if found.is_ok_and(|found| found.state == SegmentState::Live) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// A file up to the first page that cannot be read.
    fn read_prefix(&self, path: &Path) -> Result<Vec<u8>> {
        let file = self.vfs.open(path, Open::Read).context("open", path)?;
        let len = file.stat().context("look at", path)?.len;
        let mut bytes = Vec::new();
        let mut page = [0; PAGE];
        while (bytes.len() as u64) < len {
            let at = bytes.len() as u64;
            let read = (0..READS).find_map(|_| read_full(&*file, &mut page, at).ok()).unwrap_or(0);
            bytes.extend_from_slice(page.get(..read).unwrap_or_default());
            if read < PAGE {
                break;
            }
        }
        Ok(bytes)
    }

    /// Steps 1 to 5. Returns the header of the segment in which the log goes on.
    fn copy(&self, old: &Old) -> Result<(Done, SegmentHeader)> {
        let end = old.summary.end;
        let sealed = match old.summary.stop {
            Stop::Sealed { seal, crc } => Some((seal, seal.crc_for_successor(crc))),
            _ => None,
        };
        let seen_more = {
            let view = self.view.read();
            view.active.as_ref().is_some_and(|active| {
                let same = active.header.segment_id == old.header.segment_id;
                same && view.at.offset > end.offset || active.header.ordinal_a > old.header.ordinal_b
            })
        };
        let lossy = sealed.is_none() && (old.unreadable || old.verdict.is_torn()) || seen_more;
        let cut = if lossy { Some(self.keep_the_rest(old)?) } else { None };
        let mut header = old.header.clone();
        header.generation += 1;
        header.segment_id = new_segment_id(&*self.vfs).context("draw an id for", &old.path)?;
        header.created = self.vfs.now();
        header.writer_version = writer_version();
        let mut making = Making::copy_of(&header, old);
        for mark in heal_notes(&*self.vfs, &self.paths)? {
            if !old.notes.contains(&mark.note) {
                making.control(&Control::RecoveryMark(mark));
            }
        }
        making.control(&Control::RecoveryMark(RecoveryMark {
            at_lpos: old.header.lpos(end.offset),
            bytes: 0,
            frames: 0,
            first_seq: end.seq,
            verdict: Verdict::CleanEnd.code(),
            note: String::new(),
        }));
        // Others may have read more than can be read now, and nobody here can tell: their cursors must not match.
        making.control(&self.new_epoch()?);
        let ready = match sealed {
            Some(_) => None,
            None => {
                let id = new_segment_id(&*self.vfs).context("draw an id for", &self.paths.log())?;
                Some(plain_header(self.meta.log_id, id, old.header.ordinal_b + 1, self.vfs.now()))
            }
        };
        // With its CRC spelt out, so that the successor's header fits behind the old file and the copy alike.
        let mut seal = Seal {
            next_segment_id: ready.as_ref().map_or(SegmentId(0), |ready| ready.segment_id),
            next_first_seq: end.seq,
            next_base_lpos: 0,
            segment_id: old.header.segment_id,
            last_seq: end.seq - 1,
            last_crc: making.link.max(1),
        };
        if let Some((known, last_crc)) = sealed {
            seal = Seal { last_crc, ..known };
        }
        seal.next_base_lpos = header.lpos((making.bytes.len() + frame_len(44)) as u64);
        making.control(&Control::Seal(seal));
        let temporary = self.paths.log().join(format!(".new-{}", header.segment_id));
        let mut made = self.write_and_compare(&temporary, &making.bytes);
        if let (Ok(()), Some(ready)) = (&made, &ready) {
            made = self.prepare_and_seal(old, ready, &seal, lossy);
        }
        let path = self.paths.segment(&header.file_name());
        let made =
            made.and_then(|()| self.vfs.rename(&temporary, &path, Existing::Keep).context("publish", &path));
        if made.is_err() {
            let _ = self.vfs.unlink(&temporary);
        }
        made?;
        sync_name(&*self.vfs, &path).context("sync", &path)?;
        let next = self.take_successor(&header, &path, &seal)?;
        Ok((Done { path, offset: end.offset, seq: end.seq, cut }, next))
    }

    /// What cannot be taken along goes to quarantine, as far as it can be read.
    fn keep_the_rest(&self, old: &Old) -> Result<String> {
        let (end, beyond) = (old.summary.end, old.summary.beyond);
        let range = usize::try_from(end.offset).unwrap_or(usize::MAX)
            ..usize::try_from(beyond.content_end).unwrap_or(usize::MAX);
        let rest = old.bytes.get(range).unwrap_or_default();
        let mark = RecoveryMark {
            at_lpos: old.header.lpos(end.offset),
            bytes: rest.len() as u64,
            frames: beyond.frames,
            first_seq: end.seq,
            verdict: old.verdict.code(),
            note: String::new(),
        };
        let note = Note {
            cause: Cause::Heal,
            segment: old.header.segment_id,
            file: old.header.file_name().to_string(),
            offset: end.offset,
            mark,
            verdict: old.verdict.as_str(),
            time: self.vfs.now(),
        };
        set_aside(&*self.vfs, &self.paths, &note, rest)
    }

    /// Writes and syncs a new file, and reads it again through another descriptor.
    fn write_and_compare(&self, path: &Path, bytes: &[u8]) -> Result<()> {
        write_new(&*self.vfs, path, bytes)?;
        let read = reader::read_file(&*self.vfs, path).context("read again", path)?;
        if read == bytes {
            return Ok(());
        }
        let why = std::io::Error::other("what was written and synced does not read back");
        Err(Error::io(why, "read again", path))
    }

    /// Puts the successor there and the Seal that names it behind the old segment's last frame.
    fn prepare_and_seal(&self, old: &Old, ready: &SegmentHeader, seal: &Seal, lossy: bool) -> Result<()> {
        let end = old.summary.end;
        let temporary = self.paths.log().join(format!(".new-{}", ready.segment_id));
        let path = self.paths.segment(&ready.file_name());
        publish(&*self.vfs, &temporary, &path, &ready.encode())?;
        let mut bytes = Vec::new();
        let head = control_header(&Control::Seal(*seal), end.seq, end.link);
        encode_with(&mut bytes, &old.header.salt(), &head, |out| Control::Seal(*seal).encode(out));
        let write = || -> Result<()> {
            let file = self.vfs.open(&old.path, Open::Write).context("open", &old.path)?;
            let len = file.stat().context("look at", &old.path)?.len;
            if lossy {
                // Live processes may stand behind the end: they must find neither a frame nor an end there. All ends
                // of frames are multiples of 8.
                let behind = end.offset + bytes.len() as u64;
                file.set_len(behind + 1).context("cut", &old.path)?;
            }
            if let Err((_, e)) = write_full(&*file, &bytes, end.offset) {
                let zeros = vec![0; bytes.len()];
                // What is left of half a Seal is a torn tail, which the next recovery sets aside.
                if !lossy && write_full(&*file, &zeros, end.offset).is_ok() {
                    let _ = file.set_len(len);
                }
                return Err(Error::io(e, "seal", &old.path));
            }
            Ok(())
        };
        write()
    }

    /// Takes the successor into use, which the copy's Seal names. What is in it was never taken into use.
    fn take_successor(&self, header: &SegmentHeader, path: &Path, seal: &Seal) -> Result<SegmentHeader> {
        let ordinal = header.ordinal_b + 1;
        let plain = plain_header(self.meta.log_id, seal.next_segment_id, ordinal, self.vfs.now());
        let file = self.paths.segment(&plain.file_name());
        let bytes = reader::read_file(&*self.vfs, &file).context("read", &file)?;
        let prepared = SegmentHeader::decode(&bytes)
            .ok()
            .filter(|h| h.file_name() == plain.file_name() && h.log_id == self.meta.log_id);
        let active = Active::open(&*self.vfs, path.to_path_buf(), header.clone(), Open::Read)?;
        self.clear_successor(&mut self.view.write(), &active, seal, &file, &bytes, prepared.is_some())?;
        let next = prepared.unwrap_or(plain).answering(seal, seal.last_crc);
        self.go_live_synced(&next)?;
        Ok(next)
    }

    /// Reads the whole log from the files, as anybody would who starts from nothing.
    fn check_copy(&self, old: &Old, next: &SegmentHeader) -> Result<View> {
        let (fresh, walk) = self.replay_whole()?;
        if let Some(finding) = walk.damage {
            let path = finding.file.clone();
            return Err(Error::new(ErrorKind::Damaged(Box::new(finding)), "check the copy of", &path));
        }
        let goes_on = fresh.active.as_ref().is_some_and(|a| a.header.segment_id == next.segment_id);
        if !goes_on || fresh.at.seq != old.summary.end.seq || fresh.state.last().0 + 1 != old.summary.end.seq
        {
            let why = std::io::Error::other("the log does not read as it was copied");
            return Err(Error::io(why, "check the copy of", &old.path));
        }
        Ok(fresh)
    }
}

/// Whether the first name is one that stands for the second.
fn stands_for(name: &SegmentName, other: &SegmentName) -> bool {
    name.ordinal_a <= other.ordinal_a
        && name.ordinal_b >= other.ordinal_b
        && name.generation > other.generation
}

fn recovered(done: &Done) -> Finding {
    let (severity, cut, remedy) = match &done.cut {
        Some(note) => (
            Severity::Error,
            format!("; what could not be read again, never acknowledged as durable, was set aside as {note}"),
            "check the disk; what the bytes held is in quarantine/, as far as it could be read",
        ),
        None => (Severity::Warning, String::new(), "nothing is lost; check the disk"),
    };
    Finding {
        severity,
        code: "recovered",
        file: done.path.clone(),
        offset: Some(done.offset),
        seq: Some(done.seq),
        message: format!("a sync had failed: the log was copied forward into fresh blocks{cut}"),
        remedy,
    }
}

fn control_header(control: &Control, seq: u64, link: u32) -> FrameHeader {
    FrameHeader { seq, link, kind: control.kind(), count: 0, durable_lag: LAG_NONE, writer: 0 }
}

/// The contents of the copy.
struct Making {
    salt: super::frame::Salt,
    bytes: Vec<u8>,
    seq: u64,
    link: u32,
}

impl Making {
    /// All whole frames of the old segment but its Seal, at the same offsets, linked and salted anew.
    fn copy_of(header: &SegmentHeader, old: &Old) -> Self {
        let mut making = Making {
            salt: header.salt(),
            bytes: header.encode().to_vec(),
            seq: header.first_seq,
            link: header.prev_last_crc,
        };
        let salt = old.header.salt();
        let start = Position::start_of(&old.header);
        let mut scanner = Scanner::new(&old.bytes, 0, &salt, old.header.max_body, start);
        while let Ok(located) = scanner.next_frame() {
            if let Content::Control(Control::Seal(_)) = located.content {
                break;
            }
            debug_assert_eq!(located.offset, making.bytes.len() as u64, "the same lpos");
            let frame = FrameHeader { link: making.link, ..located.frame.header };
            making.link = encode_with(&mut making.bytes, &making.salt, &frame, |out| {
                out.extend_from_slice(located.frame.body);
            });
            making.seq = scanner.position().seq;
        }
        making
    }

    fn control(&mut self, control: &Control) {
        let header = control_header(control, self.seq, self.link);
        self.link = encode_with(&mut self.bytes, &self.salt, &header, |out| control.encode(out));
    }
}
