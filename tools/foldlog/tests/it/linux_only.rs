//! Tests that need Linux, and why. Everything else here runs under Wine too.
//!
//! | test | needs |
//! | --- | --- |
//! | `fifo_in_the_log_folder_is_refused_without_waiting` | FIFOs; Windows has none in folders |
//! | `device_as_segment_is_refused` | `/dev/null` as a file |
//! | `no_permission_is_its_own_answer` | `setpriv`: an ordinary user beside root |
//! | `read_only_medium_is_read_as_any_other` | `unshare`, a read-only bind mount |
//! | `full_disk_is_read_and_repair_leaves_it_as_it_was` | `unshare`, a tmpfs with a size |
//! | `ctrl_c_ends_with_130` | `kill -INT` |
//! | `selftest_fails_where_locks_or_syncs_do_nothing` | `strace` |
//! | `full_stdout_is_an_error` | `/dev/full` |

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::{Fixture, Run, command, foldlog, tree};

fn sh(script: &str, words: &[&Path]) -> Run {
    Run::of(&Command::new("sh").arg("-euc").arg(script).arg("sh").args(words).output().unwrap())
}

/// Whether this machine permits what a test needs; says so loudly if not, and fails where nothing may be left out.
fn permitted(what: &str, program: &str, words: &[&str]) -> bool {
    let tried = Command::new(program).args(words).output();
    if tried.as_ref().is_ok_and(|output| output.status.success()) {
        return true;
    }
    let words =
        format!("NOT TESTED: {what}: `{program} {}` is not permitted here: {tried:?}", words.join(" "));
    assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "{words}");
    eprintln!("{words}");
    false
}

/// The command where an ordinary user can start it.
fn public_copy(dir: &Path) -> std::path::PathBuf {
    std::fs::set_permissions(dir, PermissionsExt::from_mode(0o755)).unwrap();
    let copy = dir.join("foldlog");
    std::fs::copy(env!("CARGO_BIN_EXE_foldlog"), &copy).unwrap();
    copy
}

#[test]
fn fifo_in_the_log_folder_is_refused_without_waiting() {
    let fixture = Fixture::small();
    let log = fixture.folder("one").join("log");
    let fifo = log.join("0000000002-0000000002-g0-0123456789abcdef.seg");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    for words in [&["dump", "--json"][..], &["verify", "--json"]] {
        fixture.look(words).fails(3, "foreign");
    }
    foldlog(["dump", "--json", fifo.to_str().unwrap()]).fails(3, "foreign");
}

#[test]
fn device_as_segment_is_refused() {
    foldlog(["dump", "--json", "/dev/null"]).fails(3, "foreign");
}

#[test]
fn no_permission_is_its_own_answer() {
    let ordinary = ["--reuid", "65534", "--regid", "65534", "--clear-groups"];
    let mut probe = ordinary.to_vec();
    probe.push("true");
    if !permitted("an ordinary user", "setpriv", &probe) {
        return;
    }
    let fixture = Fixture::small();
    let program = public_copy(fixture.dir.path());
    let run = |words: &[&str]| {
        let before = tree(fixture.dir.path());
        let mut command = Command::new("setpriv");
        command.args(ordinary).arg(&program).arg("--store").arg(fixture.root()).args(words);
        let run = Run::of(&command.output().unwrap());
        assert_eq!(tree(fixture.dir.path()), before);
        run
    };
    for words in [&["dump", "--json"][..], &["verify", "--json"], &["stats", "--json"]] {
        run(words).fails(6, "permission");
    }
    // All may be read but one segment.
    let segment = fixture.segments("one").remove(0);
    assert!(Command::new("chmod").args(["-R", "a+rX"]).arg(fixture.root()).status().unwrap().success());
    run(&["verify", "--json"]).ends(0);
    run(&["repair", "--apply", "--json", "--workspace", "key:one"]).ends(0);
    std::fs::set_permissions(&segment, PermissionsExt::from_mode(0o600)).unwrap();
    for words in [&["dump", "--json"][..], &["verify", "--json"], &["stats", "--json"]] {
        run(words).fails(6, "permission");
    }
    // What can be read, and must not be written.
    std::fs::set_permissions(&segment, PermissionsExt::from_mode(0o644)).unwrap();
    fixture.damage("body 3");
    assert_eq!(run(&["dump", "--json"]).ends(4).json().len(), 7);
    run(&["repair", "--apply", "--json", "--workspace", "key:one"]).fails(6, "permission");
}

#[test]
fn read_only_medium_is_read_as_any_other() {
    if !permitted("a read-only medium", "unshare", &["-m", "true"]) {
        return;
    }
    let fixture = Fixture::small();
    fixture.damage("body 3");
    let before = tree(fixture.dir.path());
    let script = r#"unshare -m sh -euc 'mount --bind "$1" "$1"; mount -o remount,ro,bind "$1"; shift; exec "$@"' sh "$@""#;
    let program = Path::new(env!("CARGO_BIN_EXE_foldlog"));
    let root = fixture.root();
    let run = |words: &[&str]| {
        let mut all = vec![root.as_path(), program, Path::new("--store"), root.as_path()];
        all.extend(words.iter().map(Path::new));
        sh(script, &all)
    };
    assert_eq!(run(&["dump", "--json"]).ends(4).json().len(), 7);
    assert_eq!(run(&["verify", "--json"]).ends(4).json().len(), 1);
    assert_eq!(run(&["stats", "--json"]).ends(4).json().len(), 2);
    run(&["repair", "--json", "--workspace", "key:one"]).ends(4);
    assert_eq!(run(&["tasks", "--json"]).ends(4).json().len(), 1);
    run(&["create", "x", "--json", "--workspace", "key:one"]).fails(6, "read-only");
    run(&["repair", "--apply", "--json", "--workspace", "key:one"]).fails(6, "read-only");
    assert_eq!(tree(fixture.dir.path()), before);
}

#[test]
fn full_disk_is_read_and_repair_leaves_it_as_it_was() {
    if !permitted("a full disk", "unshare", &["-m", "true"]) {
        return;
    }
    let fixture = Fixture::small();
    fixture.damage("body 3");
    let mount = fixture.dir.path().join("mount");
    std::fs::create_dir(&mount).unwrap();
    // Prints the exit code of each verb, then whether any file of the store has changed.
    let script = r#"unshare -m sh -euc '
        mount -t tmpfs -o size=128k tmpfs "$2"
        cp -a "$1" "$2/store"
        cat /dev/zero >"$2/fill" 2>/dev/null || true
        sum() { cd "$2/store"; find . -type f -print0 | sort -z | xargs -0 sha256sum; }
        sum "$@" >/dev/null
        before=$(sum "$@")
        for words in "dump" "verify" "stats" "repair --workspace key:one" "repair --apply --workspace key:one"; do
            code=0
            "$3" --json --store "$2/store" $words >/dev/null 2>"$1.err" || code=$?
            echo "$words: $code $(grep -o "^{.error.:[^,]*" "$1.err" || true)"
        done
        [ "$before" = "$(sum "$@")" ] && echo same || { echo "$before"; sum "$@"; }' sh "$@""#;
    let program = Path::new(env!("CARGO_BIN_EXE_foldlog"));
    let run = sh(script, &[&fixture.root(), &mount, program]).ends(0);
    assert_eq!(
        run.out,
        "dump: 4 \nverify: 4 \nstats: 4 \nrepair --workspace key:one: 4 \n\
         repair --apply --workspace key:one: 6 {\"error\":\"no-space\"\nsame\n",
        "{}",
        run.err
    );
}

#[test]
fn ctrl_c_ends_with_130() {
    let lock = tempfile::NamedTempFile::new().unwrap();
    let mut child = command()
        .args(["selftest-worker", "hold"])
        .arg(lock.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut lines = std::io::BufReader::new(child.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut lines, &mut line).unwrap();
    assert_eq!(line, "held\n");
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let stdin = child.stdin.take(); // open until the end: its closing would end the worker in peace
    let output = child.wait_with_output().unwrap();
    drop(stdin);
    let run = Run::of(&output).ends(130);
    assert!(run.err.starts_with("foldlog: interrupted\n  what to do: "), "{}", run.err);
}

#[test]
fn full_stdout_is_an_error() {
    let fixture = Fixture::small();
    let (program, root) = (Path::new(env!("CARGO_BIN_EXE_foldlog")), fixture.root());
    sh(r#"exec "$1" dump --json --store "$2" >/dev/full"#, &[program, &root]).fails(6, "no-space");
}

/// What the self-test is for: a file system whose locks exclude nobody, or whose syncs fail.
#[test]
fn selftest_fails_where_locks_or_syncs_do_nothing() {
    for (call, lie, check) in [
        ("flock", "retval=0", "FAILED  lock-excludes-another-handle: two handles have the lock at once"),
        ("fdatasync", "error=EIO", "FAILED  sync: sync the file: "),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let script = r#"exec strace -f -qq -o /dev/null -e trace="$1" -e inject="$1:$2" "$3" selftest "$4" --writers 2 --kills 1"#;
        let words = [Path::new(call), Path::new(lie), Path::new(env!("CARGO_BIN_EXE_foldlog")), dir.path()];
        let run = sh(script, &words).ends(4);
        assert!(run.out.contains(check), "{}", run.out);
        assert!(run.err.contains("check(s) failed"), "{}", run.err);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "what was tried stays to be looked at");
    }
}
