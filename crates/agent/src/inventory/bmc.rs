//! The address of the server's own BMC (IPMI 2.0, 23.2: Get LAN Configuration Parameters).

use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::time::Duration;

use linux::bmc::Bmc;
use model::Mac;

/// What the BMC says of its LAN.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lan {
    pub v4: Option<Ipv4Addr>,
    pub v6: Option<Ipv6Addr>,
    pub mac: Option<Mac>,
}

const DEVICES: [&str; 3] = ["dev/ipmi0", "dev/ipmi/0", "dev/ipmidev/0"];
const LIMIT: Duration = Duration::from_secs(2);
const TRANSPORT: u8 = 0x0c;
const GET_LAN: u8 = 0x02;
const ADDRESS: u8 = 3;
const MAC: u8 = 5;
const V6_STATIC: u8 = 56;
const V6_DYNAMIC: u8 = 59;

/// Of the first channel that has an address. Channels are numbered by the maker.
pub fn collect(root: &Path) -> Lan {
    let open = |device: &&str| Bmc::open(&root.join(device)).ok();
    let Some(bmc) = DEVICES.iter().find_map(open) else {
        return Lan::default();
    };
    for channel in 1..=8 {
        let ask = |parameter: u8| bmc.ask(TRANSPORT, GET_LAN, &[channel, parameter, 0, 0], LIMIT);
        let get = |parameter: u8| value(&ask(parameter).ok()?).map(<[u8]>::to_vec);
        let address = match ask(ADDRESS) {
            Ok(answer) => match value(&answer) {
                Some(address) => address.to_vec(),
                // No LAN on this channel.
                None => continue,
            },
            // It does not speak to us; asking seven times more would only take longer.
            Err(_) => return Lan::default(),
        };
        let lan = Lan {
            v4: v4(&address),
            v6: [V6_STATIC, V6_DYNAMIC]
                .into_iter()
                .filter_map(get)
                .find_map(|set| v6(&set)),
            mac: get(MAC).and_then(|mac| mac.first_chunk::<6>().map(|octets| Mac(*octets))),
        };
        if lan.v4.is_some() || lan.v6.is_some() {
            return lan;
        }
    }
    Lan::default()
}

/// Completion code 0 and a revision come before the value.
fn value(answer: &[u8]) -> Option<&[u8]> {
    match answer {
        [0, _, value @ ..] => Some(value),
        _ => None,
    }
}

fn v4(value: &[u8]) -> Option<Ipv4Addr> {
    let ip = Ipv4Addr::from(*value.first_chunk::<4>()?);
    (!ip.is_unspecified()).then_some(ip)
}

/// Set selector, source and status, the address, its prefix.
fn v6(value: &[u8]) -> Option<Ipv6Addr> {
    let ip = Ipv6Addr::from(*value.get(2..)?.first_chunk::<16>()?);
    (!ip.is_unspecified() && !ip.is_unicast_link_local()).then_some(ip)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_and_empty_ones_do_not_count() {
        assert_eq!(
            value(&[0, 0x11, 192, 0, 2, 7]).and_then(v4),
            Some(Ipv4Addr::new(192, 0, 2, 7))
        );
        assert_eq!(value(&[0, 0x11, 0, 0, 0, 0]).and_then(v4), None);
        assert_eq!(value(&[0xc1]), None);
        assert_eq!(v4(&[1, 2]), None);
        let mut set = vec![0, 0x80];
        set.extend("2001:db8::7".parse::<Ipv6Addr>().unwrap().octets());
        assert_eq!(v6(&set), "2001:db8::7".parse().ok());
    }

    #[test]
    fn a_server_without_the_driver_has_nothing_to_say() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(collect(root.path()), Lan::default());
    }
}
