//! One error type. Every error says what was tried, where, what was found, and what to do next.
//!
//! [`ErrorKind`] is the closed vocabulary: its [`code`](ErrorKind::code) never changes between releases and is the
//! same in every language; its message and [`remedy`](ErrorKind::remedy) are for people and may change.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use crate::log::finding::Finding;
use crate::log::{BlobId, Conflict, KeyState, OpId, Seq};

/// What every fallible call of this crate returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a call failed: the [kind](ErrorKind), what was being done, the file it concerns, and the system's own error.
#[derive(Debug)]
pub struct Error(Box<Inner>);

#[derive(Debug)]
struct Inner {
    kind: ErrorKind,
    act: &'static str,
    path: PathBuf,
    source: Option<io::Error>,
}

/// The kinds of failure. Match on this, or on [`ErrorKind::code`] across languages.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Another process kept the write lock for the whole wait. Nothing was written.
    #[error("locked by {holder} for over {waited_ms} ms")]
    Busy {
        /// The live sessions of this workspace, one of which holds the lock; `another process` if none can be named.
        holder: String,
        /// How long was waited.
        waited_ms: u64,
    },
    /// Acknowledged data no longer checks. The log is readable up to the damage and never written until repaired.
    #[error("{0}")]
    Damaged(Box<Finding>),
    /// The store's files were deleted or replaced by others while it was open. Nothing was written to the orphans.
    #[error("the store was deleted or replaced while it was open: {what}")]
    StoreReplaced {
        /// Which file, and how it differs.
        what: String,
    },
    /// A sync failed: what was appended since `from` may not survive a power cut, now or ever, though it is readable.
    #[error("a sync failed earlier; events from {from} on may be lost by a power cut")]
    DurabilityLost {
        /// The first event not known to be durable.
        from: Seq,
    },
    /// The commit stands, and everybody sees it; only whether it survives a power cut is not known yet.
    #[error("committed up to event {seq}, but not known to be durable: {why}")]
    NotDurable {
        /// Its last event.
        seq: Seq,
        /// What kept it from being made durable.
        why: String,
    },
    /// The handle, the medium or the store does not permit writing.
    #[error("read-only: {reason}")]
    ReadOnly {
        /// Why.
        reason: String,
    },
    /// The store was written by a newer release in a way this one must not touch.
    #[error("{what} needs format or version {need}; this release knows up to {have}")]
    TooNew {
        /// Which structure.
        what: String,
        /// What it asks for.
        need: u64,
        /// What this release has.
        have: u64,
    },
    /// The log holds an event that this release does not know and must not ignore. It is kept, but nothing can be written.
    #[error("event {seq} has kind {kind} version {version}, which this release does not understand")]
    UnknownEvent {
        /// Its number.
        seq: Seq,
        /// Its kind.
        kind: u16,
        /// Its version.
        version: u8,
    },
    /// An expectation of a commit does not hold. Nothing was written.
    #[error("{} expectation(s) failed, first: {}", .0.len(), first_conflict(.0))]
    Conflict(Vec<Conflict>),
    /// The same op id was used before for another request. Nothing was written.
    #[error("operation {op_id} was already used for another request, committed as event {seq}")]
    OpIdReused {
        /// The op id.
        op_id: OpId,
        /// The first event of that other commit.
        seq: Seq,
    },
    /// The request is older than the log's memory of op ids, so nobody can say whether it was applied. It was not applied now.
    #[error(
        "whether operation {op_id} was applied is no longer known (it had seen event {seen}, memory starts at {window_start})"
    )]
    OutcomeUnknown {
        /// The op id.
        op_id: OpId,
        /// What its caller had seen.
        seen: Seq,
        /// Where the memory of op ids starts.
        window_start: Seq,
        /// The present state of the keys the request names.
        current: Vec<KeyState>,
    },
    /// A value, commit or name is over a limit of the format. Nothing was written.
    #[error("{what} has {len}, the limit is {max}")]
    TooLarge {
        /// What is too large, with its unit.
        what: &'static str,
        /// Its size.
        len: u64,
        /// The limit.
        max: u64,
    },
    /// A blob is not there. A commit that names it has written nothing.
    #[error("blob {blob} is not there")]
    BlobMissing {
        /// Its name.
        blob: BlobId,
    },
    /// The caller's input is malformed. Nothing was written.
    #[error("invalid {what}: {why}")]
    Invalid {
        /// Which input.
        what: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// The caller's own closure refused the commit. Nothing was written.
    #[error("refused: {0}")]
    Refused(String),
    /// There is no task of this id here. Nothing was written.
    #[error("there is no task {id}")]
    NoTask {
        /// The id.
        id: String,
    },
    /// There is a task of this id already. Nothing was written, and it was not touched.
    #[error("task {id} exists already")]
    TaskExists {
        /// The id.
        id: String,
    },
    /// The task was deleted; a late write does not bring it back. Nothing was written.
    #[error("task {id} was deleted by event {seq}")]
    TaskDeleted {
        /// The id.
        id: String,
        /// The event that deleted it, or the last one after.
        seq: Seq,
    },
    /// There is no document of this name here. Nothing was written.
    #[error("there is no document {name:?}")]
    NoDocument {
        /// The name.
        name: String,
    },
    /// The document was deleted; a late write does not bring it back. Nothing was written.
    #[error("document {name:?} was deleted by event {seq}")]
    DocumentDeleted {
        /// The name.
        name: String,
        /// The event that deleted it, or the last one after.
        seq: Seq,
    },
    /// A validator of the program's own refused the value. Nothing was written.
    #[error("document {name:?} of kind {kind:?} may not have this value: {why}")]
    DocumentRefused {
        /// The name.
        name: String,
        /// Of which kind it would be.
        kind: String,
        /// What the validator said.
        why: String,
    },
    /// A state file that mirrors a document holds no JSON, and no good value of it is known. It was not touched, and nothing
    /// stands in for it.
    #[error("the state file holds no value that could be taken, and no good one is known: {why}")]
    BadStateFile {
        /// What is wrong with it.
        why: String,
    },
    /// The status table does not let the task pass from its status to this one. Nothing was written.
    #[error("task {id} cannot pass from {from} to {to}: {why}")]
    StatusRefused {
        /// The id.
        id: String,
        /// Its status.
        from: &'static str,
        /// The status that was asked for.
        to: &'static str,
        /// Which rule is in the way.
        why: String,
    },
    /// A child's result came for a parent that does not wait for it. Nothing was written.
    #[error("task {parent} does not wait for {child}")]
    NotWaiting {
        /// The parent.
        parent: String,
        /// The child.
        child: String,
    },
    /// A task would have come above itself. Nothing was written.
    #[error("task {child} is above {parent} already, so it cannot become its child")]
    Cycle {
        /// The parent that was asked for.
        parent: String,
        /// The child.
        child: String,
    },
    /// Another session runs the task, and is not proven dead. Nothing was written.
    #[error("task {id} is held by {owner}, which is {liveness}")]
    Owned {
        /// The id.
        id: String,
        /// The session's number.
        session: u64,
        /// Who that is, as far as it is known.
        owner: String,
        /// `alive`, or `unknown` where neither its lock nor the proof of its death is to be found.
        liveness: &'static str,
    },
    /// The task has changed hands since this fence was given out. Nothing was written.
    #[error("task {id} has changed hands: the fence {fence} holds no more; {current}")]
    Fenced {
        /// The id.
        id: String,
        /// The fence that the commit carried.
        fence: String,
        /// What holds instead.
        current: String,
    },
    /// A field that only a verb of its own may change. Nothing was written.
    #[error("{field} is not a field to be saved; {verb}")]
    RuledField {
        /// The field.
        field: String,
        /// What changes it.
        verb: &'static str,
    },
    /// One commit would have touched tasks of two workspaces. Nothing was written.
    #[error("{} is in workspace {}, {} in {}", .ids.0, .homes.0, .ids.1, .homes.1)]
    CrossWorkspace {
        /// Two tasks of the commit; twice the same if one id is in two workspaces.
        ids: (String, String),
        /// Their workspaces.
        homes: (String, String),
    },
    /// What was asked for lies where compaction has dropped events, or was removed. Nothing was handed out instead.
    #[error("the log goes back to event {first_available} only")]
    Trimmed {
        /// The first event from which on all are there.
        first_available: Seq,
    },
    /// The history that a cursor speaks of has ended: a power cut, or a failed sync, has cost what was never durable.
    #[error(
        "history was rewound to event {to}; what came after it is gone, and its numbers were given out again"
    )]
    Rewound {
        /// The last event that both histories share.
        to: Seq,
    },
    /// A commit was attempted from inside a commit's closure.
    #[error("a commit from inside a commit's closure would wait for itself")]
    Reentrant,
    /// The handle was opened before this process was forked off. Its locks stayed with the parent.
    #[error("this handle belongs to the parent process; open the store again in the child")]
    Forked,
    /// There is no store, workspace or file here.
    #[error("not found: {what}")]
    NotFound {
        /// What was looked for.
        what: String,
    },
    /// Something else is here: not a foldlog store, or not the part of it that the name says.
    #[error("not a foldlog {what}: {why}")]
    Foreign {
        /// What was expected.
        what: &'static str,
        /// What was found instead.
        why: String,
    },
    /// The file system may be written by another kernel, whose locks cannot be seen.
    #[error("the file system {fs} may be shared with another machine, where locks do not exclude")]
    SharedFileSystem {
        /// Its name.
        fs: String,
    },
    /// The file system gave one lock to two handles, so that no lock would keep two writers apart.
    #[error("locks do not exclude on this file system: a second handle got a lock that was held")]
    LocksDoNotExclude,
    /// A look without the lock met bytes in motion; they are neither an end nor damage yet.
    #[error("the log is being written; look again")]
    NotYet,
    /// A folder that is being imported is being written by somebody else, or holds nothing that can be read. Nothing was
    /// concluded from it.
    #[error("unstable source, retry: {what}")]
    Unstable {
        /// What did not hold still.
        what: String,
    },
    /// Something stands where a copy of a store was to be made. It was not touched: nothing is ever made over what is there.
    #[error("the place is taken: {what}")]
    Occupied {
        /// What stands there, and who uses it.
        what: String,
    },
    /// The caller has ended what was being done. What had been made of it was removed again.
    #[error("cancelled")]
    Cancelled,
    /// No space (or quota) left. What was acknowledged before stands; writing works again once there is room.
    #[error("no space left on the device")]
    NoSpace,
    /// The operating system refused for want of permission.
    #[error("permission denied")]
    Permission,
    /// Another failure of the operating system.
    #[error("input/output error")]
    Io,
}

fn first_conflict(all: &[Conflict]) -> String {
    all.first().map(ToString::to_string).unwrap_or_default()
}

/// Defines the stable names once: for a kind, and as the list of all. A kind without a name does not compile.
macro_rules! codes {
    ($($kind:pat => $code:literal),+ $(,)?) => {
        /// The stable names of all kinds.
        pub const CODES: &'static [&'static str] = &[$($code),+];

        /// A stable name, the same in every release and language; one of [`ErrorKind::CODES`].
        pub fn code(&self) -> &'static str {
            match self {
                $($kind => $code),+
            }
        }
    };
}

impl ErrorKind {
    codes! {
        ErrorKind::Busy { .. } => "busy",
        ErrorKind::Damaged(_) => "damaged",
        ErrorKind::StoreReplaced { .. } => "store-replaced",
        ErrorKind::DurabilityLost { .. } => "durability-lost",
        ErrorKind::NotDurable { .. } => "not-durable",
        ErrorKind::ReadOnly { .. } => "read-only",
        ErrorKind::TooNew { .. } => "too-new",
        ErrorKind::UnknownEvent { .. } => "unknown-event",
        ErrorKind::Conflict(_) => "conflict",
        ErrorKind::OpIdReused { .. } => "op-id-reused",
        ErrorKind::OutcomeUnknown { .. } => "outcome-unknown",
        ErrorKind::TooLarge { .. } => "too-large",
        ErrorKind::BlobMissing { .. } => "blob-missing",
        ErrorKind::Invalid { .. } => "invalid",
        ErrorKind::Refused(_) => "refused",
        ErrorKind::NoTask { .. } => "no-task",
        ErrorKind::TaskExists { .. } => "task-exists",
        ErrorKind::TaskDeleted { .. } => "task-deleted",
        ErrorKind::NoDocument { .. } => "no-document",
        ErrorKind::DocumentDeleted { .. } => "document-deleted",
        ErrorKind::DocumentRefused { .. } => "document-refused",
        ErrorKind::BadStateFile { .. } => "bad-state-file",
        ErrorKind::StatusRefused { .. } => "status-refused",
        ErrorKind::NotWaiting { .. } => "not-waiting",
        ErrorKind::Cycle { .. } => "cycle",
        ErrorKind::Owned { .. } => "owned",
        ErrorKind::Fenced { .. } => "fenced",
        ErrorKind::RuledField { .. } => "ruled-field",
        ErrorKind::CrossWorkspace { .. } => "cross-workspace",
        ErrorKind::Trimmed { .. } => "trimmed",
        ErrorKind::Rewound { .. } => "rewound",
        ErrorKind::Reentrant => "reentrant",
        ErrorKind::Forked => "forked",
        ErrorKind::NotFound { .. } => "not-found",
        ErrorKind::Foreign { .. } => "foreign",
        ErrorKind::SharedFileSystem { .. } => "shared-file-system",
        ErrorKind::LocksDoNotExclude => "locks-do-not-exclude",
        ErrorKind::NotYet => "not-yet",
        ErrorKind::Unstable { .. } => "unstable",
        ErrorKind::Occupied { .. } => "occupied",
        ErrorKind::Cancelled => "cancelled",
        ErrorKind::NoSpace => "no-space",
        ErrorKind::Permission => "permission",
        ErrorKind::Io => "io",
    }

    /// What the person or program that meets the error can do next.
    pub fn remedy(&self) -> &'static str {
        match self {
            ErrorKind::Busy { .. } => {
                "retry later; if the holder is suspended or in a debugger, resume or end it (its lock is then free at once)"
            }
            ErrorKind::Damaged(_) => {
                "reading goes on up to the damage; run `foldlog verify` for the exact place, then `foldlog repair` (dry run) and `foldlog repair --apply`"
            }
            ErrorKind::StoreReplaced { .. } => {
                "close all handles and open the store again; if a sync or restore tool did it, see format-spec/how-to-corrupt.md"
            }
            ErrorKind::DurabilityLost { .. } => {
                "everything stays readable; check the disk and its space: the next write copies the log into fresh blocks and goes on, and so does `foldlog repair --apply`"
            }
            ErrorKind::NotDurable { .. } => {
                "do not send it again; make it durable with a flush once the reason is gone"
            }
            ErrorKind::ReadOnly { .. } => {
                "open the store for writing on a medium and with an account that permit it"
            }
            ErrorKind::TooNew { .. } => "update foldlog in this program; nothing was changed",
            ErrorKind::UnknownEvent { .. } => {
                "update foldlog in this program; reading what it knows still works, nothing is lost"
            }
            ErrorKind::Conflict(_) => {
                "read the current state in the conflict, decide again, and retry with its revision"
            }
            ErrorKind::OpIdReused { .. } => "make a fresh op id for each new request",
            ErrorKind::OutcomeUnknown { .. } => {
                "compare the current state with what the request wanted; if it is not there, send it under a new op id"
            }
            ErrorKind::TooLarge { .. } => "split the commit or shorten the value",
            ErrorKind::BlobMissing { .. } => {
                "to commit, store the blob again and repeat the commit; to read, bring the file back from a copy"
            }
            ErrorKind::Invalid { .. } => "correct the input",
            ErrorKind::Refused(_) => "see the reason; nothing was written",
            ErrorKind::NoTask { .. } => "check the id and the workspace; `foldlog tasks` lists what there is",
            ErrorKind::TaskExists { .. } => "patch the task that is there, or choose another id",
            ErrorKind::TaskDeleted { .. } => {
                "drop what was to be saved, or create the task again, explicitly"
            }
            ErrorKind::NoDocument { .. } => {
                "check the name and the workspace; `foldlog doc ls` lists what there is"
            }
            ErrorKind::DocumentDeleted { .. } => {
                "drop what was to be saved, or create the document again, explicitly, by expecting that it is absent"
            }
            ErrorKind::DocumentRefused { .. } => "correct the value as the reason says",
            ErrorKind::BadStateFile { .. } => {
                "a copy of it is in the workspace's quarantine; mend the file, or put the document by its name"
            }
            ErrorKind::StatusRefused { .. } => "read the task's present status and decide again",
            ErrorKind::NotWaiting { .. } => "keep the result with the child: give that the status completed",
            ErrorKind::Cycle { .. } => "choose another parent",
            ErrorKind::Owned { .. } => {
                "go on there, or wait for its end; if nobody runs the task any more, `foldlog abandon` takes it away"
            }
            ErrorKind::Fenced { .. } => {
                "stop running the task: it was abandoned, deleted or taken over meanwhile; read it anew before attaching again"
            }
            ErrorKind::RuledField { .. } => "use the verb, or leave the field out of what is saved",
            ErrorKind::CrossWorkspace { .. } => {
                "commit each workspace's tasks by themselves, and say which workspace is meant"
            }
            ErrorKind::Trimmed { .. } => {
                "take the present state as the start, and go on from its cursor or from the first event available"
            }
            ErrorKind::Rewound { .. } => {
                "drop what was made of later events, and go on from the one named, or from the present state"
            }
            ErrorKind::Reentrant => "return from the closure first, or put all events into one draft",
            ErrorKind::Forked => "open the store again in the child process",
            ErrorKind::NotFound { .. } => {
                "check the path or name; a store or workspace is made by opening it for writing"
            }
            ErrorKind::Foreign { .. } => {
                "check the path; foldlog never writes into a folder or file it did not make"
            }
            ErrorKind::SharedFileSystem { .. } => {
                "keep the store on a local disk, or set trust_shared_fs if no other machine ever opens it"
            }
            ErrorKind::LocksDoNotExclude => {
                "keep the store on a file system whose locks exclude, such as a local disk"
            }
            ErrorKind::NotYet => "look again in a moment",
            ErrorKind::Unstable { .. } => {
                "retry once the program that writes there is idle or closed; if nobody writes there, the named file is damaged"
            }
            ErrorKind::Occupied { .. } => {
                "name a folder that is absent or empty; a store that is no longer wanted is to be moved away first, by whoever knows that"
            }
            ErrorKind::Cancelled => "nothing; do it again if it is wanted after all",
            ErrorKind::NoSpace => "free some space; the store resumes by itself",
            ErrorKind::Permission => "check owner and mode of the file; foldlog changes neither",
            ErrorKind::Io => "check the disk and the system log",
        }
    }
}

impl Error {
    /// An error with its place.
    pub(crate) fn new(kind: ErrorKind, act: &'static str, path: &Path) -> Self {
        Error(Box::new(Inner { kind, act, path: path.to_path_buf(), source: None }))
    }

    /// An error with its place and the reason for it.
    pub(crate) fn with_source(kind: ErrorKind, act: &'static str, path: &Path, source: io::Error) -> Self {
        Error(Box::new(Inner { kind, act, path: path.to_path_buf(), source: Some(source) }))
    }

    /// A system error with its place, sorted into the kinds that have a remedy of their own.
    pub(crate) fn io(source: io::Error, act: &'static str, path: &Path) -> Self {
        let kind = match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ErrorKind::NoSpace,
            io::ErrorKind::PermissionDenied => ErrorKind::Permission,
            io::ErrorKind::ReadOnlyFilesystem => {
                ErrorKind::ReadOnly { reason: "the file system is mounted read-only".into() }
            }
            io::ErrorKind::NotFound => ErrorKind::NotFound { what: path.display().to_string() },
            io::ErrorKind::InvalidInput => ErrorKind::Foreign { what: "file", why: source.to_string() },
            _ => ErrorKind::Io,
        };
        Error(Box::new(Inner { kind, act, path: path.to_path_buf(), source: Some(source) }))
    }

    /// What kind of failure it is.
    pub fn kind(&self) -> &ErrorKind {
        &self.0.kind
    }

    /// Shorthand for `kind().code()`.
    pub fn code(&self) -> &'static str {
        self.0.kind.code()
    }

    /// What was being done, as a verb phrase.
    pub fn act(&self) -> &'static str {
        self.0.act
    }

    /// The file or folder concerned.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// The system's own error, where there is one.
    pub fn io_error(&self) -> Option<&io::Error> {
        self.0.source.as_ref()
    }

    /// The same error for another caller that the same failure concerns.
    pub(crate) fn duplicate(&self) -> Self {
        let Inner { kind, act, path, source } = &*self.0;
        let source = source.as_ref().map(|e| match e.raw_os_error() {
            Some(code) => io::Error::from_raw_os_error(code),
            None => io::Error::new(e.kind(), e.to_string()),
        });
        Error(Box::new(Inner { kind: kind.clone(), act, path: path.clone(), source }))
    }

    /// What it means for a commit that stands, up to event `last`, and for which this has kept a sync from succeeding: every
    /// other error of a commit says that nothing of it stands, and would have it made twice. So it becomes
    /// [`ErrorKind::NotDurable`], unless it says as much itself. [`crate::Log::commit`] tells it so; whoever commits
    /// `Buffered` and then waits has this for the wait's errors.
    #[must_use]
    pub fn of_commit_that_stands(self, last: Seq) -> Self {
        match self.kind() {
            ErrorKind::StoreReplaced { .. }
            | ErrorKind::DurabilityLost { .. }
            | ErrorKind::NotDurable { .. } => self,
            _ => Error::new(ErrorKind::NotDurable { seq: last, why: self.to_string() }, "sync", self.path()),
        }
    }

    /// Refuses a commit from inside its closure, with a reason for the caller.
    pub fn refused(reason: impl Into<String>) -> Self {
        Error::new(ErrorKind::Refused(reason.into()), "commit", Path::new(""))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { kind, act, path, source } = &*self.0;
        f.write_str(act)?;
        if !path.as_os_str().is_empty() {
            write!(f, " {}", path.display())?;
        }
        write!(f, ": {kind}")?;
        match source {
            Some(source) if matches!(kind, ErrorKind::Io | ErrorKind::DurabilityLost { .. }) => {
                write!(f, " ({source})")
            }
            _ => Ok(()),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_ref().map(|e| e as _)
    }
}

/// Adds what was tried, and where, to a system error.
pub(crate) trait Context<T> {
    fn context(self, act: &'static str, path: &Path) -> Result<T>;
}

impl<T> Context<T> for io::Result<T> {
    fn context(self, act: &'static str, path: &Path) -> Result<T> {
        self.map_err(|e| Error::io(e, act, path))
    }
}
