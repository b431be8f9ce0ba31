//! `BMCEventSubscription`: where a BMC sends its events.

use k8s_openapi::api::core::v1::SecretReference;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "metal3.io",
    version = "v1alpha1",
    kind = "BMCEventSubscription",
    root = "BmcEventSubscription",
    plural = "bmceventsubscriptions",
    shortname = "bes",
    shortname = "bmcevent",
    namespaced,
    status = "BmcEventSubscriptionStatus",
    derive = "PartialEq",
    doc = "A subscription to the events of a host's BMC.",
    printcolumn(
        name = "Error",
        type_ = "string",
        json_path = ".status.error",
        description = "The last error"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp",
        description = "Time since the subscription was made"
    )
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("self == oldSelf", "a subscription cannot be changed; delete it and make another"))]
pub struct BmcEventSubscriptionSpec {
    /// The host, in the same namespace.
    #[schemars(length(min = 1, max = 253))]
    pub host_name: String,
    /// Where events are sent: a URL with a path.
    #[schemars(length(min = 1, max = 4096))]
    #[x_kube(validation = ("self.matches('^https?://[^/]+/.+')", "the destination must be an http or https URL with a path"))]
    pub destination: String,
    /// Sent along with every event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4096))]
    pub context: Option<String>,
    /// Secret with headers for the destination.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http_headers_ref: Option<SecretReference>,
}

#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
pub struct BmcEventSubscriptionStatus {
    #[serde(
        rename = "subscriptionID",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub subscription_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

pub const FINALIZER: &str = "bmceventsubscription.metal3.io";
