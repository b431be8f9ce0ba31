//! The kinds the server knows: built in as data, or from CustomResourceDefinitions.
//!
//! ```text
//! definitions ── schemas of built-in kinds, with how their lists merge
//! builtin     ── the table of built-in kinds          custom ── kinds from a CRD
//!         └──────────────▶ Registry ◀──────────────────┘
//!                             ├─▶ discovery: /api, /apis, aggregated
//!                             └─▶ openapi: v3 per group and version, v2 as one
//! events, scale, rules ── what single kinds need beyond their schema
//! ```

mod builtin;
mod custom;
pub(crate) mod definitions;
pub mod discovery;
mod events;
pub mod openapi;
mod registry;
pub(crate) mod rules;
mod scale;

use std::fmt;
use std::sync::Arc;

use serde_json::{Value, json};

pub use registry::Registry;
pub use scale::Scale;

use crate::schema::Schema;
use crate::status::Cause;
use crate::table::Column;

/// One kind in one version.
#[derive(Debug, Clone)]
pub struct Kind {
    pub group: String,
    pub version: String,
    pub kind: String,
    pub list_kind: String,
    pub plural: String,
    pub singular: String,
    pub short_names: Vec<String>,
    pub categories: Vec<String>,
    pub namespaced: bool,
    pub verbs: &'static [&'static str],
    pub subresources: Vec<Subresource>,
    pub schema: Arc<Schema>,
    pub columns: Vec<Column>,
    /// From a CustomResourceDefinition. Such kinds take no strategic merge patch (415).
    pub custom: bool,
    /// The version objects are kept in; differs from `version` only for custom kinds with several.
    pub storage_version: String,
    /// A warning for the client, of a deprecated version.
    pub deprecation: Option<String>,
    /// What field selectors may name besides metadata.name and metadata.namespace, such as `status.phase`.
    pub selectable: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subresource {
    Status,
    Scale(Scale),
    /// CertificateSigningRequests: `approval`.
    Approval,
    /// Namespaces: `finalize`.
    Finalize,
    /// ServiceAccounts: `token`.
    Token,
}

impl Subresource {
    pub fn name(&self) -> &'static str {
        match self {
            Self::Status => "status",
            Self::Scale(_) => "scale",
            Self::Approval => "approval",
            Self::Finalize => "finalize",
            Self::Token => "token",
        }
    }

    pub fn verbs(&self) -> &'static [&'static str] {
        match self {
            Self::Status | Self::Scale(_) | Self::Approval => &["get", "patch", "update"],
            Self::Finalize => &["update"],
            Self::Token => &["create"],
        }
    }
}

/// A resource as messages name it: `baremetalhosts.metal3.io`, `secrets`.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Resource {
    pub group: String,
    pub resource: String,
}

impl Resource {
    pub fn new(group: &str, resource: &str) -> Self {
        Self {
            group: group.into(),
            resource: resource.into(),
        }
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.group.as_str() {
            "" => f.write_str(&self.resource),
            group => write!(f, "{}.{group}", self.resource),
        }
    }
}

impl Kind {
    /// The served kinds of a CustomResourceDefinition, or all that is wrong with it.
    pub fn from_crd(crd: &Value) -> Result<Vec<Self>, Vec<Cause>> {
        custom::kinds(crd)
    }

    /// `v1`, `metal3.io/v1alpha1`.
    pub fn api_version(&self) -> String {
        api_version(&self.group, &self.version)
    }

    pub fn resource(&self) -> Resource {
        Resource::new(&self.group, &self.plural)
    }

    pub fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources
            .iter()
            .find(|subresource| subresource.name() == name)
    }

    /// Whether spec and status are written apart.
    pub fn has_status(&self) -> bool {
        self.subresource("status").is_some()
    }

    /// Group and plural under which the store keeps objects: core Events and those of events.k8s.io are the same.
    pub fn storage(&self) -> Resource {
        match (self.group.as_str(), self.plural.as_str()) {
            (events::GROUP, "events") => Resource::new("", "events"),
            (group, plural) => Resource::new(group, plural),
        }
    }

    /// The object in the version and form it is kept in.
    pub fn to_storage(&self, object: Value) -> Value {
        if self.group == events::GROUP {
            return events::to_core(object);
        }
        self.in_version(object, &self.storage_version)
    }

    /// A kept object in the version and form of this kind.
    pub fn from_storage(&self, object: Value) -> Value {
        if self.group == events::GROUP {
            return events::from_core(object);
        }
        self.in_version(object, &self.version)
    }

    fn in_version(&self, mut object: Value, version: &str) -> Value {
        if object.is_object() {
            object["apiVersion"] = json!(api_version(&self.group, version));
            object["kind"] = json!(self.kind);
        }
        object
    }
}

fn api_version(group: &str, version: &str) -> String {
    match group {
        "" => version.to_owned(),
        group => format!("{group}/{version}"),
    }
}

#[cfg(test)]
pub(crate) use registry::tests::{widget as tests_widget, widget_crd as tests_widget_crd};
