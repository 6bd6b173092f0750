//! foldlog: an embeddable append-only event log for the task histories of coding agents. Many processes, one log.
//!
//! Every change is an event, appended under an OS lock to the log of its workspace; what is true is the fold over that
//! log. A [`Store`] is a folder; a [`Workspace`] in it is one project's log; [`Workspace::commit`] runs a closure under
//! the write lock on the newest state and appends what it drafts, all or nothing. [`Durability`] says what an
//! acknowledged commit survives. A torn tail heals by itself; damage to acknowledged data never does in silence
//! ([`Health`], [`Recovery`], [`Log::repair`]).
//!
//! On it stand the tasks: a [`TaskStore`] opens a store for them, [`Tasks`] are one project's, and each change is a verb
//! ([`Tasks::patch`], [`Tasks::delegate`], …) whose rules are judged under the lock.
//!
//! From the bottom up: [`vfs`] is every system call, real or simulated; [`session`] says which processes live;
//! [`mod@log`] is the engine; [`store`] finds and makes logs; [`event`] is the vocabulary, [`view`] folds it, [`task`] has
//! the rules; [`document`] has named JSON values beside the tasks; [`legacy`] reads the JSON folders of older hosts. The bytes are specified in `format-spec/`.
//!
//! # Concurrency
//! All handles are `Send` and `Sync`. Any number of threads and processes may use one store at the same time. After a
//! `fork`, the child's handles answer [`ErrorKind::Forked`]; it opens the store again.

pub mod document;
pub mod error;
pub mod event;
pub mod legacy;
pub mod log;
pub mod session;
pub mod store;
pub mod task;
pub mod vfs;
pub mod view;

pub use document::{Bridge, DocumentSnapshot, Documents, Whence};
pub use error::{Error, ErrorKind, Result};
pub use event::{DocumentName, Field, Item, Patch, Status as TaskStatus, StatusTable, TaskId, Value};
pub use log::envelope::{Key, KeyKind};
pub use log::finding::{Finding, Severity};
pub use log::{
    BlobId, Conflict, Consistency, ControlUse, Cursor, DeliveredEvent, Delivery, Draft, Durability, Expect,
    Feed, Health, Housekeeping, KeepLock, KeyState, Link, Log, Mapping, NewEvent, OpId, OpenReport, Phase,
    Progress, Receipt, Recovery, Revision, Seq, Since, State, Status, Subscription, Vocabulary, Waker,
    Wakings,
};
pub use store::{CopyOptions, CopyReport, Options, Place, Store, Workspace, WorkspaceCopy};
pub use task::{
    CommitOptions, Committed, DocumentExpect, Op, Snapshot, TaskChange, TaskChanges, TaskCommit, TaskExpect,
    TaskStore, TaskUpdate, Tasks, TasksView, Token,
};

/// The README's example is compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
