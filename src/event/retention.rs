//! What of the history is kept for its own sake.

use std::time::Duration;

/// What of the history is kept for its own sake, although the state does not need it.
///
/// History are the events whose every effect later ones have overwritten; state never goes, whatever is set. A limit says
/// how far history reaches at most: an event of it stays for as long as every limit that is given lets it. Where nothing is
/// set, none of it is kept. Limits are kept to when [compaction](crate::log::Log::compact()) comes by, not before, and count what
/// is written anew together: of a long log that is a stretch of it, up to 64 MiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Retention {
    /// All of it.
    KeepAll,
    /// Within these; a limit that is not given limits nothing.
    Limits {
        /// How old an event may be, by its writer's clock, against the newest event that was compacted with it.
        age: Option<Duration>,
        /// How many events of each task's or document's history.
        count: Option<u64>,
        /// How many bytes of log: a workspace's all together, but for those tasks that have a limit of their own; a task's its own.
        bytes: Option<u64>,
    },
}

impl Retention {
    /// The longest age there is, in µs; a longer one is as good as none.
    pub(super) fn age_micros(age: Duration) -> u64 {
        u64::try_from(age.as_micros()).unwrap_or(u64::MAX)
    }

    /// Brings what was put together by hand into the form in which others will read it: whole microseconds.
    #[must_use]
    pub fn settled(self) -> Self {
        match self {
            Retention::KeepAll => Retention::KeepAll,
            Retention::Limits { age, count, bytes } => {
                let age = age.map(|age| Duration::from_micros(Retention::age_micros(age)));
                Retention::Limits { age, count, bytes }
            }
        }
    }
}
