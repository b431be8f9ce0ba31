//! The states of a host, as `status.provisioning.state` spells them.

use std::fmt;

use serde::{Deserialize, Serialize};

#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub enum State {
    #[default]
    #[serde(rename = "")]
    None,
    #[serde(rename = "unmanaged")]
    Unmanaged,
    #[serde(rename = "registering")]
    Registering,
    /// No longer entered; leads straight to preparing.
    #[serde(rename = "match profile")]
    MatchProfile,
    #[serde(rename = "inspecting")]
    Inspecting,
    #[serde(rename = "preparing")]
    Preparing,
    /// `ready` is its older name.
    #[serde(rename = "available", alias = "ready")]
    Available,
    #[serde(rename = "provisioning")]
    Provisioning,
    #[serde(rename = "provisioned")]
    Provisioned,
    #[serde(rename = "externally provisioned")]
    ExternallyProvisioned,
    #[serde(rename = "deprovisioning")]
    Deprovisioning,
    #[serde(rename = "powering off before delete")]
    PoweringOff,
    #[serde(rename = "deleting")]
    Deleting,
}

impl State {
    pub const ALL: [Self; 13] = [
        Self::None,
        Self::Unmanaged,
        Self::Registering,
        Self::MatchProfile,
        Self::Inspecting,
        Self::Preparing,
        Self::Available,
        Self::Provisioning,
        Self::Provisioned,
        Self::ExternallyProvisioned,
        Self::Deprovisioning,
        Self::PoweringOff,
        Self::Deleting,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Unmanaged => "unmanaged",
            Self::Registering => "registering",
            Self::MatchProfile => "match profile",
            Self::Inspecting => "inspecting",
            Self::Preparing => "preparing",
            Self::Available => "available",
            Self::Provisioning => "provisioning",
            Self::Provisioned => "provisioned",
            Self::ExternallyProvisioned => "externally provisioned",
            Self::Deprovisioning => "deprovisioning",
            Self::PoweringOff => "powering off before delete",
            Self::Deleting => "deleting",
        }
    }

    /// Somebody's system runs on the host.
    pub fn is_provisioned(self) -> bool {
        matches!(self, Self::Provisioned | Self::ExternallyProvisioned)
    }

    /// Nothing is known of a BMC, or nothing has been asked of it.
    pub fn is_unmanaged(self) -> bool {
        matches!(self, Self::None | Self::Unmanaged)
    }

    /// Work that boots the ramdisk, of which only so many hosts may do at once.
    pub fn needs_capacity(self) -> bool {
        matches!(
            self,
            Self::Inspecting | Self::Provisioning | Self::Deprovisioning
        )
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
