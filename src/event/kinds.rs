//! The numbers of all event kinds, given once and for ever.

use crate::log::Vocabulary;

/// Defines the kinds once: constant, number, newest version (0 = reserved, never written yet), name for people.
macro_rules! kinds {
    ($($(#[doc = $doc:literal])+ $name:ident = $number:literal v $version:literal $label:literal;)+) => {
        $($(#[doc = $doc])+ pub const $name: u16 = $number;)+

        /// All kinds: number, newest version this release understands (0 = reserved), name for people.
        pub const KINDS: &[(u16, u8, &str)] = &[$(($number, $version, $label)),+];
    };
}

kinds! {
    /// A task came into being.
    CREATED = 16 v 1 "created";
    /// Fields of a task changed.
    PATCHED = 17 v 1 "patched";
    /// Its sums of tokens and cost, or the time of its last activity, changed, and nothing else.
    USAGE = 18 v 1 "usage";
    /// Its size changed, and nothing else.
    SIZE = 19 v 1 "size";
    /// Its title was given by a person.
    RENAMED = 20 v 1 "renamed";
    /// Its status changed.
    STATUS_CHANGED = 21 v 1 "status-changed";
    /// It waits for a child from now on.
    DELEGATED = 22 v 1 "delegated";
    /// It became the child of another.
    LINKED = 23 v 1 "linked";
    /// It is completed.
    FINISHED = 24 v 1 "finished";
    /// The child it waited for is completed.
    CHILD_RETURNED = 25 v 1 "child-returned";
    /// It is gone; its id stays taken.
    DELETED = 26 v 1 "deleted";
    /// It was taken over from an older layout, or what changed there since.
    IMPORTED = 27 v 1 "imported";
    /// A record of an older layout that was not chosen, kept as evidence.
    SOURCE_KEPT = 28 v 1 "source-kept";
    /// The workspace's status table.
    RULES_SET = 32 v 1 "rules-set";
    /// A path or key leads to this workspace.
    WORKSPACE_BOUND = 33 v 1 "workspace-bound";
    /// A process began to write.
    SESSION_STARTED = 34 v 1 "session-started";
    /// A session runs a task from now on.
    ATTACHED = 40 v 1 "attached";
    /// It no longer does.
    DETACHED = 41 v 1 "detached";
    /// Its owner was taken away.
    ABANDONED = 42 v 1 "abandoned";
    /// Reserved: a place in a transcript counts.
    TRANSCRIPT_NAMED = 48 v 0 "transcript-named";
    /// Reserved: a file is about to change.
    FILE_INTENT = 56 v 0 "file-intent";
    /// Reserved: a file has changed.
    FILE_CHANGED = 57 v 0 "file-changed";
    /// Reserved: a change was rolled back.
    FILE_ROLLED_BACK = 58 v 0 "file-rolled-back";
    /// Reserved: a command ran, which no rollback covers.
    COMMAND_NOTED = 59 v 0 "command-noted";
    /// A document was written.
    DOCUMENT_PUT = 64 v 1 "document-put";
    /// Members of a document changed.
    DOCUMENT_PATCHED = 65 v 1 "document-patched";
    /// A document is gone.
    DOCUMENT_DELETED = 66 v 1 "document-deleted";
    /// What a file that a document is mirrored in holds, or is about to hold.
    DOCUMENT_MIRRORED = 67 v 1 "document-mirrored";
    /// Reserved: a lease on a path began.
    LEASE_ACQUIRED = 72 v 0 "lease-acquired";
    /// Reserved: its holder gave it back.
    LEASE_RELEASED = 73 v 0 "lease-released";
    /// Reserved: somebody else ended it.
    LEASE_ENDED = 74 v 0 "lease-ended";
    /// How much of the history is kept, of the workspace's or of one task's.
    RETENTION_SET = 80 v 1 "retention-set";
    /// Whether the history of a task is kept whole, whatever else is set.
    PINNED = 81 v 1 "pinned";
    /// What a deleted task held is to go from every file.
    PURGED = 82 v 1 "purged";
    /// The workspace was backed up.
    BACKED_UP = 83 v 1 "backed-up";
    /// Reserved: the hash of a mirror that is about to be written.
    MIRRORED = 88 v 0 "mirrored";
    /// Reserved: an edit of a mirror by others.
    FOREIGN_EDIT = 89 v 0 "foreign-edit";
}

/// What this release understands.
pub fn vocabulary() -> Vocabulary {
    Vocabulary::new(
        KINDS.iter().filter(|(_, version, _)| *version > 0).map(|(kind, version, _)| (*kind, *version)),
    )
}

/// A kind's name for people.
pub fn name(kind: u16) -> Option<&'static str> {
    use crate::log::format::{EVENT_ELIDED, EVENT_NOTHING};
    match kind {
        EVENT_ELIDED => Some("elided"),
        EVENT_NOTHING => Some("nothing"),
        _ => KINDS.iter().find(|(number, ..)| *number == kind).map(|(.., label)| *label),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_are_given_once() {
        for (i, (kind, _, label)) in KINDS.iter().enumerate() {
            for (other, _, other_label) in &KINDS[..i] {
                assert!(other < kind, "{kind} is out of order");
                assert_ne!(label, other_label);
            }
        }
        assert_eq!(
            (name(0), name(1), name(16), name(999)),
            (Some("elided"), Some("nothing"), Some("created"), None)
        );
        assert!(
            vocabulary().knows(CREATED, 1)
                && !vocabulary().knows(CREATED, 2)
                && !vocabulary().knows(TRANSCRIPT_NAMED, 1)
        );
    }
}
