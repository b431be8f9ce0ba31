//! The controller of PreprovisioningImages, where nobody else builds them: the answer is a ramdisk that is there.

use std::sync::Arc;
use std::time::Duration;

use crd::PreprovisioningImage;
use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Patch, PatchParams};
use kube::runtime::controller::{Action, Config, Controller};
use kube::runtime::watcher;
use kube::{Api, Resource, ResourceExt};
use lifecycle::preprovisioning_image::{FINALIZER, Image, Status, Step, next};
use serde_json::json;
use tracing::{debug, warn};

use crate::context::{Context, MANAGER, by_us};
use crate::convert::converted;
use crate::error::Error;

/// Answers until `stop`.
pub async fn run(context: Arc<Context>, stop: impl Future<Output = ()> + Send + Sync + 'static) {
    Controller::new(
        context.watched::<PreprovisioningImage>(),
        watcher::Config::default(),
    )
    .with_config(Config::default().concurrency(4))
    .graceful_shutdown_on(stop)
    .run(reconcile, on_error, context)
    .for_each(|result| async move {
        if let Err(error) = result {
            debug!(error = model::chain(&error), "preprovisioning images");
        }
    })
    .await;
}

async fn reconcile(
    object: Arc<PreprovisioningImage>,
    context: Arc<Context>,
) -> Result<Action, Error> {
    let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
    let api: Api<PreprovisioningImage> = context.in_namespace(&namespace);
    let image = view(&object)?;
    let secret = match image.spec.network_data_name.as_str() {
        "" => None,
        secret => {
            let secrets: Api<Secret> = context.in_namespace(&namespace);
            let found = secrets.get_metadata_opt(secret).await;
            let found = found.map_err(Error::kube("read the Secret", secret))?;
            found.and_then(|secret| secret.resource_version())
        }
    };
    let now = Timestamp::now();
    let ramdisks = &context.config.ramdisks;
    let finalizers = match next(&image, ramdisks, secret.as_deref(), now) {
        Step::AddFinalizer => [&image.finalizers[..], &[FINALIZER.to_owned()]].concat(),
        Step::RemoveFinalizer => Vec::new(),
        Step::Save(status) => {
            save(&api, &object, &status).await?;
            return Ok(Action::await_change());
        }
        Step::Wait { reason, until } => {
            let pause = Duration::try_from(until.duration_since(now)).unwrap_or_default();
            debug!(image = name, reason, ?pause, "waits for");
            return Ok(Action::requeue(pause));
        }
        Step::Done => return Ok(Action::await_change()),
    };
    let patch = json!({"metadata": {
        "resourceVersion": object.resource_version(), "finalizers": finalizers,
    }});
    api.patch(&name, &PatchParams::apply(MANAGER), &Patch::Merge(patch))
        .await
        .map_err(Error::kube("mark the PreprovisioningImage", &name))?;
    Ok(Action::await_change())
}

fn view(object: &PreprovisioningImage) -> Result<Image, Error> {
    let name = object.name_any();
    let kind = "PreprovisioningImage";
    Ok(Image {
        generation: object.meta().generation.unwrap_or_default(),
        deleting: object.meta().deletion_timestamp.is_some(),
        finalizers: object.finalizers().to_vec(),
        spec: converted(kind, &name, &object.spec)?,
        status: match &object.status {
            Some(status) => converted(kind, &name, status)?,
            None => Status::default(),
        },
    })
}

async fn save(
    api: &Api<PreprovisioningImage>,
    object: &PreprovisioningImage,
    status: &Status,
) -> Result<(), Error> {
    let name = object.name_any();
    let mut changed = object.clone();
    changed.status = Some(converted("PreprovisioningImage", &name, status)?);
    changed.metadata.managed_fields = None;
    api.replace_status(&name, &by_us(), &changed)
        .await
        .map(drop)
        .map_err(Error::kube("answer the PreprovisioningImage", &name))
}

fn on_error(image: Arc<PreprovisioningImage>, error: &Error, _: Arc<Context>) -> Action {
    if error.is_conflict() {
        return Action::requeue(Duration::from_millis(200));
    }
    warn!(
        image = image.name_any(),
        error = model::chain(error),
        "a PreprovisioningImage could not be answered"
    );
    Action::requeue(Duration::from_secs(5))
}
