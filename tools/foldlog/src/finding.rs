//! A finding as text for people.

use foldlog::{Finding, Severity};

/// Three lines: what, where, and what to do.
pub(crate) fn text(finding: &Finding, colour: bool) -> String {
    let severity = finding.severity.as_str();
    let severity = match (colour, finding.severity) {
        (false, _) => severity.to_owned(),
        (true, Severity::Damage) => format!("\x1b[1;31m{severity}\x1b[0m"),
        (true, Severity::Error) => format!("\x1b[31m{severity}\x1b[0m"),
        (true, Severity::Warning) => format!("\x1b[33m{severity}\x1b[0m"),
        (true, Severity::Notice) => format!("\x1b[36m{severity}\x1b[0m"),
    };
    let mut place = finding.file.display().to_string();
    if let Some(offset) = finding.offset {
        place += &format!(", offset {offset}");
    }
    if let Some(seq) = finding.seq {
        place += &format!(", event {seq}");
    }
    format!(
        "{severity} {}: {}\n  where: {place}\n  what to do: {}",
        finding.code, finding.message, finding.remedy
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding() -> Finding {
        Finding {
            severity: Severity::Damage,
            code: "corrupt",
            file: "a.seg".into(),
            offset: Some(7),
            seq: None,
            message: "m".into(),
            remedy: "r",
        }
    }

    #[test]
    fn text_says_where_and_what_to_do_and_means_the_same_without_colour() {
        let plain = text(&finding(), false);
        assert_eq!(plain, "damage corrupt: m\n  where: a.seg, offset 7\n  what to do: r");
        assert_eq!(text(&finding(), true).replace("\x1b[1;31m", "").replace("\x1b[0m", ""), plain);
    }
}
