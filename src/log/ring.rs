//! Waking those who sleep until there is something new. `format-spec/format.md`, section *Control block*.
//!
//! ```text
//! sleeper                                writer
//!   value := RING                          (frames stand) TAIL := end
//!   SLEEPERS := 1                          ── fence ──
//!   ── fence ──                            SLEEPERS ≠ 0?
//!   looks once more (TAIL)                   SLEEPERS := 0
//!   sleeps on RING = value, ≤ 500 ms         RING := RING + 1, wakes all who sleep on it
//! ```
//! One of the two fences comes first: either the sleeper's last look sees the writer's tail, or the writer sees that
//! somebody sleeps. A sleeper who is not asleep yet when RING is raised finds another value there, and does not fall
//! asleep. SLEEPERS is a flag and no count: of a sleeper that was killed it remembers one needless ring. Both words are
//! hints: whatever is lost or random in them costs a sleeper the rest of its pause.

use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use super::control::Block;
use super::engine::{Log, Writer};
use super::format::{WORD_RING, WORD_SLEEPERS};

impl Block {
    /// Wakes whoever has said that it sleeps; nothing where nobody has.
    fn ring(&self) {
        if !self.wakes(WORD_RING) {
            return;
        }
        fence(Ordering::SeqCst);
        if self.load(WORD_SLEEPERS) != 0 {
            self.store(WORD_SLEEPERS, 0);
            self.ring_anyway();
        }
    }

    /// Wakes whoever sleeps, said or unsaid.
    pub(super) fn ring_anyway(&self) {
        match self.load(WORD_RING).checked_add(1) {
            Some(next) => self.raise(WORD_RING, next),
            None => self.store(WORD_RING, 1),
        }
        self.wake(WORD_RING, u32::MAX >> 1);
    }

    /// Says that somebody is about to sleep; it looks once more before it does. Returns what to sleep on.
    pub(super) fn announce_sleep(&self) -> u64 {
        let value = self.load(WORD_RING);
        self.store(WORD_SLEEPERS, 1);
        fence(Ordering::SeqCst);
        value
    }
}

impl Log {
    /// After LOCK has been given back, or kept: wakes those who wait for what has been appended.
    pub(super) fn ring(&self, writer: &Writer) {
        if let Some(block) = writer.words(self) {
            block.ring();
        }
    }

    /// After a sync: wakes those who wait for what is durable now.
    pub(super) fn ring_durable(&self) {
        if self.uses_words() {
            let _ = self.control.with(Block::ring);
        }
    }

    /// The block by which this handle can be woken; `None` where it can only look now and then.
    pub(super) fn bell(&self) -> Option<Arc<Block>> {
        if !self.uses_words() || self.session.is_none() {
            return None;
        }
        self.control.get().filter(|block| block.wakes(WORD_RING))
    }
}
