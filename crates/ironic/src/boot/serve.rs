//! Connections of boot clients and BMCs: plain or TLS, bounded in number, with an end.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tower::Layer as _;
use tracing::{debug, warn};

const MOST: usize = 2048;
const HANDSHAKE: Duration = Duration::from_secs(10);
const HEADERS: Duration = Duration::from_secs(30);
/// What waits for a client to take it. A rack that boots has a thousand of them.
const BUFFER: usize = 64 << 10;

/// Who asks, put into every request.
#[derive(Debug, Clone, Copy)]
pub struct Peer(pub std::net::IpAddr);

/// Serves until told to stop; a fetch under way is cut off then, and its client asks the next server again.
pub async fn serve(
    listener: TcpListener,
    app: Router,
    tls: Option<Arc<ServerConfig>>,
    mut stop: watch::Receiver<bool>,
) {
    let places = Arc::new(Semaphore::new(MOST));
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            _ = stop.changed() => return,
            Some(_) = connections.join_next(), if !connections.is_empty() => continue,
            accepted = async { (Arc::clone(&places).acquire_owned().await, listener.accept().await) } => accepted,
        };
        let (stream, peer) = match accepted.1 {
            Ok(accepted) => accepted,
            Err(error) => {
                warn!(%error, "accept");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let place = accepted.0;
        _ = stream.set_nodelay(true);
        let app = axum::Extension(Peer(peer.ip().to_canonical())).layer(app.clone());
        let acceptor = tls.clone().map(TlsAcceptor::from);
        connections.spawn(async move {
            let _place = place;
            match acceptor {
                None => talk(stream, app).await,
                Some(acceptor) => {
                    match tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)).await {
                        Ok(Ok(stream)) => talk(stream, app).await,
                        Ok(Err(error)) => debug!(%peer, %error, "TLS handshake"),
                        Err(_) => debug!(%peer, "TLS handshake took too long"),
                    }
                }
            }
        });
    }
}

async fn talk<S>(stream: impl AsyncRead + AsyncWrite + Unpin, app: S)
where
    S: tower::Service<
            axum::extract::Request<hyper::body::Incoming>,
            Response = axum::response::Response,
            Error = std::convert::Infallible,
        > + Clone,
{
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS)
        .max_buf_size(BUFFER)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(app));
    if let Err(error) = served.await {
        debug!(%error, "connection");
    }
}
