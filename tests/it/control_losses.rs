//! What may happen to the control block while it is in use, and that it costs time and nothing else.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use foldlog::log::format;
use foldlog::vfs::sim::{Effect, Fault, Op, Plan, Profile, Program, Rng, SimMachine, SimProcess};
use foldlog::vfs::{Open, Vfs, read_full, write_full};
use foldlog::{Durability, ErrorKind, Status, Workspace};

use super::simulated::{bodies, machine_with, open_on, options, paths, put};

const PAGES: &str =
    "................................................................................................";

fn large(word: &str) -> String {
    format!("{word}{}", PAGES.repeat(100))
}

fn word(process: &SimProcess, at: u64) -> [u8; 8] {
    let mut word = [0; 8];
    let block = process.open(&paths(process).control(), Open::Read).unwrap();
    read_full(&*block, &mut word, at).unwrap();
    word
}

fn set(process: &SimProcess, at: u64, word: [u8; 8]) {
    let block = process.open(&paths(process).control(), Open::Write).unwrap();
    write_full(&*block, &word, at).map_err(|(_, e)| e).unwrap();
}

/// The first words of what every power cut would leave.
fn after_power_cuts(machine: &SimMachine) -> Vec<Vec<String>> {
    let cuts = machine.disk().crash_states(20, &mut Rng::new(7));
    let left = |bodies: Vec<String>| bodies.iter().map(|b| b.trim_end_matches('.').to_owned()).collect();
    cuts.map(|disk| left(bodies(&SimMachine::from_disk(&disk, 9).process("looks")))).collect()
}

/// Somebody deleted the block, and again just when it had been made anew: the commit failed with "not found".
#[test]
fn block_that_is_deleted_while_it_is_made_is_made_again() {
    let missing = std::io::ErrorKind::NotFound;
    for nth in 1..6 {
        let machine = machine_with(Profile::Linux, 1, &["first"]);
        let (_store, workspace) = open_on(&machine.process("p"), options()).unwrap();
        let other = machine.process("somebody");
        other.unlink(&paths(&other).control()).unwrap();
        machine.fault(Fault::on(Op::Open, Effect::Fail(missing)).path("/control").nth(nth));
        let _ = put(&workspace, Durability::Durable, "a", "second").unwrap();
    }
}

/// The tail word was put back to what a process had seen, so that its flush did not look for what others had committed.
#[test]
fn flush_covers_what_others_committed_whatever_the_tail_word_says() {
    let machine = machine_with(Profile::Linux, 1, &["first"]);
    let (_a, a) = open_on(&machine.process("a"), options()).unwrap();
    let (_b, b) = open_on(&machine.process("b"), options()).unwrap();
    let _ = put(&a, Durability::Durable, "a", "second").unwrap();
    let _ = a.read(|state| state.last()).unwrap();
    let somebody = machine.process("somebody");
    let stale = word(&somebody, format::WORD_TAIL);
    let _ = put(&b, Durability::Buffered, "a", &large("third")).unwrap();
    set(&somebody, format::WORD_TAIL, stale);
    a.flush().unwrap();
    for left in after_power_cuts(&machine) {
        assert_eq!(left, ["first", "second", "third"]);
    }
}

fn durably(workspace: &Workspace, receipt: &foldlog::Receipt) -> foldlog::Result<()> {
    workspace.log().wait_durable(receipt, Duration::from_secs(30))
}

/// The block was deleted and made anew by one process; another one still counted its syncs in the old one, where a sync
/// failed that it alone was told of, and died.
#[test]
fn sync_that_failed_beside_a_deleted_block_is_suspect_to_all() {
    let machine = machine_with(Profile::Mac, 1, &["first"]);
    let (_a, a) = open_on(&machine.process("a"), options()).unwrap();
    let (_b, b) = open_on(&machine.process("b"), options()).unwrap();
    let _ = put(&a, Durability::Durable, "a", "second").unwrap();
    let somebody = machine.process("somebody");
    somebody.unlink(&paths(&somebody).control()).unwrap();
    let _ = put(&b, Durability::Durable, "a", "third").unwrap();
    let receipt = put(&b, Durability::Buffered, "a", &large("fourth")).unwrap();
    machine.fault(Fault::on(Op::Sync, Effect::DropsPages).path(".seg").process("a").deadly());
    let died = catch_unwind(AssertUnwindSafe(|| put(&a, Durability::Durable, "a", &large("fifth"))));
    assert!(died.is_err(), "it was killed at its sync");
    durably(&b, &receipt).unwrap();
    for left in after_power_cuts(&machine) {
        assert_eq!(left[..4], ["first", "second", "third", "fourth"]);
    }
}

/// A sync failed, whoever had asked for it died before it could say so, and the durable word was beyond the end: the next to
/// open the segment took all of it for vouched for, did not write it again, and its own sync covered nothing.
#[test]
fn durable_word_beyond_the_end_vouches_for_nothing() {
    let machine = machine_with(Profile::Linux, 1, &["first"]);
    let a = machine.process("a");
    let (_store, workspace) = open_on(&a, options()).unwrap();
    let _ = put(&workspace, Durability::Buffered, "a", "second").unwrap();
    machine.fault(Fault::on(Op::Sync, Effect::DropsPages).path(".seg").deadly());
    assert!(catch_unwind(AssertUnwindSafe(|| workspace.flush())).is_err() && !a.is_alive(), "it told nobody");
    machine.clear_faults();
    let (left, log) = (machine.disk().process_kill(), workspace.log().id());
    let beyond = foldlog::log::control::position_word(log, 1_000_000).to_le_bytes();
    let (mut well, mut lost) = (0, 0);
    // The word is put there before any one of its calls.
    for call in 1..150 {
        let machine = SimMachine::from_disk(&left, 5);
        let flushed = std::sync::Mutex::new(None);
        let flushes = |process: SimProcess| {
            let (_store, workspace) = open_on(&process, options()).unwrap();
            *flushed.lock().unwrap() = Some(workspace.flush().is_ok());
        };
        let forges = |process: SimProcess| set(&process, format::WORD_DURABLE, beyond);
        let programs = vec![Program::new("flushes", flushes), Program::new("forges", forges)];
        let plan = Plan::new().stall("flushes", call, Some(1_000)).stall("forges", 1, Some(call));
        let run = machine.run(1, programs, &plan);
        assert_eq!(run.panics(), Vec::<&str>::new());
        if !flushed.lock().unwrap().take().unwrap() {
            lost += 1;
            continue;
        }
        well += 1;
        for left in after_power_cuts(&machine) {
            assert_eq!(left, ["first", "second"], "the word was there before call {call}");
        }
    }
    assert!(well > 20 && lost > 5, "{well} {lost}");
}

/// Who cannot read a log to its end cannot say that all of it is durable: it does not know what there is. Here others can:
/// the word that stopped it is gone again, and they have gone on.
#[test]
fn flush_by_who_cannot_read_to_the_end_is_no_success() {
    let machine = machine_with(Profile::Linux, 5, &["first"]);
    let (well, stopped) = (machine.process("well"), machine.process("stopped"));
    let (_store, writes) = open_on(&well, options()).unwrap();
    let word = word_at(&well, format::WORD_DURABLE);
    let beyond = foldlog::log::control::position_word(writes.log().id(), 1_000_000).to_le_bytes();
    set(&well, format::WORD_DURABLE, beyond);
    let (_store2, flushes) = open_on(&stopped, options()).unwrap();
    assert_eq!(flushes.health().status, Status::Damaged, "{:?}", flushes.health());
    set(&well, format::WORD_DURABLE, word);
    let _ = put(&writes, Durability::Buffered, "k", "second").unwrap();
    let refused = flushes.flush().unwrap_err();
    assert!(matches!(refused.kind(), ErrorKind::Damaged(_)), "{refused}");
    writes.flush().unwrap();
    for left in after_power_cuts(&machine) {
        assert_eq!(left, ["first", "second"]);
    }
}

fn word_at(process: &SimProcess, at: u64) -> [u8; 8] {
    let block = process.open(&paths(process).control(), Open::Read).unwrap();
    let mut word = [0; 8];
    assert_eq!(read_full(&*block, &mut word, at).unwrap(), 8);
    word
}
