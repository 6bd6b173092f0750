//! One task's changes, or one document's: when, by whom, what, from what to what.

use std::sync::Arc;

use super::documents::{Document, Documents};
use super::fold::{Head, fold_event};
use super::task::Entry;
use crate::event::{DocumentName, Event, Field, Item, StatusTable, Value, kinds};
use crate::log::envelope::{Commit, Envelope, Preamble};
use crate::log::{KeyKind, OpId, Revision, Seq};

/// A field's change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldChange {
    /// The field.
    pub field: Field,
    /// What it was; `None` = absent.
    pub from: Option<Value>,
    /// What it is; `None` = absent.
    pub to: Option<Value>,
}

/// One event of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Its number.
    pub seq: Seq,
    /// When, µs since 1970 UTC, by the writer's clock.
    pub time: u64,
    /// Which session; 0 = none.
    pub session: u64,
    /// The request it answered.
    pub op_id: Option<OpId>,
    /// Its kind.
    pub kind: u16,
    /// The task's revision after it; 0 = it changed no state.
    pub revision: Revision,
    /// Whether the task lives after it.
    pub live: bool,
    /// What changed, in the order of the item's fields, removed ones last.
    pub fields: Vec<FieldChange>,
    /// The event itself, where this release can read it.
    pub event: Option<Event>,
}

/// One event of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentChange {
    /// Which document.
    pub name: DocumentName,
    /// Its number.
    pub seq: Seq,
    /// When, µs since 1970 UTC, by the writer's clock.
    pub time: u64,
    /// Which session; 0 = none.
    pub session: u64,
    /// The request it answered.
    pub op_id: Option<OpId>,
    /// The event's kind.
    pub event: u16,
    /// The document's revision after it; 0 = it changed no state.
    pub revision: Revision,
    /// Whether it was there before.
    pub lived: bool,
    /// The document after it, values over 64 KiB as names of blobs; `None` = it was deleted.
    pub document: Option<Arc<Document>>,
}

impl DocumentChange {
    /// Folds one event of a document, and says what it changed. `None` for what a mirroring says: the document stays.
    pub(super) fn of(
        documents: &mut Documents,
        preamble: &Preamble,
        envelope: &Envelope<'_>,
    ) -> Option<Self> {
        let event = Event::decode(envelope).ok().flatten();
        let head = Head { seq: envelope.seq, revision: envelope.revision };
        let lived = documents.get(envelope.key).is_some();
        documents.take_up(envelope.key, head, preamble.time, event, &mut |_, _| {});
        (envelope.revision > Revision(0)).then(|| DocumentChange {
            name: DocumentName::of_log(envelope.key),
            seq: envelope.seq,
            time: preamble.time,
            session: preamble.session,
            op_id: preamble.operation.map(|operation| operation.op_id),
            event: envelope.kind,
            revision: envelope.revision,
            lived,
            document: documents.get(envelope.key).cloned(),
        })
    }

    /// Every change of one document in a commit.
    pub(crate) fn take_up(documents: &mut Documents, name: &str, commit: &Commit<'_>, all: &mut Vec<Self>) {
        let mine = |event: &Envelope<'_>| event.key_kind == KeyKind::DOCUMENT && event.key == name;
        let changes = commit.events().filter(mine);
        all.extend(changes.filter_map(|event| Self::of(documents, &commit.preamble, &event)));
    }
}

/// Folds one task out of a log, remembering each step.
#[derive(Debug)]
pub struct History {
    id: String,
    entry: Option<Entry>,
    rules: StatusTable,
    changes: Vec<Change>,
}

impl History {
    /// Of the task with this id.
    pub fn of(id: &str) -> Self {
        History { id: id.into(), entry: None, rules: StatusTable::default(), changes: Vec::new() }
    }

    /// Takes up a commit; commits come in the log's order.
    pub fn take_up(&mut self, commit: &Commit<'_>) {
        for envelope in commit.events() {
            if envelope.kind == kinds::RULES_SET
                && let Ok(Some(Event::RulesSet(rules))) = Event::decode(&envelope)
            {
                self.rules = rules;
            }
            if envelope.key_kind != KeyKind::TASK || envelope.key != self.id {
                continue;
            }
            let (id, rules) = (&self.id, &self.rules);
            self.changes.push(step(&mut self.entry, id, &commit.preamble, &envelope, rules));
        }
    }

    /// All of it.
    pub fn into_changes(self) -> Vec<Change> {
        self.changes
    }
}

/// Folds one event of a task, and says what it changed.
pub(super) fn step(
    entry: &mut Option<Entry>,
    id: &str,
    preamble: &Preamble,
    envelope: &Envelope<'_>,
    rules: &StatusTable,
) -> Change {
    let event = Event::decode(envelope).ok().flatten();
    let empty = Item::default();
    let before = entry.clone();
    if let (Some(event), Revision(1..)) = (&event, envelope.revision) {
        let head = Head { seq: envelope.seq, revision: envelope.revision };
        *entry = Some(fold_event(entry.take(), id, head, event.clone(), rules, None, &mut |_, _| {}));
    }
    let item = |entry: &Option<Entry>| entry.as_ref().and_then(Entry::live).map(|task| task.item.clone());
    let (old, new) = (item(&before), item(entry));
    Change {
        seq: envelope.seq,
        time: preamble.time,
        session: preamble.session,
        op_id: preamble.operation.map(|operation| operation.op_id),
        kind: envelope.kind,
        revision: envelope.revision,
        live: new.is_some(),
        fields: difference(old.as_ref().unwrap_or(&empty), new.as_ref().unwrap_or(&empty)),
        event,
    }
}

/// What differs between two items.
pub fn difference(old: &Item, new: &Item) -> Vec<FieldChange> {
    let (was, is) = (old.finder(new.fields().len()), new.finder(old.fields().len()));
    let changed =
        new.fields().iter().filter(|(field, value)| was.get(field) != Some(value)).map(|(field, value)| {
            FieldChange { field: field.clone(), from: was.get(field).cloned(), to: Some(value.clone()) }
        });
    let gone = old
        .fields()
        .iter()
        .filter(|(field, _)| is.get(field).is_none())
        .map(|(field, value)| FieldChange { field: field.clone(), from: Some(value.clone()), to: None });
    changed.chain(gone).collect()
}
