//! What can be seen of a master that is being replaced, and of those that stay.

use crate::install::{Far, Joined, Metal3, Reach, Trouble};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Through the VIP.
    pub api: Reach<Api>,
    /// As the other masters say.
    pub etcd: Reach<Vec<Member>>,
    /// What a fresh master is made of: the install directory's keys, and a program that masters serve.
    pub assets: Reach<()>,
    pub power: Power,
    /// What was done last and failed.
    pub trouble: Option<Trouble>,
}

/// What this run knows of the old host's power.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Power {
    Unknown,
    Off,
    /// Its BMC could not be made to switch it off, and why.
    Silent(String),
}

/// The master in the API; each part is absent before it is made and after it is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Api {
    pub node: Option<Node>,
    pub host: Option<Host>,
    pub machine: Option<Machine>,
    /// The Secret that a new host's disk is written with is there.
    pub user_data: bool,
    /// Names of certificate requests that it may have made and that nobody has approved yet.
    pub requests: Vec<String>,
    pub metal3: Metal3,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Or why not.
    pub ready: Result<(), String>,
    pub joined: Joined,
}

/// Its BareMetalHost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// The etcd member that it was made for, if it was made by a replacement.
    pub mark: Option<String>,
    pub deleting: bool,
    pub provisioned: bool,
    /// What it is at, for people.
    pub doing: String,
    pub far: Option<Far>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Machine {
    pub deleting: bool,
}

/// A member of etcd.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    pub id: u64,
    /// The master it belongs to, or what is known of a stranger.
    pub node: String,
    pub voter: bool,
    /// It was running at some time.
    pub started: bool,
    /// It answers, and follows a leader; or why not.
    pub well: Result<(), String>,
}

impl Member {
    /// What the objects made for this member carry.
    pub fn mark(&self) -> String {
        mark(self.id)
    }
}

/// As etcd's own tools write it.
pub fn mark(member: u64) -> String {
    format!("{member:x}")
}
