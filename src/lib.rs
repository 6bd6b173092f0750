//! foldlog: an embeddable append-only event log for task histories.

pub mod error;
pub mod log;
pub mod session;
pub mod store;
pub mod vfs;

pub use error::{Error, ErrorKind, Result};
pub use log::envelope::{Key, KeyKind};
pub use log::finding::{Finding, Severity};
pub use log::{
    Conflict, Cursor, Draft, Durability, Expect, Health, Housekeeping, KeyState, Log, NewEvent, OpId,
    OpenReport, Receipt, Recovery, Revision, Seq, State, Status, Vocabulary,
};
pub use store::{Options, Place, Store, Workspace};
