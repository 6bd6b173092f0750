//! Segments whose header is refused.

use super::build::{Seg, mend_header, vector};
use super::{Vector, Want};

pub(super) fn vectors() -> Vec<Vector> {
    let whole = Seg::three().bytes;
    let refused = |name: &str, bytes: Vec<u8>, code| vector(name, bytes, Want::Refused { at: 0, code });
    let changed = |at: usize, new: &[u8]| {
        let mut bytes = whole.clone();
        bytes[at..at + new.len()].copy_from_slice(new);
        bytes
    };
    let mended = |at: usize, new: &[u8]| {
        let mut bytes = changed(at, new);
        mend_header(&mut bytes);
        bytes
    };
    let rule = |name: &str, at, new: &[u8]| refused(name, mended(at, new), "header-rule");
    let text_mode: Vec<u8> = whole
        .iter()
        .enumerate()
        .filter(|(i, b)| !(**b == 13 && whole.get(i + 1) == Some(&10)))
        .map(|(_, b)| *b)
        .collect();
    vec![
        refused("empty-file", Vec::new(), "header-short"),
        refused("header-cut-in-magic", whole[..5].to_vec(), "header-short"),
        refused("header-cut-before-last-byte", whole[..255].to_vec(), "header-short"),
        refused("header-of-zeros", vec![0; 256], "header-magic"),
        refused("magic-without-carriage-return", text_mode, "header-magic"),
        refused("magic-without-bit-7", changed(0, &[0x09]), "header-magic"),
        refused("magic-of-a-workspace-meta", changed(3, b"W"), "header-magic"),
        refused("header-format-0", mended(10, &[0, 0]), "header-format"),
        refused("header-format-2", mended(10, &[2, 0]), "header-format"),
        refused("header-format-2-with-crc-elsewhere", changed(10, &[2, 0]), "header-format"),
        refused("header-crc-changed", changed(252, &[whole[252] ^ 1]), "header-crc"),
        refused("header-bit-flipped", changed(100, &[whole[100] ^ 0x10]), "header-crc"),
        refused("header-torn", changed(128, &[0; 128]), "header-crc"),
        refused("header-incompat-bit", mended(24, &[1, 0, 0, 0]), "header-incompat"),
        refused("header-incompat-high-bit", mended(24, &[0, 0, 0, 0x80]), "header-incompat"),
        rule("header-length-264", 8, &[8, 1]),
        rule("header-state-0", 12, &[0, 0]),
        rule("header-state-3", 12, &[3, 0]),
        rule("header-reserved-not-zero", 14, &[1, 0]),
        rule("header-rest-not-zero", 251, &[1]),
        rule("header-max-body-0", 116, &[0; 4]),
        rule("header-max-body-over-cap", 116, &(64u32 << 20 | 1).to_le_bytes()),
        rule("header-ordinal-0", 64, &[0; 8]),
        rule("header-ordinals-backwards", 64, &2u64.to_le_bytes()),
        rule("header-live-with-first-seq-0", 80, &[0; 8]),
    ]
}
