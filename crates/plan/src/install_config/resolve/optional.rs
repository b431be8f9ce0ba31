//! What a file may say and most do not: mirrors, features, capabilities, the payload.

use super::super::written::Written;
use super::super::{Mirror, Payload};
use super::known;
use super::text::{is_sha256, shown};
use crate::problem::Problems;

pub fn mirrors(written: &Written, problems: &mut Problems) -> Vec<Mirror> {
    if !written.image_content_sources.is_empty() {
        problems.add(
            "imageContentSources",
            "stands beside imageDigestSources",
            "keep imageDigestSources only",
        );
    }
    let mut mirrors = Vec::new();
    for (at, mirror) in written.image_digest_sources.iter().enumerate() {
        let path = format!("imageDigestSources[{at}]");
        let Some(mirror) = mirror else { continue };
        let source = mirror.source.clone().unwrap_or_default();
        if source.is_empty() || source.contains("://") || source.contains(char::is_whitespace) {
            problems.add(
                format!("{path}.source"),
                format!("{} is not a repository", shown(&source)),
                "write one such as quay.io/openshift-release-dev/ocp-release",
            );
        }
        let policy = mirror
            .source_policy
            .as_deref()
            .unwrap_or("AllowContactingSource");
        known(
            &format!("{path}.sourcePolicy"),
            policy,
            &["AllowContactingSource", "NeverContactSource"],
            problems,
        );
        let list: Vec<String> = mirror.mirrors.iter().flatten().cloned().collect();
        if policy == "NeverContactSource" && list.is_empty() {
            problems.add(
                format!("{path}.mirrors"),
                "NeverContactSource without mirrors leaves nothing",
                "name at least one mirror",
            );
        }
        mirrors.push(Mirror {
            source,
            mirrors: list,
            never_contact_source: policy == "NeverContactSource",
        });
    }
    mirrors
}

pub fn features(written: &Written, problems: &mut Problems) -> (String, Vec<String>) {
    const SETS: [&str; 4] = [
        "Default",
        "TechPreviewNoUpgrade",
        "DevPreviewNoUpgrade",
        "CustomNoUpgrade",
    ];
    let set = written.feature_set.clone().unwrap_or_default();
    known("featureSet", &set, &SETS, problems);
    let gates: Vec<String> = written.feature_gates.iter().flatten().cloned().collect();
    if !gates.is_empty() && set != "CustomNoUpgrade" {
        problems.add(
            "featureGates",
            "need featureSet CustomNoUpgrade",
            "write it, or remove featureGates",
        );
    }
    for (at, gate) in gates.iter().enumerate() {
        let good = gate.split_once('=').is_some_and(|(name, value)| {
            !name.is_empty()
                && name.bytes().all(|b| b.is_ascii_alphanumeric())
                && matches!(value, "true" | "false")
        });
        if !good {
            problems.add(
                format!("featureGates[{at}]"),
                format!("{} is not a gate", shown(gate)),
                "write Name=true or Name=false",
            );
        }
    }
    (set, gates)
}

const CAPABILITIES: [&str; 17] = [
    "baremetal",
    "MachineAPI",
    "Ingress",
    "marketplace",
    "openshift-samples",
    "Console",
    "Insights",
    "Storage",
    "CSISnapshot",
    "NodeTuning",
    "Build",
    "DeploymentConfig",
    "ImageRegistry",
    "OperatorLifecycleManager",
    "OperatorLifecycleManagerV1",
    "CloudCredential",
    "CloudControllerManager",
];

pub fn capabilities(written: &Written, problems: &mut Problems) -> Vec<String> {
    let Some(capabilities) = &written.capabilities else {
        return Vec::new();
    };
    let set = capabilities
        .baseline_capability_set
        .as_deref()
        .unwrap_or("vCurrent");
    let versioned = set
        .strip_prefix("v4.")
        .and_then(|minor| minor.parse::<u32>().ok())
        .is_some_and(|minor| minor >= 11);
    if !versioned {
        known(
            "capabilities.baselineCapabilitySet",
            set,
            &["None", "vCurrent"],
            problems,
        );
    }
    let path = "capabilities.additionalEnabledCapabilities";
    let more: Vec<String> = capabilities
        .additional_enabled_capabilities
        .iter()
        .flatten()
        .cloned()
        .collect();
    for (at, name) in more.iter().enumerate() {
        known(&format!("{path}[{at}]"), name, &CAPABILITIES, problems);
    }
    if set == "None" {
        for needed in ["baremetal", "MachineAPI", "Ingress"] {
            if !more.iter().any(|name| name == needed) {
                problems.add(
                    path,
                    format!("{needed} is missing"),
                    format!("add {needed}: a bare metal cluster needs it"),
                );
            }
        }
    }
    more
}

pub fn payload(written: &Written, problems: &mut Problems) -> Option<Payload> {
    let payload = written.payload.clone().unwrap_or_default();
    let kind = payload.kind.as_deref().unwrap_or("builtin");
    known("payload.type", kind, &["builtin", "kubernetes"], problems);
    if kind != "kubernetes" {
        for (name, value) in [
            ("version", &payload.version),
            ("source", &payload.source),
            ("sha256", &payload.sha256),
        ] {
            if value.is_some() {
                problems.add(
                    format!("payload.{name}"),
                    "belongs to payload kubernetes",
                    "remove it, or write type: kubernetes",
                );
            }
        }
        return (kind == "builtin").then_some(Payload::Builtin);
    }
    let version = payload.version.unwrap_or_default();
    let numbers: Vec<_> = version.trim_start_matches('v').split('.').collect();
    let numeric = |part: &&str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    if !(numbers.len() == 3 && numbers.iter().all(numeric)) {
        problems.add(
            "payload.version",
            format!("{} is not a version", shown(&version)),
            "write one such as v1.36.1",
        );
    }
    let source = payload.source.unwrap_or_default();
    let good = source.starts_with('/')
        || source.starts_with("./")
        || (source.starts_with("http://") || source.starts_with("https://"))
            && url::Url::parse(&source).is_ok();
    if !good {
        problems.add(
            "payload.source",
            format!("{} is neither a URL nor a path", shown(&source)),
            "write where kubernetes-server-linux-amd64.tar.gz is",
        );
    }
    if let Some(sha256) = &payload.sha256
        && !is_sha256(sha256)
    {
        problems.add(
            "payload.sha256",
            "is not a SHA-256 checksum",
            "write 64 hexadecimal digits",
        );
    }
    Some(Payload::Kubernetes {
        version: format!("v{}", version.trim_start_matches('v')),
        source,
        sha256: payload.sha256.map(|sum| sum.to_lowercase()),
    })
}
