//! The machine: one disk, its page cache and locks, and the processes on it.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::disk::{DiskState, Flush, Ino};
use super::faults::{Act, Call, Effect, Fault, Op, eio};
use super::process::SimProcess;
use super::profile::{CrashModel, Profile};
use super::rng::Rng;
use super::scheduler::Sched;
use crate::vfs::{FileSystem, Open, Vfs};

/// Longest file, so that no typo in an offset takes all memory.
pub(crate) const FILE_LEN_MAX: u64 = 1 << 36;
/// 2026-01-01, when every machine is switched on, in microseconds.
const SWITCHED_ON: u64 = 1_767_225_600_000_000;
static DOMAINS: AtomicU64 = AtomicU64::new(1);
static DEVICES: AtomicU64 = AtomicU64::new(1 << 32);

/// A computer: a disk, a page cache, locks, clocks, and [processes](SimMachine::process) that share them.
///
/// Clones are the same machine. All chance in it comes from its seed.
#[derive(Clone)]
pub struct SimMachine {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) world: Mutex<World>,
    /// For the thread that runs a schedule: something ended.
    pub(crate) ended: Condvar,
    /// Where time is real: somebody was woken.
    pub(crate) rung: Condvar,
    /// Where clocks, sleep, randomness and process identity come from, if they are real.
    pub(crate) host: Option<Arc<dyn Vfs>>,
}

pub(crate) struct World {
    pub(crate) disk: DiskState,
    pub(crate) profile: Profile,
    pub(crate) rng: Rng,
    /// Microseconds since the machine was switched on.
    pub(crate) clock: u64,
    pub(crate) boot_id: Option<u128>,
    pub(crate) device: u64,
    pub(crate) file_system: FileSystem,
    pub(crate) maps: Maps,
    /// Whether a lock that is held is refused to others.
    pub(crate) locks_exclude: bool,
    read_only: bool,
    capacity: Option<u64>,
    pub(crate) processes: Vec<ProcessState>,
    opens: HashMap<u64, OpenFile>,
    next_open: u64,
    /// Who holds the lock of which file: the id of an open file.
    pub(crate) locks: HashMap<Ino, u64>,
    /// Who holds it with others: the id of each open file.
    pub(crate) shares: BTreeSet<(Ino, u64)>,
    /// Locks of killed processes that are still held for so many tries.
    pub(crate) lingering: HashMap<Ino, u32>,
    linger: u32,
    /// Windows: names that go with the last close of the file.
    pub(crate) doomed: HashMap<Ino, (Ino, String)>,
    faults: Vec<Fault>,
    /// The call that was begun last kills its caller.
    pub(crate) deadly: bool,
    record: Option<Record>,
    marks: Vec<String>,
    counts: BTreeMap<Op, u64>,
    /// The most locks that a process held when it synced a file.
    locks_at_sync: usize,
    pub(crate) sched: Option<Sched>,
    /// Which processes wait for which words.
    pub(crate) waiting: Vec<(usize, (Ino, u64))>,
}

/// What mapping a file gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Maps {
    Shared,
    Private,
    Refused,
}

pub(crate) struct ProcessState {
    pub(crate) label: Arc<str>,
    pub(crate) pid: u32,
    pub(crate) domain: u64,
    pub(crate) forks: u64,
    pub(crate) alive: bool,
    pub(crate) rng: Rng,
}

pub(crate) struct OpenFile {
    pub(crate) ino: Ino,
    pub(crate) process: usize,
    pub(crate) how: Open,
    /// A forked parent has it open too.
    pub(crate) shared: bool,
    /// A sync failed that this descriptor has not been told of.
    pub(crate) sync_failed: bool,
}

/// What [`SimMachine::record`] collects.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// One entry before each call that may change what a power cut leaves, and one for the end.
    pub boundaries: Vec<Boundary>,
    /// Everything that was [marked](SimMachine::mark), in order.
    pub marks: Vec<String>,
}

impl Record {
    /// What had been marked when the boundary was reached.
    pub fn marks_at(&self, boundary: &Boundary) -> &[String] {
        self.marks.get(..boundary.marks).unwrap_or(&self.marks)
    }

    /// Every different disk that a power cut before one of the calls may leave, at most `limit` for each call: the
    /// boundary, what had been marked by then, and the disk. A disk that was seen with the same marks is skipped.
    ///
    /// `model` is usually the platform's own, [`Profile::crash_model`].
    pub fn power_cuts(
        &self,
        model: CrashModel,
        limit: usize,
        seed: u64,
    ) -> impl Iterator<Item = (&Boundary, &[String], DiskState)> {
        let mut rng = Rng::new(seed);
        let mut seen = HashSet::new();
        let states = self.boundaries.iter().flat_map(move |boundary| {
            let marks = self.marks_at(boundary);
            let states = boundary.disk.crash_states_with(&model, limit, &mut rng);
            states.map(move |disk| (boundary, marks, disk))
        });
        states.filter(move |(boundary, _, disk)| seen.insert((disk.content_hash(), boundary.marks)))
    }
}

/// The machine just before a call.
#[derive(Clone, Debug)]
pub struct Boundary {
    /// The call that comes next; `None` at the end of the record.
    pub call: Option<Call>,
    /// The disk and page cache before it.
    pub disk: DiskState,
    /// How many marks had been made.
    pub marks: usize,
}

impl fmt::Debug for SimMachine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let world = self.inner.world.lock();
        write!(
            f,
            "SimMachine({:?}, boot {}, {} processes)",
            world.profile,
            world.disk.boots(),
            world.processes.len()
        )
    }
}

impl SimMachine {
    /// A machine with an empty disk.
    pub fn new(profile: Profile, seed: u64) -> Self {
        Self::from_disk(&DiskState::empty(profile), seed)
    }

    /// A machine that boots from this disk: after a power cut (a new boot id) or, if the state comes from
    /// [`SimMachine::disk`] or [`DiskState::process_kill`], with the page cache and the boot id it had.
    pub fn from_disk(disk: &DiskState, seed: u64) -> Self {
        Self::build(disk.clone(), seed, None)
    }

    /// File system for stores that live in memory: nothing is tracked, nothing is ever lost, and clocks, sleep,
    /// randomness and process identity are those of `host`.
    ///
    /// Names are as free as on Linux, on any system. All its processes are the host's process.
    pub fn memory(host: Arc<dyn Vfs>) -> Self {
        Self::build(DiskState::new(Profile::Linux, true), 0, Some(host))
    }

    fn build(disk: DiskState, seed: u64, host: Option<Arc<dyn Vfs>>) -> Self {
        let profile = disk.profile();
        let boot_id = u128::from(Rng::new(disk.boots()).next_u64()) << 64 | u128::from(disk.boots());
        let device = if host.is_some() { DEVICES.fetch_add(1, Ordering::Relaxed) } else { 1 };
        let world = World {
            disk,
            profile,
            rng: Rng::new(seed),
            clock: 0,
            boot_id: Some(boot_id),
            device,
            file_system: FileSystem::Local(
                if host.is_some() { "memory" } else { profile.file_system() }.into(),
            ),
            maps: Maps::Shared,
            locks_exclude: true,
            read_only: false,
            capacity: None,
            processes: Vec::new(),
            opens: HashMap::new(),
            next_open: 0,
            locks: HashMap::new(),
            shares: BTreeSet::new(),
            lingering: HashMap::new(),
            linger: 0,
            doomed: HashMap::new(),
            faults: Vec::new(),
            deadly: false,
            record: None,
            marks: Vec::new(),
            counts: BTreeMap::new(),
            locks_at_sync: 0,
            sched: None,
            waiting: Vec::new(),
        };
        SimMachine {
            inner: Arc::new(Inner {
                world: Mutex::new(world),
                ended: Condvar::new(),
                rung: Condvar::new(),
                host,
            }),
        }
    }

    /// Starts a process. Its calls run at once, from any thread, unless it was started by [`SimMachine::run`].
    pub fn process(&self, label: &str) -> SimProcess {
        let mut world = self.inner.world.lock();
        let id = world.processes.len();
        let rng = world.rng.split();
        let pid = 1000 + u32::try_from(id).unwrap_or(0);
        let domain = DOMAINS.fetch_add(1, Ordering::Relaxed);
        world.processes.push(ProcessState { label: label.into(), pid, domain, forks: 0, alive: true, rng });
        drop(world);
        SimProcess { machine: self.clone(), id }
    }

    /// Kills a process: its locks and descriptors are free at once, and every later call it makes does nothing and
    /// fails. A thread that a schedule runs is unwound at its next call.
    pub fn kill(&self, process: &SimProcess) {
        self.inner.world.lock().kill(process.id);
    }

    /// Kills every process.
    pub fn kill_all(&self) {
        let mut world = self.inner.world.lock();
        for id in 0..world.processes.len() {
            world.kill(id);
        }
    }

    /// The disk and page cache as they are now. Cheap; later changes don't show in it.
    pub fn disk(&self) -> DiskState {
        self.inner.world.lock().disk.clone()
    }

    /// Changes the disk directly, under running processes: see [`DiskState::mutate`] and [`DiskState::plant`].
    pub fn with_disk<T>(&self, change: impl FnOnce(&mut DiskState) -> T) -> T {
        change(&mut self.inner.world.lock().disk)
    }

    /// Starts to collect a [`Boundary`] before each call that may change what a power cut leaves. Marks start anew.
    pub fn record(&self) {
        let mut world = self.inner.world.lock();
        world.record = Some(Record::default());
        world.marks.clear();
    }

    /// Ends the record and returns it; empty if there was none.
    pub fn take_record(&self) -> Record {
        let mut world = self.inner.world.lock();
        let mut record = world.record.take().unwrap_or_default();
        record.boundaries.push(Boundary { call: None, disk: world.disk.clone(), marks: world.marks.len() });
        record.marks = std::mem::take(&mut world.marks);
        record
    }

    /// Notes something for the oracle, such as what has been acknowledged by now.
    pub fn mark(&self, mark: impl Into<String>) {
        self.inner.world.lock().marks.push(mark.into());
    }

    /// Everything marked since the machine was made or [`SimMachine::record`] was called.
    pub fn marks(&self) -> Vec<String> {
        self.inner.world.lock().marks.clone()
    }

    /// Adds a fault. Faults are asked in the order they were added; the first that hits a call decides.
    pub fn fault(&self, fault: Fault) {
        self.inner.world.lock().faults.push(fault);
    }

    /// Ends all faults.
    pub fn clear_faults(&self) {
        self.inner.world.lock().faults.clear();
    }

    /// Limits the bytes that files may take, in pages of 4 KiB. A write that fits in part is short; one of which
    /// nothing fits fails with [`io::ErrorKind::StorageFull`]. `None` = no limit.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.inner.world.lock().capacity = bytes;
    }

    /// Bytes that files take now.
    pub fn used(&self) -> u64 {
        self.inner.world.lock().used()
    }

    /// Makes the medium read-only: every change fails with [`io::ErrorKind::ReadOnlyFilesystem`].
    pub fn set_read_only(&self, read_only: bool) {
        self.inner.world.lock().read_only = read_only;
    }

    /// Whether files can be mapped from now on; if not, mapping one answers [`io::ErrorKind::Unsupported`].
    pub fn set_maps(&self, maps: bool) {
        self.inner.world.lock().maps = if maps { Maps::Shared } else { Maps::Refused };
    }

    /// Every mapping made from now on is a copy of its own, as on a file system where maps are not coherent.
    pub fn set_private_maps(&self) {
        self.inner.world.lock().maps = Maps::Private;
    }

    /// Whether locks exclude; if not, every try to take one succeeds, as on a file system that ignores them.
    pub fn set_locks_exclude(&self, exclude: bool) {
        self.inner.world.lock().locks_exclude = exclude;
    }

    /// What [`Vfs::file_system`] answers.
    pub fn set_file_system(&self, file_system: FileSystem) {
        self.inner.world.lock().file_system = file_system;
    }

    /// What [`Vfs::boot_id`] answers. By default it differs after each power cut; a volume that was merely mounted
    /// again keeps it.
    pub fn set_boot_id(&self, boot_id: Option<u128>) {
        self.inner.world.lock().boot_id = boot_id;
    }

    /// How many tries by others a killed process' lock outlives it: 0 by default, as on Unix; Windows promises no
    /// bound. A lock that is closed or unlocked is free at once.
    pub fn set_lock_linger(&self, tries: u32) {
        self.inner.world.lock().linger = tries;
    }

    /// The background write-back of a file's dirty pages fails: they are clean from now on without being on the disk.
    ///
    /// On Linux every descriptor open now fails once, at its next sync. Nobody is told otherwise.
    ///
    /// # Errors
    /// If there is no such file.
    pub fn fail_writeback(&self, path: impl AsRef<Path>) -> io::Result<()> {
        let mut world = self.inner.world.lock();
        let ino = world.disk.find(path.as_ref())?.existing()?;
        world.drop_pages(ino, None)
    }

    /// Writes everything back, as `sync` does: what the disk and the page cache hold is the same afterwards.
    pub fn sync_all(&self) {
        let mut world = self.inner.world.lock();
        let gone = world.disk.sync_all();
        world.collect(gone);
    }

    /// Throws all clean pages out of the page cache, as memory pressure does: what a failed sync dropped is gone.
    pub fn evict(&self) {
        self.inner.world.lock().disk.evict();
    }

    /// Lets virtual time pass.
    pub fn advance(&self, time: Duration) {
        let mut world = self.inner.world.lock();
        world.clock = world.clock.saturating_add(micros(time));
    }

    /// The most locks that a process has held while it synced a file.
    pub fn locks_at_sync(&self) -> usize {
        self.inner.world.lock().locks_at_sync
    }

    /// How many calls of this kind have been made.
    pub fn calls(&self, op: Op) -> u64 {
        self.inner.world.lock().counts.get(&op).copied().unwrap_or(0)
    }
}

pub(crate) fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

impl World {
    pub(crate) fn now(&self) -> u64 {
        SWITCHED_ON + self.clock
    }

    pub(crate) fn is_alive(&self, process: usize) -> bool {
        self.processes.get(process).is_some_and(|p| p.alive)
    }

    pub(crate) fn kill(&mut self, process: usize) {
        if let Some(state) = self.processes.get_mut(process) {
            state.alive = false;
        }
        self.waiting.retain(|(waiting, _)| *waiting != process);
        let mut ids: Vec<u64> =
            self.opens.iter().filter(|(_, o)| o.process == process).map(|(id, _)| *id).collect();
        ids.sort_unstable();
        for id in ids {
            if self.linger > 0
                && let Some((&ino, _)) = self.locks.iter().find(|(_, holder)| **holder == id)
            {
                self.lingering.insert(ino, self.linger);
            }
            self.close(id);
        }
    }

    /// Counts and records a call, and says which fault hits it.
    pub(crate) fn begin(&mut self, process: usize, act: &Act<'_>) -> io::Result<Option<Effect>> {
        *self.counts.entry(act.op).or_default() += 1;
        if act.op == Op::Sync {
            let of_caller = |id: &&u64| self.opens.get(*id).is_some_and(|open| open.process == process);
            self.locks_at_sync = self.locks_at_sync.max(self.locks.values().filter(of_caller).count());
        }
        let label = self.processes.get(process).map(|p| Arc::clone(&p.label)).unwrap_or_default();
        if let Some(record) = self.record.as_mut().filter(|_| act.op.mutates()) {
            let call = Some(act.owned(&label));
            record.boundaries.push(Boundary { call, disk: self.disk.clone(), marks: self.marks.len() });
        }
        let struck = self.faults.iter_mut().find_map(|fault| fault.strike(act, &label));
        self.deadly = struck.is_some_and(|(_, deadly)| deadly);
        let effect = struck.map(|(effect, _)| effect);
        match effect {
            Some(Effect::Fail(kind)) => return Err(kind.into()),
            Some(Effect::Eio) => return Err(eio()),
            _ => {}
        }
        if self.read_only && act.op.mutates() && !matches!(act.op, Op::Sync | Op::SyncDir) {
            return Err(io::ErrorKind::ReadOnlyFilesystem.into());
        }
        Ok(effect)
    }

    pub(crate) fn is_read_only(&self) -> bool {
        self.read_only
    }

    pub(crate) fn add_open(&mut self, ino: Ino, process: usize, how: Open) -> u64 {
        let id = self.next_open;
        self.next_open += 1;
        self.opens.insert(id, OpenFile { ino, process, how, shared: false, sync_failed: false });
        id
    }

    pub(crate) fn opened(&self, id: u64) -> io::Result<&OpenFile> {
        self.opens.get(&id).ok_or_else(dead)
    }

    pub(crate) fn opens_of(&self, ino: Ino) -> impl Iterator<Item = &OpenFile> {
        self.opens.values().filter(move |o| o.ino == ino)
    }

    pub(crate) fn is_open(&self, ino: Ino) -> bool {
        self.opens_of(ino).next().is_some()
    }

    pub(crate) fn open_inodes(&self) -> impl Iterator<Item = Ino> {
        self.opens.values().map(|o| o.ino)
    }

    /// A handle is dropped: closes it, unless a forked parent has it too.
    pub(crate) fn drop_handle(&mut self, id: u64) {
        if self.opens.get(&id).is_some_and(|open| !open.shared) {
            self.close(id);
        }
    }

    pub(crate) fn fork(&mut self, process: usize) {
        let pid = 1000 + u32::try_from(self.processes.len()).unwrap_or(0);
        if let Some(state) = self.processes.get_mut(process) {
            state.forks += 1;
            state.pid = pid + u32::try_from(state.forks).unwrap_or(0) * 1000;
        }
        for open in self.opens.values_mut().filter(|o| o.process == process) {
            open.shared = true;
        }
    }

    /// Closes, if it is open: frees its lock, and the file if it was the last to hold it.
    pub(crate) fn close(&mut self, id: u64) {
        let Some(open) = self.opens.remove(&id) else { return };
        if self.locks.get(&open.ino) == Some(&id) {
            self.locks.remove(&open.ino);
        }
        self.shares.remove(&(open.ino, id));
        if self.is_open(open.ino) {
            return;
        }
        if let Some((dir, name)) = self.doomed.remove(&open.ino) {
            // The name may have gone with its folder in the meantime, which is as good.
            let _ = self.disk.remove(dir, &name);
        }
        self.disk.collect(open.ino);
    }

    pub(crate) fn collect(&mut self, inodes: impl IntoIterator<Item = Ino>) {
        for ino in inodes {
            if !self.is_open(ino) {
                self.disk.collect(ino);
            }
        }
    }

    pub(crate) fn used(&self) -> u64 {
        self.disk.used(|ino| self.is_open(ino))
    }

    /// How many of `len` bytes at `offset` there is room for.
    pub(crate) fn room(&self, ino: Ino, offset: u64, len: usize) -> io::Result<usize> {
        if offset.checked_add(len as u64).is_none_or(|end| end > FILE_LEN_MAX) {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let Some(capacity) = self.capacity else { return Ok(len) };
        let image = &self.disk.file(ino)?.live;
        let mut free = capacity.saturating_sub(self.used()) / 4096;
        let mut fits = 0;
        while fits < len {
            let at = offset + fits as u64;
            let n = usize::try_from(4096 - at % 4096).unwrap_or(4096).min(len - fits);
            let needed = image.holes(at, n as u64);
            if needed > free {
                break;
            }
            free -= needed;
            fits += n;
        }
        if fits == 0 && len > 0 { Err(io::ErrorKind::StorageFull.into()) } else { Ok(fits) }
    }

    /// Marks dirty pages clean without writing them; tells other descriptors as the platform does.
    pub(crate) fn drop_pages(&mut self, ino: Ino, caller: Option<u64>) -> io::Result<()> {
        self.disk.flush(ino, Flush::Dropped)?;
        if self.profile == Profile::Linux {
            for (_, open) in self.opens.iter_mut().filter(|(id, o)| o.ino == ino && Some(**id) != caller) {
                open.sync_failed = true;
            }
        }
        Ok(())
    }

    /// Whether the descriptor has a failed sync to report; it has not afterwards.
    pub(crate) fn take_sync_failure(&mut self, id: u64) -> bool {
        self.opens.get_mut(&id).is_some_and(|open| std::mem::take(&mut open.sync_failed))
    }

    pub(crate) fn real_path(&self, path: &Path) -> io::Result<PathBuf> {
        let place = self.disk.find_followed(path)?;
        place.existing()?;
        Ok(place.real())
    }
}

/// What a killed process gets from every call.
pub(crate) fn dead() -> io::Error {
    io::Error::other("the simulated process is dead")
}
