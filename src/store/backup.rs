//! Backup and restore: a whole store, copied while it is written, into a folder where nothing stands.
//!
//! A copy comes into being as a store does, META last. What tells a copy that is being made, or was never finished, from
//! anything else is the file [`UNFINISHED`], which is there first and goes last. `format-spec/backup.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::create::{self, Found, UNFINISHED};
use super::meta::StoreMeta;
use super::{Options, Store, inspect, read_small, read_workspace_meta};
use crate::error::{Context as _, Error, ErrorKind, Result};
use crate::log::backup::{self, Copying, Watch};
use crate::log::finding::{Finding, Severity};
use crate::log::format::META_LEN_MAX;
use crate::log::publish::write_new;
use crate::log::rotate::writer_version;
use crate::log::{Cursor, Link, LogId, Paths, Progress, Seq, State, Volume};
use crate::session::{self, Info, Probe};
use crate::vfs::{Entry, Existing, FileKind, Vfs};

/// What [`UNFINISHED`] says to people.
const UNFINISHED_TEXT: &str = "This folder is a copy of a foldlog store that is being made, or was never finished. It is no\n\
                               backup: if nobody is making it now, remove it and make it anew.\n";

/// How a store is to be copied. Start from [`CopyOptions::default`] and set what differs.
#[derive(Clone, Debug)]
pub struct CopyOptions {
    workspaces: Vec<String>,
    link: Link,
    quarantine: bool,
    as_it_is: bool,
    watch: Watch,
}

impl Default for CopyOptions {
    /// All workspaces with their quarantine, by links where they can be had, and nothing that is damaged.
    fn default() -> Self {
        CopyOptions {
            workspaces: Vec::new(),
            link: Link::Auto,
            quarantine: true,
            as_it_is: false,
            watch: Watch::default(),
        }
    }
}

impl CopyOptions {
    /// Only this workspace, by its folder's name, and others that are named in the same way.
    #[must_use]
    pub fn workspace(mut self, name: impl Into<String>) -> Self {
        self.workspaces.push(name.into());
        self
    }

    /// Whether a backup may share files that are never written again with the store. A restore never does.
    #[must_use]
    pub fn link(mut self, link: Link) -> Self {
        self.link = link;
        self
    }

    /// Whether bytes that were set aside go along.
    #[must_use]
    pub fn quarantine(mut self, quarantine: bool) -> Self {
        self.quarantine = quarantine;
        self
    }

    /// Copies what is damaged too, byte for byte as far as it can be read, instead of refusing it. The report says of each
    /// workspace whether it is.
    #[must_use]
    pub fn as_it_is(mut self, as_it_is: bool) -> Self {
        self.as_it_is = as_it_is;
        self
    }

    /// Ends the call with [`ErrorKind::Cancelled`] soon after this is set.
    #[must_use]
    pub fn cancel(mut self, cancel: Arc<AtomicBool>) -> Self {
        self.watch.cancel = Some(cancel);
        self
    }

    /// Whom to tell how far it is, on the thread that makes the copy.
    #[must_use]
    pub fn on_progress(mut self, on_progress: impl Fn(&Progress) + Send + Sync + 'static) -> Self {
        self.watch.on_progress = Some(Arc::new(on_progress));
        self
    }
}

/// A copy of a store that is complete, durable, and was read back.
#[derive(Debug)]
#[must_use]
pub struct CopyReport {
    /// Its folder, in full.
    pub target: PathBuf,
    /// Its store id: a backup's is the store's own, a restored store has a new one.
    pub store_id: [u8; 16],
    /// What it has, by the names of the folders.
    pub workspaces: Vec<WorkspaceCopy>,
    /// How many sessions that may own something in it are dead here for good: of a backup none, which has no sessions.
    pub dead_sessions: usize,
    /// How long it took.
    pub took: Duration,
}

impl CopyReport {
    /// Whether nothing in it is damaged.
    pub fn is_whole(&self) -> bool {
        self.workspaces.iter().all(|workspace| workspace.whole)
    }

    /// How bad the worst finding is; `None` if there is none.
    pub fn worst(&self) -> Option<Severity> {
        self.workspaces.iter().flat_map(|copy| &copy.findings).map(|finding| finding.severity).max()
    }
}

/// A workspace in a copy of a store.
#[derive(Debug)]
pub struct WorkspaceCopy {
    /// Name of its folder.
    pub name: String,
    /// Its log's identity, which is the original's.
    pub log: LogId,
    /// The last event that is in it, to be stored: it stays valid in the original and in every copy.
    pub cursor: Cursor,
    /// How many events it has.
    pub events: u64,
    /// The state hash there, of the copy as it was read back, with the fold of the handle that made it: what
    /// [`State::hash`] gives in the original at that event.
    pub state_hash: blake3::Hash,
    /// The same of the log alone, without what this program's fold adds: as `foldlog stats` has it.
    pub log_hash: blake3::Hash,
    /// How many segments.
    pub segments: usize,
    /// How many blobs its events name.
    pub blobs: usize,
    /// Files that it shares with the original.
    pub linked: Volume,
    /// Files of its own.
    pub copied: Volume,
    /// How long it took.
    pub took: Duration,
    /// Whether it is free of damage; only a copy made [as it is](CopyOptions::as_it_is) may not be.
    pub whole: bool,
    /// What was found while it was copied.
    pub findings: Vec<Finding>,
    /// Whether the original was told of the copy, and by which event; `None` = that was not tried.
    pub recorded: Option<Result<Seq>>,
}

impl WorkspaceCopy {
    /// Number of the last event that is in it.
    pub fn seq(&self) -> Seq {
        self.cursor.seq
    }
}

/// The sessions that may own something, of a state and of all sessions that have committed in its log.
type Owners<'a> = &'a dyn Fn(&State, &BTreeSet<u64>) -> Vec<Info>;

/// What a copy is made for.
enum Purpose<'a> {
    Backup,
    Restore(Owners<'a>),
}

impl Store {
    /// Makes a complete copy of the store in a folder that is absent or empty, while others write.
    ///
    /// It holds every commit that was acknowledged before this was called, and perhaps some that came meanwhile. Sealed
    /// segments, blobs and what was set aside get a second name there, on the same file system, where the options allow it;
    /// none of them is ever written again, so neither side can change the other's. Everything else is copied. Each
    /// workspace is one moment of its own. Then all of it is read back and compared with what the original folded to.
    ///
    /// # Errors
    /// [`ErrorKind::Occupied`] if anything stands in the target; [`ErrorKind::Invalid`] if that lies in the store itself;
    /// [`ErrorKind::NotFound`] for a workspace that there is not; [`ErrorKind::Damaged`], [`ErrorKind::BlobMissing`] and
    /// [`ErrorKind::TooNew`], unless it is to be copied [as it is](CopyOptions::as_it_is); [`ErrorKind::Cancelled`];
    /// [`ErrorKind::NotYet`] where segments were rewritten again and again; [`ErrorKind::NoSpace`] and system errors. What
    /// had been made is removed then, as far as that can be done.
    ///
    /// # Durability
    /// The copy is durable when this returns. A power cut before leaves a folder that says that it is not finished, or is
    /// empty, or absent; never one that would be taken for a backup.
    ///
    /// # Blocking
    /// Takes no lock, so nobody waits for it and it waits for nobody; it takes as long as reading the store twice. Works
    /// through a handle that only reads, and where the store's own disk is full.
    pub fn backup(&self, target: impl AsRef<Path>, options: &CopyOptions) -> Result<CopyReport> {
        self.copy_to(target.as_ref(), options, &Purpose::Backup)
    }

    /// Makes a store of the backup in a folder, of the real file system; see [`Store::restore_to`].
    ///
    /// # Errors
    /// As there, and as [`Store::open`].
    pub fn restore(
        backup: impl AsRef<Path>,
        target: impl AsRef<Path>,
        options: &CopyOptions,
    ) -> Result<CopyReport> {
        Store::open(backup, Options::default().read_only(true))?.restore_to(target, options)
    }

    /// Makes a store of this backup in a folder that is absent or empty.
    ///
    /// The backup is read whole first. Its files are copied, never shared, so that the backup is none the worse for
    /// whatever becomes of the store. The store has a new id, and the logs have their old ones: what was stored of them, a
    /// cursor or a revision, stays valid up to where the backup ends. The sessions of the original are dead here: the proof
    /// of that is left for every one that has committed something, so that nothing is theirs for ever.
    ///
    /// # Errors
    /// As [`Store::backup`]. [`ErrorKind::Occupied`] names who has the store open that stands in the target.
    ///
    /// # Durability
    /// As [`Store::backup`].
    ///
    /// # Blocking
    /// As long as reading the backup three times; for a few milliseconds for each live session of a store that stands in
    /// the target.
    pub fn restore_to(&self, target: impl AsRef<Path>, options: &CopyOptions) -> Result<CopyReport> {
        let owners = |_: &State, writers: &BTreeSet<u64>| writers.iter().map(|id| stranger(*id)).collect();
        self.restore_with(target.as_ref(), options, &owners)
    }

    /// [`Store::restore_to`], for a program that knows what sessions own.
    pub(crate) fn restore_with(
        &self,
        target: &Path,
        options: &CopyOptions,
        owners: &dyn Fn(&State, &BTreeSet<u64>) -> Vec<Info>,
    ) -> Result<CopyReport> {
        let options = CopyOptions { link: Link::Never, ..options.clone() };
        self.copy_to(target, &options, &Purpose::Restore(owners))
    }

    fn copy_to(&self, target: &Path, options: &CopyOptions, purpose: &Purpose<'_>) -> Result<CopyReport> {
        let vfs = &*self.inner.vfs;
        let started = vfs.monotonic();
        let names = self.names_to_copy(options)?;
        check_free(vfs, target)?;
        self.check_outside(target)?;
        if let Purpose::Restore(_) = purpose {
            for name in &names {
                self.check_whole(name, options)?;
            }
        }
        let making = Making::begin(vfs, target)?;
        let made = self.fill(&making, &names, options, purpose);
        match &made {
            // Who opened the folder for writing before the sign stood has made a store of it: that is not ours to remove.
            Err(e) if matches!(e.kind(), ErrorKind::Occupied { .. }) => {}
            Err(_) => making.take_away(),
            Ok(_) => {}
        }
        let (store_id, workspaces, dead_sessions) = made?;
        Ok(CopyReport {
            target: vfs.canonicalize(target).unwrap_or_else(|_| target.to_path_buf()),
            store_id,
            workspaces,
            dead_sessions,
            took: vfs.monotonic().saturating_sub(started),
        })
    }

    fn names_to_copy(&self, options: &CopyOptions) -> Result<Vec<String>> {
        let all = self.workspace_names()?;
        if options.workspaces.is_empty() {
            return Ok(all);
        }
        let wanted: BTreeSet<&String> = options.workspaces.iter().collect();
        if let Some(absent) = wanted.iter().find(|name| !all.contains(name)) {
            let what = format!("the workspace {absent}");
            return Err(Error::new(ErrorKind::NotFound { what }, "copy", &self.inner.root));
        }
        Ok(wanted.into_iter().cloned().collect())
    }

    /// A copy inside the store would be part of what is copied next.
    fn check_outside(&self, target: &Path) -> Result<()> {
        let vfs = &*self.inner.vfs;
        let root = vfs.canonicalize(&self.inner.root).context("resolve", &self.inner.root)?;
        // The part of the path that is there may lead elsewhere than it looks.
        let there = target.ancestors().find_map(|part| vfs.canonicalize(part).ok());
        if there.is_some_and(|there| there.starts_with(&root)) {
            let why = format!("{} lies in the store that is to be copied", target.display());
            return Err(Error::new(ErrorKind::Invalid { what: "target", why }, "copy to", target));
        }
        Ok(())
    }

    /// The log of a workspace, and why its META says nothing, if so.
    fn log_to_copy(&self, name: &str, as_it_is: bool) -> Result<(LogId, Option<Finding>)> {
        let (vfs, dir) = (&*self.inner.vfs, self.workspace_dir(name));
        match read_workspace_meta(vfs, &dir) {
            Ok(meta) => Ok((meta.log_id, None)),
            Err(e) => match (e.kind(), inspect::log_of_segments(vfs, &Paths::new(&dir))) {
                (ErrorKind::Damaged(finding), Some(log)) if as_it_is => Ok((log, Some((**finding).clone()))),
                _ => Err(e),
            },
        }
    }

    fn check_whole(&self, name: &str, options: &CopyOptions) -> Result<()> {
        let (vfs, paths) = (&*self.inner.vfs, Paths::new(self.workspace_dir(name)));
        let (log, _) = self.log_to_copy(name, options.as_it_is)?;
        let look = backup::look(vfs, &paths, log, None, options.as_it_is)?;
        if options.as_it_is { Ok(()) } else { look.check_blobs(vfs, &paths) }
    }

    /// Fills the folder; nothing in it is a store before the last step.
    fn fill(
        &self,
        making: &Making<'_>,
        names: &[String],
        options: &CopyOptions,
        purpose: &Purpose<'_>,
    ) -> Result<([u8; 16], Vec<WorkspaceCopy>, usize)> {
        let (vfs, root) = (making.vfs, making.root);
        create::parts(vfs, root)?;
        let mut workspaces = Vec::new();
        let mut dead: BTreeMap<u64, Info> = BTreeMap::new();
        for name in names {
            let (copy, owners) = self.copy_workspace(making, name, options, purpose)?;
            for owner in owners {
                let known = dead.entry(owner.session).or_insert(Info { owns: Vec::new(), ..owner });
                known.owns.push(copy.log.0);
            }
            workspaces.push(copy);
        }
        let sessions = root.join("sessions");
        for info in dead.values() {
            session::prove_dead(vfs, &sessions, info)?;
        }
        vfs.sync_dir(&sessions).context("sync", &sessions)?;
        let mut meta = self.inner.meta.clone();
        if let Purpose::Restore(_) = purpose {
            let mut id = [0; 16];
            vfs.random(&mut id).context("draw an id for", root)?;
            meta = StoreMeta { store_id: id, created: vfs.now(), writer_version: writer_version(), ..meta };
        }
        making.finish(&meta)?;
        Ok((meta.store_id, workspaces, dead.len()))
    }

    fn copy_workspace(
        &self,
        making: &Making<'_>,
        name: &str,
        options: &CopyOptions,
        purpose: &Purpose<'_>,
    ) -> Result<(WorkspaceCopy, Vec<Info>)> {
        let vfs = making.vfs;
        let started = vfs.monotonic();
        let from = Paths::new(self.workspace_dir(name));
        let (log, bad_meta) = self.log_to_copy(name, options.as_it_is)?;
        let all = making.root.join("workspaces");
        let to = Paths::new(all.join(making.temporary()?));
        vfs.create_dir(to.dir()).context("create", to.dir())?;
        vfs.create_dir(&to.quarantine()).context("create", &to.quarantine())?;
        let how = Copying {
            link: options.link,
            quarantine: options.quarantine,
            as_it_is: options.as_it_is,
            fold: self.options.settings.fold,
            watch: options.watch.clone(),
        };
        let mut copy = backup::copy(vfs, name, &from, &to, log, &how)?;
        match read_small(vfs, &from.meta(), META_LEN_MAX) {
            Ok(bytes) => write_new(vfs, &to.meta(), &bytes)?,
            Err(_) if bad_meta.is_some() => {}
            Err(e) => return Err(Error::io(e, "read", &from.meta())),
        }
        create::lock_targets(vfs, to.dir())?;
        vfs.sync_dir(to.dir()).context("sync", to.dir())?;
        let target = all.join(name);
        vfs.rename(to.dir(), &target, Existing::Keep).context("publish", &target)?;
        vfs.sync_dir(&all).context("sync", &all)?;
        copy.damaged |= bad_meta.is_some();
        copy.findings.extend(bad_meta);
        let owners = match purpose {
            Purpose::Backup => Vec::new(),
            Purpose::Restore(owners) => owners(&copy.state, &copy.writers),
        };
        let copy = WorkspaceCopy {
            name: name.into(),
            log,
            cursor: copy.state.cursor(),
            events: copy.state.events(),
            state_hash: copy.state.hash(),
            log_hash: copy.log_hash,
            segments: copy.segments,
            blobs: copy.blobs,
            linked: copy.linked,
            copied: copy.copied,
            took: vfs.monotonic().saturating_sub(started),
            whole: !copy.damaged,
            findings: copy.findings,
            recorded: None,
        };
        Ok((copy, owners))
    }
}

/// A session of which nothing is known but its number.
fn stranger(session: u64) -> Info {
    Info {
        pid: 0,
        session,
        started: 0,
        version: "unknown".into(),
        label: "a session of the store that was backed up".into(),
        listings: Vec::new(),
        owns: Vec::new(),
    }
}

/// A folder that is to become a store, and says so.
struct Making<'a> {
    vfs: &'a dyn Vfs,
    root: &'a Path,
    /// Whether the folder itself was made here.
    made: bool,
}

impl<'a> Making<'a> {
    /// Puts up the sign: the one who does is the one who makes it.
    fn begin(vfs: &'a dyn Vfs, root: &'a Path) -> Result<Self> {
        let made = vfs.stat(root).is_err();
        create::folder_and_parents(vfs, root)?;
        let making = Making { vfs, root, made };
        let sign = root.join(UNFINISHED);
        match write_new(vfs, &sign, UNFINISHED_TEXT.as_bytes()) {
            Err(e) if e.io_error().is_some_and(|e| e.kind() == io::ErrorKind::AlreadyExists) => {
                Err(occupied("another copy of a store is being made there".into(), root))
            }
            Err(e) => {
                if made {
                    let _ = vfs.remove_dir(root);
                }
                Err(e)
            }
            Ok(()) => match making.check_alone() {
                Ok(()) => match vfs.sync_dir(root).context("sync", root) {
                    Ok(()) => Ok(making),
                    Err(e) => {
                        making.take_away();
                        Err(e)
                    }
                },
                // What is there is not ours but for the sign.
                Err(e) => {
                    let _ = vfs.unlink(&sign);
                    Err(e)
                }
            },
        }
    }

    /// Since the folder was looked at somebody may have made something in it, and finished that.
    fn check_alone(&self) -> Result<()> {
        let entries = self.vfs.list(self.root).context("list", self.root)?;
        match entries.iter().find(|entry| entry.name != UNFINISHED && !is_of_the_volume(entry)) {
            Some(entry) => Err(occupied(format!("{} has come into being there", entry.name), self.root)),
            None => Ok(()),
        }
    }

    /// A name for a workspace's folder that is being filled.
    fn temporary(&self) -> Result<String> {
        let mut random = [0; 8];
        self.vfs.random(&mut random).context("draw a name in", self.root)?;
        Ok(format!(".new-{:016x}", u64::from_le_bytes(random)))
    }

    /// Makes it a store; everything else in it is durable. Then the sign goes.
    fn finish(&self, meta: &StoreMeta) -> Result<()> {
        let workspaces = self.root.join("workspaces");
        self.vfs.sync_dir(&workspaces).context("sync", &workspaces)?;
        create::put_meta(self.vfs, self.root, meta).map_err(|e| match e.io_error() {
            Some(io) if io.kind() == io::ErrorKind::AlreadyExists => {
                occupied("another process has made a store there meanwhile".into(), self.root)
            }
            _ => e,
        })?;
        let sign = self.root.join(UNFINISHED);
        self.vfs.unlink(&sign).context("remove", &sign)?;
        self.vfs.sync_dir(self.root).context("sync", self.root)
    }

    /// Removes what was made, as far as that can be done: the sign last, so that what is left says what it is.
    fn take_away(&self) {
        let removed = || -> Result<()> {
            let gone = |path: PathBuf| match self.vfs.unlink(&path) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => Err(Error::io(e, "remove", &path)),
                _ => Ok(()),
            };
            gone(self.root.join("META"))?;
            for entry in self.vfs.list(self.root).context("list", self.root)? {
                let path = self.root.join(&entry.name);
                match entry.name.as_str() {
                    "sessions" | "workspaces" => backup::discard(self.vfs, &path)?,
                    "BIND" => gone(path)?,
                    name if name.starts_with(".new-META-") => gone(path)?,
                    _ => {}
                }
            }
            gone(self.root.join(UNFINISHED))?;
            if self.made {
                self.vfs.remove_dir(self.root).context("remove", self.root)?;
            }
            Ok(())
        };
        // What cannot be removed says by its sign that it is worth nothing.
        let _ = removed();
    }
}

fn occupied(what: String, target: &Path) -> Error {
    Error::new(ErrorKind::Occupied { what }, "copy to", target)
}

/// A fresh volume has this folder of its own.
fn is_of_the_volume(entry: &Entry) -> bool {
    entry.name == "lost+found" && entry.kind == FileKind::Dir
}

/// Whether a copy may be made here: nothing is ever made over what is there.
fn check_free(vfs: &dyn Vfs, target: &Path) -> Result<()> {
    match vfs.stat(target) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(Error::io(e, "look at", target)),
        Ok(stat) if stat.kind == FileKind::Dir => {}
        Ok(stat) => return Err(occupied(format!("it is no folder ({:?})", stat.kind), target)),
    }
    let entries = vfs.list(target).context("list", target)?;
    let Some(first) = entries.iter().find(|entry| !is_of_the_volume(entry)) else { return Ok(()) };
    let has = |name: &str| entries.iter().any(|entry| entry.name == name);
    if let Ok(Found::Store(_)) = create::look(vfs, target) {
        let live = session::live(vfs, &target.join("sessions"), Probe::Look).unwrap_or_default();
        let names: Vec<String> = live.iter().map(ToString::to_string).collect();
        return Err(occupied(
            match names.as_slice() {
                [] => "a store is there; nobody has it open for writing now".into(),
                names => format!("a store is there that is in use by {}", names.join("; ")),
            },
            target,
        ));
    }
    let what = if has(UNFINISHED) {
        "a copy of a store is being made there, or was never finished".into()
    } else {
        format!("the folder is not empty: {} is in it", first.name)
    };
    Err(occupied(what, target))
}
