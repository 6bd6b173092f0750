//! System calls that fail in the shipped code: strace injects errors into a worker's calls, one after the other.
//!
//! Whatever fails: what was acknowledged is there, what was refused is not, and the log opens clean.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests look at the disk themselves")]

use std::path::Path;
use std::process::Command;

use foldlog::{Seq, Status};

use crate::worker::{Stage, Worker, an_actor, landed, open, options, quick, start_actor};

/// Segments so small that the worker's few commits rotate.
const SEGMENT: u64 = 4096;
const COMMITS: u64 = 10;

/// Role: does a few commits of both kinds, whatever becomes of them, and says what did.
pub(crate) fn appender(stage: &mut Stage) {
    let root = stage.path(0);
    let opened = foldlog::Store::open(&root, options().segment_size(SEGMENT))
        .and_then(|store| store.workspace(&crate::worker::place()));
    let ws = match opened {
        Ok(ws) => ws,
        Err(e) => return stage.say(&format!("err open {} {e}", e.code())),
    };
    for n in 1..=COMMITS {
        let durability =
            if n % 2 == 0 { foldlog::Durability::Durable } else { foldlog::Durability::Buffered };
        match crate::worker::commit(&ws, "k", &text(n), durability) {
            Ok(receipt) => stage.say(&format!("ok {n} {} {}", receipt.first, receipt.durable)),
            Err(e) => stage.say(&format!("err {n} {} {e}", e.code())),
        }
    }
    stage.say(&format!("status {}", ws.health().status.as_str()));
    if let Err(e) = ws.close() {
        stage.say(&format!("err close {} {e}", e.code()));
    }
}

fn text(n: u64) -> String {
    format!("{n}-{}", "x".repeat(900))
}

/// What became of the appender under a fault.
enum Run {
    /// It ended by itself; its lines.
    Ended(Vec<String>),
    /// It was killed after these lines.
    Killed(Vec<String>),
    /// The fault hit the loader, before anything of ours ran.
    NotStarted,
}

/// Runs the appender with one fault; what was struck stands in `trace`.
fn inject(root: &Path, calls: &str, fault: &str, trace: &Path) -> Run {
    assert!(
        Command::new("strace").arg("-V").output().is_ok_and(|out| out.status.success()),
        "strace is missing: install it (apt-get install strace); without it this proves nothing"
    );
    let (traced, inject) = (format!("trace={calls}"), format!("inject={calls}:{fault}"));
    let to = trace.to_str().unwrap();
    let wrapper = ["strace", "-f", "-qq", "-o", to, "-e", &traced, "-e", &inject, "-e", "signal=none"];
    run(&wrapper, root, &format!("{calls}:{fault}"))
}

fn run(wrapper: &[&str], root: &Path, what: &str) -> Run {
    let worker = Worker::wrapped(wrapper, "appender", &[root.to_str().unwrap()]);
    let (mut lines, status) = worker.finish();
    match lines.last().map(String::as_str) {
        Some("end") => {
            assert!(status.success(), "{what}: {lines:?}");
            lines.pop();
            Run::Ended(lines)
        }
        Some("panicked") => panic!("{what}: {lines:?}"),
        None if !status.success() && !what.contains("KILL") => Run::NotStarted,
        _ => {
            assert!(!status.success());
            Run::Killed(lines)
        }
    }
}

/// Number of acknowledged commits, and the codes of errors.
fn outcome(lines: &[String]) -> (Vec<(u64, Seq)>, Vec<String>) {
    let (mut acked, mut codes) = (Vec::new(), Vec::new());
    for line in lines {
        let words: Vec<&str> = line.split(' ').collect();
        match words[0] {
            "ok" => acked.push((words[1].parse().unwrap(), Seq(words[2].parse().unwrap()))),
            "err" => codes.push(words[2].to_owned()),
            _ => {}
        }
    }
    (acked, codes)
}

/// The log read and opened again, for writing as well: clean, with exactly what was acknowledged. `or_more`: a commit
/// whose acknowledgement failed may stand (a failed sync).
fn holds(root: &Path, acked: &[(u64, Seq)], or_more: bool, what: &str) {
    if !root.join("META").exists() {
        assert_eq!(acked, []);
        return;
    }
    let (_store, ws) = open(root, options().segment_size(SEGMENT));
    let (all, walk) = landed(&ws);
    assert_eq!(walk.damage, None, "{what}");
    let there: Vec<(Seq, &[u8])> = all.iter().map(|c| (c.first, c.events[0].1.as_slice())).collect();
    for (n, seq) in acked {
        assert!(there.contains(&(*seq, text(*n).as_bytes())), "{what}: commit {n} is lost");
    }
    assert!(
        or_more || there.len() == acked.len(),
        "{what}: {} stand, {} acknowledged",
        there.len(),
        acked.len()
    );
    if ws.health().status != Status::DurabilityLost {
        let again = crate::worker::commit(&ws, "k", "again", foldlog::Durability::Durable);
        assert!(again.is_ok(), "{what}: {again:?}");
    }
}

/// Each k-th call fails, from the first to behind the last; `check` judges one run. strace counts the calls of
/// each thread by themselves. `step`: of quick runs.
fn each(calls: &str, fault: &str, step: usize, mut check: impl FnMut(&Path, &[String], &str)) {
    let (mut struck, mut k) = (0, 1);
    loop {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("s");
        drop(open(&root, options().segment_size(SEGMENT)));
        let what = format!("{calls} {k}: {fault}");
        let trace = dir.path().join("trace");
        match inject(&root, calls, &format!("{fault}:when={k}"), &trace) {
            Run::Ended(lines) => check(&root, &lines, &what),
            Run::Killed(lines) => panic!("{what}: died after {lines:?}"),
            Run::NotStarted => {}
        }
        // strace says behind a call that it has struck it; behind the last call of any thread there is none to strike.
        if !std::fs::read_to_string(&trace).unwrap().contains("(INJECTED)") {
            assert!(struck > 0, "{what}: no call was struck");
            println!("{calls}, {fault}: {struck} runs, to behind call {k}");
            return;
        }
        struck += 1;
        assert!(k < 2_000, "{what}: there is no end of them");
        k += if quick() { step } else { 1 };
    }
}

/// P2, CE 6: a failed sync is never retried and believed; the next writer, of this process or another, copies the log
/// into fresh blocks and goes on.
#[test]
fn failed_sync_is_recovered_from_by_the_next_writer() {
    let mut failed = 0;
    each("fdatasync", "error=EIO", 5, |root, lines, what| {
        let lines: Vec<String> =
            lines.iter().filter(|line| !line.starts_with("err close")).cloned().collect();
        let (acked, codes) = outcome(&lines);
        let (log, hash) = {
            let (_store, ws) = open(root, options().read_only(true));
            (ws.log().paths().clone(), ws.read(foldlog::State::hash).unwrap())
        };
        // Otherwise it was the sync of a successor in the making, or of what the close says.
        failed += usize::from(!codes.is_empty());
        assert!(codes.iter().all(|code| code == "durability-lost") && codes.len() < 2, "{what}: {lines:?}");
        // Asked before anybody who would recover opens it.
        let poisoned = log.poison().exists();
        if poisoned {
            let found =
                foldlog::store::inspect::workspace(&foldlog::vfs::os::Os, log.dir(), &mut |_| {}).unwrap();
            assert_eq!(found.worst(), Some(foldlog::Severity::Damage), "{what}");
        } else if !codes.is_empty() {
            assert!(lines.contains(&"status healthy".to_owned()), "{what}: {lines:?}");
        }
        let mut other = start_actor(&[], root, "other", 1000, SEGMENT, "rw");
        other.expect("open");
        assert_eq!(other.ask("status"), "healthy", "{what}");
        if !poisoned && codes.is_empty() {
            assert_eq!(other.ask("hash"), format!("ok {hash}"), "{what}");
        }
        assert!(other.ask("commit a b durable").ends_with("durable"), "{what}");
        other.tell("quit");
        other.ended();
        assert!(!log.poison().exists(), "{what}: POISON is left");
        holds(root, &acked, true, what);
        let found =
            foldlog::store::inspect::workspace(&foldlog::vfs::os::Os, log.dir(), &mut |_| {}).unwrap();
        assert!(found.worst() <= Some(foldlog::Severity::Notice), "{what}: {:?}", found.findings);
    });
    assert!(failed > if quick() { 0 } else { 2 }, "no sync of the log was hit");
}

/// Where every sync fails nothing is believed and nothing goes on; a process that had the store open, and whose syncs
/// work, finds out before it says Durable, and copies the log.
#[test]
fn poison_reaches_handles_that_are_open_already() {
    let dir = tempfile::tempdir().unwrap();
    let mut other = an_actor(dir.path(), "other", 1000);
    assert_eq!(other.ask("commit a one durable"), "ok 1 durable");
    let Run::Ended(lines) = inject(dir.path(), "fdatasync", "error=EIO:when=1+", Path::new("/dev/null"))
    else {
        panic!("it died")
    };
    let (_, codes) = outcome(&lines);
    // All commits but the first, and the close.
    assert_eq!(codes.len() as u64, COMMITS, "{lines:?}");
    assert!(codes.iter().all(|code| code == "durability-lost"), "{lines:?}");
    assert_eq!(other.ask("commit a two durable"), "ok 4 durable");
    assert_eq!(other.ask("commit a three buffered"), "ok 5 seen");
    assert_eq!(other.ask("read k"), format!("value {}", text(2)));
    assert_eq!(other.ask("status"), "healthy");
}

#[test]
fn full_disk_at_any_write_refuses_that_commit_alone() {
    each("pwrite64", "error=ENOSPC", 5, |root, lines, what| {
        let (acked, codes) = outcome(lines);
        assert!(codes.iter().all(|code| code == "no-space"), "{what}: {lines:?}");
        assert!(acked.len() as u64 + 1 >= COMMITS || lines[0].starts_with("err open"), "{what}: {lines:?}");
        holds(root, &acked, false, what);
    });
}

#[test]
fn write_errors_refuse_that_commit_and_leave_nothing() {
    each("pwrite64", "error=EIO", 5, |root, lines, what| {
        let (acked, codes) = outcome(lines);
        assert!(codes.iter().all(|code| code == "io"), "{what}: {lines:?}");
        assert!(acked.len() as u64 + 1 >= COMMITS || lines[0].starts_with("err open"), "{what}: {lines:?}");
        holds(root, &acked, false, what);
    });
}

/// Calls that a signal interrupts are none of the caller's business.
#[test]
fn interrupted_calls_are_repeated() {
    for calls in ["pwrite64", "flock", "fdatasync", "openat", "pread64"] {
        each(calls, "error=EINTR", if calls == "openat" { 13 } else { 5 }, |root, lines, what| {
            let (acked, codes) = outcome(lines);
            assert_eq!((acked.len() as u64, codes), (COMMITS, Vec::new()), "{what}: {lines:?}");
            holds(root, &acked, false, what);
        });
    }
}

#[test]
fn no_descriptors_is_an_error_and_no_more() {
    let mut hit = 0;
    each("openat", "error=EMFILE", 1, |root, lines, what| {
        let (acked, codes) = outcome(lines);
        hit += usize::from(!codes.is_empty());
        assert!(codes.iter().all(|code| code == "io"), "{what}: {lines:?}");
        holds(root, &acked, false, what);
    });
    assert!(hit > 0, "no open of the engine was hit");
}

/// Writes that are really cut in the middle: the file-size limit lets the first bytes through and no more. What was
/// whole stands, and of what was not no byte stays, although nobody reopens. `healed`: inside a stretch of zeros, as a
/// healed tail and a reserve leave it, where nothing can be cut off and the bytes must be zeroed.
#[test]
fn short_writes_leave_no_stub() {
    for healed in [false, true] {
        let mut cut = 0;
        let mut limit: u64 = 300;
        loop {
            assert!(limit < 64 << 10, "there is no end of them");
            let dir = tempfile::tempdir().unwrap();
            let root = dir.path().join("s");
            let whole = || open(&root, options().segment_size(1 << 20));
            let (log, segment) = {
                let (_store, ws) = whole();
                (ws.log().paths().clone(), landed(&ws).1.segments[0].path.clone())
            };
            if healed {
                let mut bytes = std::fs::read(&segment).unwrap();
                bytes.resize(6000, 0x55);
                std::fs::write(&segment, bytes).unwrap();
                drop(whole());
                // The clean close has taken the zeros away.
                std::fs::OpenOptions::new().write(true).open(&segment).unwrap().set_len(6000).unwrap();
            }
            let kept = || std::fs::read_dir(log.quarantine()).unwrap().count();
            let before = kept();
            let fsize = format!("--fsize={limit}");
            let wrapper = ["prlimit", &fsize, "env", "--ignore-signal=XFSZ"];
            let Run::Ended(lines) = run(&wrapper, &root, "fsize") else { panic!("died at {limit}") };
            let (acked, codes) = outcome(&lines);
            cut += usize::from(!codes.is_empty());
            assert!(codes.iter().all(|code| code == "io"), "{limit}: {lines:?}");
            let (_store, ws) = open(&root, options().read_only(true));
            let (all, walk) = landed(&ws);
            assert_eq!(all.len(), acked.len(), "{limit}");
            let last = walk.last().unwrap();
            assert!(!last.verdict.is_torn(), "{limit}: a stub is left: {last:?}");
            assert_eq!(kept(), before, "{limit}: a stub was left, and healed later");
            drop(ws);
            holds(&root, &acked, false, &format!("limit {limit}"));
            if codes.is_empty() {
                // Behind the last byte that any of them would write.
                assert!(limit >= SEGMENT && acked.len() as u64 == COMMITS, "{limit}: {lines:?}");
                break;
            }
            limit += if quick() { 611 } else { 97 };
        }
        assert!(cut > 3, "no write was cut");
    }
}

/// The calls between which a process can die and leave something behind.
const CALLS: [&str; 8] =
    ["pwrite64", "renameat2", "renameat", "fdatasync", "fsync", "unlinkat", "mkdirat", "flock"];

/// Killed at each call in turn, from the making of the store on: what was acknowledged is there, at most the commit
/// under way besides, and the next opener makes do with whatever else is left.
#[test]
fn killed_at_any_call_leaves_a_store_that_goes_on() {
    let mut killed = Vec::new();
    let mut rest = CALLS.iter();
    let mut at = rest.next().map(|calls| (*calls, 1));
    while let Some((calls, k)) = at {
        at = Some((calls, k + if quick() { 9 } else { 1 }));
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("s");
        let what = format!("killed at {calls} {k}");
        let lines = match inject(&root, calls, &format!("signal=KILL:when={k}"), Path::new("/dev/null")) {
            Run::Killed(lines) => lines,
            Run::Ended(_) => {
                // It makes no more of them.
                at = rest.next().map(|calls| (*calls, 1));
                continue;
            }
            Run::NotStarted => panic!("{what}: not started"),
        };
        assert!(k < 2_000, "{what}: there is no end of them");
        killed.push(what.clone());
        let (acked, codes) = outcome(&lines);
        assert_eq!(codes, Vec::<String>::new(), "{what}");
        let (_store, ws) = open(&root, options().segment_size(SEGMENT));
        let (all, walk) = landed(&ws);
        assert_eq!(walk.damage, None, "{what}");
        assert!(
            all.len() == acked.len() || all.len() == acked.len() + 1,
            "{what}: {} of {acked:?}",
            all.len()
        );
        for (commit, n) in all.iter().zip(1..) {
            assert_eq!((commit.first, commit.events[0].1.as_slice()), (Seq(n), text(n).as_bytes()), "{what}");
        }
        let again = crate::worker::commit(&ws, "k", "again", foldlog::Durability::Durable);
        assert!(again.is_ok(), "{what}: {again:?}");
    }
    println!("{} kills: {killed:?}", killed.len());
    assert!(killed.len() > if quick() { 8 } else { 60 }, "{killed:?}");
}
