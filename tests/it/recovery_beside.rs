//! A log that is recovered from a failed sync beside a commit that is under way: what that commit is told is true, and so
//! is what it tells others.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use foldlog::log::format::WORD_POISON;
use foldlog::vfs::sim::{Effect, Fault, Op, Profile, SimMachine, SimProcess};
use foldlog::vfs::{Open, Vfs};
use foldlog::{Durability, ErrorKind, Seq, Status, Store, Workspace};
use parking_lot::Mutex;

use crate::hooked::Hooked;
use crate::simulated::{ROOT, bodies, log_of, machine_with, open_on, options, paths, place, put, segments};

const D: Durability = Durability::Durable;
const B: Durability = Durability::Buffered;

/// What happens before a call, once.
type Interlude = Box<dyn FnOnce() + Send>;

/// The call before which it comes, on what path, and what comes.
type Awaited = (Op, &'static str, Interlude);

/// A process in the middle of whose calls something else can be done by others.
struct Stage {
    machine: SimMachine,
    next: Arc<Mutex<Option<Awaited>>>,
    _store: Store,
    ws: Workspace,
}

impl Stage {
    fn new(profile: Profile) -> Stage {
        let machine = machine_with(profile, 1, &["one"]);
        let next = Arc::new(Mutex::new(None::<(Op, &'static str, Interlude)>));
        let asked = Arc::clone(&next);
        let vfs = Hooked::new(Arc::new(machine.process("slow")), move |op, path| {
            let hit = |(wanted, part, _): &mut (Op, &str, _)| {
                *wanted == op && path.to_string_lossy().contains(*part)
            };
            let interlude = asked.lock().take_if(hit);
            if let Some((_, _, run)) = interlude {
                // On a thread of its own: which locks are held is kept by thread.
                std::thread::spawn(run).join().unwrap();
            }
        });
        let store = Store::open_on(vfs, Path::new(ROOT), options()).unwrap();
        let ws = store.workspace(&place()).unwrap();
        // Its bytes are its own from here on, and no housekeeping comes between.
        let _ = put(&ws, D, "a", "two").unwrap();
        Stage { machine, next, _store: store, ws }
    }

    fn before(&self, op: Op, part: &'static str, run: impl FnOnce() + Send + 'static) {
        *self.next.lock() = Some((op, part, Box::new(run)));
    }
}

/// Several pages, which are not written again with what follows.
fn large(what: &str) -> String {
    format!("{what} {}", "-".repeat(9_000))
}

/// A durable commit whose sync drops everything that was not synced yet; then the pages are gone from memory too.
fn lose_all(machine: &SimMachine, ws: &Workspace) {
    machine.fault(Fault::on(Op::Sync, Effect::DropsPages).path(".seg"));
    let lost = put(ws, D, "b", &large("fails")).unwrap_err();
    assert!(matches!(lost.kind(), ErrorKind::DurabilityLost { .. }), "{lost}");
    machine.clear_faults();
    machine.evict();
}

/// What everybody finds in the end: a log without damage, healthy, with exactly these bodies, that can be written.
fn is_well(machine: &SimMachine, there: &[&str]) {
    let process = machine.process("auditor");
    let (_, walk) = log_of(&process).unwrap();
    assert_eq!(walk.damage, None);
    let short: Vec<String> =
        bodies(&process).iter().map(|b| b.split(' ').next().unwrap().to_owned()).collect();
    assert_eq!(short, there);
    let (_store, ws) = open_on(&machine.process("newcomer"), options()).unwrap();
    assert_eq!(ws.health().status, Status::Healthy, "{:?}", ws.health());
    assert!(put(&ws, D, "z", "goes-on").unwrap().durable);
}

/// A commit stands; before it is synced, another process's sync drops its bytes, a third recovers what is left and
/// writes on, beyond the place where that commit stood. Everything up to there is durable then, and the commit is not in it.
#[test]
fn commit_that_a_recovery_has_cut_is_not_called_durable() {
    for profile in [Profile::Linux, Profile::Mac] {
        let stage = Stage::new(profile);
        let (machine, other, third) =
            (stage.machine.clone(), stage.machine.process("other"), stage.machine.process("third"));
        stage.before(Op::Lock, "SYNC0", move || {
            let (_store, other) = open_on(&other, options()).unwrap();
            lose_all(&machine, &other);
            let (_store, third) = open_on(&third, options()).unwrap();
            assert_eq!(third.health().status, Status::Healthy, "recovered at open");
            for text in ["longer", "than-that"] {
                assert!(put(&third, D, "c", &format!("{text} {}", large(""))).unwrap().durable);
            }
        });
        let told = put(&stage.ws, D, "a", &large("cut")).unwrap_err();
        assert!(matches!(told.kind(), ErrorKind::DurabilityLost { .. }), "{profile:?}: {told}");
        assert_eq!(stage.ws.health().status, Status::Healthy, "{profile:?}");
        is_well(&stage.machine, &["one", "two", "longer", "than-that"]);
        assert!(put(&stage.ws, D, "a", "goes-on").unwrap().durable);
    }
}

/// A sync stands in its lane. Another process's fails, and drops the bytes that the first is to sync; on this system only
/// the one that failed is told. Nobody recovers before the first has said what came of it: else that would say of a log
/// that has become shorter how far it is durable, and call its own commit so.
#[test]
fn recovery_waits_for_the_syncs_that_are_under_way() {
    let stage = Stage::new(Profile::Mac);
    let (machine, other, third) =
        (stage.machine.clone(), stage.machine.process("other"), stage.machine.process("third"));
    stage.before(Op::Sync, ".seg", move || {
        let (_store, other) = open_on(&other, options()).unwrap();
        lose_all(&machine, &other);
        let (_store, third) = open_on(&third, options()).unwrap();
        match put(&third, D, "c", "short") {
            Ok(receipt) => assert!(receipt.durable),
            Err(busy) => assert!(matches!(busy.kind(), ErrorKind::Busy { .. }), "{busy}"),
        }
    });
    let told = put(&stage.ws, D, "a", &large("cut")).unwrap_err();
    assert!(matches!(told.kind(), ErrorKind::DurabilityLost { .. }), "{told}");
    is_well(&stage.machine, &["one", "two"]);
    assert!(put(&stage.ws, D, "a", "goes-on").unwrap().durable);
}

/// Three things speak of a failed sync: POISON, the control block's word, and for the process that met it the segment it
/// was met in. As long as any of them does, a process that knows of it does not call the log healthy, and the next writer
/// recovers.
#[test]
fn failed_sync_is_not_forgotten_while_anything_speaks_of_it() {
    for (file, word) in [(true, true), (true, false), (false, true), (false, false)] {
        let machine = machine_with(Profile::Linux, 1, &["one"]);
        let (_store, failed) = open_on(&machine.process("failed"), options()).unwrap();
        let (_store2, knows) = open_on(&machine.process("knows"), options()).unwrap();
        let _ = put(&knows, D, "a", "two").unwrap();
        machine.fault(Fault::on(Op::Sync, Effect::DropsPages).path(".seg"));
        let lost = put(&failed, D, "b", "three").unwrap_err();
        assert!(matches!(lost.kind(), ErrorKind::DurabilityLost { .. }), "{lost}");
        machine.clear_faults();
        let somebody: SimProcess = machine.process("somebody");
        let files = paths(&somebody);
        // The other one hears of it, and cannot recover: LOCK is held.
        let lock = somebody.open(&files.lock(), Open::Lock).unwrap();
        assert!(lock.try_lock().unwrap());
        let busy = knows.flush().unwrap_err();
        assert!(matches!(busy.kind(), ErrorKind::Busy { .. }), "{busy}");
        assert_eq!(knows.health().status, Status::DurabilityLost);
        lock.unlock().unwrap();
        if !file {
            somebody.unlink(&files.poison()).unwrap();
        }
        if !word {
            let at = usize::try_from(WORD_POISON).unwrap();
            let clear = |bytes: &mut Vec<u8>| bytes[at..at + 8].fill(0);
            machine.with_disk(|disk| disk.mutate(files.control(), clear)).unwrap();
        }
        let what = format!("POISON {file}, word {word}");
        let expected = if file || word { Status::DurabilityLost } else { Status::Healthy };
        assert_eq!(knows.health().status, expected, "{what}: who has heard of it");
        assert_eq!(failed.health().status, Status::DurabilityLost, "{what}: who met it");
        machine.advance(Duration::from_secs(2));
        // Whoever writes first recovers, if it knows of it; the one that met it always does.
        let who = if file || word { &knows } else { &failed };
        assert!(put(who, D, "c", "four").unwrap().durable, "{what}");
        assert_eq!(
            segments(&somebody).iter().filter(|s| s.to_string_lossy().contains("-g1-")).count(),
            1,
            "{what}"
        );
        for ws in [&failed, &knows] {
            assert_eq!(ws.read(foldlog::State::last).unwrap(), Seq(4), "{what}");
            assert_eq!(ws.health().status, Status::Healthy, "{what}: {:?}", ws.health());
        }
        assert_eq!(bodies(&somebody), ["one", "two", "three", "four"], "{what}");
        let _ = put(&failed, B, "d", "five").unwrap();
    }
}

/// A sync fails, and somebody recovers; then both write on. Whoever did either is gone.
fn fail_and_recover(machine: &SimMachine, round: u32, segment: u64) {
    let options = || options().segment_size(segment);
    let (failing, healing) =
        (machine.process(&format!("fails {round}")), machine.process(&format!("heals {round}")));
    let (_store, ws) = open_on(&failing, options()).unwrap();
    // A small segment may be full: the sync that fails is that of the full one then.
    machine.fault(Fault::on(Op::Sync, Effect::DropsPages).path("/log/0").always());
    let lost = put(&ws, D, "b", &large("fails")).unwrap_err();
    assert!(matches!(lost.kind(), ErrorKind::DurabilityLost { .. }), "{lost}");
    machine.clear_faults();
    machine.evict();
    machine.kill(&failing);
    let (_store, ws) = open_on(&healing, options()).unwrap();
    assert_eq!(ws.health().status, Status::Healthy, "recovered at open");
    for n in 0..2 {
        let _ = put(&ws, D, "c", &large(&format!("healed-{round}-{n}"))).unwrap();
    }
    machine.kill(&healing);
}

/// A log is recovered twice, the second time before any of the calls by which a reader follows the first: it has read the
/// first copy, which is full by then or is not, and must not go over to what comes behind that without a look whether
/// another copy has taken its place.
#[test]
fn second_recovery_at_any_call_of_following_the_first_is_followed() {
    let mut stops = 0;
    for (segment, read_only) in [(1 << 20, true), (1 << 20, false), (12 << 10, true), (12 << 10, false)] {
        for nth in 1.. {
            let machine = machine_with(Profile::Linux, 1, &["one"]);
            let left = Arc::new(Mutex::new(None::<u32>));
            let (count, beside) = (Arc::clone(&left), machine.clone());
            let vfs = Hooked::new(Arc::new(machine.process("follows")), move |_, _| {
                let mut count = count.lock();
                if let Some(n) = count.as_mut() {
                    *n -= 1;
                    if *n == 0 {
                        *count = None;
                        drop(count);
                        let beside = beside.clone();
                        std::thread::spawn(move || fail_and_recover(&beside, 2, segment)).join().unwrap();
                    }
                }
            });
            let reader = || options().segment_size(segment).read_only(true);
            let options = if read_only { reader() } else { options().segment_size(segment) };
            let store = Store::open_on(vfs, Path::new(ROOT), options).unwrap();
            let ws = store.workspace(&place()).unwrap();
            assert_eq!(ws.read(foldlog::State::last).unwrap(), Seq(1));
            fail_and_recover(&machine, 1, segment);
            machine.advance(Duration::from_secs(2));
            *left.lock() = Some(nth);
            let what = format!("segments of {segment}, read-only {read_only}, before call {nth}");
            let followed = ws.read(foldlog::State::last);
            if left.lock().take().is_some() {
                assert!(nth > 10, "{what}: so few calls");
                break;
            }
            stops += 1;
            assert!(followed.is_ok(), "{what}: {followed:?}");
            machine.advance(Duration::from_secs(2));
            let fresh = open_on(&machine.process("fresh"), reader()).unwrap().1;
            let view = |ws: &Workspace| ws.read(|s| (s.last(), s.epochs().len(), s.hash())).unwrap();
            assert_eq!(view(&ws), view(&fresh), "{what}");
        }
    }
    println!("{stops} stops");
    assert!(stops > 60, "{stops}");
}
