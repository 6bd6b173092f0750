//! The few calls the standard library lacks, and the only unsafe code of this crate.
#![expect(unsafe_code, reason = "shared mappings, and LMDB, whose opening maps a file")]

use std::fs::{File, OpenOptions};
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::thread::CpuSet;

use crate::Result;

/// CLOCK_MONOTONIC in nanoseconds, the same in every process.
pub fn now() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

/// Waits until that time: asleep while it is far, awake at the end.
pub fn wait_until(at: u64) {
    while let Some(left) = at.checked_sub(now()).filter(|left| *left > 0) {
        if left > 300_000 {
            std::thread::sleep(std::time::Duration::from_nanos(left - 200_000));
        }
        std::hint::spin_loop();
    }
}

/// Keeps this thread on the `n`th processor, if there is one, so that threads of other numbers do not share it.
pub fn pin(n: usize) -> Result<()> {
    let allowed = rustix::thread::sched_getaffinity(None)?;
    let mut processors = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu));
    if let Some(cpu) = processors.nth(n) {
        let mut own = CpuSet::new();
        own.set(cpu);
        rustix::thread::sched_setaffinity(None, &own)?;
    }
    Ok(())
}

/// Takes the lock of an open file, and waits in the kernel for it.
pub fn lock(file: &File) -> Result<()> {
    loop {
        match flock(file, FlockOperation::LockExclusive) {
            Err(Errno::INTR) => {}
            other => return Ok(other?),
        }
    }
}

/// Takes it if it is free.
pub fn try_lock(file: &File) -> Result<bool> {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK | Errno::INTR) => Ok(false),
        Err(e) => Err(e.into()),
    }
}

pub fn unlock(file: &File) -> Result<()> {
    Ok(flock(file, FlockOperation::Unlock)?)
}

/// Words that processes share: a page of a file, mapped.
pub struct Words(NonNull<AtomicU64>);

impl Words {
    const LEN: usize = 4096;
    const COUNT: usize = Self::LEN / size_of::<AtomicU64>();

    /// Makes the file if need be; its words begin as 0.
    pub fn open(path: &Path) -> Result<Self> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        file.set_len(Self::LEN as u64)?;
        let (prot, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: a new mapping at a place of the kernel's choice, of a file that nobody ever shortens.
        let page = unsafe { mmap(std::ptr::null_mut(), Self::LEN, prot, flags, &file, 0)? };
        Ok(Words(NonNull::new(page.cast()).ok_or("mapped at null")?))
    }

    pub fn word(&self, n: usize) -> &AtomicU64 {
        assert!(n < Self::COUNT, "a page has fewer words");
        // SAFETY: within the page, aligned because a page is, mapped as long as `self` lives, and only ever used as
        // atomics, by every process.
        unsafe { self.0.add(n).as_ref() }
    }
}

impl Drop for Words {
    fn drop(&mut self) {
        // SAFETY: our own mapping, and no reference from `word` outlives `self`. That it may fail changes nothing.
        let _ = unsafe { munmap(self.0.as_ptr().cast(), Self::LEN) };
    }
}

/// An LMDB environment with room for 4 GiB and four databases.
pub fn open_lmdb(dir: &Path, flags: heed::EnvFlags) -> Result<heed::Env> {
    let mut options = heed::EnvOpenOptions::new();
    options.map_size(4 << 30).max_dbs(4).max_readers(64);
    // SAFETY: the folder is this run's own: nobody but LMDB changes its files, they are on a local file system, and a
    // process opens it once. NO_SYNC and MAP_ASYNC can damage it in a power cut only, which no run lives to see;
    // WRITE_MAP needs that no stray pointer writes into the map, as everything in safe Rust.
    Ok(unsafe { options.flags(flags).open(dir)? })
}
