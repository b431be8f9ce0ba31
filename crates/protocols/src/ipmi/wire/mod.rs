//! The bytes on port 623: RMCP, then either an ASF ping or an IPMI session packet.
//!
//! Decoders take any bytes and give a value or an [`Error`]; encoders are their inverse.

pub mod asf;
pub mod message;
pub mod session;
pub mod setup;
pub mod sol;

use session::{V15, V20};

/// UDP port of the BMC.
pub const PORT: u16 = 623;

/// One datagram to or from port 623.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Packet {
    Asf(asf::Message),
    /// An IPMI 1.5 session packet: used here only before a session exists.
    V15(V15),
    /// An IPMI 2.0 (RMCP+) session packet.
    V20(V20),
}

/// Why bytes are not a packet.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("{part}: {missing} more bytes expected")]
    Short { part: &'static str, missing: usize },
    #[error("{part}: value {value:#04x} is not known")]
    Unknown { part: &'static str, value: u32 },
    #[error("{part}: checksum does not match")]
    Checksum { part: &'static str },
    #[error("{part}: {extra} bytes too many")]
    Long { part: &'static str, extra: usize },
}

const RMCP_VERSION: u8 = 6;
/// RMCP sequence number that asks for no RMCP acknowledgement; IPMI always uses it (13.2.1).
const RMCP_NO_ACK: u8 = 0xff;
const CLASS_ASF: u8 = 6;
const CLASS_IPMI: u8 = 7;
const AUTH_TYPE_RMCP_PLUS: u8 = 6;

impl Packet {
    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let mut reader = Reader::new("RMCP", bytes);
        let [version, _reserved, _sequence, class] = reader.array()?;
        if version != RMCP_VERSION {
            return Err(Error::Unknown {
                part: "RMCP version",
                value: version.into(),
            });
        }
        match class {
            CLASS_ASF => asf::Message::decode(reader.rest()).map(Self::Asf),
            CLASS_IPMI if reader.peek() == Some(AUTH_TYPE_RMCP_PLUS) => {
                V20::decode(reader.rest()).map(Self::V20)
            }
            CLASS_IPMI => V15::decode(reader.rest()).map(Self::V15),
            class => Err(Error::Unknown {
                part: "RMCP class",
                value: class.into(),
            }),
        }
    }

    pub fn encode(&self) -> Vec<u8> {
        let (class, body) = match self {
            Self::Asf(message) => (CLASS_ASF, message.encode()),
            Self::V15(packet) => (CLASS_IPMI, packet.encode()),
            Self::V20(packet) => (CLASS_IPMI, packet.encode()),
        };
        let mut bytes = vec![RMCP_VERSION, 0, RMCP_NO_ACK, class];
        bytes.extend(body);
        bytes
    }
}

/// Reads fields from the front of a slice.
struct Reader<'a> {
    part: &'static str,
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    fn new(part: &'static str, bytes: &'a [u8]) -> Self {
        Self { part, bytes }
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], Error> {
        let Some((taken, rest)) = self.bytes.split_at_checked(count) else {
            return Err(Error::Short {
                part: self.part,
                missing: count - self.bytes.len(),
            });
        };
        self.bytes = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        self.take(N)
            .map(|taken| taken.try_into().expect("take gives as many bytes as asked"))
    }

    fn u8(&mut self) -> Result<u8, Error> {
        self.array::<1>().map(|[byte]| byte)
    }

    fn u16(&mut self) -> Result<u16, Error> {
        self.array().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Result<u32, Error> {
        self.array().map(u32::from_le_bytes)
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.first().copied()
    }

    fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.bytes)
    }

    fn end(&self) -> Result<(), Error> {
        match self.bytes.len() {
            0 => Ok(()),
            extra => Err(Error::Long {
                part: self.part,
                extra,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_packet() -> impl Strategy<Value = Packet> {
        prop_oneof![
            asf::tests::any_message().prop_map(Packet::Asf),
            session::tests::any_v15().prop_map(Packet::V15),
            session::tests::any_v20().prop_map(Packet::V20),
        ]
    }

    proptest! {
        #[test]
        fn packets_read_back_as_written(packet in any_packet()) {
            prop_assert_eq!(Packet::decode(&packet.encode()), Ok(packet));
        }

        #[test]
        fn any_bytes_give_a_packet_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = Packet::decode(&bytes);
        }

        #[test]
        fn any_bytes_after_an_ipmi_header_give_a_packet_or_an_error(
            class in prop::sample::select(vec![CLASS_ASF, CLASS_IPMI]),
            auth in prop::sample::select(vec![0u8, 2, 4, 6, 9]),
            tail in prop::collection::vec(any::<u8>(), 0..80),
        ) {
            let mut bytes = vec![RMCP_VERSION, 0, RMCP_NO_ACK, class, auth];
            bytes.extend(tail);
            let _ = Packet::decode(&bytes);
        }
    }
}
