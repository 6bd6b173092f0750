//! Making durable what was committed without waiting for it.
//!
//! Both packages commit `Buffered` where nothing is to wait, and wait for the sync where that may take its time. What goes
//! wrong in the wait is said here as a commit that waits itself would say it: that it stands.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use foldlog::Tasks;
use foldlog::task::Committed;

use crate::failure::{Failure, said};

/// Waits until a commit of the caller's own is durable; then it says so itself.
///
/// # Errors
/// `not-durable`, also if it is not within `patience`, `durability-lost` and `store-replaced`: it stands, whichever it is, and
/// is not to be made again.
///
/// # Blocking
/// As [`Tasks::wait_durable`].
pub fn settle(home: &Tasks, done: &mut Committed, patience: Duration) -> Result<(), Failure> {
    let synced = catch_unwind(AssertUnwindSafe(|| home.wait_durable(done, patience)));
    match synced {
        Ok(Ok(())) => {
            done.durable = true;
            Ok(())
        }
        Ok(Err(error)) => Err(error.of_commit_that_stands(done.last()).into()),
        Err(payload) => Err(Failure::Own {
            code: "not-durable",
            message: format!(
                "committed up to event {}, but not known to be durable: foldlog panicked: {}",
                done.last(),
                said(&*payload)
            ),
            remedy: "do not send it again; close the store and open it again, and please report it".into(),
            file: None,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use std::sync::Arc;

    use foldlog::vfs::sim::{Effect, Fault, Op, Profile, SimMachine};
    use foldlog::{Durability, Item, Options, Place, Store, TaskId, TaskStore};

    #[test]
    fn error_of_the_wait_says_that_the_commit_stands() -> foldlog::Result<()> {
        let machine = SimMachine::new(Profile::Linux, 1);
        let vfs = Arc::new(machine.process("one"));
        let options = TaskStore::options(Options::default());
        let store = TaskStore::of(Store::open_on(vfs, Path::new("/store"), options)?);
        let home = store.home(&Place::None)?;
        let mut done = home.create(Item::new(&TaskId::new("t")?), Durability::Buffered)?;
        // The folders of a log are synced before its first sync counts.
        machine.fault(Fault::on(Op::SyncDir, Effect::Eio).always());
        let why = settle(&home, &mut done, Duration::MAX).expect_err("no folder can be synced");
        let line = why.json_with_data();
        assert!(
            line.starts_with(r#"{"error":"not-durable""#) && line.contains(r#""data":{"seq":"#),
            "{line}"
        );
        assert!(!done.durable);
        machine.clear_faults();
        settle(&home, &mut done, Duration::MAX).expect("the disk is well again");
        assert!(done.durable && home.get("t")?.is_some());
        Ok(())
    }
}
