//! Names and questions as they are on the wire, read without a heap.
//!
//! hickory-proto reads a whole message into owned values; most questions a node gets need a dozen bytes of
//! header and one name. This reads those, and walks the records of an answer to find their lives (TTLs).

/// A name with its length bytes and the final zero (RFC 1035, 3.1).
pub const MAX_NAME: usize = 255;
const MAX_LABEL: usize = 63;
pub(super) const HEADER: usize = 12;

pub(super) const RESPONSE: u16 = 0x8000;
pub(super) const OPCODE: u16 = 0x7800;
pub(super) const AUTHORITATIVE: u16 = 0x0400;
pub(super) const TRUNCATED: u16 = 0x0200;
pub(super) const RECURSION_DESIRED: u16 = 0x0100;
pub(super) const RECURSION_AVAILABLE: u16 = 0x0080;
pub(super) const AUTHENTIC: u16 = 0x0020;
pub(super) const CHECKING_DISABLED: u16 = 0x0010;

/// Record types, as far as we treat them apart.
pub mod kind {
    pub const A: u16 = 1;
    pub const NS: u16 = 2;
    pub const SOA: u16 = 6;
    pub const PTR: u16 = 12;
    pub const HINFO: u16 = 13;
    pub const AAAA: u16 = 28;
    pub const SRV: u16 = 33;
    pub const OPT: u16 = 41;
    pub const IXFR: u16 = 251;
    pub const AXFR: u16 = 252;
    pub const ANY: u16 = 255;
}

pub(super) const IN: u16 = 1;

/// Response codes (RFC 1035, 4.1.1; RFC 6891, 9).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rcode {
    NoError,
    FormErr,
    ServFail,
    NxDomain,
    NotImp,
    Refused,
    BadVers,
}

impl Rcode {
    pub(super) fn code(self) -> u16 {
        match self {
            Self::NoError => 0,
            Self::FormErr => 1,
            Self::ServFail => 2,
            Self::NxDomain => 3,
            Self::NotImp => 4,
            Self::Refused => 5,
            Self::BadVers => 16,
        }
    }
}

/// A domain name in wire form and lower case.
#[derive(Clone, Copy)]
pub struct WireName {
    bytes: [u8; MAX_NAME],
    len: u8,
}

impl WireName {
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// Reads dotted text; a final dot changes nothing. Only what may be in a host or service name.
    pub fn from_text(text: &str) -> Option<Self> {
        let text = text.strip_suffix('.').unwrap_or(text);
        let mut name = Self {
            bytes: [0; MAX_NAME],
            len: 0,
        };
        for label in text.split('.').filter(|_| !text.is_empty()) {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
            if label.is_empty() || label.len() > MAX_LABEL || !label.bytes().all(plain) {
                return None;
            }
            name.push_label(label.as_bytes())?;
        }
        name.push(0)?;
        Some(name)
    }

    /// Reads the name at the start of `bytes`; names in questions have no pointers.
    fn read(bytes: &[u8]) -> Option<Self> {
        let mut name = Self {
            bytes: [0; MAX_NAME],
            len: 0,
        };
        let mut at = 0;
        loop {
            let len = usize::from(*bytes.get(at)?);
            if len > MAX_LABEL || at + len + 1 > MAX_NAME {
                return None;
            }
            let part = bytes.get(at..=at + len)?;
            for (to, from) in name.bytes[at..].iter_mut().zip(part) {
                *to = from.to_ascii_lowercase();
            }
            // A length is below any letter, so lower case leaves it alone.
            at += len + 1;
            if len == 0 {
                name.len = u8::try_from(at).ok()?;
                return Some(name);
            }
        }
    }

    fn push_label(&mut self, label: &[u8]) -> Option<()> {
        self.push(u8::try_from(label.len()).ok()?)?;
        label
            .iter()
            .try_for_each(|byte| self.push(byte.to_ascii_lowercase()))
    }

    fn push(&mut self, byte: u8) -> Option<()> {
        *self.bytes.get_mut(usize::from(self.len))? = byte;
        self.len = self.len.checked_add(1)?;
        Some(())
    }

    /// The name without its first label; `None` for the root.
    pub fn parent_of(name: &[u8]) -> Option<&[u8]> {
        let len = usize::from(*name.first()?);
        (len > 0).then(|| name.get(len + 1..)).flatten()
    }

    /// True for the domain itself and every name in it.
    pub fn is_in(name: &[u8], domain: &[u8]) -> bool {
        let mut at = name;
        loop {
            if at.len() <= domain.len() {
                return at == domain;
            }
            match Self::parent_of(at) {
                Some(parent) => at = parent,
                None => return false,
            }
        }
    }
}

impl std::fmt::Display for WireName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write_text(self.as_slice(), f)
    }
}

impl std::fmt::Debug for WireName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write_text(self.as_slice(), f)
    }
}

fn write_text(mut name: &[u8], f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
    while let [len, rest @ ..] = name
        && *len > 0
    {
        let (label, rest) = rest.split_at(usize::from(*len).min(rest.len()));
        write!(f, "{}.", label.escape_ascii())?;
        name = rest;
    }
    Ok(())
}

/// What a client may have said by EDNS (RFC 6891). Options, cookies among them, are not looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Edns {
    pub payload: u16,
    pub version: u8,
    pub dnssec_ok: bool,
}

/// A query with one question.
#[derive(Debug, Clone, Copy)]
pub struct Question {
    pub id: u16,
    pub flags: u16,
    pub name: WireName,
    pub kind: u16,
    pub class: u16,
    pub edns: Option<Edns>,
    /// Where the question ends in the query.
    pub end: usize,
}

/// Why bytes are not a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unreadable {
    /// Not even a query: an answer to it could go round for ever.
    Silence,
    Refuse(Rcode),
}

impl Question {
    pub fn parse(bytes: &[u8]) -> Result<Self, Unreadable> {
        let word = |at: usize| u16_at(bytes, at).ok_or(Unreadable::Silence);
        let (id, flags) = (word(0)?, word(2)?);
        let [questions, answers, authorities, additionals] =
            [word(4)?, word(6)?, word(8)?, word(10)?];
        if flags & RESPONSE != 0 {
            return Err(Unreadable::Silence);
        }
        let refuse = Unreadable::Refuse;
        if flags & OPCODE != 0 {
            return Err(refuse(Rcode::NotImp));
        }
        if questions != 1 || answers != 0 || authorities != 0 || flags & TRUNCATED != 0 {
            return Err(refuse(Rcode::FormErr));
        }
        let name = WireName::read(&bytes[HEADER..]).ok_or(refuse(Rcode::FormErr))?;
        let after = HEADER + name.as_slice().len();
        let field = |at| u16_at(bytes, at).ok_or(refuse(Rcode::FormErr));
        let mut question = Self {
            id,
            flags,
            name,
            kind: field(after)?,
            class: field(after + 2)?,
            edns: None,
            end: after + 4,
        };
        let mut at = question.end;
        for _ in 0..additionals {
            let record = Record::read(bytes, at).ok_or(refuse(Rcode::FormErr))?;
            if record.kind == kind::OPT {
                // One, and owned by the root (RFC 6891, 6.1.1 and 6.1.2).
                if question.edns.is_some() || bytes[at] != 0 {
                    return Err(refuse(Rcode::FormErr));
                }
                question.edns = Some(Edns {
                    payload: record.class,
                    version: (record.ttl >> 16) as u8,
                    dnssec_ok: record.ttl & 0x8000 != 0,
                });
            }
            at = record.end;
        }
        Ok(question)
    }

    /// The question section as it came, with the client's own spelling.
    pub fn section<'a>(&self, query: &'a [u8]) -> &'a [u8] {
        query.get(HEADER..self.end).unwrap_or_default()
    }

    pub fn dnssec_ok(&self) -> bool {
        self.edns.is_some_and(|edns| edns.dnssec_ok)
    }

    pub fn checking_disabled(&self) -> bool {
        self.flags & CHECKING_DISABLED != 0
    }
}

/// One record of a message, by its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Record {
    pub kind: u16,
    pub class: u16,
    pub ttl: u32,
    /// Where its TTL is.
    pub ttl_at: usize,
    pub data_at: usize,
    pub end: usize,
}

impl Record {
    pub fn read(bytes: &[u8], at: usize) -> Option<Self> {
        let fixed = skip_name(bytes, at)?;
        let data_at = fixed + 10;
        let end = data_at + usize::from(u16_at(bytes, fixed + 8)?);
        (end <= bytes.len()).then_some(())?;
        Some(Self {
            kind: u16_at(bytes, fixed)?,
            class: u16_at(bytes, fixed + 2)?,
            ttl: u32_at(bytes, fixed + 4)?,
            ttl_at: fixed + 4,
            data_at,
            end,
        })
    }
}

/// The place after a name that may end in a pointer. Where the pointer leads does not matter here: it is
/// followed by nobody, only passed on.
fn skip_name(bytes: &[u8], mut at: usize) -> Option<usize> {
    let start = at;
    loop {
        let len = *bytes.get(at)?;
        match len {
            0 => return Some(at + 1),
            0xc0.. => return bytes.get(at + 1).map(|_| at + 2),
            1..=63 => at += 1 + usize::from(len),
            _ => return None,
        }
        if at - start > MAX_NAME {
            return None;
        }
    }
}

pub(super) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    let two: &[u8; 2] = bytes.get(at..)?.first_chunk()?;
    Some(u16::from_be_bytes(*two))
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let four: &[u8; 4] = bytes.get(at..)?.first_chunk()?;
    Some(u32::from_be_bytes(*four))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_in_a_domain() {
        let name = |text| WireName::from_text(text).unwrap();
        for (inner, domain, so) in [
            ("api.c1.test", "c1.test", true),
            ("c1.test", "c1.test", true),
            ("xc1.test", "c1.test", false),
            ("test", "c1.test", false),
            ("a.b", "", true),
        ] {
            let (inner, domain) = (name(inner), name(domain));
            assert_eq!(
                WireName::is_in(inner.as_slice(), domain.as_slice()),
                so,
                "{inner} {domain}"
            );
        }
        assert!(WireName::from_text("a..b").is_none());
        assert!(WireName::from_text(&"a.".repeat(128)).is_none());
    }

    #[test]
    fn questions_that_are_none_are_told_apart() {
        let good = b"\x12\x34\x01\x00\0\x01\0\0\0\0\0\0\x01A\x04Test\0\0\x01\0\x01".to_vec();
        let question = Question::parse(&good).unwrap();
        assert_eq!(question.name.to_string(), "a.test.");
        assert_eq!(question.section(&good), &good[12..]);
        let with = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut bytes = good.clone();
            change(&mut bytes);
            Question::parse(&bytes).map(|_| ()).unwrap_err()
        };
        let refuse = Unreadable::Refuse;
        for (name, change, expected) in [
            (
                "an answer",
                (&|b: &mut Vec<u8>| b[2] = 0x81) as &dyn Fn(&mut Vec<u8>),
                Unreadable::Silence,
            ),
            ("short", &|b| b.truncate(11), Unreadable::Silence),
            ("an update", &|b| b[2] = 0x28, refuse(Rcode::NotImp)),
            ("two questions", &|b| b[5] = 2, refuse(Rcode::FormErr)),
            ("none", &|b| b[5] = 0, refuse(Rcode::FormErr)),
            (
                "huge counts",
                &|b| b[10..12].fill(0xff),
                refuse(Rcode::FormErr),
            ),
            ("a pointer", &|b| b[12] = 0xc0, refuse(Rcode::FormErr)),
            ("cut", &|b| b.truncate(20), refuse(Rcode::FormErr)),
        ] {
            assert_eq!(with(change), expected, "{name}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_question_or_not(mut bytes in prop::collection::vec(any::<u8>(), 0..600), plausible: bool) {
            if plausible && bytes.len() > 12 {
                bytes[2..10].copy_from_slice(&[1, 0, 0, 1, 0, 0, 0, 0]);
            }
            if let Ok(question) = Question::parse(&bytes) {
                prop_assert!(question.end <= bytes.len());
                prop_assert!(question.name.as_slice().len() <= MAX_NAME);
            }
        }
    }
}
