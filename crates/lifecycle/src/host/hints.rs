//! Root device hints of a host, and what Ironic is told of them.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// All that are given must fit.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RootDeviceHints {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub device_name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub hctl: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub model: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub vendor: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub serial_number: String,
    #[serde(skip_serializing_if = "is_zero")]
    pub min_size_gigabytes: u64,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub wwn: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub wwn_with_extension: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub wwn_vendor_extension: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rotational: Option<bool>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(size: &u64) -> bool {
    *size == 0
}

impl RootDeviceHints {
    pub fn by_name(name: &str) -> Self {
        Self {
            device_name: name.to_owned(),
            ..Self::default()
        }
    }

    fn by_hctl(hctl: &str) -> Self {
        Self {
            hctl: hctl.to_owned(),
            ..Self::default()
        }
    }

    /// `instance_info.root_device` of a node: operator and value.
    pub fn to_ironic(&self) -> Map<String, Value> {
        let by_path = self.device_name.starts_with("/dev/disk/by-path/");
        let texts = [
            (
                if by_path { "by_path" } else { "name" },
                "s==",
                &self.device_name,
            ),
            ("hctl", "s==", &self.hctl),
            ("model", "<in>", &self.model),
            ("vendor", "<in>", &self.vendor),
            ("serial", "s==", &self.serial_number),
            ("wwn", "s==", &self.wwn),
            ("wwn_with_extension", "s==", &self.wwn_with_extension),
            ("wwn_vendor_extension", "s==", &self.wwn_vendor_extension),
        ];
        let mut hints: Map<String, Value> = texts
            .into_iter()
            .filter(|(_, _, value)| !value.is_empty())
            .map(|(key, operator, value)| (key.to_owned(), format!("{operator} {value}").into()))
            .collect();
        if self.min_size_gigabytes > 0 {
            hints.insert(
                "size".into(),
                format!(">= {}", self.min_size_gigabytes).into(),
            );
        }
        if let Some(rotational) = self.rotational {
            hints.insert("rotational".into(), rotational.to_string().into());
        }
        hints
    }
}

/// The hints a hardware profile stands for. Profiles are the older way to say where the root disk is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "hardwareProfile {0:?} is not known; there are unknown, libvirt, dell, dell-raid, openstack, empty"
)]
pub struct UnknownProfile(pub String);

pub fn profile_hints(profile: &str) -> Result<Option<RootDeviceHints>, UnknownProfile> {
    match profile {
        "unknown" => Ok(Some(RootDeviceHints::by_name("/dev/sda"))),
        "libvirt" => Ok(Some(RootDeviceHints::by_name("/dev/vda"))),
        "dell" => Ok(Some(RootDeviceHints::by_hctl("0:0:0:0"))),
        "dell-raid" => Ok(Some(RootDeviceHints::by_hctl("0:2:0:0"))),
        "openstack" => Ok(Some(RootDeviceHints::by_name("/dev/vdb"))),
        "empty" => Ok(None),
        other => Err(UnknownProfile(other.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn hints_are_said_as_operator_and_value() {
        let all = RootDeviceHints {
            device_name: "/dev/sda".into(),
            hctl: "1:0:0:0".into(),
            model: "WDC".into(),
            vendor: "ATA".into(),
            serial_number: "S1".into(),
            min_size_gigabytes: 40,
            wwn: "w".into(),
            wwn_with_extension: "we".into(),
            wwn_vendor_extension: "wv".into(),
            rotational: Some(false),
        };
        assert_eq!(
            Value::Object(all.to_ironic()),
            json!({
                "name": "s== /dev/sda", "hctl": "s== 1:0:0:0", "model": "<in> WDC", "vendor": "<in> ATA",
                "serial": "s== S1", "size": ">= 40", "wwn": "s== w", "wwn_with_extension": "s== we",
                "wwn_vendor_extension": "s== wv", "rotational": "false",
            })
        );
        let by_path = RootDeviceHints::by_name("/dev/disk/by-path/pci-0");
        assert_eq!(
            Value::Object(by_path.to_ironic()),
            json!({"by_path": "s== /dev/disk/by-path/pci-0"})
        );
        assert_eq!(
            Value::Object(RootDeviceHints::default().to_ironic()),
            json!({})
        );
    }

    #[test]
    fn what_is_sent_is_what_the_agent_understands() {
        let hints = RootDeviceHints {
            min_size_gigabytes: 10,
            serial_number: "S1".into(),
            ..RootDeviceHints::by_name("/dev/sda")
        };
        let read = serde_json::from_value::<model::root_device::Hints>(hints.to_ironic().into());
        assert!(read.is_ok(), "{read:?}");
    }

    #[test]
    fn every_profile_is_known_and_others_are_named() {
        for (profile, wanted) in [
            ("unknown", json!({"deviceName": "/dev/sda"})),
            ("libvirt", json!({"deviceName": "/dev/vda"})),
            ("dell", json!({"hctl": "0:0:0:0"})),
            ("dell-raid", json!({"hctl": "0:2:0:0"})),
            ("openstack", json!({"deviceName": "/dev/vdb"})),
            ("empty", Value::Null),
        ] {
            assert_eq!(json!(profile_hints(profile).unwrap()), wanted, "{profile}");
        }
        assert_eq!(
            profile_hints("big").unwrap_err().to_string(),
            "hardwareProfile \"big\" is not known; there are unknown, libvirt, dell, dell-raid, openstack, empty"
        );
    }
}
