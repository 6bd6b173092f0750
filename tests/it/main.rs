//! The integration tests, one binary.

mod sim_toy_log;
