//! Where a workspace's files are. `format-spec/format.md`, section *Files*.

use std::path::{Path, PathBuf};

use super::blobs::BlobId;
use super::segment::SegmentName;

/// The folder of one workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paths(PathBuf);

macro_rules! paths {
    ($($method:ident = $name:literal $doc:literal;)+) => {$(
        #[doc = $doc]
        pub fn $method(&self) -> PathBuf {
            self.0.join($name)
        }
    )+};
}

impl Paths {
    /// The folder itself is given.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Paths(dir.into())
    }

    /// The folder itself.
    pub fn dir(&self) -> &Path {
        &self.0
    }

    paths! {
        meta = "META" "Identity and bindings.";
        lock = "LOCK" "The write lock's target.";
        sync0 = "SYNC0" "The first sync lane's lock target.";
        sync1 = "SYNC1" "The second sync lane's lock target.";
        compact = "COMPACT" "Lock target of whoever rewrites segments.";
        control = "control" "The control block.";
        log = "log" "The folder of segments.";
        snapshots = "snapshots" "The folder of snapshots; made with the first.";
        blobs = "blobs" "The folder of blobs, which has a folder for each first byte of their names.";
        quarantine = "quarantine" "The folder of bytes set aside.";
        poison = "POISON" "There only after a failed sync.";
    }

    /// A blob's file.
    pub fn blob(&self, id: &BlobId) -> PathBuf {
        self.blobs().join(format!("{:02x}", id.first())).join(id.to_string())
    }

    /// A segment's file.
    pub fn segment(&self, name: &SegmentName) -> PathBuf {
        self.log().join(name.to_string())
    }
}
