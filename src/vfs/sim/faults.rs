//! Calls: what they are named in traces, records and fault scripts; and what may go wrong with them.

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::path::{MAIN_SEPARATOR, Path, PathBuf};
use std::sync::Arc;

/// What kind of call. Clocks, randomness and identity are no calls: they never fail, wait or count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Op {
    /// [`Vfs::open`](crate::vfs::Vfs::open) of a file that exists.
    Open,
    /// [`Vfs::open`](crate::vfs::Vfs::open) that makes a new file.
    Create,
    /// [`Vfs::create_dir`](crate::vfs::Vfs::create_dir).
    CreateDir,
    /// [`Vfs::remove_dir`](crate::vfs::Vfs::remove_dir).
    RemoveDir,
    /// [`Vfs::rename`](crate::vfs::Vfs::rename).
    Rename,
    /// [`Vfs::link`](crate::vfs::Vfs::link).
    Link,
    /// [`Vfs::unlink`](crate::vfs::Vfs::unlink).
    Unlink,
    /// [`Vfs::list`](crate::vfs::Vfs::list).
    List,
    /// [`Vfs::stat`](crate::vfs::Vfs::stat) and [`VfsFile::stat`](crate::vfs::VfsFile::stat).
    Stat,
    /// [`Vfs::keep_access`](crate::vfs::Vfs::keep_access). Survives a power cut at once.
    Access,
    /// [`Vfs::sync_dir`](crate::vfs::Vfs::sync_dir).
    SyncDir,
    /// [`Vfs::canonicalize`](crate::vfs::Vfs::canonicalize) and [`Vfs::file_system`](crate::vfs::Vfs::file_system).
    Resolve,
    /// [`VfsFile::read_at`](crate::vfs::VfsFile::read_at).
    Read,
    /// [`VfsFile::write_at`](crate::vfs::VfsFile::write_at).
    Write,
    /// [`VfsFile::append`](crate::vfs::VfsFile::append).
    Append,
    /// [`VfsFile::set_len`](crate::vfs::VfsFile::set_len).
    SetLen,
    /// [`VfsFile::sync_data`](crate::vfs::VfsFile::sync_data).
    Sync,
    /// [`VfsFile::try_lock`](crate::vfs::VfsFile::try_lock).
    Lock,
    /// [`VfsFile::unlock`](crate::vfs::VfsFile::unlock).
    Unlock,
    /// [`VfsFile::map`](crate::vfs::VfsFile::map).
    Map,
    /// [`Words::load`](crate::vfs::Words::load) of a mapped word.
    Load,
    /// [`Words::store`](crate::vfs::Words::store) or [`Words::raise`](crate::vfs::Words::raise). Reaches the disk at
    /// any time or never.
    Store,
    /// [`Words::wake`](crate::vfs::Words::wake).
    Wake,
    /// [`Vfs::sleep`](crate::vfs::Vfs::sleep) and [`Words::wait`](crate::vfs::Words::wait).
    Sleep,
}

impl Op {
    /// Whether it may change what a power cut leaves.
    pub fn mutates(self) -> bool {
        use Op::{Append, Create, CreateDir, Link, RemoveDir, Rename, SetLen, Sync, SyncDir, Unlink, Write};
        matches!(
            self,
            Append
                | Create
                | CreateDir
                | RemoveDir
                | Rename
                | Link
                | Unlink
                | SyncDir
                | Write
                | SetLen
                | Sync
        )
    }
}

/// One call, as traces and records show it.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Call {
    /// Label of the calling process.
    pub process: Arc<str>,
    /// What it did.
    pub op: Op,
    /// The path it named, or by which the file was opened. Empty for [`Op::Sleep`].
    pub path: PathBuf,
    /// The new name, for [`Op::Rename`] and [`Op::Link`].
    pub to: Option<PathBuf>,
    /// The offset of a read or write; the new length of [`Op::SetLen`]; the microseconds of [`Op::Sleep`].
    pub offset: u64,
    /// How many bytes were to be read, written or appended.
    pub len: usize,
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {:?} {}", self.process, self.op, self.path.display())?;
        match (self.op, &self.to) {
            (_, Some(to)) => write!(f, " -> {}", to.display()),
            (Op::Read | Op::Write, _) => write!(f, " [{}, +{}]", self.offset, self.len),
            (Op::Append, _) => write!(f, " [end, +{}]", self.len),
            (Op::SetLen | Op::Sleep, _) => write!(f, " {}", self.offset),
            _ => Ok(()),
        }
    }
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

/// A call while it is made.
#[derive(Clone, Copy)]
pub(crate) struct Act<'a> {
    pub(crate) op: Op,
    pub(crate) path: &'a Path,
    pub(crate) to: Option<&'a Path>,
    pub(crate) offset: u64,
    pub(crate) len: usize,
}

impl<'a> Act<'a> {
    pub(crate) fn on(op: Op, path: &'a Path) -> Self {
        Act { op, path, to: None, offset: 0, len: 0 }
    }

    pub(crate) fn owned(&self, process: &Arc<str>) -> Call {
        Call {
            process: Arc::clone(process),
            op: self.op,
            path: PathBuf::from(&*slashed(self.path)),
            to: self.to.map(|to| PathBuf::from(&*slashed(to))),
            offset: self.offset,
            len: self.len,
        }
    }
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The call does nothing and fails so.
    Fail(io::ErrorKind),
    /// The call does nothing and fails with an input/output error that has no kind of its own (`EIO`).
    Eio,
    /// The call does what it should and fails nevertheless, as a lost answer would look.
    DoneButFails,
    /// A read, write or append stops after this many bytes and says so; other calls are not touched.
    Short(usize),
    /// A sync fails, and the dirty pages are clean from now on without being on the disk: everybody still reads them
    /// until [`evict`](super::SimMachine::evict), and later syncs succeed without writing them.
    ///
    /// On [`Profile::Linux`](super::Profile::Linux) every other descriptor that is open now fails once, at its next
    /// sync; a descriptor opened later, and anybody on another platform, never hears of it.
    DropsPages,
    /// A sync or a folder sync succeeds and does nothing, as a lying drive does.
    Lies,
}

/// Which calls go wrong, and how.
///
/// ```
/// use foldlog::vfs::sim::{Effect, Fault, Op};
/// let third_write_is_short = Fault::on(Op::Write, Effect::Short(10)).path(".seg").nth(3);
/// let no_sync_works = Fault::on(Op::Sync, Effect::Eio).always();
/// ```
#[derive(Clone, Debug)]
pub struct Fault {
    op: Op,
    effect: Effect,
    path: String,
    process: Option<String>,
    covering: Option<u64>,
    skip: u64,
    times: u64,
    deadly: bool,
}

impl Fault {
    /// The next call of this kind goes wrong in this way, once.
    pub fn on(op: Op, effect: Effect) -> Self {
        Fault {
            op,
            effect,
            path: String::new(),
            process: None,
            covering: None,
            skip: 0,
            times: 1,
            deadly: false,
        }
    }

    /// Only calls on paths that contain this. Separators are slashes, whatever system the simulator runs on.
    #[must_use]
    pub fn path(self, part: impl Into<String>) -> Self {
        Fault { path: slashed(Path::new(&part.into())).into_owned(), ..self }
    }

    /// Only calls of the process with this label.
    #[must_use]
    pub fn process(self, label: impl Into<String>) -> Self {
        Fault { process: Some(label.into()), ..self }
    }

    /// Only reads and writes that cover this offset.
    #[must_use]
    pub fn covering(self, offset: u64) -> Self {
        Fault { covering: Some(offset), ..self }
    }

    /// Not the first matching call but the `n`-th, counting from 1.
    #[must_use]
    pub fn nth(self, n: u64) -> Self {
        Fault { skip: n.saturating_sub(1), ..self }
    }

    /// This many matching calls one after the other.
    #[must_use]
    pub fn times(self, times: u64) -> Self {
        Fault { times, ..self }
    }

    /// Every matching call, until [`clear_faults`](super::SimMachine::clear_faults).
    #[must_use]
    pub fn always(self) -> Self {
        self.times(u64::MAX)
    }

    /// The caller is killed within the call, so that it alone, if anybody, would have been told.
    #[must_use]
    pub fn deadly(self) -> Self {
        Fault { deadly: true, ..self }
    }

    fn matches(&self, act: &Act<'_>, process: &str) -> bool {
        let covers = |at: u64| act.offset <= at && at - act.offset < act.len as u64;
        self.op == act.op
            && self.times > 0
            && self.process.as_deref().is_none_or(|p| p == process)
            && self.covering.is_none_or(covers)
            && (self.path.is_empty() || slashed(act.path).contains(&self.path))
    }

    /// Counts the call; says whether it is hit, and whether the caller is killed.
    pub(crate) fn strike(&mut self, act: &Act<'_>, process: &str) -> Option<(Effect, bool)> {
        if !self.matches(act, process) {
            return None;
        }
        if self.skip > 0 {
            self.skip -= 1;
            return None;
        }
        if self.times != u64::MAX {
            self.times -= 1;
        }
        Some((self.effect, self.deadly))
    }
}

pub(crate) fn eio() -> io::Error {
    io::Error::other("input/output error (simulated)")
}

/// A path as everything in the simulator names it, with slashes, on whatever system it runs.
fn slashed(path: &Path) -> Cow<'_, str> {
    let text = path.to_string_lossy();
    if MAIN_SEPARATOR == '/' { text } else { Cow::Owned(text.replace(MAIN_SEPARATOR, "/")) }
}
