//! The log, read from its bytes and folded by what `format-spec/events.md` says of owners alone.

use std::collections::{BTreeMap, BTreeSet};

use foldlog::event::{Event, Fence, Status};
use foldlog::log::WorkspaceMeta;
use foldlog::log::reader::{self, Reach};
use foldlog::log::scan::Content;
use foldlog::vfs::sim::SimProcess;

use super::{Book, is_repair};
use crate::simulated::{file, paths};

/// A commit: its first number, and its events by their tasks.
type Commit = (u64, Vec<(String, Event)>);

#[derive(Clone, Default)]
struct Task {
    lives: bool,
    owner: Option<Fence>,
    /// The highest number it has had.
    number: u64,
    waits_for: Option<String>,
    active: bool,
}

/// All that the log says, and what it comes to.
#[derive(Default)]
pub(super) struct Ledger {
    commits: Vec<Commit>,
    now: BTreeMap<String, Task>,
}

impl Ledger {
    pub(super) fn read(process: &SimProcess) -> Result<Ledger, String> {
        let paths = paths(process);
        let meta = WorkspaceMeta::decode(&file(process, &paths.meta())).expect("META reads");
        let (commits, walk) = reader::stable(&paths, || {
            let durable = reader::durable_word(process, &paths, meta.log_id);
            let mut commits: Vec<Commit> = Vec::new();
            let walk = reader::walk(process, &paths, meta.log_id, durable, Reach::Intact, &mut |visit| {
                if let Content::Commit(commit) = &visit.located.content {
                    let known =
                        commit.events().filter_map(|e| Some((e.key.to_owned(), Event::decode(&e).unwrap()?)));
                    commits.push((visit.located.frame.header.seq, known.collect()));
                }
            })?;
            Ok((commits, walk))
        })
        .map_err(|e| e.to_string())?;
        if let Some(damage) = walk.damage {
            return Err(damage.to_string());
        }
        let mut ledger = Ledger { commits, now: BTreeMap::new() };
        let all = ledger.commits.iter().flat_map(|(_, events)| events);
        all.for_each(|(id, event)| apply(ledger.now.entry(id.clone()).or_default(), event));
        Ok(ledger)
    }

    pub(super) fn owner(&self, task: &str) -> Option<Fence> {
        self.now.get(task)?.owner
    }

    pub(super) fn tasks(&self) -> u64 {
        self.now.values().filter(|task| task.lives).count() as u64
    }

    /// Who waits for whom, where that one is active.
    pub(super) fn waiting(&self) -> impl Iterator<Item = (&str, &str)> {
        self.now.iter().filter_map(|(id, task)| {
            let child = task.waits_for.as_deref().filter(|_| task.lives)?;
            self.now.get(child).filter(|child| child.lives && child.active)?;
            Some((id.as_str(), child))
        })
    }
}

fn apply(task: &mut Task, event: &Event) {
    let status = |task: &mut Task, to: Status| {
        task.active = to == Status::Active;
        if to != Status::Delegated {
            task.waits_for = None;
        }
    };
    match event {
        Event::Created { .. } => {
            *task = Task { lives: true, active: true, number: task.number, ..Task::default() };
        }
        Event::Deleted { .. } => {
            *task = Task { number: task.number + 1, ..Task::default() };
        }
        Event::StatusChanged { to, .. } => status(task, *to),
        Event::Delegated { child } => {
            status(task, Status::Delegated);
            task.waits_for = Some(child.to_string());
        }
        Event::Finished { .. } => status(task, Status::Completed),
        Event::ChildReturned { .. } => status(task, Status::Active),
        Event::Attached(fence) => (task.owner, task.number) = (Some(*fence), fence.number),
        Event::Detached { .. } => task.owner = None,
        Event::Abandoned { fence, .. } => (task.owner, task.number) = (None, *fence),
        _ => {}
    }
}

/// Holds the log against what the processes were told and what they have seen.
pub(super) fn audit(ledger: &Ledger, book: &mut Book) -> Result<(), String> {
    let mut now: BTreeMap<String, Task> = BTreeMap::new();
    let mut given = BTreeSet::new();
    let mut acks = book.acks.clone();
    (book.sum.attached, book.sum.taken_over, book.sum.repaired) = (0, 0, 0);
    for (first, events) in &ledger.commits {
        // Whoever has seen this commit was alive when it was made.
        let lives = |session: u64| book.seen.get(&session).is_some_and(|seen| seen >= first);
        let repair = events.iter().any(|(_, event)| is_repair(event));
        book.sum.repaired += u64::from(repair);
        for (task, fence) in acks.extract_if(.., |ack| ack.first.0 == *first).map(|ack| {
            let written = |event: &Event| match &ack.token {
                Some(token) => format!("{event:?}").contains(&format!("{token:?}")),
                None => matches!(event, Event::Detached { fence } if *fence == ack.fence.number),
            };
            assert!(events.iter().any(|(_, event)| written(event)), "{ack:?} is not what stands at {first}");
            (ack.task, ack.fence)
        }) {
            let owner = now.get(task.as_str()).and_then(|task| task.owner);
            if owner != Some(fence) {
                return Err(format!("{first}: a commit by {fence} was accepted, and {task} was {owner:?}'s"));
            }
        }
        for (id, event) in events {
            let before = now.entry(id.clone()).or_default();
            let fault =
                |what: &str| Err(format!("{first}, {id}: {what}: {event:?} after {:?}", before.owner));
            match event {
                Event::Attached(fence) => {
                    if fence.number <= before.number || !given.insert((id.clone(), fence.to_string())) {
                        return fault("a fence that is not new");
                    }
                    let taken = before.owner.filter(|owner| owner.session != fence.session);
                    book.sum.attached += 1;
                    book.sum.taken_over += u64::from(taken.is_some());
                    if taken.is_some_and(|owner| lives(owner.session)) {
                        return fault("taken from the living");
                    }
                }
                Event::Detached { fence } if before.owner.is_none_or(|owner| owner.number != *fence) => {
                    return fault("detached by somebody else");
                }
                Event::Abandoned { session, fence, .. } => {
                    if *fence != before.number + 1
                        || *session != before.owner.map_or(0, |owner| owner.session)
                    {
                        return fault("another owner or number than it had");
                    }
                    if repair && lives(*session) {
                        return fault("repaired, and its owner lives");
                    }
                }
                // A parent that goes on may be somebody's who lives.
                Event::StatusChanged { to: Status::Interrupted, .. }
                    if repair && before.owner.is_some_and(|owner| lives(owner.session)) =>
                {
                    return fault("repaired, and its owner lives");
                }
                _ => {}
            }
            apply(now.entry(id.clone()).or_default(), event);
        }
    }
    match acks.first() {
        Some(ack) => Err(format!("{ack:?} was acknowledged, and does not stand")),
        None => Ok(()),
    }
}
