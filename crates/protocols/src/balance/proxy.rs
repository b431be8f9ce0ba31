//! The PROXY protocol, version 2: tells a backend who the client is, before the client's first byte.

use std::net::{IpAddr, SocketAddr};

const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
const VERSION_2_PROXY: u8 = 0x21;
const TCP_V4: u8 = 0x11;
const TCP_V6: u8 = 0x21;

/// The header of one connection. Mixed families are written as IPv6.
pub fn header(client: SocketAddr, server: SocketAddr) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(16 + 36);
    bytes.extend(SIGNATURE);
    bytes.push(VERSION_2_PROXY);
    match (client.ip().to_canonical(), server.ip().to_canonical()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            bytes.extend([TCP_V4, 0, 12]);
            bytes.extend(from.octets());
            bytes.extend(to.octets());
        }
        (from, to) => {
            bytes.extend([TCP_V6, 0, 36]);
            bytes.extend(v6(from));
            bytes.extend(v6(to));
        }
    }
    bytes.extend(client.port().to_be_bytes());
    bytes.extend(server.port().to_be_bytes());
    bytes
}

fn v6(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_as_the_specification_draws_it() {
        let header = header(
            "192.0.2.1:258".parse().unwrap(),
            "[::ffff:192.0.2.9]:6443".parse().unwrap(),
        );
        let expected = [
            &b"\r\n\r\n\0\r\nQUIT\n\x21\x11\x00\x0c"[..],
            &[192, 0, 2, 1, 192, 0, 2, 9, 1, 2, 0x19, 0x2b],
        ]
        .concat();
        assert_eq!(header, expected);
    }

    #[test]
    fn two_families_become_the_wider_one() {
        let header = header(
            "192.0.2.1:1".parse().unwrap(),
            "[2001:db8::1]:2".parse().unwrap(),
        );
        assert_eq!((header.len(), header[13], header[15]), (52, TCP_V6, 36));
        assert_eq!(header[26..32], [0xff, 0xff, 192, 0, 2, 1]);
    }
}
