//! Objects go when the last of their owners went, before them if they ask for it, or not at all.
//!
//! ```text
//!   owner gone                          dependents whose owners are all gone are deleted
//!   owner waits, foregroundDeletion     its dependents are deleted; it goes when those that block it are gone
//!   owner waits, orphan                 its dependents forget it; then it goes
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::{Value, json};
use tracing::{debug, info};

use super::work::{Controller, Next};
use super::{Context, failed, finalizers, is_being_deleted, meta, path};
use crate::api::object;
use crate::local::Refusal;
use crate::store::Kv;

const FOREGROUND: &str = "foregroundDeletion";
const ORPHAN: &str = "orphan";
/// While dependents are held by finalizers of others. Their end is seen; this is for the rest.
const AGAIN: Duration = Duration::from_secs(2);

pub(super) struct Garbage {
    context: Context,
    graph: Graph,
}

/// Who owns whom, by what was observed.
#[derive(Default)]
struct Graph {
    objects: BTreeMap<String, Node>,
    /// Keys by identity.
    keys: BTreeMap<String, String>,
    /// By the owner's identity.
    dependents: BTreeMap<String, BTreeSet<String>>,
}

struct Node {
    uid: String,
    /// Their identities.
    owners: Vec<String>,
    leaving: bool,
}

impl Garbage {
    pub fn new(context: Context) -> Self {
        Self {
            context,
            graph: Graph::default(),
        }
    }
}

impl Controller for Garbage {
    const NAME: &'static str = "garbage";

    fn prefix(&self) -> String {
        "/registry/".to_owned()
    }

    fn forget(&mut self) {
        self.graph = Graph::default();
    }

    fn observe(&mut self, key: &str, object: Option<&Value>) -> Vec<String> {
        self.graph.observe(key, object)
    }

    async fn look(&mut self, key: &str, object: Option<Value>) -> Result<Next, Refusal> {
        let Some(object) = object else {
            return Ok(Next::Done);
        };
        if is_being_deleted(&object) {
            // All its dependents are known once its own leaving was observed, for that came after them.
            if !self.graph.is_leaving(key) {
                return Ok(Next::Done);
            }
            let held = finalizers(&object);
            if held.iter().any(|finalizer| finalizer == ORPHAN) {
                return self.orphan(&object).await;
            }
            if held.iter().any(|finalizer| finalizer == FOREGROUND) {
                return self.clear(&object).await;
            }
            return Ok(Next::Done);
        }
        self.judge(key, &object).await
    }
}

impl Garbage {
    /// Whether its owners are still there; goes if none is.
    async fn judge(&self, key: &str, object: &Value) -> Result<Next, Refusal> {
        let owners = owners(object);
        if owners.is_empty() {
            return Ok(Next::Done);
        }
        let (mut lost, mut leaving, mut there) = (Vec::new(), false, false);
        for owner in owners {
            match self.find(owner, object).await? {
                Owner::Gone => lost.push(owner["uid"].clone()),
                Owner::Leaving => {
                    lost.push(owner["uid"].clone());
                    leaving = true;
                }
                Owner::There => there = true,
            }
        }
        if there {
            // It stays for the sake of the others, and stands in nobody's way.
            if !lost.is_empty() {
                self.forget_owners(object, &lost).await?;
            }
            return Ok(Next::Done);
        }
        let held = finalizers(object);
        let policy = if held.iter().any(|finalizer| finalizer == ORPHAN) {
            "Orphan"
        } else if leaving || held.iter().any(|finalizer| finalizer == FOREGROUND) {
            "Foreground"
        } else {
            "Background"
        };
        info!(key, policy, "nobody owns it any more");
        self.delete(object, policy).await?;
        Ok(Next::Done)
    }

    /// An owner that waits for its dependents: they go, and then it.
    async fn clear(&self, owner: &Value) -> Result<Next, Refusal> {
        let uid = meta(owner, "uid");
        let mut blocked = false;
        for dependent in self.dependents(uid) {
            let reference = owners(&dependent).iter().find(|owner| owner["uid"] == uid);
            let blocks = reference.is_some_and(|owner| owner["blockOwnerDeletion"] == json!(true));
            blocked |= blocks;
            if is_being_deleted(&dependent) {
                continue;
            }
            let key = meta(&dependent, "name").to_owned();
            self.judge(&key, &dependent).await?;
        }
        if blocked {
            return Ok(Next::After(AGAIN));
        }
        self.release(owner, FOREGROUND).await
    }

    /// An owner whose dependents stay: they forget it, and then it goes.
    async fn orphan(&self, owner: &Value) -> Result<Next, Refusal> {
        let uid = json!(meta(owner, "uid"));
        for dependent in self.dependents(meta(owner, "uid")) {
            self.forget_owners(&dependent, std::slice::from_ref(&uid))
                .await?;
        }
        self.release(owner, ORPHAN).await
    }

    fn dependents(&self, uid: &str) -> Vec<Value> {
        let keys = self.graph.dependents.get(uid).into_iter().flatten();
        keys.filter_map(|key| super::work::read(&self.context.store.peek(key)?))
            .collect()
    }

    async fn find(&self, owner: &Value, dependent: &Value) -> Result<Owner, Refusal> {
        let text = |field: &str| owner[field].as_str().unwrap_or_default();
        let kinds = self.context.kinds.current();
        // What we know nothing of is not judged.
        let Some(kind) = kinds.find_kind(text("apiVersion"), text("kind")) else {
            debug!(kind = text("kind"), "an owner of an unknown kind");
            return Ok(Owner::There);
        };
        let namespace = meta(dependent, "namespace");
        // An object without a namespace cannot be owned by one in a namespace.
        if kind.namespaced && namespace.is_empty() {
            return Ok(Owner::There);
        }
        let namespace = if kind.namespaced { namespace } else { "" };
        let key = object::key(&kind, namespace, text("name"));
        let known = self.context.store.peek(&key);
        let known = known.map_or(Owner::Gone, |kv| Owner::of(&kv, text("uid")));
        if known == Owner::There {
            return Ok(known);
        }
        // Asked anew: to delete by what was true a moment ago would be a pity.
        let asked = self.context.store.get(&key).await;
        let (found, _) = asked.map_err(|error| failed(&error))?;
        Ok(found.map_or(Owner::Gone, |kv| Owner::of(&kv, text("uid"))))
    }

    async fn delete(&self, object: &Value, policy: &str) -> Result<(), Refusal> {
        let Some(path) = self.path(object) else {
            return Ok(());
        };
        let options = json!({
            "propagationPolicy": policy,
            "preconditions": {"uid": meta(object, "uid"), "resourceVersion": meta(object, "resourceVersion")},
        });
        gone_is_fine(self.context.local.delete(&path, &options).await)
    }

    async fn forget_owners(&self, object: &Value, uids: &[Value]) -> Result<(), Refusal> {
        let Some(path) = self.path(object) else {
            return Ok(());
        };
        let left: Vec<&Value> = owners(object)
            .iter()
            .filter(|owner| !uids.contains(&owner["uid"]))
            .collect();
        let patch = json!({"metadata": {
            "ownerReferences": left,
            "resourceVersion": meta(object, "resourceVersion"),
        }});
        gone_is_fine(self.context.local.merge(&path, &patch).await)
    }

    async fn release(&self, object: &Value, finalizer: &str) -> Result<Next, Refusal> {
        let Some(path) = self.path(object) else {
            return Ok(Next::Done);
        };
        let mut held = finalizers(object);
        held.retain(|held| held != finalizer);
        let patch = json!({"metadata": {
            "finalizers": held,
            "resourceVersion": meta(object, "resourceVersion"),
        }});
        gone_is_fine(self.context.local.merge(&path, &patch).await)?;
        Ok(Next::Done)
    }

    fn path(&self, object: &Value) -> Option<String> {
        let text = |field: &str| object[field].as_str().unwrap_or_default();
        let kinds = self.context.kinds.current();
        let kind = kinds.find_kind(text("apiVersion"), text("kind"))?;
        Some(path(&kind, meta(object, "namespace"), meta(object, "name")))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    There,
    Gone,
    /// It waits for its dependents.
    Leaving,
}

impl Owner {
    /// What has the owner's name may be another.
    fn of(kv: &Kv, uid: &str) -> Self {
        let Some(found) = super::work::read(kv).filter(|found| meta(found, "uid") == uid) else {
            return Self::Gone;
        };
        let foreground = finalizers(&found).iter().any(|name| name == FOREGROUND);
        if is_being_deleted(&found) && foreground {
            Self::Leaving
        } else {
            Self::There
        }
    }
}

fn owners(object: &Value) -> &[Value] {
    object["metadata"]["ownerReferences"]
        .as_array()
        .map_or(&[], Vec::as_slice)
}

fn gone_is_fine(result: Result<Value, Refusal>) -> Result<(), Refusal> {
    match result {
        Err(refusal) if refusal.code != 404 => Err(refusal),
        _ => Ok(()),
    }
}

impl Graph {
    /// Takes note; gives the keys that are to be looked at.
    fn observe(&mut self, key: &str, object: Option<&Value>) -> Vec<String> {
        let before = self.remove(key);
        let mut look = Vec::new();
        // An owner may wait for this one.
        for owner in before.iter().flat_map(|node| &node.owners) {
            let waiting = self.keys.get(owner).filter(|key| self.is_leaving(key));
            look.extend(waiting.cloned());
        }
        let Some(object) = object else {
            let uid = before.map(|node| node.uid).unwrap_or_default();
            let dependents = self.dependents.get(&uid).into_iter().flatten();
            look.extend(dependents.cloned());
            return look;
        };
        let node = Node {
            uid: meta(object, "uid").to_owned(),
            owners: owners(object)
                .iter()
                .filter_map(|owner| Some(owner["uid"].as_str()?.to_owned()))
                .collect(),
            leaving: is_being_deleted(object),
        };
        if node.leaving || !node.owners.is_empty() {
            look.push(key.to_owned());
        }
        self.insert(key, node);
        look
    }

    fn is_leaving(&self, key: &str) -> bool {
        self.objects.get(key).is_some_and(|node| node.leaving)
    }

    fn insert(&mut self, key: &str, node: Node) {
        for owner in &node.owners {
            let dependents = self.dependents.entry(owner.clone()).or_default();
            dependents.insert(key.to_owned());
        }
        self.keys.insert(node.uid.clone(), key.to_owned());
        self.objects.insert(key.to_owned(), node);
    }

    fn remove(&mut self, key: &str) -> Option<Node> {
        let node = self.objects.remove(key)?;
        self.keys.remove(&node.uid);
        for owner in &node.owners {
            if let Some(dependents) = self.dependents.get_mut(owner) {
                dependents.remove(key);
                if dependents.is_empty() {
                    self.dependents.remove(owner);
                }
            }
        }
        Some(node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(uid: &str, owners: &[&str]) -> Value {
        let owners: Vec<Value> = owners.iter().map(|uid| json!({"uid": uid})).collect();
        json!({"metadata": {"uid": uid, "ownerReferences": owners}})
    }

    #[test]
    fn the_end_of_an_owner_brings_its_dependents_up() {
        let mut graph = Graph::default();
        assert!(graph.observe("/owner", Some(&object("o", &[]))).is_empty());
        assert_eq!(graph.observe("/a", Some(&object("a", &["o"]))), ["/a"]);
        assert_eq!(graph.observe("/b", Some(&object("b", &["o", "p"]))), ["/b"]);
        assert_eq!(graph.observe("/owner", None), ["/a", "/b"]);
    }

    #[test]
    fn the_end_of_a_dependent_brings_an_owner_up_that_waits() {
        let mut graph = Graph::default();
        graph.observe("/owner", Some(&object("o", &[])));
        graph.observe("/a", Some(&object("a", &["o"])));
        let mut leaving = object("o", &[]);
        leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        assert_eq!(graph.observe("/owner", Some(&leaving)), ["/owner"]);
        assert_eq!(graph.observe("/a", None), ["/owner"]);
        assert!(graph.dependents.is_empty());
        assert!(graph.observe("/owner", None).is_empty());
        assert!(graph.objects.is_empty() && graph.keys.is_empty());
    }
}
