//! The control block: 4 KiB of hints. `format-spec/format.md`, section *Control block*.
//!
//! Every word has an equivalent in the log; a block that is absent, zeroed, random or another log's costs time or
//! weakens a verdict, never a commit. The first half of this file is bytes; the second is the block as a process shares
//! it with others, mapped, or word by word through system calls where it cannot or shall not be mapped.

use std::sync::Arc;
use std::time::Duration;

use super::LogId;
use super::bytes::{Bytes, put};
use super::format::{CONTROL_CRC_AT, CONTROL_LAYOUT, CONTROL_LEN, CONTROL_MAGIC};
use super::lock::LockFile;
use super::paths::Paths;
use crate::error::{Context as _, Error, ErrorKind, Result};
use crate::vfs::threads::{Mutex, RwLock};
use crate::vfs::{Existing, FileId, Open, Vfs, VfsFile, Words, read_full, write_full};

/// A fresh block of this log: identity, and all words 0.
pub fn encode(log: LogId) -> Vec<u8> {
    let mut out = vec![0; CONTROL_LEN];
    put(&mut out, 0, &CONTROL_MAGIC);
    put(&mut out, 8, &CONTROL_LAYOUT.to_le_bytes());
    put(&mut out, 16, &log.0);
    let crc = crc32fast::hash(out.get(..CONTROL_CRC_AT).unwrap_or_default());
    put(&mut out, CONTROL_CRC_AT, &crc.to_le_bytes());
    out
}

/// Whether the bytes are a block of this log, in this layout.
pub fn is_block_of(bytes: &[u8], log: LogId) -> bool {
    let mut b = Bytes(bytes);
    let mut fields = || -> Option<bool> {
        let before = bytes.get(..CONTROL_CRC_AT)?;
        Some(
            bytes.len() == CONTROL_LEN
                && b.array::<8>()? == CONTROL_MAGIC
                && b.u32()? == CONTROL_LAYOUT
                && b.u32()? == 0
                && b.array::<16>()? == log.0
                && b.u32()? == 0
                && b.u32()? == crc32fast::hash(before),
        )
    };
    fields().unwrap_or(false)
}

/// A position as a word: 48 bits of value above a 16-bit check of value and log id; ordered as positions are.
pub fn position_word(log: LogId, position: u64) -> u64 {
    Checks::of(log).word(position)
}

/// The position in a word; `None` if it is 0 or its check fails.
pub fn position(log: LogId, word: u64) -> Option<u64> {
    Checks::of(log).position(word)
}

/// Makes and checks the position words of one log.
#[derive(Clone, Debug)]
struct Checks(crc32fast::Hasher);

impl Checks {
    fn of(log: LogId) -> Checks {
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&log.0);
        Checks(hasher)
    }

    fn word(&self, position: u64) -> u64 {
        let mut hasher = self.0.clone();
        hasher.update(&position.to_le_bytes());
        let [low, high, ..] = hasher.finalize().to_le_bytes();
        position << 16 | u64::from(u16::from_le_bytes([low, high]))
    }

    fn position(&self, word: u64) -> Option<u64> {
        let position = word >> 16;
        (position != 0 && word == self.word(position)).then_some(position)
    }
}

/// How a process shares the block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mapping {
    /// Mapped where the file system lets maps and calls see each other, else by calls.
    #[default]
    Auto,
    /// By system calls only: nothing of the store is ever mapped into the process.
    Off,
}

/// How a handle shares the control block at present.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ControlUse {
    /// Mapped: a look whether something is new makes no system call.
    Mapped,
    /// Word by word through system calls.
    ByCalls {
        /// Why it is not mapped.
        why: String,
    },
    /// Not at all: each look reads the log.
    None {
        /// Why there is none.
        why: String,
    },
}

impl ControlUse {
    /// Its stable name.
    pub fn as_str(&self) -> &'static str {
        match self {
            ControlUse::Mapped => "mapped",
            ControlUse::ByCalls { .. } => "by-calls",
            ControlUse::None { .. } => "none",
        }
    }
}

/// The block, as one handle has it open.
#[derive(Debug)]
pub(super) struct Block {
    words: Box<dyn Words>,
    id: FileId,
    checks: Checks,
    /// The words that say whose block it is.
    identity: Vec<(u64, u64)>,
    /// Why it is not mapped.
    by_calls: Option<String>,
}

impl Block {
    /// `None` = there is none, or a file that cannot be one, whatever stands in it.
    fn open(
        vfs: &Arc<dyn Vfs>,
        paths: &Paths,
        log: LogId,
        how: Open,
        by_calls: Option<&String>,
    ) -> Result<Option<Block>> {
        let path = paths.control();
        let file = match vfs.open(&path, how) {
            Ok(file) => file,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(Error::io(e, "open", &path)),
        };
        let stat = file.stat().context("look at", &path)?;
        if stat.len != CONTROL_LEN as u64 {
            return Ok(None);
        }
        // Where it cannot be mapped, the same words are read and written by calls.
        let mapped = match by_calls {
            None => file.map(CONTROL_LEN).map_err(|e| format!("it cannot be mapped: {e}")),
            Some(why) => Err(why.clone()),
        };
        let (words, by_calls): (Box<dyn Words>, _) = match mapped {
            Ok(words) => (words, None),
            Err(why) => (Box::new(ByCalls { vfs: Arc::clone(vfs), file }), Some(why)),
        };
        let fresh = encode(log);
        let word = |bytes: &[u8]| bytes.first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
        let identity = (0..).step_by(8).zip(fresh.chunks(8).take(5)).map(|(at, bytes)| (at, word(bytes)));
        Ok(Some(Block {
            words,
            id: stat.id,
            checks: Checks::of(log),
            identity: identity.collect(),
            by_calls,
        }))
    }

    /// Which file it is.
    pub(super) fn id(&self) -> FileId {
        self.id
    }

    pub(super) fn is_mapped(&self) -> bool {
        self.by_calls.is_none()
    }

    /// Whether it says that it is this log's block; it may have been zeroed or overwritten since it was opened.
    pub(super) fn is_ours(&self) -> bool {
        self.identity.iter().all(|(at, word)| self.words.load(*at) == *word)
    }

    /// Says so again. Under LOCK.
    fn claim(&self) {
        self.identity.iter().for_each(|(at, word)| self.words.store(*at, *word));
    }

    /// Waits for a word that is still this to be woken.
    pub(super) fn wait(&self, word: u64, value: u64, time: Duration) {
        self.words.wait(word, value, time);
    }

    /// Whether somebody who waits for a word can be woken; asked before either is done.
    pub(super) fn wakes(&self, word: u64) -> bool {
        self.words.wakes(word)
    }

    /// Wakes who waits for a word.
    pub(super) fn wake(&self, word: u64, count: u32) -> Option<usize> {
        self.words.wake(word, count)
    }

    /// A plain word.
    pub(super) fn load(&self, word: u64) -> u64 {
        self.words.load(word)
    }

    /// Sets a plain word.
    pub(super) fn store(&self, word: u64, value: u64) {
        self.words.store(word, value);
    }

    /// Sets a plain word to the larger of itself and this.
    pub(super) fn raise(&self, word: u64, value: u64) {
        self.words.raise(word, value);
    }

    /// The position in a word, if it is at or beyond `least`, its check passes, and the block is still this log's: of
    /// random bytes that somebody has written over it, one word in 65,536 passes its check.
    pub(super) fn believed(&self, word: u64, least: u64) -> Option<u64> {
        self.checks.position(self.words.load(word)).filter(|position| *position >= least && self.is_ours())
    }

    /// What a position word holds when it holds this position.
    pub(super) fn word_of(&self, position: u64) -> u64 {
        self.checks.word(position)
    }

    /// The value of a word, of 48 bits that are not all 0, if its check passes.
    pub(super) fn value_of(&self, word: u64) -> Option<u64> {
        self.checks.position(word)
    }

    /// Sets a word to a value of 48 bits with its check.
    pub(super) fn set_value(&self, word: u64, value: u64) {
        self.words.store(word, self.checks.word(value));
    }

    /// Raises a position word; one whose check fails is set.
    pub(super) fn raise_position(&self, word: u64, position: u64) {
        let now = self.words.load(word);
        if now != 0 && self.checks.position(now).is_none() {
            self.words.store(word, self.checks.word(position));
        } else {
            self.words.raise(word, self.checks.word(position));
        }
    }
}

fn stands(lock: Option<&Arc<LockFile>>) -> bool {
    lock.is_none_or(|lock| lock.stands().unwrap_or(false))
}

/// Words that are read and written by system calls. Two calls are not one: a raise may get lost beside another, which
/// leaves a hint lower than it could be. What cannot be read is 0, as in a block without words.
#[derive(Debug)]
struct ByCalls {
    vfs: Arc<dyn Vfs>,
    file: Box<dyn VfsFile>,
}

impl Words for ByCalls {
    fn load(&self, at: u64) -> u64 {
        let mut word = [0; 8];
        match read_full(&*self.file, &mut word, at) {
            Ok(8) => u64::from_le_bytes(word),
            _ => 0,
        }
    }

    fn store(&self, at: u64, word: u64) {
        // A hint that stays behind costs time.
        let _ = write_full(&*self.file, &word.to_le_bytes(), at);
    }

    fn raise(&self, at: u64, word: u64) {
        if self.load(at) < word {
            self.store(at, word);
        }
    }

    fn wait(&self, at: u64, word: u64, time: Duration) {
        if self.load(at) == word {
            self.vfs.sleep(time);
        }
    }

    fn wakes(&self, _at: u64) -> bool {
        false
    }

    fn wake(&self, _at: u64, _count: u32) -> Option<usize> {
        None
    }
}

/// How often a block is made again that somebody deletes at once.
const MADE_AGAIN: u32 = 3;

/// The block that a log's handle goes by now, if any.
#[derive(Debug)]
pub(super) struct ControlBlock {
    /// Why blocks are not to be mapped.
    by_calls: Option<String>,
    how: Open,
    block: RwLock<Option<Arc<Block>>>,
    /// One thread at a time compares and exchanges: a slow one would put back what another has just replaced.
    looking: Mutex<()>,
}

impl ControlBlock {
    /// Opens it if it is there and this log's. Whatever goes wrong is no block, and never an error: all of it is hints.
    pub(super) fn open(
        vfs: &Arc<dyn Vfs>,
        paths: &Paths,
        log: LogId,
        writing: bool,
        by_calls: Option<String>,
    ) -> Self {
        let how = if writing { Open::Write } else { Open::Read };
        let block =
            Block::open(vfs, paths, log, how, by_calls.as_ref()).ok().flatten().filter(Block::is_ours);
        ControlBlock { by_calls, how, block: RwLock::new(block.map(Arc::new)), looking: Mutex::new(()) }
    }

    /// How it is shared now.
    pub(super) fn usage(&self) -> ControlUse {
        match self.get() {
            None => {
                ControlUse::None { why: "there is no block of this log; its next writer makes one".into() }
            }
            Some(block) => match &block.by_calls {
                None => ControlUse::Mapped,
                Some(why) => ControlUse::ByCalls { why: why.clone() },
            },
        }
    }

    /// The block, to be kept for a while.
    pub(super) fn get(&self) -> Option<Arc<Block>> {
        self.block.read().clone()
    }

    /// A look at the block, if there is one.
    pub(super) fn with<T>(&self, look: impl FnOnce(&Block) -> T) -> Option<T> {
        self.block.read().as_deref().map(look)
    }

    /// Compares the block with what stands under its name, and takes that one if it is another. Writes nothing.
    ///
    /// `lock`: LOCK as this process has it open, if it may write. Where that does not stand any more, the workspace was moved
    /// away, and what stands there now, an older copy perhaps, is told nothing of this log.
    pub(super) fn look_again(
        &self,
        vfs: &Arc<dyn Vfs>,
        paths: &Paths,
        log: LogId,
        lock: Option<&Arc<LockFile>>,
    ) {
        let _looking = self.looking.lock();
        self.compare(vfs, paths, log, lock);
    }

    fn compare(&self, vfs: &Arc<dyn Vfs>, paths: &Paths, log: LogId, lock: Option<&Arc<LockFile>>) {
        let now = vfs.stat(&paths.control()).ok().map(|stat| stat.id);
        let known = self.get();
        if known.as_ref().map(|block| block.id) == now && known.as_ref().is_none_or(|block| block.is_ours()) {
            return;
        }
        let fresh = Block::open(vfs, paths, log, self.how, self.by_calls.as_ref()).ok().flatten();
        // Looked at behind the opening: what was opened before stood beside the same LOCK.
        if fresh.is_some() && known.is_some() && !stands(lock) {
            return;
        }
        *self.block.write() = fresh.filter(Block::is_ours).map(Arc::new);
    }

    /// As [`ControlBlock::look_again`], but the block at hand stays in force as long as no other one is this log's.
    /// Returns whether another one was taken.
    pub(super) fn look_for_another(
        &self,
        vfs: &Arc<dyn Vfs>,
        paths: &Paths,
        log: LogId,
        lock: Option<&Arc<LockFile>>,
    ) -> bool {
        let _looking = self.looking.lock();
        let now = vfs.stat(&paths.control()).ok().map(|stat| stat.id);
        if now.is_none() || self.get().map(|block| block.id) == now {
            return false;
        }
        let fresh = Block::open(vfs, paths, log, self.how, self.by_calls.as_ref()).ok().flatten();
        let Some(fresh) = fresh.filter(|fresh| fresh.is_ours() && stands(lock)) else { return false };
        *self.block.write() = Some(Arc::new(fresh));
        true
    }

    /// As [`ControlBlock::look_again`], and makes the block anew where it is missing, or says again whose it is where
    /// that was overwritten. LOCK is held.
    ///
    /// A file of another length is replaced. Where that is refused, as on Windows while somebody has it mapped, the block
    /// that this process has stays in force.
    ///
    /// # Errors
    /// System errors: without a block this process could not tell the others of its commits.
    pub(super) fn make_sure(
        &self,
        vfs: &Arc<dyn Vfs>,
        paths: &Paths,
        log: LogId,
        lock: Option<&Arc<LockFile>>,
    ) -> Result<Arc<Block>> {
        let _looking = self.looking.lock();
        let before = self.get();
        self.compare(vfs, paths, log, lock);
        if let Some(block) = self.get() {
            return Ok(block);
        }
        let mut made = self.make(vfs, paths, log);
        // Somebody may take it away again at any moment.
        for _ in 0..MADE_AGAIN {
            if !made.as_ref().is_err_and(|e| matches!(e.kind(), ErrorKind::NotFound { .. })) {
                break;
            }
            made = self.make(vfs, paths, log);
        }
        let block = match (made, before) {
            (Ok(block), _) => Arc::new(block),
            (Err(_), Some(before)) if before.is_ours() => before,
            (Err(error), _) => return Err(error),
        };
        *self.block.write() = Some(Arc::clone(&block));
        Ok(block)
    }

    /// The block that stands there, with all of its words zeroed because they are somebody's rubbish; or a new one.
    fn make(&self, vfs: &Arc<dyn Vfs>, paths: &Paths, log: LogId) -> Result<Block> {
        match Block::open(vfs, paths, log, self.how, self.by_calls.as_ref())? {
            Some(block) => {
                (0..CONTROL_LEN as u64).step_by(8).for_each(|at| block.words.store(at, 0));
                block.claim();
                Ok(block)
            }
            None => self.create(vfs, paths, log),
        }
    }

    fn create(&self, vfs: &Arc<dyn Vfs>, paths: &Paths, log: LogId) -> Result<Block> {
        let path = paths.control();
        // One name for all, since LOCK is held: what a killed process has left does not pile up.
        let temporary = paths.dir().join(".new-control");
        match vfs.unlink(&temporary) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                return Err(Error::io(e, "replace", &temporary));
            }
            _ => {}
        }
        let file = vfs.open(&temporary, Open::Create).context("create", &temporary)?;
        // Whole before it has its name: a mapping of a hole would need space when it is touched.
        let written = write_full(&*file, &encode(log), 0).map_err(|(_, e)| Error::io(e, "write", &temporary));
        drop(file);
        let published =
            written.and_then(|()| vfs.rename(&temporary, &path, Existing::Replace).context("publish", &path));
        if let Err(error) = published {
            let _ = vfs.unlink(&temporary);
            return Err(error);
        }
        Block::open(vfs, paths, log, self.how, self.by_calls.as_ref())?
            .ok_or_else(|| Error::io(std::io::ErrorKind::NotFound.into(), "open", &path))
    }
}

#[cfg(test)]
mod tests;
