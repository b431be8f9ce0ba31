//! Controllers that make hosts, machines and machine sets what their objects say.
//!
//! ```text
//!   Kubernetes ──watch──▶ a controller per kind ──view──▶ lifecycle: the next step
//!        ▲                        │                              │
//!        └──── status, events ────┴──────── one action ◀─────────┘
//!                                 └──▶ Ironic
//! ```
//!
//! A controller reads an object and what belongs to it, makes a view of them, asks `lifecycle` what to do, does that
//! one thing, and comes back. It remembers nothing: whatever it knows is in the objects or in Ironic, and either may
//! be asked at any time by another that took over.
#![allow(
    clippy::needless_pass_by_value,
    reason = "kube gives its callbacks objects, not references"
)]

mod busy;
mod cache;
mod context;
mod convert;
mod data_image;
mod error;
mod firmware;
mod health;
mod host;
mod link;
mod machine;
mod machine_set;
pub mod metal3;
mod metrics;
mod preprovisioning_image;
mod subscription;

use std::sync::Arc;

use futures::FutureExt;
use kube::Client;
use tokio::task::JoinSet;

use cache::Cache;
pub use context::{Config, Context, MANAGER};
pub use error::Error;
pub use lifecycle::preprovisioning_image::{Ramdisk, Ramdisks};
pub use metrics::Metrics;

/// Runs every controller until `stop`; what is being done then is finished first.
pub async fn run(client: Client, config: Config, stop: impl Future<Output = ()> + Send + 'static) {
    let stop = stop.boxed().shared();
    let mut watches = JoinSet::new();
    let (cache, touched) = Cache::follow(&client, &config, &mut watches);
    tokio::select! {
        () = cache.ready() => {}
        () = stop.clone() => return,
    }
    let metrics = config.metrics.clone();
    metrics.follow(Some(cache.clone()));
    let context = Arc::new(Context::new(client, cache.clone(), config));
    let mut controllers = JoinSet::new();
    controllers.spawn(host::run(context.clone(), touched, stop.clone()));
    controllers.spawn(machine::run(context.clone(), cache.clone(), stop.clone()));
    controllers.spawn(machine::csr::run(
        context.clone(),
        cache.clone(),
        stop.clone(),
    ));
    controllers.spawn(machine_set::run(
        context.clone(),
        cache.clone(),
        stop.clone(),
    ));
    controllers.spawn(health::run(context.clone(), cache, stop.clone()));
    controllers.spawn(health::remediate::run(context.clone(), stop.clone()));
    controllers.spawn(firmware::settings::run(context.clone(), stop.clone()));
    controllers.spawn(firmware::components::run(context.clone(), stop.clone()));
    controllers.spawn(data_image::run(context.clone(), stop.clone()));
    controllers.spawn(subscription::run(context.clone(), stop.clone()));
    if !context.config.ramdisks.is_empty() {
        controllers.spawn(preprovisioning_image::run(context, stop.clone()));
    }
    controllers.join_all().await;
    metrics.follow(None);
}
