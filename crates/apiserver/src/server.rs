//! The running server: its listener, its connections, its tasks.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tracing::{debug, error, info, warn};

use crate::api::kinds::Kinds;
use crate::api::{Api, Core};
use crate::audit::{self, Audit};
use crate::auth::{self, Auth, TokenFile, Tokens};
use crate::config::{self, Config};
use crate::controllers;
use crate::front::{Front, Peer};
use crate::local::{Local, Refusal};
use crate::store::{self, Embedded, Etcd, Store};
use crate::tls;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Config(#[from] config::Error),
    #[error("could not open the store")]
    Store(#[from] store::Error),
    #[error(transparent)]
    Tls(#[from] tls::Error),
    #[error("could not read the key of service accounts")]
    Tokens(#[from] auth::tokens::Error),
    #[error("could not read the tokens")]
    TokenFile(#[from] auth::token_file::Error),
    #[error("could not open the audit log")]
    Audit(#[from] audit::Error),
    #[error("could not read the key that signs certificates")]
    Signer(#[from] controllers::signer::Error),
    #[error("could not make what must be there from the start")]
    Bootstrap(#[from] Refusal),
    #[error("could not listen on {address}")]
    Listen {
        address: SocketAddr,
        source: std::io::Error,
    },
    #[error("could not watch for signals")]
    Signals(#[source] std::io::Error),
}

/// Runs until SIGTERM or SIGINT; SIGHUP reads the certificates anew.
pub async fn run(path: &Path) -> Result<(), Error> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut end = signal(SignalKind::terminate()).map_err(Error::Signals)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(Error::Signals)?;
    let mut reload = signal(SignalKind::hangup()).map_err(Error::Signals)?;
    let running = tokio::select! {
        started = Running::start(Config::load(path)?) => started?,
        _ = end.recv() => return Ok(()),
        _ = interrupt.recv() => return Ok(()),
    };
    tell_systemd("READY=1");
    loop {
        tokio::select! {
            _ = end.recv() => break,
            _ = interrupt.recv() => break,
            _ = reload.recv() => match Config::load(path).map_err(Error::from).and_then(|config| running.reload(&config)) {
                Ok(()) => info!("the certificates were read anew; all else needs a restart"),
                Err(error) => error!(error = model::chain(&error), "reload; all stays as it was"),
            }
        }
    }
    tell_systemd("STOPPING=1");
    running.stop().await;
    info!("stopped");
    Ok(())
}

impl Error {
    /// The store may do it when it is asked again.
    fn is_for_now(&self) -> bool {
        match self {
            Self::Store(error) => matches!(error, store::Error::Unavailable(_)),
            Self::Bootstrap(refusal) => refusal.code == 503,
            _ => false,
        }
    }
}

const MOST_CONNECTIONS: usize = 8192;
const HANDSHAKE_TIME: Duration = Duration::from_secs(10);
const HEADER_TIME: Duration = Duration::from_secs(30);
const PING_TIME: Duration = Duration::from_secs(30);
const GRACE: Duration = Duration::from_secs(10);

/// A server that serves. Dropping it ends it at once; [`Running::stop`] lets clients finish.
pub struct Running {
    address: SocketAddr,
    api: Api,
    front: Arc<Front>,
    store: Store,
    tls: Arc<RwLock<Arc<ServerConfig>>>,
    stop: watch::Sender<bool>,
    accepting: JoinSet<()>,
    tasks: JoinSet<()>,
}

impl Running {
    /// Returns when it serves: everything is read, and what must be there from the start is there.
    pub async fn start(config: Config) -> Result<Self, Error> {
        let tls = Arc::new(RwLock::new(tls::server(&config)?));
        let tokens = Tokens::load(&config.account_key, &config.issuer)?;
        let token_file = match &config.tokens {
            Some(path) => TokenFile::load(path)?,
            None => TokenFile::default(),
        };
        let audit = match &config.audit {
            Some(path) => Audit::open(path).await?,
            None => Audit::default(),
        };
        let signer = match &config.signer {
            Some(signer) => Some(controllers::Signer::load(signer)?),
            None => None,
        };
        let patience = Patience::new();
        let store = open(&config.store, &patience).await?;
        let auth = Auth::new(store.clone(), tokens, token_file);
        patience.of(async || Ok(auth.load_policy().await?)).await?;
        let kinds = Arc::new(Kinds::default());
        patience.of(async || Ok(kinds.load(&store).await?)).await?;
        let (stop, stopping) = watch::channel(false);
        let api = Api::new(Arc::new(Core {
            store: store.clone(),
            kinds: Arc::clone(&kinds),
            access: Arc::clone(&auth) as Arc<dyn crate::api::Access>,
            stop: stopping.clone(),
        }));
        let mut tasks = JoinSet::new();
        let (followed, followed_store) = (Arc::clone(&kinds), store.clone());
        tasks.spawn(async move { followed.run(&followed_store).await });
        tasks.spawn(Arc::clone(&auth).follow_policy());
        let context = controllers::Context {
            store: store.clone(),
            local: Local::new(api.clone()),
            kinds: Arc::clone(&kinds),
            tokens: auth.tokens().clone(),
            ca: tls::account_ca(&config)?,
        };
        let namespaces = &config.namespaces;
        let begin = async || Ok(controllers::bootstrap(&context, namespaces).await?);
        patience.of(begin).await?;
        controllers::spawn(&mut tasks, &context, signer);
        let listener = TcpListener::bind(config.listen)
            .await
            .map_err(|source| Error::Listen {
                address: config.listen,
                source,
            })?;
        let address = listener.local_addr().unwrap_or(config.listen);
        let front = Front::new(api.clone(), auth, store.clone(), kinds, audit);
        let front = Arc::new(front);
        let mut accepting = JoinSet::new();
        accepting.spawn(accept(
            listener,
            Arc::clone(&tls),
            Arc::clone(&front),
            stopping,
        ));
        front.set_ready(true);
        info!(%address, "serving");
        Ok(Self {
            address,
            api,
            front,
            store,
            tls,
            stop,
            accepting,
            tasks,
        })
    }

    /// Where it listens, with the port it got if it asked for any.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The API without a connection, as the server itself.
    pub fn local(&self) -> Local {
        Local::new(self.api.clone())
    }

    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Serves new connections with the certificates of this configuration.
    pub fn reload(&self, config: &Config) -> Result<(), Error> {
        let made = tls::server(config)?;
        *self.tls.write().unwrap_or_else(PoisonError::into_inner) = made;
        Ok(())
    }

    /// Ends watches, lets requests in progress finish, then stops.
    pub async fn stop(mut self) {
        self.front.set_ready(false);
        _ = self.stop.send(true);
        self.store.end_watches();
        while self.accepting.join_next().await.is_some() {}
        self.tasks.shutdown().await;
    }
}

async fn open(config: &config::Store, patience: &Patience) -> Result<Store, Error> {
    match config {
        config::Store::File(path) => {
            let path = path.clone();
            let opened = tokio::task::spawn_blocking(move || Embedded::open(&path)).await;
            let store = opened.map_err(|_| store::Error::Broken)??;
            Ok(Store::Embedded(Arc::new(store)))
        }
        config::Store::Etcd { endpoints, tls } => {
            let mut etcd = clients::etcd::Config::new(endpoints.clone());
            etcd.tls = tls.as_ref().map(tls::etcd).transpose()?;
            // One for all tries: it knows how long nobody has answered.
            let client = clients::etcd::Client::new(&etcd)
                .map_err(|error| store::Error::Unavailable(error.into()))?;
            let members = patience.of(async || Ok(Etcd::open(&client).await?)).await?;
            Ok(Store::Etcd(Arc::new(members)))
        }
    }
}

/// Masters that boot together find no leader at first, and lose it again while they are busy. To begin anew each time
/// would cost more than to wait here.
struct Patience(Instant);

impl Patience {
    const FORMING: Duration = Duration::from_mins(10);
    const PAUSE: Duration = Duration::from_secs(1);

    fn new() -> Self {
        Self(Instant::now() + Self::FORMING)
    }

    /// Does it again while etcd does not do it.
    async fn of<T>(&self, act: impl AsyncFn() -> Result<T, Error>) -> Result<T, Error> {
        let mut said = String::new();
        loop {
            let why = match act().await {
                Err(error) if error.is_for_now() && Instant::now() < self.0 => model::chain(&error),
                done => return done,
            };
            if why != said {
                warn!(why, "waits for etcd");
                said = why;
            }
            tokio::time::sleep(Self::PAUSE).await;
        }
    }
}

/// Until `stop`, and then until clients have finished or are out of time.
async fn accept(
    listener: TcpListener,
    tls: Arc<RwLock<Arc<ServerConfig>>>,
    front: Arc<Front>,
    mut stop: watch::Receiver<bool>,
) {
    let places = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    let grace = GracefulShutdown::new();
    let mut connections = JoinSet::new();
    loop {
        let place = Arc::clone(&places).acquire_owned();
        let (place, accepted) = tokio::select! {
            _ = stop.wait_for(|stop| *stop) => break,
            Some(_) = connections.join_next() => continue,
            accepted = async { (place.await, listener.accept().await) } => accepted,
        };
        let (stream, address) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                warn!(%error, "accept");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let acceptor = Arc::clone(&tls.read().unwrap_or_else(PoisonError::into_inner));
        let acceptor = TlsAcceptor::from(acceptor);
        let (front, watcher) = (Arc::clone(&front), grace.watcher());
        connections.spawn(async move {
            let _place = place;
            let Some((stream, peer)) = shake_hands(acceptor, stream, address).await else {
                return;
            };
            let peer = Arc::new(peer);
            let service = service_fn(move |request| {
                let (front, peer) = (Arc::clone(&front), Arc::clone(&peer));
                async move { front.handle(&peer, request).await }
            });
            let mut builder = auto::Builder::new(TokioExecutor::new());
            builder
                .http1()
                .timer(TokioTimer::new())
                .header_read_timeout(HEADER_TIME);
            builder
                .http2()
                .timer(TokioTimer::new())
                .max_concurrent_streams(1000)
                .keep_alive_interval(PING_TIME);
            let connection = builder.serve_connection(TokioIo::new(stream), service);
            if let Err(error) = watcher.watch(connection.into_owned()).await {
                debug!(peer = %address, %error, "connection");
            }
        });
    }
    drop(listener);
    if tokio::time::timeout(GRACE, grace.shutdown()).await.is_err() {
        warn!("some clients did not finish in time");
    }
    connections.shutdown().await;
}

async fn shake_hands(
    acceptor: TlsAcceptor,
    stream: TcpStream,
    address: SocketAddr,
) -> Option<(tokio_rustls::server::TlsStream<TcpStream>, Peer)> {
    _ = stream.set_nodelay(true);
    let shaken = tokio::time::timeout(HANDSHAKE_TIME, acceptor.accept(stream)).await;
    let stream = match shaken {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            debug!(peer = %address, %error, "TLS handshake");
            return None;
        }
        Err(_) => {
            debug!(peer = %address, "TLS handshake took too long");
            return None;
        }
    };
    let certificate = stream.get_ref().1.peer_certificates();
    let user = certificate
        .and_then(<[_]>::first)
        .and_then(|certificate| auth::user_of_certificate(certificate));
    let peer = Peer {
        address: address.ip().to_canonical(),
        user,
    };
    Some((stream, peer))
}

/// Says how far we are to a service manager that wants to know.
fn tell_systemd(news: &str) {
    use std::os::linux::net::SocketAddrExt as _;
    use std::os::unix::net::{SocketAddr, UnixDatagram};
    let Some(path) = std::env::var_os("NOTIFY_SOCKET").map(PathBuf::from) else {
        return;
    };
    let address = match path.as_os_str().as_encoded_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(&path),
    };
    let told = address
        .and_then(|address| UnixDatagram::unbound()?.send_to_addr(news.as_bytes(), &address));
    if let Err(error) = told {
        warn!(%error, "could not tell the service manager");
    }
}

#[cfg(test)]
mod tests;
