//! The configuration file of `plinth metal3`: one YAML document, every problem told at once.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
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
    /// Where health and metrics are told.
    pub admin: Option<SocketAddr>,
}

/// Where the running daemon answers.
pub const ADMIN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 29447);

#[derive(Debug)]
pub struct Ironic {
    pub place: Place,
    pub login: Option<clients::ironic::Login>,
    pub ca: Option<Vec<u8>>,
}

#[derive(Debug, PartialEq, Eq)]
pub enum Place {
    /// Run by us. The file has what holds whatever the Provisioning object says.
    Here(PathBuf),
    /// Run by somebody else, at this URL; the provisioning network is theirs, too.
    Elsewhere(String),
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
    #[serde(default = "admin")]
    admin: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct WrittenIronic {
    config: Option<PathBuf>,
    url: Option<String>,
    username: Option<String>,
    password: Option<Secret<String>>,
    ca: Option<PathBuf>,
}

fn kubeconfig() -> PathBuf {
    "/etc/plinth/metal3.kubeconfig".into()
}

fn namespace() -> String {
    "openshift-machine-api".to_owned()
}

#[expect(
    clippy::unnecessary_wraps,
    reason = "the default of a field that may be null"
)]
fn admin() -> Option<String> {
    Some(ADMIN.to_string())
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
    let place = place(written.ironic.config, written.ironic.url, &mut problems);
    let admin = written.admin.and_then(|text| {
        let parsed = text.parse::<SocketAddr>().ok();
        if !parsed.is_some_and(|address| address.ip().is_loopback()) {
            problems.push(format!(
                "admin: {text:?} is not a port on the loopback, such as {ADMIN}"
            ));
        }
        parsed
    });
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
        ironic: Ironic { place, login, ca },
        images: written.images,
        networks,
        vips,
        admin,
    })
}

fn place(config: Option<PathBuf>, url: Option<String>, problems: &mut Vec<String>) -> Place {
    if let Some(url) = url {
        if config.is_some() {
            problems.push(
                "ironic.config: has no meaning for an Ironic that ironic.url says is elsewhere"
                    .to_owned(),
            );
        }
        let spoken = url.starts_with("http://") || url.starts_with("https://");
        if !spoken {
            problems.push(format!("ironic.url: {url:?} is no http or https URL"));
        }
        return Place::Elsewhere(url);
    }
    let path = config.unwrap_or_else(|| "/etc/plinth/ironic.yaml".into());
    if !path.is_file() {
        problems.push(format!(
            "ironic.config: {} is not there; `plinth ironic example-config` prints one",
            path.display()
        ));
    }
    Place::Here(path)
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
    fn an_ironic_elsewhere_is_named_by_its_address_alone() {
        let path = Path::new("metal3.yaml");
        let text =
            "node: n\nironic: {url: 'https://ironic.example:6385', username: u, password: p}\n";
        let config = Config::parse(text, path).expect("it is good");
        let expected = Place::Elsewhere("https://ironic.example:6385".to_owned());
        assert_eq!(config.ironic.place, expected);
        assert_eq!(config.admin, Some(ADMIN));
        let text = "node: n\nadmin: 0.0.0.0:1\nironic: {url: ironic.example, config: /x}\n";
        let told = Config::parse(text, path)
            .expect_err("it is bad")
            .to_string();
        for part in ["3 problems", "ironic.config:", "ironic.url:", "admin:"] {
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
