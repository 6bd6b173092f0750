//! A segment built frame by frame, with a note of what every byte belongs to. Tests of damage judge by these notes.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use foldlog::log::control_frame::Control;
use foldlog::log::envelope::{Envelope, KeyKind, Operation, Preamble};
use foldlog::log::format::{LAG_NONE, MAX_BODY};
use foldlog::log::frame::{FrameHeader, FrameKind, Salt, encode};
use foldlog::log::segment::{SegmentHeader, SegmentState};
use foldlog::log::{LogId, OpId, Revision, SegmentId, Seq};

/// Length of a segment's header.
pub(crate) const HEADER: usize = 256;

/// What one frame was written as.
#[derive(Clone, Debug)]
pub(crate) struct Written {
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) seq: u64,
    /// The number expected behind it.
    pub(crate) next: u64,
    pub(crate) count: u16,
    pub(crate) lag: u32,
    pub(crate) kind: FrameKind,
    pub(crate) body: Vec<u8>,
}

impl Written {
    /// The highest number it vouches for, 0 if none.
    pub(crate) fn vouches(&self) -> u64 {
        if self.lag == LAG_NONE { 0 } else { self.seq.saturating_sub(self.lag.max(1).into()) }
    }
}

/// A segment and the notes on it.
#[derive(Clone, Debug)]
pub(crate) struct Built {
    pub(crate) header: SegmentHeader,
    pub(crate) bytes: Vec<u8>,
    pub(crate) frames: Vec<Written>,
    link: u32,
    next: u64,
}

impl Built {
    /// An empty live segment whose first event has this number.
    pub(crate) fn new(first_seq: u64) -> Self {
        let header = SegmentHeader {
            state: SegmentState::Live,
            compat: 0,
            ro_compat: 0,
            incompat: 0,
            generation: 0,
            log_id: LogId(*b"a log of a test!"),
            segment_id: SegmentId(0x0123_4567_89AB_CDEF),
            stands_for: SegmentId(0x0123_4567_89AB_CDEF),
            ordinal_a: 3,
            ordinal_b: 3,
            first_seq,
            base_lpos: 4096,
            prev_segment_id: SegmentId(0xFEDC),
            prev_last_seq: first_seq - 1,
            prev_last_crc: 0xC0FF_EE00,
            max_body: MAX_BODY,
            horizon: 0,
            created: 1_700_000_000_000_000,
            writer_version: [0; 16],
        };
        let bytes = header.encode().to_vec();
        Built { link: header.prev_last_crc, next: first_seq, header, bytes, frames: Vec::new() }
    }

    pub(crate) fn salt(&self) -> Salt {
        self.header.salt()
    }

    /// Where its frames end.
    pub(crate) fn end(&self) -> usize {
        self.frames.last().map_or(HEADER, |frame| frame.end)
    }

    /// The number expected behind its last frame.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Appends a frame in its place.
    pub(crate) fn frame(mut self, kind: FrameKind, count: u16, lag: u32, body: Vec<u8>) -> Self {
        let (start, seq) = (self.bytes.len(), self.next);
        let header = FrameHeader { seq, link: self.link, kind, count, durable_lag: lag, writer: 0xABCD };
        let salt = self.salt();
        self.link = encode(&mut self.bytes, &salt, &header, &body);
        self.next += u64::from(count);
        let (end, next) = (self.bytes.len(), self.next);
        self.frames.push(Written { start, end, seq, next, count, lag, kind, body });
        self
    }

    /// Appends a commit whose events have bodies of these lengths.
    pub(crate) fn commit(self, lag: u32, bodies: &[usize]) -> Self {
        let body = commit_body(self.next, bodies);
        self.frame(FrameKind::COMMIT, u16::try_from(bodies.len()).unwrap(), lag, body)
    }

    /// Appends a control frame.
    pub(crate) fn control(self, lag: u32, control: &Control) -> Self {
        let mut body = Vec::new();
        control.encode(&mut body);
        let mut built = self.frame(control.kind(), 0, lag, body);
        if let Control::Gap { to, .. } = control {
            built.next = to + 1;
            built.frames.last_mut().unwrap().next = to + 1;
        }
        built
    }

    /// Zeros behind the frames, as the reserve has them.
    pub(crate) fn reserve(mut self, zeros: usize) -> Self {
        self.bytes.resize(self.bytes.len() + zeros, 0);
        self
    }
}

/// A commit's body with events whose bodies have these lengths and no two equal bytes in a row.
pub(crate) fn commit_body(seq: u64, bodies: &[usize]) -> Vec<u8> {
    let operation = seq.is_multiple_of(2).then_some(Operation {
        op_id: OpId([seq.to_le_bytes()[0]; 16]),
        request_hash: [0x5A; 16],
        seen: Seq(seq),
    });
    let mut out = Vec::new();
    Preamble { time: 1_700_000_000_000_000 + seq, session: 0x77, operation }.encode(&mut out);
    for (i, len) in bodies.iter().enumerate() {
        let body: Vec<u8> = (1..=251).cycle().skip(i * 13).step_by(3).take(*len).collect();
        Envelope {
            seq: Seq(seq + i as u64),
            takes: 1,
            kind: 17,
            version: 1,
            ignorable: i % 2 == 1,
            key_kind: KeyKind::TASK,
            key: "task-1",
            revision: Revision(seq),
            blobs: &[],
            body: &body,
        }
        .encode(&mut out);
    }
    out
}
