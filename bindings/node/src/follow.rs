//! A stream of what changes in a workspace: a thread that reads on only when it is asked to.

use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
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

/// See the module.
#[napi]
pub struct Follow {
    wire: Arc<Wire>,
    asks: Mutex<Option<Sender<Job>>>,
    end: Arc<Mutex<End>>,
}

impl Follow {
    /// Begins one. From now on, it begins at once; where a history has to be read for it, its thread does that.
    pub(crate) fn begin(
        wire: &Arc<Wire>,
        home: &Tasks,
        since: Since,
        durable: bool,
    ) -> Result<Self, Failure> {
        let end: Arc<Mutex<End>> = Arc::default();
        let (asks, asked) = mpsc::channel();
        let begun = match since {
            Since::Now => Some(home.changes(since)?),
            _ => None,
        };
        let (home, its_end) = (home.clone(), Arc::clone(&end));
        let thread = std::thread::Builder::new().name("foldlog-follow".into());
        let thread = thread.spawn(move || {
            let stream = match begun {
                Some(stream) => Ok(stream),
                None => caught(|| Ok(home.changes(since)?)),
            };
            let stream = stream.map(|stream| if durable { stream.durable_only() } else { stream });
            serve(&home, stream, &asked, &its_end);
        });
        thread.map_err(|e| Failure::io("start a thread for", std::path::Path::new("subscribe"), &e))?;
        Ok(Follow { wire: Arc::clone(wire), asks: Mutex::new(Some(asks)), end })
    }
}

#[napi]
impl Follow {
    /// Asks for what comes next: `{"updates":[{"commit"}|{"health"}],"cursor","ended"}`, as soon as there is any.
    #[napi(catch_unwind)]
    pub fn pull(&self, job: f64) -> napi::Result<()> {
        let job = Job::of(&self.wire, job, false);
        let asks = lock(&self.asks);
        let sent = asks.as_ref().map_or(Err(()), |asks| asks.send(job).map_err(drop));
        sent.map_err(|()| thrown(closed("subscription")))
    }

    /// Ends it: what is being waited for is answered with nothing.
    #[napi(catch_unwind)]
    pub fn stop(&self) {
        drop(lock(&self.asks).take());
        let mut end = lock(&self.end);
        end.stopped = true;
        if let Some(waker) = &end.waker {
            waker.stop();
        }
    }
}

impl Drop for Follow {
    fn drop(&mut self) {
        self.stop();
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
        let over = answer.is_err() || stream.is_stopped();
        job.end(answer);
        if over {
            return;
        }
    }
}

fn next(home: &Tasks, stream: &mut TaskChanges) -> Result<String, Failure> {
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
    raw("ended", stream.is_stopped(), &mut out);
    Ok(out + "}")
}
