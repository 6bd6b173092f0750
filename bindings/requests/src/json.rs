//! Pieces of JSON text, put together by hand.
//!
//! Values are spliced in as the log has them: no number, escape or order of keys is touched.

use foldlog::Value;
use foldlog::event::json::write_string;

/// Appends `"key":`, a comma before it unless it is the first.
pub fn key(name: &str, out: &mut String) {
    if !out.ends_with('{') {
        out.push(',');
    }
    write_string(name, out);
    out.push(':');
}

/// Appends a string's member.
pub fn text(name: &str, text: &str, out: &mut String) {
    key(name, out);
    write_string(text, out);
}

/// Appends a member whose text is JSON already.
pub fn raw(name: &str, json: impl std::fmt::Display, out: &mut String) {
    use std::fmt::Write as _;
    key(name, out);
    let _ = write!(out, "{json}"); // into memory
}

/// Appends a member whose value came from a log. White space between its tokens may hold line feeds, which would end the
/// line; each is a space here. In strings none can stand.
pub fn value(name: &str, value: &Value, out: &mut String) {
    raw(name, one_line(value.to_json()), out);
}

pub(crate) fn one_line(json: String) -> String {
    if json.contains(['\n', '\r']) { json.replace(['\n', '\r'], " ") } else { json }
}

/// Appends a member of another object's text.
pub fn splice(name: &str, json: &str, out: &mut String) {
    key(name, out);
    out.push_str(json);
}

/// Members that are JSON already.
#[must_use]
pub fn array(all: &[String]) -> String {
    format!("[{}]", all.join(","))
}
