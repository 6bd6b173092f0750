//! The integration tests, one binary: half the link time.

mod commit_basics;
#[path = "../../tools/foldlog/src/event_json.rs"]
mod event_json;
mod layers;
mod repair;
mod sim_toy_log;
mod spec_numbers;
mod spec_store;
mod vectors;
