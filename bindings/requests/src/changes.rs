//! What a subscription begins with, and what it brings, as JSON.

use foldlog::log::Cursor;
use foldlog::task::TaskCommit;
use foldlog::{Seq, Since, Tasks};

use crate::document;
use crate::event_json::rfc3339;
use crate::failure::Failure;
use crate::history;
use crate::json::{array, raw, text};

/// Where one begins: `now`, `start` or a cursor.
///
/// # Errors
/// `invalid`.
pub fn since(from: Option<&str>) -> Result<Since, Failure> {
    match from {
        None | Some("now") => Ok(Since::Now),
        Some("start") => Ok(Since::Beginning),
        Some(text) => {
            let read = || {
                let (seq, epoch) = text.split_once('.')?;
                Some(Cursor { seq: Seq(seq.parse().ok()?), epoch: u64::from_str_radix(epoch, 16).ok()? })
            };
            let bad =
                || Failure::invalid(format!("from is to be \"now\", \"start\" or a cursor, not {text:?}"));
            read().map(Since::Cursor).ok_or_else(bad)
        }
    }
}

/// A place to go on from: `SEQ.EPOCH`.
#[must_use]
pub fn cursor(at: Cursor) -> String {
    format!("{}.{:016x}", at.seq, at.epoch)
}

/// `{"first","cursor","time","session","durable","changes":[{"id",…as of history}]}`, with `"documents":[…]` behind if it changed any.
///
/// # Errors
/// As [`history::change`].
pub fn commit(home: &Tasks, commit: &TaskCommit) -> foldlog::Result<String> {
    let mut one = String::from("{");
    raw("first", commit.first, &mut one);
    text("cursor", &cursor(commit.cursor), &mut one);
    text("time", &rfc3339(commit.time), &mut one);
    match commit.session {
        0 => raw("session", "null", &mut one),
        session => text("session", &format!("{session:016x}"), &mut one),
    }
    raw("durable", commit.cursor.seq <= commit.durable, &mut one);
    let mut changes = Vec::with_capacity(commit.changes.len());
    for changed in &commit.changes {
        let mut change = String::from("{");
        text("id", changed.id.as_str(), &mut change);
        let rest = history::change(home, &changed.change)?;
        change.push(',');
        change.push_str(rest.trim_start_matches('{'));
        changes.push(change);
    }
    raw("changes", array(&changes), &mut one);
    if !commit.documents.is_empty() {
        let documents = commit.documents.iter().map(|changed| document::change(home, changed));
        raw("documents", array(&documents.collect::<Result<Vec<_>, _>>()?), &mut one);
    }
    Ok(one + "}")
}
