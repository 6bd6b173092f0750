//! foldlog: an embeddable append-only event log for task histories.

pub mod error;
pub mod log;
pub mod session;
pub mod store;
pub mod vfs;

pub use error::{Error, ErrorKind, Result};
