//! Any bytes as items, patches and bodies: texts come back as they went in, events too, and a patch does what it says.
#![no_main]

use foldlog::event::{Event, Item, Patch, TaskId, Value, json, kinds};
use foldlog::log::envelope::{Envelope, KeyKind};
use foldlog::log::{Revision, Seq};
use foldlog::{Durability, Housekeeping, Options, Place, TaskStore};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    bodies(data);
    let Ok(text) = std::str::from_utf8(data) else { return };
    let outer = |c: char| matches!(c, ' ' | '\t' | '\n' | '\r');
    if let Ok(value) = Value::parse(text) {
        assert_eq!(value.to_json(), text.trim_matches(outer));
        let _ = (value.as_str(), value.as_strings(), value.as_f64(), value.as_u64(), value.is_strings());
    }
    // An item, and on the lines behind the first empty one a patch.
    let (first, second) = text.split_once("\n\n").unwrap_or((text, ""));
    let Ok(item) = Item::parse(first) else { return };
    let members = members(first);
    let spelled: Vec<String> =
        members.iter().map(|(name, value)| format!("{}:{value}", quoted(name))).collect();
    assert_eq!(item.to_json(), format!("{{{}}}", spelled.join(",")));
    assert_eq!(Item::parse(&item.to_json()).as_ref().ok(), Some(&item));
    if let Ok(patch) = Patch::parse(second) {
        apply(item, members, &patch, second);
    }
});

fn members(text: &str) -> Vec<(String, String)> {
    let all = json::members(text).expect("it is an object");
    all.into_iter().map(|(name, value)| (name.into_owned(), value.to_owned())).collect()
}

fn quoted(text: &str) -> String {
    let mut out = String::new();
    json::write_string(text, &mut out);
    out
}

/// Every kind and version, whatever the body is: no panic, and what decodes encodes to an event that is equal.
fn bodies(data: &[u8]) {
    for &(kind, ..) in kinds::KINDS {
        let envelope = |kind, blobs, body| Envelope {
            seq: Seq(1),
            takes: 1,
            kind,
            version: 1,
            ignorable: false,
            key_kind: KeyKind::TASK,
            key: "t",
            revision: Revision(1),
            blobs,
            body,
        };
        let Ok(Some(event)) = Event::decode(&envelope(kind, &[7; 96], data)) else { continue };
        let new = event.to_new(TaskId::new("t").expect("it is an id").key());
        let blobs: Vec<u8> = new.blob_names().flat_map(|blob| blob.0).collect();
        let again = Event::decode(&envelope(new.kind(), &blobs, new.body()));
        assert_eq!(again, Ok(Some(event)));
    }
}

/// The patch by the rules and the fold, against what it says of names and texts.
fn apply(item: Item, mut expected: Vec<(String, String)>, patch: &Patch, text: &str) {
    let options = Options::default().housekeeping(Housekeeping::Off);
    let tasks = TaskStore::memory(options).and_then(|store| store.home(&Place::None)).expect("memory opens");
    let Ok(created) = tasks.create(item, Durability::Buffered) else { return };
    let id = created.tasks[0].0.clone();
    if tasks.patch(&id, patch.clone(), Durability::Buffered).is_err() {
        return;
    }
    let find = |all: &[(String, String)], name: &str| all.iter().position(|(known, _)| known == name);
    for (key, value) in members(text) {
        if key == "set" {
            for (name, value) in members(&value) {
                match find(&expected, &name) {
                    _ if name == "childIds" => {}
                    Some(at) => expected[at].1 = value,
                    None => expected.push((name, value)),
                }
            }
        }
    }
    let unset = |name: &str| name != "childIds" && patch.unsets().iter().any(|field| field.name() == name);
    expected.retain(|(name, _)| !unset(name));
    let task = tasks.get(id.as_str()).expect("memory reads").expect("it was created").task;
    let plain = |all: Vec<(String, String)>| -> Vec<_> {
        all.into_iter().filter(|(name, _)| name != "childIds").collect()
    };
    assert_eq!(plain(members(&task.item.to_json())), plain(expected));
    let index = tasks.read(|_, index| index.findings_seen()).expect("memory reads");
    assert_eq!(index, 0);
}
