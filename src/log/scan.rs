//! Walking a segment's bytes: frame after frame while length, CRC, link and seq agree, and what lies behind.
//!
//! Pure functions over bytes; they allocate nothing that the bytes do not hold.

use super::bytes::{Bytes, all_zero, content_len, u32_at};
use super::control_frame::{Control, Seal};
use super::envelope::{BadCommit, Commit};
use super::format::{FRAME_ALIGN, FRAME_HEADER_LEN, KIND_CONTROL, MAX_COUNT};
use super::frame::{self, Frame, FrameKind, NotAFrame, Salt};
use super::segment::{HEADER_LEN, SegmentHeader};

/// How many times the bytes behind the end the resync scan may compute CRCs over.
const CRC_BUDGET: usize = 16;
/// How far behind the number expected the resync scan believes a seq: more than a Gap or a segment can ever take.
const SEQ_REACH: u64 = 1 << 40;

/// Where a scan stands: an offset in the file and what the next frame there must say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// Offset in the file.
    pub offset: u64,
    /// The number its seq must be.
    pub seq: u64,
    /// The CRC its link must be.
    pub link: u32,
}

impl Position {
    /// Where the first frame of a live segment stands.
    pub fn start_of(header: &SegmentHeader) -> Self {
        Position { offset: HEADER_LEN as u64, seq: header.first_seq, link: header.prev_last_crc }
    }
}

/// What a frame that belongs here holds.
#[derive(Clone, Debug)]
pub enum Content<'a> {
    /// A commit.
    Commit(Commit<'a>),
    /// A control frame.
    Control(Control),
    /// A frame of an unknown kind that says it may be ignored.
    Ignored,
}

/// A frame that belongs here.
#[derive(Clone, Debug)]
pub struct Located<'a> {
    /// Its offset in the file.
    pub offset: u64,
    /// The frame.
    pub frame: Frame<'a>,
    /// Its body, read.
    pub content: Content<'a>,
}

/// Why a scan ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The bytes there are not a frame.
    NotAFrame(NotAFrame),
    /// A whole frame whose link is not the CRC of the frame before: left over, or from another time.
    Link {
        /// CRC of the frame before.
        expected: u32,
        /// What the frame says.
        found: u32,
    },
    /// A whole frame with another number than comes next.
    Seq {
        /// What comes next.
        expected: u64,
        /// What the frame says.
        found: u64,
    },
    /// A whole frame in its place whose body breaks the format: a faulty writer, never an accident.
    Body(&'static str),
    /// A whole frame in its place that a newer release wrote and that must not be ignored.
    TooNew {
        /// Frame kind, or flag bits.
        what: &'static str,
        /// Which.
        number: u16,
    },
    /// The segment ends with its Seal, as it should.
    Sealed {
        /// The Seal.
        seal: Seal,
        /// The CRC of its frame.
        crc: u32,
    },
}

/// Walks the frames of one segment.
#[derive(Clone, Debug)]
pub struct Scanner<'a> {
    bytes: &'a [u8],
    origin: u64,
    salt: &'a Salt,
    max_body: u32,
    at: Position,
    stop: Option<Stop>,
}

impl<'a> Scanner<'a> {
    /// A scan from `start`; `bytes` are the file's from offset `origin` ≤ `start.offset` to the end of what is there.
    pub fn new(bytes: &'a [u8], origin: u64, salt: &'a Salt, max_body: u32, start: Position) -> Self {
        Scanner { bytes, origin, salt, max_body, at: start, stop: None }
    }

    /// Where the scan stands.
    pub fn position(&self) -> Position {
        self.at
    }

    /// The next frame that belongs here.
    ///
    /// # Errors
    /// Why there is none; the same answer from then on. [`Stop::Sealed`] comes after the Seal was handed out.
    #[inline]
    pub fn next_frame(&mut self) -> Result<Located<'a>, Stop> {
        if let Some(stop) = self.stop {
            return Err(stop);
        }
        let found = self.look();
        match &found {
            Err(stop) => self.stop = Some(*stop),
            Ok(located) => {
                let header = &located.frame.header;
                let seq = match located.content {
                    Content::Control(Control::Gap { to, .. }) => to + 1,
                    _ => header.seq + u64::from(header.count),
                };
                self.at = Position {
                    offset: located.offset + located.frame.len() as u64,
                    seq,
                    link: located.frame.crc,
                };
                if let Content::Control(Control::Seal(seal)) = located.content {
                    self.stop = Some(Stop::Sealed { seal, crc: located.frame.crc });
                }
            }
        }
        found
    }

    #[inline]
    fn look(&self) -> Result<Located<'a>, Stop> {
        let from = usize::try_from(self.at.offset.saturating_sub(self.origin)).unwrap_or(usize::MAX);
        let bytes = self.bytes.get(from..).unwrap_or_default();
        let frame = frame::decode(bytes, self.salt, self.max_body).map_err(Stop::NotAFrame)?;
        let header = &frame.header;
        if header.link != self.at.link {
            return Err(Stop::Link { expected: self.at.link, found: header.link });
        }
        if header.seq != self.at.seq {
            return Err(Stop::Seq { expected: self.at.seq, found: header.seq });
        }
        let content = if header.kind == FrameKind::COMMIT {
            match Commit::decode(header.seq, header.count, frame.body) {
                Ok(commit) => Content::Commit(commit),
                Err(BadCommit::Rule(rule)) => return Err(Stop::Body(rule)),
                Err(BadCommit::Flags(bits)) => {
                    return Err(Stop::TooNew { what: "flag bits", number: bits.into() });
                }
            }
        } else if header.kind.is_known() {
            let control = Control::decode(header.kind, header.seq, frame.body);
            Content::Control(control.ok_or(Stop::Body("a control frame's body is malformed"))?)
        } else if header.kind.is_ignorable() {
            Content::Ignored
        } else {
            return Err(Stop::TooNew { what: "frame kind", number: header.kind.0 });
        };
        Ok(Located { offset: self.at.offset, frame, content })
    }
}

/// What lies behind the end of the frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Beyond {
    /// How many whole frames of this segment, with numbers not below the one expected, were found.
    pub frames: u32,
    /// The first of them: offset and seq.
    pub first: Option<(u64, u64)>,
    /// Offset behind the last of them.
    pub frames_end: u64,
    /// The highest event number they vouch for.
    pub vouched: u64,
    /// Offset behind the last byte that is not 0; the end of the frames if there is none.
    pub content_end: u64,
    /// Whether the bound on the work was met, so that frames which vouch for more may have been passed over.
    pub cut_short: bool,
}

/// Looks for whole frames behind the end, at every multiple of 8 (the resync scan).
///
/// Only raises what is vouched for, so a chance hit can make a log read-only but never cuts. Work is bounded: CRCs
/// over at most 16 times the bytes given. Candidates that no longer fit are passed over, and the answer says so;
/// only bytes made for it get that far.
pub fn beyond(bytes: &[u8], origin: u64, salt: &Salt, max_body: u32, end: Position) -> Beyond {
    let index = |offset: u64| usize::try_from(offset.saturating_sub(origin)).unwrap_or(usize::MAX);
    let tail = bytes.get(index(end.offset)..).unwrap_or_default();
    let content = content_len(tail);
    let mut found =
        Beyond { content_end: end.offset + content as u64, frames_end: end.offset, ..Beyond::default() };
    let mut budget = resync_budget(tail.len());
    let mut at = 0;
    // A frame may end in body and pad bytes that are 0, so candidates start before `content`, but read on past it.
    while at < content {
        let rest = tail.get(at..).unwrap_or_default();
        match plausible(rest, max_body, end.seq) {
            Some(len) if len > budget => found.cut_short = true,
            Some(len) => {
                budget -= len;
                if let Ok(frame) = frame::decode(rest, salt, max_body) {
                    let offset = end.offset + at as u64;
                    found.frames += 1;
                    found.first.get_or_insert((offset, frame.header.seq));
                    found.vouched = found.vouched.max(frame.header.vouches_for().unwrap_or(0));
                    at += frame.len();
                    found.frames_end = end.offset + at as u64;
                    continue;
                }
            }
            None => {}
        }
        at += FRAME_ALIGN;
    }
    found
}

/// The length of the frame that could start here, by its header's fields alone.
///
/// Numbers may jump: a Gap takes no room. So their bound is that of a Gap, not of what fits into the bytes.
fn plausible(bytes: &[u8], max_body: u32, seq_min: u64) -> Option<usize> {
    let body_len = u32_at(bytes, 0).filter(|len| (1..=max_body).contains(len))? as usize;
    let len = frame::frame_len(body_len);
    let mut fields = Bytes(bytes.get(8..FRAME_HEADER_LEN)?);
    let (seq, _link, kind, count) = (fields.u64()?, fields.u32()?, fields.u16()?, fields.u16()?);
    let seq_max = seq_min.saturating_add(SEQ_REACH);
    let count_fits = if kind & KIND_CONTROL == 0 { (1..=MAX_COUNT).contains(&count) } else { count == 0 };
    (len <= bytes.len() && count_fits && (seq_min..=seq_max).contains(&seq)).then_some(len)
}

/// All that [`super::classify`] needs to know of one segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Where the frames end: E, with the number n expected there.
    pub end: Position,
    /// Why they end.
    pub stop: Stop,
    /// How many frames belong.
    pub frames: u64,
    /// The highest event number that a frame before the end vouches for.
    pub vouched: u64,
    /// What lies behind the end; nothing is looked for behind a Seal.
    pub beyond: Beyond,
    /// Length of the file.
    pub len: u64,
}

/// Scans a whole live segment, handing each frame to `each`.
pub fn segment<'a>(
    bytes: &'a [u8],
    header: &SegmentHeader,
    salt: &'a Salt,
    each: impl FnMut(&Located<'a>),
) -> Summary {
    segment_from(bytes, 0, Position::start_of(header), header, salt, each)
}

/// The same from the frame at `start` on; `bytes` are the file's from offset `origin` ≤ `start.offset` on.
pub(super) fn segment_from<'a>(
    bytes: &'a [u8],
    origin: u64,
    start: Position,
    header: &SegmentHeader,
    salt: &'a Salt,
    mut each: impl FnMut(&Located<'a>),
) -> Summary {
    let mut scanner = Scanner::new(bytes, origin, salt, header.max_body, start);
    let (mut frames, mut vouched) = (0, 0);
    let stop = loop {
        match scanner.next_frame() {
            Ok(located) => {
                frames += 1;
                vouched = vouched.max(located.frame.header.vouches_for().unwrap_or(0));
                each(&located);
            }
            Err(stop) => break stop,
        }
    };
    let end = scanner.position();
    let beyond = match stop {
        Stop::Sealed { .. } => {
            Beyond { content_end: end.offset, frames_end: end.offset, ..Beyond::default() }
        }
        _ => beyond(bytes, origin, salt, header.max_body, end),
    };
    Summary { end, stop, frames, vouched, beyond, len: origin + bytes.len() as u64 }
}

/// Whether everything from an offset on is 0.
pub fn is_zero_from(bytes: &[u8], offset: usize) -> bool {
    bytes.get(offset..).is_none_or(all_zero)
}

/// The bytes that CRCs may be computed over while the whole frames of so many bytes are looked for.
pub fn resync_budget(len: usize) -> usize {
    len.saturating_mul(CRC_BUDGET)
}

/// The next whole frame at or behind `from` with a number not below the one expected there, as a place to go on from.
/// What it costs comes off the `budget` of the whole search, [`resync_budget`]; what no longer fits is passed over.
pub fn resync(
    bytes: &[u8],
    salt: &Salt,
    max_body: u32,
    from: Position,
    budget: &mut usize,
) -> Option<Position> {
    let start = usize::try_from(from.offset).ok()?;
    let tail = bytes.get(start..)?;
    for at in (0..tail.len()).step_by(FRAME_ALIGN) {
        let rest = tail.get(at..)?;
        let Some(left) = plausible(rest, max_body, from.seq).and_then(|len| budget.checked_sub(len)) else {
            continue;
        };
        *budget = left;
        if let Ok(frame) = frame::decode(rest, salt, max_body) {
            return Some(Position {
                offset: (start + at) as u64,
                seq: frame.header.seq,
                link: frame.header.link,
            });
        }
    }
    None
}

#[cfg(test)]
mod tests;
