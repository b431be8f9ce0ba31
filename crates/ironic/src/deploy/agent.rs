//! The work that the agent on the host does for us.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clients::agent::{Client, Command, Config, Error, Limits, Status, newer};
use lifecycle::node::{DeployBy, Outcome, StepKind, StepSpec, Task};
use model::Secret;
use serde_json::{Value, json};

use super::checksum::Checksum;
use super::image::{Check, Image, Kind, Ready, image_info};
use super::steps::{Offer, Words};
use super::store::Images;
use super::{Settings, config_drive, logs, probe};
use crate::record::{Node, Object, Port};

/// Everything deployments need besides the node.
pub struct Deploy {
    pub settings: Settings,
    images: Arc<Images>,
    http: reqwest::Client,
    logs: PathBuf,
}

/// What came of a piece of work, and what is to be written down with it.
pub struct Did {
    pub outcome: Outcome,
    pub note: Option<Note>,
}

/// A change of the node's record.
pub type Note = Box<dyn FnOnce(&mut Node) + Send>;

/// What became of the agent when it was to give way to the installed system.
#[derive(Debug, PartialEq, Eq)]
pub enum Kexec {
    Started,
    /// It cannot, and is still there.
    Refused(String),
    /// It is dead, or gone without an answer.
    Silent,
}

impl Did {
    fn of(outcome: Outcome) -> Self {
        Self {
            outcome,
            note: None,
        }
    }

    fn done() -> Self {
        Self::of(Outcome::Done)
    }

    fn failed(trouble: impl Into<String>, again: bool) -> Self {
        Self::of(Outcome::Failed {
            trouble: trouble.into(),
            again,
        })
    }

    fn and(self, note: impl FnOnce(&mut Node) + Send + 'static) -> Self {
        Self {
            note: Some(Box::new(note)),
            ..self
        }
    }
}

impl From<Error> for Did {
    fn from(error: Error) -> Self {
        Self::failed(model::chain(&error), error.passing())
    }
}

/// Where a step's start is noted before it is started.
const MARK: &str = "agent_step";
/// Where the progress of a step is shown.
pub const PROGRESS: &str = "progress";

impl Deploy {
    /// `state` is the directory of the state file.
    pub fn new(settings: Settings, state: &Path) -> Self {
        // It fails if there is one already, which is as good.
        _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let http = reqwest::Client::builder()
            .connect_timeout(Duration::from_secs(30))
            .build()
            .unwrap_or_default();
        let dir = settings
            .images
            .clone()
            .unwrap_or_else(|| state.join("images"));
        let images = Images::new(
            dir,
            settings.images_url.clone(),
            settings.images_max_gib << 30,
            settings.image_directories.clone(),
            settings.public_images.clone(),
            http.clone(),
        );
        images.sweep();
        Self {
            settings,
            images: Arc::new(images),
            http,
            logs: state.join("logs"),
        }
    }

    /// What a node lacks for a task, as far as it is ours to say.
    pub fn problems(&self, node: &Node, task: Task) -> Vec<String> {
        let direct = node.life.operation.drivers.deploy == DeployBy::Direct;
        let mut problems = Vec::new();
        if task == Task::Deploy && direct {
            problems.extend(Image::of(node, &self.settings).err().unwrap_or_default());
        }
        if task == Task::Deploy {
            for (field, info) in [
                ("properties", &node.properties),
                ("instance_info", &node.instance_info),
            ] {
                let Some(Value::Object(hints)) = info.get("root_device") else {
                    continue;
                };
                let hints = hints.clone().into_iter().collect();
                if let Err(wrong) = model::root_device::Hints::parse(&hints) {
                    problems.extend(
                        wrong
                            .0
                            .iter()
                            .map(|problem| format!("{field}.root_device: {problem}")),
                    );
                }
            }
        }
        problems
    }

    /// The image's checksum in a list that is a file of ours or elsewhere.
    async fn listed(&self, image: &Image, list: &str) -> Result<Checksum, String> {
        let about = |problem: String| format!("the checksum file {list}: {problem}");
        match self.images.text(list, probe::MOST_OF_A_LIST).await {
            Some(Ok(text)) => Checksum::in_file(&text, image.name()).map_err(about),
            Some(Err(error)) => Err(about(model::chain(&error))),
            None => probe::listed(image, list, &self.http).await,
        }
    }

    /// Has the image and the config drive ready, and everything about them that can be wrong found out.
    pub async fn prepare_image(
        &self,
        node: &Node,
        drive: Option<Value>,
        in_use: BTreeSet<String>,
    ) -> Did {
        if let Some(drive) = drive
            && let Err(error) = self.pack(node, drive).await
        {
            return Did::failed(model::chain(&error), false);
        }
        let image = match Image::of(node, &self.settings) {
            Ok(image) => image,
            Err(problems) => return Did::failed(problems.join("; "), false),
        };
        let wanted = match &image.check {
            Check::Known(checksum) => Some(checksum.clone()),
            Check::Listed(list) => match self.listed(&image, list).await {
                Ok(checksum) => Some(checksum),
                Err(problem) => return Did::failed(problem, true),
            },
            Check::Unknown => None,
        };
        let ready = match (image.kind, wanted) {
            (Kind::Remote, Some(checksum)) => {
                if let Err(problem) = probe::remote(&image, &self.http).await {
                    return Did::failed(problem, false);
                }
                Ready {
                    url: image.source,
                    checksum,
                }
            }
            (Kind::Remote, None) => return Did::failed("the image has no checksum", false),
            (Kind::Served, wanted) => {
                let there = self.images.in_place(&image).await;
                if let (Some(there), Some(checksum)) = (there, &wanted) {
                    let url = match there {
                        Ok(url) => url,
                        Err(error) => return Did::failed(model::chain(&error), false),
                    };
                    let checksum = checksum.clone();
                    return Did::done().and(move |node| Ready { url, checksum }.keep(node));
                }
                let fetched = self.images.fetch(&image, wanted.as_ref(), in_use).await;
                let address = fetched.as_ref().map(|stored| self.images.address(stored));
                match (&fetched, address) {
                    (Ok(stored), Ok(Ok(url))) => Ready {
                        url,
                        checksum: Checksum {
                            algorithm: super::checksum::Algorithm::Sha256,
                            hex: stored.sha256.clone(),
                        },
                    },
                    (_, Ok(Err(error))) => return Did::failed(model::chain(&error), false),
                    (Err(error), _) => return Did::failed(model::chain(&**error), false),
                    (Ok(_), Err(_)) => unreachable!("both come from the same result"),
                }
            }
        };
        Did::done().and(move |node| ready.keep(node))
    }

    /// Asks the agent which steps it has.
    pub async fn fetch_steps(
        &self,
        node: &Node,
        ports: &[Arc<Port>],
        kind: StepKind,
        drivers: Vec<StepSpec>,
    ) -> Did {
        let client = match client(node) {
            Ok(client) => client,
            Err(did) => return did,
        };
        let words = Words::of(kind);
        let offer = match self.offer(&client, node, ports, kind).await {
            Ok(offer) => offer,
            Err(error) => return error.into(),
        };
        let problems = offer.problems(&node.life.operation.asked);
        if !problems.is_empty() {
            return Did::failed(problems.join("; "), false);
        }
        let steps = offer.joined(drivers, kind, &self.settings, node);
        Did::of(Outcome::Steps(steps)).and(move |node| offer.cache(&words, node))
    }

    async fn offer(
        &self,
        client: &Client,
        node: &Node,
        ports: &[Arc<Port>],
        kind: StepKind,
    ) -> Result<Offer, Error> {
        let words = Words::of(kind);
        let params = json!({"node": told(node, None), "ports": told_ports(ports)});
        let answer = client.run(&words.fetch, &params).await?;
        Ok(Offer::read(&words, &answer, node))
    }

    /// The newest command the agent knows before a step is started, to be kept before the step is started.
    pub async fn mark(&self, node: &Node) -> Result<Option<Value>, Did> {
        if mark(node).is_some() {
            return Ok(None);
        }
        let commands = client(node)?.commands().await.map_err(Did::from)?;
        let after = commands.last().map(|command| command.id.clone());
        Ok(Some(json!({"stage": stage(node), "after": after})))
    }

    /// Gives the agent a step, unless it has it already.
    pub async fn start_step(
        &self,
        node: &Node,
        ports: &[Arc<Port>],
        step: &StepSpec,
        drive: Option<Value>,
    ) -> Did {
        let client = match client(node) {
            Ok(client) => client,
            Err(did) => return did,
        };
        let kind = kind(node);
        let words = Words::of(kind);
        let mut args = step.args.clone();
        let mut shown = drive.clone();
        if step.step == "write_image" {
            match image_info(node) {
                Ok(info) => args.insert("image_info".into(), info),
                Err(problem) => return Did::failed(problem, false),
            };
            if let Some(drive) = drive {
                match self.pack(node, drive).await {
                    Ok(packed) => args.insert("configdrive".into(), packed.into()),
                    Err(error) => return Did::failed(model::chain(&error), false),
                };
            }
            shown = None;
        }
        let mut given = serde_json::to_value(step).unwrap_or_default();
        given["args"] = args.into();
        let version = node.driver_internal_info.get("hardware_manager_version");
        let mut params =
            json!({"step": given, "node": told(node, shown), "ports": told_ports(ports)});
        params[&words.version] = version.cloned().unwrap_or_else(|| json!({}));
        let after = mark(node).flatten();
        match client.start(&words.execute, &params, after).await {
            Ok(_) => Did::done(),
            Err(error) => error.into(),
        }
    }

    /// What became of a step that was started.
    pub async fn check_step(&self, node: &Node, ports: &[Arc<Port>], step: &StepSpec) -> Did {
        let client = match client(node) {
            Ok(client) => client,
            Err(did) => return did,
        };
        let kind = kind(node);
        let commands = match client.commands().await {
            Ok(commands) => commands,
            // It is asked again at its next call, and at the next look.
            Err(error) if error.passing() => return Did::of(Outcome::Pending),
            Err(error) => return error.into(),
        };
        let outcome = match verdict(node, step, &commands) {
            Verdict::Running => return Did::of(Outcome::Pending),
            Verdict::Done => Outcome::Done,
            Verdict::Failed(trouble) => Outcome::Failed {
                trouble: format!("{trouble}{}", how_far(node)),
                again: false,
            },
            Verdict::Outdated => Outcome::Outdated,
        };
        let mut fresh = None;
        if outcome == Outcome::Outdated {
            match self.offer(&client, node, ports, kind).await {
                Ok(offer) => fresh = Some(offer),
                Err(error) => return error.into(),
            }
        }
        Did::of(outcome).and(move |node| {
            node.driver_internal_info.remove(MARK);
            node.driver_internal_info.remove(PROGRESS);
            if let Some(offer) = fresh {
                offer.cache(&Words::of(kind), node);
            }
        })
    }

    /// Has the agent make the disk bootable, where that takes more than having written it.
    pub async fn install_bootloader(&self, node: &Node) -> Did {
        let direct = node.life.operation.drivers.deploy == DeployBy::Direct;
        let mode = boot_mode(node);
        if !direct || mode != "uefi" {
            return Did::done();
        }
        let client = match client(node) {
            Ok(client) => client,
            Err(did) => return did,
        };
        let params = json!({"root_uuid": null, "efi_system_part_uuid": null,
                            "prep_boot_part_uuid": null, "target_boot_mode": mode});
        let name = "image.install_bootloader";
        match client.see_through(name, &params, BOOTLOADER_TIME).await {
            Ok(_) => Did::done(),
            Err(error) => error.into(),
        }
    }

    /// Returns when all that was written will survive a power cut.
    pub async fn flush(&self, node: &Node) -> Result<(), Did> {
        client(node)?.run("standby.sync", &json!({})).await?;
        Ok(())
    }

    /// Tells the agent to power the host off. The answer may come late, or never: the host goes with it.
    pub async fn power_off(&self, node: &Node) -> Result<(), Did> {
        let client = client(node)?;
        let commands = client.commands().await?;
        let after = commands.last().map(|command| command.id.as_str());
        match client.start("standby.power_off", &json!({}), after).await {
            Ok(_) | Err(Error::Unreachable { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Has the agent start the installed system in its own place.
    pub async fn kexec(&self, node: &Node) -> Kexec {
        let Ok(client) = client(node) else {
            return Kexec::Silent;
        };
        match client.run("standby.kexec", &json!({})).await {
            Ok(_) => Kexec::Started,
            Err(Error::Unreachable { .. }) => Kexec::Silent,
            Err(error) => Kexec::Refused(model::chain(&error)),
        }
    }

    pub async fn finalize_rescue(&self, node: &Node) -> Did {
        let client = match client(node) {
            Ok(client) => client,
            Err(did) => return did,
        };
        let password = node.instance_info.get("rescue_password").cloned();
        let params = json!({"rescue_password": password, "hashed": false});
        match client.run("rescue.finalize_rescue", &params).await {
            Ok(_) => Did::done(),
            Err(error) => error.into(),
        }
    }

    /// Fetches the agent's logs, if there is an agent, and says where they are.
    pub async fn collect_logs(&self, node: &Node) -> Did {
        if node.driver_internal_info.get("agent_url").is_none() {
            return Did::done();
        }
        let client = match client(node) {
            Ok(client) => client,
            Err(did) => return did,
        };
        let answer = match client.run("log.collect_system_logs", &json!({})).await {
            Ok(answer) => answer,
            Err(error) => return error.into(),
        };
        let (dir, uuid, most) = (self.logs.clone(), node.uuid, self.settings.logs);
        let kept = tokio::task::spawn_blocking(move || logs::keep(&dir, uuid, &answer, most)).await;
        match kept.expect("keeping logs does not panic") {
            Ok(kept) => Did::done().and(move |node| {
                let mut told = format!("; the agent's logs are in {}", kept.path.display());
                if let Some(last) = kept.last {
                    told = format!("{told}, and end: {last}");
                }
                if let Some(error) = &mut node.life.last_error {
                    error.push_str(&told);
                }
            }),
            Err(error) => Did::failed(model::chain(&error), false),
        }
    }

    async fn pack(&self, node: &Node, drive: Value) -> Result<String, config_drive::Error> {
        let modified = node.life.operation.started.as_second();
        config_drive::pack(drive, u64::try_from(modified).unwrap_or(0), &self.http).await
    }
}

fn client(node: &Node) -> Result<Client, Did> {
    connect(node, Limits::default()).map_err(|trouble| Did::failed(trouble, false))
}

const BOOTLOADER_TIME: Duration = Duration::from_mins(10);

/// A client of the node's agent, as it called.
pub fn connect(node: &Node, limits: Limits) -> Result<Client, String> {
    let text = |key: &str| {
        let value = node.driver_internal_info.get(key).and_then(Value::as_str);
        value.map(ToOwned::to_owned)
    };
    let address = text("agent_url").ok_or("no agent is known to run on the host")?;
    let certificate = text("agent_verify_ca")
        .ok_or("the agent sent no certificate with its calls, so it cannot be told from others")?;
    let token = Secret::new(text("agent_secret_token").unwrap_or_default());
    let config = Config {
        address,
        certificate,
        token,
        limits,
    };
    Client::new(config).map_err(|error| model::chain(&error))
}

pub enum Verdict {
    Running,
    Done,
    Failed(String),
    Outdated,
}

/// What the agent's list of commands says of the node's step.
pub fn verdict(node: &Node, step: &StepSpec, commands: &[Command]) -> Verdict {
    let words = Words::of(kind(node));
    let bare = words
        .execute
        .rsplit('.')
        .next()
        .unwrap_or_default()
        .to_string();
    let after = mark(node).flatten();
    let Some(command) = newer(commands, after)
        .rev()
        .find(|command| command.name() == bare)
    else {
        return Verdict::Failed("the agent knows nothing of it: the host was restarted".into());
    };
    let reported = command.result.get(&words.step);
    let same = |reported: &Value| {
        reported.get("step").and_then(Value::as_str) == Some(step.step.as_str())
            && reported.get("interface").and_then(Value::as_str) == Some(step.interface.as_str())
    };
    match command.status {
        Status::Failed => Verdict::Failed(command.trouble()),
        Status::VersionMismatch => Verdict::Outdated,
        // It tells which step it has done; one that is not ours has nothing to say of ours.
        Status::Succeeded if reported.is_none_or(same) => Verdict::Done,
        Status::Succeeded | Status::Running => Verdict::Running,
    }
}

/// The command before the current step, if the step was about to be started: the inner value is nothing where it was
/// the first.
#[expect(clippy::option_option, reason = "whether it was noted, and what")]
fn mark(node: &Node) -> Option<Option<&str>> {
    let mark = node.driver_internal_info.get(MARK)?;
    (mark.get("stage")?.as_str()? == stage(node)).then(|| mark.get("after").and_then(Value::as_str))
}

/// Keeps what [`Deploy::mark`] gave.
pub fn keep_mark(node: &mut Node, mark: Value) {
    node.driver_internal_info.insert(MARK.into(), mark);
}

/// The stage of the node's operation, unlike any other.
fn stage(node: &Node) -> String {
    let operation = &node.life.operation;
    format!("{}#{}", operation.started, operation.at)
}

/// Whose steps are being run.
fn kind(node: &Node) -> StepKind {
    match node.life.operation.task {
        Task::Deploy => StepKind::Deploy,
        Task::Service => StepKind::Service,
        Task::CleanManual => StepKind::CleanManual,
        Task::Clean
        | Task::Rest
        | Task::Verify
        | Task::Inspect
        | Task::Delete
        | Task::Adopt
        | Task::Rescue
        | Task::Unrescue
        | Task::Recover => StepKind::Clean,
    }
}

/// How far a step was seen to come, for the one who reads why it failed.
pub fn how_far(node: &Node) -> String {
    let Some(progress) = node.driver_internal_info.get(PROGRESS) else {
        return String::new();
    };
    let percent = progress.get("percent").and_then(Value::as_f64);
    let phase = progress.get("phase").and_then(Value::as_str);
    match (percent, phase) {
        (Some(percent), Some(phase)) => format!(" (at {percent:.0} % of {phase})"),
        (Some(percent), None) => format!(" (at {percent:.0} %)"),
        (None, Some(phase)) => format!(" (while {phase})"),
        (None, None) => String::new(),
    }
}

/// How the installed system will be booted.
fn boot_mode(node: &Node) -> &'static str {
    let capabilities = |info: &Object| match info.get("capabilities") {
        Some(Value::String(text)) => text
            .split(',')
            .filter_map(|pair| pair.trim().split_once(':'))
            .find(|(key, _)| *key == "boot_mode")
            .map(|(_, mode)| mode.to_lowercase()),
        Some(Value::Object(object)) => object
            .get("boot_mode")
            .and_then(Value::as_str)
            .map(str::to_lowercase),
        _ => None,
    };
    let said = capabilities(&node.instance_info).or_else(|| capabilities(&node.properties));
    match (said.as_deref(), node.boot_mode) {
        (Some("bios"), _) | (None, Some(crate::record::BootMode::Bios)) => "bios",
        _ => "uefi",
    }
}

/// What an agent is told of its node: nothing that opens a BMC or another agent.
fn told(node: &Node, drive: Option<Value>) -> Value {
    let without = |info: &Object, keys: &[&str]| {
        let mut info = info.clone();
        for key in keys {
            info.remove(*key);
        }
        info
    };
    let mut instance = without(&node.instance_info, &["configdrive", "rescue_password"]);
    if let Some(drive) = drive {
        instance.insert("configdrive".into(), drive);
    }
    json!({
        "uuid": node.uuid,
        "name": node.name,
        "driver": node.driver,
        "driver_info": {},
        "driver_internal_info": without(&node.driver_internal_info, &["agent_secret_token", "agent_verify_ca", MARK, PROGRESS]),
        "properties": node.properties,
        "instance_info": instance,
        "instance_uuid": node.instance_uuid,
        "extra": node.extra,
        "provision_state": node.life.state.as_str(),
        "raid_config": node.raid_config,
        "target_raid_config": node.target_raid_config,
    })
}

fn told_ports(ports: &[Arc<Port>]) -> Vec<Value> {
    ports
        .iter()
        .map(|port| json!({"uuid": port.uuid, "address": port.address, "pxe_enabled": port.pxe_enabled, "node_uuid": port.node_uuid}))
        .collect()
}
