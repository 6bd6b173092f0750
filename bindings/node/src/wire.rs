//! How other threads answer JavaScript's: results wait in a list, and their owner is called once to fetch them.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;
use std::time::Duration;

use foldlog_requests::Failure;
use foldlog_requests::failure::said;
use napi::bindgen_prelude::Function;
use napi::threadsafe_function::{ThreadsafeFunction, ThreadsafeFunctionCallMode};
use napi_derive::napi;

/// A lock whose holder has panicked still protects what it protects: each is held for a few plain statements only.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Calls its JavaScript function without arguments. It keeps no event loop alive.
type Call = ThreadsafeFunction<(), (), (), napi::Status, false, true, 0>;

const WAITING: u8 = 0;
const BEGUN: u8 = 1;
const CANCELLED: u8 = 2;
const ANSWERED: u8 = 3;

/// One environment's end of all threads that work for it.
pub(crate) struct Wire {
    call: Call,
    done: Mutex<Vec<Done>>,
    /// Whether the owner has been called and has not come yet.
    called: AtomicBool,
    /// JavaScript's own thread, which can wait for no answer of itself.
    thread: ThreadId,
    /// What JavaScript was asked and has not answered.
    asked: Mutex<HashMap<u64, Sender<Option<String>>>>,
    questions: AtomicU64,
    /// Jobs that can still be called off.
    open: Mutex<HashMap<u64, Arc<AtomicU8>>>,
}

/// What is to be told: a job's or a question's number, what it is of, and its text.
type Done = (u64, Mark, String);

#[derive(Clone, Copy)]
enum Mark {
    Answer,
    Error,
    Question,
    Progress,
}

/// How often who has asked looks whether there is still somebody to answer.
const STRETCH: Duration = Duration::from_secs(1);

impl Wire {
    /// Leaves a result and sees to it that its owner comes for it.
    fn answer(&self, id: u64, result: Result<String, Failure>) {
        let (mark, text) = match result {
            Ok(text) => (Mark::Answer, text),
            Err(failure) => (Mark::Error, failure.json_with_data()),
        };
        lock(&self.open).remove(&id);
        self.tell((id, mark, text));
    }

    fn tell(&self, what: Done) {
        lock(&self.done).push(what);
        if !self.called.swap(true, Ordering::AcqRel) {
            // An environment that is closing needs no answers.
            let _ = self.call.call((), ThreadsafeFunctionCallMode::NonBlocking);
        }
    }
}

impl Wire {
    /// Asks a validator of JavaScript's about a document. Waits for its answer, on any thread but JavaScript's.
    pub(crate) fn ask(&self, validator: u32, name: &str, value: &str) -> Result<(), String> {
        if std::thread::current().id() == self.thread {
            return Err("JavaScript's own thread cannot wait for its validator".into());
        }
        let mut text = format!("[{validator},");
        foldlog::event::json::write_string(name, &mut text);
        text.push(',');
        text += value;
        text.push(']');
        let id = self.questions.fetch_add(1, Ordering::Relaxed);
        let (send, answer) = mpsc::channel();
        lock(&self.asked).insert(id, send);
        self.tell((id, Mark::Question, text));
        let said = loop {
            match answer.recv_timeout(STRETCH) {
                Ok(said) => break said,
                Err(RecvTimeoutError::Timeout) if !self.call.aborted() => {}
                Err(_) => break Some("its JavaScript ended before the validator had answered".into()),
            }
        };
        lock(&self.asked).remove(&id);
        said.map_or(Ok(()), Err)
    }
}

impl Wire {
    /// Tells how far a job is.
    pub(crate) fn progress(&self, id: u64, text: String) {
        self.tell((id, Mark::Progress, text));
    }
}

/// Something that was asked for and is answered once: if nobody does it, when it is dropped.
pub(crate) struct Job {
    id: u64,
    state: Arc<AtomicU8>,
    wire: Arc<Wire>,
}

impl Job {
    /// A job of this number. Only one that may be called off can be.
    pub(crate) fn of(wire: &Arc<Wire>, id: f64, cancellable: bool) -> Self {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "lib/ counts from 1")]
        let id = id as u64;
        let state = Arc::new(AtomicU8::new(WAITING));
        if cancellable {
            lock(&wire.open).insert(id, Arc::clone(&state));
        }
        Job { id, state, wire: Arc::clone(wire) }
    }

    /// By which its owner knows it.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Whether it is still wanted; from then on it can no more be called off.
    pub(crate) fn begin(&self) -> bool {
        self.state.compare_exchange(WAITING, BEGUN, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Answers.
    pub(crate) fn end(self, result: Result<String, Failure>) {
        self.state.store(ANSWERED, Ordering::Release);
        self.wire.answer(self.id, result);
    }

    /// Does the work unless it has been called off, and answers; a panic is an error.
    pub(crate) fn run(self, work: impl FnOnce() -> Result<String, Failure>) {
        if self.begin() {
            let result = caught(work);
            self.end(result);
        }
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        // Who has called it off has been answered by that.
        if matches!(self.state.swap(ANSWERED, Ordering::AcqRel), CANCELLED | ANSWERED) {
            return;
        }
        let failure = match std::thread::panicking() {
            true => Failure::panicked("see what was printed"),
            false => crate::home::closed("workspace"),
        };
        self.wire.answer(self.id, Err(failure));
    }
}

/// What work comes to; a panic is an error.
pub(crate) fn caught<T>(work: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|payload| Err(Failure::panicked(said(&*payload))))
}

/// A [`Wire`] as JavaScript holds it.
#[napi]
pub struct Bridge {
    pub(crate) wire: Arc<Wire>,
}

#[napi]
impl Bridge {
    /// `come` is called, on the environment's own thread, whenever there is something to fetch.
    #[napi(constructor, catch_unwind)]
    pub fn new(come: Function<'_, (), ()>) -> napi::Result<Self> {
        let call = come.build_threadsafe_function::<()>().callee_handled::<false>().weak::<true>().build()?;
        let wire = Wire {
            call,
            done: Mutex::default(),
            called: AtomicBool::new(false),
            thread: std::thread::current().id(),
            asked: Mutex::default(),
            questions: AtomicU64::new(1),
            open: Mutex::default(),
        };
        Ok(Bridge { wire: Arc::new(wire) })
    }

    /// All that is to be told and has not been fetched yet: of each its number, `+`, `-`, `?` or `*`, its text, and a NUL, which
    /// no JSON has. Behind `+` is a job's answer, behind `-` its error, behind `*` how far it is, behind `?` a question,
    /// `[VALIDATOR,NAME,VALUE]`.
    #[napi(catch_unwind)]
    pub fn fetch(&self) -> String {
        // In this order: what is left behind this calls again.
        self.wire.called.store(false, Ordering::Release);
        let done = std::mem::take(&mut *lock(&self.wire.done));
        let mut out = String::with_capacity(done.iter().map(|(_, _, text)| text.len() + 24).sum());
        for (id, mark, text) in done {
            out += &id.to_string();
            out.push(match mark {
                Mark::Answer => '+',
                Mark::Error => '-',
                Mark::Question => '?',
                Mark::Progress => '*',
            });
            out += &text;
            out.push('\0');
        }
        out
    }

    /// Answers a question: why not, or nothing.
    #[napi(catch_unwind)]
    pub fn answer(&self, question: f64, why: Option<String>) {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it was told this number"
        )]
        if let Some(asked) = lock(&self.wire.asked).remove(&(question as u64)) {
            // Who has asked may have given up.
            let _ = asked.send(why);
        }
    }

    /// Calls a job off. `true` = it had not begun, and never will: nothing of it has been or will be done. `false` = it has
    /// begun, and will be answered.
    #[napi(catch_unwind)]
    pub fn cancel(&self, id: f64) -> bool {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "lib/ counts from 1")]
        let state = lock(&self.wire.open).remove(&(id as u64));
        state.is_some_and(|state| {
            state.compare_exchange(WAITING, CANCELLED, Ordering::AcqRel, Ordering::Acquire).is_ok()
        })
    }
}
