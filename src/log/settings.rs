//! How a log is to be opened.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::control::Mapping;
use super::finding::Finding;
use super::fold::FoldKind;
use super::housekeeping::Housekeeping;
use super::keep::KeepLock;
use super::state::Vocabulary;

/// What to do where acknowledged data is damaged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Recovery {
    /// Do not open.
    Strict,
    /// Open read-only, up to the damage.
    #[default]
    Default,
    /// Open read-only, with everything that still checks behind the damage.
    Salvage,
}

/// A callback that is told of findings. Never called under a lock of the engine.
pub type OnEvent = Arc<dyn Fn(&Finding) + Send + Sync>;

/// How a log is to be opened.
#[derive(Clone)]
pub struct Settings {
    /// How long a commit waits for LOCK.
    pub lock_timeout: Duration,
    /// At which length a segment is sealed.
    pub segment_size: u64,
    /// The event kinds the program understands.
    pub vocabulary: Vocabulary,
    /// What it makes of them.
    pub fold: Option<FoldKind>,
    /// What to do about damage.
    pub recovery: Recovery,
    /// Who is told of findings.
    pub on_event: Option<OnEvent>,
    /// Whether the process may have the housekeeping thread.
    pub housekeeping: Housekeeping,
    /// How the control block is shared.
    pub mapping: Mapping,
    /// Whether LOCK may be kept between two commits.
    pub keep_lock: KeepLock,
    /// Whether it writes zeros ahead, so that its syncs are cheaper.
    pub reserve: bool,
    /// How many bytes of the log must be new before a snapshot is written by itself; `u64::MAX` = never.
    pub snapshot_after: u64,
}

impl Settings {
    /// Whether snapshots can have what is folded.
    pub(super) fn can_be_saved(&self) -> bool {
        self.fold.is_none_or(|fold| fold.version() > 0)
    }
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            lock_timeout: Duration::from_secs(10),
            segment_size: super::format::SEGMENT_SIZE,
            vocabulary: Vocabulary::default(),
            fold: None,
            recovery: Recovery::Default,
            on_event: None,
            housekeeping: Housekeeping::Thread,
            mapping: Mapping::Auto,
            keep_lock: KeepLock::InBursts,
            reserve: true,
            snapshot_after: super::format::SNAPSHOT_AFTER,
        }
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("lock_timeout", &self.lock_timeout)
            .field("segment_size", &self.segment_size)
            .field("fold", &self.fold)
            .field("recovery", &self.recovery)
            .field("reserve", &self.reserve)
            .field("snapshot_after", &self.snapshot_after)
            .finish_non_exhaustive()
    }
}
