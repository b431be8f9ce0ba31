//! A wish for a node of some class, and the node it got.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{Object, Row};

#[derive(Clone, Serialize, Deserialize)]
pub struct Allocation {
    pub id: u64,
    pub uuid: Uuid,
    pub name: Option<String>,
    pub node_uuid: Option<Uuid>,
    pub state: AllocationState,
    pub last_error: Option<String>,
    pub resource_class: Option<String>,
    pub candidate_nodes: Vec<Uuid>,
    pub traits: Vec<String>,
    pub extra: Object,
    pub owner: Option<String>,
    pub created_at: Timestamp,
    pub updated_at: Option<Timestamp>,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AllocationState {
    Allocating,
    Active,
    Error,
}

impl AllocationState {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allocating => "allocating",
            Self::Active => "active",
            Self::Error => "error",
        }
    }
}

impl Row for Allocation {
    const KIND: &'static str = "allocation";

    fn id(&self) -> u64 {
        self.id
    }

    fn uuid(&self) -> Uuid {
        self.uuid
    }

    fn names(&self) -> Vec<String> {
        self.name.iter().cloned().collect()
    }

    fn owner(&self) -> Option<Uuid> {
        self.node_uuid
    }
}
