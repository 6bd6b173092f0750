//! A document, and what became of it, as JSON: the contract of `foldlog doc` with `--json`, and of the pipe's `doc_*`.

use std::path::Path;

use foldlog::document::{DocumentListing, DocumentSnapshot, Synced, Whence};
use foldlog::event::kinds;
use foldlog::view::DocumentChange;
use foldlog::{Tasks, Value};

use crate::event_json::rfc3339;
use crate::json::{array, raw, text, value};
use crate::task::token;

/// `{"name","kind":KIND|null,"value":JSON,"revision","seq","epoch","token","time","workspace"}`, with `"from"` behind where a
/// document was looked for in two places.
#[must_use]
pub fn document(found: &DocumentSnapshot, workspace: &str, whence: Option<Whence>) -> String {
    let mut line = head(found);
    value("value", &found.document.value, &mut line);
    tail(found, workspace, &mut line);
    if let Some(whence) = whence {
        text("from", if whence == Whence::Global { "global" } else { "workspace" }, &mut line);
    }
    line + "}"
}

/// The same with `"bytes"` in place of the value.
#[must_use]
pub fn listed(found: &DocumentSnapshot, workspace: &str) -> String {
    let mut line = head(found);
    raw("bytes", found.document.value.json_len(), &mut line);
    tail(found, workspace, &mut line);
    line + "}"
}

/// `{"documents":[…as listed],"next":NAME|null}`.
#[must_use]
pub fn listing(page: &DocumentListing, workspace: &str) -> String {
    let all: Vec<String> = page.documents.iter().map(|found| listed(found, workspace)).collect();
    let mut out = String::from("{");
    raw("documents", array(&all), &mut out);
    next(page, &mut out);
    out + "}"
}

/// Appends `"next":NAME|null`.
pub fn next(page: &DocumentListing, out: &mut String) {
    match &page.next {
        Some(next) => text("next", next.as_str(), out),
        None => raw("next", "null", out),
    }
}

fn head(found: &DocumentSnapshot) -> String {
    let mut line = String::from("{");
    text("name", found.document.name.as_str(), &mut line);
    kind(found.document.kind.as_deref(), &mut line);
    line
}

fn tail(found: &DocumentSnapshot, workspace: &str, line: &mut String) {
    token(found.token, line);
    text("time", &rfc3339(found.document.time), line);
    text("workspace", workspace, line);
}

fn kind(kind: Option<&str>, line: &mut String) {
    match kind {
        Some(kind) => text("kind", kind, line),
        None => raw("kind", "null", line),
    }
}

/// `{"name","seq","time","session":HEX16|null,"op_id":HEX32|null,"event":NAME,"revision","kind","value"}`; without `kind` and
/// `value` for a deletion.
///
/// # Errors
/// As [`Tasks::value`].
pub fn change(home: &Tasks, change: &DocumentChange) -> foldlog::Result<String> {
    let mut line = String::from("{");
    text("name", change.name.as_str(), &mut line);
    raw("seq", change.seq, &mut line);
    text("time", &rfc3339(change.time), &mut line);
    match change.session {
        0 => raw("session", "null", &mut line),
        session => text("session", &format!("{session:016x}"), &mut line),
    }
    match change.op_id {
        Some(op_id) => text("op_id", &op_id.to_string(), &mut line),
        None => raw("op_id", "null", &mut line),
    }
    text("event", kinds::name(change.event).unwrap_or("event"), &mut line);
    raw("revision", change.revision, &mut line);
    if let Some(document) = &change.document {
        kind(document.kind.as_deref(), &mut line);
        value("value", &home.value(&document.value)?, &mut line);
    }
    Ok(line + "}")
}

/// `{"name","file","imported","exported","token":TOKEN|null,"kept":[MEMBER,…]}`.
#[must_use]
pub fn synced(name: &str, file: &Path, synced: &Synced) -> String {
    let mut line = String::from("{");
    text("name", name, &mut line);
    text("file", &file.display().to_string(), &mut line);
    raw("imported", synced.imported, &mut line);
    raw("exported", synced.exported, &mut line);
    match synced.token {
        Some(token) => text("token", &token.to_string(), &mut line),
        None => raw("token", "null", &mut line),
    }
    raw("kept", Value::strings(synced.kept.iter().map(String::as_str)), &mut line);
    line + "}"
}
