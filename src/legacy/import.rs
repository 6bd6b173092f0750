//! Taking what a legacy folder holds over into a workspace. The rules for one record stand in [`crate::task`]; here is
//! the order of things.
//!
//! Killed anywhere, the next run goes on: each batch is one commit, and what was taken over already is not taken again.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

use serde::Serialize;

use super::messages::Sums;
use super::quality::title_of;
use super::report::What;
use super::source::{Found, FoundTask};
use crate::error::Result;
use crate::event::{Field, TaskId};
use crate::log::Durability;
use crate::task::{ImportOutcome, ImportRecord, Op, TaskStore, Tasks, Token};

/// Tasks in one commit.
const BATCH: usize = 200;

/// What became of one task of the folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It is new here.
    Created,
    /// What changed in the folder since it was last imported was taken over.
    Updated,
    /// Nothing was to be done.
    Unchanged,
    /// A task of this id was created here and not imported; it was not touched.
    Own,
    /// It was deleted, here or in another workspace of the store, and stays so.
    Deleted,
    /// It is at home in another workspace of the store; nothing was done.
    Elsewhere,
    /// It would have been updated, but something that may hold a better record could not be read: the task stays as it is.
    Unread,
    /// It could not be taken over.
    Failed,
}

/// One task's line of the answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Taken {
    /// Its id.
    pub id: String,
    /// What became of it.
    pub outcome: Outcome,
    /// Fields that both sides have changed since the last import; what stands here was kept.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<String>,
    /// Where else it is at home or was deleted, or why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// What an import came to.
#[derive(Clone, Debug, Serialize)]
pub struct ImportReport {
    /// Whether it was a rehearsal, which writes nothing.
    pub dry_run: bool,
    /// The workspace.
    pub workspace: String,
    /// How many tasks the folder has.
    pub tasks: u64,
    /// How many tasks came to what.
    pub created: u64,
    /// See there.
    pub updated: u64,
    /// See there.
    pub unchanged: u64,
    /// See there.
    pub own: u64,
    /// See there.
    pub deleted: u64,
    /// See there.
    pub elsewhere: u64,
    /// See there.
    pub unread: u64,
    /// See there.
    pub failed: u64,
    /// Tasks that were read back and are what was taken over.
    pub verified: u64,
    /// Events that were appended.
    pub events: u64,
    /// Whether it was stopped before its end.
    pub cancelled: bool,
    /// Every task, by id.
    pub outcomes: Vec<Taken>,
}

/// Takes over what a folder holds. With `dry_run` says what would be done, and writes nothing.
///
/// `progress` is told how many tasks are done, of how many, and may break off between two batches.
///
/// # Errors
/// What keeps the workspace from being written or read. What is the matter with a single task stands in the report.
///
/// # Durability
/// All of it is durable when this returns, broken off or not.
pub fn import(
    store: &TaskStore,
    home: &Tasks,
    found: &Found,
    dry_run: bool,
    progress: &mut dyn FnMut(u64, u64) -> ControlFlow<()>,
) -> Result<ImportReport> {
    let mut report = ImportReport {
        dry_run,
        workspace: home.workspace().name().into(),
        tasks: found.tasks.len() as u64,
        created: 0,
        updated: 0,
        unchanged: 0,
        own: 0,
        deleted: 0,
        elsewhere: 0,
        unread: 0,
        failed: 0,
        verified: 0,
        events: 0,
        cancelled: false,
        outcomes: Vec::with_capacity(found.tasks.len()),
    };
    let others = elsewhere(store, home, found)?;
    // A list that could not be read may have had the better record of any task.
    let list_unread =
        found.findings.iter().any(|finding| finding.what == What::Unreadable && finding.task.is_none());
    let mut done = 0;
    for batch in found.tasks.chunks(BATCH) {
        if progress(done, report.tasks).is_break() {
            report.cancelled = true;
            break;
        }
        let mut here = Vec::with_capacity(batch.len());
        for task in batch {
            match others.get(&task.id) {
                Some((outcome, other)) => report.note(&task.id, *outcome, Vec::new(), Some(other.clone())),
                None => here.push(task),
            }
        }
        take(home, &here, list_unread, &mut report)?;
        done += batch.len() as u64;
    }
    if report.events > 0 {
        home.workspace().flush()?;
    }
    if !report.cancelled {
        // The last word; there is nothing left to break off.
        let _ = progress(done, report.tasks);
    }
    report.outcomes.sort_by(|a, b| a.id.cmp(&b.id));
    Ok(report)
}

impl ImportReport {
    fn note(&mut self, id: &TaskId, outcome: Outcome, kept: Vec<String>, detail: Option<String>) {
        let count = match outcome {
            Outcome::Created => &mut self.created,
            Outcome::Updated => &mut self.updated,
            Outcome::Unchanged => &mut self.unchanged,
            Outcome::Own => &mut self.own,
            Outcome::Deleted => &mut self.deleted,
            Outcome::Elsewhere => &mut self.elsewhere,
            Outcome::Unread => &mut self.unread,
            Outcome::Failed => &mut self.failed,
        };
        *count += 1;
        self.outcomes.push(Taken { id: id.to_string(), outcome, kept, detail });
    }

    fn note_judged(&mut self, id: &TaskId, outcome: &ImportOutcome) {
        let (outcome, kept) = match outcome {
            ImportOutcome::Created => (Outcome::Created, Vec::new()),
            ImportOutcome::Updated { kept } => {
                (Outcome::Updated, kept.iter().map(|field| field.name().to_owned()).collect())
            }
            ImportOutcome::Unchanged => (Outcome::Unchanged, Vec::new()),
            ImportOutcome::Own => (Outcome::Own, Vec::new()),
            ImportOutcome::Deleted => (Outcome::Deleted, Vec::new()),
        };
        self.note(id, outcome, kept, None);
    }
}

/// Which tasks of the folder live in other workspaces of the store, or were deleted there, and in which.
fn elsewhere(store: &TaskStore, home: &Tasks, found: &Found) -> Result<HashMap<TaskId, (Outcome, String)>> {
    let mut all = HashMap::new();
    let here: HashSet<TaskId> = home.read(|_, index| {
        let known = found.tasks.iter().filter(|task| index.entry(task.id.as_str()).is_some());
        known.map(|task| task.id.clone()).collect()
    })?;
    for (name, other) in store.homes()? {
        if name == home.workspace().name() {
            continue;
        }
        // One that cannot be read now keeps nothing from being imported: it may be damaged for good.
        let Ok(other) = other else { continue };
        let there = other.read(|_, index| {
            let known = found.tasks.iter().filter_map(|task| Some((task, index.entry(task.id.as_str())?)));
            known.map(|(task, entry)| (task.id.clone(), entry.live().is_some())).collect::<Vec<_>>()
        });
        for (id, lives) in there.unwrap_or_default() {
            if lives {
                all.insert(id, (Outcome::Elsewhere, name.clone()));
            } else if !here.contains(&id) {
                // Deleted is deleted, wherever that was: an older record does not bring it back.
                all.entry(id).or_insert_with(|| (Outcome::Deleted, name.clone()));
            }
        }
    }
    Ok(all)
}

fn record(task: &FoundTask) -> Op {
    let item = task.item();
    let mut weak = Vec::new();
    if title_of(item).is_none() {
        weak.push(Field::Task);
    }
    if Sums::of(item).is_zero() {
        // Written together, and a time belongs to what was true then.
        weak.extend([
            Field::TokensIn,
            Field::TokensOut,
            Field::CacheWrites,
            Field::CacheReads,
            Field::TotalCost,
            Field::Ts,
        ]);
    }
    Op::Import(ImportRecord {
        weak,
        id: task.id.clone(),
        item: item.clone(),
        source: task.source().to_owned(),
        evidence: task.kept.iter().map(|kept| (kept.source.clone(), kept.record.clone())).collect(),
    })
}

/// Takes one batch over in one commit; where that is refused, task by task, so that one costs the others nothing.
fn take(home: &Tasks, tasks: &[&FoundTask], list_unread: bool, report: &mut ImportReport) -> Result<()> {
    // Judged without the lock first: a second import writes nothing, and waits for nobody.
    let mut changing = Vec::new();
    for task in tasks {
        match home.judge(&[record(task)]) {
            Ok(judged) => match judged.imports.first() {
                // What is new is better taken from what could be read than not at all; the next import updates it.
                Some((id, ImportOutcome::Updated { .. })) if list_unread || task.incomplete => {
                    report.note(id, Outcome::Unread, Vec::new(), None);
                }
                Some((_, ImportOutcome::Created | ImportOutcome::Updated { .. })) if !report.dry_run => {
                    changing.push(*task);
                }
                Some((id, outcome)) => report.note_judged(id, outcome),
                None => {}
            },
            Err(e) => report.note(&task.id, Outcome::Failed, Vec::new(), Some(e.to_string())),
        }
    }
    if changing.is_empty() {
        return Ok(());
    }
    match commit(home, &changing, report) {
        Ok(()) => Ok(()),
        Err(e) if !is_of_one_task(&e) => Err(e),
        Err(_) => {
            for task in changing {
                match commit(home, &[task], report) {
                    Err(e) if is_of_one_task(&e) => {
                        report.note(&task.id, Outcome::Failed, Vec::new(), Some(e.to_string()));
                    }
                    done => done?,
                }
            }
            Ok(())
        }
    }
}

/// Whether an error speaks of what was to be written, not of the store.
fn is_of_one_task(error: &crate::error::Error) -> bool {
    use crate::error::ErrorKind;
    matches!(error.kind(), ErrorKind::TooLarge { .. } | ErrorKind::Invalid { .. })
}

fn commit(home: &Tasks, tasks: &[&FoundTask], report: &mut ImportReport) -> Result<()> {
    let committed =
        home.commit(tasks.iter().map(|task| record(task)).collect::<Vec<_>>(), Durability::Buffered)?;
    report.events += u64::from(committed.count);
    for (id, outcome) in &committed.imports {
        report.note_judged(id, outcome);
    }
    let written: HashMap<&TaskId, Token> = committed.tasks.iter().map(|(id, token)| (id, *token)).collect();
    let mine: HashMap<&TaskId, &FoundTask> = tasks.iter().map(|task| (&task.id, *task)).collect();
    for (id, outcome) in &committed.imports {
        let (Some(token), Some(task)) = (written.get(id), mine.get(id)) else { continue };
        let kept: HashSet<_> = match outcome {
            ImportOutcome::Updated { kept } => kept.iter().collect(),
            _ => HashSet::new(),
        };
        // Only as this commit left it: others may have gone on with it since.
        let Some(read) = home.get(id.as_str())?.filter(|read| read.token == *token) else { continue };
        let stands =
            |(field, value): &(_, _)| kept.contains(field) || read.task.item.get(field) == Some(value);
        if task.item().fields().iter().all(stands) {
            report.verified += 1;
        } else {
            let why = "it was read back, and is not what was taken over".into();
            report.note(id, Outcome::Failed, Vec::new(), Some(why));
        }
    }
    Ok(())
}
