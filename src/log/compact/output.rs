//! The new segment: what stays, and the numbers of what went.

use std::path::Path;

use super::judge::{Fate, Window};
use crate::error::{Error, Result};
use crate::log::control_frame::{Control, Seal};
use crate::log::envelope::{Commit, Envelope, KeyKind, Preamble};
use crate::log::format::{EVENT_ELIDED, EVENT_NOTHING, LAG_NONE, MAX_COUNT};
use crate::log::frame::{FrameHeader, FrameKind, Salt, encode_with};
use crate::log::segment::SegmentHeader;
use crate::log::{Revision, Seq};
use crate::vfs::{VfsFile, write_full};

/// How much is written at a time.
const WRITE_PIECE: usize = 1 << 20;

/// The new segment while it is written.
pub(super) struct Output<'a> {
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
    pub(super) fn new(file: &'a dyn VfsFile, path: &'a Path, header: &SegmentHeader) -> Self {
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

    pub(super) fn commit(
        &mut self,
        header: &FrameHeader,
        commit: &Commit<'_>,
        fates: &mut impl Iterator<Item = Fate>,
        window: &Window,
    ) -> Result<()> {
        let operation =
            commit.preamble.operation.filter(|operation| window.needs(operation.op_id, Seq(header.seq)));
        let events: Vec<(Envelope<'_>, Fate)> = commit
            .events()
            .map(|event| {
                let says_nothing = event.kind == EVENT_NOTHING
                    || event.kind == EVENT_ELIDED && (event.key_kind == KeyKind::NONE || operation.is_none());
                let fate = match fates.next().unwrap_or(Fate::Stays) {
                    // Only for whoever sends the request again.
                    Fate::Stays if operation.is_none() && says_nothing => Fate::Goes,
                    Fate::Goes | Fate::Blank => {
                        if operation.is_some() {
                            Fate::Blank
                        } else {
                            Fate::Goes
                        }
                    }
                    Fate::Stays => Fate::Stays,
                };
                (event, fate)
            })
            .collect();
        if events.iter().all(|(_, fate)| *fate == Fate::Goes) {
            self.gone += u64::from(header.count);
            return Ok(());
        }
        self.say_gone()?;
        self.frame(header, |out| {
            Preamble { operation, ..commit.preamble }.encode(out);
            let (mut first, mut run) = (Seq(0), 0_u16);
            for (event, fate) in &events {
                if *fate == Fate::Goes {
                    if run == 0 {
                        first = event.seq;
                    }
                    run += event.takes;
                    continue;
                }
                if run > 0 {
                    elided(first, std::mem::take(&mut run), out);
                }
                match fate {
                    Fate::Blank => blank(event, out),
                    _ => event.encode(out),
                }
            }
            if run > 0 {
                elided(first, run, out);
            }
        })
    }

    pub(super) fn control(&mut self, header: &FrameHeader, control: &Control) -> Result<()> {
        self.say_gone()?;
        self.frame(header, |out| control.encode(out))?;
        if let Control::Gap { to, .. } = control {
            self.seq = to + 1;
        }
        Ok(())
    }

    pub(super) fn copy(&mut self, header: &FrameHeader, body: &[u8]) -> Result<()> {
        self.say_gone()?;
        self.frame(header, |out| out.extend_from_slice(body))
    }

    /// Ends as the successor's header knows the last of the old ones; returns the length.
    pub(super) fn finish(mut self, seal: Seal) -> Result<u64> {
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

/// What is left of an event whose request may be sent again: its number, its key and its revision.
fn blank(event: &Envelope<'_>, out: &mut Vec<u8>) {
    let body = 1_u16.to_le_bytes();
    let entry = Envelope {
        takes: 1,
        kind: EVENT_ELIDED,
        version: 1,
        ignorable: false,
        blobs: &[],
        body: &body,
        ..*event
    };
    entry.encode(out);
}
