//! Bodies as they stand on disk: one struct for each kind and version, frozen for ever, in postcard's encoding.
//!
//! `format-spec/events.md` has the same structs in prose, `golden.txt` beside this file has the bytes of one event of each.
//! A change is a new version with a struct of its own, and a conversion from the older one.

use serde::{Deserialize, Serialize};

/// A field and its value.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct FieldV1<'a> {
    /// Number of a known field; 0 = `name` has it.
    pub(super) number: u8,
    pub(super) name: &'a str,
    #[serde(borrow)]
    pub(super) value: ValueV1<'a>,
}

/// A field's name alone.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct NameV1<'a> {
    pub(super) number: u8,
    pub(super) name: &'a str,
}

/// The forms of a value. A closed set: a further form is a further version of every kind that holds values.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum ValueV1<'a> {
    Null,
    False,
    True,
    Int(i64),
    UInt(u64),
    Text(&'a str),
    Strings(#[serde(borrow)] Vec<&'a str>),
    Raw(&'a str),
    /// The blob at `index` of the event's, whose text is `len` bytes long.
    Blob {
        index: u16,
        len: u64,
    },
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct CreatedV1<'a> {
    #[serde(borrow)]
    pub(super) fields: Vec<FieldV1<'a>>,
    /// Whether a deleted task of this id comes to life again.
    pub(super) again: bool,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct PatchedV1<'a> {
    #[serde(borrow)]
    pub(super) set: Vec<FieldV1<'a>>,
    pub(super) unset: Vec<NameV1<'a>>,
    pub(super) drop_children: Vec<&'a str>,
}

/// Of `usage`, `size` and `renamed`.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SetV1<'a> {
    #[serde(borrow)]
    pub(super) set: Vec<FieldV1<'a>>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct StatusChangedV1 {
    pub(super) from: u8,
    pub(super) to: u8,
    /// 0 = set, 1 = resumed, 2 = its child was deleted, 3 = the session that ran it, or its child, is dead, 4 = it, or its
    /// child, was abandoned, 5 = it could not be right.
    pub(super) cause: u8,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct DelegatedV1<'a> {
    pub(super) child: &'a str,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct LinkedV1<'a> {
    pub(super) parent: &'a str,
    pub(super) root: &'a str,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct FinishedV1<'a> {
    #[serde(borrow)]
    pub(super) summary: Option<ValueV1<'a>>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ChildReturnedV1<'a> {
    pub(super) child: &'a str,
    #[serde(borrow)]
    pub(super) summary: Option<ValueV1<'a>>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct DeletedV1<'a> {
    /// The task whose deletion took this one with it; empty = itself.
    pub(super) with: &'a str,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ImportedV1<'a> {
    /// Where the record came from, for people.
    pub(super) source: &'a str,
    /// BLAKE3 of the record as the source has it.
    pub(super) record: [u8; 32],
    /// What changes here.
    #[serde(borrow)]
    pub(super) set: Vec<FieldV1<'a>>,
    pub(super) unset: Vec<NameV1<'a>>,
    /// Fields of the source that do not change here, because this side has changed them since: name, and BLAKE3 of the
    /// value's text, cut to 64 bits; 0 = the source has it no more.
    pub(super) kept: Vec<(NameV1<'a>, u64)>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SourceKeptV1<'a> {
    pub(super) source: &'a str,
    /// The record that was not chosen, as a value: its text, whatever it is, in a JSON string where it is no JSON.
    #[serde(borrow)]
    pub(super) record: ValueV1<'a>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct RulesSetV1<'a> {
    pub(super) name: &'a str,
    /// From, to, by what (0 = any verb, 1 = resume).
    pub(super) rows: Vec<(u8, u8, u8)>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct WorkspaceBoundV1<'a> {
    /// 0 = to nothing, 1 = to a path, 2 = to a key.
    pub(super) kind: u8,
    pub(super) name: &'a str,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct AttachedV1 {
    pub(super) session: u64,
    /// The fence's number.
    pub(super) fence: u64,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct DetachedV1 {
    pub(super) fence: u64,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct AbandonedV1 {
    /// Whose it was; 0 = nobody's.
    pub(super) session: u64,
    /// The number that no fence given out before has.
    pub(super) fence: u64,
    /// Whether it is a child no more.
    pub(super) severed: bool,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct DocumentPutV1<'a> {
    pub(super) kind: Option<&'a str>,
    #[serde(borrow)]
    pub(super) value: ValueV1<'a>,
    /// Whether a deleted document of this name comes to life again.
    pub(super) again: bool,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct DocumentPatchedV1<'a> {
    #[serde(borrow)]
    pub(super) set: Vec<(&'a str, ValueV1<'a>)>,
    pub(super) unset: Vec<&'a str>,
}

/// Nothing: what is about which document stands in the key.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct DocumentDeletedV1 {}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct DocumentMirroredV1<'a> {
    /// The file's path.
    pub(super) file: &'a str,
    /// BLAKE3 of its contents.
    pub(super) content: [u8; 32],
    /// What the file has to do with them: [`MirrorNote`](super::MirrorNote)'s number.
    pub(super) note: u8,
    /// The document's revision that the file is to hold.
    pub(super) revision: u64,
    /// The hash of its value.
    pub(super) whole: u64,
    /// Of an object, each member's name and the hash of its value, unless they are too many to be listed.
    #[serde(borrow)]
    pub(super) members: Option<Vec<(&'a str, u64)>>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct RetentionSetV1 {
    /// 0 = nothing is set any more, 1 = the limits below, 2 = all is kept. Without 1 the rest is absent.
    pub(super) keep: u8,
    /// In µs.
    pub(super) age: Option<u64>,
    pub(super) count: Option<u64>,
    pub(super) bytes: Option<u64>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct PinnedV1 {
    pub(super) pinned: bool,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct PurgedV1 {
    /// The number that no fence given out before has.
    pub(super) fence: u64,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct BackedUpV1<'a> {
    /// The folder of the backup.
    pub(super) target: &'a str,
    /// The last event that is in it.
    pub(super) covers: u64,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SessionStartedV1<'a> {
    pub(super) label: &'a str,
    pub(super) version: &'a str,
    pub(super) pid: u32,
}
