//! `foldlog tasks --watch`: the list, for as long as somebody looks at it.

use std::collections::BTreeSet;
use std::io::IsTerminal as _;

use foldlog::{KeyKind, Since};
use foldlog_requests::{Failure, json};

use crate::exit::Exit;
use crate::follow;
use crate::homes::Homes;
use crate::out::Out;
use crate::table;
use crate::task_args::Tasks as Verb;
use crate::tasks::{self, Page};

/// A task, by its home's place and its id.
type Name = (usize, String);

/// Puts the cursor into the upper left corner and clears what was there.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// Prints the list, and goes on.
pub(crate) fn run(homes: &Homes, verb: &Verb, out: &mut Out) -> Result<Exit, Failure> {
    // Before the list is made, so that nothing falls in between.
    let subscribe = |home: &foldlog::Tasks| home.workspace().subscribe(Since::Now);
    let subscriptions = homes.all.iter().map(subscribe).collect::<foldlog::Result<Vec<_>>>()?;
    let news = follow::listen(subscriptions)?;
    let draws = !out.json && std::io::stdout().is_terminal();
    let height =
        table::height().filter(|_| draws).and_then(|lines| u32::try_from(lines.saturating_sub(2)).ok());
    let limit = verb.limit.or(height.map(|lines| lines.max(1)));
    let (mut page, mut exit) = (tasks::page(homes, verb, limit)?, Exit::Fine);
    if draws {
        out.bytes(CLEAR.as_bytes())?;
    }
    tasks::print(homes, verb, &page, out)?;
    out.flush()?;
    while let Ok(first) = news.recv() {
        let mut changed: BTreeSet<Name> = BTreeSet::new();
        for (at, told) in std::iter::once(first).chain(news.try_iter()) {
            match told {
                Ok(delivery) => {
                    let tasks = delivery.events.iter().filter(|event| event.key.kind == KeyKind::TASK);
                    changed.extend(tasks.map(|event| (at, event.key.name.to_string())));
                }
                Err(error) => {
                    let failure = Failure::Library(error);
                    out.error(&failure);
                    exit = exit.worse(Exit::of(&failure));
                }
            }
        }
        if changed.is_empty() {
            continue;
        }
        let before = names(&page);
        page = tasks::page(homes, verb, limit)?;
        if draws {
            out.bytes(CLEAR.as_bytes())?;
            tasks::print(homes, verb, &page, out)?;
        } else {
            lines(homes, verb, &page, &before, &changed, out)?;
        }
        out.flush()?;
    }
    Ok(exit)
}

fn names(page: &Page) -> BTreeSet<Name> {
    page.rows.iter().map(|row| (row.home, row.found.task.id.to_string())).collect()
}

/// A line for each task of the list that has changed.
fn lines(
    homes: &Homes,
    verb: &Verb,
    page: &Page,
    before: &BTreeSet<Name>,
    changed: &BTreeSet<Name>,
    out: &mut Out,
) -> Result<(), Failure> {
    let now = names(page);
    for row in page.rows.iter().filter(|row| changed.contains(&(row.home, row.found.task.id.to_string()))) {
        let Some(home) = homes.all.get(row.home) else { continue };
        let line = match out.json {
            true => tasks::json(home, row, verb)?,
            false => tasks::cells(home, row, verb.tree, homes.several())?.join("  "),
        };
        out.line(&line)?;
    }
    for (at, id) in changed.iter().filter(|name| before.contains(*name) && !now.contains(*name)) {
        let Some(home) = homes.all.get(*at) else { continue };
        let line = if out.json {
            let mut line = String::from("{");
            json::text("id", id, &mut line);
            json::raw("gone", "true", &mut line);
            json::text("workspace", home.workspace().name(), &mut line);
            line + "}"
        } else {
            format!("{} is not in the list any more", crate::escape::text(id))
        };
        out.line(&line)?;
    }
    Ok(())
}
