//! The rules of tasks: what may follow what, judged under the lock against the latest state.
//!
//! Pure: an [`Index`] and what is asked for go in, events come out, or the reason why not. `docs/task-rules.md` has the
//! rules for users.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use foldhash::fast::RandomState;

use super::documents::{DocumentsPlanned, Prepared};
use super::op::{ImportOutcome, ImportRecord, Op, check_item, check_size};
use super::ownership::Who;
use super::token::Token;
use crate::error::{Error, ErrorKind, Result};
use crate::event::{
    By, Cause, Event, Fence, Field, Imported, Item, Patch, Retention, Status, StatusTable, TaskId, Value,
    value_hash,
};
use crate::log::format::MAX_COUNT;
use crate::log::{Cursor, Key, Revision, Seq};
use crate::view::{Entry, Head, Index, Retentions, Task, fold_event};

/// What a commit's operations come to, beside their events.
#[derive(Debug, Default)]
pub(super) struct Planned {
    /// Each task that changes. Until the commit stands, `seq` of its token is the place of its last event among the
    /// commit's, and the rest is empty.
    pub(super) changed: Vec<(TaskId, Token)>,
    /// The fences it gives out.
    pub(super) fences: Vec<(TaskId, Fence)>,
    /// What each import came to.
    pub(super) imports: Vec<(TaskId, ImportOutcome)>,
    /// The documents it names.
    pub(super) documents: DocumentsPlanned,
    /// Whether a document's large value must be made ready anew.
    pub(super) stale: bool,
}

/// Takes an event with its key into the commit; returns its place there.
pub(super) type Push<'a> = &'a mut dyn FnMut(Key, Event) -> usize;

/// Operations being judged.
pub(super) struct Plan<'a> {
    pub(super) index: &'a Index,
    pub(super) who: &'a Who,
    pub(super) prepared: &'a Prepared,
    pub(super) push: Push<'a>,
    /// What the events so far have made of their tasks, and each one's place among the changed; kept only where something
    /// comes behind them.
    over: HashMap<TaskId, (Entry, usize), RandomState>,
    keep_over: bool,
    rules: Option<Arc<StatusTable>>,
    /// What history is to be kept, where an operation has looked.
    retention: Option<Arc<Retentions>>,
    pub(super) planned: Planned,
}

fn at_place(place: usize) -> Token {
    Token { revision: Revision(0), at: Cursor { seq: Seq(place as u64), epoch: 0 } }
}

pub(super) fn refuse<T>(kind: ErrorKind) -> Result<T> {
    Err(Error::new(kind, "commit", Path::new("")))
}

fn ruled<T>(field: &Field, verb: &'static str) -> Result<T> {
    refuse(ErrorKind::RuledField { field: field.name().into(), verb })
}

/// Which verb changes a field that no save may.
fn verb(field: &Field) -> &'static str {
    match field {
        Field::Id => "an id never changes",
        Field::Status => "use `status`, `resume`, `delegate` or `complete`",
        Field::CompletedByChildId => "use `complete` on the child",
        _ => "use `delegate`, `complete` or `status`",
    }
}

impl<'a> Plan<'a> {
    /// Judges operations one by one; their events go to `push` as they come, also if a later one is refused.
    pub(super) fn of(
        index: &'a Index,
        ops: &[Op],
        who: &'a Who,
        prepared: &'a Prepared,
        push: Push<'a>,
    ) -> (Planned, Result<()>) {
        let mut plan = Plan {
            index,
            who,
            prepared,
            push,
            over: HashMap::default(),
            keep_over: ops.len() > 1 || matches!(ops, [Op::Remove { .. } | Op::Mend { .. }]),
            rules: None,
            retention: None,
            planned: Planned::default(),
        };
        let judged = ops.iter().enumerate().try_for_each(|(at, op)| plan.judge(at, op));
        (plan.planned, judged)
    }

    fn judge(&mut self, at: usize, op: &Op) -> Result<()> {
        match op {
            Op::Create { item, again } => self.create(item, *again)?,
            Op::Patch { id, patch } => self.patch(id, patch)?,
            Op::Rename { id, title } => self.rename(id, title)?,
            Op::SetStatus { id, status } => self.set_status(id, *status)?,
            Op::Resume { id } => self.resume(id)?,
            Op::Delegate { parent, child } => self.delegate(parent, child)?,
            Op::Complete { id, summary } => self.complete(id, summary.as_ref())?,
            Op::Remove { ids, cascade } => self.remove(ids, *cascade)?,
            Op::Attach { id } => self.attach(id)?,
            Op::Detach { id, fence } => self.detach(id, *fence)?,
            Op::Abandon { id } => self.abandon(id)?,
            Op::Mend { parent, unowned } => self.mend(parent, *unowned)?,
            Op::Import(record) => self.import(record)?,
            Op::SetRules(table) => self.set_rules(table),
            Op::SetRetention { id, retention } => self.set_retention(id.as_ref(), *retention)?,
            Op::Pin { id, pinned } => self.pin(id, *pinned)?,
            Op::PutDocument { name, kind, value, again } => {
                self.put_document(at, name, kind.as_ref(), value, *again)?;
            }
            Op::PatchDocument { name, patch } => self.patch_document(at, name, patch)?,
            Op::DeleteDocument { name } => self.delete_document(name)?,
            Op::MirrorDocument { name, mirrored } => self.mirror_document(name, mirrored)?,
        }
        Ok(())
    }

    fn rules(&self) -> &StatusTable {
        self.rules.as_ref().unwrap_or_else(|| self.index.rules())
    }

    fn entry(&self, id: &str) -> Option<Entry> {
        self.over.get(id).map(|(entry, _)| entry.clone()).or_else(|| self.index.entry(id))
    }

    pub(super) fn get(&self, id: &str) -> Option<Arc<Task>> {
        self.entry(id)?.into_live()
    }

    pub(super) fn live(&self, id: &TaskId) -> Result<Arc<Task>> {
        match self.entry(id.as_str()) {
            Some(Entry::Live(task)) => Ok(task),
            Some(Entry::Dead(tombstone)) => {
                refuse(ErrorKind::TaskDeleted { id: id.to_string(), seq: tombstone.seq })
            }
            None => refuse(ErrorKind::NoTask { id: id.to_string() }),
        }
    }

    pub(super) fn emit(&mut self, id: &TaskId, event: Event) {
        let again = self.keep_over.then(|| event.clone());
        let place = (self.push)(id.key(), event);
        let changed = &mut self.planned.changed;
        let Some(event) = again else {
            // One operation: few tasks, and nothing looks at what it has made of them.
            match changed.iter_mut().find(|(changed, _)| changed == id) {
                Some((_, last)) => *last = at_place(place),
                None => changed.push((id.clone(), at_place(place))),
            }
            return;
        };
        let at = match self.over.get(id.as_str()) {
            Some((_, at)) => {
                if let Some((_, last)) = changed.get_mut(*at) {
                    *last = at_place(place);
                }
                *at
            }
            None => {
                changed.push((id.clone(), at_place(place)));
                changed.len() - 1
            }
        };
        // Taken out, not copied: what this commit alone holds is changed where it is.
        let mine = self.over.remove(id.as_str()).map(|(entry, _)| entry);
        let before = mine.or_else(|| self.index.entry(id.as_str()));
        let head = Head {
            seq: before.as_ref().map_or(Seq(0), Entry::seq),
            revision: Revision(before.as_ref().map_or(0, |entry| entry.revision().0) + 1),
        };
        let rules = self.rules.as_ref().unwrap_or_else(|| self.index.rules());
        let after = fold_event(before, id.as_str(), head, event, rules, None, &mut |_, _| {});
        self.over.insert(id.clone(), (after, at));
    }

    fn create(&mut self, item: &Item, again: bool) -> Result<()> {
        let id = id_of(item)?;
        let again = match self.entry(id.as_str()) {
            None => false,
            Some(Entry::Live(_)) => return refuse(ErrorKind::TaskExists { id: id.to_string() }),
            Some(Entry::Dead(_)) if again => true,
            Some(Entry::Dead(tombstone)) => {
                return refuse(ErrorKind::TaskDeleted { id: id.to_string(), seq: tombstone.seq });
            }
        };
        check_item(item)?;
        for field in [Field::DelegatedToId, Field::AwaitingChildId, Field::CompletedByChildId] {
            if item.get(&field).is_some() {
                return ruled(&field, verb(&field));
            }
        }
        match item.get(&Field::Status).map(|value| (value, value.as_str().and_then(|name| Status::of(&name))))
        {
            None | Some((_, Some(Status::Active | Status::Interrupted | Status::Completed))) => {}
            Some((_, Some(Status::Delegated))) => return ruled(&Field::Status, "use `delegate`"),
            Some((value, None)) => return refuse_status(value),
        }
        if let Some(parent) = item.get(&Field::ParentTaskId) {
            let parent = parent.as_str().map(|parent| TaskId::new(&parent)).transpose()?;
            let Some(parent) = parent else {
                let why = "parentTaskId is not a string".into();
                return refuse(ErrorKind::Invalid { what: "item", why });
            };
            self.live(&parent)?;
            self.no_cycle(&parent, &id)?;
        }
        self.emit(&id, Event::Created { item: item.clone(), again });
        Ok(())
    }

    fn patch(&mut self, id: &TaskId, patch: &Patch) -> Result<()> {
        let task = self.live(id)?;
        let mut change = Patch { set: Vec::with_capacity(patch.set.len()), ..Patch::default() };
        let (mut bytes, mut count) = (task.bytes, task.item.fields().len());
        let now = task.item.finder(patch.set.len() + patch.unset.len());
        for (field, value) in &patch.set {
            if field.is_ruled() {
                // Sending a field back as it is changes nothing, and hosts that save whole items do so.
                if now.get(field) == Some(value) {
                    continue;
                }
                return ruled(field, verb(field));
            }
            let old = now.get(field);
            if old == Some(value) {
                continue;
            }
            if *field == Field::ChildIds {
                if !value.is_strings() {
                    let why = format!("childIds of {id} is to be an array of strings");
                    return refuse(ErrorKind::Invalid { what: "patch", why });
                }
                let mut there: HashSet<_, RandomState> = task.child_ids().into_iter().collect();
                let new: Vec<_> =
                    value.as_strings().into_iter().filter(|id| there.insert(Arc::clone(id))).collect();
                if new.is_empty() {
                    continue;
                }
                bytes = bytes.saturating_add(new.iter().map(|id| id.len() as u64 + 3).sum());
                change.set.push((Field::ChildIds, Value::strings(new)));
                continue;
            }
            count += usize::from(old.is_none());
            bytes = bytes
                .saturating_add(field_len(field, value))
                .saturating_sub(old.map_or(0, |old| field_len(field, old)));
            change.set.push((field.clone(), value.clone()));
        }
        for field in &patch.unset {
            let Some(old) = now.get(field) else { continue };
            if field.is_ruled() {
                return ruled(field, verb(field));
            }
            if *field == Field::ChildIds {
                return ruled(field, "name the ids to be dropped");
            }
            count -= 1;
            bytes = bytes.saturating_sub(field_len(field, old));
            change.unset.push(field.clone());
        }
        if !patch.drop_children.is_empty() {
            let mut there: HashSet<_, RandomState> = task.child_ids().into_iter().collect();
            if let Some((_, added)) = change.set.iter().find(|(field, _)| *field == Field::ChildIds) {
                there.extend(added.as_strings());
            }
            change.drop_children =
                patch.drop_children.iter().filter(|id| there.remove(*id)).cloned().collect();
        }
        check_size((bytes, count), (task.bytes, task.item.fields().len()))?;
        if !change.is_empty() {
            self.emit(id, Event::Patched(change));
        }
        Ok(())
    }

    fn rename(&mut self, id: &TaskId, title: &Value) -> Result<()> {
        let task = self.live(id)?;
        if task.named && task.item.get(&Field::Task) == Some(title) {
            return Ok(());
        }
        check_grown(&task, &Field::Task, title)?;
        self.emit(id, Event::Renamed { title: title.clone() });
        Ok(())
    }

    /// Whether the table lets `task` pass to `to`, and by what.
    pub(super) fn may_pass(&self, task: &Task, to: Status) -> Result<By> {
        let from = task.status();
        self.rules().allows(from, to).map_or_else(
            || refused(task, to, format!("the table {:?} does not allow it", self.rules().name())),
            Ok,
        )
    }

    fn set_status(&mut self, id: &TaskId, to: Status) -> Result<()> {
        let task = self.live(id)?;
        let from = task.status();
        if from == to {
            return Ok(());
        }
        if to == Status::Delegated {
            return ruled(&Field::Status, "use `delegate`, which names the child");
        }
        if self.may_pass(&task, to)? == By::Resume {
            return refused(&task, to, "that is `resume`, a verb of its own".into());
        }
        if to == Status::Completed
            && let Some(parent) = self.waiting_parent(&task)
        {
            let why = format!("{} waits for its result; use `complete`", parent.id);
            return refused(&task, to, why);
        }
        self.emit(id, Event::StatusChanged { from, to, cause: Cause::Set });
        Ok(())
    }

    fn resume(&mut self, id: &TaskId) -> Result<()> {
        let task = self.live(id)?;
        let (from, to) = (task.status(), Status::Active);
        if from == to {
            return Ok(());
        }
        if from != Status::Interrupted {
            return refused(&task, to, "only what was interrupted can be resumed".into());
        }
        self.may_pass(&task, to)?;
        self.emit(id, Event::StatusChanged { from, to, cause: Cause::Resumed });
        Ok(())
    }

    /// The parent that waits for this very task.
    pub(super) fn waiting_parent(&self, task: &Task) -> Option<Arc<Task>> {
        let parent = self.get(&task.parent()?)?;
        let waits =
            parent.status() == Status::Delegated && parent.awaiting().as_deref() == Some(task.id.as_str());
        waits.then_some(parent)
    }

    /// Refuses a parent that is below the child, or is the child.
    fn no_cycle(&self, parent: &TaskId, child: &TaskId) -> Result<()> {
        // Nothing is below it yet: the common case, however long the chain above is.
        let mut over = self.over.values().filter_map(|(entry, _)| entry.live());
        if parent != child
            && !self.index.has_children(child.as_str())
            && !over.any(|task| task.parent().as_deref() == Some(child.as_str()))
        {
            return Ok(());
        }
        let mut seen = HashSet::new();
        let mut at = Some(parent.to_string());
        while let Some(id) = at {
            if id == child.as_str() {
                let (parent, child) = (parent.to_string(), child.to_string());
                return refuse(ErrorKind::Cycle { parent, child });
            }
            at = self.get(&id).and_then(|task| task.parent().map(|parent| parent.into_owned()));
            if !seen.insert(id) {
                break;
            }
        }
        Ok(())
    }

    fn delegate(&mut self, parent_id: &TaskId, child: &Item) -> Result<()> {
        let parent = self.live(parent_id)?;
        let child_id = id_of(child)?;
        match parent.status() {
            // What it waited for goes on no more: it may wait for another, in the same commit.
            Status::Delegated => {
                let awaited = parent.awaiting().and_then(|id| self.get(&id));
                if let Some(awaited) = awaited
                    && matches!(awaited.status(), Status::Active | Status::Delegated)
                {
                    let why = format!("it waits for {}, which is {}", awaited.id, awaited.status());
                    return refused(&parent, Status::Delegated, why);
                }
            }
            _ => {
                if self.may_pass(&parent, Status::Delegated)? == By::Resume {
                    return refused(&parent, Status::Delegated, "it must be resumed first".into());
                }
            }
        }
        self.no_cycle(parent_id, &child_id)?;
        let root = self.root_of(&parent);
        match self.entry(child_id.as_str()) {
            None => {
                let mut item = child.clone();
                for (field, id) in [(Field::ParentTaskId, parent_id), (Field::RootTaskId, &root)] {
                    let given = item.get(&field).map(|value| value.as_str().as_deref() == Some(id.as_str()));
                    match given {
                        Some(false) => return ruled(&field, "`delegate` sets it"),
                        Some(true) => {}
                        None => drop(item.set(field, Value::Text(id.shared()))),
                    }
                }
                if item.get(&Field::Workspace).is_none()
                    && let Some(workspace) = parent.item.get(&Field::Workspace)
                {
                    item.set(Field::Workspace, workspace.clone());
                }
                if item.text(&Field::Status).is_some_and(|status| status != Status::Active.name()) {
                    return ruled(&Field::Status, "a child begins as active");
                }
                self.create(&item, false)?;
            }
            Some(Entry::Dead(tombstone)) => {
                let (id, seq) = (child_id.to_string(), tombstone.seq);
                return refuse(ErrorKind::TaskDeleted { id, seq });
            }
            Some(Entry::Live(task)) => {
                if child.fields().len() > 1 {
                    return refuse(ErrorKind::TaskExists { id: child_id.to_string() });
                }
                if task.status() != Status::Active {
                    return refused(&task, Status::Active, "only an active task can be delegated to".into());
                }
                match task.parent() {
                    Some(other) if other != parent_id.as_str() => {
                        let why = format!("{child_id} is a child of {other}");
                        return refuse(ErrorKind::Invalid { what: "child", why });
                    }
                    Some(_) => {}
                    None => self.emit(&child_id, Event::Linked { parent: parent_id.clone(), root }),
                }
            }
        }
        self.emit(parent_id, Event::Delegated { child: child_id });
        Ok(())
    }

    /// The top of a task's chain: what it says, else what walking up finds.
    fn root_of(&self, task: &Task) -> TaskId {
        // An imported one may be no id at all.
        if let Some(root) = task.text(&Field::RootTaskId).and_then(|root| TaskId::new(&root).ok()) {
            return root;
        }
        let mut seen = HashSet::from([task.id.to_string()]);
        let mut top = task.id.clone();
        let mut at = task.parent().map(|parent| parent.into_owned());
        while let Some(id) = at {
            let Some(above) = self.get(&id).filter(|_| seen.insert(id.clone())) else { break };
            top = above.id.clone();
            at = above.parent().map(|parent| parent.into_owned());
        }
        top
    }

    fn complete(&mut self, id: &TaskId, summary: Option<&Value>) -> Result<()> {
        let task = self.live(id)?;
        let parent = self.waiting_parent(&task).map(|parent| parent.id.clone());
        let done = task.status() == Status::Completed;
        if !done && self.may_pass(&task, Status::Completed)? == By::Resume {
            return refused(&task, Status::Completed, "that is `resume`, a verb of its own".into());
        }
        if parent.is_none() {
            if done {
                return Ok(());
            }
            // Nobody is left to refuse it where the parent is gone.
            if let Some(other) = task.parent().and_then(|parent| self.get(&parent)) {
                let (parent, child) = (other.id.to_string(), id.to_string());
                return refuse(ErrorKind::NotWaiting { parent, child });
            }
        }
        if !done {
            if let Some(summary) = summary {
                check_grown(&task, &Field::CompletionResultSummary, summary)?;
            }
            self.emit(id, Event::Finished { summary: summary.cloned() });
        }
        if let Some(parent) = parent {
            self.emit(&parent, Event::ChildReturned { child: id.clone(), summary: summary.cloned() });
        }
        Ok(())
    }

    /// Live children, by their parent links and as this commit leaves them.
    fn children(&self, id: &TaskId) -> Vec<TaskId> {
        let is_child = |task: &Task| task.parent().as_deref() == Some(id.as_str());
        let there = self.index.children(id.as_str()).map(|task| task.id.clone());
        let still = there.filter(|child| self.get(child.as_str()).is_some_and(|task| is_child(&task)));
        let mut children: Vec<TaskId> = still.collect();
        let new = self.over.values().filter_map(|(entry, _)| entry.live()).filter(|task| is_child(task));
        children.extend(new.map(|task| task.id.clone()));
        children.sort_unstable();
        children.dedup();
        children
    }

    fn remove(&mut self, ids: &[TaskId], cascade: bool) -> Result<()> {
        // What goes, each with the task that takes it with it.
        let mut going: Vec<(TaskId, Option<TaskId>)> = Vec::new();
        let named: HashSet<&TaskId, RandomState> = ids.iter().collect();
        let mut seen: HashSet<TaskId, RandomState> = HashSet::default();
        for id in ids {
            self.live(id)?;
            if !seen.insert(id.clone()) {
                continue;
            }
            let mut open = vec![(id.clone(), None)];
            while let Some((next, with)) = open.pop() {
                let children = self.children(&next);
                let staying = children.iter().filter(|child| !named.contains(child)).count();
                if staying > 0 && !cascade {
                    let why = format!("{next} has {staying} children; say so if they are to go with it");
                    return Err(Error::refused(why));
                }
                if cascade {
                    let below = children.into_iter().filter(|child| seen.insert(child.clone()));
                    open.extend(below.map(|child| (child, Some(id.clone()))));
                }
                going.push((next, with));
                if going.len() > usize::from(MAX_COUNT) {
                    // Each takes an event. What cannot be written is not looked for to its end.
                    let what = "a commit's number of events (remove what is below in parts first)";
                    return refuse(ErrorKind::TooLarge {
                        what,
                        len: going.len() as u64,
                        max: MAX_COUNT.into(),
                    });
                }
            }
        }
        // Who waited for one of them, and stays, waits no more.
        let gone: HashSet<&TaskId, RandomState> = going.iter().map(|(id, _)| id).collect();
        let mut freed: Vec<TaskId> = Vec::new();
        let mut is_freed: HashSet<TaskId, RandomState> = HashSet::default();
        for (id, _) in &going {
            let task = self.live(id)?;
            if let Some(parent) = self.waiting_parent(&task).filter(|parent| !gone.contains(&parent.id))
                && is_freed.insert(parent.id.clone())
            {
                freed.push(parent.id.clone());
            }
        }
        for (id, with) in going {
            self.emit(&id, Event::Deleted { with });
        }
        for id in freed {
            let (from, to) = (Status::Delegated, Status::Active);
            self.emit(&id, Event::StatusChanged { from, to, cause: Cause::ChildDeleted });
        }
        Ok(())
    }

    fn import(&mut self, record: &ImportRecord) -> Result<()> {
        let ImportRecord { id, item, source, weak, evidence } = record;
        check_item(item)?;
        let hash: [u8; 32] = {
            let mut hasher = blake3::Hasher::new();
            for (field, value) in item.fields() {
                hasher.update(field.name().as_bytes()).update(&[0]).update(&value_hash(value).to_le_bytes());
            }
            hasher.finalize().into()
        };
        let mut imported = Imported { source: source.clone(), record: hash, ..Imported::default() };
        let outcome = match self.entry(id.as_str()) {
            Some(Entry::Dead(_)) => ImportOutcome::Deleted,
            None => {
                imported.set = item.fields().to_vec();
                ImportOutcome::Created
            }
            Some(Entry::Live(task)) => match &task.imports {
                None => ImportOutcome::Own,
                Some(imports) if imports.record == hash => ImportOutcome::Unchanged,
                Some(imports) => {
                    let before: HashMap<&Field, u64> = imports.fields.iter().map(|(f, h)| (f, *h)).collect();
                    let mut kept = Vec::new();
                    // Three-way: what the source said, what it says now, what stands here.
                    for (field, value) in item.fields() {
                        let said = before.get(field).copied().unwrap_or(0);
                        let says = value_hash(value);
                        let stands = task.item.get(field).map_or(0, value_hash);
                        if says == said {
                            continue;
                        }
                        if stands == says || stands == said && (stands == 0 || !weak.contains(field)) {
                            imported.set.push((field.clone(), value.clone()));
                        } else if stands == said {
                            // What the source said before still counts, so that something better is taken later.
                            kept.push(field.clone());
                        } else {
                            imported.kept.push((field.clone(), says));
                            kept.push(field.clone());
                        }
                    }
                    for (field, said) in &imports.fields {
                        if item.get(field).is_some() {
                            continue;
                        }
                        let stands = task.item.get(field).map_or(0, value_hash);
                        if stands == 0 || stands == *said && !weak.contains(field) {
                            imported.unset.push(field.clone());
                        } else if stands == *said {
                            kept.push(field.clone());
                        } else {
                            imported.kept.push((field.clone(), 0));
                            kept.push(field.clone());
                        }
                    }
                    ImportOutcome::Updated { kept }
                }
            },
        };
        if matches!(outcome, ImportOutcome::Created | ImportOutcome::Updated { .. }) {
            self.emit(id, Event::Imported(imported));
            for (source, record) in evidence {
                let kept = Event::SourceKept { source: source.clone(), record: record.clone() };
                (self.push)(id.key(), kept);
            }
        }
        self.planned.imports.push((id.clone(), outcome));
        Ok(())
    }

    fn set_rules(&mut self, table: &StatusTable) {
        if self.rules() != table {
            self.rules = Some(Arc::new(table.clone()));
            (self.push)(Key::none(), Event::RulesSet(table.clone()));
        }
    }

    fn set_retention(&mut self, id: Option<&TaskId>, retention: Option<Retention>) -> Result<()> {
        let all = self.retention.get_or_insert_with(|| Arc::clone(self.index.retention()));
        let (key, now) = match id {
            Some(id) => (id.key(), all.task(id.as_str())),
            None => (Key::none(), all.workspace()),
        };
        if let Some(id) = id {
            self.live(id)?;
        }
        if now != retention {
            self.say_of_history(key, Event::RetentionSet(retention));
        }
        Ok(())
    }

    fn pin(&mut self, id: &TaskId, pinned: bool) -> Result<()> {
        self.live(id)?;
        let all = self.retention.get_or_insert_with(|| Arc::clone(self.index.retention()));
        if all.is_pinned(id.as_str()) != pinned {
            self.say_of_history(id.key(), Event::Pinned(pinned));
        }
        Ok(())
    }

    fn say_of_history(&mut self, key: Key, event: Event) {
        if let Some(all) = &mut self.retention {
            let _before = Retentions::take_up(all, key.kind, &key.name, &event);
        }
        (self.push)(key, event);
    }
}

pub(super) fn refused<T>(task: &Task, to: Status, why: String) -> Result<T> {
    let (id, from, to) = (task.id.to_string(), task.status().name(), to.name());
    refuse(ErrorKind::StatusRefused { id, from, to, why })
}

fn refuse_status<T>(value: &Value) -> Result<T> {
    let why = format!("{value} is none of active, delegated, interrupted, completed");
    refuse(ErrorKind::Invalid { what: "status", why })
}

/// The id an item says it has.
fn id_of(item: &Item) -> Result<TaskId> {
    match item.get(&Field::Id).map(Value::as_str) {
        Some(Some(id)) => TaskId::new(&id),
        Some(None) => refuse(ErrorKind::Invalid { what: "item", why: "its id is not a string".into() }),
        None => refuse(ErrorKind::Invalid { what: "item", why: "it has no id".into() }),
    }
}

/// What a field takes of an item's bytes.
fn field_len(field: &Field, value: &Value) -> u64 {
    value.json_len().saturating_add(field.name().len() as u64 + 4)
}

/// The same as [`check_size`] for one field that gets a value.
fn check_grown(task: &Task, field: &Field, value: &Value) -> Result<()> {
    let (bytes, fields) = (task.bytes, task.item.fields().len());
    let old = task.item.get(field);
    let grown = bytes.saturating_add(value.json_len()).saturating_sub(old.map_or(0, Value::json_len));
    check_size((grown, fields + usize::from(old.is_none())), (bytes, fields))
}
