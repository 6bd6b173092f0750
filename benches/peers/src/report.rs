//! The tables.

use std::fmt::Write;

use serde::Serialize;

use crate::hist::{median, quantile};
use crate::peer::{Contender, Level};
use crate::run::{Commits, Row, Sight, TakeOver};

/// A peer's rounds in a row, or why there are none.
#[derive(Serialize)]
pub struct Entry<T> {
    #[serde(skip)]
    pub contender: &'static Contender,
    pub peer: &'static str,
    pub rounds: Vec<T>,
    pub failed: Option<String>,
    pub syncs: Option<f64>,
}

impl<T> Entry<T> {
    pub fn new(contender: &'static Contender) -> Self {
        Entry { contender, peer: contender.name, rounds: Vec::new(), failed: None, syncs: None }
    }

    fn middle(&self, look: impl Fn(&T) -> f64) -> Option<f64> {
        median(&self.rounds.iter().map(look).collect::<Vec<_>>())
    }
}

/// What is measured against in every table.
const OURS: [&str; 2] = ["foldlog-log", "foldlog-task"];

/// Three digits that count.
fn short(x: f64) -> String {
    match x.abs() {
        a if a >= 1e6 => format!("{:.2} M", x / 1e6),
        a if a >= 1e4 => format!("{:.1} k", x / 1e3),
        a if a >= 100.0 => format!("{x:.0}"),
        a if a >= 10.0 => format!("{x:.1}"),
        _ => format!("{x:.2}"),
    }
}

fn cell(x: Option<f64>) -> String {
    x.map_or_else(|| "-".into(), short)
}

fn line(out: &mut String, cells: &[String]) {
    let _ = writeln!(out, "| {} |", cells.join(" | "));
}

fn head(out: &mut String, cells: &[&str]) {
    line(out, &cells.iter().map(ToString::to_string).collect::<Vec<_>>());
    let rule = cells.iter().enumerate().map(|(n, _)| if n == 0 { "---" } else { "---:" }.to_owned());
    line(out, &rule.collect::<Vec<_>>());
}

/// The median over rounds of one peer's rate by another's in the same round.
fn ratio(all: &[Entry<Commits>], over: &str, under: &Entry<Commits>) -> Option<f64> {
    let over = all.iter().find(|entry| entry.peer == over)?;
    let pairs = over.rounds.iter().zip(&under.rounds);
    median(&pairs.map(|(over, under)| over.per_second / under.per_second).collect::<Vec<_>>())
}

pub fn commits(row: &Row, all: &[Entry<Commits>]) -> String {
    let durable = row.level == Level::Durable;
    let mut out = format!("\n### {}\n\n", row.name);
    let by_raw = format!("it ÷ {}", row.raw);
    let mut names = vec![
        "peer",
        "commits/s",
        &by_raw,
        "foldlog-log ÷ it",
        "foldlog-task ÷ it",
        "p50 µs",
        "p99 µs",
        "max µs",
    ];
    names.push("slowest ÷ mean");
    if durable {
        names.extend(["syncs", "device flushes"]);
    }
    names.extend(["device bytes", "written bytes", "verified"]);
    head(&mut out, &names);
    for entry in all {
        if let Some(why) = &entry.failed {
            let _ = writeln!(out, "| {} | {why} |{}", entry.peer, " |".repeat(names.len() - 2));
            continue;
        }
        let raw = all.iter().find(|other| other.peer == row.raw).and_then(|raw| ratio(all, entry.peer, raw));
        let mut cells = vec![entry.peer.to_owned(), cell(entry.middle(|run| run.per_second)), cell(raw)];
        cells.extend(OURS.map(|ours| cell(ratio(all, ours, entry))));
        let micros: [fn(&Commits) -> u64; 3] = [|run| run.p50_ns, |run| run.p99_ns, |run| run.max_ns];
        cells.extend(micros.map(|look| cell(entry.middle(|run| look(run) as f64 / 1e3))));
        cells.push(cell(entry.middle(|run| run.slowest)));
        if durable {
            cells.push(cell(entry.syncs));
            cells.push(cell(entry.middle(|run| run.flushes.unwrap_or(f64::NAN)).filter(|x| !x.is_nan())));
        }
        cells.push(cell(entry.middle(|run| run.device_bytes.unwrap_or(f64::NAN)).filter(|x| !x.is_nan())));
        cells.push(cell(entry.middle(|run| run.written)));
        let (acked, found) =
            entry.rounds.iter().fold((0, 0), |sum, run| (sum.0 + run.acked, sum.1 + run.found));
        cells.push(if acked == found { format!("{acked}") } else { format!("**{found} of {acked}**") });
        line(&mut out, &cells);
    }
    out
}

pub fn take_over(all: &[Entry<TakeOver>]) -> String {
    let mut out = "\n### take-over\n\nms from the signal to the first commit of another process that returned after the death.\n\n".to_owned();
    head(&mut out, &["peer", "p50", "p99", "max", "kills", "verified"]);
    for entry in all {
        if let Some(why) = &entry.failed {
            let _ = writeln!(out, "| {} | {why} | | | | |", entry.peer);
            continue;
        }
        let ms: Vec<f64> = entry.rounds.iter().flat_map(|run| run.ms.iter().copied()).collect();
        let mut cells = vec![entry.peer.to_owned()];
        cells.extend([0.5, 0.99, 1.0].map(|share| cell(quantile(&ms, share))));
        cells.push(ms.len().to_string());
        let fine = entry.rounds.iter().all(TakeOver::is_whole);
        let (acked, found) =
            entry.rounds.iter().fold((0, 0), |sum, run| (sum.0 + run.acked, sum.1 + run.found));
        cells.push(if fine { format!("{found}") } else { format!("**{found} of {acked}**") });
        line(&mut out, &cells);
    }
    out
}

pub fn sight(all: &[Entry<Sight>]) -> String {
    let mut out = "\n### visibility\n\nµs until a polling process sees a commit; below 0: before the commit returned.\n\n".to_owned();
    head(&mut out, &["peer", "after its return p50", "p99", "after its begin p50", "p99", "idle poll ns"]);
    for entry in all {
        if let Some(why) = &entry.failed {
            let _ = writeln!(out, "| {} | {why} | | | | |", entry.peer);
            continue;
        }
        let mut cells = vec![entry.peer.to_owned()];
        for times in [
            entry.rounds.iter().flat_map(|run| run.after_return.clone()).collect::<Vec<_>>(),
            entry.rounds.iter().flat_map(|run| run.after_begin.clone()).collect(),
        ] {
            cells.extend([0.5, 0.99].map(|share| cell(quantile(&times, share))));
        }
        cells.push(cell(entry.middle(|run| run.idle_ns)));
        line(&mut out, &cells);
    }
    out
}

pub fn settings(contenders: &[&'static Contender]) -> String {
    let mut out = "\n### settings\n\n| peer | level | settings | 64 to a sync |\n| --- | --- | --- | --- |\n"
        .to_owned();
    for contender in contenders {
        let batch = contender.batch.unwrap_or("-");
        line(
            &mut out,
            &[
                contender.name.into(),
                format!("{:?}", contender.level),
                contender.settings.into(),
                batch.into(),
            ],
        );
    }
    out
}
