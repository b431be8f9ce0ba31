//! One rule of a role, and what it allows.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Ask;
use crate::json::items;

/// One rule of a role.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rule {
    #[serde(default)]
    pub verbs: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub api_groups: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resource_names: Vec<String>,
    #[serde(
        default,
        rename = "nonResourceURLs",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub non_resource_urls: Vec<String>,
}

/// The rules of a role object. A rule that cannot be read allows nothing.
pub(super) fn of(role: &Value) -> Vec<Rule> {
    items(role, "/rules")
        .iter()
        .filter_map(|rule| Rule::deserialize(rule).ok())
        .collect()
}

impl Rule {
    /// What only a full administrator has.
    pub(super) fn everything() -> Vec<Self> {
        let all = || vec!["*".to_owned()];
        let resources = Self {
            verbs: all(),
            api_groups: all(),
            resources: all(),
            ..Self::default()
        };
        let paths = Self {
            verbs: all(),
            non_resource_urls: all(),
            ..Self::default()
        };
        vec![resources, paths]
    }

    pub(super) fn allows(&self, ask: &Ask<'_>) -> bool {
        match *ask {
            Ask::Resource {
                verb,
                group,
                resource,
                subresource,
                name,
                ..
            } => {
                has(&self.verbs, verb)
                    && has(&self.api_groups, group)
                    && self.names_resource(resource, subresource)
                    && (self.resource_names.is_empty()
                        || self.resource_names.iter().any(|known| known == name))
            }
            Ask::Path { verb, path } => {
                has(&self.verbs, verb)
                    && self
                        .non_resource_urls
                        .iter()
                        .any(|url| covers_path(url, path))
            }
        }
    }

    fn names_resource(&self, resource: &str, subresource: &str) -> bool {
        self.resources.iter().any(|known| {
            if known == "*" {
                return true;
            }
            match (known.split_once('/'), subresource) {
                (None, "") => known == resource,
                (None, _) | (Some(_), "") => false,
                (Some((of, sub)), wanted) => (of == resource || of == "*") && sub == wanted,
            }
        })
    }

    /// As Kubernetes prints a rule in messages.
    pub(super) fn compact(&self) -> String {
        let parts = [
            ("APIGroups", &self.api_groups),
            ("Resources", &self.resources),
            ("ResourceNames", &self.resource_names),
            ("NonResourceURLs", &self.non_resource_urls),
            ("Verbs", &self.verbs),
        ];
        let parts: Vec<_> = parts
            .iter()
            .filter(|(_, values)| !values.is_empty())
            .map(|(name, values)| format!("{name}:{}", serde_json::json!(values)))
            .collect();
        format!("{{{}}}", parts.join(", "))
    }
}

/// Whether the list names it, or everything.
pub(super) fn has(list: &[String], wanted: &str) -> bool {
    list.iter().any(|known| known == wanted || known == "*")
}

/// A path as written in a rule may end in a star.
pub(super) fn covers_path(written: &str, path: &str) -> bool {
    match written.strip_suffix('*') {
        Some(prefix) => path.starts_with(prefix),
        None => written == path,
    }
}
