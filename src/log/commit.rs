//! Committing: threads queue closures, a leader runs the whole queue under LOCK and writes it with one call.

use std::any::Any;
use std::cell::Cell;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::sync::Arc;

use super::batch::{Batch, Memory};
use super::draft::{Draft, Durability, Receipt};
use super::engine::{Log, Undoing, Writer};
use super::envelope::{Commit, Preamble};
use super::format::MAX_COUNT;
use super::frame::FrameKind;
use super::state::{Recall, State};
use super::view::View;
use super::{Cursor, Seq};
use crate::error::{Error, ErrorKind, Result};
use crate::vfs::threads::Mutex;

/// What a caller runs under the lock: it looks at the latest state and fills a draft, or refuses.
type Closure = Box<dyn FnOnce(&State, &mut Draft) -> Result<()> + Send>;

thread_local! {
    /// Whether this thread is running a closure; a commit from in there would wait for itself.
    static IN_CLOSURE: Cell<bool> = const { Cell::new(false) };
}

/// A commit that waits for a leader.
struct Job {
    closure: Mutex<Option<Closure>>,
    durability: Durability,
    outcome: Mutex<Option<Outcome>>,
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Job({:?})", self.durability)
    }
}

enum Outcome {
    /// The receipt, and the lpos behind the commit.
    Done(Receipt, u64),
    Failed(Error),
    Panicked(Box<dyn Any + Send>),
}

/// Memory that one commit leaves to the next; always empty.
#[derive(Debug, Default)]
pub(super) struct Spare {
    jobs: Vec<Arc<Job>>,
    pub(super) batch: Memory,
    pub(super) undoing: Vec<Undoing>,
}

/// Jobs in the order they came.
#[derive(Default)]
pub(super) struct Queue(Mutex<Vec<Arc<Job>>>);

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Queue({})", self.0.lock().len())
    }
}

impl Log {
    /// Commits what the closure puts into the draft, all or nothing.
    ///
    /// The closure runs under the write lock, on the state that every earlier commit, of any process, has left; it
    /// must be quick, and must not commit itself. An empty draft is a success that writes nothing.
    ///
    /// # Errors
    /// Whatever the closure returns; [`ErrorKind::Conflict`]; [`ErrorKind::Busy`] with the holders' names;
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
        if IN_CLOSURE.get() {
            return Err(Error::new(ErrorKind::Reentrant, "commit to", self.paths.dir()));
        }
        self.check_writable()?;
        let job = Arc::new(Job {
            closure: Mutex::new(Some(Box::new(closure))),
            durability,
            outcome: Mutex::new(None),
        });
        self.queue.0.lock().push(Arc::clone(&job));
        let mut writer = match self.writer.try_lock_for(self.settings.lock_timeout) {
            Some(writer) => writer,
            None if self.withdraw(&job) => {
                let waited_ms = u64::try_from(self.settings.lock_timeout.as_millis()).unwrap_or(u64::MAX);
                let busy = ErrorKind::Busy { holder: String::new(), waited_ms };
                return Err(self.name_holder(Error::new(busy, "lock", self.paths.dir())));
            }
            // A leader has it in hand and will answer.
            None => self.writer.lock(),
        };
        if job.outcome.lock().is_none() {
            self.lead(&mut writer);
        }
        drop(writer);
        self.tell();
        let outcome = job.outcome.lock().take();
        match outcome {
            Some(Outcome::Done(receipt, behind)) => {
                let receipt = self.acknowledge(receipt, behind, durability)?;
                super::housekeeping::look_after(self);
                Ok(receipt)
            }
            Some(Outcome::Failed(error)) => Err(self.name_holder(error)),
            Some(Outcome::Panicked(payload)) => resume_unwind(payload),
            None => Err(Error::new(ErrorKind::NotYet, "commit to", self.paths.dir())),
        }
    }

    fn withdraw(&self, job: &Arc<Job>) -> bool {
        let mut queue = self.queue.0.lock();
        let before = queue.len();
        queue.retain(|other| !Arc::ptr_eq(other, job));
        queue.len() < before
    }

    fn acknowledge(&self, mut receipt: Receipt, behind: u64, durability: Durability) -> Result<Receipt> {
        // Before anything can fail: what could not be made durable is still to be settled, or told, at close.
        if receipt.count > 0 && !receipt.again {
            self.durable.note_append(self.vfs.monotonic());
        }
        match durability {
            Durability::Durable => {
                let seq = receipt.last();
                self.make_durable(behind, seq.0).map_err(|e| match e.kind() {
                    ErrorKind::StoreReplaced { .. } | ErrorKind::DurabilityLost { .. } => e,
                    // Every other error of a commit says that nothing of it stands.
                    _ => Error::new(ErrorKind::NotDurable { seq, why: e.to_string() }, "sync", e.path()),
                })?;
                receipt.durable = true;
            }
            Durability::Interval(ms) => {
                self.durable.want_within(self.vfs.monotonic(), ms);
                receipt.durable = self.durable.covers(behind);
            }
            Durability::Buffered => receipt.durable = self.durable.covers(behind),
        }
        Ok(receipt)
    }

    /// Runs everything that is queued. The in-process mutex is held.
    fn lead(&self, writer: &mut Writer) {
        self.prepare_successor(writer);
        let entered = self.enter(writer, self.settings.lock_timeout);
        // Taken only now: whoever queued while this thread waited for LOCK goes with it.
        let mut jobs = std::mem::replace(&mut *self.queue.0.lock(), std::mem::take(&mut writer.spare.jobs));
        let (held, mut view, mut file_len) = match entered {
            Ok(entered) => entered,
            Err(error) => {
                for job in &jobs {
                    job.fail(error.duplicate());
                }
                return;
            }
        };
        let mut rest = jobs.as_slice();
        while let Some((first, _)) = rest.split_first() {
            match self.run(writer, &mut view, rest, file_len) {
                Ok(done) => rest = rest.get(done..).unwrap_or_default(),
                Err(error) => {
                    first.fail(error.duplicate());
                    rest.iter().for_each(|job| job.fail(error.duplicate()));
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
        drop(view);
        drop(held);
        jobs.clear();
        writer.spare.jobs = jobs;
    }

    /// Runs jobs until the batch is large enough, writes it, and answers them; returns how many were answered.
    fn run(&self, writer: &mut Writer, view: &mut View, jobs: &[Arc<Job>], file_len: u64) -> Result<usize> {
        let mut file_len = file_len;
        if self.rotate_if_full(writer, view)? {
            file_len = view.at.offset;
        }
        let Some(active) = view.active.clone() else {
            return Err(Error::new(ErrorKind::NotYet, "commit to", self.paths.dir()));
        };
        if !active.owns_bytes() && jobs.iter().any(|job| job.durability != Durability::Buffered) {
            self.own_bytes(view, &active)?;
        }
        let (mut batch, mut undoing) = self.start_batch(writer, view, &active)?;
        let mut placed: Vec<(&Arc<Job>, Receipt, usize, u64)> = Vec::with_capacity(jobs.len());
        let mut answered = 0;
        for job in jobs {
            if batch.position().offset - view.at.offset > u64::from(active.header.max_body) {
                break;
            }
            answered += 1;
            match self.run_one(job, view, &mut batch, &mut undoing, active.header.max_body) {
                Ok(receipt) => placed.push((job, receipt, batch.frames().len(), batch.position().offset)),
                Err(outcome) => *job.outcome.lock() = Some(outcome),
            }
        }
        let first_frame = undoing.iter().filter(|u| matches!(u, Undoing::Control(_))).count();
        if batch.frames().len() == first_frame {
            // Nothing to write: what was prepared for a first append waits for one.
            for undo in undoing.iter().rev() {
                if let Undoing::Control(control) = undo {
                    view.state.undo_control(control);
                }
            }
            writer.spare.batch = batch.into_memory();
            for (job, receipt, ..) in placed {
                job.done(receipt, view, view.end_lpos());
            }
            return Ok(answered);
        }
        let (whole, error) = self.write_batch(writer, view, &active, batch, undoing, file_len);
        for (job, receipt, frames, behind) in placed {
            match (&error, frames <= whole) {
                (_, true) if frames == 0 => job.done(receipt, view, view.end_lpos()),
                (_, true) => job.done(receipt, view, active.header.lpos(behind)),
                (Some(error), false) => job.fail(error.duplicate()),
                (None, false) => job.fail(Error::new(ErrorKind::Io, "append to", &active.path)),
            }
        }
        Ok(answered)
    }

    fn run_one(
        &self,
        job: &Job,
        view: &mut View,
        batch: &mut Batch<'_>,
        undoing: &mut Vec<Undoing>,
        max_body: u32,
    ) -> std::result::Result<Receipt, Outcome> {
        let mut draft = Draft::default();
        if let Some(closure) = job.closure.lock().take() {
            IN_CLOSURE.set(true);
            let ran = catch_unwind(AssertUnwindSafe(|| closure(&view.state, &mut draft)));
            IN_CLOSURE.set(false);
            ran.map_err(Outcome::Panicked)?.map_err(Outcome::Failed)?;
        }
        let receipt = |first, count, revisions, again| Receipt {
            first,
            count,
            revisions,
            cursor: Cursor::default(),
            durable: false,
            again,
        };
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
        draft.settle(&view.state, &self.settings.vocabulary, max_body).map_err(Outcome::Failed)?;
        let Ok(count @ 1..=MAX_COUNT) = u16::try_from(draft.count()) else {
            return Ok(receipt(view.state.last(), 0, Vec::new(), false));
        };
        let first = Seq(batch.position().seq);
        let preamble = Preamble {
            time: self.vfs.now(),
            session: self.session.as_ref().map_or(0, |session| session.id()),
            operation: draft.request(),
        };
        let mut revisions = Vec::new();
        let (placed, body_len) = batch.put(FrameKind::COMMIT, count, |out| {
            preamble.encode(out);
            revisions = draft.encode(&view.state, first, out);
        });
        // What was encoded is read back before it is believed: the fold sees exactly what others will read.
        match Commit::decode(first.0, count, batch.body(&placed, body_len)) {
            Ok(commit) => {
                let undo = view.state.apply(&commit, count, &self.settings.vocabulary);
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

impl Job {
    fn fail(&self, error: Error) {
        let mut outcome = self.outcome.lock();
        if outcome.is_none() {
            *outcome = Some(Outcome::Failed(error));
        }
    }

    fn done(&self, mut receipt: Receipt, view: &View, behind: u64) {
        let last = if receipt.count == 0 {
            receipt.first
        } else {
            Seq(receipt.first.0 + u64::from(receipt.count) - 1)
        };
        receipt.cursor = view.state.cursor_at(last);
        *self.outcome.lock() = Some(Outcome::Done(receipt, behind));
    }
}
