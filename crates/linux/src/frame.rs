//! UDP over IPv4 over Ethernet as bytes: what a DHCP client needs before it has an address. Pure.
//!
//! ```text
//!  0        6        12     14            34          42
//!  | to MAC | from   | 0800 | IPv4 header | UDP header | payload
//! ```

use std::net::{Ipv4Addr, SocketAddrV4};

use model::Mac;

const ETHERNET: usize = 14;
const IPV4: usize = 20;
const UDP: usize = 8;
const ETHERTYPE_IPV4: [u8; 2] = [0x08, 0x00];
const PROTOCOL_UDP: u8 = 17;

/// The largest payload one IPv4 datagram holds.
pub const MAX_PAYLOAD: usize = 65_535 - IPV4 - UDP;

/// One UDP datagram in its Ethernet frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Datagram<'a> {
    pub from_mac: Mac,
    pub to_mac: Mac,
    pub from: SocketAddrV4,
    pub to: SocketAddrV4,
    pub payload: &'a [u8],
}

/// Whether the UDP checksum in the buffer can be relied on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Checksum {
    Verify,
    /// The sender is on this machine and its network card would have filled it in (see [`crate::packet::Received`]).
    NotReady,
}

/// Why a frame is not a UDP datagram for us.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotUdp {
    #[error("the frame is cut short")]
    Short,
    #[error("the frame does not carry IPv4")]
    NotIpv4,
    #[error("the packet does not carry UDP")]
    OtherProtocol,
    #[error("the packet is a fragment")]
    Fragment,
    #[error("the IPv4 header checksum is wrong")]
    HeaderChecksum,
    #[error("the UDP checksum is wrong")]
    PayloadChecksum,
}

/// The payload is longer than one datagram holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0} bytes do not fit into one datagram")]
pub struct TooLong(pub usize);

impl<'a> Datagram<'a> {
    /// The whole frame, without padding; the driver pads short ones.
    pub fn encode(&self) -> Result<Vec<u8>, TooLong> {
        if self.payload.len() > MAX_PAYLOAD {
            return Err(TooLong(self.payload.len()));
        }
        let udp_len = (UDP + self.payload.len()) as u16;
        let mut frame = Vec::with_capacity(ETHERNET + IPV4 + UDP + self.payload.len());
        frame.extend(self.to_mac.octets());
        frame.extend(self.from_mac.octets());
        frame.extend(ETHERTYPE_IPV4);
        frame.extend([0x45, 0x10]); // version 4, five words; low delay, as DHCP clients say
        frame.extend((IPV4 as u16 + udp_len).to_be_bytes());
        frame.extend([0, 0, 0x40, 0]); // no id; do not fragment
        frame.extend([64, PROTOCOL_UDP, 0, 0]);
        frame.extend(self.from.ip().octets());
        frame.extend(self.to.ip().octets());
        let header = !fold(sum(&frame[ETHERNET..]));
        frame[ETHERNET + 10..ETHERNET + 12].copy_from_slice(&header.to_be_bytes());
        frame.extend(self.from.port().to_be_bytes());
        frame.extend(self.to.port().to_be_bytes());
        frame.extend(udp_len.to_be_bytes());
        frame.extend([0, 0]);
        frame.extend(self.payload);
        let udp = &frame[ETHERNET + IPV4..];
        let checksum = match !udp_sum(*self.from.ip(), *self.to.ip(), udp) {
            0 => 0xffff, // zero would mean "no checksum" (RFC 768)
            other => other,
        };
        frame[ETHERNET + IPV4 + 6..ETHERNET + IPV4 + 8].copy_from_slice(&checksum.to_be_bytes());
        Ok(frame)
    }

    /// Reads any bytes; trailing padding is left out of the payload.
    pub fn parse(frame: &'a [u8], checksum: Checksum) -> Result<Self, NotUdp> {
        let (ethernet, packet) = frame.split_at_checked(ETHERNET).ok_or(NotUdp::Short)?;
        if ethernet[12..14] != ETHERTYPE_IPV4 {
            return Err(NotUdp::NotIpv4);
        }
        let fixed: &[u8; IPV4] = packet.first_chunk().ok_or(NotUdp::Short)?;
        let header_len = usize::from(fixed[0] & 0x0f) * 4;
        if fixed[0] >> 4 != 4 || header_len < IPV4 {
            return Err(NotUdp::NotIpv4);
        }
        let total_len = usize::from(u16::from_be_bytes([fixed[2], fixed[3]]));
        let packet = packet.get(..total_len).ok_or(NotUdp::Short)?;
        let (header, udp) = packet.split_at_checked(header_len).ok_or(NotUdp::Short)?;
        if fold(sum(header)) != 0xffff {
            return Err(NotUdp::HeaderChecksum);
        }
        if u16::from_be_bytes([fixed[6], fixed[7]]) & 0x3fff != 0 {
            return Err(NotUdp::Fragment); // more to come, or not the first
        }
        if fixed[9] != PROTOCOL_UDP {
            return Err(NotUdp::OtherProtocol);
        }
        let from = Ipv4Addr::new(fixed[12], fixed[13], fixed[14], fixed[15]);
        let to = Ipv4Addr::new(fixed[16], fixed[17], fixed[18], fixed[19]);
        let fields: &[u8; UDP] = udp.first_chunk().ok_or(NotUdp::Short)?;
        let word = |at: usize| u16::from_be_bytes([fields[at], fields[at + 1]]);
        let udp = udp.get(..usize::from(word(4))).ok_or(NotUdp::Short)?;
        let payload = udp.get(UDP..).ok_or(NotUdp::Short)?;
        let checked = checksum == Checksum::Verify && word(6) != 0;
        if checked && udp_sum(from, to, udp) != 0xffff {
            return Err(NotUdp::PayloadChecksum);
        }
        let mac = |at: usize| Mac(std::array::from_fn(|i| ethernet[at + i]));
        Ok(Self {
            from_mac: mac(6),
            to_mac: mac(0),
            from: SocketAddrV4::new(from, word(0)),
            to: SocketAddrV4::new(to, word(2)),
            payload,
        })
    }
}

/// The sum over the pseudo header and the datagram (RFC 768).
fn udp_sum(from: Ipv4Addr, to: Ipv4Addr, udp: &[u8]) -> u16 {
    let pseudo =
        sum(&from.octets()) + sum(&to.octets()) + u32::from(PROTOCOL_UDP) + udp.len() as u32;
    fold(pseudo + sum(udp))
}

/// The Internet checksum before folding (RFC 1071); 64 KiB of ones do not overflow it.
fn sum(bytes: &[u8]) -> u32 {
    let (words, rest) = bytes.as_chunks::<2>();
    let last = rest.first().map_or(0, |byte| u32::from(*byte) << 8);
    words
        .iter()
        .map(|word| u32::from(u16::from_be_bytes(*word)))
        .sum::<u32>()
        + last
}

fn fold(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    sum as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn discover(payload: &[u8]) -> Datagram<'_> {
        Datagram {
            from_mac: Mac([0x52, 0x54, 0, 1, 2, 3]),
            to_mac: Mac::BROADCAST,
            from: SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 68),
            to: SocketAddrV4::new(Ipv4Addr::BROADCAST, 67),
            payload,
        }
    }

    #[test]
    fn a_frame_has_the_bytes_the_rfcs_ask_for() {
        let frame = discover(b"hi!").encode().unwrap();
        assert_eq!(
            frame[..14],
            [255, 255, 255, 255, 255, 255, 0x52, 0x54, 0, 1, 2, 3, 8, 0]
        );
        assert_eq!(frame[14..24], [0x45, 0x10, 0, 31, 0, 0, 0x40, 0, 64, 17]);
        assert_eq!(frame[34..40], [0, 68, 0, 67, 0, 11]);
        assert_eq!(&frame[42..], b"hi!");
    }

    #[test]
    fn padding_after_the_datagram_is_left_out() {
        let mut frame = discover(b"x").encode().unwrap();
        frame.resize(60, 0xee);
        assert_eq!(
            Datagram::parse(&frame, Checksum::Verify).unwrap().payload,
            b"x"
        );
    }

    #[test]
    fn header_options_are_stepped_over() {
        let mut frame = discover(b"x").encode().unwrap();
        frame[14] = 0x46;
        frame[17] += 4;
        frame.splice(34..34, [1, 1, 1, 1]);
        frame[24..26].fill(0);
        let header = !fold(sum(&frame[14..38]));
        frame[24..26].copy_from_slice(&header.to_be_bytes());
        assert_eq!(
            Datagram::parse(&frame, Checksum::Verify).unwrap().payload,
            b"x"
        );
    }

    #[test]
    fn fragments_and_strangers_are_named() {
        let good = discover(b"x").encode().unwrap();
        let with = |at: usize, value: u8, fix: bool| {
            let mut frame = good.clone();
            frame[at] = value;
            if fix {
                frame[24..26].fill(0);
                let header = !fold(sum(&frame[14..34]));
                frame[24..26].copy_from_slice(&header.to_be_bytes());
            }
            Datagram::parse(&frame, Checksum::Verify)
                .map(|d| d.payload.to_vec())
                .unwrap_err()
        };
        assert_eq!(with(13, 6, false), NotUdp::NotIpv4);
        assert_eq!(with(14, 0x65, true), NotUdp::NotIpv4);
        assert_eq!(with(20, 0x20, true), NotUdp::Fragment);
        assert_eq!(with(23, 6, true), NotUdp::OtherProtocol);
        assert_eq!(with(22, 63, false), NotUdp::HeaderChecksum);
        assert_eq!(with(42, b'y', false), NotUdp::PayloadChecksum);
        assert_eq!(
            Datagram::parse(&good[..40], Checksum::Verify).unwrap_err(),
            NotUdp::Short
        );
    }

    #[test]
    fn an_absent_or_unready_checksum_is_not_verified() {
        let mut frame = discover(b"x").encode().unwrap();
        frame[40..42].fill(0x5a);
        assert!(Datagram::parse(&frame, Checksum::NotReady).is_ok());
        frame[40..42].fill(0);
        assert!(Datagram::parse(&frame, Checksum::Verify).is_ok());
    }

    #[test]
    fn a_payload_that_does_not_fit_is_refused() {
        let long = vec![0; MAX_PAYLOAD + 1];
        assert_eq!(discover(&long).encode(), Err(TooLong(MAX_PAYLOAD + 1)));
        assert!(discover(&long[1..]).encode().is_ok());
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_parsed_back(
            macs: [[u8; 6]; 2], ips: [[u8; 4]; 2], ports: [u16; 2],
            payload in proptest::collection::vec(any::<u8>(), 0..600),
        ) {
            let datagram = Datagram {
                from_mac: Mac(macs[0]),
                to_mac: Mac(macs[1]),
                from: SocketAddrV4::new(ips[0].into(), ports[0]),
                to: SocketAddrV4::new(ips[1].into(), ports[1]),
                payload: &payload,
            };
            let frame = datagram.encode().unwrap();
            prop_assert_eq!(Datagram::parse(&frame, Checksum::Verify), Ok(datagram));
        }

        #[test]
        fn any_bytes_give_a_datagram_or_an_error(
            mut frame in proptest::collection::vec(any::<u8>(), 0..200), plausible: bool,
        ) {
            if plausible && frame.len() > 24 {
                frame[12..15].copy_from_slice(&[8, 0, 0x45]);
                frame[23] = 17;
            }
            let _ = Datagram::parse(&frame, Checksum::NotReady);
            let _ = Datagram::parse(&frame, Checksum::Verify);
        }

        #[test]
        fn a_flipped_bit_in_the_packet_is_noticed(
            payload in proptest::collection::vec(any::<u8>(), 0..40), byte in 14_usize.., bit in 0_u32..8,
        ) {
            let datagram = discover(&payload);
            let mut frame = datagram.encode().unwrap();
            let at = 14 + (byte - 14) % (frame.len() - 14);
            frame[at] ^= 1_u8 << bit;
            let zeroed = frame[40..42] == [0, 0]; // reads as "no checksum was made"
            prop_assert!(zeroed || Datagram::parse(&frame, Checksum::Verify) != Ok(datagram));
        }
    }
}
