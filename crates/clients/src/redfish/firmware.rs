//! Firmware: which versions, and new ones.

use serde_json::{Value, json};

use super::Error;
use super::talk::Client;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Component {
    pub id: String,
    pub name: Option<String>,
    pub version: Option<String>,
    pub updateable: Option<bool>,
    pub path: String,
}

impl Client {
    /// Empty where the BMC lists none.
    pub async fn firmware(&self) -> Result<Vec<Component>, Error> {
        let operation = "read the firmware versions";
        let root = self.get(operation, "/redfish/v1/").await?;
        let Some(path) = root.link("/UpdateService") else {
            return Ok(Vec::new());
        };
        let Some(service) = self.find(operation, path).await? else {
            return Ok(Vec::new());
        };
        let Some(path) = service.link("/FirmwareInventory") else {
            return Ok(Vec::new());
        };
        let members = self.members_if_any(operation, path).await?;
        let components = members.into_iter().map(|member| Component {
            id: member.text_at("/Id").unwrap_or_default().to_string(),
            name: member.text_at("/Name").map(ToString::to_string),
            version: member.text_at("/Version").map(ToString::to_string),
            updateable: member.body.get("Updateable").and_then(Value::as_bool),
            path: member.path,
        });
        Ok(components.collect())
    }

    /// Has the BMC fetch and apply an update, and waits for its task to end.
    pub async fn update_firmware(&self, image: &str, targets: &[String]) -> Result<(), Error> {
        let operation = "update the firmware";
        let root = self.get(operation, "/redfish/v1/").await?;
        let service = self
            .get(operation, root.must_link(operation, "/UpdateService")?)
            .await?;
        let action = "#UpdateService.SimpleUpdate";
        let missing = || service.missing(operation, "/Actions/#UpdateService.SimpleUpdate/target");
        let target = service.action(action).ok_or_else(missing)?;
        let mut body = json!({"ImageURI": image});
        if !targets.is_empty() {
            body["Targets"] = json!(targets);
        }
        self.post(operation, target, Some(&body)).await.map(drop)
    }
}
