//! Subscriptions of a pipe: a thread each, whose lines go through the one that answers requests.

use std::collections::BTreeMap;
use std::sync::mpsc::SyncSender;
use std::thread::JoinHandle;
use std::time::Duration;

use foldlog::log::{Cursor, Waker};
use foldlog::task::{TaskChanges, TaskCommit, TaskUpdate};
use foldlog::{ErrorKind, Seq, Since, Tasks};

use super::perform::{array, health, splice};
use super::request::{Request, invalid};
use super::{Input, failed_with};
use crate::event_json::rfc3339;
use crate::failure::Failure;
use crate::history;
use crate::task_json::{raw, text};

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
        let since = since(request.from.as_deref())?;
        let changes = home.changes(since)?;
        let changes = if request.durable { changes.durable_only() } else { changes };
        self.last += 1;
        let (sub, send, waker) = (self.last, send.clone(), changes.waker());
        let mut answer = String::from("{");
        raw("sub", sub, &mut answer);
        text("cursor", &cursor(changes.cursor()), &mut answer);
        let thread = std::thread::Builder::new().name("foldlog-pipe".into());
        let thread = thread.spawn(move || hand_on(sub, &home, changes, &send));
        let thread =
            thread.map_err(|e| Failure::io("start a thread for", std::path::Path::new("subscribe"), &e))?;
        self.all.insert(sub, (waker, thread));
        Ok(answer + "}")
    }

    /// Ends one. A line that it has sent already may still come.
    pub(super) fn end(&mut self, sub: Option<u64>) -> Result<String, Failure> {
        let sub = sub.ok_or_else(|| invalid("unsubscribe needs sub, a number"))?;
        match self.all.remove(&sub) {
            Some((waker, _)) => {
                waker.stop();
                Ok("{}".into())
            }
            None => Err(invalid(format!("there is no subscription {sub}"))),
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

fn since(from: Option<&str>) -> Result<Since, Failure> {
    match from {
        None | Some("now") => Ok(Since::Now),
        Some("start") => Ok(Since::Beginning),
        Some(text) => {
            let read = || {
                let (seq, epoch) = text.split_once('.')?;
                Some(Cursor { seq: Seq(seq.parse().ok()?), epoch: u64::from_str_radix(epoch, 16).ok()? })
            };
            let bad = || invalid(format!("from is to be \"now\", \"start\" or a cursor, not {text:?}"));
            read().map(Since::Cursor).ok_or_else(bad)
        }
    }
}

/// `SEQ.EPOCH`.
fn cursor(at: Cursor) -> String {
    format!("{}.{:016x}", at.seq, at.epoch)
}

fn hand_on(sub: u64, home: &Tasks, mut changes: TaskChanges, send: &SyncSender<Input>) {
    while !changes.is_stopped() {
        let told = match changes.next_within(STRETCH) {
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

/// `{"sub":N,"commit":{"first","cursor","time","session","durable","changes":[{"id",…as of history}]}}`.
fn told(sub: u64, home: &Tasks, commit: &TaskCommit) -> Result<String, Failure> {
    let mut one = String::from("{");
    raw("first", commit.first, &mut one);
    text("cursor", &cursor(commit.cursor), &mut one);
    text("time", &rfc3339(commit.time), &mut one);
    match commit.session {
        0 => raw("session", "null", &mut one),
        session => text("session", &format!("{session:016x}"), &mut one),
    }
    raw("durable", commit.cursor.seq <= commit.durable, &mut one);
    let mut changes = Vec::with_capacity(commit.changes.len());
    for changed in &commit.changes {
        let mut change = String::from("{");
        text("id", changed.id.as_str(), &mut change);
        let rest = history::json(home, &changed.change)?;
        change.push(',');
        change.push_str(rest.trim_start_matches('{'));
        changes.push(change);
    }
    raw("changes", array(&changes), &mut one);
    let mut line = head(sub);
    splice("commit", &(one + "}"), &mut line);
    Ok(line + "}")
}
