//! The schedules that broke earlier designs of foldlog, each against the rule that answers it now. One test each,
//! named by what the rule keeps; each opens with what used to happen.
//!
//! | schedule | where it belongs |
//! | --- | --- |
//! | mixed modes of the mapped control block (2a), who names the holder in them (18 in part, II.10) | there by now: `control_block`, `keep_lock` |
//! | copy-forward after a failed sync (7) | there by now: `crash_forward` |
//! | compaction keeps numbers, revisions, op ids (12), compacted ranges and readers (25), state hash and retention (II.12) | compaction |
//! | file systems that two kernels share (16) | `vfs/os`, and the store's barrier |
//! | leases and clocks (19), a container's own boot id and leases (II.13) | leases |
//! | exchange, staging, path locks (20, 21, 22) | guarded writes |
//! | blob sweep and purge (23, 24) | blobs, purge |
//! | op-id window after compaction (26), revisions at the door (II.16) | tasks and bindings |
//! | the mirror (27, II.19), orphan repair (28) | the mirror, tasks |

mod first;
mod first_later;
mod second;

use foldlog::vfs::sim::{Call, Fault, Kill, Op, Plan, Program, Rng, SimMachine, SimProcess};

/// Runs `main` as a process that is killed at its `nth` call that `which` picks. Nobody else is alive.
///
/// Which call of all that is follows from a run on a copy of the machine.
pub(crate) fn kill_at(
    machine: &SimMachine,
    faults: &[Fault],
    when: Kill,
    nth: usize,
    which: impl Fn(&Call) -> bool,
    main: impl Fn(SimProcess) + Send + Sync,
) {
    let copy = SimMachine::from_disk(&machine.disk(), 7);
    faults.iter().for_each(|fault| copy.fault(fault.clone()));
    let run = copy.run(1, vec![Program::new("victim", &main)], &Plan::new());
    let (at, _) = run
        .trace
        .iter()
        .enumerate()
        .filter(|(_, call)| which(call))
        .nth(nth - 1)
        .expect("there is such a call");
    faults.iter().for_each(|fault| machine.fault(fault.clone()));
    let run =
        machine.run(1, vec![Program::new("victim", &main)], &Plan::new().kill("victim", at as u64 + 1, when));
    machine.clear_faults();
    assert_eq!(run.ends[0].1, foldlog::vfs::sim::End::Killed, "{run}");
}

/// How many calls `main` makes as the only process.
pub(crate) fn calls_of(machine: &SimMachine, main: impl Fn(SimProcess) + Send + Sync) -> u64 {
    let copy = SimMachine::from_disk(&machine.disk(), 7);
    let run = copy.run(1, vec![Program::new("victim", &main)], &Plan::new());
    assert_eq!(run.panics(), [""; 0], "{run}");
    run.trace.len() as u64
}

pub(crate) fn long(text: &str) -> String {
    format!("{text}{}", "-".repeat(400))
}

pub(crate) fn is_write_to_segment(call: &Call) -> bool {
    call.op == Op::Write && call.path.extension().is_some_and(|e| e == "seg")
}

/// After a power cut now: every disk there may be, at most `limit` of them.
pub(crate) fn power_cuts(machine: &SimMachine, limit: usize) -> Vec<SimMachine> {
    machine.disk().crash_states(limit, &mut Rng::new(5)).map(|disk| SimMachine::from_disk(&disk, 6)).collect()
}

/// The one that loses everything un-synced.
pub(crate) fn worst_power_cut(machine: &SimMachine) -> SimMachine {
    machine.kill_all();
    power_cuts(machine, 1).remove(0)
}
