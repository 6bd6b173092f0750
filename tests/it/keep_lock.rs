//! LOCK kept over a burst of commits: who waits for it gets it soon, whatever becomes of the keeper, the waiter and the
//! word by which they talk.

use std::path::Path;
use std::time::Duration;

use foldlog::log::format::{WORD_HOLDER, WORD_WANTED};
use foldlog::vfs::sim::{Op, Outcome, Plan, Profile, Program, SimMachine, SimProcess};
use foldlog::vfs::{Open, Vfs};
use foldlog::{Durability, ErrorKind, KeepLock, Options, Seq, Store, Workspace};

use crate::simulated::{bodies, budget, file, last, machine_with, open_on, options, paths, put};

const BUFFERED: Durability = Durability::Buffered;

fn keeping() -> Options {
    options().keep_lock(KeepLock::UntilTick).label("keeper")
}

fn hurried() -> Options {
    options().keep_lock(KeepLock::Never).lock_timeout(Duration::from_millis(1)).label("waiter")
}

/// A machine, and on it a process that commits in a burst and keeps LOCK by now.
struct Stage {
    machine: SimMachine,
    process: SimProcess,
    keeper: Workspace,
    _store: Store,
    commits: u64,
}

impl Stage {
    fn new() -> Stage {
        let machine = machine_with(Profile::Linux, 1, &[]);
        let process = machine.process("keeper");
        let (store, keeper) = open_on(&process, keeping()).unwrap();
        let mut stage = Stage { machine, process, keeper, _store: store, commits: 0 };
        stage.burst(4, Duration::ZERO);
        stage
    }

    /// Commits of the keeper, this long apart. Returns how often it took LOCK for them.
    fn burst(&mut self, n: u64, apart: Duration) -> u64 {
        let before = self.machine.calls(Op::Lock);
        for _ in 0..n {
            self.commits += 1;
            let body = self.commits.to_string();
            let _ = put(&self.keeper, BUFFERED, "a", &body).unwrap();
            self.machine.advance(apart);
        }
        self.machine.calls(Op::Lock) - before
    }

    fn is_locked(&self) -> bool {
        let process = self.machine.process("prober");
        let lock = process.open(&paths(&process).lock(), Open::Lock).unwrap();
        let free = lock.try_lock().unwrap();
        if free {
            lock.unlock().unwrap();
        }
        !free
    }

    /// A word of the control block that stands.
    fn word(&self, at: u64) -> u64 {
        let somebody = self.machine.process("somebody");
        let bytes = file(&somebody, &paths(&somebody).control());
        let at = usize::try_from(at).unwrap();
        u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
    }

    fn set_word(&self, at: u64, word: u64) {
        let path = paths(&self.process).control();
        let at = usize::try_from(at).unwrap();
        let set = |bytes: &mut Vec<u8>| bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
        self.machine.with_disk(|disk| disk.mutate(&path, set)).unwrap();
    }

    fn waiter(&self) -> (Store, Workspace) {
        open_on(&self.machine.process("waiter"), hurried()).unwrap()
    }
}

/// One commit of somebody else who waits for a millisecond; whether it got LOCK.
fn try_once(waiter: &Workspace) -> bool {
    match put(waiter, BUFFERED, "b", "waiter") {
        Ok(_) => true,
        Err(e) => match e.kind() {
            ErrorKind::Busy { holder, .. } => {
                assert!(holder.starts_with("keeper (pid"), "who holds LOCK is named: {holder:?}");
                false
            }
            _ => panic!("{e}"),
        },
    }
}

#[test]
fn burst_takes_the_lock_once() {
    let mut stage = Stage::new();
    assert!(stage.is_locked());
    assert_eq!(stage.burst(200, Duration::ZERO), 0, "a kept lock was taken again");
    // Everybody sees each commit at once all the same.
    let (_store, reader) = open_on(&stage.machine.process("reader"), options().read_only(true)).unwrap();
    for _ in 0..20 {
        stage.burst(1, Duration::ZERO);
        assert_eq!(last(&reader), Seq(stage.commits));
    }
    // Not a burst: every commit gives it back.
    assert_eq!(stage.burst(1, Duration::from_millis(1)), 0);
    assert!(stage.burst(10, Duration::from_millis(1)) >= 9);
    assert!(!stage.is_locked());
    // And where nobody could give it back, it is never kept.
    let (_store, never) = open_on(&stage.machine.process("never"), options()).unwrap();
    let _ = put(&never, BUFFERED, "a", "looks for a witness").unwrap();
    let before = stage.machine.calls(Op::Lock);
    for n in 0..20 {
        let _ = put(&never, BUFFERED, "a", &n.to_string()).unwrap();
    }
    assert_eq!(stage.machine.calls(Op::Lock) - before, 20);
}

#[test]
fn word_of_a_waiter_is_heard_within_a_turn() {
    let mut stage = Stage::new();
    for round in 0..5 {
        stage.burst(20, Duration::from_micros(5));
        assert!(stage.is_locked(), "round {round}");
        stage.set_word(WORD_WANTED, 1);
        let start = stage.process.monotonic();
        while stage.is_locked() {
            stage.burst(1, Duration::from_micros(5));
            let waited = stage.process.monotonic() - start;
            assert!(waited < Duration::from_micros(700), "{waited:?} for a turn of 500 µs");
        }
        assert_eq!(stage.word(WORD_WANTED), 0);
    }
}

/// In any order: nobody gives up, and nothing is lost. (Simulated clocks jump, so this says nothing about times.)
#[test]
fn waiter_and_keeper_both_get_on() {
    for seed in 0..budget(12) {
        let machine = machine_with(Profile::Linux, seed, &[]);
        let committing = |label: &'static str, options: fn() -> Options, commits: u32| {
            Program::new(label, move |process| {
                let (_store, ws) = open_on(&process, options().lock_timeout(Duration::from_secs(5))).unwrap();
                for n in 0..commits {
                    let _ = put(&ws, BUFFERED, label, &format!("{label}{n}")).unwrap();
                }
            })
        };
        let programs = vec![committing("k", keeping, 400), committing("w", hurried, 6)];
        let run = machine.run(seed, programs, &Plan::new().step_limit(200_000));
        assert_eq!((run.panics(), &run.outcome), (vec![""; 0], &Outcome::Done), "{run}");
        assert_eq!(bodies(&machine.process("auditor")).len(), 406);
    }
}

#[test]
fn idle_keeper_gives_the_lock_back_at_a_tick() {
    let stage = Stage::new();
    let (_store, waiter) = stage.waiter();
    assert!(!try_once(&waiter), "it is kept as long as the host does not tick");
    let next = stage.keeper.tick().unwrap();
    assert!(next.is_some());
    stage.machine.advance(Duration::from_micros(200));
    stage.keeper.tick().unwrap();
    assert!(!stage.is_locked());
    assert_eq!(stage.word(WORD_WANTED), 0, "who called is told, not left to find out");
    assert!(try_once(&waiter));
}

#[test]
fn killed_keeper_frees_the_lock() {
    let stage = Stage::new();
    let (_store, waiter) = stage.waiter();
    assert!(!try_once(&waiter));
    stage.machine.kill(&stage.process);
    let tries = stage.machine.calls(Op::Sleep);
    assert!(try_once(&waiter));
    assert_eq!(stage.machine.calls(Op::Sleep), tries, "nobody waits for a dead keeper");
    assert_eq!(bodies(&stage.machine.process("auditor")), ["1", "2", "3", "4", "waiter"]);
}

#[test]
fn word_of_a_waiter_that_died_costs_one_turn() {
    let mut stage = Stage::new();
    let process = stage.machine.process("waiter");
    let (_store, waiter) = open_on(&process, hurried()).unwrap();
    assert!(!try_once(&waiter));
    stage.machine.kill(&process);
    // Its turn first; then the lock is given back, taken again, and kept.
    assert_eq!(stage.burst(200, Duration::from_micros(5)), 1, "given back once, taken again for the burst");
    assert_eq!(stage.burst(200, Duration::ZERO), 0);
}

/// The keeper looked at its paths while it kept the lock, and so never again at the block; the others had another one,
/// and called in vain until they gave up.
#[test]
fn waiter_is_heard_in_the_block_that_stands() {
    let mut stage = Stage::new();
    let (_store, waiter) = stage.waiter();
    let somebody = stage.machine.process("somebody");
    let control = paths(&somebody).control();
    somebody.unlink(&control).unwrap();
    // A third of a second.
    stage.burst(9_000, Duration::from_micros(40));
    assert!(somebody.stat(&control).is_ok(), "the keeper has made the block anew");
    assert!(!try_once(&waiter));
    assert_ne!(stage.word(WORD_WANTED), 0, "the waiter has called");
    stage.burst(20, Duration::from_micros(20));
    assert_eq!(stage.word(WORD_WANTED), 0, "the keeper has heard it, and given way");
}

#[test]
fn nothing_is_synced_under_a_kept_lock() {
    let machine = machine_with(Profile::Linux, 3, &[]);
    let program = Program::new("keeper", |process| {
        let (_store, ws) = open_on(&process, keeping()).unwrap();
        for n in 0..60 {
            let level = match n % 12 {
                5 => Durability::Durable,
                8 => Durability::Interval(0),
                _ => BUFFERED,
            };
            let receipt = put(&ws, level, "a", &n.to_string()).unwrap();
            match n % 12 {
                8 => drop(ws.tick().unwrap()),
                10 => ws.flush().unwrap(),
                11 => ws.log().wait_durable(&receipt, Duration::from_secs(1)).unwrap(),
                _ => {}
            }
        }
        ws.close().unwrap();
    });
    let run = machine.run(3, vec![program], &Plan::new());
    assert_eq!(run.panics(), [""; 0], "{run}");
    let is_lock = |path: &Path| path.ends_with("LOCK");
    let (mut held, mut kept, mut syncs) = (false, 0, 0);
    for call in &run.trace {
        match call.op {
            Op::Lock if is_lock(&call.path) => held = true,
            Op::Unlock if is_lock(&call.path) => held = false,
            Op::Write if held => kept += 1,
            Op::Sync if call.path.extension().is_some_and(|e| e == "seg") => {
                syncs += 1;
                assert!(!held, "synced under LOCK: {run}");
            }
            _ => {}
        }
    }
    assert!(syncs >= 15 && kept > 60, "{syncs} syncs, {kept} writes");
}

#[test]
fn close_gives_the_lock_back_while_other_handles_live() {
    for refused in [false, true] {
        let stage = Stage::new();
        let (_store, waiter) = stage.waiter();
        if refused {
            // Nothing is due after commits that were refused, and the lock is kept all the same.
            stage.keeper.clone().close().unwrap();
            for _ in 0..4 {
                let refuse = stage.keeper.commit(BUFFERED, |_, draft| {
                    draft.expect(foldlog::Key::task("a"), foldlog::Expect::Absent);
                    Ok(())
                });
                assert!(refuse.is_err());
            }
        }
        stage.keeper.clone().close().unwrap();
        assert!(try_once(&waiter), "refused: {refused}");
    }
}

#[test]
fn forked_child_leaves_the_kept_lock_to_its_parent() {
    let stage = Stage::new();
    let (_store, waiter) = stage.waiter();
    stage.process.become_forked_child();
    let refused = put(&stage.keeper, BUFFERED, "a", "child").unwrap_err();
    assert!(matches!(refused.kind(), ErrorKind::Forked), "{refused}");
    assert!(stage.keeper.tick().is_err());
    let Stage { machine, process, keeper, _store: store, .. } = stage;
    drop((keeper, store));
    assert!(!try_once(&waiter), "the child has freed its parent's lock");
    machine.kill(&process);
    assert!(try_once(&waiter));
}

/// Garbage in the word makes a keeper give way, no more; garbage in the holder's names nobody who is not alive.
#[test]
fn rubbish_in_the_words_between_waiter_and_keeper_costs_time_only() {
    let mut stage = Stage::new();
    let (_store, waiter) = stage.waiter();
    for word in [1, u64::MAX, 0x5A5A_5A5A_5A5A_5A5A] {
        stage.set_word(WORD_WANTED, word);
        stage.set_word(WORD_HOLDER[0], word);
        assert!(!try_once(&waiter), "and the keeper is named, as one of the live sessions");
        assert!(stage.burst(100, Duration::from_micros(5)) <= 2);
    }
}
