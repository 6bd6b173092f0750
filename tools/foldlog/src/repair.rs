//! `foldlog repair`: says what repair would do, and with `--apply` does it.

use foldlog::log::RepairStep;
use foldlog::{ErrorKind, Options, Store, Vocabulary};
use foldlog_requests::{Failure, place};
use serde::Serialize;

use crate::args::{Global, Repair};
use crate::exit::Exit;
use crate::out::Out;
use crate::target;

/// One damaged place, as `--json` prints it.
#[derive(Serialize)]
struct Line<'a> {
    workspace: &'a str,
    applied: bool,
    file: String,
    verdict: &'a str,
    kept: u64,
    salvaged: u64,
    lost: &'a [(u64, u64)],
    quarantined: Option<&'a str>,
}

/// Runs the verb.
pub(crate) fn run(global: &Global, verb: &Repair, out: &mut Out) -> Result<Exit, Failure> {
    let root = target::root(global)?;
    let reader = target::open(&root)?;
    let name = match &global.workspace {
        Some(text) => place::find(&reader, text)?,
        None => target::find_here(&reader)?,
    };
    // The plan comes first even where it is carried out: where there is nothing to do, nothing is opened for writing.
    let plan = reader.workspace_named(&name)?.log().plan_repair()?;
    if plan.steps.is_empty() {
        let told = reader.workspace_named(&name)?;
        told.open_report().findings.iter().for_each(|finding| out.tell(finding));
        let poisoned = told.open_report().findings.iter().any(|finding| finding.code == "poisoned");
        if poisoned {
            return recover(&root, &name, verb, reader, out);
        }
        if !out.json {
            out.line(&format!("{name}: nothing to repair"))?;
        }
        return Ok(Exit::Fine);
    }
    if !verb.apply {
        plan.steps.iter().try_for_each(|step| print(&name, false, step, out))?;
        out.talk(
            "nothing was changed; to do it: foldlog repair --apply, with the same --store and --workspace",
        );
        return Ok(Exit::Damaged);
    }
    drop(reader);
    // Repair moves frames; what their events mean is none of its business, and none of them may be lost for that.
    let options = Options::default()
        .create(false)
        .label("foldlog repair")
        .vocabulary(Vocabulary::all())
        .snapshot_after(u64::MAX);
    let store = Store::open(&root, options)?;
    let workspace = store.workspace_named(&name)?;
    let report = match workspace.log().repair() {
        Err(error) if matches!(error.kind(), ErrorKind::ReadOnly { .. }) && store.barrier().is_some() => {
            out.talk(store.barrier().unwrap_or_default());
            return Err(error.into());
        }
        report => report?,
    };
    report.steps.iter().try_for_each(|step| print(&name, true, step, out))?;
    let lost = report.steps.iter().any(|step| !step.lost.is_empty());
    workspace.close()?;
    Ok(if lost { Exit::Findings } else { Exit::Fine })
}

/// After a failed sync nothing may be damaged, and yet the log has to be copied into fresh blocks.
fn recover(
    root: &std::path::Path,
    name: &str,
    verb: &Repair,
    reader: Store,
    out: &mut Out,
) -> Result<Exit, Failure> {
    if !verb.apply {
        out.talk(&format!(
            "{name}: a sync has failed; foldlog repair --apply, or the next writer, copies the log into fresh blocks"
        ));
        return Ok(Exit::Damaged);
    }
    drop(reader);
    let options = Options::default()
        .create(false)
        .label("foldlog repair")
        .vocabulary(Vocabulary::all())
        .snapshot_after(u64::MAX);
    let store = Store::open(root, options)?;
    let workspace = store.workspace_named(name)?;
    workspace.log().repair()?;
    workspace.close()?;
    if !out.json {
        out.line(&format!("{name}: copied into fresh blocks after a failed sync"))?;
    }
    Ok(Exit::Fine)
}

fn print(name: &str, applied: bool, step: &RepairStep, out: &mut Out) -> Result<(), Failure> {
    if out.json {
        let line = Line {
            workspace: name,
            applied,
            file: step.file.display().to_string(),
            verdict: step.verdict.as_str(),
            kept: step.kept,
            salvaged: step.salvaged,
            lost: &step.lost,
            quarantined: step.quarantined.as_deref(),
        };
        return out.line(&serde_json::to_string(&line).unwrap_or_default());
    }
    out.line(&text(applied, step))
}

fn text(applied: bool, step: &RepairStep) -> String {
    let lost: Vec<String> = step
        .lost
        .iter()
        .map(|(from, to)| if from == to { from.to_string() } else { format!("{from} to {to}") })
        .collect();
    let lost = if lost.is_empty() { "none".to_owned() } else { lost.join(", ") };
    let (done, kept) = if applied { ("repaired", "kept") } else { ("would repair", "would keep") };
    let mut text = format!(
        "{done} {}: {}\n  {kept} {} frame(s) before the damage and {} behind it; event numbers lost: {lost}",
        step.file.display(),
        step.verdict,
        step.kept,
        step.salvaged
    );
    match &step.quarantined {
        Some(note) => text += &format!("\n  the bytes as they were: quarantine/{note}"),
        None if !applied => text += "\n  the bytes as they are would go to quarantine first",
        None => {}
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use foldlog::log::classify::Verdict;

    #[test]
    fn text_says_what_is_lost_and_where_the_bytes_are() {
        let mut step = RepairStep {
            file: "a.seg".into(),
            verdict: Verdict::Corrupt,
            kept: 3,
            salvaged: 2,
            lost: vec![(4, 4), (7, 9)],
            quarantined: None,
        };
        assert_eq!(
            text(false, &step),
            "would repair a.seg: corrupt\n  would keep 3 frame(s) before the damage and 2 behind it; event numbers lost: 4, \
             7 to 9\n  the bytes as they are would go to quarantine first"
        );
        step.quarantined = Some("n.note".into());
        assert!(text(true, &step).ends_with("\n  the bytes as they were: quarantine/n.note"));
    }
}
