//! SQLite in WAL mode, bundled.
//!
//! The catalogue is the fastest we could make: what a step changes is a narrow table of its own, so that the rest of the
//! item is not rewritten, and the step is one UPDATE.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, TransactionBehavior, params};

use crate::Result;
use crate::data::{self, Step, TASKS};
use crate::peer::{Contender, Level, Peer};

const TABLES: &str = "
    CREATE TABLE event(seq INTEGER PRIMARY KEY, task TEXT NOT NULL, body TEXT NOT NULL);
    CREATE TABLE task(id TEXT PRIMARY KEY, parent TEXT, item TEXT NOT NULL) WITHOUT ROWID;
    CREATE INDEX task_parent ON task(parent) WHERE parent IS NOT NULL;
    CREATE TABLE usage(id TEXT PRIMARY KEY, ts INTEGER, tokens_in INTEGER, tokens_out INTEGER, cost REAL) WITHOUT ROWID;
    CREATE INDEX usage_ts ON usage(ts);";
const INSERT: &str = "INSERT INTO event(task, body) VALUES(?1, ?2)";
const UPDATE: &str = "UPDATE usage SET ts = ?2, tokens_in = tokens_in + ?3, tokens_out = tokens_out + 1, cost = ?4 \
                      WHERE id = ?1";

const BATCH: Option<&str> = Some("BEGIN IMMEDIATE, 64 statements, COMMIT");

const fn contender(name: &'static str, level: Level, settings: &'static str) -> Contender {
    let batch = match level {
        Level::Durable => BATCH,
        Level::Buffered => None,
    };
    Contender { name, level, many: true, polls: true, batch, settings }
}

pub const CONTENDERS: &[Contender] = &[
    contender(
        "sqlite-log",
        Level::Buffered,
        "WAL, synchronous=NORMAL, busy_timeout 30 s; one prepared INSERT",
    ),
    contender(
        "sqlite-cat",
        Level::Buffered,
        "WAL, synchronous=NORMAL, busy_timeout 30 s; one prepared UPDATE of a narrow table, index by ts kept",
    ),
    contender("sqlite-log", Level::Durable, "WAL, synchronous=FULL, busy_timeout 30 s; one prepared INSERT"),
    contender(
        "sqlite-cat",
        Level::Durable,
        "WAL, synchronous=FULL, busy_timeout 30 s; one prepared UPDATE of a narrow table, index by ts kept",
    ),
];

pub struct Sqlite {
    db: Connection,
    log: bool,
}

impl Sqlite {
    pub fn open(name: &str, level: Level, dir: &Path, create: bool) -> Result<Self> {
        let mut db = Connection::open(dir.join("db"))?;
        db.busy_timeout(Duration::from_secs(30))?;
        db.pragma_update(None, "journal_mode", "WAL")?;
        let synchronous = if level == Level::Durable { "FULL" } else { "NORMAL" };
        db.pragma_update(None, "synchronous", synchronous)?;
        let log = name == "sqlite-log";
        if create {
            db.execute_batch(TABLES)?;
            if !log {
                load(&mut db)?;
            }
            db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
        }
        Ok(Sqlite { db, log })
    }
}

fn load(db: &mut Connection) -> Result<()> {
    let transaction = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    {
        let mut task = transaction.prepare("INSERT INTO task VALUES(?1, ?2, ?3)")?;
        let mut usage = transaction.prepare("INSERT INTO usage VALUES(?1, ?2, 0, 0, 0)")?;
        for n in 0..TASKS {
            let id = data::id(n);
            task.execute(params![id, data::parent(n).map(data::id), data::item(n)])?;
            usage.execute(params![id, data::TS])?;
        }
    }
    Ok(transaction.commit()?)
}

/// A statement that writes begins as BEGIN IMMEDIATE does, so alone it needs no BEGIN.
fn write(db: &Connection, log: bool, step: &Step) -> Result<()> {
    let changed = if log {
        db.prepare_cached(INSERT)?.execute(params![step.id, step.text])?
    } else {
        db.prepare_cached(UPDATE)?.execute(params![step.id, step.ts, step.tokens_in, step.cost])?
    };
    if changed == 1 { Ok(()) } else { Err(format!("{changed} rows changed").into()) }
}

impl Peer for Sqlite {
    fn commit(&mut self, step: &Step) -> Result<()> {
        write(&self.db, self.log, step)
    }

    fn batch(&mut self, steps: &[Step]) -> Result<()> {
        let transaction = self.db.transaction_with_behavior(TransactionBehavior::Immediate)?;
        for step in steps {
            write(&transaction, self.log, step)?;
        }
        Ok(transaction.commit()?)
    }

    fn count(&mut self) -> Result<u64> {
        let sql = if self.log { "SELECT count(*) FROM event" } else { "SELECT sum(tokens_out) FROM usage" };
        Ok(self.db.query_row(sql, [], |row| row.get::<_, i64>(0))?.unsigned_abs())
    }

    fn poll(&mut self) -> Result<u64> {
        let sql = if self.log {
            "SELECT coalesce(max(seq), 0) FROM event"
        } else {
            "SELECT tokens_out FROM usage WHERE id = 't-0000000'"
        };
        Ok(self.db.prepare_cached(sql)?.query_row([], |row| row.get::<_, i64>(0))?.unsigned_abs())
    }
}
