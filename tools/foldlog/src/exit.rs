//! Exit codes: stable, and one table from the library's error codes to them.

use std::process::ExitCode;

use foldlog::Severity;
use foldlog_requests::Failure;

/// How a run ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// 0: fine.
    Fine,
    /// 1: something was found, none of it damage.
    Findings,
    /// 2: the command line or an input is wrong.
    Usage,
    /// 3: a conflict, a refusal, or nothing there under that name.
    Refused,
    /// 4: damaged, degraded, or too new to be read or written.
    Damaged,
    /// 5: somebody else is at it.
    Busy,
    /// 6: the operating system failed or refused.
    Io,
    /// 130: Ctrl-C.
    Interrupted,
    /// What a command that was run for somebody ended with.
    Of(u8),
}

/// Error codes by the exit they end with; the library's and this program's own.
const TABLE: [(Exit, &[&str]); 6] = [
    (Exit::Usage, &["invalid", "usage"]),
    (
        Exit::Refused,
        &[
            "conflict",
            "op-id-reused",
            "outcome-unknown",
            "too-large",
            "refused",
            "no-task",
            "task-exists",
            "task-deleted",
            "no-document",
            "document-deleted",
            "document-refused",
            "bad-state-file",
            "status-refused",
            "not-waiting",
            "cycle",
            "owned",
            "fenced",
            "ruled-field",
            "cross-workspace",
            "trimmed",
            "rewound",
            "reentrant",
            "forked",
            "not-found",
            "foreign",
            "occupied",
            "shared-file-system",
            "locks-do-not-exclude",
        ],
    ),
    (
        Exit::Damaged,
        &[
            "damaged",
            "blob-missing",
            "store-replaced",
            "durability-lost",
            "not-durable",
            "too-new",
            "unknown-event",
            "selftest-failed",
            "demo-failed",
        ],
    ),
    (Exit::Busy, &["busy", "not-yet", "unstable"]),
    (Exit::Io, &["read-only", "no-space", "permission", "io"]),
    (Exit::Interrupted, &["interrupted", "cancelled"]),
];

impl Exit {
    /// What a failure ends with.
    pub(crate) fn of(failure: &Failure) -> Self {
        Exit::of_code(failure.code())
    }

    /// The exit of an error code; one that a newer library has, and this table not, is [`Exit::Io`].
    pub(crate) fn of_code(code: &str) -> Exit {
        let row = TABLE.iter().find(|(_, codes)| codes.contains(&code));
        row.map_or(Exit::Io, |(exit, _)| *exit)
    }

    /// The exit of the worst finding.
    pub(crate) fn of_severity(worst: Option<Severity>) -> Exit {
        match worst {
            // A notice says that nothing is wrong.
            None | Some(Severity::Notice) => Exit::Fine,
            Some(Severity::Damage) => Exit::Damaged,
            Some(_) => Exit::Findings,
        }
    }

    /// The number that the shell sees.
    pub(crate) fn number(self) -> u8 {
        match self {
            Exit::Fine => 0,
            Exit::Findings => 1,
            Exit::Usage => 2,
            Exit::Refused => 3,
            Exit::Damaged => 4,
            Exit::Busy => 5,
            Exit::Io => 6,
            Exit::Interrupted => 130,
            Exit::Of(number) => number,
        }
    }

    /// As a command has ended; 255 for one that was killed, or whose code is more than a byte.
    pub(crate) fn of_command(status: std::process::ExitStatus) -> Exit {
        Exit::Of(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX))
    }

    /// The one of two that a run over several workspaces ends with: damage first, then what kept it from looking.
    pub(crate) fn worse(self, other: Exit) -> Exit {
        let rank = |exit| match exit {
            Exit::Fine => 0,
            Exit::Findings => 1,
            Exit::Busy => 2,
            Exit::Refused => 3,
            Exit::Usage => 4,
            Exit::Io => 5,
            Exit::Damaged => 6,
            Exit::Of(_) => 7,
            Exit::Interrupted => 8,
        };
        if rank(other) > rank(self) { other } else { self }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit.number())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use foldlog::ErrorKind;

    #[test]
    fn every_error_code_of_the_library_has_one_row() {
        for code in ErrorKind::CODES {
            let rows = TABLE.iter().filter(|(_, codes)| codes.contains(code)).count();
            assert_eq!(rows, 1, "{code}");
        }
    }

    #[test]
    fn numbers_of_all_error_codes_are_these() {
        let numbers: Vec<_> =
            ErrorKind::CODES.iter().map(|code| (*code, Exit::of_code(code).number())).collect();
        assert_eq!(
            numbers,
            [
                ("busy", 5),
                ("damaged", 4),
                ("store-replaced", 4),
                ("durability-lost", 4),
                ("not-durable", 4),
                ("read-only", 6),
                ("too-new", 4),
                ("unknown-event", 4),
                ("conflict", 3),
                ("op-id-reused", 3),
                ("outcome-unknown", 3),
                ("too-large", 3),
                ("blob-missing", 4),
                ("invalid", 2),
                ("refused", 3),
                ("no-task", 3),
                ("task-exists", 3),
                ("task-deleted", 3),
                ("no-document", 3),
                ("document-deleted", 3),
                ("document-refused", 3),
                ("bad-state-file", 3),
                ("status-refused", 3),
                ("not-waiting", 3),
                ("cycle", 3),
                ("owned", 3),
                ("fenced", 3),
                ("ruled-field", 3),
                ("cross-workspace", 3),
                ("trimmed", 3),
                ("rewound", 3),
                ("reentrant", 3),
                ("forked", 3),
                ("not-found", 3),
                ("foreign", 3),
                ("shared-file-system", 3),
                ("locks-do-not-exclude", 3),
                ("not-yet", 5),
                ("unstable", 5),
                ("occupied", 3),
                ("cancelled", 130),
                ("no-space", 6),
                ("permission", 6),
                ("io", 6),
            ]
        );
    }

    #[test]
    fn damage_is_worse_than_anything_but_an_interruption() {
        for exit in [Exit::Fine, Exit::Findings, Exit::Usage, Exit::Refused, Exit::Busy, Exit::Io] {
            assert_eq!(exit.worse(Exit::Damaged), Exit::Damaged);
            assert_eq!(Exit::Damaged.worse(exit), Exit::Damaged);
        }
        assert_eq!(Exit::Findings.worse(Exit::Fine), Exit::Findings);
    }
}
