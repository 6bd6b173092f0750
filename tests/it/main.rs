//! The integration tests, one binary: half the link time.

mod commit_basics;
mod layers;
mod repair;
mod sim_toy_log;
