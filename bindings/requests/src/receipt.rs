//! What a commit came to, as JSON.

use foldlog::event::json::write_string;
use foldlog::log::{Cursor, Lpos};
use foldlog::task::Committed;
use foldlog::{Seq, Tasks};

use crate::json;

/// `{"seq","last_seq","epoch","revisions":{ID:N},"tokens":{ID:TOKEN},"durable","again"}`, with `"fences":{ID:FENCE}` before
/// `durable` if it gave any out, and `"documents":{NAME:TOKEN}` if it named any.
#[must_use]
pub fn committed(done: &Committed) -> String {
    let mut line = String::from("{");
    json::raw("seq", done.first, &mut line);
    json::raw("last_seq", done.last(), &mut line);
    json::text("epoch", &format!("{:016x}", done.cursor.epoch), &mut line);
    let (mut revisions, mut tokens) = (String::from("{"), String::from("{"));
    for (id, token) in &done.tasks {
        json::raw(id.as_str(), token.revision, &mut revisions);
        json::key(id.as_str(), &mut tokens);
        write_string(&token.to_string(), &mut tokens);
    }
    json::raw("revisions", revisions + "}", &mut line);
    json::raw("tokens", tokens + "}", &mut line);
    if !done.fences.is_empty() {
        let mut fences = String::from("{");
        for (id, fence) in &done.fences {
            json::text(id.as_str(), &fence.to_string(), &mut fences);
        }
        json::raw("fences", fences + "}", &mut line);
    }
    if !done.documents.is_empty() {
        let mut documents = String::from("{");
        for (name, token) in &done.documents {
            json::text(name.as_str(), &token.to_string(), &mut documents);
        }
        json::raw("documents", documents + "}", &mut line);
    }
    json::raw("durable", done.durable, &mut line);
    json::raw("again", done.again, &mut line);
    line + "}"
}

/// The same, with the workspace and the ticket to wait for behind it.
#[must_use]
pub fn with_ticket(home: &Tasks, done: &Committed) -> String {
    of(home.workspace().name(), done)
}

/// The same, by the workspace's name.
#[must_use]
pub fn of(workspace: &str, done: &Committed) -> String {
    let mut out = committed(done);
    out.pop();
    json::text("workspace", workspace, &mut out);
    json::text("ticket", &ticket(done), &mut out);
    out + "}"
}

/// What can be waited for: `BEHIND.SEQ.EPOCH`.
#[must_use]
pub fn ticket(done: &Committed) -> String {
    format!("{}.{}.{:016x}", done.behind.0, done.cursor.seq, done.cursor.epoch)
}

/// Reads one.
#[must_use]
pub fn read_ticket(text: &str) -> Option<Committed> {
    let mut parts = text.split('.');
    let (behind, seq, epoch) = (parts.next()?, parts.next()?, parts.next()?);
    let (behind, seq) = (Lpos(behind.parse().ok()?), Seq(seq.parse().ok()?));
    let cursor = Cursor { seq, epoch: u64::from_str_radix(epoch, 16).ok()? };
    parts.next().is_none().then_some(Committed {
        first: seq,
        count: 0,
        cursor,
        behind,
        durable: false,
        again: false,
        tasks: Vec::new(),
        fences: Vec::new(),
        imports: Vec::new(),
        documents: Vec::new(),
    })
}
