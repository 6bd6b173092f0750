//! Tasks: what a host calls. Rules judge under the lock, events go into the log, views answer.
//!
//! [`Tasks`] is one workspace's; [`TaskStore`] is all of a store's, and knows which workspace a task is at home in;
//! [`TaskChanges`] streams what changes; [`Op`] is a change as a value; [`Token`] is a revision to be stored. The rules stand in `rules`, pure.

mod backup;
mod changes;
mod documents;
mod op;
mod ownership;
mod purge;
mod rules;
mod store;
mod token;
mod view;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub use changes::{TaskChange, TaskChanges, TaskCommit, TaskUpdate};
pub use documents::{DocumentExpect, Validator};
pub use op::{CommitOptions, ImportOutcome, ImportRecord, Op, TaskExpect, VALUE_INLINE_MAX};
pub use ownership::{Fault, Orphan};
pub use purge::PurgeReceipt;
pub use store::{Located, TaskStore};
pub use token::Token;
pub use view::TasksView;

pub use crate::view::MIRRORS_MAX;

use crate::error::{Error, ErrorKind, Result};
use crate::event::{
    DocumentName, Event, Fence, Item, Patch, Retention, Status, StatusTable, TaskId, Value, session_key,
};
use crate::log::finding::Finding;
use crate::log::format::MAX_COUNT;
use crate::log::{
    Cursor, Draft, Durability, Expect, Key, KeyKind, Log, Lpos, OpId, Receipt, Revision, Seq, State,
};
use crate::store::Workspace;
use crate::view::{Change, Entry, Index, Page, Query, Task, Totals, history::History};
use documents::{Prepared, Validators};
use ownership::{Who, check_fence, concerned};
use rules::{Plan, Planned, refuse};

/// How often a commit is made anew because something has changed before it had LOCK: blobs it names were swept away, a task
/// has gone over to a session that was not asked whether it lives.
const TRIES: usize = 4;
/// The same for a large document that others change meanwhile: one of them gets on each time.
const TRIES_OUTRUN: usize = 64;

/// Of how many failed expectations an error tells the whole item; of the others it tells the revision.
const CONFLICTS_TOLD: usize = 64;

/// The tasks of one workspace. Cheap to clone.
///
/// # Concurrency
/// `Send` and `Sync`; any number of threads and processes at once. Reads never wait for writers of other processes.
#[derive(Clone, Debug)]
pub struct Tasks {
    workspace: Workspace,
    /// Whether what dead sessions have left is still to be looked for here.
    left: Arc<AtomicBool>,
    validators: Validators,
}

/// A commit that stands.
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub struct Committed {
    /// Number of its first event; where nothing was to be done, of the last event before it.
    pub first: Seq,
    /// How many events it has; 0 = nothing was to be done, and nothing was written.
    pub count: u16,
    /// Its last event, to be stored.
    pub cursor: Cursor,
    /// Where the log stood behind it: what [`Tasks::wait_durable`] waits for.
    pub behind: Lpos,
    /// Whether it is known to survive a power cut.
    pub durable: bool,
    /// Whether it is the answer to a request that was applied before.
    pub again: bool,
    /// The tasks it changed, each as it stood behind it.
    pub tasks: Vec<(TaskId, Token)>,
    /// The fences it gave out: what to carry in later commits.
    pub fences: Vec<(TaskId, Fence)>,
    /// What each import of it came to; empty where it was applied before.
    pub imports: Vec<(TaskId, ImportOutcome)>,
    /// The documents it names, each as it stood behind it; where it was applied before, those it changed.
    pub documents: Vec<(DocumentName, Token)>,
}

impl Committed {
    /// Number of its last event.
    pub fn last(&self) -> Seq {
        self.cursor.seq
    }

    /// The last fence it gave out for a task.
    pub fn fence(&self, id: &TaskId) -> Option<Fence> {
        self.fences.iter().rev().find(|(attached, _)| attached == id).map(|(_, fence)| *fence)
    }

    /// A document's token, if this commit named it.
    pub fn document(&self, name: &DocumentName) -> Option<Token> {
        self.documents.iter().find(|(named, _)| named == name).map(|(_, token)| *token)
    }

    /// A task's token, if this commit changed it.
    pub fn token(&self, id: &TaskId) -> Option<Token> {
        self.tasks.iter().find(|(changed, _)| changed == id).map(|(_, token)| *token)
    }
}

/// What a commit would come to.
#[derive(Clone, Debug, PartialEq)]
pub struct Judged {
    /// How many events it would have.
    pub events: usize,
    /// What each import of it would come to.
    pub imports: Vec<(TaskId, ImportOutcome)>,
}

/// A task as it was read.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The task, its large values loaded.
    pub task: Arc<Task>,
    /// Its revision, to be stored or expected.
    pub token: Token,
}

/// One page of a list.
#[derive(Clone, Debug)]
pub struct Listing {
    /// The tasks, in order; large values are not loaded.
    pub tasks: Vec<Snapshot>,
    /// How many there are on all pages.
    pub total: usize,
    /// What the next page begins behind; `None` = this was the last.
    pub next: Option<TaskId>,
}

impl Listing {
    fn of(state: &State, page: Page) -> Self {
        let Page { tasks, total, next } = page;
        Listing { tasks: tasks.iter().map(|task| snapshot(state, task)).collect(), total, next }
    }
}

impl Tasks {
    /// The tasks of a workspace that was opened with the [fold](crate::Options::fold) [`Index`] and the vocabulary of
    /// [`crate::event::vocabulary`]; [`TaskStore`] opens them so.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if it was opened otherwise.
    pub fn of(workspace: Workspace) -> Result<Self> {
        let folds = workspace.log().cached(|state| state.folded::<Index>().is_some())?;
        if !folds {
            let why = "it was opened without the fold of tasks".into();
            let kind = ErrorKind::Invalid { what: "workspace", why };
            return Err(Error::new(kind, "open", workspace.log().paths().dir()));
        }
        Ok(Tasks { workspace, left: Arc::new(AtomicBool::new(true)), validators: Validators::default() })
    }

    /// The workspace.
    pub fn workspace(&self) -> &Workspace {
        &self.workspace
    }

    fn log(&self) -> &Arc<Log> {
        self.workspace.log()
    }

    /// Reads on to what others have committed, and looks at the fold.
    ///
    /// # Errors
    /// As [`Log::read`].
    pub fn read<T>(&self, look: impl FnOnce(&State, &Index) -> T) -> Result<T> {
        self.log().read(|state| state.folded::<Index>().map(|index| look(state, index)))?.ok_or_else(|| {
            Error::new(ErrorKind::Refused("the fold of tasks is missing".into()), "read", Path::new(""))
        })
    }

    /// A task, its large values loaded; `None` if there is none of this id, or it was deleted.
    ///
    /// # Errors
    /// As [`Log::read`] and [`Log::blob`].
    pub fn get(&self, id: &str) -> Result<Option<Snapshot>> {
        let found = self.read(|state, index| index.get(id).map(|task| snapshot(state, &task)))?;
        found.map(|snapshot| self.load(snapshot)).transpose()
    }

    /// The same, or why not.
    ///
    /// # Errors
    /// [`ErrorKind::NoTask`], [`ErrorKind::TaskDeleted`], and as [`Tasks::get`].
    pub fn require(&self, id: &TaskId) -> Result<Snapshot> {
        match self.get(id.as_str())? {
            Some(snapshot) => Ok(snapshot),
            None => Err(self.missing(id)?),
        }
    }

    fn missing(&self, id: &TaskId) -> Result<Error> {
        let kind = match self.read(|_, index| index.tombstone(id.as_str()))? {
            Some(tombstone) => ErrorKind::TaskDeleted { id: id.to_string(), seq: tombstone.seq },
            None => ErrorKind::NoTask { id: id.to_string() },
        };
        Ok(Error::new(kind, "read", Path::new("")))
    }

    /// Puts what is kept in blobs into a task's item.
    ///
    /// # Errors
    /// As [`Log::blob`].
    pub fn load(&self, snapshot: Snapshot) -> Result<Snapshot> {
        if !snapshot.task.item.has_blobs() {
            return Ok(snapshot);
        }
        let mut task = Task::clone(&snapshot.task);
        for (_, value) in task.item.fields_mut() {
            *value = self.value(value)?;
        }
        Ok(Snapshot { task: Arc::new(task), ..snapshot })
    }

    /// A value, read from its blob if it is kept in one.
    ///
    /// # Errors
    /// As [`Log::blob`].
    pub fn value(&self, value: &Value) -> Result<Value> {
        let Value::Blob { id, .. } = value else { return Ok(value.clone()) };
        let bytes = self.log().blob(id)?;
        let text = std::str::from_utf8(&bytes).map_err(|e| e.to_string());
        text.and_then(|text| Value::parse(text).map_err(|bad| bad.0)).map_err(|why| {
            let kind = ErrorKind::Invalid { what: "blob", why: format!("it is no JSON value: {why}") };
            Error::new(kind, "read", self.log().paths().dir())
        })
    }

    /// The tasks a query wants, one page of them.
    ///
    /// # Errors
    /// As [`Log::read`].
    pub fn list(&self, query: &Query) -> Result<Listing> {
        self.read(|state, index| Listing::of(state, index.list(query)))
    }

    /// A task and all below it, each with its depth, parents before children.
    ///
    /// # Errors
    /// As [`Log::read`].
    pub fn tree(&self, id: &str) -> Result<Vec<(usize, Snapshot)>> {
        self.read(|state, index| {
            index.tree(id).iter().map(|(depth, task)| (*depth, snapshot(state, task))).collect()
        })
    }

    /// Sums over a task and all below it.
    ///
    /// # Errors
    /// As [`Log::read`].
    pub fn totals(&self, id: &str) -> Result<Totals> {
        self.read(|_, index| index.totals(id))
    }

    /// All changes of a task that are still in the log, oldest first. Reads the log from its beginning. Up to the log's
    /// [horizon](Log::horizon()) some may be gone, each overwritten by a later one.
    ///
    /// # Errors
    /// [`ErrorKind::NoTask`] if there never was one; as [`Log::replay`].
    pub fn history(&self, id: &TaskId) -> Result<Vec<Change>> {
        let history =
            self.log().replay(|| History::of(id.as_str()), |history, _, commit| history.take_up(commit))?;
        let changes = history.into_changes();
        if changes.is_empty() {
            return Err(self.missing(id)?);
        }
        Ok(changes)
    }

    /// What is wrong with these tasks, by today's rules: what the fold met, and what they are now.
    ///
    /// # Errors
    /// As [`Log::read`].
    pub fn check(&self) -> Result<Vec<Finding>> {
        self.read(|_, index| {
            let dir = self.log().paths().dir();
            let all = index.findings().iter().cloned().chain(index.check());
            all.map(|finding| Finding { file: dir.to_path_buf(), ..finding }).collect()
        })
    }

    /// Creates a task. Its id is its item's.
    ///
    /// # Errors
    /// [`ErrorKind::TaskExists`], [`ErrorKind::TaskDeleted`], and as [`Tasks::commit`].
    pub fn create(&self, item: Item, options: impl Into<CommitOptions>) -> Result<Committed> {
        self.commit(vec![Op::Create { item, again: false }], options)
    }

    /// Changes fields of a task; all others stay.
    ///
    /// # Errors
    /// As [`Tasks::commit`].
    pub fn patch(&self, id: &TaskId, patch: Patch, options: impl Into<CommitOptions>) -> Result<Committed> {
        self.commit(vec![Op::Patch { id: id.clone(), patch }], options)
    }

    /// Gives a task a title.
    ///
    /// # Errors
    /// As [`Tasks::commit`].
    pub fn rename(&self, id: &TaskId, title: &str, options: impl Into<CommitOptions>) -> Result<Committed> {
        self.commit(vec![Op::Rename { id: id.clone(), title: title.into() }], options)
    }

    /// Gives a task another status. The same status again is a success that writes nothing.
    ///
    /// # Errors
    /// [`ErrorKind::StatusRefused`], and as [`Tasks::commit`].
    pub fn set_status(
        &self,
        id: &TaskId,
        status: Status,
        options: impl Into<CommitOptions>,
    ) -> Result<Committed> {
        self.commit(vec![Op::SetStatus { id: id.clone(), status }], options)
    }

    /// Brings an interrupted task back to active.
    ///
    /// # Errors
    /// [`ErrorKind::StatusRefused`], and as [`Tasks::commit`].
    pub fn resume(&self, id: &TaskId, options: impl Into<CommitOptions>) -> Result<Committed> {
        self.commit(vec![Op::Resume { id: id.clone() }], options)
    }

    /// Lets a parent wait for a child, which is created, or taken if it is there; both in one commit.
    ///
    /// # Errors
    /// [`ErrorKind::StatusRefused`], [`ErrorKind::Cycle`], and as [`Tasks::commit`].
    pub fn delegate(
        &self,
        parent: &TaskId,
        child: Item,
        options: impl Into<CommitOptions>,
    ) -> Result<Committed> {
        self.commit(vec![Op::Delegate { parent: parent.clone(), child }], options)
    }

    /// Completes a task; the parent that waits for it goes on with the summary, in the same commit.
    ///
    /// # Errors
    /// [`ErrorKind::NotWaiting`], [`ErrorKind::StatusRefused`], and as [`Tasks::commit`].
    pub fn complete(
        &self,
        id: &TaskId,
        summary: Option<&str>,
        options: impl Into<CommitOptions>,
    ) -> Result<Committed> {
        self.commit(vec![Op::Complete { id: id.clone(), summary: summary.map(Into::into) }], options)
    }

    /// Removes tasks, with `cascade` all below them too, in one commit. A parent that waited for one goes on.
    ///
    /// # Errors
    /// [`ErrorKind::Refused`] for a task with children if `cascade` is not given, and as [`Tasks::commit`].
    pub fn remove(
        &self,
        ids: &[TaskId],
        cascade: bool,
        options: impl Into<CommitOptions>,
    ) -> Result<Committed> {
        self.commit(vec![Op::Remove { ids: ids.to_vec(), cascade }], options)
    }

    /// Gives the workspace another status table.
    ///
    /// # Errors
    /// As [`Tasks::commit`].
    pub fn set_rules(&self, table: StatusTable, options: impl Into<CommitOptions>) -> Result<Committed> {
        self.commit(vec![Op::SetRules(table)], options)
    }

    /// Says how much of the history is kept, of the workspace or of a task; `None` takes back what was said.
    ///
    /// # Errors
    /// As [`Tasks::commit`].
    pub fn set_retention(
        &self,
        id: Option<&TaskId>,
        retention: Option<Retention>,
        options: impl Into<CommitOptions>,
    ) -> Result<Committed> {
        self.commit(vec![Op::SetRetention { id: id.cloned(), retention }], options)
    }

    /// Has a task's history kept whole, whatever else is set, or no longer.
    ///
    /// # Errors
    /// As [`Tasks::commit`].
    pub fn pin(&self, id: &TaskId, pinned: bool, options: impl Into<CommitOptions>) -> Result<Committed> {
        self.commit(vec![Op::Pin { id: id.clone(), pinned }], options)
    }

    /// What a commit of these changes would come to now, without making it: nothing is locked and nothing written.
    ///
    /// # Errors
    /// The rules' own; as [`Log::read`].
    pub fn judge(&self, ops: &[Op]) -> Result<Judged> {
        let mut ops = ops.to_vec();
        op::settle(&mut ops)?;
        let who = self.who(&self.read(|_, index| concerned(index, &ops))?)?;
        for _ in 0..TRIES_OUTRUN {
            let mut prepared = Prepared::default();
            self.prepare(&ops, None, false, &mut prepared)?;
            let judged = self.read(|_, index| {
                let mut events = 0;
                let (planned, judged) = Plan::of(index, &ops, &who, &prepared, &mut |_, _| {
                    events += 1;
                    events - 1
                });
                (planned.stale, judged.map(|()| Judged { events, imports: planned.imports }))
            })?;
            match judged {
                (true, Err(_)) => {}
                (_, judged) => return judged,
            }
        }
        Err(self.read(|state, _| documents::outrun(state, &ops))?)
    }

    /// Commits changes, all or nothing. They are judged under the lock on the latest state of all processes.
    ///
    /// # Errors
    /// [`ErrorKind::NoTask`], [`ErrorKind::TaskDeleted`], [`ErrorKind::RuledField`] and the verbs' own;
    /// [`ErrorKind::Conflict`] with the present state of each task whose expectation does not hold;
    /// [`ErrorKind::TooLarge`] before anything is written; as [`Log::commit`] and [`Log::put_blobs`].
    ///
    /// # Durability
    /// As the options say. Values over 64 KiB are durable before the commit is made.
    ///
    /// # Blocking
    /// As [`Log::commit`].
    pub fn commit(&self, mut ops: Vec<Op>, options: impl Into<CommitOptions>) -> Result<Committed> {
        let CommitOptions { durability, expect, documents, fences, op_id, seen } = options.into();
        op::settle(&mut ops)?;
        if self.left.load(Ordering::Relaxed) {
            self.begin();
        }
        let request = match op_id {
            Some(op_id) => {
                let seen = match seen {
                    Some(seen) => seen,
                    None => self.log().cached(State::last)?,
                };
                Some((op_id, op::request(&ops), seen))
            }
            None => None,
        };
        // Kept only where values are moved out of it, to be moved again should they be swept away before the commit.
        let whole = op::must_spill(&ops).then(|| ops.clone());
        let mut asked = Asked { ops, expect, documents, fences, request, ..Asked::default() };
        let mut tries = 0;
        loop {
            tries += 1;
            if whole.is_some() {
                op::spill(self.log(), &mut asked.ops)?;
            }
            self.prepare(&asked.ops, whole.as_ref(), true, &mut asked.prepared)?;
            if asked.ops.iter().any(|op| matches!(op, Op::Attach { .. }))
                && let Some(session) = self.log().session()
            {
                session.will_own(self.log().meta().log_id.0)?;
            }
            if asked.ops.iter().any(Op::asks_who_lives) {
                let sessions = self.read(|_, index| concerned(index, &asked.ops))?;
                asked.who = self.who(&sessions)?;
            }
            let error = match self.commit_asked(durability, &mut asked) {
                Ok(receipt) => return self.receipt(receipt, asked.planned),
                Err(error) => error,
            };
            match (error.kind(), &whole) {
                // A document was changed by others while a large value of it was made ready.
                _ if std::mem::take(&mut asked.prepared.stale) => {
                    if tries >= TRIES_OUTRUN {
                        return Err(self.read(|state, _| documents::outrun(state, &asked.ops))?);
                    }
                }
                (ErrorKind::BlobMissing { .. }, Some(whole)) if tries < TRIES => asked.ops = whole.clone(),
                (ErrorKind::BlobMissing { .. }, None) if tries < TRIES && asked.prepared.has_blobs() => {}
                // It has changed hands since it was asked who lives.
                (ErrorKind::Owned { session, .. }, _) if tries < TRIES && !asked.who.was_asked(*session) => {}
                _ => return Err(self.name_owner(error)),
            }
        }
    }

    /// [`Tasks::commit`] that waits for nothing, for a thread that must not: `None` = it would have had to wait, or to sync, and
    /// nothing was done; commit on another thread then.
    ///
    /// It waits where another process or thread is at it, where something must be synced first (a durable commit, a value
    /// over 64 KiB, a full segment, the first commit of a handle), where the log must be mended, where it has to be asked
    /// who lives ([`Op::Attach`], [`Op::Mend`]), where a document is changed, which may have to be loaded for its validator, and
    /// where the request has a name, since its first answer may be far back.
    ///
    /// # Errors
    /// As [`Tasks::commit`], but for [`ErrorKind::Busy`].
    ///
    /// # Durability
    /// As the options say.
    ///
    /// # Blocking
    /// For a write to the file, for what others have appended to be read, and up to 100 µs for a lock that others are about to give
    /// back. Microseconds, as a rule.
    pub fn try_commit(
        &self,
        mut ops: Vec<Op>,
        options: impl Into<CommitOptions>,
    ) -> Result<Option<Committed>> {
        // `seen` speaks of a request's name; all others are heeded.
        let CommitOptions { durability, expect, documents, fences, op_id, seen: _ } = options.into();
        op::settle(&mut ops)?;
        let waits = durability == Durability::Durable
            || op_id.is_some()
            || self.left.load(Ordering::Relaxed)
            || ops.iter().any(|op| op.asks_who_lives() || op.document().is_some())
            || op::must_spill(&ops);
        if waits {
            return Ok(None);
        }
        let mut asked = Asked { ops, expect, documents, fences, ..Asked::default() };
        let log = self.log();
        match log.try_commit(durability, &mut |state, draft| asked.plan(log, state, draft)) {
            None => Ok(None),
            Some(Ok(receipt)) => self.receipt(receipt, asked.planned).map(Some),
            Some(Err(error)) => Err(self.name_owner(error)),
        }
    }

    /// Waits until a commit that was made [`Durability::Buffered`] or [`Durability::Interval`] is durable, whoever makes it so;
    /// see [`Log::wait_durable`]. So many commits can be under way at once.
    ///
    /// # Errors
    /// As there.
    pub fn wait_durable(&self, committed: &Committed, patience: Duration) -> Result<()> {
        let Committed { first, count, cursor, behind, durable, again, .. } = *committed;
        let receipt = Receipt { first, count, revisions: Vec::new(), cursor, behind, durable, again };
        self.log().wait_durable(&receipt, patience)
    }

    /// Lends the log what was asked where it is run at once, and gives it away until it comes back where it must queue.
    fn commit_asked(&self, durability: Durability, asked: &mut Asked) -> Result<Receipt> {
        let log = self.log();
        let patience = log.settings().lock_timeout;
        if let Some(committed) = self.try_commit_asked(durability, patience, asked) {
            return committed;
        }
        let lent = Arc::new(Mutex::new(std::mem::take(asked)));
        let (for_closure, for_plan) = (Arc::clone(&lent), Arc::clone(log));
        let committed =
            log.commit(durability, move |state, draft| lock(&for_closure).plan(&for_plan, state, draft));
        *asked = std::mem::take(&mut *lock(&lent));
        committed
    }

    /// The same without queueing: `None` if somebody in this process is at it.
    fn try_commit_asked(
        &self,
        durability: Durability,
        patience: Duration,
        asked: &mut Asked,
    ) -> Option<Result<Receipt>> {
        let log = self.log();
        log.commit_at_once(durability, patience, &mut |state, draft| asked.plan(log, state, draft))
    }

    fn receipt(&self, receipt: Receipt, planned: Planned) -> Result<Committed> {
        let Planned { changed, fences, imports, documents, .. } = planned;
        let epoch = receipt.cursor.epoch;
        let token = |revision, seq| Token { revision, at: Cursor { seq, epoch } };
        let (tasks, fences, imports, documents) = if receipt.again {
            let FirstAnswer { tasks, fences, documents } = self.first_answer(receipt.first)?;
            let tasks = tasks.into_iter().map(|(id, revision, seq)| (id, token(revision, seq))).collect();
            let documents =
                documents.into_iter().map(|(name, revision, seq)| (name, token(revision, seq))).collect();
            (tasks, fences, Vec::new(), documents)
        } else {
            let mut tasks = changed;
            for (_, at) in &mut tasks {
                let place = at.at.seq.0;
                let revision = usize::try_from(place).ok().and_then(|place| receipt.revisions.get(place));
                *at = token(revision.copied().unwrap_or_default(), Seq(receipt.first.0 + place));
            }
            let documents = match documents.named.is_empty() {
                true => Vec::new(),
                false => self.log().cached(|state| {
                    documents.tokens(&receipt.revisions, receipt.first, |seq| state.cursor_at(seq))
                })?,
            };
            (tasks, fences, imports, documents)
        };
        let Receipt { first, count, cursor, behind, durable, again, .. } = receipt;
        Ok(Committed { first, count, cursor, behind, durable, again, tasks, fences, imports, documents })
    }

    /// The tasks that the commit which begins with this event changed, as it left them, and the fences it gave out.
    fn first_answer(&self, first: Seq) -> Result<FirstAnswer> {
        self.log().replay(FirstAnswer::default, |found: &mut FirstAnswer, seq, commit| {
            if seq != first {
                return;
            }
            for event in commit.events().filter(|e| e.revision.0 > 0) {
                if event.key_kind == KeyKind::DOCUMENT {
                    let name = DocumentName::of_log(event.key);
                    found.documents.retain(|(known, ..)| *known != name);
                    found.documents.push((name, event.revision, event.seq));
                }
                if event.key_kind != KeyKind::TASK {
                    continue;
                }
                let id = TaskId::of_log(event.key);
                if let Ok(Some(Event::Attached(fence))) = Event::decode(&event) {
                    found.fences.push((id.clone(), fence));
                }
                found.tasks.retain(|(known, ..)| *known != id);
                found.tasks.push((id, event.revision, event.seq));
            }
        })
    }
}

/// What a commit that was made before had come to.
#[derive(Default)]
struct FirstAnswer {
    tasks: Vec<(TaskId, Revision, Seq)>,
    fences: Vec<(TaskId, Fence)>,
    documents: Vec<(DocumentName, Revision, Seq)>,
}

fn snapshot(state: &State, task: &Arc<Task>) -> Snapshot {
    Snapshot {
        task: Arc::clone(task),
        token: Token { revision: task.revision, at: state.cursor_at(task.seq) },
    }
}

/// What a commit's closure takes with it under LOCK, and what it leaves.
#[derive(Default)]
struct Asked {
    ops: Vec<Op>,
    expect: Vec<(TaskId, TaskExpect)>,
    documents: Vec<(DocumentName, DocumentExpect)>,
    fences: Vec<(TaskId, Fence)>,
    request: Option<(OpId, [u8; 32], Seq)>,
    who: Who,
    prepared: Prepared,
    planned: Planned,
}

fn lock(asked: &Mutex<Asked>) -> MutexGuard<'_, Asked> {
    asked.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Asked {
    /// Judges the operations on the latest state and drafts their events. Runs under LOCK.
    fn plan(&mut self, log: &Log, state: &State, draft: &mut Draft) -> Result<()> {
        if let Some((op_id, request, seen)) = self.request {
            draft.operation(op_id, &request, seen);
            // Named before anything can refuse: where nobody knows any more whether it was applied, the answer has their state.
            for id in self.ops.iter().flat_map(Op::touches) {
                draft.expect(id, Expect::Any);
            }
        }
        let Some(index) = state.folded::<Index>() else {
            return Err(Error::refused("the fold of tasks is missing"));
        };
        self.check_expectations(state, index)?;
        self.check_fences(index)?;
        let introduced = introduce(log, index, draft);
        let mut at = introduced;
        let push = &mut |key, event: Event| {
            draft.push(event.to_new(key).meaning(Box::new(event)));
            at += 1;
            at - 1
        };
        let (mut planned, judged) = Plan::of(index, &self.ops, &self.who, &self.prepared, push);
        self.prepared.stale = planned.stale;
        judged?;
        // Who has nothing to say does not introduce itself, and a commit that is full leaves that to the next.
        if introduced > 0 && (at == introduced || at > usize::from(MAX_COUNT)) {
            draft.retract(introduced);
            for (_, token) in &mut planned.changed {
                token.at.seq.0 -= introduced as u64;
            }
            planned.documents.shift(introduced);
        }
        self.planned = planned;
        Ok(())
    }

    fn check_fences(&self, index: &Index) -> Result<()> {
        self.fences.iter().try_for_each(|(id, fence)| match index.entry(id.as_str()) {
            Some(Entry::Live(task)) => check_fence(&task, *fence),
            Some(Entry::Dead(tombstone)) => {
                refuse(ErrorKind::TaskDeleted { id: id.to_string(), seq: tombstone.seq })
            }
            None => refuse(ErrorKind::NoTask { id: id.to_string() }),
        })
    }

    fn check_expectations(&self, state: &State, index: &Index) -> Result<()> {
        let mut conflicts = Vec::new();
        for (id, expected) in &self.expect {
            if matches!(expected, TaskExpect::Exists)
                && let Some(tombstone) = index.tombstone(id.as_str())
            {
                let kind = ErrorKind::TaskDeleted { id: id.to_string(), seq: tombstone.seq };
                return Err(Error::new(kind, "commit", Path::new("")));
            }
            let Err(mut conflict) = state.check(&id.key(), expected.to_log()) else { continue };
            if conflicts.len() >= CONFLICTS_TOLD
                && let Some(current) = &mut conflict.current
            {
                current.folded = None;
            }
            conflicts.push(*conflict);
        }
        self.check_documents(state, index, &mut conflicts)?;
        if conflicts.is_empty() {
            Ok(())
        } else {
            Err(Error::new(ErrorKind::Conflict(conflicts), "commit", Path::new("")))
        }
    }
}

/// Who writes here for the first time says so before anything else: what its session's file says will be gone one day.
/// Returns how many events that takes.
fn introduce(log: &Log, index: &Index, draft: &mut Draft) -> usize {
    let Some(session) = log.session().filter(|session| index.writer(session.id()).is_none()) else {
        return 0;
    };
    let (label, pid) = (session.label(), session.pid());
    let version = env!("CARGO_PKG_VERSION").into();
    let started = Event::SessionStarted { label, version, pid };
    draft.push(started.to_new(session_key(session.id())));
    for binding in log.meta().bindings.iter().filter(|binding| !index.bindings().contains(binding)) {
        draft.push(Event::WorkspaceBound(binding.clone()).to_new(Key::none()));
    }
    draft.count()
}
