//! What a request is: one JSON object, its members by name. A member that is unknown is an error, never passed over.

use std::borrow::Cow;
use std::collections::BTreeMap;

use foldlog::event::Fence;
use foldlog::task::{CommitOptions, DocumentExpect, Op, TaskExpect};
use foldlog::view::{DocumentQuery, Query};
use foldlog::{DocumentName, Field, Item, Patch, TaskId, TaskStatus, Value};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::failure::Failure;
use crate::members;
use crate::retention;
use crate::words;

/// See the module. Which members an operation takes, `docs/pipe.md` says.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Request<'a> {
    /// What its answer is to carry.
    #[serde(borrow)]
    pub id: Option<&'a RawValue>,
    /// What is asked for.
    pub op: Cow<'a, str>,
    pub(crate) workspace: Option<String>,
    // Tasks.
    pub(crate) task: Option<String>,
    pub(crate) tasks: Option<Vec<String>>,
    pub(crate) parent: Option<String>,
    #[serde(borrow)]
    pub(crate) item: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) child: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) set: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) unset: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) drop_children: Option<&'a RawValue>,
    pub(crate) again: bool,
    pub(crate) cascade: bool,
    #[serde(borrow)]
    pub(crate) title: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) summary: Option<&'a RawValue>,
    pub(crate) status: Option<String>,
    pub(crate) unowned: bool,
    pub(crate) table: Option<String>,
    /// How much of the history is kept, as [`crate::retention`] spells it; its `null` counts.
    #[serde(borrow, deserialize_with = "present_or_null")]
    pub(crate) keep: Option<&'a RawValue>,
    pub(crate) pinned: Option<bool>,
    #[serde(borrow)]
    pub(crate) ops: Vec<&'a RawValue>,
    // Documents.
    pub(crate) name: Option<String>,
    pub(crate) kind: Option<String>,
    /// A state file.
    pub(crate) file: Option<String>,
    #[serde(borrow)]
    pub(crate) value: Option<&'a RawValue>,
    pub(crate) prefix: Option<String>,
    /// Whether the store's global home is meant.
    pub(crate) global: bool,
    pub(crate) expect_documents: BTreeMap<String, Expected>,
    // How a commit is to be made.
    pub(crate) expect: BTreeMap<String, Expected>,
    pub(crate) fence: Option<String>,
    pub(crate) fences: BTreeMap<String, String>,
    pub(crate) op_id: Option<String>,
    pub(crate) seen: Option<u64>,
    /// What a commit is to survive.
    pub durability: Option<String>,
    // Lists.
    pub(crate) root: Option<String>,
    pub(crate) background: Option<bool>,
    pub(crate) sort: Option<String>,
    pub(crate) limit: Option<usize>,
    pub(crate) after: Option<String>,
    // Waiting and following.
    pub(crate) ticket: Option<String>,
    pub(crate) timeout_ms: Option<u64>,
    /// Where a subscription begins.
    pub from: Option<String>,
    /// Whether it is to tell of durable commits only.
    pub durable: bool,
    /// A subscription.
    pub sub: Option<u64>,
}

/// A value that is there although it is `null`.
fn present_or_null<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(from).map(Some)
}

/// A token, a bare revision, or one of the words `absent` and `exists`.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum Expected {
    Revision(u64),
    Word(String),
}

impl<'a> Request<'a> {
    /// # Errors
    /// `invalid` for what is no request, and for a member that its operation does not take.
    pub fn parse(line: &'a str) -> Result<Self, Failure> {
        Self::read(line, false)
    }

    fn read(line: &'a str, is_one_of_several: bool) -> Result<Self, Failure> {
        let request = serde_json::from_str(line).map_err(|e| Failure::invalid(format!("no request: {e}")))?;
        members::check(&request, is_one_of_several)?;
        Ok(request)
    }

    /// The members it has, beside `id` and `op`; one that says what is so without it is as good as none. A new member does not
    /// compile until it is named here.
    pub(crate) fn present(&self) -> Vec<&'static str> {
        macro_rules! present {
            ($($name:ident),* $(,)?) => {{
                let Request { id: _, op: _, $($name),* } = self;
                [$((stringify!($name), $name.is_there())),*]
            }};
        }
        let all = present![
            workspace,
            task,
            tasks,
            parent,
            item,
            child,
            set,
            unset,
            drop_children,
            again,
            cascade,
            title,
            summary,
            status,
            unowned,
            table,
            keep,
            pinned,
            ops,
            name,
            kind,
            file,
            value,
            prefix,
            global,
            expect_documents,
            expect,
            fence,
            fences,
            op_id,
            seen,
            durability,
            root,
            background,
            sort,
            limit,
            after,
            ticket,
            timeout_ms,
            from,
            durable,
            sub,
        ];
        all.into_iter().filter_map(|(name, is_there)| is_there.then_some(name)).collect()
    }

    /// The task that it is about.
    ///
    /// # Errors
    /// `invalid`.
    pub fn task(&self) -> Result<TaskId, Failure> {
        id("task", self.task.as_deref())
    }

    /// The tasks that it is about.
    ///
    /// # Errors
    /// `invalid`.
    pub fn tasks(&self) -> Result<Vec<TaskId>, Failure> {
        let ids = self.tasks.as_ref();
        let ids = ids.ok_or_else(|| Failure::invalid(format!("{} needs tasks, an array of ids", self.op)))?;
        Ok(ids.iter().map(|id| TaskId::new(id)).collect::<Result<_, _>>()?)
    }

    /// What it asks to be changed; `None` if it asks for something else.
    ///
    /// # Errors
    /// `invalid`, and the codes of ids and fences.
    pub fn change(&self) -> Result<Option<Op>, Failure> {
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
            "remove" => Op::Remove { ids: self.tasks()?, cascade: self.cascade },
            "set_retention" => Op::SetRetention {
                id: self.task.as_deref().map(TaskId::new).transpose()?,
                retention: retention::parse(
                    self.keep.ok_or_else(|| Failure::invalid("set_retention needs keep"))?.get(),
                )?,
            },
            "pin" => Op::Pin { id: self.task()?, pinned: self.pinned.unwrap_or(true) },
            "attach" => Op::Attach { id: self.task()? },
            "detach" => Op::Detach {
                id: self.task()?,
                fence: fence(self.fence.as_deref().ok_or_else(|| Failure::invalid("detach needs a fence"))?)?,
            },
            "abandon" => Op::Abandon { id: self.task()? },
            "mend" => Op::Mend { parent: id("parent", self.parent.as_deref())?, unowned: self.unowned },
            "doc_put" => Op::PutDocument {
                name: self.name()?,
                kind: self.kind.as_deref().map(Into::into),
                value: value("value", self.value)?,
                again: self.again || self.name.as_deref().is_some_and(|name| self.expects_absent(name)),
            },
            "doc_patch" => Op::PatchDocument { name: self.name()?, patch: self.patch()? },
            "doc_delete" => Op::DeleteDocument { name: self.name()? },
            "set_rules" => {
                let name =
                    self.table.as_deref().ok_or_else(|| Failure::invalid("set_rules needs a table"))?;
                let table = foldlog::StatusTable::named(name);
                Op::SetRules(table.ok_or_else(|| Failure::invalid(format!("there is no table {name:?}")))?)
            }
            _ => return Ok(None),
        }))
    }

    /// The document that it is about.
    ///
    /// # Errors
    /// `invalid`.
    pub fn name(&self) -> Result<DocumentName, Failure> {
        let name = self.name.as_deref();
        Ok(DocumentName::new(name.ok_or_else(|| Failure::invalid("name, a document's, is missing"))?)?)
    }

    fn expects_absent(&self, name: &str) -> bool {
        matches!(self.expect_documents.get(name), Some(Expected::Word(word)) if word == "absent")
    }

    /// Which documents a `doc_list` wants.
    ///
    /// # Errors
    /// As [`Request::change`].
    pub fn document_query(&self) -> Result<DocumentQuery, Failure> {
        Ok(DocumentQuery {
            prefix: self.prefix.clone().unwrap_or_default(),
            kind: self.kind.clone(),
            after: self.after.as_deref().map(DocumentName::new).transpose()?,
            limit: self.limit,
        })
    }

    /// The changes of a `commit`.
    ///
    /// # Errors
    /// As [`Request::change`].
    pub fn changes(&self) -> Result<Vec<Op>, Failure> {
        let mut all = Vec::with_capacity(self.ops.len());
        for (at, op) in self.ops.iter().enumerate() {
            let one = Request::read(op.get(), true)?;
            let mut change = one
                .change()?
                .ok_or_else(|| Failure::invalid(format!("ops[{at}]: {:?} is no change", one.op)))?;
            // Who expects it to be absent means to begin it anew.
            if let Op::PutDocument { name, again, .. } = &mut change {
                *again = *again || self.expects_absent(name.as_str());
            }
            all.push(change);
        }
        Ok(all)
    }

    /// How it is to be committed; a bare `fence` is that of the task it is about.
    ///
    /// # Errors
    /// As [`Request::change`].
    pub fn options(&self) -> Result<CommitOptions, Failure> {
        let mut options = CommitOptions::default();
        if let Some(text) = &self.durability {
            options.durability = words::parse_durability(text).map_err(Failure::invalid)?;
        }
        for (task, expected) in &self.expect {
            let expected = match expected {
                Expected::Revision(number) => TaskExpect::Revision(foldlog::Revision(*number)),
                Expected::Word(word) if word == "absent" => TaskExpect::Absent,
                Expected::Word(word) if word == "exists" => TaskExpect::Exists,
                Expected::Word(token) => words::parse_expected(token).map_err(Failure::invalid)?,
            };
            options = options.expect(&TaskId::new(task)?, expected);
        }
        for (name, expected) in &self.expect_documents {
            let expected = match expected {
                Expected::Revision(number) => DocumentExpect::Revision(foldlog::Revision(*number)),
                Expected::Word(word) => words::parse_document_expected(word).map_err(Failure::invalid)?,
            };
            options = options.expect_document(&DocumentName::new(name)?, expected);
        }
        for (task, text) in &self.fences {
            options = options.fence(&TaskId::new(task)?, fence(text)?);
        }
        if let Some(text) = self.fence.as_deref().filter(|_| self.op != "detach") {
            let about = self.task.as_deref().or(self.parent.as_deref());
            options = options.fence(&id("task", about)?, fence(text)?);
        }
        if let Some(text) = &self.op_id {
            options.op_id = Some(words::parse_op_id(text).map_err(Failure::invalid)?);
        }
        options.seen = self.seen.map(foldlog::Seq);
        Ok(options)
    }

    /// Which tasks a `list` wants.
    ///
    /// # Errors
    /// As [`Request::change`].
    pub fn query(&self) -> Result<Query, Failure> {
        let sort = self.sort.as_deref().map(words::parse_sort).transpose().map_err(Failure::invalid)?;
        Ok(Query {
            status: self.status.as_ref().map(|_| self.status()).transpose()?,
            parent: self.parent.clone(),
            root: self.root.clone(),
            workspace: None,
            background: self.background,
            sort: sort.unwrap_or_default(),
            limit: self.limit,
            after: self.after.as_deref().map(TaskId::new).transpose()?,
        })
    }

    pub(crate) fn status(&self) -> Result<TaskStatus, Failure> {
        let name = self.status.as_deref().ok_or_else(|| Failure::invalid("a status is missing"))?;
        TaskStatus::of(name).ok_or_else(|| Failure::invalid(format!("{name:?} is no status")))
    }

    fn patch(&self) -> Result<Patch, Failure> {
        let or = |part: Option<&RawValue>, none| part.map_or(none, RawValue::get).to_owned();
        let text = format!(r#"{{"set":{},"unset":{}}}"#, or(self.set, "{}"), or(self.unset, "[]"));
        let patch = Patch::parse(&text)?;
        let drops: Vec<String> = match self.drop_children {
            Some(drops) => serde_json::from_str(drops.get())
                .map_err(|e| Failure::invalid(format!("drop_children is to be an array of ids: {e}")))?,
            None => Vec::new(),
        };
        Ok(patch.drop_children(drops))
    }
}

/// Whether a member says anything.
trait IsThere {
    fn is_there(&self) -> bool;
}

impl<T> IsThere for Option<T> {
    fn is_there(&self) -> bool {
        self.is_some()
    }
}

impl IsThere for bool {
    fn is_there(&self) -> bool {
        *self
    }
}

impl<T> IsThere for Vec<T> {
    fn is_there(&self) -> bool {
        !self.is_empty()
    }
}

impl<T> IsThere for BTreeMap<String, T> {
    fn is_there(&self) -> bool {
        !self.is_empty()
    }
}

fn id(name: &str, text: Option<&str>) -> Result<TaskId, Failure> {
    Ok(TaskId::new(text.ok_or_else(|| Failure::invalid(format!("{name}, an id, is missing")))?)?)
}

fn fence(text: &str) -> Result<Fence, Failure> {
    Ok(text.parse()?)
}

fn value(name: &str, raw: Option<&RawValue>) -> Result<Value, Failure> {
    let text = raw.ok_or_else(|| Failure::invalid(format!("{name} is missing")))?.get();
    Value::parse(text).map_err(|bad| Failure::invalid(format!("{name}: {bad}")))
}

/// An object with its `id`, or a bare id.
fn item(name: &str, raw: Option<&RawValue>) -> Result<Item, Failure> {
    let text =
        raw.ok_or_else(|| Failure::invalid(format!("{name}, an object with an id, is missing")))?.get();
    if text.starts_with('"') {
        let id: String = serde_json::from_str(text).map_err(|e| Failure::invalid(format!("{name}: {e}")))?;
        return Ok(Item::new(&TaskId::new(&id)?));
    }
    let item = Item::parse(text)?;
    if item.get(&Field::Id).is_none() {
        return Err(Failure::invalid(format!("{name} has no id")));
    }
    Ok(item)
}

/// A value for each member.
#[cfg(test)]
pub(crate) const EXAMPLES: &[(&str, &str)] = &[
    ("workspace", r#""x""#),
    ("task", r#""x""#),
    ("tasks", r#"["x"]"#),
    ("parent", r#""x""#),
    ("item", "{}"),
    ("child", "{}"),
    ("set", "{}"),
    ("unset", "{}"),
    ("drop_children", "{}"),
    ("again", "true"),
    ("cascade", "true"),
    ("title", "{}"),
    ("summary", "{}"),
    ("status", r#""x""#),
    ("unowned", "true"),
    ("table", r#""x""#),
    ("keep", r#""all""#),
    ("pinned", "true"),
    ("ops", "[{}]"),
    ("name", r#""x""#),
    ("kind", r#""x""#),
    ("file", r#""x""#),
    ("value", "{}"),
    ("prefix", r#""x""#),
    ("global", "true"),
    ("expect_documents", r#"{"x":1}"#),
    ("expect", r#"{"x":1}"#),
    ("fence", r#""x""#),
    ("fences", r#"{"x":"y"}"#),
    ("op_id", r#""x""#),
    ("seen", "1"),
    ("durability", r#""x""#),
    ("root", r#""x""#),
    ("background", "true"),
    ("sort", r#""x""#),
    ("limit", "1"),
    ("after", r#""x""#),
    ("ticket", r#""x""#),
    ("timeout_ms", "1"),
    ("from", r#""x""#),
    ("durable", "true"),
    ("sub", "1"),
];
