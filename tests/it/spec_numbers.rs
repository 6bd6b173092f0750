//! Every constant of format version 1 stands in the table of `format-spec/format.md`, or of `format-spec/snapshot.md`, with
//! the value it has.

use std::collections::BTreeMap;

use foldlog::log::format;

trait Spelled {
    fn spelled(&self) -> String;
}

macro_rules! spelled_as_number {
    ($($t:ty)+) => {$(
        impl Spelled for $t {
            fn spelled(&self) -> String {
                self.to_string()
            }
        }
    )+};
}

spelled_as_number!(u8 u16 u32 u64 usize);

impl Spelled for [u8; 8] {
    fn spelled(&self) -> String {
        self.map(|byte| format!("{byte:02X}")).join(" ")
    }
}

impl<const N: usize> Spelled for [u64; N] {
    fn spelled(&self) -> String {
        self.map(|word| word.to_string()).join(", ")
    }
}

macro_rules! values {
    ($($name:ident)+) => {
        BTreeMap::from([$((stringify!($name), format::$name.spelled())),+])
    };
}

/// The constants by name. A name that is missing here makes the first assertion below fail.
fn values() -> BTreeMap<&'static str, String> {
    values! {
        FORMAT LEVEL SEGMENT_MAGIC WORKSPACE_MAGIC STORE_MAGIC CONTROL_MAGIC SESSION_MAGIC
        SEGMENT_HEADER_LEN SEGMENT_CRC_AT STATE_PREPARED STATE_LIVE
        FRAME_HEADER_LEN FRAME_LINK_AT FRAME_ALIGN MAX_BODY MAX_BODY_CAP MAX_COUNT LAG_NONE
        KIND_IGNORABLE KIND_CONTROL KIND_COMMIT KIND_EPOCH KIND_SEAL KIND_MARK KIND_RECOVERY_MARK KIND_GAP
        EVENT_ELIDED EVENT_NOTHING PREAMBLE_OP_ID EVENT_IGNORABLE EVENT_BLOBS BLOB_MAX OP_ID_WINDOW
        CONTROL_LEN CONTROL_LAYOUT CONTROL_CRC_AT WORD_BOOT WORD_TAIL WORD_DURABLE WORD_DIRTY WORD_POISON
        WORD_FORMAT_GENERATION WORD_ACTIVE WORD_SNAPSHOT WORD_CHANGES WORD_LANES WORD_TARGETS WORD_HOLDER WORD_WANTED
        WORD_SLEEPERS WORD_RING
        CODEC_BINARY CONTROL_NONE CONTROL_WORDS META_LEN_MIN META_LEN_MAX STORE_META_LEN SEGMENT_SIZE
        SNAPSHOT_MAGIC SNAPSHOT_FORMAT SNAPSHOT_HEADER_LEN SNAPSHOT_CRC_AT SNAPSHOT_BLOCK SNAPSHOT_EAGER SNAPSHOT_AFTER
    }
}

/// A number of the page as the code spells it: hexadecimal ones become decimal.
fn normal(value: &str) -> String {
    let value = value.trim().trim_matches('`');
    match value.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).map_or_else(|_| value.into(), |n| n.to_string()),
        None => value.into(),
    }
}

/// The table of constants: section 2 of the page.
fn section(page: &str) -> &str {
    page.split("\n## ")
        .find(|section| section.starts_with("2. Constants"))
        .expect("section 2 has the constants")
}

/// The rows `| NAME | value | … |` whose first cell is a constant's name.
fn rows(page: &str) -> BTreeMap<String, String> {
    let mut rows = BTreeMap::new();
    for line in page.lines().filter(|line| line.starts_with("| ")) {
        let mut cells = line.trim_matches('|').split('|').map(str::trim);
        let (Some(name), Some(value)) = (cells.next(), cells.next()) else { continue };
        let name = name.trim_matches('`');
        let is_name = name.len() > 3 && name.bytes().any(|b| b.is_ascii_uppercase());
        if is_name && name.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_') {
            let before = rows.insert(name.to_owned(), normal(value));
            assert_eq!(before, None, "{name} has two rows");
        }
    }
    rows
}

#[test]
fn numbers_of_the_page_are_those_of_the_code() {
    let code = include_str!("../../src/log/format.rs");
    let declared: Vec<_> = code
        .lines()
        .filter_map(|line| line.strip_prefix("pub const ")?.split_once(':').map(|(name, _)| name))
        .collect();
    let values = values();
    for name in &declared {
        assert!(values.contains_key(name), "{name} is not in this test's list");
    }
    assert_eq!(declared.len(), values.len());
    let mut rows = rows(section(include_str!("../../format-spec/format.md")));
    rows.extend(super::spec_numbers::rows(include_str!("../../format-spec/snapshot.md")));
    for (name, value) in &values {
        let row = rows.get(*name);
        assert_eq!(row, Some(value), "no page has a row, or one has another value, for {name}");
    }
    for name in rows.keys() {
        assert!(
            values.contains_key(name.as_str()),
            "a page has a row for {name}, which the code does not have"
        );
    }
}

#[test]
fn numbers_on_a_page_are_read_as_meant() {
    let page = "| `ABCD` | `0x10` | hex |\n| EFGH | 12 |\n| name | 3 |\n| --- | --- |\n";
    let rows = rows(page);
    assert_eq!(rows.get("ABCD").map(String::as_str), Some("16"));
    assert_eq!(rows.get("EFGH").map(String::as_str), Some("12"));
    assert_eq!(rows.len(), 2);
}
