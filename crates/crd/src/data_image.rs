//! `DataImage`: an ISO put into a running host's virtual drive at its next power-on. It has the host's name.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "metal3.io",
    version = "v1alpha1",
    kind = "DataImage",
    plural = "dataimages",
    namespaced,
    status = "DataImageStatus",
    derive = "PartialEq",
    doc = "A virtual CD for the host with the same name."
)]
pub struct DataImageSpec {
    /// Where the ISO is.
    #[schemars(length(max = 4096))]
    #[x_kube(validation = ("self.matches('^https?://')", "the URL's scheme is neither http nor https"))]
    pub url: String,
}

#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct DataImageStatus {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_reconciled: Option<Time>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attached_image: Option<AttachedImage>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<DataImageError>,
}

#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
pub struct AttachedImage {
    pub url: String,
}

#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
pub struct DataImageError {
    #[serde(default)]
    pub count: i64,
    #[serde(default)]
    pub message: String,
}

pub const FINALIZER: &str = "dataimage.metal3.io";
