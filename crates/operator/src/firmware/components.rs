//! The controller of HostFirmwareComponents: which firmware a host runs, and whether other firmware is wanted.

use std::sync::Arc;
use std::time::Duration;

use clients::ironic::Component;
use crd::HostFirmwareComponents;
use crd::host_firmware_components::{FirmwareComponent, HostFirmwareComponentsStatus};
use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::runtime::controller::{Action, Config, Controller};
use kube::runtime::watcher;
use kube::{Api, Resource, ResourceExt};
use tracing::{debug, warn};

use super::{CHANGING, REST, Source, set, source};
use crate::context::{Context, by_us};
use crate::error::Error;

/// Cares for components until `stop`.
pub async fn run(context: Arc<Context>, stop: impl Future<Output = ()> + Send + Sync + 'static) {
    Controller::new(
        context.watched::<HostFirmwareComponents>(),
        watcher::Config::default(),
    )
    .with_config(Config::default().concurrency(4))
    .graceful_shutdown_on(stop)
    .run(reconcile, on_error, context)
    .for_each(|result| async move {
        if let Err(error) = result {
            debug!(error = model::chain(&error), "firmware components");
        }
    })
    .await;
}

async fn reconcile(
    object: Arc<HostFirmwareComponents>,
    context: Arc<Context>,
) -> Result<Action, Error> {
    if object.meta().deletion_timestamp.is_some() {
        return Ok(Action::await_change());
    }
    let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
    let (ironic, node) = match source(&context, &namespace, &name).await? {
        Source::Node { ironic, node } => (ironic, node),
        Source::Later(pause) => return Ok(Action::requeue(pause)),
    };
    let found = ironic.firmware(&node).await?;
    let before = object.status.clone().unwrap_or_default();
    let status = status(&object, found);
    let changing = status
        .conditions
        .iter()
        .any(|c| c.type_ == "ChangeDetected" && c.status == "True");
    if status.components != before.components || status.conditions != before.conditions {
        let api: Api<HostFirmwareComponents> = context.in_namespace(&namespace);
        let mut changed = (*object).clone();
        changed.status = Some(status);
        changed.metadata.managed_fields = None;
        api.replace_status(&name, &by_us(), &changed)
            .await
            .map_err(Error::kube(
                "write the status of the HostFirmwareComponents",
                &name,
            ))?;
    }
    Ok(Action::requeue(if changing { CHANGING } else { REST }))
}

fn status(object: &HostFirmwareComponents, found: Vec<Component>) -> HostFirmwareComponentsStatus {
    let generation = object.meta().generation.unwrap_or_default();
    let before = object.status.clone().unwrap_or_default();
    let components: Vec<FirmwareComponent> = found.into_iter().map(component).collect();
    let wanted = &object.spec.updates;
    let unknown: Vec<&str> = wanted
        .iter()
        .map(|update| update.component.as_str())
        .filter(|name| !components.iter().any(|known| known.component == *name))
        .collect();
    let mut conditions = before.conditions;
    set(
        &mut conditions,
        "ChangeDetected",
        *wanted != before.updates,
        "OK",
        "",
        generation,
    );
    let (reason, message) = if unknown.is_empty() {
        ("OK", String::new())
    } else {
        (
            "InvalidComponent",
            format!("the host has no {}", unknown.join(", ")),
        )
    };
    set(
        &mut conditions,
        "Valid",
        unknown.is_empty(),
        reason,
        &message,
        generation,
    );
    HostFirmwareComponentsStatus {
        updates: before.updates,
        components,
        last_updated: Some(Time(Timestamp::now())),
        conditions,
    }
}

fn component(found: Component) -> FirmwareComponent {
    FirmwareComponent {
        component: found.component,
        initial_version: found.initial_version.unwrap_or_default(),
        current_version: found.current_version,
        last_version_flashed: found.last_version_flashed,
        updated_at: found
            .updated_at
            .and_then(|time| time.parse::<Timestamp>().ok())
            .map(Time),
    }
}

fn on_error(object: Arc<HostFirmwareComponents>, error: &Error, _: Arc<Context>) -> Action {
    if error.is_conflict() {
        return Action::requeue(Duration::from_millis(200));
    }
    warn!(
        host = object.name_any(),
        error = model::chain(error),
        "firmware components"
    );
    Action::requeue(Duration::from_secs(30))
}
