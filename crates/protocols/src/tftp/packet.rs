//! The packets.

/// One packet, its data borrowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Packet<'a> {
    /// A request to read (or, refused by us, to write).
    Read {
        file: String,
        mode: String,
        options: Vec<(String, String)>,
    },
    Write {
        file: String,
        mode: String,
        options: Vec<(String, String)>,
    },
    Data {
        block: u16,
        data: &'a [u8],
    },
    Ack {
        block: u16,
    },
    Error {
        code: ErrorCode,
        message: String,
    },
    OptionAck {
        options: Vec<(String, String)>,
    },
}

/// Why a transfer ends early; unknown numbers are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErrorCode(pub u16);

impl ErrorCode {
    pub const UNDEFINED: Self = Self(0);
    pub const NOT_FOUND: Self = Self(1);
    pub const ACCESS: Self = Self(2);
    pub const DISK_FULL: Self = Self(3);
    pub const ILLEGAL: Self = Self(4);
    pub const UNKNOWN_ID: Self = Self(5);
    pub const OPTIONS: Self = Self(8);
}

/// Why bytes are not a TFTP packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    #[error("the packet is cut short")]
    Short,
    #[error("operation {0} is not known")]
    Operation(u16),
    #[error("a text does not end or is not UTF-8")]
    Text,
    #[error("there are more than {MAX_OPTIONS} options")]
    TooManyOptions,
}

/// Far more than are defined.
const MAX_OPTIONS: usize = 16;

impl<'a> Packet<'a> {
    /// Option names come out in lower case.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let (operation, rest) = word(bytes)?;
        match operation {
            1 | 2 => {
                let (file, rest) = text(rest)?;
                let (mode, rest) = text(rest)?;
                let (file, mode, options) =
                    (file.to_owned(), mode.to_ascii_lowercase(), options(rest)?);
                Ok(if operation == 1 {
                    Self::Read {
                        file,
                        mode,
                        options,
                    }
                } else {
                    Self::Write {
                        file,
                        mode,
                        options,
                    }
                })
            }
            3 => word(rest).map(|(block, data)| Self::Data { block, data }),
            4 => word(rest).map(|(block, _)| Self::Ack { block }),
            5 => {
                let (code, rest) = word(rest)?;
                // Some clients leave the text or its end away.
                let message = rest.split(|byte| *byte == 0).next().unwrap_or_default();
                Ok(Self::Error {
                    code: ErrorCode(code),
                    message: String::from_utf8_lossy(message).into_owned(),
                })
            }
            6 => options(rest).map(|options| Self::OptionAck { options }),
            other => Err(DecodeError::Operation(other)),
        }
    }

    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::Read {
                file,
                mode,
                options,
            } => request(1, file, mode, options),
            Self::Write {
                file,
                mode,
                options,
            } => request(2, file, mode, options),
            Self::Data { block, data } => [&data_header(*block)[..], data].concat(),
            Self::Ack { block } => [4u16.to_be_bytes(), block.to_be_bytes()].concat(),
            Self::Error { code, message } => {
                let mut bytes = [5u16.to_be_bytes(), code.0.to_be_bytes()].concat();
                put(&mut bytes, message);
                bytes
            }
            Self::OptionAck { options } => {
                let mut bytes = 6u16.to_be_bytes().to_vec();
                put_options(&mut bytes, options);
                bytes
            }
        }
    }
}

/// What stands before the data of a block.
pub fn data_header(block: u16) -> [u8; 4] {
    let [high, low] = block.to_be_bytes();
    [0, 3, high, low]
}

/// The number an option says, if it is there and is one.
pub(super) fn number(options: &[(String, String)], name: &str) -> Option<u64> {
    options
        .iter()
        .find(|(have, _)| have == name)?
        .1
        .parse()
        .ok()
}

fn word(bytes: &[u8]) -> Result<(u16, &[u8]), DecodeError> {
    let (word, rest) = bytes.split_first_chunk().ok_or(DecodeError::Short)?;
    Ok((u16::from_be_bytes(*word), rest))
}

fn text(bytes: &[u8]) -> Result<(&str, &[u8]), DecodeError> {
    let end = bytes
        .iter()
        .position(|byte| *byte == 0)
        .ok_or(DecodeError::Text)?;
    let text = std::str::from_utf8(&bytes[..end]).map_err(|_| DecodeError::Text)?;
    Ok((text, &bytes[end + 1..]))
}

fn options(mut bytes: &[u8]) -> Result<Vec<(String, String)>, DecodeError> {
    let mut options = Vec::new();
    while !bytes.is_empty() {
        if options.len() == MAX_OPTIONS {
            return Err(DecodeError::TooManyOptions);
        }
        let (name, rest) = text(bytes)?;
        let (value, rest) = text(rest)?;
        options.push((name.to_ascii_lowercase(), value.to_owned()));
        bytes = rest;
    }
    Ok(options)
}

fn request(operation: u16, file: &str, mode: &str, options: &[(String, String)]) -> Vec<u8> {
    let mut bytes = operation.to_be_bytes().to_vec();
    put(&mut bytes, file);
    put(&mut bytes, mode);
    put_options(&mut bytes, options);
    bytes
}

fn put_options(bytes: &mut Vec<u8>, options: &[(String, String)]) {
    for (name, value) in options {
        put(bytes, name);
        put(bytes, value);
    }
}

/// A text cannot hold the byte that ends it.
fn put(bytes: &mut Vec<u8>, text: &str) {
    bytes.extend(text.bytes().filter(|byte| *byte != 0));
    bytes.push(0);
}
