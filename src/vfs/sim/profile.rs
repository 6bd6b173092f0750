//! What the simulated system promises: which platform's rules hold, and what a power cut may leave.

/// Whose rules the machine follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// Names are unrelated to open handles; names are durable by `sync_dir`; a failed sync is reported once to every
    /// descriptor that was open when it failed.
    Linux,
    /// As Linux, but a failed sync is reported to one caller only.
    Mac,
    /// The strict reading of the Windows rules, as Wine has them:
    ///
    /// - renaming *over* a file that anybody has open is refused;
    /// - renaming or removing a file that is open as [`Open::Lock`](crate::vfs::Open::Lock) is refused;
    /// - removing any other open file leaves its name, which nobody can open or create anew, until the last close;
    /// - renaming a folder below which anything is open is refused;
    /// - a locked file can be read and written through the locking handle only, and the same handle cannot lock twice;
    /// - `sync_dir` does nothing: names go through one ordered journal, and any `sync_data` flushes all of it.
    ///
    /// All refusals are [`PermissionDenied`](std::io::ErrorKind::PermissionDenied).
    Windows,
}

impl Profile {
    /// The worst that a power cut may do on this platform, short of torn sectors.
    pub fn crash_model(self) -> CrashModel {
        let names = match self {
            Profile::Linux | Profile::Mac => NameOrder::Any,
            Profile::Windows => NameOrder::Journal,
        };
        CrashModel { piece: Piece::B512, names, fill: Fill::Nul, torn: Torn::Never }
    }

    pub(crate) fn is_windows(self) -> bool {
        self == Profile::Windows
    }

    pub(crate) fn file_system(self) -> &'static str {
        match self {
            Profile::Linux => "ext4",
            Profile::Mac => "apfs",
            Profile::Windows => "ntfs",
        }
    }
}

/// The unit in which file contents reach the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Single sectors of 512 bytes: the adversary.
    B512,
    /// Whole pages of 4,096 bytes, as a page cache writes them: fewer states.
    Page4K,
}

impl Piece {
    /// Its size in bytes.
    pub fn size(self) -> usize {
        match self {
            Piece::B512 => 512,
            Piece::Page4K => 4096,
        }
    }
}

/// Which of the un-synced operations on names may survive without which others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameOrder {
    /// One journal for the whole file system: a prefix of all operations (NTFS).
    Journal,
    /// A prefix of each folder's operations (close to ext4).
    Folder,
    /// Any subset in which every name's own history is a prefix: the adversary.
    Any,
}

/// What the never-written part of a file that has grown reads as after a power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fill {
    /// Zero bytes.
    Nul,
    /// Whatever the disk held there before.
    Garbage,
}

/// Whether a piece may be half written when the power goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Torn {
    /// Pieces are atomic.
    Never,
    /// A prefix of the newer contents over the older ones, cut at a multiple of 8 bytes.
    Words,
    /// The same, cut at a multiple of 512 bytes; says something for [`Piece::Page4K`] only.
    Sectors,
}

impl Torn {
    pub(crate) fn step(self) -> Option<usize> {
        match self {
            Torn::Never => None,
            Torn::Words => Some(8),
            Torn::Sectors => Some(512),
        }
    }
}

/// What a power cut may leave; see [`DiskState::crash_states_with`](super::DiskState::crash_states_with).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CrashModel {
    /// The unit of contents.
    pub piece: Piece,
    /// The freedom of names.
    pub names: NameOrder,
    /// What grown, never-written parts read as.
    pub fill: Fill,
    /// Half-written pieces.
    pub torn: Torn,
}

impl CrashModel {
    /// Everything allowed at once: sectors torn at words, garbage in grown parts, names in any order.
    pub fn adversarial() -> Self {
        CrashModel { piece: Piece::B512, names: NameOrder::Any, fill: Fill::Garbage, torn: Torn::Words }
    }

    /// The same model with another unit.
    #[must_use]
    pub fn with_piece(self, piece: Piece) -> Self {
        CrashModel { piece, ..self }
    }

    /// The same model with another order of names.
    #[must_use]
    pub fn with_names(self, names: NameOrder) -> Self {
        CrashModel { names, ..self }
    }

    /// The same model with another fill.
    #[must_use]
    pub fn with_fill(self, fill: Fill) -> Self {
        CrashModel { fill, ..self }
    }

    /// The same model with or without half-written pieces.
    #[must_use]
    pub fn with_torn(self, torn: Torn) -> Self {
        CrashModel { torn, ..self }
    }
}
