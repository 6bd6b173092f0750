//! What every id stands for: what a snapshot has, and above it what was folded since.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;

use super::saved::{Below, spoiled};
use super::task::Entry;
use crate::event::TaskId;
use crate::log::Spoiled;

/// See the module. Cloning copies what was folded since, sharing each entry.
#[derive(Clone, Debug, Default)]
pub(super) struct TaskTable {
    above: HashMap<TaskId, Entry, RandomState>,
    below: Option<Arc<Below>>,
}

impl TaskTable {
    /// Stands above a snapshot.
    pub(super) fn above(below: Below) -> Self {
        TaskTable { above: HashMap::default(), below: Some(Arc::new(below)) }
    }

    /// The snapshot's tasks, if there is one.
    pub(super) fn below(&self) -> Option<&Arc<Below>> {
        self.below.as_ref()
    }

    /// What an id stands for.
    pub(super) fn entry(&self, id: &str) -> Option<Entry> {
        self.above.get(id).cloned().or_else(|| self.entry_below(id))
    }

    /// The same as the snapshot has it, whatever came since.
    pub(super) fn entry_below(&self, id: &str) -> Option<Entry> {
        let here = |below: &Arc<Below>| match below.find(id)? {
            Some((n, row)) => below.entry(n, id, &row),
            None => Ok(None),
        };
        self.below.as_ref()?.look(here, |table| table.entry(id))
    }

    /// How many ids stand for something.
    pub(super) fn len(&self) -> usize {
        let Some(below) = &self.below else { return self.above.len() };
        let here = |below: &Arc<Below>| {
            let mut count = 0_usize;
            for n in 0..below.count() {
                count += usize::from(below.row(n)?.is_there());
            }
            for id in self.above.keys() {
                let too = usize::from(below.find(id.as_str())?.is_some());
                count = count.checked_sub(too).ok_or_else(|| spoiled("its keys and rows disagree"))?;
            }
            Ok(count)
        };
        let only_below = below.look(here, |table| {
            table.above.keys().filter(|id| !self.above.contains_key(id.as_str())).count()
        });
        self.above.len() + only_below
    }

    /// What was folded since the snapshot.
    pub(super) fn since(&self) -> &HashMap<TaskId, Entry, RandomState> {
        &self.above
    }

    /// The same, to be changed.
    pub(super) fn since_mut(&mut self) -> &mut HashMap<TaskId, Entry, RandomState> {
        &mut self.above
    }

    /// Takes what an id stands for out of the table, for [`TaskTable::insert`] to put back changed.
    pub(super) fn take(&mut self, id: &str) -> Option<Entry> {
        self.above.remove(id).or_else(|| self.entry_below(id))
    }

    pub(super) fn insert(&mut self, id: TaskId, entry: Entry) {
        self.above.insert(id, entry);
    }

    /// Every id, in order.
    pub(super) fn iter(&self) -> Entries<'_> {
        let mut above: Vec<_> = self.above.iter().collect();
        above.sort_unstable_by(|(a, _), (b, _)| b.cmp(a));
        Entries { table: self, above, next: 0, below: None, last: None, instead: None }
    }
}

/// Every id of a table and what it stands for, in order.
pub(super) struct Entries<'a> {
    table: &'a TaskTable,
    /// What is left of those folded since, last first.
    above: Vec<(&'a TaskId, &'a Entry)>,
    /// The next row.
    next: u32,
    /// What the snapshot has next.
    below: Option<(TaskId, Entry)>,
    /// What it had before.
    last: Option<TaskId>,
    /// What the log has in the snapshot's place, last first.
    instead: Option<Vec<(TaskId, Entry)>>,
}

impl Entries<'_> {
    fn next_below(&mut self) -> Option<(TaskId, Entry)> {
        let below = self.table.below.as_ref()?;
        if self.instead.is_none() {
            let next = self.next;
            let here = |below: &Arc<Below>| -> Result<_, Spoiled> {
                for n in next..below.count() {
                    let row = below.row(n)?;
                    let id = below.id(n, &row)?;
                    if let Some(entry) = below.entry(n, &id, &row)? {
                        return Ok(Ok((n + 1, Some((TaskId::of_log(&id), entry)))));
                    }
                }
                Ok(Ok((below.count(), None)))
            };
            match below.look(here, |table| Err(table.iter().collect::<Vec<_>>())) {
                Ok((next, found)) => {
                    self.next = next;
                    self.last = found.as_ref().map(|(id, _)| id.clone()).or(self.last.take());
                    return found;
                }
                Err(mut all) => {
                    all.retain(|(id, _)| self.last.as_ref().is_none_or(|last| id > last));
                    all.reverse();
                    self.instead = Some(all);
                }
            }
        }
        self.instead.as_mut()?.pop()
    }
}

impl Iterator for Entries<'_> {
    type Item = (TaskId, Entry);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if self.below.is_none() {
                self.below = self.next_below();
            }
            let Some((id, _)) = &self.below else {
                return self.above.pop().map(|(id, entry)| (id.clone(), entry.clone()));
            };
            match self.above.last() {
                Some((above, _)) if *above < id => {
                    return self.above.pop().map(|(id, entry)| (id.clone(), entry.clone()));
                }
                // What came since stands for it.
                Some((above, _)) if *above == id => self.below = None,
                _ => return self.below.take(),
            }
        }
    }
}
