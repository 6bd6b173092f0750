//! `foldlog stats`: figures of each workspace, the total last.

use foldlog::store::inspect;
use foldlog::vfs::os::Os;
use foldlog::{ControlUse, State};
use foldlog_requests::Failure;
use serde::Serialize;

use crate::args::Global;
use crate::exit::Exit;
use crate::out::Out;
use crate::target::{self, Subject};

/// One workspace, as `--json` prints it.
#[derive(Serialize)]
struct Line {
    workspace: String,
    /// A path, or `key:NAME`.
    bound_to: Option<String>,
    log: String,
    events: u64,
    commits: u64,
    seq: u64,
    durable_seq: u64,
    bytes: u64,
    segments: usize,
    epochs: Option<usize>,
    keys: Option<usize>,
    state_hash: Option<String>,
    /// How this look shared the control block: `mapped`, `by-calls` or `none`.
    control: Option<&'static str>,
    verdict: &'static str,
    findings: usize,
}

/// The sum, as `--json` prints it.
#[derive(Default, Serialize)]
struct Total {
    total: bool,
    workspaces: usize,
    events: u64,
    commits: u64,
    bytes: u64,
    segments: usize,
    keys: usize,
    findings: usize,
}

/// Runs the verb.
pub(crate) fn run(global: &Global, out: &mut Out) -> Result<Exit, Failure> {
    let store = target::open(&target::root(global)?)?;
    let subjects = target::subjects(&store, global)?;
    let mut exit = Exit::Fine;
    let mut total = Total { total: true, workspaces: subjects.len(), ..Total::default() };
    for subject in &subjects {
        let done = workspace(&store, subject, &mut total, out);
        exit = exit.worse(crate::dump::one_of(subjects.len() > 1, done, out)?);
    }
    if out.json {
        out.line(&serde_json::to_string(&total).unwrap_or_default())?;
    } else {
        out.line(&format!(
            "total: {} workspace(s), {} events in {} commits, {} keys, {} segments, {} bytes, {} finding(s)",
            total.workspaces,
            total.events,
            total.commits,
            total.keys,
            total.segments,
            total.bytes,
            total.findings
        ))?;
    }
    Ok(exit)
}

fn workspace(
    store: &foldlog::Store,
    subject: &Subject,
    total: &mut Total,
    out: &mut Out,
) -> Result<Exit, Failure> {
    let (mut events, mut commits) = (0, 0);
    let found = inspect::workspace(&Os, &subject.dir, &mut |visit| {
        if !visit.salvaged && !visit.located.frame.header.kind.is_control() {
            events += u64::from(visit.located.frame.header.count);
            commits += 1;
        }
    })?;
    // Without META there is a log to be read, but no workspace to be opened and folded.
    let folded = match found.meta {
        Some(_) => Some(store.workspace_named(&subject.name)).transpose().unwrap_or_default(),
        None => None,
    };
    let control = folded.as_ref().map(|workspace| workspace.health().control);
    let folded = match folded {
        Some(workspace) => Some(workspace.read(|state| {
            (
                state.last().0,
                state.events(),
                state.commits(),
                state.epochs().len(),
                state.keys(),
                State::hash(state),
            )
        })?),
        None => None,
    };
    let last = found.walk.last();
    let seq = last.map_or(0, |walked| walked.summary.end.seq.saturating_sub(1));
    let verdict = match (&found.walk.damage, &found.walk.too_new) {
        (Some(finding), _) | (None, Some(finding)) => finding.code,
        (None, None) => last.map_or("no-segment", |walked| walked.verdict.as_str()),
    };
    let (seq, events, commits) =
        folded.map_or((seq, events, commits), |(seq, events, commits, ..)| (seq, events, commits));
    let line = Line {
        workspace: subject.name.clone(),
        bound_to: target::bound_json(found.meta.as_ref()),
        log: found.log.to_string(),
        events,
        commits,
        seq,
        durable_seq: found.durable_seq.min(seq),
        bytes: found.walk.segments.iter().map(|walked| walked.summary.len).sum(),
        segments: found.walk.segments.len(),
        epochs: folded.map(|(.., epochs, _, _)| epochs),
        keys: folded.map(|(.., keys, _)| keys),
        state_hash: folded.map(|(.., hash)| hash.to_hex().to_string()),
        control: control.as_ref().map(ControlUse::as_str),
        verdict,
        findings: found.findings.len(),
    };
    total.events += line.events;
    total.commits += line.commits;
    total.bytes += line.bytes;
    total.segments += line.segments;
    total.keys += line.keys.unwrap_or(0);
    total.findings += line.findings;
    if out.json {
        out.line(&serde_json::to_string(&line).unwrap_or_default())?;
    } else {
        let unknown = || "unknown".to_owned();
        out.line(&format!(
            "{}\n  bound to     {}\n  log          {}\n  events       {} in {} commits, up to {}, durable up to {}\n  \
             keys         {}, epochs {}\n  on disk      {} bytes in {} segment(s)\n  end          {}\n  \
             control      {}\n  state hash   {}",
            line.workspace,
            target::bound_to(found.meta.as_ref()),
            line.log,
            line.events,
            line.commits,
            line.seq,
            line.durable_seq,
            line.keys.map_or_else(unknown, |n| n.to_string()),
            line.epochs.map_or_else(unknown, |n| n.to_string()),
            line.bytes,
            line.segments,
            line.verdict,
            shared(control),
            line.state_hash.unwrap_or_else(unknown),
        ))?;
    }
    out.flush()?;
    found.findings.iter().for_each(|finding| out.tell(finding));
    Ok(Exit::of_severity(found.worst()))
}

/// How the control block was shared, with the reason where it was not mapped.
fn shared(control: Option<ControlUse>) -> String {
    match control {
        None => "unknown".into(),
        Some(ControlUse::ByCalls { why }) => format!("by calls: {why}"),
        Some(ControlUse::None { why }) => format!("none: {why}"),
        Some(other) => other.as_str().into(),
    }
}
