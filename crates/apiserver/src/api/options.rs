//! The parameters of a request: what a list shows, how a write is done, how a delete treats dependents.

use objects::selector::{Fields, Labels};
use objects::write::Propagation;
use objects::{Kind, Status};
use serde::Deserialize;
use serde_json::Value;

use super::page::Token;
use super::request;

/// Parameters of list, watch and deletecollection.
#[derive(Debug, Clone, Default)]
pub struct List {
    pub labels: Labels,
    pub fields: Fields,
    pub limit: Option<usize>,
    pub token: Option<Token>,
    pub version: Version,
    pub timeout_seconds: Option<u64>,
    pub bookmarks: bool,
    /// A watch that begins with what exists, then says so with a bookmark.
    pub initial_events: Option<bool>,
}

/// What `resourceVersion` and `resourceVersionMatch` ask for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Version {
    /// The newest there is.
    #[default]
    Latest,
    /// Whatever this server has at hand (`0`).
    Any,
    /// At least this revision.
    NotOlderThan(u64),
    /// This revision and no other.
    Exact(u64),
}

impl List {
    pub fn parse(query: &str, kind: &Kind) -> Result<Self, Status> {
        let text = |key: &str| request::value(query, key).filter(|text| !text.is_empty());
        let labels = match text("labelSelector") {
            Some(selector) => Labels::parse(&selector)?,
            None => Labels::default(),
        };
        let fields = match text("fieldSelector") {
            Some(selector) => Fields::parse(&selector, kind)?,
            None => Fields::default(),
        };
        let token = match text("continue") {
            Some(token) => Some(
                Token::parse(&token)
                    .ok_or_else(|| Status::bad_request("continue key is not valid"))?,
            ),
            None => None,
        };
        let initial_events =
            text("sendInitialEvents").map(|_| request::flag(query, "sendInitialEvents"));
        let watching = request::flag(query, "watch");
        let how = text("resourceVersionMatch");
        if watching && how.is_some() && initial_events.is_none() {
            return Err(Status::bad_request(
                "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
            ));
        }
        if watching && initial_events.is_some() && how.as_deref() != Some("NotOlderThan") {
            return Err(Status::bad_request(
                "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
            ));
        }
        let version = Version::parse(text("resourceVersion"), how.as_deref(), token.is_some())?;
        Ok(Self {
            labels,
            fields,
            limit: number(text("limit"), "limit")?
                .filter(|limit| *limit > 0)
                .map(|limit| limit as usize),
            token,
            version,
            timeout_seconds: number(text("timeoutSeconds"), "timeoutSeconds")?,
            bookmarks: request::flag(query, "allowWatchBookmarks"),
            initial_events,
        })
    }
}

impl List {
    /// No selector leaves anything out.
    pub fn selects_all(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }
}

impl Version {
    fn parse(version: Option<String>, how: Option<&str>, continued: bool) -> Result<Self, Status> {
        let number = match version {
            Some(text) => Some(text.parse::<u64>().map_err(|_| {
                Status::bad_request(format!(
                    "Invalid value: {text:?}: resourceVersion is not a number"
                ))
            })?),
            None => None,
        };
        if continued {
            // The token carries the revision; a second one can only contradict it.
            return match (number, how) {
                (None | Some(0), None) => Ok(Self::Latest),
                _ => Err(Status::bad_request(
                    "specifying resource version is not allowed when using continue",
                )),
            };
        }
        match (number, how) {
            (None, None | Some("NotOlderThan")) => Ok(Self::Latest),
            (None, Some(_)) => Err(Status::bad_request(
                "resourceVersionMatch is forbidden unless resourceVersion is provided",
            )),
            (Some(0), None | Some("NotOlderThan")) => Ok(Self::Any),
            (Some(0), Some("Exact")) => Err(Status::bad_request(
                "resourceVersionMatch \"Exact\" is forbidden for resourceVersion \"0\"",
            )),
            (Some(revision), Some("Exact")) => Ok(Self::Exact(revision)),
            (Some(revision), None | Some("NotOlderThan")) => Ok(Self::NotOlderThan(revision)),
            (Some(_), Some(other)) => Err(Status::bad_request(format!(
                "resourceVersionMatch: Unsupported value: {other:?}: supported values: \"Exact\", \"NotOlderThan\""
            ))),
        }
    }
}

/// Parameters of create, update, patch and apply.
#[derive(Debug, Clone, Default)]
pub struct Write {
    pub dry_run: bool,
    pub manager: Option<String>,
    pub validation: FieldValidation,
    pub force: bool,
}

/// What to do about fields nobody knows and keys given twice.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum FieldValidation {
    Ignore,
    #[default]
    Warn,
    Strict,
}

impl Write {
    pub fn parse(query: &str) -> Result<Self, Status> {
        let manager = request::value(query, "fieldManager").filter(|name| !name.is_empty());
        if let Some(name) = &manager {
            objects::apply::check_manager(name)?;
        }
        let validation = match request::value(query, "fieldValidation").as_deref() {
            None | Some("" | "Warn") => FieldValidation::Warn,
            Some("Ignore") => FieldValidation::Ignore,
            Some("Strict") => FieldValidation::Strict,
            Some(other) => {
                return Err(Status::bad_request(format!(
                    "fieldValidation: Unsupported value: {other:?}: supported values: \"Ignore\", \"Strict\", \"Warn\""
                )));
            }
        };
        Ok(Self {
            dry_run: dry_run(query)?,
            manager,
            validation,
            force: request::flag(query, "force"),
        })
    }
}

/// Parameters of delete, from the body or the address. There is no grace period: nothing here has to be shut down.
#[derive(Debug, Clone, Default)]
pub struct Delete {
    pub dry_run: bool,
    pub propagation: Option<Propagation>,
    pub uid: Option<String>,
    pub version: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WrittenDelete {
    preconditions: Option<Preconditions>,
    orphan_dependents: Option<bool>,
    propagation_policy: Option<String>,
    dry_run: Option<Vec<String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Preconditions {
    uid: Option<String>,
    resource_version: Option<String>,
}

impl Delete {
    /// The body wins; without one the address may carry the same parameters.
    pub fn parse(query: &str, body: Option<&Value>) -> Result<Self, Status> {
        let written: WrittenDelete = match body {
            Some(body) => serde::Deserialize::deserialize(body)
                .map_err(|error| Status::bad_request(format!("DeleteOptions: {error}")))?,
            None => WrittenDelete {
                propagation_policy: request::value(query, "propagationPolicy"),
                orphan_dependents: request::value(query, "orphanDependents")
                    .map(|_| request::flag(query, "orphanDependents")),
                ..WrittenDelete::default()
            },
        };
        let dry_run = match &written.dry_run {
            Some(stages) if stages.iter().any(|stage| stage != "All") => {
                return Err(unknown_stage(&stages.join(",")));
            }
            Some(stages) if !stages.is_empty() => true,
            _ => dry_run(query)?,
        };
        let propagation = match (
            written
                .propagation_policy
                .as_deref()
                .filter(|policy| !policy.is_empty()),
            written.orphan_dependents,
        ) {
            (Some(_), Some(_)) => {
                return Err(Status::bad_request(
                    "orphanDependents and deletionPropagation cannot be both set",
                ));
            }
            (Some("Orphan"), None) | (None, Some(true)) => Some(Propagation::Orphan),
            (Some("Background"), None) | (None, Some(false)) => Some(Propagation::Background),
            (Some("Foreground"), None) => Some(Propagation::Foreground),
            (Some(other), None) => {
                return Err(Status::bad_request(format!(
                    "propagationPolicy: Unsupported value: {other:?}: supported values: \"Foreground\", \"Background\", \"Orphan\", \"nil\""
                )));
            }
            (None, None) => None,
        };
        let Preconditions {
            uid,
            resource_version,
        } = written.preconditions.unwrap_or_default();
        Ok(Self {
            dry_run,
            propagation,
            uid,
            version: resource_version,
        })
    }
}

fn dry_run(query: &str) -> Result<bool, Status> {
    match request::value(query, "dryRun").as_deref() {
        None | Some("") => Ok(false),
        Some("All") => Ok(true),
        Some(other) => Err(unknown_stage(other)),
    }
}

fn unknown_stage(stage: &str) -> Status {
    Status::bad_request(format!(
        "dryRun: Unsupported value: {stage:?}: supported values: \"All\""
    ))
}

fn number(text: Option<String>, key: &str) -> Result<Option<u64>, Status> {
    text.map(|text| {
        text.parse()
            .map_err(|_| Status::bad_request(format!("{key}: {text:?} is not a whole number")))
    })
    .transpose()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn kind() -> std::sync::Arc<Kind> {
        objects::Registry::builtin()
            .find("", "v1", "nodes")
            .expect("nodes are built in")
    }

    #[test]
    fn versions_are_read_as_kubernetes_reads_them() {
        let table = [
            ("", Ok(Version::Latest)),
            ("resourceVersion=0", Ok(Version::Any)),
            ("resourceVersion=7", Ok(Version::NotOlderThan(7))),
            (
                "resourceVersion=7&resourceVersionMatch=Exact",
                Ok(Version::Exact(7)),
            ),
            (
                "resourceVersion=7&resourceVersionMatch=NotOlderThan",
                Ok(Version::NotOlderThan(7)),
            ),
            ("resourceVersion=0&resourceVersionMatch=Exact", Err(())),
            ("resourceVersionMatch=Exact", Err(())),
            ("resourceVersion=x", Err(())),
            (
                "watch=1&resourceVersion=7&resourceVersionMatch=NotOlderThan",
                Err(()),
            ),
            ("watch=1&sendInitialEvents=true", Err(())),
            (
                "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
                Ok(Version::Latest),
            ),
        ];
        for (query, expected) in table {
            assert_eq!(
                List::parse(query, &kind())
                    .map(|list| list.version)
                    .map_err(|_| ()),
                expected,
                "{query}"
            );
        }
    }

    #[test]
    fn a_page_cannot_name_a_second_revision() {
        let token = Token::new(5, "a/b").render();
        assert!(List::parse(&format!("limit=2&continue={token}"), &kind()).is_ok());
        assert!(
            List::parse(
                &format!("limit=2&continue={token}&resourceVersion=9"),
                &kind()
            )
            .is_err()
        );
        assert!(List::parse("continue=nonsense", &kind()).is_err());
    }

    #[test]
    fn delete_options_come_from_the_body_or_the_address() {
        let from_body = Delete::parse(
            "",
            Some(&json!({"propagationPolicy": "Foreground", "preconditions": {"uid": "u"}})),
        )
        .expect("options");
        assert_eq!(
            (from_body.propagation, from_body.uid.as_deref()),
            (Some(Propagation::Foreground), Some("u"))
        );
        let from_query = Delete::parse(
            "propagationPolicy=Orphan&gracePeriodSeconds=0&dryRun=All",
            None,
        )
        .expect("options");
        assert_eq!(
            (from_query.propagation, from_query.dry_run),
            (Some(Propagation::Orphan), true)
        );
        assert!(
            Delete::parse(
                "",
                Some(&json!({"propagationPolicy": "Orphan", "orphanDependents": true}))
            )
            .is_err()
        );
        assert!(Delete::parse("dryRun=Some", None).is_err());
    }
}
