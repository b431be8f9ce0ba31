//! Against a server that answers as it is told.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::Response;
use serde_json::json;

use super::*;

/// Answers in the order given, and what was asked.
#[derive(Clone, Default)]
struct Script {
    answers: Arc<Mutex<VecDeque<(u16, String)>>>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Script {
    fn of(answers: &[(u16, &str)]) -> Self {
        let script = Self::default();
        *script.answers.lock().unwrap() = answers
            .iter()
            .map(|(status, body)| (*status, (*body).to_owned()))
            .collect();
        script
    }

    async fn connect(&self, newest: &'static str) -> Result<Ironic, Error> {
        _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let app = Router::new()
            .fallback(
                move |State(script): State<Script>, request: Request| async move {
                    answer(&script, &request, newest)
                },
            )
            .with_state(self.clone());
        tokio::spawn(async move { axum::serve(listener, app).await });
        let mut config = Config::new(&address);
        config.limits.pause = std::time::Duration::from_millis(1);
        Ironic::connect(config).await
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

fn answer(script: &Script, request: &Request, newest: &'static str) -> Response<Body> {
    let version = request.headers()["x-openstack-ironic-api-version"]
        .to_str()
        .unwrap()
        .to_owned();
    let what = format!("{} {} {version}", request.method(), request.uri());
    let respond = |status: u16, body: String| {
        Response::builder()
            .status(status)
            .header("x-openstack-ironic-api-maximum-version", newest)
            .body(Body::from(body))
            .unwrap()
    };
    if request.uri().path() == "/v1" {
        return respond(200, "{}".into());
    }
    script.asked.lock().unwrap().push(what);
    let next = script.answers.lock().unwrap().pop_front();
    let (status, body) = next.unwrap_or((500, "nothing more to say".into()));
    respond(status, body)
}

const NODE: &str = r#"{"uuid": "6f1a3c2e-0000-4000-8000-000000000001", "provision_state": "manageable", "new": 1}"#;

#[tokio::test]
async fn the_newest_version_that_both_know_is_spoken() {
    for (theirs, expected) in [("1.115", 110), ("1.95", 95)] {
        let script = Script::of(&[(200, NODE)]);
        let ironic = script.connect(theirs).await.unwrap();
        assert_eq!(ironic.version(), expected);
        let node = ironic.node("a b/c").await.unwrap();
        assert!(node.rests_in("manageable"));
        assert_eq!(
            script.asked(),
            [format!("GET /v1/nodes/a%20b%2Fc 1.{expected}")]
        );
    }
    let old = Script::default().connect("1.58").await.unwrap_err();
    assert!(matches!(old, Error::TooOld { newest: 58, .. }), "{old}");
    let other = Script::default().connect("v2").await.unwrap_err();
    assert!(matches!(other, Error::NotIronic { .. }), "{other}");
}

#[tokio::test]
async fn a_locked_node_is_asked_again_and_a_duplicate_is_not() {
    let locked = r#"{"error_message": "{\"faultstring\": \"locked\"}"}"#;
    let script = Script::of(&[(409, locked), (503, locked), (202, ""), (409, locked)]);
    let ironic = script.connect("1.110").await.unwrap();
    ironic.provision("n", &Verb::Manage).await.unwrap();
    assert_eq!(script.asked().len(), 3);
    let error = ironic.create_node(&NewNode::default()).await.unwrap_err();
    assert_eq!(error.status(), Some(409));
    assert!(
        error.to_string().ends_with("answers 409: locked"),
        "{error}"
    );
    assert_eq!(script.asked().len(), 4);
}

#[tokio::test]
async fn what_is_not_there_is_none_and_nonsense_is_an_error() {
    let script = Script::of(&[(404, "{}"), (404, ""), (404, ""), (200, "[]")]);
    let ironic = script.connect("1.110").await.unwrap();
    assert_eq!(ironic.find_node("n").await.unwrap(), None);
    ironic.delete_node("n").await.unwrap();
    assert_eq!(ironic.inventory("n").await.unwrap(), None);
    let error = ironic.node("n").await.unwrap_err();
    assert!(matches!(error, Error::NotUnderstood { .. }), "{error}");
}

#[test]
fn verbs_are_written_as_ironic_reads_them() {
    let step = |priority| Step {
        interface: "deploy".into(),
        step: "install_coreos".into(),
        args: serde_json::Map::new(),
        priority,
    };
    let deploy = Deploy {
        config_drive: Some(ConfigDrive {
            user_data: Some("{}".into()),
            ..ConfigDrive::default()
        }),
        steps: vec![step(Some(80))],
    };
    assert_eq!(
        serde_json::to_value(&deploy.config_drive).unwrap(),
        json!({"meta_data": {}, "user_data": "{}"})
    );
    assert_eq!(
        json!(deploy.steps),
        json!([{"interface": "deploy", "step": "install_coreos", "args": {}, "priority": 80}])
    );
    assert_eq!(json!(step(None)).get("priority"), None);
    assert_eq!(
        json!([Patch::add("/extra/a", 1), Patch::remove("/name")]),
        json!([{"op": "add", "path": "/extra/a", "value": 1}, {"op": "remove", "path": "/name"}])
    );
}
