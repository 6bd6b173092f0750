//! A history from nothing: our fold of it, and the others reading as many rows of the same length.

use std::path::Path;
use std::time::Instant;

use foldlog::{Options, Place, TaskStore};
use heed::types::Bytes;
use heed::{Database, EnvFlags, PutFlags};
use rusqlite::{Connection, params};

use super::job::{Answer, Job};
use super::rows::Model;
use super::stores::{self, Way};
use crate::Result;
use crate::sys::open_lmdb;

/// Length of one event in the others' logs: of our frames of a patch, what is no header, preamble or key.
const EVENT_LEN: usize = 64;
const TOGETHER: usize = 1000;

/// Makes a history of so many tasks and changes. Others get one row for each event.
pub fn make(store: &str, dir: &Path, tasks: usize, changes: usize) -> Result<()> {
    let event = |n: usize| {
        let mut event = [b'x'; EVENT_LEN];
        event[..8].copy_from_slice(&(n as u64).to_be_bytes());
        event
    };
    let all = tasks + changes;
    match store {
        "foldlog" => {
            let mut store = stores::open(store, dir, &Way::Plain)?;
            let mut model = Model::new(tasks);
            model.batches().try_for_each(|rows| store.create(&rows))?;
            let mut left = changes;
            while left > 0 {
                let (rows, changes) = model.change(left.min(TOGETHER));
                left -= rows.len();
                store.change(&rows, &changes)?;
            }
            store.close()
        }
        "lmdb" => {
            let env = open_lmdb(dir, EnvFlags::NO_SYNC)?;
            for from in (0..all).step_by(TOGETHER) {
                let mut txn = env.write_txn()?;
                let log: Database<Bytes, Bytes> = env.create_database(&mut txn, Some("log"))?;
                for n in from..all.min(from + TOGETHER) {
                    log.put_with_flags(&mut txn, PutFlags::APPEND, &(n as u64).to_be_bytes(), &event(n))?;
                }
                txn.commit()?;
            }
            Ok(env.force_sync()?)
        }
        _ => {
            let mut db = Connection::open(dir.join("db"))?;
            db.pragma_update(None, "journal_mode", "WAL")?;
            db.execute_batch(
                "CREATE TABLE event(seq INTEGER PRIMARY KEY, task TEXT NOT NULL, body BLOB NOT NULL)",
            )?;
            for from in (0..all).step_by(TOGETHER) {
                let transaction = db.transaction()?;
                for n in from..all.min(from + TOGETHER) {
                    let mut insert = transaction.prepare_cached("INSERT INTO event VALUES(?1, ?2, ?3)")?;
                    insert.execute(params![n as i64, crate::data::id(n % tasks), &event(n)[..]])?;
                }
                transaction.commit()?;
            }
            db.close().map_err(|(_, e)| e.into())
        }
    }
}

/// Opens it and goes through all of it. The others decode and fold nothing, which is kind to them.
pub fn read(job: &Job) -> Result<Answer> {
    let begin = Instant::now();
    let all = (job.tasks + job.changes) as u64;
    let found = match job.store.as_str() {
        "foldlog" => {
            let store = TaskStore::open(job.dir.join("store"), Options::default().read_only(true))?;
            let tasks = store.home(&Place::Key("views".into()))?;
            tasks.read(|state, _| state.events())?
        }
        "lmdb" => {
            let env = open_lmdb(&job.dir, EnvFlags::NO_SYNC)?;
            let txn = env.read_txn()?;
            let log: Database<Bytes, Bytes> =
                env.open_database(&txn, Some("log"))?.ok_or("there is no log")?;
            let mut found = 0;
            for entry in log.iter(&txn)? {
                found += u64::from(entry?.1.to_vec().len() == EVENT_LEN);
            }
            found
        }
        _ => {
            let db = Connection::open(job.dir.join("db"))?;
            let mut select = db.prepare("SELECT seq, task, body FROM event ORDER BY seq")?;
            let mut rows = select.query([])?;
            let mut found = 0;
            while let Some(row) = rows.next()? {
                let _task: String = row.get(1)?;
                let body: Vec<u8> = row.get(2)?;
                found += u64::from(body.len() == EVENT_LEN);
            }
            found
        }
    };
    let open_us = begin.elapsed().as_nanos() as f64 / 1e3;
    if found < all {
        return Err(format!("{found} events instead of {all}").into());
    }
    Ok(Answer { open_us, ..Answer::default() })
}
