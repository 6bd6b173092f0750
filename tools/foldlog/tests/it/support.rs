//! Stores to look into, the command, and snapshots of a folder.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::SystemTime;

use foldlog::{
    Draft, Durability, Housekeeping, Key, NewEvent, OpId, Options, Place, Result, State, Store, Vocabulary,
    Workspace,
};

/// The event kind that the stores here hold; the command knows nothing of it.
pub(crate) const KIND: u16 = 300;

/// A folder with a store in it.
pub(crate) struct Fixture {
    pub(crate) dir: tempfile::TempDir,
}

/// How a run of the command ended.
pub(crate) struct Run {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Run {
    pub(crate) fn of(output: &Output) -> Run {
        Run {
            code: output.status.code(),
            out: String::from_utf8(output.stdout.clone()).unwrap(),
            err: String::from_utf8(output.stderr.clone()).unwrap(),
        }
    }

    /// Checks the exit code; hands itself on.
    #[track_caller]
    pub(crate) fn ends(self, code: i32) -> Run {
        assert_eq!(self.code, Some(code), "stdout:\n{}stderr:\n{}", self.out, self.err);
        self
    }

    /// Checks that stderr is one JSON error of this code with a message and a remedy.
    #[track_caller]
    pub(crate) fn fails(self, code: i32, error: &str) -> Run {
        let run = self.ends(code);
        let line: serde_json::Value = serde_json::from_str(run.err.trim_end()).expect(&run.err);
        assert_eq!(line["error"], error, "{}", run.err);
        assert!(
            !line["message"].as_str().unwrap().is_empty() && !line["remedy"].as_str().unwrap().is_empty()
        );
        run
    }

    /// stdout as JSON Lines.
    #[track_caller]
    pub(crate) fn json(&self) -> Vec<serde_json::Value> {
        self.out.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
    }
}

/// The command, without what the user's own environment says to it.
pub(crate) fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_foldlog"));
    command.env_remove("FOLDLOG_STORE").env_remove("NO_COLOR").env_remove("COLUMNS").stdin(Stdio::null());
    command
}

/// Runs the command.
pub(crate) fn foldlog<S: AsRef<std::ffi::OsStr>>(words: impl IntoIterator<Item = S>) -> Run {
    start(command().args(words))
}

/// Runs a command to its end.
pub(crate) fn start(command: &mut Command) -> Run {
    Run::of(&started(command, Command::output))
}

/// Starts a command whose pipes the test holds.
pub(crate) fn spawn(command: &mut Command) -> Child {
    started(command, Command::spawn)
}

/// Wine, under load, has refused to start a process with an internal error (1359), which says that none of the process has
/// run: that is tried again a few times; no other failure is, and none on another system.
fn started<T>(command: &mut Command, start: impl Fn(&mut Command) -> std::io::Result<T>) -> T {
    const INTERNAL_ERROR: i32 = 1359;
    let mut tries = 0;
    loop {
        match start(command) {
            Ok(done) => return done,
            Err(e) if cfg!(windows) && e.raw_os_error() == Some(INTERNAL_ERROR) && tries < 5 => tries += 1,
            Err(e) => panic!("{command:?} does not start: {e}"),
        }
    }
}

pub(crate) fn options() -> Options {
    Options::default().vocabulary(Vocabulary::new([(KIND, 1)])).housekeeping(Housekeeping::Off)
}

pub(crate) fn push(
    task: String,
    body: Vec<u8>,
) -> impl FnOnce(&State, &mut Draft) -> Result<()> + Send + 'static {
    move |_, draft| {
        draft.push(NewEvent::state(KIND, 1, Key::task(&task), body));
        Ok(())
    }
}

/// Commits `count` events, one a commit, about three tasks.
pub(crate) fn fill(workspace: &Workspace, count: u64) {
    for n in 0..count {
        let durability = if n % 4 == 0 { Durability::Durable } else { Durability::Buffered };
        let _ = workspace
            .commit(durability, push(format!("t{}", n % 3), format!("body {n}").into_bytes()))
            .unwrap();
    }
}

impl Fixture {
    /// A folder that has no store yet.
    pub(crate) fn empty() -> Fixture {
        Fixture { dir: tempfile::tempdir().unwrap() }
    }

    /// A store with one workspace, `key:one`, of six events in six commits and one of two with an op id.
    pub(crate) fn small() -> Fixture {
        let fixture = Fixture::empty();
        let workspace = fixture.workspace("one", options());
        fill(&workspace, 6);
        let receipt = workspace.commit(Durability::Durable, |state, draft| {
            draft.operation(OpId([0xAB; 16]), b"request", state.last());
            draft.push(NewEvent::state(KIND, 1, Key::document("d\"1"), [0, 255]));
            draft.push(NewEvent::record(KIND, 1, Key::none(), *b"plain"));
            Ok(())
        });
        assert_eq!(receipt.unwrap().count, 2);
        workspace.close().unwrap();
        fixture
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.dir.path().join("store")
    }

    pub(crate) fn workspace(&self, key: &str, options: Options) -> Workspace {
        Store::open(self.root(), options).unwrap().workspace(&Place::Key(key.into())).unwrap()
    }

    /// The folder of the workspace of a key.
    pub(crate) fn folder(&self, key: &str) -> PathBuf {
        let store = Store::open(self.root(), options().read_only(true)).unwrap();
        store.workspace_dir(&store.find_workspace(&Place::Key(key.into())).unwrap().unwrap())
    }

    /// The segments of the workspace of a key, in order.
    pub(crate) fn segments(&self, key: &str) -> Vec<PathBuf> {
        let mut all: Vec<_> = std::fs::read_dir(self.folder(key).join("log"))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        all.sort();
        all
    }

    /// Changes one byte of the body that holds `text`, in the only segment.
    pub(crate) fn damage(&self, text: &str) -> PathBuf {
        let path = self.segments("one").remove(0);
        let mut bytes = std::fs::read(&path).unwrap();
        let at = bytes
            .windows(text.len())
            .position(|window| window == text.as_bytes())
            .expect("the body is there");
        bytes[at] ^= 1;
        std::fs::write(&path, bytes).unwrap();
        path
    }

    /// Runs the command on the store.
    pub(crate) fn run(&self, words: &[&str]) -> Run {
        start(command().arg("--store").arg(self.root()).args(words))
    }

    /// Runs the command on the store, and checks that it ends well; returns what it printed.
    #[track_caller]
    pub(crate) fn does(&self, words: &[&str]) -> String {
        self.run(words).ends(0).out
    }

    /// A project's folder beside the store.
    pub(crate) fn project(&self, name: &str) -> PathBuf {
        let dir = self.dir.path().join(name);
        std::fs::create_dir_all(&dir).unwrap();
        dir
    }

    /// Runs the command on the store, in a project's folder.
    pub(crate) fn run_in(&self, project: &str, words: &[&str]) -> Run {
        let dir = self.project(project);
        start(command().current_dir(dir).arg("--store").arg(self.root()).args(words))
    }

    /// The names of all workspaces' folders.
    pub(crate) fn names(&self) -> Vec<String> {
        let store = Store::open(self.root(), options().read_only(true)).unwrap();
        store.workspaces().unwrap().into_iter().map(|entry| entry.name).collect()
    }

    /// Runs the command on the store, and checks that no byte, name or time of it changed.
    #[track_caller]
    pub(crate) fn look(&self, words: &[&str]) -> Run {
        let before = tree(self.dir.path());
        let run = self.run(words);
        let after = tree(self.dir.path());
        let names = before.keys().chain(after.keys());
        let changed: Vec<_> = names.filter(|name| before.get(*name) != after.get(*name)).collect();
        assert!(changed.is_empty(), "foldlog {words:?} changed what it looked at: {changed:?}");
        run
    }
}

/// Everything in a folder: names, contents, lengths and times of change.
pub(crate) fn tree(dir: &Path) -> BTreeMap<PathBuf, (SystemTime, Vec<u8>)> {
    let mut found = BTreeMap::new();
    let mut folders = vec![dir.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let stat = std::fs::symlink_metadata(&path).unwrap();
            let bytes = if stat.is_file() { std::fs::read(&path).unwrap() } else { Vec::new() };
            if stat.is_dir() {
                folders.push(path.clone());
            }
            found.insert(path, (stat.modified().unwrap(), bytes));
        }
    }
    found
}
