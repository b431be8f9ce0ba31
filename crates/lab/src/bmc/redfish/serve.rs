//! A BMC on the network: one task per connection, all of them ended together.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;
use tracing::{debug, warn};

use super::{app, events};
use crate::bmc::Bmc;

/// Serves until `stop`; then, or when dropped, every connection ends at once, as if a cable were pulled.
pub async fn serve(
    listener: TcpListener,
    tls: Option<Arc<ServerConfig>>,
    bmc: Arc<Bmc>,
    stop: impl Future<Output = ()>,
) {
    let app = app(Arc::clone(&bmc));
    let tls = tls.map(TlsAcceptor::from);
    let mut connections = JoinSet::new();
    let events = events::watch(&bmc);
    tokio::pin!(stop, events);
    loop {
        tokio::select! {
            () = &mut stop => break,
            () = &mut events => {}
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
            accepted = listener.accept() => match accepted {
                // A BMC has few; more than that, and newcomers find the door shut.
                Ok(_) if connections.len() >= MOST => debug!("connection refused: too many"),
                Ok((stream, peer)) => _ = connections.spawn(connection(stream, peer, tls.clone(), app.clone())),
                Err(error) => {
                    warn!(%error, "accept");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }
    connections.shutdown().await;
}

const MOST: usize = 64;
const HANDSHAKE_TIME: Duration = Duration::from_secs(10);
const HEADER_TIME: Duration = Duration::from_secs(30);

async fn connection(stream: TcpStream, peer: SocketAddr, tls: Option<TlsAcceptor>, app: Router) {
    _ = stream.set_nodelay(true);
    let Some(tls) = tls else {
        return talk(stream, peer, app).await;
    };
    match tokio::time::timeout(HANDSHAKE_TIME, tls.accept(stream)).await {
        Ok(Ok(stream)) => talk(stream, peer, app).await,
        Ok(Err(error)) => debug!(%peer, %error, "TLS handshake"),
        Err(_) => debug!(%peer, "TLS handshake took too long"),
    }
}

async fn talk(
    stream: impl AsyncRead + AsyncWrite + Unpin + 'static,
    peer: SocketAddr,
    app: Router,
) {
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIME)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(app))
        .await;
    if let Err(error) = served {
        debug!(%peer, %error, "connection");
    }
}

/// A BMC that is being served. Dropping it stops it.
#[derive(Debug)]
pub struct Handle {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

/// Starts serving in a task of its own.
pub fn spawn(
    listener: TcpListener,
    tls: Option<Arc<ServerConfig>>,
    bmc: Arc<Bmc>,
) -> std::io::Result<Handle> {
    let address = listener.local_addr()?;
    let (stop, stopped) = oneshot::channel::<()>();
    let task = tokio::spawn(serve(listener, tls, bmc, async move { _ = stopped.await }));
    Ok(Handle {
        address,
        stop: Some(stop),
        task,
    })
}

impl Handle {
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends all connections; returns when the address is free again.
    pub async fn stop(mut self) {
        if let Some(stop) = self.stop.take() {
            _ = stop.send(());
        }
        if let Err(error) = (&mut self.task).await {
            warn!(%error, "BMC service did not end by itself");
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.task.abort();
    }
}
