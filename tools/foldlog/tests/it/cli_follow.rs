//! `dump --follow` and `tasks --watch`: what comes while somebody looks, printed as it comes.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdout, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use foldlog::{Durability, Field, Item, Options, Patch, Place, TaskId, TaskStore};

use crate::support::{Fixture, Run, command, fill, options, tree};

/// Far above what anything takes.
const BOUND: Duration = Duration::from_secs(60);

/// The command while it runs, and its lines.
struct Following {
    child: Child,
    lines: Receiver<String>,
}

impl Following {
    fn start(fixture: &Fixture, words: &[&str]) -> Following {
        let mut command = command();
        command.arg("--store").arg(fixture.root()).args(words);
        let mut child = crate::support::spawn(command.stdout(Stdio::piped()).stderr(Stdio::piped()));
        let out: BufReader<ChildStdout> = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || out.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Following { child, lines }
    }

    #[track_caller]
    fn line(&self) -> String {
        self.lines.recv_timeout(BOUND).expect("a line")
    }

    #[track_caller]
    fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.line()).unwrap()
    }

    /// Nothing more was printed by now.
    fn is_quiet(&self) -> bool {
        self.lines.try_recv().is_err()
    }

    #[cfg(unix)]
    fn interrupted(self) -> Run {
        let pid = self.child.id().to_string();
        assert!(std::process::Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
        Run::of(&self.child.wait_with_output().unwrap())
    }

    #[cfg(not(unix))]
    fn interrupted(mut self) -> Run {
        self.child.kill().unwrap();
        Run { code: Some(130), ..Run::of(&self.child.wait_with_output().unwrap()) }
    }
}

#[test]
fn dump_follows_behind_what_was_there() {
    let fixture = Fixture::small();
    let workspace = fixture.workspace("one", options().segment_size(4096));
    let plain = fixture.run(&["dump", "--json"]).ends(0);
    let following = Following::start(&fixture, &["dump", "--follow", "--json"]);
    let before: Vec<String> = plain.out.lines().map(|_| following.line()).collect();
    assert_eq!(before, plain.out.lines().collect::<Vec<_>>());
    assert!(following.is_quiet());
    // Over rotations, in the very lines that a dump prints afterwards.
    fill(&workspace, 60);
    let after: Vec<String> = (0..60).map(|_| following.line()).collect();
    let all = fixture.run(&["dump", "--json"]).ends(0).out;
    assert_eq!([before, after].concat(), all.lines().collect::<Vec<_>>());
    let run = following.interrupted().ends(130);
    if cfg!(unix) {
        assert!(run.err.contains(r#""error":"interrupted""#), "{}", run.err);
    }
}

#[test]
fn dump_follows_what_was_asked_for_and_writes_nothing() {
    let fixture = Fixture::small();
    let workspace = fixture.workspace("one", options());
    let from = Following::start(&fixture, &["dump", "--follow", "--from", "9", "--task", "t1"]);
    let folder = fixture.folder("one");
    fill(&workspace, 3);
    assert!(from.line().contains("task t1"), "the other two are not wanted");
    let _ = workspace.flush();
    let before = tree(fixture.dir.path());
    let of_folder = Following::start(&fixture, &["dump", folder.to_str().unwrap(), "--follow", "--json"]);
    for seq in 1..=11 {
        assert_eq!(of_folder.json()["seq"], seq);
    }
    assert!(from.is_quiet());
    assert_eq!(tree(fixture.dir.path()), before, "following changed what it looked at");
    from.interrupted().ends(130);
    of_folder.interrupted().ends(130);
}

#[test]
fn dump_follows_no_file_and_no_frames() {
    let fixture = Fixture::small();
    let file = fixture.segments("one").remove(0);
    fixture.run(&["dump", file.to_str().unwrap(), "--follow", "--json"]).fails(2, "usage");
    fixture.run(&["dump", "--follow", "--raw"]).ends(2);
}

/// Behind damage nothing comes: it says so and ends, instead of waiting for ever.
#[test]
fn dump_of_a_damaged_log_ends_with_the_damage() {
    let fixture = Fixture::small();
    fixture.damage("body 4");
    let run = fixture.run(&["dump", "--follow", "--json"]).ends(4);
    assert!(run.err.contains(r#""severity":"damage""#), "{}", run.err);
}

/// A reader that goes away ends it with 0, at the next line.
#[test]
fn closed_stdout_ends_it() {
    let fixture = Fixture::small();
    let workspace = fixture.workspace("one", options());
    let mut command = command();
    command.arg("--store").arg(fixture.root()).args(["dump", "--follow"]);
    let mut child = crate::support::spawn(command.stdout(Stdio::piped()));
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    assert!(out.read_line(&mut line).unwrap() > 0);
    drop(out);
    let status = loop {
        fill(&workspace, 1);
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
    };
    assert_eq!(status.code(), Some(0));
}

#[test]
fn tasks_are_watched_a_line_for_each_that_changed() {
    let fixture = Fixture::empty();
    let store = TaskStore::open(fixture.root(), Options::default()).unwrap();
    let tasks = store.home(&Place::Key("one".into())).unwrap();
    let id = |text: &str| TaskId::new(text).unwrap();
    for name in ["a", "b"] {
        let item = Item::new(&id(name)).with(Field::Task, name);
        let _ = tasks.create(item, Durability::Buffered).unwrap();
    }
    let watching = Following::start(&fixture, &["tasks", "--watch", "--json", "--status", "active"]);
    let first = [watching.json(), watching.json()];
    assert!(first.iter().all(|line| line["item"]["id"].is_string()), "{first:?}");
    assert_eq!(watching.json()["total"], 2);
    let _ = tasks.patch(&id("b"), Patch::new().set(Field::TokensIn, 7_u64), Durability::Buffered).unwrap();
    let changed = watching.json();
    assert_eq!((&changed["item"]["id"], &changed["item"]["tokensIn"]), (&"b".into(), &7.into()));
    let _ = tasks.set_status(&id("a"), foldlog::TaskStatus::Completed, Durability::Buffered).unwrap();
    let gone = watching.json();
    assert_eq!((&gone["id"], &gone["gone"]), (&"a".into(), &true.into()), "{gone}");
    assert_eq!(gone["workspace"], tasks.workspace().name());
    // What never was in the list is no news.
    let _ = tasks.patch(&id("a"), Patch::new().set(Field::TokensIn, 1_u64), Durability::Buffered).unwrap();
    let _ = tasks.rename(&id("b"), "renamed", Durability::Buffered).unwrap();
    assert_eq!(watching.json()["item"]["task"], "renamed");
    watching.interrupted().ends(130);

    let people = Following::start(&fixture, &["tasks", "--watch"]);
    assert!(people.line().starts_with("TITLE"));
    let rows = [people.line(), people.line()];
    assert!(rows.iter().any(|row| row.starts_with("renamed")), "{rows:?}");
    let _ = tasks.rename(&id("b"), "again", Durability::Buffered).unwrap();
    assert!(people.line().starts_with("again"));
    people.interrupted().ends(130);
}
