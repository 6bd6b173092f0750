//! Looking at one workspace, or at one segment's file, whole and live or damaged: no lock, no fold, no byte written.
//!
//! What `foldlog dump` and `foldlog verify` are made of. A [`Log`](crate::Log) stops at damage, this goes on behind it.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use super::{create, read_workspace_meta};
use crate::error::{Context as _, Error, ErrorKind, Result};
use crate::log::bytes::content_len;
use crate::log::classify::{Hints, Place, Verdict, classify};
use crate::log::control_frame::Control;
use crate::log::finding::{Finding, Severity};
use crate::log::format::{FORMAT, SEGMENT_HEADER_LEN};
use crate::log::frame::{Frame, NotAFrame};
use crate::log::reader::{self, Reach, Visit, Walk, Walked};
use crate::log::scan::{self, Content, Located, Stop};
use crate::log::segment::{BadHeader, SegmentHeader, SegmentName, SegmentState};
use crate::log::{BlobId, LogId, Paths, WorkspaceMeta, blobs};
use crate::vfs::{FileKind, Open, Vfs, read_full};

/// How long after a look that was not clean the next one is taken.
const SECOND_LOOK: Duration = Duration::from_millis(50);

/// What a look at a workspace or a segment's file found.
#[derive(Debug)]
pub struct Inspection {
    /// Which log it is.
    pub log: LogId,
    /// The workspace's META; `None` if it cannot be used (a finding says why), and for a lone file.
    pub meta: Option<WorkspaceMeta>,
    /// The segments, and what their ends are.
    pub walk: Walk,
    /// Highest event number that a frame, a later segment or the control block vouches for as durable.
    pub durable_seq: u64,
    /// Everything worth saying, the walk's findings included.
    pub findings: Vec<Finding>,
}

impl Inspection {
    /// How bad the worst finding is; `None` if there is none.
    pub fn worst(&self) -> Option<Severity> {
        self.findings.iter().map(|finding| finding.severity).max()
    }
}

/// Looks at a workspace's folder.
///
/// `visit` is handed each frame once, in order; those that lie behind damage come last, marked as salvaged.
///
/// # Errors
/// What keeps one from looking: system errors, [`ErrorKind::TooNew`] and [`ErrorKind::Foreign`] for META, and
/// [`ErrorKind::NotYet`] if the log would not stand still. Damage is a finding, not an error, unless nothing is left
/// that could be looked at.
pub fn workspace(vfs: &dyn Vfs, dir: &Path, visit: &mut dyn FnMut(&Visit<'_, '_>)) -> Result<Inspection> {
    let paths = Paths::new(dir);
    let mut findings = Vec::new();
    let (log, meta) = match read_workspace_meta(vfs, dir) {
        Ok(meta) => (meta.log_id, Some(meta)),
        Err(e) => match (e.kind(), log_of_segments(vfs, &paths)) {
            // The segments say which log it is; without META nobody writes, but everything can be read.
            (ErrorKind::Damaged(finding), Some(log)) => {
                findings.push((**finding).clone());
                (log, None)
            }
            _ => return Err(e),
        },
    };
    if let Some(finding) = create::missing_part(vfs, &paths)? {
        if finding.file == paths.log() {
            return Err(Error::new(ErrorKind::Damaged(Box::new(finding)), "look at", dir));
        }
        findings.push(finding);
    }
    let mut seen = (0, 0);
    let mut recovered = Vec::new();
    let mut durable = None;
    let mut look = || {
        durable = reader::durable_word(vfs, &paths, log);
        let mut durable_seq = 0;
        let walk = reader::walk(vfs, &paths, log, durable, Reach::Intact, &mut |frame| {
            let Located { offset, frame: Frame { header, .. }, .. } = frame.located;
            let end = frame.header.lpos(offset + frame.located.frame.len() as u64);
            if durable.is_some_and(|durable| end <= durable) {
                durable_seq = (header.seq + u64::from(header.count)).saturating_sub(1);
            }
            let place = (frame.header.ordinal_a, *offset);
            if place > seen {
                seen = place;
                if let Content::Control(Control::RecoveryMark(mark)) = &frame.located.content
                    && mark.note.is_empty()
                {
                    recovered.push(recovered_finding(frame.path, *offset, header.seq));
                }
                visit(frame);
            }
        })?;
        Ok((durable_seq, walk))
    };
    let (mut durable_seq, mut walk) = reader::stable(&paths, &mut look)?;
    if !walk.is_clean() {
        // A writer may have been stopped in mid-write for as long as two looks took: it gets time to go on.
        vfs.sleep(SECOND_LOOK);
        (durable_seq, walk) = reader::stable(&paths, &mut look)?;
    }
    if walk.damage.is_some() || walk.too_new.is_some() {
        // Nobody writes behind damage, so one more look sees the same bytes.
        walk = reader::walk(vfs, &paths, log, durable, Reach::Salvage, &mut |frame| {
            if frame.salvaged {
                visit(frame);
            }
        })?;
    }
    findings.extend(walk.findings.iter().cloned());
    findings.append(&mut recovered);
    if vfs.stat(&paths.poison()).is_ok() {
        findings.push(crate::log::poison_finding(&paths, walk.vouched));
    }
    Ok(Inspection { log, meta, durable_seq: durable_seq.max(walk.vouched), walk, findings })
}

/// What a RecoveryMark that names no note tells of.
fn recovered_finding(path: &Path, offset: u64, seq: u64) -> Finding {
    Finding {
        severity: Severity::Notice,
        code: "recovered",
        file: path.into(),
        offset: Some(offset),
        seq: Some(seq),
        message: "a sync had failed: everything before was copied into fresh blocks".into(),
        remedy: "nothing to do here; check the disk if that was not done yet",
    }
}

/// The blobs that events name, gathered while frames are visited, to be checked behind that.
#[derive(Debug, Default)]
pub struct NamedBlobs(BTreeMap<BlobId, u64>);

impl NamedBlobs {
    /// Notes the blobs that a frame's events name.
    pub fn note(&mut self, visit: &Visit<'_, '_>) {
        let Content::Commit(commit) = &visit.located.content else { return };
        for event in commit.events() {
            for name in event.blobs.as_chunks().0 {
                self.0.entry(BlobId(*name)).or_insert(event.seq.0);
            }
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Reads each of them in a workspace's folder and hands out a finding for each that is not there, whole.
    ///
    /// `seq` of a finding is the first event that was noted to name the blob.
    pub fn check(&self, vfs: &dyn Vfs, dir: &Path, found: &mut dyn FnMut(Finding)) {
        let paths = Paths::new(dir);
        for (id, seq) in &self.0 {
            if let Err(error) = blobs::read(vfs, &paths, id) {
                found(blobs::finding(&error, *seq));
            }
        }
    }
}

/// Looks at one segment's file by itself: what its end is, is judged by what the file alone vouches for.
///
/// `visit` as in [`workspace`].
///
/// # Errors
/// System errors; a header that cannot be used is [`ErrorKind::Foreign`], [`ErrorKind::TooNew`] or
/// [`ErrorKind::Damaged`].
pub fn segment(vfs: &dyn Vfs, path: &Path, visit: &mut dyn FnMut(&Visit<'_, '_>)) -> Result<Inspection> {
    let mut seen = 0;
    let look = |visit: &mut dyn FnMut(&Visit<'_, '_>)| -> Result<Walk> {
        let bytes = reader::read_file(vfs, path).context("read", path)?;
        let header = SegmentHeader::decode(&bytes).map_err(|bad| bad_header(bad, path))?;
        Ok(lone(path, header, &bytes, visit))
    };
    // The file may be the one that is being written: anything but a clean end counts only if two looks agree.
    let mut walk = look(&mut |frame| {
        seen = frame.located.offset;
        visit(frame);
    })?;
    for _ in 0..16 {
        if walk.is_clean() {
            break;
        }
        let mut seen_now = seen;
        let next = look(&mut |frame| {
            if frame.located.offset > seen {
                seen_now = frame.located.offset;
                visit(frame);
            }
        })?;
        seen = seen_now;
        let agree = next.agrees_with(&walk);
        walk = next;
        if agree {
            break;
        }
    }
    for walked in walk.segments.iter().filter(|walked| walked.verdict.is_damage()) {
        behind(vfs, walked, visit)?;
    }
    let log = walk.last().map_or(LogId([0; 16]), |walked| walked.header.log_id);
    Ok(Inspection { log, meta: None, durable_seq: walk.vouched, findings: walk.findings.clone(), walk })
}

/// Hands out the whole frames that lie behind the end of a segment's frames, marked as salvaged.
///
/// # Errors
/// System errors.
pub fn behind(vfs: &dyn Vfs, walked: &Walked, visit: &mut dyn FnMut(&Visit<'_, '_>)) -> Result<()> {
    if walked.summary.beyond.frames > 0 {
        let bytes = reader::read_file(vfs, &walked.path).context("read", &walked.path)?;
        let salt = walked.header.salt();
        reader::salvage(&bytes, &walked.header, &salt, &walked.path, walked.summary.end, visit);
    }
    Ok(())
}

/// The first bytes behind the end of a segment's frames, at most `len_max`, with zeros at their end left out.
///
/// # Errors
/// System errors.
pub fn bytes_behind(vfs: &dyn Vfs, walked: &Walked, len_max: usize) -> Result<Vec<u8>> {
    let file = vfs.open(&walked.path, Open::Read).context("open", &walked.path)?;
    let mut bytes = vec![0; len_max];
    let n = read_full(&*file, &mut bytes, walked.summary.end.offset).context("read", &walked.path)?;
    let len = content_len(bytes.get(..n).unwrap_or_default());
    bytes.truncate(len);
    Ok(bytes)
}

fn lone(path: &Path, header: SegmentHeader, bytes: &[u8], visit: &mut dyn FnMut(&Visit<'_, '_>)) -> Walk {
    let salt = header.salt();
    let mut walk = Walk::default();
    let summary = match header.state {
        SegmentState::Live => scan::segment(bytes, &header, &salt, |located| {
            visit(&Visit { header: &header, path, located, salvaged: false });
        }),
        SegmentState::Prepared => unused(bytes, &header),
    };
    walk.vouched = summary.vouched.max(summary.beyond.vouched);
    let verdict = match header.state {
        SegmentState::Live => {
            classify(&summary, Place::Last, Hints { vouched: walk.vouched, durable_offset: None })
        }
        SegmentState::Prepared if summary.beyond.content_end > summary.end.offset => Verdict::TornFrame,
        SegmentState::Prepared => Verdict::NulTail,
    };
    walk.findings.extend(reader::describe(path, &header, &summary, verdict, walk.vouched));
    let end = usize::try_from(summary.end.offset).unwrap_or(usize::MAX);
    if matches!(summary.stop, Stop::Sealed { .. }) && !scan::is_zero_from(bytes, end) {
        walk.findings.push(Finding {
            severity: Severity::Warning,
            code: "after-seal",
            file: path.into(),
            offset: Some(summary.end.offset),
            seq: None,
            message: "bytes that are not zero lie behind the seal; no reader looks at them".into(),
            remedy: "nothing to do; if they were put there by a program, find out which",
        });
    }
    let damage = walk.findings.iter().find(|finding| finding.severity == Severity::Damage).cloned();
    *(if verdict == Verdict::TooNew { &mut walk.too_new } else { &mut walk.damage }) = damage;
    let rest = blake3::hash(bytes.get(end..).unwrap_or_default()).into();
    walk.segments.push(Walked { path: path.into(), header, summary, verdict, rest });
    walk
}

/// A prepared segment holds no frame that counts; all behind its header should be zero.
fn unused(bytes: &[u8], header: &SegmentHeader) -> scan::Summary {
    let content = content_len(bytes) as u64;
    let offset = u64::from(SEGMENT_HEADER_LEN);
    scan::Summary {
        end: scan::Position { offset, ..scan::Position::start_of(header) },
        stop: Stop::NotAFrame(NotAFrame::Zero),
        frames: 0,
        vouched: 0,
        beyond: scan::Beyond {
            content_end: content.max(offset),
            frames_end: offset,
            ..scan::Beyond::default()
        },
        len: bytes.len() as u64,
    }
}

fn bad_header(bad: BadHeader, path: &Path) -> Error {
    let kind = match bad {
        BadHeader::Short | BadHeader::Magic => ErrorKind::Foreign { what: "segment", why: bad.to_string() },
        BadHeader::Format(n) if n > FORMAT => {
            ErrorKind::TooNew { what: "the segment".into(), need: n.into(), have: FORMAT.into() }
        }
        BadHeader::Incompat(bits) => {
            ErrorKind::TooNew { what: "a feature of the segment".into(), need: bits.into(), have: 0 }
        }
        BadHeader::Format(_) | BadHeader::Crc { .. } | BadHeader::Rule(_) => {
            ErrorKind::Damaged(Box::new(Finding {
                severity: Severity::Damage,
                code: "bad-header",
                file: path.into(),
                offset: Some(0),
                seq: None,
                message: bad.to_string(),
                remedy: "bring the file back from a copy; without its header no frame in it can be checked",
            }))
        }
    };
    Error::new(kind, "read", path)
}

/// The log that the first readable segment belongs to.
pub(super) fn log_of_segments(vfs: &dyn Vfs, paths: &Paths) -> Option<LogId> {
    let dir = paths.log();
    let segments = vfs
        .list(&dir)
        .ok()?
        .into_iter()
        .filter(|entry| entry.kind == FileKind::File && SegmentName::parse(&entry.name).is_some());
    segments
        .filter_map(|entry| {
            let mut head = [0; SEGMENT_HEADER_LEN as usize];
            let file = vfs.open(&dir.join(&entry.name), Open::Read).ok()?;
            let n = read_full(&*file, &mut head, 0).ok()?;
            SegmentHeader::decode(head.get(..n)?).ok()
        })
        .find(|header| header.state == SegmentState::Live)
        .map(|header| header.log_id)
}
