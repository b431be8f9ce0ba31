//! The steps an agent offers: read from its answer, joined with the driver's, priorities put in, arguments checked.

use lifecycle::node::{Interface, Runner, StepKind, StepSpec};
use serde_json::{Value, json};

use super::Settings;
use crate::record::{Node, Object};

/// What an agent said of its steps.
pub struct Offer {
    pub steps: Vec<Offered>,
    /// Its hardware managers; a step is run only by the ones it was fetched from.
    pub version: Value,
}

pub struct Offered {
    pub spec: StepSpec,
    /// Name, and whether it must be given. Nothing where the agent does not say.
    pub args: Option<Vec<(String, bool)>>,
}

/// The agent's commands for a kind of step.
pub struct Words {
    pub fetch: String,
    pub execute: String,
    /// The parameter with the hardware managers' versions, and the keys of the results.
    pub version: String,
    pub steps: String,
    pub step: String,
}

impl Words {
    pub fn of(kind: StepKind) -> Self {
        let kind = kind.as_str();
        Self {
            fetch: format!("{kind}.get_{kind}_steps"),
            execute: format!("{kind}.execute_{kind}_step"),
            version: format!("{kind}_version"),
            steps: format!("{kind}_steps"),
            step: format!("{kind}_step"),
        }
    }
}

impl Offer {
    /// Reads the answer of `get_*_steps`. A step that makes no sense is left out, and so cannot be asked for.
    pub fn read(words: &Words, answer: &Value, node: &Node) -> Self {
        let managers = answer.get(&words.steps).and_then(Value::as_object);
        let all = managers.into_iter().flat_map(Object::values);
        let steps = all
            .filter_map(Value::as_array)
            .flatten()
            .filter_map(read)
            .filter(|offered| is_agents(offered.spec.interface, node));
        Self {
            steps: steps.collect(),
            version: answer
                .get("hardware_manager_version")
                .cloned()
                .unwrap_or_else(|| json!({})),
        }
    }

    /// Everything wrong with the arguments of what the client asked for.
    pub fn problems(&self, asked: &[StepSpec]) -> Vec<String> {
        let mut problems = Vec::new();
        for step in asked.iter().filter(|step| !step.reserved()) {
            let offered = self.steps.iter().find(|offered| {
                offered.spec.interface == step.interface && offered.spec.step == step.step
            });
            let Some(known) = offered.and_then(|offered| offered.args.as_ref()) else {
                continue;
            };
            for name in step.args.keys() {
                if !known.iter().any(|(arg, _)| arg == name) {
                    let known: Vec<&str> = known.iter().map(|(arg, _)| arg.as_str()).collect();
                    let there = if known.is_empty() {
                        "none".to_string()
                    } else {
                        known.join(", ")
                    };
                    problems.push(format!(
                        "step {step} has no argument {name:?}; there are {there}"
                    ));
                }
            }
            for (name, required) in known {
                if *required && !step.args.contains_key(name) {
                    problems.push(format!("step {step} needs the argument {name:?}"));
                }
            }
        }
        problems
    }

    /// All steps there are for the node: the agent's, and the driver's where they are not the agent's matter.
    pub fn joined(
        &self,
        drivers: Vec<StepSpec>,
        kind: StepKind,
        settings: &Settings,
        node: &Node,
    ) -> Vec<StepSpec> {
        let own = drivers
            .into_iter()
            .filter(|step| !is_agents(step.interface, node));
        let agents = self.steps.iter().map(|offered| offered.spec.clone());
        let mut all: Vec<StepSpec> = agents.chain(own).collect();
        if kind != StepKind::Deploy {
            for step in &mut all {
                step.priority = settings.priority(step);
            }
        }
        all
    }

    /// As other clients of the API expect to find them.
    pub fn cache(&self, words: &Words, node: &mut Node) {
        let mut by_interface = Object::new();
        for offered in &self.steps {
            let list = by_interface
                .entry(offered.spec.interface.as_str())
                .or_insert_with(|| json!([]));
            if let (Value::Array(list), Ok(step)) = (list, serde_json::to_value(&offered.spec)) {
                list.push(step);
            }
        }
        let key = format!("agent_cached_{}", words.steps);
        let now = crate::api::Stamp(jiff::Timestamp::now()).to_string();
        let info = &mut node.driver_internal_info;
        info.insert(format!("{key}_refreshed"), now.into());
        info.insert(key, by_interface.into());
        info.insert("hardware_manager_version".into(), self.version.clone());
    }
}

impl Settings {
    fn priority(&self, step: &StepSpec) -> u32 {
        let name = step.to_string();
        if let Some(priority) = self.step_priorities.get(&name) {
            return *priority;
        }
        match name.as_str() {
            "deploy.erase_devices" => self.erase_devices_priority,
            "deploy.erase_devices_metadata" => self.erase_devices_metadata_priority,
            _ => step.priority,
        }
    }
}

/// Whether steps of this interface are run by the agent on this node.
fn is_agents(interface: Interface, node: &Node) -> bool {
    match interface {
        Interface::Deploy => true,
        Interface::Raid => node.interfaces.raid == "agent",
        Interface::Bios
        | Interface::Firmware
        | Interface::Management
        | Interface::Power
        | Interface::Vendor => false,
    }
}

fn read(step: &Value) -> Option<Offered> {
    let flag = |key: &str, default: bool| step.get(key).and_then(Value::as_bool).unwrap_or(default);
    let interface = serde_json::from_value(step.get("interface")?.clone()).ok()?;
    let name = step.get("step")?.as_str()?;
    let priority = step.get("priority").and_then(Value::as_u64).unwrap_or(0);
    let args = step.get("argsinfo").map(|info| {
        let args = info.as_object().into_iter().flatten();
        args.map(|(name, about)| {
            let required = about.get("required").and_then(Value::as_bool);
            (name.clone(), required.unwrap_or(false))
        })
        .collect()
    });
    Some(Offered {
        spec: StepSpec {
            abortable: flag("abortable", false),
            reboot_requested: flag("reboot_requested", false),
            requires_ramdisk: flag("requires_ramdisk", true),
            ..StepSpec::new(
                interface,
                name,
                u32::try_from(priority).unwrap_or(u32::MAX),
                Runner::Agent,
            )
        },
        args,
    })
}
