//! Folds of a log: what its events come to. Functions of the log alone; no system call, no clock.
//!
//! [`Index`] is the tasks of one workspace; `fold` says what each event does to its task; [`query`] lists them,
//! [`graph`] walks from parents to children, [`check`] looks for what today's rules would not allow, [`history`] tells one
//! task's changes, [`Tracker`] those of all as they come.

pub mod check;
mod fold;
pub mod graph;
pub mod history;
mod index;
pub mod query;
mod task;
mod tracker;

pub use fold::Head;
pub(crate) use fold::fold_event;
pub use graph::Totals;
pub use history::{Change, FieldChange};
pub use index::{Index, Writer};
pub use query::{Page, Query, Sort};
pub use task::{Entry, Imports, Task, Tombstone};
pub use tracker::Tracker;
