//! OpenAPI v2 in protobuf, the one form that kubectl before 1.26 asks for.

use prost::Message;
use serde_json::Value;

use super::openapi_proto as proto;

/// Clients ask with an `@`, but cannot read an answer that has one: it is no legal media type.
pub const MEDIA: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// The document as the protobuf message kubectl up to 1.2x reads.
pub fn protobuf(document: &Value) -> Vec<u8> {
    let text = |pointer: &str| {
        document
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    let objects = |key: &str| {
        document
            .get(key)
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
    };
    proto::Document {
        swagger: text("/swagger"),
        info: Some(proto::Info {
            title: text("/info/title"),
            version: text("/info/version"),
        }),
        paths: Some(proto::Paths {
            path: objects("paths")
                .map(|(name, item)| path(name, item))
                .collect(),
        }),
        definitions: Some(proto::Definitions {
            additional_properties: objects("definitions")
                .map(|(name, value)| named(name, value))
                .collect(),
        }),
    }
    .encode_to_vec()
}

fn path(name: &str, item: &Value) -> proto::NamedPathItem {
    let patch = item.get("patch").map(|operation| proto::Operation {
        id: string(operation, "operationId"),
        parameters: list(operation, "parameters")
            .iter()
            .map(parameter)
            .collect(),
        vendor_extension: extensions(operation),
    });
    proto::NamedPathItem {
        name: name.to_owned(),
        value: Some(proto::PathItem { patch }),
    }
}

fn parameter(value: &Value) -> proto::ParametersItem {
    let query = proto::QueryParameter {
        r#in: string(value, "in"),
        name: string(value, "name"),
        r#type: string(value, "type"),
        unique_items: value["uniqueItems"].as_bool().unwrap_or_default(),
    };
    let non_body = proto::NonBodyParameter { query: Some(query) };
    proto::ParametersItem {
        parameter: Some(proto::Parameter {
            non_body: Some(non_body),
        }),
    }
}

fn named(name: &str, value: &Value) -> proto::NamedSchema {
    proto::NamedSchema {
        name: name.to_owned(),
        value: Some(schema(value)),
    }
}

fn schema(value: &Value) -> proto::Schema {
    let number = |key: &str| value.get(key).and_then(Value::as_f64).unwrap_or_default();
    let count = |key: &str| value.get(key).and_then(Value::as_i64).unwrap_or_default();
    let yes = |key: &str| value.get(key).and_then(Value::as_bool).unwrap_or_default();
    let properties = value
        .get("properties")
        .and_then(Value::as_object)
        .map(|fields| proto::Properties {
            additional_properties: fields
                .iter()
                .map(|(name, value)| named(name, value))
                .collect(),
        });
    let additional = value.get("additionalProperties").map(|inner| match inner {
        Value::Bool(allowed) => proto::AdditionalProperties {
            schema: None,
            boolean: Some(*allowed),
        },
        other => proto::AdditionalProperties {
            schema: Some(Box::new(schema(other))),
            boolean: None,
        },
    });
    let types = value.get("type").and_then(Value::as_str);
    proto::Schema {
        reference: string(value, "$ref"),
        format: string(value, "format"),
        title: string(value, "title"),
        description: string(value, "description"),
        default: value.get("default").map(any),
        maximum: number("maximum"),
        exclusive_maximum: yes("exclusiveMaximum"),
        minimum: number("minimum"),
        exclusive_minimum: yes("exclusiveMinimum"),
        max_length: count("maxLength"),
        min_length: count("minLength"),
        pattern: string(value, "pattern"),
        max_items: count("maxItems"),
        min_items: count("minItems"),
        unique_items: yes("uniqueItems"),
        required: list(value, "required")
            .iter()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect(),
        r#enum: list(value, "enum").iter().map(any).collect(),
        additional_properties: additional.map(Box::new),
        r#type: types.map(|name| proto::TypeItem {
            value: vec![name.to_owned()],
        }),
        items: value.get("items").map(|inner| proto::ItemsItem {
            schema: vec![schema(inner)],
        }),
        all_of: list(value, "allOf").iter().map(schema).collect(),
        properties,
        vendor_extension: extensions(value),
    }
}

fn extensions(value: &Value) -> Vec<proto::NamedAny> {
    let fields = value.as_object().into_iter().flatten();
    let vendor = fields.filter(|(key, _)| key.starts_with("x-"));
    vendor
        .map(|(name, value)| proto::NamedAny {
            name: name.clone(),
            value: Some(any(value)),
        })
        .collect()
}

/// JSON is YAML, which is what this field holds.
fn any(value: &Value) -> proto::Any {
    proto::Any {
        yaml: value.to_string(),
    }
}

fn string(value: &Value, key: &str) -> String {
    value
        .get(key)
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned()
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value
        .get(key)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_protobuf_form_can_be_read_back() {
        let document = json!({
            "swagger": "2.0",
            "info": { "title": "Kubernetes", "version": "v1.33.0" },
            "paths": { "/apis/x/v1/things/{name}": { "patch": {
                "operationId": "patchThing",
                "parameters": [{ "name": "dryRun", "in": "query", "type": "string" }],
                "x-kubernetes-group-version-kind": { "group": "x", "kind": "Thing", "version": "v1" },
            } } },
            "definitions": { "x.v1.Thing": {
                "type": "object",
                "required": ["spec"],
                "x-kubernetes-group-version-kind": [{ "group": "x", "kind": "Thing", "version": "v1" }],
                "properties": {
                    "labels": { "type": "object", "additionalProperties": { "type": "string" } },
                    "hosts": { "type": "array", "items": { "$ref": "#/definitions/Host" } },
                },
            } },
        });
        let read = proto::Document::decode(protobuf(&document).as_slice()).expect("a document");
        let definition = &read.definitions.expect("definitions").additional_properties[0];
        assert_eq!(definition.name, "x.v1.Thing");
        let schema = definition.value.as_ref().expect("a schema");
        assert_eq!(schema.required, ["spec"]);
        assert_eq!(
            schema.vendor_extension[0].name,
            "x-kubernetes-group-version-kind"
        );
        let fields = &schema
            .properties
            .as_ref()
            .expect("properties")
            .additional_properties;
        let items = fields[0]
            .value
            .as_ref()
            .and_then(|field| field.items.as_ref())
            .expect("items");
        assert_eq!(items.schema[0].reference, "#/definitions/Host");
        let paths = read.paths.expect("paths").path;
        let patch = paths[0]
            .value
            .as_ref()
            .and_then(|item| item.patch.as_ref())
            .expect("a patch");
        assert_eq!(patch.id, "patchThing");
    }
}
