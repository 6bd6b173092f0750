//! What purging tasks has come to, or would, as JSON.

use std::path::PathBuf;

use foldlog::task::PurgeReceipt;

use crate::json::{array, raw, text};

fn texts<T>(all: &[T], of: impl Fn(&T) -> String) -> String {
    let all: Vec<String> =
        all.iter().map(|one| serde_json::to_string(&of(one)).unwrap_or_default()).collect();
    array(&all)
}

/// `{"workspace","tasks":[ID],"segments","events","blobs":[NAME],"snapshots":[PATH],"quarantine":[PATH],
/// "pending":[{"path","holder"}],"backups":[{"target","covers","time_us"}]}`.
pub fn receipt(workspace: &str, receipt: &PurgeReceipt) -> String {
    let path = |path: &PathBuf| path.display().to_string();
    let mut out = String::from("{");
    text("workspace", workspace, &mut out);
    raw("tasks", texts(&receipt.tasks, ToString::to_string), &mut out);
    raw("segments", receipt.segments, &mut out);
    raw("events", receipt.events, &mut out);
    raw("blobs", texts(&receipt.blobs, ToString::to_string), &mut out);
    raw("snapshots", texts(&receipt.snapshots, path), &mut out);
    raw("quarantine", texts(&receipt.quarantine, path), &mut out);
    let pending = receipt.pending.iter().map(|file| {
        let mut one = String::from("{");
        text("path", &file.path.display().to_string(), &mut one);
        text("holder", &file.holder, &mut one);
        one + "}"
    });
    raw("pending", array(&pending.collect::<Vec<_>>()), &mut out);
    let backups = receipt.backups.iter().map(|backup| {
        let mut one = String::from("{");
        text("target", &backup.target, &mut one);
        raw("covers", backup.covers, &mut one);
        raw("time_us", backup.time, &mut one);
        one + "}"
    });
    raw("backups", array(&backups.collect::<Vec<_>>()), &mut out);
    out + "}"
}
