//! The integration tests, one binary: half the link time.

mod built_segment;
mod commit_basics;
mod damage_bytes;
mod layers;
mod model_frames;
mod repair;
mod sim_toy_log;
