//! The running service: its listener, its connections, its signals.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_rustls::TlsAcceptor;
use tracing::{debug, error, info, warn};

use crate::api::{self, Auth, Service, Users};
use crate::boot::notebook::Notebook;
use crate::boot::{self, Settings};
use crate::conductor::{self, Conductor};
use crate::config::{self, Config};
use crate::driver::Drivers;
use crate::store::{self, Store};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Config(#[from] config::Error),
    #[error("could not open the state")]
    Store(#[from] store::Error),
    #[error("could not listen on {address}")]
    Listen {
        address: std::net::SocketAddr,
        source: std::io::Error,
    },
    #[error("could not read {path}")]
    Read {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("{path} cannot be used for authentication:\n  {}", problems.join("\n  "))]
    Users {
        path: PathBuf,
        problems: Vec<String>,
    },
    #[error("{path} is not a PEM file of what it should hold")]
    Pem {
        path: PathBuf,
        source: rustls::pki_types::pem::Error,
    },
    #[error("certificate and key do not make a TLS server")]
    Tls(#[source] rustls::Error),
    #[error("could not start the boot services")]
    Boot(#[from] boot::Error),
    #[error("could not watch for signals")]
    Signals(#[source] std::io::Error),
}

/// Runs until SIGTERM or SIGINT. SIGHUP reads users, certificates and what servers boot from anew.
pub async fn run(path: &Path) -> Result<(), Error> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut end = signal(SignalKind::terminate()).map_err(Error::Signals)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(Error::Signals)?;
    let mut reload = signal(SignalKind::hangup()).map_err(Error::Signals)?;
    let config = Config::load(path)?;
    let listener = TcpListener::bind(config.listen)
        .await
        .map_err(|source| Error::Listen {
            address: config.listen,
            source,
        })?;
    let server = Server::start(&config).await?;
    let address = listener.local_addr().map_err(|source| Error::Listen {
        address: config.listen,
        source,
    })?;
    tell_systemd("READY=1");
    info!(%address, tls = config.tls.is_some(), state = %config.state.display(), "serving");
    let serving = server.serve(listener, async {
        loop {
            tokio::select! {
                _ = end.recv() => return,
                _ = interrupt.recv() => return,
                _ = reload.recv() => match Config::load(path).map_err(Error::from).and_then(|config| server.reload(&config)) {
                    Ok(()) => info!("users, certificates and boot settings were read anew; other settings need a restart"),
                    Err(error) => error!(error = model::chain(&error), "reload; all stays as it was"),
                }
            }
        }
    });
    serving.await;
    tell_systemd("STOPPING=1");
    info!("stopping");
    server.stop().await;
    Ok(())
}

/// The service without its listener.
pub struct Server {
    service: Arc<Service>,
    tls: Option<RwLock<Arc<ServerConfig>>>,
    boot: Option<boot::Service>,
}

impl Server {
    pub async fn start(config: &Config) -> Result<Self, Error> {
        let path = config.state.clone();
        let opened = tokio::task::spawn_blocking(move || Store::open(&path)).await;
        Self::over(opened.expect("opening the store does not panic")?, config).await
    }

    pub(crate) async fn over(store: Store, config: &Config) -> Result<Self, Error> {
        let auth = auth(config)?;
        let tls = tls(config)?.map(RwLock::new);
        let store = Arc::new(store);
        let settings = Settings::of(config)?;
        let mut deploy = config.deploy.clone();
        if let (None, Some(boot)) = (&deploy.images_url, &settings) {
            deploy.images_url = Some(format!("{}/images", boot.http_url));
        }
        let options = conductor::Options {
            host: config.host.clone(),
            group: config.conductor_group.clone(),
            timers: config.timers.clone(),
            power: config.power_sync,
            defaults: config.defaults,
            most_deploys: config.max_concurrent_deploy,
            most_cleans: config.max_concurrent_clean,
            deploy,
            state: config
                .state
                .parent()
                .map(Path::to_owned)
                .unwrap_or_default(),
        };
        let media: conductor::MediaUrl = match settings.clone() {
            Some(settings) => Box::new(move |node| settings.media_url(node)),
            None => Box::new(|_| None),
        };
        let drivers = Drivers::new(
            config.fake.clone(),
            config.bmc.clone(),
            &config.timers,
            Arc::clone(&store),
        );
        let conductor = Conductor::start(Arc::clone(&store), drivers, media, options).await?;
        let notebook = Arc::new(Notebook::default());
        if let Some(document) = store.document(Notebook::DOCUMENT)? {
            notebook.restore(&document);
        }
        let boot = match settings {
            None => None,
            Some(settings) => {
                let (store, conductor) = (Arc::clone(&store), Arc::clone(&conductor));
                let notebook = Arc::clone(&notebook);
                Some(boot::Service::start(settings, config, store, conductor, notebook).await?)
            }
        };
        let options = api::Options {
            notebook,
            public_endpoint: config.public_endpoint.clone(),
            max_limit: config.max_limit,
            tls: tls.is_some(),
            ramdisk_endpoints: config.ramdisk_endpoints,
        };
        Ok(Self {
            service: Service::new(store, conductor, options, auth),
            tls,
            boot,
        })
    }

    /// The API as a service, for those who bring their own connections.
    pub fn router(&self) -> Router {
        api::router(Arc::clone(&self.service))
    }

    #[cfg(test)]
    pub(crate) fn service(&self) -> &Service {
        &self.service
    }

    /// Cuts all work short, wherever it is.
    #[cfg(test)]
    pub(crate) async fn stop_at_once(self) {
        self.service.conductor.stop(Duration::ZERO).await;
    }

    fn reload(&self, config: &Config) -> Result<(), Error> {
        let (auth, new, settings) = (auth(config)?, tls(config)?, Settings::of(config)?);
        self.service.set_auth(auth);
        if let (Some(tls), Some(new)) = (&self.tls, new) {
            *tls.write().unwrap_or_else(PoisonError::into_inner) = new;
        }
        if let (Some(boot), Some(settings)) = (&self.boot, settings) {
            boot.reload(settings);
        }
        Ok(())
    }

    /// Serves until `stop`, and then until the requests in progress are answered.
    pub async fn serve(&self, listener: TcpListener, stop: impl Future<Output = ()>) {
        let app = self.router();
        let places = Arc::new(Semaphore::new(MOST_CONNECTIONS));
        let grace = GracefulShutdown::new();
        tokio::pin!(stop);
        loop {
            let place = Arc::clone(&places).acquire_owned();
            let accepted = tokio::select! {
                () = &mut stop => break,
                accepted = async { (place.await, listener.accept().await) } => accepted,
            };
            match accepted {
                (Ok(place), Ok((stream, peer))) => {
                    _ = stream.set_nodelay(true);
                    let (app, watcher) = (app.clone(), grace.watcher());
                    let acceptor = self.tls.as_ref().map(|tls| {
                        TlsAcceptor::from(Arc::clone(
                            &tls.read().unwrap_or_else(PoisonError::into_inner),
                        ))
                    });
                    tokio::spawn(async move {
                        match acceptor {
                            None => talk(stream, app, watcher, place).await,
                            Some(tls) => {
                                match tokio::time::timeout(HANDSHAKE_TIME, tls.accept(stream)).await
                                {
                                    Ok(Ok(stream)) => talk(stream, app, watcher, place).await,
                                    Ok(Err(error)) => debug!(%peer, %error, "TLS handshake"),
                                    Err(_) => debug!(%peer, "TLS handshake took too long"),
                                }
                            }
                        }
                    });
                }
                (_, Err(error)) => {
                    warn!(%error, "accept");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
                (Err(_), _) => unreachable!("the places are never closed"),
            }
        }
        drop(listener);
        if tokio::time::timeout(GRACE, grace.shutdown()).await.is_err() {
            warn!("some clients did not finish in time");
        }
    }

    pub async fn stop(&self) {
        if let Some(boot) = &self.boot {
            boot.stop().await;
        }
        self.service.conductor.stop(GRACE).await;
    }
}

const MOST_CONNECTIONS: usize = 4096;
const HANDSHAKE_TIME: Duration = Duration::from_secs(10);
const HEADER_TIME: Duration = Duration::from_secs(30);
const GRACE: Duration = Duration::from_secs(5);

async fn talk(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    app: Router,
    watcher: hyper_util::server::graceful::Watcher,
    place: OwnedSemaphorePermit,
) {
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIME)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(app));
    if let Err(error) = watcher.watch(connection).await {
        debug!(%error, "connection");
    }
    drop(place);
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

fn auth(config: &Config) -> Result<Auth, Error> {
    let Some(path) = &config.htpasswd else {
        return Ok(Auth::None);
    };
    let text = std::fs::read_to_string(path).map_err(|source| Error::Read {
        path: path.clone(),
        source,
    })?;
    let users = Users::parse(&text).map_err(|problems| Error::Users {
        path: path.clone(),
        problems,
    })?;
    Ok(Auth::Basic(Arc::new(users)))
}

fn tls(config: &Config) -> Result<Option<Arc<ServerConfig>>, Error> {
    let Some(tls) = &config.tls else {
        return Ok(None);
    };
    let bad = |path: &PathBuf| {
        let path = path.clone();
        move |source| Error::Pem { path, source }
    };
    let certificates: Vec<_> = CertificateDer::pem_file_iter(&tls.certificate)
        .and_then(Iterator::collect)
        .map_err(bad(&tls.certificate))?;
    let key = PrivateKeyDer::from_pem_file(&tls.key).map_err(bad(&tls.key))?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| {
            builder
                .with_no_client_auth()
                .with_single_cert(certificates, key)
        })
        .map_err(Error::Tls)?;
    Ok(Some(Arc::new(config)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn certificate(dir: &Path, name: &str) -> (Tls, reqwest::Certificate) {
        let made = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
        let (certificate, key) = (dir.join("crt.pem"), dir.join("key.pem"));
        std::fs::write(&certificate, made.cert.pem()).unwrap();
        std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
        (
            Tls {
                certificate,
                key,
                ca: None,
            },
            reqwest::Certificate::from_pem(made.cert.pem().as_bytes()).unwrap(),
        )
    }

    use crate::config::Tls;

    async fn ask(
        port: u16,
        trusted: reqwest::Certificate,
    ) -> Result<serde_json::Value, reqwest::Error> {
        let client = reqwest::Client::builder()
            .tls_certs_only([trusted])
            .resolve("metal.test", ([127, 0, 0, 1], port).into())
            .timeout(Duration::from_secs(10))
            .build()?;
        client
            .get(format!("https://metal.test:{port}/v1/"))
            .send()
            .await?
            .json()
            .await
    }

    #[tokio::test]
    async fn the_api_is_served_over_tls_and_takes_a_new_certificate_while_it_runs() {
        _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let dir = tempfile::tempdir().unwrap();
        let (tls, trusted) = certificate(dir.path(), "metal.test");
        let mut config = Config::parse("{}", Path::new("test")).unwrap();
        config.state = dir.path().join("ironic.redb");
        config.tls = Some(tls);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = Arc::new(Server::start(&config).await.unwrap());
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let serving = tokio::spawn({
            let server = Arc::clone(&server);
            async move { server.serve(listener, async { _ = stopped.await }).await }
        });
        let document = ask(port, trusted.clone()).await.unwrap();
        let here = format!("https://metal.test:{port}/v1/nodes");
        assert_eq!(document["nodes"][0]["href"], here.as_str());
        let (_, renewed) = certificate(dir.path(), "metal.test");
        server.reload(&config).unwrap();
        assert!(
            ask(port, trusted).await.is_err(),
            "the old certificate is gone"
        );
        ask(port, renewed.clone()).await.unwrap();
        std::fs::write(dir.path().join("crt.pem"), "nonsense").unwrap();
        assert!(server.reload(&config).is_err());
        ask(port, renewed).await.unwrap();
        _ = stop.send(());
        tokio::time::timeout(Duration::from_secs(10), serving)
            .await
            .unwrap()
            .unwrap();
        server.stop().await;
    }
}
