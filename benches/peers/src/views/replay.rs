//! A history from nothing: our fold of it, and what the others take to read the same changes, and to fold them.

use std::collections::HashMap;
use std::path::Path;
use std::time::Instant;

use foldlog::{Options, Place, TaskStore};
use heed::types::Bytes;
use heed::{Database, EnvFlags, PutFlags};
use rusqlite::{Connection, params};

use super::job::{Answer, Job, on_processor_us};
use super::rows::Model;
use super::stores::{self, Way};
use crate::Result;
use crate::sys::open_lmdb;

const TOGETHER: usize = 1000;

/// Events as the others keep them: a task's id, and as JSON all of it or what is changed of it.
fn events(tasks: usize, changes: usize) -> impl Iterator<Item = Vec<(String, String)>> {
    let mut model = Model::new(tasks);
    let created: Vec<_> =
        model.batches().map(|rows| rows.into_iter().map(|row| (row.id, row.json)).collect()).collect();
    let mut left = changes;
    let changed = std::iter::from_fn(move || {
        let (_, changes) = (left > 0).then(|| model.change(left.min(TOGETHER)))?;
        left -= changes.len();
        let text = |change: super::rows::Change| {
            let json = format!(
                "{{\"ts\":{},\"tokensIn\":{},\"tokensOut\":{},\"totalCost\":{}}}",
                change.ts, change.tokens_in, change.tokens_out, change.cost
            );
            (change.id, json)
        };
        Some(changes.into_iter().map(text).collect())
    });
    created.into_iter().chain(changed)
}

/// Makes a history of so many tasks and changes. Others get one row for each event.
pub fn make(store: &str, dir: &Path, tasks: usize, changes: usize) -> Result<()> {
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
            let mut seq = 0_u64;
            for events in events(tasks, changes) {
                let mut txn = env.write_txn()?;
                let log: Database<Bytes, Bytes> = env.create_database(&mut txn, Some("log"))?;
                for (id, json) in events {
                    seq += 1;
                    let row = [id.as_bytes(), json.as_bytes()].concat();
                    log.put_with_flags(&mut txn, PutFlags::APPEND, &seq.to_be_bytes(), &row)?;
                }
                txn.commit()?;
            }
            Ok(env.force_sync()?)
        }
        _ => {
            let mut db = Connection::open(dir.join("db"))?;
            db.pragma_update(None, "journal_mode", "WAL")?;
            db.execute_batch(
                "CREATE TABLE event(seq INTEGER PRIMARY KEY, task TEXT NOT NULL, body TEXT NOT NULL)",
            )?;
            for events in events(tasks, changes) {
                let transaction = db.transaction()?;
                for (id, json) in events {
                    let mut insert =
                        transaction.prepare_cached("INSERT INTO event(task, body) VALUES(?1, ?2)")?;
                    insert.execute(params![id, json])?;
                }
                transaction.commit()?;
            }
            db.close().map_err(|(_, e)| e.into())
        }
    }
}

type Fields = serde_json::Map<String, serde_json::Value>;

/// What a reader makes of the others' rows.
struct Taken {
    folds: bool,
    events: u64,
    bytes: u64,
    tasks: HashMap<String, Fields>,
}

impl Taken {
    /// Rows come as what a store lends; who only reads copies them.
    fn take(&mut self, id: &str, json: &[u8]) -> Result<()> {
        self.events += 1;
        if !self.folds {
            let copy = json.to_vec();
            self.bytes += std::hint::black_box(&copy).len() as u64;
            return Ok(());
        }
        let fields: Fields = serde_json::from_slice(json)?;
        match self.tasks.get_mut(id) {
            Some(task) => task.extend(fields),
            None => drop(self.tasks.insert(id.to_owned(), fields)),
        }
        Ok(())
    }
}

/// Opens it and goes through all of it. `folds` is for the others: whether rows are decoded and folded, or only copied.
pub fn read(job: &Job, folds: bool) -> Result<Answer> {
    let begin = Instant::now();
    let all = (job.tasks + job.changes) as u64;
    let mut taken = Taken { folds, events: 0, bytes: 0, tasks: HashMap::new() };
    match job.store.as_str() {
        "foldlog" => {
            let store = TaskStore::open(job.dir.join("store"), Options::default().read_only(true))?;
            let tasks = store.home(&Place::Key("views".into()))?;
            taken.events = tasks.read(|state, _| state.events())?;
        }
        "lmdb" => {
            let env = open_lmdb(&job.dir, EnvFlags::NO_SYNC)?;
            let txn = env.read_txn()?;
            let log: Database<Bytes, Bytes> =
                env.open_database(&txn, Some("log"))?.ok_or("there is no log")?;
            for entry in log.iter(&txn)? {
                let (id, json) =
                    entry?.1.split_at_checked(crate::data::ID_LEN).ok_or("a row is too short")?;
                taken.take(std::str::from_utf8(id)?, json)?;
            }
        }
        _ => {
            let db = Connection::open(job.dir.join("db"))?;
            let mut select = db.prepare("SELECT task, body FROM event ORDER BY seq")?;
            let mut rows = select.query([])?;
            while let Some(row) = rows.next()? {
                taken.take(row.get_ref(0)?.as_str()?, row.get_ref(1)?.as_bytes()?)?;
            }
        }
    }
    let (open_us, cpu_us) = (begin.elapsed().as_nanos() as f64 / 1e3, on_processor_us());
    if taken.events < all || taken.folds && !taken.tasks.is_empty() && taken.tasks.len() != job.tasks {
        return Err(format!("{} events of {} tasks instead of {all}", taken.events, taken.tasks.len()).into());
    }
    Ok(Answer { open_us, cpu_us, ..Answer::default() })
}
