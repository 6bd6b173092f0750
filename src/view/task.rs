//! A task as the fold keeps it.

use std::borrow::Cow;
use std::sync::Arc;

use crate::event::{Fence, Field, Item, Status, TaskId, Value};
use crate::log::{Revision, Seq};

/// A task that lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// Its id.
    pub id: TaskId,
    /// All it is.
    pub item: Item,
    /// How many state events it has had.
    pub revision: Revision,
    /// Its last state event.
    pub seq: Seq,
    /// Its first event; after a deletion, that of its new beginning.
    pub created: Seq,
    /// Whether a person gave it its title.
    pub named: bool,
    /// Who runs it, and how often it has changed hands.
    pub fence: Fence,
    /// Where it was imported from, if it was.
    pub imports: Option<Arc<Imports>>,
    /// About how many bytes its text has, blobs included.
    pub bytes: u64,
}

/// What the source of an imported task said when it was last imported.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Imports {
    /// BLAKE3 of the record.
    pub record: [u8; 32],
    /// Its fields and [`crate::event::value_hash`] of each value, in the order of the fields.
    pub fields: Vec<(Field, u64)>,
}

/// What stays of a deleted task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tombstone {
    /// How many state events it has had, its deletion included.
    pub revision: Revision,
    /// Its last state event.
    pub seq: Seq,
    /// How often it has changed hands, its deletion included.
    pub fence: u64,
}

/// What a key of a task stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A task.
    Live(Arc<Task>),
    /// One that was deleted.
    Dead(Tombstone),
}

impl Entry {
    /// The task, if it lives.
    pub fn live(&self) -> Option<&Arc<Task>> {
        match self {
            Entry::Live(task) => Some(task),
            Entry::Dead(_) => None,
        }
    }

    /// The same, given away.
    pub fn into_live(self) -> Option<Arc<Task>> {
        match self {
            Entry::Live(task) => Some(task),
            Entry::Dead(_) => None,
        }
    }

    /// How many state events it has had.
    pub fn revision(&self) -> Revision {
        match self {
            Entry::Live(task) => task.revision,
            Entry::Dead(tombstone) => tombstone.revision,
        }
    }

    /// How often it has changed hands.
    pub fn fence(&self) -> u64 {
        match self {
            Entry::Live(task) => task.fence.number,
            Entry::Dead(tombstone) => tombstone.fence,
        }
    }

    /// Its last state event.
    pub fn seq(&self) -> Seq {
        match self {
            Entry::Live(task) => task.seq,
            Entry::Dead(tombstone) => tombstone.seq,
        }
    }
}

impl Task {
    /// Its status; absent and unheard-of ones count as active.
    pub fn status(&self) -> Status {
        self.text(&Field::Status).and_then(|name| Status::of(&name)).unwrap_or(Status::Active)
    }

    /// A field if it is a string.
    pub fn text(&self, field: &Field) -> Option<Cow<'_, str>> {
        self.item.text(field)
    }

    /// The fence by which a session holds it; `None` = nobody does.
    pub fn owner(&self) -> Option<Fence> {
        (self.fence.session != 0).then_some(self.fence)
    }

    /// The task it is a child of.
    pub fn parent(&self) -> Option<Cow<'_, str>> {
        self.text(&Field::ParentTaskId).filter(|id| !id.is_empty())
    }

    /// The task it waits for.
    pub fn awaiting(&self) -> Option<Cow<'_, str>> {
        self.text(&Field::AwaitingChildId).filter(|id| !id.is_empty())
    }

    /// All tasks it ever delegated to, deleted ones included.
    pub fn child_ids(&self) -> Vec<Arc<str>> {
        self.item.get(&Field::ChildIds).map(Value::as_strings).unwrap_or_default()
    }

    /// Time of its last activity as its host wrote it, ms since 1970; 0 if there is none.
    pub fn ts(&self) -> f64 {
        self.item.get(&Field::Ts).and_then(Value::as_f64).unwrap_or(0.0)
    }

    /// Whether it runs in the background.
    pub fn background(&self) -> bool {
        self.item.get(&Field::Background) == Some(&Value::Bool(true))
    }
}
