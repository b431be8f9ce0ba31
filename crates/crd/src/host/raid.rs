//! RAID volumes, by a controller or by the kernel.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::RootDeviceHints;

/// Volumes of one kind only. A list that is not there leaves what is; an empty one removes all.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = ("!(has(self.hardwareRAIDVolumes) && self.hardwareRAIDVolumes.size() > 0 \
        && has(self.softwareRAIDVolumes) && self.softwareRAIDVolumes.size() > 0)",
        "hardware and software RAID exclude each other"),
    validation = ("!has(self.softwareRAIDVolumes) || \
        self.softwareRAIDVolumes.filter(v, has(v.rootVolume) && v.rootVolume).size() <= 1",
        "only one volume can be the root volume"),
)]
pub struct RaidConfig {
    /// Volumes of a RAID controller.
    #[serde(
        rename = "hardwareRAIDVolumes",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(length(max = 64))]
    pub hardware_raid_volumes: Option<Vec<HardwareRaidVolume>>,
    /// Volumes made by the kernel; the first must be of level 1.
    #[serde(
        rename = "softwareRAIDVolumes",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(length(max = 2))]
    #[x_kube(validation = ("self.size() == 0 || self[0].level == '1'", "the first software RAID volume must be of level 1"))]
    pub software_raid_volumes: Option<Vec<SoftwareRaidVolume>>,
}

/// A volume of a RAID controller.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = ("!has(self.physicalDisks) || self.physicalDisks.size() == 0 || (has(self.controller) && self.controller != '')",
        "physicalDisks needs the controller they hang on"),
    validation = ("!has(self.physicalDisks) || self.physicalDisks.size() == 0 || !has(self.numberOfPhysicalDisks) \
        || self.numberOfPhysicalDisks == self.physicalDisks.size()",
        "numberOfPhysicalDisks is not the number of physicalDisks"),
)]
pub struct HardwareRaidVolume {
    /// As large as it can be where absent or 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub size_gibibytes: Option<i64>,
    pub level: HardwareRaidLevel,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub name: Option<String>,
    /// Spinning disks only, or solid ones only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rotational: Option<bool>,
    /// How many disks; the least for the level unless said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub number_of_physical_disks: Option<i64>,
    /// The controller's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub controller: Option<String>,
    /// The disks' names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub physical_disks: Vec<String>,
}

#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HardwareRaidLevel {
    #[serde(rename = "0")]
    Zero,
    #[default]
    #[serde(rename = "1")]
    One,
    #[serde(rename = "2")]
    Two,
    #[serde(rename = "5")]
    Five,
    #[serde(rename = "6")]
    Six,
    #[serde(rename = "1+0")]
    OneZero,
    #[serde(rename = "5+0")]
    FiveZero,
    #[serde(rename = "6+0")]
    SixZero,
}

/// A volume made by the kernel.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("!(has(self.rootVolume) && self.rootVolume) || self.level == '1'", "the root volume must be of level 1"))]
pub struct SoftwareRaidVolume {
    /// As large as it can be where absent or 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub size_gibibytes: Option<i64>,
    pub level: SoftwareRaidLevel,
    /// Which disks; one set of hints per disk.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 2, max = 64))]
    pub physical_disks: Vec<RootDeviceHints>,
    /// Whether the system is written to this volume.
    #[serde(default)]
    pub root_volume: bool,
}

#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SoftwareRaidLevel {
    #[serde(rename = "0")]
    Zero,
    #[default]
    #[serde(rename = "1")]
    One,
    #[serde(rename = "1+0")]
    OneZero,
}
