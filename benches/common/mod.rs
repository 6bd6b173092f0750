//! What the benches share: our commit and the raw system calls that it is measured against, on the same bytes.
//!
//! The raw side does what a program without a log engine would at the least: lock, positioned write at the end of the
//! same file shape (growing, a new file at 8 MiB), unlock or `fdatasync`. It makes the same number of bytes per commit
//! as our frames have, header and pad included, encodes nothing and checks nothing.
#![allow(dead_code, unreachable_pub, reason = "every bench uses its own part of this module")]
#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "the yardstick is the system itself, and a bench that meets an error has nothing to say"
)]

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};

use foldlog::event::Event;
use foldlog::log::format::{FRAME_HEADER_LEN, SEGMENT_HEADER_LEN, SEGMENT_SIZE};
use foldlog::log::frame::frame_len;
use foldlog::{
    Draft, Durability, Field, Item, Key, NewEvent, Options, Patch, Place, Receipt, State, Store, TaskId,
    TaskStore, Tasks, Value, Vocabulary, Workspace,
};

/// The one event kind of the benches.
const TOKENS: u16 = 100;
/// Bytes of a commit's body that are no event: the preamble.
const PREAMBLE_LEN: usize = 17;
/// Bytes of an event's envelope without key and body.
const ENVELOPE_LEN: usize = 19;
/// Tasks that the events are about, as in a busy history.
const TASKS: u64 = 1000;
/// A task's id, 9 bytes like `task-0042`.
const KEY_LEN: usize = 9;
/// Makes a commit of one event a frame of 256 bytes.
pub const BODY_LEN: usize = 256 - FRAME_HEADER_LEN - PREAMBLE_LEN - ENVELOPE_LEN - KEY_LEN;

/// Length on disk of a commit with so many of our events.
pub fn commit_len(events: usize) -> usize {
    frame_len(PREAMBLE_LEN + events * (ENVELOPE_LEN + KEY_LEN + BODY_LEN))
}

/// A folder for a bench's files, below `FOLDLOG_BENCH_DIR` or `target/`, so that it lies on a real disk.
pub fn folder() -> tempfile::TempDir {
    let parent = std::env::var_os("FOLDLOG_BENCH_DIR")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("target"), PathBuf::from);
    std::fs::create_dir_all(&parent).unwrap();
    tempfile::Builder::new().prefix("bench-").tempdir_in(parent).unwrap()
}

/// A workspace of ours.
pub struct Ours {
    pub workspace: Workspace,
    next: u64,
}

impl Ours {
    pub fn new(dir: &Path) -> Self {
        Self::opened(dir, true)
    }

    pub fn without_reserve(dir: &Path) -> Self {
        Self::opened(dir, false)
    }

    fn opened(dir: &Path, reserve: bool) -> Self {
        let kinds = Vocabulary::new([(TOKENS, 1)]);
        let options = Options::default().vocabulary(kinds).label("bench").reserve(reserve);
        let store = Store::open(dir.join("store"), options).unwrap();
        Ours { workspace: store.workspace(&Place::Key("bench".into())).unwrap(), next: 0 }
    }

    /// One commit of `events` events, each about another task.
    pub fn commit(&mut self, events: usize, durability: Durability) -> Receipt {
        let first = self.next;
        self.next += events as u64;
        commit(&self.workspace, first, events, durability)
    }
}

/// One commit of events numbered from `first`; any thread's.
pub fn commit(workspace: &Workspace, first: u64, events: usize, durability: Durability) -> Receipt {
    let fill = move |_: &State, draft: &mut Draft| {
        for n in first..first + events as u64 {
            let key = Key::task(task(n, &mut [0; KEY_LEN]));
            draft.push(NewEvent::state(TOKENS, 1, key, [b'x'; BODY_LEN]));
        }
        Ok(())
    };
    workspace.commit(durability, fill).unwrap()
}

/// `task-0042`, without what formatting would cost.
fn task(n: u64, out: &mut [u8; KEY_LEN]) -> &str {
    *out = *b"task-0000";
    let mut n = n % TASKS;
    for place in out.iter_mut().rev().take(4) {
        *place = b'0' + u8::try_from(n % 10).unwrap();
        n /= 10;
    }
    std::str::from_utf8(out).unwrap()
}

/// A workspace with a busy history's tasks, about as large as real ones.
pub struct OurTasks {
    pub store: TaskStore,
    pub tasks: Tasks,
    pub ids: Vec<TaskId>,
    /// What hosts have made before they call.
    ready: Vec<(TaskId, Patch)>,
    next: i64,
}

impl OurTasks {
    pub fn new(dir: &Path) -> Self {
        let store = TaskStore::open(dir.join("tasks"), Options::default().label("bench")).unwrap();
        let tasks = store.home(&Place::Key("bench".into())).unwrap();
        let ids: Vec<_> =
            (0..TASKS).map(|n| TaskId::new(&format!("019fb786-503a-76ca-8708-{n:012x}")).unwrap()).collect();
        for id in &ids {
            drop(tasks.create(task_item(id), Durability::Buffered).unwrap());
        }
        OurTasks { store, tasks, ids, ready: Vec::new(), next: 0 }
    }

    /// Makes so many patches of four fields, as steps of running tasks are.
    pub fn prepare(&mut self, count: u64) {
        for _ in 0..count {
            self.next += 1;
            let id = &self.ids[usize::try_from(self.next).unwrap() % self.ids.len()];
            self.ready.push((id.clone(), step(self.next)));
        }
    }

    /// Commits one of them.
    pub fn patch(&mut self) {
        let (id, patch) = self.ready.pop().unwrap();
        drop(self.tasks.patch(&id, patch, Durability::Buffered).unwrap());
    }

    /// Bytes on disk of that.
    pub fn patch_len(&self) -> usize {
        frame_len(PREAMBLE_LEN + Event::Patched(step(1)).to_new(self.ids[0].key()).encoded_len())
    }
}

/// A task with the fields of a real one and a title of 1 KiB.
pub fn task_item(id: &TaskId) -> Item {
    Item::new(id)
        .with(Field::Number, 1_i64)
        .with(Field::Ts, 1_784_332_598_169_i64)
        .with(Field::Task, Value::text("Mend the parser. ".repeat(64)))
        .with(Field::TokensIn, 0_i64)
        .with(Field::TokensOut, 0_i64)
        .with(Field::CacheWrites, 0_i64)
        .with(Field::CacheReads, 0_i64)
        .with(Field::TotalCost, 0_i64)
        .with(Field::Size, 0_i64)
        .with(Field::Workspace, "/home/user/projects/generic")
        .with(Field::Mode, "code")
        .with(Field::ApiConfigName, "default")
        .with(Field::Status, "active")
}

/// What one step of a running task changes.
pub fn step(n: i64) -> Patch {
    Patch::new()
        .set(Field::Ts, 1_784_332_598_169 + n)
        .set(Field::TokensIn, 1000 * n)
        .set(Field::TokensOut, 10 * n)
        .set(Field::TotalCost, Value::parse(&format!("{}.{:06}1", n / 1000, n % 1_000_000)).unwrap())
}

/// The bare system calls.
pub struct Raw {
    dir: PathBuf,
    lock: File,
    file: File,
    files: u32,
    offset: u64,
    bytes: Vec<u8>,
    /// Whether files are filled with zeros, and synced, before they are used.
    filled: bool,
}

impl Raw {
    /// On files whose blocks are all there: filled with zeros, and synced, off the clock but for rotations.
    pub fn on_filled_files(dir: &Path) -> Self {
        let mut raw = Self::new(dir);
        raw.filled = true;
        raw.fill();
        raw
    }

    pub fn new(dir: &Path) -> Self {
        let dir = dir.join("raw");
        std::fs::create_dir_all(&dir).unwrap();
        let lock = open_new(&dir.join("LOCK"));
        let file = open_new(&dir.join("0"));
        let mut raw = Raw { dir, lock, file, files: 1, offset: 0, bytes: Vec::new(), filled: false };
        raw.start();
        raw
    }

    fn start(&mut self) {
        write_at(&self.file, &[1; SEGMENT_HEADER_LEN as usize], 0);
        self.file.sync_data().unwrap();
        self.offset = SEGMENT_HEADER_LEN.into();
    }

    fn fill(&self) {
        write_at(&self.file, &vec![0; usize::try_from(SEGMENT_SIZE).unwrap()], self.offset);
        self.file.sync_data().unwrap();
    }

    /// As our rotation at the least: the full file is synced, and the folder, once the next file is in it.
    fn rotate_if_full(&mut self) {
        if self.offset >= SEGMENT_SIZE {
            self.file.sync_data().unwrap();
            self.file = open_new(&self.dir.join(self.files.to_string()));
            self.files += 1;
            self.start();
            if self.filled {
                self.fill();
            }
            foldlog::vfs::Vfs::sync_dir(&foldlog::vfs::os::Os, &self.dir).unwrap();
        }
    }

    fn append(&mut self, len: usize) {
        self.bytes.resize(len, b'x');
        write_at(&self.file, &self.bytes, self.offset);
        self.offset += len as u64;
    }

    /// Lock, write, unlock: what survives a kill.
    pub fn buffered(&mut self, len: usize) {
        assert!(fs4::FileExt::try_lock(&self.lock).is_ok(), "somebody else holds the bench's lock");
        self.rotate_if_full();
        self.append(len);
        fs4::FileExt::unlock(&self.lock).unwrap();
    }

    /// Write and sync: what survives a power cut.
    pub fn durable(&mut self, len: usize) {
        self.rotate_if_full();
        self.append(len);
        self.file.sync_data().unwrap();
    }
}

fn open_new(path: &Path) -> File {
    OpenOptions::new().read(true).write(true).create_new(true).open(path).unwrap()
}

#[cfg(unix)]
fn write_at(file: &File, bytes: &[u8], offset: u64) {
    assert_eq!(std::os::unix::fs::FileExt::write_at(file, bytes, offset).unwrap(), bytes.len());
}

#[cfg(windows)]
fn write_at(file: &File, bytes: &[u8], offset: u64) {
    assert_eq!(std::os::windows::fs::FileExt::seek_write(file, bytes, offset).unwrap(), bytes.len());
}
