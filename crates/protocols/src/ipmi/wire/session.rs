//! Session headers, IPMI 1.5 and 2.0 (13.6).
//!
//! ```text
//!   1.5   auth type | sequence(4) | session id(4) | [auth code(16)] | length(1) | payload
//!   2.0   06 | payload type | [OEM iana(4), id(2)] | session id(4) | sequence(4) | length(2) | payload
//!         then, if authenticated:  FF padding | pad length | 07 | auth code
//! ```

use super::{AUTH_TYPE_RMCP_PLUS, Error, Reader};

/// An IPMI 1.5 packet. Outside a session: no authentication, sequence and id zero.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct V15 {
    pub auth: Auth,
    pub sequence: u32,
    pub session: u32,
    pub payload: Vec<u8>,
}

/// How an IPMI 1.5 packet is authenticated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Auth {
    None,
    Md2([u8; 16]),
    Md5([u8; 16]),
    Password([u8; 16]),
    Oem([u8; 16]),
}

impl V15 {
    pub fn outside_session(payload: Vec<u8>) -> Self {
        Self {
            auth: Auth::None,
            sequence: 0,
            session: 0,
            payload,
        }
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let mut reader = Reader::new("IPMI 1.5 session", bytes);
        let kind = reader.u8()?;
        let sequence = reader.u32()?;
        let session = reader.u32()?;
        let auth = match kind {
            0 => Auth::None,
            1 => Auth::Md2(reader.array()?),
            2 => Auth::Md5(reader.array()?),
            4 => Auth::Password(reader.array()?),
            5 => Auth::Oem(reader.array()?),
            kind => {
                return Err(Error::Unknown {
                    part: "authentication type",
                    value: kind.into(),
                });
            }
        };
        let length = reader.u8()?;
        // Some consoles add a byte to dodge lengths that old network chips could not send; leave it.
        let payload = reader.take(length.into())?.to_vec();
        Ok(Self {
            auth,
            sequence,
            session,
            payload,
        })
    }

    /// A payload longer than 255 bytes cannot be said in this header and is cut; nothing we send is.
    pub(super) fn encode(&self) -> Vec<u8> {
        let (kind, code) = match &self.auth {
            Auth::None => (0, None),
            Auth::Md2(code) => (1, Some(code)),
            Auth::Md5(code) => (2, Some(code)),
            Auth::Password(code) => (4, Some(code)),
            Auth::Oem(code) => (5, Some(code)),
        };
        let mut bytes = vec![kind];
        bytes.extend(self.sequence.to_le_bytes());
        bytes.extend(self.session.to_le_bytes());
        bytes.extend(code.into_iter().flatten());
        let payload = &self.payload[..self.payload.len().min(255)];
        bytes.push(payload.len() as u8);
        bytes.extend(payload);
        bytes
    }
}

/// An IPMI 2.0 packet, its payload perhaps still encrypted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct V20 {
    pub kind: PayloadKind,
    pub encrypted: bool,
    pub session: u32,
    pub sequence: u32,
    pub payload: Vec<u8>,
    /// Padding, pad length, next header and auth code of an authenticated packet.
    pub trailer: Option<Vec<u8>>,
}

/// What the payload of an RMCP+ packet is (13.27.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PayloadKind {
    Ipmi,
    Sol,
    Oem { iana: u32, id: u16 },
    OpenRequest,
    OpenResponse,
    Rakp1,
    Rakp2,
    Rakp3,
    Rakp4,
    Other(u8),
}

const ENCRYPTED: u8 = 0x80;
const AUTHENTICATED: u8 = 0x40;
pub(in crate::ipmi) const NEXT_HEADER: u8 = 0x07;

impl V20 {
    /// A packet of session set-up: neither signed nor encrypted, ids and sequence zero.
    pub fn outside_session(kind: PayloadKind, payload: Vec<u8>) -> Self {
        Self {
            kind,
            encrypted: false,
            session: 0,
            sequence: 0,
            payload,
            trailer: None,
        }
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let mut reader = Reader::new("RMCP+ session", bytes);
        let auth_type = reader.u8()?;
        if auth_type != AUTH_TYPE_RMCP_PLUS {
            return Err(Error::Unknown {
                part: "authentication type",
                value: auth_type.into(),
            });
        }
        let flags = reader.u8()?;
        let kind = match flags & 0x3f {
            0x00 => PayloadKind::Ipmi,
            0x01 => PayloadKind::Sol,
            0x02 => PayloadKind::Oem {
                iana: reader.u32()?,
                id: reader.u16()?,
            },
            0x10 => PayloadKind::OpenRequest,
            0x11 => PayloadKind::OpenResponse,
            0x12 => PayloadKind::Rakp1,
            0x13 => PayloadKind::Rakp2,
            0x14 => PayloadKind::Rakp3,
            0x15 => PayloadKind::Rakp4,
            other => PayloadKind::Other(other),
        };
        let session = reader.u32()?;
        let sequence = reader.u32()?;
        let length = reader.u16()?;
        let payload = reader.take(length.into())?.to_vec();
        let trailer = (flags & AUTHENTICATED != 0).then(|| reader.rest().to_vec());
        Ok(Self {
            kind,
            encrypted: flags & ENCRYPTED != 0,
            session,
            sequence,
            payload,
            trailer,
        })
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = self.head();
        bytes.extend(self.trailer.iter().flatten());
        bytes
    }

    /// Everything before the trailer: what the auth code covers, but for the padding.
    pub(in crate::ipmi) fn head(&self) -> Vec<u8> {
        let code = match self.kind {
            PayloadKind::Ipmi => 0x00,
            PayloadKind::Sol => 0x01,
            PayloadKind::Oem { .. } => 0x02,
            PayloadKind::OpenRequest => 0x10,
            PayloadKind::OpenResponse => 0x11,
            PayloadKind::Rakp1 => 0x12,
            PayloadKind::Rakp2 => 0x13,
            PayloadKind::Rakp3 => 0x14,
            PayloadKind::Rakp4 => 0x15,
            PayloadKind::Other(code) => code & 0x3f,
        };
        let encrypted = if self.encrypted { ENCRYPTED } else { 0 };
        let authenticated = if self.trailer.is_some() {
            AUTHENTICATED
        } else {
            0
        };
        let mut bytes = vec![AUTH_TYPE_RMCP_PLUS, code | encrypted | authenticated];
        if let PayloadKind::Oem { iana, id } = self.kind {
            bytes.extend(iana.to_le_bytes());
            bytes.extend(id.to_le_bytes());
        }
        bytes.extend(self.session.to_le_bytes());
        bytes.extend(self.sequence.to_le_bytes());
        let payload = &self.payload[..self.payload.len().min(usize::from(u16::MAX))];
        bytes.extend((payload.len() as u16).to_le_bytes());
        bytes.extend(payload);
        bytes
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_auth() -> impl Strategy<Value = Auth> {
        prop_oneof![
            Just(Auth::None),
            any::<[u8; 16]>().prop_map(Auth::Md2),
            any::<[u8; 16]>().prop_map(Auth::Md5),
            any::<[u8; 16]>().prop_map(Auth::Password),
            any::<[u8; 16]>().prop_map(Auth::Oem),
        ]
    }

    fn any_kind() -> impl Strategy<Value = PayloadKind> {
        prop_oneof![
            prop::sample::select(vec![
                PayloadKind::Ipmi,
                PayloadKind::Sol,
                PayloadKind::OpenRequest,
                PayloadKind::OpenResponse,
                PayloadKind::Rakp1,
                PayloadKind::Rakp2,
                PayloadKind::Rakp3,
                PayloadKind::Rakp4,
            ]),
            any::<(u32, u16)>().prop_map(|(iana, id)| PayloadKind::Oem { iana, id }),
            (0x16u8..0x40).prop_map(PayloadKind::Other),
        ]
    }

    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(any::<u8>(), 0..200)
    }

    pub(in super::super) fn any_v15() -> impl Strategy<Value = V15> {
        (any_auth(), any::<(u32, u32)>(), bytes()).prop_map(
            |(auth, (sequence, session), payload)| V15 {
                auth,
                sequence,
                session,
                payload,
            },
        )
    }

    pub(in super::super) fn any_v20() -> impl Strategy<Value = V20> {
        (
            any_kind(),
            any::<(bool, u32, u32)>(),
            bytes(),
            prop::option::of(bytes()),
        )
            .prop_map(
                |(kind, (encrypted, session, sequence), payload, trailer)| V20 {
                    kind,
                    encrypted,
                    session,
                    sequence,
                    payload,
                    trailer,
                },
            )
    }
}
