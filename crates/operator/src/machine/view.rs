//! Machines, hosts and Nodes as the decider wants to see them.

use crd::host::OperationalStatus;
use crd::{BareMetalHost, Machine};
use k8s_openapi::api::core::v1::Node;
use kube::{Resource, ResourceExt};
use lifecycle::machine::{self as view, HostSeen, NodeSeen, Taint};
use serde_json::Value;

use crate::convert::converted;
use crate::error::Error;

pub fn machine(object: &Machine) -> Result<view::Machine, Error> {
    let name = object.name_any();
    let metadata = object.spec.metadata.clone().unwrap_or_default();
    let hooks = object.spec.lifecycle_hooks.clone().unwrap_or_default();
    Ok(view::Machine {
        namespace: object.namespace().unwrap_or_default(),
        uid: object.uid().unwrap_or_default(),
        labels: object.labels().clone(),
        annotations: object.annotations().clone(),
        deleting: object.meta().deletion_timestamp.is_some(),
        finalizer: object.finalizers().iter().any(|f| f == view::FINALIZER),
        provider_spec: object
            .spec
            .provider_spec
            .value
            .clone()
            .unwrap_or(Value::Null),
        provider_id: object.spec.provider_id.clone().unwrap_or_default(),
        node_labels: metadata.labels,
        node_annotations: metadata.annotations,
        taints: object.spec.taints.iter().map(taint).collect(),
        pre_terminate_hooks: hooks
            .pre_terminate
            .iter()
            .map(|hook| format!("{} ({})", hook.name, hook.owner))
            .collect(),
        status: converted("Machine", &name, object.status.clone().unwrap_or_default())?,
        name,
    })
}

fn taint(taint: &k8s_openapi::api::core::v1::Taint) -> Taint {
    Taint {
        key: taint.key.clone(),
        value: taint.value.clone().unwrap_or_default(),
        effect: taint.effect.clone(),
    }
}

pub fn host(object: &BareMetalHost) -> Result<HostSeen, Error> {
    let name = object.name_any();
    let status = object.status.clone().unwrap_or_default();
    let hardware = match &status.hardware {
        Some(hardware) => Some(converted("BareMetalHost", &name, hardware)?),
        None => None,
    };
    Ok(HostSeen {
        namespace: object.namespace().unwrap_or_default(),
        uid: object.uid().unwrap_or_default(),
        resource_version: object.resource_version().unwrap_or_default(),
        labels: object.labels().clone(),
        annotations: object.annotations().clone(),
        deleting: object.meta().deletion_timestamp.is_some(),
        spec: converted("BareMetalHost", &name, &object.spec)?,
        state: converted("BareMetalHost", &name, &status.provisioning.state)?,
        detached: status.operational_status == OperationalStatus::Detached,
        powered_on: status.powered_on,
        error_message: status.error_message,
        hardware,
        name,
    })
}

pub fn node(object: &Node) -> NodeSeen {
    let spec = object.spec.clone().unwrap_or_default();
    let status = object.status.clone().unwrap_or_default();
    NodeSeen {
        name: object.name_any(),
        uid: object.uid().unwrap_or_default(),
        provider_id: spec.provider_id.unwrap_or_default(),
        labels: object.labels().clone(),
        annotations: object.annotations().clone(),
        taints: spec.taints.unwrap_or_default().iter().map(taint).collect(),
        internal_ips: status
            .addresses
            .unwrap_or_default()
            .into_iter()
            .filter(|address| address.type_ == "InternalIP")
            .map(|address| address.address)
            .collect(),
        ready: ready_since(object).is_some(),
    }
}

/// Since when a Node is ready, if it is.
pub fn ready_since(object: &Node) -> Option<jiff::Timestamp> {
    let conditions = object.status.as_ref()?.conditions.as_ref()?;
    let ready = conditions
        .iter()
        .find(|condition| condition.type_ == "Ready" && condition.status == "True")?;
    let since = ready.last_transition_time.as_ref().map(|time| time.0);
    Some(since.unwrap_or(jiff::Timestamp::UNIX_EPOCH))
}
