//! Any control block beside a small log, with several ends: opening, reading and committing answer as without a block.
//!
//! What a block may change, and no more (design: every word is a hint):
//!
//! - A durable word that checks and lies beyond the end makes the end damage: nothing is cut, nothing appended.
//! - A poison word that checks stops writing.
//!
//! Both only in a block that says it is this log's.
#![no_main]

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arbitrary::Arbitrary;
use foldlog::log::reader::{Reach, walk};
use foldlog::log::scan::Content;
use foldlog::log::{Paths, control, format};
use foldlog::vfs::Vfs as _;
use foldlog::vfs::sim::{DiskState, NameOrder, Op, Profile, Rng, SimMachine};
use foldlog::{
    Durability, ErrorKind, Housekeeping, Key, Mapping, NewEvent, Options, Place, Result, State, Status,
    Store, Vocabulary, Workspace,
};
use libfuzzer_sys::fuzz_target;

#[derive(Arbitrary, Debug)]
struct Input {
    end: u8,
    by_calls: bool,
    /// Whether the block says that it is this log's.
    ours: bool,
    /// Its length, if it is not 4 KiB.
    len: Option<u16>,
    words: Vec<(u8, Word)>,
    bytes: Vec<u8>,
}

#[derive(Arbitrary, Debug)]
enum Word {
    Raw(u64),
    /// With a check that passes.
    Position(u64),
    /// The same, as far from the end.
    NearEnd(i16),
    /// Counts of a lane.
    Lane(u16, u16),
}

const WORDS: [u64; 10] = [
    format::WORD_BOOT,
    format::WORD_TAIL,
    format::WORD_DURABLE,
    format::WORD_DIRTY,
    format::WORD_POISON,
    format::WORD_HOLDER[0],
    format::WORD_WANTED,
    format::WORD_LANES[0],
    format::WORD_LANES[1],
    format::WORD_LANES[2],
];

/// A store, and where its parts are.
struct Start {
    disk: DiskState,
    paths: Paths,
    segment: PathBuf,
    log: foldlog::log::LogId,
    /// Of the last whole frame.
    end_lpos: u64,
    end_offset: usize,
}

fuzz_target!(|input: Input| {
    static START: OnceLock<Start> = OnceLock::new();
    let start = START.get_or_init(start);
    let block = block(&input, start);
    let mut disk = start.disk.clone();
    disk.mutate(&start.segment, |bytes| damage(bytes, start.end_offset, input.end)).unwrap();
    let without = {
        let machine = SimMachine::from_disk(&disk, 1);
        machine.process("x").unlink(&start.paths.control()).unwrap();
        told(&machine, false)
    };
    disk.plant(start.paths.control(), &block).unwrap();
    let machine = SimMachine::from_disk(&disk, 1);
    let with = told(&machine, input.by_calls);

    let ours = control::is_block_of(&block, start.log);
    let word = |at: u64| {
        let at = usize::try_from(at).unwrap();
        let word = block.get(at..at + 8).filter(|_| ours)?;
        control::position(start.log, u64::from_le_bytes(word.try_into().unwrap()))
    };
    let torn = !matches!(input.end % 5, 0 | 1);
    if word(format::WORD_POISON).is_some() {
        assert!(matches!(with.status, Status::DurabilityLost));
        assert_eq!((with.last, &with.refused), (without.last, &Some("durability-lost")));
    } else if word(format::WORD_DURABLE).is_some_and(|durable| durable > start.end_lpos) {
        assert!(matches!(with.status, Status::Damaged), "{:?}", with.status);
        assert_eq!((with.last, &with.refused), (without.last, &Some("damaged")));
        let bytes = machine.disk().read(&start.segment);
        assert_eq!(bytes, disk.read(&start.segment), "torn {torn}: bytes that were acknowledged are gone");
    } else {
        assert_eq!(with, without);
        assert_eq!(with.refused, None);
    }
});

/// What opening, reading and committing answered, and what is left of it.
#[derive(Debug, PartialEq)]
struct Told {
    status: Status,
    last: u64,
    refused: Option<&'static str>,
    receipts: Vec<(u64, u16, bool)>,
    read: u64,
    after_power_cut: Vec<String>,
}

fn told(machine: &SimMachine, by_calls: bool) -> Told {
    let mapping = if by_calls { Mapping::Off } else { Mapping::Auto };
    let (store, workspace) = open(machine, "writer", mapping, false).unwrap();
    let (_r_store, reader) = open(machine, "reader", Mapping::Auto, true).unwrap();
    let (mut receipts, mut refused) = (Vec::new(), None);
    let (status, last) = (workspace.health().status, workspace.read(|s| s.last().0).unwrap());
    for level in [Durability::Durable, Durability::Buffered, Durability::Durable] {
        let syncs = machine.calls(Op::Sync);
        match put(&workspace, level) {
            Ok(receipt) => {
                assert!(
                    level != Durability::Durable || machine.calls(Op::Sync) > syncs,
                    "nothing was synced"
                );
                receipts.push((
                    receipt.first.0,
                    receipt.count,
                    level == Durability::Durable && receipt.durable,
                ));
            }
            Err(e) => {
                assert!(
                    matches!(e.kind(), ErrorKind::Damaged(_) | ErrorKind::DurabilityLost { .. }),
                    "{e}: nobody waits, and nothing else is wrong"
                );
                refused = Some(e.code());
            }
        }
    }
    // Within a second, whatever the words say.
    machine.advance(Duration::from_secs(1));
    let read = reader.read(|s| s.last().0).unwrap();
    assert_eq!(read, workspace.read(|s| s.last().0).unwrap());
    drop((workspace, store));
    let (_store, workspace) = open(machine, "again", mapping, false).unwrap();
    assert_eq!(workspace.read(|s| s.last().0).unwrap(), read);
    machine.kill_all();
    // The one that loses everything un-synced, of few that are listed.
    let model = Profile::Linux.crash_model().with_names(NameOrder::Journal);
    let cut = machine.disk().crash_states_with(&model, 1, &mut Rng::new(1)).next().unwrap();
    let after = SimMachine::from_disk(&cut, 2);
    let after_power_cut = if refused.is_some() { Vec::new() } else { bodies(&after) };
    Told { status, last, refused, receipts, read, after_power_cut }
}

fn open(machine: &SimMachine, label: &str, mapping: Mapping, read_only: bool) -> Result<(Store, Workspace)> {
    let options = Options::default()
        .vocabulary(Vocabulary::new([(100, 1)]))
        .housekeeping(Housekeeping::Off)
        .lock_timeout(Duration::from_millis(200))
        .mapping(mapping)
        .read_only(read_only);
    let store = Store::open_on(Arc::new(machine.process(label)), Path::new("/store"), options)?;
    let workspace = store.workspace(&Place::Key("fuzz".into()))?;
    Ok((store, workspace))
}

fn put(workspace: &Workspace, level: Durability) -> Result<foldlog::Receipt> {
    workspace.commit(level, |state: &State, draft| {
        draft.push(NewEvent::state(100, 1, Key::task("a"), state.last().0.to_string().as_bytes()));
        Ok(())
    })
}

/// Three events that are durable and two that are not, their writer killed.
fn start() -> Start {
    let machine = SimMachine::new(Profile::Linux, 1);
    let (_store, workspace) = open(&machine, "founder", Mapping::Auto, false).unwrap();
    for n in 0..5 {
        put(&workspace, if n < 3 { Durability::Durable } else { Durability::Buffered }).unwrap();
    }
    let (paths, log) = (workspace.log().paths().clone(), workspace.log().id());
    machine.kill_all();
    // The reserve would only make every input longer.
    let mut disk = machine.disk().all_synced();
    let x = machine_walk(&machine, &paths, log);
    let offset = usize::try_from(x.1).unwrap();
    disk.mutate(&x.0, |bytes| bytes.truncate(offset)).unwrap();
    Start { disk, paths, segment: x.0, log, end_lpos: x.2, end_offset: offset }
}

fn machine_walk(machine: &SimMachine, paths: &Paths, log: foldlog::log::LogId) -> (PathBuf, u64, u64) {
    let found = walk(&machine.process("x"), paths, log, None, Reach::Intact, &mut |_| {}).unwrap();
    let last = found.last().unwrap();
    let end = last.summary.end.offset;
    (last.path.clone(), end, last.header.lpos(end))
}

fn bodies(machine: &SimMachine) -> Vec<String> {
    let (_store, workspace) = open(machine, "survivor", Mapping::Auto, false).unwrap();
    let (paths, log) = (workspace.log().paths().clone(), workspace.log().id());
    let mut all = Vec::new();
    let found = walk(&machine.process("x"), &paths, log, None, Reach::Intact, &mut |visit| {
        if let Content::Commit(commit) = &visit.located.content {
            all.extend(commit.events().map(|e| String::from_utf8_lossy(e.body).into_owned()));
        }
    });
    assert!(found.unwrap().damage.is_none());
    all
}

/// What a crash may leave behind the last whole frame.
fn damage(bytes: &mut Vec<u8>, end: usize, how: u8) {
    match how % 5 {
        0 => {}
        1 => bytes.resize(end + 3_000, 0),
        2 => bytes.resize(end + 40, 0x5A),
        // A hole, then something.
        3 => {
            bytes.resize(end + 200, 0);
            bytes.extend_from_slice(&[7; 100]);
        }
        // The head of a frame that was not finished.
        _ => {
            let head = bytes[256..256 + 24].to_vec();
            bytes.extend_from_slice(&head);
        }
    }
}

fn block(input: &Input, start: &Start) -> Vec<u8> {
    let mut block: Vec<u8> = input.bytes.iter().copied().cycle().take(4096).collect();
    block.resize(4096, 0);
    for (which, word) in input.words.iter().take(16) {
        let at = usize::try_from(WORDS[usize::from(*which) % WORDS.len()]).unwrap();
        let position = |lpos: u64| control::position_word(start.log, lpos & ((1 << 48) - 1));
        let word = match *word {
            Word::Raw(word) => word,
            Word::Position(lpos) => position(lpos),
            Word::NearEnd(by) => position(start.end_lpos.saturating_add_signed(by.into())),
            Word::Lane(begun, well) => position(u64::from(begun) << 24 | u64::from(well)),
        };
        block[at..at + 8].copy_from_slice(&word.to_le_bytes());
    }
    if input.ours {
        block[..40].copy_from_slice(&control::encode(start.log)[..40]);
    }
    if let Some(len) = input.len {
        block.resize(usize::from(len), 0x33);
    }
    block
}
