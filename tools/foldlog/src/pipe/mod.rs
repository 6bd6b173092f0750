//! `foldlog pipe`: one long-lived process for languages without a package. JSON Lines in, JSON Lines out.
//!
//! Requests are answered in their order. What subscriptions bring comes between the answers. `docs/pipe.md` has the contract.

mod follow;

use std::io::{self, BufRead as _};
use std::sync::mpsc::{self, SyncSender};

use foldlog::task::TaskStore;
use foldlog::{Housekeeping, Options};
use foldlog_requests::json::{raw, splice};
use foldlog_requests::perform::Subject;
use foldlog_requests::{Failure, Request};

use crate::args::{Global, Pipe};
use crate::exit::Exit;
use crate::out::Out;
use crate::target;
use follow::Subscriptions;

/// How many lines wait to be worked on before who sends them has to wait.
const WAITING_MAX: usize = 64;

/// What there is to do.
enum Input {
    /// A request, or what stands for one.
    Line(io::Result<String>),
    /// What a subscription brings.
    Event(String),
    /// No more requests come.
    End,
}

/// Runs the verb.
pub(crate) fn run(global: &Global, verb: &Pipe, out: &mut Out) -> Result<Exit, Failure> {
    let options = Options::default()
        .create(!verb.no_create && !verb.read_only)
        .read_only(verb.read_only)
        .label(verb.label.clone())
        .housekeeping(Housekeeping::Thread);
    let store = TaskStore::open(target::root(global)?, options)?;
    let subject = Subject { store, workspace: global.workspace.clone() };
    let (send, receive) = mpsc::sync_channel(WAITING_MAX);
    let mut subscriptions = Subscriptions::default();
    let lines = send.clone();
    std::thread::spawn(move || read(&lines));
    while let Ok(input) = receive.recv() {
        match input {
            Input::End => break,
            Input::Event(line) => out.line(&line)?,
            Input::Line(line) => answer(&subject, &mut subscriptions, &send, line, out)?,
        }
        out.flush()?;
    }
    // Nobody hears them any more, so that none waits for room.
    drop(receive);
    subscriptions.end_all();
    for (_, home) in subject.store.homes()? {
        // One that cannot be read has nothing of ours to be settled.
        if let Ok(home) = home {
            home.workspace().clone().close()?;
        }
    }
    Ok(Exit::Fine)
}

fn read(send: &SyncSender<Input>) {
    for line in io::stdin().lock().lines() {
        let ends = line.is_err();
        if send.send(Input::Line(line)).is_err() || ends {
            break;
        }
    }
    // Nobody is left to hear it if the verb has ended.
    let _ = send.send(Input::End);
}

fn answer(
    subject: &Subject,
    subscriptions: &mut Subscriptions,
    send: &SyncSender<Input>,
    line: io::Result<String>,
    out: &mut Out,
) -> Result<(), Failure> {
    let line = match line {
        Ok(line) if line.trim().is_empty() => return Ok(()),
        Ok(line) => line,
        Err(e) => return out.line(&failed(None, &Failure::invalid(format!("stdin is no text: {e}")))),
    };
    let request = match Request::parse(&line) {
        Ok(request) => request,
        Err(failure) => return out.line(&failed(id_of(&line).as_deref(), &failure)),
    };
    let id = request.id.map(serde_json::value::RawValue::get);
    let done = match &*request.op {
        "subscribe" => subject.home(&request).and_then(|home| subscriptions.begin(home, &request, send)),
        "unsubscribe" => subscriptions.end(request.sub),
        op => subject
            .perform(&request)
            .and_then(|done| done.ok_or_else(|| Failure::invalid(format!("there is no operation {op:?}")))),
    };
    out.line(&match done {
        Ok(answer) => {
            let mut whole = String::from("{");
            raw("id", id.unwrap_or("null"), &mut whole);
            splice("ok", &answer, &mut whole);
            whole + "}"
        }
        Err(failure) => failed(id, &failure),
    })
}

/// The id of a line that is JSON, though no request.
fn id_of(line: &str) -> Option<String> {
    let whole: serde_json::Value = serde_json::from_str(line).ok()?;
    whole.get("id").map(ToString::to_string)
}

/// `{"id",…}` and what every error has.
fn failed(id: Option<&str>, failure: &Failure) -> String {
    failed_with("id", id.unwrap_or("null"), failure)
}

fn failed_with(name: &str, value: &str, failure: &Failure) -> String {
    let mut line = String::from("{");
    raw(name, value, &mut line);
    line + "," + failure.json().trim_start_matches('{')
}
