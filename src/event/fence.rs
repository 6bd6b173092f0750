//! Fences: who holds a task, and for the how-manieth time it changed hands.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use crate::error::{Error, ErrorKind, Result};

/// A number that grows each time a task changes hands, **and** the session that holds it by that number.
///
/// Both count: a power cut may give a number out again, never to the same session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Fence {
    /// How often the task has changed hands.
    pub number: u64,
    /// The session that holds it; 0 = nobody.
    pub session: u64,
}

impl fmt::Display for Fence {
    /// `NUMBER.SESSION`, the session in 16 hexadecimal digits, as its file is named.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:016x}", self.number, self.session)
    }
}

impl FromStr for Fence {
    type Err = Error;

    /// Reads what [`Fence`]'s `Display` writes.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`].
    fn from_str(text: &str) -> Result<Self> {
        let parse = || {
            let (number, session) = text.split_once('.')?;
            let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_hexdigit());
            let fence = Fence {
                number: number.bytes().all(|b| b.is_ascii_digit()).then(|| number.parse().ok())??,
                session: (session.len() == 16 && digits(session))
                    .then(|| u64::from_str_radix(session, 16).ok())??,
            };
            (fence.session != 0).then_some(fence)
        };
        parse().ok_or_else(|| {
            let shown: String = text.chars().take(60).collect();
            let why = format!("{shown:?} is not NUMBER.SESSION, as `attach` gave it out");
            Error::new(ErrorKind::Invalid { what: "fence", why }, "read", Path::new(""))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_comes_back_and_nothing_else_is_one() {
        for fence in [Fence { number: 1, session: 1 }, Fence { number: u64::MAX, session: u64::MAX }] {
            assert_eq!(fence.to_string().parse::<Fence>().unwrap(), fence);
        }
        assert_eq!(Fence { number: 3, session: 0xAB }.to_string(), "3.00000000000000ab");
        for bad in [
            "",
            ".",
            "3",
            "3.",
            ".00000000000000ab",
            "3.ab",
            "3.0000000000000000",
            "+3.00000000000000ab",
            "3.+0000000000000ab",
            "18446744073709551616.00000000000000ab",
            "3.00000000000000ab ",
        ] {
            assert_eq!(bad.parse::<Fence>().map_err(|e| e.code()), Err("invalid"), "{bad:?}");
        }
    }

    proptest::proptest! {
        /// Whatever is read as a fence is written back as the same one, and spelled as it was but for case and zeros in front.
        #[test]
        fn any_text_is_a_fence_or_invalid(text in "[0-9a-fA-F.+ \\PC]{0,40}|0{0,3}[0-9]{1,20}\\.[0-9a-fA-F]{16}") {
            match text.parse::<Fence>() {
                Ok(fence) => {
                    assert_eq!(fence.to_string().parse::<Fence>().unwrap(), fence);
                    assert_ne!(fence.session, 0);
                    let (number, session) = text.split_once('.').unwrap();
                    let plain = number.trim_start_matches('0');
                    let plain = if plain.is_empty() { "0" } else { plain };
                    assert_eq!(fence.to_string(), format!("{plain}.{}", session.to_ascii_lowercase()));
                }
                Err(e) => assert_eq!(e.code(), "invalid", "{text:?}"),
            }
        }
    }
}
