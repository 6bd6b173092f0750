//! Repair: asked for, never automatic. What still checks is kept, what is lost is said by number, and the damaged bytes
//! go to quarantine before anything is changed.
//!
//! One damaged place at a time, each ending with one rename of one higher-generation file; a crash in between leaves
//! the old file or the new one, and the next repair goes on. `format-spec/recovery.md`, section *Repair*.

use std::path::{Path, PathBuf};

use super::SegmentId;
use super::classify::Verdict;
use super::control_frame::{Control, RecoveryMark, Seal};
use super::engine::{Log, Writer};
use super::finding::Finding;
use super::format::{FRAME_ALIGN, LAG_NONE};
use super::frame::{FrameHeader, FrameKind, encode_with, frame_len};
use super::lock::{LockFile, Rank};
use super::publish::{publish, write_new};
use super::quarantine::{Cause, Note, set_aside};
use super::reader::{self, Reach, Walk, Walked};
use super::rotate::{new_segment_id, plain_header, writer_version};
use super::scan::{self, Content, Position, Scanner, Stop};
use super::segment::{SegmentHeader, SegmentState};
use super::snapshot;
use super::view::View;
use crate::error::{Context as _, Error, ErrorKind, Result};
use crate::vfs::{Existing, Open, sync_name, write_full};

/// An event takes no fewer bytes in a live segment, so this bounds how many numbers lost bytes can have held.
const EVENT_LEN_MIN: u64 = 19;
/// A durable word beyond this is not a position; nothing was ever written there.
const LPOS_MAX: u64 = 1 << 47;
/// Damaged places mended in one call; a log that has more is repaired by calling again.
const ROUNDS_MAX: usize = 1_000;

/// What repair does, or would do, about one damaged place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepairStep {
    /// The file concerned; for a missing one, where it is missing.
    pub file: PathBuf,
    /// What is wrong.
    pub verdict: Verdict,
    /// How many frames before the damage are kept.
    pub kept: u64,
    /// How many frames behind it are saved.
    pub salvaged: u64,
    /// Event numbers that no frame holds any more.
    pub lost: Vec<(u64, u64)>,
    /// Name of the note in `quarantine/` about the bytes as they were; `None` in a dry run, and if there are none.
    pub quarantined: Option<String>,
}

/// What repair found and did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RepairReport {
    /// The steps, in the order they are taken.
    pub steps: Vec<RepairStep>,
    /// Whether they were taken.
    pub applied: bool,
}

/// A whole frame of a damaged segment.
struct Kept {
    header: FrameHeader,
    body: std::ops::Range<usize>,
    /// Next number behind it.
    next: u64,
    crc: u32,
    end: u64,
    salvaged: bool,
}

/// What a rewritten segment will hold.
struct Rewrite {
    bytes: Vec<u8>,
    frames: Vec<Kept>,
    lost: Vec<(u64, u64)>,
}

impl Log {
    /// Says what repair would do. Takes no lock and writes nothing.
    ///
    /// # Errors
    /// System errors; [`ErrorKind::TooNew`] where a newer release wrote.
    pub fn plan_repair(&self) -> Result<RepairReport> {
        let durable = reader::durable_word(&*self.vfs, &self.paths, self.meta.log_id);
        let walk = self.walk_for_repair(durable)?;
        let mut steps = Vec::new();
        for (before, after) in holes(&walk) {
            let from = before.map_or(1, |before| before.summary.end.seq);
            let lost = gap(from, after.header.first_seq).into_iter().collect();
            steps.push(step(self.paths.log(), Verdict::MissingSegment, 0, 0, lost));
        }
        for (i, segment) in walk.segments.iter().enumerate() {
            let next = walk.segments.get(i + 1).map(|next| &next.header);
            match (segment.verdict.is_damage(), next) {
                (false, _) => continue,
                (true, Some(next)) if next.ordinal_a > segment.header.ordinal_b + 1 && is_sealed(segment) => {
                    continue;
                }
                (true, None) if is_sealed(segment) => {
                    let from = segment.summary.end.seq;
                    let lost = match &walk.unfinished {
                        Some(_) => None, // the file is there: it is taken into use with all that is in it
                        None => gap(from, next_number(segment, durable, walk.vouched, from)),
                    };
                    let file =
                        walk.unfinished.as_ref().map_or_else(|| self.paths.log(), |found| found.path.clone());
                    steps.push(step(file, segment.verdict, 0, 0, lost.into_iter().collect()));
                    continue;
                }
                (true, _) => {}
            }
            let rewrite = self.read_for_rewrite(segment)?;
            let behind = rewrite.frames.last().map_or(segment.summary.end.seq, |last| last.next);
            let to = next
                .map_or_else(|| next_number(segment, durable, walk.vouched, behind), |next| next.first_seq);
            let mut lost = rewrite.lost;
            lost.extend(gap(behind, to));
            let salvaged = rewrite.frames.iter().filter(|frame| frame.salvaged).count() as u64;
            steps.push(step(segment.path.clone(), segment.verdict, segment.summary.frames, salvaged, lost));
        }
        Ok(RepairReport { steps, applied: false })
    }

    /// Mends what [`Log::plan_repair`] tells of.
    ///
    /// # Errors
    /// [`ErrorKind::DurabilityLost`] after a failed sync, if the log could not be copied forward either.
    /// [`ErrorKind::TooNew`], [`ErrorKind::NoSpace`] (nothing is changed before the copy in quarantine is synced),
    /// [`ErrorKind::Busy`], system errors. A repair that was interrupted is taken up by the next one.
    ///
    /// # Durability
    /// Everything it did is durable when it returns.
    ///
    /// # Blocking
    /// Waits for COMPACT and LOCK, each at most `lock_timeout`; others can read, not write, while it works.
    ///
    /// # Concurrency
    /// Live processes may go on meanwhile; they rebuild their views when they meet the Epoch it ends with.
    pub fn repair(&self) -> Result<RepairReport> {
        let lock = self.check_to_repair()?;
        let compact = LockFile::open(&self.vfs, self.paths.compact(), Rank::Compact)?;
        let patience = self.settings.lock_timeout;
        let _compacting = compact.acquire(patience).map_err(|e| self.name_holder(e))?;
        let mut writer = self.writer.lock();
        writer.let_go();
        let held = lock.acquire(patience).map_err(|e| self.name_holder(e))?;
        let mut report = RepairReport { steps: Vec::new(), applied: true };
        for _ in 0..ROUNDS_MAX {
            let durable = reader::durable_word(&*self.vfs, &self.paths, self.meta.log_id);
            let walk = self.walk_for_repair(durable)?;
            if walk.damage.is_some() {
                // They have what the log will have no more.
                snapshot::spend_all(&*self.vfs, &self.paths)?;
            }
            match self.one_step(&walk, durable)? {
                Some(step) => report.steps.push(step),
                None => break,
            }
        }
        let mut view = self.view.write();
        self.rebuild(&mut view)?;
        if let Some(finding) = &view.damage {
            return Err(Error::new(ErrorKind::Damaged(Box::new(finding.clone())), "repair", &finding.file));
        }
        drop(view);
        drop(held);
        self.forget_tries();
        self.recover(&mut writer, patience)?;
        if !report.steps.is_empty() {
            self.end_with_epoch(&mut writer)?;
        }
        drop(writer);
        // What somebody still has in use goes the next time.
        let _ = snapshot::remove_spent(&*self.vfs, &self.paths);
        self.tell();
        Ok(report)
    }

    fn walk_for_repair(&self, durable: Option<u64>) -> Result<Walk> {
        let walk =
            reader::walk(&*self.vfs, &self.paths, self.meta.log_id, durable, Reach::Salvage, &mut |_| {})?;
        if let Some(finding) = &walk.too_new {
            let have = super::format::LEVEL.into();
            let kind = ErrorKind::TooNew { what: finding.message.clone(), need: have + 1, have };
            return Err(Error::new(kind, "repair", &finding.file));
        }
        let unreadable = walk.findings.iter().find(|finding| finding.code == "unreadable-segment");
        if let Some(finding) = unreadable {
            // It may be whole; what cannot be read is never replaced.
            let kind = ErrorKind::Damaged(Box::new(finding.clone()));
            return Err(Error::new(kind, "repair", &finding.file));
        }
        Ok(walk)
    }

    /// Mends the first damaged place; `None` = there is none.
    fn one_step(&self, walk: &Walk, durable: Option<u64>) -> Result<Option<RepairStep>> {
        if let Some((before, after)) = holes(walk).next() {
            return self.fill_hole(before, after).map(Some);
        }
        let Some((i, segment)) = walk.segments.iter().enumerate().find(|(_, s)| s.verdict.is_damage()) else {
            return Ok(if walk.segments.is_empty() { Some(self.start_anew(walk, durable)?) } else { None });
        };
        match walk.segments.get(i + 1) {
            Some(next) => self.rewrite(segment, &next.header, None).map(Some),
            None if is_sealed(segment) => self.replace_successor(segment, walk, durable).map(Some),
            None => {
                let (next, quarantined) = self.seal_damaged(segment, walk.vouched, durable)?;
                self.rewrite(segment, &next, Some(quarantined)).map(Some)
            }
        }
    }

    /// The whole frames of a segment: those before the damage, and those a resync finds behind it.
    fn read_for_rewrite(&self, segment: &Walked) -> Result<Rewrite> {
        let bytes = reader::read_file(&*self.vfs, &segment.path).context("read", &segment.path)?;
        let header = &segment.header;
        let salt = header.salt();
        let (mut frames, mut lost): (Vec<Kept>, Vec<_>) = (Vec::new(), Vec::new());
        let mut from = Some(Position::start_of(header));
        let mut expected = header.first_seq;
        let mut salvaged = false;
        let mut budget = scan::resync_budget(bytes.len());
        while let Some(start) = from {
            let mut scanner = Scanner::new(&bytes, 0, &salt, header.max_body, start);
            let stop = loop {
                match scanner.next_frame() {
                    Ok(located) => {
                        let at = scanner.position();
                        if let Content::Control(Control::Seal(_)) = located.content {
                            continue; // made anew at the end
                        }
                        let fresh = located.frame.header.seq;
                        lost.extend(gap(expected, fresh));
                        expected = at.seq;
                        let body =
                            usize::try_from(located.offset).unwrap_or(0) + super::format::FRAME_HEADER_LEN;
                        frames.push(Kept {
                            header: located.frame.header,
                            body: body..body + located.frame.body.len(),
                            next: at.seq,
                            crc: located.frame.crc,
                            end: at.offset,
                            salvaged,
                        });
                    }
                    Err(stop) => break stop,
                }
            };
            let at = scanner.position();
            let seq = at.seq.max(expected);
            // What a resync found, yet the scanner would not take, is a whole frame that breaks the format: step over it.
            let refused = salvaged && at.offset == start.offset;
            salvaged = true;
            from = match stop {
                Stop::Sealed { .. } => None,
                _ => {
                    let offset = at.offset + if refused { FRAME_ALIGN as u64 } else { 0 };
                    let at = Position { offset, seq, link: 0 };
                    scan::resync(&bytes, &salt, header.max_body, at, &mut budget)
                }
            };
        }
        Ok(Rewrite { bytes, frames, lost })
    }

    /// Writes what still checks into a file of a higher generation that answers for the damaged one.
    fn rewrite(
        &self,
        segment: &Walked,
        next: &SegmentHeader,
        quarantined: Option<String>,
    ) -> Result<RepairStep> {
        let rewrite = self.read_for_rewrite(segment)?;
        let quarantined = match quarantined {
            Some(name) => name,
            None => self.keep_damaged(segment, &rewrite.bytes)?,
        };
        let mut header = segment.header.clone();
        header.generation += 1;
        header.segment_id = new_segment_id(&*self.vfs).context("draw an id for", &segment.path)?;
        header.created = self.vfs.now();
        header.writer_version = writer_version();
        let mut file = FileInMaking::new(&header);
        let mut salvaged = 0;
        for frame in rewrite.frames.iter().filter(|frame| frame.next <= next.first_seq) {
            file.gap_to(frame.header.seq);
            file.copy(frame, &rewrite.bytes);
            salvaged += u64::from(frame.salvaged);
        }
        file.gap_to(next.first_seq);
        file.seal(next);
        let (lost, bytes) = (file.lost.clone(), file.bytes);
        self.publish(&header, &bytes)?;
        self.remove_damaged(&segment.path)?;
        let mut step = step(segment.path.clone(), segment.verdict, segment.summary.frames, salvaged, lost);
        step.quarantined = Some(quarantined);
        Ok(step)
    }

    /// Ends a damaged active segment: a Seal behind the last whole frame that is found, and a live successor.
    fn seal_damaged(
        &self,
        segment: &Walked,
        vouched: u64,
        durable: Option<u64>,
    ) -> Result<(SegmentHeader, String)> {
        self.unshare(&segment.path)?;
        let rewrite = self.read_for_rewrite(segment)?;
        let quarantined = self.keep_damaged(segment, &rewrite.bytes)?;
        let end = segment.summary.end;
        let (offset, number, link) = rewrite
            .frames
            .last()
            .map_or((end.offset, end.seq, end.link), |last| (last.end, last.next, last.crc));
        // Where the search had to give up, the Seal goes behind all there is: nothing that may be whole is written over.
        let offset = match segment.summary.beyond {
            beyond if beyond.cut_short => beyond.content_end.max(offset).next_multiple_of(FRAME_ALIGN as u64),
            _ => offset,
        };
        let behind = Position { offset, seq: number, link };
        let header = &segment.header;
        let natural = header.lpos(offset + frame_len(44) as u64);
        let durable = durable.filter(|lpos| *lpos < LPOS_MAX);
        let id = new_segment_id(&*self.vfs).context("draw an id for", &segment.path)?;
        let ready = plain_header(header.log_id, id, header.ordinal_b + 1, self.vfs.now());
        self.publish(&ready, &ready.encode())?;
        let seal = Seal {
            next_segment_id: id,
            next_first_seq: next_number(segment, durable, vouched, number),
            // Never below what was durable: positions, too, are not given out again.
            next_base_lpos: natural.max(durable.unwrap_or(0)),
            segment_id: header.segment_id,
            last_seq: number - 1,
            last_crc: 0,
        };
        let mut bytes = Vec::new();
        let frame = control_header(FrameKind::SEAL, behind.seq, behind.link);
        let crc = encode_with(&mut bytes, &header.salt(), &frame, |out| Control::Seal(seal).encode(out));
        let file = self.vfs.open(&segment.path, Open::Write).context("open", &segment.path)?;
        write_full(&*file, &bytes, offset).map_err(|(_, e)| Error::io(e, "seal", &segment.path))?;
        drop(file);
        self.sync_again(&segment.path)?;
        let live = ready.answering(&seal, crc);
        self.go_live_synced(&live)?;
        Ok((live, quarantined))
    }

    /// A segment between two others is gone: a file that says which numbers went with it takes its place.
    fn fill_hole(&self, before: Option<&Walked>, after: &Walked) -> Result<RepairStep> {
        let ordinal = before.map_or(1, |before| before.header.ordinal_b + 1);
        let id = new_segment_id(&*self.vfs).context("draw an id in", &self.paths.log())?;
        let mut header = plain_header(self.meta.log_id, id, ordinal, self.vfs.now());
        header.ordinal_b = after.header.ordinal_a - 1;
        header.generation = 1;
        header.first_seq = 1;
        header.base_lpos = after.header.base_lpos;
        header.state = SegmentState::Live;
        if let Some(before) = before {
            header.prev_segment_id = before.header.segment_id;
            // An unsealed segment before it is damaged itself: what is found behind its damage comes before this file.
            let found = self.read_for_rewrite(before)?.frames.last().map_or(0, |last| last.next);
            header.first_seq = found.max(before.summary.end.seq);
            header.prev_last_seq = header.first_seq - 1;
            header.prev_last_crc = before.summary.end.link.max(1);
            if let Stop::Sealed { seal, crc } = before.summary.stop {
                header = header.answering(&seal, seal.crc_for_successor(crc));
                header.stands_for = seal.next_segment_id;
            }
        }
        let mut file = FileInMaking::new(&header);
        file.gap_to(after.header.first_seq);
        file.seal(&after.header);
        self.publish(&header, &file.bytes)?;
        Ok(step(self.paths.log(), Verdict::MissingSegment, 0, 0, file.lost))
    }

    /// The segment that a Seal names is gone, or holds acknowledged frames although it was never taken into use.
    fn replace_successor(&self, sealed: &Walked, walk: &Walk, durable: Option<u64>) -> Result<RepairStep> {
        let Stop::Sealed { seal, crc } = sealed.summary.stop else {
            return Err(Error::new(ErrorKind::NotYet, "repair", &sealed.path));
        };
        let last_crc = seal.crc_for_successor(crc);
        let ordinal = sealed.header.ordinal_b + 1;
        let verdict = sealed.verdict;
        let plain = plain_header(self.meta.log_id, seal.next_segment_id, ordinal, self.vfs.now());
        let path = self.paths.segment(&plain.file_name());
        if self.vfs.stat(&path).is_ok() {
            let bytes = reader::read_file(&*self.vfs, &path).context("read", &path)?;
            let readable =
                SegmentHeader::decode(&bytes).ok().filter(|header| header.file_name() == plain.file_name());
            let prepared = readable.filter(|header| header.log_id == self.meta.log_id).unwrap_or(plain);
            let note = self.note_of(&path, seal.next_segment_id, seal.next_base_lpos, &bytes, verdict);
            let quarantined = set_aside(&*self.vfs, &self.paths, &note, &bytes)?;
            self.sync_again(&sealed.path)?;
            self.go_live_synced(&prepared.answering(&seal, last_crc))?;
            let mut step = step(path, verdict, 0, 0, Vec::new());
            step.quarantined = Some(quarantined);
            return Ok(step);
        }
        let durable = durable.filter(|lpos| *lpos < LPOS_MAX);
        let mut header = plain.answering(&seal, last_crc);
        header.segment_id = new_segment_id(&*self.vfs).context("draw an id for", &path)?;
        header.generation = 1;
        header.base_lpos = seal.next_base_lpos.max(durable.unwrap_or(0));
        let lost_bytes = durable.map_or(0, |lpos| lpos.saturating_sub(seal.next_base_lpos));
        let mut next = seal.next_first_seq.max(walk.vouched + 1);
        if lost_bytes > 0 {
            next = next.max(seal.next_first_seq + lost_bytes / EVENT_LEN_MIN + 1);
        }
        let mut file = FileInMaking::new(&header);
        file.gap_to(next);
        self.publish(&header, &file.bytes)?;
        Ok(step(self.paths.log(), verdict, 0, 0, file.lost))
    }

    /// No segment is left at all: numbers go on behind everything that could have been acknowledged.
    fn start_anew(&self, walk: &Walk, durable: Option<u64>) -> Result<RepairStep> {
        let durable = durable.filter(|lpos| *lpos < LPOS_MAX).unwrap_or(0);
        let id = new_segment_id(&*self.vfs).context("draw an id in", &self.paths.log())?;
        let mut header = plain_header(self.meta.log_id, id, 1, self.vfs.now());
        header.state = SegmentState::Live;
        header.generation = 1;
        header.first_seq = 1;
        header.base_lpos = durable;
        let mut file = FileInMaking::new(&header);
        if durable > 0 {
            file.gap_to(walk.vouched.max(durable / EVENT_LEN_MIN) + 2);
        }
        self.publish(&header, &file.bytes)?;
        Ok(step(self.paths.log(), Verdict::MissingSegment, 0, 0, file.lost))
    }

    /// Writes a segment under a temporary name, syncs it, and gives it its name.
    fn publish(&self, header: &SegmentHeader, bytes: &[u8]) -> Result<()> {
        let dir = self.paths.log();
        let temporary = dir.join(format!(".new-{}", header.segment_id));
        let path = self.paths.segment(&header.file_name());
        publish(&*self.vfs, &temporary, &path, bytes)
    }

    /// Syncs a file for good: all of it is written again through the descriptor that syncs.
    fn sync_again(&self, path: &Path) -> Result<()> {
        self.unshare(path)?;
        let bytes = reader::read_file(&*self.vfs, path).context("read", path)?;
        let file = self.vfs.open(path, Open::Write).context("open", path)?;
        write_full(&*file, &bytes, 0).map_err(|(_, e)| Error::io(e, "write again", path))?;
        file.sync_data().context("sync", path)
    }

    /// Gives a segment blocks of its own where its file has other names too: a backup shares sealed segments with its store,
    /// and what is written into one here must not be written there.
    fn unshare(&self, path: &Path) -> Result<()> {
        if self.vfs.stat(path).context("look at", path)?.links < 2 {
            return Ok(());
        }
        let bytes = reader::read_file(&*self.vfs, path).context("read", path)?;
        let id = new_segment_id(&*self.vfs).context("draw a name beside", path)?;
        let temporary = self.paths.log().join(format!(".new-{id}"));
        write_new(&*self.vfs, &temporary, &bytes)?;
        // On Windows an open file is not replaced, and this process may follow this one; the view is rebuilt behind a repair.
        self.view.write().active = None;
        if let Err(e) = self.vfs.rename(&temporary, path, Existing::Replace) {
            let _ = self.vfs.unlink(&temporary);
            self.rebuild(&mut self.view.write())?;
            return Err(Error::io(e, "publish", path));
        }
        sync_name(&*self.vfs, path).context("sync", path)
    }

    pub(super) fn go_live_synced(&self, header: &SegmentHeader) -> Result<()> {
        let path = self.paths.segment(&header.file_name());
        let file = self.vfs.open(&path, Open::Write).context("open", &path)?;
        write_full(&*file, &header.encode(), 0).map_err(|(_, e)| Error::io(e, "take into use", &path))?;
        file.sync_data().context("sync", &path)
    }

    fn keep_damaged(&self, segment: &Walked, bytes: &[u8]) -> Result<String> {
        let at_lpos = segment.header.lpos(segment.summary.end.offset);
        let note = self.note_of(&segment.path, segment.header.segment_id, at_lpos, bytes, segment.verdict);
        set_aside(&*self.vfs, &self.paths, &note, bytes)
    }

    fn note_of(
        &self,
        path: &Path,
        segment: SegmentId,
        at_lpos: u64,
        bytes: &[u8],
        verdict: Verdict,
    ) -> Note<'static> {
        Note {
            cause: Cause::Repair,
            segment,
            file: path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            offset: 0,
            mark: RecoveryMark {
                at_lpos,
                bytes: bytes.len() as u64,
                frames: 0,
                first_seq: 0,
                verdict: verdict.code(),
                note: String::new(),
            },
            verdict: verdict.as_str(),
            time: self.vfs.now(),
        }
    }

    /// The damaged file has been copied to quarantine, and a higher generation stands for it.
    fn remove_damaged(&self, path: &Path) -> Result<()> {
        match self.vfs.unlink(path) {
            // Windows: others still have it open. It is obsolete either way.
            Err(e)
                if e.kind() != std::io::ErrorKind::NotFound
                    && e.kind() != std::io::ErrorKind::PermissionDenied =>
            {
                Err(Error::io(e, "remove", path))
            }
            _ => self.vfs.sync_dir(&self.paths.log()).context("sync", &self.paths.log()),
        }
    }

    /// The next append is preceded by an Epoch: it is written at once, so that live processes rebuild their views.
    fn end_with_epoch(&self, writer: &mut Writer) -> Result<()> {
        let (held, mut view, file_len) = self.enter_to_repair(writer, self.settings.lock_timeout)?;
        let Some(active) = view.active.clone() else { return Ok(()) };
        self.own_bytes(&view, &active)?;
        let (mut batch, mut undoing) = self.start_batch(writer, &mut view, &active)?;
        if !undoing.iter().any(super::engine::Undoing::is_epoch) {
            undoing.push(self.put_epoch(&mut view, &mut batch)?);
        }
        let (_, error) = self.write_batch(writer, &mut view, &active, batch, undoing, file_len);
        error.map_or(Ok(()), Err)?;
        self.sync_active(&mut view, &active)?;
        drop(view);
        drop(held);
        Ok(())
    }

    /// Folds the log anew.
    pub(super) fn rebuild(&self, view: &mut View) -> Result<Vec<Finding>> {
        Ok(self.read_anew(view)?.findings)
    }
}

/// The pairs of segments between which ordinals are missing.
fn holes(walk: &Walk) -> impl Iterator<Item = (Option<&Walked>, &Walked)> {
    let before = std::iter::once(None).chain(walk.segments.iter().map(Some));
    before.zip(&walk.segments).filter(|(before, after)| {
        before.map_or(1, |before| before.header.ordinal_b + 1) < after.header.ordinal_a
    })
}

fn is_sealed(segment: &Walked) -> bool {
    matches!(segment.summary.stop, Stop::Sealed { .. })
}

fn step(file: PathBuf, verdict: Verdict, kept: u64, salvaged: u64, lost: Vec<(u64, u64)>) -> RepairStep {
    RepairStep { file, verdict, kept, salvaged, lost, quarantined: None }
}

fn gap(from: u64, to: u64) -> Option<(u64, u64)> {
    (from < to).then(|| (from, to - 1))
}

/// The first number that can never have been given out, behind the last frame found, which ends at `number`.
fn next_number(segment: &Walked, durable: Option<u64>, vouched: u64, number: u64) -> u64 {
    let end = segment.summary.beyond.frames_end.max(segment.summary.end.offset);
    let lost_bytes = durable
        .filter(|lpos| *lpos < LPOS_MAX)
        .map_or(0, |lpos| lpos.saturating_sub(segment.header.lpos(end)));
    let by_position = if lost_bytes > 0 { number + lost_bytes / EVENT_LEN_MIN + 1 } else { 0 };
    number.max(vouched + 1).max(by_position)
}

fn control_header(kind: FrameKind, seq: u64, link: u32) -> FrameHeader {
    FrameHeader { seq, link, kind, count: 0, durable_lag: LAG_NONE, writer: 0 }
}

/// The contents of a rewritten segment.
struct FileInMaking<'a> {
    header: &'a SegmentHeader,
    salt: super::frame::Salt,
    bytes: Vec<u8>,
    seq: u64,
    link: u32,
    lost: Vec<(u64, u64)>,
}

impl<'a> FileInMaking<'a> {
    fn new(header: &'a SegmentHeader) -> Self {
        FileInMaking {
            header,
            salt: header.salt(),
            bytes: header.encode().to_vec(),
            seq: header.first_seq,
            link: header.prev_last_crc,
            lost: Vec::new(),
        }
    }

    fn control(&mut self, control: &Control) {
        let header = control_header(control.kind(), self.seq, self.link);
        self.link = encode_with(&mut self.bytes, &self.salt, &header, |out| control.encode(out));
    }

    /// Says that the numbers up to `to` are lost.
    fn gap_to(&mut self, to: u64) {
        if let Some((from, last)) = gap(self.seq, to) {
            self.control(&Control::Gap { from, to: last });
            self.lost.push((from, last));
            self.seq = to;
        }
    }

    /// The same frame, linked and salted anew.
    fn copy(&mut self, frame: &Kept, bytes: &[u8]) {
        let header = FrameHeader { link: self.link, ..frame.header };
        let body = bytes.get(frame.body.clone()).unwrap_or_default();
        self.link = encode_with(&mut self.bytes, &self.salt, &header, |out| out.extend_from_slice(body));
        self.seq = frame.next;
    }

    /// Ends as the successor's header knows it.
    fn seal(&mut self, next: &SegmentHeader) {
        debug_assert_eq!(self.header.ordinal_b + 1, next.ordinal_a, "the successor follows");
        self.control(&Control::Seal(Seal {
            next_segment_id: next.stands_for,
            next_first_seq: next.first_seq,
            next_base_lpos: next.base_lpos,
            segment_id: next.prev_segment_id,
            last_seq: next.prev_last_seq,
            last_crc: next.prev_last_crc,
        }));
    }
}
