//! The names nodes publish.

use std::fmt::Write as _;

use hickory_proto::rr::Name;
use sha2::{Digest, Sha256};

const MAX_LABEL: usize = 63;

/// What a node offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Every node.
    Workstation,
    /// A node of the control plane.
    Etcd,
}

impl Kind {
    pub const ALL: [Self; 2] = [Self::Workstation, Self::Etcd];

    pub fn port(self) -> u16 {
        match self {
            Self::Workstation => 42424,
            Self::Etcd => 2380,
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Workstation => "Workstation",
            Self::Etcd => "Etcd",
        }
    }

    /// The service type, as a name to browse.
    pub(super) fn service(self) -> Name {
        let label: &[u8] = match self {
            Self::Workstation => b"_workstation",
            Self::Etcd => b"_etcd-server-ssl",
        };
        labels(&[label, b"_tcp", b"local"])
    }
}

/// All service types, by one name (RFC 6763, 9).
pub(super) fn directory() -> Name {
    labels(&[b"_services", b"_dns-sd", b"_udp", b"local"])
}

pub(super) fn host_name(host: &str) -> Name {
    labels(&[short(host).as_bytes(), b"local"])
}

/// `<label>.<service>`.
pub(super) fn instance_name(kind: Kind, label: &str) -> Name {
    let service = kind.service();
    let mut parts: Vec<&[u8]> = vec![label.as_bytes()];
    parts.extend(service.iter());
    labels(&parts)
}

/// `<cluster> Workstation-<host>`; a label that would be too long keeps its ends around a hash.
pub fn instance_label(cluster: &str, kind: Kind, host: &str) -> String {
    let plain = format!("{cluster} {}-{}", kind.title(), short(host));
    if plain.len() <= MAX_LABEL {
        return plain;
    }
    let mut hash = String::new();
    for byte in &Sha256::digest(plain.as_bytes())[..16] {
        let _ = write!(hash, "{byte:02x}");
    }
    let head: String = plain.chars().take(15).collect();
    let skip = plain.chars().count().saturating_sub(16);
    let tail: String = plain.chars().skip(skip).collect();
    let mut label = format!("{head}{hash}{tail}");
    while label.len() > MAX_LABEL {
        label.pop();
    }
    label
}

/// Whether a label can be one of this cluster's, before its host is known.
pub(super) fn may_be_ours(cluster: &str, kind: Kind, label: &str) -> bool {
    let begin: String = format!("{cluster} {}-", kind.title())
        .chars()
        .take(15)
        .collect();
    label.starts_with(&begin)
}

/// The host of `<host>.local`.
pub(super) fn host_of(name: &Name) -> Option<String> {
    let mut parts = name.iter();
    let host = parts.next()?;
    let local = parts.next()?.eq_ignore_ascii_case(b"local") && parts.next().is_none();
    let plain = host
        .iter()
        .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
    (local && plain).then(|| String::from_utf8_lossy(host).to_ascii_lowercase())
}

/// The label in front of a service type.
pub(super) fn label_of(name: &Name, kind: Kind) -> Option<String> {
    if name.base_name() != kind.service() {
        return None;
    }
    String::from_utf8(name.iter().next()?.to_vec()).ok()
}

fn short(host: &str) -> &str {
    host.split('.').next().unwrap_or(host)
}

fn labels(parts: &[&[u8]]) -> Name {
    let mut name = Name::from_labels(parts.iter().map(|part| &part[..part.len().min(MAX_LABEL)]))
        .unwrap_or_else(|_| Name::root());
    name.set_fqdn(true);
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_those_of_the_publisher() {
        assert_eq!(
            instance_label("c1", Kind::Workstation, "master-0.c1.test"),
            "c1 Workstation-master-0"
        );
        assert_eq!(instance_label("c1", Kind::Etcd, "m"), "c1 Etcd-m");
        let long = instance_label(
            &"c".repeat(40),
            Kind::Workstation,
            "master-0-of-a-long-name",
        );
        assert_eq!(long.len(), 63);
        assert!(long.starts_with("ccccccccccccccc") && long.ends_with("0-of-a-long-name"));
        assert!(may_be_ours(&"c".repeat(40), Kind::Workstation, &long));
    }

    #[test]
    fn a_cluster_is_not_another_whose_name_begins_the_same() {
        for (cluster, label, so) in [
            ("a", "a Workstation-x", true),
            ("a", "ab Workstation-x", false),
            ("ab", "a Workstation-x", false),
            ("a", "a Etcd-x", false),
        ] {
            assert_eq!(
                may_be_ours(cluster, Kind::Workstation, label),
                so,
                "{cluster} {label}"
            );
        }
    }

    #[test]
    fn hosts_and_labels_are_read_back() {
        assert_eq!(host_of(&host_name("Node-1.c1.test")), Some("node-1".into()));
        assert_eq!(host_of(&Kind::Etcd.service()), None);
        let name = instance_name(Kind::Etcd, "c1 Etcd-m");
        assert_eq!(label_of(&name, Kind::Etcd), Some("c1 Etcd-m".into()));
        assert_eq!(label_of(&name, Kind::Workstation), None);
    }
}
