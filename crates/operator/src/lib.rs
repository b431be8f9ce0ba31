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

mod cache;
mod context;
mod convert;
mod error;
mod firmware;
mod health;
mod host;
mod link;
mod machine;
mod machine_set;
pub mod metal3;

use std::sync::Arc;

use futures::FutureExt;
use kube::Client;
use tokio::task::JoinSet;

use cache::Cache;
pub use context::{Config, Context, MANAGER};
pub use error::Error;

/// Runs every controller until `stop`; what is being done then is finished first.
pub async fn run(client: Client, config: Config, stop: impl Future<Output = ()> + Send + 'static) {
    let stop = stop.boxed().shared();
    let context = Arc::new(Context::new(client, config));
    let mut watches = JoinSet::new();
    let cache = Cache::follow(&context, &mut watches);
    tokio::select! {
        () = cache.ready() => {}
        () = stop.clone() => return,
    }
    let mut controllers = JoinSet::new();
    controllers.spawn(host::run(context.clone(), stop.clone()));
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
    controllers.spawn(firmware::components::run(context, stop.clone()));
    controllers.join_all().await;
}
