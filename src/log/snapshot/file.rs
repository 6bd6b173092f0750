//! Snapshot files as such: sections of bytes, and a checksum of each block of them. `format-spec/snapshot.md`.
//!
//! What is in the sections is for others to say. A reader believes no length, no offset and no block before it has checked
//! it, and checks no block before it is wanted.

use std::borrow::Cow;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Context as _, Error, ErrorKind, Result};
use crate::log::bytes::{Bytes, put};
use crate::log::format::{
    SNAPSHOT_BLOCK, SNAPSHOT_CRC_AT, SNAPSHOT_EAGER, SNAPSHOT_FORMAT, SNAPSHOT_HEADER_LEN, SNAPSHOT_MAGIC,
};
use crate::log::scan::Position;
use crate::log::segment::SegmentName;
use crate::log::{LogId, SegmentId};
use crate::vfs::{Mapped, Open, Vfs, VfsFile, read_full, write_full};

const HEADER_LEN: usize = SNAPSHOT_HEADER_LEN as usize;
/// Length of a section's entry in the directory.
const ENTRY_LEN: u64 = 24;
/// How much is written at a time.
const WRITE_PIECE: usize = 256 << 10;

/// The frame that a snapshot ends at, and all that reading on from there needs to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Anchor {
    /// The segment it is in.
    pub(crate) segment: SegmentName,
    /// Where that frame starts.
    pub(crate) last_offset: u64,
    /// The CRC it has.
    pub(crate) last_crc: u32,
    /// The number it has.
    pub(crate) last_seq: u64,
    /// What comes behind it.
    pub(crate) at: Position,
    /// lpos behind the last frame that holds events.
    pub(crate) events_end_lpos: u64,
    /// Whether the frame is a Mark.
    pub(crate) is_mark: bool,
}

/// What stands before everything else in a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) log_id: LogId,
    /// The last event it covers.
    pub(crate) seq: u64,
    pub(crate) anchor: Anchor,
    /// When it was made, µs since 1970 UTC.
    pub(crate) created: u64,
    pub(crate) writer_version: [u8; 16],
    /// Whose it is: a hash of the fold's name and version.
    pub(crate) fold: u64,
}

/// A snapshot's header alone, if it can be read.
pub(super) fn header_of(vfs: &dyn Vfs, path: &Path) -> Option<Header> {
    let mut head = [0; HEADER_LEN];
    let file = vfs.open(path, Open::Read).ok()?;
    let n = read_full(&*file, &mut head, 0).ok()?;
    Header::decode(head.get(..n)?).ok().map(|(header, _)| header)
}

/// Where the parts are that are written behind the sections.
#[derive(Clone, Copy, Debug)]
struct Layout {
    data_end: u64,
    sections: u32,
    directory_crc: u32,
    table_crc: u32,
}

impl Layout {
    fn blocks(&self) -> u64 {
        (self.data_end - HEADER_LEN as u64).div_ceil(SNAPSHOT_BLOCK)
    }

    fn directory_len(&self) -> u64 {
        u64::from(self.sections) * ENTRY_LEN
    }

    fn file_len(&self) -> u64 {
        self.data_end + self.directory_len() + self.blocks() * 4
    }
}

impl Header {
    fn encode(&self, layout: &Layout) -> [u8; HEADER_LEN] {
        let mut out = [0; HEADER_LEN];
        let Anchor { segment, last_offset, last_crc, last_seq, at, events_end_lpos, is_mark } = self.anchor;
        put(&mut out, 0, &SNAPSHOT_MAGIC);
        put(&mut out, 8, &SNAPSHOT_HEADER_LEN.to_le_bytes());
        put(&mut out, 10, &SNAPSHOT_FORMAT.to_le_bytes());
        put(&mut out, 12, &layout.sections.to_le_bytes());
        put(&mut out, 16, &self.log_id.0);
        put(&mut out, 32, &self.seq.to_le_bytes());
        put(&mut out, 40, &segment.ordinal_a.to_le_bytes());
        put(&mut out, 48, &segment.ordinal_b.to_le_bytes());
        put(&mut out, 56, &segment.id.0.to_le_bytes());
        put(&mut out, 64, &segment.generation.to_le_bytes());
        put(&mut out, 68, &last_crc.to_le_bytes());
        put(&mut out, 72, &last_offset.to_le_bytes());
        put(&mut out, 80, &last_seq.to_le_bytes());
        put(&mut out, 88, &at.offset.to_le_bytes());
        put(&mut out, 96, &at.seq.to_le_bytes());
        put(&mut out, 104, &at.link.to_le_bytes());
        put(&mut out, 108, &u32::from(is_mark).to_le_bytes());
        put(&mut out, 112, &events_end_lpos.to_le_bytes());
        put(&mut out, 120, &self.created.to_le_bytes());
        put(&mut out, 128, &self.writer_version);
        put(&mut out, 144, &layout.data_end.to_le_bytes());
        put(&mut out, 152, &layout.directory_crc.to_le_bytes());
        put(&mut out, 156, &layout.table_crc.to_le_bytes());
        put(&mut out, 160, &self.fold.to_le_bytes());
        let crc = crc32fast::hash(out.get(..SNAPSHOT_CRC_AT).unwrap_or_default());
        put(&mut out, SNAPSHOT_CRC_AT, &crc.to_le_bytes());
        out
    }

    fn decode(bytes: &[u8]) -> Result<(Self, Layout), &'static str> {
        let head = bytes.first_chunk::<HEADER_LEN>().ok_or("it is shorter than a snapshot's header")?;
        let mut b = Bytes(head);
        let mut fields = || -> Option<Result<(Self, Layout), &'static str>> {
            if b.array::<8>()? != SNAPSHOT_MAGIC {
                return Some(Err("its first bytes are not a snapshot's"));
            }
            if (b.u16()?, b.u16()?) != (SNAPSHOT_HEADER_LEN, SNAPSHOT_FORMAT) {
                return Some(Err("it is of a format this release does not know"));
            }
            let stored = Bytes(head.get(SNAPSHOT_CRC_AT..)?).u32()?;
            if crc32fast::hash(head.get(..SNAPSHOT_CRC_AT)?) != stored {
                return Some(Err("its header's checksum does not hold"));
            }
            let sections = b.u32()?;
            let (log_id, seq) = (LogId(b.array()?), b.u64()?);
            let (ordinal_a, ordinal_b, id, generation) = (b.u64()?, b.u64()?, SegmentId(b.u64()?), b.u32()?);
            let (last_crc, last_offset, last_seq) = (b.u32()?, b.u64()?, b.u64()?);
            let at = Position { offset: b.u64()?, seq: b.u64()?, link: b.u32()? };
            let is_mark = b.u32()? != 0;
            let (events_end_lpos, created, writer_version) = (b.u64()?, b.u64()?, b.array()?);
            let layout =
                Layout { data_end: b.u64()?, sections, directory_crc: b.u32()?, table_crc: b.u32()? };
            let fold = b.u64()?;
            if layout.data_end < HEADER_LEN as u64 || layout.data_end > u64::MAX / 2 {
                return Some(Err("its length cannot be"));
            }
            let segment = SegmentName { ordinal_a, ordinal_b, generation, id };
            let anchor = Anchor { segment, last_offset, last_crc, last_seq, at, events_end_lpos, is_mark };
            Some(Ok((Header { log_id, seq, anchor, created, writer_version, fold }, layout)))
        };
        fields().unwrap_or(Err("it is shorter than a snapshot's header"))
    }
}

/// Writes the sections of a new snapshot, one behind the other. The first failure is told at the end.
#[derive(Debug)]
pub struct SnapshotWriter {
    file: Box<dyn VfsFile>,
    path: PathBuf,
    /// What is still to be written, and where.
    pending: Vec<u8>,
    written: u64,
    block: crc32fast::Hasher,
    block_left: u64,
    table: Vec<u8>,
    directory: Vec<u8>,
    section: u64,
    sections: u32,
    failed: Option<Error>,
}

impl SnapshotWriter {
    pub(crate) fn create(vfs: &dyn Vfs, path: &Path) -> Result<Self> {
        let file = vfs.open(path, Open::Create).context("create", path)?;
        Ok(SnapshotWriter {
            file,
            path: path.into(),
            pending: vec![0; HEADER_LEN],
            written: 0,
            block: crc32fast::Hasher::new(),
            block_left: SNAPSHOT_BLOCK,
            table: Vec::new(),
            directory: Vec::new(),
            section: HEADER_LEN as u64,
            sections: 0,
            failed: None,
        })
    }

    /// Offset in the file of what is put next.
    pub fn offset(&self) -> u64 {
        self.written + self.pending.len() as u64
    }

    /// Offset in the section at hand of what is put next.
    pub fn section_offset(&self) -> u64 {
        self.offset() - self.section
    }

    /// Appends bytes to the section at hand.
    pub fn put(&mut self, mut bytes: &[u8]) {
        if self.failed.is_some() {
            return;
        }
        self.pending.extend_from_slice(bytes);
        while !bytes.is_empty() {
            let n = usize::try_from(self.block_left).unwrap_or(usize::MAX).min(bytes.len());
            let (now, rest) = bytes.split_at(n);
            self.block.update(now);
            self.block_left -= n as u64;
            if self.block_left == 0 {
                self.end_block();
            }
            bytes = rest;
        }
        if self.pending.len() >= WRITE_PIECE {
            self.write_out();
        }
    }

    /// Ends the section at hand, which has this number.
    pub fn end_section(&mut self, id: u32) {
        let (start, len) = (self.section, self.section_offset());
        self.directory.extend_from_slice(&u64::from(id).to_le_bytes());
        self.directory.extend_from_slice(&start.to_le_bytes());
        self.directory.extend_from_slice(&len.to_le_bytes());
        self.sections += 1;
        let pad = usize::try_from(len.next_multiple_of(8) - len).unwrap_or(0);
        self.put([0; 8].get(..pad).unwrap_or_default());
        self.section = self.offset();
    }

    fn end_block(&mut self) {
        let block = std::mem::take(&mut self.block);
        self.table.extend_from_slice(&block.finalize().to_le_bytes());
        self.block_left = SNAPSHOT_BLOCK;
    }

    fn write_out(&mut self) {
        if let Err((_, e)) = write_full(&*self.file, &self.pending, self.written) {
            self.failed.get_or_insert(Error::io(e, "write", &self.path));
        }
        self.written += self.pending.len() as u64;
        self.pending.clear();
    }

    /// Writes what stands before and behind the sections, and syncs the file. Returns its length.
    pub(crate) fn finish(mut self, header: &Header) -> Result<u64> {
        if self.block_left < SNAPSHOT_BLOCK {
            self.end_block();
        }
        let layout = Layout {
            data_end: self.offset(),
            sections: self.sections,
            directory_crc: crc32fast::hash(&self.directory),
            table_crc: crc32fast::hash(&self.table),
        };
        let (directory, table) = (std::mem::take(&mut self.directory), std::mem::take(&mut self.table));
        self.pending.extend_from_slice(&directory);
        self.pending.extend_from_slice(&table);
        self.write_out();
        if let Some(e) = self.failed {
            return Err(e);
        }
        write_full(&*self.file, &header.encode(&layout), 0)
            .map_err(|(_, e)| Error::io(e, "write", &self.path))?;
        self.file.sync_data().context("sync", &self.path)?;
        Ok(layout.file_len())
    }
}

/// Some bytes of a snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// Offset in the file.
    pub start: u64,
    /// Length.
    pub len: u64,
}

impl Span {
    /// A part of it; `None` if it does not reach so far.
    pub fn part(self, offset: u64, len: u64) -> Option<Span> {
        let end = offset.checked_add(len)?;
        (end <= self.len).then_some(Span { start: self.start + offset, len })
    }

    /// One of the equal rows that it has; `None` = it has fewer.
    pub fn row(self, n: u32, len: u64) -> Option<Span> {
        self.part(u64::from(n).checked_mul(len)?, len)
    }
}

/// What a snapshot holds cannot be read, or cannot be right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spoiled(pub String);

impl fmt::Display for Spoiled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

pub(crate) fn spoiled(why: impl Into<String>) -> Spoiled {
    Spoiled(why.into())
}

/// Says to all processes, by a shared lock, that a file is in use. A forked child closes its copy of it, and does not unlock.
#[derive(Debug)]
struct InUse(Box<dyn VfsFile>);

impl InUse {
    /// `None` = it cannot be said here (a file system without locks). Where the file is being removed, or is gone, it is
    /// [`ErrorKind::NotYet`].
    fn of(vfs: &dyn Vfs, path: &Path, opened: &dyn VfsFile) -> Result<Option<Self>> {
        let gone = || Error::new(ErrorKind::NotYet, "open", path);
        let file = match vfs.open(path, Open::InUse) {
            Ok(file) => file,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Err(gone()),
            Err(_) => return Ok(None),
        };
        match file.try_lock() {
            Ok(true) => {}
            Ok(false) => return Err(gone()),
            Err(_) => return Ok(None),
        }
        let held = InUse(file);
        // Whoever removes it gives it another name first, and then looks who uses it.
        let is_there = |e: std::io::Error| Error::io(e, "look at", path);
        let same = held.0.stat().map_err(is_there)?.id == opened.stat().map_err(is_there)?.id
            && vfs.stat(path).is_ok_and(|there| held.0.stat().is_ok_and(|here| here.id == there.id));
        if same { Ok(Some(held)) } else { Err(gone()) }
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        // The system frees it with the descriptor at the latest.
        let _ = self.0.unlock();
    }
}

#[derive(Debug)]
enum Source {
    Mapped(Box<dyn Mapped>),
    Read(Box<dyn VfsFile>),
}

/// A snapshot file, open for reading.
#[derive(Debug)]
pub struct SnapshotFile {
    source: Source,
    _in_use: Option<InUse>,
    path: PathBuf,
    header: Header,
    data_end: u64,
    sections: Vec<(u64, Span)>,
    /// The checksum of each block.
    table: Vec<u8>,
    /// A bit for each block that has been checked.
    checked: Vec<AtomicU64>,
}

impl SnapshotFile {
    /// Opens one; with `map` its bytes are mapped where that can be, else read when they are wanted.
    pub(crate) fn open(vfs: &dyn Vfs, path: &Path, map: bool) -> Result<Result<Self, Spoiled>> {
        let file = vfs.open(path, Open::Read).context("open", path)?;
        let in_use = InUse::of(vfs, path, &*file)?;
        let mut head = [0; HEADER_LEN];
        let n = read_full(&*file, &mut head, 0).context("read", path)?;
        let (header, layout) = match Header::decode(head.get(..n).unwrap_or_default()) {
            Ok(decoded) => decoded,
            Err(why) => return Ok(Err(spoiled(why))),
        };
        let len = file.stat().context("look at", path)?.len;
        // Before anything of a length that the header says is made.
        if layout.directory_len() > len || layout.data_end > len || layout.file_len() != len {
            return Ok(Err(spoiled(format!("it has {len} bytes, which its header does not say"))));
        }
        let mut rest = vec![0; usize::try_from(len - layout.data_end).unwrap_or(0)];
        let n = read_full(&*file, &mut rest, layout.data_end).context("read", path)?;
        let directory_len = usize::try_from(layout.directory_len()).unwrap_or(usize::MAX);
        let Some((directory, table)) = rest.get(..n).and_then(|rest| rest.split_at_checked(directory_len))
        else {
            return Ok(Err(spoiled("it was cut while it was read")));
        };
        if crc32fast::hash(directory) != layout.directory_crc || crc32fast::hash(table) != layout.table_crc {
            return Ok(Err(spoiled("the checksum of its directory does not hold")));
        }
        let mut sections = Vec::new();
        let mut entries = Bytes(directory);
        while let (Some(id), Some(start), Some(len)) = (entries.u64(), entries.u64(), entries.u64()) {
            if start < HEADER_LEN as u64 || start.checked_add(len).is_none_or(|end| end > layout.data_end) {
                return Ok(Err(spoiled("a section lies outside of it")));
            }
            sections.push((id, Span { start, len }));
        }
        let table = table.to_vec();
        let source = match map.then(|| file.map_bytes()) {
            Some(Ok(map)) if map.bytes().len() as u64 == len => Source::Mapped(map),
            _ => Source::Read(file),
        };
        let words = usize::try_from(layout.blocks().div_ceil(64)).unwrap_or(0);
        let checked = std::iter::repeat_with(AtomicU64::default).take(words).collect();
        let opened = SnapshotFile {
            source,
            _in_use: in_use,
            path: path.into(),
            header,
            data_end: layout.data_end,
            sections,
            table,
            checked,
        };
        if len <= SNAPSHOT_EAGER
            && let Err(why) = opened.check_all()
        {
            return Ok(Err(why));
        }
        Ok(Ok(opened))
    }

    /// Its length in bytes.
    pub(crate) fn len(&self) -> u64 {
        self.data_end + (self.sections.len() as u64) * ENTRY_LEN + self.table.len() as u64
    }

    pub(crate) fn header(&self) -> &Header {
        &self.header
    }

    /// Its file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The section of this number.
    ///
    /// # Errors
    /// [`Spoiled`] if there is none.
    pub fn section(&self, id: u32) -> Result<Span, Spoiled> {
        let found = self.sections.iter().find(|(known, _)| *known == u64::from(id));
        found.map(|(_, span)| *span).ok_or_else(|| spoiled(format!("it has no section {id}")))
    }

    /// Checks every block that has not been checked.
    ///
    /// # Errors
    /// [`Spoiled`].
    pub fn check_all(&self) -> Result<(), Spoiled> {
        let (mut at, end) = (HEADER_LEN as u64, self.data_end);
        while at < end {
            let len = SNAPSHOT_BLOCK.min(end - at);
            self.bytes(Span { start: at, len })?;
            at += len;
        }
        Ok(())
    }

    /// Whether its bytes lie in memory, and stay there as long as this is held.
    pub fn is_mapped(&self) -> bool {
        matches!(self.source, Source::Mapped(_))
    }

    /// Checks the blocks in which some bytes lie.
    ///
    /// # Errors
    /// As [`SnapshotFile::bytes`].
    pub fn check_span(&self, span: Span) -> Result<(), Spoiled> {
        self.bytes(span).map(drop)
    }

    /// Some of its bytes, checked.
    ///
    /// # Errors
    /// [`Spoiled`] if a block does not check or cannot be read.
    pub fn bytes(&self, span: Span) -> Result<Cow<'_, [u8]>, Spoiled> {
        let outside = || spoiled(format!("it points to offset {}, outside of it", span.start));
        let end = span.start.checked_add(span.len).filter(|end| *end <= self.data_end).ok_or_else(outside)?;
        let first = span.start.checked_sub(HEADER_LEN as u64).ok_or_else(outside)? / SNAPSHOT_BLOCK;
        if span.len == 0 {
            return Ok(Cow::Borrowed(&[]));
        }
        let last = (end - 1 - HEADER_LEN as u64) / SNAPSHOT_BLOCK;
        match &self.source {
            Source::Mapped(map) => {
                let all = map.bytes();
                for block in first..=last {
                    if !self.is_checked(block) {
                        let (from, to) = self.block(block);
                        self.check(block, slice(all, from, to).ok_or_else(outside)?)?;
                    }
                }
                Ok(Cow::Borrowed(slice(all, span.start, end).ok_or_else(outside)?))
            }
            Source::Read(file) => {
                let (from, to) = (self.block(first).0, self.block(last).1);
                let mut bytes = vec![0; usize::try_from(to - from).unwrap_or(0)];
                let n = read_full(&**file, &mut bytes, from)
                    .map_err(|e| spoiled(format!("it cannot be read at offset {from}: {e}")))?;
                bytes.truncate(n);
                for block in first..=last {
                    // Each time: what was read before is not what is read now.
                    let (a, b) = self.block(block);
                    self.check(block, slice(&bytes, a - from, b - from).ok_or_else(outside)?)?;
                }
                let skip = usize::try_from(span.start - from).unwrap_or(usize::MAX);
                bytes.drain(..skip.min(bytes.len()));
                bytes.truncate(usize::try_from(span.len).unwrap_or(usize::MAX));
                Ok(Cow::Owned(bytes))
            }
        }
    }

    /// Where a block begins and ends.
    fn block(&self, block: u64) -> (u64, u64) {
        let from = HEADER_LEN as u64 + block * SNAPSHOT_BLOCK;
        (from, (from + SNAPSHOT_BLOCK).min(self.data_end))
    }

    fn is_checked(&self, block: u64) -> bool {
        let word = usize::try_from(block / 64).ok().and_then(|at| self.checked.get(at));
        word.is_some_and(|word| word.load(Ordering::Relaxed) & 1 << (block % 64) != 0)
    }

    fn check(&self, block: u64, bytes: &[u8]) -> Result<(), Spoiled> {
        let stored = usize::try_from(block * 4).ok().and_then(|at| self.table.get(at..));
        if stored.and_then(|rest| Bytes(rest).u32()) != Some(crc32fast::hash(bytes)) {
            return Err(spoiled(format!("the block at offset {} does not check", self.block(block).0)));
        }
        if let Some(word) = usize::try_from(block / 64).ok().and_then(|at| self.checked.get(at)) {
            word.fetch_or(1 << (block % 64), Ordering::Relaxed);
        }
        Ok(())
    }
}

fn slice(bytes: &[u8], from: u64, to: u64) -> Option<&[u8]> {
    bytes.get(usize::try_from(from).ok()?..usize::try_from(to).ok()?)
}

/// What a caller is told of a snapshot that is not used.
pub(crate) fn unusable(path: &Path, why: &Spoiled) -> Error {
    Error::new(ErrorKind::Invalid { what: "snapshot", why: why.to_string() }, "use", path)
}
