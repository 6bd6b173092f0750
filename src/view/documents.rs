//! Documents, folded from a log: named values, and what the files that mirror them hold.
//!
//! `format-spec/events.md` has in prose what each event does. Never validates: what today's rules would refuse is folded in
//! the way that loses least, and said in a finding.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use super::fold::{Head, Note};
use crate::event::{DocumentName, Event, Item, Mirrored, Patch, Value};
use crate::log::{Revision, Seq};

/// How many versions of a file are remembered until it is seen to hold one of them.
pub const MIRROR_VERSIONS_MAX: usize = 8;

/// A document that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// Its name.
    pub name: DocumentName,
    /// What it is, in its programs' words.
    pub kind: Option<Arc<str>>,
    /// All of it; over 64 KiB the name of a blob.
    pub value: Value,
    /// How many state events it has had.
    pub revision: Revision,
    /// Its last state event.
    pub seq: Seq,
    /// Its first event; after a deletion, that of its new beginning.
    pub created: Seq,
    /// When it was last changed, µs since 1970 UTC, by the writer's clock.
    pub time: u64,
}

/// What the name of a document stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DocumentEntry {
    /// A document.
    Live(Arc<Document>),
    /// One that was deleted.
    Dead {
        /// How many state events it has had, its deletion included.
        revision: Revision,
        /// Its last state event.
        seq: Seq,
    },
}

impl DocumentEntry {
    /// The document, if it is there.
    pub fn live(&self) -> Option<&Arc<Document>> {
        match self {
            DocumentEntry::Live(document) => Some(document),
            DocumentEntry::Dead { .. } => None,
        }
    }

    /// How many state events it has had.
    pub fn revision(&self) -> Revision {
        match self {
            DocumentEntry::Live(document) => document.revision,
            DocumentEntry::Dead { revision, .. } => *revision,
        }
    }

    /// Its last state event.
    pub fn seq(&self) -> Seq {
        match self {
            DocumentEntry::Live(document) => document.seq,
            DocumentEntry::Dead { seq, .. } => *seq,
        }
    }
}

/// Which documents a list has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DocumentQuery {
    /// Only names that begin with this.
    pub prefix: String,
    /// Only documents of this kind.
    pub kind: Option<String>,
    /// Only names behind this one, the `next` of the page before.
    pub after: Option<DocumentName>,
    /// At most so many.
    pub limit: Option<usize>,
}

/// What a file that mirrors a document may hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mirror {
    /// Never empty; the newest is last.
    versions: Vec<Mirrored>,
}

impl Mirror {
    /// The file's path.
    pub fn file(&self) -> &str {
        self.versions.first().map_or("", |version| &version.file)
    }

    /// What it may hold, oldest first: the version that it was last seen to hold, and those that were to be written since.
    pub fn versions(&self) -> &[Mirrored] {
        &self.versions
    }

    fn take_up(&mut self, version: Mirrored) {
        if version.settled {
            self.versions.clear();
        }
        // The same again is what it is about to hold.
        self.versions.retain(|known| known.content != version.content);
        self.versions.push(version);
        self.versions.drain(..self.versions.len().saturating_sub(MIRROR_VERSIONS_MAX));
    }
}

/// All documents of one log, in the order of their names.
#[derive(Clone, Debug, Default)]
pub struct Documents {
    entries: BTreeMap<DocumentName, DocumentEntry>,
    mirrors: BTreeMap<DocumentName, Arc<Vec<Mirror>>>,
    live: usize,
}

/// What an event replaced.
#[derive(Debug)]
pub(super) enum ReplacedDocument {
    Entry(DocumentName, Option<DocumentEntry>),
    Mirrors(DocumentName, Option<Arc<Vec<Mirror>>>),
}

impl Documents {
    /// A document that is there.
    pub fn get(&self, name: &str) -> Option<&Arc<Document>> {
        self.entries.get(name)?.live()
    }

    /// What a name stands for.
    pub fn entry(&self, name: &str) -> Option<&DocumentEntry> {
        self.entries.get(name)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.live
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// What is known of a file that mirrors a document.
    pub fn mirror(&self, name: &str, file: &str) -> Option<&Mirror> {
        self.mirrors(name).iter().find(|mirror| mirror.file() == file)
    }

    /// All files that mirror a document, in the order of their first mirroring.
    pub fn mirrors(&self, name: &str) -> &[Mirror] {
        self.mirrors.get(name).map(|all| all.as_slice()).unwrap_or_default()
    }

    /// The documents a query wants, and whether there are more behind them.
    pub fn list(&self, query: &DocumentQuery) -> (Vec<Arc<Document>>, bool) {
        let limit = query.limit.unwrap_or(usize::MAX);
        let (mut page, mut more) = (Vec::new(), false);
        for document in
            self.range(query).filter(|d| query.kind.is_none() || d.kind.as_deref() == query.kind.as_deref())
        {
            if page.len() == limit {
                more = true;
                break;
            }
            page.push(Arc::clone(document));
        }
        (page, more)
    }

    fn range<'a>(&'a self, query: &'a DocumentQuery) -> impl Iterator<Item = &'a Arc<Document>> {
        let prefix = query.prefix.as_str();
        let from = match &query.after {
            Some(after) if after.as_str() >= prefix => Bound::Excluded(after.as_str()),
            _ => Bound::Included(prefix),
        };
        let range = self.entries.range::<str, _>((from, Bound::Unbounded));
        range
            .take_while(move |(name, _)| name.as_str().starts_with(prefix))
            .filter_map(|(_, entry)| entry.live())
    }

    /// Takes up an event about a document; says what it replaced. Of one that does not decode, and of a kind that is no
    /// document's, only revision and place count.
    pub(super) fn take_up(
        &mut self,
        name: &str,
        head: Head,
        time: u64,
        event: Option<Event>,
        note: Note<'_>,
    ) -> Option<ReplacedDocument> {
        if let Some(Event::DocumentMirrored(mirrored)) = event {
            return Some(self.mirrored(name, mirrored));
        }
        if head.revision == Revision(0) {
            return None;
        }
        let before = self.entries.get(name).cloned();
        let name = DocumentName::of_log(name);
        let after = fold_document(before.as_ref(), &name, head, time, event, note)?;
        self.count(before.as_ref(), Some(&after));
        self.entries.insert(name.clone(), after);
        Some(ReplacedDocument::Entry(name, before))
    }

    fn mirrored(&mut self, name: &str, version: Mirrored) -> ReplacedDocument {
        let name = DocumentName::of_log(name);
        let before = self.mirrors.get(&name).cloned();
        let mut all = before.as_deref().cloned().unwrap_or_default();
        match all.iter_mut().find(|mirror| mirror.file() == &*version.file) {
            Some(mirror) => mirror.take_up(version),
            None => all.push(Mirror { versions: vec![version] }),
        }
        self.mirrors.insert(name.clone(), Arc::new(all));
        ReplacedDocument::Mirrors(name, before)
    }

    pub(super) fn take_back(&mut self, replaced: ReplacedDocument) {
        match replaced {
            ReplacedDocument::Entry(name, before) => {
                let now = self.entries.remove(&name);
                self.count(now.as_ref(), before.as_ref());
                before.map(|entry| self.entries.insert(name, entry));
            }
            ReplacedDocument::Mirrors(name, before) => {
                self.mirrors.remove(&name);
                before.map(|all| self.mirrors.insert(name, all));
            }
        }
    }

    fn count(&mut self, before: Option<&DocumentEntry>, after: Option<&DocumentEntry>) {
        let lives =
            |entry: Option<&DocumentEntry>| usize::from(entry.is_some_and(|entry| entry.live().is_some()));
        self.live = self.live + lives(after) - lives(before);
    }

    /// `format-spec/events.md`, section *State hash*.
    pub(super) fn hash(&self, hasher: &mut blake3::Hasher) {
        let text = |hasher: &mut blake3::Hasher, text: &str| {
            hasher.update(&(text.len() as u64).to_le_bytes()).update(text.as_bytes());
        };
        hasher.update(&(self.entries.len() as u64).to_le_bytes());
        for (name, entry) in &self.entries {
            text(hasher, name.as_str());
            hasher.update(&[u8::from(entry.live().is_some())]);
            hasher.update(&entry.revision().0.to_le_bytes()).update(&entry.seq().0.to_le_bytes());
            let Some(document) = entry.live() else { continue };
            hasher.update(&document.created.0.to_le_bytes()).update(&[u8::from(document.kind.is_some())]);
            document.kind.iter().for_each(|kind| text(hasher, kind));
            match &document.value {
                Value::Blob { id, len } => {
                    hasher.update(&u64::MAX.to_le_bytes()).update(&len.to_le_bytes()).update(&id.0);
                }
                value => text(hasher, &value.to_json()),
            }
        }
        hasher.update(&(self.mirrors.len() as u64).to_le_bytes());
        for (name, all) in &self.mirrors {
            text(hasher, name.as_str());
            hasher.update(&(all.len() as u64).to_le_bytes());
            for mirror in all.iter() {
                text(hasher, mirror.file());
                hasher.update(&(mirror.versions.len() as u64).to_le_bytes());
                for version in &mirror.versions {
                    hasher.update(&version.content);
                    hasher.update(&version.revision.0.to_le_bytes()).update(&version.whole.to_le_bytes());
                    hasher.update(&(version.members.len() as u64).to_le_bytes());
                    for (member, hash) in &version.members {
                        text(hasher, member);
                        hasher.update(&hash.to_le_bytes());
                    }
                }
            }
        }
    }
}

/// What a document's entry is after a state event; `None` = there is none, and the event makes none.
pub(crate) fn fold_document(
    before: Option<&DocumentEntry>,
    name: &DocumentName,
    head: Head,
    time: u64,
    event: Option<Event>,
    note: Note<'_>,
) -> Option<DocumentEntry> {
    let Head { seq, revision } = head;
    let dead = DocumentEntry::Dead { revision, seq };
    let live = |created: Option<&Document>, kind, value| {
        let created = created.map_or(seq, |document| document.created);
        DocumentEntry::Live(Arc::new(Document {
            name: name.clone(),
            kind,
            value,
            revision,
            seq,
            created,
            time,
        }))
    };
    let moved = |document: &Document| live(Some(document), document.kind.clone(), document.value.clone());
    let mut late = |what: &str| {
        note("event-after-delete", format!("{what} of the document {name} after it was deleted"));
    };
    Some(match (before, event) {
        (None, Some(Event::DocumentPut { kind, value, .. })) => live(None, kind, value),
        (None, Some(Event::DocumentPatched(_))) => {
            note("event-before-create", format!("a patch of the document {name}, which was never there"));
            return None;
        }
        (None, Some(Event::DocumentDeleted)) => dead,
        (None, _) => return None,
        (Some(DocumentEntry::Dead { .. }), Some(Event::DocumentPut { kind, value, again: true })) => {
            live(None, kind, value)
        }
        (Some(DocumentEntry::Dead { .. }), event) => {
            if event.is_some() {
                late("an event");
            }
            dead
        }
        (Some(DocumentEntry::Live(document)), event) => match event {
            Some(Event::DocumentPut { kind, value, .. }) => live(Some(document), kind, value),
            Some(Event::DocumentDeleted) => dead,
            Some(Event::DocumentPatched(patch)) => match patched(&document.value, &patch) {
                Some(value) => live(Some(document), document.kind.clone(), value),
                None => {
                    note("patch-of-no-object", format!("a patch of the document {name}, which is no object"));
                    moved(document)
                }
            },
            _ => moved(document),
        },
    })
}

/// An object with members set and removed: each in its place, new ones behind all others, without space between members.
/// `None` if the value is no object, or is not here.
pub(crate) fn patched(value: &Value, patch: &Patch) -> Option<Value> {
    let Value::Raw(text) = value else { return None };
    let mut item = Item::parse(text).ok()?;
    item.edit_all(patch.sets().to_vec(), |_, _, _| {});
    item.edit_out_all(patch.unsets(), |_| {});
    Some(Value::Raw(item.to_json().into()))
}
