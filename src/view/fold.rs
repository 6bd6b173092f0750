//! What each event does to its task. `format-spec/events.md` has the same in prose.
//!
//! Never validates: what today's rules would refuse is folded all the same, in the way that loses least, and said in a
//! finding. An event changes its own task and no other.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use foldhash::fast::RandomState;

use super::task::{Entry, Imports, Task, Tombstone};
use crate::event::{
    Edit, Event, Fence, Field, Imported, Item, Patch, Status, StatusTable, TaskId, Value, value_hash,
};
use crate::log::{Revision, Seq};

/// What stands before an event's body.
#[derive(Clone, Copy, Debug)]
pub struct Head {
    /// Its number.
    pub seq: Seq,
    /// Its task's revision after it.
    pub revision: Revision,
}

/// Something that today's rules would have refused: a stable code, and what it is.
pub(super) type Note<'a> = &'a mut dyn FnMut(&'static str, String);

/// Where edits are remembered that may have to be taken back, in their order.
pub(crate) type Edits<'a> = Option<&'a mut Vec<Edit>>;

/// What a task's entry is after a state event.
///
/// `edits` remembers what it changes in a task that lives before and after; everything else replaces the entry whole.
pub(crate) fn fold_event(
    before: Option<Entry>,
    id: &str,
    head: Head,
    event: Event,
    rules: &StatusTable,
    edits: Edits<'_>,
    note: Note<'_>,
) -> Entry {
    if let Event::Purged { fence } = event {
        // It stands for all that was said before, which may be gone by now.
        let fence = before.as_ref().map_or(0, Entry::fence).max(fence);
        return Entry::Dead(Tombstone { revision: head.revision, seq: head.seq, fence });
    }
    let mut shared = match (before, &event) {
        (Some(Entry::Dead(tombstone)), Event::Created { again: true, .. }) => {
            fresh(id, head, tombstone.fence)
        }
        (Some(Entry::Dead(tombstone)), _) => {
            note("event-after-delete", format!("an event of kind {} after {id} was deleted", event.kind()));
            return Entry::Dead(Tombstone { revision: head.revision, seq: head.seq, ..tombstone });
        }
        (Some(Entry::Live(task)), Event::Created { .. }) => {
            note("created-twice", format!("{id} was created although it was there; its fields were merged"));
            task
        }
        (Some(Entry::Live(task)), _) => task,
        (None, Event::Created { .. } | Event::Imported(_)) => fresh(id, head, 0),
        (None, _) => {
            note("event-before-create", format!("an event of kind {} before {id} was created", event.kind()));
            fresh(id, head, 0)
        }
    };
    if let Event::Deleted { .. } = event {
        // Whoever ran it runs it no more, whatever comes to life under its id.
        let fence = shared.fence.number.saturating_add(1);
        return Entry::Dead(Tombstone { revision: head.revision, seq: head.seq, fence });
    }
    let task = Arc::make_mut(&mut shared);
    (task.revision, task.seq) = (head.revision, head.seq);
    change(&mut Editing { task, edits }, event, rules, note);
    Entry::Live(shared)
}

/// A task that is being changed.
struct Editing<'a> {
    task: &'a mut Task,
    edits: Edits<'a>,
}

impl std::ops::Deref for Editing<'_> {
    type Target = Task;

    fn deref(&self) -> &Task {
        self.task
    }
}

fn fresh(id: &str, head: Head, fence: u64) -> Arc<Task> {
    Arc::new(Task {
        id: TaskId::of_log(id),
        item: Item::default(),
        revision: head.revision,
        seq: head.seq,
        created: head.seq,
        named: false,
        fence: Fence { number: fence, session: 0 },
        imports: None,
        bytes: 0,
    })
}

fn change(task: &mut Editing<'_>, event: Event, rules: &StatusTable, note: Note<'_>) {
    match event {
        Event::Created { item, .. } => {
            set_all(task, item.into_fields());
        }
        Event::Patched(Patch { set: sets, unset: unsets, drop_children }) => {
            for (field, _) in sets.iter().filter(|(field, _)| field.is_ruled()) {
                note("ruled-field-patched", format!("a patch of {} sets {field}", task.id));
            }
            if sets.iter().any(|(field, _)| *field == Field::ChildIds) {
                let mut rest = Vec::with_capacity(sets.len());
                for (field, value) in sets {
                    if field == Field::ChildIds {
                        // What comes before it comes before it in a new item too.
                        set_all(task, std::mem::take(&mut rest));
                        add_children(task, &value.as_strings());
                    } else {
                        rest.push((field, value));
                    }
                }
                set_all(task, rest);
            } else {
                set_all(task, sets);
            }
            unset_all(task, &unsets);
            if !drop_children.is_empty() {
                let dropped: HashSet<Arc<str>, RandomState> = drop_children.into_iter().collect();
                let kept: Vec<_> = task.child_ids().into_iter().filter(|id| !dropped.contains(id)).collect();
                set(task, Field::ChildIds, Value::strings(kept));
            }
        }
        Event::Renamed { title } => {
            set(task, Field::Task, title);
            task.task.named = true;
        }
        Event::StatusChanged { from, to, cause } => {
            if task.status() != from {
                note("status-from", format!("{} left status {from}, but was {}", task.id, task.status()));
            }
            if !cause.is_repair() {
                moves(task, to, rules, note);
            }
            set(task, Field::Status, to.name().into());
            if to != Status::Delegated {
                wait_no_more(task);
            }
        }
        Event::Delegated { child } => {
            if task.status() != Status::Delegated {
                moves(task, Status::Delegated, rules, note);
            }
            set(task, Field::Status, Status::Delegated.name().into());
            set(task, Field::DelegatedToId, Value::Text(child.shared()));
            set(task, Field::AwaitingChildId, Value::Text(child.shared()));
            add_children(task, &[child.shared()]);
        }
        Event::Linked { parent, root } => {
            set(task, Field::ParentTaskId, Value::Text(parent.shared()));
            set(task, Field::RootTaskId, Value::Text(root.shared()));
        }
        Event::Finished { summary } => {
            moves(task, Status::Completed, rules, note);
            set(task, Field::Status, Status::Completed.name().into());
            if let Some(summary) = summary {
                set(task, Field::CompletionResultSummary, summary);
            }
            wait_no_more(task);
        }
        Event::ChildReturned { child, summary } => {
            if task.awaiting().as_deref() != Some(child.as_str()) {
                note("not-waiting", format!("{child} returned to {}, which did not wait for it", task.id));
            }
            set(task, Field::Status, Status::Active.name().into());
            set(task, Field::CompletedByChildId, Value::Text(child.shared()));
            match summary {
                Some(summary) => set(task, Field::CompletionResultSummary, summary),
                // What an earlier child has left is not this one's.
                None => unset(task, &Field::CompletionResultSummary),
            }
            wait_no_more(task);
            add_children(task, &[child.shared()]);
        }
        Event::Attached(fence) => {
            if fence.number <= task.fence.number {
                note("fence-again", format!("{} changed hands by the fence {} again", task.id, fence.number));
            }
            task.task.fence = Fence { number: fence.number.max(task.fence.number), ..fence };
        }
        Event::Detached { fence } => {
            // One that came late, behind a later owner's: that owner stays.
            if fence == task.fence.number {
                task.task.fence.session = 0;
            }
        }
        Event::Abandoned { fence, severed, .. } => {
            task.task.fence = Fence { number: fence.max(task.fence.number), session: 0 };
            if severed {
                unset_all(task, &[Field::ParentTaskId, Field::RootTaskId]);
            }
        }
        Event::Imported(imported) => import(task, imported),
        // Neither is a state event of a task.
        Event::Deleted { .. }
        | Event::SourceKept { .. }
        | Event::RulesSet(_)
        | Event::WorkspaceBound(_)
        | Event::DocumentPut { .. }
        | Event::DocumentPatched(_)
        | Event::DocumentDeleted
        | Event::DocumentMirrored(_)
        | Event::RetentionSet(_)
        | Event::Pinned(_)
        | Event::Purged { .. }
        | Event::BackedUp { .. }
        | Event::SessionStarted { .. } => {}
    }
}

/// Says so where the table would not let a task pass from its status to another.
fn moves(task: &Task, to: Status, rules: &StatusTable, note: Note<'_>) {
    let from = task.status();
    if from != to && rules.allows(from, to).is_none() {
        let table = rules.name();
        note("illegal-status", format!("{} passed from {from} to {to}, against the table {table}", task.id));
    }
}

fn import(task: &mut Editing<'_>, imported: Imported) {
    let Imported { record, set: sets, unset: unsets, kept, .. } = imported;
    let before = task.task.imports.take();
    let mut fields: BTreeMap<Field, u64> = before
        .iter()
        .flat_map(|imports| &imports.fields)
        .map(|(field, hash)| (field.clone(), *hash))
        .collect();
    let mut say = |field: &Field, hash: u64| match hash {
        0 => drop(fields.remove(field)),
        hash => drop(fields.insert(field.clone(), hash)),
    };
    for (field, hash) in &kept {
        say(field, *hash);
    }
    unsets.iter().for_each(|field| say(field, 0));
    sets.iter().for_each(|(field, value)| say(field, value_hash(value)));
    unset_all(task, &unsets);
    set_all(task, sets);
    task.task.imports = Some(Arc::new(Imports { record, fields: fields.into_iter().collect() }));
}

/// Invariant: who is not delegated waits for nobody.
fn wait_no_more(task: &mut Editing<'_>) {
    unset(task, &Field::AwaitingChildId);
    unset(task, &Field::DelegatedToId);
}

fn set(task: &mut Editing<'_>, field: Field, value: Value) {
    set_all(task, vec![(field, value)]);
}

fn set_all(task: &mut Editing<'_>, fields: Vec<(Field, Value)>) {
    let Task { item, bytes, .. } = &mut *task.task;
    item.edit_all(fields, |field, added, edit| {
        *bytes = match edit.old().map(Value::json_len) {
            Some(before) => bytes.saturating_add(added).saturating_sub(before),
            None => bytes.saturating_add(added).saturating_add(field.name().len() as u64 + 4),
        };
        if let Some(edits) = &mut task.edits {
            edits.push(edit);
        }
    });
}

fn unset(task: &mut Editing<'_>, field: &Field) {
    unset_all(task, std::slice::from_ref(field));
}

fn unset_all(task: &mut Editing<'_>, fields: &[Field]) {
    let Task { item, bytes, .. } = &mut *task.task;
    item.edit_out_all(fields, |edit| {
        if let Edit::Removed(_, field, old) = &edit {
            *bytes = bytes.saturating_sub(old.json_len()).saturating_sub(field.name().len() as u64 + 4);
            if let Some(edits) = &mut task.edits {
                edits.push(edit);
            }
        }
    });
}

/// Adds ids to the set that is there, in the order they come.
fn add_children(task: &mut Editing<'_>, ids: &[Arc<str>]) {
    let mut all = task.child_ids();
    let before = all.len();
    if let [id] = ids {
        if !all.contains(id) {
            all.push(Arc::clone(id));
        }
    } else {
        let mut there: HashSet<Arc<str>, RandomState> = all.iter().cloned().collect();
        all.extend(ids.iter().filter(|id| there.insert(Arc::clone(id))).cloned());
    }
    if all.len() > before || task.item.get(&Field::ChildIds).is_none() {
        set(task, Field::ChildIds, Value::strings(all));
    }
}
