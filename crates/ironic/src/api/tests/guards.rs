//! What every request goes through: versions, roots, authentication, bodies.

use axum::body::Body;
use axum::http::Request;
use serde_json::{Value, json};

use super::Api;

#[tokio::test]
async fn every_answer_says_which_versions_there_are() {
    let api = Api::new().await;
    for (version, path, used) in [
        ("1.50", "/v1/nodes", Some("1.50")),
        ("latest", "/v1/nodes/x", Some("1.110")),
        ("1.999", "/v1/nodes", None),
    ] {
        let answer = api.at(version, &format!("GET {path}"), Value::Null).await;
        let header = |name: &str| {
            answer
                .headers
                .get(name)
                .map(|value| value.to_str().unwrap())
        };
        assert_eq!(
            header("x-openstack-ironic-api-minimum-version"),
            Some("1.1")
        );
        assert_eq!(
            header("x-openstack-ironic-api-maximum-version"),
            Some("1.110")
        );
        assert_eq!(header("x-openstack-ironic-api-version"), used, "{version}");
        assert!(header("openstack-request-id").unwrap().starts_with("req-"));
    }
    let answer = api.at("1.999", "GET /v1/nodes", Value::Null).await.is(406);
    assert!(answer.fault().contains("1.1 to 1.110"));
}

#[tokio::test]
async fn root_documents_tell_what_the_version_has() {
    let api = Api::new().await;
    let root = api.get("/").await.is(200).json();
    assert_eq!(root["default_version"]["version"], "1.110");
    assert_eq!(
        root["versions"][0]["links"][0]["href"],
        "http://metal:6385/v1/"
    );
    let newest = api.get("/v1/").await.is(200).json();
    assert_eq!(newest["nodes"][1]["href"], "http://metal:6385/nodes");
    assert!(newest.get("runbooks").is_some());
    let oldest = api.at("1.1", "GET /v1", Value::Null).await.is(200).json();
    assert!(oldest.get("portgroups").is_none() && oldest.get("drivers").is_some());
}

#[tokio::test]
async fn a_path_may_leave_out_the_version_and_end_in_a_slash_or_json() {
    let api = Api::new().await;
    api.node("n0").await;
    for (version, path, status) in [
        ("1.110", "/nodes/n0", 200),
        ("1.110", "/v1/nodes/n0/", 200),
        ("1.90", "/v1/nodes/n0.json", 200),
        ("1.91", "/v1/nodes/n0.json", 404),
        ("1.4", "/v1/nodes/n0", 404),
    ] {
        api.at(version, &format!("GET {path}"), Value::Null)
            .await
            .is(status);
    }
}

#[tokio::test]
async fn a_body_that_is_too_large_or_too_deep_is_refused_before_it_is_read() {
    let api = Api::new().await;
    let large = json!({"driver": "x".repeat(1 << 20)});
    let answer = api.call("POST /v1/nodes", large).await.is(413);
    assert_eq!(answer.json()["faultcode"], "Client");
    let deep = format!("{}1{}", "[".repeat(26), "]".repeat(26));
    let request = Request::post("/v1/nodes").body(Body::from(deep)).unwrap();
    let answer = api.send(request).await.is(400);
    assert!(
        answer.json()["faultstring"]
            .as_str()
            .unwrap()
            .contains("25 levels")
    );
    let brackets_in_a_text = json!({"driver": "fake-hardware", "extra": {"text": "[".repeat(100)}});
    api.call("POST /v1/nodes", brackets_in_a_text).await.is(201);
}

#[tokio::test]
async fn answers_without_a_body_have_no_content_type() {
    let api = Api::new().await;
    api.node("n0").await;
    let answer = api
        .call(
            "PUT /v1/nodes/n0/states/provision",
            json!({"target": "manage"}),
        )
        .await
        .is(202);
    assert!(answer.headers.get("content-type").is_none() && answer.text.is_empty());
    assert_eq!(
        answer.headers["location"],
        "http://metal:6385/v1/nodes/n0/states"
    );
    api.reaches("n0", "manageable").await;
    let answer = api.call("DELETE /v1/nodes/n0", Value::Null).await.is(204);
    assert!(answer.headers.get("content-type").is_none() && answer.text.is_empty());
}

#[tokio::test]
async fn only_users_of_the_file_may_call_but_for_what_is_open_to_all() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("htpasswd");
    let hash = bcrypt::hash("hunter2", 4).unwrap();
    std::fs::write(&file, format!("# people\nadmin:{hash}\n")).unwrap();
    let api = Api::with(&format!("auth: {{htpasswd: {}}}", file.display())).await;
    let ask = async |path: &str, authorization: Option<&str>| {
        let mut request = Request::get(path).header("x-openstack-ironic-api-version", "1.110");
        if let Some(value) = authorization {
            request = request.header("authorization", value);
        }
        api.send(request.body(Body::empty()).unwrap()).await
    };
    for path in ["/", "/v1", "/healthz", "/readyz", "/metrics"] {
        ask(path, None).await.is(200);
    }
    ask("/v1/lookup?addresses=52:54:00:00:00:01", None)
        .await
        .is(404);
    let answer = ask("/v1/nodes", None).await.is(401);
    assert_eq!(
        answer.headers["www-authenticate"],
        "Basic realm=\"Baremetal API\""
    );
    assert_eq!(answer.json()["error"]["code"], 401);
    for (name, value, status) in [
        ("right", "Basic YWRtaW46aHVudGVyMg==", 200),
        ("right again", "basic YWRtaW46aHVudGVyMg==", 200),
        ("wrong password", "Basic YWRtaW46eA==", 401),
        ("unknown user", "Basic bm9ib2R5Omh1bnRlcjI=", 401),
        ("no colon", "Basic YWRtaW4=", 400),
        ("not base64", "Basic ???", 400),
        ("another scheme", "Bearer x", 400),
    ] {
        assert_eq!(
            ask("/v1/nodes", Some(value)).await.status.as_u16(),
            status,
            "{name}"
        );
    }
}

#[test]
fn an_htpasswd_file_of_other_hashes_is_refused_line_by_line() {
    let Err(problems) = super::super::Users::parse("a:$apr1$x$y\n\nb\nc:$2y$05$short\n") else {
        panic!("nothing in it is good")
    };
    assert_eq!(problems.len(), 3, "{problems:?}");
    assert!(problems[1].starts_with("line 3"));
    assert!(super::super::Users::parse("").is_err());
}
