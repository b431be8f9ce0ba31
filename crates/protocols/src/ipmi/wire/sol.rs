//! Serial over LAN payloads (15.9).
//!
//! ```text
//!   sequence(4 bits) | acknowledged sequence(4 bits) | accepted characters | operation or status | characters
//! ```
//! Sequence 0 means: no characters here, an acknowledgement alone.

use super::{Error, Reader};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sol {
    /// 1 to 15; 0 carries nothing that needs an acknowledgement.
    pub sequence: u8,
    /// The packet acknowledged; 0 for none.
    pub acked: u8,
    pub accepted: u8,
    pub flags: u8,
    pub characters: Vec<u8>,
}

/// Both ways: the characters of `acked` beyond `accepted` were not taken.
pub const NACK: u8 = 0x40;

/// What a console asks of the BMC.
pub mod operation {
    pub const BREAK: u8 = 0x10;
    pub const FLUSH_INBOUND: u8 = 0x02;
    pub const FLUSH_OUTBOUND: u8 = 0x01;
}

/// What a BMC tells the console.
pub mod status {
    pub const UNAVAILABLE: u8 = 0x20;
    pub const DEACTIVATED: u8 = 0x10;
    pub const OVERRUN: u8 = 0x08;
    pub const BREAK_DETECTED: u8 = 0x04;
}

impl Sol {
    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let mut reader = Reader::new("SOL", bytes);
        let [sequence, acked, accepted, flags] = reader.array()?;
        Ok(Self {
            sequence: sequence & 0x0f,
            acked: acked & 0x0f,
            accepted,
            flags,
            characters: reader.rest().to_vec(),
        })
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![
            self.sequence & 0x0f,
            self.acked & 0x0f,
            self.accepted,
            self.flags,
        ];
        bytes.extend(&self.characters);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn sol_reads_back_as_written(
            sequence in 0u8..16, acked in 0u8..16, accepted: u8, flags: u8,
            characters in prop::collection::vec(any::<u8>(), 0..100),
        ) {
            let sol = Sol { sequence, acked, accepted, flags, characters };
            prop_assert_eq!(Sol::decode(&sol.encode()), Ok(sol));
        }

        #[test]
        fn any_bytes_give_sol_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..8)) {
            prop_assert_eq!(Sol::decode(&bytes).is_ok(), bytes.len() >= 4);
        }
    }
}
