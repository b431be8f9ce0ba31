//! A BMC on loopback whose answers a test writes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue, Response};
use model::Secret;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::redfish::{Client, Config, Limits};

/// What came in.
#[derive(Debug, Clone)]
pub struct Seen {
    pub method: String,
    pub path: String,
    pub token: Option<String>,
    pub basic: bool,
    pub if_match: Option<String>,
    pub body: Value,
    pub empty: bool,
    /// How often this method and path came before.
    pub before: usize,
}

pub struct Answer {
    pub status: u16,
    pub headers: Vec<(&'static str, String)>,
    pub body: String,
}

#[expect(clippy::needless_pass_by_value, reason = "tests write `ok(json!(…))`")]
pub fn ok(body: Value) -> Answer {
    Answer {
        status: 200,
        headers: vec![],
        body: body.to_string(),
    }
}

pub fn status(status: u16) -> Answer {
    Answer {
        status,
        headers: vec![],
        body: String::new(),
    }
}

pub fn refusal(status: u16, id: &str, message: &str) -> Answer {
    let body = json!({"error": {"code": id, "message": message, "@Message.ExtendedInfo": [{"MessageId": id, "Message": message}]}});
    Answer {
        status,
        headers: vec![],
        body: body.to_string(),
    }
}

impl Answer {
    pub fn with(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.to_string()));
        self
    }
}

type Play = dyn Fn(&Seen) -> Option<Answer> + Send + Sync;

#[derive(Clone)]
struct Stage {
    play: Arc<Play>,
    log: Arc<Mutex<Vec<Seen>>>,
}

pub struct Fake {
    pub url: String,
    log: Arc<Mutex<Vec<Seen>>>,
}

impl Fake {
    /// A plain BMC with one server, but for what `play` answers itself.
    pub async fn start(play: impl Fn(&Seen) -> Option<Answer> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let log = Arc::new(Mutex::new(vec![]));
        let stage = Stage {
            play: Arc::new(play),
            log: Arc::clone(&log),
        };
        let app = Router::new().fallback(handle).with_state(stage);
        tokio::spawn(async move { axum::serve(listener, app).await });
        Self { url, log }
    }

    pub fn client(&self) -> Client {
        self.client_with(|_| {})
    }

    pub fn client_with(&self, change: impl FnOnce(&mut Config)) -> Client {
        let mut config = Config::new(&self.url, "admin", Secret::new("hunter2".into())).unwrap();
        config.limits = Limits {
            answer: Duration::from_secs(5),
            tries: 3,
            pause: Duration::from_millis(2),
            poll: Duration::from_millis(2),
            power_change: Duration::from_millis(300),
            task: Duration::from_millis(300),
            body_bytes: 20_000,
            ..Limits::default()
        };
        change(&mut config);
        Client::new(config).unwrap()
    }

    /// Requests so far, as `METHOD path`, logins and the service root left out.
    pub fn log(&self) -> Vec<String> {
        let logins = |seen: &&Seen| !seen.path.contains("Session") && seen.path != "/redfish/v1/";
        self.seen()
            .iter()
            .filter(logins)
            .map(|seen| format!("{} {}", seen.method, seen.path))
            .collect()
    }

    pub fn seen(&self) -> Vec<Seen> {
        self.log.lock().unwrap().clone()
    }

    pub fn count(&self, method: &str, path: &str) -> usize {
        self.seen()
            .iter()
            .filter(|seen| seen.method == method && seen.path == path)
            .count()
    }

    /// The bodies of all requests of this method and path.
    pub fn bodies(&self, method: &str, path: &str) -> Vec<Value> {
        let fits = |seen: &Seen| seen.method == method && seen.path == path;
        self.seen()
            .into_iter()
            .filter(fits)
            .map(|seen| seen.body)
            .collect()
    }
}

async fn handle(State(stage): State<Stage>, request: Request) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let header = |name: &str| {
        parts
            .headers
            .get(name)
            .and_then(|value| value.to_str().ok())
            .map(ToString::to_string)
    };
    let bytes = to_bytes(body, 1 << 20).await.unwrap();
    let (method, path) = (parts.method.to_string(), parts.uri.path().to_string());
    let seen = {
        let mut log = stage.log.lock().unwrap();
        let before = log
            .iter()
            .filter(|seen| seen.method == method && seen.path == path)
            .count();
        let seen = Seen {
            method,
            path,
            token: header("x-auth-token"),
            basic: header("authorization").is_some_and(|text| text.starts_with("Basic ")),
            if_match: header("if-match"),
            body: serde_json::from_slice(&bytes).unwrap_or(Value::Null),
            empty: bytes.is_empty(),
            before,
        };
        log.push(seen.clone());
        seen
    };
    let answer = (stage.play)(&seen).unwrap_or_else(|| plain(&seen));
    let mut response = Response::new(Body::from(answer.body));
    *response.status_mut() = answer.status.try_into().unwrap();
    for (name, value) in answer.headers {
        response.headers_mut().insert(
            HeaderName::from_static(name),
            HeaderValue::from_str(&value).unwrap(),
        );
    }
    response
}

pub const SYSTEM: &str = "/redfish/v1/Systems/1";

/// What a BMC without habits answers.
fn plain(seen: &Seen) -> Answer {
    let resources: BTreeMap<&str, Value> = BTreeMap::from([
        (
            "/redfish/v1/",
            json!({"Systems": {"@odata.id": "/redfish/v1/Systems"}, "Links": {"Sessions": {"@odata.id": "/sessions/Session"}}}),
        ),
        (
            "/redfish/v1/Systems",
            json!({"Members": [{"@odata.id": SYSTEM}]}),
        ),
        (SYSTEM, system()),
    ]);
    match (seen.method.as_str(), seen.path.as_str()) {
        ("POST", "/sessions/Session") => status(201)
            .with("x-auth-token", &format!("token-{}", seen.before))
            .with("location", "/sessions/Session/7"),
        ("GET", path) => resources
            .get(path)
            .map_or_else(|| status(404), |body| ok(body.clone())),
        _ => status(204),
    }
}

pub fn system() -> Value {
    json!({
        "Id": "1", "PowerState": "Off", "Manufacturer": "Acme",
        "Boot": {"BootSourceOverrideTarget": "None", "BootSourceOverrideEnabled": "Disabled", "BootSourceOverrideMode": "UEFI",
                 "BootSourceOverrideTarget@Redfish.AllowableValues": ["None", "Pxe", "Hdd", "Cd"]},
        "Actions": {"#ComputerSystem.Reset": {"target": "/redfish/v1/Systems/1/Actions/ComputerSystem.Reset"}},
        "VirtualMedia": {"@odata.id": "/redfish/v1/Systems/1/VirtualMedia"},
        "Links": {"ManagedBy": []},
    })
}

/// The system with something changed.
pub fn system_with(change: impl FnOnce(&mut Value)) -> Answer {
    let mut system = system();
    change(&mut system);
    ok(system)
}
