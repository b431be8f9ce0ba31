//! Addresses that are given instead of asked for: by the kernel's `ip=`, or by `network_data.json` on the boot CD.

use std::net::IpAddr;

use ipnet::IpNet;
use model::Mac;
use serde_json::Value;

/// What one card is to have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fixed {
    pub card: Which,
    pub addresses: Vec<IpNet>,
    /// Where to, by whom.
    pub routes: Vec<(IpNet, IpAddr)>,
    pub dns: Vec<IpAddr>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Which {
    Mac(Mac),
    Name(String),
    /// `ip=` without a device: the first card.
    First,
}

/// `ip=client:server:gateway:netmask:hostname:device:autoconf:dns0:dns1`; IPv6 addresses stand in brackets. Nothing if
/// it asks for DHCP.
pub fn from_kernel(value: &str) -> Result<Option<Fixed>, String> {
    let fields = fields(value);
    let field = |number: usize| fields.get(number).map_or("", String::as_str);
    if fields.len() < 4 || field(0).is_empty() {
        return Ok(None);
    }
    let wrong = |what: &str| format!("ip={value}: {what}");
    let ip: IpAddr = field(0).parse().map_err(|_| wrong("no address"))?;
    let address = with_mask(ip, field(3)).ok_or_else(|| wrong("no netmask"))?;
    let mut routes = vec![];
    if !field(2).is_empty() {
        let gateway = field(2).parse().map_err(|_| wrong("no gateway"))?;
        routes.push((everywhere(ip), gateway));
    }
    let card = match field(5) {
        "" => Which::First,
        device => device
            .parse()
            .map_or_else(|_| Which::Name(device.to_owned()), Which::Mac),
    };
    Ok(Some(Fixed {
        card,
        addresses: vec![address],
        routes,
        dns: [field(7), field(8)]
            .iter()
            .filter_map(|dns| dns.parse().ok())
            .collect(),
    }))
}

/// Colons separate, but not those within brackets.
fn fields(value: &str) -> Vec<String> {
    let (mut all, mut field, mut inside) = (vec![], String::new(), false);
    for c in value.chars() {
        match c {
            '[' => inside = true,
            ']' => inside = false,
            ':' if !inside => all.push(std::mem::take(&mut field)),
            c => field.push(c),
        }
    }
    all.push(field);
    all
}

/// OpenStack's format. What cannot be used is told beside what can.
pub fn from_network_data(data: &Value) -> (Vec<Fixed>, Vec<String>) {
    let (mut found, mut problems) = (vec![], vec![]);
    let list = |key: &str| data[key].as_array().cloned().unwrap_or_default();
    let text = |value: &Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
    let dns: Vec<IpAddr> = list("services")
        .iter()
        .filter(|service| service["type"] == "dns")
        .filter_map(|service| text(service, "address").parse().ok())
        .collect();
    for link in list("links") {
        let id = text(&link, "id");
        let kind = text(&link, "type");
        if matches!(kind.as_str(), "bond" | "vlan") {
            problems.push(format!(
                "network_data: link {id} is a {kind}, which this ramdisk does not make"
            ));
            continue;
        }
        let Ok(mac) = text(&link, "ethernet_mac_address").parse() else {
            problems.push(format!(
                "network_data: link {id} has no ethernet_mac_address"
            ));
            continue;
        };
        let mut fixed = Fixed {
            card: Which::Mac(mac),
            addresses: vec![],
            routes: vec![],
            dns: dns.clone(),
        };
        for network in list("networks")
            .iter()
            .filter(|network| network["link"] == link["id"])
        {
            if !matches!(text(network, "type").as_str(), "ipv4" | "ipv6") {
                continue;
            }
            match read_network(network) {
                Ok((address, routes)) => {
                    fixed.addresses.push(address);
                    fixed.routes.extend(routes);
                }
                Err(why) => problems.push(format!(
                    "network_data: network {}: {why}",
                    text(network, "id")
                )),
            }
        }
        if !fixed.addresses.is_empty() {
            found.push(fixed);
        }
    }
    (found, problems)
}

fn read_network(network: &Value) -> Result<(IpNet, Vec<(IpNet, IpAddr)>), String> {
    let text = |value: &Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
    let (ip, mask) = (text(network, "ip_address"), text(network, "netmask"));
    let address = if let Ok(net) = ip.parse::<IpNet>() {
        net
    } else {
        let ip = ip
            .parse()
            .map_err(|_| format!("ip_address {ip:?} is none"))?;
        with_mask(ip, &mask).ok_or(format!("netmask {mask:?} is none"))?
    };
    let mut routes = vec![];
    if let Ok(gateway) = text(network, "gateway").parse() {
        routes.push((everywhere(address.addr()), gateway));
    }
    for route in network["routes"].as_array().cloned().unwrap_or_default() {
        let to = text(&route, "network").parse().ok();
        let net = to.and_then(|ip| with_mask(ip, &text(&route, "netmask")));
        match (net, text(&route, "gateway").parse()) {
            (Some(net), Ok(gateway)) => routes.push((net, gateway)),
            _ => return Err(format!("route {route} cannot be understood")),
        }
    }
    Ok((address, routes))
}

/// A mask is written as an address or as a number of bits.
fn with_mask(ip: IpAddr, mask: &str) -> Option<IpNet> {
    match mask.parse::<IpAddr>() {
        Ok(mask) => IpNet::with_netmask(ip, mask).ok(),
        Err(_) => IpNet::new(ip, mask.parse().ok()?).ok(),
    }
}

fn everywhere(family: IpAddr) -> IpNet {
    let net = match family {
        IpAddr::V4(_) => "0.0.0.0/0",
        IpAddr::V6(_) => "::/0",
    };
    net.parse().expect("it is written right")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn the_kernels_own_way_of_writing_is_understood() {
        let fixed = from_kernel("192.0.2.5::192.0.2.1:255.255.255.0:host:eth1:none:192.0.2.9")
            .unwrap()
            .unwrap();
        assert_eq!(fixed.card, Which::Name("eth1".into()));
        assert_eq!(fixed.addresses, ["192.0.2.5/24".parse().unwrap()]);
        assert_eq!(fixed.routes[0].1, "192.0.2.1".parse::<IpAddr>().unwrap());
        assert_eq!(fixed.dns, ["192.0.2.9".parse::<IpAddr>().unwrap()]);
        let six = from_kernel("[2001:db8::5]::[2001:db8::1]:64::[52:54:00:00:00:01]:none")
            .unwrap()
            .unwrap();
        assert_eq!(six.addresses, ["2001:db8::5/64".parse().unwrap()]);
        assert_eq!(six.card, Which::Mac("52:54:00:00:00:01".parse().unwrap()));
        for dhcp in ["dhcp", "", "::::host:eth0:dhcp"] {
            assert_eq!(from_kernel(dhcp), Ok(None));
        }
        assert!(from_kernel("a:b:c:d").is_err());
    }

    #[test]
    fn network_data_of_a_cd_is_understood() {
        let data = json!({
            "links": [{"id": "l0", "type": "phy", "ethernet_mac_address": "52:54:00:00:00:01"},
                      {"id": "l1", "type": "phy", "ethernet_mac_address": "52:54:00:00:00:02"},
                      {"id": "b", "type": "bond"}],
            "networks": [{"id": "n0", "link": "l0", "type": "ipv4", "ip_address": "192.0.2.5",
                          "netmask": "255.255.255.0", "network_id": "x",
                          "routes": [{"network": "0.0.0.0", "netmask": "0.0.0.0", "gateway": "192.0.2.1"}]},
                         {"id": "n1", "link": "l1", "type": "ipv4_dhcp"}],
            "services": [{"type": "dns", "address": "192.0.2.9"}],
        });
        let (fixed, problems) = from_network_data(&data);
        assert_eq!(fixed.len(), 1);
        assert_eq!(fixed[0].addresses, ["192.0.2.5/24".parse().unwrap()]);
        assert_eq!(
            fixed[0].routes,
            [("0.0.0.0/0".parse().unwrap(), "192.0.2.1".parse().unwrap())]
        );
        assert_eq!(problems.len(), 1, "{problems:?}");
    }

    proptest! {
        #[test]
        fn any_text_gives_an_answer(text in "[0-9a-f.:\\[\\]]{0,60}") {
            let _ = from_kernel(&text);
        }
    }
}
