//! foldlog side by side with its peers and with the bare system calls, in one run on one machine. See README.md.

mod args;
mod control;
mod data;
mod disk;
mod hist;
mod job;
mod peer;
mod peers;
mod report;
mod run;
mod sys;
mod views;
mod worker;

use std::process::ExitCode;

use args::Args;
use disk::{Device, Trace, file_system};
use peer::{Contender, Level};
use report::Entry;
use run::{Plan, ROWS};

/// A harness that meets an error has nothing better to do than to tell it.
type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1).peekable();
    let done = if args.peek().is_some_and(|arg| arg == "--worker") {
        let job = args.nth(1).unwrap_or_default();
        worker::run(&job).map(|()| true)
    } else if args.peek().is_some_and(|arg| arg == "--views-worker") {
        let job = args.nth(1).unwrap_or_default();
        views::run(&job).map(|()| true)
    } else {
        measure(args)
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(e) => {
            eprintln!("peers: {e}");
            ExitCode::from(2)
        }
    }
}

/// Goes round by round through a row's peers, by turns, each round beginning with another one.
fn interleaved<T>(
    contenders: &[&'static Contender],
    rounds: usize,
    mut run: impl FnMut(&Contender) -> Result<T>,
) -> Vec<Entry<T>> {
    let mut all: Vec<Entry<T>> = contenders.iter().copied().map(Entry::new).collect();
    for round in 0..rounds {
        for n in 0..all.len() {
            let at = (round + n) % all.len();
            let entry = &mut all[at];
            if entry.failed.is_some() {
                continue;
            }
            match run(entry.contender) {
                Ok(result) => entry.rounds.push(result),
                Err(e) => entry.failed = Some(format!("failed: {e}")),
            }
        }
    }
    all
}

/// What went wrong, by peer.
#[derive(Default)]
struct Verdict {
    wrong: Vec<(&'static str, String)>,
}

impl Verdict {
    fn add<T>(&mut self, row: &str, all: &[Entry<T>], is_whole: impl Fn(&T) -> bool) {
        for entry in all {
            if entry.rounds.iter().any(|run| !is_whole(run)) {
                self.wrong.push((entry.peer, format!("{row}: updates were lost, or came twice")));
            }
            if let Some(why) = &entry.failed {
                self.wrong.push((entry.peer, format!("{row}: {why}")));
            }
        }
    }
}

/// Runs everything that is asked for; `false` if foldlog lost something, or with `--check` anybody.
fn measure(args: impl Iterator<Item = String>) -> Result<bool> {
    let Some(args) = Args::parse(args)? else {
        println!("{}", args::USAGE);
        return Ok(true);
    };
    std::fs::create_dir_all(&args.dir)?;
    let contenders: Vec<_> = peers::all().into_iter().filter(|c| args.wants_peer(c.name)).collect();
    let plan = &args.plan;
    introduce(&args);
    let mut verdict = Verdict::default();
    let mut rows = serde_json::Map::new();
    let traced = Trace::is_possible();
    if !traced {
        println!("\nSyncs are not counted: there is no strace here, or it may not trace.");
    }
    for row in ROWS.iter().filter(|row| args.wants_row(row.name)) {
        let takes_part = |c: &&&'static Contender| {
            c.level == row.level && (row.processes == 1 || c.many) && (row.batch == 1 || c.batch.is_some())
        };
        let part: Vec<_> = contenders.iter().filter(takes_part).copied().collect();
        let mut all = interleaved(&part, plan.rounds, |c| run::commits(row, c, &args.dir, plan));
        if row.level == Level::Durable && traced {
            for entry in all.iter_mut().filter(|entry| entry.failed.is_none()) {
                match run::syncs(row, entry.contender, &args.dir) {
                    Ok(syncs) => entry.syncs = Some(syncs),
                    Err(e) => entry.failed = Some(format!("failed under strace: {e}")),
                }
            }
        }
        verdict.add(row.name, &all, |run| run.acked == run.found);
        print!("{}", report::commits(row, &all));
        print_absent(&contenders, &part, row);
        rows.insert(row.name.into(), serde_json::to_value(&all)?);
    }
    // Where a level does not matter, each store takes part at its buffered one, or at the only one it has.
    let shared: Vec<_> = contenders
        .iter()
        .copied()
        .filter(|c| c.polls && (c.level == Level::Buffered || c.name.starts_with("redb")))
        .collect();
    if args.wants_row("take-over") {
        let all = interleaved(&shared, plan.rounds, |c| run::take_over(c, &args.dir, plan));
        verdict.add("take-over", &all, run::TakeOver::is_whole);
        print!("{}", report::take_over(&all));
        rows.insert("take-over".into(), serde_json::to_value(&all)?);
    }
    if args.wants_row("visibility") {
        let all = interleaved(&shared, plan.rounds, |c| run::sight(c, &args.dir, plan));
        verdict.add("visibility", &all, |_| true);
        print!("{}", report::sight(&all));
        rows.insert("visibility".into(), serde_json::to_value(&all)?);
    }
    views::measure(&args.views, &args.dir, &|row| args.wants_row(row), &|store| args.wants_peer(store))?;
    // The rows of views say what they do by themselves.
    if !rows.is_empty() {
        print!("{}", report::settings(&contenders));
    }
    if let Some(path) = &args.json {
        std::fs::write(path, serde_json::to_string(&serde_json::json!({ "plan": plan, "rows": rows }))?)?;
    }
    for (peer, what) in &verdict.wrong {
        eprintln!("peers: {peer}: {what}");
    }
    Ok(!verdict.wrong.iter().any(|(peer, _)| args.check || peer.starts_with("foldlog")))
}

/// Where this ran, and how.
fn introduce(args: &Args) {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let device = Device::of(&args.dir).map_or_else(|| "no device".into(), |device| device.name);
    let Plan { rounds, seconds, .. } = args.plan;
    println!("## foldlog and its peers\n");
    println!(
        "{cores} cores, Linux {}, {} on {device}; {rounds} round(s) of {seconds} s, medians. Ratios are those of commits/s \
         in the same round. Bytes, syncs and flushes are per acknowledged commit.",
        kernel.trim(),
        file_system(&args.dir).unwrap_or_default(),
    );
    if args.check {
        println!("\nA check of the harness: too few commits for any figure to mean something.");
    }
}

/// Who could not take part in a row.
fn print_absent(contenders: &[&'static Contender], part: &[&'static Contender], row: &run::Row) {
    let level = contenders.iter().filter(|c| c.level == row.level);
    let absent: Vec<_> = level
        .filter(|c| !part.iter().any(|p| p.name == c.name) && !c.name.starts_with("raw"))
        .map(|c| c.name)
        .collect();
    if !absent.is_empty() {
        let why =
            if row.batch > 1 { "has no call yet that waits for many commits" } else { "one process only" };
        println!("\nn/a, {why}: {}", absent.join(", "));
    }
}
