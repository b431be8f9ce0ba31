//! The controller of DataImages: they are the host's, and stay until their disc is out of its drive.

use std::sync::Arc;
use std::time::Duration;

use crd::data_image::FINALIZER;
use crd::host::OperationalStatus;
use crd::{BareMetalHost, DataImage};
use futures::StreamExt;
use kube::api::{Patch, PatchParams};
use kube::runtime::controller::{Action, Config, Controller};
use kube::runtime::watcher;
use kube::{Api, Resource, ResourceExt};
use lifecycle::data_image::{Host, Image, Step, next};
use serde_json::json;
use tracing::{debug, warn};

use crate::context::{Context, MANAGER};
use crate::error::Error;

/// Cares for DataImages until `stop`.
pub async fn run(context: Arc<Context>, stop: impl Future<Output = ()> + Send + Sync + 'static) {
    Controller::new(context.watched::<DataImage>(), watcher::Config::default())
        .with_config(Config::default().concurrency(4))
        .graceful_shutdown_on(stop)
        .run(reconcile, on_error, context)
        .for_each(|result| async move {
            if let Err(error) = result {
                debug!(error = model::chain(&error), "data images");
            }
        })
        .await;
}

async fn reconcile(object: Arc<DataImage>, context: Arc<Context>) -> Result<Action, Error> {
    let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
    let hosts: Api<BareMetalHost> = context.in_namespace(&namespace);
    let found = hosts.get_opt(&name).await;
    let host = found.map_err(Error::kube("read the host", &name))?;
    let status = object.status.as_ref();
    let owner = host.as_ref().and_then(|host| host.owner_ref(&()));
    let image = Image {
        deleting: object.meta().deletion_timestamp.is_some(),
        finalizer: object.finalizers().iter().any(|f| f == FINALIZER),
        owned: owner.as_ref().is_some_and(|owner| {
            let owners = object.owner_references();
            owners.iter().any(|known| known.uid == owner.uid)
        }),
        attached: status.is_some_and(|status| status.attached_image.is_some()),
    };
    let seen = match &host {
        None => Host::Missing,
        Some(host) if is_detached(host) => Host::Detached,
        Some(_) => Host::Present,
    };
    let mut owners = object.owner_references().to_vec();
    let mut finalizers = object.finalizers().to_vec();
    finalizers.retain(|finalizer| finalizer != FINALIZER);
    match next(image, seen) {
        Step::Claim => {
            owners.retain(|known| known.kind != BareMetalHost::kind(&()));
            owners.extend(owner);
            finalizers.push(FINALIZER.to_owned());
        }
        Step::RemoveFinalizer => {}
        Step::Wait { reason, after } => {
            debug!(data_image = name, reason, ?after, "waits for");
            return Ok(Action::requeue(after));
        }
        Step::Done => return Ok(Action::await_change()),
    }
    let patch = json!({"metadata": {
        "resourceVersion": object.resource_version(), "ownerReferences": owners, "finalizers": finalizers,
    }});
    let api: Api<DataImage> = context.in_namespace(&namespace);
    api.patch(&name, &PatchParams::apply(MANAGER), &Patch::Merge(patch))
        .await
        .map_err(Error::kube("mark the DataImage", &name))?;
    Ok(Action::await_change())
}

fn is_detached(host: &BareMetalHost) -> bool {
    let status = host.status.as_ref();
    status.is_some_and(|status| status.operational_status == OperationalStatus::Detached)
}

fn on_error(image: Arc<DataImage>, error: &Error, _: Arc<Context>) -> Action {
    if error.is_conflict() {
        return Action::requeue(Duration::from_millis(200));
    }
    warn!(
        data_image = image.name_any(),
        error = model::chain(error),
        "a DataImage could not be cared for"
    );
    Action::requeue(Duration::from_secs(5))
}
