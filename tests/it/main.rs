//! The integration tests, one binary: half the link time.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails where it is wrong")]

mod commit_basics;
mod layers;
mod linux_only;
mod process_create;
#[cfg(target_os = "linux")]
mod process_disk;
#[cfg(target_os = "linux")]
mod process_fork;
mod process_kill;
#[cfg(target_os = "linux")]
mod process_power;
mod process_replaced;
#[cfg(target_os = "linux")]
mod process_strace;
mod process_takeover;
mod sim_toy_log;
mod worker;
