//! Logs and counters of this machine, for those who look for what went wrong: HTTPS, and only to masters of the cluster.
//!
//! ```text
//!   GET /healthz      ok
//!   GET /logs         the daemons that have logs here, one a line
//!   GET /logs/UNIT    the end of one's log
//!   GET /counters     packet counters of the kernel, of netd and of nft
//! ```
//!
//! Without a certificate of the cluster's authority nobody gets through the handshake; with one of another organization than
//! `system:masters` all that is heard is no. Nothing else of the machine can be read.

mod answers;
mod program;
pub mod tls;

use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tracing::{debug, info, warn};

use crate::config;
use crate::decide::show;
use crate::router::speak;
use crate::serving::Offer;
use answers::Answers;

const MOST_CONNECTIONS: usize = 16;
const HANDSHAKE: Duration = Duration::from_secs(10);
/// All logs of a node are read by one connection.
const CONNECTION: Duration = Duration::from_mins(5);
/// Somebody else may have the port.
const AGAIN: Duration = Duration::from_mins(1);

/// Listens as soon as there is a certificate, until it is dropped.
pub async fn run(config: &config::Server, mut offered: watch::Receiver<Offer>) {
    if offered.wait_for(Option::is_some).await.is_err() {
        return std::future::pending().await;
    }
    let listener = loop {
        match TcpListener::bind(config.listen).await {
            Ok(listener) => break listener,
            Err(error) => warn!(%error, address = %config.listen, "logs cannot be served"),
        }
        tokio::time::sleep(AGAIN).await;
    };
    info!(address = %config.listen, "serves logs");
    accept(listener, Arc::new(Answers::new(config.clone())), offered).await;
}

async fn accept(listener: TcpListener, answers: Arc<Answers>, offered: watch::Receiver<Offer>) {
    let places = Arc::new(Semaphore::new(MOST_CONNECTIONS));
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
        // The one of this moment: it is renewed while we run.
        let Some(config) = offered.borrow().clone() else {
            continue;
        };
        let answers = Arc::clone(&answers);
        connections.spawn(async move {
            let _place = place;
            let talk = connection(stream, TlsAcceptor::from(config), answers);
            if tokio::time::timeout(CONNECTION, talk).await.is_err() {
                debug!(%peer, "stayed too long");
            }
        });
    }
}

async fn connection(stream: TcpStream, tls: TlsAcceptor, answers: Arc<Answers>) {
    _ = stream.set_nodelay(true);
    let stream = match tokio::time::timeout(HANDSHAKE, tls.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return debug!(%error, "handshake"),
        Err(_) => return debug!("the handshake took too long"),
    };
    let certificates = stream.get_ref().1.peer_certificates();
    let may = certificates
        .and_then(<[_]>::first)
        .is_some_and(|certificate| show::may_look(certificate));
    let app = if may {
        answers::app(answers)
    } else {
        answers::refusal()
    };
    speak(stream, app).await;
}

#[cfg(test)]
mod tests;
