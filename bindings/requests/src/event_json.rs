//! One event as one JSON line: the contract of `foldlog dump --json` and of the test vectors in `format-spec/`.
//!
//! Keys, their order and their spelling never change; a new key would come with a new switch. The text says all that
//! the log knows of an event without understanding it: `format-spec/format.md`, section *Events as JSON Lines*.

use std::fmt::Write;

use foldlog::log::envelope::{Envelope, KeyKind, Preamble};
use foldlog::log::format::{EVENT_ELIDED, EVENT_NOTHING};

/// The line of one event, without the line feed. `first` and `count` are those of the commit's frame.
#[must_use]
pub fn event_line(
    workspace: &str,
    preamble: &Preamble,
    first: u64,
    count: u16,
    event: &Envelope<'_>,
) -> String {
    let mut line = String::with_capacity(256 + 2 * event.body.len());
    let mut add = |piece: std::fmt::Arguments<'_>| line.write_fmt(piece).expect("a String takes any text");
    add(format_args!(
        r#"{{"seq":{},"commit":{{"first":{first},"count":{count}}},"time":"{}","workspace":{}"#,
        event.seq,
        rfc3339(preamble.time),
        quoted(workspace)
    ));
    match event.key_kind {
        KeyKind::NONE => add(format_args!(r#","task":null"#)),
        KeyKind::TASK => add(format_args!(r#","task":{}"#, quoted(event.key))),
        KeyKind(kind) => {
            add(format_args!(r#","task":null,"key":{{"kind":{kind},"name":{}}}"#, quoted(event.key)));
        }
    }
    match event.kind {
        EVENT_ELIDED => add(format_args!(r#","kind":"elided""#)),
        EVENT_NOTHING => add(format_args!(r#","kind":"nothing""#)),
        kind => add(format_args!(r#","kind":{kind}"#)),
    }
    add(format_args!(r#","version":{},"revision":{}"#, event.version, event.revision));
    match &preamble.operation {
        Some(operation) => add(format_args!(r#","op_id":"{}""#, operation.op_id)),
        None => add(format_args!(r#","op_id":null"#)),
    }
    match preamble.session {
        0 => add(format_args!(r#","session":null"#)),
        session => add(format_args!(r#","session":"{session:016x}""#)),
    }
    match event.kind {
        EVENT_ELIDED => add(format_args!(r#","body":{{"n":{}}}}}"#, event.takes)),
        EVENT_NOTHING if event.body.is_empty() => add(format_args!(r#","body":{{}}}}"#)),
        _ => {
            add(format_args!(r#","body":{{"hex":""#));
            event.body.iter().for_each(|byte| add(format_args!("{byte:02x}")));
            add(format_args!(r#""}}}}"#));
        }
    }
    line
}

fn quoted(text: &str) -> String {
    serde_json::to_string(text).expect("a string is always JSON")
}

/// Microseconds since 1970 UTC as RFC 3339 with six decimals. Years past 9999 get the digits they need.
#[must_use]
pub fn rfc3339(micros: u64) -> String {
    let (seconds, micros) = (micros / 1_000_000, micros % 1_000_000);
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Counted from 0000-03-01, so that the leap day is the last of its year; 400 years have 146,097 days.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (year, month) = if month < 10 { (year, month + 3) } else { (year + 1, month - 9) };
    format!(
        "{:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{micros:06}Z",
        era * 400 + year,
        second / 3600,
        second / 60 % 60,
        second % 60
    )
}
