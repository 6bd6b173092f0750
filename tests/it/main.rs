//! The integration tests, one binary: half the link time.

mod commit_basics;
mod crash_enumeration;
mod crash_oracle;
mod crash_stories;
mod layers;
mod sim_toy_log;
