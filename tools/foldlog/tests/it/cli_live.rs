//! Readers beside a writer that does not stop.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::support::{Fixture, fill, options};

struct Stopping<'a>(&'a AtomicBool);

impl Drop for Stopping<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

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
        // However this ends: a failed look must not leave the writer running for ever.
        let _stopping = Stopping(&stop);
        let mut seen = 0;
        let mut rounds = 0;
        // Over several rotations: each is a moment at which a look without the lock could be misled.
        while rounds < 8 || fixture.segments("one").len() < 4 {
            rounds += 1;
            assert!(rounds < 400, "the writer gets nothing done");
            let run = fixture.run(&["dump", "--json"]).ends(0);
            let seqs: Vec<u64> = run.json().iter().map(|line| line["seq"].as_u64().unwrap()).collect();
            let last = *seqs.last().unwrap();
            assert_eq!(seqs, (1..=last).collect::<Vec<_>>(), "each event once, in order");
            assert!(last >= seen, "{last} after {seen}");
            seen = last;
            fixture.run(&["verify"]).ends(0);
            fixture.run(&["stats", "--json"]).ends(0);
        }
    });
    workspace.close().unwrap();
}
