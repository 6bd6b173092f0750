//! `foldlog tasks`: lists, of one workspace or of all.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use foldlog::event::Field;
use foldlog::store;
use foldlog::task::Snapshot;
use foldlog::view::{Query, Sort, Task, Totals};
use foldlog::{Seq, Tasks, Token, Value};
use foldlog_requests::{Failure, json, task};

use crate::args::Global;
use crate::escape;
use crate::exit::Exit;
use crate::homes::{self, Homes};
use crate::out::Out;
use crate::table::{self, Column};
use crate::task_args::Tasks as Verb;
use crate::tree;
use crate::watch;

/// A task in the list.
pub(crate) struct Row {
    /// Its home, by its place among those that were opened.
    pub(crate) home: usize,
    pub(crate) found: Snapshot,
    /// Sums over it and all below it, where a tree is wanted.
    totals: Totals,
    depth: usize,
    /// When it was created or changed, µs since 1970, where lists of several logs are put together by that.
    time: u64,
}

/// What is printed: rows in order, the number of all, and what the next page begins behind.
pub(crate) struct Page {
    pub(crate) rows: Vec<Row>,
    total: usize,
    next: Option<String>,
}

/// Runs the verb.
pub(crate) fn run(global: &Global, verb: &Verb, out: &mut Out) -> Result<Exit, Failure> {
    let mut homes = homes::look(global, out)?;
    if verb.watch {
        homes::tell_unread(&mut homes, out);
        return Ok(homes.exit.worse(watch::run(&homes, verb, out)?));
    }
    let page = page(&homes, verb, verb.limit)?;
    print(&homes, verb, &page, out)?;
    homes::tell_unread(&mut homes, out);
    Ok(homes.exit)
}

/// Prints a list whole.
pub(crate) fn print(homes: &Homes, verb: &Verb, page: &Page, out: &mut Out) -> Result<(), Failure> {
    if !out.json {
        return people(homes, verb, page, out);
    }
    for row in &page.rows {
        let Some(home) = homes.all.get(row.home) else { continue };
        out.line(&json(home, row, verb)?)?;
    }
    let mut end = String::from("{");
    json::raw("total", page.total, &mut end);
    match &page.next {
        Some(next) => json::text("next", next, &mut end),
        None => json::raw("next", "null", &mut end),
    }
    out.line(&(end + "}"))
}

/// The line of a task.
pub(crate) fn json(home: &Tasks, row: &Row, verb: &Verb) -> Result<String, Failure> {
    let found = home.load(row.found.clone())?;
    let tree = verb.tree.then_some((row.depth, &row.totals));
    Ok(task::task(&found, home.workspace().name(), tree))
}

/// The list as it is now.
pub(crate) fn page(homes: &Homes, verb: &Verb, limit: Option<u32>) -> Result<Page, Failure> {
    let query = Query {
        status: verb.status,
        parent: verb.parent.clone(),
        background: (verb.background || verb.foreground).then_some(verb.background),
        sort: verb.sort.sort(),
        ..Query::default()
    };
    let mut rows = Vec::new();
    for (at, home) in homes.all.iter().enumerate() {
        // One look for all of it, so that the rows and their sums are of the same moment.
        let found = home.read(|state, index| {
            let tasks = index.list(&query).tasks.into_iter();
            let row = |task: std::sync::Arc<Task>| Row {
                home: at,
                totals: if verb.tree { index.totals(task.id.as_str()) } else { Totals::default() },
                found: Snapshot {
                    token: Token { revision: task.revision, at: state.cursor_at(task.seq) },
                    task,
                },
                depth: 0,
                time: 0,
            };
            tasks.map(row).collect::<Vec<_>>()
        })?;
        rows.extend(found);
    }
    if homes.several() {
        merge(&mut rows, query.sort, homes)?;
    }
    let total = rows.len();
    let rows = if verb.tree { in_tree(rows) } else { rows };
    cut(rows, total, verb, limit, homes)
}

/// Puts the lists of several workspaces into one order.
fn merge(rows: &mut [Row], sort: Sort, homes: &Homes) -> Result<(), Failure> {
    let seq = |row: &Row| if sort == Sort::Created { row.found.task.created } else { row.found.task.seq };
    let by_time = matches!(sort, Sort::Created | Sort::Changed);
    if by_time {
        for (at, home) in homes.all.iter().enumerate() {
            let wanted: HashSet<Seq> = rows.iter().filter(|row| row.home == at).map(seq).collect();
            let times = times(home, &wanted)?;
            for row in rows.iter_mut().filter(|row| row.home == at) {
                row.time = times.get(&seq(row)).copied().unwrap_or(0);
            }
        }
    }
    rows.sort_by(|a, b| {
        // Event numbers of two logs say nothing of each other.
        let order = match by_time && a.home != b.home {
            true => b.time.cmp(&a.time).then_with(|| a.found.task.id.cmp(&b.found.task.id)),
            false if by_time => b.time.cmp(&a.time).then_with(|| sort.compare(&a.found.task, &b.found.task)),
            false => sort.compare(&a.found.task, &b.found.task),
        };
        order.then_with(|| a.home.cmp(&b.home))
    });
    Ok(())
}

/// When events were committed, by their writers' clocks.
fn times(home: &Tasks, wanted: &HashSet<Seq>) -> Result<HashMap<Seq, u64>, Failure> {
    let log = home.workspace().log();
    Ok(log.replay(HashMap::new, |times, _, commit| {
        for event in commit.events().filter(|event| wanted.contains(&event.seq)) {
            times.insert(event.seq, commit.preamble.time);
        }
    })?)
}

fn in_tree(rows: Vec<Row>) -> Vec<Row> {
    let at: HashMap<(usize, String), usize> =
        rows.iter().enumerate().map(|(at, row)| ((row.home, row.found.task.id.to_string()), at)).collect();
    let parent = |row: &Row| at.get(&(row.home, row.found.task.parent()?.into_owned())).copied();
    let parents: Vec<Option<usize>> = rows.iter().map(parent).collect();
    let mut rows: Vec<Option<Row>> = rows.into_iter().map(Some).collect();
    let placed = tree::forest(&parents).into_iter();
    placed.filter_map(|(depth, at)| rows.get_mut(at)?.take().map(|row| Row { depth, ..row })).collect()
}

/// Leaves out what stands on other pages. Only tasks at the top count, and those below them go with them.
fn cut(
    rows: Vec<Row>,
    total: usize,
    verb: &Verb,
    limit: Option<u32>,
    homes: &Homes,
) -> Result<Page, Failure> {
    let name = |row: &Row| {
        let id = row.found.task.id.as_str();
        match homes.all.get(row.home).filter(|_| homes.several()) {
            Some(home) => format!("{}/{id}", home.workspace().name()),
            None => id.to_owned(),
        }
    };
    let mut rows = rows.into_iter().peekable();
    if let Some(after) = &verb.after {
        let is_it =
            |row: &Row| row.depth == 0 && (name(row) == *after || row.found.task.id.as_str() == after);
        if !rows.any(|row| is_it(&row)) {
            return Err(Failure::not_found(
                format!("{after} is not in this list, or not any more"),
                "begin again without --after, or behind a task that is there",
            ));
        }
        while rows.next_if(|row| row.depth > 0).is_some() {}
    }
    let limit = limit.map_or(usize::MAX, |n| usize::try_from(n).unwrap_or(usize::MAX));
    let (mut kept, mut tops, mut next) = (Vec::new(), 0, None);
    for row in rows {
        if row.depth == 0 {
            if tops == limit {
                break;
            }
            tops += 1;
            next = Some(name(&row));
        }
        kept.push(row);
    }
    let all = verb.after.is_none() && kept.len() == total;
    Ok(Page { next: next.filter(|_| tops == limit && !all), rows: kept, total })
}

const HEADS: [Column; 8] = [
    Column { head: "TITLE", right: false, expendable: 0 },
    Column { head: "STATUS", right: false, expendable: 1 },
    Column { head: "TIME", right: false, expendable: 2 },
    Column { head: "TOKENS", right: true, expendable: 4 },
    Column { head: "COST", right: true, expendable: 5 },
    Column { head: "SIZE", right: true, expendable: 6 },
    Column { head: "WORKSPACE", right: false, expendable: 3 },
    Column { head: "ID", right: false, expendable: 0 },
];

fn people(homes: &Homes, verb: &Verb, page: &Page, out: &mut Out) -> Result<(), Failure> {
    if page.rows.is_empty() {
        out.talk(if page.total == 0 { "there is no task like that" } else { "no task is behind that one" });
        return Ok(());
    }
    let mut columns = HEADS.to_vec();
    for column in &mut columns {
        column.head = match column.head {
            "TOKENS" if verb.tree => "ALL TOKENS",
            "COST" if verb.tree => "ALL COST",
            "SIZE" if verb.tree => "ALL SIZE",
            head => head,
        };
    }
    columns.retain(|column| column.head != "WORKSPACE" || homes.several());
    let mut rows = Vec::with_capacity(page.rows.len());
    for row in &page.rows {
        let Some(home) = homes.all.get(row.home) else { continue };
        rows.push(cells(home, row, verb.tree, homes.several())?);
    }
    table::lines(&columns, &rows, table::width()).iter().try_for_each(|line| out.line(line))?;
    if let Some(next) = &page.next {
        out.flush()?;
        let what = if verb.tree { "tasks and those above them" } else { "tasks" };
        out.talk(&format!(
            "{} of {} {what}; for more: --after {}",
            page.rows.len(),
            page.total,
            escape::text(next)
        ));
    }
    Ok(())
}

pub(crate) fn cells(home: &Tasks, row: &Row, tree: bool, several: bool) -> Result<Vec<String>, Failure> {
    /// How far a line is moved in at most: below that only its place says that it is further down.
    const INDENT_MAX: usize = 24;
    let task = &row.found.task;
    let number = |field: &Field| task.item.get(field).and_then(Value::as_f64);
    #[expect(clippy::cast_precision_loss, reason = "three digits of it are printed")]
    let (tokens, cost, size) = if tree {
        let t = &row.totals;
        (t.tokens_in as f64 + t.tokens_out as f64, Some(t.cost), Some(t.size as f64))
    } else {
        let tokens = number(&Field::TokensIn).unwrap_or(0.0) + number(&Field::TokensOut).unwrap_or(0.0);
        (tokens, number(&Field::TotalCost), number(&Field::Size))
    };
    let indent = "  ".repeat(row.depth.min(INDENT_MAX));
    let mut cells = vec![
        indent + &title(home, task)?,
        task.status().to_string(),
        time(task.ts()),
        if tokens == 0.0 { "-".into() } else { table::count(tokens) },
        cost.filter(|cost| *cost != 0.0).map_or_else(|| "-".into(), table::cost),
        size.filter(|size| *size != 0.0).map_or_else(|| "-".into(), table::size),
    ];
    if several {
        cells.push(escape::text(&label(home)));
    }
    cells.push(escape::text(task.id.as_str()));
    Ok(cells)
}

/// The title's first line that says anything.
fn title(home: &Tasks, task: &Task) -> Result<String, Failure> {
    let whole = match task.item.get(&Field::Task) {
        Some(value) => home.value(value)?,
        None => return Ok("(no title)".into()),
    };
    // A title that is no string, or none that could be decoded, is shown as it is spelled.
    let text = whole.as_str().map_or_else(|| whole.to_json(), |text| text.into_owned());
    let mut lines = text.split(['\n', '\r']).map(str::trim);
    Ok(lines.find(|line| !line.is_empty()).map_or_else(|| "(no title)".into(), escape::text))
}

fn time(ts: f64) -> String {
    #[expect(clippy::cast_possible_truncation, reason = "saturates; what is out of range has no time")]
    let micros = (ts * 1000.0) as i128;
    if ts == 0.0 { "-".into() } else { table::local(micros, false) }
}

/// What a workspace is called among others: the last part of its newest path, or its key.
fn label(home: &Tasks) -> String {
    match home.workspace().log().meta().bindings.last() {
        Some(foldlog::log::Binding::Path(path)) => Path::new(path)
            .file_name()
            .map_or_else(|| path.clone(), |name| name.to_string_lossy().into_owned()),
        Some(other) => store::show(other),
        None => home.workspace().name().to_owned(),
    }
}
