//! Documents, folded from a log: named values, and what the files that mirror them hold.
//!
//! `format-spec/events.md` has in prose what each event does. Never validates: what today's rules would refuse is folded in
//! the way that loses least, and said in a finding.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use super::fold::{Head, Note};
use crate::event::{DocumentName, Event, Item, MirrorNote, Mirrored, Patch, Value};
use crate::log::{Revision, Seq};

/// Of how many files that mirror one document it is known what they hold; that of which something was noted longest ago is
/// forgotten first.
pub const MIRRORS_MAX: usize = 64;
/// How many contents are remembered that may have reached a file since it was last known what it holds.
pub const MIRROR_MEANT_MAX: usize = 7;
/// How many contents of a file that were set aside are remembered.
pub const MIRROR_ASIDE_MAX: usize = 8;

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

/// What is known of a file that mirrors a document.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mirror {
    file: Arc<str>,
    seen: Option<Mirrored>,
    meant: Vec<Mirrored>,
    aside: Vec<([u8; 32], bool)>,
}

impl Mirror {
    /// The file's path.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// What it was last known to hold. Never forgotten but for something that was known later.
    pub fn seen(&self) -> Option<&Mirrored> {
        self.seen.as_ref()
    }

    /// What may have reached it since, oldest first.
    pub fn meant(&self) -> &[Mirrored] {
        &self.meant
    }

    /// The version of these contents, if it is one that the file may hold.
    pub fn version(&self, content: &[u8; 32]) -> Option<&Mirrored> {
        self.seen.iter().chain(&self.meant).find(|version| version.content == *content)
    }

    /// What was set aside since it was last seen to be good: each contents, and whether the file was written anew since.
    pub fn aside(&self) -> &[([u8; 32], bool)] {
        &self.aside
    }

    /// Whether the file was written anew since these contents were set aside; `None` = they were not.
    pub fn is_aside(&self, content: &[u8; 32]) -> Option<bool> {
        self.aside.iter().find(|(known, _)| known == content).map(|(_, is_replaced)| *is_replaced)
    }

    /// Notes that leave it as it is.
    pub(super) fn notes(&self) -> impl Iterator<Item = Mirrored> + '_ {
        let note =
            |note, content| Mirrored { file: Arc::clone(&self.file), content, note, ..Mirrored::default() };
        // What was set aside is written anew by whatever was written behind it.
        let aside = move |replaced: bool| {
            let such = self.aside.iter().filter(move |(_, is_replaced)| *is_replaced == replaced);
            such.map(move |(content, _)| note(MirrorNote::Aside, *content))
        };
        let nothing = self.seen.is_none() && self.meant.is_empty() && self.aside.is_empty();
        let empty = nothing.then(|| note(MirrorNote::Withdrawn, [0; 32]));
        let was_aside = aside(true);
        empty
            .into_iter()
            .chain(was_aside)
            .chain(self.seen.clone())
            .chain(aside(false))
            .chain(self.meant.iter().cloned())
    }

    /// As these notes of one file leave it.
    #[cfg(test)]
    pub(crate) fn of(notes: impl IntoIterator<Item = Mirrored>) -> Mirror {
        notes.into_iter().fold(Mirror::default(), |mut mirror, note| {
            mirror.file = Arc::clone(&note.file);
            mirror.take_up(note);
            mirror
        })
    }

    fn take_up(&mut self, version: Mirrored) {
        let content = version.content;
        match version.note {
            MirrorNote::Seen => {
                self.aside.clear();
                self.meant.clear();
                self.seen = Some(version);
            }
            MirrorNote::Written => {
                self.aside.iter_mut().for_each(|(_, is_replaced)| *is_replaced = true);
                self.meant.clear();
                self.seen = Some(version);
            }
            MirrorNote::Meant => {
                if self.seen.as_ref().is_some_and(|seen| seen.content == content) {
                    return;
                }
                self.meant.retain(|known| known.content != content);
                self.meant.push(version);
                self.meant.drain(..self.meant.len().saturating_sub(MIRROR_MEANT_MAX));
            }
            MirrorNote::Withdrawn => self.meant.retain(|known| known.content != content),
            MirrorNote::Aside => {
                self.aside.retain(|(known, _)| *known != content);
                self.aside.push((content, false));
                self.aside.drain(..self.aside.len().saturating_sub(MIRROR_ASIDE_MAX));
            }
        }
    }

    fn hash(&self, hasher: &mut blake3::Hasher) {
        text(hasher, &self.file);
        hasher.update(&[u8::from(self.seen.is_some())]);
        self.seen.iter().for_each(|version| hash_version(version, hasher));
        hasher.update(&(self.meant.len() as u64).to_le_bytes());
        self.meant.iter().for_each(|version| hash_version(version, hasher));
        hasher.update(&(self.aside.len() as u64).to_le_bytes());
        for (content, is_replaced) in &self.aside {
            hasher.update(content).update(&[u8::from(*is_replaced)]);
        }
    }
}

fn text(hasher: &mut blake3::Hasher, text: &str) {
    hasher.update(&(text.len() as u64).to_le_bytes()).update(text.as_bytes());
}

fn hash_version(version: &Mirrored, hasher: &mut blake3::Hasher) {
    hasher.update(&version.content);
    hasher.update(&version.revision.0.to_le_bytes()).update(&version.whole.to_le_bytes());
    hasher.update(&[u8::from(version.members.is_some())]);
    let Some(members) = &version.members else { return };
    hasher.update(&(members.len() as u64).to_le_bytes());
    for (member, hash) in members {
        text(hasher, member);
        hasher.update(&hash.to_le_bytes());
    }
}

/// All documents of one log, in the order of their names.
#[derive(Clone, Debug, Default)]
pub struct Documents {
    entries: BTreeMap<DocumentName, DocumentEntry>,
    mirrors: BTreeMap<DocumentName, Mirrors>,
    live: usize,
}

/// The files of one document; that of which something was noted last is last.
type Mirrors = Arc<Vec<Arc<Mirror>>>;

/// What an event replaced.
#[derive(Debug)]
pub(super) enum ReplacedDocument {
    Entry(DocumentName, Option<DocumentEntry>),
    Mirrors(DocumentName, Option<Mirrors>),
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
        self.mirrors(name).find(|mirror| mirror.file() == file)
    }

    /// All files that mirror a document, in the order of what was last noted of each.
    pub fn mirrors(&self, name: &str) -> impl Iterator<Item = &Mirror> {
        self.mirrors.get(name).into_iter().flat_map(|all| all.iter()).map(|mirror| &**mirror)
    }

    /// Every name that stands for something, in order.
    pub(super) fn entries(&self) -> impl Iterator<Item = (&DocumentName, &DocumentEntry)> {
        self.entries.iter()
    }

    /// Every document with files that mirror it, and those.
    pub(super) fn all_mirrors(&self) -> impl Iterator<Item = (&DocumentName, impl Iterator<Item = &Mirror>)> {
        self.mirrors.iter().map(|(name, all)| (name, all.iter().map(|mirror| &**mirror)))
    }

    /// Has a name stand for something, as a snapshot says.
    pub(super) fn restore(&mut self, name: DocumentName, entry: DocumentEntry) {
        self.count(None, Some(&entry));
        self.entries.insert(name, entry);
    }

    /// Takes up a note about a file, as a snapshot says.
    pub(super) fn restore_note(&mut self, name: &str, note: Mirrored) {
        self.mirrored(name, note);
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
        let at = all.iter().position(|mirror| mirror.file() == &*version.file);
        let mut mirror = at.map_or_else(Arc::default, |at| all.remove(at));
        let changed = Arc::<Mirror>::make_mut(&mut mirror);
        changed.file = Arc::clone(&version.file);
        changed.take_up(version);
        all.push(mirror);
        all.drain(..all.len().saturating_sub(MIRRORS_MAX));
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
            all.iter().for_each(|mirror| mirror.hash(hasher));
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
