//! How far a long verb is: one line on stderr that is written over, and only where a person looks at it.

use std::io::{self, Write as _};
use std::time::Duration;

use foldlog::vfs::Vfs as _;
use foldlog::vfs::os::Os;

/// Between two writings of the line.
const EVERY: Duration = Duration::from_millis(100);

/// See the module. Dropped, it takes its line away.
#[derive(Debug)]
pub(crate) struct Progress {
    shown: bool,
    last: Option<Duration>,
}

impl Progress {
    /// One that is shown, or is silent.
    pub(crate) fn new(shown: bool) -> Self {
        Progress { shown, last: None }
    }

    /// Says how many are done, of how many.
    pub(crate) fn show(&mut self, what: &str, done: u64, total: u64) {
        if !self.shown {
            return;
        }
        let now = Os.monotonic();
        if self.last.is_none_or(|last| now.saturating_sub(last) >= EVERY || done == total) {
            self.last = Some(now);
            // Erases what stood there; a terminal that takes no words takes none of this either.
            let _ = write!(io::stderr().lock(), "\r\x1b[K{}", line(what, done, total));
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.last.is_some() {
            let _ = write!(io::stderr().lock(), "\r\x1b[K");
        }
    }
}

/// `reading  [########------------]  40%  400 of 1000`.
fn line(what: &str, done: u64, total: u64) -> String {
    const WIDE: u64 = 20;
    let part = |of: u64| done.saturating_mul(of).checked_div(total).unwrap_or(of).min(of);
    let full = usize::try_from(part(WIDE)).unwrap_or_default();
    let bar = format!("{:-<20}", "#".repeat(full));
    format!("{what:<8}  [{bar}] {:3}%  {done} of {total}", part(100))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_is_as_full_as_what_is_done() {
        assert_eq!(line("reading", 400, 1000), "reading   [########------------]  40%  400 of 1000");
        assert_eq!(line("x", 0, 0), "x         [####################] 100%  0 of 0");
        assert_eq!(line("x", 7, 3), "x         [####################] 100%  7 of 3");
    }
}
