//! Lists of tasks, paged.

use std::cmp::Ordering;
use std::sync::Arc;

use super::index::Index;
use super::task::Task;
use crate::event::{Field, Status, TaskId, Value};

/// By what a list is ordered; equal ones by their ids.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sort {
    /// Time of last activity as hosts wrote it, newest first.
    #[default]
    Time,
    /// Creation in this log, newest first.
    Created,
    /// Last change in this log, newest first.
    Changed,
    /// Cost, highest first.
    Cost,
    /// Tokens sent and received, most first.
    Tokens,
    /// Size, largest first.
    Size,
    /// Title, in the order of its code points.
    Title,
}

impl Sort {
    /// Which of two tasks comes first. [`Sort::Created`] and [`Sort::Changed`] go by event numbers, so they say something
    /// of tasks of one log only.
    pub fn compare(self, a: &Task, b: &Task) -> Ordering {
        compare(self, a, b)
    }
}

/// Which tasks are wanted. Conditions are joined by *and*; [`Query::default`] wants all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    /// Of this status.
    pub status: Option<Status>,
    /// Children of this task.
    pub parent: Option<String>,
    /// This task and all below it.
    pub root: Option<String>,
    /// Whose field `workspace` is exactly this.
    pub workspace: Option<String>,
    /// In the background, or in the foreground.
    pub background: Option<bool>,
    /// The order.
    pub sort: Sort,
    /// At most this many.
    pub limit: Option<usize>,
    /// Only what comes behind this task, the last of the page before.
    pub after: Option<TaskId>,
}

/// One page of a list.
#[derive(Clone, Debug)]
pub struct Page {
    /// The tasks, in order.
    pub tasks: Vec<Arc<Task>>,
    /// How many there are on all pages.
    pub total: usize,
    /// What to put into [`Query::after`] for the next page; `None` = this was the last.
    pub next: Option<TaskId>,
}

impl Index {
    /// The tasks that a query wants.
    ///
    /// A page that begins behind a task which has gone, or does not match any more, begins at the front.
    pub fn list(&self, query: &Query) -> Page {
        let mut found: Vec<&Arc<Task>> = match (&query.root, &query.parent) {
            (None, Some(parent)) => self.children(parent).filter(|task| matches(query, task)).collect(),
            (None, None) => self.tasks().filter(|task| matches(query, task)).collect(),
            (Some(root), _) => {
                let below = self.tree(root).into_iter().filter(|(_, task)| matches(query, task));
                below.filter_map(|(_, task)| self.get(task.id.as_str())).collect()
            }
        };
        let total = found.len();
        let order = |a: &&Arc<Task>, b: &&Arc<Task>| compare(query.sort, a, b);
        let last =
            query.after.as_ref().and_then(|id| self.get(id.as_str())).filter(|last| matches(query, last));
        if let Some(last) = last {
            found.retain(|task| compare(query.sort, last, task) == Ordering::Less);
        }
        let limit = query.limit.unwrap_or(usize::MAX);
        let more = found.len() > limit;
        if more && limit > 0 {
            // Only what is wanted is put in order.
            found.select_nth_unstable_by(limit - 1, order);
        }
        found.truncate(limit);
        found.sort_unstable_by(order);
        let next = found.last().filter(|_| more).map(|task| task.id.clone());
        Page { tasks: found.into_iter().map(Arc::clone).collect(), total, next }
    }
}

fn matches(query: &Query, task: &Task) -> bool {
    query.status.is_none_or(|status| task.status() == status)
        && query.parent.as_deref().is_none_or(|parent| task.parent().as_deref() == Some(parent))
        && query.workspace.as_deref().is_none_or(|path| task.text(&Field::Workspace).as_deref() == Some(path))
        && query.background.is_none_or(|background| task.background() == background)
}

fn compare(sort: Sort, a: &Task, b: &Task) -> Ordering {
    // `-0` is 0 here: a sum of two that are equal.
    let number =
        |task: &Task, field: &Field| task.item.get(field).and_then(Value::as_f64).unwrap_or(0.0) + 0.0;
    let by_number = |field: &Field| number(b, field).total_cmp(&number(a, field));
    let order = match sort {
        Sort::Time => by_number(&Field::Ts),
        Sort::Created => b.created.cmp(&a.created),
        Sort::Changed => b.seq.cmp(&a.seq),
        Sort::Cost => by_number(&Field::TotalCost),
        Sort::Tokens => {
            let sum = |task: &Task| number(task, &Field::TokensIn) + number(task, &Field::TokensOut);
            sum(b).total_cmp(&sum(a))
        }
        Sort::Size => by_number(&Field::Size),
        Sort::Title => a.text(&Field::Task).cmp(&b.text(&Field::Task)),
    };
    order.then_with(|| a.id.cmp(&b.id))
}
