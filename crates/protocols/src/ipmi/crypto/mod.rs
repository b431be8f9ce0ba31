//! Cipher suites 3 and 17: who proves what to whom, and how packets are signed and hidden.
//!
//! | suite | authentication | integrity | confidentiality |
//! |---|---|---|---|
//! | 3 | RAKP-HMAC-SHA1 | HMAC-SHA1-96 | AES-CBC-128 |
//! | 17 | RAKP-HMAC-SHA256 | HMAC-SHA256-128 | AES-CBC-128 |
//!
//! The others are refused: 0 to 2 sign or hide nothing, the rest lean on MD5 or xRC4.

mod exchange;
mod keys;
mod randoms;

use hmac::{Hmac, KeyInit, Mac};
use sha1::Sha1;
use sha2::Sha256;

pub use exchange::Exchange;
pub use keys::{Keys, OpenError};
pub use randoms::Randoms;

use super::wire::setup::{Algorithms, Status};

/// A cipher suite (22.15.2) that we speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Suite {
    Three,
    Seventeen,
}

impl Suite {
    pub const ALL: [Self; 2] = [Self::Seventeen, Self::Three];

    pub fn id(self) -> u8 {
        match self {
            Self::Three => 3,
            Self::Seventeen => 17,
        }
    }

    pub fn from_id(id: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|suite| suite.id() == id)
    }

    pub fn algorithms(self) -> Algorithms {
        let (authentication, integrity) = match self {
            Self::Three => (1, 1),
            Self::Seventeen => (3, 4),
        };
        Algorithms {
            authentication: Some(authentication),
            integrity: Some(integrity),
            confidentiality: Some(1),
        }
    }

    /// The suite among `allowed` (best first) that a proposal means, or what is wrong with the proposal.
    pub fn choose(allowed: &[Self], proposed: Algorithms) -> Result<Self, Status> {
        let fits = |ours: Option<u8>, theirs: Option<u8>| theirs.is_none() || ours == theirs;
        let any = |pick: fn(Algorithms) -> Option<u8>| {
            allowed
                .iter()
                .any(|suite| fits(pick(suite.algorithms()), pick(proposed)))
        };
        if !any(|algorithms| algorithms.authentication) {
            return Err(Status::INVALID_AUTHENTICATION);
        }
        if !any(|algorithms| algorithms.integrity) {
            return Err(Status::INVALID_INTEGRITY);
        }
        if !any(|algorithms| algorithms.confidentiality) {
            return Err(Status::INVALID_CONFIDENTIALITY);
        }
        allowed
            .iter()
            .copied()
            .find(|suite| {
                let ours = suite.algorithms();
                fits(ours.authentication, proposed.authentication)
                    && fits(ours.integrity, proposed.integrity)
                    && fits(ours.confidentiality, proposed.confidentiality)
            })
            .ok_or(Status::NO_CIPHER_SUITE)
    }

    /// Bytes of a packet's auth code, and of RAKP 4's check value.
    fn code_length(self) -> usize {
        match self {
            Self::Three => 12,
            Self::Seventeen => 16,
        }
    }

    fn hash_length(self) -> usize {
        match self {
            Self::Three => 20,
            Self::Seventeen => 32,
        }
    }

    fn hmac(self, key: &[u8], data: &[u8]) -> Vec<u8> {
        match self {
            Self::Three => keyed::<Hmac<Sha1>>(key, data)
                .finalize()
                .into_bytes()
                .to_vec(),
            Self::Seventeen => keyed::<Hmac<Sha256>>(key, data)
                .finalize()
                .into_bytes()
                .to_vec(),
        }
    }

    /// Whether `code` is the first `length` bytes of the HMAC; takes the same time for every wrong code.
    fn verify(self, key: &[u8], data: &[u8], code: &[u8], length: usize) -> bool {
        if code.len() != length {
            return false;
        }
        match self {
            Self::Three => keyed::<Hmac<Sha1>>(key, data)
                .verify_truncated_left(code)
                .is_ok(),
            Self::Seventeen => keyed::<Hmac<Sha256>>(key, data)
                .verify_truncated_left(code)
                .is_ok(),
        }
    }
}

fn keyed<M: Mac + KeyInit>(key: &[u8], data: &[u8]) -> M {
    <M as KeyInit>::new_from_slice(key)
        .expect("HMAC takes keys of any length")
        .chain_update(data)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ipmi::wire::session::{PayloadKind, V20};
    use model::Secret;
    use proptest::prelude::*;

    fn exchange(suite: Suite) -> Exchange {
        Exchange {
            suite,
            console_session: 0xa0a2_a3a4,
            bmc_session: 7,
            console_random: [1; 16],
            bmc_random: [2; 16],
            guid: [3; 16],
            role: 0x14,
            username: b"admin".to_vec(),
        }
    }

    fn secret(text: &str) -> Secret<String> {
        Secret::new(text.to_string())
    }

    #[test]
    fn each_side_believes_the_other_with_the_right_password_only() {
        for suite in Suite::ALL {
            let exchange = exchange(suite);
            let (right, wrong) = (secret("s3cret"), secret("s3creT"));
            assert!(exchange.bmc_proof_holds(&right, &exchange.bmc_proof(&right)));
            assert!(!exchange.bmc_proof_holds(&wrong, &exchange.bmc_proof(&right)));
            assert!(exchange.console_proof_holds(&right, &exchange.console_proof(&right)));
            assert!(!exchange.console_proof_holds(&wrong, &exchange.console_proof(&right)));
            let keys = exchange.keys(&right);
            assert!(exchange.check_value_holds(&keys, &exchange.check_value(&keys)));
            assert!(
                !exchange.check_value_holds(&exchange.keys(&wrong), &exchange.check_value(&keys))
            );
        }
    }

    #[test]
    fn a_shortened_proof_is_not_a_proof() {
        let exchange = exchange(Suite::Seventeen);
        let proof = exchange.console_proof(&secret("x"));
        assert!(!exchange.console_proof_holds(&secret("x"), &proof[..4]));
        assert!(!exchange.console_proof_holds(&secret("x"), &[]));
    }

    #[test]
    fn proposals_are_answered_with_the_status_the_specification_names() {
        let algorithms = |authentication, integrity, confidentiality| Algorithms {
            authentication: Some(authentication),
            integrity: Some(integrity),
            confidentiality: Some(confidentiality),
        };
        let table = [
            ("suite 3", algorithms(1, 1, 1), Ok(Suite::Three)),
            ("suite 17", algorithms(3, 4, 1), Ok(Suite::Seventeen)),
            (
                "suite 0, no security",
                algorithms(0, 0, 0),
                Err(Status::INVALID_AUTHENTICATION),
            ),
            (
                "suite 1, no integrity",
                algorithms(1, 0, 0),
                Err(Status::INVALID_INTEGRITY),
            ),
            (
                "suite 2, nothing hidden",
                algorithms(1, 1, 0),
                Err(Status::INVALID_CONFIDENTIALITY),
            ),
            (
                "suite 8, MD5",
                algorithms(2, 2, 1),
                Err(Status::INVALID_AUTHENTICATION),
            ),
            (
                "a mixture",
                algorithms(1, 4, 1),
                Err(Status::NO_CIPHER_SUITE),
            ),
        ];
        for (name, proposed, expected) in table {
            assert_eq!(Suite::choose(&Suite::ALL, proposed), expected, "{name}");
        }
        let open = Algorithms {
            authentication: None,
            integrity: None,
            confidentiality: None,
        };
        assert_eq!(
            Suite::choose(&Suite::ALL, open),
            Ok(Suite::Seventeen),
            "no proposal gets the best"
        );
        assert_eq!(
            Suite::choose(&[Suite::Three], algorithms(3, 4, 1)),
            Err(Status::INVALID_AUTHENTICATION)
        );
    }

    proptest! {
        #[test]
        fn sealed_packets_open_and_changed_ones_do_not(
            seventeen: bool, session: u32, sequence: u32, iv: [u8; 16],
            payload in prop::collection::vec(any::<u8>(), 0..100), at: prop::sample::Index, flip in 1u8..,
        ) {
            let keys = exchange(if seventeen { Suite::Seventeen } else { Suite::Three }).keys(&secret("pw"));
            let packet = keys.seal(PayloadKind::Ipmi, session, sequence, &payload, iv);
            prop_assert_eq!(keys.open(&packet), Ok(payload));
            let mut changed = packet.clone();
            let at = at.index(changed.payload.len());
            changed.payload[at] ^= flip;
            prop_assert_eq!(keys.open(&changed), Err(OpenError::Integrity));
            let renumbered = V20 { sequence: sequence.wrapping_add(1), ..packet };
            prop_assert_eq!(keys.open(&renumbered), Err(OpenError::Integrity));
        }

        #[test]
        fn any_ciphertext_decrypts_or_is_refused(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = exchange(Suite::Three).keys(&secret("pw")).decrypt(&bytes);
        }
    }
}
