//! Following logs: one thread each waits for commits, and what they get is printed in the order it comes.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use foldlog::{Delivery, ErrorKind, Seq, Since, Store, Subscription};
use foldlog_requests::Failure;

use crate::args::Dump;
use crate::dump;
use crate::exit::Exit;
use crate::out::Out;

/// What one of the logs, by its place among them, has to tell.
pub(crate) type News = (usize, foldlog::Result<Delivery>);

/// Listens to all of these; the channel ends when none of them goes on.
///
/// # Errors
/// If the system gives no thread.
pub(crate) fn listen(subscriptions: Vec<Subscription>) -> Result<Receiver<News>, Failure> {
    let (sender, receiver) = channel();
    for (at, subscription) in subscriptions.into_iter().enumerate() {
        let sender = sender.clone();
        let started = std::thread::Builder::new()
            .name("foldlog-follow".into())
            .spawn(move || hand_on(at, subscription, &sender));
        if let Err(e) = started {
            return Err(Failure::io("start a thread for", std::path::Path::new("following"), &e));
        }
    }
    Ok(receiver)
}

fn hand_on(at: usize, mut subscription: Subscription, sender: &Sender<News>) {
    while !subscription.is_stopped() {
        let news = match subscription.next_within(Duration::from_secs(3600)) {
            Ok(None) => continue,
            Ok(Some(delivery)) => Ok(delivery),
            Err(error) => Err(error),
        };
        let goes_on = match &news {
            Ok(_) => true,
            // What was printed of the history that has ended stands; the other one goes on behind what both share.
            Err(error) => match error.kind() {
                ErrorKind::Rewound { to } => subscription.go_on_from(Since::After(*to)).is_ok(),
                _ => false,
            },
        };
        if sender.send((at, news)).is_err() || !goes_on {
            return;
        }
    }
}

/// `foldlog dump --follow`: goes on behind the last event that was printed of each workspace.
pub(crate) fn run(
    store: &Store,
    ends: &[(String, Seq)],
    verb: &Dump,
    out: &mut Out,
) -> Result<Exit, Failure> {
    let mut subscriptions = Vec::with_capacity(ends.len());
    let mut workspaces = Vec::with_capacity(ends.len());
    for (name, last) in ends {
        let workspace = store.workspace_named(name)?;
        subscriptions.push(workspace.subscribe(Since::After(*last))?);
        workspaces.push(workspace); // waiting ends with it
    }
    let news = listen(subscriptions)?;
    let (mut exit, mut headed) = (Exit::Fine, None);
    while let Ok(first) = news.recv() {
        for (at, told) in std::iter::once(first).chain(news.try_iter()) {
            let name = ends.get(at).map_or("", |(name, _)| name);
            match told {
                Ok(delivery) => {
                    let head = ends.len() > 1 && !out.json && headed != Some(at);
                    if print(name, &delivery, verb, head, out)? {
                        headed = Some(at);
                    }
                }
                Err(error) => {
                    let failure = Failure::Library(error);
                    out.flush()?;
                    out.error(&failure);
                    exit = exit.worse(Exit::of(&failure));
                }
            }
        }
        out.flush()?;
    }
    drop(workspaces);
    Ok(exit)
}

/// Returns whether it printed anything.
fn print(name: &str, delivery: &Delivery, verb: &Dump, head: bool, out: &mut Out) -> Result<bool, Failure> {
    let first = delivery.first.0;
    let count = u16::try_from(delivery.last().0 + 1 - first).unwrap_or(u16::MAX);
    let preamble = delivery.preamble();
    let mut printed = false;
    for event in delivery.events.iter().filter(|event| event.seq.0 >= verb.from) {
        let line = event.with_envelope(|event| {
            let line = || dump::event_of(name, verb, out.json, &preamble, (first, count), event);
            dump::wanted(verb, event).then(line)
        });
        if let Some(line) = line {
            if head && !printed {
                out.line(&format!("workspace {name}"))?;
            }
            printed = true;
            out.line(&line)?;
        }
    }
    Ok(printed)
}
