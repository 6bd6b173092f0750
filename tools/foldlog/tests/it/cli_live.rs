//! Readers beside a writer that does not stop.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::support::{Fixture, fill, options};

#[test]
fn readers_are_right_while_others_write() {
    let fixture = Fixture::empty();
    let workspace = fixture.workspace("one", options().segment_size(16 << 10));
    fill(&workspace, 50);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Acquire) {
                fill(&workspace, 20);
            }
        });
        let mut seen = 0;
        for _ in 0..8 {
            let run = fixture.run(&["dump", "--json"]).ends(0);
            let seqs: Vec<u64> = run.json().iter().map(|line| line["seq"].as_u64().unwrap()).collect();
            let last = *seqs.last().unwrap();
            assert_eq!(seqs, (1..=last).collect::<Vec<_>>(), "each event once, in order");
            assert!(last >= seen, "{last} after {seen}");
            seen = last;
            fixture.run(&["verify"]).ends(0);
            fixture.run(&["stats", "--json"]).ends(0);
        }
        stop.store(true, Ordering::Release);
    });
    workspace.close().unwrap();
    assert!(fixture.segments("one").len() > 1, "the writer went over a rotation");
}
