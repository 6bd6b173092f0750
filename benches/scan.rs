//! Reading: one segment's frames and their CRCs, a whole log, and the fold.

mod common;

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use common::{Ours, commit_len, folder};
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use foldlog::log::envelope::{Envelope, KeyKind, Preamble};
use foldlog::log::format::{MAX_BODY, SEGMENT_HEADER_LEN, SEGMENT_SIZE};
use foldlog::log::frame::{FrameHeader, FrameKind, encode_with};
use foldlog::log::reader::{self, Reach};
use foldlog::log::scan;
use foldlog::log::segment::{SegmentHeader, SegmentState};
use foldlog::log::{LogId, SegmentId};
use foldlog::vfs::os::Os;
use foldlog::{Durability, Options, Place, Revision, Seq, Store};

fn header() -> SegmentHeader {
    SegmentHeader {
        state: SegmentState::Live,
        compat: 0,
        ro_compat: 0,
        incompat: 0,
        generation: 0,
        log_id: LogId([7; 16]),
        segment_id: SegmentId(1),
        stands_for: SegmentId(1),
        ordinal_a: 1,
        ordinal_b: 1,
        first_seq: 1,
        base_lpos: 0,
        prev_segment_id: SegmentId(0),
        prev_last_seq: 0,
        prev_last_crc: 0,
        max_body: MAX_BODY,
        horizon: 0,
        created: 0,
        writer_version: [0; 16],
    }
}

/// A full segment of commits with bodies of 100 B to 4 KiB, many small and few large, the same in every run.
fn segment(body_len: impl Fn(u64) -> usize) -> (SegmentHeader, Vec<u8>, u64) {
    let header = header();
    let salt = header.salt();
    let mut bytes = header.encode().to_vec();
    let (mut seq, mut link) = (1, 0);
    let preamble = Preamble { time: 1, session: 2, operation: None };
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    while (bytes.len() as u64) < SEGMENT_SIZE {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let key = format!("task-{:04}", (random >> 20) % 1000);
        let body: Vec<u8> =
            (0..body_len(random >> 33)).map(|i| (random >> (i % 57)).to_le_bytes()[0]).collect();
        let frame = FrameHeader { seq, link, kind: FrameKind::COMMIT, count: 1, durable_lag: 1, writer: 9 };
        link = encode_with(&mut bytes, &salt, &frame, |out| {
            preamble.encode(out);
            let event = Envelope {
                seq: Seq(seq),
                takes: 1,
                kind: 100,
                version: 1,
                ignorable: false,
                key_kind: KeyKind::TASK,
                key: &key,
                revision: Revision(seq),
                blobs: &[],
                body: &body,
            };
            event.encode(out);
        });
        seq += 1;
    }
    (header, bytes, seq - 1)
}

/// Half of the bodies have 100 to 200 bytes, the others up to 4 KiB.
fn mixed(random: u64) -> usize {
    let len = if random.is_multiple_of(2) { 100 + random / 2 % 100 } else { 200 + random / 2 % 3896 };
    usize::try_from(len).unwrap_or(0)
}

fn one_segment(c: &mut Criterion) {
    let shapes = [("mixed", segment(mixed)), ("256 B frames", segment(|_| common::BODY_LEN))];
    for (name, (header, bytes, count)) in shapes {
        let salt = header.salt();
        let mut group = c.benchmark_group(format!("segment of 8 MiB, {name}"));
        group.throughput(Throughput::Bytes(bytes.len() as u64));
        group.bench_function("scan::segment", |b| {
            b.iter(|| {
                let summary = scan::segment(black_box(&bytes), &header, &salt, |located| {
                    black_box(located);
                });
                assert_eq!(summary.frames, count, "the scan stops early");
            });
        });
        group.bench_function("crc32fast alone, frame by frame", |b| {
            let per_frame = bytes.len() / usize::try_from(count).unwrap_or(1);
            b.iter(|| bytes.chunks(per_frame).map(crc32fast::hash).fold(0, |a, b| a ^ b));
        });
        group.bench_function("crc32fast alone, in one", |b| b.iter(|| crc32fast::hash(black_box(&bytes))));
        group.finish();
    }
}

/// 64 MiB of real segments in the page cache: the walk that verifies them, and the open that folds them too.
fn whole_log(c: &mut Criterion) {
    const EVENTS: usize = 64;
    let dir = folder();
    let mut ours = Ours::new(dir.path());
    let commits = (64 << 20) / commit_len(EVENTS);
    for _ in 0..commits {
        let _ = ours.commit(EVENTS, Durability::Buffered);
    }
    let paths = ours.workspace.log().paths().clone();
    let log = ours.workspace.log().id();
    drop(ours);
    let mut group = c.benchmark_group("log of 64 MiB");
    group
        .throughput(Throughput::Bytes((commits * commit_len(EVENTS)) as u64 + u64::from(SEGMENT_HEADER_LEN)));
    group.bench_function("verify (reader::walk)", |b| {
        b.iter(|| {
            let walk = reader::walk(&Os, &paths, log, None, Reach::Intact, &mut |visit| {
                black_box(visit);
            });
            assert!(walk.is_ok_and(|walk| walk.is_clean()), "the log is sound");
        });
    });
    let root = dir.path().join("store");
    group.bench_function("open read-only (verify and fold)", |b| {
        b.iter_batched(
            || (),
            |()| {
                let store = Store::open_on(Arc::new(Os), &root, Options::default().read_only(true));
                store.and_then(|store| store.workspace(&Place::Key("bench".into())))
            },
            BatchSize::PerIteration,
        );
    });
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().measurement_time(Duration::from_secs(3)).sample_size(10);
    targets = one_segment, whole_log
}
criterion_main!(benches);
