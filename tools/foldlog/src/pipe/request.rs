//! What a request is: one JSON object, its members by name. A member that is unknown is an error, never passed over.

use std::borrow::Cow;
use std::collections::BTreeMap;

use foldlog::event::Fence;
use foldlog::task::{CommitOptions, Op, TaskExpect};
use foldlog::{Field, Item, Patch, TaskId, TaskStatus, Value};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::failure::Failure;
use crate::task_args;

/// See the module. Which members an operation takes, `docs/pipe.md` says.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Request<'a> {
    #[serde(borrow)]
    pub(super) id: Option<&'a RawValue>,
    pub(super) op: Cow<'a, str>,
    pub(super) workspace: Option<String>,
    // Tasks.
    pub(super) task: Option<String>,
    pub(super) tasks: Option<Vec<String>>,
    pub(super) parent: Option<String>,
    #[serde(borrow)]
    pub(super) item: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) child: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) set: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) unset: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) drop_children: Option<&'a RawValue>,
    pub(super) again: bool,
    pub(super) cascade: bool,
    #[serde(borrow)]
    pub(super) title: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) summary: Option<&'a RawValue>,
    pub(super) status: Option<String>,
    pub(super) unowned: bool,
    pub(super) table: Option<String>,
    #[serde(borrow)]
    pub(super) ops: Vec<&'a RawValue>,
    // How a commit is to be made.
    pub(super) expect: BTreeMap<String, Expected>,
    pub(super) fence: Option<String>,
    pub(super) fences: BTreeMap<String, String>,
    pub(super) op_id: Option<String>,
    pub(super) seen: Option<u64>,
    pub(super) durability: Option<String>,
    // Lists.
    pub(super) root: Option<String>,
    pub(super) background: Option<bool>,
    pub(super) sort: Option<String>,
    pub(super) limit: Option<usize>,
    pub(super) after: Option<String>,
    // Waiting and following.
    pub(super) ticket: Option<String>,
    pub(super) timeout_ms: Option<u64>,
    pub(super) from: Option<String>,
    pub(super) durable: bool,
    pub(super) sub: Option<u64>,
}

/// A token, a bare revision, or one of the words `absent` and `exists`.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Expected {
    Revision(u64),
    Word(String),
}

pub(super) fn invalid(why: impl Into<String>) -> Failure {
    Failure::Own {
        code: "invalid",
        message: why.into(),
        remedy: "see docs/pipe.md for what the operation takes; nothing was done".into(),
        file: None,
    }
}

impl<'a> Request<'a> {
    /// # Errors
    /// `invalid` for what is no request.
    pub(super) fn parse(line: &'a str) -> Result<Self, Failure> {
        serde_json::from_str(line).map_err(|e| invalid(format!("no request: {e}")))
    }

    /// The task that it is about.
    pub(super) fn task(&self) -> Result<TaskId, Failure> {
        id("task", self.task.as_deref())
    }

    /// What it asks to be changed; `None` if it asks for something else.
    pub(super) fn change(&self) -> Result<Option<Op>, Failure> {
        Ok(Some(match &*self.op {
            "create" => Op::Create { item: item("item", self.item)?, again: self.again },
            "patch" => Op::Patch { id: self.task()?, patch: self.patch()? },
            "rename" => Op::Rename { id: self.task()?, title: value("title", self.title)? },
            "status" => Op::SetStatus { id: self.task()?, status: self.status()? },
            "resume" => Op::Resume { id: self.task()? },
            "delegate" => Op::Delegate {
                parent: id("parent", self.parent.as_deref())?,
                child: item("child", self.child)?,
            },
            "complete" => Op::Complete {
                id: self.task()?,
                summary: self.summary.map(|summary| value("summary", Some(summary))).transpose()?,
            },
            "remove" => {
                let ids =
                    self.tasks.as_ref().ok_or_else(|| invalid("remove needs tasks, an array of ids"))?;
                let ids = ids.iter().map(|id| TaskId::new(id)).collect::<Result<_, _>>()?;
                Op::Remove { ids, cascade: self.cascade }
            }
            "attach" => Op::Attach { id: self.task()? },
            "detach" => Op::Detach {
                id: self.task()?,
                fence: fence(self.fence.as_deref().ok_or_else(|| invalid("detach needs a fence"))?)?,
            },
            "abandon" => Op::Abandon { id: self.task()? },
            "mend" => Op::Mend { parent: id("parent", self.parent.as_deref())?, unowned: self.unowned },
            "set_rules" => {
                let name = self.table.as_deref().ok_or_else(|| invalid("set_rules needs a table"))?;
                let table = foldlog::StatusTable::named(name);
                Op::SetRules(table.ok_or_else(|| invalid(format!("there is no table {name:?}")))?)
            }
            _ => return Ok(None),
        }))
    }

    /// The changes of a `commit`.
    pub(super) fn changes(&self) -> Result<Vec<Op>, Failure> {
        let mut all = Vec::with_capacity(self.ops.len());
        for (at, op) in self.ops.iter().enumerate() {
            let one = Request::parse(op.get())?;
            let change =
                one.change()?.ok_or_else(|| invalid(format!("ops[{at}]: {:?} is no change", one.op)))?;
            all.push(change);
        }
        Ok(all)
    }

    /// How it is to be committed; a bare `fence` is that of the task it is about.
    pub(super) fn options(&self) -> Result<CommitOptions, Failure> {
        let mut options = CommitOptions::default();
        if let Some(text) = &self.durability {
            options.durability = task_args::parse_durability(text).map_err(invalid)?;
        }
        for (task, expected) in &self.expect {
            let expected = match expected {
                Expected::Revision(number) => TaskExpect::Revision(foldlog::Revision(*number)),
                Expected::Word(word) if word == "absent" => TaskExpect::Absent,
                Expected::Word(word) if word == "exists" => TaskExpect::Exists,
                Expected::Word(token) => task_args::parse_expected(token).map_err(invalid)?,
            };
            options = options.expect(&TaskId::new(task)?, expected);
        }
        for (task, text) in &self.fences {
            options = options.fence(&TaskId::new(task)?, fence(text)?);
        }
        if let Some(text) = self.fence.as_deref().filter(|_| self.op != "detach") {
            let about = self.task.as_deref().or(self.parent.as_deref());
            options = options.fence(&id("task", about)?, fence(text)?);
        }
        if let Some(text) = &self.op_id {
            options.op_id = Some(task_args::parse_op_id(text).map_err(invalid)?);
        }
        options.seen = self.seen.map(foldlog::Seq);
        Ok(options)
    }

    pub(super) fn status(&self) -> Result<TaskStatus, Failure> {
        let name = self.status.as_deref().ok_or_else(|| invalid("a status is missing"))?;
        TaskStatus::of(name).ok_or_else(|| invalid(format!("{name:?} is no status")))
    }

    fn patch(&self) -> Result<Patch, Failure> {
        let or = |part: Option<&RawValue>, none| part.map_or(none, RawValue::get).to_owned();
        let text = format!(r#"{{"set":{},"unset":{}}}"#, or(self.set, "{}"), or(self.unset, "[]"));
        let patch = Patch::parse(&text)?;
        let drops: Vec<String> = match self.drop_children {
            Some(drops) => serde_json::from_str(drops.get())
                .map_err(|e| invalid(format!("drop_children is to be an array of ids: {e}")))?,
            None => Vec::new(),
        };
        Ok(patch.drop_children(drops))
    }
}

fn id(name: &str, text: Option<&str>) -> Result<TaskId, Failure> {
    Ok(TaskId::new(text.ok_or_else(|| invalid(format!("{name}, an id, is missing")))?)?)
}

pub(super) fn fence(text: &str) -> Result<Fence, Failure> {
    Ok(text.parse()?)
}

fn value(name: &str, raw: Option<&RawValue>) -> Result<Value, Failure> {
    let text = raw.ok_or_else(|| invalid(format!("{name} is missing")))?.get();
    Value::parse(text).map_err(|bad| invalid(format!("{name}: {bad}")))
}

/// An object with its `id`, or a bare id.
fn item(name: &str, raw: Option<&RawValue>) -> Result<Item, Failure> {
    let text = raw.ok_or_else(|| invalid(format!("{name}, an object with an id, is missing")))?.get();
    if text.starts_with('"') {
        let id: String = serde_json::from_str(text).map_err(|e| invalid(format!("{name}: {e}")))?;
        return Ok(Item::new(&TaskId::new(&id)?));
    }
    let item = Item::parse(text)?;
    if item.get(&Field::Id).is_none() {
        return Err(invalid(format!("{name} has no id")));
    }
    Ok(item)
}
