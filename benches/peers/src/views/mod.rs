//! Views: how soon a program that starts has its list, what a look costs, and what it costs to keep that so. Whole items and the
//! same indexes in every store, each step in a process of its own, all answers compared with a model.

mod job;
mod replay;
mod rows;
mod stores;

use std::path::{Path, PathBuf};

pub use job::run;
use job::{Answer, Job, Role, Running, disk_bytes, done};
use rows::Model;
use stores::{STORES, family};

use crate::Result;
use crate::hist::median;

/// How much is done.
pub struct Plan {
    /// Sizes of the catalogues that are opened; the first is looked at.
    pub tasks: Vec<usize>,
    /// Changes that lie behind the snapshot in the rows with a tail.
    pub tail: usize,
    pub rounds: usize,
    pub looks: usize,
    /// Events of the history that is folded from nothing.
    pub events: usize,
    /// Sizes of the runs that count what snapshots and compaction write.
    pub written: Vec<usize>,
    /// Tasks and changes of the rows that compact.
    pub disk: (usize, usize),
}

impl Plan {
    /// Figures mean something.
    pub fn whole() -> Self {
        Plan {
            tasks: vec![100_000],
            tail: 33_000,
            rounds: 9,
            looks: 20_000,
            events: 1_000_000,
            written: vec![10_000, 100_000],
            disk: (10_000, 1_000_000),
        }
    }

    /// A tenth of it, for a first look.
    pub fn quick() -> Self {
        Plan {
            tasks: vec![10_000],
            rounds: 3,
            looks: 5000,
            events: 100_000,
            written: vec![10_000],
            disk: (1000, 100_000),
            ..Plan::whole()
        }
    }

    /// Only whether all of it runs, and answers as it should.
    pub fn check() -> Self {
        Plan {
            tasks: vec![1200],
            tail: 700,
            rounds: 1,
            looks: 100,
            events: 3000,
            written: vec![1000],
            disk: (500, 5000),
        }
    }
}

/// The rows, by name.
const ROWS: [&str; 6] =
    ["views-open", "views-look", "views-fold", "views-written", "views-commit", "views-disk"];

/// Runs the rows that are wanted, and prints their tables.
pub fn measure(
    plan: &Plan,
    parent: &Path,
    wants: &dyn Fn(&str) -> bool,
    wants_store: &dyn Fn(&str) -> bool,
) -> Result<()> {
    let stores: Vec<_> = STORES.into_iter().filter(|store| wants_store(store)).collect();
    let mut families: Vec<_> = stores.iter().map(|store| family(store)).collect();
    families.dedup();
    for (n, tasks) in plan.tasks.iter().enumerate() {
        let looks = n == 0 && wants(ROWS[1]);
        if wants(ROWS[0]) || looks {
            open_and_look(plan, parent, *tasks, &stores, &families, (wants(ROWS[0]), looks))?;
        }
    }
    if wants(ROWS[2]) {
        fold(plan, parent, &families)?;
    }
    if !families.contains(&"foldlog") {
        return Ok(());
    }
    if wants(ROWS[3]) {
        plan.written.iter().try_for_each(|tasks| written(parent, *tasks))?;
    }
    if wants(ROWS[4]) {
        commit(plan, parent)?;
    }
    if wants(ROWS[5]) {
        disk(plan, parent, &families)?;
    }
    Ok(())
}

/// A store that is made for these rows.
struct Made {
    dir: tempfile::TempDir,
    store: String,
    tasks: usize,
    changes: usize,
}

impl Made {
    fn empty(parent: &Path, store: &str, tasks: usize) -> Result<Self> {
        let dir = tempfile::Builder::new().prefix("peers-views-").tempdir_in(parent)?;
        Ok(Made { dir, store: store.into(), tasks, changes: 0 })
    }

    fn new(parent: &Path, store: &str, tasks: usize) -> Result<(Self, Answer)> {
        let made = Made::empty(parent, store, tasks)?;
        let answer = made.job(Role::Make).and_then(|job| done(&job))?;
        Ok((made, answer))
    }

    fn path(&self) -> PathBuf {
        self.dir.path().to_path_buf()
    }

    fn job(&self, role: Role) -> Result<Job> {
        Ok(Job {
            role,
            store: self.store.clone(),
            dir: self.path(),
            tasks: self.tasks,
            changes: self.changes,
        })
    }

    fn run(&mut self, role: Role) -> Result<Answer> {
        let more = match role {
            Role::Tail(count) | Role::Change(count) | Role::Commit(count) => count,
            _ => 0,
        };
        let answer = done(&self.job(role)?)?;
        self.changes += more;
        Ok(answer)
    }

    /// The same files, as another of its family reads them.
    fn as_read_by(&self, store: &str, role: Role) -> Result<Answer> {
        done(&Job { store: store.into(), ..self.job(role)? })
    }
}

fn head(title: &str, cells: &[&str]) {
    println!("\n### {title}\n\n| {} |", cells.join(" | "));
    println!("| --- |{}", " ---: |".repeat(cells.len() - 1));
}

fn opened(made: &[Made], stores: &[&str], rounds: usize, title: &str) -> Result<()> {
    head(
        title,
        &[
            "store",
            "open + list ms",
            "of which open",
            "least",
            "on a processor",
            "own memory KiB",
            "peak KiB",
        ],
    );
    let mut all: Vec<Vec<Answer>> = stores.iter().map(|_| Vec::new()).collect();
    // One round that nobody counts reads the files into the cache.
    for round in 0..=rounds {
        for n in 0..stores.len() {
            let at = (round + n) % stores.len();
            let made = made.iter().find(|made| made.store == family(stores[at])).ok_or("it was not made")?;
            let answer = made.as_read_by(stores[at], Role::Open)?;
            if round > 0 {
                all[at].push(answer);
            }
        }
    }
    for (store, answers) in stores.iter().zip(&all) {
        let list = |look: &dyn Fn(&Answer) -> f64| answers.iter().map(look).collect::<Vec<_>>();
        let middle = |look: &dyn Fn(&Answer) -> f64| median(&list(look)).unwrap_or(f64::NAN);
        let sums = list(&|a| (a.open_us + a.list_us) / 1e3);
        println!(
            "| {store} | {:.2} | {:.2} | {:.2} | {:.2} | {:.0} | {:.0} |",
            middle(&|a| (a.open_us + a.list_us) / 1e3),
            middle(&|a| a.open_us / 1e3),
            sums.iter().copied().fold(f64::INFINITY, f64::min),
            middle(&|a| a.cpu_us / 1e3),
            middle(&|a| a.anon_kib as f64),
            middle(&|a| a.peak_kib as f64),
        );
    }
    Ok(())
}

fn open_and_look(
    plan: &Plan,
    parent: &Path,
    tasks: usize,
    stores: &[&str],
    families: &[&str],
    (opens, looks): (bool, bool),
) -> Result<()> {
    let mut made = Vec::new();
    for store in families {
        made.push(Made::new(parent, store, tasks)?.0);
    }
    if opens {
        opened(
            &made,
            stores,
            plan.rounds,
            &format!("{tasks} tasks, after a clean close: open, list the newest 50"),
        )?;
    }
    if looks {
        look(plan, &made, stores)?;
    }
    if opens {
        let mut bytes = 0;
        for made in &mut made {
            let before = made.run(Role::Change(1))?.log_bytes;
            bytes = bytes.max(made.run(Role::Tail(plan.tail))?.log_bytes - before);
        }
        let title =
            format!("{tasks} tasks, {} changes ({} KiB of log) behind the snapshot", plan.tail, bytes >> 10);
        // Who opens it as a writer ends well and saves what is new, so only the first one found a tail.
        let stores: Vec<_> = stores.iter().copied().filter(|store| *store != "foldlog-writer").collect();
        opened(&made, &stores, plan.rounds, &title)?;
    }
    Ok(())
}

fn look(plan: &Plan, made: &[Made], stores: &[&str]) -> Result<()> {
    let names = ["by id", "newest 50", "children"];
    head(
        &format!("{} tasks: whole items, µs (medians)", made[0].tasks),
        &["store", names[0], names[1], names[2]],
    );
    for store in stores.iter().filter(|store| **store != "foldlog-writer") {
        let made = made.iter().find(|made| made.store == family(store)).ok_or("it was not made")?;
        let answer = made.as_read_by(store, Role::Look(plan.looks))?;
        let cells = names.map(|name| format!("{:.2}", answer.looks.get(name).copied().unwrap_or(f64::NAN)));
        println!("| {store} | {} |", cells.join(" | "));
    }
    Ok(())
}

fn fold(plan: &Plan, parent: &Path, families: &[&str]) -> Result<()> {
    let tasks = 1000.min(plan.events / 2);
    let title = format!("{} events of {tasks} tasks from nothing, ms", plan.events);
    head(&title, &["store", "median", "least", "on a processor", "what it does"]);
    for store in families.iter().filter(|store| **store != "redb") {
        let mut made = Made::empty(parent, store, tasks)?;
        replay::make(store, &made.path(), tasks, plan.events - tasks)?;
        made.changes = plan.events - tasks;
        let ways: &[(bool, &str)] = match *store {
            "foldlog" => &[(true, "checks, decodes, folds")],
            _ => &[(true, "parses JSON, folds"), (false, "copies rows")],
        };
        for (folds, what) in ways {
            let runs =
                (0..plan.rounds).map(|_| made.run(Role::Replay(*folds))).collect::<Result<Vec<_>>>()?;
            let list = |look: fn(&Answer) -> f64| runs.iter().map(|run| look(run) / 1e3).collect::<Vec<_>>();
            let (times, cpu) = (list(|run| run.open_us), list(|run| run.cpu_us));
            let least = times.iter().copied().fold(f64::INFINITY, f64::min);
            let middle = |list: &[f64]| median(list).unwrap_or(f64::NAN);
            println!("| {store} | {:.0} | {least:.0} | {:.0} | {what} |", middle(&times), middle(&cpu));
        }
    }
    Ok(())
}

/// Tasks are made and then changed by one process; after each of twenty steps another one opens.
fn written(parent: &Path, tasks: usize) -> Result<()> {
    let mut made = Made::empty(parent, "foldlog", tasks)?;
    let title = format!("{tasks} tasks, each changed 5 times: written by snapshots and compaction ÷ log");
    head(&title, &["changes", "log KiB", "others' bytes ÷ log", "open + list ms"]);
    let mut took = Vec::new();
    let print = |changes: usize, log: u64, wrote: u64, took: f64| {
        println!("| {changes} | {} | {:.2} | {took:.2} |", log >> 10, wrote as f64 / log as f64 - 1.0);
    };
    let life = made.job(Role::Live(20))?;
    let end = job::watched(&life, |step| {
        made.changes = step.changes;
        let open = made.run(Role::Open)?;
        took.push((open.open_us + open.list_us) / 1e3);
        print(step.changes, step.log_bytes, step.wrote, took[took.len() - 1]);
        Ok(())
    })?;
    let open = made.run(Role::Open)?;
    print(made.changes, end.log_bytes, end.wrote, (open.open_us + open.list_us) / 1e3);
    let longest = took.iter().copied().fold(0.0, f64::max);
    println!(
        "\nThe last line is after its end. While it lived: median {:.2} ms, longest {longest:.2} ms.",
        median(&took).unwrap_or(f64::NAN)
    );
    Ok(())
}

/// Commits beside another process that compacts a long log, and as many without it.
fn commit(plan: &Plan, parent: &Path) -> Result<()> {
    head(
        "one process commits buffered changes while another compacts, µs",
        &["", "commits", "p50", "p99", "max", "KiB of log gone"],
    );
    let mut rows = Vec::new();
    for _ in 0..plan.rounds.min(3) {
        let (mut made, _) = Made::new(parent, "foldlog", plan.disk.0)?;
        made.run(Role::Tail(plan.disk.1))?;
        let mut compactor = Running::start(&made.job(Role::Compact)?)?;
        compactor.hear()?;
        let mut writer = Running::start(&made.job(Role::Commit(usize::MAX))?)?;
        writer.hear()?;
        writer.tell();
        compactor.tell();
        let compacted = compactor.answer()?.compacted;
        writer.tell();
        let beside = writer.answer()?;
        made.changes += beside.commits;
        let mut writer = Running::start(&made.job(Role::Commit(beside.commits))?)?;
        writer.hear()?;
        writer.tell();
        let alone = writer.answer()?;
        made.changes += alone.commits;
        made.run(Role::Open)?;
        for (name, run, gone) in
            [("alone", alone, "-".into()), ("beside a compaction", beside, (compacted >> 10).to_string())]
        {
            let at = |share| run.latencies.quantile(share) as f64 / 1e3;
            let max = run.latencies.max() as f64 / 1e3;
            println!("| {name} | {} | {:.2} | {:.2} | {max:.0} | {gone} |", run.commits, at(0.5), at(0.99));
            rows.push((at(0.5), at(0.99)));
        }
    }
    let ratio = |look: fn(&(f64, f64)) -> f64| {
        median(&rows.chunks(2).map(|pair| look(&pair[1]) / look(&pair[0])).collect::<Vec<_>>())
            .unwrap_or(f64::NAN)
    };
    println!("\nBeside ÷ alone: p50 {:.2}, p99 {:.2}.", ratio(|row| row.0), ratio(|row| row.1));
    Ok(())
}

fn disk(plan: &Plan, parent: &Path, families: &[&str]) -> Result<()> {
    let (tasks, changes) = plan.disk;
    let live = Model::after(tasks, changes).live_bytes();
    let title = format!("disk after {changes} changes of {tasks} tasks ÷ {} KiB of items", live >> 10);
    head(&title, &["store", "when closed", "after a compaction that was asked for"]);
    for store in families {
        let (mut made, _) = Made::new(parent, store, tasks)?;
        made.run(Role::Change(changes))?;
        let share =
            |made: &Made| Ok::<_, Box<dyn std::error::Error>>(disk_bytes(&made.path())? as f64 / live as f64);
        let closed = share(&made)?;
        let compacted = if *store == "foldlog" {
            made.run(Role::CompactOnce)?;
            format!("{:.2}", share(&made)?)
        } else {
            "-".into()
        };
        println!("| {store} | {closed:.2} | {compacted} |");
        made.run(Role::Open)?;
    }
    Ok(())
}
