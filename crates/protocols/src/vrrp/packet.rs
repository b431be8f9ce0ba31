//! Advertisements as bytes.
//!
//! ```text
//!   0        1        2        3
//!   | ver, 1 | id     | prio   | count  |
//!   v2: | auth type | interval (s)   | checksum |     v3: | 0, interval (1/100 s) | checksum |
//!   | addresses: 4 or 16 bytes each ...          |
//!   v2 only: | authentication data, 8 bytes       |
//! ```

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use super::{PROTOCOL, TTL, VirtualRouterId};

/// What one router tells the others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Advertisement {
    pub version: Version,
    pub id: VirtualRouterId,
    pub priority: Priority,
    /// Whole seconds in version 2, hundredths in version 3; encoding rounds up.
    pub interval: Duration,
    /// All of one family, that of the packet.
    pub addresses: Vec<IpAddr>,
    /// Version 2 only; not sent otherwise.
    pub authentication: Authentication,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    V2,
    V3,
}

/// Who is preferred; 0 says that the sender gives up, 255 that it owns the address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Priority(pub u8);

impl Priority {
    pub const RESIGN: Self = Self(0);
    pub const OWNER: Self = Self(255);
}

/// Version 2's authentication (RFC 2338; a field that RFC 3768 keeps but no longer fills).
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Authentication {
    None,
    /// Eight bytes in clear text. Keeps apart by mistake, not by force.
    Password([u8; 8]),
}

impl Authentication {
    /// Takes the first eight bytes, as keepalived does.
    pub fn password(text: &str) -> Self {
        let mut bytes = [0; 8];
        for (to, from) in bytes.iter_mut().zip(text.bytes()) {
            *to = from;
        }
        Self::Password(bytes)
    }
}

impl std::fmt::Debug for Authentication {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::None => "None",
            Self::Password(_) => "Password(********)",
        })
    }
}

/// What the IP header said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    pub from: IpAddr,
    pub to: IpAddr,
    /// TTL or hop limit.
    pub ttl: u8,
}

/// Why bytes are not an advertisement for us.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum Refused {
    #[error("the packet is cut short")]
    Short,
    #[error("TTL {0} where 255 is required: it may come from beyond the link")]
    Ttl(u8),
    #[error("version {0} is neither 2 nor 3")]
    Version(u8),
    #[error("type {0} is not an advertisement")]
    Type(u8),
    #[error("0 is not a virtual router id")]
    Id,
    #[error("the checksum is wrong")]
    Checksum,
    #[error("the packet names no address")]
    NoAddress,
    #[error("authentication type {0} is not known")]
    Authentication(u8),
    #[error("an advertisement interval of 0")]
    Interval,
    #[error("version 2 knows IPv4 only")]
    Family,
    #[error("source and destination are of two families")]
    Header,
}

const FIXED: usize = 8;
const AUTHENTICATION: usize = 8;
const ADVERTISEMENT: u8 = 1;
const MAX_CENTISECONDS: u128 = 0x0fff;

impl Advertisement {
    /// The message between `from` and `to`, whose addresses the checksum covers.
    ///
    /// DEVIATION: version 3 over IPv4 covers the pseudo header as RFC 5798 and keepalived have it; RFC 9568
    /// leaves it out. We accept both.
    pub fn encode(&self, from: IpAddr, to: IpAddr) -> Vec<u8> {
        let addresses: Vec<_> = self.addresses.iter().take(255).collect();
        let version = match self.version {
            Version::V2 => 2,
            Version::V3 => 3,
        };
        let mut bytes = vec![
            version << 4 | ADVERTISEMENT,
            self.id.get(),
            self.priority.0,
            addresses.len() as u8,
        ];
        match self.version {
            Version::V2 => {
                let seconds = self.interval.as_millis().div_ceil(1000).clamp(1, 255);
                let kind = match self.authentication {
                    Authentication::None => 0,
                    Authentication::Password(_) => 1,
                };
                bytes.extend([kind, seconds as u8]);
            }
            Version::V3 => {
                let hundredths = self.interval.as_millis().div_ceil(10);
                bytes.extend((hundredths.clamp(1, MAX_CENTISECONDS) as u16).to_be_bytes());
            }
        }
        bytes.extend([0, 0]);
        for address in addresses {
            match address {
                IpAddr::V4(address) => bytes.extend(address.octets()),
                IpAddr::V6(address) => bytes.extend(address.octets()),
            }
        }
        let pseudo = match self.version {
            Version::V2 => {
                bytes.extend(match self.authentication {
                    Authentication::None => [0; AUTHENTICATION],
                    Authentication::Password(password) => password,
                });
                0
            }
            Version::V3 => pseudo_header(from, to, bytes.len()),
        };
        let checksum = !fold(pseudo + sum(&bytes));
        bytes[6..8].copy_from_slice(&checksum.to_be_bytes());
        bytes
    }

    /// Reads what came with `header`. Bytes after the message are left out, as the RFCs ask.
    pub fn parse(header: Header, bytes: &[u8]) -> Result<Self, Refused> {
        if header.ttl != TTL {
            return Err(Refused::Ttl(header.ttl));
        }
        Self::parse_from_peer(header, bytes)
    }

    /// As [`Advertisement::parse`], with any TTL: for unicast from a router that is known by its address.
    ///
    /// DEVIATION: the RFCs know no unicast. keepalived sends it over IPv6 with a hop limit of 64.
    pub fn parse_from_peer(header: Header, bytes: &[u8]) -> Result<Self, Refused> {
        if header.from.is_ipv4() != header.to.is_ipv4() {
            return Err(Refused::Header);
        }
        let fixed: &[u8; FIXED] = bytes.first_chunk().ok_or(Refused::Short)?;
        let version = match fixed[0] >> 4 {
            2 => Version::V2,
            3 => Version::V3,
            other => return Err(Refused::Version(other)),
        };
        if version == Version::V2 && header.from.is_ipv6() {
            return Err(Refused::Family);
        }
        if fixed[0] & 0x0f != ADVERTISEMENT {
            return Err(Refused::Type(fixed[0] & 0x0f));
        }
        let width = if header.from.is_ipv4() { 4 } else { 16 };
        let end = FIXED + usize::from(fixed[3]) * width;
        let trailer = match version {
            Version::V2 => AUTHENTICATION,
            Version::V3 => 0,
        };
        let message = bytes.get(..end + trailer).ok_or(Refused::Short)?;
        check(header, version, message)?;
        let id = VirtualRouterId::new(fixed[1]).ok_or(Refused::Id)?;
        if fixed[3] == 0 {
            return Err(Refused::NoAddress);
        }
        let (interval, authentication) = match version {
            Version::V2 => (
                Duration::from_secs(fixed[5].into()),
                authentication(fixed[4], &message[end..])?,
            ),
            Version::V3 => {
                let hundredths = u16::from_be_bytes([fixed[4] & 0x0f, fixed[5]]);
                (
                    Duration::from_millis(u64::from(hundredths) * 10),
                    Authentication::None,
                )
            }
        };
        if interval.is_zero() {
            return Err(Refused::Interval);
        }
        Ok(Self {
            version,
            id,
            priority: Priority(fixed[2]),
            interval,
            addresses: addresses(&message[FIXED..end], width),
            authentication,
        })
    }
}

fn authentication(kind: u8, data: &[u8]) -> Result<Authentication, Refused> {
    match kind {
        0 => Ok(Authentication::None),
        1 => Ok(Authentication::Password(std::array::from_fn(|at| data[at]))),
        other => Err(Refused::Authentication(other)),
    }
}

fn addresses(bytes: &[u8], width: usize) -> Vec<IpAddr> {
    let address = |bytes: &[u8]| match <[u8; 4]>::try_from(bytes) {
        Ok(four) => Ipv4Addr::from(four).into(),
        Err(_) => Ipv6Addr::from(std::array::from_fn::<u8, 16, _>(|at| bytes[at])).into(),
    };
    bytes.chunks_exact(width).map(address).collect()
}

fn check(header: Header, version: Version, message: &[u8]) -> Result<(), Refused> {
    let plain = fold(sum(message)) == 0xffff;
    let pseudo = pseudo_header(header.from, header.to, message.len());
    let covered = fold(pseudo + sum(message)) == 0xffff;
    let right = match (version, header.from) {
        (Version::V2, _) => plain,
        (Version::V3, IpAddr::V4(_)) => plain || covered,
        (Version::V3, IpAddr::V6(_)) => covered,
    };
    if right {
        Ok(())
    } else {
        Err(Refused::Checksum)
    }
}

/// RFC 8200, 8.1, and its elder for IPv4: both addresses, the length, the protocol.
fn pseudo_header(from: IpAddr, to: IpAddr, len: usize) -> u32 {
    let address = |address| match address {
        IpAddr::V4(address) => sum(&Ipv4Addr::octets(&address)),
        IpAddr::V6(address) => sum(&Ipv6Addr::octets(&address)),
    };
    address(from) + address(to) + len as u32 + u32::from(PROTOCOL)
}

pub(super) fn sum(bytes: &[u8]) -> u32 {
    let (words, rest) = bytes.as_chunks::<2>();
    let last = rest.first().map_or(0, |byte| u32::from(*byte) << 8);
    words
        .iter()
        .map(|word| u32::from(u16::from_be_bytes(*word)))
        .sum::<u32>()
        + last
}

pub(super) fn fold(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    sum as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn v4(last: u8) -> IpAddr {
        Ipv4Addr::new(192, 0, 2, last).into()
    }

    fn header(from: IpAddr) -> Header {
        Header {
            from,
            to: super::super::group(from),
            ttl: TTL,
        }
    }

    fn advertisement(version: Version) -> Advertisement {
        Advertisement {
            version,
            id: VirtualRouterId::new(51).unwrap(),
            priority: Priority(100),
            interval: Duration::from_secs(1),
            addresses: vec![v4(5)],
            authentication: Authentication::None,
        }
    }

    #[test]
    fn version_2_has_the_bytes_of_rfc_3768() {
        let bytes = advertisement(Version::V2).encode(v4(1), header(v4(1)).to);
        assert_eq!(bytes[..6], [0x21, 51, 100, 1, 0, 1]);
        assert_eq!(bytes[8..12], [192, 0, 2, 5]);
        assert_eq!(bytes[12..], [0; 8]);
        assert_eq!(fold(sum(&bytes)), 0xffff);
    }

    #[test]
    fn version_3_over_ipv4_is_read_with_and_without_the_pseudo_header() {
        let mut bytes = advertisement(Version::V3).encode(v4(1), header(v4(1)).to);
        assert_eq!(bytes[..6], [0x31, 51, 100, 1, 0, 100]);
        assert!(Advertisement::parse(header(v4(1)), &bytes).is_ok());
        bytes[6..8].fill(0);
        let plain = !fold(sum(&bytes));
        bytes[6..8].copy_from_slice(&plain.to_be_bytes());
        assert!(Advertisement::parse(header(v4(1)), &bytes).is_ok());
    }

    #[test]
    fn what_the_rfcs_refuse_is_refused_by_name() {
        let good = advertisement(Version::V2).encode(v4(1), header(v4(1)).to);
        let far = Header {
            ttl: 254,
            ..header(v4(1))
        };
        assert_eq!(Advertisement::parse(far, &good), Err(Refused::Ttl(254)));
        assert!(Advertisement::parse_from_peer(far, &good).is_ok());
        for (row, at, value, why) in [
            ("version 4", 0, 0x41, Refused::Version(4)),
            ("type 2", 0, 0x22, Refused::Type(2)),
            ("more addresses than bytes", 3, 9, Refused::Short),
            ("a changed byte", 2, 101, Refused::Checksum),
        ] {
            let mut bytes = good.clone();
            bytes[at] = value;
            assert_eq!(
                Advertisement::parse(header(v4(1)), &bytes),
                Err(why),
                "{row}"
            );
        }
        for (row, at, value, why) in [
            ("id 0", 1, 0, Refused::Id),
            ("interval 0", 5, 0, Refused::Interval),
            ("IPsec", 4, 2, Refused::Authentication(2)),
        ] {
            let mut bytes = good.clone();
            bytes[at] = value;
            bytes[6..8].fill(0);
            let checksum = !fold(sum(&bytes));
            bytes[6..8].copy_from_slice(&checksum.to_be_bytes());
            assert_eq!(
                Advertisement::parse(header(v4(1)), &bytes),
                Err(why),
                "{row}"
            );
        }
    }

    #[test]
    fn a_password_is_cut_to_eight_bytes_and_not_printed() {
        let long = Authentication::password("mycluster_api_vip");
        assert_eq!(long, Authentication::Password(*b"mycluste"));
        assert!(!format!("{long:?}").contains("myc"));
    }

    fn any_advertisement() -> impl Strategy<Value = (IpAddr, Advertisement)> {
        let v4s = prop::collection::vec(any::<Ipv4Addr>().prop_map(IpAddr::from), 1..=20);
        let v6s = prop::collection::vec(any::<Ipv6Addr>().prop_map(IpAddr::from), 1..=20);
        let password = prop_oneof![
            Just(Authentication::None),
            any::<[u8; 8]>().prop_map(Authentication::Password)
        ];
        let old = (v4s.clone(), password, 1..=255_u64).prop_map(|(addresses, auth, seconds)| {
            (Version::V2, addresses, auth, Duration::from_secs(seconds))
        });
        let new = (prop_oneof![v4s, v6s], 1..=0xfff_u64).prop_map(|(addresses, hundredths)| {
            let interval = Duration::from_millis(hundredths * 10);
            (Version::V3, addresses, Authentication::None, interval)
        });
        (prop_oneof![old, new], 1..=255_u8, any::<u8>()).prop_map(
            |((version, addresses, authentication, interval), id, priority)| {
                let from = match addresses[0] {
                    IpAddr::V4(_) => v4(9),
                    IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
                };
                let advertisement = Advertisement {
                    version,
                    id: VirtualRouterId::new(id).unwrap(),
                    priority: Priority(priority),
                    interval,
                    addresses,
                    authentication,
                };
                (from, advertisement)
            },
        )
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_parsed_again((from, advertisement) in any_advertisement(), tail in prop::collection::vec(any::<u8>(), 0..8)) {
            let mut bytes = advertisement.encode(from, header(from).to);
            bytes.extend(tail);
            prop_assert_eq!(Advertisement::parse(header(from), &bytes), Ok(advertisement));
        }

        #[test]
        fn any_bytes_give_a_value_or_a_reason(from: IpAddr, to: IpAddr, ttl in prop_oneof![Just(255_u8), any::<u8>()], bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Advertisement::parse(Header { from, to, ttl }, &bytes);
        }

        #[test]
        fn one_flipped_bit_is_noticed((from, advertisement) in any_advertisement(), bit in 0..64_usize) {
            let mut bytes = advertisement.encode(from, header(from).to);
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert_ne!(Advertisement::parse(header(from), &bytes), Ok(advertisement));
        }
    }
}
