//! Backups while eight processes write: each opens clean, has all that was acknowledged before it began, and is the source
//! as it stood at its last event.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests look at the disk behind the engine's back"
)]

use std::collections::BTreeMap;
use std::path::Path;

use foldlog::log::fold::{Fold as _, Meanings};
use foldlog::view::Index;
use foldlog::{
    CopyOptions, Durability, Field, Housekeeping, Item, Link, Options, Patch, Place, State, TaskStore, Tasks,
};

use crate::task_rules::id;
use crate::worker::{BOUND, Stage, Worker, quick};

fn options(label: &str) -> Options {
    // Patient: nine at once on a busy machine. Small segments, so that they are sealed all the time.
    Options::default().housekeeping(Housekeeping::Off).segment_size(16 << 10).lock_timeout(BOUND).label(label)
}

fn open(root: &Path, options: Options) -> Tasks {
    TaskStore::open(root, options).unwrap().home(&Place::Key("w".into())).unwrap()
}

/// Role: counts up in a task of its own until it is told to stop, and says each count that was acknowledged. Now and then
/// a value goes into a blob.
///
/// Arguments: the store, its number.
pub(crate) fn writer(stage: &mut Stage) {
    let me = id(&format!("w{}", stage.number(1)));
    let tasks = open(&stage.path(0), options("writer"));
    let _ = tasks.create(Item::new(&me), Durability::Buffered).unwrap();
    stage.say("ready");
    stage.hear();
    let (told, stop) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut line = String::new();
        let _ = std::io::stdin().read_line(&mut line);
        let _ = told.send(());
    });
    for count in 1_i64.. {
        let patch = Patch::new().set(Field::TokensIn, count).set(Field::Mode, "m".repeat(200).as_str());
        let patch = match count % 50 {
            0 => patch.set(Field::Task, format!("{count} ").repeat(20_000).as_str()),
            _ => patch,
        };
        let level = if count % 10 == 0 { Durability::Durable } else { Durability::Buffered };
        let _ = tasks.patch(&me, patch, level).unwrap();
        stage.say(&format!("acked {count}"));
        if stop.try_recv().is_ok() {
            return;
        }
    }
}

#[test]
fn backup_while_eight_processes_write() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("store");
    let tasks = open(&root, options("test"));
    let writers = if cfg!(windows) { 3 } else { 8 };
    let mut workers: Vec<Worker> = (0..writers)
        .map(|i| Worker::start("backup_writer", &[root.to_str().unwrap(), &i.to_string()]))
        .collect();
    workers.iter().for_each(|worker| drop(worker.expect("ready")));
    workers.iter_mut().for_each(|worker| worker.tell("go"));
    let mut acked = vec![0_i64; writers];
    let mut backups = Vec::new();
    let store = TaskStore::open(&root, options("backup").read_only(true)).unwrap();
    for i in 0..if quick() { 4 } else { 12 } {
        // All that was acknowledged by now: at least one more of each, so that they write while this goes on.
        for (worker, acked) in workers.iter().zip(&mut acked) {
            *acked = worker.expect("acked").parse().unwrap();
            while let Some(line) = worker.try_next() {
                *acked = line.strip_prefix("acked ").unwrap().parse().unwrap();
            }
        }
        let link = if i % 3 == 2 { Link::Never } else { Link::Auto };
        let target = dir.path().join(format!("backup{i}"));
        let report = store.backup(&target, &CopyOptions::default().link(link)).unwrap();
        assert!(report.is_whole(), "{report:?}");
        backups.push((target, acked.clone(), report));
    }
    workers.iter_mut().for_each(|worker| worker.tell("stop"));
    for worker in workers {
        let name = worker.name.clone();
        let (_, status) = worker.finish();
        assert!(status.success(), "{name}: {status}");
    }
    let at_each =
        folded(&tasks, &backups.iter().map(|(.., report)| report.workspaces[0].seq().0).collect::<Vec<_>>());
    let mut last = 0;
    for (target, acked, report) in &backups {
        let copy = &report.workspaces[0];
        assert!(copy.seq().0 > last, "nobody wrote between two backups");
        last = copy.seq().0;
        let copied = open(target, options("reader").read_only(true));
        assert_eq!(copied.workspace().open_report().findings, []);
        let (seq, hash) = copied.workspace().log().read(|state| (state.last(), state.hash())).unwrap();
        assert_eq!((seq, hash), (copy.seq(), copy.state_hash), "{target:?}");
        for (i, acked) in acked.iter().enumerate() {
            let found = copied.get(&format!("w{i}")).unwrap().unwrap();
            let count = found.task.item.get(&Field::TokensIn).map_or(0, |v| v.to_json().parse().unwrap());
            assert!(count >= *acked, "{target:?} lacks what w{i} was acknowledged: {acked}, and has {count}");
            // A value that was in a blob is there whole.
            if let Some(title) = found.task.item.text(&Field::Task) {
                assert_eq!(title.len() % 20_000, 0);
            }
        }
        assert_eq!(at_each.get(&seq.0), Some(&folded_hash(&copied)), "{target:?} is not the source at {seq}");
    }
    // Writable, each of them, and each goes its own way.
    let (target, ..) = &backups[0];
    let copied = open(target, options("after"));
    let _ = copied.create(Item::new(&id("after")), Durability::Durable).unwrap();
    assert!(tasks.get("after").unwrap().is_none());
    assert_eq!(tasks.workspace().open_report().findings, []);
}

/// The hash of the fold of tasks at each of these events, by a replay of the source.
fn folded(tasks: &Tasks, at: &[u64]) -> BTreeMap<u64, blake3::Hash> {
    let (_, found) = tasks
        .workspace()
        .log()
        .replay(
            || (Index::default(), BTreeMap::new()),
            |(index, found), _, commit| {
                index.apply(commit, Meanings::unknown(), false);
                let last = commit.events().map(|e| e.seq.0 + u64::from(e.takes) - 1).max().unwrap_or(0);
                if at.contains(&last) {
                    found.insert(last, hash_of(index));
                }
            },
        )
        .unwrap();
    found
}

fn folded_hash(tasks: &Tasks) -> blake3::Hash {
    tasks.workspace().log().read(|state: &State| hash_of(state.folded::<Index>().unwrap())).unwrap()
}

fn hash_of(index: &Index) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new();
    index.hash(&mut hasher);
    hasher.finalize()
}
