//! The configuration file of `plinth node`: one YAML document, every problem told at once.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ipnet::IpNet;
pub use model::ConfigError as Error;
use serde::Deserialize;
use url::Url;

/// What will be used.
#[derive(Debug, Clone)]
pub struct Config {
    /// Who may ask for a node's first certificate, and where the API is.
    pub kubeconfig: PathBuf,
    /// Our key and certificate.
    pub state: PathBuf,
    /// The host's name without it.
    pub name: Option<String>,
    pub labels: BTreeMap<String, String>,
    /// For a Node that is new; what is taken off later stays off.
    pub taints: Vec<Taint>,
    pub provider_id: Option<String>,
    /// Addresses of these are the node's; those beside the default route without it.
    pub networks: Vec<IpNet>,
    /// Never the node's own: virtual addresses.
    pub exclude: Vec<IpAddr>,
    pub admin: Option<SocketAddr>,
    /// How long a certificate is asked for.
    pub certificate_life: Option<Duration>,
    pub control_plane: ControlPlane,
    /// Where those who may do everything with the cluster can read logs and counters.
    pub server: Option<Server>,
}

/// A port to the outside, and where what is shown comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    pub listen: SocketAddr,
    /// The directory of systemd's units: those that begin with `plinth-` have logs.
    pub units: PathBuf,
    /// Programs; names are looked for as a shell does.
    pub journalctl: PathBuf,
    pub nft: PathBuf,
    /// Where netd's metrics are.
    pub netd: SocketAddr,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Taint {
    pub key: String,
    #[serde(default)]
    pub value: String,
    pub effect: String,
}

/// What is checked on this machine and told as a condition.
#[derive(Debug, Clone, Default)]
pub struct ControlPlane {
    pub apiserver: Option<Url>,
    pub etcd: Option<Etcd>,
}

#[derive(Debug, Clone)]
pub struct Etcd {
    pub endpoint: String,
    /// Authority, certificate and key; none over plain HTTP.
    pub tls: Option<[PathBuf; 3]>,
}

/// Where the running daemon answers.
pub const ADMIN: SocketAddr = SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 29446);
/// Where kubelets answer, and netd on the loopback.
pub const SERVER: &str = "[::]:10250";
const NETD: &str = "127.0.0.1:29445";
/// What a signer of Kubernetes gives at least.
const SHORTEST_LIFE_S: i64 = 600;
const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    #[serde(default = "kubeconfig")]
    kubeconfig: PathBuf,
    #[serde(default = "state")]
    state: PathBuf,
    name: Option<String>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(default)]
    taints: Vec<Taint>,
    provider_id: Option<String>,
    #[serde(default)]
    networks: Vec<String>,
    #[serde(default)]
    exclude: Vec<String>,
    #[serde(default = "admin")]
    admin: Option<String>,
    certificate_s: Option<i64>,
    #[serde(default)]
    control_plane: WrittenControlPlane,
    server: Option<WrittenServer>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenServer {
    listen: Option<String>,
    units: Option<PathBuf>,
    journalctl: Option<PathBuf>,
    nft: Option<PathBuf>,
    netd: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct WrittenControlPlane {
    apiserver: Option<String>,
    etcd: Option<WrittenEtcd>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenEtcd {
    endpoint: String,
    ca: Option<PathBuf>,
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
}

fn kubeconfig() -> PathBuf {
    "/etc/plinth/kubeconfig".into()
}

fn state() -> PathBuf {
    "/var/lib/plinth/node".into()
}

#[expect(clippy::unnecessary_wraps, reason = "null means none")]
fn admin() -> Option<String> {
    Some(ADMIN.to_string())
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
    for (field, path) in [
        ("kubeconfig", &written.kubeconfig),
        ("state", &written.state),
    ] {
        if path.as_os_str().is_empty() {
            problems.push(format!("{field}: must be a path"));
        }
    }
    if let Some(name) = written.name.as_deref().filter(|name| !is_node_name(name)) {
        problems.push(format!(
            "name: {name:?} is not a node's: lower-case letters, digits, '-' and '.', at most 253"
        ));
    }
    for (key, value) in &written.labels {
        if !is_label_key(key) {
            problems.push(format!("labels: {key:?} is not a label's name"));
        }
        if !is_label_value(value) {
            problems.push(format!("labels[{key:?}]: {value:?} is not a label's value"));
        }
    }
    for (at, taint) in written.taints.iter().enumerate() {
        if !is_label_key(&taint.key) {
            problems.push(format!(
                "taints[{at}].key: {:?} is not a taint's name",
                taint.key
            ));
        }
        if !is_label_value(&taint.value) {
            problems.push(format!(
                "taints[{at}].value: {:?} is not a taint's value",
                taint.value
            ));
        }
        if !EFFECTS.contains(&taint.effect.as_str()) {
            problems.push(format!(
                "taints[{at}].effect: {:?} is none of {}",
                taint.effect,
                EFFECTS.join(", ")
            ));
        }
    }
    if written.provider_id.as_deref() == Some("") {
        problems.push("provider_id: is empty; leave it out".into());
    }
    let networks = each(
        &mut problems,
        "networks",
        &written.networks,
        "a network, such as 192.0.2.0/24",
    );
    let exclude = each(&mut problems, "exclude", &written.exclude, "an address");
    let admin = written.admin.and_then(|text| {
        let parsed = text.parse::<SocketAddr>().ok();
        if !parsed.is_some_and(|address| address.ip().is_loopback()) {
            problems.push(format!(
                "admin: {text:?} is not a port on the loopback, such as {ADMIN}"
            ));
        }
        parsed
    });
    let certificate_life = written.certificate_s.and_then(|seconds| {
        if seconds < SHORTEST_LIFE_S {
            problems.push(format!(
                "certificate_s: {seconds} is too short; at least {SHORTEST_LIFE_S}"
            ));
        }
        u64::try_from(seconds).ok().map(Duration::from_secs)
    });
    let control_plane = ControlPlane {
        apiserver: written
            .control_plane
            .apiserver
            .and_then(|text| resolve_url(&mut problems, &text)),
        etcd: written
            .control_plane
            .etcd
            .map(|etcd| resolve_etcd(&mut problems, etcd)),
    };
    let server = written
        .server
        .and_then(|server| resolve_server(&mut problems, server));
    if !problems.is_empty() {
        return Err(problems);
    }
    Ok(Config {
        kubeconfig: written.kubeconfig,
        state: written.state,
        name: written.name,
        labels: written.labels,
        taints: written.taints,
        provider_id: written.provider_id,
        networks,
        exclude,
        admin,
        certificate_life,
        control_plane,
        server,
    })
}

fn each<T: std::str::FromStr>(
    problems: &mut Vec<String>,
    field: &str,
    texts: &[String],
    what: &str,
) -> Vec<T> {
    let mut parsed = Vec::new();
    for (at, text) in texts.iter().enumerate() {
        match text.parse() {
            Ok(value) => parsed.push(value),
            Err(_) => problems.push(format!("{field}[{at}]: {text:?} is not {what}")),
        }
    }
    parsed
}

fn resolve_url(problems: &mut Vec<String>, text: &str) -> Option<Url> {
    let url = Url::parse(text)
        .ok()
        .filter(|url| ["http", "https"].contains(&url.scheme()));
    if url.is_none() {
        problems.push(format!(
            "control_plane.apiserver: {text:?} is not a URL, such as https://localhost:6443/readyz"
        ));
    }
    url
}

fn resolve_etcd(problems: &mut Vec<String>, written: WrittenEtcd) -> Etcd {
    let url = Url::parse(&written.endpoint).ok();
    let scheme = url.as_ref().map(|url| url.scheme().to_owned());
    let secure = scheme.as_deref() == Some("https");
    if !secure && scheme.as_deref() != Some("http") {
        problems.push(format!(
            "control_plane.etcd.endpoint: {:?} is not a member, such as https://localhost:2379",
            written.endpoint
        ));
    }
    let files = [
        ("ca", written.ca),
        ("certificate", written.certificate),
        ("key", written.key),
    ];
    let given = files.iter().any(|(_, file)| file.is_some());
    let tls = files.map(|(field, file)| {
        if file.is_none() && (given || secure) {
            problems.push(format!(
                "control_plane.etcd.{field}: is missing; TLS needs ca, certificate and key"
            ));
        }
        file.unwrap_or_default()
    });
    Etcd {
        endpoint: written.endpoint,
        tls: given.then_some(tls),
    }
}

fn resolve_server(problems: &mut Vec<String>, written: WrittenServer) -> Option<Server> {
    let mut address = |field: &str, text: Option<String>, usual: &str| {
        let text = text.unwrap_or_else(|| usual.to_owned());
        let parsed = text.parse::<SocketAddr>().ok();
        if parsed.is_none() {
            let problem = format!("server.{field}: {text:?} is not a port, such as {usual}");
            problems.push(problem);
        }
        parsed
    };
    let listen = address("listen", written.listen, SERVER);
    let netd = address("netd", written.netd, NETD);
    let mut path = |field: &str, path: Option<PathBuf>, usual: &str| {
        let path = path.unwrap_or_else(|| usual.into());
        if path.as_os_str().is_empty() {
            problems.push(format!("server.{field}: must be a path"));
        }
        path
    };
    Some(Server {
        units: path("units", written.units, "/etc/systemd/system"),
        journalctl: path("journalctl", written.journalctl, "journalctl"),
        nft: path("nft", written.nft, "nft"),
        listen: listen?,
        netd: netd?,
    })
}

/// A DNS subdomain (RFC 1123), as names of Nodes are.
pub fn is_node_name(text: &str) -> bool {
    let label = |label: &str| {
        let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        !label.is_empty()
            && label.bytes().all(inner)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    text.len() <= 253 && text.split('.').all(label)
}

/// `prefix/name`, the prefix a subdomain and the name a value that is not empty.
fn is_label_key(text: &str) -> bool {
    let (prefix, name) = match text.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, text),
    };
    prefix.is_none_or(is_node_name) && !name.is_empty() && is_label_value(name)
}

fn is_label_value(text: &str) -> bool {
    let edge = |byte: u8| byte.is_ascii_alphanumeric();
    let inner = |byte: u8| edge(byte) || b"-_.".contains(&byte);
    let bytes = text.as_bytes();
    bytes.len() <= 63
        && bytes.iter().copied().all(inner)
        && bytes.first().copied().is_none_or(edge)
        && bytes.last().copied().is_none_or(edge)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Config, Error> {
        Config::parse(text, Path::new("node.yaml"))
    }

    #[test]
    fn every_problem_is_told_at_once() {
        let text = "kubeconfig: ''\nname: Bad_Name\nlabels: {'a/b/c': x, ok: 'not ok'}\ntaints: [{key: '', value: '!', effect: Never}]\nprovider_id: ''\nnetworks: [nowhere]\nexclude: [192.0.2.5/32]\nadmin: 0.0.0.0:1\ncertificate_s: 5\ncontrol_plane: {apiserver: localhost, etcd: {endpoint: 'https://localhost:2379', ca: c}}\nserver: {listen: '10250', units: '', netd: here}\n";
        let Err(Error::Problems { problems, .. }) = parse(text) else {
            panic!("it is full of problems")
        };
        let fields: Vec<_> = problems
            .iter()
            .map(|problem| problem.split(": ").next().unwrap_or_default())
            .collect();
        assert_eq!(
            fields,
            [
                "kubeconfig",
                "name",
                "labels",
                "labels[\"ok\"]",
                "taints[0].key",
                "taints[0].value",
                "taints[0].effect",
                "provider_id",
                "networks[0]",
                "exclude[0]",
                "admin",
                "certificate_s",
                "control_plane.apiserver",
                "control_plane.etcd.certificate",
                "control_plane.etcd.key",
                "server.listen",
                "server.netd",
                "server.units"
            ]
        );
    }

    #[test]
    fn nothing_needs_to_be_written() {
        let config = parse("{}").expect("it is complete");
        assert_eq!(config.kubeconfig, Path::new("/etc/plinth/kubeconfig"));
        assert_eq!(config.admin, Some(ADMIN));
        assert!(config.control_plane.apiserver.is_none() && config.name.is_none());
        let quiet = parse("admin: null").expect("it is complete");
        assert_eq!(quiet.admin, None);
        // Nothing is open to the outside unless it is written.
        assert_eq!(config.server, None);
        let server = parse("server: {}").expect("it is complete").server;
        let server = server.expect("it is written");
        assert_eq!(server.listen.to_string(), SERVER);
        assert_eq!(server.journalctl, Path::new("journalctl"));
    }

    #[test]
    fn a_master_is_checked() {
        let config = parse("labels: {node-role.kubernetes.io/master: ''}\ncontrol_plane: {apiserver: 'https://localhost:6443/readyz', etcd: {endpoint: 'https://localhost:2379', ca: a, certificate: b, key: c}}").expect("it is complete");
        let etcd = config.control_plane.etcd.expect("it has etcd");
        assert_eq!(etcd.tls, Some(["a", "b", "c"].map(PathBuf::from)));
    }

    #[test]
    fn an_unknown_key_and_an_empty_file_are_refused_without_quoting_the_file() {
        for text in ["nmae: hunter2", "", "null", "name: [hunter2"] {
            let error = parse(text).expect_err("it is wrong").to_string();
            assert!(
                error.starts_with("node.yaml is not a configuration") && !error.contains("hunter2"),
                "{error}"
            );
        }
    }
}
