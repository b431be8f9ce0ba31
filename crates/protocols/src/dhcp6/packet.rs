//! The packets: a kind, a number, and options, of which those we do not know are kept as they are.

/// What a packet is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Solicit,
    Advertise,
    Request,
    Confirm,
    Renew,
    Rebind,
    Reply,
    Release,
    Decline,
    InformationRequest,
}

const KINDS: [(u8, Kind); 10] = [
    (1, Kind::Solicit),
    (2, Kind::Advertise),
    (3, Kind::Request),
    (4, Kind::Confirm),
    (5, Kind::Renew),
    (6, Kind::Rebind),
    (7, Kind::Reply),
    (8, Kind::Release),
    (9, Kind::Decline),
    (11, Kind::InformationRequest),
];

/// Why bytes are not a packet for us.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    #[error("the packet is cut short")]
    Short,
    #[error("message type {0} is not served")]
    Kind(u8),
    #[error("there are more than {MAX_OPTIONS} options")]
    TooManyOptions,
}

/// Far more than clients send.
const MAX_OPTIONS: usize = 64;

/// One packet, its options borrowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message<'a> {
    pub kind: Kind,
    pub xid: [u8; 3],
    pub options: Vec<(u16, &'a [u8])>,
}

impl<'a> Message<'a> {
    pub fn decode(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let ([kind, xid @ ..], rest) = bytes.split_first_chunk::<4>().ok_or(DecodeError::Short)?;
        let found = KINDS.iter().find(|(number, _)| number == kind);
        let (_, kind) = found.ok_or(DecodeError::Kind(*kind))?;
        Ok(Self {
            kind: *kind,
            xid: *xid,
            options: options(rest)?,
        })
    }

    pub fn get(&self, code: u16) -> Option<&'a [u8]> {
        find(&self.options, code)
    }

    pub fn all(&self, code: u16) -> impl Iterator<Item = &'a [u8]> {
        let of = move |(have, data): &(u16, &'a [u8])| (*have == code).then_some(*data);
        self.options.iter().filter_map(of)
    }
}

/// Options one after the other, as they are in a packet or in another option.
pub(super) fn options(mut bytes: &[u8]) -> Result<Vec<(u16, &[u8])>, DecodeError> {
    let mut options = Vec::new();
    while !bytes.is_empty() {
        if options.len() == MAX_OPTIONS {
            return Err(DecodeError::TooManyOptions);
        }
        let ([a, b, c, d], rest) = bytes.split_first_chunk::<4>().ok_or(DecodeError::Short)?;
        let length = usize::from(u16::from_be_bytes([*c, *d]));
        let data = rest.get(..length).ok_or(DecodeError::Short)?;
        options.push((u16::from_be_bytes([*a, *b]), data));
        bytes = &rest[length..];
    }
    Ok(options)
}

pub(super) fn find<'a>(options: &[(u16, &'a [u8])], code: u16) -> Option<&'a [u8]> {
    let found = options.iter().find(|(have, _)| *have == code);
    found.map(|(_, data)| *data)
}

/// Writes packets.
#[derive(Debug)]
pub struct Writer(Vec<u8>);

impl Writer {
    pub fn new(kind: Kind, xid: [u8; 3]) -> Self {
        let number = KINDS
            .iter()
            .find(|(_, have)| *have == kind)
            .map_or(0, |(number, _)| *number);
        let mut bytes = vec![number];
        bytes.extend(xid);
        Self(bytes)
    }

    /// An option that does not fit into a packet is left out.
    pub fn put(mut self, code: u16, data: &[u8]) -> Self {
        put(&mut self.0, code, data);
        self
    }

    pub fn done(self) -> Vec<u8> {
        self.0
    }
}

pub(super) fn put(bytes: &mut Vec<u8>, code: u16, data: &[u8]) {
    if let Ok(length) = u16::try_from(data.len()) {
        bytes.extend(code.to_be_bytes());
        bytes.extend(length.to_be_bytes());
        bytes.extend(data);
    }
}
