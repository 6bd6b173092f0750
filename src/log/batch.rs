//! Frames on their way into the active segment: encoded one behind the other, written with one call.

use std::io;

use super::control_frame::Control;
use super::frame::{FrameHeader, FrameKind, durable_lag, encode_with};
use super::scan::Position;
use super::view::Active;
use crate::vfs::{read_full, write_full};

/// One frame of a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Placed {
    /// Where its bytes start and end in the batch.
    pub(crate) range: (usize, usize),
    /// Length of its body, without pad.
    pub(crate) body_len: usize,
    pub(crate) kind: FrameKind,
    pub(crate) crc: u32,
    pub(crate) seq: u64,
    /// Where the log stands behind it.
    pub(crate) behind: Position,
}

/// What one batch leaves to the next.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    bytes: Vec<u8>,
    frames: Vec<Placed>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Batch<'a> {
    active: &'a Active,
    bytes: Vec<u8>,
    start: Position,
    at: Position,
    durable: u64,
    writer: u32,
    frames: Vec<Placed>,
}

/// What became of a write.
#[derive(Debug)]
pub(crate) struct Written {
    /// How many frames are whole on the file.
    pub(crate) whole: usize,
    /// Why not all of them.
    pub(crate) error: Option<io::Error>,
    /// Whether what followed the whole ones is gone again; if not, the next holder heals it.
    pub(crate) restored: bool,
}

impl<'a> Batch<'a> {
    /// A batch that goes at `start`; its frames vouch for every event up to `durable`.
    pub(crate) fn new(
        active: &'a Active,
        start: Position,
        durable: u64,
        writer: u32,
        memory: Memory,
    ) -> Self {
        let Memory { mut bytes, mut frames } = memory;
        bytes.clear();
        frames.clear();
        Batch { active, bytes, start, at: start, durable, writer, frames }
    }

    /// Where the next frame will stand.
    pub(crate) fn position(&self) -> Position {
        self.at
    }

    /// The longest body a frame may have here.
    pub(crate) fn max_body(&self) -> u32 {
        self.active.header.max_body
    }

    pub(crate) fn frames(&self) -> &[Placed] {
        &self.frames
    }

    /// The body of a frame that was put.
    pub(crate) fn body(&self, placed: &Placed) -> &[u8] {
        let start = placed.range.0 + super::format::FRAME_HEADER_LEN;
        self.bytes.get(start..start + placed.body_len).unwrap_or_default()
    }

    /// Puts a frame that takes `count` numbers; returns its place.
    pub(crate) fn put(&mut self, kind: FrameKind, count: u16, body: impl FnOnce(&mut Vec<u8>)) -> Placed {
        let seq = self.at.seq;
        let header = FrameHeader {
            seq,
            link: self.at.link,
            kind,
            count,
            durable_lag: durable_lag(seq, self.durable),
            writer: self.writer,
        };
        let start = self.bytes.len();
        let mut body_len = 0;
        let crc = encode_with(&mut self.bytes, &self.active.salt, &header, |out| {
            let before = out.len();
            body(out);
            body_len = out.len() - before;
        });
        let len = (self.bytes.len() - start) as u64;
        self.at = Position { offset: self.at.offset + len, seq: seq + u64::from(count), link: crc };
        let placed = Placed { range: (start, self.bytes.len()), body_len, kind, crc, seq, behind: self.at };
        self.frames.push(placed);
        placed
    }

    /// Puts a control frame.
    pub(crate) fn put_control(&mut self, control: &Control) -> Placed {
        let mut placed = self.put(control.kind(), 0, |out| control.encode(out));
        if let Control::Gap { to, .. } = control {
            self.at.seq = to + 1;
            placed.behind = self.at;
            if let Some(last) = self.frames.last_mut() {
                *last = placed;
            }
        }
        placed
    }

    /// Takes back the last frame, which has not been written.
    pub(crate) fn drop_last(&mut self) {
        if let Some(gone) = self.frames.pop() {
            self.bytes.truncate(gone.range.0);
            self.at = self.frames.last().map_or(self.start, |last| last.behind);
        }
    }

    /// Writes the batch at its place in a file that is `file_len` long now, with nothing but zeros behind that place.
    ///
    /// Frames that land whole stand. After a failure the rest is zeroed again, and cut where the file was shorter.
    pub(crate) fn write(&self, file_len: u64) -> Written {
        let file = &*self.active.file;
        let (done, error) = match write_full(file, &self.bytes, self.start.offset) {
            Ok(()) => return Written { whole: self.frames.len(), error: None, restored: true },
            Err(failed) => failed,
        };
        // Others may have seen what has landed, whatever the call said: what is whole on the file stands.
        let mut landed = vec![0; self.bytes.len()];
        let read = read_full(file, &mut landed, self.start.offset).unwrap_or(0).max(done);
        let same = self.bytes.iter().zip(&landed).take(read).take_while(|(a, b)| a == b).count().max(done);
        let whole = self.frames.iter().take_while(|frame| frame.range.1 <= same).count();
        let kept = self.frames.get(..whole).and_then(<[Placed]>::last).map_or(0, |last| last.range.1);
        let from = self.start.offset + kept as u64;
        let mut restored = true;
        // Even a call that reported an error may have written something, so everything of this batch is undone.
        let end = self.start.offset + self.bytes.len() as u64;
        let until = file_len.min(end);
        if from < until {
            let zeros = vec![0; usize::try_from(until - from).unwrap_or(0)];
            restored = write_full(file, &zeros, from).is_ok();
        }
        let new_len = file_len.max(from);
        match file.stat() {
            // Not where the batch lay within the file: what is longer now has been extended by somebody meanwhile. (Else
            // their zeros may go as well; nobody needs them.)
            Ok(stat) if stat.len > new_len && end > file_len => restored &= file.set_len(new_len).is_ok(),
            Ok(_) => {}
            Err(_) => restored = false,
        }
        Written { whole, error: Some(error), restored }
    }

    pub(crate) fn into_memory(self) -> Memory {
        Memory { bytes: self.bytes, frames: self.frames }
    }
}
