//! Reading a log whole: which files make it up, in which order, and what its end is. Writes nothing, needs no lock.
//!
//! `format-spec/recovery.md` has the same steps in prose.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use super::LogId;
use super::classify::{Hints, Place, Verdict, classify};
use super::control;
use super::control_frame::Seal;
use super::finding::{Finding, Severity};
use super::format::{CONTROL_LEN, FRAME_ALIGN, MAX_BODY, WORD_DURABLE};
use super::frame::Salt;
use super::paths::Paths;
use super::rotate::{plain_header, successor_durable, successor_summary};
use super::scan::{self, Located, Position, Scanner, Stop, Summary};
use super::segment::{BadHeader, HEADER_LEN, SegmentHeader, SegmentName, SegmentState};
use super::snapshot;
use crate::error::{Context as _, Error, ErrorKind, Result};
use crate::vfs::{FileKind, Open, Vfs, read_full};

mod behind;
mod report;

pub(crate) use behind::walk_behind;
pub(crate) use report::describe;
use report::report;

/// Longest segment that is read.
const SEGMENT_LEN_MAX: u64 = 1 << 30;

/// How often a log is listed again because a file that was listed is gone.
const LISTINGS_MAX: u32 = 8;

/// How far a walk goes where something is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Up to the first damage.
    Intact,
    /// Everything that still checks, behind damage too.
    Salvage,
}

/// A frame handed to a walk's visitor.
#[derive(Debug)]
pub struct Visit<'a, 'b> {
    /// The segment it is in.
    pub header: &'b SegmentHeader,
    /// That segment's file.
    pub path: &'b Path,
    /// The frame.
    pub located: &'b Located<'a>,
    /// Whether it lies behind damage.
    pub salvaged: bool,
}

/// A segment as a walk met it.
#[derive(Clone, Debug)]
pub struct Walked {
    /// Its file.
    pub path: PathBuf,
    /// Its header.
    pub header: SegmentHeader,
    /// What scanning it gave.
    pub summary: Summary,
    /// What its end is.
    pub verdict: Verdict,
    /// BLAKE3 of what lies behind its frames, to compare two looks.
    pub rest: [u8; 32],
}

/// A Seal whose successor has not been taken into use: a rotation that a crash, or time, has interrupted.
#[derive(Clone, Debug)]
pub struct Unfinished {
    /// The Seal.
    pub seal: Seal,
    /// CRC as which the successor must know the sealed file.
    pub last_crc: u32,
    /// The successor's file.
    pub path: PathBuf,
    /// Its name, as parsed.
    pub name: SegmentName,
    /// Its largest body, where its prepared header can be read.
    pub prepared: Option<SegmentHeader>,
}

/// What a walk found.
#[derive(Clone, Debug, Default)]
pub struct Walk {
    /// The segments that make up the log, in order.
    pub segments: Vec<Walked>,
    /// A rotation to be finished.
    pub unfinished: Option<Unfinished>,
    /// Everything worth saying, worst not first.
    pub findings: Vec<Finding>,
    /// The first damage; set exactly if the log must not be written.
    pub damage: Option<Finding>,
    /// Set if a newer release wrote something here that this one must not go past.
    pub too_new: Option<Finding>,
    /// Segments that higher generations replace, or that no Seal names.
    pub leftovers: Vec<PathBuf>,
    /// Highest event number that anything vouches for.
    pub vouched: u64,
    /// The segments before the first that was walked over, where a snapshot speaks for them.
    pub below: Vec<SegmentName>,
    /// Whether the end was seen to move on from look to look, so that nothing can be said of it.
    pub in_motion: bool,
    /// Segments read although their own header is damaged.
    pub(super) surrogates: Vec<PathBuf>,
}

impl Walk {
    /// Whether two looks, one begun after the other ended, saw the same.
    pub fn agrees_with(&self, other: &Walk) -> bool {
        let key = |walk: &Walk| -> Vec<(PathBuf, Position, Verdict, [u8; 32])> {
            walk.segments.iter().map(|s| (s.path.clone(), s.summary.end, s.verdict, s.rest)).collect()
        };
        key(self) == key(other) && self.damage == other.damage
    }

    /// Whether the log has grown since an earlier look, with nothing wrong but at its end.
    fn has_moved_on_from(&self, earlier: &Walk) -> bool {
        let place = |walk: &Walk| walk.last().map(|last| (last.header.ordinal_b, last.summary.end.offset));
        let only_the_end = |finding: &Option<Finding>| {
            finding.as_ref().is_none_or(|finding| self.last().is_some_and(|last| last.path == finding.file))
        };
        place(self) > place(earlier) && only_the_end(&self.damage) && only_the_end(&self.too_new)
    }

    /// Takes back what was said of bytes that are being written.
    fn leave_the_end_open(&mut self) {
        let Some(path) = self.last().map(|last| last.path.clone()) else { return };
        self.findings.retain(|finding| finding.file != path);
        (self.damage, self.too_new, self.in_motion) = (None, None, true);
    }

    /// Whether a look without the lock may be believed at once.
    pub fn is_clean(&self) -> bool {
        self.in_motion
            || self.damage.is_none()
                && self.too_new.is_none()
                && self
                    .segments
                    .last()
                    .is_some_and(|s| matches!(s.verdict, Verdict::CleanEnd | Verdict::NulTail))
    }

    /// The last segment.
    pub fn last(&self) -> Option<&Walked> {
        self.segments.last()
    }
}

struct Found {
    name: SegmentName,
    path: PathBuf,
    header: Result<SegmentHeader, Unusable>,
}

impl Found {
    fn is_live(&self) -> bool {
        self.header.as_ref().is_ok_and(|header| header.state == SegmentState::Live)
    }
}

/// Whether any segment from this ordinal on is live.
fn has_live(files: &BTreeMap<u64, Vec<Found>>, from: u64) -> bool {
    files.range(from..).any(|(_, all)| all.iter().any(Found::is_live))
}

enum Unusable {
    Bad(BadHeader),
    Foreign(LogId),
    Misnamed,
    Io(io::Error),
}

/// The durable word of the control block, if there is a block of this log and the word checks.
pub fn durable_word(vfs: &dyn Vfs, paths: &Paths, log: LogId) -> Option<u64> {
    control_word(vfs, paths, log, WORD_DURABLE)
}

/// A position word of the control block, on the same terms.
pub(super) fn control_word(vfs: &dyn Vfs, paths: &Paths, log: LogId, word: u64) -> Option<u64> {
    let file = vfs.open(&paths.control(), Open::Read).ok()?;
    let mut block = vec![0; CONTROL_LEN];
    let n = read_full(&*file, &mut block, 0).ok()?;
    block.truncate(n);
    if !control::is_block_of(&block, log) {
        return None;
    }
    let at = usize::try_from(word).ok()?;
    let word = block.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes)?;
    control::position(log, word)
}

/// The whole contents of a segment file, or of the part that exists by now.
pub(crate) fn read_file(vfs: &dyn Vfs, path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    read_file_into(vfs, path, 0, &mut bytes)?;
    Ok(bytes)
}

/// [`read_file`] from an offset on, into memory that may have been used before: fresh pages cost more than what is read into them.
fn read_file_into(vfs: &dyn Vfs, path: &Path, from: u64, bytes: &mut Vec<u8>) -> io::Result<()> {
    let file = vfs.open(path, Open::Read)?;
    let len = file.stat()?.len;
    if len > SEGMENT_LEN_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{len} bytes are no segment")));
    }
    bytes.resize(usize::try_from(len.saturating_sub(from)).unwrap_or(0), 0);
    let n = read_full(&*file, bytes, from)?;
    bytes.truncate(n);
    Ok(())
}

/// Walks a log from its first event.
///
/// `durable` is the control block's durable word, read *before* this call. Without the write lock, anything but a
/// clean walk counts only if a second one agrees ([`stable`]).
///
/// # Errors
/// A file that cannot be read is an error with its place, never a verdict (with [`Reach::Salvage`]: a finding).
pub fn walk(
    vfs: &dyn Vfs,
    paths: &Paths,
    log: LogId,
    durable: Option<u64>,
    reach: Reach,
    visit: &mut dyn FnMut(&Visit<'_, '_>),
) -> Result<Walk> {
    // As the words are, before the bytes.
    let vouched = snapshot::vouched_to_readers(vfs, paths, log);
    let files = list(vfs, paths, log, 1)?;
    let walk = Walk { vouched, ..Walk::default() };
    walk_over(vfs, paths, log, durable, reach, files, walk, None, visit)
}

#[expect(clippy::too_many_arguments, reason = "the walk, with where it begins")]
fn walk_over(
    vfs: &dyn Vfs,
    paths: &Paths,
    log: LogId,
    durable: Option<u64>,
    reach: Reach,
    mut files: BTreeMap<u64, Vec<Found>>,
    mut walk: Walk,
    mut start: Option<Position>,
    visit: &mut dyn FnMut(&Visit<'_, '_>),
) -> Result<Walk> {
    let listed: Vec<SegmentName> = files.values().flatten().map(|found| found.name).collect();
    let first = walk.below.last().map_or(1, |name| name.ordinal_b + 1);
    let mut ordinal = first;
    let mut before: Option<(Seal, u32)> = None;
    let mut salvaged = false;
    let mut bytes = Vec::new();
    loop {
        let mut found = choose(&mut files, ordinal, before.as_ref(), reach, &mut walk)?;
        if found.is_none() && reach == Reach::Salvage {
            found = surrogate(vfs, &mut files, log, ordinal, before.as_ref(), &mut walk);
        }
        let Some(found) = found else {
            match skip_hole(paths, &files, ordinal, before.as_ref(), &mut walk) {
                Some(next) if reach == Reach::Salvage => {
                    (ordinal, before, salvaged) = (next, None, true);
                    continue;
                }
                _ => break,
            }
        };
        let Ok(header) = found.header else { break };
        let next = one_segment(
            vfs,
            &files,
            &found.path,
            header,
            start.take(),
            durable,
            reach,
            &mut bytes,
            &mut salvaged,
            &mut walk,
            visit,
        )?;
        let Some((seal, next_ordinal)) = next else { break };
        (before, ordinal) = (seal, next_ordinal);
        if walk.damage.is_some() || walk.too_new.is_some() {
            if reach == Reach::Intact {
                break;
            }
            salvaged = true;
        }
    }
    if walk.segments.len() > 1 {
        not_replaced(vfs, paths, first, &listed)?;
    }
    for found in files.into_values().flatten() {
        leftover(found, &mut walk);
    }
    Ok(walk)
}

/// Who went over a Seal may have come from a file that was replaced by a copy after it was listed, into a successor that went
/// live only behind the copy: then what the copy says more was missed, and the successor is no reason to look at it (D6).
fn not_replaced(vfs: &dyn Vfs, paths: &Paths, from: u64, listed: &[SegmentName]) -> Result<()> {
    let dir = paths.log();
    for entry in vfs.list(&dir).context("list", &dir)? {
        if SegmentName::parse(&entry.name)
            .is_some_and(|name| name.generation > 0 && name.ordinal_b >= from && !listed.contains(&name))
        {
            let what = "the segment that this one stands for was replaced while it was read".into();
            return Err(Error::new(ErrorKind::NotFound { what }, "read", &dir.join(&entry.name)));
        }
    }
    Ok(())
}

/// Looks until two walks agree, one is clean, or the end is seen to move on: then what lies there is being written, and
/// nothing is said of it. `fold` runs one walk and returns what it folded.
///
/// # Errors
/// [`ErrorKind::NotYet`] if neither came about, as while segments are being rewritten all the time.
pub fn stable<T>(paths: &Paths, mut fold: impl FnMut() -> Result<(T, Walk)>) -> Result<(T, Walk)> {
    let mut fold = || {
        // A segment may be replaced by a copy, and removed, between the listing and the reading (R10). On Windows a
        // name whose file others still have open cannot be opened.
        for _ in 1..LISTINGS_MAX {
            match fold() {
                Err(e)
                    if matches!(e.kind(), ErrorKind::NotFound { .. } | ErrorKind::Permission)
                        && e.path() != paths.log() => {}
                looked => return looked,
            }
        }
        fold()
    };
    let mut last = fold()?;
    if last.1.is_clean() {
        return Ok(last);
    }
    for look in 1..=16 {
        let mut next = fold()?;
        if next.1.is_clean() || next.1.agrees_with(&last.1) {
            return Ok(next);
        }
        if look > 2 && next.1.has_moved_on_from(&last.1) {
            next.1.leave_the_end_open();
            return Ok(next);
        }
        last = next;
    }
    Err(Error::new(ErrorKind::NotYet, "read", &paths.log()))
}

fn list(vfs: &dyn Vfs, paths: &Paths, log: LogId, from: u64) -> Result<BTreeMap<u64, Vec<Found>>> {
    let mut files: BTreeMap<u64, Vec<Found>> = BTreeMap::new();
    let dir = paths.log();
    for entry in vfs.list(&dir).context("list", &dir)? {
        let Some(name) = SegmentName::parse(&entry.name).filter(|name| name.ordinal_b >= from) else {
            continue;
        };
        let path = dir.join(&entry.name);
        if entry.kind != FileKind::File {
            let why = format!("{:?} where a segment's name stands", entry.kind);
            return Err(Error::new(ErrorKind::Foreign { what: "segment", why }, "read", &path));
        }
        let header = read_header(vfs, &path, name, log);
        if matches!(&header, Err(Unusable::Io(e)) if e.kind() == io::ErrorKind::NotFound) {
            continue; // removed since the listing, as rewritten segments are
        }
        files.entry(name.ordinal_a).or_default().push(Found { name, path, header });
    }
    Ok(files)
}

fn read_header(vfs: &dyn Vfs, path: &Path, name: SegmentName, log: LogId) -> Result<SegmentHeader, Unusable> {
    let mut head = [0; HEADER_LEN];
    let read = vfs.open(path, Open::Read).and_then(|file| read_full(&*file, &mut head, 0));
    let n = read.map_err(Unusable::Io)?;
    let header = SegmentHeader::decode(head.get(..n).unwrap_or_default()).map_err(Unusable::Bad)?;
    if header.log_id != log {
        Err(Unusable::Foreign(header.log_id))
    } else if header.file_name() != name {
        Err(Unusable::Misnamed)
    } else {
        Ok(header)
    }
}

/// The live segment that comes next, taken out of `files`; `None` = the log ends here, or something is missing.
fn choose(
    files: &mut BTreeMap<u64, Vec<Found>>,
    ordinal: u64,
    before: Option<&(Seal, u32)>,
    reach: Reach,
    walk: &mut Walk,
) -> Result<Option<Found>> {
    let has_later = has_live(files, ordinal + 1);
    let Some(candidates) = files.get_mut(&ordinal) else { return Ok(None) };
    // A prepared successor that the Seal does not name plays no part, readable or not; on Windows it may be on its way out.
    let could_answer = |found: &Found| {
        found.name.generation > 0 || before.is_none_or(|(seal, _)| found.name.id == seal.next_segment_id)
    };
    let fits = |found: &Found| {
        found.header.as_ref().is_ok_and(|h| {
            h.state == SegmentState::Live
                && before.is_none_or(|(seal, _)| h.stands_for == seal.next_segment_id)
        })
    };
    let best =
        candidates.iter().enumerate().filter(|(_, f)| fits(f)).max_by_key(|(_, f)| f.name).map(|(i, _)| i);
    // What cannot be read does not matter where a higher generation stands for it: it may be on its way out, too.
    let newest = best.and_then(|i| candidates.get(i)).map(|best| best.name.generation);
    let could_be_next = |f: &Found| newest.is_none_or(|newest| f.name.generation > newest) && could_answer(f);
    if reach == Reach::Intact
        && let Some(i) =
            candidates.iter().position(|f| matches!(f.header, Err(Unusable::Io(_))) && could_be_next(f))
        && let Found { header: Err(Unusable::Io(source)), path, .. } = candidates.swap_remove(i)
    {
        return Err(Error::io(source, "read", &path));
    }
    if let Some(i) = best {
        let chosen = candidates.swap_remove(i);
        for other in candidates.iter().filter(|f| fits(f)) {
            walk.leftovers.push(other.path.clone());
        }
        candidates.retain(|f| !fits(f));
        return Ok(Some(chosen));
    }
    // A rotation is unfinished only if nothing was ever written behind it.
    if let Some((seal, last_crc)) = before
        && !has_later
        && let Some(i) = candidates.iter().position(|f| f.name.id == seal.next_segment_id && !is_too_new(f))
    {
        let found = candidates.swap_remove(i);
        walk.unfinished = Some(Unfinished {
            seal: *seal,
            last_crc: *last_crc,
            prepared: found.header.ok(),
            path: found.path,
            name: found.name,
        });
    }
    Ok(None)
}

/// A segment whose header is damaged, with a header made from its name and its neighbours, if whole frames are in it.
///
/// Behind a Seal without a later live segment it may never have been taken into use: that is for the Seal to say.
fn surrogate(
    vfs: &dyn Vfs,
    files: &mut BTreeMap<u64, Vec<Found>>,
    log: LogId,
    ordinal: u64,
    before: Option<&(Seal, u32)>,
    walk: &mut Walk,
) -> Option<Found> {
    if before.is_some() && !has_live(files, ordinal + 1) {
        return None;
    }
    let candidates = files.get_mut(&ordinal)?;
    for i in 0..candidates.len() {
        let Some(Found { name, path, header: Err(Unusable::Bad(bad)) }) = candidates.get(i) else { continue };
        if matches!(bad, BadHeader::Format(_) | BadHeader::Incompat(_)) {
            continue;
        }
        let Ok(bytes) = read_file(vfs, path) else { continue };
        let salt = Salt::new(log, name.id);
        let from = Position { offset: HEADER_LEN as u64, seq: 1, link: 0 };
        let mut budget = scan::resync_budget(bytes.len());
        let Some(start) = scan::resync(&bytes, &salt, MAX_BODY, from, &mut budget) else { continue };
        let mut header = plain_header(log, name.id, ordinal, 0);
        (header.ordinal_b, header.generation, header.state) =
            (name.ordinal_b, name.generation, SegmentState::Live);
        (header.first_seq, header.prev_last_crc) = (start.seq, start.link);
        if let Some((seal, last_crc)) = before {
            header = header.answering(seal, *last_crc);
            header.stands_for = seal.next_segment_id;
        }
        let finding = Finding {
            severity: Severity::Damage,
            code: Verdict::Corrupt.as_str(),
            file: path.clone(),
            offset: Some(0),
            seq: Some(header.first_seq),
            message: format!("the segment's header is damaged: {bad}; whole frames are in it"),
            remedy: REPAIR,
        };
        walk.findings.push(finding.clone());
        walk.damage.get_or_insert(finding);
        walk.surrogates.push(path.clone());
        let mut found = candidates.swap_remove(i);
        found.header = Ok(header);
        return Some(found);
    }
    None
}

fn is_too_new(found: &Found) -> bool {
    matches!(found.header, Err(Unusable::Bad(bad)) if bad.is_too_new())
}

/// Says what is missing, if something is; returns the next ordinal that has a live segment.
fn skip_hole(
    paths: &Paths,
    files: &BTreeMap<u64, Vec<Found>>,
    ordinal: u64,
    before: Option<&(Seal, u32)>,
    walk: &mut Walk,
) -> Option<u64> {
    let next = files.range(ordinal..).find(|(_, all)| all.iter().any(Found::is_live)).map(|(next, _)| *next);
    if next.is_none() && (walk.unfinished.is_some() || (before.is_none() && !walk.segments.is_empty())) {
        return None;
    }
    let why = files.get(&ordinal).and_then(|all| all.first()).map_or_else(String::new, |found| {
        format!("; {} is there, but {}", found.name, why_unusable(found.header.as_ref().err()))
    });
    let named = before.map_or_else(String::new, |(seal, _)| format!(" (id {})", seal.next_segment_id));
    let too_new = files.get(&ordinal).is_some_and(|all| all.iter().any(is_too_new));
    let finding = Finding {
        severity: Severity::Damage,
        code: if too_new { Verdict::TooNew.as_str() } else { Verdict::MissingSegment.as_str() },
        file: files
            .get(&ordinal)
            .and_then(|all| all.first())
            .map_or_else(|| paths.log(), |found| found.path.clone()),
        offset: None,
        seq: before
            .map(|(seal, _)| seal.next_first_seq)
            .or_else(|| walk.last().map(|s| s.summary.end.seq))
            .or(Some(1)),
        message: format!("segment {ordinal}{named} cannot be read as part of this log{why}"),
        remedy: if too_new { TOO_NEW } else { REPAIR },
    };
    // An ordinal that this very walk has already called damaged at its predecessor is not damaged twice.
    let place = if too_new { &mut walk.too_new } else { &mut walk.damage };
    if place.is_none() {
        *place = Some(finding.clone());
    }
    walk.findings.push(finding);
    // On the way to the next live segment, one with a damaged header may still have whole frames.
    let candidate = files.range(ordinal + 1..).next().map(|(candidate, _)| *candidate);
    next.map(|next| if next == ordinal { next } else { candidate.unwrap_or(next).min(next) })
}

const REPAIR: &str = "bring the file back from a copy, or run `foldlog repair` to see what can be saved";
pub(crate) const TOO_NEW: &str = "update foldlog in this program; nothing was changed";

fn why_unusable(unusable: Option<&Unusable>) -> String {
    match unusable {
        None => "it does not answer the segment before it".into(),
        Some(Unusable::Bad(bad)) => bad.to_string(),
        Some(Unusable::Foreign(log)) => format!("it belongs to log {log}"),
        Some(Unusable::Misnamed) => "its name and header disagree".into(),
        Some(Unusable::Io(e)) => format!("it cannot be read: {e}"),
    }
}

fn leftover(found: Found, walk: &mut Walk) {
    let replaced = |name: &SegmentName| {
        let stands =
            |s: &Walked| s.header.ordinal_a <= name.ordinal_a && s.header.ordinal_b >= name.ordinal_b;
        walk.segments.iter().any(|s| stands(s) && s.header.generation > name.generation)
    };
    match found.header {
        Ok(_) => walk.leftovers.push(found.path),
        // Removed while others have it open.
        Err(Unusable::Io(_)) if replaced(&found.name) => walk.leftovers.push(found.path),
        Err(why) => {
            let finding = Finding {
                severity: Severity::Warning,
                code: "unusable-segment",
                offset: Some(0),
                seq: None,
                message: format!("{} plays no part in this log: {}", found.name, why_unusable(Some(&why))),
                remedy: "move it out of the folder",
                file: found.path,
            };
            // If the walk ended in damage about this very file, that says it already.
            if !walk.findings.iter().any(|f| f.file == finding.file) {
                walk.findings.push(finding);
            }
        }
    }
}

type Next = Option<(Option<(Seal, u32)>, u64)>;

#[expect(clippy::too_many_arguments, reason = "one step of the walk, with the walk's own state")]
fn one_segment(
    vfs: &dyn Vfs,
    files: &BTreeMap<u64, Vec<Found>>,
    path: &Path,
    header: SegmentHeader,
    start: Option<Position>,
    durable: Option<u64>,
    reach: Reach,
    memory: &mut Vec<u8>,
    salvaged: &mut bool,
    walk: &mut Walk,
    visit: &mut dyn FnMut(&Visit<'_, '_>),
) -> Result<Next> {
    let start = start.unwrap_or_else(|| Position::start_of(&header));
    // What lies before is not looked at.
    let origin = if start.offset == HEADER_LEN as u64 { 0 } else { start.offset };
    let bytes: &[u8] = match read_file_into(vfs, path, origin, memory) {
        Ok(()) => memory,
        Err(e) if reach == Reach::Salvage => {
            walk.findings.push(Finding {
                severity: Severity::Damage,
                code: "unreadable-segment",
                file: path.into(),
                offset: Some(0),
                seq: Some(header.first_seq),
                message: format!("the segment cannot be read: {e}"),
                remedy: "check permissions and the disk; nothing was changed",
            });
            *salvaged = true;
            return Ok(Some((None, header.ordinal_b + 1)));
        }
        Err(e) => return Err(Error::io(e, "read", path)),
    };
    let salt = header.salt();
    let behind = *salvaged;
    let summary = scan::segment_from(bytes, origin, start, &header, &salt, |located| {
        visit(&Visit { header: &header, path, located, salvaged: behind });
    });
    walk.vouched = walk.vouched.max(summary.vouched).max(summary.beyond.vouched);
    let has_later = has_live(files, header.ordinal_b + 1);
    let (sealed, place) = match summary.stop {
        Stop::Sealed { seal, crc } => {
            let last_crc = seal.crc_for_successor(crc);
            let answers = |f: &Found| {
                f.name.id == seal.next_segment_id
                    || f.header.as_ref().is_ok_and(|h| h.stands_for == seal.next_segment_id)
            };
            let next = files.get(&(header.ordinal_b + 1)).into_iter().flatten().filter(|f| answers(f));
            let live = next
                .clone()
                .filter(|f| f.is_live())
                .max_by_key(|f| f.name)
                .and_then(|f| f.header.as_ref().ok());
            let place = match live {
                Some(next) => Place::Earlier {
                    successor_fits: next.prev_segment_id == seal.segment_id
                        && next.prev_last_seq == seal.last_seq
                        && next.prev_last_crc == last_crc
                        && next.first_seq == seal.next_first_seq,
                },
                None if next.clone().count() > 0 && !has_later => Place::Last,
                // The file is there, its header is not usable: that is its own damage, said when it is its turn.
                None if next.count() > 0 => Place::Earlier { successor_fits: true },
                None => Place::SuccessorMissing,
            };
            (Some((seal, last_crc)), place)
        }
        _ if has_later => (None, Place::Earlier { successor_fits: true }),
        _ => (None, Place::Last),
    };
    let hints =
        Hints { vouched: walk.vouched, durable_offset: durable_offset(&header, durable, place, &summary) };
    let mut verdict = classify(&summary, place, hints);
    if let (Stop::Sealed { seal, .. }, Place::Last) = (summary.stop, place) {
        verdict =
            classify_unfinished(vfs, &header, &seal, files, durable, walk.vouched, walk)?.unwrap_or(verdict);
    }
    // The zeros of a reserve need not be hashed: what is there without them tells two looks apart.
    let index = |offset: u64| usize::try_from(offset.saturating_sub(origin)).ok();
    let range = index(summary.end.offset).zip(index(summary.beyond.content_end));
    let rest = range.and_then(|(from, to)| bytes.get(from..to)).unwrap_or_default();
    if walk.surrogates.iter().any(|known| known == path) && !verdict.is_damage() {
        verdict = Verdict::Corrupt; // said already, with what is wrong with the header
    } else {
        report(path, &header, &summary, verdict, walk);
    }
    walk.segments.push(Walked {
        path: path.into(),
        header: header.clone(),
        summary,
        verdict,
        rest: blake3::hash(rest).into(),
    });
    if verdict.is_damage() || verdict == Verdict::TooNew {
        *salvaged = true;
        if reach == Reach::Salvage && verdict != Verdict::MissingSegment {
            salvage(bytes, &header, &salt, path, summary.end, visit);
        }
    }
    Ok(match place {
        Place::Last if sealed.is_none() => None,
        _ => Some((sealed, header.ordinal_b + 1)),
    })
}

fn durable_offset(
    header: &SegmentHeader,
    durable: Option<u64>,
    place: Place,
    summary: &Summary,
) -> Option<u64> {
    let sealed = matches!(summary.stop, Stop::Sealed { .. });
    durable.filter(|_| place == Place::Last && !sealed).map(|lpos| header.offset(lpos))
}

/// The successor of a sealed segment is not live: what is in it is a tail like any other, from its first byte.
fn classify_unfinished(
    vfs: &dyn Vfs,
    header: &SegmentHeader,
    seal: &Seal,
    files: &BTreeMap<u64, Vec<Found>>,
    durable: Option<u64>,
    vouched: u64,
    walk: &mut Walk,
) -> Result<Option<Verdict>> {
    let Some(found) = files
        .get(&(header.ordinal_b + 1))
        .and_then(|all| all.iter().find(|f| f.name.id == seal.next_segment_id && !is_too_new(f)))
    else {
        return Ok(None);
    };
    let bytes = read_file(vfs, &found.path).context("read", &found.path)?;
    let summary =
        successor_summary(header.log_id, header.max_body, seal, &bytes, found.header.is_ok(), vouched);
    let hints = Hints { vouched, durable_offset: successor_durable(seal, durable) };
    let verdict = classify(&summary, Place::Last, hints);
    walk.vouched = walk.vouched.max(summary.beyond.vouched);
    Ok(verdict.is_damage().then_some(verdict))
}

/// Hands out the whole frames behind damage.
pub(crate) fn salvage(
    bytes: &[u8],
    header: &SegmentHeader,
    salt: &Salt,
    path: &Path,
    end: Position,
    visit: &mut dyn FnMut(&Visit<'_, '_>),
) {
    let (mut from, mut budget) = (end, scan::resync_budget(bytes.len()));
    while let Some(start) = scan::resync(bytes, salt, header.max_body, from, &mut budget) {
        let mut scanner = Scanner::new(bytes, 0, salt, header.max_body, start);
        let stop = loop {
            match scanner.next_frame() {
                Ok(located) => visit(&Visit { header, path, located: &located, salvaged: true }),
                Err(stop) => break stop,
            }
        };
        if let Stop::Sealed { .. } = stop {
            break;
        }
        from = scanner.position();
        if from.offset <= start.offset {
            from.offset = start.offset + FRAME_ALIGN as u64; // a whole frame that may not be read: step over its start
        }
    }
}
