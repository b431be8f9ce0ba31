//! Setting up a session: Open Session and RAKP 1 to 4 (13.17 to 13.23).
//!
//! Every field is little endian. An answer with a [`Status`] other than zero ends after the session id.

use super::{Error, Reader};

/// RMCP+ and RAKP status codes (13.24).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Status(pub u8);

impl Status {
    pub const OK: Self = Self(0x00);
    pub const NO_RESOURCES: Self = Self(0x01);
    pub const INVALID_SESSION: Self = Self(0x02);
    pub const INVALID_AUTHENTICATION: Self = Self(0x04);
    pub const INVALID_INTEGRITY: Self = Self(0x05);
    pub const INACTIVE_SESSION: Self = Self(0x08);
    pub const INVALID_ROLE: Self = Self(0x09);
    pub const UNAUTHORIZED_ROLE: Self = Self(0x0a);
    pub const INVALID_NAME_LENGTH: Self = Self(0x0c);
    pub const UNAUTHORIZED_NAME: Self = Self(0x0d);
    pub const INVALID_CHECK_VALUE: Self = Self(0x0f);
    pub const INVALID_CONFIDENTIALITY: Self = Self(0x10);
    pub const NO_CIPHER_SUITE: Self = Self(0x11);
    pub const ILLEGAL_PARAMETER: Self = Self(0x12);

    pub fn text(self) -> &'static str {
        match self.0 {
            0x00 => "no error",
            0x01 => "insufficient resources to create a session",
            0x02 => "invalid session id",
            0x03 => "invalid payload type",
            0x04 => "invalid authentication algorithm",
            0x05 => "invalid integrity algorithm",
            0x06 => "no matching authentication payload",
            0x07 => "no matching integrity payload",
            0x08 => "inactive session id",
            0x09 => "invalid role",
            0x0a => "unauthorized role or privilege level requested",
            0x0b => "insufficient resources to create a session at the requested role",
            0x0c => "invalid name length",
            0x0d => "unauthorized name",
            0x0e => "unauthorized GUID",
            0x0f => "invalid integrity check value",
            0x10 => "invalid confidentiality algorithm",
            0x11 => "no cipher suite match with proposed security algorithms",
            0x12 => "illegal or unrecognized parameter",
            _ => "unknown status",
        }
    }
}

/// Algorithm numbers of an Open Session; `None` lets the other side choose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Algorithms {
    pub authentication: Option<u8>,
    pub integrity: Option<u8>,
    pub confidentiality: Option<u8>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenRequest {
    pub tag: u8,
    /// Zero asks for the highest the cipher suite allows.
    pub privilege: u8,
    pub console_session: u32,
    pub algorithms: Algorithms,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenResponse {
    pub tag: u8,
    pub console_session: u32,
    pub result: Result<Opened, Status>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opened {
    pub privilege: u8,
    pub bmc_session: u32,
    pub algorithms: Algorithms,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rakp1 {
    pub tag: u8,
    pub bmc_session: u32,
    pub console_random: [u8; 16],
    /// Bit 4: look the user up by name alone; bits 3-0: privilege. Goes into the hashes as it is.
    pub role: u8,
    pub username: Vec<u8>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rakp2 {
    pub tag: u8,
    pub console_session: u32,
    pub result: Result<Challenge, Status>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Challenge {
    pub bmc_random: [u8; 16],
    pub guid: [u8; 16],
    pub auth_code: Vec<u8>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rakp3 {
    pub tag: u8,
    pub bmc_session: u32,
    /// The console's proof, or why it gives up.
    pub result: Result<Vec<u8>, Status>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rakp4 {
    pub tag: u8,
    pub console_session: u32,
    /// The BMC's integrity check value, or why there is no session.
    pub result: Result<Vec<u8>, Status>,
}

pub const MAX_USERNAME: usize = 16;
/// The longest auth code of the algorithms that exist; longer ones are refused.
const MAX_AUTH_CODE: usize = 64;

impl Algorithms {
    fn decode(reader: &mut Reader) -> Result<Self, Error> {
        Ok(Self {
            authentication: algorithm(reader, 0)?,
            integrity: algorithm(reader, 1)?,
            confidentiality: algorithm(reader, 2)?,
        })
    }

    fn encode(self, bytes: &mut Vec<u8>) {
        for (kind, algorithm) in [
            (0, self.authentication),
            (1, self.integrity),
            (2, self.confidentiality),
        ] {
            // A length of zero is the null field: no proposal.
            let length = if algorithm.is_some() { 8 } else { 0 };
            bytes.extend([kind, 0, 0, length, algorithm.unwrap_or(0), 0, 0, 0]);
        }
    }
}

fn algorithm(reader: &mut Reader, expected: u8) -> Result<Option<u8>, Error> {
    let [kind, _, _, length, algorithm, _, _, _] = reader.array()?;
    if kind != expected {
        return Err(Error::Unknown {
            part: "algorithm payload type",
            value: kind.into(),
        });
    }
    match length {
        0 => Ok(None),
        8 => Ok(Some(algorithm & 0x3f)),
        length => Err(Error::Unknown {
            part: "algorithm payload length",
            value: length.into(),
        }),
    }
}

impl OpenRequest {
    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let mut reader = Reader::new("Open Session Request", bytes);
        let [tag, privilege, _, _] = reader.array()?;
        let console_session = reader.u32()?;
        let algorithms = Algorithms::decode(&mut reader)?;
        Ok(Self {
            tag,
            privilege: privilege & 0x0f,
            console_session,
            algorithms,
        })
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![self.tag, self.privilege & 0x0f, 0, 0];
        bytes.extend(self.console_session.to_le_bytes());
        self.algorithms.encode(&mut bytes);
        bytes
    }
}

impl OpenResponse {
    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let mut reader = Reader::new("Open Session Response", bytes);
        let (tag, status, privilege, console_session) = answer_head(&mut reader)?;
        let result = match status {
            Status::OK => Ok(Opened {
                privilege: privilege & 0x0f,
                bmc_session: reader.u32()?,
                algorithms: Algorithms::decode(&mut reader)?,
            }),
            status => Err(status),
        };
        Ok(Self {
            tag,
            console_session,
            result,
        })
    }

    pub fn encode(&self) -> Vec<u8> {
        let (status, privilege) = match self.result {
            Ok(opened) => (Status::OK.0, opened.privilege & 0x0f),
            Err(status) => (status.0, 0),
        };
        let mut bytes = vec![self.tag, status, privilege, 0];
        bytes.extend(self.console_session.to_le_bytes());
        if let Ok(opened) = self.result {
            bytes.extend(opened.bmc_session.to_le_bytes());
            opened.algorithms.encode(&mut bytes);
        }
        bytes
    }
}

impl Rakp1 {
    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let mut reader = Reader::new("RAKP 1", bytes);
        let [tag, _, _, _] = reader.array()?;
        let bmc_session = reader.u32()?;
        let console_random = reader.array()?;
        let [role, _, _, length] = reader.array()?;
        let username = reader.take(length.into())?.to_vec();
        Ok(Self {
            tag,
            bmc_session,
            console_random,
            role,
            username,
        })
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![self.tag, 0, 0, 0];
        bytes.extend(self.bmc_session.to_le_bytes());
        bytes.extend(self.console_random);
        let username = &self.username[..self.username.len().min(255)];
        bytes.extend([self.role, 0, 0, username.len() as u8]);
        bytes.extend(username);
        bytes
    }
}

impl Rakp2 {
    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let mut reader = Reader::new("RAKP 2", bytes);
        let (tag, status, _, console_session) = answer_head(&mut reader)?;
        let result = match status {
            Status::OK => Ok(Challenge {
                bmc_random: reader.array()?,
                guid: reader.array()?,
                auth_code: auth_code(&mut reader)?,
            }),
            status => Err(status),
        };
        Ok(Self {
            tag,
            console_session,
            result,
        })
    }

    pub fn encode(&self) -> Vec<u8> {
        let status = self.result.as_ref().err().copied().unwrap_or(Status::OK);
        let mut bytes = head(self.tag, status, self.console_session);
        if let Ok(challenge) = &self.result {
            bytes.extend(challenge.bmc_random);
            bytes.extend(challenge.guid);
            bytes.extend(&challenge.auth_code);
        }
        bytes
    }
}

impl Rakp3 {
    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let (tag, bmc_session, result) = proof(Reader::new("RAKP 3", bytes))?;
        Ok(Self {
            tag,
            bmc_session,
            result,
        })
    }

    pub fn encode(&self) -> Vec<u8> {
        encode_proof(self.tag, self.bmc_session, &self.result)
    }
}

impl Rakp4 {
    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let (tag, console_session, result) = proof(Reader::new("RAKP 4", bytes))?;
        Ok(Self {
            tag,
            console_session,
            result,
        })
    }

    pub fn encode(&self) -> Vec<u8> {
        encode_proof(self.tag, self.console_session, &self.result)
    }
}

type Proof = Result<Vec<u8>, Status>;

fn proof(mut reader: Reader) -> Result<(u8, u32, Proof), Error> {
    let (tag, status, _, session) = answer_head(&mut reader)?;
    let result = match status {
        Status::OK => Ok(auth_code(&mut reader)?),
        status => Err(status),
    };
    Ok((tag, session, result))
}

fn encode_proof(tag: u8, session: u32, result: &Proof) -> Vec<u8> {
    let status = result.as_ref().err().copied().unwrap_or(Status::OK);
    let mut bytes = head(tag, status, session);
    bytes.extend(result.iter().flatten());
    bytes
}

/// Tag, status, a byte that only Open Session uses, and the session id of whom it is for.
fn answer_head(reader: &mut Reader) -> Result<(u8, Status, u8, u32), Error> {
    let [tag, status] = reader.array()?;
    if status != Status::OK.0 && reader.bytes.len() < 6 {
        // OpenIPMI's simulator, and BMCs built on it, end a refusal here.
        return Ok((tag, Status(status), 0, 0));
    }
    let [byte, _] = reader.array()?;
    Ok((tag, Status(status), byte, reader.u32()?))
}

fn head(tag: u8, status: Status, session: u32) -> Vec<u8> {
    let mut bytes = vec![tag, status.0, 0, 0];
    bytes.extend(session.to_le_bytes());
    bytes
}

fn auth_code(reader: &mut Reader) -> Result<Vec<u8>, Error> {
    let bytes = reader.bytes;
    let code = reader.take(bytes.len().min(MAX_AUTH_CODE))?.to_vec();
    reader.end()?;
    Ok(code)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_algorithms() -> impl Strategy<Value = Algorithms> {
        let number = || prop::option::of(0u8..64);
        (number(), number(), number()).prop_map(|(authentication, integrity, confidentiality)| {
            Algorithms {
                authentication,
                integrity,
                confidentiality,
            }
        })
    }

    fn bad() -> impl Strategy<Value = Status> {
        (1u8..).prop_map(Status)
    }

    fn code() -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(any::<u8>(), 0..=MAX_AUTH_CODE)
    }

    fn any_proof() -> impl Strategy<Value = Proof> {
        prop_oneof![code().prop_map(Ok), bad().prop_map(Err)]
    }

    #[test]
    fn a_refusal_of_two_bytes_is_understood() {
        let refused = OpenResponse {
            tag: 1,
            console_session: 0,
            result: Err(Status::INVALID_AUTHENTICATION),
        };
        assert_eq!(OpenResponse::decode(&[1, 4]), Ok(refused));
        assert!(
            OpenResponse::decode(&[1, 0]).is_err(),
            "a success needs the rest"
        );
    }

    proptest! {
        #[test]
        fn open_session_reads_back(
            tag: u8, privilege in 0u8..16, console_session: u32, bmc_session: u32,
            algorithms in any_algorithms(), status in bad(), accepted: bool,
        ) {
            let request = OpenRequest { tag, privilege, console_session, algorithms };
            prop_assert_eq!(OpenRequest::decode(&request.encode()), Ok(request));
            let result = if accepted { Ok(Opened { privilege, bmc_session, algorithms }) } else { Err(status) };
            let response = OpenResponse { tag, console_session, result };
            prop_assert_eq!(OpenResponse::decode(&response.encode()), Ok(response));
        }

        #[test]
        fn rakp_1_and_2_read_back(
            tag: u8, session: u32, random: [u8; 16], guid: [u8; 16], role: u8,
            username in prop::collection::vec(any::<u8>(), 0..40), auth_code in code(), status in bad(), accepted: bool,
        ) {
            let rakp1 = Rakp1 { tag, bmc_session: session, console_random: random, role, username };
            prop_assert_eq!(Rakp1::decode(&rakp1.encode()), Ok(rakp1));
            let challenge = Challenge { bmc_random: random, guid, auth_code };
            let result = if accepted { Ok(challenge) } else { Err(status) };
            let rakp2 = Rakp2 { tag, console_session: session, result };
            prop_assert_eq!(Rakp2::decode(&rakp2.encode()), Ok(rakp2));
        }

        #[test]
        fn rakp_3_and_4_read_back(tag: u8, session: u32, result in any_proof()) {
            let rakp3 = Rakp3 { tag, bmc_session: session, result: result.clone() };
            prop_assert_eq!(Rakp3::decode(&rakp3.encode()), Ok(rakp3));
            let rakp4 = Rakp4 { tag, console_session: session, result };
            prop_assert_eq!(Rakp4::decode(&rakp4.encode()), Ok(rakp4));
        }

        #[test]
        fn any_bytes_give_a_value_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..120)) {
            let _ = OpenRequest::decode(&bytes);
            let _ = OpenResponse::decode(&bytes);
            let _ = Rakp1::decode(&bytes);
            let _ = Rakp2::decode(&bytes);
            let _ = Rakp3::decode(&bytes);
            let _ = Rakp4::decode(&bytes);
        }
    }
}
