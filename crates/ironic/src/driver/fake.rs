//! Hardware that exists only in our memory: every interface works, and takes the time it is told to.

use std::time::Duration;

use lifecycle::node::{Interface, Outcome, Power, Runner, StepSpec, Task, Work};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{Drive, Found, Report};
use crate::record::{Hardware, Node, PowerTarget};

/// How long each operation takes, in seconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Delays {
    pub power: f64,
    pub management: f64,
    pub inspect: f64,
    pub clean: f64,
    pub deploy: f64,
    pub undeploy: f64,
    pub rescue: f64,
    pub step: f64,
}

impl Delays {
    /// Those that are not times, by name.
    pub fn problems(&self) -> Vec<&'static str> {
        let all = [
            ("power", self.power),
            ("management", self.management),
            ("inspect", self.inspect),
            ("clean", self.clean),
            ("deploy", self.deploy),
            ("undeploy", self.undeploy),
            ("rescue", self.rescue),
            ("step", self.step),
        ];
        all.into_iter()
            .filter(|(_, seconds)| !(0.0..=86400.0).contains(seconds))
            .map(|(name, _)| name)
            .collect()
    }
}

pub struct Fake {
    delays: Delays,
}

pub const BOOT_DEVICES: &[&str] = &[
    "pxe",
    "disk",
    "cdrom",
    "bios",
    "safe",
    "wanboot",
    "floppy",
    "iscsiboot",
    "uefihttp",
];

const LIGHT: &str = "led@system";

pub fn light(node: &Node) -> String {
    let state = node.hardware.indicators.get(LIGHT);
    state.map_or("OFF", String::as_str).to_owned()
}

pub fn set_light(hardware: &mut Hardware, state: &str) {
    hardware.indicators.insert(LIGHT.into(), state.into());
}

/// A drive of each kind.
pub fn drives(node: &Node) -> Vec<Drive> {
    let drive = |kind: &str| {
        let inside = node
            .hardware
            .media
            .iter()
            .find(|medium| medium.device_type == kind);
        Drive {
            media_types: vec![kind.to_owned()],
            inserted: inside.is_some(),
            image: inside.map(|medium| medium.image_url.clone()),
        }
    };
    ["cdrom", "disk", "floppy"].map(drive).into()
}

/// The steps a client may ask for, by hand.
pub fn steps(node: &Node) -> Vec<StepSpec> {
    // Where a real agent deploys, erasing is its work too.
    let agent = node.interfaces.deploy != "fake";
    [
        (Interface::Bios, "factory_reset"),
        (Interface::Bios, "apply_configuration"),
        (Interface::Raid, "create_configuration"),
        (Interface::Raid, "delete_configuration"),
        (Interface::Firmware, "update"),
        (Interface::Deploy, "erase_devices"),
        (Interface::Deploy, "erase_devices_metadata"),
        (Interface::Vendor, "log_passthrough"),
    ]
    .into_iter()
    .filter(|(interface, _)| !(agent && *interface == Interface::Deploy))
    .map(|(interface, step)| StepSpec {
        abortable: true,
        ..StepSpec::new(interface, step, 0, Runner::Service)
    })
    .collect()
}

impl Fake {
    pub fn new(delays: Delays) -> Self {
        Self { delays }
    }

    pub async fn perform(&self, node: &Node, work: &Work) -> Report {
        match work {
            Work::PowerOff => self.power(node, Power::Off).await,
            Work::PowerOn | Work::PowerCycle | Work::BootAgain { .. } => {
                self.power(node, Power::On).await
            }
            Work::ReadPower => Report::of(Outcome::Power(Some(node.hardware.power))),
            Work::SetBootDevice { device, persistent } => {
                let device = crate::record::BootDevice {
                    boot_device: device.as_str().into(),
                    persistent: *persistent,
                };
                let hardware = self.set(node, |hardware| hardware.boot = device).await;
                Report {
                    hardware: Some(hardware),
                    ..Report::done()
                }
            }
            Work::Simulate(task) => self.simulate(node, *task).await,
            Work::RunStep(step) => self.step(node, step).await,
            Work::FetchSteps(_) => Report::of(Outcome::Steps(steps(node))),
            Work::StartInspection => self.simulate(node, Task::Inspect).await,
            // Nothing to it without hardware; or the conductor does it itself.
            Work::ForgetAgent
            | Work::RecordInventory
            | Work::Unbind
            | Work::Validate(_)
            | Work::RunVerifySteps
            | Work::ReadFacts
            | Work::PrepareBoot { .. }
            | Work::TearDownBoot { .. }
            | Work::CheckStep(_)
            | Work::CollectLogs
            | Work::Advance
            | Work::Move(_) => Report::done(),
            // There is no agent on hardware that is not there.
            Work::CacheImage
            | Work::WriteImage(_)
            | Work::StartStep(_)
            | Work::InstallBootloader
            | Work::StartInstalled
            | Work::StopAgent
            | Work::FinalizeRescue => {
                Report::failed("fake hardware has no agent that could do this", false)
            }
        }
    }

    pub async fn set_power(&self, node: &Node, target: PowerTarget) -> (Power, Hardware) {
        pause(self.delays.power).await;
        (
            target.result(),
            Hardware {
                power: target.result(),
                ..node.hardware.clone()
            },
        )
    }

    pub async fn read_power(&self, node: &Node) -> Power {
        pause(self.delays.power).await;
        node.hardware.power
    }

    /// Changes something about the hardware, in the time management takes.
    pub async fn set(&self, node: &Node, change: impl FnOnce(&mut Hardware)) -> Hardware {
        pause(self.delays.management).await;
        let mut hardware = node.hardware.clone();
        change(&mut hardware);
        hardware
    }

    async fn power(&self, node: &Node, power: Power) -> Report {
        pause(self.delays.power).await;
        Report {
            hardware: Some(Hardware {
                power,
                ..node.hardware.clone()
            }),
            ..Report::done()
        }
    }

    async fn simulate(&self, node: &Node, task: Task) -> Report {
        match task {
            Task::Inspect => {
                pause(self.delays.inspect).await;
                Report {
                    found: Some(found(node)),
                    ..Report::done()
                }
            }
            Task::Clean | Task::CleanManual => {
                pause(self.delays.clean).await;
                let power = if node.disable_power_off {
                    node.hardware.power
                } else {
                    Power::Off
                };
                Report {
                    hardware: Some(Hardware {
                        power,
                        ..node.hardware.clone()
                    }),
                    ..Report::done()
                }
            }
            Task::Deploy => {
                pause(self.delays.deploy).await;
                Report {
                    hardware: Some(Hardware {
                        power: Power::On,
                        ..node.hardware.clone()
                    }),
                    ..Report::done()
                }
            }
            Task::Delete => {
                pause(self.delays.undeploy).await;
                let power = if node.disable_power_off {
                    node.hardware.power
                } else {
                    Power::Off
                };
                Report {
                    hardware: Some(Hardware {
                        power,
                        ..node.hardware.clone()
                    }),
                    ..Report::done()
                }
            }
            Task::Rescue | Task::Unrescue => {
                pause(self.delays.rescue).await;
                Report {
                    hardware: Some(Hardware {
                        power: Power::On,
                        ..node.hardware.clone()
                    }),
                    ..Report::done()
                }
            }
            Task::Rest | Task::Verify | Task::Adopt | Task::Service | Task::Recover => {
                Report::done()
            }
        }
    }

    async fn step(&self, node: &Node, step: &StepSpec) -> Report {
        let known = steps(node);
        if !known
            .iter()
            .any(|offer| offer.interface == step.interface && offer.step == step.step)
        {
            let known: Vec<_> = known.iter().map(ToString::to_string).collect();
            return Report::failed(
                format!("the driver has no step {step}; it has {}", known.join(", ")),
                false,
            );
        }
        pause(self.delays.step).await;
        Report::done()
    }
}

async fn pause(seconds: f64) {
    if seconds > 0.0 {
        tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
    }
}

/// What every fake server is made of. Its serial number is its own.
fn found(node: &Node) -> Found {
    let firmware = json!({"vendor": "Plinth", "version": "1.0", "build_date": "01/01/2026"});
    Found {
        inventory: json!({
            "interfaces": [],
            "cpu": {"model_name": "fake", "frequency": "2000.0", "count": 4, "architecture": "x86_64", "flags": [], "socket_count": 1},
            "disks": [{"name": "/dev/sda", "model": "fake", "size": 107_374_182_400_u64, "rotational": false, "wwn": null,
                       "serial": format!("disk-{}", node.uuid), "vendor": "fake", "hctl": "0:0:0:0"}],
            "memory": {"total": 8_589_934_592_u64, "physical_mb": 8192},
            "bmc_address": null, "bmc_v6address": null, "bmc_mac": null,
            "system_vendor": {"product_name": "fake", "serial_number": node.uuid, "manufacturer": "Plinth", "firmware": firmware},
            "boot": {"current_boot_mode": node.hardware.boot_mode.as_str(), "pxe_interface": null},
            "hostname": null,
        }),
        plugin_data: json!({}),
    }
}
