//! What a workspace's tasks should be and are not: the invariants of the delegation graph.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

use super::index::Index;
use super::task::Task;
use crate::event::{Field, Status, TaskId, Value};
use crate::log::finding::{Finding, Severity};

impl Index {
    /// Looks at every task; what is dangling is normal and not told, what is wrong is, by id.
    pub fn check(&self) -> Vec<Finding> {
        let tasks: Vec<_> = self.tasks().collect();
        let above_itself = above_themselves(&tasks);
        tasks.iter().flat_map(|task| self.check_task(task, above_itself.contains(&task.id))).collect()
    }

    fn check_task(&self, task: &Task, above_itself: bool) -> Vec<Finding> {
        let mut findings = Vec::new();
        let mut say = |severity, code, message: String, remedy| {
            let (file, offset, seq) = (PathBuf::new(), None, Some(task.seq.0));
            findings.push(Finding { severity, code, file, offset, seq, message, remedy });
        };
        let id = &task.id;
        if let Some(value) = task.item.get(&Field::Status)
            && value.as_str().and_then(|name| Status::of(&name)).is_none()
        {
            let what = format!("{id} has the status {value}, which no table knows; it counts as active");
            say(Severity::Warning, "unknown-status", what, "give it a status with `foldlog status`");
        }
        if let Some(value) = task.item.get(&Field::Id)
            && value.as_str().as_deref() != Some(id.as_str())
        {
            let what = format!("{id} calls itself {value}");
            say(Severity::Warning, "id-differs", what, "its key in the log is what counts");
        }
        let waits = task.awaiting();
        match (task.status(), &waits) {
            (Status::Delegated, None) => {
                let what = format!("{id} is delegated but waits for nobody");
                say(Severity::Warning, "delegated-to-nobody", what, TAKE_BACK);
            }
            (Status::Delegated, Some(child)) => match self.get(child) {
                None => {
                    let what = format!("{id} waits for {child}, which is not there");
                    say(Severity::Warning, "child-missing", what, TAKE_BACK);
                }
                Some(child) if child.status() == Status::Completed => {
                    let what = format!("{id} waits for {}, which is completed", child.id);
                    say(Severity::Warning, "child-done", what, TAKE_BACK);
                }
                Some(child) if child.parent().as_deref() != Some(id.as_str()) => {
                    let what = format!("{id} waits for {}, whose parent it is not", child.id);
                    say(Severity::Warning, "child-of-another", what, TAKE_BACK);
                }
                Some(_) => {}
            },
            (status, Some(child)) => {
                let what = format!("{id} waits for {child}, but is {status}");
                say(Severity::Notice, "waits-undelegated", what, "it counts as not waiting");
            }
            (_, None) => {}
        }
        if above_itself {
            let what = format!("{id} is above itself");
            say(Severity::Warning, "cycle", what, "sums and trees stop where they have been before");
        }
        let number =
            |field: &Field| task.item.get(field).is_some_and(|v| v.as_f64().is_none() && *v != Value::Null);
        for field in [Field::Ts, Field::TokensIn, Field::TokensOut, Field::TotalCost, Field::Size] {
            if number(&field) {
                let what = format!("{field} of {id} is no number");
                say(Severity::Notice, "no-number", what, "it counts as 0 in sums and orders");
            }
        }
        findings
    }
}

/// The tasks that come above themselves. Every task is walked over once, however long the chains are.
fn above_themselves(tasks: &[Arc<Task>]) -> HashSet<&TaskId> {
    let by_id: HashMap<&str, &Arc<Task>> = tasks.iter().map(|task| (task.id.as_str(), task)).collect();
    let mut found = HashSet::new();
    // On which walk each was met first.
    let mut met: HashMap<&TaskId, usize> = HashMap::new();
    for (walk, task) in tasks.iter().enumerate() {
        let mut way: Vec<&TaskId> = Vec::new();
        let mut at = Some(task);
        while let Some(task) = at {
            match met.get(&task.id) {
                None => {
                    met.insert(&task.id, walk);
                    way.push(&task.id);
                    at = task.parent().and_then(|parent| by_id.get(&*parent).copied());
                }
                Some(earlier) => {
                    if *earlier == walk {
                        found.extend(way.iter().rev().copied().take_while(|id| **id != task.id));
                        found.insert(&task.id);
                    }
                    break;
                }
            }
        }
    }
    found
}

const TAKE_BACK: &str = "take it back with `foldlog status ID active`";
