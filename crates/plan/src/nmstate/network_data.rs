//! The network of a host as OpenStack's `network_data.json`, which stands on the config drive.

use std::net::IpAddr;

use ipnet::IpNet;
use serde_json::{Value, json};

use super::{Family, HostNetwork, Interface, Kind, Route};

impl HostNetwork {
    pub fn network_data(&self) -> Value {
        let used = || self.interfaces.iter().filter(|interface| interface.up);
        json!({
            "links": used().filter_map(|interface| self.link(interface)).collect::<Vec<_>>(),
            "networks": used().flat_map(|interface| self.networks(interface)).collect::<Vec<_>>(),
            "services": self.dns_servers.iter().map(|server| json!({"type": "dns", "address": server})).collect::<Vec<_>>(),
        })
    }

    /// A bridge has no word in this format: its addresses stand on it all the same.
    fn link(&self, interface: &Interface) -> Option<Value> {
        let mut link = json!({"id": interface.name, "name": interface.name});
        if let Some(mac) = interface.mac {
            link["ethernet_mac_address"] = json!(mac);
        }
        if let Some(mtu) = interface.mtu {
            link["mtu"] = json!(mtu);
        }
        match &interface.kind {
            Kind::Ethernet => link["type"] = json!("phy"),
            Kind::Vlan { base, id } => {
                link["type"] = json!("vlan");
                link["vlan_link"] = json!(base);
                link["vlan_id"] = json!(id);
                let under = self.interfaces.iter().find(|other| other.name == *base);
                if let Some(mac) = interface.mac.or(under.and_then(|under| under.mac)) {
                    link["vlan_mac_address"] = json!(mac);
                }
            }
            Kind::Bond {
                mode,
                ports,
                options,
            } => {
                link["type"] = json!("bond");
                link["bond_mode"] = json!(mode);
                link["bond_links"] = json!(ports);
                for (name, value) in options {
                    link[format!("bond_{}", name.replace('-', "_"))] = json!(value);
                }
            }
            Kind::Bridge { .. } => return None,
        }
        Some(link)
    }

    fn networks(&self, interface: &Interface) -> Vec<Value> {
        let families = [("ipv4", &interface.ipv4), ("ipv6", &interface.ipv6)];
        let enabled = families.into_iter().filter(|(_, family)| family.enabled);
        enabled
            .flat_map(|(name, family)| self.addresses_of(interface, name, family))
            .collect()
    }

    fn addresses_of(&self, interface: &Interface, name: &str, family: &Family) -> Vec<Value> {
        let id = |what: &str| format!("{}-{what}", interface.name);
        if family.dhcp {
            return vec![
                json!({"id": id(name), "link": interface.name, "type": format!("{name}_dhcp")}),
            ];
        }
        if family.addresses.is_empty() && family.autoconf {
            return vec![
                json!({"id": id(name), "link": interface.name, "type": format!("{name}_slaac")}),
            ];
        }
        let address = |(at, net): (usize, &IpNet)| {
            // Routes belong to the interface; said once, with its first address.
            let routes = self.routes.iter().filter(|route| {
                at == 0
                    && route.interface == interface.name
                    && route.destination.addr().is_ipv4() == net.addr().is_ipv4()
            });
            json!({
                "id": id(&format!("{name}-{at}")),
                "link": interface.name,
                "type": name,
                "ip_address": net.addr(),
                "netmask": mask(net),
                "routes": routes.filter_map(route).collect::<Vec<_>>(),
            })
        };
        family.addresses.iter().enumerate().map(address).collect()
    }
}

fn route(route: &Route) -> Option<Value> {
    let net = route.destination;
    Some(json!({"network": net.network(), "netmask": mask(&net), "gateway": route.gateway?}))
}

fn mask(net: &IpNet) -> IpAddr {
    net.netmask()
}
