//! Who runs a task: attach, detach, abandon, and the repair of delegations whose runner is dead.
//!
//! The rules are pure, like all of `rules`: whose death is proven stands in [`Who`], and a proof never goes stale.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::rules::{Plan, refuse, refused};
use super::{Asked, CommitOptions, Committed, Op, Tasks};
use crate::error::{Error, ErrorKind, Result};
use crate::event::{Cause, Event, Fence, Field, Status, TaskId, Value};
use crate::log::{Durability, Receipt, Status as Health};
use crate::session::{Info, Liveness};
use crate::view::{Index, Task};

/// What the parent gets where a completed child has left no summary.
const RECOVERED: &str = "Task completed (recovered after interruption)";

/// Who asks, and who is known to be dead.
#[derive(Clone, Debug, Default)]
pub(super) struct Who {
    /// The session that commits; 0 = none.
    pub(super) me: u64,
    /// Sessions that are proven dead.
    dead: Vec<u64>,
    /// All that were asked.
    asked: Vec<u64>,
}

impl Who {
    pub(super) fn was_asked(&self, session: u64) -> bool {
        self.asked.contains(&session)
    }

    fn is_dead(&self, session: u64) -> bool {
        self.dead.contains(&session)
    }
}

/// What is wrong with a delegation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The parent is delegated and waits for nobody.
    NobodyAwaited,
    /// It waits for a task that is not there.
    ChildMissing(TaskId),
    /// It waits for a task that is completed.
    ChildDone(TaskId),
    /// It waits for a task that is active, and nobody who lives runs that.
    ChildOrphaned(TaskId),
}

impl Fault {
    /// Of a delegation, if it is as it can only be after a fault, or if nobody runs the child. Who runs it, and whether that
    /// one lives, is not looked at.
    fn of(parent: &Task, get: impl Fn(&str) -> Option<Arc<Task>>) -> Option<Self> {
        if parent.status() != Status::Delegated {
            return None;
        }
        let Some(awaited) = parent.awaiting() else { return Some(Fault::NobodyAwaited) };
        let Some(child) = get(&awaited) else { return Some(Fault::ChildMissing(TaskId::of_log(&awaited))) };
        match child.status() {
            Status::Completed => Some(Fault::ChildDone(child.id.clone())),
            Status::Active => Some(Fault::ChildOrphaned(child.id.clone())),
            Status::Interrupted | Status::Delegated => None,
        }
    }

    /// By whose life it is judged: the active child's owner, else the parent's.
    fn owner(&self, parent: &Task, get: impl Fn(&str) -> Option<Arc<Task>>) -> Option<Fence> {
        match self {
            Fault::ChildOrphaned(child) => get(child.as_str())?.owner(),
            _ => parent.owner(),
        }
    }

    /// Its name for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Fault::NobodyAwaited => "nobody-awaited",
            Fault::ChildMissing(_) => "child-missing",
            Fault::ChildDone(_) => "child-done",
            Fault::ChildOrphaned(_) => "child-orphaned",
        }
    }

    /// The child it is about.
    pub fn child(&self) -> Option<&TaskId> {
        match self {
            Fault::NobodyAwaited => None,
            Fault::ChildMissing(child) | Fault::ChildDone(child) | Fault::ChildOrphaned(child) => Some(child),
        }
    }
}

/// A delegation that nobody who lives will bring to an end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Orphan {
    /// The parent that waits.
    pub parent: TaskId,
    /// What is wrong.
    pub fault: Fault,
    /// Who held the task by whose life it is judged (the active child's, else the parent's); `None` = nobody ever did, or it
    /// was given back.
    pub owner: Option<Fence>,
    /// Whether that session is proven dead; one that is not is unknown.
    pub dead: bool,
}

impl Plan<'_> {
    pub(super) fn attach(&mut self, id: &TaskId) -> Result<()> {
        let task = self.live(id)?;
        let me = self.who.me;
        if me == 0 {
            let reason = "the store was opened without a session, and only a session can hold a task".into();
            return refuse(ErrorKind::ReadOnly { reason });
        }
        if let Some(owner) = task.owner()
            && owner.session != me
            && !self.who.is_dead(owner.session)
        {
            return refuse(ErrorKind::Owned {
                id: id.to_string(),
                session: owner.session,
                owner: format!("session {:016x}", owner.session),
                liveness: Liveness::Unknown.name(),
            });
        }
        let fence = Fence { number: next(&task)?, session: me };
        self.emit(id, Event::Attached(fence));
        self.planned.fences.push((id.clone(), fence));
        Ok(())
    }

    pub(super) fn detach(&mut self, id: &TaskId, fence: Fence) -> Result<()> {
        let task = self.live(id)?;
        check_fence(&task, fence)?;
        self.emit(id, Event::Detached { fence: fence.number });
        Ok(())
    }

    pub(super) fn abandon(&mut self, id: &TaskId) -> Result<()> {
        let task = self.live(id)?;
        let parent = self.waiting_parent(&task).map(|parent| parent.id.clone());
        let (from, to) = (task.status(), Status::Interrupted);
        if parent.is_some() && matches!(from, Status::Active | Status::Delegated) {
            self.may_pass(&task, to)?;
            self.emit(id, Event::StatusChanged { from, to, cause: Cause::Abandoned });
        }
        let (session, fence) = (task.fence.session, next(&task)?);
        self.emit(id, Event::Abandoned { session, fence, severed: parent.is_some() });
        if let Some(parent) = parent {
            self.emit(&parent, freed(Cause::Abandoned));
        }
        Ok(())
    }

    /// Brings a delegation to an end that nobody else will. Where there is nothing to be mended (any more), or somebody
    /// lives who may do it, nothing happens.
    pub(super) fn mend(&mut self, id: &TaskId, unowned: bool) -> Result<()> {
        let parent = self.live(id)?;
        let get = |id: &str| self.get(id);
        let Some(fault) = Fault::of(&parent, get) else { return Ok(()) };
        match fault.owner(&parent, get) {
            Some(owner) if !self.who.is_dead(owner.session) => return Ok(()),
            None if !unowned => return Ok(()),
            _ => {}
        }
        match &fault {
            Fault::NobodyAwaited | Fault::ChildMissing(_) => self.emit(id, freed(Cause::Mended)),
            Fault::ChildDone(child) => {
                let summary = self.live(child)?.item.get(&Field::CompletionResultSummary).cloned();
                let summary = Some(summary.unwrap_or_else(|| Value::from(RECOVERED)));
                self.emit(id, Event::ChildReturned { child: child.clone(), summary });
            }
            Fault::ChildOrphaned(child) => {
                let (from, to, cause) = (Status::Active, Status::Interrupted, Cause::Orphaned);
                self.emit(child, Event::StatusChanged { from, to, cause });
                self.take_from_the_dead(child)?;
                self.emit(id, freed(cause));
            }
        }
        // It is active now and nobody runs it: whoever waits for it in turn waits for a person, not for another repair.
        self.take_from_the_dead(id)
    }

    fn take_from_the_dead(&mut self, id: &TaskId) -> Result<()> {
        let task = self.live(id)?;
        if task.owner().is_some_and(|owner| self.who.is_dead(owner.session)) {
            let (session, fence) = (task.fence.session, next(&task)?);
            self.emit(id, Event::Abandoned { session, fence, severed: false });
        }
        Ok(())
    }
}

fn owned_in(index: &Index, session: u64) -> impl Iterator<Item = Arc<Task>> {
    index.owned().filter(move |task| task.owner().is_some_and(|owner| owner.session == session))
}

fn freed(cause: Cause) -> Event {
    Event::StatusChanged { from: Status::Delegated, to: Status::Active, cause }
}

/// The number that no fence of the task has had.
fn next(task: &Task) -> Result<u64> {
    task.fence.number.checked_add(1).map_or_else(
        || refused(task, task.status(), "its fences are used up; create it anew under another id".into()),
        Ok,
    )
}

/// Refuses who holds a task no more.
pub(super) fn check_fence(task: &Task, fence: Fence) -> Result<()> {
    if task.owner() == Some(fence) {
        return Ok(());
    }
    refuse(ErrorKind::Fenced {
        id: task.id.to_string(),
        fence: fence.to_string(),
        current: match task.owner() {
            Some(owner) => format!("it is held by the fence {owner}"),
            None => format!("nobody holds it, and its last fence was {}", task.fence.number),
        },
    })
}

/// The sessions on whose life an operation may depend.
pub(super) fn concerned(index: &Index, ops: &[Op]) -> Vec<u64> {
    let mut found = Vec::new();
    for op in ops {
        let (id, waits) = match op {
            Op::Attach { id } => (id, false),
            Op::Mend { parent, .. } => (parent, true),
            _ => continue,
        };
        let Some(task) = index.get(id.as_str()) else { continue };
        found.extend(task.owner());
        if let Some(child) = task.awaiting().filter(|_| waits).and_then(|child| index.get(&child)) {
            found.extend(child.owner());
        }
    }
    found.into_iter().map(|fence| fence.session).collect()
}

impl Tasks {
    /// Attaches this process's session to a task: it runs it from now on, by the fence that is given back. A commit that
    /// [carries](CommitOptions::fence()) the fence is refused from the moment on at which the task changes hands: by
    /// `abandon`, a deletion, another `attach`, a `detach`.
    ///
    /// Attached again by the same session it gets a new fence: what an earlier instance still saves is refused.
    ///
    /// # Errors
    /// [`ErrorKind::Owned`] if another session holds it that is not proven dead; [`ErrorKind::Refused`] if this very request
    /// was applied before, by another session: that one holds it, not this. As [`Tasks::commit`].
    ///
    /// # Blocking
    /// As [`Tasks::commit`]; a few milliseconds more to ask whether another session lives.
    pub fn attach(&self, id: &TaskId, options: impl Into<CommitOptions>) -> Result<(Fence, Committed)> {
        let committed = self.commit(vec![Op::Attach { id: id.clone() }], options)?;
        let me = self.log().session().map_or(0, |session| session.id());
        match committed.fence(id) {
            Some(fence) if fence.session == me => Ok((fence, committed)),
            // Only a request that was applied before could come here, and was another session's, or has no events any more.
            _ => Err(Error::refused(format!("{id} was attached by this request before; attach it anew"))),
        }
    }

    /// Gives a task back: nobody runs it from now on.
    ///
    /// # Errors
    /// [`ErrorKind::Fenced`] if the fence holds no more; as [`Tasks::commit`].
    pub fn detach(&self, id: &TaskId, fence: Fence, options: impl Into<CommitOptions>) -> Result<Committed> {
        self.commit(vec![Op::Detach { id: id.clone(), fence }], options)
    }

    /// Takes a task from whoever holds it, alive or not. If its parent waits for it, that goes on, and the task is
    /// interrupted and nobody's child any more, in the same commit.
    ///
    /// # Errors
    /// [`ErrorKind::StatusRefused`] if the status table does not let a delegated task be interrupted; as [`Tasks::commit`].
    pub fn abandon(&self, id: &TaskId, options: impl Into<CommitOptions>) -> Result<Committed> {
        self.commit(vec![Op::Abandon { id: id.clone() }], options)
    }

    /// The delegations that nobody who lives will bring to an end, by their parents. Changes nothing.
    ///
    /// # Errors
    /// As [`crate::log::Log::read`]; system errors of asking who lives.
    pub fn orphans(&self) -> Result<Vec<Orphan>> {
        let mut found = self.read(|_, index| {
            let get = |id: &str| index.get(id);
            let mut found: Vec<Orphan> = index
                .of_status(Status::Delegated)
                .filter_map(|parent| {
                    let fault = Fault::of(&parent, get)?;
                    let owner = fault.owner(&parent, get);
                    Some(Orphan { parent: parent.id.clone(), fault, owner, dead: false })
                })
                .collect();
            found.sort_unstable_by(|a, b| a.parent.cmp(&b.parent));
            found
        })?;
        let me = self.log().session().map_or(0, |session| session.id());
        let mut known = BTreeMap::new();
        for session in found.iter().filter_map(|orphan| orphan.owner).map(|fence| fence.session) {
            if session != me && !known.contains_key(&session) {
                known.insert(session, self.workspace.liveness(session)?.0);
            }
        }
        let liveness = |owner: &Fence| known.get(&owner.session).copied().unwrap_or(Liveness::Alive);
        found.retain(|orphan| !orphan.owner.is_some_and(|owner| liveness(&owner) == Liveness::Alive));
        for orphan in &mut found {
            orphan.dead = orphan.owner.is_some_and(|owner| liveness(&owner) == Liveness::Dead);
        }
        Ok(found)
    }

    /// Mends the [orphans](Tasks::orphans) whose owner is a session that is proven dead, with `unowned` those too that
    /// nobody has ever attached to: an active child is interrupted and its parent goes on; a parent that waits for nobody,
    /// or for a task that is not there, goes on; one whose child is completed gets its result. Each in one commit that
    /// looks again under the lock, so that it happens once, by one process. What is owned by a session of which nobody
    /// knows whether it lives stays; [`Tasks::abandon`] is for that.
    ///
    /// Returns those that were mended here.
    ///
    /// # Errors
    /// As [`Tasks::commit`], at the first that fails; those before it are mended.
    pub fn mend_orphans(&self, unowned: bool, options: impl Into<CommitOptions>) -> Result<Vec<Orphan>> {
        let options = options.into();
        let mut mended = Vec::new();
        for orphan in self.orphans()? {
            if !(orphan.dead || unowned && orphan.owner.is_none()) {
                continue;
            }
            let op = Op::Mend { parent: orphan.parent.clone(), unowned };
            match self.commit(vec![op], options.clone()) {
                Ok(committed) if committed.count > 0 => mended.push(orphan),
                // Somebody else has mended it, or the parent has gone.
                Ok(_) => {}
                Err(e) if matches!(e.kind(), ErrorKind::NoTask { .. } | ErrorKind::TaskDeleted { .. }) => {}
                Err(e) => return Err(e),
            }
        }
        Ok(mended)
    }

    /// Mends what the dead have left, as far as that can be had without waiting for anybody. What cannot is done by the next
    /// commit made here, or by whoever opens the workspace next.
    pub(super) fn begin(&self) {
        if self.log().session().is_none() || !self.left.swap(false, Ordering::AcqRel) {
            return;
        }
        let Ok(orphans) = self.orphans() else { return };
        for orphan in orphans.into_iter().filter(|orphan| orphan.dead) {
            let mend = Op::Mend { parent: orphan.parent, unowned: false };
            // The parent's owner too: of a chain whose runners are dead the innermost is mended, and nothing more later.
            let asked = self.read(|_, index| concerned(index, std::slice::from_ref(&mend)));
            let mended = match asked.and_then(|sessions| self.who(&sessions)) {
                Ok(who) => self.commit_if_free(mend, who),
                Err(e) => Some(Err(e)),
            };
            match mended {
                Some(Ok(_)) => {}
                Some(Err(e)) if !matches!(e.kind(), ErrorKind::Busy { .. }) => {}
                _ => self.left.store(true, Ordering::Release),
            }
        }
    }

    fn commit_if_free(&self, op: Op, who: Who) -> Option<Result<Receipt>> {
        let mut asked = Asked { ops: vec![op], who, ..Asked::default() };
        self.try_commit_asked(Durability::Buffered, Duration::ZERO, &mut asked)
    }

    /// The tasks that a session holds, by id.
    ///
    /// # Errors
    /// As [`crate::log::Log::read`].
    pub fn owned_by(&self, session: u64) -> Result<Vec<TaskId>> {
        self.read(|_, index| {
            let mut owned: Vec<TaskId> = owned_in(index, session).map(|task| task.id.clone()).collect();
            owned.sort_unstable();
            owned
        })
    }

    /// Whether nothing is a dead session's any more, and never will be again, whatever a power cut takes back: by the bytes of
    /// the log, all of which are durable. Where that cannot be said without waiting, it is not said.
    pub(super) fn is_rid_of(&self, session: u64) -> bool {
        let rid = |index: &Index| owned_in(index, session).next().is_none();
        let log = self.log();
        log.health().status == Health::Healthy
            && log
                .read_durable(|state| state.folded::<Index>().is_some_and(rid))
                .is_ok_and(|rid| rid == Some(true))
    }

    /// Asks for each of these sessions whether it is proven dead.
    pub(super) fn who(&self, concerned: &[u64]) -> Result<Who> {
        let me = self.log().session().map_or(0, |session| session.id());
        let mut who = Who { me, ..Who::default() };
        for session in concerned.iter().copied().filter(|session| *session != me) {
            if !who.was_asked(session) {
                who.asked.push(session);
                if self.workspace.liveness(session)?.0 == Liveness::Dead {
                    who.dead.push(session);
                }
            }
        }
        Ok(who)
    }

    /// Says in a refusal who it is that holds the task.
    pub(super) fn name_owner(&self, error: Error) -> Error {
        let ErrorKind::Owned { id, session, .. } = error.kind() else { return error };
        let Ok((liveness, info)) = self.workspace.liveness(*session) else { return error };
        let introduced = || {
            let said = self.read(|_, index| index.writer(*session).cloned()).ok().flatten()?;
            Some(format!("{} (pid {}, foldlog {})", said.label, said.pid, said.version))
        };
        let owner = info.as_ref().map(Info::to_string).or_else(introduced);
        let kind = ErrorKind::Owned {
            id: id.clone(),
            session: *session,
            owner: owner.unwrap_or_else(|| format!("session {session:016x}")),
            liveness: liveness.name(),
        };
        Error::new(kind, "commit", Path::new(""))
    }
}
