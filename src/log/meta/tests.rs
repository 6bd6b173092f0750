use super::*;

fn meta() -> WorkspaceMeta {
    WorkspaceMeta {
        compat: 0x0102_0304,
        bindings: vec![
            Binding::Path("/home/a/projekt ä".into()),
            Binding::Key("jetbrains:42".into()),
            Binding::None,
        ],
        ..WorkspaceMeta::new(LogId([9; 16]), 77, *b"foldlog 0.1.0\0\0\0", Binding::None)
    }
}

/// The META's bytes with some of them replaced and the CRC made to check again.
fn edited(at: usize, new: &[u8]) -> Vec<u8> {
    let mut bytes = meta().encode();
    crate::log::bytes::put(&mut bytes, at, new);
    reseal(bytes)
}

fn reseal(mut bytes: Vec<u8>) -> Vec<u8> {
    let end = bytes.len() - 4;
    let crc = crc32fast::hash(&bytes[..end]);
    bytes[end..].copy_from_slice(&crc.to_le_bytes());
    bytes
}

#[test]
fn meta_reads_back() {
    let fresh = WorkspaceMeta::new(LogId([9; 16]), 77, [0; 16], Binding::Path("/a".into()));
    for meta in [meta(), fresh] {
        assert_eq!(WorkspaceMeta::decode(&meta.encode()), Ok(meta));
    }
}

#[test]
fn fields_stand_where_the_format_says() {
    let bytes = meta().encode();
    assert_eq!(bytes[..8], [0x89, b'F', b'L', b'W', 13, 10, 26, 10]);
    assert_eq!(bytes[8..12], u32::try_from(bytes.len()).unwrap().to_le_bytes());
    assert_eq!(bytes[12..16], [1, 0, 0, 0], "format, codec");
    assert_eq!(bytes[16..20], 0x0102_0304u32.to_le_bytes());
    assert_eq!(bytes[28..36], [1, 0, 0, 0, 1, 0, 0, 0], "min_reader, min_writer");
    assert_eq!(bytes[40..56], [9; 16]);
    assert_eq!(bytes[56..64], 77u64.to_le_bytes());
    assert_eq!(&bytes[64..80], b"foldlog 0.1.0\0\0\0");
    assert_eq!(bytes[80..85], [3, 0, 1, 18, 0]);
}

#[test]
fn every_flipped_bit_is_seen() {
    let good = meta().encode();
    for bit in 0..good.len() * 8 {
        let mut bytes = good.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert!(WorkspaceMeta::decode(&bytes).is_err(), "bit {bit}");
    }
}

#[test]
fn a_meta_cut_anywhere_or_with_bytes_more_is_damaged() {
    let mut bytes = meta().encode();
    for len in 0..bytes.len() {
        let found = WorkspaceMeta::decode(&bytes[..len]);
        match len {
            0..8 => assert_eq!(found, Err(BadMeta::Magic)),
            _ => assert!(matches!(found, Err(BadMeta::Damaged(_))), "cut to {len}: {found:?}"),
        }
    }
    bytes.push(0);
    assert!(matches!(WorkspaceMeta::decode(&bytes), Err(BadMeta::Damaged(_))));
}

#[test]
fn newer_formats_codecs_features_and_levels_are_named() {
    for (at, what) in [
        (12, "the workspace's format"),
        (14, "the workspace's codec"),
        (24, "a feature of the workspace"),
        (28, "reading the workspace"),
    ] {
        let found = WorkspaceMeta::decode(&edited(at, &[5]));
        assert!(matches!(found, Err(BadMeta::TooNew { what: w, need: 5, .. }) if w == what), "{found:?}");
    }
}

#[test]
fn a_newer_format_need_not_keep_this_ones_length_or_checksum() {
    let mut bytes = meta().encode();
    bytes[12] = 2;
    bytes.truncate(20);
    assert!(matches!(WorkspaceMeta::decode(&bytes), Err(BadMeta::TooNew { need: 2, have: 1, .. })));
}

#[test]
fn what_bars_writers_bars_no_reader() {
    for (at, what) in [
        (20, "writing a feature of the workspace"),
        (32, "writing the workspace"),
        (36, "the workspace's control words"),
    ] {
        let found = WorkspaceMeta::decode(&edited(at, &[2])).unwrap();
        assert!(
            matches!(found.write_barrier(), Some(BadMeta::TooNew { what: w, .. }) if w == what),
            "{what}"
        );
    }
    assert_eq!(meta().write_barrier(), None);
    assert_eq!(WorkspaceMeta::decode(&edited(16, &[0xFF])).unwrap().write_barrier(), None);
}

#[test]
fn rules_hold_even_if_the_checksum_is_right() {
    let damaged = |bytes: &[u8]| match WorkspaceMeta::decode(bytes) {
        Err(BadMeta::Damaged(what)) => what,
        other => panic!("{other:?}"),
    };
    assert_eq!(damaged(&edited(38, &[1])), "reserved bytes are not zero");
    assert_eq!(damaged(&edited(82, &[3])), "a binding of unknown kind");
    assert_eq!(damaged(&edited(82, &[0])), "a binding of unknown kind", "no binding, yet a name");
    assert_eq!(damaged(&edited(85, &[0xFF])), "a binding is not UTF-8");
    assert_eq!(damaged(&edited(80, &[2])), "bytes are left over");
    assert_eq!(damaged(&edited(80, &[4])), "it ends inside a field");
    assert_eq!(damaged(&edited(83, &[0xFF, 0xFF])), "it ends inside a field");
}

/// A META of format 0, or one that is bound to nothing, was taken for a good one as long as its checksum was right.
#[test]
fn no_format_0_and_no_workspace_without_a_binding() {
    assert_eq!(WorkspaceMeta::decode(&edited(12, &[0])), Err(BadMeta::Damaged("its format is 0")));
    let unbound = WorkspaceMeta { bindings: Vec::new(), ..meta() }.encode();
    assert_eq!(
        WorkspaceMeta::decode(&unbound),
        Err(BadMeta::Damaged("its length is not the one it states, or no META's"))
    );
}

#[test]
fn a_meta_over_its_limit_is_refused() {
    let path = "x".repeat(60_000);
    let bindings = vec![Binding::Path(path); META_LEN_MAX / 60_000 + 1];
    let bytes = WorkspaceMeta { bindings, ..meta() }.encode();
    assert!(bytes.len() > META_LEN_MAX);
    assert!(matches!(WorkspaceMeta::decode(&bytes), Err(BadMeta::Damaged(_))));
}
