//! META of a store. `format-spec/format.md`, section *Store META*.

use crate::log::BadMeta;
use crate::log::bytes::{Bytes, all_zero, put};
use crate::log::format::{FORMAT, LEVEL, STORE_MAGIC, STORE_META_LEN};
use crate::log::meta::too_new;

/// A store's META: which store it is and who may read and write it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreMeta {
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
    /// Random, for ever.
    pub store_id: [u8; 16],
    /// When it was made, µs since 1970 UTC.
    pub created: u64,
    /// The release that made it.
    pub writer_version: [u8; 16],
}

impl StoreMeta {
    /// META of a new store.
    pub fn new(store_id: [u8; 16], created: u64, writer_version: [u8; 16]) -> Self {
        StoreMeta {
            compat: 0,
            ro_compat: 0,
            incompat: 0,
            min_reader: 1,
            min_writer: 1,
            store_id,
            created,
            writer_version,
        }
    }

    /// The 128 bytes on disk.
    pub fn encode(&self) -> [u8; STORE_META_LEN] {
        let mut out = [0; STORE_META_LEN];
        put(&mut out, 0, &STORE_MAGIC);
        put(&mut out, 8, &128u16.to_le_bytes());
        put(&mut out, 10, &FORMAT.to_le_bytes());
        put(&mut out, 12, &self.compat.to_le_bytes());
        put(&mut out, 16, &self.ro_compat.to_le_bytes());
        put(&mut out, 20, &self.incompat.to_le_bytes());
        put(&mut out, 24, &self.min_reader.to_le_bytes());
        put(&mut out, 28, &self.min_writer.to_le_bytes());
        put(&mut out, 32, &self.store_id);
        put(&mut out, 48, &self.created.to_le_bytes());
        put(&mut out, 56, &self.writer_version);
        let crc = crc32fast::hash(out.get(..STORE_META_LEN - 4).unwrap_or_default());
        put(&mut out, STORE_META_LEN - 4, &crc.to_le_bytes());
        out
    }

    /// Reads the whole file. `min_writer` and `ro_compat` are for the caller who wants to write.
    ///
    /// # Errors
    /// [`BadMeta`].
    pub fn decode(bytes: &[u8]) -> Result<Self, BadMeta> {
        const CUT: BadMeta = BadMeta::Damaged("it is shorter than 128 bytes");
        let mut b = Bytes(bytes);
        if b.array::<8>().ok_or(BadMeta::Magic)? != STORE_MAGIC {
            return Err(BadMeta::Magic);
        }
        let (len, format) = (b.u16().ok_or(CUT)?, b.u16().ok_or(CUT)?);
        too_new("the store's format", format.into(), FORMAT.into())?;
        if format == 0 {
            return Err(BadMeta::Damaged("its format is 0"));
        }
        if bytes.len() != STORE_META_LEN || usize::from(len) != STORE_META_LEN {
            return Err(BadMeta::Damaged("its length is not 128 bytes"));
        }
        let (before, crc) = bytes.split_last_chunk::<4>().ok_or(CUT)?;
        if crc32fast::hash(before) != u32::from_le_bytes(*crc) {
            return Err(BadMeta::Damaged("its checksum fails"));
        }
        let mut word = || b.u32().ok_or(CUT);
        let (compat, ro_compat, incompat, min_reader, min_writer) =
            (word()?, word()?, word()?, word()?, word()?);
        too_new("a feature of the store", incompat.into(), 0)?;
        too_new("reading the store", min_reader.into(), LEVEL.into())?;
        let meta = StoreMeta {
            compat,
            ro_compat,
            incompat,
            min_reader,
            min_writer,
            store_id: b.array().ok_or(CUT)?,
            created: b.u64().ok_or(CUT)?,
            writer_version: b.array().ok_or(CUT)?,
        };
        let zeros = b.take(STORE_META_LEN - 4 - 72).ok_or(CUT)?;
        if all_zero(zeros) { Ok(meta) } else { Err(BadMeta::Damaged("reserved bytes are not zero")) }
    }

    /// Why this release must not write the store, if so.
    pub fn write_barrier(&self) -> Option<BadMeta> {
        too_new("writing the store", self.min_writer.into(), LEVEL.into())
            .and_then(|()| too_new("writing a feature of the store", self.ro_compat.into(), 0))
            .err()
    }
}
