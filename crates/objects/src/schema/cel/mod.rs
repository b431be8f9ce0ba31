//! `x-kubernetes-validations`: rules written in CEL.
//!
//! Rules are read once with their schema. The walk is ours, so that an item's `oldSelf` is the item of the same key and
//! unchanged parts are let be; values get the types their schema gives them ([`value`]), and chains of optional fields
//! mean what they mean in CEL ([`chain`]).
//!
//! What a rule may cost is bounded: rules are short, and where they loop within loops the object's lists must be short too.

mod chain;
mod rule;
mod value;

use serde_json::{Value, json};

use super::node::Node;
use super::validate::for_each_child;
use crate::path::Path;
use crate::status::Cause;
use rule::{LONGEST_RANGE, Rule};

/// The rules of one place.
#[derive(Debug)]
pub(crate) struct Rules {
    all: Vec<Rule>,
    /// How deep a rule loops within loops.
    loops: u32,
    /// What messages show in place of the value.
    type_name: String,
}

/// Longer rules are refused: a parser and an evaluator recurse over them.
const RULE_BYTES: usize = 4096;
/// Deeper brackets are refused, for the same reason.
const RULE_BRACKETS: usize = 40;
/// Longer chains of operators too: `a + a + …` is as deep as it is long.
const RULE_OPERATORS: usize = 250;
/// What loops within loops may cost.
const MOST_STEPS: u64 = 10_000_000;
/// A person corrects no more at a time.
const MOST_CAUSES: usize = 200;

impl Rules {
    /// Reads the rules at this place of a schema.
    pub(super) fn read(schema: &Value, path: Path<'_>) -> Result<Self, Vec<Cause>> {
        let written = schema["x-kubernetes-validations"].as_array();
        let (mut rules, mut problems) = (vec![], vec![]);
        for (index, rule) in written.into_iter().flatten().enumerate() {
            let at = path.index(index);
            let refused = ["rule", "messageExpression"]
                .into_iter()
                .find_map(|field| refusal(rule, at, field));
            if let Some(problem) = refused {
                problems.push(problem);
                continue;
            }
            match Rule::read(rule) {
                Ok(rule) => rules.push(rule),
                Err(error) => {
                    let why = format!("compilation failed: {error}");
                    let at = at.field("rule").to_string();
                    problems.push(Cause::invalid(at, &rule["rule"], &why));
                }
            }
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        Ok(Self {
            loops: rules.iter().map(Rule::loops).max().unwrap_or(0),
            all: rules,
            type_name: schema["type"].as_str().unwrap_or("object").to_owned(),
        })
    }

    /// Everything these rules have to say against a value.
    fn objections(
        &self,
        node: &Node,
        value: &Value,
        old: Option<&Value>,
        path: Path<'_>,
    ) -> Vec<Cause> {
        let mut longest = longest(value).max(old.map_or(0, longest)) as u64;
        if self.all.iter().any(Rule::makes_lists) {
            longest = longest.max(LONGEST_RANGE as u64);
        }
        if self.loops > 1 && longest.saturating_pow(self.loops) > MOST_STEPS {
            let why = "the rules at this place cost too much for a list this long";
            return vec![Cause::invalid(
                path.to_string(),
                &json!(self.type_name),
                why,
            )];
        }
        let rules = self.all.iter();
        rules
            .filter_map(|rule| {
                let message = rule.objection(node, value, old)?;
                Some(rule.cause(&message, path, &self.type_name))
            })
            .collect()
    }
}

/// The length of the longest list or map in a value.
fn longest(value: &Value) -> usize {
    match value {
        Value::Array(items) => items.iter().map(longest).fold(items.len(), usize::max),
        Value::Object(fields) => fields.values().map(longest).fold(fields.len(), usize::max),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

/// Why a rule is not even given to the compiler.
fn refusal(rule: &Value, at: Path<'_>, field: &str) -> Option<Cause> {
    let text = match rule.get(field) {
        Some(Value::String(text)) => text,
        None if field == "rule" => {
            return Some(Cause::required(
                at.field(field).to_string(),
                "rule is required",
            ));
        }
        None | Some(_) => return None,
    };
    let (mut open, mut deepest, mut operators) = (0_usize, 0, 0);
    for byte in text.bytes() {
        match byte {
            b'(' | b'[' | b'{' => open += 1,
            b')' | b']' | b'}' => open = open.saturating_sub(1),
            b'+' | b'-' | b'*' | b'/' | b'%' | b'&' | b'|' | b'?' | b'!' | b'.' | b'<' | b'>'
            | b'=' => {
                operators += 1;
            }
            _ => {}
        }
        deepest = deepest.max(open);
    }
    let why = if text.len() > RULE_BYTES {
        format!("must not be longer than {RULE_BYTES} bytes")
    } else if deepest > RULE_BRACKETS || operators > 2 * RULE_OPERATORS {
        "nests too deep".to_owned()
    } else {
        return None;
    };
    Some(Cause::forbidden(at.field(field).to_string(), &why))
}

/// Evaluates every rule that has something to say about what changed.
pub(super) fn validate(root: &Node, new: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut causes = vec![];
    walk(root, new, old, Path::Root, &mut causes);
    causes
}

fn walk(node: &Node, value: &Value, old: Option<&Value>, path: Path<'_>, causes: &mut Vec<Cause>) {
    if old == Some(value) || !node.ruled || causes.len() >= MOST_CAUSES {
        return;
    }
    if let Some(rules) = &node.rules
        && !value.is_null()
    {
        causes.extend(rules.objections(node, value, old, path));
    }
    for_each_child(node, value, old, path, |node, value, old, path| {
        walk(node, value, old, path, causes);
    });
}

/// What stands in place of the rules' own causes where the object is wrong already.
pub(super) fn not_checked() -> Cause {
    let why = "some validation rules were not checked because the object was invalid; correct the existing errors to \
               complete validation";
    Cause::invalid("<nil>", &json!("null"), why)
}

#[cfg(test)]
mod tests {
    use super::rule::loops;
    use super::*;
    use crate::schema::Schema;

    fn schema() -> Schema {
        Schema::from_json(&json!({"type": "object", "properties": {
            "spec": {
                "type": "object",
                "x-kubernetes-validations": [
                    {"rule": "!has(self.max) || self.min <= self.max", "message": "min above max"},
                    {"rule": "self.name == oldSelf.name", "message": "name is immutable", "fieldPath": ".name",
                     "reason": "FieldValueForbidden"},
                    {"rule": "self.min >= 0", "messageExpression": "'min is ' + string(self.min)"},
                ],
                "required": ["name"],
                "properties": {
                    "name": {"type": "string"}, "min": {"type": "integer", "default": 0}, "max": {"type": "integer"},
                    "ports": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["n"],
                        "items": {"type": "object", "required": ["n"],
                            "x-kubernetes-validations": [{"rule": "self.v >= oldSelf.v"}],
                            "properties": {"n": {"type": "string"}, "v": {"type": "integer"}}}},
                },
            },
        }}))
        .unwrap()
    }

    fn lines(causes: &[Cause]) -> Vec<String> {
        causes.iter().map(Cause::line).collect()
    }

    #[test]
    fn rules_speak_with_their_own_words_and_places() {
        let old = json!({"spec": {"name": "a", "min": 0}});
        let new = json!({"spec": {"name": "b", "min": -1, "max": -2}});
        assert_eq!(
            lines(&schema().validate(&new, Some(&old))),
            [
                r#"spec: Invalid value: "object": min above max"#,
                "spec.name: Forbidden: name is immutable",
                r#"spec: Invalid value: "object": min is -1"#,
            ]
        );
    }

    #[test]
    fn transition_rules_compare_the_item_of_the_same_key() {
        let old = json!({"spec": {"name": "a", "min": 0, "ports": [{"n": "x", "v": 5}, {"n": "y", "v": 1}]}});
        let new = json!({"spec": {"name": "a", "min": 0, "ports": [{"n": "y", "v": 2}, {"n": "x", "v": 4}]}});
        assert_eq!(
            lines(&schema().validate(&new, Some(&old))),
            [r#"spec.ports[1]: Invalid value: "object": failed rule: self.v >= oldSelf.v"#]
        );
        assert_eq!(schema().validate(&new, None), []);
    }

    #[test]
    fn rules_wait_until_the_object_is_right() {
        let causes = schema().validate(&json!({"spec": {"min": -1}}), None);
        assert_eq!(
            lines(&causes),
            [
                "spec.name: Required value",
                "<nil>: Invalid value: \"null\": some validation rules were not checked because the object was invalid; \
                 correct the existing errors to complete validation",
            ]
        );
    }

    #[test]
    fn a_rule_that_does_not_compile_is_refused_with_its_place() {
        let problems = Schema::from_json(&json!({"type": "object", "x-kubernetes-validations": [
            {"rule": "true"}, {"rule": "self. >"}]}))
        .unwrap_err();
        assert_eq!(problems.len(), 1);
        assert_eq!(problems[0].field, "x-kubernetes-validations[1].rule");
        assert!(
            problems[0].message.contains("compilation failed"),
            "{problems:?}"
        );
    }

    #[test]
    fn optional_syntax_works() {
        let schema = Schema::from_json(&json!({"type": "object", "properties": {
            "spec": {
                "type": "object",
                "x-kubernetes-validations": [
                    {"rule": "self.?unit.size.orValue(0) < 3", "message": "too big"},
                    {"rule": "oldSelf.?unit.hasValue() ? self.?unit.hasValue() : true", "message": "unit stays",
                     "fieldPath": ".unit", "reason": "FieldValueRequired"},
                ],
                "properties": {"unit": {"type": "object", "properties": {"size": {"type": "integer"}}}},
            },
        }}))
        .unwrap();
        let sized = |size: i64| json!({"spec": {"unit": {"size": size}}});
        let bare = json!({"spec": {}});
        assert_eq!(schema.validate(&bare, None), []);
        assert_eq!(schema.validate(&sized(2), None), []);
        assert_eq!(
            lines(&schema.validate(&sized(3), None)),
            [r#"spec: Invalid value: "object": too big"#]
        );
        assert_eq!(
            lines(&schema.validate(&bare, Some(&sized(1)))),
            ["spec.unit: Required value: unit stays"]
        );
    }

    #[test]
    fn loops_within_loops_need_short_lists() {
        assert_eq!(
            loops("self.all(x, self.exists(y, x == y)) && self.map(x, x)"),
            2
        );
        assert_eq!(loops("size(self.a) > f(self.b)"), 0);
        let schema = Schema::from_json(&json!({"type": "object", "properties": {"list": {
            "type": "array", "items": {"type": "integer"},
            "x-kubernetes-validations": [{"rule": "self.all(x, self.exists(y, x == y))"}]}}}))
        .unwrap();
        let list = |length: i64| json!({"list": (0..length).collect::<Vec<_>>()});
        assert_eq!(schema.validate(&list(20), None), []);
        assert!(lines(&schema.validate(&list(4000), None))[0].contains("cost too much"));
    }

    #[test]
    fn rules_that_nest_too_deep_never_reach_the_compiler() {
        for rule in ["(".repeat(1000), "1+".repeat(1500), "x".repeat(5000)] {
            let schema = json!({"type": "object", "x-kubernetes-validations": [{"rule": rule}]});
            assert!(Schema::from_json(&schema).is_err());
        }
        let longest = format!("{}1 > 0", "1+".repeat(2 * RULE_OPERATORS - 1));
        let schema = json!({"type": "object", "x-kubernetes-validations": [{"rule": longest}]});
        let schema = Schema::from_json(&schema).unwrap();
        assert_eq!(schema.validate(&json!({}), None), []);
    }

    #[test]
    fn rules_that_go_wrong_are_objections_and_no_panics() {
        for rule in [
            "1 / 0 > 0",
            "1 % 0 > 0",
            "9223372036854775807 + 1 > 0",
            "-9223372036854775807 - 2 < 0",
            "9223372036854775807 * 2 > 0",
            "(-9223372036854775807 - 1) / -1 > 0",
            "-(-9223372036854775807 - 1) > 0",
            "18446744073709551615u + 1u > 0u",
            "int(1e300) > 0",
            "uint(-1) > 0u",
            "'a'.matches('(')",
            "[1][5] == 1",
            "[1][-1] == 1",
            "duration('x') > duration('1s')",
            "duration('99999999999h') > duration('1s')",
            "timestamp('9999-12-31T23:59:59Z') + duration('87600000h') > timestamp('2026-01-01T00:00:00Z')",
            "int('x') > 0",
            "'%d'.format([]) == ''",
            "'abc'.substring(5) == ''",
            "'abc'.substring(2, 1) == ''",
            "'é'.charAt(7) == ''",
            "'éé'.substring(1, 2) == 'x'",
            "'a,b'.split(',', -5) == []",
            "'é'.indexOf('é', 9) == 0",
            "self.x.y.z",
            "self.all(x, x)",
            "size(1) == 1",
            "quantity('x').isGreaterThan(quantity('1'))",
            "quantity('99999999999999999999999999Ei').isGreaterThan(quantity('1'))",
            "cidr('10.0.0.0/99').prefixLength() == 8",
            "url('x').getHost() == ''",
            "semver('x').major() == 1",
            "math.bitShiftLeft(1, 99) == 0",
            "math.bitShiftLeft(1, -1) == 0",
            "math.abs(-9223372036854775807 - 1) == 0",
            "lists.range(-1) == []",
            "lists.range(9223372036854775807) == []",
            "lists.range(10000).all(x, lists.range(10000).all(y, x < y + 10000))",
            "[].min() == 0",
            "optional.none().value() == 1",
            "nothing == 1",
            "nothing(1)",
            "1",
            "'text'",
        ] {
            let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true,
                "x-kubernetes-validations": [{"rule": rule}]});
            if let Ok(schema) = Schema::from_json(&schema) {
                let causes = schema.validate(&json!({"a": 1}), None);
                assert!(causes.len() <= 1, "{rule}: {causes:?}");
            }
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_of_a_rule_panics(rule in "[a-z0-9.()\\[\\]{}<>=!&|+?: '\"-]{0,40}") {
            let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true,
                "x-kubernetes-validations": [{"rule": rule}]});
            if let Ok(schema) = Schema::from_json(&schema) {
                let _ = schema.validate(&json!({"a": 1}), None);
            }
        }
    }
}
