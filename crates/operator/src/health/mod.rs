//! The controller of MachineHealthChecks, and of the power cycles they ask for.

pub mod remediate;

use std::sync::Arc;
use std::time::Duration;

use crd::machine::{MachineCondition, annotation};
use crd::machine_health_check::{
    EXTERNAL_BARE_METAL, MachineHealthCheckSpec, MachineHealthCheckStatus, PAUSED,
    REMEDIATION_STRATEGY,
};
use crd::{Machine, MachineHealthCheck};
use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::runtime::controller::{Action as Requeue, Config, Controller};
use kube::runtime::reflector::ObjectRef;
use kube::runtime::watcher;
use kube::{Api, Resource, ResourceExt};
use lifecycle::health::{
    Action, Check, EXTERNAL_REMEDIATION, MaxUnhealthy, NodeState, Status, Step, Target,
    UnhealthyCondition, next,
};
use lifecycle::machine::LabelSelector;
use serde_json::json;
use tracing::{debug, info, warn};

use crate::cache::Cache;
use crate::context::{Context, MANAGER, News, by_us};
use crate::convert::{converted, duration};
use crate::error::{Error, code};
use crate::machine::view;

const ALLOWED: &str = "RemediationAllowed";
/// Looks at one check in a row.
const PASSES: usize = 8;

struct Shared {
    context: Arc<Context>,
    cache: Cache,
}

/// Cares for checks until `stop`.
pub async fn run(
    context: Arc<Context>,
    cache: Cache,
    stop: impl Future<Output = ()> + Send + Sync + 'static,
) {
    let all = watcher::Config::default;
    let nodes: Api<Node> = Api::all(context.client.clone());
    let controller = Controller::new(context.watched::<MachineHealthCheck>(), all());
    let (checks, every) = (controller.store(), controller.store());
    controller
        .with_config(Config::default().concurrency(2))
        .watches(context.watched::<Machine>(), all(), move |machine| {
            let namespace = machine.namespace();
            checks
                .state()
                .into_iter()
                .filter(move |check| check.namespace() == namespace)
                .map(|check| ObjectRef::from_obj(&*check))
                .collect::<Vec<_>>()
        })
        .watches(nodes, all(), move |_| {
            every
                .state()
                .into_iter()
                .map(|check| ObjectRef::from_obj(&*check))
                .collect::<Vec<_>>()
        })
        .graceful_shutdown_on(stop)
        .run(reconcile, on_error, Arc::new(Shared { context, cache }))
        .for_each(|result| async move {
            if let Err(error) = result {
                debug!(error = model::chain(&error), "health checks");
            }
        })
        .await;
}

async fn reconcile(check: Arc<MachineHealthCheck>, shared: Arc<Shared>) -> Result<Requeue, Error> {
    let namespace = check.namespace().unwrap_or_default();
    let name = check.name_any();
    let api: Api<MachineHealthCheck> = shared.context.in_namespace(&namespace);
    for _ in 0..PASSES {
        let found = api.get_opt(&name).await;
        let found = found.map_err(Error::kube("read the MachineHealthCheck", &name))?;
        let Some(mut object) = found.filter(|object| object.meta().deletion_timestamp.is_none())
        else {
            return Ok(Requeue::await_change());
        };
        // Whoever made the template has somebody else to care for sick machines.
        if object.spec.remediation_template.is_some() {
            return Ok(Requeue::await_change());
        }
        let now = Timestamp::now();
        let targets = targets(&shared.cache, &namespace, &object.spec)?;
        match next(&view_of(&object)?, &targets, now) {
            Step::Do(actions) => {
                for action in &actions {
                    act(&shared.context, &api, &mut object, action).await?;
                }
            }
            Step::Wait { reason, until } => {
                debug!(check = name, reason, "waits for");
                let pause = Duration::try_from(until.duration_since(now)).unwrap_or_default();
                return Ok(Requeue::requeue(pause.max(Duration::from_millis(100))));
            }
            Step::Done => return Ok(Requeue::requeue(Duration::from_mins(1))),
        }
    }
    Ok(Requeue::requeue(Duration::from_secs(1)))
}

fn view_of(object: &MachineHealthCheck) -> Result<Check, Error> {
    let name = object.name_any();
    let spec = &object.spec;
    let status = object.status.clone().unwrap_or_default();
    let restricted = status
        .conditions
        .iter()
        .find(|condition| condition.kind == ALLOWED && condition.status == "False")
        .map(|condition| condition.message.clone().unwrap_or_default());
    let read: Status = match &object.status {
        Some(status) => converted("MachineHealthCheck", &name, status)?,
        None => Status::default(),
    };
    let strategy = object.annotations().get(REMEDIATION_STRATEGY);
    Ok(Check {
        paused: object.annotations().contains_key(PAUSED),
        unhealthy_conditions: spec
            .unhealthy_conditions
            .iter()
            .filter_map(|condition| {
                Some(UnhealthyCondition {
                    kind: condition.kind.clone(),
                    status: condition.status.clone(),
                    timeout: duration(&condition.timeout)?,
                })
            })
            .collect(),
        max_unhealthy: match &spec.max_unhealthy {
            IntOrString::Int(count) => MaxUnhealthy::Count((*count).try_into().unwrap_or_default()),
            IntOrString::String(text) => MaxUnhealthy::parse(text).unwrap_or_default(),
        },
        node_startup_timeout: startup_timeout(spec),
        power_cycle: strategy.map(String::as_str) == Some(EXTERNAL_BARE_METAL),
        status: Status { restricted, ..read },
        name,
    })
}

/// None where a Node is waited for without end.
fn startup_timeout(spec: &MachineHealthCheckSpec) -> Option<Duration> {
    duration(&spec.node_startup_timeout).filter(|timeout| !timeout.is_zero())
}

fn selects(spec: &MachineHealthCheckSpec, machine: &Machine) -> Result<bool, Error> {
    let selector: LabelSelector = converted("MachineHealthCheck", "", &spec.selector)?;
    // A selector that cannot be understood selects nothing: nobody is thrown away by mistake.
    Ok(selector.matches(machine.labels()).unwrap_or(false))
}

fn targets(
    cache: &Cache,
    namespace: &str,
    spec: &MachineHealthCheckSpec,
) -> Result<Vec<Target>, Error> {
    let mut targets = Vec::new();
    for machine in cache.machines(namespace) {
        if selects(spec, &machine)? {
            targets.push(target(cache, &machine)?);
        }
    }
    targets.sort_by(|a, b| a.machine.cmp(&b.machine));
    Ok(targets)
}

fn target(cache: &Cache, object: &Machine) -> Result<Target, Error> {
    let machine = view::machine(object)?;
    let node = match &machine.status.node_ref {
        None => NodeState::None,
        Some(reference) => match cache.node(&reference.name) {
            None => NodeState::Gone,
            Some(node) => NodeState::Present(conditions(&node)),
        },
    };
    Ok(Target {
        machine: machine.name,
        deleting: machine.deleting,
        phase: machine.status.phase,
        last_updated: machine.status.last_updated,
        node,
        has_controller: has_controller(object),
        in_remediation: machine.annotations.contains_key(EXTERNAL_REMEDIATION),
    })
}

fn has_controller(machine: &Machine) -> bool {
    let owners = machine.owner_references();
    owners.iter().any(|owner| owner.controller == Some(true))
}

fn conditions(node: &Node) -> Vec<(String, String, Timestamp)> {
    let all = node
        .status
        .as_ref()
        .and_then(|status| status.conditions.clone());
    all.unwrap_or_default()
        .into_iter()
        .filter_map(|condition| {
            let since = condition.last_transition_time?.0;
            Some((condition.type_, condition.status, since))
        })
        .collect()
}

async fn act(
    context: &Context,
    api: &Api<MachineHealthCheck>,
    object: &mut MachineHealthCheck,
    action: &Action,
) -> Result<(), Error> {
    let name = object.name_any();
    let machines: Api<Machine> = context.in_namespace(&object.namespace().unwrap_or_default());
    match action {
        Action::Save(status) => {
            let mut changed = object.clone();
            changed.status = Some(written(status, object.status.as_ref()));
            changed.metadata.managed_fields = None;
            *object = api
                .replace_status(&name, &by_us(), &changed)
                .await
                .map_err(Error::kube(
                    "write the status of the MachineHealthCheck",
                    &name,
                ))?;
            Ok(())
        }
        Action::PowerCycle { machine } => {
            info!(
                check = name,
                machine, "an unhealthy machine is to be power cycled"
            );
            let patch =
                json!({"metadata": {"annotations": {annotation::EXTERNAL_REMEDIATION: ""}}});
            machines
                .patch(machine, &PatchParams::apply(MANAGER), &Patch::Merge(patch))
                .await
                .map(drop)
                .map_err(Error::kube("ask for a power cycle of", machine))
        }
        Action::DeleteMachine { machine, reason } => {
            info!(
                check = name,
                machine, reason, "an unhealthy machine is deleted"
            );
            match machines.delete(machine, &DeleteParams::default()).await {
                Ok(_) => {}
                Err(error) if code(&error) == Some(404) => {}
                Err(error) => return Err(Error::kube("delete the Machine", machine)(error)),
            }
            let note = format!("Machine {machine} is deleted: {reason}");
            tell(context, object, "MachineDeleted", &note).await;
            Ok(())
        }
        Action::Tell { reason, note } => {
            tell(context, object, reason, note).await;
            Ok(())
        }
    }
}

async fn tell(context: &Context, object: &MachineHealthCheck, reason: &str, note: &str) {
    let news = News {
        warning: true,
        reason,
        note,
        related: None,
    };
    context.tell(&object.object_ref(&()), news).await;
}

fn written(status: &Status, before: Option<&MachineHealthCheckStatus>) -> MachineHealthCheckStatus {
    let (truth, reason) = match &status.restricted {
        Some(_) => ("False", Some("TooManyUnhealthy".to_owned())),
        None => ("True", None),
    };
    let mut conditions = before
        .map(|status| status.conditions.clone())
        .unwrap_or_default();
    let old = conditions
        .iter()
        .find(|condition| condition.kind == ALLOWED);
    let since = old
        .filter(|condition| condition.status == truth)
        .map(|condition| condition.last_transition_time.clone());
    let allowed = MachineCondition {
        kind: ALLOWED.to_owned(),
        status: truth.to_owned(),
        severity: reason.is_some().then(|| "Warning".to_owned()),
        last_transition_time: since.unwrap_or_else(|| Time(Timestamp::now())),
        reason,
        message: status.restricted.clone(),
    };
    conditions.retain(|condition| condition.kind != ALLOWED);
    conditions.push(allowed);
    let count = |number: u32| number.try_into().unwrap_or(i32::MAX);
    MachineHealthCheckStatus {
        expected_machines: Some(count(status.expected_machines)),
        current_healthy: Some(count(status.current_healthy)),
        remediations_allowed: count(status.remediations_allowed),
        conditions,
    }
}

fn on_error(check: Arc<MachineHealthCheck>, error: &Error, _: Arc<Shared>) -> Requeue {
    if error.is_conflict() {
        return Requeue::requeue(Duration::from_millis(200));
    }
    warn!(
        check = check.name_any(),
        error = model::chain(error),
        "a MachineHealthCheck could not be cared for"
    );
    Requeue::requeue(Duration::from_secs(5))
}
