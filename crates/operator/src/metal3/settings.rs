//! What the Provisioning object says, as far as this node is concerned.

use std::net::IpAddr;

use crd::Provisioning;
use crd::provisioning::ProvisioningNetwork;
use ipnet::IpNet;
use linux::link::Link;
use model::Mac;
use serde_json::{Value, json};

#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Nothing boots over the network.
    pub network_disabled: bool,
    /// Our address, and the link it goes on.
    pub address: Option<(String, IpNet)>,
    /// This node's own address that hosts fetch from, where there is no provisioning network.
    pub own: Option<(String, IpNet)>,
    /// Ironic's `boot.dhcp`.
    pub dhcp: Value,
    /// Virtual media without TLS.
    pub plain_media: bool,
    pub all_namespaces: bool,
}

impl Settings {
    /// What can be used, or what is wrong. `own` is this node's address in the machine network.
    pub fn resolve(
        object: &Provisioning,
        links: &[Link],
        own: Option<(String, IpNet)>,
    ) -> Result<Self, String> {
        let spec = &object.spec;
        let network = spec.provisioning_network.unwrap_or({
            if spec.provisioning_dhcp_external {
                ProvisioningNetwork::Unmanaged
            } else {
                ProvisioningNetwork::Managed
            }
        });
        let text = |field: &Option<String>| field.clone().filter(|text| !text.is_empty());
        let net = match (
            text(&spec.provisioning_ip),
            text(&spec.provisioning_network_cidr),
        ) {
            (Some(ip), Some(cidr)) => Some(address(&ip, &cidr)?),
            (None, None) => None,
            _ => return Err("provisioningIP and provisioningNetworkCIDR go together".to_owned()),
        };
        let address = match net {
            Some(net) => Some((link(spec, links)?, net)),
            None => None,
        };
        if address.is_none() && network != ProvisioningNetwork::Disabled {
            return Err(
                "a provisioning network needs provisioningIP and provisioningNetworkCIDR"
                    .to_owned(),
            );
        }
        let dhcp = match network {
            ProvisioningNetwork::Managed => {
                let range = text(&spec.provisioning_dhcp_range)
                    .ok_or("a managed provisioning network needs provisioningDHCPRange")?;
                json!({
                    "mode": "server",
                    "ranges": [range],
                    "router": text(&spec.provisioning_network_gateway),
                    "ntp": spec.additional_ntp_servers.iter().filter(|s| s.parse::<IpAddr>().is_ok()).collect::<Vec<_>>(),
                })
            }
            ProvisioningNetwork::Unmanaged => json!({"mode": "proxy"}),
            ProvisioningNetwork::Disabled => json!({"mode": "off"}),
        };
        let network_disabled = network == ProvisioningNetwork::Disabled;
        Ok(Self {
            network_disabled,
            own: own.filter(|_| network_disabled && address.is_none()),
            address,
            dhcp,
            plain_media: spec.disable_virtual_media_tls,
            all_namespaces: spec.watch_all_namespaces,
        })
    }

    /// What concerns us where Ironic and its network are somebody else's.
    pub fn elsewhere(object: &Provisioning) -> Self {
        let spec = &object.spec;
        Self {
            network_disabled: spec.provisioning_network == Some(ProvisioningNetwork::Disabled),
            address: None,
            own: None,
            dhcp: Value::Null,
            plain_media: spec.disable_virtual_media_tls,
            all_namespaces: spec.watch_all_namespaces,
        }
    }

    /// Ironic's configuration: what holds anyway, with the network as these settings say.
    pub fn ironic(&self, mut base: Value) -> Value {
        let Some((link, net)) = self.address.as_ref().or(self.own.as_ref()) else {
            return base;
        };
        let Value::Object(fields) = &mut base else {
            return base;
        };
        let boot = fields.entry("boot").or_insert(Value::Null);
        if boot.is_null() {
            *boot = json!({});
        }
        boot["interface"] = json!(link);
        boot["address"] = json!(net);
        boot["dhcp"] = self.dhcp.clone();
        if self.plain_media {
            boot["media"]["http"] = json!(true);
        }
        base
    }
}

fn address(ip: &str, cidr: &str) -> Result<IpNet, String> {
    let ip: IpAddr = ip
        .parse()
        .map_err(|_| format!("provisioningIP {ip:?} is not an address"))?;
    let net: IpNet = cidr
        .parse()
        .map_err(|_| format!("provisioningNetworkCIDR {cidr:?} is not a network"))?;
    if !net.contains(&ip) {
        return Err(format!("provisioningIP {ip} is not in {net}"));
    }
    IpNet::new(ip, net.prefix_len()).map_err(|error| error.to_string())
}

/// The NIC by its name, or the one of ours that the list of MACs has.
fn link(spec: &crd::provisioning::ProvisioningSpec, links: &[Link]) -> Result<String, String> {
    if let Some(name) = spec
        .provisioning_interface
        .as_ref()
        .filter(|name| !name.is_empty())
    {
        return match links.iter().find(|link| link.name == *name) {
            Some(link) => Ok(link.name.clone()),
            None => Err(format!(
                "there is no link {name:?} (provisioningInterface) on this node"
            )),
        };
    }
    let macs: Vec<Mac> = spec
        .provisioning_mac_addresses
        .iter()
        .filter_map(|mac| mac.parse().ok())
        .collect();
    links
        .iter()
        .find(|link| link.mac.is_some_and(|mac| macs.contains(&mac)))
        .map(|link| link.name.clone())
        .ok_or_else(|| {
            "no link of this node has one of provisioningMacAddresses, and provisioningInterface is not said".to_owned()
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nic(name: &str, mac: &str) -> Link {
        Link {
            index: 2,
            name: name.to_owned(),
            mac: mac.parse().ok(),
            mtu: 1500,
            up: true,
            carrier: true,
            master: None,
            kind: None,
        }
    }

    fn resolved(spec: Value) -> Result<Settings, String> {
        let object: Provisioning = serde_json::from_value(json!({
            "apiVersion": "metal3.io/v1alpha1", "kind": "Provisioning",
            "metadata": {"name": "provisioning-configuration"}, "spec": spec,
        }))
        .expect("it is one");
        let links = [
            nic("eno1", "52:54:00:00:00:01"),
            nic("eno2", "52:54:00:00:00:02"),
        ];
        let own = (
            "eno1".to_owned(),
            "192.0.2.7/24".parse().expect("a network"),
        );
        Settings::resolve(&object, &links, Some(own))
    }

    #[test]
    fn the_network_is_as_the_object_says() {
        let managed = resolved(json!({
            "provisioningNetwork": "Managed", "provisioningIP": "172.22.0.3",
            "provisioningNetworkCIDR": "172.22.0.0/24", "provisioningDHCPRange": "172.22.0.10,172.22.0.100",
            "provisioningMacAddresses": ["52:54:00:00:00:02"],
        }))
        .expect("it can be used");
        assert_eq!(
            managed.address,
            Some((
                "eno2".to_owned(),
                "172.22.0.3/24".parse().expect("a network")
            ))
        );
        let ironic = managed.ironic(json!({"boot": {"ramdisk": {"kernel": "k"}}, "host": "h"}));
        assert_eq!(
            ironic,
            json!({"host": "h", "boot": {
                "ramdisk": {"kernel": "k"}, "interface": "eno2", "address": "172.22.0.3/24",
                "dhcp": {"mode": "server", "ranges": ["172.22.0.10,172.22.0.100"], "router": null, "ntp": []},
            }})
        );
        let disabled =
            resolved(json!({"provisioningNetwork": "Disabled"})).expect("it can be used");
        assert!(disabled.network_disabled && disabled.address.is_none());
        assert_eq!(
            disabled.ironic(json!({"host": "h"})),
            json!({"host": "h", "boot": {
                "interface": "eno1", "address": "192.0.2.7/24", "dhcp": {"mode": "off"},
            }})
        );
        let bare = Settings {
            own: None,
            ..disabled
        };
        assert_eq!(bare.ironic(json!({"host": "h"})), json!({"host": "h"}));
    }

    #[test]
    fn what_cannot_be_used_is_told() {
        let base = json!({"provisioningIP": "172.22.0.3", "provisioningNetworkCIDR": "172.22.0.0/24",
            "provisioningInterface": "eno1", "provisioningDHCPRange": "172.22.0.10,172.22.0.100"});
        for (name, change, told) in [
            (
                "no such NIC",
                json!({"provisioningInterface": "eno9"}),
                "eno9",
            ),
            (
                "an address elsewhere",
                json!({"provisioningIP": "192.0.2.1"}),
                "not in",
            ),
            (
                "no range",
                json!({"provisioningDHCPRange": ""}),
                "provisioningDHCPRange",
            ),
            (
                "no address",
                json!({"provisioningIP": "", "provisioningNetworkCIDR": ""}),
                "needs provisioningIP",
            ),
            (
                "half an address",
                json!({"provisioningIP": ""}),
                "go together",
            ),
        ] {
            let mut spec = base.clone();
            for (key, value) in change.as_object().expect("an object") {
                spec[key] = value.clone();
            }
            let why = resolved(spec).expect_err(name);
            assert!(why.contains(told), "{name}: {why}");
        }
    }
}
