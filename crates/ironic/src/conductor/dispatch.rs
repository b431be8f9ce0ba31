//! Whose work it is: the driver's, the agent's, or that of the record alone.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use lifecycle::node::{BootBy, BootInto, DeployBy, Kind, Outcome, Power, Runner, StepSpec, Work};
use serde_json::Value;
use tokio::time::Instant;
use tracing::info;
use uuid::Uuid;

use super::Conductor;
use super::effects::config_drive_key;
use crate::api::{MASK, new_token};
use crate::deploy::agent::{Did, Kexec, Note};
use crate::driver::{Driver, Found, HTTP_BOOT_URL, Report};
use crate::record::{BootOrder, Hardware, Medium, Node, Port};
use crate::store;

/// What came of a piece of work, and all that was learnt by it.
pub struct Performed {
    pub outcome: Outcome,
    pub hardware: Option<Hardware>,
    pub found: Option<Found>,
    pub note: Option<Note>,
}

impl Performed {
    fn of(outcome: Outcome) -> Self {
        Self {
            outcome,
            hardware: None,
            found: None,
            note: None,
        }
    }

    pub(super) fn failed(trouble: impl Into<String>, again: bool) -> Self {
        Self::of(Outcome::Failed {
            trouble: trouble.into(),
            again,
        })
    }

    /// This and what came before it: the failure of either, and what both have learnt.
    fn after(self, before: Self) -> Self {
        Self {
            hardware: self.hardware.or(before.hardware),
            found: self.found.or(before.found),
            note: self.note.or(before.note),
            outcome: self.outcome,
        }
    }

    fn is_failed(&self) -> bool {
        matches!(self.outcome, Outcome::Failed { .. })
    }
}

impl From<Report> for Performed {
    fn from(report: Report) -> Self {
        Self {
            outcome: report.outcome,
            hardware: report.hardware,
            found: report.found,
            note: None,
        }
    }
}

impl From<Did> for Performed {
    fn from(did: Did) -> Self {
        Self {
            note: did.note,
            ..Self::of(did.outcome)
        }
    }
}

impl From<store::Error> for Performed {
    fn from(error: store::Error) -> Self {
        Self::failed(model::chain(&error), true)
    }
}

impl Conductor {
    /// Does a piece of work, whoever it belongs to.
    pub(super) async fn perform(&self, node: &Node, work: &Work) -> Performed {
        let Some(driver) = self.driver(&node.driver) else {
            return Performed::failed(format!("no driver is called {:?}", node.driver), false);
        };
        match work {
            Work::ForgetAgent
            | Work::Unbind
            | Work::RecordInventory
            | Work::Move(_)
            | Work::Advance
            | Work::PrepareBoot {
                by: BootBy::Fake, ..
            }
            | Work::TearDownBoot { by: BootBy::Fake } => Performed::of(Outcome::Done),
            Work::Validate(task) => {
                let problems = self.deploy.problems(node, *task);
                if !problems.is_empty() {
                    return Performed::failed(problems.join("; "), false);
                }
                driver.perform(node, work).await.into()
            }
            Work::PrepareBoot { into, by } => self.prepare_boot(driver, node, *into, *by).await,
            Work::TearDownBoot { by } => tear_down_boot(driver, node, *by).await,
            Work::BootAgain { .. } => self.boot_again(driver, node, work).await,
            Work::FetchSteps(kind) => {
                let own = match driver.perform(node, work).await.outcome {
                    Outcome::Steps(steps) => steps,
                    other @ (Outcome::Done
                    | Outcome::Power(_)
                    | Outcome::Pending
                    | Outcome::Outdated
                    | Outcome::Failed { .. }) => return Performed::of(other),
                };
                let ports = self.ports(node);
                self.deploy
                    .fetch_steps(node, &ports, *kind, own)
                    .await
                    .into()
            }
            Work::CacheImage => match self.config_drive(node) {
                Ok(drive) => {
                    let in_use = self.images_in_use(node.uuid);
                    self.deploy.prepare_image(node, drive, in_use).await.into()
                }
                Err(error) => error.into(),
            },
            Work::WriteImage(step) | Work::StartStep(step) => self.start_step(node, step).await,
            Work::CheckStep(step) if step.by == Runner::Agent => {
                let ports = self.ports(node);
                self.deploy.check_step(node, &ports, step).await.into()
            }
            Work::InstallBootloader => self.deploy.install_bootloader(node).await.into(),
            Work::StopAgent => self.stop_agent(driver, node).await,
            Work::StartInstalled => self.start_installed(driver, node).await,
            Work::FinalizeRescue => self.deploy.finalize_rescue(node).await.into(),
            Work::CollectLogs => self.deploy.collect_logs(node).await.into(),
            Work::ReadPower
            | Work::RunVerifySteps
            | Work::ReadFacts
            | Work::PowerOff
            | Work::PowerOn
            | Work::PowerCycle
            | Work::SetBootDevice { .. }
            | Work::RunStep(_)
            | Work::CheckStep(_)
            | Work::StartInspection
            | Work::Simulate(_) => driver.perform(node, work).await.into(),
        }
    }

    async fn start_step(&self, node: &Node, step: &StepSpec) -> Performed {
        let deploys = node.life.operation.task == lifecycle::node::Task::Deploy;
        let drive = match self.config_drive(node) {
            Ok(drive) => drive.filter(|_| deploys),
            Err(error) => return error.into(),
        };
        let ports = self.ports(node);
        self.deploy
            .start_step(node, &ports, step, drive)
            .await
            .into()
    }

    /// What the host is to boot is kept first: it may ask for it as soon as the BMC knows where it is.
    async fn prepare_boot(
        &self,
        driver: &Driver,
        node: &Node,
        into: BootInto,
        by: BootBy,
    ) -> Performed {
        let by_media = matches!(by, BootBy::VirtualMedia | BootBy::UefiHttp);
        let kept = self.store.change(|tables| {
            let Some(node) = tables.nodes.get(node.uuid) else {
                return Ok((Vec::new(), None));
            };
            let mut node = Node::clone(node);
            node.boot_order = Some(BootOrder {
                into,
                by,
                key: Uuid::new_v4(),
            });
            node.forget_token();
            if by_media && into != BootInto::BootIso {
                let info = &mut node.driver_internal_info;
                info.insert("agent_secret_token".into(), new_token().into());
                info.insert("agent_secret_token_pregenerated".into(), true.into());
            }
            if by == BootBy::UefiHttp {
                let url = self.media_url(&node);
                let info = &mut node.driver_internal_info;
                info.remove(HTTP_BOOT_URL);
                info.extend(url.map(|url| (HTTP_BOOT_URL.into(), url.into())));
            }
            Ok::<_, store::Error>((vec![node.clone().into()], Some(node)))
        });
        let node = match kept.await {
            Ok(Some(node)) => node,
            Ok(None) => return Performed::of(Outcome::Done),
            Err(error) => return error.into(),
        };
        if !by_media {
            return Performed::of(Outcome::Done);
        }
        let Some(url) = self.media_url(&node) else {
            let trouble = "this service serves no boot media: the boot section of its configuration is missing";
            return Performed::failed(trouble, false);
        };
        if by == BootBy::UefiHttp {
            return Performed::of(Outcome::Done);
        }
        let medium = Medium {
            device_type: "cdrom".into(),
            image_url: url,
        };
        seen(driver.insert(&node, medium).await)
    }

    /// The boot device was meant for one boot, and may be used up.
    async fn boot_again(&self, driver: &Driver, node: &Node, work: &Work) -> Performed {
        info!(node = %node.uuid, work = work.describe(), "the agent was not heard");
        let device = node.life.operation.drivers.boot.device();
        let set = Work::SetBootDevice {
            device,
            persistent: false,
        };
        let set: Performed = driver.perform(node, &set).await.into();
        if set.is_failed() {
            return set;
        }
        let mut node = node.clone();
        if let Some(hardware) = &set.hardware {
            node.hardware = hardware.clone();
        }
        Performed::from(driver.perform(&node, work).await).after(set)
    }

    /// Has the host power itself off, and sees to it that it is.
    async fn stop_agent(&self, driver: &Driver, node: &Node) -> Performed {
        // It may be off already, if this is the second time.
        if is_off(driver, node).await {
            return Performed::of(Outcome::Done);
        }
        if let Err(did) = self.deploy.flush(node).await {
            return did.into();
        }
        let telling = self.deploy.power_off(node);
        tokio::pin!(telling);
        let mut told = false;
        let patience = self.deploy.settings.power_off_wait();
        let mut deadline = Instant::now() + patience.max(TELLING);
        while Instant::now() < deadline {
            // A host that obeys may take its answer with it, and whoever waits for that waits long. Its BMC knows.
            tokio::select! {
                answer = &mut telling, if !told => match answer {
                    Ok(()) => (told, deadline) = (true, Instant::now() + patience),
                    Err(did) => return did.into(),
                },
                () = tokio::time::sleep(self.deploy.settings.poll()) => {
                    if is_off(driver, node).await {
                        return Performed::of(Outcome::Done);
                    }
                }
            }
        }
        info!(node = %node.uuid, "the host does not power itself off; it is forced to");
        driver.perform(node, &Work::PowerOff).await.into()
    }

    /// The boot device is set already: whatever becomes of this, the next boot is the disk's.
    async fn start_installed(&self, driver: &Driver, node: &Node) -> Performed {
        let on = match self.deploy.kexec(node).await {
            Kexec::Started => return Performed::of(Outcome::Done),
            Kexec::Silent => {
                info!(node = %node.uuid, "the agent is silent; the firmware starts the installed system");
                Work::PowerCycle
            }
            Kexec::Refused(why) => {
                info!(node = %node.uuid, why, "the firmware starts the installed system");
                if node.disable_power_off {
                    Work::PowerCycle
                } else {
                    let stopped = self.stop_agent(driver, node).await;
                    if stopped.outcome != Outcome::Done {
                        return stopped;
                    }
                    Work::PowerOn
                }
            }
        };
        driver.perform(node, &on).await.into()
    }

    fn ports(&self, node: &Node) -> Vec<Arc<Port>> {
        self.store.read().ports.of(node.uuid).cloned().collect()
    }

    /// The config drive as the client sent it.
    fn config_drive(&self, node: &Node) -> Result<Option<Value>, store::Error> {
        match node.instance_info.get("configdrive") {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) if text == MASK => {
                let document = self.store.document(&config_drive_key(node.uuid))?;
                Ok(document.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
            }
            Some(drive) => Ok(Some(drive.clone())),
        }
    }

    /// The names of images that nodes in deployment fetch from us.
    fn images_in_use(&self, but: Uuid) -> BTreeSet<String> {
        let tables = self.store.read();
        let deploying = tables.nodes.all().filter(|node| {
            node.uuid != but
                && node.life.operation.drivers.deploy == DeployBy::Direct
                && matches!(
                    node.life.state.kind(),
                    Kind::Working | Kind::Waiting | Kind::Held
                )
        });
        deploying
            .filter_map(|node| {
                node.instance_info
                    .get("image_url")?
                    .as_str()?
                    .rsplit('/')
                    .next()
            })
            .map(ToOwned::to_owned)
            .collect()
    }
}

/// A busy agent gets this long to be told, at least.
const TELLING: Duration = Duration::from_secs(5);

async fn is_off(driver: &Driver, node: &Node) -> bool {
    let power = driver.read_power(node).await;
    power.is_ok_and(|power| power == Some(Power::Off))
}

async fn tear_down_boot(driver: &Driver, node: &Node, by: BootBy) -> Performed {
    let mut done = Performed::of(Outcome::Done);
    if by == BootBy::VirtualMedia {
        done = seen(driver.eject(node, &["cdrom".to_owned()]).await);
        if done.is_failed() {
            return done;
        }
    }
    done.note = Some(Box::new(|node| {
        node.boot_order = None;
        node.forget_token();
        node.driver_internal_info.remove(HTTP_BOOT_URL);
    }));
    done
}

fn seen<E: std::error::Error>(result: Result<Hardware, E>) -> Performed {
    match result {
        Ok(hardware) => Performed {
            hardware: Some(hardware),
            ..Performed::of(Outcome::Done)
        },
        Err(error) => Performed::failed(model::chain(&error), true),
    }
}
