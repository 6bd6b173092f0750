//! Linux and macOS.
//!
//! | question | answer |
//! | --- | --- |
//! | lock | `flock` on the whole file, through fs4; a second `open` conflicts, the same handle may lock twice |
//! | rename without replacing | `renameat2(RENAME_NOREPLACE)`, `renameatx_np(RENAME_EXCL)`; NFS and old kernels: see below |
//! | sync | `fdatasync`; macOS `F_FULLFSYNC`, where its file system has it |
//! | folder sync | `fsync` of the folder; file systems without it say `EINVAL` or `EBADF` and are believed |

use std::fs::File;
use std::io;
use std::os::fd::IntoRawFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

#[cfg(target_os = "linux")]
use rustix::fs::{AtFlags, StatxFlags};
use rustix::fs::{CWD, FileType, Mode, OFlags, RawMode, RenameFlags};
use rustix::io::{Errno, retry_on_intr};
use rustix::process::{Gid, Uid};

use super::mapped::MappedBytes;
use super::words::MappedWords;
use super::{fork, not_for_locking, not_regular, retry_interrupted};
use crate::vfs::{FileId, FileKind, FileSystem, Mapped, Open, Stat, VfsFile, Words, not_opened_so};

/// An open file. Lock files know where they stand in the table of [`fork`].
#[derive(Debug)]
pub(super) struct UnixFile {
    /// `None` only while it is dropped.
    file: Option<File>,
    lock: Option<Lock>,
    /// What `fstat` called its device; an open file never changes it.
    #[cfg(target_os = "linux")]
    device: u64,
    /// Opened as [`Open::Append`].
    appends: bool,
}

#[derive(Debug)]
struct Lock {
    registered: fork::Registered,
    /// Opened as [`Open::InUse`].
    shares: bool,
    held: AtomicBool,
}

impl UnixFile {
    #[cfg_attr(
        not(target_os = "linux"),
        expect(unused_variables, reason = "only `statx` does not say the device")
    )]
    fn opened(file: File, lock: Option<Lock>, device: u64, appends: bool) -> UnixFile {
        UnixFile {
            file: Some(file),
            lock,
            #[cfg(target_os = "linux")]
            device,
            appends,
        }
    }

    /// The file, unless a fork has closed it.
    pub(super) fn file(&self) -> io::Result<&File> {
        if self.lock.as_ref().is_some_and(|lock| !lock.registered.is_ours()) {
            return Err(closed_by_fork());
        }
        self.file.as_ref().ok_or_else(closed_by_fork)
    }

    /// The file, for anything but appending. Linux's `pwrite` ignores its offset on an `O_APPEND` descriptor, and
    /// `ftruncate` works on one.
    fn anywhere(&self) -> io::Result<&File> {
        if self.appends { Err(not_opened_so()) } else { self.file() }
    }

    fn lock(&self) -> io::Result<(&File, &Lock)> {
        Ok((self.file()?, self.lock.as_ref().ok_or_else(not_for_locking)?))
    }
}

fn closed_by_fork() -> io::Error {
    io::Error::other("opened before this process was forked off, and closed by that: open it again")
}

impl Drop for UnixFile {
    fn drop(&mut self) {
        let (Some(file), Some(lock)) = (self.file.take(), &self.lock) else { return };
        if !lock.registered.is_ours() {
            // The number may be somebody else's by now.
            let _closed = file.into_raw_fd();
            return;
        }
        if lock.held.load(Ordering::Relaxed) {
            // A caller that was unwound. Closing alone would leave the lock to any copy of the descriptor; there is
            // nobody to tell about an error, and closing follows.
            let _unlocked = super::unlock(&file);
        }
        lock.registered.leave();
    }
}

impl VfsFile for UnixFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let file = self.anywhere()?;
        Ok(retry_on_intr(|| rustix::io::pread(file, &mut *buf, offset))?)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        let file = self.anywhere()?;
        Ok(retry_on_intr(|| rustix::io::pwrite(file, buf, offset))?)
    }

    fn append(&self, buf: &[u8]) -> io::Result<usize> {
        if !self.appends {
            return Err(not_opened_so());
        }
        let file = self.file()?;
        Ok(retry_on_intr(|| rustix::io::write(file, buf))?)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let file = self.anywhere()?;
        retry_interrupted(|| file.set_len(len))
    }

    fn sync_data(&self) -> io::Result<()> {
        sync(self.anywhere()?, File::sync_data)
    }

    fn stat(&self) -> io::Result<Stat> {
        let file = self.file()?;
        #[cfg(target_os = "linux")]
        if self.lock.is_none()
            && let Some(stat) = stat_without_times(file, self.device)
        {
            return Ok(stat);
        }
        Ok(stat_of(&retry_on_intr(|| rustix::fs::fstat(file))?))
    }

    fn try_lock(&self) -> io::Result<bool> {
        let (file, lock) = self.lock()?;
        let taken = if lock.shares { super::try_lock_shared(file)? } else { super::try_lock(file)? };
        if taken {
            lock.held.store(true, Ordering::Relaxed);
        }
        Ok(taken)
    }

    fn unlock(&self) -> io::Result<()> {
        let (file, lock) = self.lock()?;
        super::unlock(file)?;
        lock.held.store(false, Ordering::Relaxed);
        Ok(())
    }

    fn map(&self, len: usize) -> io::Result<Box<dyn Words>> {
        let file = self.file()?;
        let writable = rustix::fs::fcntl_getfl(file)?.contains(OFlags::RDWR);
        Ok(Box::new(MappedWords::of(file, len, writable)?))
    }

    fn map_bytes(&self) -> io::Result<Box<dyn Mapped>> {
        Ok(Box::new(MappedBytes::of(self.file()?)?))
    }
}

/// Syncs as std does: on macOS by `F_FULLFSYNC`, else by plain `fsync` where a file system (SMB, some FUSE) lacks it.
fn sync(file: &File, how: impl Fn(&File) -> io::Result<()>) -> io::Result<()> {
    let done = retry_interrupted(|| how(file));
    #[cfg(target_vendor = "apple")]
    if done.as_ref().is_err_and(|e| matches!(e.raw_os_error(), Some(libc::ENOTSUP | libc::ENOTTY))) {
        return Ok(retry_on_intr(|| rustix::fs::fsync(file))?);
    }
    done
}

pub(super) fn open(path: &Path, how: Open) -> io::Result<UnixFile> {
    if !how.is_lock() {
        let (file, device) = open_once(path, how)?;
        return Ok(UnixFile::opened(file, None, device, how == Open::Append));
    }
    let mut made: Option<Stat> = None;
    let (file, registered) = fork::open_registered(|again| {
        // What the first call has created, a second one opens.
        let how = if again && how == Open::CreateLock { Open::ProbeLock } else { how };
        let (file, _) = open_once(path, how)?;
        let stat = stat_of(&retry_on_intr(|| rustix::fs::fstat(&file))?);
        if made.replace(stat).is_some_and(|before| before.id != stat.id) {
            return Err(io::Error::new(io::ErrorKind::NotFound, "replaced while it was opened"));
        }
        Ok(file)
    })?;
    let device = made.map_or(0, |stat| stat.id.device);
    let shares = how == Open::InUse;
    let lock = Some(Lock { registered, shares, held: AtomicBool::new(false) });
    Ok(UnixFile::opened(file, lock, device, false))
}

/// The file, and its device.
fn open_once(path: &Path, how: Open) -> io::Result<(File, u64)> {
    // NONBLOCK: opening a FIFO or a modem waits for the other side otherwise. It means nothing for regular files.
    let common = OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    let flags = match how {
        Open::Read | Open::InUse => OFlags::RDONLY,
        Open::Write | Open::Lock | Open::ProbeLock => OFlags::RDWR,
        Open::Append => OFlags::WRONLY | OFlags::APPEND,
        Open::Create | Open::CreateLock => OFlags::RDWR | OFlags::CREATE | OFlags::EXCL,
    };
    let open = |flags| retry_on_intr(|| rustix::fs::open(path, common | flags, Mode::RUSR | Mode::WUSR));
    let opened = match open(flags) {
        // Looking at sessions on read-only media: `flock` is content with a handle for reading.
        Err(Errno::ROFS | Errno::ACCESS) if how == Open::ProbeLock => open(OFlags::RDONLY),
        opened => opened,
    };
    let file = match opened {
        Ok(fd) => File::from(fd),
        // A symbolic link, a folder, a socket or a device without a driver: say which. If it is none of these, the
        // error is about something else, such as a loop of links on the way.
        Err(
            e @ (Errno::LOOP | Errno::MLINK | Errno::ISDIR | Errno::NXIO | Errno::NODEV | Errno::OPNOTSUPP),
        ) => {
            let found = retry_on_intr(|| rustix::fs::lstat(path)).map(|s| FileType::from_raw_mode(s.st_mode));
            return Err(match found {
                Ok(FileType::RegularFile) | Err(_) => e.into(),
                Ok(other) => not_regular(type_name(other)),
            });
        }
        Err(e) => return Err(e.into()),
    };
    #[cfg(target_os = "linux")]
    if let Ok(stat) = retry_on_intr(|| rustix::fs::statx(&file, c"", AtFlags::EMPTY_PATH, BUT_TIMES))
        && FileType::from_raw_mode(stat.stx_mode.into()) == FileType::RegularFile
    {
        // Without its times, as below: the control block is opened and written at every sync.
        return Ok((file, rustix::fs::makedev(stat.stx_dev_major, stat.stx_dev_minor)));
    }
    let stat = retry_on_intr(|| rustix::fs::fstat(&file))?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok((file, stat_of(&stat).id.device)),
        other => Err(not_regular(type_name(other))),
    }
}

fn type_name(file_type: FileType) -> &'static str {
    match file_type {
        FileType::RegularFile => "regular file",
        FileType::Directory => "folder",
        FileType::Symlink => "symbolic link",
        FileType::Fifo => "FIFO",
        FileType::Socket => "socket",
        FileType::CharacterDevice => "character device",
        FileType::BlockDevice => "block device",
        _ => "unknown type",
    }
}

/// `fstat` but for the times. Linux gives a file a fine-grained time, and writes its inode, at the next write after
/// somebody has asked for its times; a log that is looked at before every append paid a third of the append for that.
/// `None` where the kernel has no such call.
#[cfg(target_os = "linux")]
fn stat_without_times(file: &File, device: u64) -> Option<Stat> {
    let stat = retry_on_intr(|| rustix::fs::statx(file, c"", AtFlags::EMPTY_PATH, BUT_TIMES)).ok()?;
    stat_of_statx(&stat, device)
}

/// What foldlog asks for.
#[cfg(target_os = "linux")]
const BUT_TIMES: StatxFlags = StatxFlags::TYPE
    .union(StatxFlags::MODE)
    .union(StatxFlags::INO)
    .union(StatxFlags::NLINK)
    .union(StatxFlags::SIZE);

#[cfg(target_os = "linux")]
fn stat_of_statx(stat: &rustix::fs::Statx, device: u64) -> Option<Stat> {
    StatxFlags::from_bits_retain(stat.stx_mask).contains(BUT_TIMES).then(|| Stat {
        id: FileId { device, inode: u128::from(stat.stx_ino) },
        links: stat.stx_nlink.into(),
        len: stat.stx_size,
        kind: kind_of(FileType::from_raw_mode(stat.stx_mode.into())),
        read_only: u32::from(stat.stx_mode) & WRITERS == 0,
    })
}

fn kind_of(file_type: FileType) -> FileKind {
    match file_type {
        FileType::RegularFile => FileKind::File,
        FileType::Directory => FileKind::Dir,
        FileType::Symlink => FileKind::Symlink,
        _ => FileKind::Other,
    }
}

#[allow(clippy::unnecessary_cast, reason = "the fields' types differ between systems")]
fn stat_of(stat: &rustix::fs::Stat) -> Stat {
    Stat {
        id: FileId { device: stat.st_dev as u64, inode: u128::from(stat.st_ino) },
        links: stat.st_nlink as u64,
        len: stat.st_size as u64,
        kind: kind_of(FileType::from_raw_mode(stat.st_mode)),
        read_only: stat.st_mode as u32 & WRITERS == 0,
    }
}

pub(super) fn stat(path: &Path) -> io::Result<Stat> {
    #[cfg(target_os = "linux")]
    match retry_on_intr(|| rustix::fs::statx(CWD, path, AtFlags::SYMLINK_NOFOLLOW, BUT_TIMES)) {
        Ok(stat) => {
            let device = rustix::fs::makedev(stat.stx_dev_major, stat.stx_dev_minor);
            if let Some(stat) = stat_of_statx(&stat, device) {
                return Ok(stat);
            }
        }
        // No such call in this kernel, or a sandbox that does not know it.
        Err(Errno::NOSYS | Errno::PERM) => {}
        Err(e) => return Err(e.into()),
    }
    Ok(stat_of(&retry_on_intr(|| rustix::fs::lstat(path))?))
}

/// The permissions to write: of the owner, of the group, of others.
const WRITERS: u32 = 0o222;

/// The permissions that a file takes over. A group that is another one gets no more than everybody has: what was for the
/// first was not for it.
pub(super) fn rights(mode: RawMode, has_group: bool) -> RawMode {
    if has_group { mode } else { mode & !0o070 | mode & 0o070 & (mode & 0o007) << 3 }
}

pub(super) fn keep_access(of: &Path, on: &Path) -> io::Result<()> {
    let (was, is) = (retry_on_intr(|| rustix::fs::stat(of))?, retry_on_intr(|| rustix::fs::stat(on))?);
    let mut has_group = true;
    // Who is not root gives files to nobody, and to groups of their own only.
    if (was.st_uid, was.st_gid) != (is.st_uid, is.st_gid) {
        let (user, group) = (Uid::from_raw(was.st_uid), Gid::from_raw(was.st_gid));
        let both = retry_on_intr(|| rustix::fs::chown(on, Some(user), Some(group)));
        match both.or_else(|_| retry_on_intr(|| rustix::fs::chown(on, None, Some(group)))) {
            Ok(()) => {}
            Err(Errno::PERM | Errno::ACCESS | Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                has_group = was.st_gid == is.st_gid;
            }
            Err(e) => return Err(e.into()),
        }
    }
    match retry_on_intr(|| rustix::fs::chmod(on, Mode::from_raw_mode(rights(was.st_mode & 0o777, has_group))))
    {
        // File systems without permissions (FAT, some FUSE).
        Err(Errno::PERM | Errno::NOSYS | Errno::OPNOTSUPP) => Ok(()),
        done => Ok(done?),
    }
}

pub(super) fn create_dir(path: &Path) -> io::Result<()> {
    Ok(retry_on_intr(|| rustix::fs::mkdir(path, Mode::RWXU))?)
}

pub(super) fn remove_dir(path: &Path) -> io::Result<()> {
    Ok(retry_on_intr(|| rustix::fs::rmdir(path))?)
}

pub(super) fn link(from: &Path, to: &Path) -> io::Result<()> {
    Ok(retry_on_intr(|| rustix::fs::link(from, to))?)
}

pub(super) fn unlink(path: &Path) -> io::Result<()> {
    Ok(retry_on_intr(|| rustix::fs::unlink(path))?)
}

pub(super) fn rename_replacing(from: &Path, to: &Path) -> io::Result<()> {
    Ok(retry_on_intr(|| rustix::fs::rename(from, to))?)
}

pub(super) fn rename_keeping(from: &Path, to: &Path) -> io::Result<()> {
    #[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
    match retry_on_intr(|| rustix::fs::renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE)) {
        // The file system or the kernel doesn't know the flag. (EINVAL also says that a folder was to go into
        // itself; then the calls below say so again.)
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {}
        done => return Ok(done?),
    }
    rename_keeping_by_hand(from, to)
}

/// For file systems without `RENAME_NOREPLACE`. A file keeps both names if the process is killed in between.
pub(super) fn rename_keeping_by_hand(from: &Path, to: &Path) -> io::Result<()> {
    if stat(from)?.kind != FileKind::Dir {
        link(from, to)?;
        return unlink(from);
    }
    // The look is for the clear answer; `rename` itself never replaces a folder that has anything in it.
    if stat(to).is_ok() {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    match retry_on_intr(|| rustix::fs::rename(from, to)) {
        Err(Errno::NOTEMPTY | Errno::NOTDIR) => Err(io::ErrorKind::AlreadyExists.into()),
        done => Ok(done?),
    }
}

pub(super) fn sync_dir(dir: &Path) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let dir = File::from(retry_on_intr(|| rustix::fs::open(dir, flags, Mode::empty()))?);
    match sync(&dir, File::sync_all) {
        // There is no such call here, as PostgreSQL's fsync_fname has it; any other error is one.
        Err(e) if matches!(e.raw_os_error(), Some(libc::EINVAL | libc::EBADF)) => Ok(()),
        done => done,
    }
}

/// Since boot. Not an `Instant`, whose start would have to be kept in a `Once` (see `fork::install`).
pub(super) fn monotonic() -> Duration {
    clock(libc::CLOCK_MONOTONIC)
}

/// The same clock as of the last tick of the system, up to 10 ms ago; its vDSO needs no look at the hardware.
pub(super) fn monotonic_coarse() -> Duration {
    #[cfg(target_os = "linux")]
    return clock(libc::CLOCK_MONOTONIC_COARSE);
    #[cfg(not(target_os = "linux"))]
    monotonic()
}

fn clock(which: libc::clockid_t) -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    #[expect(unsafe_code, reason = "no safe call for the clock itself among our dependencies")]
    // SAFETY: `time` is a timespec to write to, and lives until the call returns.
    let failed = unsafe { libc::clock_gettime(which, &raw mut time) } != 0;
    assert!(!failed, "the clock exists on every system foldlog runs on");
    Duration::new(
        u64::try_from(time.tv_sec).unwrap_or_default(),
        u32::try_from(time.tv_nsec).unwrap_or_default(),
    )
}

pub(super) fn forks() -> u64 {
    fork::count()
}

#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) fn boot_id() -> Option<u128> {
    parse_uuid(&retry_interrupted(|| std::fs::read("/proc/sys/kernel/random/boot_id")).ok()?)
}

#[cfg(target_vendor = "apple")]
pub(super) fn boot_id() -> Option<u128> {
    let mut text = [0u8; 64];
    let mut len = text.len();
    #[expect(unsafe_code, reason = "rustix has no sysctlbyname")]
    // SAFETY: the name ends in a zero byte; `text` has the `len` bytes that the call may write, and it sets `len` to
    // how many it wrote; nothing is set, hence the null and 0.
    let failed = unsafe {
        libc::sysctlbyname(
            c"kern.bootsessionuuid".as_ptr(),
            text.as_mut_ptr().cast(),
            &raw mut len,
            std::ptr::null_mut(),
            0,
        )
    } != 0;
    if failed { None } else { parse_uuid(text.get(..len)?) }
}

#[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
pub(super) fn boot_id() -> Option<u128> {
    None
}

/// The 32 hex digits of a UUID, with or without its dashes and whatever ends the line.
fn parse_uuid(text: &[u8]) -> Option<u128> {
    let digits: String = text.iter().map(|&b| char::from(b)).filter(|c| c.is_ascii_hexdigit()).collect();
    if digits.len() == 32 { u128::from_str_radix(&digits, 16).ok() } else { None }
}

#[cfg(target_vendor = "apple")]
pub(super) fn file_system(path: &Path) -> io::Result<FileSystem> {
    let found = retry_on_intr(|| rustix::fs::statfs(path))?;
    let name = found.f_fstypename.iter().map(|&c| c.cast_unsigned()).take_while(|&b| b != 0);
    let name: String = name.map(char::from).collect();
    let local = found.f_flags & libc::MNT_LOCAL.cast_unsigned() != 0;
    Ok(if local { super::classify(name) } else { FileSystem::Shared(name) })
}

#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) fn file_system(path: &Path) -> io::Result<FileSystem> {
    let found = retry_on_intr(|| rustix::fs::statfs(path))?;
    let whole = retry_interrupted(|| std::fs::canonicalize(path))?;
    // Without /proc the magic number has to do.
    let mounts = retry_interrupted(|| std::fs::read("/proc/self/mountinfo")).unwrap_or_default();
    Ok(linux::file_system(linux::mount_type(&mounts, &whole), i128::from(found.f_type) & 0xffff_ffff))
}

#[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
pub(super) fn file_system(path: &Path) -> io::Result<FileSystem> {
    stat(path)?;
    // Nobody has looked at this system yet; the careful answer.
    Ok(FileSystem::Shared("unknown".to_owned()))
}

/// What Linux says about mounts, as pure functions.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) mod linux {
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;
    use std::path::{Path, PathBuf};

    use crate::vfs::FileSystem;
    use crate::vfs::os::classify;

    /// `f_type` of the file systems that several kernels may share (`linux/magic.h` and the file systems' own headers).
    const SHARED_MAGICS: &[(i128, &str)] = &[
        (0x6969, "nfs"),
        (0x517b, "smbfs"),
        (0xff53_4d42, "cifs"),
        (0xfe53_4d42, "smb2"),
        (0x564c, "ncpfs"),
        (0x7375_7245, "coda"),
        (0x5346_414f, "afs"),
        (0x6b41_4653, "afs"),
        (0x0102_1997, "9p"),
        (0x6573_5546, "fuse"),
        (0x00c3_6400, "ceph"),
        (0x0bd0_0bd0, "lustre"),
        (0x0116_1970, "gfs2"),
        (0x7461_636f, "ocfs2"),
        (0x4750_4653, "gpfs"),
        (0x1983_0326, "beegfs"),
        (0x2003_0528, "orangefs"),
        (0x6163_6673, "acfs"),
        (0x786f_4256, "vboxsf"),
        (0xbacb_acbc, "vmhgfs"),
        (0x7c7c_6673, "prl_fs"),
    ];

    /// The type of the mount that a canonical path lies on: the longest mount point that leads to it, and of two
    /// mounts on one point the later, which covers the other.
    pub(in crate::vfs::os) fn mount_type(mountinfo: &[u8], path: &Path) -> Option<String> {
        let mut best: Option<(usize, String)> = None;
        for line in mountinfo.split(|&b| b == b'\n') {
            // 36 35 98:0 /sub/in/fs /mount\040point rw,noatime master:1 - ext4 /dev/vda1 rw
            let mut fields = line.split(|&b| b == b' ');
            let Some(point) = fields.nth(4).map(unescape) else { continue };
            let Some(name) = fields.skip_while(|f| *f != b"-").nth(1) else { continue };
            let depth = point.components().count();
            if path.starts_with(&point) && best.as_ref().is_none_or(|(d, _)| depth >= *d) {
                best = Some((depth, String::from_utf8_lossy(name).into_owned()));
            }
        }
        best.map(|(_, name)| name)
    }

    /// Undoes `\040` and the like: the kernel escapes space, tab, newline and backslash.
    fn unescape(field: &[u8]) -> PathBuf {
        let mut bytes = Vec::with_capacity(field.len());
        let mut rest = field;
        while let Some((&first, tail)) = rest.split_first() {
            let escape = if first == b'\\' { tail.split_at_checked(3) } else { None };
            let code =
                escape.and_then(|(digits, _)| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
            match (code, escape) {
                (Some(code), Some((_, after))) => {
                    bytes.push(code);
                    rest = after;
                }
                _ => {
                    bytes.push(first);
                    rest = tail;
                }
            }
        }
        OsString::from_vec(bytes).into()
    }

    /// Shared if the mount's name or the magic number says so; `fuseblk` has FUSE's number and is local.
    pub(in crate::vfs::os) fn file_system(name: Option<String>, magic: i128) -> FileSystem {
        let by_magic = SHARED_MAGICS.iter().find(|(number, _)| *number == magic).map(|(_, name)| *name);
        match (name, by_magic) {
            (Some(name), None) => classify(name),
            (Some(name), Some(_)) if name == "fuseblk" => classify(name),
            (Some(name), Some(_)) if matches!(classify(name.clone()), FileSystem::Shared(_)) => {
                FileSystem::Shared(name)
            }
            (_, Some(by_magic)) => FileSystem::Shared(by_magic.to_owned()),
            (None, None) => FileSystem::Local(format!("{magic:#x}")),
        }
    }
}
