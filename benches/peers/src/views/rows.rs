//! The tasks of these rows, and what they are after so many changes: a model that every answer is compared with.

use crate::data;

pub use crate::data::{ID_LEN, TS};

/// Children of a parent: of six tasks the first is the parent of the others.
const FAMILY: usize = 6;
/// Tasks of one transaction.
const BATCH: usize = 1000;

/// A task as it is.
pub struct Row {
    pub id: String,
    pub ts: i64,
    pub parent: Option<String>,
    pub json: String,
}

/// What is done to one.
pub struct Change {
    pub id: String,
    pub ts_before: i64,
    pub ts: i64,
    pub tokens_in: i64,
    pub tokens_out: i64,
    pub cost: String,
}

/// What every task's time and number of changes is.
pub struct Model {
    tasks: Vec<(i64, i64)>,
    changes: usize,
}

impl Model {
    pub fn new(tasks: usize) -> Self {
        Model { tasks: (0..tasks).map(|n| (TS + n as i64, 0)).collect(), changes: 0 }
    }

    /// The one of so many tasks that were changed so many times.
    pub fn after(tasks: usize, changes: usize) -> Self {
        let mut model = Model::new(tasks);
        for _ in 0..changes {
            model.step();
        }
        model
    }

    pub fn parent(task: usize) -> Option<usize> {
        let parent = task - task % FAMILY;
        (parent != task).then_some(parent)
    }

    fn row(&self, task: usize) -> Row {
        let (id, (ts, times)) = (data::id(task), self.tasks[task]);
        let parent = Model::parent(task).map(data::id);
        let named = parent.as_ref().map(|p| format!(",\"parentTaskId\":\"{p}\"")).unwrap_or_default();
        let json = format!(
            "{{\"id\":\"{id}\",\"number\":{}{named},\"ts\":{ts},\"task\":\"{:07} {}\",\"tokensIn\":{},\"tokensOut\":{times},\
             \"cacheWrites\":0,\"cacheReads\":0,\"totalCost\":{},\"size\":0,\"workspace\":\"/home/user/projects/generic\",\
             \"mode\":\"code\",\"apiConfigName\":\"default\",\"status\":\"active\"}}",
            task + 1,
            task,
            data::title(),
            times * 100,
            cost(times),
        );
        Row { id, ts, parent, json }
    }

    /// Which task the next change is of, and its time before.
    fn step(&mut self) -> (usize, i64) {
        let task = self.changes * 7919 % self.tasks.len();
        let ts = TS + (self.tasks.len() + self.changes) as i64;
        let before = self.tasks[task].0;
        self.tasks[task] = (ts, self.tasks[task].1 + 1);
        self.changes += 1;
        (task, before)
    }

    /// Makes so many changes, and gives the tasks as they are then. No task is among them twice.
    pub fn change(&mut self, count: usize) -> (Vec<Row>, Vec<Change>) {
        let steps = (0..count.min(self.tasks.len())).map(|_| self.step());
        let steps: Vec<_> = steps.collect();
        let changed = steps.into_iter().map(|(task, ts_before)| {
            let (row, times) = (self.row(task), self.tasks[task].1);
            let (id, ts) = (row.id.clone(), row.ts);
            let change =
                Change { id, ts_before, ts, tokens_in: times * 100, tokens_out: times, cost: cost(times) };
            (row, change)
        });
        changed.unzip()
    }

    /// The tasks as they are, so many at a time.
    pub fn batches(&self) -> impl Iterator<Item = Vec<Row>> {
        let starts = (0..self.tasks.len()).step_by(BATCH);
        starts.map(|from| (from..self.tasks.len().min(from + BATCH)).map(|task| self.row(task)).collect())
    }

    /// What a list of the newest has to be.
    pub fn newest(&self, count: usize) -> Vec<(String, i64)> {
        self.sorted(0..self.tasks.len()).take(count).collect()
    }

    pub fn children(&self, parent: usize) -> Vec<(String, i64)> {
        self.sorted(
            (parent..self.tasks.len().min(parent + FAMILY)).filter(|n| Model::parent(*n) == Some(parent)),
        )
        .collect()
    }

    pub fn task(&self, task: usize) -> (String, i64) {
        (data::id(task), self.tasks[task].0)
    }

    /// Bytes of all items, as JSON.
    pub fn live_bytes(&self) -> u64 {
        self.batches().flatten().map(|row| row.json.len() as u64).sum()
    }

    pub fn len(&self) -> usize {
        self.tasks.len()
    }

    fn sorted(&self, tasks: impl Iterator<Item = usize>) -> impl Iterator<Item = (String, i64)> {
        let mut all: Vec<_> = tasks.map(|task| (self.tasks[task].0, task)).collect();
        all.sort_unstable_by(|a, b| b.cmp(a));
        all.into_iter().map(|(ts, task)| (data::id(task), ts))
    }
}

fn cost(times: i64) -> String {
    format!("{times}.25")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_json_of_the_length_that_is_said() {
        let (rows, changes) = Model::new(20).change(5);
        for (row, change) in rows.iter().zip(changes) {
            assert!((1250..1500).contains(&row.json.len()), "{}", row.json.len());
            let item: serde_json::Value = serde_json::from_str(&row.json).expect("JSON");
            assert_eq!((item["ts"].as_i64(), item["tokensOut"].as_i64()), (Some(row.ts), Some(1)));
            assert!(change.ts_before < change.ts && change.ts == row.ts);
        }
    }

    #[test]
    fn newest_are_those_that_were_changed_last() {
        let mut model = Model::new(100);
        assert_eq!(model.newest(1), [("t-0000099".to_owned(), TS + 99)]);
        let _ = model.change(2);
        assert_eq!(
            model.newest(3),
            [
                ("t-0000019".to_owned(), TS + 101),
                ("t-0000000".to_owned(), TS + 100),
                ("t-0000099".to_owned(), TS + 99)
            ]
        );
        assert_eq!(model.children(96).len(), 3, "the last family is not whole");
    }
}
