//! How a log is, as JSON: `{"severity","code","file","offset","seq","message","remedy"}` is the contract of
//! `foldlog verify --json`.

use foldlog::{Finding, Tasks};
use serde::Serialize;

use crate::json::{array, raw, text};

#[derive(Serialize)]
struct Line<'a> {
    severity: &'a str,
    code: &'a str,
    file: String,
    offset: Option<u64>,
    seq: Option<u64>,
    message: &'a str,
    remedy: &'a str,
}

/// `{"severity","code","file","offset","seq","message","remedy"}`.
#[must_use]
pub fn finding(finding: &Finding) -> String {
    let line = Line {
        severity: finding.severity.as_str(),
        code: finding.code,
        file: finding.file.display().to_string(),
        offset: finding.offset,
        seq: finding.seq,
        message: &finding.message,
        remedy: finding.remedy,
    };
    serde_json::to_string(&line).unwrap_or_default()
}

/// `{"workspace","status","findings":[…]}`.
#[must_use]
pub fn health(home: &Tasks) -> String {
    let health = home.workspace().health();
    let mut out = String::from("{");
    text("workspace", home.workspace().name(), &mut out);
    text("status", health.status.as_str(), &mut out);
    let findings: Vec<String> = health.findings.iter().map(finding).collect();
    raw("findings", array(&findings), &mut out);
    out + "}"
}

#[cfg(test)]
mod tests {
    use foldlog::Severity;

    use super::*;

    #[test]
    fn json_of_a_finding_has_these_keys_in_this_order() {
        let found = Finding {
            severity: Severity::Damage,
            code: "corrupt",
            file: "a.seg".into(),
            offset: Some(7),
            seq: None,
            message: "m".into(),
            remedy: "r",
        };
        assert_eq!(
            finding(&found),
            r#"{"severity":"damage","code":"corrupt","file":"a.seg","offset":7,"seq":null,"message":"m","remedy":"r"}"#
        );
    }
}
