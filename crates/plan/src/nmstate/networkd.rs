//! systemd-networkd's `.netdev` and `.network` files.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::{HostNetwork, Interface, Kind};

impl HostNetwork {
    /// File name to content, for `/etc/systemd/network`.
    pub fn networkd(&self) -> BTreeMap<String, String> {
        let mut files = BTreeMap::new();
        for interface in self.interfaces.iter().filter(|interface| interface.up) {
            let name = format!("10-{}", interface.name);
            if let Some(netdev) = netdev(interface) {
                files.insert(format!("{name}.netdev"), netdev);
            }
            files.insert(format!("{name}.network"), self.network(interface));
        }
        files
    }

    fn network(&self, interface: &Interface) -> String {
        let name = &interface.name;
        let mut text = match (&interface.kind, interface.mac) {
            (Kind::Ethernet, Some(mac)) => format!("[Match]\nPermanentMACAddress={mac}\n"),
            (Kind::Ethernet | Kind::Vlan { .. } | Kind::Bond { .. } | Kind::Bridge { .. }, _) => {
                format!("[Match]\nName={name}\n")
            }
        };
        if let Some(mtu) = interface.mtu {
            _ = write!(text, "\n[Link]\nMTUBytes={mtu}\n");
        }
        text.push_str("\n[Network]\n");
        for vlan in &self.interfaces {
            if matches!(&vlan.kind, Kind::Vlan { base, .. } if base == name) {
                _ = writeln!(text, "VLAN={}", vlan.name);
            }
        }
        if let Some(controller) = self.controller(name) {
            let key = if matches!(controller.kind, Kind::Bond { .. }) {
                "Bond"
            } else {
                "Bridge"
            };
            _ = writeln!(text, "{key}={}", controller.name);
            return text;
        }
        let dhcp = match (
            interface.ipv4.enabled && interface.ipv4.dhcp,
            interface.ipv6.enabled && interface.ipv6.dhcp,
        ) {
            (true, true) => "yes",
            (true, false) => "ipv4",
            (false, true) => "ipv6",
            (false, false) => "no",
        };
        _ = writeln!(text, "DHCP={dhcp}");
        let listens = interface.ipv6.enabled && (interface.ipv6.dhcp || interface.ipv6.autoconf);
        _ = writeln!(text, "IPv6AcceptRA={listens}");
        if !interface.ipv6.enabled {
            text.push_str("LinkLocalAddressing=no\n");
        }
        for address in interface
            .ipv4
            .addresses
            .iter()
            .chain(&interface.ipv6.addresses)
        {
            _ = writeln!(text, "Address={address}");
        }
        let addressed = !interface.ipv4.addresses.is_empty()
            || !interface.ipv6.addresses.is_empty()
            || dhcp != "no";
        if addressed {
            for server in &self.dns_servers {
                _ = writeln!(text, "DNS={server}");
            }
            if !self.dns_search.is_empty() {
                _ = writeln!(text, "Domains={}", self.dns_search.join(" "));
            }
        }
        for route in self.routes.iter().filter(|route| route.interface == *name) {
            _ = write!(text, "\n[Route]\nDestination={}\n", route.destination);
            if let Some(gateway) = route.gateway {
                _ = writeln!(text, "Gateway={gateway}");
            }
            if let Some(metric) = route.metric {
                _ = writeln!(text, "Metric={metric}");
            }
        }
        text
    }
}

fn netdev(interface: &Interface) -> Option<String> {
    let (kind, own) = match &interface.kind {
        Kind::Ethernet => return None,
        Kind::Vlan { id, .. } => ("vlan", format!("\n[VLAN]\nId={id}\n")),
        Kind::Bond { mode, options, .. } => {
            let mut text = format!("\n[Bond]\nMode={mode}\n");
            for (name, value) in options {
                // The options that have a name there too; times are in milliseconds by default.
                let key = match name.as_str() {
                    "miimon" => "MIIMonitorSec",
                    "updelay" => "UpDelaySec",
                    "downdelay" => "DownDelaySec",
                    "lacp_rate" => "LACPTransmitRate",
                    "xmit_hash_policy" => "TransmitHashPolicy",
                    _ => continue,
                };
                let unit = if key.ends_with("Sec") { "ms" } else { "" };
                _ = writeln!(text, "{key}={value}{unit}");
            }
            ("bond", text)
        }
        Kind::Bridge { stp, .. } => ("bridge", format!("\n[Bridge]\nSTP={stp}\n")),
    };
    let mut text = format!("[NetDev]\nName={}\nKind={kind}\n", interface.name);
    if let Some(mac) = interface.mac {
        _ = writeln!(text, "MACAddress={mac}");
    }
    Some(text + &own)
}
