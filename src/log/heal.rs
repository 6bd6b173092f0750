//! Healing: what was never acknowledged as durable is set aside, and the log goes on.
//!
//! Copy to quarantine with its note, sync → zero to the end of the file → sync → RecoveryMark naming the note. Every
//! crash in between ends the same: the verdict is computed anew, and a note that no RecoveryMark names gets one.

use super::classify::Verdict;
use super::control_frame::{Control, RecoveryMark};
use super::engine::{Log, Undoing, Writer};
use super::finding::{Finding, Severity};
use super::quarantine::{Cause, Note, heal_notes, set_aside};
use super::scan::Summary;
use super::state::State;
use super::view::{Active, View};
use crate::error::{Context as _, Error, Result};
use crate::vfs::threads::RwLockWriteGuard;
use crate::vfs::write_full;

impl Log {
    /// Cuts a torn tail. LOCK is held; `bytes` are the whole file.
    pub(super) fn heal(
        &self,
        writer: &mut Writer,
        view: &mut RwLockWriteGuard<'_, View>,
        active: &Active,
        bytes: &[u8],
        summary: &Summary,
        verdict: Verdict,
    ) -> Result<()> {
        let (end, beyond) = (summary.end, summary.beyond);
        let range = |from: u64, to: u64| Some(usize::try_from(from).ok()?..usize::try_from(to).ok()?);
        let tail =
            range(end.offset, beyond.content_end).and_then(|range| bytes.get(range)).unwrap_or_default();
        let mark = RecoveryMark {
            at_lpos: active.header.lpos(end.offset),
            bytes: tail.len() as u64,
            frames: beyond.frames,
            first_seq: end.seq,
            verdict: verdict.code(),
            note: String::new(),
        };
        let note = Note {
            cause: Cause::Heal,
            segment: active.header.segment_id,
            file: active.header.file_name().to_string(),
            offset: end.offset,
            mark: mark.clone(),
            verdict: verdict.as_str(),
            time: self.vfs.now(),
        };
        let name = set_aside(&*self.vfs, &self.paths, &note, tail)?;
        write_full(&*active.file, &vec![0; tail.len()], end.offset)
            .map_err(|(_, e)| Error::io(e, "cut the torn tail of", &active.path))?;
        self.own_bytes(view, active)?;
        self.sync_active(view, active)?;
        let (mut batch, mut undoing) = self.start_batch(writer, view, active)?;
        if !view.state.notes().contains(&name) {
            let control = Control::RecoveryMark(RecoveryMark { note: name.clone(), ..mark });
            let placed = batch.put_control(&control);
            view.state.apply_control(placed.seq, &control);
            undoing.push(Undoing::Control(control));
        }
        let file_len = active.file.stat().context("look at", &active.path)?.len;
        let (_, error) = self.write_batch(writer, view, active, batch, undoing, file_len);
        self.note(Finding {
            severity: if beyond.frames > 1 { Severity::Error } else { Severity::Warning },
            code: "healed",
            file: active.path.clone(),
            offset: Some(end.offset),
            seq: Some(end.seq),
            message: format!(
                "{verdict}: {} bytes with {} whole frame(s), never acknowledged as durable, were set aside as {name}",
                tail.len(),
                beyond.frames
            ),
            remedy: "nothing to do; the bytes are kept in quarantine/",
        });
        error.map_or(Ok(()), Err)
    }
}

/// RecoveryMarks for notes that none names: a crash came between the note and its mark.
pub(super) fn unnamed_notes(log: &Log, state: &State) -> Result<Vec<Control>> {
    let marks = heal_notes(&*log.vfs, &log.paths)?;
    Ok(marks
        .into_iter()
        .filter(|mark| !state.notes().contains(&mark.note))
        .map(Control::RecoveryMark)
        .collect())
}
