//! A stand-in for an ingress router: where none runs, the ingress address still has somebody who answers.
//!
//! It routes nothing. Every request gets a page that says so, and the health port says that the node can be reached:
//! that is what netd gives the ingress address for. A real ingress controller takes its place and its ports.

mod config;
mod tls;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tracing::{debug, info, warn};

pub use config::Config;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Config(#[from] config::Error),
    #[error(transparent)]
    Tls(#[from] tls::Error),
    #[error("could not listen on {address}")]
    Listen {
        address: SocketAddr,
        source: std::io::Error,
    },
}

const MOST_CONNECTIONS: usize = 1024;
const HANDSHAKE: Duration = Duration::from_secs(10);
const HEADERS: Duration = Duration::from_secs(10);
/// Nobody has anything to stay for.
const CONNECTION: Duration = Duration::from_mins(1);

/// Runs until `stop`.
pub async fn run(path: &Path, stop: impl Future<Output = ()>) -> Result<(), Error> {
    let running = Running::start(&Config::load(path)?).await?;
    crate::notify::tell("READY=1");
    stop.await;
    crate::notify::tell("STOPPING=1");
    drop(running);
    info!("stopped");
    Ok(())
}

/// Ends when it is dropped.
pub struct Running {
    tasks: JoinSet<()>,
    pub http: Vec<SocketAddr>,
    pub https: Vec<SocketAddr>,
    pub health: Vec<SocketAddr>,
}

impl Running {
    pub async fn start(config: &Config) -> Result<Self, Error> {
        let acceptor = TlsAcceptor::from(tls::server(config.tls.as_ref())?);
        let places = Arc::new(Semaphore::new(MOST_CONNECTIONS));
        let mut running = Self {
            tasks: JoinSet::new(),
            http: Vec::new(),
            https: Vec::new(),
            health: Vec::new(),
        };
        for address in &config.http {
            let place = Arc::clone(&places);
            let at = running.serve(*address, page(), None, place).await?;
            running.http.push(at);
        }
        for address in &config.https {
            let (tls, place) = (Some(acceptor.clone()), Arc::clone(&places));
            let at = running.serve(*address, page(), tls, place).await?;
            running.https.push(at);
        }
        for address in &config.health {
            // Its own places: those who are many elsewhere must not make the node look ill.
            let place = Arc::new(Semaphore::new(MOST_CONNECTIONS));
            let at = running.serve(*address, health(), None, place).await?;
            running.health.push(at);
        }
        info!(http = ?running.http, https = ?running.https, health = ?running.health, "stands in for a router");
        Ok(running)
    }

    async fn serve(
        &mut self,
        address: SocketAddr,
        app: Router,
        tls: Option<TlsAcceptor>,
        places: Arc<Semaphore>,
    ) -> Result<SocketAddr, Error> {
        let listen = |source| Error::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(listen)?;
        let local = listener.local_addr().map_err(listen)?;
        self.tasks.spawn(accept(listener, app, tls, places));
        Ok(local)
    }
}

async fn accept(
    listener: TcpListener,
    app: Router,
    tls: Option<TlsAcceptor>,
    places: Arc<Semaphore>,
) {
    let mut connections = JoinSet::new();
    loop {
        let place = Arc::clone(&places).acquire_owned();
        let (place, accepted) = tokio::select! {
            Some(_) = connections.join_next() => continue,
            accepted = async { (place.await, listener.accept().await) } => accepted,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                warn!(%error, "accept");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let (app, tls) = (app.clone(), tls.clone());
        connections.spawn(async move {
            let _place = place;
            if tokio::time::timeout(CONNECTION, connection(stream, app, tls))
                .await
                .is_err()
            {
                debug!(%peer, "stayed too long");
            }
        });
    }
}

async fn connection(stream: TcpStream, app: Router, tls: Option<TlsAcceptor>) {
    _ = stream.set_nodelay(true);
    match tls {
        None => speak(stream, app).await,
        Some(tls) => {
            if let Ok(Ok(stream)) = tokio::time::timeout(HANDSHAKE, tls.accept(stream)).await {
                speak(stream, app).await;
            }
        }
    }
}

/// HTTP with whoever is there, until they hang up.
pub(crate) async fn speak(stream: impl AsyncRead + AsyncWrite + Unpin, app: Router) {
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEADERS);
    let served = http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(app));
    if let Err(error) = served.await {
        debug!(%error, "connection");
    }
}

const PAGE: &str = "<!doctype html>
<title>No router here</title>
<h1>503: no router here</h1>
<p>This is Plinth's stand-in for an ingress router. The cluster is up and this address is served, but no ingress
controller is installed yet, so nothing is behind this name.</p>
";

/// The same for everybody.
fn page() -> Router {
    Router::new().fallback(|| async {
        let headers = [
            (header::CONTENT_TYPE, "text/html; charset=utf-8"),
            (header::CACHE_CONTROL, "no-store"),
            (header::SERVER, "plinth-router-stand-in"),
        ];
        (StatusCode::SERVICE_UNAVAILABLE, headers, PAGE).into_response()
    })
}

fn health() -> Router {
    let well = || async { "ok\n" };
    Router::new()
        .route("/healthz", get(well))
        .route("/healthz/ready", get(well))
}

#[cfg(test)]
mod tests;
