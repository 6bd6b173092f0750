//! What a window does with the tasks of everybody.

use std::time::Duration;

use foldlog::event::{Fence, Field, Item, Patch, TaskId};
use foldlog::log::Durability;
use foldlog::task::{CommitOptions, Committed, Op, Tasks};
use foldlog::vfs::Vfs;
use foldlog::vfs::sim::{Rng, SimProcess};
use foldlog::{Error, Result};

use super::{Ack, Notes, PARENTS, SHARED, open, session_of, task};
use crate::task_rules::item;

/// Answers that a window may get whatever the others do.
const FINE: [&str; 10] = [
    "busy",
    "fenced",
    "no-task",
    "not-durable",
    "not-waiting",
    "owned",
    "refused",
    "status-refused",
    "task-deleted",
    "task-exists",
];

struct Window<'a> {
    book: &'a Notes,
    who: String,
    tasks: Tasks,
    session: u64,
    /// What it was given, oldest first.
    held: Vec<(TaskId, Fence)>,
    n: u64,
    windows: bool,
}

impl Window<'_> {
    fn options(&self, rng: &mut Rng) -> CommitOptions {
        CommitOptions::from(if rng.chance(1, 4) { Durability::Durable } else { Durability::Buffered })
    }

    /// Windows replaces no file that somebody has open, who may have been stopped.
    fn is_fine(&self, error: &Error) -> bool {
        FINE.contains(&error.code()) || self.windows && error.code() == "permission"
    }

    /// Notes an answer; what it must not be fails.
    fn heard(&self, what: &str, answer: &Result<Committed>) {
        let mut book = self.book.lock();
        match answer {
            Ok(_) => book.sum.commits += 1,
            Err(e) => {
                assert!(self.is_fine(e), "{} {what}: {e}", self.who);
                book.sum.fenced += u64::from(e.code() == "fenced");
                book.sum.owned += u64::from(e.code() == "owned");
            }
        }
    }

    /// Up to where it has seen the log, alive as it is.
    fn lives(&self) {
        let last = self.tasks.workspace().log().cached(|state| state.last().0).unwrap();
        let mut book = self.book.lock();
        let seen = book.seen.entry(self.session).or_default();
        *seen = last.max(*seen);
    }

    fn take(&mut self, task: &TaskId, answer: &Result<Committed>) {
        if let Some(fence) = answer.as_ref().ok().and_then(|done| done.fence(task)) {
            assert_eq!(fence.session, self.session);
            let before = self.held.iter().rev().find(|(held, _)| held == task);
            assert!(
                before.is_none_or(|(_, before)| before.number < fence.number),
                "{fence} after {before:?}"
            );
            self.held.push((task.clone(), fence));
        }
    }

    fn attach(&mut self, task: &TaskId, rng: &mut Rng) {
        let answer = self.tasks.attach(task, self.options(rng)).map(|(_, committed)| committed);
        self.heard("attaches", &answer);
        self.take(task, &answer);
    }

    /// A child with its runner, in one commit or in two.
    fn delegate(&mut self, rng: &mut Rng) {
        let parent = task(PARENTS[rng.index(2)]);
        let child = task(&format!("c{}-{}", self.who, self.n));
        let delegate = Op::Delegate { parent, child: Item::new(&child) };
        if rng.chance(3, 4) {
            let ops = vec![delegate, Op::Attach { id: child.clone() }];
            let answer = self.tasks.commit(ops, self.options(rng));
            self.heard("delegates", &answer);
            self.take(&child, &answer);
        } else {
            let answer = self.tasks.commit(vec![delegate], self.options(rng));
            self.heard("delegates", &answer);
            if answer.is_ok() {
                self.attach(&child, rng);
            }
        }
    }

    /// A commit with a fence that it was given once: the last, or one before.
    fn write(&mut self, rng: &mut Rng) {
        let Some(back) = (!self.held.is_empty()).then(|| rng.index(self.held.len().min(4))) else { return };
        let at = self.held.len() - 1 - back;
        let (task, fence) = self.held[at].clone();
        let superseded = self.held[at + 1..].iter().any(|(later, _)| *later == task);
        let token = format!("{}.{}", self.who, self.n);
        let options = self.options(rng).fence(&task, fence);
        let (answer, token) = match rng.below(4) {
            0 => (self.tasks.complete(&task, Some(&token), options), Some(token)),
            1 => (self.tasks.detach(&task, fence, options), None),
            _ => {
                (self.tasks.patch(&task, Patch::new().set(Field::Mode, token.as_str()), options), Some(token))
            }
        };
        self.heard("writes", &answer);
        match answer {
            Ok(done) => {
                assert!(
                    !superseded,
                    "{}: {fence} of {task} was accepted, and there is a later one",
                    self.who
                );
                // A complete without any effect leaves no event.
                if done.count > 0 {
                    self.book.lock().acks.push(Ack { first: done.first, task, fence, token });
                }
            }
            Err(e) => self.refused(&e, &task, fence),
        }
    }

    /// Whoever is refused as late is late.
    fn refused(&self, error: &Error, task: &TaskId, fence: Fence) {
        if error.code() == "fenced" {
            let now =
                self.tasks.read(|_, index| index.get(task.as_str()).and_then(|task| task.owner())).unwrap();
            assert_ne!(now, Some(fence), "{} holds {task}, and was refused", self.who);
        }
    }

    fn anybodys(&self, rng: &mut Rng) -> TaskId {
        let children = self.tasks.read(|_, index| {
            let waited = PARENTS.iter().filter_map(|parent| index.get(parent)?.awaiting().map(String::from));
            waited.collect::<Vec<_>>()
        });
        match children.ok().filter(|children| !children.is_empty() && rng.chance(1, 2)) {
            Some(children) => task(&children[rng.index(children.len())]),
            None => task(SHARED[rng.index(SHARED.len())]),
        }
    }

    fn act(&mut self, process: &SimProcess, rng: &mut Rng) {
        self.n += 1;
        let some = self.anybodys(rng);
        match rng.below(16) {
            0..=2 => self.attach(&some, rng),
            3..=5 => self.delegate(rng),
            6..=9 => self.write(rng),
            10 => {
                let answer = self.tasks.abandon(&some, self.options(rng));
                self.heard("abandons", &answer);
                self.book.lock().sum.abandoned += u64::from(answer.is_ok());
            }
            11 => {
                let answer = self.tasks.remove(std::slice::from_ref(&some), true, self.options(rng));
                self.heard("removes", &answer);
            }
            12 => {
                let again = item(&format!("{{\"id\":\"{some}\"}}"));
                let answer =
                    self.tasks.commit(vec![Op::Create { item: again, again: true }], self.options(rng));
                self.heard("creates", &answer);
            }
            13 => {
                if let Err(e) = self.tasks.mend_orphans(false, self.options(rng)) {
                    assert!(self.is_fine(&e), "{} mends: {e}", self.who);
                }
            }
            14 => {
                let known = self.tasks.read(|_, index| index.len());
                assert!(known.is_ok(), "{} reads: {known:?}", self.who);
            }
            _ => process.sleep(Duration::from_millis([1, 300, 1_100][rng.index(3)])),
        }
        self.lives();
    }
}

/// Comes, works and goes, once or twice.
pub(super) fn window(book: &Notes, process: &SimProcess, seed: u64, windows: bool) {
    let mut rng = Rng::new(seed);
    for life in 0..1 + rng.below(2) {
        let who = format!("{}.{life}", process.label());
        let mut opened = open(process, &who);
        for _ in 0..6 {
            match &opened {
                Err(e) if e.code() == "busy" => opened = open(process, &who),
                _ => break,
            }
        }
        let (store, tasks) = match opened {
            Ok(opened) => opened,
            Err(e) => {
                assert_eq!(e.code(), "busy", "{who} opens: {e}");
                return;
            }
        };
        let session = session_of(&tasks);
        let mut window = Window { book, who, tasks, session, held: Vec::new(), n: 0, windows };
        for _ in 0..3 + rng.below(12) {
            window.act(process, &mut rng);
        }
        window.lives();
        drop((window, store));
    }
}
