//! Why nothing came of it: the library's errors, and the few that only whoever asks for it can make.

use std::io;
use std::path::{Path, PathBuf};

use foldlog::log::{KeyKind, KeyState};
use foldlog::{Conflict, ErrorKind, Expect, Revision, Token};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::health;
use crate::json::{array, one_line, raw, text};

/// Why nothing came of it.
#[derive(Debug)]
pub enum Failure {
    /// The library says so.
    Library(foldlog::Error),
    /// This program says so.
    Own {
        /// Stable: one of the library's, or `usage`, or one of a verb's own.
        code: &'static str,
        /// What is wrong.
        message: String,
        /// What to do next.
        remedy: String,
        /// The file or folder concerned.
        file: Option<PathBuf>,
    },
}

/// An error as `--json` prints it on stderr.
#[derive(Serialize)]
struct Line<'a> {
    error: &'a str,
    message: String,
    remedy: &'a str,
    file: Option<String>,
    /// Only of a conflict.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    conflicts: Vec<ConflictLine>,
}

/// An expectation that does not hold, as `--json` prints it.
#[derive(Serialize)]
struct ConflictLine {
    /// `task` or `document`.
    of: &'static str,
    id: String,
    /// The token or number as it was given.
    expected: String,
    /// The present revision; 0 = it never was there.
    revision: u64,
    token: Option<String>,
    /// The task as it is now, values over 64 KiB as null, or the document's value; null if there is none, if it was deleted, and
    /// for a document over 64 KiB.
    item: Option<Box<RawValue>>,
    /// Set if the token speaks of a history that a power cut has ended: the last event both share.
    #[serde(skip_serializing_if = "Option::is_none")]
    rewound_to: Option<u64>,
}

impl ConflictLine {
    fn of(conflict: &Conflict) -> Self {
        let now = conflict.current.as_ref();
        let token = |now: &KeyState| Token { revision: now.revision, at: now.last }.to_string();
        let item = now.and_then(|now| now.folded.as_ref()).map(|item| item.replace(['\n', '\r'], " "));
        ConflictLine {
            of: if conflict.key.kind == KeyKind::DOCUMENT { "document" } else { "task" },
            id: conflict.key.name.to_string(),
            expected: match conflict.expected {
                Expect::RevisionAt(revision, at) => Token { revision, at }.to_string(),
                Expect::Revision(revision) => revision.to_string(),
                other => format!("{other:?}"),
            },
            revision: now.map_or(Revision(0), |now| now.revision).0,
            token: now.map(token),
            item: item.and_then(|item| RawValue::from_string(item).ok()),
            rewound_to: conflict.rewound_to.map(|seq| seq.0),
        }
    }
}

impl From<foldlog::Error> for Failure {
    fn from(error: foldlog::Error) -> Self {
        Failure::Library(error)
    }
}

/// What a panic said.
#[must_use]
pub fn said(payload: &(dyn std::any::Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

impl Failure {
    /// The library has panicked, which is an error of the call that met it.
    #[must_use]
    pub fn panicked(said: &str) -> Self {
        Failure::Own {
            code: "panic",
            message: format!("foldlog panicked: {said}"),
            remedy: "this is a fault of foldlog, please report it; what was acknowledged before stands"
                .into(),
            file: None,
        }
    }

    /// What was asked for is wrong: nothing was done.
    pub fn invalid(why: impl Into<String>) -> Self {
        Failure::Own {
            code: "invalid",
            message: why.into(),
            remedy: "see docs/pipe.md for what the operation takes; nothing was done".into(),
            file: None,
        }
    }

    /// The command line is wrong.
    pub fn usage(message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Failure::Own { code: "usage", message: message.into(), remedy: remedy.into(), file: None }
    }

    /// Nothing is there under that name.
    pub fn not_found(message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Failure::Own { code: "not-found", message: message.into(), remedy: remedy.into(), file: None }
    }

    /// A system error, with what was tried and on which path.
    pub fn io(act: &str, path: &Path, source: &io::Error) -> Self {
        let (code, remedy) = match source.kind() {
            io::ErrorKind::NotFound => ("not-found", "check the path"),
            io::ErrorKind::PermissionDenied => {
                ("permission", "check owner and mode of the file; foldlog changes neither")
            }
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ("no-space", "free some space"),
            io::ErrorKind::ReadOnlyFilesystem => ("read-only", "choose a folder that can be written"),
            io::ErrorKind::NotADirectory => ("foreign", "give a folder"),
            _ => ("io", "check the disk and the system log"),
        };
        Failure::Own {
            code,
            message: format!("{act} {}: {source}", path.display()),
            remedy: remedy.into(),
            file: Some(path.into()),
        }
    }

    /// stdout takes no more, and not because its reader has closed it.
    pub fn output(source: &io::Error) -> Self {
        Failure::Own {
            code: if source.kind() == io::ErrorKind::StorageFull { "no-space" } else { "io" },
            message: format!("write to stdout: {source}"),
            remedy: "check where the output goes; what was printed before it is whole".into(),
            file: None,
        }
    }

    /// The stable name.
    #[must_use]
    pub fn code(&self) -> &str {
        match self {
            Failure::Library(error) => error.code(),
            Failure::Own { code, .. } => code,
        }
    }

    /// What is wrong.
    #[must_use]
    pub fn message(&self) -> String {
        match self {
            Failure::Library(error) => error.to_string(),
            Failure::Own { message, .. } => message.clone(),
        }
    }

    /// What to do next.
    #[must_use]
    pub fn remedy(&self) -> &str {
        match self {
            Failure::Library(error) => match error.kind() {
                // The finding knows more than the kind does.
                foldlog::ErrorKind::Damaged(finding) => finding.remedy,
                kind => kind.remedy(),
            },
            Failure::Own { remedy, .. } => remedy,
        }
    }

    /// `{"error","message","remedy","file"}`, of a conflict with `conflicts` behind it.
    #[must_use]
    pub fn json(&self) -> String {
        let conflicts = match self {
            Failure::Library(error) => conflicts(error.kind()),
            Failure::Own { .. } => Vec::new(),
        };
        self.line(conflicts)
    }

    /// `{"error","message","remedy","file","data"}`: with what the kind of error knows beside its message, by name.
    #[must_use]
    pub fn json_with_data(&self) -> String {
        let mut line = self.line(Vec::new());
        line.pop();
        raw("data", self.data(), &mut line);
        line + "}"
    }

    fn line(&self, conflicts: Vec<ConflictLine>) -> String {
        let file = match self {
            Failure::Library(error) => Some(error.path()).filter(|path| !path.as_os_str().is_empty()),
            Failure::Own { file, .. } => file.as_deref(),
        };
        let line = Line {
            error: self.code(),
            message: self.message(),
            remedy: self.remedy(),
            file: file.map(|path| path.display().to_string()),
            conflicts,
        };
        serde_json::to_string(&line).unwrap_or_default()
    }

    /// What the kind of error knows beside its message, as an object; `{}` where that is all.
    #[must_use]
    pub fn data(&self) -> String {
        let mut out = String::from("{");
        if let Failure::Library(error) = self {
            members(error.kind(), &mut out);
        }
        out + "}"
    }
}

fn conflicts(kind: &ErrorKind) -> Vec<ConflictLine> {
    match kind {
        ErrorKind::Conflict(all) => all.iter().map(ConflictLine::of).collect(),
        _ => Vec::new(),
    }
}

/// The members of a kind's data, named as its fields are.
pub(crate) fn members(kind: &ErrorKind, out: &mut String) {
    match kind {
        ErrorKind::Busy { holder, waited_ms } => {
            text("holder", holder, out);
            raw("waited_ms", waited_ms, out);
        }
        ErrorKind::Damaged(finding) => raw("finding", health::finding(finding), out),
        ErrorKind::DurabilityLost { from } => raw("from", from, out),
        ErrorKind::NotDurable { seq, why } => {
            raw("seq", seq, out);
            text("why", why, out);
        }
        ErrorKind::ReadOnly { reason: why } | ErrorKind::Refused(why) => text("reason", why, out),
        ErrorKind::TooNew { what, need, have } => {
            text("what", what, out);
            raw("need", need, out);
            raw("have", have, out);
        }
        ErrorKind::UnknownEvent { seq, kind, version } => {
            raw("seq", seq, out);
            raw("kind", kind, out);
            raw("version", version, out);
        }
        ErrorKind::Conflict(_) => {
            raw("conflicts", serde_json::to_string(&conflicts(kind)).unwrap_or_default(), out);
        }
        ErrorKind::OpIdReused { op_id, seq } => {
            text("op_id", &op_id.to_string(), out);
            raw("seq", seq, out);
        }
        ErrorKind::OutcomeUnknown { op_id, seen, window_start, current } => {
            text("op_id", &op_id.to_string(), out);
            raw("seen", seen, out);
            raw("window_start", window_start, out);
            raw("current", array(&current.iter().map(state).collect::<Vec<_>>()), out);
        }
        ErrorKind::TooLarge { what, len, max } => {
            text("what", what, out);
            raw("len", len, out);
            raw("max", max, out);
        }
        ErrorKind::BlobMissing { blob } => text("blob", &blob.to_string(), out),
        ErrorKind::Invalid { what, why } | ErrorKind::Foreign { what, why } => {
            text("what", what, out);
            text("why", why, out);
        }
        ErrorKind::NoTask { id } | ErrorKind::TaskExists { id } => text("id", id, out),
        ErrorKind::TaskDeleted { id, seq } => {
            text("id", id, out);
            raw("seq", seq, out);
        }
        ErrorKind::NoDocument { name } => text("name", name, out),
        ErrorKind::DocumentDeleted { name, seq } => {
            text("name", name, out);
            raw("seq", seq, out);
        }
        ErrorKind::DocumentRefused { name, kind, why } => {
            text("name", name, out);
            text("kind", kind, out);
            text("reason", why, out);
        }
        ErrorKind::BadStateFile { why } => text("why", why, out),
        ErrorKind::StatusRefused { id, from, to, why } => {
            text("id", id, out);
            text("from", from, out);
            text("to", to, out);
            text("why", why, out);
        }
        ErrorKind::NotWaiting { parent, child } | ErrorKind::Cycle { parent, child } => {
            text("parent", parent, out);
            text("child", child, out);
        }
        ErrorKind::Owned { id, session, owner, liveness } => {
            text("id", id, out);
            text("session", &format!("{session:016x}"), out);
            text("owner", owner, out);
            text("liveness", liveness, out);
        }
        ErrorKind::Fenced { id, fence, current } => {
            text("id", id, out);
            text("fence", fence, out);
            text("current", current, out);
        }
        ErrorKind::RuledField { field, verb } => {
            text("field", field, out);
            text("verb", verb, out);
        }
        ErrorKind::CrossWorkspace { ids, homes } => {
            for (name, (one, other)) in [("ids", ids), ("homes", homes)] {
                raw(name, serde_json::to_string(&[one, other]).unwrap_or_default(), out);
            }
        }
        ErrorKind::Trimmed { first_available } => raw("first_available", first_available, out),
        ErrorKind::Rewound { to } => raw("to", to, out),
        ErrorKind::StoreReplaced { what }
        | ErrorKind::NotFound { what }
        | ErrorKind::Unstable { what }
        | ErrorKind::Occupied { what } => text("what", what, out),
        ErrorKind::SharedFileSystem { fs } => text("fs", fs, out),
        // The others say all they know by their kind.
        _ => {}
    }
}

/// `{"id","revision","token","item"}`: what a key is now.
fn state(now: &KeyState) -> String {
    let mut one = String::from("{");
    text("id", &now.key.name, &mut one);
    raw("revision", now.revision, &mut one);
    text("token", &Token { revision: now.revision, at: now.last }.to_string(), &mut one);
    raw("item", now.folded.as_ref().map_or("null".into(), |item| one_line(item.clone())), &mut one);
    one + "}"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_of_an_error_has_these_keys_in_this_order() {
        let failure = Failure::usage("no \"store\"", "give one");
        assert_eq!(
            failure.json(),
            r#"{"error":"usage","message":"no \"store\"","remedy":"give one","file":null}"#
        );
    }

    #[test]
    fn system_error_says_what_was_tried_and_where() {
        let failure = Failure::io("open", Path::new("x"), &io::ErrorKind::PermissionDenied.into());
        assert_eq!(failure.code(), "permission");
        assert!(failure.message().starts_with("open x: "), "{}", failure.message());
    }

    #[test]
    fn data_of_an_error_is_what_its_kind_knows() -> foldlog::Result<()> {
        use foldlog::task::{CommitOptions, TaskExpect};
        use foldlog::{Durability, Field, Item, Options, Patch, Place, TaskId, TaskStore};

        let tasks = TaskStore::memory(Options::default())?.home(&Place::None)?;
        let id = TaskId::new("t")?;
        let patch = |mode: &str, options: CommitOptions| {
            let failed = tasks.patch(&id, Patch::new().set(Field::Mode, mode), options);
            Failure::from(failed.expect_err("it is refused")).json_with_data()
        };
        assert!(patch("x", Durability::Buffered.into()).ends_with(r#","data":{"id":"t"}}"#));
        let _ = tasks.create(Item::new(&id), Durability::Buffered)?;
        let stale = CommitOptions::new().expect(&id, TaskExpect::Revision(Revision(7)));
        let line = patch("x", stale);
        assert!(line.starts_with(r#"{"error":"conflict","message":"#), "{line}");
        let data = r#""data":{"conflicts":[{"of":"task","id":"t","expected":"7","revision":1,"token":"1."#;
        assert!(line.contains(data) && line.contains(r#","item":{"id":"t"}}]}}"#), "{line}");
        let _ = tasks.remove(std::slice::from_ref(&id), false, Durability::Buffered)?;
        let line = patch("x", CommitOptions::new());
        assert!(
            line.contains(r#""error":"task-deleted""#) && line.contains(r#""data":{"id":"t","seq":"#),
            "{line}"
        );
        Ok(())
    }
}
