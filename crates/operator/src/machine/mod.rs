//! The controller of Machines.

mod act;
pub mod csr;
pub mod view;

use std::sync::Arc;
use std::time::Duration;

use crd::machine::annotation;
use crd::{BareMetalHost, Machine};
use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::runtime::controller::{Action, Config, Controller};
use kube::runtime::reflector::ObjectRef;
use kube::runtime::watcher;
use kube::{Api, ResourceExt};
use lifecycle::machine::{self as decider, Link, Observed, Step, link, may_be, next};
use tracing::{debug, warn};

use crate::cache::Cache;
use crate::context::Context;
use crate::error::Error;
use act::Pass;

/// Passes over one Machine before another has its turn.
const PASSES: usize = 16;

struct Shared {
    context: Arc<Context>,
    cache: Cache,
}

/// Cares for Machines until `stop`.
pub async fn run(
    context: Arc<Context>,
    cache: Cache,
    stop: impl Future<Output = ()> + Send + Sync + 'static,
) {
    let all = watcher::Config::default;
    let config = Config::default().concurrency(context.config.at_once);
    let (by_host, by_node) = (cache.clone(), cache.clone());
    let nodes: Api<Node> = Api::all(context.client.clone());
    Controller::new(context.watched::<Machine>(), all())
        .with_config(config)
        .watches(context.watched::<BareMetalHost>(), all(), move |host| {
            of_host(&by_host, &host)
        })
        .watches(nodes, all(), move |node| of_node(&by_node, &node))
        .graceful_shutdown_on(stop)
        .run(reconcile, on_error, Arc::new(Shared { context, cache }))
        .for_each(|result| async move {
            if let Err(error) = result {
                debug!(error = model::chain(&error), "machines");
            }
        })
        .await;
}

/// The Machine that uses a host; or those that wait for one, if it is free.
fn of_host(cache: &Cache, host: &BareMetalHost) -> Vec<ObjectRef<Machine>> {
    if let Some(consumer) = &host.spec.consumer_ref {
        let (Some(name), Some(namespace)) = (&consumer.name, &consumer.namespace) else {
            return Vec::new();
        };
        let ours = consumer.kind.as_deref() == Some("Machine");
        return ours
            .then(|| ObjectRef::new(name).within(namespace))
            .into_iter()
            .collect();
    }
    let free = view::host(host).is_ok_and(|host| decider::is_free(&host));
    if !free {
        return Vec::new();
    }
    let waiting = cache.machines(&host.namespace().unwrap_or_default());
    waiting
        .iter()
        .filter(|machine| machine.spec.provider_id.is_none())
        .filter(|machine| !machine.annotations().contains_key(annotation::HOST))
        .map(|machine| ObjectRef::from_obj(&**machine))
        .collect()
}

/// The Machine that a Node says it belongs to, or that it is found to belong to.
fn of_node(cache: &Cache, node: &Node) -> Option<ObjectRef<Machine>> {
    if let Some(said) = node.annotations().get(annotation::NODE_MACHINE) {
        let (namespace, name) = said.split_once('/')?;
        return Some(ObjectRef::new(name).within(namespace));
    }
    let machines = known(cache);
    match link(&view::node(node), &machines) {
        Link::Machine(machine) => Some(ObjectRef::new(&machine.name).within(&machine.namespace)),
        Link::Nobody | Link::Ambiguous(_) => None,
    }
}

/// One that cannot be understood is as if it were not there.
pub fn known(cache: &Cache) -> Vec<decider::Machine> {
    cache
        .all_machines()
        .iter()
        .filter_map(|machine| view::machine(machine).ok())
        .collect()
}

async fn reconcile(machine: Arc<Machine>, shared: Arc<Shared>) -> Result<Action, Error> {
    let namespace = machine.namespace().unwrap_or_default();
    let name = machine.name_any();
    let api: Api<Machine> = shared.context.in_namespace(&namespace);
    for _ in 0..PASSES {
        let found = api.get_opt(&name).await;
        let Some(object) = found.map_err(Error::kube("read the Machine", &name))? else {
            return Ok(Action::await_change());
        };
        let machine = view::machine(&object)?;
        let seen = observed(&shared.cache, &machine);
        let now = Timestamp::now();
        match next(&machine, &seen, &decider::Config::default(), now) {
            Step::Do(actions) => {
                let mut pass = Pass {
                    context: &shared.context,
                    object,
                };
                for action in &actions {
                    pass.act(action).await?;
                }
            }
            Step::Wait { reason, until } => {
                let pause = Duration::try_from(until.duration_since(now)).unwrap_or_default();
                debug!(machine = name, reason, ?pause, "waits for");
                return Ok(Action::requeue(pause.max(Duration::from_millis(100))));
            }
            Step::Done => return Ok(Action::await_change()),
        }
    }
    Ok(Action::requeue(Duration::from_millis(100)))
}

fn observed(cache: &Cache, machine: &decider::Machine) -> Observed {
    let hosts = cache.hosts(&machine.namespace);
    Observed {
        hosts: hosts
            .iter()
            .filter_map(|host| view::host(host).ok())
            .collect(),
        node: node_of(cache, machine),
    }
}

fn node_of(cache: &Cache, machine: &decider::Machine) -> Option<decider::NodeSeen> {
    if let Some(reference) = &machine.status.node_ref {
        return cache.node(&reference.name).map(|node| view::node(&node));
    }
    let nodes: Vec<_> = cache
        .nodes()
        .iter()
        .map(|node| view::node(node))
        .filter(|node| may_be(node, machine))
        .collect();
    if nodes.is_empty() {
        return None;
    }
    let machines = known(cache);
    nodes.into_iter().find(|node| match link(node, &machines) {
        Link::Machine(found) => found.uid == machine.uid,
        Link::Nobody => false,
        Link::Ambiguous(names) => {
            warn!(node = node.name, ?names, "several Machines claim one Node");
            false
        }
    })
}

fn on_error(machine: Arc<Machine>, error: &Error, _: Arc<Shared>) -> Action {
    if error.is_conflict() {
        return Action::requeue(Duration::from_millis(200));
    }
    warn!(
        machine = machine.name_any(),
        error = model::chain(error),
        "a Machine could not be cared for"
    );
    Action::requeue(Duration::from_secs(5))
}
