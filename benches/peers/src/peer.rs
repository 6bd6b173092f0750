//! What a peer is to the harness.

use serde::{Deserialize, Serialize};

use crate::Result;
use crate::data::Step;

/// An open store of one process.
pub trait Peer {
    /// Commits one step; acknowledged when this returns.
    fn commit(&mut self, step: &Step) -> Result<()>;

    /// Commits many, with one sync for all; every one is acknowledged when this returns.
    fn batch(&mut self, _steps: &[Step]) -> Result<()> {
        Err("it has no such call".into())
    }

    /// Called once, off the clock, when all is done.
    fn close(&mut self) -> Result<()> {
        Ok(())
    }

    /// How many steps are in the store, by reading all of it.
    fn count(&mut self) -> Result<u64>;

    /// The cheapest look at what others have committed: a number that grows by one with every step of task 0.
    fn poll(&mut self) -> Result<u64> {
        Err("it has no such call".into())
    }
}

/// What an acknowledged step survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Level {
    /// The death of its process.
    Buffered,
    /// A power cut.
    Durable,
}

/// A peer at one level, and where it takes part.
pub struct Contender {
    pub name: &'static str,
    pub level: Level,
    /// Whether more than one process may use it.
    pub many: bool,
    /// Whether `poll` is there, and a lock that a dead holder could leave behind.
    pub polls: bool,
    /// How 64 steps share a sync, if they can.
    pub batch: Option<&'static str>,
    /// Its settings, as printed with the tables.
    pub settings: &'static str,
}
