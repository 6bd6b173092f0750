//! A stream of what changes in a workspace: a thread that reads on only when it is asked to.

use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use foldlog::log::Waker;
use foldlog::task::{TaskChanges, TaskUpdate};
use foldlog::{Since, Tasks};
use foldlog_requests::json::{array, raw, text};
use foldlog_requests::{Failure, changes, health};
use napi_derive::napi;

use crate::home::closed;
use crate::thrown;
use crate::wire::{Job, Wire, caught, lock};

/// How long the thread sleeps at a stretch; it is woken earlier by what it waits for.
const STRETCH: Duration = Duration::from_secs(3600);
/// How much of what is there already goes over at once.
const TOGETHER_MAX: usize = 64;

pub(crate) use foldlog_requests::changes::since as since_of;

/// Where a stream begins.
pub(crate) fn since(from: &str) -> Result<Since, Failure> {
    since_of(Some(from))
}

/// What can end the waiting, once there is something that waits.
#[derive(Default)]
struct End {
    stopped: bool,
    waker: Option<Waker>,
}

/// A stream's two ends: of who asks and of who answers.
pub(crate) struct Stream {
    asks: Mutex<Option<Sender<Job>>>,
    end: Mutex<End>,
    /// Its thread, for who waits until it holds nothing of the workspace.
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Stream {
    /// Ends it: what is being waited for is answered with nothing.
    pub(crate) fn stop(&self) {
        drop(lock(&self.asks).take());
        let mut end = lock(&self.end);
        end.stopped = true;
        if let Some(waker) = &end.waker {
            waker.stop();
        }
    }

    /// The same, and waits until its thread has ended.
    pub(crate) fn end(&self) {
        self.stop();
        if let Some(thread) = lock(&self.thread).take() {
            // One that has panicked has ended too.
            let _ = thread.join();
        }
    }
}

/// See the module.
#[napi]
pub struct Follow {
    wire: Arc<Wire>,
    stream: Arc<Stream>,
}

impl Follow {
    /// Begins one. From now on, it begins at once; where a history has to be read for it, its thread does that.
    pub(crate) fn begin(
        wire: &Arc<Wire>,
        home: &Tasks,
        since: Since,
        durable: bool,
    ) -> Result<(Self, Weak<Stream>), Failure> {
        let (asks, asked) = mpsc::channel();
        let stream = Arc::new(Stream {
            asks: Mutex::new(Some(asks)),
            end: Mutex::default(),
            thread: Mutex::default(),
        });
        let begun = match since {
            Since::Now => Some(home.changes(since)?),
            _ => None,
        };
        let (home, its) = (home.clone(), Arc::clone(&stream));
        let thread = std::thread::Builder::new().name("foldlog-follow".into());
        let thread = thread.spawn(move || {
            let changes = match begun {
                Some(changes) => Ok(changes),
                None => caught(|| Ok(home.changes(since)?)),
            };
            let changes = changes.map(|changes| if durable { changes.durable_only() } else { changes });
            serve(&home, changes, &asked, &its.end);
        });
        let thread =
            thread.map_err(|e| Failure::io("start a thread for", std::path::Path::new("subscribe"), &e))?;
        *lock(&stream.thread) = Some(thread);
        let weak = Arc::downgrade(&stream);
        Ok((Follow { wire: Arc::clone(wire), stream }, weak))
    }
}

#[napi]
impl Follow {
    /// Asks for what comes next: `{"updates":[{"commit"}|{"health"}],"cursor","ended"}`, as soon as there is any.
    #[napi(catch_unwind)]
    pub fn pull(&self, job: f64) -> napi::Result<()> {
        let asks = lock(&self.stream.asks);
        // One that has ended answers nothing more, and the job it drops says so.
        let asks = asks.as_ref().ok_or_else(|| thrown(closed("subscription")))?;
        let sent = asks.send(Job::of(&self.wire, job, false));
        drop(sent);
        Ok(())
    }

    /// Ends it: what is being waited for is answered with nothing.
    #[napi(catch_unwind)]
    pub fn stop(&self) {
        self.stream.stop();
    }
}

impl Drop for Follow {
    fn drop(&mut self) {
        self.stream.stop();
    }
}

fn serve(home: &Tasks, stream: Result<TaskChanges, Failure>, asked: &Receiver<Job>, end: &Mutex<End>) {
    let mut stream = match stream {
        Ok(stream) => stream,
        Err(failure) => {
            if let Ok(job) = asked.recv() {
                job.end(Err(failure));
            }
            return;
        }
    };
    {
        let mut end = lock(end);
        let waker = stream.waker();
        if end.stopped {
            waker.stop();
        }
        end.waker = Some(waker);
    }
    while let Ok(job) = asked.recv() {
        let answer = caught(|| next(home, &mut stream));
        // What the answer says, and nothing that came behind it.
        let over = answer.as_ref().map_or(true, |(_, ended)| *ended);
        job.end(answer.map(|(text, _)| text));
        if over {
            return;
        }
    }
}

/// What comes next, and whether it ends with that.
fn next(home: &Tasks, stream: &mut TaskChanges) -> Result<(String, bool), Failure> {
    let mut updates = Vec::new();
    while !stream.is_stopped() {
        let patience = if updates.is_empty() { STRETCH } else { Duration::ZERO };
        let mut update = String::from("{");
        match stream.next_within(patience)? {
            Some(TaskUpdate::Commit(commit)) => raw("commit", changes::commit(home, &commit)?, &mut update),
            Some(TaskUpdate::Health(_)) => raw("health", health::health(home), &mut update),
            Some(_) => continue,
            None if updates.is_empty() => continue,
            None => break,
        }
        updates.push(update + "}");
        if updates.len() == TOGETHER_MAX {
            break;
        }
    }
    let mut out = String::from("{");
    raw("updates", array(&updates), &mut out);
    text("cursor", &changes::cursor(stream.cursor()), &mut out);
    let ended = stream.is_stopped();
    raw("ended", ended, &mut out);
    Ok((out + "}", ended))
}
