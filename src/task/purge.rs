//! Purge of tasks: they are deleted for good, and no file of the workspace holds them any more.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use super::documents::Prepared;
use super::op::Op;
use super::ownership::Who;
use super::rules::Plan;
use super::{Tasks, introduce};
use crate::error::{Error, ErrorKind, Result};
use crate::event::{Event, TaskId, kinds};
use crate::log::{BlobId, CompactProgress, Durability, Key, PendingFile, PurgeReport, Seq};
use crate::view::{Backup, Entry, Index};

/// What a purge would do, or has done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct PurgeReceipt {
    /// The tasks, those below them included where they were to go too.
    pub tasks: Vec<TaskId>,
    /// How many segments of the log held them and were written anew.
    pub segments: usize,
    /// How many events went, those of other tasks in the same segments included that later ones overwrite.
    pub events: u64,
    /// Blobs that nothing named any more.
    pub blobs: Vec<BlobId>,
    /// Snapshots that were removed; they are made again by themselves.
    pub snapshots: Vec<PathBuf>,
    /// Files that had been set aside, and are removed whole, since nobody can say what damaged bytes are of.
    pub quarantine: Vec<PathBuf>,
    /// Files that still hold the tasks, or may, and who keeps them. The same call later removes them.
    pub pending: Vec<PendingFile>,
    /// Copies of this workspace that were made while the tasks were there: they are not touched.
    pub backups: Vec<Backup>,
}

impl PurgeReceipt {
    /// Whether no file of the workspace holds the tasks any more; backups are not of the workspace.
    pub fn is_complete(&self) -> bool {
        self.pending.is_empty()
    }
}

impl Tasks {
    /// What [`Tasks::purge`] would remove, as far as it can be said before: tasks, what was set aside, and which backups
    /// have them. Changes nothing.
    ///
    /// # Errors
    /// [`ErrorKind::NoTask`]; [`ErrorKind::Refused`] for a task with children if `cascade` is not given; as [`Tasks::read`].
    pub fn plan_purge(&self, ids: &[TaskId], cascade: bool) -> Result<PurgeReceipt> {
        let (tasks, backups) = self.read(|_, index| {
            let events = judge(index, ids, cascade)?;
            Ok::<_, Error>((tasks_of(&events), index.backups().to_vec()))
        })??;
        Ok(PurgeReceipt { tasks, backups, quarantine: self.log().quarantined()?, ..PurgeReceipt::default() })
    }

    /// Deletes tasks, and removes what they held from every file of the workspace: log, snapshots, blobs that no other task
    /// names, and whole whatever was set aside. Their ids stay taken, as those of deleted tasks do; a text that another
    /// task has of one of them, such as the summary a child has returned, is that task's and stays.
    ///
    /// A task that is deleted already is purged all the same; what was below it then has to be named too. Tasks that were purged earlier are
    /// looked for again: whoever was interrupted, or was told of files that are [pending](PurgeReceipt::pending), calls it once more.
    ///
    /// # Errors
    /// [`ErrorKind::NoTask`]; [`ErrorKind::Refused`] for a task with children if `cascade` is not given; as [`Tasks::commit`], before anything has
    /// changed. As [`Log::purge`](crate::log::Log::purge()) once the tasks are deleted; they stay so.
    ///
    /// # Durability
    /// All of it is durable when this returns.
    ///
    /// # Blocking
    /// As [`Log::purge`](crate::log::Log::purge()).
    pub fn purge(
        &self,
        ids: &[TaskId],
        cascade: bool,
        progress: CompactProgress<'_>,
    ) -> Result<PurgeReceipt> {
        self.log().check_purgeable()?;
        let (tasks, keys) = self.commit_purged(ids, cascade)?;
        let PurgeReport { segments, events, snapshots, blobs, quarantine, pending } =
            self.log().purge(&keys, progress)?;
        let backups = self.read(|_, index| index.backups().to_vec())?;
        Ok(PurgeReceipt { tasks, segments, events, blobs, snapshots, quarantine, pending, backups })
    }

    /// Commits that the tasks are purged, if that is not said yet; returns them, and every task that is, with the event that says so.
    fn commit_purged(&self, ids: &[TaskId], cascade: bool) -> Result<Said> {
        let log = Arc::clone(self.log());
        let all: Arc<Mutex<Vec<TaskId>>> = Arc::default();
        let (asked, told) = (ids.to_vec(), Arc::clone(&all));
        let _ = self.log().commit(Durability::Durable, move |state, draft| {
            let Some(index) = state.folded::<Index>() else {
                return Err(Error::refused("the fold of tasks is missing"));
            };
            let mut events = judge(index, &asked, cascade)?;
            *told.lock().unwrap_or_else(PoisonError::into_inner) = tasks_of(&events);
            // What is said already need not be said again.
            let is_said = |key: &Key, event: &Event| {
                matches!(event, Event::Purged { .. })
                    && state.get(key).is_some_and(|known| known.kind == kinds::PURGED)
            };
            events.retain(|(key, event)| !is_said(key, event));
            if !events.is_empty() {
                introduce(&log, index, draft);
                events.into_iter().for_each(|(key, event)| {
                    let _ = draft.push(event.to_new(key));
                });
            }
            Ok(())
        })?;
        let all = all.lock().unwrap_or_else(PoisonError::into_inner).clone();
        // Those of earlier purges too, which may have been interrupted.
        let keys = self.log().read(|state| state.keys_ending_in(kinds::PURGED))?;
        Ok((all, keys))
    }
}

/// The tasks that were named, and those below them; and every task that is purged, with the event that says so.
type Said = (Vec<TaskId>, Vec<(Key, Seq)>);

/// The events that delete tasks, and say that they are purged.
fn judge(index: &Index, ids: &[TaskId], cascade: bool) -> Result<Vec<(Key, Event)>> {
    let mut live = Vec::new();
    let mut going = BTreeSet::new();
    for id in ids {
        match index.entry(id.as_str()) {
            Some(Entry::Live(_)) => live.push(id.clone()),
            Some(Entry::Dead(_)) => {}
            None => return super::rules::refuse(ErrorKind::NoTask { id: id.to_string() }),
        }
        going.insert(id.clone());
    }
    let mut events: Vec<(Key, Event)> = Vec::new();
    let (who, prepared) = (Who::default(), Prepared::default());
    let remove = [Op::Remove { ids: live, cascade }];
    let push = &mut |key, event| {
        events.push((key, event));
        events.len() - 1
    };
    Plan::of(index, &remove, &who, &prepared, push).1?;
    let deleted = events.iter().filter(|(_, event)| matches!(event, Event::Deleted { .. }));
    going.extend(deleted.map(|(key, _)| TaskId::of_log(&key.name)));
    for id in going {
        let fence = match index.entry(id.as_str()) {
            Some(Entry::Live(task)) => task.fence.number.saturating_add(1),
            Some(Entry::Dead(tombstone)) => tombstone.fence,
            None => 0,
        };
        events.push((id.key(), Event::Purged { fence }));
    }
    Ok(events)
}

fn tasks_of(events: &[(Key, Event)]) -> Vec<TaskId> {
    let purged = events.iter().filter(|(_, event)| matches!(event, Event::Purged { .. }));
    purged.map(|(key, _)| TaskId::of_log(&key.name)).collect()
}
