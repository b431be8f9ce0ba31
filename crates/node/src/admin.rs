//! What a person or a monitor may ask, on the loopback.

use std::net::SocketAddr;

use axum::Router;
use axum::extract::{RawQuery, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::Status;

#[derive(Debug, thiserror::Error)]
#[error("could not serve status and metrics on {address}")]
pub struct Error {
    address: SocketAddr,
    source: std::io::Error,
}

/// Serves until it is dropped, the last status there is.
pub async fn serve(
    address: SocketAddr,
    status: watch::Receiver<Status>,
) -> Result<impl Future<Output = ()>, Error> {
    let listener = TcpListener::bind(address)
        .await
        .map_err(|source| Error { address, source })?;
    let app = Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        .route("/status", get(whole))
        .with_state(status);
    Ok(async move {
        if let Err(error) = axum::serve(listener, app).await {
            tracing::error!(%error, "status and metrics are not served any more");
        }
        std::future::pending::<()>().await;
    })
}

type Seen = State<watch::Receiver<Status>>;

/// Ready when the Node is there and nothing is waited for.
async fn ready(State(status): Seen) -> Response {
    let status = status.borrow();
    match &status.waits_for {
        None if status.registered => "ok\n".into_response(),
        reason => {
            let reason = reason.as_deref().unwrap_or("the Node to be registered");
            let text = format!("waits for {reason}\n");
            (StatusCode::SERVICE_UNAVAILABLE, text).into_response()
        }
    }
}

/// JSON, or with `?table` lines for people.
async fn whole(State(status): Seen, RawQuery(query): RawQuery) -> Response {
    let status = status.borrow();
    match query.as_deref() {
        Some("table") => status.render().into_response(),
        _ => axum::Json(&*status).into_response(),
    }
}

async fn metrics(State(status): Seen) -> Response {
    let kind = "text/plain; version=0.0.4";
    ([(header::CONTENT_TYPE, kind)], status.borrow().metrics()).into_response()
}
