//! The command, run as users run it: what it prints where, how it ends, and that looking changes nothing.
#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "test code makes and breaks files by itself; a panic is a failure"
)]

mod cli_backup;
mod cli_bad_input;
mod cli_change;
mod cli_compact;
mod cli_demo;
mod cli_doc;
mod cli_dump;
mod cli_follow;
mod cli_help;
mod cli_import;
mod cli_live;
mod cli_pipe;
mod cli_purge;
mod cli_repair;
mod cli_selftest;
mod cli_show;
mod cli_stats;
mod cli_tasks;
mod cli_vectors;
mod cli_verify;
mod cli_who;
#[cfg(target_os = "linux")]
mod linux_only;
mod process_tasks;
mod support;
