//! Router advertisements (RFC 4861, 4.2) of a network where addresses come from DHCP and we are nobody's way out.

use std::net::Ipv6Addr;

use ipnet::Ipv6Net;

/// To all nodes of the link.
pub const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
/// Where those who want one ask.
pub const ALL_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2);
/// Packets from further away are forged.
pub const HOP_LIMIT: u32 = 255;
/// Said unasked so often, in seconds.
pub const EVERY: u64 = 200;

const SOLICITATION: u8 = 133;
const ADVERTISEMENT: u8 = 134;

/// Addresses come from DHCP, the prefix is on this link, and there is no default route here. The kernel adds the
/// checksum.
pub fn advertisement(prefix: Ipv6Net) -> Vec<u8> {
    const MANAGED_AND_OTHER: u8 = 0xc0;
    const ON_LINK: u8 = 0x80;
    let mut bytes = vec![ADVERTISEMENT, 0, 0, 0, 64, MANAGED_AND_OTHER, 0, 0];
    bytes.extend([0; 8]);
    bytes.extend([3, 4, prefix.prefix_len(), ON_LINK]);
    bytes.extend(86_400_u32.to_be_bytes());
    bytes.extend(14_400_u32.to_be_bytes());
    bytes.extend([0; 4]);
    bytes.extend(prefix.network().octets());
    bytes
}

/// There is nothing to be had here: no route, no prefix, no DHCP. Firmware that asks for a router before it goes on
/// (iPXE does, for a quarter of a minute) goes on at once.
pub fn nothing() -> Vec<u8> {
    let mut bytes = vec![ADVERTISEMENT, 0, 0, 0, 64, 0, 0, 0];
    bytes.extend([0; 8]);
    bytes
}

/// Whether an ICMPv6 packet asks for an advertisement.
pub fn is_solicitation(packet: &[u8]) -> bool {
    packet.len() >= 8 && packet[0] == SOLICITATION && packet[1] == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_announces_dhcp_and_the_prefix_and_no_default_route() {
        let bytes = advertisement("fd00:1101::3/64".parse().unwrap());
        assert_eq!(bytes.len(), 48);
        assert_eq!(bytes[5] & 0xc0, 0xc0);
        assert_eq!(bytes[6..8], [0, 0], "router lifetime");
        assert_eq!(bytes[18..20], [64, 0x80], "on link, not autonomous");
        assert_eq!(bytes[32..36], [0xfd, 0, 0x11, 0x01]);
        assert_eq!(bytes[36..48], [0; 12]);
        assert_eq!(nothing().len(), 16);
        assert_eq!(nothing()[5..8], [0; 3], "no flags, no lifetime");
        assert!(is_solicitation(&[133, 0, 0, 0, 0, 0, 0, 0]));
        assert!(!is_solicitation(&bytes) && !is_solicitation(&[133]));
    }
}
