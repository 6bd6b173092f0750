//! An event's meaning as JSON: `{"created":{"item":{…},"again":false}}`.
//!
//! A value that is kept outside the event stands as `{"blob":HEX64,"len":N}`.

use foldlog::event::{By, Event, Imported, Mirrored, Retention};
use foldlog::log::Binding;
use foldlog::log::envelope::Envelope;
use foldlog::{Field, Patch, Value};
use foldlog_requests::json::{key, raw, text, value};

/// What an event says: `null` for a kind that this release does not know, `{"error":WHY}` for a body that is none of its
/// kind.
pub(crate) fn json(envelope: &Envelope<'_>) -> String {
    match Event::decode(envelope) {
        Ok(Some(event)) => {
            let mut out = String::from("{");
            let name = foldlog::event::kinds::name(envelope.kind).unwrap_or("event");
            raw(name, members(&event), &mut out);
            out + "}"
        }
        Ok(None) => "null".into(),
        Err(bad) => {
            let mut out = String::from("{");
            text("error", &bad.to_string(), &mut out);
            out + "}"
        }
    }
}

/// The same without the name.
pub(crate) fn members(event: &Event) -> String {
    let mut out = String::from("{");
    match event {
        Event::Created { item, again } => {
            raw("item", object(item.fields()), &mut out);
            raw("again", again, &mut out);
        }
        Event::Patched(patch) => patched(patch, &mut out),
        Event::Renamed { title } => part("title", title, &mut out),
        Event::StatusChanged { from, to, cause } => {
            text("from", from.name(), &mut out);
            text("to", to.name(), &mut out);
            text("cause", cause.name(), &mut out);
        }
        Event::Delegated { child } => text("child", child.as_str(), &mut out),
        Event::Linked { parent, root } => {
            text("parent", parent.as_str(), &mut out);
            text("root", root.as_str(), &mut out);
        }
        Event::Finished { summary } => summary.iter().for_each(|v| part("summary", v, &mut out)),
        Event::ChildReturned { child, summary } => {
            text("child", child.as_str(), &mut out);
            summary.iter().for_each(|v| part("summary", v, &mut out));
        }
        Event::Deleted { with } => with.iter().for_each(|id| text("with", id.as_str(), &mut out)),
        Event::Attached(fence) => text("fence", &fence.to_string(), &mut out),
        Event::Detached { fence } => raw("fence", fence, &mut out),
        Event::Abandoned { session, fence, severed } => {
            if *session != 0 {
                text("session", &format!("{session:016x}"), &mut out);
            }
            raw("fence", fence, &mut out);
            raw("severed", severed, &mut out);
        }
        Event::Imported(imported) => import(imported, &mut out),
        Event::SourceKept { source, record } => {
            text("source", source, &mut out);
            part("record", record, &mut out);
        }
        Event::RulesSet(table) => {
            text("name", table.name(), &mut out);
            let row = |(from, to, by): &(foldlog::TaskStatus, foldlog::TaskStatus, By)| {
                let by = if *by == By::Resume { "resume" } else { "any" };
                format!(r#"["{from}","{to}","{by}"]"#)
            };
            let rows: Vec<String> = table.rows().iter().map(row).collect();
            raw("rows", format_args!("[{}]", rows.join(",")), &mut out);
        }
        Event::WorkspaceBound(binding) => match binding {
            Binding::None => {}
            Binding::Path(path) => text("path", path, &mut out),
            Binding::Key(name) => text("key", name, &mut out),
        },
        Event::DocumentPut { kind, value, again } => {
            kind.iter().for_each(|kind| text("kind", kind, &mut out));
            part("value", value, &mut out);
            raw("again", again, &mut out);
        }
        Event::DocumentPatched(patch) => patched(patch, &mut out),
        Event::DocumentDeleted => {}
        Event::DocumentMirrored(mirrored) => mirror(mirrored, &mut out),
        Event::RetentionSet(set) => match set {
            None => raw("keep", "null", &mut out),
            Some(Retention::KeepAll) => text("keep", "all", &mut out),
            Some(Retention::Limits { age, count, bytes }) => {
                text("keep", "limits", &mut out);
                age.iter().for_each(|age| raw("age_us", age.as_micros(), &mut out));
                count.iter().for_each(|count| raw("count", count, &mut out));
                bytes.iter().for_each(|bytes| raw("bytes", bytes, &mut out));
            }
        },
        Event::Pinned(pinned) => raw("pinned", pinned, &mut out),
        Event::Purged { fence } => raw("fence", fence, &mut out),
        Event::BackedUp { target, covers } => {
            text("target", target, &mut out);
            raw("covers", covers, &mut out);
        }
        Event::SessionStarted { label, version, pid } => {
            text("label", label, &mut out);
            text("version", version, &mut out);
            raw("pid", pid, &mut out);
        }
    }
    out + "}"
}

fn patched(patch: &Patch, out: &mut String) {
    if !patch.sets().is_empty() {
        raw("set", object(patch.sets()), out);
    }
    if !patch.unsets().is_empty() {
        raw("unset", array(patch.unsets().iter().map(Field::name)), out);
    }
    if !patch.drops().is_empty() {
        raw("drop_children", array(patch.drops().iter().map(AsRef::as_ref)), out);
    }
}

fn import(imported: &Imported, out: &mut String) {
    let Imported { source, record, set, unset, kept } = imported;
    text("source", source, out);
    text("record", &record.iter().map(|b| format!("{b:02x}")).collect::<String>(), out);
    raw("set", object(set), out);
    raw("unset", array(unset.iter().map(Field::name)), out);
    let mut kept_out = String::from("{");
    kept.iter().for_each(|(field, hash)| text(field.name(), &format!("{hash:016x}"), &mut kept_out));
    raw("kept", kept_out + "}", out);
}

fn mirror(mirrored: &Mirrored, out: &mut String) {
    let Mirrored { file, content, note, revision, whole, members } = mirrored;
    text("file", file, out);
    text("content", &content.iter().map(|b| format!("{b:02x}")).collect::<String>(), out);
    text("note", note.name(), out);
    raw("revision", revision, out);
    text("whole", &format!("{whole:016x}"), out);
    if let Some(members) = members {
        let mut all = String::from("{");
        members.iter().for_each(|(name, hash)| text(name, &format!("{hash:016x}"), &mut all));
        raw("members", all + "}", out);
    }
}

fn object(fields: &[(Field, Value)]) -> String {
    let mut out = String::from("{");
    fields.iter().for_each(|(field, value)| part(field.name(), value, &mut out));
    out + "}"
}

fn array<'a>(names: impl Iterator<Item = &'a str>) -> String {
    // The form of a value that holds strings knows how to spell them.
    Value::strings(names).to_json()
}

fn part(name: &str, it: &Value, out: &mut String) {
    match it {
        Value::Blob { id, len } => {
            key(name, out);
            *out += &format!(r#"{{"blob":"{id}","len":{len}}}"#);
        }
        it => value(name, it, out),
    }
}
