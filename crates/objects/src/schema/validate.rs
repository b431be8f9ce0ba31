//! What is wrong with an object, in Kubernetes' words, everything at once.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::format::Format;
use super::node::{Additional, Limits, ListKind, Logic, Node, Type, item_keys, old_item};
use crate::json::{MAX_DEPTH, deeper_than};
use crate::path::Path;
use crate::status::{Cause, CauseReason};

/// A person corrects no more at a time.
const MOST_CAUSES: usize = 200;

/// Checks values against the schema; rules in CEL are not looked at.
pub(super) fn validate(root: &Node, new: &Value, old: Option<&Value>) -> Vec<Cause> {
    if deeper_than(new, MAX_DEPTH) {
        let why = format!("must not nest deeper than {MAX_DEPTH} levels");
        return vec![Cause::forbidden("", &why)];
    }
    let mut causes = vec![];
    check(root, new, old, Path::Root, &mut causes);
    causes.truncate(MOST_CAUSES);
    causes
}

/// Whether rules make no sense with this mistake present: they would trip over it.
pub(super) fn blocks_rules(cause: &Cause) -> bool {
    match cause.reason {
        CauseReason::FieldValueRequired
        | CauseReason::FieldValueTooLong
        | CauseReason::FieldValueTooMany
        | CauseReason::FieldValueTypeInvalid
        | CauseReason::FieldValueForbidden => true,
        CauseReason::FieldValueNotFound
        | CauseReason::FieldValueDuplicate
        | CauseReason::FieldValueInvalid
        | CauseReason::FieldValueNotSupported
        | CauseReason::InternalError
        | CauseReason::FieldManagerConflict
        | CauseReason::UnexpectedServerResponse
        | CauseReason::ResourceVersionTooLarge => false,
    }
}

fn check(node: &Node, value: &Value, old: Option<&Value>, path: Path<'_>, causes: &mut Vec<Cause>) {
    if old == Some(value) || causes.len() >= MOST_CAUSES {
        return;
    }
    if value.is_null() && (node.nullable || (node.kind.is_none() && !node.int_or_string)) {
        return;
    }
    if let Err(expected) = check_type(node, value) {
        let found = type_name(value);
        let why = format!("{path} in body must be of type {expected}: {found:?}");
        causes.push(Cause::wrong_type(path.to_string(), &json!(found), &why));
        return;
    }
    if let Some(limits) = &node.limits {
        check_limits(limits, value, path, causes);
    }
    match value {
        Value::Object(fields) => {
            for name in &node.required {
                if !fields.contains_key(name) {
                    causes.push(Cause::required(path.field(name).to_string(), ""));
                }
            }
            for (name, field) in fields {
                if let Some(node) = node.field(name) {
                    let old = old.and_then(|old| old.get(name));
                    check(node, field, old, path.field(name), causes);
                }
            }
        }
        Value::Array(items) => {
            check_unique(node, items, path, causes);
            let Some(item_node) = &node.items else { return };
            for (index, item) in items.iter().enumerate() {
                let old = old_item(node, item, old);
                check(item_node, item, old, path.index(index), causes);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    if let Some(logic) = &node.logic {
        check_logic(logic, value, path, causes);
    }
}

/// The type a value should have had.
fn check_type(node: &Node, value: &Value) -> Result<(), &'static str> {
    let whole = || value.as_f64().is_some_and(|number| number.fract() == 0.0);
    if node.int_or_string {
        let fine = value.is_string() || (value.is_number() && whole());
        return if fine { Ok(()) } else { Err("integer,string") };
    }
    let (fine, name) = match node.kind {
        None => (true, ""),
        Some(Type::Object) => (value.is_object(), "object"),
        Some(Type::Array) => (value.is_array(), "array"),
        Some(Type::String) => (value.is_string(), "string"),
        Some(Type::Boolean) => (value.is_boolean(), "boolean"),
        Some(Type::Number) => (value.is_number(), "number"),
        Some(Type::Integer) => (value.is_number() && whole(), "integer"),
    };
    if fine { Ok(()) } else { Err(name) }
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn check_limits(limits: &Limits, value: &Value, path: Path<'_>, causes: &mut Vec<Cause>) {
    let mut invalid = |shown: &Value, why: String| {
        let why = format!("{path} in body {why}");
        causes.push(Cause::invalid(path.to_string(), shown, &why));
    };
    match value {
        Value::String(text) => {
            if let Some(format) = limits.format
                && !format.holds(text)
            {
                invalid(
                    value,
                    format!("must be of type {}: {text:?}", format.name()),
                );
            }
            if let Some(pattern) = &limits.pattern
                && !pattern.matches(text)
            {
                invalid(value, format!("should match '{}'", pattern.written));
            }
            let length = text.chars().count() as u64;
            if let Some(least) = limits.min_length.filter(|least| length < *least) {
                invalid(value, format!("should be at least {least} chars long"));
            }
            if let Some(most) = limits.max_length.filter(|most| length > *most) {
                causes.push(Cause::too_long(path.to_string(), most));
            }
        }
        Value::Number(number) => {
            let Some(number) = number.as_f64() else {
                return;
            };
            check_number(limits, number, |why| invalid(value, why));
        }
        Value::Array(items) => {
            let count = items.len() as u64;
            if let Some(least) = limits.min_items.filter(|least| count < *least) {
                invalid(&json!(count), format!("should have at least {least} items"));
            }
            if let Some(most) = limits.max_items.filter(|most| count > *most) {
                causes.push(Cause::too_many(path.to_string(), items.len(), most));
            }
        }
        Value::Object(fields) => {
            let count = fields.len() as u64;
            if let Some(least) = limits.min_properties.filter(|least| count < *least) {
                invalid(
                    &json!(count),
                    format!("should have at least {least} properties"),
                );
            }
            if let Some(most) = limits.max_properties.filter(|most| count > *most) {
                causes.push(Cause::too_many(path.to_string(), fields.len(), most));
            }
        }
        Value::Null | Value::Bool(_) => {}
    }
    if let Some(values) = &limits.values
        && !values.contains(value)
    {
        causes.push(Cause::not_supported(path.to_string(), value, values));
    }
}

fn check_number(limits: &Limits, number: f64, mut invalid: impl FnMut(String)) {
    match limits.format {
        Some(Format::Int32) if number < f64::from(i32::MIN) || number > f64::from(i32::MAX) => {
            invalid("must be of type int32: \"integer\"".into());
        }
        Some(Format::Int64) if number < i64::MIN as f64 || number > i64::MAX as f64 => {
            invalid("must be of type int64: \"integer\"".into());
        }
        _ => {}
    }
    if let Some(least) = limits.minimum {
        if limits.exclusive_minimum && number <= least {
            invalid(format!("should be greater than {least}"));
        } else if number < least {
            invalid(format!("should be greater than or equal to {least}"));
        }
    }
    if let Some(most) = limits.maximum {
        if limits.exclusive_maximum && number >= most {
            invalid(format!("should be less than {most}"));
        } else if number > most {
            invalid(format!("should be less than or equal to {most}"));
        }
    }
    if let Some(step) = limits.multiple_of.filter(|step| *step != 0.0) {
        let ratio = number / step;
        if (ratio - ratio.round()).abs() > 1e-9 {
            invalid(format!("should be a multiple of {step}"));
        }
    }
}

/// Items of sets and keys of map lists stand once.
fn check_unique(node: &Node, items: &[Value], path: Path<'_>, causes: &mut Vec<Cause>) {
    let mut seen = BTreeSet::new();
    for (index, item) in items.iter().enumerate() {
        let named = match &node.list {
            ListKind::Atomic => return,
            ListKind::Set => Some(item.clone()),
            ListKind::Map(keys) => item_keys(node, keys, item).map(Value::Object),
        };
        if let Some(named) = named
            && !seen.insert(named.to_string())
        {
            causes.push(Cause::duplicate(path.index(index).to_string(), &named));
        }
    }
}

fn check_logic(logic: &Logic, value: &Value, path: Path<'_>, causes: &mut Vec<Cause>) {
    let wrong = |node: &Node| {
        let mut causes = vec![];
        check(node, value, None, path, &mut causes);
        causes
    };
    let mut invalid = |what: String, nearest: Vec<Cause>| {
        let at = path.to_string();
        let why = format!("{at:?} must {what}");
        causes.push(Cause::invalid(at, &json!(""), &why));
        causes.extend(nearest);
    };
    let failed: Vec<_> = logic.all_of.iter().flat_map(wrong).collect();
    if !failed.is_empty() {
        invalid("validate all the schemas (allOf)".into(), failed);
    }
    let nearest = |all: Vec<Vec<Cause>>| all.into_iter().min_by_key(Vec::len).unwrap_or_default();
    let all: Vec<_> = logic.any_of.iter().map(wrong).collect();
    if !all.is_empty() && all.iter().all(|causes| !causes.is_empty()) {
        invalid("validate at least one schema (anyOf)".into(), nearest(all));
    }
    let all: Vec<_> = logic.one_of.iter().map(wrong).collect();
    let valid = all.iter().filter(|causes| causes.is_empty()).count();
    let what = "validate one and only one schema (oneOf)";
    if !all.is_empty() && valid == 0 {
        invalid(format!("{what}. Found none valid"), nearest(all));
    } else if valid > 1 {
        invalid(format!("{what}. Found {valid} valid alternatives"), vec![]);
    }
    if let Some(not) = &logic.not
        && wrong(not).is_empty()
    {
        invalid("not validate the schema (not)".into(), vec![]);
    }
}

/// Walks `properties`, `additionalProperties` and `items` that have a value, with the old value where there is one.
pub(super) fn for_each_child<'v>(
    node: &Node,
    value: &'v Value,
    old: Option<&'v Value>,
    path: Path<'_>,
    mut visit: impl FnMut(&Node, &'v Value, Option<&'v Value>, Path<'_>),
) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                let child = match &node.additional {
                    Additional::Nothing | Additional::Anything => node.properties.get(name),
                    Additional::Each(each) => Some(node.properties.get(name).unwrap_or(each)),
                };
                if let Some(child) = child {
                    let old = old.and_then(|old| old.get(name));
                    visit(child, field, old, path.field(name));
                }
            }
        }
        Value::Array(items) => {
            let Some(child) = &node.items else { return };
            for (index, item) in items.iter().enumerate() {
                visit(child, item, old_item(node, item, old), path.index(index));
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{Schema, arbitrary, read};
    use super::*;

    /// The schema of one field `x`, and what is said about a value of it.
    fn said(schema: &Value, value: &Value) -> Vec<String> {
        let root = json!({"type": "object", "properties": {"x": schema}});
        let root = read::structural(&root).unwrap();
        let causes = validate(&root, &json!({"x": value}), None);
        causes.iter().map(Cause::line).collect()
    }

    #[test]
    fn messages_are_those_of_kubernetes() {
        let table = [
            (
                json!({"type": "boolean"}),
                json!("no"),
                r#"x: Invalid value: "string": x in body must be of type boolean: "string""#,
            ),
            (
                json!({"type": "string"}),
                json!(null),
                r#"x: Invalid value: "null": x in body must be of type string: "null""#,
            ),
            (
                json!({"type": "integer"}),
                json!(1.5),
                r#"x: Invalid value: "number": x in body must be of type integer: "number""#,
            ),
            (
                json!({"x-kubernetes-int-or-string": true}),
                json!(true),
                r#"x: Invalid value: "boolean": x in body must be of type integer,string: "boolean""#,
            ),
            (
                json!({"type": "string", "enum": ["a", "b"]}),
                json!("c"),
                r#"x: Unsupported value: "c": supported values: "a", "b""#,
            ),
            (
                json!({"type": "string", "pattern": "^a+$"}),
                json!("b"),
                r#"x: Invalid value: "b": x in body should match '^a+$'"#,
            ),
            (
                json!({"type": "string", "minLength": 1}),
                json!(""),
                r#"x: Invalid value: "": x in body should be at least 1 chars long"#,
            ),
            (
                json!({"type": "string", "maxLength": 1}),
                json!("üü"),
                "x: Too long: may not be more than 1 bytes",
            ),
            (
                json!({"type": "integer", "minimum": 0}),
                json!(-1),
                "x: Invalid value: -1: x in body should be greater than or equal to 0",
            ),
            (
                json!({"type": "integer", "minimum": 0, "exclusiveMinimum": true}),
                json!(0),
                "x: Invalid value: 0: x in body should be greater than 0",
            ),
            (
                json!({"type": "integer", "maximum": 5}),
                json!(6),
                "x: Invalid value: 6: x in body should be less than or equal to 5",
            ),
            (
                json!({"type": "number", "multipleOf": 0.5}),
                json!(0.7),
                "x: Invalid value: 0.7: x in body should be a multiple of 0.5",
            ),
            (
                json!({"type": "integer", "format": "int32"}),
                json!(3_000_000_000_u64),
                "x: Invalid value: 3000000000: x in body must be of type int32: \"integer\"",
            ),
            (
                json!({"type": "array", "items": {"type": "string"}, "minItems": 1}),
                json!([]),
                "x: Invalid value: 0: x in body should have at least 1 items",
            ),
            (
                json!({"type": "array", "items": {"type": "string"}, "maxItems": 1}),
                json!(["a", "b"]),
                "x: Too many: 2: must have at most 1 items",
            ),
            (
                json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}),
                json!(["a", "a"]),
                r#"x[1]: Duplicate value: "a""#,
            ),
            (
                json!({"type": "string", "format": "date-time"}),
                json!("x"),
                r#"x: Invalid value: "x": x in body must be of type date-time: "x""#,
            ),
            (
                json!({"type": "object", "required": ["y"], "properties": {"y": {"type": "string"}}}),
                json!({}),
                "x.y: Required value",
            ),
            (
                json!({"type": "string", "not": {"enum": ["a"]}}),
                json!("a"),
                r#"x: Invalid value: "": "x" must not validate the schema (not)"#,
            ),
        ];
        for (schema, value, message) in table {
            assert_eq!(said(&schema, &value), [message], "{schema} {value}");
        }
    }

    #[test]
    fn values_that_are_right_are_let_be() {
        let table = [
            (json!({"type": "string", "nullable": true}), json!(null)),
            (json!({"type": "integer"}), json!(3.0)),
            (json!({"type": "number"}), json!(3)),
            (json!({"x-kubernetes-int-or-string": true}), json!("50%")),
            (
                json!({"x-kubernetes-preserve-unknown-fields": true}),
                json!([1, {"a": null}]),
            ),
            (
                json!({"type": "integer", "oneOf": [{"maximum": 0}, {"minimum": 2}]}),
                json!(3),
            ),
        ];
        for (schema, value) in table {
            assert_eq!(said(&schema, &value), [""; 0], "{schema} {value}");
        }
    }

    #[test]
    fn logic_says_what_it_wanted_and_the_nearest_miss() {
        let schema = json!({"type": "integer", "oneOf": [{"maximum": 0}, {"minimum": 5}]});
        assert_eq!(
            said(&schema, &json!(3)),
            [
                r#"x: Invalid value: "": "x" must validate one and only one schema (oneOf). Found none valid"#,
                "x: Invalid value: 3: x in body should be less than or equal to 0",
            ]
        );
    }

    #[test]
    fn keys_of_map_lists_stand_once_with_defaults_counted() {
        let schema = json!({"type": "array", "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["port", "protocol"],
            "items": {"type": "object", "required": ["port"], "properties": {
                "port": {"type": "integer"}, "protocol": {"type": "string", "default": "TCP"}}}});
        assert_eq!(
            said(
                &schema,
                &json!([{"port": 1}, {"port": 1, "protocol": "TCP"}])
            ),
            [r#"x[1]: Duplicate value: map[string]interface {}{"port":1, "protocol":"TCP"}"#]
        );
    }

    #[test]
    fn what_was_wrong_before_and_did_not_change_is_let_be() {
        let schema = json!({"type": "object", "properties": {
            "a": {"type": "integer", "maximum": 1},
            "list": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["n"],
                "items": {"type": "object", "required": ["n"], "properties": {
                    "n": {"type": "string"}, "v": {"type": "integer", "maximum": 1}}}},
        }});
        let root = read::structural(&schema).unwrap();
        let old = json!({"a": 5, "list": [{"n": "x", "v": 9}]});
        let moved = json!({"a": 5, "list": [{"n": "y", "v": 0}, {"n": "x", "v": 9}]});
        assert_eq!(validate(&root, &moved, Some(&old)), []);
        let worse = json!({"a": 6, "list": []});
        assert_eq!(validate(&root, &worse, Some(&old)).len(), 1);
    }

    proptest! {
        #[test]
        fn any_object_gets_an_answer(schema in arbitrary::schema(), object in arbitrary::json(), old in arbitrary::json()) {
            let schema = Schema::from_json(&schema).unwrap();
            let _ = schema.validate(&object, None);
            let _ = schema.validate(&object, Some(&old));
            prop_assert_eq!(validate(&schema.root, &object, Some(&object)), vec![]);
        }
    }
}
