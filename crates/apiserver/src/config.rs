//! The configuration file of `plinth apiserver`: one YAML document, every problem told at once.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

pub use model::ConfigError as Error;

use serde::Deserialize;

/// What will be used.
#[derive(Debug, Clone)]
pub struct Config {
    pub listen: SocketAddr,
    pub certificate: PathBuf,
    pub key: PathBuf,
    /// Whoever has a certificate of this authority is who it says they are.
    pub client_ca: Option<PathBuf>,
    pub store: Store,
    /// Signs the tokens of service accounts; made if it is not there. Servers of one cluster share it.
    pub account_key: PathBuf,
    /// What service accounts verify this server with; the clients' authority unless it is named.
    pub account_ca: Option<PathBuf>,
    /// What tokens name as their origin and, unless they say otherwise, their audience.
    pub issuer: String,
    /// Signs certificates that were asked for and approved.
    pub signer: Option<Signer>,
    /// Lines of `token,user,uid,"group,group"`.
    pub tokens: Option<PathBuf>,
    /// One line of JSON for every request that changes something.
    pub audit: Option<PathBuf>,
    /// There from the start, besides Kubernetes' own.
    pub namespaces: Vec<String>,
}

#[derive(Debug, Clone)]
pub enum Store {
    File(PathBuf),
    Etcd {
        endpoints: Vec<String>,
        tls: Option<EtcdTls>,
    },
}

#[derive(Debug, Clone)]
pub struct EtcdTls {
    pub ca: PathBuf,
    pub certificate: PathBuf,
    pub key: PathBuf,
}

#[derive(Debug, Clone)]
pub struct Signer {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    #[serde(default = "listen")]
    listen: String,
    tls: WrittenTls,
    #[serde(default)]
    store: WrittenStore,
    #[serde(default)]
    service_accounts: WrittenAccounts,
    signer: Option<WrittenSigner>,
    tokens: Option<String>,
    audit: Option<String>,
    #[serde(default)]
    namespaces: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenTls {
    certificate: String,
    key: String,
    client_ca: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct WrittenStore {
    file: Option<String>,
    etcd: Option<WrittenEtcd>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenEtcd {
    endpoints: Vec<String>,
    ca: Option<String>,
    certificate: Option<String>,
    key: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct WrittenAccounts {
    key: Option<String>,
    ca: Option<String>,
    issuer: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenSigner {
    certificate: String,
    key: String,
}

fn listen() -> String {
    "[::]:6443".into()
}

const STORE: &str = "/var/lib/plinth/apiserver/registry.redb";
const ACCOUNT_KEY: &str = "/var/lib/plinth/apiserver/service-account.key";
pub const ISSUER: &str = "https://kubernetes.default.svc";

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
            Ok(None) => "it is empty; write at least tls: {certificate: ..., key: ...}".into(),
            Err(error) => error.without_snippet().to_string(),
        };
        Err(Error::Parse {
            path: path.to_owned(),
            problem,
        })
    }
}

/// Collects what is wrong while it reads on.
#[derive(Default)]
struct Problems(Vec<String>);

impl Problems {
    fn path(&mut self, field: &str, value: String) -> PathBuf {
        if value.is_empty() {
            self.0.push(format!("{field}: must be a path"));
        }
        value.into()
    }

    fn optional(&mut self, field: &str, value: Option<String>) -> Option<PathBuf> {
        value.map(|value| self.path(field, value))
    }
}

fn resolve(written: Written) -> Result<Config, Vec<String>> {
    let mut problems = Problems::default();
    let listen = written.listen.parse().map_err(|_| {
        problems.0.push(format!(
            "listen: {:?} is not an address and port, such as [::]:6443",
            written.listen
        ));
    });
    let certificate = problems.path("tls.certificate", written.tls.certificate);
    let key = problems.path("tls.key", written.tls.key);
    let client_ca = problems.optional("tls.client_ca", written.tls.client_ca);
    let store = resolve_store(written.store, &mut problems);
    let accounts = written.service_accounts;
    let account_key = accounts.key.unwrap_or_else(|| ACCOUNT_KEY.to_owned());
    let account_key = problems.path("service_accounts.key", account_key);
    let account_ca = problems.optional("service_accounts.ca", accounts.ca);
    let issuer = accounts.issuer.unwrap_or_else(|| ISSUER.to_owned());
    if issuer.is_empty() {
        problems.0.push(format!(
            "service_accounts.issuer: must not be empty; leave it out for {ISSUER}"
        ));
    }
    let signer = written.signer.map(|signer| Signer {
        certificate: problems.path("signer.certificate", signer.certificate),
        key: problems.path("signer.key", signer.key),
    });
    let tokens = problems.optional("tokens", written.tokens);
    let audit = problems.optional("audit", written.audit);
    for (at, name) in written.namespaces.iter().enumerate() {
        if !is_label(name) {
            problems.0.push(format!(
                "namespaces[{at}]: {name:?} is not a name of a namespace: lower-case letters, digits and '-', at most 63"
            ));
        }
    }
    match listen {
        Ok(listen) if problems.0.is_empty() => Ok(Config {
            listen,
            certificate,
            key,
            account_ca: account_ca.or_else(|| client_ca.clone()),
            client_ca,
            store,
            account_key,
            issuer,
            signer,
            tokens,
            audit,
            namespaces: written.namespaces,
        }),
        _ => Err(problems.0),
    }
}

fn resolve_store(written: WrittenStore, problems: &mut Problems) -> Store {
    let etcd = match (written.file, written.etcd) {
        (file, None) => {
            let file = file.unwrap_or_else(|| STORE.to_owned());
            return Store::File(problems.path("store.file", file));
        }
        (None, Some(etcd)) => etcd,
        (Some(_), Some(etcd)) => {
            let problem = "store: has both a file and etcd; objects are kept in one of them";
            problems.0.push(problem.into());
            etcd
        }
    };
    if etcd.endpoints.is_empty() {
        let problem =
            "store.etcd.endpoints: is empty; name every member, such as https://10.0.0.1:2379";
        problems.0.push(problem.into());
    }
    for (at, endpoint) in etcd.endpoints.iter().enumerate() {
        let scheme = url::Url::parse(endpoint).map(|url| url.scheme().to_owned());
        if !matches!(scheme.as_deref(), Ok("http" | "https")) {
            problems.0.push(format!(
                "store.etcd.endpoints[{at}]: {endpoint:?} is not an address of a member, such as https://10.0.0.1:2379"
            ));
        }
    }
    let files = [
        ("ca", etcd.ca),
        ("certificate", etcd.certificate),
        ("key", etcd.key),
    ];
    let given = files.iter().filter(|(_, file)| file.is_some()).count();
    let mut paths = files.into_iter().map(|(name, file)| match file {
        Some(file) => problems.path(&format!("store.etcd.{name}"), file),
        None if given > 0 => {
            problems.0.push(format!(
                "store.etcd.{name}: is missing; TLS needs ca, certificate and key"
            ));
            PathBuf::new()
        }
        None => PathBuf::new(),
    });
    let mut next = || paths.next().unwrap_or_default();
    let tls = EtcdTls {
        ca: next(),
        certificate: next(),
        key: next(),
    };
    Store::Etcd {
        endpoints: etcd.endpoints,
        tls: (given > 0).then_some(tls),
    }
}

/// RFC 1123, 2.1, as Kubernetes reads it.
fn is_label(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=63).contains(&text.len())
        && text.bytes().all(inner)
        && !text.starts_with('-')
        && !text.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Config, Error> {
        Config::parse(text, Path::new("apiserver.yaml"))
    }

    #[test]
    fn every_problem_is_told_at_once() {
        let text = "listen: nowhere\ntls: {certificate: '', key: k, client_ca: ''}\nstore: {file: f, etcd: {endpoints: ['10.0.0.1'], ca: c}}\nservice_accounts: {issuer: ''}\nsigner: {certificate: c, key: ''}\nnamespaces: [good, Bad]\n";
        let Err(Error::Problems { problems, .. }) = parse(text) else {
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
                "tls.client_ca",
                "store",
                "store.etcd.endpoints[0]",
                "store.etcd.certificate",
                "store.etcd.key",
                "service_accounts.issuer",
                "signer.key",
                "namespaces[1]"
            ]
        );
    }

    #[test]
    fn little_needs_to_be_written() {
        let config = parse("tls: {certificate: c, key: k}").unwrap();
        assert_eq!(config.listen.port(), 6443);
        assert!(matches!(config.store, Store::File(path) if path == Path::new(STORE)));
        assert_eq!(config.issuer, ISSUER);
    }

    #[test]
    fn etcd_may_be_spoken_to_with_and_without_certificates() {
        let plain = parse(
            "tls: {certificate: c, key: k}\nstore: {etcd: {endpoints: ['http://[::1]:2379']}}",
        )
        .unwrap();
        assert!(matches!(plain.store, Store::Etcd { tls: None, .. }));
        let tls = parse("tls: {certificate: c, key: k}\nstore: {etcd: {endpoints: ['https://e:2379'], ca: a, certificate: b, key: c}}").unwrap();
        let Store::Etcd { tls: Some(tls), .. } = tls.store else {
            panic!("it has certificates")
        };
        assert_eq!(tls.certificate, Path::new("b"));
    }

    #[test]
    fn an_unknown_key_and_an_empty_file_are_refused_without_quoting_the_file() {
        for text in ["tsl: hunter2", "", "null", "tls: [hunter2"] {
            let error = parse(text).unwrap_err().to_string();
            assert!(
                error.starts_with("apiserver.yaml is not a configuration")
                    && !error.contains("hunter2"),
                "{error}"
            );
        }
    }
}
