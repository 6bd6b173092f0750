//! A log as one process has read it so far: the fold, and the place in the bytes where reading goes on.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::classify::Verdict;
use super::control_frame::{Control, Seal};
use super::finding::{Finding, Severity};
use super::fold::FoldKind;
use super::format::FRAME_HEADER_LEN;
use super::frame::{FrameKind, NotAFrame, Salt};
use super::reader::{Visit, Walk};
use super::reserve::Extender;
use super::scan::{Content, Located, Position, Scanner, Stop};
use super::segment::{HEADER_LEN, SegmentHeader, SegmentName, SegmentState};
use super::snapshot::{self, Anchor};
use super::state::{State, Vocabulary};
use super::{LogId, paths::Paths};
use crate::error::{Context as _, Error, ErrorKind, Result};
use crate::vfs::{Open, Vfs, VfsFile, read_full};

/// How much is read at first of what others have appended.
const READ_FIRST: usize = 16 << 10;
/// How much is read at a time of what others have told of: what is folded then is in the processor's cache.
const TOLD_PIECE: usize = 64 << 10;

/// How many frames are looked at before the first of them is folded.
const AHEAD: usize = 32;

/// The segment that is being followed.
#[derive(Debug)]
pub(crate) struct Active {
    pub(crate) file: Box<dyn VfsFile>,
    pub(crate) path: PathBuf,
    pub(crate) header: SegmentHeader,
    pub(crate) salt: Salt,
    /// Whether everything not yet vouched for has been written through this very descriptor, so that its syncs count.
    pub(crate) owns_bytes: AtomicBool,
    pub(super) extender: Extender,
}

impl Active {
    pub(crate) fn open(vfs: &dyn Vfs, path: PathBuf, header: SegmentHeader, how: Open) -> Result<Self> {
        let file = vfs.open(&path, how).context("open", &path)?;
        Ok(Active::of(file, path, header))
    }

    /// A segment that is open already.
    pub(crate) fn of(file: Box<dyn VfsFile>, path: PathBuf, header: SegmentHeader) -> Self {
        Active {
            salt: header.salt(),
            file,
            path,
            header,
            owns_bytes: AtomicBool::new(false),
            extender: Extender::default(),
        }
    }

    pub(crate) fn owns_bytes(&self) -> bool {
        self.owns_bytes.load(Ordering::Acquire)
    }
}

/// A frame that was whole when it was read, and must still stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LastFrame {
    offset: u64,
    crc: u32,
    seq: u64,
}

impl LastFrame {
    fn is_at_start_of(&self, bytes: &[u8]) -> bool {
        let mut b = super::bytes::Bytes(bytes.get(4..).unwrap_or_default());
        b.u32() == Some(self.crc) && b.u64() == Some(self.seq)
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) state: State,
    pub(crate) active: Option<Arc<Active>>,
    pub(crate) at: Position,
    last: Option<LastFrame>,
    /// The Seal that was read last, and the CRC by which its successor knows it, until that successor is entered:
    /// behind a Seal there is nothing to follow and nothing to append to, however clean the bytes look.
    pub(crate) sealed: Option<(Seal, u32)>,
    /// Whether the last frame is a Mark, behind which none is written.
    pub(crate) ends_with_mark: bool,
    /// Highest event number that a frame vouches for.
    pub(crate) vouched: u64,
    /// lpos up to which everything is vouched for by a frame, as far as known; a lower bound.
    pub(crate) vouched_lpos: u64,
    /// Offset up to which this process has seen zeros behind the frames since the last crash of the machine.
    pub(crate) zeros_end: u64,
    /// lpos behind the last frame that holds events.
    events_end_lpos: u64,
    /// The segments that were read, in order.
    pub(crate) chain: Vec<SegmentName>,
    pub(crate) damage: Option<Finding>,
    pub(crate) too_new: Option<Finding>,
    /// Memory for what is read next.
    spare: Vec<u8>,
}

/// Where following the bytes came to an end.
#[derive(Debug)]
pub(crate) enum Tail {
    /// At the end of the frames; `len` = length of the file.
    Clean { len: u64 },
    /// At a Seal whose successor is not live.
    Sealed { seal: Seal, last_crc: u32 },
    /// At bytes that are neither zero nor a frame that belongs there.
    Broken,
}

impl View {
    pub(crate) fn empty(fold: Option<FoldKind>) -> Self {
        View {
            state: State::with_fold(fold),
            active: None,
            at: Position { offset: 0, seq: 1, link: 0 },
            last: None,
            sealed: None,
            ends_with_mark: false,
            vouched: 0,
            vouched_lpos: 0,
            zeros_end: 0,
            events_end_lpos: 0,
            chain: Vec::new(),
            damage: None,
            too_new: None,
            spare: Vec::new(),
        }
    }

    /// Stands where a snapshot ends, whose state this is. What follows is yet to be read.
    pub(super) fn above(state: State, snapshot: &snapshot::Header) -> Self {
        let anchor = &snapshot.anchor;
        View {
            state,
            at: anchor.at,
            last: Some(LastFrame { offset: anchor.last_offset, crc: anchor.last_crc, seq: anchor.last_seq }),
            ends_with_mark: anchor.is_mark,
            vouched: snapshot.seq,
            vouched_lpos: anchor.events_end_lpos,
            events_end_lpos: anchor.events_end_lpos,
            ..View::empty(None)
        }
    }

    /// Where this stands, for a snapshot; `None` where there is no frame to bind one to.
    pub(super) fn anchor(&self) -> Option<Anchor> {
        let (Some(active), Some(last), None) = (&self.active, self.last, self.sealed) else { return None };
        Some(Anchor {
            segment: active.header.file_name(),
            last_offset: last.offset,
            last_crc: last.crc,
            last_seq: last.seq,
            at: self.at,
            events_end_lpos: self.events_end_lpos,
            is_mark: self.ends_with_mark,
        })
    }

    /// Folds a frame. A frame whose numbers are known already is a copy (copy-forward) and changes nothing.
    pub(crate) fn fold(&mut self, segment: &SegmentHeader, located: &Located<'_>, vocabulary: &Vocabulary) {
        let header = &located.frame.header;
        let vouches_for = header.vouches_for().unwrap_or(0);
        self.vouched = self.vouched.max(vouches_for);
        if vouches_for + 1 >= header.seq {
            // All events before this frame were durable. Control frames between the last of them and this frame take
            // no number, so nothing is said of those.
            self.vouched_lpos = self.vouched_lpos.max(self.events_end_lpos);
        }
        if header.count > 0 {
            self.events_end_lpos = segment.lpos(located.offset + located.frame.len() as u64);
        }
        match &located.content {
            Content::Commit(_) if header.seq <= self.state.last().0 => {}
            Content::Commit(commit) => self.state.take_up(commit, header.count, vocabulary),
            Content::Control(control) => {
                if let Control::Seal(seal) = control {
                    self.sealed = Some((*seal, seal.crc_for_successor(located.frame.crc)));
                }
                self.state.apply_control(header.seq, control);
            }
            Content::Ignored => self.state.pass_over(header.seq, header.count),
        }
        self.stand_behind(
            located.offset,
            located.frame.len() as u64,
            header.kind,
            located.frame.crc,
            header.seq,
        );
    }

    /// Moves behind a frame.
    pub(crate) fn stand_behind(&mut self, offset: u64, len: u64, kind: FrameKind, crc: u32, seq: u64) {
        self.ends_with_mark = kind == FrameKind::MARK;
        self.last = Some(LastFrame { offset, crc, seq });
        self.at.offset = offset + len;
        self.at.link = crc;
    }

    pub(crate) fn visit(&mut self, visit: &Visit<'_, '_>, vocabulary: &Vocabulary) {
        self.fold(visit.header, visit.located, vocabulary);
    }

    /// Takes over where a walk ended.
    pub(crate) fn adopt(&mut self, vfs: &dyn Vfs, walk: &Walk, how: Open) -> Result<()> {
        let walked = walk.segments.iter().map(|s| s.header.file_name());
        self.chain = walk.below.iter().copied().chain(walked).collect();
        self.damage.clone_from(&walk.damage);
        self.too_new.clone_from(&walk.too_new);
        if let Some(last) = walk.last() {
            self.at = last.summary.end;
            self.sealed = match last.summary.stop {
                Stop::Sealed { seal, crc } => Some((seal, seal.crc_for_successor(crc))),
                _ => None,
            };
            self.active = Some(Arc::new(Active::open(vfs, last.path.clone(), last.header.clone(), how)?));
            if last.summary.frames == 0 {
                self.last = None;
            }
            if matches!(last.verdict, Verdict::CleanEnd | Verdict::NulTail) && self.sealed.is_none() {
                self.zeros_end = last.summary.len;
            }
        }
        Ok(())
    }

    /// lpos of the end of what was read.
    pub(crate) fn end_lpos(&self) -> u64 {
        self.active.as_ref().map_or(0, |active| active.header.lpos(self.at.offset))
    }

    /// Whether there is nothing in the way of the next commit: no damage, nothing too new, no Seal.
    pub(crate) fn is_whole(&self) -> bool {
        self.active.is_some() && self.sealed.is_none() && self.damage.is_none() && self.too_new.is_none()
    }

    /// An error if this ends before what cannot be read. `act`: what that stands in the way of.
    pub(crate) fn check_all_was_read(&self, act: &'static str) -> Result<()> {
        if let Some(finding) = &self.damage {
            return Err(Error::new(ErrorKind::Damaged(Box::new(finding.clone())), act, &finding.file));
        }
        let Some(finding) = &self.too_new else { return Ok(()) };
        Err(too_new(finding, act))
    }

    /// Length of the active segment if its frames end where this stands, with no Seal behind; `None` if there may be more.
    ///
    /// One call, and one more where a reserve follows.
    ///
    /// # Errors
    /// [`ErrorKind::StoreReplaced`] if a reserve follows, but the last frame no longer stands before it.
    pub(crate) fn len_at_end(&self) -> Result<Option<u64>> {
        let (Some(active), None) = (&self.active, &self.sealed) else { return Ok(None) };
        let stat = active.file.stat().context("look at", &active.path)?;
        if stat.links == 0 || stat.len < self.at.offset {
            return Ok(None);
        }
        if stat.len == self.at.offset || self.zeros_follow(active)? { Ok(Some(stat.len)) } else { Ok(None) }
    }

    /// Whether zeros stand where the next frame would, and the last frame where it was: a file that was written over
    /// with an older copy of itself has its zeros earlier, and need not be shorter.
    fn zeros_follow(&self, active: &Active) -> Result<bool> {
        let mut near = [0; 1024];
        let from = self.last.map_or(self.at.offset, |last| last.offset);
        let before = usize::try_from(self.at.offset - from).unwrap_or(usize::MAX);
        // In one call, unless the last frame is large.
        let (from, before) = if before <= near.len() - FRAME_HEADER_LEN {
            (from, before)
        } else {
            self.last_stands(active)?;
            (self.at.offset, 0)
        };
        let near = near.get_mut(..before + FRAME_HEADER_LEN).unwrap_or_default();
        let n = read_full(&*active.file, near, from).context("read", &active.path)?;
        let Some((last, next)) = near.get(..n).and_then(|near| near.split_at_checked(before)) else {
            return Ok(false);
        };
        if !super::bytes::all_zero(next) {
            return Ok(false);
        }
        match self.last {
            Some(known) if before > 0 && !known.is_at_start_of(last) => Err(changed(active)),
            _ => Ok(true),
        }
    }

    /// Reads on from the bytes, over Seals into live successors.
    ///
    /// # Errors
    /// [`ErrorKind::StoreReplaced`] if what was read before no longer stands; system errors.
    pub(crate) fn catch_up(
        &mut self,
        vfs: &dyn Vfs,
        paths: &Paths,
        log: LogId,
        vocabulary: &Vocabulary,
        how: Open,
    ) -> Result<Tail> {
        loop {
            // The common case first, with one or two system calls and nothing cloned.
            if let Some(len) = self.len_at_end()? {
                return Ok(Tail::Clean { len });
            }
            let Some(active) = self.active.clone() else { return Ok(Tail::Broken) };
            if let Some((seal, last_crc)) = self.sealed {
                if !self.enter_successor(vfs, paths, log, &active.header, &seal, how)? {
                    return Ok(Tail::Sealed { seal, last_crc });
                }
                continue;
            }
            let stat = active.file.stat().context("look at", &active.path)?;
            if stat.len < self.at.offset {
                return Err(replaced(&active, "it is shorter than what was read from it"));
            }
            self.last_stands(&active)?;
            match self.read_on(&active, stat.len, vocabulary)? {
                Stop::NotAFrame(NotAFrame::End | NotAFrame::Zero) if stat.links == 0 => {
                    return Err(replaced(&active, "it was deleted"));
                }
                Stop::NotAFrame(NotAFrame::End | NotAFrame::Zero) => {
                    return Ok(Tail::Clean { len: stat.len });
                }
                Stop::Sealed { .. } => {} // the fold has noted it
                _ => return Ok(Tail::Broken),
            }
        }
    }

    /// Folds the commits from here to where the frames are said to end, in the segment at hand: one call, and no look at
    /// the file, since what links to the last frame that was read was written behind it. `false` = they do not reach there,
    /// or something else than commits stands in between; whatever was folded stands.
    pub(crate) fn read_to(&mut self, lpos: u64, vocabulary: &Vocabulary) -> bool {
        let Some(active) = self.active.clone() else { return false };
        let mut bytes = std::mem::take(&mut self.spare);
        let mut part = TOLD_PIECE;
        let is_there = loop {
            let (origin, here) = (self.at.offset, self.end_lpos());
            if here >= lpos {
                break here == lpos;
            }
            let rest = usize::try_from(lpos - here).unwrap_or(usize::MAX);
            let wanted = rest.min(part);
            bytes.resize(wanted, 0);
            if !read_full(&*active.file, &mut bytes, origin).is_ok_and(|n| n == wanted) {
                break false;
            }
            let mut scanner = Scanner::new(&bytes, origin, &active.salt, active.header.max_body, self.at);
            // At the first that is something else it is over: a Seal, an Epoch and what follows are for who looks closer.
            let commits = || {
                let located = scanner.next_frame().ok()?;
                matches!(located.content, Content::Commit(_)).then(|| (located, scanner.position()))
            };
            let mut commits = std::iter::from_fn(commits).fuse();
            let mut ahead = Vec::with_capacity(AHEAD);
            loop {
                ahead.extend(commits.by_ref().take(AHEAD));
                if ahead.is_empty() {
                    break;
                }
                self.state.touch(ahead.iter().filter_map(|(located, _)| match &located.content {
                    Content::Commit(commit) => Some(commit),
                    _ => None,
                }));
                for (located, behind) in ahead.drain(..) {
                    self.fold(&active.header, &located, vocabulary);
                    self.at = behind;
                }
            }
            // Not one: a large frame, or none that belongs here.
            if self.at.offset == origin {
                if wanted == rest {
                    break false;
                }
                part = part.saturating_mul(8);
            }
        };
        if bytes.capacity() <= TOLD_PIECE {
            self.spare = bytes;
        }
        is_there
    }

    /// Folds the frames from here on, in a file that is `len` long; returns why they end.
    ///
    /// A part at a time: behind a few new frames there may be a megabyte of reserve.
    fn read_on(&mut self, active: &Active, len: u64, vocabulary: &Vocabulary) -> Result<Stop> {
        let mut part = READ_FIRST;
        loop {
            let origin = self.at.offset;
            let rest = usize::try_from(len.saturating_sub(origin)).unwrap_or(0);
            let mut bytes = vec![0; rest.min(part)];
            let n = read_full(&*active.file, &mut bytes, origin).context("read", &active.path)?;
            bytes.truncate(n);
            let mut scanner = Scanner::new(&bytes, origin, &active.salt, active.header.max_body, self.at);
            let stop = loop {
                match scanner.next_frame() {
                    Ok(located) => {
                        self.fold(&active.header, &located, vocabulary);
                        self.at = scanner.position();
                    }
                    Err(stop) => break stop,
                }
            };
            // The part ended, not the file.
            if n == part && n < rest && matches!(stop, Stop::NotAFrame(NotAFrame::End | NotAFrame::Short)) {
                part = part.saturating_mul(8);
                continue;
            }
            return Ok(stop);
        }
    }

    /// The last frame that was read must still be there.
    pub(crate) fn last_stands(&self, active: &Active) -> Result<()> {
        let Some(last) = self.last else { return Ok(()) };
        let mut head = [0; 16];
        let n = read_full(&*active.file, &mut head, last.offset).context("read", &active.path)?;
        if last.is_at_start_of(head.get(..n).unwrap_or_default()) { Ok(()) } else { Err(changed(active)) }
    }

    /// Stands at the start of a live segment. `own`: this process has written all there is in it.
    pub(crate) fn enter(&mut self, next: Active, own: bool) {
        self.at = Position::start_of(&next.header);
        self.last = None;
        self.zeros_end = 0;
        self.sealed = None;
        self.ends_with_mark = false;
        next.owns_bytes.store(own, Ordering::Release);
        self.active = Some(Arc::new(next));
    }

    /// lpos and seq up to which everything was synced before the active segment's header was written.
    pub(crate) fn durable_before(&self) -> (u64, u64) {
        self.active.as_ref().map_or((0, 0), |a| (a.header.base_lpos, a.header.first_seq.saturating_sub(1)))
    }

    /// Moves into the live segment that answers a Seal; `false` if none is live.
    fn enter_successor(
        &mut self,
        vfs: &dyn Vfs,
        paths: &Paths,
        log: LogId,
        before: &SegmentHeader,
        seal: &Seal,
        how: Open,
    ) -> Result<bool> {
        let ordinal = before.ordinal_b + 1;
        let plain =
            SegmentName { ordinal_a: ordinal, ordinal_b: ordinal, generation: 0, id: seal.next_segment_id };
        let mut candidates = vec![plain];
        let dir = paths.log();
        let (mut listed, mut refused) = (false, None);
        loop {
            for name in &candidates {
                let path = paths.segment(name);
                let file = match vfs.open(&path, how) {
                    Ok(file) => file,
                    Err(e) if e.kind() == std::io::ErrorKind::NotFound => continue,
                    // On Windows it may have been removed and still be open somewhere.
                    Err(e) if e.kind() == std::io::ErrorKind::PermissionDenied => {
                        refused = Some(Error::io(e, "open", &path));
                        continue;
                    }
                    Err(e) => return Err(Error::io(e, "open", &path)),
                };
                let mut head = [0; HEADER_LEN];
                let n = read_full(&*file, &mut head, 0).context("read", &path)?;
                let header = match SegmentHeader::decode(head.get(..n).unwrap_or_default()) {
                    Ok(header) => header,
                    Err(bad) => {
                        if bad.is_too_new() {
                            self.too_new = Some(newer(&path, seal.next_first_seq, &bad.to_string()));
                        }
                        continue;
                    }
                };
                if header.state != SegmentState::Live
                    || header.log_id != log
                    || header.stands_for != seal.next_segment_id
                    || header.file_name() != *name
                {
                    continue;
                }
                self.chain.push(*name);
                self.enter(Active::of(file, path, header), false);
                return Ok(true);
            }
            if listed {
                return refused.map_or(Ok(false), Err);
            }
            // It may have been rewritten: then a higher generation stands for it.
            listed = true;
            candidates = vfs
                .list(&dir)
                .context("list", &dir)?
                .iter()
                .filter_map(|entry| SegmentName::parse(&entry.name))
                .filter(|name| name.ordinal_a == ordinal && name.generation > 0)
                .collect();
            candidates.sort_unstable_by_key(|name| std::cmp::Reverse(*name));
        }
    }

    /// Whether a segment that was read has been replaced by a repaired or compacted one.
    pub(crate) fn chain_is_replaced(&self, vfs: &dyn Vfs, paths: &Paths) -> Result<bool> {
        let dir = paths.log();
        let there: Vec<_> = vfs
            .list(&dir)
            .context("list", &dir)?
            .iter()
            .filter_map(|entry| SegmentName::parse(&entry.name))
            .collect();
        // What one that was read stands for has been replaced in its turn, and is on its way out.
        let known = |name: &SegmentName| {
            self.chain
                .iter()
                .any(|mine| mine == name || mine.generation > name.generation && mine.covers(name))
        };
        Ok(self.chain.iter().any(|name| !there.contains(name))
            || there.iter().any(|name| name.generation > 0 && !known(name)))
    }
}

/// What a segment of a newer release is told as.
pub(crate) fn newer(path: &std::path::Path, seq: u64, what: &str) -> Finding {
    Finding {
        severity: Severity::Damage,
        code: "too-new",
        file: path.into(),
        offset: Some(0),
        seq: Some(seq),
        message: format!("a newer release wrote this segment: {what}"),
        remedy: super::reader::TOO_NEW,
    }
}

/// What a finding of [`newer`] refuses.
pub(crate) fn too_new(finding: &Finding, act: &'static str) -> Error {
    let (what, need) = (finding.message.clone(), u64::from(super::format::LEVEL) + 1);
    let kind = ErrorKind::TooNew { what, need, have: super::format::LEVEL.into() };
    Error::new(kind, act, &finding.file)
}

fn changed(active: &Active) -> Error {
    replaced(active, "the last frame that was read from it is no longer there")
}

/// The error of a file that was changed underneath.
pub(crate) fn replaced(active: &Active, how: &str) -> Error {
    Error::new(ErrorKind::StoreReplaced { what: how.into() }, "follow", &active.path)
}
