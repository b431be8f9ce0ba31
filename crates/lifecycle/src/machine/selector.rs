//! Label selectors: of Kubernetes, and of a Machine's provider spec, which spells operators more freely.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::host::Labels;

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LabelSelector {
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub match_labels: Labels,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub match_expressions: Vec<Requirement>,
}

/// `hostSelector` of a provider spec.
pub type HostSelector = LabelSelector;

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Requirement {
    pub key: String,
    /// In, NotIn, Exists, DoesNotExist; `=`, `!=` and `!` as well, in letters of any size.
    pub operator: String,
    pub values: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("matchExpressions[{index}]: {problem}")]
pub struct SelectorError {
    pub index: usize,
    pub problem: String,
}

impl LabelSelector {
    pub fn is_empty(&self) -> bool {
        self.match_labels.is_empty() && self.match_expressions.is_empty()
    }

    /// An empty selector matches everything.
    pub fn matches(&self, labels: &Labels) -> Result<bool, SelectorError> {
        let equal = self
            .match_labels
            .iter()
            .all(|(key, value)| labels.get(key) == Some(value));
        let mut all = equal;
        // Every expression is read, so that a wrong one is told whatever the labels are.
        for (index, requirement) in self.match_expressions.iter().enumerate() {
            let fits = requirement
                .fits(labels)
                .map_err(|problem| SelectorError { index, problem })?;
            all &= fits;
        }
        Ok(all)
    }
}

impl Requirement {
    fn fits(&self, labels: &Labels) -> Result<bool, String> {
        let value = labels.get(&self.key);
        let listed = value.is_some_and(|value| self.values.contains(value));
        let one = || {
            if self.values.len() == 1 {
                Ok(())
            } else {
                Err(format!(
                    "operator {:?} takes exactly one value",
                    self.operator
                ))
            }
        };
        let some = || {
            if self.values.is_empty() {
                Err(format!(
                    "operator {:?} takes at least one value",
                    self.operator
                ))
            } else {
                Ok(())
            }
        };
        match self.operator.to_ascii_lowercase().as_str() {
            "in" => some().map(|()| listed),
            "notin" => some().map(|()| !listed),
            "=" | "==" => one().map(|()| listed),
            "!=" => one().map(|()| !listed),
            "exists" => Ok(value.is_some()),
            "!" | "doesnotexist" => Ok(value.is_none()),
            "gt" => one()
                .and_then(|()| self.compare(value))
                .map(std::cmp::Ordering::is_gt),
            "lt" => one()
                .and_then(|()| self.compare(value))
                .map(std::cmp::Ordering::is_lt),
            _ => Err(format!(
                "operator {:?} is not known; there are In, NotIn, Exists, DoesNotExist, Gt, Lt, =, !=",
                self.operator
            )),
        }
    }

    /// A label that is missing or no number is neither more nor less.
    fn compare(&self, value: Option<&String>) -> Result<std::cmp::Ordering, String> {
        let wanted = self
            .values
            .first()
            .and_then(|text| text.parse::<i64>().ok());
        let wanted = wanted.ok_or_else(|| format!("{:?} is not a number", self.values))?;
        let now = value.and_then(|text| text.parse::<i64>().ok());
        Ok(now.map_or(std::cmp::Ordering::Equal, |now| now.cmp(&wanted)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operator_means_what_kubernetes_means() {
        let labels: Labels = [
            ("size".to_owned(), "8".to_owned()),
            ("zone".to_owned(), "a".to_owned()),
        ]
        .into();
        let rows: &[(&str, &str, &[&str], Option<bool>)] = &[
            ("zone", "In", &["a", "b"], Some(true)),
            ("zone", "in", &["b"], Some(false)),
            ("none", "In", &["a"], Some(false)),
            ("zone", "NotIn", &["a"], Some(false)),
            ("none", "NotIn", &["a"], Some(true)),
            ("zone", "Exists", &[], Some(true)),
            ("none", "exists", &[], Some(false)),
            ("none", "DoesNotExist", &[], Some(true)),
            ("zone", "!", &[], Some(false)),
            ("zone", "=", &["a"], Some(true)),
            ("zone", "!=", &["a"], Some(false)),
            ("size", "Gt", &["4"], Some(true)),
            ("size", "Lt", &["4"], Some(false)),
            ("none", "Gt", &["4"], Some(false)),
            ("zone", "In", &[], None),
            ("zone", "=", &["a", "b"], None),
            ("size", "Gt", &["many"], None),
            ("zone", "near", &["a"], None),
        ];
        for (key, operator, values, wanted) in rows {
            let selector = LabelSelector {
                match_expressions: vec![Requirement {
                    key: (*key).into(),
                    operator: (*operator).into(),
                    values: values.iter().map(|value| (*value).to_owned()).collect(),
                }],
                ..LabelSelector::default()
            };
            assert_eq!(
                selector.matches(&labels).ok(),
                *wanted,
                "{key} {operator} {values:?}"
            );
        }
        assert!(LabelSelector::default().matches(&labels).unwrap());
    }
}
