//! Documents: named JSON values with revisions, for state that several programs share.
//!
//! [`Documents`] are one workspace's, from [`Tasks::documents`]; a store has a [global home](TaskStore::global) besides, and
//! [`TaskStore::resolve`] looks in both. They stand in the same log as the tasks: one commit may change both, a change is in
//! the history, and a reader sees all of it or nothing. [`Bridge`] keeps a document and a JSON file that others write in
//! step. What may follow what is in [`crate::task`]; this room has the calls.

mod bridge;
mod file;
mod merge;

use std::sync::Arc;

pub use bridge::{Bridge, Finding, Synced};

use crate::error::{Error, ErrorKind, Result};
use crate::event::{DocumentName, Patch, Value};
use crate::log::State;
use crate::store::Place;
use crate::task::{CommitOptions, Committed, DocumentExpect, Op, TaskStore, Tasks, Token};
use crate::view::{self, Document, DocumentChange, DocumentEntry, DocumentQuery};

/// The key of a store's global home.
///
/// A workspace of its own, and not that of tasks without a folder: what a window without a folder keeps for itself is not
/// meant for all, and who writes global documents waits for no one's tasks.
pub const GLOBAL_KEY: &str = "foldlog:global";

/// The documents of one workspace. Cheap to clone.
///
/// # Concurrency
/// As of [`Tasks`]: any number of threads and processes at once; reads never wait for writers of other processes.
#[derive(Clone, Debug)]
pub struct Documents {
    tasks: Tasks,
}

/// A document as it was read.
#[derive(Clone, Debug)]
pub struct DocumentSnapshot {
    /// The document; its value is loaded, but in lists and changes, where a value over 64 KiB is the name of a blob.
    pub document: Arc<Document>,
    /// Its revision, to be stored or expected.
    pub token: Token,
}

/// One page of a list of documents.
#[derive(Clone, Debug)]
pub struct DocumentListing {
    /// The documents, in the order of their names; large values are not loaded.
    pub documents: Vec<DocumentSnapshot>,
    /// What the next page begins behind; `None` = this was the last.
    pub next: Option<DocumentName>,
}

/// Where a document was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whence {
    /// In the workspace.
    Workspace,
    /// In the store's global home, because the workspace has none of this name.
    Global,
}

impl Tasks {
    /// The documents of this workspace.
    pub fn documents(&self) -> Documents {
        Documents { tasks: self.clone() }
    }
}

fn snapshot(state: &State, document: &Arc<Document>) -> DocumentSnapshot {
    let at = state.cursor_at(document.seq);
    DocumentSnapshot { document: Arc::clone(document), token: Token { revision: document.revision, at } }
}

impl Documents {
    /// The workspace's tasks, whose commits may change documents too.
    pub fn tasks(&self) -> &Tasks {
        &self.tasks
    }

    /// Reads on to what others have committed, and looks at the fold.
    ///
    /// # Errors
    /// As [`Tasks::read`].
    pub fn read<T>(&self, look: impl FnOnce(&State, &view::Documents) -> T) -> Result<T> {
        self.tasks.read(|state, index| look(state, index.documents()))
    }

    /// A document, its value loaded; `None` if there is none of this name, or it was deleted.
    ///
    /// # Errors
    /// As [`Tasks::get`].
    pub fn get(&self, name: &str) -> Result<Option<DocumentSnapshot>> {
        let found = self.read(|state, all| all.get(name).map(|document| snapshot(state, document)))?;
        found.map(|found| self.load(found)).transpose()
    }

    /// The same, or why not.
    ///
    /// # Errors
    /// [`ErrorKind::NoDocument`], [`ErrorKind::DocumentDeleted`], and as [`Documents::get`].
    pub fn require(&self, name: &DocumentName) -> Result<DocumentSnapshot> {
        let found = self.read(|state, all| match all.entry(name.as_str()) {
            Some(DocumentEntry::Live(document)) => Ok(snapshot(state, document)),
            Some(DocumentEntry::Dead { seq, .. }) => Err(Some(*seq)),
            None => Err(None),
        })?;
        found.map_or_else(|deleted| Err(self.missing(name, deleted)), |found| self.load(found))
    }

    /// Why there is no document of a name: it was deleted by an event, or there never was one.
    fn missing(&self, name: &DocumentName, deleted: Option<crate::Seq>) -> Error {
        let name = name.to_string();
        let kind = match deleted {
            Some(seq) => ErrorKind::DocumentDeleted { name, seq },
            None => ErrorKind::NoDocument { name },
        };
        Error::new(kind, "read", self.tasks.workspace().log().paths().dir())
    }

    /// Puts a value that is kept in a blob into its document.
    ///
    /// # Errors
    /// As [`Tasks::value`].
    pub fn load(&self, found: DocumentSnapshot) -> Result<DocumentSnapshot> {
        if !matches!(found.document.value, Value::Blob { .. }) {
            return Ok(found);
        }
        let mut document = Document::clone(&found.document);
        document.value = self.tasks.value(&document.value)?;
        Ok(DocumentSnapshot { document: Arc::new(document), ..found })
    }

    /// The documents a query wants, in the order of their names, one page of them.
    ///
    /// # Errors
    /// As [`Tasks::read`].
    pub fn list(&self, query: &DocumentQuery) -> Result<DocumentListing> {
        self.read(|state, all| {
            let (page, more) = all.list(query);
            let next = page.last().filter(|_| more).map(|last| last.name.clone());
            let documents = page.iter().map(|document| snapshot(state, document)).collect();
            DocumentListing { documents, next }
        })
    }

    /// All changes of a document that are still in the log, oldest first, each with the document as it left it. Reads the log
    /// from its beginning.
    ///
    /// # Errors
    /// [`ErrorKind::NoDocument`] if there never was one; as [`Log::replay`](crate::Log::replay).
    pub fn history(&self, name: &DocumentName) -> Result<Vec<DocumentChange>> {
        let start = || (view::Documents::default(), Vec::new());
        let (_, changes) = self.tasks.workspace().log().replay(start, |(all, changes), _, commit| {
            DocumentChange::take_up(all, name.as_str(), commit, changes);
        })?;
        if changes.is_empty() && self.read(|_, all| all.entry(name.as_str()).is_none())? {
            return Err(self.missing(name, None));
        }
        Ok(changes)
    }

    /// Writes a document, whole: a new one, or in place of what stands there. Of kind `kind` from now on, or, without one, of
    /// what kind it was. The same value again is a success that writes nothing.
    ///
    /// With [`DocumentExpect::Absent`] one that was deleted begins anew; any other way that is refused.
    ///
    /// # Errors
    /// [`ErrorKind::Conflict`] with what stands there, [`ErrorKind::DocumentDeleted`], [`ErrorKind::DocumentRefused`];
    /// as [`Tasks::commit`].
    pub fn put(
        &self,
        name: &DocumentName,
        kind: Option<&str>,
        value: Value,
        expect: DocumentExpect,
        options: impl Into<CommitOptions>,
    ) -> Result<Committed> {
        let again = expect == DocumentExpect::Absent;
        let op = Op::PutDocument { name: name.clone(), kind: kind.map(Into::into), value, again };
        self.tasks.commit(vec![op], options.into().expect_document(name, expect))
    }

    /// Changes members of a document that is an object; all others stay as they are spelled.
    ///
    /// # Errors
    /// [`ErrorKind::NoDocument`], [`ErrorKind::Invalid`] for a document that is no object; as [`Documents::put`]. Of a
    /// document over 64 KiB that others change all the time, [`ErrorKind::Conflict`] although nothing was expected.
    pub fn patch(
        &self,
        name: &DocumentName,
        patch: Patch,
        expect: DocumentExpect,
        options: impl Into<CommitOptions>,
    ) -> Result<Committed> {
        let op = Op::PatchDocument { name: name.clone(), patch };
        self.tasks.commit(vec![op], options.into().expect_document(name, expect))
    }

    /// Deletes a document. Its name keeps its revisions: a late write does not bring it back.
    ///
    /// # Errors
    /// [`ErrorKind::NoDocument`]; as [`Documents::put`].
    pub fn delete(
        &self,
        name: &DocumentName,
        expect: DocumentExpect,
        options: impl Into<CommitOptions>,
    ) -> Result<Committed> {
        let op = Op::DeleteDocument { name: name.clone() };
        self.tasks.commit(vec![op], options.into().expect_document(name, expect))
    }
}

impl TaskStore {
    /// The store's global home, for documents that belong to no workspace; made if it is absent and the store may create.
    ///
    /// # Errors
    /// As [`TaskStore::home`].
    pub fn global(&self) -> Result<Tasks> {
        self.home(&Place::Key(GLOBAL_KEY.into()))
    }

    /// The same if it is there; never made.
    ///
    /// # Errors
    /// As [`TaskStore::named`].
    pub fn global_if_there(&self) -> Result<Option<Tasks>> {
        let name = self.store().find_workspace(&Place::Key(GLOBAL_KEY.into()))?;
        name.map(|name| self.named(&name)).transpose()
    }

    /// A document of the workspace, else the global one of that name, its value loaded, and which it is. `None` if neither
    /// is there. One that was deleted in the workspace leaves the global one in force.
    ///
    /// The two are looked at one after the other: they are two logs, and no commit spans both.
    ///
    /// # Errors
    /// As [`Documents::get`].
    pub fn resolve(&self, name: &str, workspace: &Tasks) -> Result<Option<(DocumentSnapshot, Whence)>> {
        if let Some(found) = workspace.documents().get(name)? {
            return Ok(Some((found, Whence::Workspace)));
        }
        let Some(global) = self.global_if_there()? else { return Ok(None) };
        Ok(global.documents().get(name)?.map(|found| (found, Whence::Global)))
    }
}
