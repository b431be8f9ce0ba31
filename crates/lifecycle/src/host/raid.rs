//! RAID of a host: what is wanted, whether it is there, and what Ironic is told.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::hints::RootDeviceHints;
use super::step::StepCall;

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Raid {
    /// None: leave it alone. Empty: delete all.
    #[serde(
        rename = "hardwareRAIDVolumes",
        skip_serializing_if = "Option::is_none"
    )]
    pub hardware: Option<Vec<HardwareVolume>>,
    #[serde(
        rename = "softwareRAIDVolumes",
        skip_serializing_if = "Option::is_none"
    )]
    pub software: Option<Vec<SoftwareVolume>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HardwareVolume {
    pub level: String,
    /// None or 0: all there is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size_gibibytes: Option<u64>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rotational: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub number_of_physical_disks: Option<u32>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub controller: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub physical_disks: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SoftwareVolume {
    pub level: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size_gibibytes: Option<u64>,
    pub root_volume: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub physical_disks: Vec<RootDeviceHints>,
}

/// What is wanted, given what was set up: without a wish, hardware volumes stay and software volumes go.
pub(super) fn wanted(spec: Option<&Raid>, now: Option<&Raid>) -> Option<Raid> {
    let silent = spec.is_none_or(|raid| raid.hardware.is_none() && raid.software.is_none());
    match (silent, now) {
        (false, _) => spec.cloned(),
        (true, None) => None,
        (true, Some(now)) => Some(Raid {
            hardware: now.hardware.clone(),
            software: Some(Vec::new()),
        }),
    }
}

pub(super) fn has_root_volume(raid: &Raid) -> bool {
    raid.software
        .iter()
        .flatten()
        .any(|volume| volume.root_volume)
}

/// Software RAID is wanted, or is to be taken apart.
pub(super) fn is_software(wanted: Option<&Raid>, now: Option<&Raid>) -> bool {
    let any = |raid: Option<&Raid>| {
        raid.and_then(|raid| raid.software.as_ref())
            .is_some_and(|volumes| !volumes.is_empty())
    };
    any(wanted) || (any(now) && wanted.is_some_and(|raid| raid.software.is_some()))
}

/// The steps of a manual cleaning from what is there to what is wanted.
pub(super) fn clean_steps(wanted: Option<&Raid>, now: Option<&Raid>) -> Vec<StepCall> {
    let Some(wanted) = wanted else {
        return Vec::new();
    };
    let hardware_now = now.and_then(|raid| raid.hardware.as_ref());
    let software_now = now.and_then(|raid| raid.software.as_ref());
    let mut steps = Vec::new();
    if let Some(volumes) = &wanted.software {
        // None wanted and none known of: nothing to take apart.
        let none = volumes.is_empty() && software_now.is_none_or(Vec::is_empty);
        if !none && software_now != Some(volumes) {
            steps.push(step("raid", "delete_configuration"));
            steps.push(step("deploy", "erase_devices_metadata"));
            if !volumes.is_empty() {
                steps.push(step("raid", "create_configuration"));
                return steps;
            }
        }
    }
    if let Some(volumes) = &wanted.hardware
        && hardware_now != Some(volumes)
    {
        steps.push(step("raid", "delete_configuration"));
        if !volumes.is_empty() {
            steps.push(step("raid", "create_configuration"));
        }
    }
    steps
}

fn step(interface: &str, step: &str) -> StepCall {
    StepCall {
        interface: interface.into(),
        step: step.into(),
        args: Map::new(),
        priority: None,
    }
}

/// `logical_disks` of `PUT states/raid`. Without hints or a root volume, the first is the root.
pub(super) fn logical_disks(
    raid: Option<&Raid>,
    hinted: bool,
) -> Result<Vec<Map<String, Value>>, String> {
    let Some(raid) = raid else {
        return Ok(Vec::new());
    };
    let software = raid.software.as_deref().unwrap_or_default();
    if !software.is_empty() {
        return software_disks(software, hinted);
    }
    let hardware = raid.hardware.as_deref().unwrap_or_default();
    let mut names = BTreeSet::new();
    let mut disks = Vec::new();
    for volume in hardware {
        if !volume.name.is_empty() && !names.insert(&volume.name) {
            return Err(format!(
                "raid.hardwareRAIDVolumes has two volumes named {:?}",
                volume.name
            ));
        }
        let mut disk = base(&volume.level, volume.size_gibibytes);
        if !volume.name.is_empty() {
            disk.insert("volume_name".into(), volume.name.clone().into());
        }
        if let Some(rotational) = volume.rotational {
            disk.insert(
                "disk_type".into(),
                if rotational { "hdd" } else { "ssd" }.into(),
            );
        }
        if let Some(count) = volume.number_of_physical_disks {
            disk.insert("number_of_physical_disks".into(), count.into());
        }
        if !volume.controller.is_empty() {
            disk.insert("controller".into(), volume.controller.clone().into());
        }
        if !volume.physical_disks.is_empty() {
            disk.insert(
                "physical_disks".into(),
                volume.physical_disks.clone().into(),
            );
        }
        disks.push(disk);
    }
    mark_root(&mut disks, hinted);
    Ok(disks)
}

fn software_disks(
    volumes: &[SoftwareVolume],
    hinted: bool,
) -> Result<Vec<Map<String, Value>>, String> {
    if volumes.first().is_some_and(|volume| volume.level != "1") {
        return Err("raid.softwareRAIDVolumes[0].level must be 1: the system boots from it".into());
    }
    let mut disks = Vec::new();
    for volume in volumes {
        let mut disk = base(&volume.level, volume.size_gibibytes);
        disk.insert("controller".into(), "software".into());
        if volume.root_volume {
            disk.insert("is_root_volume".into(), true.into());
        }
        if !volume.physical_disks.is_empty() {
            let hints = volume
                .physical_disks
                .iter()
                .map(|hints| Value::Object(hints.to_ironic()));
            disk.insert("physical_disks".into(), hints.collect());
        }
        disks.push(disk);
    }
    if !volumes.iter().any(|volume| volume.root_volume) {
        mark_root(&mut disks, hinted);
    }
    Ok(disks)
}

fn mark_root(disks: &mut [Map<String, Value>], hinted: bool) {
    if let Some(first) = disks.first_mut()
        && !hinted
    {
        first.insert("is_root_volume".into(), true.into());
    }
}

fn base(level: &str, size: Option<u64>) -> Map<String, Value> {
    let size = size.filter(|size| *size > 0);
    let mut disk = Map::new();
    disk.insert(
        "size_gb".into(),
        size.map_or_else(|| "MAX".into(), Value::from),
    );
    disk.insert("raid_level".into(), level.into());
    disk
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn raid(json: Value) -> Option<Raid> {
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn only_what_differs_is_made_anew() {
        let names = |wanted: Value, now: Value| -> Vec<String> {
            clean_steps(raid(wanted).as_ref(), raid(now).as_ref())
                .into_iter()
                .map(|step| format!("{}.{}", step.interface, step.step))
                .collect()
        };
        let none: [&str; 0] = [];
        let hard = json!({"hardwareRAIDVolumes": [{"level": "1"}]});
        let soft = json!({"softwareRAIDVolumes": [{"level": "1"}]});
        let made = ["raid.delete_configuration", "raid.create_configuration"];
        assert_eq!(names(Value::Null, Value::Null), none);
        assert_eq!(names(hard.clone(), Value::Null), made);
        assert_eq!(names(hard.clone(), hard.clone()), none);
        assert_eq!(
            names(json!({"hardwareRAIDVolumes": []}), hard),
            ["raid.delete_configuration"]
        );
        let all = [made[0], "deploy.erase_devices_metadata", made[1]];
        assert_eq!(names(soft.clone(), Value::Null), all);
        assert_eq!(names(soft.clone(), soft.clone()), none);
        assert_eq!(
            names(json!({"softwareRAIDVolumes": []}), soft),
            ["raid.delete_configuration", "deploy.erase_devices_metadata"]
        );
    }

    #[test]
    fn without_a_wish_hardware_volumes_stay_and_software_volumes_go() {
        let now = raid(
            json!({"hardwareRAIDVolumes": [{"level": "5"}], "softwareRAIDVolumes": [{"level": "1"}]}),
        );
        let then = wanted(None, now.as_ref()).unwrap();
        assert_eq!(then.hardware, now.as_ref().unwrap().hardware);
        assert_eq!(then.software, Some(vec![]));
        assert_eq!(
            wanted(Some(&Raid::default()), now.as_ref()),
            Some(then.clone())
        );
        assert_eq!(wanted(None, Some(&then)), Some(then), "and that is stable");
        assert_eq!(wanted(None, None), None);
    }

    #[test]
    fn logical_disks_are_said_in_the_words_of_ironic() {
        let hard = raid(json!({"hardwareRAIDVolumes": [
            {"level": "1+0", "sizeGibibytes": 0, "name": "root", "rotational": false, "numberOfPhysicalDisks": 4, "controller": "c0", "physicalDisks": ["a", "b"]},
            {"level": "0", "sizeGibibytes": 100},
        ]}));
        let disks = logical_disks(hard.as_ref(), false).unwrap();
        assert_eq!(
            json!(disks),
            json!([
                {"size_gb": "MAX", "raid_level": "1+0", "volume_name": "root", "disk_type": "ssd", "number_of_physical_disks": 4,
                 "controller": "c0", "physical_disks": ["a", "b"], "is_root_volume": true},
                {"size_gb": 100, "raid_level": "0"},
            ])
        );
        let soft = raid(json!({"softwareRAIDVolumes": [
            {"level": "1", "rootVolume": true, "physicalDisks": [{"serialNumber": "A"}, {"serialNumber": "B"}]},
        ]}));
        assert!(has_root_volume(soft.as_ref().unwrap()));
        assert_eq!(
            json!(logical_disks(soft.as_ref(), false).unwrap()),
            json!([
                {"size_gb": "MAX", "raid_level": "1", "controller": "software", "is_root_volume": true,
                 "physical_disks": [{"serial": "s== A"}, {"serial": "s== B"}]},
            ])
        );
        let twice = raid(
            json!({"hardwareRAIDVolumes": [{"level": "0", "name": "x"}, {"level": "0", "name": "x"}]}),
        );
        assert!(
            logical_disks(twice.as_ref(), true)
                .unwrap_err()
                .contains("two volumes")
        );
        let wrong = raid(json!({"softwareRAIDVolumes": [{"level": "0"}]}));
        assert!(
            logical_disks(wrong.as_ref(), true)
                .unwrap_err()
                .contains("level must be 1")
        );
    }
}
