//! Sets of fields, in the form of `fieldsV1`.
//!
//! A field is a chain of elements: `f:spec`, `k:{"name":"a"}` (an item of a map list), `v:"x"` (an item of a set), `i:0`.
//! The set is a tree of them; a place belongs to the set itself when [`Fields::here`] is on.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// A set of fields at and below one place.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Fields {
    /// This place itself.
    pub(super) here: bool,
    below: BTreeMap<String, Fields>,
}

impl Fields {
    /// Reads `fieldsV1`: an empty object stands for its place alone, a dot for the place beside what is below.
    pub(super) fn from_json(json: &Value) -> Self {
        let mut fields = Self::default();
        let written = json.as_object();
        for (element, below) in written.into_iter().flatten() {
            if element == "." {
                fields.here = true;
            } else {
                let mut below = Self::from_json(below);
                below.here |= below.below.is_empty();
                fields.below.insert(element.clone(), below);
            }
        }
        fields
    }

    pub(super) fn to_json(&self) -> Value {
        let mut json = Map::new();
        if self.here && !self.below.is_empty() {
            json.insert(".".into(), Value::Object(Map::new()));
        }
        for (element, below) in &self.below {
            json.insert(element.clone(), below.to_json());
        }
        Value::Object(json)
    }

    pub(super) fn is_empty(&self) -> bool {
        !self.here && self.below.is_empty()
    }

    /// The place alone, with nothing below it.
    pub(super) fn is_leaf(&self) -> bool {
        self.here && self.below.is_empty()
    }

    pub(super) fn get(&self, element: &str) -> Option<&Self> {
        self.below.get(element)
    }

    pub(super) fn elements(&self) -> impl Iterator<Item = (&String, &Self)> {
        self.below.iter()
    }

    /// Puts a set below an element; an empty one leaves no trace.
    pub(super) fn put(&mut self, element: String, below: Self) {
        if !below.is_empty() {
            self.below.insert(element, below);
        }
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.here |= other.here;
        for (element, below) in &other.below {
            self.below.entry(element.clone()).or_default().add(below);
        }
    }

    /// What is in this set and not in the other.
    pub(super) fn minus(&self, other: &Self) -> Self {
        let mut rest = Self {
            here: self.here && !other.here,
            below: BTreeMap::new(),
        };
        for (element, below) in &self.below {
            let below = match other.below.get(element) {
                Some(other) => below.minus(other),
                None => below.clone(),
            };
            rest.put(element.clone(), below);
        }
        rest
    }

    /// What is in both.
    pub(super) fn both(&self, other: &Self) -> Self {
        let mut both = Self {
            here: self.here && other.here,
            below: BTreeMap::new(),
        };
        for (element, below) in &self.below {
            if let Some(other) = other.below.get(element) {
                both.put(element.clone(), below.both(other));
            }
        }
        both
    }

    /// Takes away a field, given by names, with all below it.
    pub(super) fn cut(&mut self, names: &[&str]) {
        match names {
            [] => {}
            [name] => {
                self.below.remove(&format!("f:{name}"));
            }
            [name, rest @ ..] => {
                let element = format!("f:{name}");
                if let Some(below) = self.below.get_mut(&element) {
                    below.cut(rest);
                    if below.is_empty() {
                        self.below.remove(&element);
                    }
                }
            }
        }
    }

    /// Every field of the set as text: `.spec.ports[name="a"].port`.
    pub(super) fn paths(&self) -> Vec<String> {
        let mut paths = vec![];
        self.collect_paths("", &mut paths);
        paths
    }

    fn collect_paths(&self, at: &str, paths: &mut Vec<String>) {
        if self.here {
            paths.push(at.into());
        }
        for (element, below) in &self.below {
            below.collect_paths(&format!("{at}{}", shown(element)), paths);
        }
    }
}

fn shown(element: &str) -> String {
    match element.split_once(':') {
        Some(("f", name)) => format!(".{name}"),
        Some(("v", value)) => format!("[={value}]"),
        Some(("i", index)) => format!("[{index}]"),
        Some(("k", keys)) => match serde_json::from_str::<Map<String, Value>>(keys) {
            Ok(keys) => {
                let keys: Vec<_> = keys
                    .iter()
                    .map(|(key, value)| format!("{key}={value}"))
                    .collect();
                format!("[{}]", keys.join(","))
            }
            Err(_) => format!("[{keys}]"),
        },
        Some(_) | None => element.into(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_set_reads_and_writes_as_fields_v1() {
        let json = json!({"f:spec": {"f:ports": {".": {}, "k:{\"name\":\"a\"}": {".": {}, "f:port": {}}},
            "f:tags": {"v:\"x\"": {}}}});
        let fields = Fields::from_json(&json);
        assert_eq!(fields.to_json(), json);
        assert_eq!(
            fields.paths(),
            [
                ".spec.ports",
                ".spec.ports[name=\"a\"]",
                ".spec.ports[name=\"a\"].port",
                ".spec.tags[=\"x\"]"
            ]
        );
    }

    #[test]
    fn sets_add_and_take_away() {
        let set = |json: &Value| Fields::from_json(json);
        let a = set(&json!({"f:a": {}, "f:b": {".": {}, "f:c": {}}}));
        let b = set(&json!({"f:b": {"f:c": {}}, "f:d": {}}));
        assert_eq!(a.minus(&b), set(&json!({"f:a": {}, "f:b": {}})));
        assert_eq!(a.both(&b), set(&json!({"f:b": {"f:c": {}}})));
        let mut all = a.clone();
        all.add(&b);
        assert_eq!(
            all,
            set(&json!({"f:a": {}, "f:b": {".": {}, "f:c": {}}, "f:d": {}}))
        );
        all.cut(&["b", "c"]);
        all.cut(&["d"]);
        assert_eq!(all, set(&json!({"f:a": {}, "f:b": {}})));
    }

    fn fields() -> impl Strategy<Value = Fields> {
        let leaf = Just(Fields {
            here: true,
            ..Fields::default()
        });
        leaf.prop_recursive(3, 16, 3, |inner| {
            let element =
                prop::sample::select(vec!["f:a", "f:b", "k:{\"name\":\"x\"}", "v:1", "i:0"]);
            (
                any::<bool>(),
                proptest::collection::btree_map(element.prop_map(String::from), inner, 1..3),
            )
                .prop_map(|(here, below)| Fields { here, below })
        })
    }

    proptest! {
        #[test]
        fn a_written_set_reads_back(set in fields()) {
            let set = Fields { here: false, ..set };
            prop_assert_eq!(Fields::from_json(&set.to_json()), set);
        }

        #[test]
        fn sets_obey_their_laws(a in fields(), b in fields()) {
            let mut all = a.clone();
            all.add(&b);
            prop_assert!(a.minus(&all).is_empty() && b.minus(&all).is_empty());
            prop_assert!(a.minus(&b).both(&b).is_empty());
            let mut again = a.minus(&b);
            again.add(&a.both(&b));
            prop_assert_eq!(again, a);
        }

        #[test]
        fn any_json_is_a_set(json in crate::schema::arbitrary::json()) {
            Fields::from_json(&json).paths();
        }
    }
}
