//! Subscriptions of a pipe: a thread each, whose lines go through the one that answers requests.

use std::collections::BTreeMap;
use std::sync::mpsc::SyncSender;
use std::thread::JoinHandle;
use std::time::Duration;

use foldlog::log::Waker;
use foldlog::task::{TaskChanges, TaskCommit, TaskUpdate};
use foldlog::{ErrorKind, Tasks};
use foldlog_requests::changes::{self, cursor};
use foldlog_requests::health::health;
use foldlog_requests::json::{raw, splice, text};
use foldlog_requests::{Failure, Request};

use super::{Input, failed_with};

/// How long a thread sleeps at a stretch; it is woken earlier by what it waits for.
const STRETCH: Duration = Duration::from_secs(3600);

/// Those that go on.
#[derive(Default)]
pub(super) struct Subscriptions {
    all: BTreeMap<u64, (Waker, JoinHandle<()>)>,
    last: u64,
}

impl Subscriptions {
    /// Begins one; its answer comes before anything that it brings.
    pub(super) fn begin(
        &mut self,
        home: Tasks,
        request: &Request<'_>,
        send: &SyncSender<Input>,
    ) -> Result<String, Failure> {
        let since = changes::since(request.from.as_deref())?;
        let stream = home.changes(since)?;
        let stream = if request.durable { stream.durable_only() } else { stream };
        self.last += 1;
        let (sub, send, waker) = (self.last, send.clone(), stream.waker());
        let mut answer = String::from("{");
        raw("sub", sub, &mut answer);
        text("cursor", &cursor(stream.cursor()), &mut answer);
        let thread = std::thread::Builder::new().name("foldlog-pipe".into());
        let thread = thread.spawn(move || hand_on(sub, &home, stream, &send));
        let thread =
            thread.map_err(|e| Failure::io("start a thread for", std::path::Path::new("subscribe"), &e))?;
        self.all.insert(sub, (waker, thread));
        Ok(answer + "}")
    }

    /// Ends one. A line that it has sent already may still come.
    pub(super) fn end(&mut self, sub: Option<u64>) -> Result<String, Failure> {
        let sub = sub.ok_or_else(|| Failure::invalid("unsubscribe needs sub, a number"))?;
        match self.all.remove(&sub) {
            Some((waker, _)) => {
                waker.stop();
                Ok("{}".into())
            }
            None => Err(Failure::invalid(format!("there is no subscription {sub}"))),
        }
    }

    /// Ends all; nobody listens to them any more.
    pub(super) fn end_all(self) {
        self.all.values().for_each(|(waker, _)| waker.stop());
        for (_, thread) in self.all.into_values() {
            // One that has panicked has ended too.
            let _ = thread.join();
        }
    }
}

fn hand_on(sub: u64, home: &Tasks, mut stream: TaskChanges, send: &SyncSender<Input>) {
    while !stream.is_stopped() {
        let told = match stream.next_within(STRETCH) {
            Ok(None) => continue,
            Ok(Some(TaskUpdate::Commit(commit))) => told(sub, home, &commit),
            Ok(Some(TaskUpdate::Health(_))) => {
                let mut line = head(sub);
                splice("health", &health(home), &mut line);
                Ok(line + "}")
            }
            Ok(Some(_)) => continue,
            Err(error) => Err(error.into()),
        };
        let ends = told.is_err();
        let line = told.unwrap_or_else(|failure| {
            // Where the history it has told of has ended, `to` is the last event both share.
            let mut line = failed_with("sub", &sub.to_string(), &failure);
            if let Failure::Library(error) = &failure
                && let ErrorKind::Rewound { to } = error.kind()
                && line.pop().is_some()
            {
                raw("to", to, &mut line);
                line.push('}');
            }
            line
        });
        if send.send(Input::Event(line)).is_err() || ends {
            return;
        }
    }
}

fn head(sub: u64) -> String {
    let mut line = String::from("{");
    raw("sub", sub, &mut line);
    line
}

/// `{"sub":N,"commit":{…}}`.
fn told(sub: u64, home: &Tasks, commit: &TaskCommit) -> Result<String, Failure> {
    let mut line = head(sub);
    splice("commit", &changes::commit(home, commit)?, &mut line);
    Ok(line + "}")
}
