//! The records of catalogues in stores of keys and bytes: what a step changes is a record of its own.

use crate::Result;
use crate::data::Step;

/// ts, tokens in, tokens out, cost.
pub const USAGE_LEN: usize = 32;

pub type Usage = [u8; USAGE_LEN];

pub fn usage(ts: i64, tokens_in: i64, tokens_out: i64, cost: f64) -> Usage {
    let mut record = [0; USAGE_LEN];
    for (place, word) in record.chunks_mut(8).zip([ts, tokens_in, tokens_out, cost.to_bits().cast_signed()]) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    record
}

fn word(record: &[u8], n: usize) -> Result<i64> {
    let bytes = record.get(n * 8..n * 8 + 8).ok_or("a record is too short")?;
    Ok(i64::from_le_bytes(bytes.try_into()?))
}

/// What a step makes of a record, and the time that was in it.
pub fn applied(record: &[u8], step: &Step) -> Result<(i64, Usage)> {
    let (tokens_in, tokens_out) = (word(record, 1)? + step.tokens_in, tokens_out(record)? + 1);
    Ok((word(record, 0)?, usage(step.ts, tokens_in, tokens_out, step.cost)))
}

pub fn tokens_out(record: &[u8]) -> Result<i64> {
    word(record, 2)
}

/// Key of an index by time.
pub fn ts_key(ts: i64, id: &str) -> Vec<u8> {
    [&ts.to_be_bytes(), id.as_bytes()].concat()
}

/// Key of an index by parent.
pub fn parent_key(parent: &str, id: &str) -> Vec<u8> {
    [parent.as_bytes(), id.as_bytes()].concat()
}
