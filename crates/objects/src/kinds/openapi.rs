//! OpenAPI documents: what `kubectl explain` reads, and how kubectl learns that the server checks fields itself.

use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::{Map, Value, json};

use super::{Kind, Registry};

/// `/openapi/v3`
pub fn index(registry: &Registry) -> Value {
    let mut paths = Map::new();
    let mut add = |group: &str, version: &str| {
        let document = v3(registry, group, version).unwrap_or_default();
        let mut hasher = DefaultHasher::new();
        document.to_string().hash(&mut hasher);
        let path = base(group, version);
        let url = format!("/openapi/v3{path}?hash={:016X}", hasher.finish());
        let path = path.trim_start_matches('/').to_owned();
        paths.insert(path, json!({"serverRelativeURL": url}));
    };
    add("", "v1");
    for (group, versions) in registry.groups() {
        for version in versions {
            add(group, version);
        }
    }
    json!({"paths": paths})
}

/// `/openapi/v3/api/v1` or `/openapi/v3/apis/{group}/{version}`
pub fn v3(registry: &Registry, group: &str, version: &str) -> Option<Value> {
    let mut paths = Map::new();
    let mut schemas = Map::new();
    for kind in registry.of(group, version) {
        let reference = json!({"$ref": format!("#/components/schemas/{}", definition(kind))});
        let body = json!({"application/json": {"schema": reference}});
        let request = json!({"requestBody": {"content": {"*/*": {"schema": reference}}}});
        let answer = json!({"200": {"description": "OK", "content": body}});
        paths.append(&mut operations(
            kind,
            &answer,
            &request,
            |name, of| json!({"name": name, "in": "query", "schema": {"type": of}}),
        ));
        schemas.insert(definition(kind), described(kind));
        let (name, list) = list(kind, &reference);
        schemas.insert(name, list);
    }
    (!paths.is_empty()).then(|| {
        json!({
            "openapi": "3.0.0",
            "info": {"title": "Kubernetes", "version": "v1.33.0"},
            "paths": paths,
            "components": {"schemas": schemas},
        })
    })
}

/// `/openapi/v2`
pub fn v2(registry: &Registry) -> Value {
    let mut paths = Map::new();
    let mut definitions = Map::new();
    for kind in registry.all() {
        let reference = json!({"$ref": format!("#/definitions/{}", definition(kind))});
        let answer = json!({"200": {"description": "OK", "schema": reference}});
        paths.append(&mut operations(
            kind,
            &answer,
            &json!({}),
            |name, of| json!({"name": name, "in": "query", "type": of, "uniqueItems": true}),
        ));
        let mut schema = described(kind);
        reduce(&mut schema);
        definitions.insert(definition(kind), schema);
        let (name, list) = list(kind, &reference);
        definitions.insert(name, list);
    }
    json!({
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": "v1.33.0"},
        "paths": paths,
        "definitions": definitions,
    })
}

fn base(group: &str, version: &str) -> String {
    match group {
        "" => format!("/api/{version}"),
        group => format!("/apis/{group}/{version}"),
    }
}

/// `io.metal3.v1alpha1.BareMetalHost`; built-in kinds have the names they have everywhere.
fn definition(kind: &Kind) -> String {
    let (version, name) = (&kind.version, &kind.kind);
    if kind.group == "apiextensions.k8s.io" {
        return format!("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.{version}.{name}");
    }
    if !kind.custom {
        let group = kind
            .group
            .split('.')
            .next()
            .filter(|group| !group.is_empty());
        return format!("io.k8s.api.{}.{version}.{name}", group.unwrap_or("core"));
    }
    let mut parts: Vec<_> = kind.group.split('.').collect();
    parts.reverse();
    format!("{}.{version}.{name}", parts.join("."))
}

fn group_version_kind(kind: &Kind) -> Value {
    json!({"group": kind.group, "version": kind.version, "kind": kind.kind})
}

fn described(kind: &Kind) -> Value {
    let mut schema = kind.schema.json().clone();
    schema["x-kubernetes-group-version-kind"] = json!([group_version_kind(kind)]);
    schema
}

fn list(kind: &Kind, reference: &Value) -> (String, Value) {
    let name = format!("{}List", definition(kind));
    let schema = json!({
        "description": format!("{} is a list of {}", kind.list_kind, kind.kind),
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object", "properties": {
                "continue": {"type": "string"},
                "remainingItemCount": {"type": "integer", "format": "int64"},
                "resourceVersion": {"type": "string"},
            }},
            "items": {"type": "array", "items": reference},
        },
        "x-kubernetes-group-version-kind": [
            {"group": kind.group, "version": kind.version, "kind": kind.list_kind},
        ],
    });
    (name, schema)
}

/// The paths of a kind with what may be done there.
fn operations(
    kind: &Kind,
    answer: &Value,
    request: &Value,
    parameter: impl Fn(&str, &str) -> Value,
) -> Map<String, Value> {
    let operation = |action: &str, parameters: &[&str]| {
        let parameters: Vec<_> = parameters
            .iter()
            .map(|name| {
                parameter(
                    name,
                    if *name == "force" {
                        "boolean"
                    } else {
                        "string"
                    },
                )
            })
            .collect();
        json!({
            "responses": answer,
            "parameters": parameters,
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": group_version_kind(kind),
        })
    };
    let write = ["dryRun", "fieldManager", "fieldValidation"];
    let with_body = |mut operation: Value| {
        if let (Some(operation), Some(body)) = (operation.as_object_mut(), request.as_object()) {
            operation.append(&mut body.clone());
        }
        operation
    };
    let (mut all, mut one) = (Map::new(), Map::new());
    for verb in kind.verbs {
        match *verb {
            "list" => {
                let parameters = [
                    "labelSelector",
                    "fieldSelector",
                    "limit",
                    "continue",
                    "watch",
                ];
                all.insert("get".into(), operation("list", &parameters));
            }
            "create" => {
                all.insert("post".into(), with_body(operation("post", &write)));
            }
            "deletecollection" => {
                let parameters = ["labelSelector", "fieldSelector", "dryRun"];
                all.insert("delete".into(), operation("deletecollection", &parameters));
            }
            "get" => {
                one.insert("get".into(), operation("get", &[]));
            }
            "update" => {
                one.insert("put".into(), with_body(operation("put", &write)));
            }
            "patch" => {
                let parameters = ["dryRun", "fieldManager", "fieldValidation", "force"];
                one.insert("patch".into(), with_body(operation("patch", &parameters)));
            }
            "delete" => {
                let parameters = ["dryRun", "gracePeriodSeconds", "propagationPolicy"];
                one.insert("delete".into(), operation("delete", &parameters));
            }
            _ => {}
        }
    }
    let scope = if kind.namespaced {
        "/namespaces/{namespace}"
    } else {
        ""
    };
    let base = base(&kind.group, &kind.version);
    let path = format!("{base}{scope}/{}", kind.plural);
    let mut paths = Map::new();
    if !one.is_empty() {
        paths.insert(format!("{path}/{{name}}"), Value::Object(one));
    }
    if kind.namespaced
        && let Some(list) = all.get("get")
    {
        paths.insert(format!("{base}/{}", kind.plural), json!({"get": list}));
    }
    paths.insert(path, Value::Object(all));
    paths
}

/// OpenAPI v2 knows less: no logic, no null.
fn reduce(schema: &mut Value) {
    let Value::Object(fields) = schema else {
        return;
    };
    for word in ["nullable", "oneOf", "anyOf", "allOf", "not", "default"] {
        fields.remove(word);
    }
    if fields.remove("x-kubernetes-int-or-string").is_some() {
        fields.insert("type".into(), json!("string"));
        fields.insert("format".into(), json!("int-or-string"));
    }
    for below in ["items", "additionalProperties"] {
        if let Some(below) = fields.get_mut(below) {
            reduce(below);
        }
    }
    if let Some(Value::Object(properties)) = fields.get_mut("properties") {
        properties.values_mut().for_each(reduce);
    }
}

#[cfg(test)]
mod tests {
    use super::super::registry::tests::widget_crd;
    use super::*;

    fn registry() -> Registry {
        let mut registry = Registry::builtin();
        registry.put_crd(&widget_crd()).unwrap();
        registry
    }

    #[test]
    fn the_index_names_every_group_and_changes_with_its_content() {
        let before = index(&registry());
        let paths = before["paths"].as_object().unwrap();
        assert!(paths.contains_key("api/v1") && paths.contains_key("apis/example.com/v1"));
        let mut changed = widget_crd();
        let schema = &mut changed["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        schema["description"] = json!("new");
        let mut other = registry();
        other.put_crd(&changed).unwrap();
        let after = index(&other);
        let url = |index: &Value, path: &str| index["paths"][path]["serverRelativeURL"].to_string();
        assert_ne!(
            url(&before, "apis/example.com/v1"),
            url(&after, "apis/example.com/v1")
        );
        assert_eq!(url(&before, "api/v1"), url(&after, "api/v1"));
    }

    #[test]
    fn explain_finds_the_kind_by_path_and_its_fields_by_kind() {
        let document = v3(&registry(), "example.com", "v1").unwrap();
        let kind = json!({"group": "example.com", "version": "v1", "kind": "Widget"});
        for path in [
            "/apis/example.com/v1/widgets",
            "/apis/example.com/v1/namespaces/{namespace}/widgets/{name}",
        ] {
            let get = &document["paths"][path]["get"];
            assert_eq!(get["x-kubernetes-group-version-kind"], kind, "{path}");
        }
        let widget = &document["components"]["schemas"]["com.example.v1.Widget"];
        assert_eq!(widget["x-kubernetes-group-version-kind"], json!([kind]));
        assert_eq!(
            widget["properties"]["spec"]["properties"]["color"]["description"],
            "its color"
        );
        assert!(widget["properties"]["metadata"]["properties"]["labels"].is_object());
        assert_eq!(v3(&registry(), "example.com", "v7"), None);
    }

    #[test]
    fn patches_say_that_fields_are_checked_here() {
        let document = v3(&registry(), "", "v1").unwrap();
        let patch = &document["paths"]["/api/v1/namespaces/{namespace}/secrets/{name}"]["patch"];
        let names: Vec<_> = patch["parameters"]
            .as_array()
            .unwrap()
            .iter()
            .map(|parameter| parameter["name"].as_str().unwrap())
            .collect();
        assert_eq!(
            names,
            ["dryRun", "fieldManager", "fieldValidation", "force"]
        );
    }

    #[test]
    fn the_old_document_has_no_words_it_cannot_know() {
        let document = v2(&registry());
        assert_eq!(document["swagger"], "2.0");
        let widget = document["definitions"]["com.example.v1.Widget"].to_string();
        assert!(!widget.contains("nullable") && !widget.contains("oneOf"));
        let crd =
            "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition";
        assert!(document["definitions"][crd].is_object());
    }
}
