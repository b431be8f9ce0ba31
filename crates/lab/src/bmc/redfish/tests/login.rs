//! Who gets in.

use super::*;

#[tokio::test]
async fn the_root_is_open_and_everything_else_is_not() {
    let bench = bench(vendor("generic"));
    for path in [
        "/redfish",
        "/redfish/",
        "/redfish/v1",
        "/redfish/v1/",
        "/redfish/v1/odata",
    ] {
        bench
            .raw(Request::get(path).body(HttpBody::empty()).unwrap())
            .await
            .is(200);
    }
    for path in [
        "/redfish/v1/Systems",
        "/redfish/v1/SessionService/Sessions",
        "/redfish/v1/Nothing",
    ] {
        let reply = bench
            .raw(Request::get(path).body(HttpBody::empty()).unwrap())
            .await
            .is(401);
        assert_eq!(reply.id(), "NoValidSession");
        assert!(reply.header("www-authenticate").starts_with("Basic"));
    }
    for bad in [
        "Basic",
        "Basic !!",
        "Bearer x",
        &format!("Basic {}", STANDARD.encode("admin:wrong")),
    ] {
        let request = Request::get("/redfish/v1/Systems").header("authorization", bad);
        bench
            .raw(request.body(HttpBody::empty()).unwrap())
            .await
            .is(401);
    }
}

#[tokio::test]
async fn a_session_opens_doors_until_it_is_deleted() {
    let bench = bench(vendor("ilo"));
    let login = |password: &str| {
        Request::post("/redfish/v1/SessionService/Sessions")
            .header("content-type", "application/json")
            .body(HttpBody::from(
                json!({"UserName": "admin", "Password": password}).to_string(),
            ))
            .unwrap()
    };
    let refused = bench.raw(login("nearly")).await.is(401);
    assert!(!refused.message().contains("nearly"));
    let reply = bench.raw(login("s3cret:with colon")).await.is(201);
    let (token, location) = (
        reply.header("x-auth-token").to_string(),
        reply.header("location").to_string(),
    );
    assert!(!reply.body.to_string().contains("s3cret"));
    let with = |method: &str, path: &str| {
        Request::builder()
            .method(method)
            .uri(path)
            .header("x-auth-token", &token)
            .body(HttpBody::empty())
            .unwrap()
    };
    bench.raw(with("GET", "/redfish/v1/Systems")).await.is(200);
    bench.raw(with("GET", &location)).await.is(200);
    bench.raw(with("DELETE", &location)).await.is(204);
    let reply = bench.raw(with("GET", "/redfish/v1/Systems")).await.is(401);
    assert_eq!(reply.id(), "NoValidSession");
    bench.send("DELETE", &location, Value::Null).await.is(404);
}

#[tokio::test]
async fn a_ninth_session_is_refused_in_the_vendors_words() {
    let bench = bench(vendor("idrac"));
    let login = json!({"UserName": "admin", "Password": "s3cret:with colon"});
    for _ in 0..8 {
        bench
            .send("POST", "/redfish/v1/SessionService/Sessions", login.clone())
            .await
            .is(201);
    }
    let reply = bench
        .send("POST", "/redfish/v1/SessionService/Sessions", login)
        .await
        .is(503);
    assert_eq!(reply.id(), "RAC0218");
}

#[tokio::test]
async fn dropped_sessions_are_refused_and_a_new_login_works() {
    let bench = bench(vendor("generic"));
    let login = json!({"UserName": "admin", "Password": "s3cret:with colon"});
    let token = bench
        .send("POST", "/redfish/v1/SessionService/Sessions", login.clone())
        .await
        .header("x-auth-token")
        .to_string();
    let with = |token: &str| {
        Request::get("/redfish/v1/Systems")
            .header("x-auth-token", token)
            .body(HttpBody::empty())
            .unwrap()
    };
    bench.raw(with(&token)).await.is(200);
    bench.fault(Kind::DropsSessions);
    assert_eq!(bench.raw(with(&token)).await.is(401).id(), "NoValidSession");
    bench.raw(with(&token)).await.is(401);
    let token = bench
        .send("POST", "/redfish/v1/SessionService/Sessions", login)
        .await
        .header("x-auth-token")
        .to_string();
    bench.raw(with(&token)).await.is(200);
}
