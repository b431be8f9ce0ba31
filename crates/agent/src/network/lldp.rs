//! What the switches say of themselves (IEEE 802.1AB): each port's next announcement, as it is.

use std::collections::BTreeMap;
use std::time::Duration;

use linux::netlink::Netlink;
use linux::packet::{ETHERTYPE_LLDP, Listen, Options, Socket};
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
            let heard = tokio::time::timeout(wait, first(link.index)).await;
            (link.name, heard.ok().flatten().unwrap_or_default())
        });
    }
    ports.join_all().await.into_iter().collect()
}

async fn first(link: u32) -> Option<Parts> {
    let options = Options {
        listen: Listen::EtherType(ETHERTYPE_LLDP),
        // Announcements go to a group that cards filter out otherwise.
        promiscuous: true,
    };
    let socket = Socket::open(link, options).ok()?;
    let mut buffer = vec![0; 2048];
    loop {
        let received = socket.receive(&mut buffer).await.ok()?;
        let parts = parse(&buffer[..received.len.min(buffer.len())]);
        if !parts.is_empty() {
            return Some(parts);
        }
    }
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

    proptest! {
        #[test]
        fn any_frame_gives_an_answer(frame: Vec<u8>) {
            let _ = parse(&frame);
        }
    }
}
