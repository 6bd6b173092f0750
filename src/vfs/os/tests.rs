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

#[test]
fn what_nobody_may_write_is_told() {
    let (_dir, dir) = folder();
    let path = dir.join("file");
    drop(create(&path, b"x"));
    assert!(!Os.stat(&path).unwrap().read_only);
    let set = |read_only| {
        let mut permissions = std::fs::metadata(&path).unwrap().permissions();
        #[allow(clippy::permissions_set_readonly_false, reason = "a file of this test")]
        permissions.set_readonly(read_only);
        std::fs::set_permissions(&path, permissions).unwrap();
    };
    set(true);
    assert!(Os.stat(&path).unwrap().read_only);
    set(false);
}

#[cfg(unix)]
#[test]
fn access_rights_go_from_one_file_to_another() {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
    let (_dir, dir) = folder();
    let (one, other) = (dir.join("one"), dir.join("other"));
    drop(create(&one, b"x"));
    drop(create(&other, b"y"));
    std::fs::set_permissions(&one, std::fs::Permissions::from_mode(0o4754)).unwrap();
    // Only root gives files away.
    let _ = std::os::unix::fs::chown(&one, Some(12_345), Some(12_345));
    Os.keep_access(&one, &other).unwrap();
    let (one, now) = (std::fs::metadata(&one).unwrap(), std::fs::metadata(&other).unwrap());
    assert_eq!((now.uid(), now.gid(), now.mode() & 0o7777), (one.uid(), one.gid(), 0o754));
    assert_eq!(kind(Os.keep_access(&dir.join("none"), &other)), io::ErrorKind::NotFound);
    assert_eq!(contents(&other), b"y");
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

/// Each round waits for ever if who waits is not woken by whoever raises the word through another mapping.
#[cfg(any(target_os = "linux", windows))]
#[test]
fn wait_for_a_word_ends_when_another_mapping_raises_it() {
    const AT: u64 = 64;
    let (_dir, dir) = folder();
    let path = dir.join("words");
    drop(create(&path, &[0; 4096]));
    let map = || Os.open(&path, Open::Write).unwrap().map(4096).unwrap();
    let (raiser, waiter) = (map(), map());
    assert!(raiser.wakes(AT) && waiter.wakes(AT));
    within_bound(move || {
        let (about_to_wait, is_about_to_wait) = mpsc::sync_channel(0);
        let waits = std::thread::spawn(move || {
            for n in 0..500 {
                about_to_wait.send(n).unwrap();
                while waiter.load(AT) == n {
                    waiter.wait(AT, n, Duration::from_secs(3600));
                }
            }
        });
        for n in is_about_to_wait {
            raiser.raise(AT, n + 1);
            raiser.wake(AT, u32::MAX >> 1);
        }
        waits.join().unwrap();
    });
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
mod unix_only;

#[test]
fn file_in_use_is_free_for_nobody_until_the_last_user_lets_go() {
    let (_dir, dir) = folder();
    let path = dir.join("f");
    drop(create(&path, b"x"));
    let (first, second) = (Os.open(&path, Open::InUse).unwrap(), Os.open(&path, Open::InUse).unwrap());
    assert!(first.try_lock().unwrap() && second.try_lock().unwrap());
    let probe = Os.open(&path, Open::ProbeLock).unwrap();
    first.unlock().unwrap();
    assert!(!probe.try_lock().unwrap(), "the second uses it");
    drop(second);
    assert!(probe.try_lock().unwrap());
    assert!(!first.try_lock().unwrap(), "whoever removes it has it to himself");
    assert!(first.write_at(b"y", 0).is_err());
    probe.unlock().unwrap();
}
