//! The server over its real socket: who gets in, what is measured and written down, and how it stops.

use axum::http::StatusCode;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::Running;
use crate::test_site::{PATIENCE, Site, config};

const SECRETS: &str = "/api/v1/namespaces/metal/secrets";

#[tokio::test]
async fn certificates_and_tokens_say_who_asks_and_nobody_is_nobody() {
    let site = Site::new().await;
    let who = |answer: Value| {
        let user = &answer["status"]["userInfo"];
        (
            user["username"].as_str().unwrap().to_owned(),
            user["groups"].clone(),
        )
    };
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let reviews = site.url("/apis/authentication.k8s.io/v1/selfsubjectreviews");
    let ask = site.client(Some("jane")).post(&reviews).json(&review);
    let answer = ask.send().await.unwrap().json().await.unwrap();
    assert_eq!(
        who(answer),
        ("jane".to_owned(), json!(["people", "system:authenticated"]))
    );
    let ask = site.client(None).post(&reviews).bearer_auth("admin-token");
    let answer = ask
        .json(&review)
        .send()
        .await
        .unwrap()
        .json()
        .await
        .unwrap();
    assert_eq!(
        who(answer),
        (
            "admin".to_owned(),
            json!(["system:masters", "system:authenticated"])
        )
    );
    for token in [
        None,
        Some("wrong"),
        Some("abcdef.0123456789abcdef"),
        Some("a.b.c"),
    ] {
        let mut ask = site.client(None).get(site.url("/api"));
        if let Some(token) = token {
            ask = ask.bearer_auth(token);
        }
        let answer = ask.send().await.unwrap();
        assert_eq!(answer.status(), StatusCode::UNAUTHORIZED, "{token:?}");
        let status: Value = answer.json().await.unwrap();
        assert_eq!(status["reason"], "Unauthorized");
    }
    for path in ["/healthz", "/livez", "/readyz", "/version"] {
        let answer = site.client(None).get(site.url(path)).send().await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK, "{path}");
    }
}

#[tokio::test]
async fn who_may_not_is_told_so_and_it_is_written_down() {
    let site = Site::new().await;
    let answer = site
        .client(Some("jane"))
        .get(site.url(SECRETS))
        .send()
        .await
        .unwrap();
    assert_eq!(answer.status(), StatusCode::FORBIDDEN);
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"password": "hunter2"}});
    let admin = site.client(Some("admin"));
    let answer = admin
        .post(site.url(SECRETS))
        .json(&secret)
        .send()
        .await
        .unwrap();
    assert_eq!(answer.status(), StatusCode::CREATED);
    let path = site.directory.path().join("audit.log");
    let deadline = tokio::time::Instant::now() + PATIENCE;
    let log = loop {
        let log = std::fs::read_to_string(&path).unwrap();
        if log.lines().count() >= 2 {
            break log;
        }
        assert!(tokio::time::Instant::now() < deadline, "{log}");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    };
    assert!(
        !log.contains("hunter2"),
        "what was sent stays out of the log"
    );
    let lines: Vec<Value> = log
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines[0]["user"]["username"], "jane");
    assert_eq!(lines[0]["responseStatus"]["code"], 403);
    assert_eq!(lines[1]["verb"], "create");
    assert_eq!(lines[1]["objectRef"]["resource"], "secrets");
}

#[tokio::test]
async fn what_is_too_large_is_refused() {
    let site = Site::new().await;
    let body = vec![b' '; 4 << 20];
    let ask = site
        .client(Some("admin"))
        .post(site.url(SECRETS))
        .body(body);
    let answer = ask.send().await.unwrap();
    assert_eq!(answer.status(), StatusCode::PAYLOAD_TOO_LARGE);
}

#[tokio::test]
async fn numbers_are_for_those_who_may_see_them() {
    let site = Site::new().await;
    let path = site.url("/metrics");
    let answer = site.client(Some("jane")).get(&path).send().await.unwrap();
    assert_eq!(answer.status(), StatusCode::FORBIDDEN);
    let admin = site.client(Some("admin"));
    admin.get(site.url(SECRETS)).send().await.unwrap();
    let text = admin.get(&path).send().await.unwrap().text().await.unwrap();
    let line = "apiserver_request_total{verb=\"list\",resource=\"secrets\",code=\"200\"} 1";
    assert!(text.contains(line), "{text}");
    assert!(text.contains("apiserver_storage_request_seconds_count{operation=\"create\"}"));
}

#[tokio::test]
async fn stopping_ends_watches_cleanly_and_all_is_there_after_a_restart() {
    let site = Site::new().await;
    let admin = site.client(Some("admin"));
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kept"}});
    let maps = "/api/v1/namespaces/metal/configmaps";
    site.local.create(maps, &map).await.unwrap();
    let watch = admin
        .get(site.url(&format!("{maps}?watch=1")))
        .send()
        .await
        .unwrap();
    let Site {
        running,
        directory,
        local,
    } = site;
    drop(local);
    let stopped = tokio::spawn(running.stop());
    let told = timeout(PATIENCE, watch.text())
        .await
        .expect("the watch ends");
    assert!(told.is_ok(), "and not by a torn connection: {told:?}");
    timeout(PATIENCE, stopped).await.unwrap().unwrap();
    let running = Running::start(config(directory.path())).await.unwrap();
    let kept = running.local().get(&format!("{maps}/kept")).await.unwrap();
    assert_eq!(kept["metadata"]["name"], "kept");
}
