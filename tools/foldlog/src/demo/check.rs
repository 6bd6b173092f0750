//! Whether a demo's store holds what was acknowledged: read by a process that has seen none of it being made.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use foldlog::log::classify::Verdict;
use foldlog::log::control_frame::Control;
use foldlog::log::scan::Content;
use foldlog::store::inspect;
use foldlog::task::TaskStore;
use foldlog::vfs::os::Os;
use foldlog::vfs::{Open, Vfs as _, read_full};
use foldlog::{Field, Housekeeping, KeyKind, Options, Value};
use foldlog_requests::Failure;
use serde::{Deserialize, Serialize};

use super::told::{Ack, Told, hex};
use crate::args::DemoCheck;
use crate::exit::Exit;
use crate::out::Out;

/// The ledger's name in a demo's folder.
pub(super) const LEDGER: &str = "acknowledged.jsonl";
/// The store's.
pub(super) const STORE: &str = "store";

/// What was found.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Report {
    /// How many commits were acknowledged, and how many of them are in the log as they were.
    pub(super) acknowledged: u64,
    /// See there.
    pub(super) found: u64,
    /// Those that are not.
    pub(super) missing: Vec<String>,
    /// Anything else that must not be.
    pub(super) wrong: Vec<String>,
    /// Tokens sent and received that there must be: those before, and what acknowledged commits have added.
    pub(super) tokens_due: (u64, u64),
    /// Those there are.
    pub(super) tokens: (u64, u64),
    /// What healing set aside.
    pub(super) healed: Vec<Healed>,
}

/// A torn tail that was healed.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Healed {
    /// How many bytes it had.
    pub(super) bytes: u64,
    /// How many whole frames among them.
    pub(super) frames: u32,
    /// The event that would have come there.
    pub(super) event: u64,
    /// What it was.
    pub(super) verdict: String,
    /// Its note in `quarantine/`, beside which its bytes are.
    pub(super) note: String,
}

/// A commit as the log has it.
struct Found {
    op_id: Option<String>,
    last: u64,
    tasks: Vec<(String, u64, u64)>,
}

/// Runs the hidden verb.
pub(crate) fn run(verb: &DemoCheck, out: &mut Out) -> Result<Exit, Failure> {
    let ledger = read(&verb.dir.join(LEDGER))?;
    let report = check(&verb.dir.join(STORE), &ledger)?;
    out.line(&serde_json::to_string(&report).unwrap_or_default())?;
    let fine = report.missing.is_empty() && report.wrong.is_empty();
    Ok(if fine { Exit::Fine } else { Exit::Findings })
}

fn read(path: &Path) -> Result<Vec<Told>, Failure> {
    let failed = |e| Failure::io("read", path, &e);
    let file = Os.open(path, Open::Read).map_err(failed)?;
    let len = file.stat().map_err(failed)?.len;
    let mut bytes = vec![0; usize::try_from(len).unwrap_or_default()];
    let n = read_full(&*file, &mut bytes, 0).map_err(failed)?;
    bytes.truncate(n);
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let lines: Result<Vec<Told>, String> = text.lines().map(Told::read).collect();
    lines.map_err(|why| Failure::Own {
        code: "foreign",
        message: format!("{}: {why}", path.display()),
        remedy: "give the folder of a demo".into(),
        file: Some(path.into()),
    })
}

fn check(root: &Path, ledger: &[Told]) -> Result<Report, Failure> {
    let options = Options::default().read_only(true).create(false).housekeeping(Housekeeping::Off);
    let store = TaskStore::open(root, options)?;
    let mut report = Report::default();
    let mut found = BTreeMap::new();
    for entry in store.store().workspaces()? {
        log(&store.store().workspace_dir(&entry.name), &mut found, &mut report)?;
    }
    let mut times: HashMap<&str, u64> = HashMap::new();
    found.values().filter_map(|commit| commit.op_id.as_deref()).for_each(|id| {
        *times.entry(id).or_default() += 1;
    });
    let mut due: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    let mut written = None;
    for told in ledger {
        match told {
            Told::Before { id, tokens_in, tokens_out } => add(&mut due, id, *tokens_in, *tokens_out),
            Told::Ack(ack) => {
                add(&mut due, &ack.id, ack.tokens_in, ack.tokens_out);
                report.acknowledged += 1;
                if stands(ack, &found) {
                    report.found += 1;
                } else {
                    report.missing.push(ack.name());
                }
                if times.get(&*ack.op_id).is_some_and(|times| *times > 1) {
                    report.wrong.push(format!("applied more than once: {}", ack.name()));
                }
            }
            Told::Torn { written: bytes, .. } => written = Some(*bytes),
            Told::Ready | Told::Half | Told::Done { .. } | Told::Failed { .. } => {}
        }
    }
    // The write that was torn left these bytes and no others, and not one whole frame.
    let torn: Vec<(u64, u32)> = report.healed.iter().map(|healed| (healed.bytes, healed.frames)).collect();
    let expected: Vec<(u64, u32)> = written.map(|written| (written, 0)).into_iter().collect();
    if torn != expected {
        report.wrong.push(format!("set aside were (bytes, whole frames) {torn:?}; expected {expected:?}"));
    }
    sums(&store, &due, &mut report);
    Ok(report)
}

fn add<'a>(due: &mut BTreeMap<&'a str, (u64, u64)>, id: &'a str, tokens_in: u64, tokens_out: u64) {
    let sums = due.entry(id).or_default();
    *sums = (sums.0 + tokens_in, sums.1 + tokens_out);
}

/// Whether a commit is there as it was acknowledged: under its numbers and its name, with all that it changed.
fn stands(ack: &Ack, found: &BTreeMap<u64, Found>) -> bool {
    found.get(&ack.first).is_some_and(|commit| {
        commit.op_id.as_deref() == Some(&ack.op_id)
            && commit.last == ack.last
            && ack.tasks.iter().all(|task| commit.tasks.contains(task))
    })
}

/// Reads a log's frames, whatever state it is in.
fn log(dir: &Path, found: &mut BTreeMap<u64, Found>, report: &mut Report) -> Result<(), Failure> {
    inspect::workspace(&Os, dir, &mut |visit| match &visit.located.content {
        Content::Commit(commit) => {
            let header = &visit.located.frame.header;
            let tasks = commit.events().filter(|event| event.key_kind == KeyKind::TASK);
            found.insert(
                header.seq,
                Found {
                    op_id: commit.preamble.operation.as_ref().map(|operation| hex(operation.op_id)),
                    last: (header.seq + u64::from(header.count)).saturating_sub(1),
                    tasks: tasks.map(|event| (event.key.to_owned(), event.revision.0, event.seq.0)).collect(),
                },
            );
        }
        Content::Control(Control::RecoveryMark(mark)) => {
            let verdicts =
                [Verdict::ShortFrame, Verdict::TornFrame, Verdict::HoleThenValid, Verdict::StaleForeign];
            let verdict = verdicts.iter().find(|verdict| verdict.code() == mark.verdict);
            report.healed.push(Healed {
                bytes: mark.bytes,
                frames: mark.frames,
                event: mark.first_seq,
                verdict: verdict.map_or_else(|| mark.verdict.to_string(), |v| v.as_str().to_owned()),
                note: mark.note.clone(),
            });
        }
        _ => {}
    })?;
    Ok(())
}

/// Compares what each task has used with what it must have: an update that another has overwritten is missing here, even
/// if its commit stands in the log.
fn sums(store: &TaskStore, due: &BTreeMap<&str, (u64, u64)>, report: &mut Report) {
    for (id, wanted) in due {
        report.tokens_due = (report.tokens_due.0 + wanted.0, report.tokens_due.1 + wanted.1);
        let located = match store.get(id) {
            Ok(located) => located,
            Err(e) => {
                report.wrong.push(format!("{id} cannot be read: {e}"));
                continue;
            }
        };
        let number = |field: &Field| {
            let items = located.iter().map(|located| &located.found.task.item);
            items.filter_map(|item| item.get(field).and_then(Value::as_u64)).sum::<u64>()
        };
        let there = (number(&Field::TokensIn), number(&Field::TokensOut));
        report.tokens = (report.tokens.0 + there.0, report.tokens.1 + there.1);
        if there != *wanted {
            report.wrong.push(format!("{id} has used {there:?} tokens, and must have used {wanted:?}"));
        }
    }
}
