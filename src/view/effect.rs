//! What events overwrite, for compaction.

use crate::event::{Event, Field};
use crate::log::Effect;
use crate::log::envelope::{Envelope, KeyKind};

/// All there is to a document is one value.
const DOCUMENT: u64 = 1;
/// It matters what was there before, whatever that was.
const ALL: u64 = u64::MAX;

/// What a state event does to its task or document.
///
/// Of a task only the sums that every step moves count: they are numbers that no other event reads, and of all that a task is told
/// most are these. That they were there before matters for the order of fields, which is kept.
pub(super) fn effect(envelope: &Envelope<'_>) -> Effect {
    let Ok(Some(event)) = Event::decode(envelope) else { return Effect::Stays { given: 0, taken: ALL } };
    if envelope.key_kind == KeyKind::DOCUMENT {
        return match event {
            Event::DocumentPut { again: false, .. } => Effect::Gives(DOCUMENT),
            Event::DocumentPut { .. } | Event::DocumentPatched(_) => {
                Effect::Stays { given: DOCUMENT, taken: ALL }
            }
            _ => Effect::Stays { given: 0, taken: ALL },
        };
    }
    let bits = |fields: &mut dyn Iterator<Item = &Field>| fields.fold(0, |bits, field| bits | bit(field));
    match event {
        Event::Patched(patch) => {
            let (set, unset) = (patch.sets(), patch.unsets());
            let given = bits(&mut set.iter().map(|(field, _)| field));
            let is_plain =
                unset.is_empty() && patch.drops().is_empty() && set.iter().all(|(field, _)| bit(field) != 0);
            match is_plain && !set.is_empty() {
                true => Effect::Gives(given),
                false => Effect::Stays { given, taken: bits(&mut unset.iter()) },
            }
        }
        Event::Created { item, again } => {
            let given = bits(&mut item.fields().iter().map(|(field, _)| field));
            Effect::Stays { given, taken: if again { ALL } else { 0 } }
        }
        Event::Imported(_) | Event::Deleted { .. } | Event::Purged { .. } => {
            Effect::Stays { given: 0, taken: ALL }
        }
        // None of these has to do with the sums.
        _ => Effect::default(),
    }
}

/// The bit of a field that only patches change, and what creates a task.
fn bit(field: &Field) -> u64 {
    match field.is_usage() || *field == Field::Size {
        true => 1 << field.number(),
        false => 0,
    }
}
