//! Making stores and workspaces: many openers of nothing at once, and openers killed in the middle of it.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests look at the disk behind the engine's back"
)]

use std::collections::BTreeSet;
use std::time::Duration;

use foldlog::{Durability, Store};

use crate::worker::{BOUND, Dice, Stage, Worker, commit, landed, open, options, place, quick, seed};

/// Role: opens and commits once when told, as often as it is told.
pub(crate) fn opener(stage: &mut Stage) {
    let me = stage.arg(0).to_owned();
    stage.say("ready");
    loop {
        let root = stage.hear();
        if root == "quit" {
            return;
        }
        // Patient: sixteen at once on a busy machine, and each may have to wait for all others.
        let store = Store::open(&root, options().lock_timeout(BOUND)).unwrap();
        let ws = store.workspace(&place()).unwrap();
        let receipt = commit(&ws, &me, "here", Durability::Buffered).unwrap();
        let id: String = store.meta().store_id.iter().map(|b| format!("{b:02x}")).collect();
        stage.say(&format!("{id} {} {}", ws.log().id(), receipt.first));
    }
}

#[test]
fn openers_of_nothing_agree_on_one_store_and_one_log() {
    // Under Wine a process costs a hundred times what it costs here.
    let (openers, rounds) = if quick() || cfg!(windows) { (8, 4) } else { (16, 20) };
    let dir = tempfile::tempdir().unwrap();
    let mut workers: Vec<Worker> =
        (0..openers).map(|i| Worker::start("opener", &[&format!("opener{i}")])).collect();
    for worker in &workers {
        worker.expect("ready");
    }
    for round in 0..rounds {
        let root = dir.path().join(format!("round{round}/sub/store"));
        match round % 3 {
            0 => {}
            1 => std::fs::create_dir_all(&root).unwrap(),
            _ => std::fs::create_dir_all(root.parent().unwrap()).unwrap(),
        }
        for worker in &mut workers {
            worker.tell(root.to_str().unwrap());
        }
        let (mut ids, mut seqs) = (BTreeSet::new(), BTreeSet::new());
        for worker in &workers {
            let line = worker.next().unwrap_or_else(|| panic!("{} died in round {round}", worker.name));
            let (id, seq) = line.rsplit_once(' ').unwrap();
            ids.insert(id.to_owned());
            seqs.insert(seq.parse::<usize>().unwrap());
        }
        assert_eq!(ids.len(), 1, "several stores or logs in round {round}: {ids:?}");
        assert!(seqs.into_iter().eq(1..=openers), "round {round}");
        let (store, ws) = open(&root, options().create(false));
        assert_eq!(landed(&ws).0.len(), openers, "a commit is missing in round {round}");
        assert_eq!(store.workspaces().unwrap().len(), 1);
        let left: Vec<_> =
            std::fs::read_dir(root.join("workspaces")).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(left.len(), 1, "losers leave their folders: {left:?}");
    }
}

/// Kills an opener of nothing after a random time, a hundred times; the next opener finishes or ignores what it left.
#[test]
fn opener_killed_while_it_makes_a_store_is_no_obstacle() {
    let seed = seed();
    let mut dice = Dice::new(seed);
    let dir = tempfile::tempdir().unwrap();
    let rounds = if quick() || cfg!(windows) { 30 } else { 150 };
    let (mut whole, mut partial, mut none) = (0, 0, 0);
    // How long it takes depends on the machine and on what else it does: the time to kill follows it, round by round.
    let mut window = 12_000;
    for round in 0..rounds {
        let root = dir.path().join(format!("round{round}"));
        let mut worker = Worker::start("opener", &["first"]);
        worker.expect("ready");
        worker.tell(root.to_str().unwrap());
        // How far it gets is left to chance, on purpose; whatever that is must be good.
        let answered = worker.next_within(Duration::from_micros(dice.below(window))).is_ok();
        worker.kill();
        match (root.join("META").exists(), root.exists()) {
            (true, _) => whole += 1,
            (false, true) => partial += 1,
            (false, false) => none += 1,
        }
        window = if root.join("META").exists() { (window * 3 / 4).max(100) } else { window * 3 / 2 };
        let before = root.join("META").exists().then(|| std::fs::read(root.join("META")).unwrap());
        let (store, ws) = open(&root, options());
        if let Some(before) = before {
            assert_eq!(std::fs::read(root.join("META")).unwrap(), before, "a whole store was made again");
        }
        let there = landed(&ws).0.len();
        assert!(there >= usize::from(answered) && there <= 1, "seed {seed}, round {round}: {there}");
        let _ = commit(&ws, "second", "here", Durability::Durable).unwrap();
        drop((store, ws));
        let (_store, ws) = open(&root, options().create(false));
        assert_eq!(landed(&ws).0.len(), there + 1, "seed {seed}, round {round}");
        assert_eq!(ws.open_report().findings, [], "seed {seed}, round {round}");
    }
    println!("killed before anything {none}, in the middle {partial}, with META there {whole}");
    assert!(partial > 0 && whole > 0, "the kills came too early or too late to prove anything");
}

/// `mkdir d`, `mktemp -d`: the user's own folder becomes the store, and keeps its identity.
#[test]
fn empty_folder_of_the_users_own_becomes_the_store() {
    let dir = tempfile::tempdir().unwrap();
    let (store, ws) = open(dir.path(), options());
    assert_eq!(commit(&ws, "a", "b", Durability::Durable).unwrap().first.0, 1);
    drop((store, ws));
    let (_store, ws) = open(dir.path(), options().create(false));
    assert_eq!(landed(&ws).0.len(), 1);
}
