use super::*;

fn role(name: &str, namespace: &str, rules: &Value) -> Value {
    let kind = if namespace.is_empty() {
        "ClusterRole"
    } else {
        "Role"
    };
    json!({"kind": kind, "metadata": {"name": name, "namespace": namespace}, "rules": rules})
}

fn binding(name: &str, namespace: &str, role: (&str, &str), subjects: &Value) -> Value {
    let kind = if namespace.is_empty() {
        "ClusterRoleBinding"
    } else {
        "RoleBinding"
    };
    json!({"kind": kind, "metadata": {"name": name, "namespace": namespace},
        "roleRef": {"kind": role.0, "name": role.1}, "subjects": subjects})
}

fn user(name: &str, groups: &[&str]) -> User {
    User {
        name: name.into(),
        groups: groups.iter().map(|group| (*group).into()).collect(),
        ..User::default()
    }
}

fn policy() -> Policy {
    let mut policy = Policy::default();
    for object in [
        role(
            "cluster-admin",
            "",
            &json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
            {"verbs": ["*"], "nonResourceURLs": ["*"]}]),
        ),
        role(
            "view",
            "",
            &json!([{"verbs": ["get", "list"], "apiGroups": ["", "metal3.io"], "resources": ["secrets", "baremetalhosts", "baremetalhosts/status"]}]),
        ),
        role(
            "one",
            "ns",
            &json!([{"verbs": ["get", "update"], "apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["mine"]}]),
        ),
        role(
            "health",
            "",
            &json!([{"verbs": ["get"], "nonResourceURLs": ["/healthz", "/logs/*"]}]),
        ),
        role(
            "scaler",
            "",
            &json!([{"verbs": ["update"], "apiGroups": ["*"], "resources": ["*/scale"]}]),
        ),
        binding(
            "admins",
            "",
            ("ClusterRole", "cluster-admin"),
            &json!([{"kind": "Group", "name": "system:masters"}]),
        ),
        binding(
            "view",
            "ns",
            ("ClusterRole", "view"),
            &json!([{"kind": "User", "name": "alice"}]),
        ),
        binding(
            "one",
            "ns",
            ("Role", "one"),
            &json!([{"kind": "ServiceAccount", "name": "robot"}]),
        ),
        binding(
            "health",
            "",
            ("ClusterRole", "health"),
            &json!([{"kind": "User", "name": "alice"}]),
        ),
        binding(
            "scaler",
            "",
            ("ClusterRole", "scaler"),
            &json!([{"kind": "User", "name": "alice"}]),
        ),
    ] {
        policy.put(&object);
    }
    policy
}

fn ask<'a>(
    verb: &'a str,
    group: &'a str,
    resource: &'a str,
    namespace: &'a str,
    name: &'a str,
) -> Ask<'a> {
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    Ask::Resource {
        verb,
        group,
        resource,
        subresource,
        namespace,
        name,
    }
}

fn allowed(who: &User, ask: &Ask<'_>) -> bool {
    matches!(policy().decide(who, ask), Decision::Allowed { .. })
}

#[test]
fn rules_allow_what_they_name_where_they_are_bound() {
    let admin = user("root", &["system:masters"]);
    let alice = user("alice", &[]);
    let robot = user("system:serviceaccount:ns:robot", &[]);
    let table = [
        (&admin, ask("delete", "x", "y/z", "", ""), true),
        (
            &admin,
            Ask::Path {
                verb: "post",
                path: "/anything",
            },
            true,
        ),
        (&alice, ask("get", "", "secrets", "ns", "a"), true),
        (
            &alice,
            ask("list", "metal3.io", "baremetalhosts", "ns", ""),
            true,
        ),
        (
            &alice,
            ask("get", "metal3.io", "baremetalhosts/status", "ns", "a"),
            true,
        ),
        (
            &alice,
            ask("get", "metal3.io", "baremetalhosts/other", "ns", "a"),
            false,
        ),
        (&alice, ask("delete", "", "secrets", "ns", "a"), false),
        (&alice, ask("get", "", "secrets", "other", "a"), false),
        (&alice, ask("list", "", "secrets", "", ""), false),
        (&alice, ask("get", "apps", "secrets", "ns", "a"), false),
        (
            &alice,
            ask("update", "apps", "deployments/scale", "other", "a"),
            true,
        ),
        (
            &alice,
            ask("update", "apps", "deployments", "other", "a"),
            false,
        ),
        (
            &alice,
            Ask::Path {
                verb: "get",
                path: "/healthz",
            },
            true,
        ),
        (
            &alice,
            Ask::Path {
                verb: "get",
                path: "/logs/today",
            },
            true,
        ),
        (
            &alice,
            Ask::Path {
                verb: "get",
                path: "/version",
            },
            false,
        ),
        (
            &alice,
            Ask::Path {
                verb: "post",
                path: "/healthz",
            },
            false,
        ),
        (&robot, ask("get", "", "configmaps", "ns", "mine"), true),
        (&robot, ask("get", "", "configmaps", "ns", "yours"), false),
        (&robot, ask("create", "", "configmaps", "ns", ""), false),
        (
            &user("nobody", &[]),
            ask("get", "", "secrets", "ns", "a"),
            false,
        ),
    ];
    for (who, ask, expected) in table {
        assert_eq!(allowed(who, &ask), expected, "{} {ask:?}", who.name);
    }
}

#[test]
fn the_reason_names_the_binding_and_the_role() {
    let decision = policy().decide(&user("alice", &[]), &ask("get", "", "secrets", "ns", "a"));
    assert_eq!(
        decision,
        Decision::Allowed {
            reason:
                "RBAC: allowed by RoleBinding \"view/ns\" of ClusterRole \"view\" to User \"alice\""
                    .into()
        }
    );
}

#[test]
fn what_is_removed_allows_nothing_more() {
    let mut policy = policy();
    let question = ask("get", "", "secrets", "ns", "a");
    policy.remove(&binding("view", "ns", ("ClusterRole", "view"), &json!([])));
    assert_eq!(
        policy.decide(&user("alice", &[]), &question),
        Decision::NoOpinion
    );
}

#[test]
fn rules_of_a_user_are_those_of_the_cluster_and_the_namespace() {
    let alice = user("alice", &[]);
    assert_eq!(policy().rules(&alice, "ns").len(), 3);
    assert_eq!(policy().rules(&alice, "other").len(), 2);
}

#[test]
fn nobody_gives_away_more_than_they_have() {
    let alice = user("alice", &[]);
    let admin = user("root", &["system:masters"]);
    let held = role(
        "new",
        "ns",
        &json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"]}]),
    );
    let more = role(
        "new",
        "ns",
        &json!([{"verbs": ["get", "delete"], "apiGroups": [""], "resources": ["secrets"]}]),
    );
    assert_eq!(policy().check_write(&alice, &held, None), Ok(()));
    assert_eq!(policy().check_write(&admin, &more, None), Ok(()));
    let status = policy().check_write(&alice, &more, None).unwrap_err();
    assert_eq!(status.code, 403);
    assert_eq!(
        status.message,
        "roles.rbac.authorization.k8s.io \"new\" is forbidden: user \"alice\" (groups=[]) is attempting to grant RBAC \
         permissions not currently held:\n{APIGroups:[\"\"], Resources:[\"secrets\"], Verbs:[\"delete\"]}"
    );
    assert_eq!(
        policy().check_write(&alice, &more, Some(&more)),
        Ok(()),
        "nothing new is given"
    );
    assert_eq!(
        policy().check_write(&alice, &json!({"kind": "Secret"}), None),
        Ok(())
    );
}

#[test]
fn binding_a_role_gives_away_its_rules() {
    let alice = user("alice", &[]);
    let everybody = json!([{"kind": "Group", "name": "system:authenticated"}]);
    let view = binding("b", "ns", ("ClusterRole", "view"), &everybody);
    assert_eq!(policy().check_write(&alice, &view, None), Ok(()));
    let admin = binding("b", "ns", ("ClusterRole", "cluster-admin"), &everybody);
    assert_eq!(
        policy().check_write(&alice, &admin, None).unwrap_err().code,
        403
    );
    let absent = binding("b", "ns", ("Role", "absent"), &everybody);
    assert_eq!(
        policy()
            .check_write(&alice, &absent, None)
            .unwrap_err()
            .code,
        404
    );
    let mut with_bind = policy();
    with_bind.put(&role(
        "binder",
        "",
        &json!([{"verbs": ["bind"], "apiGroups": ["rbac.authorization.k8s.io"],
        "resources": ["clusterroles"], "resourceNames": ["cluster-admin"]}]),
    ));
    with_bind.put(&binding(
        "binder",
        "",
        ("ClusterRole", "binder"),
        &json!([{"kind": "User", "name": "alice"}]),
    ));
    assert_eq!(with_bind.check_write(&alice, &admin, None), Ok(()));
}

#[test]
fn whoever_may_escalate_writes_any_role() {
    let mut policy = policy();
    policy.put(&role("escalator", "", &json!([{"verbs": ["escalate"], "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"]}])));
    policy.put(&binding(
        "e",
        "",
        ("ClusterRole", "escalator"),
        &json!([{"kind": "User", "name": "alice"}]),
    ));
    let more = role(
        "new",
        "ns",
        &json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]),
    );
    assert_eq!(policy.check_write(&user("alice", &[]), &more, None), Ok(()));
    let collecting = json!({"kind": "ClusterRole", "metadata": {"name": "c"}, "rules": [],
        "aggregationRule": {"clusterRoleSelectors": [{}]}});
    assert_eq!(
        policy
            .check_write(&user("alice", &[]), &collecting, None)
            .unwrap_err()
            .code,
        403
    );
}

#[test]
fn an_aggregated_role_collects_by_label() {
    let mut a = role(
        "a",
        "",
        &json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["x"]}]),
    );
    let mut b = role(
        "b",
        "",
        &json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["x"]}, {"verbs": ["list"], "apiGroups": [""], "resources": ["x"]}]),
    );
    a["metadata"]["labels"] = json!({"to-view": "true"});
    b["metadata"]["labels"] = json!({"to-view": "true"});
    let plain = role(
        "plain",
        "",
        &json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]),
    );
    let view = json!({"kind": "ClusterRole", "metadata": {"name": "view"},
        "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"to-view": "true"}}]}});
    let rules = aggregate(&view, &[b, plain.clone(), a]).unwrap();
    assert_eq!(rules.len(), 2);
    assert_eq!(aggregate(&plain, &[]), None);
}

proptest::proptest! {
    #[test]
    fn any_object_can_be_put(mut object in crate::schema::arbitrary::json(), kind in 0..4_usize) {
        if let Some(fields) = object.as_object_mut() {
            let kinds = ["Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"];
            fields.insert("kind".into(), json!(kinds[kind]));
        }
        let mut policy = policy();
        policy.put(&object);
        let _ = policy.check_write(&user("alice", &[]), &object, None);
        policy.remove(&object);
    }
}
