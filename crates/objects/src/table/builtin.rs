//! Columns of the built-in kinds, as `kubectl get` knows them.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Cell, Column, age, age_column, name_column};
use crate::json::{fields, items, text};

/// What fills a cell.
type Make = fn(&Value, Timestamp) -> Value;

/// The columns of a built-in kind.
pub(crate) fn columns(group: &str, plural: &str) -> Vec<Column> {
    match (group, plural) {
        (_, "events") => events(),
        ("", "secrets") => around(vec![made("Type", |o, _| or_none(text(o, "/type"))), data()]),
        ("", "configmaps") => around(vec![data()]),
        ("", "namespaces") => around(vec![made("Status", |o, _| {
            or_unknown(text(o, "/status/phase"))
        })]),
        ("", "serviceaccounts") => around(vec![made("Secrets", |o, _| {
            json!(items(o, "/secrets").len())
        })]),
        ("", "nodes") => nodes(),
        ("", "pods") => pods(),
        ("coordination.k8s.io", "leases") => around(vec![made("Holder", |o, _| {
            json!(text(o, "/spec/holderIdentity"))
        })]),
        ("certificates.k8s.io", _) => signing_requests(),
        (_, "rolebindings" | "clusterrolebindings") => bindings(),
        (_, "roles" | "clusterroles" | "customresourcedefinitions") => vec![
            name_column(),
            made("Created At", |o, _| {
                or_unknown(text(o, "/metadata/creationTimestamp"))
            }),
        ],
        _ => around(vec![]),
    }
}

fn made(name: &str, make: Make) -> Column {
    Column {
        name: name.into(),
        kind: "string".into(),
        format: String::new(),
        description: String::new(),
        priority: 0,
        cell: Cell::Made(make),
    }
}

/// Shown with `-o wide`.
fn wide(name: &str, make: Make) -> Column {
    Column {
        priority: 1,
        ..made(name, make)
    }
}

/// Name first, age last.
fn around(mut columns: Vec<Column>) -> Vec<Column> {
    columns.insert(0, name_column());
    columns.push(age_column());
    columns
}

fn or_none(text: &str) -> Value {
    json!(if text.is_empty() { "<none>" } else { text })
}

fn or_unknown(text: &str) -> Value {
    json!(if text.is_empty() { "<unknown>" } else { text })
}

fn data() -> Column {
    made("Data", |object, _| {
        json!(fields(object, "/data").count() + fields(object, "/binaryData").count())
    })
}

fn nodes() -> Vec<Column> {
    fn address(node: &Value, kind: &str) -> Value {
        let found = items(node, "/status/addresses")
            .iter()
            .find(|address| address["type"] == kind);
        or_none(found.map_or("", |address| text(address, "/address")))
    }
    vec![
        name_column(),
        made("Status", |node, _| {
            let ready = items(node, "/status/conditions")
                .iter()
                .find(|condition| condition["type"] == "Ready");
            let mut status = match ready.map(|ready| text(ready, "/status")) {
                Some("True") => "Ready",
                Some(_) => "NotReady",
                None => "Unknown",
            }
            .to_owned();
            if node["spec"]["unschedulable"] == true {
                status.push_str(",SchedulingDisabled");
            }
            json!(status)
        }),
        made("Roles", |node, _| {
            let mut roles: Vec<_> = fields(node, "/metadata/labels")
                .filter_map(|(key, value)| match key.as_str() {
                    "kubernetes.io/role" => value.as_str(),
                    key => key.strip_prefix("node-role.kubernetes.io/"),
                })
                .filter(|role| !role.is_empty())
                .collect();
            roles.sort_unstable();
            or_none(&roles.join(","))
        }),
        age_column(),
        made("Version", |node, _| {
            json!(text(node, "/status/nodeInfo/kubeletVersion"))
        }),
        wide("Internal-IP", |node, _| address(node, "InternalIP")),
        wide("External-IP", |node, _| address(node, "ExternalIP")),
        wide("OS-Image", |node, _| {
            or_unknown(text(node, "/status/nodeInfo/osImage"))
        }),
        wide("Kernel-Version", |node, _| {
            or_unknown(text(node, "/status/nodeInfo/kernelVersion"))
        }),
        wide("Container-Runtime", |node, _| {
            or_unknown(text(node, "/status/nodeInfo/containerRuntimeVersion"))
        }),
    ]
}

fn pods() -> Vec<Column> {
    vec![
        name_column(),
        made("Ready", |pod, _| {
            let statuses = items(pod, "/status/containerStatuses");
            let ready = statuses.iter().filter(|status| status["ready"] == true);
            let all = items(pod, "/spec/containers").len();
            json!(format!("{}/{all}", ready.count()))
        }),
        made("Status", |pod, _| {
            if pod["metadata"]["deletionTimestamp"].is_string() {
                return json!("Terminating");
            }
            match text(pod, "/status/reason") {
                "" => or_unknown(text(pod, "/status/phase")),
                reason => json!(reason),
            }
        }),
        made("Restarts", |pod, _| {
            let statuses = items(pod, "/status/containerStatuses").iter();
            let restarts = statuses.filter_map(|status| status["restartCount"].as_u64());
            json!(restarts.fold(0, u64::saturating_add).to_string())
        }),
        age_column(),
        wide("IP", |pod, _| or_none(text(pod, "/status/podIP"))),
        wide("Node", |pod, _| or_none(text(pod, "/spec/nodeName"))),
        wide("Nominated Node", |pod, _| {
            or_none(text(pod, "/status/nominatedNodeName"))
        }),
        wide("Readiness Gates", |_, _| json!("<none>")),
    ]
}

fn events() -> Vec<Column> {
    fn either<'a>(event: &'a Value, core: &str, other: &str) -> &'a str {
        match text(event, core) {
            "" => text(event, other),
            text => text,
        }
    }
    fn last(event: &Value) -> &str {
        match text(event, "/series/lastObservedTime") {
            "" => match either(event, "/lastTimestamp", "/deprecatedLastTimestamp") {
                "" => first(event),
                time => time,
            },
            time => time,
        }
    }
    fn first(event: &Value) -> &str {
        match either(event, "/firstTimestamp", "/deprecatedFirstTimestamp") {
            "" => match text(event, "/eventTime") {
                "" => text(event, "/metadata/creationTimestamp"),
                time => time,
            },
            time => time,
        }
    }
    vec![
        made("Last Seen", |event, now| {
            json!(age::since(last(event), now))
        }),
        made("Type", |event, _| json!(text(event, "/type"))),
        made("Reason", |event, _| json!(text(event, "/reason"))),
        made("Object", |event, _| {
            let kind = either(event, "/involvedObject/kind", "/regarding/kind");
            let name = either(event, "/involvedObject/name", "/regarding/name");
            json!(format!("{}/{name}", kind.to_lowercase()))
        }),
        wide("Subobject", |event, _| {
            json!(either(
                event,
                "/involvedObject/fieldPath",
                "/regarding/fieldPath"
            ))
        }),
        wide("Source", |event, _| {
            let component = match either(event, "/source/component", "/deprecatedSource/component")
            {
                "" => either(event, "/reportingComponent", "/reportingController"),
                component => component,
            };
            match either(event, "/source/host", "/deprecatedSource/host") {
                "" => json!(component),
                host => json!(format!("{component}, {host}")),
            }
        }),
        made("Message", |event, _| {
            json!(either(event, "/message", "/note").trim())
        }),
        wide("First Seen", |event, now| {
            json!(age::since(first(event), now))
        }),
        wide("Count", |event, _| {
            let series = event["series"]["count"].as_u64();
            let count = series
                .or(event["count"].as_u64())
                .or(event["deprecatedCount"].as_u64());
            json!(count.unwrap_or(1))
        }),
        wide("Name", |event, _| event["metadata"]["name"].clone()),
    ]
}

fn signing_requests() -> Vec<Column> {
    vec![
        name_column(),
        age_column(),
        made("SignerName", |csr, _| {
            or_none(text(csr, "/spec/signerName"))
        }),
        made("Requestor", |csr, _| json!(text(csr, "/spec/username"))),
        made("RequestedDuration", |csr, _| {
            let seconds = csr["spec"]["expirationSeconds"].as_i64();
            json!(seconds.map_or("<none>".into(), age::human))
        }),
        made("Condition", |csr, _| {
            let conditions = items(csr, "/status/conditions");
            let has = |kind: &str| conditions.iter().any(|condition| condition["type"] == kind);
            let mut shown = if has("Denied") {
                "Denied"
            } else if has("Approved") {
                "Approved"
            } else {
                "Pending"
            }
            .to_owned();
            if has("Failed") {
                shown.push_str(",Failed");
            }
            if !text(csr, "/status/certificate").is_empty() {
                shown.push_str(",Issued");
            }
            json!(shown)
        }),
    ]
}

fn bindings() -> Vec<Column> {
    fn subjects(binding: &Value, kind: &str) -> Value {
        let named: Vec<_> = items(binding, "/subjects")
            .iter()
            .filter(|subject| subject["kind"] == kind)
            .map(|subject| match text(subject, "/namespace") {
                "" => text(subject, "/name").to_owned(),
                namespace => format!("{namespace}/{}", text(subject, "/name")),
            })
            .collect();
        json!(named.join(", "))
    }
    vec![
        name_column(),
        made("Role", |binding, _| {
            let (kind, name) = (
                text(binding, "/roleRef/kind"),
                text(binding, "/roleRef/name"),
            );
            json!(format!("{kind}/{name}"))
        }),
        age_column(),
        wide("Users", |binding, _| subjects(binding, "User")),
        wide("Groups", |binding, _| subjects(binding, "Group")),
        wide("ServiceAccounts", |binding, _| {
            subjects(binding, "ServiceAccount")
        }),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(group: &str, plural: &str, object: &Value) -> Value {
        let now = "2026-11-15T16:00:00Z".parse().unwrap();
        let columns = columns(group, plural);
        columns
            .iter()
            .map(|column| column.cell(object, now))
            .collect()
    }

    #[test]
    fn rows_of_built_in_kinds_read_as_in_kubernetes() {
        let meta = json!({"name": "a", "creationTimestamp": "2026-11-15T15:00:00Z"});
        let table = [
            (
                "",
                "secrets",
                json!({"metadata": meta, "type": "Opaque", "data": {"x": ""}}),
                json!(["a", "Opaque", 1, "60m"]),
            ),
            (
                "",
                "configmaps",
                json!({"metadata": meta, "data": {"x": ""}, "binaryData": {"y": ""}}),
                json!(["a", 2, "60m"]),
            ),
            (
                "",
                "namespaces",
                json!({"metadata": meta, "status": {"phase": "Active"}}),
                json!(["a", "Active", "60m"]),
            ),
            (
                "",
                "serviceaccounts",
                json!({"metadata": meta}),
                json!(["a", 0, "60m"]),
            ),
            (
                "coordination.k8s.io",
                "leases",
                json!({"metadata": meta, "spec": {"holderIdentity": "me"}}),
                json!(["a", "me", "60m"]),
            ),
            (
                "rbac.authorization.k8s.io",
                "roles",
                json!({"metadata": meta}),
                json!(["a", "2026-11-15T15:00:00Z"]),
            ),
            (
                "rbac.authorization.k8s.io",
                "rolebindings",
                json!({"metadata": meta, "roleRef": {"kind": "Role", "name": "r"}, "subjects": [
                {"kind": "User", "name": "u"}, {"kind": "ServiceAccount", "namespace": "n", "name": "s"}]}),
                json!(["a", "Role/r", "60m", "u", "", "n/s"]),
            ),
            (
                "certificates.k8s.io",
                "certificatesigningrequests",
                json!({"metadata": meta, "spec": {"signerName": "s", "username": "u", "expirationSeconds": 3600},
                "status": {"conditions": [{"type": "Approved"}], "certificate": "x"}}),
                json!(["a", "60m", "s", "u", "60m", "Approved,Issued"]),
            ),
            (
                "",
                "pods",
                json!({"metadata": meta, "spec": {"containers": [{}, {}], "nodeName": "n"}, "status": {"phase": "Running",
                "containerStatuses": [{"ready": true, "restartCount": 2}]}}),
                json!([
                    "a", "1/2", "Running", "2", "60m", "<none>", "n", "<none>", "<none>"
                ]),
            ),
        ];
        for (group, plural, object, cells) in table {
            assert_eq!(row(group, plural, &object), cells, "{plural}");
        }
    }

    #[test]
    fn a_node_shows_its_state_roles_and_address() {
        let node = json!({"metadata": {"name": "n", "creationTimestamp": "2026-11-15T15:00:00Z", "labels": {
                "node-role.kubernetes.io/master": "", "node-role.kubernetes.io/control-plane": ""}},
            "spec": {"unschedulable": true},
            "status": {"conditions": [{"type": "Ready", "status": "True"}],
                "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
                "nodeInfo": {"kubeletVersion": "v1.33.0", "osImage": "Linux", "kernelVersion": "6", "containerRuntimeVersion": "c"}}});
        assert_eq!(
            row("", "nodes", &node),
            json!([
                "n",
                "Ready,SchedulingDisabled",
                "control-plane,master",
                "60m",
                "v1.33.0",
                "10.0.0.1",
                "<none>",
                "Linux",
                "6",
                "c"
            ])
        );
    }

    #[test]
    fn both_faces_of_an_event_show_the_same() {
        let core = json!({"metadata": {"name": "e"}, "involvedObject": {"kind": "Node", "name": "n"}, "message": "m",
            "reason": "r", "type": "Normal", "lastTimestamp": "2026-11-15T15:59:00Z", "count": 3,
            "source": {"component": "c"}});
        let other = json!({"metadata": {"name": "e"}, "regarding": {"kind": "Node", "name": "n"}, "note": "m",
            "reason": "r", "type": "Normal", "deprecatedLastTimestamp": "2026-11-15T15:59:00Z", "deprecatedCount": 3,
            "reportingController": "c"});
        let expected = json!([
            "60s",
            "Normal",
            "r",
            "node/n",
            "",
            "c",
            "m",
            "<unknown>",
            3,
            "e"
        ]);
        assert_eq!(row("", "events", &core), expected);
        assert_eq!(row("events.k8s.io", "events", &other), expected);
    }
}
