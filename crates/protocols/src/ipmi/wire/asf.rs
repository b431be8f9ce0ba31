//! RMCP presence ping and pong (13.2.3): "is there a BMC, and does it speak IPMI?"
//!
//! ```text
//!   IANA 4542 (4, big endian) | type | tag | reserved | length | data
//! ```

use super::{Error, Reader};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    Ping { tag: u8 },
    Pong { tag: u8, pong: Pong },
}

/// What a pong tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pong {
    pub enterprise: u32,
    pub oem: u32,
    /// Bit 7: IPMI; bits 3-0: ASF version 1.0.
    pub entities: u8,
    pub interactions: u8,
}

impl Pong {
    pub const IPMI: Self = Self {
        enterprise: IANA_ASF,
        oem: 0,
        entities: 0x81,
        interactions: 0,
    };

    pub fn speaks_ipmi(&self) -> bool {
        self.entities & 0x80 != 0
    }
}

const IANA_ASF: u32 = 4542;
const PING: u8 = 0x80;
const PONG: u8 = 0x40;

impl Message {
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let mut reader = Reader::new("ASF", bytes);
        let iana = u32::from_be_bytes(reader.array()?);
        if iana != IANA_ASF {
            return Err(Error::Unknown {
                part: "ASF enterprise",
                value: iana,
            });
        }
        let [kind, tag, _reserved, length] = reader.array()?;
        let mut data = Reader::new("ASF data", reader.take(length.into())?);
        match kind {
            PING => Ok(Self::Ping { tag }),
            PONG => {
                let enterprise = u32::from_be_bytes(data.array()?);
                let oem = u32::from_be_bytes(data.array()?);
                let [entities, interactions] = data.array()?;
                data.array::<6>()?;
                Ok(Self::Pong {
                    tag,
                    pong: Pong {
                        enterprise,
                        oem,
                        entities,
                        interactions,
                    },
                })
            }
            kind => Err(Error::Unknown {
                part: "ASF message type",
                value: kind.into(),
            }),
        }
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = IANA_ASF.to_be_bytes().to_vec();
        match self {
            Self::Ping { tag } => bytes.extend([PING, *tag, 0, 0]),
            Self::Pong { tag, pong } => {
                bytes.extend([PONG, *tag, 0, 16]);
                bytes.extend(pong.enterprise.to_be_bytes());
                bytes.extend(pong.oem.to_be_bytes());
                bytes.extend([pong.entities, pong.interactions, 0, 0, 0, 0, 0, 0]);
            }
        }
        bytes
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    pub(in super::super) fn any_message() -> impl Strategy<Value = Message> {
        prop_oneof![
            any::<u8>().prop_map(|tag| Message::Ping { tag }),
            any::<(u8, u32, u32, u8, u8)>().prop_map(
                |(tag, enterprise, oem, entities, interactions)| Message::Pong {
                    tag,
                    pong: Pong {
                        enterprise,
                        oem,
                        entities,
                        interactions
                    }
                }
            ),
        ]
    }
}
