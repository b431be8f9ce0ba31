//! `PreprovisioningImage`: the ramdisk a host boots, as asked of whoever builds it. It has the host's name.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "metal3.io",
    version = "v1alpha1",
    kind = "PreprovisioningImage",
    plural = "preprovisioningimages",
    shortname = "ppimg",
    namespaced,
    status = "PreprovisioningImageStatus",
    derive = "PartialEq",
    doc = "The ramdisk that the host with the same name boots.",
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Ready')].status",
        description = "Whether the image can be used"
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Ready')].reason",
        description = "Why it can or cannot"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct PreprovisioningImageSpec {
    /// Secret with the network configuration to be built in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_data_name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub architecture: Option<String>,
    /// The formats that the host can boot.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub accept_formats: Vec<ImageFormat>,
}

#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum ImageFormat {
    Iso,
    Initrd,
}

#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct PreprovisioningImageStatus {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_url: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel_url: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extra_kernel_params: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<ImageFormat>,
    /// The Secret that was built in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_data: Option<SecretStatus>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub architecture: Option<String>,
    /// Ready and Error.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
}

#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
pub struct SecretStatus {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}
