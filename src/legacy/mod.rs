//! The JSON layouts of older releases and other hosts: a folder `tasks/` with one folder a task.
//!
//! [`Source`] reads such a folder, with every place where a record of a task may stand, and changes nothing in it.
//! [`decide()`] says which record of a task is right, field by field; [`Found`] is the answer, [`SourceReport`] the same
//! for people and programs. So far nothing knows of a store; [`fn@import`] is the step that takes the answer over into one.
//!
//! Files of these layouts are written without a lock that a reader could take, and some by emptying them first. So what
//! cannot be parsed is never an answer by itself: it is looked at again until it holds still ([`Source::read`]).

mod import;
mod look;
mod messages;
mod quality;
mod report;
mod source;
mod text;
mod title;

pub use import::{ImportReport, Outcome, Taken, import};
pub use messages::{Messages, Sums};
pub use quality::{Decision, Kind, Origin, Record, Whence, Why, decide};
pub use report::{
    Confidence, Debris, DebrisKind, FieldReport, SetAside, SourceFinding, SourceReport, TaskReport, Totals,
    What,
};
pub use source::{Found, FoundTask, Kept, Phase, Progress, Source};
pub use title::is_placeholder;
