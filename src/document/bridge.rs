//! One JSON state file that other programs still write, and one document: each takes up what the other side changed.
//!
//! # What the log knows of a file
//!
//! | | what | ends |
//! | --- | --- | --- |
//! | *seen* | the version that the file was last known to hold, by a look or by our own writing | with the next that is known |
//! | *meant* | contents that may have reached it since: they were to be written, and nobody could say that they were not | when the file is known to hold something, or they are known not to have reached it |
//! | *aside* | contents that were set aside, and whether the file has been written anew since | with the next good look |
//!
//! What is seen or meant is ours, whoever looks. Anything else is somebody's edit, or nothing that could be taken. An edit is
//! judged member by member against *all* versions that it may have been made from: taken if it is one against each of them
//! and the document has not changed since any of them; not an edit if it is none against each; else both sides have changed
//! it, the document's stands, and the file is set aside. *Set aside* is one decision for what is malformed, refused or in
//! conflict, made once for each contents until the file is seen to be good again: a copy is kept, and the file is written
//! anew; what comes back although it was written anew stays, until the document changes.
//!
//! # Order
//!
//! One `sync` is: the lock of the path (`paths/<xx>`, for all processes of the store; `busy` after the lock's time-out); then
//! the log; then the file, so that whatever was committed between the two has another revision and fails the commit; then:
//!
//! 1. what was seen is synced, before anything is concluded from it: a power cut brings no older file back;
//! 2. a copy of what is set aside, durable;
//! 3. the new contents beside the file, under a random name, synced;
//! 4. one Durable commit on the document as it was read: what is taken, what was seen, what is set aside, what is meant;
//! 5. a last look, the renaming, its sync;
//! 6. a Buffered note that it is written, of the version that was, whatever the document is by now; or that it never came
//!    there.
//!
//! A crash before 4 leaves the log as it was, and perhaps a copy and a file beside, which the next that writes removes. One
//! between 4 and 5 leaves the file as it was seen, one behind 5 the new file; the next call cannot tell whether a file that
//! holds what was seen before is the former or the latter and undone by somebody since, so it keeps a copy before it
//! completes the writing. Only who holds the lock of the path writes the file, removes what is left beside it, or notes
//! anything of it.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use super::file::{Hash, Prepared, Published, Seen, StateFile, Target, hash};
use super::merge::{Edit, merge, object};
use super::{DocumentSnapshot, Documents};
use crate::error::{Error, ErrorKind, Result};
use crate::event::{DocumentName, MIRRORED_MEMBERS_LEN_MAX, MirrorNote, Mirrored, Value, value_hash};
use crate::log::finding::Severity;
use crate::log::{Durability, Revision, Seq};
use crate::task::{CommitOptions, Committed, DocumentExpect, Op, Token, VALUE_INLINE_MAX};
use crate::vfs::Vfs;
use crate::view::{DocumentEntry, Mirror};

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
    /// Members that both sides had changed, and that are as the document has them, each once.
    pub kept: Vec<String>,
    /// What was found wrong, each with what was done about it.
    pub findings: Vec<Finding>,
}

impl Synced {
    fn keep(&mut self, members: Vec<String>) {
        let known: HashSet<String> = self.kept.iter().cloned().collect();
        self.kept.extend(members.into_iter().filter(|member| !known.contains(member)));
    }

    fn tell(&mut self, finding: Finding) {
        if !self.findings.contains(&finding) {
            self.findings.push(finding);
        }
    }
}

/// What a step has of the document.
struct Now {
    entry: Option<(DocumentEntry, Token)>,
    mirror: Mirror,
}

/// What a step works on.
struct Work<'a> {
    target: &'a Target,
    /// The document, whole, and its place.
    value: Value,
    token: Token,
    mirror: &'a Mirror,
}

/// How a step ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Done,
    /// Something changed meanwhile.
    Again,
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

    /// Gives the document this kind when it is made of the file, and whenever it is [`put`](Bridge::put).
    #[must_use]
    pub fn kind(self, kind: &str) -> Self {
        Bridge { kind: Some(kind.into()), ..self }
    }

    /// The file that the path led to when the bridge was made, as all processes spell it.
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
        let target = self.file.resolve(self.vfs())?;
        match target.look(self.vfs())? {
            Seen::Bad { why, .. } => Err(bad_file(&target, why)),
            _ => Ok(None),
        }
    }

    /// Takes in what the file's side changed, writes the document, and then the file.
    ///
    /// # Errors
    /// [`ErrorKind::BadStateFile`]: as long as the file is malformed and no good value is known, nothing is written;
    /// [`ErrorKind::Invalid`] for a file that is read-only, or has several names: nothing is written either; else as
    /// [`Documents::put`] and [`Bridge::sync`]. Where the latter fails behind the former the document stands, and the next
    /// [`Bridge::sync`] writes the file.
    pub fn put(
        &self,
        value: Value,
        expect: DocumentExpect,
        options: impl Into<CommitOptions>,
    ) -> Result<(Committed, Synced)> {
        let before = self.sync()?;
        self.file.resolve(self.vfs())?.check_replaceable(self.vfs())?;
        let committed = self.documents.put(&self.name, self.kind.as_deref(), value, expect, options)?;
        let after = self.sync()?;
        let mut synced = Synced { token: after.token, ..before };
        synced.imported |= after.imported;
        synced.exported |= after.exported;
        synced.keep(after.kept);
        after.findings.into_iter().for_each(|finding| synced.tell(finding));
        Ok((committed, synced))
    }

    /// Brings both to the same state: takes an edit of the file in, or writes the file anew, or finds nothing to do.
    ///
    /// Where both sides are objects, members that only the file's side has changed since both were last the same are taken;
    /// of one that both have changed the document's stands, because others may have read and rested on it, and the file's
    /// contents are kept in the quarantine. Other values, and objects of so many members that the log does not list them, are
    /// one such member each. Malformed contents are kept there too, and the file is written anew from the document; if the
    /// same contents come back before the file was seen to be good, they stay until the document changes. So does an edit
    /// that a validator refuses. A file that is not there is written; one whose document was deleted is left alone.
    ///
    /// # Errors
    /// [`ErrorKind::BadStateFile`] for a malformed file if there is no document; [`ErrorKind::Unstable`] for one that does not
    /// hold still; [`ErrorKind::DocumentRefused`] if a validator refuses the file and there is no document;
    /// [`ErrorKind::Invalid`] where the file is to be written and is read-only or has several names (hard links);
    /// [`ErrorKind::Busy`] if another process is at this file for the whole time-out. System errors in reading or writing it;
    /// as [`crate::Tasks::commit`].
    ///
    /// # Durability
    /// What was taken in survives a power cut when this returns; so does the file. A crash in between leaves what the next
    /// call completes.
    ///
    /// # Blocking
    /// As [`crate::Log::commit`]; for a malformed file 200 ms besides, to see that nobody is just writing it; for another
    /// process that is at the same file, at most the time-out of locks.
    ///
    /// # Concurrency
    /// Any number of threads and processes at once, one at a time for each file: an edit is taken in by one of them. A program
    /// that replaces the file between this one's last look and its own renaming, microseconds later, loses what it wrote, as
    /// it does to any other program; so does a bridge of another store. A validator must not call this: it may be asked
    /// under the lock of a path.
    pub fn sync(&self) -> Result<Synced> {
        let mut synced = Synced::default();
        let may_write = self.check_writable().is_ok();
        for _ in 0..TRIES {
            let target = self.file.resolve(self.vfs())?;
            // Who only looks leaves no lock file, and can change nothing that somebody else rests on.
            let workspace = self.documents.tasks().workspace();
            let _held = may_write.then(|| workspace.lock_path(target.path())).transpose()?;
            // Who had the lock before may have made the file, and with it its one spelling.
            if self.file.resolve(self.vfs())? != target {
                continue;
            }
            if self.step(&target, &mut synced)? == Step::Done {
                let token = self.now(&target)?.entry.filter(|(entry, _)| entry.live().is_some());
                synced.token = token.map(|(_, token)| token);
                return Ok(synced);
            }
        }
        let what = format!("{} and the document {}", self.file.path().display(), self.name);
        Err(Error::new(ErrorKind::Unstable { what }, "sync", self.file.path()))
    }

    fn vfs(&self) -> &dyn Vfs {
        self.documents.tasks().workspace().log().vfs()
    }

    fn now(&self, target: &Target) -> Result<Now> {
        self.documents.read(|state, all| {
            let entry = all.entry(self.name.as_str()).cloned().map(|entry| {
                let token = Token { revision: entry.revision(), at: state.cursor_at(entry.seq()) };
                (entry, token)
            });
            let mirror = all.mirror(self.name.as_str(), target.spelled()).cloned();
            Now { entry, mirror: mirror.unwrap_or_default() }
        })
    }

    /// Looks, and does what there is to do.
    fn step(&self, target: &Target, synced: &mut Synced) -> Result<Step> {
        // The log first: what is committed from here on fails the commits below.
        let Now { entry, mirror } = self.now(target)?;
        if !mirror.meant().is_empty() && self.check_writable().is_ok() {
            target.sweep(self.vfs());
        }
        let seen = target.look(self.vfs())?;
        let (value, token) = match &entry {
            Some((DocumentEntry::Live(document), token)) => {
                (self.documents.tasks().value(&document.value)?, *token)
            }
            Some((DocumentEntry::Dead { seq, .. }, _)) => {
                let is_ours = seen.hash().is_none_or(|hash| mirror.version(&hash).is_some());
                return Ok(self.deleted(target, is_ours, *seq, synced));
            }
            None => return self.first(target, &seen, synced),
        };
        let work = Work { target, value, token, mirror: &mirror };
        match &seen {
            Seen::Absent => self.export(&work, &seen, Vec::new(), synced),
            Seen::Bad { why, .. } => self.unusable(&work, &seen, "state-file-malformed", why, synced),
            Seen::Good { hash, value: theirs, .. } if *theirs == work.value => {
                let is_known = mirror.seen().is_some_and(|version| version.content == *hash);
                if is_known && mirror.meant().is_empty() && mirror.aside().is_empty() {
                    return Ok(Step::Done);
                }
                self.conclude(&work, &seen, vec![self.note(target, MirrorNote::Seen, theirs, *hash)])
            }
            Seen::Good { hash, .. } if mirror.version(hash).is_some() => {
                self.complete(&work, &seen, hash, synced)
            }
            Seen::Good { hash, .. } if mirror.is_aside(hash).is_some() => {
                let why = "what was set aside is in the file again";
                self.unusable(&work, &seen, "state-file-came-back", why, synced)
            }
            Seen::Good { .. } => self.edited(&work, &seen, synced),
        }
    }

    /// Commits what follows from what was seen, once that survives a power cut.
    fn conclude(&self, work: &Work<'_>, seen: &Seen, ops: Vec<Op>) -> Result<Step> {
        if !self.settle(work.target, seen)? || self.commit(ops, work)?.is_none() {
            return Ok(Step::Again);
        }
        Ok(Step::Done)
    }

    fn settle(&self, target: &Target, seen: &Seen) -> Result<bool> {
        // Who may not commit concludes nothing, and syncs nothing either.
        Ok(self.check_writable().is_err() || target.settle(self.vfs(), seen.hash())?)
    }

    /// Writes the file anew that holds a version of our own.
    fn complete(&self, work: &Work<'_>, seen: &Seen, content: &Hash, synced: &mut Synced) -> Result<Step> {
        let (mirror, Seen::Good { bytes, value, .. }) = (work.mirror, seen) else { return Ok(Step::Again) };
        let Some(newest) = mirror.meant().last() else { return self.export(work, seen, Vec::new(), synced) };
        if newest.content != *content {
            let why = "the file was to be written when a process was interrupted, and holds what it held before: \
                       either that was not done, or somebody has undone it";
            self.set_aside(work.target, bytes, "state-file-unsure", why, Severity::Notice, synced)?;
        }
        if !self.settle(work.target, seen)? {
            return Ok(Step::Again);
        }
        let told = self.note(work.target, MirrorNote::Seen, value, *content);
        self.export(work, seen, vec![told], synced)
    }

    /// Contents of which nothing can be taken: set aside, and written over once.
    fn unusable(
        &self,
        work: &Work<'_>,
        seen: &Seen,
        code: &'static str,
        why: &str,
        synced: &mut Synced,
    ) -> Result<Step> {
        let (Seen::Bad { hash, bytes, .. } | Seen::Good { hash, bytes, .. }) = seen else {
            return Ok(Step::Again);
        };
        self.set_aside(work.target, bytes, code, why, Severity::Warning, synced)?;
        let is_behind = work.mirror.seen().is_none_or(|version| version.whole != value_hash(&work.value));
        match work.mirror.is_aside(hash) {
            Some(true) if !is_behind => Ok(Step::Done),
            // Who may not write it tells, and fails only where the document is not in it.
            None if !is_behind && self.check_writable().is_err() => Ok(Step::Done),
            Some(_) => self.export(work, seen, Vec::new(), synced),
            None => self.export(work, seen, vec![self.aside(work.target, *hash)], synced),
        }
    }

    /// Takes an edit of the file in, as far as that can be, and writes the file where the document is not just that.
    fn edited(&self, work: &Work<'_>, seen: &Seen, synced: &mut Synced) -> Result<Step> {
        let Seen::Good { hash: content, bytes, value: theirs } = seen else { return Ok(Step::Again) };
        let merged = merge(&work.value, theirs, work.mirror);
        let target = work.target;
        let mut notes = vec![self.note(target, MirrorNote::Seen, theirs, *content)];
        if !merged.kept.is_empty() {
            let why = format!("both sides have changed {}", merged.kept.join(", "));
            self.set_aside(target, bytes, "state-file-both-changed", &why, Severity::Warning, synced)?;
            notes.push(self.aside(target, *content));
        }
        if !self.settle(target, seen)? {
            return Ok(Step::Again);
        }
        let Some(edit) = merged.op else {
            synced.keep(merged.kept);
            return self.export(work, seen, notes, synced);
        };
        let is_whole = edit == Edit::Whole;
        let op = match edit {
            Edit::Members(patch) if merged.value.json_len() <= VALUE_INLINE_MAX => {
                Op::PatchDocument { name: self.name.clone(), patch }
            }
            _ => self.put_op(merged.value.clone(), None),
        };
        let text = merged.value.to_json();
        let prepared = (!is_whole).then(|| self.prepare(target, &text));
        let mut ops = vec![op];
        ops.append(&mut notes);
        // What cannot be written is taken in all the same.
        if matches!(prepared, Some(Ok(_))) {
            ops.push(self.note(target, MirrorNote::Meant, &merged.value, hash(text.as_bytes())));
        }
        let committed = self.commit(ops, work);
        if !matches!(committed, Ok(Some(_)))
            && let Some(Ok(prepared)) = &prepared
        {
            Target::discard(self.vfs(), prepared);
        }
        let next = match committed {
            Ok(None) => return Ok(Step::Again),
            Ok(Some(committed)) => committed.document(&self.name),
            Err(e) if matches!(e.kind(), ErrorKind::DocumentRefused { .. }) => {
                synced.keep(merged.kept);
                return self.unusable(work, seen, "state-file-refused", &e.kind().to_string(), synced);
            }
            Err(e) => return Err(e),
        };
        synced.imported = true;
        synced.keep(merged.kept);
        let (Some(prepared), Some(token)) = (prepared, next) else { return Ok(Step::Done) };
        let work = Work { value: merged.value, token, ..*work };
        self.write(&work, seen, &prepared?, &text, true, synced)
    }

    /// Contents beside the file, if it may be replaced.
    fn prepare(&self, target: &Target, text: &str) -> Result<Prepared> {
        self.check_writable()?;
        target.check_replaceable(self.vfs())?;
        target.sweep(self.vfs());
        target.prepare(self.vfs(), text.as_bytes())
    }

    /// Writes the document to the file in place of what was seen there; `notes` are what else is to be known of that.
    fn export(&self, work: &Work<'_>, seen: &Seen, notes: Vec<Op>, synced: &mut Synced) -> Result<Step> {
        let target = work.target;
        let text = work.value.to_json();
        let content = hash(text.as_bytes());
        // A note of what was seen ends what was meant before.
        let is_seen =
            |op: &Op| matches!(op, Op::MirrorDocument { mirrored, .. } if mirrored.note == MirrorNote::Seen);
        let is_known = match notes.iter().any(is_seen) {
            true => seen.hash() == Some(content),
            false => work.mirror.version(&content).is_some(),
        };
        let prepared = self.prepare(target, &text)?;
        let meant = (!is_known).then(|| self.note(target, MirrorNote::Meant, &work.value, content));
        let ops: Vec<Op> = notes.into_iter().chain(meant).collect();
        let committed =
            if ops.is_empty() { Ok(true) } else { self.commit(ops, work).map(|done| done.is_some()) };
        if !matches!(committed, Ok(true)) {
            Target::discard(self.vfs(), &prepared);
            return committed.map(|_| Step::Again);
        }
        self.write(work, seen, &prepared, &text, !is_known, synced)
    }

    /// Puts prepared contents in the file's place, and says in the log how that ended. `is_new`: nobody has tried that before.
    fn write(
        &self,
        work: &Work<'_>,
        seen: &Seen,
        prepared: &Prepared,
        text: &str,
        is_new: bool,
        synced: &mut Synced,
    ) -> Result<Step> {
        let content = hash(text.as_bytes());
        let note = |note| {
            let told = self.note(work.target, note, &work.value, content);
            let Op::MirrorDocument { name, mirrored } = told else { return told };
            Op::MirrorDocument { name, mirrored: Mirrored { revision: work.token.revision, ..mirrored } }
        };
        let (ended, done) = match work.target.publish(self.vfs(), prepared, seen.hash()) {
            Published::Done => {
                synced.exported = true;
                (Some(MirrorNote::Written), Ok(Step::Done))
            }
            Published::Overtaken => (is_new.then_some(MirrorNote::Withdrawn), Ok(Step::Again)),
            Published::Failed(e) => (is_new.then_some(MirrorNote::Withdrawn), Err(e)),
            Published::Unsure(e) => (None, Err(e)),
        };
        // It holds whatever the document is by now. Where nobody gets to say it, the next call judges by one version more.
        let said = ended.map(|ended| {
            let options = CommitOptions::from(Durability::Buffered);
            self.documents.tasks().commit(vec![note(ended)], options)
        });
        match (done, said) {
            (Ok(step), Some(Err(e))) if ended == Some(MirrorNote::Written) => Err(e).map(|()| step),
            (done, _) => done,
        }
    }

    /// What to do where there never was a document.
    fn first(&self, target: &Target, seen: &Seen, synced: &mut Synced) -> Result<Step> {
        match seen {
            Seen::Absent => Ok(Step::Done),
            Seen::Bad { bytes, why, .. } => {
                self.set_aside(target, bytes, "state-file-malformed", why, Severity::Warning, synced)?;
                Err(bad_file(target, why.clone()))
            }
            Seen::Good { hash, value, .. } => {
                if !self.settle(target, seen)? {
                    return Ok(Step::Again);
                }
                let put = self.put_op(value.clone(), self.kind.clone());
                let ops = vec![put, self.note(target, MirrorNote::Seen, value, *hash)];
                let options = CommitOptions::from(Durability::Durable)
                    .expect_document(&self.name, DocumentExpect::Absent);
                synced.imported = in_time(self.documents.tasks().commit(ops, options))?.is_some();
                Ok(if synced.imported { Step::Done } else { Step::Again })
            }
        }
    }

    fn deleted(&self, target: &Target, is_ours: bool, seq: Seq, synced: &mut Synced) -> Step {
        if !is_ours {
            let message = format!(
                "the document {} was deleted by event {seq}; what the file says was not taken",
                self.name
            );
            let remedy =
                "put the document, expecting that it is absent, to bring it back; or remove the file";
            let code = "state-file-document-deleted";
            synced.tell(finding(target, Severity::Warning, code, message, remedy));
        }
        Step::Done
    }

    /// Refuses to write files through a handle that is for reading.
    fn check_writable(&self) -> Result<()> {
        if self.documents.tasks().workspace().log().session().is_some() {
            return Ok(());
        }
        let reason = "the store was opened for reading".into();
        Err(Error::new(ErrorKind::ReadOnly { reason }, "write", self.file.path()))
    }

    fn put_op(&self, value: Value, kind: Option<Arc<str>>) -> Op {
        Op::PutDocument { name: self.name.clone(), kind, value, again: false }
    }

    fn note(&self, target: &Target, note: MirrorNote, value: &Value, content: Hash) -> Op {
        let members = object(value).map(|item| {
            let each = item.fields().iter().map(|(field, value)| (field.name().into(), value_hash(value)));
            each.collect::<Vec<(Arc<str>, u64)>>()
        });
        let file = target.spelled().into();
        // Longer lists would not fit a commit; such an object counts as a whole.
        let members = members.filter(|members| Mirrored::members_len(members) <= MIRRORED_MEMBERS_LEN_MAX);
        let mirrored =
            Mirrored { file, content, note, whole: value_hash(value), members, revision: Revision(0) };
        Op::MirrorDocument { name: self.name.clone(), mirrored }
    }

    fn aside(&self, target: &Target, content: Hash) -> Op {
        let file = target.spelled().into();
        let mirrored = Mirrored { file, content, note: MirrorNote::Aside, ..Mirrored::default() };
        Op::MirrorDocument { name: self.name.clone(), mirrored }
    }

    /// Commits, Durable, on the document as it was seen; `None` = it has changed since.
    fn commit(&self, ops: Vec<Op>, work: &Work<'_>) -> Result<Option<Committed>> {
        let expect = DocumentExpect::At(work.token);
        let options = CommitOptions::from(Durability::Durable).expect_document(&self.name, expect);
        in_time(self.documents.tasks().commit(ops, options))
    }

    /// Keeps a copy, and tells.
    fn set_aside(
        &self,
        target: &Target,
        bytes: &[u8],
        code: &'static str,
        why: &str,
        severity: Severity,
        synced: &mut Synced,
    ) -> Result<()> {
        let log = self.documents.tasks().workspace().log();
        let not_taken = if code == "state-file-unsure" { "" } else { "; it was not taken" };
        // Whoever only looks leaves no copy.
        let message = if self.check_writable().is_ok() {
            let copy = target.set_aside(log.vfs(), &log.paths().quarantine(), bytes, why)?;
            format!("{why}{not_taken}; a copy of the file is {}", copy.display())
        } else {
            format!("{why}{not_taken}")
        };
        let remedy = "look at the copy for what is to be taken over by hand";
        synced.tell(finding(target, severity, code, message, remedy));
        Ok(())
    }
}

fn bad_file(target: &Target, why: String) -> Error {
    Error::new(ErrorKind::BadStateFile { why }, "read", target.path())
}

fn finding(
    target: &Target,
    severity: Severity,
    code: &'static str,
    message: String,
    remedy: &'static str,
) -> Finding {
    Finding { severity, code, file: target.path().into(), offset: None, seq: None, message, remedy }
}

/// `None` for a commit that came too late.
fn in_time(committed: Result<Committed>) -> Result<Option<Committed>> {
    match committed {
        Ok(committed) => Ok(Some(committed)),
        Err(e) => match e.kind() {
            ErrorKind::Conflict(_) | ErrorKind::DocumentDeleted { .. } | ErrorKind::NoDocument { .. } => {
                Ok(None)
            }
            _ => Err(e),
        },
    }
}
