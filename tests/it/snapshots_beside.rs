//! Snapshots that are written beside others' work: what is told of it, what is left when a log is closed, and what becomes of
//! one whose ground compaction takes away.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a test looks at real files, and at the clock itself"
)]
#![expect(clippy::unwrap_used, reason = "a test, all of it")]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use foldlog::event::{Field, Patch};
use foldlog::task::{TaskStore, Tasks};
use foldlog::vfs::sim::{Profile, SimMachine};
use foldlog::{Durability, Options, Place, Status as Health, Store};

use crate::hooked::Hooked;
use crate::simulated::ROOT;
use crate::snapshots::{create, find, hash, id, open_with, options, replayed, snapshot};
use crate::worker::BOUND;

fn on_disk(dir: &Path, options: Options) -> (Store, Tasks) {
    let store = Store::open(dir, TaskStore::options(options)).unwrap();
    let tasks = TaskStore::of(store.clone()).home(&Place::None).unwrap();
    (store, tasks)
}

#[test]
fn what_comes_to_nothing_in_the_background_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let (_store, tasks) = on_disk(dir.path(), Options::default().snapshot_after(20_000));
    let folder = tasks.workspace().log().paths().snapshots();
    // Something else has the folder's name.
    std::fs::write(&folder, "in the way").unwrap();
    create(&tasks, 0, 400, 100);
    let began = Instant::now();
    let told = || tasks.workspace().health().findings.into_iter().find(|f| f.code == "snapshot-failed");
    let finding = loop {
        if let Some(finding) = told() {
            break finding;
        }
        assert!(began.elapsed() < BOUND, "nobody was told");
        std::thread::yield_now();
    };
    assert_eq!(finding.file, folder, "{finding:?}");
    assert_eq!(tasks.workspace().health().status, Health::Healthy);
}

#[test]
fn nothing_is_at_work_for_a_log_that_was_closed() {
    let dir = tempfile::tempdir().unwrap();
    for round in 0..2 {
        // Goes with the log: the housekeeping thread may be the last that has it.
        let (token, began) = (Arc::new(()), Instant::now());
        let there = Arc::downgrade(&token);
        // So much that the thread is still at work when the last is committed.
        let options = Options::default().snapshot_after(3 << 20).on_event(move |_| drop(Arc::clone(&token)));
        let (store, tasks) = on_disk(dir.path(), options);
        let folder = tasks.workspace().log().paths().snapshots();
        create(&tasks, round * 3000, round * 3000 + 3000, 1000);
        drop((tasks, store));
        while there.strong_count() > 0 {
            assert!(began.elapsed() < BOUND, "the log is not gone");
            std::thread::yield_now();
        }
        let names: Vec<_> = std::fs::read_dir(&folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        // The one that it stood on itself may be left, and goes with a later one; nothing is half made.
        let is_whole = |name: &String| name.ends_with(".snap") || name.ends_with(".snap.spent");
        assert!(!names.is_empty() && names.iter().all(is_whole), "{names:?}");
    }
}

#[test]
fn one_that_compaction_takes_the_ground_from_is_passed_over_in_silence() {
    // Before each call of an opener in turn two newer ones come, and what the one that it has found ends in is written anew.
    let small = || options().segment_size(4 << 10).snapshot_after(u64::MAX);
    let mut taken_away = 0;
    for at in 0..600 {
        let machine = SimMachine::new(Profile::Linux, 26);
        let tasks = open_with(&machine.process("writer"), small()).unwrap();
        create(&tasks, 0, 8, 100);
        let first = snapshot(&tasks);
        let step = |tasks: &Tasks, n: usize| {
            let patch = Patch::new().set(Field::Ts, n as i64).set(Field::TokensIn, n as i64);
            let _ = tasks.patch(&id(n % 8), patch, Durability::Buffered).unwrap();
        };
        (0..40).for_each(|n| step(&tasks, n));
        let (calls, happened) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let (tasks, seen, did) = (tasks, Arc::clone(&calls), Arc::clone(&happened));
        let inner: Arc<dyn foldlog::vfs::Vfs> = Arc::new(machine.process("opener"));
        let hooked = Hooked::new(inner, move |_, _| {
            if seen.fetch_add(1, Ordering::SeqCst) == at && !did.swap(true, Ordering::SeqCst) {
                for round in 0..2 {
                    (0..40).for_each(|n| step(&tasks, n + round));
                    let _ = snapshot(&tasks);
                }
                let report =
                    tasks.workspace().compact(&mut |_, _| std::ops::ControlFlow::Continue(())).unwrap();
                assert!(report.is_some(), "old segments were written anew");
            }
        });
        let store = Store::open_on(hooked, Path::new(ROOT), small().read_only(true)).unwrap();
        let tasks = TaskStore::of(store).home(&Place::None).unwrap();
        let unused: Vec<_> = tasks.workspace().health().findings;
        assert!(!unused.iter().any(|f| f.code == "snapshot-unused"), "before call {at}: {unused:?}");
        assert_eq!(hash(&tasks), hash(&replayed(&machine)), "before call {at}");
        if !happened.load(Ordering::SeqCst) {
            assert!(taken_away > 0, "at no call the ground was taken from it");
            return;
        }
        taken_away += usize::from(!find(&machine.disk(), ".snap").contains(&first));
    }
    panic!("it makes more calls than were tried");
}
