//! Keeps the policy up with the Roles and bindings in the store.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use objects::access::Policy;
use serde_json::Value;
use tracing::warn;

use super::Auth;
use crate::store::{Error, Event, Kv, Page};

const PREFIX: &str = "/registry/rbac.authorization.k8s.io/";
/// Before everything is read again after the store failed.
const AGAIN: Duration = Duration::from_secs(1);

impl Auth {
    /// Reads the policy once; [`Self::follow_policy`] goes on from it.
    pub async fn load_policy(&self) -> Result<u64, Error> {
        let listing = self.store.list(PREFIX, &Page::default()).await?;
        let mut policy = Policy::default();
        for object in listing.items.iter().filter_map(read) {
            policy.put(&object);
        }
        *self.policy.write().unwrap_or_else(PoisonError::into_inner) = policy;
        Ok(listing.revision)
    }

    /// Until dropped.
    pub async fn follow_policy(self: Arc<Self>) {
        loop {
            match self.follow().await {
                Err(Error::Closed) => return,
                Err(error) => warn!(error = model::chain(&error), "the policy is read again"),
                Ok(never) => match never {},
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    async fn follow(&self) -> Result<std::convert::Infallible, Error> {
        let revision = self.load_policy().await?;
        let mut watch = self.store.watch(PREFIX, revision)?;
        loop {
            let event = watch.next().await?;
            let mut policy = self.policy.write().unwrap_or_else(PoisonError::into_inner);
            match event {
                Event::Put { kv, .. } => _ = read(&kv).map(|object| policy.put(&object)),
                Event::Delete { previous, .. } => {
                    _ = read(&previous).map(|object| policy.remove(&object));
                }
                Event::Progress { .. } => {}
            }
        }
    }
}

fn read(kv: &Kv) -> Option<Value> {
    serde_json::from_slice(&kv.value)
        .inspect_err(|error| warn!(key = &*kv.key, %error, "cannot be read"))
        .ok()
}
