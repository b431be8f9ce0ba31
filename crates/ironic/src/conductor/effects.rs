//! What work and changes of state do to a node's record besides its life.

use std::sync::Arc;

use jiff::Timestamp;
use lifecycle::node::{Kind, Outcome, Power, StepSpec, Task, View, Work};
use tracing::info;
use uuid::Uuid;

use crate::deploy::agent::PROGRESS;
use crate::record::{Event, Hardware, Node, Object, PowerTarget, Record, Severity};
use crate::store::{Change, Tables};

/// What a piece of work does to the record besides the node's life.
pub fn side_effects(node: &mut Node, work: &Work, tables: &Tables) -> Vec<Change> {
    let ends_agent = matches!(
        work,
        Work::ForgetAgent | Work::PowerOff | Work::StopAgent | Work::StartInstalled
    );
    if ends_agent {
        node.forget_agent();
    }
    if *work == Work::ReadFacts {
        node.boot_mode = Some(node.hardware.boot_mode);
        node.secure_boot = Some(node.hardware.secure_boot);
    }
    if *work == Work::Unbind {
        return unbind(node, tables);
    }
    Vec::new()
}

/// Forgets the instance: nothing of it may be seen by the next.
fn unbind(node: &mut Node, tables: &Tables) -> Vec<Change> {
    node.instance_info = Object::new();
    node.instance_uuid = None;
    node.instance_name = None;
    node.vifs.clear();
    node.protected = false;
    node.protected_reason = None;
    for key in [
        "deploy_steps",
        "image_checksum",
        "is_whole_disk_image",
        "root_uuid_or_disk_id",
        "deploy_boot_mode",
    ] {
        node.driver_internal_info.remove(key);
    }
    let mut changes = vec![Change::RemoveDocuments {
        prefix: config_drive_key(node.uuid),
    }];
    if let Some(allocation) = node
        .allocation_uuid
        .take()
        .and_then(|uuid| tables.allocations.get(uuid))
    {
        changes.push(Change::Remove(Record::Allocation(Arc::clone(allocation))));
    }
    changes
}

pub fn config_drive_key(node: Uuid) -> String {
    format!("configdrive/{node}")
}

pub fn learn(node: &mut Node, hardware: Hardware) {
    node.life.power = Some(hardware.power);
    node.boot_mode = Some(hardware.boot_mode);
    node.secure_boot = Some(hardware.secure_boot);
    node.hardware = hardware;
}

/// An agent does not outlive its power.
pub fn powered(node: &mut Node, target: PowerTarget) {
    let time = crate::api::Stamp(Timestamp::now()).to_string();
    node.driver_internal_info
        .insert("last_power_state_change".into(), time.into());
    match target {
        PowerTarget::On => {}
        PowerTarget::Off | PowerTarget::Reboot | PowerTarget::SoftOff | PowerTarget::SoftReboot => {
            node.forget_agent();
            node.life.agent = None;
        }
    }
}

/// Keeps the beginning and the end of an agent's step in the history.
pub fn tell_step(node: &mut Node, work: &Work, outcome: &Outcome, host: &str) {
    let text = match (work, outcome) {
        (Work::StartStep(step) | Work::WriteImage(step), Outcome::Done) => {
            format!("step {step} began")
        }
        (Work::CheckStep(step), Outcome::Done) => format!("step {step} is done"),
        _ => return,
    };
    node.happened(Event {
        uuid: Uuid::new_v4(),
        created_at: Timestamp::now(),
        severity: Severity::Info,
        about: "provisioning".into(),
        text,
        conductor: host.to_owned(),
    });
}

pub fn show_step(node: &mut Node, step: &StepSpec) {
    let shown = match serde_json::to_value(step) {
        Ok(serde_json::Value::Object(shown)) => shown,
        _ => Object::new(),
    };
    match node.life.operation.task {
        Task::Clean | Task::CleanManual => node.clean_step = shown,
        Task::Deploy => node.deploy_step = shown,
        Task::Service => node.service_step = shown,
        Task::Rest
        | Task::Verify
        | Task::Inspect
        | Task::Delete
        | Task::Adopt
        | Task::Rescue
        | Task::Unrescue
        | Task::Recover => {}
    }
}

/// Logs a change of state, keeps failures in the history, and clears what belongs to a state that was left.
pub fn note(before: &Node, node: &mut Node, host: &str, now: Timestamp) {
    let (old, new) = (&before.life, &node.life);
    if old.state != new.state {
        let why = new
            .last_error
            .as_deref()
            .filter(|_| new.last_error != old.last_error)
            .unwrap_or_default();
        info!(node = %node.uuid, from = %old.state, to = %new.state, why, "node state");
    }
    if let Some(text) = new
        .last_error
        .clone()
        .filter(|_| new.last_error != old.last_error)
    {
        node.happened(Event {
            uuid: Uuid::new_v4(),
            created_at: now,
            severity: Severity::Error,
            about: "provisioning".into(),
            text,
            conductor: host.to_owned(),
        });
    }
    if matches!(node.life.state.kind(), Kind::Stable | Kind::Failed) {
        node.driver_internal_info.remove(PROGRESS);
    }
    if matches!(node.life.state.kind(), Kind::Stable) {
        node.clean_step = Object::new();
        node.deploy_step = Object::new();
        node.service_step = Object::new();
        if inspecting(&before.life) && node.life.last_error.is_none() {
            node.inspection_finished_at = Some(now);
        }
    }
    if node.life.fault.is_some() && node.maintenance_reason.is_none() {
        node.maintenance_reason.clone_from(&node.life.last_error);
    }
}

fn inspecting(life: &View) -> bool {
    life.operation.task == Task::Inspect
}

/// What the power of a node is, in words of the API.
pub fn power_word(power: Power) -> &'static str {
    match power {
        Power::On => "power on",
        Power::Off => "power off",
    }
}
