//! Words in shared memory: the only place that touches mapped bytes.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use memmap2::{MmapOptions, MmapRaw};

use crate::vfs::Words;

const WORD: usize = size_of::<u64>();

/// The start of a file, mapped.
#[derive(Debug)]
pub(super) struct MappedWords {
    map: MmapRaw,
    writable: bool,
}

impl MappedWords {
    /// `writable`: whether the file was opened for writing too.
    pub(super) fn of(file: &File, len: usize, writable: bool) -> io::Result<MappedWords> {
        // Touching a page behind the end of the file would end the process.
        if len < WORD || file.metadata()?.len() < len as u64 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut options = MmapOptions::new();
        options.len(len);
        let map = if writable { options.map_raw(file) } else { options.map_raw_read_only(file) }?;
        Ok(MappedWords { map, writable })
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
}
