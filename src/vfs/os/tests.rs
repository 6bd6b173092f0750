//! The same tests for every system; what only one has is in a module of its own at the end.
//!
//! A test that needs another process runs this binary again with `ROLE` set: see [`child`].

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;

use super::*;
use crate::vfs::{read_full, write_full};

const ROLE: &str = "FOLDLOG_OS_TEST_ROLE";
const PATH: &str = "FOLDLOG_OS_TEST_PATH";
const READY: &str = "child-is-ready";
const BOUND: Duration = Duration::from_secs(60);

/// Wine unlinks an open file, under whichever of its names, only when its last handle is closed.
fn under_wine() -> bool {
    std::env::var_os("FOLDLOG_TEST_UNDER_WINE").is_some()
}

fn folder() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_owned();
    (dir, path)
}

fn create(path: &Path, contents: &[u8]) -> Box<dyn VfsFile> {
    let file = Os.open(path, Open::Create).unwrap();
    write_full(&*file, contents, 0).unwrap();
    file
}

fn contents(path: &Path) -> Vec<u8> {
    let file = Os.open(path, Open::Read).unwrap();
    let mut bytes = vec![0; usize::try_from(file.stat().unwrap().len).unwrap()];
    assert_eq!(read_full(&*file, &mut bytes, 0).unwrap(), bytes.len());
    bytes
}

fn kind<T>(result: io::Result<T>) -> io::ErrorKind {
    result.err().expect("an error").kind()
}

/// Fails instead of hanging.
fn within_bound<T: Send + 'static>(act: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || sender.send(act()));
    receiver.recv_timeout(BOUND).expect("an end within the bound")
}

/// A child that plays `role` on `path`; returns once it has said that it is ready.
fn spawn(role: &str, path: &Path) -> (Child, BufReader<std::process::ChildStdout>) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["vfs::os::tests::child", "--exact", "--nocapture", "--test-threads=1"])
        .env(ROLE, role)
        .env(PATH, path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let out = within_bound(move || {
        let mut line = String::new();
        while !line.contains(READY) {
            line.clear();
            assert_ne!(out.read_line(&mut line).unwrap(), 0, "the child ended before it was ready");
        }
        out
    });
    (child, out)
}

/// Not a test but the other process of some: does nothing unless it is started by [`spawn`].
#[test]
fn child() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let path = PathBuf::from(std::env::var_os(PATH).unwrap());
    let lock = Os.open(&path, Open::Lock).unwrap();
    assert!(lock.try_lock().unwrap());
    let mut _more: Vec<Box<dyn VfsFile>> = Vec::new();
    match role.as_str() {
        "hold" => {}
        #[cfg(unix)]
        "hold-and-fork" => unix_only::fork_a_survivor(),
        #[cfg(unix)]
        "hold-many" => _more = unix_only::lock_many_in_a_storm_of_forks(path.parent().unwrap()),
        other => panic!("no role {other}"),
    }
    println!("\n{READY}");
    std::io::stdout().flush().unwrap();
    // Killed in here, or told to end by the end of its input.
    let _ended = std::io::stdin().read_to_end(&mut Vec::new());
    lock.unlock().unwrap();
}

#[test]
fn file_is_written_and_read_at_offsets() {
    let (_dir, dir) = folder();
    let path = dir.join("a");
    let file = create(&path, b"hello world");
    write_full(&*file, b"W", 6).unwrap();
    file.sync_data().unwrap();

    let reader = Os.open(&path, Open::Read).unwrap();
    let mut five = [0; 5];
    assert_eq!(reader.read_at(&mut five, 6).unwrap(), 5);
    assert_eq!(&five, b"World");
    let mut more = [0xaa; 16];
    assert_eq!(reader.read_at(&mut more, 6).unwrap(), 5, "a read at the end is short");
    assert_eq!(read_full(&*reader, &mut more, 6).unwrap(), 5);
    assert_eq!(reader.read_at(&mut more, 11).unwrap(), 0, "at the end");
    assert_eq!(reader.read_at(&mut more, 1 << 40).unwrap(), 0, "past the end");
    assert_eq!(reader.read_at(&mut [], 0).unwrap(), 0);
    assert!(reader.write_at(b"x", 0).is_err(), "opened for reading only");

    let writer = Os.open(&path, Open::Write).unwrap();
    assert_eq!(writer.stat().unwrap().len, 11, "opening for writing truncates nothing");
    write_full(&*writer, b"!", 13).unwrap();
    assert_eq!(contents(&path), b"hello World\0\0!", "a write past the end leaves zeros before it");
}

#[test]
fn length_is_cut_and_extended_with_zeros() {
    let (_dir, dir) = folder();
    let file = create(&dir.join("a"), b"hello");
    file.set_len(2).unwrap();
    file.set_len(4).unwrap();
    assert_eq!(file.stat().unwrap().len, 4);
    assert_eq!(contents(&dir.join("a")), b"he\0\0");
}

#[test]
fn create_leaves_an_existing_file_alone() {
    let (_dir, dir) = folder();
    let path = dir.join("a");
    drop(create(&path, b"first"));
    assert_eq!(kind(Os.open(&path, Open::Create)), io::ErrorKind::AlreadyExists);
    assert_eq!(kind(Os.open(&path, Open::CreateLock)), io::ErrorKind::AlreadyExists);
    assert_eq!(contents(&path), b"first");
}

#[test]
fn open_of_a_missing_file_creates_nothing() {
    let (_dir, dir) = folder();
    for how in [Open::Read, Open::Write, Open::Lock, Open::ProbeLock] {
        assert_eq!(kind(Os.open(&dir.join("a"), how)), io::ErrorKind::NotFound, "{how:?}");
        assert_eq!(kind(Os.open(&dir.join("no/a"), how)), io::ErrorKind::NotFound, "{how:?}");
    }
    assert_eq!(kind(Os.stat(&dir.join("a"))), io::ErrorKind::NotFound);
    assert_eq!(kind(Os.unlink(&dir.join("a"))), io::ErrorKind::NotFound);
    assert_eq!(Os.list(&dir).unwrap(), []);
}

#[test]
fn open_refuses_a_folder() {
    let (_dir, dir) = folder();
    for how in [Open::Read, Open::Write, Open::Lock, Open::ProbeLock] {
        let error = Os.open(&dir, how).err().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{how:?}: {error}");
        assert_eq!(error.to_string(), "not a regular file: folder");
    }
}

#[test]
fn rename_keeping_never_replaces_a_file() {
    let (_dir, dir) = folder();
    let (a, b, c) = (dir.join("a"), dir.join("b"), dir.join("c"));
    drop(create(&a, b"a"));
    drop(create(&b, b"b"));
    assert_eq!(kind(Os.rename(&a, &b, Existing::Keep)), io::ErrorKind::AlreadyExists);
    assert_eq!((contents(&a), contents(&b)), (b"a".to_vec(), b"b".to_vec()));
    Os.rename(&a, &c, Existing::Keep).unwrap();
    assert_eq!(kind(Os.stat(&a)), io::ErrorKind::NotFound);
    assert_eq!(contents(&c), b"a");
    assert_eq!(kind(Os.rename(&a, &b, Existing::Keep)), io::ErrorKind::NotFound);
}

#[test]
fn rename_replacing_replaces_a_file() {
    let (_dir, dir) = folder();
    let (a, b) = (dir.join("a"), dir.join("b"));
    drop(create(&a, b"a"));
    drop(create(&b, b"b"));
    Os.rename(&a, &b, Existing::Replace).unwrap();
    assert_eq!(kind(Os.stat(&a)), io::ErrorKind::NotFound);
    assert_eq!(contents(&b), b"a");
}

#[test]
fn rename_of_a_folder_never_replaces_one_with_contents() {
    let (_dir, dir) = folder();
    let (new, old, free) = (dir.join("new"), dir.join("old"), dir.join("free"));
    for (folder, text) in [(&new, b"new"), (&old, b"old")] {
        Os.create_dir(folder).unwrap();
        drop(create(&folder.join("x"), text));
    }
    assert_eq!(kind(Os.rename(&new, &old, Existing::Keep)), io::ErrorKind::AlreadyExists);
    assert!(Os.rename(&new, &old, Existing::Replace).is_err());
    let empty = dir.join("empty");
    Os.create_dir(&empty).unwrap();
    assert_eq!(kind(Os.rename(&new, &empty, Existing::Keep)), io::ErrorKind::AlreadyExists);
    assert_eq!((contents(&new.join("x")), contents(&old.join("x"))), (b"new".to_vec(), b"old".to_vec()));
    Os.rename(&new, &free, Existing::Keep).unwrap();
    assert_eq!(contents(&free.join("x")), b"new");
    assert_eq!(kind(Os.stat(&new)), io::ErrorKind::NotFound);
}

#[test]
fn folders_are_made_one_at_a_time_and_removed_empty() {
    let (_dir, dir) = folder();
    let sub = dir.join("sub");
    assert_eq!(kind(Os.create_dir(&sub.join("deep"))), io::ErrorKind::NotFound);
    Os.create_dir(&sub).unwrap();
    assert_eq!(kind(Os.create_dir(&sub)), io::ErrorKind::AlreadyExists);
    drop(create(&sub.join("x"), b""));
    assert!(Os.remove_dir(&sub).is_err());
    Os.unlink(&sub.join("x")).unwrap();
    Os.remove_dir(&sub).unwrap();
    assert_eq!(kind(Os.stat(&sub)), io::ErrorKind::NotFound);
}

#[test]
fn links_are_counted() {
    let (_dir, dir) = folder();
    let (a, b) = (dir.join("a"), dir.join("b"));
    drop(create(&a, b"text"));
    let file = Os.open(&a, Open::Read).unwrap();
    assert_eq!(file.stat().unwrap().links, 1);
    Os.link(&a, &b).unwrap();
    assert_eq!(file.stat().unwrap().links, 2);
    assert_eq!(Os.stat(&b).unwrap(), file.stat().unwrap());
    assert_eq!(kind(Os.link(&a, &b)), io::ErrorKind::AlreadyExists);
    Os.unlink(&b).unwrap();
    let after_b = file.stat().unwrap().links;
    Os.unlink(&a).unwrap();
    if !under_wine() {
        assert_eq!(after_b, 1);
        assert_eq!(file.stat().unwrap().links, 0, "deleted while open");
        assert_eq!(kind(Os.stat(&a)), io::ErrorKind::NotFound);
    }
    let mut text = [0; 4];
    assert_eq!(read_full(&*file, &mut text, 0).unwrap(), 4);
    assert_eq!(&text, b"text", "an open file outlives its name");
}

#[test]
fn identity_belongs_to_the_file_and_not_to_its_name() {
    let (_dir, dir) = folder();
    let (a, b) = (dir.join("a"), dir.join("b"));
    let before = create(&a, b"1").stat().unwrap();
    assert_eq!(before, Os.stat(&a).unwrap());
    assert_eq!(before, Os.open(&a, Open::Read).unwrap().stat().unwrap());
    Os.rename(&a, &b, Existing::Keep).unwrap();
    assert_eq!(before.id, Os.stat(&b).unwrap().id);
    let other = create(&a, b"2").stat().unwrap();
    assert_ne!(before.id, other.id);
    assert_eq!(before.kind, FileKind::File);
    let folder = Os.stat(&dir).unwrap();
    assert_eq!(folder.kind, FileKind::Dir);
    assert_eq!(folder.id, Os.stat(&dir).unwrap().id);
    assert_ne!(folder.id, other.id);
}

#[test]
fn second_handle_is_excluded_until_unlock() {
    let (_dir, dir) = folder();
    let path = dir.join("LOCK");
    drop(create(&path, b""));
    let first = Os.open(&path, Open::Lock).unwrap();
    let second = Os.open(&path, Open::Lock).unwrap();
    assert!(first.try_lock().unwrap());
    assert!(!second.try_lock().unwrap());
    assert!(!Os.open(&path, Open::ProbeLock).unwrap().try_lock().unwrap());
    first.unlock().unwrap();
    assert!(second.try_lock().unwrap());
    assert!(!first.try_lock().unwrap());
    second.unlock().unwrap();
    assert!(first.try_lock().unwrap());
    drop(first);
    assert!(second.try_lock().unwrap(), "a handle dropped with its lock frees it");
    second.unlock().unwrap();
}

#[test]
fn only_lock_targets_can_be_locked() {
    let (_dir, dir) = folder();
    let file = create(&dir.join("a"), b"");
    assert_eq!(kind(file.try_lock()), io::ErrorKind::InvalidInput);
    assert_eq!(kind(file.unlock()), io::ErrorKind::InvalidInput);
}

#[test]
fn session_file_is_renamed_while_it_is_locked() {
    let (_dir, dir) = folder();
    let (new, named, dead) = (dir.join("new"), dir.join("1.lock"), dir.join("1.dead"));
    let session = Os.open(&new, Open::CreateLock).unwrap();
    assert!(session.try_lock().unwrap());
    Os.rename(&new, &named, Existing::Keep).unwrap();
    assert_eq!(Os.stat(&named).unwrap().id, session.stat().unwrap().id);
    let probe = Os.open(&named, Open::ProbeLock).unwrap();
    assert!(!probe.try_lock().unwrap(), "alive");
    session.unlock().unwrap();
    drop(session);
    assert!(probe.try_lock().unwrap(), "dead");
    Os.rename(&named, &dead, Existing::Keep).unwrap();
    assert_eq!(Os.stat(&dead).unwrap().id, probe.stat().unwrap().id);
    probe.unlock().unwrap();
}

#[test]
fn lock_of_a_killed_process_is_free() {
    let (_dir, dir) = folder();
    let path = dir.join("LOCK");
    drop(create(&path, b""));
    let lock = Os.open(&path, Open::Lock).unwrap();
    let (mut child, _out) = spawn("hold", &path);
    assert!(!lock.try_lock().unwrap(), "the child holds it");
    child.kill().unwrap();
    child.wait().unwrap();
    // Unix: at once. Windows promises no bound, hence the tries.
    let started = Os.monotonic();
    while !lock.try_lock().unwrap() {
        let bound = if cfg!(windows) { BOUND } else { Duration::ZERO };
        assert!(Os.monotonic() - started < bound, "free as soon as the holder is dead");
        Os.sleep(Duration::from_millis(1));
    }
    lock.unlock().unwrap();
}

#[test]
fn lock_of_a_process_that_ends_is_free() {
    let (_dir, dir) = folder();
    let path = dir.join("LOCK");
    drop(create(&path, b""));
    let (mut child, _out) = spawn("hold", &path);
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
    let lock = Os.open(&path, Open::Lock).unwrap();
    assert!(lock.try_lock().unwrap());
    lock.unlock().unwrap();
}

#[test]
fn list_is_sorted_and_complete() {
    let (_dir, dir) = folder();
    for name in ["b", "a10", "a2", "Z"] {
        drop(create(&dir.join(name), b""));
    }
    Os.create_dir(&dir.join("c")).unwrap();
    let listed: Vec<_> = Os.list(&dir).unwrap().into_iter().map(|e| (e.name, e.kind)).collect();
    let file = |name: &str| (name.to_owned(), FileKind::File);
    assert_eq!(listed, [file("Z"), file("a10"), file("a2"), file("b"), ("c".to_owned(), FileKind::Dir)]);
    assert_eq!(kind(Os.list(&dir.join("none"))), io::ErrorKind::NotFound);
}

#[test]
fn folder_is_synced() {
    let (_dir, dir) = folder();
    drop(create(&dir.join("a"), b""));
    Os.sync_dir(&dir).unwrap();
    assert_eq!(kind(Os.sync_dir(&dir.join("none"))), io::ErrorKind::NotFound);
    assert!(Os.sync_dir(&dir.join("a")).is_err(), "not a folder");
}

#[test]
fn canonical_path_is_absolute_and_has_no_detours() {
    let (_dir, dir) = folder();
    Os.create_dir(&dir.join("sub")).unwrap();
    let plain = Os.canonicalize(&dir).unwrap();
    assert!(plain.is_absolute());
    assert_eq!(Os.canonicalize(&dir.join("sub").join("..").join(".")).unwrap(), plain);
    assert_eq!(kind(Os.canonicalize(&dir.join("none"))), io::ErrorKind::NotFound);
}

#[test]
fn clocks_and_randomness_are_sane() {
    let (before, started) = (Os.now(), Os.monotonic());
    assert!(before > 1_700_000_000_000_000, "microseconds since 1970");
    assert!(before < 10_000_000_000_000_000);
    Os.sleep(Duration::ZERO);
    Os.sleep(Duration::from_millis(2));
    assert!(Os.monotonic() - started >= Duration::from_millis(2));
    let (mut one, mut two) = ([0; 16], [0; 16]);
    Os.random(&mut one).unwrap();
    Os.random(&mut two).unwrap();
    assert_ne!(one, two);
    assert_eq!(Os.boot_id(), Os.boot_id());
    assert_eq!(Os.boot_id().is_some(), !cfg!(windows));
    let process = Os.process();
    assert_eq!((process, process.pid, process.domain), (Os.process(), std::process::id(), 0));
}

#[test]
fn file_system_has_a_name() {
    let (_dir, dir) = folder();
    let (FileSystem::Local(name) | FileSystem::Shared(name)) = Os.file_system(&dir).unwrap();
    assert!(!name.is_empty());
    drop(create(&dir.join("a"), b""));
    assert_eq!(Os.file_system(&dir.join("a")).unwrap(), Os.file_system(&dir).unwrap());
    assert_eq!(kind(Os.file_system(&dir.join("none"))), io::ErrorKind::NotFound);
}

#[test]
fn file_system_of_several_kernels_is_told_by_name() {
    let shared = [
        "nfs",
        "nfs4",
        "NFS",
        "cifs",
        "smb3",
        "smbfs",
        "9p",
        "virtiofs",
        "AppleVirtIOFS",
        "vboxsf",
        "vmhgfs",
        "hgfs",
        "drvfs",
        "fuse.sshfs",
        "fuse",
        "FUSE-SSHFS",
        "ceph",
        "lustre",
        "afs",
        "gfs2",
        "ocfs2",
    ];
    for name in shared {
        assert_eq!(classify(name.to_owned()), FileSystem::Shared(name.to_owned()));
    }
    for name in ["ext4", "xfs", "btrfs", "tmpfs", "overlay", "zfs", "fuseblk", "apfs", "hfs", "ntfs", "refs"]
    {
        assert_eq!(classify(name.to_owned()), FileSystem::Local(name.to_owned()));
    }
}

#[cfg(windows)]
mod windows_only {
    use super::*;

    #[test]
    fn lock_target_in_use_cannot_be_renamed_or_deleted() {
        let (_dir, dir) = folder();
        let path = dir.join("LOCK");
        drop(create(&path, b""));
        let lock = Os.open(&path, Open::Lock).unwrap();
        assert!(Os.rename(&path, &dir.join("other"), Existing::Keep).is_err());
        assert!(Os.unlink(&path).is_err());
        assert_eq!(Os.stat(&path).unwrap().id, lock.stat().unwrap().id);
        drop(lock);
        Os.unlink(&path).unwrap();
    }

    /// Somebody's handle without FILE_SHARE_DELETE, closed meanwhile, costs a retry and not an error.
    #[test]
    fn rename_and_unlink_outlast_a_passing_handle() {
        let (_dir, dir) = folder();
        let (a, b) = (dir.join("a"), dir.join("b"));
        drop(create(&a, b""));
        // Not an order, only a chance: the handle goes during the 50 ms in which the call tries again.
        let hold = |path: &Path| {
            let handle = Os.open(path, Open::Lock).unwrap();
            std::thread::spawn(move || {
                Os.sleep(Duration::from_millis(5));
                drop(handle);
            })
        };
        let holder = hold(&a);
        Os.rename(&a, &b, Existing::Keep).unwrap();
        holder.join().unwrap();
        let holder = hold(&b);
        Os.unlink(&b).unwrap();
        holder.join().unwrap();
    }

    #[test]
    fn device_is_refused() {
        for how in [Open::Read, Open::Write] {
            assert_eq!(kind(Os.open(Path::new("NUL"), how)), io::ErrorKind::InvalidInput);
        }
    }

    #[test]
    fn long_paths_are_renamed_without_replacing() {
        let (_dir, mut dir) = folder();
        for _ in 0..6 {
            dir = dir.join("x".repeat(60));
            Os.create_dir(&dir).unwrap();
        }
        drop(create(&dir.join("a"), b"a"));
        Os.rename(&dir.join("a"), &dir.join("b"), Existing::Keep).unwrap();
        assert_eq!(contents(&dir.join("b")), b"a");
    }
}

#[cfg(unix)]
mod unix_only {
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
        let alive_until_now = unsafe {
            libc::kill(pid, libc::SIGKILL) == 0 && libc::waitpid(pid, std::ptr::null_mut(), 0) == pid
        };
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
}
