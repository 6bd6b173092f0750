//! Windows 10 and later.
//!
//! | question | answer |
//! | --- | --- |
//! | lock | `LockFileEx` on all offsets, through fs4; binding for reads and writes of others too, so never on data |
//! | share mode | everybody shares read, write and delete; [`Open::Lock`] alone doesn't share delete |
//! | rename over an open file | works if all openers share delete (rust-lang/rust#131072); Wine refuses |
//! | virus scanners and indexers | hold files for moments: errors 5, 32 and 303 are tried again, 50 ms in all |
//! | delete of an open file | its name may stay until the last handle is closed; `links` is 0 at once |
//! | folder sync | nothing: NTFS journals names, and there is no handle to flush them by |
//! | boot id | none: the system has no identity that surely changes with each boot |
//!
//! Paths from `canonicalize` are verbatim (`\\?\C:\…`), as the system gives them.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::windows::ffi::OsStrExt;
use std::os::windows::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::os::windows::io::AsRawHandle;
use std::path::{Component, Path, Prefix};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use windows_sys::Win32::Foundation::{
    ERROR_ACCESS_DENIED, ERROR_DELETE_PENDING, ERROR_SHARING_VIOLATION, ERROR_WRITE_PROTECT,
};
use windows_sys::Win32::Storage::FileSystem::{
    BY_HANDLE_FILE_INFORMATION, FILE_APPEND_DATA, FILE_ATTRIBUTE_REPARSE_POINT, FILE_FLAG_BACKUP_SEMANTICS,
    FILE_FLAG_OPEN_REPARSE_POINT, FILE_ID_INFO, FILE_INFO_BY_HANDLE_CLASS, FILE_READ_ATTRIBUTES,
    FILE_SHARE_DELETE, FILE_SHARE_READ, FILE_SHARE_WRITE, FILE_STANDARD_INFO, FILE_TYPE_DISK, FileIdInfo,
    FileStandardInfo, GetDriveTypeW, GetFileInformationByHandle, GetFileInformationByHandleEx, GetFileType,
    GetVolumeInformationW, GetVolumePathNameW, MoveFileExW, SYNCHRONIZE,
};

use super::mapped::MappedBytes;
use super::words::MappedWords;
use super::{file_kind, not_for_locking, not_regular};
use crate::vfs::{FileId, FileKind, FileSystem, Mapped, Open, Stat, VfsFile, Words, not_opened_so};

/// What the system needs time for: 50 ms in all.
const PAUSES_MS: [u64; 6] = [1, 2, 4, 8, 15, 20];

/// `DRIVE_REMOTE` of `GetDriveTypeW`.
const DRIVE_REMOTE: u32 = 4;

/// An open file.
#[derive(Debug)]
pub(super) struct WindowsFile {
    file: File,
    /// Its volume, as it was at open: it can't change, and Wine forgets it when the file is renamed.
    device: u64,
    is_lock: bool,
    /// Opened as [`Open::InUse`].
    shares: bool,
    /// Whether it may be mapped for writing.
    writable: bool,
    /// Opened as [`Open::Append`]; the system refuses everything else on such a handle by itself.
    appends: bool,
    held: AtomicBool,
}

impl Drop for WindowsFile {
    fn drop(&mut self) {
        if self.held.load(Ordering::Relaxed) {
            // A caller that was unwound. Windows frees the locks of a closed handle when it finds the time; nobody is
            // there to hear of an error.
            let _unlocked = super::unlock(&self.file);
        }
    }
}

impl VfsFile for WindowsFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.seek_read(buf, offset)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        // An offset is ignored where only appending is allowed.
        if self.appends { Err(not_opened_so()) } else { self.file.seek_write(buf, offset) }
    }

    fn append(&self, buf: &[u8]) -> io::Result<usize> {
        if self.appends { (&self.file).write(buf) } else { Err(not_opened_so()) }
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        if self.appends { Err(not_opened_so()) } else { self.file.set_len(len) }
    }

    fn sync_data(&self) -> io::Result<()> {
        if self.appends { Err(not_opened_so()) } else { self.file.sync_data() }
    }

    fn stat(&self) -> io::Result<Stat> {
        let mut stat = stat_of(&self.file, FileKind::File, false)?;
        stat.id.device = self.device;
        Ok(stat)
    }

    fn try_lock(&self) -> io::Result<bool> {
        if !self.is_lock {
            return Err(not_for_locking());
        }
        let taken =
            if self.shares { super::try_lock_shared(&self.file)? } else { super::try_lock(&self.file)? };
        if taken {
            self.held.store(true, Ordering::Relaxed);
        }
        Ok(taken)
    }

    fn unlock(&self) -> io::Result<()> {
        if !self.is_lock {
            return Err(not_for_locking());
        }
        super::unlock(&self.file)?;
        self.held.store(false, Ordering::Relaxed);
        Ok(())
    }

    fn map(&self, len: usize) -> io::Result<Box<dyn Words>> {
        Ok(Box::new(MappedWords::of(&self.file, len, self.writable, identity(&self.file)?)?))
    }

    fn map_bytes(&self) -> io::Result<Box<dyn Mapped>> {
        Ok(Box::new(MappedBytes::of(&self.file)?))
    }
}

/// Tries again what somebody else's passing handle may have refused.
fn with_patience<T>(mut act: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    for pause in PAUSES_MS {
        match act() {
            Err(e) if is_passing(&e) => std::thread::sleep(Duration::from_millis(pause)),
            done => return done,
        }
    }
    act()
}

fn is_passing(error: &io::Error) -> bool {
    let passing = [ERROR_ACCESS_DENIED, ERROR_SHARING_VIOLATION, ERROR_DELETE_PENDING];
    passing.iter().any(|&code| is(error, code))
}

fn is(error: &io::Error, code: u32) -> bool {
    error.raw_os_error() == Some(code.cast_signed())
}

pub(super) fn open(path: &Path, how: Open) -> io::Result<WindowsFile> {
    let file = with_patience(|| match open_once(path, how, true) {
        // Looking at sessions on read-only media or of other users: LockFileEx is content with a handle for reading.
        Err(e) if how == Open::ProbeLock && (is(&e, ERROR_WRITE_PROTECT) || is(&e, ERROR_ACCESS_DENIED)) => {
            open_once(path, how, false).map_err(|_| e)
        }
        opened => opened,
    })?;
    let device = identity(&file)?.device;
    let (is_lock, appends) = (how.is_lock(), how == Open::Append);
    let writable = matches!(how, Open::Write | Open::Create);
    let shares = how == Open::InUse;
    Ok(WindowsFile { file, device, is_lock, shares, writable, appends, held: AtomicBool::new(false) })
}

fn open_once(path: &Path, how: Open, writing: bool) -> io::Result<File> {
    let shared = FILE_SHARE_READ | FILE_SHARE_WRITE;
    let mut options = OpenOptions::new();
    options
        .read(true)
        .write(writing && !matches!(how, Open::Read | Open::InUse))
        .create_new(matches!(how, Open::Create | Open::CreateLock))
        .share_mode(if how == Open::Lock { shared } else { shared | FILE_SHARE_DELETE })
        .custom_flags(FILE_FLAG_OPEN_REPARSE_POINT);
    if how == Open::Append {
        options.access_mode(FILE_APPEND_DATA | FILE_READ_ATTRIBUTES | SYNCHRONIZE);
    }
    let file = match options.open(path) {
        Ok(file) => file,
        // A folder says "access denied"; waiting would not change that.
        Err(e)
            if is(&e, ERROR_ACCESS_DENIED) && std::fs::symlink_metadata(path).is_ok_and(|m| m.is_dir()) =>
        {
            return Err(not_regular("folder"));
        }
        Err(e) => return Err(e),
    };
    #[expect(unsafe_code, reason = "std does not tell a device from a file")]
    // SAFETY: the handle is open as long as `file` is.
    if unsafe { GetFileType(file.as_raw_handle()) } != FILE_TYPE_DISK {
        return Err(not_regular("device or pipe"));
    }
    let found = file.metadata()?;
    match file_kind(found.file_type()) {
        FileKind::Symlink => Err(not_regular("symbolic link or junction")),
        FileKind::Dir => Err(not_regular("folder")),
        // Contents that a filter keeps elsewhere (deduplicated, in a cloud): not a link; opened again to get at them.
        _ if found.file_attributes() & FILE_ATTRIBUTE_REPARSE_POINT != 0 => {
            let behind = options.create_new(false).custom_flags(0).open(path)?;
            if identity(&behind)? != identity(&file)? {
                return Err(not_regular("reparse point that leads elsewhere"));
            }
            Ok(behind)
        }
        _ => Ok(file),
    }
}

/// What `GetFileInformationByHandleEx` fills in, with its class.
trait Answer: Default {
    const CLASS: FILE_INFO_BY_HANDLE_CLASS;
}

impl Answer for FILE_ID_INFO {
    const CLASS: FILE_INFO_BY_HANDLE_CLASS = FileIdInfo;
}

impl Answer for FILE_STANDARD_INFO {
    const CLASS: FILE_INFO_BY_HANDLE_CLASS = FileStandardInfo;
}

fn ask<T: Answer>(file: &File) -> io::Result<T> {
    let mut answer = T::default();
    let size = u32::try_from(size_of::<T>()).map_err(io::Error::other)?;
    #[expect(unsafe_code, reason = "std keeps file ids to itself")]
    // SAFETY: the handle is open as long as `file` is; `answer` has `size` bytes and is the plain structure that
    // belongs to its class (the two `impl`s above).
    let ok = unsafe {
        GetFileInformationByHandleEx(file.as_raw_handle(), T::CLASS, (&raw mut answer).cast(), size)
    };
    if ok == 0 { Err(io::Error::last_os_error()) } else { Ok(answer) }
}

pub(super) fn identity(file: &File) -> io::Result<FileId> {
    if let Ok(id) = ask::<FILE_ID_INFO>(file) {
        let inode = u128::from_le_bytes(id.FileId.Identifier);
        return Ok(FileId { device: id.VolumeSerialNumber, inode });
    }
    // Wine and FAT have 64-bit ids only.
    let mut info = BY_HANDLE_FILE_INFORMATION::default();
    #[expect(unsafe_code, reason = "std keeps file ids to itself")]
    // SAFETY: the handle is open as long as `file` is, and `info` is the structure the call fills in.
    let ok = unsafe { GetFileInformationByHandle(file.as_raw_handle(), &raw mut info) };
    if ok == 0 {
        return Err(io::Error::last_os_error());
    }
    let inode = u128::from(info.nFileIndexHigh) << 32 | u128::from(info.nFileIndexLow);
    Ok(FileId { device: u64::from(info.dwVolumeSerialNumber), inode })
}

fn stat_of(file: &File, kind: FileKind, read_only: bool) -> io::Result<Stat> {
    let found = ask::<FILE_STANDARD_INFO>(file)?;
    // A name that goes with the last handle is gone as far as anybody else is concerned. (NTFS has counted it off
    // already, FAT has not.)
    let links = u64::from(found.NumberOfLinks).saturating_sub(u64::from(found.DeletePending));
    let len = u64::try_from(found.EndOfFile).unwrap_or_default();
    Ok(Stat { id: identity(file)?, links, len, kind, read_only })
}

pub(super) fn stat(path: &Path) -> io::Result<Stat> {
    with_patience(|| {
        // Asking for attributes alone conflicts with nobody's share mode; the flags are for folders and for links.
        let file = OpenOptions::new()
            .access_mode(FILE_READ_ATTRIBUTES)
            .share_mode(FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE)
            .custom_flags(FILE_FLAG_BACKUP_SEMANTICS | FILE_FLAG_OPEN_REPARSE_POINT)
            .open(path)?;
        let found = file.metadata()?;
        stat_of(&file, file_kind(found.file_type()), found.permissions().readonly())
    })
}

pub(super) fn create_dir(path: &Path) -> io::Result<()> {
    with_patience(|| std::fs::create_dir(path))
}

pub(super) fn remove_dir(path: &Path) -> io::Result<()> {
    with_patience(|| std::fs::remove_dir(path))
}

pub(super) fn link(from: &Path, to: &Path) -> io::Result<()> {
    with_patience(|| std::fs::hard_link(from, to))
}

pub(super) fn unlink(path: &Path) -> io::Result<()> {
    with_patience(|| std::fs::remove_file(path))
}

/// `MoveFileExW`, and where that is denied a POSIX rename, which replaces files that are open (std does both).
pub(super) fn rename_replacing(from: &Path, to: &Path) -> io::Result<()> {
    with_patience(|| std::fs::rename(from, to))
}

pub(super) fn rename_keeping(from: &Path, to: &Path) -> io::Result<()> {
    let (from, to) = (wide(from)?, wide(to)?);
    with_patience(|| {
        #[expect(unsafe_code, reason = "std's rename always replaces")]
        // SAFETY: both are strings of 16-bit units that end in a zero.
        let ok = unsafe { MoveFileExW(from.as_ptr(), to.as_ptr(), 0) };
        if ok == 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    })
}

/// A path as the system's calls take it. Long ones are made verbatim, as std does for its own calls.
fn wide(path: &Path) -> io::Result<Vec<u16>> {
    const LONG: usize = 248;
    let mut units: Vec<u16> = path.as_os_str().encode_wide().collect();
    if units.len() >= LONG {
        let whole = std::path::absolute(path)?;
        let text: Vec<u16> = whole.as_os_str().encode_wide().collect();
        let (head, skipped) = match whole.components().next() {
            Some(Component::Prefix(p)) if matches!(p.kind(), Prefix::Disk(_)) => (r"\\?\", 0),
            Some(Component::Prefix(p)) if matches!(p.kind(), Prefix::UNC(..)) => (r"\\?\UNC\", 2),
            _ => ("", 0),
        };
        units = head.encode_utf16().chain(text.into_iter().skip(skipped)).collect();
    }
    if units.contains(&0) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "a path with a zero in it"));
    }
    units.push(0);
    Ok(units)
}

/// A file that is renamed into a folder keeps the rights it was made with, and those come from the same folder.
#[expect(clippy::unnecessary_wraps, reason = "as on the other systems")]
pub(super) fn keep_access(_: &Path, _: &Path) -> io::Result<()> {
    Ok(())
}

/// Nothing to do, but a folder that isn't there is told, as elsewhere.
pub(super) fn sync_dir(dir: &Path) -> io::Result<()> {
    match stat(dir)?.kind {
        FileKind::Dir => Ok(()),
        _ => Err(io::ErrorKind::NotADirectory.into()),
    }
}

pub(super) fn file_system(path: &Path) -> io::Result<FileSystem> {
    let whole = std::fs::canonicalize(path)?;
    let network = matches!(whole.components().next(), Some(Component::Prefix(p))
        if matches!(p.kind(), Prefix::UNC(..) | Prefix::VerbatimUNC(..)));
    let root = volume_root(&whole)?;
    let name = volume_name(&root);
    #[expect(unsafe_code, reason = "not in std")]
    // SAFETY: `root` ends in a zero.
    let remote = unsafe { GetDriveTypeW(root.as_ptr()) } == DRIVE_REMOTE;
    Ok(match name {
        name if network || remote => FileSystem::Shared(name.unwrap_or_else(|_| "network".to_owned())),
        Ok(name) => super::classify(name),
        Err(e) => return Err(e),
    })
}

/// Where the volume of a path is mounted (`C:\`, a folder, `\\server\share\`), ending in a zero.
fn volume_root(path: &Path) -> io::Result<Vec<u16>> {
    let path = wide(path)?;
    let mut root = vec![0u16; path.len() + 8];
    let size = u32::try_from(root.len()).map_err(io::Error::other)?;
    #[expect(unsafe_code, reason = "not in std")]
    // SAFETY: `path` ends in a zero; `root` has the `size` units that the call may write.
    let ok = unsafe { GetVolumePathNameW(path.as_ptr(), root.as_mut_ptr(), size) };
    if ok == 0 { Err(io::Error::last_os_error()) } else { Ok(root) }
}

/// The name of a volume's file system, in lower case.
fn volume_name(root: &[u16]) -> io::Result<String> {
    let mut name = [0u16; 64];
    #[expect(unsafe_code, reason = "not in std")]
    // SAFETY: `root` ends in a zero; `name` has 64 units; everything else is declined by null.
    let ok = unsafe {
        GetVolumeInformationW(
            root.as_ptr(),
            std::ptr::null_mut(),
            0,
            std::ptr::null_mut(),
            std::ptr::null_mut(),
            std::ptr::null_mut(),
            name.as_mut_ptr(),
            64,
        )
    };
    if ok == 0 {
        return Err(io::Error::last_os_error());
    }
    let units: Vec<u16> = name.iter().copied().take_while(|&u| u != 0).collect();
    Ok(String::from_utf16_lossy(&units).to_ascii_lowercase())
}

pub(super) fn monotonic() -> Duration {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed()
}

pub(super) fn monotonic_coarse() -> Duration {
    monotonic()
}

pub(super) fn boot_id() -> Option<u128> {
    None
}

/// There is no fork.
pub(super) fn forks() -> u64 {
    0
}
