//! States that stand still, for readers that look at one for long.
//!
//! [`Log::read`] lends the state for a moment; while it is looked at, this process's own commits wait. Who wants to list
//! in pages, export or compare takes a copy instead: its tables are its own, what they point at (keys, bodies, tasks) is
//! shared with the state that goes on. No commit ever copies a table because of it. A task that is changed while a
//! copy holds it is itself copied by that change, once.
//!
//! The copy is made with the in-process mutex held, so that nobody waits for it under LOCK: this process's commits wait
//! before they take it, and other processes' not at all.

use std::sync::{Arc, Weak};
use std::time::Duration;

use super::Consistency;
use super::engine::Log;
use super::state::State;
use crate::error::Result;
use crate::vfs::threads::Mutex;

/// For how long a copy waits for this process's commits. Whoever has the in-process mutex for longer waits for LOCK with
/// it, and is in nobody's way.
const PATIENCE: Duration = Duration::from_millis(10);

/// The copy that was handed out last, as long as anybody has it.
#[derive(Debug, Default)]
pub(super) struct Still(Mutex<Weak<State>>);

impl Log {
    /// A state that is as new as asked for and never changes, whatever is committed: whole commits only, with its
    /// [last event](State::last), its [epoch](State::epoch), every key, and the program's [fold](State::folded).
    ///
    /// As long as somebody has it and nothing was committed since, everybody gets the same one ([`Arc::ptr_eq`]).
    /// With the last [`Arc`] its memory is free; the log keeps none.
    ///
    /// # Errors
    /// As [`Log::read_at`].
    ///
    /// # Blocking
    /// As [`Log::read_at`], and for the copy: the time grows with the number of keys, not with what they hold
    /// (`benches/README.md` has it for 100,000 tasks). Commits of this process that come meanwhile wait for it, without LOCK.
    /// Not to be called inside a commit's closure.
    pub fn view(&self, consistency: Consistency) -> Result<Arc<State>> {
        self.read_at(consistency, |_| ())?;
        let mut last = self.still.0.lock();
        let known = last
            .upgrade()
            .filter(|known| !known.is_in_trouble() && known.is_at_the_place_of(&self.view.read().state));
        if let Some(known) = known {
            return Ok(known);
        }
        let mut writer = self.writer.try_lock_for(PATIENCE);
        if let Some(writer) = &mut writer {
            // Others need not wait for a burst that does not go on.
            self.end_keeping(writer);
        }
        let copy = Arc::new(self.view.read().state.copy());
        drop(writer);
        *last = Arc::downgrade(&copy);
        Ok(copy)
    }
}
