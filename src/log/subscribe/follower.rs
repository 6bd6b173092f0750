//! Where a subscription stands in the bytes, and reading on from there.
//!
//! What may be read is asked of the log's view each time: up to which event, and which files make the log up. A file is
//! known by its name, which holds its random id; as long as the view was folded from that very file, its bytes up to
//! the view's end are the history that everybody sees. Where it was not (a copy stands in its place after a failed
//! sync, a repair, a compaction), the place is looked for anew, by number: no offset of one file means anything in another.

use std::collections::VecDeque;
use std::sync::Arc;

use super::super::control_frame::Control;
use super::super::engine::Log;
use super::super::envelope::Commit;
use super::super::finding::Finding;
use super::super::format::EVENT_ELIDED;
use super::super::frame::NotAFrame;
use super::super::scan::{Content, Located, Position, Scanner, Stop};
use super::super::segment::{HEADER_LEN, SegmentHeader, SegmentName, SegmentState};
use super::super::view::{Active, View};
use super::super::{BlobId, Cursor, Seq};
use super::{DeliveredEvent, Delivery, Since};
use crate::error::{Context as _, Error, ErrorKind, Result};
use crate::vfs::{Open, read_full};

/// How much is read at first.
const READ_FIRST: usize = 16 << 10;
/// How often the place is looked for anew because the files are not what the view says, before that is an error.
const LOOKS_MAX: u32 = 5;

/// See the module.
pub(super) struct Follower {
    /// Behind what was handed out.
    cursor: Cursor,
    /// Behind what was read, into `queue` or over it.
    read: Cursor,
    reading: Option<Reading>,
    queue: VecDeque<Delivery>,
    /// The view's, as of the last look.
    epochs: Vec<(Seq, u64)>,
    durable_only: bool,
    lost: Option<(Seq, Seq)>,
    /// Memory for what is read.
    bytes: Vec<u8>,
}

/// A segment that is being read.
struct Reading {
    active: Arc<Active>,
    at: Position,
    /// Whether its Seal has been read.
    sealed: bool,
}

/// What the view says.
struct Ask {
    /// Up to which event may be read.
    last: Seq,
    /// Every segment, unless the one that is being read is among them.
    chain: Option<Vec<SegmentName>>,
    /// The one behind the one that is being read; `None` = that is the last.
    next: Option<SegmentName>,
    durable: Seq,
    /// lpos in the last segment up to which a shared word says that all is durable.
    durable_lpos: u64,
    blocked: Option<ErrorKind>,
    place: std::path::PathBuf,
}

/// What reading on has come to.
enum Step {
    /// Something was read, or there is nothing that may be.
    Done,
    /// A segment's end.
    On,
    /// The files are not what the view says.
    Stale,
}

impl Follower {
    pub(super) fn start(log: &Log, since: Since) -> Result<Self> {
        // Not by the tail word: whoever hands in a cursor has seen the event.
        log.look_at_bytes()?;
        let now = log.view.read().state.cursor();
        let cursor = match since {
            Since::Beginning => Cursor::default(),
            Since::Now => now,
            Since::After(seq) => log.view.read().state.cursor_at(seq),
            Since::Cursor(cursor) => cursor,
        };
        if cursor.seq > now.seq {
            let to = log.view.read().state.resolve(cursor).err().unwrap_or(now.seq);
            return Err(rewound(log, to));
        }
        let mut follower = Follower {
            cursor,
            read: cursor,
            reading: None,
            queue: VecDeque::new(),
            epochs: Vec::new(),
            durable_only: false,
            lost: None,
            bytes: Vec::new(),
        };
        follower.find(log)?;
        Ok(follower)
    }

    /// The same from another place.
    pub(super) fn restarted(&self, log: &Log, since: Since) -> Result<Self> {
        Ok(Follower { durable_only: self.durable_only, ..Follower::start(log, since)? })
    }

    pub(super) fn hand_out_durable_only(&mut self) {
        self.durable_only = true;
    }

    pub(super) fn cursor(&self) -> Cursor {
        if self.queue.is_empty() { self.read } else { self.cursor }
    }

    pub(super) fn next(&mut self, log: &Log) -> Result<Option<Delivery>> {
        log.check_fork()?;
        if self.queue.is_empty() {
            self.fill(log)?;
        }
        let found = self.queue.pop_front();
        if let Some(found) = &found {
            self.cursor = found.cursor;
        }
        Ok(found)
    }

    /// Makes sure that the place can be read from, or says why not.
    fn find(&mut self, log: &Log) -> Result<()> {
        for _ in 0..LOOKS_MAX {
            let ask = self.ask(log, None)?;
            match &ask.chain {
                Some(chain) if !self.locate(log, chain)? => log.look_at_files()?,
                _ => return Ok(()),
            }
        }
        Err(Error::new(ErrorKind::NotYet, "find the place in", &log.paths().log()))
    }

    fn fill(&mut self, log: &Log) -> Result<()> {
        let mut looks = 0;
        loop {
            // Before the bytes: what it says of those is then known to the view, or it speaks of another log.
            let word = log.durable_word();
            log.refresh()?;
            let ask = self.ask(log, word)?;
            if ask.last <= self.read.seq {
                return match ask.blocked {
                    Some(kind) => Err(Error::new(kind, "follow", &ask.place)),
                    None => Ok(()),
                };
            }
            let step = match &ask.chain {
                Some(chain) if !self.locate(log, chain)? => Step::Stale,
                Some(_) => Step::On,
                None => self.read_on(log, &ask)?,
            };
            match step {
                Step::Done => return Ok(()),
                Step::On => {}
                Step::Stale => {
                    self.reading = None;
                    looks += 1;
                    if looks > LOOKS_MAX {
                        let kind = ask.blocked.unwrap_or(ErrorKind::NotYet);
                        return Err(Error::new(kind, "follow", &ask.place));
                    }
                    log.look_at_files()?;
                }
            }
        }
    }

    /// Asks the view how far and in which files one may read.
    fn ask(&mut self, log: &Log, word: Option<u64>) -> Result<Ask> {
        let view = log.view.read();
        let last = view.state.last();
        if let Err(to) = view.state.resolve(self.read) {
            return Err(rewound(log, to.max(self.shared_with(view.state.epochs()))));
        }
        let (blocked, place) = blocked(log, &view);
        if self.read.seq > last && blocked.is_none() {
            return Err(rewound(log, last));
        }
        let epochs = view.state.epochs();
        if self.epochs.len() != epochs.len() || self.epochs.last() != epochs.last() {
            self.epochs = epochs.to_vec();
        }
        let here = self.reading.as_ref().map(|reading| reading.active.header.file_name());
        let mut place_in_chain = here.and_then(|here| view.chain.iter().rposition(|name| *name == here));
        if place_in_chain.is_none()
            && self.read.seq == last
            && let (Some(active), Some(newest)) = (&view.active, view.chain.last())
            && active.header.file_name() == *newest
        {
            // At the end of the log: the view stands at the very place.
            let (active, sealed) = (Arc::clone(active), view.sealed.is_some());
            self.reading = Some(Reading { active, at: view.at, sealed });
            place_in_chain = Some(view.chain.len() - 1);
        }
        let end = view.end_lpos();
        let durable_lpos = word.filter(|word| *word <= end).unwrap_or(0);
        let mut durable = view.vouched.max(log.durable.seq()).max(view.durable_before().1);
        if durable_lpos >= end || log.durable.covers(end) {
            durable = last.0;
        }
        Ok(Ask {
            last,
            chain: place_in_chain.is_none().then(|| view.chain.clone()),
            next: place_in_chain.and_then(|at| view.chain.get(at + 1).copied()),
            durable: Seq(durable),
            durable_lpos,
            blocked,
            place,
        })
    }

    /// The last event that the history which was read shares with another one, as far as it is known by its epochs. A
    /// cursor alone, of an epoch that is gone, says no more than that it is.
    fn shared_with(&self, epochs: &[(Seq, u64)]) -> Seq {
        let same = self.epochs.iter().zip(epochs).take_while(|(mine, theirs)| mine == theirs).count();
        let ends = [self.epochs.get(same), epochs.get(same)]
            .into_iter()
            .flatten()
            .map(|(first, _)| first.0.saturating_sub(1));
        Seq(ends.chain([self.read.seq.0]).min().filter(|_| same > 0).unwrap_or(0))
    }

    /// Finds the segment that holds what comes next, by number; `false` if the files have changed meanwhile.
    fn locate(&mut self, log: &Log, chain: &[SegmentName]) -> Result<bool> {
        let next = Seq(self.read.seq.0 + 1);
        let (mut horizon, mut first) = (0, None);
        for name in chain.iter().rev() {
            let Some(active) = open(log, name)? else { return Ok(false) };
            horizon = horizon.max(active.header.horizon);
            first = Some(active.header.first_seq);
            if active.header.first_seq <= next.0 {
                if horizon >= next.0 {
                    return Err(trimmed(log, horizon + 1));
                }
                let at = Position::start_of(&active.header);
                self.reading = Some(Reading { active: Arc::new(active), at, sealed: false });
                return Ok(true);
            }
        }
        match first {
            Some(first) => Err(trimmed(log, first.max(horizon + 1))),
            None => Ok(false),
        }
    }

    /// Reads a part of what may be read.
    fn read_on(&mut self, log: &Log, ask: &Ask) -> Result<Step> {
        let Some(mut reading) = self.reading.take() else { return Ok(Step::Stale) };
        if reading.sealed {
            let Some(active) = ask.next.as_ref().map(|next| open(log, next)).transpose()?.flatten() else {
                return Ok(Step::Stale);
            };
            if active.header.horizon > self.read.seq.0 {
                return Err(trimmed(log, active.header.horizon + 1));
            }
            let at = Position::start_of(&active.header);
            self.reading = Some(Reading { active: Arc::new(active), at, sealed: false });
            return Ok(Step::On);
        }
        let mut bytes = std::mem::take(&mut self.bytes);
        let step = self.read_segment(&mut reading, ask, &mut bytes);
        self.bytes = bytes;
        self.reading = Some(reading);
        step
    }

    fn read_segment(&mut self, reading: &mut Reading, ask: &Ask, bytes: &mut Vec<u8>) -> Result<Step> {
        let active = Arc::clone(&reading.active);
        let header = &active.header;
        let mut part = READ_FIRST;
        loop {
            let origin = reading.at.offset;
            bytes.resize(part, 0);
            let n = read_full(&*active.file, bytes, origin).context("read", &active.path)?;
            let have = bytes.get(..n).unwrap_or_default();
            let mut scanner = Scanner::new(have, origin, &active.salt, header.max_body, reading.at);
            let stop = loop {
                match scanner.next_frame() {
                    Ok(located) => {
                        if !self.may_take(header, &located, ask) {
                            return Ok(Step::Done);
                        }
                        self.take(header, &located, ask);
                        reading.at = scanner.position();
                    }
                    Err(stop) => break stop,
                }
            };
            if let Stop::Sealed { .. } = stop {
                reading.sealed = true;
                return Ok(if self.queue.is_empty() { Step::On } else { Step::Done });
            }
            if !self.queue.is_empty() || reading.at.seq > ask.last.0 {
                return Ok(Step::Done);
            }
            match stop {
                // The part ended, not the file.
                Stop::NotAFrame(NotAFrame::End | NotAFrame::Short) if n == part => {
                    if reading.at.offset == origin {
                        part = part.saturating_mul(8);
                    }
                }
                _ => return Ok(Step::Stale),
            }
        }
    }

    fn may_take(&self, header: &SegmentHeader, located: &Located<'_>, ask: &Ask) -> bool {
        let frame = &located.frame.header;
        if let Content::Control(control) = &located.content
            && !matches!(control, Control::Gap { .. })
        {
            return true;
        }
        frame.seq <= ask.last.0 && (!self.durable_only || is_durable(header, located, ask))
    }

    fn take(&mut self, header: &SegmentHeader, located: &Located<'_>, ask: &Ask) {
        let frame = &located.frame.header;
        let last = Seq(frame.seq + u64::from(frame.count) - u64::from(frame.count > 0));
        match &located.content {
            // Seen before: the place was looked for from the segment's start. Of a commit nobody has seen a part only.
            Content::Commit(_) | Content::Ignored if frame.seq <= self.read.seq.0 => {
                if last > self.read.seq {
                    self.read = self.cursor_at(last);
                }
            }
            Content::Commit(commit) => {
                self.read = self.cursor_at(last);
                let durable =
                    if is_durable(header, located, ask) { ask.durable.max(last) } else { ask.durable };
                self.hand_out(frame.seq, commit, durable);
            }
            Content::Ignored if frame.count > 0 => self.read = self.cursor_at(last),
            Content::Control(Control::Gap { from, to }) if *to > self.read.seq.0 => {
                let from = self.lost.map_or(Seq(*from), |(from, _)| from);
                self.lost = Some((from, Seq(*to)));
                self.read = self.cursor_at(Seq(*to));
            }
            Content::Ignored | Content::Control(_) => {}
        }
    }

    fn hand_out(&mut self, first: u64, commit: &Commit<'_>, durable: Seq) {
        let events = commit.events().filter(|event| event.kind != EVENT_ELIDED);
        let events: Vec<_> = events
            .map(|event| DeliveredEvent {
                seq: event.seq,
                kind: event.kind,
                version: event.version,
                ignorable: event.ignorable,
                key: event.to_key(),
                revision: event.revision,
                blobs: event.blobs.chunks_exact(32).filter_map(|id| id.try_into().ok()).map(BlobId).collect(),
                body: event.body.into(),
            })
            .collect();
        if events.is_empty() {
            return;
        }
        self.queue.push_back(Delivery {
            first: Seq(first),
            cursor: self.read,
            time: commit.preamble.time,
            session: commit.preamble.session,
            op_id: commit.preamble.operation.map(|operation| operation.op_id),
            events,
            durable,
            lost_before: self.lost.take(),
        });
    }

    fn cursor_at(&self, seq: Seq) -> Cursor {
        let epoch = self.epochs.iter().rev().find(|(first, _)| *first <= seq).map_or(0, |(_, epoch)| *epoch);
        Cursor { seq, epoch }
    }
}

/// Whether a frame is known to be durable. All before the last segment is: it was synced before that was taken into use.
fn is_durable(header: &SegmentHeader, located: &Located<'_>, ask: &Ask) -> bool {
    let frame = &located.frame.header;
    let behind = header.lpos(located.offset + located.frame.len() as u64);
    let last = (frame.seq + u64::from(frame.count)).saturating_sub(1);
    ask.next.is_some() || last <= ask.durable.0 || behind <= ask.durable_lpos
}

/// Why the log does not go on behind the view's end, and where.
fn blocked(log: &Log, view: &View) -> (Option<ErrorKind>, std::path::PathBuf) {
    let told = |finding: &Finding| finding.file.clone();
    if let Some(finding) = &view.damage {
        return (Some(ErrorKind::Damaged(Box::new(finding.clone()))), told(finding));
    }
    if let Some(finding) = &view.too_new {
        let have = u64::from(super::super::format::LEVEL);
        let kind = ErrorKind::TooNew { what: finding.message.clone(), need: have + 1, have };
        return (Some(kind), told(finding));
    }
    (None, log.paths().log())
}

/// A segment of the log by its name; `None` if it is gone, or is not that segment.
fn open(log: &Log, name: &SegmentName) -> Result<Option<Active>> {
    let path = log.paths().segment(name);
    let file = match log.vfs.open(&path, Open::Read) {
        Ok(file) => file,
        // On Windows it may have been removed and still be open somewhere.
        Err(e) if matches!(e.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::PermissionDenied) => {
            return Ok(None);
        }
        Err(e) => return Err(Error::io(e, "open", &path)),
    };
    let mut head = [0; HEADER_LEN];
    let n = read_full(&*file, &mut head, 0).context("read", &path)?;
    let header = SegmentHeader::decode(head.get(..n).unwrap_or_default()).ok().filter(|header| {
        header.state == SegmentState::Live && header.log_id == log.id() && header.file_name() == *name
    });
    Ok(header.map(|header| Active::of(file, path, header)))
}

fn trimmed(log: &Log, first: u64) -> Error {
    Error::new(ErrorKind::Trimmed { first_available: Seq(first) }, "follow", &log.paths().log())
}

fn rewound(log: &Log, to: Seq) -> Error {
    Error::new(ErrorKind::Rewound { to }, "follow", &log.paths().log())
}

impl Log {
    /// Takes up what stands in the place of files that were read, whether the end has moved or not.
    fn look_at_files(&self) -> Result<()> {
        {
            let mut view = self.view.write();
            if view.chain_is_replaced(&*self.vfs, &self.paths)? {
                self.rebuild(&mut view)?.into_iter().for_each(|finding| self.note(finding));
            }
        }
        self.look_at_bytes()
    }
}
