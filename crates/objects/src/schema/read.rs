//! From written JSON to [`Node`]s, with the rules that make a schema structural.
//!
//! Structural means: every field is named once, with its type, outside of `allOf`, `anyOf`, `oneOf` and `not`. Only then
//! pruning, defaulting and apply know what a field is.

use serde_json::{Map, Value, json};

use super::cel::Rules;
use super::format::Format;
use super::node::{Additional, Limits, ListKind, Logic, Merge, Node, Type};
use super::pattern::Pattern;
use super::{default, prune, validate};
use crate::json::deeper_than;
use crate::path::Path;
use crate::status::Cause;

/// A schema nests two levels for every level of an object.
const MAX_SCHEMA_DEPTH: usize = 100;
/// A person corrects no more at a time.
const MOST_PROBLEMS: usize = 100;

/// Reads a schema somebody wrote, and everything that keeps it from being structural.
pub(super) fn structural(json: &Value) -> Result<Node, Vec<Cause>> {
    if deeper_than(json, MAX_SCHEMA_DEPTH) {
        let why = format!("must not nest deeper than {MAX_SCHEMA_DEPTH} levels");
        return Err(vec![Cause::forbidden("", &why)]);
    }
    let mut reader = Reader {
        strict: true,
        problems: vec![],
    };
    let node = reader.node(json, Path::Root, Place::Root);
    if reader.problems.is_empty() {
        return Ok(node);
    }
    reader.problems.truncate(MOST_PROBLEMS);
    Err(reader.problems)
}

/// Reads a schema that is ours: nothing is refused, and `required` is left to the rules of each kind, as Go's decoder
/// leaves it.
pub(super) fn lenient(json: &Value) -> Node {
    let mut reader = Reader {
        strict: false,
        problems: vec![],
    };
    reader.node(json, Path::Root, Place::Field("object fields"))
}

/// Where in the schema a node stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Root,
    /// With the words for a missing type.
    Field(&'static str),
    /// Within `allOf` and its like. `free` where a type may stand: below int-or-string.
    Logic {
        free: bool,
    },
}

struct Reader {
    strict: bool,
    problems: Vec<Cause>,
}

impl Reader {
    fn node(&mut self, json: &Value, path: Path<'_>, place: Place) -> Node {
        let Some(written) = json.as_object() else {
            self.problem(Cause::invalid(path.to_string(), json, "must be a schema"));
            return Node::default();
        };
        let flag = |name: &str| written.get(name) == Some(&Value::Bool(true));
        let mut node = Node {
            nullable: flag("nullable"),
            int_or_string: flag("x-kubernetes-int-or-string"),
            preserve_unknown: flag("x-kubernetes-preserve-unknown-fields"),
            embedded: flag("x-kubernetes-embedded-resource"),
            atomic: written.get("x-kubernetes-map-type") == Some(&json!("atomic")),
            default: written.get("default").filter(|d| !d.is_null()).cloned(),
            ..Node::default()
        };
        node.kind = self.kind(written, &node, path, place);
        self.forbidden(written, path, place);
        self.children(&mut node, written, path, place);
        node.limits = self.limits(written, path).map(Box::new);
        node.logic = self.logic(&node, written, path, place).map(Box::new);
        self.merging(&mut node, written, path);
        node.rules = self.rules(written, json, path, place);
        node.ruled = node.has_rules();
        if self.strict && !matches!(place, Place::Logic { .. }) {
            self.check_default(&mut node, path);
        }
        node
    }

    fn problem(&mut self, problem: Cause) {
        if self.strict && self.problems.len() < MOST_PROBLEMS {
            self.problems.push(problem);
        }
    }

    fn kind(
        &mut self,
        written: &Map<String, Value>,
        node: &Node,
        path: Path<'_>,
        place: Place,
    ) -> Option<Type> {
        let at = path.field("type").to_string();
        let text = written.get("type").and_then(Value::as_str).unwrap_or("");
        let kind = match text {
            "object" => Some(Type::Object),
            "array" => Some(Type::Array),
            "string" => Some(Type::String),
            "integer" => Some(Type::Integer),
            "number" => Some(Type::Number),
            "boolean" => Some(Type::Boolean),
            _ => None,
        };
        if kind.is_none() && written.contains_key("type") && !text.is_empty() {
            let known = ["array", "boolean", "integer", "number", "object", "string"];
            self.problem(Cause::not_supported(
                at,
                &json!(text),
                &known.map(|known| json!(known)),
            ));
            return kind;
        }
        match (place, kind) {
            (Place::Root, Some(Type::Object)) | (Place::Field(_), Some(_)) => {}
            (Place::Root, None) => {
                self.problem(Cause::required(at, "must not be empty at the root"));
            }
            (Place::Root, Some(_)) => {
                self.problem(Cause::invalid(
                    at,
                    &json!(text),
                    "must be object at the root",
                ));
            }
            (Place::Field(what), None) => {
                if !node.int_or_string && !node.preserve_unknown {
                    let why = format!("must not be empty for specified {what}");
                    self.problem(Cause::required(at, &why));
                }
            }
            (Place::Logic { free: false }, Some(_)) => {
                self.problem(Cause::forbidden(at, "must be empty to be structural"));
            }
            (Place::Logic { .. }, _) => {}
        }
        if node.int_or_string && kind.is_some() && self.strict {
            let at = path.field("type").to_string();
            let why = "must be empty if x-kubernetes-int-or-string is true";
            self.problem(Cause::forbidden(at, why));
        }
        if node.embedded && kind != Some(Type::Object) {
            let at = path.field("type").to_string();
            let why = "must be object if x-kubernetes-embedded-resource is true";
            self.problem(Cause::invalid(at, &json!(text), why));
        }
        kind
    }

    /// Words that have no place in a structural schema, or not here.
    fn forbidden(&mut self, written: &Map<String, Value>, path: Path<'_>, place: Place) {
        let mut refuse = |name: &str, why: &str| {
            if written.get(name).is_some_and(|value| !value.is_null()) {
                self.problem(Cause::forbidden(path.field(name).to_string(), why));
            }
        };
        refuse("$ref", "$ref is not supported");
        refuse("definitions", "definitions is not supported");
        refuse("dependencies", "dependencies is not supported");
        refuse("patternProperties", "patternProperties is not supported");
        refuse("additionalItems", "additionalItems is not supported");
        if let Place::Logic { .. } = place {
            for name in [
                "title",
                "description",
                "default",
                "nullable",
                "additionalProperties",
                "x-kubernetes-int-or-string",
                "x-kubernetes-embedded-resource",
                "x-kubernetes-preserve-unknown-fields",
            ] {
                refuse(name, "must be empty to be structural");
            }
        }
        if written.get("uniqueItems") == Some(&Value::Bool(true)) {
            let at = path.field("uniqueItems").to_string();
            let why =
                "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
            self.problem(Cause::forbidden(at, why));
        }
    }

    fn children(
        &mut self,
        node: &mut Node,
        written: &Map<String, Value>,
        path: Path<'_>,
        place: Place,
    ) {
        let below = |what| match place {
            Place::Root | Place::Field(_) => Place::Field(what),
            Place::Logic { .. } => place,
        };
        let at = path.field("properties");
        let properties = written.get("properties").and_then(Value::as_object);
        for (name, json) in properties.into_iter().flatten() {
            let child_path = at.key(name);
            if place == Place::Root && name == "metadata" {
                self.check_metadata(json, child_path);
            }
            let child = self.node(json, child_path, below("object fields"));
            node.properties.insert(name.clone(), child);
        }
        let at = path.field("additionalProperties");
        match written.get("additionalProperties") {
            None | Some(Value::Null) => {}
            Some(Value::Bool(true)) => node.additional = Additional::Anything,
            Some(Value::Bool(false)) => {
                let why = "additionalProperties cannot be set to false";
                self.problem(Cause::forbidden(at.to_string(), why));
            }
            Some(json) => {
                let child = self.node(json, at, below("additionalProperties"));
                node.additional = Additional::Each(Box::new(child));
            }
        }
        if !node.properties.is_empty() && !matches!(node.additional, Additional::Nothing) {
            let why = "additionalProperties and properties are mutual exclusive";
            self.problem(Cause::forbidden(at.to_string(), why));
        }
        let at = path.field("items");
        match written.get("items") {
            None | Some(Value::Null) => {
                if node.kind == Some(Type::Array) && matches!(place, Place::Root | Place::Field(_))
                {
                    self.problem(Cause::required(at.to_string(), "must be specified"));
                }
            }
            Some(Value::Array(_)) => {
                let why = "items must be a schema object and not an array";
                self.problem(Cause::forbidden(at.to_string(), why));
            }
            Some(json) => node.items = Some(Box::new(self.node(json, at, below("array items")))),
        }
        if self.strict {
            let required = written.get("required").and_then(Value::as_array);
            let required = required.into_iter().flatten().filter_map(Value::as_str);
            node.required = required.map(Into::into).collect();
        }
    }

    /// `metadata` has its own schema; only its names may be bound further.
    fn check_metadata(&mut self, json: &Value, path: Path<'_>) {
        let fields = json.as_object().into_iter().flatten();
        let named = |value: &Value| {
            let names = value.as_object().into_iter().flatten();
            names
                .map(|(name, _)| name.as_str())
                .all(|name| ["name", "generateName"].contains(&name))
        };
        for (name, value) in fields {
            let fine = match name.as_str() {
                "type" | "description" | "title" => true,
                "properties" => named(value),
                _ => false,
            };
            if !fine {
                let why = "must not specify anything other than name and generateName, but metadata is implicitly \
                           specified";
                self.problem(Cause::forbidden(path.to_string(), why));
            }
        }
    }

    fn limits(&mut self, written: &Map<String, Value>, path: Path<'_>) -> Option<Limits> {
        let number = |name: &str| written.get(name).and_then(Value::as_f64);
        let count = |name: &str| written.get(name).and_then(Value::as_u64);
        let flag = |name: &str| written.get(name) == Some(&Value::Bool(true));
        let format = written.get("format").and_then(Value::as_str);
        let limits = Limits {
            values: written.get("enum").and_then(Value::as_array).cloned(),
            pattern: self.pattern(written, path),
            format: format.and_then(Format::parse),
            minimum: number("minimum"),
            maximum: number("maximum"),
            exclusive_minimum: flag("exclusiveMinimum"),
            exclusive_maximum: flag("exclusiveMaximum"),
            multiple_of: number("multipleOf"),
            min_length: count("minLength"),
            max_length: count("maxLength"),
            min_items: count("minItems"),
            max_items: count("maxItems"),
            min_properties: count("minProperties"),
            max_properties: count("maxProperties"),
        };
        let words = [
            "enum",
            "pattern",
            "format",
            "minimum",
            "maximum",
            "multipleOf",
            "minLength",
            "maxLength",
            "minItems",
            "maxItems",
            "minProperties",
            "maxProperties",
        ];
        let any = words.iter().any(|word| written.contains_key(*word));
        any.then_some(limits)
    }

    fn pattern(&mut self, written: &Map<String, Value>, path: Path<'_>) -> Option<Pattern> {
        let text = written.get("pattern")?.as_str()?;
        Pattern::parse(text)
            .map_err(|error| {
                let at = path.field("pattern").to_string();
                let why = format!("must be a valid regular expression, but isn't: {error}");
                self.problem(Cause::invalid(at, &json!(text), &why));
            })
            .ok()
    }

    fn logic(
        &mut self,
        node: &Node,
        written: &Map<String, Value>,
        path: Path<'_>,
        place: Place,
    ) -> Option<Logic> {
        let outermost = !matches!(place, Place::Logic { .. });
        let place = Place::Logic {
            free: node.int_or_string,
        };
        let mut logic = Logic::default();
        for (name, branches) in [
            ("allOf", &mut logic.all_of),
            ("anyOf", &mut logic.any_of),
            ("oneOf", &mut logic.one_of),
        ] {
            let at = path.field(name);
            let written = written.get(name).and_then(Value::as_array);
            for (index, json) in written.into_iter().flatten().enumerate() {
                let branch = self.node(json, at.index(index), place);
                if outermost {
                    self.check_known(node, &branch, at.index(index));
                }
                branches.push(branch);
            }
        }
        if let Some(json) = written.get("not").filter(|not| !not.is_null()) {
            let at = path.field("not");
            let branch = self.node(json, at, place);
            if outermost {
                self.check_known(node, &branch, at);
            }
            logic.not = Some(Box::new(branch));
        }
        let empty = logic.all_of.is_empty()
            && logic.any_of.is_empty()
            && logic.one_of.is_empty()
            && logic.not.is_none();
        (!empty).then_some(logic)
    }

    /// Fields within logic must be named outside of it too.
    fn check_known(&mut self, outside: &Node, within: &Node, path: Path<'_>) {
        let at = path.field("properties");
        for (name, child) in &within.properties {
            match outside.field(name) {
                Some(known) => self.check_known(known, child, at.key(name)),
                None if outside.preserve_unknown => {}
                None => {
                    let why = format!("because it is defined in {}", at.key(name));
                    self.problem(Cause::required(format!("properties[{name}]"), &why));
                }
            }
        }
        if let (Some(known), Some(child)) = (&outside.items, &within.items) {
            self.check_known(known, child, path.field("items"));
        }
        let Some(logic) = &within.logic else { return };
        for (name, branches) in [
            ("allOf", &logic.all_of),
            ("anyOf", &logic.any_of),
            ("oneOf", &logic.one_of),
        ] {
            let at = path.field(name);
            for (index, branch) in branches.iter().enumerate() {
                self.check_known(outside, branch, at.index(index));
            }
        }
        if let Some(not) = &logic.not {
            self.check_known(outside, not, path.field("not"));
        }
    }

    /// How lists and maps merge.
    fn merging(&mut self, node: &mut Node, written: &Map<String, Value>, path: Path<'_>) {
        let text = |name: &str| written.get(name).and_then(Value::as_str);
        let keys = written.get("x-kubernetes-list-map-keys");
        let keys: Vec<String> = keys
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .map(Into::into)
            .collect();
        let at = path.field("x-kubernetes-list-type").to_string();
        node.list = match text("x-kubernetes-list-type") {
            None | Some("atomic") => ListKind::Atomic,
            Some("set") => ListKind::Set,
            Some("map") => {
                self.check_map_keys(node, &keys, path);
                ListKind::Map(keys)
            }
            Some(other) => {
                let known = [json!("atomic"), json!("map"), json!("set")];
                self.problem(Cause::not_supported(at.clone(), &json!(other), &known));
                ListKind::Atomic
            }
        };
        if text("x-kubernetes-list-type").is_some() && node.kind != Some(Type::Array) {
            let kind = json!(text("type").unwrap_or(""));
            let at = path.field("type").to_string();
            let why = "must be array if x-kubernetes-list-type is specified";
            self.problem(Cause::invalid(at, &kind, why));
        }
        let strategy = text("x-kubernetes-patch-strategy").unwrap_or("");
        if strategy.split(',').any(|part| part == "merge") {
            node.merge = Some(Merge {
                key: text("x-kubernetes-patch-merge-key").map(Into::into),
            });
        }
        node.retain_keys = strategy.split(',').any(|part| part == "retainKeys");
    }

    fn check_map_keys(&mut self, node: &Node, keys: &[String], path: Path<'_>) {
        let at = path.field("x-kubernetes-list-map-keys");
        if keys.is_empty() {
            let why = "must not be empty if x-kubernetes-list-type is map";
            self.problem(Cause::required(at.to_string(), why));
        }
        let Some(items) = &node.items else { return };
        for (index, key) in keys.iter().enumerate() {
            match items.properties.get(key) {
                None => {
                    let why = "must be a property name of the items";
                    let at = at.index(index).to_string();
                    self.problem(Cause::invalid(at, &json!(key), why));
                }
                Some(property) => {
                    if property.default.is_none() && !items.required.contains(key) {
                        let at = format!("{path}.items.properties[{key}].default");
                        let why = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a \
                                   required property";
                        self.problem(Cause::required(at, why));
                    }
                }
            }
        }
    }

    fn rules(
        &mut self,
        written: &Map<String, Value>,
        json: &Value,
        path: Path<'_>,
        place: Place,
    ) -> Option<std::sync::Arc<Rules>> {
        let rules = written.get("x-kubernetes-validations")?.as_array()?;
        if rules.is_empty() {
            return None;
        }
        if let Place::Logic { .. } = place {
            let at = path.field("x-kubernetes-validations").to_string();
            self.problem(Cause::forbidden(at, "must be empty to be structural"));
            return None;
        }
        match Rules::read(json, path.field("x-kubernetes-validations")) {
            Ok(rules) => Some(std::sync::Arc::new(rules)),
            Err(problems) => {
                for problem in problems {
                    self.problem(problem);
                }
                None
            }
        }
    }

    /// A default must be what the schema itself would take.
    fn check_default(&mut self, node: &mut Node, path: Path<'_>) {
        let Some(mut filled) = node.default.clone() else {
            return;
        };
        let at = path.field("default");
        for unknown in prune::prune(node, &mut filled) {
            let why = format!("must not have unknown fields: {unknown}");
            let written = node.default.as_ref().unwrap_or(&Value::Null);
            self.problem(Cause::invalid(at.to_string(), written, &why));
        }
        default::fill(node, &mut filled);
        for mut cause in validate::validate(node, &filled, None) {
            cause.field = match cause.field.as_str() {
                "" => at.to_string(),
                below => format!("{at}.{below}"),
            };
            self.problem(cause);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(schema: &Value) -> Vec<String> {
        let problems = structural(schema).err().unwrap_or_default();
        problems.iter().map(Cause::line).collect()
    }

    #[test]
    fn what_is_not_structural_is_named_all_at_once() {
        let schema = json!({"type": "object", "properties": {
            "untyped": {"description": "x"},
            "strange": {"type": "text"},
            "list": {"type": "array"},
            "closed": {"type": "object", "additionalProperties": false},
            "pattern": {"type": "string", "pattern": "("},
            "both": {"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": {"type": "string"}},
        }});
        let found = problems(&schema);
        let expected = [
            "properties[both].additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive",
            "properties[closed].additionalProperties: Forbidden: additionalProperties cannot be set to false",
            "properties[list].items: Required value: must be specified",
        ];
        assert_eq!(&found[..3], expected);
        assert!(
            found[3].starts_with("properties[pattern].pattern: Invalid value"),
            "{found:?}"
        );
        assert!(
            found[4].starts_with("properties[strange].type: Unsupported value: \"text\""),
            "{found:?}"
        );
        assert_eq!(
            found[5],
            "properties[untyped].type: Required value: must not be empty for specified object fields"
        );
        assert_eq!(found.len(), 6);
    }

    #[test]
    fn the_root_is_an_object() {
        assert_eq!(
            problems(&json!({})),
            ["type: Required value: must not be empty at the root"]
        );
        assert_eq!(
            problems(&json!({"type": "string"})),
            ["type: Invalid value: \"string\": must be object at the root"]
        );
        assert_eq!(problems(&json!(3)), ["Invalid value: 3: must be a schema"]);
    }

    #[test]
    fn logic_names_no_new_fields_and_no_types() {
        let schema = json!({"type": "object", "properties": {"a": {"type": "string"}}, "anyOf": [
            {"properties": {"b": {"type": "string"}}},
        ]});
        assert_eq!(
            problems(&schema),
            [
                "anyOf[0].properties[b].type: Forbidden: must be empty to be structural",
                "properties[b]: Required value: because it is defined in anyOf[0].properties[b]",
            ]
        );
    }

    #[test]
    fn int_or_string_may_say_so_with_any_of() {
        let schema = json!({"type": "object", "properties": {"port": {
            "x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}],
        }}});
        assert_eq!(problems(&schema), [""; 0]);
    }

    #[test]
    fn keys_of_a_map_list_are_always_there() {
        let schema = json!({"type": "object", "properties": {"list": {
            "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name", "other"],
            "items": {"type": "object", "properties": {"name": {"type": "string"}}},
        }}});
        let found = problems(&schema);
        assert!(
            found[0].starts_with("properties[list].items.properties[name].default: Required value"),
            "{found:?}"
        );
        assert!(
            found[1].starts_with("properties[list].x-kubernetes-list-map-keys[1]: Invalid value"),
            "{found:?}"
        );
    }

    #[test]
    fn a_default_must_satisfy_its_schema() {
        let schema = json!({"type": "object", "properties": {
            "a": {"type": "string", "default": 3},
            "b": {"type": "object", "default": {"x": 1}, "properties": {"c": {"type": "string"}}},
        }});
        let found = problems(&schema);
        assert!(
            found[0].starts_with("properties[a].default: Invalid value: \"integer\""),
            "{found:?}"
        );
        assert!(
            found[1].contains("must not have unknown fields: x"),
            "{found:?}"
        );
    }

    #[test]
    fn metadata_is_not_for_the_author() {
        let schema = json!({"type": "object", "properties": {"metadata": {
            "type": "object", "properties": {"labels": {"type": "object"}},
        }}});
        assert!(problems(&schema)[0].starts_with("properties[metadata]: Forbidden"));
    }

    #[test]
    fn a_schema_too_deep_is_refused() {
        let mut schema = json!({"type": "string"});
        for _ in 0..60 {
            schema = json!({"type": "object", "properties": {"a": schema}});
        }
        assert!(problems(&schema)[0].contains("must not nest deeper"));
    }

    proptest::proptest! {
        #[test]
        fn any_json_is_a_schema_or_a_list_of_problems(json in super::super::arbitrary::json_like_schema()) {
            if let Err(problems) = structural(&json) {
                proptest::prop_assert!(!problems.is_empty());
            }
        }
    }
}
