//! What compacting a workspace has come to, as JSON.

use foldlog::log::CompactReport;

use crate::json::{raw, text};

/// `{"workspace","segments","bytes_before","bytes_after","dropped","horizon"}`; 0 segments = there was nothing to gain.
pub fn report(workspace: &str, report: Option<&CompactReport>) -> String {
    let mut out = String::from("{");
    text("workspace", workspace, &mut out);
    raw("segments", report.map_or(0, |report| report.segments), &mut out);
    raw("bytes_before", report.map_or(0, |report| report.bytes_before), &mut out);
    raw("bytes_after", report.map_or(0, |report| report.bytes_after), &mut out);
    raw("dropped", report.map_or(0, |report| report.dropped), &mut out);
    raw("horizon", report.map_or_else(|| "null".into(), |report| report.horizon.to_string()), &mut out);
    out + "}"
}
