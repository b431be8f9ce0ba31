//! The controller of hosts.

mod act;
mod deploy_data;
mod fake;
mod gather;
mod look;
mod pass;
mod secret;

use std::sync::Arc;
use std::time::Duration;

use crd::host::SECRET_LABEL;
use crd::{
    BareMetalHost, DataImage, HardwareData, HostFirmwareComponents, HostFirmwareSettings,
    HostUpdatePolicy, PreprovisioningImage,
};
use futures::StreamExt;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::runtime::controller::{Action, Config, Controller};
use kube::runtime::reflector::ObjectRef;
use kube::runtime::watcher;
use tracing::{debug, warn};

use crate::context::Context;
use crate::error::Error;
use pass::{Outcome, Pass};

/// Passes over one host before another has its turn.
const PASSES: usize = 64;
/// A pass waits on Kubernetes and Ironic only; neither takes this long.
const PASS_SECONDS: u64 = 120;

/// Cares for hosts until `stop`.
pub async fn run(context: Arc<Context>, stop: impl Future<Output = ()> + Send + Sync + 'static) {
    let all = watcher::Config::default;
    let claimed = all().labels(&format!("{}={}", SECRET_LABEL.0, SECRET_LABEL.1));
    let config = Config::default().concurrency(context.config.at_once);
    let mut controller = Controller::new(context.watched::<BareMetalHost>(), all())
        .with_config(config)
        .owns(context.watched::<Secret>(), claimed)
        .watches(context.watched::<HardwareData>(), all(), same_name)
        .watches(context.watched::<HostFirmwareSettings>(), all(), same_name)
        .watches(
            context.watched::<HostFirmwareComponents>(),
            all(),
            same_name,
        )
        .watches(context.watched::<HostUpdatePolicy>(), all(), same_name)
        .watches(context.watched::<DataImage>(), all(), same_name);
    if context.config.host.image_builder {
        controller =
            controller.watches(context.watched::<PreprovisioningImage>(), all(), same_name);
    }
    controller
        .graceful_shutdown_on(stop)
        .run(reconcile, on_error, context)
        .for_each(|result| async move {
            if let Err(error) = result {
                debug!(error = model::chain(&error), "hosts");
            }
        })
        .await;
}

/// What belongs to a host has the host's name.
fn same_name<K: ResourceExt>(object: K) -> Option<ObjectRef<BareMetalHost>> {
    let namespace = object.namespace()?;
    Some(ObjectRef::new(&object.name_any()).within(&namespace))
}

async fn reconcile(host: Arc<BareMetalHost>, context: Arc<Context>) -> Result<Action, Error> {
    let namespace = host.namespace().unwrap_or_default();
    let name = host.name_any();
    for _ in 0..PASSES {
        let limit = Duration::from_secs(PASS_SECONDS);
        let pass = Box::pin(one_pass(&context, &namespace, &name));
        match tokio::time::timeout(limit, pass).await {
            Ok(Ok(Outcome::Again)) => {}
            Ok(Ok(Outcome::After(pause))) => return Ok(Action::requeue(pause)),
            Ok(Ok(Outcome::Never)) => return Ok(Action::await_change()),
            Ok(Err(error)) => return Err(error),
            Err(_) => {
                return Err(Error::TooLong {
                    name: format!("{namespace}/{name}"),
                    seconds: PASS_SECONDS,
                });
            }
        }
    }
    Ok(Action::requeue(Duration::from_millis(100)))
}

/// One look at the host as it is now, to the next step that changes something.
async fn one_pass(context: &Context, namespace: &str, name: &str) -> Result<Outcome, Error> {
    match Box::pin(Pass::begin(context, namespace, name)).await? {
        Some(pass) => Box::pin(pass.run()).await,
        None => Ok(Outcome::Never),
    }
}

fn on_error(host: Arc<BareMetalHost>, error: &Error, _: Arc<Context>) -> Action {
    let name = host.name_any();
    if error.is_conflict() {
        debug!(host = name, "the host changed meanwhile");
        return Action::requeue(Duration::from_millis(200));
    }
    warn!(
        host = name,
        error = model::chain(error),
        "a host could not be cared for"
    );
    Action::requeue(Duration::from_secs(5))
}
