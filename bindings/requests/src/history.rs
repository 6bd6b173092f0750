//! What became of a task, as JSON.

use foldlog::Tasks;
use foldlog::event::kinds;
use foldlog::view::{Change, FieldChange};

use crate::event_json::rfc3339;
use crate::json;

/// `{"seq","time","workspace","session","writer","op_id","kind","revision","live","changes":[{"field","from","to"}]}`;
/// `from` or `to` is left out where the field was, or is, absent.
///
/// # Errors
/// As [`Tasks::read`], and as [`Tasks::value`] for values that are kept in blobs.
pub fn change(home: &Tasks, change: &Change) -> foldlog::Result<String> {
    let mut line = String::from("{");
    json::raw("seq", change.seq, &mut line);
    json::text("time", &rfc3339(change.time), &mut line);
    json::text("workspace", home.workspace().name(), &mut line);
    match change.session {
        0 => json::raw("session", "null", &mut line),
        session => json::text("session", &format!("{session:016x}"), &mut line),
    }
    match home.read(|_, index| index.writer(change.session).cloned())? {
        Some(writer) => {
            let mut who = String::from("{");
            json::text("label", &writer.label, &mut who);
            json::raw("pid", writer.pid, &mut who);
            json::text("version", &writer.version, &mut who);
            json::raw("writer", who + "}", &mut line);
        }
        None => json::raw("writer", "null", &mut line),
    }
    match change.op_id {
        Some(op_id) => json::text("op_id", &op_id.to_string(), &mut line),
        None => json::raw("op_id", "null", &mut line),
    }
    match kinds::name(change.kind) {
        Some(name) => json::text("kind", name, &mut line),
        None => json::raw("kind", change.kind, &mut line),
    }
    json::raw("revision", change.revision, &mut line);
    json::raw("live", change.live, &mut line);
    let mut changes = Vec::with_capacity(change.fields.len());
    for FieldChange { field, from, to } in &change.fields {
        let mut one = String::from("{");
        json::text("field", field.name(), &mut one);
        for (name, value) in [("from", from), ("to", to)] {
            if let Some(value) = value {
                json::value(name, &home.value(value)?, &mut one);
            }
        }
        changes.push(one + "}");
    }
    json::raw("changes", format_args!("[{}]", changes.join(",")), &mut line);
    Ok(line + "}")
}
