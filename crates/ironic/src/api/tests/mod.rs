//! The API as clients meet it, without a network between.

mod agents;
mod guards;
mod kept;
mod lists;
mod nodes;
mod refusals;
mod totality;
mod verbs;

use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::{HeaderMap, Request, StatusCode};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use crate::config::Config;
use crate::server::Server;

/// A service with its state in a directory of its own.
pub struct Api {
    server: Server,
    _dir: tempfile::TempDir,
}

/// What came back.
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub text: String,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    /// The text inside the text, after checking that both have the shape clients parse.
    pub fn fault(&self) -> String {
        let outer = self.json();
        assert_eq!(outer.as_object().unwrap().len(), 1, "{outer}");
        let inner: Value = serde_json::from_str(outer["error_message"].as_str().unwrap()).unwrap();
        let code = if self.status.is_server_error() {
            "Server"
        } else {
            "Client"
        };
        assert_eq!(inner["faultcode"], code, "{inner}");
        assert_eq!(inner["debuginfo"], Value::Null);
        assert_eq!(inner.as_object().unwrap().len(), 3, "{inner}");
        inner["faultstring"].as_str().unwrap().to_owned()
    }

    pub fn is(self, status: u16) -> Self {
        assert_eq!(self.status.as_u16(), status, "{}", self.text);
        self
    }
}

impl Api {
    pub async fn new() -> Self {
        Self::with("{}").await
    }

    pub async fn with(settings: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut config = Config::parse(settings, "test".as_ref()).unwrap();
        config.state = dir.path().join("ironic.redb");
        Self {
            server: Server::start(&config).await.unwrap(),
            _dir: dir,
        }
    }

    pub async fn send(&self, request: Request<Body>) -> Answer {
        let answer = self.server.router().oneshot(request).await.unwrap();
        let (parts, body) = answer.into_parts();
        let text = String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap();
        Answer {
            status: parts.status,
            headers: parts.headers,
            text,
        }
    }

    /// `call` is a method and a path: `GET /v1/nodes`.
    pub async fn at(&self, version: &str, call: &str, body: Value) -> Answer {
        let (method, path) = call.split_once(' ').unwrap();
        let body = if body.is_null() {
            Body::empty()
        } else {
            Body::from(body.to_string())
        };
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", "metal:6385")
            .header("x-openstack-ironic-api-version", version);
        self.send(request.body(body).unwrap()).await
    }

    pub async fn call(&self, call: &str, body: Value) -> Answer {
        self.at("1.110", call, body).await
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.call(&format!("GET {path}"), Value::Null).await
    }

    /// Enrols a node of this name.
    pub async fn node(&self, name: &str) -> String {
        let body = json!({"driver": "fake-hardware", "name": name});
        let answer = self.call("POST /v1/nodes", body).await.is(201);
        answer.json()["uuid"].as_str().unwrap().to_owned()
    }

    /// Asks a verb of a node and waits until it has reached a state.
    pub async fn verb(&self, node: &str, verb: &str, state: &str) {
        self.call(
            &format!("PUT /v1/nodes/{node}/states/provision"),
            json!({"target": verb}),
        )
        .await
        .is(202);
        self.reaches(node, state).await;
    }

    pub async fn reaches(&self, node: &str, state: &str) {
        self.until(node, |node| {
            node["provision_state"] == state && node["reservation"].is_null()
        })
        .await;
    }

    /// Waits for something to be true of a node.
    pub async fn until(&self, node: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            let seen = self.get(&format!("/v1/nodes/{node}")).await.is(200).json();
            if wanted(&seen) {
                return seen;
            }
            assert!(
                Instant::now() < deadline,
                "it never came; last seen: {seen:#}"
            );
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// A node that has come as far as `available`.
    pub async fn available(&self, name: &str) -> String {
        let node = self.node(name).await;
        self.verb(&node, "manage", "manageable").await;
        self.verb(&node, "provide", "available").await;
        node
    }
}
