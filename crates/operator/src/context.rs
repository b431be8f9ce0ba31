//! What every controller works with.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::api::PostParams;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::{Api, Client, Resource};
use lifecycle::preprovisioning_image::Ramdisks;
use tracing::warn;

use crate::busy::Busy;
use crate::cache::Cache;
use crate::link::Link;
use crate::metrics::Metrics;

/// The name under which changes are made; `kubectl get --show-managed-fields` tells it.
pub const MANAGER: &str = "plinth-metal3";
/// The name under which events are told; dashboards look for it.
const REPORTER: &str = "metal3-baremetal-controller";

/// How the operator is set up.
#[derive(Debug, Clone)]
pub struct Config {
    /// Only objects in this namespace; in all of them where none is said.
    pub namespace: Option<String>,
    pub ironic: clients::ironic::Config,
    pub host: lifecycle::host::Config,
    /// What PreprovisioningImages are answered with; where there are none, somebody else answers.
    pub ramdisks: Ramdisks,
    /// So many objects of a kind are worked on at once.
    pub at_once: u16,
    /// Enrol hosts with Ironic's fake driver, whatever their BMC is: nothing is touched. For trying out.
    pub fake_hardware: bool,
    /// Where it is counted what happens.
    pub metrics: Arc<Metrics>,
}

impl Config {
    pub fn new(ironic: clients::ironic::Config) -> Self {
        Self {
            namespace: None,
            ironic,
            host: lifecycle::host::Config::default(),
            ramdisks: Ramdisks::default(),
            at_once: 16,
            fake_hardware: false,
            metrics: Arc::default(),
        }
    }

    /// PreprovisioningImages are asked for, and answered here with these ramdisks. Network configuration goes through
    /// Ironic, as nothing is built.
    pub fn answer_images(&mut self, ramdisks: Ramdisks) {
        self.host.image_builder = true;
        self.host.network_in_images = ramdisks.is_empty();
        self.ramdisks = ramdisks;
    }
}

pub struct Context {
    pub client: Client,
    pub cache: Cache,
    pub ironic: Link,
    pub busy: Busy,
    pub config: Config,
    recorder: Recorder,
}

impl Context {
    pub fn new(client: Client, cache: Cache, config: Config) -> Self {
        let reporter = Reporter {
            controller: REPORTER.to_owned(),
            instance: None,
        };
        Self {
            cache,
            ironic: Link::new(config.ironic.clone()),
            busy: Busy::default(),
            recorder: Recorder::new(client.clone(), reporter),
            client,
            config,
        }
    }

    /// Objects in the namespaces that are watched.
    pub fn watched<K>(&self) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        watched(&self.client, &self.config)
    }

    pub fn in_namespace<K>(&self, namespace: &str) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// Tells of something that happened to an object. An event that cannot be told is no reason to stop.
    pub async fn tell(&self, about: &ObjectReference, event: News<'_>) {
        let event = Event {
            type_: if event.warning {
                EventType::Warning
            } else {
                EventType::Normal
            },
            reason: event.reason.to_owned(),
            note: Some(event.note.chars().take(1000).collect()),
            action: event.reason.to_owned(),
            secondary: event.related,
        };
        let telling = self.recorder.publish(&event, about);
        match tokio::time::timeout(Duration::from_secs(10), telling).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                warn!(
                    error = model::chain(&error),
                    reason = event.reason,
                    "an event was not told"
                );
            }
            Err(_) => warn!(reason = event.reason, "an event was not told in time"),
        }
    }
}

/// Objects in the namespaces that are watched.
pub fn watched<K>(client: &Client, config: &Config) -> Api<K>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
{
    match &config.namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    }
}

/// Whatever is made or replaced is so in our name.
pub fn by_us() -> PostParams {
    PostParams {
        field_manager: Some(MANAGER.to_owned()),
        ..PostParams::default()
    }
}

/// An event, before it is told.
pub struct News<'a> {
    pub warning: bool,
    pub reason: &'a str,
    pub note: &'a str,
    pub related: Option<ObjectReference>,
}
