//! Eight writers on one log, a reader that polls, and a controller that kills and stops them as a seed says.
//!
//! In the end: nothing acknowledged is lost, nothing is there twice, every commit is whole and its writer's own, and
//! all processes have the same state hash.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests look at clock and disk themselves"
)]

use std::collections::HashMap;
use std::time::{Duration, Instant};

use foldlog::{
    Draft, Durability, ErrorKind, Expect, Housekeeping, Key, NewEvent, OpId, Result, Revision, Seq, State,
    Status, Workspace,
};

use crate::worker::{BOUND, Dice, NOTE, Stage, Worker, landed, open, options, quick, seed};

const WRITERS: u64 = 8;
const SEATS: usize = 8;
/// Small, so that there are dozens of rotations.
const SEGMENT: u64 = 48 << 10;

/// Commits of one writer.
fn count() -> u64 {
    if quick() {
        150
    } else if cfg!(windows) {
        500
    } else {
        2000
    }
}

fn key(writer: u64) -> Key {
    Key::task(&format!("w{writer}"))
}

/// The twin of a writer's key: every commit changes both, so whoever sees one without the other has seen half a commit.
fn twin(writer: u64) -> Key {
    Key::task(&format!("twin{writer}"))
}

/// What event `i` of `of` in commit `n` says; after the colons the writer's letter, so that a splice of two writers
/// shows although it parses.
fn body(writer: u64, n: u64, i: u64, of: u64) -> Vec<u8> {
    let len = match n % 97 {
        0 if n.is_multiple_of(2) => 100_000,
        0 => 20_000,
        m => 20 + m * 3,
    };
    let mut body = format!("{writer}:{n}:{i}:{of}:").into_bytes();
    body.resize(body.len() + usize::try_from(len).unwrap(), letter(writer));
    body
}

fn letter(writer: u64) -> u8 {
    b'a' + u8::try_from(writer).unwrap()
}

/// Writer, commit, index and number of events in a body, which must be one writer's from end to end.
fn parse(body: &[u8]) -> (u64, u64, u64, u64) {
    let text = std::str::from_utf8(body).unwrap();
    let mut parts = text.split(':');
    let mut number = || parts.next().unwrap().parse::<u64>().unwrap();
    let (writer, n, i, of) = (number(), number(), number(), number());
    assert_eq!(body, super::process_kill::body(writer, n, i, of), "a body of several writers");
    (writer, n, i, of)
}

fn last_of(state: &State, key: &Key) -> u64 {
    state.get(key).map_or(0, |known| parse(&known.body).1)
}

fn durability(n: u64) -> Durability {
    match n % 10 {
        0 => Durability::Durable,
        1..=3 => Durability::Interval(20),
        _ => Durability::Buffered,
    }
}

fn events(writer: u64, n: u64) -> Vec<NewEvent> {
    let of = 2 + n % 4;
    let at = |i: u64| match i {
        0 => key(writer),
        1 => twin(writer),
        _ => Key::document(&format!("shared{}", (n + i) % 5)),
    };
    (0..of)
        .map(|i| match i {
            4 => NewEvent::record(NOTE, 1, at(i), body(writer, n, i, of)),
            _ => NewEvent::state(NOTE, 1, at(i), body(writer, n, i, of)),
        })
        .collect()
}

/// Role: does its commits from where it (or one before it, since killed) got to, and prints each acknowledgement.
pub(crate) fn writer(stage: &mut Stage) {
    let (root, me, count) = (stage.path(0), stage.number(1), stage.number(2));
    let options = options()
        .segment_size(SEGMENT)
        .label(format!("writer {me}"))
        .lock_timeout(BOUND)
        .housekeeping(Housekeeping::Thread);
    let (_store, ws) = open(&root, options);
    let mut last = ws.read(|state| last_of(state, &key(me))).unwrap();
    stage.say(&format!("opened {last}"));
    if last > 0 && last % 2 == 1 {
        // Whoever was before us may have died without hearing the answer: the same request again is the same result.
        let again = commit(&ws, me, last).unwrap();
        assert!(again.again, "commit {last} of writer {me} was applied twice");
    }
    while last < count {
        let n = last + 1;
        match commit(&ws, me, n) {
            Ok(receipt) => stage.say(&format!(
                "ack {n} {} {} {}",
                receipt.first,
                receipt.count,
                if receipt.durable { "durable" } else { "seen" }
            )),
            // Somebody else's commit came between our look and ours: look again.
            Err(e) if matches!(e.kind(), ErrorKind::Conflict(_)) => continue,
            Err(e) => panic!("writer {me}, commit {n}: {e}"),
        }
        last = n;
    }
    stage.say("done");
    stage.hear();
    stage.say(&format!("hash {}", ws.read(State::hash).unwrap()));
    stage.hear();
}

fn commit(ws: &Workspace, me: u64, n: u64) -> Result<foldlog::Receipt> {
    let shared = Key::document(&format!("shared{}", n % 5));
    let (revision, seen) =
        ws.read(|state| (state.revision(&key(me)), state.last())).expect("reading needs no lock");
    let expected_shared = ws.log().cached(|state| state.revision(&shared)).unwrap();
    ws.commit(durability(n), move |state: &State, draft: &mut Draft| {
        let fresh = last_of(state, &key(me)) < n;
        if n % 2 == 1 {
            draft.operation(id(me, n), format!("{me}:{n}").as_bytes(), seen);
        } else {
            assert!(fresh, "commit {n} of writer {me} stands already");
        }
        if fresh && n.is_multiple_of(3) {
            draft.expect(key(me), Expect::Revision(revision));
        }
        if fresh && n.is_multiple_of(7) {
            draft.expect(
                shared,
                match expected_shared {
                    Revision(0) => Expect::Absent,
                    some => Expect::Revision(some),
                },
            );
        }
        for event in events(me, n) {
            draft.push(event);
        }
        Ok(())
    })
}

fn id(me: u64, n: u64) -> OpId {
    let mut id = [0; 16];
    id[..8].copy_from_slice(&(me + 1).to_le_bytes());
    id[8..].copy_from_slice(&n.to_le_bytes());
    OpId(id)
}

/// Role: reads on and on, through one read-only handle and fresh ones.
pub(crate) fn poller(stage: &mut Stage) {
    let root = stage.path(0);
    let reading = || options().read_only(true);
    let (_store, ws) = open(&root, reading());
    stage.say("polling");
    // The test says when to stop; until then this thread must not wait for it.
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let seen = std::sync::Arc::clone(&stop);
    let me = std::thread::spawn(move || {
        let mut last = Seq(0);
        let mut counts = [0; SEATS];
        let mut looks = 0u64;
        loop {
            let stopping = seen.load(std::sync::atomic::Ordering::Acquire);
            let now = ws.read(|state| look(state, &mut counts)).unwrap();
            assert!(now >= last, "the log went back from {last} to {now}");
            last = now;
            assert_eq!(ws.health().status, Status::ReadOnly, "{:?}", ws.health());
            if looks.is_multiple_of(64) {
                let (_store, fresh) = open(&root, reading());
                let report = fresh.open_report();
                assert!(report.seq >= last, "a fresh look ended at {} behind {last}", report.seq);
                assert_eq!(fresh.health().status, Status::ReadOnly, "{:?}", fresh.health());
                fresh.read(|state| look(state, &mut counts.clone())).unwrap();
            }
            looks += 1;
            if stopping {
                return (looks, ws.read(State::hash).unwrap());
            }
        }
    });
    stage.hear();
    stop.store(true, std::sync::atomic::Ordering::Release);
    let (looks, hash) = me.join().unwrap();
    stage.say(&format!("looks {looks}"));
    stage.say(&format!("hash {hash}"));
}

/// Checks one look: whole commits, and no writer's count ever goes back. Returns how far it goes.
fn look(state: &State, counts: &mut [u64; SEATS]) -> Seq {
    for (writer, count) in (0..).zip(counts) {
        let now = last_of(state, &key(writer));
        assert_eq!(now, last_of(state, &twin(writer)), "half of a commit of writer {writer} was seen");
        assert!(now >= *count, "writer {writer} went back from {count} to {now}");
        *count = now;
    }
    state.last()
}

struct Acked {
    first: u64,
    events: u64,
}

/// What the controller knows of one writer.
struct Seat {
    worker: Worker,
    acked: HashMap<u64, Acked>,
    done: bool,
    stopped: bool,
}

impl Seat {
    fn take(&mut self, me: u64, line: &str) {
        let mut words = line.split(' ');
        let first = words.next();
        match first {
            Some("ack") => {
                let mut number = || words.next().unwrap().parse::<u64>().unwrap();
                let (n, first, events) = (number(), number(), number());
                assert!(
                    self.acked.insert(n, Acked { first, events }).is_none(),
                    "commit {n} of writer {me} twice"
                );
                if n.is_multiple_of(10) {
                    assert_eq!(words.next(), Some("durable"));
                }
            }
            Some("opened") => {
                let to: u64 = words.next().unwrap().parse().unwrap();
                let highest = self.acked.keys().max().copied().unwrap_or(0);
                assert!(
                    to >= highest,
                    "writer {me} found {to} commits of its own, {highest} were acknowledged"
                );
            }
            Some("done") => self.done = true,
            _ => panic!("writer {me} said {line:?}"),
        }
    }
}

#[test]
fn eight_writers_killed_and_stopped_lose_nothing() {
    let seed = seed();
    let mut dice = Dice::new(seed);
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("store");
    let (count, begun) = (count(), Instant::now());
    drop(open(&root, options().segment_size(SEGMENT)));
    let mut poller = Worker::start("poller", &[root.to_str().unwrap()]);
    poller.expect("polling");
    let start =
        |me: u64| Worker::start("writer", &[root.to_str().unwrap(), &me.to_string(), &count.to_string()]);
    let mut seats: Vec<Seat> = (0..WRITERS)
        .map(|me| Seat { worker: start(me), acked: HashMap::new(), done: false, stopped: false })
        .collect();
    let (mut kills, mut stops, mut quiet) = (0, 0, Instant::now());
    let mut until_next = 40;
    while seats.iter().any(|seat| !seat.done) {
        assert!(begun.elapsed() < BOUND * 2, "not done: seed {seed}");
        let mut heard = 0;
        for (me, seat) in (0..).zip(&mut seats) {
            while let Some(line) = seat.worker.try_next() {
                seat.take(me, &line);
                heard += 1;
            }
        }
        if heard > 0 {
            quiet = Instant::now();
        } else {
            // Nobody moves: the stopped ones may hold LOCK.
            let waited = quiet.elapsed();
            assert!(waited < BOUND, "no commit for {waited:?}: seed {seed}");
            if waited > Duration::from_millis(30) {
                for seat in &mut seats {
                    resume(seat);
                }
            }
            pause();
        }
        until_next -= i64::from(heard);
        if until_next > 0 {
            continue;
        }
        // The dice alone decide who and what; when, the writers' own progress does.
        until_next = 40 + i64::try_from(dice.below(if quick() { 40 } else { 300 })).unwrap();
        let me = dice.below(WRITERS);
        let seat = &mut seats[usize::try_from(me).unwrap()];
        if seat.done {
            continue;
        }
        if dice.below(3) > 0 || !stop(seat) {
            kills += 1;
            seat.worker.kill();
            while let Some(line) = seat.worker.next() {
                seat.take(me, &line);
            }
            seat.stopped = false;
            if !seat.done {
                seat.worker = start(me);
            }
        } else {
            stops += 1;
        }
    }
    let mut hashes = Vec::new();
    for (me, seat) in (0..).zip(&mut seats) {
        resume(seat);
        if seat.worker.try_next().is_none()
            && seat.worker.next_within(Duration::ZERO).is_ok_and(|l| l.is_none())
        {
            seat.worker = start(me); // killed after its last acknowledgement
            seat.worker.expect("opened");
            seat.worker.expect("done");
        }
        seat.worker.tell("hash");
    }
    for seat in &seats {
        hashes.push(seat.worker.expect("hash"));
    }
    poller.tell("stop");
    let looks: u64 = poller.expect("looks").parse().unwrap();
    hashes.push(poller.expect("hash"));
    let (_store, ws) = open(&root, options().create(false));
    hashes.push(ws.read(State::hash).unwrap().to_string());
    let (_store, reading) = open(&root, options().read_only(true));
    hashes.push(reading.read(State::hash).unwrap().to_string());
    hashes.dedup();
    assert_eq!(hashes.len(), 1, "several state hashes: {hashes:?}; seed {seed}");
    check_log(&ws, &seats, count);
    let segments = ws.open_report().segments;
    println!(
        "{} commits, {kills} kills, {stops} stops, {looks} looks, {segments} segments, {:?}",
        WRITERS * count,
        begun.elapsed()
    );
    assert!(segments > 5 && kills > 3 && looks > 10, "too little happened to prove anything");
    assert_eq!(ws.health().status, Status::Healthy);
}

/// Somebody deletes, empties, scribbles over and replaces the control block all the time, under processes that have it
/// mapped.
#[test]
fn control_block_struck_under_four_writers_loses_nothing() {
    let seed = seed();
    let mut dice = Dice::new(seed);
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("store");
    let (count, begun) = (if quick() { 100 } else { 400 }, Instant::now());
    let (_store, ws) = open(&root, options().segment_size(SEGMENT));
    let control = ws.log().paths().control();
    let mut poller = Worker::start("poller", &[root.to_str().unwrap()]);
    poller.expect("polling");
    let args = |me: u64| [root.to_str().unwrap().to_owned(), me.to_string(), count.to_string()];
    let mut seats: Vec<Seat> = (0..4)
        .map(|me| {
            let worker = Worker::start("writer", &args(me).each_ref().map(String::as_str));
            Seat { worker, acked: HashMap::new(), done: false, stopped: false }
        })
        .collect();
    let (mut strikes, mut until_next) = (0, 20);
    while seats.iter().any(|seat| !seat.done) {
        assert!(begun.elapsed() < BOUND * 2, "not done: seed {seed}");
        let mut heard = 0;
        for (me, seat) in (0..).zip(&mut seats) {
            while let Some(line) = seat.worker.try_next() {
                seat.take(me, &line);
                heard += 1;
            }
        }
        if heard == 0 {
            pause();
        }
        until_next -= heard;
        if until_next < 0 {
            until_next = 20;
            strikes += 1;
            strike(&control, &mut dice);
        }
    }
    // Who has a block that was deleted may be told of nothing new for a second: that is what is promised.
    std::thread::sleep(Duration::from_secs(1));
    let mut hashes: Vec<String> = Vec::new();
    for seat in &mut seats {
        seat.worker.tell("hash");
        hashes.push(seat.worker.expect("hash"));
    }
    poller.tell("stop");
    poller.expect("looks");
    hashes.push(poller.expect("hash"));
    hashes.push(ws.read(State::hash).unwrap().to_string());
    hashes.dedup();
    assert_eq!(hashes.len(), 1, "several state hashes: {hashes:?}; seed {seed}");
    check_log(&ws, &seats, count);
    assert!(strikes > 5, "{strikes} strikes prove nothing");
    assert_eq!(ws.health().status, Status::Healthy);
}

/// What an operator, a disk or a sync tool may do to the block; of its length, which nobody may cut while it is mapped.
fn strike(control: &std::path::Path, dice: &mut Dice) {
    let mut bytes = vec![0; 4096];
    let how = dice.below(4);
    if how >= 2 {
        bytes.iter_mut().for_each(|byte| *byte = u8::try_from(dice.below(256)).unwrap());
    }
    // Whoever makes it anew may be at it just now, and Windows refuses some of this while it is mapped.
    let _ = match how {
        0 => std::fs::remove_file(control),
        1 | 2 => std::fs::OpenOptions::new()
            .write(true)
            .open(control)
            .and_then(|mut file| std::io::Write::write_all(&mut file, &bytes)),
        _ => {
            let beside = control.with_file_name("beside");
            std::fs::write(&beside, &bytes).and_then(|()| std::fs::rename(&beside, control))
        }
    };
}

/// The log from its bytes against what was acknowledged.
fn check_log(ws: &Workspace, seats: &[Seat], count: u64) {
    let (all, walk) = landed(ws);
    assert!(walk.damage.is_none(), "{:?}", walk.damage);
    let mut next = Seq(1);
    let mut seen: Vec<Vec<(u64, u64)>> = vec![Vec::new(); seats.len()];
    for commit in &all {
        assert_eq!(commit.first, next, "a number is missing or there twice");
        next = Seq(next.0 + commit.events.len() as u64);
        let (writer, n, _, of) = parse(&commit.events[0].1);
        assert_eq!(of, commit.events.len() as u64, "half of commit {n} of writer {writer}");
        for (i, (_, body)) in (0..).zip(&commit.events) {
            assert_eq!(parse(body), (writer, n, i, of), "a commit of several writers");
        }
        seen[usize::try_from(writer).unwrap()].push((n, commit.first.0));
    }
    for (writer, (seen, seat)) in seen.iter().zip(seats).enumerate() {
        let order: Vec<u64> = seen.iter().map(|(n, _)| *n).collect();
        assert!(
            order.iter().copied().eq(1..=count),
            "commits of writer {writer} are lost, twice or out of order"
        );
        for (n, first) in seen {
            if let Some(acked) = seat.acked.get(n) {
                assert_eq!((acked.first, acked.events), (*first, 2 + n % 4), "commit {n} of writer {writer}");
            }
        }
    }
}

/// Lets others run while there is nothing to hear. Nothing depends on how long it takes.
fn pause() {
    std::thread::sleep(Duration::from_millis(1));
}

#[cfg(unix)]
fn stop(seat: &mut Seat) -> bool {
    seat.worker.signal(rustix::process::Signal::STOP);
    seat.stopped = true;
    true
}

#[cfg(not(unix))]
fn stop(_: &mut Seat) -> bool {
    false
}

fn resume(seat: &mut Seat) {
    #[cfg(unix)]
    if seat.stopped {
        seat.worker.signal(rustix::process::Signal::CONT);
    }
    seat.stopped = false;
}

/// A rotation killed between its Seal and its successor's header, met by a reader and by a writer who could not mend it
/// at once because somebody else held LOCK.
///
/// Both used to take the end of the Seal for the end of the log: the reader never saw another commit, and the writer
/// sealed the segment a second time, into its own successor, and removed the live one with everything in it.
#[test]
fn openers_between_seal_and_successor_follow_it() {
    use foldlog::log::segment::{SegmentHeader, SegmentState};
    use foldlog::vfs::{Open, Vfs as _, os::Os};

    let dir = tempfile::tempdir().unwrap();
    let small = || options().segment_size(4096);
    // A process of its own, killed so that it neither syncs nor vouches for anything.
    let mut rotating = crate::worker::start_actor(&[], dir.path(), "rotating", 10_000, 4096, "rw");
    rotating.expect("open");
    let (log, live) = loop {
        assert!(rotating.ask(&format!("commit a {} buffered", "x".repeat(900))).starts_with("ok"));
        let (_store, ws) = open(dir.path(), small().read_only(true));
        let (_, walk) = landed(&ws);
        if let [_, second] = walk.segments.as_slice() {
            break (ws.log().paths().clone(), second.path.clone());
        }
    };
    rotating.kill();
    // As the kill leaves it: the successor as it was prepared.
    let whole = std::fs::read(&live).unwrap();
    let mut header = SegmentHeader::decode(&whole).unwrap();
    let first_seq = header.first_seq;
    header.state = SegmentState::Prepared;
    (header.first_seq, header.base_lpos) = (0, 0);
    (header.prev_segment_id, header.prev_last_seq, header.prev_last_crc) = Default::default();
    std::fs::write(&live, header.encode()).unwrap();

    let (_store, reader) = open(dir.path(), options().read_only(true));
    assert_eq!(reader.read(State::last).unwrap(), Seq(first_seq - 1));
    let lock = Os.open(&log.lock(), Open::Lock).unwrap();
    assert!(lock.try_lock().unwrap());
    let (_store, ws) = open(dir.path(), small());
    lock.unlock().unwrap();
    for n in 0..3 {
        let receipt = crate::worker::commit(&ws, "a", "behind the Seal", Durability::Buffered).unwrap();
        assert_eq!(receipt.first, Seq(first_seq + n));
        assert_eq!(reader.read(State::last).unwrap(), receipt.first, "the reader stands still");
    }
    let (_, walk) = landed(&ws);
    assert_eq!(walk.segments.len(), 2);
    assert_eq!(walk.segments[1].path, live, "another successor than the Seal's");
    assert_eq!(walk.segments[1].header.first_seq, first_seq);
}
