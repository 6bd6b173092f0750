//! The integration tests, one binary.

#[path = "../../tools/foldlog/src/event_json.rs"]
mod event_json;
mod layers;
mod spec_numbers;
mod vectors;
