//! Words in shared memory: the only place that touches mapped bytes.

use std::fs::File;
use std::io;
#[cfg(target_os = "linux")]
use std::sync::atomic::AtomicU32;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use memmap2::{MmapOptions, MmapRaw};
#[cfg(target_os = "linux")]
use rustix::thread::futex::{self, Timespec};

#[cfg(windows)]
use super::bell::Bells;
#[cfg(windows)]
use crate::vfs::FileId;
use crate::vfs::Words;

const WORD: usize = size_of::<u64>();

/// The start of a file, mapped.
#[derive(Debug)]
pub(super) struct MappedWords {
    map: MmapRaw,
    writable: bool,
    #[cfg(windows)]
    bells: Bells,
}

impl MappedWords {
    /// `writable`: whether the file was opened for writing too.
    pub(super) fn of(
        file: &File,
        len: usize,
        writable: bool,
        #[cfg(windows)] id: FileId,
    ) -> io::Result<MappedWords> {
        // Touching a page behind the end of the file would end the process.
        if len < WORD || file.metadata()?.len() < len as u64 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut options = MmapOptions::new();
        options.len(len);
        let map = if writable { options.map_raw(file) } else { options.map_raw_read_only(file) }?;
        Ok(MappedWords {
            map,
            writable,
            #[cfg(windows)]
            bells: Bells::of(id),
        })
    }

    fn word(&self, at: u64) -> Option<&AtomicU64> {
        let at = usize::try_from(at).ok().filter(|at| at % WORD == 0 && *at <= self.map.len() - WORD)?;
        #[expect(unsafe_code, reason = "memory that other processes change can be reached by pointer only")]
        // SAFETY: `at` is a multiple of 8 and at most `len - 8` (`of` refuses less than 8 bytes), so the whole word is
        // inside the mapping, which is page-aligned, readable (and writable, where `writable` says so; nobody stores
        // through the reference otherwise), and lives as long as `self`, to which the reference is bound. No reference to these bytes other than to atomics is ever made in this process; other
        // processes access them by their own atomics or by system calls, which is outside of Rust's memory model in
        // the way that a device register is: every value of the word is a valid `u64`.
        unsafe {
            Some(AtomicU64::from_ptr(self.map.as_mut_ptr().add(at).cast::<u64>()))
        }
    }
}

#[cfg(target_os = "linux")]
impl MappedWords {
    /// What the kernel waits at: it knows 32 bits only. None where the low half is not the first one.
    fn low_half(&self, at: u64) -> Option<&AtomicU32> {
        if cfg!(target_endian = "big") {
            return None;
        }
        let word = self.word(at)?.as_ptr().cast::<u32>();
        #[expect(unsafe_code, reason = "the kernel wants an address of 32 bits")]
        // SAFETY: the first four bytes of a word that `word` has found to be inside the mapping, aligned for eight. The
        // reference is bound to `self` and is handed to the kernel only; this process never loads or stores through it.
        unsafe {
            Some(AtomicU32::from_ptr(word))
        }
    }
}

/// The low and the high half of a word.
#[cfg(target_os = "linux")]
fn halves(word: u64) -> [u32; 2] {
    let [a, b, c, d, e, f, g, h] = word.to_le_bytes();
    [u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h])]
}

impl Words for MappedWords {
    fn load(&self, at: u64) -> u64 {
        self.word(at).map_or(0, |word| u64::from_le(word.load(Ordering::Acquire)))
    }

    fn store(&self, at: u64, word: u64) {
        if let Some(place) = self.word(at).filter(|_| self.writable) {
            place.store(word.to_le(), Ordering::Release);
        }
    }

    fn raise(&self, at: u64, word: u64) {
        let Some(place) = self.word(at).filter(|_| self.writable) else { return };
        let larger = |now: u64| (u64::from_le(now) < word).then_some(word.to_le());
        // It fails only where the word is as large already.
        let _ = place.fetch_update(Ordering::AcqRel, Ordering::Acquire, larger);
    }

    fn wait(&self, at: u64, word: u64, time: Duration) {
        #[cfg(target_os = "linux")]
        if let Some(half) = self.low_half(at) {
            let [low, _] = halves(word);
            let time = Timespec::try_from(time).ok();
            // Woken, late, interrupted, or another word by now: the caller looks again whatever it was.
            let _ = futex::wait(half, futex::Flags::empty(), low, time.as_ref());
            return;
        }
        #[cfg(windows)]
        if let Some(bell) = self.bells.get(at) {
            bell.wait(word, time, || self.load(at));
            return;
        }
        let _ = (at, word);
        std::thread::sleep(time);
    }

    fn wakes(&self, at: u64) -> bool {
        #[cfg(windows)]
        return self.bells.open(at).is_some();
        #[cfg(not(windows))]
        {
            let _ = at;
            cfg!(all(target_os = "linux", target_endian = "little"))
        }
    }

    fn wake(&self, at: u64, count: u32) -> Option<usize> {
        #[cfg(target_os = "linux")]
        if let Some(half) = self.low_half(at) {
            return futex::wake(half, futex::Flags::empty(), count).ok();
        }
        #[cfg(windows)]
        if let Some(bell) = self.bells.get(at) {
            bell.wake(self.load(at));
        }
        let _ = (at, count);
        None
    }
}
