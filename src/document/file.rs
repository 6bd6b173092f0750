//! A JSON state file that other programs write, without a lock that could be asked: looking at it, and replacing it.

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::{Context as _, Error, ErrorKind, Result};
use crate::event::{ITEM_LEN_MAX, Value};
use crate::log::publish::{publish, write_new};
use crate::vfs::{Existing, FileKind, Open, Vfs, read_full};

/// Longest file. A value may have 64 MiB; the rest is for the space around it.
const LEN_MAX: u64 = ITEM_LEN_MAX + (1 << 20);
/// How often a file is looked at before it counts as unstable.
const LOOKS_MAX: u32 = 100;
/// How many looks in a row must agree before a file counts as malformed, or as not there: who writes it may have emptied or
/// removed it first.
const LOOKS_BAD: u32 = 20;
const LOOKS_ABSENT: u32 = 3;
/// Between two of them.
const PAUSE: Duration = Duration::from_millis(10);

/// BLAKE3 of a file's bytes.
pub(super) type Hash = [u8; 32];

pub(super) fn hash(bytes: &[u8]) -> Hash {
    *blake3::hash(bytes).as_bytes()
}

/// What a file held.
#[derive(Debug)]
pub(super) enum Seen {
    Absent,
    /// Nothing that could be taken: empty, cut short, or no JSON.
    Bad {
        hash: Hash,
        bytes: Vec<u8>,
        why: String,
    },
    Good {
        hash: Hash,
        bytes: Vec<u8>,
        value: Value,
    },
}

impl Seen {
    /// The hash of what it held; `None` = it was not there.
    pub(super) fn hash(&self) -> Option<Hash> {
        match self {
            Seen::Absent => None,
            Seen::Bad { hash, .. } | Seen::Good { hash, .. } => Some(*hash),
        }
    }
}

/// A file's bytes at one look.
enum Bytes {
    Absent,
    /// It grew or shrank while it was read.
    Moving,
    Whole(Vec<u8>),
}

fn invalid(path: &Path, why: String) -> Error {
    Error::new(ErrorKind::Invalid { what: "state file", why }, "find", path)
}

/// The path of a file, as a host named it.
#[derive(Clone, Debug)]
pub(super) struct StateFile {
    /// Its folder is resolved; a link in its place is not.
    named: PathBuf,
    /// Where that led when it was named.
    path: PathBuf,
}

impl StateFile {
    /// The file of that path, which need not be there; its folder must.
    ///
    /// # Errors
    /// System errors; [`ErrorKind::Invalid`] for a path that is not Unicode, or names no file.
    pub(super) fn new(vfs: &dyn Vfs, path: &Path) -> Result<Self> {
        let file = path.file_name().ok_or_else(|| invalid(path, "the path names no file".into()))?;
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let named = vfs.canonicalize(parent).context("find", parent)?.join(file);
        let mut found = StateFile { path: named.clone(), named };
        found.path = found.resolve(vfs)?.path;
        Ok(found)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The file that the path leads to now. Of a file that is there that is its one path, however it was spelled: links are
    /// followed, and on a system where names have several spellings it is the one that the folder has.
    ///
    /// # Errors
    /// System errors, a link that leads nowhere among them; [`ErrorKind::Invalid`] for a path that is not Unicode.
    pub(super) fn resolve(&self, vfs: &dyn Vfs) -> Result<Target> {
        let path = match vfs.canonicalize(&self.named) {
            Ok(path) => path,
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                if vfs.stat(&self.named).is_ok_and(|stat| stat.kind == FileKind::Symlink) {
                    return Err(Error::io(e, "follow", &self.named));
                }
                self.named.clone()
            }
            Err(e) => return Err(Error::io(e, "find", &self.named)),
        };
        match path.to_str() {
            Some(spelled) => Ok(Target { spelled: spelled.into(), path }),
            None => Err(invalid(&path, "the path is not Unicode".into())),
        }
    }
}

/// The file itself, by the path that all processes spell alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    path: PathBuf,
    spelled: String,
}

/// Contents beside the file, whole and synced, that are to get its name.
#[derive(Debug)]
#[must_use]
pub(super) struct Prepared(PathBuf);

/// What became of contents that were to be put in a file's place.
#[derive(Debug)]
pub(super) enum Published {
    /// They are there, and stay there in a power cut.
    Done,
    /// They never came there: something else than what was seen stands there by now.
    Overtaken,
    /// They never came there.
    Failed(Error),
    /// They may be there.
    Unsure(Error),
}

impl Target {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn spelled(&self) -> &str {
        &self.spelled
    }

    /// Looks until it holds still.
    ///
    /// # Errors
    /// [`ErrorKind::Unstable`], [`ErrorKind::TooLarge`], system errors: of none of them anything can be concluded.
    pub(super) fn look(&self, vfs: &dyn Vfs) -> Result<Seen> {
        let (mut before, mut agreed) = (None, 0);
        for _ in 0..LOOKS_MAX {
            let Some(seen) = self.look_once(vfs)? else {
                before = None;
                vfs.sleep(PAUSE);
                continue;
            };
            let now = (std::mem::discriminant(&seen), seen.hash());
            agreed = if before == Some(now) { agreed + 1 } else { 1 };
            before = Some(now);
            let enough = match seen {
                Seen::Good { .. } => 2,
                Seen::Absent => LOOKS_ABSENT,
                Seen::Bad { .. } => LOOKS_BAD,
            };
            if agreed >= enough {
                return Ok(seen);
            }
            if !matches!(seen, Seen::Good { .. }) {
                vfs.sleep(PAUSE);
            }
        }
        let what = self.path.display().to_string();
        Err(Error::new(ErrorKind::Unstable { what }, "read", &self.path))
    }

    /// `None` = it was being written.
    fn look_once(&self, vfs: &dyn Vfs) -> Result<Option<Seen>> {
        let bytes = match self.bytes(vfs)? {
            Bytes::Absent => return Ok(Some(Seen::Absent)),
            Bytes::Moving => return Ok(None),
            Bytes::Whole(bytes) => bytes,
        };
        let hash = hash(&bytes);
        Ok(Some(match value(&bytes) {
            Ok(value) => Seen::Good { hash, bytes, value },
            Err(why) => Seen::Bad { hash, bytes, why },
        }))
    }

    fn bytes(&self, vfs: &dyn Vfs) -> Result<Bytes> {
        let file = match vfs.open(&self.path, Open::Read) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Bytes::Absent),
            Err(e) => return Err(Error::io(e, "open", &self.path)),
        };
        let len = file.stat().context("look at", &self.path)?.len;
        if len > LEN_MAX {
            let kind = ErrorKind::TooLarge { what: "a state file's bytes", len, max: LEN_MAX };
            return Err(Error::new(kind, "read", &self.path));
        }
        let len = usize::try_from(len).unwrap_or(0);
        // One more than it has, to see that it ends there.
        let mut bytes = vec![0; len + 1];
        let n = read_full(&*file, &mut bytes, 0).context("read", &self.path)?;
        bytes.truncate(n);
        Ok(if n == len { Bytes::Whole(bytes) } else { Bytes::Moving })
    }

    /// Whether the file is what was seen.
    fn is(&self, vfs: &dyn Vfs, seen: Option<Hash>) -> Result<bool> {
        Ok(match self.bytes(vfs)? {
            Bytes::Absent => seen.is_none(),
            Bytes::Moving => false,
            Bytes::Whole(bytes) => seen == Some(hash(&bytes)),
        })
    }

    /// Makes what was seen survive a power cut, whoever wrote it, before anything is concluded from it; `false` = something
    /// else stands there by now.
    pub(super) fn settle(&self, vfs: &dyn Vfs, seen: Option<Hash>) -> Result<bool> {
        match self.sync(vfs) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(seen.is_none()),
            done => done.context("sync", &self.path)?,
        }
        self.is(vfs, seen)
    }

    fn sync(&self, vfs: &dyn Vfs) -> io::Result<()> {
        match vfs.open(&self.path, Open::Write) {
            Ok(file) => file.sync_data()?,
            // What may not be written can be synced on Unix all the same. On Windows it cannot, and then it was not written
            // just now either.
            Err(e)
                if matches!(
                    e.kind(),
                    io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem
                ) =>
            {
                let _ = vfs.open(&self.path, Open::Read)?.sync_data();
            }
            Err(e) => return Err(e),
        }
        match self.path.parent().map_or(Ok(()), |dir| vfs.sync_dir(dir)) {
            // Nothing is written on a medium that is for reading.
            Err(e) if e.kind() == io::ErrorKind::ReadOnlyFilesystem => Ok(()),
            done => done,
        }
    }

    /// Refuses a file that must not be replaced.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`], which says what to do; system errors.
    pub(super) fn check_replaceable(&self, vfs: &dyn Vfs) -> Result<()> {
        let stat = match vfs.stat(&self.path) {
            Ok(stat) => stat,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(e) => return Err(Error::io(e, "look at", &self.path)),
        };
        if stat.read_only {
            let why = "it is read-only, and was not written: make it writable, or bridge another file";
            return Err(invalid(&self.path, why.into()));
        }
        if stat.links > 1 {
            let why = format!(
                "it has {} names (hard links), and was not written, because the others would keep the old contents: \
                 put a copy in its place, or a symbolic link to the one that is meant",
                stat.links
            );
            return Err(invalid(&self.path, why));
        }
        Ok(())
    }

    /// How names of files begin that are to replace this one. Not its own name, which may be as long as names can be.
    fn temporary_prefix(&self) -> String {
        let name = self.path.file_name().unwrap_or_default();
        let mut prefix = String::from(".foldlog-");
        for byte in hash(name.as_encoded_bytes()).iter().take(8) {
            let _ = write!(prefix, "{byte:02x}"); // into memory
        }
        prefix + "-"
    }

    /// Removes what is left of attempts to replace the file that did not end. Only under the lock of its path: then all that
    /// is there is left over.
    pub(super) fn sweep(&self, vfs: &dyn Vfs) {
        let (Some(dir), prefix) = (self.path.parent(), self.temporary_prefix()) else { return };
        // Nothing rests on it: a folder that may not be listed, or a file that stays, costs some room.
        for entry in vfs.list(dir).unwrap_or_default() {
            if entry.kind == FileKind::File && entry.name.starts_with(&prefix) {
                let _ = vfs.unlink(&dir.join(&entry.name));
            }
        }
    }

    /// Writes contents beside the file, with its access rights, and syncs them.
    ///
    /// # Errors
    /// System errors. Nothing is left then.
    pub(super) fn prepare(&self, vfs: &dyn Vfs, bytes: &[u8]) -> Result<Prepared> {
        let mut random = [0; 8];
        vfs.random(&mut random).context("draw a name beside", &self.path)?;
        let name = format!("{}{:016x}", self.temporary_prefix(), u64::from_le_bytes(random));
        let temporary = self.path.with_file_name(name);
        write_new(vfs, &temporary, bytes)?;
        match vfs.keep_access(&self.path, &temporary) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => {
                let _ = vfs.unlink(&temporary);
                Err(Error::io(e, "keep the access rights of", &self.path))
            }
            _ => Ok(Prepared(temporary)),
        }
    }

    /// Throws contents away that are not to be published; whether they are gone.
    pub(super) fn discard(vfs: &dyn Vfs, prepared: &Prepared) -> bool {
        match vfs.unlink(&prepared.0) {
            Err(e) => e.kind() == io::ErrorKind::NotFound,
            Ok(()) => true,
        }
    }

    /// Puts prepared contents in the place of what was seen.
    ///
    /// Between the last look and the renaming another program may still write: what it wrote then is lost, as between any
    /// two programs that replace a file without a lock.
    pub(super) fn publish(&self, vfs: &dyn Vfs, prepared: &Prepared, seen: Option<Hash>) -> Published {
        match self.is(vfs, seen) {
            Ok(true) => {}
            Ok(false) if Target::discard(vfs, prepared) => return Published::Overtaken,
            Ok(false) => {
                // What cannot be removed must stay known, so that it is removed later.
                let kind = ErrorKind::Unstable { what: self.path.display().to_string() };
                return Published::Unsure(Error::new(kind, "replace", &self.path));
            }
            Err(e) if Target::discard(vfs, prepared) => return Published::Failed(e),
            Err(e) => return Published::Unsure(e),
        }
        let existing = if seen.is_some() { Existing::Replace } else { Existing::Keep };
        if let Err(e) = vfs.rename(&prepared.0, &self.path, existing) {
            // Another store, which shares no lock with this one, took it for left over.
            if e.kind() == io::ErrorKind::NotFound {
                return Published::Overtaken;
            }
            // Under its first name it is not under the other.
            let is_left = vfs.stat(&prepared.0).is_ok() && Target::discard(vfs, prepared);
            let overtaken = e.kind() == io::ErrorKind::AlreadyExists;
            let e = Error::io(e, "publish", &self.path);
            return match is_left {
                true if overtaken => Published::Overtaken,
                true => Published::Failed(e),
                false => Published::Unsure(e),
            };
        }
        match self.sync(vfs) {
            // Somebody has removed or replaced it since; that is for the next look.
            Err(e) if e.kind() == io::ErrorKind::NotFound => Published::Done,
            Err(e) => Published::Unsure(Error::io(e, "sync", &self.path)),
            Ok(()) => Published::Done,
        }
    }

    /// Keeps a copy of contents in a quarantine, one of the same contents, and says where it is.
    ///
    /// # Durability
    /// It survives a power cut when this returns.
    pub(super) fn set_aside(
        &self,
        vfs: &dyn Vfs,
        quarantine: &Path,
        bytes: &[u8],
        why: &str,
    ) -> Result<PathBuf> {
        let content = blake3::hash(bytes).to_hex();
        let stem = format!("state-{}", content.get(..32).unwrap_or_default());
        let (copy, note) = (quarantine.join(format!("{stem}.bin")), quarantine.join(format!("{stem}.note")));
        // The note is written last.
        let mut is_there = true;
        for path in [&copy, &note] {
            match vfs.stat(path) {
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::NotFound => is_there = false,
                Err(e) => return Err(Error::io(e, "look at", path)),
            }
        }
        if is_there {
            return Ok(copy);
        }
        match vfs.create_dir(quarantine) {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => {
                return Err(Error::io(e, "create", quarantine));
            }
            _ => {}
        }
        let mut random = [0; 8];
        vfs.random(&mut random).context("draw a name in", quarantine)?;
        let temporary = quarantine.join(format!(".new-{stem}-{:016x}", u64::from_le_bytes(random)));
        let text = format!(
            "cause: state file\nfile: {}\nbytes: {}\nblake3: {content}\nwhy: {}\ntime: {}\n",
            self.path.display(),
            bytes.len(),
            why.replace(['\n', '\r'], " "),
            vfs.now(),
        );
        // The bytes come first: a note always has what it speaks of. Whoever else is at it keeps the same bytes.
        for (path, bytes) in [(&copy, bytes), (&note, text.as_bytes())] {
            match publish(vfs, &temporary, path, bytes) {
                Err(e) if e.io_error().is_some_and(|e| e.kind() == io::ErrorKind::AlreadyExists) => {}
                done => done?,
            }
        }
        if let Some(parent) = quarantine.parent() {
            vfs.sync_dir(parent).context("sync", parent)?;
        }
        Ok(copy)
    }
}

/// The value that a file's bytes are, or what they are instead.
fn value(bytes: &[u8]) -> Result<Value, String> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    if bytes.is_empty() {
        return Err("it is empty".into());
    }
    if bytes.trim_ascii().is_empty() {
        return Err("it holds nothing but space".into());
    }
    if matches!(bytes, [0xff, 0xfe, ..] | [0xfe, 0xff, ..]) {
        return Err("it is UTF-16".into());
    }
    let text = std::str::from_utf8(bytes).map_err(|e| format!("it is not UTF-8: {e}"))?;
    Value::parse(text).map_err(|bad| format!("it is no JSON value: {bad}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_json_is_a_value() {
        for good in ["{}", " {\"a\":1}\n", "\u{feff}[1]", "null", "7"] {
            assert!(value(good.as_bytes()).is_ok(), "{good:?}");
        }
        let whole = "{\"a\": [1, \"x\\n\"]}";
        for len in 0..whole.len() {
            assert!(value(&whole.as_bytes()[..len]).is_err(), "cut at {len}");
        }
        for bad in ["", " \n", "\u{feff}", "NaN", "{\"a\":1}{", "{\"a\":1,\"a\":2}", "<html>", "\0\0\0\0"] {
            assert!(value(bad.as_bytes()).is_err(), "{bad:?}");
        }
        assert!(value(b"\xff\xfe{\0}\0").is_err() && value(b"\"\xff\"").is_err());
    }
}
