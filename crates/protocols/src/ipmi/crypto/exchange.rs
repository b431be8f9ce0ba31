//! RAKP: each side proves that it knows the password, and both arrive at the same keys.

use model::Secret;

use super::{Keys, Suite};

/// Everything both sides know once RAKP 1 and 2 have passed (13.28 and 13.31).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exchange {
    pub suite: Suite,
    pub console_session: u32,
    pub bmc_session: u32,
    pub console_random: [u8; 16],
    pub bmc_random: [u8; 16],
    pub guid: [u8; 16],
    /// The whole byte of RAKP 1, lookup bit included.
    pub role: u8,
    pub username: Vec<u8>,
}

impl Exchange {
    /// RAKP 2: the BMC knows the password.
    pub fn bmc_proof(&self, password: &Secret<String>) -> Vec<u8> {
        self.suite
            .hmac(password.expose().as_bytes(), &self.bmc_claim())
    }

    pub fn bmc_proof_holds(&self, password: &Secret<String>, code: &[u8]) -> bool {
        self.suite.verify(
            password.expose().as_bytes(),
            &self.bmc_claim(),
            code,
            self.suite.hash_length(),
        )
    }

    /// RAKP 3: the console knows the password.
    pub fn console_proof(&self, password: &Secret<String>) -> Vec<u8> {
        self.suite
            .hmac(password.expose().as_bytes(), &self.console_claim())
    }

    pub fn console_proof_holds(&self, password: &Secret<String>, code: &[u8]) -> bool {
        self.suite.verify(
            password.expose().as_bytes(),
            &self.console_claim(),
            code,
            self.suite.hash_length(),
        )
    }

    /// The session's keys. There is no separate BMC key (K_G): the password serves ("one-key login").
    pub fn keys(&self, password: &Secret<String>) -> Keys {
        let data = [&self.console_random[..], &self.bmc_random, &self.who()].concat();
        let session_key = self.suite.hmac(password.expose().as_bytes(), &data);
        let k1 = self.suite.hmac(&session_key, &[1; 20]);
        let k2 = self.suite.hmac(&session_key, &[2; 20]);
        Keys {
            suite: self.suite,
            session_key: Secret::new(session_key),
            k1: Secret::new(k1),
            aes: Secret::new(
                k2[..16]
                    .try_into()
                    .expect("hashes are longer than an AES key"),
            ),
        }
    }

    /// RAKP 4: the BMC derived the same keys.
    pub fn check_value(&self, keys: &Keys) -> Vec<u8> {
        let mut code = self
            .suite
            .hmac(keys.session_key.expose(), &self.keys_claim());
        code.truncate(self.suite.code_length());
        code
    }

    pub fn check_value_holds(&self, keys: &Keys, code: &[u8]) -> bool {
        self.suite.verify(
            keys.session_key.expose(),
            &self.keys_claim(),
            code,
            self.suite.code_length(),
        )
    }

    fn bmc_claim(&self) -> Vec<u8> {
        let sessions = [
            self.console_session.to_le_bytes(),
            self.bmc_session.to_le_bytes(),
        ]
        .concat();
        [
            &sessions[..],
            &self.console_random,
            &self.bmc_random,
            &self.guid,
            &self.who(),
        ]
        .concat()
    }

    fn console_claim(&self) -> Vec<u8> {
        [
            &self.bmc_random[..],
            &self.console_session.to_le_bytes(),
            &self.who(),
        ]
        .concat()
    }

    fn keys_claim(&self) -> Vec<u8> {
        [
            &self.console_random[..],
            &self.bmc_session.to_le_bytes(),
            &self.guid,
        ]
        .concat()
    }

    fn who(&self) -> Vec<u8> {
        let mut who = vec![self.role, self.username.len() as u8];
        who.extend(&self.username);
        who
    }
}
