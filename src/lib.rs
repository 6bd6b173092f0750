//! foldlog: an embeddable append-only event log for task histories.

pub mod vfs;
