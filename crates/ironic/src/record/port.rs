//! A network interface of a node.

use jiff::Timestamp;
use model::Mac;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{Object, Row};

#[derive(Clone, Serialize, Deserialize)]
pub struct Port {
    pub id: u64,
    pub uuid: Uuid,
    pub address: Mac,
    pub node_uuid: Uuid,
    pub portgroup_uuid: Option<Uuid>,
    pub name: Option<String>,
    pub description: Option<String>,
    pub extra: Object,
    pub internal_info: Object,
    pub local_link_connection: Object,
    pub pxe_enabled: bool,
    pub physical_network: Option<String>,
    pub is_smartnic: bool,
    pub vendor: Option<String>,
    pub category: Option<String>,
    pub created_at: Timestamp,
    pub updated_at: Option<Timestamp>,
}

impl Port {
    pub fn new(uuid: Uuid, address: Mac, node_uuid: Uuid, now: Timestamp) -> Self {
        Self {
            id: 0,
            uuid,
            address,
            node_uuid,
            portgroup_uuid: None,
            name: None,
            description: None,
            extra: Object::new(),
            internal_info: Object::new(),
            local_link_connection: Object::new(),
            pxe_enabled: true,
            physical_network: None,
            is_smartnic: false,
            vendor: None,
            category: None,
            created_at: now,
            updated_at: None,
        }
    }
}

impl Row for Port {
    const KIND: &'static str = "port";

    fn id(&self) -> u64 {
        self.id
    }

    fn uuid(&self) -> Uuid {
        self.uuid
    }

    fn names(&self) -> Vec<String> {
        // A name has no colons, so the two cannot be taken for one another.
        std::iter::once(self.address.to_string())
            .chain(self.name.clone())
            .collect()
    }

    fn owner(&self) -> Option<Uuid> {
        Some(self.node_uuid)
    }
}

/// A virtual interface that a tenant has attached to a node.
#[derive(Clone, Serialize, Deserialize)]
pub struct Vif {
    pub id: String,
    #[serde(flatten)]
    pub rest: Object,
}
