use std::path::Path;
use std::sync::Arc;

use super::{Options, Place, Store};
use crate::log::{Durability, Housekeeping, Key, NewEvent, Vocabulary};
use crate::vfs::sim::{Op, Profile, SimMachine};

/// The thread that gives a kept lock back was in the middle of a sync, which may hang for as long as it likes, and LOCK
/// stayed with a burst that had ended.
#[test]
fn lock_is_not_kept_while_the_housekeeping_thread_is_busy() {
    let machine = SimMachine::new(Profile::Linux, 1);
    let options = Options::default()
        .vocabulary(Vocabulary::new([(100, 1)]))
        // No thread: the test says when one would be there.
        .housekeeping(Housekeeping::Off);
    let store = Store::open_on(Arc::new(machine.process("keeper")), Path::new("/store"), options).unwrap();
    let workspace = store.workspace(&Place::Key("p".into())).unwrap();
    let burst = || {
        let before = machine.calls(Op::Lock);
        for _ in 0..20 {
            let event = NewEvent::state(100, 1, Key::task("a"), b"");
            let _ = workspace
                .commit(Durability::Buffered, move |_, draft| {
                    draft.push(event);
                    Ok(())
                })
                .unwrap();
        }
        machine.calls(Op::Lock) - before
    };
    let log = workspace.log();
    burst();
    assert_eq!(burst(), 20, "nobody is there to give it back");
    log.look_after(true);
    burst();
    assert_eq!(burst(), 0, "it is kept");
    let unlocks = machine.calls(Op::Unlock);
    log.look_after(false);
    assert_eq!(machine.calls(Op::Unlock), unlocks + 1, "given back before the thread does anything else");
    assert_eq!(burst(), 20);
    log.look_after(true);
    burst();
    assert_eq!(burst(), 0);
}
