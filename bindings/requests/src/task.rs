//! A task as JSON: what `tasks`, `show` and `pipe` print, and what the packages read.

use foldlog::Token;
use foldlog::task::Snapshot;
use foldlog::view::Totals;

use crate::json::{one_line, raw, text};

/// `"revision":N,"seq":N,"epoch":HEX16,"token":TOKEN`.
pub(crate) fn token(token: Token, out: &mut String) {
    raw("revision", token.revision, out);
    raw("seq", token.at.seq, out);
    text("epoch", &format!("{:016x}", token.at.epoch), out);
    text("token", &token.to_string(), out);
}

/// A task's item, as the log spells it.
#[must_use]
pub fn item(found: &Snapshot) -> String {
    one_line(found.task.item.to_json())
}

/// `{"item":{…},"revision":N,"seq":N,"epoch":HEX16,"token":TOKEN,"workspace":NAME}`, with `"fence":FENCE` before
/// the workspace if a session holds it; the item's large values are loaded.
/// In a tree with the depth and the sums behind it.
#[must_use]
pub fn task(found: &Snapshot, workspace: &str, tree: Option<(usize, &Totals)>) -> String {
    let mut out = String::from("{");
    raw("item", item(found), &mut out);
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

/// Sums over a task and all below it.
#[must_use]
pub fn sums(totals: &Totals) -> String {
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
