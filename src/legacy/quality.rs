//! Which record of a task is right: a documented order, decided field by field.
//!
//! A pure function of the records and, where these disagree about something that messages can tell, of the messages.
//! Messages arbitrate; what stands in the result stood in a record, unless there is none. The order in which records
//! come in counts for nothing; time decides only between records that are as good as each other. `docs/import.md` has
//! the order as a table.
//!
//! Fields move in groups. A field that the better record lacks may have been removed on purpose, so none is fetched
//! from elsewhere by itself if hosts ever remove it.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::collections::btree_map::{BTreeMap, Entry};
use std::sync::Arc;

use serde::Serialize;

use super::messages::{Messages, Sums};
use super::report::{Confidence, What};
use super::title::{is_placeholder, trim};
use crate::event::{Field, Item, Status, TaskId, Value};

/// The earliest time that is one in milliseconds: 2001-09-09. What is smaller is corrupt, or counts seconds.
const TIME_MIN: f64 = 1e12;

/// Fields that say where a task stands and who waits for whom. Hosts set and remove them together.
const STANDING: [Field; 10] = [
    Field::Status,
    Field::ParentTaskId,
    Field::RootTaskId,
    Field::ChildIds,
    Field::DelegatedToId,
    Field::AwaitingChildId,
    Field::CompletedByChildId,
    Field::CompletionResultSummary,
    Field::PendingAction,
    Field::PendingHandoff,
];

/// Fields that no host ever removes, so that one that is missing was lost or never known.
const PROPERTIES: [Field; 6] =
    [Field::Number, Field::Size, Field::Workspace, Field::Mode, Field::ApiConfigName, Field::Background];

/// What kind of source a record stands in; the first are nearer to what a host would have gone on with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// `history_item.json`.
    File,
    /// `_index.json`.
    Index,
    /// `.….new_….tmp`: a write that was not finished.
    New,
    /// A saved global state.
    GlobalState,
    /// `.….bak_….tmp`: what a write was about to replace.
    Bak,
    /// `._index.extract.json`.
    Extract,
    /// `….bak.json`: a repair tool's backup.
    Backup,
}

/// Where a record stands.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Origin {
    /// What kind of place that is.
    pub kind: Kind,
    /// The file, as seen from the tasks folder, with slashes.
    pub name: String,
}

/// A record of a task, in all places that have exactly this one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// It.
    pub item: Item,
    /// Its text, as it stands there.
    pub raw: Arc<str>,
    /// The places, best kind first. Never empty.
    pub origins: Vec<Origin>,
    /// Fields of the text had to be left out of the item.
    pub lossy: bool,
}

impl Record {
    fn kind(&self) -> Kind {
        self.origins.iter().map(|origin| origin.kind).min().unwrap_or(Kind::Backup)
    }

    /// Its first place.
    pub fn source(&self) -> &str {
        self.origins.first().map_or("", |origin| &origin.name)
    }
}

/// By what one record, or one field, came before the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Why {
    /// There is only one record.
    Only,
    /// A title over a placeholder or none; or the title that the messages begin with.
    Title,
    /// Larger sums; or sums that the messages support over sums that they do not.
    Sums,
    /// A plausible time over none.
    Ts,
    /// A legal status over an illegal one.
    Status,
    /// Further along in the life of a task: more children, a child returned, interrupted, completed.
    Progress,
    /// The size of its folder is known.
    Size,
    /// All that being equal, the newer one.
    Time,
    /// That too being equal, the better kind of source.
    Source,
    /// The chosen record lacks it, and no host removes it.
    Filled,
    /// All children that any record names: their list only grows.
    Union,
    /// There is no record; it was made of the messages.
    Messages,
    /// The name of its folder.
    Folder,
    /// No value of it is legal.
    LeftOut,
}

/// Where a field's value is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whence {
    /// The record of this number.
    Record(usize),
    /// All records together, the name of the folder, or, of a task without a record, the messages.
    Elsewhere,
    /// It was left out, or is not in the group it belongs to.
    Nowhere,
}

/// What was chosen for a task.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// The record as it is to be.
    pub item: Item,
    /// The records, equal ones merged, the best first: the first is what every field is from that is not in `fields`.
    /// Empty if it was made of messages.
    pub records: Vec<Record>,
    /// Why the first is the first.
    pub why: Why,
    /// Fields that are not from there.
    pub fields: Vec<(Field, Whence, Why)>,
    /// Records that say something else than the result.
    pub kept: Vec<usize>,
    /// How sure that is.
    pub confidence: Confidence,
    /// What is the matter with the result.
    pub faults: Vec<What>,
    /// Whether the messages were read for it.
    pub asked: bool,
}

impl Decision {
    /// Where a field of the result is from, and why.
    pub fn origin(&self, field: &Field) -> (Whence, Why) {
        let moved = self.fields.iter().find(|(f, ..)| f == field).map(|(_, from, why)| (*from, *why));
        let base = if self.records.is_empty() { Whence::Elsewhere } else { Whence::Record(0) };
        moved.unwrap_or((base, self.why))
    }
}

/// Whether a value is a time in milliseconds. Far futures are: they are what the record says, and decide nothing.
pub(super) fn is_time(value: &Value) -> bool {
    value.as_f64().is_some_and(|ts| ts >= TIME_MIN)
}

/// Decides. `ask` reads the messages, and is called only where they can tell something: true titles or sums differ, or
/// there is no record at all. Nothing comes of no record and no messages.
pub fn decide(id: &TaskId, records: Vec<Record>, ask: &mut dyn FnMut() -> Messages) -> Option<Decision> {
    let records = merged(records);
    if records.is_empty() {
        return of_messages(id, &ask());
    }
    let messages = needs_messages(&records).then(ask);
    let mut facts: Vec<(Facts, Record)> =
        records.into_iter().map(|record| (Facts::of(&record, messages.as_ref()), record)).collect();
    facts.sort_by(|(a, x), (b, y)| b.order(a).0.then_with(|| x.raw.cmp(&y.raw)));
    let why = match facts.as_slice() {
        [(a, _), (b, _), ..] => a.order(b).1,
        _ => Why::Only,
    };
    let (facts, records): (Vec<Facts>, Vec<Record>) = facts.into_iter().unzip();
    let mut choice =
        Choice { item: Item::default(), fields: Vec::new(), faults: Vec::new(), records: &records };
    if let Some(base) = records.first() {
        choice.item = base.item.clone();
    }
    choice.id(id);
    // The first record has the best title that any has.
    if title_of(&choice.item).is_none() {
        choice.faults.push(What::NoTitle);
    }
    choice.usage(&facts);
    choice.standing(&facts);
    choice.fill(&facts);
    let Choice { item, fields, faults, .. } = choice;
    let same = |record: &Record| !record.lossy && same_but_order(&record.item, &item);
    let kept: Vec<usize> = records.iter().enumerate().filter(|(_, r)| !same(r)).map(|(i, _)| i).collect();
    let weak = |why: &Why| matches!(why, Why::Time | Why::Source | Why::LeftOut);
    let medium = weak(&why) || fields.iter().any(|(.., why)| weak(why)) || !faults.is_empty();
    let confidence = if medium { Confidence::Medium } else { Confidence::High };
    Some(Decision { item, records, why, fields, kept, confidence, faults, asked: messages.is_some() })
}

fn of_messages(id: &TaskId, messages: &Messages) -> Option<Decision> {
    Some(Decision {
        item: messages.item(id)?,
        records: Vec::new(),
        why: Why::Messages,
        fields: Vec::new(),
        kept: Vec::new(),
        confidence: Confidence::Low,
        faults: vec![super::messages::fault(messages)],
        asked: true,
    })
}

/// Equal records as one, in an order that does not depend on that in which they came.
fn merged(mut records: Vec<Record>) -> Vec<Record> {
    records.sort_by(|a, b| (&a.raw, &a.origins).cmp(&(&b.raw, &b.origins)));
    let mut all: BTreeMap<(String, bool), Record> = BTreeMap::new();
    for record in records {
        match all.entry((record.item.to_json(), record.lossy)) {
            Entry::Occupied(mut same) => same.get_mut().origins.extend(record.origins),
            Entry::Vacant(new) => drop(new.insert(record)),
        }
    }
    let mut all: Vec<Record> = all.into_values().collect();
    for record in &mut all {
        record.origins.sort_unstable();
        record.origins.dedup();
    }
    all
}

fn same_but_order(a: &Item, b: &Item) -> bool {
    a.fields().len() == b.fields().len()
        && a.fields().iter().all(|(field, value)| b.get(field) == Some(value))
}

/// The title, if it is a true one.
pub(super) fn title_of(item: &Item) -> Option<String> {
    let title = item.text(&Field::Task)?;
    let title = trim(&title);
    (!title.is_empty() && !is_placeholder(title)).then(|| title.to_owned())
}

fn needs_messages(records: &[Record]) -> bool {
    let differ = |first: Option<Sums>, sums: Sums| first.is_some_and(|first| first != sums);
    let (mut title, mut sums) = (None, None);
    for Record { item, .. } in records {
        if let Some(found) = title_of(item) {
            if title.as_ref().is_some_and(|title| *title != found) {
                return true;
            }
            title = Some(found);
        }
        let found = Sums::of(item);
        if !found.is_zero() {
            if differ(sums, found) {
                return true;
            }
            sums = Some(found);
        }
    }
    false
}

/// What is known about the worth of a record.
struct Facts {
    title: u8,
    sums: (u8, f64, f64),
    ts_plausible: bool,
    ts: f64,
    status_legal: bool,
    size_known: bool,
    progress: (u8, usize, bool),
    kind: Kind,
}

impl Facts {
    fn of(record: &Record, messages: Option<&Messages>) -> Self {
        let item = &record.item;
        let title = match (item.text(&Field::Task), title_of(item)) {
            (_, Some(title)) if messages.is_some_and(|m| m.title.as_deref() == Some(&*title)) => 3,
            (_, Some(_)) => 2,
            (Some(title), None) if !trim(&title).is_empty() => 1,
            _ => 0,
        };
        let sums = Sums::of(item);
        // Half of the messages support nothing.
        let class = match messages.filter(|m| !m.damaged).and_then(|m| m.sums) {
            _ if sums.is_zero() => 0,
            Some(most) if sums.within(&most) => 2,
            _ => 1,
        };
        let status = item.get(&Field::Status);
        let legal = status.map_or(Some(Status::Active), |value| Status::of(&value.as_str()?));
        let children = item.get(&Field::ChildIds).map(Value::as_strings).unwrap_or_default();
        let back = item.text(&Field::CompletedByChildId);
        let returned = legal != Some(Status::Delegated)
            && children.last().is_some_and(|last| back.as_deref() == Some(&**last));
        let end = match legal {
            Some(Status::Completed) => 2,
            Some(Status::Interrupted) => 1,
            _ => 0,
        };
        let ts = item.get(&Field::Ts);
        Facts {
            title,
            sums: (class, sums.total(), sums.cost),
            ts_plausible: ts.is_some_and(is_time),
            ts: ts.and_then(Value::as_f64).unwrap_or(0.0),
            status_legal: legal.is_some(),
            size_known: size_known(item),
            progress: (end, children.len(), returned),
            kind: record.kind(),
        }
    }

    fn sums_order(&self, other: &Self) -> Ordering {
        let ((a, x, p), (b, y, q)) = (self.sums, other.sums);
        a.cmp(&b).then(x.total_cmp(&y)).then(p.total_cmp(&q))
    }

    fn standing_order(&self, other: &Self) -> (Ordering, Why) {
        match self.status_legal.cmp(&other.status_legal) {
            Ordering::Equal => (self.progress.cmp(&other.progress), Why::Progress),
            order => (order, Why::Status),
        }
    }

    /// Which of two whole records is better, and by what. The text breaks what ties are left, elsewhere.
    fn order(&self, other: &Self) -> (Ordering, Why) {
        let standing = self.standing_order(other);
        let steps = [
            (self.title.cmp(&other.title), Why::Title),
            (self.sums_order(other), Why::Sums),
            (self.ts_plausible.cmp(&other.ts_plausible), Why::Ts),
            standing,
            (self.size_known.cmp(&other.size_known), Why::Size),
            (self.ts.total_cmp(&other.ts), Why::Time),
            (other.kind.cmp(&self.kind), Why::Source),
        ];
        steps.into_iter().find(|(order, _)| order.is_ne()).unwrap_or((Ordering::Equal, Why::Source))
    }
}

fn size_known(item: &Item) -> bool {
    item.get(&Field::Size).and_then(Value::as_f64).is_some_and(|size| size > 0.0)
}

struct Choice<'a> {
    item: Item,
    fields: Vec<(Field, Whence, Why)>,
    faults: Vec<What>,
    /// The best first.
    records: &'a [Record],
}

impl Choice<'_> {
    /// Gives a field this value, or none; notes it if that is a change.
    fn take(&mut self, field: &Field, value: Option<Value>, from: Whence, why: Why) {
        if self.item.get(field) == value.as_ref() {
            return;
        }
        self.fields.retain(|(f, ..)| f != field);
        match value {
            Some(value) => {
                self.fields.push((field.clone(), from, why));
                self.item.set(field.clone(), value);
            }
            None => {
                self.fields.push((field.clone(), Whence::Nowhere, why));
                self.item.unset(field);
            }
        }
    }

    fn record(&self, n: usize) -> Option<&Item> {
        self.records.get(n).map(|record| &record.item)
    }

    fn id(&mut self, id: &TaskId) {
        if self.item.text(&Field::Id).as_deref() != Some(id.as_str()) {
            self.take(&Field::Id, Some(Value::Text(id.shared())), Whence::Elsewhere, Why::Folder);
        }
    }

    /// The sums move together, and the time with them.
    fn usage(&mut self, facts: &[Facts]) {
        let best = best(facts, Facts::sums_order);
        if best != 0 {
            for field in Sums::FIELDS.iter().chain([&Field::Ts]) {
                let value = self.record(best).and_then(|item| item.get(field)).cloned();
                self.take(field, value, Whence::Record(best), Why::Sums);
            }
        }
        if self.item.get(&Field::Ts).is_some_and(is_time) {
            return;
        }
        if let Some(n) = facts.iter().position(|f| f.ts_plausible) {
            let value = self.record(n).and_then(|item| item.get(&Field::Ts)).cloned();
            self.take(&Field::Ts, value, Whence::Record(n), Why::Ts);
        } else {
            self.faults.push(What::TsImplausible);
        }
    }

    /// Where it stands moves as one; its children are those of all records.
    fn standing(&mut self, facts: &[Facts]) {
        let best = best(facts, |a, b| a.standing_order(b).0);
        if let (true, Some(ours), Some(theirs)) = (best != 0, facts.first(), facts.get(best)) {
            let why = theirs.standing_order(ours).1;
            for field in &STANDING {
                let value = self.record(best).and_then(|item| item.get(field)).cloned();
                self.take(field, value, Whence::Record(best), why);
            }
        }
        if !facts.get(best).is_some_and(|f| f.status_legal) {
            self.take(&Field::Status, None, Whence::Nowhere, Why::LeftOut);
            self.faults.push(What::StatusIllegal);
        }
        let mut children = self.item.get(&Field::ChildIds).map(Value::as_strings).unwrap_or_default();
        let had = children.len();
        let mut known: HashSet<Arc<str>> = children.iter().cloned().collect();
        for record in self.records {
            for id in record.item.get(&Field::ChildIds).map(Value::as_strings).unwrap_or_default() {
                if known.insert(Arc::clone(&id)) {
                    children.push(id);
                }
            }
        }
        if children.len() > had {
            self.take(&Field::ChildIds, Some(Value::strings(children)), Whence::Elsewhere, Why::Union);
        }
    }

    /// What is missing and was not removed.
    fn fill(&mut self, facts: &[Facts]) {
        for field in &PROPERTIES {
            let fine = |item: &Item| match field {
                Field::Size => size_known(item),
                _ => item.get(field).is_some_and(|value| *value != Value::Null),
            };
            if fine(&self.item) {
                continue;
            }
            if let Some(n) = self.records.iter().position(|record| fine(&record.item)) {
                let value = self.record(n).and_then(|item| item.get(field)).cloned();
                self.take(field, value, Whence::Record(n), Why::Filled);
            }
        }
        // What a field means that nobody here knows, and whether hosts remove it, nobody here knows either. An older
        // record may hold one that was removed since; a newer one cannot.
        let Some(base) = facts.first() else { return };
        for (n, (record, f)) in self.records.iter().zip(facts).enumerate().skip(1) {
            if base.ts_plausible && f.ts < base.ts {
                continue;
            }
            for (field, value) in record.item.fields() {
                if matches!(field, Field::Other(_)) && self.item.get(field).is_none() {
                    self.take(field, Some(value.clone()), Whence::Record(n), Why::Filled);
                }
            }
        }
    }
}

/// The best one, the first of equals.
fn best(facts: &[Facts], order: impl Fn(&Facts, &Facts) -> Ordering) -> usize {
    let mut best = 0;
    for (n, f) in facts.iter().enumerate().skip(1) {
        if facts.get(best).is_some_and(|b| order(f, b).is_gt()) {
            best = n;
        }
    }
    best
}

#[cfg(test)]
mod tests;
