//! Rules for `metadata` that hold for every kind: names, labels, finalizers, what cannot change.

use serde_json::{Value, json};

use crate::json::{fields, items, text, texts};
use crate::kinds::Kind;
use crate::path::Path;
use crate::status::Cause;

/// All annotations of an object together.
const ANNOTATION_BYTES: usize = 256 * 1024;

/// What is wrong with the object's metadata.
pub fn validate(kind: &Kind, object: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut causes = vec![];
    check_names(kind, object, &mut causes);
    check_labels(object, &mut causes);
    check_annotations(object, &mut causes);
    check_finalizers(kind, object, old, &mut causes);
    check_owners(object, &mut causes);
    if let Some(old) = old {
        check_unchanged(object, old, &mut causes);
    }
    causes
}

/// How objects of a kind may be called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NameRule {
    Subdomain,
    Label,
    /// Anything that can stand between two slashes: roles are called `system:node`.
    PathSegment,
}

fn name_rule(kind: &Kind) -> NameRule {
    match (kind.group.as_str(), kind.plural.as_str()) {
        ("", "namespaces") => NameRule::Label,
        ("rbac.authorization.k8s.io", _) => NameRule::PathSegment,
        _ => NameRule::Subdomain,
    }
}

fn check_names(kind: &Kind, object: &Value, causes: &mut Vec<Cause>) {
    let check = |name: &str| match name_rule(kind) {
        NameRule::Subdomain => dns_subdomain(name),
        NameRule::Label => dns_label(name),
        NameRule::PathSegment => path_segment(name),
    };
    let name = text(object, "/metadata/name");
    let prefix = text(object, "/metadata/generateName");
    if name.is_empty() {
        let why = "name or generateName is required";
        causes.push(Cause::required("metadata.name", why));
    } else if let Some(why) = check(name) {
        causes.push(Cause::invalid("metadata.name", &json!(name), &why));
    }
    // What is generated is appended: a prefix may end in a dash.
    let padded = format!("{}a", prefix.strip_suffix('-').unwrap_or(prefix));
    if let Some(why) = check(&padded).filter(|_| !prefix.is_empty()) {
        causes.push(Cause::invalid(
            "metadata.generateName",
            &json!(prefix),
            &why,
        ));
    }
    let namespace = text(object, "/metadata/namespace");
    match (kind.namespaced, namespace) {
        (true, "") => causes.push(Cause::required("metadata.namespace", "")),
        (true, namespace) => {
            if let Some(why) = dns_label(namespace) {
                let value = json!(namespace);
                causes.push(Cause::invalid("metadata.namespace", &value, &why));
            }
        }
        (false, "") => {}
        (false, _) => {
            let why = "not allowed on this type";
            causes.push(Cause::forbidden("metadata.namespace", why));
        }
    }
}

fn check_labels(object: &Value, causes: &mut Vec<Cause>) {
    for (key, value) in fields(object, "/metadata/labels") {
        if let Some(why) = label_key(key) {
            causes.push(Cause::invalid("metadata.labels", &json!(key), &why));
        }
        if let Some(why) = label_value(value.as_str().unwrap_or_default()) {
            causes.push(Cause::invalid("metadata.labels", value, &why));
        }
    }
}

fn check_annotations(object: &Value, causes: &mut Vec<Cause>) {
    let mut bytes = 0;
    for (key, value) in fields(object, "/metadata/annotations") {
        bytes += key.len() + value.as_str().map_or(0, str::len);
        if let Some(why) = label_key(&key.to_lowercase()) {
            causes.push(Cause::invalid("metadata.annotations", &json!(key), &why));
        }
    }
    if bytes > ANNOTATION_BYTES {
        let most = ANNOTATION_BYTES as u64;
        causes.push(Cause::too_long("metadata.annotations", most));
    }
}

/// Finalizers of Kubernetes itself, which need no domain.
const STANDARD_FINALIZERS: [&str; 4] = [
    "orphan",
    "foregroundDeletion",
    "kubernetes",
    "customresourcecleanup.apiextensions.k8s.io",
];

fn check_finalizers(kind: &Kind, object: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    let finalizers = texts(object, "/metadata/finalizers");
    for name in &finalizers {
        let unqualified = !kind.custom && !name.contains('/');
        let why = label_key(name).or_else(|| {
            unqualified.then(|| {
                "name is neither a standard finalizer name nor is it fully qualified".into()
            })
        });
        if let Some(why) = why.filter(|_| !STANDARD_FINALIZERS.contains(name)) {
            causes.push(Cause::invalid("metadata.finalizers", &json!(name), &why));
        }
    }
    if let Some(old) = old.filter(|old| is_deleting(old)) {
        let before = texts(old, "/metadata/finalizers");
        let new: Vec<_> = finalizers
            .into_iter()
            .filter(|name| !before.contains(name))
            .collect();
        if !new.is_empty() {
            let names = new.join("\", \"");
            let why = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers \
                 []string{{\"{names}\"}}"
            );
            causes.push(Cause::forbidden("metadata.finalizers", &why));
        }
    }
}

fn check_owners(object: &Value, causes: &mut Vec<Cause>) {
    let metadata = Path::Root.field("metadata");
    let at = metadata.field("ownerReferences");
    let mut controllers = vec![];
    for (index, owner) in items(object, "/metadata/ownerReferences")
        .iter()
        .enumerate()
    {
        for name in ["apiVersion", "kind", "name", "uid"] {
            if text(owner, &format!("/{name}")).is_empty() {
                let at = at.index(index).field(name).to_string();
                let why = format!("{name} must not be empty");
                causes.push(Cause::invalid(at, &json!(""), &why));
            }
        }
        if owner["controller"] == true {
            controllers.push(text(owner, "/name"));
        }
    }
    if let [first, second, ..] = controllers.as_slice() {
        let why = format!(
            "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {second}"
        );
        let owners = &object["metadata"]["ownerReferences"];
        causes.push(Cause::invalid(at.to_string(), owners, &why));
    }
}

/// What stays as it was born.
pub(crate) const IMMUTABLE: [&str; 6] = [
    "name",
    "namespace",
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
];

fn check_unchanged(object: &Value, old: &Value, causes: &mut Vec<Cause>) {
    for name in IMMUTABLE {
        let (new, old) = (&object["metadata"][name], &old["metadata"][name]);
        if new != old {
            let at = format!("metadata.{name}");
            causes.push(Cause::invalid(at, new, "field is immutable"));
        }
    }
}

/// Whether the object is on its way out.
pub fn is_deleting(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}

fn alphanumeric_ends(text: &str, within: impl Fn(u8) -> bool) -> bool {
    let end =
        |byte: Option<&u8>| byte.is_some_and(|byte| within(*byte) && byte.is_ascii_alphanumeric());
    let bytes = text.as_bytes();
    end(bytes.first()) && end(bytes.last()) && bytes.iter().all(|byte| within(*byte))
}

fn is_dns_label(text: &str) -> bool {
    alphanumeric_ends(text, |b| {
        b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-'
    })
}

/// Why this is no RFC 1123 label.
pub(crate) fn dns_label(text: &str) -> Option<String> {
    if text.len() > 63 {
        return Some("must be no more than 63 bytes".into());
    }
    (!is_dns_label(text)).then(|| {
        "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end \
         with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
         '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
            .into()
    })
}

/// Why this is no RFC 1123 subdomain.
pub(crate) fn dns_subdomain(text: &str) -> Option<String> {
    if text.len() > 253 {
        return Some("must be no more than 253 bytes".into());
    }
    (!text.split('.').all(is_dns_label)).then(|| {
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start \
         and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
         '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
            .into()
    })
}

/// Why this cannot stand between two slashes.
fn path_segment(text: &str) -> Option<String> {
    match text {
        "." => return Some("may not be '.'".into()),
        ".." => return Some("may not be '..'".into()),
        _ => {}
    }
    ['/', '%']
        .into_iter()
        .find(|c| text.contains(*c))
        .map(|c| format!("may not contain '{c}'"))
}

/// Why this is no key of a label: a name, with a domain before a slash or without.
pub(crate) fn label_key(text: &str) -> Option<String> {
    let (prefix, name) = match text.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, text),
    };
    match prefix {
        Some("") => return Some("prefix part must be non-empty".into()),
        Some(prefix) => {
            if let Some(why) = dns_subdomain(prefix) {
                return Some(format!("prefix part {why}"));
            }
        }
        None => {}
    }
    if name.is_empty() {
        return Some("name part must be non-empty".into());
    }
    if name.len() > 63 {
        return Some("name part must be no more than 63 bytes".into());
    }
    (!is_label_text(name)).then(|| {
        "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
         alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
         '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
            .into()
    })
}

/// Why this is no value of a label.
pub(crate) fn label_value(text: &str) -> Option<String> {
    if text.len() > 63 {
        return Some("must be no more than 63 bytes".into());
    }
    (!text.is_empty() && !is_label_text(text)).then(|| {
        "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start \
         and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation \
         is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
            .into()
    })
}

fn is_label_text(text: &str) -> bool {
    alphanumeric_ends(text, |b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::{Registry, tests_widget};

    fn said(metadata: &Value, old: Option<&Value>) -> Vec<String> {
        let object = json!({"metadata": metadata});
        let old = old.map(|old| json!({"metadata": old}));
        let causes = validate(&tests_widget(), &object, old.as_ref());
        causes.into_iter().map(|cause| cause.field).collect()
    }

    #[test]
    fn names_follow_dns() {
        let table = [
            ("a", true, true),
            ("a-b.c", false, true),
            ("A", false, false),
            ("-a", false, false),
            ("a_b", false, false),
            ("a..b", false, false),
            ("", false, false),
        ];
        for (name, label, subdomain) in table {
            assert_eq!(dns_label(name).is_none(), label, "{name}");
            assert_eq!(dns_subdomain(name).is_none(), subdomain, "{name}");
        }
        assert!(dns_label(&"a".repeat(64)).is_some());
        assert!(dns_subdomain(&"a".repeat(254)).is_some());
    }

    #[test]
    fn labels_may_have_a_domain() {
        for key in ["app", "a.b/c", "A_1"] {
            assert_eq!(label_key(key), None, "{key}");
        }
        for key in ["", "a/", "/a", "a/b/c", "a b", "A.b/c", "-a"] {
            assert!(label_key(key).is_some(), "{key}");
        }
    }

    #[test]
    fn everything_wrong_with_metadata_is_said() {
        let metadata = json!({
            "name": "A", "namespace": "b", "labels": {"a b": "x", "c": "-"},
            "annotations": {"big": "x".repeat(ANNOTATION_BYTES)},
            "finalizers": ["fine", "a//b"],
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "A", "name": "a", "uid": "1", "controller": true},
                {"apiVersion": "v1", "kind": "A", "name": "b", "uid": "", "controller": true}],
        });
        assert_eq!(
            said(&metadata, None),
            [
                "metadata.name",
                "metadata.labels",
                "metadata.labels",
                "metadata.annotations",
                "metadata.finalizers",
                "metadata.ownerReferences[1].uid",
                "metadata.ownerReferences",
            ]
        );
    }

    #[test]
    fn identity_does_not_change() {
        let old = json!({"name": "a", "namespace": "b", "uid": "1", "creationTimestamp": "x"});
        let new = json!({"name": "a", "namespace": "b", "uid": "2", "creationTimestamp": "y"});
        assert_eq!(
            said(&new, Some(&old)),
            ["metadata.uid", "metadata.creationTimestamp"]
        );
    }

    #[test]
    fn no_finalizer_joins_an_object_that_is_leaving() {
        let old =
            json!({"name": "a", "namespace": "b", "deletionTimestamp": "x", "finalizers": ["a/b"]});
        let mut new = old.clone();
        new["finalizers"] = json!(["a/b", "c/d"]);
        let object = json!({"metadata": new});
        let causes = validate(&tests_widget(), &object, Some(&json!({"metadata": old})));
        assert_eq!(
            causes[0].message,
            "Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers \
             []string{\"c/d\"}"
        );
        assert_eq!(
            said(
                &json!({"name": "a", "namespace": "b", "deletionTimestamp": "x"}),
                Some(&old)
            ),
            [""; 0]
        );
    }

    #[test]
    fn roles_may_be_called_what_a_path_can_hold() {
        let role = Registry::builtin()
            .find("rbac.authorization.k8s.io", "v1", "clusterroles")
            .unwrap();
        let named = |name: &str| validate(&role, &json!({"metadata": {"name": name}}), None).len();
        assert_eq!(named("system:node"), 0);
        assert_eq!(named("a/b"), 1);
        assert_eq!(named(".."), 1);
    }

    #[test]
    fn scope_decides_about_the_namespace() {
        assert_eq!(said(&json!({"name": "a"}), None), ["metadata.namespace"]);
        let node = Registry::builtin().find("", "v1", "nodes").unwrap();
        let object = json!({"metadata": {"name": "a", "namespace": "b"}});
        assert_eq!(
            validate(&node, &object, None)[0].field,
            "metadata.namespace"
        );
    }
}
