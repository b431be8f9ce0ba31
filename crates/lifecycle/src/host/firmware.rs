//! Changes of firmware and its settings: which there are, and the steps that make them.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::pass::{Flow, Pass};
use super::step::StepCall;
use super::view::{FirmwareComponents, FirmwareSettings, FirmwareUpdate, Look, Node, Observation};

/// The clean steps for a host that is being prepared.
pub(super) fn steps(pass: &Pass<'_>, node: &Node) -> Flow<Vec<StepCall>> {
    let mut steps = settings_steps(pass, node, pass.seen.firmware_settings.as_ref())?;
    steps.extend(update_steps(pass, pass.seen.firmware_components.as_ref())?);
    Ok(steps)
}

/// The service steps for a host in use: only what its policy allows.
pub(super) fn service_steps(pass: &Pass<'_>, node: &Node) -> Flow<Vec<StepCall>> {
    let policy = pass.seen.update_policy;
    let settings = pass.seen.firmware_settings.as_ref();
    let components = pass.seen.firmware_components.as_ref();
    let mut steps = settings_steps(pass, node, settings.filter(|_| policy.settings_on_reboot))?;
    steps.extend(update_steps(
        pass,
        components.filter(|_| policy.updates_on_reboot),
    )?);
    Ok(steps)
}

/// Whether anything is asked of the firmware at all.
pub(super) fn service_wanted(pass: &Pass<'_>) -> bool {
    let policy = pass.seen.update_policy;
    let settings = pass.seen.firmware_settings.as_ref();
    let components = pass.seen.firmware_components.as_ref();
    (policy.settings_on_reboot && settings.is_some_and(|seen| !seen.wanted.is_empty()))
        || (policy.updates_on_reboot && components.is_some_and(|seen| !seen.wanted.is_empty()))
}

/// Whether an available host has something to be prepared for.
pub(super) fn changed(pass: &Pass<'_>, node: &Node) -> Flow<bool> {
    Ok(!steps(pass, node)?.is_empty())
}

fn settings_steps(
    pass: &Pass<'_>,
    node: &Node,
    settings: Option<&FirmwareSettings>,
) -> Flow<Vec<StepCall>> {
    let Some(settings) = settings.filter(|seen| !seen.wanted.is_empty()) else {
        return Ok(Vec::new());
    };
    if !observed(pass, &settings.seen, "HostFirmwareSettings")? {
        return Ok(Vec::new());
    }
    // What the object says of the present may be old; the change itself would be made again and again.
    let Some(now) = &pass.seen.bios else {
        return Err(Pass::look(Look::Bios {
            node: node.uuid.clone(),
        }));
    };
    let differing: Vec<Value> = settings
        .wanted
        .iter()
        .filter(|(name, wanted)| differs(now, name, wanted))
        .map(|(name, wanted)| json!({"name": name, "value": wanted}))
        .collect();
    Ok(step("bios", "apply_configuration", differing)
        .into_iter()
        .collect())
}

fn differs(now: &BTreeMap<String, String>, name: &str, wanted: &Value) -> bool {
    let text = wanted
        .as_str()
        .map_or_else(|| wanted.to_string(), str::to_owned);
    now.get(name)
        .is_some_and(|value| !value.trim().eq_ignore_ascii_case(text.trim()))
}

fn update_steps(pass: &Pass<'_>, components: Option<&FirmwareComponents>) -> Flow<Vec<StepCall>> {
    let Some(components) = components.filter(|seen| seen.wanted != seen.applied) else {
        return Ok(Vec::new());
    };
    if !observed(pass, &components.seen, "HostFirmwareComponents")? {
        return Ok(Vec::new());
    }
    let new = |update: &&FirmwareUpdate| !components.applied.contains(update);
    let updates = components
        .wanted
        .iter()
        .filter(new)
        .map(|update| json!({"component": update.component, "url": update.url}))
        .collect();
    Ok(step("firmware", "update", updates).into_iter().collect())
}

fn observed(pass: &Pass<'_>, seen: &Observation, kind: &str) -> Flow<bool> {
    seen.change().ok_or_else(|| {
        pass.wait(
            format!("the {kind} of the host to be checked"),
            pass.config.pace.firmware,
        )
    })
}

fn step(interface: &str, step: &str, settings: Vec<Value>) -> Option<StepCall> {
    if settings.is_empty() {
        return None;
    }
    let mut args = Map::new();
    args.insert("settings".into(), Value::Array(settings));
    Some(StepCall {
        interface: interface.into(),
        step: step.into(),
        args,
        priority: None,
    })
}
