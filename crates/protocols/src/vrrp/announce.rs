//! Frames that tell a link who holds an address: gratuitous ARP and unsolicited neighbour advertisements.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use model::Mac;

use super::packet::{fold, sum};

const ETHERTYPE_ARP: [u8; 2] = [0x08, 0x06];
const ETHERTYPE_IPV6: [u8; 2] = [0x86, 0xdd];
/// Hardware Ethernet, protocol IPv4, lengths 6 and 4, request.
const ARP_REQUEST: [u8; 8] = [0, 1, 8, 0, 6, 4, 0, 1];
const ICMPV6: u8 = 58;
const NEIGHBOUR_ADVERTISEMENT: u8 = 136;
/// "Replace what you have"; neither a router nor an answer.
const OVERRIDE: u8 = 0x20;

/// The frame that says "`address` is at `mac`" to everyone.
pub fn claim(mac: Mac, address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => arp(mac, address, address),
        IpAddr::V6(address) => neighbour_advertisement(mac, address),
    }
}

/// The frame that asks who has `address` without claiming it (RFC 5227, 2.1.1); IPv4 only.
pub fn probe(mac: Mac, address: Ipv4Addr) -> Vec<u8> {
    arp(mac, Ipv4Addr::UNSPECIFIED, address)
}

/// Who says in this ARP frame to have which address.
pub fn claimed(frame: &[u8]) -> Option<(Mac, Ipv4Addr)> {
    let arp: &[u8; 28] = frame.get(14..)?.first_chunk()?;
    if frame[12..14] != ETHERTYPE_ARP || arp[..6] != ARP_REQUEST[..6] {
        return None;
    }
    let mac = Mac(std::array::from_fn(|at| arp[8 + at]));
    let address = Ipv4Addr::new(arp[14], arp[15], arp[16], arp[17]);
    (!address.is_unspecified()).then_some((mac, address))
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
    let mut message = [
        &[NEIGHBOUR_ADVERTISEMENT, 0, 0, 0, OVERRIDE, 0, 0, 0][..],
        &address.octets(),
        &[2, 1], // option: target link-layer address, one unit of eight bytes
        &mac.octets(),
    ]
    .concat();
    let len = message.len() as u8;
    let pseudo = sum(&address.octets()) + sum(&all_nodes.octets()) + u32::from(len + ICMPV6);
    let checksum = !fold(pseudo + sum(&message));
    message[2..4].copy_from_slice(&checksum.to_be_bytes());
    [
        &[0x33, 0x33, 0, 0, 0, 1][..],
        &mac.octets(),
        &ETHERTYPE_IPV6,
        &[0x60, 0, 0, 0, 0, len, ICMPV6, 255],
        &address.octets(),
        &all_nodes.octets(),
        &message,
    ]
    .concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MAC: Mac = Mac([0x52, 0x54, 0, 1, 2, 3]);

    #[test]
    fn a_gratuitous_arp_names_the_address_twice() {
        let frame = claim(MAC, "192.0.2.5".parse().unwrap());
        assert_eq!(frame.len(), 42);
        assert_eq!(
            (&frame[28..32], &frame[38..42]),
            (&[192, 0, 2, 5][..], &[192, 0, 2, 5][..])
        );
        assert_eq!(claimed(&frame), Some((MAC, Ipv4Addr::new(192, 0, 2, 5))));
    }

    #[test]
    fn a_probe_claims_nothing() {
        assert_eq!(claimed(&probe(MAC, Ipv4Addr::new(192, 0, 2, 5))), None);
    }

    #[test]
    fn a_neighbour_advertisement_has_a_right_checksum() {
        let frame = claim(MAC, "2001:db8::5".parse().unwrap());
        assert_eq!(frame.len(), 86);
        let pseudo = sum(&frame[22..54]) + 32 + u32::from(ICMPV6);
        assert_eq!(fold(pseudo + sum(&frame[54..])), 0xffff);
    }

    proptest! {
        #[test]
        fn any_frame_is_a_claim_or_not(frame in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = claimed(&frame);
        }
    }
}
