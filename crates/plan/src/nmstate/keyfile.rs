//! NetworkManager's keyfiles, as `nmstatectl gc` would write them.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::IpAddr;

use super::{Family, HostNetwork, Interface, Kind};

impl HostNetwork {
    /// File name to content, for `/etc/NetworkManager/system-connections`.
    pub fn keyfiles(&self) -> BTreeMap<String, String> {
        self.interfaces
            .iter()
            .filter(|interface| interface.up)
            .map(|interface| {
                (
                    format!("{}.nmconnection", interface.name),
                    self.keyfile(interface),
                )
            })
            .collect()
    }

    fn keyfile(&self, interface: &Interface) -> String {
        let (kind, mut own) = match &interface.kind {
            Kind::Ethernet => ("ethernet", String::new()),
            Kind::Vlan { base, id } => (
                "vlan",
                format!("\n[vlan]\nflags=1\nid={id}\nparent={base}\n"),
            ),
            Kind::Bond { mode, options, .. } => {
                let mut text = format!("\n[bond]\nmode={mode}\n");
                for (name, value) in options {
                    _ = writeln!(text, "{name}={value}");
                }
                ("bond", text)
            }
            Kind::Bridge { stp, .. } => ("bridge", format!("\n[bridge]\nstp={stp}\n")),
        };
        if interface.mac.is_some() || interface.mtu.is_some() {
            own.push_str("\n[ethernet]\n");
            if let Some(mac) = interface.mac {
                // A NIC is found by its address; what we make gets it.
                let key = if interface.kind == Kind::Ethernet {
                    "mac-address"
                } else {
                    "cloned-mac-address"
                };
                _ = writeln!(own, "{key}={}", mac.to_string().to_uppercase());
            }
            if let Some(mtu) = interface.mtu {
                _ = writeln!(own, "mtu={mtu}");
            }
        }
        let name = &interface.name;
        let mut text = format!(
            "[connection]\nid={name}\ntype={kind}\ninterface-name={name}\nautoconnect=true\nautoconnect-priority=1\n"
        );
        if let Some(controller) = self.controller(name) {
            // The names that every version of NetworkManager knows.
            let kind = if matches!(controller.kind, Kind::Bond { .. }) {
                "bond"
            } else {
                "bridge"
            };
            _ = write!(text, "master={}\nslave-type={kind}\n", controller.name);
            return text + &own;
        }
        text.push_str(&own);
        text.push_str(&self.family(interface, &interface.ipv4, true));
        text.push_str(&self.family(interface, &interface.ipv6, false));
        text
    }

    fn family(&self, interface: &Interface, family: &Family, v4: bool) -> String {
        let mut text = format!("\n[{}]\n", if v4 { "ipv4" } else { "ipv6" });
        let method = match (family.enabled, v4, family.dhcp, family.addresses.is_empty()) {
            (true, _, true, _) => "auto",
            (true, false, false, _) if family.autoconf => "auto",
            (true, _, false, false) => "manual",
            (false, ..) | (true, true, false, true) => "disabled",
            (true, false, false, true) => "link-local",
        };
        if !v4 && family.enabled {
            text.push_str("addr-gen-mode=0\n");
        }
        for (at, address) in family.addresses.iter().enumerate() {
            _ = writeln!(text, "address{}={address}", at + 1);
        }
        let same = |ip: &IpAddr| ip.is_ipv4() == v4;
        let servers: Vec<_> = self
            .dns_servers
            .iter()
            .filter(|ip| same(ip))
            .map(ToString::to_string)
            .collect();
        let carries = method == "manual" || method == "auto";
        if carries && !servers.is_empty() {
            _ = writeln!(text, "dns={};", servers.join(";"));
            if !self.dns_search.is_empty() {
                _ = writeln!(text, "dns-search={};", self.dns_search.join(";"));
            }
        }
        _ = writeln!(text, "method={method}");
        let routes = self
            .routes
            .iter()
            .filter(|route| route.interface == interface.name && same(&route.destination.addr()));
        for (at, route) in routes.enumerate() {
            let mut value = route.destination.to_string();
            if let Some(gateway) = route.gateway {
                _ = write!(value, ",{gateway}");
            }
            if let Some(metric) = route.metric {
                let gap = if route.gateway.is_none() { "," } else { "" };
                _ = write!(value, "{gap},{metric}");
            }
            _ = writeln!(text, "route{}={value}", at + 1);
        }
        text
    }
}
