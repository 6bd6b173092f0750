//! Names of documents and of their kinds.

use std::borrow::Borrow;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::log::{Key, KeyKind};

/// Longest name of a document, in bytes.
pub const DOCUMENT_NAME_LEN_MAX: usize = 1024;
/// Longest kind of a document, in bytes.
pub const DOCUMENT_KIND_LEN_MAX: usize = 200;

/// A document's name: any text of 1 to 1,024 bytes without control characters. Cheap to clone.
///
/// Names never become names of files, so that slashes, colons, spaces and any letters are as good as others, and a path or a
/// URL can be one. They stand on command lines and in lists of one line each, so that no control character is. Two names are
/// the same exactly if their bytes are; lists are in the order of the bytes, so that a prefix is a range.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DocumentName(Arc<str>);

impl DocumentName {
    /// The name that a text is.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a text that is empty, over 1,024 bytes, or holds a control character.
    pub fn new(name: &str) -> Result<Self> {
        check("document name", name, DOCUMENT_NAME_LEN_MAX)?;
        Ok(DocumentName(name.into()))
    }

    /// A name as it stands in a log, whatever it is: replay never validates.
    pub(crate) fn of_log(name: &str) -> Self {
        DocumentName(name.into())
    }

    /// Its text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Its key in the log.
    pub fn key(&self) -> Key {
        Key { kind: KeyKind::DOCUMENT, name: Arc::clone(&self.0) }
    }
}

/// Refuses a text that is no name, or no kind, of a document.
pub(crate) fn check(what: &'static str, text: &str, len_max: usize) -> Result<()> {
    let why = if text.is_empty() {
        "it is empty".to_owned()
    } else if text.len() > len_max {
        format!("it has {} bytes, the limit is {len_max}", text.len())
    } else if let Some(c) = text.chars().find(|c| c.is_control()) {
        format!("it holds the control character {c:?}")
    } else {
        return Ok(());
    };
    Err(Error::new(ErrorKind::Invalid { what, why }, "use", Path::new("")))
}

impl Borrow<str> for DocumentName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for DocumentName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for DocumentName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_any_text_of_one_line() {
        let longest = "ü".repeat(DOCUMENT_NAME_LEN_MAX / 2);
        for name in ["a", " ", "..", "a/b:c\\d", "https://example/x?y#z", "con", "😀\u{200d}", &longest] {
            assert_eq!(DocumentName::new(name).unwrap().as_str(), name);
        }
        let long = format!("{longest}x");
        for bad in ["", "a\0", "a\nb", "\t", "\u{7f}", "\u{85}", &long] {
            assert!(DocumentName::new(bad).is_err(), "{bad:?}");
        }
    }
}
