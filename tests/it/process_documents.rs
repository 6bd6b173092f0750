//! Real processes that write one document at the same time: one gets through, the others are told what stands.

#![expect(clippy::unwrap_used, reason = "a test, all of it")]

use std::path::Path;

use foldlog::event::{Field, Patch, Value};
use foldlog::task::{DocumentExpect, TaskStore};
use foldlog::{DocumentName, Durability, ErrorKind, Housekeeping, Options, Place, Revision};

use crate::worker::{BOUND, Stage, Worker, quick};

const WRITERS: u64 = 4;

fn options() -> Options {
    Options::default().lock_timeout(BOUND).housekeeping(Housekeeping::Off)
}

fn open(root: &Path) -> foldlog::Documents {
    TaskStore::open(root, options()).unwrap().home(&Place::Key("documents".into())).unwrap().documents()
}

fn name(of: &str) -> DocumentName {
    DocumentName::new(of).unwrap()
}

/// Role: reads a document, says so, and writes it as it was read when it is told to; patches a member of its own besides,
/// which nobody else minds. Its second life begins in the middle of that.
pub(crate) fn documenter(stage: &mut Stage) {
    let (all, me) = (open(&stage.path(0)), stage.number(1));
    stage.say("opened");
    loop {
        let round = stage.hear();
        if round == "hash" {
            stage.say(&format!("hash {}", all.read(|state, _| state.hash()).unwrap()));
            continue;
        }
        let seen = all.get("one").unwrap().unwrap();
        stage.say("read");
        stage.hear();
        let mine = Value::from(format!("{me} in {round}").as_str());
        let durability = if me.is_multiple_of(2) { Durability::Durable } else { Durability::Buffered };
        let said = match all.put(&name("one"), None, mine, DocumentExpect::At(seen.token), durability) {
            Ok(done) => format!("won {}", done.document(&name("one")).unwrap()),
            Err(e) => match e.kind() {
                ErrorKind::Conflict(all) => {
                    let now = all.first().and_then(|c| c.current.clone()).unwrap();
                    format!(
                        "lost {}.{}.{:016x} {}",
                        now.revision,
                        now.last.seq,
                        now.last.epoch,
                        now.folded.unwrap()
                    )
                }
                _ => panic!("{e}"),
            },
        };
        let patch = Patch::new().set(Field::of(&format!("m{me}")), round.parse::<u64>().unwrap());
        let _ = all.patch(&name("members"), patch, DocumentExpect::Any, durability).unwrap();
        stage.say(&said);
    }
}

#[test]
fn of_writers_that_read_the_same_one_wins_and_all_others_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("store");
    let all = open(&root);
    for (at, text) in [("one", "\"nobody\""), ("members", "{}")] {
        let _ = all
            .put(&name(at), None, Value::parse(text).unwrap(), DocumentExpect::Absent, Durability::Durable)
            .unwrap();
    }
    let start = |me: u64| {
        let worker = Worker::start("documenter", &[root.to_str().unwrap(), &me.to_string()]);
        worker.expect("opened");
        worker
    };
    let mut workers: Vec<Worker> = (0..WRITERS).map(start).collect();
    let rounds = if quick() { 10 } else { 60 };
    let mut dead = None;
    for round in 1..=rounds {
        for worker in &mut workers {
            worker.tell(&round.to_string());
            worker.expect("read");
        }
        // One dies between reading and writing: nobody waits for it, nothing of it is seen.
        if round % 3 == 0 {
            let me = round / 3 % WRITERS;
            workers.get_mut(usize::try_from(me).unwrap()).unwrap().kill();
            dead = Some(me);
        }
        let living = |me: &u64| dead != Some(*me);
        for me in (0..WRITERS).filter(living) {
            workers.get_mut(usize::try_from(me).unwrap()).unwrap().tell("go");
        }
        let mut said: Vec<String> = Vec::new();
        for me in (0..WRITERS).filter(living) {
            said.push(workers.get_mut(usize::try_from(me).unwrap()).unwrap().next().unwrap());
        }
        let won: Vec<&str> = said.iter().filter_map(|line| line.strip_prefix("won ")).collect();
        assert_eq!(won.len(), 1, "round {round}: {said:?}");
        let now = all.get("one").unwrap().unwrap();
        assert_eq!((now.token.to_string().as_str(), now.token.revision), (won[0], Revision(round + 1)));
        let lost = format!("lost {} {}", now.token, now.document.value);
        assert!(said.iter().all(|line| line.starts_with("won ") || *line == lost), "round {round}: {said:?}");
        if let Some(me) = dead.take() {
            *workers.get_mut(usize::try_from(me).unwrap()).unwrap() = start(me);
        }
    }
    let members = all.get("members").unwrap().unwrap().document.value.to_json();
    let members: serde_json::Value = serde_json::from_str(&members).unwrap();
    for me in 0..WRITERS {
        let died = rounds.is_multiple_of(3) && rounds / 3 % WRITERS == me;
        assert_eq!(members[format!("m{me}")], rounds - u64::from(died), "{members}");
    }
    let mine = all.read(|state, _| state.hash()).unwrap().to_string();
    for worker in &mut workers {
        worker.tell("hash");
        assert_eq!(worker.expect("hash"), mine);
    }
}
