//! Who owns a task, explored whole: every interleaving of the steps of [`model`], everybody killed or stopped between any
//! two of them, and power cuts.
//!
//! [`mutations`] does one step of it wrong at a time; the checker must find out, and says by which schedule.
//! `cargo test ownership_model -- --nocapture` prints how many states there were; `FOLDLOG_QUICK=1` explores less.

mod model;
mod mutations;

use crate::protocol::checker::{holds, run};
use crate::simulated::quick;
use model::{Config, Mutation, Op};

use Op::{Abandon, Attach, Delete, Detach, End, Mend, Recreate, Start, Sweep, Sync, Write, WriteOld};

/// One runs a task, two open the store at once: they mend, sweep, take it over.
const OPENS: Config = Config {
    mutation: Mutation::None,
    lives: [&[&[Start, Attach, Write, End]], &[&[Start, Mend, Sweep, Attach, Write]], &[&[Start, Mend, End]]],
    kills: 1,
    cuts: 0,
    unlisted: 0,
    vandals: 0,
};

/// The task changes hands in every way there is.
const HANDS: Config = Config {
    lives: [
        &[&[Start, Attach, Write, Attach, WriteOld, Write, Detach, Attach, WriteOld]],
        &[&[Start, Abandon, Delete, Recreate, Attach, Write]],
        &[],
    ],
    kills: 0,
    ..OPENS
};

/// A task goes from one that dies to another, while a third has asked about the first.
const TAKEN: Config = Config {
    lives: [&[&[Start, Attach], &[Start, Mend]], &[&[Start, Attach, Write]], &[&[Start, Attach, Write]]],
    kills: 2,
    ..OPENS
};

/// What dead sessions have left is removed.
const SWEPT: Config = Config {
    lives: [&[&[Start, Attach, Write, End]], &[&[Start, Mend, Sync, Sweep]], &[&[Start, Sweep, End]]],
    kills: 2,
    unlisted: 1,
    ..OPENS
};

/// The power goes.
const CUT: Config = Config {
    lives: [
        &[&[Start, Attach, Write], &[Start, Mend, Attach]],
        &[&[Start, Sync, Mend, Abandon, Sweep, Sync, Sweep], &[Start, Mend, Attach]],
        &[],
    ],
    kills: 1,
    cuts: 1,
    ..OPENS
};

#[test]
fn two_that_open_at_once_mend_once_and_take_nothing_from_the_living() {
    holds("opens", 10_000, &OPENS);
    if !quick() {
        holds("opens, two killed", 10_000, &Config { kills: 2, ..OPENS });
    }
    holds("taken", 50_000, &TAKEN);
}

#[test]
fn fences_are_given_once_and_hold_until_the_task_changes_hands() {
    holds("hands", 2_000, &HANDS);
    holds("hands, killed", 4_000, &Config { kills: 1, ..HANDS });
}

#[test]
fn proof_of_death_stays_while_anything_is_owned() {
    holds("swept", 10_000, &SWEPT);
}

#[test]
fn power_cut_leaves_the_proof_of_whatever_it_gives_back() {
    holds("cut", 100_000, &CUT);
}

#[test]
fn session_whose_files_are_removed_keeps_what_it_runs() {
    holds("vandal", 20_000, &Config { vandals: 1, kills: 0, ..OPENS });
}
