//! The integration tests, one binary: half the link time.

mod commit_basics;
mod layers;
#[cfg(target_os = "linux")]
mod linux_only;
mod process_create;
mod process_kill;
mod process_takeover;
mod worker;
