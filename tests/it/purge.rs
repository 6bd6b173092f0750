//! Purge: no file of the workspace holds the bytes, whatever held them, and however it ends.

#![expect(clippy::unwrap_used, reason = "a test, all of it")]

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use foldlog::event::{Field, Item, Patch, TaskId, Value};
use foldlog::task::{CommitOptions, Op, PurgeReceipt, TaskExpect, TaskStore, Tasks};
use foldlog::vfs::sim::{CrashModel, DiskState, Effect, Fault, Op as Call, Profile, Rng, SimMachine};
use foldlog::vfs::{FileKind, Open, Vfs, write_full};
use foldlog::{Consistency, Durability, ErrorKind, Mapping, OpId, Place, Since, Store};

use crate::hooked::Hooked;
use crate::simulated::tasks::{hash, open, open_with, options, replayed};
use crate::simulated::{ROOT, quick};

/// What is to go. It is in no key and in no name.
const SECRET: &str = "the launch code is 0451";

/// How long one waits for a lock that the other holds, which does not go on meanwhile.
const PATIENCE: Duration = Duration::from_millis(50);

fn id(name: &str) -> TaskId {
    TaskId::new(name).unwrap()
}

fn commit(tasks: &Tasks, op: Op) {
    let _ = tasks.commit(vec![op], Durability::Buffered).unwrap();
}

fn create(tasks: &Tasks, name: &str, title: &str) {
    commit(tasks, Op::Create { item: Item::new(&id(name)).with(Field::Task, title), again: false });
}

fn set(tasks: &Tasks, name: &str, field: &str, value: impl Into<Value>) {
    commit(tasks, Op::Patch { id: id(name), patch: Patch::new().set(Field::of(field), value) });
}

fn noise(tasks: &Tasks, steps: i64) {
    for step in 0..steps {
        let patch = Patch::new().set(Field::TokensIn, step).set(Field::of("n"), "x".repeat(60).as_str());
        commit(tasks, Op::Patch { id: id("other"), patch });
    }
}

fn purge(tasks: &Tasks, name: &str) -> PurgeReceipt {
    tasks.purge(&[id(name)], false, &mut |_, _| ControlFlow::Continue(())).unwrap()
}

fn files(disk: &DiskState) -> Vec<PathBuf> {
    let files = disk.tree().into_iter().filter(|(_, kind, _)| *kind == FileKind::File);
    files.map(|(path, ..)| Path::new("/").join(path)).collect()
}

/// Every file that has a part of the secret long enough to be no accident.
fn holding(disk: &DiskState) -> Vec<PathBuf> {
    let part = &SECRET.as_bytes()[4..15];
    let has = |path: &PathBuf| disk.read(path).unwrap().windows(part.len()).any(|bytes| bytes == part);
    files(disk).into_iter().filter(has).collect()
}

fn text(len: usize) -> String {
    SECRET.repeat(len / SECRET.len() + 1)
}

/// A store in which the secret is everywhere that it can be: old and new segments, two snapshots, a blob of its own and one
/// that another task names too, evidence of an import, quarantine, and what the dead have left half made.
fn spread(machine: &SimMachine) -> Tasks {
    let tasks = open(machine);
    create(&tasks, "other", "a title");
    create(&tasks, "leaky", SECRET);
    noise(&tasks, 60);
    set(&tasks, "leaky", "notes", SECRET);
    set(&tasks, "leaky", "large", text(70_000).as_str());
    let record = foldlog::task::ImportRecord {
        id: id("leaky"),
        item: Item::new(&id("leaky")),
        source: "old".into(),
        weak: Vec::new(),
        evidence: vec![("older".into(), Value::from(SECRET))],
    };
    commit(&tasks, Op::Import(record));
    let _ = tasks.pin(&id("leaky"), true, Durability::Buffered).unwrap();
    let _ = tasks.workspace().snapshot().unwrap().unwrap();
    noise(&tasks, 60);
    let named = CommitOptions::from(Durability::Buffered).op_id(OpId([7; 16]));
    let _ = tasks.patch(&id("leaky"), Patch::new().set(Field::Mode, SECRET), named).unwrap();
    let _ = tasks.workspace().snapshot().unwrap().unwrap();
    noise(&tasks, 3);
    set(&tasks, "leaky", "last", SECRET);
    let dir = tasks.workspace().log().paths().dir().to_path_buf();
    let vfs = machine.process("hand");
    let put = |path: &Path| {
        let file = vfs.open(path, Open::Create).unwrap();
        write_full(&*file, text(600).as_bytes(), 0).unwrap();
    };
    let _made = vfs.create_dir(&dir.join("quarantine"));
    put(&dir.join("quarantine/00-11.bin"));
    put(&dir.join("log/.compact-0123456789abcdef"));
    put(&dir.join("log/.new-0123456789abcdef"));
    put(&dir.join("snapshots/.new-0123456789abcdef"));
    tasks
}

fn check_gone(machine: &SimMachine, tasks: &Tasks, receipt: &PurgeReceipt) {
    assert!(receipt.is_complete(), "{receipt:?}");
    assert_eq!(holding(&machine.disk()), Vec::<PathBuf>::new());
    for other in [tasks, &open(machine), &replayed(machine)] {
        assert_eq!(hash(other), hash(tasks));
        assert_eq!(other.get("other").unwrap().unwrap().task.item.text(&Field::Task).unwrap(), "a title");
        assert!(other.get("leaky").unwrap().is_none());
        let late = other.require(&id("leaky")).unwrap_err();
        assert!(matches!(late.kind(), ErrorKind::TaskDeleted { .. }), "{late}");
        assert_eq!(other.check().unwrap(), Vec::new());
    }
}

#[test]
fn no_file_holds_it_any_more() {
    for profile in [Profile::Linux, Profile::Mac, Profile::Windows] {
        let machine = SimMachine::new(profile, 1);
        let tasks = spread(&machine);
        let planned = tasks.plan_purge(&[id("leaky")], false).unwrap();
        assert_eq!((planned.tasks.as_slice(), planned.quarantine.len()), ([id("leaky")].as_slice(), 1));
        assert!(holding(&machine.disk()).len() > 8, "{:?}", holding(&machine.disk()));
        let receipt = purge(&tasks, "leaky");
        assert!(receipt.segments >= 3 && receipt.events >= 6, "{receipt:?}");
        assert_eq!((receipt.tasks.as_slice(), receipt.blobs.len()), ([id("leaky")].as_slice(), 1));
        assert_eq!(receipt.quarantine, planned.quarantine);
        check_gone(&machine, &tasks, &receipt);
        // It can be said again, and comes to nothing.
        let again = purge(&tasks, "leaky");
        assert_eq!((again.segments, again.events, again.is_complete()), (0, 0, true));
        // The request that had it is answered as before, and is not applied anew.
        let named = CommitOptions::from(Durability::Buffered).op_id(OpId([7; 16]));
        let patch = Patch::new().set(Field::Mode, SECRET);
        let repeated = tasks.patch(&id("leaky"), patch, named).unwrap();
        assert!(repeated.again && repeated.token(&id("leaky")).is_some());
        // A new one of its name is another task.
        let item = Item::new(&id("leaky")).with(Field::Task, "harmless");
        commit(&tasks, Op::Create { item, again: true });
        noise(&tasks, 30);
        let _ = tasks.workspace().snapshot().unwrap().unwrap();
        assert_eq!(hash(&open(&machine)), hash(&replayed(&machine)));
        assert_eq!(holding(&machine.disk()), Vec::<PathBuf>::new());
    }
}

#[test]
fn what_others_have_stays() {
    let machine = SimMachine::new(Profile::Linux, 2);
    let tasks = open(&machine);
    create(&tasks, "other", "a title");
    create(&tasks, "parent", "p");
    let child = Item::new(&id("leaky")).with(Field::Task, SECRET);
    commit(&tasks, Op::Delegate { parent: id("parent"), child });
    let same = text(70_000);
    set(&tasks, "leaky", "large", same.as_str());
    set(&tasks, "other", "large", same.as_str());
    commit(&tasks, Op::Delegate { parent: id("leaky"), child: Item::new(&id("below")) });
    let refused = tasks.plan_purge(&[id("leaky")], false).unwrap_err();
    assert_eq!(refused.code(), "refused");
    assert_eq!(tasks.plan_purge(&[id("nobody")], true).unwrap_err().code(), "no-task");
    let plan = tasks.plan_purge(&[id("leaky")], true).unwrap();
    assert_eq!(plan.tasks, [id("below"), id("leaky")]);
    assert!(tasks.get("leaky").unwrap().is_some(), "a plan changes nothing");
    let receipt = tasks.purge(&[id("leaky")], true, &mut |_, _| ControlFlow::Continue(())).unwrap();
    assert_eq!((receipt.tasks, receipt.blobs.len()), (plan.tasks, 0));
    // The parent waits no more, and the other task has what it has.
    let parent = tasks.get("parent").unwrap().unwrap();
    assert_eq!(parent.task.status().name(), "active");
    let other = replayed(&machine).get("other").unwrap().unwrap();
    assert_eq!(other.task.item.text(&Field::of("large")).unwrap(), same);
    assert_eq!(holding(&machine.disk()).len(), 1, "its blob: {:?}", holding(&machine.disk()));
}

#[test]
fn whoever_has_a_snapshot_in_use_is_waited_for_by_a_later_call() {
    for (profile, mapping) in
        [(Profile::Linux, Mapping::Auto), (Profile::Linux, Mapping::Off), (Profile::Windows, Mapping::Auto)]
    {
        let machine = SimMachine::new(profile, 3);
        let tasks = spread(&machine);
        let other = machine.process("window 2");
        let reader = open_with(&other, options().mapping(mapping).label("window 2")).unwrap();
        let still = reader.view(Consistency::Latest).unwrap();
        let used = reader.read(|state, _| state.snapshot().map(Path::to_path_buf)).unwrap().unwrap();
        let receipt = purge(&tasks, "leaky");
        let pending: Vec<_> = receipt.pending.iter().map(|file| file.path.clone()).collect();
        let of_snapshot = |path: &&PathBuf| path.starts_with(used.parent().unwrap());
        assert_eq!(pending.iter().filter(of_snapshot).count(), 1, "{receipt:?}");
        // Windows keeps the segment too that the other stands in.
        assert!(pending.len() == 1 || profile == Profile::Windows, "{receipt:?}");
        assert!(receipt.pending.iter().all(|file| file.holder.contains("window 2")), "{receipt:?}");
        assert_eq!(holding(&machine.disk()), pending, "those files alone");
        // A view never changes, whatever was removed.
        assert!(still.get(&id("leaky")).is_some());
        assert!(!purge(&tasks, "leaky").is_complete(), "it is still looked at");
        // As soon as it reads on it lets go, but for the view.
        assert!(reader.get("leaky").unwrap().is_none());
        assert_eq!(purge(&tasks, "leaky").pending.len(), 1);
        drop(still);
        check_gone(&machine, &tasks, &purge(&tasks, "leaky"));
    }
}

#[test]
fn snapshot_that_is_in_use_and_no_longer_kept_is_known_too() {
    let machine = SimMachine::new(Profile::Linux, 12);
    let tasks = spread(&machine);
    let reader = open_with(&machine.process("reader"), options().read_only(true)).unwrap();
    let used = reader.read(|state, _| state.snapshot().map(Path::to_path_buf)).unwrap().unwrap();
    let still = reader.view(Consistency::Latest).unwrap();
    for _ in 0..3 {
        noise(&tasks, 20);
        let _ = tasks.workspace().snapshot().unwrap().unwrap();
    }
    assert!(!files(&machine.disk()).contains(&used), "two newer ones are kept");
    let receipt = purge(&tasks, "leaky");
    let name = used.file_name().unwrap().to_string_lossy().into_owned();
    let pending = receipt.pending.iter().any(|file| file.path.to_string_lossy().contains(&name));
    assert!(pending, "{receipt:?}");
    drop((still, reader));
    check_gone(&machine, &tasks, &purge(&tasks, "leaky"));
}

#[test]
fn what_is_left_goes_on_a_full_disk_too() {
    let machine = SimMachine::new(Profile::Linux, 14);
    let tasks = spread(&machine);
    let reader = open_with(&machine.process("reader"), options().read_only(true)).unwrap();
    assert!(!purge(&tasks, "leaky").is_complete());
    drop(reader);
    machine.set_capacity(Some(machine.used()));
    let receipt = purge(&tasks, "leaky");
    machine.set_capacity(None);
    check_gone(&machine, &tasks, &receipt);
}

#[test]
fn holder_that_is_killed_holds_nothing() {
    let machine = SimMachine::new(Profile::Linux, 4);
    let tasks = spread(&machine);
    let other = machine.process("reader");
    let reader = open_with(&other, options().read_only(true)).unwrap();
    assert!(!purge(&tasks, "leaky").is_complete());
    machine.kill(&other);
    check_gone(&machine, &tasks, &purge(&tasks, "leaky"));
    drop(reader);
}

/// Before any one call that `late` makes after it has opened, another process does something; `after` looks at what came of it. Returns how
/// many calls there were.
fn before_any_call<T: Send + 'static>(
    late: impl Fn(&Tasks),
    other: impl Fn(&SimMachine) -> T + Send + Sync + Clone + 'static,
    after: impl Fn(&SimMachine, T, u64),
) -> u64 {
    let step = if quick() { 3 } else { 1 };
    let mut nth = 1;
    loop {
        let machine = SimMachine::new(Profile::Linux, 5);
        drop(spread(&machine));
        let (calls, came) = (Arc::new(AtomicU64::new(u64::MAX / 2)), Arc::new(Mutex::new(None)));
        let (for_hook, count, answer, act) =
            (machine.clone(), Arc::clone(&calls), Arc::clone(&came), other.clone());
        let hooked = Hooked::new(Arc::new(machine.process("late")), move |_, _| {
            if count.fetch_add(1, Ordering::Relaxed) + 1 == nth {
                // A thread of its own: what it locks is not this one's.
                let done = std::thread::scope(|scope| scope.spawn(|| act(&for_hook)).join().unwrap());
                *answer.lock().unwrap() = Some(done);
            }
        });
        let store = Store::open_on(hooked, Path::new(ROOT), options().lock_timeout(PATIENCE)).unwrap();
        let tasks = TaskStore::of(store).home(&Place::None).unwrap();
        assert!(tasks.get("leaky").unwrap().is_some());
        calls.store(0, Ordering::Relaxed);
        late(&tasks);
        drop(tasks);
        let Some(done) = came.lock().unwrap().take() else { return nth };
        after(&machine, done, nth);
        nth += step;
    }
}

#[test]
fn snapshot_of_what_was_there_before_is_not_written_behind_it() {
    let finished = Arc::new(AtomicU64::new(0));
    let told = Arc::clone(&finished);
    let calls = before_any_call(
        // Whatever this process has read by then, and whether it gets to write it.
        |late| drop(late.workspace().snapshot()),
        |machine| {
            let tasks = open_with(&machine.process("purger"), options().lock_timeout(PATIENCE)).unwrap();
            tasks.purge(&[id("leaky")], false, &mut |_, _| ControlFlow::Continue(()))
        },
        move |machine, receipt, nth| {
            if let Ok(receipt) = receipt {
                told.fetch_add(1, Ordering::Relaxed);
                let known: Vec<_> = receipt.pending.into_iter().map(|file| file.path).collect();
                let held = holding(&machine.disk());
                assert!(
                    held.iter().all(|path| known.contains(path)),
                    "before call {nth}: {held:?}, {known:?}"
                );
            }
            let next = open(machine);
            check_gone(machine, &next, &purge(&next, "leaky"));
        },
    );
    let finished = finished.load(Ordering::Relaxed);
    assert!(finished > 10 && calls > 60, "{finished} of {calls}");
}

#[test]
fn blob_that_is_named_again_meanwhile_stays() {
    let calls = before_any_call(
        |late| drop(late.purge(&[id("leaky")], false, &mut |_, _| ControlFlow::Continue(()))),
        |machine| {
            let tasks = open_with(&machine.process("namer"), options().lock_timeout(PATIENCE)).unwrap();
            let patch = Patch::new().set(Field::of("large"), text(70_000).as_str());
            tasks.patch(&id("other"), patch, Durability::Buffered).map(drop)
        },
        |machine, named, nth| {
            let other = open(machine).get("other").unwrap().unwrap();
            let large = other.task.item.text(&Field::of("large")).map(std::borrow::Cow::into_owned);
            match named {
                Ok(()) => assert_eq!(large, Some(text(70_000)), "before call {nth}"),
                Err(e) => assert_eq!((e.code(), large), ("busy", None), "before call {nth}"),
            }
        },
    );
    assert!(calls > 100, "{calls}");
}

#[test]
fn segments_that_others_fill_meanwhile_stay() {
    let last = 150_i64;
    let filled = Arc::new(AtomicU64::new(0));
    let told = Arc::clone(&filled);
    let calls = before_any_call(
        |late| drop(late.purge(&[id("leaky")], false, &mut |_, _| ControlFlow::Continue(()))),
        move |machine| {
            let tasks = open_with(&machine.process("filler"), options().lock_timeout(PATIENCE)).unwrap();
            let fill = |n: i64| {
                let patch =
                    Patch::new().set(Field::of("n"), n).set(Field::of("filler"), "x".repeat(80).as_str());
                tasks.patch(&id("other"), patch, Durability::Buffered).is_ok()
            };
            (0..last).take_while(|n| fill(*n)).last()
        },
        move |machine, acknowledged, nth| {
            if acknowledged == Some(last - 1) {
                told.fetch_add(1, Ordering::Relaxed);
            }
            let next = open(machine);
            let other = next.get("other").unwrap().unwrap();
            let found = other.task.item.get(&Field::of("n")).and_then(Value::as_u64);
            let least = acknowledged.map_or(-1, |n| n);
            let found = found.map_or(-1, |n| i64::try_from(n).unwrap());
            assert!(found >= least, "before call {nth}: {found}, and {least} was acknowledged");
            check_gone(machine, &next, &purge(&next, "leaky"));
        },
    );
    let filled = filled.load(Ordering::Relaxed);
    assert!(calls > 100 && filled > 20, "{filled} of {calls}");
}

#[test]
fn whoever_stands_behind_it_lets_go_of_its_snapshot_too() {
    let machine = SimMachine::new(Profile::Linux, 5);
    let tasks = spread(&machine);
    noise(&tasks, 100);
    let _ = tasks.workspace().snapshot().unwrap().unwrap();
    noise(&tasks, 100);
    let reader = open_with(&machine.process("reader"), options().read_only(true)).unwrap();
    assert!(reader.get("leaky").unwrap().is_some());
    // The segment has been ended, and nothing has been written anew: the reader goes over to the next one.
    let broken_off = tasks.purge(&[id("leaky")], false, &mut |_, _| ControlFlow::Break(()));
    assert!(broken_off.is_err() && reader.get("leaky").unwrap().is_none());
    let noted = reader.read(|state, _| state.snapshot().map(Path::to_path_buf)).unwrap();
    // Now all is done behind its back.
    let receipt = purge(&tasks, "leaky");
    assert_eq!((noted.is_none(), receipt.is_complete()), (true, true), "it had let go at once");
    let mut new = reader.workspace().subscribe(Since::Now).unwrap();
    noise(&tasks, 2);
    assert!(new.try_next().unwrap().is_some());
}

#[test]
fn stale_writes_and_wrong_hands_are_refused_as_for_any_deleted_task() {
    let machine = SimMachine::new(Profile::Linux, 6);
    let tasks = spread(&machine);
    let token = tasks.get("leaky").unwrap().unwrap().token;
    let (fence, _) = tasks.attach(&id("leaky"), Durability::Buffered).unwrap();
    let receipt = purge(&tasks, "leaky");
    check_gone(&machine, &tasks, &receipt);
    let patch = || Patch::new().set(Field::Mode, "x");
    let late = CommitOptions::from(Durability::Buffered).expect(&id("leaky"), TaskExpect::At(token));
    assert!(tasks.patch(&id("leaky"), patch(), late).is_err());
    commit(&tasks, Op::Create { item: Item::new(&id("leaky")), again: true });
    let fenced = CommitOptions::from(Durability::Buffered).fence(&id("leaky"), fence);
    assert_eq!(tasks.patch(&id("leaky"), patch(), fenced).unwrap_err().code(), "fenced");
    assert_eq!(hash(&tasks), hash(&replayed(&machine)));
}

fn examine(disk: &DiskState, done: bool) -> Result<bool, String> {
    let machine = SimMachine::from_disk(disk, 77);
    let tasks = open_with(&machine.process("next"), options().create(false)).map_err(|e| e.to_string())?;
    let mine = tasks.read(|state, _| state.hash()).map_err(|e| format!("reading: {e}; {:?}", files(disk)))?;
    if mine != hash(&replayed(&machine)) {
        return Err("what is left does not come to one state".into());
    }
    if !tasks.check().unwrap().is_empty() {
        return Err(format!("{:?}", tasks.check().unwrap()));
    }
    let other = tasks.get("other").unwrap().ok_or("another task is gone")?;
    if other.task.item.text(&Field::Task).as_deref() != Some("a title") {
        return Err("another task has changed".into());
    }
    let held = !holding(disk).is_empty();
    if done && (held || tasks.get("leaky").unwrap().is_some()) {
        return Err(format!("what was said to be gone is there: {:?}", holding(disk)));
    }
    check_gone(&machine, &tasks, &purge(&tasks, "leaky"));
    Ok(held)
}

#[test]
fn every_crash_leaves_what_the_next_call_finishes() {
    let models: [(Profile, CrashModel); 3] = [
        (Profile::Linux, CrashModel::adversarial()),
        (Profile::Mac, Profile::Mac.crash_model()),
        (Profile::Windows, Profile::Windows.crash_model()),
    ];
    let (mut states, mut held, mut clean) = (0, 0, 0);
    for (m, (profile, model)) in models.into_iter().enumerate() {
        let machine = SimMachine::new(profile, 8);
        let tasks = spread(&machine);
        tasks.workspace().clone().close().unwrap();
        drop(tasks);
        let machine = SimMachine::from_disk(&machine.disk().all_synced(), 9);
        let process = machine.process("purger");
        let tasks = open_with(&process, options()).unwrap();
        machine.record();
        assert!(purge(&tasks, "leaky").is_complete());
        machine.mark("purged");
        machine.kill(&process);
        let record = machine.take_record();
        let limit = if quick() { 1 } else { 6 };
        let (mut rng, mut seen) = (Rng::new(m as u64), HashSet::new());
        for boundary in &record.boundaries {
            let done = record.marks_at(boundary).iter().any(|mark| mark == "purged");
            let cuts = boundary.disk.crash_states_with(&model, limit, &mut rng);
            for disk in cuts.chain([boundary.disk.process_kill()]) {
                if !seen.insert((disk.content_hash(), disk.boots(), done)) {
                    continue;
                }
                states += 1;
                match examine(&disk, done) {
                    Ok(true) => held += 1,
                    Ok(false) => clean += 1,
                    Err(why) => {
                        panic!("{why}\n  on {profile:?}, before {:?}, {}", boundary.call, disk.origin())
                    }
                }
            }
        }
    }
    println!("{states} states, {held} with it and {clean} without");
    assert!(states > 100 && held > 50 && clean > 2, "{states} {held} {clean}");
}

#[test]
fn every_call_that_fails_leaves_what_the_next_one_finishes() {
    let mut failed = 0;
    for call in [
        Call::Create,
        Call::Write,
        Call::Sync,
        Call::Rename,
        Call::Open,
        Call::Read,
        Call::List,
        Call::SyncDir,
        Call::Unlink,
    ] {
        for nth in [0, 1, 2, 3, 5, 8, 13, 21, 34] {
            if quick() && nth % 2 == 1 {
                continue;
            }
            let machine = SimMachine::new(Profile::Linux, 10);
            let tasks = spread(&machine);
            machine.fault(
                Fault::on(call, Effect::Fail(std::io::ErrorKind::StorageFull)).path("/workspaces").nth(nth),
            );
            let done = tasks.purge(&[id("leaky")], false, &mut |_, _| ControlFlow::Continue(()));
            machine.clear_faults();
            failed += usize::from(!matches!(&done, Ok(receipt) if receipt.is_complete()));
            if matches!(&done, Ok(receipt) if receipt.is_complete()) {
                assert_eq!(holding(&machine.disk()), Vec::<PathBuf>::new(), "{call:?} {nth}");
            }
            drop(tasks);
            let next = open(&machine);
            check_gone(&machine, &next, &purge(&next, "leaky"));
        }
    }
    assert!(failed > 15, "{failed}");
}

#[test]
fn whoever_says_it_again_finishes_what_went_with_it_too() {
    let machine = SimMachine::new(Profile::Linux, 13);
    let tasks = spread(&machine);
    commit(&tasks, Op::Create { item: Item::new(&id("top")), again: false });
    let child = Item::new(&id("below")).with(Field::Task, SECRET).with(Field::ParentTaskId, "top");
    commit(&tasks, Op::Create { item: child, again: false });
    let stop = tasks.purge(&[id("top")], true, &mut |_, _| ControlFlow::Break(())).unwrap_err();
    assert_eq!(stop.code(), "refused");
    assert!(tasks.get("below").unwrap().is_none(), "it has gone with it");
    let again = tasks.purge(&[id("top"), id("leaky")], true, &mut |_, _| ControlFlow::Continue(())).unwrap();
    check_gone(&machine, &tasks, &again);
}

#[test]
fn broken_off_it_is_taken_up_again() {
    let machine = SimMachine::new(Profile::Linux, 11);
    let tasks = spread(&machine);
    let stop = tasks.purge(&[id("leaky")], false, &mut |_, _| ControlFlow::Break(())).unwrap_err();
    assert_eq!(stop.code(), "refused");
    assert!(tasks.get("leaky").unwrap().is_none(), "it is deleted all the same");
    check_gone(&machine, &tasks, &purge(&tasks, "leaky"));
}
