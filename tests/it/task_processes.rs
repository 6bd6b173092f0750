//! Eight processes that work on tasks, some of them the same, a reader that polls, and kills and stops as a seed says.
//!
//! Each commit of a writer also counts up its task `progress`, so that what must hold at any time follows from these
//! counts alone: what the counter says, which parents wait, what the shared task's fields are.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests look at clock and disk themselves"
)]

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use foldlog::event::{Field, Item, Patch, Status, StatusTable, TaskId, Value};
use foldlog::task::{CommitOptions, Committed, Op, TaskExpect, TaskStore, Tasks};
use foldlog::view::Index;
use foldlog::{Durability, Housekeeping, OpId, Options, Place, Status as Health};

use super::task_rules::id;

use crate::worker::{BOUND, Dice, Stage, Worker, quick, seed};

const WRITERS: u64 = 8;
/// Small, so that there are rotations.
const SEGMENT: u64 = 256 << 10;

/// Commits of one writer.
fn count() -> u64 {
    if quick() {
        160
    } else if cfg!(windows) {
        496
    } else {
        2000
    }
}

fn options() -> Options {
    Options::default().segment_size(SEGMENT).lock_timeout(BOUND)
}

fn open(root: &Path, options: Options) -> Tasks {
    TaskStore::open(root, options).unwrap().home(&Place::Key("processes".into())).unwrap()
}

fn progress(me: u64) -> String {
    format!("progress{me}")
}

fn child(me: u64, n: u64) -> String {
    format!("c{me}-{n}")
}

fn number(index: &Index, task: &str, field: &str) -> u64 {
    index.get(task).and_then(|task| task.item.get(&Field::of(field)).and_then(Value::as_u64)).unwrap_or(0)
}

fn durability(n: u64) -> Durability {
    match n % 100 {
        0 => Durability::Durable,
        1..=20 => Durability::Interval(20),
        _ => Durability::Buffered,
    }
}

/// The tasks that are there from the beginning.
fn found(tasks: &Tasks, count: u64) {
    let names = (0..WRITERS).flat_map(|me| [progress(me), format!("p{me}")]);
    let doomed = (0..=count / 8).map(|group| format!("d{group}"));
    let shared = ["shared", "counter", "pp"].map(str::to_owned);
    let create = |name: String| Op::Create { item: Item::new(&id(&name)), again: false };
    let _ =
        tasks.commit(names.chain(doomed).chain(shared).map(create).collect(), Durability::Durable).unwrap();
}

/// What writer `me` does besides counting in its `n`-th commit; nothing where others were first, which is as good.
fn work(tasks: &Tasks, me: u64, n: u64) -> (Vec<Op>, Vec<(TaskId, TaskExpect)>) {
    let set = |name: &str, field: String, n: u64| Op::Patch {
        id: id(name),
        patch: Patch::new().set(Field::of(&field), n),
    };
    let own = format!("w{me}-{}", n / 8);
    let op = match n % 8 {
        0 => {
            // Compare and set: computed from a look, good only if nobody came between.
            let look = tasks.get("counter").unwrap().unwrap();
            let value = look.task.item.get(&Field::of("n")).and_then(Value::as_u64).unwrap_or(0);
            return (
                vec![set("counter", "n".into(), value + 1)],
                vec![(id("counter"), TaskExpect::At(look.token))],
            );
        }
        1 => Op::Create { item: Item::new(&id(&own)).with(Field::Ts, n), again: false },
        2 => set(&own, "tokensIn".into(), n),
        3 => set("shared", format!("f{me}"), n),
        4 => Op::Delegate { parent: id(&format!("p{me}")), child: Item::new(&id(&child(me, n))) },
        5 => {
            Op::Complete { id: id(&child(me, n - 1)), summary: Some(Value::from(format!("of {n}").as_str())) }
        }
        // One of all deletes it, the others save.
        6 if (n / 8) % WRITERS == me => Op::Remove { ids: vec![id(&format!("d{}", n / 8))], cascade: false },
        6 => set(&format!("d{}", n / 8), format!("f{me}"), n),
        _ => {
            let parent = tasks.get("pp").unwrap().unwrap().task;
            match parent.awaiting() {
                Some(child) => Op::Complete { id: id(&child), summary: None },
                None => Op::Delegate { parent: id("pp"), child: Item::new(&id(&child(me, n))) },
            }
        }
    };
    (vec![op], Vec::new())
}

fn commit(tasks: &Tasks, me: u64, n: u64) -> Committed {
    let counts = Op::Patch { id: id(&progress(me)), patch: Patch::new().set(Field::of("n"), n) };
    loop {
        let (mut ops, expect) = work(tasks, me, n);
        ops.push(counts.clone());
        let mut options = CommitOptions { durability: durability(n), expect, ..CommitOptions::default() };
        if n % 8 == 3 {
            options = options.op_id(op_id(me, n));
        }
        match (tasks.commit(ops, options), n % 8) {
            (Ok(done), _) => return done,
            (Err(e), 0) if e.code() == "conflict" => {}
            // Deleted in the meantime, or the parent of all waits for another by now, or waits no more.
            (Err(e), 6 | 7) if ["task-deleted", "status-refused", "not-waiting"].contains(&e.code()) => {
                return tasks.commit(vec![counts], durability(n)).unwrap();
            }
            (Err(e), _) => panic!("writer {me}, commit {n}: {e}"),
        }
    }
}

fn op_id(me: u64, n: u64) -> OpId {
    let mut id = [0; 16];
    id[..8].copy_from_slice(&(me + 1).to_le_bytes());
    id[8..].copy_from_slice(&n.to_le_bytes());
    OpId(id)
}

/// Role: goes on from where it, or one before it, got to, and prints each acknowledgement.
pub(crate) fn writer(stage: &mut Stage) {
    let (root, me, count) = (stage.path(0), stage.number(1), stage.number(2));
    let tasks = open(&root, options().label(format!("tasker {me}")).housekeeping(Housekeeping::Thread));
    let mut last = tasks.read(|_, index| number(index, &progress(me), "n")).unwrap();
    stage.say(&format!("opened {last}"));
    if last % 8 == 3 {
        // Whoever was before us may not have heard the answer.
        assert!(commit(&tasks, me, last).again, "commit {last} of writer {me} was applied twice");
    }
    while last < count {
        last += 1;
        let done = commit(&tasks, me, last);
        stage.say(&format!("ack {last} {}", done.token(&id(&progress(me))).unwrap()));
    }
    stage.say("done");
    stage.hear();
    stage.say(&format!("hash {}", tasks.read(|state, _| state.hash()).unwrap()));
    stage.hear();
}

/// What a reader remembers from look to look.
#[derive(Clone, Default)]
struct Seen {
    counts: [u64; WRITERS as usize],
    dead: HashSet<String>,
    revisions: BTreeMap<String, u64>,
}

/// Checks one look: whole commits, nothing that goes back, nothing that comes back.
fn look(index: &Index, seen: &mut Seen) {
    for me in 0..WRITERS {
        let now = number(index, &progress(me), "n");
        let before = std::mem::replace(&mut seen.counts[me as usize], now);
        assert!(now >= before, "writer {me} went back from {before} to {now}");
        let last_of =
            |rest: u64| (0..8.min(now + 1)).map(|back| now - back).find(|n| n % 8 == rest).unwrap_or(0);
        assert_eq!(number(index, "shared", &format!("f{me}")), last_of(3), "field of writer {me} at {now}");
        let parent = index.get(&format!("p{me}")).unwrap();
        let waits = parent.awaiting().map(std::borrow::Cow::into_owned);
        assert_eq!(waits, (now % 8 == 4).then(|| child(me, now)), "parent of writer {me} at {now}");
    }
    let counted: u64 = seen.counts.iter().map(|n| n / 8).sum();
    assert_eq!(number(index, "counter", "n"), counted, "at {:?}", seen.counts);
    for task in index.tasks() {
        let id = task.id.as_str();
        assert!(!seen.dead.contains(id), "{id} came back");
        match (task.status(), task.awaiting()) {
            (Status::Delegated, Some(child)) => {
                let child = index.get(&child).unwrap_or_else(|| panic!("{id} waits for {child}, not there"));
                assert_ne!(child.status(), Status::Completed, "half of the return of {} to {id}", child.id);
                assert_eq!(child.parent().as_deref(), Some(id), "half of the delegation of {id}");
            }
            (Status::Delegated, None) | (_, Some(_)) => panic!("{id} is {}", task.item.to_json()),
            (_, None) => {}
        }
        if let Some(parent) = task.parent()
            && task.status() == Status::Active
        {
            let parent = index.get(&parent).unwrap();
            assert_eq!(parent.awaiting().as_deref(), Some(id), "{id} is at work, and nobody waits for it");
        }
        let before = seen.revisions.insert(id.to_owned(), task.revision.0).unwrap_or(0);
        assert!(task.revision.0 >= before, "{id} went back from revision {before} to {}", task.revision);
    }
    for group in 0..=count() / 8 {
        let id = format!("d{group}");
        if index.tombstone(&id).is_some() {
            seen.dead.insert(id);
        } else {
            assert!(index.get(&id).is_some(), "{id} is not there");
        }
    }
}

/// Role: looks on and on, through one read-only handle and fresh ones.
pub(crate) fn poller(stage: &mut Stage) {
    let root = stage.path(0);
    let reading = || options().read_only(true);
    let tasks = open(&root, reading());
    stage.say("polling");
    let stop = Arc::new(AtomicBool::new(false));
    let stopping = Arc::clone(&stop);
    let polling = std::thread::spawn(move || {
        let (mut seen, mut looks) = (Seen::default(), 0_u64);
        loop {
            let last = stopping.load(Ordering::Acquire);
            tasks.read(|_, index| look(index, &mut seen)).unwrap();
            if looks.is_multiple_of(64) {
                open(&root, reading()).read(|_, index| look(index, &mut seen.clone())).unwrap();
            }
            looks += 1;
            if last {
                assert_eq!(tasks.workspace().health().status, Health::ReadOnly);
                return (looks, tasks.read(|state, _| state.hash()).unwrap());
            }
        }
    });
    stage.hear();
    stop.store(true, Ordering::Release);
    let (looks, hash) = polling.join().unwrap();
    stage.say(&format!("looks {looks}"));
    stage.say(&format!("hash {hash}"));
}

struct Seat {
    worker: Worker,
    /// Token of the writer's own count after each acknowledged commit.
    acked: BTreeMap<u64, String>,
    done: bool,
    stopped: bool,
}

impl Seat {
    fn take(&mut self, me: u64, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["ack", n, token] => {
                let before = self.acked.insert(n.parse().unwrap(), token.to_owned());
                assert!(before.is_none(), "commit {n} of writer {me} twice");
            }
            ["opened", to] => {
                let highest = self.acked.keys().max().copied().unwrap_or(0);
                assert!(to.parse::<u64>().unwrap() >= highest, "writer {me} found {to}, not {highest}");
            }
            ["done"] => self.done = true,
            _ => panic!("writer {me} said {line:?}"),
        }
    }

    #[cfg(unix)]
    fn signal(&mut self, stop: bool) -> bool {
        use rustix::process::Signal;
        if self.stopped != stop {
            self.worker.signal(if stop { Signal::STOP } else { Signal::CONT });
        }
        self.stopped = stop;
        true
    }

    #[cfg(not(unix))]
    fn signal(&mut self, _stop: bool) -> bool {
        false
    }
}

#[test]
fn eight_processes_share_tasks_and_lose_nothing() {
    let seed = seed();
    let mut dice = Dice::new(seed);
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("store");
    let (count, begun) = (count(), Instant::now());
    found(&open(&root, options()), count);
    let mut poller = Worker::start("task_poller", &[root.to_str().unwrap()]);
    poller.expect("polling");
    let start =
        |me: u64| Worker::start("tasker", &[root.to_str().unwrap(), &me.to_string(), &count.to_string()]);
    let mut seats: Vec<Seat> = (0..WRITERS)
        .map(|me| Seat { worker: start(me), acked: BTreeMap::new(), done: false, stopped: false })
        .collect();
    let (mut kills, mut stops, mut quiet, mut until_next) = (0, 0, Instant::now(), 40);
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
            assert!(quiet.elapsed() < BOUND, "no commit for {:?}: seed {seed}", quiet.elapsed());
            if quiet.elapsed() > Duration::from_millis(30) {
                for seat in &mut seats {
                    seat.signal(false);
                }
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        until_next -= heard;
        if until_next > 0 {
            continue;
        }
        until_next = 40 + i64::try_from(dice.below(if quick() { 40 } else { 400 })).unwrap();
        let me = dice.below(WRITERS);
        let seat = &mut seats[usize::try_from(me).unwrap()];
        if seat.done {
            continue;
        }
        if dice.below(3) > 0 || !seat.signal(true) {
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
        seat.signal(false);
        if seat.worker.next_within(Duration::ZERO).is_ok_and(|line| line.is_none()) {
            seat.worker = start(me); // killed after its last acknowledgement
            seat.worker.expect("opened");
            seat.worker.expect("done");
        }
        seat.worker.tell("hash");
        hashes.push(seat.worker.expect("hash"));
    }
    poller.tell("stop");
    let looks: u64 = poller.expect("looks").parse().unwrap();
    hashes.push(poller.expect("hash"));
    for options in [options().create(false), options().read_only(true)] {
        hashes.push(open(&root, options).read(|state, _| state.hash()).unwrap().to_string());
    }
    hashes.dedup();
    assert_eq!(hashes.len(), 1, "several state hashes: {hashes:?}; seed {seed}");
    let tasks = open(&root, options().read_only(true));
    check_end(&tasks, &seats, count);
    let segments = tasks.workspace().open_report().segments;
    println!(
        "{} commits, {kills} kills, {stops} stops, {looks} looks, {segments} segments, {:?}",
        WRITERS * count,
        begun.elapsed()
    );
    assert!((quick() || segments > 1) && kills > 3 && looks > 10, "too little happened to prove anything");
}

/// What was acknowledged against the histories, and every status as it followed the one before.
fn check_end(tasks: &Tasks, seats: &[Seat], count: u64) {
    assert_eq!(tasks.check().unwrap(), []);
    tasks.read(|_, index| look(index, &mut Seen::default())).unwrap();
    let epochs: Vec<_> = tasks.read(|state, _| state.epochs().to_vec()).unwrap();
    for (me, seat) in (0..).zip(seats) {
        let changes = tasks.history(&id(&progress(me))).unwrap();
        // Created, and then one for each commit, in order.
        let order: Vec<u64> =
            changes.iter().skip(1).map(|c| c.fields[0].to.as_ref().unwrap().as_u64().unwrap()).collect();
        assert!(
            order.iter().copied().eq(1..=count),
            "commits of writer {me} are lost, twice or out of order"
        );
        for (n, change) in (1..).zip(changes.iter().skip(1)) {
            let epoch =
                epochs.iter().rev().find(|(first, _)| *first <= change.seq).map_or(0, |(_, epoch)| *epoch);
            let token = format!("{}.{}.{epoch:016x}", change.revision, change.seq);
            if let Some(acked) = seat.acked.get(&n) {
                assert_eq!(*acked, token, "commit {n} of writer {me}");
            }
        }
    }
    let table = StatusTable::default();
    for parent in (0..WRITERS).map(|me| format!("p{me}")).chain(["pp".to_owned()]) {
        let mut status = Status::Active;
        let mut moves = 0;
        for change in tasks.history(&id(&parent)).unwrap() {
            let field = change.fields.iter().find(|change| change.field == Field::Status);
            let Some(to) = field.and_then(|f| f.to.as_ref()).and_then(Value::as_str) else { continue };
            let to = Status::of(&to).unwrap();
            assert!(to == status || table.allows(status, to).is_some(), "{parent} from {status} to {to}");
            (status, moves) = (to, moves + 1);
        }
        assert!(moves >= count / 4, "{parent} moved {moves} times");
    }
    for group in 0..count / 8 {
        let index = |index: &Index| index.tombstone(&format!("d{group}")).is_some();
        assert!(tasks.read(|_, i| index(i)).unwrap(), "d{group} was deleted, and is there");
    }
}
