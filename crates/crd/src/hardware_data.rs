//! `HardwareData`: a server's inventory, kept outside the host. It has the host's name.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::hardware::HardwareDetails;

/// The inventory.
#[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "metal3.io",
    version = "v1alpha1",
    kind = "HardwareData",
    plural = "hardwaredata",
    shortname = "hd",
    namespaced,
    derive = "PartialEq",
    doc = "The inventory of the host with the same name.",
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp",
        description = "Time since the inventory was made"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct HardwareDataSpec {
    /// What inspection found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hardware: Option<HardwareDetails>,
}
