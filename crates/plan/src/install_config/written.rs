//! The file as people write it, after its shape was checked. Text stays text.

use model::Secret;
use serde::Deserialize;
use serde_json::Value;

/// A list may hold `None` where an item was of the wrong shape, so that the others keep their numbers.
pub type List<T> = Vec<Option<T>>;

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Written {
    pub api_version: Option<String>,
    pub base_domain: Option<String>,
    pub metadata: Option<Metadata>,
    pub platform: Option<Platform>,
    pub networking: Option<Networking>,
    pub control_plane: Option<Pool>,
    pub compute: List<Pool>,
    pub arbiter: Option<Pool>,
    pub pull_secret: Option<Secret<String>>,
    pub ssh_key: Option<String>,
    pub payload: Option<Payload>,
    pub additional_trust_bundle: Option<String>,
    pub additional_trust_bundle_policy: Option<String>,
    pub proxy: Option<Proxy>,
    pub publish: Option<String>,
    pub fips: Option<bool>,
    pub cpu_partitioning_mode: Option<String>,
    pub credentials_mode: Option<String>,
    pub feature_set: Option<String>,
    pub feature_gates: List<String>,
    pub capabilities: Option<Capabilities>,
    pub image_digest_sources: List<Mirror>,
    pub image_content_sources: List<Mirror>,
    pub os_image_stream: Option<String>,
    pub bootstrap_in_place: Option<Value>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Metadata {
    pub name: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Platform {
    pub baremetal: Option<BareMetal>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Networking {
    pub network_type: Option<String>,
    #[serde(rename = "type")]
    pub kind: Option<String>,
    pub machine_network: List<Cidr>,
    #[serde(rename = "machineCIDR")]
    pub machine_cidr: Option<String>,
    pub cluster_network: List<ClusterNetwork>,
    pub cluster_networks: List<ClusterNetwork>,
    pub service_network: List<String>,
    #[serde(rename = "serviceCIDR")]
    pub service_cidr: Option<String>,
    #[serde(rename = "clusterNetworkMTU")]
    pub cluster_network_mtu: Option<i64>,
    pub ovn_kubernetes_config: Option<Ovn>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Cidr {
    pub cidr: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterNetwork {
    pub cidr: Option<String>,
    pub host_prefix: Option<i64>,
    pub host_subnet_length: Option<i64>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Ovn {
    pub ipv4: Option<OvnIpv4>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OvnIpv4 {
    pub internal_join_subnet: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Pool {
    pub name: Option<String>,
    pub replicas: Option<i64>,
    pub architecture: Option<String>,
    pub hyperthreading: Option<String>,
    pub fencing: Option<Fencing>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Fencing {
    pub credentials: List<FencingCredential>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FencingCredential {
    #[serde(rename = "hostName")]
    pub host_name: Option<String>,
    pub hostname: Option<String>,
    #[serde(rename = "bootMACAddress")]
    pub boot_mac_address: Option<String>,
    pub address: Option<String>,
    pub username: Option<String>,
    pub password: Option<Secret<String>>,
    pub certificate_verification: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Payload {
    #[serde(rename = "type")]
    pub kind: Option<String>,
    pub version: Option<String>,
    pub source: Option<String>,
    pub sha256: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Proxy {
    #[serde(rename = "httpProxy")]
    pub http: Option<Secret<String>>,
    #[serde(rename = "httpsProxy")]
    pub https: Option<Secret<String>>,
    #[serde(rename = "noProxy")]
    pub except: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Capabilities {
    pub baseline_capability_set: Option<String>,
    pub additional_enabled_capabilities: List<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Mirror {
    pub source: Option<String>,
    pub mirrors: List<String>,
    pub source_policy: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BareMetal {
    #[serde(rename = "apiVIPs")]
    pub api_vips: Option<List<String>>,
    #[serde(rename = "apiVIP")]
    pub api_vip: Option<String>,
    #[serde(rename = "ingressVIPs")]
    pub ingress_vips: Option<List<String>>,
    #[serde(rename = "ingressVIP")]
    pub ingress_vip: Option<String>,
    pub hosts: List<Host>,
    pub provisioning_network: Option<String>,
    #[serde(rename = "provisioningNetworkCIDR")]
    pub provisioning_network_cidr: Option<String>,
    pub provisioning_network_interface: Option<String>,
    pub provisioning_network_gateway: Option<String>,
    #[serde(rename = "provisioningDHCPRange")]
    pub provisioning_dhcp_range: Option<String>,
    #[serde(rename = "provisioningDHCPExternal")]
    pub provisioning_dhcp_external: Option<bool>,
    pub provisioning_bridge: Option<String>,
    #[serde(rename = "provisioningMACAddress")]
    pub provisioning_mac_address: Option<String>,
    #[serde(rename = "bootstrapProvisioningIP")]
    pub bootstrap_provisioning_ip: Option<String>,
    #[serde(rename = "clusterProvisioningIP")]
    pub cluster_provisioning_ip: Option<String>,
    #[serde(rename = "provisioningHostIP")]
    pub provisioning_host_ip: Option<String>,
    pub external_bridge: Option<String>,
    #[serde(rename = "externalMACAddress")]
    pub external_mac_address: Option<String>,
    #[serde(rename = "bootstrapExternalStaticIP")]
    pub bootstrap_external_static_ip: Option<String>,
    pub bootstrap_external_static_gateway: Option<String>,
    #[serde(rename = "bootstrapExternalStaticDNS")]
    pub bootstrap_external_static_dns: Option<String>,
    #[serde(rename = "bootstrapOSImage")]
    pub bootstrap_os_image: Option<String>,
    #[serde(rename = "clusterOSImage")]
    pub cluster_os_image: Option<String>,
    #[serde(rename = "libvirtURI")]
    pub libvirt_uri: Option<String>,
    #[serde(rename = "additionalNTPServers")]
    pub additional_ntp_servers: List<String>,
    pub load_balancer: Option<LoadBalancer>,
    pub dns_records_type: Option<String>,
    #[serde(rename = "bmcVerifyCA")]
    pub bmc_verify_ca: Option<String>,
    pub kexec: Option<bool>,
    pub control_plane_hardware_speed: Option<String>,
    #[serde(rename = "bgpVIPConfig")]
    pub bgp_vip_config: Option<Value>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LoadBalancer {
    #[serde(rename = "type")]
    pub kind: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Host {
    pub name: Option<String>,
    pub role: Option<String>,
    pub bmc: Option<Bmc>,
    #[serde(rename = "bootMACAddress")]
    pub boot_mac_address: Option<String>,
    pub hardware_profile: Option<String>,
    pub root_device_hints: Option<Hints>,
    pub boot_mode: Option<String>,
    pub network_config: Option<Value>,
    pub bgp_peers: Option<Value>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Bmc {
    pub address: Option<String>,
    pub username: Option<String>,
    pub password: Option<Secret<String>>,
    pub disable_certificate_verification: Option<bool>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Hints {
    pub device_name: Option<String>,
    pub hctl: Option<String>,
    pub model: Option<String>,
    pub vendor: Option<String>,
    pub serial_number: Option<String>,
    pub min_size_gigabytes: Option<i64>,
    pub wwn: Option<String>,
    pub wwn_with_extension: Option<String>,
    pub wwn_vendor_extension: Option<String>,
    pub rotational: Option<bool>,
}
