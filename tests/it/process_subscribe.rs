//! Subscribers in processes of their own, beside writers in others: both are killed and started again, and a sleeper is
//! woken by the commit and not by its clock.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests look at clock and disk themselves"
)]

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use foldlog::log::format::{WORD_RING, WORD_SLEEPERS};
use foldlog::{Cursor, Delivery, Durability, Key, NewEvent, Seq, Since, State, Workspace};

use crate::worker::{BOUND, Dice, NOTE, Stage, Worker, landed, open, options, quick, seed};

/// Small, so that there are many rotations.
const SEGMENT: u64 = 32 << 10;

/// Role: commits so many times under a name, from where an earlier life of it stopped. Arguments: root, name, commits.
pub(crate) fn pusher(stage: &mut Stage) {
    let (_store, ws) = open(&stage.path(0), options().segment_size(SEGMENT));
    let (name, count) = (stage.arg(1).to_owned(), stage.number(2));
    let key = Key::task(&name);
    let done = ws.read(|state| state.get(&key).map_or(0, |known| number_in(&known.body))).unwrap();
    stage.say("open");
    for n in done + 1..=count {
        let level = if n % 16 == 0 { Durability::Durable } else { Durability::Buffered };
        let (key, name) = (key.clone(), name.clone());
        let pushed = ws.commit(level, move |_, draft| {
            for i in 0..1 + n % 3 {
                let body = format!("{n}:{name}:{i}:{}", ".".repeat(usize::try_from(n % 200).unwrap()));
                draft.push(NewEvent::state(NOTE, 1, key.clone(), body.into_bytes()));
            }
            Ok(())
        });
        let _ = pushed.unwrap();
    }
    stage.say("done");
}

fn number_in(body: &[u8]) -> u64 {
    std::str::from_utf8(body).unwrap().split(':').next().unwrap().parse().unwrap()
}

fn line_of(delivery: &Delivery) -> String {
    let bodies: Vec<_> =
        delivery.events.iter().flat_map(|event| event.body.iter().copied().chain([0])).collect();
    let hash = blake3::hash(&bodies).to_hex();
    format!("{} {} {:x} {}", delivery.first, delivery.cursor.seq, delivery.cursor.epoch, &hash[..16])
}

/// Role: follows the log from a cursor, and prints a line for each commit. Arguments: root, seq, epoch, `rw` or `ro`.
pub(crate) fn follower(stage: &mut Stage) {
    let options = options().segment_size(SEGMENT).read_only(stage.arg(3) == "ro");
    let (_store, ws) = open(&stage.path(0), options);
    let cursor = Cursor { seq: Seq(stage.number(1)), epoch: u64::from_str_radix(stage.arg(2), 16).unwrap() };
    let mut subscription = ws.subscribe(Since::Cursor(cursor)).unwrap();
    stage.say("open");
    loop {
        if let Some(delivery) = subscription.next_within(Duration::from_secs(3600)).unwrap() {
            stage.say(&line_of(&delivery));
        }
    }
}

/// A follower over all its lives.
struct Followed {
    worker: Worker,
    way: &'static str,
    /// By first number: the line.
    lines: BTreeMap<u64, String>,
    last: (String, String),
    kills: u64,
}

impl Followed {
    fn start(root: &str, way: &'static str) -> Followed {
        let worker = Worker::start("follower", &[root, "0", "0", way]);
        Followed { worker, way, lines: BTreeMap::new(), last: ("0".into(), "0".into()), kills: 0 }
    }

    fn take(&mut self, line: &str) {
        if line == "open" {
            return;
        }
        let words: Vec<&str> = line.split(' ').collect();
        let [first, last, epoch, _] = words[..] else { panic!("{}: {line}", self.worker.name) };
        let before = self.last.0.parse::<u64>().unwrap();
        assert_eq!(first.parse::<u64>().unwrap(), before + 1, "a gap or a repeat: {line} behind {before}");
        self.last = (last.into(), epoch.into());
        self.lines.insert(first.parse().unwrap(), line.into());
    }

    /// Killed wherever it is, and started again behind the last commit it told of.
    fn restart(&mut self, root: &str) {
        self.worker.kill();
        // What it had written before it died is in the pipe.
        while let Ok(Some(line)) = self.worker.next_within(BOUND) {
            self.take(&line);
        }
        self.kills += 1;
        self.worker = Worker::start("follower", &[root, &self.last.0, &self.last.1, self.way]);
    }
}

#[test]
fn killed_and_restarted_followers_get_every_commit_once() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("store");
    let (_store, ws) = open(&root, options().segment_size(SEGMENT));
    let root = root.to_str().unwrap();
    let mut dice = Dice::new(seed());
    let commits = if quick() { 200 } else { 1500 };
    let count = commits.to_string();
    let names = ["a", "b"];
    let start = |name: &str| Worker::start("pusher", &[root, name, &count]);
    let mut writers: Vec<Option<Worker>> = names.iter().map(|name| Some(start(name))).collect();
    let mut followers = [Followed::start(root, "rw"), Followed::start(root, "ro")];
    let began = Instant::now();
    let mut writers_killed = 0;
    while writers.iter().any(Option::is_some) {
        assert!(began.elapsed() < BOUND * 2, "it takes too long");
        for (writer, name) in writers.iter_mut().zip(names) {
            let Some(worker) = writer else { continue };
            match worker.try_next().as_deref() {
                Some("done") => *writer = None,
                Some(_) => {}
                None if dice.below(400) == 0 && writers_killed < 12 => {
                    worker.kill();
                    writers_killed += 1;
                    *writer = Some(start(name));
                }
                None => {}
            }
        }
        for followed in &mut followers {
            match followed.worker.next_within(Duration::from_millis(1)) {
                Ok(Some(line)) => followed.take(&line),
                Ok(None) => panic!("{} has gone", followed.worker.name),
                Err(_) => {}
            }
            if dice.below(60) == 0 && followed.kills < 12 {
                followed.restart(root);
            }
        }
    }
    // A kill at the very least, whatever the dice said.
    followers.iter_mut().for_each(|followed| followed.restart(root));
    let (all, walk) = landed(&ws);
    assert!(walk.damage.is_none() && walk.segments.len() > 2, "{:?}", walk.findings);
    let last = all.last().map_or(0, |commit| commit.first.0 + commit.events.len() as u64 - 1);
    for followed in &mut followers {
        while followed.last.0.parse::<u64>().unwrap() < last {
            let line = followed.worker.next().expect("it goes on");
            followed.take(&line);
        }
        assert_eq!(followed.lines.len(), all.len());
        for commit in &all {
            let bodies: Vec<_> =
                commit.events.iter().flat_map(|(_, body)| body.iter().copied().chain([0])).collect();
            let hash = blake3::hash(&bodies).to_hex();
            let line = &followed.lines[&commit.first.0];
            assert!(line.ends_with(&hash[..16]), "{line}");
        }
    }
    for name in names {
        let done = ws.read(|s: &State| s.get(&Key::task(name)).map_or(0, |k| number_in(&k.body))).unwrap();
        assert_eq!(done, commits);
    }
}

/// Role: sleeps until a commit comes, and tells what woke it. Arguments: root.
pub(crate) fn sleeper(stage: &mut Stage) {
    let (_store, ws) = open(&stage.path(0), options());
    let mut subscription = ws.subscribe(Since::Now).unwrap();
    stage.say("open");
    loop {
        if let Some(delivery) = subscription.next_within(Duration::from_secs(3600)).unwrap() {
            let w = subscription.wakings();
            stage.say(&format!("{} {} {} {}", delivery.first, w.by_ring, w.by_time, w.not_slept));
        }
    }
}

fn word(ws: &Workspace, at: u64) -> u64 {
    let bytes = std::fs::read(ws.log().paths().control()).unwrap();
    let at = usize::try_from(at).unwrap();
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

/// Each commit is made when the other process has said that it sleeps: it is rung for each, once.
#[cfg(any(target_os = "linux", windows))]
#[test]
fn sleeper_is_woken_by_the_ring_of_another_process() {
    let dir = tempfile::tempdir().unwrap();
    let (_store, ws) = open(&dir.path().join("store"), options());
    let put = || {
        let put = ws.commit(Durability::Buffered, |_, draft| {
            draft.push(NewEvent::record(NOTE, 1, Key::none(), *b"news"));
            Ok(())
        });
        put.unwrap()
    };
    let _ = put();
    let sleeper = Worker::start("sleeper", &[dir.path().join("store").to_str().unwrap()]);
    sleeper.expect("open");
    let (rounds, mut last) = (20, [0; 3]);
    for n in 0..rounds {
        let began = Instant::now();
        while word(&ws, WORD_SLEEPERS) == 0 {
            assert!(began.elapsed() < BOUND, "it never sleeps");
            std::thread::yield_now();
        }
        let first = put().first;
        let line = sleeper.expect(&format!("{first} "));
        let told: Vec<u64> = line.split(' ').map(|word| word.parse().unwrap()).collect();
        last.copy_from_slice(&told);
        assert_eq!(word(&ws, WORD_RING), n + 1, "one ring for each commit");
    }
    // It may have been on its way to sleep, and then found the commit by the last look before; the clock has found none.
    let [by_ring, _, not_slept] = last;
    assert!(by_ring + not_slept >= rounds && by_ring > rounds / 4, "{last:?}");
}
