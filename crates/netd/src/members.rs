//! The nodes this one knows of, wherever the knowledge came from.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Instant;

/// Who told us of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// It says so itself, on the link.
    Mdns,
    /// It is a Node of the Kubernetes API.
    Api,
    /// It is in the configuration.
    Static,
}

/// One node of the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// The short host name, without a domain.
    pub name: String,
    /// In order of preference.
    pub addresses: Vec<IpAddr>,
    pub source: Source,
    /// When it was last heard of.
    pub seen: Instant,
    /// It is of the control plane: it serves the API and etcd.
    pub control_plane: bool,
}

/// All members, by name.
pub type Members = BTreeMap<String, Member>;
