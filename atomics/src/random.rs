//! Reproducible numbers for the tests and the conformance suite.

/// The SplitMix64 generator (Steele, Lea, Flood: Fast splittable pseudorandom number generators, OOPSLA 2014,
/// <https://doi.org/10.1145/2660193.2660195>): it is good enough to choose tests, and the same everywhere.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// Makes a generator whose numbers depend only on `seed` and `stream`. Ranks take their number as the stream.
    pub(crate) fn new(seed: u64, stream: u64) -> Random {
        let mut random = Random(seed);
        let seed = random.next();
        Random(seed ^ stream.wrapping_mul(0xd134_2543_de82_ef95))
    }

    /// Returns the next 64 bits.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `bound`, which is not 0. The bias is below 2^-32 for bounds up to 2^32.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// Fills `bytes` with random bytes.
    pub(crate) fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.next().to_ne_bytes()[..chunk.len()]);
        }
    }
}
