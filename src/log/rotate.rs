//! Rotation: a full segment is sealed, and its prepared successor taken into use.
//!
//! ```text
//! outside LOCK   .new-… : prepared header → sync → rename to its final name → sync folder
//! under LOCK     Seal at the end of the old file → sync it → live header into the successor
//! ```
//! So at most one file can have a torn tail. Whoever finds a Seal whose successor is not live repeats the last two
//! steps, the sync first, always.

use std::path::PathBuf;

use super::bytes::all_zero;
use super::classify::{Hints, Place, Verdict, classify};
use super::control_frame::{Control, RecoveryMark, Seal};
use super::engine::{Log, Undoing, Writer};
use super::finding::{Finding, Severity};
use super::format::MAX_BODY;
use super::frame::{NotAFrame, Salt};
use super::publish::publish;
use super::quarantine::{Cause, Note, set_aside};
use super::reader;
use super::scan::{self, Position, Stop, Summary};
use super::segment::{HEADER_LEN, SegmentHeader, SegmentName, SegmentState};
use super::view::{Active, View};
use super::{LogId, SegmentId, Seq};
use crate::error::{Context as _, Error, ErrorKind, Result};
use crate::session;
use crate::vfs::threads::RwLockWriteGuard;
use crate::vfs::{FileKind, Open, Vfs, write_full};

/// How often others may rotate while this process is about to.
const TRIES: u32 = 16;

/// A successor that stands ready under its final name.
#[derive(Debug)]
pub(super) struct Prepared {
    header: SegmentHeader,
    path: PathBuf,
}

/// What a segment is called until it has its name.
const HALF_MADE: &str = ".new-";

/// The release, as headers name it.
pub(crate) fn writer_version() -> [u8; 16] {
    let mut out = [0; 16];
    let version = concat!("foldlog ", env!("CARGO_PKG_VERSION"));
    for (place, byte) in out.iter_mut().zip(version.bytes()) {
        *place = byte;
    }
    out
}

/// A random segment id, never 0.
pub(crate) fn new_segment_id(vfs: &dyn Vfs) -> std::io::Result<SegmentId> {
    let mut random = [0; 8];
    vfs.random(&mut random)?;
    Ok(SegmentId(u64::from_le_bytes(random).max(1)))
}

/// The header of a plain segment that knows only its own identity.
pub(crate) fn plain_header(log: LogId, id: SegmentId, ordinal: u64, created: u64) -> SegmentHeader {
    SegmentHeader {
        state: SegmentState::Prepared,
        compat: 0,
        ro_compat: 0,
        incompat: 0,
        generation: 0,
        log_id: log,
        segment_id: id,
        stands_for: id,
        ordinal_a: ordinal,
        ordinal_b: ordinal,
        first_seq: 0,
        base_lpos: 0,
        prev_segment_id: SegmentId(0),
        prev_last_seq: 0,
        prev_last_crc: 0,
        max_body: MAX_BODY,
        horizon: 0,
        created,
        writer_version: writer_version(),
    }
}

impl SegmentHeader {
    /// The live header of the segment that a Seal names.
    pub(super) fn answering(mut self, seal: &Seal, last_crc: u32) -> Self {
        self.state = SegmentState::Live;
        self.first_seq = seal.next_first_seq;
        self.base_lpos = seal.next_base_lpos;
        self.prev_segment_id = seal.segment_id;
        self.prev_last_seq = seal.last_seq;
        self.prev_last_crc = last_crc;
        self
    }
}

impl Log {
    /// Prepares a successor when the active segment is nearly full. LOCK is not held; failing costs nothing yet.
    pub(super) fn prepare_successor(&self, writer: &mut Writer) {
        let ordinal = {
            let view = self.view.read();
            let Some(active) = &view.active else { return };
            if view.at.offset < self.nearly_full_at() || view.damage.is_some() {
                return;
            }
            active.header.ordinal_b + 1
        };
        if writer.prepared.as_ref().is_some_and(|prepared| prepared.header.ordinal_a == ordinal) {
            return;
        }
        if !std::mem::replace(&mut writer.swept, true) {
            self.sweep_half_made();
        }
        match self.prepare(ordinal) {
            Ok(prepared) => writer.prepared = Some(prepared),
            // The active segment grows beyond its size until there is room again.
            Err(e) => self.note(Finding {
                severity: Severity::Warning,
                code: "not-rotated",
                file: e.path().to_path_buf(),
                offset: None,
                seq: None,
                message: format!("the next segment could not be prepared: {e}"),
                remedy: e.kind().remedy(),
            }),
        }
    }

    /// From this offset on the next segment is prepared.
    pub(super) fn nearly_full_at(&self) -> u64 {
        self.settings.segment_size / 4 * 3
    }

    fn prepare(&self, ordinal: u64) -> Result<Prepared> {
        let dir = self.paths.log();
        let id = new_segment_id(&*self.vfs).context("draw a segment id for", &dir)?;
        let header = plain_header(self.meta.log_id, id, ordinal, self.vfs.now());
        let temporary = dir.join(format!("{HALF_MADE}{id}"));
        let path = self.paths.segment(&header.file_name());
        // Durable, name and all, before any Seal names it: a Seal without its successor is damage.
        publish(&*self.vfs, &temporary, &path, &header.encode())?;
        Ok(Prepared { header, path })
    }

    /// Removes segments under temporary names that the dead have left, if nobody else lives who could be making one. This process
    /// makes them only under the mutex of its writer, which is held. What cannot be told or removed stays for the next.
    fn sweep_half_made(&self) {
        let dir = self.paths.log();
        let Some(session) = &self.session else { return };
        // Listed before the look at the sessions: whoever made one of these had its session by then.
        let entries = self.vfs.list(&dir).unwrap_or_default();
        let mut found = entries
            .iter()
            .filter(|entry| entry.kind == FileKind::File && entry.name.starts_with(HALF_MADE))
            .peekable();
        if found.peek().is_none() {
            return;
        }
        let Ok(live) = session::live(&*self.vfs, &self.sessions, session::Probe::Look) else { return };
        if live.iter().any(|other| other.session != session.id()) || !session.stands() {
            return;
        }
        for entry in found {
            let _ = self.vfs.unlink(&dir.join(&entry.name));
        }
    }

    /// At close: a successor that this handle prepared, and that no Seal of its names, would be of use to nobody.
    pub(super) fn drop_unused_successor(&self) {
        if let Some(mut writer) = self.writer.try_lock()
            && let Some(prepared) = writer.prepared.take()
        {
            let _ = self.vfs.unlink(&prepared.path);
        }
    }

    /// Whether [`Log::prepare_successor`] has something to do.
    pub(super) fn lacks_successor(&self, writer: &Writer) -> bool {
        let view = self.view.read();
        let Some(active) = &view.active else { return true };
        let next = active.header.ordinal_b + 1;
        view.at.offset >= self.nearly_full_at()
            && writer.prepared.as_ref().is_none_or(|prepared| prepared.header.ordinal_a != next)
    }

    /// Rotates if the active segment is full and a successor stands ready. LOCK is held.
    pub(super) fn rotate_if_full(
        &self,
        writer: &mut Writer,
        view: &mut RwLockWriteGuard<'_, View>,
    ) -> Result<bool> {
        let Some(active) = view.active.clone() else { return Ok(false) };
        if view.at.offset < self.settings.segment_size {
            return Ok(false);
        }
        self.may_wait(writer)?;
        match writer.prepared.take() {
            Some(ready)
                if ready.header.ordinal_a == active.header.ordinal_b + 1
                    && self.vfs.stat(&ready.path).is_ok_and(|stat| stat.kind == FileKind::File) =>
            {
                // Where the folder was moved away, and another stands in its place, the successor may have been prepared in
                // that one: a Seal here would name what is not there.
                self.files_stand(&active).map_err(|e| self.lost_or(e))?;
                self.rotate(writer, view, &active, &ready)?;
                Ok(true)
            }
            // Somebody else has rotated meanwhile; the next commit prepares anew.
            _ => Ok(false),
        }
    }

    /// Ends the segment that has this event, so that nothing is ever written into it again. Its successor is durable when
    /// this returns: whoever replaces the segment need not think of a rotation that is to be finished.
    pub(super) fn end_segment_with(&self, seq: Seq) -> Result<()> {
        let mut writer = self.writer.lock();
        for _ in 0..TRIES {
            let (ordinal, is_ended) = {
                let view = self.view.read();
                let Some(active) = &view.active else { break };
                (active.header.ordinal_b + 1, active.header.first_seq > seq.0)
            };
            // On a full disk too: nothing is made that is not needed.
            if is_ended {
                let entered = self.enter(&mut writer, self.settings.lock_timeout);
                let (_held, mut view, _) = entered.map_err(|e| self.name_holder(e))?;
                let Some(active) = view.active.clone() else { break };
                return self.sync_active(&mut view, &active);
            }
            let ready = match writer.prepared.take() {
                Some(ready) if ready.header.ordinal_a == ordinal => ready,
                _ => self.prepare(ordinal)?,
            };
            let entered = self.enter(&mut writer, self.settings.lock_timeout);
            let (held, mut view, _) = entered.map_err(|e| self.name_holder(e))?;
            let Some(active) = view.active.clone() else { break };
            if active.header.first_seq > seq.0 {
                let _ = self.vfs.unlink(&ready.path);
                return self.sync_active(&mut view, &active);
            }
            if active.header.ordinal_b + 1 == ready.header.ordinal_a
                && self.vfs.stat(&ready.path).is_ok_and(|stat| stat.kind == FileKind::File)
            {
                self.files_stand(&active).map_err(|e| self.lost_or(e))?;
                self.rotate(&mut writer, &mut view, &active, &ready)?;
                let Some(next) = view.active.clone() else { break };
                return self.sync_active(&mut view, &next);
            }
            // Somebody else has rotated meanwhile, and that may have been too early.
            drop(view);
            drop(held);
            let _ = self.vfs.unlink(&ready.path);
        }
        Err(Error::new(ErrorKind::NotYet, "rotate", &self.paths.log()))
    }

    fn rotate(
        &self,
        writer: &mut Writer,
        view: &mut RwLockWriteGuard<'_, View>,
        active: &Active,
        ready: &Prepared,
    ) -> Result<()> {
        self.own_bytes(view, active)?;
        let (mut batch, mut undoing) = self.start_batch(writer, view, active)?;
        let at = batch.position();
        let seal_len = super::frame::frame_len(44) as u64;
        let seal = Seal {
            next_segment_id: ready.header.segment_id,
            next_first_seq: at.seq,
            next_base_lpos: active.header.lpos(at.offset + seal_len),
            segment_id: active.header.segment_id,
            last_seq: at.seq - 1,
            last_crc: 0,
        };
        let placed = batch.put_control(&Control::Seal(seal));
        undoing.push(Undoing::Nothing);
        let file_len = active.file.stat().context("look at", &active.path)?.len;
        let frames = undoing.len();
        let (whole, error) = self.write_batch(writer, view, active, batch, undoing, file_len);
        if whole == frames {
            view.sealed = Some((seal, placed.crc));
        }
        if let Some(error) = error {
            return Err(error);
        }
        // Whatever fails from here on, nothing goes behind the Seal: the next holder finishes what it began.
        view.sealed = Some((seal, placed.crc));
        self.trim_reserve(view, active);
        self.sync_active(view, active)?;
        self.go_live(view, ready.header.clone().answering(&seal, placed.crc), &ready.path)?;
        self.remove_other_successors(&ready.header.file_name());
        Ok(())
    }

    /// Fills the successor's header and moves the view into it. The sealed file has been synced; LOCK is held.
    fn go_live(&self, view: &mut View, header: SegmentHeader, path: &std::path::Path) -> Result<()> {
        let next = Active::open(&*self.vfs, path.to_path_buf(), header, Open::Write)?;
        write_full(&*next.file, &next.header.encode(), 0)
            .map_err(|(_, e)| Error::io(e, "take into use", path))?;
        view.chain.push(next.header.file_name());
        view.enter(next, true);
        Ok(())
    }

    /// Successors of the same ordinal that others had prepared are in nobody's way, but would stay for ever.
    pub(super) fn remove_other_successors(&self, chosen: &SegmentName) {
        let Ok(entries) = self.vfs.list(&self.paths.log()) else { return };
        for name in entries.iter().filter_map(|entry| SegmentName::parse(&entry.name)) {
            if name.ordinal_a == chosen.ordinal_a && name.generation == 0 && name.id != chosen.id {
                // Windows refuses while its preparer has it open; the next rotation's leftovers harm nobody.
                let _ = self.vfs.unlink(&self.paths.segment(&name));
            }
        }
    }

    /// A Seal whose successor is not live: sync the sealed file, then fill the header. LOCK is held.
    pub(super) fn finish_rotation(
        &self,
        writer: &mut Writer,
        view: &mut RwLockWriteGuard<'_, View>,
        seal: &Seal,
        last_crc: u32,
    ) -> Result<()> {
        let Some(active) = view.active.clone() else { return Ok(()) };
        let _ = writer;
        let ordinal = active.header.ordinal_b + 1;
        let name =
            SegmentName { ordinal_a: ordinal, ordinal_b: ordinal, generation: 0, id: seal.next_segment_id };
        let path = self.paths.segment(&name);
        let bytes = match reader::read_file(&*self.vfs, &path) {
            Ok(bytes) => bytes,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                // Taken away with the whole folder it is not missing.
                self.files_stand(&active).map_err(|e| self.lost_or(e))?;
                let finding = Finding {
                    severity: Severity::Damage,
                    code: Verdict::MissingSegment.as_str(),
                    file: path.clone(),
                    offset: None,
                    seq: Some(seal.next_first_seq),
                    message: format!(
                        "segment {ordinal} (id {}), which the one before it names, is not there",
                        name.id
                    ),
                    remedy: "bring the file back from a copy, or run `foldlog repair` to see what can be saved",
                };
                self.note(finding.clone());
                view.damage = Some(finding.clone());
                return Err(Error::new(ErrorKind::Damaged(Box::new(finding)), "write", &path));
            }
            Err(e) => return Err(Error::io(e, "read", &path)),
        };
        let decoded = SegmentHeader::decode(&bytes);
        if let Err(bad) = decoded
            && bad.is_too_new()
        {
            view.too_new = Some(super::view::newer(&path, seal.next_first_seq, &bad.to_string()));
            return Ok(()); // the caller looks again, and finds it
        }
        let prepared = decoded.ok().filter(|h| h.file_name() == name && h.log_id == self.meta.log_id);
        if prepared.as_ref().is_some_and(|header| header.state == SegmentState::Live) {
            return Ok(()); // taken into use since it was looked for
        }
        self.clear_successor(view, &active, seal, &path, &bytes, prepared.is_some())?;
        self.own_bytes(view, &active)?;
        self.trim_reserve(view, &active);
        self.sync_active(view, &active)?;
        let base =
            prepared.unwrap_or_else(|| plain_header(self.meta.log_id, name.id, ordinal, self.vfs.now()));
        self.go_live(view, base.answering(seal, last_crc), &path)?;
        self.remove_other_successors(&name);
        Ok(())
    }

    /// What is in a successor that was never taken into use is a tail like any other, from its first byte.
    pub(super) fn clear_successor(
        &self,
        view: &mut View,
        active: &Active,
        seal: &Seal,
        path: &std::path::Path,
        bytes: &[u8],
        prepared: bool,
    ) -> Result<()> {
        let from = if prepared { HEADER_LEN } else { 0 };
        if scan::is_zero_from(bytes, from) && bytes.len() <= HEADER_LEN.max(from) || all_zero(bytes) {
            return Ok(());
        }
        let summary = successor_summary(
            active.header.log_id,
            active.header.max_body,
            seal,
            bytes,
            prepared,
            view.vouched,
        );
        let durable = reader::durable_word(&*self.vfs, &self.paths, self.meta.log_id);
        let durable_offset = successor_durable(seal, durable);
        let vouched = self.vouched_beside(view.vouched)?;
        let verdict = classify(&summary, Place::Last, Hints { vouched, durable_offset });
        if verdict.is_damage() {
            let header =
                plain_header(active.header.log_id, seal.next_segment_id, active.header.ordinal_b + 1, 0);
            if let Some(finding) = reader::describe(path, &header, &summary, verdict, vouched) {
                self.note(finding.clone());
                view.damage = Some(finding.clone());
                return Err(Error::new(ErrorKind::Damaged(Box::new(finding)), "write", path));
            }
        }
        if scan::is_zero_from(bytes, from) {
            return Ok(());
        }
        let mark = RecoveryMark {
            at_lpos: seal.next_base_lpos,
            bytes: bytes.len() as u64,
            frames: summary.beyond.frames,
            first_seq: seal.next_first_seq,
            verdict: Verdict::TornFrame.code(),
            note: String::new(),
        };
        let note = Note {
            cause: Cause::Heal,
            segment: seal.next_segment_id,
            file: path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            offset: 0,
            mark,
            verdict: Verdict::TornFrame.as_str(),
            time: self.vfs.now(),
        };
        set_aside(&*self.vfs, &self.paths, &note, bytes)?;
        let file = self.vfs.open(path, Open::Write).context("open", path)?;
        write_full(&*file, &vec![0; bytes.len()], 0).map_err(|(_, e)| Error::io(e, "clear", path))?;
        file.sync_data().context("sync", path)
    }
}

/// The contents of a successor that is not live, as a scan from its first frame's place.
pub(super) fn successor_summary(
    log: LogId,
    max_body: u32,
    seal: &Seal,
    bytes: &[u8],
    prepared: bool,
    vouched: u64,
) -> Summary {
    let salt = Salt::new(log, seal.next_segment_id);
    let end = Position { offset: HEADER_LEN as u64, seq: seal.next_first_seq, link: 0 };
    let mut beyond = scan::beyond(bytes, 0, &salt, max_body, end);
    if !prepared && !all_zero(bytes) {
        beyond.content_end = beyond.content_end.max(end.offset + 1);
    }
    let stop = Stop::NotAFrame(if prepared { NotAFrame::Zero } else { NotAFrame::Short });
    Summary { end, stop, frames: 0, vouched, beyond, len: bytes.len() as u64 }
}

/// A durable word that lies in a successor, as an offset there.
pub(super) fn successor_durable(seal: &Seal, durable: Option<u64>) -> Option<u64> {
    durable
        .filter(|lpos| *lpos > seal.next_base_lpos)
        .map(|lpos| lpos - seal.next_base_lpos + HEADER_LEN as u64)
}
