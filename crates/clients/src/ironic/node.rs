//! Nodes and ports.

use std::collections::BTreeMap;

use model::Mac;
use reqwest::Method;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::{Error, Ironic};

/// A free-form object.
type Object = Map<String, Value>;

/// What is to be enrolled.
#[derive(Debug, Clone, Default, Serialize)]
pub struct NewNode {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uuid: Option<Uuid>,
    pub name: String,
    pub driver: String,
    /// Secrets included.
    pub driver_info: Object,
    pub properties: Object,
    #[serde(skip_serializing_if = "Object::is_empty")]
    pub extra: Object,
    /// By the API's names: `boot_interface`, `deploy_interface`; those left out are the driver's defaults.
    #[serde(flatten)]
    pub interfaces: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub automated_clean: Option<bool>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub disable_power_off: bool,
}

/// A node as Ironic shows it. What it does not say is as if empty.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Node {
    pub uuid: Uuid,
    #[serde(default)]
    pub name: Option<String>,
    #[serde(default)]
    pub driver: String,
    pub provision_state: String,
    #[serde(default)]
    pub target_provision_state: Option<String>,
    #[serde(default)]
    pub power_state: Option<String>,
    #[serde(default)]
    pub target_power_state: Option<String>,
    #[serde(default)]
    pub last_error: Option<String>,
    #[serde(default)]
    pub maintenance: bool,
    #[serde(default)]
    pub maintenance_reason: Option<String>,
    #[serde(default)]
    pub fault: Option<String>,
    /// Who works on it.
    #[serde(default)]
    pub reservation: Option<String>,
    #[serde(default)]
    pub instance_uuid: Option<String>,
    #[serde(default)]
    pub boot_interface: Option<String>,
    #[serde(default)]
    pub deploy_interface: Option<String>,
    #[serde(default)]
    pub automated_clean: Option<bool>,
    #[serde(default)]
    pub properties: Object,
    #[serde(default)]
    pub instance_info: Object,
    #[serde(default)]
    pub driver_info: Object,
    #[serde(default)]
    pub driver_internal_info: Object,
    #[serde(default)]
    pub extra: Object,
}

impl Node {
    /// Whether it rests where it is: nothing is being done to it, and nothing is about to be.
    pub fn rests_in(&self, state: &str) -> bool {
        self.provision_state == state
            && self.target_provision_state.is_none()
            && self.reservation.is_none()
    }
}

/// One operation of a JSON patch; Ironic knows these three.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "op", rename_all = "lowercase")]
pub enum Patch {
    Add { path: String, value: Value },
    Replace { path: String, value: Value },
    Remove { path: String },
}

impl Patch {
    pub fn add(path: impl Into<String>, value: impl Into<Value>) -> Self {
        Self::Add {
            path: path.into(),
            value: value.into(),
        }
    }

    pub fn remove(path: impl Into<String>) -> Self {
        Self::Remove { path: path.into() }
    }
}

#[derive(Debug, Clone, Serialize)]
pub struct NewPort {
    pub node_uuid: Uuid,
    pub address: Mac,
    pub pxe_enabled: bool,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Port {
    pub uuid: Uuid,
    pub address: Mac,
    pub node_uuid: Uuid,
    #[serde(default)]
    pub pxe_enabled: bool,
}

/// Whether one interface of a node has all it needs; `None` where it is not in use.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Validation {
    pub result: Option<bool>,
    #[serde(default)]
    pub reason: Option<String>,
}

impl Ironic {
    /// The hardware types that can be driven; none means that no conductor is alive.
    pub async fn drivers(&self) -> Result<Vec<String>, Error> {
        #[derive(Deserialize)]
        struct Drivers {
            drivers: Vec<Driver>,
        }
        #[derive(Deserialize)]
        struct Driver {
            name: String,
        }
        let found: Drivers = self.get("list drivers", "/v1/drivers").await?;
        Ok(found.drivers.into_iter().map(|d| d.name).collect())
    }

    pub async fn create_node(&self, node: &NewNode) -> Result<Node, Error> {
        self.ask(
            "create a node",
            &Method::POST,
            "/v1/nodes",
            Some(&json!(node)),
        )
        .await
    }

    /// By uuid or name; nothing where there is none.
    pub async fn find_node(&self, ident: &str) -> Result<Option<Node>, Error> {
        match self.node(ident).await {
            Ok(node) => Ok(Some(node)),
            Err(error) if error.is_missing() => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub async fn node(&self, ident: &str) -> Result<Node, Error> {
        self.get("read a node", &format!("/v1/nodes/{}", escaped(ident)))
            .await
    }

    /// All of them.
    pub async fn nodes(&self) -> Result<Vec<Node>, Error> {
        self.all_nodes("detail=True", |node: &Node| node.uuid.to_string())
            .await
    }

    /// Every node, page by page, as the query has it shown.
    pub(super) async fn all_nodes<T: DeserializeOwned>(
        &self,
        query: &str,
        id: impl Fn(&T) -> String,
    ) -> Result<Vec<T>, Error> {
        #[derive(Deserialize)]
        struct Page<T> {
            nodes: Vec<T>,
        }
        const PAGE: usize = 1000;
        let mut all: Vec<T> = Vec::new();
        loop {
            let marker = all.last().map(|node| format!("&marker={}", id(node)));
            let marker = marker.unwrap_or_default();
            let path = format!("/v1/nodes?{query}&limit={PAGE}{marker}");
            let page: Page<T> = self.get("list nodes", &path).await?;
            let last = page.nodes.len() < PAGE;
            all.extend(page.nodes);
            if last {
                return Ok(all);
            }
        }
    }

    pub async fn patch_node(&self, ident: &str, patch: &[Patch]) -> Result<Node, Error> {
        let path = format!("/v1/nodes/{}", escaped(ident));
        self.ask("change a node", &Method::PATCH, &path, Some(&json!(patch)))
            .await
    }

    /// One that is gone already is no trouble.
    pub async fn delete_node(&self, ident: &str) -> Result<(), Error> {
        let path = format!("/v1/nodes/{}", escaped(ident));
        match self
            .tell("delete a node", &Method::DELETE, &path, None)
            .await
        {
            Err(error) if error.is_missing() => Ok(()),
            outcome => outcome,
        }
    }

    pub async fn validate(&self, ident: &str) -> Result<BTreeMap<String, Validation>, Error> {
        let path = format!("/v1/nodes/{}/validate", escaped(ident));
        self.get("validate a node", &path).await
    }

    /// What inspection found; nothing before the first.
    pub async fn inventory(&self, ident: &str) -> Result<Option<Value>, Error> {
        let path = format!("/v1/nodes/{}/inventory", escaped(ident));
        match self.get("read a node's inventory", &path).await {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.is_missing() => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub async fn create_port(&self, port: &NewPort) -> Result<Port, Error> {
        self.ask(
            "create a port",
            &Method::POST,
            "/v1/ports",
            Some(&json!(port)),
        )
        .await
    }

    pub async fn port_of(&self, mac: Mac) -> Result<Option<Port>, Error> {
        let ports = self.ports(&format!("address={mac}")).await?;
        Ok(ports.into_iter().next())
    }

    pub async fn ports_of(&self, node: Uuid) -> Result<Vec<Port>, Error> {
        self.ports(&format!("node={node}")).await
    }

    async fn ports(&self, filter: &str) -> Result<Vec<Port>, Error> {
        #[derive(Deserialize)]
        struct Ports {
            ports: Vec<Port>,
        }
        let path = format!("/v1/ports?detail=True&{filter}");
        let found: Ports = self.get("list ports", &path).await?;
        Ok(found.ports)
    }
}

/// Names have letters, digits and `-._~` only; anything else is not one, and must not become part of a path.
pub(super) fn escaped(ident: &str) -> String {
    ident
        .bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                char::from(byte).to_string()
            }
            other => format!("%{other:02X}"),
        })
        .collect()
}
