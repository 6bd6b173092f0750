//! Reads a lone segment file with the library's codec, as `format-spec/format.md` says under *Refusing a file*.

use foldlog::log::control_frame::Control;
use foldlog::log::frame::NotAFrame;
use foldlog::log::scan::{self, Content, Position, Scanner, Stop};
use foldlog::log::segment::{BadHeader, SegmentHeader, SegmentState};

use super::Outcome;
use crate::event_json::event_line;

pub(super) fn segment(bytes: &[u8]) -> Outcome {
    let header = match SegmentHeader::decode(bytes) {
        Ok(header) => header,
        Err(bad) => return refused(0, header_code(bad), 0),
    };
    let salt = header.salt();
    let mut end = Position::start_of(&header);
    let (mut lines, mut events) = (String::new(), 0);
    let zeros_behind = |offset: u64| scan::is_zero_from(bytes, usize::try_from(offset).unwrap());
    let stop = if header.state == SegmentState::Prepared {
        if !zeros_behind(end.offset) {
            return refused(end.offset, "not-zero", 0);
        }
        "prepared"
    } else {
        let mut scanner = Scanner::new(bytes, 0, &salt, header.max_body, end);
        let stop = loop {
            let located = match scanner.next_frame() {
                Ok(located) => located,
                Err(stop) => break stop,
            };
            let head = &located.frame.header;
            if let Content::Commit(commit) = &located.content {
                for event in commit.events() {
                    let workspace = header.log_id.to_string();
                    lines.push_str(&event_line(&workspace, &commit.preamble, head.seq, head.count, &event));
                    lines.push('\n');
                    events += 1;
                }
            }
            if let Content::Control(Control::Seal(_)) = located.content {
                assert!(matches!(scanner.next_frame(), Err(Stop::Sealed { .. })));
            }
        };
        end = scanner.position();
        match stop {
            Stop::Sealed { .. } if zeros_behind(end.offset) => "sealed",
            Stop::Sealed { .. } => return refused(end.offset, "after-seal", events),
            Stop::NotAFrame(NotAFrame::End) => "end",
            Stop::NotAFrame(NotAFrame::Zero) if zeros_behind(end.offset) => "zero",
            other => return refused(end.offset, code(other), events),
        }
    };
    let json = format!(r#"{{"end":{},"stop":"{stop}","next_seq":{}}}"#, end.offset, end.seq);
    Outcome { json, lines: Some(lines) }
}

fn refused(at: u64, code: &str, events_before: usize) -> Outcome {
    let json = format!(r#"{{"refused_at":{at},"code":"{code}","events_before":{events_before}}}"#);
    Outcome { json, lines: None }
}

fn header_code(bad: BadHeader) -> &'static str {
    match bad {
        BadHeader::Short => "header-short",
        BadHeader::Magic => "header-magic",
        BadHeader::Format(_) => "header-format",
        BadHeader::Crc { .. } => "header-crc",
        BadHeader::Rule(_) => "header-rule",
        BadHeader::Incompat(_) => "header-incompat",
    }
}

fn code(stop: Stop) -> &'static str {
    match stop {
        Stop::NotAFrame(NotAFrame::Zero) => "not-zero",
        Stop::NotAFrame(NotAFrame::Short) => "short",
        Stop::NotAFrame(NotAFrame::Length(_)) => "length",
        Stop::NotAFrame(NotAFrame::Crc { .. }) => "crc",
        Stop::NotAFrame(NotAFrame::Rule(_)) => "frame-rule",
        Stop::Link { .. } => "link",
        Stop::Seq { .. } => "seq",
        Stop::Body(_) => "body",
        Stop::TooNew { what: "flag bits", .. } => "unknown-flags",
        Stop::TooNew { .. } => "unknown-kind",
        Stop::NotAFrame(NotAFrame::End) | Stop::Sealed { .. } => panic!("no refusal"),
    }
}
