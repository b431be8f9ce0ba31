//! The running service: its listener, its connections, its signals.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tracing::{debug, error, info, warn};

use crate::config::{self, Config};
use crate::ledger::{self, Ledger};
use crate::replicate;
use crate::route::{self, Peer, Service};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Config(#[from] config::Error),
    #[error("could not open what is known of used tokens")]
    Ledger(#[from] ledger::Error),
    #[error("could not listen on {address}")]
    Listen {
        address: SocketAddr,
        source: std::io::Error,
    },
    #[error("{path} is not a PEM file of what it should hold")]
    Pem {
        path: PathBuf,
        source: rustls::pki_types::pem::Error,
    },
    #[error("certificate and key do not make a TLS server")]
    Tls(#[source] rustls::Error),
    #[error("could not watch for signals")]
    Signals(#[source] std::io::Error),
}

/// Runs until SIGTERM or SIGINT; SIGHUP reads the configuration and the certificate anew.
pub async fn run(path: &Path) -> Result<(), Error> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut end = signal(SignalKind::terminate()).map_err(Error::Signals)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(Error::Signals)?;
    let mut reload = signal(SignalKind::hangup()).map_err(Error::Signals)?;
    let server = Server::open(Config::load(path)?)?;
    let config = server.config();
    let listener = listen(config.listen).await?;
    let public = match config.public {
        Some(address) => Some(listen(address).await?),
        None => None,
    };
    tell_systemd("READY=1");
    info!(address = %config.listen, pools = config.pools.len(), hosts = config.hosts.len(), "serving");
    let stop = async {
        loop {
            tokio::select! {
                _ = end.recv() => return,
                _ = interrupt.recv() => return,
                _ = reload.recv() => match Config::load(path).map_err(Error::from).and_then(|config| server.reload(config)) {
                    Ok(()) => info!("the configuration was read anew; the address needs a restart"),
                    Err(error) => error!(error = model::chain(&error), "reload; all stays as it was"),
                }
            }
        }
    };
    let bring = async {
        if let Some(from) = &config.replicate {
            replicate::run(from, &config.payload).await;
        }
        std::future::pending::<()>().await;
    };
    let give = async {
        if let Some(public) = public {
            server.serve_public(public).await;
        }
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = server.serve(listener, stop) => {}
        () = give => {}
        () = bring => {}
    }
    tell_systemd("STOPPING=1");
    info!("stopped");
    Ok(())
}

async fn listen(address: SocketAddr) -> Result<TcpListener, Error> {
    let bound = TcpListener::bind(address).await;
    bound.map_err(|source| Error::Listen { address, source })
}

/// The next client. A connection that failed before it was taken, or too few descriptors, is no reason to end.
async fn accept(listener: &TcpListener) -> (TcpStream, SocketAddr) {
    loop {
        match listener.accept().await {
            Ok(accepted) => return accepted,
            Err(error) => {
                warn!(%error, "accept");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

pub struct Server {
    service: Arc<Service>,
    tls: RwLock<Arc<ServerConfig>>,
}

const MOST_CONNECTIONS: usize = 1024;
/// Each of these may be sent hundreds of megabytes; the others wait for their turn.
const MOST_PUBLIC: usize = 64;
const HANDSHAKE_TIME: Duration = Duration::from_secs(10);
const HEADER_TIME: Duration = Duration::from_secs(30);
const GRACE: Duration = Duration::from_secs(5);

impl Server {
    pub fn open(config: Config) -> Result<Self, Error> {
        let tls = RwLock::new(tls(&config)?);
        let ledger = Mutex::new(Ledger::open(&config.state)?);
        let service = Arc::new(Service {
            config: RwLock::new(Arc::new(config)),
            ledger,
        });
        Ok(Self { service, tls })
    }

    fn config(&self) -> Arc<Config> {
        Arc::clone(
            &self
                .service
                .config
                .read()
                .unwrap_or_else(PoisonError::into_inner),
        )
    }

    fn reload(&self, config: Config) -> Result<(), Error> {
        let tls = tls(&config)?;
        *self.tls.write().unwrap_or_else(PoisonError::into_inner) = tls;
        *self
            .service
            .config
            .write()
            .unwrap_or_else(PoisonError::into_inner) = Arc::new(config);
        Ok(())
    }

    /// The routes, for those who bring their own connections; requests need the extension `Peer`.
    pub fn router(&self) -> Router {
        route::app(Arc::clone(&self.service))
    }

    /// The payload's files without TLS, for as long as it is polled.
    pub async fn serve_public(&self, listener: TcpListener) {
        let app = route::public(Arc::clone(&self.service));
        let places = Arc::new(Semaphore::new(MOST_PUBLIC));
        loop {
            let place = Arc::clone(&places).acquire_owned().await;
            let (stream, peer) = accept(&listener).await;
            let app = app.clone().layer(Extension(Peer(peer)));
            tokio::spawn(async move {
                let _place = place;
                if let Err(error) = connection(stream, app).await {
                    debug!(%peer, %error, "connection");
                }
            });
        }
    }

    /// Serves until `stop`, and then until the requests in progress are answered or out of time.
    pub async fn serve(&self, listener: TcpListener, stop: impl Future<Output = ()>) {
        let app = self.router();
        let places = Arc::new(Semaphore::new(MOST_CONNECTIONS));
        let grace = GracefulShutdown::new();
        tokio::pin!(stop);
        loop {
            let place = Arc::clone(&places).acquire_owned();
            let (place, (stream, peer)) = tokio::select! {
                () = &mut stop => break,
                accepted = async { (place.await, accept(&listener).await) } => accepted,
            };
            let acceptor = TlsAcceptor::from(Arc::clone(
                &self.tls.read().unwrap_or_else(PoisonError::into_inner),
            ));
            let app = app.clone().layer(Extension(Peer(peer)));
            let watcher = grace.watcher();
            tokio::spawn(async move {
                let _place = place;
                match tokio::time::timeout(HANDSHAKE_TIME, acceptor.accept(stream)).await {
                    Ok(Ok(stream)) => {
                        if let Err(error) = watcher.watch(connection(stream, app)).await {
                            debug!(%peer, %error, "connection");
                        }
                    }
                    Ok(Err(error)) => debug!(%peer, %error, "TLS handshake"),
                    Err(_) => debug!(%peer, "TLS handshake took too long"),
                }
            });
        }
        drop(listener);
        if tokio::time::timeout(GRACE, grace.shutdown()).await.is_err() {
            warn!("some clients did not finish in time");
        }
    }
}

fn connection<S>(
    stream: S,
    app: Router,
) -> http1::Connection<TokioIo<S>, TowerToHyperService<Router>>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIME)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(app))
}

fn tls(config: &Config) -> Result<Arc<ServerConfig>, Error> {
    let bad = |path: &PathBuf| {
        let path = path.clone();
        move |source| Error::Pem { path, source }
    };
    let certificates: Vec<_> = CertificateDer::pem_file_iter(&config.certificate)
        .and_then(Iterator::collect)
        .map_err(bad(&config.certificate))?;
    let key = PrivateKeyDer::from_pem_file(&config.key).map_err(bad(&config.key))?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let made = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| {
            builder
                .with_no_client_auth()
                .with_single_cert(certificates, key)
        })
        .map_err(Error::Tls)?;
    Ok(Arc::new(made))
}

/// Says how far we are to a service manager that wants to know.
fn tell_systemd(news: &str) {
    use std::os::linux::net::SocketAddrExt as _;
    use std::os::unix::net::{SocketAddr, UnixDatagram};
    let Some(path) = std::env::var_os("NOTIFY_SOCKET") else {
        return;
    };
    let address = match path.as_encoded_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(&path),
    };
    let told = address
        .and_then(|address| UnixDatagram::unbound()?.send_to_addr(news.as_bytes(), &address));
    if let Err(error) = told {
        warn!(%error, "could not tell the service manager");
    }
}
