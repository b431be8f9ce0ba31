//! The configuration file of `plinth router`: one YAML document, every problem told at once.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

pub use model::ConfigError as Error;
use serde::Deserialize;

/// What will be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    pub http: Vec<SocketAddr>,
    pub https: Vec<SocketAddr>,
    pub health: Vec<SocketAddr>,
    /// Certificate and key; made at the start without it.
    pub tls: Option<(PathBuf, PathBuf)>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    #[serde(default = "listen")]
    listen: Vec<String>,
    #[serde(default = "http")]
    http: u16,
    #[serde(default = "https")]
    https: u16,
    #[serde(default = "health")]
    health: u16,
    tls: Option<WrittenTls>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenTls {
    certificate: PathBuf,
    key: PathBuf,
}

fn listen() -> Vec<String> {
    vec!["[::]".into()]
}

fn http() -> u16 {
    80
}

fn https() -> u16 {
    443
}

fn health() -> u16 {
    1936
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
        let written = serde_saphyr::from_str_with_options::<Option<Written>>(text, options);
        let problem = match written {
            Ok(Some(written)) => {
                return resolve(written).map_err(|problems| Error::Problems {
                    path: path.to_owned(),
                    problems,
                });
            }
            Ok(None) => "it is empty; write at least {}".into(),
            Err(error) => error.without_snippet().to_string(),
        };
        Err(Error::Parse {
            path: path.to_owned(),
            problem,
        })
    }
}

fn resolve(written: Written) -> Result<Config, Vec<String>> {
    let mut problems = Vec::new();
    let mut addresses: Vec<IpAddr> = Vec::new();
    for (at, text) in written.listen.iter().enumerate() {
        let bare = text
            .strip_prefix('[')
            .and_then(|text| text.strip_suffix(']'));
        match bare.unwrap_or(text).parse() {
            Ok(address) => addresses.push(address),
            Err(_) => problems.push(format!(
                "listen[{at}]: {text:?} is not an address, such as [::]"
            )),
        }
    }
    if written.listen.is_empty() {
        problems.push("listen: is empty; leave it out for [::]".into());
    }
    let ports = [
        ("http", written.http),
        ("https", written.https),
        ("health", written.health),
    ];
    for (at, (field, port)) in ports.iter().enumerate() {
        // 0 is any port, which only a test wants.
        if *port != 0 && ports[..at].iter().any(|(_, other)| other == port) {
            problems.push(format!("{field}: {port} is taken by another of these"));
        }
    }
    if let Some(tls) = &written.tls {
        for (field, path) in [("certificate", &tls.certificate), ("key", &tls.key)] {
            if path.as_os_str().is_empty() {
                problems.push(format!("tls.{field}: must be a path"));
            }
        }
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    let at = |port: u16| {
        addresses
            .iter()
            .map(|ip| SocketAddr::new(*ip, port))
            .collect()
    };
    Ok(Config {
        http: at(written.http),
        https: at(written.https),
        health: at(written.health),
        tls: written.tls.map(|tls| (tls.certificate, tls.key)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Config, Error> {
        Config::parse(text, Path::new("router.yaml"))
    }

    #[test]
    fn nothing_needs_to_be_written() {
        let config = parse("{}").expect("it is complete");
        let port = |addresses: &[SocketAddr]| addresses[0].port();
        assert_eq!(
            [
                port(&config.http),
                port(&config.https),
                port(&config.health)
            ],
            [80, 443, 1936]
        );
        assert!(config.http[0].is_ipv6());
    }

    #[test]
    fn every_problem_is_told_at_once() {
        let text = "listen: [everywhere]\nhttp: 80\nhttps: 80\ntls: {certificate: '', key: ''}\n";
        let told = parse(text).expect_err("it is wrong").to_string();
        for part in [
            "4 problems",
            "listen[0]",
            "https: 80",
            "tls.certificate",
            "tls.key",
        ] {
            assert!(told.contains(part), "{part}: {told}");
        }
        assert!(parse("").is_err() && parse("ports: 1").is_err());
    }
}
