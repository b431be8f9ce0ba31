//! Makes sense of frames: who has an address, which virtual routers speak, who offers leases. No I/O.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddrV4};

use dhcproto::v4::{DhcpOption, Message, MessageType};
use linux::frame::{Checksum, Datagram};
use model::Mac;
use plan::preflight::{Advertisement, Claims, Offer};
use protocols::dhcp::{self, client};
use protocols::vrrp;

/// Somebody who speaks VRRP for ever must not fill memory.
const MOST: usize = 1024;
const VRRP: u8 = 112;

pub struct Ear {
    mac: Mac,
    pub claims: Claims,
    pub vrrp: Vec<Advertisement>,
    pub offers: Vec<Offer>,
}

impl Ear {
    pub fn new(mac: Mac, addresses: &BTreeSet<IpAddr>) -> Self {
        Self {
            mac,
            claims: addresses
                .iter()
                .map(|address| (*address, None))
                .collect::<BTreeMap<_, _>>(),
            vrrp: Vec::new(),
            offers: Vec::new(),
        }
    }

    /// Frames to send: who has what, and who gives leases?
    pub fn questions(&self) -> Vec<Vec<u8>> {
        let unclaimed = self.claims.iter().filter(|(_, holder)| holder.is_none());
        let mut frames: Vec<Vec<u8>> = unclaimed
            .map(|(address, _)| vrrp::announce::probe(self.mac, *address))
            .collect();
        frames.extend(self.discover());
        frames
    }

    /// The first packet of a DHCP client, and the only one of ours: nothing is taken.
    fn discover(&self) -> Option<Vec<u8>> {
        let mut asker = client::Client::new(client::Config {
            mac: self.mac,
            client_id: None,
            hostname: None,
            broadcast: true,
            pxe: None,
            retry: client::Retry::default(),
            seed: u64::from_be_bytes([
                0,
                0,
                self.mac.0[0],
                self.mac.0[1],
                self.mac.0[2],
                self.mac.0[3],
                self.mac.0[4],
                self.mac.0[5],
            ]),
        });
        let actions = asker.handle(std::time::Instant::now(), client::Event::Start);
        let payload = actions.into_iter().find_map(|action| match action {
            client::Action::Send { bytes, .. } => Some(bytes),
            client::Action::Bound(_) | client::Action::Lost(_) => None,
        })?;
        let datagram = Datagram {
            from_mac: self.mac,
            to_mac: Mac::BROADCAST,
            from: SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, dhcp::CLIENT_PORT),
            to: SocketAddrV4::new(Ipv4Addr::BROADCAST, dhcp::SERVER_PORT),
            payload: &payload,
        };
        datagram.encode().ok()
    }

    pub fn hear(&mut self, frame: &[u8]) {
        if let Some((mac, address)) = vrrp::announce::claimed(frame)
            && mac != self.mac
            && let Some(holder) = self.claims.get_mut(&address)
        {
            *holder = Some(mac);
        }
        if let Some(heard) = advertisement(frame)
            && !self.vrrp.contains(&heard)
            && self.vrrp.len() < MOST
        {
            self.vrrp.push(heard);
        }
        // A sender on this machine leaves the sum to the card.
        if let Ok(datagram) = Datagram::parse(frame, Checksum::NotReady)
            && datagram.to.port() == dhcp::CLIENT_PORT
            && let Some(offer) = self.offer(datagram.payload)
            && !self.offers.contains(&offer)
            && self.offers.len() < MOST
        {
            self.offers.push(offer);
        }
    }

    fn offer(&self, payload: &[u8]) -> Option<Offer> {
        let message = dhcp::packet::decode(payload).ok()?;
        let ours = message.chaddr() == self.mac.octets();
        let offer = message.opts().msg_type() == Some(MessageType::Offer);
        (ours && offer).then(|| read(&message))?
    }
}

fn read(message: &Message) -> Option<Offer> {
    let (mut server, mut router, mut dns) = (None, None, Vec::new());
    for (_, option) in message.opts() {
        match option {
            DhcpOption::ServerIdentifier(id) => server = Some(*id),
            DhcpOption::Router(routers) => router = routers.first().copied(),
            DhcpOption::DomainNameServer(servers) => dns.clone_from(servers),
            _ => {}
        }
    }
    Some(Offer {
        server: server?.into(),
        address: message.yiaddr().into(),
        router: router.map(Into::into),
        dns: dns.into_iter().map(Into::into).collect(),
    })
}

fn advertisement(frame: &[u8]) -> Option<Advertisement> {
    let (ethernet, packet) = frame.split_first_chunk::<14>()?;
    let (header, message) = match [ethernet[12], ethernet[13]] {
        [0x08, 0x00] => ipv4(packet)?,
        [0x86, 0xdd] => ipv6(packet)?,
        _ => return None,
    };
    let from = header.from;
    let heard = vrrp::Advertisement::parse(header, message).ok()?;
    Some(Advertisement {
        vrid: heard.id.get(),
        from,
        addresses: heard.addresses,
    })
}

fn ipv4(packet: &[u8]) -> Option<(vrrp::Header, &[u8])> {
    let fixed: &[u8; 20] = packet.first_chunk()?;
    let length = usize::from(fixed[0] & 0x0f) * 4;
    let total = usize::from(u16::from_be_bytes([fixed[2], fixed[3]]));
    let address = |at: usize| Ipv4Addr::new(fixed[at], fixed[at + 1], fixed[at + 2], fixed[at + 3]);
    let header = vrrp::Header {
        from: address(12).into(),
        to: address(16).into(),
        ttl: fixed[8],
    };
    (fixed[0] >> 4 == 4 && fixed[9] == VRRP).then_some(())?;
    Some((header, packet.get(length.max(20)..total)?))
}

fn ipv6(packet: &[u8]) -> Option<(vrrp::Header, &[u8])> {
    let fixed: &[u8; 40] = packet.first_chunk()?;
    let total = 40 + usize::from(u16::from_be_bytes([fixed[4], fixed[5]]));
    let address = |at: usize| Ipv6Addr::from(std::array::from_fn::<u8, 16, _>(|n| fixed[at + n]));
    let header = vrrp::Header {
        from: address(8).into(),
        to: address(24).into(),
        ttl: fixed[7],
    };
    (fixed[0] >> 4 == 6 && fixed[6] == VRRP).then_some(())?;
    Some((header, packet.get(40..total)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MAC: Mac = Mac([0x52, 0x5a, 0, 0, 0, 1]);

    fn ear(addresses: &[&str]) -> Ear {
        let addresses = addresses.iter().map(|address| address.parse().unwrap());
        Ear::new(MAC, &addresses.collect())
    }

    #[test]
    fn who_answers_for_an_address_is_remembered_and_not_asked_again() {
        let mut ear = ear(&["192.0.2.5", "2001:db8::5"]);
        assert_eq!(ear.questions().len(), 3, "two probes and a DISCOVER");
        let other = Mac([2, 0, 0, 0, 0, 9]);
        ear.hear(&vrrp::announce::claim(other, "192.0.2.5".parse().unwrap()));
        ear.hear(&vrrp::announce::claim(other, "192.0.2.6".parse().unwrap()));
        ear.hear(&vrrp::announce::probe(
            other,
            "2001:db8::5".parse().unwrap(),
        ));
        let holders: Vec<_> = ear.claims.values().copied().collect();
        assert_eq!(holders, [Some(other), None]);
        assert_eq!(ear.questions().len(), 2);
    }

    #[test]
    fn virtual_routers_are_heard_once_each() {
        let mut ear = ear(&[]);
        let from: Ipv4Addr = "192.0.2.7".parse().unwrap();
        let to: Ipv4Addr = "224.0.0.18".parse().unwrap();
        let sent = vrrp::Advertisement {
            version: vrrp::Version::V2,
            id: vrrp::VirtualRouterId::new(57).unwrap(),
            priority: vrrp::Priority(100),
            interval: std::time::Duration::from_secs(1),
            addresses: vec!["192.0.2.5".parse().unwrap()],
            authentication: vrrp::Authentication::None,
        };
        let message = sent.encode(from.into(), to.into());
        let total = (20 + message.len()) as u16;
        let mut frame = vec![1, 0, 0x5e, 0, 0, 0x12, 2, 0, 0, 0, 0, 7, 8, 0, 0x45, 0];
        frame.extend(total.to_be_bytes());
        frame.extend([0, 0, 0, 0, 255, 112, 0, 0]);
        frame.extend(from.octets());
        frame.extend(to.octets());
        frame.extend(message);
        ear.hear(&frame);
        ear.hear(&frame);
        assert_eq!(ear.vrrp.len(), 1);
        assert_eq!((ear.vrrp[0].vrid, ear.vrrp[0].from), (57, from.into()));
    }

    proptest! {
        #[test]
        fn any_frame_is_survived(frame in proptest::collection::vec(any::<u8>(), 0..400), kind in prop_oneof![Just([8, 0]), Just([8, 6]), Just([0x86, 0xdd])]) {
            let mut ear = ear(&["192.0.2.5"]);
            ear.hear(&frame);
            let mut known = frame.clone();
            if let Some(place) = known.get_mut(12..14) {
                place.copy_from_slice(&kind);
            }
            ear.hear(&known);
        }
    }
}
