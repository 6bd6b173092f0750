//! Snapshots: whoever opens by one has what whoever replays the log has, and whatever is wrong with one costs time alone.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "a test looks at the clock itself")]
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test, all of it")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use foldlog::event::{Field, Item, Patch, Status, TaskId};
use foldlog::task::{CommitOptions, Op, TaskStore, Tasks};
use foldlog::vfs::FileKind;
use foldlog::vfs::sim::{
    CrashModel, DiskState, Effect, Fault, Op as Call, Profile, Rng, SimMachine, SimProcess,
};
use foldlog::view::{Query, Sort};
use foldlog::{
    Durability, ErrorKind, Housekeeping, Mapping, OpId, Options, Place, Recovery, Status as Health, Store,
};

use crate::simulated::{ROOT, quick};
use crate::worker::BOUND;

pub(crate) fn options() -> Options {
    TaskStore::options(Options::default().housekeeping(Housekeeping::Off))
}

pub(crate) fn open_with(process: &SimProcess, options: Options) -> foldlog::Result<Tasks> {
    let store = Store::open_on(Arc::new(process.clone()), Path::new(ROOT), options)?;
    TaskStore::of(store).home(&Place::None)
}

fn open(machine: &SimMachine) -> Tasks {
    open_with(&machine.process("opener"), options()).unwrap()
}

/// What whoever goes by no snapshot has.
pub(crate) fn replayed(machine: &SimMachine) -> Tasks {
    open_with(&machine.process("replayer"), options().read_only(true).recovery(Recovery::Salvage)).unwrap()
}

pub(crate) fn id(n: usize) -> TaskId {
    TaskId::new(&format!("t{n:05}")).unwrap()
}

fn item(n: usize, len: usize) -> Item {
    let item = Item::new(&id(n))
        .with(Field::Ts, 1_784_000_000_000 + ((n * 7919) % 10_007) as i64)
        .with(Field::Task, format!("task {n} {}", "x".repeat(len)).as_str())
        .with(Field::Workspace, ["/a", "/b", "/c"][n % 3]);
    if n % 5 == 1 { item.with(Field::ParentTaskId, id(n - 1).as_str()) } else { item }
}

pub(crate) fn create(tasks: &Tasks, from: usize, to: usize, len: usize) {
    for n in from..to {
        let op = Op::Create { item: item(n, len), again: false };
        let _ = tasks.commit(vec![op], Durability::Buffered).unwrap();
    }
}

pub(crate) fn snapshot(tasks: &Tasks) -> PathBuf {
    tasks.workspace().snapshot().unwrap().expect("one is written").file
}

fn base_of(tasks: &Tasks) -> Option<PathBuf> {
    tasks.read(|state, _| state.snapshot().map(Path::to_path_buf)).unwrap()
}

pub(crate) fn hash(tasks: &Tasks) -> blake3::Hash {
    tasks.read(|state, _| state.hash()).unwrap()
}

/// Everything that can be asked, as text.
fn all(tasks: &Tasks) -> String {
    let mut said = String::new();
    for sort in [Sort::Time, Sort::Created, Sort::Changed, Sort::Title, Sort::Cost] {
        for (workspace, status, parent) in [
            (None, None, None),
            (Some("/b"), None, None),
            (None, Some(Status::Active), None),
            (Some("/a"), Some(Status::Completed), None),
            (None, None, Some("t00000")),
            (Some("/b"), None, Some("t00005")),
            (None, None, Some("t00200")),
        ] {
            let (workspace, parent) = (workspace.map(str::to_owned), parent.map(str::to_owned));
            let limit = Some(if parent.is_some() { 2 } else { 7 });
            let mut query = Query { sort, workspace, status, parent, limit, ..Query::default() };
            loop {
                let page = tasks.list(&query).unwrap();
                let ids: Vec<_> = page.tasks.iter().map(|found| found.task.item.to_json()).collect();
                said += &format!("{sort:?} {} {ids:?}\n", page.total);
                match page.next {
                    Some(next) => query.after = Some(next),
                    None => break,
                }
            }
        }
    }
    let view = tasks.view(foldlog::Consistency::Latest).unwrap();
    for found in view.iter() {
        said += &format!("{} {:?}\n", found.token, found.task);
        for (depth, child) in view.tree(found.task.id.as_str()) {
            said += &format!("  {depth} {}\n", child.task.id);
        }
    }
    said
}

fn flip(machine: &SimMachine, path: &Path, at: usize) {
    machine.with_disk(|disk| disk.mutate(path, |bytes| bytes[at] ^= 0x40)).unwrap();
}

/// The files whose path has this in it.
pub(crate) fn find(disk: &DiskState, part: &str) -> Vec<PathBuf> {
    let files = disk.tree().into_iter().filter(|(_, kind, _)| *kind == FileKind::File);
    files
        .map(|(path, ..)| path)
        .filter(|path| path.contains(part))
        .map(|path| Path::new("/").join(path))
        .collect()
}

fn len(machine: &SimMachine, path: &Path) -> usize {
    machine.with_disk(|disk| disk.read(path).unwrap().len())
}

#[test]
fn opener_goes_by_the_newest_and_reads_what_came_behind() {
    let machine = SimMachine::new(Profile::Linux, 1);
    let tasks = open(&machine);
    create(&tasks, 0, 40, 10);
    let first = snapshot(&tasks);
    assert!(tasks.workspace().snapshot().unwrap().is_none(), "nothing came since");
    create(&tasks, 40, 60, 10);
    let _ = tasks.remove(&[id(3)], false, Durability::Buffered).unwrap();
    let second = snapshot(&tasks);
    create(&tasks, 60, 70, 10);
    let _ = tasks.patch(&id(5), Patch::new().set(Field::Ts, 5_i64), Durability::Durable).unwrap();
    let by = open(&machine);
    assert_eq!(base_of(&by), Some(second.clone()));
    let plain = replayed(&machine);
    assert_eq!(base_of(&plain), None);
    assert_eq!((hash(&by), all(&by)), (hash(&plain), all(&plain)));
    // Two are kept, and the third takes the first one's place.
    let third = snapshot(&by);
    assert_eq!(find(&machine.disk(), "/snapshots/"), [second, third.clone()], "without {first:?}");
    // One that stands on a snapshot writes the next, and commits go on.
    let again = open(&machine);
    assert_eq!(base_of(&again), Some(third));
    assert_eq!((hash(&again), all(&again)), (hash(&plain), all(&plain)));
    create(&again, 70, 75, 10);
    assert_eq!(all(&again), all(&replayed(&machine)));
}

#[test]
fn any_flipped_byte_costs_a_replay_and_is_told() {
    let machine = SimMachine::new(Profile::Linux, 2);
    let tasks = open(&machine);
    create(&tasks, 0, 30, 10);
    let _ = tasks.workspace().flush();
    let path = snapshot(&tasks);
    let right = (hash(&tasks), all(&tasks));
    drop(tasks);
    let disk = machine.disk();
    for at in (0..len(&machine, &path)).step_by(37) {
        let machine = SimMachine::from_disk(&disk, 3);
        flip(&machine, &path, at);
        let tasks = open(&machine);
        assert_eq!((hash(&tasks), all(&tasks)), right, "with byte {at} flipped");
        assert_eq!(tasks.workspace().health().status, Health::Healthy);
        let told = tasks.workspace().open_report().findings.iter().any(|f| f.code == "snapshot-unused");
        // Only a byte that stands for nothing may be passed over.
        assert!(told || base_of(&tasks).is_some(), "byte {at}");
        assert!(told || at < 256, "byte {at} is in no header and was not missed");
    }
}

#[test]
fn spoiled_one_is_followed_by_the_one_before() {
    let machine = SimMachine::new(Profile::Linux, 4);
    let tasks = open(&machine);
    create(&tasks, 0, 20, 10);
    let older = snapshot(&tasks);
    create(&tasks, 20, 40, 10);
    let newer = snapshot(&tasks);
    let right = all(&tasks);
    flip(&machine, &newer, 300);
    let tasks = open(&machine);
    assert_eq!(base_of(&tasks), Some(older));
    assert_eq!(all(&tasks), right);
}

#[test]
fn block_that_is_found_spoiled_later_is_answered_by_the_log() {
    for mapping in [Mapping::Auto, Mapping::Off] {
        let machine = SimMachine::new(Profile::Linux, 5);
        let tasks = open(&machine);
        create(&tasks, 0, 1200, 1000);
        let path = snapshot(&tasks);
        let right = all(&tasks);
        let size = len(&machine, &path);
        assert!(size > 1 << 20, "{size} bytes are checked at once");
        // Somewhere in the items: the middle of the heap.
        flip(&machine, &path, size / 2);
        let tasks = open_with(&machine.process("opener"), options().mapping(mapping)).unwrap();
        assert_eq!(base_of(&tasks), Some(path.clone()));
        let _ = tasks.patch(&id(7), Patch::new().set(Field::Mode, "code"), Durability::Durable).unwrap();
        let _ = tasks.patch(&id(7), Patch::new().unset(Field::Mode), Durability::Durable).unwrap();
        let answers: Vec<_> = (0..1200).map(|n| tasks.get(id(n).as_str()).unwrap().unwrap()).collect();
        for (n, found) in answers.iter().enumerate() {
            assert_eq!(found.task.item.to_json(), item(n, 1000).to_json());
        }
        assert!(
            tasks.workspace().health().findings.iter().any(|f| f.code == "snapshot-unused"),
            "it is told"
        );
        assert_eq!(base_of(&tasks), None, "nothing stands on it any more");
        let plain = replayed(&machine);
        assert_eq!(hash(&tasks), hash(&plain));
        assert_eq!(all(&tasks).lines().count(), right.lines().count());
    }
}

#[test]
fn nothing_is_answered_where_neither_snapshot_nor_log_can_be_read() {
    let machine = SimMachine::new(Profile::Linux, 6);
    let tasks = open(&machine);
    create(&tasks, 0, 1200, 1000);
    let path = snapshot(&tasks);
    let size = len(&machine, &path);
    flip(&machine, &path, size / 2);
    let tasks = open(&machine);
    assert_eq!(base_of(&tasks), Some(path));
    machine.fault(
        Fault::on(Call::Open, Effect::Fail(std::io::ErrorKind::PermissionDenied)).path(".seg").always(),
    );
    let failed = (0..1200).filter(|n| tasks.get(id(*n).as_str()).is_err()).count();
    assert!(failed > 0, "what could not be read was not called absent");
    let gone = (0..1200).filter(|n| matches!(tasks.get(id(*n).as_str()), Ok(None))).count();
    assert_eq!(gone, 0);
    let refused =
        tasks.patch(&id(600), Patch::new().set(Field::Mode, "code"), Durability::Buffered).unwrap_err();
    assert!(!matches!(refused.kind(), ErrorKind::NoTask { .. }), "{refused}");
    machine.clear_faults();
    // What was found before is still not believed; then the log answers.
    assert!(tasks.get(id(600).as_str()).is_err());
    assert_eq!(hash(&tasks), hash(&replayed(&machine)));
}

#[test]
fn one_that_points_elsewhere_is_not_used() {
    let machine = SimMachine::new(Profile::Linux, 7);
    let tasks = open(&machine);
    create(&tasks, 0, 30, 10);
    let path = snapshot(&tasks);
    let right = (hash(&tasks), all(&tasks));
    drop(tasks);
    let disk = machine.disk();
    // Where the last frame starts, its CRC and number, where the next one comes, the segment: each as of something else.
    for (at, what) in
        [(72, "offset"), (68, "crc"), (80, "number"), (56, "segment"), (40, "ordinal"), (64, "generation")]
    {
        let machine = SimMachine::from_disk(&disk, 8);
        machine.with_disk(|disk| {
            let aside = |bytes: &mut Vec<u8>| {
                bytes[at] ^= 8;
                let crc = crc32fast::hash(&bytes[..252]).to_le_bytes();
                bytes[252..256].copy_from_slice(&crc);
            };
            disk.mutate(&path, aside).unwrap();
        });
        let tasks = open(&machine);
        assert_eq!(base_of(&tasks), None, "{what}");
        assert_eq!((hash(&tasks), all(&tasks)), right, "{what}");
        let unused =
            tasks.workspace().open_report().findings.iter().filter(|f| f.code == "snapshot-unused").count();
        assert_eq!(unused, 1, "{what}");
    }
}

#[test]
fn log_that_ends_before_its_snapshot_is_damaged_and_not_begun_anew() {
    let machine = SimMachine::new(Profile::Linux, 9);
    let tasks = open(&machine);
    create(&tasks, 0, 10, 10);
    let _ = tasks.workspace().flush();
    tasks.workspace().clone().close().unwrap();
    let segment = |machine: &SimMachine| find(&machine.disk(), ".seg").into_iter().max().unwrap();
    let early = machine.disk().read(segment(&machine)).unwrap();
    drop(tasks);
    let tasks = open(&machine);
    create(&tasks, 10, 20, 10);
    let _ = snapshot(&tasks);
    drop(tasks);
    let machine = SimMachine::from_disk(&machine.disk(), 10);
    let path = segment(&machine);
    machine.with_disk(|disk| disk.mutate(&path, |bytes| bytes.clone_from(&early))).unwrap();
    // Without the control block, whose durable word says so too.
    for control in find(&machine.disk(), "/control") {
        machine.with_disk(|disk| disk.mutate(&control, Vec::clear)).unwrap();
    }
    let tasks = open(&machine);
    assert_eq!(tasks.workspace().health().status, Health::Damaged);
    assert!(tasks.get(id(5).as_str()).unwrap().is_some(), "what is there can be read");
}

#[test]
fn repair_below_it_takes_it_away() {
    let machine = SimMachine::new(Profile::Linux, 14);
    let small = || options().segment_size(4 << 10);
    let tasks = open_with(&machine.process("writer"), small()).unwrap();
    create(&tasks, 0, 200, 100);
    let path = snapshot(&tasks);
    drop(tasks);
    let machine = SimMachine::from_disk(&machine.disk().all_synced(), 15);
    let segments = find(&machine.disk(), ".seg");
    assert!(segments.len() > 5);
    flip(&machine, &segments[1], 1_000);
    // Whoever opens by it does not look there.
    let tasks = open_with(&machine.process("opener"), small()).unwrap();
    assert_eq!(base_of(&tasks), Some(path));
    let report = tasks.workspace().log().repair().unwrap();
    assert_eq!(report.steps.len(), 1);
    assert!(find(&machine.disk(), ".snap").is_empty(), "it had what the log has no more");
    for other in [&tasks, &open_with(&machine.process("next"), small()).unwrap()] {
        assert_eq!(hash(other), hash(&replayed(&machine)));
    }
}

#[test]
fn requests_are_remembered_over_a_snapshot() {
    let machine = SimMachine::new(Profile::Linux, 11);
    let tasks = open(&machine);
    let send = |tasks: &Tasks, n: usize| {
        let op = Op::Create { item: item(n, 3), again: false };
        let options = CommitOptions::from(Durability::Buffered).op_id(OpId([u8::try_from(n).unwrap(); 16]));
        tasks.commit(vec![op], options).unwrap()
    };
    let first: Vec<_> = (0..20).map(|n| send(&tasks, n)).collect();
    let _ = snapshot(&tasks);
    let later: Vec<_> = (20..30).map(|n| send(&tasks, n)).collect();
    let tasks = open(&machine);
    assert!(base_of(&tasks).is_some());
    let _ = snapshot(&tasks);
    let tasks = open(&machine);
    for (n, before) in first.iter().chain(&later).enumerate() {
        let again = send(&tasks, n);
        assert!(again.again && !before.again);
        assert_eq!((again.first, again.count, &again.tasks), (before.first, before.count, &before.tasks));
    }
}

#[test]
fn one_is_written_when_enough_is_new_and_at_a_clean_close() {
    let machine = SimMachine::new(Profile::Linux, 12);
    let some = || options().snapshot_after(20_000);
    let tasks = open_with(&machine.process("a"), some()).unwrap();
    create(&tasks, 0, 10, 10);
    tasks.workspace().clone().close().unwrap();
    assert!(find(&machine.disk(), ".snap").is_empty(), "too little");
    create(&tasks, 10, 200, 100);
    tasks.workspace().clone().close().unwrap();
    assert_eq!(find(&machine.disk(), ".snap").len(), 1);
    drop(tasks);
    let tasks = open_with(&machine.process("b"), some()).unwrap();
    assert!(base_of(&tasks).is_some());
    assert_eq!(all(&tasks), all(&replayed(&machine)));
    // In real life a thread does it meanwhile.
    let dir = tempfile::tempdir().unwrap();
    let store =
        Store::open(dir.path(), TaskStore::options(Options::default().snapshot_after(20_000))).unwrap();
    let tasks = TaskStore::of(store).home(&Place::None).unwrap();
    create(&tasks, 0, 400, 100);
    let folder = tasks.workspace().log().paths().snapshots();
    let snaps = || {
        let names = std::fs::read_dir(&folder).into_iter().flatten().filter_map(Result::ok);
        names.filter(|entry| entry.file_name().to_string_lossy().ends_with(".snap")).count()
    };
    let began = Instant::now();
    while snaps() == 0 {
        assert!(began.elapsed() < BOUND, "none came by itself");
        std::thread::yield_now();
    }
}

/// Two rounds of commits with a snapshot behind each, and one by somebody else.
fn go(machine: &SimMachine, level: Durability) {
    let process = machine.process("writer");
    let tasks = open_with(&process, options()).unwrap();
    for round in 0..4 {
        for n in round * 3..round * 3 + 3 {
            let op = Op::Create { item: item(n, 100), again: false };
            if tasks.commit(vec![op], level).unwrap().durable {
                machine.mark(format!("{n}"));
            }
        }
        if tasks.workspace().snapshot().unwrap().is_some() {
            // All it covers is durable.
            (0..round * 3 + 3).for_each(|n| machine.mark(format!("{n}")));
        }
    }
    machine.kill(&process);
}

#[derive(Debug, Default)]
struct Told {
    states: usize,
    by_snapshot: usize,
    left: usize,
}

fn examine(disk: &DiskState, marks: &[String], told: &mut Told) -> Result<(), String> {
    let machine = SimMachine::from_disk(disk, 77);
    let tasks =
        open_with(&machine.process("next"), options().create(false)).map_err(|e| format!("opening: {e}"))?;
    if tasks.workspace().health().status != Health::Healthy {
        return Err(format!("{:?}", tasks.workspace().health()));
    }
    told.by_snapshot += usize::from(base_of(&tasks).is_some());
    for n in marks {
        let n: usize = n.parse().unwrap();
        let found =
            tasks.get(id(n).as_str()).map_err(|e| format!("{n}: {e}"))?.ok_or(format!("{n} is lost"))?;
        if found.task.item != item(n, 100) {
            return Err(format!("{n} is another"));
        }
    }
    let plain = replayed(&machine);
    if (hash(&tasks), all(&tasks)) != (hash(&plain), all(&plain)) {
        return Err("a replay says something else".into());
    }
    // What the crash left is no obstacle, and does not stay.
    create(&tasks, 90, 92, 10);
    let path = tasks.workspace().snapshot().map_err(|e| format!("the next snapshot: {e}"))?;
    let path = path.ok_or("no snapshot was written")?.file;
    if !find(&machine.disk(), "/.new-").iter().all(|left| !left.starts_with(path.parent().unwrap())) {
        return Err("an unfinished one was left".into());
    }
    let again = open(&machine);
    if base_of(&again) != Some(path) || hash(&again) != hash(&tasks) {
        return Err("the next one is not used".into());
    }
    told.left += usize::from(!find(disk, "snapshots/.new-").is_empty());
    told.states += 1;
    Ok(())
}

#[test]
fn every_crash_while_snapshots_are_written_leaves_what_the_log_says() {
    let models: [(Profile, CrashModel); 3] = [
        (Profile::Linux, CrashModel::adversarial()),
        (Profile::Mac, Profile::Mac.crash_model()),
        (Profile::Windows, Profile::Windows.crash_model()),
    ];
    let mut told = Told::default();
    for (m, (profile, model)) in models.into_iter().enumerate() {
        for level in [Durability::Durable, Durability::Buffered] {
            let machine = SimMachine::new(profile, 3);
            let founder = open(&machine);
            founder.workspace().clone().close().unwrap();
            drop(founder);
            let machine = SimMachine::from_disk(&machine.disk().all_synced(), 4);
            machine.record();
            go(&machine, level);
            let record = machine.take_record();
            let limit = if quick() { 1 } else { 6 };
            let (mut rng, mut seen) = (Rng::new(m as u64), std::collections::HashSet::new());
            for boundary in &record.boundaries {
                let marks = record.marks_at(boundary);
                let cuts = boundary.disk.crash_states_with(&model, limit, &mut rng);
                for disk in cuts.chain([boundary.disk.process_kill()]) {
                    if !seen.insert((disk.content_hash(), disk.boots(), marks.len())) {
                        continue;
                    }
                    examine(&disk, marks, &mut told).unwrap_or_else(|why| {
                        panic!(
                            "{why}\n  {level:?} on {profile:?}, before {:?}, {}, {marks:?}",
                            boundary.call,
                            disk.origin()
                        )
                    });
                }
            }
        }
    }
    println!("{told:?}");
    let Told { states, by_snapshot, left } = told;
    assert!(states > 200 && by_snapshot * 4 > states && left > 10, "{states} {by_snapshot} {left}");
}

#[test]
fn failures_at_any_call_of_a_snapshot_leave_what_was_there() {
    let calls = [
        Call::Create,
        Call::Write,
        Call::Sync,
        Call::Rename,
        Call::SyncDir,
        Call::Open,
        Call::List,
        Call::Read,
    ];
    let mut failed = 0;
    for call in calls {
        for nth in 0..40 {
            let machine = SimMachine::new(Profile::Linux, 20);
            let tasks = open(&machine);
            create(&tasks, 0, 8, 50);
            let _ = snapshot(&tasks);
            create(&tasks, 8, 16, 50);
            let right = hash(&tasks);
            let effect = Effect::Fail(std::io::ErrorKind::StorageFull);
            machine.fault(Fault::on(call, effect).path("snapshots").nth(nth));
            let made = tasks.workspace().snapshot();
            machine.clear_faults();
            failed += usize::from(made.is_err());
            assert_eq!(hash(&tasks), right);
            let by = open(&machine);
            assert_eq!(
                (hash(&by), by.workspace().health().status),
                (right, Health::Healthy),
                "{call:?} {nth}"
            );
            assert!(by.workspace().snapshot().is_ok());
            assert_eq!(hash(&open(&machine)), right);
        }
    }
    assert!(failed > 10, "{failed} of them failed");
}

#[test]
fn folder_that_cannot_be_listed_costs_a_replay_and_is_told() {
    let machine = SimMachine::new(Profile::Linux, 21);
    let tasks = open(&machine);
    create(&tasks, 0, 20, 10);
    let _ = snapshot(&tasks);
    create(&tasks, 20, 25, 10);
    let right = (hash(&tasks), all(&tasks));
    drop(tasks);
    let refused =
        || Fault::on(Call::List, Effect::Fail(std::io::ErrorKind::PermissionDenied)).path("snapshots");
    machine.fault(refused().always());
    let tasks = open(&machine);
    assert_eq!((base_of(&tasks), hash(&tasks), all(&tasks)), (None, right.0, right.1));
    let health = tasks.workspace().health();
    assert_eq!(health.status, Health::Healthy);
    assert!(health.findings.iter().any(|f| f.code == "snapshots-unreadable"), "{health:?}");
    create(&tasks, 25, 26, 10);
    assert!(tasks.workspace().snapshot().is_err(), "who would write one is told too");
    machine.clear_faults();
    let tasks = open(&machine);
    assert!(base_of(&tasks).is_some());
    assert!(!tasks.workspace().health().findings.iter().any(|f| f.code == "snapshots-unreadable"));
}

/// The same log in the hands of a program that folds nothing.
fn plain(machine: &SimMachine) -> foldlog::Workspace {
    let options = Options::default()
        .housekeeping(Housekeeping::Off)
        .snapshot_after(u64::MAX)
        .vocabulary(foldlog::event::vocabulary());
    let process = machine.process("plain");
    let store = Store::open_on(Arc::new(process), Path::new(ROOT), options).unwrap();
    store.workspace(&Place::None).unwrap()
}

#[test]
fn programs_with_different_folds_leave_each_others_alone() {
    let machine = SimMachine::new(Profile::Linux, 22);
    let tasks = open(&machine);
    create(&tasks, 0, 10, 10);
    let ours = snapshot(&tasks);
    let theirs = plain(&machine);
    let _ = theirs.snapshot().unwrap().expect("theirs covers what ours does, and is not ours");
    for n in 0..3 {
        create(&tasks, 10 + n, 11 + n, 10);
        let _ = theirs.snapshot().unwrap().expect("there is something new");
    }
    drop(theirs);
    let tasks = open(&machine);
    assert_eq!(base_of(&tasks), Some(ours.clone()));
    let kept =
        || find(&machine.disk(), ".snap").iter().filter(|path| path.extension().unwrap() == "snap").count();
    assert_eq!(kept(), 3, "the two newest of theirs, and ours");
    let base = plain(&machine).log().read(|state| state.snapshot().map(Path::to_path_buf)).unwrap();
    assert!(base.is_some() && base != Some(ours));
    assert_eq!(hash(&tasks), hash(&replayed(&machine)));
    // Of each its own two stay.
    for n in 0..3 {
        create(&tasks, 20 + n, 21 + n, 10);
        let _ = snapshot(&tasks);
    }
    assert_eq!(kept(), 4);
}

#[test]
fn older_release_and_newer_one_pass_each_others_over() {
    let machine = SimMachine::new(Profile::Linux, 23);
    let tasks = open(&machine);
    create(&tasks, 0, 20, 10);
    let path = snapshot(&tasks);
    let right = hash(&tasks);
    drop(tasks);
    for format in [1_u16, 3] {
        let machine = SimMachine::from_disk(&machine.disk(), 24);
        let other = |bytes: &mut Vec<u8>| {
            bytes[10..12].copy_from_slice(&format.to_le_bytes());
            let crc = crc32fast::hash(&bytes[..252]).to_le_bytes();
            bytes[252..256].copy_from_slice(&crc);
        };
        machine.with_disk(|disk| disk.mutate(&path, other)).unwrap();
        let tasks = open(&machine);
        assert_eq!((base_of(&tasks), hash(&tasks)), (None, right), "format {format}");
        // It stays until two of ours are newer.
        for (n, left) in [(30, 2), (31, 2), (32, 2)] {
            create(&tasks, n, n + 1, 10);
            let _ = snapshot(&tasks);
            assert_eq!(find(&machine.disk(), ".snap").len(), left, "format {format}, after {n}");
        }
    }
}

#[test]
fn who_only_commits_leaves_a_spoiled_one_too() {
    let machine = SimMachine::new(Profile::Linux, 25);
    let tasks = open(&machine);
    create(&tasks, 0, 1200, 1000);
    let path = snapshot(&tasks);
    drop(tasks);
    let size = len(&machine, &path);
    (size / 3..size / 3 * 2).step_by(8 << 10).for_each(|at| flip(&machine, &path, at));
    let tasks = open(&machine);
    let told = || tasks.workspace().health().findings.iter().any(|f| f.code == "snapshot-unused");
    assert!(!told());
    for n in (0..1200).step_by(10) {
        let _ = tasks.patch(&id(n), Patch::new().set(Field::Mode, "code"), Durability::Buffered).unwrap();
    }
    assert!(told(), "nobody has read, and it is left all the same");
    let base = tasks.workspace().log().cached(|state| state.snapshot().map(Path::to_path_buf)).unwrap();
    assert_eq!(base, None);
    assert_eq!(hash(&tasks), hash(&replayed(&machine)));
}

/// Changes a snapshot so that every checksum holds.
fn forge(machine: &SimMachine, path: &Path, change: impl FnOnce(&mut [u8])) {
    let forged = |bytes: &mut Vec<u8>| {
        let number = |bytes: &[u8], at: usize, len: usize| {
            bytes[at..at + len].iter().rev().fold(0, |number, byte| number << 8 | usize::from(*byte))
        };
        let (data_end, sections) = (number(bytes, 144, 8), number(bytes, 12, 4));
        change(&mut bytes[256..data_end]);
        let table = data_end + sections * 24;
        let crcs: Vec<u8> = bytes[256..data_end]
            .chunks(16 << 10)
            .flat_map(|block| crc32fast::hash(block).to_le_bytes())
            .collect();
        bytes[table..].copy_from_slice(&crcs);
        let crc = crc32fast::hash(&crcs).to_le_bytes();
        bytes[156..160].copy_from_slice(&crc);
        let crc = crc32fast::hash(&bytes[..252]).to_le_bytes();
        bytes[252..256].copy_from_slice(&crc);
    };
    machine.with_disk(|disk| disk.mutate(path, forged)).unwrap();
}

#[test]
fn item_that_checks_and_does_not_decode_is_answered_by_the_log() {
    for mapping in [Mapping::Auto, Mapping::Off] {
        let machine = SimMachine::new(Profile::Linux, 27);
        let tasks = open(&machine);
        create(&tasks, 0, 40, 10);
        let path = snapshot(&tasks);
        let right = all(&tasks);
        drop(tasks);
        forge(&machine, &path, |data| {
            // Its id stands right before the item's kind.
            let id = id(7);
            let at = data.windows(id.as_str().len()).position(|part| part == id.as_str().as_bytes()).unwrap();
            let kind = &mut data[at + id.as_str().len()..][..2];
            assert_eq!(*kind, [16, 0], "a task's creation");
            kind.copy_from_slice(&[0xEE, 0xEE]);
        });
        let tasks = open_with(&machine.process("opener"), options().mapping(mapping)).unwrap();
        assert_eq!(base_of(&tasks), Some(path));
        let found = tasks.get(id(7).as_str()).unwrap().unwrap();
        assert_eq!(found.task.item.to_json(), item(7, 10).to_json(), "{mapping:?}");
        // Whoever looks next is told, and goes by the log.
        assert!(tasks.get(id(8).as_str()).unwrap().is_some());
        let told = tasks.workspace().health().findings.iter().any(|f| f.code == "snapshot-unused");
        assert!(told, "{mapping:?}");
        assert_eq!((base_of(&tasks), all(&tasks)), (None, right));
    }
}

#[test]
fn lists_are_those_of_a_replay_whatever_lies_above_the_snapshot() {
    let machine = SimMachine::new(Profile::Linux, 28);
    let tasks = open(&machine);
    create(&tasks, 0, 90, 5);
    let _ = snapshot(&tasks);
    let mut rng = Rng::new(29);
    let mut pick = move |n: u64| usize::try_from(rng.below(n)).unwrap();
    for step in 0..60 {
        let (n, ts) = (pick(120), 1_784_000_000_000 + pick(20_000) as i64);
        let op = match pick(6) {
            _ if tasks.get(id(n).as_str()).unwrap().is_none() => {
                Op::Create { item: item(n, 5).with(Field::Ts, ts), again: true }
            }
            0 => Op::Remove { ids: vec![id(n)], cascade: true },
            1 => Op::SetStatus { id: id(n), status: Status::Interrupted },
            2 => Op::Create {
                item: item(pick(4) * 5 + 1, 7).with(Field::Id, id(300 + step).as_str()),
                again: false,
            },
            _ => Op::Patch { id: id(n), patch: Patch::new().set(Field::Ts, ts).set(Field::Workspace, "/b") },
        };
        // Some of it is refused, for what the tasks are.
        let _ = tasks.commit(vec![op], Durability::Buffered);
        if step % 20 == 19 {
            let tasks = open(&machine);
            assert!(base_of(&tasks).is_some());
            assert_eq!(all(&tasks), all(&replayed(&machine)), "after step {step}");
        }
    }
}
