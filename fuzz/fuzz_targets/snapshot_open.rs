//! Any bytes as a snapshot beside a small log: opening, reading and committing answer as without one.
//!
//! Where the checksums are made to hold, a snapshot may say whatever it likes and be believed, or be refused; then what
//! counts is that nothing panics or asks for much memory, and that the log is as it was.
#![no_main]

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arbitrary::Arbitrary;
use foldlog::event::{Field, Item, Patch, TaskId};
use foldlog::vfs::Vfs as _;
use foldlog::vfs::sim::{DiskState, Profile, SimMachine};
use foldlog::view::{Query, Sort};
use foldlog::{
    Durability, Housekeeping, Mapping, Op, Options, Place, Recovery, Result, Status, Store, TaskStore, Tasks,
};
use libfuzzer_sys::fuzz_target;

#[derive(Arbitrary, Debug)]
struct Input {
    /// Which of the two is changed.
    older: bool,
    /// Whether it is the only one that is left.
    alone: bool,
    /// Whether the checksums are made to hold.
    mended: bool,
    by_calls: bool,
    /// In the place of the whole file.
    bytes: Option<Vec<u8>>,
    /// What is written over it, and where: in its header, or anywhere.
    edits: Vec<(Place64, u64)>,
    len: Option<u16>,
    more: Vec<u8>,
}

#[derive(Arbitrary, Debug)]
enum Place64 {
    Header(u8),
    Byte(u16),
    /// From the end: directory and table.
    FromEnd(u16),
}

struct Start {
    disk: DiskState,
    /// The older and the newer one.
    snapshots: [PathBuf; 2],
    log: Vec<(PathBuf, Vec<u8>)>,
    right: Told,
}

#[derive(Clone, Debug, PartialEq)]
struct Told {
    damaged: bool,
    hash: String,
    lists: String,
}

fuzz_target!(|input: Input| {
    static START: OnceLock<Start> = OnceLock::new();
    let start = START.get_or_init(start);
    let [older, newer] = &start.snapshots;
    let (changed, other) = if input.older { (older, newer) } else { (newer, older) };
    let mut disk = start.disk.clone();
    disk.mutate(changed, |bytes| spoil(bytes, &input)).unwrap();
    let machine = SimMachine::from_disk(&disk, 1);
    if input.alone {
        machine.process("x").unlink(other).unwrap();
    }
    let mapping = if input.by_calls { Mapping::Off } else { Mapping::Auto };
    let read = open(&machine, options().read_only(true).mapping(mapping)).and_then(|tasks| told(&tasks));
    if input.mended {
        // Nothing here is to be believed, but for what it leaves.
        let _ = open(&machine, options().mapping(mapping)).and_then(|tasks| told(&tasks));
    } else {
        assert_eq!(read.unwrap(), start.right, "who reads");
        let tasks = open(&machine, options().mapping(mapping)).unwrap();
        assert_eq!(told(&tasks).unwrap(), start.right, "who writes");
        let patch = Patch::new().set(Field::TokensIn, 77_i64);
        let _ = tasks.patch(&id(3), patch, Durability::Durable).unwrap();
        let after = told(&tasks).unwrap();
        // A snapshot of what was read by way of that one is right too.
        let _ = tasks.workspace().snapshot().unwrap();
        drop(tasks);
        assert_eq!(told(&replayed(&machine)).unwrap(), after, "who replays");
        assert_eq!(told(&open(&machine, options()).unwrap()).unwrap(), after, "who opens again");
    }
    // Nothing that stood in the log has gone.
    for (path, bytes) in &start.log {
        let now = machine.disk().read(path).unwrap();
        assert!(now.starts_with(bytes), "{} was changed", path.display());
    }
});

fn id(n: usize) -> TaskId {
    TaskId::new(&format!("t{n}")).unwrap()
}

fn options() -> Options {
    TaskStore::options(Options::default().housekeeping(Housekeeping::Off))
        .snapshot_after(u64::MAX)
        .lock_timeout(Duration::from_millis(200))
}

fn open(machine: &SimMachine, options: Options) -> Result<Tasks> {
    let store = Store::open_on(Arc::new(machine.process("opener")), Path::new("/store"), options)?;
    TaskStore::of(store).home(&Place::Key("fuzz".into()))
}

/// What whoever goes by no snapshot has.
fn replayed(machine: &SimMachine) -> Tasks {
    open(machine, options().read_only(true).recovery(Recovery::Salvage)).unwrap()
}

fn told(tasks: &Tasks) -> Result<Told> {
    let mut lists = String::new();
    for sort in [Sort::Time, Sort::Title] {
        for (parent, limit) in [(None, None), (None, Some(3)), (Some("t0".to_owned()), None)] {
            let page = tasks.list(&Query { sort, parent, limit, ..Query::default() })?;
            for found in &page.tasks {
                lists += &format!("{} {:?}\n", found.task.item.to_json(), found.token);
            }
            lists += &format!("{} {:?}\n", page.total, page.next);
        }
    }
    for n in 0..14 {
        let found = tasks.get(id(n).as_str())?;
        lists += &format!("{:?}\n", found.map(|found| found.task.item.to_json()));
    }
    let hash = tasks.read(|state, _| state.hash().to_string())?;
    let damaged = matches!(tasks.workspace().health().status, Status::Damaged);
    Ok(Told { damaged, hash, lists })
}

/// A few tasks, a snapshot, some changes, another, and a tail; nobody has it open.
fn start() -> Start {
    let machine = SimMachine::new(Profile::Linux, 1);
    let tasks = open(&machine, options()).unwrap();
    let mut snapshots = Vec::new();
    for n in 0..12 {
        let item = Item::new(&id(n)).with(Field::Ts, 100_i64 + n as i64).with(Field::Task, "a title");
        let item = if n % 4 == 0 { item } else { item.with(Field::ParentTaskId, id(n - n % 4).as_str()) };
        let _ = tasks.commit(vec![Op::Create { item, again: false }], Durability::Buffered).unwrap();
        if n % 4 == 3 && n > 3 {
            let ids = vec![id(n - 1)];
            let _ = tasks.commit(vec![Op::Remove { ids, cascade: false }], Durability::Buffered).unwrap();
            snapshots.push(tasks.workspace().snapshot().unwrap().unwrap().file);
        }
    }
    let patch = Patch::new().set(Field::Ts, 500_i64);
    let _ = tasks.patch(&id(1), patch, Durability::Durable).unwrap();
    drop(tasks);
    machine.kill_all();
    let right = told(&replayed(&machine)).unwrap();
    let disk = machine.disk().all_synced();
    let segments = disk.tree().into_iter().map(|(path, ..)| Path::new("/").join(path));
    let log = segments
        .filter(|path| path.extension().is_some_and(|end| end == "seg"))
        .map(|path| (path.clone(), disk.read(&path).unwrap()))
        .collect();
    Start { disk, snapshots: snapshots.try_into().unwrap(), log, right }
}

fn spoil(bytes: &mut Vec<u8>, input: &Input) {
    if let Some(all) = &input.bytes {
        bytes.clone_from(all);
    }
    if let Some(len) = input.len {
        bytes.resize(usize::from(len), 0);
    }
    bytes.extend_from_slice(&input.more);
    for (place, value) in input.edits.iter().take(32) {
        let (len, value) = (bytes.len(), value.to_le_bytes());
        let at = match place {
            Place64::Header(at) => usize::from(*at),
            Place64::Byte(at) => usize::from(*at),
            Place64::FromEnd(back) => len.saturating_sub(usize::from(*back)),
        };
        for (byte, new) in bytes.iter_mut().skip(at).zip(value) {
            *byte = new;
        }
    }
    if input.mended {
        mend(bytes);
    }
}

/// Gives blocks, directory, table and header the checksums that they must have, as far as they lie in the file.
fn mend(bytes: &mut [u8]) {
    const HEADER: usize = 256;
    const BLOCK: usize = 16384;
    let Some(head) = bytes.get(..HEADER) else { return };
    let word = |at: usize| usize::try_from(u64::from_le_bytes(head[at..at + 8].try_into().unwrap())).unwrap();
    let sections = u32::from_le_bytes(head[12..16].try_into().unwrap()) as usize;
    let data_end = word(144).min(bytes.len());
    let table = data_end.saturating_add(sections.saturating_mul(24)).min(bytes.len());
    let (data, behind) = bytes.split_at_mut(data_end);
    let blocks = data.get(HEADER..).unwrap_or_default().chunks(BLOCK).map(crc);
    for (place, crc) in behind[table - data_end..].chunks_exact_mut(4).zip(blocks) {
        place.copy_from_slice(&crc.to_le_bytes());
    }
    let (directory, table) = (crc(&bytes[data_end..table]), crc(&bytes[table..]));
    bytes[152..156].copy_from_slice(&directory.to_le_bytes());
    bytes[156..160].copy_from_slice(&table.to_le_bytes());
    let head = crc(&bytes[..252]);
    bytes[252..256].copy_from_slice(&head.to_le_bytes());
}

fn crc(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| crc >> 1 ^ (0xEDB8_8320 & (crc & 1).wrapping_neg()))
    })
}
