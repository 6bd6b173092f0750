//! Makes segments: right ones with the library's codec, wrong ones by changing bytes and mending the checksums.

use foldlog::log::control_frame::Control;
use foldlog::log::envelope::{Envelope, KeyKind, Operation, Preamble};
use foldlog::log::format::LAG_NONE;
use foldlog::log::frame::{self, FrameHeader, FrameKind, Salt};
use foldlog::log::segment::{SegmentHeader, SegmentState};
use foldlog::log::{LogId, OpId, Revision, SegmentId, Seq};

use super::{Vector, Want};

pub(super) const LOG: LogId = LogId([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]);
pub(super) const SEGMENT: SegmentId = SegmentId(0x1122_3344_5566_7788);
pub(super) const TIME: u64 = 1_700_000_000_123_456;
pub(super) const VERSION: [u8; 16] = *b"0.1.0\0\0\0\0\0\0\0\0\0\0\0";
pub(super) const HEADER: u64 = 256;

pub(super) fn header() -> SegmentHeader {
    SegmentHeader {
        state: SegmentState::Live,
        compat: 0,
        ro_compat: 0,
        incompat: 0,
        generation: 0,
        log_id: LOG,
        segment_id: SEGMENT,
        stands_for: SEGMENT,
        ordinal_a: 1,
        ordinal_b: 1,
        first_seq: 1,
        base_lpos: 0,
        prev_segment_id: SegmentId(0),
        prev_last_seq: 0,
        prev_last_crc: 0,
        max_body: 4 << 20,
        horizon: 0,
        created: TIME,
        writer_version: VERSION,
    }
}

/// An event of a kind that this format does not know, about a task.
pub(super) fn event<'a>(kind: u16, key: &'a str, revision: u64, body: &'a [u8]) -> Envelope<'a> {
    Envelope {
        seq: Seq(0),
        takes: 1,
        kind,
        version: 1,
        ignorable: false,
        key_kind: if key.is_empty() { KeyKind::NONE } else { KeyKind::TASK },
        key,
        revision: Revision(revision),
        blobs: &[],
        body,
    }
}

pub(super) fn elided(n: &[u8; 2]) -> Envelope<'_> {
    event(0, "", 0, n)
}

pub(super) fn plain() -> Preamble {
    Preamble { time: TIME, session: 0, operation: None }
}

pub(super) fn with_operation() -> Preamble {
    let operation = Operation {
        op_id: OpId(*b"\xF0\xE1\xD2\xC3\xB4\xA5\x96\x87\x78\x69\x5A\x4B\x3C\x2D\x1E\x0F"),
        request_hash: [0x5A; 16],
        seen: Seq(0),
    };
    Preamble { time: TIME + 1, session: 0x0BAD_CAFE_F00D_D00D, operation: Some(operation) }
}

pub(super) fn commit_body(preamble: Preamble, events: &[Envelope<'_>]) -> Vec<u8> {
    let mut body = Vec::new();
    preamble.encode(&mut body);
    events.iter().for_each(|event| event.encode(&mut body));
    body
}

/// A segment under construction, with what the next frame must say.
pub(super) struct Seg {
    pub(super) header: SegmentHeader,
    pub(super) bytes: Vec<u8>,
    pub(super) seq: u64,
    pub(super) link: u32,
    pub(super) lag: u32,
}

impl Seg {
    pub(super) fn new() -> Self {
        Self::with(header())
    }

    pub(super) fn with(header: SegmentHeader) -> Self {
        let (seq, link) = (header.first_seq, header.prev_last_crc);
        Seg { bytes: header.encode().to_vec(), header, seq, link, lag: LAG_NONE }
    }

    /// Three one-event commits: the start of most faulty segments.
    pub(super) fn three() -> Self {
        let mut seg = Self::new();
        for n in 1..=3 {
            seg.commit(plain(), &[event(256, "t", n, b"sample")]);
        }
        seg
    }

    pub(super) fn salt(&self) -> Salt {
        self.header.salt()
    }

    pub(super) fn end(&self) -> u64 {
        self.bytes.len() as u64
    }

    pub(super) fn frame_header(&self, kind: FrameKind, count: u16) -> FrameHeader {
        FrameHeader {
            seq: self.seq,
            link: self.link,
            kind,
            count,
            durable_lag: self.lag,
            writer: 0xA5A5_0001,
        }
    }

    /// Appends a frame as it is told to, right or wrong.
    pub(super) fn raw(&mut self, header: FrameHeader, body: &[u8]) -> &mut Self {
        let salt = self.salt();
        self.link = frame::encode(&mut self.bytes, &salt, &header, body);
        self
    }

    pub(super) fn frame(&mut self, kind: FrameKind, count: u16, body: &[u8]) -> &mut Self {
        self.raw(self.frame_header(kind, count), body);
        self.seq += u64::from(count);
        self
    }

    pub(super) fn commit(&mut self, preamble: Preamble, events: &[Envelope<'_>]) -> &mut Self {
        let numbers = |e: &Envelope<'_>| match (e.kind, e.body) {
            (0, [low, high]) => u16::from_le_bytes([*low, *high]),
            _ => 1,
        };
        let count = events.iter().map(numbers).sum();
        self.frame(FrameKind::COMMIT, count, &commit_body(preamble, events))
    }

    pub(super) fn control(&mut self, control: &Control) -> &mut Self {
        let mut body = Vec::new();
        control.encode(&mut body);
        self.frame(control.kind(), 0, &body);
        if let Control::Gap { to, .. } = control {
            self.seq = to + 1;
        }
        self
    }

    pub(super) fn zeros(&mut self, n: usize) -> &mut Self {
        self.bytes.resize(self.bytes.len() + n, 0);
        self
    }

    /// A vector that reads to its end, from the bytes so far.
    pub(super) fn reads(&self, name: &str, end: u64, stop: &'static str, events: usize) -> Vector {
        vector(name, self.bytes.clone(), Want::Events { end, stop, events })
    }

    /// A vector that is refused, from the bytes so far.
    pub(super) fn refused(&self, name: &str, at: u64, code: &'static str) -> Vector {
        vector(name, self.bytes.clone(), Want::Refused { at, code })
    }
}

pub(super) fn vector(name: &str, bytes: Vec<u8>, want: Want) -> Vector {
    Vector { name: name.into(), kind: "seg", bytes, want }
}

/// The checksum of a frame, made without the library's.
pub(super) fn frame_crc(log: LogId, segment: SegmentId, frame: &[u8]) -> u32 {
    let mut all = log.0.to_vec();
    all.extend_from_slice(&segment.0.to_le_bytes());
    all.extend_from_slice(&frame[..4]);
    all.extend_from_slice(&frame[8..]);
    match crc32fast::hash(&all) {
        0 => u32::MAX,
        crc => crc,
    }
}

/// Writes the checksum that a frame's changed bytes need.
pub(super) fn mend(frame: &mut [u8]) {
    let crc = frame_crc(LOG, SEGMENT, frame);
    frame[4..8].copy_from_slice(&crc.to_le_bytes());
}

/// Writes the checksum that a header's changed bytes need.
pub(super) fn mend_header(header: &mut [u8]) {
    let crc = crc32fast::hash(&header[..252]);
    header[252..256].copy_from_slice(&crc.to_le_bytes());
}
