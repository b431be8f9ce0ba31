//! What differs between two plans, field by field.

use std::collections::BTreeSet;
use std::fmt;

use serde::Serialize;
use serde_json::Value;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Change {
    pub path: String,
    pub before: Option<Value>,
    pub after: Option<Value>,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.before, &self.after) {
            (Some(before), Some(after)) => write!(f, "~ {}: {before} -> {after}", self.path),
            (None, Some(after)) => write!(f, "+ {}: {after}", self.path),
            (Some(before), None) => write!(f, "- {}: {before}", self.path),
            (None, None) => Ok(()),
        }
    }
}

pub fn diff(before: &Value, after: &Value) -> Vec<Change> {
    let mut changes = Vec::new();
    walk("", Some(before), Some(after), &mut changes);
    changes
}

fn walk(path: &str, before: Option<&Value>, after: Option<&Value>, changes: &mut Vec<Change>) {
    if before == after {
        return;
    }
    let joined = |name: &str| {
        if path.is_empty() {
            name.to_owned()
        } else {
            format!("{path}.{name}")
        }
    };
    match (before, after) {
        (Some(Value::Object(a)), Some(Value::Object(b))) => {
            let keys: BTreeSet<_> = a.keys().chain(b.keys()).collect();
            for key in keys {
                walk(&joined(key), a.get(key), b.get(key), changes);
            }
        }
        (Some(Value::Array(a)), Some(Value::Array(b))) => {
            // Things with names are compared by name, so that one more in the middle is one change.
            if let (Some(a), Some(b)) = (named(a), named(b)) {
                let keys: BTreeSet<_> = a.iter().chain(&b).map(|(name, _)| *name).collect();
                let get = |list: &[(&str, &'_ Value)], key: &str| {
                    list.iter()
                        .find(|(name, _)| *name == key)
                        .map(|(_, value)| (*value).clone())
                };
                for key in keys {
                    let (a, b) = (get(&a, key), get(&b, key));
                    walk(&format!("{path}[{key}]"), a.as_ref(), b.as_ref(), changes);
                }
            } else {
                for at in 0..a.len().max(b.len()) {
                    walk(&format!("{path}[{at}]"), a.get(at), b.get(at), changes);
                }
            }
        }
        (before, after) => changes.push(Change {
            path: path.to_owned(),
            before: before.cloned(),
            after: after.cloned(),
        }),
    }
}

fn named(list: &[Value]) -> Option<Vec<(&str, &Value)>> {
    let mut seen = BTreeSet::new();
    list.iter()
        .map(|item| {
            let name = item.get("name")?.as_str()?;
            seen.insert(name).then_some((name, item))
        })
        .collect()
}
