//! The peers. Where there are two, `-log` appends one record per step and `-cat` keeps one record per task.

mod foldlog;
mod lmdb;
#[cfg(feature = "raft-engine")]
mod raft;
mod raw;
pub mod records;
mod redb;
mod sqlite;

use std::path::Path;

use crate::Result;
use crate::peer::{Contender, Level, Peer};

pub use raw::STEPS_MAX;

/// All of them, in the order of the tables.
pub fn all() -> Vec<&'static Contender> {
    let mut all: Vec<&Contender> = Vec::new();
    all.extend(raw::CONTENDERS);
    all.extend(foldlog::CONTENDERS);
    all.extend(sqlite::CONTENDERS);
    all.extend(lmdb::CONTENDERS);
    all.extend(redb::CONTENDERS);
    #[cfg(feature = "raft-engine")]
    all.extend(raft::CONTENDERS);
    all
}

/// Opens a peer's store; with `create`, makes it first, with all tasks in it if it is a catalogue, and with room for so many
/// steps if it must be told.
pub fn open(name: &str, level: Level, dir: &Path, create: Option<u64>) -> Result<Box<dyn Peer>> {
    let (room, create) = (create.unwrap_or(0), create.is_some());
    let family = name.split_once('-').map_or(name, |(family, _)| family);
    Ok(match family {
        "raw" => Box::new(raw::Raw::open(name, dir, room)?),
        "foldlog" => foldlog::open(name, level, dir, create)?,
        "sqlite" => Box::new(sqlite::Sqlite::open(name, level, dir, create)?),
        "lmdb" => Box::new(lmdb::Lmdb::open(name, dir, create)?),
        "redb" => Box::new(redb::Redb::open(name, level, dir, create)?),
        #[cfg(feature = "raft-engine")]
        "raft" => Box::new(raft::Raft::open(level, dir)?),
        _ => return Err(format!("there is no peer {name}").into()),
    })
}
