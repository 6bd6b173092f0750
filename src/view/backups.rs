//! Which copies of a workspace were made, and where: what whoever removes something for good has to know.

use std::sync::Arc;

use crate::log::Seq;

/// Most that are kept; of more the oldest are forgotten.
pub const BACKUPS_MAX: usize = 1000;

/// A copy of the workspace that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backup {
    /// The folder it was made in, in full, as the process that made it spells it.
    pub target: Arc<str>,
    /// The last event that is in it.
    pub covers: Seq,
    /// When that was noted, µs since 1970 UTC.
    pub time: u64,
    /// The event that notes it.
    pub seq: Seq,
}

/// The list with one more, the newest last. A list that others hold stays as it is.
pub(super) fn with(all: &Arc<Vec<Backup>>, one: Backup) -> Arc<Vec<Backup>> {
    let from = (all.len() + 1).saturating_sub(BACKUPS_MAX);
    Arc::new(all.iter().skip(from).cloned().chain([one]).collect())
}
