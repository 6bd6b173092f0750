//! The contents of one file: sparse pages, shared until written.

use std::fmt;
use std::hash::{DefaultHasher, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

pub(crate) const PAGE: usize = 4096;
static ZEROS: [u8; PAGE] = [0; PAGE];
/// Stands for every page that was written with nothing but zeros: it takes disk space, but no memory.
static ZERO_PAGE: LazyLock<Arc<Page>> =
    LazyLock::new(|| Arc::new(Page { bytes: ZEROS, hash: AtomicU64::new(0) }));

struct Page {
    bytes: [u8; PAGE],
    /// Hash of `bytes`, 0 = not known yet.
    hash: AtomicU64,
}

impl Clone for Page {
    fn clone(&self) -> Self {
        Page { bytes: self.bytes, hash: AtomicU64::new(0) }
    }
}

impl Page {
    fn hash(&self) -> u64 {
        let known = self.hash.load(Ordering::Relaxed);
        if known != 0 {
            return known;
        }
        let mut hasher = DefaultHasher::new();
        hasher.write(&self.bytes);
        let hash = hasher.finish() | 1;
        self.hash.store(hash, Ordering::Relaxed);
        hash
    }
}

/// Pages to a chunk: 256 KiB.
const CHUNK: usize = 64;

/// `None` = never written (a hole).
type Chunk = [Option<Arc<Page>>; CHUNK];

/// Contents and length. Cloning costs a pointer per chunk.
#[derive(Clone, Default)]
pub(crate) struct Image {
    /// Fewer than the file is long where only holes follow.
    chunks: Vec<Option<Arc<Chunk>>>,
    len: u64,
}

impl fmt::Debug for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Image({} bytes, {} pages)", self.len, self.allocated())
    }
}

#[expect(clippy::cast_possible_truncation, reason = "lengths are bounded by FILE_LEN_MAX, which fits")]
fn split(offset: u64) -> (usize, usize) {
    ((offset / PAGE as u64) as usize, (offset % PAGE as u64) as usize)
}

impl Image {
    pub(crate) fn from_bytes(bytes: &[u8]) -> Self {
        let mut image = Image::default();
        image.write(bytes, 0);
        image
    }

    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// How many pages take disk space.
    pub(crate) fn allocated(&self) -> u64 {
        self.pages().count() as u64
    }

    /// How many of the pages that these bytes cover take no disk space yet.
    pub(crate) fn holes(&self, offset: u64, len: u64) -> u64 {
        if len == 0 {
            return 0;
        }
        let (first, last) = (split(offset).0, split(offset + len - 1).0);
        (first..=last).filter(|&i| self.page(i).is_none()).count() as u64
    }

    fn page(&self, index: usize) -> Option<&Arc<Page>> {
        self.chunks.get(index / CHUNK)?.as_ref()?.get(index % CHUNK)?.as_ref()
    }

    /// The pages that are no holes, with their indices.
    fn pages(&self) -> impl Iterator<Item = (usize, &Arc<Page>)> {
        let chunks = self.chunks.iter().enumerate();
        let slots = chunks.filter_map(|(c, chunk)| Some((c, chunk.as_ref()?.iter().enumerate())));
        slots.flat_map(|(c, slots)| slots.filter_map(move |(i, page)| Some((c * CHUNK + i, page.as_ref()?))))
    }

    fn slot(&mut self, index: usize) -> Option<&mut Option<Arc<Page>>> {
        let chunk = index / CHUNK;
        if self.chunks.len() <= chunk {
            self.chunks.resize(chunk + 1, None);
        }
        let chunk = self.chunks.get_mut(chunk)?.get_or_insert_with(|| Arc::new([const { None }; CHUNK]));
        Arc::make_mut(chunk).get_mut(index % CHUNK)
    }

    pub(crate) fn read(&self, buf: &mut [u8], offset: u64) -> usize {
        let left = self.len.saturating_sub(offset);
        let want = usize::try_from(left).unwrap_or(usize::MAX).min(buf.len());
        let mut done = 0;
        while let Some(rest) = buf.get_mut(done..want).filter(|r| !r.is_empty()) {
            let (page, at) = split(offset + done as u64);
            let bytes = self.page(page).map_or(&ZEROS, |p| &p.bytes);
            let from = bytes.get(at..).unwrap_or_default();
            let n = from.len().min(rest.len());
            if let (Some(to), Some(from)) = (rest.get_mut(..n), from.get(..n)) {
                to.copy_from_slice(from);
            }
            done += n;
        }
        want
    }

    pub(crate) fn write(&mut self, data: &[u8], offset: u64) {
        let mut done = 0;
        while let Some(rest) = data.get(done..).filter(|r| !r.is_empty()) {
            let (page, at) = split(offset + done as u64);
            let n = (PAGE - at).min(rest.len());
            let part = rest.get(..n).unwrap_or_default();
            if let Some(slot) = self.slot(page) {
                put(slot, part, at);
            }
            done += n;
        }
        if !data.is_empty() {
            self.len = self.len.max(offset + data.len() as u64);
        }
    }

    pub(crate) fn set_len(&mut self, len: u64) {
        if len < self.len {
            let (page, at) = split(len);
            let kept = if at == 0 { page } else { page + 1 };
            self.chunks.truncate(kept.div_ceil(CHUNK));
            for gone in kept..kept.next_multiple_of(CHUNK) {
                if self.page(gone).is_some() {
                    self.copy_page(&Image::default(), gone);
                }
            }
            if self.page(page).is_some_and(|p| !is_zero(p.bytes.get(at..).unwrap_or_default()))
                && let Some(slot) = self.slot(page)
            {
                put(slot, ZEROS.get(at..).unwrap_or_default(), at);
            }
        }
        self.len = len;
    }

    /// The piece's bytes, zeros included past the end of the file. `size` divides [`PAGE`].
    pub(crate) fn piece(&self, index: u64, size: usize) -> &[u8] {
        let (page, at) = split(index * size as u64);
        self.page(page).map_or(&ZEROS, |p| &p.bytes).get(at..at + size).unwrap_or_default()
    }

    /// Replaces a piece's bytes without regard to the length.
    pub(crate) fn put_piece(&mut self, index: u64, bytes: &[u8]) {
        let len = self.len;
        self.write(bytes, index * bytes.len() as u64);
        self.len = len;
    }

    /// Makes page `index` the same as in `from`.
    pub(crate) fn copy_page(&mut self, from: &Image, index: usize) {
        let page = from.page(index).cloned();
        if (page.is_some() || self.page(index).is_some())
            && let Some(slot) = self.slot(index)
        {
            *slot = page;
        }
    }

    /// Sets the length after pages were put in place one by one; drops and zeroes what lies beyond.
    pub(crate) fn cut_to(&mut self, len: u64) {
        self.len = u64::MAX;
        self.set_len(len);
    }

    pub(crate) fn to_vec(&self) -> Vec<u8> {
        let mut bytes = vec![0; usize::try_from(self.len).unwrap_or(usize::MAX)];
        self.read(&mut bytes, 0);
        bytes
    }

    /// Feeds what a reader can see, and nothing else, to `hasher`.
    pub(crate) fn hash(&self, hasher: &mut impl Hasher) {
        hasher.write_u64(self.len);
        let zero = ZERO_PAGE.hash();
        for (i, page) in self.pages() {
            let hash = page.hash();
            if hash != zero {
                hasher.write_usize(i);
                hasher.write_u64(hash);
            }
        }
    }
}

fn put(slot: &mut Option<Arc<Page>>, part: &[u8], at: usize) {
    let blank = slot.as_ref().is_none_or(|p| Arc::ptr_eq(p, &ZERO_PAGE));
    if (blank || part.len() == PAGE) && is_zero(part) {
        *slot = Some(Arc::clone(&ZERO_PAGE));
        return;
    }
    if slot.as_ref().is_some_and(|p| p.bytes.get(at..at + part.len()) == Some(part)) {
        return;
    }
    let page = Arc::make_mut(slot.get_or_insert_with(|| Arc::clone(&ZERO_PAGE)));
    *page.hash.get_mut() = 0;
    if let Some(to) = page.bytes.get_mut(at..at + part.len()) {
        to.copy_from_slice(part);
    }
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes.chunks(PAGE).all(|c| ZEROS.get(..c.len()) == Some(c))
}
