//! Folds of a log: what its events come to. Functions of the log alone; no system call, no clock.
//!
//! [`Index`] is the tasks of one workspace; `fold` says what each event does to its task; [`query`] lists them,
//! [`graph`] walks from parents to children, [`check`] looks for what today's rules would not allow, [`history`] tells one
//! task's changes, [`Tracker`] those of all as they come. [`Documents`] stand beside the tasks, in the same fold.

mod backups;
pub mod check;
mod documents;
mod effect;
mod facts;
mod fold;
pub mod graph;
pub mod history;
mod index;
pub mod query;
mod retention;
mod saved;
mod table;
mod task;
mod tracker;

pub use backups::{BACKUPS_MAX, Backup};
pub use documents::{
    Document, DocumentEntry, DocumentQuery, Documents, MIRROR_ASIDE_MAX, MIRROR_MEANT_MAX, MIRRORS_MAX,
    Mirror,
};
pub(crate) use documents::{fold_document, patched};
pub use fold::Head;
pub(crate) use fold::fold_event;
pub use graph::Totals;
pub use history::{Change, DocumentChange, FieldChange};
pub use index::{Index, Writer};
pub use query::{Page, Query, Sort};
pub use retention::Retentions;
pub use task::{Entry, Imports, Task, Tombstone};
pub use tracker::Tracker;
