//! `plinth create`: the files of an install, stage by stage.

use std::io::{IsTerminal as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use ::plan::assets::Binary;
use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use installer::dir::{INSTALL_CONFIG, checksum};
use installer::{Dir, Stage};

use crate::plan::{facts, warn};

#[derive(Subcommand)]
pub enum Command {
    /// Write an install-config.yaml from flags; what is missing is asked for on a terminal
    ///
    /// Example: plinth create install-config --dir lab --name lab --base-domain example.com --machine-network 192.0.2.0/24 --api-vip 192.0.2.5 --ingress-vip 192.0.2.6 --host master-0,master,redfish-virtualmedia://192.0.2.10/redfish/v1/Systems/1,admin,secret,52:54:00:00:00:01
    InstallConfig(InstallConfig),
    /// Write the manifests that the cluster begins with
    Manifests(Create),
    /// Write keys, Ignition configs, kubeconfig and metadata, and the manifests
    IgnitionConfigs(Create),
    /// Turn the servers into a cluster; run again, it goes on from what it finds
    ///
    /// Example: plinth create cluster --dir lab
    Cluster(crate::cluster::Create),
}

#[derive(Args)]
pub struct Create {
    /// The install directory, which holds install-config.yaml
    #[arg(long, default_value = ".")]
    dir: PathBuf,
    /// The program that nodes run; this one without it
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
    /// Where the bootstrap VM fetches the program
    #[arg(long, value_name = "URL")]
    binary_url: Option<String>,
}

#[derive(Args)]
pub struct InstallConfig {
    /// The install directory
    #[arg(long, default_value = ".")]
    dir: PathBuf,
    /// The cluster's name
    #[arg(long)]
    name: Option<String>,
    /// The site's domain
    #[arg(long)]
    base_domain: Option<String>,
    /// The network of servers and VIPs
    #[arg(long)]
    machine_network: Option<String>,
    /// The API's virtual address
    #[arg(long)]
    api_vip: Option<String>,
    /// The ingress' virtual address
    #[arg(long)]
    ingress_vip: Option<String>,
    /// Managed, Unmanaged or Disabled
    #[arg(long)]
    provisioning_network: Option<String>,
    /// A server: name,role,bmc-address,user,password,boot-mac; may be given often
    #[arg(long = "host", value_name = "HOST")]
    hosts: Vec<String>,
    /// A file with public SSH keys
    #[arg(long, value_name = "FILE")]
    ssh_key_file: Option<PathBuf>,
}

pub fn run(command: &Command) -> Result<()> {
    match command {
        Command::InstallConfig(command) => install_config(command),
        Command::Manifests(command) => create(command, Stage::Manifests),
        Command::IgnitionConfigs(command) => create(command, Stage::IgnitionConfigs),
        Command::Cluster(command) => crate::cluster::create(command),
    }
}

fn create(command: &Create, stage: Stage) -> Result<()> {
    let program = match &command.binary {
        Some(path) => path.clone(),
        None => std::env::current_exe().context("find this program")?,
    };
    let binary = Binary {
        sha256: checksum(&program)?,
        bootstrap_url: command.binary_url.clone(),
    };
    let dir = Dir::new(&command.dir);
    let facts = facts(&dir.text()?);
    let outcome = dir.create(stage, &facts, &binary, SystemTime::now().into())?;
    warn(&outcome.warnings);
    for kept in &outcome.kept {
        println!("kept {kept}: you edited it");
    }
    println!(
        "{} files written, {} as they were, {} kept, in {}",
        outcome.written.len(),
        outcome.unchanged,
        outcome.kept.len(),
        command.dir.display()
    );
    Ok(())
}

fn install_config(command: &InstallConfig) -> Result<()> {
    let path = command.dir.join(INSTALL_CONFIG);
    if path.exists() {
        bail!(
            "{} is there already; edit it, or move it away",
            path.display()
        );
    }
    let text = render(command)?;
    // Judged before it is written: a file with mistakes helps nobody.
    ::plan::install_config::parse(&text, &facts(&text)).map_err(|refused| {
        installer::Error::Config {
            path: path.clone(),
            refused,
        }
    })?;
    write(&path, &text)?;
    println!(
        "wrote {}; next: plinth plan --dir {}",
        path.display(),
        command.dir.display()
    );
    Ok(())
}

fn write(path: &Path, text: &str) -> Result<()> {
    if let Some(dir) = path.parent() {
        std::fs::create_dir_all(dir).with_context(|| format!("create {}", dir.display()))?;
    }
    // It holds the BMCs' passwords.
    let mut options = std::fs::OpenOptions::new();
    let file = options.write(true).create_new(true).mode(0o600).open(path);
    file.and_then(|mut file| file.write_all(text.as_bytes()))
        .with_context(|| format!("write {}", path.display()))
}

fn render(command: &InstallConfig) -> Result<String> {
    let name = given(command.name.as_ref(), "--name", "Cluster name")?;
    let domain = given(command.base_domain.as_ref(), "--base-domain", "Base domain")?;
    let network = given(
        command.machine_network.as_ref(),
        "--machine-network",
        "Machine network (CIDR)",
    )?;
    let api = given(command.api_vip.as_ref(), "--api-vip", "API VIP")?;
    let ingress = given(command.ingress_vip.as_ref(), "--ingress-vip", "Ingress VIP")?;
    let provisioning = command
        .provisioning_network
        .clone()
        .unwrap_or_else(|| "Managed".into());
    let mut written = command.hosts.clone();
    if written.is_empty() {
        loop {
            let host = given(
                None,
                "--host",
                "Server: name,role,bmc-address,user,password,boot-mac (empty: no more)",
            )?;
            if host.is_empty() {
                break;
            }
            written.push(host);
        }
    }
    let hosts = written
        .iter()
        .map(|text| host(text))
        .collect::<Result<Vec<_>>>()?;
    let count = |role: &str| hosts.iter().filter(|host| host["role"] == role).count();
    let mut config = serde_json::json!({
        "apiVersion": "v1",
        "baseDomain": domain,
        "metadata": {"name": name},
        "controlPlane": {"name": "master", "replicas": count("master")},
        "compute": [{"name": "worker", "replicas": count("worker")}],
        "networking": {"machineNetwork": [{"cidr": network}]},
        "platform": {"baremetal": {
            "apiVIPs": [api],
            "ingressVIPs": [ingress],
            "provisioningNetwork": provisioning,
            "hosts": hosts,
        }},
        "payload": "builtin",
    });
    if let Some(path) = &command.ssh_key_file {
        let keys =
            std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
        config["sshKey"] = keys.into();
    }
    Ok(::plan::assets::yaml(&config))
}

fn host(text: &str) -> Result<serde_json::Value> {
    let parts: Vec<&str> = text.split(',').map(str::trim).collect();
    let [name, role, address, username, password, mac] = parts[..] else {
        bail!(
            "a server has six parts: name,role,bmc-address,user,password,boot-mac; this one has {}",
            parts.len()
        );
    };
    Ok(serde_json::json!({
        "name": name,
        "role": role,
        "bmc": {"address": address, "username": username, "password": password},
        "bootMACAddress": mac,
    }))
}

/// The flag's value, or the answer of a person at a terminal.
fn given(value: Option<&String>, flag: &str, question: &str) -> Result<String> {
    if let Some(value) = value {
        return Ok(value.clone());
    }
    if !std::io::stdin().is_terminal() {
        bail!("{flag} is missing, and there is no terminal to ask on");
    }
    print!("{question}: ");
    std::io::stdout().flush().context("ask")?;
    let mut answer = String::new();
    std::io::stdin()
        .read_line(&mut answer)
        .context("read the answer")?;
    Ok(answer.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::plan::install_config::Facts;
    use base64::Engine as _;
    use std::collections::BTreeMap;

    const EXAMPLES: [&str; 6] = [
        "pxe",
        "virtual-media",
        "dual-stack",
        "compact",
        "single-node",
        "static-bonds-vlans",
    ];

    /// Every file of an Ignition config, and of those inside it.
    fn files_of(config: &serde_json::Value, prefix: &str, found: &mut BTreeMap<String, String>) {
        for file in config["storage"]["files"].as_array().into_iter().flatten() {
            let source = file["contents"]["source"].as_str().unwrap_or_default();
            let Some(data) = source.strip_prefix("data:;base64,") else {
                continue;
            };
            let bytes = base64::engine::general_purpose::STANDARD
                .decode(data)
                .unwrap();
            let text = String::from_utf8(bytes).unwrap();
            let path = format!("{prefix}{}", file["path"].as_str().unwrap());
            if file["path"].as_str().unwrap().contains("/mcs/") {
                files_of(
                    &serde_json::from_str(&text).unwrap(),
                    &format!("{path}:"),
                    found,
                );
            }
            found.insert(path, text);
        }
    }

    fn with_link(text: &str) -> String {
        text.replace("interface: ''", "interface: eno1")
            .replace("interface: \"\"", "interface: eno1")
    }

    fn with_ca(text: &str, dir: &Path) -> String {
        let ca = dir.join("root-ca.crt");
        std::fs::write(&ca, "").unwrap();
        text.replace("/etc/plinth/pki/root-ca.crt", &ca.display().to_string())
    }

    #[test]
    fn every_daemon_accepts_the_configuration_that_is_made_for_it() {
        for example in EXAMPLES {
            let temp = tempfile::tempdir().unwrap();
            let source = Path::new(env!("CARGO_MANIFEST_DIR"))
                .join(format!("../../examples/{example}.yaml"));
            std::fs::copy(source, temp.path().join(INSTALL_CONFIG)).unwrap();
            let binary = Binary {
                sha256: "0".repeat(64),
                bootstrap_url: None,
            };
            let dir = Dir::new(temp.path());
            dir.create(
                Stage::IgnitionConfigs,
                &Facts::default(),
                &binary,
                SystemTime::now().into(),
            )
            .unwrap();
            let bootstrap = std::fs::read(temp.path().join("bootstrap.ign")).unwrap();
            let mut files = BTreeMap::new();
            files_of(&serde_json::from_slice(&bootstrap).unwrap(), "", &mut files);
            let mut seen = 0;
            for (path, text) in &files {
                let at = Path::new(path);
                let said = match at.file_name().unwrap().to_str().unwrap() {
                    "netd.yaml" => ::netd::Config::parse(text, at)
                        .map(drop)
                        .map_err(|e| e.to_string()),
                    // metal3 puts the link in, by the Provisioning object.
                    "ironic.yaml" => ::ironic::config::Config::parse(&with_link(text), at)
                        .map(drop)
                        .map_err(|e| e.to_string()),
                    // It reads who is believed, which is on the node.
                    "mcs.yaml" => ::mcs::Config::parse(&with_ca(text, temp.path()), at)
                        .map(drop)
                        .map_err(|e| e.to_string()),
                    "apiserver.yaml" => ::apiserver::Config::parse(text, at)
                        .map(drop)
                        .map_err(|e| e.to_string()),
                    "node.yaml" => ::node::Config::parse(text, at)
                        .map(drop)
                        .map_err(|e| e.to_string()),
                    "router.yaml" => ::node::router::Config::parse(text, at)
                        .map(drop)
                        .map_err(|e| e.to_string()),
                    _ => continue,
                };
                seen += 1;
                assert_eq!(said, Ok(()), "{example}: {path}\n{text}");
            }
            assert!(seen >= 6, "{example}: {:?}", files.keys());
        }
    }

    #[test]
    fn an_install_config_can_be_made_of_flags() {
        let temp = tempfile::tempdir().unwrap();
        let hosts = (0..3).map(|n| format!("m{n},master,redfish-virtualmedia://192.0.2.10{n}/redfish/v1/Systems/1,admin,secret,52:54:00:00:00:0{n}"));
        let some = |text: &str| Some(text.to_owned());
        let command = InstallConfig {
            dir: temp.path().to_owned(),
            name: some("lab"),
            base_domain: some("example.com"),
            machine_network: some("192.0.2.0/24"),
            api_vip: some("192.0.2.5"),
            ingress_vip: some("192.0.2.6"),
            provisioning_network: some("Disabled"),
            hosts: hosts.collect(),
            ssh_key_file: None,
        };
        install_config(&command).unwrap();
        let again = install_config(&command).unwrap_err().to_string();
        assert!(again.contains("there already"), "{again}");
        assert!(Dir::new(temp.path()).plan(&Facts::default()).is_ok());
    }
}
