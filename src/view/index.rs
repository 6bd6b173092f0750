//! The tasks and documents of one workspace, folded from its log.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

use foldhash::fast::RandomState;

use super::backups::{self, Backup};
use super::documents::{Documents, ReplacedDocument};
use super::fold::{Head, fold_event};
use super::retention::Retentions;
use super::saved::{Below, Rows, SaveTasks};
use super::table::TaskTable;
use super::task::{Entry, Imports, Task, Tombstone};
use crate::event::{Edit, Event, Fence, Field, Item, Status, StatusTable, TaskId, Value, kinds};
use crate::log::envelope::{Commit, Envelope, Preamble};
use crate::log::finding::{Finding, Severity};
use crate::log::fold::{Fold, FoldKind, Keeps, Meanings};
use crate::log::format::EVENT_NOTHING;
use crate::log::{Base, Binding, Key, KeyKind, Revision, SaveFold, Seq, Spoiled};

pub(super) const REMEDY: &str = "nothing is lost; `foldlog history` shows how the task came to be as it is";
/// Changes with whatever changes what the same events come to, or how snapshots have it.
const FOLD_VERSION: u32 = 3;
/// Most findings that are kept; how many there were is counted on.
const FINDINGS_MAX: usize = 1000;

/// What a process said of itself when it began to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Writer {
    /// What it calls itself.
    pub label: String,
    /// Its release.
    pub version: String,
    /// Its process id, for people.
    pub pid: u32,
}

/// The fold. See the module.
#[derive(Debug, Default)]
pub struct Index {
    tasks: TaskTable,
    pub(super) live: usize,
    /// How many live tasks of the snapshot have changed since, by the status they have there; in the order of [`Status::ALL`].
    lifted: [u32; 4],
    /// Live tasks of those folded since the snapshot by the parent they name, whether that is there or not.
    children: BTreeMap<Arc<str>, BTreeSet<TaskId>>,
    pub(super) documents: Documents,
    pub(super) rules: Arc<StatusTable>,
    pub(super) bindings: Vec<Binding>,
    pub(super) backups: Arc<Vec<Backup>>,
    pub(super) retention: Arc<Retentions>,
    /// How many `purged` events there were.
    pub(super) purges: u64,
    pub(super) writers: HashMap<u64, Arc<Writer>, RandomState>,
    pub(super) findings: Vec<Finding>,
    pub(super) findings_seen: u64,
    undo: UndoLog,
}

/// How to take commits back. One list for all that can be taken back, so that its memory is used again and again.
#[derive(Debug, Default)]
struct UndoLog {
    commits: Vec<Undo>,
    tasks: Vec<Replaced>,
    edits: Vec<Edit>,
    documents: Vec<ReplacedDocument>,
}

/// What one commit replaced: what stands in the lists from these places on, and the rest.
#[derive(Debug)]
struct Undo {
    tasks: usize,
    documents: usize,
    rules: Option<Arc<StatusTable>>,
    bindings: usize,
    backups: Option<Arc<Vec<Backup>>>,
    retention: Option<Arc<Retentions>>,
    purges: u64,
    writer: Option<(u64, Option<Arc<Writer>>)>,
    findings: usize,
    findings_seen: u64,
}

/// What one event replaced.
#[derive(Debug)]
enum Replaced {
    /// The whole entry of a task.
    Entry(TaskId, Option<Entry>),
    /// What its edits, from this place on, changed in a task that lived before and after.
    Edits {
        id: TaskId,
        revision: Revision,
        seq: Seq,
        named: bool,
        fence: Fence,
        bytes: u64,
        imports: Option<Arc<Imports>>,
        from: usize,
    },
}

impl Index {
    /// Which fold this is, for [`Options::fold`](crate::Options::fold).
    pub fn kind() -> FoldKind {
        FoldKind::saved::<Index>("tasks", FOLD_VERSION).compacted(super::effect::effect)
    }

    /// A task that lives.
    pub fn get(&self, id: &str) -> Option<Arc<Task>> {
        match self.tasks.entry(id)? {
            Entry::Live(task) => Some(task),
            Entry::Dead(_) => None,
        }
    }

    /// What an id stands for.
    pub fn entry(&self, id: &str) -> Option<Entry> {
        self.tasks.entry(id)
    }

    /// What is left of a deleted task.
    pub fn tombstone(&self, id: &str) -> Option<Tombstone> {
        match self.tasks.entry(id)? {
            Entry::Dead(tombstone) => Some(tombstone),
            Entry::Live(_) => None,
        }
    }

    /// How many live tasks that a status, or any, has in the snapshot have changed since.
    pub(super) fn lifted(&self, status: Option<Status>) -> u32 {
        let of = |at: Status| status.is_none_or(|status| status == at);
        Status::ALL.into_iter().zip(self.lifted).filter(|(at, _)| of(*at)).map(|(_, count)| count).sum()
    }

    pub(super) fn table(&self) -> &TaskTable {
        &self.tasks
    }

    /// How many tasks live.
    pub fn len(&self) -> usize {
        self.live
    }

    /// Whether none does.
    pub fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// All tasks that live, by id.
    pub fn tasks(&self) -> impl Iterator<Item = Arc<Task>> {
        self.tasks.iter().filter_map(|(_, entry)| entry.into_live())
    }

    /// Live tasks that name this one as their parent, by id.
    pub fn children(&self, id: &str) -> impl Iterator<Item = Arc<Task>> + use<> {
        let is_child = |task: &Arc<Task>| task.parent().as_deref() == Some(id);
        let mut all = self.below_of(|below| below.children(id), is_child);
        all.extend(self.children_since(id).cloned());
        all.sort_unstable_by(|a, b| a.id.cmp(&b.id));
        all.into_iter()
    }

    /// Those of them that were folded since the snapshot.
    pub(super) fn children_since(&self, id: &str) -> impl Iterator<Item = &Arc<Task>> {
        let all = self.children.get(id).into_iter().flatten();
        all.filter_map(|child| self.tasks.since().get(child.as_str())?.live())
    }

    /// Whether any live task names this one as its parent.
    pub fn has_children(&self, id: &str) -> bool {
        self.children.contains_key(id) || self.tasks.below().is_some() && self.children(id).next().is_some()
    }

    /// Live tasks that somebody owns, by id.
    pub fn owned(&self) -> impl Iterator<Item = Arc<Task>> + use<> {
        let is_owned = |task: &Arc<Task>| task.owner().is_some();
        self.since_and_below(|below| Ok(below.owned()), is_owned)
    }

    /// Live tasks of one status, by id.
    pub fn of_status(&self, status: Status) -> impl Iterator<Item = Arc<Task>> + use<> {
        self.since_and_below(|below| Ok(below.of_status(status)), |task| task.status() == status)
    }

    /// Live tasks that wait for this one, by id.
    pub(super) fn that_await(&self, id: &str) -> impl Iterator<Item = Arc<Task>> + use<> {
        self.since_and_below(|below| below.waiting_for(id), |task| task.awaiting().as_deref() == Some(id))
    }

    /// Live tasks that a list of the snapshot has, and those of the others that it would have, by id.
    fn since_and_below(
        &self,
        rows: impl Fn(&Below) -> Result<Rows, Spoiled>,
        is_one: impl Fn(&Arc<Task>) -> bool,
    ) -> std::vec::IntoIter<Arc<Task>> {
        let mut all = self.below_of(rows, &is_one);
        all.extend(self.tasks.since().values().filter_map(Entry::live).filter(|task| is_one(task)).cloned());
        all.sort_unstable_by(|a, b| a.id.cmp(&b.id));
        all.into_iter()
    }

    /// The tasks that a list of the snapshot has, as far as nothing has become of them since.
    fn below_of(
        &self,
        rows: impl Fn(&Below) -> Result<Rows, Spoiled>,
        is_one: impl Fn(&Arc<Task>) -> bool,
    ) -> Vec<Arc<Task>> {
        let Some(below) = self.tasks.below() else { return Vec::new() };
        let since = self.tasks.since();
        let here = |below: &Arc<Below>| {
            let rows = rows(below)?;
            let mut all = Vec::with_capacity(rows.len() as usize);
            for place in 0..rows.len() {
                let n = below.place(rows, place)?;
                let row = below.row(n)?;
                let id = below.id(n, &row)?;
                if !since.contains_key(&*id)
                    && let Some(Entry::Live(task)) = below.entry(n, &id, &row)?
                {
                    all.push(task);
                }
            }
            Ok(all)
        };
        below.look(here, |table| {
            let all = table.since().values().filter_map(Entry::live).filter(|task| is_one(task));
            all.filter(|task| !since.contains_key(task.id.as_str())).cloned().collect()
        })
    }

    /// The documents.
    pub fn documents(&self) -> &Documents {
        &self.documents
    }

    /// The workspace's status table.
    pub fn rules(&self) -> &Arc<StatusTable> {
        &self.rules
    }

    /// What has led to this workspace, oldest first.
    pub fn bindings(&self) -> &[Binding] {
        &self.bindings
    }

    /// What history is kept for its own sake.
    pub fn retention(&self) -> &Arc<Retentions> {
        &self.retention
    }

    /// The backups that were made of this workspace, the newest last; at most [`BACKUPS_MAX`](super::BACKUPS_MAX).
    pub fn backups(&self) -> &[Backup] {
        &self.backups
    }

    /// What a session said of itself when it began to write here.
    pub fn writer(&self, session: u64) -> Option<&Arc<Writer>> {
        self.writers.get(&session)
    }

    /// What the fold met that today's rules would have refused; at most 1000.
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// How many there were.
    pub fn findings_seen(&self) -> u64 {
        self.findings_seen
    }

    fn take_up(
        &mut self,
        preamble: &Preamble,
        envelope: &Envelope<'_>,
        known: Option<Event>,
        remember: bool,
    ) {
        if let Some(event) = &known {
            debug_assert_eq!(
                Event::decode(envelope).ok().flatten().as_ref(),
                Some(event),
                "as others read it"
            );
        }
        let event = match known.map_or_else(|| Event::decode(envelope), |event| Ok(Some(event))) {
            Ok(Some(event)) => event,
            // Unknown to this release; the log has seen to it.
            Ok(None) => return self.pass(preamble, envelope, remember),
            Err(bad) => {
                let label = kinds::name(envelope.kind).unwrap_or("event");
                self.pass(preamble, envelope, remember);
                return note(
                    &mut self.findings,
                    &mut self.findings_seen,
                    envelope,
                    "bad-body",
                    format!("the body of a {label} event does not decode: {bad}; it was left out"),
                );
            }
        };
        self.purges += u64::from(matches!(event, Event::Purged { .. }));
        let retained = Retentions::take_up(&mut self.retention, envelope.key_kind, envelope.key, &event);
        if let Some((undo, before)) = self.undo.commits.last_mut().filter(|_| remember).zip(retained) {
            undo.retention.get_or_insert(before);
        }
        if envelope.key_kind == KeyKind::TASK && envelope.revision.0 > 0 {
            return self.take_up_task(envelope, event, remember);
        }
        if envelope.key_kind == KeyKind::DOCUMENT {
            return self.take_up_document(preamble, envelope, Some(event), remember);
        }
        match event {
            Event::RulesSet(rules) => {
                let before = std::mem::replace(&mut self.rules, Arc::new(rules));
                if let Some(undo) = self.undo.commits.last_mut().filter(|_| remember) {
                    undo.rules.get_or_insert(before);
                }
            }
            Event::WorkspaceBound(binding) => self.bindings.push(binding),
            Event::BackedUp { target, covers } => {
                let one = Backup { target, covers, time: preamble.time, seq: envelope.seq };
                let more = backups::with(&self.backups, one);
                let before = std::mem::replace(&mut self.backups, more);
                if let Some(undo) = self.undo.commits.last_mut().filter(|_| remember) {
                    undo.backups.get_or_insert(before);
                }
            }
            Event::SessionStarted { label, version, pid } => {
                // The key names it; whoever brings the event back out of quarantine commits it in a session of its own.
                let session = u64::from_str_radix(envelope.key, 16).unwrap_or(preamble.session);
                let before = self.writers.insert(session, Arc::new(Writer { label, version, pid }));
                if let Some(undo) = self.undo.commits.last_mut().filter(|_| remember) {
                    undo.writer.get_or_insert((session, before));
                }
            }
            _ => {}
        }
    }

    /// A state event that changes nothing here is counted all the same: who expects a revision means the log's.
    fn pass(&mut self, preamble: &Preamble, envelope: &Envelope<'_>, remember: bool) {
        if envelope.key_kind == KeyKind::DOCUMENT {
            return self.take_up_document(preamble, envelope, None, remember);
        }
        if envelope.key_kind != KeyKind::TASK || envelope.revision.0 == 0 {
            return;
        }
        self.lift(envelope.key);
        let Some(place) = self.tasks.since_mut().get_mut(envelope.key) else { return };
        if remember {
            let (id, before) = (TaskId::of_log(envelope.key), place.clone());
            self.undo.tasks.push(Replaced::Entry(id, Some(before)));
        }
        let (revision, seq) = (envelope.revision, envelope.seq);
        match place {
            Entry::Live(task) => {
                let task = Arc::make_mut(task);
                (task.revision, task.seq) = (revision, seq);
            }
            Entry::Dead(tombstone) => (tombstone.revision, tombstone.seq) = (revision, seq),
        }
    }

    fn take_up_document(
        &mut self,
        preamble: &Preamble,
        envelope: &Envelope<'_>,
        event: Option<Event>,
        remember: bool,
    ) {
        let Index { documents, findings, findings_seen, undo, .. } = self;
        let head = Head { seq: envelope.seq, revision: envelope.revision };
        let mut say = |code, message| note(findings, findings_seen, envelope, code, message);
        let replaced = documents.take_up(envelope.key, head, preamble.time, event, &mut say);
        undo.documents.extend(replaced.filter(|_| remember));
    }

    fn take_up_task(&mut self, envelope: &Envelope<'_>, event: Event, remember: bool) {
        self.lift(envelope.key);
        let Index { tasks, live, children, rules, findings, findings_seen, undo, .. } = self;
        let tasks = tasks.since_mut();
        let head = Head { seq: envelope.seq, revision: envelope.revision };
        let moves = may_move(&event);
        let mut say = |code, message| note(findings, findings_seen, envelope, code, message);
        let id = envelope.key;
        if let Some(place) = tasks.get_mut(id) {
            let mut edits = None;
            if remember {
                undo.tasks.push(match &*place {
                    Entry::Live(task) if !matches!(event, Event::Deleted { .. } | Event::Purged { .. }) => {
                        let Task { revision, seq, named, fence, bytes, .. } = **task;
                        let (id, imports, from) = (task.id.clone(), task.imports.clone(), undo.edits.len());
                        edits = Some(&mut undo.edits);
                        Replaced::Edits { id, revision, seq, named, fence, bytes, imports, from }
                    }
                    entry => Replaced::Entry(TaskId::of_log(id), Some(entry.clone())),
                });
            }
            let before = std::mem::replace(place, Entry::Dead(Tombstone::default()));
            if moves {
                unlink(children, live, &before);
            }
            *place = fold_event(Some(before), id, head, event, rules, edits, &mut say);
            if moves {
                link(children, live, place);
            }
        } else {
            let key = TaskId::of_log(id);
            if remember {
                undo.tasks.push(Replaced::Entry(key.clone(), None));
            }
            let entry = fold_event(None, id, head, event, rules, None, &mut say);
            link(children, live, &entry);
            tasks.insert(key, entry);
        }
    }

    /// Has what a task is in the snapshot among those folded since, where it can be changed.
    fn lift(&mut self, id: &str) {
        if self.tasks.below().is_none() || self.tasks.since().contains_key(id) {
            return;
        }
        let Some(entry) = self.tasks.entry_below(id) else { return };
        if let Some(task) = entry.live() {
            self.live -= 1; // it is counted with the others from now on
            let at = Status::ALL.iter().position(|status| *status == task.status());
            at.and_then(|at| self.lifted.get_mut(at)).into_iter().for_each(|count| *count += 1);
        }
        link(&mut self.children, &mut self.live, &entry);
        self.tasks.insert(TaskId::of_log(id), entry);
    }

    fn take_back_task(&mut self, replaced: Replaced) {
        let tasks = self.tasks.since_mut();
        match replaced {
            Replaced::Entry(id, before) => {
                if let Some(now) = tasks.get(id.as_str()) {
                    unlink(&mut self.children, &mut self.live, now);
                }
                match before {
                    Some(entry) => {
                        link(&mut self.children, &mut self.live, &entry);
                        tasks.insert(id, entry);
                    }
                    None => drop(tasks.remove(id.as_str())),
                }
            }
            Replaced::Edits { id, revision, seq, named, fence, bytes, imports, from } => {
                let edits = self.undo.edits.drain(from.min(self.undo.edits.len())..);
                let Some(place) = tasks.get_mut(id.as_str()) else { return };
                unlink(&mut self.children, &mut self.live, place);
                if let Entry::Live(shared) = place {
                    let task = Arc::make_mut(shared);
                    edits.rev().for_each(|edit| task.item.take_back(edit));
                    (task.revision, task.seq, task.named) = (revision, seq, named);
                    (task.fence, task.bytes, task.imports) = (fence, bytes, imports);
                }
                link(&mut self.children, &mut self.live, place);
            }
        }
    }
}

/// Whether an event may change which parent its task names, or whether it lives.
fn may_move(event: &Event) -> bool {
    let is_parent = |field: &Field| *field == Field::ParentTaskId;
    match event {
        Event::Created { .. }
        | Event::Deleted { .. }
        | Event::Purged { .. }
        | Event::Linked { .. }
        | Event::Imported(_) => true,
        Event::Abandoned { severed, .. } => *severed,
        Event::Patched(patch) => {
            patch.sets().iter().any(|(field, _)| is_parent(field)) || patch.unsets().iter().any(is_parent)
        }
        _ => false,
    }
}

type Children = BTreeMap<Arc<str>, BTreeSet<TaskId>>;

fn link(children: &mut Children, live: &mut usize, entry: &Entry) {
    let Some(task) = entry.live() else { return };
    *live += 1;
    if let Some(parent) = task.parent() {
        children.entry(parent.as_ref().into()).or_default().insert(task.id.clone());
    }
}

fn unlink(children: &mut Children, live: &mut usize, entry: &Entry) {
    let Some(task) = entry.live() else { return };
    *live -= 1;
    if let Some(parent) = task.parent()
        && let Some(siblings) = children.get_mut(&*parent)
    {
        siblings.remove(task.id.as_str());
        if siblings.is_empty() {
            children.remove(&*parent);
        }
    }
}

fn note(all: &mut Vec<Finding>, seen: &mut u64, event: &Envelope<'_>, code: &'static str, message: String) {
    *seen += 1;
    if all.len() < FINDINGS_MAX {
        all.push(Finding {
            severity: Severity::Warning,
            code,
            file: PathBuf::new(),
            offset: None,
            seq: Some(event.seq.0),
            message,
            remedy: REMEDY,
        });
    }
}

impl Fold for Index {
    fn apply(&mut self, commit: &Commit<'_>, mut meanings: Meanings<'_>, remember: bool) {
        if remember {
            self.undo.commits.push(Undo {
                tasks: self.undo.tasks.len(),
                documents: self.undo.documents.len(),
                rules: None,
                bindings: self.bindings.len(),
                backups: None,
                retention: None,
                purges: self.purges,
                writer: None,
                findings: self.findings.len(),
                findings_seen: self.findings_seen,
            });
        }
        for (place, envelope) in commit.events().enumerate() {
            if envelope.kind > EVENT_NOTHING {
                let event = meanings.take(place).and_then(|meaning| meaning.downcast::<Event>().ok());
                self.take_up(&commit.preamble, &envelope, event.map(|event| *event), remember);
            }
        }
    }

    fn take_back(&mut self) {
        let Some(undo) = self.undo.commits.pop() else { return };
        while self.undo.tasks.len() > undo.tasks
            && let Some(replaced) = self.undo.tasks.pop()
        {
            self.take_back_task(replaced);
        }
        while self.undo.documents.len() > undo.documents
            && let Some(replaced) = self.undo.documents.pop()
        {
            self.documents.take_back(replaced);
        }
        if let Some(rules) = undo.rules {
            self.rules = rules;
        }
        match undo.writer {
            Some((session, Some(before))) => drop(self.writers.insert(session, before)),
            Some((session, None)) => drop(self.writers.remove(&session)),
            None => {}
        }
        self.bindings.truncate(undo.bindings);
        if let Some(backups) = undo.backups {
            self.backups = backups;
        }
        self.purges = undo.purges;
        if let Some(retention) = undo.retention {
            self.retention = retention;
        }
        self.findings.truncate(undo.findings);
        self.findings_seen = undo.findings_seen;
    }

    fn stands(&mut self) {
        let UndoLog { commits, tasks, edits, documents } = &mut self.undo;
        commits.clear();
        documents.clear();
        tasks.clear();
        edits.clear();
    }

    /// The tables, and a pointer to each task.
    fn copy(&self) -> Box<dyn Fold> {
        Box::new(Index {
            tasks: self.tasks.clone(),
            live: self.live,
            lifted: self.lifted,
            children: self.children.clone(),
            documents: self.documents.clone(),
            rules: Arc::clone(&self.rules),
            bindings: self.bindings.clone(),
            backups: Arc::clone(&self.backups),
            retention: Arc::clone(&self.retention),
            purges: self.purges,
            writers: self.writers.clone(),
            findings: self.findings.clone(),
            findings_seen: self.findings_seen,
            undo: UndoLog::default(),
        })
    }

    /// `format-spec/events.md`, section *State hash*.
    fn hash(&self, hasher: &mut blake3::Hasher) {
        let text = |hasher: &mut blake3::Hasher, text: &str| {
            hasher.update(&(text.len() as u64).to_le_bytes()).update(text.as_bytes());
        };
        text(hasher, self.rules.name());
        hasher.update(&(self.rules.rows().len() as u64).to_le_bytes());
        for (from, to, by) in self.rules.rows() {
            text(hasher, from.name());
            text(hasher, to.name());
            hasher.update(&[u8::from(*by == crate::event::By::Resume)]);
        }
        hasher.update(&(self.tasks.len() as u64).to_le_bytes());
        for (id, entry) in self.tasks.iter() {
            text(hasher, id.as_str());
            hasher.update(&[u8::from(entry.live().is_some())]);
            hasher.update(&entry.revision().0.to_le_bytes()).update(&entry.seq().0.to_le_bytes());
            hasher.update(&entry.fence().to_le_bytes());
            let Some(task) = entry.live() else { continue };
            hasher.update(&task.fence.session.to_le_bytes());
            hasher.update(&task.created.0.to_le_bytes()).update(&[u8::from(task.named)]);
            hasher.update(&(task.item.fields().len() as u64).to_le_bytes());
            for (field, value) in task.item.fields() {
                text(hasher, field.name());
                match value {
                    Value::Blob { id, len } => {
                        hasher.update(&u64::MAX.to_le_bytes()).update(&len.to_le_bytes()).update(&id.0);
                    }
                    value => text(hasher, &value.to_json()),
                }
            }
            let imports = task.imports.as_deref();
            hasher.update(&[u8::from(imports.is_some())]);
            if let Some(imports) = imports {
                hasher.update(&imports.record).update(&(imports.fields.len() as u64).to_le_bytes());
                // In the order of names, which does not depend on which names this release knows.
                let mut fields: Vec<_> = imports.fields.iter().map(|(f, hash)| (f.name(), *hash)).collect();
                fields.sort_unstable();
                for (name, hash) in fields {
                    text(hasher, name);
                    hasher.update(&hash.to_le_bytes());
                }
            }
        }
        self.documents.hash(hasher);
        self.retention.hash(hasher);
    }

    fn purges(&self) -> u64 {
        self.purges
    }

    fn retention(&self) -> Keeps {
        let all = Arc::clone(&self.retention);
        Box::new(move |key| all.keep(key))
    }

    fn save(&self) -> Box<dyn SaveFold + '_> {
        Box::new(SaveTasks::of(self))
    }

    fn load(&mut self, base: &Arc<Base>) -> Result<(), Spoiled> {
        self.tasks = TaskTable::above(Below::of(base)?);
        self.load_facts(base)
    }

    fn describe(&self, key: &Key) -> Option<String> {
        if key.kind == KeyKind::DOCUMENT {
            let document = self.documents.get(&key.name)?;
            return (!matches!(document.value, Value::Blob { .. })).then(|| document.value.to_json());
        }
        if key.kind != KeyKind::TASK {
            return None;
        }
        // Without what is kept in blobs: who merges and saves what an error tells must not save a stand-in.
        let inline = |(_, value): &&(Field, Value)| !matches!(value, Value::Blob { .. });
        self.get(&key.name).map(|task| {
            Item::of_fields(task.item.fields().iter().filter(inline).cloned().collect()).to_json()
        })
    }
}
