//! Host networking as nmstate documents describe it: addresses, routes, DNS, VLANs, bonds and bridges.
//!
//! Read into types here, with every problem at once; rendered for NetworkManager and systemd-networkd beside.

mod keyfile;
mod network_data;
mod networkd;

use std::net::IpAddr;

use ipnet::IpNet;
use model::Mac;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::problem::Problems;

/// The network of one host.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HostNetwork {
    pub interfaces: Vec<Interface>,
    pub routes: Vec<Route>,
    pub dns_servers: Vec<IpAddr>,
    pub dns_search: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Interface {
    pub name: String,
    pub kind: Kind,
    /// Nothing is done with an interface that is down.
    pub up: bool,
    pub mac: Option<Mac>,
    pub mtu: Option<u32>,
    pub ipv4: Family,
    pub ipv6: Family,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Kind {
    Ethernet,
    Vlan {
        base: String,
        id: u16,
    },
    Bond {
        mode: String,
        ports: Vec<String>,
        options: Vec<(String, String)>,
    },
    Bridge {
        ports: Vec<String>,
        stp: bool,
    },
}

/// What an interface has of one address family.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Family {
    pub enabled: bool,
    pub dhcp: bool,
    /// IPv6: listen to router advertisements.
    pub autoconf: bool,
    pub addresses: Vec<IpNet>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Route {
    pub destination: IpNet,
    pub gateway: Option<IpAddr>,
    pub interface: String,
    pub metric: Option<u32>,
}

pub const BOND_MODES: [&str; 7] = [
    "balance-rr",
    "active-backup",
    "balance-xor",
    "broadcast",
    "802.3ad",
    "balance-tlb",
    "balance-alb",
];

impl HostNetwork {
    /// Reads a document that stands at `path`.
    pub fn parse(document: &Value, path: &str, problems: &mut Problems) -> Self {
        let Value::Object(root) = document else {
            problems.add(
                path,
                "is not an nmstate document",
                "write interfaces: and a list of them",
            );
            return Self::default();
        };
        let mut network = Self::default();
        for (at, item) in list(root, "interfaces", path, problems).iter().enumerate() {
            let path = format!("{path}.interfaces[{at}]");
            network.interfaces.extend(interface(item, &path, problems));
        }
        if let Some(Value::Object(routes)) = root.get("routes") {
            let inner = format!("{path}.routes");
            for (at, item) in list(routes, "config", &inner, problems).iter().enumerate() {
                let path = format!("{inner}.config[{at}]");
                network.routes.extend(route(item, &path, problems));
            }
        }
        if let Some(config) = root.get("dns-resolver").and_then(|dns| dns.get("config")) {
            let path = format!("{path}.dns-resolver.config");
            for (at, server) in texts(config.get("server")).iter().enumerate() {
                match server.split('%').next().unwrap_or(server).parse() {
                    Ok(server) => network.dns_servers.push(server),
                    Err(_) => problems.add(
                        format!("{path}.server[{at}]"),
                        format!("{} is not an IP address", shown(server)),
                        "write one such as 192.0.2.1",
                    ),
                }
            }
            network.dns_search = texts(config.get("search"));
        }
        check_names(&network, path, problems);
        network
    }

    /// Every static address.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.interfaces
            .iter()
            .flat_map(|i| i.ipv4.addresses.iter().chain(&i.ipv6.addresses))
            .map(IpNet::addr)
    }

    /// The bond or bridge that an interface is a port of.
    fn controller(&self, port: &str) -> Option<&Interface> {
        self.interfaces
            .iter()
            .find(|interface| match &interface.kind {
                Kind::Bond { ports, .. } | Kind::Bridge { ports, .. } => {
                    ports.iter().any(|name| name == port)
                }
                Kind::Ethernet | Kind::Vlan { .. } => false,
            })
    }
}

fn interface(item: &Value, path: &str, problems: &mut Problems) -> Option<Interface> {
    let Value::Object(fields) = item else {
        problems.add(path, "is not an interface", "write name: and type:");
        return None;
    };
    let name = text(fields, "name").unwrap_or_default();
    if name.is_empty() || name.len() > 15 || name.contains(['/', ' ']) {
        problems.add(
            format!("{path}.name"),
            format!("{} is not an interface's name", shown(&name)),
            "write one of at most 15 characters, such as eno1",
        );
        return None;
    }
    let mac = text(fields, "mac-address").and_then(|mac| {
        let parsed = mac.parse::<Mac>();
        if let Err(error) = &parsed {
            problems.add(format!("{path}.mac-address"), error.to_string(), "");
        }
        parsed.ok()
    });
    let mtu = match fields.get("mtu") {
        None | Some(Value::Null) => None,
        Some(Value::Number(number)) => {
            let mtu = number.as_u64().filter(|mtu| (68..=65_535).contains(mtu));
            if mtu.is_none() {
                problems.add(
                    format!("{path}.mtu"),
                    format!("{number} is not an MTU"),
                    "write a number from 68 to 65535, such as 9000",
                );
            }
            mtu.map(|mtu| mtu as u32)
        }
        Some(_) => {
            problems.add(
                format!("{path}.mtu"),
                "is not a number",
                "write it without quotes, such as 9000",
            );
            None
        }
    };
    Some(Interface {
        kind: kind(fields, &name, path, problems)?,
        up: text(fields, "state").is_none_or(|state| state == "up"),
        name,
        mac,
        mtu,
        ipv4: family(fields.get("ipv4"), true, &format!("{path}.ipv4"), problems),
        ipv6: family(fields.get("ipv6"), false, &format!("{path}.ipv6"), problems),
    })
}

fn kind(
    fields: &Map<String, Value>,
    name: &str,
    path: &str,
    problems: &mut Problems,
) -> Option<Kind> {
    let kind = text(fields, "type").unwrap_or_else(|| "ethernet".into());
    match kind.as_str() {
        "ethernet" | "veth" => Some(Kind::Ethernet),
        "vlan" => vlan(fields, name, path, problems),
        "bond" => bond(fields, path, problems),
        "linux-bridge" => {
            let bridge = fields.get("bridge");
            let ports =
                bridge.and_then(|bridge| bridge.get("port").or_else(|| bridge.get("ports")));
            let named = ports.and_then(Value::as_array).into_iter().flatten();
            let ports = named
                .filter_map(|port| port.get("name").and_then(Value::as_str).map(String::from))
                .collect();
            let stp = bridge
                .and_then(|bridge| bridge.pointer("/options/stp/enabled"))
                .and_then(Value::as_bool);
            Some(Kind::Bridge {
                ports,
                stp: stp.unwrap_or(false),
            })
        }
        other => {
            problems.add(
                format!("{path}.type"),
                format!("{} interfaces are not supported", shown(other)),
                "there are ethernet, vlan, bond and linux-bridge",
            );
            None
        }
    }
}

fn vlan(
    fields: &Map<String, Value>,
    name: &str,
    path: &str,
    problems: &mut Problems,
) -> Option<Kind> {
    let vlan = fields.get("vlan");
    // Without them, a name such as eno1.100 says both.
    let (base_by_name, id_by_name) = match name.rsplit_once('.') {
        Some((base, id)) => (Some(base.to_owned()), id.parse().ok()),
        None => (None, None),
    };
    let base = vlan
        .and_then(|vlan| vlan.get("base-iface"))
        .and_then(Value::as_str);
    let base = base.map(String::from).or(base_by_name);
    let id = vlan.and_then(|vlan| vlan.get("id"));
    let id = id.and_then(Value::as_u64).or(id_by_name);
    if base.is_none() {
        problems.add(
            format!("{path}.vlan.base-iface"),
            "is missing",
            "write the interface that carries the VLAN",
        );
    }
    let id = id.filter(|id| (1..=4094).contains(id));
    if id.is_none() {
        problems.add(
            format!("{path}.vlan.id"),
            "is not a VLAN id",
            "write a number from 1 to 4094",
        );
    }
    Some(Kind::Vlan {
        base: base?,
        id: id? as u16,
    })
}

fn bond(fields: &Map<String, Value>, path: &str, problems: &mut Problems) -> Option<Kind> {
    let link = fields.get("link-aggregation").and_then(Value::as_object);
    let Some(link) = link else {
        problems.add(
            format!("{path}.link-aggregation"),
            "is missing",
            "write mode: and port:",
        );
        return None;
    };
    let path = format!("{path}.link-aggregation");
    let mode = text(link, "mode").unwrap_or_default();
    // The kernel knows modes by number too.
    let mode = mode
        .parse::<usize>()
        .ok()
        .and_then(|number| BOND_MODES.get(number).map(|mode| (*mode).to_owned()))
        .unwrap_or(mode);
    if !BOND_MODES.contains(&mode.as_str()) {
        problems.add(
            format!("{path}.mode"),
            format!("{} is not a bond's mode", shown(&mode)),
            format!("there are {}", BOND_MODES.join(", ")),
        );
    }
    let ports = texts(
        link.get("port")
            .or_else(|| link.get("ports"))
            .or_else(|| link.get("slaves")),
    );
    if ports.is_empty() {
        problems.add(
            format!("{path}.port"),
            "a bond without ports",
            "name at least one interface",
        );
    }
    let options = link
        .get("options")
        .and_then(Value::as_object)
        .into_iter()
        .flatten();
    let options = options
        .filter_map(|(name, value)| scalar(value).map(|value| (name.clone(), value)))
        .collect();
    Some(Kind::Bond {
        mode,
        ports,
        options,
    })
}

fn family(value: Option<&Value>, v4: bool, path: &str, problems: &mut Problems) -> Family {
    let Some(Value::Object(fields)) = value else {
        return Family::default();
    };
    let flag = |name: &str| fields.get(name).and_then(Value::as_bool).unwrap_or(false);
    let mut family = Family {
        enabled: fields
            .get("enabled")
            .and_then(Value::as_bool)
            .unwrap_or(true),
        dhcp: flag("dhcp"),
        autoconf: !v4 && flag("autoconf"),
        addresses: Vec::new(),
    };
    for (at, item) in list(fields, "address", path, problems).iter().enumerate() {
        let path = format!("{path}.address[{at}]");
        let ip = item.get("ip").and_then(Value::as_str).unwrap_or_default();
        let ip = ip.parse::<IpAddr>().ok().filter(|ip| ip.is_ipv4() == v4);
        let prefix = item.get("prefix-length").and_then(Value::as_u64);
        let Some(ip) = ip else {
            let wanted = if v4 {
                "an IPv4 address"
            } else {
                "an IPv6 address"
            };
            problems.add(
                format!("{path}.ip"),
                format!("is not {wanted}"),
                format!("write {wanted}"),
            );
            continue;
        };
        let net = prefix.and_then(|prefix| IpNet::new(ip, u8::try_from(prefix).ok()?).ok());
        match net {
            Some(net) => family.addresses.push(net),
            None => problems.add(
                format!("{path}.prefix-length"),
                "is not a prefix length",
                if v4 {
                    "write a number from 0 to 32, such as 24"
                } else {
                    "write a number from 0 to 128, such as 64"
                },
            ),
        }
    }
    family
}

fn route(item: &Value, path: &str, problems: &mut Problems) -> Option<Route> {
    let part = |name: &str| item.get(name).and_then(Value::as_str);
    if part("state") == Some("absent") {
        return None;
    }
    let destination = part("destination").unwrap_or_default();
    let Ok(destination) = destination.parse::<IpNet>() else {
        problems.add(
            format!("{path}.destination"),
            format!("{} is not a network", shown(destination)),
            "write one such as 0.0.0.0/0",
        );
        return None;
    };
    let interface = part("next-hop-interface").unwrap_or_default().to_owned();
    if interface.is_empty() {
        problems.add(
            format!("{path}.next-hop-interface"),
            "is missing",
            "name the interface the route goes out of",
        );
    }
    let gateway = part("next-hop-address").filter(|gateway| !gateway.is_empty());
    let parsed = gateway.map(|gateway| gateway.parse::<IpAddr>().ok());
    let fits = parsed.is_none_or(|gateway| {
        gateway.is_some_and(|gateway| gateway.is_ipv4() == destination.addr().is_ipv4())
    });
    if !fits {
        problems.add(
            format!("{path}.next-hop-address"),
            format!(
                "{} is not a gateway of {destination}",
                shown(gateway.unwrap_or_default())
            ),
            "write an address of the same family",
        );
    }
    Some(Route {
        destination,
        gateway: parsed.flatten(),
        interface,
        metric: item
            .get("metric")
            .and_then(Value::as_u64)
            .and_then(|metric| metric.try_into().ok()),
    })
}

/// Names that occur twice, and names that nothing has.
fn check_names(network: &HostNetwork, path: &str, problems: &mut Problems) {
    let mut names = std::collections::BTreeSet::new();
    for (at, interface) in network.interfaces.iter().enumerate() {
        if !names.insert(&interface.name) {
            problems.add(
                format!("{path}.interfaces[{at}].name"),
                format!(
                    "{} is the name of another interface",
                    shown(&interface.name)
                ),
                "give each its own entry",
            );
        }
        if let Kind::Bond { ports, .. } | Kind::Bridge { ports, .. } = &interface.kind
            && ports.contains(&interface.name)
        {
            problems.add(
                format!("{path}.interfaces[{at}]"),
                format!("{} is a port of itself", shown(&interface.name)),
                "name other interfaces",
            );
        }
        if let Some(controller) = network.controller(&interface.name)
            && (!interface.ipv4.addresses.is_empty() || !interface.ipv6.addresses.is_empty())
        {
            problems.add(
                format!("{path}.interfaces[{at}]"),
                format!(
                    "{} has addresses and is a port of {}",
                    interface.name, controller.name
                ),
                "put the addresses on the bond or bridge",
            );
        }
    }
}

fn list<'a>(
    fields: &'a Map<String, Value>,
    name: &str,
    path: &str,
    problems: &mut Problems,
) -> &'a [Value] {
    match fields.get(name) {
        None | Some(Value::Null) => &[],
        Some(Value::Array(items)) => items,
        Some(_) => {
            problems.add(
                format!("{path}.{name}"),
                "is not a list",
                "write a dash before each item",
            );
            &[]
        }
    }
}

fn text(fields: &Map<String, Value>, name: &str) -> Option<String> {
    fields.get(name).and_then(scalar)
}

fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(truth) => Some(truth.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

fn texts(value: Option<&Value>) -> Vec<String> {
    let items = value.and_then(Value::as_array).into_iter().flatten();
    items.filter_map(scalar).collect()
}

fn shown(text: &str) -> String {
    format!("{:?}", text.chars().take(64).collect::<String>())
}

#[cfg(test)]
mod tests;
