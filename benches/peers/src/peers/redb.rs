//! redb: one process, or several in its multi-writer mode.

use std::path::Path;

use redb::{
    Builder, ConcurrencyMode, Database, Durability, ReadableDatabase, ReadableTable, TableDefinition,
    WriteTransaction,
};

use super::records::{applied, parent_key, tokens_out, ts_key, usage};
use crate::Result;
use crate::data::{self, Step, TASKS};
use crate::peer::{Contender, Level, Peer};

const EVENT: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("event");
const ITEM: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("item");
const USAGE: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("usage");
const BY_TS: TableDefinition<'_, &[u8], ()> = TableDefinition::new("by-ts");
const BY_PARENT: TableDefinition<'_, &[u8], ()> = TableDefinition::new("by-parent");

const NONE: &str = "one process, Durability::None: a commit is in this process's memory, and gone if it dies";
const IMMEDIATE: &str = "one process, Durability::Immediate, the default";
const MULTI: &str = "ConcurrencyMode::MultiWriter, Durability::Immediate";

const fn contender(name: &'static str, level: Level, many: bool, settings: &'static str) -> Contender {
    let batch = match level {
        Level::Durable => Some("64 inserts in one transaction"),
        Level::Buffered => None,
    };
    Contender { name, level, many, polls: many, batch, settings }
}

pub const CONTENDERS: &[Contender] = &[
    contender("redb-log", Level::Buffered, false, NONE),
    contender("redb-cat", Level::Buffered, false, NONE),
    contender("redb-log", Level::Durable, false, IMMEDIATE),
    contender("redb-cat", Level::Durable, false, IMMEDIATE),
    contender("redb-log-multi", Level::Durable, true, MULTI),
    contender("redb-cat-multi", Level::Durable, true, MULTI),
];

pub struct Redb {
    db: Database,
    log: bool,
    durability: Durability,
}

impl Redb {
    pub fn open(name: &str, level: Level, dir: &Path, create: bool) -> Result<Self> {
        let mut builder = Builder::new();
        if name.ends_with("-multi") {
            builder.set_concurrency_mode(ConcurrencyMode::MultiWriter);
        }
        let (path, log) = (dir.join("db"), name.starts_with("redb-log"));
        let db = if create { builder.create(path)? } else { builder.open(path)? };
        if create {
            let txn = db.begin_write()?;
            load(&txn, log)?;
            txn.commit()?;
        }
        let durability = if level == Level::Durable { Durability::Immediate } else { Durability::None };
        Ok(Redb { db, log, durability })
    }
}

fn load(txn: &WriteTransaction, log: bool) -> Result<()> {
    if log {
        txn.open_table(EVENT)?;
        return Ok(());
    }
    let (mut items, mut usages) = (txn.open_table(ITEM)?, txn.open_table(USAGE)?);
    let (mut by_ts, mut by_parent) = (txn.open_table(BY_TS)?, txn.open_table(BY_PARENT)?);
    for n in 0..TASKS {
        let id = data::id(n);
        items.insert(id.as_str(), data::item(n).as_bytes())?;
        usages.insert(id.as_str(), &usage(data::TS, 0, 0, 0.0)[..])?;
        by_ts.insert(&ts_key(data::TS, &id)[..], ())?;
        if let Some(parent) = data::parent(n) {
            by_parent.insert(&parent_key(&data::id(parent), &id)[..], ())?;
        }
    }
    Ok(())
}

fn append(txn: &WriteTransaction, steps: &[Step]) -> Result<()> {
    let mut events = txn.open_table(EVENT)?;
    let mut next = events.last()?.map_or(0, |(key, _)| key.value());
    for step in steps {
        next += 1;
        events.insert(next, step.text.as_bytes())?;
    }
    Ok(())
}

fn patch(txn: &WriteTransaction, steps: &[Step]) -> Result<()> {
    let (mut usages, mut by_ts) = (txn.open_table(USAGE)?, txn.open_table(BY_TS)?);
    for step in steps {
        let id = step.id.as_str();
        let (ts, record) = applied(usages.get(id)?.ok_or("a task is missing")?.value(), step)?;
        usages.insert(id, &record[..])?;
        by_ts.remove(&ts_key(ts, id)[..])?;
        by_ts.insert(&ts_key(step.ts, id)[..], ())?;
    }
    Ok(())
}

impl Peer for Redb {
    fn commit(&mut self, step: &Step) -> Result<()> {
        self.batch(std::slice::from_ref(step))
    }

    fn batch(&mut self, steps: &[Step]) -> Result<()> {
        let mut txn = self.db.begin_write()?;
        txn.set_durability(self.durability)?;
        if self.log {
            append(&txn, steps)?
        } else {
            patch(&txn, steps)?
        }
        Ok(txn.commit()?)
    }

    fn close(&mut self) -> Result<()> {
        // What was never made durable would be gone with this process.
        if matches!(self.durability, Durability::None) {
            self.db.begin_write()?.commit()?;
        }
        Ok(())
    }

    fn count(&mut self) -> Result<u64> {
        let txn = self.db.begin_read()?;
        if self.log {
            return Ok(txn.open_table(EVENT)?.iter()?.try_fold(0, |n, entry| entry.map(|_| n + 1))?);
        }
        let usages = txn.open_table(USAGE)?;
        usages.iter()?.map(|entry| Ok(tokens_out(entry?.1.value())?.unsigned_abs())).sum()
    }

    fn poll(&mut self) -> Result<u64> {
        let txn = self.db.begin_read()?;
        if self.log {
            return Ok(txn.open_table(EVENT)?.last()?.map_or(0, |(key, _)| key.value()));
        }
        let usages = txn.open_table(USAGE)?;
        let record = usages.get("t-0000000")?.ok_or("a task is missing")?;
        Ok(tokens_out(record.value())?.unsigned_abs())
    }
}
