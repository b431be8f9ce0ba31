//! Who gets what.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use axum::extract::{Extension, Path, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Router, extract};
use jiff::Timestamp;
use sha2::{Digest, Sha256};
use tracing::{error, info, warn};

use crate::config::Config;
use crate::ledger::{Ledger, Served, Use, Verdict};
use crate::version;
use crate::{files, payload};

pub struct Service {
    pub config: RwLock<Arc<Config>>,
    pub ledger: Mutex<Ledger>,
}

/// Where a request comes from.
#[derive(Debug, Clone, Copy)]
pub struct Peer(pub SocketAddr);

pub fn app(service: Arc<Service>) -> Router {
    Router::new()
        .route("/config/{pool}", get(config).fallback(refuse_method))
        .route("/files/{name}", get(file).fallback(refuse_method))
        .route("/payload", get(payload_list).fallback(refuse_method))
        .route("/healthz", get(async || "ok\n").fallback(refuse_method))
        .route("/readyz", get(ready).fallback(refuse_method))
        .fallback(async || (StatusCode::NOT_FOUND, "there is nothing here\n"))
        .with_state(service)
}

/// For anybody, without TLS: files of the payload and nothing else.
pub fn public(service: Arc<Service>) -> Router {
    Router::new()
        .route("/files/{name}", get(public_file).fallback(refuse_method))
        .fallback(async || (StatusCode::NOT_FOUND, "there is nothing here\n"))
        .with_state(service)
}

async fn refuse_method() -> Response {
    let allow = [(header::ALLOW, "GET, HEAD")];
    (StatusCode::METHOD_NOT_ALLOWED, allow, "only GET and HEAD\n").into_response()
}

/// Ready when every config can be read.
async fn ready(State(service): State<Arc<Service>>) -> Response {
    let config = service.config();
    for path in config
        .pools
        .iter()
        .map(|pool| &pool.config)
        .chain(config.hosts.iter().map(|host| &host.config))
    {
        if tokio::fs::metadata(path).await.is_err() {
            return (StatusCode::SERVICE_UNAVAILABLE, "a config is missing\n").into_response();
        }
    }
    "ok\n".into_response()
}

/// The one whose secret was shown.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Bearer {
    Pool {
        name: String,
        config: PathBuf,
    },
    Host {
        name: String,
        pool: String,
        token_sha256: String,
        config: PathBuf,
    },
    /// Gets files, and no config.
    Reader {
        name: String,
    },
}

impl Bearer {
    fn name(&self) -> &str {
        match self {
            Self::Pool { name, .. } | Self::Host { name, .. } | Self::Reader { name } => name,
        }
    }

    /// What it may have of this pool.
    fn config_of(&self, asked: &str) -> Option<&PathBuf> {
        match self {
            Self::Pool { name, config } if name == asked => Some(config),
            Self::Host { pool, config, .. } if pool == asked => Some(config),
            Self::Pool { .. } | Self::Host { .. } | Self::Reader { .. } => None,
        }
    }
}

impl Service {
    fn config(&self) -> Arc<Config> {
        Arc::clone(&self.config.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Secrets are compared by their hash: what an attacker learns by timing is of no use.
    fn bearer(&self, headers: &HeaderMap) -> Option<Bearer> {
        let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
        let (scheme, token) = value.split_once(' ')?;
        if !scheme.eq_ignore_ascii_case("bearer") {
            return None;
        }
        let shown: String = Sha256::digest(token.trim())
            .iter()
            .fold(String::new(), |hex, byte| format!("{hex}{byte:02x}"));
        let config = self.config();
        if let Some(pool) = config.pools.iter().find(|pool| pool.secret_sha256 == shown) {
            return Some(Bearer::Pool {
                name: pool.name.clone(),
                config: pool.config.clone(),
            });
        }
        let mut readers = config.readers.iter();
        if let Some(reader) = readers.find(|reader| reader.secret_sha256 == shown) {
            return Some(Bearer::Reader {
                name: reader.name.clone(),
            });
        }
        config
            .hosts
            .iter()
            .find(|host| host.token_sha256 == shown)
            .map(|host| Bearer::Host {
                name: host.name.clone(),
                pool: host.pool.clone(),
                token_sha256: shown.clone(),
                config: host.config.clone(),
            })
    }

    /// Whether the token still opens anything for this client; spends it if `spend`.
    fn admit(&self, bearer: &Bearer, peer: IpAddr, spend: bool) -> Result<(), Box<Response>> {
        let Bearer::Host {
            name, token_sha256, ..
        } = bearer
        else {
            return Ok(());
        };
        let now = Timestamp::now();
        let window = self.config().retry_window;
        let mut ledger = self.ledger.lock().unwrap_or_else(PoisonError::into_inner);
        match ledger.verdict(token_sha256, peer, now, window) {
            Verdict::Retry => Ok(()),
            Verdict::Fresh if !spend => Ok(()),
            Verdict::Fresh => {
                let first = Use {
                    token_sha256: token_sha256.clone(),
                    host: name.clone(),
                    peer,
                    at: now,
                };
                ledger.spend(first).map_err(|error| {
                    error!(
                        host = name,
                        error = model::chain(&error),
                        "could not remember a used token"
                    );
                    (
                        StatusCode::INTERNAL_SERVER_ERROR,
                        "the token could not be recorded\n",
                    )
                        .into_response()
                        .into()
                })
            }
            Verdict::Used(first) => {
                warn!(host = name, %peer, used_by = %first.peer, used_at = %first.at, "a used token was shown again");
                Err(Box::new(
                    (StatusCode::FORBIDDEN, "this token was used already\n").into_response(),
                ))
            }
        }
    }

    fn note(&self, served: &Served) {
        info!(to = served.to, peer = %served.peer, what = served.what, bytes = served.bytes, "served");
        let ledger = self.ledger.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = ledger.note(served) {
            warn!(
                error = model::chain(&error),
                "could not write down what was served"
            );
        }
    }
}

fn unauthorized(peer: IpAddr, what: &str) -> Response {
    warn!(%peer, what, "refused: no valid token");
    let challenge = [(header::WWW_AUTHENTICATE, "Bearer")];
    (
        StatusCode::UNAUTHORIZED,
        challenge,
        "show the token of a pointer config\n",
    )
        .into_response()
}

async fn config(
    State(service): State<Arc<Service>>,
    Extension(Peer(peer)): Extension<Peer>,
    Path(pool): Path<String>,
    method: Method,
    headers: HeaderMap,
) -> Response {
    let peer = peer.ip().to_canonical();
    let what = format!("config/{}", pool.chars().take(64).collect::<String>());
    if !service
        .config()
        .pools
        .iter()
        .any(|known| known.name == pool)
    {
        return (StatusCode::NOT_FOUND, "there is no such pool\n").into_response();
    }
    let Some(bearer) = service.bearer(&headers) else {
        return unauthorized(peer, &what);
    };
    let Some(source) = bearer.config_of(&pool) else {
        warn!(%peer, to = bearer.name(), what, "refused: the token is for another pool");
        return (StatusCode::FORBIDDEN, "this token is for another pool\n").into_response();
    };
    let accept = headers
        .get(header::ACCEPT)
        .map(|value| value.to_str().unwrap_or("\u{fffd}"));
    let wanted = match version::asked(accept) {
        Ok(wanted) => wanted,
        Err(error) => return (StatusCode::BAD_REQUEST, format!("{error}\n")).into_response(),
    };
    let body = match read(source)
        .await
        .and_then(|config| version::convert(config, wanted).map_err(|error| error.to_string()))
    {
        Ok(config) => config.to_string(),
        Err(problem) => {
            error!(to = bearer.name(), what, problem, "could not make a config");
            return (
                StatusCode::INTERNAL_SERVER_ERROR,
                "the config cannot be served; see the log\n",
            )
                .into_response();
        }
    };
    // Asking how large it is uses nothing up.
    let head = method == Method::HEAD;
    if let Err(refusal) = service.admit(&bearer, peer, !head) {
        return *refusal;
    }
    if !head {
        service.note(&Served {
            at: Timestamp::now(),
            peer,
            what,
            to: bearer.name().to_owned(),
            bytes: body.len() as u64,
        });
    }
    (
        [
            (header::CONTENT_TYPE, version::MEDIA_TYPE),
            (header::CACHE_CONTROL, "no-store"),
        ],
        body,
    )
        .into_response()
}

/// Larger than any config we make.
const LARGEST_CONFIG: u64 = 64 << 20;

async fn read(path: &std::path::Path) -> Result<serde_json::Value, String> {
    let error = |error: std::io::Error| format!("could not read {}: {error}", path.display());
    if tokio::fs::metadata(path).await.map_err(error)?.len() > LARGEST_CONFIG {
        return Err(format!("{} is too large", path.display()));
    }
    let bytes = tokio::fs::read(path).await.map_err(error)?;
    // The parser's words may quote the file, which holds keys.
    serde_json::from_slice(&bytes).map_err(|_| format!("{} is not JSON", path.display()))
}

async fn file(
    State(service): State<Arc<Service>>,
    Extension(Peer(peer)): Extension<Peer>,
    Path(name): Path<String>,
    request: extract::Request,
) -> Response {
    let peer = peer.ip().to_canonical();
    let what = format!("files/{}", name.chars().take(64).collect::<String>());
    let Some(bearer) = service.bearer(request.headers()) else {
        return unauthorized(peer, &what);
    };
    // A file is fetched after the config: its first client may go on with a token that is spent.
    if let Err(refusal) = service.admit(&bearer, peer, false) {
        return *refusal;
    }
    let head = *request.method() == Method::HEAD;
    let config = service.config();
    let places = files::Places {
        files: Some(&config.files),
        payload: &config.payload,
    };
    let (response, bytes) = files::serve(&places, &name, request.headers(), head).await;
    if response.status().is_success() && !head {
        service.note(&Served {
            at: Timestamp::now(),
            peer,
            what,
            to: bearer.name().to_owned(),
            bytes,
        });
    }
    response
}

async fn public_file(
    State(service): State<Arc<Service>>,
    Extension(Peer(peer)): Extension<Peer>,
    Path(name): Path<String>,
    request: extract::Request,
) -> Response {
    let config = service.config();
    if payload::read(&config.payload).await.is_none() {
        // Whoever asks comes again: it is on its way.
        return (StatusCode::SERVICE_UNAVAILABLE, "not here yet\n").into_response();
    }
    let head = *request.method() == Method::HEAD;
    let places = files::Places {
        files: None,
        payload: &config.payload,
    };
    let (response, bytes) = files::serve(&places, &name, request.headers(), head).await;
    if response.status().is_success() && !head {
        let what = format!("files/{}", name.chars().take(64).collect::<String>());
        info!(peer = %peer.ip().to_canonical(), what, bytes, "served to anybody");
    }
    response
}

/// The list of what the cluster carries, once all of it is here.
async fn payload_list(
    State(service): State<Arc<Service>>,
    Extension(Peer(peer)): Extension<Peer>,
    headers: HeaderMap,
) -> Response {
    let peer = peer.ip().to_canonical();
    let Some(bearer) = service.bearer(&headers) else {
        return unauthorized(peer, "payload");
    };
    if let Err(refusal) = service.admit(&bearer, peer, false) {
        return *refusal;
    }
    match payload::read(&service.config().payload).await {
        Some(index) => axum::Json(index).into_response(),
        None => (StatusCode::NOT_FOUND, "the payload is not here\n").into_response(),
    }
}
