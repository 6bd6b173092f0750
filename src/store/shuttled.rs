//! Threads that commit through one handle, in many orders of the steps that they take around locks, queue and wake-ups.
//!
//! The library is built another way for it: `RUSTFLAGS="--cfg shuttle" cargo test --profile sim --lib shuttled`. A lost
//! wake-up is a deadlock, which shuttle reports with the schedule that leads there.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::{Options, Place, Store, Workspace};
use crate::error::{ErrorKind, Result};
use crate::log::{Durability, Housekeeping, Key, NewEvent, Vocabulary};
use crate::vfs::sim::{Profile, SimMachine};

const NOTE: u16 = 100;
const SEED: u64 = 0x666f_6c64;

/// How many commits were run by the thread of another, and how many were refused for want of time.
static LED: AtomicUsize = AtomicUsize::new(0);
static REFUSED: AtomicUsize = AtomicUsize::new(0);

fn open(machine: &SimMachine) -> Result<(Store, Workspace)> {
    let options = Options::default()
        .vocabulary(Vocabulary::new([(NOTE, 1)]))
        .housekeeping(Housekeeping::Off)
        .lock_timeout(Duration::from_secs(5));
    let store = Store::open_on(Arc::new(machine.process("p")), Path::new("/store"), options)?;
    let workspace = store.workspace(&Place::Key("shuttle".into()))?;
    Ok((store, workspace))
}

/// Every thread makes its commits; each is run once and answered to whom it belongs, or was refused and never ran.
fn commits(machine: &SimMachine, levels: &'static [&'static [Durability]]) {
    let (_store, workspace) = open(machine).unwrap();
    let threads: Vec<_> = levels
        .iter()
        .enumerate()
        .map(|(thread, levels)| {
            let workspace = workspace.clone();
            shuttle::thread::spawn(move || {
                let mut stand = Vec::new();
                for (n, level) in levels.iter().enumerate() {
                    let runs = Arc::new(AtomicUsize::new(0));
                    let key = format!("{thread}-{n}");
                    let (counted, named) = (Arc::clone(&runs), key.clone());
                    let me = shuttle::thread::current().id();
                    let answer = workspace.commit(*level, move |_, draft| {
                        counted.fetch_add(1, Ordering::Relaxed);
                        let other = shuttle::thread::current().id() != me;
                        LED.fetch_add(usize::from(other), Ordering::Relaxed);
                        draft.push(NewEvent::state(NOTE, 1, Key::task(&named), named.as_bytes()));
                        Ok(())
                    });
                    match answer {
                        Ok(receipt) => {
                            assert_eq!((runs.load(Ordering::Relaxed), receipt.count), (1, 1), "{key}");
                            assert!(receipt.durable || *level != Durability::Durable, "{receipt:?}");
                            stand.push((key, receipt.first, receipt.behind));
                        }
                        Err(e) => {
                            assert!(matches!(e.kind(), ErrorKind::Busy { .. }), "{e}");
                            REFUSED.fetch_add(1, Ordering::Relaxed);
                            assert_eq!(runs.load(Ordering::Relaxed), 0, "{key} was refused, and ran");
                        }
                    }
                }
                assert!(stand.is_sorted_by_key(|(_, seq, _)| *seq), "a thread's commits in their order");
                stand
            })
        })
        .collect();
    let stand: Vec<_> = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
    let there = workspace
        .read(|state| {
            let of = |key: &str| state.get(&Key::task(key)).map(|k| (k.last.seq, k.revision.0, k.body));
            (state.events(), stand.iter().map(|(key, ..)| of(key)).collect::<Vec<_>>())
        })
        .unwrap();
    assert_eq!(there.0, stand.len() as u64, "what was refused is not there");
    for ((key, seq, _), found) in stand.iter().zip(there.1) {
        assert_eq!(found, Some((*seq, 1, key.as_bytes().into())), "{key}");
    }
    workspace.close().unwrap();
}

fn check(orders: usize, levels: &'static [&'static [Durability]]) {
    // Statics of the library belong to one run at a time.
    static ONE: parking_lot::Mutex<()> = parking_lot::const_mutex(());
    let _one = ONE.lock();
    // The store is made once: what counts comes after.
    let machine = SimMachine::new(Profile::Linux, 1);
    let disk = Arc::new(parking_lot::Mutex::new(None));
    shuttle::check_random_with_seed(
        move || {
            let mut disk = disk.lock();
            let disk = disk.get_or_insert_with(|| {
                drop(open(&machine).unwrap());
                machine.disk()
            });
            let machine = SimMachine::from_disk(disk, 2);
            commits(&machine, levels);
        },
        SEED,
        orders,
    );
    let (led, refused) = (LED.swap(0, Ordering::Relaxed), REFUSED.swap(0, Ordering::Relaxed));
    println!("{orders} orders: {led} commits run by another thread, {refused} refused");
    assert!(led > orders / 50 && refused > orders / 500, "{led} led, {refused} refused: nothing was raced");
}

#[test]
fn three_threads_queue_and_each_gets_its_own_answer() {
    check(10_000, &[&[Durability::Buffered], &[Durability::Buffered], &[Durability::Buffered]]);
}

#[test]
fn leaders_follow_leaders() {
    check(5_000, &[&[Durability::Buffered; 3], &[Durability::Buffered; 2], &[Durability::Buffered; 2]]);
}

#[test]
fn threads_share_a_sync() {
    check(5_000, &[&[Durability::Durable], &[Durability::Durable; 2], &[Durability::Buffered; 2]]);
}
