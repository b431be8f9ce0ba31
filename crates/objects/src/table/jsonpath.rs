//! The part of JSONPath that printer columns use: `.status.conditions[?(@.type=="Ready")].status`.

use serde_json::Value;

/// A path to one or several values.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct JsonPath(Vec<Step>);

#[derive(Debug, Clone, PartialEq)]
enum Step {
    Field(String),
    /// From the end where negative.
    Index(i64),
    Every,
    Filter {
        path: Vec<String>,
        equal: bool,
        value: Value,
    },
}

/// Longer paths are refused.
const MOST_STEPS: usize = 64;
/// No cell shows more values than this.
const MOST_VALUES: usize = 1000;

impl JsonPath {
    /// Reads a path, with or without braces around it; what is wrong with it otherwise.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let text = text
            .strip_prefix('{')
            .and_then(|text| text.strip_suffix('}'))
            .unwrap_or(text);
        let mut rest = text.strip_prefix('$').unwrap_or(text);
        let mut steps = vec![];
        if !rest.starts_with(['.', '[']) {
            return Err("must start with a dot".into());
        }
        while !rest.is_empty() {
            if steps.len() == MOST_STEPS {
                return Err(format!("has more than {MOST_STEPS} steps"));
            }
            let (step, after) = step(rest)?;
            steps.extend(step);
            rest = after;
        }
        Ok(Self(steps))
    }

    /// Everything the path leads to, in order.
    pub(crate) fn find<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        let mut found = vec![value];
        for step in &self.0 {
            found = found.into_iter().flat_map(|value| step.of(value)).collect();
            found.truncate(MOST_VALUES);
        }
        found
    }
}

impl Step {
    fn of<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        match self {
            Self::Field(name) => value.get(name).into_iter().collect(),
            Self::Index(index) => {
                let items = value.as_array().map_or(&[][..], Vec::as_slice);
                let at = if *index < 0 {
                    items.len().checked_sub(index.unsigned_abs() as usize)
                } else {
                    usize::try_from(*index).ok()
                };
                at.and_then(|at| items.get(at)).into_iter().collect()
            }
            Self::Every => match value {
                Value::Array(items) => items.iter().collect(),
                Value::Object(fields) => fields.values().collect(),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => vec![],
            },
            Self::Filter {
                path,
                equal,
                value: wanted,
            } => {
                let items = value.as_array().map_or(&[][..], Vec::as_slice);
                let holds = |item: &&Value| {
                    let found = path
                        .iter()
                        .try_fold(*item, |value, name| value.get(name.as_str()));
                    found.is_some_and(|found| (found == wanted) == *equal)
                };
                items.iter().filter(holds).collect()
            }
        }
    }
}

/// One step and what follows it. A lone dot is no step: the object itself.
fn step(text: &str) -> Result<(Option<Step>, &str), String> {
    if let Some(rest) = text.strip_prefix('[') {
        let end = closing(rest).ok_or("has an open bracket")?;
        let (inside, after) = (&rest[..end], &rest[end + 1..]);
        return bracket(inside.trim()).map(|step| (Some(step), after));
    }
    let rest = text
        .strip_prefix('.')
        .ok_or("must have a dot between names")?;
    let mut name = String::new();
    let mut chars = rest.char_indices();
    let mut end = rest.len();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => name.extend(chars.next().map(|(_, c)| c)),
            '.' | '[' => {
                end = at;
                break;
            }
            c => name.push(c),
        }
    }
    let after = &rest[end..];
    match name.as_str() {
        "" if after.is_empty() || after.starts_with('[') => Ok((None, after)),
        "" => Err("has an empty name".into()),
        "*" => Ok((Some(Step::Every), after)),
        _ => Ok((Some(Step::Field(name)), after)),
    }
}

/// Where the bracket closes, quotes and brackets within left out.
fn closing(text: &str) -> Option<usize> {
    let mut quote = None;
    let mut depth = 0;
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(open), c) if open == c => quote = None,
            (None, '"' | '\'') => quote = Some(c),
            (None, '[') => depth += 1,
            (None, ']') if depth == 0 => return Some(at),
            (None, ']') => depth -= 1,
            (Some(_) | None, _) => {}
        }
    }
    None
}

fn bracket(text: &str) -> Result<Step, String> {
    if text == "*" {
        return Ok(Step::Every);
    }
    if let Some(name) = quoted(text) {
        return Ok(Step::Field(name));
    }
    if let Ok(index) = text.parse() {
        return Ok(Step::Index(index));
    }
    let filter = text
        .strip_prefix("?(")
        .and_then(|text| text.strip_suffix(')'))
        .ok_or_else(|| format!("does not know [{text}]"))?;
    let (path, equal, value) = match (filter.split_once("=="), filter.split_once("!=")) {
        (Some((path, value)), _) => (path, true, value),
        (None, Some((path, value))) => (path, false, value),
        (None, None) => return Err(format!("does not know the filter {filter}")),
    };
    let path = path
        .trim()
        .strip_prefix("@.")
        .ok_or("has a filter that does not start with @")?;
    let value = value.trim();
    let value = match quoted(value) {
        Some(text) => Value::String(text),
        None => serde_json::from_str(value)
            .map_err(|_| format!("has a filter with the value {value}"))?,
    };
    Ok(Step::Filter {
        path: path.split('.').map(Into::into).collect(),
        equal,
        value,
    })
}

fn quoted(text: &str) -> Option<String> {
    ['"', '\''].into_iter().find_map(|quote| {
        let inner = text.strip_prefix(quote)?.strip_suffix(quote)?;
        Some(inner.replace('\\', ""))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_find_what_columns_show() {
        let object = json!({
            "spec": {"replicas": 3, "a.b": "dotted", "hosts": ["x", "y", "z"]},
            "status": {"conditions": [
                {"type": "Ready", "status": "True", "deep": {"n": 1}},
                {"type": "Failed", "status": "False", "deep": {"n": 2}},
            ]},
        });
        let table = [
            (".spec.replicas", json!([3])),
            ("{.spec.replicas}", json!([3])),
            ("$.spec.replicas", json!([3])),
            (".spec.a\\.b", json!(["dotted"])),
            (".spec['a.b']", json!(["dotted"])),
            (".spec.hosts[1]", json!(["y"])),
            (".spec.hosts[-1]", json!(["z"])),
            (".spec.hosts[9]", json!([])),
            (".spec.hosts[*]", json!(["x", "y", "z"])),
            (
                ".status.conditions[?(@.type==\"Ready\")].status",
                json!(["True"]),
            ),
            (
                ".status.conditions[?(@.type=='Failed')].status",
                json!(["False"]),
            ),
            (
                ".status.conditions[?(@.type!='Failed')].status",
                json!(["True"]),
            ),
            (".status.conditions[?(@.deep.n==2)].type", json!(["Failed"])),
            (".absent.field", json!([])),
        ];
        for (path, expected) in table {
            let found = JsonPath::parse(path).unwrap();
            assert_eq!(json!(found.find(&object)), expected, "{path}");
        }
    }

    #[test]
    fn wrong_paths_are_refused() {
        for path in [
            "",
            "spec",
            ".a[",
            ".a[b]",
            ".a..b",
            ".a[?(@.b)]",
            ".a[?(b==1)]",
            ".a[?(@.b==x)]",
        ] {
            assert!(JsonPath::parse(path).is_err(), "{path}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_a_path_or_refused(text in "[.a\\[\\]?(@='\"*\\\\0-9é]{0,30}", value in crate::schema::arbitrary::json()) {
            if let Ok(path) = JsonPath::parse(&text) {
                path.find(&value);
            }
        }
    }
}
