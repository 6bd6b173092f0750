//! Reads beside a commit of the same process: for what that syncs, they do not wait.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use foldlog::vfs::sim::{Op, Profile, SimMachine};
use foldlog::{Consistency, Durability, State, Status, Store, Workspace};
use parking_lot::Mutex;

use crate::hooked::Hooked;
use crate::simulated::{ROOT, bodies, machine_with, options, paths, place, put, segments};
use crate::worker::BOUND;

/// Stands in the next sync of a segment that is made under LOCK, until it is let go.
#[derive(Default)]
struct Gate {
    under_lock: AtomicBool,
    wanted: Mutex<Option<(Sender<()>, Receiver<()>)>>,
}

impl Gate {
    fn call(&self, op: Op, path: &Path) {
        let is_lock = path.ends_with("LOCK");
        match op {
            Op::Lock if is_lock => self.under_lock.store(true, Ordering::Release),
            Op::Unlock if is_lock => self.under_lock.store(false, Ordering::Release),
            Op::Sync if path.extension().is_some_and(|end| end == "seg") => {
                if self.under_lock.load(Ordering::Acquire)
                    && let Some((reached, go_on)) = { self.wanted.lock().take() }
                {
                    reached.send(()).unwrap();
                    go_on.recv_timeout(BOUND).unwrap();
                }
            }
            _ => {}
        }
    }

    /// Returns who hears that the call has been reached, and who lets it go on.
    fn close(&self) -> (Receiver<()>, Sender<()>) {
        let ((reached, is_reached), (go, go_on)) = (channel(), channel());
        *self.wanted.lock() = Some((reached, go_on));
        (is_reached, go)
    }
}

fn opened(machine: &SimMachine) -> (Arc<Gate>, Store, Workspace) {
    let gate = Arc::new(Gate::default());
    let asked = Arc::clone(&gate);
    let vfs = Hooked::new(Arc::new(machine.process("p")), move |op, path| asked.call(op, path));
    let store = Store::open_on(vfs, Path::new(ROOT), options().segment_size(4096)).unwrap();
    let ws = store.workspace(&place()).unwrap();
    (gate, store, ws)
}

/// While a thread's commits stand in a sync under LOCK, another reads in every way there is, and gets what stood before.
fn read_beside_commits(ws: &Workspace, gate: &Gate) {
    let (reached, go) = gate.close();
    let stands = AtomicU64::new(ws.read(State::last).unwrap().0);
    std::thread::scope(|scope| {
        let committing = scope.spawn(|| {
            for _ in 0..5 {
                let receipt = put(ws, Durability::Buffered, "a", &"x".repeat(1500)).unwrap();
                stands.store(receipt.last().0, Ordering::Release);
            }
        });
        reached.recv_timeout(BOUND).expect("a commit syncs under LOCK");
        let (say, said) = channel();
        scope.spawn(move || {
            let read = ws.read(|state| (state.last().0, state.hash())).unwrap();
            let cached = ws.read_at(Consistency::Cached, |state| (state.last().0, state.hash())).unwrap();
            let view = ws.view(Consistency::Latest).unwrap();
            say.send(([read, cached, (view.last().0, view.hash())], ws.health().status)).unwrap();
        });
        let answer = said.recv_timeout(BOUND / 8);
        let before = stands.load(Ordering::Acquire);
        go.send(()).unwrap();
        committing.join().unwrap();
        let (seen, status) = answer.expect("a reader waits for a sync");
        assert_eq!((seen.map(|(last, _)| last), status), ([before; 3], Status::Healthy));
        assert!(seen.iter().all(|(_, hash)| *hash == seen[0].1));
    });
}

#[test]
fn reads_go_on_while_a_rotation_is_synced() {
    let machine = machine_with(Profile::Linux, 1, &["one"]);
    let (gate, _store, ws) = opened(&machine);
    for _ in 0..3 {
        read_beside_commits(&ws, &gate);
    }
    let auditor = machine.process("auditor");
    assert!(segments(&auditor).len() > 3);
    assert_eq!(bodies(&auditor).len(), 16);
}

#[test]
fn reads_go_on_while_a_torn_tail_is_healed() {
    let machine = machine_with(Profile::Linux, 1, &["one"]);
    let (gate, _store, ws) = opened(&machine);
    let auditor = machine.process("auditor");
    let torn = |bytes: &mut Vec<u8>| bytes.extend([0x55; 100]);
    let segment = segments(&auditor).remove(0);
    machine.with_disk(|disk| disk.mutate(&segment, torn)).unwrap();
    read_beside_commits(&ws, &gate);
    assert_eq!(bodies(&auditor).len(), 6);
    assert_eq!(
        foldlog::vfs::Vfs::list(&auditor, &paths(&auditor).quarantine()).unwrap().len(),
        2,
        "bytes and note"
    );
}
