//! A store: one folder with one log per workspace. Opening, creating, finding. `format-spec/format.md`, section *Files*.
//!
//! Nothing here ever deletes or replaces what it did not make: *absent*, *unreadable*, *unknown*, *newer than me* and
//! *empty* are five different answers.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

mod backup;
mod create;
pub mod inspect;
pub mod meta;
mod path_lock;
mod place;
mod sessions;
#[cfg(all(test, shuttle))]
mod shuttled;

pub use backup::{CopyOptions, CopyReport, WorkspaceCopy};
pub use meta::StoreMeta;
pub use place::{Place, folder_name, hash, normalise};

use crate::error::{Context as _, Error, ErrorKind, Result};
use crate::log::finding::{Finding, Severity};
use crate::log::fold::FoldKind;
use crate::log::{
    BadMeta, Binding, BlobId, CompactProgress, CompactReport, Consistency, Draft, Durability, Followers,
    Health, Housekeeping, KeepLock, Log, Mapping, OnEvent, OpenReport, Paths, Receipt, Recovery, Settings,
    Since, SnapshotReport, State, Subscription, Vocabulary, WorkspaceMeta,
};
use crate::session::Session;
use crate::vfs::os::Os;
use crate::vfs::sim::SimMachine;
use crate::vfs::threads::{Mutex, PerImage};
use crate::vfs::{FileId, FileKind, FileSystem, Open, Vfs, read_full};

/// How a store is to be opened. Start from [`Options::default`] and set what differs.
#[derive(Clone, Debug)]
pub struct Options {
    read_only: bool,
    create: bool,
    label: String,
    trust_shared_fs: bool,
    settings: Settings,
}

impl Default for Options {
    /// For writing, made where it is absent, `Recovery::Default`, a lock wait of 10 s.
    fn default() -> Self {
        Options {
            read_only: false,
            create: true,
            label: "foldlog".into(),
            trust_shared_fs: false,
            settings: Settings::default(),
        }
    }
}

impl Options {
    /// Opens for reading: no session, no lock, no byte written.
    #[must_use]
    pub fn read_only(mut self, read_only: bool) -> Self {
        self.read_only = read_only;
        self
    }

    /// Whether a store and its workspaces are made where they are absent.
    #[must_use]
    pub fn create(mut self, create: bool) -> Self {
        self.create = create;
        self
    }

    /// What this process calls itself in others' error messages ("VS Code window 2").
    #[must_use]
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = label.into();
        self
    }

    /// Writes even where another kernel may share the file system. Only if no other machine ever opens the store.
    #[must_use]
    pub fn trust_shared_fs(mut self, trust: bool) -> Self {
        self.trust_shared_fs = trust;
        self
    }

    /// How long a commit waits for the lock before it answers `Busy`.
    #[must_use]
    pub fn lock_timeout(mut self, timeout: Duration) -> Self {
        self.settings.lock_timeout = timeout;
        self
    }

    /// At which length, in bytes, a segment is sealed (8 MiB; at least 4 KiB).
    #[must_use]
    pub fn segment_size(mut self, bytes: u64) -> Self {
        self.settings.segment_size = bytes.max(4096);
        self
    }

    /// The event kinds the program understands.
    #[must_use]
    pub fn vocabulary(mut self, vocabulary: Vocabulary) -> Self {
        self.settings.vocabulary = vocabulary;
        self
    }

    /// What the program makes of the events: a fold that the log keeps beside its own state, always at the same event.
    /// All handles of a process on one workspace must agree on it.
    #[must_use]
    pub fn fold(mut self, fold: FoldKind) -> Self {
        self.settings.fold = Some(fold);
        self
    }

    /// What to do where acknowledged data is damaged.
    #[must_use]
    pub fn recovery(mut self, recovery: Recovery) -> Self {
        self.settings.recovery = recovery;
        self
    }

    /// Whom to tell of findings, as they come. Never called under a lock; must not block for long.
    #[must_use]
    pub fn on_event(mut self, on_event: impl Fn(&Finding) + Send + Sync + 'static) -> Self {
        let on_event: OnEvent = Arc::new(on_event);
        self.settings.on_event = Some(on_event);
        self
    }

    /// Whether the process may have the housekeeping thread; without it, call [`Workspace::tick`].
    #[must_use]
    pub fn housekeeping(mut self, housekeeping: Housekeeping) -> Self {
        self.settings.housekeeping = housekeeping;
        self
    }

    /// How many bytes of a log must be new before a snapshot of it is written by itself in the background: 4 MiB unless said
    /// otherwise, `u64::MAX` = never. At a clean close a quarter of it is enough. It is a quarter of the last one's length at least.
    #[must_use]
    pub fn snapshot_after(mut self, bytes: u64) -> Self {
        self.settings.snapshot_after = bytes;
        self
    }

    /// How the control block of hints is shared with other processes; answers are the same either way.
    #[must_use]
    pub fn mapping(mut self, mapping: Mapping) -> Self {
        self.settings.mapping = mapping;
        self
    }

    /// Whether the write lock may be kept between two commits of a burst.
    #[must_use]
    pub fn keep_lock(mut self, keep: KeepLock) -> Self {
        self.settings.keep_lock = keep;
        self
    }

    /// Whether a process that syncs writes zeros ahead of its log, up to 1 MiB, so that its syncs are cheaper; on unless
    /// said otherwise. They are taken away at a clean close. File systems that copy on write gain nothing, and get none.
    #[must_use]
    pub fn reserve(mut self, reserve: bool) -> Self {
        self.settings.reserve = reserve;
        self
    }
}

/// An open store. Cheap to clone; all handles of a process on one store share one session.
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
    options: Options,
}

struct Inner {
    vfs: Arc<dyn Vfs>,
    root: PathBuf,
    meta: StoreMeta,
    session: Option<Arc<Session>>,
    /// Why nothing can be written although the store was opened for it.
    barrier: Option<String>,
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store")
            .field("root", &self.inner.root)
            .field("barrier", &self.inner.barrier)
            .finish_non_exhaustive()
    }
}

/// Key of the process-wide registries: the process image, and the identity of a file that stands for the thing.
type Key = ((u64, u64), FileId);

struct Registry {
    stores: BTreeMap<Key, Weak<Inner>>,
    logs: BTreeMap<Key, Weak<Log>>,
}

/// Its lock is held for a look or an insertion only, never over a system call: what is to be shared is made without it,
/// and whoever comes second drops what it made.
///
/// Of this process image: a parent's may be locked by a thread that a forked child does not have.
fn registry(vfs: &dyn Vfs) -> &'static Mutex<Registry> {
    static REGISTRY: PerImage<Mutex<Registry>> =
        PerImage::new([const { Mutex::new(Registry { stores: BTreeMap::new(), logs: BTreeMap::new() }) }; 8]);
    REGISTRY.of(vfs.process().forks)
}

fn key(vfs: &dyn Vfs, id: FileId) -> Key {
    let process = vfs.process();
    ((process.domain, process.forks), id)
}

/// Makes `fresh` the open store of this process, in place of `gone`, unless another thread was quicker; returns the one
/// that is shared from now on. What nobody shares ends here, after the registry's lock was released.
fn share(vfs: &dyn Vfs, key: Key, fresh: Arc<Inner>, gone: Option<Arc<Inner>>) -> Arc<Inner> {
    let mut registry = registry(vfs).lock();
    registry.stores.retain(|_, known| known.strong_count() > 0);
    let now = registry.stores.get(&key).and_then(Weak::upgrade);
    match now.filter(|now| gone.as_ref().is_none_or(|gone| !Arc::ptr_eq(now, gone))) {
        Some(quicker) => quicker,
        None => {
            registry.stores.insert(key, Arc::downgrade(&fresh));
            fresh
        }
    }
}

/// Makes a log the engine of this process; returns the one that another thread has made so meanwhile, if one has.
fn share_log(vfs: &dyn Vfs, key: Key, log: &Arc<Log>) -> Option<Arc<Log>> {
    let mut registry = registry(vfs).lock();
    registry.logs.retain(|_, known| known.strong_count() > 0);
    let first = registry.logs.get(&key).and_then(Weak::upgrade);
    if first.is_none() {
        registry.logs.insert(key, Arc::downgrade(log));
    }
    first
}

/// A workspace's folder, as a listing of the store finds it.
#[derive(Debug)]
pub struct WorkspaceEntry {
    /// Name of its folder.
    pub name: String,
    /// Its META, or why it cannot be read.
    pub meta: Result<WorkspaceMeta>,
}

impl Store {
    /// Opens the store in a folder of the real file system.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] (absent or empty, and not to be made), [`ErrorKind::Foreign`] (something else is
    /// there), [`ErrorKind::TooNew`], [`ErrorKind::Permission`], other system errors: five answers that are never
    /// taken for one another.
    ///
    /// # Durability
    /// A store that was made is durable when this returns.
    ///
    /// # Blocking
    /// Never waits for another process.
    pub fn open(root: impl AsRef<Path>, options: Options) -> Result<Store> {
        Store::open_on(Arc::new(Os), root.as_ref(), options)
    }

    /// A store in memory, gone with its last handle: the same engine on a simulated disk without faults.
    ///
    /// # Errors
    /// None that a caller could do anything about.
    pub fn memory(options: Options) -> Result<Store> {
        // Nothing of it is ever opened again.
        let options = options.housekeeping(Housekeeping::Off).snapshot_after(u64::MAX);
        let machine = SimMachine::memory(Arc::new(Os));
        Store::open_on(Arc::new(machine.process("memory")), Path::new("/memory"), options)
    }

    /// Opens the store in a folder of any [`Vfs`].
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn open_on(vfs: Arc<dyn Vfs>, root: &Path, options: Options) -> Result<Store> {
        let found = create::look(&*vfs, root)?;
        let meta = match found {
            create::Found::Store(meta) => meta,
            create::Found::Nothing | create::Found::Unfinished if options.create && !options.read_only => {
                create::store(&*vfs, root)?
            }
            create::Found::Nothing => return Err(absent(root, "a store; the folder is absent or empty")),
            create::Found::Unfinished => {
                return Err(absent(root, "a whole store; its making was interrupted"));
            }
        };
        let mut barrier = meta.write_barrier().map(|bad| bad.to_string());
        if barrier.is_none()
            && !options.trust_shared_fs
            && !options.read_only
            && let FileSystem::Shared(fs) =
                vfs.file_system(root).context("look at the file system of", root)?
        {
            barrier = Some(Error::new(ErrorKind::SharedFileSystem { fs }, "write", root).kind().to_string());
        }
        let sessions = root.join("sessions");
        let id = vfs.stat(&sessions).context("look at", &sessions)?.id;
        if options.read_only || barrier.is_some() {
            return Ok(Store::without_session(vfs, root, meta, barrier, options));
        }
        let key = key(&*vfs, id);
        let known = registry(&*vfs).lock().stores.get(&key).and_then(Weak::upgrade);
        let stands = |inner: &Inner| inner.session.as_ref().is_some_and(|session| session.stands());
        let inner = match known {
            Some(inner) if stands(&inner) => inner,
            // None is open, or its session's file has gone, so that it proves nothing to others any more.
            gone => {
                let session = match Session::start(Arc::clone(&vfs), &sessions, &options.label) {
                    Ok(session) => Some(Arc::new(session)),
                    Err(e) if matches!(e.kind(), ErrorKind::LocksDoNotExclude) => {
                        let barrier = Some(e.kind().to_string());
                        return Ok(Store::without_session(vfs, root, meta, barrier, options));
                    }
                    Err(e) => return Err(e),
                };
                let root = root.to_path_buf();
                let inner = Arc::new(Inner { vfs: Arc::clone(&vfs), root, meta, session, barrier });
                share(&*vfs, key, inner, gone)
            }
        };
        Ok(Store { inner, options })
    }

    fn without_session(
        vfs: Arc<dyn Vfs>,
        root: &Path,
        meta: StoreMeta,
        barrier: Option<String>,
        options: Options,
    ) -> Store {
        let inner = Inner { vfs, root: root.to_path_buf(), meta, session: None, barrier };
        Store { inner: Arc::new(inner), options }
    }

    /// Its folder.
    pub fn root(&self) -> &Path {
        &self.inner.root
    }

    /// Its META.
    pub fn meta(&self) -> &StoreMeta {
        &self.inner.meta
    }

    /// Why nothing can be written although the store was opened for it; `None` if it can, or was opened for reading.
    pub fn barrier(&self) -> Option<&str> {
        self.inner.barrier.as_deref()
    }

    /// Whether this handle writes nothing, whatever it was opened for.
    pub fn is_read_only(&self) -> bool {
        self.inner.session.is_none()
    }

    /// The names of all workspaces' folders, in order, without a look into them.
    ///
    /// # Errors
    /// System errors in listing.
    pub fn workspace_names(&self) -> Result<Vec<String>> {
        let dir = self.inner.root.join("workspaces");
        let entries = self.inner.vfs.list(&dir).context("list", &dir)?;
        Ok(entries.into_iter().map(|entry| entry.name).filter(|name| !name.starts_with('.')).collect())
    }

    /// All workspaces, in the order of their folders' names.
    ///
    /// # Errors
    /// System errors in listing; what is wrong with one workspace stands in its entry.
    pub fn workspaces(&self) -> Result<Vec<WorkspaceEntry>> {
        let dir = self.inner.root.join("workspaces");
        let entries = self.inner.vfs.list(&dir).context("list", &dir)?;
        Ok(entries
            .into_iter()
            .filter(|entry| !entry.name.starts_with('.'))
            .map(|entry| {
                let path = dir.join(&entry.name);
                let meta = match entry.kind {
                    FileKind::Dir => read_workspace_meta(&*self.inner.vfs, &path),
                    kind => {
                        let why = format!("{kind:?} where a workspace's folder should be");
                        Err(Error::new(ErrorKind::Foreign { what: "workspace", why }, "read", &path))
                    }
                };
                WorkspaceEntry { name: entry.name, meta }
            })
            .collect())
    }

    /// Opens the workspace of a folder or key; makes it if it is absent and the store may create.
    ///
    /// # Errors
    /// As [`Store::open`], and what [`Log::open`] says.
    ///
    /// # Blocking
    /// Making one takes the store's BIND lock, for which it waits as commits wait for theirs; opening never waits.
    pub fn workspace(&self, place: &Place) -> Result<Workspace> {
        let binding = place.binding(&*self.inner.vfs)?;
        if let Some(name) = self.find(&binding)? {
            return self.workspace_named(&name);
        }
        if self.inner.session.is_none() || !self.options.create {
            let what = format!("a workspace for {}", show(&binding));
            return Err(Error::new(ErrorKind::NotFound { what }, "open", &self.inner.root));
        }
        let name = create::workspace(
            &self.inner.vfs,
            &self.inner.root,
            &binding,
            self.options.settings.lock_timeout,
            &|| self.find(&binding),
        )?;
        self.workspace_named(&name)
    }

    /// The name of the folder of the workspace that a folder or key leads to; `None` if there is none.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a place that cannot be one; system errors.
    pub fn find_workspace(&self, place: &Place) -> Result<Option<String>> {
        self.find(&place.binding(&*self.inner.vfs)?)
    }

    /// The folder of a workspace by that folder's name, whether it exists or not.
    pub fn workspace_dir(&self, name: &str) -> PathBuf {
        self.inner.root.join("workspaces").join(name)
    }

    /// The folder of the workspace that a binding leads to: by its hash, or by what a META says it is bound to.
    fn find(&self, binding: &Binding) -> Result<Option<String>> {
        let suffix = format!("-{}", place::hash(binding));
        let dir = self.inner.root.join("workspaces");
        let entries = self.inner.vfs.list(&dir).context("list", &dir)?;
        let mut named = entries.iter().filter(|e| !e.name.starts_with('.') && e.kind == FileKind::Dir);
        if let Some(entry) = named.clone().find(|entry| entry.name.ends_with(&suffix)) {
            return Ok(Some(entry.name.clone()));
        }
        let wanted_id = self.folder_id(binding);
        Ok(named
            .find(|entry| {
                // A workspace whose META cannot be read is bound to nothing that could be found out here.
                read_workspace_meta(&*self.inner.vfs, &dir.join(&entry.name)).is_ok_and(|meta| {
                    meta.bindings.iter().any(|bound| {
                        bound == binding
                            || wanted_id.is_some_and(|wanted| self.folder_id(bound) == Some(wanted))
                    })
                })
            })
            .map(|entry| entry.name.clone()))
    }

    fn folder_id(&self, binding: &Binding) -> Option<FileId> {
        let Binding::Path(path) = binding else { return None };
        self.inner
            .vfs
            .stat(Path::new(path))
            .ok()
            .filter(|stat| stat.kind == FileKind::Dir)
            .map(|stat| stat.id)
    }

    /// Opens a workspace by its folder's name.
    ///
    /// # Errors
    /// As [`Store::workspace`].
    pub fn workspace_named(&self, name: &str) -> Result<Workspace> {
        let vfs = &self.inner.vfs;
        let dir = self.inner.root.join("workspaces").join(name);
        if name.contains(['/', '\\']) || name.starts_with('.') {
            let why = "not the name of a workspace's folder".into();
            return Err(Error::new(ErrorKind::Invalid { what: "workspace", why }, "open", &dir));
        }
        let meta = read_workspace_meta(&**vfs, &dir)?;
        let paths = Paths::new(&dir);
        if let Some(finding) = create::missing_part(&**vfs, &paths)? {
            // Taken away as a whole since its META was read: that is no damage.
            read_workspace_meta(&**vfs, &dir)?;
            return Err(Error::new(ErrorKind::Damaged(Box::new(finding)), "open", &dir));
        }
        let open = || {
            Log::open(
                Arc::clone(vfs),
                paths.clone(),
                meta.clone(),
                self.options.settings.clone(),
                self.inner.root.join("sessions"),
                self.inner.session.clone(),
                self.inner.barrier.clone(),
            )
        };
        let (log, report) = if self.inner.session.is_none() {
            open()?
        } else {
            let lock = paths.lock();
            let key = key(&**vfs, vfs.stat(&lock).context("look at", &lock)?.id);
            let known = registry(&**vfs).lock().logs.get(&key).and_then(Weak::upgrade);
            match known {
                Some(log) => (Arc::clone(&log), log.report()),
                None => {
                    let (log, report) = open()?;
                    match share_log(&**vfs, key, &log) {
                        None => (log, report),
                        // Another thread was quicker; its engine is the one.
                        Some(first) => (Arc::clone(&first), first.report()),
                    }
                }
            }
        };
        if log.settings().fold != self.options.settings.fold {
            let why = format!(
                "this process has the workspace open with another fold ({:?}); open all its handles alike",
                log.settings().fold
            );
            return Err(Error::new(ErrorKind::Invalid { what: "options", why }, "open", &dir));
        }
        Ok(Workspace {
            log,
            name: name.to_owned(),
            report,
            store: Arc::clone(&self.inner),
            followers: Arc::default(),
        })
    }

    /// Ends this handle. The session ends with the store's last handle and last workspace in this process.
    pub fn close(self) {}
}

/// One workspace's log, open. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Workspace {
    log: Arc<Log>,
    name: String,
    report: OpenReport,
    store: Arc<Inner>,
    /// Subscriptions that were made through this handle or a clone of it.
    followers: Arc<Followers>,
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inner").field("root", &self.root).finish_non_exhaustive()
    }
}

impl Workspace {
    /// Commits what the closure puts into the draft; see [`Log::commit`].
    ///
    /// # Errors
    /// As there.
    pub fn commit(
        &self,
        durability: Durability,
        closure: impl FnOnce(&State, &mut Draft) -> Result<()> + Send + 'static,
    ) -> Result<Receipt> {
        self.log.commit(durability, closure)
    }

    /// Reads on to what others have committed and hands out the state; see [`Log::read`].
    ///
    /// # Errors
    /// As there.
    pub fn read<T>(&self, look: impl FnOnce(&State) -> T) -> Result<T> {
        self.log.read(look)
    }

    /// Hands out a state that is as new as asked for; see [`Log::read_at`].
    ///
    /// # Errors
    /// As there.
    pub fn read_at<T>(&self, consistency: Consistency, look: impl FnOnce(&State) -> T) -> Result<T> {
        self.log.read_at(consistency, look)
    }

    /// A state that is as new as asked for and never changes; see [`Log::view`].
    ///
    /// # Errors
    /// As there.
    pub fn view(&self, consistency: Consistency) -> Result<Arc<State>> {
        self.log.view(consistency)
    }

    /// Waits until a commit is durable, whoever makes it so; see [`Log::wait_durable`].
    ///
    /// # Errors
    /// As there.
    pub fn wait_durable(&self, receipt: &Receipt, patience: Duration) -> Result<()> {
        self.log.wait_durable(receipt, patience)
    }

    /// Stores contents as blobs, durably, for events to name; see [`Log::put_blobs`].
    ///
    /// # Errors
    /// As there.
    pub fn put_blobs(&self, contents: &[&[u8]]) -> Result<Vec<BlobId>> {
        self.log.put_blobs(contents)
    }

    /// The contents of a blob; see [`Log::blob`].
    ///
    /// # Errors
    /// As there.
    pub fn blob(&self, id: &BlobId) -> Result<Vec<u8>> {
        self.log.blob(id)
    }

    /// Streams commits from some place on; see [`Log::subscribe`]. Waiting ends when this handle is closed, or it and its
    /// last clone are dropped.
    ///
    /// # Errors
    /// As there.
    pub fn subscribe(&self, since: Since) -> Result<Subscription> {
        self.log.subscribe_with(since, &self.followers)
    }

    /// Writes a snapshot now; see [`Log::snapshot`].
    ///
    /// # Errors
    /// As there.
    pub fn snapshot(&self) -> Result<Option<SnapshotReport>> {
        self.log.snapshot()
    }

    /// Has old segments written anew, smaller, behind a snapshot; see [`Log::compact`].
    ///
    /// # Errors
    /// As there, and as [`Log::snapshot`].
    pub fn compact(&self, progress: CompactProgress<'_>) -> Result<Option<CompactReport>> {
        self.log.snapshot()?;
        self.log.compact(progress)
    }

    /// Makes everything committed so far durable; see [`Log::flush`].
    ///
    /// # Errors
    /// As there.
    pub fn flush(&self) -> Result<()> {
        self.log.flush()
    }

    /// Does what is due, where no housekeeping thread does; see [`Log::tick`].
    ///
    /// # Errors
    /// As there.
    pub fn tick(&self) -> Result<Option<Duration>> {
        self.log.tick()
    }

    /// What can be done with it, and what was found since it was opened.
    pub fn health(&self) -> Health {
        self.log.health()
    }

    /// What opening it found and did.
    pub fn open_report(&self) -> &OpenReport {
        &self.report
    }

    /// Name of its folder.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The engine.
    pub fn log(&self) -> &Arc<Log> {
        &self.log
    }

    /// Syncs, vouches for the end, and ends this handle; dropping the last handle does the same if nothing is in the way.
    ///
    /// # Errors
    /// As [`Log::flush`]. The handle is gone in any case.
    pub fn close(self) -> Result<()> {
        self.followers.stop();
        self.log.settle()
    }
}

fn absent(root: &Path, what: &str) -> Error {
    Error::new(ErrorKind::NotFound { what: what.into() }, "open", root)
}

/// A binding for people.
pub fn show(binding: &Binding) -> String {
    match binding {
        Binding::None => "(no folder)".into(),
        Binding::Path(path) => path.clone(),
        Binding::Key(key) => format!("key {key}"),
    }
}

/// A whole small file.
fn read_small(vfs: &dyn Vfs, path: &Path, len_max: usize) -> io::Result<Vec<u8>> {
    let file = vfs.open(path, Open::Read)?;
    let len = usize::try_from(file.stat()?.len).unwrap_or(usize::MAX).min(len_max + 1);
    let mut bytes = vec![0; len];
    let n = read_full(&*file, &mut bytes, 0)?;
    bytes.truncate(n);
    Ok(bytes)
}

/// A META's fault as the error it is.
fn bad_meta(bad: BadMeta, path: &Path, what: &'static str) -> Error {
    let kind = match bad {
        BadMeta::Magic => ErrorKind::Foreign { what, why: bad.to_string() },
        BadMeta::TooNew { what, need, have } => ErrorKind::TooNew { what: what.into(), need, have },
        BadMeta::Damaged(why) => ErrorKind::Damaged(Box::new(Finding {
            severity: Severity::Damage,
            code: "bad-meta",
            file: path.into(),
            offset: None,
            seq: None,
            message: format!("META is damaged: {why}"),
            remedy: "bring META back from a copy; the log itself is untouched",
        })),
    };
    Error::new(kind, "read", path)
}

fn read_workspace_meta(vfs: &dyn Vfs, dir: &Path) -> Result<WorkspaceMeta> {
    let path = dir.join("META");
    match read_small(vfs, &path, crate::log::format::META_LEN_MAX) {
        Ok(bytes) => WorkspaceMeta::decode(&bytes).map_err(|bad| bad_meta(bad, &path, "workspace")),
        // A folder without META that stands under a workspace's name has lost it: made ones come whole, by one rename.
        Err(e) if e.kind() == io::ErrorKind::NotFound && vfs.stat(dir).is_ok() => {
            Err(bad_meta(BadMeta::Damaged("it is missing"), &path, "workspace"))
        }
        Err(e) => Err(Error::io(e, "read", &path)),
    }
}

#[cfg(test)]
mod tests;
