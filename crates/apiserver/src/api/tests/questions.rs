//! Who may, who is, and what the server does with requests that make no sense.

use super::*;

#[tokio::test]
async fn reviews_answer_and_are_not_kept() {
    let it = fixture().await;
    let review = |spec: Value| json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": spec});
    let own = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let asked = json!({"resourceAttributes": {"verb": "delete", "resource": "nodes"}});
    assert_eq!(
        it.post(own, review(asked.clone())).await.ok()["status"]["allowed"],
        true
    );
    assert_eq!(it.post(own, review(json!({}))).await.code, 422);
    let other =
        json!({"user": "reader", "resourceAttributes": {"verb": "delete", "resource": "nodes"}});
    assert_eq!(
        it.post(
            "/apis/authorization.k8s.io/v1/subjectaccessreviews",
            review(other)
        )
        .await
        .ok()["status"]["allowed"],
        false
    );
    let rules = it
        .post(
            "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
            review(json!({"namespace": "metal"})),
        )
        .await
        .ok();
    assert_eq!(rules["status"]["resourceRules"][0]["verbs"], json!(["*"]));
    let who = it
        .post(
            "/apis/authentication.k8s.io/v1/selfsubjectreviews",
            json!({}),
        )
        .await
        .ok();
    assert_eq!(who["status"]["userInfo"]["username"], "admin");
    let tokens = "/apis/authentication.k8s.io/v1/tokenreviews";
    assert_eq!(
        it.post(tokens, json!({"spec": {"token": "good"}}))
            .await
            .ok()["status"]["user"]["username"],
        "jane"
    );
    assert_eq!(
        it.post(tokens, json!({"spec": {"token": "bad"}}))
            .await
            .ok()["status"]["authenticated"],
        false
    );
    assert_eq!(it.get(own).await.code, 405);
}

#[tokio::test]
async fn service_accounts_get_tokens() {
    let it = fixture().await;
    it.post(
        "/api/v1/namespaces/metal/serviceaccounts",
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "bot"}}),
    )
    .await
    .ok();
    let uri = "/api/v1/namespaces/metal/serviceaccounts/bot/token";
    let request =
        json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let issued = it.post(uri, request.clone()).await;
    assert_eq!(
        (issued.code, &issued.body["status"]["token"]),
        (201, &json!("token of metal/bot"))
    );
    let mut short = request;
    short["spec"]["expirationSeconds"] = json!(5);
    assert_eq!(it.post(uri, short).await.code, 422);
}

#[tokio::test]
async fn a_certificate_request_names_who_made_it() {
    let it = fixture().await;
    let uri = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    let request = json!({
        "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": "c"},
        "spec": {"request": "aGVsbG8=", "signerName": "kubernetes.io/kube-apiserver-client", "usages": ["client auth"], "username": "somebody else"},
    });
    let made = it.post(uri, request).await.ok();
    assert_eq!(
        (&made["spec"]["username"], &made["spec"]["groups"]),
        (&json!("admin"), &json!(["system:masters"]))
    );
    let mut approved = made.clone();
    approved["status"] =
        json!({"conditions": [{"type": "Approved", "status": "True", "reason": "Test"}]});
    let approved = it.put(&format!("{uri}/c/approval"), approved).await.ok();
    assert_eq!(approved["status"]["conditions"][0]["type"], "Approved");
    let mut other = approved;
    other["spec"]["usages"] = json!(["server auth"]);
    assert_eq!(it.put(&format!("{uri}/c"), other).await.code, 422);
}

#[tokio::test]
async fn who_may_not_is_told_what() {
    let mut it = fixture().await;
    it.user.name = "reader".into();
    it.get(MAPS).await.ok();
    let refused = it.post(MAPS, map("a", &json!({}))).await;
    assert_eq!(refused.reason(), (403, "Forbidden"));
    assert!(
        refused
            .message()
            .contains("User \"reader\" cannot create resource \"configmaps\""),
        "{}",
        refused.message()
    );
    it.user.name = "nobody".into();
    assert_eq!(it.get("/apis").await.code, 403);
}

#[tokio::test]
async fn nonsense_gets_a_status_and_not_a_crash() {
    let it = fixture().await;
    let send = |body: &'static str, media: &'static str| {
        it.send(
            Method::POST,
            MAPS,
            media,
            "application/json",
            Bytes::from_static(body.as_bytes()),
        )
    };
    assert_eq!(heard(send("{", body::JSON).await).await.code, 400);
    assert_eq!(heard(send("[]", body::JSON).await).await.code, 400);
    assert_eq!(heard(send("{}", "image/png").await).await.code, 415);
    assert_eq!(
        it.post(
            MAPS,
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}})
        )
        .await
        .code,
        400
    );
    let mut elsewhere = map("a", &json!({}));
    elsewhere["metadata"]["namespace"] = json!("default");
    assert_eq!(it.post(MAPS, elsewhere).await.code, 400);
    assert_eq!(it.post(MAPS, map("Bad_Name", &json!({}))).await.code, 422);
    assert_eq!(it.get("/api/v1/secrets/a").await.code, 404);
    assert_eq!(it.get("/api/v1/namespaces/metal/nodes").await.code, 404);
    assert_eq!(it.get(&format!("{MAPS}?limit=many")).await.code, 400);
    assert_eq!(
        it.post("/api/v1/namespaces/metal/configmaps/a/status", json!({}))
            .await
            .code,
        404
    );
    assert_eq!(it.get("/somewhere").await.code, 404);
    assert_eq!(
        it.post("/api/v1/configmaps", map("a", &json!({})))
            .await
            .code,
        405,
        "in which namespace?"
    );
    assert_eq!(it.delete("/api/v1/configmaps", Value::Null).await.code, 405);
}
