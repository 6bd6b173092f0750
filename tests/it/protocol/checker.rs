//! Breadth first through every state that a model can reach; so the schedule it prints is a shortest one.
//!
//! States are kept as 64-bit hashes: among ten million the odds that two of them share one are three in a million. A
//! schedule is found again by walking the steps from the start.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt::Write as _;
use std::hash::{BuildHasher as _, Hash};

use foldhash::quality::FixedState;

/// More states than this are a model grown out of hand.
const STATES_MAX: usize = 20_000_000;

/// What is checked.
pub(crate) trait Model {
    type State: Clone + Hash;
    type Step: Copy + std::fmt::Display;
    /// The promises.
    type Broken: Copy + std::fmt::Debug;
    /// Somebody waits, and no step of the living can end it.
    const STUCK: Self::Broken;

    fn start(&self) -> Self::State;
    /// Every step that can be taken now, and where it leads.
    fn steps(&self, state: &Self::State, out: &mut Vec<(Self::Step, Self::State)>);
    /// Which promise a state breaks.
    fn broken(&self, state: &Self::State) -> Option<Self::Broken>;
    /// Whether nobody who lives waits for anything.
    fn is_at_rest(&self, state: &Self::State) -> bool;
    /// Whether a step is somebody's own doing; all others need not happen.
    fn is_own(&self, step: Self::Step) -> bool;
}

/// What a run has found.
#[derive(Debug)]
pub(crate) struct Report<B> {
    pub(crate) states: usize,
    pub(crate) steps: usize,
    /// The promise broken first, and the shortest schedule that does it, a step a line.
    pub(crate) found: Option<(B, Vec<String>)>,
}

impl<B> Report<B> {
    /// The schedule as a numbered list.
    pub(crate) fn schedule(&self) -> String {
        let mut text = String::new();
        for (n, line) in self.found.iter().flat_map(|(_, lines)| lines).enumerate() {
            let _ = writeln!(text, "{:3}. {line}", n + 1);
        }
        text
    }
}

/// Explores everything, and prints what came of it.
pub(crate) fn run<M: Model>(name: &str, model: &M) -> Report<M::Broken> {
    let report = explore(model, STATES_MAX);
    let Report { states, steps, .. } = &report;
    match &report.found {
        None => println!("{name}: nothing in {states} states, {steps} steps"),
        Some((broken, _)) => {
            println!("{name}: {broken:?}, {states} states, {steps} steps\n{}", report.schedule());
        }
    }
    report
}

/// Nothing breaks, in at least so many states: fewer, and the model no longer does what it did.
pub(crate) fn holds<M: Model>(name: &str, states_min: usize, model: &M) {
    let report = run(name, model);
    assert!(report.found.is_none(), "{name}: {:?}\n{}", report.found, report.schedule());
    assert!(report.states >= states_min, "{name}: only {} states", report.states);
}

/// Explores everything, up to `states_max` states: more is a model grown out of hand.
fn explore<M: Model>(model: &M, states_max: usize) -> Report<M::Broken> {
    let hasher = FixedState::default();
    let mut numbers: HashMap<u64, u32, FixedState> = HashMap::default();
    // For each state: which it was first reached from, by which of that one's steps.
    let mut origin: Vec<(u32, u16)> = vec![(0, 0)];
    // Own steps, from and to; and who is at rest.
    let mut own: Vec<(u32, u32)> = Vec::new();
    let mut resting: Vec<u32> = Vec::new();
    let mut level = vec![(0_u32, model.start())];
    numbers.insert(hasher.hash_one(&level[0].1), 0);
    let (mut out, mut taken) = (Vec::new(), 0);
    while !level.is_empty() {
        let mut next = Vec::new();
        for (number, state) in level {
            if let Some(broken) = model.broken(&state) {
                let found = Some((broken, walk(model, &origin, number)));
                return Report { states: origin.len(), steps: taken, found };
            }
            if model.is_at_rest(&state) {
                resting.push(number);
            }
            model.steps(&state, &mut out);
            for (place, (step, after)) in out.drain(..).enumerate() {
                taken += 1;
                let to = match numbers.entry(hasher.hash_one(&after)) {
                    Entry::Occupied(known) => *known.get(),
                    Entry::Vacant(new) => {
                        let to = u32::try_from(origin.len()).unwrap();
                        new.insert(to);
                        origin.push((number, u16::try_from(place).unwrap()));
                        next.push((to, after));
                        to
                    }
                };
                if model.is_own(step) {
                    own.push((to, number));
                }
            }
            assert!(origin.len() <= states_max, "over {states_max} states");
        }
        level = next;
    }
    let found = stuck(origin.len(), own, resting).map(|state| (M::STUCK, walk(model, &origin, state)));
    Report { states: origin.len(), steps: taken, found }
}

/// The first state from which own steps alone lead to none at rest.
fn stuck(states: usize, mut own: Vec<(u32, u32)>, resting: Vec<u32>) -> Option<u32> {
    own.sort_unstable();
    let mut good = vec![false; states];
    let mut todo = resting;
    todo.iter().for_each(|state| good[*state as usize] = true);
    while let Some(to) = todo.pop() {
        let first = own.partition_point(|(other, _)| *other < to);
        for (_, from) in own[first..].iter().take_while(|(other, _)| *other == to) {
            if !std::mem::replace(&mut good[*from as usize], true) {
                todo.push(*from);
            }
        }
    }
    good.iter().position(|good| !good).map(|state| u32::try_from(state).unwrap())
}

/// The steps that lead to a state.
fn walk<M: Model>(model: &M, origin: &[(u32, u16)], mut state: u32) -> Vec<String> {
    let mut places = Vec::new();
    while state != 0 {
        let (from, place) = origin[state as usize];
        places.push(place);
        state = from;
    }
    let (mut now, mut out) = (model.start(), Vec::new());
    places
        .into_iter()
        .rev()
        .map(|place| {
            out.clear();
            model.steps(&now, &mut out);
            let (step, after) = out.swap_remove(usize::from(place));
            now = after;
            step.to_string()
        })
        .collect()
}
