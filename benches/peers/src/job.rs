//! What a worker process is told, and what it answers. Both are JSON: the job is its one argument, the answer its last
//! line. In between it says READY and waits for GO with a time of CLOCK_MONOTONIC.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::hist::Hist;
use crate::peer::Level;

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Role {
    /// Makes the store.
    Create,
    /// Commits from GO on.
    Commit,
    /// Counts what is in the store.
    Count,
    /// Commits now and then, and says when.
    Tell,
    /// Polls, and says when it saw what.
    Watch,
    /// Commits until it is killed.
    Doomed,
    /// Commits on and on, and says when the first commit after a death returned.
    Heir,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Job {
    pub role: Role,
    pub peer: String,
    pub level: Level,
    pub dir: PathBuf,
    pub worker: usize,
    /// When it stops; whichever comes first.
    pub seconds: f64,
    /// Of one that makes a store: for how many steps it must have room.
    pub commits: u64,
    /// Steps that share a sync.
    pub batch: usize,
}

#[derive(Default, Serialize, Deserialize)]
pub struct Answer {
    /// Commits that were acknowledged.
    pub acked: u64,
    /// Those of them within the time.
    pub in_time: u64,
    /// When the last one returned, CLOCK_MONOTONIC.
    pub end: u64,
    /// When the first was begun and the last returned, in seconds since 1970.
    pub wall: (f64, f64),
    pub latencies: Hist,
    /// Bytes the kernel accounts to it.
    pub written: u64,
    /// Steps that were found.
    pub found: u64,
    /// Tell: begin and return of each commit. Watch: when it was seen, twice.
    pub times: Vec<(u64, u64)>,
    /// A poll that finds nothing new, ns.
    pub idle_ns: f64,
}

/// The word, in a file of its own beside the store, that counts what doomed workers had acknowledged.
pub const ACKED: &str = "acked";
