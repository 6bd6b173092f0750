//! Frames: the unit that is written, checked and kept or lost as a whole.
//!
//! ```text
//! 0        4     8          16     20     22      24            28       32
//! body_len crc   seq        link   kind   count   durable_lag   writer   body … zeros to a multiple of 8
//! ```
//! `format-spec/format.md`, section *Frame*.

use super::bytes::{Bytes, all_zero, put};
use super::format::{FRAME_ALIGN, FRAME_HEADER_LEN, KIND_CONTROL, KIND_IGNORABLE, LAG_NONE, MAX_COUNT};
use super::{LogId, SegmentId};

/// A frame's kind: what its body is. Open set; bit 15 says ignorable, bit 14 control.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FrameKind(pub u16);

impl FrameKind {
    /// A commit: a preamble and its events.
    pub const COMMIT: FrameKind = FrameKind(super::format::KIND_COMMIT);
    /// A new epoch.
    pub const EPOCH: FrameKind = FrameKind(super::format::KIND_EPOCH);
    /// The end of a segment.
    pub const SEAL: FrameKind = FrameKind(super::format::KIND_SEAL);
    /// The watermark after a quiet second.
    pub const MARK: FrameKind = FrameKind(super::format::KIND_MARK);
    /// What healing cut.
    pub const RECOVERY_MARK: FrameKind = FrameKind(super::format::KIND_RECOVERY_MARK);
    /// Numbers that repair could not save.
    pub const GAP: FrameKind = FrameKind(super::format::KIND_GAP);

    /// Whether it takes no event numbers.
    pub fn is_control(self) -> bool {
        self.0 & KIND_CONTROL != 0
    }

    /// Whether a reader that does not know it may step over it.
    pub fn is_ignorable(self) -> bool {
        self.0 & KIND_IGNORABLE != 0
    }

    /// Whether this release knows it.
    pub fn is_known(self) -> bool {
        [Self::COMMIT, Self::EPOCH, Self::SEAL, Self::MARK, Self::RECOVERY_MARK, Self::GAP].contains(&self)
    }
}

/// A frame's header, without length and CRC, which follow from the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    /// Number of the first event; in a control frame, of the next event.
    pub seq: u64,
    /// CRC of the frame before.
    pub link: u32,
    /// What the body is.
    pub kind: FrameKind,
    /// How many numbers it takes.
    pub count: u16,
    /// `seq` minus the durable seq known to the writer; [`LAG_NONE`] vouches for nothing.
    pub durable_lag: u32,
    /// Random per open handle of a writer.
    pub writer: u32,
}

impl FrameHeader {
    /// The highest event number this frame vouches for as durable; `None` if for none.
    pub fn vouches_for(&self) -> Option<u64> {
        // No writer knows its own event to be durable before it is written: a lag of 0 says no more than 1 does.
        (self.durable_lag != LAG_NONE).then(|| self.seq.saturating_sub(u64::from(self.durable_lag.max(1))))
    }
}

/// `durable_lag` for a frame at `seq` whose writer knows that everything up to `durable` is durable.
pub fn durable_lag(seq: u64, durable: u64) -> u32 {
    u32::try_from(seq.saturating_sub(durable)).unwrap_or(LAG_NONE)
}

/// What every CRC of a segment starts from: the log and the segment, so that foreign or stale bytes never check.
#[derive(Clone, Debug)]
pub struct Salt(crc32fast::Hasher);

impl Salt {
    /// The salt of one segment.
    pub fn new(log: LogId, segment: SegmentId) -> Self {
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&log.0);
        hasher.update(&segment.0.to_le_bytes());
        Salt(hasher)
    }

    /// CRC of a frame (with anything in its CRC field) from its first byte to its last, pad included. Never 0.
    fn crc(&self, frame: &[u8]) -> u32 {
        // Header and body in one run: short updates cost more than their bytes.
        let (length, rest) = frame.split_at_checked(4).unwrap_or_default();
        self.crc_of(length, rest.get(4..).unwrap_or_default())
    }

    fn crc_of(&self, length: &[u8], rest: &[u8]) -> u32 {
        let mut hasher = self.0.clone();
        if !length.is_empty() {
            hasher.update(length);
        }
        hasher.update(rest);
        #[cfg(test)]
        tests::CRC_BYTES.with(|n| n.set(n.get() + length.len() + rest.len() + 4));
        match hasher.finalize() {
            0 => u32::MAX,
            crc => crc,
        }
    }
}

/// Length on disk of a frame with this body.
pub const fn frame_len(body_len: usize) -> usize {
    FRAME_HEADER_LEN + body_len.next_multiple_of(FRAME_ALIGN)
}

/// Appends a frame to `out`, its body written by `body`, and returns its CRC.
///
/// The caller keeps to the format's limits: body not empty and within `max_body`, count as the kind demands.
pub fn encode_with(
    out: &mut Vec<u8>,
    salt: &Salt,
    header: &FrameHeader,
    body: impl FnOnce(&mut Vec<u8>),
) -> u32 {
    let start = out.len();
    out.extend_from_slice(&[0; FRAME_HEADER_LEN]);
    body(out);
    let body_len = out.len() - start - FRAME_HEADER_LEN;
    debug_assert!(body_len > 0, "a frame's body is never empty");
    out.resize(start + frame_len(body_len), 0);
    let length = u32::try_from(body_len).unwrap_or(u32::MAX).to_le_bytes();
    let mut head = [0; FRAME_HEADER_LEN];
    // In the place of the CRC, which is not known yet: so all that the CRC is of lies in one run.
    put(&mut head, 4, &length);
    put(&mut head, 8, &header.seq.to_le_bytes());
    put(&mut head, 16, &header.link.to_le_bytes());
    put(&mut head, 20, &header.kind.0.to_le_bytes());
    put(&mut head, 22, &header.count.to_le_bytes());
    put(&mut head, 24, &header.durable_lag.to_le_bytes());
    put(&mut head, 28, &header.writer.to_le_bytes());
    put(out, start, &head);
    let crc = salt.crc_of(&[], out.get(start + 4..).unwrap_or_default());
    put(out, start, &length);
    put(out, start + 4, &crc.to_le_bytes());
    crc
}

/// [`encode_with`] for a body that is already there.
pub fn encode(out: &mut Vec<u8>, salt: &Salt, header: &FrameHeader, body: &[u8]) -> u32 {
    encode_with(out, salt, header, |out| out.extend_from_slice(body))
}

/// A frame whose own bytes check: length, CRC, pad and count. Whether it belongs here (link, seq) is the scanner's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Its header.
    pub header: FrameHeader,
    /// Its CRC.
    pub crc: u32,
    /// Its body, without pad.
    pub body: &'a [u8],
}

impl Frame<'_> {
    /// Its length on disk.
    pub fn len(&self) -> usize {
        frame_len(self.body.len())
    }

    /// Never: a frame has a header.
    pub fn is_empty(&self) -> bool {
        false
    }
}

/// Why the bytes at an offset are not a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotAFrame {
    /// The bytes end exactly here.
    End,
    /// The next header's length is 0, or less than a header remains and all of it is 0: the log ends here.
    Zero,
    /// The bytes end inside the header, or the stated length goes beyond them.
    Short,
    /// The stated length is over `max_body`.
    Length(u32),
    /// The CRC does not check.
    Crc {
        /// As computed.
        computed: u32,
        /// As stored.
        stored: u32,
    },
    /// The CRC checks, yet pad or count break the format's rules: a faulty writer, never an accident.
    Rule(&'static str),
}

/// Reads the frame at the start of `bytes`, which reach to the end of what is there. Allocates nothing.
///
/// # Errors
/// Why there is no frame; see [`NotAFrame`].
#[inline]
pub fn decode<'a>(bytes: &'a [u8], salt: &Salt, max_body: u32) -> Result<Frame<'a>, NotAFrame> {
    if bytes.is_empty() {
        return Err(NotAFrame::End);
    }
    let Some((head, _)) = bytes.split_first_chunk::<FRAME_HEADER_LEN>() else {
        return Err(if all_zero(bytes) { NotAFrame::Zero } else { NotAFrame::Short });
    };
    let mut fields = Bytes(head);
    let mut field = || -> Option<(u32, u32, FrameHeader)> {
        let (body_len, crc) = (fields.u32()?, fields.u32()?);
        let header = FrameHeader {
            seq: fields.u64()?,
            link: fields.u32()?,
            kind: FrameKind(fields.u16()?),
            count: fields.u16()?,
            durable_lag: fields.u32()?,
            writer: fields.u32()?,
        };
        Some((body_len, crc, header))
    };
    let (body_len, stored, header) = field().ok_or(NotAFrame::Short)?;
    if body_len == 0 {
        return Err(NotAFrame::Zero);
    }
    if body_len > max_body {
        return Err(NotAFrame::Length(body_len));
    }
    let body_len = body_len as usize;
    let whole = bytes.get(..frame_len(body_len)).ok_or(NotAFrame::Short)?;
    let computed = salt.crc(whole);
    if computed != stored {
        return Err(NotAFrame::Crc { computed, stored });
    }
    let (body, pad) = whole.split_at(FRAME_HEADER_LEN).1.split_at(body_len);
    if !all_zero(pad) {
        return Err(NotAFrame::Rule("pad is not zero"));
    }
    match (header.kind.is_control(), header.count) {
        (true, 0) => {}
        (true, _) => return Err(NotAFrame::Rule("control frame with a count")),
        (false, 1..=MAX_COUNT) => {}
        (false, _) => return Err(NotAFrame::Rule("count is not 1 to 4096")),
    }
    if header.seq.checked_add(u64::from(header.count)).is_none() {
        return Err(NotAFrame::Rule("event numbers overflow"));
    }
    Ok(Frame { header, crc: stored, body })
}

/// The CRC of the last of the frames that these bytes are, one linked to the next, with nothing left over: `Some(None)`
/// if there are no bytes, `None` if they are not that.
pub(crate) fn last_crc_of_chain(mut bytes: &[u8], salt: &Salt, max_body: u32) -> Option<Option<u32>> {
    let mut last = None;
    while !bytes.is_empty() {
        let frame = decode(bytes, salt, max_body).ok()?;
        if last.is_some_and(|crc| crc != frame.header.link) {
            return None;
        }
        last = Some(frame.crc);
        bytes = bytes.get(frame.len()..)?;
    }
    Some(last)
}

#[cfg(test)]
pub(crate) mod tests;
