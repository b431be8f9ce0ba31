//! Schemas of built-in kinds: the published definitions, with what they leave out of JSON: how lists and maps merge.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde_json::{Map, Value, json};

/// The schema of a published type, with everything it refers to in place.
pub(crate) fn inlined<T: JsonSchema>() -> Value {
    let generator = schemars::generate::SchemaSettings::draft2020_12().into_generator();
    let mut root: Value = generator.into_root_schema_for::<T>().into();
    let definitions: BTreeMap<String, Value> = match root["$defs"].take() {
        Value::Object(definitions) => definitions.into_iter().collect(),
        _ => BTreeMap::new(),
    };
    let name = T::schema_name();
    if let Value::Object(root) = &mut root {
        for word in ["$defs", "$schema", "title"] {
            root.remove(word);
        }
    }
    let mut inliner = Inliner {
        definitions: &definitions,
        within: vec![],
    };
    inliner.definition(&name, root)
}

struct Inliner<'a> {
    definitions: &'a BTreeMap<String, Value>,
    /// Names of the definitions around: a type that holds itself is cut there.
    within: Vec<String>,
}

impl Inliner<'_> {
    fn definition(&mut self, name: &str, mut schema: Value) -> Value {
        let short = short(name);
        if ANYTHING.contains(&short) || self.within.iter().any(|outer| outer == name) {
            return json!({"x-kubernetes-preserve-unknown-fields": true});
        }
        if FREE_OBJECTS.contains(&short) {
            let description = schema["description"].take();
            return json!({"type": "object", "description": description, "x-kubernetes-preserve-unknown-fields": true});
        }
        self.within.push(name.into());
        extend(short, &mut schema);
        let schema = self.schema(schema);
        self.within.pop();
        schema
    }

    fn schema(&mut self, mut schema: Value) -> Value {
        let Value::Object(fields) = &mut schema else {
            return schema;
        };
        let reference = fields.remove("$ref");
        if let Some(name) = reference.as_ref().and_then(Value::as_str) {
            let name = name.trim_start_matches("#/$defs/");
            let definition = self.definitions.get(name).cloned().unwrap_or(Value::Null);
            let mut whole = self.definition(name, definition);
            // What stands beside the reference (its description) wins.
            if let Value::Object(whole) = &mut whole {
                whole.append(fields);
            }
            return whole;
        }
        for below in ["items", "additionalProperties"] {
            if let Some(below) = fields.get_mut(below) {
                let inner = below.take();
                *below = self.schema(inner);
            }
        }
        if let Some(Value::Object(properties)) = fields.get_mut("properties") {
            let inner: Map<_, _> = std::mem::take(properties)
                .into_iter()
                .map(|(name, property)| (name, self.schema(property)))
                .collect();
            *properties = inner;
        }
        schema
    }
}

/// `core.v1.NodeStatus` of `io.k8s.api.core.v1.NodeStatus`.
fn short(name: &str) -> &str {
    [
        "io.k8s.api.",
        "io.k8s.apimachinery.pkg.apis.",
        "io.k8s.apimachinery.pkg.",
        "io.k8s.apiextensions-apiserver.pkg.apis.",
    ]
    .iter()
    .find_map(|prefix| name.strip_prefix(prefix))
    .unwrap_or(name)
}

/// Adds to a definition what its lists and maps are.
fn extend(name: &str, schema: &mut Value) {
    if ATOMIC.contains(&name) {
        schema["x-kubernetes-map-type"] = json!("atomic");
    }
    for (_, field, list) in LISTS.iter().filter(|(of, ..)| *of == name) {
        let Some(property) = schema["properties"].get_mut(*field) else {
            continue;
        };
        match list {
            List::Set => {
                property["x-kubernetes-list-type"] = json!("set");
                property["x-kubernetes-patch-strategy"] = json!("merge");
            }
            List::Map(keys) | List::RetainKeys(keys) => {
                property["x-kubernetes-list-type"] = json!("map");
                property["x-kubernetes-list-map-keys"] = json!(keys);
                property["x-kubernetes-patch-merge-key"] = json!(keys[0]);
                let retain = matches!(list, List::RetainKeys(_));
                let strategy = if retain { "merge,retainKeys" } else { "merge" };
                property["x-kubernetes-patch-strategy"] = json!(strategy);
            }
        }
    }
    if name == "core.v1.ContainerPort" {
        schema["properties"]["protocol"]["default"] = json!("TCP");
    }
}

/// Any JSON.
const ANYTHING: [&str; 4] = [
    "apiextensions.v1.JSON",
    "apiextensions.v1.JSONSchemaPropsOrArray",
    "apiextensions.v1.JSONSchemaPropsOrBool",
    "apiextensions.v1.JSONSchemaPropsOrStringArray",
];

/// Objects of any fields. Schemas in CRDs are among them: [`crate::Schema::from_json`] knows better what is wrong there.
const FREE_OBJECTS: [&str; 3] = [
    "meta.v1.FieldsV1",
    "runtime.RawExtension",
    "apiextensions.v1.JSONSchemaProps",
];

/// Objects that are owned and replaced as a whole.
const ATOMIC: [&str; 14] = [
    "core.v1.ObjectReference",
    "core.v1.LocalObjectReference",
    "core.v1.TypedLocalObjectReference",
    "core.v1.SecretReference",
    "core.v1.SecretKeySelector",
    "core.v1.ConfigMapKeySelector",
    "core.v1.ObjectFieldSelector",
    "core.v1.ResourceFieldSelector",
    "core.v1.NodeSelector",
    "core.v1.NodeSelectorTerm",
    "rbac.v1.RoleRef",
    "rbac.v1.Subject",
    "meta.v1.LabelSelector",
    "meta.v1.OwnerReference",
];

/// A list that is not atomic.
enum List {
    Set,
    /// By these keys; the first is also the merge key of patches.
    Map(&'static [&'static str]),
    /// The same, and a patch names the keys that stay (`$retainKeys`).
    RetainKeys(&'static [&'static str]),
}

const LISTS: &[(&str, &str, List)] = &[
    ("meta.v1.ObjectMeta", "finalizers", List::Set),
    ("meta.v1.ObjectMeta", "ownerReferences", List::Map(&["uid"])),
    ("core.v1.NodeSpec", "podCIDRs", List::Set),
    ("core.v1.NodeStatus", "conditions", List::Map(&["type"])),
    // DEVIATION: Kubernetes names the type alone, and then has to look away when a node has two addresses of one type.
    (
        "core.v1.NodeStatus",
        "addresses",
        List::Map(&["type", "address"]),
    ),
    (
        "core.v1.NodeStatus",
        "volumesAttached",
        List::Map(&["name"]),
    ),
    (
        "core.v1.NamespaceStatus",
        "conditions",
        List::Map(&["type"]),
    ),
    ("core.v1.ServiceAccount", "secrets", List::Map(&["name"])),
    (
        "certificates.v1.CertificateSigningRequestStatus",
        "conditions",
        List::Map(&["type"]),
    ),
    (
        "apiextensions.v1.CustomResourceDefinitionStatus",
        "conditions",
        List::Map(&["type"]),
    ),
    ("core.v1.PodSpec", "containers", List::Map(&["name"])),
    ("core.v1.PodSpec", "initContainers", List::Map(&["name"])),
    (
        "core.v1.PodSpec",
        "ephemeralContainers",
        List::Map(&["name"]),
    ),
    ("core.v1.PodSpec", "volumes", List::RetainKeys(&["name"])),
    (
        "core.v1.PodSpec",
        "resourceClaims",
        List::RetainKeys(&["name"]),
    ),
    ("core.v1.PodSpec", "imagePullSecrets", List::Map(&["name"])),
    ("core.v1.PodSpec", "hostAliases", List::Map(&["ip"])),
    ("core.v1.PodSpec", "schedulingGates", List::Map(&["name"])),
    (
        "core.v1.PodSpec",
        "topologySpreadConstraints",
        List::Map(&["topologyKey", "whenUnsatisfiable"]),
    ),
    ("core.v1.PodStatus", "conditions", List::Map(&["type"])),
    ("core.v1.PodStatus", "podIPs", List::Map(&["ip"])),
    ("core.v1.Container", "env", List::Map(&["name"])),
    (
        "core.v1.Container",
        "volumeMounts",
        List::Map(&["mountPath"]),
    ),
    (
        "core.v1.Container",
        "volumeDevices",
        List::Map(&["devicePath"]),
    ),
    (
        "core.v1.Container",
        "ports",
        List::Map(&["containerPort", "protocol"]),
    ),
];

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Node;
    use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

    use super::*;

    #[test]
    fn references_are_followed_and_lists_know_their_keys() {
        let node = inlined::<Node>();
        let conditions = &node["properties"]["status"]["properties"]["conditions"];
        assert_eq!(conditions["x-kubernetes-list-map-keys"], json!(["type"]));
        assert_eq!(conditions["x-kubernetes-patch-merge-key"], json!("type"));
        assert_eq!(conditions["items"]["properties"]["type"]["type"], "string");
        let owners = &node["properties"]["metadata"]["properties"]["ownerReferences"];
        assert_eq!(owners["x-kubernetes-list-map-keys"], json!(["uid"]));
        assert!(!node.to_string().contains("$ref"));
    }

    #[test]
    fn every_named_list_exists() {
        let node = inlined::<Node>().to_string();
        let pod = inlined::<k8s_openapi::api::core::v1::Pod>().to_string();
        for (definition, field, _) in LISTS {
            let of = if definition.contains("Pod") || definition.contains("Container") {
                &pod
            } else if definition.contains("Node") {
                &node
            } else {
                continue;
            };
            assert!(
                of.contains(&format!("\"{field}\":{{")),
                "{definition}.{field}"
            );
        }
    }

    #[test]
    fn a_schema_within_a_crd_is_any_object() {
        let crd = inlined::<CustomResourceDefinition>();
        let versions = &crd["properties"]["spec"]["properties"]["versions"]["items"];
        let schema = &versions["properties"]["schema"]["properties"]["openAPIV3Schema"];
        assert_eq!(schema["x-kubernetes-preserve-unknown-fields"], json!(true));
    }
}
