//! What Kubernetes last told of the objects we care for.
//!
//! ```text
//!   watch ──▶ a store per kind ──▶ controllers read
//!                    └──▶ the host that an object belongs to is looked at, once the object is in its store
//! ```
//!
//! What is here may be a moment old. Nothing is changed on its word alone: every change names the version it is of.

use std::sync::Arc;
use std::time::Duration;

use crd::host::SECRET_LABEL;
use crd::{
    BareMetalHost, DataImage, HardwareData, HostFirmwareComponents, HostFirmwareSettings,
    HostUpdatePolicy, Machine, PreprovisioningImage,
};
use futures::{FutureExt, StreamExt};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{Node, Secret};
use kube::runtime::reflector::{self, ObjectRef, Store};
use kube::runtime::watcher::Event;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tracing::{debug, warn};

use crate::context::{Config, watched};

/// Hosts to look at because of something that belongs to them. Watches pause while this many wait.
pub type Touched = mpsc::Receiver<ObjectRef<BareMetalHost>>;
const WAITING: usize = 1024;
/// Between words on a kind that cannot be seen.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Clone)]
pub struct Cache {
    hosts: Store<BareMetalHost>,
    machines: Store<Machine>,
    nodes: Store<Node>,
    /// Those that hosts have claimed.
    secrets: Store<Secret>,
    hardware: Store<HardwareData>,
    settings: Store<HostFirmwareSettings>,
    components: Store<HostFirmwareComponents>,
    policies: Store<HostUpdatePolicy>,
    data_images: Store<DataImage>,
    images: Store<PreprovisioningImage>,
}

impl Cache {
    /// Follows them for as long as `tasks` live.
    pub fn follow(client: &Client, config: &Config, tasks: &mut JoinSet<()>) -> (Self, Touched) {
        let (touch, touched) = mpsc::channel(WAITING);
        let nobody = |_: &_| Vec::new();
        let claimed = format!("{}={}", SECRET_LABEL.0, SECRET_LABEL.1);
        let all = watcher::Config::default;
        let mut at = Follow {
            touch,
            tasks,
            client,
            config,
        };
        let cache = Self {
            hosts: at.objects(all(), |_| Vec::new()),
            machines: at.objects(all(), |_| Vec::new()),
            nodes: at.everywhere(Api::all(client.clone()), all(), nobody),
            secrets: at.objects(all().labels(&claimed), owners),
            hardware: at.objects(all(), same_name),
            settings: at.objects(all(), same_name),
            components: at.objects(all(), same_name),
            policies: at.objects(all(), same_name),
            data_images: at.objects(all(), same_name),
            images: at.objects(all(), same_name),
        };
        (cache, touched)
    }

    /// Until all of them were seen once; says for which it waits.
    pub async fn ready(&self) {
        for (kind, mut seen) in [
            ("BareMetalHost", self.hosts.wait_until_ready().boxed()),
            ("Machine", self.machines.wait_until_ready().boxed()),
            ("Node", self.nodes.wait_until_ready().boxed()),
            ("Secret", self.secrets.wait_until_ready().boxed()),
            ("HardwareData", self.hardware.wait_until_ready().boxed()),
            (
                "HostFirmwareSettings",
                self.settings.wait_until_ready().boxed(),
            ),
            (
                "HostFirmwareComponents",
                self.components.wait_until_ready().boxed(),
            ),
            ("HostUpdatePolicy", self.policies.wait_until_ready().boxed()),
            ("DataImage", self.data_images.wait_until_ready().boxed()),
            (
                "PreprovisioningImage",
                self.images.wait_until_ready().boxed(),
            ),
        ] {
            // An error says that the stream ended, and then so does everything else.
            while tokio::time::timeout(PATIENCE, &mut seen).await.is_err() {
                warn!(
                    kind,
                    "waits to see what there is of a kind: is it defined, and may we list it?"
                );
            }
        }
    }

    /// One object by its name.
    pub fn get<K: Kept>(&self, namespace: &str, name: &str) -> Option<Arc<K>> {
        K::store(self).get(&ObjectRef::new(name).within(namespace))
    }

    pub fn hosts(&self, namespace: &str) -> Vec<Arc<BareMetalHost>> {
        within(&self.hosts, namespace)
    }

    pub fn all_hosts(&self) -> Vec<Arc<BareMetalHost>> {
        self.hosts.state()
    }

    pub fn machines(&self, namespace: &str) -> Vec<Arc<Machine>> {
        within(&self.machines, namespace)
    }

    pub fn all_machines(&self) -> Vec<Arc<Machine>> {
        self.machines.state()
    }

    pub fn nodes(&self) -> Vec<Arc<Node>> {
        self.nodes.state()
    }

    pub fn node(&self, name: &str) -> Option<Arc<Node>> {
        self.nodes.get(&ObjectRef::new(name))
    }
}

/// A kind of object in a namespace that is kept here.
pub trait Kept:
    Resource<Scope = NamespaceResourceScope, DynamicType = ()>
    + Clone
    + DeserializeOwned
    + std::fmt::Debug
    + Send
    + Sync
    + 'static
{
    fn store(cache: &Cache) -> &Store<Self>;
}

impl Kept for BareMetalHost {
    fn store(cache: &Cache) -> &Store<Self> {
        &cache.hosts
    }
}

impl Kept for Machine {
    fn store(cache: &Cache) -> &Store<Self> {
        &cache.machines
    }
}

impl Kept for Secret {
    fn store(cache: &Cache) -> &Store<Self> {
        &cache.secrets
    }
}

impl Kept for HardwareData {
    fn store(cache: &Cache) -> &Store<Self> {
        &cache.hardware
    }
}

impl Kept for HostFirmwareSettings {
    fn store(cache: &Cache) -> &Store<Self> {
        &cache.settings
    }
}

impl Kept for HostFirmwareComponents {
    fn store(cache: &Cache) -> &Store<Self> {
        &cache.components
    }
}

impl Kept for HostUpdatePolicy {
    fn store(cache: &Cache) -> &Store<Self> {
        &cache.policies
    }
}

impl Kept for DataImage {
    fn store(cache: &Cache) -> &Store<Self> {
        &cache.data_images
    }
}

impl Kept for PreprovisioningImage {
    fn store(cache: &Cache) -> &Store<Self> {
        &cache.images
    }
}

/// What belongs to a host has the host's name.
fn same_name<K: ResourceExt>(object: &K) -> Vec<ObjectRef<BareMetalHost>> {
    let namespace = object.namespace().unwrap_or_default();
    vec![ObjectRef::new(&object.name_any()).within(&namespace)]
}

/// The hosts that claimed a Secret.
fn owners(secret: &Secret) -> Vec<ObjectRef<BareMetalHost>> {
    let namespace = secret.namespace().unwrap_or_default();
    secret
        .owner_references()
        .iter()
        .filter(|owner| owner.kind == BareMetalHost::kind(&()))
        .map(|owner| ObjectRef::new(&owner.name).within(&namespace))
        .collect()
}

/// Where stores come from.
struct Follow<'a> {
    touch: mpsc::Sender<ObjectRef<BareMetalHost>>,
    tasks: &'a mut JoinSet<()>,
    client: &'a Client,
    config: &'a Config,
}

impl Follow<'_> {
    fn objects<K: Kept>(
        &mut self,
        which: watcher::Config,
        whose: fn(&K) -> Vec<ObjectRef<BareMetalHost>>,
    ) -> Store<K> {
        self.everywhere(watched(self.client, self.config), which, whose)
    }

    /// `whose` names the hosts to look at when an object changes.
    fn everywhere<K>(
        &mut self,
        api: Api<K>,
        which: watcher::Config,
        whose: fn(&K) -> Vec<ObjectRef<BareMetalHost>>,
    ) -> Store<K>
    where
        K: Resource<DynamicType = ()>
            + Clone
            + DeserializeOwned
            + std::fmt::Debug
            + Send
            + Sync
            + 'static,
    {
        let (store, writer) = reflector::store();
        let touch = self.touch.clone();
        let stream = watcher(api, which)
            .default_backoff()
            .modify(|object| object.managed_fields_mut().clear())
            .reflect(writer);
        self.tasks.spawn(async move {
            let mut stream = std::pin::pin!(stream);
            // Objects of a new beginning are in the store only at its end.
            let mut begun = Vec::new();
            while let Some(event) = stream.next().await {
                let hosts = match event {
                    Ok(Event::Apply(object) | Event::Delete(object)) => whose(&object),
                    Ok(Event::InitApply(object)) => {
                        begun.extend(whose(&object));
                        continue;
                    }
                    Ok(Event::Init) => continue,
                    Ok(Event::InitDone) => std::mem::take(&mut begun),
                    Err(error) => {
                        debug!(error = model::chain(&error), "a watch begins anew");
                        continue;
                    }
                };
                for host in hosts {
                    // Nobody listens any more: all of it ends.
                    _ = touch.send(host).await;
                }
            }
        });
        store
    }
}

fn within<K>(store: &Store<K>, namespace: &str) -> Vec<Arc<K>>
where
    K: Resource<DynamicType = ()> + Clone + 'static,
{
    store
        .state()
        .into_iter()
        .filter(|object| object.namespace().as_deref() == Some(namespace))
        .collect()
}
