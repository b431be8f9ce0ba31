//! The balancer's part of the file: listeners, and where members come from.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use protocols::balance::{self, Policy};
use schemars::JsonSchema;
use serde::Deserialize;

use super::resolve::Problems;

/// One listener and its backends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listener {
    pub name: String,
    /// Never empty.
    pub listen: Vec<SocketAddr>,
    /// Accept only while this virtual address is held here.
    pub vip: Option<String>,
    pub redirect: Option<Redirect>,
    /// Virtual addresses that bring its clients; while none of them is here, its backends are looked at less
    /// often. Empty: always often.
    pub brought_by: Vec<String>,
    pub backends: Vec<(String, SocketAddr)>,
    pub members: Option<MembersFrom>,
    /// `None`: backends count as well until a connection fails.
    pub look: Option<LookAt>,
    pub policy: Policy,
    pub connect_timeout: Duration,
    /// Backends tried before a client is refused.
    pub tries: u32,
    /// Failed connections in a row that eject a backend.
    pub connect_fall: u32,
    pub idle_timeout: Duration,
    /// Silence allowed after one side has ended.
    pub half_closed_timeout: Duration,
    /// Silence allowed before the first byte.
    pub first_byte_timeout: Duration,
    pub drain: Duration,
    pub max_connections: u32,
    pub backend_limit: Option<u32>,
    pub proxy_protocol: bool,
}

/// Leads a public port to the listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redirect {
    pub addresses: Vec<IpAddr>,
    pub port: u16,
}

/// Backends are members, at this port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MembersFrom {
    pub port: u16,
    /// Only those of the control plane.
    pub control_plane: bool,
}

/// How a backend is looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LookAt {
    pub kind: LookKind,
    pub interval: Duration,
    pub timeout: Duration,
    pub rise: u32,
    pub fall: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LookKind {
    Tcp,
    Http {
        path: String,
        status: u16,
    },
    Https {
        path: String,
        status: u16,
        /// Who must have signed the certificate; nobody in particular without it.
        ca: Option<PathBuf>,
    },
}

/// Which backend a check is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LbBackend {
    /// The one on this node.
    Local,
    At(SocketAddr),
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MemberSources {
    pub fixed: Vec<FixedMember>,
    pub kubernetes: Option<Kubernetes>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FixedMember {
    pub name: String,
    pub addresses: Vec<IpAddr>,
    pub control_plane: bool,
}

/// Nodes of a Kubernetes API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kubernetes {
    /// `https://api-int.example:6443`
    pub url: String,
    pub ca: Option<PathBuf>,
    pub token_file: Option<PathBuf>,
    /// A PEM file with a client certificate and its key.
    pub identity: Option<PathBuf>,
    pub interval: Duration,
}

impl Listener {
    pub fn pool(&self) -> balance::Config {
        let (rise, fall) = self
            .look
            .as_ref()
            .map_or((1, 1), |look| (look.rise, look.fall));
        balance::Config {
            policy: self.policy,
            checked: self.look.is_some(),
            rise,
            fall,
            connect_fall: self.connect_fall,
            probation: Duration::from_secs(1),
            limit: self.backend_limit,
            drain: self.drain,
        }
    }

    /// What the client asked for, before the redirect.
    pub fn public(&self, seen: SocketAddr) -> SocketAddr {
        match &self.redirect {
            Some(redirect) if redirect.addresses.contains(&seen.ip().to_canonical()) => {
                SocketAddr::new(seen.ip(), redirect.port)
            }
            Some(_) | None => seen,
        }
    }
}

/// As written: one listener and its backends.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Listener")]
pub struct Written {
    pub name: String,
    /// Addresses and ports; an address need not be here yet.
    pub listen: Vec<String>,
    /// Accept only while the virtual address of this name is held here.
    pub vip: Option<String>,
    /// Leads a public port here by nft rules, where the API server has the public port itself.
    pub redirect: Option<WrittenRedirect>,
    #[serde(default)]
    pub backends: Vec<WrittenBackend>,
    /// Members of the cluster are backends too.
    pub members: Option<WrittenMembersFrom>,
    pub check: Option<WrittenLook>,
    #[serde(default)]
    pub policy: WrittenPolicy,
    #[serde(default = "defaults::connect")]
    pub connect_timeout_ms: i64,
    /// Backends tried before a client is refused.
    #[serde(default = "defaults::tries")]
    pub tries: i64,
    /// Failed connections in a row that eject a backend.
    #[serde(default = "defaults::one")]
    pub connect_fall: i64,
    #[serde(default = "defaults::idle")]
    pub idle_timeout_ms: i64,
    /// Silence allowed after one side has ended.
    #[serde(default = "defaults::half_closed")]
    pub half_closed_timeout_ms: i64,
    /// Silence allowed before the first byte.
    #[serde(default = "defaults::half_closed")]
    pub first_byte_timeout_ms: i64,
    /// How long a removed backend may finish its connections.
    #[serde(default = "defaults::half_closed")]
    pub drain_ms: i64,
    #[serde(default = "defaults::connections")]
    pub max_connections: i64,
    pub backend_max_connections: Option<i64>,
    /// Tells backends who the client is (PROXY protocol, version 2).
    #[serde(default)]
    pub proxy_protocol: bool,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Redirect")]
pub struct WrittenRedirect {
    pub addresses: Vec<String>,
    pub port: i64,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Backend")]
pub struct WrittenBackend {
    pub name: String,
    pub address: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "MembersFrom")]
pub struct WrittenMembersFrom {
    pub port: i64,
    /// Only members of the control plane.
    #[serde(default = "defaults::yes")]
    pub control_plane: bool,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "BackendCheck")]
pub struct WrittenLook {
    /// The path that must answer over TLS.
    pub https: Option<String>,
    /// The path that must answer.
    pub http: Option<String>,
    /// A connection is enough.
    #[serde(default)]
    pub tcp: bool,
    #[serde(default = "defaults::ok")]
    pub status: i64,
    /// A PEM file: who must have signed the certificate. Anybody without it.
    pub ca: Option<String>,
    #[serde(default = "defaults::interval")]
    pub interval_ms: i64,
    #[serde(default = "defaults::timeout")]
    pub timeout_ms: i64,
    #[serde(default = "defaults::two")]
    pub rise: i64,
    #[serde(default = "defaults::two")]
    pub fall: i64,
}

#[derive(Deserialize, JsonSchema, Default, Clone, Copy)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "Policy")]
pub enum WrittenPolicy {
    #[default]
    RoundRobin,
    LeastConnections,
}

/// As written: passes while the listener listens.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LbCheck {
    pub listener: String,
    /// `local`, or an address and port: and this backend takes connections.
    pub backend: Option<String>,
}

/// As written: where members come from, beside mDNS.
#[derive(Deserialize, JsonSchema, Default)]
#[serde(deny_unknown_fields, default)]
pub struct Members {
    #[serde(rename = "static")]
    pub fixed: Vec<WrittenMember>,
    pub kubernetes: Option<WrittenKubernetes>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Member")]
pub struct WrittenMember {
    pub name: String,
    pub addresses: Vec<String>,
    #[serde(default = "defaults::yes")]
    pub control_plane: bool,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Kubernetes")]
pub struct WrittenKubernetes {
    pub url: String,
    pub ca: Option<String>,
    pub token_file: Option<String>,
    /// A PEM file with a client certificate and its key.
    pub identity: Option<String>,
    #[serde(default = "defaults::poll")]
    pub interval_ms: i64,
}

pub use Written as WrittenListener;

mod defaults {
    pub fn yes() -> bool {
        true
    }
    pub fn one() -> i64 {
        1
    }
    pub fn two() -> i64 {
        2
    }
    pub fn tries() -> i64 {
        3
    }
    pub fn ok() -> i64 {
        200
    }
    pub fn interval() -> i64 {
        100
    }
    /// Above what a busy API server takes to answer, below a second for two of them.
    pub fn timeout() -> i64 {
        300
    }
    pub fn connect() -> i64 {
        300
    }
    pub fn half_closed() -> i64 {
        30_000
    }
    /// A watch of the API may be silent for a minute.
    pub fn idle() -> i64 {
        300_000
    }
    pub fn connections() -> i64 {
        40_000
    }
    pub fn poll() -> i64 {
        5_000
    }
}

const LONGEST_MS: i64 = 7 * 24 * 3_600_000;

pub(super) fn resolve(all: &super::written::Written, problems: &mut Problems) -> Vec<Listener> {
    let (written, vips) = (&all.lb, &all.vips);
    let mut listeners: Vec<Listener> = Vec::new();
    for (at, listener) in written.iter().enumerate() {
        let path = format!("lb[{at}]");
        let twice = written[..at]
            .iter()
            .any(|other| other.name == listener.name);
        problems.unless(!twice, &path, "name", || {
            format!("{:?} is the name of another listener", listener.name)
        });
        if let Some(vip) = &listener.vip {
            let known = vips.iter().any(|known| known.name == *vip);
            problems.unless(known, &path, "vip", || format!("there is no vip {vip:?}"));
        }
        let Some(mut listener) = resolve_listener(listener, &path, problems) else {
            continue;
        };
        listener.brought_by = brought_by(all, &listener);
        for other in &listeners {
            for address in &listener.listen {
                problems.unless(!other.listen.contains(address), &path, "listen", || {
                    format!("{address} belongs to {} already", other.name)
                });
            }
        }
        listeners.push(listener);
    }
    listeners
}

/// A check that asks for one of its backends wants to know soon, whoever has the address.
fn brought_by(all: &super::written::Written, listener: &Listener) -> Vec<String> {
    let asks = |check: &LbCheck| check.listener == listener.name && check.backend.is_some();
    if all.checks.iter().flat_map(|check| &check.lb).any(asks) {
        return Vec::new();
    }
    let redirected = listener.redirect.iter().flat_map(|to| &to.addresses);
    let redirected: Vec<IpAddr> = redirected.copied().collect();
    let leads = |vip: &&super::written::Vip| {
        let address = vip.address.parse::<IpAddr>();
        listener.vip.as_ref() == Some(&vip.name)
            || address.is_ok_and(|address| redirected.contains(&address))
    };
    let vips = all.vips.iter().filter(leads);
    vips.map(|vip| vip.name.clone()).collect()
}

fn resolve_listener(written: &Written, path: &str, problems: &mut Problems) -> Option<Listener> {
    const SOCKET: &str = "an address and port, such as 192.0.2.5:6443";
    let mut listen = Vec::new();
    for (at, address) in written.listen.iter().enumerate() {
        listen.extend(problems.parsed::<SocketAddr>(
            path,
            &format!("listen[{at}]"),
            address,
            SOCKET,
        ));
    }
    problems.unless(!written.listen.is_empty(), path, "listen", || {
        "is empty; write at least one address and port".into()
    });
    let mut backends = Vec::new();
    for (at, backend) in written.backends.iter().enumerate() {
        let field = format!("backends[{at}].address");
        if let Some(address) = problems.parsed(path, &field, &backend.address, SOCKET) {
            problems.unless(!listen.contains(&address), path, &field, || {
                format!("{address} is this listener itself")
            });
            backends.push((backend.name.clone(), address));
        }
    }
    let some = !written.backends.is_empty() || written.members.is_some();
    problems.unless(some, path, "backends", || {
        "there are none; write backends: or members: {port: ...}".into()
    });
    let redirect = written.redirect.as_ref();
    let redirect = redirect.map(|redirect| resolve_redirect(redirect, path, problems));
    let members = written.members.as_ref().map(|from| {
        let port = problems.number(path, "members.port", from.port, 1..=65_535)?;
        Some(MembersFrom {
            port: port as u16,
            control_plane: from.control_plane,
        })
    });
    let look = written.check.as_ref();
    let look = look.map(|check| resolve_look(check, path, problems));
    let millis = |problems: &mut Problems, field: &str, value: i64| {
        problems.millis(path, field, value, 1..=LONGEST_MS)
    };
    let connect_timeout = millis(problems, "connect_timeout_ms", written.connect_timeout_ms);
    let idle_timeout = millis(problems, "idle_timeout_ms", written.idle_timeout_ms);
    let half_closed = millis(
        problems,
        "half_closed_timeout_ms",
        written.half_closed_timeout_ms,
    );
    let first_byte = millis(
        problems,
        "first_byte_timeout_ms",
        written.first_byte_timeout_ms,
    );
    let drain = millis(problems, "drain_ms", written.drain_ms);
    let tries = problems.number(path, "tries", written.tries, 1..=100);
    let connect_fall = problems.number(path, "connect_fall", written.connect_fall, 1..=1000);
    let max = problems.number(
        path,
        "max_connections",
        written.max_connections,
        1..=1_000_000,
    );
    let limit = written.backend_max_connections;
    let limit =
        limit.map(|limit| problems.number(path, "backend_max_connections", limit, 1..=1_000_000));
    Some(Listener {
        name: written.name.clone(),
        listen,
        vip: written.vip.clone(),
        redirect: fine(redirect)?,
        brought_by: Vec::new(),
        backends,
        members: fine(members)?,
        look: fine(look)?,
        policy: match written.policy {
            WrittenPolicy::RoundRobin => Policy::RoundRobin,
            WrittenPolicy::LeastConnections => Policy::LeastConnections,
        },
        connect_timeout: connect_timeout?,
        tries: tries? as u32,
        connect_fall: connect_fall? as u32,
        idle_timeout: idle_timeout?,
        half_closed_timeout: half_closed?,
        first_byte_timeout: first_byte?,
        drain: drain?,
        max_connections: max? as u32,
        backend_limit: fine(limit)?.map(|limit| limit as u32),
        proxy_protocol: written.proxy_protocol,
    })
}

/// Left out is fine; written and wrong is not.
#[expect(
    clippy::option_option,
    reason = "written or not, and right or not, are two questions"
)]
fn fine<T>(written: Option<Option<T>>) -> Option<Option<T>> {
    match written {
        None => Some(None),
        Some(resolved) => resolved.map(Some),
    }
}

fn resolve_redirect(
    written: &WrittenRedirect,
    path: &str,
    problems: &mut Problems,
) -> Option<Redirect> {
    let mut addresses = Vec::new();
    for (at, address) in written.addresses.iter().enumerate() {
        let field = format!("redirect.addresses[{at}]");
        addresses.extend(problems.parsed::<IpAddr>(path, &field, address, "an IP address"));
    }
    problems.unless(
        !written.addresses.is_empty(),
        path,
        "redirect.addresses",
        || "is empty; write the virtual address".into(),
    );
    let port = problems.number(path, "redirect.port", written.port, 1..=65_535)?;
    Some(Redirect {
        addresses,
        port: port as u16,
    })
}

fn resolve_look(written: &WrittenLook, path: &str, problems: &mut Problems) -> Option<LookAt> {
    let path = &format!("{path}.check");
    let status = problems.number(path, "status", written.status, 100..=599);
    let rise = problems.number(path, "rise", written.rise, 1..=1000);
    let fall = problems.number(path, "fall", written.fall, 1..=1000);
    let interval = problems.millis(path, "interval_ms", written.interval_ms, 10..=LONGEST_MS);
    let timeout = problems.millis(path, "timeout_ms", written.timeout_ms, 1..=LONGEST_MS);
    for (field, at) in [("https", &written.https), ("http", &written.http)] {
        let fine = at.as_ref().is_none_or(|at| at.starts_with('/'));
        problems.unless(fine, path, field, || {
            "must begin with /, such as /readyz".into()
        });
    }
    problems.unless(
        written.ca.is_none() || written.https.is_some(),
        path,
        "ca",
        || "goes with https only".into(),
    );
    let kind = match (&written.https, &written.http, written.tcp) {
        (Some(at), None, false) => LookKind::Https {
            path: at.clone(),
            status: status? as u16,
            ca: written.ca.as_ref().map(PathBuf::from),
        },
        (None, Some(at), false) => LookKind::Http {
            path: at.clone(),
            status: status? as u16,
        },
        (None, None, true) => LookKind::Tcp,
        (Some(_) | None, Some(_) | None, true | false) => {
            problems.add(path, "needs one of https: /path, http: /path, tcp: true");
            return None;
        }
    };
    Some(LookAt {
        kind,
        interval: interval?,
        timeout: timeout?,
        rise: rise? as u32,
        fall: fall? as u32,
    })
}

pub(super) fn resolve_members(written: &Members, problems: &mut Problems) -> MemberSources {
    let mut fixed = Vec::new();
    for (at, member) in written.fixed.iter().enumerate() {
        let path = format!("members.static[{at}]");
        let mut addresses = Vec::new();
        for (at, address) in member.addresses.iter().enumerate() {
            let field = format!("addresses[{at}]");
            addresses.extend(problems.parsed::<IpAddr>(&path, &field, address, "an IP address"));
        }
        problems.unless(!member.name.is_empty(), &path, "name", || "is empty".into());
        fixed.push(FixedMember {
            name: member.name.clone(),
            addresses,
            control_plane: member.control_plane,
        });
    }
    let kubernetes = written.kubernetes.as_ref().and_then(|written| {
        let path = "members.kubernetes";
        let known = written.url.starts_with("https://") || written.url.starts_with("http://");
        problems.unless(known, path, "url", || {
            format!("{:?} must begin with https://", written.url)
        });
        let file = |name: &Option<String>| name.as_ref().map(PathBuf::from);
        Some(Kubernetes {
            url: written.url.trim_end_matches('/').to_owned(),
            ca: file(&written.ca),
            token_file: file(&written.token_file),
            identity: file(&written.identity),
            interval: problems.millis(
                path,
                "interval_ms",
                written.interval_ms,
                100..=LONGEST_MS,
            )?,
        })
    });
    MemberSources { fixed, kubernetes }
}
