//! Doing what a command says.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use model::inventory::Disk;
use serde_json::{Value, json};
use tokio::runtime::Handle;

use super::command::Outcome;
use super::image::Sources;
use super::machine::{Erase, Failure, Job, Machine, Progress, Thorough};
use super::root_disk::{erasable, root_disk};
use super::step::{self, Purpose, Step};

/// A command this agent knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    GetSteps(Purpose),
    ExecuteStep(Purpose),
    PrepareImage,
    GetPartitionUuids,
    Sync,
    PowerOff,
    RunImage,
    Kexec,
    InstallBootloader,
    CollectLogs,
    FinalizeRescue,
    GetHardwareInfo,
    SetNodeInfo,
}

const NAMES: [(&str, Command); 17] = [
    ("clean.get_clean_steps", Command::GetSteps(Purpose::Clean)),
    (
        "clean.execute_clean_step",
        Command::ExecuteStep(Purpose::Clean),
    ),
    (
        "deploy.get_deploy_steps",
        Command::GetSteps(Purpose::Deploy),
    ),
    (
        "deploy.execute_deploy_step",
        Command::ExecuteStep(Purpose::Deploy),
    ),
    (
        "service.get_service_steps",
        Command::GetSteps(Purpose::Service),
    ),
    (
        "service.execute_service_step",
        Command::ExecuteStep(Purpose::Service),
    ),
    ("standby.prepare_image", Command::PrepareImage),
    ("standby.get_partition_uuids", Command::GetPartitionUuids),
    ("standby.sync", Command::Sync),
    ("standby.power_off", Command::PowerOff),
    ("standby.run_image", Command::RunImage),
    // Our own: Ironic knows no such thing.
    ("standby.kexec", Command::Kexec),
    ("image.install_bootloader", Command::InstallBootloader),
    ("log.collect_system_logs", Command::CollectLogs),
    ("rescue.finalize_rescue", Command::FinalizeRescue),
    ("poll.get_hardware_info", Command::GetHardwareInfo),
    ("poll.set_node_info", Command::SetNodeInfo),
];

/// How the ramdisk's life ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    PowerOff,
    Reboot,
    /// The installed system's kernel takes our place.
    Kexec,
}

impl Command {
    pub fn parse(name: &str) -> Option<Self> {
        let found = NAMES.iter().find(|(known, _)| *known == name);
        found.map(|(_, command)| *command)
    }

    /// Whether the caller gets its answer when the work is done.
    pub fn is_synchronous(self) -> bool {
        match self {
            Self::GetSteps(_)
            | Self::GetPartitionUuids
            | Self::Sync
            | Self::Kexec
            | Self::CollectLogs
            | Self::FinalizeRescue
            | Self::GetHardwareInfo
            | Self::SetNodeInfo => true,
            Self::ExecuteStep(_)
            | Self::PrepareImage
            | Self::PowerOff
            | Self::RunImage
            | Self::InstallBootloader => false,
        }
    }

    /// What happens once it succeeded, if the ramdisk ends with it.
    pub fn end(self) -> Option<End> {
        match self {
            Self::PowerOff => Some(End::PowerOff),
            Self::RunImage => Some(End::Reboot),
            Self::Kexec => Some(End::Kexec),
            Self::GetSteps(_)
            | Self::ExecuteStep(_)
            | Self::PrepareImage
            | Self::GetPartitionUuids
            | Self::Sync
            | Self::InstallBootloader
            | Self::CollectLogs
            | Self::FinalizeRescue
            | Self::GetHardwareInfo
            | Self::SetNodeInfo => None,
        }
    }
}

/// The server and what Ironic told of it so far.
pub struct Work {
    machine: Arc<dyn Machine>,
    sources: Sources,
    known: Mutex<Known>,
    stopped: AtomicBool,
    ignore_bootloader_failure: bool,
}

#[derive(Debug, Default)]
struct Known {
    /// The node as Ironic last sent it.
    node: Value,
    md5: bool,
    /// The disk that carries the image written last.
    written: Option<Disk>,
}

type Show = Arc<dyn Fn(Progress) + Send + Sync>;

impl Work {
    pub fn new(
        machine: Arc<dyn Machine>,
        sources: Sources,
        ignore_bootloader_failure: bool,
    ) -> Self {
        Self {
            machine,
            known: Mutex::new(Known {
                md5: sources.md5,
                ..Known::default()
            }),
            sources,
            stopped: AtomicBool::new(false),
            ignore_bootloader_failure,
        }
    }

    /// Tells whatever still runs that nobody waits for it.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// What a lookup told.
    pub fn learn(&self, node: Value, config: &Value) {
        let mut known = self.known();
        known.node = node;
        known.md5 = config["agent_md5_checksum_enable"]
            .as_bool()
            .unwrap_or(false);
    }

    /// Does all of it; returns when it is done.
    pub async fn run(self: Arc<Self>, command: Command, params: Value, show: Show) -> Outcome {
        if let Value::Object(_) = &params["node"] {
            self.known().node = params["node"].clone();
        }
        let result = match command {
            Command::GetSteps(purpose) => Ok(purpose.steps()),
            Command::ExecuteStep(purpose) => return self.step(purpose, params, show).await,
            Command::PrepareImage => self
                .write_image(&params, show)
                .await
                .map(|text| json!({ "result": format!("prepare_image: {text}") })),
            // Whole-disk images bring their own partitions; nobody has to know them.
            Command::GetPartitionUuids | Command::SetNodeInfo => Ok(json!({})),
            Command::Sync | Command::PowerOff | Command::RunImage => {
                self.blocking(show, |work, _| {
                    work.machine.sync();
                    Ok(Value::Null)
                })
                .await
            }
            Command::InstallBootloader => {
                self.blocking(show, |work, _| work.install_bootloader())
                    .await
            }
            Command::Kexec => {
                self.blocking(show, |work, _| {
                    let loaded = work.machine.load_installed(&work.written()?)?;
                    work.machine.sync();
                    Ok(json!({ "result": loaded }))
                })
                .await
            }
            Command::CollectLogs => {
                self.blocking(show, |work, _| {
                    Ok(json!({ "system_logs": STANDARD.encode(work.machine.logs()) }))
                })
                .await
            }
            Command::GetHardwareInfo => {
                self.blocking(show, |work, _| {
                    let inventory = work.machine.inventory()?;
                    serde_json::to_value(inventory)
                        .map_err(|error| Failure::of("InventoryError", &error))
                })
                .await
            }
            Command::FinalizeRescue => Err(Failure::new(
                "CommandExecutionError",
                "rescue is not supported: this ramdisk has no shell to log in to",
            )),
        };
        match result {
            Ok(value) => Outcome::Succeeded(value),
            Err(failure) => Outcome::Failed(failure),
        }
    }

    async fn step(self: Arc<Self>, purpose: Purpose, params: Value, show: Show) -> Outcome {
        let name = purpose.name();
        let remembered = &params[format!("{name}_version")];
        if !is_blank(remembered) && *remembered != step::version() {
            let details = format!("the steps are of {}, not of {remembered}", step::version());
            return Outcome::VersionMismatch(Failure::new("VersionMismatch", details));
        }
        let asked = params["step"].clone();
        let text = |key: &str| asked[key].as_str().unwrap_or_default().to_owned();
        let (interface, step_name) = (text("interface"), text("step"));
        let Some(step) = Step::find(purpose, &interface, &step_name) else {
            return Outcome::Failed(Failure::invalid(format!(
                "there is no {name} step {interface}.{step_name} in this ramdisk"
            )));
        };
        let args = asked["args"].clone();
        let result = match step {
            Step::WriteImage => self
                .write_image(&args, show)
                .await
                .map(|text| json!({ "result": text })),
            Step::EraseMetadata => self.erase(Erase::Metadata, show).await,
            Step::EraseExpress => self.erase(Erase::Express, show).await,
            Step::EraseWhole => {
                let how = thorough(&self.known().node["driver_internal_info"]);
                self.erase(Erase::Whole(how), show).await
            }
        };
        match result {
            Ok(result) => Outcome::Succeeded(
                json!({ format!("{name}_result"): result, format!("{name}_step"): asked }),
            ),
            Err(failure) => Outcome::Failed(failure),
        }
    }

    async fn write_image(self: Arc<Self>, args: &Value, show: Show) -> Result<String, Failure> {
        let sources = Sources {
            md5: self.known().md5,
            ..self.sources.clone()
        };
        let drive = Some(&args["configdrive"]).filter(|drive| !drive.is_null());
        let image = sources.image(&args["image_info"], drive).await?;
        // Waited for here: a thread that waits would take one from those who write.
        let writers = self.machine.writers();
        let _place = match &writers {
            Some(writers) => writers.acquire().await.ok(),
            None => None,
        };
        self.blocking(show, move |work, job| {
            let inventory = work.machine.inventory()?;
            let node = work.known().node.clone();
            let disk = root_disk(&inventory.disks, &node, |disk| work.machine.in_use(disk))?;
            tracing::info!(disk = disk.name, image = image.name, "writing the image");
            work.known().written = None;
            let text = work.machine.write_image(disk, &image, job)?;
            work.known().written = Some(disk.clone());
            Ok(text)
        })
        .await
    }

    /// The disk with the image.
    fn written(&self) -> Result<Disk, Failure> {
        let (written, node) = {
            let known = self.known();
            (known.written.clone(), known.node.clone())
        };
        if let Some(disk) = written {
            return Ok(disk);
        }
        let disks = self.machine.inventory()?.disks;
        let disk = root_disk(&disks, &node, |disk| self.machine.in_use(disk))?;
        Ok(disk.clone())
    }

    fn install_bootloader(&self) -> Result<Value, Failure> {
        let disk = self.written()?;
        match self.machine.install_bootloader(&disk) {
            Ok(text) => Ok(json!({ "result": text })),
            Err(failure) if self.ignore_bootloader_failure => {
                tracing::warn!(
                    error = failure.details,
                    "boot entry not made; ignored as asked"
                );
                Ok(json!({ "result": format!("ignored: {}", failure.details) }))
            }
            Err(failure) => Err(failure),
        }
    }

    async fn erase(self: Arc<Self>, how: Erase, show: Show) -> Result<Value, Failure> {
        self.blocking(show, move |work, job| {
            let inventory = work.machine.inventory()?;
            let node = work.known().node.clone();
            let (disks, left) =
                erasable(&inventory.disks, &node, |disk| work.machine.in_use(disk))?;
            let at_once = node["driver_internal_info"]["disk_erasure_concurrency"]
                .as_u64()
                .unwrap_or(4)
                .clamp(1, 16) as usize;
            let (done, failed) = erase_all(&*work.machine, &disks, how, job, at_once);
            if failed.is_empty() {
                Ok(json!({ "erased": done, "left_alone": left }))
            } else {
                Err(Failure::new("BlockDeviceEraseError", failed.join("; ")))
            }
        })
        .await
    }

    async fn blocking<T: Send + 'static>(
        self: &Arc<Self>,
        show: Show,
        work: impl FnOnce(&Self, &Job<'_>) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let this = self.clone();
        let runtime = Handle::current();
        let task = tokio::task::spawn_blocking(move || {
            let job = Job {
                runtime: &runtime,
                show: &|progress| show(progress),
                stopped: &this.stopped,
            };
            work(&this, &job)
        });
        task.await.unwrap_or_else(|error| {
            Err(Failure::new(
                "CommandExecutionError",
                format!("this is a bug: {error}"),
            ))
        })
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Several disks at a time; what was done and what failed, in the order of the disks.
fn erase_all(
    machine: &dyn Machine,
    disks: &[&Disk],
    how: Erase,
    job: &Job<'_>,
    at_once: usize,
) -> (Vec<String>, Vec<String>) {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(vec![]);
    std::thread::scope(|scope| {
        for _ in 0..at_once.min(disks.len()) {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(disk) = disks.get(number) else {
                        return;
                    };
                    let result = machine
                        .erase(disk, how, job)
                        .map_err(|failure| failure.details);
                    let mut results = results.lock().unwrap_or_else(PoisonError::into_inner);
                    results.push((number, disk.name.clone(), result));
                }
            });
        }
    });
    let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.sort_by_key(|(number, ..)| *number);
    let (mut done, mut failed) = (vec![], vec![]);
    for (_, name, result) in results {
        match result {
            Ok(text) => done.push(format!("{name}: {text}")),
            Err(text) => failed.push(format!("{name}: {text}")),
        }
    }
    (done, failed)
}

/// Ironic's settings for whole erasing travel with the node.
fn thorough(info: &Value) -> Thorough {
    let default = Thorough::default();
    let flag = |key: &str, default: bool| info[key].as_bool().unwrap_or(default);
    Thorough {
        ata: flag("agent_enable_ata_secure_erase", default.ata),
        nvme: flag("agent_enable_nvme_secure_erase", default.nvme),
        overwrite_after_failure: flag(
            "agent_continue_if_secure_erase_failed",
            default.overwrite_after_failure,
        ),
        passes: info["agent_erase_devices_iterations"]
            .as_u64()
            .unwrap_or(1)
            .min(10) as u32,
        zeros: flag("agent_erase_devices_zeroize", default.zeros),
    }
}

fn is_blank(value: &Value) -> bool {
    value.is_null() || value.as_object().is_some_and(serde_json::Map::is_empty)
}
