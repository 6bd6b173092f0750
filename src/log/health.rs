//! What opening a log found, and how it is now.

use super::Seq;
use super::classify::Verdict;
use super::control::ControlUse;
use super::finding::Finding;

/// What opening a log found and did.
#[derive(Clone, Debug, Default)]
pub struct OpenReport {
    /// The last event number that was read.
    pub seq: Seq,
    /// How many events and commits were folded.
    pub events: u64,
    /// See `events`.
    pub commits: u64,
    /// How many segments the log has.
    pub segments: usize,
    /// What its end was.
    pub verdict: Option<Verdict>,
    /// Highest event number that anything on disk vouches for as durable.
    pub vouched: Seq,
    /// Everything worth saying.
    pub findings: Vec<Finding>,
}

/// What can be done with a log now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Status {
    /// Reading and writing.
    Healthy,
    /// Reading; the handle was opened so, or the store permits no more.
    ReadOnly,
    /// Reading up to the damage.
    Damaged,
    /// Reading; a newer release wrote something that must be understood before writing.
    TooNew,
    /// Reading; a sync failed.
    DurabilityLost,
}

impl Status {
    /// Its stable name.
    pub fn as_str(self) -> &'static str {
        match self {
            Status::Healthy => "healthy",
            Status::ReadOnly => "read-only",
            Status::Damaged => "damaged",
            Status::TooNew => "too-new",
            Status::DurabilityLost => "durability-lost",
        }
    }
}

/// How a log is, now.
#[derive(Clone, Debug)]
pub struct Health {
    /// What can be done with it.
    pub status: Status,
    /// How this handle shares the control block with other processes. Answers are the same in all cases.
    pub control: ControlUse,
    /// What was found since it was opened, newest last (the last 64).
    pub findings: Vec<Finding>,
}
