//! One step done wrong at a time: the checker must find the promise that breaks. And some that may be done otherwise.

use super::model::{Broken, Config, Faults, Marker, Mutation, TailFrom, Words};
use super::{
    BUFFERED, CUT, KEPT, KILL_AND_FAIL, NO_FAULTS, ONE_KILL, PAIRED, TOLD_TO_ALL, TOLD_TO_ONE, holds, run,
};

/// One lane and no mark of any kind.
const NO_MARK: Config = Config { marker: Marker::None, ..TOLD_TO_ONE };

/// Nobody is killed: what is wrong shows among the living.
const FAIL: Faults = Faults { fails: 1, ..NO_FAULTS };

const SCRAMBLE_AND_FAIL: Faults = Faults { scrambles: 1, ..KILL_AND_FAIL };

const TWO_KILLS: Faults = Faults { kills: 2, restarts: 2, ..NO_FAULTS };

/// The end that a sync counts up to is the tail word, not what was read.
const ANY_WORD: Config = Config { tail: TailFrom::Word, ..TOLD_TO_ALL };

const WORD: Config = Config { words: Words::Checked, faults: ONE_KILL, ..ANY_WORD };

fn breaks(name: &str, mutation: Mutation, config: &Config, expected: Broken) {
    let report = run(name, &Config { mutation, ..*config });
    let broken = report.found.as_ref().map(|(broken, _)| *broken);
    assert_eq!(broken, Some(expected), "{name}: after {} states", report.states);
}

macro_rules! breaks {
    ($($(#[$doc:meta])* $name:ident: $mutation:ident, $config:expr => $broken:ident;)*) => {
        $($(#[$doc])* #[test] fn $name() {
            breaks(stringify!($name), Mutation::$mutation, &$config, Broken::$broken);
        })*
    };
}

breaks! {
    tail_published_before_the_write:
        PublishBeforeWrite, Config { faults: NO_FAULTS, ..WORD } => DurableLost;
    tail_read_after_the_sync: TailReadAfterSync, Config { faults: NO_FAULTS, ..TOLD_TO_ALL } => DurableLost;
    /// A word can say anything; only what has been read may be called durable.
    tail_word_believed:
        None, Config { faults: Faults { scrambles: 1, ..NO_FAULTS }, ..ANY_WORD } => FalseDamage;
    /// And even a true one names frames that the kernel may have forgotten since.
    tail_word_believed_after_a_failed_sync: None, ANY_WORD => DurableLost;
    append_where_the_tail_word_says: AppendAtTailWord, WORD => TakenBack;
    lock_given_back_before_the_write:
        UnlockBeforeWrite, Config { faults: NO_FAULTS, ..TOLD_TO_ALL } => TakenBack;
    torn_end_not_healed: TornEndNotHealed, BUFFERED => UncleanEnd;
    /// Where the word, not the bytes, says whether the end is clean.
    dirty_cleared_before_the_write: DirtyClearedEarly, BUFFERED => UncleanEnd;
    healing_cuts_from_dirty: CutFromDirty, BUFFERED => TakenBack;
    whole_frames_of_a_failed_write_undone: WholeFramesUndone, BUFFERED => TakenBack;
    numbers_again_without_an_epoch: NoEpoch, CUT => NumberTwice;
    anybody_alive_taken_for_a_witness: AnybodyIsWitness, CUT => NumberTwice;

    lane_stolen: LaneStolen, TOLD_TO_ONE => DurableLost;
    poison_forgotten: PoisonForgotten, Config { faults: FAIL, ..NO_MARK } => DurableLost;
    poison_after_the_lane: PoisonAfterLane, Config { faults: FAIL, ..NO_MARK } => DurableLost;
    poison_not_looked_at: PoisonNotLookedAt, Config { faults: FAIL, ..NO_MARK } => PoisonPassed;
    failed_sync_retried: SyncRetried, Config { faults: FAIL, ..TOLD_TO_ALL } => DurableLost;
    bytes_of_others_not_owned: OwnBytesSkipped, TOLD_TO_ALL => DurableLost;
    /// They may be gone: zeros are written again, and the next frame goes behind a hole.
    owned_bytes_not_looked_at: OwnBytesUnread, Config { lanes: 1, ..TOLD_TO_ALL } => DurableLost;
    /// Somebody else's frame may stand where the commit stood.
    durable_word_believed_without_a_look_at_the_frame: WordBelieved, TOLD_TO_ALL => DurableLost;

    two_lanes_where_one_caller_is_told:
        None, Config { lanes: 2, faults: FAIL, ..TOLD_TO_ONE } => DurableLost;
    two_lanes_that_do_not_await_each_other:
        OverlapNotAwaited, Config { faults: FAIL, ..PAIRED } => DurableLost;
    two_lanes_through_one_descriptor:
        None, Config { one_descriptor: true, faults: FAIL, ..TOLD_TO_ALL } => DurableLost;
    two_lanes_when_the_device_does_not_flush:
        None, Config { flush_fails: true, faults: FAIL, ..TOLD_TO_ALL } => DurableLost;
    /// The one who was told is killed before it can leave POISON.
    no_mark_where_one_caller_is_told: None, NO_MARK => DurableLost;
    no_mark_when_the_device_does_not_flush:
        None, Config { lanes: 1, flush_fails: true, ..TOLD_TO_ALL } => DurableLost;
    /// A word that is raised during a sync is lost with the block, and nobody suspects. A word that is raised after a
    /// good sync is lost too, and everybody does.
    mark_that_says_under_way:
        None, Config { marker: Marker::UnderWay, faults: SCRAMBLE_AND_FAIL, ..TOLD_TO_ONE } => DurableLost;

    hint_believed_without_a_try_of_the_lane:
        HintBelieved, Config { faults: ONE_KILL, ..TOLD_TO_ALL } => Stuck;
    lock_kept_without_a_timer: KeptWithoutTimer, Config { faults: NO_FAULTS, ..KEPT } => Stuck;
    /// A healer holds LOCK and waits for the lane.
    lane_kept_while_lock_is_waited_for:
        LaneKeptWaitingForLock, Config { commits: [3, 1, 0], faults: TWO_KILLS, ..TOLD_TO_ONE } => Stuck;
}

/// What the bytes say anyway.
#[test]
fn dirty_is_only_a_hint() {
    let config = Config { mutation: Mutation::DirtyClearedEarlyOnly, ..BUFFERED };
    holds("dirty_is_only_a_hint", 10_000, &config);
    let cut = Config { mutation: Mutation::DirtyClearedEarlyOnly, long: [true, false, false], ..CUT };
    holds("dirty_is_only_a_hint, power cut", 10_000, &cut);
}

/// Once the bytes are owned and were looked at, a second look at poison or at the end finds nothing new.
#[test]
fn second_looks_are_not_needed() {
    for mutation in [Mutation::PoisonNotLookedAtAgain, Mutation::EndNotReadAgain] {
        for config in [TOLD_TO_ALL, TOLD_TO_ONE, PAIRED] {
            holds(&format!("{mutation:?}"), 20_000, &Config { mutation, ..config });
        }
    }
}

/// Poison spares the others the wait and the writing; what keeps them from a false word is the error they get.
#[test]
fn poison_is_found_out_by_everybody_where_everybody_is_told() {
    for mutation in [Mutation::PoisonForgotten, Mutation::PoisonAfterLane] {
        holds(&format!("{mutation:?}"), 40_000, &Config { mutation, ..TOLD_TO_ALL });
    }
}
