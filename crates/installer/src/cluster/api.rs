//! The cluster's API, through its virtual address.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::time::Duration;

use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use kube::api::{DynamicObject, GetParams, ListParams, Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::{GroupVersionKind, TypeMeta};
use kube::{Api, Client, ResourceExt as _, discovery};
use plan::cluster::Plan;
use plan::install::{self, Joined, Metal3, Reach};
use serde::de::DeserializeOwned;
use serde_json::json;

use super::look::{late, url};
use super::{Failed, Installer, requests, workers};
use crate::dir::Dir;

/// Who wrote what, in the objects' own books.
pub(crate) const MANAGER: &str = "plinth-installer";
/// Where the cluster says whether it still needs its bootstrap.
const NAMESPACE: &str = "kube-system";
const BOOTSTRAP: &str = "bootstrap";
const COMPLETE: &str = "complete";
/// metal3's lease, and what its holder says of its images.
pub const METAL3_NAMESPACE: &str = "openshift-machine-api";
pub const METAL3_LEASE: &str = "metal3";
pub const IMAGES_ANNOTATION: &str = "plinth.io/images";
/// What a control-plane node reports of itself.
pub const API_CONDITION: &str = "APIServerReady";
pub const ETCD_CONDITION: &str = "EtcdMemberReady";

const ANSWER: Duration = Duration::from_secs(5);
/// Requests on their way; each has a connection of its own.
const AT_ONCE: usize = 6;

pub(super) async fn look(installer: &Installer) -> Reach<install::Api> {
    let why = match tokio::time::timeout(ANSWER, ask(installer)).await {
        Ok(Ok(api)) => return Reach::Answers(api),
        Ok(Err(Failed(why))) => why,
        Err(_) => late(),
    };
    // Its connection may lead to a node that is gone.
    installer.known.lock().client = None;
    Reach::Silent(why)
}

/// As an API server has it at hand: it is asked again and again, and nothing that follows is done harm by another look.
/// The newest would be a round of all members of etcd for each question.
async fn ask(installer: &Installer) -> Result<install::Api, Failed> {
    let client = client(installer).await?;
    let nodes: Api<Node> = Api::all(client.clone());
    let nodes = nodes.list(&ListParams::default().match_any()).await?.items;
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
    let complete = at_hand(&maps, BOOTSTRAP).await?.is_some_and(|map| {
        map.data
            .is_some_and(|data| data.get("status").is_some_and(|status| status == COMPLETE))
    });
    let leases: Api<Lease> = Api::namespaced(client.clone(), METAL3_NAMESPACE);
    let lease = at_hand(&leases, METAL3_LEASE).await?;
    let masters = installer.plan.hosts.iter();
    let masters = masters.filter(|host| host.machine.is_some());
    let mut api = install::Api {
        complete,
        requests: requests::look(&client, masters, &nodes).await?,
        missing_manifests: Vec::new(),
        metal3: metal3(lease.as_ref()),
        workers: Vec::new(),
        nodes: nodes
            .iter()
            .map(|node| (node.name_any(), joined(node)))
            .collect(),
    };
    // Each is asked for only when it can matter: a control plane that forms has enough to do.
    if !complete && install::control_plane_is_ready(&installer.plan, &api) {
        api.missing_manifests = missing(installer, &client).await?;
    }
    if complete {
        api.workers = workers::look(&client, &nodes).await?;
    }
    Ok(api)
}

async fn at_hand<K>(api: &Api<K>, name: &str) -> Result<Option<K>, kube::Error>
where
    K: Clone + DeserializeOwned + Debug,
{
    match api.get_with(name, &GetParams::any()).await {
        Ok(object) => Ok(Some(object)),
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

pub(crate) fn joined(node: &Node) -> Joined {
    Joined {
        api: condition(node, API_CONDITION),
        etcd: condition(node, ETCD_CONDITION),
    }
}

/// Whether the node says that this holds, or why not.
pub(crate) fn condition(node: &Node, kind: &str) -> Result<(), String> {
    let conditions = node.status.iter().flat_map(|status| &status.conditions);
    let mut found = conditions.flatten().filter(|found| found.type_ == kind);
    match found.next() {
        Some(found) if found.status == "True" => Ok(()),
        Some(found) => Err(found
            .message
            .clone()
            .unwrap_or_else(|| format!("{kind} is {}", found.status))),
        None => Err(format!("it does not report {kind} yet")),
    }
}

pub(crate) fn metal3(lease: Option<&Lease>) -> Metal3 {
    let holder = lease
        .and_then(|lease| lease.spec.as_ref()?.holder_identity.clone())
        .filter(|holder| !holder.is_empty());
    let (Some(lease), Some(on)) = (lease, holder) else {
        return Metal3::Absent("a master to take its lease".into());
    };
    let images = match lease
        .annotations()
        .get(IMAGES_ANNOTATION)
        .map(String::as_str)
    {
        Some("ready") => Ok(()),
        Some(why) => Err(why.to_owned()),
        None => Err("it has not said yet".into()),
    };
    Metal3::Active { on, images }
}

/// Manifests whose objects are not there, in the order of their names.
async fn missing(installer: &Installer, client: &Client) -> Result<Vec<String>, Failed> {
    let mut unknown = manifests(installer)?;
    unknown.retain(|file, _| !installer.known.lock().applied.contains(file));
    let kinds = Kinds::of(client, unknown.values().flatten()).await;
    let (kinds, client) = (&kinds, &client);
    let looks = unknown.into_iter().map(async |(file, objects)| {
        for object in &objects {
            let there = match kinds.api(client, object) {
                Some(api) => api.get_opt(&object.name_any()).await?.is_some(),
                // Its definition comes first.
                None => false,
            };
            if !there {
                return Ok(Some(file));
            }
        }
        installer.known.lock().applied.insert(file);
        Ok::<_, Failed>(None)
    });
    let looks = stream::iter(looks).buffered(AT_ONCE);
    looks
        .try_filter_map(async |file| Ok(file))
        .try_collect()
        .await
}

/// Applies definitions first, then what they define; many at once, because each waits for the store's disks.
pub(super) async fn apply(installer: &Installer, files: &[String]) -> Result<(), Failed> {
    let client = client(installer).await?;
    let mut all = manifests(installer)?;
    all.retain(|file, _| files.contains(file));
    for wave in install::waves(all, |object| kind(object).to_owned()) {
        let kinds = Kinds::of(&client, wave.iter().map(|(_, object)| object)).await;
        let (kinds, client) = (&kinds, &client);
        let applied = wave.iter().map(async |(file, object)| {
            let Some(api) = kinds.api(client, object) else {
                let kind = kind(object);
                return Err(Failed(format!("{file}: the API does not know {kind} yet")));
            };
            let (name, params) = (object.name_any(), PatchParams::apply(MANAGER).force());
            let applied = api.patch(&name, &params, &Patch::Apply(object)).await;
            applied.map_err(|error| Failed(format!("{file}: {name}: {}", model::chain(&error))))
        });
        let mut applied = stream::iter(applied).buffer_unordered(AT_ONCE);
        while applied.try_next().await?.is_some() {}
    }
    installer.known.lock().applied.extend(files.iter().cloned());
    Ok(())
}

fn kind(object: &DynamicObject) -> &str {
    object.types.as_ref().map_or("", |types| &types.kind)
}

pub(super) async fn mark_complete(installer: &Installer) -> Result<(), Failed> {
    let maps: Api<ConfigMap> = Api::namespaced(client(installer).await?, NAMESPACE);
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": BOOTSTRAP, "namespace": NAMESPACE},
        "data": {"status": COMPLETE},
    });
    let params = PatchParams::apply(MANAGER).force();
    maps.patch(BOOTSTRAP, &params, &Patch::Apply(&map)).await?;
    Ok(())
}

/// What each kind is called on the wire, asked once; those that nobody knows yet are left out.
struct Kinds(BTreeMap<(String, String), discovery::ApiResource>);

impl Kinds {
    async fn of(client: &Client, objects: impl Iterator<Item = &DynamicObject>) -> Self {
        let wanted: BTreeSet<_> = objects.filter_map(Self::key).collect();
        let asked = wanted.into_iter().map(async |(version, kind)| {
            let types = TypeMeta {
                api_version: version.clone(),
                kind: kind.clone(),
            };
            let known = GroupVersionKind::try_from(&types).ok()?;
            let (resource, _) = discovery::pinned_kind(client, &known).await.ok()?;
            Some(((version, kind), resource))
        });
        let asked = stream::iter(asked).buffer_unordered(AT_ONCE);
        Self(asked.filter_map(async |found| found).collect().await)
    }

    fn key(object: &DynamicObject) -> Option<(String, String)> {
        let types = object.types.as_ref()?;
        Some((types.api_version.clone(), types.kind.clone()))
    }

    fn api(&self, client: &Client, object: &DynamicObject) -> Option<Api<DynamicObject>> {
        let resource = self.0.get(&Self::key(object)?)?;
        Some(match object.namespace() {
            Some(namespace) => Api::namespaced_with(client.clone(), &namespace, resource),
            None => Api::all_with(client.clone(), resource),
        })
    }
}

fn manifests(installer: &Installer) -> Result<BTreeMap<String, Vec<DynamicObject>>, Failed> {
    let mut all = BTreeMap::new();
    for (file, text) in installer.dir.manifests()? {
        let objects = serde_saphyr::from_multiple::<DynamicObject>(&text)
            .map_err(|error| Failed(format!("{file}: {error}")))?;
        all.insert(file, objects);
    }
    Ok(all)
}

pub(super) async fn client(installer: &Installer) -> Result<Client, Failed> {
    if let Some(client) = &installer.known.lock().client {
        return Ok(client.clone());
    }
    let client = connect(&installer.dir, &installer.plan).await?;
    installer.known.lock().client = Some(client.clone());
    Ok(client)
}

/// As the administrator, by the VIP: the name may not be known where we run.
pub(crate) async fn connect(dir: &Dir, plan: &Plan) -> Result<Client, Failed> {
    let text = dir.kubeconfig()?;
    let kubeconfig = Kubeconfig::from_yaml(&text)?;
    let mut config =
        kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    config.tls_server_name = config.cluster_url.host().map(str::to_owned);
    config.cluster_url = url(plan, "api").parse()?;
    config.connect_timeout = Some(ANSWER);
    config.read_timeout = Some(ANSWER);
    // Without it a connection that rested for nearly as long breaks as soon as it is used again.
    config.reset_reader_on_write = true;
    Ok(Client::try_from(config)?)
}
