//! Files that never change, in memory: the only place that borrows mapped bytes.

use std::fs::File;
use std::io;

use memmap2::Mmap;

use crate::vfs::Mapped;

/// A whole file, mapped for reading.
#[derive(Debug)]
pub(super) struct MappedBytes(Mmap);

impl MappedBytes {
    pub(super) fn of(file: &File) -> io::Result<MappedBytes> {
        if file.metadata()?.len() == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        #[expect(unsafe_code, reason = "what is mapped is borrowed as bytes")]
        // SAFETY: the borrowed bytes must not change while they are borrowed. Only files are mapped here that were written
        // whole, synced and closed under a temporary name before they got the one they are opened by, and that nobody of
        // foldlog opens for writing afterwards: they are renamed and removed, which a mapping outlives. A stranger who
        // writes into such a file changes bytes that are only ever read as integers and checked text, by offsets that are
        // checked against the length of this slice at each use, so no reference of another type is ever made to them;
        // one who cuts it ends the process with SIGBUS, as with any mapping. Who cannot rule that out has `mmap = off`.
        let map = unsafe { Mmap::map(file) }?;
        Ok(MappedBytes(map))
    }
}

impl Mapped for MappedBytes {
    fn bytes(&self) -> &[u8] {
        &self.0
    }
}
