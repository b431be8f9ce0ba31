//! `Infrastructure`: on what the cluster runs. There is one, named `cluster`.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The name of the only one.
pub const NAME: &str = "cluster";
/// The platform that makes metal3 start.
pub const BARE_METAL: &str = "BareMetal";

#[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "config.openshift.io",
    version = "v1",
    kind = "Infrastructure",
    plural = "infrastructures",
    status = "InfrastructureStatus",
    derive = "PartialEq",
    doc = "On what the cluster runs.",
    printcolumn(
        name = "Platform",
        type_ = "string",
        json_path = ".status.platformStatus.type",
        description = "The platform"
    ),
    printcolumn(
        name = "API",
        type_ = "string",
        json_path = ".status.apiServerURL",
        description = "The API's address"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp",
        description = "Time since it was made"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct InfrastructureSpec {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cloud_config: Option<CloudConfig>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform_spec: Option<PlatformSpec>,
}

#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
pub struct CloudConfig {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
pub struct PlatformSpec {
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<Platform>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baremetal: Option<BareMetalPlatformSpec>,
}

/// The platforms that OpenShift knows; we care for bare metal.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Platform {
    #[default]
    #[serde(rename = "")]
    Unknown,
    #[serde(rename = "AWS")]
    Aws,
    Azure,
    BareMetal,
    #[serde(rename = "GCP")]
    Gcp,
    Libvirt,
    OpenStack,
    None,
    VSphere,
    #[serde(rename = "oVirt")]
    OVirt,
    #[serde(rename = "IBMCloud")]
    IbmCloud,
    KubeVirt,
    EquinixMetal,
    #[serde(rename = "PowerVS")]
    PowerVs,
    AlibabaCloud,
    Nutanix,
    External,
}

#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct BareMetalPlatformSpec {
    #[serde(
        rename = "apiServerInternalIPs",
        default,
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schemars(length(max = 2))]
    pub api_server_internal_ips: Vec<String>,
    #[serde(rename = "ingressIPs", default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 2))]
    pub ingress_ips: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub machine_networks: Vec<String>,
}

#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct InfrastructureStatus {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub infrastructure_name: Option<String>,
    /// Deprecated: see platformStatus.type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform: Option<Platform>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform_status: Option<PlatformStatus>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etcd_discovery_domain: Option<String>,
    #[serde(
        rename = "apiServerURL",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub api_server_url: Option<String>,
    #[serde(
        rename = "apiServerInternalURI",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub api_server_internal_uri: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control_plane_topology: Option<Topology>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub infrastructure_topology: Option<Topology>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_partitioning: Option<CpuPartitioning>,
}

#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topology {
    HighlyAvailable,
    HighlyAvailableArbiter,
    DualReplica,
    SingleReplica,
    External,
}

#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
pub enum CpuPartitioning {
    None,
    AllNodes,
}

#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
pub struct PlatformStatus {
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<Platform>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baremetal: Option<BareMetalPlatformStatus>,
}

#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct BareMetalPlatformStatus {
    #[serde(
        rename = "apiServerInternalIP",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub api_server_internal_ip: Option<String>,
    #[serde(
        rename = "apiServerInternalIPs",
        default,
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schemars(length(max = 2))]
    pub api_server_internal_ips: Vec<String>,
    #[serde(rename = "ingressIP", default, skip_serializing_if = "Option::is_none")]
    pub ingress_ip: Option<String>,
    #[serde(rename = "ingressIPs", default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 2))]
    pub ingress_ips: Vec<String>,
    #[serde(rename = "nodeDNSIP", default, skip_serializing_if = "Option::is_none")]
    pub node_dns_ip: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_balancer: Option<LoadBalancer>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dns_records_type: Option<DnsRecordsType>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub machine_networks: Vec<String>,
}

#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
pub struct LoadBalancer {
    #[serde(rename = "type", default)]
    pub kind: LoadBalancerType,
}

#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LoadBalancerType {
    #[default]
    OpenShiftManagedDefault,
    UserManaged,
}

#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
pub enum DnsRecordsType {
    External,
    Internal,
}
