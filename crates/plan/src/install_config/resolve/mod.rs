//! From what was written to what will be used: the fields that every platform has.

mod baremetal;
mod fencing;
mod hosts;
mod networking;
mod optional;
mod pools;
mod provisioning;
mod text;
mod vips;

use std::collections::BTreeSet;

use super::written::Written;
use super::{InstallConfig, Proxy, TrustBundle};
use crate::problem::{Problems, did_you_mean};
pub use text::is_subdomain;
use text::{check_certificates, is_label, shown, ssh_keys};

/// `None` only together with problems.
pub fn resolve(written: &Written, problems: &mut Problems) -> Option<InstallConfig> {
    api_version(written, problems);
    let (name, base_domain) = names(written, problems);
    let control_plane = pools::pool(
        written.control_plane.as_ref(),
        "controlPlane",
        "master",
        problems,
    );
    let compute = pools::compute(&written.compute, &control_plane, problems);
    let arbiter = pools::pool(written.arbiter.as_ref(), "arbiter", "arbiter", problems);
    pools::counts(&control_plane, &arbiter, written, problems);
    let networking = networking::resolve(written, &control_plane, &compute, problems);
    let domain = format!("{name}.{base_domain}");
    let proxy = proxy(written, &networking, &domain, problems);
    unsupported(written, problems);
    let trust_bundle = trust_bundle(written, problems);
    let ssh_keys = ssh_keys(
        written.ssh_key.as_deref().unwrap_or_default(),
        written.fips.unwrap_or(false),
        problems,
    );
    pull_secret(written, problems);
    let mirrors = optional::mirrors(written, problems);
    let (feature_set, feature_gates) = optional::features(written, problems);
    let capabilities = optional::capabilities(written, problems);
    let payload = optional::payload(written, problems);
    let os_image_stream = written.os_image_stream.clone().unwrap_or_default();
    known(
        "osImageStream",
        &os_image_stream,
        &["rhel-9", "rhel-10", "centos-10"],
        problems,
    );
    let partitioning = written.cpu_partitioning_mode.as_deref().unwrap_or_default();
    known(
        "cpuPartitioningMode",
        partitioning,
        &["None", "AllNodes"],
        problems,
    );
    let pools = [&control_plane, &arbiter, &compute];
    let baremetal = baremetal::resolve(written, &networking, pools, problems);
    let fencing = fencing::resolve(written, &control_plane, baremetal.as_ref(), problems);
    Some(InstallConfig {
        name,
        base_domain,
        networking,
        control_plane,
        compute,
        arbiter,
        fencing,
        baremetal: baremetal?,
        payload: payload?,
        pull_secret: written.pull_secret.clone(),
        ssh_keys,
        trust_bundle,
        proxy,
        mirrors,
        fips: written.fips.unwrap_or(false),
        cpu_partitioning: partitioning == "AllNodes",
        feature_set,
        feature_gates,
        capabilities,
        os_image_stream,
    })
}

fn api_version(written: &Written, problems: &mut Problems) {
    match written.api_version.as_deref().unwrap_or_default() {
        "v1" | "v1beta3" | "v1beta4" => {}
        "" => problems.add("apiVersion", "is missing", "write apiVersion: v1"),
        other => problems.add(
            "apiVersion",
            format!("{} is not supported", shown(other)),
            "write v1",
        ),
    }
}

fn names(written: &Written, problems: &mut Problems) -> (String, String) {
    let name = written
        .metadata
        .as_ref()
        .and_then(|metadata| metadata.name.clone());
    let name = name.unwrap_or_default();
    if name.is_empty() {
        problems.add("metadata.name", "is missing", "write the cluster's name");
    } else if name.contains('.') {
        problems.add(
            "metadata.name",
            format!("{} has a dot", shown(&name)),
            "write one label; the rest of the domain is baseDomain",
        );
    } else if name.len() > 54 {
        problems.add(
            "metadata.name",
            format!("is {} characters long", name.len()),
            "write at most 54",
        );
    } else if !is_label(&name) {
        problems.add(
            "metadata.name",
            format!("{} is not a DNS label", shown(&name)),
            "write lower-case letters, digits and dashes, with a letter or digit at both ends",
        );
    }
    let base = written.base_domain.as_deref().unwrap_or_default();
    let base = base.strip_suffix('.').unwrap_or(base).to_owned();
    let domain = format!("{name}.{base}");
    if base.is_empty() {
        problems.add(
            "baseDomain",
            "is missing",
            "write the site's domain, such as example.com",
        );
    } else if !is_subdomain(&base) {
        problems.add(
            "baseDomain",
            format!("{} is not a DNS name", shown(&base)),
            "write lower-case labels with dots between them, such as example.com",
        );
    } else if domain.len() > 253 {
        problems.add(
            "baseDomain",
            format!(
                "with the cluster's name it is {} characters long",
                domain.len()
            ),
            "253 is the most",
        );
    }
    (name, base)
}

fn proxy(
    written: &Written,
    networking: &super::Networking,
    domain: &str,
    problems: &mut Problems,
) -> Option<Proxy> {
    let proxy = written.proxy.as_ref()?;
    if proxy.http.is_none() && proxy.https.is_none() {
        problems.add(
            "proxy",
            "names no proxy",
            "write httpProxy, httpsProxy, or remove proxy",
        );
    }
    for (field, value, schemes) in [
        ("httpProxy", &proxy.http, &["http"][..]),
        ("httpsProxy", &proxy.https, &["http", "https"]),
    ] {
        let Some(value) = value else { continue };
        let path = format!("proxy.{field}");
        let remedy = format!("write {}://host:port", schemes.join(":// or "));
        // The URL may hold a password: it is not shown.
        let Ok(url) = url::Url::parse(value.expose()) else {
            problems.add(path, "is not a URL", remedy);
            continue;
        };
        if !schemes.contains(&url.scheme()) || url.host_str().is_none() {
            problems.add(path, format!("is a {}: URL", shown(url.scheme())), remedy);
            continue;
        }
        let address = url.host_str().and_then(|host| {
            host.trim_matches(['[', ']'])
                .parse::<std::net::IpAddr>()
                .ok()
        });
        let inside = networking
            .service
            .iter()
            .chain(networking.cluster.iter().map(|n| &n.cidr));
        if let Some(address) = address
            && let Some(net) = inside.into_iter().find(|net| net.contains(&address))
        {
            problems.add(
                path,
                format!("{address} is in the cluster's own network {net}"),
                "use a proxy outside of the cluster",
            );
        }
    }
    let no_proxy = proxy.except.as_deref().unwrap_or_default();
    text::no_proxy(no_proxy, problems);
    let own = networking
        .machine
        .iter()
        .chain(&networking.service)
        .chain(networking.cluster.iter().map(|network| &network.cidr));
    let entries: BTreeSet<String> = ["127.0.0.1", "localhost", ".svc", ".cluster.local"]
        .into_iter()
        .map(String::from)
        .chain(own.map(ToString::to_string))
        .chain([format!("api-int.{domain}")])
        .chain(
            no_proxy
                .split(',')
                .filter(|entry| !entry.is_empty())
                .map(String::from),
        )
        .collect();
    let no_proxy = if no_proxy == "*" {
        vec!["*".into()]
    } else {
        entries.into_iter().collect()
    };
    Some(Proxy {
        http: proxy.http.clone(),
        https: proxy.https.clone(),
        no_proxy,
    })
}

/// Fields that OpenShift has and bare metal has not.
fn unsupported(written: &Written, problems: &mut Problems) {
    let publish = written.publish.as_deref().unwrap_or_default();
    if matches!(publish, "Internal" | "Mixed") {
        problems.add(
            "publish",
            format!("{publish} is not possible on bare metal"),
            "write External, or remove it",
        );
    } else {
        known("publish", publish, &["External"], problems);
    }
    if !written
        .credentials_mode
        .as_deref()
        .unwrap_or_default()
        .is_empty()
    {
        problems.add(
            "credentialsMode",
            "has no meaning on bare metal",
            "remove it",
        );
    }
    if written.bootstrap_in_place.is_some() {
        problems.add(
            "bootstrapInPlace",
            "is not supported on platform baremetal",
            "remove it; for one node write controlPlane.replicas: 1 and compute replicas: 0",
        );
    }
}

fn trust_bundle(written: &Written, problems: &mut Problems) -> Option<TrustBundle> {
    let policy = written
        .additional_trust_bundle_policy
        .as_deref()
        .unwrap_or_default();
    known(
        "additionalTrustBundlePolicy",
        policy,
        &["Proxyonly", "Always"],
        problems,
    );
    let pem = written.additional_trust_bundle.as_ref()?;
    check_certificates("additionalTrustBundle", pem, problems);
    Some(TrustBundle {
        pem: pem.clone(),
        always: policy == "Always",
    })
}

fn pull_secret(written: &Written, problems: &mut Problems) {
    let Some(secret) = &written.pull_secret else {
        return;
    };
    let remedy =
        r#"write {"auths": {"registry.example": {"auth": "..."}}} as one line in single quotes"#;
    let Ok(value) = serde_json::from_str::<serde_json::Value>(secret.expose()) else {
        problems.add("pullSecret", "is not JSON", remedy);
        return;
    };
    let auths = value.get("auths").and_then(|auths| auths.as_object());
    let Some(auths) = auths.filter(|auths| !auths.is_empty()) else {
        problems.add("pullSecret", "has no auths", remedy);
        return;
    };
    for (registry, entry) in auths {
        let has = |key: &str| {
            entry
                .get(key)
                .is_some_and(|v| v.as_str().is_some_and(|v| !v.is_empty()))
        };
        if !has("auth") && !has("credsStore") {
            problems.add(
                "pullSecret",
                format!(
                    "the entry of {} has neither auth nor credsStore",
                    shown(registry)
                ),
                remedy,
            );
        }
    }
}

/// A word of a fixed list.
fn known(path: &str, value: &str, words: &[&str], problems: &mut Problems) -> bool {
    let good = words.contains(&value);
    if !good {
        let remedy = match did_you_mean(value, words.iter().copied()) {
            Some(near) => format!("did you mean {near}?"),
            None if words.len() == 1 => format!("write {}", words[0]),
            None => format!("write one of {}", words.join(", ")),
        };
        problems.add(path, format!("{} is not known", shown(value)), remedy);
    }
    good
}
