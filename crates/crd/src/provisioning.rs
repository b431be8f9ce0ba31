//! `Provisioning`: how this cluster provisions servers. There is one, named `provisioning-configuration`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The name of the only one.
pub const NAME: &str = "provisioning-configuration";

#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "metal3.io",
    version = "v1alpha1",
    kind = "Provisioning",
    plural = "provisionings",
    status = "ProvisioningStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "How this cluster provisions servers.",
    printcolumn(name = "Network", type_ = "string", json_path = ".spec.provisioningNetwork", description = "Who runs the provisioning network"),
    printcolumn(name = "IP", type_ = "string", json_path = ".spec.provisioningIP", description = "The service's address on it"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp", description = "Time since it was made"),
    validation = ("self.metadata.name == 'provisioning-configuration'", "there is only one Provisioning, and its name is provisioning-configuration"),
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = ("(has(self.provisioningIP) && self.provisioningIP != '') == (has(self.provisioningNetworkCIDR) && self.provisioningNetworkCIDR != '')",
        "provisioningIP and provisioningNetworkCIDR go together"),
    validation = ("!has(self.provisioningNetwork) || self.provisioningNetwork != 'Managed' || (has(self.provisioningDHCPRange) && self.provisioningDHCPRange != '')",
        "a managed provisioning network needs provisioningDHCPRange"),
    validation = ("!has(self.provisioningNetwork) || self.provisioningNetwork == 'Disabled' || (has(self.provisioningIP) && self.provisioningIP != '')",
        "a provisioning network needs provisioningIP and provisioningNetworkCIDR"),
    validation = ("!has(self.provisioningNetworkGateway) || self.provisioningNetworkGateway == '' || (has(self.provisioningNetwork) && self.provisioningNetwork == 'Managed')",
        "provisioningNetworkGateway is for a managed provisioning network only"),
)]
pub struct ProvisioningSpec {
    /// Managed: DHCP and network boot are ours. Unmanaged: the network is there, DHCP is the site's. Disabled: virtual
    /// media only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provisioning_network: Option<ProvisioningNetwork>,
    /// The old way to say Unmanaged.
    #[serde(
        rename = "provisioningDHCPExternal",
        default,
        skip_serializing_if = "std::ops::Not::not"
    )]
    pub provisioning_dhcp_external: bool,
    /// The control plane's NIC on the provisioning network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 15))]
    pub provisioning_interface: Option<String>,
    /// The control plane's NICs on the provisioning network, by MAC address.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub provisioning_mac_addresses: Vec<String>,
    /// The service's address, on whichever node it runs.
    #[serde(
        rename = "provisioningIP",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(length(max = 45))]
    #[x_kube(validation = ("self == '' || isIP(self)", "this is not an IP address"))]
    pub provisioning_ip: Option<String>,
    #[serde(
        rename = "provisioningNetworkCIDR",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(length(max = 49))]
    #[x_kube(validation = ("self == '' || isCIDR(self)", "this is not a network such as 172.22.0.0/24"))]
    pub provisioning_network_cidr: Option<String>,
    /// First and last address, with a comma between them.
    #[serde(
        rename = "provisioningDHCPRange",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(length(max = 92))]
    #[x_kube(validation = ("self == '' || (self.split(',').size() == 2 && self.split(',').all(a, isIP(a.trim())))", "write the first and the last address with a comma between them"))]
    pub provisioning_dhcp_range: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 45))]
    #[x_kube(validation = ("self == '' || isIP(self)", "this is not an IP address"))]
    pub provisioning_network_gateway: Option<String>,
    /// Offer a DNS server on the provisioning network.
    #[serde(
        rename = "provisioningDNS",
        default,
        skip_serializing_if = "std::ops::Not::not"
    )]
    pub provisioning_dns: bool,
    /// The image of old installs.
    #[serde(
        rename = "provisioningOSDownloadURL",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub provisioning_os_download_url: Option<String>,
    /// The pieces of the ramdisk.
    #[serde(
        rename = "preProvisioningOSDownloadURLs",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub pre_provisioning_os_download_urls: Option<OsDownloadUrls>,
    /// Care for hosts in every namespace.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub watch_all_namespaces: bool,
    /// Whether boot ISOs are made here or passed on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot_iso_source: Option<BootIsoSource>,
    /// Serve virtual media on the nodes' own network.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub virtual_media_via_external_network: bool,
    /// Serve virtual media without TLS.
    #[serde(
        rename = "disableVirtualMediaTLS",
        default,
        skip_serializing_if = "std::ops::Not::not"
    )]
    pub disable_virtual_media_tls: bool,
    #[serde(
        rename = "additionalNTPServers",
        default,
        skip_serializing_if = "Vec::is_empty"
    )]
    pub additional_ntp_servers: Vec<String>,
    #[serde(rename = "externalIPs", default, skip_serializing_if = "Vec::is_empty")]
    pub external_ips: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prometheus_exporter: Option<PrometheusExporter>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unsupported_config_overrides: Option<UnsupportedConfigOverrides>,
}

#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProvisioningNetwork {
    Managed,
    Unmanaged,
    Disabled,
}

#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum BootIsoSource {
    Local,
    Http,
}

#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
pub struct OsDownloadUrls {
    #[serde(rename = "isoURL", default, skip_serializing_if = "Option::is_none")]
    pub iso_url: Option<String>,
    #[serde(rename = "kernelURL", default, skip_serializing_if = "Option::is_none")]
    pub kernel_url: Option<String>,
    #[serde(
        rename = "initramfsURL",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub initramfs_url: Option<String>,
    #[serde(rename = "rootfsURL", default, skip_serializing_if = "Option::is_none")]
    pub rootfs_url: Option<String>,
}

#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct PrometheusExporter {
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub enabled: bool,
    /// In seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 60))]
    pub sensor_collection_interval: Option<i64>,
}

#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct UnsupportedConfigOverrides {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ironic_agent_image: Option<String>,
}

/// What the service made of it.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct ProvisioningStatus {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The generation whose settings are in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_generation: Option<i64>,
    /// The node that runs the service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_node: Option<String>,
    /// Available, Progressing and Degraded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
}
