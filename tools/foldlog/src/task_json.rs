//! A task, and what became of it, as JSON lines: the contract of `tasks`, `show` and `history` with `--json`.
//!
//! Values are spliced in as the log has them: no number, escape or order of keys is touched.

use foldlog::event::json::write_string;
use foldlog::task::Snapshot;
use foldlog::view::Totals;
use foldlog::{Token, Value};

/// Appends `"key":`, a comma before it unless it is the first.
pub(crate) fn key(name: &str, out: &mut String) {
    if !out.ends_with('{') {
        out.push(',');
    }
    write_string(name, out);
    out.push(':');
}

/// Appends a string's member.
pub(crate) fn text(name: &str, text: &str, out: &mut String) {
    key(name, out);
    write_string(text, out);
}

/// Appends a member whose text is JSON already.
pub(crate) fn raw(name: &str, json: impl std::fmt::Display, out: &mut String) {
    use std::fmt::Write as _;
    key(name, out);
    let _ = write!(out, "{json}"); // into memory
}

/// Appends a member whose value came from a log. White space between its tokens may hold line feeds, which would end the
/// line; each is a space here. In strings none can stand.
pub(crate) fn value(name: &str, value: &Value, out: &mut String) {
    raw(name, one_line(value.to_json()), out);
}

fn one_line(json: String) -> String {
    if json.contains(['\n', '\r']) { json.replace(['\n', '\r'], " ") } else { json }
}

/// `"revision":N,"seq":N,"epoch":HEX16,"token":TOKEN`.
fn token(token: Token, out: &mut String) {
    raw("revision", token.revision, out);
    raw("seq", token.at.seq, out);
    text("epoch", &format!("{:016x}", token.at.epoch), out);
    text("token", &token.to_string(), out);
}

/// `{"item":{…},"revision":N,"seq":N,"epoch":HEX16,"token":TOKEN,"workspace":NAME}`, with `"fence":FENCE` before
/// the workspace if a session holds it; the item's large values are loaded.
/// In a tree with the depth and the sums behind it.
pub(crate) fn task(found: &Snapshot, workspace: &str, tree: Option<(usize, &Totals)>) -> String {
    let mut out = String::from("{");
    raw("item", one_line(found.task.item.to_json()), &mut out);
    token(found.token, &mut out);
    if let Some(fence) = found.task.owner() {
        text("fence", &fence.to_string(), &mut out);
    }
    text("workspace", workspace, &mut out);
    if let Some((depth, totals)) = tree {
        raw("depth", depth, &mut out);
        raw("totals", sums(totals), &mut out);
    }
    out.push('}');
    out
}

pub(crate) fn sums(totals: &Totals) -> String {
    let mut out = String::from("{");
    raw("tasks", totals.tasks, &mut out);
    raw("tokensIn", totals.tokens_in, &mut out);
    raw("tokensOut", totals.tokens_out, &mut out);
    raw("cacheWrites", totals.cache_writes, &mut out);
    raw("cacheReads", totals.cache_reads, &mut out);
    // The shortest text that reads back as the same number; a sum that is none of JSON's numbers is null.
    raw("totalCost", serde_json::to_string(&totals.cost).unwrap_or_default(), &mut out);
    raw("size", totals.size, &mut out);
    out.push('}');
    out
}
