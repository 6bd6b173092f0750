//! The integration tests, one binary: half the link time.

mod commit_basics;
mod layers;
mod sim_processes;
mod sim_toy_log;
mod simulated;
