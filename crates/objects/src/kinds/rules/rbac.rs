//! Roles and their bindings.

use serde_json::{Value, json};

use crate::json::{items, text};
use crate::path::Path;
use crate::status::Cause;

pub(super) const GROUP: &str = "rbac.authorization.k8s.io";

/// Subjects and the role are of this group unless they say otherwise.
pub(super) fn fill_binding(binding: &mut Value) {
    if binding["roleRef"].is_object() && text(binding, "/roleRef/apiGroup").is_empty() {
        binding["roleRef"]["apiGroup"] = json!(GROUP);
    }
    for subject in binding["subjects"].as_array_mut().into_iter().flatten() {
        let person = ["User", "Group"].contains(&text(subject, "/kind"));
        if person && text(subject, "/apiGroup").is_empty() {
            subject["apiGroup"] = json!(GROUP);
        }
    }
}

pub(super) fn validate_role(role: &Value, namespaced: bool, causes: &mut Vec<Cause>) {
    let at = Path::Root.field("rules");
    for (index, rule) in items(role, "/rules").iter().enumerate() {
        let at = at.index(index);
        let empty = |field: &str| items(rule, &format!("/{field}")).is_empty();
        let mut required = |field: &str, why: &str| {
            if empty(field) {
                causes.push(Cause::required(at.field(field).to_string(), why));
            }
        };
        required("verbs", "verbs must contain at least one value");
        if empty("nonResourceURLs") {
            required(
                "apiGroups",
                "resource rules must supply at least one api group",
            );
            required(
                "resources",
                "resource rules must supply at least one resource",
            );
            continue;
        }
        let at = at.field("nonResourceURLs").to_string();
        let urls = &rule["nonResourceURLs"];
        if namespaced {
            let why = "namespaced rules cannot apply to non-resource URLs";
            causes.push(Cause::invalid(at, urls, why));
        } else if !empty("apiGroups") || !empty("resources") || !empty("resourceNames") {
            let why = "rules cannot apply to both regular resources and non-resource URLs";
            causes.push(Cause::invalid(at, urls, why));
        }
    }
}

pub(super) fn validate_binding(
    binding: &Value,
    old: Option<&Value>,
    namespaced: bool,
    causes: &mut Vec<Cause>,
) {
    if text(binding, "/roleRef/name").is_empty() {
        causes.push(Cause::required("roleRef.name", ""));
    }
    let group = &binding["roleRef"]["apiGroup"];
    if *group != GROUP {
        causes.push(Cause::not_supported(
            "roleRef.apiGroup",
            group,
            &[json!(GROUP)],
        ));
    }
    let kinds: &[&str] = if namespaced {
        &["Role", "ClusterRole"]
    } else {
        &["ClusterRole"]
    };
    if !kinds.contains(&text(binding, "/roleRef/kind")) {
        let known: Vec<_> = kinds.iter().map(|kind| json!(kind)).collect();
        let kind = &binding["roleRef"]["kind"];
        causes.push(Cause::not_supported("roleRef.kind", kind, &known));
    }
    let at = Path::Root.field("subjects");
    for (index, subject) in items(binding, "/subjects").iter().enumerate() {
        let at = at.index(index);
        if text(subject, "/name").is_empty() {
            causes.push(Cause::required(at.field("name").to_string(), ""));
        }
        match text(subject, "/kind") {
            "User" | "Group" => {}
            "ServiceAccount" => {
                if text(subject, "/namespace").is_empty() && !namespaced {
                    causes.push(Cause::required(at.field("namespace").to_string(), ""));
                }
            }
            _ => {
                let known = [json!("ServiceAccount"), json!("User"), json!("Group")];
                let at = at.field("kind").to_string();
                causes.push(Cause::not_supported(at, &subject["kind"], &known));
            }
        }
    }
    if let Some(old) = old
        && binding["roleRef"] != old["roleRef"]
    {
        let role = &binding["roleRef"];
        causes.push(Cause::invalid("roleRef", role, "cannot change roleRef"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(causes: &[Cause]) -> Vec<&str> {
        causes.iter().map(|cause| cause.field.as_str()).collect()
    }

    #[test]
    fn rules_name_verbs_and_what_they_are_for() {
        let role = json!({"rules": [
            {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]},
            {"verbs": []},
            {"verbs": ["get"], "nonResourceURLs": ["/x"]},
        ]});
        let mut causes = vec![];
        validate_role(&role, true, &mut causes);
        assert_eq!(
            lines(&causes),
            [
                "rules[1].verbs",
                "rules[1].apiGroups",
                "rules[1].resources",
                "rules[2].nonResourceURLs"
            ]
        );
        let mut causes = vec![];
        validate_role(&json!({"rules": role["rules"][2]}), false, &mut causes);
        assert_eq!(causes, []);
    }

    #[test]
    fn a_binding_keeps_its_role() {
        let mut old = json!({"roleRef": {"kind": "Role", "name": "a"}, "subjects": [{"kind": "User", "name": "u"}]});
        fill_binding(&mut old);
        assert_eq!(old["subjects"][0]["apiGroup"], GROUP);
        let mut causes = vec![];
        validate_binding(&old, Some(&old), true, &mut causes);
        assert_eq!(causes, []);
        let mut new = old.clone();
        new["roleRef"]["name"] = json!("b");
        new["subjects"] = json!([{"kind": "Robot", "name": ""}]);
        validate_binding(&new, Some(&old), true, &mut causes);
        assert_eq!(
            lines(&causes),
            ["subjects[0].name", "subjects[0].kind", "roleRef"]
        );
    }
}
