//! CustomResourceDefinitions.

use serde_json::{Value, json};

use super::immutable;
use crate::json::{items, text, texts};
use crate::kinds::custom;
use crate::status::Cause;

pub(super) const GROUP: &str = "apiextensions.k8s.io";

/// Names that follow from the kind.
pub(super) fn fill(crd: &mut Value) {
    let kind = text(crd, "/spec/names/kind").to_owned();
    if !kind.is_empty() {
        if text(crd, "/spec/names/singular").is_empty() {
            crd["spec"]["names"]["singular"] = json!(kind.to_lowercase());
        }
        if text(crd, "/spec/names/listKind").is_empty() {
            crd["spec"]["names"]["listKind"] = json!(format!("{kind}List"));
        }
    }
    if crd["spec"].is_object() && text(crd, "/spec/conversion/strategy").is_empty() {
        crd["spec"]["conversion"]["strategy"] = json!("None");
    }
}

/// Objects will be kept in the version marked so.
pub(super) fn born(crd: &mut Value) {
    let stored: Vec<_> = items(crd, "/spec/versions")
        .iter()
        .filter(|version| version["storage"] == true)
        .map(|version| version["name"].clone())
        .collect();
    crd["status"] = json!({"storedVersions": stored});
}

pub(super) fn validate(new: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    if old.is_none_or(|old| old["spec"] != new["spec"]) {
        causes.extend(custom::kinds(new).err().unwrap_or_default());
    }
    let Some(old) = old else { return };
    for field in ["group", "scope"] {
        let at = format!("spec.{field}");
        immutable(&at, &new["spec"][field], &old["spec"][field], causes);
    }
    for field in ["kind", "plural"] {
        let at = format!("spec.names.{field}");
        let (new, old) = (&new["spec"]["names"][field], &old["spec"]["names"][field]);
        immutable(&at, new, old, causes);
    }
    let names: Vec<_> = items(new, "/spec/versions")
        .iter()
        .map(|version| text(version, "/name"))
        .collect();
    for (index, stored) in texts(new, "/status/storedVersions").iter().enumerate() {
        if !names.contains(stored) {
            let at = format!("status.storedVersions[{index}]");
            let why = "must appear in spec.versions";
            causes.push(Cause::invalid(at, &json!(stored), why));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::tests_widget_crd;

    #[test]
    fn names_follow_from_the_kind() {
        let mut crd = json!({"spec": {"names": {"kind": "Widget"}, "versions": [
            {"name": "v1", "storage": true}, {"name": "v2", "storage": false}]}});
        fill(&mut crd);
        born(&mut crd);
        assert_eq!(
            crd["spec"]["names"],
            json!({"kind": "Widget", "singular": "widget", "listKind": "WidgetList"})
        );
        assert_eq!(crd["spec"]["conversion"], json!({"strategy": "None"}));
        assert_eq!(crd["status"], json!({"storedVersions": ["v1"]}));
    }

    #[test]
    fn what_objects_depend_on_stays() {
        let mut old = tests_widget_crd();
        old["status"] = json!({"storedVersions": ["v1"]});
        let mut new = old.clone();
        new["spec"]["scope"] = json!("Cluster");
        new["status"]["storedVersions"] = json!(["v0", "v1"]);
        let mut causes = vec![];
        validate(&new, Some(&old), &mut causes);
        let fields: Vec<_> = causes.iter().map(|cause| cause.field.as_str()).collect();
        assert_eq!(fields, ["spec.scope", "status.storedVersions[0]"]);
    }
}
