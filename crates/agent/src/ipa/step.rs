//! The steps this agent offers for cleaning, deploying and servicing.

use serde_json::{Value, json};

/// What a list of steps is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    Clean,
    Deploy,
    Service,
}

/// What a step does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    WriteImage,
    EraseMetadata,
    EraseWhole,
    EraseExpress,
}

/// The name of our steps' owner, and their version: new when a step changes its name or its arguments.
pub const MANAGER: (&str, &str) = ("plinth_agent", "1");

/// Purpose, step, and its priority: 0 means only when asked for.
///
/// DEVIATION: the original erases whole disks by default (priority 10, metadata 99). That takes hours and is what
/// metal3 switches off first; here it is asked for.
const TABLE: [(Purpose, Step, u32); 8] = [
    (Purpose::Clean, Step::EraseMetadata, 10),
    (Purpose::Clean, Step::EraseWhole, 0),
    (Purpose::Clean, Step::EraseExpress, 0),
    (Purpose::Deploy, Step::WriteImage, 0),
    (Purpose::Deploy, Step::EraseMetadata, 0),
    (Purpose::Service, Step::EraseMetadata, 0),
    (Purpose::Service, Step::EraseWhole, 0),
    (Purpose::Service, Step::EraseExpress, 0),
];

impl Step {
    fn name(self) -> &'static str {
        match self {
            Self::WriteImage => "write_image",
            Self::EraseMetadata => "erase_devices_metadata",
            Self::EraseWhole => "erase_devices",
            Self::EraseExpress => "erase_devices_express",
        }
    }

    /// The step a command names, if it belongs to this purpose.
    ///
    /// DEVIATION: service steps of ours destroy data and have no place in a running host's life unless named one by
    /// one, which is what a command does.
    pub fn find(purpose: Purpose, interface: &str, name: &str) -> Option<Self> {
        let all = TABLE.iter().filter(|(of, ..)| *of == purpose);
        let mut found = all.filter(|(_, step, _)| interface == "deploy" && step.name() == name);
        found.next().map(|(_, step, _)| *step)
    }

    fn arguments(self) -> Value {
        match self {
            Self::WriteImage => json!({
                "image_info": {"description": "What to write: urls, disk_format, checksum.", "required": true},
                "configdrive": {"description": "The host's first configuration.", "required": false},
            }),
            Self::EraseMetadata | Self::EraseWhole | Self::EraseExpress => Value::Null,
        }
    }
}

impl Purpose {
    pub fn name(self) -> &'static str {
        match self {
            Self::Clean => "clean",
            Self::Deploy => "deploy",
            Self::Service => "service",
        }
    }

    /// The answer to `get_…_steps`.
    pub fn steps(self) -> Value {
        let steps: Vec<_> = TABLE
            .iter()
            .filter(|(purpose, ..)| *purpose == self)
            .map(|(_, step, priority)| {
                json!({
                    "step": step.name(),
                    "priority": priority,
                    "interface": "deploy",
                    "reboot_requested": false,
                    "abortable": *step != Step::WriteImage,
                    "argsinfo": step.arguments(),
                    "requires_ramdisk": true,
                })
            })
            .collect();
        let (manager, _) = MANAGER;
        json!({ format!("{}_steps", self.name()): {manager: steps}, "hardware_manager_version": version() })
    }
}

pub fn version() -> Value {
    let (manager, version) = MANAGER;
    json!({ manager: version })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_that_is_offered_is_found_by_its_name() {
        for purpose in [Purpose::Clean, Purpose::Deploy, Purpose::Service] {
            let offered = purpose.steps();
            let list = offered[format!("{}_steps", purpose.name())][MANAGER.0].clone();
            for step in list.as_array().unwrap() {
                let name = step["step"].as_str().unwrap();
                assert!(Step::find(purpose, "deploy", name).is_some(), "{name}");
            }
        }
        assert_eq!(Step::find(Purpose::Clean, "deploy", "write_image"), None);
        assert_eq!(Step::find(Purpose::Deploy, "raid", "write_image"), None);
    }
}
