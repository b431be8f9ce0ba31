//! What a monitor may ask, on the loopback: `/healthz`, `/readyz`, `/metrics`.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::net::TcpListener;
use tracing::error;

use super::Error;
use super::phase::Phases;
use crate::metrics::Metrics;

/// Answers until it is dropped.
pub async fn serve(
    address: SocketAddr,
    phase: Phases,
    metrics: Arc<Metrics>,
) -> Result<impl Future<Output = ()>, Error> {
    let listener = TcpListener::bind(address)
        .await
        .map_err(|source| Error::Admin { address, source })?;
    let app = Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .route("/metrics", get(measured))
        .with_state(Asked { phase, metrics });
    Ok(async move {
        if let Err(error) = axum::serve(listener, app).await {
            error!(%error, "health and metrics are not served any more");
        }
        std::future::pending::<()>().await;
    })
}

#[derive(Clone)]
struct Asked {
    phase: Phases,
    metrics: Arc<Metrics>,
}

async fn ready(State(asked): State<Asked>) -> Response {
    let (well, told) = asked.phase.now().told();
    let code = if well {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    (code, told + "\n").into_response()
}

async fn measured(State(asked): State<Asked>) -> Response {
    let active = u8::from(asked.phase.now().is_active());
    let text = format!(
        "# HELP metal3_active Whether metal3 is active on this node\n# TYPE metal3_active gauge\nmetal3_active {active}\n{}",
        asked.metrics.render()
    );
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response()
}
