//! What reading a legacy folder found, in a form for people and programs.

use serde::Serialize;

/// What is the matter with a file, a record or a field. Its name in JSON is stable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum What {
    /// The file has no bytes.
    Empty,
    /// The file is nothing but space.
    Blank,
    /// The file or record is over the limit: 64 MiB for a record, 1 GiB for a file of many.
    TooLarge,
    /// The system did not let it be read. Nothing is concluded from that.
    Unreadable,
    /// UTF-16 text.
    Utf16,
    /// Bytes that are not UTF-8; each stands as U+FFFD, as hosts read it.
    NotUtf8,
    /// A page of HTML.
    Html,
    /// Not JSON.
    NotJson,
    /// JSON, but not of the kind that belongs there.
    WrongType,
    /// A list that is cut off or has brackets or commas missing or too many; all whole elements were taken.
    Cut,
    /// Something stands behind the record; the record was taken.
    Surplus,
    /// Elements of a list that are no records.
    NoRecord,
    /// The record's id is not its folder's name; the folder's name counts.
    IdDiffers,
    /// The id is not safe as a folder's name; it was set aside.
    UnsafeId,
    /// A field that cannot be kept: its value holds a key twice, or its name is not Unicode.
    FieldLeftOut,
    /// The status is none of the four and no other record has one; it was left out.
    StatusIllegal,
    /// The time is before 2001-09-09, or no number, in every record.
    TsImplausible,
    /// No record has a title other than a placeholder; or it has none that was made of the messages.
    NoTitle,
    /// There is no readable record; it was made of the messages.
    MadeOfMessages,
}

/// One thing found.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct SourceFinding {
    /// The file, as seen from the tasks folder, with slashes.
    pub source: String,
    /// The task concerned, where one is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// What.
    pub what: What,
    /// More about it, for people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub detail: String,
}

/// A task that was not taken because of its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct SetAside {
    /// Its id.
    pub id: String,
    /// Where it stands.
    pub source: String,
    /// What is wrong with the name.
    pub why: String,
}

/// Something in the tasks folder that belongs to no task.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Debris {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: DebrisKind,
}

/// See [`Debris`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DebrisKind {
    /// A folder without a record and without messages, nothing in it.
    Empty,
    /// The same with nothing but `checkpoints/`.
    Checkpoints,
    /// The same with other things in it.
    NoRecord,
    /// `_staging_…`, what a host was preparing.
    Staging,
    /// `….lock`, by which hosts exclude each other.
    Lock,
}

/// How sure the choice of a task's record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Confidence {
    /// Made of messages, or parts of the record were lost.
    Low,
    /// Only time or the kind of source decided between records, or something is the matter with the result.
    Medium,
    /// One record, or the rules decided.
    High,
}

/// The whole answer as `--json` prints it.
#[derive(Clone, Debug, Serialize)]
pub struct SourceReport<'a> {
    /// The tasks folder.
    pub tasks_folder: String,
    /// Whether everything in it could be read.
    pub complete: bool,
    /// How often it was looked at until it held still.
    pub looks: u32,
    /// Counts.
    pub totals: Totals,
    /// The tasks, by id.
    pub tasks: Vec<TaskReport<'a>>,
    /// Tasks that were not taken because of their names.
    pub set_aside: &'a [SetAside],
    /// What is the matter with which file.
    pub findings: &'a [SourceFinding],
    /// What belongs to no task.
    pub debris: &'a [Debris],
}

/// See [`SourceReport`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    /// Tasks with a result.
    pub tasks: u64,
    /// Of these, with more than one record that differ.
    pub decided: u64,
    /// Of these, made of messages.
    pub made_of_messages: u64,
    /// Records kept as evidence.
    pub kept: u64,
    /// Ids in `childIds` that no task here has. Normal: the children were deleted.
    pub dangling_children: u64,
}

/// One task's part of the answer.
#[derive(Clone, Debug, Serialize)]
pub struct TaskReport<'a> {
    /// Its id.
    pub id: &'a str,
    /// How sure the choice is.
    pub confidence: Confidence,
    /// Where the record came from that everything not listed in `fields` is from.
    pub base: String,
    /// All places that hold a record of it.
    pub sources: Vec<&'a str>,
    /// A file of it could not be read, so that this may not be all there is.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub incomplete: bool,
    /// Why that record and no other.
    pub why: super::quality::Why,
    /// Fields that are not from there, or not as they are there.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<FieldReport<'a>>,
    /// Records that say something else and are kept as evidence.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<&'a str>,
}

/// Where one field came from.
#[derive(Clone, Debug, Serialize)]
pub struct FieldReport<'a> {
    /// Its name.
    pub field: &'a str,
    /// The source: a file, `folder` (its name) or `all` records together; nothing if it was left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<&'a str>,
    /// Why.
    pub why: super::quality::Why,
}
