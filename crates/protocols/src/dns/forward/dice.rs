//! Numbers an onlooker cannot foresee: SHA-256 over a secret and a counter.

use sha2::{Digest, Sha256};

#[derive(Clone)]
pub struct Dice {
    secret: [u8; 32],
    count: u64,
}

impl std::fmt::Debug for Dice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dice").finish_non_exhaustive()
    }
}

impl Dice {
    pub fn new(secret: [u8; 32]) -> Self {
        Self { secret, count: 0 }
    }

    pub fn roll(&mut self) -> [u8; 32] {
        self.count += 1;
        let digest = Sha256::new()
            .chain_update(self.secret)
            .chain_update(self.count.to_be_bytes())
            .finalize();
        digest.into()
    }
}
