//! The command line of the verbs about tasks.

use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use foldlog::event::Fence;
use foldlog::task::TaskExpect;
use foldlog::view::Sort;
use foldlog::{Durability, OpId, TaskStatus};
use foldlog_requests::words;

/// `foldlog tasks`.
#[derive(Debug, clap::Args)]
pub(crate) struct Tasks {
    /// Only tasks of this status; one without a status is active.
    #[arg(long, value_parser = status_parser())]
    pub(crate) status: Option<TaskStatus>,
    /// Only children of this task.
    #[arg(long, value_name = "ID")]
    pub(crate) parent: Option<String>,
    /// Only tasks in the background.
    #[arg(long, conflicts_with = "foreground")]
    pub(crate) background: bool,
    /// Only tasks in the foreground.
    #[arg(long)]
    pub(crate) foreground: bool,
    /// Put children under their parents; tokens, cost and size are sums over a task and all below it.
    ///
    /// A task whose parent is not in the list stands at the top. --limit and --after count tasks at the top.
    #[arg(long)]
    pub(crate) tree: bool,
    /// By what the list is ordered: time of last activity, creation, last change, cost, tokens, size (the greatest first),
    /// or title.
    #[arg(long, value_enum, default_value_t = By::Time)]
    pub(crate) sort: By,
    /// At most this many tasks.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) limit: Option<u32>,
    /// Begin behind this task, the `next` of the page before.
    #[arg(long, value_name = "NEXT")]
    pub(crate) after: Option<String>,
    /// Go on showing the list as it changes, until Ctrl-C (exit code 130) or until nobody reads stdout.
    ///
    /// On a terminal the list is drawn anew. Elsewhere, and with --json, it is followed by a line for each task of it that
    /// has changed: with --json that of the list, or {"id":ID,"gone":true,"workspace":NAME} if it is not in the list any more.
    #[arg(long)]
    pub(crate) watch: bool,
}

/// The orders of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum By {
    Time,
    Created,
    Changed,
    Cost,
    Tokens,
    Size,
    Title,
}

impl By {
    /// The library's word for it.
    pub(crate) fn sort(self) -> Sort {
        match self {
            By::Time => Sort::Time,
            By::Created => Sort::Created,
            By::Changed => Sort::Changed,
            By::Cost => Sort::Cost,
            By::Tokens => Sort::Tokens,
            By::Size => Sort::Size,
            By::Title => Sort::Title,
        }
    }
}

/// `foldlog show`.
#[derive(Debug, clap::Args)]
pub(crate) struct Show {
    /// The task's id.
    pub(crate) id: String,
    /// Do not shorten large values.
    #[arg(long)]
    pub(crate) full: bool,
}

/// `foldlog history`.
#[derive(Debug, clap::Args)]
pub(crate) struct History {
    /// The task's id.
    pub(crate) id: String,
    /// Do not shorten large values.
    #[arg(long)]
    pub(crate) full: bool,
}

/// How a change is to be made.
#[derive(Debug, clap::Args)]
pub(crate) struct Change {
    /// Change nothing unless the task is at this revision: a token as `show --json` and receipts have it, or a bare number.
    ///
    /// A token counts only in the history it was read in. A bare number is valid only until the machine restarts: after a
    /// power cut numbers may be given out again. Of `delegate` it is the parent's.
    #[arg(long, value_name = "TOKEN|NUMBER", value_parser = words::parse_expected)]
    pub(crate) expect_revision: Option<TaskExpect>,
    /// Make the change on behalf of whoever holds the task by this fence, as `attach` printed it: nothing is changed once the
    /// task has changed hands. Of `delegate` it is the parent's, of `rm` the first one's.
    #[arg(long, value_name = "NUMBER.SESSION", value_parser = words::parse_fence)]
    pub(crate) fence: Option<Fence>,
    /// The request's name: sent twice under one name, it is applied once and answered alike. 32 hex digits or a UUID.
    #[arg(long, value_name = "HEX32", value_parser = words::parse_op_id)]
    pub(crate) op_id: Option<OpId>,
    /// What the change survives when its receipt is printed: durable a power cut, buffered the end of this program,
    /// interval:MS a power cut from that many milliseconds later.
    #[arg(long, value_name = "durable|buffered|interval:MS", default_value = "durable", value_parser = words::parse_durability)]
    pub(crate) durability: Durability,
}

/// `foldlog create`.
#[derive(Debug, clap::Args)]
pub(crate) struct Create {
    /// The task's id.
    pub(crate) id: String,
    /// Fields. A value is JSON where it reads as JSON, else a plain string; @- is what stdin holds.
    #[arg(value_name = "FIELD=VALUE")]
    pub(crate) fields: Vec<String>,
    /// Bring a deleted task's id to life again.
    #[arg(long)]
    pub(crate) again: bool,
    #[command(flatten)]
    pub(crate) change: Change,
}

/// `foldlog set`.
#[derive(Debug, clap::Args)]
pub(crate) struct Set {
    /// The task's id.
    pub(crate) id: String,
    /// Fields. A value is JSON where it reads as JSON, else a plain string; @- is what stdin holds; nothing removes the
    /// field.
    #[arg(value_name = "FIELD=VALUE", required = true)]
    pub(crate) fields: Vec<String>,
    #[command(flatten)]
    pub(crate) change: Change,
}

/// `foldlog rename`.
#[derive(Debug, clap::Args)]
pub(crate) struct Rename {
    /// The task's id.
    pub(crate) id: String,
    /// The title, as it is.
    pub(crate) title: String,
    #[command(flatten)]
    pub(crate) change: Change,
}

/// `foldlog status`.
#[derive(Debug, clap::Args)]
pub(crate) struct SetStatus {
    /// The task's id.
    pub(crate) id: String,
    /// The status.
    #[arg(value_parser = status_parser())]
    pub(crate) status: TaskStatus,
    #[command(flatten)]
    pub(crate) change: Change,
}

/// `foldlog resume`.
#[derive(Debug, clap::Args)]
pub(crate) struct Resume {
    /// The task's id.
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) change: Change,
}

/// `foldlog delegate`.
#[derive(Debug, clap::Args)]
pub(crate) struct Delegate {
    /// The id of the task that waits.
    pub(crate) parent: String,
    /// The id of the task it waits for.
    pub(crate) child: String,
    /// Fields of a child that is not there yet, as of `create`.
    #[arg(value_name = "FIELD=VALUE")]
    pub(crate) fields: Vec<String>,
    #[command(flatten)]
    pub(crate) change: Change,
}

/// `foldlog complete`.
#[derive(Debug, clap::Args)]
pub(crate) struct Complete {
    /// The task's id.
    pub(crate) id: String,
    /// What came of it, as it is.
    #[arg(long, value_name = "TEXT")]
    pub(crate) summary: Option<String>,
    #[command(flatten)]
    pub(crate) change: Change,
}

/// `foldlog attach`.
#[derive(Debug, clap::Args)]
pub(crate) struct Attach {
    /// The task's id.
    pub(crate) id: String,
    /// A program to run while the task is held; it finds FOLDLOG_STORE, FOLDLOG_TASK and FOLDLOG_FENCE in its environment.
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<std::ffi::OsString>,
}

/// `foldlog abandon`.
#[derive(Debug, clap::Args)]
pub(crate) struct Abandon {
    /// The task's id.
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) change: Change,
}

/// `foldlog rm`.
#[derive(Debug, clap::Args)]
pub(crate) struct Remove {
    /// The tasks' ids.
    #[arg(value_name = "ID", required = true)]
    pub(crate) ids: Vec<String>,
    /// Remove all below them too.
    #[arg(long)]
    pub(crate) cascade: bool,
    #[command(flatten)]
    pub(crate) change: Change,
}

fn status_parser() -> impl clap::builder::TypedValueParser<Value = TaskStatus> {
    PossibleValuesParser::new(TaskStatus::ALL.map(TaskStatus::name))
        .try_map(|name| TaskStatus::of(&name).ok_or("no status"))
}
