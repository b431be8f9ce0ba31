//! One place of a schema, in the form the walks need.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::cel::Rules;
use super::format::Format;
use super::pattern::Pattern;

/// One place of a schema and what hangs below it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Node {
    pub(crate) kind: Option<Type>,
    pub(crate) nullable: bool,
    pub(crate) int_or_string: bool,
    pub(crate) preserve_unknown: bool,
    /// A whole object of its own, with apiVersion, kind and metadata.
    pub(crate) embedded: bool,
    pub(crate) properties: BTreeMap<String, Node>,
    pub(crate) additional: Additional,
    pub(crate) items: Option<Box<Node>>,
    pub(crate) required: Vec<String>,
    pub(crate) default: Option<Value>,
    pub(crate) list: ListKind,
    /// `x-kubernetes-map-type: atomic`: owned and replaced as a whole.
    pub(crate) atomic: bool,
    /// How a strategic merge patch merges this list.
    pub(crate) merge: Option<Merge>,
    pub(crate) retain_keys: bool,
    pub(crate) limits: Option<Box<Limits>>,
    pub(crate) logic: Option<Box<Logic>>,
    pub(crate) rules: Option<Arc<Rules>>,
    /// Rules stand here or below.
    pub(crate) ruled: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Type {
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
}

/// What an object may hold besides its properties.
#[derive(Debug, Clone, Default)]
pub(crate) enum Additional {
    #[default]
    Nothing,
    Anything,
    Each(Box<Node>),
}

/// `x-kubernetes-list-type`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum ListKind {
    #[default]
    Atomic,
    Set,
    Map(Vec<String>),
}

/// `x-kubernetes-patch-strategy: merge`, with the key for lists of objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Merge {
    pub(crate) key: Option<String>,
}

/// Bounds on one value.
#[derive(Debug, Clone, Default)]
pub(crate) struct Limits {
    pub(crate) values: Option<Vec<Value>>,
    pub(crate) pattern: Option<Pattern>,
    pub(crate) format: Option<Format>,
    pub(crate) minimum: Option<f64>,
    pub(crate) maximum: Option<f64>,
    pub(crate) exclusive_minimum: bool,
    pub(crate) exclusive_maximum: bool,
    pub(crate) multiple_of: Option<f64>,
    pub(crate) min_length: Option<u64>,
    pub(crate) max_length: Option<u64>,
    pub(crate) min_items: Option<u64>,
    pub(crate) max_items: Option<u64>,
    pub(crate) min_properties: Option<u64>,
    pub(crate) max_properties: Option<u64>,
}

/// Schemas joined by logic; they bound values and name no fields.
#[derive(Debug, Clone, Default)]
pub(crate) struct Logic {
    pub(crate) all_of: Vec<Node>,
    pub(crate) any_of: Vec<Node>,
    pub(crate) one_of: Vec<Node>,
    pub(crate) not: Option<Box<Node>>,
}

impl Node {
    /// The schema of one field: a property, or what every entry of a map is.
    pub(crate) fn field(&self, name: &str) -> Option<&Node> {
        match (self.properties.get(name), &self.additional) {
            (Some(node), _) => Some(node),
            (None, Additional::Each(node)) => Some(node),
            (None, Additional::Nothing | Additional::Anything) => None,
        }
    }

    /// Whether rules stand here or just below.
    pub(super) fn has_rules(&self) -> bool {
        let each = match &self.additional {
            Additional::Each(node) => Some(node),
            Additional::Nothing | Additional::Anything => None,
        };
        self.rules.is_some()
            || self.properties.values().any(|node| node.ruled)
            || self.items.iter().chain(each).any(|node| node.ruled)
    }

    /// What every object has, whatever its author wrote. Bounds on `metadata.name` stay.
    pub(super) fn add_object_fields(&mut self, mut metadata: Node) {
        let text = || Node {
            kind: Some(Type::String),
            ..Node::default()
        };
        if let Some(written) = self.properties.get("metadata") {
            for name in ["name", "generateName"] {
                if let (Some(from), Some(to)) = (
                    written.properties.get(name),
                    metadata.properties.get_mut(name),
                ) {
                    to.limits.clone_from(&from.limits);
                    to.rules.clone_from(&from.rules);
                    to.ruled = from.ruled;
                    metadata.ruled |= from.ruled;
                }
            }
        }
        self.properties.insert("metadata".into(), metadata);
        self.properties.insert("apiVersion".into(), text());
        self.properties.insert("kind".into(), text());
    }
}

/// The values that name an item of a `map` list: its keys, with their defaults where it leaves them out.
pub(crate) fn item_keys(node: &Node, keys: &[String], item: &Value) -> Option<Map<String, Value>> {
    let properties = node.items.as_ref().map(|items| &items.properties);
    let fields = item.as_object()?;
    let mut named = Map::new();
    for key in keys {
        let default = || properties?.get(key)?.default.as_ref();
        if let Some(value) = fields.get(key).or_else(default) {
            named.insert(key.clone(), value.clone());
        }
    }
    (!named.is_empty()).then_some(named)
}

/// The old value of a list's item, where the schema says how to find it.
pub(super) fn old_item<'a>(node: &Node, item: &Value, old: Option<&'a Value>) -> Option<&'a Value> {
    let ListKind::Map(keys) = &node.list else {
        return None;
    };
    let wanted = item_keys(node, keys, item)?;
    old?.as_array()?
        .iter()
        .find(|old| item_keys(node, keys, old).as_ref() == Some(&wanted))
}
