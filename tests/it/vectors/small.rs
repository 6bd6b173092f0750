//! The small structures: META of a store and of a workspace, control block, a session's `.info`.

use std::fmt::Write;

use foldlog::log::format::{
    CONTROL_LEN, CONTROL_NONE, WORD_ACTIVE, WORD_BOOT, WORD_CHANGES, WORD_DIRTY, WORD_DURABLE,
    WORD_FORMAT_GENERATION, WORD_HOLDER, WORD_LANES, WORD_POISON, WORD_SNAPSHOT, WORD_TAIL,
};
use foldlog::log::meta::{BadMeta, Binding, WorkspaceMeta};
use foldlog::log::{LogId, control};
use foldlog::session::{Info, Listing};
use foldlog::store::meta::StoreMeta;
use foldlog::vfs::FileId;

use super::build::{LOG, TIME, VERSION};
use super::{Outcome, Vector, Want};

pub(super) fn vectors() -> Vec<Vector> {
    let mut all = store_metas();
    all.extend(workspace_metas());
    all.extend(controls());
    all.extend(infos());
    all
}

fn good(name: &str, kind: &'static str, bytes: Vec<u8>) -> Vector {
    Vector { name: name.into(), kind, bytes, want: Want::Fields }
}

fn bad(name: &str, kind: &'static str, bytes: Vec<u8>, code: &'static str) -> Vector {
    Vector { name: name.into(), kind, bytes, want: Want::Refused { at: 0, code } }
}

/// Changed bytes with a checksum over all before it at the end.
fn mended(mut bytes: Vec<u8>, at: usize, new: &[u8]) -> Vec<u8> {
    bytes[at..at + new.len()].copy_from_slice(new);
    let before = bytes.len() - 4;
    let crc = crc32fast::hash(&bytes[..before]);
    bytes[before..].copy_from_slice(&crc.to_le_bytes());
    bytes
}

fn flipped(mut bytes: Vec<u8>, at: usize) -> Vec<u8> {
    bytes[at] ^= 1;
    bytes
}

fn refused(code: &str) -> Outcome {
    Outcome { json: format!(r#"{{"refused_at":0,"code":"{code}"}}"#), lines: None }
}

fn fields(json: String) -> Outcome {
    Outcome { json, lines: None }
}

fn meta_code(bad: &BadMeta) -> &'static str {
    match bad {
        BadMeta::Magic => "magic",
        BadMeta::Damaged(_) => "damaged",
        BadMeta::TooNew { .. } => "too-new",
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

fn store_metas() -> Vec<Vector> {
    const KIND: &str = "store-meta";
    let meta = StoreMeta::new(*b"store-identity-!", TIME, VERSION);
    let plain = meta.encode().to_vec();
    let with = |change: fn(&mut StoreMeta)| {
        let mut meta = meta.clone();
        change(&mut meta);
        meta.encode().to_vec()
    };
    let mut long = plain.clone();
    long.push(0);
    vec![
        good("store-meta", KIND, plain.clone()),
        good("store-meta-not-writable-feature", KIND, with(|m| m.ro_compat = 1)),
        good("store-meta-not-writable-level", KIND, with(|m| (m.min_writer, m.compat) = (2, 9))),
        bad("store-meta-empty", KIND, Vec::new(), "magic"),
        bad("store-meta-magic", KIND, mended(plain.clone(), 3, b"W"), "magic"),
        bad("store-meta-cut", KIND, plain[..127].to_vec(), "damaged"),
        bad("store-meta-long", KIND, long, "damaged"),
        bad("store-meta-length-field", KIND, mended(plain.clone(), 8, &[127]), "damaged"),
        bad("store-meta-flip", KIND, flipped(plain.clone(), 40), "damaged"),
        bad("store-meta-reserved", KIND, mended(plain.clone(), 123, &[1]), "damaged"),
        bad("store-meta-format-0", KIND, mended(plain.clone(), 10, &[0]), "damaged"),
        bad("store-meta-format-2", KIND, mended(plain, 10, &[2]), "too-new"),
        bad("store-meta-incompat", KIND, with(|m| m.incompat = 1 << 31), "too-new"),
        bad("store-meta-min-reader", KIND, with(|m| m.min_reader = 2), "too-new"),
    ]
}

pub(super) fn read_store_meta(bytes: &[u8]) -> Outcome {
    match StoreMeta::decode(bytes) {
        Err(bad) => refused(meta_code(&bad)),
        Ok(m) => fields(format!(
            concat!(
                r#"{{"compat":{},"ro_compat":{},"incompat":{},"min_reader":{},"min_writer":{},"#,
                r#""store_id":"{}","created":{},"writer_version":"{}","writable":{}}}"#
            ),
            m.compat,
            m.ro_compat,
            m.incompat,
            m.min_reader,
            m.min_writer,
            hex(&m.store_id),
            m.created,
            hex(&m.writer_version),
            m.write_barrier().is_none()
        )),
    }
}

fn workspace_metas() -> Vec<Vector> {
    const KIND: &str = "workspace-meta";
    let meta = WorkspaceMeta::new(LOG, TIME, VERSION, Binding::Path("/home/ä/project".into()));
    let plain = meta.encode();
    let with = |change: fn(&mut WorkspaceMeta)| {
        let mut meta = meta.clone();
        change(&mut meta);
        meta.encode()
    };
    let many = with(|m| {
        let more =
            [Binding::Key("vscode-remote://host".into()), Binding::None, Binding::Path("c:/x\"y".into())];
        m.bindings.extend(more);
    });
    let mut long = plain.clone();
    long.push(0);
    // Of one binding the kind stands at 82, the length at 83, the text at 85.
    let mut left_over = plain.clone();
    left_over.push(0);
    let length = u32::try_from(left_over.len()).unwrap().to_le_bytes();
    // Whole by its length and checksum, yet too short: what stands where its incompat bits should be is no evidence.
    let short = mended(plain[..30].to_vec(), 8, &[30, 0, 0, 0, 1, 0]);
    vec![
        good("workspace-meta", KIND, plain.clone()),
        good("workspace-meta-bound-to-nothing", KIND, with(|m| m.bindings = vec![Binding::None])),
        good("workspace-meta-several-bindings", KIND, many),
        good("workspace-meta-control-none", KIND, with(|m| m.control = CONTROL_NONE)),
        good("workspace-meta-control-unknown", KIND, with(|m| m.control = 2)),
        good("workspace-meta-not-writable-level", KIND, with(|m| m.min_writer = 2)),
        bad("workspace-meta-magic", KIND, mended(plain.clone(), 3, b"S"), "magic"),
        bad("workspace-meta-cut", KIND, plain[..60].to_vec(), "damaged"),
        bad("workspace-meta-cut-behind-magic", KIND, plain[..8].to_vec(), "damaged"),
        bad("workspace-meta-too-short", KIND, short, "damaged"),
        bad("workspace-meta-long", KIND, long, "damaged"),
        bad("workspace-meta-flip", KIND, flipped(plain.clone(), 50), "damaged"),
        bad("workspace-meta-reserved", KIND, mended(plain.clone(), 38, &[1]), "damaged"),
        bad("workspace-meta-left-over", KIND, mended(left_over, 8, &length), "damaged"),
        bad("workspace-meta-no-binding", KIND, with(|m| m.bindings.clear()), "damaged"),
        bad("workspace-meta-binding-cut", KIND, mended(plain.clone(), 83, &[255]), "damaged"),
        bad("workspace-meta-binding-not-utf-8", KIND, mended(plain.clone(), 85, &[255]), "damaged"),
        bad("workspace-meta-binding-kind-3", KIND, mended(plain.clone(), 82, &[3]), "damaged"),
        bad("workspace-meta-nothing-with-text", KIND, mended(plain.clone(), 82, &[0]), "damaged"),
        bad("workspace-meta-format-0", KIND, mended(plain.clone(), 12, &[0]), "damaged"),
        bad("workspace-meta-format-2", KIND, mended(plain, 12, &[2]), "too-new"),
        bad("workspace-meta-codec", KIND, with(|m| m.codec = 1), "too-new"),
        bad("workspace-meta-incompat", KIND, with(|m| m.incompat = 1), "too-new"),
        bad("workspace-meta-min-reader", KIND, with(|m| m.min_reader = 2), "too-new"),
    ]
}

pub(super) fn read_workspace_meta(bytes: &[u8]) -> Outcome {
    let m = match WorkspaceMeta::decode(bytes) {
        Err(bad) => return refused(meta_code(&bad)),
        Ok(m) => m,
    };
    let bindings: Vec<_> = m
        .bindings
        .iter()
        .map(|binding| {
            let (kind, text) = match binding {
                Binding::None => ("none", ""),
                Binding::Path(text) => ("path", text.as_str()),
                Binding::Key(text) => ("key", text.as_str()),
            };
            format!(r#"{{"kind":"{kind}","text":{}}}"#, serde_json::to_string(text).unwrap())
        })
        .collect();
    fields(format!(
        concat!(
            r#"{{"codec":{},"compat":{},"ro_compat":{},"incompat":{},"min_reader":{},"min_writer":{},"control":{},"#,
            r#""log_id":"{}","created":{},"writer_version":"{}","bindings":[{}],"writable":{}}}"#
        ),
        m.codec,
        m.compat,
        m.ro_compat,
        m.incompat,
        m.min_reader,
        m.min_writer,
        m.control,
        m.log_id,
        m.created,
        hex(&m.writer_version),
        bindings.join(","),
        m.write_barrier().is_none()
    ))
}

fn controls() -> Vec<Vector> {
    const KIND: &str = "control";
    let fresh = control::encode(LOG);
    let put = |block: &mut Vec<u8>, at: u64, word: u64| {
        let at = usize::try_from(at).unwrap();
        block[at..at + 8].copy_from_slice(&word.to_le_bytes());
    };
    let mut words = fresh.clone();
    for (at, position) in [
        (WORD_TAIL, 4096),
        (WORD_DURABLE, (1 << 48) - 8),
        (WORD_DIRTY, 4096),
        (WORD_POISON, 88),
        (WORD_LANES[0], 2048),
        (WORD_LANES[1], 8),
    ] {
        put(&mut words, at, control::position_word(LOG, position));
    }
    for (at, word) in [
        (WORD_BOOT, 0xB007_B007_B007_B007),
        (WORD_FORMAT_GENERATION, 3),
        (WORD_ACTIVE, 12),
        (WORD_SNAPSHOT, 1 << 60),
        (WORD_CHANGES, u64::MAX),
        (WORD_HOLDER[0], 7),
        (WORD_HOLDER[1], TIME),
    ] {
        put(&mut words, at, word);
    }
    let mut unchecked = fresh.clone();
    let other = LogId([7; 16]);
    put(&mut unchecked, WORD_TAIL, 4096 << 16);
    put(&mut unchecked, WORD_DURABLE, control::position_word(LOG, 4096) ^ 1);
    put(&mut unchecked, WORD_POISON, control::position_word(other, 4096));
    put(&mut unchecked, WORD_DIRTY, control::position_word(LOG, 0));
    let identity = |at: usize, new: &[u8]| {
        let mut block = fresh.clone();
        let head = mended(block[..40].to_vec(), at, new);
        block[..40].copy_from_slice(&head);
        block
    };
    vec![
        good("control-fresh", KIND, fresh.clone()),
        good("control-words", KIND, words),
        good("control-words-that-fail-their-check", KIND, unchecked),
        bad("control-of-another-log", KIND, control::encode(other), "identity"),
        bad("control-zeroed", KIND, vec![0; CONTROL_LEN], "identity"),
        bad("control-cut", KIND, fresh[..4095].to_vec(), "identity"),
        bad("control-magic", KIND, identity(7, &[0]), "identity"),
        bad("control-layout-2", KIND, identity(8, &[2]), "identity"),
        bad("control-reserved", KIND, identity(12, &[1]), "identity"),
        bad("control-identity-flip", KIND, flipped(fresh, 36), "identity"),
    ]
}

pub(super) fn read_control(bytes: &[u8]) -> Outcome {
    if !control::is_block_of(bytes, LOG) {
        return refused("identity");
    }
    let word = |at: u64| {
        let at = usize::try_from(at).unwrap();
        u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
    };
    let position = |at: u64| control::position(LOG, word(at)).map_or("null".into(), |p| p.to_string());
    fields(format!(
        concat!(
            r#"{{"log_id":"{}","boot":"{:016x}","tail":{},"durable":{},"dirty_from":{},"poison":{},"#,
            r#""format_generation":{},"active_ordinal":{},"snapshot":{},"changes":{},"lanes":[{},{}],"holder":[{},{}]}}"#
        ),
        LOG,
        word(WORD_BOOT),
        position(WORD_TAIL),
        position(WORD_DURABLE),
        position(WORD_DIRTY),
        position(WORD_POISON),
        word(WORD_FORMAT_GENERATION),
        word(WORD_ACTIVE),
        word(WORD_SNAPSHOT),
        word(WORD_CHANGES),
        position(WORD_LANES[0]),
        position(WORD_LANES[1]),
        word(WORD_HOLDER[0]),
        word(WORD_HOLDER[1])
    ))
}

fn info(label: &str, logs: u8, owns: u8) -> Vec<u8> {
    let listing = |n: u8| Listing {
        log: [n; 16],
        control: FileId { device: 0xFD00 + u64::from(n), inode: u128::from(n) << 100 | 12 },
    };
    let info = Info {
        pid: 4321,
        session: 0x0BAD_CAFE_F00D_D00D,
        started: TIME,
        version: "0.1.0".into(),
        label: label.into(),
        listings: (1..=logs).map(listing).collect(),
        owns: (1..=owns).map(|n| [n; 16]).collect(),
    };
    info.encode()
}

fn infos() -> Vec<Vector> {
    const KIND: &str = "info";
    let plain = info("editor", 1, 1);
    let mut left_over = plain.clone();
    left_over.push(0);
    let length = u32::try_from(left_over.len()).unwrap().to_le_bytes();
    let long = info(&"x".repeat(65_535), 0, 0);
    // The version's length stands at 34, its text at 36, the label's length at 41, its text at 43.
    vec![
        good("info", KIND, plain.clone()),
        good("info-without-log-and-label", KIND, info("", 0, 0)),
        good("info-two-logs", KIND, info("\"Fenster\" ä", 2, 3)),
        bad("info-empty", KIND, Vec::new(), "unreadable"),
        bad("info-magic", KIND, mended(plain.clone(), 3, b"S"), "unreadable"),
        bad("info-cut-behind-magic", KIND, plain[..10].to_vec(), "unreadable"),
        bad("info-cut", KIND, plain[..60].to_vec(), "unreadable"),
        bad("info-flip", KIND, flipped(plain.clone(), 30), "unreadable"),
        bad("info-left-over", KIND, mended(left_over, 8, &length), "unreadable"),
        bad("info-over-64-kib", KIND, long, "unreadable"),
        bad("info-label-not-utf-8", KIND, mended(plain.clone(), 43, &[255]), "unreadable"),
        bad("info-version-over-file", KIND, mended(plain.clone(), 35, &[255]), "unreadable"),
        bad("info-log-missing", KIND, mended(plain.clone(), 49, &[2]), "unreadable"),
        bad("info-owned-log-missing", KIND, mended(plain.clone(), 91, &[2]), "unreadable"),
        bad("info-layout-0", KIND, mended(plain.clone(), 12, &[0]), "unreadable"),
        bad("info-layout-2", KIND, mended(plain, 12, &[2]), "unreadable"),
    ]
}

pub(super) fn read_info(bytes: &[u8]) -> Outcome {
    let Some(info) = Info::decode(bytes) else { return refused("unreadable") };
    let text = |text: &str| serde_json::to_string(text).unwrap();
    let logs: Vec<_> = info
        .listings
        .iter()
        .map(|listing| {
            let FileId { device, inode } = listing.control;
            let log = hex(&listing.log);
            format!(r#"{{"log_id":"{log}","device":"{device:016x}","inode":"{inode:032x}"}}"#)
        })
        .collect();
    let owns: Vec<_> = info.owns.iter().map(|log| format!(r#""{}""#, hex(log))).collect();
    fields(format!(
        r#"{{"pid":{},"session":"{:016x}","started":{},"version":{},"label":{},"logs":[{}],"owns":[{}]}}"#,
        info.pid,
        info.session,
        info.started,
        text(&info.version),
        text(&info.label),
        logs.join(","),
        owns.join(",")
    ))
}
