//! What the writers of a demo do, and where one of them is killed: all of it follows from the seed.

use foldlog::OpId;

/// The writers, as their sessions name themselves.
pub(super) const WRITERS: [&str; 4] = ["window 1", "window 2", "window 3", "cli"];
/// How often each of them delegates.
const ROUNDS: u64 = 3;
/// The task to which all of them add what they used.
const SHARED: &str = "1785900000000";
/// What each of them has for itself: a task that delegates, its title, and one whose status it changes.
const OWN: [(&str, &str, &str); 4] = [
    (SHARED, "Replace the hand-written parser", "1785900003000"),
    ("1785910000000", "Ship release 2.0", "1785910002000"),
    ("1785920000000", "Find out why the nightly build fails now and then", "1785920002000"),
    ("1785910003000", "Update the install guide", "1785920003000"),
];
/// The earliest place in the frame of a completion at which it is torn, and how many there are. All of them lie in the text
/// of its summary, so that the last byte which was written is one that shows.
const CUT_MIN: u64 = 400;
const CUTS: u64 = 500;

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Adds to what a task has used, whoever else adds to it at the same time.
    Use { id: String, tokens_in: u64, tokens_out: u64, eighths: u64 },
    /// Gives it another title.
    Rename { id: String, title: String },
    /// Says how large its folder is.
    Size { id: String, size: u64 },
    /// Interrupts it, or resumes it.
    Turn { id: String },
    /// Lets it wait for a new child.
    Delegate { id: String, child: String, title: String },
    /// Completes a child; the parent goes on, in the same commit.
    Complete { id: String, summary: String },
}

impl Step {
    /// What it is called.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Step::Use { .. } => "usage",
            Step::Rename { .. } => "rename",
            Step::Size { .. } => "size",
            Step::Turn { .. } => "status",
            Step::Delegate { .. } => "delegate",
            Step::Complete { .. } => "complete",
        }
    }
}

/// Where a writer stops dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kill {
    /// Which one, by its place in [`WRITERS`].
    pub(super) writer: usize,
    /// In the commit of which step.
    pub(super) step: usize,
    /// After how many bytes of it.
    pub(super) cut: u64,
}

/// Numbers that follow from a seed: SplitMix64.
struct Numbers(u64);

impl Numbers {
    fn of(seed: u64, salt: u64) -> Self {
        let mut numbers = Numbers(seed ^ salt.wrapping_mul(0xA076_1D64_78BD_642F));
        numbers.next();
        numbers
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next().checked_rem(n).unwrap_or(0)
    }

    fn pick(&mut self, from: &[&str]) -> String {
        let at = usize::try_from(self.below(from.len() as u64)).unwrap_or(0);
        from.get(at).copied().unwrap_or_default().to_owned()
    }
}

/// The name of a step's request: the same each time it is made.
pub(super) fn op_id(seed: u64, writer: usize, step: usize) -> OpId {
    let mut numbers = Numbers::of(seed, 1 + ((writer as u64) << 32 | step as u64));
    let mut id = [0; 16];
    let words = numbers.next().to_le_bytes().into_iter().chain(numbers.next().to_le_bytes());
    id.iter_mut().zip(words).for_each(|(to, from)| *to = from);
    OpId(id)
}

/// What a writer does, in order.
pub(super) fn steps(seed: u64, writer: usize) -> Vec<Step> {
    let mut numbers = Numbers::of(seed, 0x5EED + writer as u64);
    let own = OWN.get(writer).copied().unwrap_or_default();
    let parent = own.0;
    let mut steps = Vec::new();
    for round in 0..ROUNDS {
        fill(&mut steps, &mut numbers, own, parent);
        let child = format!("17861{writer:02}0{round:02}000");
        let at = usize::try_from(seed.wrapping_add(round + ROUNDS * writer as u64) % CHILDREN.len() as u64);
        let title = at.ok().and_then(|at| CHILDREN.get(at)).copied().unwrap_or_default().to_owned();
        steps.push(Step::Delegate { id: parent.into(), child: child.clone(), title });
        fill(&mut steps, &mut numbers, own, &child);
        steps.push(Step::Complete { id: child, summary: summary(&mut numbers) });
    }
    fill(&mut steps, &mut numbers, own, parent);
    steps
}

/// A few steps between delegations.
fn fill(steps: &mut Vec<Step>, numbers: &mut Numbers, own: (&str, &str, &str), active: &str) {
    let (parent, stem, side) = own;
    for _ in 0..2 + numbers.below(4) {
        let id = active.to_owned();
        steps.push(match numbers.below(8) {
            0..=1 => used(numbers, active),
            2..=4 => used(numbers, SHARED),
            5 => Step::Rename { id: parent.into(), title: format!("{stem}: {}", numbers.pick(&TITLES)) },
            6 => Step::Size { id, size: 10_000 + numbers.below(90_000) },
            _ => Step::Turn { id: side.into() },
        });
    }
}

fn used(numbers: &mut Numbers, id: &str) -> Step {
    Step::Use {
        id: id.into(),
        tokens_in: 1000 + numbers.below(9000),
        tokens_out: 50 + numbers.below(450),
        eighths: 1 + numbers.below(4),
    }
}

/// A report as an agent hands it on, of about a thousand letters.
fn summary(numbers: &mut Numbers) -> String {
    let mut text = numbers.pick(&REPORTS);
    while text.len() < 1000 {
        text.push(' ');
        text += &numbers.pick(&REPORTS);
    }
    text
}

/// Which writer is killed, where.
pub(super) fn kill(seed: u64) -> Kill {
    let mut numbers = Numbers::of(seed, 0xDEAD);
    let writer = usize::try_from(numbers.below(WRITERS.len() as u64)).unwrap_or(0);
    // Not in the last round, so that others are still at work.
    let round = usize::try_from(numbers.below(ROUNDS - 1)).unwrap_or(0);
    let completions = steps(seed, writer).into_iter().enumerate();
    let mut completions = completions.filter(|(_, step)| matches!(step, Step::Complete { .. }));
    let step = completions.nth(round).map_or(0, |(at, _)| at);
    Kill { writer, step, cut: CUT_MIN + numbers.below(CUTS) }
}

const TITLES: [&str; 8] = [
    "a plan",
    "agreed",
    "begun",
    "half done",
    "nearly done",
    "in review",
    "with what was decided today",
    "in smaller steps",
];
/// One for each delegation of all writers.
const CHILDREN: [&str; 12] = [
    "Look for what else calls it",
    "Try it on the largest file there is",
    "Compare the output with last week's",
    "Check the same on Windows",
    "Write the test that was missing",
    "Read the comments of the review",
    "Measure it before and after",
    "Ask whether anybody uses the old flag",
    "Update the screenshots",
    "Reduce it to a small example",
    "Remove what is not used any more",
    "Describe it in the changelog",
];
const REPORTS: [&str; 6] = [
    "All tests pass, here and on the build machine.",
    "Two callers had to be changed; both are covered by tests now.",
    "The largest file takes 1.8 seconds, 0.3 less than before.",
    "Nothing else depends on the old behaviour; the search went over all branches.",
    "One warning is left, and it was there before.",
    "The difference is in the order of two fields, which nobody relies on.",
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn everything_follows_from_the_seed_and_nothing_is_named_twice() {
        let mut names = HashSet::new();
        for seed in 0..50 {
            assert_eq!(kill(seed), kill(seed));
            for writer in 0..WRITERS.len() {
                let all = steps(seed, writer);
                assert_eq!(all, steps(seed, writer));
                assert!((3 * 2 + 7 * 2..=3 * 2 + 7 * 5).contains(&all.len()), "{}", all.len());
                for step in 0..all.len() {
                    assert!(names.insert(op_id(seed, writer, step).0), "{seed} {writer} {step}");
                }
            }
        }
    }

    #[test]
    fn kill_is_in_a_completion_whose_summary_reaches_behind_it() {
        let kills: Vec<Kill> = (0..200).map(kill).collect();
        for (seed, kill) in (0..).zip(&kills) {
            let all = steps(seed, kill.writer);
            let Step::Complete { summary, .. } = &all[kill.step] else { panic!("{kill:?}") };
            assert!(summary.is_ascii() && summary.len() as u64 >= CUT_MIN + CUTS, "{}", summary.len());
        }
        let cuts: HashSet<u64> = kills.iter().map(|kill| kill.cut).collect();
        let writers: HashSet<usize> = kills.iter().map(|kill| kill.writer).collect();
        assert!(cuts.len() > 100 && writers.len() == WRITERS.len());
    }
}
