//! Ports of a node that act as one.

use jiff::Timestamp;
use model::Mac;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{Object, Row};

#[derive(Clone, Serialize, Deserialize)]
pub struct Portgroup {
    pub id: u64,
    pub uuid: Uuid,
    pub node_uuid: Uuid,
    pub name: Option<String>,
    pub address: Option<Mac>,
    pub mode: String,
    pub properties: Object,
    pub standalone_ports_supported: bool,
    pub extra: Object,
    pub internal_info: Object,
    pub physical_network: Option<String>,
    pub category: Option<String>,
    pub created_at: Timestamp,
    pub updated_at: Option<Timestamp>,
}

impl Portgroup {
    pub fn new(uuid: Uuid, node_uuid: Uuid, now: Timestamp) -> Self {
        Self {
            id: 0,
            uuid,
            node_uuid,
            name: None,
            address: None,
            mode: "active-backup".into(),
            properties: Object::new(),
            standalone_ports_supported: true,
            extra: Object::new(),
            internal_info: Object::new(),
            physical_network: None,
            category: None,
            created_at: now,
            updated_at: None,
        }
    }
}

impl Row for Portgroup {
    const KIND: &'static str = "portgroup";

    fn id(&self) -> u64 {
        self.id
    }

    fn uuid(&self) -> Uuid {
        self.uuid
    }

    fn names(&self) -> Vec<String> {
        self.address
            .map(|mac| mac.to_string())
            .into_iter()
            .chain(self.name.clone())
            .collect()
    }

    fn owner(&self) -> Option<Uuid> {
        Some(self.node_uuid)
    }
}
