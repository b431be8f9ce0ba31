//! A namespace that is deleted is emptied, and goes when nothing is left in it.

use std::time::Duration;

use serde_json::{Value, json};
use tracing::{debug, info};

use super::work::{Controller, Next};
use super::{Context, failed, is_being_deleted, meta, path};
use crate::api::object;
use crate::local::Refusal;
use crate::store::{self, At, Page};

pub(super) struct Namespaces(pub Context);

const FINALIZER: &str = "kubernetes";
/// While finalizers of others hold objects in it.
const AGAIN: Duration = Duration::from_millis(500);

impl Controller for Namespaces {
    const NAME: &'static str = "namespaces";

    fn prefix(&self) -> String {
        store::prefix("", "namespaces", "")
    }

    async fn look(&mut self, _: &str, object: Option<Value>) -> Result<Next, Refusal> {
        let Some(mut namespace) = object.filter(is_being_deleted) else {
            return Ok(Next::Done);
        };
        let name = meta(&namespace, "name").to_owned();
        let left = self.empty(&name).await?;
        if left > 0 {
            debug!(namespace = name, left, "waiting for objects to go");
            return Ok(Next::After(AGAIN));
        }
        let finalizers = namespace["spec"]["finalizers"].as_array_mut();
        if let Some(finalizers) = finalizers {
            finalizers.retain(|finalizer| finalizer != FINALIZER);
        }
        let path = format!("/api/v1/namespaces/{name}/finalize");
        match self.0.local.update(&path, &namespace).await {
            Err(refusal) if refusal.code != 404 => return Err(refusal),
            _ => info!(namespace = name, "empty and gone"),
        }
        Ok(Next::Done)
    }
}

impl Namespaces {
    /// Asks for the end of everything in it; gives how much there still is.
    async fn empty(&self, name: &str) -> Result<usize, Refusal> {
        let mut left = 0;
        for kind in self.0.kinds.current().preferred() {
            if !kind.namespaced {
                continue;
            }
            let page = Page {
                limit: 1,
                at: At::Newest,
                ..Page::default()
            };
            let prefix = object::prefix(&kind, name);
            let listing = self.0.store.list(&prefix, &page).await;
            let listing = listing.map_err(|error| failed(&error))?;
            if listing.items.is_empty() {
                continue;
            }
            left += listing.items.len() + listing.remaining;
            let options = json!({"propagationPolicy": "Background"});
            let collection = path(&kind, name, "");
            let deleted = self.0.local.delete(&collection, &options).await;
            // A kind that cannot be deleted as a collection is deleted one by one by whoever owns it.
            if let Err(refusal) = deleted
                && !matches!(refusal.code, 404 | 405)
            {
                return Err(refusal);
            }
        }
        Ok(left)
    }
}
