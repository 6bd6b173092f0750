//! What an error has beside its message is the same for all languages: `bindings/corpus/errors.json` says what, by code.

use std::collections::{BTreeMap, BTreeSet};

use foldlog::log::finding::{Finding, Severity};
use foldlog::{BlobId, ErrorKind, OpId, Seq};

use crate::failure::members;

/// One of each kind that knows something; the kinds of all other codes know nothing.
fn samples() -> Vec<ErrorKind> {
    let text = || String::from("x");
    let (seq, what, op_id) = (Seq(1), "x", OpId([1; 16]));
    let finding = Finding {
        severity: Severity::Damage,
        code: "x",
        file: "x".into(),
        offset: None,
        seq: None,
        message: text(),
        remedy: "x",
    };
    vec![
        ErrorKind::Busy { holder: text(), waited_ms: 1 },
        ErrorKind::Damaged(Box::new(finding)),
        ErrorKind::StoreReplaced { what: text() },
        ErrorKind::DurabilityLost { from: seq },
        ErrorKind::NotDurable { seq, why: text() },
        ErrorKind::ReadOnly { reason: text() },
        ErrorKind::TooNew { what: text(), need: 2, have: 1 },
        ErrorKind::UnknownEvent { seq, kind: 1, version: 1 },
        ErrorKind::Conflict(Vec::new()),
        ErrorKind::OpIdReused { op_id, seq },
        ErrorKind::OutcomeUnknown { op_id, seen: seq, window_start: seq, current: Vec::new() },
        ErrorKind::TooLarge { what, len: 2, max: 1 },
        ErrorKind::BlobMissing { blob: BlobId([1; 32]) },
        ErrorKind::Invalid { what, why: text() },
        ErrorKind::Refused(text()),
        ErrorKind::NoTask { id: text() },
        ErrorKind::TaskExists { id: text() },
        ErrorKind::TaskDeleted { id: text(), seq },
        ErrorKind::NoDocument { name: text() },
        ErrorKind::DocumentDeleted { name: text(), seq },
        ErrorKind::DocumentRefused { name: text(), kind: text(), why: text() },
        ErrorKind::BadStateFile { why: text() },
        ErrorKind::StatusRefused { id: text(), from: "x", to: "x", why: text() },
        ErrorKind::NotWaiting { parent: text(), child: text() },
        ErrorKind::Cycle { parent: text(), child: text() },
        ErrorKind::Owned { id: text(), session: 1, owner: text(), liveness: "x" },
        ErrorKind::Fenced { id: text(), fence: text(), current: text() },
        ErrorKind::RuledField { field: text(), verb: "x" },
        ErrorKind::CrossWorkspace { ids: (text(), text()), homes: (text(), text()) },
        ErrorKind::Trimmed { first_available: seq },
        ErrorKind::Rewound { to: seq },
        ErrorKind::NotFound { what: text() },
        ErrorKind::Foreign { what, why: text() },
        ErrorKind::SharedFileSystem { fs: text() },
        ErrorKind::Unstable { what: text() },
        ErrorKind::Occupied { what: text() },
    ]
}

#[test]
fn members_of_every_error_are_those_that_all_languages_know() -> serde_json::Result<()> {
    let written = include_str!("../../corpus/errors.json");
    let told: BTreeMap<&str, BTreeSet<String>> = serde_json::from_str(written)?;
    let mut sent: BTreeMap<&str, BTreeSet<String>> =
        ErrorKind::CODES.iter().map(|code| (*code, BTreeSet::new())).collect();
    for kind in samples() {
        // A kind that has fields shows them by name.
        let mut text = String::from("{");
        members(&kind, &mut text);
        let named: BTreeMap<String, serde_json::Value> = serde_json::from_str(&(text + "}"))?;
        assert!(!named.is_empty(), "{}", kind.code());
        sent.insert(kind.code(), named.into_keys().collect());
    }
    let now = serde_json::to_string_pretty(&sent)?;
    assert_eq!(told, sent, "bindings/corpus/errors.json is to be:\n{now}");
    Ok(())
}
