//! A document and a JSON state file that others write: edits go both ways, what is malformed is never one.

#![expect(clippy::unwrap_used, reason = "a test, all of it")]

use std::path::Path;
use std::sync::Arc;

use foldlog::document::{Bridge, Documents};
use foldlog::event::{Field, Patch};
use foldlog::task::{DocumentExpect, TaskStore};
use foldlog::vfs::sim::{Profile, SimMachine, SimProcess};
use foldlog::vfs::{Open, Vfs as _, write_full};
use foldlog::{Durability, Place, Store};

use super::bridge_faults::{FILE, codes, copied, save};
use super::documents::{name, on, options, text, value};
use super::hooked::Hooked;
use super::simulated::{ROOT, file};

const ANY: DocumentExpect = DocumentExpect::Any;

struct Scene {
    machine: SimMachine,
    others: SimProcess,
    all: Documents,
    bridge: Bridge,
}

fn scene() -> Scene {
    let machine = SimMachine::new(Profile::Linux, 1);
    let others = machine.process("old program");
    others.create_dir(Path::new("/home")).unwrap();
    let all = on(&machine, "p", options());
    let bridge = Bridge::new(all.clone(), name("state"), FILE).unwrap().kind("state");
    Scene { machine, others, all, bridge }
}

impl Scene {
    fn save(&self, bytes: &[u8]) {
        save(&self.others, FILE, bytes);
    }

    fn file(&self) -> String {
        String::from_utf8_lossy(&file(&self.others, Path::new(FILE))).into_owned()
    }

    fn document(&self) -> Option<String> {
        text(&self.all, "state")
    }

    fn patch(&self, text: &str) {
        let patch = Patch::parse(&format!("{{\"set\":{text}}}")).unwrap();
        let _ = self.all.patch(&name("state"), patch, ANY, Durability::Buffered).unwrap();
    }

    fn quarantined(&self) -> Vec<Vec<u8>> {
        copied(&self.others)
    }

    /// Imported, exported, codes of the findings.
    fn sync(&self) -> (bool, bool, Vec<&'static str>) {
        let synced = self.bridge.sync().unwrap();
        (synced.imported, synced.exported, codes(&synced))
    }
}

const NOTHING: (bool, bool, Vec<&str>) = (false, false, Vec::new());

#[test]
fn edits_go_both_ways_and_come_to_rest() {
    let s = scene();
    assert_eq!((s.sync(), s.document()), (NOTHING, None));
    // The very text, in whatever form the other program writes it.
    s.save(b"\xef\xbb\xbf{\n  \"a\": 1.50,\n  \"b\": \"\\u0041\"\n}\n");
    assert_eq!(s.sync(), (true, false, vec![]));
    assert_eq!(s.document().as_deref(), Some("{\n  \"a\": 1.50,\n  \"b\": \"\\u0041\"\n}"));
    assert_eq!(s.all.get("state").unwrap().unwrap().document.kind.as_deref(), Some("state"));
    assert_eq!(s.sync(), NOTHING);
    s.patch(r#"{"c":3}"#);
    assert_eq!(s.sync(), (false, true, vec![]));
    assert_eq!(s.file(), r#"{"a":1.50,"b":"\u0041","c":3}"#);
    // Both sides at once, different members.
    s.patch(r#"{"c":4}"#);
    s.save(br#"{"a":2,"c":3,"d":5}"#);
    assert_eq!(s.sync(), (true, true, vec![]));
    assert_eq!((s.file(), s.document().unwrap()), (r#"{"a":2,"c":4,"d":5}"#.into(), s.file()));
    // The same member: the document's stands, and what the file said is kept.
    s.patch(r#"{"a":"mine"}"#);
    s.save(br#"{"a":"theirs","c":4,"d":6}"#);
    let synced = s.bridge.sync().unwrap();
    assert_eq!(
        (synced.imported, synced.exported, synced.kept.as_slice()),
        (true, true, &["a".to_owned()][..])
    );
    assert_eq!(synced.findings[0].code, "state-file-both-changed");
    assert_eq!(s.file(), r#"{"a":"mine","c":4,"d":6}"#);
    assert_eq!(s.quarantined(), [br#"{"a":"theirs","c":4,"d":6}"#.to_vec()]);
    // A file that is gone is no edit.
    s.others.unlink(Path::new(FILE)).unwrap();
    assert_eq!((s.sync(), s.file()), ((false, true, vec![]), s.document().unwrap()));
    assert_eq!(s.sync(), NOTHING);
    // To and fro: what the file had before is an edit like any other.
    for (text, exports) in [
        (&br#"{"a":2,"c":4,"d":5}"#[..], 7),
        (br#"{"a":"mine","c":4,"d":6}"#, 8),
        (br#"{"a":2,"c":4,"d":5}"#, 9),
    ] {
        s.save(text);
        assert_eq!((s.sync(), s.document().unwrap().as_bytes()), ((true, false, vec![]), text));
        assert_eq!((s.sync(), s.all.history(&name("state")).unwrap().len()), (NOTHING, exports));
    }
    s.patch(r#"{"a":1}"#);
    assert_eq!(s.sync(), (false, true, vec![]));
    s.save(br#"{"a":2,"c":4,"d":5}"#);
    assert_eq!((s.sync(), s.document().unwrap()), ((true, false, vec![]), s.file()));
    let changes = s.all.history(&name("state")).unwrap().len();
    assert_eq!(changes, 11, "an export changes no document");
}

#[test]
fn malformed_file_is_set_aside_and_the_last_good_value_stands() {
    let s = scene();
    let whole = r#"{"a":1,"b":[2,3]}"#;
    s.save(whole.as_bytes());
    assert_eq!(s.sync(), (true, false, vec![]));
    let cuts = (0..whole.len()).map(|len| whole.as_bytes()[..len].to_vec());
    let odd = ["\0\0\0\0", "<html>", "{\"a\":NaN}", "{\"a\":1,\"a\":2}", "{}{}"]
        .map(|text| text.as_bytes().to_vec());
    let all: Vec<Vec<u8>> = cuts.chain(odd).chain([b"\xff\xfe{\0}\0".to_vec()]).collect();
    for bad in &all {
        s.save(bad);
        assert_eq!(s.bridge.get().unwrap().unwrap().document.value.to_json(), whole);
        assert_eq!(s.sync(), (false, true, vec!["state-file-malformed"]), "{bad:?}");
        assert_eq!((s.file(), s.document().as_deref()), (whole.to_owned(), Some(whole)), "{bad:?}");
        assert_eq!(s.sync(), NOTHING);
    }
    let mut kept = s.quarantined();
    let mut expected = all.clone();
    kept.sort_unstable();
    expected.sort_unstable();
    assert_eq!(kept, expected, "each once, byte for byte");
    // The same contents again at once: nobody fights for the file, until the document has something to say.
    s.save(b"<html>");
    assert_eq!((s.sync().1, s.file()), (true, whole.into()), "it was good in between");
    for _ in 0..2 {
        s.save(b"<html>");
        assert_eq!(s.sync(), (false, false, vec!["state-file-malformed"]));
        assert_eq!(s.file(), "<html>");
    }
    assert_eq!(s.quarantined().len(), all.len());
    s.patch(r#"{"c":1}"#);
    assert_eq!((s.sync().1, s.file()), (true, r#"{"a":1,"b":[2,3],"c":1}"#.into()));
    assert_eq!(s.all.history(&name("state")).unwrap().len(), 2);
}

#[test]
fn malformed_file_without_a_good_value_is_read_only_and_never_empty() {
    let s = scene();
    for bad in [&b""[..], b"{\"a\":", b"\0\0\0"] {
        s.save(bad);
        let put = || s.bridge.put(value("{}"), ANY, Durability::Durable).unwrap_err().code();
        assert_eq!(
            (s.bridge.get().unwrap_err().code(), s.bridge.sync().unwrap_err().code(), put()),
            ("bad-state-file", "bad-state-file", "bad-state-file")
        );
        assert_eq!((s.file().as_bytes(), s.document()), (bad, None));
    }
    assert_eq!(s.quarantined().len(), 3);
    // Mended by whoever writes it, or by hand.
    s.save(b"{\"a\":1}");
    let (done, synced) =
        s.bridge.put(value(r#"{"a":2}"#), DocumentExpect::Exists, Durability::Durable).unwrap();
    assert_eq!(
        (done.count, synced.imported, synced.exported, s.file().as_str()),
        (1, true, true, r#"{"a":2}"#)
    );
}

#[test]
fn deletion_and_refusal_leave_the_file_to_its_owner() {
    let s = scene();
    s.all.tasks().validate_documents("state", |_, value| match value.to_json().contains("bad") {
        true => Err("it is bad".into()),
        false => Ok(()),
    });
    s.save(br#"{"a":"bad"}"#);
    assert_eq!(s.bridge.sync().unwrap_err().code(), "document-refused");
    s.save(br#"{"a":"good"}"#);
    assert_eq!(s.sync(), (true, false, vec![]));
    s.save(br#"{"a":"bad"}"#);
    assert_eq!((s.sync(), s.file()), ((false, true, vec!["state-file-refused"]), r#"{"a":"good"}"#.into()));
    s.save(br#"{"a":"bad"}"#);
    assert_eq!((s.sync(), s.file()), ((false, false, vec!["state-file-came-back"]), r#"{"a":"bad"}"#.into()));
    assert_eq!(s.document().as_deref(), Some(r#"{"a":"good"}"#));
    s.save(br#"{"a":"good"}"#);
    let _ = s.all.delete(&name("state"), ANY, Durability::Buffered).unwrap();
    assert_eq!((s.sync(), s.file()), (NOTHING, r#"{"a":"good"}"#.into()));
    s.save(br#"{"a":"late"}"#);
    assert_eq!((s.sync(), s.document()), ((false, false, vec!["state-file-document-deleted"]), None));
    assert_eq!(s.file(), r#"{"a":"late"}"#);
}

#[test]
fn all_processes_agree_what_is_theirs() {
    let s = scene();
    s.save(br#"{"a":1}"#);
    let other = Bridge::new(on(&s.machine, "q", options()), name("state"), FILE).unwrap();
    assert_eq!(s.sync(), (true, false, vec![]));
    let synced = other.sync().unwrap();
    assert!(!synced.imported && !synced.exported);
    s.patch(r#"{"a":2}"#);
    assert!(other.sync().unwrap().exported);
    assert_eq!((s.sync(), s.file()), (NOTHING, r#"{"a":2}"#.into()));
    // Who only looks writes nothing, and says why.
    let reader = Bridge::new(on(&s.machine, "r", options().read_only(true)), name("state"), FILE).unwrap();
    assert!(reader.sync().is_ok());
    s.save(br#"{"a":3}"#);
    let before = s.machine.disk().content_hash();
    assert_eq!((reader.sync().unwrap_err().code(), s.machine.disk().content_hash()), ("read-only", before));
    s.save(b"{");
    let before = s.machine.disk().content_hash();
    let told = reader.sync().unwrap();
    assert_eq!((told.findings[0].code, s.machine.disk().content_hash()), ("state-file-malformed", before));
}

/// An old program that writes while the bridge is at it is not overwritten: the bridge looks again.
#[test]
fn file_that_changes_before_it_is_replaced_is_looked_at_again() {
    let machine = SimMachine::new(Profile::Linux, 1);
    let others = machine.process("old program");
    others.create_dir(Path::new("/home")).unwrap();
    let quick = others.clone();
    let once = std::sync::atomic::AtomicBool::new(false);
    let vfs = Hooked::new(Arc::new(machine.process("p")), move |op, path| {
        let is_new = path.to_string_lossy().contains(".foldlog-");
        if is_new
            && op == foldlog::vfs::sim::Op::Sync
            && let Ok(file) = quick.open(Path::new(FILE), Open::Write)
            && !once.swap(true, std::sync::atomic::Ordering::Relaxed)
        {
            file.set_len(0).unwrap();
            write_full(&*file, br#"{"a":1,"b":"late"}"#, 0).unwrap();
        }
    });
    let store = TaskStore::of(Store::open_on(vfs, Path::new(ROOT), TaskStore::options(options())).unwrap());
    let all = store.home(&Place::Key("project".into())).unwrap().documents();
    let bridge = Bridge::new(all.clone(), name("state"), FILE).unwrap();
    let (_, first) = bridge.put(value(r#"{"a":1}"#), ANY, Durability::Durable).unwrap();
    assert!(first.exported);
    let patch = Patch::new().set(Field::of("a"), 2_i64);
    let _ = all.patch(&name("state"), patch, ANY, Durability::Durable).unwrap();
    let synced = bridge.sync().unwrap();
    // What was meant for the file and never came there is nothing that the save could have been made from.
    assert!(synced.exported && synced.kept.is_empty() && synced.findings.is_empty(), "{synced:?}");
    let right = r#"{"a":2,"b":"late"}"#;
    let now = String::from_utf8(file(&others, Path::new(FILE))).unwrap();
    assert_eq!((text(&all, "state").as_deref(), now.as_str()), (Some(right), right));
}
