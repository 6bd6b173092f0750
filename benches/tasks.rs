//! Tasks: folding a patch, replaying a long history, lists. Absolute figures; the ratio to the raw calls is in `ratios`.
//!
//! ```text
//! cargo bench --bench tasks                        criterion
//! cargo bench --bench tasks -- --replay 1000000    replays of so many patches, with the process's peak memory
//! cargo bench --bench tasks -- --view 100000       views of so many tasks, a commit between each and the next
//! cargo bench --bench tasks -- --saved 100000      looks into a snapshot of so many tasks
//! cargo bench --bench tasks -- --import 5000       import of so many legacy tasks, with an index beside them
//! ```
#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a bench that meets an error has nothing to say"
)]

mod common;

use std::hint::black_box;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::{Duration, Instant};

use common::{OurTasks, folder, step};
use criterion::{Criterion, criterion_group};
use foldlog::event::Event;
use foldlog::legacy::{self, Source};
use foldlog::log::envelope::{Commit, Envelope, KeyKind, Preamble};
use foldlog::log::fold::{Fold, Meanings};
use foldlog::vfs::os::Os;
use foldlog::view::{Index, Query};
use foldlog::{Consistency, Durability, Field, Op, Options, Place, Revision, Seq, TaskId, TaskStore, Value};

/// The bodies of commits: `tasks` creations, then one patch of each.
fn bodies(tasks: u64) -> Vec<Vec<u8>> {
    let id = |n: u64| TaskId::new(&format!("019fb786-503a-76ca-8708-{n:012x}")).unwrap();
    let body = |n: u64, event: &Event, revision| {
        let new = event.to_new(id(n).key());
        let mut out = Vec::new();
        Preamble { time: 1, session: 2, operation: None }.encode(&mut out);
        let key = id(n);
        let envelope = Envelope {
            seq: Seq(1),
            takes: 1,
            kind: new.kind(),
            version: 1,
            ignorable: false,
            key_kind: KeyKind::TASK,
            key: key.as_str(),
            revision: Revision(revision),
            blobs: &[],
            body: new.body(),
        };
        envelope.encode(&mut out);
        out
    };
    let creations =
        (0..tasks).map(|n| body(n, &Event::Created { item: common::task_item(&id(n)), again: false }, 1));
    let patches = (0..tasks).map(|n| body(n, &Event::Patched(step(i64::try_from(n).unwrap())), 2));
    creations.chain(patches).collect()
}

fn fold(c: &mut Criterion) {
    let bodies = bodies(1000);
    let mut index = Index::default();
    for (i, body) in bodies.iter().enumerate() {
        index.apply(&Commit::decode(1 + i as u64, 1, body).unwrap(), Meanings::unknown(), false);
    }
    let mut n = 0;
    c.bench_function("fold/patch of 4 fields", |b| {
        b.iter(|| {
            n = (n + 1) % 1000;
            index.apply(
                &Commit::decode(3000, 1, black_box(&bodies[1000 + n])).unwrap(),
                Meanings::unknown(),
                false,
            );
        });
    });
    c.bench_function("fold/patch of 4 fields, to be taken back", |b| {
        b.iter(|| {
            n = (n + 1) % 1000;
            index.apply(
                &Commit::decode(3000, 1, black_box(&bodies[1000 + n])).unwrap(),
                Meanings::unknown(),
                true,
            );
            index.stands();
        });
    });
    let query = Query { limit: Some(50), ..Query::default() };
    c.bench_function("list/newest 50 of 1000", |b| b.iter(|| black_box(index.list(&query))));
    c.bench_function("get/of 1000", |b| {
        b.iter(|| black_box(index.get("019fb786-503a-76ca-8708-0000000000ff")))
    });
}

fn patch(c: &mut Criterion) {
    let dir = folder();
    let mut ours = OurTasks::new(dir.path());
    c.bench_function("patch/buffered", |b| {
        b.iter_custom(|n| {
            ours.prepare(n);
            let start = Instant::now();
            (0..n).for_each(|_| ours.patch());
            start.elapsed()
        });
    });
}

/// Writes `patches` steps of 1000 tasks, then opens the store in a fresh process, which says how long that took.
fn replay(patches: i64) {
    let dir = folder();
    let ours = OurTasks::new(dir.path());
    let ids = ours.ids.clone();
    let mut n = 0;
    while n < patches {
        let ops = (0..500).map(|i| Op::Patch {
            id: ids[usize::try_from(n + i).unwrap() % ids.len()].clone(),
            patch: step(n + i),
        });
        // One event a commit is the dearest to replay, and what hosts do; only the writing is bundled here, by threads.
        std::thread::scope(|scope| {
            for chunk in ops.collect::<Vec<_>>().chunks(125) {
                let (tasks, chunk) = (&ours.tasks, chunk.to_vec());
                scope.spawn(move || {
                    for op in chunk {
                        drop(tasks.commit(vec![op], Durability::Buffered).unwrap());
                    }
                });
            }
        });
        n += 500;
    }
    let root = ours.store.store().root().to_path_buf();
    drop(ours);
    let me = std::env::current_exe().unwrap();
    for _ in 0..3 {
        let status = std::process::Command::new(&me).arg("--open").arg(&root).status().unwrap();
        assert!(status.success());
    }
}

/// Takes views of so many tasks, each after a change of one of them.
fn view(count: u64) {
    const LATEST: Consistency = Consistency::Latest;
    let tasks = TaskStore::memory(Options::default()).unwrap().home(&Place::None).unwrap();
    let id = |n: u64| TaskId::new(&format!("019fb786-503a-76ca-8708-{n:012x}")).unwrap();
    for first in (0..count).step_by(500) {
        let made = (first..count.min(first + 500))
            .map(|n| Op::Create { item: common::task_item(&id(n)), again: false });
        drop(tasks.commit(made.collect(), Durability::Buffered).unwrap());
    }
    let resident = || {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap_or_default();
        line.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0)
    };
    let (mut copies, mut again, before) = (Vec::new(), Vec::new(), resident());
    let held = tasks.view(LATEST).unwrap();
    let grown = resident().saturating_sub(before);
    for n in 0..41 {
        drop(tasks.patch(&id(n % count), step(i64::try_from(n).unwrap()), Durability::Buffered).unwrap());
        let start = Instant::now();
        let view = black_box(tasks.view(LATEST).unwrap());
        copies.push(start.elapsed());
        let start = Instant::now();
        drop(black_box(tasks.view(LATEST).unwrap()));
        again.push(start.elapsed());
        drop(view);
    }
    copies.sort_unstable();
    again.sort_unstable();
    println!(
        "a view of {} tasks: {:?} (the quickest {:?}), {} KiB beside the tasks; with nothing new {:?}",
        held.index().len(),
        copies[20],
        copies[0],
        grown,
        again[20]
    );
}

/// Looks into a snapshot of so many tasks, whole items: what is found lies there until its fields are asked for.
fn saved(count: u64) {
    const FAMILY: u64 = 11;
    let dir = folder();
    let id = |n: u64| TaskId::new(&format!("019fb786-503a-76ca-8708-{n:012x}")).unwrap();
    let open = || {
        let store = TaskStore::open(dir.path().join("store"), Options::default().label("bench")).unwrap();
        let tasks = store.home(&Place::Key("bench".into())).unwrap();
        (store, tasks)
    };
    let (store, tasks) = open();
    for first in (0..count).step_by(500) {
        let made = (first..count.min(first + 500)).map(|n| {
            let mut item =
                common::task_item(&id(n)).with(Field::Ts, i64::try_from(n * 7919 % count).unwrap());
            if n % FAMILY > 0 {
                item = item.with(Field::ParentTaskId, Value::Text(id(n - n % FAMILY).shared()));
            }
            Op::Create { item, again: false }
        });
        drop(tasks.commit(made.collect(), Durability::Buffered).unwrap());
    }
    // Where a segment has just begun there is nothing to bind a snapshot to, and another may be under way.
    let mut report = None;
    for n in 0.. {
        report = tasks.workspace().snapshot().unwrap();
        if report.is_some() {
            break;
        }
        drop(tasks.patch(&id(0), step(n), Durability::Durable).unwrap());
    }
    drop((tasks, store));
    let start = Instant::now();
    let (store, tasks) = open();
    let newest = Query { limit: Some(50), ..Query::default() };
    let found = tasks.list(&newest).unwrap();
    assert_eq!((found.tasks.len(), found.total), (50, usize::try_from(count).unwrap()));
    let bytes = report.map_or(0, |report| report.bytes);
    println!("open and newest 50 of {count}: {:?}; {bytes} bytes", start.elapsed());
    drop(store);
    let time = |what: &str, rounds: u64, mut look: Box<dyn FnMut(u64) + '_>| {
        (0..rounds).for_each(&mut look);
        let start = Instant::now();
        (0..rounds).for_each(&mut look);
        println!("{what}: {:?}", start.elapsed() / u32::try_from(rounds).unwrap());
    };
    let some = |n: u64| id(n.wrapping_mul(2_654_435_761) % count);
    let family = |n: u64| id(some_family(n, count, FAMILY));
    time("make an id, to be taken off each", 100_000, Box::new(|n| drop(black_box(some(n)))));
    time("get", 100_000, Box::new(|n| drop(black_box(tasks.get(some(n).as_str()).unwrap().unwrap()))));
    time(
        "get and its text",
        100_000,
        Box::new(|n| drop(black_box(tasks.get(some(n).as_str()).unwrap().unwrap().task.item.to_json()))),
    );
    time("newest 50", 2000, Box::new(|_| drop(black_box(tasks.list(&newest).unwrap()))));
    time(
        "ten children",
        20_000,
        Box::new(|n| {
            let all = tasks.read(|_, index| index.children(family(n).as_str()).count()).unwrap();
            assert!(all > 0 || count % FAMILY == 1);
        }),
    );
    time(
        "ten children as a list",
        20_000,
        Box::new(|n| {
            let query = Query { parent: Some(family(n).to_string()), ..Query::default() };
            drop(black_box(tasks.list(&query).unwrap()));
        }),
    );
}

/// Some task that has children.
fn some_family(n: u64, count: u64, size: u64) -> u64 {
    let any = n.wrapping_mul(2_654_435_761) % count;
    any - any % size
}

/// Makes a legacy folder of so many tasks and imports it, again and again into new stores.
fn import(count: u64) {
    let dir = folder();
    let tasks = dir.path().join("tasks");
    let mut entries = Vec::new();
    for n in 0..count {
        let id = TaskId::new(&format!("019fb786-503a-76ca-8708-{n:012x}")).unwrap();
        // About as long as real records are: titles of pasted prompts, summaries of results.
        let item = common::task_item(&id)
            .with(Field::CompletionResultSummary, Value::text("It was mended, and this is how. ".repeat(90)));
        let home = tasks.join(id.as_str());
        std::fs::create_dir_all(&home).unwrap();
        std::fs::write(home.join("history_item.json"), item.to_json()).unwrap();
        entries.push(item.to_json());
    }
    let index = format!("{{\"version\":1,\"updatedAt\":1,\"entries\":[{}]}}", entries.join(","));
    std::fs::write(tasks.join("_index.json"), index).unwrap();
    for run in 0..3 {
        let store = TaskStore::open(dir.path().join(format!("store{run}")), Options::default()).unwrap();
        let home = store.home(&Place::None).unwrap();
        let start = Instant::now();
        let go = |_| ControlFlow::Continue(());
        let found = Source::find(&Os, dir.path()).unwrap().read(&Os, &mut { go }).unwrap();
        let read = start.elapsed();
        let report =
            legacy::import(&store, &home, &found, false, &mut |_, _| ControlFlow::Continue(())).unwrap();
        let all = start.elapsed();
        let again = Instant::now();
        let second =
            legacy::import(&store, &home, &found, false, &mut |_, _| ControlFlow::Continue(())).unwrap();
        assert_eq!((report.created, second.unchanged), (count, count));
        println!(
            "imported {count} tasks in {} ms, of which reading the folder {} ms; a second import of what was read: {} ms",
            all.as_millis(),
            read.as_millis(),
            again.elapsed().as_millis()
        );
    }
}

fn open(root: &Path) {
    let start = Instant::now();
    let store = TaskStore::open(root, Options::default().read_only(true)).unwrap();
    let tasks = store.home(&Place::Key("bench".into())).unwrap();
    let took = start.elapsed();
    let (events, len) = tasks.read(|state, index| (state.events(), index.len())).unwrap();
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak =
        status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or("VmHWM: unknown here").to_owned();
    println!("opened and folded {events} events of {len} tasks in {} ms; {peak}", took.as_millis());
}

criterion_group! {
    name = all;
    config = Criterion::default().measurement_time(Duration::from_secs(3)).warm_up_time(Duration::from_secs(1));
    targets = fold, patch
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    match args
        .iter()
        .position(|arg| ["--replay", "--open", "--import", "--view", "--saved"].contains(&arg.as_str()))
    {
        Some(at) if args[at] == "--open" => open(Path::new(&args[at + 1])),
        Some(at) if args[at] == "--saved" => saved(args[at + 1].parse().unwrap()),
        Some(at) if args[at] == "--view" => view(args[at + 1].parse().unwrap()),
        Some(at) if args[at] == "--import" => import(args[at + 1].parse().unwrap()),
        Some(at) => replay(args[at + 1].parse().unwrap()),
        None => {
            all();
            Criterion::default().configure_from_args().final_summary();
        }
    }
}
