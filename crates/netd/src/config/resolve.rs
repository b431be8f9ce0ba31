//! From what was written to what will be used.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use protocols::vrrp::router::{Announce, Preempt};
use protocols::vrrp::{Authentication, Version, VirtualRouterId};

use super::dns::Dns;
use super::mdns::Mdns;
use super::written::{self, Written};
use super::{Check, Config, LbBackend, Probe, Vip, VipCheck};

/// A check may be slow, but not forgotten.
const LONGEST_MS: i64 = 3_600_000;

pub fn resolve(written: &Written) -> Result<Config, Vec<String>> {
    let mut problems = Problems(Vec::new());
    let mut checks = Vec::new();
    for (at, check) in written.checks.iter().enumerate() {
        let path = format!("checks[{at}]");
        let twice = written.checks[..at]
            .iter()
            .any(|other| other.name == check.name);
        problems.unless(!twice, &path, "name", || {
            format!("{:?} is the name of another check", check.name)
        });
        checks.extend(resolve_check(check, written, &path, &mut problems));
    }
    let mut vips: Vec<Vip> = Vec::new();
    for (at, vip) in written.vips.iter().enumerate() {
        let path = format!("vips[{at}]");
        let twice = written.vips[..at]
            .iter()
            .any(|other| other.name == vip.name);
        problems.unless(!twice, &path, "name", || {
            format!("{:?} is the name of another vip", vip.name)
        });
        let Some(vip) = resolve_vip(vip, written, &path, &mut problems) else {
            continue;
        };
        for other in &vips {
            problems.unless(other.address != vip.address, &path, "address", || {
                format!("{} is the address of {} too", vip.address, other.name)
            });
            let same_family = other.address.is_ipv4() == vip.address.is_ipv4();
            problems.unless(!same_family || other.id != vip.id, &path, "id", || {
                format!("{} is the id of {} too", vip.id, other.name)
            });
        }
        vips.push(vip);
    }
    let lb = super::lb::resolve(written, &mut problems);
    let members = super::lb::resolve_members(&written.members, &mut problems);
    let admin = match written.admin.as_str() {
        "" => None,
        address => {
            let parsed = address.parse().ok();
            if parsed.is_none() {
                problems.add("admin", format!("{address:?} is not an address and port"));
            }
            parsed
        }
    };
    let (dns, mdns) = resolve_names(written, &vips, &mut problems);
    if !problems.0.is_empty() {
        return Err(problems.0);
    }
    Ok(Config {
        cluster: written.cluster.clone(),
        real_time: written.real_time,
        admin,
        checks,
        vips,
        lb,
        members,
        dns,
        mdns,
    })
}

/// `api` and `ingress` answer with the virtual addresses whose names begin so.
fn resolve_names(
    written: &Written,
    vips: &[Vip],
    problems: &mut Problems,
) -> (Option<Dns>, Option<Mdns>) {
    let called = |name: &str| -> Vec<IpAddr> {
        let so = vips.iter().filter(|vip| vip.name.starts_with(name));
        so.map(|vip| vip.address).collect()
    };
    let (api, ingress) = (called("api"), called("ingress"));
    let dns = written
        .dns
        .as_ref()
        .and_then(|dns| super::dns::resolve(dns, &api, &ingress, "dns", &mut problems.0));
    let all: Vec<_> = vips.iter().map(|vip| vip.address).collect();
    let cluster = written.cluster.as_deref();
    let mdns = written
        .mdns
        .as_ref()
        .and_then(|mdns| super::mdns::resolve(mdns, cluster, &all, "mdns", &mut problems.0));
    (dns, mdns)
}

fn resolve_check(
    check: &written::Check,
    written: &Written,
    path: &str,
    problems: &mut Problems,
) -> Option<Check> {
    let interval = problems.millis(path, "interval_ms", check.interval_ms, 10..=LONGEST_MS);
    let timeout = problems.millis(path, "timeout_ms", check.timeout_ms, 1..=LONGEST_MS);
    let rise = problems.number(path, "rise", check.rise, 1..=1000);
    let fall = problems.number(path, "fall", check.fall, 1..=1000);
    let mut probes = Vec::new();
    if let Some(http) = &check.http {
        let known = ["http://", "https://"]
            .iter()
            .any(|scheme| http.url.starts_with(scheme));
        problems.unless(known, path, "http.url", || {
            format!("{:?} must begin with http:// or https://", http.url)
        });
        let status = problems.number(path, "http.status", http.status, 100..=599);
        probes.push(status.map(|status| Probe::Http {
            url: http.url.clone(),
            status: status as u16,
            insecure: http.insecure,
        }));
    }
    if let Some(tcp) = &check.tcp {
        let target = problems.parsed(
            path,
            "tcp",
            tcp,
            "an address and port, such as 127.0.0.1:6443",
        );
        probes.push(target.map(Probe::Tcp));
    }
    if let Some(file) = &check.file {
        probes.push(Some(Probe::File(PathBuf::from(file))));
    }
    if let Some(command) = &check.command {
        problems.unless(!command.is_empty(), path, "command", || "is empty".into());
        probes.push(Some(Probe::Command(command.clone())));
    }
    if let Some(lb) = &check.lb {
        probes.push(resolve_lb_check(lb, written, path, problems));
    }
    if probes.len() != 1 {
        let found = probes.len();
        problems.add(
            path,
            format!("has {found} of http, tcp, file, command, lb; needs one"),
        );
    }
    Some(Check {
        name: check.name.clone(),
        probe: probes.into_iter().next()??,
        interval: interval?,
        timeout: timeout?,
        rise: rise? as u32,
        fall: fall? as u32,
    })
}

fn resolve_lb_check(
    check: &written::LbCheck,
    written: &Written,
    path: &str,
    problems: &mut Problems,
) -> Option<Probe> {
    let known = |listener: &written::Listener| listener.name == check.listener;
    let fine = written.lb.iter().any(known);
    problems.unless(fine, path, "lb.listener", || {
        format!("there is no listener {:?}", check.listener)
    });
    let backend = match check.backend.as_deref() {
        None => None,
        Some("local") => Some(LbBackend::Local),
        Some(address) => {
            let what = "local, or an address and port";
            let address = problems.parsed(path, "lb.backend", address, what)?;
            Some(LbBackend::At(address))
        }
    };
    Some(Probe::Lb {
        listener: check.listener.clone(),
        backend,
    })
}

fn resolve_vip(
    vip: &written::Vip,
    written: &Written,
    path: &str,
    problems: &mut Problems,
) -> Option<Vip> {
    let address: Option<IpAddr> = problems.parsed(path, "address", &vip.address, "an IP address");
    let version = match vip.version {
        2 => Some(Version::V2),
        3 => Some(Version::V3),
        other => {
            problems.add(
                &format!("{path}.version"),
                format!("{other} is neither 2 nor 3"),
            );
            None
        }
    };
    let id = resolve_id(vip, written, path, problems);
    let base = problems.number(path, "priority", vip.priority, 1..=254);
    let interval = resolve_interval(vip, version, path, problems);
    let delay = problems.millis(
        path,
        "preempt_delay_ms",
        vip.preempt_delay_ms,
        0..=LONGEST_MS,
    );
    let listen = problems.millis(path, "listen_ms", vip.listen_ms, 0..=60_000);
    let source = vip
        .source
        .as_ref()
        .map(|source| problems.parsed(path, "source", source, "an IP address"));
    let mut peers = Vec::new();
    for (at, peer) in vip.peers.iter().enumerate() {
        peers.extend(problems.parsed::<IpAddr>(
            path,
            &format!("peers[{at}]"),
            peer,
            "an IP address",
        ));
    }
    if let Some(address) = address {
        let named = peers.iter().chain(source.iter().flatten());
        for other in named.filter(|other| other.is_ipv4() != address.is_ipv4()) {
            problems.add(path, format!("{other} and {address} are of two families"));
        }
        let v2 = version == Some(Version::V2);
        problems.unless(!v2 || address.is_ipv4(), path, "version", || {
            "2 knows IPv4 only; write 3".into()
        });
    }
    let authentication = match &vip.auth {
        None => Authentication::None,
        Some(password) => {
            problems.unless(version != Some(Version::V3), path, "auth", || {
                "version 3 has no passwords; leave it out or write version: 2".into()
            });
            Authentication::password(password)
        }
    };
    let announce = resolve_announce(&vip.announce, path, problems);
    let checks = resolve_weights(vip, written, path, problems);
    let preempt = match (vip.preempt, delay?) {
        (false, _) => Preempt::Never,
        (true, Duration::ZERO) => Preempt::AtOnce,
        (true, delay) => Preempt::After(delay),
    };
    Some(Vip {
        name: vip.name.clone(),
        address: address?,
        interface: vip.interface.clone(),
        source: match source {
            Some(source) => Some(source?),
            None => None,
        },
        id: id?,
        choose_id: matches!(vip.id, Some(written::Id::Auto(_))),
        version: version?,
        interval: interval?,
        base: base? as u8,
        preempt,
        listen: listen?,
        swift: vip.swift.unwrap_or(version? == Version::V3),
        peers,
        authentication,
        announce: announce?,
        checks,
    })
}

fn resolve_id(
    vip: &written::Vip,
    written: &Written,
    path: &str,
    problems: &mut Problems,
) -> Option<VirtualRouterId> {
    match (vip.id, &written.cluster) {
        (Some(written::Id::Number(id)), _) => {
            let id = problems.number(path, "id", id, 1..=255)?;
            VirtualRouterId::new(id as u8)
        }
        (Some(written::Id::Auto(_)) | None, Some(cluster)) if !cluster.is_empty() => {
            Some(VirtualRouterId::of_cluster(cluster, &vip.name))
        }
        (Some(written::Id::Auto(_)) | None, _) => {
            problems.add(
                &format!("{path}.id"),
                "is missing; write it, or cluster: and its name",
            );
            None
        }
    }
}

fn resolve_interval(
    vip: &written::Vip,
    version: Option<Version>,
    path: &str,
    problems: &mut Problems,
) -> Option<Duration> {
    let (default, step, range) = match version? {
        Version::V2 => (1000, 1000, 1000..=255_000),
        Version::V3 => (40, 10, 10..=40_950),
    };
    let millis = vip.advertise_ms.unwrap_or(default);
    let interval = problems.millis(path, "advertise_ms", millis, range)?;
    problems.unless(millis % step == 0, path, "advertise_ms", || {
        format!("{millis} must be a multiple of {step}")
    });
    Some(interval)
}

fn resolve_announce(
    announce: &written::Announce,
    path: &str,
    problems: &mut Problems,
) -> Option<Announce> {
    let burst = problems.number(path, "announce.burst", announce.burst, 1..=100);
    let gap = problems.millis(path, "announce.gap_ms", announce.gap_ms, 10..=LONGEST_MS);
    let refresh = problems.millis(
        path,
        "announce.refresh_ms",
        announce.refresh_ms,
        100..=LONGEST_MS,
    );
    Some(Announce {
        burst: burst? as u8,
        gap: gap?,
        refresh: refresh?,
    })
}

fn resolve_weights(
    vip: &written::Vip,
    written: &Written,
    path: &str,
    problems: &mut Problems,
) -> Vec<VipCheck> {
    let mut checks = Vec::new();
    let mut highest = vip.priority;
    for (at, used) in vip.checks.iter().enumerate() {
        let path = format!("{path}.checks[{at}]");
        let known = written.checks.iter().any(|check| check.name == used.check);
        problems.unless(known, &path, "check", || {
            format!("there is no check {:?}", used.check)
        });
        let weight = used
            .weight
            .map(|weight| problems.number(&path, "weight", weight, 1..=253));
        highest = highest.saturating_add(used.weight.unwrap_or(0));
        checks.push(VipCheck {
            check: used.check.clone(),
            weight: weight.flatten().map(|weight| weight as u8),
        });
    }
    let weighted = vip.checks.iter().any(|used| used.weight.is_some());
    problems.unless(!weighted || highest <= 254, path, "checks", || {
        format!("priority and weights come to {highest}; 254 is the most")
    });
    checks
}

pub(super) struct Problems(Vec<String>);

impl Problems {
    pub fn add(&mut self, path: &str, problem: impl AsRef<str>) {
        self.0.push(format!("{path}: {}", problem.as_ref()));
    }

    pub fn unless(
        &mut self,
        fine: bool,
        path: &str,
        field: &str,
        problem: impl FnOnce() -> String,
    ) {
        if !fine {
            self.add(&format!("{path}.{field}"), problem());
        }
    }

    pub fn number(
        &mut self,
        path: &str,
        field: &str,
        value: i64,
        range: std::ops::RangeInclusive<i64>,
    ) -> Option<i64> {
        let fits = range.contains(&value);
        self.unless(fits, path, field, || {
            format!("{value} must be from {} to {}", range.start(), range.end())
        });
        fits.then_some(value)
    }

    pub fn millis(
        &mut self,
        path: &str,
        field: &str,
        value: i64,
        range: std::ops::RangeInclusive<i64>,
    ) -> Option<Duration> {
        let millis = self.number(path, field, value, range)?;
        Some(Duration::from_millis(millis.unsigned_abs()))
    }

    pub fn parsed<T: std::str::FromStr>(
        &mut self,
        path: &str,
        field: &str,
        text: &str,
        what: &str,
    ) -> Option<T> {
        let parsed = text.parse().ok();
        self.unless(parsed.is_some(), path, field, || {
            format!("{text:?} is not {what}")
        });
        parsed
    }
}
