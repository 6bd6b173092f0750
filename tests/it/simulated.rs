//! What the schedules and counterexamples share: a store on a simulated machine, and the log as an independent look
//! has it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use foldlog::log::control_frame::Control;
use foldlog::log::reader::{self, Reach, Walk};
use foldlog::log::scan::Content;
use foldlog::log::{Paths, WorkspaceMeta};
use foldlog::vfs::sim::{Profile, SimMachine, SimProcess};
use foldlog::vfs::{Open, Vfs, read_full};
use foldlog::{
    Durability, Housekeeping, Key, NewEvent, Options, Place, Receipt, Result, Revision, Seq, Store,
    Vocabulary, Workspace,
};

pub(crate) const ROOT: &str = "/store";
/// The event kind of these tests.
pub(crate) const NOTE: u16 = 100;

pub(crate) fn options() -> Options {
    Options::default()
        .vocabulary(Vocabulary::new([(NOTE, 1)]))
        .housekeeping(Housekeeping::Off)
        .lock_timeout(Duration::from_millis(200))
}

/// The same for threads that the system runs as it likes: on a busy machine one may wait for long while another, which holds
/// the lock, gets no turn; and what it waits by is the simulated clock, which the waiting itself moves on.
pub(crate) fn patient() -> Options {
    options().lock_timeout(Duration::from_secs(24 * 3600))
}

pub(crate) fn place() -> Place {
    Place::Key("project".into())
}

pub(crate) fn store_on(process: &SimProcess, options: Options) -> Result<Store> {
    Store::open_on(Arc::new(process.clone()), Path::new(ROOT), options)
}

/// The store and its one workspace.
pub(crate) fn open_on(process: &SimProcess, options: Options) -> Result<(Store, Workspace)> {
    let store = store_on(process, options)?;
    let workspace = store.workspace(&place())?;
    Ok((store, workspace))
}

/// A machine on which the workspace exists and holds these bodies, all durable, after a clean close.
pub(crate) fn machine_with(profile: Profile, seed: u64, bodies: &[&str]) -> SimMachine {
    let machine = SimMachine::new(profile, seed);
    let (store, workspace) = open_on(&machine.process("founder"), options()).unwrap();
    for body in bodies {
        let _ = put(&workspace, Durability::Durable, "a", body).unwrap();
    }
    workspace.close().unwrap();
    drop(store);
    machine
}

pub(crate) fn note(key: &str, body: &str) -> NewEvent {
    NewEvent::state(NOTE, 1, Key::task(key), body.as_bytes())
}

/// One event in one commit.
pub(crate) fn put(workspace: &Workspace, level: Durability, key: &str, body: &str) -> Result<Receipt> {
    let event = note(key, body);
    workspace.commit(level, move |_, draft| {
        draft.push(event);
        Ok(())
    })
}

pub(crate) fn body(workspace: &Workspace, key: &str) -> Option<String> {
    let key = Key::task(key);
    workspace.read(|s| s.get(&key).map(|k| String::from_utf8_lossy(&k.body).into_owned())).unwrap()
}

pub(crate) fn last(workspace: &Workspace) -> Seq {
    workspace.read(foldlog::State::last).unwrap()
}

/// The workspace's folder.
pub(crate) fn folder(process: &SimProcess) -> PathBuf {
    let all = Path::new(ROOT).join("workspaces");
    let entries = process.list(&all).unwrap();
    let name = &entries.iter().find(|e| !e.name.starts_with('.')).expect("there is a workspace").name;
    all.join(name)
}

pub(crate) fn paths(process: &SimProcess) -> Paths {
    Paths::new(folder(process))
}

/// The segments' files, in the order of their names.
pub(crate) fn segments(process: &SimProcess) -> Vec<PathBuf> {
    let dir = paths(process).log();
    let entries = process.list(&dir).unwrap();
    entries.into_iter().filter(|e| e.name.ends_with(".seg")).map(|e| dir.join(e.name)).collect()
}

pub(crate) fn file(process: &SimProcess, path: &Path) -> Vec<u8> {
    let file = process.open(path, Open::Read).unwrap();
    let mut bytes = vec![0; usize::try_from(file.stat().unwrap().len).unwrap()];
    let n = read_full(&*file, &mut bytes, 0).unwrap();
    bytes.truncate(n);
    bytes
}

/// An event as it stands in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) seq: u64,
    pub(crate) kind: u16,
    pub(crate) version: u8,
    pub(crate) key: Key,
    pub(crate) revision: u64,
    pub(crate) body: String,
}

/// A frame as it stands in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Item {
    Commit(Vec<Event>),
    Control(Control),
    Ignored,
}

/// Everything in the log, by the lock-free walk.
pub(crate) fn log_of(process: &SimProcess) -> Result<(Vec<(u64, Item)>, Walk)> {
    let paths = paths(process);
    let meta = WorkspaceMeta::decode(&file(process, &paths.meta())).expect("META reads");
    reader::stable(&paths, || {
        let durable = reader::durable_word(process, &paths, meta.log_id);
        let mut items = Vec::new();
        let walk = reader::walk(process, &paths, meta.log_id, durable, Reach::Intact, &mut |visit| {
            let item = match &visit.located.content {
                Content::Commit(commit) => Item::Commit(
                    commit
                        .events()
                        .map(|e| Event {
                            seq: e.seq.0,
                            kind: e.kind,
                            version: e.version,
                            key: e.to_key(),
                            revision: e.revision.0,
                            body: String::from_utf8_lossy(e.body).into_owned(),
                        })
                        .collect(),
                ),
                Content::Control(control) => Item::Control(control.clone()),
                Content::Ignored => Item::Ignored,
            };
            items.push((visit.located.frame.header.seq, item));
        })?;
        Ok((items, walk))
    })
}

/// The bodies of all events, in order.
pub(crate) fn bodies(process: &SimProcess) -> Vec<String> {
    let (items, _) = log_of(process).unwrap();
    let commits = items.into_iter().filter_map(|(_, i)| if let Item::Commit(c) = i { Some(c) } else { None });
    commits.flatten().map(|e| e.body).collect()
}

/// The state hash by its definition, for every prefix of the log that a reader may have stood at: last event and epoch
/// table, and the hash there.
pub(crate) fn prefix_hashes(items: &[(u64, Item)]) -> BTreeMap<(u64, Vec<(Seq, u64)>), blake3::Hash> {
    let mut keys: BTreeMap<Key, Event> = BTreeMap::new();
    let (mut epochs, mut last) = (Vec::new(), 0);
    let mut out = BTreeMap::new();
    let hash = |keys: &BTreeMap<Key, Event>, epochs: &[(Seq, u64)]| {
        let mut bytes = (epochs.len() as u64).to_le_bytes().to_vec();
        for (first, epoch) in epochs {
            bytes.extend(first.0.to_le_bytes());
            bytes.extend(epoch.to_le_bytes());
        }
        for (key, event) in keys {
            bytes.push(key.kind.0);
            bytes.extend(u32::try_from(key.name.len()).unwrap().to_le_bytes());
            bytes.extend(key.name.as_bytes());
            bytes.extend(event.revision.to_le_bytes());
            bytes.extend(event.seq.to_le_bytes());
            bytes.extend(event.kind.to_le_bytes());
            bytes.push(event.version);
            bytes.extend((event.body.len() as u64).to_le_bytes());
            bytes.extend(event.body.as_bytes());
        }
        blake3::hash(&bytes)
    };
    out.insert((0, Vec::new()), hash(&keys, &epochs));
    for (seq, item) in items {
        match item {
            Item::Commit(events) => {
                for event in events {
                    last = event.seq;
                    keys.insert(event.key.clone(), event.clone());
                }
            }
            Item::Control(Control::Epoch { epoch }) => epochs.push((Seq(*seq), *epoch)),
            Item::Control(Control::Gap { to, .. }) => last = *to,
            _ => {}
        }
        out.insert((last, epochs.clone()), hash(&keys, &epochs));
    }
    out
}

/// Every state event raises its key's revision by exactly one: no update was lost, none counted twice.
pub(crate) fn revisions_count_up(items: &[(u64, Item)]) -> Result<(), String> {
    let mut known: BTreeMap<&Key, u64> = BTreeMap::new();
    for (_, item) in items {
        let Item::Commit(events) = item else { continue };
        for event in events.iter().filter(|e| e.revision > 0) {
            let before = known.insert(&event.key, event.revision).unwrap_or(0);
            if event.revision != before + 1 {
                return Err(format!("{} goes from revision {before} to {}", event.key, event.revision));
            }
        }
    }
    Ok(())
}

pub(crate) fn revision(r: u64) -> Revision {
    Revision(r)
}

pub(crate) fn quick() -> bool {
    std::env::var_os("FOLDLOG_QUICK").is_some()
}

/// How many schedules to run: `default`, an eighth of it in quick runs, or what FOLDLOG_SIM_SCHEDULES says.
pub(crate) fn budget(default: u64) -> u64 {
    let asked = std::env::var("FOLDLOG_SIM_SCHEDULES").ok().and_then(|n| n.parse().ok());
    asked.unwrap_or(if quick() { default / 8 } else { default })
}

/// The tasks of a store with small segments, where nothing happens in the background.
pub(crate) mod tasks {
    use std::path::Path;
    use std::sync::Arc;

    use foldlog::task::{TaskStore, Tasks};
    use foldlog::vfs::sim::{SimMachine, SimProcess};
    use foldlog::{Housekeeping, Options, Place, Recovery, Store};

    use super::ROOT;

    pub(crate) fn options() -> Options {
        TaskStore::options(Options::default().housekeeping(Housekeeping::Off))
            .segment_size(4 << 10)
            .snapshot_after(u64::MAX)
    }

    pub(crate) fn open_with(process: &SimProcess, options: Options) -> foldlog::Result<Tasks> {
        let store = Store::open_on(Arc::new(process.clone()), Path::new(ROOT), options)?;
        TaskStore::of(store).home(&Place::None)
    }

    pub(crate) fn open(machine: &SimMachine) -> Tasks {
        open_with(&machine.process("opener"), options()).unwrap()
    }

    /// By a replay of the whole log: no snapshot is asked.
    pub(crate) fn replayed(machine: &SimMachine) -> Tasks {
        let options = options().read_only(true).recovery(Recovery::Salvage);
        open_with(&machine.process("replayer"), options).unwrap()
    }

    pub(crate) fn hash(tasks: &Tasks) -> blake3::Hash {
        tasks.read(|state, _| state.hash()).unwrap()
    }
}
