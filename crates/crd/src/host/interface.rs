//! How a NIC is attached to a switch.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One NIC, by its name or its MAC address.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("has(self.name) != has(self.macAddress)", "an interface is chosen by name or by macAddress, not both"))]
pub struct NetworkInterface {
    /// The NIC's name as inspection shows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), regex(pattern = r"^[a-zA-Z0-9._-]+$"))]
    pub name: Option<String>,
    /// The NIC's MAC address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(max = 17),
        regex(pattern = r"^[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}$")
    )]
    pub mac_address: Option<String>,
    /// How the switch's port is to be set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_network_attachment: Option<HostNetworkAttachmentRef>,
    /// The switch's port, where LLDP does not tell it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub switch_port: Option<SwitchPort>,
}

#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct HostNetworkAttachmentRef {
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub namespace: Option<String>,
}

#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
pub struct SwitchPort {
    /// The switch's MAC address.
    #[serde(rename = "switchID")]
    #[schemars(regex(pattern = r"^[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}$"))]
    pub switch_id: String,
    /// The port's name on the switch.
    #[serde(rename = "portID")]
    pub port_id: String,
}
