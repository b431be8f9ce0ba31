//! Frames that tell a link who holds an address: gratuitous ARP and unsolicited neighbour advertisements.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use model::Mac;

use super::packet::{fold, sum};

const ETHERTYPE_ARP: [u8; 2] = [0x08, 0x06];
const ETHERTYPE_IPV6: [u8; 2] = [0x86, 0xdd];
/// Hardware Ethernet, protocol IPv4, lengths 6 and 4, request.
const ARP_REQUEST: [u8; 8] = [0, 1, 8, 0, 6, 4, 0, 1];
const ICMPV6: u8 = 58;
const NEIGHBOUR_SOLICITATION: u8 = 135;
const NEIGHBOUR_ADVERTISEMENT: u8 = 136;
/// What crossed no router (RFC 4861, 7.1).
const HOP_LIMIT: u8 = 255;
/// "Replace what you have"; neither a router nor an answer.
const OVERRIDE: u8 = 0x20;

/// The frame that says "`address` is at `mac`" to everyone.
pub fn claim(mac: Mac, address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => arp(mac, address, address),
        IpAddr::V6(address) => neighbour_advertisement(mac, address),
    }
}

/// The frame that asks who has `address` without claiming it (RFC 5227, 2.1.1; RFC 4862, 5.4.2).
pub fn probe(mac: Mac, address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => arp(mac, Ipv4Addr::UNSPECIFIED, address),
        IpAddr::V6(address) => neighbour_solicitation(mac, address),
    }
}

/// Who says in this frame, of ARP or neighbour discovery, to have which address.
pub fn claimed(frame: &[u8]) -> Option<(Mac, IpAddr)> {
    let (header, rest) = frame.split_first_chunk::<14>()?;
    match [header[12], header[13]] {
        ETHERTYPE_ARP => claimed_by_arp(rest),
        ETHERTYPE_IPV6 => {
            let by = Mac(std::array::from_fn(|at| header[6 + at]));
            Some((by, claimed_by_neighbour(rest)?.into()))
        }
        _ => None,
    }
}

fn claimed_by_arp(arp: &[u8]) -> Option<(Mac, IpAddr)> {
    let arp: &[u8; 28] = arp.first_chunk()?;
    if arp[..6] != ARP_REQUEST[..6] {
        return None;
    }
    let mac = Mac(std::array::from_fn(|at| arp[8 + at]));
    let address = Ipv4Addr::new(arp[14], arp[15], arp[16], arp[17]);
    (!address.is_unspecified()).then_some((mac, address.into()))
}

/// An advertisement claims what it is about; a question claims what it comes from. The kernel that answers
/// checks sums; a report does not need that.
fn claimed_by_neighbour(packet: &[u8]) -> Option<Ipv6Addr> {
    let (header, message) = packet.split_first_chunk::<40>()?;
    if header[0] >> 4 != 6 || header[6..8] != [ICMPV6, HOP_LIMIT] {
        return None;
    }
    let message: &[u8; 24] = message.first_chunk()?;
    let address = |bytes: &[u8]| Some(Ipv6Addr::from(*bytes.first_chunk::<16>()?));
    let claimed = match message[..2] {
        [NEIGHBOUR_ADVERTISEMENT, 0] => address(&message[8..])?,
        [NEIGHBOUR_SOLICITATION, 0] => address(&header[8..])?,
        _ => return None,
    };
    (!claimed.is_unspecified()).then_some(claimed)
}

fn arp(mac: Mac, from: Ipv4Addr, about: Ipv4Addr) -> Vec<u8> {
    [
        &Mac::BROADCAST.octets()[..],
        &mac.octets(),
        &ETHERTYPE_ARP,
        &ARP_REQUEST,
        &mac.octets(),
        &from.octets(),
        &[0; 6],
        &about.octets(),
    ]
    .concat()
}

/// To all nodes, from the address itself (RFC 4861, 7.2.6).
fn neighbour_advertisement(mac: Mac, address: Ipv6Addr) -> Vec<u8> {
    let all_nodes = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
    let message = [
        &[NEIGHBOUR_ADVERTISEMENT, 0, 0, 0, OVERRIDE, 0, 0, 0][..],
        &address.octets(),
        &[2, 1], // option: target link-layer address, one unit of eight bytes
        &mac.octets(),
    ]
    .concat();
    icmpv6(mac, address, all_nodes, message)
}

/// From nobody, to whoever may have the address: as duplicate address detection asks.
fn neighbour_solicitation(mac: Mac, address: Ipv6Addr) -> Vec<u8> {
    let [.., a, b, c] = address.octets();
    let group = Ipv6Addr::from([0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, a, b, c]);
    let message = [
        &[NEIGHBOUR_SOLICITATION, 0, 0, 0, 0, 0, 0, 0][..],
        &address.octets(),
    ]
    .concat();
    icmpv6(mac, Ipv6Addr::UNSPECIFIED, group, message)
}

/// `to` is a multicast address.
fn icmpv6(mac: Mac, from: Ipv6Addr, to: Ipv6Addr, mut message: Vec<u8>) -> Vec<u8> {
    let len = message.len() as u8;
    let pseudo = sum(&from.octets()) + sum(&to.octets()) + u32::from(len + ICMPV6);
    let checksum = !fold(pseudo + sum(&message));
    message[2..4].copy_from_slice(&checksum.to_be_bytes());
    [
        &[0x33, 0x33][..],
        &to.octets()[12..],
        &mac.octets(),
        &ETHERTYPE_IPV6,
        &[0x60, 0, 0, 0, 0, len, ICMPV6, HOP_LIMIT],
        &from.octets(),
        &to.octets(),
        &message,
    ]
    .concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MAC: Mac = Mac([0x52, 0x54, 0, 1, 2, 3]);
    const V4: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 5));
    const V6: IpAddr = IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 5));

    #[test]
    fn a_gratuitous_arp_names_the_address_twice() {
        let frame = claim(MAC, V4);
        assert_eq!(frame.len(), 42);
        assert_eq!(
            (&frame[28..32], &frame[38..42]),
            (&[192, 0, 2, 5][..], &[192, 0, 2, 5][..])
        );
        assert_eq!(claimed(&frame), Some((MAC, V4)));
    }

    #[test]
    fn a_probe_claims_nothing() {
        for address in [V4, V6] {
            assert_eq!(claimed(&probe(MAC, address)), None, "{address}");
        }
    }

    #[test]
    fn neighbour_discovery_has_right_checksums() {
        let (claim, probe) = (claim(MAC, V6), probe(MAC, V6));
        assert_eq!((claim.len(), probe.len()), (86, 78));
        for frame in [claim, probe] {
            let len = frame.len() as u32 - 54;
            let pseudo = sum(&frame[22..54]) + len + u32::from(ICMPV6);
            assert_eq!(fold(pseudo + sum(&frame[54..])), 0xffff);
        }
    }

    #[test]
    fn a_neighbour_claims_what_it_advertises_and_what_it_asks_from() {
        let frame = claim(MAC, V6);
        assert_eq!(claimed(&frame), Some((MAC, V6)));
        let mut asks = probe(MAC, "2001:db8::9".parse().unwrap());
        asks[22..38].copy_from_slice(&frame[22..38]);
        assert_eq!(claimed(&asks), Some((MAC, V6)));
        let mut routed = frame;
        routed[21] = 254;
        assert_eq!(claimed(&routed), None);
    }

    proptest! {
        #[test]
        fn any_frame_is_a_claim_or_not(mut frame in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = claimed(&frame);
            for ethertype in [ETHERTYPE_ARP, ETHERTYPE_IPV6] {
                if let Some(place) = frame.get_mut(12..14) {
                    place.copy_from_slice(&ethertype);
                }
                let _ = claimed(&frame);
            }
        }
    }
}
