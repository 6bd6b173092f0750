use super::*;
use crate::vfs::sim::{Op, Profile, SimMachine};

/// How often a lock that somebody holds is asked for in 300 ms, where a keeper gives it back for a moment each time, or not.
fn tries(handed_over: bool) -> u64 {
    let machine = SimMachine::new(Profile::Linux, 1);
    let open = |label: &str| -> Arc<LockFile> {
        let vfs: Arc<dyn Vfs> = Arc::new(machine.process(label));
        LockFile::open(&vfs, "/LOCK".into(), Rank::Lane).unwrap()
    };
    let _made = machine.process("maker").open(Path::new("/LOCK"), Open::CreateLock).unwrap();
    let _held = open("keeper").try_acquire().unwrap().unwrap();
    let before = machine.calls(Op::Lock);
    let process = machine.process("sleeper");
    let answer = open("waiter").acquire_by(Duration::from_millis(300), |_, pause| {
        process.sleep(pause);
        handed_over
    });
    assert!(answer.is_err());
    machine.calls(Op::Lock) - before
}

/// After 50 ms a waiter asked every 2 ms. A keeper in a burst gave way for 30 µs each time it was called, took the lock
/// back, and the two hardly ever met.
#[test]
fn waiter_asks_often_as_long_as_the_lock_is_handed_over() {
    let (seldom, often) = (tries(false), tries(true));
    assert!(seldom < 600, "{seldom}");
    assert!(often > 1_000, "{often}, and {seldom} where nobody gives way");
}
