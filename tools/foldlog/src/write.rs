//! The verbs that change tasks, and their receipts.

use foldlog::task::{CommitOptions, Committed, Op};
use foldlog::{Field, Item, Patch, TaskId, Tasks, Value};
use foldlog_requests::{Failure, place, receipt};

use crate::args::Global;
use crate::escape;
use crate::exit::Exit;
use crate::fields;
use crate::homes;
use crate::out::Out;
use crate::task_args::{Abandon, Change, Complete, Create, Delegate, Remove, Rename, Resume, Set, SetStatus};

/// `foldlog create`.
pub(crate) fn create(global: &Global, verb: &Create, out: &mut Out) -> Result<Exit, Failure> {
    let id = TaskId::new(&verb.id)?;
    let item = item(&id, fields::parse_new(&verb.fields)?);
    let options = options(&verb.change, &id);
    let store = homes::open(global, "create", true)?;
    let (home, done) = match &global.workspace {
        // A workspace that was named is the one, whatever others hold.
        Some(text) => {
            let home = place::named_or_new(&store, text)?;
            let done = home.commit(vec![Op::Create { item, again: verb.again }], options)?;
            (home, done)
        }
        None => {
            let place = place::place(".")?;
            match verb.again {
                true => store.create_again(&place, item, options)?,
                false => store.create(&place, item, options)?,
            }
        }
    };
    tell(&home, &done, out)
}

/// `foldlog set`.
pub(crate) fn set(global: &Global, verb: &Set, out: &mut Out) -> Result<Exit, Failure> {
    let id = TaskId::new(&verb.id)?;
    let mut patch = Patch::new();
    for (field, value) in fields::parse(&verb.fields)? {
        if field == Field::ChildIds {
            return Err(Failure::Own {
                code: "ruled-field",
                message: "childIds is not a field to be saved; use `delegate`, which adds the child".into(),
                remedy: "use the verb, or leave the field out of what is saved".into(),
                file: None,
            });
        }
        patch = match value {
            Some(value) => patch.set(field, value),
            None => patch.unset(field),
        };
    }
    change(global, "set", Op::Patch { id: id.clone(), patch }, options(&verb.change, &id), out)
}

/// `foldlog rename`.
pub(crate) fn rename(global: &Global, verb: &Rename, out: &mut Out) -> Result<Exit, Failure> {
    let id = TaskId::new(&verb.id)?;
    let op = Op::Rename { id: id.clone(), title: Value::text(verb.title.as_str()) };
    change(global, "rename", op, options(&verb.change, &id), out)
}

/// `foldlog status`.
pub(crate) fn status(global: &Global, verb: &SetStatus, out: &mut Out) -> Result<Exit, Failure> {
    let id = TaskId::new(&verb.id)?;
    let op = Op::SetStatus { id: id.clone(), status: verb.status };
    change(global, "status", op, options(&verb.change, &id), out)
}

/// `foldlog resume`.
pub(crate) fn resume(global: &Global, verb: &Resume, out: &mut Out) -> Result<Exit, Failure> {
    let id = TaskId::new(&verb.id)?;
    change(global, "resume", Op::Resume { id: id.clone() }, options(&verb.change, &id), out)
}

/// `foldlog delegate`.
pub(crate) fn delegate(global: &Global, verb: &Delegate, out: &mut Out) -> Result<Exit, Failure> {
    let (parent, child) = (TaskId::new(&verb.parent)?, TaskId::new(&verb.child)?);
    let child = item(&child, fields::parse_new(&verb.fields)?);
    let options = options(&verb.change, &parent);
    change(global, "delegate", Op::Delegate { parent, child }, options, out)
}

/// `foldlog complete`.
pub(crate) fn complete(global: &Global, verb: &Complete, out: &mut Out) -> Result<Exit, Failure> {
    let id = TaskId::new(&verb.id)?;
    let op = Op::Complete { id: id.clone(), summary: verb.summary.as_deref().map(Value::text) };
    change(global, "complete", op, options(&verb.change, &id), out)
}

/// `foldlog rm`.
pub(crate) fn remove(global: &Global, verb: &Remove, out: &mut Out) -> Result<Exit, Failure> {
    let ids: Vec<TaskId> = verb.ids.iter().map(|id| TaskId::new(id)).collect::<Result<_, _>>()?;
    let options = match ids.as_slice() {
        [id] => options(&verb.change, id),
        [first, ..] if verb.change.expect_revision.is_none() => options(&verb.change, first),
        _ => {
            return Err(Failure::usage(
                "--expect-revision speaks of one task, and several are named",
                "remove them one by one, or leave it out",
            ));
        }
    };
    change(global, "rm", Op::Remove { ids, cascade: verb.cascade }, options, out).map_err(name_cascade)
}

/// `foldlog abandon`.
pub(crate) fn abandon(global: &Global, verb: &Abandon, out: &mut Out) -> Result<Exit, Failure> {
    let id = TaskId::new(&verb.id)?;
    change(global, "abandon", Op::Abandon { id: id.clone() }, options(&verb.change, &id), out)
}

/// The library does not know what this program calls it.
fn name_cascade(failure: Failure) -> Failure {
    match failure {
        Failure::Library(error) if error.code() == "refused" => Failure::Own {
            code: "refused",
            message: error.to_string(),
            remedy: "give --cascade to remove all below it too; nothing was written".into(),
            file: None,
        },
        failure => failure,
    }
}

fn item(id: &TaskId, fields: Vec<(Field, Value)>) -> Item {
    fields.into_iter().fold(Item::new(id), |item, (field, value)| item.with(field, value))
}

fn options(change: &Change, id: &TaskId) -> CommitOptions {
    let mut options = CommitOptions::from(change.durability);
    if let Some(expected) = change.expect_revision {
        options = options.expect(id, expected);
    }
    if let Some(fence) = change.fence {
        options = options.fence(id, fence);
    }
    options.op_id = change.op_id;
    options
}

/// Commits a change, in the workspace that was named, else in the one the task is at home in.
pub(crate) fn commit(
    global: &Global,
    verb: &str,
    op: Op,
    options: CommitOptions,
) -> Result<(Tasks, Committed), Failure> {
    let store = homes::open(global, verb, false)?;
    match &global.workspace {
        Some(text) => {
            let home = store.named(&place::find(store.store(), text)?)?;
            let done = home.commit(vec![op], options)?;
            Ok((home, done))
        }
        None => Ok(store.commit(vec![op], options)?),
    }
}

/// [`commit`], and its receipt.
fn change(
    global: &Global,
    verb: &str,
    op: Op,
    options: CommitOptions,
    out: &mut Out,
) -> Result<Exit, Failure> {
    let (home, done) = commit(global, verb, op, options)?;
    tell(&home, &done, out)
}

/// Prints what was done, before anything that is left to do can fail, then settles the log.
pub(crate) fn tell(home: &Tasks, done: &Committed, out: &mut Out) -> Result<Exit, Failure> {
    out.line(&if out.json { receipt::committed(done) } else { people(done) })?;
    out.flush()?;
    home.workspace().clone().close()?;
    Ok(Exit::Fine)
}

fn people(done: &Committed) -> String {
    /// How many tasks are named on the one line.
    const NAMED_MAX: usize = 8;
    if done.tasks.is_empty() {
        return "nothing to change".into();
    }
    let one = |(id, token): &(TaskId, foldlog::Token)| {
        format!("{}: revision {} (event {})", escape::text(id.as_str()), token.revision, token.at.seq)
    };
    let mut all: Vec<String> = done.tasks.iter().take(NAMED_MAX).map(one).collect();
    if done.tasks.len() > NAMED_MAX {
        all.push(format!("{} more", done.tasks.len() - NAMED_MAX));
    }
    all.push(if done.durable { "durable" } else { "not durable yet" }.into());
    if done.again {
        all.push("applied before".into());
    }
    all.join(", ")
}
