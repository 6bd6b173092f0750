//! The control block: 4 KiB of hints. `format-spec/format.md`, section *Control block*.
//!
//! Every word has an equivalent in the log; a block that is absent, zeroed, random or another log's costs time or
//! weakens a verdict, never a commit. This release uses the durable and poison words only (META `control: none`).

use super::LogId;
use super::bytes::{Bytes, put};
use super::format::{CONTROL_CRC_AT, CONTROL_LAYOUT, CONTROL_LEN, CONTROL_MAGIC};

/// A fresh block of this log: identity, and all words 0.
pub fn encode(log: LogId) -> Vec<u8> {
    let mut out = vec![0; CONTROL_LEN];
    put(&mut out, 0, &CONTROL_MAGIC);
    put(&mut out, 8, &CONTROL_LAYOUT.to_le_bytes());
    put(&mut out, 16, &log.0);
    let crc = crc32fast::hash(out.get(..CONTROL_CRC_AT).unwrap_or_default());
    put(&mut out, CONTROL_CRC_AT, &crc.to_le_bytes());
    out
}

/// Whether the bytes are a block of this log, in this layout.
pub fn is_block_of(bytes: &[u8], log: LogId) -> bool {
    let mut b = Bytes(bytes);
    let mut fields = || -> Option<bool> {
        let before = bytes.get(..CONTROL_CRC_AT)?;
        Some(
            bytes.len() == CONTROL_LEN
                && b.array::<8>()? == CONTROL_MAGIC
                && b.u32()? == CONTROL_LAYOUT
                && b.u32()? == 0
                && b.array::<16>()? == log.0
                && b.u32()? == 0
                && b.u32()? == crc32fast::hash(before),
        )
    };
    fields().unwrap_or(false)
}

/// A position as a word: 48 bits of value above a 16-bit check of value and log id; ordered as positions are.
pub fn position_word(log: LogId, position: u64) -> u64 {
    position << 16 | u64::from(check(log, position))
}

/// The position in a word; `None` if it is 0 or its check fails.
pub fn position(log: LogId, word: u64) -> Option<u64> {
    let position = word >> 16;
    (position != 0 && word & 0xFFFF == u64::from(check(log, position))).then_some(position)
}

fn check(log: LogId, position: u64) -> u16 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&log.0);
    hasher.update(&position.to_le_bytes());
    let [low, high, ..] = hasher.finalize().to_le_bytes();
    u16::from_le_bytes([low, high])
}

#[cfg(test)]
mod tests;
