//! The parts of what is gathered: each gives its files, and says what it could not get.

use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ::plan::cluster::Plan;
use ::plan::install_config::InstallConfig;
use ::plan::preflight::{self, Fact, Selection};
use clients::ironic::{self, Ironic};
use clients::redfish::Verify;
use installer::Dir;
use installer::bootstrap::Home;
use installer::preflight as probes;
use serde_json::{Value, json};

pub use super::File;
use super::redact::redact;
use crate::plan::facts;
use crate::status::look;

/// What is known of an install before anybody is asked; reasons where something is not.
pub struct Site {
    pub config: Result<(InstallConfig, Plan), String>,
    pub cluster: Result<look::Site, String>,
}

#[derive(Default)]
pub struct Part {
    pub files: Vec<File>,
    pub problems: Vec<String>,
}

impl Part {
    pub fn missing(why: String) -> Self {
        Self {
            files: Vec::new(),
            problems: vec![why],
        }
    }

    /// A file of the disk, or why it is not there.
    fn take(&mut self, as_path: &str, path: &Path) {
        match tail(path) {
            Ok(bytes) => self.files.push(File {
                path: as_path.to_owned(),
                bytes,
            }),
            Err(error) => self.problems.push(format!("{}: {error}", path.display())),
        }
    }

    fn take_vm(&mut self, name: &str, home: &Home) {
        self.take(&format!("{name}/console.log"), &home.console());
        self.take(&format!("{name}/keeper.log"), &home.log());
        match home.look() {
            Ok(vm) => self.files.push(File {
                path: format!("{name}/vm.txt"),
                bytes: format!("{vm:?}\n").into_bytes(),
            }),
            Err(error) => self.problems.push(model::chain(&error)),
        }
    }
}

impl Site {
    pub async fn open(dir: &Path, kubeconfig: Option<&Path>) -> Self {
        let read = || -> anyhow::Result<(InstallConfig, Plan)> {
            let dir = Dir::new(dir);
            let facts = facts(&dir.text()?);
            let (config, _) = dir.config(&facts)?;
            let (plan, _) = dir.plan(&facts)?;
            Ok((config, plan))
        };
        let config = tokio::task::block_in_place(read).map_err(|error| format!("{error:#}"));
        let plan = config.as_ref().ok().map(|(_, plan)| plan.clone());
        let cluster = look::at(dir, kubeconfig).open(plan).await;
        Self {
            config,
            cluster: cluster.map_err(|error| format!("{error:#}")),
        }
    }
}

/// What the installer wrote: its log, how far it is, and which files there are.
pub fn install(dir: &Path) -> Part {
    let mut part = Part::default();
    part.take("install/install.log", &dir.join(".plinth_install.log"));
    part.take("install/metadata.json", &dir.join("metadata.json"));
    match std::fs::read(dir.join(".plinth_install_state.json")) {
        Ok(bytes) => {
            let state: Value = serde_json::from_slice(&bytes).unwrap_or_default();
            part.files.push(File::json(
                "install/state.json",
                &state_without_keys(&state),
            ));
        }
        Err(error) => part.problems.push(format!("the state: {error}")),
    }
    match list(dir) {
        Ok(lines) => part.files.push(File {
            path: "install/files.txt".into(),
            bytes: lines.join("\n").into_bytes(),
        }),
        Err(error) => part.problems.push(format!("{}: {error}", dir.display())),
    }
    part
}

/// Only what is known not to be a key.
fn state_without_keys(state: &Value) -> Value {
    let known = ["cluster", "infra_id", "cluster_id", "written", "install"];
    let kept = known
        .iter()
        .map(|field| ((*field).to_owned(), state[*field].clone()));
    Value::Object(kept.collect())
}

/// Size and path of every file, a few directories deep.
fn list(dir: &Path) -> std::io::Result<Vec<String>> {
    const DEEPEST: usize = 3;
    let mut lines = Vec::new();
    let mut todo = vec![(dir.to_owned(), 0)];
    while let Some((at, depth)) = todo.pop() {
        let mut entries: Vec<PathBuf> = std::fs::read_dir(&at)?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .collect();
        entries.sort();
        for path in entries {
            let Ok(about) = std::fs::symlink_metadata(&path) else {
                continue;
            };
            if about.is_dir() && depth < DEEPEST {
                todo.push((path, depth + 1));
                continue;
            }
            let name = path.strip_prefix(dir).unwrap_or(&path);
            lines.push(format!("{:>12} {}", about.len(), name.display()));
        }
    }
    Ok(lines)
}

/// The plan holds no secrets: it may be shown.
pub fn plan(site: &Site) -> Part {
    match &site.config {
        Ok((_, plan)) => Part {
            files: vec![File::json("plan.json", plan)],
            problems: Vec::new(),
        },
        Err(why) => Part::missing(why.clone()),
    }
}

/// Serial consoles of the VM that installs, and of one that cleaned, with the logs of their keepers.
pub fn bootstrap(dir: &Path) -> Part {
    let mut part = Part::default();
    part.take_vm("bootstrap", &Home::new(dir));
    let cleaner = Home::cleaner(dir);
    if cleaner.log().exists() {
        part.take_vm("cleaning", &cleaner);
    }
    part
}

/// The serial consoles of the control plane's hosts, as far as they were recorded.
pub fn consoles(dir: &Path) -> Part {
    let mut part = Part::default();
    let entries = std::fs::read_dir(installer::consoles::dir(dir));
    let entries = entries.into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|end| end == "log"));
    paths.sort();
    for path in paths {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        part.take(&format!("consoles/{name}"), &path);
    }
    if part.files.is_empty() && part.problems.is_empty() {
        part.problems.push(
            "none were recorded: `plinth create cluster` does so where BMCs offer Serial over LAN"
                .into(),
        );
    }
    part
}

pub fn included(paths: &[PathBuf]) -> Part {
    let mut part = Part::default();
    for (number, path) in paths.iter().enumerate() {
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        part.take(&format!("included/{number}-{name}"), path);
    }
    part
}

/// Of a log that grew large, its end is what counts.
const LARGEST: u64 = 64 << 20;

fn tail(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut file = std::fs::File::open(path)?;
    let len = file.metadata()?.len();
    file.seek(SeekFrom::Start(len.saturating_sub(LARGEST)))?;
    let mut bytes = Vec::new();
    file.take(LARGEST).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// What the BMCs say of themselves and their servers, as the checks before an install ask it.
pub async fn bmcs(site: &Site, dir: &Path) -> Part {
    let (config, plan) = match &site.config {
        Ok(known) => known,
        Err(why) => return Part::missing(why.clone()),
    };
    let wanted: Vec<String> = Selection::default()
        .checks()
        .map(|check| check.id)
        .filter(|id| id.starts_with("bmc-"))
        .map(str::to_owned)
        .collect();
    let selection = match Selection::new(wanted, Vec::new()) {
        Ok(selection) => selection,
        Err(error) => return Part::missing(error.to_string()),
    };
    let options = probes::Options {
        verify_images: false,
    };
    let certificates = Fact::of(Dir::new(dir).expiries());
    let observed = probes::observe(plan, config, certificates, &selection, options).await;
    let findings = preflight::check(plan, config, &observed, &selection);
    Part {
        files: vec![File::json("bmcs.json", &findings)],
        problems: Vec::new(),
    }
}

/// An Ironic's nodes and what happened to each.
pub async fn ironic(site: &Site, dir: &Path, whose: &str, user: &str) -> Part {
    let plan = match &site.config {
        Ok((_, plan)) => plan,
        Err(why) => return Part::missing(why.clone()),
    };
    let mut problems = Vec::new();
    let first = plan.api_vips().into_iter().next();
    let addresses = first.into_iter().chain(plan.provisioning.cluster_ip);
    for address in addresses {
        let address = std::net::SocketAddr::new(address, plan.ports["ironic"]);
        match ask_ironic(&format!("https://{address}"), dir, user).await {
            Ok(mut nodes) => {
                redact(&mut nodes);
                return Part {
                    files: vec![File::json(format!("ironic/{whose}.json"), &nodes)],
                    problems: Vec::new(),
                };
            }
            Err(error) => problems.push(format!("{address}: {}", model::chain(&error))),
        }
    }
    if problems.is_empty() {
        problems.push("no address of it is known".into());
    }
    Part {
        files: Vec::new(),
        problems,
    }
}

async fn ask_ironic(address: &str, dir: &Path, user: &str) -> Result<Value, ironic::Error> {
    let dir = Dir::new(dir);
    let mut config = ironic::Config::new(address);
    config.login = Some(ironic::Login {
        username: user.to_owned(),
        password: dir.ironic_password(),
    });
    config.verify = Verify::Pem(dir.certificate("root-ca").into());
    config.limits.answer = Duration::from_secs(10);
    // Whatever is not there now is a finding.
    config.limits.patience = Duration::from_secs(2);
    let ironic = Ironic::connect(config).await?;
    let mut nodes = Vec::new();
    for node in ironic.nodes().await? {
        let ident = node.uuid.to_string();
        let whole: Option<Value> = ironic.show(&ident).await?;
        let history = ironic.history(&ident).await.unwrap_or_default();
        nodes.push(json!({"node": whole, "history": history}));
    }
    Ok(Value::Array(nodes))
}

/// What `plinth status` would say.
pub async fn cluster(site: &Site) -> Part {
    match &site.cluster {
        Ok(cluster) => {
            let seen = cluster.look().await;
            Part {
                problems: seen.api.problem.clone().into_iter().collect(),
                files: vec![File::json("cluster.json", &seen)],
            }
        }
        Err(why) => Part::missing(why.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_comes_without_its_keys() {
        let state = json!({
            "cluster": "lab", "infra_id": "lab-x", "ironic_password": "hunter2",
            "certificates": {"root-ca": {"private": "hunter2"}}, "pools": {"worker": "hunter2"},
            "install": {"complete": true},
        });
        let text = state_without_keys(&state).to_string();
        assert!(
            !text.contains("hunter2") && text.contains("lab-x") && text.contains("complete"),
            "{text}"
        );
    }

    #[test]
    fn recorded_consoles_are_taken_along() {
        let dir = tempfile::tempdir().unwrap();
        let part = consoles(dir.path());
        assert!(part.files.is_empty() && part.problems[0].contains("none were recorded"));
        let place = installer::consoles::dir(dir.path());
        std::fs::create_dir(&place).unwrap();
        for (name, text) in [("b.log", "two"), ("a.log", "one"), ("a.log.new", "half")] {
            std::fs::write(place.join(name), text).unwrap();
        }
        let part = consoles(dir.path());
        let taken: Vec<_> = part.files.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(taken, ["consoles/a.log", "consoles/b.log"]);
        assert_eq!(part.files[0].bytes, b"one");
        assert!(part.problems.is_empty());
    }

    #[test]
    fn files_are_listed_with_their_sizes() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("tls")).unwrap();
        std::fs::write(dir.path().join("tls/ca.key"), "secret").unwrap();
        let lines = list(dir.path()).unwrap();
        assert_eq!(lines, ["           6 tls/ca.key"]);
    }
}
