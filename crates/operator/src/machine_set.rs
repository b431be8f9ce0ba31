//! The controller of MachineSets.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crd::machine::annotation;
use crd::machine_set::{DeletePolicy, MachineSetStatus};
use crd::{BareMetalHost, Machine, MachineSet};
use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::runtime::controller::{Action as Requeue, Config, Controller};
use kube::runtime::reflector::ObjectRef;
use kube::runtime::watcher;
use kube::{Api, Resource, ResourceExt};
use lifecycle::machine::ProviderSpec;
use lifecycle::machine_set::{
    self as decider, AUTOSCALE, Action, Consumer, FreeHost, Member, Step, next, replicas_for_hosts,
};
use serde_json::{Value, json};
use tracing::{debug, info, warn};

use crate::cache::Cache;
use crate::context::{Context, MANAGER, by_us};
use crate::convert::converted;
use crate::error::{Error, code};
use crate::machine::view;

/// Changes for one set before another has its turn.
const CHANGES: usize = 1000;

struct Shared {
    context: Arc<Context>,
    cache: Cache,
}

/// Cares for sets until `stop`.
pub async fn run(
    context: Arc<Context>,
    cache: Cache,
    stop: impl Future<Output = ()> + Send + Sync + 'static,
) {
    let all = watcher::Config::default;
    let controller = Controller::new(context.watched::<MachineSet>(), all());
    let sets = controller.store();
    controller
        .with_config(Config::default().concurrency(4))
        .owns(context.watched::<Machine>(), all())
        .watches(context.watched::<BareMetalHost>(), all(), move |host| {
            let namespace = host.namespace();
            sets.state()
                .into_iter()
                .filter(move |set| set.namespace() == namespace)
                .filter(|set| set.annotations().contains_key(AUTOSCALE))
                .map(|set| ObjectRef::from_obj(&*set))
                .collect::<Vec<_>>()
        })
        .graceful_shutdown_on(stop)
        .run(reconcile, on_error, Arc::new(Shared { context, cache }))
        .for_each(|result| async move {
            if let Err(error) = result {
                debug!(error = model::chain(&error), "machine sets");
            }
        })
        .await;
}

async fn reconcile(set: Arc<MachineSet>, shared: Arc<Shared>) -> Result<Requeue, Error> {
    let namespace = set.namespace().unwrap_or_default();
    let name = set.name_any();
    let sets: Api<MachineSet> = shared.context.in_namespace(&namespace);
    let found = sets.get_opt(&name).await;
    let Some(object) = found.map_err(Error::kube("read the MachineSet", &name))? else {
        return Ok(Requeue::await_change());
    };
    let machines: Api<Machine> = shared.context.in_namespace(&namespace);
    let listed = machines
        .list(&ListParams::default())
        .await
        .map_err(Error::kube("list the Machines of", &name))?;
    let mut pass = Pass {
        shared: &shared,
        sets,
        machines,
        object,
        members: listed.items,
    };
    for _ in 0..CHANGES {
        let now = Timestamp::now();
        match pass.next(now)? {
            Step::Do(action) => pass.act(&action).await?,
            Step::Wait { reason, until } => {
                debug!(set = name, reason, "waits for");
                let pause = Duration::try_from(until.duration_since(now)).unwrap_or_default();
                return Ok(Requeue::requeue(pause.max(Duration::from_millis(100))));
            }
            Step::Done => return Ok(Requeue::await_change()),
        }
    }
    Ok(Requeue::requeue(Duration::from_millis(100)))
}

/// What was read at the beginning, kept up by what was done since: no change has to be waited for to show.
struct Pass<'a> {
    shared: &'a Shared,
    sets: Api<MachineSet>,
    machines: Api<Machine>,
    object: MachineSet,
    members: Vec<Machine>,
}

impl Pass<'_> {
    fn next(&self, now: Timestamp) -> Result<Step, Error> {
        let set = set(&self.object)?;
        let members: Vec<Member> = self.members.iter().map(|m| self.member(m)).collect();
        Ok(next(&set, &members, self.autoscaled(&set), now))
    }

    fn member(&self, machine: &Machine) -> Member {
        let status = machine.status.clone().unwrap_or_default();
        let node = status.node_ref.and_then(|node| node.name);
        let has = |key: &str| machine.annotations().contains_key(key);
        let failed = status.phase.as_deref() == Some("Failed") || status.error_reason.is_some();
        Member {
            name: machine.name_any(),
            uid: machine.uid().unwrap_or_default(),
            labels: machine.labels().clone(),
            controller: machine
                .owner_references()
                .iter()
                .find(|owner| owner.controller == Some(true))
                .map(|owner| owner.uid.clone()),
            created: machine
                .creation_timestamp()
                .map_or(Timestamp::UNIX_EPOCH, |time| time.0),
            deleting: machine.meta().deletion_timestamp.is_some(),
            marked: has(annotation::DELETE) || has(annotation::DELETE_OLD),
            failed,
            has_node: node.is_some(),
            ready_since: node
                .and_then(|name| self.shared.cache.node(&name))
                .and_then(|node| view::ready_since(&node)),
        }
    }

    fn autoscaled(&self, set: &decider::MachineSet) -> Option<u32> {
        if !set.annotations.contains_key(AUTOSCALE) {
            return None;
        }
        let template = self.object.spec.template.spec.provider_spec.value.as_ref();
        let spec = ProviderSpec::parse(template.unwrap_or(&Value::Null)).ok()?;
        let hosts: Vec<FreeHost> = self
            .shared
            .cache
            .hosts(&set.namespace)
            .iter()
            .map(|host| FreeHost {
                labels: host.labels().clone(),
                consumer: self.consumer(host),
            })
            .collect();
        match replicas_for_hosts(set, &spec.host_selector, &hosts) {
            Ok(replicas) => replicas,
            Err(error) => {
                warn!(
                    set = set.name,
                    error = model::chain(&error),
                    "hosts cannot be counted"
                );
                None
            }
        }
    }

    fn consumer(&self, host: &BareMetalHost) -> Consumer {
        let Some(consumer) = &host.spec.consumer_ref else {
            return Consumer::Nobody;
        };
        if consumer.kind.as_deref() != Some("Machine") || consumer.namespace != host.namespace() {
            return Consumer::Stranger;
        }
        let name = consumer.name.as_deref().unwrap_or_default();
        match self
            .members
            .iter()
            .find(|machine| machine.name_any() == name)
        {
            Some(machine) => Consumer::Machine {
                labels: machine.labels().clone(),
            },
            None => Consumer::Unknown,
        }
    }

    async fn act(&mut self, action: &Action) -> Result<(), Error> {
        match action {
            Action::CreateMachine => self.create().await,
            Action::DeleteMachine { name } => self.delete(name).await,
            Action::AdoptMachine { name } => self.adopt(name).await,
            Action::SetReplicas(replicas) => self.scale(*replicas).await,
            Action::Save(status) => self.save(status).await,
        }
    }

    async fn create(&mut self) -> Result<(), Error> {
        let set = self.object.name_any();
        let template = self.object.spec.template.clone();
        let metadata = template.metadata.unwrap_or_default();
        let mut machine = Machine::new("", template.spec);
        machine.metadata.name = None;
        machine.metadata.generate_name = Some(format!("{set}-"));
        machine.metadata.namespace = self.object.namespace();
        machine.metadata.labels = Some(metadata.labels);
        machine.metadata.annotations = Some(metadata.annotations);
        machine.metadata.owner_references = self
            .object
            .controller_owner_ref(&())
            .map(|owner| vec![owner]);
        let made = self
            .machines
            .create(&by_us(), &machine)
            .await
            .map_err(Error::kube("create a Machine for", &set))?;
        info!(set, machine = made.name_any(), "machine created");
        self.members.push(made);
        Ok(())
    }

    async fn delete(&mut self, name: &str) -> Result<(), Error> {
        match self.machines.delete(name, &DeleteParams::default()).await {
            Ok(_) => info!(
                set = self.object.name_any(),
                machine = name,
                "machine deleted"
            ),
            Err(error) if code(&error) == Some(404) => {}
            Err(error) => return Err(Error::kube("delete the Machine", name)(error)),
        }
        self.members.retain(|machine| machine.name_any() != name);
        Ok(())
    }

    async fn adopt(&mut self, name: &str) -> Result<(), Error> {
        let Some(member) = self.members.iter_mut().find(|m| m.name_any() == name) else {
            return Ok(());
        };
        let mut owners = member.owner_references().to_vec();
        owners.extend(self.object.controller_owner_ref(&()));
        let patch = json!({"metadata": {
            "resourceVersion": member.resource_version(), "ownerReferences": owners,
        }});
        *member = self
            .machines
            .patch(name, &PatchParams::apply(MANAGER), &Patch::Merge(patch))
            .await
            .map_err(Error::kube("adopt the Machine", name))?;
        Ok(())
    }

    async fn scale(&mut self, replicas: u32) -> Result<(), Error> {
        let name = self.object.name_any();
        let patch = json!({
            "metadata": {"resourceVersion": self.object.resource_version()},
            "spec": {"replicas": replicas},
        });
        self.object = self
            .sets
            .patch(&name, &PatchParams::apply(MANAGER), &Patch::Merge(patch))
            .await
            .map_err(Error::kube("scale the MachineSet", &name))?;
        info!(set = name, replicas, "machine set follows its hosts");
        Ok(())
    }

    async fn save(&mut self, status: &decider::Status) -> Result<(), Error> {
        let name = self.object.name_any();
        let mut object = self.object.clone();
        let before = object.status.clone().unwrap_or_default();
        let ours: MachineSetStatus = converted("MachineSet", &name, status)?;
        object.status = Some(MachineSetStatus {
            label_selector: Some(selector_text(&object.spec.selector)),
            conditions: before.conditions,
            authoritative_api: before.authoritative_api,
            synchronized_generation: before.synchronized_generation,
            ..ours
        });
        object.metadata.managed_fields = None;
        self.object = self
            .sets
            .replace_status(&name, &by_us(), &object)
            .await
            .map_err(Error::kube("write the status of the MachineSet", &name))?;
        Ok(())
    }
}

fn set(object: &MachineSet) -> Result<decider::MachineSet, Error> {
    let name = object.name_any();
    let metadata = object.spec.template.metadata.clone().unwrap_or_default();
    Ok(decider::MachineSet {
        namespace: object.namespace().unwrap_or_default(),
        uid: object.uid().unwrap_or_default(),
        generation: object.meta().generation.unwrap_or_default(),
        deleting: object.meta().deletion_timestamp.is_some(),
        annotations: object.annotations().clone(),
        replicas: object.spec.replicas.try_into().unwrap_or_default(),
        min_ready_seconds: object
            .spec
            .min_ready_seconds
            .and_then(|seconds| seconds.try_into().ok())
            .unwrap_or_default(),
        delete_policy: match object.spec.delete_policy.unwrap_or_default() {
            DeletePolicy::Random => decider::DeletePolicy::Random,
            DeletePolicy::Newest => decider::DeletePolicy::Newest,
            DeletePolicy::Oldest => decider::DeletePolicy::Oldest,
        },
        selector: converted("MachineSet", &name, &object.spec.selector)?,
        template_labels: metadata.labels,
        status: match &object.status {
            Some(status) => converted("MachineSet", &name, status)?,
            None => decider::Status::default(),
        },
        name,
    })
}

/// As `kubectl get -l` takes it, and those who scale sets do.
fn selector_text(selector: &LabelSelector) -> String {
    let labels: BTreeMap<_, _> = selector.match_labels.clone().unwrap_or_default();
    let equal = labels.iter().map(|(key, value)| format!("{key}={value}"));
    let expressions = selector.match_expressions.clone().unwrap_or_default();
    let rest = expressions.iter().map(|wanted| {
        let (key, values) = (
            &wanted.key,
            wanted.values.clone().unwrap_or_default().join(","),
        );
        match wanted.operator.as_str() {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "DoesNotExist" => format!("!{key}"),
            _ => key.clone(),
        }
    });
    equal.chain(rest).collect::<Vec<_>>().join(",")
}

fn on_error(set: Arc<MachineSet>, error: &Error, _: Arc<Shared>) -> Requeue {
    if error.is_conflict() {
        return Requeue::requeue(Duration::from_millis(200));
    }
    warn!(
        set = set.name_any(),
        error = model::chain(error),
        "a MachineSet could not be cared for"
    );
    Requeue::requeue(Duration::from_secs(5))
}

#[test]
fn a_selector_is_told_as_kubectl_takes_it() {
    let selector: LabelSelector = serde_json::from_value(json!({
        "matchLabels": {"a": "b"},
        "matchExpressions": [
            {"key": "c", "operator": "In", "values": ["d", "e"]},
            {"key": "f", "operator": "DoesNotExist"},
            {"key": "g", "operator": "Exists"},
        ],
    }))
    .expect("it is one");
    assert_eq!(selector_text(&selector), "a=b,c in (d,e),!f,g");
}
