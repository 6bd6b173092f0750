//! What is on the disk and what only the page cache knows: inodes, names, and the durable side of both.
//!
//! ```text
//!  live ──────────── what every process sees
//!    ▲ changes       writes and lengths since the last sync, in order
//!  base ──────────── what the cache held when the last sync ended (differs from durable only after a failed one)
//!  durable ───────── what a power cut cannot take
//! ```
//!
//! Names work likewise: each folder has live and durable names, and the disk a list of name operations in between.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hasher};
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use super::image::{Image, PAGE};
use super::profile::{NameOrder, Profile};
use crate::vfs::FileKind;

pub(crate) type Ino = u64;
pub(crate) const ROOT: Ino = 1;
const SYMLINKS_MAX: usize = 16;
/// Permissions of what is new.
const MODE: u32 = 0o600;

/// Everything that is on the disk at one moment, un-synced parts included. A clone costs a few pointers.
#[derive(Clone, Debug)]
pub struct DiskState {
    inodes: Arc<BTreeMap<Ino, Arc<Inode>>>,
    /// Un-synced operations on names, oldest first.
    names: Arc<Vec<NameOp>>,
    next: Ino,
    /// How often the power was cut.
    boots: u64,
    profile: Profile,
    calm: bool,
    /// How a power cut made this state.
    origin: Arc<str>,
}

#[derive(Clone, Debug)]
pub(crate) struct Inode {
    pub(crate) links: u64,
    durable_links: u64,
    /// Permissions, which nobody is refused by: whoever asks is told. At once on the disk.
    pub(crate) mode: u32,
    pub(crate) node: Node,
}

#[derive(Clone, Debug)]
pub(crate) enum Node {
    File(FileNode),
    Dir(DirNode),
    Symlink(PathBuf),
    Other,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct DirNode {
    pub(crate) live: BTreeMap<String, Ino>,
    durable: BTreeMap<String, Ino>,
}

#[derive(Clone, Debug)]
pub(crate) struct FileNode {
    pub(crate) live: Image,
    /// `None` on a calm disk, which never loses anything.
    pub(crate) unsynced: Option<Unsynced>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Unsynced {
    pub(crate) durable: Image,
    /// `None` = the same as `durable`.
    pub(crate) base: Option<Image>,
    pub(crate) changes: Vec<Change>,
}

#[derive(Clone, Debug)]
pub(crate) enum Change {
    Write { offset: u64, data: Arc<[u8]> },
    SetLen(u64),
}

impl Change {
    /// Pages that the change makes dirty in a file of `len` bytes.
    pub(crate) fn pages(&self, len: u64) -> std::ops::RangeInclusive<u64> {
        let (from, to) = match self {
            Change::Write { offset, data } => (*offset, offset + data.len() as u64),
            Change::SetLen(n) => (*n.min(&len), len),
        };
        from / PAGE as u64..=to.max(from + 1).saturating_sub(1) / PAGE as u64
    }

    pub(crate) fn apply(&self, image: &mut Image) {
        match self {
            Change::Write { offset, data } => image.write(data, *offset),
            Change::SetLen(n) => image.set_len(*n),
        }
    }
}

/// One un-synced operation on names. What it removes and what it adds happen together.
#[derive(Clone, Debug)]
pub(crate) struct NameOp {
    removes: Option<(Ino, String)>,
    adds: Option<(Ino, String, Ino)>,
    /// A folder that must be empty for this to be possible.
    empties: Option<Ino>,
}

impl NameOp {
    fn keys(&self) -> impl Iterator<Item = (Ino, &str)> {
        let removed = self.removes.as_ref().map(|(d, n)| (*d, n.as_str()));
        removed.into_iter().chain(self.adds.as_ref().map(|(d, n, _)| (*d, n.as_str())))
    }

    fn touches(&self, dir: Ino) -> bool {
        self.keys().any(|(d, _)| d == dir)
    }

    /// Whether `self` cannot be on disk without `earlier`.
    pub(crate) fn needs(&self, earlier: &NameOp, order: NameOrder) -> bool {
        match order {
            NameOrder::Journal => true,
            _ if self.empties.is_some_and(|d| earlier.touches(d)) => true,
            NameOrder::Folder => self.keys().any(|(d, _)| earlier.touches(d)),
            NameOrder::Any => self.keys().any(|k| earlier.keys().any(|e| e == k)),
        }
    }
}

/// Where a path leads.
pub(crate) struct Place {
    pub(crate) dir: Ino,
    /// `None` for the root.
    pub(crate) name: Option<String>,
    /// `None` if the name does not exist.
    pub(crate) ino: Option<Ino>,
    real: Vec<String>,
}

impl Place {
    /// The name in its folder; the root has none and can be neither made nor removed.
    pub(crate) fn name(&self) -> io::Result<&str> {
        self.name.as_deref().ok_or_else(|| io::ErrorKind::PermissionDenied.into())
    }

    pub(crate) fn existing(&self) -> io::Result<Ino> {
        self.ino.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    pub(crate) fn real(&self) -> PathBuf {
        // As the library itself joins: a path has one spelling, on whatever system this runs.
        self.real.iter().fold(PathBuf::from("/"), |path, name| path.join(name))
    }
}

/// What a failed sync leaves of a file's dirty pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flush {
    Done,
    Dropped,
}

impl DiskState {
    /// An empty disk: nothing but the root folder.
    pub fn empty(profile: Profile) -> Self {
        Self::new(profile, false)
    }

    pub(crate) fn new(profile: Profile, calm: bool) -> Self {
        let root = Inode { links: 1, durable_links: 1, mode: MODE, node: Node::Dir(DirNode::default()) };
        DiskState {
            inodes: Arc::new(BTreeMap::from([(ROOT, Arc::new(root))])),
            names: Arc::default(),
            next: ROOT + 1,
            boots: 0,
            profile,
            calm,
            origin: "made".into(),
        }
    }

    /// Whose rules the disk follows.
    pub fn profile(&self) -> Profile {
        self.profile
    }

    /// How often the power was cut on the way to this state.
    pub fn boots(&self) -> u64 {
        self.boots
    }

    /// How this state came about, for failure messages.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// The disk after every process was killed: the page cache lives on, so nothing is lost.
    #[must_use]
    pub fn process_kill(&self) -> DiskState {
        DiskState { origin: "all processes killed".into(), ..self.clone() }
    }

    /// The disk after a power cut before which everything had been written back.
    #[must_use]
    pub fn all_synced(&self) -> DiskState {
        let names = vec![true; self.names.len()];
        let files = self.files().map(|(ino, file)| (ino, file.live.clone())).collect();
        self.after_crash(&names, files, "everything written back".into())
    }

    /// The contents of a file as processes see them; `None` if there is no such file.
    pub fn read(&self, path: impl AsRef<Path>) -> Option<Vec<u8>> {
        let ino = self.find(path.as_ref()).ok()?.ino?;
        Some(self.file(ino).ok()?.live.to_vec())
    }

    /// Every name on the disk as processes see it, depth first: path, what it is, length.
    pub fn tree(&self) -> Vec<(String, FileKind, u64)> {
        let mut found = Vec::new();
        self.walk(ROOT, "", &mut |path, inode| {
            let len = if let Node::File(f) = &inode.node { f.live.len() } else { 0 };
            found.push((path.to_owned(), inode.kind(), len));
        });
        found
    }

    fn walk(&self, dir: Ino, prefix: &str, visit: &mut impl FnMut(&str, &Inode)) {
        let Ok(node) = self.dir(dir) else { return };
        for (name, &ino) in &node.live {
            if let Some(inode) = self.inodes.get(&ino) {
                let path = format!("{prefix}/{name}");
                visit(&path, inode);
                self.walk(ino, &path, visit);
            }
        }
    }

    /// A hash of all that processes can see: names and contents. Equal for equal trees, however they came about.
    pub fn content_hash(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.hash_dir(ROOT, &mut hasher);
        hasher.finish()
    }

    fn hash_dir(&self, dir: Ino, hasher: &mut DefaultHasher) {
        let Ok(node) = self.dir(dir) else { return };
        hasher.write_usize(node.live.len());
        for (name, &ino) in &node.live {
            hasher.write(name.as_bytes());
            match self.inodes.get(&ino).map(|i| &i.node) {
                Some(Node::File(file)) => {
                    hasher.write_u8(1);
                    file.live.hash(hasher);
                }
                Some(Node::Dir(_)) => {
                    hasher.write_u8(2);
                    self.hash_dir(ino, hasher);
                }
                Some(Node::Symlink(to)) => hasher.write(to.to_string_lossy().as_bytes()),
                _ => hasher.write_u8(3),
            }
        }
    }

    /// Changes a file behind everybody's back, as bit rot or an operator would: on the disk and in the page cache.
    ///
    /// What was un-synced in that file is durable afterwards.
    ///
    /// # Errors
    /// Whatever opening the file would say.
    pub fn mutate(&mut self, path: impl AsRef<Path>, change: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
        let ino = self.find(path.as_ref())?.existing()?;
        let file = self.file_mut(ino)?;
        let mut bytes = file.live.to_vec();
        change(&mut bytes);
        file.live = Image::from_bytes(&bytes);
        if let Some(unsynced) = &mut file.unsynced {
            *unsynced = Unsynced { durable: file.live.clone(), ..Unsynced::default() };
        }
        Ok(())
    }

    /// Puts a durable file in place, with every folder above it that is missing; an old one is replaced.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotADirectory`] where a file is in the way.
    pub fn plant(&mut self, path: impl AsRef<Path>, bytes: &[u8]) -> io::Result<()> {
        let image = Image::from_bytes(bytes);
        let unsynced = Unsynced { durable: image.clone(), ..Unsynced::default() };
        let file = FileNode { live: image, unsynced: (!self.calm).then_some(unsynced) };
        self.plant_node(path.as_ref(), Node::File(file))
    }

    /// Puts a durable symbolic link in place.
    ///
    /// # Errors
    /// As [`DiskState::plant`].
    pub fn plant_symlink(&mut self, path: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<()> {
        self.plant_node(path.as_ref(), Node::Symlink(to.as_ref().to_owned()))
    }

    /// Gives a file these permissions, as `chmod` does.
    ///
    /// # Errors
    /// If it is not there.
    pub fn chmod(&mut self, path: impl AsRef<Path>, mode: u32) -> io::Result<()> {
        let ino = self.find(path.as_ref())?.existing()?;
        self.set_mode(ino, mode)
    }

    /// A file's permissions.
    ///
    /// # Errors
    /// If it is not there.
    pub fn mode(&self, path: impl AsRef<Path>) -> io::Result<u32> {
        Ok(self.inode(self.find(path.as_ref())?.existing()?)?.mode)
    }

    pub(crate) fn set_mode(&mut self, ino: Ino, mode: u32) -> io::Result<()> {
        self.inode_mut(ino)?.mode = mode;
        Ok(())
    }

    /// Puts something in place that is neither file, folder nor link, such as a FIFO.
    ///
    /// # Errors
    /// As [`DiskState::plant`].
    pub fn plant_other(&mut self, path: impl AsRef<Path>) -> io::Result<()> {
        self.plant_node(path.as_ref(), Node::Other)
    }

    fn plant_node(&mut self, path: &Path, node: Node) -> io::Result<()> {
        let mut above = PathBuf::from("/");
        for part in path.parent().into_iter().flat_map(Path::components) {
            if let Component::Normal(part) = part {
                above.push(part);
                let place = self.find(&above)?;
                if place.ino.is_none() {
                    let ino = self.new_inode(Node::Dir(DirNode::default()));
                    self.add(place.dir, place.name()?, ino)?;
                    self.sync_dir(place.dir)?;
                }
            }
        }
        let place = self.find(path)?;
        if place.ino.is_some() {
            self.remove(place.dir, place.name()?)?;
        }
        let ino = self.new_inode(node);
        self.add(place.dir, place.name()?, ino)?;
        self.sync_dir(place.dir).map(drop)
    }

    // ---- inodes ----

    pub(crate) fn inode(&self, ino: Ino) -> io::Result<&Inode> {
        self.inodes.get(&ino).map(Arc::as_ref).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn inode_mut(&mut self, ino: Ino) -> io::Result<&mut Inode> {
        Arc::make_mut(&mut self.inodes)
            .get_mut(&ino)
            .map(Arc::make_mut)
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    pub(crate) fn file(&self, ino: Ino) -> io::Result<&FileNode> {
        match &self.inode(ino)?.node {
            Node::File(file) => Ok(file),
            Node::Dir(_) => Err(io::ErrorKind::IsADirectory.into()),
            _ => Err(io::ErrorKind::InvalidInput.into()),
        }
    }

    pub(crate) fn file_mut(&mut self, ino: Ino) -> io::Result<&mut FileNode> {
        match &mut self.inode_mut(ino)?.node {
            Node::File(file) => Ok(file),
            _ => Err(io::ErrorKind::InvalidInput.into()),
        }
    }

    pub(crate) fn dir(&self, ino: Ino) -> io::Result<&DirNode> {
        match &self.inode(ino)?.node {
            Node::Dir(dir) => Ok(dir),
            _ => Err(io::ErrorKind::NotADirectory.into()),
        }
    }

    fn dir_mut(&mut self, ino: Ino) -> io::Result<&mut DirNode> {
        match &mut self.inode_mut(ino)?.node {
            Node::Dir(dir) => Ok(dir),
            _ => Err(io::ErrorKind::NotADirectory.into()),
        }
    }

    pub(crate) fn files(&self) -> impl Iterator<Item = (Ino, &FileNode)> {
        self.inodes.iter().filter_map(|(ino, inode)| match &inode.node {
            Node::File(file) => Some((*ino, file)),
            _ => None,
        })
    }

    pub(crate) fn new_inode(&mut self, node: Node) -> Ino {
        let ino = self.next;
        self.next += 1;
        let inode = Inode { links: 0, durable_links: 0, mode: MODE, node };
        Arc::make_mut(&mut self.inodes).insert(ino, Arc::new(inode));
        ino
    }

    pub(crate) fn new_file(&mut self) -> Ino {
        let unsynced = (!self.calm).then(Unsynced::default);
        self.new_inode(Node::File(FileNode { live: Image::default(), unsynced }))
    }

    /// Frees the inode if neither a name nor the disk can ever lead to it again and nobody has it open.
    pub(crate) fn collect(&mut self, ino: Ino) {
        let Ok(inode) = self.inode(ino) else { return };
        let pending = || self.names.iter().any(|op| op.adds.as_ref().is_some_and(|(_, _, i)| *i == ino));
        if inode.links == 0 && inode.durable_links == 0 && !pending() {
            Arc::make_mut(&mut self.inodes).remove(&ino);
        }
    }

    /// Bytes that files take: those with a name, and those for which `open` says yes.
    pub(crate) fn used(&self, open: impl Fn(Ino) -> bool) -> u64 {
        let pages = |(ino, inode): (&Ino, &Arc<Inode>)| match &inode.node {
            Node::File(file) if inode.links > 0 || open(*ino) => file.live.allocated(),
            _ => 0,
        };
        self.inodes.iter().map(pages).sum::<u64>() * PAGE as u64
    }

    // ---- contents ----

    pub(crate) fn change(&mut self, ino: Ino, change: Change) -> io::Result<()> {
        let file = self.file_mut(ino)?;
        change.apply(&mut file.live);
        if let Some(unsynced) = &mut file.unsynced {
            unsynced.changes.push(change);
        }
        Ok(())
    }

    pub(crate) fn write(&mut self, ino: Ino, data: &[u8], offset: u64) -> io::Result<()> {
        let file = self.file_mut(ino)?;
        file.live.write(data, offset);
        if let Some(unsynced) = &mut file.unsynced {
            unsynced.changes.push(Change::Write { offset, data: data.into() });
        }
        Ok(())
    }

    /// A store into mapped memory. A power cut leaves the sector as it was synced last or as it is by now: what it
    /// held in between is forgotten, so that hints do not multiply the states that a test has to go through.
    pub(crate) fn write_mapped(&mut self, ino: Ino, data: &[u8], offset: u64) -> io::Result<()> {
        const SECTOR: usize = 512;
        let file = self.file_mut(ino)?;
        file.live.write(data, offset);
        if let Some(unsynced) = &mut file.unsynced {
            let start = offset - offset % SECTOR as u64;
            let mut sector = vec![0; SECTOR];
            let n = file.live.read(&mut sector, start);
            sector.truncate(n);
            let stale = |change: &Change| matches!(change, Change::Write { offset, data } if *offset == start && data.len() == n);
            unsynced.changes.retain(|change| !stale(change));
            unsynced.changes.push(Change::Write { offset: start, data: sector.into() });
        }
        Ok(())
    }

    /// Ends a sync of contents and length: dirty pages are clean now, written or not.
    pub(crate) fn flush(&mut self, ino: Ino, how: Flush) -> io::Result<()> {
        let FileNode { live, unsynced } = self.file_mut(ino)?;
        let Some(unsynced) = unsynced else { return Ok(()) };
        match how {
            Flush::Done => {
                let mut len = unsynced.base.as_ref().unwrap_or(&unsynced.durable).len();
                for change in &unsynced.changes {
                    for page in change.pages(len) {
                        if let Ok(page) = usize::try_from(page) {
                            unsynced.durable.copy_page(live, page);
                        }
                    }
                    len = match change {
                        Change::Write { offset, data } => len.max(offset + data.len() as u64),
                        Change::SetLen(n) => *n,
                    };
                }
                unsynced.durable.cut_to(live.len());
                if unsynced.base.is_some() {
                    unsynced.base = Some(live.clone());
                }
            }
            Flush::Dropped => unsynced.base = Some(live.clone()),
        }
        unsynced.changes.clear();
        Ok(())
    }

    /// Makes all names and contents durable. Returns what lost a durable name, for [`DiskState::collect`].
    pub(crate) fn sync_all(&mut self) -> Vec<Ino> {
        for ino in self.files().map(|(ino, _)| ino).collect::<Vec<_>>() {
            if let Ok(file) = self.file_mut(ino)
                && let Some(unsynced) = &mut file.unsynced
            {
                *unsynced = Unsynced { durable: file.live.clone(), ..Unsynced::default() };
            }
        }
        self.sync_all_names()
    }

    /// Throws clean pages out of the page cache: from now on everybody reads what the disk has.
    pub(crate) fn evict(&mut self) {
        let files: Vec<Ino> = self.files().map(|(ino, _)| ino).collect();
        for ino in files {
            let Ok(FileNode { live, unsynced: Some(unsynced) }) = self.file_mut(ino) else { continue };
            let Some(base) = unsynced.base.take() else { continue };
            // Pages that were dirtied again hold what the cache held, dropped bytes included, and stay.
            let mut now = unsynced.durable.clone();
            let mut changes = vec![Change::SetLen(base.len())];
            let mut work = base;
            for change in &unsynced.changes {
                for page in change.pages(work.len()) {
                    let mut bytes = vec![0; PAGE];
                    let n = work.read(&mut bytes, page * PAGE as u64);
                    bytes.truncate(n);
                    changes.push(Change::Write { offset: page * PAGE as u64, data: bytes.into() });
                }
                change.apply(&mut work);
                changes.push(change.clone());
            }
            for change in &changes {
                change.apply(&mut now);
            }
            *live = now;
            unsynced.changes = changes;
        }
    }

    // ---- names ----

    /// Follows `path`; every part but the last must exist, symbolic links in those parts are followed.
    pub(crate) fn find(&self, path: &Path) -> io::Result<Place> {
        self.find_from(path, 0, false)
    }

    /// As [`DiskState::find`], following a final link too.
    pub(crate) fn find_followed(&self, path: &Path) -> io::Result<Place> {
        self.find_from(path, 0, true)
    }

    fn find_from(&self, path: &Path, depth: usize, follow: bool) -> io::Result<Place> {
        if depth > SYMLINKS_MAX {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut parts: Vec<(String, Ino)> = Vec::new();
        let mut place = Place { dir: ROOT, name: None, ino: Some(ROOT), real: Vec::new() };
        let mut components = path.components();
        while let Some(component) = components.next() {
            let name = match component {
                Component::ParentDir => {
                    parts.pop();
                    None
                }
                Component::Normal(name) => Some(name.to_string_lossy().into_owned()),
                _ => continue,
            };
            let at = parts.last().map_or(ROOT, |(_, ino)| *ino);
            let Some(name) = name else {
                place = Place { dir: at, name: None, ino: Some(at), real: Vec::new() };
                continue;
            };
            let ino = self.dir(at)?.live.get(&name).copied();
            let rest = components.as_path();
            let last = rest.as_os_str().is_empty();
            if let Some(Node::Symlink(to)) = ino.and_then(|i| self.inodes.get(&i)).map(|i| &i.node)
                && (!last || follow)
            {
                let above: PathBuf = parts.iter().map(|(n, _)| n.as_str()).collect();
                let target = if to.has_root() { to.clone() } else { above.join(to) };
                return self.find_from(&target.join(rest), depth + 1, follow);
            }
            place = Place { dir: at, name: Some(name.clone()), ino, real: Vec::new() };
            match ino {
                Some(ino) => parts.push((name, ino)),
                None if last => parts.push((name, 0)),
                None => return Err(io::ErrorKind::NotFound.into()),
            }
        }
        place.real = parts.into_iter().map(|(name, _)| name).collect();
        Ok(place)
    }

    fn log(&mut self, op: NameOp) {
        if !self.calm {
            Arc::make_mut(&mut self.names).push(op);
        }
    }

    /// Adds a name. It must not exist.
    pub(crate) fn add(&mut self, dir: Ino, name: &str, ino: Ino) -> io::Result<()> {
        self.dir_mut(dir)?.live.insert(name.to_owned(), ino);
        self.inode_mut(ino)?.links += 1;
        self.log(NameOp { removes: None, adds: Some((dir, name.to_owned(), ino)), empties: None });
        Ok(())
    }

    /// Removes a name; returns what it stood for, which [`DiskState::collect`] may then free.
    pub(crate) fn remove(&mut self, dir: Ino, name: &str) -> io::Result<Ino> {
        let ino = self.dir_mut(dir)?.live.remove(name).ok_or(io::ErrorKind::NotFound)?;
        let inode = self.inode_mut(ino)?;
        inode.links = inode.links.saturating_sub(1);
        let empties = matches!(inode.node, Node::Dir(_)).then_some(ino);
        self.log(NameOp { removes: Some((dir, name.to_owned())), adds: None, empties });
        Ok(ino)
    }

    /// Moves a name, replacing `to` if it exists; returns what was replaced.
    pub(crate) fn move_name(&mut self, from: (Ino, &str), to: (Ino, &str)) -> io::Result<Option<Ino>> {
        let ino = self.dir_mut(from.0)?.live.remove(from.1).ok_or(io::ErrorKind::NotFound)?;
        let old = self.dir_mut(to.0)?.live.insert(to.1.to_owned(), ino);
        let mut empties = None;
        if let Some(old) = old {
            let inode = self.inode_mut(old)?;
            inode.links = inode.links.saturating_sub(1);
            empties = matches!(inode.node, Node::Dir(_)).then_some(old);
        }
        let removes = Some((from.0, from.1.to_owned()));
        self.log(NameOp { removes, adds: Some((to.0, to.1.to_owned(), ino)), empties });
        Ok(old)
    }

    /// Whether `ino` is `above` or lies below it.
    pub(crate) fn is_below(&self, ino: Ino, above: Ino) -> bool {
        let Ok(dir) = self.dir(above) else { return ino == above };
        ino == above || dir.live.values().any(|&child| self.is_below(ino, child))
    }

    /// Makes the names in `dir` durable, with what they cannot be durable without.
    ///
    /// Returns what lost a durable name, for [`DiskState::collect`].
    pub(crate) fn sync_dir(&mut self, dir: Ino) -> io::Result<Vec<Ino>> {
        self.dir(dir)?;
        Ok(self.sync_names(|op| op.touches(dir)))
    }

    pub(crate) fn sync_all_names(&mut self) -> Vec<Ino> {
        self.sync_names(|_| true)
    }

    fn sync_names(&mut self, wanted: impl Fn(&NameOp) -> bool) -> Vec<Ino> {
        if self.names.is_empty() {
            return Vec::new();
        }
        let ops = std::mem::take(&mut self.names);
        let mut chosen: Vec<bool> = ops.iter().map(wanted).collect();
        for later in (0..ops.len()).rev() {
            let Some(op) = ops.get(later).filter(|_| chosen.get(later) == Some(&true)) else { continue };
            for (flag, earlier) in chosen.iter_mut().zip(ops.iter()).take(later) {
                *flag = *flag || op.needs(earlier, NameOrder::Any);
            }
        }
        let mut dropped = Vec::new();
        let mut left = Vec::new();
        for (op, chosen) in ops.iter().zip(chosen) {
            if !chosen {
                left.push(op.clone());
                continue;
            }
            if let Some((dir, name)) = &op.removes {
                let moved = op.adds.is_some();
                if let Some(ino) = self.durable_names(*dir).and_then(|d| d.remove(name)).filter(|_| !moved) {
                    dropped.push(ino);
                    self.count_durable(ino, -1);
                }
            }
            if let Some((dir, name, ino)) = &op.adds {
                let moved = op.removes.is_some();
                let old = self.durable_names(*dir).and_then(|d| d.insert(name.clone(), *ino));
                if let Some(old) = old {
                    dropped.push(old);
                    self.count_durable(old, -1);
                }
                if !moved {
                    self.count_durable(*ino, 1);
                }
            }
        }
        self.names = Arc::new(left);
        dropped
    }

    fn durable_names(&mut self, dir: Ino) -> Option<&mut BTreeMap<String, Ino>> {
        self.dir_mut(dir).ok().map(|d| &mut d.durable)
    }

    fn count_durable(&mut self, ino: Ino, by: i64) {
        if let Ok(inode) = self.inode_mut(ino) {
            inode.durable_links = inode.durable_links.saturating_add_signed(by);
        }
    }

    // ---- power cuts ----

    pub(crate) fn name_ops(&self) -> &[NameOp] {
        &self.names
    }

    /// The disk that boots after a power cut at which the flagged name operations and these file contents were on it.
    pub(crate) fn after_crash(
        &self,
        names: &[bool],
        mut files: BTreeMap<Ino, Image>,
        origin: Arc<str>,
    ) -> DiskState {
        let boots = self.boots + 1;
        if self.calm {
            return DiskState { boots, origin, ..self.clone() };
        }
        let mut dirs: BTreeMap<Ino, BTreeMap<String, Ino>> = BTreeMap::new();
        for (ino, inode) in self.inodes.iter() {
            if let Node::Dir(dir) = &inode.node {
                dirs.insert(*ino, dir.durable.clone());
            }
        }
        for (op, _) in self.names.iter().zip(names).filter(|(_, chosen)| **chosen) {
            if let Some((dir, name)) = &op.removes {
                dirs.get_mut(dir).and_then(|d| d.remove(name));
            }
            if let Some((dir, name, ino)) = &op.adds {
                dirs.get_mut(dir).and_then(|d| d.insert(name.clone(), *ino));
            }
        }
        let mut links: BTreeMap<Ino, u64> = BTreeMap::from([(ROOT, 1)]);
        let mut todo = vec![ROOT];
        while let Some(dir) = todo.pop() {
            for &child in dirs.get(&dir).into_iter().flat_map(BTreeMap::values) {
                let count = links.entry(child).or_default();
                *count += 1;
                if *count == 1 && dirs.contains_key(&child) {
                    todo.push(child);
                }
            }
        }
        let mut inodes = BTreeMap::new();
        for (&ino, &links) in &links {
            let Some(inode) = self.inodes.get(&ino) else { continue };
            let node = match &inode.node {
                Node::File(file) => {
                    let durable = file.unsynced.as_ref().map_or(&file.live, |u| &u.durable);
                    let image = files.remove(&ino).unwrap_or_else(|| durable.clone());
                    let unsynced = Unsynced { durable: image.clone(), ..Unsynced::default() };
                    Node::File(FileNode { live: image, unsynced: Some(unsynced) })
                }
                Node::Dir(_) => {
                    let names = dirs.remove(&ino).unwrap_or_default();
                    Node::Dir(DirNode { live: names.clone(), durable: names })
                }
                other => other.clone(),
            };
            inodes.insert(ino, Arc::new(Inode { links, durable_links: links, mode: inode.mode, node }));
        }
        DiskState {
            inodes: Arc::new(inodes),
            names: Arc::default(),
            next: self.next,
            boots,
            profile: self.profile,
            calm: false,
            origin,
        }
    }
}

impl Inode {
    pub(crate) fn kind(&self) -> FileKind {
        match self.node {
            Node::File(_) => FileKind::File,
            Node::Dir(_) => FileKind::Dir,
            Node::Symlink(_) => FileKind::Symlink,
            Node::Other => FileKind::Other,
        }
    }
}
