//! Why a verb gave up: the library's errors, and the few that only a command line can have.

use std::io;
use std::path::{Path, PathBuf};

use foldlog::log::KeyState;
use foldlog::{Conflict, ErrorKind, Expect, Revision, Token};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::exit::Exit;

/// Why a verb gave up.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The library says so.
    Library(foldlog::Error),
    /// This program says so.
    Own {
        /// Stable, in the table of [`Exit::of_code`].
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
    id: String,
    /// The token or number as it was given.
    expected: String,
    /// The present revision; 0 = it never was there.
    revision: u64,
    token: Option<String>,
    /// The task as it is now, values over 64 KiB as null; null if there is none, or it was deleted.
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

impl Failure {
    /// The command line is wrong.
    pub(crate) fn usage(message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Failure::Own { code: "usage", message: message.into(), remedy: remedy.into(), file: None }
    }

    /// Nothing is there under that name.
    pub(crate) fn not_found(message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Failure::Own { code: "not-found", message: message.into(), remedy: remedy.into(), file: None }
    }

    /// A system error, with what was tried and on which path.
    pub(crate) fn io(act: &str, path: &Path, source: &io::Error) -> Self {
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
    pub(crate) fn output(source: &io::Error) -> Self {
        Failure::Own {
            code: if source.kind() == io::ErrorKind::StorageFull { "no-space" } else { "io" },
            message: format!("write to stdout: {source}"),
            remedy: "check where the output goes; what was printed before it is whole".into(),
            file: None,
        }
    }

    /// The stable name.
    pub(crate) fn code(&self) -> &str {
        match self {
            Failure::Library(error) => error.code(),
            Failure::Own { code, .. } => code,
        }
    }

    /// The code the program ends with.
    pub(crate) fn exit(&self) -> Exit {
        Exit::of_code(self.code())
    }

    /// What is wrong.
    pub(crate) fn message(&self) -> String {
        match self {
            Failure::Library(error) => error.to_string(),
            Failure::Own { message, .. } => message.clone(),
        }
    }

    /// What to do next.
    pub(crate) fn remedy(&self) -> &str {
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
    pub(crate) fn json(&self) -> String {
        let file = match self {
            Failure::Library(error) => Some(error.path()).filter(|path| !path.as_os_str().is_empty()),
            Failure::Own { file, .. } => file.as_deref(),
        };
        let conflicts = match self {
            Failure::Library(error) => match error.kind() {
                ErrorKind::Conflict(all) => all.iter().map(ConflictLine::of).collect(),
                _ => Vec::new(),
            },
            Failure::Own { .. } => Vec::new(),
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
        assert_eq!(failure.exit(), Exit::Usage);
    }

    #[test]
    fn system_error_says_what_was_tried_and_where() {
        let failure = Failure::io("open", Path::new("x"), &io::ErrorKind::PermissionDenied.into());
        assert_eq!((failure.code(), failure.exit()), ("permission", Exit::Io));
        assert!(failure.message().starts_with("open x: "), "{}", failure.message());
    }
}
