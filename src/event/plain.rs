//! The encoding of patches by hand: the bytes that postcard makes of `PatchedV1` and `SetV1`, at a fraction of the time. A
//! task that runs is patched all the time, and every other event is written once.

use super::item::{Field, Patch};
use super::value::Value;
use crate::log::BlobId;

/// The body of a patch; `whole` = with the lists of what goes, else what is set alone.
pub(super) fn patch(patch: &Patch, whole: bool, blobs: &mut Vec<BlobId>) -> Vec<u8> {
    let Patch { set, unset, drop_children } = patch;
    let mut out = Vec::with_capacity(128);
    length(set.len(), &mut out);
    for (field, value) in set {
        name(field, &mut out);
        put_value(value, blobs, &mut out);
    }
    if whole {
        length(unset.len(), &mut out);
        unset.iter().for_each(|field| name(field, &mut out));
        length(drop_children.len(), &mut out);
        drop_children.iter().for_each(|id| text(id, &mut out));
    }
    out
}

fn name(field: &Field, out: &mut Vec<u8>) {
    match field {
        Field::Other(name) => {
            out.push(0);
            text(name, out);
        }
        known => out.extend_from_slice(&[known.number(), 0]),
    }
}

fn put_value(value: &Value, blobs: &mut Vec<BlobId>, out: &mut Vec<u8>) {
    // The first byte is the place of the form in `ValueV1`.
    match value {
        Value::Null => out.push(0),
        Value::Bool(false) => out.push(1),
        Value::Bool(true) => out.push(2),
        Value::Int(n) => {
            out.push(3);
            // Zigzag: small numbers of either sign are short.
            varint((n << 1 ^ n >> 63).cast_unsigned(), out);
        }
        Value::UInt(n) => {
            out.push(4);
            varint(*n, out);
        }
        Value::Text(value) => {
            out.push(5);
            text(value, out);
        }
        Value::Strings(all) => {
            out.push(6);
            length(all.len(), out);
            all.iter().for_each(|value| text(value, out));
        }
        Value::Raw(value) => {
            out.push(7);
            text(value, out);
        }
        Value::Blob { id, len } => {
            let index = super::blob_index(blobs, *id);
            out.push(8);
            varint(index.into(), out);
            varint(*len, out);
        }
    }
}

fn text(text: &str, out: &mut Vec<u8>) {
    length(text.len(), out);
    out.extend_from_slice(text.as_bytes());
}

fn length(len: usize, out: &mut Vec<u8>) {
    varint(len as u64, out);
}

/// Seven bits at a time, the lowest first, each but the last with the top bit set.
fn varint(mut n: u64, out: &mut Vec<u8>) {
    while n >= 0x80 {
        let [low, ..] = n.to_le_bytes();
        out.push(low | 0x80);
        n >>= 7;
    }
    let [low, ..] = n.to_le_bytes();
    out.push(low);
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::super::body::{PatchedV1, SetV1};
    use super::super::{encode, to_fields, to_name};
    use super::*;

    fn values() -> impl Strategy<Value = Value> {
        prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::Bool),
            any::<i64>().prop_map(Value::Int),
            (0..64u32, any::<i64>()).prop_map(|(shift, n)| Value::Int(n >> shift)),
            any::<u64>().prop_map(Value::UInt),
            (0..64u32, any::<u64>()).prop_map(|(shift, n)| Value::UInt(n >> shift)),
            ".{0,200}".prop_map(Value::text),
            prop::collection::vec(".{0,9}", 0..200).prop_map(Value::strings),
            ".{0,200}".prop_map(|text| Value::Raw(text.into())),
            (any::<[u8; 32]>(), any::<u64>()).prop_map(|(id, len)| Value::Blob { id: BlobId(id), len }),
        ]
    }

    fn fields() -> impl Strategy<Value = Field> {
        prop_oneof![
            (1..=24u8).prop_map(|n| Field::of_number(n).unwrap()),
            ".{0,200}".prop_map(|s| Field::of(&s))
        ]
    }

    proptest! {
        #[test]
        fn patch_has_the_bytes_of_its_structs(
            set in prop::collection::vec((fields(), values()), 0..300),
            unset in prop::collection::vec(fields(), 0..9),
            drop_children in prop::collection::vec(".{0,9}".prop_map(Arc::from), 0..9),
        ) {
            let all = Patch { set, unset, drop_children };
            let (mut blobs, mut expected_blobs) = (Vec::new(), Vec::new());
            let expected = encode(&PatchedV1 {
                set: to_fields(&all.set, &mut expected_blobs),
                unset: all.unset.iter().map(to_name).collect(),
                drop_children: all.drop_children.iter().map(Arc::as_ref).collect(),
            });
            prop_assert_eq!(patch(&all, true, &mut blobs), expected);
            prop_assert_eq!(&blobs, &expected_blobs);
            let expected = encode(&SetV1 { set: to_fields(&all.set, &mut Vec::new()) });
            prop_assert_eq!(patch(&all, false, &mut Vec::new()), expected);
        }
    }
}
