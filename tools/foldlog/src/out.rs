//! Where words go: data to stdout, talk to stderr. Nobody who stops reading makes a program fail.

use std::io::{self, BufWriter, IsTerminal as _, StdoutLock, Write as _};

use foldlog::{Finding, Severity};
use foldlog_requests::{Failure, health};

use crate::args::Global;
use crate::finding;
use crate::progress::Progress;

/// See the module.
#[derive(Debug)]
pub(crate) struct Out {
    stdout: BufWriter<StdoutLock<'static>>,
    /// Whether JSON Lines are wanted.
    pub(crate) json: bool,
    quiet: bool,
    colour_out: bool,
    colour_err: bool,
}

impl Out {
    /// Looks at what stdout and stderr are.
    pub(crate) fn new(global: &Global) -> Self {
        let colour = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
            && std::env::var_os("TERM").is_none_or(|term| term != "dumb");
        Out {
            stdout: BufWriter::with_capacity(1 << 16, io::stdout().lock()),
            json: global.json,
            quiet: global.quiet,
            colour_out: colour && !global.json && io::stdout().is_terminal(),
            colour_err: colour && !global.json && io::stderr().is_terminal(),
        }
    }

    /// Prints bytes of data.
    ///
    /// # Errors
    /// What stdout says. If its reader has closed it, the program ends here, with 0: that is how pipes are stopped.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let written = self.stdout.write_all(bytes);
        Self::written(written)
    }

    /// Prints a line of data.
    ///
    /// # Errors
    /// As [`Out::bytes`].
    pub(crate) fn line(&mut self, line: &str) -> Result<(), Failure> {
        self.bytes(line.as_bytes())?;
        self.bytes(b"\n")
    }

    /// Hands on what was printed.
    ///
    /// # Errors
    /// As [`Out::bytes`].
    pub(crate) fn flush(&mut self) -> Result<(), Failure> {
        let written = self.stdout.flush();
        Self::written(written)
    }

    fn written(result: io::Result<()>) -> Result<(), Failure> {
        match result {
            Ok(()) => Ok(()),
            Err(e) if e.kind() == io::ErrorKind::BrokenPipe => std::process::exit(0),
            Err(e) => Err(Failure::output(&e)),
        }
    }

    /// Prints a finding as data.
    ///
    /// # Errors
    /// As [`Out::bytes`].
    pub(crate) fn finding(&mut self, finding: &Finding) -> Result<(), Failure> {
        let text = if self.json { health::finding(finding) } else { finding::text(finding, self.colour_out) };
        self.line(&text)
    }

    /// Tells of a finding beside the data. Damage is never kept quiet.
    pub(crate) fn tell(&mut self, finding: &Finding) {
        if self.json {
            say(&health::finding(finding));
        } else if !self.quiet || finding.severity == Severity::Damage {
            say(&finding::text(finding, self.colour_err));
        }
    }

    /// Says something to people; with `--json` or `--quiet` nothing.
    pub(crate) fn talk(&mut self, text: &str) {
        if !self.json && !self.quiet {
            say(text);
        }
    }

    /// A line that says how far something is, if there is a terminal to show it on.
    pub(crate) fn progress(&self) -> Progress {
        Progress::new(!self.json && !self.quiet && io::stderr().is_terminal())
    }

    /// Prints why a verb gave up, and what to do.
    pub(crate) fn error(&mut self, failure: &Failure) {
        error(failure, self.json, self.colour_err);
    }
}

/// Prints an error to stderr.
pub(crate) fn error(failure: &Failure, json: bool, colour: bool) {
    if json {
        say(&failure.json());
    } else {
        let (on, off) = if colour { ("\x1b[1;31m", "\x1b[0m") } else { ("", "") };
        say(&format!("{on}foldlog:{off} {}\n  what to do: {}", failure.message(), failure.remedy()));
    }
}

/// A line on stderr. Where stderr takes none, there is nobody left to be told.
pub(crate) fn say(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}
