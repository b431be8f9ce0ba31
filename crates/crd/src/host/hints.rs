//! Which disk is the root disk.

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

/// All hints that are given must match.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct RootDeviceHints {
    /// A name such as /dev/vda or a link such as /dev/disk/by-path/pci-0000:00:05.0, exactly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4096))]
    #[x_kube(validation = ("self == '' || self.matches('^/dev/([^/]+|disk/by-path/[^/]+)$')",
        "write /dev/NAME or /dev/disk/by-path/NAME"))]
    pub device_name: Option<String>,
    /// A SCSI bus address such as 0:0:0:0, exactly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hctl: Option<String>,
    /// A part of the model's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// A part of the vendor's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vendor: Option<String>,
    /// The serial number, exactly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serial_number: Option<String>,
    /// The least size in GB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub min_size_gigabytes: Option<i64>,
    /// The unique storage identifier, exactly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wwn: Option<String>,
    /// The unique storage identifier with the vendor's extension, exactly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wwn_with_extension: Option<String>,
    /// The vendor's extension of the unique storage identifier, exactly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wwn_vendor_extension: Option<String>,
    /// Whether the disk spins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rotational: Option<bool>,
}
