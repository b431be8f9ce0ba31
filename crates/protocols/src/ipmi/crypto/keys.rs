//! Packets of a session, signed and encrypted.

use aes::Aes128;
use aes::cipher::block_padding::NoPadding;
use aes::cipher::{BlockModeDecrypt, BlockModeEncrypt, KeyIvInit};
use model::Secret;

use super::Suite;
use crate::ipmi::wire::session::{NEXT_HEADER, PayloadKind, V20};

/// What signs and hides the packets of one session.
#[derive(Debug, Clone)]
pub struct Keys {
    pub(super) suite: Suite,
    pub(super) session_key: Secret<Vec<u8>>,
    pub(super) k1: Secret<Vec<u8>>,
    pub(super) aes: Secret<[u8; 16]>,
}

/// Why a packet of a session is not believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    #[error("the packet is not signed and encrypted")]
    Bare,
    #[error("the packet's auth code does not match")]
    Integrity,
    #[error("the packet's encryption padding is wrong")]
    Padding,
}

const BLOCK: usize = 16;

impl Keys {
    /// Encrypts and signs a payload.
    pub fn seal(
        &self,
        kind: PayloadKind,
        session: u32,
        sequence: u32,
        payload: &[u8],
        iv: [u8; 16],
    ) -> V20 {
        let payload = self.encrypt(payload, iv);
        let mut packet = V20 {
            kind,
            encrypted: true,
            session,
            sequence,
            payload,
            trailer: Some(Vec::new()),
        };
        let mut covered = packet.head();
        let pad = (covered.len() + 2).wrapping_neg() % 4;
        let mut trailer = vec![0xff; pad];
        trailer.extend([pad as u8, NEXT_HEADER]);
        covered.extend(&trailer);
        let mut code = self.suite.hmac(self.k1.expose(), &covered);
        code.truncate(self.suite.code_length());
        trailer.extend(code);
        packet.trailer = Some(trailer);
        packet
    }

    /// Checks the signature and decrypts the payload.
    pub fn open(&self, packet: &V20) -> Result<Vec<u8>, OpenError> {
        let trailer = match &packet.trailer {
            Some(trailer) if packet.encrypted => trailer,
            Some(_) | None => return Err(OpenError::Bare),
        };
        let length = self.suite.code_length();
        let at = trailer
            .len()
            .checked_sub(length)
            .ok_or(OpenError::Integrity)?;
        let (padding, code) = trailer.split_at(at);
        let mut covered = packet.head();
        covered.extend(padding);
        if !self.suite.verify(self.k1.expose(), &covered, code, length) {
            return Err(OpenError::Integrity);
        }
        self.decrypt(&packet.payload)
    }

    /// Initialisation vector, then the payload with padding 1, 2, 3 ... and the pad's length (13.29).
    fn encrypt(&self, payload: &[u8], iv: [u8; 16]) -> Vec<u8> {
        let pad = (payload.len() + 1).wrapping_neg() % BLOCK;
        let mut plain = payload.to_vec();
        plain.extend((1..).take(pad));
        plain.push(pad as u8);
        let cipher = cbc::Encryptor::<Aes128>::new(self.aes.expose().into(), &iv.into());
        [&iv[..], &cipher.encrypt_padded_vec::<NoPadding>(&plain)].concat()
    }

    pub(super) fn decrypt(&self, bytes: &[u8]) -> Result<Vec<u8>, OpenError> {
        let (iv, hidden) = bytes
            .split_first_chunk::<BLOCK>()
            .ok_or(OpenError::Padding)?;
        let cipher = cbc::Decryptor::<Aes128>::new(self.aes.expose().into(), iv.into());
        let mut plain = cipher
            .decrypt_padded_vec::<NoPadding>(hidden)
            .map_err(|_| OpenError::Padding)?;
        let pad = usize::from(plain.pop().ok_or(OpenError::Padding)?);
        if pad >= BLOCK || pad > plain.len() {
            return Err(OpenError::Padding);
        }
        let padding = plain.split_off(plain.len() - pad);
        if !padding.into_iter().eq((1..).take(pad)) {
            return Err(OpenError::Padding);
        }
        Ok(plain)
    }
}
