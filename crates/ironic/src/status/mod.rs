//! Every node at a glance: where it is, what it does, what it waits for. For `plinth ironic status`.

mod ask;
mod table;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use ask::{Error, Login, Service, ask};
pub use table::{ago, columns, render};

/// One node, as it is shown.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Line {
    /// Its name, or its uuid where it has none.
    pub node: String,
    pub state: String,
    /// Where it is going, if it is.
    pub target: Option<String>,
    pub power: Option<String>,
    pub step: Option<String>,
    /// How far the step is.
    pub percent: Option<f64>,
    pub waiting_for: Option<String>,
    pub waiting_until: Option<Timestamp>,
    /// When it came into its state, or was last heard in it.
    pub since: Option<Timestamp>,
    pub maintenance: Option<String>,
    pub last_error: Option<String>,
}

/// A node as the API shows it, as far as it is looked at.
#[derive(Debug, Deserialize)]
struct Shown {
    uuid: String,
    name: Option<String>,
    provision_state: String,
    target_provision_state: Option<String>,
    power_state: Option<String>,
    provision_updated_at: Option<String>,
    #[serde(default)]
    maintenance: bool,
    maintenance_reason: Option<String>,
    last_error: Option<String>,
    #[serde(default)]
    driver_internal_info: Value,
    #[serde(default)]
    deploy_step: Value,
    #[serde(default)]
    clean_step: Value,
    #[serde(default)]
    service_step: Value,
}

const FIELDS: &str = "uuid,name,provision_state,target_provision_state,power_state,provision_updated_at,maintenance,\
                      maintenance_reason,last_error,driver_internal_info,deploy_step,clean_step,service_step";

impl From<Shown> for Line {
    fn from(node: Shown) -> Self {
        let steps = [&node.deploy_step, &node.clean_step, &node.service_step];
        let info = &node.driver_internal_info;
        let text = |value: &Value| value.as_str().map(ToOwned::to_owned);
        let reason = node.maintenance_reason;
        Self {
            step: steps.into_iter().find_map(step),
            percent: info["progress"]["percent"].as_f64(),
            waiting_for: text(&info["waiting"]["for"]),
            waiting_until: info["waiting"]["until"].as_str().and_then(time),
            since: node.provision_updated_at.as_deref().and_then(time),
            maintenance: node
                .maintenance
                .then(|| reason.unwrap_or_else(|| "by hand, without a reason".into())),
            node: node.name.unwrap_or(node.uuid),
            state: node.provision_state,
            target: node.target_provision_state,
            power: node.power_state,
            last_error: node.last_error,
        }
    }
}

fn step(step: &Value) -> Option<String> {
    let name = step["step"].as_str()?;
    Some(match step["interface"].as_str() {
        Some(interface) => format!("{interface}.{name}"),
        None => name.to_owned(),
    })
}

fn time(text: &str) -> Option<Timestamp> {
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_node_tells_its_step_and_how_far_it_is() {
        let node = json!({
            "uuid": "u", "name": "worker-0", "provision_state": "wait call-back", "target_provision_state": "active",
            "provision_updated_at": "2026-11-15T17:00:00+00:00",
            "deploy_step": {"interface": "deploy", "step": "write_image"}, "clean_step": {},
            "driver_internal_info": {
                "progress": {"percent": 43.0},
                "waiting": {"for": "step deploy.write_image on the agent", "until": "2026-11-15T17:30:00+00:00"},
            },
        });
        let line = Line::from(serde_json::from_value::<Shown>(node).unwrap());
        assert_eq!(line.node, "worker-0");
        assert_eq!(line.step.as_deref(), Some("deploy.write_image"));
        assert_eq!(line.percent, Some(43.0));
        assert!(line.since < line.waiting_until);
    }

    #[test]
    fn a_node_without_a_name_is_its_uuid_and_what_is_not_said_is_nothing() {
        let node = json!({"uuid": "u", "provision_state": "enroll", "maintenance": true});
        let line = Line::from(serde_json::from_value::<Shown>(node).unwrap());
        assert_eq!((line.node.as_str(), line.step), ("u", None));
        assert_eq!(line.maintenance.unwrap(), "by hand, without a reason");
    }
}
