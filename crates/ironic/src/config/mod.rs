//! The configuration file of `plinth ironic`: one YAML document, every problem told at once.

pub mod boot;
mod resolve;
mod written;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

pub use model::ConfigError as Error;

use lifecycle::node::{PowerPolicy, Settings, Timers};

pub use crate::deploy::Settings as Deploy;
pub use crate::driver::Patience;
pub use crate::driver::fake::Delays;

/// What will be used.
#[derive(Clone, Debug)]
pub struct Config {
    pub listen: SocketAddr,
    pub tls: Option<Tls>,
    /// An htpasswd file of those who may call; everyone may without one.
    pub htpasswd: Option<PathBuf>,
    pub public_endpoint: Option<String>,
    pub state: PathBuf,
    pub host: String,
    pub conductor_group: String,
    pub max_limit: usize,
    pub ramdisk_endpoints: bool,
    pub max_concurrent_deploy: usize,
    pub max_concurrent_clean: usize,
    pub timers: Timers,
    pub power_sync: PowerPolicy,
    pub defaults: Settings,
    pub fake: Delays,
    pub bmc: Patience,
    pub deploy: Deploy,
    /// What servers boot from, if it is ours to serve.
    pub boot: Option<boot::Boot>,
}

/// PEM files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    pub certificate: PathBuf,
    pub key: PathBuf,
    /// Who signed the certificate; a certificate without one vouches for itself.
    pub ca: Option<PathBuf>,
}

impl Tls {
    /// By which others know the certificate to be the right one.
    pub fn authority(&self) -> &Path {
        self.ca.as_ref().unwrap_or(&self.certificate)
    }
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
        let written = written::parse(text).map_err(|problem| Error::Parse {
            path: path.to_owned(),
            problem,
        })?;
        resolve::resolve(written).map_err(|problems| Error::Problems {
            path: path.to_owned(),
            problems,
        })
    }
}

/// A file with every setting at its default, for people to start from.
pub const EXAMPLE: &str = include_str!("example.yaml");

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Config, Error> {
        Config::parse(text, Path::new("ironic.yaml"))
    }

    #[test]
    fn the_example_is_what_an_empty_object_means() {
        let (example, empty) = (parse(EXAMPLE).unwrap(), parse("{}").unwrap());
        assert_eq!(format!("{example:?}"), format!("{empty:?}"));
    }

    #[test]
    fn every_problem_is_told_at_once() {
        let text = "listen: nowhere\npublic_endpoint: ftp://x\nmax_limit: 0\nhost: 'a b'\nfake: {power: -1}\nbmc: {tries: 0}\ntls: {certificate: c.pem, key: ''}\n";
        let Err(Error::Problems { problems, .. }) = parse(text) else {
            panic!("it is full of problems")
        };
        let fields: Vec<_> = problems
            .iter()
            .map(|problem| problem.split(':').next().unwrap())
            .collect();
        assert_eq!(
            fields,
            [
                "listen",
                "tls.key",
                "public_endpoint",
                "host",
                "max_limit",
                "fake.power",
                "bmc.tries"
            ]
        );
    }

    #[test]
    fn an_unknown_key_and_an_empty_file_are_refused_without_quoting_the_file() {
        for text in [
            "lisen: x # hunter2",
            "",
            "null",
            "auth: [hunter2",
            "timers: {nope: 1}",
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(
                error.starts_with("ironic.yaml is not a configuration"),
                "{text}: {error}"
            );
            assert!(!error.contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn timers_are_in_seconds() {
        let config = parse("timers: {deploy_callback: 4800, power_sync: 0.5}\n").unwrap();
        assert_eq!(config.timers.deploy_callback.as_secs(), 4800);
        assert_eq!(config.timers.power_sync.as_millis(), 500);
    }
}
