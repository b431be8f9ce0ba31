//! What happens by itself: namespaces are emptied, orphans collected, certificates signed.
//!
//! ```text
//!   store ── events ──▶ work: which objects to look at, and when ──▶ one controller's look ──▶ API, in process
//! ```
//!
//! Every server of a cluster runs all of them. None trusts what it did before: it looks at an object as it is, does what
//! is missing, and loses a race without harm, for every write names the version it is based on.

mod accounts;
mod aggregation;
mod bootstrap;
mod definitions;
mod events;
mod garbage;
mod namespaces;
mod nodes;
mod requests;
pub mod signer;
mod work;

use std::sync::Arc;

use objects::Kind;
use serde_json::Value;
use tokio::task::JoinSet;

pub use bootstrap::bootstrap;
pub use signer::Signer;

use crate::api::kinds::Kinds;
use crate::auth::Tokens;
use crate::local::{Local, Refusal};
use crate::store::{self, At, Page, Store};

/// What controllers share.
#[derive(Clone)]
pub struct Context {
    pub store: Store,
    pub local: Local,
    pub kinds: Arc<Kinds>,
    pub tokens: Tokens,
    /// What clients verify this server with, in PEM.
    pub ca: String,
}

/// Each in a task of its own.
pub fn spawn(tasks: &mut JoinSet<()>, context: &Context, signer: Option<Signer>) {
    let same = || context.clone();
    tasks.spawn(work::run(same(), namespaces::Namespaces(same())));
    tasks.spawn(work::run(same(), garbage::Garbage::new(same())));
    tasks.spawn(work::run(same(), definitions::Definitions(same())));
    tasks.spawn(work::run(same(), accounts::Accounts(same())));
    tasks.spawn(work::run(same(), accounts::TokenSecrets(same())));
    tasks.spawn(work::run(same(), accounts::LostTokens(same())));
    tasks.spawn(work::run(same(), aggregation::Aggregation(same())));
    tasks.spawn(work::run(same(), nodes::Nodes::new(same())));
    tasks.spawn(work::run(same(), requests::Requests(same())));
    tasks.spawn(events::expire(context.store.clone()));
    if let Some(signer) = signer {
        tasks.spawn(work::run(same(), signer::Signing(same(), signer)));
    }
}

/// Where the API has objects of a kind: `/apis/metal3.io/v1alpha1/namespaces/metal/baremetalhosts/host-0`.
fn path(kind: &Kind, namespace: &str, name: &str) -> String {
    let mut path = if kind.group.is_empty() {
        format!("/api/{}", kind.version)
    } else {
        format!("/apis/{}/{}", kind.group, kind.version)
    };
    if kind.namespaced && !namespace.is_empty() {
        path = format!("{path}/namespaces/{namespace}");
    }
    path = format!("{path}/{}", kind.plural);
    if !name.is_empty() {
        path = format!("{path}/{name}");
    }
    path
}

/// `metadata.{field}`, empty where it is missing.
fn meta<'a>(object: &'a Value, field: &str) -> &'a str {
    object["metadata"][field].as_str().unwrap_or_default()
}

fn is_being_deleted(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}

fn finalizers(object: &Value) -> Vec<String> {
    let list = object["metadata"]["finalizers"].as_array();
    let list = list.into_iter().flatten().filter_map(Value::as_str);
    list.map(str::to_owned).collect()
}

/// Everything of a kind, as far as this server knows; for looks that are repeated when something changes.
async fn all(store: &Store, prefix: &str) -> Result<Vec<Value>, Refusal> {
    let page = Page {
        at: At::NotBefore(0),
        ..Page::default()
    };
    let listing = store
        .list(prefix, &page)
        .await
        .map_err(|error| failed(&error))?;
    Ok(listing.items.iter().filter_map(work::read).collect())
}

fn failed(error: &store::Error) -> Refusal {
    Refusal {
        code: 500,
        reason: "InternalError".into(),
        message: model::chain(error),
    }
}

#[cfg(test)]
mod tests;
