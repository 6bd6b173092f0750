//! The integration tests, one binary: half the link time.

mod built_segment;
mod commit_basics;
mod crash_damage;
mod crash_enumeration;
mod crash_faults;
mod crash_oracle;
mod crash_stories;
mod damage_bytes;
mod layers;
mod model_frames;
mod repair;
mod sim_toy_log;
