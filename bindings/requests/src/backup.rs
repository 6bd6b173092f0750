//! Backup and restore as JSON: what is asked for, how far it is, and what became of it. The last is the contract of
//! `foldlog backup --json`.

use foldlog::log::Volume;
use foldlog::{CopyOptions, CopyReport, Link, Phase, Progress, TaskStore, WorkspaceCopy};
use serde::Deserialize;

use crate::changes;
use crate::failure::Failure;
use crate::health;
use crate::json::{array, raw, text};
use crate::place;

/// What may be asked of a copy.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Wishes {
    /// By folder, `key:NAME` or name; none = all.
    workspaces: Vec<String>,
    link: bool,
    quarantine: bool,
    as_it_is: bool,
}

impl Default for Wishes {
    fn default() -> Self {
        Wishes { workspaces: Vec::new(), link: true, quarantine: true, as_it_is: false }
    }
}

/// Reads `{"workspaces":[…],"link":BOOL,"quarantine":BOOL,"as_it_is":BOOL}`, each of which may be left out.
///
/// # Errors
/// `invalid`; `not-found` for a workspace that the store does not have.
pub fn options(store: &TaskStore, json: &str) -> Result<CopyOptions, Failure> {
    let wishes: Wishes = serde_json::from_str(json).map_err(|e| Failure::invalid(format!("options: {e}")))?;
    let link = if wishes.link { Link::Auto } else { Link::Never };
    let options = CopyOptions::default().link(link).quarantine(wishes.quarantine).as_it_is(wishes.as_it_is);
    wishes
        .workspaces
        .iter()
        .try_fold(options, |options, text| Ok(options.workspace(place::find(store.store(), text)?)))
}

/// Which steps of a copy are worth telling: each phase, and in one what is at least a hundredth of it.
#[derive(Debug, Default)]
pub struct Steps(Option<(String, Phase, u64)>);

impl Steps {
    /// `{"workspace","phase":"reading"|"copying"|"verifying","done","total"}`, if this step is.
    pub fn tell(&mut self, at: &Progress) -> Option<String> {
        let goes_on = self.0.as_ref().is_some_and(|(workspace, phase, done)| {
            *workspace == at.workspace
                && *phase == at.phase
                && at.done < at.total
                && at.done.saturating_sub(*done) < at.total.div_ceil(100)
                || at.total == 0 && *workspace == at.workspace && *phase == at.phase
        });
        if goes_on {
            return None;
        }
        self.0 = Some((at.workspace.clone(), at.phase, at.done));
        let mut out = String::from("{");
        text("workspace", &at.workspace, &mut out);
        text("phase", at.phase.name(), &mut out);
        raw("done", at.done, &mut out);
        raw("total", at.total, &mut out);
        Some(out + "}")
    }
}

/// `{"target","store_id","whole","dead_sessions","took_ms","workspaces":[…]}`, of each workspace
/// `{"workspace","log_id","seq","cursor","state_hash","events","segments","blobs","linked":{"files","bytes"},
/// "copied":{…},"took_ms","whole","findings":[…],"noted":SEQ|null,"note_error":{"error","message","remedy"}|null}`: the event by
/// which the store notes the backup, and what kept it from that.
#[must_use]
pub fn report(report: &CopyReport) -> String {
    let mut out = String::from("{");
    text("target", &report.target.to_string_lossy(), &mut out);
    text("store_id", &report.store_id.iter().map(|b| format!("{b:02x}")).collect::<String>(), &mut out);
    raw("whole", report.is_whole(), &mut out);
    raw("dead_sessions", report.dead_sessions, &mut out);
    raw("took_ms", report.took.as_millis(), &mut out);
    let workspaces: Vec<String> = report.workspaces.iter().map(workspace).collect();
    raw("workspaces", array(&workspaces), &mut out);
    out + "}"
}

fn workspace(copy: &WorkspaceCopy) -> String {
    let mut out = String::from("{");
    text("workspace", &copy.name, &mut out);
    text("log_id", &copy.log.to_string(), &mut out);
    raw("seq", copy.seq(), &mut out);
    text("cursor", &changes::cursor(copy.cursor), &mut out);
    text("state_hash", &copy.log_hash.to_hex(), &mut out);
    raw("events", copy.events, &mut out);
    raw("segments", copy.segments, &mut out);
    raw("blobs", copy.blobs, &mut out);
    raw("linked", volume(copy.linked), &mut out);
    raw("copied", volume(copy.copied), &mut out);
    raw("took_ms", copy.took.as_millis(), &mut out);
    raw("whole", copy.whole, &mut out);
    let findings: Vec<String> = copy.findings.iter().map(health::finding).collect();
    raw("findings", array(&findings), &mut out);
    let (noted, why) = match &copy.recorded {
        Some(Ok(seq)) => (seq.to_string(), "null".into()),
        Some(Err(error)) => ("null".into(), brief(error)),
        None => ("null".into(), "null".into()),
    };
    raw("noted", noted, &mut out);
    raw("note_error", why, &mut out);
    out + "}"
}

fn brief(error: &foldlog::Error) -> String {
    let mut out = String::from("{");
    text("error", error.code(), &mut out);
    text("message", &error.to_string(), &mut out);
    text("remedy", error.kind().remedy(), &mut out);
    out + "}"
}

fn volume(volume: Volume) -> String {
    format!(r#"{{"files":{},"bytes":{}}}"#, volume.files, volume.bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_told_by_the_hundredth_and_phases_each() {
        let mut steps = Steps::default();
        let at = |phase, done, total| Progress { workspace: "w".into(), phase, done, total };
        let first = steps.tell(&at(Phase::Reading, 0, 0));
        assert_eq!(first.as_deref(), Some(r#"{"workspace":"w","phase":"reading","done":0,"total":0}"#));
        assert_eq!(steps.tell(&at(Phase::Reading, 0, 0)), None);
        let told =
            (1..=10_000).filter(|done| steps.tell(&at(Phase::Copying, *done, 10_000)).is_some()).count();
        assert!((100..=102).contains(&told), "{told}");
        assert!(steps.tell(&at(Phase::Verifying, 0, 0)).is_some());
    }

    #[test]
    fn options_that_are_none_are_refused() -> foldlog::Result<()> {
        let store = TaskStore::memory(foldlog::Options::default())?;
        assert!(options(&store, r#"{"link":false,"as_it_is":true}"#).is_ok());
        for (bad, code) in [(r#"{"links":1}"#, "invalid"), (r#"{"workspaces":["key:x"]}"#, "not-found")] {
            assert_eq!(options(&store, bad).map_err(|e| e.code().to_owned()).err().as_deref(), Some(code));
        }
        Ok(())
    }
}
