//! The vocabulary: what the events of a task history mean, and how they stand on disk.
//!
//! [`kinds`] has every number; [`Event`] is one event decoded; `body` has the frozen structs; [`Item`], [`Field`] and
//! [`Value`] are the open JSON objects that tasks are; [`StatusTable`] says which status may follow which.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

mod body;
mod fence;
mod id;
mod item;
pub mod json;
pub mod kinds;
mod name;
mod plain;
mod retention;
mod status;
mod value;

pub use fence::Fence;
pub use id::TaskId;
pub(crate) use item::{Edit, Shelf};
pub use item::{Field, ITEM_FIELDS_MAX, ITEM_LEN_MAX, Item, Patch};
pub use kinds::vocabulary;
pub(crate) use name::check as check_name;
pub use name::{DOCUMENT_KIND_LEN_MAX, DOCUMENT_NAME_LEN_MAX, DocumentName};
pub use retention::Retention;
pub use status::{By, Status, StatusTable};
pub use value::Value;

use crate::log::envelope::Envelope;
use crate::log::{Binding, BlobId, Key, KeyKind, NewEvent, Revision, Seq};
use body::{
    AbandonedV1, AttachedV1, BackedUpV1, ChildReturnedV1, CreatedV1, DelegatedV1, DeletedV1, DetachedV1,
    DocumentDeletedV1, DocumentMirroredV1, DocumentPatchedV1, DocumentPutV1, FieldV1, FinishedV1, ImportedV1,
    LinkedV1, NameV1, PatchedV1, PinnedV1, PurgedV1, RetentionSetV1, RulesSetV1, SessionStartedV1, SetV1,
    SourceKeptV1, StatusChangedV1, ValueV1, WorkspaceBoundV1,
};

/// What made a status change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Somebody set it.
    Set,
    /// Somebody resumed the task.
    Resumed,
    /// The child that the task waited for was deleted.
    ChildDeleted,
    /// The session that ran the task, or the child that it waited for, is dead.
    Orphaned,
    /// The task, or the child that it waited for, was abandoned.
    Abandoned,
    /// It waited for nobody who could return.
    Mended,
}

impl Cause {
    /// All, each in the place of its number.
    const ALL: [Cause; 6] =
        [Cause::Set, Cause::Resumed, Cause::ChildDeleted, Cause::Orphaned, Cause::Abandoned, Cause::Mended];

    /// Its name for people and programs.
    pub fn name(self) -> &'static str {
        match self {
            Cause::Set => "set",
            Cause::Resumed => "resumed",
            Cause::ChildDeleted => "child-deleted",
            Cause::Orphaned => "orphaned",
            Cause::Abandoned => "abandoned",
            Cause::Mended => "mended",
        }
    }

    /// Whether the status table has no say in it.
    pub(crate) fn is_repair(self) -> bool {
        !matches!(self, Cause::Set | Cause::Resumed)
    }
}

/// One event, decoded. What it is about stands in its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A task came into being. `again`: although one of its id had been deleted.
    Created {
        /// All of it.
        item: Item,
        /// See above.
        again: bool,
    },
    /// Fields changed: `patched`, or `usage` and `size` where these alone did.
    Patched(Patch),
    /// A person gave it a title.
    Renamed {
        /// The title.
        title: Value,
    },
    /// Its status changed. Leaving `delegated`, it waits for nobody any more.
    StatusChanged {
        /// What it was.
        from: Status,
        /// What it is.
        to: Status,
        /// By what.
        cause: Cause,
    },
    /// It waits for `child` from now on.
    Delegated {
        /// The child.
        child: TaskId,
    },
    /// It became a child.
    Linked {
        /// Of this task.
        parent: TaskId,
        /// The top of the chain.
        root: TaskId,
    },
    /// It is completed.
    Finished {
        /// What came of it.
        summary: Option<Value>,
    },
    /// Its child is completed; it waits no more.
    ChildReturned {
        /// The child.
        child: TaskId,
        /// What came of that.
        summary: Option<Value>,
    },
    /// It is gone; its id stays taken.
    Deleted {
        /// The task whose deletion took this one with it.
        with: Option<TaskId>,
    },
    /// A session runs it from now on, by this fence.
    Attached(Fence),
    /// The session that held it by a fence of this number gave it back.
    Detached {
        /// The number.
        fence: u64,
    },
    /// It was taken from whoever held it; no fence given out before holds any more.
    Abandoned {
        /// Whose it was; 0 = nobody's.
        session: u64,
        /// The number that comes after all given out before.
        fence: u64,
        /// Whether it is a child no more.
        severed: bool,
    },
    /// A record of an older layout was taken over, or what changed in it since it last was.
    Imported(Imported),
    /// A record of an older layout that was not chosen.
    SourceKept {
        /// Where it came from.
        source: String,
        /// Its text.
        record: Value,
    },
    /// The workspace's status table.
    RulesSet(StatusTable),
    /// What leads to this workspace.
    WorkspaceBound(Binding),
    /// A document was written.
    DocumentPut {
        /// What it is, in its programs' words.
        kind: Option<Arc<str>>,
        /// All of it.
        value: Value,
        /// Whether one of its name had been deleted.
        again: bool,
    },
    /// Members of a document, an object, changed.
    DocumentPatched(Patch),
    /// A document is gone; its name keeps its revisions.
    DocumentDeleted,
    /// What a file that mirrors a document holds, or is about to hold.
    DocumentMirrored(Mirrored),
    /// How much of the history is kept; the key names the task, or nothing for the workspace. `None` = nothing is set any more.
    RetentionSet(Option<Retention>),
    /// Whether the history of a task is kept whole, whatever else is set.
    Pinned(bool),
    /// What the deleted task held is to go from every file. It replaces all that was said of the task before.
    Purged {
        /// The number that comes after all fences given out before.
        fence: u64,
    },
    /// The workspace was backed up.
    BackedUp {
        /// The folder of the backup.
        target: Arc<str>,
        /// The last event that is in it.
        covers: Seq,
    },
    /// A process began to write; the key names its session.
    SessionStarted {
        /// What it calls itself.
        label: String,
        /// Its release.
        version: String,
        /// Its process id, for people.
        pid: u32,
    },
}

/// See [`Event::Imported`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    /// Where the record came from, for people.
    pub source: String,
    /// BLAKE3 of the record as the source has it.
    pub record: [u8; 32],
    /// Fields that change, with their values.
    pub set: Vec<(Field, Value)>,
    /// Fields that go.
    pub unset: Vec<Field>,
    /// Fields of the source that stay as this side has them, and [`value_hash`] of what the source says, 0 for nothing.
    pub kept: Vec<(Field, u64)>,
}

/// See [`Event::DocumentMirrored`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mirrored {
    /// The file's path.
    pub file: Arc<str>,
    /// BLAKE3 of its contents.
    pub content: [u8; 32],
    /// What the file has to do with them.
    pub note: MirrorNote,
    /// The document's revision that the contents are of, or that it had when they were seen.
    pub revision: Revision,
    /// [`value_hash`] of their value; 0 for contents that were set aside.
    pub whole: u64,
    /// Of an object, each member's name and [`value_hash`] of its value, unless the list is longer than
    /// [`MIRRORED_MEMBERS_LEN_MAX`]; such an object counts as a whole.
    pub members: Option<Vec<(Arc<str>, u64)>>,
}

/// Longest list of members that is noted of a file, in bytes: two of them, and what else a commit has, fit a frame.
pub const MIRRORED_MEMBERS_LEN_MAX: u64 = 1 << 20;

impl Mirrored {
    /// About how many bytes a list of members takes.
    pub fn members_len(members: &[(Arc<str>, u64)]) -> u64 {
        members.iter().map(|(name, _)| name.len() as u64 + 12).sum()
    }
}

/// What a file that mirrors a document has to do with contents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum MirrorNote {
    /// They may reach it from now on.
    #[default]
    Meant = 0,
    /// It was made to hold them; what it may have held before does not count any more.
    Written = 1,
    /// It was seen to hold them; likewise, and what was set aside before is forgotten.
    Seen = 2,
    /// They were in it and were set aside; it is to be written anew.
    Aside = 3,
    /// They were meant for it and are known not to have reached it.
    Withdrawn = 4,
}

impl MirrorNote {
    const ALL: [MirrorNote; 5] =
        [MirrorNote::Meant, MirrorNote::Written, MirrorNote::Seen, MirrorNote::Aside, MirrorNote::Withdrawn];

    fn of(number: u8) -> Option<MirrorNote> {
        MirrorNote::ALL.into_iter().find(|note| *note as u8 == number)
    }

    /// Its name for people.
    pub fn name(self) -> &'static str {
        match self {
            MirrorNote::Meant => "meant",
            MirrorNote::Written => "written",
            MirrorNote::Seen => "seen",
            MirrorNote::Aside => "aside",
            MirrorNote::Withdrawn => "withdrawn",
        }
    }
}

/// By what two values of a source are told apart: BLAKE3 of the text, cut to 64 bits, and never 0.
pub fn value_hash(value: &Value) -> u64 {
    let hash = match value {
        Value::Blob { id: BlobId(hash), .. } => *hash,
        value => *blake3::hash(value.to_json().as_bytes()).as_bytes(),
    };
    hash.first_chunk().map_or(1, |cut| u64::from_le_bytes(*cut)).max(1)
}

/// Why a body is not one of its kind and version, although it is what was written: a faulty writer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadBody(String);

impl fmt::Display for BadBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn bad(why: impl Into<String>) -> BadBody {
    BadBody(why.into())
}

impl Event {
    /// Reads an event; `None` for a kind and version this release does not know.
    ///
    /// # Errors
    /// [`BadBody`].
    pub fn decode(envelope: &Envelope<'_>) -> Result<Option<Self>, BadBody> {
        if envelope.version != 1 {
            return Ok(None);
        }
        let (b, blobs) = (envelope.body, Blobs(envelope.blobs));
        Ok(Some(match envelope.kind {
            kinds::CREATED => {
                let CreatedV1 { fields, again } = whole(b)?;
                Event::Created { item: Item::of_fields(blobs.fields(fields)?), again }
            }
            kinds::PATCHED => {
                let PatchedV1 { set, unset, drop_children } = whole(b)?;
                Event::Patched(Patch {
                    set: blobs.fields(set)?,
                    unset: names(unset)?,
                    drop_children: drop_children.into_iter().map(Into::into).collect(),
                })
            }
            kinds::USAGE | kinds::SIZE => {
                let SetV1 { set } = whole(b)?;
                Event::Patched(Patch { set: blobs.fields(set)?, ..Patch::default() })
            }
            kinds::RENAMED => {
                let SetV1 { set } = whole(b)?;
                match <[_; 1]>::try_from(blobs.fields(set)?) {
                    Ok([(Field::Task, title)]) => Event::Renamed { title },
                    _ => return Err(bad("a new title is the field task, alone")),
                }
            }
            kinds::STATUS_CHANGED => {
                let StatusChangedV1 { from, to, cause } = whole(b)?;
                let cause = Cause::ALL.get(usize::from(cause)).copied();
                let cause = cause.ok_or_else(|| bad("an unknown cause"))?;
                Event::StatusChanged { from: status(from)?, to: status(to)?, cause }
            }
            kinds::DELEGATED => {
                Event::Delegated { child: TaskId::of_log(whole::<DelegatedV1<'_>>(b)?.child) }
            }
            kinds::LINKED => {
                let LinkedV1 { parent, root } = whole(b)?;
                Event::Linked { parent: TaskId::of_log(parent), root: TaskId::of_log(root) }
            }
            kinds::FINISHED => {
                let FinishedV1 { summary } = whole(b)?;
                Event::Finished { summary: summary.map(|value| blobs.value(value)).transpose()? }
            }
            kinds::CHILD_RETURNED => {
                let ChildReturnedV1 { child, summary } = whole(b)?;
                let summary = summary.map(|value| blobs.value(value)).transpose()?;
                Event::ChildReturned { child: TaskId::of_log(child), summary }
            }
            kinds::DELETED => {
                let DeletedV1 { with } = whole(b)?;
                Event::Deleted { with: (!with.is_empty()).then(|| TaskId::of_log(with)) }
            }
            kinds::ATTACHED => {
                let AttachedV1 { session, fence } = whole(b)?;
                Event::Attached(Fence { number: fence, session })
            }
            kinds::DETACHED => Event::Detached { fence: whole::<DetachedV1>(b)?.fence },
            kinds::ABANDONED => {
                let AbandonedV1 { session, fence, severed } = whole(b)?;
                Event::Abandoned { session, fence, severed }
            }
            kinds::IMPORTED => {
                let ImportedV1 { source, record, set, unset, kept } = whole(b)?;
                let kept = kept.into_iter().map(|(name, hash)| Ok((field(name.number, name.name)?, hash)));
                Event::Imported(Imported {
                    source: source.into(),
                    record,
                    set: blobs.fields(set)?,
                    unset: names(unset)?,
                    kept: kept.collect::<Result<_, BadBody>>()?,
                })
            }
            kinds::SOURCE_KEPT => {
                let SourceKeptV1 { source, record } = whole(b)?;
                Event::SourceKept { source: source.into(), record: blobs.value(record)? }
            }
            kinds::RULES_SET => {
                let RulesSetV1 { name, rows } = whole(b)?;
                let rows = rows.into_iter().map(|(from, to, by)| {
                    let by = match by {
                        0 => By::Any,
                        1 => By::Resume,
                        n => return Err(bad(format!("transition by {n}"))),
                    };
                    Ok((status(from)?, status(to)?, by))
                });
                Event::RulesSet(StatusTable::new(name, rows.collect::<Result<Vec<_>, _>>()?))
            }
            kinds::WORKSPACE_BOUND => {
                let WorkspaceBoundV1 { kind, name } = whole(b)?;
                Event::WorkspaceBound(match kind {
                    0 => Binding::None,
                    1 => Binding::Path(name.into()),
                    2 => Binding::Key(name.into()),
                    n => return Err(bad(format!("binding of kind {n}"))),
                })
            }
            kinds::DOCUMENT_PUT => {
                let DocumentPutV1 { kind, value, again } = whole(b)?;
                Event::DocumentPut { kind: kind.map(Into::into), value: blobs.value(value)?, again }
            }
            kinds::DOCUMENT_PATCHED => {
                let DocumentPatchedV1 { set, unset } = whole(b)?;
                let set = set.into_iter().map(|(name, value)| Ok((Field::of(name), blobs.value(value)?)));
                Event::DocumentPatched(Patch {
                    set: set.collect::<Result<_, BadBody>>()?,
                    unset: unset.into_iter().map(Field::of).collect(),
                    ..Patch::default()
                })
            }
            kinds::DOCUMENT_DELETED => {
                let DocumentDeletedV1 {} = whole(b)?;
                Event::DocumentDeleted
            }
            kinds::DOCUMENT_MIRRORED => {
                let DocumentMirroredV1 { file, content, note, revision, whole, members } = self::whole(b)?;
                Event::DocumentMirrored(Mirrored {
                    file: file.into(),
                    content,
                    note: MirrorNote::of(note).ok_or_else(|| bad("no such note of a mirror"))?,
                    revision: Revision(revision),
                    whole,
                    members: members
                        .map(|all| all.into_iter().map(|(name, hash)| (name.into(), hash)).collect()),
                })
            }
            kinds::RETENTION_SET => {
                let RetentionSetV1 { keep, age, count, bytes } = whole(b)?;
                let limits = Retention::Limits { age: age.map(Duration::from_micros), count, bytes };
                Event::RetentionSet(match (keep, age, count, bytes) {
                    (0, None, None, None) => None,
                    (1, ..) => Some(limits),
                    (2, None, None, None) => Some(Retention::KeepAll),
                    _ => return Err(bad(format!("retention of kind {keep}"))),
                })
            }
            kinds::PINNED => Event::Pinned(whole::<PinnedV1>(b)?.pinned),
            kinds::PURGED => Event::Purged { fence: whole::<PurgedV1>(b)?.fence },
            kinds::BACKED_UP => {
                let BackedUpV1 { target, covers } = whole(b)?;
                Event::BackedUp { target: target.into(), covers: Seq(covers) }
            }
            kinds::SESSION_STARTED => {
                let SessionStartedV1 { label, version, pid } = whole(b)?;
                Event::SessionStarted { label: label.into(), version: version.into(), pid }
            }
            _ => return Ok(None),
        }))
    }

    /// Its kind.
    pub fn kind(&self) -> u16 {
        match self {
            Event::Created { .. } => kinds::CREATED,
            Event::Patched(patch) => {
                let only = |of: fn(&Field) -> bool| {
                    !patch.set.is_empty()
                        && patch.unset.is_empty()
                        && patch.drop_children.is_empty()
                        && patch.set.iter().all(|(field, _)| of(field))
                };
                if only(Field::is_usage) {
                    kinds::USAGE
                } else if only(|field| *field == Field::Size) {
                    kinds::SIZE
                } else {
                    kinds::PATCHED
                }
            }
            Event::Renamed { .. } => kinds::RENAMED,
            Event::StatusChanged { .. } => kinds::STATUS_CHANGED,
            Event::Delegated { .. } => kinds::DELEGATED,
            Event::Linked { .. } => kinds::LINKED,
            Event::Finished { .. } => kinds::FINISHED,
            Event::ChildReturned { .. } => kinds::CHILD_RETURNED,
            Event::Deleted { .. } => kinds::DELETED,
            Event::Attached(_) => kinds::ATTACHED,
            Event::Detached { .. } => kinds::DETACHED,
            Event::Abandoned { .. } => kinds::ABANDONED,
            Event::Imported(_) => kinds::IMPORTED,
            Event::SourceKept { .. } => kinds::SOURCE_KEPT,
            Event::RulesSet(_) => kinds::RULES_SET,
            Event::WorkspaceBound(_) => kinds::WORKSPACE_BOUND,
            Event::DocumentPut { .. } => kinds::DOCUMENT_PUT,
            Event::DocumentPatched(_) => kinds::DOCUMENT_PATCHED,
            Event::DocumentDeleted => kinds::DOCUMENT_DELETED,
            Event::DocumentMirrored(_) => kinds::DOCUMENT_MIRRORED,
            Event::RetentionSet(_) => kinds::RETENTION_SET,
            Event::Pinned(_) => kinds::PINNED,
            Event::Purged { .. } => kinds::PURGED,
            Event::BackedUp { .. } => kinds::BACKED_UP,
            Event::SessionStarted { .. } => kinds::SESSION_STARTED,
        }
    }

    /// The event as a commit takes it, about `key`.
    pub fn to_new(&self, key: Key) -> NewEvent {
        let kind = self.kind();
        let mut blobs = Vec::new();
        let body = match self {
            Event::Created { item, again } => {
                encode(&CreatedV1 { fields: to_fields(item.fields(), &mut blobs), again: *again })
            }
            // The commonest event: as its struct says, by hand.
            Event::Patched(patch) => plain::patch(patch, kind == kinds::PATCHED, &mut blobs),
            Event::Renamed { title } => {
                let value = to_value(title, &mut blobs);
                encode(&SetV1 { set: vec![FieldV1 { number: Field::Task.number(), name: "", value }] })
            }
            Event::StatusChanged { from, to, cause } => encode(&StatusChangedV1 {
                from: from.number(),
                to: to.number(),
                cause: Cause::ALL.iter().zip(0..).find(|(c, _)| *c == cause).map_or(0, |(_, number)| number),
            }),
            Event::Delegated { child } => encode(&DelegatedV1 { child: child.as_str() }),
            Event::Linked { parent, root } => {
                encode(&LinkedV1 { parent: parent.as_str(), root: root.as_str() })
            }
            Event::Finished { summary } => {
                encode(&FinishedV1 { summary: summary.as_ref().map(|value| to_value(value, &mut blobs)) })
            }
            Event::ChildReturned { child, summary } => encode(&ChildReturnedV1 {
                child: child.as_str(),
                summary: summary.as_ref().map(|value| to_value(value, &mut blobs)),
            }),
            Event::Deleted { with } => encode(&DeletedV1 { with: with.as_ref().map_or("", TaskId::as_str) }),
            Event::Attached(Fence { number, session }) => {
                encode(&AttachedV1 { session: *session, fence: *number })
            }
            Event::Detached { fence } => encode(&DetachedV1 { fence: *fence }),
            Event::Abandoned { session, fence, severed } => {
                encode(&AbandonedV1 { session: *session, fence: *fence, severed: *severed })
            }
            Event::Imported(Imported { source, record, set, unset, kept }) => encode(&ImportedV1 {
                source,
                record: *record,
                set: to_fields(set, &mut blobs),
                unset: unset.iter().map(to_name).collect(),
                kept: kept.iter().map(|(field, hash)| (to_name(field), *hash)).collect(),
            }),
            Event::SourceKept { source, record } => {
                encode(&SourceKeptV1 { source, record: to_value(record, &mut blobs) })
            }
            Event::RulesSet(table) => encode(&RulesSetV1 {
                name: table.name(),
                rows: table
                    .rows()
                    .iter()
                    .map(|(from, to, by)| (from.number(), to.number(), u8::from(*by == By::Resume)))
                    .collect(),
            }),
            Event::WorkspaceBound(binding) => {
                let (kind, name) = match binding {
                    Binding::None => (0, ""),
                    Binding::Path(path) => (1, path.as_str()),
                    Binding::Key(key) => (2, key.as_str()),
                };
                encode(&WorkspaceBoundV1 { kind, name })
            }
            Event::DocumentPut { kind, value, again } => encode(&DocumentPutV1 {
                kind: kind.as_deref(),
                value: to_value(value, &mut blobs),
                again: *again,
            }),
            Event::DocumentPatched(patch) => encode(&DocumentPatchedV1 {
                set: patch.set.iter().map(|(f, value)| (f.name(), to_value(value, &mut blobs))).collect(),
                unset: patch.unset.iter().map(Field::name).collect(),
            }),
            Event::DocumentDeleted => encode(&DocumentDeletedV1 {}),
            Event::DocumentMirrored(Mirrored { file, content, note, revision, whole, members }) => {
                encode(&DocumentMirroredV1 {
                    file,
                    content: *content,
                    note: *note as u8,
                    revision: revision.0,
                    whole: *whole,
                    members: members
                        .as_ref()
                        .map(|all| all.iter().map(|(name, hash)| (&**name, *hash)).collect()),
                })
            }
            Event::RetentionSet(set) => encode(&match set {
                None => RetentionSetV1 { keep: 0, age: None, count: None, bytes: None },
                Some(Retention::KeepAll) => RetentionSetV1 { keep: 2, age: None, count: None, bytes: None },
                Some(Retention::Limits { age, count, bytes }) => RetentionSetV1 {
                    keep: 1,
                    age: age.map(Retention::age_micros),
                    count: *count,
                    bytes: *bytes,
                },
            }),
            Event::Pinned(pinned) => encode(&PinnedV1 { pinned: *pinned }),
            Event::Purged { fence } => encode(&PurgedV1 { fence: *fence }),
            Event::BackedUp { target, covers } => encode(&BackedUpV1 { target, covers: covers.0 }),
            Event::SessionStarted { label, version, pid } => {
                encode(&SessionStartedV1 { label, version, pid: *pid })
            }
        };
        let new = match self {
            Event::SourceKept { .. }
            | Event::RulesSet(_)
            | Event::RetentionSet(_)
            | Event::Pinned(_)
            | Event::DocumentMirrored(_) => NewEvent::record(kind, 1, key, body),
            Event::WorkspaceBound(_) | Event::BackedUp { .. } | Event::SessionStarted { .. } => {
                NewEvent::record(kind, 1, key, body).ignorable()
            }
            _ => NewEvent::state(kind, 1, key, body),
        };
        if blobs.is_empty() { new } else { new.blobs(blobs) }
    }
}

/// The key of a session's events.
pub fn session_key(session: u64) -> Key {
    Key { kind: KeyKind::SESSION, name: format!("{session:016x}").into() }
}

fn whole<'a, T: serde::Deserialize<'a>>(body: &'a [u8]) -> Result<T, BadBody> {
    match postcard::take_from_bytes(body) {
        Ok((value, [])) => Ok(value),
        Ok((_, rest)) => Err(bad(format!("{} bytes left over", rest.len()))),
        Err(e) => Err(bad(e.to_string())),
    }
}

fn encode<T: serde::Serialize>(body: &T) -> Vec<u8> {
    // Serialising these structs into memory has no way to fail.
    postcard::to_extend(body, Vec::with_capacity(128)).unwrap_or_default()
}

fn status(number: u8) -> Result<Status, BadBody> {
    Status::of_number(number).ok_or_else(|| bad(format!("status {number}")))
}

fn field(number: u8, name: &str) -> Result<Field, BadBody> {
    match number {
        0 => Ok(Field::of(name)),
        n => Field::of_number(n).ok_or_else(|| bad(format!("field {n}"))),
    }
}

fn names(all: Vec<NameV1<'_>>) -> Result<Vec<Field>, BadBody> {
    all.into_iter().map(|name| field(name.number, name.name)).collect()
}

/// The blobs an event names, 32 bytes each.
struct Blobs<'a>(&'a [u8]);

impl Blobs<'_> {
    fn fields(&self, all: Vec<FieldV1<'_>>) -> Result<Vec<(Field, Value)>, BadBody> {
        all.into_iter().map(|f| Ok((field(f.number, f.name)?, self.value(f.value)?))).collect()
    }

    fn value(&self, value: ValueV1<'_>) -> Result<Value, BadBody> {
        Ok(match value {
            ValueV1::Null => Value::Null,
            ValueV1::False => Value::Bool(false),
            ValueV1::True => Value::Bool(true),
            ValueV1::Int(n) => Value::Int(n),
            ValueV1::UInt(n) => Value::from(n),
            ValueV1::Text(text) => Value::Text(text.into()),
            ValueV1::Strings(all) => Value::strings(all),
            ValueV1::Raw(text) => Value::parse(text).map_err(|e| bad(format!("a value is no JSON: {e}")))?,
            ValueV1::Blob { index, len } => {
                let start = usize::from(index) * 32;
                let hash = self.0.get(start..start + 32).and_then(|hash| hash.try_into().ok());
                Value::Blob { id: BlobId(hash.ok_or_else(|| bad(format!("no blob {index}")))?), len }
            }
        })
    }
}

fn to_name(field: &Field) -> NameV1<'_> {
    match field {
        Field::Other(name) => NameV1 { number: 0, name },
        known => NameV1 { number: known.number(), name: "" },
    }
}

fn to_fields<'a>(all: &'a [(Field, Value)], blobs: &mut Vec<BlobId>) -> Vec<FieldV1<'a>> {
    all.iter()
        .map(|(field, value)| {
            let NameV1 { number, name } = to_name(field);
            FieldV1 { number, name, value: to_value(value, blobs) }
        })
        .collect()
}

fn to_value<'a>(value: &'a Value, blobs: &mut Vec<BlobId>) -> ValueV1<'a> {
    match value {
        Value::Null => ValueV1::Null,
        Value::Bool(false) => ValueV1::False,
        Value::Bool(true) => ValueV1::True,
        Value::Int(n) => ValueV1::Int(*n),
        Value::UInt(n) => ValueV1::UInt(*n),
        Value::Text(text) => ValueV1::Text(text),
        Value::Strings(all) => ValueV1::Strings(all.iter().map(Arc::as_ref).collect()),
        Value::Raw(text) => ValueV1::Raw(text),
        Value::Blob { id, len } => ValueV1::Blob { index: blob_index(blobs, *id), len: *len },
    }
}

/// Takes a blob among those an event names; returns its place there.
fn blob_index(blobs: &mut Vec<BlobId>, id: BlobId) -> u16 {
    // At most one for each field, of which an item has fewer than a u16 counts.
    let index = u16::try_from(blobs.len()).unwrap_or(u16::MAX);
    blobs.push(id);
    index
}

#[cfg(test)]
mod tests;
