//! Bodies of the control frames. `format-spec/format.md`, section *Control frames*.

use super::SegmentId;
use super::bytes::Bytes;
use super::frame::FrameKind;

/// A control frame's body, read whole: nothing may be left over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Control {
    /// A new epoch starts at the frame's seq.
    Epoch {
        /// Its random number; never 0.
        epoch: u64,
    },
    /// The log goes on in another segment.
    Seal(Seal),
    /// What the frame's watermark vouches for has been synced.
    Mark {
        /// When, µs since 1970 UTC.
        time: u64,
    },
    /// Healing cut something here.
    RecoveryMark(RecoveryMark),
    /// Repair could not save these numbers.
    Gap {
        /// First lost number; the frame's seq.
        from: u64,
        /// Last lost number; the next frame starts at `to + 1`.
        to: u64,
    },
}

/// The end of a segment: all that its successor's header needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seal {
    /// Id of the successor.
    pub next_segment_id: SegmentId,
    /// Number of the successor's first event.
    pub next_first_seq: u64,
    /// lpos of the successor's first frame.
    pub next_base_lpos: u64,
    /// The id as which the successor's header knows this file.
    pub segment_id: SegmentId,
    /// The last seq as which the successor's header knows this file.
    pub last_seq: u64,
    /// The last CRC as which the successor's header knows this file; 0 = this frame's own.
    pub last_crc: u32,
}

impl Seal {
    /// The CRC as which the successor's header knows the sealed file; `crc` is that of the Seal's own frame.
    pub fn crc_for_successor(&self, crc: u32) -> u32 {
        if self.last_crc == 0 { crc } else { self.last_crc }
    }
}

/// What healing cut, and where the bytes are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecoveryMark {
    /// lpos of the first byte that was cut.
    pub at_lpos: u64,
    /// How many bytes were set aside.
    pub bytes: u64,
    /// How many whole frames were among them.
    pub frames: u32,
    /// The first event number that was cut (numbers from here on are given out again, in a new epoch).
    pub first_seq: u64,
    /// Code of the verdict ([`super::classify::Verdict::code`]).
    pub verdict: u16,
    /// Name of the note in `quarantine/`.
    pub note: String,
}

impl Control {
    /// The frame kind it belongs in.
    pub fn kind(&self) -> FrameKind {
        match self {
            Control::Epoch { .. } => FrameKind::EPOCH,
            Control::Seal(_) => FrameKind::SEAL,
            Control::Mark { .. } => FrameKind::MARK,
            Control::RecoveryMark(_) => FrameKind::RECOVERY_MARK,
            Control::Gap { .. } => FrameKind::GAP,
        }
    }

    /// Appends the body.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Control::Epoch { epoch } => out.extend_from_slice(&epoch.to_le_bytes()),
            Control::Seal(seal) => {
                out.extend_from_slice(&seal.next_segment_id.0.to_le_bytes());
                out.extend_from_slice(&seal.next_first_seq.to_le_bytes());
                out.extend_from_slice(&seal.next_base_lpos.to_le_bytes());
                out.extend_from_slice(&seal.segment_id.0.to_le_bytes());
                out.extend_from_slice(&seal.last_seq.to_le_bytes());
                out.extend_from_slice(&seal.last_crc.to_le_bytes());
            }
            Control::Mark { time } => out.extend_from_slice(&time.to_le_bytes()),
            Control::RecoveryMark(mark) => {
                out.extend_from_slice(&mark.at_lpos.to_le_bytes());
                out.extend_from_slice(&mark.bytes.to_le_bytes());
                out.extend_from_slice(&mark.frames.to_le_bytes());
                out.extend_from_slice(&mark.first_seq.to_le_bytes());
                out.extend_from_slice(&mark.verdict.to_le_bytes());
                out.extend_from_slice(&u16::try_from(mark.note.len()).unwrap_or(u16::MAX).to_le_bytes());
                out.extend_from_slice(mark.note.as_bytes());
            }
            Control::Gap { from, to } => {
                out.extend_from_slice(&from.to_le_bytes());
                out.extend_from_slice(&to.to_le_bytes());
            }
        }
    }

    /// Reads the body of a frame of a known control kind at `seq`; `None` if it breaks the format.
    pub fn decode(kind: FrameKind, seq: u64, body: &[u8]) -> Option<Self> {
        let mut b = Bytes(body);
        let control = match kind {
            // 0 is how a cursor says "before the first epoch".
            FrameKind::EPOCH => Control::Epoch { epoch: b.u64().filter(|epoch| *epoch != 0)? },
            FrameKind::SEAL => Control::Seal(Seal {
                next_segment_id: SegmentId(b.u64()?),
                next_first_seq: b.u64()?,
                next_base_lpos: b.u64()?,
                segment_id: SegmentId(b.u64()?),
                last_seq: b.u64()?,
                last_crc: b.u32()?,
            }),
            FrameKind::MARK => Control::Mark { time: b.u64()? },
            FrameKind::RECOVERY_MARK => {
                let (at_lpos, bytes, frames, first_seq) = (b.u64()?, b.u64()?, b.u32()?, b.u64()?);
                let (verdict, len) = (b.u16()?, b.u16()?);
                let note = str::from_utf8(b.take(len.into())?).ok()?.to_owned();
                Control::RecoveryMark(RecoveryMark { at_lpos, bytes, frames, first_seq, verdict, note })
            }
            FrameKind::GAP => {
                let (from, to) = (b.u64()?, b.u64()?);
                if from != seq || to < from || to == u64::MAX {
                    return None;
                }
                Control::Gap { from, to }
            }
            _ => return None,
        };
        b.is_empty().then_some(control)
    }
}

#[cfg(test)]
mod tests;
