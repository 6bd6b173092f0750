//! Task ids: which are safe on every system.

use std::borrow::Borrow;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::log::{Key, KeyKind};

/// Longest id, in bytes.
const ID_LEN_MAX: usize = 200;

/// Names that Windows keeps for devices, with or without an extension, in any case.
const DEVICES: &[&str] = &[
    "con", "prn", "aux", "nul", "conin$", "conout$", "com0", "com1", "com2", "com3", "com4", "com5", "com6",
    "com7", "com8", "com9", "com¹", "com²", "com³", "lpt0", "lpt1", "lpt2", "lpt3", "lpt4", "lpt5", "lpt6",
    "lpt7", "lpt8", "lpt9", "lpt¹", "lpt²", "lpt³",
];

/// A task's id, safe as the name of a folder on every system. Cheap to clone.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TaskId(Arc<str>);

impl TaskId {
    /// The id that a text is.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for an id that is empty or over 200 bytes, holds any of `/ \ : * ? " < > |` or a control
    /// character, starts with `.` or `_`, ends in a dot or a space, or is one of Windows' device names.
    pub fn new(id: &str) -> Result<Self> {
        match fault(id) {
            None => Ok(TaskId(id.into())),
            Some(why) => {
                let shown: String = id.chars().take(60).collect();
                let why = format!("{shown:?} {why}");
                Err(Error::new(ErrorKind::Invalid { what: "task id", why }, "use", Path::new("")))
            }
        }
    }

    /// An id as it stands in a log, whatever it is: replay never validates.
    pub(crate) fn of_log(id: &str) -> Self {
        TaskId(id.into())
    }

    /// Its text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Its text, shared.
    pub fn shared(&self) -> Arc<str> {
        Arc::clone(&self.0)
    }

    /// Its key in the log.
    pub fn key(&self) -> Key {
        Key { kind: KeyKind::TASK, name: self.shared() }
    }
}

/// What is wrong with an id, if anything is.
fn fault(id: &str) -> Option<&'static str> {
    if id.is_empty() {
        return Some("is empty");
    }
    if id.len() > ID_LEN_MAX {
        return Some("is over 200 bytes long");
    }
    if id.contains(['/', '\\', ':', '*', '?', '"', '<', '>', '|']) {
        return Some("holds one of / \\ : * ? \" < > |");
    }
    if id.contains(char::is_control) {
        return Some("holds a control character");
    }
    if id.starts_with(['.', '_']) {
        return Some("starts with a dot or an underscore");
    }
    if id.ends_with(['.', ' ']) {
        return Some("ends in a dot or a space");
    }
    let stem = id.split('.').next().unwrap_or(id).trim_end_matches(' ').to_lowercase();
    DEVICES.contains(&&*stem).then_some("is a name that Windows keeps for a device")
}

impl Borrow<str> for TaskId {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TaskId({})", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsafe_ids_are_refused() {
        let long = "x".repeat(201);
        for id in [
            "", ".", "..", "../x", "a/b", "a\\b", "c:", "a*", "a?", "a\"", "<a", "a>", "a|b", "a\0", "a\n",
            "a\u{7f}", "a\u{85}", "_a", ".b", "a.", "a ", "CON", "con", "Nul.txt", "nul .txt", "COM1",
            "lpt9.log", "LPT¹", "conin$", &long,
        ] {
            assert!(TaskId::new(id).is_err(), "{id:?}");
        }
    }

    #[test]
    fn ids_in_use_are_taken() {
        let long = "x".repeat(200);
        for id in [
            "019fb786-503a-76ca-8708-fee1243c878d",
            "1784332598169",
            "a",
            "a.b",
            "a b",
            "con1",
            "console",
            "ä",
            &long,
        ] {
            assert_eq!(TaskId::new(id).unwrap().as_str(), id);
        }
    }
}
