//! What can be asked of a node.

use reqwest::Method;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::node::escaped;
use super::{Error, Ironic};

/// A change of the provision state.
#[derive(Debug, Clone, PartialEq)]
pub enum Verb {
    Manage,
    Inspect,
    Provide,
    Deploy(Box<Deploy>),
    Undeploy,
    Adopt,
    Abort,
    /// Steps run in the order given.
    Clean(Vec<Step>),
    Service(Vec<Step>),
    Unhold,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Deploy {
    pub config_drive: Option<ConfigDrive>,
    /// Added to the driver's own, by priority.
    pub steps: Vec<Step>,
}

/// What the installed system finds on its config drive.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct ConfigDrive {
    pub meta_data: Map<String, Value>,
    /// An Ignition config, or whatever the image understands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_data: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_data: Option<Value>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Step {
    pub interface: String,
    pub step: String,
    pub args: Map<String, Value>,
    /// For deploy steps only; Ironic wants it there, and nowhere else.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Power {
    On,
    Off,
    SoftOff,
    Reboot,
    SoftReboot,
}

impl Power {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::On => "power on",
            Self::Off => "power off",
            Self::SoftOff => "soft power off",
            Self::Reboot => "rebooting",
            Self::SoftReboot => "soft rebooting",
        }
    }
}

impl Verb {
    fn body(&self) -> Value {
        match self {
            Self::Manage => json!({"target": "manage"}),
            Self::Inspect => json!({"target": "inspect"}),
            Self::Provide => json!({"target": "provide"}),
            Self::Deploy(deploy) => {
                let mut body = json!({"target": "active"});
                if let Some(drive) = &deploy.config_drive {
                    body["configdrive"] = json!(drive);
                }
                if !deploy.steps.is_empty() {
                    body["deploy_steps"] = json!(deploy.steps);
                }
                body
            }
            Self::Undeploy => json!({"target": "deleted"}),
            Self::Adopt => json!({"target": "adopt"}),
            Self::Abort => json!({"target": "abort"}),
            Self::Clean(steps) => json!({"target": "clean", "clean_steps": steps}),
            Self::Service(steps) => json!({"target": "service", "service_steps": steps}),
            Self::Unhold => json!({"target": "unhold"}),
        }
    }
}

impl Ironic {
    /// Accepted, which is not done: the node's state tells how it goes.
    pub async fn provision(&self, ident: &str, verb: &Verb) -> Result<(), Error> {
        let path = format!("/v1/nodes/{}/states/provision", escaped(ident));
        let body = verb.body();
        self.tell(
            "change the provision state",
            &Method::PUT,
            &path,
            Some(&body),
        )
        .await
    }

    pub async fn power(&self, ident: &str, power: Power) -> Result<(), Error> {
        let path = format!("/v1/nodes/{}/states/power", escaped(ident));
        let body = json!({"target": power.as_str()});
        self.tell("change the power", &Method::PUT, &path, Some(&body))
            .await
    }

    pub async fn set_maintenance(&self, ident: &str, reason: &str) -> Result<(), Error> {
        let path = format!("/v1/nodes/{}/maintenance", escaped(ident));
        let body = json!({"reason": reason});
        self.tell("begin maintenance", &Method::PUT, &path, Some(&body))
            .await
    }

    pub async fn end_maintenance(&self, ident: &str) -> Result<(), Error> {
        let path = format!("/v1/nodes/{}/maintenance", escaped(ident));
        self.tell("end maintenance", &Method::DELETE, &path, None)
            .await
    }
}
