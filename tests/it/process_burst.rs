//! Real processes, one of which commits in an endless burst and keeps LOCK: others get it, and a stopped one is named.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests look at the clock themselves")]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use foldlog::{Durability, Housekeeping, Seq, State};

use crate::worker::{BOUND, Stage, Worker, commit, landed, open, options, quick};

/// Role: commits as fast as it can, with the housekeeping thread that makes it keep LOCK, until it is told to stop.
pub(crate) fn burster(stage: &mut Stage) {
    let options = options().label("burster").housekeeping(Housekeeping::Thread).lock_timeout(BOUND);
    let (_store, ws) = open(&stage.path(0), options);
    let stop = Arc::new(AtomicBool::new(false));
    let stopping = Arc::clone(&stop);
    let me = std::thread::spawn(move || {
        let mut n = 0u64;
        while !stopping.load(Ordering::Acquire) {
            let _ = commit(&ws, "burst", &n.to_string(), Durability::Buffered).unwrap();
            n += 1;
            if n == 100 {
                crate::worker::say("bursting");
            }
        }
        n
    });
    stage.hear();
    stop.store(true, Ordering::Release);
    stage.say(&format!("did {}", me.join().unwrap()));
}

fn start(root: &Path) -> Worker {
    let burster = Worker::start("burster", &[root.to_str().unwrap()]);
    burster.expect("bursting");
    burster
}

fn stop(mut burster: Worker) -> u64 {
    burster.tell("stop");
    let did = burster.expect("did").parse().unwrap();
    burster.ended();
    did
}

#[test]
fn single_commits_beside_an_endless_burst_are_not_starved() {
    let dir = tempfile::tempdir().unwrap();
    let (_store, ws) = open(dir.path(), options().lock_timeout(Duration::from_secs(10)));
    let burster = start(dir.path());
    let rounds = if quick() { 50 } else { 300 };
    let mut waits: Vec<Duration> = (0..rounds)
        .map(|n: u64| {
            let start = Instant::now();
            let _ = commit(&ws, "single", &n.to_string(), Durability::Buffered).expect("it gets the lock");
            start.elapsed()
        })
        .collect();
    let did = stop(burster);
    waits.sort();
    println!("median {:?}, longest {:?}", waits[waits.len() / 2], waits[waits.len() - 1]);
    // Far above what it takes on a quiet machine: a starved waiter waits for the time-out.
    assert!(waits[waits.len() / 2] < Duration::from_millis(500), "{waits:?}");
    assert!(waits[waits.len() - 1] < Duration::from_secs(5), "{waits:?}");
    let (all, walk) = landed(&ws);
    assert!(walk.damage.is_none(), "{walk:?}");
    let of = |key: &str| all.iter().filter(|commit| commit.events[0].0 == key).count() as u64;
    assert_eq!((of("burst"), of("single")), (did, rounds));
    assert_eq!(ws.read(State::last).unwrap(), Seq(did + rounds));
}

/// A keeper that is stopped, in a debugger or by a closed lid, is a holder like any other.
#[test]
#[cfg(unix)]
fn stopped_keeper_is_named_and_goes_on() {
    use rustix::process::Signal;

    let dir = tempfile::tempdir().unwrap();
    let (_store, ws) = open(dir.path(), options().lock_timeout(Duration::from_millis(50)));
    let burster = start(dir.path());
    let begun = Instant::now();
    let holder = loop {
        assert!(begun.elapsed() < BOUND, "it was never stopped under LOCK");
        burster.signal(Signal::STOP);
        let answer = commit(&ws, "single", "beside a stopped one", Durability::Buffered);
        burster.signal(Signal::CONT);
        match answer.map_err(|e| e.kind().to_string()) {
            // It was stopped between giving the lock back and taking it again.
            Ok(_) => {}
            Err(text) => break text,
        }
    };
    assert!(holder.starts_with("locked by burster (pid"), "{holder}");
    // Who has waited for longer than a hand-over takes asks seldom; a keeper whose turns are short took the lock back each
    // time before it was asked, for as long as its burst went on.
    burster.signal(Signal::STOP);
    let root = dir.path().to_path_buf();
    drop((ws, _store));
    let waiter = std::thread::spawn(move || {
        let (_store, ws) = open(&root, options().lock_timeout(Duration::from_secs(30)));
        for n in 0..20 {
            let _ = commit(&ws, "single", &n.to_string(), Durability::Buffered).expect("it gets the lock");
        }
    });
    // Nothing is proven if it has not waited for long by then, and nothing breaks.
    std::thread::sleep(Duration::from_millis(300));
    burster.signal(Signal::CONT);
    waiter.join().unwrap();
    stop(burster);
}
