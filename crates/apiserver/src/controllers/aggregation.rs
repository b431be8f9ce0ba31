//! ClusterRoles that gather the rules of others by their labels.

use serde_json::{Value, json};

use super::work::{Controller, Next};
use super::{Context, all, meta};
use crate::local::Refusal;
use crate::store;

pub(super) struct Aggregation(pub Context);

impl Controller for Aggregation {
    const NAME: &'static str = "aggregation";

    fn prefix(&self) -> String {
        store::prefix("rbac.authorization.k8s.io", "clusterroles", "")
    }

    /// A change to any of them may change what any other gathers: all are looked at together, under one key.
    fn observe(&mut self, _: &str, _: Option<&Value>) -> Vec<String> {
        vec![self.prefix()]
    }

    async fn look(&mut self, _: &str, _: Option<Value>) -> Result<Next, Refusal> {
        let roles = all(&self.0.store, &self.prefix()).await?;
        for role in &roles {
            let Some(rules) = objects::access::aggregate(role, &roles) else {
                continue;
            };
            let rules = json!(rules);
            if role["rules"] == rules {
                continue;
            }
            let mut role = role.clone();
            role["rules"] = rules;
            let name = meta(&role, "name");
            let path = format!("/apis/rbac.authorization.k8s.io/v1/clusterroles/{name}");
            self.0.local.update(&path, &role).await?;
        }
        Ok(Next::Done)
    }
}
