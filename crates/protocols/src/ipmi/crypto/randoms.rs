//! Numbers nobody can guess, for a machine that may not ask for any.

use hmac::{Hmac, Mac};
use model::Secret;
use sha2::Sha256;

use super::keyed;

/// Nonces and initialisation vectors, all from one seed: HMAC-SHA256 of a counter.
///
/// Whoever builds a machine draws the seed from the operating system; the machine stays a function of its inputs.
#[derive(Debug)]
pub struct Randoms {
    seed: Secret<[u8; 32]>,
    counter: u64,
}

impl Randoms {
    pub fn new(seed: Secret<[u8; 32]>) -> Self {
        Self { seed, counter: 0 }
    }

    pub fn nonce(&mut self) -> [u8; 16] {
        self.counter += 1;
        let bytes = keyed::<Hmac<Sha256>>(self.seed.expose(), &self.counter.to_le_bytes())
            .finalize()
            .into_bytes();
        bytes[..16].try_into().expect("SHA-256 gives 32 bytes")
    }

    /// A session id: never zero, which means "no session".
    pub fn session_id(&mut self) -> u32 {
        let [a, b, c, d, ..] = self.nonce();
        u32::from_le_bytes([a, b, c, d]).max(1)
    }
}
