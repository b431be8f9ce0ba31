//! What the service remembers: nodes and the things that belong to them.
//!
//! A record is the stored form, secrets included; what a client may see of it is decided in `api`.

mod allocation;
mod history;
mod kept;
mod node;
mod port;
mod portgroup;

use std::sync::Arc;

use uuid::Uuid;

pub use allocation::{Allocation, AllocationState};
pub use history::{Event, Severity};
pub use kept::{Kept, Kind as KeptKind};
pub use node::{
    BootDevice, BootMode, BootOrder, Errand, Hardware, Interfaces, Medium, Node, PowerTarget,
};
pub use port::{Port, Vif};
pub use portgroup::Portgroup;

/// A JSON object of free form.
pub type Object = serde_json::Map<String, serde_json::Value>;

/// What every kind of record has, so that one kind of table holds them all.
pub trait Row {
    const KIND: &'static str;

    /// Order of creation: the default sort key, and the key in the table.
    fn id(&self) -> u64;
    fn uuid(&self) -> Uuid;
    /// The names under which this row and no other may be found: its name, its MAC address.
    fn names(&self) -> Vec<String>;
    /// The node it belongs to.
    fn owner(&self) -> Option<Uuid>;
}

/// Any record.
#[derive(Clone)]
pub enum Record {
    Node(Arc<Node>),
    Port(Arc<Port>),
    Portgroup(Arc<Portgroup>),
    Allocation(Arc<Allocation>),
    Kept(Arc<Kept>),
}

impl From<Node> for Record {
    fn from(node: Node) -> Self {
        Self::Node(Arc::new(node))
    }
}

impl From<Port> for Record {
    fn from(port: Port) -> Self {
        Self::Port(Arc::new(port))
    }
}

impl From<Portgroup> for Record {
    fn from(portgroup: Portgroup) -> Self {
        Self::Portgroup(Arc::new(portgroup))
    }
}

impl From<Allocation> for Record {
    fn from(allocation: Allocation) -> Self {
        Self::Allocation(Arc::new(allocation))
    }
}

impl From<Kept> for Record {
    fn from(kept: Kept) -> Self {
        Self::Kept(Arc::new(kept))
    }
}
