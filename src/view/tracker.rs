//! All tasks' changes, commit by commit.

use super::documents::Documents;
use super::fold::{Head, fold_event};
use super::history::{Change, DocumentChange, step};
use super::index::Index;
use super::table::TaskTable;
use super::task::Entry;
use crate::event::{Event, StatusTable, TaskId, kinds};
use crate::log::envelope::{Envelope, Preamble};
use crate::log::{KeyKind, Revision};

/// Every task as it stood at one event, so that the next one can be told as a change. What tasks are is shared with the
/// [`Index`] it was taken from.
#[derive(Debug, Default)]
pub struct Tracker {
    tasks: TaskTable,
    documents: Documents,
    rules: StatusTable,
}

impl Tracker {
    /// As the index has them.
    pub fn of(index: &Index) -> Self {
        Tracker {
            tasks: index.table().clone(),
            documents: index.documents().clone(),
            rules: StatusTable::clone(index.rules()),
        }
    }

    /// A task as it stands.
    pub fn entry(&self, id: &str) -> Option<Entry> {
        self.tasks.entry(id)
    }

    /// The documents as they stand.
    pub fn documents(&self) -> &Documents {
        &self.documents
    }

    /// Takes up an event without a word. Events come in the log's order.
    pub fn pass(&mut self, preamble: &Preamble, envelope: &Envelope<'_>) {
        self.learn(envelope);
        self.take_up_document(preamble, envelope);
        if envelope.key_kind != KeyKind::TASK || envelope.revision == Revision(0) {
            return;
        }
        let Ok(Some(event)) = Event::decode(envelope) else { return };
        let id = TaskId::of_log(envelope.key);
        let head = Head { seq: envelope.seq, revision: envelope.revision };
        let before = self.tasks.take(envelope.key);
        let entry = fold_event(before, envelope.key, head, event, &self.rules, None, &mut |_, _| {});
        self.tasks.insert(id, entry);
    }

    /// Takes up an event if it is a document's, and says what it changed.
    pub fn take_up_document(
        &mut self,
        preamble: &Preamble,
        envelope: &Envelope<'_>,
    ) -> Option<DocumentChange> {
        (envelope.key_kind == KeyKind::DOCUMENT)
            .then(|| DocumentChange::of(&mut self.documents, preamble, envelope))?
    }

    /// Takes up an event, and says what it changed; `None` = it is no task's. Events come in the log's order.
    pub fn take_up(&mut self, preamble: &Preamble, envelope: &Envelope<'_>) -> Option<(TaskId, Change)> {
        self.learn(envelope);
        if envelope.key_kind != KeyKind::TASK {
            return None;
        }
        let id = TaskId::of_log(envelope.key);
        let mut entry = self.tasks.take(envelope.key);
        let change = step(&mut entry, envelope.key, preamble, envelope, &self.rules);
        if let Some(entry) = entry {
            self.tasks.insert(id.clone(), entry);
        }
        Some((id, change))
    }

    fn learn(&mut self, envelope: &Envelope<'_>) {
        if envelope.kind == kinds::RULES_SET
            && let Ok(Some(Event::RulesSet(rules))) = Event::decode(envelope)
        {
            self.rules = rules;
        }
    }
}
