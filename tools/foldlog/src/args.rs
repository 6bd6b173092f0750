//! The command line. Help, man page and completions all come from here, so each flag is described once.

use std::path::PathBuf;
use std::sync::LazyLock;

use clap::{Parser, Subcommand};
use foldlog::log::format::{FORMAT, LEVEL};

use crate::task_args as task;

/// List and change the tasks of a foldlog store; look into its event logs, verify them and mend them.
#[derive(Debug, Parser)]
#[command(
    name = "foldlog",
    version,
    long_version = VERSION.as_str(),
    arg_required_else_help = true,
    after_help = "\
Exit codes: 0 fine, 1 findings below damage, 2 usage, 3 conflict, refused or not found, 4 damaged, degraded or too new,
5 busy, 6 input/output, 130 interrupted. A closed pipe is 0.
Data goes to stdout, talk to stderr. Colours only on a terminal, and never if NO_COLOR is set."
)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

/// What every verb understands.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Global {
    /// The store's folder, else what FOLDLOG_STORE says; there is no other default.
    #[arg(long, global = true, value_name = "DIR", env = "FOLDLOG_STORE", hide_env = true)]
    pub(crate) store: Option<PathBuf>,
    /// One workspace: its project's folder, key:NAME for one bound to a key, or its folder's name in the store.
    /// Without it a verb that reads takes all; one that changes a task takes the one it is at home in; create and repair
    /// take the current folder's.
    #[arg(long, global = true, value_name = "PATH|KEY")]
    pub(crate) workspace: Option<String>,
    /// Print JSON Lines, errors and findings on stderr too.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Say nothing on stderr but errors and damage.
    #[arg(long, short, global = true)]
    pub(crate) quiet: bool,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// List tasks; writes nothing
    ///
    /// Columns fit the terminal, or what COLUMNS says; where neither is there nothing is shortened. With --json a line for
    /// each task as of show, then {"total":N,"next":NEXT|null}.
    Tasks(task::Tasks),
    /// Show all fields of a task; writes nothing
    ///
    /// If its id is in two workspaces both are shown, and the exit code is 1.
    Show(task::Show),
    /// Tell a task's changes, oldest first: when, by whom, what, from what to what; writes nothing
    History(task::History),
    /// Create a task, in the current folder's workspace or where its parent is; makes the store if it is absent
    Create(task::Create),
    /// Change fields of a task; all others stay as they are
    Set(task::Set),
    /// Give a task a title
    Rename(task::Rename),
    /// Give a task another status
    Status(task::SetStatus),
    /// Bring an interrupted task back to active
    Resume(task::Resume),
    /// Let a task wait for a child, which is created, or taken if it is there
    Delegate(task::Delegate),
    /// Complete a task; the parent that waits for it goes on with the summary
    Complete(task::Complete),
    /// Remove tasks, all or none; their ids stay taken
    Rm(task::Remove),
    /// Hold a task, print the fence, and give it back when COMMAND, or without one stdin, has ended
    ///
    /// Refused while another session holds it that is not proven dead. What is changed with --fence is refused once the
    /// task has changed hands. With COMMAND the exit code is that of the command, if the task was still held at its end.
    Attach(task::Attach),
    /// Take a task from whoever holds it, alive or not; a parent that waits for it goes on without it
    ///
    /// In that case it is interrupted, and a child no more. Whatever is still sent with an older fence is refused.
    Abandon(task::Abandon),
    /// List the sessions of the store, living and dead, and the tasks they hold; writes nothing
    Who,
    /// Documents: named JSON values with revisions, of a workspace or of the whole store
    ///
    /// The workspace is the one --workspace names, else the current folder's; --global is the store's global home.
    #[command(subcommand)]
    Doc(crate::doc::Doc),
    /// Serve a program in any language: requests on stdin, answers on stdout, JSON Lines both
    ///
    /// One process for as long as stdin stays open; it holds what it attaches to. docs/pipe.md has every operation.
    Pipe(Pipe),
    /// Take over a history of the older JSON layouts, which is not changed; makes the store if it is absent
    ///
    /// DIR is the folder that holds tasks/, or the tasks folder itself. All of it goes into one workspace, so that any of its
    /// tasks can be changed together, and a second import of DIR finds it again: the one --workspace names, else the one of
    /// the folder that holds tasks/, whatever workspace the tasks themselves name. The second import takes over what has
    /// changed since. Prints which record of a task was chosen where several differ, and what was found wrong. Exit code 1:
    /// something was set aside, found or not taken over. Ctrl-C stops between two batches; run again, it goes on.
    Import(Import),
    /// Print the events of a store, a workspace or one segment's file, live or damaged; writes nothing
    ///
    /// What lies behind damage is printed too, as far as it still checks; the damage itself is told on stderr and by
    /// exit code 4.
    Dump(Dump),
    /// Check every byte that is vouched for and print what was found; writes nothing, takes no lock
    Verify,
    /// Say what repairing a damaged workspace would save and what it would lose; with --apply do it
    ///
    /// Takes the current folder's workspace if --workspace is not given. Without --apply it writes nothing. With it the
    /// damaged bytes go to the workspace's quarantine first; nothing is deleted that is not kept there.
    Repair(Repair),
    /// Write a snapshot and rewrite old segments smaller, without what later events have overwritten
    ///
    /// Takes all workspaces if --workspace is not given. Nothing is changed unless what was written comes to the same state.
    /// Others may read and write meanwhile; what is new stays as it is, so a second run may gain more. Ctrl-C leaves a
    /// workspace as it was.
    Compact,
    /// Say how much of the history is kept for its own sake, or set it, of a workspace or of one task
    ///
    /// History are the events that later ones have overwritten; without a word about it none of it is kept. A limit says how far
    /// it reaches at most, and is kept to when old segments are written anew. It stands in the log, so all programs keep to it.
    Retention(Keep),
    /// Say what would be removed for good of these tasks, and with --apply remove it from every file
    ///
    /// From log, snapshots and blobs, and whole whatever damage or repair had set aside. Their ids stay taken. Backups are named and not
    /// touched. Exit code 1: it was only said; 5: a file is still in use by another program, which is named: say the same again.
    Purge(Purge),
    /// Copy a store, complete and verified, into a folder that is absent or empty, while any number of programs write it
    ///
    /// Takes no lock. On the same file system files that are never written again are linked, not copied; both sides may be
    /// written and deleted without harm to the other. A damaged store is refused. The store notes where the backup is. Of one
    /// workspace with --workspace. Exit code 4: copied with --as-it-is, and damaged.
    Backup(Backup),
    /// Make a store of a backup, in a folder that is absent or empty: never over a store, whoever may have it open
    ///
    /// The backup is verified before, and the store after. What sessions of the old store held is nobody's here.
    Restore(Restore),
    /// Print figures of each workspace, and the total last; writes nothing
    Stats,
    /// Try whether locks, writes and syncs do on the file system of DIR what foldlog relies on
    ///
    /// Then lets several processes write a store there while they are killed, and looks for anything lost. All of it
    /// happens in a new folder inside DIR, which is removed if all is well.
    Selftest(Selftest),
    /// One process of a selftest.
    #[command(hide = true)]
    SelftestWorker(Worker),
    /// Show the main job: several processes keep one task history, and one of them is killed while it writes
    ///
    /// Imports a sample history, lets four processes change it at once, kills one of them inside a write, and starts it again.
    /// Then new processes look for every commit that was acknowledged. Needs nothing, takes no store: it makes a folder, and
    /// removes it at the end. Exit code 1: something acknowledged is missing.
    Demo(Demo),
    /// One writer of a demo.
    #[command(hide = true)]
    DemoWriter(DemoWriter),
    /// Holds a demo's store against what was acknowledged.
    #[command(hide = true)]
    DemoCheck(DemoCheck),
    /// Print a completion script for a shell
    Completions {
        /// Which shell.
        shell: clap_complete::Shell,
    },
    /// Print the man page
    Man,
}

/// `foldlog pipe`.
#[derive(Debug, clap::Args)]
pub(crate) struct Pipe {
    /// What the program calls itself; others see it in `who`.
    #[arg(long, value_name = "TEXT", default_value = "foldlog pipe")]
    pub(crate) label: String,
    /// Do not make the store if it is absent.
    #[arg(long)]
    pub(crate) no_create: bool,
    /// Open for reading only: no session, no lock, not a byte written.
    #[arg(long)]
    pub(crate) read_only: bool,
}

/// `foldlog import`.
#[derive(Debug, clap::Args)]
pub(crate) struct Import {
    /// The folder with the history.
    pub(crate) dir: PathBuf,
    /// Say what would be done, and write nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// A saved global state to read as well: a JSON file with an array of records; may be given several times.
    #[arg(long, value_name = "FILE")]
    pub(crate) state: Vec<PathBuf>,
}

/// `foldlog dump`.
#[derive(Debug, clap::Args)]
pub(crate) struct Dump {
    /// A store, a workspace's folder or one segment's file; without it the store of --store.
    pub(crate) path: Option<PathBuf>,
    /// Leave out events before this number.
    #[arg(long, value_name = "SEQ", default_value_t = 0)]
    pub(crate) from: u64,
    /// Only events of this task.
    #[arg(long, value_name = "ID", conflicts_with = "raw")]
    pub(crate) task: Option<String>,
    /// Only events of this kind; may be given several times.
    #[arg(long, value_name = "NAME|NUMBER", value_parser = parse_kind, conflicts_with = "raw")]
    pub(crate) kind: Vec<u16>,
    /// With --json add `event` to each line: what the event says, or null where this release does not know it.
    #[arg(long, conflicts_with = "raw")]
    pub(crate) decode: bool,
    /// Print frames with their headers and offsets, control frames too, and what lies behind the end.
    #[arg(long)]
    pub(crate) raw: bool,
    /// Go on printing events as they come, from any process, until Ctrl-C (exit code 130) or until nobody reads stdout.
    ///
    /// Writes nothing and works on a read-only medium: it looks after pauses that grow to half a second. Where history is
    /// rewound by a power cut, it says so on stderr and goes on. Workspaces that come into being meanwhile are not followed.
    #[arg(long, conflicts_with = "raw")]
    pub(crate) follow: bool,
}

/// `foldlog repair`.
#[derive(Debug, clap::Args)]
pub(crate) struct Repair {
    /// Do it, instead of saying what would be done.
    #[arg(long)]
    pub(crate) apply: bool,
    /// Bring delegations to an end that nobody alive will: of tasks whose session is dead, and of those that nobody has ever
    /// attached to. Bytes are not looked at.
    #[arg(long)]
    pub(crate) orphans: bool,
}

/// `foldlog retention`.
#[derive(Debug, clap::Args)]
pub(crate) struct Keep {
    /// The task it is about; without it the whole workspace, for all tasks of which nothing else is said.
    pub(crate) id: Option<String>,
    /// Keep all of it.
    #[arg(long, conflicts_with_all = ["none", "age", "count", "bytes"])]
    pub(crate) keep_all: bool,
    /// Take back what was set.
    #[arg(long, conflicts_with_all = ["age", "count", "bytes"])]
    pub(crate) none: bool,
    /// Keep what is not older: 90s, 15m, 12h, 30d, 4w.
    #[arg(long, value_name = "AGE", value_parser = crate::retention::parse_age)]
    pub(crate) age: Option<std::time::Duration>,
    /// Keep so many events of each task.
    #[arg(long, value_name = "N")]
    pub(crate) count: Option<u64>,
    /// Keep so many bytes of it: 1048576, 64K, 64M, 2G.
    #[arg(long, value_name = "BYTES", value_parser = crate::retention::parse_bytes)]
    pub(crate) bytes: Option<u64>,
    /// Keep all of this task's, whatever else is set.
    #[arg(long, conflicts_with = "unpin")]
    pub(crate) pin: bool,
    /// No longer.
    #[arg(long)]
    pub(crate) unpin: bool,
}

/// `foldlog purge`.
#[derive(Debug, clap::Args)]
pub(crate) struct Purge {
    /// The tasks' ids.
    #[arg(value_name = "ID", required = true)]
    pub(crate) ids: Vec<String>,
    /// Purge all below them too.
    #[arg(long)]
    pub(crate) cascade: bool,
    /// Do it, instead of saying what would be done.
    #[arg(long)]
    pub(crate) apply: bool,
}

/// `foldlog backup`.
#[derive(Debug, clap::Args)]
pub(crate) struct Backup {
    /// The store.
    pub(crate) dir: PathBuf,
    /// The folder to make.
    pub(crate) target: PathBuf,
    /// Copy every byte, link nothing: for a backup that is to outlive the disk it lies on.
    #[arg(long)]
    pub(crate) copy: bool,
    /// Do not note in the store that the backup was made.
    #[arg(long)]
    pub(crate) no_note: bool,
    #[command(flatten)]
    pub(crate) what: Copied,
}

/// `foldlog restore`.
#[derive(Debug, clap::Args)]
pub(crate) struct Restore {
    /// The backup.
    pub(crate) backup: PathBuf,
    /// The folder to make.
    pub(crate) target: PathBuf,
    #[command(flatten)]
    pub(crate) what: Copied,
}

/// What goes along.
#[derive(Debug, clap::Args)]
pub(crate) struct Copied {
    /// Leave out the bytes that were set aside in quarantine.
    #[arg(long)]
    pub(crate) no_quarantine: bool,
    /// Copy what is damaged too, byte for byte as far as it can be read, instead of refusing it.
    #[arg(long)]
    pub(crate) as_it_is: bool,
}

/// `foldlog selftest`.
#[derive(Debug, clap::Args)]
pub(crate) struct Selftest {
    /// A folder on the file system to try.
    pub(crate) dir: PathBuf,
    /// How many processes write.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) writers: u32,
    /// How many times a writer is killed.
    #[arg(long, value_name = "N", default_value_t = 12, value_parser = clap::value_parser!(u32).range(0..=10_000))]
    pub(crate) kills: u32,
}

/// `foldlog selftest-worker`.
#[derive(Debug, clap::Args)]
pub(crate) struct Worker {
    /// What to do.
    #[arg(value_enum)]
    pub(crate) task: Task,
    /// The file or store.
    pub(crate) path: PathBuf,
    /// Its name among the workers.
    #[arg(default_value = "")]
    pub(crate) name: String,
}

/// `foldlog demo`.
#[derive(Debug, clap::Args)]
pub(crate) struct Demo {
    /// What the writers do and where one is killed follows from this number; without it one is drawn.
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// Make all of it in this folder, which must be empty or absent, and leave it there.
    #[arg(long, value_name = "DIR")]
    pub(crate) keep: Option<PathBuf>,
}

/// `foldlog demo-writer`.
#[derive(Debug, clap::Args)]
pub(crate) struct DemoWriter {
    /// The demo's store.
    pub(crate) dir: PathBuf,
    /// The demo's seed.
    #[arg(long)]
    pub(crate) seed: u64,
    /// Which writer.
    #[arg(long)]
    pub(crate) writer: usize,
    /// The first step to take.
    #[arg(long)]
    pub(crate) from: usize,
    /// Stop inside the write that the seed says, if it is this writer's.
    #[arg(long)]
    pub(crate) dies: bool,
}

/// `foldlog demo-check`.
#[derive(Debug, clap::Args)]
pub(crate) struct DemoCheck {
    /// The demo's folder.
    pub(crate) dir: PathBuf,
}

/// What a process of a selftest does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Task {
    /// Say whether the file's lock is free.
    Try,
    /// Take the file's lock, say so, and keep it until stdin ends.
    Hold,
    /// Say what the file holds.
    Show,
    /// Commit until killed, or until stdin ends, and say what was acknowledged.
    Write,
    /// Say the state hash of the log.
    Hash,
}

fn parse_kind(text: &str) -> Result<u16, String> {
    use foldlog::event::kinds;
    use foldlog::log::format::{EVENT_ELIDED, EVENT_NOTHING};
    let known = kinds::KINDS.iter().map(|(kind, ..)| *kind).chain([EVENT_ELIDED, EVENT_NOTHING]);
    match text.parse() {
        Ok(kind) => Ok(kind),
        Err(_) => known.into_iter().find(|kind| kinds::name(*kind) == Some(text)).ok_or_else(|| {
            "it is neither a number nor the name of a kind, such as created or status-changed".to_owned()
        }),
    }
}

/// What `--version` prints behind the name.
pub(crate) static VERSION: LazyLock<String> = LazyLock::new(|| {
    format!(
        "{}\nformat {FORMAT} (writes {FORMAT}, reads up to {FORMAT}; reader and writer level {LEVEL})",
        env!("CARGO_PKG_VERSION")
    )
});

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn command_line_is_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn global_flags_stand_before_or_behind_the_verb() {
        for words in [["foldlog", "--json", "verify"], ["foldlog", "verify", "--json"]] {
            assert!(Args::try_parse_from(words).unwrap().global.json);
        }
    }

    #[test]
    fn version_names_the_format() {
        assert!(VERSION.contains("format 1 "), "{}", *VERSION);
    }
}
