//! Commits, beside the raw system calls for the same bytes. For ratios that hold on a busy machine: `ratios.rs`.

mod common;

use std::time::{Duration, Instant};

use common::{Ours, Raw, commit, commit_len, folder};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use foldlog::Durability;

/// One thread; commits of 1, 4 and 64 events. Segments rotate as they fill, on both sides.
fn one_thread(c: &mut Criterion) {
    for (name, durability) in [("buffered", Durability::Buffered), ("durable", Durability::Durable)] {
        let mut group = c.benchmark_group(name);
        for events in [1, 4, 64] {
            let len = commit_len(events);
            let dir = folder();
            let (mut ours, mut raw) = (Ours::new(dir.path()), Raw::new(dir.path()));
            group.throughput(Throughput::Bytes(len as u64));
            group.bench_function(BenchmarkId::new("ours", events), |b| {
                b.iter(|| ours.commit(events, durability));
            });
            group.bench_function(BenchmarkId::new("raw", events), |b| {
                b.iter(|| match durability {
                    Durability::Durable => raw.durable(len),
                    _ => raw.buffered(len),
                });
            });
        }
        group.finish();
    }
}

/// Threads of one process, which share writes and syncs.
fn threads(c: &mut Criterion) {
    for (name, durability) in
        [("buffered threads", Durability::Buffered), ("durable threads", Durability::Durable)]
    {
        let mut group = c.benchmark_group(name);
        for threads in [1, 4, 8] {
            let dir = folder();
            let ours = Ours::new(dir.path());
            group.throughput(Throughput::Elements(1));
            group.bench_function(BenchmarkId::from_parameter(threads), |b| {
                b.iter_custom(|n| together(&ours, threads, n, durability));
            });
        }
        group.finish();
    }
}

/// How long `n` commits take, shared out among the threads.
fn together(ours: &Ours, threads: u64, n: u64, durability: Durability) -> Duration {
    #[expect(clippy::disallowed_methods, reason = "a bench measures time")]
    let start = Instant::now();
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let workspace = &ours.workspace;
            scope.spawn(move || {
                for i in (thread..n).step_by(usize::try_from(threads).unwrap_or(1)) {
                    let _ = commit(workspace, i, 1, durability);
                }
            });
        }
    });
    start.elapsed()
}

criterion_group! {
    name = benches;
    config = Criterion::default().measurement_time(Duration::from_secs(3)).sample_size(20);
    targets = one_thread, threads
}
criterion_main!(benches);
