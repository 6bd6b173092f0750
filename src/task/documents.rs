//! The rules of documents: named values beside the tasks, in the same commits.
//!
//! Pure, like all of `rules`, but for [`Tasks::prepare`], which comes before the lock: it reads and stores the blobs of large values,
//! and asks the program's validators. What it finds rests on the documents as they stood; under the lock that is compared, and
//! where others have changed one meanwhile all is made ready anew.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

use super::rules::{Plan, refuse};
use super::token::Token;
use super::{Asked, Op, TaskStore, Tasks, VALUE_INLINE_MAX};
use crate::error::{Error, ErrorKind, Result};
use crate::event::{
    DOCUMENT_KIND_LEN_MAX, DocumentName, Event, ITEM_LEN_MAX, Mirrored, Patch, Value, check_name,
};
use crate::log::{BlobId, Conflict, Cursor, Expect, Revision, Seq, State};
use crate::view::{Document, DocumentEntry, Documents, Index, patched};

/// What a commit expects of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DocumentExpect {
    /// Nothing, but that it was not deleted.
    Any,
    /// It is not there: it never was, or it was deleted.
    Absent,
    /// It is there.
    Exists,
    /// It is as it was when this token was given out.
    At(Token),
    /// It has this revision. Valid only as long as the machine runs: a power cut may give numbers out again.
    Revision(Revision),
}

/// What says whether a value may stand in a document: its name and the value, or why not.
pub type Validator = dyn Fn(&DocumentName, &Value) -> Result<(), String> + Send + Sync;

/// A program's validators by the kind they are of.
#[derive(Clone, Default)]
pub(super) struct Validators(Arc<RwLock<BTreeMap<String, Arc<Validator>>>>);

impl fmt::Debug for Validators {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Validators").finish_non_exhaustive()
    }
}

impl Validators {
    pub(super) fn set(&self, kind: &str, validator: Arc<Validator>) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert(kind.into(), validator);
    }

    fn of(&self, kind: Option<&str>) -> Option<Arc<Validator>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(kind?).cloned()
    }
}

/// What was found out about a commit's documents before it had LOCK. By the operation's place among the commit's, each with
/// what it rests on.
#[derive(Clone, Debug, Default)]
pub(super) struct Prepared {
    validators: Validators,
    /// Of patches whose document is, or becomes, too large for an event.
    patches: HashMap<usize, (Place, Large)>,
    /// Of values that a validator was asked about.
    verdicts: HashMap<usize, (Place, Verdict)>,
    /// Set where something rests on what has changed since: it is to be made ready anew.
    pub(super) stale: bool,
}

/// What a patch of a large document comes to.
#[derive(Clone, Debug)]
enum Large {
    Whole(Value),
    NoObject,
    TooLong(u64),
}

/// What a validator has said: nothing, or why not.
type Verdict = Result<(), String>;

impl Prepared {
    /// Whether a blob was stored that nothing names yet.
    pub(super) fn has_blobs(&self) -> bool {
        self.patches.values().any(|(_, large)| matches!(large, Large::Whole(Value::Blob { .. })))
    }
}

/// Where a document stands: its revision and last event; `None` = there never was one.
type Place = Option<(Revision, Seq)>;

fn place_of(entry: Option<&DocumentEntry>) -> Place {
    entry.map(|entry| (entry.revision(), entry.seq()))
}

/// A document as the operations before one have left it, while a commit is made ready.
struct Standing {
    kind: Option<Arc<str>>,
    value: Value,
    /// Whether an event would have to name a blob for it: then it cannot be looked at under the lock.
    is_large: bool,
}

impl Standing {
    fn of(document: &Document) -> Self {
        let (kind, value) = (document.kind.clone(), document.value.clone());
        Standing { kind, is_large: matches!(value, Value::Blob { .. }), value }
    }
}

fn no_object<T>(name: &DocumentName) -> Result<T> {
    let why = format!("the document {name} is no object, so that it has no members to change");
    refuse(ErrorKind::Invalid { what: "patch", why })
}

impl Tasks {
    /// Lets a program's own function say whether a value may stand in a document of a kind; one that was given for the kind
    /// before is replaced. It holds for every commit through this handle, its clones and, where it came from a
    /// [`TaskStore`], all of that store's handles in this process; what other programs write is theirs to judge.
    ///
    /// It is asked for the value as it would stand, a patch applied, before anything is written, and never when the log is
    /// read.
    ///
    /// # Blocking
    /// It runs on the thread that commits, before the write lock is asked for, and may read the store. Where somebody else has
    /// changed the document meanwhile it is asked again, of what would stand then.
    pub fn validate_documents(
        &self,
        kind: &str,
        validator: impl Fn(&DocumentName, &Value) -> Result<(), String> + Send + Sync + 'static,
    ) {
        self.validators.set(kind, Arc::new(validator));
    }

    /// Makes ready what the operations on documents need beside the state: whole values of large ones, and what validators
    /// say. `whole` are the operations before any value was moved into a blob. Without `keep` blobs are named only, not stored.
    ///
    /// # Errors
    /// Of reading and storing only: what is refused is told under the lock, once it is clear that the request is new.
    pub(super) fn prepare(
        &self,
        ops: &[Op],
        whole: Option<&Vec<Op>>,
        keep: bool,
        asked: &mut Prepared,
    ) -> Result<()> {
        *asked = Prepared { validators: self.validators.clone(), ..Prepared::default() };
        let names: Vec<&DocumentName> = ops.iter().filter_map(Op::document).collect();
        if names.is_empty() {
            return Ok(());
        }
        let mut now: BTreeMap<&str, (Place, Option<Standing>)> = self.read(|_, index| {
            let entry = |name: &DocumentName| index.documents().entry(name.as_str());
            let standing = |name| entry(name).and_then(DocumentEntry::live).map(|live| Standing::of(live));
            names.iter().map(|name| (name.as_str(), (place_of(entry(name)), standing(name)))).collect()
        })?;
        for (at, op) in ops.iter().enumerate() {
            let Some((base, standing)) = op.document().and_then(|name| now.get_mut(name.as_str())) else {
                continue;
            };
            match op {
                Op::PutDocument { name, kind, value, .. } => {
                    let kind = kind.clone().or_else(|| standing.as_ref().and_then(|was| was.kind.clone()));
                    let is_large = matches!(value, Value::Blob { .. });
                    let original = match whole.and_then(|whole| whole.get(at)) {
                        Some(Op::PutDocument { value, .. }) => value,
                        _ => value,
                    };
                    let changes =
                        standing.as_ref().is_none_or(|was| was.kind != kind || !same(&was.value, value));
                    if changes && let Some(validator) = asked.validators.of(kind.as_deref()) {
                        asked.verdicts.insert(at, (*base, validator(name, &self.value(original)?)));
                    }
                    *standing = Some(Standing { kind, value: original.clone(), is_large });
                }
                Op::DeleteDocument { .. } => *standing = None,
                Op::PatchDocument { name, patch } => {
                    let Some(was) = standing.as_mut() else { continue };
                    let before = self.value(&was.value)?;
                    let after = patched(&before, patch);
                    let large = match &after {
                        None if was.is_large => Some(Large::NoObject),
                        None => None,
                        Some(after) if after.json_len() > ITEM_LEN_MAX => {
                            Some(Large::TooLong(after.json_len()))
                        }
                        Some(after) if after.json_len() > VALUE_INLINE_MAX => {
                            let text = after.to_json();
                            if keep {
                                self.log().put_blobs(&[text.as_bytes()])?;
                            }
                            let id = BlobId::of(text.as_bytes());
                            Some(Large::Whole(Value::Blob { id, len: text.len() as u64 }))
                        }
                        Some(after) if was.is_large => Some(Large::Whole(after.clone())),
                        Some(_) => None,
                    };
                    if let Some(after) = after {
                        if after != before
                            && let Some(validator) = asked.validators.of(was.kind.as_deref())
                        {
                            asked.verdicts.insert(at, (*base, validator(name, &after)));
                        }
                        was.is_large = matches!(large, Some(Large::Whole(Value::Blob { .. })));
                        was.value = after;
                    }
                    if let Some(large) = large {
                        asked.patches.insert(at, (*base, large));
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }
}

impl TaskStore {
    /// As [`Tasks::validate_documents`], for all workspaces of the store.
    pub fn validate_documents(
        &self,
        kind: &str,
        validator: impl Fn(&DocumentName, &Value) -> Result<(), String> + Send + Sync + 'static,
    ) {
        self.validators.set(kind, Arc::new(validator));
    }
}

fn too_long<T>(len: u64) -> Result<T> {
    refuse(ErrorKind::TooLarge { what: "a document's bytes", len, max: ITEM_LEN_MAX })
}

impl Asked {
    /// Adds to `conflicts` what does not hold of the documents.
    pub(super) fn check_documents(
        &self,
        state: &State,
        index: &Index,
        conflicts: &mut Vec<Conflict>,
    ) -> Result<()> {
        for (name, expected) in &self.documents {
            let entry = index.documents().entry(name.as_str());
            let dead = entry.filter(|entry| entry.live().is_none());
            let expect = match (expected, dead) {
                (DocumentExpect::Any, _) | (DocumentExpect::Absent, Some(_)) => continue,
                (_, Some(dead)) => return deleted(name, dead.seq()),
                (DocumentExpect::Absent, None) => Expect::Absent,
                (DocumentExpect::Exists, None) => Expect::Exists,
                (DocumentExpect::At(token), None) => token.expect(),
                (DocumentExpect::Revision(revision), None) => Expect::Revision(*revision),
            };
            if let Err(conflict) = state.check(&name.key(), expect) {
                conflicts.push(*conflict);
            }
        }
        Ok(())
    }
}

fn deleted<T>(name: &DocumentName, seq: Seq) -> Result<T> {
    refuse(ErrorKind::DocumentDeleted { name: name.to_string(), seq })
}

/// What a commit's operations have made of its documents so far.
#[derive(Debug, Default)]
pub(super) struct DocumentsPlanned {
    over: BTreeMap<DocumentName, DocumentEntry>,
    /// Those it names, each with the place of its last event among the commit's, or as it stands without one.
    pub(super) named: Vec<(DocumentName, Planned)>,
}

/// See [`DocumentsPlanned::named`].
#[derive(Clone, Copy, Debug)]
pub(super) enum Planned {
    Event(usize),
    Stands(Revision, Seq),
}

impl DocumentsPlanned {
    fn name(&mut self, name: &DocumentName, planned: Planned) {
        match self.named.iter_mut().find(|(named, _)| named == name) {
            Some((_, last)) => *last = planned,
            None => self.named.push((name.clone(), planned)),
        }
    }

    /// Moves every place by that many towards the front.
    pub(super) fn shift(&mut self, by: usize) {
        for (_, planned) in &mut self.named {
            if let Planned::Event(place) = planned {
                *place -= by;
            }
        }
    }

    /// The tokens, once the commit stands.
    pub(super) fn tokens(
        self,
        revisions: &[Revision],
        first: Seq,
        cursor_at: impl Fn(Seq) -> Cursor,
    ) -> Vec<(DocumentName, Token)> {
        let token = |(name, planned)| {
            let (revision, seq) = match planned {
                Planned::Event(place) => {
                    (revisions.get(place).copied().unwrap_or_default(), Seq(first.0 + place as u64))
                }
                Planned::Stands(revision, seq) => (revision, seq),
            };
            (name, Token { revision, at: cursor_at(seq) })
        };
        self.named.into_iter().map(token).collect()
    }
}

impl Plan<'_> {
    fn document(&self, name: &DocumentName) -> Option<&DocumentEntry> {
        self.planned.documents.over.get(name).or_else(|| self.stored().entry(name.as_str()))
    }

    fn stored(&self) -> &Documents {
        self.index.documents()
    }

    /// The document that an operation changes.
    fn present(&self, name: &DocumentName) -> Result<&DocumentEntry> {
        match self.document(name) {
            Some(DocumentEntry::Dead { seq, .. }) => deleted(name, *seq),
            Some(entry) => Ok(entry),
            None => refuse(ErrorKind::NoDocument { name: name.to_string() }),
        }
    }

    fn emit_document(&mut self, name: &DocumentName, event: Event) {
        let before = self.document(name).cloned();
        let head = crate::view::Head {
            seq: before.as_ref().map_or(Seq(0), DocumentEntry::seq),
            revision: Revision(before.as_ref().map_or(0, |entry| entry.revision().0) + 1),
        };
        let after =
            crate::view::fold_document(before.as_ref(), name, head, 0, Some(event.clone()), &mut |_, _| {});
        let place = (self.push)(name.key(), event);
        let planned = &mut self.planned.documents;
        after.map(|after| planned.over.insert(name.clone(), after));
        planned.name(name, Planned::Event(place));
    }

    /// What the validator of a kind has said of the value that an operation leaves.
    fn validated(&mut self, at: usize, name: &DocumentName, kind: Option<&str>) -> Result<()> {
        let verdict = self.prepared.verdicts.get(&at);
        match (verdict, kind) {
            (Some((base, _)), _) if *base != self.base(name) => self.stale(name),
            (Some((_, Err(why))), Some(kind)) => {
                let (name, kind, why) = (name.to_string(), kind.to_owned(), why.clone());
                refuse(ErrorKind::DocumentRefused { name, kind, why })
            }
            (Some(_), _) => Ok(()),
            // It was not asked, for it had none of this kind, or there was no such validator.
            (None, kind) if self.prepared.validators.of(kind).is_some() => self.stale(name),
            (None, _) => Ok(()),
        }
    }

    /// Where a document stands before this commit.
    fn base(&self, name: &DocumentName) -> Place {
        place_of(self.stored().entry(name.as_str()))
    }

    pub(super) fn put_document(
        &mut self,
        at: usize,
        name: &DocumentName,
        kind: Option<&Arc<str>>,
        value: &Value,
        again: bool,
    ) -> Result<()> {
        kind.map_or(Ok(()), |kind| check_name("document kind", kind, DOCUMENT_KIND_LEN_MAX))?;
        if value.json_len() > ITEM_LEN_MAX {
            return too_long(value.json_len());
        }
        let (kind, again) = match self.document(name) {
            None => (kind.cloned(), false),
            Some(DocumentEntry::Dead { .. }) if again => (kind.cloned(), true),
            Some(DocumentEntry::Dead { seq, .. }) => return deleted(name, *seq),
            Some(DocumentEntry::Live(document)) => {
                let kind = kind.or(document.kind.as_ref()).cloned();
                if document.kind == kind && same(&document.value, value) {
                    let stands = Planned::Stands(document.revision, document.seq);
                    if !self.planned.documents.over.contains_key(name) {
                        self.planned.documents.name(name, stands);
                    }
                    return Ok(());
                }
                (kind, false)
            }
        };
        self.validated(at, name, kind.as_deref())?;
        self.emit_document(name, Event::DocumentPut { kind, value: value.clone(), again });
        Ok(())
    }

    pub(super) fn patch_document(&mut self, at: usize, name: &DocumentName, patch: &Patch) -> Result<()> {
        if !patch.drops().is_empty() {
            let why = "a document has no dropChildIds; set the member to the array that is meant".into();
            return refuse(ErrorKind::Invalid { what: "patch", why });
        }
        let entry = self.present(name)?;
        let Some(document) = entry.live().cloned() else { return Ok(()) };
        let kind = document.kind.as_deref();
        if let Some((base, large)) = self.prepared.patches.get(&at) {
            if *base != self.base(name) {
                return self.stale(name);
            }
            let value = match large {
                Large::NoObject => return no_object(name),
                Large::TooLong(len) => return too_long(*len),
                Large::Whole(value) => value.clone(),
            };
            if same(&document.value, &value) {
                return self.leave(name, document.revision, document.seq);
            }
            self.validated(at, name, kind)?;
            self.emit_document(name, Event::DocumentPut { kind: document.kind.clone(), value, again: false });
            return Ok(());
        }
        if matches!(document.value, Value::Blob { .. }) {
            return self.stale(name);
        }
        let change = needed(&document.value, patch).map_or_else(|| no_object(name), Ok)?;
        if change.is_empty() {
            return self.leave(name, document.revision, document.seq);
        }
        let Some(after) = patched(&document.value, &change) else { return no_object(name) };
        if after.json_len() > VALUE_INLINE_MAX {
            return self.stale(name);
        }
        self.validated(at, name, kind)?;
        self.emit_document(name, Event::DocumentPatched(change));
        Ok(())
    }

    fn leave(&mut self, name: &DocumentName, revision: Revision, seq: Seq) -> Result<()> {
        if !self.planned.documents.over.contains_key(name) {
            self.planned.documents.name(name, Planned::Stands(revision, seq));
        }
        Ok(())
    }

    /// What was made ready rests on something else than what stands: it is to be made ready anew.
    fn stale(&mut self, name: &DocumentName) -> Result<()> {
        self.planned.stale = true;
        Err(Error::refused(format!(
            "the document {name} changed while a patch of it was made ready; try again"
        )))
    }

    pub(super) fn delete_document(&mut self, name: &DocumentName) -> Result<()> {
        self.present(name)?;
        self.emit_document(name, Event::DocumentDeleted);
        Ok(())
    }

    pub(super) fn mirror_document(&mut self, name: &DocumentName, mirrored: &Mirrored) -> Result<()> {
        // Of one that was deleted too: what its file holds is as true as before.
        let Some(entry) = self.document(name) else {
            return refuse(ErrorKind::NoDocument { name: name.to_string() });
        };
        let revision = if mirrored.revision.0 == 0 { entry.revision() } else { mirrored.revision };
        (self.push)(name.key(), Event::DocumentMirrored(Mirrored { revision, ..mirrored.clone() }));
        Ok(())
    }
}

/// Whether two values spell the same text.
fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Blob { id, .. }, Value::Blob { id: other, .. }) => id == other,
        (Value::Blob { id, len }, value) | (value, Value::Blob { id, len }) => {
            let text = value.to_json();
            text.len() as u64 == *len && BlobId::of(text.as_bytes()) == *id
        }
        (one, other) => one == other,
    }
}

/// What of a patch changes anything; `None` if the value is no object.
fn needed(value: &Value, patch: &Patch) -> Option<Patch> {
    let Value::Raw(text) = value else { return None };
    let item = crate::event::Item::parse(text).ok()?;
    let now = item.finder(patch.sets().len() + patch.unsets().len());
    Some(Patch {
        set: patch.sets().iter().filter(|(field, value)| now.get(field) != Some(value)).cloned().collect(),
        unset: patch.unsets().iter().filter(|field| now.get(field).is_some()).cloned().collect(),
        ..Patch::default()
    })
}

/// The conflict of a patch that was made ready again and again, and never stood.
pub(super) fn outrun(state: &State, ops: &[Op]) -> Error {
    let names = ops.iter().filter_map(Op::document);
    let conflict = |name: &DocumentName| {
        let key = name.key();
        Conflict { expected: Expect::Any, current: state.get(&key), rewound_to: None, key }
    };
    Error::new(ErrorKind::Conflict(names.map(conflict).collect()), "commit", Path::new(""))
}
