//! What every request passes before it reaches the API: who it is, limits, numbers and the audit log.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::{HeaderValue, Method, Request, Response, StatusCode, header};
use bytes::Bytes;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::Incoming;
use jiff::Timestamp;
use objects::Status;
use objects::access::{Ask, Decision, User};
use tokio::sync::Semaphore;

use crate::api::kinds::Kinds;
use crate::api::request::{self, RequestInfo, Verb};
use crate::api::{Access as _, Api};
use crate::audit::{Audit, Entry};
use crate::auth::Auth;
use crate::metrics::Metrics;
use crate::store::Store;

/// As Kubernetes: large enough for any object.
const LARGEST_BODY: usize = 3 << 20;
const BODY_TIME: Duration = Duration::from_secs(30);
/// For all but watches.
const REQUEST_TIME: Duration = Duration::from_mins(1);
const IN_FLIGHT: usize = 512;
/// How long a request waits for its turn.
const TURN_TIME: Duration = Duration::from_secs(5);

pub struct Front {
    api: Api,
    auth: Arc<Auth>,
    store: Store,
    kinds: Arc<Kinds>,
    audit: Audit,
    metrics: Metrics,
    turns: Semaphore,
    ready: AtomicBool,
}

/// The other end of a connection.
pub struct Peer {
    pub address: IpAddr,
    /// From its certificate.
    pub user: Option<User>,
}

impl Front {
    pub fn new(api: Api, auth: Arc<Auth>, store: Store, kinds: Arc<Kinds>, audit: Audit) -> Self {
        Self {
            api,
            auth,
            store,
            kinds,
            audit,
            metrics: Metrics::default(),
            turns: Semaphore::new(IN_FLIGHT),
            ready: AtomicBool::new(false),
        }
    }

    /// Whether a balancer may send clients here.
    pub fn set_ready(&self, ready: bool) {
        self.ready.store(ready, Ordering::Relaxed);
    }

    pub async fn handle(
        &self,
        peer: &Peer,
        request: Request<Incoming>,
    ) -> Result<Response<Body>, Infallible> {
        let begun = Instant::now();
        let received = Timestamp::now();
        let info = request::parse(request.method(), request.uri());
        if let Some(answer) = self.health(&info, request.method()) {
            return Ok(answer);
        }
        let uri = request.uri().to_string();
        let agent = request.headers().get(header::USER_AGENT);
        let agent = agent.and_then(|agent| agent.to_str().ok());
        let agent = agent.unwrap_or_default().to_owned();
        let user = self.auth.identify(peer.user.as_ref(), request.headers());
        let response = match &user {
            Ok(user) => self.answer(user, &info, request).await,
            Err(status) => Err(status.clone()),
        };
        let response = response.unwrap_or_else(|status| refuse(&status));
        let code = response.status().as_u16();
        let known = info.resource.as_ref().is_some_and(|at| {
            let kinds = self.kinds.current();
            kinds.find(&at.group, &at.version, &at.plural).is_some()
        });
        self.metrics.note(&info, known, code, begun.elapsed());
        let entry = Entry {
            user: user.as_ref().ok(),
            info: &info,
            uri: &uri,
            user_agent: &agent,
            peer: peer.address,
            code,
            received,
        };
        self.audit.note(&entry).await;
        Ok(response)
    }

    /// What anybody may ask.
    fn health(&self, info: &RequestInfo, method: &Method) -> Option<Response<Body>> {
        if !matches!(*method, Method::GET | Method::HEAD) {
            return None;
        }
        let path = info.path.trim_end_matches('/');
        let problem = match path.split('/').nth(1)? {
            "livez" => None,
            "healthz" => self.store.health().err().map(|error| model::chain(&error)),
            "readyz" if !self.ready.load(Ordering::Relaxed) => Some("starting or stopping".into()),
            "readyz" => self.store.health().err().map(|error| model::chain(&error)),
            "version" => {
                let version = crate::api::version().to_string();
                return Some(plain(StatusCode::OK, "application/json", version));
            }
            _ => return None,
        };
        let (code, text) = match problem {
            None => (StatusCode::OK, "ok".to_owned()),
            Some(problem) => (
                StatusCode::INTERNAL_SERVER_ERROR,
                format!("not ok: {problem}\n"),
            ),
        };
        Some(plain(code, "text/plain; charset=utf-8", text))
    }

    async fn answer(
        &self,
        user: &User,
        info: &RequestInfo,
        request: Request<Incoming>,
    ) -> Result<Response<Body>, Status> {
        if info.path == "/metrics" {
            return self.show_metrics(user);
        }
        let request = whole(request).await?;
        if info.verb == Verb::Watch {
            return Ok(self.api.handle(user, request).await);
        }
        let turn = tokio::time::timeout(TURN_TIME, self.turns.acquire()).await;
        let Ok(Ok(_turn)) = turn else {
            let message = "too many requests, please try again later";
            return Err(Status::too_many_requests(message, 1));
        };
        let answered = tokio::time::timeout(REQUEST_TIME, self.api.handle(user, request));
        answered.await.map_err(|_| {
            Status::timeout("the request took too long; it may or may not have happened")
        })
    }

    fn show_metrics(&self, user: &User) -> Result<Response<Body>, Status> {
        let ask = Ask::Path {
            verb: "get",
            path: "/metrics",
        };
        if self.auth.decide(user, &ask) == Decision::NoOpinion {
            let why = format!("User {:?} cannot get path \"/metrics\"", user.name);
            let nothing = objects::Resource::default();
            return Err(Status::forbidden(&nothing, "", &why));
        }
        let in_flight = IN_FLIGHT - self.turns.available_permits();
        let text = self.metrics.render(&self.store, in_flight);
        Ok(plain(StatusCode::OK, "text/plain; version=0.0.4", text))
    }
}

/// Reads the body, within limits.
async fn whole(request: Request<Incoming>) -> Result<Request<Bytes>, Status> {
    let (parts, body) = request.into_parts();
    let body = Limited::new(body, LARGEST_BODY).collect();
    let body = tokio::time::timeout(BODY_TIME, body)
        .await
        .map_err(|_| Status::bad_request("the body did not come in time"))?
        .map_err(|error| {
            if error.is::<LengthLimitError>() {
                let limit =
                    format!("request body is larger than the limit of {LARGEST_BODY} bytes");
                return Status::too_large(limit);
            }
            Status::bad_request(format!("the body could not be read: {error}"))
        })?;
    Ok(Request::from_parts(parts, body.to_bytes()))
}

fn refuse(status: &Status) -> Response<Body> {
    let code = StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = plain(code, "application/json", status.to_value().to_string());
    let headers = response.headers_mut();
    if code == StatusCode::UNAUTHORIZED {
        let challenge = HeaderValue::from_static("Bearer");
        headers.insert(header::WWW_AUTHENTICATE, challenge);
    }
    let seconds = status.details.as_ref();
    let seconds = seconds.map_or(0, |details| details.retry_after_seconds);
    if seconds > 0 {
        headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

fn plain(code: StatusCode, media: &'static str, text: String) -> Response<Body> {
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = code;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
    headers.insert(
        header::CACHE_CONTROL,
        HeaderValue::from_static("no-cache, private"),
    );
    response
}
