//! Opening and the first read, beside a writer that is stopped anywhere, on a full disk, and with a damaged log: they take
//! few calls, wait for nobody, and read what had been acknowledged.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use foldlog::vfs::Vfs;
use foldlog::vfs::sim::{Op, Profile, SimMachine, SimProcess};
use foldlog::{Durability, ErrorKind, Options, State, Status, Store, Workspace};

use crate::hooked::Hooked;
use crate::simulated::{ROOT, machine_with, open_on, options, place, put, quick, segments};

/// The most calls of an open and a first read, whoever is stopped where. (About 300 on a log that is still; where its end is
/// in motion it is looked at a few times.)
const CALLS_MAX: u64 = 1_500;
/// The most time that passes for it: who seems alive is asked three times within 50 ms.
const TIME_MAX: Duration = Duration::from_millis(250);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Weather {
    Fine,
    Full,
    Damaged,
}

/// Opens and reads as a process of its own, and returns the last event and the status; `None` = it may not write here.
fn look(
    machine: &SimMachine,
    label: &str,
    options: Options,
    weather: Weather,
    what: &str,
) -> Option<(u64, Status)> {
    let calls = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&calls);
    let process = machine.process(label);
    let vfs = Hooked::new(Arc::new(process.clone()), move |op, path| {
        let n = counted.fetch_add(1, Ordering::Relaxed);
        assert!(n < CALLS_MAX, "an open waits: {op:?} {}", path.display());
    });
    let before = process.monotonic();
    let opened = Store::open_on(vfs, Path::new(ROOT), options).and_then(|store| {
        let ws = store.workspace(&place())?;
        let last = ws.read(State::last)?.0;
        Ok((store, ws, last))
    });
    let took = process.monotonic() - before;
    assert!(took < TIME_MAX, "{what}: {took:?}");
    match opened {
        Ok((_store, ws, last)) => {
            let status = ws.health().status;
            // Killed, not closed: what a close does is another matter.
            machine.kill(&process);
            Some((last, status))
        }
        Err(e) => {
            assert!(weather == Weather::Full && matches!(e.kind(), ErrorKind::NoSpace), "{what}: {e}");
            None
        }
    }
}

/// What is committed while others come: buffered, durable, over a rotation, and a Mark at the end.
fn busy(ws: &Workspace, acked: &AtomicU64) {
    for n in 0..5 {
        let level = if n % 2 == 0 { Durability::Buffered } else { Durability::Durable };
        if let Ok(receipt) = put(ws, level, "k", &"x".repeat(1500)) {
            acked.store(receipt.last().0, Ordering::Relaxed);
        }
    }
    let _ = ws.clone().close();
}

/// A writer is stopped before its `k`-th call, for as long as two others take to open and read. Returns its calls.
fn stopped_at(k: u64, weather: Weather) -> u64 {
    let machine = machine_with(Profile::Linux, k, &["one", "two", "three"]);
    let (calls, acked) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(3)));
    let stopped = {
        let (machine, calls, acked) = (machine.clone(), Arc::clone(&calls), Arc::clone(&acked));
        move |_: Op, _: &Path| {
            if calls.fetch_add(1, Ordering::Relaxed) + 1 != k {
                return;
            }
            let auditor = machine.process("auditor");
            strike(&machine, &auditor, weather);
            // On a thread of its own: which locks are held is kept by thread.
            let others = || {
                for (label, read_only) in [("reader", true), ("writer", false)] {
                    let what = format!("{label}, writer stopped before call {k}, {weather:?}");
                    let found = look(
                        &machine,
                        label,
                        options().segment_size(4096).read_only(read_only),
                        weather,
                        &what,
                    );
                    assert!(found.is_some() || !read_only, "{what}: a reader is refused");
                    let Some((last, status)) = found else { continue };
                    if weather == Weather::Damaged {
                        assert_eq!((last, status), (1, Status::Damaged), "{what}");
                    } else {
                        let expected = if read_only { Status::ReadOnly } else { Status::Healthy };
                        assert_eq!(status, expected, "{what}");
                        assert!(last >= acked.load(Ordering::Relaxed), "{what}: {last}");
                    }
                }
            };
            std::thread::scope(|scope| scope.spawn(others).join().unwrap());
            machine.set_capacity(None);
        }
    };
    let process = machine.process("stopped");
    let vfs = Hooked::new(Arc::new(process), stopped);
    if let Ok(store) = Store::open_on(vfs, Path::new(ROOT), options().segment_size(4096))
        && let Ok(ws) = store.workspace(&place())
    {
        busy(&ws, &acked);
    }
    calls.load(Ordering::Relaxed)
}

/// Fills the disk, or damages the second event, which was acknowledged as durable.
fn strike(machine: &SimMachine, auditor: &SimProcess, weather: Weather) {
    match weather {
        Weather::Fine => {}
        Weather::Full => machine.set_capacity(Some(machine.used())),
        Weather::Damaged => {
            let first = segments(auditor).remove(0);
            let flip = |bytes: &mut Vec<u8>| {
                let two = bytes.windows(3).position(|bytes| bytes == b"two").unwrap();
                bytes[two] ^= 1;
            };
            machine.with_disk(|disk| disk.mutate(&first, flip)).unwrap();
        }
    }
}

#[test]
fn open_and_first_read_pass_a_writer_that_is_stopped_anywhere() {
    for weather in [Weather::Fine, Weather::Full, Weather::Damaged] {
        let mut k = 1;
        loop {
            let calls = stopped_at(k, weather);
            if k > calls {
                break;
            }
            k += if quick() { 7 } else { 1 };
        }
        assert!(k > 150, "{weather:?}: a writer of {k} calls writes nothing");
        println!("{weather:?}: stopped before each of {k} calls");
    }
}

/// Nobody opens by taking LOCK, a lane or COMPACT: all of them are held, for good.
#[test]
fn open_and_first_read_take_none_of_the_locks() {
    for weather in [Weather::Fine, Weather::Full, Weather::Damaged] {
        let machine = machine_with(Profile::Linux, 1, &["one", "two", "three"]);
        let holder = machine.process("holder");
        let files = crate::simulated::paths(&holder);
        let held = [files.lock(), files.sync0(), files.sync1(), files.compact()].map(|path| {
            let file = holder.open(&path, foldlog::vfs::Open::Lock).unwrap();
            assert!(file.try_lock().unwrap());
            file
        });
        strike(&machine, &holder, weather);
        for (label, read_only) in [("reader", true), ("writer", false)] {
            let found = look(&machine, label, options().read_only(read_only), weather, label);
            assert!(found.is_some() || !read_only);
            if let Some((last, _)) = found {
                assert_eq!(last, if weather == Weather::Damaged { 1 } else { 3 }, "{label}, {weather:?}");
            }
        }
        machine.set_capacity(None);
        drop(held);
        if weather != Weather::Damaged {
            let (_store, ws) = open_on(&machine.process("next"), options()).unwrap();
            assert!(put(&ws, Durability::Durable, "a", "four").unwrap().durable);
        }
    }
}
