//! What changes in a workspace's tasks and documents, as it happens, in whatever process.

use std::fmt;
use std::time::Duration;

use super::Tasks;
use crate::error::{ErrorKind, Result};
use crate::event::{Field, Status as TaskStatus, TaskId};
use crate::log::envelope::KeyKind;
use crate::log::{Cursor, Delivery, Health, OpId, Seq, Since, Status, Subscription, Waited, Waker, Wakings};
use crate::view::{Change, DocumentChange, Index, Tracker};

/// For how long the log's health is believed while nothing comes.
const HEALTH_BELIEVED: Duration = Duration::from_millis(500);

/// Something that a user interface may have to show.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum TaskUpdate {
    /// A commit that changed tasks or documents.
    Commit(TaskCommit),
    /// What can be done with the log is not what it was: read-only, damaged, its durability lost, or healthy again. The
    /// first one tells what it is at the start, unless it is healthy.
    Health(Health),
}

/// A commit that changed tasks or documents, whole.
#[derive(Clone, Debug)]
pub struct TaskCommit {
    /// The number of its first event.
    pub first: Seq,
    /// The place behind it: what to store, to go on from here later.
    pub cursor: Cursor,
    /// When it was committed, µs since 1970 UTC, by the writer's clock.
    pub time: u64,
    /// The writer's session; 0 = none.
    pub session: u64,
    /// The request it answered, if that was named.
    pub op_id: Option<OpId>,
    /// Everything up to this event was known to be durable when it was read.
    pub durable: Seq,
    /// What it changed in tasks, event by event, in order.
    pub changes: Vec<TaskChange>,
    /// What it changed in documents, event by event, in order.
    pub documents: Vec<DocumentChange>,
}

/// One event of a task, and what it changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskChange {
    /// The task.
    pub id: TaskId,
    /// What happened, with every field's old and new value. Values over 64 KiB are names of blobs ([`Tasks::value`]).
    pub change: Change,
    /// Whether the task lived before.
    pub lived: bool,
}

impl TaskChange {
    /// Whether the task came into being by it, for the first time or again.
    pub fn is_creation(&self) -> bool {
        !self.lived && self.change.live
    }

    /// Whether the task was deleted by it.
    pub fn is_deletion(&self) -> bool {
        self.lived && !self.change.live
    }

    /// The status before and after, if it is another one; a task without a status is active.
    pub fn status(&self) -> Option<(TaskStatus, TaskStatus)> {
        let field = self.change.fields.iter().find(|change| change.field == Field::Status)?;
        let of = |value: &Option<crate::event::Value>| match value {
            Some(crate::event::Value::Text(name)) => TaskStatus::of(name).unwrap_or(TaskStatus::Active),
            _ => TaskStatus::Active,
        };
        let (from, to) = (of(&field.from), of(&field.to));
        (self.lived && self.change.live && from != to).then_some((from, to))
    }
}

/// A stream of what changes in a workspace's tasks: a [`Subscription`] whose events are understood.
///
/// It keeps every task as of its place, so that each change is told with what was before; what did not change since is
/// shared with the workspace's own view.
///
/// # Errors
/// As of [`Subscription`]. After [`ErrorKind::Rewound`](crate::ErrorKind::Rewound) or
/// [`ErrorKind::Trimmed`](crate::ErrorKind::Trimmed) start another one. Damage and the like are no errors here but
/// [`TaskUpdate::Health`].
pub struct TaskChanges {
    subscription: Subscription,
    tracker: Tracker,
    told: Status,
}

impl fmt::Debug for TaskChanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskChanges").field("cursor", &self.cursor()).finish_non_exhaustive()
    }
}

impl Tasks {
    /// Streams what changes in the tasks from some place on, one commit at a time, and what becomes of the log's health.
    ///
    /// From now on it costs a look at the view; from a place in the past the log is read up to there.
    ///
    /// # Errors
    /// As [`crate::Workspace::subscribe`] and [`crate::Log::replay`].
    pub fn changes(&self, since: Since) -> Result<TaskChanges> {
        let subscription = self.workspace().subscribe(since)?;
        let start = subscription.cursor().seq;
        let now = |state: &crate::State, index: &Index| (state.last() == start).then(|| Tracker::of(index));
        let tracker = match self.read(now)? {
            _ if start == Seq(0) => Tracker::default(),
            Some(tracker) => tracker,
            None => self.workspace().log().replay(Tracker::default, |tracker, first, commit| {
                if first <= start {
                    commit.events().for_each(|event| tracker.pass(&commit.preamble, &event));
                }
            })?,
        };
        Ok(TaskChanges { subscription, tracker, told: Status::Healthy })
    }
}

impl TaskChanges {
    /// Tells of a commit only once it is known to survive a power cut.
    #[must_use]
    pub fn durable_only(self) -> Self {
        TaskChanges { subscription: self.subscription.durable_only(), ..self }
    }

    /// The place behind what was told so far: what to store, to go on from here later.
    pub fn cursor(&self) -> Cursor {
        self.subscription.cursor()
    }

    /// What other threads can end the waiting with.
    pub fn waker(&self) -> Waker {
        self.subscription.waker()
    }

    /// Whether nothing will come any more: it was stopped, or its workspace is closed.
    pub fn is_stopped(&self) -> bool {
        self.subscription.is_stopped()
    }

    /// How often it slept, and what ended that.
    pub fn wakings(&self) -> Wakings {
        self.subscription.wakings()
    }

    /// A task as it stands behind what was told so far.
    pub fn task(&self, id: &str) -> Option<std::sync::Arc<crate::view::Task>> {
        self.tracker.entry(id)?.into_live()
    }

    /// The documents as they stand behind what was told so far.
    pub fn documents(&self) -> &crate::view::Documents {
        self.tracker.documents()
    }

    /// The next update, if it is there; never waits.
    ///
    /// # Errors
    /// See [`TaskChanges`].
    pub fn try_next(&mut self) -> Result<Option<TaskUpdate>> {
        self.next_within(Duration::ZERO)
    }

    /// The next update, waited for at most this long. `None` = none came, or waiting was ended.
    ///
    /// # Errors
    /// See [`TaskChanges`].
    ///
    /// # Blocking
    /// As [`Subscription::next_within`]. What becomes of the log's health is looked at whenever it wakes.
    pub fn next_within(&mut self, time: Duration) -> Result<Option<TaskUpdate>> {
        let mut left = time;
        loop {
            let slice = left.min(HEALTH_BELIEVED);
            let waited = self.subscription.wait(slice);
            if let Ok(Waited::Found(delivery)) = waited {
                match self.understand(&delivery) {
                    Some(commit) => return Ok(Some(TaskUpdate::Commit(commit))),
                    None => continue,
                }
            }
            if let Some(health) = self.new_health() {
                return Ok(Some(TaskUpdate::Health(health)));
            }
            match waited {
                Err(e) if !is_of_health(e.kind()) => return Err(e),
                // Until somebody mends it.
                Err(_) if !slice.is_zero() && !self.is_stopped() => self.subscription.pause(slice),
                Ok(Waited::Called) => return Ok(None),
                Ok(_) | Err(_) => {}
            }
            left = left.saturating_sub(slice);
            if left.is_zero() || self.is_stopped() {
                return Ok(None);
            }
        }
    }

    fn new_health(&mut self) -> Option<Health> {
        let (status, log) = self.subscription.status()?;
        if status == self.told {
            return None;
        }
        self.told = status;
        Some(Health { status, ..log.health() })
    }

    fn understand(&mut self, delivery: &Delivery) -> Option<TaskCommit> {
        let preamble = delivery.preamble();
        let (mut changes, mut documents) = (Vec::new(), Vec::new());
        for event in &delivery.events {
            if event.key.kind == KeyKind::DOCUMENT {
                documents.extend(
                    event.with_envelope(|envelope| self.tracker.take_up_document(&preamble, envelope)),
                );
                continue;
            }
            let lived = self.tracker.entry(&event.key.name).is_some_and(|entry| entry.live().is_some());
            let taken = event.with_envelope(|envelope| self.tracker.take_up(&preamble, envelope));
            changes.extend(taken.map(|(id, change)| TaskChange { id, change, lived }));
        }
        (!changes.is_empty() || !documents.is_empty()).then_some(TaskCommit {
            first: delivery.first,
            cursor: delivery.cursor,
            time: delivery.time,
            session: delivery.session,
            op_id: delivery.op_id,
            durable: delivery.durable,
            changes,
            documents,
        })
    }
}

/// Whether an error says no more than the log's health does.
fn is_of_health(kind: &ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::Damaged(_)
            | ErrorKind::TooNew { .. }
            | ErrorKind::DurabilityLost { .. }
            | ErrorKind::NotYet
    )
}
