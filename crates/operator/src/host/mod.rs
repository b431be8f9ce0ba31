//! The controller of hosts.

mod act;
mod deploy_data;
mod fake;
mod gather;
mod look;
mod pass;
mod secret;

use std::sync::Arc;
use std::time::{Duration, Instant};

use crd::BareMetalHost;
use futures::{StreamExt, stream};
use kube::runtime::controller::{Action, Config, Controller};
use kube::runtime::watcher;
use kube::{Api, ResourceExt};
use tracing::{debug, warn};

use crate::cache::Touched;
use crate::context::Context;
use crate::error::Error;
use crate::metrics;
use pass::{Outcome, Pass};

/// Passes over one host before another has its turn.
const PASSES: usize = 64;
/// A pass waits on Kubernetes and Ironic only; neither takes this long.
const PASS_SECONDS: u64 = 120;

/// Cares for hosts until `stop`. `touched` names those of which a belonging changed.
pub async fn run(
    context: Arc<Context>,
    touched: Touched,
    stop: impl Future<Output = ()> + Send + Sync + 'static,
) {
    let config = Config::default().concurrency(context.config.at_once);
    let touched = stream::unfold(touched, async |mut touched| {
        let host = touched.recv().await?;
        Some((host, touched))
    });
    Controller::new(
        context.watched::<BareMetalHost>(),
        watcher::Config::default(),
    )
    .with_config(config)
    .reconcile_on(touched)
    .graceful_shutdown_on(stop)
    .run(reconcile, on_error, context)
    .for_each(|result| async move {
        if let Err(error) = result {
            debug!(error = model::chain(&error), "hosts");
        }
    })
    .await;
}

async fn reconcile(host: Arc<BareMetalHost>, context: Arc<Context>) -> Result<Action, Error> {
    let namespace = host.namespace().unwrap_or_default();
    let name = host.name_any();
    let about = metrics::Host {
        namespace: &namespace,
        name: &name,
    };
    let metrics = &context.config.metrics;
    metrics.reconciling(about);
    let begin = Instant::now();
    let limit = Duration::from_secs(PASS_SECONDS);
    let passes = Box::pin(passes(&context, &namespace, &name));
    let outcome = match tokio::time::timeout(limit, passes).await {
        Ok(outcome) => outcome,
        Err(_) => Err(Error::TooLong {
            name: format!("{namespace}/{name}"),
            seconds: PASS_SECONDS,
        }),
    };
    metrics.reconciled(begin.elapsed());
    if outcome.is_err() {
        metrics.reconcile_failed(about);
    }
    outcome
}

/// From the host as it is now, one step after another, as long as each changes something.
async fn passes(context: &Context, namespace: &str, name: &str) -> Result<Action, Error> {
    let hosts: Api<BareMetalHost> = context.in_namespace(namespace);
    let found = hosts.get_opt(name).await;
    let Some(mut object) = found.map_err(Error::kube("read the host", name))? else {
        return Ok(Action::await_change());
    };
    // Stores do not know yet what we wrote a moment ago.
    let mut exact = false;
    for _ in 0..PASSES {
        let mut pass = Box::pin(Pass::begin(context, object, exact)).await?;
        match Box::pin(pass.run()).await? {
            Outcome::Again => {}
            Outcome::After(pause) => return Ok(Action::requeue(pause)),
            Outcome::Never => return Ok(Action::await_change()),
        }
        exact |= pass.wrote_belongings;
        object = pass.object;
    }
    Ok(Action::requeue(Duration::from_millis(100)))
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
