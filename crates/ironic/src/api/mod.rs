//! Ironic's REST API.
//!
//! ```text
//!  bytes ─▶ version ─▶ auth ─▶ body limits ─▶ Request ─▶ route by path and method ─▶ Reply | Fault ─▶ bytes
//! ```
//!
//! Objects of the API are tables of fields (`field`); lists, patches and version rules work on those tables, and each
//! kind of object adds only what is its own.

mod allocations;
mod auth;
mod cell;
mod collection;
mod drivers;
mod fault;
mod field;
mod nodes;
mod patch;
mod portgroups;
mod ports;
mod ramdisk;
mod request;
mod root;
#[cfg(test)]
mod tests;
mod value;
mod version;
mod volume;

use std::sync::{Arc, PoisonError, RwLock};

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Limited};
use uuid::Uuid;

pub use auth::{Auth, Users};
pub use cell::Stamp;
use fault::Fault;
use field::Scope;
use request::{Query, Reply, Request, unescape};
use version::Version;

use crate::conductor::Conductor;
use crate::store::Store;

/// What the API is told by the configuration.
pub struct Options {
    /// Where clients see us, where that differs from what they call.
    pub public_endpoint: Option<String>,
    pub max_limit: usize,
    pub tls: bool,
    /// Whether agents may call.
    pub ramdisk_endpoints: bool,
}

pub struct Service {
    pub store: Arc<Store>,
    pub conductor: Arc<Conductor>,
    pub options: Options,
    auth: RwLock<Auth>,
}

impl Service {
    pub fn new(
        store: Arc<Store>,
        conductor: Arc<Conductor>,
        options: Options,
        auth: Auth,
    ) -> Arc<Self> {
        Arc::new(Self {
            store,
            conductor,
            options,
            auth: RwLock::new(auth),
        })
    }

    /// From now on these users, and no others, may call.
    pub fn set_auth(&self, auth: Auth) {
        *self.auth.write().unwrap_or_else(PoisonError::into_inner) = auth;
    }

    fn auth(&self) -> Auth {
        self.auth
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn scope<'a>(&'a self, request: &'a Request) -> Scope<'a> {
        Scope {
            base: &request.base,
            version: request.version,
            host: &self.conductor.options.host,
        }
    }
}

/// The whole API as a service for connections.
pub fn router(service: Arc<Service>) -> Router {
    Router::new().fallback(handle).with_state(service)
}

async fn handle(
    State(service): State<Arc<Service>>,
    request: axum::extract::Request,
) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let path = parts.uri.path();
    if let Some(answer) = health(&service, path) {
        return answer;
    }
    let version = match Version::negotiate(&parts.headers) {
        Ok(version) => version,
        Err(fault) => return finish(Err(fault), None),
    };
    let Some(mut elements) = split(path) else {
        return finish(Err(Fault::no_such_path()), Some(version));
    };
    if version.0 < 91
        && let Some(bare) = elements
            .last()
            .and_then(|last| last.strip_suffix(".json"))
            .map(str::to_owned)
    {
        elements.pop();
        elements.push(bare);
    }
    let base = request::base(
        service.options.public_endpoint.as_deref(),
        &parts.headers,
        service.options.tls,
    );
    let at_root = elements.is_empty();
    if elements.first().is_some_and(|first| first == "v1") {
        elements.remove(0);
    }
    if !open(&elements)
        && let Err(refusal) = service.auth().check(&parts.headers).await
    {
        return refused(&refusal);
    }
    let body = match read(body, limit(&elements)).await {
        Ok(body) => body,
        Err(fault) => return plain(&fault, version),
    };
    let query = match Query::parse(parts.uri.query().unwrap_or_default()) {
        Ok(query) => query,
        Err(fault) => return finish(Err(fault), Some(version)),
    };
    if at_root {
        let result = if parts.method == Method::GET {
            Ok(root::root(&base))
        } else {
            Err(Fault::method_not_allowed())
        };
        return finish(result, Some(version));
    }
    // HEAD is GET whose body the connection leaves out.
    let method = if parts.method == Method::HEAD {
        Method::GET
    } else {
        parts.method
    };
    let request = Request {
        method,
        path: elements,
        query,
        version,
        base,
        body,
    };
    let result = route(&service, &request).await;
    finish(result, Some(version))
}

async fn route(service: &Service, request: &Request) -> Result<Reply, Fault> {
    let path: Vec<&str> = request.path.iter().map(String::as_str).collect();
    let since = |since: u16| {
        if request.version.0 < since {
            Err(Fault::no_such_path())
        } else {
            Ok(())
        }
    };
    match path.as_slice() {
        [] if request.method == Method::GET => Ok(root::v1(request)),
        [] => Err(Fault::method_not_allowed()),
        ["nodes", rest @ ..] => nodes::route(service, request, rest).await,
        ["ports", rest @ ..] => ports::route(service, request, rest).await,
        ["portgroups", rest @ ..] => {
            since(23)?;
            portgroups::route(service, request, rest).await
        }
        ["drivers", rest @ ..] => drivers::route(service, request, rest),
        ["conductors", rest @ ..] => {
            since(49)?;
            drivers::conductors(service, request, rest)
        }
        ["allocations", rest @ ..] => {
            since(52)?;
            allocations::route(service, request, rest).await
        }
        ["lookup"] => {
            since(22)?;
            agents_may_call(service)?;
            ramdisk::lookup(service, request).await
        }
        ["heartbeat", ident] => {
            since(22)?;
            agents_may_call(service)?;
            ramdisk::heartbeat(service, request, ident).await
        }
        ["continue_inspection"] => {
            agents_may_call(service)?;
            ramdisk::continue_inspection(service, request).await
        }
        ["volume", rest @ ..] => {
            since(32)?;
            volume::list(request, rest)
        }
        ["chassis", rest @ ..] => volume::empty(request, "chassis", rest),
        ["shards"] => {
            since(82)?;
            shards(service)
        }
        ["events"] if request.method == Method::POST => {
            since(54)?;
            Ok(Reply::no_content())
        }
        ["deploy_templates", rest @ ..] => {
            since(55)?;
            volume::empty(request, "deploy_templates", rest)
        }
        ["runbooks", rest @ ..] => {
            since(92)?;
            volume::empty(request, "runbooks", rest)
        }
        ["inspection_rules", rest @ ..] => {
            since(96)?;
            volume::empty(request, "inspection_rules", rest)
        }
        _ => Err(Fault::no_such_path()),
    }
}

fn agents_may_call(service: &Service) -> Result<(), Fault> {
    if service.options.ramdisk_endpoints {
        return Ok(());
    }
    Err(Fault::forbidden(
        "The calls of agents are not served at this address.",
    ))
}

fn shards(service: &Service) -> Result<Reply, Fault> {
    let mut counts = std::collections::BTreeMap::<String, usize>::new();
    for shard in service
        .store
        .read()
        .nodes
        .all()
        .filter_map(|node| node.shard.clone())
    {
        *counts.entry(shard).or_default() += 1;
    }
    let shards: Vec<_> = counts
        .into_iter()
        .map(|(name, count)| serde_json::json!({"name": name, "count": count}))
        .collect();
    Ok(Reply::ok(&serde_json::json!({"shards": shards})))
}

fn check_trait(name: &str) -> Result<(), Fault> {
    nodes::check_trait(name)
}

/// Answers for whoever watches over the service; outside of versions and authentication.
fn health(service: &Service, path: &str) -> Option<Response<Body>> {
    let text = |status: StatusCode, text: String| {
        let mut answer = Response::new(Body::from(text));
        *answer.status_mut() = status;
        answer.headers_mut().insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("text/plain; charset=utf-8"),
        );
        answer
    };
    match path {
        "/healthz" | "/healthcheck" => Some(text(StatusCode::OK, "ok\n".into())),
        "/readyz" if service.store.healthy() => Some(text(StatusCode::OK, "ok\n".into())),
        "/readyz" => Some(text(
            StatusCode::SERVICE_UNAVAILABLE,
            "the store cannot be written\n".into(),
        )),
        "/metrics" => Some(text(StatusCode::OK, metrics(service))),
        _ => None,
    }
}

fn metrics(service: &Service) -> String {
    let tables = service.store.read();
    let mut states = std::collections::BTreeMap::<&str, usize>::new();
    for node in tables.nodes.all() {
        *states.entry(node.life.state.as_str()).or_default() += 1;
    }
    let mut text =
        "# HELP ironic_nodes Nodes by provision state.\n# TYPE ironic_nodes gauge\n".to_owned();
    for (state, count) in states {
        text.push_str(&format!("ironic_nodes{{state=\"{state}\"}} {count}\n"));
    }
    text.push_str("# HELP ironic_ports Ports of all nodes.\n# TYPE ironic_ports gauge\n");
    text.push_str(&format!("ironic_ports {}\n", tables.ports.len()));
    text.push_str("# HELP ironic_store_writable Whether the disk takes what is written.\n# TYPE ironic_store_writable gauge\n");
    drop(tables);
    text.push_str(&format!(
        "ironic_store_writable {}\n",
        u8::from(service.store.healthy())
    ));
    text
}

/// The elements of a path; nothing where it cannot be decoded.
fn split(path: &str) -> Option<Vec<String>> {
    path.split('/')
        .filter(|element| !element.is_empty())
        .map(unescape)
        .collect()
}

/// Whether a path is for everyone.
fn open(path: &[String]) -> bool {
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    matches!(
        path.as_slice(),
        [] | ["lookup"] | ["heartbeat", _] | ["continue_inspection"]
    )
}

/// How large a body may be: config drives and inventories are larger than the rest.
fn limit(path: &[String]) -> usize {
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    match path.as_slice() {
        ["nodes", _, "states", "provision"] => 64 << 20,
        ["continue_inspection"] => 16 << 20,
        _ => 1 << 20,
    }
}

/// How deep JSON may be nested, and how long a client may take to send it.
const DEPTH: usize = 25;
const BODY_TIME: std::time::Duration = std::time::Duration::from_secs(60);

async fn read(body: Body, limit: usize) -> Result<Bytes, Fault> {
    let read = tokio::time::timeout(BODY_TIME, Limited::new(body, limit).collect()).await;
    let read = read.map_err(|_| {
        Fault::new(
            StatusCode::REQUEST_TIMEOUT,
            "The body took too long to arrive.",
        )
    })?;
    let body = match read {
        Ok(body) => body.to_bytes(),
        Err(error) if error.is::<http_body_util::LengthLimitError>() => {
            return Err(Fault::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                format!("The body is larger than {limit} bytes."),
            ));
        }
        Err(_) => return Err(Fault::bad_request("The body did not arrive whole.")),
    };
    if too_deep(&body) {
        return Err(Fault::bad_request(format!(
            "The body is nested deeper than {DEPTH} levels."
        )));
    }
    Ok(body)
}

/// Counts brackets outside of texts, so that a parser is never given what could exhaust it.
fn too_deep(body: &[u8]) -> bool {
    let (mut depth, mut in_text, mut escaped) = (0_usize, false, false);
    for byte in body {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_text => escaped = true,
            b'"' => in_text = !in_text,
            b'{' | b'[' if !in_text => {
                depth += 1;
                if depth > DEPTH {
                    return true;
                }
            }
            b'}' | b']' if !in_text => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    false
}

fn finish(result: Result<Reply, Fault>, version: Option<Version>) -> Response<Body> {
    let (status, body, location) = match result {
        Ok(Reply {
            status,
            body,
            location,
        }) => (status, body, location),
        Err(fault) => {
            if fault.status().is_server_error() {
                tracing::warn!(
                    status = fault.status().as_u16(),
                    text = fault.text(),
                    "request failed"
                );
            }
            (fault.status(), Some(fault.body()), None)
        }
    };
    let refused = status == StatusCode::NOT_ACCEPTABLE;
    let mut answer = answer(status, body, version.filter(|_| !refused));
    if let Some(location) = location.and_then(|location| HeaderValue::try_from(location).ok()) {
        answer.headers_mut().insert(header::LOCATION, location);
    }
    answer
}

/// A guard's refusal is the bare document, not the text inside another.
fn plain(fault: &Fault, version: Version) -> Response<Body> {
    answer(
        fault.status(),
        Some(fault.document().to_string().into_bytes()),
        Some(version),
    )
}

fn refused(refusal: &auth::Refusal) -> Response<Body> {
    let mut answer = answer(refusal.status, Some(refusal.body()), None);
    if refusal.status == StatusCode::UNAUTHORIZED {
        let realm = HeaderValue::from_static("Basic realm=\"Baremetal API\"");
        answer.headers_mut().insert(header::WWW_AUTHENTICATE, realm);
    }
    answer
}

fn answer(status: StatusCode, body: Option<Vec<u8>>, version: Option<Version>) -> Response<Body> {
    let has_body = body.is_some();
    let mut answer = Response::new(body.map_or_else(Body::empty, Body::from));
    *answer.status_mut() = status;
    let headers: &mut HeaderMap = answer.headers_mut();
    if has_body {
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/json"),
        );
    }
    version::announce(headers, version);
    let id = HeaderValue::try_from(format!("req-{}", Uuid::new_v4()))
        .expect("hexadecimal digits and dashes");
    if version.is_some_and(|version| version.0 >= 107) {
        headers.insert("x-openstack-request-id", id.clone());
    }
    headers.insert("openstack-request-id", id);
    headers.insert(
        header::ACCESS_CONTROL_EXPOSE_HEADERS,
        HeaderValue::from_static(
            "X-OpenStack-Ironic-API-Version, X-OpenStack-Ironic-API-Minimum-Version, X-OpenStack-Ironic-API-Maximum-Version",
        ),
    );
    answer
}
