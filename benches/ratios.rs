//! Ours against the raw system calls, as ratios: paired batches in one loop, A B B A, so that the machine's noise hits
//! both. Prints a table; asserts nothing about time.
//!
//! ```text
//! cargo bench --bench ratios                   every row
//! cargo bench --bench ratios -- buffered       the rows whose name has this in it
//! FOLDLOG_BENCH_DIR=/dev/shm …                 the files in another folder than target/
//! FOLDLOG_BENCH_SECONDS=20 …                   time for each row, default 6
//! ```
#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "it measures time, on lists that are not empty"
)]

// Batches of few operations, so that most fit between two of the scheduler's interruptions; the median drops the rest.
mod common;

use std::time::{Duration, Instant};

use common::{OurTasks, Ours, Raw, commit, commit_len, folder};
use foldlog::Durability;

/// One side of a pair: runs so many operations.
type Side<'a> = &'a mut dyn FnMut(u64);

/// What our side is told: first what is to be made ready off the clock, then how much of it to do.
enum Step {
    Prepare(u64),
    Run(u64),
}

/// One side that makes its operations ready.
type Steps<'a> = &'a mut dyn FnMut(Step);

/// What the rows have in common.
struct Table {
    filters: Vec<String>,
    time: Duration,
}

impl Table {
    fn wants(&self, name: &str) -> bool {
        self.filters.is_empty() || self.filters.iter().any(|filter| name.contains(filter))
    }

    /// Runs both sides by turns, `batch` operations at a time, and prints their row; a warm-up batch goes before.
    fn row(&self, name: &str, batch: u64, ours: Side<'_>, raw: Side<'_>) {
        self.prepared_row(
            name,
            batch,
            &mut |step| match step {
                Step::Prepare(_) => {}
                Step::Run(n) => ours(n),
            },
            raw,
        );
    }

    /// The same where ours is told first, off the clock, how many operations come.
    fn prepared_row(&self, name: &str, batch: u64, ours: Steps<'_>, raw: Side<'_>) {
        ours(Step::Prepare(batch));
        ours(Step::Run(batch));
        raw(batch);
        let (mut ours_ns, mut raw_ns, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        let start = Instant::now();
        while start.elapsed() < self.time || ratios.len() < 5 {
            ours(Step::Prepare(batch));
            let run = &mut |n| ours(Step::Run(n));
            // Whoever goes second profits or suffers from the first; so they change places.
            let (a, b) = if ratios.len() % 2 == 0 {
                let a = per_operation(batch, run);
                (a, per_operation(batch, raw))
            } else {
                let b = per_operation(batch, raw);
                (per_operation(batch, run), b)
            };
            ours_ns.push(a);
            raw_ns.push(b);
            ratios.push(b / a);
        }
        let pairs = ratios.len();
        let sums = raw_ns.iter().sum::<f64>() / ours_ns.iter().sum::<f64>();
        for list in [&mut ours_ns, &mut raw_ns, &mut ratios] {
            list.sort_by(f64::total_cmp);
        }
        println!(
            "| {name} | {} | {} | **{:.2}** | {:.2}–{:.2} | {:.2} | {pairs} × {batch} |",
            time(ours_ns[pairs / 2]),
            time(raw_ns[pairs / 2]),
            ratios[pairs / 2],
            ratios[pairs / 10],
            ratios[pairs - 1 - pairs / 10],
            sums,
        );
    }
}

fn per_operation(batch: u64, side: Side<'_>) -> f64 {
    let start = Instant::now();
    side(batch);
    start.elapsed().as_nanos() as f64 / batch as f64
}

fn time(ns: f64) -> String {
    if ns < 10_000.0 { format!("{:.2} µs", ns / 1e3) } else { format!("{:.0} µs", ns / 1e3) }
}

/// The raw side in the file shape that ours has: zero-filled where it syncs.
fn raw_for(dir: &std::path::Path, durability: Durability) -> Raw {
    if durability == Durability::Durable { Raw::on_filled_files(dir) } else { Raw::new(dir) }
}

/// One thread commits `events` at a time.
fn one(table: &Table, name: &str, events: usize, durability: Durability, batch: u64) {
    let name = format!("{name}, {events} event{}", if events == 1 { "" } else { "s" });
    if !table.wants(&name) {
        return;
    }
    let dir = folder();
    let (mut ours, mut raw) = (Ours::new(dir.path()), raw_for(dir.path(), durability));
    let len = commit_len(events);
    let raw_side = |raw: &mut Raw| match durability {
        Durability::Durable => raw.durable(len),
        _ => raw.buffered(len),
    };
    table.row(&name, batch, &mut |n| (0..n).for_each(|_| drop(ours.commit(events, durability))), &mut |n| {
        (0..n).for_each(|_| raw_side(&mut raw))
    });
}

/// One thread commits an event at a time, durably; both sides with files that grow, or both in zeros written ahead.
fn shapes(table: &Table) {
    for filled in [false, true] {
        let name = format!("durable, 1 event, {}", if filled { "zero-filled" } else { "growing" });
        if !table.wants(&name) {
            continue;
        }
        let dir = folder();
        let (mut ours, mut raw) = if filled {
            (Ours::new(dir.path()), Raw::on_filled_files(dir.path()))
        } else {
            (Ours::without_reserve(dir.path()), Raw::new(dir.path()))
        };
        let len = commit_len(1);
        table.row(
            &name,
            40,
            &mut |n| (0..n).for_each(|_| drop(ours.commit(1, Durability::Durable))),
            &mut |n| (0..n).for_each(|_| raw.durable(len)),
        );
    }
}

/// Several threads commit one event at a time; the raw side does as many commits, one behind the other.
fn many(table: &Table, name: &str, threads: u64, durability: Durability, batch: u64) {
    let name = format!("{name}, {threads} threads");
    if !table.wants(&name) {
        return;
    }
    let dir = folder();
    let (ours, mut raw) = (Ours::new(dir.path()), raw_for(dir.path(), durability));
    let len = commit_len(1);
    let together = |n: u64| {
        std::thread::scope(|scope| {
            for thread in 0..threads {
                let workspace = &ours.workspace;
                scope.spawn(move || {
                    for i in 0..n / threads {
                        drop(commit(workspace, thread + i * threads, 1, durability));
                    }
                });
            }
        });
    };
    table.row(&name, batch, &mut { together }, &mut |n| {
        (0..n).for_each(|_| match durability {
            Durability::Durable => raw.durable(len),
            _ => raw.buffered(len),
        });
    });
}

/// One thread patches four fields of a task.
fn task(table: &Table) {
    let name = "buffered task patch, 4 fields";
    if !table.wants(name) {
        return;
    }
    let dir = folder();
    let (mut ours, mut raw) = (OurTasks::new(dir.path()), Raw::new(dir.path()));
    let len = ours.patch_len();
    let ours = &mut |step| match step {
        Step::Prepare(n) => ours.prepare(n),
        Step::Run(n) => (0..n).for_each(|_| ours.patch()),
    };
    table.prepared_row(name, 200, ours, &mut |n| (0..n).for_each(|_| raw.buffered(len)));
}

fn main() {
    let filters = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let seconds = std::env::var("FOLDLOG_BENCH_SECONDS").map_or(6.0, |text| text.parse().unwrap());
    let table = Table { filters, time: Duration::from_secs_f64(seconds) };
    println!("| operation | ours | raw | raw ÷ ours (median of pairs) | 10th–90th | sums | pairs |");
    println!("| --- | --- | --- | --- | --- | --- | --- |");
    one(&table, "buffered", 1, Durability::Buffered, 200);
    one(&table, "buffered", 4, Durability::Buffered, 100);
    one(&table, "buffered", 64, Durability::Buffered, 20);
    task(&table);
    // As many bytes as a segment holds, so that each batch rotates once.
    one(&table, "buffered and rotating", 1, Durability::Buffered, 32_768);
    shapes(&table);
    one(&table, "durable", 4, Durability::Durable, 40);
    one(&table, "durable", 64, Durability::Durable, 20);
    for threads in [4, 8] {
        many(&table, "buffered", threads, Durability::Buffered, 4000);
    }
    for threads in [4, 8] {
        many(&table, "durable", threads, Durability::Durable, 80);
    }
}
