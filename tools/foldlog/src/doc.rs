//! `foldlog doc`: named JSON values, in a workspace or in the store's global home.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use foldlog::document::{Bridge, Whence};
use foldlog::event::{ITEM_LEN_MAX, kinds};
use foldlog::task::{CommitOptions, Committed, DocumentExpect, TaskStore};
use foldlog::vfs::os::Os;
use foldlog::vfs::{Open, Vfs as _, read_full};
use foldlog::view::DocumentQuery;
use foldlog::{DocumentName, Durability, Housekeeping, OpId, Options, Tasks, Token, Value};
use foldlog_requests::json::{raw, text};
use foldlog_requests::words::{parse_document_expected, parse_durability, parse_op_id};
use foldlog_requests::{Failure, document, place};

use crate::args::Global;
use crate::escape;
use crate::exit::Exit;
use crate::homes;
use crate::out::Out;
use crate::show::shown;
use crate::table;
use crate::target;

/// `foldlog doc`.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Doc {
    /// Print a document: the workspace's, else the store's global one of that name; writes nothing
    Get(Get),
    /// Write a document, whole; makes the store and the workspace if they are absent
    Put(Put),
    /// List documents; writes nothing
    Ls(Ls),
    /// Delete a document; its name keeps its revisions
    Rm(Rm),
    /// Tell a document's changes, oldest first; writes nothing
    History(Named),
    /// Bring a document and a JSON state file that other programs write to the same state, once
    ///
    /// Takes in what was changed in the file, member by member, and writes the document to it. A malformed file is never an
    /// edit: it is kept in the workspace's quarantine, and the document stands. Exit code 1: something was set aside.
    Sync(Sync),
}

/// Which home is meant.
#[derive(Debug, clap::Args)]
pub(crate) struct Where {
    /// The store's global home, not a workspace.
    #[arg(long, conflicts_with = "workspace")]
    pub(crate) global: bool,
}

/// `foldlog doc get`.
#[derive(Debug, clap::Args)]
pub(crate) struct Get {
    /// The document's name.
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) home: Where,
    /// Only the workspace's, never the global one.
    #[arg(long, conflicts_with = "global")]
    pub(crate) local: bool,
}

/// `foldlog doc put`.
#[derive(Debug, clap::Args)]
pub(crate) struct Put {
    /// The document's name.
    pub(crate) name: String,
    /// The file with its JSON; - is stdin.
    #[arg(default_value = "-")]
    pub(crate) file: PathBuf,
    /// What the document is, in its programs' words; without it, what it was.
    #[arg(long, value_name = "KIND")]
    pub(crate) kind: Option<String>,
    #[command(flatten)]
    pub(crate) home: Where,
    #[command(flatten)]
    pub(crate) how: How,
}

/// `foldlog doc rm`.
#[derive(Debug, clap::Args)]
pub(crate) struct Rm {
    /// The document's name.
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) home: Where,
    #[command(flatten)]
    pub(crate) how: How,
}

/// `foldlog doc history`.
#[derive(Debug, clap::Args)]
pub(crate) struct Named {
    /// The document's name.
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) home: Where,
    /// Do not shorten large values.
    #[arg(long)]
    pub(crate) full: bool,
}

/// `foldlog doc ls`.
#[derive(Debug, clap::Args)]
pub(crate) struct Ls {
    /// Only names that begin with this.
    #[arg(default_value = "")]
    pub(crate) prefix: String,
    /// Only documents of this kind.
    #[arg(long, value_name = "KIND")]
    pub(crate) kind: Option<String>,
    /// At most this many.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) limit: Option<u32>,
    /// Begin behind this name, the `next` of the page before.
    #[arg(long, value_name = "NAME")]
    pub(crate) after: Option<String>,
    #[command(flatten)]
    pub(crate) home: Where,
}

/// `foldlog doc sync`.
#[derive(Debug, clap::Args)]
pub(crate) struct Sync {
    /// The document's name.
    pub(crate) name: String,
    /// The state file; it need not be there, its folder must.
    pub(crate) file: PathBuf,
    /// What the document is, if it is made of the file.
    #[arg(long, value_name = "KIND")]
    pub(crate) kind: Option<String>,
    #[command(flatten)]
    pub(crate) home: Where,
}

/// How a change is to be made.
#[derive(Debug, clap::Args)]
pub(crate) struct How {
    /// Change nothing unless this holds: absent (a deleted document may begin anew only so), exists, a token as `doc get
    /// --json` and receipts have it, or a bare revision, which is valid only until the machine restarts.
    #[arg(long, value_name = "absent|exists|TOKEN|NUMBER", value_parser = parse_document_expected, default_value = "any")]
    pub(crate) expect: DocumentExpect,
    /// The request's name: sent twice under one name, it is applied once and answered alike. 32 hex digits or a UUID.
    #[arg(long, value_name = "HEX32", value_parser = parse_op_id)]
    pub(crate) op_id: Option<OpId>,
    /// What the change survives when its receipt is printed, as of `set`.
    #[arg(long, value_name = "durable|buffered|interval:MS", default_value = "durable", value_parser = parse_durability)]
    pub(crate) durability: Durability,
}

impl How {
    fn options(&self) -> CommitOptions {
        let mut options = CommitOptions::from(self.durability);
        options.op_id = self.op_id;
        options
    }
}

/// Runs the verb.
pub(crate) fn run(global: &Global, verb: &Doc, out: &mut Out) -> Result<Exit, Failure> {
    match verb {
        Doc::Get(verb) => get(global, verb, out),
        Doc::Put(verb) => put(global, verb, out),
        Doc::Ls(verb) => list(global, verb, out),
        Doc::Rm(verb) => remove(global, verb, out),
        Doc::History(verb) => history(global, verb, out),
        Doc::Sync(verb) => sync(global, verb, out),
    }
}

fn look(global: &Global) -> Result<TaskStore, Failure> {
    let options = Options::default().read_only(true).create(false).housekeeping(Housekeeping::Off);
    Ok(TaskStore::open(target::root(global)?, options)?)
}

/// The home that is there: the global one, the workspace that is named, else the current folder's.
fn there(store: &TaskStore, global: &Global, home: &Where) -> Result<Tasks, Failure> {
    if home.global {
        return store.global_if_there()?.ok_or_else(|| {
            Failure::not_found("the store has no global documents yet", "put one with --global")
        });
    }
    let name = match &global.workspace {
        Some(text) => place::find(store.store(), text)?,
        None => target::find_here(store.store())?,
    };
    Ok(store.named(&name)?)
}

/// The same, made if it is absent.
fn made(store: &TaskStore, global: &Global, home: &Where) -> Result<Tasks, Failure> {
    match (home.global, &global.workspace) {
        (true, _) => Ok(store.global()?),
        (false, Some(text)) => place::named_or_new(store, text),
        (false, None) => Ok(store.home(&place::place(".")?)?),
    }
}

fn get(global: &Global, verb: &Get, out: &mut Out) -> Result<Exit, Failure> {
    let name = DocumentName::new(&verb.name)?;
    let store = look(global)?;
    let local = if verb.home.global { None } else { Some(there(&store, global, &verb.home)) };
    let (home, found, whence) = match local {
        // A folder without a workspace has no documents of its own.
        Some(Err(failure)) if verb.local || global.workspace.is_some() || failure.code() != "not-found" => {
            return Err(failure);
        }
        Some(Ok(home)) if verb.local => {
            let found = home.documents().require(&name)?;
            (home, found, Whence::Workspace)
        }
        Some(Ok(home)) => match store.resolve(name.as_str(), &home)? {
            Some((found, Whence::Workspace)) => (home, found, Whence::Workspace),
            Some((found, Whence::Global)) => {
                (there(&store, global, &Where { global: true })?, found, Whence::Global)
            }
            None => return Err(home.documents().require(&name).map_or_else(Failure::from, |_| lost(&name))),
        },
        None | Some(Err(_)) => {
            let home = there(&store, global, &Where { global: true })?;
            let found = home.documents().require(&name)?;
            (home, found, Whence::Global)
        }
    };
    if out.json {
        out.line(&document::document(&found, home.workspace().name(), Some(whence)))?;
    } else {
        out.line(&found.document.value.to_json())?;
    }
    Ok(Exit::Fine)
}

/// It was there a moment ago.
fn lost(name: &DocumentName) -> Failure {
    Failure::not_found(format!("the document {name} has just come into being"), "ask again")
}

fn put(global: &Global, verb: &Put, out: &mut Out) -> Result<Exit, Failure> {
    let name = DocumentName::new(&verb.name)?;
    let json = read(&verb.file)?;
    let json = json.strip_prefix('\u{feff}').unwrap_or(&json);
    let value = Value::parse(json).map_err(|bad| Failure::Own {
        code: "invalid",
        message: format!("{} holds no JSON value: {bad}", verb.file.display()),
        remedy: "correct it; nothing was written".into(),
        file: None,
    })?;
    let store = homes::open(global, "doc put", true)?;
    let home = made(&store, global, &verb.home)?;
    let done =
        home.documents().put(&name, verb.kind.as_deref(), value, verb.how.expect, verb.how.options())?;
    receipt(&home, &name, &done, out)
}

/// A file's text, or stdin's.
fn read(file: &Path) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    let too_long = || Failure::Own {
        code: "too-large",
        message: format!(
            "{} holds more than the {ITEM_LEN_MAX} bytes that a document may have",
            file.display()
        ),
        remedy: "split it into several documents".into(),
        file: Some(file.to_path_buf()),
    };
    if file == Path::new("-") {
        let limited = std::io::stdin().lock().take(ITEM_LEN_MAX + 1).read_to_end(&mut bytes);
        limited.map_err(|e| Failure::io("read", file, &e))?;
        if bytes.len() as u64 > ITEM_LEN_MAX {
            return Err(too_long());
        }
    } else {
        let failed = |e| Failure::io("read", file, &e);
        let opened = Os.open(file, Open::Read).map_err(failed)?;
        let len = opened.stat().map_err(failed)?.len;
        if len > ITEM_LEN_MAX {
            return Err(too_long());
        }
        bytes = vec![0; usize::try_from(len).unwrap_or(0)];
        let n = read_full(&*opened, &mut bytes, 0).map_err(failed)?;
        bytes.truncate(n);
    }
    String::from_utf8(bytes)
        .map_err(|e| Failure::usage(format!("{} is not UTF-8: {e}", file.display()), "give text in UTF-8"))
}

fn remove(global: &Global, verb: &Rm, out: &mut Out) -> Result<Exit, Failure> {
    let name = DocumentName::new(&verb.name)?;
    let store = homes::open(global, "doc rm", false)?;
    let home = there(&store, global, &verb.home)?;
    let done = home.documents().delete(&name, verb.how.expect, verb.how.options())?;
    receipt(&home, &name, &done, out)
}

fn receipt(home: &Tasks, name: &DocumentName, done: &Committed, out: &mut Out) -> Result<Exit, Failure> {
    let token = done.document(name);
    out.line(&if out.json { receipt_json(home, name, done) } else { receipt_text(name, token, done) })?;
    out.flush()?;
    home.workspace().clone().close()?;
    Ok(Exit::Fine)
}

/// `{"name","seq","last_seq","epoch","revision","token","durable","again","workspace"}`.
pub(crate) fn receipt_json(home: &Tasks, name: &DocumentName, done: &Committed) -> String {
    let mut line = String::from("{");
    text("name", name.as_str(), &mut line);
    raw("seq", done.first, &mut line);
    raw("last_seq", done.last(), &mut line);
    text("epoch", &format!("{:016x}", done.cursor.epoch), &mut line);
    if let Some(token) = done.document(name) {
        raw("revision", token.revision, &mut line);
        text("token", &token.to_string(), &mut line);
    }
    raw("durable", done.durable, &mut line);
    raw("again", done.again, &mut line);
    text("workspace", home.workspace().name(), &mut line);
    line + "}"
}

fn receipt_text(name: &DocumentName, token: Option<Token>, done: &Committed) -> String {
    let name = escape::text(name.as_str());
    let at = token.map(|token| format!("revision {} (event {})", token.revision, token.at.seq));
    let mut all = vec![format!("{name}: {}", at.unwrap_or_default())];
    all.push(match (done.count, done.durable) {
        (0, _) => "nothing to change".into(),
        (_, true) => "durable".to_owned(),
        (_, false) => "not durable yet".into(),
    });
    if done.again {
        all.push("applied before".into());
    }
    all.join(", ")
}

fn list(global: &Global, verb: &Ls, out: &mut Out) -> Result<Exit, Failure> {
    let store = look(global)?;
    let home = there(&store, global, &verb.home)?;
    let query = DocumentQuery {
        prefix: verb.prefix.clone(),
        kind: verb.kind.clone(),
        after: verb.after.as_deref().map(DocumentName::new).transpose()?,
        limit: verb.limit.map(|limit| usize::try_from(limit).unwrap_or(usize::MAX)),
    };
    let page = home.documents().list(&query)?;
    for found in &page.documents {
        if out.json {
            out.line(&document::listed(found, home.workspace().name()))?;
        } else {
            let kind = found.document.kind.as_deref().map(|kind| format!("  {}", escape::text(kind)));
            out.line(&format!(
                "{}  revision {}  {} bytes  {}{}",
                escape::text(found.document.name.as_str()),
                found.token.revision,
                found.document.value.json_len(),
                table::local(i128::from(found.document.time), true),
                kind.unwrap_or_default(),
            ))?;
        }
    }
    if out.json {
        let mut line = String::from("{");
        document::next(&page, &mut line);
        out.line(&(line + "}"))?;
    } else if let Some(next) = &page.next {
        out.talk(&format!("there is more: --after {:?}", next.as_str()));
    }
    Ok(Exit::Fine)
}

fn history(global: &Global, verb: &Named, out: &mut Out) -> Result<Exit, Failure> {
    let name = DocumentName::new(&verb.name)?;
    let store = look(global)?;
    let home = there(&store, global, &verb.home)?;
    for change in home.documents().history(&name)? {
        if out.json {
            out.line(&document::change(&home, &change)?)?;
            continue;
        }
        let event = kinds::name(change.event).unwrap_or("event");
        let when = table::local(i128::from(change.time), true);
        out.line(&format!("{when}  event {}  revision {}  {event}", change.seq, change.revision))?;
        out.line(&match &change.document {
            Some(document) if verb.full => format!("  {}", shown(&home.value(&document.value)?, true)),
            Some(document) => format!("  {}", shown(&document.value, false)),
            None => "  (deleted)".into(),
        })?;
    }
    Ok(Exit::Fine)
}

fn sync(global: &Global, verb: &Sync, out: &mut Out) -> Result<Exit, Failure> {
    let name = DocumentName::new(&verb.name)?;
    let store = homes::open(global, "doc sync", true)?;
    let home = made(&store, global, &verb.home)?;
    let bridge = Bridge::new(home.documents(), name.clone(), &verb.file)?;
    let bridge = verb.kind.iter().fold(bridge, |bridge, kind| bridge.kind(kind));
    let synced = bridge.sync()?;
    let line = document::synced(name.as_str(), bridge.path(), &synced);
    let did = match (synced.imported, synced.exported) {
        (true, true) => "taken in from the file, and written to it",
        (true, false) => "taken in from the file",
        (false, true) => "written to the file",
        (false, false) => "nothing to do",
    };
    out.line(&if out.json { line } else { format!("{}: {did}", escape::text(name.as_str())) })?;
    let mut exit = Exit::Fine;
    for finding in &synced.findings {
        out.tell(finding);
        exit = exit.worse(Exit::of_severity(Some(finding.severity)));
    }
    out.flush()?;
    home.workspace().clone().close()?;
    Ok(exit)
}
