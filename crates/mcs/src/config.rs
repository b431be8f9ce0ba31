//! The configuration file of `plinth mcs`: one YAML document, every problem told at once.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use model::ConfigError as Error;

use model::Secret;
use serde::Deserialize;

/// What will be used.
#[derive(Debug, Clone)]
pub struct Config {
    pub listen: SocketAddr,
    pub certificate: PathBuf,
    pub key: PathBuf,
    /// Where used tokens are remembered.
    pub state: PathBuf,
    /// Where the payload's files are given to anybody, without TLS: none of them is secret, and whoever fetches one
    /// knows its checksum.
    pub public: Option<SocketAddr>,
    /// Files by their SHA-256.
    pub files: PathBuf,
    /// What the cluster carries with it: files by name, and their list.
    pub payload: PathBuf,
    /// Where the payload comes from if it is not here.
    pub replicate: Option<Replicate>,
    pub pools: Vec<Pool>,
    pub hosts: Vec<Host>,
    /// Those who get files, and no config.
    pub readers: Vec<Reader>,
    /// How long the first client of a one-time token may come again: an answer can be lost on its way.
    pub retry_window: Duration,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pool {
    pub name: String,
    pub secret_sha256: String,
    pub config: PathBuf,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    pub name: String,
    pub pool: String,
    pub token_sha256: String,
    pub config: PathBuf,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reader {
    pub name: String,
    pub secret_sha256: String,
}

/// Another server of the cluster, any that has the payload.
#[derive(Debug, Clone)]
pub struct Replicate {
    pub from: String,
    /// The same server's files without TLS; tried first.
    pub files: Option<String>,
    /// PEM of who signed its certificate.
    pub ca: Vec<u8>,
    pub secret: Secret<String>,
    /// Nothing is fetched before this file is here: a sign that there is time for it.
    pub after: Option<PathBuf>,
    /// And then so much later: others have their turn first.
    pub delay: Duration,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    #[serde(default = "listen")]
    listen: String,
    public: Option<String>,
    tls: WrittenTls,
    #[serde(default = "state")]
    state: String,
    #[serde(default = "files")]
    files: String,
    #[serde(default = "payload")]
    payload: String,
    replicate: Option<WrittenReplicate>,
    #[serde(default)]
    readers: Vec<WrittenReader>,
    #[serde(default)]
    pools: Vec<WrittenPool>,
    #[serde(default)]
    hosts: Vec<WrittenHost>,
    #[serde(default = "retry_window")]
    retry_window_s: i64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenTls {
    certificate: String,
    key: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenPool {
    name: String,
    secret_sha256: String,
    config: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenReader {
    name: String,
    secret_sha256: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenReplicate {
    from: String,
    files: Option<String>,
    ca: PathBuf,
    secret: Secret<String>,
    after: Option<PathBuf>,
    #[serde(default)]
    delay_s: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenHost {
    name: String,
    pool: String,
    token_sha256: String,
    config: String,
}

fn listen() -> String {
    "[::]:22623".into()
}

fn state() -> String {
    "/var/lib/plinth/mcs".into()
}

fn files() -> String {
    "/var/lib/plinth/files".into()
}

fn payload() -> String {
    "/var/lib/plinth/payload".into()
}

fn retry_window() -> i64 {
    900
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
            Ok(None) => {
                "it is empty; write at least tls: {certificate: ..., key: ...} and pools:".into()
            }
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
    let listen = written.listen.parse().map_err(|_| {
        problems.push(format!(
            "listen: {:?} is not an address and port, such as [::]:22623",
            written.listen
        ));
    });
    let public = written.public.as_ref().and_then(|text| {
        let address = text.parse().ok();
        if address.is_none() {
            problems.push(format!(
                "public: {text:?} is not an address and port, such as [::]:22624"
            ));
        }
        address
    });
    for (key, value) in [
        ("tls.certificate", &written.tls.certificate),
        ("tls.key", &written.tls.key),
        ("state", &written.state),
        ("files", &written.files),
        ("payload", &written.payload),
    ] {
        if value.is_empty() {
            problems.push(format!("{key}: must be a path"));
        }
    }
    if !(0..=86_400).contains(&written.retry_window_s) {
        problems.push("retry_window_s: must be seconds, from 0 to 86400".into());
    }
    let mut digests = std::collections::BTreeSet::new();
    let mut digest = |path: String, value: &str, problems: &mut Vec<String>| {
        let value = value.to_ascii_lowercase();
        if value.len() != 64 || !value.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            problems.push(format!(
                "{path}: must be the SHA-256 of the secret, 64 hexadecimal digits"
            ));
        } else if !digests.insert(value.clone()) {
            problems.push(format!(
                "{path}: is the secret of another; every pool and host has its own"
            ));
        }
        value
    };
    let mut pools: Vec<Pool> = Vec::new();
    for (at, pool) in written.pools.into_iter().enumerate() {
        if pools.iter().any(|other| other.name == pool.name) {
            problems.push(format!(
                "pools[{at}].name: {:?} is the name of another pool",
                pool.name
            ));
        }
        if !is_word(&pool.name) {
            problems.push(format!(
                "pools[{at}].name: {:?} must be a word, such as worker",
                pool.name
            ));
        }
        let secret_sha256 = digest(
            format!("pools[{at}].secret_sha256"),
            &pool.secret_sha256,
            &mut problems,
        );
        pools.push(Pool {
            name: pool.name,
            secret_sha256,
            config: pool.config.into(),
        });
    }
    if pools.is_empty() {
        problems.push("pools: is empty; write at least one, such as worker".into());
    }
    let mut hosts: Vec<Host> = Vec::new();
    for (at, host) in written.hosts.into_iter().enumerate() {
        if hosts.iter().any(|other| other.name == host.name) {
            problems.push(format!(
                "hosts[{at}].name: {:?} is the name of another host",
                host.name
            ));
        }
        if !pools.iter().any(|pool| pool.name == host.pool) {
            problems.push(format!(
                "hosts[{at}].pool: there is no pool {:?}",
                host.pool
            ));
        }
        let token_sha256 = digest(
            format!("hosts[{at}].token_sha256"),
            &host.token_sha256,
            &mut problems,
        );
        hosts.push(Host {
            name: host.name,
            pool: host.pool,
            token_sha256,
            config: host.config.into(),
        });
    }
    let readers = written.readers.into_iter().enumerate();
    let readers = readers.map(|(at, reader)| Reader {
        secret_sha256: digest(
            format!("readers[{at}].secret_sha256"),
            &reader.secret_sha256,
            &mut problems,
        ),
        name: reader.name,
    });
    let readers: Vec<Reader> = readers.collect();
    let replicate = written.replicate.and_then(|given| {
        if !given.from.starts_with("https://") {
            problems.push(format!(
                "replicate.from: {:?} must begin with https://",
                given.from
            ));
        }
        if let Some(files) = given
            .files
            .as_ref()
            .filter(|url| !url.starts_with("http://"))
        {
            problems.push(format!(
                "replicate.files: {files:?} must begin with http://"
            ));
        }
        match std::fs::read(&given.ca) {
            Ok(ca) => Some(Replicate {
                from: given.from.trim_end_matches('/').to_owned(),
                files: given.files.map(|url| url.trim_end_matches('/').to_owned()),
                ca,
                secret: given.secret,
                after: given.after,
                delay: Duration::from_secs(given.delay_s.into()),
            }),
            Err(error) => {
                let path = given.ca.display();
                problems.push(format!("replicate.ca: could not read {path}: {error}"));
                None
            }
        }
    });
    match listen {
        Ok(listen) if problems.is_empty() => Ok(Config {
            listen,
            public,
            certificate: written.tls.certificate.into(),
            key: written.tls.key.into(),
            state: written.state.into(),
            files: written.files.into(),
            payload: written.payload.into(),
            replicate,
            pools,
            hosts,
            readers,
            retry_window: Duration::from_secs(written.retry_window_s.unsigned_abs()),
        }),
        _ => Err(problems),
    }
}

fn is_word(text: &str) -> bool {
    !text.is_empty()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Config, Error> {
        Config::parse(text, Path::new("mcs.yaml"))
    }

    #[test]
    fn every_problem_is_told_at_once() {
        let text = format!(
            "listen: nowhere\ntls: {{certificate: '', key: k}}\nretry_window_s: -1\npools: [{{name: 'a b', secret_sha256: hunter2, config: x}}, {{name: worker, secret_sha256: '{0}', config: x}}]\nhosts: [{{name: h, pool: nope, token_sha256: '{0}', config: x}}, {{name: h, pool: worker, token_sha256: '', config: x}}]\n",
            "a".repeat(64)
        );
        let Err(Error::Problems { problems, .. }) = parse(&text) else {
            panic!("it is full of problems")
        };
        let fields: Vec<_> = problems
            .iter()
            .map(|problem| problem.split(": ").next().unwrap())
            .collect();
        assert_eq!(
            fields,
            [
                "listen",
                "tls.certificate",
                "retry_window_s",
                "pools[0].name",
                "pools[0].secret_sha256",
                "hosts[0].pool",
                "hosts[0].token_sha256",
                "hosts[1].name",
                "hosts[1].token_sha256"
            ]
        );
        assert!(!problems.join("").contains("hunter2"));
    }

    #[test]
    fn an_unknown_key_and_an_empty_file_are_refused_without_quoting_the_file() {
        for text in ["tsl: hunter2", "", "null", "pools: [hunter2"] {
            let error = parse(text).unwrap_err().to_string();
            assert!(
                error.starts_with("mcs.yaml is not a configuration") && !error.contains("hunter2"),
                "{error}"
            );
        }
    }
}
