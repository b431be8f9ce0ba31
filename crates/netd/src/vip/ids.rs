//! Which virtual router id to use when the configuration leaves it open.
//!
//! Every node of the cluster hears the same link and reckons the same way: the id under which our address
//! is already advertised, else the wished one or the next that no stranger uses.

use std::collections::BTreeSet;
use std::net::IpAddr;

use protocols::vrrp::{Advertisement, VirtualRouterId};

#[derive(Debug)]
pub struct Ids {
    wished: VirtualRouterId,
    address: IpAddr,
    strangers: BTreeSet<u8>,
    ours: Option<VirtualRouterId>,
}

impl Ids {
    pub fn new(wished: VirtualRouterId, address: IpAddr) -> Self {
        Self {
            wished,
            address,
            strangers: BTreeSet::new(),
            ours: None,
        }
    }

    pub fn hear(&mut self, advertisement: &Advertisement) {
        if advertisement.addresses.contains(&self.address) {
            self.ours = Some(advertisement.id);
        } else {
            self.strangers.insert(advertisement.id.get());
        }
    }

    pub fn choose(&self) -> VirtualRouterId {
        let from = self.wished.get();
        let round = (0..255_u16).map(|step| ((u16::from(from) - 1 + step) % 255 + 1) as u8);
        let free = round
            .filter(|id| !self.strangers.contains(id))
            .find_map(VirtualRouterId::new);
        self.ours.or(free).unwrap_or(self.wished)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocols::vrrp::{Authentication, Priority, Version};

    fn advert(id: u8, address: &str) -> Advertisement {
        Advertisement {
            version: Version::V3,
            id: VirtualRouterId::new(id).unwrap(),
            priority: Priority(100),
            interval: std::time::Duration::from_secs(1),
            addresses: vec![address.parse().unwrap()],
            authentication: Authentication::None,
        }
    }

    #[test]
    fn a_strangers_id_is_avoided_and_our_own_is_joined() {
        for (wished, heard, chosen) in [
            (7, vec![], 7),
            (7, vec![(7, "192.0.2.9")], 8),
            (254, vec![(254, "192.0.2.9"), (255, "192.0.2.8")], 1),
            (7, vec![(7, "192.0.2.9"), (12, "192.0.2.5")], 12),
        ] {
            let mut ids = Ids::new(
                VirtualRouterId::new(wished).unwrap(),
                "192.0.2.5".parse().unwrap(),
            );
            for (id, address) in &heard {
                ids.hear(&advert(*id, address));
            }
            assert_eq!(ids.choose().get(), chosen, "{heard:?}");
        }
    }

    #[test]
    fn when_every_id_is_taken_the_wished_one_stays() {
        let mut ids = Ids::new(
            VirtualRouterId::new(7).unwrap(),
            "192.0.2.5".parse().unwrap(),
        );
        for id in 1..=255 {
            ids.hear(&advert(id, "192.0.2.9"));
        }
        assert_eq!(ids.choose().get(), 7);
    }
}
