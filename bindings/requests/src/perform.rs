//! What each operation does, by the library's public calls alone.

use std::ops::ControlFlow;
use std::time::Duration;

use foldlog::Tasks;
use foldlog::document::Bridge;
use foldlog::document::Whence;
use foldlog::store;
use foldlog::task::{Op, TaskStore};

use crate::compact;
use crate::document;
use crate::failure::Failure;
use crate::health;
use crate::history;
use crate::json::{array, raw, text};
use crate::orphans;
use crate::place;
use crate::purge;
use crate::receipt;
use crate::request::Request;
use crate::retention;
use crate::sessions;
use crate::task;

/// How long `wait_durable` waits if nothing else is asked for.
const PATIENCE: Duration = Duration::from_secs(10);

/// Operations beside those that change tasks and those that follow; all of them, for `hello`.
pub const READS: [&str; 25] = [
    "hello",
    "workspaces",
    "sessions",
    "get",
    "list",
    "tree",
    "totals",
    "history",
    "rules",
    "orphans",
    "mend_orphans",
    "check",
    "judge",
    "health",
    "flush",
    "compact",
    "retention",
    "plan_purge",
    "purge",
    "wait_durable",
    "doc_get",
    "doc_list",
    "doc_history",
    "doc_resolve",
    "doc_sync",
];
/// Those that change tasks and documents.
pub const CHANGES: [&str; 19] = [
    "commit",
    "create",
    "patch",
    "rename",
    "status",
    "resume",
    "delegate",
    "complete",
    "remove",
    "attach",
    "detach",
    "abandon",
    "mend",
    "set_rules",
    "set_retention",
    "pin",
    "doc_put",
    "doc_patch",
    "doc_delete",
];

/// Those that follow a log; whoever serves requests has them.
pub const FOLLOWS: [&str; 2] = ["subscribe", "unsubscribe"];

/// The store, and the workspace that a request without one of its own is about.
#[derive(Debug)]
pub struct Subject {
    /// The store.
    pub store: TaskStore,
    /// The workspace, as [`place::find`] takes it.
    pub workspace: Option<String>,
}

impl Subject {
    fn named<'a>(&'a self, request: &'a Request<'_>) -> Option<&'a str> {
        request.workspace.as_deref().or(self.workspace.as_deref())
    }

    /// The workspace that the request names.
    ///
    /// # Errors
    /// `invalid` if none is named; as [`place::find`].
    pub fn home(&self, request: &Request<'_>) -> Result<Tasks, Failure> {
        if request.global {
            return self.store.global_if_there()?.ok_or_else(|| {
                Failure::not_found("the store has no global documents yet", "put one with global")
            });
        }
        let text = self.named(request).ok_or_else(|| {
            Failure::invalid(
                "which workspace is not said; name one by its folder, by key:NAME, or by its own name",
            )
        })?;
        Ok(self.store.named(&place::find(self.store.store(), text)?)?)
    }

    /// The same, made if it is absent.
    fn home_made(&self, request: &Request<'_>) -> Result<Tasks, Failure> {
        match self.named(request) {
            _ if request.global => Ok(self.store.global()?),
            Some(text) => place::named_or_new(&self.store, text),
            None => self.home(request),
        }
    }

    /// The workspace that the request names, else all.
    fn homes(&self, request: &Request<'_>) -> Result<Vec<Tasks>, Failure> {
        match self.named(request) {
            Some(_) => Ok(vec![self.home(request)?]),
            None => self.store.homes()?.into_iter().map(|(_, home)| Ok(home?)).collect(),
        }
    }

    /// The workspace that the request names, else the one its task is at home in.
    fn home_of_task(&self, request: &Request<'_>) -> Result<Tasks, Failure> {
        match self.named(request) {
            Some(_) => self.home(request),
            None => Ok(self.store.home_of(&request.task()?)?),
        }
    }

    /// Does what is asked for; returns the answer as JSON, `None` for an operation that is not one of these.
    ///
    /// # Errors
    /// `invalid` for a request that makes no sense, and as the library's calls.
    pub fn perform(&self, request: &Request<'_>) -> Result<Option<String>, Failure> {
        if request.op == "commit" {
            return self.commit(request, request.changes()?).map(Some);
        }
        if let Some(op) = request.change()? {
            return self.commit(request, vec![op]).map(Some);
        }
        Ok(Some(match &*request.op {
            "hello" => self.hello(),
            "workspaces" => self.workspaces()?,
            "sessions" => array(&sessions::lines(&self.store, &self.homes(request)?)?),
            "get" => {
                let home = self.home_of_task(request)?;
                task::task(&home.require(&request.task()?)?, home.workspace().name(), None)
            }
            "list" => self.list(request)?,
            "tree" => {
                let home = self.home_of_task(request)?;
                let id = request.task()?;
                let mut all = Vec::new();
                for (depth, found) in home.tree(id.as_str())? {
                    let totals = home.totals(found.task.id.as_str())?;
                    all.push(task::task(&home.load(found)?, home.workspace().name(), Some((depth, &totals))));
                }
                array(&all)
            }
            "totals" => {
                let home = self.home_of_task(request)?;
                task::sums(&home.totals(request.task()?.as_str())?)
            }
            "history" => {
                let home = self.home_of_task(request)?;
                let changes = home.history(&request.task()?)?;
                let lines: Vec<String> =
                    changes.iter().map(|change| history::change(&home, change)).collect::<Result<_, _>>()?;
                array(&lines)
            }
            "doc_get" => {
                let home = self.home(request)?;
                document::document(
                    &home.documents().require(&request.name()?)?,
                    home.workspace().name(),
                    None,
                )
            }
            "doc_list" => {
                let home = self.home(request)?;
                document::listing(
                    &home.documents().list(&request.document_query()?)?,
                    home.workspace().name(),
                )
            }
            "doc_history" => {
                let home = self.home(request)?;
                let changes = home.documents().history(&request.name()?)?;
                let all: Vec<String> =
                    changes.iter().map(|change| document::change(&home, change)).collect::<Result<_, _>>()?;
                array(&all)
            }
            "doc_sync" => {
                let (home, name) = (self.home_made(request)?, request.name()?);
                let file =
                    request.file.as_deref().ok_or_else(|| Failure::invalid("doc_sync needs file, a path"))?;
                let bridge = Bridge::new(home.documents(), name.clone(), file)?;
                let bridge = request.kind.iter().fold(bridge, |bridge, kind| bridge.kind(kind));
                let synced = bridge.sync()?;
                let mut line = document::synced(name.as_str(), bridge.path(), &synced);
                line.pop();
                raw(
                    "findings",
                    array(&synced.findings.iter().map(health::finding).collect::<Vec<_>>()),
                    &mut line,
                );
                line + "}"
            }
            "doc_resolve" => self.resolve(request)?,
            "rules" => {
                let name = self.home(request)?.read(|_, index| index.rules().name().to_owned())?;
                let mut out = String::from("{");
                text("table", &name, &mut out);
                out + "}"
            }
            "orphans" => {
                let mut all = Vec::new();
                for home in self.homes(request)? {
                    let found = home.orphans()?;
                    all.extend(found.iter().map(|one| orphans::orphan(home.workspace().name(), one, false)));
                }
                array(&all)
            }
            "mend_orphans" => {
                let (options, mut all) = (request.options()?, Vec::new());
                for home in self.homes(request)? {
                    let mended = home.mend_orphans(request.unowned, options.clone())?;
                    all.extend(mended.iter().map(|one| orphans::orphan(home.workspace().name(), one, true)));
                }
                array(&all)
            }
            "check" => {
                let mut all = Vec::new();
                for home in self.homes(request)? {
                    all.extend(home.check()?.iter().map(health::finding));
                }
                array(&all)
            }
            "judge" => {
                let ops = request.changes()?;
                let judged = self.home(request)?.judge(&ops)?;
                let mut out = String::from("{");
                raw("events", judged.events, &mut out);
                out + "}"
            }
            "health" => {
                let mut all = Vec::new();
                for home in self.homes(request)? {
                    all.push(health::health(&home));
                }
                array(&all)
            }
            "flush" => {
                for home in self.homes(request)? {
                    home.workspace().flush()?;
                }
                "{}".into()
            }
            "compact" => {
                let mut all = Vec::new();
                for home in self.homes(request)? {
                    let report = home.workspace().compact(&mut |_, _| ControlFlow::Continue(()))?;
                    all.push(compact::report(home.workspace().name(), report.as_ref()));
                }
                array(&all)
            }
            "retention" => self.home(request)?.read(|_, index| retention::all(index.retention()))?,
            "plan_purge" => {
                let home = self.home(request)?;
                let plan = home.plan_purge(&request.tasks()?, request.cascade)?;
                purge::receipt(home.workspace().name(), &plan)
            }
            "purge" => {
                let home = self.home(request)?;
                let go_on = &mut |_, _| ControlFlow::Continue(());
                let receipt = home.purge(&request.tasks()?, request.cascade, go_on)?;
                purge::receipt(home.workspace().name(), &receipt)
            }
            "wait_durable" => {
                let ticket = request.ticket.as_deref().and_then(receipt::read_ticket);
                let ticket =
                    ticket.ok_or_else(|| Failure::invalid("a ticket, as a receipt has it, is missing"))?;
                let patience = request.timeout_ms.map_or(PATIENCE, Duration::from_millis);
                self.home(request)?.wait_durable(&ticket, patience)?;
                "{}".into()
            }
            _ => return Ok(None),
        }))
    }

    /// The workspace's document, else the store's global one; a workspace that nobody has made yet has none.
    fn resolve(&self, request: &Request<'_>) -> Result<String, Failure> {
        let name = request.name()?;
        let home = match self.home(request) {
            Ok(home) if !request.global => Some(home),
            Ok(_) => None,
            Err(failure) if failure.code() == "not-found" => None,
            Err(failure) => return Err(failure),
        };
        if let Some(home) = home
            && let Some(found) = home.documents().get(name.as_str())?
        {
            return Ok(document::document(&found, home.workspace().name(), Some(Whence::Workspace)));
        }
        let Some(global) = self.store.global_if_there()? else { return Ok("null".into()) };
        let found = global.documents().get(name.as_str())?;
        let told = |found| document::document(&found, global.workspace().name(), Some(Whence::Global));
        Ok(found.map_or_else(|| "null".into(), told))
    }

    fn hello(&self) -> String {
        let mut out = String::from("{");
        text("foldlog", env!("CARGO_PKG_VERSION"), &mut out);
        raw("format", foldlog::log::format::FORMAT, &mut out);
        text("store", &self.store.store().root().display().to_string(), &mut out);
        let ops = READS.iter().chain(&CHANGES).chain(&FOLLOWS);
        let ops: Vec<String> = ops.map(|op| format!("\"{op}\"")).collect();
        raw("ops", array(&ops), &mut out);
        out + "}"
    }

    fn workspaces(&self) -> Result<String, Failure> {
        let mut all = Vec::new();
        for entry in self.store.store().workspaces()? {
            let mut one = String::from("{");
            text("name", &entry.name, &mut one);
            match &entry.meta {
                Ok(meta) => {
                    let bound = meta.bindings.iter().map(store::show);
                    let bound: Vec<String> =
                        bound.map(|bound| serde_json::to_string(&bound).unwrap_or_default()).collect();
                    raw("bound_to", array(&bound), &mut one);
                }
                Err(error) => text("error", error.code(), &mut one),
            }
            all.push(one + "}");
        }
        Ok(array(&all))
    }

    fn list(&self, request: &Request<'_>) -> Result<String, Failure> {
        let home = self.home(request)?;
        let listing = home.list(&request.query()?)?;
        let mut tasks = Vec::with_capacity(listing.tasks.len());
        for found in listing.tasks {
            tasks.push(task::task(&home.load(found)?, home.workspace().name(), None));
        }
        let mut out = String::from("{");
        raw("tasks", array(&tasks), &mut out);
        raw("total", listing.total, &mut out);
        match &listing.next {
            Some(next) => text("next", next.as_str(), &mut out),
            None => raw("next", "null", &mut out),
        }
        Ok(out + "}")
    }

    fn commit(&self, request: &Request<'_>, ops: Vec<Op>) -> Result<String, Failure> {
        let options = request.options()?;
        let creates = matches!(&*ops, [Op::Create { .. } | Op::PutDocument { .. }]);
        let (home, done) = match (self.named(request), ops.as_slice()) {
            (_, _) if request.global => {
                let home = if creates { self.store.global()? } else { self.home(request)? };
                let done = home.commit(ops, options)?;
                (home, done)
            }
            (Some(text), _) if creates => {
                let home = place::named_or_new(&self.store, text)?;
                let done = home.commit(ops, options)?;
                (home, done)
            }
            (Some(_), _) => {
                let home = self.home(request)?;
                let done = home.commit(ops, options)?;
                (home, done)
            }
            (None, [Op::Create { item, .. }]) if item.get(&foldlog::Field::ParentTaskId).is_none() => {
                return Err(Failure::invalid("create needs a workspace, or an item with parentTaskId"));
            }
            (None, [Op::Create { item, again }]) => {
                // At home where its parent is.
                let nowhere = foldlog::Place::None;
                match again {
                    true => self.store.create_again(&nowhere, item.clone(), options)?,
                    false => self.store.create(&nowhere, item.clone(), options)?,
                }
            }
            (None, _) => self.store.commit(ops, options)?,
        };
        Ok(receipt::with_ticket(&home, &done))
    }
}
