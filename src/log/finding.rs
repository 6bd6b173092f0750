//! Findings: what a look at a store has to say, each with its exact place and what to do.

use std::fmt;
use std::path::PathBuf;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Worth knowing; nothing is wrong.
    Notice,
    /// An accident that heals itself or harms nothing.
    Warning,
    /// Something was lost that was never promised to last, or a promise is in danger.
    Error,
    /// Acknowledged data is damaged or missing, or the store cannot be used as it should.
    Damage,
}

impl Severity {
    /// Its stable name.
    pub fn as_str(self) -> &'static str {
        match self {
            Severity::Notice => "notice",
            Severity::Warning => "warning",
            Severity::Error => "error",
            Severity::Damage => "damage",
        }
    }
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// What it is, as a stable name.
    pub code: &'static str,
    /// The file concerned.
    pub file: PathBuf,
    /// Where in it, in bytes.
    pub offset: Option<u64>,
    /// The event number expected there.
    pub seq: Option<u64>,
    /// What was found.
    pub message: String,
    /// What to do next.
    pub remedy: &'static str,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}) in {}", self.message, self.code, self.file.display())?;
        if let Some(offset) = self.offset {
            write!(f, " at offset {offset}")?;
        }
        if let Some(seq) = self.seq {
            write!(f, ", event {seq}")?;
        }
        Ok(())
    }
}
