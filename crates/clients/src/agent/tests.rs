//! The client against an agent made for the purpose, over TLS on the loopback.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::routing::get;
use axum::{Json, Router};
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use model::Secret;
use proptest::prelude::*;
use rustls::pki_types::PrivateKeyDer;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::{Client, Command, Config, Error, Limits, Status};

const TOKEN: &str = "a token that is long enough to be one";

#[derive(Default)]
struct Agent {
    commands: Vec<Value>,
    /// Connections that are cut after the command was taken, and answers "busy".
    cuts: u32,
    busy: u32,
}

type Shared = Arc<Mutex<Agent>>;

struct Running {
    agent: Shared,
    address: String,
    certificate: String,
}

impl Running {
    async fn start() -> Self {
        let made = rcgen::generate_simple_self_signed(["elsewhere".to_owned()]).unwrap();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let tls = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .unwrap();
        let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(tls));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("https://{}", listener.local_addr().unwrap());
        let agent = Shared::default();
        let app = Router::new()
            .route("/v1/commands/", get(list).post(run))
            .with_state(Arc::clone(&agent));
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (acceptor, app) = (acceptor.clone(), app.clone());
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else {
                        return;
                    };
                    _ = hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(app))
                        .await;
                });
            }
        });
        Self {
            agent,
            address,
            certificate: made.cert.pem(),
        }
    }

    fn client_of(&self, certificate: &str, token: &str) -> Client {
        let limits = Limits {
            pause: Duration::from_millis(1),
            poll: Duration::from_millis(1),
            busy: Duration::from_millis(200),
            ..Limits::default()
        };
        let config = Config {
            address: self.address.clone(),
            certificate: certificate.to_owned(),
            token: Secret::new(token.to_owned()),
            limits,
        };
        Client::new(config).unwrap()
    }

    fn client(&self) -> Client {
        self.client_of(&self.certificate, TOKEN)
    }
}

type Args = Query<std::collections::HashMap<String, String>>;

fn stranger(args: &Args) -> Option<(StatusCode, Json<Value>)> {
    let fault = json!({"faultcode": "Client", "faultstring": "Token invalid."});
    (args.get("agent_token").map(String::as_str) != Some(TOKEN))
        .then_some((StatusCode::UNAUTHORIZED, Json(fault)))
}

async fn list(State(agent): State<Shared>, args: Args) -> (StatusCode, Json<Value>) {
    if let Some(refused) = stranger(&args) {
        return refused;
    }
    let mut agent = agent.lock().unwrap();
    let shown = json!({"commands": agent.commands});
    // What runs is over at the next look.
    for command in &mut agent.commands {
        command["command_status"] = "SUCCEEDED".into();
    }
    (StatusCode::OK, Json(shown))
}

async fn run(
    State(agent): State<Shared>,
    args: Args,
    body: Json<Value>,
) -> (StatusCode, Json<Value>) {
    if let Some(refused) = stranger(&args) {
        return refused;
    }
    let mut agent = agent.lock().unwrap();
    if agent.busy > 0 {
        agent.busy -= 1;
        let fault = json!({"faultcode": "Client", "faultstring": "Agent is busy"});
        return (StatusCode::CONFLICT, Json(fault));
    }
    let name = body["name"].as_str().unwrap().rsplit('.').next().unwrap();
    let id = agent.commands.len().to_string();
    let status = if args.get("wait").map(String::as_str) == Some("true") {
        "SUCCEEDED"
    } else {
        "RUNNING"
    };
    let mut command = json!({"id": id, "command_name": name, "command_status": status,
                             "command_error": null, "command_result": {"got": body["params"]}});
    if body["params"]["fail"] == true {
        command["command_status"] = "FAILED".into();
        command["command_error"] =
            json!({"type": "T", "code": 500, "message": "broken", "details": "broken: disk"});
    }
    agent.commands.push(command.clone());
    if agent.cuts > 0 {
        agent.cuts -= 1;
        drop(agent);
        panic!("the connection is cut");
    }
    (StatusCode::OK, Json(command))
}

#[tokio::test]
async fn a_command_runs_and_its_failure_is_told() {
    let running = Running::start().await;
    let client = running.client();
    let result = client.run("a.b", &json!({"x": 1})).await.unwrap();
    assert_eq!(result, json!({"got": {"x": 1}}));
    let error = client.run("a.b", &json!({"fail": true})).await.unwrap_err();
    assert_eq!(error.to_string(), "a.b failed: broken: disk");
    assert_eq!(
        client
            .see_through("a.c", &json!({}), Duration::from_secs(5))
            .await
            .unwrap(),
        json!({"got": {}})
    );
}

#[tokio::test]
async fn only_the_pinned_certificate_is_talked_to_and_the_token_is_never_told() {
    let running = Running::start().await;
    let other = rcgen::generate_simple_self_signed(["elsewhere".to_owned()]).unwrap();
    let error = running
        .client_of(&other.cert.pem(), TOKEN)
        .commands()
        .await
        .unwrap_err();
    assert!(matches!(error, Error::Stranger { .. }), "{error}");
    let error = running
        .client_of(&running.certificate, "a wrong token")
        .commands()
        .await
        .unwrap_err();
    assert!(
        matches!(error, Error::Refused { status: 401, .. }),
        "{error}"
    );
    let gone = Running {
        address: "https://127.0.0.1:1".into(),
        ..running
    };
    let error = gone.client().commands().await.unwrap_err();
    assert!(
        matches!(error, Error::Unreachable { tries: 3, .. }) && error.passing(),
        "{error}"
    );
    assert!(
        !model::chain(&error).contains("token"),
        "{}",
        model::chain(&error)
    );
}

#[tokio::test]
async fn a_start_whose_answer_was_lost_is_not_repeated() {
    let running = Running::start().await;
    let client = running.client();
    client
        .run("deploy.execute_deploy_step", &json!({}))
        .await
        .unwrap();
    running.agent.lock().unwrap().cuts = 1;
    let command = client
        .start("deploy.execute_deploy_step", &json!({}), Some("0"))
        .await
        .unwrap();
    assert_eq!(
        (command.id.as_str(), command.name()),
        ("1", "execute_deploy_step")
    );
    let again = client
        .start("deploy.execute_deploy_step", &json!({}), Some("0"))
        .await
        .unwrap();
    assert_eq!(again.id, "1");
    assert_eq!(running.agent.lock().unwrap().commands.len(), 2);
}

#[tokio::test]
async fn a_busy_agent_is_waited_for_but_not_for_ever() {
    let running = Running::start().await;
    running.agent.lock().unwrap().busy = 3;
    running
        .client()
        .start("a.b", &json!({}), None)
        .await
        .unwrap();
    running.agent.lock().unwrap().busy = u32::MAX;
    let error = running
        .client()
        .start("a.c", &json!({}), None)
        .await
        .unwrap_err();
    assert!(
        matches!(error, Error::Busy { .. }) && error.passing(),
        "{error}"
    );
}

#[test]
fn what_cannot_be_an_agent_is_refused() {
    for address in ["http://192.0.2.7:9999", "nonsense", ""] {
        let config = Config {
            address: address.into(),
            certificate: String::new(),
            token: Secret::new(String::new()),
            limits: Limits::default(),
        };
        assert!(
            matches!(Client::new(config), Err(Error::Address { .. })),
            "{address}"
        );
    }
}

proptest! {
    #[test]
    fn any_error_and_status_is_read(kind in ".{0,8}", message in ".{0,8}", status in ".{0,8}") {
        let command: Command = serde_json::from_value(json!({
            "id": "1", "command_name": "a", "command_status": status,
            "command_error": {"type": kind, "message": message}, "command_result": null})).unwrap();
        prop_assert!(command.status != Status::Succeeded || status == "SUCCEEDED");
        prop_assert!(!command.trouble().is_empty());
    }
}
