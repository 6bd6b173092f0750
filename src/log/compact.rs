//! Compaction: old segments are written anew, smaller, without what later events in them have overwritten.
//!
//! It works on immutable files, sealed segments below the older snapshot, and never under LOCK. What it makes is one file of a
//! higher generation, and the rename that gives it its name is the one moment at which the log changes: whoever is killed before
//! it has changed nothing, whoever is killed behind it has left files that nobody reads. Before the rename both are folded, and
//! must come to the same state. `format-spec/recovery.md`, section K, has the same in prose.
//!
//! A dropped event leaves its number, so all others keep theirs; the file says up to where anything may be missing (its horizon).

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use foldhash::fast::RandomState;

use super::control_frame::{Control, Seal};
use super::engine::Log;
use super::envelope::{Commit, Envelope, Key, KeyKind, Preamble};
use super::fold::FoldKind;
use super::format::{EVENT_ELIDED, LAG_NONE, MAX_COUNT};
use super::frame::{FrameHeader, FrameKind, Salt, encode_with};
use super::lock::{LockFile, Rank};
use super::publish::give_name;
use super::rotate::{new_segment_id, writer_version};
use super::scan::{self, Content, Located, Stop};
use super::segment::{HEADER_LEN, SegmentHeader, SegmentName, SegmentState};
use super::state::{State, Vocabulary};
use super::{LogId, Paths, Revision, Seq, reader, snapshot};
use crate::error::{Context as _, Error, ErrorKind, Result};
use crate::vfs::{Open, Vfs, VfsFile, read_full, write_full};

/// By itself it is done only where the segments that are written anew are this part of all, and shrink by that.
const LEAST_SHARE: u64 = 4;
const LEAST_GAIN: u64 = 8;
/// Most bytes that are written anew at a time.
const RUN_MAX: u64 = 64 << 20;
/// What a segment is called while compaction writes it; others write `.new-*` beside it.
const TEMPORARY: &str = ".compact-";
/// How much is written at a time.
const WRITE_PIECE: usize = 1 << 20;

/// What a state event does to its key, as far as compaction goes by it. A value is a bit; which one is the fold's business.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It gives these values, whatever they were, and does nothing else but take a number and a revision. It may go where they
    /// were there before it, and are given again behind it.
    Gives(u64),
    /// It stays. Behind it the values `given` are there, and those `taken` are not, or what they were before it matters.
    Stays {
        /// See there.
        given: u64,
        /// See there.
        taken: u64,
    },
}

/// It stays, and has to do with no value.
impl Default for Effect {
    fn default() -> Self {
        Effect::Stays { given: 0, taken: 0 }
    }
}

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
struct Sealed {
    path: PathBuf,
    header: SegmentHeader,
    seal: Seal,
    last_crc: u32,
    len: u64,
}

/// One event, as far as the judgement goes by it.
struct Judged {
    key: u32,
    effect: Effect,
    /// Whether all that it gives was there before.
    was_there: bool,
    /// Whether it may go at all.
    may_go: bool,
    /// About how many bytes it has.
    len: u32,
}

/// The events of the segments, in order, and which of them go.
#[derive(Default)]
struct Judgement {
    keys: HashMap<Key, u32, RandomState>,
    there: Vec<u64>,
    events: Vec<Judged>,
}

impl Judgement {
    fn take(&mut self, commit: &Commit<'_>, effect: impl Fn(&Envelope<'_>) -> Option<Effect>) {
        for event in commit.events() {
            let is_state = event.kind != EVENT_ELIDED && event.revision != Revision(0);
            let effect = if is_state { effect(&event) } else { None };
            let next = u32::try_from(self.keys.len()).unwrap_or(u32::MAX);
            let is_known = effect.is_some();
            // Whatever an unknown one does, it may be that what was before matters to it.
            let unknown = Effect::Stays { given: 0, taken: u64::MAX };
            let (key, effect) = match is_state {
                true => (*self.keys.entry(event.to_key()).or_insert(next), effect.unwrap_or(unknown)),
                false => (u32::MAX, Effect::default()),
            };
            if key == next {
                self.there.push(0);
            }
            let mut was_there = true;
            if let Some(there) = self.there.get_mut(key as usize) {
                match effect {
                    Effect::Gives(values) => {
                        was_there = values & !*there == 0;
                        *there |= values;
                    }
                    Effect::Stays { given, taken } => *there = *there & !taken | given,
                }
            }
            // Who sends a request again is answered with its events.
            let may_go = is_known && commit.preamble.operation.is_none();
            let len = u32::try_from(event.body.len() + event.key.len() + 19).unwrap_or(u32::MAX);
            self.events.push(Judged { key, effect, was_there, may_go, len });
        }
    }

    /// Which events go: backwards, by what is given again behind them.
    fn verdict(self) -> Verdict {
        let mut later = vec![0_u64; self.there.len()];
        let mut dropped = vec![false; self.events.len()];
        for (event, goes) in self.events.iter().zip(&mut dropped).rev() {
            let Some(given_later) = later.get_mut(event.key as usize) else { continue };
            match event.effect {
                Effect::Gives(values) => {
                    *goes = event.may_go && event.was_there && values & !*given_later == 0;
                    *given_later |= values;
                }
                Effect::Stays { taken, .. } => *given_later &= !taken,
            }
        }
        let gone = self.events.iter().zip(&dropped).filter(|(_, goes)| **goes);
        Verdict { bytes: gone.map(|(event, _)| u64::from(event.len)).sum(), dropped }
    }
}

/// Which events go, and about how many bytes with them.
struct Verdict {
    dropped: Vec<bool>,
    bytes: u64,
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
        {
            let view = self.view.read();
            view.check_all_was_read("compact it")?;
            if view.state.unknown().is_some() {
                let why = "it has events that this program does not understand".into();
                return Err(Error::new(ErrorKind::Refused(why), "compact", self.paths.dir()));
            }
        }
        self.compactor().run(Worth::AnyByte, progress)
    }

    /// What compacts this log, without a hold on it.
    pub(super) fn compactor(&self) -> Compactor {
        Compactor {
            vfs: Arc::clone(&self.vfs),
            paths: self.paths.clone(),
            log: self.meta.log_id,
            fold: self.settings.fold,
            vocabulary: self.settings.vocabulary.clone(),
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
}

impl Compactor {
    pub(super) fn run(&self, worth: Worth, progress: CompactProgress<'_>) -> Result<Option<CompactReport>> {
        let refused =
            |why: &str| Err(Error::new(ErrorKind::Refused(why.into()), "compact", self.paths.dir()));
        let compact = LockFile::open(&self.vfs, self.paths.compact(), Rank::Compact)?;
        let Some(_compacting) = compact.try_acquire()? else { return Ok(None) };
        self.sweep_replaced()?;
        let Some(limit) = snapshot::oldest_ordinal(&*self.vfs, &self.paths, self.log)? else {
            return Ok(None);
        };
        let all = self.sealed_below(limit)?;
        let Some((first, count)) = run_of(&all) else { return Ok(None) };
        let inputs = all.get(first..first + count).unwrap_or_default();
        let len_of = |all: &[Sealed]| all.iter().map(|segment| segment.len).sum::<u64>();
        if worth == Worth::ItsWhile && (count < 2 || len_of(inputs) * LEAST_SHARE < len_of(&all)) {
            return Ok(None);
        }
        let total = len_of(&all) * 3;
        let mut done = 0;
        let mut step = |len: u64| {
            done += len;
            match progress(done, total) {
                ControlFlow::Continue(()) => Ok(()),
                ControlFlow::Break(()) => refused("it was broken off"),
            }
        };
        let (before, Verdict { dropped, bytes }) = self.judge(&all, first, count, &mut step)?;
        let count_dropped = dropped.iter().filter(|goes| **goes).count() as u64;
        let least = if worth == Worth::ItsWhile { len_of(inputs) / LEAST_GAIN } else { 1 };
        if bytes < least {
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
        header.created = self.vfs.now();
        header.writer_version = writer_version();
        let temporary = self.paths.log().join(format!("{TEMPORARY}{}", header.segment_id));
        let path = self.paths.segment(&header.file_name());
        let written = self.write_run(&temporary, &header, inputs, &dropped, &mut step).and_then(|len| {
            self.check_run(&temporary, &header, tail, &all, first, before, &mut step).map(|()| len)
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
            dropped: count_dropped,
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

    /// The sealed segments below an ordinal, in order, each followed by the next.
    fn sealed_below(&self, limit: u64) -> Result<Vec<Sealed>> {
        let dir = self.paths.log();
        let mut names: Vec<_> = self
            .vfs
            .list(&dir)
            .context("list", &dir)?
            .iter()
            .filter_map(|entry| SegmentName::parse(&entry.name))
            .filter(|name| name.ordinal_b < limit)
            .collect();
        names.sort_unstable_by(|a, b| b.cmp(a));
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
        first: usize,
        count: usize,
        step: &mut dyn FnMut(u64) -> Result<()>,
    ) -> Result<(blake3::Hash, Verdict)> {
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
                    judgement.take(commit, effect);
                }
                Ok(())
            })?;
            step(segment.len)?;
        }
        Ok((state.hash(), judgement.verdict()))
    }

    /// Hands out the frames of a segment, which must end with the Seal it had; returns its length.
    fn each_frame(&self, segment: &Sealed, each: &mut dyn FnMut(&Located<'_>) -> Result<()>) -> Result<u64> {
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
        dropped: &[bool],
        step: &mut dyn FnMut(u64) -> Result<()>,
    ) -> Result<u64> {
        let file = self.vfs.open(path, Open::Create).context("create", path)?;
        let mut out = Output::new(&*file, path, header);
        let mut dropped = dropped.iter().copied();
        for input in inputs {
            self.each_frame(input, &mut |located| {
                match &located.content {
                    Content::Commit(commit) => out.commit(&located.frame.header, commit, &mut dropped)?,
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
        expected: blake3::Hash,
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
        if state.hash() == expected {
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

/// Which segments are written anew: from the first on whose followers have together as much as it has, so that a byte is
/// written again only when there is as much new beside it.
fn run_of(all: &[Sealed]) -> Option<(usize, usize)> {
    for first in 0..all.len() {
        let (mut len, mut count) = (0, 0);
        for segment in all.get(first..).unwrap_or_default() {
            if count > 0 && len + segment.len > RUN_MAX {
                break;
            }
            len += segment.len;
            count += 1;
        }
        let head = all.get(first)?;
        let is_new = head.header.generation == 0;
        if is_new || count > 1 && len - head.len >= head.len {
            return Some((first, count));
        }
    }
    None
}

fn read_header(vfs: &dyn Vfs, path: &Path) -> Result<SegmentHeader> {
    let mut head = [0; HEADER_LEN];
    let file = vfs.open(path, Open::Read).context("open", path)?;
    let n = read_full(&*file, &mut head, 0).context("read", path)?;
    SegmentHeader::decode(head.get(..n).unwrap_or_default())
        .map_err(|bad| Error::new(ErrorKind::Invalid { what: "segment", why: bad.to_string() }, "read", path))
}

/// The new segment while it is written.
struct Output<'a> {
    file: &'a dyn VfsFile,
    path: &'a Path,
    salt: Salt,
    bytes: Vec<u8>,
    written: u64,
    seq: u64,
    link: u32,
    /// Numbers, one behind the other, of commits that are gone whole.
    gone: u64,
}

impl<'a> Output<'a> {
    fn new(file: &'a dyn VfsFile, path: &'a Path, header: &SegmentHeader) -> Self {
        let (seq, link) = (header.first_seq, header.prev_last_crc);
        let bytes = header.encode().to_vec();
        Output { file, path, salt: header.salt(), bytes, written: 0, seq, link, gone: 0 }
    }

    fn frame(&mut self, header: &FrameHeader, body: impl FnOnce(&mut Vec<u8>)) -> Result<()> {
        let header = FrameHeader { link: self.link, ..*header };
        self.link = encode_with(&mut self.bytes, &self.salt, &header, body);
        self.seq = header.seq + u64::from(header.count);
        if self.bytes.len() >= WRITE_PIECE { self.write_out() } else { Ok(()) }
    }

    fn write_out(&mut self) -> Result<()> {
        write_full(self.file, &self.bytes, self.written)
            .map_err(|(_, e)| Error::io(e, "write", self.path))?;
        self.written += self.bytes.len() as u64;
        self.bytes.clear();
        Ok(())
    }

    /// Says which numbers are taken by what is gone.
    fn say_gone(&mut self) -> Result<()> {
        while self.gone > 0 {
            let count = u16::try_from(self.gone).unwrap_or(MAX_COUNT).min(MAX_COUNT);
            let header = FrameHeader {
                seq: self.seq,
                link: self.link,
                kind: FrameKind::COMMIT,
                count,
                durable_lag: LAG_NONE,
                writer: 0,
            };
            let seq = Seq(self.seq);
            self.frame(&header, |out| {
                Preamble::default().encode(out);
                elided(seq, count, out);
            })?;
            self.gone -= u64::from(count);
        }
        Ok(())
    }

    fn commit(
        &mut self,
        header: &FrameHeader,
        commit: &Commit<'_>,
        dropped: &mut impl Iterator<Item = bool>,
    ) -> Result<()> {
        let events: Vec<(Envelope<'_>, bool)> = commit
            .events()
            .map(|event| {
                let is_empty = event.kind == EVENT_ELIDED && event.key_kind == KeyKind::NONE;
                let goes = dropped.next().unwrap_or(false) || is_empty && commit.preamble.operation.is_none();
                (event, goes)
            })
            .collect();
        if events.iter().all(|(_, goes)| *goes) {
            self.gone += u64::from(header.count);
            return Ok(());
        }
        self.say_gone()?;
        self.frame(header, |out| {
            commit.preamble.encode(out);
            let (mut first, mut run) = (Seq(0), 0_u16);
            for (event, goes) in &events {
                if *goes {
                    if run == 0 {
                        first = event.seq;
                    }
                    run += event.takes;
                    continue;
                }
                if run > 0 {
                    elided(first, std::mem::take(&mut run), out);
                }
                event.encode(out);
            }
            if run > 0 {
                elided(first, run, out);
            }
        })
    }

    fn control(&mut self, header: &FrameHeader, control: &Control) -> Result<()> {
        self.say_gone()?;
        self.frame(header, |out| control.encode(out))?;
        if let Control::Gap { to, .. } = control {
            self.seq = to + 1;
        }
        Ok(())
    }

    fn copy(&mut self, header: &FrameHeader, body: &[u8]) -> Result<()> {
        self.say_gone()?;
        self.frame(header, |out| out.extend_from_slice(body))
    }

    /// Ends as the successor's header knows the last of the old ones; returns the length.
    fn finish(mut self, seal: Seal) -> Result<u64> {
        self.say_gone()?;
        let header = FrameHeader {
            seq: self.seq,
            link: self.link,
            kind: FrameKind::SEAL,
            count: 0,
            durable_lag: LAG_NONE,
            writer: 0,
        };
        self.frame(&header, |out| Control::Seal(seal).encode(out))?;
        self.write_out()?;
        Ok(self.written)
    }
}

/// An entry that takes numbers and says nothing.
fn elided(seq: Seq, takes: u16, out: &mut Vec<u8>) {
    let body = takes.to_le_bytes();
    let entry = Envelope {
        seq,
        takes,
        kind: EVENT_ELIDED,
        version: 1,
        ignorable: false,
        key_kind: KeyKind::NONE,
        key: "",
        revision: Revision(0),
        blobs: &[],
        body: &body,
    };
    entry.encode(out);
}
