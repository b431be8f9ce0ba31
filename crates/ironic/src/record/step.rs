//! Steps of cleaning, deploying and servicing, and how far a node has come in them.

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::Object;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    pub interface: String,
    pub step: String,
    #[serde(default)]
    pub args: Object,
    #[serde(default)]
    pub priority: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub abortable: Option<bool>,
}

impl Step {
    /// As nodes show the step they are at.
    pub fn shown(&self) -> Object {
        let serde_json::Value::Object(mut shown) = json!({
            "interface": self.interface, "step": self.step, "args": self.args, "priority": self.priority,
        }) else {
            unreachable!("an object literal is an object")
        };
        if let Some(abortable) = self.abortable {
            shown.insert("abortable".into(), abortable.into());
        }
        shown
    }
}

/// The steps of the operation a node is in, and the one it is at.
#[derive(Clone, Default, Serialize, Deserialize)]
pub struct Cursor {
    pub steps: Vec<Step>,
    pub at: usize,
}

impl Cursor {
    pub fn current(&self) -> Option<&Step> {
        self.steps.get(self.at)
    }
}
