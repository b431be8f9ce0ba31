//! What the switches say of themselves (IEEE 802.1AB): each port's next announcement, as it is.
//!
//! They speak twice a minute; to a neighbour that is new they speak at once (9.2.5.22, txFast). So we say that we are
//! here, and need not wait that long.

use std::collections::BTreeMap;
use std::time::Duration;

use linux::netlink::Netlink;
use linux::packet::{ETHERTYPE_LLDP, Listen, Options, Socket};
use model::Mac;
use tokio::task::JoinSet;

use crate::console::say;

/// Type and value.
type Parts = Vec<(u8, Vec<u8>)>;

/// Listens on every card with a cable, for so long at most.
pub async fn listen(wait: Duration) -> BTreeMap<String, Parts> {
    let links = match Netlink::connect() {
        Ok(netlink) => netlink.links().await.unwrap_or_default(),
        Err(error) => {
            say(&format!("no LLDP: {}", model::chain(&error)));
            return BTreeMap::new();
        }
    };
    let mut ports = JoinSet::new();
    for link in links {
        let class = std::path::Path::new("/sys/class/net").join(&link.name);
        if !class.join("device").exists() {
            continue;
        }
        ports.spawn(async move {
            let heard = tokio::time::timeout(wait, first(link.index, link.mac)).await;
            (link.name, heard.ok().flatten().unwrap_or_default())
        });
    }
    ports.join_all().await.into_iter().collect()
}

async fn first(link: u32, mac: Option<Mac>) -> Option<Parts> {
    let options = Options {
        listen: Listen::EtherType(ETHERTYPE_LLDP),
        // Announcements go to a group that cards filter out otherwise.
        promiscuous: true,
    };
    let socket = Socket::open(link, options).ok()?;
    let greeting = mac.map(announcement);
    let mut greet = tokio::time::interval(GREET);
    let mut buffer = vec![0; 2048];
    loop {
        let received = tokio::select! {
            received = socket.receive(&mut buffer) => received.ok()?,
            _ = greet.tick() => {
                if let Some(greeting) = &greeting {
                    // A port that takes no frame now may take the next.
                    _ = socket.send(greeting).await;
                }
                continue;
            }
        };
        let parts = parse(&buffer[..received.len.min(buffer.len())]);
        if !parts.is_empty() {
            return Some(parts);
        }
    }
}

/// The first may be lost while a port wakes up.
const GREET: Duration = Duration::from_secs(1);
const NEAREST_BRIDGE: [u8; 6] = [0x01, 0x80, 0xc2, 0, 0, 0x0e];
/// Seconds for which a switch remembers us.
const TTL: u8 = 120;

/// The least that is an announcement: chassis and port are this card, and for how long.
fn announcement(mac: Mac) -> Vec<u8> {
    let mac = mac.octets();
    let mut frame = [NEAREST_BRIDGE, mac].concat();
    frame.extend(ETHERTYPE_LLDP.to_be_bytes());
    // Chassis id by MAC, port id by MAC, time to live, end.
    frame.extend([0x02, 7, 4]);
    frame.extend(mac);
    frame.extend([0x04, 7, 3]);
    frame.extend(mac);
    frame.extend([0x06, 2, 0, TTL, 0, 0]);
    frame
}

/// After the addresses and the EtherType: 7 bits of type, 9 of length, the value; type 0 ends.
fn parse(frame: &[u8]) -> Parts {
    let mut parts = vec![];
    let mut rest = frame.get(14..).unwrap_or_default();
    while let Some((head, after)) = rest.split_first_chunk::<2>() {
        let head = u16::from_be_bytes(*head);
        let (kind, len) = ((head >> 9) as u8, usize::from(head & 0x1ff));
        let Some((value, after)) = after.split_at_checked(len) else {
            break;
        };
        if kind == 0 {
            break;
        }
        parts.push((kind, value.to_vec()));
        rest = after;
    }
    parts
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_parts_of_an_announcement_are_cut_out() {
        let mut frame = vec![0; 14];
        frame.extend([0x02, 0x03, 4, 0xaa, 0xbb]);
        frame.extend([0x06, 0x02, 0, 120]);
        frame.extend([0, 0]);
        frame.extend([9; 20]);
        assert_eq!(parse(&frame), [(1, vec![4, 0xaa, 0xbb]), (3, vec![0, 120])]);
    }

    #[test]
    fn our_own_announcement_is_one() {
        let mac = Mac([2, 0, 0, 0, 0, 7]);
        let parts = parse(&announcement(mac));
        let kinds: Vec<u8> = parts.iter().map(|(kind, _)| *kind).collect();
        assert_eq!(kinds, [1, 2, 3], "those that must be there, in their order");
        assert_eq!(parts[0].1, [4, 2, 0, 0, 0, 0, 7]);
    }

    proptest! {
        #[test]
        fn any_frame_gives_an_answer(frame: Vec<u8>) {
            let _ = parse(&frame);
        }
    }
}
