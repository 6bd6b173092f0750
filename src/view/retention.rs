//! Which history is kept for its own sake: of the workspace, and of single tasks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::event::{Event, Retention, TaskId};
use crate::log::{Keep, Key, KeyKind};

/// See the module. What is said of a task is forgotten with the task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Retentions {
    workspace: Option<Retention>,
    tasks: BTreeMap<TaskId, Retention>,
    pinned: BTreeSet<TaskId>,
}

impl Retentions {
    /// What holds where nothing else is said; `None` = no history is kept.
    pub fn workspace(&self) -> Option<Retention> {
        self.workspace
    }

    /// What a task has of its own, by id.
    pub fn tasks(&self) -> impl Iterator<Item = (&TaskId, Retention)> {
        self.tasks.iter().map(|(id, retention)| (id, *retention))
    }

    /// What a task has of its own.
    pub fn task(&self, id: &str) -> Option<Retention> {
        self.tasks.get(id).copied()
    }

    /// The tasks that are pinned, by id.
    pub fn pinned(&self) -> impl Iterator<Item = &TaskId> {
        self.pinned.iter()
    }

    /// Whether a task is.
    pub fn is_pinned(&self, id: &str) -> bool {
        self.pinned.contains(id)
    }

    /// Whether nothing is set.
    pub fn is_empty(&self) -> bool {
        *self == Retentions::default()
    }

    /// Takes up what an event about a key says; returns what was before, if it says something.
    pub(crate) fn take_up(
        all: &mut Arc<Self>,
        key_kind: KeyKind,
        key: &str,
        event: &Event,
    ) -> Option<Arc<Self>> {
        let id = TaskId::of_log(key);
        let of_task = key_kind == KeyKind::TASK;
        let known = all.tasks.contains_key(key) || all.pinned.contains(key);
        match event {
            Event::RetentionSet(_) if of_task || key_kind == KeyKind::NONE => {}
            Event::Pinned(_) if of_task => {}
            Event::Deleted { .. } | Event::Purged { .. } if of_task && known => {}
            _ => return None,
        }
        let before = Arc::clone(all);
        let now = Arc::make_mut(all);
        match event {
            Event::RetentionSet(set) if !of_task => now.workspace = *set,
            Event::RetentionSet(Some(set)) => drop(now.tasks.insert(id, *set)),
            Event::RetentionSet(None) => drop(now.tasks.remove(key)),
            Event::Pinned(true) => drop(now.pinned.insert(id)),
            Event::Pinned(_) => drop(now.pinned.remove(key)),
            _ => {
                now.tasks.remove(key);
                now.pinned.remove(key);
            }
        }
        Some(before)
    }

    /// The events that say all of this, each with its key.
    pub(super) fn events(&self) -> Vec<(Key, Event)> {
        let workspace = self.workspace.map(|set| (Key::none(), Event::RetentionSet(Some(set))));
        let tasks = self.tasks.iter().map(|(id, set)| (id.key(), Event::RetentionSet(Some(*set))));
        let pinned = self.pinned.iter().map(|id| (id.key(), Event::Pinned(true)));
        workspace.into_iter().chain(tasks).chain(pinned).collect()
    }

    /// Adds it to a state hash, if something is set.
    pub(super) fn hash(&self, hasher: &mut blake3::Hasher) {
        for (key, event) in self.events() {
            let new = event.to_new(key.clone());
            hasher.update(&new.kind().to_le_bytes()).update(&[key.kind.0]);
            hasher.update(&(key.name.len() as u64).to_le_bytes()).update(key.name.as_bytes());
            hasher.update(&(new.body().len() as u64).to_le_bytes()).update(new.body());
        }
    }

    /// What compaction is to keep of a key's history.
    pub(super) fn keep(&self, key: &Key) -> Keep {
        let own = match key.kind {
            KeyKind::TASK if self.pinned.contains(&*key.name) => Some(Retention::KeepAll),
            KeyKind::TASK => self.tasks.get(&*key.name).copied(),
            _ => None,
        };
        match own.or(self.workspace) {
            None => Keep::Nothing,
            Some(Retention::KeepAll) => Keep::All,
            Some(Retention::Limits { age, count, bytes }) => Keep::Within {
                age: age.map(|age| u64::try_from(age.as_micros()).unwrap_or(u64::MAX)),
                count,
                bytes,
                together: own.is_none(),
            },
        }
    }
}
