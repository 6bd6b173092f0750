//! Committing: threads queue closures, a leader runs the whole queue under LOCK and writes it with one call.

use std::any::Any;
use std::cell::Cell;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::batch::{Batch, Memory};
use super::draft::{Draft, Durability, Receipt};
use super::engine::{Log, Undoing, Writer};
use super::enter::Entered;
use super::envelope::{Commit, Preamble};
use super::format::MAX_COUNT;
use super::frame::FrameKind;
use super::state::{Recall, State};
use super::view::{Active, View};
use super::{Cursor, Lpos, Seq};
use crate::error::{Error, ErrorKind, Result};
use crate::vfs::threads::{AtomicUsize, Excuse, Mutex, RwLockWriteGuard, Waited, thread_local};

/// What a caller runs under the lock: it looks at the latest state and fills a draft, or refuses.
type Closure = Box<dyn FnOnce(&State, &mut Draft) -> Result<()> + Send>;

thread_local! {
    /// Whether this thread is running a closure; a commit from in there would wait for itself.
    static IN_CLOSURE: Cell<bool> = const { Cell::new(false) };
}

/// A commit that is being run.
struct Slot<'a> {
    closure: Option<Run<'a>>,
    durability: Durability,
    outcome: &'a mut Option<Outcome>,
}

/// A closure, and where it is.
enum Run<'a> {
    Queued(Closure),
    /// On the stack of the thread that leads; run at most once.
    Own(&'a mut dyn FnMut(&State, &mut Draft) -> Result<()>),
}

impl Run<'_> {
    fn run(self, state: &State, draft: &mut Draft) -> Result<()> {
        match self {
            Run::Queued(closure) => closure(state, draft),
            Run::Own(closure) => closure(state, draft),
        }
    }
}

enum Outcome {
    /// It goes well, or has: the receipt says so only once the commit stands.
    Placed(Receipt, Place),
    Failed(Error),
    Panicked(Box<dyn Any + Send>),
}

/// Where a commit is.
#[derive(Clone, Copy)]
enum Place {
    /// In the batch, as the frame of this number, which ends at this offset; not yet on the file.
    Batch(usize, u64),
    /// It stands. When LOCK was taken for it.
    File(Duration),
}

/// A commit that waits for a leader.
struct Work {
    closure: Option<Closure>,
    durability: Durability,
    outcome: Option<Outcome>,
}

struct Job {
    work: Mutex<Work>,
    /// Given once a leader has run it.
    done: Arc<Excuse>,
}

/// How often, and for how long, a leader goes on with what has been queued meanwhile before its own caller is answered.
const ROUNDS: u32 = 16;
const LEADS_FOR: Duration = Duration::from_micros(500);

/// Memory that one commit leaves to the next; always empty.
#[derive(Debug, Default)]
pub(super) struct Spare {
    pub(super) batch: Memory,
    pub(super) undoing: Vec<Undoing>,
    draft: Draft,
}

/// Jobs in the order they came.
#[derive(Default)]
pub(super) struct Queue {
    jobs: Mutex<Vec<Arc<Job>>>,
    /// How many there are, to be looked at without the lock: who queues a job then waits for the in-process mutex.
    len: AtomicUsize,
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Queue({})", self.len.load(Ordering::Relaxed))
    }
}

impl Queue {
    fn push(&self, job: &Arc<Job>) {
        let mut jobs = self.jobs.lock();
        jobs.push(Arc::clone(job));
        self.len.store(jobs.len(), Ordering::Release);
    }

    /// Takes a job back; `false` if a leader has it in hand.
    fn withdraw(&self, job: &Arc<Job>) -> bool {
        let mut jobs = self.jobs.lock();
        let before = jobs.len();
        jobs.retain(|other| !Arc::ptr_eq(other, job));
        self.len.store(jobs.len(), Ordering::Release);
        jobs.len() < before
    }

    fn is_empty(&self) -> bool {
        self.len.load(Ordering::Acquire) == 0
    }

    fn take(&self) -> Vec<Arc<Job>> {
        if self.is_empty() {
            return Vec::new();
        }
        let mut jobs = self.jobs.lock();
        self.len.store(0, Ordering::Release);
        std::mem::take(&mut *jobs)
    }
}

impl Log {
    /// Commits what the closure puts into the draft, all or nothing.
    ///
    /// The closure runs under the write lock, on the state that every earlier commit, of any process, has left; it
    /// must be quick, and must not commit itself. An empty draft is a success that writes nothing. A closure that names its
    /// request does so first: a request that was applied before gets its first result, whatever the closure says now.
    ///
    /// # Errors
    /// Whatever the closure returns; [`ErrorKind::Conflict`]; [`ErrorKind::BlobMissing`]; [`ErrorKind::Busy`] with the holders' names;
    /// [`ErrorKind::NoSpace`] and system errors, after which nothing of this commit stands;
    /// [`ErrorKind::DurabilityLost`] and [`ErrorKind::NotDurable`] if it stands, but may not survive a power cut.
    ///
    /// # Durability
    /// As asked for; see [`Durability`].
    ///
    /// # Blocking
    /// For the lock at most `lock_timeout`, and for a sync where `Durable` is asked for.
    ///
    /// # Concurrency
    /// Any thread of any process. Commits of threads that wait at the same time share one write and one sync.
    pub fn commit(
        self: &Arc<Self>,
        durability: Durability,
        closure: impl FnOnce(&State, &mut Draft) -> Result<()> + Send + 'static,
    ) -> Result<Receipt> {
        let mut closure = Some(closure);
        let mut run = |state: &State, draft: &mut Draft| match closure.take() {
            Some(closure) => closure(state, draft),
            None => Ok(()),
        };
        if let Some(committed) = self.commit_at_once(durability, self.settings.lock_timeout, &mut run) {
            return committed;
        }
        let closure = closure.map(|closure| Box::new(closure) as Closure);
        let outcome = self.wait_for_turn(Work { closure, durability, outcome: None })?;
        self.answer(outcome, durability)
    }

    /// [`Log::commit`] by a closure that borrows, if nobody in this process is at it or waits; `None` = somebody does, and it
    /// has not been called. It is called at most once. For other processes it waits as long as `patience` says.
    pub(crate) fn commit_at_once(
        self: &Arc<Self>,
        durability: Durability,
        patience: Duration,
        run: &mut dyn FnMut(&State, &mut Draft) -> Result<()>,
    ) -> Option<Result<Receipt>> {
        let ready = self.check_committable().and_then(|()| {
            // Who only commits leaves it too; but nobody waits for others to see that, and who waits for nothing goes on by
            // what the log says.
            let sees_trouble = || self.view.try_read().is_some_and(|view| view.state.is_in_trouble());
            if patience >= self.settings.lock_timeout && sees_trouble() {
                self.leave_spoiled_snapshot()?;
            }
            Ok(())
        });
        if let Err(error) = ready {
            return Some(Err(error));
        }
        let mut writer = self.writer.try_lock()?;
        let mut outcome = None;
        self.lead_on(
            &mut writer,
            Some(Slot { closure: Some(Run::Own(run)), durability, outcome: &mut outcome }),
            patience,
        );
        drop(writer);
        Some(self.answer(outcome, durability))
    }

    /// [`Log::commit_at_once`] that waits for nothing: no lock, no sync, no repair, no new file. `None` = it would have had to,
    /// nothing was written, and the closure was not called. Never called for what is to be durable.
    pub(crate) fn try_commit(
        self: &Arc<Self>,
        durability: Durability,
        run: &mut dyn FnMut(&State, &mut Draft) -> Result<()>,
    ) -> Option<Result<Receipt>> {
        if let Err(error) = self.check_reentrant() {
            return Some(Err(error));
        }
        // To recover from a failed sync takes syncs.
        if self.durable.is_poisoned() {
            return None;
        }
        if let Err(error) = self.may_write() {
            return Some(Err(error));
        }
        let mut writer = self.writer.try_lock()?;
        // What a handle does before its first commit, and what it does for a segment that is nearly full, takes syncs.
        if !writer.listed || writer.nearly_full && self.lacks_successor(&writer) {
            return None;
        }
        let mut outcome = None;
        writer.hurries = true;
        let slot = Slot { closure: Some(Run::Own(run)), durability, outcome: &mut outcome };
        self.lead(&mut writer, Some(slot), Duration::ZERO);
        writer.hurries = false;
        drop(writer);
        if let Some(Outcome::Failed(error)) = &outcome
            && matches!(error.kind(), ErrorKind::Busy { .. })
        {
            self.tell();
            return None;
        }
        Some(self.answer(outcome, durability))
    }

    fn check_committable(&self) -> Result<()> {
        self.check_reentrant()?;
        self.check_writable().map(drop)
    }

    fn check_reentrant(&self) -> Result<()> {
        if IN_CLOSURE.with(Cell::get) {
            return Err(Error::new(ErrorKind::Reentrant, "commit to", self.paths.dir()));
        }
        Ok(())
    }

    /// Tells a caller what has become of its commit. No lock is held.
    fn answer(self: &Arc<Self>, outcome: Option<Outcome>, durability: Durability) -> Result<Receipt> {
        self.tell();
        match outcome {
            Some(Outcome::Placed(receipt, Place::File(now))) => {
                let receipt = self.acknowledge(receipt, now, durability)?;
                super::housekeeping::look_after(self, receipt.behind);
                Ok(receipt)
            }
            Some(Outcome::Failed(error)) => Err(self.name_holder(error)),
            Some(Outcome::Panicked(payload)) => resume_unwind(payload),
            Some(Outcome::Placed(_, Place::Batch(..))) | None => {
                Err(Error::new(ErrorKind::NotYet, "commit to", self.paths.dir()))
            }
        }
    }

    /// Queues a commit and waits until a leader has run it, or until it is this thread's turn to lead.
    fn wait_for_turn(&self, work: Work) -> Result<Option<Outcome>> {
        let job = Arc::new(Job { work: Mutex::new(work), done: Arc::default() });
        self.queue.push(&job);
        let writer = match self.writer.try_lock_unless(&job.done, self.settings.lock_timeout) {
            Waited::Taken(writer) => Some(writer),
            Waited::Excused => None,
            Waited::Late if self.queue.withdraw(&job) => {
                let waited_ms = u64::try_from(self.settings.lock_timeout.as_millis()).unwrap_or(u64::MAX);
                let busy = ErrorKind::Busy { holder: String::new(), waited_ms };
                return Err(self.name_holder(Error::new(busy, "lock", self.paths.dir())));
            }
            // A leader has it in hand and will answer.
            Waited::Late => Some(self.writer.lock()),
        };
        if let Some(mut writer) = writer
            && job.work.lock().outcome.is_none()
        {
            self.lead_on(&mut writer, None, self.settings.lock_timeout);
        }
        let outcome = job.work.lock().outcome.take();
        Ok(outcome)
    }

    fn acknowledge(&self, mut receipt: Receipt, now: Duration, durability: Durability) -> Result<Receipt> {
        let behind = receipt.behind.0;
        // Before anything can fail: what could not be made durable is still to be settled, or told, at close.
        if receipt.count > 0 && !receipt.again {
            self.durable.note_append(now);
        }
        self.reserve.note(durability);
        match durability {
            Durability::Durable => {
                let last = receipt.last();
                self.make_durable(behind, last.0).map_err(|error| error.of_commit_that_stands(last))?;
                self.still_stands(receipt.cursor)?;
                receipt.durable = true;
            }
            Durability::Interval(ms) => {
                self.durable.want_within(now, ms);
                receipt.durable = self.durable.covers(behind);
            }
            Durability::Buffered => receipt.durable = self.durable.covers(behind),
        }
        Ok(receipt)
    }

    /// Leads, and goes on for a while with what is queued meanwhile, unless that is to be synced: the threads that wait need
    /// not all have their turn, and what a commit works on stays with one processor. The in-process mutex is held.
    fn lead_on(&self, writer: &mut Writer, own: Option<Slot<'_>>, patience: Duration) {
        let mut goes_on = self.lead(writer, own, patience) && patience >= self.settings.lock_timeout;
        let since = writer.entered;
        for _ in 1..ROUNDS {
            if !goes_on || self.queue.is_empty() || writer.entered.saturating_sub(since) >= LEADS_FOR {
                return;
            }
            goes_on = self.lead(writer, None, patience);
        }
    }

    /// Runs everything that is queued, and this thread's own; returns whether more of the kind may follow at once. The
    /// in-process mutex is held.
    fn lead(&self, writer: &mut Writer, own: Option<Slot<'_>>, patience: Duration) -> bool {
        if writer.nearly_full {
            self.prepare_successor(writer);
        }
        let entered = self.enter(writer, patience);
        let own = match (&entered, own) {
            // Whoever is queued has more patience, and leads once this thread is out of the way.
            (Err(error), Some(mut own)) if patience < self.settings.lock_timeout => {
                own.fail(error);
                return false;
            }
            (_, own) => own,
        };
        // Taken only now: whoever queued while this thread waited for LOCK goes with it.
        // Whoever is in a hurry does nobody else's work; they lead once it is out of the way.
        let jobs = if writer.hurries { Vec::new() } else { self.queue.take() };
        let goes_on = match own {
            Some(own) if jobs.is_empty() => self.lead_slots(writer, entered, &mut [own]),
            own => {
                let mut queued: Vec<_> = jobs.iter().map(|job| job.work.lock()).collect();
                let mut slots: Vec<Slot<'_>> = queued
                    .iter_mut()
                    .map(|work| {
                        let Work { closure, durability, outcome } = &mut **work;
                        Slot { closure: closure.take().map(Run::Queued), durability: *durability, outcome }
                    })
                    .chain(own.map(Slot::shorter))
                    .collect();
                self.lead_slots(writer, entered, &mut slots)
            }
        };
        jobs.iter().for_each(|job| job.done.give());
        goes_on
    }

    fn lead_slots(&self, writer: &mut Writer, entered: Result<Entered<'_>>, slots: &mut [Slot<'_>]) -> bool {
        match entered {
            Ok((held, mut view, file_len)) => {
                let synced_next = slots.iter().any(|slot| slot.durability == Durability::Durable);
                let whole = self.run_all(writer, &mut view, slots, file_len);
                let keep = whole && !synced_next && self.may_keep(writer, &view);
                let file_len = keep.then(|| file_len.max(view.at.offset));
                drop(view);
                self.leave(writer, held, file_len);
                self.ring(writer);
                whole && !synced_next
            }
            Err(error) => {
                slots.iter_mut().for_each(|slot| slot.fail(&error));
                false
            }
        }
    }

    /// Returns whether one write took all of them, and nothing went wrong.
    fn run_all(
        &self,
        writer: &mut Writer,
        view: &mut RwLockWriteGuard<'_, View>,
        slots: &mut [Slot<'_>],
        mut file_len: u64,
    ) -> bool {
        let mut rest = slots;
        let mut whole = true;
        loop {
            match self.run(writer, view, rest, file_len) {
                Ok((done, written)) => {
                    rest = rest.get_mut(done..).unwrap_or_default();
                    whole &= written && rest.is_empty();
                }
                Err(error) => {
                    rest.iter_mut().for_each(|slot| slot.fail(&error));
                    whole = false;
                    break;
                }
            }
            if rest.is_empty() {
                break;
            }
            if let Some(Ok(stat)) = view.active.as_ref().map(|active| active.file.stat()) {
                file_len = stat.len;
            }
        }
        writer.nearly_full = view.at.offset >= self.nearly_full_at();
        whole
    }

    /// Runs commits until the batch is large enough, writes it, and answers them; returns how many were answered, and
    /// whether the file that they were to go into is the same still, with all of them in it.
    fn run(
        &self,
        writer: &mut Writer,
        view: &mut RwLockWriteGuard<'_, View>,
        slots: &mut [Slot<'_>],
        mut file_len: u64,
    ) -> Result<(usize, bool)> {
        let rotated = self.rotate_if_full(writer, view)?;
        if rotated {
            file_len = view.at.offset;
        }
        let Some(active) = view.active.clone() else {
            return Err(Error::new(ErrorKind::NotYet, "commit to", self.paths.dir()));
        };
        if !active.owns_bytes() && slots.iter().any(|slot| slot.durability != Durability::Buffered) {
            self.may_wait(writer)?;
            self.own_bytes(view, &active)?;
        }
        let (mut batch, mut undoing) = self.start_batch(writer, view, &active)?;
        let prefix = batch.frames().len();
        let mut answered = 0;
        // Who was refused, and how many frames had been placed by then: what they were judged on may not land.
        let mut refused: Vec<(usize, usize)> = Vec::new();
        let mut draft = std::mem::take(&mut writer.spare.draft);
        let time = writer.wall(&*self.vfs);
        for slot in slots.iter_mut() {
            if batch.position().offset - view.at.offset > u64::from(active.header.max_body) {
                break;
            }
            answered += 1;
            let before = batch.frames().len();
            let ran = self.run_one(slot, &mut draft, view, &mut batch, &mut undoing, time);
            draft.clear();
            let place = Place::Batch(batch.frames().len(), batch.position().offset);
            *slot.outcome = Some(match ran {
                Ok(receipt) => Outcome::Placed(receipt, place),
                Err(outcome) => {
                    if before > prefix {
                        refused.push((answered - 1, before));
                    }
                    outcome
                }
            });
        }
        writer.spare.draft = draft;
        let (whole, error) = if batch.frames().len() == prefix {
            // Nothing to write: what was prepared for a first append waits for one.
            for undo in undoing.drain(..).rev() {
                if let Undoing::Control(control) = undo {
                    view.state.undo_control(&control);
                }
            }
            writer.spare.batch = batch.into_memory();
            writer.spare.undoing = undoing;
            (prefix, None)
        } else {
            self.write_batch(writer, view, &active, batch, undoing, file_len)
        };
        for (place, slot) in slots.iter_mut().take(answered).enumerate() {
            let stands = match slot.outcome {
                Some(Outcome::Placed(receipt, at)) => match *at {
                    Place::Batch(frames, behind) if frames <= whole => {
                        // Where nothing was to be written, what had been prepared for a first append is not there.
                        settle(receipt, active.header.lpos(behind.min(view.at.offset)), view);
                        *at = Place::File(writer.entered);
                        true
                    }
                    Place::Batch(..) => false,
                    Place::File(_) => true,
                },
                // Judged on a commit that does not stand, so the judgement does not either.
                Some(Outcome::Failed(_)) => {
                    !refused.iter().any(|(at, frames)| *at == place && *frames > whole)
                }
                _ => true,
            };
            if !stands {
                *slot.outcome = Some(Outcome::Failed(unwritten(&error, &active)));
            }
        }
        Ok((answered, error.is_none() && !rotated))
    }

    /// Refuses to go by what was found where a snapshot is spoiled and the log cannot be read in its place.
    fn check_found(&self, view: &View) -> Result<()> {
        let Some(why) = view.state.lost() else { return Ok(()) };
        let what = format!("a snapshot is spoiled, and the log cannot be read in its place: {why}");
        Err(Error::new(ErrorKind::Refused(what), "commit to", self.paths.dir()))
    }

    fn run_one(
        &self,
        slot: &mut Slot<'_>,
        draft: &mut Draft,
        view: &mut View,
        batch: &mut Batch<'_>,
        undoing: &mut Vec<Undoing>,
        time: u64,
    ) -> std::result::Result<Receipt, Outcome> {
        let ran = match slot.closure.take() {
            Some(closure) => {
                IN_CLOSURE.with(|it| it.set(true));
                let ran = catch_unwind(AssertUnwindSafe(|| closure.run(&view.state, draft)));
                IN_CLOSURE.with(|it| it.set(false));
                ran.map_err(Outcome::Panicked)?
            }
            None => Ok(()),
        };
        // Whatever it says: it may have been told that something is not there.
        self.check_found(view).map_err(Outcome::Failed)?;
        let receipt = |first, count, revisions, again| Receipt {
            first,
            count,
            revisions,
            cursor: Cursor::default(),
            behind: Lpos(0),
            durable: false,
            again,
        };
        // Before its refusal counts: a request that was applied is refused when it is sent again ("it exists already").
        if let Some(operation) = draft.request() {
            let fail = |kind| Err(Outcome::Failed(Error::new(kind, "commit to", self.paths.dir())));
            match view.state.recall(&operation) {
                Recall::New => {}
                Recall::Again { first, count, revisions } => {
                    return Ok(receipt(first, count, revisions.into_vec(), true));
                }
                Recall::Reused { seq } => return fail(ErrorKind::OpIdReused { op_id: operation.op_id, seq }),
                Recall::Forgotten { window_start } => {
                    let current = draft.keys().filter_map(|key| view.state.get(key)).collect();
                    let (op_id, seen) = (operation.op_id, operation.seen);
                    return fail(ErrorKind::OutcomeUnknown { op_id, seen, window_start, current });
                }
            }
        }
        ran.map_err(Outcome::Failed)?;
        draft.settle(&view.state, &self.settings.vocabulary, batch.max_body()).map_err(Outcome::Failed)?;
        self.check_blobs(draft).map_err(Outcome::Failed)?;
        let Ok(count @ 1..=MAX_COUNT) = u16::try_from(draft.count()) else {
            return Ok(receipt(view.state.last(), 0, Vec::new(), false));
        };
        let first = Seq(batch.position().seq);
        let preamble = Preamble {
            time,
            session: self.session.as_ref().map_or(0, |session| session.id()),
            operation: draft.request(),
        };
        let mut revisions = Vec::new();
        let placed = batch.put(FrameKind::COMMIT, count, |out| {
            preamble.encode(out);
            revisions = draft.encode(&view.state, first, out);
        });
        if let Err(error) = self.check_found(view) {
            batch.drop_last();
            return Err(Outcome::Failed(error));
        }
        // What was encoded is read back before it is believed: the fold sees exactly what others will read.
        match Commit::decode(first.0, count, batch.body(&placed)) {
            Ok(commit) => {
                let undo = view.state.apply(&commit, count, &self.settings.vocabulary, draft.meanings());
                undoing.push(Undoing::Commit(undo));
                Ok(receipt(first, count, revisions, false))
            }
            Err(bad) => {
                batch.drop_last();
                let why = format!("its encoding does not read back: {bad}");
                let kind = ErrorKind::Invalid { what: "commit", why };
                Err(Outcome::Failed(Error::new(kind, "commit to", Path::new(""))))
            }
        }
    }
}

impl<'a> Slot<'a> {
    /// The same slot for a shorter time, so that it fits beside others.
    fn shorter<'s>(self) -> Slot<'s>
    where
        'a: 's,
    {
        let closure = self.closure.map(|run| match run {
            Run::Queued(closure) => Run::Queued(closure),
            Run::Own(closure) => Run::Own(closure),
        });
        Slot { closure, durability: self.durability, outcome: self.outcome }
    }

    fn fail(&mut self, error: &Error) {
        self.outcome.get_or_insert_with(|| Outcome::Failed(error.duplicate()));
    }
}

/// Why a commit did not reach the file.
fn unwritten(error: &Option<Error>, active: &Active) -> Error {
    match error {
        Some(error) => error.duplicate(),
        None => Error::new(ErrorKind::Io, "append to", &active.path),
    }
}

/// Gives a receipt its cursor, once the commit stands.
fn settle(receipt: &mut Receipt, behind: u64, view: &View) {
    receipt.behind = Lpos(behind);
    let last = match receipt.count {
        0 => receipt.first,
        count => Seq(receipt.first.0 + u64::from(count) - 1),
    };
    receipt.cursor = view.state.cursor_at(last);
}
