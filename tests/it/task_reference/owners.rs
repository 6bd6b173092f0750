//! Who holds a task in the reference, and what is mended where its holder is dead.

use std::collections::BTreeSet;

use foldlog::event::Status;

use super::{Cmd, Held, IDS, Judged, Reference, place, quoted};

/// What the parent gets where a completed child has left nothing.
const RECOVERED: &str = "\"Task completed (recovered after interruption)\"";

enum Fault {
    Nobody,
    Done(usize),
    Orphaned(usize),
}

impl Reference {
    /// Number and session of a task's holder; session 0 = nobody's.
    pub(crate) fn fence(&self, id: usize) -> Held {
        self.slots[id].fence
    }

    fn owner(&self, id: usize) -> Option<u64> {
        Some(self.slots[id].fence.1).filter(|session| *session != 0)
    }

    /// Whether a commit by this fence may pass.
    pub(super) fn holds(&self, id: usize, fence: Held) -> Judged {
        self.there(id)?;
        if fence.1 != 0 && self.slots[id].fence == fence { Ok(()) } else { Err("fenced") }
    }

    /// The dead among those of whom a commit asks whether they live: it asks before it has LOCK.
    pub(super) fn asked(&self, cmds: &[Cmd]) -> BTreeSet<u64> {
        let mut asked = BTreeSet::new();
        for cmd in cmds {
            match cmd {
                Cmd::Attach { id } => asked.extend(self.live(*id).and_then(|_| self.owner(*id))),
                Cmd::Mend { id, .. } => {
                    let Some(parent) = self.live(*id) else { continue };
                    asked.extend(self.owner(*id));
                    let child = parent.link("awaitingChildId").and_then(|child| place(&child));
                    asked.extend(child.and_then(|child| self.owner(child)));
                }
                _ => {}
            }
        }
        asked.into_iter().filter(|session| self.dead.contains(session)).collect()
    }

    /// The next number, for whoever has it from now on.
    pub(super) fn changes_hands(&mut self, id: usize, to: u64) {
        let fence = &mut self.slots[id].fence;
        *fence = (fence.0 + 1, to);
    }

    pub(super) fn attach(&mut self, id: usize) -> Judged {
        self.there(id)?;
        let me = self.me;
        if self.owner(id).is_some_and(|owner| owner != me && !self.known_dead.contains(&owner)) {
            return Err("owned");
        }
        self.change(id, |_| ());
        self.changes_hands(id, me);
        self.fences.push((IDS[id], self.slots[id].fence));
        Ok(())
    }

    pub(super) fn detach(&mut self, id: usize, fence: Held) -> Judged {
        self.holds(id, fence)?;
        self.change(id, |_| ());
        self.slots[id].fence.1 = 0;
        Ok(())
    }

    pub(super) fn abandon(&mut self, id: usize) -> Judged {
        let from = self.there(id)?.status();
        let parent = self.waiting_parent(id);
        if parent.is_some() && matches!(from, Status::Active | Status::Delegated) {
            self.freely(from, Status::Interrupted)?;
            self.change(id, |record| record.set_status(Status::Interrupted));
        }
        self.change(id, |record| {
            if parent.is_some() {
                record.unset("parentTaskId");
                record.unset("rootTaskId");
            }
        });
        self.changes_hands(id, 0);
        if let Some(parent) = parent {
            self.change(parent, |record| record.set_status(Status::Active));
        }
        Ok(())
    }

    fn fault(&self, id: usize) -> Option<Fault> {
        let parent = self.live(id).filter(|record| record.status() == Status::Delegated)?;
        let child = parent.link("awaitingChildId").and_then(|child| place(&child));
        let Some((child, record)) = child.and_then(|child| Some((child, self.live(child)?))) else {
            return Some(Fault::Nobody);
        };
        match record.status() {
            Status::Completed => Some(Fault::Done(child)),
            Status::Active => Some(Fault::Orphaned(child)),
            Status::Interrupted | Status::Delegated => None,
        }
    }

    /// By whose life it is judged.
    fn judged_by(&self, id: usize, fault: &Fault) -> Option<u64> {
        match fault {
            Fault::Orphaned(child) => self.owner(*child),
            Fault::Nobody | Fault::Done(_) => self.owner(id),
        }
    }

    pub(super) fn mend(&mut self, id: usize, unowned: bool) -> Judged {
        self.there(id)?;
        let Some(fault) = self.fault(id) else { return Ok(()) };
        match self.judged_by(id, &fault) {
            Some(owner) if !self.known_dead.contains(&owner) => return Ok(()),
            None if !unowned => return Ok(()),
            _ => {}
        }
        match fault {
            Fault::Nobody => self.change(id, |record| record.set_status(Status::Active)),
            Fault::Done(child) => {
                let left = self.live(child).and_then(|record| record.get("completionResultSummary"));
                let summary = left.unwrap_or(RECOVERED).to_owned();
                self.change(id, |record| {
                    record.set_status(Status::Active);
                    record.set("completedByChildId", &quoted(IDS[child]));
                    record.set("completionResultSummary", &summary);
                    record.add_children(&[IDS[child].to_owned()]);
                });
            }
            Fault::Orphaned(child) => {
                self.change(child, |record| record.set_status(Status::Interrupted));
                self.take_from_the_dead(child);
                self.change(id, |record| record.set_status(Status::Active));
            }
        }
        self.take_from_the_dead(id);
        Ok(())
    }

    fn take_from_the_dead(&mut self, id: usize) {
        if self.owner(id).is_some_and(|owner| self.known_dead.contains(&owner)) {
            self.change(id, |_| ());
            self.changes_hands(id, 0);
        }
    }

    /// What an open by a session mends, a commit for each parent, in the order of their ids.
    pub(crate) fn opened(&mut self, me: u64) {
        let is_dead = |owner| self.dead.contains(&owner);
        let orphans: Vec<usize> = (0..IDS.len())
            .filter(|&id| self.fault(id).is_some_and(|fault| self.judged_by(id, &fault).is_some_and(is_dead)))
            .collect();
        for id in orphans {
            let _ = self.commit(me, &[Cmd::Mend { id, unowned: false }], &[], &[], None);
        }
    }
}
