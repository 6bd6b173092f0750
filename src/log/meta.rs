//! META of a workspace: which log it is, what may read and write it, and which folders or keys it belongs to.
//! `format-spec/format.md`, section *Workspace META*. Small, checksummed, replaced as a whole by rename.

use super::LogId;
use super::bytes::Bytes;
use super::format::{
    CODEC_BINARY, CONTROL_NONE, CONTROL_WORDS, FORMAT, LEVEL, META_LEN_MAX, META_LEN_MIN, WORKSPACE_MAGIC,
};

/// What a workspace is bound to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Binding {
    /// Tasks that belong to no folder.
    None,
    /// A folder, as normalised text.
    Path(String),
    /// An opaque key chosen by the host.
    Key(String),
}

/// A workspace's META.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkspaceMeta {
    /// Codec number; only [`CODEC_BINARY`] so far.
    pub codec: u16,
    /// Features that anybody may ignore.
    pub compat: u32,
    /// Features that a reader may ignore.
    pub ro_compat: u32,
    /// Features that everybody must know.
    pub incompat: u32,
    /// Lowest level that may read.
    pub min_reader: u32,
    /// Lowest level that may write.
    pub min_writer: u32,
    /// Whether the control block's per-commit words are used.
    pub control: u16,
    /// The log's identity.
    pub log_id: LogId,
    /// When it was made, µs since 1970 UTC.
    pub created: u64,
    /// The release that wrote this META.
    pub writer_version: [u8; 16],
    /// What the workspace is bound to, oldest first; at least one.
    pub bindings: Vec<Binding>,
}

/// Why bytes are not a usable META (a store's or a workspace's).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadMeta {
    /// Other first bytes.
    #[error("the first bytes are not a META's")]
    Magic,
    /// Length or checksum wrong.
    #[error("cut short or damaged: {0}")]
    Damaged(&'static str),
    /// A newer format, level or feature.
    #[error("{what} needs {need}, this release knows {have}")]
    TooNew {
        /// What.
        what: &'static str,
        /// What it needs.
        need: u64,
        /// What this release has.
        have: u64,
    },
}

impl WorkspaceMeta {
    /// META of a new workspace.
    pub fn new(log_id: LogId, created: u64, writer_version: [u8; 16], binding: Binding) -> Self {
        WorkspaceMeta {
            codec: CODEC_BINARY,
            compat: 0,
            ro_compat: 0,
            incompat: 0,
            min_reader: 1,
            min_writer: 1,
            control: CONTROL_WORDS,
            log_id,
            created,
            writer_version,
            bindings: vec![binding],
        }
    }

    /// The bytes on disk.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(128);
        out.extend_from_slice(&WORKSPACE_MAGIC);
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&FORMAT.to_le_bytes());
        out.extend_from_slice(&self.codec.to_le_bytes());
        for word in [self.compat, self.ro_compat, self.incompat, self.min_reader, self.min_writer] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        out.extend_from_slice(&self.control.to_le_bytes());
        out.extend_from_slice(&[0; 2]);
        out.extend_from_slice(&self.log_id.0);
        out.extend_from_slice(&self.created.to_le_bytes());
        out.extend_from_slice(&self.writer_version);
        out.extend_from_slice(&u16::try_from(self.bindings.len()).unwrap_or(u16::MAX).to_le_bytes());
        for binding in &self.bindings {
            let (kind, text) = match binding {
                Binding::None => (0, ""),
                Binding::Path(path) => (1, path.as_str()),
                Binding::Key(key) => (2, key.as_str()),
            };
            out.push(kind);
            out.extend_from_slice(&u16::try_from(text.len()).unwrap_or(u16::MAX).to_le_bytes());
            out.extend_from_slice(text.as_bytes());
        }
        let len = u32::try_from(out.len() + 4).unwrap_or(u32::MAX);
        super::bytes::put(&mut out, 8, &len.to_le_bytes());
        let crc = crc32fast::hash(&out);
        out.extend_from_slice(&crc.to_le_bytes());
        out
    }

    /// Reads the whole file. `min_writer` and `ro_compat` are for the caller who wants to write.
    ///
    /// # Errors
    /// [`BadMeta`].
    pub fn decode(bytes: &[u8]) -> Result<Self, BadMeta> {
        let cut = || BadMeta::Damaged("it ends inside a field");
        let mut b = Bytes(bytes);
        if b.array::<8>().ok_or(BadMeta::Magic)? != WORKSPACE_MAGIC {
            return Err(BadMeta::Magic);
        }
        let len = b.u32().ok_or_else(cut)?;
        let format = b.u16().ok_or_else(cut)?;
        too_new("the workspace's format", format.into(), FORMAT.into())?;
        if format == 0 {
            return Err(BadMeta::Damaged("its format is 0"));
        }
        if len as usize != bytes.len() || !(META_LEN_MIN..=META_LEN_MAX).contains(&bytes.len()) {
            return Err(BadMeta::Damaged("its length is not the one it states, or no META's"));
        }
        let (before, crc) = bytes.split_last_chunk::<4>().ok_or_else(cut)?;
        if crc32fast::hash(before) != u32::from_le_bytes(*crc) {
            return Err(BadMeta::Damaged("its checksum fails"));
        }
        let codec = b.u16().ok_or_else(cut)?;
        too_new("the workspace's codec", codec.into(), CODEC_BINARY.into())?;
        let mut word = || b.u32().ok_or_else(cut);
        let (compat, ro_compat, incompat, min_reader, min_writer) =
            (word()?, word()?, word()?, word()?, word()?);
        too_new("a feature of the workspace", incompat.into(), 0)?;
        too_new("reading the workspace", min_reader.into(), LEVEL.into())?;
        let control = b.u16().ok_or_else(cut)?;
        if b.u16() != Some(0) {
            return Err(BadMeta::Damaged("reserved bytes are not zero"));
        }
        let log_id = LogId(b.array().ok_or_else(cut)?);
        let created = b.u64().ok_or_else(cut)?;
        let writer_version = b.array().ok_or_else(cut)?;
        let count = b.u16().ok_or_else(cut)?;
        if count == 0 {
            return Err(BadMeta::Damaged("it is bound to nothing"));
        }
        let mut bindings = Vec::new();
        for _ in 0..count {
            let (kind, len) = (b.u8().ok_or_else(cut)?, b.u16().ok_or_else(cut)?);
            let text = b.take(len.into()).ok_or_else(cut)?;
            let text =
                str::from_utf8(text).map_err(|_| BadMeta::Damaged("a binding is not UTF-8"))?.to_owned();
            bindings.push(match kind {
                0 if text.is_empty() => Binding::None,
                1 => Binding::Path(text),
                2 => Binding::Key(text),
                _ => return Err(BadMeta::Damaged("a binding of unknown kind")),
            });
        }
        if b.0.len() != 4 {
            return Err(BadMeta::Damaged("bytes are left over"));
        }
        Ok(WorkspaceMeta {
            codec,
            compat,
            ro_compat,
            incompat,
            min_reader,
            min_writer,
            control,
            log_id,
            created,
            writer_version,
            bindings,
        })
    }

    /// Why this release must not write the workspace, if so.
    pub fn write_barrier(&self) -> Option<BadMeta> {
        too_new("writing the workspace", self.min_writer.into(), LEVEL.into())
            .and_then(|()| too_new("writing a feature of the workspace", self.ro_compat.into(), 0))
            .and_then(|()| match self.control {
                CONTROL_NONE | CONTROL_WORDS => Ok(()),
                _ => Err(BadMeta::TooNew {
                    what: "the workspace's control words",
                    need: self.control.into(),
                    have: CONTROL_WORDS.into(),
                }),
            })
            .err()
    }
}

/// An error if `need` is beyond `have`.
pub(crate) fn too_new(what: &'static str, need: u64, have: u64) -> Result<(), BadMeta> {
    if need > have { Err(BadMeta::TooNew { what, need, have }) } else { Ok(()) }
}

#[cfg(test)]
mod tests;
