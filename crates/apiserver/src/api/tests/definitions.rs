//! CustomResourceDefinitions, discovery and OpenAPI.

use super::*;

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

fn widgets() -> Value {
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "required": ["size"], "properties": {
            "size": {"type": "integer", "minimum": 1}, "colour": {"type": "string", "default": "red"}, "replicas": {"type": "integer"},
        }},
        "status": {"type": "object", "properties": {"replicas": {"type": "integer"}, "ready": {"type": "boolean"}}},
    }});
    let version = |name: &str, storage: bool| {
        json!({
            "name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": schema},
            "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}},
            "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}],
        })
    };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "widgets.test.plinth.dev"},
        "spec": {
            "group": "test.plinth.dev", "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "shortNames": ["wd"]},
            "versions": [version("v1", true), version("v1beta1", false)],
        },
    })
}

fn widget(name: &str) -> Value {
    json!({"apiVersion": "test.plinth.dev/v1", "kind": "Widget", "metadata": {"name": name}, "spec": {"size": 3, "replicas": 1}})
}

const WIDGETS: &str = "/apis/test.plinth.dev/v1/namespaces/metal/widgets";

#[tokio::test]
async fn a_definition_makes_its_routes_appear_and_disappear() {
    let it = fixture().await;
    assert_eq!(it.get(WIDGETS).await.code, 404);
    it.post(CRDS, widgets()).await.ok();
    let created = it.post(WIDGETS, widget("a")).await.ok();
    assert_eq!(created["spec"]["colour"], "red", "defaults are filled in");
    assert_eq!(it.post(WIDGETS, json!({"apiVersion": "test.plinth.dev/v1", "kind": "Widget", "metadata": {"name": "b"}, "spec": {"size": 0}})).await.code, 422);
    let older = it
        .get("/apis/test.plinth.dev/v1beta1/namespaces/metal/widgets/a")
        .await
        .ok();
    assert_eq!(older["apiVersion"], "test.plinth.dev/v1beta1");
    it.delete(&format!("{WIDGETS}/a"), Value::Null).await.ok();
    it.delete(&format!("{CRDS}/widgets.test.plinth.dev"), Value::Null)
        .await
        .ok();
    if it
        .get(&format!("{CRDS}/widgets.test.plinth.dev"))
        .await
        .code
        == 404
    {
        assert_eq!(it.get(WIDGETS).await.code, 404);
    }
}

#[tokio::test]
async fn a_definition_that_makes_no_sense_is_refused() {
    let it = fixture().await;
    let mut misnamed = widgets();
    misnamed["metadata"]["name"] = json!("gadgets.test.plinth.dev");
    assert_eq!(it.post(CRDS, misnamed).await.code, 422);
    let mut untyped = widgets();
    untyped["spec"]["versions"][0]["schema"]["openAPIV3Schema"] =
        json!({"properties": {"spec": {"properties": {"a": {}}}}});
    assert_eq!(it.post(CRDS, untyped).await.code, 422);
}

#[tokio::test]
async fn scale_is_a_view_of_the_object() {
    let it = fixture().await;
    it.post(CRDS, widgets()).await.ok();
    it.post(WIDGETS, widget("a")).await.ok();
    let uri = format!("{WIDGETS}/a/scale");
    let scale = it.get(&uri).await.ok();
    assert_eq!(
        (&scale["kind"], &scale["spec"]["replicas"]),
        (&json!("Scale"), &json!(1))
    );
    let mut more = scale.clone();
    more["spec"]["replicas"] = json!(4);
    assert_eq!(it.put(&uri, more.clone()).await.ok()["spec"]["replicas"], 4);
    assert_eq!(
        it.put(&uri, more).await.code,
        409,
        "the version in the body is an old one now"
    );
    assert_eq!(
        it.patch(&uri, body::MERGE_PATCH, json!({"spec": {"replicas": 2}}))
            .await
            .ok()["spec"]["replicas"],
        2
    );
    let object = it.get(&format!("{WIDGETS}/a")).await.ok();
    assert_eq!(
        (
            &object["spec"]["replicas"],
            &object["spec"]["size"],
            &object["metadata"]["generation"]
        ),
        (&json!(2), &json!(3), &json!(3))
    );
}

#[tokio::test]
async fn discovery_tells_what_is_served() {
    let it = fixture().await;
    it.post(CRDS, widgets()).await.ok();
    let groups = it.get("/apis").await.ok();
    assert!(
        groups["groups"]
            .as_array()
            .expect("groups")
            .iter()
            .any(|group| group["name"] == "test.plinth.dev"),
        "{groups}"
    );
    let resources = it.get("/apis/test.plinth.dev/v1").await.ok();
    let names: Vec<&str> = resources["resources"]
        .as_array()
        .expect("resources")
        .iter()
        .filter_map(|one| one["name"].as_str())
        .collect();
    assert_eq!(names, ["widgets", "widgets/status", "widgets/scale"]);
    assert!(
        it.get("/api/v1").await.ok()["resources"]
            .as_array()
            .is_some_and(|list| list.iter().any(|one| one["name"] == "secrets"))
    );
    let accept =
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
    let aggregated = it.get_as("/apis", accept).await.ok();
    assert_eq!(aggregated["kind"], "APIGroupDiscoveryList");
    assert_eq!(it.get("/apis/nothing.example/v1").await.code, 404);
    assert_eq!(it.get("/version").await.ok()["major"], "1");
}

#[tokio::test]
async fn openapi_describes_definitions_in_both_versions() {
    let it = fixture().await;
    it.post(CRDS, widgets()).await.ok();
    let index = it.get("/openapi/v3").await.ok();
    let url = index["paths"]["apis/test.plinth.dev/v1"]["serverRelativeURL"]
        .as_str()
        .expect("an address")
        .to_owned();
    let document = it.get(&url).await.ok();
    assert!(
        document["components"]["schemas"]
            .to_string()
            .contains("\"colour\"")
    );
    assert!(
        it.get("/openapi/v2").await.ok()["definitions"]
            .to_string()
            .contains("\"colour\"")
    );
    let protobuf = it
        .send(
            Method::GET,
            "/openapi/v2",
            body::JSON,
            "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
            Bytes::new(),
        )
        .await;
    assert_eq!(protobuf.status(), 200);
    assert!(
        protobuf.headers()[header::CONTENT_TYPE]
            .to_str()
            .expect("text")
            .ends_with("protobuf")
    );
}

#[tokio::test]
async fn documents_a_client_has_already_are_not_sent_again() {
    let it = fixture().await;
    let ask = |tag: &str| {
        let request = Request::builder()
            .uri("/openapi/v2")
            .header(header::IF_NONE_MATCH, tag);
        request.body(Bytes::new()).expect("a request")
    };
    let first = it.api.handle(&it.user, ask("\"nothing\"")).await;
    assert_eq!(first.status(), 200);
    let tag = first.headers()[header::ETAG]
        .to_str()
        .expect("text")
        .to_owned();
    assert_eq!(it.api.handle(&it.user, ask(&tag)).await.status(), 304);
    it.post(CRDS, widgets()).await.ok();
    assert_eq!(
        it.api.handle(&it.user, ask(&tag)).await.status(),
        200,
        "a new kind is in it now"
    );
}

#[tokio::test]
async fn what_was_kept_before_a_definition_changed_is_shown_as_it_is_now() {
    let it = fixture().await;
    let created = it.post(CRDS, widgets()).await.ok();
    it.post(WIDGETS, widget("old")).await.ok();
    let mut changed = created;
    for version in [0, 1] {
        let spec = &mut changed["spec"]["versions"][version]["schema"]["openAPIV3Schema"]["properties"]
            ["spec"];
        spec["properties"]["shape"] = json!({"type": "string", "default": "round"});
        spec["properties"]
            .as_object_mut()
            .expect("properties")
            .remove("colour");
    }
    let mut watch = it.watch(&format!("{WIDGETS}?watch=true")).await;
    assert_eq!(watch.next().await["object"]["spec"]["colour"], "red");
    it.put(&format!("{CRDS}/widgets.test.plinth.dev"), changed)
        .await
        .ok();
    let read = it.get(&format!("{WIDGETS}/old")).await.ok();
    assert_eq!(
        (&read["spec"]["shape"], read["spec"].get("colour")),
        (&json!("round"), None)
    );
    let listed = it.get(WIDGETS).await.ok();
    assert_eq!(listed["items"][0], read);
}
