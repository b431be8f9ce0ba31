//! `HostUpdatePolicy`: when a provisioned host's firmware may be changed. It has the host's name.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "metal3.io",
    version = "v1alpha1",
    kind = "HostUpdatePolicy",
    plural = "hostupdatepolicies",
    namespaced,
    status = "HostUpdatePolicyStatus",
    derive = "PartialEq",
    doc = "When the firmware of the host with the same name may be changed while it is provisioned."
)]
#[serde(rename_all = "camelCase")]
pub struct HostUpdatePolicySpec {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub firmware_settings: Option<UpdatePolicy>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub firmware_updates: Option<UpdatePolicy>,
}

#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub enum UpdatePolicy {
    OnPreparing,
    OnReboot,
}

/// Nothing is known of a policy.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
pub struct HostUpdatePolicyStatus {}
