//! The roles and bindings there are from the start, as Kubernetes has them, for the kinds there are here.

use serde_json::{Value, json};

const LABEL: &str = "rbac.authorization.k8s.io";

/// ClusterRoles first, then their bindings, then the Roles of namespaces.
pub fn all() -> Vec<Value> {
    let mut all = cluster_roles();
    all.extend(cluster_role_bindings());
    all.extend(namespaced());
    all
}

fn cluster_roles() -> Vec<Value> {
    let read = ["get", "list", "watch"];
    let write = ["create", "delete", "deletecollection", "patch", "update"];
    let machines = ["metal3.io", "machine.openshift.io"];
    let basics = ["configmaps", "serviceaccounts", "events"];
    vec![
        role(
            "cluster-admin",
            json!([rule(&["*"], &["*"], &["*"]), {"nonResourceURLs": ["*"], "verbs": ["*"]}]),
        ),
        aggregated("admin", "admin"),
        aggregated("edit", "edit"),
        aggregated("view", "view"),
        part(
            "system:aggregate-to-admin",
            "admin",
            json!([
                rule(
                    &["rbac.authorization.k8s.io"],
                    &["roles", "rolebindings"],
                    &join(&read, &write)
                ),
                rule(
                    &["authorization.k8s.io"],
                    &["localsubjectaccessreviews"],
                    &["create"]
                ),
            ]),
        ),
        part(
            "system:aggregate-to-edit",
            "edit",
            json!([
                rule(&[""], &["secrets"], &read),
                rule(&[""], &["serviceaccounts"], &["impersonate"]),
                rule(
                    &[""],
                    &["configmaps", "secrets", "serviceaccounts", "events"],
                    &write
                ),
                rule(&[""], &["serviceaccounts/token"], &["create"]),
                rule(&["coordination.k8s.io"], &["leases"], &join(&read, &write)),
                rule(&machines, &["*"], &write),
            ]),
        ),
        part(
            "system:aggregate-to-view",
            "view",
            json!([
                rule(
                    &[""],
                    &[basics[0], basics[1], basics[2], "namespaces"],
                    &read
                ),
                rule(&["events.k8s.io"], &["events"], &read),
                rule(&machines, &["*"], &read),
            ]),
        ),
        role(
            "system:discovery",
            json!([path(&[
                "/api",
                "/api/*",
                "/apis",
                "/apis/*",
                "/healthz",
                "/livez",
                "/openapi",
                "/openapi/*",
                "/readyz",
                "/version",
                "/version/"
            ])]),
        ),
        role(
            "system:public-info-viewer",
            json!([path(&[
                "/healthz",
                "/livez",
                "/readyz",
                "/version",
                "/version/"
            ])]),
        ),
        role(
            "system:monitoring",
            json!([path(&[
                "/healthz",
                "/healthz/*",
                "/livez",
                "/livez/*",
                "/metrics",
                "/readyz",
                "/readyz/*"
            ])]),
        ),
        role(
            "system:basic-user",
            json!([
                rule(
                    &["authorization.k8s.io"],
                    &["selfsubjectaccessreviews", "selfsubjectrulesreviews"],
                    &["create"]
                ),
                rule(
                    &["authentication.k8s.io"],
                    &["selfsubjectreviews"],
                    &["create"]
                ),
            ]),
        ),
        role(
            "system:auth-delegator",
            json!([
                rule(&["authentication.k8s.io"], &["tokenreviews"], &["create"]),
                rule(
                    &["authorization.k8s.io"],
                    &["subjectaccessreviews"],
                    &["create"]
                ),
            ]),
        ),
        // DEVIATION: Kubernetes limits a node to its own objects with an authorizer of its own; here a node may read what
        // a kubelet reads, and write Nodes, Leases and Events.
        role(
            "system:node",
            json!([
                rule(&["authentication.k8s.io"], &["tokenreviews"], &["create"]),
                rule(
                    &["authorization.k8s.io"],
                    &["subjectaccessreviews", "localsubjectaccessreviews"],
                    &["create"]
                ),
                rule(
                    &[""],
                    &["nodes"],
                    &["create", "get", "list", "watch", "patch", "update"]
                ),
                rule(&[""], &["nodes/status"], &["patch", "update"]),
                rule(&[""], &["pods", "configmaps", "services"], &read),
                rule(&[""], &["events"], &["create", "patch", "update"]),
                rule(
                    &["events.k8s.io"],
                    &["events"],
                    &["create", "patch", "update"]
                ),
                rule(
                    &["coordination.k8s.io"],
                    &["leases"],
                    &["create", "delete", "get", "patch", "update"]
                ),
                rule(
                    &["certificates.k8s.io"],
                    &["certificatesigningrequests"],
                    &["create", "get", "list", "watch"]
                ),
            ]),
        ),
        role(
            "system:node-bootstrapper",
            json!([rule(
                &["certificates.k8s.io"],
                &["certificatesigningrequests"],
                &["create", "get", "list", "watch"]
            ),]),
        ),
        role(
            "system:certificates.k8s.io:certificatesigningrequests:nodeclient",
            json!([rule(
                &["certificates.k8s.io"],
                &["certificatesigningrequests/nodeclient"],
                &["create"]
            ),]),
        ),
        role(
            "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient",
            json!([rule(
                &["certificates.k8s.io"],
                &["certificatesigningrequests/selfnodeclient"],
                &["create"]
            ),]),
        ),
    ]
}

fn cluster_role_bindings() -> Vec<Value> {
    let group = |name: &str| json!({"apiGroup": LABEL, "kind": "Group", "name": name});
    let table = [
        ("cluster-admin", "cluster-admin", "system:masters"),
        (
            "system:discovery",
            "system:discovery",
            "system:authenticated",
        ),
        (
            "system:public-info-viewer",
            "system:public-info-viewer",
            "system:authenticated",
        ),
        (
            "system:basic-user",
            "system:basic-user",
            "system:authenticated",
        ),
        (
            "system:monitoring",
            "system:monitoring",
            "system:monitoring",
        ),
        ("system:node", "system:node", "system:nodes"),
        (
            "system:node-bootstrapper",
            "system:node-bootstrapper",
            "system:bootstrappers",
        ),
        // A node renews its own certificate without anybody's help.
        (
            "system:node-certificate-renewal",
            "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient",
            "system:nodes",
        ),
    ];
    table
        .iter()
        .map(|(name, role, subject)| {
            json!({
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "ClusterRoleBinding",
                "metadata": metadata(name),
                "roleRef": {"apiGroup": LABEL, "kind": "ClusterRole", "name": role},
                "subjects": [group(subject)],
            })
        })
        .collect()
}

/// What everybody may see: the cluster's certificate authority and addresses.
fn namespaced() -> Vec<Value> {
    let mut metadata = metadata("system:public-cluster-info");
    metadata["namespace"] = json!("kube-public");
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": metadata,
        "rules": [{"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["cluster-info"], "verbs": ["get"]}],
    });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": metadata,
        "roleRef": {"apiGroup": LABEL, "kind": "Role", "name": "system:public-cluster-info"},
        "subjects": [{"apiGroup": LABEL, "kind": "Group", "name": "system:authenticated"}],
    });
    vec![role, binding]
}

fn metadata(name: &str) -> Value {
    json!({
        "name": name,
        "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
        "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"},
    })
}

fn role(name: &str, rules: Value) -> Value {
    let mut role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": metadata(name),
    });
    role["rules"] = rules;
    role
}

/// A role whose rules are gathered from others by their label; `edit` sees what `view` sees, and `admin` both.
fn aggregated(name: &str, label: &str) -> Value {
    let mut role = role(name, json!([]));
    let key = format!("{LABEL}/aggregate-to-{label}");
    role["aggregationRule"] = json!({"clusterRoleSelectors": [{"matchLabels": {key: "true"}}]});
    let above = match name {
        "edit" => Some("admin"),
        "view" => Some("edit"),
        _ => None,
    };
    if let Some(above) = above {
        role["metadata"]["labels"][format!("{LABEL}/aggregate-to-{above}")] = json!("true");
    }
    role
}

fn part(name: &str, of: &str, rules: Value) -> Value {
    let mut role = role(name, rules);
    role["metadata"]["labels"][format!("{LABEL}/aggregate-to-{of}")] = json!("true");
    role
}

fn rule(groups: &[&str], resources: &[&str], verbs: &[&str]) -> Value {
    json!({"apiGroups": groups, "resources": resources, "verbs": verbs})
}

fn path(paths: &[&str]) -> Value {
    json!({"nonResourceURLs": paths, "verbs": ["get"]})
}

fn join<'a>(left: &[&'a str], right: &[&'a str]) -> Vec<&'a str> {
    [left, right].concat()
}
