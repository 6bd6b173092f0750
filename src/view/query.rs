//! Lists of tasks, paged.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;

use super::index::Index;
use super::saved::{Below, Row, Rows, partition, spoiled};
use super::task::{Entry, Task};
use crate::event::{Field, Status, TaskId, Value};
use crate::log::{Seq, Spoiled};

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
        let last =
            query.after.as_ref().and_then(|id| self.get(id.as_str())).filter(|last| matches(query, last));
        let mut list = Listed::new(query, last);
        match &query.root {
            None => self.list_all(&mut list),
            Some(root) => self.tree(root).into_iter().for_each(|(_, task)| list.add(&task)),
        }
        list.into_page()
    }

    /// All that match, where the snapshot's are found by its lists, and decoded only if the page may have them.
    fn list_all(&self, list: &mut Listed<'_>) {
        let (since, status) = (self.table().since(), list.query.status);
        if let Some(below) = self.table().below() {
            let found = below.look(
                |below| list.below(below, since, self.lifted(status)).map(Ok),
                |table| {
                    let all = table.since().iter().filter(|(id, _)| !since.contains_key(id.as_str()));
                    Err(all.filter_map(|(_, entry)| entry.live().cloned()).collect::<Vec<_>>())
                },
            );
            match found {
                Ok((found, count)) => (list.below, list.total) = (found, count),
                Err(all) => all.iter().for_each(|task| list.add(task)),
            }
        }
        match &list.query.parent {
            None => since.values().filter_map(Entry::live).for_each(|task| list.add(task)),
            Some(parent) => self.children_since(parent).for_each(|task| list.add(task)),
        }
    }
}

/// What a list has found so far.
struct Listed<'a> {
    query: &'a Query,
    /// The task behind which the page begins.
    last: Option<Arc<Task>>,
    found: Vec<Arc<Task>>,
    /// Those of the snapshot, in order, and what they are ordered by: nobody looks at their items for that.
    below: Vec<Keyed>,
    total: usize,
}

impl<'a> Listed<'a> {
    fn new(query: &'a Query, last: Option<Arc<Task>>) -> Self {
        Listed { query, last, found: Vec::new(), below: Vec::new(), total: 0 }
    }

    fn add(&mut self, task: &Arc<Task>) {
        if !matches(self.query, task) {
            return;
        }
        self.total += 1;
        let is_behind = |last: &Arc<Task>| compare(self.query.sort, last, task) == Ordering::Less;
        if self.last.as_ref().is_none_or(is_behind) {
            self.found.push(Arc::clone(task));
        }
    }

    fn into_page(self) -> Page {
        let Listed { query, mut found, below, total, .. } = self;
        let order = |a: &Arc<Task>, b: &Arc<Task>| compare(query.sort, a, b);
        let limit = query.limit.unwrap_or(usize::MAX);
        let more = found.len().saturating_add(below.len()) > limit;
        if found.len() > limit && limit > 0 {
            // Only what is wanted is put in order.
            found.select_nth_unstable_by(limit - 1, order);
        }
        found.truncate(limit);
        found.sort_unstable_by(order);
        let mut tasks = Vec::with_capacity(found.len().saturating_add(below.len()).min(limit));
        let (mut found, mut below) = (found.into_iter().peekable(), below.into_iter().peekable());
        while tasks.len() < limit {
            let is_first = |(key, low): &Keyed, task: &Arc<Task>| {
                let title = task.text(&Field::Task);
                let (low_key, key) = ((&key.keys, key.title.as_deref()), SortKeys::of(task));
                let order = compare_keys(query.sort, low_key, (&key, title.as_deref()));
                order.then_with(|| low.id.cmp(&task.id)) == Ordering::Less
            };
            let next = match (below.peek(), found.peek()) {
                (Some(low), Some(task)) if is_first(low, task) => below.next().map(|(_, task)| task),
                (Some(_), None) => below.next().map(|(_, task)| task),
                _ => found.next(),
            };
            let Some(next) = next else { break };
            tasks.push(next);
        }
        let next = tasks.last().filter(|_| more).map(|task| task.id.clone());
        Page { tasks, total, next }
    }

    /// Those of a snapshot that the page may have, in order, one more than it can, and how many match.
    fn below(&self, below: &Arc<Below>, since: &Since, lifted: u32) -> Result<(Vec<Keyed>, usize), Spoiled> {
        let Query { status, workspace, sort, limit, parent, background, .. } = self.query;
        let rows = match (parent, workspace, status) {
            (Some(parent), ..) => below.children(parent)?,
            (None, Some(path), _) => below.of_workspace(path)?,
            (None, None, Some(status)) => below.of_status(*status),
            (None, None, None) => below.by_time(),
        };
        // Whether the list is all there is to be asked.
        let is_all = background.is_none() && parent.is_none() && (workspace.is_none() || status.is_none());
        let wanted = limit.unwrap_or(usize::MAX).saturating_add(1);
        let (mut all, mut count) = (Vec::new(), 0);
        if *sort == Sort::Time && is_all {
            let disagree = || spoiled("its lists and rows disagree");
            let known = if workspace.is_none() { lifted } else { 0 };
            count = rows.len().checked_sub(known).ok_or_else(disagree)? as usize;
            for id in since.keys().filter(|_| workspace.is_some()) {
                if let Some((_, row)) = below.find(id.as_str())?
                    && self.matches_row(below, &row)?
                {
                    count = count.checked_sub(1).ok_or_else(disagree)?;
                }
            }
            let mut found = Vec::with_capacity((rows.len() as usize).min(wanted));
            for place in self.first_behind(below, rows)?..rows.len() {
                if found.len() == wanted {
                    break;
                }
                let n = below.place(rows, place)?;
                let row = below.row(n)?;
                let id = below.id(n, &row)?;
                if !since.contains_key(&*id) && row.is_live() {
                    let key = RowKey { keys: row.sort_keys(), title: None, n };
                    found.push((key, Arc::new(below.task(n, &id, &row)?)));
                }
            }
            return Ok((found, count));
        }
        for place in 0..rows.len() {
            let n = below.place(rows, place)?;
            let row = below.row(n)?;
            if self.matches_row(below, &row)? && !since.contains_key(&*below.id(n, &row)?) {
                count += 1;
                let key = RowKey { keys: row.sort_keys(), title: self.title(below, &row)?, n };
                if self.is_behind(below, &key)? {
                    all.push(key);
                }
            }
        }
        let order = |a: &RowKey, b: &RowKey| {
            compare_keys(*sort, (&a.keys, a.title.as_deref()), (&b.keys, b.title.as_deref()))
                .then(a.n.cmp(&b.n))
        };
        if all.len() > wanted {
            all.select_nth_unstable_by(wanted - 1, order);
            all.truncate(wanted);
        }
        all.sort_unstable_by(order);
        let mut found = Vec::with_capacity(all.len());
        for key in all {
            let row = below.row(key.n)?;
            let task = below.task(key.n, &below.id(key.n, &row)?, &row)?;
            found.push((key, Arc::new(task)));
        }
        Ok((found, count))
    }

    /// The place in a list by time where the page begins.
    fn first_behind(&self, below: &Below, rows: Rows) -> Result<u32, Spoiled> {
        if self.last.is_none() {
            return Ok(0);
        }
        partition(rows.len(), |place| {
            let n = below.place(rows, place)?;
            let key = RowKey { keys: below.row(n)?.sort_keys(), title: None, n };
            Ok(!self.is_behind(below, &key)?)
        })
    }

    fn is_behind(&self, below: &Below, key: &RowKey) -> Result<bool, Spoiled> {
        let Some(last) = &self.last else { return Ok(true) };
        let title = last.text(&Field::Task);
        let order = compare_keys(
            self.query.sort,
            (&SortKeys::of(last), title.as_deref()),
            (&key.keys, key.title.as_deref()),
        );
        Ok(match order {
            Ordering::Equal => last.id.as_str() < &*below.id(key.n, &below.row(key.n)?)?,
            order => order == Ordering::Less,
        })
    }

    /// A row's title, where the order goes by it.
    fn title(&self, below: &Below, row: &Row) -> Result<Option<String>, Spoiled> {
        if self.query.sort != Sort::Title {
            return Ok(None);
        }
        Ok(below.title(row)?.map(|title| title.into_owned()))
    }

    fn matches_row(&self, below: &Below, row: &Row) -> Result<bool, Spoiled> {
        let Query { status, parent, workspace, background, .. } = self.query;
        if !row.is_live()
            || status.is_some_and(|status| row.status() != status)
            || background.is_some_and(|background| row.background() != background)
        {
            return Ok(false);
        }
        let is = |wanted: &Option<String>, text: Result<Option<Cow<'_, str>>, Spoiled>| match wanted {
            None => Ok(true),
            Some(wanted) => Ok(text?.as_deref() == Some(wanted)),
        };
        Ok(is(parent, below.parent(row))? && is(workspace, below.workspace(row))?)
    }
}

/// What was folded since the snapshot.
type Since = HashMap<TaskId, Entry, RandomState>;

/// A task of a snapshot, and by what it is ordered.
type Keyed = (RowKey, Arc<Task>);

/// A row, and by what it is ordered.
struct RowKey {
    keys: SortKeys,
    title: Option<String>,
    n: u32,
}

fn matches(query: &Query, task: &Task) -> bool {
    query.status.is_none_or(|status| task.status() == status)
        && query.parent.as_deref().is_none_or(|parent| task.parent().as_deref() == Some(parent))
        && query.workspace.as_deref().is_none_or(|path| task.text(&Field::Workspace).as_deref() == Some(path))
        && query.background.is_none_or(|background| task.background() == background)
}

/// By what tasks are ordered, but for their titles and ids.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct SortKeys {
    pub(super) ts: f64,
    pub(super) cost: f64,
    /// Sent and received.
    pub(super) tokens: f64,
    pub(super) size: f64,
    pub(super) created: Seq,
    pub(super) changed: Seq,
}

impl SortKeys {
    pub(super) fn of(task: &Task) -> Self {
        // `-0` is 0 here: a sum of two that are equal.
        let number = |field: &Field| task.item.get(field).and_then(Value::as_f64).unwrap_or(0.0) + 0.0;
        SortKeys {
            ts: number(&Field::Ts),
            cost: number(&Field::TotalCost),
            tokens: number(&Field::TokensIn) + number(&Field::TokensOut),
            size: number(&Field::Size),
            created: task.created,
            changed: task.seq,
        }
    }
}

fn compare(sort: Sort, a: &Task, b: &Task) -> Ordering {
    let number =
        |task: &Task, field: &Field| task.item.get(field).and_then(Value::as_f64).unwrap_or(0.0) + 0.0;
    let by_number = |field: &Field| number(b, field).total_cmp(&number(a, field));
    let order = match sort {
        // The commonest, without a look at all the others.
        Sort::Time => by_number(&Field::Ts),
        Sort::Cost => by_number(&Field::TotalCost),
        Sort::Size => by_number(&Field::Size),
        Sort::Title => a.text(&Field::Task).cmp(&b.text(&Field::Task)),
        Sort::Created | Sort::Changed | Sort::Tokens => {
            compare_keys(sort, (&SortKeys::of(a), None), (&SortKeys::of(b), None))
        }
    };
    order.then_with(|| a.id.cmp(&b.id))
}

fn compare_keys(sort: Sort, a: (&SortKeys, Option<&str>), b: (&SortKeys, Option<&str>)) -> Ordering {
    let ((a, a_title), (b, b_title)) = (a, b);
    match sort {
        Sort::Time => b.ts.total_cmp(&a.ts),
        Sort::Created => b.created.cmp(&a.created),
        Sort::Changed => b.changed.cmp(&a.changed),
        Sort::Cost => b.cost.total_cmp(&a.cost),
        Sort::Tokens => b.tokens.total_cmp(&a.tokens),
        Sort::Size => b.size.total_cmp(&a.size),
        Sort::Title => a_title.cmp(&b_title),
    }
}
