//! The integration tests, one binary.

mod built_segment;
mod damage_bytes;
mod model_frames;
