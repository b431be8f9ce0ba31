//! ARP for IPv4 over Ethernet (RFC 826): just enough to ask who uses an address (RFC 5227, 2.1.1).

use std::net::Ipv4Addr;

use model::Mac;

const LENGTH: usize = 42;
/// EtherType, hardware Ethernet, protocol IPv4, address lengths.
const HEADER: [u8; 8] = [0x08, 0x06, 0, 1, 0x08, 0, 6, 4];
const REQUEST: [u8; 2] = [0, 1];

/// A frame that asks who has `address`, without claiming one ourselves.
pub fn probe(from: Mac, address: Ipv4Addr) -> Vec<u8> {
    let mut frame = Vec::with_capacity(LENGTH);
    frame.extend(Mac::BROADCAST.octets());
    frame.extend(from.octets());
    frame.extend(HEADER);
    frame.extend(REQUEST);
    frame.extend(from.octets());
    frame.extend([0; 4]);
    frame.extend([0; 6]);
    frame.extend(address.octets());
    frame
}

/// Who says to have which address; nobody for a probe or anything that is not ARP.
pub fn claim(frame: &[u8]) -> Option<(Ipv4Addr, Mac)> {
    let frame: &[u8; LENGTH] = frame.first_chunk()?;
    if frame[12..20] != HEADER {
        return None;
    }
    let mac = Mac(std::array::from_fn(|i| frame[22 + i]));
    let address = Ipv4Addr::from(std::array::from_fn::<u8, 4, _>(|i| frame[28 + i]));
    (!address.is_unspecified()).then_some((address, mac))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_probe_claims_nothing_and_a_reply_claims_its_sender() {
        let mac = Mac([2, 0, 0, 0, 0, 1]);
        let address = Ipv4Addr::new(10, 0, 0, 7);
        let mut frame = probe(mac, address);
        assert_eq!(frame.len(), LENGTH);
        assert_eq!(claim(&frame), None);
        frame[21] = 2;
        frame[28..32].copy_from_slice(&address.octets());
        assert_eq!(claim(&frame), Some((address, mac)));
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_claim_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = claim(&bytes);
        }
    }
}
