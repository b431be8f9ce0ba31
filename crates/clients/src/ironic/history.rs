//! What happened to a node, as Ironic remembers it.

use serde::Deserialize;
use serde_json::Value;

use super::node::escaped;
use super::{Error, Ironic};

impl Ironic {
    /// The node's events in Ironic's own words, by uuid or name.
    pub async fn history(&self, ident: &str) -> Result<Vec<Value>, Error> {
        #[derive(Deserialize)]
        struct Events {
            #[serde(default)]
            history: Vec<Value>,
        }
        let path = format!("/v1/nodes/{}/history?detail=true", escaped(ident));
        let events: Events = self.get("read a node's history", &path).await?;
        Ok(events.history)
    }
}
