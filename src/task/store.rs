//! All tasks of a store, whichever workspace they are at home in.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use super::documents::Validators;
use super::{CommitOptions, Committed, Op, Snapshot, TaskExpect, Tasks};
use crate::error::{Error, ErrorKind, Result};
use crate::event::{Field, Item, TaskId, vocabulary};
use crate::log::Seq;
use crate::session::Info;
use crate::store::{Options, Place, Store};
use crate::view::Index;

/// A store's tasks. Cheap to clone.
///
/// A task's home is the workspace it was created in; that never changes, whatever its field `workspace` says. A child's
/// is its parent's. A commit touches one workspace.
#[derive(Clone, Debug)]
pub struct TaskStore {
    pub(super) store: Store,
    homes: Arc<Mutex<BTreeMap<String, Tasks>>>,
    pub(super) validators: Validators,
}

/// A task, and where it is at home.
#[derive(Clone, Debug)]
pub struct Located {
    /// Its home.
    pub home: Tasks,
    /// The task.
    pub found: Snapshot,
}

impl TaskStore {
    /// Opens the store in a folder, for tasks.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn open(root: impl AsRef<Path>, options: Options) -> Result<Self> {
        Ok(Self::of(Store::open(root, Self::options(options))?))
    }

    /// A store in memory, gone with its last handle.
    ///
    /// # Errors
    /// As [`Store::memory`].
    pub fn memory(options: Options) -> Result<Self> {
        Ok(Self::of(Store::memory(Self::options(options))?))
    }

    /// The tasks of a store that was opened with [`TaskStore::options`].
    pub fn of(store: Store) -> Self {
        TaskStore { store, homes: Arc::default(), validators: Validators::default() }
    }

    /// Options with the vocabulary and the fold of tasks.
    pub fn options(options: Options) -> Options {
        options.vocabulary(vocabulary()).fold(Index::kind())
    }

    /// The store itself.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The tasks of a folder or key; its workspace is made if it is absent and the store may create.
    ///
    /// # Errors
    /// As [`Store::workspace`].
    pub fn home(&self, place: &Place) -> Result<Tasks> {
        match self.store.find_workspace(place)? {
            Some(name) => self.named(&name),
            None => self.keep(Tasks::of(self.store.workspace(place)?)?),
        }
    }

    /// The tasks of a workspace by its folder's name.
    ///
    /// # Errors
    /// As [`Store::workspace_named`].
    pub fn named(&self, name: &str) -> Result<Tasks> {
        let known = self.homes.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned();
        match known {
            Some(tasks) => Ok(tasks),
            None => self.keep(Tasks::of(self.store.workspace_named(name)?)?),
        }
    }

    fn keep(&self, tasks: Tasks) -> Result<Tasks> {
        let tasks = Tasks { validators: self.validators.clone(), ..tasks };
        let name = tasks.workspace().name().to_owned();
        let kept = {
            let mut homes = self.homes.lock().unwrap_or_else(PoisonError::into_inner);
            homes.entry(name).or_insert(tasks).clone()
        };
        kept.begin();
        self.sweep_sessions();
        Ok(kept)
    }

    /// Removes the files of dead sessions that own nothing any more, where all the workspaces that they took part in are
    /// open here. What cannot be told stays, for whoever can tell.
    fn sweep_sessions(&self) {
        let homes: Vec<Tasks> =
            self.homes.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect();
        let keeps = |log: &[u8; 16], session| {
            let home = homes.iter().find(|home| home.log().meta().log_id.0 == *log);
            !home.is_some_and(|home| home.is_rid_of(session))
        };
        let owns = |info: Option<&Info>| {
            info.is_none_or(|info| info.owns.iter().any(|log| keeps(log, info.session)))
        };
        // A file that stays is looked at again by the next open.
        let _ = self.store.sweep_sessions(owns);
    }

    /// Lets go of a workspace whose files were replaced underneath: the next call opens what stands there now.
    fn forget(&self, home: &Tasks, error: &Error) {
        if matches!(error.kind(), ErrorKind::StoreReplaced { .. }) {
            self.homes.lock().unwrap_or_else(PoisonError::into_inner).remove(home.workspace().name());
        }
    }

    /// All workspaces, by their folders' names; one that cannot be opened keeps the others from nothing.
    ///
    /// # Errors
    /// System errors in listing.
    pub fn homes(&self) -> Result<Vec<(String, Result<Tasks>)>> {
        // Names only: what is open already is not read again.
        let names = self.store.workspace_names()?;
        Ok(names.into_iter().map(|name| (name.clone(), self.named(&name))).collect())
    }

    /// A task, wherever it is at home. One id in two workspaces is found twice: both are shown, neither is hidden.
    ///
    /// # Errors
    /// Of a workspace that cannot be read, if the task is in none of the others: it might be there.
    pub fn get(&self, id: &str) -> Result<Vec<Located>> {
        let (mut all, mut unread) = (Vec::new(), None);
        for (_, home) in self.homes()? {
            match home.and_then(|home| Ok((home.get(id)?, home))) {
                Ok((Some(found), home)) => all.push(Located { home, found }),
                Ok((None, _)) => {}
                Err(e) => unread = unread.or(Some(e)),
            }
        }
        match unread {
            Some(e) if all.is_empty() => Err(e),
            _ => Ok(all),
        }
    }

    /// Where a task is, its values not looked at: a blob that is missing keeps nobody from finding its task.
    fn look(&self, id: &str) -> Result<Found> {
        let mut found = Found::default();
        for (_, home) in self.homes()? {
            let looked = home.and_then(|home| {
                let entry = home.read(|_, index| index.entry(id).map(|e| (e.live().is_some(), e.seq())));
                Ok((entry.inspect_err(|e| self.forget(&home, e))?, home))
            });
            match looked {
                Ok((Some((true, _)), home)) => found.live.push(home),
                Ok((Some((false, seq)), home)) => found.dead.push((home, seq)),
                Ok((None, _)) => {}
                Err(e) => found.unread = found.unread.or(Some(e)),
            }
        }
        Ok(found)
    }

    /// The one workspace a task is at home in.
    ///
    /// # Errors
    /// [`ErrorKind::NoTask`], [`ErrorKind::TaskDeleted`]; [`ErrorKind::CrossWorkspace`] if it is in two.
    pub fn home_of(&self, id: &TaskId) -> Result<Tasks> {
        let Found { live, dead, unread } = self.look(id.as_str())?;
        let mut live = live.into_iter();
        match (live.next(), live.next(), unread, dead) {
            (Some(one), None, ..) => Ok(one),
            (Some(one), Some(other), ..) => Err(cross((id, &one), (id, &other))),
            (None, _, Some(unread), _) => Err(unread),
            (None, _, None, dead) => {
                let id = id.to_string();
                let kind = match dead.first() {
                    Some((_, seq)) => ErrorKind::TaskDeleted { id, seq: *seq },
                    None => ErrorKind::NoTask { id },
                };
                Err(Error::new(kind, "find", self.store.root()))
            }
        }
    }

    /// The workspace that knows of a task: where it lives, else where it was deleted. A request that was applied before,
    /// to a task that has gone since, finds its answer there.
    ///
    /// # Errors
    /// As [`TaskStore::home_of`], but for [`ErrorKind::TaskDeleted`].
    pub fn known_home_of(&self, id: &TaskId) -> Result<Tasks> {
        match self.home_of(id) {
            Err(e) if matches!(e.kind(), ErrorKind::TaskDeleted { .. }) => self.grave(id)?.ok_or(e),
            home => home,
        }
    }

    /// Where a task was deleted. A workspace that cannot be read has been told of by whoever looked for the living.
    fn grave(&self, id: &TaskId) -> Result<Option<Tasks>> {
        Ok(self.look(id.as_str())?.dead.into_iter().next().map(|(home, _)| home))
    }

    /// Creates a task: at home where its parent is, if it names one that is there, else in `place`.
    ///
    /// # Errors
    /// As [`Tasks::create`]; [`ErrorKind::TaskExists`] if any workspace has a task of this id, [`ErrorKind::TaskDeleted`] if
    /// any had one.
    pub fn create(
        &self,
        place: &Place,
        item: Item,
        options: impl Into<CommitOptions>,
    ) -> Result<(Tasks, Committed)> {
        let home = match parent_of(&item)? {
            Some(parent) => self.known_home_of(&parent)?,
            None => self.home(place)?,
        };
        self.not_elsewhere(&item, false, &home)?;
        let committed = home.create(item, options).inspect_err(|e| self.forget(&home, e))?;
        Ok((home, committed))
    }

    /// The same where a deleted task of this id may come to life again: without a parent it does so where it was.
    ///
    /// # Errors
    /// As [`TaskStore::create`].
    pub fn create_again(
        &self,
        place: &Place,
        item: Item,
        options: impl Into<CommitOptions>,
    ) -> Result<(Tasks, Committed)> {
        let id = item.text(&Field::Id).map(|id| TaskId::new(&id)).transpose()?;
        let home = match (parent_of(&item)?, id.map(|id| self.grave(&id)).transpose()?.flatten()) {
            (Some(parent), _) => self.known_home_of(&parent)?,
            (None, Some(grave)) => grave,
            (None, None) => self.home(place)?,
        };
        self.not_elsewhere(&item, true, &home)?;
        let again = vec![Op::Create { item, again: true }];
        let committed = home.commit(again, options).inspect_err(|e| self.forget(&home, e))?;
        Ok((home, committed))
    }

    /// Refuses an id that is taken in another workspace, by a task or, unless it may come `again`, by one that was deleted:
    /// a look before the commit, not a promise.
    fn not_elsewhere(&self, item: &Item, again: bool, home: &Tasks) -> Result<()> {
        let Some(id) = item.text(&Field::Id) else { return Ok(()) };
        // A workspace that cannot be read, damaged for good perhaps, keeps nobody from creating tasks in another.
        let Found { live, dead, .. } = self.look(&id)?;
        let name = home.workspace().name();
        let is_other = |tasks: &Tasks| tasks.workspace().name() != name;
        let refuse =
            |other: &Tasks, kind| Err(Error::new(kind, "create in", other.workspace().log().paths().dir()));
        if let Some(other) = live.iter().find(|other| is_other(other)) {
            return refuse(other, ErrorKind::TaskExists { id: id.into_owned() });
        }
        if let Some((other, seq)) = dead.iter().find(|(other, _)| !again && is_other(other)) {
            return refuse(other, ErrorKind::TaskDeleted { id: id.into_owned(), seq: *seq });
        }
        Ok(())
    }

    /// Commits changes of tasks that are all at home in one workspace, whichever that is.
    ///
    /// # Errors
    /// [`ErrorKind::CrossWorkspace`] before anything is written; as [`Tasks::commit`]. [`Op::Create`] and
    /// [`Op::SetRules`] name no task that is there: [`ErrorKind::Invalid`] if no other operation tells the workspace.
    pub fn commit(&self, ops: Vec<Op>, options: impl Into<CommitOptions>) -> Result<(Tasks, Committed)> {
        let mut home: Option<(TaskId, Tasks)> = None;
        let options = options.into();
        let named: Vec<TaskId> = ops
            .iter()
            .flat_map(|op| op.ids())
            .chain(options.expect.iter().filter(|(_, e)| *e != TaskExpect::Absent).map(|(id, _)| id))
            .cloned()
            .collect();
        let made: Vec<String> = ops.iter().filter_map(created).collect();
        for id in named.iter().filter(|id| !made.iter().any(|made| made == id.as_str())) {
            let next = self.known_home_of(id)?;
            match &home {
                None => home = Some((id.clone(), next)),
                Some((_, home)) if home.workspace().name() == next.workspace().name() => {}
                Some((first, home)) => return Err(cross((first, home), (id, &next))),
            }
        }
        let Some((_, home)) = home else {
            let why = "it names no task that is there; say which workspace is meant".into();
            return Err(Error::new(
                ErrorKind::Invalid { what: "commit", why },
                "commit to",
                self.store.root(),
            ));
        };
        for op in &ops {
            match op {
                Op::Delegate { child, .. } => self.not_elsewhere(child, false, &home)?,
                Op::Create { item, again } => self.not_elsewhere(item, *again, &home)?,
                _ => {}
            }
        }
        let committed = home.commit(ops, options).inspect_err(|e| self.forget(&home, e))?;
        Ok((home, committed))
    }
}

fn parent_of(item: &Item) -> Result<Option<TaskId>> {
    item.text(&Field::ParentTaskId).filter(|id| !id.is_empty()).map(|id| TaskId::new(&id)).transpose()
}

/// Where a task was found.
#[derive(Debug, Default)]
struct Found {
    live: Vec<Tasks>,
    /// Where it was deleted, and by which event.
    dead: Vec<(Tasks, Seq)>,
    /// Why a workspace could not be asked.
    unread: Option<Error>,
}

/// The task that an operation makes.
fn created(op: &Op) -> Option<String> {
    match op {
        Op::Create { item, .. } | Op::Delegate { child: item, .. } => {
            item.text(&Field::Id).map(|id| id.into_owned())
        }
        _ => None,
    }
}

fn cross(one: (&TaskId, &Tasks), other: (&TaskId, &Tasks)) -> Error {
    let name = |tasks: &Tasks| tasks.workspace().name().to_owned();
    let kind = ErrorKind::CrossWorkspace {
        ids: (one.0.to_string(), other.0.to_string()),
        homes: (name(one.1), name(other.1)),
    };
    Error::new(kind, "commit", Path::new(""))
}
