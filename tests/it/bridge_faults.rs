//! What a bridge between a document and a state file does where something goes wrong: writes that fail, saves and kills in
//! between, contents that come back. Nothing that a user saved and nothing that was acknowledged may be gone without a copy.

#![expect(clippy::unwrap_used, reason = "a test, all of it")]

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use foldlog::document::{Bridge, Documents, Synced};
use foldlog::event::{Field, Patch};
use foldlog::task::{DocumentExpect, MIRRORS_MAX, TaskStore};
use foldlog::vfs::sim::{Effect, Fault, Op, Profile, SimMachine, SimProcess};
use foldlog::vfs::{Open, Vfs, write_full};
use foldlog::{Durability, Place, Store};

use super::documents::{name, on, options, text, value};
use super::hooked::Hooked;
use super::simulated::{ROOT, file, folder};

const ANY: DocumentExpect = DocumentExpect::Any;
pub(crate) const FILE: &str = "/home/state.json";

/// As a program saves that empties the file first.
pub(crate) fn save(process: &dyn Vfs, path: &str, bytes: &[u8]) {
    let path = Path::new(path);
    let file = process.open(path, Open::Write).or_else(|_| process.open(path, Open::Create)).unwrap();
    file.set_len(0).unwrap();
    write_full(&*file, bytes, 0).unwrap();
}

pub(crate) fn documents_on(vfs: Arc<dyn Vfs>) -> Documents {
    let store = TaskStore::of(Store::open_on(vfs, Path::new(ROOT), TaskStore::options(options())).unwrap());
    store.home(&Place::Key("project".into())).unwrap().documents()
}

pub(crate) fn patch(all: &Documents, at: &str, field: &str, n: u64) {
    let patch = Patch::new().set(Field::of(field), n);
    let _ = all.patch(&name(at), patch, ANY, Durability::Durable).unwrap();
}

pub(crate) fn copies(process: &SimProcess) -> Vec<String> {
    copied(process).iter().map(|copy| String::from_utf8_lossy(copy).into_owned()).collect()
}

/// What was set aside, byte for byte.
pub(crate) fn copied(process: &SimProcess) -> Vec<Vec<u8>> {
    let dir = folder(process).join("quarantine");
    let entries = process.list(&dir).unwrap_or_default();
    let copies = entries.into_iter().filter(|e| e.name.ends_with(".bin"));
    copies.map(|e| file(process, &dir.join(e.name))).collect()
}

pub(crate) fn codes(synced: &Synced) -> Vec<&'static str> {
    synced.findings.iter().map(|f| f.code).collect()
}

struct Scene {
    machine: SimMachine,
    others: SimProcess,
    all: Documents,
    bridge: Bridge,
}

fn scene() -> Scene {
    hooked(|_, _, _| {})
}

/// A bridge whose process is at each of its calls.
fn hooked(hook: impl Fn(&SimProcess, Op, &Path) + Send + Sync + 'static) -> Scene {
    let machine = SimMachine::new(Profile::Linux, 1);
    let others = machine.process("others");
    others.create_dir(Path::new("/home")).unwrap();
    let quick = others.clone();
    let vfs = Hooked::new(Arc::new(machine.process("p")), move |op, path| hook(&quick, op, path));
    let all = documents_on(vfs);
    let bridge = Bridge::new(all.clone(), name("state"), FILE).unwrap();
    Scene { machine, others, all, bridge }
}

impl Scene {
    fn save(&self, text: &str) {
        save(&self.others, FILE, text.as_bytes());
    }

    fn file(&self) -> String {
        String::from_utf8(file(&self.others, Path::new(FILE))).unwrap()
    }

    fn document(&self) -> String {
        text(&self.all, "state").unwrap()
    }

    /// Both hold this, and know it.
    fn begin(&self, text: &str) {
        self.save(text);
        let _ = self.bridge.sync().unwrap();
        assert_eq!(self.document(), text);
    }

    fn sync(&self) -> Synced {
        self.bridge.sync().unwrap()
    }
}

/// Eight writes that failed pushed what the file held out of the log's memory: the document then took the old file for an
/// edit.
#[test]
fn writes_that_fail_leave_it_known_what_the_file_holds() {
    for (op, kind) in [
        (Op::Create, io::ErrorKind::PermissionDenied),
        (Op::Write, io::ErrorKind::StorageFull),
        (Op::Rename, io::ErrorKind::PermissionDenied),
    ] {
        let s = scene();
        s.begin(r#"{"a":1}"#);
        s.machine.fault(Fault::on(op, Effect::Fail(kind)).path("foldlog-").always());
        for n in 2..=20 {
            patch(&s.all, "state", "a", n);
            assert!(s.bridge.sync().is_err(), "{op:?} {n}");
        }
        s.machine.clear_faults();
        let synced = s.sync();
        assert_eq!(
            (synced.imported, synced.exported, s.document().as_str()),
            (false, true, r#"{"a":20}"#),
            "{op:?}: {synced:?}"
        );
        assert_eq!((s.file(), copies(&s.others)), (s.document(), vec![]));
    }
}

/// A save between the last look and the renaming was judged by what had been meant for the file and never came there.
#[test]
fn edit_is_judged_by_what_the_file_held() {
    for (was, mine, theirs) in
        [(r#"{"a":1}"#, r#"{"a":2}"#, r#"{"a":3}"#), ("[1]", "[2]", "[3]"), ("1", "{}", "3")]
    {
        let once = Arc::new(AtomicBool::new(false));
        let armed = Arc::clone(&once);
        let s = hooked(move |others, op, path| {
            let is_new = path.to_string_lossy().contains("foldlog-");
            if is_new && op == Op::Sync && armed.swap(false, Ordering::Relaxed) {
                save(others, FILE, theirs.as_bytes());
            }
        });
        s.begin(was);
        let _ = s.all.put(&name("state"), None, value(mine), ANY, Durability::Durable).unwrap();
        once.store(true, Ordering::Relaxed);
        let synced = s.sync();
        assert_eq!(
            (s.document().as_str(), s.file().as_str(), copies(&s.others)),
            (mine, mine, vec![theirs.to_owned()]),
            "{synced:?}"
        );
        assert_eq!((synced.kept.len(), codes(&synced)), (1, vec!["state-file-both-changed"]));
    }
}

/// The note that the file was written was refused where the document had gone on: then the user's undoing counted as ours.
#[test]
fn undoing_behind_a_write_is_an_edit() {
    let armed = Arc::new(AtomicBool::new(false));
    let once = Arc::clone(&armed);
    let other = Arc::new(std::sync::OnceLock::<Documents>::new());
    let others_documents = Arc::clone(&other);
    let s = hooked(move |_, op, path| {
        if op == Op::Sync && path == Path::new(FILE) && once.swap(false, Ordering::Relaxed) {
            patch(others_documents.get().unwrap(), "state", "b", 3);
        }
    });
    s.begin(r#"{"a":1}"#);
    other.set(on(&s.machine, "q", options())).unwrap();
    patch(&s.all, "state", "a", 2);
    // Of the two syncs of the file the one behind the renaming.
    armed.store(true, Ordering::Relaxed);
    let vfs = s.others.clone();
    let _ = s.sync();
    assert!(!armed.load(Ordering::Relaxed));
    save(&vfs, FILE, br#"{"a":1}"#);
    let synced = s.sync();
    let taken = s.document() == r#"{"a":1,"b":3}"# || copies(&s.others).contains(&r#"{"a":1}"#.to_owned());
    assert!(taken, "{} {synced:?}", s.document());
}

/// An empty file was written anew once for all files and all times.
#[test]
fn each_file_is_written_anew_as_often_as_it_is_emptied() {
    let s = scene();
    s.begin(r#"{"a":1}"#);
    save(&s.others, "/home/other.json", b"[7]");
    let other = Bridge::new(s.all.clone(), name("other"), "/home/other.json").unwrap();
    let _ = other.sync().unwrap();
    for round in 0..3 {
        s.save("");
        let synced = s.sync();
        assert_eq!(
            (synced.exported, codes(&synced), s.file()),
            (true, vec!["state-file-malformed"], s.document())
        );
        save(&s.others, "/home/other.json", b"");
        assert!(other.sync().unwrap().exported, "round {round}");
        assert_eq!(file(&s.others, Path::new("/home/other.json")), b"[7]");
        // Everybody sees that it is good again; then the next begins anew.
        for synced in [s.sync(), other.sync().unwrap()] {
            assert!(!synced.exported && synced.findings.is_empty());
        }
        if round == 1 {
            patch(&s.all, "state", "a", 2);
            assert!(s.sync().exported);
        }
    }
    assert_eq!(copies(&s.others), [""], "one copy of the same bytes is enough");
}

/// A failure behind the copy left the file malformed for good.
#[test]
fn writing_anew_that_fails_is_made_up_for() {
    for op in [Op::Create, Op::Write, Op::Rename] {
        for bad in ["", r#"{"a":"bad"}"#] {
            let s = scene();
            s.all.tasks().validate_documents("state", |_, value| match value.to_json().contains("bad") {
                true => Err("it is bad".into()),
                false => Ok(()),
            });
            let put = value(r#"{"a":1}"#);
            let _ = s.all.put(&name("state"), Some("state"), put, ANY, Durability::Durable).unwrap();
            let _ = s.sync();
            s.save(bad);
            let denied = Effect::Fail(io::ErrorKind::PermissionDenied);
            s.machine.fault(Fault::on(op, denied).path("home/").times(12));
            for _ in 0..12 {
                assert!(s.bridge.sync().is_err(), "{op:?}");
                assert_eq!(s.file(), bad);
            }
            s.machine.clear_faults();
            assert!(s.sync().exported, "{op:?} {bad:?}");
            assert_eq!((s.file(), s.document()), (r#"{"a":1}"#.into(), r#"{"a":1}"#.into()));
        }
    }
}

/// What was refused and came back kept the document out of the file for good, however it changed.
#[test]
fn contents_that_come_back_stay_until_the_document_changes() {
    let s = scene();
    s.all.tasks().validate_documents("state", |_, value| match value.to_json().contains("bad") {
        true => Err("it is bad".into()),
        false => Ok(()),
    });
    let put = value(r#"{"a":1}"#);
    let _ = s.all.put(&name("state"), Some("state"), put, ANY, Durability::Durable).unwrap();
    let _ = s.sync();
    let mut n = 1;
    for (bad, code) in [
        (r#"{"a":"bad"}"#, "state-file-refused"),
        ("", "state-file-malformed"),
        (r#"{"a":70}"#, "state-file-both-changed"),
    ] {
        n += 1;
        patch(&s.all, "state", "a", n);
        if code != "state-file-both-changed" {
            let _ = s.sync();
        }
        s.save(bad);
        let synced = s.sync();
        assert_eq!((synced.exported, codes(&synced)), (true, vec![code]), "{bad}");
        // At once again, by a program that insists.
        for _ in 0..2 {
            s.save(bad);
            let synced = s.sync();
            assert_eq!((synced.exported, synced.imported, s.file().as_str()), (false, false, bad), "{bad}");
            assert_eq!(codes(&synced), [if bad.is_empty() { code } else { "state-file-came-back" }]);
        }
        n += 1;
        patch(&s.all, "state", "a", n);
        assert!(s.sync().exported, "{bad}");
        assert_eq!((s.file(), s.document()), (format!("{{\"a\":{n}}}"), s.file()));
        let _ = s.sync();
    }
}

/// An edit with a member that both changed and one that is refused was set aside for the one, and never left the file for
/// the other.
#[test]
fn edit_refused_and_in_conflict_leaves_the_file_and_is_told() {
    let s = scene();
    s.all.tasks().validate_documents("state", |_, value| match value.to_json().contains("bad") {
        true => Err("it is bad".into()),
        false => Ok(()),
    });
    let put = value(r#"{"a":1,"b":1}"#);
    let _ = s.all.put(&name("state"), Some("state"), put, ANY, Durability::Durable).unwrap();
    let _ = s.sync();
    patch(&s.all, "state", "a", 2);
    let theirs = r#"{"a":3,"b":"bad"}"#;
    s.save(theirs);
    let synced = s.sync();
    assert_eq!((synced.exported, synced.kept.as_slice()), (true, &["a".to_owned()][..]), "{synced:?}");
    assert!(codes(&synced).contains(&"state-file-refused"), "{synced:?}");
    assert_eq!((s.file().as_str(), copies(&s.others)), (r#"{"a":2,"b":1}"#, vec![theirs.to_owned()]));
}

#[test]
fn members_that_were_kept_are_told_once() {
    let tries = Arc::new(AtomicUsize::new(0));
    let left = Arc::clone(&tries);
    let s = hooked(move |others, op, path| {
        let is_new = path.to_string_lossy().contains("foldlog-");
        if is_new && op == Op::Sync && left.load(Ordering::Relaxed) > 0 {
            let n = left.fetch_sub(1, Ordering::Relaxed);
            save(others, FILE, format!("{{\"a\":7{}}}", " ".repeat(n)).as_bytes());
        }
    });
    s.begin(r#"{"a":1}"#);
    patch(&s.all, "state", "a", 2);
    s.save(r#"{"a":3}"#);
    tries.store(3, Ordering::Relaxed);
    let synced = s.sync();
    assert_eq!((synced.kept, s.file().as_str()), (vec!["a".to_owned()], r#"{"a":2}"#));
}

/// Two lists of members did not fit one frame, so that a document that may be put could never be bridged.
#[test]
fn document_of_very_many_members_has_a_file() {
    let s = scene();
    let member = |n: u64| format!("\"{n:08x}-0000-4000-8000-{n:012x}\":{n}");
    let object =
        |all: &mut dyn Iterator<Item = u64>| format!("{{{}}}", all.map(member).collect::<Vec<_>>().join(","));
    let large = object(&mut (0..60_000));
    let _ = s.all.put(&name("state"), None, value(&large), ANY, Durability::Durable).unwrap();
    assert!(s.sync().exported);
    assert_eq!(s.file(), large);
    let more = object(&mut (1..60_001));
    s.save(&more);
    assert!(s.sync().imported);
    assert!(s.document() == more);
    // Both sides: what cannot be told member by member is one that both changed.
    let mine = object(&mut (2..60_000));
    let _ = s.all.put(&name("state"), None, value(&mine), ANY, Durability::Durable).unwrap();
    let theirs = object(&mut (3..60_003));
    s.save(&theirs);
    let synced = s.sync();
    assert_eq!(synced.kept, ["the whole value"]);
    assert!(s.document() == mine && s.file() == mine && copies(&s.others) == [theirs]);
}

#[test]
fn document_is_mirrored_in_file_after_file() {
    let s = scene();
    s.begin(r#"{"a":1}"#);
    let path = |n: usize| format!("/home/{n}.json");
    for n in 0..MIRRORS_MAX + 3 {
        let bridge = Bridge::new(s.all.clone(), name("state"), path(n)).unwrap();
        assert!(bridge.sync().unwrap().exported, "{n}");
        // The first stays in use.
        patch(&s.all, "state", "a", n as u64 + 2);
        assert!(s.sync().exported);
    }
    let known =
        s.all.read(|_, all| all.mirrors("state").map(|m| m.file().replace('\\', "/")).collect::<Vec<_>>());
    // By one separator, whichever the system has.
    let known = known.unwrap();
    assert_eq!(known.len(), MIRRORS_MAX);
    assert!(known.contains(&FILE.to_owned()) && !known.contains(&path(0)), "{known:?}");
    // One that was forgotten is taken up again, and nothing is given up.
    save(&s.others, &path(0), br#"{"a":"edit","z":1}"#);
    let synced = Bridge::new(s.all.clone(), name("state"), path(0)).unwrap().sync().unwrap();
    assert_eq!(synced.kept, ["a"]);
    assert_eq!(copies(&s.others), [r#"{"a":"edit","z":1}"#]);
}

#[test]
fn name_as_long_as_the_system_allows_has_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let store = TaskStore::of(Store::open(dir.path().join("store"), TaskStore::options(options())).unwrap());
    let all = store.home(&Place::Key("project".into())).unwrap().documents();
    let path = dir.path().join(format!("{}.json", "n".repeat(240)));
    let bridge = Bridge::new(all, name("state"), &path).unwrap();
    let (_, synced) = bridge.put(value("[1]"), ANY, Durability::Durable).unwrap();
    assert!(synced.exported && path.exists());
}

/// Whoever removes the file just behind the renaming does not fail the call.
#[test]
fn file_removed_behind_the_renaming_is_no_error() {
    let armed = Arc::new(AtomicBool::new(false));
    let once = Arc::clone(&armed);
    let s = hooked(move |others, op, path| {
        if op == Op::Open
            && path == Path::new(FILE)
            && others.list(Path::new("/home")).unwrap().iter().all(|e| !e.name.contains("foldlog-"))
            && once.load(Ordering::Relaxed)
            && file(others, Path::new(FILE)) == br#"{"a":2}"#
            && once.swap(false, Ordering::Relaxed)
        {
            others.unlink(Path::new(FILE)).unwrap();
        }
    });
    s.begin(r#"{"a":1}"#);
    patch(&s.all, "state", "a", 2);
    armed.store(true, Ordering::Relaxed);
    assert!(s.bridge.sync().is_ok());
    assert!(!armed.load(Ordering::Relaxed));
    let _ = s.sync();
    assert_eq!(s.file(), r#"{"a":2}"#);
}

/// Replacing would cut the other names off, or give the file to somebody it did not belong to.
#[test]
fn file_that_must_not_be_replaced_is_refused_and_access_rights_stay() {
    let s = scene();
    s.begin(r#"{"a":1}"#);
    s.machine.with_disk(|disk| disk.chmod(FILE, 0o640)).unwrap();
    patch(&s.all, "state", "a", 2);
    assert!(s.sync().exported);
    assert_eq!(s.machine.with_disk(|disk| disk.mode(FILE)).unwrap(), 0o640);

    let refused = |what: &str, expected: &str| {
        let events = || s.all.tasks().read(|state, _| state.last()).unwrap();
        patch(&s.all, "state", "a", 3);
        let (before, file_before, document) = (events(), s.file(), s.document());
        let error = s.bridge.sync().unwrap_err();
        assert!(error.code() == "invalid" && error.to_string().contains(what), "{error}");
        let error = s.bridge.put(value("{}"), ANY, Durability::Durable).unwrap_err();
        assert!(error.code() == "invalid", "{error}");
        assert_eq!((events(), s.file(), s.document()), (before, file_before, document));
        // What others write there is taken all the same.
        let edit = format!("{{\"a\":3,\"b\":\"{expected}\"}}");
        s.save(&edit);
        assert!(s.sync().imported);
        assert_eq!(s.document(), edit);
        assert!(s.bridge.put(value(&edit), ANY, Durability::Durable).is_err(), "no write is promised");
        patch(&s.all, "state", "a", 2);
    };
    s.machine.with_disk(|disk| disk.chmod(FILE, 0o444)).unwrap();
    refused("read-only", "one");
    s.machine.with_disk(|disk| disk.chmod(FILE, 0o600)).unwrap();
    assert!(s.sync().exported);
    s.others.link(Path::new(FILE), Path::new("/home/other name")).unwrap();
    refused("2 names", "two");
    s.others.unlink(Path::new("/home/other name")).unwrap();
    assert!(s.sync().exported);
    assert_eq!(s.file(), s.document());
}

/// A link is followed to the one file, by whichever name, and is never replaced.
#[test]
fn one_file_is_one_mirror_by_whichever_path() {
    let s = scene();
    s.machine.with_disk(|disk| disk.plant_symlink("/home/link.json", FILE)).unwrap();
    let by_link = Bridge::new(s.all.clone(), name("state"), "/home/link.json");
    assert_eq!(by_link.unwrap_err().code(), "not-found", "it leads nowhere yet");
    s.begin(r#"{"a":1}"#);
    let by_link = Bridge::new(s.all.clone(), name("state"), "/home/../home/link.json").unwrap();
    assert_eq!(by_link.path(), s.bridge.path());
    patch(&s.all, "state", "a", 2);
    let synced = by_link.sync().unwrap();
    assert!(synced.exported && synced.findings.is_empty(), "{synced:?}");
    assert_eq!((s.sync().exported, s.file()), (false, s.document()));
    assert_eq!(s.all.read(|_, all| all.mirrors("state").count()).unwrap(), 1);
    // It leads nowhere again: that is no file to be made in its place.
    s.others.unlink(Path::new(FILE)).unwrap();
    assert!(by_link.sync().is_err());
    assert!(s.others.open(Path::new(FILE), Open::Read).is_err());
}

/// Somebody else is at the file: this one waits its turn, and says so in the end.
#[test]
fn file_that_another_process_is_at_is_busy() {
    let s = scene();
    s.begin(r#"{"a":1}"#);
    let held: Vec<_> = (0..=255)
        .filter_map(|n| s.others.open(&Path::new(ROOT).join(format!("paths/{n:02x}")), Open::Lock).ok())
        .collect();
    assert_eq!(held.len(), 1, "locks are made when they are needed");
    assert!(held[0].try_lock().unwrap());
    let error = s.bridge.sync().unwrap_err();
    assert!(error.code() == "busy" && error.to_string().contains("state.json"), "{error}");
    // Who only reads the document, or another file, waits for nobody.
    save(&s.others, "/home/other.json", b"[7]");
    assert!(Bridge::new(s.all.clone(), name("other"), "/home/other.json").unwrap().sync().unwrap().imported);
    assert_eq!(s.bridge.get().unwrap().unwrap().document.value.to_json(), r#"{"a":1}"#);
    held[0].unlock().unwrap();
    assert!(s.bridge.sync().is_ok());
}

/// What is longer than it was a moment ago is not handed out by its first part.
#[test]
fn file_that_grows_while_it_is_read_is_looked_at_again() {
    let left = Arc::new(AtomicUsize::new(0));
    let times = Arc::clone(&left);
    let s = hooked(move |others, op, path| {
        let now = match op {
            Op::Open => "1",
            Op::Read => "123",
            _ => return,
        };
        if path == Path::new(FILE) && times.load(Ordering::Relaxed) > 0 {
            times.fetch_sub(1, Ordering::Relaxed);
            save(others, FILE, now.as_bytes());
        }
    });
    save(&s.others, FILE, b"1");
    left.store(12, Ordering::Relaxed);
    let synced = s.sync();
    assert!(synced.imported && synced.findings.is_empty(), "{synced:?}");
    assert_eq!((s.document(), s.file()), ("123".into(), "123".into()));
}

/// Killed with the file written and nobody told; whoever then undoes that by hand, to the letter, has done something.
#[test]
fn undoing_behind_a_kill_leaves_a_copy() {
    let s = scene();
    s.begin(r#"{"a":1}"#);
    patch(&s.all, "state", "a", 2);
    let killed = || {
        let process = s.machine.process("victim");
        let bridge = Bridge::new(documents_on(Arc::new(process.clone())), name("state"), FILE).unwrap();
        let end = catch_unwind(AssertUnwindSafe(|| bridge.sync().is_ok()));
        assert!(end.is_err() && !process.is_alive());
        s.machine.clear_faults();
    };
    s.machine.fault(Fault::on(Op::Rename, Effect::DoneButFails).path("foldlog-").deadly());
    killed();
    assert_eq!(s.file(), r#"{"a":2}"#);
    s.save(r#"{"a":1}"#);
    let synced = s.sync();
    assert_eq!((synced.imported, codes(&synced)), (false, vec!["state-file-unsure"]));
    assert_eq!((s.file().as_str(), copies(&s.others)), (r#"{"a":2}"#, vec![r#"{"a":1}"#.to_owned()]));

    // Killed before the renaming, and again behind it by whoever completes it: nothing of it is anybody's edit.
    patch(&s.all, "state", "a", 3);
    s.machine.fault(Fault::on(Op::Rename, Effect::Fail(io::ErrorKind::Other)).path("foldlog-").deadly());
    killed();
    assert_eq!(s.file(), r#"{"a":2}"#);
    s.machine.fault(Fault::on(Op::Rename, Effect::DoneButFails).path("foldlog-").deadly());
    killed();
    assert_eq!(s.file(), r#"{"a":3}"#);
    patch(&s.all, "state", "a", 4);
    let synced = s.sync();
    assert!(!synced.imported && synced.exported && synced.findings.is_empty(), "{synced:?}");
    assert_eq!((s.file().as_str(), s.document().as_str()), (r#"{"a":4}"#, r#"{"a":4}"#));
}

/// At each call of one bridge another one changes the document and syncs, as far as it comes.
#[test]
fn two_bridges_may_meet_at_any_call() {
    // A commit that stands and did not get to its sync is taken for one that was interrupted.
    let is_quiet = |synced: &Synced| {
        let is_unsure = codes(synced).iter().all(|code| *code == "state-file-unsure");
        !synced.imported && synced.kept.is_empty() && is_unsure
    };
    let mut met = [0; 2];
    for call in 1.. {
        let left = Arc::new(AtomicUsize::new(0));
        let (times, other) = (Arc::clone(&left), Arc::new(std::sync::OnceLock::<(Documents, Bridge)>::new()));
        let second = Arc::clone(&other);
        let busy = Arc::new(AtomicUsize::new(9));
        let came = Arc::clone(&busy);
        let s = hooked(move |_, _, _| {
            if times.load(Ordering::Relaxed) == 0 || times.fetch_sub(1, Ordering::Relaxed) != 1 {
                return;
            }
            let (all, bridge) = second.get().unwrap().clone();
            let meets = std::thread::spawn(move || {
                let patch = Patch::new().set(Field::of("b"), 2_u64);
                let done = all.patch(&name("state"), patch, ANY, Durability::Durable);
                (done.err().map(|e| e.code()), bridge.sync().map_err(|e| e.code()))
            });
            let (failed, synced) = meets.join().unwrap();
            let waits = |code: &str| ["busy", "not-durable"].contains(&code);
            assert!(failed.is_none_or(waits), "{failed:?}");
            match &synced {
                Ok(synced) => assert!(!synced.imported && synced.kept.is_empty(), "{synced:?}"),
                Err(code) => assert!(waits(code), "{code}"),
            }
            came.store(usize::from(synced.is_err()), Ordering::Relaxed);
        });
        s.begin(r#"{"a":1,"b":1}"#);
        let process = Arc::new(s.machine.process("second"));
        let patient = options().lock_timeout(std::time::Duration::ZERO);
        let store =
            TaskStore::of(Store::open_on(process, Path::new(ROOT), TaskStore::options(patient)).unwrap());
        let all = store.home(&Place::Key("project".into())).unwrap().documents();
        let bridge = Bridge::new(all.clone(), name("state"), FILE).unwrap();
        other.set((all, bridge)).unwrap();
        patch(&s.all, "state", "a", 2);
        left.store(call, Ordering::Relaxed);
        let synced = s.sync();
        let is_over = left.swap(0, Ordering::Relaxed) > 0;
        assert!(is_quiet(&synced), "{call}: {synced:?}");
        let synced = s.sync();
        assert!(is_quiet(&synced), "{call}: {synced:?}");
        let wanted = [r#"{"a":2,"b":1}"#, r#"{"a":2,"b":2}"#];
        assert!(
            wanted.contains(&s.document().as_str()) && s.file() == s.document(),
            "{call}: {}",
            s.document()
        );
        if is_over {
            break;
        }
        met[busy.load(Ordering::Relaxed)] += 1;
    }
    println!("came through, had to wait: {met:?}");
    assert!(met.iter().all(|n| *n > 3), "{met:?}");
}
