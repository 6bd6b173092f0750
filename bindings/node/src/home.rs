//! One workspace, as one JavaScript environment has it.

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use foldlog::task::{CommitOptions, Op};
use foldlog::{Durability, Item, Patch, TaskId, Tasks};
use foldlog_requests::json::{array, raw, text};
use foldlog_requests::{Failure, Request, compact, health, history, purge, receipt, retention, task};
use napi::Either;
use napi_derive::napi;

use crate::follow::{Follow, Stream, since};
use crate::known::Known;
use crate::lane::{self, Lane};
use crate::pool::{self, Pool, WAITERS, WORKERS};
use crate::thrown;
use crate::wire::{Job, Wire, lock};

/// What is as it was.
const UNCHANGED: u32 = 0;
/// What is not there.
const ABSENT: u32 = 1;

/// See the module.
#[napi]
pub struct Home {
    wire: Arc<Wire>,
    /// `None` once it is closed.
    tasks: Option<Tasks>,
    lane: Arc<Lane>,
    known: Mutex<Known>,
    /// The streams that were begun here, to be ended with it.
    streams: Mutex<Vec<Weak<Stream>>>,
}

impl Home {
    pub(crate) fn of(wire: &Arc<Wire>, tasks: Tasks) -> Self {
        Home {
            wire: Arc::clone(wire),
            tasks: Some(tasks),
            lane: Arc::default(),
            known: Mutex::default(),
            streams: Mutex::default(),
        }
    }

    fn tasks(&self) -> napi::Result<&Tasks> {
        self.tasks.as_ref().ok_or_else(|| thrown(closed("workspace")))
    }

    /// Has work done on a thread of a pool's: those that wait are for what may take as long as a device or another process likes.
    fn on(
        &self,
        pool: &'static Pool,
        job: f64,
        cancellable: bool,
        work: impl FnOnce(&Tasks) -> Result<String, Failure> + Send + 'static,
    ) -> napi::Result<()> {
        let tasks = self.tasks()?.clone();
        pool.run(Job::of(&self.wire, job, cancellable), move || work(&tasks));
        Ok(())
    }

    /// The streams that are still held.
    fn streams(&self) -> Vec<Arc<Stream>> {
        std::mem::take(&mut *lock(&self.streams)).iter().filter_map(Weak::upgrade).collect()
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        self.lane.close();
        for stream in self.streams() {
            stream.stop();
        }
        // The last handle syncs, and JavaScript's thread waits for no sync.
        if let Some(tasks) = self.tasks.take() {
            pool::drop_there(tasks);
        }
    }
}

pub(crate) fn closed(what: &str) -> Failure {
    Failure::Own {
        code: "closed",
        message: format!("the {what} was closed"),
        remedy: "open it again; nothing was done".into(),
        file: None,
    }
}

#[napi]
impl Home {
    /// Its name in the store.
    #[napi(catch_unwind)]
    pub fn name(&self) -> napi::Result<String> {
        Ok(self.tasks()?.workspace().name().to_owned())
    }

    /// A task: 0 = it is as JavaScript has it in this slot; 1 = there is none; else `{"slot",…}`.
    #[napi(catch_unwind)]
    pub fn get(&self, id: String, slot: i32) -> napi::Result<Either<u32, String>> {
        let tasks = self.tasks()?;
        let mut known = lock(&self.known);
        let found = tasks.read(|state, index| {
            let task = index.get(&id)?;
            let token = foldlog::Token { revision: task.revision, at: state.cursor_at(task.seq) };
            let same = usize::try_from(slot).is_ok_and(|slot| known.has(slot, token));
            Some((!same).then_some(foldlog::Snapshot { task, token }))
        });
        match found.map_err(thrown)? {
            None => {
                known.forget(&id);
                Ok(Either::A(ABSENT))
            }
            Some(None) => Ok(Either::A(UNCHANGED)),
            Some(Some(found)) => {
                let mut fresh = String::from("[");
                let slot = known.tell(tasks, found, &mut fresh).map_err(thrown)?;
                match fresh.len() {
                    // A list has brought it meanwhile, under a slot that the caller did not name.
                    1 => Ok(Either::B(format!("{{\"slot\":{slot}}}"))),
                    _ => Ok(Either::B(fresh.split_off(1))),
                }
            }
        }
    }

    /// What JavaScript was told did not arrive: all is to be told again.
    #[napi(catch_unwind)]
    pub fn forget(&self) {
        lock(&self.known).forget_all();
    }

    /// A task's item as the log spells it.
    #[napi(catch_unwind)]
    pub fn text(&self, id: String) -> napi::Result<Option<String>> {
        let found = self.tasks()?.get(&id).map_err(thrown)?;
        Ok(found.map(|found| found.task.item.to_json()))
    }

    /// `{"fresh":[{"slot",…}],"order":[SLOT],"total","next"}` of a request `list`.
    #[napi(catch_unwind)]
    pub fn list(&self, request: String) -> napi::Result<String> {
        let tasks = self.tasks()?;
        let query = Request::parse(&request).and_then(|request| request.query()).map_err(thrown)?;
        let listing = tasks.list(&query).map_err(thrown)?;
        let mut known = lock(&self.known);
        let (mut fresh, mut order) = (String::from("["), String::from("["));
        for found in listing.tasks {
            let slot = told(&mut known, tasks, found, &mut fresh).map_err(thrown)?;
            if order.len() > 1 {
                order.push(',');
            }
            order += &slot.to_string();
        }
        let mut out = String::with_capacity(fresh.len() + order.len() + 64);
        out.push('{');
        raw("fresh", fresh + "]", &mut out);
        raw("order", order + "]", &mut out);
        raw("total", listing.total, &mut out);
        match &listing.next {
            Some(next) => text("next", next.as_str(), &mut out),
            None => raw("next", "null", &mut out),
        }
        Ok(out + "}")
    }

    /// `{"fresh":[{"slot",…}],"nodes":[[DEPTH,SLOT,{totals}]]}` of a task and all below it.
    #[napi(catch_unwind)]
    pub fn tree(&self, id: String) -> napi::Result<String> {
        let tasks = self.tasks()?;
        let found = tasks.tree(&id).map_err(thrown)?;
        let mut known = lock(&self.known);
        let (mut fresh, mut nodes) = (String::from("["), Vec::with_capacity(found.len()));
        for (depth, found) in found {
            let totals = tasks.totals(found.task.id.as_str()).map_err(thrown)?;
            let slot = told(&mut known, tasks, found, &mut fresh).map_err(thrown)?;
            nodes.push(format!("[{depth},{slot},{}]", task::sums(&totals)));
        }
        let mut out = String::from("{");
        raw("fresh", fresh + "]", &mut out);
        raw("nodes", array(&nodes), &mut out);
        Ok(out + "}")
    }

    /// Commits a request: the receipt if that could be done without waiting, else nothing, and the job is answered.
    ///
    /// `waits`: the caller knows that it would have to wait, or that it is long, and here is not even looked at it.
    #[napi(catch_unwind)]
    pub fn commit(
        &self,
        job: f64,
        request: String,
        cancellable: bool,
        waits: bool,
    ) -> napi::Result<Option<String>> {
        let tasks = self.tasks()?;
        if !waits && self.lane.is_empty() {
            let (ops, mut options) = lane::read(&request).map_err(thrown)?;
            // What is to be durable is written here too, and only waited for elsewhere: so a sync of others that begins
            // before the lane's thread wakes up carries it.
            let syncs = options.durability == Durability::Durable;
            if syncs {
                options.durability = Durability::Buffered;
            }
            if let Some(done) = tasks.try_commit(ops, options).map_err(thrown)? {
                if !syncs || done.durable {
                    return Ok(Some(receipt::with_ticket(tasks, &done)));
                }
                self.lane.settle(tasks, Job::of(&self.wire, job, cancellable), done);
                return Ok(None);
            }
        }
        self.lane.commit(tasks, Job::of(&self.wire, job, cancellable), request);
        Ok(None)
    }

    /// Sets fields of a task, an object of them, buffered, where that can be done without waiting: `[SEQ,LAST_SEQ,REVISION,TOKEN,TICKET,DURABLE]`
    /// of a receipt that names this one task, and any other receipt whole. Else nothing, and nothing was done: then it is to be
    /// asked for as a request, which says what is wrong with it too.
    ///
    /// This is what hosts do all the time, and the text of a request and of a whole receipt costs more than the commit.
    #[napi(catch_unwind)]
    pub fn set(&self, id: String, fields: String) -> napi::Result<Option<String>> {
        let tasks = self.tasks()?;
        if !self.lane.is_empty() {
            return Ok(None);
        }
        let (Ok(task), Ok(fields)) = (TaskId::new(&id), Item::parse(&fields)) else { return Ok(None) };
        let op = Op::Patch { id: task, patch: Patch::from(fields) };
        let done = tasks.try_commit(vec![op], CommitOptions::from(Durability::Buffered)).map_err(thrown)?;
        Ok(done.map(|done| match done.tasks.as_slice() {
            [(_, token)] => {
                let (first, last, revision, durable) =
                    (done.first, done.last(), token.revision, done.durable);
                let ticket = receipt::ticket(&done);
                format!("[{first},{last},{revision},\"{token}\",\"{ticket}\",{durable}]")
            }
            _ => receipt::with_ticket(tasks, &done),
        }))
    }

    /// A task's history, as an array.
    #[napi(catch_unwind)]
    pub fn history(&self, job: f64, id: String, cancellable: bool) -> napi::Result<()> {
        self.on(&WORKERS, job, cancellable, move |tasks| {
            let changes = tasks.history(&TaskId::new(&id)?)?;
            let lines: foldlog::Result<Vec<String>> =
                changes.iter().map(|change| history::change(tasks, change)).collect();
            Ok(array(&lines?))
        })
    }

    /// Makes everything committed so far durable, whoever committed it.
    #[napi(catch_unwind)]
    pub fn flush(&self, job: f64, cancellable: bool) -> napi::Result<()> {
        let lane = Arc::clone(&self.lane);
        self.on(&WAITERS, job, cancellable, move |tasks| {
            lane.drain();
            tasks.workspace().flush()?;
            Ok("null".into())
        })
    }

    /// Writes a snapshot and old segments anew; says what came of it.
    #[napi(catch_unwind)]
    pub fn compact(&self, job: f64, cancellable: bool) -> napi::Result<()> {
        let lane = Arc::clone(&self.lane);
        self.on(&WORKERS, job, cancellable, move |tasks| {
            lane.drain();
            let workspace = tasks.workspace();
            let report = workspace.compact(&mut |_, _| ControlFlow::Continue(()))?;
            Ok(compact::report(workspace.name(), report.as_ref()))
        })
    }

    /// Removes what tasks held from every file, or says what it would; says what came of it.
    #[napi(catch_unwind)]
    pub fn purge(
        &self,
        job: f64,
        ids: Vec<String>,
        cascade: bool,
        only_planned: bool,
        cancellable: bool,
    ) -> napi::Result<()> {
        let lane = Arc::clone(&self.lane);
        self.on(&WORKERS, job, cancellable, move |tasks| {
            let ids = ids.iter().map(|id| TaskId::new(id)).collect::<foldlog::Result<Vec<_>>>()?;
            lane.drain();
            let receipt = match only_planned {
                true => tasks.plan_purge(&ids, cascade)?,
                false => tasks.purge(&ids, cascade, &mut |_, _| ControlFlow::Continue(()))?,
            };
            Ok(purge::receipt(tasks.workspace().name(), &receipt))
        })
    }

    /// `{"workspace":KEEP,"tasks":{ID:KEEP},"pinned":[ID]}`.
    #[napi(catch_unwind)]
    pub fn retention(&self) -> napi::Result<String> {
        self.tasks()?.read(|_, index| retention::all(index.retention())).map_err(thrown)
    }

    /// Waits until a receipt's ticket is durable.
    #[napi(catch_unwind)]
    pub fn wait_durable(
        &self,
        job: f64,
        ticket: String,
        timeout_ms: f64,
        cancellable: bool,
    ) -> napi::Result<()> {
        let patience = Duration::try_from_secs_f64(timeout_ms / 1000.0).unwrap_or(Duration::MAX);
        self.on(&WAITERS, job, cancellable, move |tasks| {
            let committed = receipt::read_ticket(&ticket);
            let committed =
                committed.ok_or_else(|| Failure::invalid(format!("{ticket:?} is no receipt's ticket")))?;
            tasks.wait_durable(&committed, patience)?;
            Ok("null".into())
        })
    }

    /// `{"workspace","status","findings"}`.
    #[napi(catch_unwind)]
    pub fn health(&self) -> napi::Result<String> {
        Ok(health::health(self.tasks()?))
    }

    /// A stream of what changes, from `now`, `start` or a cursor on.
    #[napi(catch_unwind)]
    pub fn follow(&self, from: String, durable: bool) -> napi::Result<Follow> {
        let tasks = self.tasks()?;
        let since = since(&from).map_err(thrown)?;
        let (follow, stream) = Follow::begin(&self.wire, tasks, since, durable).map_err(thrown)?;
        let mut streams = lock(&self.streams);
        streams.retain(|stream| stream.strong_count() > 0);
        streams.push(stream);
        Ok(follow)
    }

    /// Answers once all that was asked for is answered, its streams have ended, the log is synced, and no thread holds it.
    #[napi(catch_unwind)]
    pub fn close(&mut self, job: f64) -> napi::Result<()> {
        let job = Job::of(&self.wire, job, false);
        let Some(tasks) = self.tasks.take() else {
            job.end(Ok("null".into()));
            return Ok(());
        };
        let (lane, streams) = (Arc::clone(&self.lane), self.streams());
        WAITERS.run(job, move || {
            lane.end();
            for stream in streams {
                stream.end();
            }
            // A handle that cannot write has nothing to be synced.
            if tasks.workspace().log().session().is_some() {
                tasks.workspace().clone().close()?;
            }
            Ok("null".into())
        });
        Ok(())
    }
}

/// [`Known::tell`] where nothing of what was told goes over if this fails.
fn told(
    known: &mut Known,
    tasks: &Tasks,
    found: foldlog::Snapshot,
    fresh: &mut String,
) -> foldlog::Result<usize> {
    let told = known.tell(tasks, found, fresh);
    if told.is_err() {
        known.forget_all();
    }
    told
}
