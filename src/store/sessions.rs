//! A store's sessions: which live, which are dead, and what the dead have left.

use std::path::PathBuf;

use super::{Inner, Store, Workspace};
use crate::error::Result;
use crate::session::{self, Entry, Info, Liveness, Probe};

impl Inner {
    fn sessions(&self) -> PathBuf {
        self.root.join("sessions")
    }

    /// A read-only handle changes nothing by asking.
    fn probe(&self) -> Probe {
        if self.session.is_some() { Probe::MarkDead } else { Probe::Look }
    }
}

impl Store {
    /// The sessions that are alive now.
    ///
    /// # Errors
    /// System errors.
    ///
    /// # Blocking
    /// A few milliseconds for each live session.
    pub fn live_sessions(&self) -> Result<Vec<Info>> {
        session::live(&*self.inner.vfs, &self.inner.sessions(), self.inner.probe())
    }

    /// The sessions that are alive now, and the dead ones whose proof of death still stands.
    ///
    /// # Errors
    /// System errors.
    ///
    /// # Blocking
    /// As [`Store::live_sessions`].
    pub fn sessions(&self) -> Result<Vec<Entry>> {
        session::all(&*self.inner.vfs, &self.inner.sessions(), self.inner.probe())
    }

    /// Whether a session lives, and who it is if that can still be read. Its lock alone decides.
    ///
    /// # Errors
    /// System errors.
    ///
    /// # Blocking
    /// A few milliseconds if it lives.
    pub fn liveness(&self, session: u64) -> Result<(Liveness, Option<Info>)> {
        session::find(&*self.inner.vfs, &self.inner.sessions(), session, self.inner.probe())
    }

    /// Removes what dead sessions have left, but for those of which `keep` says that something is still theirs. Returns
    /// how many went; none, where the store is open for reading only.
    ///
    /// # Errors
    /// System errors.
    pub(crate) fn sweep_sessions(&self, keep: impl FnMut(Option<&Info>) -> bool) -> Result<usize> {
        if self.inner.session.is_none() {
            return Ok(0);
        }
        session::sweep(&*self.inner.vfs, &self.inner.sessions(), keep)
    }
}

impl Workspace {
    /// As [`Store::liveness`].
    pub(crate) fn liveness(&self, session: u64) -> Result<(Liveness, Option<Info>)> {
        session::find(&*self.store.vfs, &self.store.sessions(), session, self.store.probe())
    }
}
