//! One look at a folder of an older layout: every file that may hold a record, read once.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use super::messages;
use super::quality::{Kind, Origin, Record};
use super::report::{Debris, DebrisKind, SetAside, SourceFinding, What};
use super::text::{self, Bytes};
use crate::error::{Context as _, Error, ErrorKind, Result};
use crate::event::{Field, TaskId, Value};
use crate::vfs::{Entry, FileKind, Vfs};

const ACT: &str = "read the legacy folder";
const RECORD: &str = "history_item.json";
const INDEX: &str = "_index.json";
/// Where hosts save their state, as seen from the folder that has the tasks folder in it.
const STATES: [&[&str]; 3] = [&["global-state.json"], &["taskHistory.json"], &["state", "taskHistory.json"]];
/// Most bytes of a text that cannot be parsed, kept as evidence.
const DAMAGED_MAX: usize = 1 << 20;
/// A file of nothing but space is in the making at most up to this many bytes.
const BLANK_MAX: u64 = 64 << 10;

/// What a doubtful file was when it was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// These bytes, by their hash.
    Bytes([u8; 32]),
    Empty,
    Blank,
    /// Over the limit.
    TooLarge,
    /// Not there, although it was, or is known to be in the making.
    Gone,
    Failed(io::ErrorKind),
}

impl Seen {
    fn of(read: &io::Result<Bytes>) -> Self {
        match read {
            Ok(Bytes::Some(bytes)) => Seen::Bytes(*blake3::hash(bytes).as_bytes()),
            Ok(Bytes::Empty) => Seen::Empty,
            Ok(Bytes::Blank(_)) => Seen::Blank,
            Ok(Bytes::TooLarge) => Seen::TooLarge,
            Err(e) if e.kind() == io::ErrorKind::NotFound => Seen::Gone,
            Err(e) => Seen::Failed(e.kind()),
        }
    }
}

/// Looks at one doubtful file again.
pub(super) fn peek(vfs: &dyn Vfs, path: &Path) -> Seen {
    Seen::of(&text::bytes(vfs, path, text::MANY_MAX))
}

/// A task's folder.
#[derive(Debug, Default)]
pub(super) struct Folder {
    pub(super) path: Option<PathBuf>,
    /// The files in it.
    pub(super) files: Vec<String>,
    /// Something in it that may hold a record could not be read.
    pub(super) unread: bool,
    /// Files that should hold its record and cannot be parsed: name and text.
    pub(super) damaged: Vec<(String, String)>,
}

/// Everything one look found.
#[derive(Debug, Default)]
pub(super) struct Look {
    /// By id, safe or not.
    pub(super) records: BTreeMap<String, Vec<Record>>,
    /// By name.
    pub(super) folders: BTreeMap<String, Folder>,
    pub(super) folders_total: u64,
    /// Files that say nothing, or not all, and may do so only because they are being written.
    pub(super) doubtful: BTreeMap<PathBuf, Seen>,
    pub(super) doubtful_bytes: u64,
    /// All files that may hold a record and were there.
    pub(super) seen: BTreeSet<PathBuf>,
    pub(super) set_aside: Vec<SetAside>,
    pub(super) findings: Vec<SourceFinding>,
    pub(super) debris: Vec<Debris>,
    pub(super) complete: bool,
}

/// A file that may hold records.
struct File<'a> {
    path: PathBuf,
    /// As seen from the tasks folder.
    name: String,
    kind: Kind,
    /// The task in whose folder it is.
    task: Option<&'a str>,
    /// It is one record, of that task.
    one: bool,
}

impl Look {
    /// Looks. Files in `before` that are not there are doubtful.
    pub(super) fn take(
        vfs: &dyn Vfs,
        tasks: &Path,
        states: &[PathBuf],
        before: &BTreeSet<PathBuf>,
        step: &mut dyn FnMut(u64, u64) -> Result<()>,
    ) -> Result<Look> {
        let mut look = Look { complete: true, ..Look::default() };
        let entries = vfs.list(tasks).context(ACT, tasks)?;
        look.lists(vfs, tasks, &entries);
        let is_folder = |e: &&Entry| match e.kind {
            FileKind::Dir => true,
            FileKind::Symlink => kind_of(&e.name).is_none(),
            _ => false,
        };
        let folders: Vec<&Entry> = entries.iter().filter(is_folder).collect();
        let total = folders.len() as u64;
        look.folders_total = total;
        for (done, entry) in folders.into_iter().enumerate() {
            step(done as u64, total)?;
            let path = tasks.join(&entry.name);
            if entry.kind != FileKind::Symlink {
                look.folder(vfs, &path, &entry.name);
                continue;
            }
            // A folder may have been moved elsewhere, with a link in its place.
            match vfs.canonicalize(&path).and_then(|real| Ok((vfs.stat(&real)?.kind, real))) {
                Ok((FileKind::Dir, real)) => look.folder(vfs, &real, &entry.name),
                Ok(_) => {}
                Err(e) => look.unlisted(&entry.name, &e),
            }
        }
        step(total, total)?;
        look.states(vfs, tasks, states)?;
        // Messages without a record: the record may be missing for no longer than it takes to replace it.
        for (name, folder) in &look.folders {
            let file = folder.path.as_ref().map(|path| path.join(RECORD));
            let missing = file.filter(|file| !look.records.contains_key(name) && !look.seen.contains(file));
            if let Some(file) = missing {
                look.doubtful.insert(file, Seen::Gone);
            }
        }
        for gone in before.difference(&look.seen) {
            // The file of which it was a copy in the making, or in the replacing, was read.
            let settled =
                copied(gone).is_some_and(|of| look.seen.contains(&of) && !look.doubtful.contains_key(&of));
            if !settled {
                look.doubtful.insert(gone.clone(), Seen::Gone);
            }
        }
        Ok(look)
    }

    /// The files in the tasks folder itself.
    fn lists(&mut self, vfs: &dyn Vfs, tasks: &Path, entries: &[Entry]) {
        let mut named: Vec<(Kind, &str)> =
            entries.iter().filter_map(|entry| Some((kind_of(&entry.name)?, &*entry.name))).collect();
        named.retain(|(_, name)| !name.contains(RECORD) && !name.starts_with("history_item."));
        self.group(vfs, tasks, &mut named, None, entries, INDEX);
    }

    /// A folder that may be a task's.
    fn folder(&mut self, vfs: &dyn Vfs, path: &Path, name: &str) {
        let special = match name {
            _ if name.ends_with(".lock") => Some(DebrisKind::Lock),
            _ if name.starts_with("_staging_") => Some(DebrisKind::Staging),
            _ => None,
        };
        if let Some(kind) = special {
            self.debris.push(Debris { name: name.into(), kind });
            return;
        }
        // Under this name the system does not have it.
        if name.contains(char::REPLACEMENT_CHARACTER) {
            let why = "the name is not Unicode".into();
            self.set_aside.push(SetAside { id: name.into(), source: format!("{name}/"), why });
            return;
        }
        let entries = match vfs.list(path) {
            Ok(entries) => entries,
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                self.doubtful.insert(path.into(), Seen::Gone);
                return;
            }
            Err(e) => return self.unlisted(name, &e),
        };
        let files: Vec<String> =
            entries.iter().filter(|e| e.kind == FileKind::File).map(|e| e.name.clone()).collect();
        let mut named: Vec<(Kind, &str)> =
            entries.iter().filter_map(|e| Some((kind_of(&e.name)?, &*e.name))).collect();
        let of_task =
            |name: &str| name == RECORD || messages::FILES.contains(&name) || kind_of(name).is_some();
        if !entries.iter().any(|e| e.kind != FileKind::Dir && of_task(&e.name)) {
            self.lock_without_file(path, &entries, RECORD);
            let kind = if entries.iter().all(|e| e.kind == FileKind::File && e.name.starts_with('.')) {
                DebrisKind::Empty
            } else if entries.iter().all(|e| e.name == "checkpoints") {
                DebrisKind::Checkpoints
            } else {
                DebrisKind::NoRecord
            };
            self.debris.push(Debris { name: name.into(), kind });
            return;
        }
        if let Err(e) = TaskId::new(name) {
            let why = e.kind().to_string();
            self.set_aside.push(SetAside { id: name.into(), source: format!("{name}/"), why });
            return;
        }
        self.folders.insert(name.into(), Folder { path: Some(path.into()), files, ..Folder::default() });
        self.group(vfs, path, &mut named, Some(name), &entries, RECORD);
    }

    /// A folder of which nothing can be known.
    fn unlisted(&mut self, name: &str, e: &io::Error) {
        self.find(format!("{name}/"), Some(name), What::Unreadable, e.to_string());
        self.complete = false;
        self.folders.insert(name.into(), Folder { unread: true, ..Folder::default() });
    }

    /// The files of one folder: the main one first, then those that are copies of it, which count for less.
    fn group(
        &mut self,
        vfs: &dyn Vfs,
        dir: &Path,
        named: &mut [(Kind, &str)],
        task: Option<&str>,
        entries: &[Entry],
        main: &str,
    ) {
        named.sort_unstable();
        let mut settled = false;
        for (kind, name) in named.iter() {
            let file = File {
                path: dir.join(name),
                name: task.map_or_else(|| (*name).to_owned(), |task| format!("{task}/{name}")),
                kind: *kind,
                task,
                one: task.is_some() && !name.contains("_index"),
            };
            let doubt = self.file(vfs, &file);
            let is_main = *name == main;
            if let Some((seen, len)) = doubt
                && !(settled && matches!(kind, Kind::New | Kind::Bak))
            {
                self.doubtful.insert(file.path, seen);
                self.doubtful_bytes += len;
            } else if is_main {
                settled = true;
            }
        }
        self.lock_without_file(dir, entries, main);
    }

    /// A host holds the lock of a file that is not there: it is between two renames.
    fn lock_without_file(&mut self, dir: &Path, entries: &[Entry], main: &str) {
        let there = |name: &str| entries.iter().any(|entry| entry.name == name);
        if there(&format!("{main}.lock")) && !there(main) {
            self.doubtful.insert(dir.join(main), Seen::Gone);
        }
    }

    fn states(&mut self, vfs: &dyn Vfs, tasks: &Path, asked: &[PathBuf]) -> Result<()> {
        let mut all: Vec<(PathBuf, String, bool)> = Vec::new();
        for path in asked {
            all.push((path.clone(), path.display().to_string(), true));
        }
        if let Some(root) = tasks.parent() {
            for parts in STATES {
                let path = parts.iter().fold(root.to_path_buf(), |path, part| path.join(part));
                all.push((path, format!("../{}", parts.join("/")), false));
            }
        }
        for (path, name, asked) in all {
            match vfs.stat(&path) {
                Ok(_) => {}
                // `NotADirectory`: `state` is somebody's file.
                Err(e)
                    if !asked
                        && matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
                {
                    continue;
                }
                Err(e) if asked => {
                    if e.kind() == io::ErrorKind::NotFound {
                        let what = path.display().to_string();
                        return Err(Error::new(ErrorKind::NotFound { what }, ACT, &path));
                    }
                    return Err(Error::io(e, ACT, &path));
                }
                Err(_) => {}
            }
            let file = File { path, name, kind: Kind::GlobalState, task: None, one: false };
            if let Some((seen, len)) = self.file(vfs, &file) {
                self.doubtful.insert(file.path, seen);
                self.doubtful_bytes += len;
            }
        }
        Ok(())
    }

    /// Reads one file and takes its records. Answers what it is if it is doubtful, and how long.
    fn file(&mut self, vfs: &dyn Vfs, file: &File<'_>) -> Option<(Seen, u64)> {
        let read = text::bytes(vfs, &file.path, if file.one { text::RECORD_MAX } else { text::MANY_MAX });
        if !matches!(&read, Err(e) if e.kind() == io::ErrorKind::NotFound) {
            self.seen.insert(file.path.clone());
        }
        let seen = Seen::of(&read);
        let find = |look: &mut Look, what, detail| look.find(file.name.clone(), file.task, what, detail);
        let (bytes, fault) = match read {
            Ok(Bytes::Some(bytes)) => (bytes, None),
            Ok(Bytes::Empty) => (Vec::new(), Some(What::Empty)),
            Ok(Bytes::Blank(len)) => {
                find(self, What::Blank, format!("{len} bytes"));
                // No host writes that much of it on the way to something else.
                return (len < BLANK_MAX).then_some((seen, len));
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Some((seen, 0)),
            Ok(Bytes::TooLarge) => return self.unread(file, What::TooLarge, String::new()),
            Err(e) => return self.unread(file, What::Unreadable, e.to_string()),
        };
        let len = bytes.len() as u64;
        let decoded = match fault {
            Some(what) => Err(what),
            None => text::decode(bytes),
        };
        let (text, oddity) = match decoded {
            Ok(decoded) => decoded,
            Err(what) => {
                find(self, what, String::new());
                return Some((seen, len));
            }
        };
        let content = text::records(&text, file.one);
        if content.elements.is_empty()
            && content.fault.is_some()
            && text.len() <= DAMAGED_MAX
            && let Some(folder) = file.task.and_then(|task| self.folders.get_mut(task))
        {
            folder.damaged.push((file.name.clone(), text.clone()));
        }
        let mut strange = 0_u64;
        for raw in content.elements {
            if self.record(file, &raw).is_none() {
                strange += 1;
            }
        }
        if strange > 0 {
            find(self, What::NoRecord, format!("{strange} of them"));
        }
        for what in content.fault.into_iter().chain(oddity) {
            find(self, what, String::new());
        }
        (content.fault.is_some() || oddity.is_some()).then_some((seen, len))
    }

    /// Nothing is known about a file that could not be read, and looking again does not change that.
    fn unread(&mut self, file: &File<'_>, what: What, detail: String) -> Option<(Seen, u64)> {
        self.find(file.name.clone(), file.task, what, detail);
        self.complete = false;
        if let Some(folder) = file.task.and_then(|task| self.folders.get_mut(task)) {
            folder.unread = true;
        }
        None
    }

    /// Takes one record; nothing if it is none.
    fn record(&mut self, file: &File<'_>, raw: &str) -> Option<()> {
        if !raw.starts_with('{') {
            return None;
        }
        let task = file.task.filter(|_| file.one);
        let (mut item, dropped) = match text::item(raw) {
            Ok(read) => read,
            Err(what) => {
                self.find(file.name.clone(), file.task, what, String::new());
                self.complete &= what != What::TooLarge;
                return Some(());
            }
        };
        let inner = match item.get(&Field::Id) {
            Some(id @ (Value::Int(_) | Value::UInt(_))) => Some(id.to_json()),
            Some(id) => id.as_str().map(String::from).filter(|id| !id.is_empty()),
            None => None,
        };
        // The folder's name counts: under it stand the messages, and under it hosts open a task.
        let id = match (task, inner) {
            (Some(task), inner) => {
                if let Some(inner) = inner.filter(|inner| inner != task) {
                    self.find(file.name.clone(), Some(task), What::IdDiffers, inner);
                }
                task.to_owned()
            }
            (None, Some(inner)) => inner,
            (None, None) => return None,
        };
        if file.kind == Kind::Backup {
            for note in ["_removedReason", "_removedAt"] {
                item.unset(&Field::of(note));
            }
        }
        let lossy = !dropped.is_empty();
        for name in dropped {
            self.find(file.name.clone(), Some(&id), What::FieldLeftOut, name);
        }
        let origins = vec![Origin { kind: file.kind, name: file.name.clone() }];
        self.records.entry(id).or_default().push(Record { item, raw: raw.into(), origins, lossy });
        Some(())
    }

    fn find(&mut self, source: String, task: Option<&str>, what: What, detail: String) {
        self.findings.push(SourceFinding { source, task: task.map(Into::into), what, detail });
    }
}

/// Which kind of source a file is by its name; nothing if it holds no record.
fn kind_of(name: &str) -> Option<Kind> {
    let within = |start: &str, end: &str| name.starts_with(start) && name.ends_with(end);
    let temporary = |part: &str| [RECORD, INDEX].iter().any(|of| within(&format!(".{of}.{part}_"), ".tmp"));
    match name {
        RECORD => Some(Kind::File),
        INDEX => Some(Kind::Index),
        "._index.extract.json" => Some(Kind::Extract),
        _ if temporary("new") => Some(Kind::New),
        _ if temporary("bak") => Some(Kind::Bak),
        _ if within("_index.", ".bak.json") || within("history_item.", ".bak.json") => Some(Kind::Backup),
        _ => None,
    }
}

/// The file that one of this name is a passing copy of.
fn copied(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.to_str()?;
    let (of, _) =
        name.strip_prefix('.')?.split_once(".new_").or_else(|| name.get(1..)?.split_once(".bak_"))?;
    Some(path.with_file_name(of))
}

/// What a folder is of which no task came.
pub(super) fn debris(files: &[String], damaged: bool) -> Option<DebrisKind> {
    let empty = files.iter().all(|name| name.starts_with('.') && kind_of(name).is_none());
    if damaged {
        None
    } else if empty {
        Some(DebrisKind::Empty)
    } else {
        Some(DebrisKind::NoRecord)
    }
}

/// Whether a folder is a tasks folder by its name or by what is in it.
pub(super) fn is_tasks_folder(vfs: &dyn Vfs, dir: &Path) -> Result<bool> {
    let entries = vfs.list(dir).context(ACT, dir)?;
    if dir.file_name().is_some_and(|name| name == "tasks")
        || entries.iter().any(|entry| kind_of(&entry.name) == Some(Kind::Index))
    {
        return Ok(true);
    }
    let folders = entries.iter().filter(|e| matches!(e.kind, FileKind::Dir | FileKind::Symlink));
    for entry in folders {
        let inner = dir.join(&entry.name);
        let files = match vfs.list(&inner) {
            Ok(files) => files,
            Err(_) => continue,
        };
        if files.iter().any(|f| kind_of(&f.name).is_some() || messages::FILES.contains(&&*f.name)) {
            return Ok(true);
        }
    }
    Ok(false)
}
