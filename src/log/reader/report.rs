//! A verdict in words.

use std::path::Path;

use super::{REPAIR, TOO_NEW, Walk};
use crate::log::classify::Verdict;
use crate::log::finding::{Finding, Severity};
use crate::log::frame::NotAFrame;
use crate::log::scan::{Stop, Summary};
use crate::log::segment::SegmentHeader;

pub(super) fn report(
    path: &Path,
    header: &SegmentHeader,
    summary: &Summary,
    verdict: Verdict,
    walk: &mut Walk,
) {
    let Some(finding) = describe(path, header, summary, verdict, walk.vouched) else { return };
    walk.findings.push(finding.clone());
    let place = match finding.severity {
        Severity::Damage if verdict == Verdict::TooNew => &mut walk.too_new,
        Severity::Damage => &mut walk.damage,
        _ => return,
    };
    place.get_or_insert(finding);
}

/// A verdict as a finding, with its place and its evidence; `None` for a clean end.
pub(crate) fn describe(
    path: &Path,
    header: &SegmentHeader,
    summary: &Summary,
    verdict: Verdict,
    vouched: u64,
) -> Option<Finding> {
    let end = summary.end;
    let found = match summary.stop {
        Stop::NotAFrame(NotAFrame::Crc { computed, stored }) => {
            format!("checksum {stored:08x}, computed {computed:08x}")
        }
        Stop::NotAFrame(NotAFrame::End) => "the file ends".into(),
        Stop::NotAFrame(NotAFrame::Zero) => "zeros".into(),
        Stop::NotAFrame(NotAFrame::Short) => "the file ends inside a frame".into(),
        Stop::NotAFrame(NotAFrame::Length(n)) => {
            format!("a body length of {n}, over the limit of {}", header.max_body)
        }
        Stop::NotAFrame(NotAFrame::Rule(rule)) | Stop::Body(rule) => rule.into(),
        Stop::Link { expected, found } => format!("a frame that follows {found:08x}, not {expected:08x}"),
        Stop::Seq { expected, found } => format!("a frame numbered {found}, not {expected}"),
        Stop::TooNew { what, number } => format!("a {what} this release does not know ({number:#06x})"),
        Stop::Sealed { seal, .. } => format!("a seal naming segment {}", seal.next_segment_id),
    };
    let beyond = match summary.beyond.first {
        Some((offset, seq)) => {
            format!(
                "; {} whole frame(s) behind it, the first at offset {offset} numbered {seq}",
                summary.beyond.frames
            )
        }
        None => String::new(),
    };
    let (severity, what, remedy) = match verdict {
        Verdict::CleanEnd | Verdict::NulTail => return None,
        Verdict::TooNew => (Severity::Damage, "a newer release wrote here", TOO_NEW),
        v if v.is_damage() => (Severity::Damage, "acknowledged data is damaged or missing", REPAIR),
        _ => (
            Severity::Warning,
            "a torn tail: an unfinished write, never acknowledged as durable",
            "nothing to do: the next writer sets it aside and goes on",
        ),
    };
    Some(Finding {
        severity,
        code: verdict.as_str(),
        file: path.into(),
        offset: Some(end.offset),
        seq: Some(end.seq),
        message: format!("{what}: found {found}{beyond}; events up to {vouched} are vouched for"),
        remedy,
    })
}
