//! Hosts, Machines and Nodes as last seen, for whoever needs all of them at once.
//!
//! What is here may be a moment old. Nothing is changed on its word alone: every change names the version it is of.

use std::sync::Arc;

use crd::{BareMetalHost, Machine};
use futures::StreamExt;
use k8s_openapi::api::core::v1::Node;
use kube::runtime::reflector::{self, Store};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use tokio::task::JoinSet;
use tracing::debug;

use crate::context::Context;

#[derive(Clone)]
pub struct Cache {
    hosts: Store<BareMetalHost>,
    machines: Store<Machine>,
    nodes: Store<Node>,
}

impl Cache {
    /// Follows them for as long as `tasks` live.
    pub fn follow(context: &Context, tasks: &mut JoinSet<()>) -> Self {
        Self {
            hosts: follow(context.watched(), tasks),
            machines: follow(context.watched(), tasks),
            nodes: follow(Api::all(context.client.clone()), tasks),
        }
    }

    /// Until all of them were seen once.
    pub async fn ready(&self) {
        // An error says that the stream ended, and then so does everything else.
        _ = self.hosts.wait_until_ready().await;
        _ = self.machines.wait_until_ready().await;
        _ = self.nodes.wait_until_ready().await;
    }

    pub fn hosts(&self, namespace: &str) -> Vec<Arc<BareMetalHost>> {
        within(&self.hosts, namespace)
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
        self.nodes.get(&reflector::ObjectRef::new(name))
    }
}

fn follow<K>(api: Api<K>, tasks: &mut JoinSet<()>) -> Store<K>
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
    let stream = watcher(api, watcher::Config::default())
        .default_backoff()
        .reflect(writer);
    tasks.spawn(stream.for_each(|event| async move {
        if let Err(error) = event {
            debug!(error = model::chain(&error), "a watch begins anew");
        }
    }));
    store
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
