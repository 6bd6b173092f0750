//! What only Unix has: forks, FIFOs, modes, descriptors.

#![expect(unsafe_code, reason = "FIFOs, forks and waits are not in std")]

use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;

static SURVIVED: u8 = b'!';
const SURVIVORS_MAX: usize = 200;
const LOCKS_EACH: usize = 150;

/// In the child process of a test: forks a grandchild that lives until the input ends and then says so. Returns
/// once it runs, that is, once it has been through its fork handlers.
pub(super) fn fork_a_survivor() {
    let mut pipe = [0; 2];
    let mut byte = 0u8;
    // SAFETY: plain calls with memory of this function. The grandchild makes nothing but async-signal-safe calls
    // and never returns.
    unsafe {
        assert_eq!(libc::pipe(pipe.as_mut_ptr()), 0);
        let pid = libc::fork();
        if pid == 0 {
            libc::write(pipe[1], (&raw const SURVIVED).cast(), 1);
            while libc::read(0, (&raw mut byte).cast(), 1) > 0 {}
            libc::write(1, (&raw const SURVIVED).cast(), 1);
            libc::_exit(0);
        }
        assert!(pid > 0);
        assert_eq!(libc::read(pipe[0], (&raw mut byte).cast(), 1), 1);
        libc::close(pipe[0]);
        libc::close(pipe[1]);
    }
}

#[test]
fn another_group_gets_no_more_than_everybody() {
    for (mode, kept, other) in [
        (0o640, 0o640, 0o600),
        (0o660, 0o660, 0o600),
        (0o664, 0o664, 0o644),
        (0o644, 0o644, 0o644),
        (0o604, 0o604, 0o604),
        (0o777, 0o777, 0o777),
        (0o750, 0o750, 0o700),
    ] {
        assert_eq!(super::super::unix::rights(mode, true), kept, "{mode:o}");
        assert_eq!(super::super::unix::rights(mode, false), other, "{mode:o}");
    }
}

/// The child of a process with a lock must not keep that lock alive.
///
/// `flock` belongs to the open file description: without the fork handler the lock of the killed process lives on
/// in its child, which has never heard of foldlog.
#[test]
fn lock_of_a_killed_process_is_free_although_its_child_lives() {
    let (_dir, dir) = folder();
    let path = dir.join("LOCK");
    drop(create(&path, b""));
    let lock = Os.open(&path, Open::Lock).unwrap();
    let (mut child, mut out) = spawn("hold-and-fork", &path);
    let input = child.stdin.take();
    assert!(!lock.try_lock().unwrap(), "the child holds it");
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(lock.try_lock().unwrap(), "the grandchild must not hold it");
    lock.unlock().unwrap();
    // The grandchild was alive all the time: it ends, and says so, only now.
    drop(input);
    let mut rest = Vec::new();
    out.read_to_end(&mut rest).unwrap();
    assert_eq!(rest, [SURVIVED]);
}

/// What a forked child sees: another count, handles that say why they don't work, and nothing of its own closed
/// when it drops them.
#[test]
fn forked_child_has_no_lock_handles() {
    let (_dir, dir) = folder();
    let path = dir.join("LOCK");
    let data = create(&path, b"data");
    let lock = Os.open(&path, Open::Lock).unwrap();
    assert!(lock.try_lock().unwrap());
    let before = Os.process();
    // SAFETY: the child stays in this block and leaves by _exit. (It allocates: both C libraries in use make that
    // safe after a fork.)
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let now = Os.process();
        let mut wrong = 0;
        let mut check = |bit: i32, right: bool| wrong |= if right { 0 } else { 1 << bit };
        check(0, now.forks == before.forks + 1 && now.pid != before.pid);
        check(1, lock.try_lock().is_err() && lock.unlock().is_err() && lock.stat().is_err());
        check(2, data.stat().is_ok_and(|s| s.len == 4));
        // Fills every number that the handler has made free, the lock's too.
        let null = c"/dev/null".as_ptr();
        // SAFETY: plain calls on numbers of this process, and a constant path that ends in a zero.
        let mine: Vec<i32> = (0..200).map(|_| unsafe { libc::open(null, libc::O_RDONLY) }).collect();
        drop(lock);
        // SAFETY: as above.
        check(3, mine.iter().all(|&fd| unsafe { libc::fcntl(fd, libc::F_GETFD) } >= 0));
        // The child may take part on its own account; its parent has the lock.
        check(4, Os.open(&path, Open::Lock).is_ok_and(|own| own.try_lock().is_ok_and(|taken| !taken)));
        // SAFETY: ends this process without running anything of the parent's.
        unsafe { libc::_exit(wrong) }
    }
    assert!(pid > 0);
    let mut status = 0;
    // SAFETY: waits for the child made above.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
    assert!(libc::WIFEXITED(status));
    assert_eq!(libc::WEXITSTATUS(status), 0, "the bits of what was wrong");
    assert_eq!(Os.process(), before, "the parent is what it was");
    assert!(lock.stat().is_ok());
    assert!(!Os.open(&path, Open::Lock).unwrap().try_lock().unwrap(), "and still has its lock");
    lock.unlock().unwrap();
}

/// A fork between the opening of a lock file and its entry in the table must not smuggle it into the child.
#[test]
fn fork_in_the_middle_of_an_open_is_noticed() {
    let (_dir, dir) = folder();
    let path = dir.join("LOCK");
    drop(create(&path, b""));
    let (mut calls, mut pid) = (Vec::new(), 0);
    let (file, registered) = crate::vfs::os::fork::open_registered(|again| {
        calls.push(again);
        let file = File::options().read(true).write(true).open(&path)?;
        if !again {
            // SAFETY: the child sleeps until it is killed, a minute at most.
            unsafe {
                pid = libc::fork();
                if pid == 0 {
                    libc::alarm(60);
                    libc::pause();
                    libc::_exit(0);
                }
            }
        }
        Ok(file)
    })
    .unwrap();
    assert!(pid > 0);
    let taken = try_lock(&file).unwrap();
    // No unlock, which would free the lock whoever has a copy of the descriptor.
    registered.leave();
    drop(file);
    let free = Os.open(&path, Open::Lock).unwrap().try_lock().unwrap();
    // SAFETY: ends the child made above and waits for it.
    let alive_until_now =
        unsafe { libc::kill(pid, libc::SIGKILL) == 0 && libc::waitpid(pid, std::ptr::null_mut(), 0) == pid };
    assert_eq!((taken, free, alive_until_now), (true, true, true));
    assert_eq!(calls, [false, true], "opened a second time");
}

/// In the child process of a test: opens more lock files than one chunk of the table holds, while another thread
/// forks survivors, and locks them all.
pub(super) fn lock_many_in_a_storm_of_forks(dir: &Path) -> Vec<Box<dyn VfsFile>> {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..SURVIVORS_MAX {
                fork_a_survivor();
                if done.load(Ordering::SeqCst) {
                    break;
                }
            }
        });
        let open = |thread: usize| {
            let path = move |i| dir.join(format!("{thread}-{i}"));
            (0..LOCKS_EACH).map(|i| Os.open(&path(i), Open::CreateLock).unwrap()).collect::<Vec<_>>()
        };
        let other = scope.spawn(move || open(1));
        let mut locks = open(0);
        locks.extend(other.join().unwrap());
        done.store(true, Ordering::SeqCst);
        assert!(locks.iter().all(|lock| lock.try_lock().unwrap()));
        locks
    })
}

/// The same with threads, without a say in when the forks happen.
#[test]
fn locks_opened_while_others_fork_are_free_as_well() {
    let (_dir, dir) = folder();
    let path = dir.join("LOCK");
    drop(create(&path, b""));
    let (mut child, mut out) = spawn("hold-many", &path);
    let input = child.stdin.take();
    child.kill().unwrap();
    child.wait().unwrap();
    let names = Os.list(&dir).unwrap();
    assert_eq!(names.len(), 2 * LOCKS_EACH + 1);
    let held: Vec<_> = names
        .iter()
        .filter(|entry| !Os.open(&dir.join(&entry.name), Open::ProbeLock).unwrap().try_lock().unwrap())
        .collect();
    assert!(held.is_empty(), "held by children of a dead process: {held:?}");
    drop(input);
    let mut rest = Vec::new();
    out.read_to_end(&mut rest).unwrap();
    assert!(rest.contains(&SURVIVED) && rest.iter().all(|&byte| byte == SURVIVED));
}

#[test]
fn open_refuses_what_is_not_a_regular_file() {
    let (_dir, dir) = folder();
    let at = |name: &str| dir.join(name);
    let fifo = std::ffi::CString::new(at("fifo").as_os_str().as_bytes()).unwrap();
    // SAFETY: a path that ends in a zero.
    assert_eq!(unsafe { libc::mkfifo(fifo.as_ptr(), 0o600) }, 0);
    drop(create(&at("file"), b"precious"));
    symlink(at("file"), at("link")).unwrap();
    symlink(at("none"), at("dangling")).unwrap();
    let _socket = UnixListener::bind(at("socket")).unwrap();
    let cases = [
        (at("fifo"), "FIFO"),
        (at("link"), "symbolic link"),
        (at("dangling"), "symbolic link"),
        (at("socket"), "socket"),
        (PathBuf::from("/dev/null"), "character device"),
    ];
    for (path, what) in cases {
        for how in [Open::Read, Open::Write, Open::Lock, Open::ProbeLock] {
            let opened = path.clone();
            let error = within_bound(move || Os.open(&opened, how)).err().unwrap();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{what}, {how:?}: {error}");
            assert_eq!(error.to_string(), format!("not a regular file: {what}"));
        }
        assert_eq!(kind(Os.open(&path, Open::Create)), io::ErrorKind::AlreadyExists);
    }
    assert_eq!(Os.stat(&at("link")).unwrap().kind, FileKind::Symlink);
    assert_eq!(Os.stat(&at("fifo")).unwrap().kind, FileKind::Other);
    assert_eq!(kind(Os.stat(&at("none"))), io::ErrorKind::NotFound, "nothing was made through the link");
    let kinds: Vec<_> = Os.list(&dir).unwrap().into_iter().map(|e| e.kind).collect();
    assert_eq!(
        kinds,
        [FileKind::Symlink, FileKind::Other, FileKind::File, FileKind::Symlink, FileKind::Other]
    );
}

#[test]
fn loop_of_links_on_the_way_is_its_own_error() {
    let (_dir, dir) = folder();
    symlink(dir.join("loop"), dir.join("loop")).unwrap();
    let error = Os.open(&dir.join("loop").join("file"), Open::Read).err().unwrap();
    assert_eq!(error.raw_os_error(), Some(libc::ELOOP));
}

#[test]
fn files_and_folders_are_private() {
    let (_dir, dir) = folder();
    drop(create(&dir.join("a"), b""));
    drop(Os.open(&dir.join("l"), Open::CreateLock).unwrap());
    Os.create_dir(&dir.join("d")).unwrap();
    let mode = |name| std::fs::metadata(dir.join(name)).unwrap().mode() & 0o777;
    assert_eq!((mode("a"), mode("l"), mode("d")), (0o600, 0o600, 0o700));
}

#[test]
fn descriptors_are_not_inherited_by_programs() {
    use std::os::fd::AsRawFd as _;
    let (_dir, dir) = folder();
    let file = crate::vfs::os::unix::open(&dir.join("a"), Open::CreateLock).unwrap();
    let fd = file.file().unwrap().as_raw_fd();
    // SAFETY: asks about a descriptor that `file` keeps open.
    assert_ne!(unsafe { libc::fcntl(fd, libc::F_GETFD) } & libc::FD_CLOEXEC, 0);
}

/// An unwound caller drops a handle without unlocking it; a child between `vfork` and `exec` may have a copy.
#[test]
fn lock_dropped_without_unlock_is_free_although_the_descriptor_has_a_copy() {
    let (_dir, dir) = folder();
    let lock = crate::vfs::os::unix::open(&dir.join("a"), Open::CreateLock).unwrap();
    assert!(lock.try_lock().unwrap());
    let copy = lock.file().unwrap().try_clone().unwrap();
    drop(lock);
    let other = Os.open(&dir.join("a"), Open::ProbeLock).unwrap();
    assert!(other.try_lock().unwrap());
    other.unlock().unwrap();
    drop(copy);
}

#[test]
fn file_replaced_while_open_shows_in_identity_and_links() {
    let (_dir, dir) = folder();
    let (a, b) = (dir.join("a"), dir.join("b"));
    let old = create(&a, b"old");
    drop(create(&b, b"new"));
    Os.rename(&b, &a, Existing::Replace).unwrap();
    assert_eq!(old.stat().unwrap().links, 0);
    assert_ne!(old.stat().unwrap().id, Os.stat(&a).unwrap().id);
}

/// What file systems without RENAME_NOREPLACE get.
#[test]
fn rename_keeping_by_hand_keeps_too() {
    let rename = crate::vfs::os::unix::rename_keeping_by_hand;
    let (_dir, dir) = folder();
    let at = |name: &str| dir.join(name);
    drop(create(&at("a"), b"a"));
    drop(create(&at("b"), b"b"));
    assert_eq!(kind(rename(&at("a"), &at("b"))), io::ErrorKind::AlreadyExists);
    rename(&at("a"), &at("c")).unwrap();
    assert_eq!((contents(&at("b")), contents(&at("c"))), (b"b".to_vec(), b"a".to_vec()));
    assert_eq!(kind(Os.stat(&at("a"))), io::ErrorKind::NotFound);
    Os.create_dir(&at("d")).unwrap();
    Os.create_dir(&at("e")).unwrap();
    drop(create(&at("e").join("x"), b"x"));
    Os.create_dir(&at("empty")).unwrap();
    for taken in ["e", "b", "empty"] {
        assert_eq!(kind(rename(&at("d"), &at(taken))), io::ErrorKind::AlreadyExists);
    }
    assert_eq!(contents(&at("e").join("x")), b"x");
    rename(&at("e"), &at("f")).unwrap();
    assert_eq!(contents(&at("f").join("x")), b"x");
}

#[cfg(target_os = "linux")]
mod linux_only {
    use super::*;
    use crate::vfs::os::unix::linux::{file_system, mount_type};

    const MOUNTS: &[u8] = b"\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
23 22 0:21 / /proc rw - proc proc rw
24 22 0:30 / /home/me rw - nfs4 server:/x rw
25 24 0:31 / /home/me/fast rw master:2 propagate_from:1 - xfs /dev/vdb rw
26 22 0:32 / /mnt/a\\040b\\134c rw - fuse.sshfs me@host: rw
27 22 0:33 / /mnt/twice rw - tmpfs tmpfs rw
28 27 0:34 / /mnt/twice rw - 9p host rw
broken line
29 22 0:35";

    #[test]
    fn mount_of_a_path_is_the_nearest_and_latest() {
        let on = |path: &str| mount_type(MOUNTS, Path::new(path)).unwrap();
        assert_eq!(on("/"), "ext4");
        assert_eq!(on("/home"), "ext4");
        assert_eq!(on("/home/me"), "nfs4");
        assert_eq!(on("/home/meander"), "ext4");
        assert_eq!(on("/home/me/fast/x"), "xfs");
        assert_eq!(on("/mnt/a b\\c/x"), "fuse.sshfs");
        assert_eq!(on("/mnt/twice/x"), "9p");
        assert_eq!(mount_type(b"", Path::new("/")), None);
    }

    #[test]
    fn file_system_is_shared_if_name_or_number_says_so() {
        let named = |name: &str, magic| file_system(Some(name.to_owned()), magic);
        assert_eq!(named("ext4", 0xef53), FileSystem::Local("ext4".into()));
        assert_eq!(named("fuseblk", 0x6573_5546), FileSystem::Local("fuseblk".into()));
        assert_eq!(named("fuse.sshfs", 0x6573_5546), FileSystem::Shared("fuse.sshfs".into()));
        assert_eq!(named("virtiofs", 0x6573_5546), FileSystem::Shared("virtiofs".into()));
        assert_eq!(named("nfs4", 0x6969), FileSystem::Shared("nfs4".into()));
        assert_eq!(named("ext4", 0x6969), FileSystem::Shared("nfs".into()), "mounted over meanwhile");
        assert_eq!(file_system(None, 0x6969), FileSystem::Shared("nfs".into()));
        assert_eq!(file_system(None, 0xef53), FileSystem::Local("0xef53".into()));
    }

    #[test]
    fn file_system_of_proc_is_proc() {
        assert_eq!(Os.file_system(Path::new("/proc/self")).unwrap(), FileSystem::Local("proc".into()));
    }
}
