//! The configuration file of `plinth metal3`: one YAML document, every problem told at once.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

pub use model::ConfigError as Error;

use clients::redfish::Verify;
use ipnet::IpNet;
use model::Secret;
use serde::Deserialize;

use super::settings::Settings;

#[derive(Debug)]
pub struct Config {
    pub kubeconfig: PathBuf,
    /// Where the lease is, and hosts and machines.
    pub namespace: String,
    /// This node's name: the holder of the lease.
    pub node: String,
    /// What we keep: Ironic's configuration as it runs.
    pub state: PathBuf,
    pub ironic: Ironic,
    /// Files that must be here before hosts can be provisioned.
    pub images: Vec<PathBuf>,
    /// Without a provisioning network, hosts fetch from this node's address in one of these...
    pub networks: Vec<IpNet>,
    /// ...which none of these is.
    pub vips: Vec<IpAddr>,
}

#[derive(Debug)]
pub struct Ironic {
    /// What holds whatever the Provisioning object says.
    pub config: PathBuf,
    pub login: Option<clients::ironic::Login>,
    pub ca: Option<Vec<u8>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    #[serde(default = "kubeconfig")]
    kubeconfig: PathBuf,
    #[serde(default = "namespace")]
    namespace: String,
    #[serde(default)]
    node: String,
    #[serde(default = "state")]
    state: PathBuf,
    #[serde(default)]
    ironic: WrittenIronic,
    #[serde(default)]
    images: Vec<PathBuf>,
    #[serde(default)]
    networks: Vec<String>,
    #[serde(default)]
    vips: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct WrittenIronic {
    config: PathBuf,
    username: Option<String>,
    password: Option<Secret<String>>,
    ca: Option<PathBuf>,
}

impl Default for WrittenIronic {
    fn default() -> Self {
        Self {
            config: "/etc/plinth/ironic.yaml".into(),
            username: None,
            password: None,
            ca: None,
        }
    }
}

fn kubeconfig() -> PathBuf {
    "/etc/plinth/metal3.kubeconfig".into()
}

fn namespace() -> String {
    "openshift-machine-api".to_owned()
}

fn state() -> PathBuf {
    "/var/lib/plinth/metal3".into()
}

impl Config {
    pub fn load(path: &Path) -> Result<Self, Error> {
        let text = std::fs::read_to_string(path).map_err(|source| Error::Read {
            path: path.to_owned(),
            source,
        })?;
        Self::parse(&text, path)
    }

    /// `path` is for messages.
    pub fn parse(text: &str, path: &Path) -> Result<Self, Error> {
        let options = serde_saphyr::options! { legacy_octal_numbers: true, with_snippet: false };
        let written = match serde_saphyr::from_str_with_options::<Option<Written>>(text, options) {
            Ok(Some(written)) => written,
            Ok(None) => {
                return Err(Error::Parse {
                    path: path.to_owned(),
                    problem: "it is empty; write at least node: NAME".to_owned(),
                });
            }
            Err(error) => {
                return Err(Error::Parse {
                    path: path.to_owned(),
                    problem: error.without_snippet().to_string(),
                });
            }
        };
        resolve(written).map_err(|problems| Error::Problems {
            path: path.to_owned(),
            problems,
        })
    }

    /// How the controllers are set up, for an Ironic that listens at this address.
    pub(super) fn operator(&self, settings: &Settings, address: &str) -> crate::Config {
        let mut ironic = clients::ironic::Config::new(address);
        ironic.login.clone_from(&self.ironic.login);
        ironic.verify = match &self.ironic.ca {
            Some(pem) => Verify::Pem(pem.clone()),
            None => Verify::System,
        };
        let mut config = crate::Config::new(ironic);
        config.host.provisioning_network_disabled = settings.network_disabled;
        config
    }
}

fn resolve(written: Written) -> Result<Config, Vec<String>> {
    let mut problems = Vec::new();
    if written.node.is_empty() {
        problems.push("node: is missing; write this node's name".to_owned());
    }
    if written.namespace.is_empty() {
        problems.push("namespace: is empty; leave it out for openshift-machine-api".to_owned());
    }
    let login = match (written.ironic.username, written.ironic.password) {
        (Some(username), Some(password)) => Some(clients::ironic::Login { username, password }),
        (None, None) => None,
        (Some(_), None) => {
            problems.push("ironic.password: is missing; give it with username".to_owned());
            None
        }
        (None, Some(_)) => {
            problems.push("ironic.username: is missing; give it with password".to_owned());
            None
        }
    };
    let ca = written
        .ironic
        .ca
        .and_then(|path| match std::fs::read(&path) {
            Ok(pem) => Some(pem),
            Err(error) => {
                problems.push(format!(
                    "ironic.ca: could not read {}: {error}",
                    path.display()
                ));
                None
            }
        });
    if !written.ironic.config.is_file() {
        problems.push(format!(
            "ironic.config: {} is not there; `plinth ironic example-config` prints one",
            written.ironic.config.display()
        ));
    }
    let networks = parsed("networks", "network", &written.networks, &mut problems);
    let vips = parsed("vips", "address", &written.vips, &mut problems);
    if !problems.is_empty() {
        return Err(problems);
    }
    Ok(Config {
        kubeconfig: written.kubeconfig,
        namespace: written.namespace,
        node: written.node,
        state: written.state,
        ironic: Ironic {
            config: written.ironic.config,
            login,
            ca,
        },
        images: written.images,
        networks,
        vips,
    })
}

fn parsed<T: std::str::FromStr>(
    field: &str,
    what: &str,
    texts: &[String],
    problems: &mut Vec<String>,
) -> Vec<T> {
    let mut all = Vec::new();
    for (at, text) in texts.iter().enumerate() {
        match text.parse() {
            Ok(value) => all.push(value),
            Err(_) => problems.push(format!("{field}[{at}]: {text:?} is not an IP {what}")),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_problem_is_told_at_once() {
        let text =
            "namespace: ''\nironic: {config: /nowhere, username: metal3, ca: /nowhere.crt}\n";
        let error = Config::parse(text, Path::new("metal3.yaml")).expect_err("it has problems");
        let told = error.to_string();
        for part in [
            "5 problems",
            "node:",
            "namespace:",
            "ironic.password:",
            "ironic.ca:",
            "ironic.config:",
        ] {
            assert!(told.contains(part), "{part}: {told}");
        }
    }

    #[test]
    fn a_misspelt_key_is_told() {
        let error =
            Config::parse("nodes: a\n", Path::new("metal3.yaml")).expect_err("it is unknown");
        assert!(error.to_string().contains("nodes"), "{error}");
    }
}
