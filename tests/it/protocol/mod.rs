//! The protocol of many processes, explored whole: every interleaving of the steps of [`model`], everybody killed
//! between any two of them, power cuts, syncs that fail, full disks, words that are zeroed or garbage.
//!
//! [`mutations`] does one step of it wrong at a time; the checker must find out, and says by which schedule.
//! `cargo test protocol -- --nocapture` prints how many states there were; `FOLDLOG_PROTOCOL_LARGE=1` explores
//! more, `FOLDLOG_QUICK=1` less.

pub(crate) mod checker;
mod model;
mod mutations;

use super::simulated::quick;
use checker::{holds, run};
use model::{Config, Faults, Marker, Mutation, PROCS, TailFrom, Words};

const NO_FAULTS: Faults = Faults { kills: 0, cuts: 0, fails: 0, scrambles: 0, full: 0, restarts: 0 };

const ONE_KILL: Faults = Faults { kills: 1, restarts: 1, ..NO_FAULTS };

const KILL_AND_FAIL: Faults = Faults { fails: 1, ..ONE_KILL };

/// Two processes with a durable commit each, on a system that tells every open descriptor of a failed write-back. Two
/// lanes are right there as long as everybody syncs through a descriptor of its own, and has written everything that
/// is not vouched for through it or had it open before that was written.
const TOLD_TO_ALL: Config = Config {
    mutation: Mutation::None,
    commits: [1, 1, 0],
    durable: [true; PROCS],
    long: [false; PROCS],
    batch: false,
    procs: 2,
    one_caller: false,
    flush_fails: false,
    one_descriptor: false,
    lanes: 2,
    marker: Marker::None,
    tail: TailFrom::Bytes,
    words: Words::Any,
    keep: false,
    forgets: true,
    faults: KILL_AND_FAIL,
};

/// The same where one caller only is told: one lane, which says whether its last sync ended well.
const TOLD_TO_ONE: Config = Config { one_caller: true, lanes: 1, marker: Marker::EndedWell, ..TOLD_TO_ALL };

/// Two lanes all the same: a sync counts once the one that was under way in the other lane has ended well.
const PAIRED: Config = Config { one_caller: true, lanes: 2, marker: Marker::Counted, ..TOLD_TO_ALL };

/// Buffered commits, two of them in one write, of long frames and short ones, beside a reader.
const BUFFERED: Config = Config {
    commits: [2, 2, 0],
    durable: [false; PROCS],
    long: [true, false, false],
    batch: true,
    procs: 3,
    faults: Faults { full: 1, ..ONE_KILL },
    ..TOLD_TO_ALL
};

/// The power goes.
const CUT: Config = Config {
    durable: [true, false, false],
    forgets: false,
    faults: Faults { cuts: 1, restarts: 2, kills: 1, ..NO_FAULTS },
    ..TOLD_TO_ALL
};

/// LOCK is kept between commits while nobody waits.
const KEPT: Config = Config {
    commits: [2, 1, 0],
    durable: [false, true, false],
    keep: true,
    forgets: false,
    faults: Faults { scrambles: 1, ..ONE_KILL },
    ..TOLD_TO_ALL
};

fn is_large() -> bool {
    std::env::var_os("FOLDLOG_PROTOCOL_LARGE").is_some()
}

#[test]
fn two_lanes_are_right_where_every_descriptor_is_told() {
    holds("told to all", 50_000, &TOLD_TO_ALL);
    if !quick() {
        let faults = Faults { kills: 2, fails: 2, restarts: 2, ..NO_FAULTS };
        holds("told to all, two of each", 200_000, &Config { faults, ..TOLD_TO_ALL });
    }
    if is_large() {
        holds("told to all, two commits each", 1_500_000, &Config { commits: [2, 2, 0], ..TOLD_TO_ALL });
    }
}

#[test]
fn one_lane_with_a_mark_is_right_where_one_caller_is_told() {
    holds("told to one", 25_000, &TOLD_TO_ONE);
    let cut = Faults { cuts: 1, restarts: 2, ..KILL_AND_FAIL };
    holds("told to one, power cut", 30_000, &Config { faults: cut, forgets: false, ..TOLD_TO_ONE });
    holds("told to one, more commits", 100_000, &Config { commits: [2, 1, 0], ..TOLD_TO_ONE });
    if is_large() {
        let three = Config { commits: [1; PROCS], procs: 3, forgets: false, ..TOLD_TO_ONE };
        holds("told to one, three processes", 500_000, &three);
    }
}

#[test]
fn two_lanes_that_await_each_other_are_right_where_one_caller_is_told() {
    holds("paired", 80_000, &PAIRED);
    if !quick() {
        let cut = Faults { cuts: 1, restarts: 2, ..KILL_AND_FAIL };
        holds("paired, power cut", 100_000, &Config { faults: cut, forgets: false, ..PAIRED });
    }
    if is_large() {
        let faults = Faults { restarts: 0, ..KILL_AND_FAIL };
        let three = Config { commits: [1; PROCS], procs: 3, faults, forgets: false, ..PAIRED };
        holds("paired, three processes", 2_000_000, &three);
    }
}

/// A flush that the device refuses is told to its caller alone on every system, so these two are the only ways to
/// survive it.
#[test]
fn flush_that_fails_is_survived_with_a_mark() {
    let one_lane = Config { lanes: 1, marker: Marker::EndedWell, flush_fails: true, ..TOLD_TO_ALL };
    holds("flush fails, one lane", 15_000, &one_lane);
    holds("flush fails, two lanes", 50_000, &Config { one_caller: false, flush_fails: true, ..PAIRED });
}

#[test]
fn words_of_any_value_break_nothing() {
    let faults = Faults { scrambles: 1, ..KILL_AND_FAIL };
    holds("words, told to all", 200_000, &Config { faults, forgets: false, ..TOLD_TO_ALL });
    holds("words, told to one", 100_000, &Config { faults, forgets: false, ..TOLD_TO_ONE });
    if !quick() {
        holds("words, paired", 400_000, &Config { faults, forgets: false, ..PAIRED });
        let two = Faults { scrambles: 2, ..ONE_KILL };
        holds("words twice", 100_000, &Config { faults: two, forgets: false, ..TOLD_TO_ALL });
    }
}

#[test]
fn power_cut_takes_nothing_durable_and_no_number_comes_back() {
    holds("cut", 9_000, &CUT);
    holds("cut, long frames", 10_000, &Config { long: [true, false, false], batch: true, ..CUT });
    let twice = Faults { cuts: 2, restarts: 3, kills: 1, ..NO_FAULTS };
    let commits = if is_large() { [2, 2, 0] } else { [2, 1, 0] };
    holds("cut twice", 200_000, &Config { commits, faults: twice, ..CUT });
    holds(
        "cut, three processes",
        30_000,
        &Config { commits: [1; PROCS], procs: 3, faults: Faults { kills: 0, ..CUT.faults }, ..CUT },
    );
}

#[test]
fn buffered_commits_survive_kills_and_readers_see_nothing_that_goes() {
    holds("buffered", 15_000, &BUFFERED);
    let commits = if is_large() { [3, 3, 2] } else { [2, 2, 1] };
    let single = Config { commits, long: [false; PROCS], batch: false, faults: ONE_KILL, ..BUFFERED };
    holds("buffered, three processes", 90_000, &single);
}

#[test]
fn kept_lock_is_waited_for_by_nobody_for_ever() {
    holds("kept", 50_000, &KEPT);
    let three = Config { procs: 3, commits: [2, 1, 1], durable: [false; PROCS], ..KEPT };
    holds(
        "kept, three processes",
        100_000,
        &Config { faults: Faults { restarts: 0, ..KEPT.faults }, ..three },
    );
}

#[test]
fn three_processes_make_durable() {
    let commits = if quick() { [1; PROCS] } else { [2, 1, 1] };
    let three = Config { procs: 3, commits, faults: NO_FAULTS, ..TOLD_TO_ALL };
    holds("three processes", 50_000, &three);
    if is_large() {
        let faults = Faults { restarts: 0, ..KILL_AND_FAIL };
        let faulty = Config { commits: [1; PROCS], faults, forgets: false, ..three };
        holds("three processes, kill and fail", 1_000_000, &faulty);
    }
}
