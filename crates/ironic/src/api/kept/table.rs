//! Which fields each kind of kept object has, since when, and what may be in them.

use serde_json::{Value, json};

use crate::api::fault::Fault;
use crate::api::value::{boolean, quoted, text};
use crate::api::version::Version;
use crate::record::{KeptKind, Object};

/// One kind.
pub struct Spec {
    pub kind: KeptKind,
    /// Where it lives, after `/v1/`.
    pub path: &'static str,
    /// The key of its lists.
    pub plural: &'static str,
    /// For messages.
    pub singular: &'static str,
    pub brief: &'static [&'static str],
    /// Whether each belongs to a node.
    pub of_node: bool,
    pub props: &'static [Prop],
    /// Puts right what follows from other fields.
    pub settle: fn(&mut Object),
}

type Check = fn(&Value) -> Result<Value, String>;

pub struct Prop {
    pub name: &'static str,
    pub since: u16,
    pub required: bool,
    pub default: fn() -> Value,
    /// The value as it is kept; or what is wrong with it, to follow the field's name.
    pub check: Check,
}

impl Spec {
    pub fn has_names(&self) -> bool {
        self.props.iter().any(|prop| prop.name == "name")
    }

    /// A field that can be written.
    pub fn pick(&self, name: &str, version: Version) -> Result<&'static Prop, Fault> {
        let found = self.props.iter().find(|prop| prop.name == name);
        let prop = found.ok_or_else(|| {
            Fault::bad_request(format!(
                "A {} has no field {} that can be set.",
                self.singular,
                quoted(name)
            ))
        })?;
        version.needs(prop.since, &format!("Field {name:?}"))?;
        Ok(prop)
    }

    /// Names of all fields, in the order they are shown.
    pub fn all(&self, version: Version) -> Vec<&'static str> {
        let own = self
            .props
            .iter()
            .filter(|prop| prop.since <= version.0)
            .map(|prop| prop.name);
        ["uuid"]
            .into_iter()
            .chain(self.of_node.then_some("node_uuid"))
            .chain(own)
            .chain(["created_at", "updated_at"])
            .collect()
    }

    /// The fields a request names.
    pub fn named(&self, names: &[String], version: Version) -> Result<Vec<&'static str>, Fault> {
        let all = self.all(version);
        names
            .iter()
            .filter(|name| *name != "links")
            .map(|name| {
                all.iter()
                    .find(|field| *field == name)
                    .copied()
                    .ok_or_else(|| {
                        Fault::bad_request(format!(
                            "A {} has no field {}.",
                            self.singular,
                            quoted(name)
                        ))
                    })
            })
            .collect()
    }
}

pub fn chassis() -> &'static Spec {
    &CHASSIS
}

pub fn connectors() -> &'static Spec {
    &CONNECTORS
}

pub fn targets() -> &'static Spec {
    &TARGETS
}

pub fn deploy_templates() -> &'static Spec {
    &TEMPLATES
}

pub fn runbooks() -> &'static Spec {
    &RUNBOOKS
}

pub fn inspection_rules() -> &'static Spec {
    &RULES
}

static CHASSIS: Spec = Spec {
    kind: KeptKind::Chassis,
    path: "chassis",
    plural: "chassis",
    singular: "chassis",
    brief: &["uuid", "description"],
    of_node: false,
    props: &[optional("description", short_text), EXTRA],
    settle: nothing,
};

static CONNECTORS: Spec = Spec {
    kind: KeptKind::VolumeConnector,
    path: "volume/connectors",
    plural: "connectors",
    singular: "volume connector",
    brief: &["uuid", "node_uuid", "type", "connector_id"],
    of_node: true,
    props: &[
        required("type", connector_type),
        required("connector_id", full_text),
        EXTRA,
    ],
    settle: nothing,
};

static TARGETS: Spec = Spec {
    kind: KeptKind::VolumeTarget,
    path: "volume/targets",
    plural: "targets",
    singular: "volume target",
    brief: &[
        "uuid",
        "node_uuid",
        "volume_type",
        "boot_index",
        "volume_id",
    ],
    of_node: true,
    props: &[
        required("volume_type", full_text),
        required("boot_index", index),
        required("volume_id", full_text),
        prop("properties", empty, object),
        EXTRA,
    ],
    settle: nothing,
};

static TEMPLATES: Spec = Spec {
    kind: KeptKind::DeployTemplate,
    path: "deploy_templates",
    plural: "deploy_templates",
    singular: "deploy template",
    brief: &["uuid", "name"],
    of_node: false,
    props: &[
        required("name", trait_name),
        required("steps", deploy_steps),
        EXTRA,
    ],
    settle: nothing,
};

static RUNBOOKS: Spec = Spec {
    kind: KeptKind::Runbook,
    path: "runbooks",
    plural: "runbooks",
    singular: "runbook",
    brief: &["uuid", "name"],
    of_node: false,
    props: &[
        required("name", trait_name),
        required("steps", runbook_steps),
        prop("disable_ramdisk", no, flag),
        prop("public", no, flag),
        optional("owner", short_text),
        EXTRA,
    ],
    settle: public_or_owned,
};

static RULES: Spec = Spec {
    kind: KeptKind::InspectionRule,
    path: "inspection_rules",
    plural: "inspection_rules",
    singular: "inspection rule",
    brief: &["uuid", "description", "phase", "priority"],
    of_node: false,
    props: &[
        optional("description", short_text),
        prop("phase", || json!("main"), phase),
        prop("priority", || json!(0), priority),
        prop("sensitive", no, flag),
        required("actions", actions),
        prop("conditions", || json!([]), conditions),
    ],
    settle: nothing,
};

const EXTRA: Prop = prop("extra", empty, object);

const fn prop(name: &'static str, default: fn() -> Value, check: Check) -> Prop {
    Prop {
        name,
        since: 1,
        required: false,
        default,
        check,
    }
}

const fn optional(name: &'static str, check: Check) -> Prop {
    prop(name, || Value::Null, check)
}

const fn required(name: &'static str, check: Check) -> Prop {
    Prop {
        required: true,
        ..optional(name, check)
    }
}

fn empty() -> Value {
    json!({})
}

fn no() -> Value {
    json!(false)
}

fn nothing(_: &mut Object) {}

/// A runbook for everyone has no owner.
fn public_or_owned(runbook: &mut Object) {
    if runbook.get("public") == Some(&Value::Bool(true)) {
        runbook.insert("owner".into(), Value::Null);
    }
}

fn short_text(value: &Value) -> Result<Value, String> {
    text(value.clone(), 255)
        .map(|text| json!(text))
        .map_err(|problem| format!(": {problem}"))
}

fn full_text(value: &Value) -> Result<Value, String> {
    match value {
        Value::String(text) if !text.is_empty() && text.chars().count() <= 255 => Ok(json!(text)),
        Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::String(_)
        | Value::Array(_)
        | Value::Object(_) => Err(": must be a text of 1 to 255 characters".into()),
    }
}

fn flag(value: &Value) -> Result<Value, String> {
    boolean(value, false)
        .map(|flag| json!(flag))
        .map_err(|problem| format!(": {problem}"))
}

fn object(value: &Value) -> Result<Value, String> {
    if value.is_object() {
        Ok(value.clone())
    } else {
        Err(": must be an object".into())
    }
}

fn connector_type(value: &Value) -> Result<Value, String> {
    const TYPES: [&str; 7] = ["iqn", "ip", "mac", "wwnn", "wwpn", "port", "portgroup"];
    match value.as_str() {
        Some(kind) if TYPES.contains(&kind) => Ok(value.clone()),
        _ => Err(format!(": must be one of {}", TYPES.join(", "))),
    }
}

/// A number, as clients also write it in a text.
fn whole_number(value: &Value) -> Option<i64> {
    match value {
        Value::Number(number) => number.as_i64(),
        Value::String(text) => text.parse().ok(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

fn index(value: &Value) -> Result<Value, String> {
    match whole_number(value) {
        Some(index) if index >= 0 => Ok(json!(index)),
        Some(_) | None => Err(": must be a number, 0 or more".into()),
    }
}

fn priority(value: &Value) -> Result<Value, String> {
    match whole_number(value) {
        Some(priority) if (0..=9999).contains(&priority) => Ok(json!(priority)),
        Some(_) | None => Err(": must be a number from 0 to 9999".into()),
    }
}

fn phase(value: &Value) -> Result<Value, String> {
    if value == "main" {
        Ok(value.clone())
    } else {
        Err(": must be main".into())
    }
}

/// Templates and runbooks are chosen by a trait of the node, so that is what they are called.
fn trait_name(value: &Value) -> Result<Value, String> {
    let name = value.as_str().unwrap_or_default();
    if name.is_empty() {
        return Err(": must be a text".into());
    }
    crate::api::check_trait(name).map_err(|fault| format!(": {}", fault.text()))?;
    Ok(value.clone())
}

fn deploy_steps(value: &Value) -> Result<Value, String> {
    steps(value, "priority")
}

fn runbook_steps(value: &Value) -> Result<Value, String> {
    steps(value, "order")
}

const INTERFACES: [&str; 7] = [
    "bios",
    "deploy",
    "firmware",
    "management",
    "power",
    "raid",
    "vendor",
];

/// A list of `{interface, step, args, <number>}`.
fn steps(value: &Value, number: &str) -> Result<Value, String> {
    let Value::Array(steps) = value else {
        return Err(": must be a list of steps".into());
    };
    let mut steps = steps.clone();
    if steps.is_empty() || steps.len() > 256 {
        return Err(": must have 1 to 256 steps".into());
    }
    let mut seen = Vec::new();
    for (at, step) in steps.iter_mut().enumerate() {
        let Value::Object(step) = step else {
            return Err(format!("[{at}]: must be an object"));
        };
        let known = ["interface", "step", "args", number];
        if let Some(odd) = step.keys().find(|key| !known.contains(&key.as_str())) {
            return Err(format!(
                "[{at}]: unexpected property {}; there are {}",
                quoted(odd),
                known.join(", ")
            ));
        }
        let word = |key: &str| step.get(key).and_then(Value::as_str).unwrap_or_default();
        if !INTERFACES.contains(&word("interface")) {
            return Err(format!(
                "[{at}].interface: must be one of {}",
                INTERFACES.join(", ")
            ));
        }
        if word("step").is_empty() {
            return Err(format!("[{at}].step: must be a text"));
        }
        let key = (word("interface").to_owned(), word("step").to_owned());
        if seen.contains(&key) {
            return Err(format!("[{at}]: {}.{} is there twice", key.0, key.1));
        }
        seen.push(key);
        match step.get("args") {
            None => _ = step.insert("args".into(), json!({})),
            Some(Value::Object(_)) => {}
            Some(_) => return Err(format!("[{at}].args: must be an object")),
        }
        let given = step.get(number).and_then(whole_number);
        match given.filter(|given| *given >= 0) {
            Some(given) => _ = step.insert(number.to_owned(), json!(given)),
            None => return Err(format!("[{at}].{number}: must be a number, 0 or more")),
        }
    }
    Ok(Value::Array(steps))
}

fn actions(value: &Value) -> Result<Value, String> {
    let list = operations(value)?;
    if list.is_empty() {
        return Err(": must have at least one action".into());
    }
    Ok(Value::Array(list))
}

fn conditions(value: &Value) -> Result<Value, String> {
    operations(value).map(Value::Array)
}

/// A list of `{op, args}`, perhaps with `loop` and `multiple`.
fn operations(value: &Value) -> Result<Vec<Value>, String> {
    let Value::Array(list) = value else {
        return Err(": must be a list".into());
    };
    for (at, item) in list.iter().enumerate() {
        if item
            .get("op")
            .and_then(Value::as_str)
            .is_none_or(str::is_empty)
        {
            return Err(format!("[{at}].op: must be a text"));
        }
        match item.get("args") {
            None | Some(Value::Object(_) | Value::Array(_)) => {}
            Some(_) => return Err(format!("[{at}].args: must be an object or a list")),
        }
    }
    Ok(list.clone())
}
