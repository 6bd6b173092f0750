//! What the end of the frames means: a clean end, a torn tail, or damage. One pure function.
//!
//! E is the first offset where length, CRC, link or seq fail, n the number expected there. W is the highest number
//! that anything valid vouches for as durable. **n ≤ W, or E below a durable position: damage. Otherwise torn** - but
//! anything invalid before the end of an earlier segment is damage whatever n is. `format-spec/recovery.md`.

use std::fmt;

use super::frame::NotAFrame;
use super::scan::{Stop, Summary};

/// What the end of a segment's frames is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Verdict {
    /// The file ends with its last frame, or with its Seal.
    CleanEnd,
    /// Only zeros follow. Nothing to cut.
    NulTail,
    /// Torn: the file ends inside a frame.
    ShortFrame,
    /// Torn: the bytes of a frame do not check.
    TornFrame,
    /// Torn: whole frames, never acknowledged as durable, lie behind a hole.
    HoleThenValid,
    /// Torn: a whole frame that does not belong here (left over from another time).
    StaleForeign,
    /// Damage: acknowledged data no longer checks.
    Corrupt,
    /// Damage: a segment that the one before it names, or that others enclose, is not there.
    MissingSegment,
    /// Damage: the end lies below what is known to have been durable, and nothing is left of the rest.
    MissingTail,
    /// A frame that a newer release wrote; this one must not go on, nor write.
    TooNew,
}

impl Verdict {
    /// Its stable name.
    pub fn as_str(self) -> &'static str {
        match self {
            Verdict::CleanEnd => "clean-end",
            Verdict::NulTail => "nul-tail",
            Verdict::ShortFrame => "short-frame",
            Verdict::TornFrame => "torn-frame",
            Verdict::HoleThenValid => "hole-then-valid",
            Verdict::StaleForeign => "stale-foreign",
            Verdict::Corrupt => "corrupt",
            Verdict::MissingSegment => "missing-segment",
            Verdict::MissingTail => "missing-tail",
            Verdict::TooNew => "too-new",
        }
    }

    /// Its number in a RecoveryMark.
    pub fn code(self) -> u16 {
        match self {
            Verdict::CleanEnd => 0,
            Verdict::NulTail => 1,
            Verdict::ShortFrame => 2,
            Verdict::TornFrame => 3,
            Verdict::HoleThenValid => 4,
            Verdict::StaleForeign => 5,
            Verdict::Corrupt => 6,
            Verdict::MissingSegment => 7,
            Verdict::MissingTail => 8,
            Verdict::TooNew => 9,
        }
    }

    /// Whether acknowledged data is damaged or missing: nothing is ever cut or written then.
    pub fn is_damage(self) -> bool {
        matches!(self, Verdict::Corrupt | Verdict::MissingSegment | Verdict::MissingTail)
    }

    /// Whether a lock holder cuts what follows.
    pub fn is_torn(self) -> bool {
        matches!(
            self,
            Verdict::ShortFrame | Verdict::TornFrame | Verdict::HoleThenValid | Verdict::StaleForeign
        )
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Where a segment stands in its log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The last live one: only here can a tail be torn.
    Last,
    /// A live successor follows, written after this one was synced whole.
    Earlier {
        /// Whether the successor's header names this segment's end.
        successor_fits: bool,
    },
    /// It is sealed, but the successor that its Seal names has no file.
    SuccessorMissing,
}

/// What speaks for durability besides the segment's own frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hints {
    /// The highest event number that other segments, or a snapshot, vouch for.
    pub vouched: u64,
    /// The control block's durable word, as an offset in this file; `None` if it is absent or fails its check.
    pub durable_offset: Option<u64>,
}

/// Says what the end of a segment's frames is.
pub fn classify(scan: &Summary, place: Place, hints: Hints) -> Verdict {
    let end = scan.end;
    let vouched = scan.vouched.max(scan.beyond.vouched).max(hints.vouched);
    // Where the search for frames that vouch was cut short, nothing proves that the end is merely torn.
    let acknowledged = end.seq <= vouched
        || hints.durable_offset.is_some_and(|durable| durable > end.offset)
        || scan.beyond.cut_short;
    if let Stop::Sealed { .. } = scan.stop {
        return match place {
            Place::Last if acknowledged => Verdict::MissingTail,
            Place::Last | Place::Earlier { successor_fits: true } => Verdict::CleanEnd,
            Place::Earlier { successor_fits: false } => Verdict::Corrupt,
            Place::SuccessorMissing => Verdict::MissingSegment,
        };
    }
    if let Stop::TooNew { .. } = scan.stop {
        return Verdict::TooNew;
    }
    let nothing_left = scan.beyond.content_end <= end.offset;
    // A frame whose CRC checks but which breaks the format was written so; no accident makes one.
    let faulty = matches!(scan.stop, Stop::Body(_) | Stop::NotAFrame(NotAFrame::Rule(_)));
    match place {
        Place::Last if acknowledged && nothing_left => Verdict::MissingTail,
        Place::Last if acknowledged || faulty => Verdict::Corrupt,
        Place::Last if nothing_left && scan.len > end.offset => Verdict::NulTail,
        Place::Last if nothing_left => Verdict::CleanEnd,
        Place::Last
            if scan.beyond.frames > 0 && scan.beyond.first.is_some_and(|(offset, _)| offset > end.offset) =>
        {
            Verdict::HoleThenValid
        }
        Place::Last => match scan.stop {
            Stop::Link { .. } | Stop::Seq { .. } => Verdict::StaleForeign,
            Stop::NotAFrame(NotAFrame::Short) => Verdict::ShortFrame,
            _ => Verdict::TornFrame,
        },
        Place::Earlier { .. } | Place::SuccessorMissing if nothing_left => Verdict::MissingTail,
        Place::Earlier { .. } | Place::SuccessorMissing => Verdict::Corrupt,
    }
}

#[cfg(test)]
mod tests;
