//! Segments: a log file's header and its name. `format-spec/format.md`, section *Segment*.

use std::fmt;

use super::bytes::{Bytes, all_zero, put};
use super::format::{
    FORMAT, MAX_BODY_CAP, SEGMENT_CRC_AT, SEGMENT_HEADER_LEN, SEGMENT_MAGIC, STATE_LIVE, STATE_PREPARED,
};
use super::frame::Salt;
use super::{LogId, SegmentId};

/// Length of the header in bytes, as the index type.
pub(crate) const HEADER_LEN: usize = SEGMENT_HEADER_LEN as usize;

/// Whether a segment has been taken into use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentState {
    /// Complete but for what its Seal tells; no frame in it counts.
    Prepared,
    /// In use, or sealed.
    Live,
}

/// A segment's header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentHeader {
    /// Prepared or live.
    pub state: SegmentState,
    /// Features that any reader and writer may ignore.
    pub compat: u32,
    /// Features that a reader may ignore and a writer must know.
    pub ro_compat: u32,
    /// Features that everybody must know; the codec is among them.
    pub incompat: u32,
    /// 0 as written; compaction and repair make higher ones that cover the same ordinals.
    pub generation: u32,
    /// Which log it belongs to.
    pub log_id: LogId,
    /// Random, never used again.
    pub segment_id: SegmentId,
    /// Id of the first segment it replaces, else its own: the id by which the Seal before it is answered.
    pub stands_for: SegmentId,
    /// First ordinal it covers.
    pub ordinal_a: u64,
    /// Last ordinal it covers.
    pub ordinal_b: u64,
    /// Number of its first event.
    pub first_seq: u64,
    /// lpos of its first frame.
    pub base_lpos: u64,
    /// Id of the segment before it (0: none).
    pub prev_segment_id: SegmentId,
    /// Last event number in the segment before it.
    pub prev_last_seq: u64,
    /// CRC of the last frame in the segment before it; its first frame's link.
    pub prev_last_crc: u32,
    /// Largest body a frame in it may have.
    pub max_body: u32,
    /// Last event number that compaction judged; 0 unless compacted.
    pub horizon: u64,
    /// When it was made, µs since 1970 UTC.
    pub created: u64,
    /// The release that made it.
    pub writer_version: [u8; 16],
}

/// Why bytes are not a usable segment header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadHeader {
    /// Fewer bytes than a header.
    Short,
    /// Other first bytes: not a segment, or copied in text mode.
    Magic,
    /// A format this release does not know (the CRC is not looked at: it may be elsewhere there).
    Format(u16),
    /// The CRC does not check.
    Crc {
        /// As computed.
        computed: u32,
        /// As stored.
        stored: u32,
    },
    /// The CRC checks, yet a field breaks the format's rules.
    Rule(&'static str),
    /// It needs features this release does not know.
    Incompat(u32),
}

impl BadHeader {
    /// Whether a newer release wrote it: then it is neither torn nor damaged, and not to be touched.
    pub fn is_too_new(self) -> bool {
        matches!(self, BadHeader::Format(_) | BadHeader::Incompat(_))
    }
}

impl fmt::Display for BadHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadHeader::Short => f.write_str("shorter than a segment header"),
            BadHeader::Magic => {
                f.write_str("the first bytes are not a segment's (another file, or a text-mode copy)")
            }
            BadHeader::Format(n) => write!(f, "format {n}, this release knows {FORMAT}"),
            BadHeader::Crc { computed, stored } => {
                write!(f, "header checksum {stored:08x}, computed {computed:08x}")
            }
            BadHeader::Rule(rule) => write!(f, "header breaks the format: {rule}"),
            BadHeader::Incompat(bits) => write!(f, "needs unknown features {bits:#x}"),
        }
    }
}

impl SegmentHeader {
    /// The CRC salt of its frames.
    pub fn salt(&self) -> Salt {
        Salt::new(self.log_id, self.segment_id)
    }

    /// lpos of an offset in its file.
    pub fn lpos(&self, offset: u64) -> u64 {
        self.base_lpos.saturating_add(offset.saturating_sub(u64::from(SEGMENT_HEADER_LEN)))
    }

    /// Offset in its file of an lpos.
    pub fn offset(&self, lpos: u64) -> u64 {
        lpos.saturating_sub(self.base_lpos).saturating_add(u64::from(SEGMENT_HEADER_LEN))
    }

    /// The 256 bytes on disk.
    pub fn encode(&self) -> [u8; HEADER_LEN] {
        let mut out = [0; HEADER_LEN];
        let state = match self.state {
            SegmentState::Prepared => STATE_PREPARED,
            SegmentState::Live => STATE_LIVE,
        };
        put(&mut out, 0, &SEGMENT_MAGIC);
        put(&mut out, 8, &SEGMENT_HEADER_LEN.to_le_bytes());
        put(&mut out, 10, &FORMAT.to_le_bytes());
        put(&mut out, 12, &state.to_le_bytes());
        put(&mut out, 16, &self.compat.to_le_bytes());
        put(&mut out, 20, &self.ro_compat.to_le_bytes());
        put(&mut out, 24, &self.incompat.to_le_bytes());
        put(&mut out, 28, &self.generation.to_le_bytes());
        put(&mut out, 32, &self.log_id.0);
        put(&mut out, 48, &self.segment_id.0.to_le_bytes());
        put(&mut out, 56, &self.stands_for.0.to_le_bytes());
        put(&mut out, 64, &self.ordinal_a.to_le_bytes());
        put(&mut out, 72, &self.ordinal_b.to_le_bytes());
        put(&mut out, 80, &self.first_seq.to_le_bytes());
        put(&mut out, 88, &self.base_lpos.to_le_bytes());
        put(&mut out, 96, &self.prev_segment_id.0.to_le_bytes());
        put(&mut out, 104, &self.prev_last_seq.to_le_bytes());
        put(&mut out, 112, &self.prev_last_crc.to_le_bytes());
        put(&mut out, 116, &self.max_body.to_le_bytes());
        put(&mut out, 120, &self.horizon.to_le_bytes());
        put(&mut out, 128, &self.created.to_le_bytes());
        put(&mut out, 136, &self.writer_version);
        let crc = crc32fast::hash(out.get(..SEGMENT_CRC_AT).unwrap_or_default());
        put(&mut out, SEGMENT_CRC_AT, &crc.to_le_bytes());
        out
    }

    /// Reads a header from the first bytes of a file.
    ///
    /// # Errors
    /// [`BadHeader`]; unknown `ro_compat` bits are no error here, a writer must look at them.
    pub fn decode(bytes: &[u8]) -> Result<Self, BadHeader> {
        let head = bytes.first_chunk::<HEADER_LEN>().ok_or(BadHeader::Short)?;
        Self::fields(head).ok_or(BadHeader::Short)?
    }

    fn fields(head: &[u8; HEADER_LEN]) -> Option<Result<Self, BadHeader>> {
        let mut b = Bytes(head);
        if b.array::<8>()? != SEGMENT_MAGIC {
            return Some(Err(BadHeader::Magic));
        }
        let (header_len, format) = (b.u16()?, b.u16()?);
        if format != FORMAT {
            return Some(Err(BadHeader::Format(format)));
        }
        let (before, stored) = head.split_last_chunk::<4>()?;
        let (computed, stored) = (crc32fast::hash(before), u32::from_le_bytes(*stored));
        if computed != stored {
            return Some(Err(BadHeader::Crc { computed, stored }));
        }
        let (state, zero) = (b.u16()?, b.u16()?);
        let header = SegmentHeader {
            state: match state {
                STATE_PREPARED => SegmentState::Prepared,
                STATE_LIVE => SegmentState::Live,
                _ => return Some(Err(BadHeader::Rule("unknown state"))),
            },
            compat: b.u32()?,
            ro_compat: b.u32()?,
            incompat: b.u32()?,
            generation: b.u32()?,
            log_id: LogId(b.array()?),
            segment_id: SegmentId(b.u64()?),
            stands_for: SegmentId(b.u64()?),
            ordinal_a: b.u64()?,
            ordinal_b: b.u64()?,
            first_seq: b.u64()?,
            base_lpos: b.u64()?,
            prev_segment_id: SegmentId(b.u64()?),
            prev_last_seq: b.u64()?,
            prev_last_crc: b.u32()?,
            max_body: b.u32()?,
            horizon: b.u64()?,
            created: b.u64()?,
            writer_version: b.array()?,
        };
        let rest = b.take(SEGMENT_CRC_AT - 152)?;
        Some(match () {
            () if header.incompat != 0 => Err(BadHeader::Incompat(header.incompat)),
            () if header_len != SEGMENT_HEADER_LEN => Err(BadHeader::Rule("header_len is not 256")),
            () if zero != 0 || !all_zero(rest) => Err(BadHeader::Rule("reserved bytes are not zero")),
            () if header.max_body == 0 || header.max_body > MAX_BODY_CAP => {
                Err(BadHeader::Rule("max_body out of range"))
            }
            () if header.ordinal_a == 0 || header.ordinal_b < header.ordinal_a => {
                Err(BadHeader::Rule("ordinals out of range"))
            }
            () if header.state == SegmentState::Live && header.first_seq == 0 => {
                Err(BadHeader::Rule("first_seq is 0"))
            }
            () => Ok(header),
        })
    }

    /// The name its file must have.
    pub fn file_name(&self) -> SegmentName {
        SegmentName {
            ordinal_a: self.ordinal_a,
            ordinal_b: self.ordinal_b,
            generation: self.generation,
            id: self.segment_id,
        }
    }
}

/// A segment's file name: `<a>-<b>-g<generation>-<id>.seg`, ordinals of at least ten digits, id of 16 hex digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SegmentName {
    /// First ordinal.
    pub ordinal_a: u64,
    /// Last ordinal.
    pub ordinal_b: u64,
    /// Generation.
    pub generation: u32,
    /// Segment id.
    pub id: SegmentId,
}

impl SegmentName {
    /// Whether it has all ordinals that another one has.
    pub(crate) fn covers(&self, other: &SegmentName) -> bool {
        self.ordinal_a <= other.ordinal_a && self.ordinal_b >= other.ordinal_b
    }

    /// Reads a file name; `None` if it is not exactly one that [`fmt::Display`] makes.
    pub fn parse(name: &str) -> Option<Self> {
        let mut parts = name.strip_suffix(".seg")?.split('-');
        let (a, b, g, id) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let parsed = SegmentName {
            ordinal_a: a.parse().ok()?,
            ordinal_b: b.parse().ok()?,
            generation: g.strip_prefix('g')?.parse().ok()?,
            id: SegmentId(u64::from_str_radix(id, 16).ok()?),
        };
        (parts.next().is_none() && parsed.to_string() == name).then_some(parsed)
    }
}

impl fmt::Display for SegmentName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SegmentName { ordinal_a, ordinal_b, generation, id } = self;
        write!(f, "{ordinal_a:010}-{ordinal_b:010}-g{generation}-{id}.seg")
    }
}

#[cfg(test)]
mod tests;
