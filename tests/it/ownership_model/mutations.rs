//! One step done wrong at a time: the checker must find the promise that breaks. And some that may be done otherwise.

use super::model::{Broken, Config, Mutation};
use super::{CUT, HANDS, OPENS, SWEPT, TAKEN, holds, run};

/// Somebody removes the files of a session that lives.
const VANDAL: Config = Config { vandals: 1, kills: 0, ..OPENS };

fn breaks(name: &str, mutation: Mutation, config: &Config, expected: Broken) {
    let report = run(name, &Config { mutation, ..*config });
    let broken = report.found.as_ref().map(|(broken, _)| *broken);
    assert_eq!(broken, Some(expected), "{name}: after {} states\n{}", report.states, report.schedule());
}

macro_rules! breaks {
    ($($(#[$doc:meta])* $name:ident: $mutation:ident, $config:expr => $broken:ident;)*) => {
        $($(#[$doc])* #[test] fn $name() {
            breaks(stringify!($name), Mutation::$mutation, &$config, Broken::$broken);
        })*
    };
}

breaks! {
    temporary_names_probed: TemporaryNamesProbed, OPENS => StartFailed;
    dead_file_unlinked_in_place_of_renamed: UnlinkedInPlaceOfRenamed, OPENS => ProofLost;
    dead_file_marked_without_its_lock: MarkedWithoutTheLock, OPENS => LiveLostFile;
    absent_taken_for_dead: AbsentTakenForDead, VANDAL => LiveCalledDead;
    owns_not_durable_before_the_attachment: OwnsNotDurable, CUT => ProofLost;

    swept_without_a_look_at_the_log: SweptWithoutALookAtTheLog, SWEPT => ProofLost;
    /// Who is killed between its first commit and listing itself owns what it does not list.
    swept_by_listings: SweptByListings, SWEPT => ProofLost;
    /// The owner was killed before it told of its attachment.
    swept_by_the_tail_word: SweptByTailWord, SWEPT => ProofLost;
    /// The cut gives the task back to its dead owner, and not the proof.
    swept_before_what_made_it_needless_is_durable: SweptBeforeDurable, CUT => ProofLost;
    /// A session that could not list itself ends.
    ended_by_listings: EndedByListings, SWEPT => ProofLost;

    verdict_used_although_the_owner_is_another: VerdictUsedForAnyOwner, TAKEN => LiveRobbed;
    mended_without_another_look_at_the_owner: MendLooksAtNoOwner, OPENS => LiveRepaired;
    mended_without_another_look_at_anything: MendLooksAtNothing, OPENS => RepairedTwice;

    owner_not_taken_away_by_abandon: AbandonKeepsTheOwner, HANDS => StaleAccepted;
    fence_not_raised_by_another_attachment: AttachAgainDoesNotRaise, HANDS => FenceTwice;
    fence_forgotten_by_a_deletion: DeletionForgetsTheFence, HANDS => FenceTwice;
}

/// Every attachment raises it, so that no number is given twice, whatever happened in between. That it grows with every
/// change of hands is for people, and for whoever has the number alone.
#[test]
fn fence_raised_by_attachments_alone_would_do() {
    for mutation in [Mutation::AbandonDoesNotRaise, Mutation::DeletionDoesNotRaise] {
        holds(&format!("{mutation:?}"), 1_000, &Config { mutation, ..HANDS });
    }
}
