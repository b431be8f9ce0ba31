//! Carrying out a power cycle that a health check, or a person, asked for by an annotation of the Machine.

use std::sync::Arc;
use std::time::Duration;

use crd::machine::label;
use crd::{BareMetalHost, Machine, MachineHealthCheck};
use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::runtime::controller::{Action as Requeue, Config, Controller};
use kube::runtime::reflector::ObjectRef;
use kube::runtime::watcher;
use kube::{Api, Resource, ResourceExt};
use lifecycle::health::{
    Backup, EXTERNAL_REMEDIATION, POWER_OFF_REQUEST, Patient, RemediationAction, RemediationStep,
    remediate,
};
use serde_json::{Map, Value, json};
use tracing::{debug, info, warn};

use super::{has_controller, selects, startup_timeout};
use crate::context::{Context, MANAGER};
use crate::error::{Error, code};

/// For Machines that no check watches.
const STARTUP: Duration = Duration::from_mins(20);
const PASSES: usize = 8;

/// Carries them out until `stop`.
pub async fn run(context: Arc<Context>, stop: impl Future<Output = ()> + Send + Sync + 'static) {
    let all = watcher::Config::default;
    Controller::new(context.watched::<Machine>(), all())
        .with_config(Config::default().concurrency(4))
        .watches(context.watched::<BareMetalHost>(), all(), |host| {
            let consumer = host.spec.consumer_ref?;
            let machine = consumer.kind.as_deref() == Some("Machine");
            let reference = ObjectRef::new(&consumer.name?).within(&consumer.namespace?);
            machine.then_some(reference)
        })
        .graceful_shutdown_on(stop)
        .run(reconcile, on_error, context)
        .for_each(|result| async move {
            if let Err(error) = result {
                debug!(error = model::chain(&error), "remediation");
            }
        })
        .await;
}

async fn reconcile(machine: Arc<Machine>, context: Arc<Context>) -> Result<Requeue, Error> {
    if !machine.annotations().contains_key(EXTERNAL_REMEDIATION) {
        return Ok(Requeue::await_change());
    }
    let namespace = machine.namespace().unwrap_or_default();
    let name = machine.name_any();
    let machines: Api<Machine> = context.in_namespace(&namespace);
    for _ in 0..PASSES {
        let found = machines.get_opt(&name).await;
        let Some(object) = found.map_err(Error::kube("read the Machine", &name))? else {
            return Ok(Requeue::await_change());
        };
        let Some(host) = host_of(&context, &object).await? else {
            debug!(machine = name, "has no host whose power could be cycled");
            return Ok(Requeue::requeue(Duration::from_mins(1)));
        };
        let node = node_of(&context, &object).await?;
        let startup = startup(&context, &object).await?;
        let now = Timestamp::now();
        match remediate(&patient(&object, &host, node), startup, now) {
            RemediationStep::Do(actions) => {
                for action in &actions {
                    act(&context, &object, &host, action).await?;
                }
            }
            RemediationStep::Wait { reason, until } => {
                debug!(machine = name, reason, "waits for");
                let pause = Duration::try_from(until.duration_since(now)).unwrap_or_default();
                // The Node may come back any time, and nobody says which Machine's it is before it is linked.
                let pause = pause.clamp(Duration::from_millis(100), Duration::from_secs(5));
                return Ok(Requeue::requeue(pause));
            }
            RemediationStep::Done => return Ok(Requeue::await_change()),
        }
    }
    Ok(Requeue::requeue(Duration::from_secs(1)))
}

fn patient(machine: &Machine, host: &BareMetalHost, node: Option<Node>) -> Patient {
    Patient {
        annotations: machine.annotations().clone(),
        deleting: machine.meta().deletion_timestamp.is_some(),
        externally_provisioned: host.spec.externally_provisioned,
        has_controller: has_controller(machine),
        is_master: machine.labels().get(label::ROLE).map(String::as_str) == Some("master"),
        off_requested: host.annotations().contains_key(POWER_OFF_REQUEST),
        host_powered_on: host.status.as_ref().is_some_and(|status| status.powered_on),
        node: node.map(|node| Backup {
            name: node.name_any(),
            labels: node.labels().clone(),
            annotations: node.annotations().clone(),
        }),
    }
}

/// The host the Machine names, if it is the Machine's indeed.
async fn host_of(context: &Context, machine: &Machine) -> Result<Option<BareMetalHost>, Error> {
    let Some((namespace, name)) = machine
        .annotations()
        .get(crd::machine::annotation::HOST)
        .and_then(|text| text.split_once('/'))
    else {
        return Ok(None);
    };
    let hosts: Api<BareMetalHost> = context.in_namespace(namespace);
    let found = hosts
        .get_opt(name)
        .await
        .map_err(Error::kube("read the host", name))?;
    Ok(found.filter(|host| {
        let consumer = host.spec.consumer_ref.as_ref();
        consumer.is_some_and(|consumer| {
            consumer.name.as_deref() == Some(machine.name_any().as_str())
                && consumer.namespace == machine.namespace()
        })
    }))
}

async fn node_of(context: &Context, machine: &Machine) -> Result<Option<Node>, Error> {
    let reference = machine
        .status
        .as_ref()
        .and_then(|status| status.node_ref.as_ref());
    let Some(name) = reference.and_then(|node| node.name.as_deref()) else {
        return Ok(None);
    };
    let nodes: Api<Node> = Api::all(context.client.clone());
    nodes
        .get_opt(name)
        .await
        .map_err(Error::kube("read the Node", name))
}

/// How long the Node may take to come back: as long as for the check that watches the Machine.
async fn startup(context: &Context, machine: &Machine) -> Result<Duration, Error> {
    let namespace = machine.namespace().unwrap_or_default();
    let checks: Api<MachineHealthCheck> = context.in_namespace(&namespace);
    let listed = checks
        .list(&ListParams::default())
        .await
        .map_err(Error::kube("list health checks in", &namespace))?;
    for check in listed {
        if selects(&check.spec, machine)? {
            return Ok(startup_timeout(&check.spec).unwrap_or(STARTUP));
        }
    }
    Ok(STARTUP)
}

async fn act(
    context: &Context,
    machine: &Machine,
    host: &BareMetalHost,
    action: &RemediationAction,
) -> Result<(), Error> {
    let name = machine.name_any();
    let machines: Api<Machine> = context.in_namespace(&machine.namespace().unwrap_or_default());
    let nodes: Api<Node> = Api::all(context.client.clone());
    let ours = PatchParams::apply(MANAGER);
    match action {
        RemediationAction::RequestOff { value } => {
            info!(
                machine = name,
                host = host.name_any(),
                "power off, for a machine to recover"
            );
            annotate_host(context, host, json!(value)).await
        }
        RemediationAction::AllowOn => {
            info!(
                machine = name,
                host = host.name_any(),
                "power may come back"
            );
            annotate_host(context, host, Value::Null).await
        }
        RemediationAction::Annotate(changes) => {
            let changes: Map<String, Value> = changes
                .iter()
                .map(|(key, value)| ((*key).to_owned(), json!(value)))
                .collect();
            let patch = json!({"metadata": {"annotations": changes}});
            machines
                .patch(&name, &ours, &Patch::Merge(patch))
                .await
                .map(drop)
                .map_err(Error::kube("annotate the Machine", &name))
        }
        RemediationAction::DeleteNode { name } => {
            match nodes.delete(name, &DeleteParams::default()).await {
                Ok(_) => Ok(()),
                Err(error) if code(&error) == Some(404) => Ok(()),
                Err(error) => Err(Error::kube("delete the Node", name)(error)),
            }
        }
        RemediationAction::RestoreNode {
            name,
            labels,
            annotations,
        } => {
            let patch = json!({"metadata": {"labels": labels, "annotations": annotations}});
            nodes
                .patch(name, &ours, &Patch::Merge(patch))
                .await
                .map(drop)
                .map_err(Error::kube("restore the Node", name))
        }
        RemediationAction::DeleteMachine => {
            warn!(machine = name, "did not recover, and is deleted");
            match machines.delete(&name, &DeleteParams::default()).await {
                Ok(_) => Ok(()),
                Err(error) if code(&error) == Some(404) => Ok(()),
                Err(error) => Err(Error::kube("delete the Machine", &name)(error)),
            }
        }
    }
}

async fn annotate_host(context: &Context, host: &BareMetalHost, value: Value) -> Result<(), Error> {
    let hosts: Api<BareMetalHost> = context.in_namespace(&host.namespace().unwrap_or_default());
    let name = host.name_any();
    let patch = json!({"metadata": {"annotations": {POWER_OFF_REQUEST: value}}});
    hosts
        .patch(&name, &PatchParams::apply(MANAGER), &Patch::Merge(patch))
        .await
        .map(drop)
        .map_err(Error::kube("annotate the host", &name))
}

fn on_error(machine: Arc<Machine>, error: &Error, _: Arc<Context>) -> Requeue {
    if error.is_conflict() {
        return Requeue::requeue(Duration::from_millis(200));
    }
    warn!(
        machine = machine.name_any(),
        error = model::chain(error),
        "a power cycle could not be carried out"
    );
    Requeue::requeue(Duration::from_secs(5))
}
