//! The only source of chance in the simulator.

/// A small seeded generator (SplitMix64): the same seed gives the same numbers on every platform, for ever.
#[derive(Clone, Debug)]
pub struct Rng {
    state: u64,
}

impl Rng {
    /// A generator that is a function of `seed` alone.
    pub fn new(seed: u64) -> Self {
        Rng { state: seed ^ 0x9e37_79b9_7f4a_7c15 }
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`; 0 if `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// An index below `bound`; 0 if `bound` is 0.
    pub fn index(&mut self, bound: usize) -> usize {
        #[expect(clippy::cast_possible_truncation, reason = "below a usize")]
        let index = self.below(bound as u64) as usize;
        index
    }

    /// True `times` times out of `of`, on average.
    pub fn chance(&mut self, times: u64, of: u64) -> bool {
        self.below(of) < times
    }

    /// Fills `buf`.
    pub fn fill(&mut self, buf: &mut [u8]) {
        for chunk in buf.chunks_mut(8) {
            for (to, from) in chunk.iter_mut().zip(self.next_u64().to_le_bytes()) {
                *to = from;
            }
        }
    }

    /// A second generator that shares nothing with this one from here on.
    #[must_use]
    pub fn split(&mut self) -> Rng {
        Rng::new(self.next_u64())
    }

    /// Puts `items` into a random order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.index(i + 1));
        }
    }
}
