//! A simulated process: the [`Vfs`] that the code under test is given.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::disk::{Change, DirNode, Flush, Ino, Node};
use super::faults::{Act, Effect, Op, eio};
use super::machine::{FILE_LEN_MAX, Maps, SimMachine, World, dead, micros};
use super::profile::Profile;
use super::scheduler::{self, Turn};
use crate::vfs::{
    Entry, Existing, FileId, FileKind, FileSystem, Mapped, Open, Process, Stat, Vfs, VfsFile, Words,
    not_opened_so,
};

/// A process on a [`SimMachine`], and the system as it sees it.
///
/// It has its own pid, its own [`Process::domain`], and its own descriptors. Clones are the same process. Under
/// [`SimMachine::run`] every call is a step of the schedule; otherwise calls just run.
///
/// Once it is [killed](SimMachine::kill) its calls do nothing and fail. A thread that a schedule runs is unwound at
/// its next call instead, without a panic message; calls that destructors make on the way do nothing and fail.
#[derive(Clone)]
pub struct SimProcess {
    pub(crate) machine: SimMachine,
    pub(crate) id: usize,
}

impl fmt::Debug for SimProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SimProcess({})", self.label())
    }
}

impl SimProcess {
    /// The machine it runs on.
    pub fn machine(&self) -> &SimMachine {
        &self.machine
    }

    /// The name it was started under.
    pub fn label(&self) -> Arc<str> {
        let world = self.machine.inner.world.lock();
        world.processes.get(self.id).map(|p| Arc::clone(&p.label)).unwrap_or_default()
    }

    /// Whether it has been neither killed nor, under a schedule, returned.
    pub fn is_alive(&self) -> bool {
        self.machine.inner.world.lock().is_alive(self.id)
    }

    /// Goes on as a forked child of itself: [`Process::forks`] is one more, the pid is another, and every open
    /// handle is shared with the parent, which makes no more calls but lives as long as the child.
    ///
    /// So dropping such a handle frees no lock, while unlocking it frees the parent's.
    pub fn become_forked_child(&self) {
        self.machine.inner.world.lock().fork(self.id);
    }

    fn call<T>(
        &self,
        act: &Act<'_>,
        run: impl FnOnce(&mut World, Option<Effect>) -> io::Result<T>,
    ) -> io::Result<T> {
        let mut world = self.machine.inner.world.lock();
        let turn = scheduler::enter(&mut world, self.id, act);
        if turn == Turn::Killed {
            drop(world);
            return scheduler::die();
        }
        if !world.is_alive(self.id) {
            return Err(dead());
        }
        let answer = world.begin(self.id, act).and_then(|effect| {
            let short = match turn {
                Turn::KilledAfter(Some(bytes)) if matches!(act.op, Op::Write | Op::Append) => {
                    Some(Effect::Short(bytes))
                }
                _ => effect,
            };
            let answer = run(&mut world, short)?;
            if effect == Some(Effect::DoneButFails) { Err(eio()) } else { Ok(answer) }
        });
        if matches!(turn, Turn::KilledAfter(_)) || std::mem::take(&mut world.deadly) {
            scheduler::leave(&mut world, self.id);
            drop(world);
            return scheduler::die();
        }
        answer
    }
}

fn place_stat(world: &World, ino: Ino) -> io::Result<Stat> {
    let inode = world.disk.inode(ino)?;
    let len = if let Node::File(file) = &inode.node { file.live.len() } else { 0 };
    let id = FileId { device: world.device, inode: u128::from(ino) };
    let read_only = inode.mode & 0o222 == 0;
    Ok(Stat { id, links: inode.links, len, kind: inode.kind(), read_only })
}

/// Windows: no new dealings with a file whose last name is going.
fn refuse_doomed(world: &World, ino: Ino) -> io::Result<()> {
    if world.doomed.contains_key(&ino) { Err(io::ErrorKind::PermissionDenied.into()) } else { Ok(()) }
}

fn refuse_open_as_lock(world: &World, ino: Ino) -> io::Result<()> {
    if world.profile.is_windows() && world.opens_of(ino).any(|o| o.how == Open::Lock) {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    refuse_doomed(world, ino)
}

fn open_ino(world: &mut World, path: &Path, how: Open) -> io::Result<Ino> {
    let place = world.disk.find(path)?;
    if matches!(how, Open::Create | Open::CreateLock) {
        if place.ino.is_some() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let ino = world.disk.new_file();
        world.disk.add(place.dir, place.name()?, ino)?;
        return Ok(ino);
    }
    let ino = place.existing()?;
    if world.disk.inode(ino)?.kind() != FileKind::File {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    if world.is_read_only() && matches!(how, Open::Write | Open::Append | Open::Lock) {
        return Err(io::ErrorKind::ReadOnlyFilesystem.into());
    }
    refuse_doomed(world, ino)?;
    Ok(ino)
}

fn rename(world: &mut World, from: &Path, to: &Path, existing: Existing) -> io::Result<()> {
    let (source, target) = (world.disk.find(from)?, world.disk.find(to)?);
    let ino = source.existing()?;
    let folder = world.disk.dir(ino).is_ok();
    if let Some(old) = target.ino {
        if existing == Existing::Keep {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        if old == ino {
            return Ok(());
        }
        match (folder, world.disk.dir(old)) {
            (true, Err(_)) => return Err(io::ErrorKind::NotADirectory.into()),
            (false, Ok(_)) => return Err(io::ErrorKind::IsADirectory.into()),
            (true, Ok(dir)) if !dir.live.is_empty() => return Err(io::ErrorKind::DirectoryNotEmpty.into()),
            _ => {}
        }
        if world.profile.is_windows() && (world.is_open(old) || world.doomed.contains_key(&old)) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
    }
    refuse_open_as_lock(world, ino)?;
    if folder {
        if world.disk.is_below(target.dir, ino) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        if world.profile.is_windows() && world.open_inodes().any(|open| world.disk.is_below(open, ino)) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
    }
    let replaced = world.disk.move_name((source.dir, source.name()?), (target.dir, target.name()?))?;
    world.collect(replaced);
    Ok(())
}

fn unlink(world: &mut World, path: &Path) -> io::Result<()> {
    let place = world.disk.find(path)?;
    let ino = place.existing()?;
    if world.disk.dir(ino).is_ok() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    refuse_open_as_lock(world, ino)?;
    if world.profile.is_windows() && world.is_open(ino) {
        world.doomed.insert(ino, (place.dir, place.name()?.to_owned()));
        return Ok(());
    }
    let gone = world.disk.remove(place.dir, place.name()?)?;
    world.collect([gone]);
    Ok(())
}

impl Vfs for SimProcess {
    fn open(&self, path: &Path, how: Open) -> io::Result<Box<dyn VfsFile>> {
        let op = if matches!(how, Open::Create | Open::CreateLock) { Op::Create } else { Op::Open };
        let (id, ino) = self.call(&Act::on(op, path), |world, effect| {
            let ino = open_ino(world, path, how)?;
            let id = world.add_open(ino, self.id, how);
            if effect == Some(Effect::DoneButFails) {
                world.close(id);
            }
            Ok((id, ino))
        })?;
        Ok(Box::new(SimFile { process: self.clone(), id, ino, how, path: path.into() }))
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.call(&Act::on(Op::CreateDir, path), |world, _| {
            let place = world.disk.find(path)?;
            if place.ino.is_some() {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            let ino = world.disk.new_inode(Node::Dir(DirNode::default()));
            world.disk.add(place.dir, place.name()?, ino)
        })
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.call(&Act::on(Op::RemoveDir, path), |world, _| {
            let place = world.disk.find(path)?;
            if !world.disk.dir(place.existing()?)?.live.is_empty() {
                return Err(io::ErrorKind::DirectoryNotEmpty.into());
            }
            let gone = world.disk.remove(place.dir, place.name()?)?;
            world.collect([gone]);
            Ok(())
        })
    }

    fn rename(&self, from: &Path, to: &Path, existing: Existing) -> io::Result<()> {
        let act = Act { to: Some(to), ..Act::on(Op::Rename, from) };
        self.call(&act, |world, _| rename(world, from, to, existing))
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.call(&Act { to: Some(to), ..Act::on(Op::Link, from) }, |world, _| {
            let ino = world.disk.find(from)?.existing()?;
            world.disk.file(ino)?;
            refuse_doomed(world, ino)?;
            let place = world.disk.find(to)?;
            if place.ino.is_some() {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            world.disk.add(place.dir, place.name()?, ino)
        })
    }

    fn unlink(&self, path: &Path) -> io::Result<()> {
        self.call(&Act::on(Op::Unlink, path), |world, _| unlink(world, path))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<Entry>> {
        self.call(&Act::on(Op::List, dir), |world, _| {
            let ino = world.disk.find_followed(dir)?.existing()?;
            let names = &world.disk.dir(ino)?.live;
            let entry = |(name, &ino): (&String, &Ino)| {
                Ok(Entry { name: name.clone(), kind: world.disk.inode(ino)?.kind() })
            };
            names.iter().map(entry).collect()
        })
    }

    fn stat(&self, path: &Path) -> io::Result<Stat> {
        self.call(&Act::on(Op::Stat, path), |world, _| {
            let ino = world.disk.find(path)?.existing()?;
            refuse_doomed(world, ino)?;
            place_stat(world, ino)
        })
    }

    fn keep_access(&self, of: &Path, on: &Path) -> io::Result<()> {
        self.call(&Act { to: Some(on), ..Act::on(Op::Access, of) }, |world, _| {
            let (of, on) = (world.disk.find(of)?.existing()?, world.disk.find(on)?.existing()?);
            let mode = world.disk.inode(of)?.mode;
            world.disk.set_mode(on, mode)
        })
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.call(&Act::on(Op::SyncDir, dir), |world, effect| {
            let ino = world.disk.find_followed(dir)?.existing()?;
            world.disk.dir(ino)?;
            if effect != Some(Effect::Lies) && !world.profile.is_windows() {
                let gone = world.disk.sync_dir(ino)?;
                world.collect(gone);
            }
            Ok(())
        })
    }

    fn canonicalize(&self, path: &Path) -> io::Result<PathBuf> {
        self.call(&Act::on(Op::Resolve, path), |world, _| world.real_path(path))
    }

    fn file_system(&self, path: &Path) -> io::Result<FileSystem> {
        self.call(&Act::on(Op::Resolve, path), |world, _| {
            world.disk.find_followed(path)?.existing()?;
            Ok(world.file_system.clone())
        })
    }

    fn now(&self) -> u64 {
        if let Some(host) = &self.machine.inner.host {
            return host.now();
        }
        let mut world = self.machine.inner.world.lock();
        world.clock += 1;
        world.now()
    }

    fn monotonic(&self) -> Duration {
        if let Some(host) = &self.machine.inner.host {
            return host.monotonic();
        }
        let mut world = self.machine.inner.world.lock();
        world.clock += 1;
        Duration::from_micros(world.clock)
    }

    fn sleep(&self, time: Duration) {
        if let Some(host) = &self.machine.inner.host {
            return host.sleep(time);
        }
        let act = Act { offset: micros(time), ..Act::on(Op::Sleep, Path::new("")) };
        // A dead process does not sleep either.
        let _ = self.call(&act, |world, _| {
            if world.sched.is_none() {
                world.clock = world.clock.saturating_add(act.offset);
            }
            Ok(())
        });
        std::thread::yield_now();
    }

    fn doze(&self, time: Duration) {
        match &self.machine.inner.host {
            Some(host) => host.doze(time),
            None => self.sleep(time),
        }
    }

    fn tells_all_of_failed_sync(&self) -> bool {
        self.machine.inner.world.lock().profile == Profile::Linux
    }

    fn boot_id(&self) -> Option<u128> {
        match &self.machine.inner.host {
            Some(host) => host.boot_id(),
            None => self.machine.inner.world.lock().boot_id,
        }
    }

    fn random(&self, buf: &mut [u8]) -> io::Result<()> {
        if let Some(host) = &self.machine.inner.host {
            return host.random(buf);
        }
        if let Some(process) = self.machine.inner.world.lock().processes.get_mut(self.id) {
            process.rng.fill(buf);
        }
        Ok(())
    }

    fn process(&self) -> Process {
        if let Some(host) = &self.machine.inner.host {
            return host.process();
        }
        let world = self.machine.inner.world.lock();
        let state = world.processes.get(self.id);
        state.map_or(Process { pid: 0, domain: 0, forks: 0 }, |p| Process {
            pid: p.pid,
            domain: p.domain,
            forks: p.forks,
        })
    }
}

/// An open file of a [`SimProcess`].
struct SimFile {
    process: SimProcess,
    id: u64,
    ino: Ino,
    how: Open,
    path: Arc<Path>,
}

impl fmt::Debug for SimFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SimFile({} as {:?})", self.path.display(), self.how)
    }
}

impl SimFile {
    fn call<T>(
        &self,
        op: Op,
        offset: u64,
        len: usize,
        run: impl FnOnce(&mut World, Option<Effect>) -> io::Result<T>,
    ) -> io::Result<T> {
        self.process.call(&Act { offset, len, ..Act::on(op, &self.path) }, run)
    }

    fn refuse_unwritable(&self) -> io::Result<()> {
        if matches!(self.how, Open::Read | Open::InUse | Open::Append) {
            Err(not_opened_so())
        } else {
            Ok(())
        }
    }

    fn refuse_if_it_only_appends(&self) -> io::Result<()> {
        if self.how == Open::Append { Err(not_opened_so()) } else { Ok(()) }
    }

    /// Windows: a locked file is for the holder alone.
    fn refuse_locked(&self, world: &World) -> io::Result<()> {
        if world.profile.is_windows() && world.locks.get(&self.ino).is_some_and(|holder| *holder != self.id) {
            return Err(io::Error::other("another handle has locked the file (simulated)"));
        }
        Ok(())
    }
}

impl VfsFile for SimFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.call(Op::Read, offset, buf.len(), |world, effect| {
            self.refuse_if_it_only_appends()?;
            self.refuse_locked(world)?;
            let want = if let Some(Effect::Short(n)) = effect { n.min(buf.len()) } else { buf.len() };
            let image = &world.disk.file(self.ino)?.live;
            Ok(image.read(buf.get_mut(..want).unwrap_or_default(), offset))
        })
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        self.call(Op::Write, offset, buf.len(), |world, effect| {
            self.refuse_unwritable()?;
            self.refuse_locked(world)?;
            let want = if let Some(Effect::Short(n)) = effect { n.min(buf.len()) } else { buf.len() };
            let fits = world.room(self.ino, offset, want)?;
            world.disk.write(self.ino, buf.get(..fits).unwrap_or_default(), offset)?;
            Ok(fits)
        })
    }

    /// Where the end is, is looked up in the same step in which it is written.
    fn append(&self, buf: &[u8]) -> io::Result<usize> {
        self.call(Op::Append, 0, buf.len(), |world, effect| {
            if self.how != Open::Append {
                return Err(not_opened_so());
            }
            self.refuse_locked(world)?;
            let want = if let Some(Effect::Short(n)) = effect { n.min(buf.len()) } else { buf.len() };
            let end = world.disk.file(self.ino)?.live.len();
            let fits = world.room(self.ino, end, want)?;
            world.disk.write(self.ino, buf.get(..fits).unwrap_or_default(), end)?;
            Ok(fits)
        })
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.call(Op::SetLen, len, 0, |world, _| {
            self.refuse_unwritable()?;
            if len > FILE_LEN_MAX {
                return Err(io::ErrorKind::FileTooLarge.into());
            }
            world.disk.change(self.ino, Change::SetLen(len))
        })
    }

    fn sync_data(&self) -> io::Result<()> {
        self.call(Op::Sync, 0, 0, |world, effect| {
            self.refuse_if_it_only_appends()?;
            let told = world.take_sync_failure(self.id);
            match effect {
                Some(Effect::Lies) => return Ok(()),
                Some(Effect::DropsPages) => {
                    world.drop_pages(self.ino, Some(self.id))?;
                    return Err(eio());
                }
                _ => {}
            }
            if world.profile.is_windows() {
                let gone = world.disk.sync_all_names();
                world.collect(gone);
            }
            world.disk.flush(self.ino, Flush::Done)?;
            if told { Err(eio()) } else { Ok(()) }
        })
    }

    fn stat(&self) -> io::Result<Stat> {
        self.call(Op::Stat, 0, 0, |world, _| place_stat(world, self.ino))
    }

    fn try_lock(&self) -> io::Result<bool> {
        self.call(Op::Lock, 0, 0, |world, _| {
            world.opened(self.id)?;
            if !world.locks_exclude {
                return Ok(true);
            }
            let windows = world.profile.is_windows();
            if let Some(tries) = world.lingering.get_mut(&self.ino).filter(|n| **n > 0) {
                *tries -= 1;
                return Ok(false);
            }
            let is_shared_with = |world: &World| {
                let range = world.shares.range((self.ino, 0)..=(self.ino, u64::MAX));
                range.clone().any(|(_, holder)| *holder != self.id)
            };
            match world.locks.get(&self.ino) {
                Some(holder) => Ok(*holder == self.id && !windows),
                None if self.how == Open::InUse => {
                    world.shares.insert((self.ino, self.id));
                    Ok(true)
                }
                None if is_shared_with(world) => Ok(false),
                None => {
                    world.locks.insert(self.ino, self.id);
                    Ok(true)
                }
            }
        })
    }

    fn unlock(&self) -> io::Result<()> {
        self.call(Op::Unlock, 0, 0, |world, _| {
            if world.locks.get(&self.ino) == Some(&self.id) {
                world.locks.remove(&self.ino);
                return Ok(());
            }
            if world.shares.remove(&(self.ino, self.id)) {
                return Ok(());
            }
            if world.profile.is_windows() { Err(io::ErrorKind::InvalidInput.into()) } else { Ok(()) }
        })
    }

    fn map(&self, len: usize) -> io::Result<Box<dyn Words>> {
        let (id, private) = self.call(Op::Map, 0, len, |world, _| {
            if world.maps == Maps::Refused {
                return Err(io::ErrorKind::Unsupported.into());
            }
            if world.disk.file(self.ino)?.live.len() < len as u64 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            // The mapping keeps the file open for itself.
            let mut copy = vec![0; if world.maps == Maps::Private { len } else { 0 }];
            world.disk.file(self.ino)?.live.read(&mut copy, 0);
            Ok((world.add_open(self.ino, self.process.id, self.how), copy))
        })?;
        let path = Arc::clone(&self.path);
        let file = SimFile { process: self.process.clone(), id, ino: self.ino, how: self.how, path };
        Ok(Box::new(SimWords {
            file,
            len: len as u64,
            private: parking_lot::Mutex::new(private),
            bell: OnceLock::new(),
        }))
    }

    fn map_bytes(&self) -> io::Result<Box<dyn Mapped>> {
        let (id, bytes) = self.call(Op::Map, 0, 0, |world, _| {
            if world.maps == Maps::Refused {
                return Err(io::ErrorKind::Unsupported.into());
            }
            let live = &world.disk.file(self.ino)?.live;
            if live.len() == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            // It never changes, so a copy is as good.
            let mut bytes = vec![0; usize::try_from(live.len()).unwrap_or(0)];
            live.read(&mut bytes, 0);
            Ok((world.add_open(self.ino, self.process.id, self.how), bytes))
        })?;
        let path = Arc::clone(&self.path);
        let file = SimFile { process: self.process.clone(), id, ino: self.ino, how: self.how, path };
        Ok(Box::new(SimBytes { _file: file, bytes }))
    }
}

/// A file that never changes, mapped.
#[derive(Debug)]
struct SimBytes {
    /// Open for as long as the mapping is there.
    _file: SimFile,
    bytes: Vec<u8>,
}

impl Mapped for SimBytes {
    fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// Mapped words. A dead process reads zeros and changes nothing.
#[derive(Debug)]
struct SimWords {
    file: SimFile,
    len: u64,
    /// What it shows where maps are not coherent; else empty.
    private: parking_lot::Mutex<Vec<u8>>,
    /// The one word that can be woken as Windows does it: the first that was asked for.
    bell: OnceLock<u64>,
}

impl SimWords {
    fn change(&self, op: Op, at: u64, change: impl FnOnce(u64) -> u64) -> u64 {
        if at + 8 > self.len {
            return 0;
        }
        let done = self.file.call(op, at, 8, |world, _| {
            let mut word = [0; 8];
            let from = usize::try_from(at).unwrap_or(usize::MAX);
            if let Some(copy) = self.private.lock().get_mut(from..).and_then(|copy| copy.get_mut(..8)) {
                word.copy_from_slice(copy);
                copy.copy_from_slice(&change(u64::from_le_bytes(word)).to_le_bytes());
                return Ok(u64::from_le_bytes(word));
            }
            world.disk.file(self.file.ino)?.live.read(&mut word, at);
            let now = u64::from_le_bytes(word);
            let new = change(now);
            if new != now && !matches!(self.file.how, Open::Read | Open::InUse) {
                world.disk.write_mapped(self.file.ino, &new.to_le_bytes(), at)?;
            }
            Ok(now)
        });
        done.unwrap_or(0)
    }
}

impl Words for SimWords {
    fn load(&self, at: u64) -> u64 {
        self.change(Op::Load, at, |now| now)
    }

    fn store(&self, at: u64, word: u64) {
        self.change(Op::Store, at, |_| word);
    }

    fn raise(&self, at: u64, word: u64) {
        self.change(Op::Store, at, |now| now.max(word));
    }

    /// Between the look at the word and falling asleep nothing happens: both are the turn of this process.
    fn wait(&self, at: u64, word: u64, time: Duration) {
        if self.load(at) != word {
            return;
        }
        let machine = &self.file.process.machine;
        let place = (self.file.ino, at);
        if machine.inner.host.is_some() {
            let mut world = machine.inner.world.lock();
            let mut now = [0; 8];
            let read = world.disk.file(self.file.ino).map(|file| file.live.read(&mut now, at));
            if read.is_ok() && u64::from_le_bytes(now) == word {
                world.waiting.push((self.file.process.id, place));
                machine.inner.rung.wait_for(&mut world, time);
                world.waiting.retain(|waiting| *waiting != (self.file.process.id, place));
            }
            return;
        }
        machine.inner.world.lock().waiting.push((self.file.process.id, place));
        self.file.process.sleep(time);
        machine.inner.world.lock().waiting.retain(|waiting| *waiting != (self.file.process.id, place));
    }

    fn wakes(&self, at: u64) -> bool {
        let inner = &self.file.process.machine.inner;
        if inner.host.is_some() {
            return true;
        }
        match inner.world.lock().profile {
            Profile::Linux => true,
            Profile::Windows => *self.bell.get_or_init(|| at) == at,
            Profile::Mac => false,
        }
    }

    /// Linux wakes at any word, Windows at the one that has a bell, and does not tell whom; macOS has no means for it.
    fn wake(&self, at: u64, count: u32) -> Option<usize> {
        let place = (self.file.ino, at);
        let machine = &self.file.process.machine;
        let woken = self.file.call(Op::Wake, at, 8, |world, _| {
            let tells = match world.profile {
                Profile::Linux => true,
                Profile::Windows if self.bell.get() == Some(&at) => false,
                Profile::Windows | Profile::Mac => return Ok(None),
            };
            let mut woken = 0;
            while woken < count as usize
                && let Some(i) = world.waiting.iter().position(|(_, waited)| *waited == place)
            {
                let (process, _) = world.waiting.swap_remove(i);
                scheduler::rouse(world, process);
                woken += 1;
            }
            Ok(tells.then_some(woken))
        });
        machine.inner.rung.notify_all();
        woken.ok().flatten()
    }
}

impl Drop for SimFile {
    fn drop(&mut self) {
        self.process.machine.inner.world.lock().drop_handle(self.id);
    }
}
