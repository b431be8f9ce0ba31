//! Delays that differ from node to node (SplitMix64): nothing here is secret.

use std::time::Duration;

#[derive(Debug)]
pub struct Random(pub u64);

impl Random {
    pub fn millis(&mut self, from: u64, to: u64) -> Duration {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        Duration::from_millis(from + (z ^ (z >> 31)) % (to - from + 1))
    }
}
