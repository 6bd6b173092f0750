//! What can be asked of a workspace's tasks, as values: one commit takes any number of them.

use std::path::Path;
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::event::{
    DocumentName, Event, Fence, Field, ITEM_FIELDS_MAX, ITEM_LEN_MAX, Item, Mirrored, Patch, Retention,
    Status, StatusTable, TaskId, Value,
};
use crate::log::format::MAX_BODY;
use crate::log::{Durability, Expect, Key, Log, OpId, Revision, Seq};

use super::documents::DocumentExpect;
use super::token::Token;

/// A field value whose text is longer than this is kept as a blob.
pub const VALUE_INLINE_MAX: u64 = 64 << 10;
/// Where a commit would not fit its frame, the largest values become blobs, down to this length.
const VALUE_SPILL_MIN: u64 = 512;
/// What of a frame is left to keys and envelopes.
const FRAME_SLACK: u64 = 1 << 20;
/// What an operation takes beside the values it brings.
const OP_WEIGHT: u64 = 256;

/// One change that is asked for. All of a commit's are judged in their order, each on what those before it leave.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// A new task.
    Create {
        /// All of it, with its `id`.
        item: Item,
        /// Whether a deleted task of this id may come to life again.
        again: bool,
    },
    /// Fields to change.
    Patch {
        /// The task.
        id: TaskId,
        /// What to change.
        patch: Patch,
    },
    /// A title given by a person.
    Rename {
        /// The task.
        id: TaskId,
        /// The title.
        title: Value,
    },
    /// Another status.
    SetStatus {
        /// The task.
        id: TaskId,
        /// The status.
        status: Status,
    },
    /// Back from interrupted to active.
    Resume {
        /// The task.
        id: TaskId,
    },
    /// The parent waits for the child from now on; the child is created, or taken if it is there.
    Delegate {
        /// The parent.
        parent: TaskId,
        /// The child: its `id` alone if it is there already.
        child: Item,
    },
    /// The task is completed; the parent that waits for it goes on.
    Complete {
        /// The task.
        id: TaskId,
        /// What came of it.
        summary: Option<Value>,
    },
    /// The tasks go, and their ids stay taken.
    Remove {
        /// The tasks.
        ids: Vec<TaskId>,
        /// Whether all below them go too; without it a task with children is not removed.
        cascade: bool,
    },
    /// The committing session runs the task from now on.
    Attach {
        /// The task.
        id: TaskId,
    },
    /// It no longer does.
    Detach {
        /// The task.
        id: TaskId,
        /// By what it was held.
        fence: Fence,
    },
    /// The task is taken from whoever runs it; a parent that waits for it goes on without it.
    Abandon {
        /// The task.
        id: TaskId,
    },
    /// A delegation that nobody alive will bring to an end is brought to one; where somebody will, nothing happens.
    Mend {
        /// The parent.
        parent: TaskId,
        /// Whether that nobody ever attached to the task counts as nobody alive.
        unowned: bool,
    },
    /// A record of an older layout is taken over, or what changed in it since it last was.
    Import(ImportRecord),
    /// Another status table for the whole workspace.
    SetRules(StatusTable),
    /// How much of the history is kept.
    SetRetention {
        /// Of this task; `None` = of the workspace, for all that have nothing of their own.
        id: Option<TaskId>,
        /// How much; `None` takes back what was set.
        retention: Option<Retention>,
    },
    /// Whether a task's history is kept whole, whatever else is set.
    Pin {
        /// The task.
        id: TaskId,
        /// Whether it is.
        pinned: bool,
    },
    /// A document, whole: a new one, or in place of what stands there.
    PutDocument {
        /// Its name.
        name: DocumentName,
        /// What it is from now on; `None` = what it was.
        kind: Option<Arc<str>>,
        /// All of it.
        value: Value,
        /// Whether a deleted document of this name may come to life again.
        again: bool,
    },
    /// Members to change of a document that is an object.
    PatchDocument {
        /// Its name.
        name: DocumentName,
        /// What to change.
        patch: Patch,
    },
    /// The document goes; its name keeps its revisions, so that a late write does not bring it back.
    DeleteDocument {
        /// Its name.
        name: DocumentName,
    },
    /// What a file that mirrors the document holds, or is about to hold. Of a [`Bridge`](crate::document::Bridge).
    MirrorDocument {
        /// The document.
        name: DocumentName,
        /// What the file has to do with which contents; of revision 0, the one that the commit leaves is meant.
        mirrored: Mirrored,
    },
}

/// A record of an older layout.
#[derive(Clone, Debug, PartialEq)]
pub struct ImportRecord {
    /// The task it is of.
    pub id: TaskId,
    /// The record.
    pub item: Item,
    /// Where it came from, for people.
    pub source: String,
    /// Fields for which the source has no more than a stand-in, or nothing (a placeholder for a title, sums of zero): taken
    /// where nothing stands here, never in place of something.
    pub weak: Vec<Field>,
    /// Records of the same task that were not chosen and say something else: where from, and their text as a value.
    pub evidence: Vec<(String, Value)>,
}

/// What an [`ImportRecord`] came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImportOutcome {
    /// The task is new here.
    Created,
    /// The source has changed since it was last taken over, and so has the task.
    Updated {
        /// Fields that both sides have changed since; this side's stand.
        kept: Vec<Field>,
    },
    /// Nothing was to be done.
    Unchanged,
    /// The task was created here, not imported; it was not touched.
    Own,
    /// The task was deleted here and stays so.
    Deleted,
}

/// What a commit expects of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskExpect {
    /// It has never been there.
    Absent,
    /// It is there.
    Exists,
    /// It is as it was when this token was given out.
    At(Token),
    /// It has this revision. Valid only as long as the machine runs: a power cut may give numbers out again.
    Revision(Revision),
}

impl TaskExpect {
    pub(super) fn to_log(self) -> Expect {
        match self {
            TaskExpect::Absent => Expect::Absent,
            TaskExpect::Exists => Expect::Exists,
            TaskExpect::At(token) => token.expect(),
            TaskExpect::Revision(revision) => Expect::Revision(revision),
        }
    }
}

/// How a commit is to be made.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CommitOptions {
    /// What it survives.
    pub durability: Durability,
    /// What it rests on.
    pub expect: Vec<(TaskId, TaskExpect)>,
    /// What it rests on, of documents: as they stood before it.
    pub documents: Vec<(DocumentName, DocumentExpect)>,
    /// On whose behalf it is made: each fence must still hold.
    pub fences: Vec<(TaskId, Fence)>,
    /// The request's name: the same request under the same name is applied once, however often it is sent.
    pub op_id: Option<OpId>,
    /// The highest event number its caller had seen when it made the request; without it, what this process has.
    ///
    /// By it a request is known to be older than the memory of op ids. Without it a request that is sent again after more
    /// than 65,536 others looks like a new one, and is applied again.
    pub seen: Option<Seq>,
}

impl CommitOptions {
    /// The default: durable, resting on nothing, without a name.
    pub fn new() -> Self {
        CommitOptions::default()
    }

    /// What it survives.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// Adds what it rests on.
    #[must_use]
    pub fn expect(mut self, id: &TaskId, expect: TaskExpect) -> Self {
        self.expect.push((id.clone(), expect));
        self
    }

    /// Adds what it rests on, of a document.
    #[must_use]
    pub fn expect_document(mut self, name: &DocumentName, expect: DocumentExpect) -> Self {
        self.documents.push((name.clone(), expect));
        self
    }

    /// Makes it on behalf of whoever holds a task by this fence: refused as [`ErrorKind::Fenced`] once that has changed hands.
    #[must_use]
    pub fn fence(mut self, id: &TaskId, fence: Fence) -> Self {
        self.fences.push((id.clone(), fence));
        self
    }

    /// Names the request. Whoever may send it again from another process, or much later, keeps with the name what had been
    /// [seen](CommitOptions::seen()) when the request was made, and gives that too.
    #[must_use]
    pub fn op_id(mut self, op_id: OpId) -> Self {
        self.op_id = Some(op_id);
        self
    }

    /// The highest event number the caller had seen when it made the request: kept with its name, and the same each time
    /// it is sent.
    #[must_use]
    pub fn seen(mut self, seen: Seq) -> Self {
        self.seen = Some(seen);
        self
    }
}

impl From<Durability> for CommitOptions {
    fn from(durability: Durability) -> Self {
        CommitOptions::default().durability(durability)
    }
}

impl Op {
    /// The tasks it names.
    pub fn ids(&self) -> Vec<&TaskId> {
        match self {
            Op::Patch { id, .. }
            | Op::Rename { id, .. }
            | Op::SetStatus { id, .. }
            | Op::Resume { id }
            | Op::Attach { id }
            | Op::Detach { id, .. }
            | Op::Abandon { id }
            | Op::Pin { id, .. }
            | Op::SetRetention { id: Some(id), .. }
            | Op::Complete { id, .. } => vec![id],
            Op::Delegate { parent, .. } | Op::Mend { parent, .. } => vec![parent],
            Op::Remove { ids, .. } => ids.iter().collect(),
            Op::Import(record) => vec![&record.id],
            Op::Create { .. }
            | Op::SetRules(_)
            | Op::SetRetention { id: None, .. }
            | Op::PutDocument { .. }
            | Op::PatchDocument { .. }
            | Op::DeleteDocument { .. }
            | Op::MirrorDocument { .. } => Vec::new(),
        }
    }

    /// The document it is about.
    pub fn document(&self) -> Option<&DocumentName> {
        match self {
            Op::PutDocument { name, .. }
            | Op::PatchDocument { name, .. }
            | Op::DeleteDocument { name }
            | Op::MirrorDocument { name, .. } => Some(name),
            _ => None,
        }
    }

    /// Whether it depends on who lives.
    pub(super) fn asks_who_lives(&self) -> bool {
        matches!(self, Op::Attach { .. } | Op::Mend { .. })
    }

    /// The keys of all tasks and documents it is about, those it makes included.
    pub(super) fn touches(&self) -> Vec<Key> {
        let made = self.item().and_then(|item| item.text(&Field::Id)).map(|id| Key::task(&id));
        let document = self.document().map(DocumentName::key);
        self.ids().into_iter().map(TaskId::key).chain(made).chain(document).collect()
    }

    fn values_mut(&mut self) -> Vec<&mut Value> {
        match self {
            Op::Create { item, .. } | Op::Delegate { child: item, .. } => {
                item.fields_mut().iter_mut().filter(|(field, _)| may_be_blob(field)).map(|(_, v)| v).collect()
            }
            Op::Patch { patch, .. } => {
                patch.set.iter_mut().filter(|(field, _)| may_be_blob(field)).map(|(_, v)| v).collect()
            }
            Op::Rename { title, .. } => vec![title],
            Op::Complete { summary, .. } => summary.iter_mut().collect(),
            Op::Import(record) => {
                let fields = record.item.fields_mut().iter_mut().filter(|(field, _)| may_be_blob(field));
                fields.map(|(_, v)| v).chain(record.evidence.iter_mut().map(|(_, v)| v)).collect()
            }
            Op::PutDocument { value, .. } => vec![value],
            // A document's patch is folded by whoever reads the log; a large one becomes a whole value.
            Op::PatchDocument { .. }
            | Op::DeleteDocument { .. }
            | Op::MirrorDocument { .. }
            | Op::SetStatus { .. }
            | Op::Resume { .. }
            | Op::Remove { .. }
            | Op::Attach { .. }
            | Op::Detach { .. }
            | Op::Abandon { .. }
            | Op::Mend { .. }
            | Op::SetRetention { .. }
            | Op::Pin { .. }
            | Op::SetRules(_) => Vec::new(),
        }
    }

    /// The item it makes or takes over.
    fn item(&self) -> Option<&Item> {
        match self {
            Op::Create { item, .. } | Op::Delegate { child: item, .. } => Some(item),
            Op::Import(record) => Some(&record.item),
            _ => None,
        }
    }

    /// About how many bytes of a frame it takes, keys and envelopes apart.
    fn weight(&self) -> u64 {
        let mine = match self {
            Op::Patch { patch, .. } | Op::PatchDocument { patch, .. } => {
                let set = patch.set.iter().map(|(field, value)| field.name().len() as u64 + value.json_len());
                let unset = patch.unset.iter().map(|field| field.name().len() as u64 + 2);
                set.chain(unset).chain(patch.drop_children.iter().map(|id| id.len() as u64 + 2)).sum()
            }
            Op::Rename { title, .. } => title.json_len(),
            Op::PutDocument { value, .. } => value.json_len(),
            Op::MirrorDocument { mirrored, .. } => {
                let members = mirrored.members.as_deref().unwrap_or_default();
                Mirrored::members_len(members) + 64 + mirrored.file.len() as u64
            }
            // It goes to the parent too.
            Op::Complete { summary, .. } => summary.as_ref().map_or(0, |summary| summary.json_len() * 2),
            Op::Remove { ids, .. } => ids.iter().map(|id| id.as_str().len() as u64).sum(),
            Op::Import(record) => record
                .evidence
                .iter()
                .map(|(source, value)| source.len() as u64 + value.json_len())
                .sum::<u64>(),
            _ => 0,
        };
        mine + self.item().map_or(0, Item::json_len) + OP_WEIGHT
    }

    /// Adds what it asks for to the hash of a request.
    fn hash(&self, hasher: &mut blake3::Hasher) {
        let text = |hasher: &mut blake3::Hasher, text: &str| {
            hasher.update(&(text.len() as u64).to_le_bytes()).update(text.as_bytes());
        };
        let value = |hasher: &mut blake3::Hasher, value: &Value| match value {
            Value::Blob { id, len } => drop(hasher.update(&len.to_le_bytes()).update(&id.0)),
            value => text(hasher, &value.to_json()),
        };
        let item = |hasher: &mut blake3::Hasher, item: &Item| {
            hasher.update(&(item.fields().len() as u64).to_le_bytes());
            for (field, v) in item.fields() {
                text(hasher, field.name());
                value(hasher, v);
            }
        };
        match self {
            Op::Create { item: it, again } => {
                text(hasher, if *again { "create again" } else { "create" });
                item(hasher, it);
            }
            Op::Patch { id, patch } => {
                text(hasher, "patch");
                text(hasher, id.as_str());
                hasher.update(&(patch.set.len() as u64).to_le_bytes());
                for (field, v) in &patch.set {
                    text(hasher, field.name());
                    value(hasher, v);
                }
                hasher.update(&(patch.unset.len() as u64).to_le_bytes());
                patch.unset.iter().for_each(|field| text(hasher, field.name()));
                hasher.update(&(patch.drop_children.len() as u64).to_le_bytes());
                patch.drop_children.iter().for_each(|id| text(hasher, id));
            }
            Op::Rename { id, title } => {
                text(hasher, "rename");
                text(hasher, id.as_str());
                value(hasher, title);
            }
            Op::SetStatus { id, status } => {
                text(hasher, "status");
                text(hasher, id.as_str());
                text(hasher, status.name());
            }
            Op::Resume { id } => {
                text(hasher, "resume");
                text(hasher, id.as_str());
            }
            Op::Delegate { parent, child } => {
                text(hasher, "delegate");
                text(hasher, parent.as_str());
                item(hasher, child);
            }
            Op::Complete { id, summary } => {
                text(hasher, "complete");
                text(hasher, id.as_str());
                hasher.update(&[u8::from(summary.is_some())]);
                summary.iter().for_each(|summary| value(hasher, summary));
            }
            Op::Remove { ids, cascade } => {
                text(hasher, if *cascade { "remove all below" } else { "remove" });
                hasher.update(&(ids.len() as u64).to_le_bytes());
                ids.iter().for_each(|id| text(hasher, id.as_str()));
            }
            Op::Attach { id } => {
                text(hasher, "attach");
                text(hasher, id.as_str());
            }
            Op::Detach { id, fence } => {
                text(hasher, "detach");
                text(hasher, id.as_str());
                hasher.update(&fence.number.to_le_bytes()).update(&fence.session.to_le_bytes());
            }
            Op::Abandon { id } => {
                text(hasher, "abandon");
                text(hasher, id.as_str());
            }
            Op::Mend { parent, unowned } => {
                text(hasher, if *unowned { "mend unowned" } else { "mend" });
                text(hasher, parent.as_str());
            }
            Op::Import(record) => {
                text(hasher, "import");
                text(hasher, record.id.as_str());
                item(hasher, &record.item);
                text(hasher, &record.source);
                hasher.update(&(record.weak.len() as u64).to_le_bytes());
                record.weak.iter().for_each(|field| text(hasher, field.name()));
                hasher.update(&(record.evidence.len() as u64).to_le_bytes());
                for (source, v) in &record.evidence {
                    text(hasher, source);
                    value(hasher, v);
                }
            }
            Op::PutDocument { name, kind, value: v, again } => {
                text(hasher, if *again { "put document again" } else { "put document" });
                text(hasher, name.as_str());
                hasher.update(&[u8::from(kind.is_some())]);
                kind.iter().for_each(|kind| text(hasher, kind));
                value(hasher, v);
            }
            Op::PatchDocument { name, patch } => {
                text(hasher, "patch document");
                text(hasher, name.as_str());
                hasher.update(&(patch.set.len() as u64).to_le_bytes());
                for (field, v) in &patch.set {
                    text(hasher, field.name());
                    value(hasher, v);
                }
                hasher.update(&(patch.unset.len() as u64).to_le_bytes());
                patch.unset.iter().for_each(|field| text(hasher, field.name()));
            }
            Op::DeleteDocument { name } => {
                text(hasher, "delete document");
                text(hasher, name.as_str());
            }
            Op::MirrorDocument { name, mirrored } => {
                text(hasher, "mirror document");
                text(hasher, name.as_str());
                text(hasher, &mirrored.file);
                hasher.update(&mirrored.content).update(&[mirrored.note as u8]);
            }
            Op::SetRules(table) => {
                text(hasher, "rules");
                text(hasher, table.name());
                hasher.update(&(table.rows().len() as u64).to_le_bytes());
                for (from, to, by) in table.rows() {
                    text(hasher, from.name());
                    text(hasher, to.name());
                    hasher.update(&[u8::from(*by == crate::event::By::Resume)]);
                }
            }
            Op::SetRetention { id, retention } => {
                text(hasher, "retention");
                text(hasher, id.as_ref().map_or("", TaskId::as_str));
                hasher.update(Event::RetentionSet(*retention).to_new(Key::none()).body());
            }
            Op::Pin { id, pinned } => {
                text(hasher, if *pinned { "pin" } else { "unpin" });
                text(hasher, id.as_str());
            }
        }
    }
}

/// Whether a field's value may be kept elsewhere: not where the fold must read it.
fn may_be_blob(field: &Field) -> bool {
    !field.is_ruled()
        && !field.is_usage()
        && !matches!(field, Field::ChildIds | Field::Size | Field::Background | Field::Workspace)
}

/// Refuses an item that grows over a limit: bytes and number of fields as they would be, and as they are. One that is
/// over it already, by a status that came to 4,096 fields, may shrink and change.
pub(super) fn check_size((bytes, fields): (u64, usize), (bytes_now, fields_now): (u64, usize)) -> Result<()> {
    if bytes > ITEM_LEN_MAX.max(bytes_now) {
        return Err(too_large("an item's bytes", bytes, ITEM_LEN_MAX));
    }
    if fields > ITEM_FIELDS_MAX.max(fields_now) {
        return Err(too_large("an item's number of fields", fields as u64, ITEM_FIELDS_MAX as u64));
    }
    Ok(())
}

/// The same for an item that is new.
pub(super) fn check_item(item: &Item) -> Result<()> {
    check_size((item.json_len(), item.fields().len()), (0, 0))
}

fn too_large(what: &'static str, len: u64, max: u64) -> Error {
    Error::new(ErrorKind::TooLarge { what, len, max }, "commit", Path::new(""))
}

/// What identifies a request, whatever its values are kept as.
pub(super) fn request(ops: &[Op]) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    ops.iter().for_each(|op| op.hash(&mut hasher));
    hasher.finalize().into()
}

/// Brings values and fields that were put together by hand into the form in which others will read them.
///
/// # Errors
/// [`ErrorKind::Invalid`] for what no reader could read.
pub(super) fn settle(ops: &mut [Op]) -> Result<()> {
    let settle = |value: &mut Value| {
        value.settle().map_err(|bad| {
            let kind = ErrorKind::Invalid { what: "value", why: bad.to_string() };
            Error::new(kind, "commit", Path::new(""))
        })
    };
    for op in ops {
        match op {
            Op::Create { item, .. } | Op::Delegate { child: item, .. } => item.settle()?,
            Op::Patch { patch, .. } | Op::PatchDocument { patch, .. } => patch.settle()?,
            Op::PutDocument { value, .. } => settle(value)?,
            Op::Rename { title, .. } => settle(title)?,
            Op::SetRetention { retention, .. } => *retention = retention.map(Retention::settled),
            Op::Complete { summary, .. } => summary.iter_mut().try_for_each(settle)?,
            Op::Import(record) => {
                record.item.settle()?;
                record.evidence.iter_mut().try_for_each(|(_, value)| settle(value))?;
            }
            Op::SetStatus { .. }
            | Op::Resume { .. }
            | Op::Remove { .. }
            | Op::Attach { .. }
            | Op::Detach { .. }
            | Op::Abandon { .. }
            | Op::Mend { .. }
            | Op::DeleteDocument { .. }
            | Op::MirrorDocument { .. }
            | Op::Pin { .. }
            | Op::SetRules(_) => {}
        }
    }
    Ok(())
}

/// Whether [`spill`] may have anything to do.
pub(super) fn must_spill(ops: &[Op]) -> bool {
    // No value is larger than its operation.
    let (mut sum, mut largest) = (0, 0);
    for weight in ops.iter().map(Op::weight) {
        sum += weight;
        largest = weight.max(largest);
    }
    largest > VALUE_INLINE_MAX || sum > u64::from(MAX_BODY) - FRAME_SLACK
}

/// Moves values that are too large for an event, or together too large for a frame, into blobs.
pub(super) fn spill(log: &Log, ops: &mut [Op]) -> Result<()> {
    for item in ops.iter().filter_map(Op::item) {
        check_item(item)?;
    }
    let mut inline: u64 = ops.iter().map(Op::weight).sum();
    let mut values: Vec<&mut Value> = ops.iter_mut().flat_map(Op::values_mut).collect();
    if let Some(value) = values.iter().find(|value| value.json_len() > ITEM_LEN_MAX) {
        return Err(too_large("a value's bytes", value.json_len(), ITEM_LEN_MAX));
    }
    values.retain(|value| !matches!(value, Value::Blob { .. }) && value.json_len() >= VALUE_SPILL_MIN);
    if values.is_empty() {
        return Ok(());
    }
    values.sort_by_key(|value| std::cmp::Reverse(value.json_len()));
    let mut moved = Vec::new();
    for value in values {
        let len = value.json_len();
        if len <= VALUE_INLINE_MAX && inline <= u64::from(MAX_BODY) - FRAME_SLACK {
            break;
        }
        inline -= len;
        moved.push(value);
    }
    if moved.is_empty() {
        return Ok(());
    }
    let texts: Vec<String> = moved.iter().map(|value| value.to_json()).collect();
    let contents: Vec<&[u8]> = texts.iter().map(String::as_bytes).collect();
    let names = log.put_blobs(&contents)?;
    for ((value, text), id) in moved.into_iter().zip(&texts).zip(names) {
        *value = Value::Blob { id, len: text.len() as u64 };
    }
    Ok(())
}
