//! What a person or a monitor may ask, on the loopback: health, metrics, status, and a planned move.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde::Deserialize;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};

use crate::Status;

/// What only the owner of netd can answer.
#[derive(Debug)]
pub enum Request {
    Status(oneshot::Sender<Status>),
    Resign {
        vip: String,
        hold_off: Option<Duration>,
        answer: oneshot::Sender<Result<(), String>>,
    },
}

const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Debug, thiserror::Error)]
#[error("could not serve status and metrics on {address}")]
pub struct Error {
    address: SocketAddr,
    source: std::io::Error,
}

/// Serves until the task is aborted.
pub async fn serve(
    address: SocketAddr,
    requests: mpsc::Sender<Request>,
) -> Result<tokio::task::JoinHandle<()>, Error> {
    let listener = TcpListener::bind(address)
        .await
        .map_err(|source| Error { address, source })?;
    let app = Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        .route("/status", get(status))
        .route("/resign/{vip}", post(resign))
        .with_state(requests);
    Ok(tokio::spawn(async move {
        if let Err(error) = axum::serve(listener, app).await {
            tracing::error!(%error, "status and metrics are not served any more");
        }
    }))
}

type Requests = State<mpsc::Sender<Request>>;

async fn ask(requests: &mpsc::Sender<Request>) -> Result<Status, StatusCode> {
    let (answer, status) = oneshot::channel();
    let asked = async {
        requests.send(Request::Status(answer)).await.ok()?;
        status.await.ok()
    };
    let answered = tokio::time::timeout(PATIENCE, asked).await;
    answered
        .ok()
        .flatten()
        .ok_or(StatusCode::SERVICE_UNAVAILABLE)
}

/// Ready when nothing waits for something else to come right.
async fn ready(State(requests): Requests) -> Response {
    match ask(&requests).await {
        Err(status) => status.into_response(),
        Ok(status) => match status.problems() {
            problems if problems.is_empty() => "ok\n".into_response(),
            problems => {
                let text = problems.join("\n") + "\n";
                (StatusCode::SERVICE_UNAVAILABLE, text).into_response()
            }
        },
    }
}

async fn status(State(requests): Requests) -> Response {
    match ask(&requests).await {
        Err(status) => status.into_response(),
        Ok(status) => axum::Json(status).into_response(),
    }
}

async fn metrics(State(requests): Requests) -> Response {
    match ask(&requests).await {
        Err(status) => status.into_response(),
        Ok(status) => {
            let kind = "text/plain; version=0.0.4";
            ([(header::CONTENT_TYPE, kind)], render(&status)).into_response()
        }
    }
}

#[derive(Deserialize)]
struct HoldOff {
    for_ms: Option<u64>,
}

/// Asks for a header that no web page can send to us unasked.
pub const ON_PURPOSE: &str = "x-plinth";

async fn resign(
    State(requests): Requests,
    Path(vip): Path<String>,
    Query(query): Query<HoldOff>,
    headers: HeaderMap,
) -> Response {
    if !headers.contains_key(ON_PURPOSE) {
        let why = format!("the header {ON_PURPOSE} is missing\n");
        return (StatusCode::FORBIDDEN, why).into_response();
    }
    let (answer, done) = oneshot::channel();
    let request = Request::Resign {
        vip,
        hold_off: query.for_ms.map(Duration::from_millis),
        answer,
    };
    let asked = async {
        requests.send(request).await.ok()?;
        done.await.ok()
    };
    match tokio::time::timeout(PATIENCE, asked).await {
        Ok(Some(Ok(()))) => "ok\n".into_response(),
        Ok(Some(Err(why))) => (StatusCode::NOT_FOUND, why + "\n").into_response(),
        Ok(None) | Err(_) => StatusCode::SERVICE_UNAVAILABLE.into_response(),
    }
}

type Value = fn(&crate::status::Listener) -> u64;

fn render(status: &Status) -> String {
    let mut text = String::new();
    let mut family = |name: &str, kind: &str, lines: Vec<(String, u64)>| {
        let _ = writeln!(text, "# TYPE plinth_netd_{name} {kind}");
        for (labels, value) in lines {
            let _ = writeln!(text, "plinth_netd_{name}{{{labels}}} {value}");
        }
    };
    let checks = status.checks.iter();
    let lines = checks.map(|(name, passes)| (format!("check={name:?}"), u64::from(*passes)));
    family("check_passes", "gauge", lines.collect());
    let vips = || status.vips.iter();
    let vip = |vip: &crate::status::Vip| format!("vip={:?},address=\"{}\"", vip.name, vip.address);
    let lines = vips().map(|each| (vip(each), u64::from(each.role == "active")));
    family("vip_active", "gauge", lines.collect());
    let lines = vips().map(|each| (vip(each), u64::from(each.priority.unwrap_or(0))));
    family("vip_priority", "gauge", lines.collect());
    let lines = vips().flat_map(|each| {
        let refused = each.refused.iter();
        refused.map(move |(why, count)| (format!("{},reason={why:?}", vip(each)), *count))
    });
    family("vip_packets_refused_total", "counter", lines.collect());
    let listeners = || status.lb.iter();
    let of = |listener: &crate::status::Listener| format!("listener={:?}", listener.name);
    let values: [(&str, &str, Value); 10] = [
        ("lb_listening", "gauge", |it| u64::from(it.listening)),
        ("lb_connections", "gauge", |it| it.connections as u64),
        ("lb_accepted_total", "counter", |it| it.accepted),
        ("lb_retried_total", "counter", |it| it.retried),
        ("lb_refused_total", "counter", |it| it.refused),
        ("lb_no_backend_total", "counter", |it| it.no_backend),
        ("lb_timed_out_total", "counter", |it| it.timed_out),
        ("lb_cut_total", "counter", |it| it.cut),
        ("lb_bytes_up_total", "counter", |it| it.bytes_up),
        ("lb_bytes_down_total", "counter", |it| it.bytes_down),
    ];
    for (name, kind, value) in values {
        let lines = listeners().map(|each| (of(each), value(each)));
        family(name, kind, lines.collect());
    }
    let backends = || {
        listeners().flat_map(|listener| {
            let labelled = |backend: &crate::status::Backend| {
                format!(
                    "{},backend={:?},address=\"{}\"",
                    of(listener),
                    backend.name,
                    backend.address
                )
            };
            listener
                .backends
                .iter()
                .map(move |each| (labelled(each), each))
        })
    };
    let lines = backends().map(|(labels, each)| (labels, u64::from(each.health == "up")));
    family("lb_backend_up", "gauge", lines.collect());
    let lines = backends().map(|(labels, each)| (labels, u64::from(each.connections)));
    family("lb_backend_connections", "gauge", lines.collect());
    let lines = backends().map(|(labels, each)| (labels, each.total));
    family("lb_backend_connections_total", "counter", lines.collect());
    let lines = backends().map(|(labels, each)| (labels, each.connect_failures));
    family(
        "lb_backend_connect_failures_total",
        "counter",
        lines.collect(),
    );
    let count = status.members.len() as u64;
    family("members", "gauge", vec![(String::new(), count)]);
    text.replace("{}", "")
}
