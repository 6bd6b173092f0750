//! Bytes set aside, each with a note. `format-spec/format.md`, section *Quarantine*.

use std::fmt::Write as _;
use std::path::PathBuf;

use super::SegmentId;
use super::control_frame::RecoveryMark;
use super::paths::Paths;
use super::publish::{publish, write_new};
use crate::error::{Context as _, Error, Result};
use crate::vfs::Vfs;

/// Why bytes were set aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// Healing cut them; a RecoveryMark in the log names the note.
    Heal,
    /// Repair copied the damaged file before it touched anything.
    Repair,
}

/// What a note says.
#[derive(Clone, Debug)]
pub(super) struct Note<'a> {
    pub(super) cause: Cause,
    pub(super) segment: SegmentId,
    pub(super) file: String,
    pub(super) offset: u64,
    pub(super) mark: RecoveryMark,
    pub(super) verdict: &'a str,
    pub(super) time: u64,
}

/// Sets bytes aside, durably, and returns the note's name. All zeros leave a note alone.
///
/// The bytes come first, then the note under a temporary name, then its name: a note always has what it speaks of.
pub(super) fn set_aside(vfs: &dyn Vfs, paths: &Paths, note: &Note<'_>, bytes: &[u8]) -> Result<String> {
    let dir = paths.quarantine();
    if let Err(e) = vfs.create_dir(&dir)
        && e.kind() != std::io::ErrorKind::AlreadyExists
    {
        return Err(Error::io(e, "create", &dir));
    }
    let mut random = [0; 8];
    vfs.random(&mut random).context("draw a name in", &dir)?;
    let stem = format!("{}-{:016x}-{:016x}", note.segment, note.mark.at_lpos, u64::from_le_bytes(random));
    if !super::bytes::all_zero(bytes) {
        write_new(vfs, &dir.join(format!("{stem}.bin")), bytes)?;
    }
    let name = format!("{stem}.note");
    let temporary = dir.join(format!(".new-{stem}"));
    publish(vfs, &temporary, &dir.join(&name), text(note, bytes).as_bytes())?;
    vfs.sync_dir(paths.dir()).context("sync", paths.dir())?;
    Ok(name)
}

fn text(note: &Note<'_>, bytes: &[u8]) -> String {
    let mut out = String::new();
    let cause = match note.cause {
        Cause::Heal => "heal",
        Cause::Repair => "repair",
    };
    let RecoveryMark { at_lpos, bytes: len, frames, first_seq, verdict, .. } = &note.mark;
    let _ = write!(
        out,
        "cause: {cause}\nsegment: {}\nfile: {}\noffset: {}\nlpos: {at_lpos}\nbytes: {len}\nframes: {frames}\n\
         first_seq: {first_seq}\nverdict: {verdict} {}\nblake3: {}\ntime: {}\n",
        note.segment,
        note.file,
        note.offset,
        note.verdict,
        blake3::hash(bytes).to_hex(),
        note.time,
    );
    out
}

/// The notes of healing that are there, as the RecoveryMarks that should name them.
pub(super) fn heal_notes(vfs: &dyn Vfs, paths: &Paths) -> Result<Vec<RecoveryMark>> {
    let dir = paths.quarantine();
    let entries = match vfs.list(&dir) {
        Ok(entries) => entries,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(Error::io(e, "list", &dir)),
    };
    let mut marks = Vec::new();
    for entry in
        entries.into_iter().filter(|entry| entry.name.ends_with(".note") && !entry.name.starts_with('.'))
    {
        let path: PathBuf = dir.join(&entry.name);
        let bytes = super::reader::read_file(vfs, &path).context("read", &path)?;
        marks.extend(parse(&String::from_utf8_lossy(&bytes), entry.name));
    }
    Ok(marks)
}

fn parse(text: &str, name: String) -> Option<RecoveryMark> {
    let field = |key: &str| {
        text.lines()
            .find_map(|line| line.strip_prefix(key)?.strip_prefix(": "))
            .and_then(|v| v.split(' ').next())
    };
    if field("cause")? != "heal" {
        return None;
    }
    Some(RecoveryMark {
        at_lpos: field("lpos")?.parse().ok()?,
        bytes: field("bytes")?.parse().ok()?,
        frames: field("frames")?.parse().ok()?,
        first_seq: field("first_seq")?.parse().ok()?,
        verdict: field("verdict")?.parse().ok()?,
        note: name,
    })
}
