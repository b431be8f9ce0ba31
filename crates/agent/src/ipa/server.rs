//! The agent's own API: HTTPS on port 9999, spoken by Ironic.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::header::CONTENT_TYPE;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use uuid::Uuid;

use super::command::Commands;
use super::token::Gate;
use super::work::Command;

/// What the API works upon.
pub struct Api {
    pub gate: Gate,
    pub commands: Arc<Commands>,
    /// To the one who runs commands.
    pub orders: mpsc::Sender<Order>,
    pub started: SystemTime,
}

/// Something for the owner of the API to do.
#[derive(Debug)]
pub enum Order {
    /// Run this command, which is already in the list.
    Run {
        id: Uuid,
        command: Command,
        params: Value,
    },
    /// Ironic spoke to us and knew the token.
    Heard,
}

/// A config drive may travel inside a command: 64 MiB as base64, and the rest.
const BODY: usize = 96 << 20;
const HEAD: Duration = Duration::from_secs(20);
const UPLOAD: Duration = Duration::from_mins(2);
const CONNECTIONS: usize = 32;
/// The caller of a synchronous command has given up long before.
const LONGEST_WAIT: Duration = Duration::from_mins(10);

/// Serves until dropped.
pub async fn run(listener: TcpListener, tls: TlsAcceptor, api: Arc<Api>) {
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        let Ok(permit) = room.clone().acquire_owned().await else {
            return;
        };
        let socket = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = connections.join_next() => {
                continue;
            }
        };
        match socket {
            Ok((socket, _)) => {
                let (tls, api) = (tls.clone(), api.clone());
                connections.spawn(async move {
                    if let Err(error) = connection(socket, tls, api).await {
                        tracing::debug!(error = %error, "connection to the agent's API");
                    }
                    drop(permit);
                });
            }
            Err(error) => {
                // Out of descriptors, mostly: others must end first.
                tracing::warn!(error = %error, "accepting connections");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn connection(socket: TcpStream, tls: TlsAcceptor, api: Arc<Api>) -> io::Result<()> {
    let _ = socket.set_nodelay(true);
    let stream = tokio::time::timeout(HEAD, tls.accept(socket)).await??;
    let serve = service_fn(move |request| {
        let api = api.clone();
        async move { Ok::<_, Infallible>(api.answer(request).await) }
    });
    hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .serve_connection(TokioIo::new(stream), serve)
        .await
        .map_err(io::Error::other)
}

struct Query {
    wait: bool,
    token: Option<String>,
}

impl Query {
    fn parse(query: Option<&str>) -> Self {
        let mut found = Self {
            wait: false,
            token: None,
        };
        let url = format!("http://agent/?{}", query.unwrap_or_default());
        let Ok(url) = reqwest::Url::parse(&url) else {
            return found;
        };
        for (name, value) in url.query_pairs() {
            match &*name {
                "wait" => found.wait = value.eq_ignore_ascii_case("true"),
                "agent_token" => found.token = Some(value.into_owned()),
                _ => {}
            }
        }
        found
    }
}

type Answer = Response<Full<Bytes>>;

impl Api {
    async fn answer(&self, request: Request<Incoming>) -> Answer {
        let path = request.uri().path().trim_matches('/').to_owned();
        let parts: Vec<&str> = path.split('/').collect();
        let query = Query::parse(request.uri().query());
        match (request.method(), parts.as_slice()) {
            (&Method::GET, [""]) => json_answer(StatusCode::OK, &root()),
            (&Method::GET, ["v1"]) => json_answer(StatusCode::OK, &v1()),
            (&Method::GET, ["v1", "status"]) => json_answer(StatusCode::OK, &self.status()),
            (&Method::GET, ["v1", "commands"]) => match self.reader(&query) {
                Ok(()) => json_answer(StatusCode::OK, &self.commands.all()),
                Err(refused) => *refused,
            },
            (&Method::GET, ["v1", "commands", id]) => match self.reader(&query) {
                Ok(()) => self.command(id, query.wait).await,
                Err(refused) => *refused,
            },
            (&Method::POST, ["v1", "commands"]) => self.execute(request, query).await,
            (_, ["" | "v1"] | ["v1", "status" | "commands"] | ["v1", "commands", _]) => fault(
                StatusCode::METHOD_NOT_ALLOWED,
                "the method is not allowed here",
            ),
            _ => fault(StatusCode::NOT_FOUND, "there is nothing here"),
        }
    }

    fn status(&self) -> Value {
        let since = self.started.duration_since(UNIX_EPOCH).unwrap_or_default();
        json!({"started_at": since.as_secs_f64(), "version": env!("CARGO_PKG_VERSION")})
    }

    fn reader(&self, query: &Query) -> Result<(), Box<Answer>> {
        let token = query.token.as_deref();
        if !self.gate.may_read(token) {
            let refused = fault(StatusCode::UNAUTHORIZED, "Token invalid.");
            return Err(Box::new(refused));
        }
        if token.is_some() {
            self.heard();
        }
        Ok(())
    }

    /// If the queue is full, somebody was heard already.
    fn heard(&self) {
        let _ = self.orders.try_send(Order::Heard);
    }

    async fn command(&self, id: &str, wait: bool) -> Answer {
        let unknown = || fault(StatusCode::NOT_FOUND, "there is no command with this id");
        let Ok(id) = id.parse() else {
            return unknown();
        };
        let found = if wait {
            self.commands.wait(id, LONGEST_WAIT).await
        } else {
            self.commands.get(id)
        };
        found.map_or_else(unknown, |command| json_answer(StatusCode::OK, &command))
    }

    async fn execute(&self, request: Request<Incoming>, query: Query) -> Answer {
        // Before the body: strangers do not get to fill our memory.
        if !self.gate.may_command(query.token.as_deref()) {
            return fault(StatusCode::UNAUTHORIZED, "Token invalid.");
        }
        self.heard();
        let body = tokio::time::timeout(UPLOAD, Limited::new(request.into_body(), BODY).collect());
        let body = match body.await {
            Ok(Ok(body)) => body.to_bytes(),
            Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => {
                return fault(
                    StatusCode::PAYLOAD_TOO_LARGE,
                    "the command is larger than 96 MiB",
                );
            }
            Ok(Err(error)) => return fault(StatusCode::BAD_REQUEST, &format!("body: {error}")),
            Err(_) => return fault(StatusCode::REQUEST_TIMEOUT, "the command did not arrive"),
        };
        let (name, params) = match parse(&body) {
            Ok(parsed) => parsed,
            Err(why) => return fault(StatusCode::BAD_REQUEST, &why),
        };
        let Some(command) = Command::parse(&name) else {
            return fault(
                StatusCode::BAD_REQUEST,
                &format!("command {name:?} is not known"),
            );
        };
        let id = match self.commands.begin(&name) {
            Ok(id) => id,
            Err(busy) => return fault(StatusCode::CONFLICT, &busy.to_string()),
        };
        tracing::info!(command = name, "command");
        let order = Order::Run {
            id,
            command,
            params,
        };
        if self.orders.send(order).await.is_err() {
            return fault(StatusCode::SERVICE_UNAVAILABLE, "the agent is ending");
        }
        let shown = if command.is_synchronous() || query.wait {
            self.commands.wait(id, LONGEST_WAIT).await
        } else {
            self.commands.get(id)
        };
        json_answer(StatusCode::OK, &shown.unwrap_or(Value::Null))
    }
}

fn parse(body: &[u8]) -> Result<(String, Value), String> {
    let mut value: Value = serde_json::from_slice(body)
        .map_err(|error| format!("the command is not JSON: {error}"))?;
    let Some(name) = value["name"].as_str().map(str::to_owned) else {
        return Err("the command has no name".into());
    };
    match value.get_mut("params").map(Value::take) {
        None | Some(Value::Null) => Ok((name, json!({}))),
        Some(params @ Value::Object(_)) => Ok((name, params)),
        Some(_) => Err("params is not an object".into()),
    }
}

fn root() -> Value {
    json!({
        "name": "OpenStack Ironic Python Agent API",
        "description": "Plinth's agent, as Ironic knows it",
        "versions": [{"id": "v1", "links": [{"rel": "self", "href": "/v1/"}]}],
        "default_version": {"id": "v1", "links": [{"rel": "self", "href": "/v1/"}]},
    })
}

fn v1() -> Value {
    json!({
        "commands": [{"rel": "self", "href": "/v1/commands/"}],
        "status": [{"rel": "self", "href": "/v1/status/"}],
        "links": [{"rel": "self", "href": "/v1/"}],
        "media_types": [{"base": "application/json"}],
    })
}

fn fault(status: StatusCode, why: &str) -> Answer {
    let code = if status.is_client_error() {
        "Client"
    } else {
        "Server"
    };
    json_answer(status, &json!({ "faultcode": code, "faultstring": why }))
}

fn json_answer(status: StatusCode, value: &Value) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::from(value.to_string())));
    *answer.status_mut() = status;
    let json = hyper::header::HeaderValue::from_static("application/json");
    answer.headers_mut().insert(CONTENT_TYPE, json);
    answer
}
