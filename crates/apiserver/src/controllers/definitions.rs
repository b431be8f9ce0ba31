//! CustomResourceDefinitions: accepted, established, and taken away with all their objects.

use std::time::Duration;

use jiff::Timestamp;
use objects::Kind;
use serde_json::{Value, json};
use tracing::info;

use super::work::{Controller, Next, read};
use super::{Context, all, failed, finalizers, is_being_deleted, meta};
use crate::api::kinds::{CRD_GROUP, CRD_PLURAL};
use crate::local::Refusal;
use crate::store::{self, Page};

pub(super) struct Definitions(pub Context);

const FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";
/// While finalizers of others hold objects.
const AGAIN: Duration = Duration::from_millis(500);

impl Controller for Definitions {
    const NAME: &'static str = "definitions";

    fn prefix(&self) -> String {
        store::prefix(CRD_GROUP, CRD_PLURAL, "")
    }

    async fn look(&mut self, _: &str, object: Option<Value>) -> Result<Next, Refusal> {
        let Some(crd) = object else {
            return Ok(Next::Done);
        };
        let name = meta(&crd, "name");
        let path = format!("/apis/{CRD_GROUP}/v1/{CRD_PLURAL}/{name}");
        let mut held = finalizers(&crd);
        if is_being_deleted(&crd) {
            if !held.iter().any(|finalizer| finalizer == FINALIZER) {
                return Ok(Next::Done);
            }
            if self.empty(&crd).await? > 0 {
                return Ok(Next::After(AGAIN));
            }
            held.retain(|finalizer| finalizer != FINALIZER);
            self.set_finalizers(&path, &crd, &held).await?;
            info!(crd = name, "gone with all its objects");
            return Ok(Next::Done);
        }
        if !held.iter().any(|finalizer| finalizer == FINALIZER) {
            held.push(FINALIZER.to_owned());
            self.set_finalizers(&path, &crd, &held).await?;
            // The change brings us here again.
            return Ok(Next::Done);
        }
        let status = status(&crd, &self.others(name).await?, Timestamp::now());
        if status != crd["status"] {
            let version = &crd["metadata"]["resourceVersion"];
            let patch = json!({"metadata": {"resourceVersion": version}, "status": status});
            self.0
                .local
                .merge(&format!("{path}/status"), &patch)
                .await?;
        }
        Ok(Next::Done)
    }
}

impl Definitions {
    async fn set_finalizers(
        &self,
        path: &str,
        crd: &Value,
        held: &[String],
    ) -> Result<(), Refusal> {
        let version = &crd["metadata"]["resourceVersion"];
        let patch = json!({"metadata": {"finalizers": held, "resourceVersion": version}});
        match self.0.local.merge(path, &patch).await {
            Err(refusal) if refusal.code != 404 => Err(refusal),
            _ => Ok(()),
        }
    }

    async fn others(&self, name: &str) -> Result<Vec<Value>, Refusal> {
        let mut others = all(&self.0.store, &self.prefix()).await?;
        others.retain(|other| meta(other, "name") != name);
        Ok(others)
    }

    /// Asks for the end of all objects of the kind; gives how many there still are.
    async fn empty(&self, crd: &Value) -> Result<usize, Refusal> {
        let text = |field: &Value| field.as_str().unwrap_or_default().to_owned();
        let (group, plural) = (
            text(&crd["spec"]["group"]),
            text(&crd["spec"]["names"]["plural"]),
        );
        let prefix = store::prefix(&group, &plural, "");
        let listing = self.0.store.list(&prefix, &Page::default()).await;
        let items = listing.map_err(|error| failed(&error))?.items;
        let kinds = Kind::from_crd(crd).unwrap_or_default();
        let Some(kind) = kinds.first() else {
            return Ok(0);
        };
        for object in items.iter().filter_map(read) {
            if is_being_deleted(&object) {
                continue;
            }
            let path = super::path(kind, meta(&object, "namespace"), meta(&object, "name"));
            match self.0.local.delete(&path, &json!({})).await {
                Err(refusal) if refusal.code != 404 => return Err(refusal),
                _ => {}
            }
        }
        Ok(items.len())
    }
}

/// The status a definition is to have.
fn status(crd: &Value, others: &[Value], now: Timestamp) -> Value {
    let names = &crd["spec"]["names"];
    let conflict = others.iter().find_map(|other| name_conflict(crd, other));
    let established = conflict.is_none();
    let conditions = [
        match conflict {
            None => (
                "NamesAccepted",
                "True",
                "NoConflicts",
                "no conflicts found".to_owned(),
            ),
            Some((reason, message)) => ("NamesAccepted", "False", reason, message),
        },
        if established {
            let message = "the initial names have been accepted".to_owned();
            ("Established", "True", "InitialNamesAccepted", message)
        } else {
            let message = "not all names are accepted".to_owned();
            ("Established", "False", "NotAccepted", message)
        },
    ];
    let before = crd["status"]["conditions"].as_array();
    let mut list: Vec<Value> = before.cloned().unwrap_or_default();
    for (kind, value, reason, message) in conditions {
        set_condition(&mut list, kind, value, reason, &message, now);
    }
    let mut status = crd["status"].clone();
    if !status.is_object() {
        status = json!({});
    }
    status["conditions"] = json!(list);
    if established {
        let mut accepted = names.clone();
        if accepted["listKind"].is_null() {
            accepted["listKind"] = json!(format!(
                "{}List",
                names["kind"].as_str().unwrap_or_default()
            ));
        }
        if accepted["singular"].is_null() {
            accepted["singular"] = json!(names["kind"].as_str().unwrap_or_default().to_lowercase());
        }
        status["acceptedNames"] = accepted;
    } else if status["acceptedNames"].is_null() {
        status["acceptedNames"] = json!({"kind": "", "plural": ""});
    }
    let versions = crd["spec"]["versions"].as_array().into_iter().flatten();
    let mut stored: Vec<Value> = status["storedVersions"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    for version in versions.filter(|version| version["storage"] == json!(true)) {
        if !stored.contains(&version["name"]) {
            stored.push(version["name"].clone());
        }
    }
    status["storedVersions"] = json!(stored);
    status
}

/// Two kinds of a group may not share a name. The one that was accepted first keeps it.
fn name_conflict(crd: &Value, other: &Value) -> Option<(&'static str, String)> {
    if crd["spec"]["group"] != other["spec"]["group"]
        || !other["status"]["acceptedNames"].is_object()
    {
        return None;
    }
    let taken = &other["status"]["acceptedNames"];
    let names = &crd["spec"]["names"];
    let table = [
        ("kind", "KindConflict"),
        ("plural", "PluralConflict"),
        ("singular", "SingularConflict"),
        ("listKind", "ListKindConflict"),
    ];
    for (field, reason) in table {
        if let Some(name) = names[field].as_str()
            && taken[field].as_str() == Some(name)
        {
            return Some((reason, format!("{name:?} is already in use")));
        }
    }
    let short = names["shortNames"].as_array().into_iter().flatten();
    let mut short = short.filter(|name| {
        taken["shortNames"]
            .as_array()
            .is_some_and(|taken| taken.contains(name))
    });
    short
        .next()
        .map(|name| ("ShortNamesConflict", format!("{name} is already in use")))
}

/// The time changes only with the value.
fn set_condition(
    list: &mut Vec<Value>,
    kind: &str,
    value: &str,
    reason: &str,
    message: &str,
    now: Timestamp,
) {
    let now = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let mut condition = json!({
        "type": kind, "status": value, "reason": reason, "message": message, "lastTransitionTime": now,
    });
    match list.iter_mut().find(|condition| condition["type"] == kind) {
        Some(known) => {
            if known["status"] == value {
                condition["lastTransitionTime"] = known["lastTransitionTime"].clone();
            }
            *known = condition;
        }
        None => list.push(condition),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crd(name: &str, short: &str) -> Value {
        json!({
            "metadata": {"name": format!("{name}s.metal3.io")},
            "spec": {
                "group": "metal3.io",
                "names": {"kind": name, "plural": format!("{name}s"), "shortNames": [short]},
                "versions": [{"name": "v1", "storage": true}, {"name": "v2", "storage": false}],
            },
        })
    }

    fn condition<'a>(status: &'a Value, kind: &str) -> &'a Value {
        let list = status["conditions"].as_array().unwrap();
        list.iter()
            .find(|condition| condition["type"] == kind)
            .unwrap()
    }

    #[test]
    fn a_definition_is_established_once_and_then_left_alone() {
        let mut host = crd("Host", "h");
        let first = status(&host, &[], "2026-01-01T00:00:00Z".parse().unwrap());
        assert_eq!(condition(&first, "Established")["status"], "True");
        assert_eq!(first["acceptedNames"]["listKind"], "HostList");
        assert_eq!(first["storedVersions"], json!(["v1"]));
        host["status"] = first.clone();
        assert_eq!(status(&host, &[], Timestamp::now()), first);
    }

    #[test]
    fn a_name_that_is_taken_is_not_accepted() {
        let mut other = crd("Other", "h");
        other["status"] = status(&other, &[], Timestamp::now());
        let refused = status(&crd("Host", "h"), &[other], Timestamp::now());
        assert_eq!(
            condition(&refused, "NamesAccepted")["reason"],
            "ShortNamesConflict"
        );
        assert_eq!(condition(&refused, "Established")["status"], "False");
    }
}
