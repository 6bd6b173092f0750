//! From parents to children and back. Links are data and may be wrong: every walk stops where it has been before.

use std::collections::HashSet;
use std::sync::Arc;

use super::index::Index;
use super::task::Task;
use crate::event::{Field, Value};

/// Sums over a task and all below it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Totals {
    /// How many tasks.
    pub tasks: u64,
    /// Tokens sent.
    pub tokens_in: u64,
    /// Tokens received.
    pub tokens_out: u64,
    /// Tokens written to a cache.
    pub cache_writes: u64,
    /// Tokens read from a cache.
    pub cache_reads: u64,
    /// Cost, in the hosts' currency.
    pub cost: f64,
    /// Bytes of their folders.
    pub size: u64,
}

impl Totals {
    fn add(&mut self, task: &Task) {
        let number = |field: &Field| task.item.get(field);
        let whole = |field: &Field| {
            let value = number(field);
            // A fraction of a token is nobody's meaning; a negative one is no sum.
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "saturates, as wanted"
            )]
            let rounded = value.and_then(Value::as_f64).map(|n| n as u64);
            value.and_then(Value::as_u64).or(rounded).unwrap_or(0)
        };
        let plus = |sum: &mut u64, field| *sum = sum.saturating_add(whole(&field));
        self.tasks += 1;
        plus(&mut self.tokens_in, Field::TokensIn);
        plus(&mut self.tokens_out, Field::TokensOut);
        plus(&mut self.cache_writes, Field::CacheWrites);
        plus(&mut self.cache_reads, Field::CacheReads);
        plus(&mut self.size, Field::Size);
        self.cost += number(&Field::TotalCost).and_then(Value::as_f64).unwrap_or(0.0);
    }
}

impl Index {
    /// A task and all below it, each with its depth, parents before children, siblings by creation; empty if it is not
    /// there.
    pub fn tree(&self, id: &str) -> Vec<(usize, Arc<Task>)> {
        let mut tree = Vec::new();
        let mut seen = HashSet::new();
        let mut open: Vec<(usize, Arc<Task>)> = self.get(id).map(|task| (0, task)).into_iter().collect();
        while let Some((depth, task)) = open.pop() {
            if !seen.insert(task.id.clone()) {
                continue;
            }
            let mut children: Vec<_> =
                self.children(task.id.as_str()).map(|child| (depth + 1, child)).collect();
            children.sort_unstable_by_key(|(_, child)| std::cmp::Reverse((child.created, child.id.clone())));
            open.extend(children);
            tree.push((depth, task));
        }
        tree
    }

    /// Sums over a task and all below it.
    pub fn totals(&self, id: &str) -> Totals {
        let mut totals = Totals::default();
        self.tree(id).iter().for_each(|(_, task)| totals.add(task));
        totals
    }

    /// The live tasks above a task, its parent first. Ends where a parent is missing, or comes again.
    pub fn ancestors(&self, id: &str) -> Vec<Arc<Task>> {
        let mut above: Vec<Arc<Task>> = Vec::new();
        let mut seen = HashSet::from([id.to_owned()]);
        let mut at = self.get(id).and_then(|task| task.parent().map(|parent| parent.into_owned()));
        while let Some(id) = at {
            if !seen.insert(id.clone()) {
                break;
            }
            let Some(task) = self.get(&id) else { break };
            at = task.parent().map(|parent| parent.into_owned());
            above.push(task);
        }
        above
    }

    /// The top of a task's chain of live parents; itself if it has none.
    pub fn root(&self, id: &str) -> Option<Arc<Task>> {
        let task = self.get(id)?;
        Some(self.ancestors(id).pop().unwrap_or(task))
    }

    /// Tasks that wait for this one.
    pub fn waiting_for(&self, id: &str) -> Vec<Arc<Task>> {
        self.that_await(id).collect()
    }
}
