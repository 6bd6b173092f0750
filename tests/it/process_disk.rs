//! Full disks and read-only media, real ones: a size-limited tmpfs and a bind mount, in a private mount namespace.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests change the disk behind the engine's back"
)]

use std::path::Path;
use std::process::Command;

use foldlog::{Durability, ErrorKind, Seq, State, Status};

use crate::worker::{Stage, Worker, an_actor, bytes_of, commit, landed, not_run, open, options, start_actor};

/// Runs a role where mounts are its own and go with it; `None`, and a loud word, where that is not permitted.
pub(crate) fn in_private_mounts(role: &str, args: &[&str]) -> Option<Worker> {
    let as_root = ["unshare", "--mount", "--propagation", "private", "--"];
    let as_user = ["unshare", "--map-root-user", "--mount", "--propagation", "private", "--"];
    for wrapper in [&as_root[..], &as_user[..]] {
        let probe = Command::new(wrapper[0]).args(&wrapper[1..]).arg("true").output();
        if probe.is_ok_and(|out| out.status.success()) {
            return Some(Worker::wrapped(wrapper, role, args));
        }
    }
    not_run(role, "neither root nor user namespaces: no mounts of our own (run as root)");
    None
}

pub(crate) fn run(program: &str, args: &[&str]) {
    let out = Command::new(program).args(args).output().unwrap_or_else(|e| panic!("{program}: {e}"));
    assert!(out.status.success(), "{program} {args:?}: {}", String::from_utf8_lossy(&out.stderr));
}

pub(crate) fn scenario(stage: &mut Stage) {
    let dir = stage.path(0);
    match stage.arg(1) {
        "full" => full(&dir),
        "nothing left" => nothing_left(&dir),
        "read-only" => read_only(&dir),
        "mount point" => mount_point(&dir),
        other => panic!("{other}"),
    }
}

fn tmpfs(dir: &Path, size: &str) {
    run("mount", &["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs", dir.to_str().unwrap()]);
}

/// Takes every byte that is left.
fn fill(path: &Path) {
    use std::io::Write as _;
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
    let mut piece = 4096;
    while piece > 0 {
        if file.write_all(&vec![1; piece]).is_err() {
            piece /= 2;
        }
    }
}

/// BR-015, BR-064: after ENOSPC the same live handle goes on as soon as there is room, and no stub stays behind.
fn full(dir: &Path) {
    tmpfs(dir, "1m");
    let root = dir.join("store");
    let (_store, ws) = open(&root, options().segment_size(64 << 10));
    // So much that rotations fall into the full stretch too, and so odd that a write is cut in the middle.
    let text = |n: u64| format!("{n}:").repeat(500 + usize::try_from(n % 7).unwrap() * 300);
    let mut acknowledged = Vec::new();
    for round in 0..3u64 {
        let mut refused = 0;
        for n in 0u64.. {
            let durability = if n.is_multiple_of(3) { Durability::Durable } else { Durability::Buffered };
            match commit(&ws, &format!("t{round}"), &text(n), durability) {
                Ok(receipt) => acknowledged.push((receipt.first, text(n))),
                Err(e) => {
                    assert!(matches!(e.kind(), ErrorKind::NoSpace), "{e:?}");
                    refused += 1;
                    if refused == 5 {
                        break;
                    }
                }
            }
        }
        let last = acknowledged.last().unwrap().0;
        assert_eq!(ws.read(State::last).unwrap(), last, "a refused commit is seen");
        assert_eq!(ws.health().status, Status::Healthy);
        // Others, with the disk full.
        let mut reader = start_actor(&[], &root, "reader", 1000, 8 << 20, "ro");
        assert_eq!(reader.next().unwrap(), format!("open {last}"));
        assert_eq!(reader.ask("hash"), format!("ok {}", ws.read(State::hash).unwrap()));
        // Room again, not much: drop a file of ballast by growing the file system.
        run("mount", &["-o", &format!("remount,size={}k", 1024 + 300 * (round + 1)), dir.to_str().unwrap()]);
        let receipt = commit(&ws, "resumed", "on the same handle", Durability::Durable).unwrap();
        assert_eq!(receipt.first, Seq(last.0 + 1));
        acknowledged.push((receipt.first, "on the same handle".into()));
    }
    let (all, walk) = landed(&ws);
    assert_eq!(walk.damage, None);
    let there: Vec<(Seq, String)> =
        all.iter().map(|c| (c.first, String::from_utf8(c.events[0].1.clone()).unwrap())).collect();
    assert!(
        there == acknowledged,
        "the log has {} commits, {} were acknowledged",
        there.len(),
        acknowledged.len()
    );
    assert!(walk.segments.len() > 3, "no rotation, nothing proven about it");
    assert!(
        std::fs::read_dir(ws.log().paths().quarantine()).unwrap().next().is_none(),
        "stubs were left to heal"
    );
}

/// With not a byte left, and half a frame of a dead writer at the end: opening and reading work, nothing is cut.
fn nothing_left(dir: &Path) {
    tmpfs(dir, "1m");
    let root = dir.join("store");
    let mut writer = an_actor(&root, "writer", 1000);
    assert_eq!(writer.ask("commit a one durable"), "ok 1 durable");
    assert_eq!(writer.ask("commit a two buffered"), "ok 2 seen");
    writer.kill();
    let (log, segment) = {
        let (_store, ws) = open(&root, options().read_only(true));
        (ws.log().paths().clone(), landed(&ws).1.segments[0].path.clone())
    };
    let mut bytes = std::fs::read(&segment).unwrap();
    let whole = bytes.len();
    bytes.extend_from_slice(&[0x55; 100]);
    std::fs::write(&segment, &bytes).unwrap();
    fill(&dir.join("ballast"));
    for mode in ["ro", "rw"] {
        let mut actor = start_actor(&[], &root, "late", 1000, 8 << 20, mode);
        let opened = actor.next().unwrap();
        if mode == "rw" && opened.starts_with("err no-space") {
            // A session needs a file; tmpfs has none to give. Reading is what is promised.
            continue;
        }
        assert_eq!(opened, "open 2", "{mode}");
        assert_eq!(actor.ask("read a"), "value two", "{mode}");
        let refused = actor.ask("commit a three buffered");
        assert!(
            refused.starts_with(if mode == "ro" { "err read-only" } else { "err no-space" }),
            "{refused}"
        );
    }
    assert_eq!(std::fs::read(&segment).unwrap(), bytes, "cut without a copy");
    std::fs::remove_file(dir.join("ballast")).unwrap();
    let mut writer = an_actor(&root, "writer", 1000);
    assert_eq!(writer.ask("commit a three durable"), "ok 3 durable");
    assert!(std::fs::read(&segment).unwrap()[whole..].iter().take(100).ne([0x55; 100].iter()));
    let kept = std::fs::read_dir(log.quarantine()).unwrap().filter(|e| {
        let path = e.as_ref().unwrap().path();
        path.extension().is_some_and(|x| x == "bin") && std::fs::read(path).unwrap() == [0x55; 100]
    });
    assert_eq!(kept.count(), 1, "the torn bytes are not in quarantine");
}

fn read_only(dir: &Path) {
    let (root, mounted) = (dir.join("store"), dir.join("mounted"));
    let mut writer = an_actor(&root, "writer", 1000);
    assert_eq!(writer.ask("commit a one durable"), "ok 1 durable");
    writer.kill(); // so that there is a dead session's file, too, to be left alone
    std::fs::create_dir(&mounted).unwrap();
    let (from, to) = (root.to_str().unwrap(), mounted.to_str().unwrap());
    run("mount", &["--bind", from, to]);
    run("mount", &["-o", "remount,bind,ro", to]);
    let before = bytes_of(&root);
    {
        let (store, ws) = open(&mounted, options().read_only(true));
        assert_eq!(ws.read(State::last).unwrap(), Seq(1));
        assert_eq!(store.live_sessions().unwrap().len(), 0);
        assert_eq!(store.workspaces().unwrap().len(), 1);
        assert_eq!(commit(&ws, "a", "b", Durability::Durable).unwrap_err().code(), "read-only");
        landed(&ws);
    }
    let error = foldlog::Store::open(&mounted, options()).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::ReadOnly { .. }), "{error:?}");
    assert!(bytes_of(&root) == before, "looking changed something");
}

/// The store's folder is itself a mount point, which no rename can replace.
fn mount_point(dir: &Path) {
    tmpfs(dir, "4m");
    let (store, ws) = open(dir, options());
    let _ = commit(&ws, "a", "one", Durability::Durable).unwrap();
    drop((store, ws));
    let (_store, ws) = open(dir, options().create(false));
    assert_eq!(ws.read(State::last).unwrap(), Seq(1));
}

fn play(situation: &str) {
    let dir = tempfile::tempdir().unwrap();
    if let Some(worker) = in_private_mounts("disk", &[dir.path().to_str().unwrap(), situation]) {
        worker.ended();
    }
}

#[test]
fn full_disk_refuses_and_the_same_handle_resumes() {
    play("full");
}

#[test]
fn full_disk_is_no_obstacle_to_reading() {
    play("nothing left");
}

#[test]
fn read_only_medium_is_read_and_not_touched() {
    play("read-only");
}

#[test]
fn mount_point_becomes_a_store() {
    play("mount point");
}
