//! The built-in kinds, as a table.

use std::sync::Arc;

use k8s_openapi::api::authentication::v1::{SelfSubjectReview, TokenReview};
use k8s_openapi::api::authorization::v1::{
    LocalSubjectAccessReview, SelfSubjectAccessReview, SelfSubjectRulesReview, SubjectAccessReview,
};
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Event, Namespace, Node, Pod, Secret, ServiceAccount};
use k8s_openapi::api::events;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::Value;

use super::definitions::inlined;
use super::{Kind, Subresource};
use crate::schema::Schema;
use crate::table;

/// Every built-in kind.
pub(super) fn kinds() -> Vec<Kind> {
    TABLE.iter().map(kind).collect()
}

pub(super) const ALL_VERBS: &[&str] = &[
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
];

/// A kind, as a line of the table.
struct Line {
    group: &'static str,
    kind: &'static str,
    plural: &'static str,
    short: &'static [&'static str],
    namespaced: bool,
    /// Created, answered, never kept.
    review: bool,
    subresources: &'static [Subresource],
    selectable: &'static [&'static str],
    schema: fn() -> Value,
}

fn kind(line: &Line) -> Kind {
    let categories: &[&str] = match line.kind {
        "CustomResourceDefinition" => &["api-extensions"],
        "Pod" => &["all"],
        _ => &[],
    };
    let mut schema = Schema::builtin((line.schema)());
    schema.status_apart = line.subresources.contains(&Subresource::Status);
    let strings = |texts: &[&str]| texts.iter().map(|text| (*text).into()).collect();
    Kind {
        group: line.group.into(),
        version: "v1".into(),
        kind: line.kind.into(),
        list_kind: format!("{}List", line.kind),
        plural: line.plural.into(),
        singular: line.kind.to_lowercase(),
        short_names: strings(line.short),
        categories: strings(categories),
        namespaced: line.namespaced,
        verbs: if line.review { &["create"] } else { ALL_VERBS },
        subresources: line.subresources.to_vec(),
        schema: Arc::new(schema),
        columns: table::builtin(line.group, line.plural),
        custom: false,
        storage_version: "v1".into(),
        deprecation: None,
        selectable: strings(line.selectable),
    }
}

const DEFAULT: Line = Line {
    group: "",
    kind: "",
    plural: "",
    short: &[],
    namespaced: false,
    review: false,
    subresources: &[],
    selectable: &[],
    schema: inlined::<ConfigMap>,
};

const RBAC: &str = "rbac.authorization.k8s.io";
const AUTHENTICATION: &str = "authentication.k8s.io";
const AUTHORIZATION: &str = "authorization.k8s.io";

const TABLE: &[Line] = &[
    Line {
        kind: "ConfigMap",
        plural: "configmaps",
        short: &["cm"],
        namespaced: true,
        schema: inlined::<ConfigMap>,
        ..DEFAULT
    },
    Line {
        kind: "Event",
        plural: "events",
        short: &["ev"],
        namespaced: true,
        selectable: &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
        ],
        schema: inlined::<Event>,
        ..DEFAULT
    },
    Line {
        kind: "Namespace",
        plural: "namespaces",
        short: &["ns"],
        subresources: &[Subresource::Status, Subresource::Finalize],
        selectable: &["status.phase"],
        schema: inlined::<Namespace>,
        ..DEFAULT
    },
    Line {
        kind: "Node",
        plural: "nodes",
        short: &["no"],
        subresources: &[Subresource::Status],
        selectable: &["spec.unschedulable"],
        schema: inlined::<Node>,
        ..DEFAULT
    },
    Line {
        kind: "Pod",
        plural: "pods",
        short: &["po"],
        namespaced: true,
        subresources: &[Subresource::Status],
        selectable: &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        ],
        schema: inlined::<Pod>,
        ..DEFAULT
    },
    Line {
        kind: "Secret",
        plural: "secrets",
        namespaced: true,
        selectable: &["type"],
        schema: inlined::<Secret>,
        ..DEFAULT
    },
    Line {
        kind: "ServiceAccount",
        plural: "serviceaccounts",
        short: &["sa"],
        namespaced: true,
        subresources: &[Subresource::Token],
        schema: inlined::<ServiceAccount>,
        ..DEFAULT
    },
    Line {
        group: super::events::GROUP,
        kind: "Event",
        plural: "events",
        short: &["ev"],
        namespaced: true,
        selectable: &[
            "regarding.kind",
            "regarding.namespace",
            "regarding.name",
            "regarding.uid",
            "regarding.apiVersion",
            "regarding.resourceVersion",
            "regarding.fieldPath",
            "reason",
            "reportingController",
            "type",
        ],
        schema: inlined::<events::v1::Event>,
        ..DEFAULT
    },
    Line {
        group: "coordination.k8s.io",
        kind: "Lease",
        plural: "leases",
        namespaced: true,
        schema: inlined::<Lease>,
        ..DEFAULT
    },
    Line {
        group: "certificates.k8s.io",
        kind: "CertificateSigningRequest",
        plural: "certificatesigningrequests",
        short: &["csr"],
        subresources: &[Subresource::Status, Subresource::Approval],
        selectable: &["spec.signerName"],
        schema: inlined::<CertificateSigningRequest>,
        ..DEFAULT
    },
    Line {
        group: RBAC,
        kind: "Role",
        plural: "roles",
        namespaced: true,
        schema: inlined::<Role>,
        ..DEFAULT
    },
    Line {
        group: RBAC,
        kind: "RoleBinding",
        plural: "rolebindings",
        namespaced: true,
        schema: inlined::<RoleBinding>,
        ..DEFAULT
    },
    Line {
        group: RBAC,
        kind: "ClusterRole",
        plural: "clusterroles",
        schema: inlined::<ClusterRole>,
        ..DEFAULT
    },
    Line {
        group: RBAC,
        kind: "ClusterRoleBinding",
        plural: "clusterrolebindings",
        schema: inlined::<ClusterRoleBinding>,
        ..DEFAULT
    },
    Line {
        group: "apiextensions.k8s.io",
        kind: "CustomResourceDefinition",
        plural: "customresourcedefinitions",
        short: &["crd", "crds"],
        subresources: &[Subresource::Status],
        schema: inlined::<CustomResourceDefinition>,
        ..DEFAULT
    },
    Line {
        group: AUTHENTICATION,
        kind: "TokenReview",
        plural: "tokenreviews",
        review: true,
        schema: inlined::<TokenReview>,
        ..DEFAULT
    },
    Line {
        group: AUTHENTICATION,
        kind: "SelfSubjectReview",
        plural: "selfsubjectreviews",
        review: true,
        schema: inlined::<SelfSubjectReview>,
        ..DEFAULT
    },
    Line {
        group: AUTHORIZATION,
        kind: "SubjectAccessReview",
        plural: "subjectaccessreviews",
        review: true,
        schema: inlined::<SubjectAccessReview>,
        ..DEFAULT
    },
    Line {
        group: AUTHORIZATION,
        kind: "SelfSubjectAccessReview",
        plural: "selfsubjectaccessreviews",
        review: true,
        schema: inlined::<SelfSubjectAccessReview>,
        ..DEFAULT
    },
    Line {
        group: AUTHORIZATION,
        kind: "SelfSubjectRulesReview",
        plural: "selfsubjectrulesreviews",
        review: true,
        schema: inlined::<SelfSubjectRulesReview>,
        ..DEFAULT
    },
    Line {
        group: AUTHORIZATION,
        kind: "LocalSubjectAccessReview",
        plural: "localsubjectaccessreviews",
        namespaced: true,
        review: true,
        schema: inlined::<LocalSubjectAccessReview>,
        ..DEFAULT
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_whole() {
        for kind in kinds() {
            assert!(!kind.kind.is_empty() && !kind.plural.is_empty());
            assert!(
                kind.plural.starts_with(&kind.singular[..3]),
                "{}",
                kind.plural
            );
            assert!(
                kind.schema.root.properties.contains_key("metadata"),
                "{} has metadata",
                kind.kind
            );
            let plain = !kind.verbs.contains(&"list");
            assert!(
                plain || kind.columns.len() >= 2,
                "{} has columns",
                kind.kind
            );
        }
    }
}
