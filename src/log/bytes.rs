//! Little-endian reading that cannot go out of bounds, and writing into a growing buffer.

/// A cursor over bytes that somebody else wrote. Every getter answers `None` past the end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bytes<'a>(pub &'a [u8]);

impl<'a> Bytes<'a> {
    pub(crate) fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(n)?;
        self.0 = rest;
        Some(head)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_le_bytes)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A little-endian integer at an offset, `None` past the end.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Bytes(bytes.get(at..)?).u32()
}

/// Overwrites bytes inside a buffer that is known to be long enough.
pub(crate) fn put(buffer: &mut [u8], at: usize, bytes: &[u8]) {
    if let Some(place) = buffer.get_mut(at..at + bytes.len()) {
        place.copy_from_slice(bytes);
    } else {
        debug_assert!(false, "put past the end of a fixed-size structure");
    }
}

/// In runs that the compiler turns into few instructions: a reserve is long.
pub(crate) fn all_zero(bytes: &[u8]) -> bool {
    bytes.chunks(64).all(|run| run.iter().fold(0, |any, b| any | b) == 0)
}

/// The length without the zeros at the end.
pub(crate) fn content_len(bytes: &[u8]) -> usize {
    let zeros: usize = bytes.rchunks(4096).take_while(|run| all_zero(run)).map(<[u8]>::len).sum();
    let rest = bytes.get(..bytes.len() - zeros).unwrap_or_default();
    rest.iter().rposition(|b| *b != 0).map_or(0, |last| last + 1)
}
