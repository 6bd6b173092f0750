//! Compaction: old segments are written anew, smaller, without what later events in them have overwritten.
//!
//! It works on immutable files, sealed segments below the older snapshot, and never under LOCK. What it makes is one file of a
//! higher generation, and the rename that gives it its name is the one moment at which the log changes: whoever is killed before
//! it has changed nothing, whoever is killed behind it has left files that nobody reads. Before the rename both are folded, and
//! must come to the same state. `format-spec/recovery.md`, section K, has the same in prose.
//!
//! A dropped event leaves its number, so all others keep theirs; the file says up to where anything may be missing (its horizon).

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

mod judge;
mod output;

pub use judge::Effect;
pub(super) use judge::Purged;
use judge::{Fate, Judgement, Verdict, Window};
use output::Output;

use super::control_frame::{Control, Seal};
use super::engine::Log;
use super::envelope::{Envelope, Key};
use super::fold::{FoldKind, Keep, Keeps};
use super::lock::{LockFile, Rank};
use super::publish::give_name;
use super::rotate::{new_segment_id, writer_version};
use super::scan::{self, Content, Located, Stop};
use super::segment::{HEADER_LEN, SegmentHeader, SegmentName, SegmentState};
use super::state::{State, Vocabulary};
use super::{LogId, Paths, Seq, reader, snapshot};
use crate::error::{Context as _, Error, ErrorKind, Result};
use crate::vfs::{Open, Vfs, read_full};

/// By itself it is done only where the segments that are written anew are this part of all, and shrink by that.
const LEAST_SHARE: u64 = 4;
const LEAST_GAIN: u64 = 8;
/// Most bytes that are written anew at a time.
const RUN_MAX: u64 = 64 << 20;
/// What a segment is called while compaction writes it; others write `.new-*` beside it.
const TEMPORARY: &str = ".compact-";

/// What compaction has done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompactReport {
    /// How many segments were written anew, as one.
    pub segments: usize,
    /// How many bytes they had.
    pub bytes_before: u64,
    /// How many the new one has.
    pub bytes_after: u64,
    /// How many events were dropped.
    pub dropped: u64,
    /// The last event that was judged: what lies below may be missing.
    pub horizon: Seq,
    /// The new segment's file.
    pub file: PathBuf,
}

/// How far compaction has come: bytes done, of so many.
pub type CompactProgress<'a> = &'a mut dyn FnMut(u64, u64) -> ControlFlow<()>;

/// A sealed segment, as it was chosen.
#[derive(Clone, Debug)]
pub(super) struct Sealed {
    pub(super) path: PathBuf,
    pub(super) header: SegmentHeader,
    seal: Seal,
    last_crc: u32,
    pub(super) len: u64,
}

impl Log {
    /// Writes old segments anew, smaller: state events go whose every effect later ones in the same segments overwrite. `None` =
    /// there is nothing worth it below the older snapshot, a segment there cannot be read as part of the log (`foldlog verify` says
    /// which), or another process is at it.
    ///
    /// `progress` is told how far it is, and may break it off.
    ///
    /// # Errors
    /// [`ErrorKind::Refused`] if it was broken off, if what was written does not come to the same state, or if the log has an event that this
    /// program must understand and does not; [`ErrorKind::Damaged`]; [`ErrorKind::NoSpace`] and other system errors. Nothing has changed then.
    ///
    /// # Durability
    /// The new file is synced, and its folder, before any old one is removed.
    ///
    /// # Blocking
    /// For as long as it takes to read the segments three times and to write one of them; never for LOCK, and nobody waits for it.
    ///
    /// # Concurrency
    /// Readers and writers of all processes go on. Who reads a file that is gone lists the folder again. A subscription that is
    /// below the horizon is told [`ErrorKind::Trimmed`].
    pub fn compact(&self, progress: CompactProgress<'_>) -> Result<Option<CompactReport>> {
        self.check_writable()?;
        // What is to be kept of the history may have been said just now, by others.
        self.look_at_bytes()?;
        self.check_compactable("compact")?;
        self.compactor().run(Worth::AnyByte, progress)
    }

    /// The last event up to which compaction has looked: up to it, events that later ones have overwritten may be gone. 0 = none is.
    ///
    /// # Errors
    /// System errors.
    pub fn horizon(&self) -> Result<Seq> {
        let dir = self.paths.log();
        let entries = self.vfs.list(&dir).context("list", &dir)?;
        let names = entries.iter().filter_map(|entry| SegmentName::parse(&entry.name));
        let headers = names.filter(|name| name.generation > 0).filter_map(|name| {
            // One that is gone by now, or cannot be read, is missed by whoever reads the log.
            let header = read_header(&*self.vfs, &self.paths.segment(&name)).ok()?;
            (header.log_id == self.meta.log_id && header.state == SegmentState::Live)
                .then_some(header.horizon)
        });
        Ok(Seq(headers.max().unwrap_or(0)))
    }

    /// Refuses what only somebody can do who has read the log to its end, and understands it.
    pub(super) fn check_compactable(&self, what: &'static str) -> Result<()> {
        let view = self.view.read();
        view.check_all_was_read(what)?;
        if view.state.unknown().is_some() {
            let why = "it has events that this program does not understand".into();
            return Err(Error::new(ErrorKind::Refused(why), what, self.paths.dir()));
        }
        Ok(())
    }

    /// What compacts this log, without a hold on it.
    pub(super) fn compactor(&self) -> Compactor {
        Compactor {
            vfs: Arc::clone(&self.vfs),
            paths: self.paths.clone(),
            log: self.meta.log_id,
            fold: self.settings.fold,
            vocabulary: self.settings.vocabulary.clone(),
            in_vain: Arc::clone(&self.compacted_in_vain),
            keeps: self
                .view
                .read()
                .state
                .fold
                .as_ref()
                .map_or_else(|| Box::new(|_: &Key| Keep::Nothing) as Keeps, |fold| fold.retention()),
        }
    }
}

/// How much must be gained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Worth {
    /// Somebody asked for it.
    AnyByte,
    /// It is done by itself.
    ItsWhile,
}

/// All that compacting takes.
pub(super) struct Compactor {
    vfs: Arc<dyn Vfs>,
    paths: Paths,
    log: LogId,
    fold: Option<FoldKind>,
    vocabulary: Vocabulary,
    keeps: Keeps,
    /// The ordinal up to which there was nothing to be gained.
    in_vain: Arc<AtomicU64>,
}

impl Compactor {
    pub(super) fn run(&self, worth: Worth, progress: CompactProgress<'_>) -> Result<Option<CompactReport>> {
        let compact = LockFile::open(&self.vfs, self.paths.compact(), Rank::Compact)?;
        let Some(_compacting) = compact.try_acquire()? else { return Ok(None) };
        self.sweep_replaced()?;
        let Some(limit) = snapshot::oldest_ordinal(&*self.vfs, &self.paths, self.log)? else {
            return Ok(None);
        };
        if worth == Worth::ItsWhile && !self.may_be_worth_it(limit)? {
            return Ok(None);
        }
        let all = self.sealed_below(limit)?;
        if let Some((first, count)) = run_of(&all) {
            let report = self.rewrite(&all, (first, count), &Purged::default(), worth, progress)?;
            if report.is_some() {
                return Ok(report);
            }
            if let Some(last) = all.get(first + count - 1) {
                self.in_vain.store(last.header.ordinal_b, Ordering::Relaxed);
            }
        }
        if worth == Worth::ItsWhile {
            return Ok(None);
        }
        // What was written anew before may have much to drop by now: less history may be kept than was then.
        for run in runs(&all) {
            let report = self.rewrite(&all, run, &Purged::default(), Worth::ItsWhile, progress)?;
            if report.is_some() {
                return Ok(report);
            }
        }
        Ok(None)
    }

    /// Whether it is worth reading the segments: by their names and lengths alone, and by what was read in vain before.
    fn may_be_worth_it(&self, limit: u64) -> Result<bool> {
        let mut names = self.names_below(limit)?;
        // Of what stands for the same, the newest.
        names.dedup_by_key(|name| name.ordinal_a);
        let len = |name: &SegmentName| match self.vfs.stat(&self.paths.segment(name)) {
            Ok(stat) => Ok(stat.len),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(0),
            Err(e) => Err(Error::io(e, "look at", &self.paths.segment(name))),
        };
        let all = names.iter().map(|name| Ok((name.generation, len(name)?))).collect::<Result<Vec<_>>>()?;
        let Some((first, count)) = run_of(&all) else { return Ok(false) };
        let sum = |all: &[(u32, u64)]| all.iter().map(|(_, len)| len).sum::<u64>();
        let inputs = sum(all.get(first..first + count).unwrap_or_default());
        let in_vain = self.in_vain.load(Ordering::Relaxed);
        let is_new = |(name, _): &(&SegmentName, &(u32, u64))| name.ordinal_a > in_vain;
        let new: u64 =
            names.iter().zip(&all).skip(first).take(count).filter(is_new).map(|(_, (_, len))| len).sum();
        Ok(count > 1 && inputs * LEAST_SHARE >= sum(&all) && new * LEAST_SHARE >= inputs)
    }

    /// Writes a run of segments anew, as one: without what may go, and what `purged` says is to go.
    pub(super) fn rewrite(
        &self,
        all: &[Sealed],
        (first, count): (usize, usize),
        purged: &Purged,
        worth: Worth,
        progress: CompactProgress<'_>,
    ) -> Result<Option<CompactReport>> {
        let inputs = all.get(first..first + count).unwrap_or_default();
        let len_of = |all: &[Sealed]| all.iter().map(|segment| segment.len).sum::<u64>();
        let total = len_of(all) * 3;
        let mut done = 0;
        let mut step = |len: u64| {
            done += len;
            match progress(done, total) {
                ControlFlow::Continue(()) => Ok(()),
                ControlFlow::Break(()) => {
                    let why = "it was broken off".into();
                    Err(Error::new(ErrorKind::Refused(why), "compact", self.paths.dir()))
                }
            }
        };
        let (before, verdict) = self.judge(all, (first, count), purged, &mut step)?;
        let dropped = verdict.fates.iter().filter(|fate| **fate != Fate::Stays).count() as u64;
        let least = if worth == Worth::ItsWhile { len_of(inputs) / LEAST_GAIN } else { 1 };
        if verdict.bytes < least {
            return Ok(None);
        }
        let (Some(head), Some(tail)) = (inputs.first(), inputs.last()) else { return Ok(None) };
        let mut header = head.header.clone();
        header.ordinal_b = tail.header.ordinal_b;
        header.generation =
            inputs.iter().map(|input| input.header.generation).max().unwrap_or(0).saturating_add(1);
        header.segment_id = new_segment_id(&*self.vfs).context("draw an id in", &self.paths.log())?;
        header.horizon = inputs.iter().map(|input| input.header.horizon).fold(tail.seal.last_seq, u64::max);
        header.max_body = inputs.iter().map(|input| input.header.max_body).max().unwrap_or(header.max_body);
        // The moment at which ages were judged.
        header.created = verdict.as_of;
        header.writer_version = writer_version();
        let temporary = self.paths.log().join(format!("{TEMPORARY}{}", header.segment_id));
        let path = self.paths.segment(&header.file_name());
        let written = self.write_run(&temporary, &header, inputs, &verdict, &before.window, &mut step);
        let written = written.and_then(|len| {
            self.check_run(&temporary, &header, tail, all, first, &before, &mut step).map(|()| len)
        });
        let len = match written {
            Ok(len) => len,
            Err(e) => {
                let _ = self.vfs.unlink(&temporary);
                return Err(e);
            }
        };
        give_name(&*self.vfs, &temporary, &path)?;
        // On Windows those that others have open stay until the next time.
        inputs.iter().for_each(|input| drop(self.vfs.unlink(&input.path)));
        self.vfs.sync_dir(&self.paths.log()).context("sync", &self.paths.log())?;
        Ok(Some(CompactReport {
            segments: count,
            bytes_before: len_of(inputs),
            bytes_after: len,
            dropped,
            horizon: Seq(header.horizon),
            file: path,
        }))
    }

    /// What an earlier compaction has left: segments that a live one of a higher generation stands for. COMPACT is held.
    fn sweep_replaced(&self) -> Result<()> {
        let dir = self.paths.log();
        let entries = self.vfs.list(&dir).context("list", &dir)?;
        // The name of what stands for them may not be durable yet: whoever gave it is dead.
        self.vfs.sync_dir(&dir).context("sync", &dir)?;
        let names: Vec<_> = entries.iter().filter_map(|entry| SegmentName::parse(&entry.name)).collect();
        for new in names.iter().filter(|name| name.generation > 0) {
            let Ok(header) = read_header(&*self.vfs, &self.paths.segment(new)) else { continue };
            if header.log_id != self.log || header.state != SegmentState::Live || header.file_name() != *new {
                continue;
            }
            let is_old = |old: &&SegmentName| old.generation < new.generation && new.covers(old);
            for old in names.iter().filter(is_old) {
                // Only what compaction has replaced: what repair has replaced it has moved, and what nobody could read stays.
                if header.horizon > 0 {
                    drop(self.vfs.unlink(&self.paths.segment(old)));
                }
            }
        }
        // COMPACT is held: whoever began these is dead.
        for entry in entries.iter().filter(|entry| entry.name.starts_with(TEMPORARY)) {
            let _ = self.vfs.unlink(&dir.join(&entry.name));
        }
        Ok(())
    }

    /// The names of segments below an ordinal: in order, of the same place the highest generation first.
    fn names_below(&self, limit: u64) -> Result<Vec<SegmentName>> {
        let dir = self.paths.log();
        let entries = self.vfs.list(&dir).context("list", &dir)?;
        let names = entries.iter().filter_map(|entry| SegmentName::parse(&entry.name));
        let mut names: Vec<_> = names.filter(|name| name.ordinal_b < limit).collect();
        names.sort_unstable_by_key(|name| {
            (name.ordinal_a, std::cmp::Reverse((name.ordinal_b, name.generation)), name.id)
        });
        Ok(names)
    }

    /// The sealed segments below an ordinal, in order, each followed by the next.
    pub(super) fn sealed_below(&self, limit: u64) -> Result<Vec<Sealed>> {
        let names = self.names_below(limit)?;
        let mut all: Vec<Sealed> = Vec::new();
        let mut next = 1;
        while next < limit {
            let answers = |header: &SegmentHeader| {
                header.state == SegmentState::Live
                    && header.log_id == self.log
                    && all.last().is_none_or(|before| {
                        header.stands_for == before.seal.next_segment_id
                            && header.prev_last_crc == before.last_crc
                    })
            };
            let candidates = names.iter().filter(|name| name.ordinal_a == next);
            let found = candidates
                .map(|name| self.paths.segment(name))
                .find_map(|path| Some((read_header(&*self.vfs, &path).ok().filter(answers)?, path)));
            let Some((header, path)) = found else { return Ok(Vec::new()) };
            let bytes = reader::read_file(&*self.vfs, &path).context("read", &path)?;
            let salt = header.salt();
            let summary = scan::segment(&bytes, &header, &salt, |_| {});
            let Stop::Sealed { seal, crc } = summary.stop else { return Ok(Vec::new()) };
            next = header.ordinal_b + 1;
            let last_crc = seal.crc_for_successor(crc);
            all.push(Sealed { path, header, seal, last_crc, len: bytes.len() as u64 });
        }
        Ok(all)
    }

    /// Folds all segments, and judges the events of those that are written anew.
    fn judge(
        &self,
        all: &[Sealed],
        (first, count): (usize, usize),
        purged: &Purged,
        step: &mut dyn FnMut(u64) -> Result<()>,
    ) -> Result<(Before, Verdict)> {
        let (fold, vocabulary) = (self.fold, &self.vocabulary);
        let effect = |event: &Envelope<'_>| {
            let known = vocabulary.knows(event.kind, event.version);
            // Whoever has no fold does not know what events come to for others.
            known.then(|| fold.map_or(Effect::default(), |fold| fold.effect(event)))
        };
        let mut judgement = Judgement::default();
        let mut state = State::with_fold(fold);
        for (at, segment) in all.iter().enumerate() {
            let is_input = (first..first + count).contains(&at);
            self.each_frame(segment, &mut |located| {
                fold_frame(&mut state, located, vocabulary);
                if let (true, Content::Commit(commit)) = (is_input, &located.content) {
                    judgement.take(commit, purged, effect);
                }
                Ok(())
            })?;
            step(segment.len)?;
        }
        let window = Window::of(&state);
        let verdict = judgement.verdict(&self.keeps, &window, self.vfs.now());
        Ok((Before { hash: state.hash(), window }, verdict))
    }

    /// Hands out the frames of a segment, which must end with the Seal it had; returns its length.
    pub(super) fn each_frame(
        &self,
        segment: &Sealed,
        each: &mut dyn FnMut(&Located<'_>) -> Result<()>,
    ) -> Result<u64> {
        let bytes = reader::read_file(&*self.vfs, &segment.path).context("read", &segment.path)?;
        let (salt, mut failed) = (segment.header.salt(), None);
        let summary = scan::segment(&bytes, &segment.header, &salt, |located| {
            if failed.is_none() {
                failed = each(located).err();
            }
        });
        match (failed, summary.stop) {
            (Some(e), _) => Err(e),
            (None, Stop::Sealed { seal, .. }) if seal == segment.seal => Ok(summary.len),
            _ => Err(Error::new(ErrorKind::NotYet, "read", &segment.path)),
        }
    }

    /// Writes the events that stay.
    fn write_run(
        &self,
        path: &Path,
        header: &SegmentHeader,
        inputs: &[Sealed],
        verdict: &Verdict,
        window: &Window,
        step: &mut dyn FnMut(u64) -> Result<()>,
    ) -> Result<u64> {
        let file = self.vfs.open(path, Open::Create).context("create", path)?;
        let mut out = Output::new(&*file, path, header);
        let mut fates = verdict.fates.iter().copied();
        for input in inputs {
            self.each_frame(input, &mut |located| {
                match &located.content {
                    Content::Commit(commit) => {
                        out.commit(&located.frame.header, commit, &mut fates, window)?;
                    }
                    // What ends a segment, and what says that a moment was quiet, says nothing any more.
                    Content::Control(Control::Seal(_) | Control::Mark { .. }) => {}
                    Content::Control(control) => out.control(&located.frame.header, control)?,
                    Content::Ignored => out.copy(&located.frame.header, located.frame.body)?,
                }
                Ok(())
            })?;
            step(input.len)?;
        }
        let seal = inputs.last().map(|last| (last.seal, last.last_crc));
        let len = match seal {
            Some((seal, last_crc)) => out.finish(Seal { last_crc, ..seal })?,
            None => 0,
        };
        file.sync_data().context("sync", path)?;
        Ok(len)
    }

    /// Reads what was written, and compares what both come to.
    #[expect(clippy::too_many_arguments, reason = "what was written, and what it was written from")]
    fn check_run(
        &self,
        path: &Path,
        header: &SegmentHeader,
        last: &Sealed,
        all: &[Sealed],
        first: usize,
        expected: &Before,
        step: &mut dyn FnMut(u64) -> Result<()>,
    ) -> Result<()> {
        let vocabulary = &self.vocabulary;
        let mut state = State::with_fold(self.fold);
        let new = Sealed {
            path: path.into(),
            header: header.clone(),
            seal: Seal { last_crc: last.last_crc, ..last.seal },
            last_crc: last.last_crc,
            len: 0,
        };
        let before = all.iter().take(first);
        let behind = all.iter().skip_while(|segment| segment.header.ordinal_a <= header.ordinal_b);
        for segment in before.chain([&new]).chain(behind) {
            let len = self.each_frame(segment, &mut |located| {
                fold_frame(&mut state, located, vocabulary);
                Ok(())
            })?;
            step(len)?;
        }
        if state.hash() == expected.hash && Window::of(&state) == expected.window {
            return Ok(());
        }
        let why = "what was written does not come to the same state; nothing was changed";
        Err(Error::new(ErrorKind::Refused(why.into()), "compact", &self.paths.log()))
    }
}

fn fold_frame(state: &mut State, located: &Located<'_>, vocabulary: &Vocabulary) {
    let header = &located.frame.header;
    match &located.content {
        Content::Commit(_) if header.seq <= state.last().0 => {}
        Content::Commit(commit) => state.take_up(commit, header.count, vocabulary),
        Content::Control(control) => state.apply_control(header.seq, control),
        Content::Ignored => state.pass_over(header.seq, header.count),
    }
}

/// What the segments came to before one of them was written anew.
struct Before {
    hash: blake3::Hash,
    window: Window,
}

/// A segment, as far as the choice goes by it.
trait Stretch {
    fn generation(&self) -> u32;
    fn len(&self) -> u64;
}

impl Stretch for Sealed {
    fn generation(&self) -> u32 {
        self.header.generation
    }

    fn len(&self) -> u64 {
        self.len
    }
}

impl Stretch for (u32, u64) {
    fn generation(&self) -> u32 {
        self.0
    }

    fn len(&self) -> u64 {
        self.1
    }
}

/// Which segments are written anew: from the first on whose followers have together as much as it has, so that a byte is
/// written again only when there is as much new beside it.
fn run_of(all: &[impl Stretch]) -> Option<(usize, usize)> {
    for first in 0..all.len() {
        let (mut len, mut count) = (0, 0);
        for segment in all.get(first..).unwrap_or_default() {
            if count > 0 && len + segment.len() > RUN_MAX {
                break;
            }
            len += segment.len();
            count += 1;
        }
        let head = all.get(first)?;
        let is_new = head.generation() == 0;
        if is_new || count > 1 && len - head.len() >= head.len() {
            return Some((first, count));
        }
    }
    None
}

/// All of them, in runs that may be written anew at a time.
fn runs(all: &[impl Stretch]) -> Vec<(usize, usize)> {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    let mut len = 0;
    for (at, segment) in all.iter().enumerate() {
        match runs.last_mut() {
            Some((_, count)) if len + segment.len() <= RUN_MAX => *count += 1,
            _ => {
                runs.push((at, 1));
                len = 0;
            }
        }
        len += segment.len();
    }
    runs
}

fn read_header(vfs: &dyn Vfs, path: &Path) -> Result<SegmentHeader> {
    let mut head = [0; HEADER_LEN];
    let file = vfs.open(path, Open::Read).context("open", path)?;
    let n = read_full(&*file, &mut head, 0).context("read", path)?;
    SegmentHeader::decode(head.get(..n).unwrap_or_default())
        .map_err(|bad| Error::new(ErrorKind::Invalid { what: "segment", why: bad.to_string() }, "read", path))
}
