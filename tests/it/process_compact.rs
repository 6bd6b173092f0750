//! Real processes: writers, and one that writes snapshots and compacts all the time, each killed now and then; readers go on.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests look at clock and disk themselves"
)]

use std::ops::ControlFlow;
use std::path::Path;
use std::time::Instant;

use foldlog::event::{Field, Item, Patch, TaskId, Value};
use foldlog::task::{TaskStore, Tasks};
use foldlog::{Durability, Options, Place, Recovery, Status as Health};

use crate::worker::{BOUND, Dice, Stage, Worker, quick, seed};

const WRITERS: u64 = 3;
const READERS: u64 = 2;
/// How often each writer is killed.
const KILLS: u64 = 4;

fn options() -> Options {
    Options::default().segment_size(32 << 10).snapshot_after(128 << 10).lock_timeout(BOUND)
}

fn open(root: &Path, options: Options) -> Tasks {
    TaskStore::open(root, options).unwrap().home(&Place::Key("compacted".into())).unwrap()
}

fn task(me: u64) -> TaskId {
    TaskId::new(&format!("task{me}")).unwrap()
}

fn to_index(n: u64) -> usize {
    usize::try_from(n).unwrap()
}

fn steps_of(tasks: &Tasks, me: u64) -> u64 {
    let found = tasks.get(task(me).as_str()).unwrap();
    found.and_then(|found| found.task.item.get(&Field::TokensIn).and_then(Value::as_u64)).unwrap_or(0)
}

/// Role: takes steps of its own task from where they stand, up to a number, and says each that is durable. Arguments: root, its
/// number, how many.
pub(crate) fn stepper(stage: &mut Stage) {
    let tasks = open(&stage.path(0), options().label("stepper"));
    let (me, count): (u64, u64) = (stage.arg(1).parse().unwrap(), stage.arg(2).parse().unwrap());
    if tasks.get(task(me).as_str()).unwrap().is_none() {
        let item = Item::new(&task(me)).with(Field::TokensIn, 0_i64).with(Field::Ts, 0_i64);
        let _ = tasks.create(item, Durability::Durable).unwrap();
    }
    for n in steps_of(&tasks, me) + 1..=count {
        let level = if n % 50 == 0 { Durability::Durable } else { Durability::Buffered };
        let step = i64::try_from(n).unwrap();
        let patch = Patch::new().set(Field::TokensIn, step).set(Field::Ts, step);
        let _ = tasks.patch(&task(me), patch, level).unwrap();
        if n % 10 == 0 {
            stage.say(&format!("at {n}"));
        }
    }
    stage.say("done");
}

/// Role: compacts again and again, and says how far it is, until it is killed. Arguments: root.
pub(crate) fn compactor(stage: &mut Stage) {
    let tasks = open(&stage.path(0), options().label("compactor"));
    let mut made = 0;
    loop {
        let mut progress = |done: u64, total: u64| {
            stage.say(&format!("tenth {}", done * 10 / total.max(1)));
            ControlFlow::Continue(())
        };
        // Its writers' background threads may be at it.
        if let Some(report) = tasks.workspace().compact(&mut progress).unwrap() {
            made += 1;
            stage.say(&format!("compacted {made} {}", report.dropped));
        }
        std::thread::yield_now();
    }
}

/// Role: reads all the time; what it sees never goes back. Arguments: root.
pub(crate) fn watcher(stage: &mut Stage) {
    let tasks = open(&stage.path(0), options().read_only(true));
    let mut last = vec![0; to_index(WRITERS)];
    let mut looks = 0_u64;
    loop {
        for (me, last) in (0..WRITERS).zip(&mut last) {
            let now = steps_of(&tasks, me);
            assert!(now >= *last, "task {me} went back from {last} to {now}");
            *last = now;
        }
        looks += 1;
        if looks.is_multiple_of(1_000) {
            stage.say(&format!("looked {looks}"));
        }
    }
}

#[test]
fn killed_compactions_and_writers_lose_nothing_and_readers_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("store");
    let count: u64 = if quick() { 1_500 } else { 12_000 };
    let seed = seed();
    let mut dice = Dice::new(seed);
    let path = root.to_str().unwrap().to_owned();
    drop(open(&root, options()));
    let writer = |me: u64| Worker::start("stepper", &[&path, &me.to_string(), &count.to_string()]);
    let mut writers: Vec<Option<Worker>> = (0..WRITERS).map(|me| Some(writer(me))).collect();
    let mut said = vec![0_u64; writers.len()];
    let mut compactor = Worker::start("compactor", &[&path]);
    let readers: Vec<Worker> = (0..READERS).map(|_| Worker::start("watcher", &[&path])).collect();
    let (mut compactions, mut kills, mut looks) = (0_u64, 0, 0);
    // The compactor is killed midway: where the next one that begins is so far.
    let (mut doomed, mut midway) = (Some(dice.below(10)), 0);
    // Each writer is killed so often, at places of its way that the dice say.
    let mut deaths: Vec<Vec<u64>> = (0..WRITERS)
        .map(|_| (1..=KILLS).map(|nth| count * nth / (KILLS + 1) - dice.below(count / 10)).collect())
        .collect();
    let began = Instant::now();
    while writers.iter().any(Option::is_some) {
        assert!(began.elapsed() < BOUND * 2, "it takes too long, seed {seed}");
        for (me, place) in (0..).zip(&mut writers) {
            let (Some(worker), Some(deaths), Some(said)) =
                (&mut *place, deaths.get_mut(to_index(me)), said.get_mut(to_index(me)))
            else {
                continue;
            };
            match worker.try_next().as_deref() {
                Some("done") => *place = None,
                Some(line) => *said = line.strip_prefix("at ").map_or(*said, |n| n.parse().unwrap()),
                None => {}
            }
            if place.is_some() && deaths.first().is_some_and(|at| *at <= *said) {
                deaths.remove(0);
                kills += 1;
                // Dropped, the old one is killed.
                *place = Some(writer(me));
            }
        }
        match compactor.try_next() {
            Some(line) if line.starts_with("compacted") => {
                compactions += 1;
                if compactions % 3 == 0 {
                    doomed = Some(dice.below(10));
                }
            }
            Some(line)
                if line.strip_prefix("tenth ").is_some_and(|n| {
                    let tenth: u64 = n.parse().unwrap();
                    doomed.is_some_and(|doomed| tenth >= doomed)
                }) =>
            {
                compactor.kill();
                (doomed, midway, kills) = (None, midway + 1, kills + 1);
                compactor = Worker::start("compactor", &[&path]);
            }
            _ => std::thread::yield_now(),
        }
        looks += readers.iter().filter(|reader| reader.try_next().is_some()).count();
    }
    compactor.kill();
    let compactor = Worker::start("compactor", &[&path]);
    let tasks = open(&root, options());
    for (me, said) in (0..WRITERS).zip(said) {
        assert_eq!(steps_of(&tasks, me), count, "of task {me}, which had said {said}; seed {seed}");
    }
    drop(compactor);
    for mut reader in readers {
        assert!(reader.is_alive(), "a reader has gone, seed {seed}");
    }
    let hash = |tasks: &Tasks| tasks.read(|state, _| state.hash()).unwrap();
    let plain = open(&root, options().read_only(true).recovery(Recovery::Salvage));
    assert_eq!(hash(&plain), hash(&tasks), "seed {seed}");
    assert_eq!(tasks.workspace().health().status, Health::Healthy);
    println!(
        "{compactions} compactions, {kills} kills, {midway} of them midway, {looks} reports of readers, {:?}",
        began.elapsed()
    );
    assert!(
        compactions > 2 && kills > 2 && midway > 0 && looks > 0,
        "{compactions} {kills} {midway} {looks}: too tame, seed {seed}"
    );
}
