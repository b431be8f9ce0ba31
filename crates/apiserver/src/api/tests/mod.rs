//! The API from a client's side, without a network: requests go in, answers come out, on an embedded store.

mod definitions;
mod deletions;
mod lists;
mod questions;
mod watches;
mod writes;

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{Method, Request, header};
use bytes::Bytes;
use http_body_util::BodyExt;
use jiff::Timestamp;
use objects::Status;
use objects::access::{Ask, Decision, Rule, User};
use serde_json::{Value, json};

use super::kinds::Kinds;
use super::{Access, Api, Core, TokenWish, body};
use crate::store::{Embedded, Store};

/// One API on a store of its own.
struct Fixture {
    api: Api,
    core: Arc<Core>,
    user: User,
    stop: tokio::sync::watch::Sender<bool>,
    follower: tokio::task::JoinHandle<()>,
    directory: Arc<tempfile::TempDir>,
}

impl Drop for Fixture {
    fn drop(&mut self) {
        self.follower.abort();
    }
}

/// An answer: its code, its document and its warnings.
#[derive(Debug)]
struct Heard {
    code: u16,
    body: Value,
    warnings: Vec<String>,
}

impl Heard {
    fn ok(self) -> Value {
        assert!(
            (200..300).contains(&self.code),
            "{} {}",
            self.code,
            self.body
        );
        self.body
    }

    fn reason(&self) -> (u16, &str) {
        (self.code, self.body["reason"].as_str().unwrap_or(""))
    }

    fn message(&self) -> &str {
        self.body["message"].as_str().unwrap_or("")
    }
}

/// May do everything, except whom the table below names.
struct Doorman;

impl Access for Doorman {
    fn decide(&self, user: &User, ask: &Ask<'_>) -> Decision {
        let verb = match ask {
            Ask::Resource { verb, .. } | Ask::Path { verb, .. } => *verb,
        };
        match user.name.as_str() {
            "reader" if !matches!(verb, "get" | "list" | "watch") => Decision::NoOpinion,
            "nobody" => Decision::NoOpinion,
            _ => Decision::Allowed {
                reason: "by the test".into(),
            },
        }
    }

    fn rules(&self, _: &User, _: &str) -> Vec<Rule> {
        let all = || vec!["*".to_owned()];
        vec![Rule {
            verbs: all(),
            api_groups: all(),
            resources: all(),
            ..Rule::default()
        }]
    }

    fn check_write(&self, _: &User, _: &Value, _: Option<&Value>) -> Result<(), Status> {
        Ok(())
    }

    fn authenticate(&self, token: &str, _: &[String]) -> Option<User> {
        (token == "good").then(|| User {
            name: "jane".into(),
            ..User::default()
        })
    }

    fn issue(&self, wish: &TokenWish<'_>) -> Result<(String, Timestamp), Status> {
        Ok((
            format!("token of {}/{}", wish.namespace, wish.name),
            Timestamp::UNIX_EPOCH,
        ))
    }
}

/// With the namespaces `default` and `metal`, and every definition of ours.
async fn fixture() -> Fixture {
    let fixture = open(Arc::new(tempfile::tempdir().expect("a directory"))).await;
    for name in ["default", "metal"] {
        fixture
            .post(
                "/api/v1/namespaces",
                json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}),
            )
            .await
            .ok();
    }
    for definition in crd::all()
        .iter()
        .filter(|crd| matches!(crd.spec.names.kind.as_str(), "BareMetalHost" | "MachineSet"))
    {
        let definition = serde_json::to_value(definition).expect("a definition serialises");
        fixture
            .post(
                "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
                definition,
            )
            .await
            .ok();
    }
    fixture
}

/// On the store in this directory.
async fn open(directory: Arc<tempfile::TempDir>) -> Fixture {
    let store = Store::Embedded(Arc::new(
        Embedded::open(&directory.path().join("store")).expect("a store"),
    ));
    let kinds = Arc::new(Kinds::default());
    kinds.load(&store).await.expect("the definitions");
    let follower = tokio::spawn({
        let (kinds, store) = (Arc::clone(&kinds), store.clone());
        async move { kinds.run(&store).await }
    });
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let core = Arc::new(Core {
        store,
        kinds,
        access: Arc::new(Doorman),
        stop: stopped,
    });
    let user = User {
        name: "admin".into(),
        groups: vec!["system:masters".into()],
        ..User::default()
    };
    Fixture {
        api: Api::new(Arc::clone(&core)),
        core,
        user,
        stop,
        follower,
        directory,
    }
}

impl Fixture {
    /// The same store, opened anew.
    async fn restart(mut self) -> Self {
        let directory = Arc::clone(&self.directory);
        self.follower.abort();
        assert!(
            (&mut self.follower).await.is_err(),
            "it ends only by being told to"
        );
        drop(self);
        open(directory).await
    }

    async fn send(
        &self,
        method: Method,
        uri: &str,
        media: &str,
        accept: &str,
        body: Bytes,
    ) -> axum::http::Response<Body> {
        let request = Request::builder()
            .method(method)
            .uri(uri)
            .header(header::CONTENT_TYPE, media)
            .header(header::ACCEPT, accept)
            .header(header::USER_AGENT, "tester/1.0")
            .body(body)
            .expect("a request");
        self.api.handle(&self.user, request).await
    }

    async fn ask(&self, method: Method, uri: &str, media: &str, body: &Value) -> Heard {
        let body = if body.is_null() {
            Bytes::new()
        } else {
            Bytes::from(body.to_string())
        };
        heard(
            self.send(method, uri, media, "application/json", body)
                .await,
        )
        .await
    }

    async fn get(&self, uri: &str) -> Heard {
        self.ask(Method::GET, uri, body::JSON, &Value::Null).await
    }

    async fn post(&self, uri: &str, body: Value) -> Heard {
        self.ask(Method::POST, uri, body::JSON, &body).await
    }

    async fn put(&self, uri: &str, body: Value) -> Heard {
        self.ask(Method::PUT, uri, body::JSON, &body).await
    }

    async fn patch(&self, uri: &str, media: &str, body: Value) -> Heard {
        self.ask(Method::PATCH, uri, media, &body).await
    }

    async fn delete(&self, uri: &str, body: Value) -> Heard {
        self.ask(Method::DELETE, uri, body::JSON, &body).await
    }

    async fn get_as(&self, uri: &str, accept: &str) -> Heard {
        heard(
            self.send(Method::GET, uri, body::JSON, accept, Bytes::new())
                .await,
        )
        .await
    }

    async fn watch(&self, uri: &str) -> Watching {
        let response = self
            .send(
                Method::GET,
                uri,
                body::JSON,
                "application/json",
                Bytes::new(),
            )
            .await;
        assert_eq!(response.status(), 200, "{uri}");
        Watching {
            body: response.into_body(),
        }
    }
}

async fn heard(response: axum::http::Response<Body>) -> Heard {
    let warnings = response.headers().get_all("warning").iter();
    let warnings = warnings
        .map(|value| value.to_str().expect("text").to_owned())
        .collect();
    let code = response.status().as_u16();
    let bytes = response
        .into_body()
        .collect()
        .await
        .expect("a body")
        .to_bytes();
    let body = serde_json::from_slice(&bytes).unwrap_or_else(|_| panic!("not JSON: {bytes:?}"));
    Heard {
        code,
        body,
        warnings,
    }
}

/// A watch as a client sees it.
struct Watching {
    body: Body,
}

impl Watching {
    /// The next event; the end of the stream is null.
    async fn next(&mut self) -> Value {
        let frame = tokio::time::timeout(Duration::from_secs(10), self.body.frame())
            .await
            .expect("an event in time");
        let Some(frame) = frame else {
            return Value::Null;
        };
        let bytes = frame.expect("no error").into_data().expect("data");
        serde_json::from_slice(&bytes).expect("one document a line")
    }

    /// `ADDED a`, `BOOKMARK`.
    async fn next_line(&mut self) -> String {
        let event = self.next().await;
        let what = event["type"].as_str().unwrap_or("END");
        format!(
            "{what} {}",
            event["object"]["metadata"]["name"].as_str().unwrap_or("")
        )
        .trim_end()
        .to_owned()
    }
}

const SECRETS: &str = "/api/v1/namespaces/metal/secrets";
const MAPS: &str = "/api/v1/namespaces/metal/configmaps";
const HOSTS: &str = "/apis/metal3.io/v1alpha1/namespaces/metal/baremetalhosts";

fn map(name: &str, data: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})
}

fn host(name: &str, last: u8) -> Value {
    json!({
        "apiVersion": "metal3.io/v1alpha1",
        "kind": "BareMetalHost",
        "metadata": {"name": name},
        "spec": {
            "online": true,
            "bootMACAddress": format!("52:54:00:00:00:{last:02x}"),
            "bmc": {"address": format!("ipmi://192.0.2.{last}"), "credentialsName": "bmc"},
        },
    })
}
