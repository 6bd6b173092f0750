//! A dead holder's lock is free at once; a stuck one is named, and keeps nobody from reading.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests look at clock and disk themselves"
)]

use std::time::{Duration, Instant};

use crate::worker::{an_actor, landed, open, options, start_actor};

/// The holder dies inside its closure, that is, with LOCK and in the middle of its own commit.
#[test]
fn holder_killed_in_its_closure_frees_the_lock_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let mut other = an_actor(dir.path(), "other window", 60_000);
    assert_eq!(other.ask("commit a one buffered"), "ok 1 seen");
    for round in 0..5 {
        let mut holder = an_actor(dir.path(), "holder", 60_000);
        holder.tell("hold b buffered");
        holder.expect("inside");
        other.tell("commit a two buffered");
        assert!(other.next_within(Duration::from_millis(20)).is_err(), "the lock does not exclude");
        let killed = Instant::now();
        holder.kill();
        assert_eq!(other.next().unwrap(), format!("ok {} seen", round + 2));
        // Far from the bar (10 ms), for machines that are busy; but no time-out of the lock or of a session.
        assert!(killed.elapsed() < Duration::from_secs(5), "{:?}", killed.elapsed());
        assert_eq!(other.ask("read b"), "absent", "a commit that was never written has an effect");
    }
    let (_store, ws) = open(dir.path(), options());
    assert_eq!(landed(&ws).0.len(), 6);
    assert_eq!(ws.open_report().findings, []);
}

/// Design 3.6: "a live but stuck holder is named in the error", and 5: open and reads never wait for LOCK.
#[test]
fn stuck_holder_is_named_and_readers_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let mut holder = an_actor(dir.path(), "VS Code window 2", 60_000);
    let mut other = an_actor(dir.path(), "other window", 300);
    assert_eq!(holder.ask("commit a one durable"), "ok 1 durable");
    assert_eq!(other.ask("commit a two buffered"), "ok 2 seen");
    holder.tell("hold b buffered");
    holder.expect("inside");
    #[cfg(unix)]
    holder.signal(rustix::process::Signal::STOP);
    let busy = other.ask("commit a three buffered");
    assert!(busy.starts_with("err busy ") && busy.contains("VS Code window 2"), "{busy}");
    assert!(!busy.contains("other window"), "it names itself: {busy}");
    assert_eq!(other.ask("read a"), "value two");
    // A store opened while somebody is stuck, and read for the first time.
    for mode in ["rw", "ro"] {
        let mut third = start_actor(&[], dir.path(), "third", 300, 8 << 20, mode);
        third.expect("open 2");
        assert_eq!(third.ask("read a"), "value two");
    }
    #[cfg(unix)]
    holder.signal(rustix::process::Signal::CONT);
    holder.tell("go");
    assert_eq!(holder.next().unwrap(), "ok 3 seen");
    assert_eq!(other.ask("commit a four durable"), "ok 4 durable");
    assert_eq!(holder.ask("read a"), "value four");
    assert_eq!(holder.ask("hash"), other.ask("hash"));
}

/// A thread of the same process waits for the in-process mutex; it is told the same.
#[test]
fn stuck_holder_in_the_same_process_is_an_answer_too() {
    let dir = tempfile::tempdir().unwrap();
    let (_store, ws) = open(dir.path(), options().lock_timeout(Duration::from_millis(200)));
    let (enter, entered) = std::sync::mpsc::channel();
    let (leave, left) = std::sync::mpsc::channel::<()>();
    let stuck = ws.clone();
    let thread = std::thread::spawn(move || {
        stuck.commit(foldlog::Durability::Buffered, move |_, draft| {
            enter.send(()).unwrap();
            left.recv().unwrap();
            draft.push(foldlog::NewEvent::state(100, 1, foldlog::Key::task("a"), b"x"));
            Ok(())
        })
    });
    entered.recv().unwrap();
    let error = crate::worker::commit(&ws, "a", "y", foldlog::Durability::Buffered).unwrap_err();
    assert_eq!(error.code(), "busy", "{error}");
    leave.send(()).unwrap();
    assert_eq!(thread.join().unwrap().unwrap().first, foldlog::Seq(1));
    assert_eq!(
        crate::worker::commit(&ws, "a", "y", foldlog::Durability::Buffered).unwrap().first,
        foldlog::Seq(2)
    );
}
