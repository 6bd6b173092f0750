//! Power cuts, real ones: an ext4 of its own on a loop device is shut down under its writers (`EXT4_IOC_SHUTDOWN`), its
//! page cache is gone with the mount, and what is on the disk is mounted again.
//!
//! What was acknowledged Durable is there; what was not may be gone; a cut alone is never called damage; the first
//! append afterwards starts an epoch. The ioctl only ever goes to the loop-mounted file system.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests look at the disk themselves")]

use std::os::fd::AsRawFd as _;
use std::path::Path;
use std::process::Command;

use foldlog::{Durability, Seq, State, Status};

use crate::process_disk::{in_private_mounts, run};
use crate::worker::{Dice, Stage, Worker, commit, landed, not_run, open, options, quick, seed, start_actor};

/// Cuts the power of the file system at this folder. `flags`: 0 = as a clean end of the journal would, 1 = flush the
/// journal first, 2 = nothing more reaches the disk.
fn cut(mount: &Path, flags: u32) {
    const EXT4_IOC_SHUTDOWN: libc::Ioctl = 0x8004_587d_u32 as libc::Ioctl;
    let folder = std::fs::File::open(mount).unwrap();
    #[expect(unsafe_code, reason = "no safe call for this ioctl")]
    // SAFETY: the ioctl reads one u32, which lives until it returns, and the descriptor is open.
    let failed = unsafe { libc::ioctl(folder.as_raw_fd(), EXT4_IOC_SHUTDOWN, &raw const flags) };
    assert_eq!(failed, 0, "{}", std::io::Error::last_os_error());
}

/// Has the system write back some of a file, as it may at any time, in whatever order.
fn write_back(path: &Path, from: u64, len: u64) {
    let Ok(file) = std::fs::File::open(path) else { return };
    let (from, len) = (i64::try_from(from).unwrap(), i64::try_from(len).unwrap());
    #[expect(unsafe_code, reason = "no safe call for it")]
    // SAFETY: takes numbers only, and the descriptor is open.
    let _either_way = unsafe { libc::sync_file_range(file.as_raw_fd(), from, len, 7) };
}

/// Role: one mount after another, each cut at some moment. Says how often something that was not durable was lost.
pub(crate) fn scenario(stage: &mut Stage) {
    let dir = stage.path(0);
    let rounds = stage.number(1);
    let mut dice = Dice::new(stage.number(2));
    let (image, mount) = (dir.join("image"), dir.join("mount"));
    std::fs::File::create(&image).unwrap().set_len(48 << 20).unwrap();
    std::fs::create_dir(&mount).unwrap();
    run("mkfs.ext4", &["-q", image.to_str().unwrap()]);
    let (mut lost, mut healed, mut epochs_before) = (0, 0, 0);
    let mut durable: Vec<(Seq, String)> = Vec::new();
    for round in 0..rounds {
        let (i, m) = (image.to_str().unwrap(), mount.to_str().unwrap());
        run("mount", &["-o", "loop", i, m]);
        let root = mount.join("store");
        // The first looker only looks: what it finds is what the cut left.
        if round > 0 {
            let (_store, ws) = open(&root, options().read_only(true));
            assert_eq!(ws.health().status, Status::ReadOnly, "round {round}: {:?}", ws.health());
            holds(&ws, &durable);
        }
        // By turns in files that grow and in files with a reserve, where a cut leaves whole frames behind holes.
        let mode = if round % 2 == 0 { "rw" } else { "grow" };
        let mut writer = start_actor(&[], &root, "writer", 10_000, 24 << 10, mode);
        let opened: u64 = writer.expect("open").parse().unwrap();
        let mut attempted = opened;
        let text = |n: u64| format!("r{round}n{n}-{}", "x".repeat(usize::try_from(n * 37 % 1500).unwrap()));
        let mut last_durable = Seq(opened);
        let commits = 20 + dice.below(60);
        for n in 0..commits {
            let level = if dice.below(6) == 0 { "durable" } else { "buffered" };
            let answer = writer.ask(&format!("commit k{} {} {level}", n % 5, text(n)));
            let seq = Seq(answer.split(' ').nth(1).unwrap().parse().unwrap());
            assert!(answer.starts_with("ok"), "{answer}");
            attempted = seq.0;
            if level == "durable" {
                durable.push((seq, text(n)));
                last_durable = seq;
            }
            if dice.below(4) == 0 {
                let log = std::fs::read_dir(root.join("workspaces")).unwrap().next().unwrap().unwrap().path();
                let mut segments: Vec<_> =
                    std::fs::read_dir(log.join("log")).unwrap().map(|e| e.unwrap().path()).collect();
                segments.sort();
                let from = dice.below(24) << 10 & !4095;
                write_back(segments.last().unwrap(), from, (1 + dice.below(3)) * 4096);
            }
        }
        let epochs: usize = writer.ask("epochs").trim_start_matches("ok ").parse().unwrap();
        assert_eq!(
            epochs,
            epochs_before + 1,
            "round {round}: an epoch starts with the first append after a cut"
        );
        cut(&mount, [2, 2, 0, 1][usize::try_from(dice.below(4)).unwrap()]);
        writer.kill();
        run("umount", &[m]);
        run("mount", &["-o", "loop", i, m]);
        {
            let (_store, ws) = open(&root, options().segment_size(24 << 10));
            let report = ws.open_report();
            assert_eq!(ws.health().status, Status::Healthy, "round {round}: {:?}", ws.health());
            assert!(report.seq >= last_durable, "round {round}: {} of {last_durable} durable", report.seq);
            assert!(report.seq.0 <= attempted);
            holds(&ws, &durable);
            lost += attempted - report.seq.0;
            healed += report.findings.iter().filter(|f| f.code == "healed").count();
            // Numbers are given out again, in another epoch: a stored place in what was lost is not taken for one in
            // what came instead.
            let before = ws.read(|state| state.cursor()).unwrap();
            let receipt = commit(&ws, "after", "the cut", Durability::Durable).unwrap();
            assert_eq!(receipt.first, Seq(report.seq.0 + 1));
            assert_ne!(receipt.cursor.epoch, before.epoch);
            durable.push((receipt.first, "the cut".into()));
            epochs_before = ws.read(|state| state.epochs().len()).unwrap();
        }
        run("umount", &[m]);
    }
    stage.say(&format!(
        "rounds {rounds}, not durable and lost {lost}, healed {healed}, durable and there {}",
        durable.len()
    ));
    stage.say(&format!("lost {lost}"));
}

/// Everything acknowledged Durable stands at its number, with its contents.
fn holds(ws: &foldlog::Workspace, durable: &[(Seq, String)]) {
    let (all, walk) = landed(ws);
    assert_eq!(walk.damage, None);
    for (seq, text) in durable {
        let there = all.iter().find(|commit| commit.first == *seq);
        assert!(
            there.is_some_and(|commit| commit.events[0].1 == text.as_bytes()),
            "event {seq}, acknowledged as durable, is lost; the log ends at {}",
            ws.read(State::last).unwrap()
        );
    }
}

/// Why no loop device can be mounted here, if so.
fn forbidden() -> Option<String> {
    let dir = tempfile::tempdir().unwrap();
    let (image, mount) = (dir.path().join("image"), dir.path().join("mount"));
    std::fs::File::create(&image).unwrap().set_len(16 << 20).unwrap();
    std::fs::create_dir(&mount).unwrap();
    let script = format!(
        "mkfs.ext4 -q {i} && mount -o loop {i} {m} && umount {m}",
        i = image.display(),
        m = mount.display()
    );
    let out =
        Command::new("unshare").args(["--mount", "--propagation", "private", "sh", "-c", &script]).output();
    match out {
        Ok(out) if out.status.success() => None,
        Ok(out) => Some(String::from_utf8_lossy(&out.stderr).trim().replace('\n', "; ")),
        Err(e) => Some(format!("unshare: {e}")),
    }
}

#[test]
fn power_cuts_take_nothing_durable_and_are_never_called_damage() {
    if let Some(why) = forbidden() {
        not_run(
            "power cuts on a loop-mounted ext4",
            &format!("{why} (needs root, mkfs.ext4 and loop devices)"),
        );
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let rounds = if quick() { "4" } else { "16" };
    let worker: Worker =
        in_private_mounts("power", &[dir.path().to_str().unwrap(), rounds, &seed().to_string()]).unwrap();
    println!("{}", worker.expect("rounds"));
    let lost: u64 = worker.expect("lost").parse().unwrap();
    assert!(lost > 0, "no cut took anything: the power was not really cut");
    worker.ended();
}
