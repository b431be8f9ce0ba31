//! Objects and schemas for property tests, of few names so that they meet.

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

const NAMES: [&str; 7] = ["a", "b", "c", "spec", "status", "name", "metadata"];

fn name() -> impl Strategy<Value = String> {
    prop::sample::select(NAMES.as_slice()).prop_map(Into::into)
}

fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3..3_i64).prop_map(Value::from),
        Just(json!(0.5)),
        "[a-c]{0,2}".prop_map(Value::from),
    ]
}

/// Any JSON.
pub(crate) fn json() -> impl Strategy<Value = Value> {
    scalar().prop_recursive(4, 32, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::Array),
            btree_map(name(), inner, 0..4).prop_map(|fields| fields.into_iter().collect()),
        ]
    })
}

/// A structural schema.
pub(crate) fn schema() -> impl Strategy<Value = Value> {
    btree_map(prop::sample::select(&NAMES[..6]), node(), 0..4).prop_map(|properties| {
        let properties: Map<_, _> = properties
            .into_iter()
            .map(|(name, node)| (name.to_owned(), node))
            .collect();
        json!({"type": "object", "properties": properties})
    })
}

fn node() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!({"type": "string"})),
        Just(json!({"type": "string", "default": "x"})),
        Just(json!({"type": "string", "nullable": true, "maxLength": 1})),
        Just(json!({"type": "integer", "default": 1, "minimum": 0})),
        Just(json!({"type": "boolean"})),
        Just(json!({"x-kubernetes-int-or-string": true})),
        Just(json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})),
        Just(json!({"x-kubernetes-preserve-unknown-fields": true})),
    ];
    leaf.prop_recursive(3, 16, 3, |inner| {
        let list = |kind: &'static str| {
            move |items: Value| json!({"type": "array", "items": items, "x-kubernetes-list-type": kind})
        };
        prop_oneof![
            btree_map(name(), inner.clone(), 0..3)
                .prop_map(|properties| json!({"type": "object", "properties": properties})),
            btree_map(name(), inner.clone(), 0..3).prop_map(
                |properties| json!({"type": "object", "default": {}, "properties": properties})
            ),
            inner
                .clone()
                .prop_map(|each| json!({"type": "object", "additionalProperties": each})),
            inner.clone().prop_map(list("atomic")),
            Just(list("set")(json!({"type": "string"}))),
            inner.prop_map(|value| json!({"type": "array", "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
                "items": {"type": "object", "required": ["name"],
                    "properties": {"name": {"type": "string"}, "a": value}}})),
        ]
    })
}

/// JSON with the words of schemas in it, right or wrong.
pub(crate) fn json_like_schema() -> impl Strategy<Value = Value> {
    let words = [
        "type",
        "properties",
        "additionalProperties",
        "items",
        "required",
        "default",
        "enum",
        "pattern",
        "allOf",
        "anyOf",
        "not",
        "x-kubernetes-list-type",
        "x-kubernetes-list-map-keys",
        "x-kubernetes-validations",
        "metadata",
        "rule",
    ];
    let leaf = prop_oneof![
        scalar(),
        Just(json!("object")),
        Just(json!("array")),
        Just(json!("string")),
        Just(json!("map"))
    ];
    leaf.prop_recursive(5, 48, 4, move |inner| {
        let word = prop::sample::select(words.to_vec()).prop_map(String::from);
        prop_oneof![
            vec(inner.clone(), 0..3).prop_map(Value::Array),
            btree_map(word, inner, 0..5).prop_map(|fields| fields.into_iter().collect()),
        ]
    })
}
