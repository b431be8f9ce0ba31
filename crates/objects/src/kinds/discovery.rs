//! Discovery: what a client asks first, to learn which kinds there are.

use serde_json::{Value, json};

use super::{Kind, Registry, Subresource, api_version};

/// `/api`
pub fn core_versions(_registry: &Registry) -> Value {
    json!({
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [],
    })
}

/// `/apis`
pub fn groups(registry: &Registry) -> Value {
    let groups: Vec<_> = registry
        .groups()
        .into_iter()
        .map(|(name, versions)| api_group(name, &versions))
        .collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// `/apis/{group}`
pub fn group(registry: &Registry, group: &str) -> Option<Value> {
    let groups = registry.groups();
    let mut found = api_group(group, groups.get(group)?);
    found["kind"] = json!("APIGroup");
    found["apiVersion"] = json!("v1");
    Some(found)
}

fn api_group(name: &str, versions: &[&str]) -> Value {
    let versions: Vec<_> = versions
        .iter()
        .map(|version| json!({"groupVersion": api_version(name, version), "version": version}))
        .collect();
    json!({"name": name, "versions": versions, "preferredVersion": versions.first()})
}

/// `/api/v1`, `/apis/{group}/{version}`
pub fn resources(registry: &Registry, group: &str, version: &str) -> Option<Value> {
    let mut resources = vec![];
    for kind in registry.of(group, version) {
        resources.push(resource(kind));
        resources.extend(kind.subresources.iter().map(|sub| subresource(kind, sub)));
    }
    (!resources.is_empty()).then(|| {
        json!({
            "kind": "APIResourceList",
            "apiVersion": "v1",
            "groupVersion": api_version(group, version),
            "resources": resources,
        })
    })
}

fn resource(kind: &Kind) -> Value {
    let mut resource = json!({
        "name": kind.plural,
        "singularName": kind.singular,
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": kind.verbs,
    });
    if !kind.short_names.is_empty() {
        resource["shortNames"] = json!(kind.short_names);
    }
    if !kind.categories.is_empty() {
        resource["categories"] = json!(kind.categories);
    }
    resource
}

fn subresource(kind: &Kind, sub: &Subresource) -> Value {
    let mut resource = json!({
        "name": format!("{}/{}", kind.plural, sub.name()),
        "singularName": "",
        "namespaced": kind.namespaced,
        "kind": response_kind(kind, sub).2,
        "verbs": sub.verbs(),
    });
    let (group, version, _) = response_kind(kind, sub);
    if (group, version) != (kind.group.as_str(), kind.version.as_str()) {
        resource["group"] = json!(group);
        resource["version"] = json!(version);
    }
    resource
}

/// Group, version and kind of what a subresource takes and gives.
fn response_kind<'a>(kind: &'a Kind, sub: &Subresource) -> (&'a str, &'a str, &'a str) {
    match sub {
        Subresource::Status | Subresource::Approval | Subresource::Finalize => {
            (&kind.group, &kind.version, &kind.kind)
        }
        Subresource::Scale(_) => ("autoscaling", "v1", "Scale"),
        Subresource::Token => ("authentication.k8s.io", "v1", "TokenRequest"),
    }
}

/// `/api` or `/apis` as `apidiscovery.k8s.io` APIGroupDiscoveryList; `version` is `v2` or `v2beta1`.
pub fn aggregated(registry: &Registry, core: bool, version: &str) -> Value {
    let groups: Vec<(&str, Vec<&str>)> = if core {
        vec![("", vec!["v1"])]
    } else {
        registry.groups().into_iter().collect()
    };
    let items: Vec<_> = groups
        .into_iter()
        .map(|(group, versions)| {
            let versions: Vec<_> = versions
                .into_iter()
                .map(|version| {
                    let resources: Vec<_> = registry.of(group, version).map(|k| whole(k)).collect();
                    json!({"version": version, "resources": resources, "freshness": "Current"})
                })
                .collect();
            let metadata = match group {
                "" => json!({"creationTimestamp": null}),
                name => json!({"name": name, "creationTimestamp": null}),
            };
            json!({"metadata": metadata, "versions": versions})
        })
        .collect();
    json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": format!("apidiscovery.k8s.io/{version}"),
        "metadata": {},
        "items": items,
    })
}

/// A resource with its subresources.
fn whole(kind: &Kind) -> Value {
    let response =
        |(group, version, kind)| json!({"group": group, "version": version, "kind": kind});
    let mut resource = json!({
        "resource": kind.plural,
        "responseKind": response((kind.group.as_str(), kind.version.as_str(), kind.kind.as_str())),
        "scope": if kind.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": kind.singular,
        "verbs": kind.verbs,
    });
    if !kind.short_names.is_empty() {
        resource["shortNames"] = json!(kind.short_names);
    }
    if !kind.categories.is_empty() {
        resource["categories"] = json!(kind.categories);
    }
    if !kind.subresources.is_empty() {
        let subresources = kind.subresources.iter();
        resource["subresources"] = subresources
            .map(|sub| {
                json!({
                    "subresource": sub.name(),
                    "responseKind": response(response_kind(kind, sub)),
                    "verbs": sub.verbs(),
                })
            })
            .collect();
    }
    resource
}

#[cfg(test)]
mod tests {
    use super::super::registry::tests::widget_crd;
    use super::*;

    fn registry() -> Registry {
        let mut registry = Registry::builtin();
        registry.put_crd(&widget_crd()).unwrap();
        registry
    }

    #[test]
    fn a_custom_group_is_found_with_its_preferred_version_first() {
        let found = group(&registry(), "example.com").unwrap();
        assert_eq!(
            found,
            json!({"kind": "APIGroup", "apiVersion": "v1", "name": "example.com",
                "versions": [{"groupVersion": "example.com/v1", "version": "v1"},
                             {"groupVersion": "example.com/v1beta1", "version": "v1beta1"}],
                "preferredVersion": {"groupVersion": "example.com/v1", "version": "v1"}})
        );
        assert_eq!(group(&registry(), "absent.example.com"), None);
        assert_eq!(group(&registry(), ""), None);
        let names: Vec<_> = groups(&registry())["groups"]
            .as_array()
            .unwrap()
            .iter()
            .map(|group| group["name"].to_string())
            .collect();
        assert!(names.contains(&"\"example.com\"".into()) && !names.contains(&"\"\"".into()));
    }

    #[test]
    fn resources_are_listed_with_their_subresources() {
        let list = resources(&registry(), "example.com", "v1").unwrap();
        assert_eq!(
            list["resources"],
            json!([
                {"name": "widgets", "singularName": "widget", "namespaced": true, "kind": "Widget",
                 "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
                 "shortNames": ["wd"], "categories": ["all"]},
                {"name": "widgets/status", "singularName": "", "namespaced": true, "kind": "Widget",
                 "verbs": ["get", "patch", "update"]},
                {"name": "widgets/scale", "singularName": "", "namespaced": true, "kind": "Scale",
                 "group": "autoscaling", "version": "v1", "verbs": ["get", "patch", "update"]},
            ])
        );
        assert_eq!(resources(&registry(), "example.com", "v9"), None);
    }

    #[test]
    fn the_aggregated_document_says_it_all_at_once() {
        let all = aggregated(&registry(), false, "v2");
        let groups = all["items"].as_array().unwrap();
        let widgets = groups
            .iter()
            .find(|group| group["metadata"]["name"] == "example.com")
            .unwrap();
        assert_eq!(widgets["versions"][0]["version"], "v1");
        let resource = &widgets["versions"][0]["resources"][0];
        assert_eq!(resource["scope"], "Namespaced");
        assert_eq!(
            resource["subresources"][1],
            json!({"subresource": "scale", "verbs": ["get", "patch", "update"],
                "responseKind": {"group": "autoscaling", "version": "v1", "kind": "Scale"}})
        );
        let core = aggregated(&registry(), true, "v2beta1");
        assert_eq!(core["apiVersion"], "apidiscovery.k8s.io/v2beta1");
        assert!(
            core["items"][0]["versions"][0]["resources"]
                .as_array()
                .unwrap()
                .len()
                >= 7
        );
    }
}
