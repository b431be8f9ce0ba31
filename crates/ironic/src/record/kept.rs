//! Objects that are kept for clients as they wrote them: checked, but seldom looked into.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{Object, Row};

#[derive(Clone, Serialize, Deserialize)]
pub struct Kept {
    pub id: u64,
    pub uuid: Uuid,
    pub kind: Kind,
    /// The node it belongs to.
    pub node_uuid: Option<Uuid>,
    /// Everything else that clients wrote, each field with a value.
    pub content: Object,
    pub created_at: Timestamp,
    pub updated_at: Option<Timestamp>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    Chassis,
    VolumeConnector,
    VolumeTarget,
    DeployTemplate,
    Runbook,
    InspectionRule,
}

impl Kept {
    pub fn new(kind: Kind, uuid: Uuid, now: Timestamp) -> Self {
        Self {
            id: 0,
            uuid,
            kind,
            node_uuid: None,
            content: Object::new(),
            created_at: now,
            updated_at: None,
        }
    }

    fn text(&self, field: &str) -> String {
        match self.content.get(field) {
            Some(serde_json::Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
            None => String::new(),
        }
    }
}

impl Kind {
    /// What no two of a kind may share, as a name with a place of its own for each kind.
    pub fn named(self, name: &str) -> String {
        let kind = match self {
            Self::Chassis => "chassis",
            Self::VolumeConnector => "connector",
            Self::VolumeTarget => "target",
            Self::DeployTemplate => "template",
            Self::Runbook => "runbook",
            Self::InspectionRule => "rule",
        };
        format!("{kind}/{name}")
    }
}

impl Row for Kept {
    const KIND: &'static str = "kept";

    fn id(&self) -> u64 {
        self.id
    }

    fn uuid(&self) -> Uuid {
        self.uuid
    }

    fn names(&self) -> Vec<String> {
        let name = match self.kind {
            Kind::Chassis | Kind::InspectionRule => return Vec::new(),
            Kind::VolumeConnector => {
                format!("{}/{}", self.text("type"), self.text("connector_id"))
            }
            Kind::VolumeTarget => format!(
                "{}/{}",
                self.node_uuid.unwrap_or_default(),
                self.text("boot_index")
            ),
            Kind::DeployTemplate | Kind::Runbook => self.text("name"),
        };
        vec![self.kind.named(&name)]
    }

    fn owner(&self) -> Option<Uuid> {
        self.node_uuid
    }
}
