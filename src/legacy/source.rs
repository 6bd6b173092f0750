//! Reading a folder of an older layout, which may be written meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::look::{Folder, Look, Seen, peek};
use super::messages::Messages;
use super::quality::{Decision, Whence, Why, decide};
use super::report::{
    Confidence, Debris, FieldReport, SetAside, SourceFinding, SourceReport, TaskReport, Totals, What,
};
use super::text;
use crate::error::{Context as _, Error, ErrorKind, Result};
use crate::event::{Field, Item, TaskId, Value};
use crate::vfs::{FileKind, Vfs};

/// How often a source is looked at before it counts as unstable.
const LOOKS_MAX: u32 = 5;
/// How often what is doubtful is read again after two looks agreed about it, where it is not much.
const ROUNDS: usize = 20;
/// About how many files, and how many bytes, these rounds read at most.
const ROUND_FILES: usize = 4000;
const ROUND_BYTES: u64 = 256 << 20;
/// Between two of them; between two looks a multiple of it.
const PAUSE: Duration = Duration::from_millis(10);

const ACT: &str = "read the legacy folder";

/// A folder of an older layout.
#[derive(Clone, Debug)]
pub struct Source {
    tasks: PathBuf,
    states: Vec<PathBuf>,
}

/// How far reading has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// At what it is.
    pub phase: Phase,
    /// How many task folders, or tasks, are done.
    pub done: u64,
    /// Of how many.
    pub total: u64,
}

/// See [`Progress`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Reading records; begins anew with each look.
    Reading,
    /// Deciding which record is right.
    Deciding,
}

/// What a legacy folder holds.
#[derive(Clone, Debug)]
pub struct Found {
    /// The tasks folder.
    pub folder: PathBuf,
    /// The tasks, by id.
    pub tasks: Vec<FoundTask>,
    /// Tasks that were not taken because of their names.
    pub set_aside: Vec<SetAside>,
    /// What is the matter with which file, by file.
    pub findings: Vec<SourceFinding>,
    /// What belongs to no task.
    pub debris: Vec<Debris>,
    /// Whether everything could be read. If not, what is missing here is not known to be missing there.
    pub complete: bool,
    /// How often it was looked at until it held still.
    pub looks: u32,
}

/// One task of it.
#[derive(Clone, Debug)]
pub struct FoundTask {
    /// Its id.
    pub id: TaskId,
    /// Its folder; none for a record that stands in a list only.
    pub folder: Option<PathBuf>,
    /// The files in that folder, by name.
    pub files: Vec<String>,
    /// The record, with where each field is from.
    pub decision: Decision,
    /// What of its sources says something else and is kept as evidence.
    pub kept: Vec<Kept>,
    /// How sure the record is.
    pub confidence: Confidence,
    /// A file of it could not be read, so that this may not be all there is.
    pub incomplete: bool,
}

/// A text kept as evidence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Where it stands, as seen from the tasks folder.
    pub source: String,
    /// The record; the string of a text that is no JSON.
    pub record: Value,
}

impl FoundTask {
    /// The record as it is to be.
    pub fn item(&self) -> &Item {
        &self.decision.item
    }

    /// Where the record is from, for people.
    pub fn source(&self) -> &str {
        self.decision.records.first().map_or("messages", |record| record.source())
    }

    /// BLAKE3 of the record's text: the same as long as the source says the same.
    pub fn hash(&self) -> [u8; 32] {
        *blake3::hash(self.item().to_json().as_bytes()).as_bytes()
    }
}

impl Source {
    /// Finds the tasks folder: `dir/tasks`, or `dir` itself.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if neither is there; what the system says if one cannot be looked at.
    pub fn find(vfs: &dyn Vfs, dir: &Path) -> Result<Self> {
        let dir = vfs.canonicalize(dir).context(ACT, dir)?;
        let inner = dir.join("tasks");
        let tasks = match vfs.canonicalize(&inner) {
            Ok(tasks) => {
                let kind = vfs.stat(&tasks).context(ACT, &tasks)?.kind;
                (kind == FileKind::Dir).then_some(tasks)
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => None,
            Err(e) => return Err(Error::io(e, ACT, &inner)),
        };
        let tasks = match tasks {
            Some(tasks) => tasks,
            None if super::look::is_tasks_folder(vfs, &dir)? => dir,
            None => {
                let what = format!("a folder tasks/, or a folder of tasks, in {}", dir.display());
                return Err(Error::new(ErrorKind::NotFound { what }, ACT, &dir));
            }
        };
        Ok(Source { tasks, states: Vec::new() })
    }

    /// Reads a saved global state too: a JSON file that is an array of records or has one under `taskHistory`.
    ///
    /// `global-state.json`, `taskHistory.json` and `state/taskHistory.json` beside the tasks folder are read anyway.
    #[must_use]
    pub fn global_state(mut self, path: impl Into<PathBuf>) -> Self {
        self.states.push(path.into());
        self
    }

    /// The tasks folder.
    pub fn folder(&self) -> &Path {
        &self.tasks
    }

    /// Reads it and decides. `on` hears how far that is and may stop it.
    ///
    /// A host may be writing at the same time, also by emptying a file and filling it again. Therefore a file that is
    /// empty, cannot be parsed or is gone makes all of it be looked at again, until two looks agree about every such
    /// file and it held still for some time after. Such files are findings; the rest is not touched by them.
    ///
    /// # Errors
    /// [`ErrorKind::Unstable`] if it did not hold still, or if nothing is left but files that cannot be parsed;
    /// [`ErrorKind::Refused`] if `on` stopped it; what the system says if the tasks folder cannot be listed.
    pub fn read(&self, vfs: &dyn Vfs, on: &mut dyn FnMut(Progress) -> ControlFlow<()>) -> Result<Found> {
        let mut seen = BTreeSet::new();
        let mut before: Option<BTreeMap<PathBuf, Seen>> = None;
        for n in 1..=LOOKS_MAX {
            let mut look = Look::take(vfs, &self.tasks, &self.states, &seen, &mut |done, total| {
                go_on(on, Phase::Reading, done, total)
            })?;
            let agreed = before.as_ref() == Some(&look.doubtful);
            if look.doubtful.is_empty() || (agreed && self.holds_still(vfs, &look, on)?) {
                return self.conclude(vfs, look, n, on);
            }
            seen.append(&mut look.seen);
            before = Some(look.doubtful);
            vfs.sleep(PAUSE * n);
        }
        let changing = before.and_then(|all| all.into_keys().next()).unwrap_or_default();
        let what = format!("{} changes from look to look", changing.display());
        Err(Error::new(ErrorKind::Unstable { what }, ACT, &self.tasks))
    }

    /// Whether what is doubtful stays what it is for some time. Two looks alone may both fall into the moment between
    /// a host's emptying a file and its filling it.
    fn holds_still(
        &self,
        vfs: &dyn Vfs,
        look: &Look,
        on: &mut dyn FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<bool> {
        let by_bytes = usize::try_from(ROUND_BYTES / look.doubtful_bytes.max(1)).unwrap_or(ROUNDS);
        let rounds = (ROUND_FILES / look.doubtful.len().max(1)).min(by_bytes).clamp(2, ROUNDS);
        let total = look.folders_total;
        for _ in 0..rounds {
            vfs.sleep(PAUSE);
            go_on(on, Phase::Reading, total, total)?;
            if look.doubtful.iter().any(|(path, seen)| peek(vfs, path) != *seen) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn conclude(
        &self,
        vfs: &dyn Vfs,
        mut look: Look,
        looks: u32,
        on: &mut dyn FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<Found> {
        let (mut records, mut folders) =
            (std::mem::take(&mut look.records), std::mem::take(&mut look.folders));
        let ids: BTreeSet<String> = records.keys().chain(folders.keys()).cloned().collect();
        let mut found = Found {
            folder: self.tasks.clone(),
            tasks: Vec::new(),
            set_aside: look.set_aside,
            findings: look.findings,
            debris: look.debris,
            complete: look.complete,
            looks,
        };
        let total = ids.len() as u64;
        for (done, name) in ids.into_iter().enumerate() {
            go_on(on, Phase::Deciding, done as u64, total)?;
            let (records, folder) = (records.remove(&name).unwrap_or_default(), folders.remove(&name));
            let id = match TaskId::new(&name) {
                Ok(id) => id,
                Err(e) => {
                    let source = records.first().map_or("", |record| record.source()).to_owned();
                    let why = e.kind().to_string();
                    found.set_aside.push(SetAside { id: name, source, why });
                    continue;
                }
            };
            found.take(vfs, id, records, folder);
        }
        go_on(on, Phase::Deciding, total, total)?;
        if found.tasks.is_empty()
            && let Some(path) = look.doubtful.into_keys().next()
        {
            let what = format!("no task was found, and {} cannot be read as what it is", path.display());
            return Err(Error::new(ErrorKind::Unstable { what }, ACT, &self.tasks));
        }
        found.findings.sort_unstable();
        found.findings.dedup();
        found.set_aside.sort_unstable();
        found.set_aside.dedup();
        found.debris.sort_unstable();
        Ok(found)
    }
}

impl Found {
    fn take(&mut self, vfs: &dyn Vfs, id: TaskId, records: Vec<super::Record>, folder: Option<Folder>) {
        let Folder { path, files, unread, damaged } = folder.unwrap_or_default();
        // What is there and could not be read is not replaced by a guess.
        if records.is_empty() && unread {
            return;
        }
        let (alone, mut told) = (records.is_empty(), Messages::default());
        let mut ask = || {
            told = path.as_deref().map(|path| Messages::read(vfs, path, &files)).unwrap_or_default();
            told.clone()
        };
        let decision = decide(&id, records, &mut ask);
        let name = id.as_str();
        let unread = unread || told.unread.is_some();
        if let Some((file, why)) = told.unread {
            let (source, task) = (format!("{name}/{file}"), Some(name.to_owned()));
            self.findings.push(SourceFinding { source, task, what: What::Unreadable, detail: why });
            self.complete = false;
            if alone {
                return;
            }
        }
        let Some(decision) = decision else {
            if let Some(kind) = super::look::debris(&files, !damaged.is_empty()) {
                self.debris.push(Debris { name: name.into(), kind });
            }
            return;
        };
        let source = decision.records.first().map_or_else(|| format!("{name}/"), |r| r.source().to_owned());
        for what in &decision.faults {
            let task = Some(name.to_owned());
            self.findings.push(SourceFinding {
                source: source.clone(),
                task,
                what: *what,
                detail: String::new(),
            });
        }
        let mut kept: Vec<Kept> = decision
            .kept
            .iter()
            .filter_map(|n| decision.records.get(*n))
            .map(|record| Kept { source: record.source().into(), record: text::kept(&record.raw) })
            .collect();
        let lossy = self
            .findings
            .iter()
            .any(|f| f.task.as_deref() == Some(name) && matches!(f.what, What::FieldLeftOut | What::NotUtf8));
        let confidence = if lossy || unread { Confidence::Low } else { decision.confidence };
        kept.extend(damaged.into_iter().map(|(source, text)| Kept { source, record: text::kept(&text) }));
        self.tasks.push(FoundTask {
            id,
            folder: path,
            files,
            decision,
            kept,
            confidence,
            incomplete: unread,
        });
    }

    /// The same for people and programs.
    pub fn report(&self) -> SourceReport<'_> {
        let known: BTreeSet<&str> = self.tasks.iter().map(|task| task.id.as_str()).collect();
        let mut totals = Totals { tasks: self.tasks.len() as u64, ..Totals::default() };
        let mut dangling: BTreeSet<Arc<str>> = BTreeSet::new();
        for task in &self.tasks {
            totals.decided += u64::from(task.decision.records.len() > 1);
            totals.made_of_messages += u64::from(task.decision.records.is_empty());
            totals.kept += task.kept.len() as u64;
            let children = task.item().get(&Field::ChildIds).map(Value::as_strings).unwrap_or_default();
            dangling.extend(children.into_iter().filter(|id| !known.contains(&**id)));
        }
        totals.dangling_children = dangling.len() as u64;
        SourceReport {
            tasks_folder: self.folder.display().to_string(),
            complete: self.complete,
            looks: self.looks,
            totals,
            tasks: self.tasks.iter().map(FoundTask::report).collect(),
            set_aside: &self.set_aside,
            findings: &self.findings,
            debris: &self.debris,
        }
    }
}

impl FoundTask {
    fn report(&self) -> TaskReport<'_> {
        let records = &self.decision.records;
        let fields = self.decision.fields.iter().map(|(field, from, why)| {
            let from = match from {
                Whence::Record(n) => records.get(*n).map(|record| record.source()),
                Whence::Elsewhere => Some(if *why == Why::Folder { "folder" } else { "all" }),
                Whence::Nowhere => None,
            };
            FieldReport { field: field.name(), from, why: *why }
        });
        TaskReport {
            id: self.id.as_str(),
            confidence: self.confidence,
            base: self.source().into(),
            sources: records.iter().flat_map(|r| &r.origins).map(|origin| &*origin.name).collect(),
            incomplete: self.incomplete,
            why: self.decision.why,
            fields: fields.collect(),
            kept: self.kept.iter().map(|kept| &*kept.source).collect(),
        }
    }
}

fn go_on(on: &mut dyn FnMut(Progress) -> ControlFlow<()>, phase: Phase, done: u64, total: u64) -> Result<()> {
    match on(Progress { phase, done, total }) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(Error::new(ErrorKind::Refused("cancelled".into()), ACT, Path::new(""))),
    }
}
