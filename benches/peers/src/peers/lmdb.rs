//! LMDB, through heed.

use std::path::Path;

use heed::types::{Bytes, Str};
use heed::{Database, Env, EnvFlags, PutFlags, RwTxn};

use super::records::{applied, parent_key, tokens_out, ts_key, usage};
use crate::Result;
use crate::data::{self, Step, TASKS};
use crate::peer::{Contender, Level, Peer};
use crate::sys::open_lmdb;

const NO_SYNC: &str = "MDB_NOSYNC; a power cut may damage it";
const MAP_ASYNC: &str = "MDB_WRITEMAP and MDB_MAPASYNC; a power cut may damage it";
const SYNC: &str = "the default: fdatasync in every commit";

const fn contender(name: &'static str, level: Level, settings: &'static str) -> Contender {
    let batch = match level {
        Level::Durable => Some("64 puts in one transaction"),
        Level::Buffered => None,
    };
    Contender { name, level, many: true, polls: true, batch, settings }
}

pub const CONTENDERS: &[Contender] = &[
    contender("lmdb-log-nosync", Level::Buffered, NO_SYNC),
    contender("lmdb-log-mapasync", Level::Buffered, MAP_ASYNC),
    contender("lmdb-cat-nosync", Level::Buffered, NO_SYNC),
    contender("lmdb-cat-mapasync", Level::Buffered, MAP_ASYNC),
    contender("lmdb-log-sync", Level::Durable, SYNC),
    contender("lmdb-cat-sync", Level::Durable, SYNC),
];

pub struct Lmdb {
    env: Env,
    log: bool,
    /// Events by number, or items by id.
    main: Database<Bytes, Bytes>,
    usage: Database<Str, Bytes>,
    by_ts: Database<Bytes, Bytes>,
    by_parent: Database<Bytes, Bytes>,
}

impl Lmdb {
    pub fn open(name: &str, dir: &Path, create: bool) -> Result<Self> {
        let flags = if name.ends_with("-nosync") {
            EnvFlags::NO_SYNC
        } else if name.ends_with("-mapasync") {
            EnvFlags::WRITE_MAP | EnvFlags::MAP_ASYNC
        } else {
            EnvFlags::empty()
        };
        let env = open_lmdb(dir, flags)?;
        let mut txn = env.write_txn()?;
        let lmdb = Lmdb {
            log: name.starts_with("lmdb-log"),
            main: env.create_database(&mut txn, Some("main"))?,
            usage: env.create_database(&mut txn, Some("usage"))?,
            by_ts: env.create_database(&mut txn, Some("by-ts"))?,
            by_parent: env.create_database(&mut txn, Some("by-parent"))?,
            env: env.clone(),
        };
        if create && !lmdb.log {
            lmdb.load(&mut txn)?;
        }
        txn.commit()?;
        if create {
            env.force_sync()?;
        }
        Ok(lmdb)
    }

    fn load(&self, txn: &mut RwTxn<'_>) -> Result<()> {
        for n in 0..TASKS {
            let id = data::id(n);
            self.main.put(txn, id.as_bytes(), data::item(n).as_bytes())?;
            self.usage.put(txn, &id, &usage(data::TS, 0, 0, 0.0))?;
            self.by_ts.put(txn, &ts_key(data::TS, &id), &[])?;
            if let Some(parent) = data::parent(n) {
                self.by_parent.put(txn, &parent_key(&data::id(parent), &id), &[])?;
            }
        }
        Ok(())
    }

    fn write(&self, txn: &mut RwTxn<'_>, step: &Step) -> Result<()> {
        if self.log {
            let next = last(self.main.last(txn)?)? + 1;
            self.main.put_with_flags(txn, PutFlags::APPEND, &next.to_be_bytes(), step.text.as_bytes())?;
            return Ok(());
        }
        let record = self.usage.get(txn, &step.id)?.ok_or("a task is missing")?;
        let (ts, record) = applied(record, step)?;
        self.usage.put(txn, &step.id, &record)?;
        self.by_ts.delete(txn, &ts_key(ts, &step.id))?;
        Ok(self.by_ts.put(txn, &ts_key(step.ts, &step.id), &[])?)
    }
}

/// The number of the last event.
fn last(entry: Option<(&[u8], &[u8])>) -> Result<u64> {
    entry.map_or(Ok(0), |(key, _)| Ok(u64::from_be_bytes(key.try_into()?)))
}

impl Peer for Lmdb {
    fn commit(&mut self, step: &Step) -> Result<()> {
        self.batch(std::slice::from_ref(step))
    }

    fn batch(&mut self, steps: &[Step]) -> Result<()> {
        let mut txn = self.env.write_txn()?;
        for step in steps {
            self.write(&mut txn, step)?;
        }
        Ok(txn.commit()?)
    }

    fn count(&mut self) -> Result<u64> {
        let txn = self.env.read_txn()?;
        if self.log {
            return Ok(self.main.iter(&txn)?.try_fold(0, |n, entry| entry.map(|_| n + 1))?);
        }
        self.usage.iter(&txn)?.map(|entry| Ok(tokens_out(entry?.1)?.unsigned_abs())).sum()
    }

    fn poll(&mut self) -> Result<u64> {
        let txn = self.env.read_txn()?;
        if self.log {
            return last(self.main.last(&txn)?);
        }
        let record = self.usage.get(&txn, "t-0000000")?.ok_or("a task is missing")?;
        Ok(tokens_out(record)?.unsigned_abs())
    }
}
