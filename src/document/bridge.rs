//! One JSON state file that other programs still write, and one document: each takes up what the other side changed.
//!
//! What the file holds, or is about to hold, is in the log before it is written, so that all processes agree: contents that
//! it was last seen to hold, and those that were to be written since, are ours, whoever looks; anything else is somebody's
//! edit. An edit is taken in member by member, against the version that it most resembles. What is malformed, empty or not
//! there is never an edit.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use super::file::{Hash, Seen, StateFile, hash};
use super::{DocumentSnapshot, Documents};
use crate::error::{Error, ErrorKind, Result};
use crate::event::{DocumentName, Field, Item, Mirrored, Patch, Value, value_hash};
use crate::log::finding::Severity;
use crate::log::{Durability, Seq};
use crate::task::{CommitOptions, Committed, DocumentExpect, Op, Token};
use crate::view::{DocumentEntry, patched};

pub use crate::log::finding::Finding;

/// How often a bridge begins anew where the file or the document changes meanwhile.
const TRIES: usize = 32;

/// Keeps a document and a state file in step. Cheap to clone; any number of processes may have one for the same file.
#[derive(Clone, Debug)]
pub struct Bridge {
    documents: Documents,
    name: DocumentName,
    kind: Option<Arc<str>>,
    file: StateFile,
}

/// What [`Bridge::sync`] came to.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Synced {
    /// Whether an edit of the file was taken in.
    pub imported: bool,
    /// Whether the file was written.
    pub exported: bool,
    /// The document as it stands; `None` = there is none.
    pub token: Option<Token>,
    /// Members that both sides had changed, and that are as the document has them.
    pub kept: Vec<String>,
    /// What was found wrong, each with what was done about it.
    pub findings: Vec<Finding>,
}

/// What a step has of the document.
struct Now {
    entry: Option<(DocumentEntry, Token)>,
    versions: Vec<Mirrored>,
}

/// What a step works on.
struct Work<'a> {
    /// The document, whole, and its place.
    value: Value,
    token: Token,
    versions: &'a [Mirrored],
}

impl Work<'_> {
    /// Whether the log says that the file is to hold the document as it is, and that these are the contents.
    fn is_current(&self, content: &Hash) -> bool {
        let newest = self.versions.last();
        newest.is_some_and(|newest| newest.revision == self.token.revision && newest.content == *content)
    }
}

impl Bridge {
    /// Between a document and a file; neither need be there, but the file's folder must. Nothing is done yet.
    ///
    /// # Errors
    /// System errors; [`ErrorKind::Invalid`] for a path that is not Unicode, or names no file.
    pub fn new(documents: Documents, name: DocumentName, path: impl AsRef<Path>) -> Result<Self> {
        let file = StateFile::new(documents.tasks().workspace().log().vfs(), path.as_ref())?;
        Ok(Bridge { documents, name, kind: None, file })
    }

    /// Gives the document this kind when it is made of the file.
    #[must_use]
    pub fn kind(self, kind: &str) -> Self {
        Bridge { kind: Some(kind.into()), ..self }
    }

    /// The file, as all processes spell it.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// The document as it was last known to be good, whatever the file holds. `None` = there is none, and nothing malformed
    /// that it could have been made of; what a file holds that was never taken in, [`Bridge::sync`] takes.
    ///
    /// # Errors
    /// [`ErrorKind::BadStateFile`] where there is no document, and a file of which none could be made: that is not *nothing*.
    /// As [`Documents::get`].
    pub fn get(&self) -> Result<Option<DocumentSnapshot>> {
        if let Some(found) = self.documents.get(self.name.as_str())? {
            return Ok(Some(found));
        }
        match self.file.look(self.documents.tasks().workspace().log().vfs())? {
            Seen::Bad { why, .. } => Err(self.bad_file(why)),
            _ => Ok(None),
        }
    }

    /// Takes in what the file's side changed, writes the document, and then the file.
    ///
    /// # Errors
    /// [`ErrorKind::BadStateFile`]: as long as the file is malformed and no good value is known, nothing is written; else as
    /// [`Documents::put`] and [`Bridge::sync`]. Where the latter fails behind the former the document stands, and the next
    /// [`Bridge::sync`] writes the file.
    pub fn put(
        &self,
        value: Value,
        expect: DocumentExpect,
        options: impl Into<CommitOptions>,
    ) -> Result<(Committed, Synced)> {
        let before = self.sync()?;
        let committed = self.documents.put(&self.name, self.kind.as_deref(), value, expect, options)?;
        let mut after = self.sync()?;
        after.imported |= before.imported;
        after.exported |= before.exported;
        after.kept.splice(0..0, before.kept);
        after.findings.splice(0..0, before.findings);
        Ok((committed, after))
    }

    /// Brings both to the same state: takes an edit of the file in, or writes the file anew, or finds nothing to do.
    ///
    /// Where both sides are objects, members that only the file's side has changed since both were last the same are taken;
    /// of one that both have changed the document's stands, because others may have read and rested on it, and the file's
    /// contents are kept in the quarantine. Other values are one such member each. Malformed contents are kept there too,
    /// once, and the file is written anew from the document, once; if the same contents come back they stay. So does an
    /// edit that a validator refuses. A file that is not there is written; one whose document was deleted is left alone.
    ///
    /// # Errors
    /// [`ErrorKind::BadStateFile`] for a malformed file if there is no document; [`ErrorKind::Unstable`] for one that does not
    /// hold still; [`ErrorKind::DocumentRefused`] if a validator refuses the file and there is no document. System errors in
    /// reading or writing it; as [`crate::Tasks::commit`].
    ///
    /// # Durability
    /// What was taken in survives a power cut when this returns; so does the file. A crash in between leaves what the next
    /// call completes.
    ///
    /// # Blocking
    /// As [`crate::Log::commit`]; for a malformed file 200 ms besides, to see that nobody is just writing it.
    ///
    /// # Concurrency
    /// Any number of processes at once: an edit is taken in by one of them. A program that replaces the file between this
    /// one's last look and its own renaming, microseconds later, loses what it wrote, as it does to any other program.
    pub fn sync(&self) -> Result<Synced> {
        let mut synced = Synced::default();
        let vfs = self.documents.tasks().workspace().log().vfs();
        for _ in 0..TRIES {
            let seen = self.file.look(vfs)?;
            if self.step(&seen, &mut synced)? {
                let token = self.now()?.entry.filter(|(entry, _)| entry.live().is_some());
                synced.token = token.map(|(_, token)| token);
                return Ok(synced);
            }
        }
        let what = format!("{} and the document {}", self.file.path().display(), self.name);
        Err(Error::new(ErrorKind::Unstable { what }, "sync", self.file.path()))
    }

    fn now(&self) -> Result<Now> {
        let file = self.file.path().to_str().unwrap_or_default();
        self.documents.read(|state, all| {
            let entry = all.entry(self.name.as_str()).cloned().map(|entry| {
                let token = Token { revision: entry.revision(), at: state.cursor_at(entry.seq()) };
                (entry, token)
            });
            let versions = all.mirror(self.name.as_str(), file).map(|mirror| mirror.versions().to_vec());
            Now { entry, versions: versions.unwrap_or_default() }
        })
    }

    /// Does what there is to do about what was seen; `false` = something changed meanwhile, look again.
    fn step(&self, seen: &Seen, synced: &mut Synced) -> Result<bool> {
        let Now { entry, versions } = self.now()?;
        let is_ours = |hash: &Hash| versions.iter().any(|version| version.content == *hash);
        let (value, token) = match &entry {
            Some((DocumentEntry::Live(document), token)) => {
                (self.documents.tasks().value(&document.value)?, *token)
            }
            Some((DocumentEntry::Dead { seq, .. }, _)) => {
                return self.deleted(seen.hash().is_none_or(|hash| is_ours(&hash)), *seq, synced);
            }
            None => return self.first(seen, synced),
        };
        let work = Work { value, token, versions: &versions };
        match seen {
            Seen::Absent => self.export(&work, seen, None, synced),
            Seen::Bad { bytes, why, .. } => {
                let fresh = self.set_aside(bytes, "state-file-malformed", why.clone(), synced)?;
                let behind = !work.is_current(&hash(work.value.to_json().as_bytes()));
                if fresh || behind { self.export(&work, seen, None, synced) } else { Ok(true) }
            }
            Seen::Good { hash, value: theirs, .. } if *theirs == work.value => {
                let settled = work.is_current(hash) && versions.len() == 1;
                Ok(settled || self.commit(vec![self.mirror(&work.value, *hash, true)], &work)?)
            }
            Seen::Good { hash, .. } if is_ours(hash) => self.export(&work, seen, None, synced),
            Seen::Good { bytes, value: theirs, .. } => {
                let merged = merge(&work.value, theirs, &versions);
                if !merged.kept.is_empty() {
                    let why = format!("both sides have changed {}", merged.kept.join(", "));
                    self.set_aside(bytes, "state-file-both-changed", why, synced)?;
                }
                match merged.op {
                    Some(_) => self.take_in(seen, merged, &work, synced),
                    None => {
                        synced.kept.extend(merged.kept);
                        self.export(&work, seen, Some(theirs), synced)
                    }
                }
            }
        }
    }

    /// Writes the document to the file in place of what was seen there; `theirs` is what the file says that nothing, or no
    /// more, is to be taken of.
    fn export(
        &self,
        work: &Work<'_>,
        seen: &Seen,
        theirs: Option<&Value>,
        synced: &mut Synced,
    ) -> Result<bool> {
        let text = work.value.to_json();
        let content = hash(text.as_bytes());
        let told = theirs.zip(seen.hash()).map(|(theirs, hash)| self.mirror(theirs, hash, true));
        // After a crash it is in the log already.
        if (told.is_some() || !work.is_current(&content))
            && !self
                .commit(told.into_iter().chain([self.mirror(&work.value, content, false)]).collect(), work)?
        {
            return Ok(false);
        }
        self.write(work, seen, &text, synced)
    }

    /// Takes an edit of the file in, and writes the file where the document is not just that.
    fn take_in(&self, seen: &Seen, merged: Merged, work: &Work<'_>, synced: &mut Synced) -> Result<bool> {
        let Seen::Good { hash: theirs, bytes, value: whole } = seen else { return Ok(false) };
        let text = merged.value.to_json();
        let mut ops = vec![self.put_op(whole.clone(), None), self.mirror(whole, *theirs, true)];
        let is_theirs = !matches!(merged.op, Some(Edit::Members(_)));
        if let Some(Edit::Members(patch)) = merged.op
            && let Some(first) = ops.first_mut()
        {
            *first = Op::PatchDocument { name: self.name.clone(), patch };
            ops.push(self.mirror(&merged.value, hash(text.as_bytes()), false));
        }
        match self.commit(ops, work) {
            Ok(false) => Ok(false),
            Ok(true) => {
                synced.imported = true;
                synced.kept.extend(merged.kept);
                if is_theirs {
                    return Ok(true);
                }
                let next =
                    |(_, token): &(DocumentEntry, Token)| token.revision.0 == work.token.revision.0 + 1;
                let Some((_, token)) = self.now()?.entry.filter(next) else { return Ok(false) };
                let work = Work { value: merged.value, token, versions: work.versions };
                self.write(&work, seen, &text, synced)
            }
            Err(e) if matches!(e.kind(), ErrorKind::DocumentRefused { .. }) => {
                let fresh = self.set_aside(bytes, "state-file-refused", e.kind().to_string(), synced)?;
                if fresh { self.export(work, seen, None, synced) } else { Ok(true) }
            }
            Err(e) => Err(e),
        }
    }

    /// What to do where there never was a document.
    fn first(&self, seen: &Seen, synced: &mut Synced) -> Result<bool> {
        match seen {
            Seen::Absent => Ok(true),
            Seen::Bad { bytes, why, .. } => {
                self.set_aside(bytes, "state-file-malformed", why.clone(), synced)?;
                Err(self.bad_file(why.clone()))
            }
            Seen::Good { hash, value, .. } => {
                let ops =
                    vec![self.put_op(value.clone(), self.kind.clone()), self.mirror(value, *hash, true)];
                let options = CommitOptions::from(Durability::Durable)
                    .expect_document(&self.name, DocumentExpect::Absent);
                synced.imported = settled(self.documents.tasks().commit(ops, options))?;
                Ok(synced.imported)
            }
        }
    }

    fn deleted(&self, is_ours: bool, seq: Seq, synced: &mut Synced) -> Result<bool> {
        if !is_ours {
            let message = format!(
                "the document {} was deleted by event {seq}; what the file says was not taken",
                self.name
            );
            let remedy =
                "put the document, expecting that it is absent, to bring it back; or remove the file";
            synced.findings.push(self.finding("state-file-document-deleted", message, remedy));
        }
        Ok(true)
    }

    /// Refuses to write files through a handle that is for reading.
    fn check_writable(&self) -> Result<()> {
        if self.documents.tasks().workspace().log().session().is_some() {
            return Ok(());
        }
        let reason = "the store was opened for reading".into();
        Err(Error::new(ErrorKind::ReadOnly { reason }, "write", self.file.path()))
    }

    fn bad_file(&self, why: String) -> Error {
        Error::new(ErrorKind::BadStateFile { why }, "read", self.file.path())
    }

    fn put_op(&self, value: Value, kind: Option<Arc<str>>) -> Op {
        Op::PutDocument { name: self.name.clone(), kind, value, again: false }
    }

    fn mirror(&self, value: &Value, content: Hash, settled: bool) -> Op {
        let members = object(value).map(|item| {
            item.fields().iter().map(|(field, value)| (field.name().into(), value_hash(value))).collect()
        });
        let mirrored = Mirrored {
            file: self.file.path().to_str().unwrap_or_default().into(),
            content,
            settled,
            whole: value_hash(value),
            members: members.unwrap_or_default(),
            ..Mirrored::default()
        };
        Op::MirrorDocument { name: self.name.clone(), mirrored }
    }

    /// Commits on the document as it was seen; `false` = it has changed since.
    fn commit(&self, ops: Vec<Op>, work: &Work<'_>) -> Result<bool> {
        self.commit_by(Durability::Durable, ops, work)
    }

    fn commit_by(&self, durability: Durability, ops: Vec<Op>, work: &Work<'_>) -> Result<bool> {
        let expect = DocumentExpect::At(work.token);
        let options = CommitOptions::from(durability).expect_document(&self.name, expect);
        settled(self.documents.tasks().commit(ops, options))
    }

    /// Writes the file. What it may have held before counts no more once it is written; where nobody gets to say so, the
    /// next call does.
    fn write(&self, work: &Work<'_>, seen: &Seen, text: &str, synced: &mut Synced) -> Result<bool> {
        self.check_writable()?;
        let vfs = self.documents.tasks().workspace().log().vfs();
        let others: Vec<Hash> = work.versions.iter().map(|version| version.content).collect();
        if !self.file.replace(vfs, seen.hash(), text.as_bytes(), &others)? {
            return Ok(false);
        }
        synced.exported = true;
        let told = self.mirror(&work.value, hash(text.as_bytes()), true);
        self.commit_by(Durability::Buffered, vec![told], work).map(|_| true)
    }

    fn set_aside(&self, bytes: &[u8], code: &'static str, why: String, synced: &mut Synced) -> Result<bool> {
        let log = self.documents.tasks().workspace().log();
        // Whoever only looks leaves no copy.
        let (message, fresh) = if self.check_writable().is_ok() {
            let (copy, fresh) = self.file.set_aside(log.vfs(), &log.paths().quarantine(), bytes, &why)?;
            (format!("{why}; it was not taken, a copy of the file is {}", copy.display()), fresh)
        } else {
            (format!("{why}; it was not taken"), false)
        };
        let found = self.finding(code, message, "look at the copy for what is to be taken over by hand");
        if !synced.findings.contains(&found) {
            synced.findings.push(found);
        }
        Ok(fresh)
    }

    fn finding(&self, code: &'static str, message: String, remedy: &'static str) -> Finding {
        let file = self.file.path().to_path_buf();
        Finding { severity: Severity::Warning, code, file, offset: None, seq: None, message, remedy }
    }
}

/// `false` for a commit that came too late.
fn settled(committed: Result<Committed>) -> Result<bool> {
    match committed {
        Ok(_) => Ok(true),
        Err(e) => match e.kind() {
            ErrorKind::Conflict(_) | ErrorKind::DocumentDeleted { .. } | ErrorKind::NoDocument { .. } => {
                Ok(false)
            }
            _ => Err(e),
        },
    }
}

/// An edit of the file, as the document takes it.
#[derive(Debug, PartialEq)]
enum Edit {
    /// The file's contents as they are.
    Whole,
    Members(Patch),
}

#[derive(Debug)]
struct Merged {
    /// `None` = nothing of it is to be taken.
    op: Option<Edit>,
    /// The document behind it.
    value: Value,
    /// Members that both have changed; of values that are no objects, the whole.
    kept: Vec<String>,
}

fn object(value: &Value) -> Option<Item> {
    match value {
        Value::Raw(text) if text.starts_with('{') => Item::parse(text).ok(),
        _ => None,
    }
}

/// Three-way: what both had last, what the document is, what the file says. Of several versions that the file may have held
/// before, the one counts that it most resembles, and the newest of several that it resembles as much.
fn merge(mine: &Value, theirs: &Value, versions: &[Mirrored]) -> Merged {
    let (Some(here), Some(there)) = (object(mine), object(theirs)) else {
        let (is, says) = (value_hash(mine), value_hash(theirs));
        let nothing = |kept| Merged { op: None, value: mine.clone(), kept };
        return if versions.iter().any(|version| version.whole == says) {
            // What it had before, in other words.
            nothing(Vec::new())
        } else if versions.iter().any(|version| version.whole == is) {
            Merged { op: Some(Edit::Whole), value: theirs.clone(), kept: Vec::new() }
        } else {
            nothing(vec!["the whole value".into()])
        };
    };
    let (now_here, now_there) = (here.finder(usize::MAX), there.finder(usize::MAX));
    let alike = |version: &&Mirrored| {
        let same = |(name, hash): &&(Arc<str>, u64)| {
            now_there.get(&Field::of(name)).is_some_and(|value| value_hash(value) == *hash)
        };
        version.members.iter().filter(same).count()
    };
    let base = versions.iter().max_by_key(alike);
    let members = base.map(|base| base.members.as_slice()).unwrap_or_default();
    let had: HashMap<&str, u64> = members.iter().map(|(name, hash)| (&**name, *hash)).collect();
    let was = |field: &Field| had.get(field.name()).copied().unwrap_or(0);
    let (mut patch, mut kept) = (Patch::default(), Vec::new());
    for (field, value) in there.fields() {
        let says = value_hash(value);
        let is = now_here.get(field).map_or(0, value_hash);
        if says == was(field) || says == is {
            continue;
        }
        if is == was(field) {
            patch.set.push((field.clone(), value.clone()));
        } else {
            kept.push(field.name().to_owned());
        }
    }
    for (name, was) in members {
        let field = Field::of(name);
        if now_there.get(&field).is_some() {
            continue;
        }
        match now_here.get(&field).map_or(0, value_hash) {
            0 => {}
            is if is == *was => patch.unset.push(field),
            _ => kept.push(field.name().to_owned()),
        }
    }
    let value = patched(mine, &patch).unwrap_or_else(|| mine.clone());
    // Where the document has nothing of its own, the file's very text is taken.
    let same = |item: &Item| {
        item.fields().len() == there.fields().len()
            && item.fields().iter().all(|(field, value)| now_there.get(field) == Some(value))
    };
    if kept.is_empty() && object(&value).is_some_and(|item| same(&item)) {
        return Merged { op: Some(Edit::Whole), value: theirs.clone(), kept };
    }
    let op = (!patch.is_empty()).then_some(Edit::Members(patch));
    Merged { op, value, kept }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Value {
        Value::parse(text).unwrap()
    }

    fn base(text: &str) -> Mirrored {
        let value = value(text);
        let members = object(&value).map(|item| {
            item.fields().iter().map(|(field, value)| (field.name().into(), value_hash(value))).collect()
        });
        Mirrored { whole: value_hash(&value), members: members.unwrap_or_default(), ..Mirrored::default() }
    }

    /// What the document is behind it, and what was kept.
    fn merged(was: Option<&str>, mine: &str, theirs: &str) -> (String, Vec<String>) {
        let merged = merge(&value(mine), &value(theirs), &was.map(base).into_iter().collect::<Vec<_>>());
        (merged.value.to_json(), merged.kept)
    }

    #[test]
    fn members_that_one_side_changed_are_taken_and_of_both_the_documents_stands() {
        for (was, mine, theirs, right, kept) in [
            (r#"{"a":1,"b":1}"#, r#"{"a":1,"b":1}"#, r#"{ "a":2, "b":1}"#, r#"{ "a":2, "b":1}"#, &[][..]),
            (r#"{"a":1,"b":1}"#, r#"{"a":1,"b":2}"#, r#"{"a":2,"b":1}"#, r#"{"a":2,"b":2}"#, &[]),
            (r#"{"a":1,"b":1}"#, r#"{"a":3,"b":2}"#, r#"{"a":2,"b":1}"#, r#"{"a":3,"b":2}"#, &["a"]),
            (r#"{"a":1,"b":1}"#, r#"{"a":1,"b":2}"#, r#"{"b":1}"#, r#"{"b":2}"#, &[]),
            (r#"{"a":1,"b":1}"#, r#"{"a":2,"b":1}"#, r#"{"b":1}"#, r#"{"a":2,"b":1}"#, &["a"]),
            (r#"{"a":1}"#, r#"{"a":1,"c":1}"#, r#"{"a":1,"d":1}"#, r#"{"a":1,"c":1,"d":1}"#, &[]),
            (r#"{"a":1}"#, r#"{}"#, r#"{"a":2}"#, r#"{}"#, &["a"]),
            (r#"{"a":1}"#, r#"{"a":5}"#, r#"{"a":5,"b":1}"#, r#"{"a":5,"b":1}"#, &[]),
            ("1", "1", "2", "2", &[]),
            ("1", "3", "2", "3", &["the whole value"]),
            ("1", "3", "1", "3", &[]),
            (r#"{"a":1}"#, "[]", r#"{"a":2}"#, "[]", &["the whole value"]),
        ] {
            let (found, others) = merged(Some(was), mine, theirs);
            assert_eq!(
                (found.as_str(), others),
                (right, kept.iter().map(|s| (*s).to_owned()).collect()),
                "{was} {mine} {theirs}"
            );
        }
        // A version that was never written is none that the file was edited from.
        let versions = [base(r#"{"a":1}"#), base(r#"{"a":2}"#)];
        let edited = merge(&value(r#"{"a":2}"#), &value(r#"{"a":1,"b":3}"#), &versions);
        assert_eq!((edited.value.to_json().as_str(), edited.kept.len()), (r#"{"a":2,"b":3}"#, 0));
        // Where nothing is known of what both had, nothing of the document is given up.
        assert_eq!(
            merged(None, r#"{"a":1}"#, r#"{"a":2,"b":3}"#),
            (r#"{"a":1,"b":3}"#.into(), vec!["a".into()])
        );
    }
}
