//! What must be there before anybody comes: namespaces, roles and bindings.

use std::collections::BTreeMap;

use futures::StreamExt as _;
use serde_json::{Value, json};
use tracing::info;

use super::{Context, meta};
use crate::auth::roles;
use crate::local::Refusal;

const NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const AUTO_UPDATE: &str = "rbac.authorization.kubernetes.io/autoupdate";
/// How often a write is tried that another server makes at the same time.
const TRIES: usize = 5;
/// Writes on their way to the store at the same time.
const AT_ONCE: usize = 16;

/// Makes what is missing, and adds rules that a newer version has. What people added stays.
pub async fn bootstrap(context: &Context, more_namespaces: &[String]) -> Result<(), Refusal> {
    let wanted = NAMESPACES.into_iter();
    let namespaces = wanted.chain(more_namespaces.iter().map(String::as_str));
    let namespaces = namespaces.map(|name| {
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        ("/api/v1/namespaces".to_owned(), namespace)
    });
    let rules = roles::all().into_iter().map(|object| {
        let collection = match object["kind"].as_str().unwrap_or_default() {
            "ClusterRole" => format!("{RBAC}/clusterroles"),
            "ClusterRoleBinding" => format!("{RBAC}/clusterrolebindings"),
            kind => {
                let namespace = meta(&object, "namespace");
                format!("{RBAC}/namespaces/{namespace}/{}s", kind.to_lowercase())
            }
        };
        (collection, object)
    });
    // Namespaces first: other objects are in them.
    for wanted in [namespaces.collect::<Vec<_>>(), rules.collect()] {
        let missing = missing(context, wanted).await?;
        let made = futures::stream::iter(&missing)
            .map(|(collection, object)| ensure(context, collection, object));
        let mut made = made.buffer_unordered(AT_ONCE);
        while let Some(made) = made.next().await {
            made?;
        }
    }
    Ok(())
}

/// Those that are not there as they should be, as far as this server has seen: after the first start, none, and
/// nothing of the store but the listing is asked for.
async fn missing(
    context: &Context,
    wanted: Vec<(String, Value)>,
) -> Result<Vec<(String, Value)>, Refusal> {
    let mut seen: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    let mut missing = Vec::new();
    for (collection, object) in wanted {
        if !seen.contains_key(&collection) {
            let path = format!("{collection}?resourceVersion=0");
            let mut list = context.local.get(&path).await?;
            let items = match list["items"].take() {
                Value::Array(items) => items,
                _ => Vec::new(),
            };
            seen.insert(collection.clone(), items);
        }
        let name = meta(&object, "name");
        let found = seen[&collection]
            .iter()
            .find(|item| meta(item, "name") == name);
        if found.is_none_or(|found| merged(&object, found.clone()).is_some()) {
            missing.push((collection, object));
        }
    }
    Ok(missing)
}

async fn ensure(context: &Context, collection: &str, wanted: &Value) -> Result<(), Refusal> {
    let path = format!("{collection}/{}", meta(wanted, "name"));
    let mut tries = 0;
    loop {
        let result = match context.local.get(&path).await {
            Ok(found) => match merged(wanted, found) {
                Some(better) => context.local.update(&path, &better).await,
                None => return Ok(()),
            },
            Err(refusal) if refusal.code == 404 => context.local.create(collection, wanted).await,
            Err(refusal) => Err(refusal),
        };
        tries += 1;
        match result {
            Ok(_) => {
                info!(path, "made or brought up to date");
                return Ok(());
            }
            // Another server was quicker.
            Err(refusal) if refusal.code == 409 && tries < TRIES => {}
            Err(refusal) => return Err(refusal),
        }
    }
}

/// What was found with what it lacks; nothing if it lacks nothing, or if somebody wants it to stay as it is.
fn merged(wanted: &Value, mut found: Value) -> Option<Value> {
    if found["metadata"]["annotations"][AUTO_UPDATE] != json!("true") {
        return None;
    }
    // The rules of these are gathered by a controller.
    if wanted["aggregationRule"].is_object() {
        return None;
    }
    let mut changed = false;
    for field in ["rules", "subjects"] {
        for item in wanted[field].as_array().into_iter().flatten() {
            let there = found[field].as_array();
            if there.is_none_or(|there| !there.contains(item)) {
                match found[field].as_array_mut() {
                    Some(there) => there.push(item.clone()),
                    None => found[field] = json!([item]),
                }
                changed = true;
            }
        }
    }
    changed.then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_gets_what_it_lacks_and_keeps_what_people_added() {
        let role = |rules: Value, update: &str| json!({"metadata": {"annotations": {AUTO_UPDATE: update}}, "rules": rules});
        let wanted = role(json!([{"verbs": ["get"]}, {"verbs": ["list"]}]), "true");
        let theirs = json!([{"verbs": ["watch"]}, {"verbs": ["get"]}]);
        let better = merged(&wanted, role(theirs.clone(), "true")).unwrap();
        assert_eq!(
            better["rules"],
            json!([{"verbs": ["watch"]}, {"verbs": ["get"]}, {"verbs": ["list"]}])
        );
        assert_eq!(merged(&wanted, better), None);
        assert_eq!(merged(&wanted, role(theirs, "false")), None);
    }
}
