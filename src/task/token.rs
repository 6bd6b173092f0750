//! Revisions as they can be stored.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use crate::error::{Error, ErrorKind, Result};
use crate::log::{Cursor, Expect, Revision, Seq};

/// A task's revision together with the place in history it was seen at: what to store, and to expect later.
///
/// After a power cut numbers that were never durable are given out again; a revision alone could then match a state that
/// its holder has never seen. Written as `REVISION.SEQ.EPOCH`, the epoch in 16 hex digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Token {
    /// The revision.
    pub revision: Revision,
    /// The task's last state event, and the epoch.
    pub at: Cursor,
}

impl Token {
    /// What a commit expects by it.
    pub fn expect(&self) -> Expect {
        Expect::RevisionAt(self.revision, self.at)
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{:016x}", self.revision, self.at.seq, self.at.epoch)
    }
}

impl FromStr for Token {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let parse = || {
            let mut parts = text.split('.');
            let (revision, seq, epoch) = (parts.next()?, parts.next()?, parts.next()?);
            let plain = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
            if parts.next().is_some() || epoch.len() != 16 || !plain(revision) || !plain(seq) {
                return None;
            }
            if !epoch.bytes().all(|b| b.is_ascii_hexdigit()) {
                return None;
            }
            Some(Token {
                revision: Revision(revision.parse().ok()?),
                at: Cursor { seq: Seq(seq.parse().ok()?), epoch: u64::from_str_radix(epoch, 16).ok()? },
            })
        };
        parse().ok_or_else(|| {
            let why = format!("{text:?} is not REVISION.SEQ.EPOCH with an epoch of 16 hex digits");
            Error::new(ErrorKind::Invalid { what: "revision token", why }, "read", Path::new(""))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_come_back() {
        let token = Token { revision: Revision(7), at: Cursor { seq: Seq(12), epoch: 0xabc } };
        assert_eq!(token.to_string(), "7.12.0000000000000abc");
        assert_eq!("7.12.0000000000000abc".parse::<Token>().unwrap(), token);
        for bad in [
            "",
            "7",
            "7.12",
            "7.12.abc",
            "7.12.0000000000000abc.1",
            "+7.12.0000000000000abc",
            "7.12.+000000000000abc",
            "a.b.c",
        ] {
            assert!(bad.parse::<Token>().is_err(), "{bad}");
        }
    }
}
