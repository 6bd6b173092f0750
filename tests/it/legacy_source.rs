//! Reading folders of older layouts: whatever is wrong in them, and whoever writes there meanwhile.

use std::collections::BTreeMap;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use foldlog::event::{Field, Item, Value};
use foldlog::legacy::{Confidence, DebrisKind, Found, FoundTask, Phase, Progress, Source, What, Why};
use foldlog::vfs::sim::{Effect, Fault, Op, Profile, SimMachine, SimProcess};
use foldlog::vfs::{Entry, Existing, FileSystem, Open, Process, Stat, Vfs, VfsFile};
use foldlog::{Error, ErrorKind};

const NOW: u64 = 1_786_000_000_000;

pub(crate) fn read(vfs: &dyn Vfs, dir: &str) -> Result<Found, Error> {
    Source::find(vfs, Path::new(dir))?.read(vfs, &mut |_| ControlFlow::Continue(()))
}

/// A machine with these files; in their texts `'` stands for `"`.
fn machine(files: &[(&str, &str)]) -> SimMachine {
    let machine = SimMachine::new(Profile::Linux, 1);
    for (path, text) in files {
        plant(&machine, path, text.replace('\'', "\"").as_bytes());
    }
    machine
}

fn plant(machine: &SimMachine, path: &str, bytes: &[u8]) {
    machine.with_disk(|disk| disk.plant(path, bytes)).unwrap();
}

/// Reads what is there and checks that this left it as it was.
fn found(machine: &SimMachine) -> Found {
    let before = machine.disk().content_hash();
    let found = read(&machine.process("reader"), "/host").unwrap();
    assert_eq!(machine.disk().content_hash(), before);
    found
}

fn ids(found: &Found) -> Vec<&str> {
    found.tasks.iter().map(|task| task.id.as_str()).collect()
}

fn task<'a>(found: &'a Found, id: &str) -> &'a FoundTask {
    found.tasks.iter().find(|task| task.id.as_str() == id).unwrap_or_else(|| panic!("no {id}: {found:?}"))
}

fn whats(found: &Found, source: &str) -> Vec<What> {
    found.findings.iter().filter(|f| f.source == source).map(|f| f.what).collect()
}

fn item(id: &str) -> String {
    format!(
        "{{'id':'{id}','number':1,'ts':{NOW},'task':'title of {id}','tokensIn':7,'tokensOut':1,'totalCost':0.5}}"
    )
}

fn with_title(id: &str, title: &str) -> String {
    item(id).replace(&format!("title of {id}"), title)
}

const UI: &str = "[{'ts':1786000000001,'type':'say','say':'text','text':'first words'},\
                   {'ts':1786000000002,'type':'say','say':'api_req_started','text':'{\\'tokensIn\\':3,\\'cost\\':0.25}'}]";

#[test]
fn tasks_folder_is_found_by_name_or_by_content() {
    let of = |files: &[(&str, &str)], dir: &str| read(&machine(files).process("r"), dir);
    let a = item("a");
    for (file, dir) in [
        ("/host/tasks/a/history_item.json", "/host"),
        ("/host/tasks/a/history_item.json", "/host/tasks"),
        ("/host/a/history_item.json", "/host"),
        ("/x/tasks/a/history_item.json", "/x/tasks"),
    ] {
        assert_eq!(ids(&of(&[(file, &a)], dir).unwrap()), ["a"], "{file}");
    }
    for dir in ["/none", "/host/none", "/host"] {
        let e = of(&[("/host/readme/x.txt", "")], dir).unwrap_err();
        assert!(matches!(e.kind(), ErrorKind::NotFound { .. }), "{e}");
    }
    assert_eq!(ids(&of(&[("/host/tasks/x/.gitkeep", "")], "/host").unwrap()), [""; 0]);
}

#[test]
fn every_source_is_read_and_named() {
    let list = |id: &str| format!("[{}]", item(id));
    let machine = machine(&[
        ("/host/tasks/file/history_item.json", &item("file")),
        ("/host/tasks/new/.history_item.json.new_12_ab.tmp", &item("new")),
        ("/host/tasks/bak/.history_item.json.bak_12_ab.tmp", &item("bak")),
        ("/host/tasks/old/history_item.20260815-101112.bak.json", &item("old")),
        ("/host/tasks/extract/._index.extract.json", &item("extract")),
        ("/host/tasks/_index.json", &format!("{{'version':1,'updatedAt':2,'entries':[{}]}}", item("index"))),
        ("/host/tasks/._index.json.bak_1_2.tmp", &list("index-bak")),
        ("/host/tasks/_index.20260815-101112.bak.json", &list("index-backup")),
        (
            "/host/tasks/_index.task.20260815.bak.json",
            &item("removed").replace("}", ",'_removedReason':'x','_removedAt':1}"),
        ),
        ("/host/global-state.json", &format!("{{'q':1,'taskHistory':{}}}", list("state"))),
        ("/host/taskHistory.json", &list("history")),
        ("/host/state/taskHistory.json", &list("cline")),
        ("/else/dump.json", &format!("{{'taskHistory':'{}'}}", list("asked").replace('\'', "\\'"))),
        ("/host/tasks/messages/ui_messages.json", UI),
    ]);
    let process = machine.process("reader");
    let source = Source::find(&process, Path::new("/host")).unwrap().global_state("/else/dump.json");
    let found = source.read(&process, &mut |_| ControlFlow::Continue(())).unwrap();
    let sources: BTreeMap<&str, &str> = found.tasks.iter().map(|t| (t.id.as_str(), t.source())).collect();
    let expected = [
        ("asked", "/else/dump.json"),
        ("bak", "bak/.history_item.json.bak_12_ab.tmp"),
        ("cline", "../state/taskHistory.json"),
        ("extract", "extract/._index.extract.json"),
        ("file", "file/history_item.json"),
        ("history", "../taskHistory.json"),
        ("index", "_index.json"),
        ("index-backup", "_index.20260815-101112.bak.json"),
        ("index-bak", "._index.json.bak_1_2.tmp"),
        ("messages", "messages"),
        ("new", "new/.history_item.json.new_12_ab.tmp"),
        ("old", "old/history_item.20260815-101112.bak.json"),
        ("removed", "_index.task.20260815.bak.json"),
        ("state", "../global-state.json"),
    ];
    assert_eq!(sources, expected.into());
    for task in found.tasks.iter().filter(|task| task.id.as_str() != "messages") {
        assert_eq!(task.item().to_json().replace('"', "'"), item(task.id.as_str()));
        assert_eq!((task.confidence, &*task.kept), (Confidence::High, &[][..]), "{}", task.id);
    }
    let made = task(&found, "messages");
    assert_eq!(made.item().text(&Field::Task).as_deref(), Some("first words"));
    assert_eq!(made.item().get(&Field::TokensIn), Some(&Value::Int(3)));
    assert_eq!(made.confidence, Confidence::Low);
    assert!(found.complete);
    let missing = Source::find(&process, Path::new("/host")).unwrap().global_state("/else/none.json");
    let e = missing.read(&process, &mut |_| ControlFlow::Continue(())).unwrap_err();
    assert!(matches!(e.kind(), ErrorKind::NotFound { .. }), "{e}");
}

#[test]
fn damage_of_every_kind_is_a_finding_and_stops_nothing() {
    let utf16: Vec<u8> = item("x").encode_utf16().flat_map(u16::to_le_bytes).collect();
    let good = item("x").replace('\'', "\"");
    let cases: Vec<(&str, Vec<u8>, What)> = vec![
        ("empty", Vec::new(), What::Empty),
        ("spaces", vec![b' '; 3 << 20], What::Blank),
        ("few-spaces", vec![b'\n'; 9], What::Blank),
        ("html", b"<!DOCTYPE html><html>".to_vec(), What::Html),
        ("utf16", utf16.clone(), What::Utf16),
        ("utf16-bom", [&[0xff, 0xfe], &utf16[..]].concat(), What::Utf16),
        ("array", b"[]".to_vec(), What::WrongType),
        ("number", b"7".to_vec(), What::WrongType),
        ("null", b"null".to_vec(), What::WrongType),
        ("other", br#"{"error":"no such page"}"#.to_vec(), What::WrongType),
        ("cut", good.as_bytes()[..40].to_vec(), What::NotJson),
        ("zeros", vec![0; 300], What::NotJson),
        ("nan", good.replace("0.5", "NaN").into_bytes(), What::NotJson),
    ];
    let machine = machine(&[
        ("/host/tasks/good/history_item.json", &item("good")),
        ("/host/tasks/bom/history_item.json", &format!("\u{feff}{}", item("bom"))),
    ]);
    for (name, bytes, _) in &cases {
        plant(&machine, &format!("/host/tasks/{name}/history_item.json"), bytes);
        plant(&machine, &format!("/host/tasks/{name}-told/history_item.json"), bytes);
        plant(
            &machine,
            &format!("/host/tasks/{name}-told/ui_messages.json"),
            UI.replace('\'', "\"").as_bytes(),
        );
    }
    let found = found(&machine);
    for (name, _, what) in &cases {
        assert_eq!(whats(&found, &format!("{name}/history_item.json")), [*what], "{name}");
        assert!(!ids(&found).contains(name), "{name}");
        let told = task(&found, &format!("{name}-told"));
        assert_eq!(told.item().text(&Field::Task).as_deref(), Some("first words"), "{name}");
    }
    assert_eq!(task(&found, "cut-told").kept[0].record.as_str().unwrap(), good[..40]);
    for id in ["good", "bom"] {
        assert_eq!(task(&found, id).item().to_json().replace('"', "'"), item(id));
    }
    assert_eq!(found.tasks.len(), 2 + cases.len());
    assert!(found.complete);
}

#[test]
fn lists_give_every_whole_element_however_they_are_damaged() {
    let all: Vec<String> = (0..4).map(|i| item(&format!("t{i}"))).collect();
    let all = all.join(",");
    let entries = format!("{{'version':1,'updatedAt':2,'entries':[{all}");
    for text in [
        entries.clone(),
        format!("{entries},{{'id':'t9','task':'cut"),
        format!("[{all}"),
        format!("[{all},]"),
        format!("[{all}]]"),
        format!("[{all}][{}]", item("t0")),
        format!("{entries}]}}}}"),
        format!("{entries}]}} "),
    ] {
        let machine = machine(&[("/host/tasks/_index.json", &text)]);
        assert_eq!(ids(&found(&machine)), ["t0", "t1", "t2", "t3"], "{text}");
    }
    let machine = machine(&[("/host/tasks/_index.json", &format!("[{all},7,{{}},null]"))]);
    let found = found(&machine);
    assert_eq!((found.tasks.len(), whats(&found, "_index.json")), (4, vec![What::NoRecord]));
}

#[test]
fn strange_text_in_records_is_kept_as_it_is() {
    let deep = format!("{{'a':{}1{}}}", "[".repeat(200_000), "]".repeat(200_000));
    let odd = item("odd").replace("}", ",'big':1161888007138312193,'half':'\\ud83d','f':1.0,'e':1e400}");
    let twice = item("twice").replace("}", ",'x':{'k':1,'k':2}}");
    let future = item("future").replace(&NOW.to_string(), "327403382400000");
    let found = found(&machine(&[
        ("/host/tasks/odd/history_item.json", &odd),
        ("/host/tasks/deep/history_item.json", &item("deep").replace("}", &format!(",'d':{deep}}}"))),
        ("/host/tasks/twice/history_item.json", &twice),
        ("/host/tasks/future/history_item.json", &future),
        ("/host/tasks/_index.json", &format!("[{deep},{}]", item("index"))),
    ]));
    assert_eq!(ids(&found), ["deep", "future", "index", "odd", "twice"]);
    assert_eq!(task(&found, "odd").item().to_json().replace('"', "'"), odd);
    assert_eq!(task(&found, "future").item().to_json().replace('"', "'"), future);
    assert_eq!(task(&found, "deep").item().get(&Field::of("d")).unwrap().to_json().replace('"', "'"), deep);
    assert_eq!(task(&found, "twice").item().to_json().replace('"', "'"), item("twice"));
    assert_eq!(whats(&found, "twice/history_item.json"), [What::FieldLeftOut]);
    assert_eq!((task(&found, "twice").confidence, task(&found, "twice").kept.len()), (Confidence::Low, 1));
}

#[test]
fn large_records_are_read_up_to_64_mib() {
    let machine = machine(&[("/host/tasks/a/history_item.json", &item("a"))]);
    let shell = with_title("b", "").replace('\'', "\"").len();
    let of = |id: &str, len: usize| with_title(id, &"x".repeat(len)).replace('\'', "\"");
    let (half, most) = (of("h", 30 << 20), of("b", (64 << 20) - shell));
    plant(&machine, "/host/tasks/h/history_item.json", half.as_bytes());
    plant(&machine, "/host/tasks/b/history_item.json", most.as_bytes());
    let process = machine.process("r");
    let all = read(&process, "/host").unwrap();
    assert_eq!((ids(&all), all.complete), (vec!["a", "b", "h"], true));
    assert_eq!(task(&all, "h").item().to_json(), half);
    assert!(task(&all, "b").item().to_json() == most);
    plant(&machine, "/host/tasks/b/history_item.json", of("b", 66 << 20).as_bytes());
    let less = read(&process, "/host").unwrap();
    assert_eq!((ids(&less), less.complete), (vec!["a", "h"], false));
    assert_eq!(whats(&less, "b/history_item.json"), [What::TooLarge]);
}

#[test]
fn unsafe_names_are_set_aside_and_debris_is_recognised() {
    let machine = machine(&[
        ("/host/tasks/a/history_item.json", &item("b")),
        ("/host/tasks/a/history_item.json.lock/x", ""),
        ("/host/tasks/a/task_metadata.json", "{}"),
        ("/host/tasks/_index.json", &format!("[{},{},{}]", item("../../x"), item("CON"), item("z"))),
        ("/host/tasks/nul/history_item.json", &item("nul")),
        ("/host/tasks/\u{fffd}/history_item.json", &item("x")),
        ("/host/tasks/_staging_a_1234/history_item.json", &item("s")),
        ("/host/tasks/_delegation_repair_intent.json", "{}"),
        ("/host/tasks/empty/.gitkeep", ""),
        ("/host/tasks/checks/checkpoints/.git/HEAD", "x"),
        ("/host/tasks/meta/task_metadata.json", "{}"),
        ("/host/tasks/wiped/ui_messages.json", "[]"),
        ("/host/tasks/_index.json.lock/x", ""),
        ("/real/moved/history_item.json", &item("moved")),
        ("/host/tasks/1784332598169/history_item.json", &item("1784332598169")),
        ("/host/tasks/n/history_item.json", &item("n").replace("'n'", "5")),
    ]);
    machine.with_disk(|disk| disk.plant_symlink("/host/tasks/moved", "/real/moved")).unwrap();
    machine.with_disk(|disk| disk.plant_other("/host/tasks/pipe/history_item.json")).unwrap();
    machine.with_disk(|disk| disk.plant_symlink("/host/tasks/_index.1.bak.json", "/real/x")).unwrap();
    machine.with_disk(|disk| disk.plant_symlink("/host/tasks/unmounted", "/real/none")).unwrap();
    machine
        .with_disk(|disk| disk.plant_symlink("/host/tasks/notes", "/real/moved/history_item.json"))
        .unwrap();
    plant(&machine, "/host/state", b"a file");
    let found = found(&machine);
    assert_eq!(ids(&found), ["1784332598169", "a", "moved", "n", "z"]);
    let aside: Vec<_> = found.set_aside.iter().map(|s| (&*s.id, &*s.source)).collect();
    assert_eq!(
        aside,
        [("../../x", "_index.json"), ("CON", "_index.json"), ("nul", "nul/"), ("\u{fffd}", "\u{fffd}/")]
    );
    let debris: Vec<_> = found.debris.iter().map(|d| (&*d.name, d.kind)).collect();
    assert_eq!(
        debris,
        [
            ("_index.json.lock", DebrisKind::Lock),
            ("_staging_a_1234", DebrisKind::Staging),
            ("checks", DebrisKind::Checkpoints),
            ("empty", DebrisKind::Empty),
            ("meta", DebrisKind::NoRecord),
            ("wiped", DebrisKind::NoRecord),
        ]
    );
    // The folder's name is the id; what stood there is evidence.
    let a = task(&found, "a");
    assert_eq!(a.item().to_json().replace('"', "'"), item("b").replace("'id':'b'", "'id':'a'"));
    assert_eq!(a.kept[0].record.to_json().replace('"', "'"), item("b"));
    assert_eq!(whats(&found, "a/history_item.json"), [What::IdDiffers]);
    assert_eq!(whats(&found, "pipe/history_item.json"), [What::Unreadable]);
    assert_eq!(whats(&found, "_index.1.bak.json"), [What::Unreadable]);
    assert_eq!(whats(&found, "../state/taskHistory.json"), []);
    assert_eq!(whats(&found, "unmounted/"), [What::Unreadable]);
    assert!(!found.complete);
}

#[test]
fn chosen_record_and_evidence_are_in_the_report() {
    let child = ",'childIds':['c','gone']}";
    let machine = machine(&[
        ("/host/tasks/a/history_item.json", &with_title("a", "Task #1 (Incomplete)").replace("7", "0")),
        ("/host/tasks/_index.json", &format!("[{}]", item("a").replace("}", child))),
        ("/host/tasks/c/history_item.json", &item("c")),
        ("/host/tasks/d/history_item.json", &item("d").replace("}", ",'size':0}")),
        ("/host/tasks/d/._index.extract.json", &item("d").replace("}", ",'size':9,'status':null}")),
    ]);
    let found = found(&machine);
    let a = task(&found, "a");
    assert_eq!(a.item().to_json().replace('"', "'"), item("a").replace("}", child));
    assert_eq!((a.decision.why, a.kept.len(), &*a.kept[0].source), (Why::Title, 1, "a/history_item.json"));
    let report = serde_json::to_value(found.report()).unwrap();
    assert_eq!(report["totals"]["tasks"], 3);
    assert_eq!(report["totals"]["decided"], 2);
    assert_eq!(report["totals"]["dangling_children"], 1);
    assert_eq!(report["tasks"][0]["base"], "_index.json");
    assert_eq!(report["tasks"][0]["kept"][0], "a/history_item.json");
    let fields = &report["tasks"][2]["fields"];
    assert_eq!(fields.to_string(), r#"[{"field":"size","from":"d/._index.extract.json","why":"filled"}]"#);
    let again = serde_json::to_value(read(&machine.process("r"), "/host").unwrap().report()).unwrap();
    assert_eq!(again, report);
}

#[test]
fn failing_reads_are_never_an_empty_answer() {
    let files = [
        ("/host/tasks/a/history_item.json", item("a")),
        ("/host/tasks/b/history_item.json", item("b")),
        ("/host/tasks/b/ui_messages.json", UI.into()),
        ("/host/tasks/m/ui_messages.json", UI.into()),
        ("/host/tasks/_index.json", format!("[{}]", item("i"))),
    ];
    let files: Vec<_> = files.iter().map(|(path, text)| (*path, &**text)).collect();
    let effects = [
        Effect::Eio,
        Effect::Fail(io::ErrorKind::PermissionDenied),
        Effect::Fail(io::ErrorKind::ResourceBusy),
    ];
    for effect in effects {
        for always in [true, false] {
            let faulty = |op: Op, path: &str| {
                let machine = machine(&files);
                let fault = Fault::on(op, effect).path(path);
                machine.fault(if always { fault.always() } else { fault });
                read(&machine.process("r"), "/host")
            };
            let e = faulty(Op::List, "/host/tasks").unwrap_err();
            assert!(matches!(e.kind(), ErrorKind::Io | ErrorKind::Permission), "{e}");
            for (op, path, source, lost) in [
                (Op::List, "/tasks/a", "a/", "a"),
                (Op::Open, "/a/history_item.json", "a/history_item.json", "a"),
                (Op::Read, "/a/history_item.json", "a/history_item.json", "a"),
                (Op::Open, "/b/history_item.json", "b/history_item.json", "b"),
                (Op::Read, "_index.json", "_index.json", "i"),
                (Op::Open, "/m/ui_messages.json", "m/ui_messages.json", "m"),
            ] {
                let found = faulty(op, path).unwrap();
                let seen = whats(&found, source).contains(&What::Unreadable);
                let rest: Vec<_> = ["a", "b", "i", "m"].into_iter().filter(|id| *id != lost).collect();
                // Having looked twice, it may have read the second time what it could not the first.
                let whole = found.complete && !always && found.tasks.len() == 4;
                assert!(
                    whole || (seen && !found.complete && ids(&found) == rest),
                    "{op:?} {path}: {found:?}"
                );
            }
        }
    }
}

#[test]
fn reading_can_be_cancelled_at_any_step() {
    let machine = SimMachine::new(Profile::Linux, 1);
    for i in 0..20 {
        let text = item(&format!("t{i:02}")).replace('\'', "\"");
        plant(&machine, &format!("/host/tasks/t{i:02}/history_item.json"), text.as_bytes());
    }
    let process = machine.process("r");
    let source = Source::find(&process, Path::new("/host")).unwrap();
    let mut steps = Vec::new();
    let _ = source.read(&process, &mut |p| {
        steps.push(p);
        ControlFlow::Continue(())
    });
    let last = |phase| steps.iter().rfind(|p| p.phase == phase).copied().unwrap();
    assert_eq!(last(Phase::Reading), Progress { phase: Phase::Reading, done: 20, total: 20 });
    assert_eq!(last(Phase::Deciding), Progress { phase: Phase::Deciding, done: 20, total: 20 });
    for n in 0..steps.len() {
        let mut left = n;
        let result = source.read(&process, &mut |_| {
            left = left.wrapping_sub(1);
            if left == usize::MAX { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        assert!(matches!(result.unwrap_err().kind(), ErrorKind::Refused(_)));
    }
}

#[test]
fn nothing_readable_at_all_is_no_empty_history() {
    for text in ["", "  ", "<html>", "{'version':1,'entr"] {
        let e = read(&machine(&[("/host/tasks/_index.json", text)]).process("r"), "/host").unwrap_err();
        assert!(matches!(e.kind(), ErrorKind::Unstable { .. }), "{e}");
        assert!(e.to_string().contains("unstable source, retry"), "{e}");
    }
    for text in ["[]", "{'version':1,'entries':[]}"] {
        assert_eq!(found(&machine(&[("/host/tasks/_index.json", text)])).tasks.len(), 0);
    }
}

/// Changes the disk before the calls that `before` is told the numbers of.
struct Meanwhile<F> {
    process: SimProcess,
    calls: AtomicU64,
    before: F,
}

impl<F: Fn(u64, &Path)> Meanwhile<F> {
    fn new(machine: &SimMachine, before: F) -> Self {
        Meanwhile { process: machine.process("reader"), calls: AtomicU64::new(0), before }
    }

    fn step(&self, path: &Path) {
        (self.before)(self.calls.fetch_add(1, Ordering::Relaxed), path);
    }
}

impl<F> std::fmt::Debug for Meanwhile<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Meanwhile")
    }
}

impl<F: Fn(u64, &Path) + Send + Sync> Vfs for Meanwhile<F> {
    fn open(&self, path: &Path, how: Open) -> io::Result<Box<dyn VfsFile>> {
        self.step(path);
        assert_eq!(how, Open::Read, "{}", path.display());
        self.process.open(path, how)
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<Entry>> {
        self.step(dir);
        self.process.list(dir)
    }
    fn stat(&self, path: &Path) -> io::Result<Stat> {
        self.step(path);
        self.process.stat(path)
    }
    fn canonicalize(&self, path: &Path) -> io::Result<PathBuf> {
        self.process.canonicalize(path)
    }
    fn sleep(&self, time: Duration) {
        self.process.sleep(time);
    }
    fn create_dir(&self, _: &Path) -> io::Result<()> {
        panic!("a source is only read")
    }
    fn keep_access(&self, _: &Path, _: &Path) -> io::Result<()> {
        panic!("a source is only read")
    }
    fn remove_dir(&self, _: &Path) -> io::Result<()> {
        panic!("a source is only read")
    }
    fn rename(&self, _: &Path, _: &Path, _: Existing) -> io::Result<()> {
        panic!("a source is only read")
    }
    fn link(&self, _: &Path, _: &Path) -> io::Result<()> {
        panic!("a source is only read")
    }
    fn unlink(&self, _: &Path) -> io::Result<()> {
        panic!("a source is only read")
    }
    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        panic!("a source is only read")
    }
    fn file_system(&self, path: &Path) -> io::Result<FileSystem> {
        self.process.file_system(path)
    }
    fn now(&self) -> u64 {
        self.process.now()
    }
    fn monotonic(&self) -> Duration {
        self.process.monotonic()
    }
    fn tells_all_of_failed_sync(&self) -> bool {
        self.process.tells_all_of_failed_sync()
    }

    fn boot_id(&self) -> Option<u128> {
        self.process.boot_id()
    }
    fn random(&self, buf: &mut [u8]) -> io::Result<()> {
        self.process.random(buf)
    }
    fn process(&self) -> Process {
        self.process.process()
    }
}

/// Six tasks with folders, of which two stand in a list only, and what can be done to them.
fn busy() -> (SimMachine, Vec<String>) {
    let machine = SimMachine::new(Profile::Linux, 1);
    let all: Vec<String> = (0..6).map(|i| format!("t{i}")).collect();
    for id in &all[..4] {
        let text = item(id).replace('\'', "\"");
        plant(&machine, &format!("/host/tasks/{id}/history_item.json"), text.as_bytes());
    }
    plant(&machine, "/host/tasks/t0/ui_messages.json", UI.replace('\'', "\"").as_bytes());
    plant(&machine, "/host/tasks/_index.json", index(&all).as_bytes());
    (machine, all)
}

fn index(ids: &[String]) -> String {
    let all: Vec<String> = ids.iter().map(|id| item(id).replace('\'', "\"")).collect();
    format!("{{\"version\":1,\"updatedAt\":2,\"entries\":[{}]}}", all.join(","))
}

fn whole_or_unstable(result: Result<Found, Error>, all: &[String], what: &str) -> bool {
    match result {
        Ok(found) => {
            assert_eq!(ids(&found), all, "{what}: {found:?}");
            for task in &found.tasks {
                assert_eq!(task.item().to_json().replace('"', "'"), item(task.id.as_str()), "{what}");
            }
            true
        }
        Err(e) => {
            assert!(matches!(e.kind(), ErrorKind::Unstable { .. }), "{what}: {e}");
            false
        }
    }
}

#[test]
fn file_emptied_and_filled_again_and_again_is_never_taken_for_less() {
    for path in ["/host/tasks/_index.json", "/host/tasks/t2/history_item.json"] {
        let mut outcomes = [0, 0];
        for period in 1..=12 {
            for phase in 0..period {
                for cut in [0, 1, 150] {
                    let (machine, all) = busy();
                    // Without the list, the record stands in its folder only.
                    let all = if path.ends_with("_index.json") {
                        all
                    } else {
                        machine.process("w").unlink(Path::new("/host/tasks/_index.json")).unwrap();
                        all[..4].to_vec()
                    };
                    let whole = machine.disk().read(path).unwrap();
                    let disk = machine.clone();
                    let vfs = Meanwhile::new(&machine, move |n, at| {
                        if at == Path::new(path) {
                            let now = if (n + phase) / period % 2 == 0 {
                                &whole[..cut.min(whole.len() - 9)]
                            } else {
                                &whole[..]
                            };
                            disk.with_disk(|d| d.mutate(path, |bytes| *bytes = now.to_vec())).unwrap();
                        }
                    });
                    let what = format!("{path} every {period} + {phase}, cut to {cut}");
                    let whole = whole_or_unstable(read(&vfs, "/host"), &all, &what);
                    outcomes[usize::from(whole)] += 1;
                }
            }
        }
        assert!(outcomes.iter().all(|n| *n > 0), "{path}: {outcomes:?}");
    }
}

#[test]
fn file_replaced_at_any_call_is_never_taken_for_less() {
    let calls = {
        let (machine, _) = busy();
        let vfs = Meanwhile::new(&machine, |_, _| ());
        read(&vfs, "/host").unwrap();
        vfs.calls.into_inner()
    };
    let (bak, new) = (".history_item.json.bak_1_2.tmp", ".history_item.json.new_1_2.tmp");
    for at in 0..calls {
        for len in 1..12 {
            for keep in [Some(bak), Some(new), None] {
                let (machine, all) = busy();
                // Only its folder has the record, and messages that would make a poorer one.
                plant(&machine, "/host/tasks/_index.json", index(&all[1..]).as_bytes());
                let dir = Path::new("/host/tasks/t0");
                let file = dir.join("history_item.json");
                let writer = machine.process("writer");
                let vfs = Meanwhile::new(&machine, |n, _| {
                    // Out of the way, and back; or gone, and made anew.
                    if n == at {
                        match keep {
                            Some(name) => writer.rename(&file, &dir.join(name), Existing::Replace).unwrap(),
                            None => writer.unlink(&file).unwrap(),
                        }
                    } else if n == at + len {
                        match keep {
                            Some(name) => writer.rename(&dir.join(name), &file, Existing::Replace).unwrap(),
                            None => {
                                let text = item("t0").replace('\'', "\"");
                                machine.with_disk(|d| d.plant(&file, text.as_bytes())).unwrap();
                            }
                        }
                    }
                });
                whole_or_unstable(read(&vfs, "/host"), &all, &format!("call {at}, {len} calls, {keep:?}"));
            }
        }
    }
}

#[test]
fn file_that_was_there_in_an_earlier_look_is_waited_for() {
    let with_x = |machine: &SimMachine, x: &str| {
        plant(machine, "/host/tasks/_index.json", b"[]");
        plant(machine, "/host/tasks/x/history_item.json", x.replace('\'', "\"").as_bytes());
    };
    let calls_of = |x: &str, looks: u32| {
        let (machine, _) = busy();
        with_x(&machine, x);
        let vfs = Meanwhile::new(&machine, |_, _| ());
        assert_eq!(read(&vfs, "/host").unwrap().looks, looks);
        vfs.calls.into_inner()
    };
    let (one_look, all_calls) = (calls_of(&item("x"), 1), calls_of("damaged", 2));
    assert!(2 * one_look < all_calls);
    let mut unstable = 0;
    for at in one_look..all_calls {
        for len in 1..12 {
            let (machine, all) = busy();
            with_x(&machine, "damaged");
            let file = "/host/tasks/t1/history_item.json";
            let writer = machine.process("writer");
            let vfs = Meanwhile::new(&machine, |n, _| {
                if n == at {
                    writer.unlink(Path::new(file)).unwrap();
                } else if n == at + len {
                    plant(&machine, file, item("t1").replace('\'', "\"").as_bytes());
                }
            });
            match read(&vfs, "/host") {
                Ok(found) => assert_eq!(ids(&found), &all[..4], "call {at}, {len} calls"),
                Err(e) => {
                    assert!(matches!(e.kind(), ErrorKind::Unstable { .. }), "{e}");
                    unstable += 1;
                }
            }
        }
    }
    assert_eq!(unstable, 0, "it was away for a moment only");
}

#[test]
fn copies_in_the_making_do_not_hold_up_what_is_whole() {
    let machine = machine(&[
        ("/host/tasks/a/history_item.json", &item("a")),
        ("/host/tasks/a/.history_item.json.new_1_2.tmp", "{'id':'a','ta"),
        ("/host/tasks/_index.json", "[]"),
        ("/host/tasks/._index.json.bak_1_2.tmp", ""),
    ]);
    let all = found(&machine);
    assert_eq!((all.looks, ids(&all), all.tasks[0].confidence), (1, vec!["a"], Confidence::High));
    assert_eq!(whats(&all, "a/.history_item.json.new_1_2.tmp"), [What::NotJson]);
    let writer = machine.process("writer");
    let vfs = Meanwhile::new(&machine, |_, at| {
        if at.ends_with(".history_item.json.new_1_2.tmp") {
            writer.unlink(at).unwrap();
        }
    });
    assert_eq!(read(&vfs, "/host").unwrap().looks, 1);
}

#[test]
fn file_that_is_missing_beside_its_lock_is_waited_for() {
    let locked = || {
        let (machine, all) = busy();
        machine.process("w").unlink(Path::new("/host/tasks/t1/history_item.json")).unwrap();
        plant(&machine, "/host/tasks/_index.json", b"[]");
        plant(&machine, "/host/tasks/t1/history_item.json.lock/x", b"");
        (machine, all)
    };
    let (machine, _) = locked();
    let vfs = Meanwhile::new(&machine, |_, _| ());
    assert_eq!(ids(&read(&vfs, "/host").unwrap()), ["t0", "t2", "t3"]);
    for at in 0..vfs.calls.into_inner() {
        let (machine, all) = locked();
        let vfs = Meanwhile::new(&machine, |n, _| {
            if n == at {
                let text = item("t1").replace('\'', "\"");
                plant(&machine, "/host/tasks/t1/history_item.json", text.as_bytes());
            }
        });
        whole_or_unstable(read(&vfs, "/host"), &all[..4], &format!("made at call {at}"));
    }
}

#[test]
fn task_deleted_meanwhile_is_gone_and_no_other() {
    let (machine, all) = busy();
    let writer = machine.process("writer");
    let vfs = Meanwhile::new(&machine, |n, _| {
        if n == 6 {
            writer.unlink(Path::new("/host/tasks/t3/history_item.json")).unwrap();
            writer.remove_dir(Path::new("/host/tasks/t3")).unwrap();
            let rest: Vec<String> = all.iter().filter(|id| *id != "t3").cloned().collect();
            machine.with_disk(|d| d.plant("/host/tasks/_index.json", index(&rest).as_bytes())).unwrap();
        }
    });
    let found = read(&vfs, "/host").unwrap();
    assert!(ids(&found) == ["t0", "t1", "t2", "t4", "t5"] || ids(&found) == all, "{:?}", ids(&found));
}

#[test]
fn chosen_items_parse() {
    let (machine, _) = busy();
    for task in found(&machine).tasks {
        assert_eq!(&Item::parse(&task.item().to_json()).unwrap(), task.item());
        assert_eq!(task.hash(), *blake3::hash(task.item().to_json().as_bytes()).as_bytes());
    }
}
