//! Every CustomResourceDefinition, as an API server wants it.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use serde_json::Value;

use crate::{
    BareMetalHost, BmcEventSubscription, DataImage, FirmwareSchema, HardwareData,
    HostFirmwareComponents, HostFirmwareSettings, HostUpdatePolicy, Infrastructure, Machine,
    MachineHealthCheck, MachineSet, PreprovisioningImage, Provisioning,
};

/// All of them, ordered by name.
pub fn all() -> Vec<CustomResourceDefinition> {
    let mut all: Vec<_> = [
        BareMetalHost::crd(),
        BmcEventSubscription::crd(),
        DataImage::crd(),
        FirmwareSchema::crd(),
        HardwareData::crd(),
        HostFirmwareComponents::crd(),
        HostFirmwareSettings::crd(),
        HostUpdatePolicy::crd(),
        Infrastructure::crd(),
        Machine::crd(),
        MachineHealthCheck::crd(),
        MachineSet::crd(),
        PreprovisioningImage::crd(),
        Provisioning::crd(),
    ]
    .into_iter()
    .map(finished)
    .collect();
    all.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
    all
}

/// One YAML stream, for `kubectl apply -f -`.
pub fn yaml(definitions: &[CustomResourceDefinition]) -> String {
    let mut text = String::new();
    for crd in definitions {
        text.push_str("---\n");
        text.push_str(&serde_saphyr::to_string(crd).expect("a definition is plain data"));
    }
    text
}

/// What the derive macros cannot say.
fn finished(crd: CustomResourceDefinition) -> CustomResourceDefinition {
    let mut value = serde_json::to_value(crd).expect("a definition is plain data");
    if let Some(schema) = value.pointer_mut("/spec/versions/0/schema/openAPIV3Schema") {
        tidy(schema, "");
    }
    serde_json::from_value(value).expect("it was one before")
}

/// Fields where null has a meaning of its own.
const NULLABLE: &[&str] = &["hardwareRAIDVolumes", "softwareRAIDVolumes", "start", "end"];

/// An absent field is absent, not null: the macros allow null wherever Rust has an `Option`.
fn tidy(schema: &mut Value, name: &str) {
    let Value::Object(fields) = schema else {
        return;
    };
    if !NULLABLE.contains(&name) {
        fields.remove("nullable");
    }
    if let Some(Value::Array(values)) = fields.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
    if let Some(Value::Object(properties)) = fields.get_mut("properties") {
        for (name, property) in properties {
            tidy(property, name);
        }
    }
    for inner in ["items", "additionalProperties"] {
        if let Some(inner) = fields.get_mut(inner) {
            tidy(inner, "");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definitions_are_as_they_were() {
        insta::assert_snapshot!(yaml(&all()));
    }

    #[test]
    fn every_schema_is_structural() {
        for crd in all() {
            let name = crd.metadata.name.clone().unwrap_or_default();
            for version in &crd.spec.versions {
                let schema = version.schema.as_ref().expect("there is one");
                let schema = serde_json::to_value(&schema.open_api_v3_schema).expect("plain data");
                structural(&schema, &name);
            }
        }
    }

    /// Every value has a type or is said to be free, and nothing hides in a combination of schemas.
    fn structural(schema: &Value, path: &str) {
        let free = |key: &str| schema.get(key) == Some(&Value::Bool(true));
        assert!(
            schema.get("type").is_some()
                || free("x-kubernetes-int-or-string")
                || free("x-kubernetes-preserve-unknown-fields"),
            "{path} has no type: {schema}"
        );
        for hidden in ["anyOf", "oneOf", "allOf", "not", "$ref", "definitions"] {
            assert!(schema.get(hidden).is_none(), "{path} has {hidden}");
        }
        assert!(
            schema.get("properties").is_none() || schema.get("additionalProperties").is_none(),
            "{path} has both properties and additionalProperties"
        );
        for (name, property) in schema
            .get("properties")
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
        {
            structural(property, &format!("{path}.{name}"));
        }
        for inner in ["items", "additionalProperties"] {
            if let Some(inner_schema) = schema.get(inner) {
                structural(inner_schema, &format!("{path}[]"));
            }
        }
        if let (Some(default), Some(least)) = (
            schema.get("default").and_then(Value::as_str),
            schema.get("minLength").and_then(Value::as_u64),
        ) {
            assert!(
                default.len() as u64 >= least,
                "{path}: its own default is not allowed"
            );
        }
        if schema.get("type") == Some(&"array".into()) {
            assert!(
                schema.get("items").is_some(),
                "{path} does not say of what it is a list"
            );
        }
    }

    #[test]
    fn every_rule_can_be_compiled() {
        for crd in all() {
            let schema = serde_json::to_value(&crd.spec.versions[0].schema).expect("plain data");
            let compiled = kube_cel::compile_schema(&schema["openAPIV3Schema"]);
            assert!(
                !compiled.has_errors(),
                "{:?}: {:?}",
                crd.metadata.name,
                compiled.compilation_errors()
            );
        }
    }
}
