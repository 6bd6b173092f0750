//! Blobs: contents too large for a frame, each under its own hash. `format-spec/format.md`, section *Blobs*.
//!
//! A blob's name appears when its bytes are whole and synced, and never stands for others, so writers need no lock: who
//! comes second finds what it was about to write. A name that can be seen is not durable yet; whoever builds on it
//! syncs it, and the folders on the way to it, first.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::draft::Draft;
use super::engine::Log;
use super::finding::{Finding, Severity};
use super::format::BLOB_MAX;
use super::paths::Paths;
use super::publish::write_new;
use crate::error::{Context as _, Error, ErrorKind, Result};
use crate::vfs::{Existing, FileKind, Open, Vfs, read_full, sync_name};

/// A blob's name: the BLAKE3 of its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlobId(pub [u8; 32]);

impl BlobId {
    /// The name of these bytes.
    pub fn of(content: &[u8]) -> BlobId {
        BlobId(blake3::hash(content).into())
    }

    /// The first byte, which names the sub-folder.
    pub(super) fn first(&self) -> u8 {
        let BlobId([first, ..]) = self;
        *first
    }
}

impl fmt::Display for BlobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&blake3::Hash::from_bytes(self.0).to_hex())
    }
}

impl fmt::Debug for BlobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BlobId({self})")
    }
}

/// The sub-folders whose own names this process has made durable: a bit each.
#[derive(Debug, Default)]
pub(super) struct Folders([AtomicU64; 4]);

impl Folders {
    fn word(&self, first: u8) -> (Option<&AtomicU64>, u64) {
        (self.0.get(usize::from(first >> 6)), 1 << (first & 63))
    }

    fn are_durable(&self, first: u8) -> bool {
        let (word, bit) = self.word(first);
        word.is_some_and(|word| word.load(Ordering::Acquire) & bit != 0)
    }

    fn set_durable(&self, first: u8) {
        let (word, bit) = self.word(first);
        if let Some(word) = word {
            word.fetch_or(bit, Ordering::AcqRel);
        }
    }
}

/// What stands under a blob's name.
enum There {
    Nothing,
    Whole,
    /// A file with other bytes than the name says.
    Other,
}

/// How often a name may come and go while one blob is put.
const TRIES: usize = 16;

impl Log {
    /// Stores contents as blobs, for events to [name](super::NewEvent::blobs); returns their names, in order.
    ///
    /// What is there already is not written again. A blob whose bytes have gone bad is written anew, which is a finding.
    ///
    /// # Errors
    /// [`ErrorKind::TooLarge`] before anything is written; whatever keeps this handle from writing;
    /// [`ErrorKind::NoSpace`] and system errors, after which each blob is there whole or not at all;
    /// [`ErrorKind::Foreign`] where something else stands in a blob's or folder's place.
    ///
    /// # Durability
    /// Every blob is durable when this returns, whoever wrote it.
    ///
    /// # Blocking
    /// For syncs, never for a lock. Not from inside a commit's closure: everybody else would wait for the syncs.
    ///
    /// # Concurrency
    /// Any thread of any process, with the same contents too.
    pub fn put_blobs(&self, contents: &[&[u8]]) -> Result<Vec<BlobId>> {
        self.check_writable()?;
        if let Some(content) = contents.iter().find(|content| content.len() as u64 > BLOB_MAX) {
            let (what, len) = ("a blob's bytes", content.len() as u64);
            let kind = ErrorKind::TooLarge { what, len, max: BLOB_MAX };
            return Err(Error::new(kind, "store", &self.paths.blobs()));
        }
        let put = self.put_all(contents);
        self.tell();
        put
    }

    fn put_all(&self, contents: &[&[u8]]) -> Result<Vec<BlobId>> {
        let vfs = &*self.vfs;
        let mut ids = Vec::with_capacity(contents.len());
        // Each sub-folder, with one of the blobs in it.
        let mut folders: BTreeMap<u8, PathBuf> = BTreeMap::new();
        let mut above_is_durable = true;
        for content in contents {
            let id = BlobId::of(content);
            let path = self.paths.blob(&id);
            above_is_durable &= !self.make_folders(&path)? && self.blob_folders.are_durable(id.first());
            self.put_blob(&path, content)?;
            folders.insert(id.first(), path);
            ids.push(id);
        }
        for path in folders.values() {
            sync_name(vfs, path).context("sync", path)?;
        }
        if !above_is_durable {
            for dir in [&*self.paths.blobs(), self.paths.dir()] {
                vfs.sync_dir(dir).context("sync", dir)?;
            }
            folders.keys().for_each(|first| self.blob_folders.set_durable(*first));
        }
        Ok(ids)
    }

    /// Makes the folders on the way to a blob; returns whether one was missing.
    fn make_folders(&self, path: &Path) -> Result<bool> {
        let above = self.paths.blobs();
        let mut made = false;
        for dir in [&*above, path.parent().unwrap_or(&above)] {
            match self.vfs.create_dir(dir) {
                Ok(()) => made = true,
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                    let found = self.vfs.stat(dir).context("look at", dir)?.kind;
                    // Through a link what belongs to this workspace would land in somebody else's folder.
                    if found != FileKind::Dir {
                        let why = format!("{found:?} where a folder should be");
                        let kind = ErrorKind::Foreign { what: "folder of blobs", why };
                        return Err(Error::new(kind, "look at", dir));
                    }
                }
                Err(e) => return Err(Error::io(e, "create", dir)),
            }
        }
        Ok(made)
    }

    /// Gives a blob its name, if it does not have it; the name is not durable yet.
    fn put_blob(&self, path: &Path, content: &[u8]) -> Result<()> {
        let vfs = &*self.vfs;
        for _ in 0..TRIES {
            let existing = match look_for(vfs, path, content).map_err(|e| Error::io(e, "look at", path))? {
                There::Whole => return Ok(()),
                There::Nothing => Existing::Keep,
                There::Other => Existing::Replace,
            };
            let mut random = [0; 8];
            vfs.random(&mut random).context("draw a name beside", path)?;
            // Named after who makes it, so that others know when nobody will finish it.
            let session = self.session.as_ref().map_or(0, |session| session.id());
            let name = format!(".new-{session:016x}-{:016x}", u64::from_le_bytes(random));
            let temporary = path.with_file_name(name);
            write_new(vfs, &temporary, content)?;
            match vfs.rename(&temporary, path, existing) {
                Ok(()) => {
                    if existing == Existing::Replace {
                        self.note(mended(path));
                    }
                    return Ok(());
                }
                Err(e) => {
                    let _ = vfs.unlink(&temporary);
                    // Somebody else was quicker: what they have put there is looked at like anything that is there.
                    if existing == Existing::Replace || e.kind() != io::ErrorKind::AlreadyExists {
                        return Err(Error::io(e, "publish", path));
                    }
                }
            }
        }
        Err(Error::new(ErrorKind::NotYet, "publish", path))
    }

    /// The contents of a blob, checked against its name. Makes no change and takes no lock.
    ///
    /// # Errors
    /// [`ErrorKind::BlobMissing`]; [`ErrorKind::Damaged`] if the bytes are not those that the name says;
    /// [`ErrorKind::Foreign`] if no file stands under the name; system errors.
    pub fn blob(&self, id: &BlobId) -> Result<Vec<u8>> {
        self.check_fork()?;
        read(&*self.vfs, &self.paths, id)
    }

    /// Refuses a draft that names a blob which is not there. LOCK is held, under which alone blobs are deleted.
    pub(super) fn check_blobs(&self, draft: &Draft) -> Result<()> {
        draft.blobs().try_for_each(|id| {
            let path = self.paths.blob(&id);
            match self.vfs.stat(&path) {
                Ok(stat) if stat.kind == FileKind::File && stat.links > 0 => Ok(()),
                Err(e) if !is_absent(&e) => Err(Error::io(e, "look at", &path)),
                _ => Err(Error::new(ErrorKind::BlobMissing { blob: id }, "commit", &path)),
            }
        })
    }
}

/// Reads a blob: at most what the file has and a blob may have, checked against the hash that names it.
///
/// # Errors
/// As [`Log::blob`].
pub(crate) fn read(vfs: &dyn Vfs, paths: &Paths, id: &BlobId) -> Result<Vec<u8>> {
    let path = paths.blob(id);
    let (file, len) = match vfs.open(&path, Open::Read).and_then(|file| Ok((file.stat()?.len, file))) {
        Ok((len, file)) => (file, len),
        Err(e) if is_absent(&e) => {
            // A workspace that is gone has not lost a blob.
            vfs.stat(paths.dir()).context("look at", paths.dir())?;
            return Err(Error::new(ErrorKind::BlobMissing { blob: *id }, "read", &path));
        }
        Err(e) => return Err(Error::io(e, "open", &path)),
    };
    if len > BLOB_MAX {
        return Err(damaged(&path, format!("it has {len} bytes, and no blob has over {BLOB_MAX}")));
    }
    let mut bytes = vec![0; usize::try_from(len).unwrap_or(0)];
    let n = read_full(&*file, &mut bytes, 0).context("read", &path)?;
    bytes.truncate(n);
    let found = BlobId::of(&bytes);
    if found != *id {
        return Err(damaged(&path, format!("the hash of its {n} bytes is {found}, not its name")));
    }
    Ok(bytes)
}

/// What keeps a blob from being read, as a finding; `seq` names the first event that names it.
pub(crate) fn finding(error: &Error, seq: u64) -> Finding {
    let kind = error.kind();
    let (severity, code, remedy) = match kind {
        ErrorKind::Damaged(finding) => return Finding { seq: Some(seq), ..(**finding).clone() },
        ErrorKind::BlobMissing { .. } => {
            (Severity::Damage, "blob-missing", "bring the file back from a copy; the log itself is whole")
        }
        ErrorKind::Foreign { .. } => {
            (Severity::Damage, "blob-foreign", "put the file itself there; nothing else is followed or read")
        }
        // It may be there, whole.
        kind => (Severity::Error, "blob-unreadable", kind.remedy()),
    };
    let (file, message) = (error.path().into(), error.to_string());
    Finding { severity, code, file, offset: None, seq: Some(seq), message, remedy }
}

/// Compares what is there with what is to be there; syncs it if it is whole, since it may have been copied there.
fn look_for(vfs: &dyn Vfs, path: &Path, content: &[u8]) -> io::Result<There> {
    let file = match vfs.open(path, Open::Write) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(There::Nothing),
        Err(e) => return Err(e),
    };
    if file.stat()?.len != content.len() as u64 {
        return Ok(There::Other);
    }
    let mut buf = [0; 8192];
    let mut at = 0;
    for chunk in content.chunks(buf.len()) {
        let n = read_full(&*file, buf.get_mut(..chunk.len()).unwrap_or_default(), at)?;
        if buf.get(..n) != Some(chunk) {
            return Ok(There::Other);
        }
        at += n as u64;
    }
    file.sync_data()?;
    Ok(There::Whole)
}

/// Whether the name leads to nothing: it, or a folder on the way, is not there.
fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn damaged(path: &Path, message: String) -> Error {
    let finding = Finding {
        severity: Severity::Damage,
        code: "blob-damaged",
        file: path.into(),
        offset: None,
        seq: None,
        message,
        remedy: "bring the file back from a copy, or store the same contents again; the log itself is untouched",
    };
    Error::new(ErrorKind::Damaged(Box::new(finding)), "read", path)
}

fn mended(path: &Path) -> Finding {
    Finding {
        severity: Severity::Warning,
        code: "blob-mended",
        file: path.into(),
        offset: None,
        seq: None,
        message: "its bytes were not those that its name says; it was written anew".into(),
        remedy: "nothing to do; if it comes again, check the disk",
    }
}
