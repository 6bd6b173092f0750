//! Whole items, an index by time and one by parent: the same rows in every store.

use std::path::Path;
use std::sync::Arc;

use foldlog::view::{Query, Task};
use foldlog::{Durability, Field, Item, Op, Options, Patch, Place, TaskId, TaskStore, Tasks, Value};
use heed::types::Bytes;
use heed::{Database, Env, EnvFlags, RoTxn, RwTxn};
use redb::{ReadableDatabase, ReadableTable, TableDefinition};
use rusqlite::{Connection, TransactionBehavior, params};

use super::rows::{Change, ID_LEN, Row};
use crate::Result;
use crate::peers::records::{parent_key, ts_key};
use crate::sys::open_lmdb;

/// A task as it was handed out, all of it.
pub enum Whole {
    /// As JSON, the reader's own copy.
    Json(Vec<u8>),
    /// As an object whose fields can be asked for.
    Task(Arc<Task>),
}

impl Whole {
    /// Its id and its time, for the check that it is the right one.
    pub fn id_and_ts(&self) -> Result<(String, i64)> {
        let json = match self {
            Whole::Json(json) => std::borrow::Cow::Borrowed(json),
            Whole::Task(task) => std::borrow::Cow::Owned(task.item.to_json().into_bytes()),
        };
        let item: serde_json::Value = serde_json::from_slice(&json)?;
        let id = item["id"].as_str().ok_or("an item has no id")?;
        let title = item["task"].as_str().ok_or("an item has no title")?;
        if title.len() < 1000 {
            return Err(format!("{id} is not whole").into());
        }
        Ok((id.to_owned(), item["ts"].as_i64().ok_or("an item has no time")?))
    }
}

/// An open store.
pub trait Catalogue {
    /// Tasks that were not there before, all in one transaction.
    fn create(&mut self, rows: &[Row]) -> Result<()>;
    /// Changes, all in one transaction; `rows` are the same tasks as they are afterwards.
    fn change(&mut self, rows: &[Row], changes: &[Change]) -> Result<()>;
    fn get(&self, id: &str) -> Result<Option<Whole>>;
    /// The newest by time, newest first.
    fn newest(&self, count: usize) -> Result<Vec<Whole>>;
    /// All children of a task, newest first.
    fn children(&self, parent: &str) -> Result<Vec<Whole>>;
    /// Closed as a program does that ends well.
    fn close(self: Box<Self>) -> Result<()>;
    /// Bytes of log written so far, where there is one.
    fn log_bytes(&self) -> u64 {
        0
    }
}

/// Who takes part. `foldlog` reads without a session, `foldlog-writer` opens as a program that is going to write, and
/// `foldlog-json` hands out text as the others do.
pub const STORES: [&str; 6] = ["foldlog", "foldlog-writer", "foldlog-json", "lmdb", "sqlite", "redb"];

/// Whether it has files of its own: the three of foldlog read the same.
pub fn family(name: &str) -> &str {
    name.split_once('-').map_or(name, |(family, _)| family)
}

pub enum Way {
    /// To write, and to make it if it is not there.
    Write,
    /// To write, and nothing is done by itself: what is behind the last snapshot stays there.
    Plain,
    Read,
}

pub fn open(name: &str, dir: &Path, way: &Way) -> Result<Box<dyn Catalogue>> {
    Ok(match family(name) {
        "foldlog" => Box::new(Foldlog::open(name, dir, way)?),
        "lmdb" => Box::new(Lmdb::open(dir)?),
        "sqlite" => Box::new(Sqlite::open(dir)?),
        "redb" => Box::new(Redb::open(dir)?),
        _ => return Err(format!("there is no store {name}").into()),
    })
}

struct Foldlog {
    _store: TaskStore,
    tasks: Tasks,
    json: bool,
    end: u64,
}

impl Foldlog {
    fn open(name: &str, dir: &Path, way: &Way) -> Result<Self> {
        let options = Options::default().label("peers");
        let options = match way {
            Way::Write => options,
            Way::Plain => options.snapshot_after(u64::MAX),
            Way::Read => options.read_only(name != "foldlog-writer"),
        };
        let store = TaskStore::open(dir.join("store"), options)?;
        let tasks = store.home(&Place::Key("views".into()))?;
        Ok(Foldlog { _store: store, tasks, json: name == "foldlog-json", end: 0 })
    }

    fn whole(&self, task: &Arc<Task>) -> Whole {
        if self.json { Whole::Json(task.item.to_json().into_bytes()) } else { Whole::Task(Arc::clone(task)) }
    }

    fn list(&self, query: &Query) -> Result<Vec<Whole>> {
        Ok(self.tasks.list(query)?.tasks.iter().map(|found| self.whole(&found.task)).collect())
    }
}

impl Catalogue for Foldlog {
    fn create(&mut self, rows: &[Row]) -> Result<()> {
        let op = |row: &Row| Ok(Op::Create { item: Item::parse(&row.json)?, again: false });
        // A commit is one frame; these are more than fit into one.
        for rows in rows.chunks(500) {
            let ops = rows.iter().map(op).collect::<Result<Vec<_>>>()?;
            self.end = self.tasks.commit(ops, Durability::Buffered)?.behind.0;
        }
        Ok(())
    }

    fn change(&mut self, _: &[Row], changes: &[Change]) -> Result<()> {
        // One change is one commit, as programs do it: that is the longest log.
        for change in changes {
            let patch = Patch::new()
                .set(Field::Ts, change.ts)
                .set(Field::TokensIn, change.tokens_in)
                .set(Field::TokensOut, change.tokens_out)
                .set(Field::TotalCost, Value::parse(&change.cost).map_err(|e| e.to_string())?);
            self.end = self.tasks.patch(&TaskId::new(&change.id)?, patch, Durability::Buffered)?.behind.0;
        }
        Ok(())
    }

    fn get(&self, id: &str) -> Result<Option<Whole>> {
        Ok(self.tasks.get(id)?.map(|found| self.whole(&found.task)))
    }

    fn newest(&self, count: usize) -> Result<Vec<Whole>> {
        self.list(&Query { limit: Some(count), ..Query::default() })
    }

    fn children(&self, parent: &str) -> Result<Vec<Whole>> {
        self.list(&Query { parent: Some(parent.into()), ..Query::default() })
    }

    fn close(self: Box<Self>) -> Result<()> {
        // The rest is done as the last handle is dropped.
        Ok(self.tasks.workspace().flush()?)
    }

    fn log_bytes(&self) -> u64 {
        self.end
    }
}

struct Lmdb {
    env: Env,
    item: Database<Bytes, Bytes>,
    by_ts: Database<Bytes, Bytes>,
    by_parent: Database<Bytes, Bytes>,
}

/// The id at the end of an index's key.
fn id_of(key: &[u8]) -> &[u8] {
    key.get(key.len().saturating_sub(ID_LEN)..).unwrap_or_default()
}

/// Key of the index by parent: its children by time.
fn child_key(parent: &str, ts: i64, id: &str) -> Vec<u8> {
    [parent.as_bytes(), &ts_key(ts, id)].concat()
}

impl Lmdb {
    fn open(dir: &Path) -> Result<Self> {
        let env = open_lmdb(dir, EnvFlags::NO_SYNC)?;
        // Who only reads need not wait for a writer.
        let txn = env.read_txn()?;
        let known = (
            env.open_database(&txn, Some("item"))?,
            env.open_database(&txn, Some("by-ts"))?,
            env.open_database(&txn, Some("by-parent"))?,
        );
        txn.commit()?;
        if let (Some(item), Some(by_ts), Some(by_parent)) = known {
            return Ok(Lmdb { env, item, by_ts, by_parent });
        }
        let mut txn = env.write_txn()?;
        let item = env.create_database(&mut txn, Some("item"))?;
        let by_ts = env.create_database(&mut txn, Some("by-ts"))?;
        let by_parent = env.create_database(&mut txn, Some("by-parent"))?;
        txn.commit()?;
        Ok(Lmdb { env, item, by_ts, by_parent })
    }

    fn put(&self, txn: &mut RwTxn<'_>, row: &Row) -> Result<()> {
        self.item.put(txn, row.id.as_bytes(), row.json.as_bytes())?;
        self.by_ts.put(txn, &ts_key(row.ts, &row.id), &[])?;
        if let Some(parent) = &row.parent {
            self.by_parent.put(txn, &child_key(parent, row.ts, &row.id), &[])?;
        }
        Ok(())
    }

    fn whole(&self, txn: &RoTxn<'_>, id: &[u8]) -> Result<Whole> {
        Ok(Whole::Json(self.item.get(txn, id)?.ok_or("an item is missing")?.to_vec()))
    }
}

impl Catalogue for Lmdb {
    fn create(&mut self, rows: &[Row]) -> Result<()> {
        let mut txn = self.env.write_txn()?;
        rows.iter().try_for_each(|row| self.put(&mut txn, row))?;
        Ok(txn.commit()?)
    }

    fn change(&mut self, rows: &[Row], changes: &[Change]) -> Result<()> {
        let mut txn = self.env.write_txn()?;
        for (row, change) in rows.iter().zip(changes) {
            self.by_ts.delete(&mut txn, &ts_key(change.ts_before, &row.id))?;
            if let Some(parent) = &row.parent {
                self.by_parent.delete(&mut txn, &child_key(parent, change.ts_before, &row.id))?;
            }
            self.put(&mut txn, row)?;
        }
        Ok(txn.commit()?)
    }

    fn get(&self, id: &str) -> Result<Option<Whole>> {
        let txn = self.env.read_txn()?;
        Ok(self.item.get(&txn, id.as_bytes())?.map(|json| Whole::Json(json.to_vec())))
    }

    fn newest(&self, count: usize) -> Result<Vec<Whole>> {
        let txn = self.env.read_txn()?;
        self.by_ts.rev_iter(&txn)?.take(count).map(|entry| self.whole(&txn, id_of(entry?.0))).collect()
    }

    fn children(&self, parent: &str) -> Result<Vec<Whole>> {
        let txn = self.env.read_txn()?;
        let entries = self.by_parent.rev_prefix_iter(&txn, parent.as_bytes())?;
        entries.map(|entry| self.whole(&txn, id_of(entry?.0))).collect()
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(self.env.force_sync()?)
    }
}

const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS task(id TEXT PRIMARY KEY, ts INTEGER, parent TEXT, item TEXT NOT NULL) WITHOUT ROWID;
    CREATE INDEX IF NOT EXISTS task_ts ON task(ts);
    CREATE INDEX IF NOT EXISTS task_parent ON task(parent, ts) WHERE parent IS NOT NULL;";

struct Sqlite(Connection);

impl Sqlite {
    fn open(dir: &Path) -> Result<Self> {
        let path = dir.join("db");
        let is_new = !path.exists();
        let db = Connection::open(path)?;
        db.busy_timeout(std::time::Duration::from_secs(30))?;
        if is_new {
            db.pragma_update(None, "journal_mode", "WAL")?;
            db.execute_batch(TABLES)?;
        }
        db.pragma_update(None, "synchronous", "NORMAL")?;
        Ok(Sqlite(db))
    }

    fn list(&self, sql: &str, params: impl rusqlite::Params) -> Result<Vec<Whole>> {
        let mut statement = self.0.prepare_cached(sql)?;
        let found =
            statement.query_map(params, |row| Ok(Whole::Json(row.get_ref(0)?.as_bytes()?.to_vec())))?;
        Ok(found.collect::<std::result::Result<_, _>>()?)
    }

    fn write<T>(&mut self, all: &[T], write: impl Fn(&Connection, &T) -> Result<()>) -> Result<()> {
        let transaction = self.0.transaction_with_behavior(TransactionBehavior::Immediate)?;
        all.iter().try_for_each(|one| write(&transaction, one))?;
        Ok(transaction.commit()?)
    }
}

impl Catalogue for Sqlite {
    fn create(&mut self, rows: &[Row]) -> Result<()> {
        self.write(rows, |db, row| {
            let mut insert = db.prepare_cached("INSERT INTO task VALUES(?1, ?2, ?3, ?4)")?;
            insert.execute(params![row.id, row.ts, row.parent, row.json])?;
            Ok(())
        })
    }

    fn change(&mut self, rows: &[Row], _: &[Change]) -> Result<()> {
        self.write(rows, |db, row| {
            let mut update = db.prepare_cached("UPDATE task SET ts = ?2, item = ?3 WHERE id = ?1")?;
            let changed = update.execute(params![row.id, row.ts, row.json])?;
            if changed == 1 { Ok(()) } else { Err(format!("{changed} rows changed").into()) }
        })
    }

    fn get(&self, id: &str) -> Result<Option<Whole>> {
        Ok(self.list("SELECT item FROM task WHERE id = ?1", params![id])?.pop())
    }

    fn newest(&self, count: usize) -> Result<Vec<Whole>> {
        // `+id` would sort: the index by ts ends in the id, which breaks ties as the others do.
        self.list("SELECT item FROM task ORDER BY ts DESC, id DESC LIMIT ?1", params![i64::try_from(count)?])
    }

    fn children(&self, parent: &str) -> Result<Vec<Whole>> {
        self.list("SELECT item FROM task WHERE parent = ?1 ORDER BY ts DESC", params![parent])
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.0.close().map_err(|(_, e)| e.into())
    }
}

const ITEM: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("item");
const BY_TS: TableDefinition<'_, &[u8], ()> = TableDefinition::new("by-ts");
const BY_PARENT: TableDefinition<'_, &[u8], ()> = TableDefinition::new("by-parent");

struct Redb(redb::Database);

impl Redb {
    fn open(dir: &Path) -> Result<Self> {
        Ok(Redb(redb::Database::create(dir.join("db"))?))
    }

    fn write(&self, rows: &[Row], changes: &[Change]) -> Result<()> {
        let txn = self.0.begin_write()?;
        {
            let (mut item, mut by_ts, mut by_parent) =
                (txn.open_table(ITEM)?, txn.open_table(BY_TS)?, txn.open_table(BY_PARENT)?);
            for (n, row) in rows.iter().enumerate() {
                if let Some(change) = changes.get(n) {
                    by_ts.remove(&ts_key(change.ts_before, &row.id)[..])?;
                    if let Some(parent) = &row.parent {
                        by_parent.remove(&child_key(parent, change.ts_before, &row.id)[..])?;
                    }
                }
                item.insert(row.id.as_bytes(), row.json.as_bytes())?;
                by_ts.insert(&ts_key(row.ts, &row.id)[..], ())?;
                if let Some(parent) = &row.parent {
                    by_parent.insert(&child_key(parent, row.ts, &row.id)[..], ())?;
                }
            }
        }
        Ok(txn.commit()?)
    }

    fn read<T>(
        &self,
        look: impl FnOnce(&redb::ReadTransaction, &redb::ReadOnlyTable<&'static [u8], &'static [u8]>) -> Result<T>,
    ) -> Result<T> {
        let txn = self.0.begin_read()?;
        let item = txn.open_table(ITEM)?;
        look(&txn, &item)
    }
}

fn whole(item: &redb::ReadOnlyTable<&'static [u8], &'static [u8]>, id: &[u8]) -> Result<Whole> {
    Ok(Whole::Json(item.get(id)?.ok_or("an item is missing")?.value().to_vec()))
}

impl Catalogue for Redb {
    fn create(&mut self, rows: &[Row]) -> Result<()> {
        self.write(rows, &[])
    }

    fn change(&mut self, rows: &[Row], changes: &[Change]) -> Result<()> {
        self.write(rows, changes)
    }

    fn get(&self, id: &str) -> Result<Option<Whole>> {
        self.read(|_, item| Ok(item.get(id.as_bytes())?.map(|json| Whole::Json(json.value().to_vec()))))
    }

    fn newest(&self, count: usize) -> Result<Vec<Whole>> {
        self.read(|txn, item| {
            let by_ts = txn.open_table(BY_TS)?;
            by_ts.iter()?.rev().take(count).map(|entry| whole(item, id_of(entry?.0.value()))).collect()
        })
    }

    fn children(&self, parent: &str) -> Result<Vec<Whole>> {
        self.read(|txn, item| {
            let (first, behind) = (parent_key(parent, ""), [parent.as_bytes(), &[0xFF]].concat());
            let by_parent = txn.open_table(BY_PARENT)?;
            let entries = by_parent.range(&first[..]..&behind[..])?.rev();
            entries.map(|entry| whole(item, id_of(entry?.0.value()))).collect()
        })
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}
